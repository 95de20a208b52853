/* Who would have been limited, for people. Numbers are exact; where memory made one a lower bound, it says so. */
#include "base/assert.h"
#include "base/math.h"
#include "hosts/cli/replay/replay_report.h"

#include "hosts/cli/replay/replay_audit.h"
#include "hosts/cli/replay/replay_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

enum { KEY_COLUMNS_MAX = 120 };

/* "33.1 %", rounded to the nearest tenth. */
static void print_percent(uint64_t part, uint64_t whole) {
	uint64_t tenths = whole == 0 ? 0 : sl_div(sl_mul(part, 1000) + whole / 2, whole);
	printf(", %" PRIu64 ".%" PRIu64 " %%\n", tenths / 10, tenths % 10);
}

static void print_instant(sluice_ns time) {
	char text[32] = "";
	struct tm parts;
	time_t s = (time_t)(time / 1000000000);
	if (gmtime_r(&s, &parts) != NULL)
		strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
	printf("%s.%03u", text, (unsigned)(time / 1000000 % 1000));
}

static void print_span(const struct sl_replay *replay) {
	char wait[SL_WAIT_TEXT_MAX];
	fputs("span          ", stdout);
	if (replay->requests == 0) {
		puts("-");
		return;
	}
	print_instant(replay->first);
	fputs(" to ", stdout);
	print_instant(replay->last);
	printf(" UTC (%s)\n", sl_cli_wait(wait, sl_ns_to_ms_ceil(replay->last - replay->first)));
}

/* On --decisions this goes to standard error, and so do the lines below it. */
static void print_unreadable(const struct sl_replay *replay, FILE *to) {
	uint64_t count = replay->unreadable_count;
	fprintf(to, "unreadable    %" PRIu64 " line%s%s\n", count, count == 1 ? "" : "s",
	        count > SL_REPLAY_UNREADABLE_MAX ? ", the first:"
	        : count > 0                      ? ":"
	                                         : "");
	for (uint64_t i = 0; i < count && i < SL_REPLAY_UNREADABLE_MAX; i++) {
		const struct sl_replay_unreadable *one = &replay->unreadable[i];
		fprintf(to, "  %s:%" PRIu64 ": ", sl_replay_file_name(replay, one->file), one->number);
		if (one->error.column != 0)
			fprintf(to, "column %u: ", one->error.column);
		sl_cli_show(to, one->error.text);
		fputc('\n', to);
	}
}

/* What of the cost was admitted; what leases and reservations came to. */
static void print_later(const struct sl_replay *replay) {
	const struct sl_replay_later *all = &replay->later;
	if (replay->tells_cost)
		printf("admitted cost %" PRIu64 ", of %" PRIu64 "\n", replay->admitted_cost, replay->cost);
	if (replay->options->upto)
		printf("in part       %" PRIu64 " of the allowed\n", replay->parts);
	if (all->reservations > 0) {
		printf("reserved      %" PRIu64 " times, %" PRIu64 " in all\n", all->reservations, all->reserved_cost);
		printf("committed     %" PRIu64 " times, %" PRIu64 " in all; %" PRIu64 " had been returned before\n",
		       all->committed, all->committed_cost, all->reservations - all->committed);
		printf("debts         %" PRIu64 " times, %" PRIu64 " in all, above what was reserved\n", all->debts,
		       all->debt_cost);
	}
	if (all->leases > 0)
		printf("leases        %" PRIu64 ", %" PRIu64 " of them released, %" PRIu64 " at their end\n", all->leases,
		       all->released, all->leases - all->released);
}

static void print_keys(const struct sl_replay *replay) {
	const struct sl_replay_stats *stats = &replay->stats;
	printf("keys limited  %s%" PRIu64 ", of %s%" PRIu64 "\n", stats->keys_at_least ? "at least " : "", stats->limited,
	       stats->keys_at_least       ? "more than "
	       : stats->requests_at_least ? "about "
	                                  : "",
	       stats->keys);
}

static void print_limits(const struct sl_replay *replay) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	if (replay->policy == NULL && replay->limit_count < 2)
		return;
	puts("\nlimits\n      denied    requests  limit");
	for (uint32_t i = 0; i < replay->limit_count; i++) {
		const struct sl_replay_limit *limit = &replay->limits[i];
		const struct sl_policy_limit *shown = replay->policy != NULL ? sl_policy_limit_at(replay->policy, i) : NULL;
		sluice_limit_print(shown != NULL ? &shown->limit : &replay->options->limits[i], text);
		printf("  %10" PRIu64 "  %10" PRIu64 "  ", limit->denied, limit->requests);
		if (shown != NULL)
			printf("%s: ", shown->name);
		fputs(text, stdout);
		if (shown != NULL && !shown->rollout_varies && shown->observe)
			fputs(" (observed: denies nobody)", stdout);
		else if (shown != NULL && !shown->rollout_varies && shown->canary != NULL)
			printf(" (canary: denies %s alone)", shown->canary);
		putchar('\n');
		if (limit->tried == 0)
			continue;
		SL_ASSERT(shown != NULL); /* only a policy has candidates */
		sluice_limit_print(&shown->candidate, text);
		printf("  %10" PRIu64 "  %10" PRIu64 "  %s: candidate %s (denies nobody)\n", limit->candidate_denied,
		       limit->tried, shown->name, text);
	}
}

/* A key as it can be shown on a terminal. */
static void print_key(struct sluice_bytes key) {
	char text[4 * KEY_COLUMNS_MAX + 8];
	struct sl_out out = sl_out_to(text, sizeof text);
	sl_out_quoted(&out, key, KEY_COLUMNS_MAX);
	/* quotes only where they tell something: around what has spaces, or was cut or escaped */
	bool plain = sl_out_len(&out) == key.len + 2 && key.len > 0 && memchr(key.data, ' ', key.len) == NULL;
	if (plain)
		printf("%.*s\n", (int)key.len, (const char *)key.data);
	else
		printf("%.*s\n", (int)sl_out_len(&out), text);
}

static void print_worst(const struct sl_replay_stats *stats, uint32_t top, const char *title) {
	struct sl_replay_stats_slot worst[SL_REPLAY_STATS_WORST_MAX];
	uint32_t count = sl_replay_stats_worst(stats, worst, top);
	if (count == 0)
		return;
	printf("\n%s\n      denied    requests  key\n", title);
	for (uint32_t i = 0; i < count; i++) {
		printf("  %10" PRIu64 "  %10" PRIu64 "  ", worst[i].denied, worst[i].requests);
		print_key(sl_replay_stats_text(stats, &worst[i]));
	}
	if (stats->requests_at_least)
		puts("  (more keys than memory for them: requests are at least these)");
}

/* The last line, the whole in one. */
static void print_sum(const struct sl_replay *replay, FILE *to) {
	const struct sl_replay_stats *stats = &replay->stats;
	if (replay->broke_off != NULL)
		fprintf(to, "incomplete: %s could not be read to its end\n", replay->broke_off);
	fprintf(to, "%" PRIu64 " requests: %" PRIu64 " allowed, %" PRIu64 " denied, %s%" PRIu64 " key%s limited\n",
	        replay->requests, replay->allowed, replay->denied, stats->keys_at_least ? "at least " : "", stats->limited,
	        stats->limited == 1 ? "" : "s");
}

/* Says what would explain an answer that looks too good, or too bad. */
static void print_hints(const struct sl_replay *replay, FILE *to) {
	char wait[SL_WAIT_TEXT_MAX];
	if (replay->requests == 0 && replay->unreadable_count > 0)
		fputs("hint: no line could be read; --format common|combined|json|ops says what they are\n", to);
	if (replay->unlimited > 0 && replay->policy == NULL)
		fprintf(to, "hint: %" PRIu64 " requests have no %s, so nothing limits them; --key names what to count by\n",
		        replay->unlimited, replay->options->key_text != NULL ? replay->options->key_text : "ip");
	if (replay->unlimited > 0 && replay->policy != NULL)
		fprintf(to, "hint: no limit of the policy applies to %" PRIu64 " of the requests\n", replay->unlimited);
	if (replay->late > 0 && replay->options->judge == NULL) /* verdicts have the order of the lines */
		fprintf(to, "hint: %" PRIu64 " lines are up to %s earlier than lines before them: --sort puts them in order\n",
		        replay->late, sl_cli_wait(wait, sl_ns_to_ms_ceil(replay->late_by)));
}

void sl_replay_report(const struct sl_replay *replay) {
	FILE *to = replay->options->decisions ? stderr : stdout;
	if (replay->options->decisions) {
		if (replay->unreadable_count > 0)
			print_unreadable(replay, to);
	} else {
		printf("requests      %" PRIu64 ", of %" PRIu64 " lines\n", replay->requests,
		       replay->requests + replay->unreadable_count);
		printf("allowed       %" PRIu64, replay->allowed);
		print_percent(replay->allowed, replay->requests);
		printf("denied        %" PRIu64, replay->denied);
		print_percent(replay->denied, replay->requests);
		print_later(replay);
		print_keys(replay);
		print_span(replay);
		print_unreadable(replay, to);
		print_limits(replay);
		print_worst(&replay->stats, replay->options->top, "worst keys");
		print_worst(&replay->shadows, replay->options->top, "keys that observed limits would deny");
		print_worst(&replay->tried, replay->options->top, "keys that candidates would deny");
	}
	sl_replay_audit_report(replay, to);
	if (!replay->options->decisions)
		fputc('\n', to);
	print_hints(replay, to);
	print_sum(replay, to);
}
