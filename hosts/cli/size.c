/* sluice size: how much memory a limit takes for so many keys, at every place that may count them. */
#include "hosts/cli/size.h"

#include "hosts/cli/cli.h"
#include "store/store.h"

#include <inttypes.h>
#include <stdlib.h>

struct sizing {
	struct sluice_limit limits[SLUICE_ITEMS_MAX];
	uint32_t limit_count;
	uint32_t keys;
};

enum { KEYS_DEFAULT = 1000000, LIMIT_COLUMNS = 52 };

static const struct sl_option options[] = {
	{"limit", 'l', "LIMIT", "a limit that each key has; up to 16", SL_OWN},
	{"keys", 0, "N", "how many keys are counted at a time, 1 to 4294967295 (1000000)",
     SL_NUMBER(offsetof(struct sizing, keys), 1, UINT32_MAX)},
};

static int take_limit(const struct sl_verb *verb, void *to, int option, const char *text) {
	struct sizing *sizing = to;
	struct sluice_error error;
	(void)option;
	if (sizing->limit_count == SLUICE_ITEMS_MAX)
		return sl_cli_misuse(verb, "more than %d limits", SLUICE_ITEMS_MAX);
	if (sluice_limit_parse(&sizing->limits[sizing->limit_count], sl_str(text), &error) != SLUICE_OK)
		return sl_cli_misuse(verb, "--limit '%.64s', column %u: %s", text, error.column, error.text);
	sizing->limit_count++;
	return SL_GO_ON;
}

static void print_figure(uint64_t bytes) {
	if (bytes == 0)
		printf(" %10s", "-");
	else
		printf(" %10" PRIu64, bytes);
}

static void print_row(const char *name, const struct sl_size *size) {
	printf("%-*s", LIMIT_COLUMNS, name);
	print_figure(size->slots + size->blocks);
	print_figure(size->module);
	print_figure(size->script);
	print_figure(size->theirs);
	printf("%s%s\n", size->theirs_called != NULL ? "  " : "", size->theirs_called != NULL ? size->theirs_called : "");
}

/* Adds what one limit takes; what one of them has not, all have not. */
static void add(uint64_t *sum, uint64_t bytes, bool first) {
	*sum = bytes == 0 || (*sum == 0 && !first) ? 0 : *sum + bytes;
}

static uint64_t in_mib(uint64_t bytes, uint64_t keys) {
	return (uint64_t)(((unsigned __int128)bytes * keys + (1 << 20) - 1) >> 20);
}

static int size(const struct sl_verb *verb, const struct sizing *sizing) {
	struct sl_size sum = {0};
	uint64_t mib;
	uint32_t percent;
	printf("%-*s %10s %10s %10s %10s\n", LIMIT_COLUMNS, "bytes a key", "store", "module", "script", "by hand");
	for (uint32_t i = 0; i < sizing->limit_count; i++) {
		char text[SLUICE_LIMIT_TEXT_MAX];
		struct sl_size one = sl_size_of(&sizing->limits[i]);
		sluice_limit_print(&sizing->limits[i], text);
		print_row(text, &one);
		sum.slots += one.slots + one.blocks;
		add(&sum.module, one.module, i == 0);
		add(&sum.script, one.script, i == 0);
		add(&sum.theirs, one.theirs, i == 0);
	}
	sl_size_store(sizing->limits, sizing->limit_count, sizing->keys, &mib, &percent);
	sum = (struct sl_size){.slots = mib,
	                       .module = in_mib(sum.module, sizing->keys),
	                       .script = in_mib(sum.script, sizing->keys),
	                       .theirs = in_mib(sum.theirs, sizing->keys)};
	char name[64];
	snprintf(name, sizeof name, "MiB for %u keys", sizing->keys);
	print_row(name, &sum);
	if (mib > SL_ARENA_BYTES_MAX >> 20)
		puts("\nno store is that large: it has 256GiB at most");
	else
		printf("\nstore: {memory: %" PRIu64 "MiB, blocks: %u%%}\n", mib, percent);
	return sl_cli_end(verb, SL_EXIT_FINE);
}

static int run_size(const struct sl_verb *verb, int argc, char **argv) {
	struct sizing *sizing = calloc(1, sizeof *sizing);
	if (sizing == NULL)
		return sl_cli_fail(verb, "no memory");
	sizing->keys = KEYS_DEFAULT;
	int status = sl_cli_read(verb, argc, argv, sizing, NULL);
	if (status == SL_GO_ON && sizing->limit_count == 0)
		status = sl_cli_misuse(verb, "which limits? --limit LIMIT");
	if (status == SL_GO_ON)
		status = size(verb, sizing);
	free(sizing);
	return status;
}

const struct sl_verb sl_verb_size = {
	.name = "size",
	.usage = "size --limit LIMIT... [--keys N]",
	.summary = "Says how much memory limits need for a number of keys, in a store and in Redis",
	.text = "For keys of 20 bytes that have used up their quota by costs of 1: the most that they take. `store` is\n"
			"a store of Sluice, in private or shared memory or a file, large enough that nothing is evicted. `module`\n"
			"and `script` are a Redis, by its own used_memory. `by hand` is what the usual hand-written scripts keep:\n"
			"strings, a sorted set, a hash. `-` means not available. Figures were measured, and are right to within a\n"
			"quarter. Limits that share a key take less in Redis.\n",
	.examples = "  sluice size --limit 100/1m --keys 1000000\n"
				"  sluice size --limit 10/1s --limit 'sliding-log 100/1h' --keys 50000\n",
	SL_OPTIONS(options),
	.take = take_limit,
	.no_word = " is one word too many; a limit is given by --limit",
	.run = run_size,
};
