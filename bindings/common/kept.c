/* Limits by their text. A program asks by few texts, again and again; they are its own, or its operator's, not those of
 * whoever it limits. So the hash has no secret, and what is beyond the room is only parsed again (100 ns). inside.h has
 * the search for texts of 4 to 32 bytes, which is all of the notation but the rarest. */
#include "bindings/common/inside.h"

#include "algo/traits.h"
#include "base/assert.h"

#include <stdlib.h>

static bool is_of(const struct sl_kept *kept, struct sluice_bytes text) {
	return kept->len == text.len && memcmp(kept->text, text.data, text.len) == 0;
}

/* The words of a text; of one that has none something that is as different. */
static void words_of(struct sluice_bytes text, uint64_t *first, uint64_t *last) {
	const char *p = text.data;
	if (sl_kept_has_words(text.len)) {
		*first = text.len >= 8 ? sl_word_at(p) : sl_half_at(p);
		*last = text.len >= 8 ? sl_word_at(p + text.len - 8) : sl_half_at(p + text.len - 4);
		return;
	}
	*first = text.len;
	*last = 0;
	for (size_t i = 0; i < text.len; i++)
		*last = *last * 31 + (unsigned char)p[i];
}

static uint32_t place_of(struct sluice_bytes text) {
	uint64_t first, last;
	words_of(text, &first, &last);
	return sl_kept_place(first, last);
}

const struct sl_kept *sl_kept_find(const struct sl_limiter *limiter, struct sluice_bytes text) {
	for (uint32_t at = place_of(text);; at = (at + 1) % SL_KEPT_PLACES) {
		/* acquire; pairs with sl_kept_add */
		const struct sl_kept *kept = __atomic_load_n(&limiter->kept[at], __ATOMIC_ACQUIRE);
		if (kept == NULL || is_of(kept, text))
			return kept;
	}
}

static struct sl_kept *new_kept(struct sluice_bytes text, const struct sluice_limit *limit) {
	struct sl_kept *kept = malloc(sizeof *kept);
	if (kept == NULL)
		return NULL;
	kept->limit = *limit;
	kept->plain = !sl_rule_lacks(limit, SL_OF_CHARGES);
	kept->rounds = sl_rule_has(limit, SL_ROUNDS_TO_MS);
	kept->simple_len = kept->plain && !kept->rounds && sl_kept_has_words(text.len) ? text.len : 0;
	kept->len = (uint8_t)text.len;
	words_of(text, &kept->first, &kept->last);
	memcpy(kept->text, text.data, text.len);
	return kept;
}

void sl_kept_add(struct sl_limiter *limiter, struct sluice_bytes text, const struct sluice_limit *limit) {
	if (text.len == 0 || text.len >= SLUICE_LIMIT_TEXT_MAX ||
	    __atomic_load_n(&limiter->kept_count, __ATOMIC_RELAXED) >= SL_LIMITS_KEPT)
		return;
	if (__atomic_add_fetch(&limiter->kept_count, 1, __ATOMIC_RELAXED) > SL_LIMITS_KEPT)
		return; /* others were faster; the count stays above */
	struct sl_kept *kept = new_kept(text, limit), *there;
	for (uint32_t at = place_of(text); kept != NULL; at = (at + 1) % SL_KEPT_PLACES) {
		there = NULL;
		/* release; pairs with sl_kept_find */
		if (__atomic_compare_exchange_n(&limiter->kept[at], &there, kept, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
			return;
		if (!is_of(there, text))
			continue;
		free(kept); /* another thread keeps it meanwhile */
		kept = NULL;
	}
	__atomic_sub_fetch(&limiter->kept_count, 1, __ATOMIC_RELAXED);
}

void sl_kept_free(struct sl_limiter *limiter) {
	SL_ASSERT(limiter->kept_count <= SL_KEPT_PLACES);
	for (int i = 0; i < SL_KEPT_PLACES; i++)
		free(limiter->kept[i]);
}
