#include "hosts/server/watch/books.h"
#include <stdlib.h>

struct sl_books {
	uint32_t workers;
	struct sl_tally tallies[];
};

struct sl_books *sl_books_new(uint32_t workers) {
	struct sl_books *books = calloc(1, sizeof *books + workers * sizeof books->tallies[0]);
	if (books != NULL)
		books->workers = workers;
	return books;
}

void sl_books_free(struct sl_books *books) {
	free(books);
}

struct sl_tally *sl_books_tally(struct sl_books *books, uint32_t worker) {
	return &books->tallies[worker];
}

void sl_books_enter(struct sl_books *books, const struct sluice_policy *policy, uint32_t *rows) {
	(void)books;
	for (uint32_t i = 0; i < sl_policy_limit_count(policy); i++)
		rows[i] = 0;
}
