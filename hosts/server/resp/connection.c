/* What clients send to get to know a server, and to keep it awake: HELLO, AUTH, PING, CLIENT and the like, answered as
 * Redis 7.0.15 answers them. There is one database. Where no users are configured, `default` may authenticate with any
 * password, as in a Redis without one. Where there are, AUTH with a secret alone means the user `default`, or, if none
 * is called so, whoever has that token. */
#include "hosts/server/door/tailing.h"
#include "hosts/server/resp/resp.h"

#include <stdio.h>
#include <stdlib.h>

/* What clients look at to know what a server can do: a Redis of the protocol and the commands that we have. Our own
 * version stands in INFO. */
#define REDIS_VERSION "7.0.15"

static bool is_word(struct sluice_bytes text, const char *word) {
	return sl_bytes_equal_nocase(text, word);
}

/* A name as Redis allows it: printable, no spaces. */
static bool read_name(struct sl_resp_turn *turn, struct sluice_bytes text, char name[SL_RESP_NAME_BYTES_MAX + 1],
                      const char *refusal) {
	const char *p = text.data;
	for (size_t i = 0; i < text.len; i++)
		if (p[i] < '!' || p[i] > '~') {
			sl_reply_error(turn, "%s", refusal);
			return false;
		}
	if (text.len > SL_RESP_NAME_BYTES_MAX) {
		sl_reply_error(turn, "ERR the name has %zu bytes: at most %d are allowed", text.len, SL_RESP_NAME_BYTES_MAX);
		return false;
	}
	if (text.len != 0)
		memcpy(name, text.data, text.len);
	name[text.len] = '\0';
	return true;
}

static bool read_client_name(struct sl_resp_turn *turn, struct sluice_bytes text,
                             char name[SL_RESP_NAME_BYTES_MAX + 1]) {
	return read_name(turn, text, name, "ERR Client names cannot contain spaces, newlines or special characters.");
}

/* ---- HELLO, AUTH, RESET --------------------------------------------------------------------------------------- */

static bool refuse_wrong(struct sl_resp_turn *turn) {
	sl_reply_error(turn, "WRONGPASS invalid username-password pair or user is disabled.");
	return false;
}

static struct sluice_bytes peer_text(const struct sl_resp_turn *turn) {
	return sl_str(turn->context->peer.text == NULL ? "" : turn->context->peer.text);
}

static bool has_user(const struct sl_settings *settings, struct sluice_bytes name) {
	for (uint32_t i = 0; i < settings->user_count; i++)
		if (sl_bytes_equal(settings->users[i].name, name))
			return true;
	return false;
}

/* Logs in; `name` NULL: by the secret alone. Says why not. Who is logged in already stays that if it fails. */
static bool log_in(struct sl_resp_turn *turn, const struct sluice_bytes *name, struct sluice_bytes secret) {
	const struct sl_door_context *context = turn->context;
	const struct sl_settings *settings = sl_policy_settings(context->policy);
	struct sluice_bytes standard = sl_str("default");
	struct sl_login login;
	if (!sl_resp_is_guarded(context))
		return sl_bytes_equal(name == NULL ? standard : *name, standard) || refuse_wrong(turn);
	if (name == NULL && has_user(settings, standard))
		name = &standard;
	if (name == NULL)
		login = sl_access_bearer(context->shared->access, context->policy, secret, peer_text(turn), context->now);
	else
		login = sl_access_login(context->shared->access, context->policy, *name, secret, peer_text(turn), context->now);
	if (login.result == SL_LOGIN_OK) {
		sl_login_keep(&turn->session->login, settings, login.user);
		turn->session->roles = sl_access_roles(login.user);
		return true;
	}
	if (login.result == SL_LOGIN_WRONG)
		return refuse_wrong(turn);
	sl_reply_error(turn, "ERR too many failed logins from this address: retry in %lld s",
	               (long long)sl_ns_to_s_ceil(login.retry_after_ns));
	return false;
}

static void describe(struct sl_resp_turn *turn) {
	sl_reply_map(turn, 7);
	sl_reply_text(turn, "server");
	sl_reply_text(turn, "redis");
	sl_reply_text(turn, "version");
	sl_reply_text(turn, REDIS_VERSION);
	sl_reply_text(turn, "proto");
	sl_reply_integer(turn, turn->session->protocol);
	sl_reply_text(turn, "id");
	sl_reply_integer(turn, (int64_t)turn->session->id);
	sl_reply_text(turn, "mode");
	sl_reply_text(turn, "standalone");
	sl_reply_text(turn, "role");
	sl_reply_text(turn, "master");
	sl_reply_text(turn, "modules");
	sl_reply_array(turn, 0);
}

/* HELLO's options from `index` on; the name, if there is one, goes to `name`. */
static bool read_hello(struct sl_resp_turn *turn, uint32_t index, char name[SL_RESP_NAME_BYTES_MAX + 1], bool *named) {
	uint32_t count = turn->request->count;
	while (index < count) {
		struct sluice_bytes option = sl_resp_arg(turn, index);
		if (is_word(option, "auth") && index + 2 < count) {
			struct sluice_bytes user = sl_resp_arg(turn, index + 1);
			if (!log_in(turn, &user, sl_resp_arg(turn, index + 2)))
				return false;
			index += 3;
		} else if (is_word(option, "setname") && index + 1 < count) {
			if (!read_client_name(turn, sl_resp_arg(turn, index + 1), name))
				return false;
			*named = true;
			index += 2;
		} else {
			sl_reply_error(turn, "ERR Syntax error in HELLO option %s", sl_shown(option).text);
			return false;
		}
	}
	return true;
}

void sl_resp_hello(struct sl_resp_turn *turn) {
	struct sl_resp_session *session = turn->session;
	char name[SL_RESP_NAME_BYTES_MAX + 1];
	int64_t protocol = session->protocol;
	bool named = false;
	if (turn->request->count > 1 && !sl_resp_to_i64(sl_resp_arg(turn, 1), &protocol)) {
		sl_reply_error(turn, "ERR Protocol version is not an integer or out of range");
		return;
	}
	if (protocol != 2 && protocol != 3) {
		sl_reply_error(turn, "NOPROTO unsupported protocol version");
		return;
	}
	if (!read_hello(turn, 2, name, &named))
		return;
	if (session->roles == 0) {
		sl_reply_error(turn, "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
		                     "AUTH <user> <pass> option can be used to authenticate the client and select the RESP "
		                     "protocol version at the same time");
		return;
	}
	session->protocol = (uint8_t)protocol;
	if (named)
		memcpy(session->name, name, sizeof name);
	describe(turn);
}

void sl_resp_auth(struct sl_resp_turn *turn) {
	struct sluice_bytes user = sl_resp_arg(turn, 1);
	bool alone = turn->request->count == 2;
	if (turn->request->count > 3)
		sl_reply_error(turn, "ERR syntax error");
	else if (alone && !sl_resp_is_guarded(turn->context))
		sl_reply_error(turn, "ERR AUTH <password> called without any password configured for the default user. "
		                     "Are you sure your configuration is correct?");
	else if (log_in(turn, alone ? NULL : &user, sl_resp_arg(turn, turn->request->count - 1)))
		sl_reply_status(turn, "OK");
}

void sl_resp_reset(struct sl_resp_turn *turn) {
	turn->session->protocol = 2;
	turn->session->silent = turn->session->skip = false;
	sl_tailing_end(turn->context);
	turn->session->name[0] = '\0';
	sl_resp_session_logout(turn->session);
	sl_resp_session_judge(turn->session, turn->context);
	sl_reply_status(turn, "RESET");
}

/* ---- the small ones ------------------------------------------------------------------------------------------- */

void sl_resp_ping(struct sl_resp_turn *turn) {
	if (turn->request->count > 2)
		sl_reply_error(turn, "ERR wrong number of arguments for 'ping' command");
	else if (turn->request->count == 2)
		sl_reply_bulk(turn, sl_resp_arg(turn, 1));
	else
		sl_reply_status(turn, "PONG");
}

void sl_resp_echo(struct sl_resp_turn *turn) {
	sl_reply_bulk(turn, sl_resp_arg(turn, 1));
}

void sl_resp_quit(struct sl_resp_turn *turn) {
	sl_reply_status(turn, "OK");
	turn->close = true;
}

void sl_resp_drop(struct sl_resp_turn *turn) {
	turn->close = true;
}

void sl_resp_select(struct sl_resp_turn *turn) {
	int64_t number;
	if (!sl_resp_to_i64(sl_resp_arg(turn, 1), &number))
		sl_reply_error(turn, "ERR value is not an integer or out of range");
	else if (number != 0)
		sl_reply_error(turn, "ERR DB index is out of range");
	else
		sl_reply_status(turn, "OK");
}

void sl_resp_time(struct sl_resp_turn *turn) {
	char text[24];
	sluice_ns now = turn->context->now;
	sl_reply_array(turn, 2);
	snprintf(text, sizeof text, "%llu", (unsigned long long)(now / 1000000000));
	sl_reply_text(turn, text);
	snprintf(text, sizeof text, "%llu", (unsigned long long)(now % 1000000000 / 1000));
	sl_reply_text(turn, text);
}

/* ---- CLIENT --------------------------------------------------------------------------------------------------- */

void sl_resp_client_id(struct sl_resp_turn *turn) {
	sl_reply_integer(turn, (int64_t)turn->session->id);
}

void sl_resp_client_getname(struct sl_resp_turn *turn) {
	if (turn->session->name[0] == '\0')
		sl_reply_null(turn);
	else
		sl_reply_text(turn, turn->session->name);
}

void sl_resp_client_setname(struct sl_resp_turn *turn) {
	if (read_client_name(turn, sl_resp_arg(turn, 2), turn->session->name))
		sl_reply_status(turn, "OK");
}

void sl_resp_client_setinfo(struct sl_resp_turn *turn) {
	struct sluice_bytes option = sl_resp_arg(turn, 2), value = sl_resp_arg(turn, 3);
	char *to = is_word(option, "lib-name")  ? turn->session->lib_name
	           : is_word(option, "lib-ver") ? turn->session->lib_version
	                                        : NULL;
	if (to == NULL)
		sl_reply_error(turn, "ERR Unrecognized option %s", sl_shown(option).text);
	else if (read_name(turn, value, to,
	                   "ERR lib-name and lib-ver cannot contain spaces, newlines or special characters.")) {
		sl_resp_session_name_client(turn->session, turn->context);
		sl_reply_status(turn, "OK");
	}
}

void sl_resp_client_no_evict(struct sl_resp_turn *turn) {
	struct sluice_bytes what = sl_resp_arg(turn, 2);
	if (is_word(what, "on") || is_word(what, "off"))
		sl_reply_status(turn, "OK"); /* no client is ever evicted here */
	else
		sl_reply_error(turn, "ERR syntax error");
}

void sl_resp_client_reply(struct sl_resp_turn *turn) {
	struct sluice_bytes what = sl_resp_arg(turn, 2);
	if (is_word(what, "on")) {
		turn->session->silent = false;
		turn->heard = true;
		sl_reply_status(turn, "OK");
	} else if (is_word(what, "off")) {
		turn->session->silent = true;
	} else if (is_word(what, "skip")) {
		turn->session->skip = !turn->session->silent;
	} else {
		sl_reply_error(turn, "ERR syntax error");
	}
}

/* This connection as one line of CLIENT LIST, with the fields that tools read. */
static struct sluice_bytes describe_client(const struct sl_resp_turn *turn, char *line, size_t bytes) {
	const struct sl_resp_session *session = turn->session;
	sluice_ns now = turn->context->now, open_ns = now < session->opened ? 0 : now - session->opened;
	int len =
		snprintf(line, bytes,
	             "id=%llu addr=%s name=%s age=%llu idle=0 flags=N db=0 sub=0 psub=0 multi=-1 cmd=client "
	             "user=%s resp=%u lib-name=%s lib-ver=%s\n",
	             (unsigned long long)session->id, turn->context->peer.text == NULL ? "" : turn->context->peer.text,
	             session->name, (unsigned long long)(open_ns / 1000000000), session->login.user, session->protocol,
	             session->lib_name, session->lib_version);
	return sl_slice(line, len < 0 ? 0 : (size_t)len);
}

void sl_resp_client_info(struct sl_resp_turn *turn) {
	char line[SL_RESP_NAME_BYTES_MAX * 3 + 512];
	sl_reply_verbatim(turn, describe_client(turn, line, sizeof line));
}

/* LIST, LIST TYPE type, LIST ID id...: of all connections only this one is known here. */
void sl_resp_client_list(struct sl_resp_turn *turn) {
	char line[SL_RESP_NAME_BYTES_MAX * 3 + 512];
	struct sluice_bytes self = describe_client(turn, line, sizeof line);
	bool listed = turn->request->count == 2;
	if (turn->request->count == 4 && is_word(sl_resp_arg(turn, 2), "type")) {
		listed = is_word(sl_resp_arg(turn, 3), "normal");
	} else if (turn->request->count > 3 && is_word(sl_resp_arg(turn, 2), "id")) {
		int64_t id;
		for (uint32_t i = 3; i < turn->request->count; i++) {
			if (!sl_resp_to_i64(sl_resp_arg(turn, i), &id)) {
				sl_reply_error(turn, "ERR Invalid client ID");
				return;
			}
			listed |= id == (int64_t)turn->session->id;
		}
	} else if (!listed) {
		sl_reply_error(turn, "ERR syntax error");
		return;
	}
	sl_reply_verbatim(turn, listed ? self : sl_slice(NULL, 0));
}
