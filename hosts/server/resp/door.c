/* The RESP door: finds the requests in the bytes that arrived, and has each answered in its order.
 *
 * Decisions join a batch (batch.c); everything else answers at once, after the batch before it. feed() works off
 * all complete requests it was given, or stops at SL_DOOR_OUTPUT_TURN bytes of answers, so that a client that asks much
 * and reads little costs a bounded amount of memory.
 *
 * POST and Host: close the connection without a word: a browser that was tricked into talking to this port sends them,
 * and must not get to have its request's body executed. */
#include "hosts/server/resp/resp.h"

#include <stdlib.h>

static void *resp_open(struct sl_door_context *context) {
	if (context->resp == NULL) {
		context->resp = calloc(1, sizeof *context->resp);
		if (context->resp == NULL)
			return NULL;
		context->resp->batch.number = 1;
	}
	struct sl_resp_session *session = calloc(1, sizeof *session);
	if (session == NULL)
		return NULL;
	session->id = context->connection_id;
	session->opened = context->now;
	session->protocol = 2;
	sl_resp_session_logout(session);
	return session;
}

static void *resp_unpack(struct sl_door_context *context, const char *bytes, size_t len) {
	struct sl_resp_session *session = resp_open(context);
	if (session != NULL && !sl_resp_session_unpack(session, bytes, len)) {
		free(session);
		return NULL;
	}
	if (session != NULL)
		sl_resp_session_name_client(session, context);
	return session;
}

static void resp_close(void *state) {
	free(state);
}

/* Redis's words, down to the space after the last argument; clients look for "unknown command". */
static void refuse_unknown(struct sl_resp_turn *turn) {
	char memory[160];
	struct sl_out args = sl_out_to(memory, sizeof memory - 1);
	struct sluice_bytes name = sl_resp_arg(turn, 0);
	for (uint32_t i = 1; i < turn->request->count && sl_out_len(&args) < 128; i++) {
		struct sluice_bytes arg = sl_resp_arg(turn, i);
		size_t room = 128 - sl_out_len(&args);
		sl_out_char(&args, '\'');
		sl_out_bytes(&args, arg.data, arg.len < room ? arg.len : room);
		sl_out_str(&args, "' ");
	}
	*args.at = '\0';
	for (char *p = memory; p < args.at; p++)
		if (*p == '\0')
			*p = ' ';
	sl_reply_error(turn, "ERR unknown command '%.*s', with args beginning with: %s",
	               (int)(name.len < 128 ? name.len : 128), name.len == 0 ? "" : (const char *)name.data, memory);
}

static const struct sl_resp_command *find_child(struct sl_resp_turn *turn, const struct sl_resp_command *command) {
	struct sluice_bytes name = sl_resp_arg(turn, 1);
	const struct sl_resp_command *child = sl_resp_command_child(command, name);
	char upper[32] = "";
	if (child != NULL)
		return child;
	for (size_t i = 0; command->name[i] != '\0' && i < sizeof upper - 1; i++)
		upper[i] = (char)(command->name[i] & ~0x20);
	sl_reply_error(turn, "ERR unknown subcommand '%.*s'. Try %s HELP.", (int)(name.len < 128 ? name.len : 128),
	               name.len == 0 ? "" : (const char *)name.data, upper);
	return NULL;
}

/* The command to run, subcommands resolved; NULL once an error has been answered. */
static const struct sl_resp_command *find_command(struct sl_resp_turn *turn) {
	const struct sl_resp_command *command = sl_resp_command_find(sl_resp_arg(turn, 0));
	if (command == NULL) {
		refuse_unknown(turn);
		return NULL;
	}
	if (command->child_count != 0 && turn->request->count > 1)
		command = find_child(turn, command);
	if (command == NULL)
		return NULL;
	if (command->run == NULL || !sl_resp_command_takes(command, turn->request->count)) {
		sl_reply_error(turn, "ERR wrong number of arguments for '%s' command", command->name);
		return NULL;
	}
	return command;
}

/* In Redis' words. Who has logged in is told what is missing, others that they have to. */
static void refuse_caller(struct sl_resp_turn *turn, const struct sl_resp_command *command) {
	if (turn->session->login.logged_in)
		sl_reply_error(turn, "NOPERM this user has no permissions to run the '%s' command", command->name);
	else
		sl_reply_error(turn, "NOAUTH Authentication required.");
}

static bool may_run(const struct sl_resp_session *session, const struct sl_resp_command *command) {
	uint32_t enough = command->roles == 0 ? SL_ROLE_ALL : command->roles;
	return (session->roles & enough) != 0 || strstr(command->flags, "no_auth") != NULL;
}

static void run_request(struct sl_resp_turn *turn) {
	const struct sl_resp_command *command = find_command(turn);
	if (command == NULL)
		return;
	if (!may_run(turn->session, command)) {
		refuse_caller(turn, command);
		return;
	}
	if (!command->deferred)
		sl_resp_flush(turn);
	if (turn->waits)
		return;
	turn->command = command;
	command->run(turn);
	if (turn->request->is_inline) /* its arguments do not outlive the next parse */
		sl_resp_flush(turn);
}

/* A request whose answer the client does not want: done all the same, then unsaid. */
static void run_unheard(struct sl_resp_turn *turn) {
	sl_resp_flush(turn);
	size_t before = turn->out->len;
	bool skip = turn->session->skip;
	if (turn->waits)
		return;
	turn->session->skip = false;
	turn->heard = false;
	run_request(turn);
	sl_resp_flush(turn);
	if (turn->waits) {
		turn->session->skip = skip;
	} else if (!turn->heard) {
		turn->unsaid += turn->out->len - before;
		turn->out->len = before;
	}
}

/* Has the turn been long enough? */
static bool is_over(const struct sl_resp_turn *turn, size_t start) {
	return turn->out->len - start + turn->unsaid >= SL_DOOR_OUTPUT_TURN;
}

/* Takes one request off the bytes. False where there is none left, or none is wanted any more. */
static bool feed_one(struct sl_resp_turn *turn, const char *data, size_t len, size_t *consumed) {
	struct sl_resp_session *session = turn->session;
	turn->at = (struct sl_resp_mark){*consumed, turn->context->commands};
	if (turn->worker->batch.call_count == 0)
		turn->begun = turn->at;
	size_t known = sl_resp_memo_take(turn, data + *consumed, len - *consumed);
	if (known != 0) {
		*consumed += known;
		return !turn->failed && !turn->waits;
	}
	ptrdiff_t taken = session->roles != 0 ? sl_resp_parse(turn->request, data + *consumed, len - *consumed)
	                                      : sl_resp_parse_guest(turn->request, data + *consumed, len - *consumed);
	if (taken < 0) {
		if (!session->silent)
			sl_reply_error(turn, "ERR %s", turn->request->error);
		turn->close = true;
		return false;
	}
	if (taken == 0) {
		session->need = turn->request->need;
		return false;
	}
	turn->bytes = sl_slice(data + *consumed, (size_t)taken);
	*consumed += (size_t)taken;
	if (turn->request->count == 0)
		return true;
	turn->context->commands++;
	if (session->silent || session->skip)
		run_unheard(turn);
	else
		run_request(turn);
	return !turn->close && !turn->failed && !turn->waits;
}

/* The turn ends without what it asked for: all that came with and after that has not happened. */
static enum sl_door_verdict wait(struct sl_resp_turn *turn, size_t *consumed) {
	if (turn->context->pending == NULL) /* no memory for it */
		return SL_DOOR_CLOSE;
	turn->out->len = turn->said;
	turn->context->commands = turn->begun.commands;
	turn->session->need = 0;
	*consumed = turn->begun.bytes;
	return SL_DOOR_WAIT;
}

static enum sl_door_verdict resp_feed(void *state, struct sl_door_context *context, const char *data, size_t len,
                                      size_t *consumed, struct sl_buffer *out) {
	struct sl_resp_session *session = state;
	struct sl_resp_turn turn = {.session = session, .context = context, .worker = context->resp, .out = out};
	size_t start = out->len;
	turn.request = &turn.worker->request;
	*consumed = 0;
	if (len < session->need)
		return SL_DOOR_OPEN;
	session->need = 0;
	sl_resp_session_judge(session, context);
	while (*consumed < len && !is_over(&turn, start))
		if (!feed_one(&turn, data, len, consumed))
			break;
	sl_resp_flush(&turn);
	if (turn.waits)
		return wait(&turn, consumed);
	if (turn.close || turn.failed)
		return SL_DOOR_CLOSE;
	return is_over(&turn, start) ? SL_DOOR_MORE : SL_DOOR_OPEN;
}

const struct sl_door sl_door_resp = {
	.name = "resp",
	.transport = SL_TRANSPORT_RESP,
	.open = resp_open,
	.close = resp_close,
	.feed = resp_feed,
	.pack = sl_resp_session_pack,
	.unpack = resp_unpack,
	.stream = sl_resp_stream,
	.may_stream = sl_resp_may_stream,
	.end_stream = sl_resp_end_stream,
};
