/* inspect: what a store holds, and whether it is whole; beside the processes that use it. */
#include "hosts/cli/inspect.h"

#include "base/coarse.h"
#include "hosts/cli/store_open.h"
#include "hosts/server/store_home.h"
#include "store/scan.h"
#include "store/walk.h"

#include <inttypes.h>
#include <stdio.h>

enum { STORE, JSON, VERIFY };

static const struct sl_option options[] = {
	[STORE] = {"store", 0, "FILE", "the store's file, or shared:NAME"},
	[JSON] = {"json", 0, NULL, "for programs: JSON, with every figure as a whole number"},
	[VERIFY] = {"verify", 0, NULL, "check every structure; nobody else may have the store open"},
};

struct inspect {
	const char *store;
	bool json, verify;
	struct sl_request request;
};

static bool look_at(void *context, const struct sl_entry *entry) {
	struct sl_inspection *inspection = context;
	sluice_ns instant = entry->state[0] >> SL_COARSE_SHIFT << SL_COARSE_SHIFT;
	int size = 0;
	if (inspection->counters == 0 || instant > inspection->youngest)
		inspection->youngest = instant;
	if (inspection->counters == 0 || instant < inspection->oldest)
		inspection->oldest = instant;
	inspection->counters++;
	if (entry->block == NULL)
		return true;
	while (size < SL_INSPECT_SIZES - 1 && (uint64_t)64 << size < entry->block_bytes)
		size++;
	inspection->sizes[size]++;
	return true;
}

static void inspect_store(const struct inspect *inspect, struct sluice_store *store) {
	struct sl_inspection inspection = {.name = inspect->store, .now = sluice_store_now(store)};
	sluice_store_stats(store, &inspection.stats);
	for (struct sl_walk walk = {.store = store}; sl_walk_next(&walk);)
		(void)sl_store_scan(store, walk.page, inspection.now, NULL, look_at, &inspection);
	if (inspect->json)
		sl_inspect_print_json(&inspection);
	else
		sl_inspect_print_text(&inspection);
}

static int inspect_keys(const struct sl_verb *verb, const struct inspect *inspect, struct sluice_store *store) {
	struct sluice_decision each[SLUICE_ITEMS_MAX];
	struct sluice_call call = {.operation = SLUICE_PEEK, .cost = 1, .want_next = true, .each = each};
	int status = sl_request_decide(verb, &inspect->request, store, inspect->store, &call);
	if (status != SL_GO_ON)
		return status;
	if (inspect->json)
		sl_inspect_print_keys_json(&inspect->request, each);
	else
		sl_inspect_print_keys_text(&inspect->request, each);
	return SL_EXIT_FINE;
}

/* `dropped`: what the store had counted before this process opened it. Being the first, it dropped what was torn. */
static int verify(const struct sl_verb *verb, const struct inspect *inspect, struct sluice_store *store,
                  uint64_t dropped) {
	struct sluice_store_stats stats;
	int status = sl_store_be_alone(verb, inspect->store, store, "verify it");
	if (status != SL_GO_ON)
		return status;
	sluice_store_stats(store, &stats);
	const char *wrong = sluice_store_verify(store);
	if (wrong != NULL)
		printf("%s: %s\n", inspect->store, wrong);
	else if (stats.dropped > dropped)
		printf("%s: %" PRIu64 " counters were torn and are dropped now; what is left is whole\n", inspect->store,
		       stats.dropped - dropped);
	else
		printf("%s: whole\n", inspect->store);
	return wrong == NULL && stats.dropped <= dropped ? SL_EXIT_FINE : SL_EXIT_DENIED;
}

static int read_arguments(const struct sl_verb *verb, struct inspect *inspect, struct sl_args *args) {
	for (int arg; (arg = sl_args_next(args)) != SL_ARG_END;) {
		int status = SL_GO_ON;
		if (arg == SL_ARG_WORD)
			status = sl_request_take(verb, &inspect->request, args->value);
		else if (arg == STORE)
			inspect->store = args->value;
		else if (arg == JSON)
			inspect->json = true;
		else if (arg == VERIFY)
			inspect->verify = true;
		else
			return sl_cli_stop(verb, args, arg);
		if (status != SL_GO_ON)
			return status;
	}
	if (inspect->store == NULL)
		return sl_cli_misuse(verb, "which store? --store FILE, or --store shared:NAME");
	if (inspect->verify && (inspect->json || inspect->request.word_count != 0))
		return sl_cli_misuse(verb, "--verify looks at the whole store: leave out --json and KEY LIMIT...");
	return inspect->request.word_count == 0 ? SL_GO_ON : sl_request_read(verb, &inspect->request);
}

static int run_inspect(const struct sl_verb *verb, int argc, char **argv) {
	struct inspect inspect = {.store = NULL};
	struct sl_args args = sl_args_begin(argv, argc, options, sizeof options / sizeof *options);
	int status = read_arguments(verb, &inspect, &args);
	if (status != SL_GO_ON)
		return status;
	uint64_t dropped = sl_store_name_is_shared(inspect.store) ? UINT64_MAX : sl_store_home_dropped(inspect.store);
	struct sluice_store *store = sl_store_open_existing(verb, inspect.store);
	if (store == NULL)
		return SL_EXIT_FAILED;
	status = SL_EXIT_FINE;
	if (inspect.verify)
		status = verify(verb, &inspect, store, dropped);
	else if (inspect.request.word_count != 0)
		status = inspect_keys(verb, &inspect, store);
	else
		inspect_store(&inspect, store);
	sluice_store_close(store);
	return sl_cli_flush(verb) ? status : SL_EXIT_FAILED;
}

const struct sl_verb sl_verb_inspect = {
	.name = "inspect",
	.usage = "inspect --store FILE [KEY LIMIT...] [--json] [--verify]",
	.summary = "Says what a store holds, or what a key has left in it",
	.text = "Walks the whole store beside the processes that use it, which wait for one bucket at most. With KEY\n"
			"LIMIT... it says instead what each of these limits has left for the key, charging nothing; `KEY k`\n"
			"between limits: those behind it are of k. With --verify: exit status 0 when the store is whole, 1\n"
			"when it is not, or when torn counters had to be dropped to make it so.\n",
	.examples = "  sluice inspect --store /var/lib/sluice/counters\n"
				"  sluice inspect --store shared:web user:1 10/1s 'sliding-log 20/1m' --json\n"
				"  sluice inspect --store /var/lib/sluice/counters --verify\n",
	.options = options,
	.option_count = sizeof options / sizeof *options,
	.run = run_inspect,
};
