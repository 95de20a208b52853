/* Who a connection belongs to, and how it moves.
 *
 * The policy may change under a session at any time: the session looks again before each batch of requests
 * (sl_login_judge()). Who has other roles has those from the next request on.
 *
 * A session that goes to another process of the program (an upgrade without a pause) is written as
 *
 *   "R1" id(8) opened(8) protocol(1) flags(1) user hash(32) name lib-name lib-version
 *
 * with numbers in the machine's own order, and texts as one byte of length and the bytes: 475 bytes at most. It carries
 * no secret: the hash is what stands in the policy file. */
#include "base/assert.h"
#include "hosts/server/resp/resp.h"

enum { FLAG_LOGGED_IN = 1, FLAG_SILENT = 2, FLAG_SKIP = 4, FLAGS_ALL = 7 };

static const char mark[2] = "R1";

_Static_assert(2 + 8 + 8 + 1 + 1 + 32 + 4 + SLUICE_NAME_BYTES_MAX + 3 * SL_RESP_NAME_BYTES_MAX <= SL_DOOR_PACK_MAX,
               "a session fits");

bool sl_resp_is_guarded(const struct sl_door_context *context) {
	return context->shared != NULL && context->shared->access != NULL &&
	       sl_policy_settings(context->policy)->user_count != 0;
}

void sl_resp_session_judge(struct sl_resp_session *session, const struct sl_door_context *context) {
	bool was = session->login.logged_in;
	if (sl_resp_is_guarded(context)) {
		session->roles = sl_login_judge(&session->login, context->policy);
	} else {
		session->login.logged_in = false;
		session->roles = SL_ROLE_ALL;
	}
	if (was && !session->login.logged_in)
		sl_resp_session_logout(session);
}

void sl_resp_session_logout(struct sl_resp_session *session) {
	session->login.logged_in = false;
	memcpy(session->login.user, "default", sizeof "default");
}

void sl_resp_session_name_client(const struct sl_resp_session *session, struct sl_door_context *context) {
	sl_door_name_client(context, sl_str(session->lib_name), sl_str(session->lib_version));
}

/* ---- to another process ---------------------------------------------------------------------------------------- */

static void put_text(struct sl_out *out, const char *text) {
	size_t len = strlen(text);
	sl_out_char(out, (char)len);
	sl_out_bytes(out, text, len);
}

size_t sl_resp_session_pack(const void *state, char *bytes) {
	const struct sl_resp_session *session = state;
	struct sl_out out = sl_out_to(bytes, SL_DOOR_PACK_MAX);
	sl_out_bytes(&out, mark, sizeof mark);
	sl_out_bytes(&out, &session->id, sizeof session->id);
	sl_out_bytes(&out, &session->opened, sizeof session->opened);
	sl_out_char(&out, (char)session->protocol);
	sl_out_char(&out, (char)((session->login.logged_in ? FLAG_LOGGED_IN : 0) | (session->silent ? FLAG_SILENT : 0) |
	                         (session->skip ? FLAG_SKIP : 0)));
	put_text(&out, session->login.user);
	sl_out_bytes(&out, session->login.hash, sizeof session->login.hash);
	put_text(&out, session->name);
	put_text(&out, session->lib_name);
	put_text(&out, session->lib_version);
	SL_ASSERT(!out.overflow);
	return sl_out_len(&out);
}

static bool take(struct sluice_bytes *rest, void *to, size_t len) {
	if (rest->len < len)
		return false;
	memcpy(to, rest->data, len);
	*rest = sl_slice((const char *)rest->data + len, rest->len - len);
	return true;
}

/* A text of printable ASCII, as all that a session keeps. */
static bool take_text(struct sluice_bytes *rest, char *text, size_t most) {
	uint8_t len;
	if (!take(rest, &len, 1) || len > most || !take(rest, text, len))
		return false;
	text[len] = '\0';
	for (size_t i = 0; i < len; i++)
		if (text[i] < '!' || text[i] > '~')
			return false;
	return true;
}

bool sl_resp_session_unpack(struct sl_resp_session *session, const char *bytes, size_t len) {
	struct sluice_bytes rest = sl_slice(bytes, len);
	char begin[sizeof mark];
	uint8_t flags = 0;
	bool whole = take(&rest, begin, sizeof begin) && memcmp(begin, mark, sizeof mark) == 0 &&
	             take(&rest, &session->id, sizeof session->id) &&
	             take(&rest, &session->opened, sizeof session->opened) && take(&rest, &session->protocol, 1) &&
	             take(&rest, &flags, 1) && take_text(&rest, session->login.user, SLUICE_NAME_BYTES_MAX) &&
	             take(&rest, session->login.hash, sizeof session->login.hash) &&
	             take_text(&rest, session->name, SL_RESP_NAME_BYTES_MAX) &&
	             take_text(&rest, session->lib_name, SL_RESP_NAME_BYTES_MAX) &&
	             take_text(&rest, session->lib_version, SL_RESP_NAME_BYTES_MAX) && rest.len == 0;
	session->login.logged_in = (flags & FLAG_LOGGED_IN) != 0;
	session->silent = (flags & FLAG_SILENT) != 0;
	session->skip = (flags & FLAG_SKIP) != 0;
	return whole && (flags & ~FLAGS_ALL) == 0 && (session->protocol == 2 || session->protocol == 3);
}
