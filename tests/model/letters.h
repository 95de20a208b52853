/* The calls of small worlds of reservations (histories.h): a letter each. */
#ifndef TESTS_MODEL_LETTERS_H
#define TESTS_MODEL_LETTERS_H

#include "sluice.h"

enum { LETTER_IDS = 2, LETTER_IDS_MAX = 5 /* with those of what histories begin with */ };

struct letter {
	sluice_operation operation;
	uint32_t cost, id, life_ms; /* id: 1..LETTER_IDS_MAX of reservations and commits */
	int32_t wait_ms;            /* after the call before it */
	bool upto;
	uint32_t counters; /* a bit for each, in worlds of several */
};

/* Whether it takes something: a charge or a reservation. */
bool letter_takes(const struct letter *letter);

/* Makes the call of a letter, or a peek or a reset in its place, with these limits; it has to be decided. */
struct sluice_call letter_ask(struct sluice_store *store, const struct letter *letter, sluice_operation operation,
                              uint64_t now_ms, const struct sluice_item *items, uint32_t count,
                              struct sluice_decision *each);

/* Prints a letter, and when it was asked, as a line of a history that failed. */
void letter_print(const struct letter *letter, uint64_t at_ms);

#endif
