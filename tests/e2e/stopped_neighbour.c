/* A process that shares a store and is stopped with locks in hand, exactly: those of the homes of some keys under a
 * limit, and of the blocks.
 *
 *   stopped_neighbour FILE LIMIT KEY...
 *
 * Says where in the file those homes are and, last, its process id; stops itself; when it goes on it gives the locks
 * back and ends. With `-` before FILE it only says where they are. */
#include "algo/step.h"
#include "base/bytes.h"
#include "store/blocks.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int by_address(const void *a, const void *b) {
	const struct sl_bucket *const *x = a, *const *y = b;
	return *x < *y ? -1 : *x > *y;
}

int main(int argc, char **argv) {
	bool only_says = argc > 1 && argv[1][0] == '-' && argv[1][1] == '\0';
	argv += only_says;
	argc -= only_says;
	struct sluice_store_options options = {.file = argv[1], .existing = true};
	struct sluice_store *store;
	struct sluice_limit limit;
	struct sl_bucket *homes[64];
	int count = argc - 3;
	if (argc < 4 || count > 64 || sluice_store_open(&store, &options, NULL) != SLUICE_OK ||
	    sluice_limit_parse(&limit, sl_str(argv[2]), NULL) != SLUICE_OK)
		return 2;
	for (int i = 0; i < count; i++)
		homes[i] = sl_place_of(store, &limit.derived[SL_IDENT_KIND], limit.derived[SL_IDENT_NAME] == 0 ? 1 : 2,
		                       sl_str(argv[3 + i]), sl_rule_has(&limit, SL_HAS_BLOCK))
		               .home;
	for (int i = 0; i < count; i++)
		printf("%ld\n", (long)((const char *)homes[i] - (const char *)store->header));
	if (only_says)
		return 0;
	qsort(homes, (size_t)count, sizeof homes[0], by_address);
	for (int i = 0; i < count; i++)
		if (sl_home_lock(store, homes[i]) != SLUICE_OK)
			return 3;
	if (sl_blocks_begin(store) != SLUICE_OK)
		return 3;
	printf("%d\n", (int)getpid());
	fflush(stdout);
	raise(SIGSTOP);
	sl_blocks_commit(store);
	for (int i = 0; i < count; i++)
		sl_home_unlock(homes[i]);
	sluice_store_close(store);
	return 0;
}
