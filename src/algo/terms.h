/* Terms: what else may be said of a limit (struct sluice_terms), in words, and the strikes of an escalation.
 *
 *   terms    = term *( "; " term )
 *   term     = "count-denied" | "penalty " penalty
 *   penalty  = "[" duration *( "," [ " " ] duration ) "] after " N " denials in " duration [ " forgive " duration ]
 *
 * One to eight durations, each longer than the one before; N 1..64 ("denial" for 1 as well); forgive is the longest
 * penalty unless said. Canonical text: as above with ", " between durations, `forgive` always written. */
#ifndef SL_TERMS_H
#define SL_TERMS_H

#include "algo/rule.h"

enum { SL_TERMS_TEXT_MAX = 256 /* bytes of any canonical text, with its NUL */, SL_AFTER_MAX = 64 };

/* Reads `penalty` as above, without the word before it. SLUICE_OK, or SLUICE_E_SYNTAX / _RANGE with `error` (may be
 * NULL) as sluice_limit_parse() says; then `terms` is untouched. Other terms in it stay as they are. */
SLUICE_MUST_USE sluice_err sl_penalty_parse(struct sluice_terms *terms, struct sluice_bytes text,
                                            struct sluice_error *error);

/* Reads all terms, in any order, each at most once; what the text does not name is cleared. The same. */
SLUICE_MUST_USE sluice_err sl_terms_parse(struct sluice_terms *terms, struct sluice_bytes text,
                                          struct sluice_error *error);

/* Can they be kept: at most SLUICE_PENALTIES_MAX penalties, each longer than the one before, after 1..SL_AFTER_MAX
 * denials within a time above 0? Terms that were read can; a program may make its own. */
bool sl_terms_are_valid(const struct sluice_terms *terms);

/* Write the canonical text of the penalty alone, or of all terms; "" where there are none. Return its length. */
size_t sl_penalty_print(const struct sluice_terms *terms, char text[SL_TERMS_TEXT_MAX]);
size_t sl_terms_print(const struct sluice_terms *terms, char text[SL_TERMS_TEXT_MAX]);

/* ---- strikes: who was denied how often, and is locked out until when ------------------------------------------ */

/* What is remembered of a key under penalties; all zero: nothing. Any bytes may stand in it: answers are then wrong,
 * but well-formed. */
struct sl_strikes {
	sluice_ns until;                 /* the end of the last lockout */
	sluice_ns last;                  /* the last denial that counted */
	uint32_t level;                  /* penalties imposed and not forgiven */
	uint32_t count;                  /* denials that count towards the next, at most SL_AFTER_MAX - 1 */
	sluice_ns denials[SL_AFTER_MAX]; /* their instants, rising */
};

/* Bytes of it that are in use: what a host has to keep. */
static inline size_t sl_strikes_bytes(const struct sl_strikes *strikes) {
	return sizeof *strikes - (size_t)(SL_AFTER_MAX - (strikes->count < SL_AFTER_MAX ? strikes->count : SL_AFTER_MAX)) *
	                             sizeof strikes->denials[0];
}

/* How a key stands at `now`: forgiven levels and denials that count no longer are left out. A denial at s counts until
 * just before s + within. An instant before the last denial counts as that. No lockout lasts longer than the longest
 * penalty of these terms, also one that was imposed under others. Without penalties: all 0. */
struct sluice_standing sl_strikes_stand(const struct sluice_terms *terms, const struct sl_strikes *strikes,
                                        sluice_ns now);

/* What the penalties make of the limit's own decision: locked out, a cost above 0 is denied, nothing remains, and the
 * waits (but next_after_ns, which is its host's) last at least as long. */
void sl_strikes_judge(const struct sluice_terms *terms, const struct sl_strikes *strikes, sluice_ns now, uint64_t cost,
                      struct sluice_decision *decision);

/* Notes a denial by the limit itself of a cost above 0, and imposes the next penalty where it is the one too many; the
 * count then begins anew. The decision is then to be judged again. Of somebody who is locked out nothing is noted.
 * Returns whether a penalty began. */
bool sl_strikes_add(const struct sluice_terms *terms, struct sl_strikes *strikes, sluice_ns now);

/* For how long after `now` strikes differ from none. */
sluice_ns sl_strikes_life(const struct sluice_terms *terms, const struct sl_strikes *strikes, sluice_ns now);

#endif
