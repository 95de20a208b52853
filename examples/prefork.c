/* Workers that share one limit: a parent opens a store and forks four workers, which ask 4,000 times together for one
 * key that may have 1,000 an hour. Exactly 1,000 are admitted.
 *
 *   cc prefork.c -o prefork $(pkg-config --cflags --libs sluice) && ./prefork [FILE]
 *
 * Without a FILE the store is in shared memory, and is forgotten at the end. With one the counters stay: run it again
 * within the hour, and none is admitted. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sluice.h"

enum { WORKERS = 4, ASKS = 1000 };

/* A fork takes the store along: the child goes on with it as a process of its own. */
static void work(struct sluice_store *store, const struct sluice_limit *limit, int start, int to_parent) {
	struct sluice_bytes key = {"user:1", 6};
	unsigned admitted = 0;
	char none;
	if (read(start, &none, 1) != 0)
		_exit(1);
	for (int i = 0; i < ASKS; i++) {
		struct sluice_decision decision;
		if (sluice_check(store, limit, key, 1, &decision) != SLUICE_OK)
			_exit(1); /* the store can't answer: yours to say whether that means yes or no */
		admitted += decision.allowed;
	}
	_exit(write(to_parent, &admitted, sizeof admitted) == sizeof admitted ? 0 : 1);
}

int main(int count, char **arguments) {
	struct sluice_store_options options = {0};
	struct sluice_store *store;
	struct sluice_limit limit;
	struct sluice_error error;
	const char *text = "sliding-log 1000/1h";
	char name[32];
	int start[2], answers[2], failed = 0;
	unsigned admitted, sum = 0;

	snprintf(name, sizeof name, "prefork-%ld", (long)getpid());
	options.file = count > 1 ? arguments[1] : NULL;
	options.shared = count > 1 ? NULL : name;
	if (sluice_limit_parse(&limit, (struct sluice_bytes){text, strlen(text)}, &error) != SLUICE_OK ||
	    sluice_store_open(&store, &options, &error) != SLUICE_OK) {
		fprintf(stderr, "%s\n", error.text);
		return 1;
	}
	if (pipe(start) != 0 || pipe(answers) != 0)
		return 1;
	for (int i = 0; i < WORKERS; i++)
		if (fork() == 0) {
			close(start[1]);
			work(store, &limit, start[0], answers[1]);
		}
	close(start[1]); /* now all of them begin */
	close(answers[1]);
	while (read(answers[0], &admitted, sizeof admitted) == sizeof admitted) {
		printf("a worker was admitted %u times\n", admitted);
		sum += admitted;
	}
	for (int status; wait(&status) > 0;)
		failed |= status != 0;
	printf("admitted %u of %d\n", sum, WORKERS * ASKS);
	sluice_store_close(store);
	if (options.shared != NULL && sluice_store_forget(name, &error) != SLUICE_OK)
		fprintf(stderr, "%s\n", error.text);
	return failed;
}
