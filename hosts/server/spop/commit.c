/* `commit`: the app has answered, and what its request holds ends. Answered with how many counters' leases were
 * `released` and reservations `committed`; both 0: nothing was held any more, and that is no error. */
#include "hosts/server/door/ending_decide.h"
#include "hosts/server/spop/spop.h"

#include "base/assert.h"
#include "hosts/server/door/pending.h"

enum { ACK_ROOM = 256 };

/* A message's arguments. */
struct said {
	const struct sluice_attribute *arguments;
	uint32_t count;
};

/* The first that is there and says something counts: x-actual-cost=res.fhdr(x-actual-cost) x-actual-cost=int(0). */
static struct sluice_bytes cost_of(void *data, const char *name) {
	const struct said *said = data;
	for (uint32_t i = 0; i < said->count; i++)
		if (said->arguments[i].value.len != 0 && sl_bytes_equal_nocase(said->arguments[i].name, name))
			return said->arguments[i].value;
	return sl_slice(NULL, 0);
}

static bool answer_ended(struct sl_spop_turn *turn, const struct sl_spop_frame *frame, const struct sl_ending *ending) {
	char *to = sl_buffer_reserve(turn->out, ACK_ROOM);
	if (to == NULL)
		return false;
	struct sl_out out = sl_out_to(to, ACK_ROOM);
	char *start = sl_spop_begin(&out, SL_SPOP_ACK, frame->stream, frame->frame);
	sl_spop_set_number(&out, "released", ending->released);
	sl_spop_set_number(&out, "committed", ending->committed);
	sl_spop_end(&out, start);
	SL_ASSERT(!out.overflow);
	turn->out->len += sl_out_len(&out);
	return true;
}

static bool refuse(struct sl_spop_turn *turn, const struct sl_spop_frame *frame, const char *name, const char *why) {
	char words[SL_SPOP_WORDS_MAX];
	struct sl_out out = sl_out_to(words, sizeof words - 1);
	sl_out_quoted(&out, sl_str(name), SLUICE_NAME_BYTES_MAX);
	sl_out_str(&out, why);
	*out.at = '\0';
	if (turn->context->stats != NULL)
		sl_count(&turn->context->stats->errors[SL_TRANSPORT_SPOP], 1);
	return sl_spop_answer_words(turn, frame->stream, frame->frame, "refused", words);
}

static bool end(struct sl_spop_turn *turn, const struct sl_spop_frame *frame, struct said *said) {
	char memory[SL_TICKET_BYTES_MAX];
	struct sl_ticket ticket;
	struct sl_ending ending;
	const char *no = NULL;
	sluice_err err;
	struct sluice_bytes text = sl_spop_argument(said->arguments, said->count, "ticket", NULL);
	if (text.len == 0)
		return refuse(turn, frame, "ticket", " is missing: expected the one that admit answered");
	if (!sl_ticket_read(&ticket, text, sl_slice("", 0), memory))
		return refuse(turn, frame, "ticket", " is not a ticket: send it back exactly as admit answered it");
	if (!sl_ending_make(&ending, &ticket, turn->context->policy, turn->context->now, cost_of, said, &no))
		return refuse(turn, frame, no,
		              ": expected the request's true cost, a whole number 0..4294967295; nothing was changed");
	turn->waits = !sl_ending_decide(&ending, turn->context, SL_TRANSPORT_SPOP, &err);
	if (turn->waits)
		return true;
	sl_pending_settle(turn->context);
	if (err == SLUICE_OK)
		return answer_ended(turn, frame, &ending);
	const char *words = sl_spop_refusal(err);
	return sl_spop_answer_words(turn, frame->stream, frame->frame, words != NULL ? "refused" : "error",
	                            words != NULL ? words : "the store did not answer in time: ask again");
}

bool sl_spop_commit(struct sl_spop_turn *turn, const struct sl_spop_frame *frame, struct sluice_bytes rest) {
	uint8_t count;
	struct said said;
	if (!sl_spop_take_byte(&rest, &count))
		return false;
	said.arguments = sl_spop_arguments(turn->worker, &rest, count, &said.count);
	turn->worker->argument_count = 0;
	if (said.arguments == NULL || rest.len != 0)
		return false;
	turn->failed |= !end(turn, frame, &said);
	return true;
}
