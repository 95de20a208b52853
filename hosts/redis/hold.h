/* Holds: cost that is taken out of what others may have of a counter, until it is confirmed, cancelled, or ends by
 * itself. A lease is a hold that is charged in full when it ends by itself (docs/design/011-redis.md).
 *
 * The holds of a counter stand in one list, in the order in which they end, so that those that have ended are its head
 * and whoever looks into the future walks it forwards. */
#ifndef SLR_HOLD_H
#define SLR_HOLD_H

#include "base/bytes.h"

enum {
	SLR_HOLDS_MAX = 256,     /* of one counter */
	SLR_HOLD_MS_MAX = 60000, /* how long one may last */
	SLR_HOLD_COST_MIN = 1,   /* one of nothing is none */
	SLR_ID_DIGITS_MAX = 16,  /* of its name, in hex */
};

struct slr_hold {
	uint64_t id;
	sluice_ns end; /* the first instant at which it holds no more */
	uint32_t cost;
	uint32_t lease; /* 1: a lease, 0: a plain hold. The ids of the two are apart */
};

struct slr_holds {
	uint32_t count, room;
	struct slr_hold list[];
};

/* The index of the hold with this id and kind, or -1. `holds` may be NULL. O(n), as all here. */
int32_t slr_holds_find(const struct slr_holds *holds, uint64_t id, uint32_t lease);

/* How many of them have ended at `now`: they are the first ones. `holds` may be NULL. */
uint32_t slr_holds_ended(const struct slr_holds *holds, sluice_ns now);

/* Adds one, at its place. Returns the list, which may have moved; NULL was none. The caller has seen to it that there
 * are fewer than SLR_HOLDS_MAX. */
struct slr_holds *slr_holds_add(struct slr_holds *holds, const struct slr_hold *hold);

/* Removes `count` from index `at` on. Returns the list, or NULL when none is left: then it was given back. */
struct slr_holds *slr_holds_remove(struct slr_holds *holds, uint32_t at, uint32_t count);

/* A list that equals this one; NULL is one of none. */
struct slr_holds *slr_holds_copy(const struct slr_holds *holds);

/* Bytes of memory that a list takes. */
static inline size_t slr_holds_bytes(const struct slr_holds *holds) {
	return holds == NULL ? 0 : sizeof *holds + holds->room * sizeof holds->list[0];
}

/* Whether a list could have been made by this code. */
bool slr_holds_are_valid(const struct slr_holds *holds);

#endif
