/* The SPOP door from inside: what its files share. From outside it is `sl_door_spop` (door.h).
 *
 *   door.c     connections: HELLO, DISCONNECT, which frame is whose
 *   message.c  the arguments of a NOTIFY's message
 *   notify.c   a NOTIFY that admits, from its message to its decision, many at a time
 *   answer.c   its ACK
 *   commit.c   a NOTIFY that ends what an admission holds
 *
 * A NOTIFY carries one message, by whose name it is known:
 *
 *   admit   its arguments are the request's attributes, by name; `cost` and `id` are what they are in SLUICE.ADMIT.
 *           What the policy finds in a header (`cost: header x-cost`) is the argument of that header's name
 *   commit  `ticket`, and the costs by the names of the headers that say them (x-actual-cost)
 *
 * An argument without a value is not there. All answers are variables of HAProxy's transaction; in each NOTIFY's ACK
 * stands either what was decided, `refused` (the request is wrong: what an HTTP door answers with 400), or `error` (the
 * configuration's question is none, or a commit found no store). */
#ifndef SL_SPOP_DOOR_H
#define SL_SPOP_DOOR_H

#include "hosts/admission/admission.h"
#include "hosts/server/door/call_outcome.h"
#include "policy/pattern.h"
#include "proto/spop.h"

enum {
	SL_SPOP_ASKS_MAX = 32,        /* admissions that are decided together */
	SL_SPOP_ARGUMENTS_MAX = 1024, /* of all of them; a message has at most 255 */
	SL_SPOP_WORDS_MAX = 400,      /* of `refused` and `error`, with what the peer said, escaped */
	SL_SPOP_AGREED_MIN = 1024,    /* the least frame size that every answer without headers fits into */
};

struct sl_spop_session {
	bool greeted;
	uint32_t frame_max; /* agreed on */
};

/* The longest ticket that fits into an ACK, with all else that stands there. */
static inline size_t sl_spop_ticket_max(const struct sl_spop_session *session) {
	return session->frame_max - SL_SPOP_AGREED_MIN / 2;
}

/* One NOTIFY that admits. */
struct sl_spop_ask {
	uint64_t stream, frame;
	char words[SL_SPOP_WORDS_MAX]; /* why the request is refused; "" where it is not */
	struct sluice_attribute *attributes;
	uint32_t attribute_count;
	struct sl_admission admission;
	struct sluice_match match;
	uint8_t candidate_of[SLUICE_ITEMS_MAX];
	struct sluice_item items[SLUICE_ITEMS_MAX];
	struct sluice_decision each[SLUICE_ITEMS_MAX];
	struct sl_undecided undecided;
	struct sluice_call *call; /* one of the batch's, or `own` */
	struct sluice_call own;   /* of one that is denied without being decided */
	char retry_id[SL_RETRY_ID_DIGITS];
};

/* A worker's memory, about 200 KiB: made when the first connection comes. */
struct sl_spop_worker {
	struct sl_spop_ask asks[SL_SPOP_ASKS_MAX];
	uint32_t ask_count;
	struct sluice_call calls[SL_SPOP_ASKS_MAX]; /* to be decided, in the order of asks */
	uint32_t call_count;
	size_t match_used; /* of the context's match buffer */
	struct sl_pattern_memo memo;
	struct sluice_attribute arguments[SL_SPOP_ARGUMENTS_MAX];
	char texts[SL_SPOP_ARGUMENTS_MAX][SL_SPOP_TEXT_MAX];
	uint32_t argument_count;
	/* Of one message: what its arguments say, numbers and addresses as texts; and the id once more, which may be one of
	 * them. */
	char scratch[2 * SL_SPOP_FRAME_MAX + 255 * (SL_SPOP_TEXT_MAX + 1)];
};

/* A place in what is fed, and context->commands there. */
struct sl_spop_mark {
	size_t bytes;
	uint64_t commands;
};

/* One feed(). */
struct sl_spop_turn {
	struct sl_spop_session *session;
	struct sl_spop_worker *worker;
	struct sl_door_context *context;
	struct sl_buffer *out;
	struct sl_spop_mark at, begun; /* of the frame in hand, and of the batch's first one */
	bool waits;                    /* decisions are under way */
	bool failed;                   /* no memory: the connection ends */
};

/* Reads the arguments of a message into the worker's table, those without a value left out. NULL for malformed bytes;
 * an argument's text stays until the batch is answered. There must be room for `count`. */
struct sluice_attribute *sl_spop_arguments(struct sl_spop_worker *worker, struct sluice_bytes *rest, uint32_t count,
                                           uint32_t *found);
/* The value of an argument; data NULL where it is not there. `twice` (may be NULL): it is there more than once. */
struct sluice_bytes sl_spop_argument(const struct sluice_attribute *arguments, uint32_t count, const char *name,
                                     bool *twice);

/* notify.c: puts an admission into the batch, deciding those before it where there is no room. `rest` begins with the
 * count of the message's arguments. False for malformed bytes. */
SLUICE_MUST_USE bool sl_spop_admit(struct sl_spop_turn *turn, const struct sl_spop_frame *frame,
                                   struct sluice_bytes rest);
/* Decides and answers the batch; turn->waits where it is under way. */
void sl_spop_flush(struct sl_spop_turn *turn);

/* commit.c: ends what a ticket holds; the batch is empty. False for malformed bytes. */
SLUICE_MUST_USE bool sl_spop_commit(struct sl_spop_turn *turn, const struct sl_spop_frame *frame,
                                    struct sluice_bytes rest);

/* answer.c: the ACK of an admission that was decided, or refused; false where there is no memory. */
SLUICE_MUST_USE bool sl_spop_answer(struct sl_spop_turn *turn, const struct sl_spop_ask *ask,
                                    const struct sl_call_outcome *outcome);
/* An ACK with one variable; `name` is "refused" or "error". */
SLUICE_MUST_USE bool sl_spop_answer_words(struct sl_spop_turn *turn, uint64_t stream, uint64_t frame, const char *name,
                                          const char *words);

/* Why a request is refused that can't be decided, whoever is asked: what a caller sends may bring that about, so it is
 * no `error`, which passes where HAProxy is open to errors. NULL for an outage, and for SLUICE_OK. */
const char *sl_spop_refusal(sluice_err err);

#endif
