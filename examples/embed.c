/* Five requests a minute, exactly, in one process: twelve are asked for here, five are admitted.
 *
 * Build it against an installed Sluice:  cc embed.c -o embed $(pkg-config --cflags --libs sluice) */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sluice.h"

int main(void) {
	struct sluice_store *store;
	struct sluice_limit limit;
	struct sluice_error error;
	const char *text = "sliding-log 5/1m", *user = "user:1";
	struct sluice_bytes key = {user, strlen(user)};

	if (sluice_limit_parse(&limit, (struct sluice_bytes){text, strlen(text)}, &error) != SLUICE_OK) {
		fprintf(stderr, "%s: column %" PRIu32 ": %s\n", text, error.column, error.text);
		return 1;
	}
	if (sluice_store_open(&store, NULL, &error) != SLUICE_OK) {
		fprintf(stderr, "store: %s\n", error.text);
		return 1;
	}
	for (int i = 1; i <= 12; i++) {
		struct sluice_decision decision;
		if (sluice_check(store, &limit, key, 1, &decision) != SLUICE_OK)
			return 1; /* the store is held up: yours to say whether that means yes or no */
		printf("%2d: %s, %" PRIu32 " left, retry after %" PRIu64 " ms\n", i, decision.allowed ? "allowed" : "denied",
		       decision.remaining, (decision.retry_after_ns + 999999) / 1000000);
	}
	sluice_store_close(store);
	return 0;
}
