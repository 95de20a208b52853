/* inspect: what a store holds, and whether it is whole; beside the processes that use it. */
#include "hosts/cli/store/inspect.h"

#include "base/coarse.h"
#include "hosts/cli/store/store_open.h"
#include "hosts/library/torn.h"
#include "store/scan.h"
#include "store/walk.h"

#include <inttypes.h>
#include <stdio.h>

struct inspect {
	bool json, verify;
	struct sl_cli_ask ask; /* the store, and what is asked of it */
};
#define TO(field) offsetof(struct inspect, field)

static const struct sl_option options[] = {
	{"store", 0, "FILE", "the store's file, or shared:NAME", SL_TEXT(TO(ask.store))},
	{"json", 0, NULL, "for programs: JSON, with every figure as a whole number", SL_FLAG(TO(json))},
	{"verify", 0, NULL, "check every structure; nobody else may have the store open", SL_FLAG(TO(verify))},
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
	struct sl_inspection inspection = {.name = inspect->ask.store, .now = sluice_store_now(store)};
	sluice_store_stats(store, &inspection.stats);
	for (struct sl_walk walk = {.store = store}; sl_walk_next(&walk);)
		(void)sl_store_scan(store, walk.page, inspection.now, NULL, look_at, &inspection);
	if (inspect->json)
		sl_inspect_print_json(&inspection);
	else
		sl_inspect_print_text(&inspection);
}

/* Each limit tells of itself. */
static bool tell_keys(struct inspect *inspect, struct sluice_error *error) {
	const struct sl_request *request = &inspect->ask.request;
	int64_t each[SLUICE_ITEMS_MAX][SL_ANSWER_LEN], count;
	if (!sl_client_integer(&inspect->ask.client, '*', &count, error))
		return false;
	for (int i = 0; i < request->limit_count; i++) {
		if (!sl_ask_read_array(&inspect->ask, each[i], SL_ANSWER_LEN, 0, error))
			return false;
		each[i][SL_ANSWER_ALLOWED] &= 1; /* the bound that was met stands above it (proto/answer.h) */
	}
	if (inspect->json)
		sl_inspect_print_keys_json(request, each);
	else
		sl_inspect_print_keys_text(request, each);
	return true;
}

static int inspect_keys(const struct sl_verb *verb, struct inspect *inspect) {
	struct sluice_error error;
	int status = sl_ask_send(&inspect->ask);
	if (status != SL_GO_ON)
		return status;
	status = tell_keys(inspect, &error) ? SL_EXIT_FINE : sl_ask_failed(&inspect->ask, &error);
	sl_ask_end(&inspect->ask);
	return sl_cli_end(verb, status);
}

/* `dropped`: what the store had counted before this process opened it. Being the first, it dropped what was torn. */
static int verify(const struct sl_verb *verb, const struct inspect *inspect, struct sluice_store *store,
                  uint64_t dropped) {
	struct sluice_store_stats stats;
	int status = sl_store_be_alone(verb, inspect->ask.store, store, "verify it");
	if (status != SL_GO_ON)
		return status;
	sluice_store_stats(store, &stats);
	const char *wrong = sluice_store_verify(store);
	if (wrong != NULL)
		printf("%s: %s\n", inspect->ask.store, wrong);
	else if (stats.dropped > dropped)
		printf("%s: %" PRIu64 " counters were torn and are dropped now; what is left is whole\n", inspect->ask.store,
		       stats.dropped - dropped);
	else
		printf("%s: whole\n", inspect->ask.store);
	return wrong == NULL && stats.dropped <= dropped ? SL_EXIT_FINE : SL_EXIT_DENIED;
}

static int take_word(const struct sl_verb *verb, void *to, const char *word) {
	struct inspect *inspect = to;
	return sl_request_take(verb, &inspect->ask.request, word);
}

static int read_arguments(const struct sl_verb *verb, struct inspect *inspect, int argc, char **argv) {
	int status = sl_cli_read(verb, argc, argv, inspect, NULL);
	if (status != SL_GO_ON)
		return status;
	if (inspect->ask.store == NULL)
		return sl_cli_misuse(verb, "which store? --store FILE, or --store shared:NAME");
	if (inspect->verify && (inspect->json || inspect->ask.request.word_count != 0))
		return sl_cli_misuse(verb, "--verify looks at the whole store: leave out --json and KEY LIMIT...");
	return inspect->ask.request.word_count == 0 ? SL_GO_ON : sl_request_read(verb, &inspect->ask.request);
}

static int run_inspect(const struct sl_verb *verb, int argc, char **argv) {
	static struct inspect inspect;
	inspect.ask = sl_ask_begin(verb);
	inspect.ask.given = SL_SAYS(EACH);
	int status = read_arguments(verb, &inspect, argc, argv);
	if (status != SL_GO_ON)
		return status;
	if (!inspect.verify && inspect.ask.request.word_count != 0)
		return inspect_keys(verb, &inspect);
	uint64_t dropped = sl_store_name_is_shared(inspect.ask.store) ? UINT64_MAX : sl_torn_dropped(inspect.ask.store);
	struct sluice_store *store = sl_store_open_existing(verb, inspect.ask.store);
	if (store == NULL)
		return SL_EXIT_FAILED;
	status = SL_EXIT_FINE;
	if (inspect.verify)
		status = verify(verb, &inspect, store, dropped);
	else
		inspect_store(&inspect, store);
	sluice_store_close(store);
	return sl_cli_end(verb, status);
}

const struct sl_verb sl_verb_inspect = {
	.name = "inspect",
	.usage = "inspect --store FILE [KEY LIMIT...] [--json] [--verify]",
	.summary = "Says what a store holds, or what a key has left in it",
	.text = "Walks the whole store beside the processes that use it, which wait for one bucket at most. With KEY\n"
			"LIMIT... it says instead what each of these limits has left for the key, charging nothing; `KEY k`\n"
			"between limits: those after it are of k. With --verify: exit status 0 when the store is whole, 1\n"
			"when it is not, or when torn counters had to be dropped to make it so.\n",
	.examples = "  sluice inspect --store /var/lib/sluice/counters\n"
				"  sluice inspect --store shared:web user:1 10/1s 'sliding-log 20/1m' --json\n"
				"  sluice inspect --store /var/lib/sluice/counters --verify\n",
	SL_OPTIONS(options),
	.operation = SL_OP_PEEK,
	.word = take_word,
	.run = run_inspect,
};
