/* inspect: what a store holds, and whether it is whole, beside the processes that use it; what counters of a key hold,
 * wherever they are. */
#include "hosts/cli/store/inspect.h"

#include "base/coarse.h"
#include "hosts/cli/store/store_open.h"
#include "hosts/cli/told.h"
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
	{"store", 0, "STORE", "the store's file, or shared:NAME; for KEY LIMIT... a Redis as well:\n"
     "redis://[USER@]HOST[:PORT][/PREFIX], rediss:// over TLS, or unix://[USER@]/PATH", SL_TEXT(TO(ask.store))},
	SL_CLIENT_OPTIONS(TO(ask.server)),
	{"json", 0, NULL, "for programs: JSON, with every figure as a whole number", SL_FLAG(TO(json))},
	{"verify", 0, NULL, "check every structure; no other process may have the store open", SL_FLAG(TO(verify))},
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
	static struct sl_told told;
	int64_t count;
	if (!sl_client_integer(&inspect->ask.client, '*', &count, error))
		return false;
	for (int64_t i = 0; i < count; i++) {
		if (!sl_told_read(&inspect->ask.client, &told, error))
			return false;
		if (i != 0)
			puts(inspect->json ? "," : "");
		if (inspect->json && i == 0)
			putchar('[');
		if (inspect->json)
			sl_told_print_json(&told);
		else
			sl_told_print(&told);
	}
	if (inspect->json)
		puts("]");
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
	struct sl_cli_ask *ask = &inspect->ask;
	int status = sl_cli_read(verb, argc, argv, inspect, NULL);
	bool keys = ask->request.word_count != 0;
	if (status != SL_GO_ON)
		return status;
	if (ask->store == NULL && !keys)
		return sl_cli_misuse(verb, "which store? --store FILE, or --store shared:NAME; or KEY LIMIT..., of a server");
	if (inspect->verify && (inspect->json || keys))
		return sl_cli_misuse(verb, "--verify looks at the whole store: leave out --json and KEY LIMIT...");
	status = sl_ask_check_place(ask);
	if (status == SL_GO_ON && ask->in_redis && !keys)
		return sl_cli_misuse(verb, "of a store in Redis it says what a key has: KEY LIMIT...; the rest is in its INFO");
	return status == SL_GO_ON && keys ? sl_request_read(verb, &ask->request) : status;
}

static int run_inspect(const struct sl_verb *verb, int argc, char **argv) {
	static struct inspect inspect;
	inspect = (struct inspect){.ask = sl_ask_begin(verb)};
	int status = read_arguments(verb, &inspect, argc, argv);
	if (status != SL_GO_ON)
		return status;
	if (inspect.ask.request.word_count != 0)
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
	.usage = "inspect --store FILE [--json] [--verify]\n"
			 "       sluice inspect KEY LIMIT... [--json] [--server ADDR [--user NAME] [--tls [--ca FILE]] |\n"
			 "                      --store STORE]",
	.summary = "Says what a store holds, or what the counters of a key hold and when units return",
	.text = "Without KEY it reads the whole store while other processes use it; they wait for one bucket at most.\n"
			"With KEY LIMIT... it shows for each limit what is left for the key, what counts, when units return,\n"
			"penalties, and what front ends hold. It asks a server, a store, or a Redis with Sluice's module, and\n"
			"charges nothing. `KEY k` between limits gives those after it the key k. `policy:NAME` is a limit of the\n"
			"server's policy. With --verify the exit status is 0 if the store is intact, and 1 if it is not, or if\n"
			"torn counters had to be dropped to repair it.\n",
	.examples = "  sluice inspect --store /var/lib/sluice/counters\n"
				"  sluice inspect ip=192.0.2.7 policy:login\n"
				"  sluice inspect --store shared:web user:1 10/1s 'sliding-log 20/1m' --json\n"
				"  sluice inspect --store redis://10.0.0.7/rl: user:1 100/1m\n"
				"  sluice inspect --store /var/lib/sluice/counters --verify\n",
	SL_OPTIONS(options),
	.operation = SL_OP_INSPECT,
	.word = take_word,
	.run = run_inspect,
};
