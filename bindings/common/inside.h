/* What the files of this folder share: the limiter itself, and the limits that it keeps parsed. */
#ifndef SL_BINDINGS_INSIDE_H
#define SL_BINDINGS_INSIDE_H

#include "bindings/common/handle.h"
#include "policy/policy.h"

struct sl_stagger;

/* A limit that was parsed once. Never changed, never freed before the limiter is: so calls may point to it without a
 * lock. */
struct sl_kept {
	uint64_t first, last; /* words of its text, see below */
	uint64_t simple_len;  /* the length of a text that sluice_check() is all there is to; else 0, which no text has */
	struct sluice_limit limit;
	bool plain;  /* a charge of it needs no lease and no member */
	bool rounds; /* it is decided at whole milliseconds, as at the doors */
	uint8_t len;
	char text[SLUICE_LIMIT_TEXT_MAX];
};

/* They are found by their text in an open table, at most half full, into which entries are published one by one and
 * from which none is taken. */
enum { SL_KEPT_BITS = 11, SL_KEPT_PLACES = 1 << SL_KEPT_BITS };
_Static_assert(SL_LIMITS_KEPT <= SL_KEPT_PLACES / 2, "a search ends soon, at a place that is free");

struct sl_limiter {
	struct sluice_store *store;
	struct sl_kept *kept[SL_KEPT_PLACES];
	uint32_t kept_count;
	bool may_wait;
	struct sluice_policy *policy; /* NULL: none */
	uint32_t admitting;           /* calls that may look at a policy */
	struct sl_retired *retired;   /* policies that were replaced, and may be looked at */
	struct sl_stagger *stagger;   /* NULL: no policy asked for it yet */
	struct sl_workspace *spare;   /* NULL: in use, or none yet */
};

/* The first and the last bytes of a text of 4 to 32, overlapping where it is shorter than both: 8 and 8, or 4 and 4. */
static inline bool sl_kept_has_words(size_t len) {
	return len - 4 <= 32 - 4;
}

static inline uint64_t sl_word_at(const char *at) {
	uint64_t word;
	memcpy(&word, at, sizeof word);
	return word;
}

static inline uint64_t sl_half_at(const char *at) {
	uint32_t half;
	memcpy(&half, at, sizeof half);
	return half;
}

/* Where the search for a text begins, by its words. */
static inline uint32_t sl_kept_place(uint64_t first, uint64_t last) {
	const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)((first * odd ^ last) * odd >> (64 - SL_KEPT_BITS));
}

/* The limit of a text that is kept; NULL: it is not. Any thread. */
const struct sl_kept *sl_kept_find(const struct sl_limiter *limiter, struct sluice_bytes text);

/* The same of a simple one that stands in the first place, which is all but always; NULL: perhaps it is elsewhere. One
 * multiplication, one comparison, no call. */
static inline const struct sl_kept *sl_kept_first(const struct sl_limiter *limiter, struct sluice_bytes text) {
	const char *p = text.data;
	size_t len = text.len;
	if (!sl_kept_has_words(len))
		return NULL;
	uint64_t first = len >= 8 ? sl_word_at(p) : sl_half_at(p);
	uint64_t last = len >= 8 ? sl_word_at(p + len - 8) : sl_half_at(p + len - 4);
	/* acquire; pairs with sl_kept_add */
	const struct sl_kept *kept = __atomic_load_n(&limiter->kept[sl_kept_place(first, last)], __ATOMIC_ACQUIRE);
	if (kept == NULL || kept->simple_len != len || kept->first != first || kept->last != last)
		return NULL;
	if (len > 16 && (sl_word_at(kept->text + 8) != sl_word_at(p + 8) ||
	                 sl_word_at(kept->text + len - 16) != sl_word_at(p + len - 16)))
		return NULL;
	return kept;
}

/* Keeps what a text was parsed to, if there is room; where not, others are asked for it again. */
void sl_kept_add(struct sl_limiter *limiter, struct sluice_bytes text, const struct sluice_limit *limit);

void sl_kept_free(struct sl_limiter *limiter);

/* The key that may be left out of a reservation's ticket: that of the call. data NULL: none may, where the first limit
 * has another key, for that is the command's (sl_asked_words()): such a ticket is committed by either of them. */
struct sluice_bytes sl_asked_ticket_key(const struct sl_asked *asked, char folded[SLUICE_KEY_BYTES_MAX]);

/* Fills a failure; false. */
__attribute__((format(printf, 3, 4))) bool sl_fail(struct sl_failure *failure, enum sl_failure_kind kind,
                                                   const char *format, ...);

#endif
