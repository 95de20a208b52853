/* Who a connection belongs to, and how it moves.
 *
 * The policy may change under a session at any time, so nothing of it is pointed to: the session remembers a name,
 * where the name stood, and what the policy kept of the secret, and looks again before each batch of requests. A user
 * who has gone, or whose secret is another one now, is logged out: whoever takes away a stolen password wants its
 * connections to lose it too. One who has other roles has those from the next request on.
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

static bool is_still(const struct sl_resp_session *session, const struct sl_user *user) {
	return sl_bytes_equal(user->name, sl_str(session->user)) &&
	       memcmp(user->secret.hash, session->user_hash, sizeof session->user_hash) == 0;
}

static const struct sl_user *find_user(struct sl_resp_session *session, const struct sl_settings *settings) {
	if (session->user_index < settings->user_count && is_still(session, &settings->users[session->user_index]))
		return &settings->users[session->user_index];
	for (uint32_t i = 0; i < settings->user_count; i++)
		if (is_still(session, &settings->users[i])) {
			session->user_index = (uint16_t)i;
			return &settings->users[i];
		}
	return NULL;
}

void sl_resp_session_judge(struct sl_resp_session *session, const struct sl_door_context *context) {
	bool guarded = sl_resp_is_guarded(context);
	const struct sl_user *user = NULL;
	if (session->logged_in) {
		user = guarded ? find_user(session, sl_policy_settings(context->policy)) : NULL;
		if (user == NULL)
			sl_resp_session_logout(session);
	}
	session->roles = !guarded       ? SL_ROLE_ALL
	                 : user != NULL ? sl_access_roles(user)
	                                : sl_access_anonymous(context->policy);
}

void sl_resp_session_login(struct sl_resp_session *session, const struct sl_settings *settings,
                           const struct sl_user *user) {
	SL_ASSERT(user->name.len <= SLUICE_NAME_BYTES_MAX);
	session->logged_in = true;
	session->roles = sl_access_roles(user);
	session->user_index = (uint16_t)(user - settings->users);
	memcpy(session->user_hash, user->secret.hash, sizeof session->user_hash);
	memcpy(session->user, user->name.data, user->name.len);
	session->user[user->name.len] = '\0';
}

void sl_resp_session_logout(struct sl_resp_session *session) {
	session->logged_in = false;
	memcpy(session->user, "default", sizeof "default");
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
	sl_out_char(&out, (char)((session->logged_in ? FLAG_LOGGED_IN : 0) | (session->silent ? FLAG_SILENT : 0) |
	                         (session->skip ? FLAG_SKIP : 0)));
	put_text(&out, session->user);
	sl_out_bytes(&out, session->user_hash, sizeof session->user_hash);
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
	             take(&rest, &flags, 1) && take_text(&rest, session->user, SLUICE_NAME_BYTES_MAX) &&
	             take(&rest, session->user_hash, sizeof session->user_hash) &&
	             take_text(&rest, session->name, SL_RESP_NAME_BYTES_MAX) &&
	             take_text(&rest, session->lib_name, SL_RESP_NAME_BYTES_MAX) &&
	             take_text(&rest, session->lib_version, SL_RESP_NAME_BYTES_MAX) && rest.len == 0;
	session->logged_in = (flags & FLAG_LOGGED_IN) != 0;
	session->silent = (flags & FLAG_SILENT) != 0;
	session->skip = (flags & FLAG_SKIP) != 0;
	return whole && (flags & ~FLAGS_ALL) == 0 && (session->protocol == 2 || session->protocol == 3);
}
