/* The two ways of telling what inspect found: for people, and as JSON. */
#include "hosts/cli/store/inspect.h"

#include "hosts/cli/store/store_open.h"
#include "proto/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* ---- for people ------------------------------------------------------------------------------------------------ */

static const char *const use_names[SL_USES] = {"up to 1/32", "up to 1/16", "up to 1/10",    "up to 1/5",
                                               "up to 2/5",  "up to 3/4",  "less than all", "all"};

static void print_date(const char *name, sluice_ns ns) {
	time_t s = (time_t)(ns / 1000000000);
	struct tm parts;
	char text[64] = "unknown";
	if (gmtime_r(&s, &parts) != NULL)
		strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
	printf("%-16s %s\n", name, text);
}

static void print_number(const char *name, uint64_t number, const char *what) {
	printf("%-16s %" PRIu64 "%s\n", name, number, what);
}

/* A client may stamp its requests itself: a charge can lie ahead of the clock. */
static const char *age(char text[SL_WAIT_TEXT_MAX + 16], sluice_ns now, sluice_ns instant) {
	char wait[SL_WAIT_TEXT_MAX];
	bool ahead = instant > now;
	snprintf(text, SL_WAIT_TEXT_MAX + 16, "%s %s",
	         sl_cli_wait(wait, (int64_t)((ahead ? instant - now : now - instant) / 1000000)), ahead ? "ahead" : "ago");
	return text;
}

static void print_memory(const struct sluice_store_stats *stats) {
	char a[SL_SIZE_TEXT_MAX], b[SL_SIZE_TEXT_MAX];
	printf("%-16s %s, %" PRIu64 "%% of it for blocks\n", "memory", sl_cli_bytes(a, stats->memory_bytes),
	       stats->blocks_percent);
	printf("%-16s %" PRIu64 " of %" PRIu64 " in use, %" PRIu64 " free\n", "slots", stats->slots_used, stats->slots,
	       stats->slots - stats->slots_used);
	print_number("  expired", stats->slots_expired, " of those in use: the next that needs one takes it");
	print_number("  spilled", stats->slots_spilled, " in another bucket than their own");
	print_number("  with a block", stats->slots_with_block, " logs, sub-buckets, leases, members, reservations");
	printf("%-16s %s in use, %s free\n", "blocks", sl_cli_bytes(a, stats->block_bytes),
	       sl_cli_bytes(b, stats->block_bytes_free));
	printf("%-16s %s, for what is remembered of evicted counters\n", "sketch", sl_cli_bytes(a, stats->sketch_bytes));
}

static void print_events(const struct sluice_store_stats *stats) {
	print_number("evicted", stats->evicted, " counters in use, since the store was created");
	print_number("from sketch", stats->from_sketch, " counters that started with less than their quota for it");
	print_number("recoveries", stats->recoveries, " locks taken from processes that had died");
	print_number("repairs", stats->repairs, " times that a first opener checked all of it");
	print_number("dropped", stats->dropped, " counters that were torn");
	if (stats->stopped != 0)
		printf("%-16s %" PRIu32 " process%s, with a lock in hand: %" PRIu32 " buckets are not looked at\n", "stopped",
		       stats->stopped, stats->stopped == 1 ? "" : "es", stats->passed_over);
}

static void print_sizes(const struct sl_inspection *inspection) {
	char size[SL_SIZE_TEXT_MAX], text[SL_SIZE_TEXT_MAX + 8];
	bool first = true;
	for (int i = 0; i < SL_INSPECT_SIZES; i++) {
		if (inspection->sizes[i] == 0)
			continue;
		if (first)
			printf("\n%-16s counters\n", "block");
		first = false;
		snprintf(text, sizeof text, "up to %s", sl_cli_bytes(size, (uint64_t)64 << i));
		printf("%-16s %" PRIu64 "\n", text, inspection->sizes[i]);
	}
}

void sl_inspect_print_text(const struct sl_inspection *inspection) {
	const struct sluice_store_stats *stats = &inspection->stats;
	char text[SL_WAIT_TEXT_MAX + 16];
	printf("%-16s %s\n", "store", inspection->name);
	print_date("created", stats->created_ns);
	printf("%-16s %u, this one among them\n", "processes", stats->processes);
	print_memory(stats);
	print_events(stats);
	if (inspection->counters != 0) {
		printf("%-16s youngest %s", "last charges", age(text, inspection->now, inspection->youngest));
		printf(", oldest %s\n", age(text, inspection->now, inspection->oldest));
		printf("\n%-16s counters\n", "used of quota");
		for (int i = 0; i < SL_USES; i++)
			printf("%-16s %" PRIu64 "\n", use_names[i], stats->uses[i]);
	}
	print_sizes(inspection);
}

/* ---- for programs ---------------------------------------------------------------------------------------------- */

static void put_string(const char *name, struct sluice_bytes text) {
	size_t room = SL_JSON_ROOM(text.len);
	char *memory = malloc(room);
	if (memory == NULL)
		return;
	struct sl_out out = sl_out_to(memory, room);
	sl_json_string(&out, text);
	printf("\"%s\":%.*s", name, (int)sl_out_len(&out), memory);
	free(memory);
}

static void put_list(const char *name, const uint64_t *numbers, int count) {
	printf(",\"%s\":[", name);
	for (int i = 0; i < count; i++)
		printf("%s%" PRIu64, i == 0 ? "" : ",", numbers[i]);
	putchar(']');
}

/* The figures as struct sluice_store_stats names them. */
static void put_stats(const struct sluice_store_stats *stats) {
	const struct {
		const char *name;
		uint64_t value;
	} rows[] = {
		{"memory_bytes", stats->memory_bytes},
		{"blocks_percent", stats->blocks_percent},
		{"slots", stats->slots},
		{"slots_used", stats->slots_used},
		{"slots_expired", stats->slots_expired},
		{"slots_spilled", stats->slots_spilled},
		{"slots_with_block", stats->slots_with_block},
		{"block_bytes", stats->block_bytes},
		{"block_bytes_free", stats->block_bytes_free},
		{"sketch_bytes", stats->sketch_bytes},
		{"evicted", stats->evicted},
		{"from_sketch", stats->from_sketch},
		{"recoveries", stats->recoveries},
		{"repairs", stats->repairs},
		{"dropped", stats->dropped},
		{"stopped", stats->stopped},
		{"passed_over", stats->passed_over},
		{"processes", stats->processes},
		{"created_ns", stats->created_ns},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		printf(",\"%s\":%" PRIu64, rows[i].name, rows[i].value);
	put_list("uses", stats->uses, SL_USES);
}

void sl_inspect_print_json(const struct sl_inspection *inspection) {
	putchar('{');
	put_string("store", sl_str(inspection->name));
	put_stats(&inspection->stats);
	printf(",\"counters\":%" PRIu64 ",\"now_ns\":%" PRIu64, inspection->counters, inspection->now);
	if (inspection->counters != 0)
		printf(",\"youngest_ns\":%" PRIu64 ",\"oldest_ns\":%" PRIu64, inspection->youngest, inspection->oldest);
	printf(",\"block_sizes\":{");
	for (int i = 0, told = 0; i < SL_INSPECT_SIZES; i++)
		if (inspection->sizes[i] != 0)
			printf("%s\"%" PRIu64 "\":%" PRIu64, told++ == 0 ? "" : ",", (uint64_t)64 << i, inspection->sizes[i]);
	printf("}}\n");
}
