/* The SPOP door: HAProxy asks about its requests by its stream processing offload protocol, many on one connection.
 *
 *   HAPROXY-HELLO -> AGENT-HELLO          NOTIFY, NOTIFY, .. -> ACK, ACK, ..         DISCONNECT -> DISCONNECT, closed
 *
 * Admissions that arrive together are decided together (notify.c); all else answers after those before it. The protocol
 * knows no login: who may connect is the listener's to say (a socket of this host, or a client's certificate).
 *
 *  S1  What is malformed ends the connection with the status that the protocol has for it; what is well formed and
 *      wrong is answered in its ACK, and harms no request beside it.
 *  S2  The answers depend on the bytes, not on how they were cut. */
#include "hosts/server/spop/spop.h"

#include "hosts/server/door/pending.h"

#include <stdlib.h>

static const char version[] = "2.0", capabilities[] = "pipelining";

/* ---- the connection's state -------------------------------------------------------------------------------------- */

static void *spop_open(struct sl_door_context *context) {
	if (context->spop == NULL)
		context->spop = calloc(1, sizeof *context->spop);
	return context->spop != NULL ? calloc(1, sizeof(struct sl_spop_session)) : NULL;
}

static void spop_close(void *state) {
	free(state);
}

static size_t spop_pack(const void *state, char *bytes) {
	const struct sl_spop_session *session = state;
	memcpy(bytes, &session->frame_max, sizeof session->frame_max);
	bytes[sizeof session->frame_max] = session->greeted ? 1 : 0;
	return sizeof session->frame_max + 1;
}

static void *spop_unpack(struct sl_door_context *context, const char *bytes, size_t len) {
	struct sl_spop_session *session = len == sizeof session->frame_max + 1 ? spop_open(context) : NULL;
	if (session == NULL)
		return NULL;
	memcpy(&session->frame_max, bytes, sizeof session->frame_max);
	session->greeted = bytes[sizeof session->frame_max] == 1;
	if (session->greeted && session->frame_max >= SL_SPOP_AGREED_MIN && session->frame_max <= SL_SPOP_FRAME_MAX)
		return session;
	if (!session->greeted && session->frame_max == 0 && bytes[sizeof session->frame_max] == 0)
		return session;
	free(session);
	return NULL;
}

/* ---- frames of ours --------------------------------------------------------------------------------------------- */

enum { CONTROL_FRAME_BYTES = 320 };

static enum sl_door_verdict say_goodbye(struct sl_spop_turn *turn, enum sl_spop_status status, const char *message) {
	char *to = sl_buffer_reserve(turn->out, CONTROL_FRAME_BYTES);
	if (to == NULL)
		return SL_DOOR_CLOSE;
	struct sl_out out = sl_out_to(to, CONTROL_FRAME_BYTES);
	char *start = sl_spop_begin(&out, SL_SPOP_AGENT_DISCONNECT, 0, 0);
	sl_spop_put_pair_u32(&out, "status-code", status);
	sl_spop_put_pair_text(&out, "message", message);
	sl_spop_end(&out, start);
	turn->out->len += sl_out_len(&out);
	if (status != SL_SPOP_NORMAL && turn->context->stats != NULL)
		sl_count(&turn->context->stats->errors[SL_TRANSPORT_SPOP], 1);
	return SL_DOOR_CLOSE;
}

static const char *words_of(enum sl_spop_status status) {
	switch (status) {
	case SL_SPOP_TOO_BIG:
		return "the frame is longer than was agreed on";
	case SL_SPOP_INVALID:
		return "the frame is malformed";
	case SL_SPOP_FRAGMENTED:
		return "the payload is fragmented, which was not agreed on";
	default:
		return "the connection can't go on";
	}
}

/* What came before what is malformed is answered first. */
static enum sl_door_verdict end_with(struct sl_spop_turn *turn, enum sl_spop_status status) {
	sl_spop_flush(turn);
	return turn->waits ? SL_DOOR_WAIT : say_goodbye(turn, status, words_of(status));
}

/* ---- HELLO ------------------------------------------------------------------------------------------------------ */

/* What a HELLO says. */
struct hello {
	struct sluice_bytes versions; /* data NULL: not said */
	bool has_size, has_capabilities, healthcheck;
	uint64_t size;
};

static bool read_hello(struct sluice_bytes rest, struct hello *hello) {
	*hello = (struct hello){.versions = {NULL, 0}};
	while (rest.len != 0) {
		struct sluice_bytes name;
		struct sl_spop_value value;
		if (!sl_spop_take_text(&rest, &name) || !sl_spop_take_value(&rest, &value))
			return false;
		if (sl_bytes_equal(name, sl_str("supported-versions")) && value.kind == SL_SPOP_STRING)
			hello->versions = value.bytes;
		else if (sl_bytes_equal(name, sl_str("max-frame-size")) && value.kind == SL_SPOP_UINT32) {
			hello->has_size = true;
			hello->size = value.number;
		} else if (sl_bytes_equal(name, sl_str("capabilities")) && value.kind == SL_SPOP_STRING)
			hello->has_capabilities = true;
		else if (sl_bytes_equal(name, sl_str("healthcheck")) && value.kind == SL_SPOP_BOOL)
			hello->healthcheck = value.number != 0;
	}
	return true;
}

/* Does a list such as "1.0, 2.0" name a version 2? Whoever knows 2.x knows 2.0. */
static bool knows_version(struct sluice_bytes versions) {
	const char *p = versions.data;
	bool begins = true;
	for (size_t i = 0; i < versions.len; i++) {
		if (begins && p[i] == '2' && i + 1 < versions.len && p[i + 1] == '.')
			return true;
		begins = p[i] == ',' || (begins && p[i] == ' ');
	}
	return false;
}

static bool greet(struct sl_spop_turn *turn, uint32_t size) {
	char *to = sl_buffer_reserve(turn->out, CONTROL_FRAME_BYTES);
	if (to == NULL)
		return false;
	struct sl_out out = sl_out_to(to, CONTROL_FRAME_BYTES);
	char *start = sl_spop_begin(&out, SL_SPOP_AGENT_HELLO, 0, 0);
	sl_spop_put_pair_text(&out, "version", version);
	sl_spop_put_pair_u32(&out, "max-frame-size", size);
	sl_spop_put_pair_text(&out, "capabilities", capabilities);
	sl_spop_end(&out, start);
	turn->out->len += sl_out_len(&out);
	turn->session->greeted = true;
	turn->session->frame_max = size;
	return true;
}

/* A check of the server's health is told when it drains, so that new requests go to another. */
static enum sl_door_verdict hello(struct sl_spop_turn *turn, struct sluice_bytes payload) {
	struct hello hello;
	if (turn->session->greeted)
		return say_goodbye(turn, SL_SPOP_INVALID, "HELLO was sent before");
	if (!read_hello(payload, &hello))
		return end_with(turn, SL_SPOP_INVALID);
	if (hello.versions.data == NULL)
		return say_goodbye(turn, SL_SPOP_NO_VERSION, "supported-versions is missing");
	if (!hello.has_size)
		return say_goodbye(turn, SL_SPOP_NO_FRAME_SIZE, "max-frame-size is missing");
	if (!hello.has_capabilities)
		return say_goodbye(turn, SL_SPOP_NO_CAPABILITIES, "capabilities are missing");
	if (!knows_version(hello.versions))
		return say_goodbye(turn, SL_SPOP_BAD_VERSION, "supported-versions: expected 2.0");
	if (hello.size < SL_SPOP_AGREED_MIN)
		return say_goodbye(turn, SL_SPOP_BAD_FRAME_SIZE, "max-frame-size: expected at least 1024");
	/* Unlike the health checks of other doors, this one does not wait for a node: while it fails, HAProxy lets requests
	 * pass undecided; while it succeeds, on-error decides them, and may deny. */
	if (hello.healthcheck && turn->context->draining)
		return say_goodbye(turn, SL_SPOP_NORMAL, sl_door_unready(turn->context));
	if (!greet(turn, hello.size < SL_SPOP_FRAME_MAX ? (uint32_t)hello.size : SL_SPOP_FRAME_MAX))
		return SL_DOOR_CLOSE;
	return hello.healthcheck ? SL_DOOR_CLOSE : SL_DOOR_OPEN;
}

/* ---- NOTIFY ----------------------------------------------------------------------------------------------------- */

/* A message that is none of ours is HAProxy's configuration's mistake: its ACK says so, or all would pass unseen. */
static bool refuse_message(struct sl_spop_turn *turn, const struct sl_spop_frame *frame, struct sluice_bytes name) {
	char words[SL_SPOP_WORDS_MAX];
	struct sl_out out = sl_out_to(words, sizeof words - 1);
	sl_spop_flush(turn);
	if (turn->waits)
		return true;
	sl_out_str(&out, "message ");
	sl_out_quoted(&out, name, 64);
	sl_out_str(&out, ": expected one message, named admit or commit");
	*out.at = '\0';
	turn->failed |= !sl_spop_answer_words(turn, frame->stream, frame->frame, "error", words);
	return true;
}

/* Messages of one event come in one frame: more than one can't be meant. */
static bool notify(struct sl_spop_turn *turn, const struct sl_spop_frame *frame) {
	struct sluice_bytes rest = frame->payload, name;
	turn->context->commands++;
	if (!sl_spop_take_text(&rest, &name))
		return false;
	if (sl_bytes_equal(name, sl_str("admit")))
		return sl_spop_admit(turn, frame, rest);
	if (!sl_bytes_equal(name, sl_str("commit")))
		return refuse_message(turn, frame, name);
	sl_spop_flush(turn);
	return turn->waits || sl_spop_commit(turn, frame, rest);
}

/* ---- the turn --------------------------------------------------------------------------------------------------- */

/* Answers a frame that is whole. SL_DOOR_OPEN: go on. */
static enum sl_door_verdict take_frame(struct sl_spop_turn *turn, const struct sl_spop_frame *frame) {
	if (frame->type == SL_SPOP_NOTIFY && turn->session->greeted) {
		if ((frame->flags & SL_SPOP_FIN) == 0)
			return end_with(turn, SL_SPOP_FRAGMENTED);
		return notify(turn, frame) ? SL_DOOR_OPEN : end_with(turn, SL_SPOP_INVALID);
	}
	sl_spop_flush(turn);
	if (turn->waits)
		return SL_DOOR_OPEN;
	switch (frame->type) {
	case SL_SPOP_HAPROXY_HELLO:
		return hello(turn, frame->payload);
	case SL_SPOP_HAPROXY_DISCONNECT:
		return say_goodbye(turn, SL_SPOP_NORMAL, "until next time");
	case SL_SPOP_NOTIFY:
		return say_goodbye(turn, SL_SPOP_INVALID, "HELLO comes first");
	case SL_SPOP_UNSET:
		return end_with(turn, SL_SPOP_FRAGMENTED);
	default:
		return SL_DOOR_OPEN; /* of a later version of the protocol */
	}
}

/* Takes one frame off the bytes. SL_DOOR_MORE: another may follow; SL_DOOR_OPEN: all that is whole was taken. */
static enum sl_door_verdict feed_one(struct sl_spop_turn *turn, const char *data, size_t len, size_t *consumed) {
	struct sl_spop_frame frame;
	uint32_t most = turn->session->greeted ? turn->session->frame_max : SL_SPOP_FRAME_MAX;
	turn->at = (struct sl_spop_mark){*consumed, turn->context->commands};
	if (turn->worker->ask_count == 0)
		turn->begun = turn->at;
	ptrdiff_t taken = sl_spop_frame_read(&frame, data + *consumed, len - *consumed, most);
	if (taken == 0)
		return SL_DOOR_OPEN;
	if (taken < 0)
		return end_with(turn, (enum sl_spop_status)(-taken));
	enum sl_door_verdict verdict = take_frame(turn, &frame);
	if (turn->failed)
		return SL_DOOR_CLOSE;
	if (turn->waits)
		return SL_DOOR_WAIT;
	*consumed += (size_t)taken;
	return verdict == SL_DOOR_OPEN ? SL_DOOR_MORE : verdict;
}

/* The turn ends without what it asked for: all that came with and after that has not happened. */
static enum sl_door_verdict wait(struct sl_spop_turn *turn, size_t *consumed) {
	turn->context->commands = turn->begun.commands;
	*consumed = turn->begun.bytes;
	return turn->context->pending != NULL ? SL_DOOR_WAIT : SL_DOOR_CLOSE; /* no memory for it */
}

static enum sl_door_verdict spop_feed(void *state, struct sl_door_context *context, const char *data, size_t len,
                                      size_t *consumed, struct sl_buffer *out) {
	struct sl_spop_turn turn = {.session = state, .worker = context->spop, .context = context, .out = out};
	size_t start = out->len;
	enum sl_door_verdict verdict = SL_DOOR_MORE;
	*consumed = 0;
	while (verdict == SL_DOOR_MORE && out->len - start < SL_DOOR_OUTPUT_TURN)
		verdict = feed_one(&turn, data, len, consumed);
	if (verdict != SL_DOOR_CLOSE && verdict != SL_DOOR_WAIT)
		sl_spop_flush(&turn);
	if (turn.waits)
		return wait(&turn, consumed);
	if (turn.failed)
		return SL_DOOR_CLOSE;
	if (verdict == SL_DOOR_OPEN && context->leaving)
		return say_goodbye(&turn, SL_SPOP_NORMAL, "the server is being replaced: connect again");
	return verdict;
}

const struct sl_door sl_door_spop = {.name = "spop",
                                     .transport = SL_TRANSPORT_SPOP,
                                     .open = spop_open,
                                     .close = spop_close,
                                     .feed = spop_feed,
                                     .pack = spop_pack,
                                     .unpack = spop_unpack};
