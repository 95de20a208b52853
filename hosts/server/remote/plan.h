/* From items to commands: which go together, how they are written, and what the answers say. Pure: no clock, no
 * connection.
 *
 * A group is the items of one call whose keys go into one command. It owns copies of all that its commands say, so that
 * a hold can still be cancelled when the request that asked for it is gone. Its commands go out one after the other,
 * never two at a time: each is a head of few words before the same tail.
 *
 *   words   [ .. head .. | tail: KEY k, NAME n, OBSERVED, limits ]
 *                ^ ask.words, as many as the verb's head has */
#ifndef SL_PLAN_H
#define SL_PLAN_H

#include "hosts/server/door/pending.h"
#include "hosts/server/cluster/nodes.h"
#include "proto/answer.h"

/* Beside the operations: PEEK without the own hold; and no command yet. */
#define SL_OP_BESIDE ((enum sl_operation)SL_OPERATIONS)
#define SL_OP_NONE ((enum sl_operation)(SL_OPERATIONS + 1))

enum {
	SL_HEAD_WORDS_MAX = 8,
	SL_HEAD_TEXT_MAX = 160,              /* bytes of a head's numbers, and an id */
	SL_EACH_NUMBERS = SL_FIGURES,        /* of one limit's answer */
	SL_EXACT_NUMBERS = SL_FIGURES_EXACT, /* with what its wait was rounded up by */
	SL_LEASE_NUMBERS = 1 + SL_EACH_NUMBERS,
	SL_HOLD_NUMBERS = 9,    /* the seven, what was granted, and what others hold */
	SL_OUTCOME_NUMBERS = 3, /* after the limits' answers of a whole call: granted, repeated, found */
};

/* What stands in the head of a command; a verb takes what its grammar has (011). */
struct sl_head {
	uint32_t cost, spent, want;
	uint64_t ttl_ms;
	uint64_t id; /* of a hold or lease, 16 hex digits */
	bool dated;
	sluice_ns now;          /* AT, where dated; cut to ms */
	struct sluice_bytes of; /* what a whole call says of itself: ID, where len is not 0 */
	bool upto;
};

/* What the tail says of one item. */
struct sl_plan_item {
	const struct sluice_item *item;
	const char *name; /* of the limit in a policy, or NULL */
	uint8_t position; /* in the call */
};

struct sl_group {
	struct sl_node_ask ask;
	struct sl_ask_one one; /* what it says, where it is of one plain limit */
	struct sl_group *next; /* of its call */
	void *owner;           /* whose it is; NULL: nobody waits for it any more */
	uint64_t id;           /* of its hold */
	uint16_t number;       /* sl_nodes_group() */
	uint8_t phase, result; /* its owner's */
	bool dated;
	sluice_ns now; /* the client's, where dated */
	uint32_t cost;
	uint8_t item_count, positions[SLUICE_ITEMS_MAX];
	char head_text[SL_HEAD_TEXT_MAX];
	struct sluice_bytes ticket; /* of SL_OP_COMMIT */
	struct sluice_bytes *tail;  /* the words after those of the head */
	uint32_t tail_count;
	struct sluice_bytes keys[SL_ASK_KEYS_MAX]; /* with prefix, each once */
	struct sluice_bytes words[];
};

_Static_assert((int)SL_ASK_KEYS_MAX >= (int)SLUICE_ITEMS_MAX, "a key for each limit of a call");
_Static_assert((int)SL_ANSWER_NUMBERS_MAX >= SL_EXACT_NUMBERS * (int)SLUICE_ITEMS_MAX + SL_OUTCOME_NUMBERS,
               "room for the longest answer");

/* The longest key as it is before it is folded. */
enum { SL_PLAN_KEY_ROOM = SL_REDIS_PREFIX_BYTES_MAX + 3 * SLUICE_KEY_BYTES_MAX };

/* The key in Redis of an item's counter: the prefix, then the item's key. In the key of a limit of a policy, which has
 * clients' values in it, `{` is %7B there, so that nobody chooses his slot by a hash tag; who brings his limits along
 * brings his own tags. What is then longer than SLUICE_KEY_BYTES_MAX is folded (policy/key.h), a tag in its first 959
 * bytes staying what it is. The same at all fronts, for all commands. Points into `text`. */
struct sluice_bytes sl_plan_key(char text[SL_PLAN_KEY_ROOM], const char *prefix, const struct sl_plan_item *item);

/* Undoes it in place, for a key of a limit of a policy, from which the prefix was taken: each %7B is `{` again. No
 * other text becomes %7B, since `%` is encoded in such keys. Returns how long it is then. What was folded stays so, and
 * is of the same counter. */
size_t sl_plan_key_undo(char *key, size_t len);

/* Whether that is folded. Some ns, unless it may be. */
bool sl_plan_folds(const char *prefix, const struct sl_plan_item *item);

/* Makes a group of 1..SLUICE_ITEMS_MAX items; NULL when the system gives no memory. Free with free(). One allocation,
 * copies everything. */
struct sl_group *sl_group_new(const struct sl_plan_item *items, uint32_t count, const char *prefix);

/* The same for SL_OP_COMMIT, whose tail is a ticket of these items and a number. */
struct sl_group *sl_group_new_ticket(const struct sl_plan_item *items, uint32_t count, const char *prefix, uint64_t id);

/* Is a call one command or none? Leases, members, reservations, parts of a cost, a cost of one limit alone and retries
 * are decided where the counters are, all of them in one place: no hold could stand for them. A reset decides nothing:
 * each counter is forgotten by itself, whatever it counts. */
bool sl_plan_is_whole(const struct sluice_call *call);

/* Whether the answer to a whole call's command has numbers of its outcome after the limits'. */
static inline bool sl_plan_has_outcome(enum sl_operation verb, const struct sl_head *head) {
	return verb == SL_OP_ACQUIRE || verb == SL_OP_RESERVE || verb == SL_OP_COMMIT || head->upto || head->of.len != 0;
}

/* Puts a command's head before the tail and fills the ask's verb, keys and words. */
void sl_group_say(struct sl_group *group, enum sl_operation verb, const struct sl_head *head);

/* Whether the verb's answer is as long as it must be for so many items, and what stands in it is possible: nodes may
 * answer anything. */
bool sl_plan_is_answer(enum sl_operation verb, const struct sl_answer *answer, uint32_t item_count);

/* The same of an answer with SL_OUTCOME_NUMBERS after the limits'. */
bool sl_plan_is_outcome(const struct sl_answer *answer, uint32_t item_count);

/* Of so many numbers that tell of so many items: SL_EACH_NUMBERS or SL_EXACT_NUMBERS, which an item has; 0: neither. */
uint32_t sl_plan_stride(uint32_t number_count, uint32_t item_count);

/* The decision that an item's numbers say. It has next_after_ns even where the call does not want it: a denial that is
 * remembered is told to others too. */
struct sluice_decision sl_plan_decision(const int64_t *numbers, uint32_t stride, uint8_t position);

/* By when a node may have memory for a limit's counter again, as module and script tell it. */
static inline sluice_ns sl_plan_room_wait(const struct sluice_limit *limit) {
	const sluice_ns second = 1000000000;
	return limit->window_ns < second ? limit->window_ns : second;
}

/* What a limit says that stands aside: one that is unlimited, or whose counter nobody could ask. */
struct sluice_decision sl_plan_full(const struct sluice_limit *limit, uint8_t position);

#endif
