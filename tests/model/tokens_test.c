/* What reservations and penalties are for, as people meet it.
 *
 *  - Real requests to language models (../shared/data, skipped where that is not there): an estimate of 500 tokens is
 *    reserved, the true cost committed two seconds later. Each decision is compared with a sum over all requests.
 *  - A thousand clients, killed with their reservations open: every one is back at its end, and nothing sooner.
 *  - A client that knocks all day, and one that behaves again, over days and over restarts of the store. */
#include "base/bytes.h"
#include "tests/model/dice.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MS ((sluice_ns)1000000)
#define S (1000 * MS)
#define M (60 * S)
#define H (60 * M)
#define T0 ((sluice_ns)1767225600 * S)

static struct sluice_limit limit_of(const char *text) {
	struct sluice_limit limit;
	assert_int_equal(sluice_limit_parse(&limit, sl_str(text), NULL), SLUICE_OK);
	return limit;
}

static struct sluice_store *open_store(const char *file) {
	struct sluice_store_options options = {.memory_bytes = 8u << 20, .file = file};
	struct sluice_store *store;
	struct sluice_error error;
	if (sluice_store_open(&store, &options, &error) != SLUICE_OK)
		fail_msg("%s", error.text);
	return store;
}

struct ask {
	struct sluice_store *store;
	const struct sluice_limit *limit;
	const struct sluice_terms *terms;
	const char *key;
};

static struct sluice_call ask(const struct ask *a, sluice_operation operation, sluice_ns now, uint32_t cost,
                              uint64_t id, sluice_ns ttl) {
	char text[24];
	struct sluice_item item = {.limit = a->limit, .key = sl_str(a->key), .terms = a->terms};
	struct sluice_call call = {
		.items = &item, .item_count = 1, .operation = operation, .now = now, .cost = cost, .ttl_ns = ttl};
	if (id != 0)
		call.id = sl_slice(text, (size_t)snprintf(text, sizeof text, "request %" PRIu64, id));
	assert_int_equal(sluice_decide(a->store, &call), SLUICE_OK);
	call.items = NULL;
	call.id = sl_slice(NULL, 0);
	return call;
}

static void temporary(char file[64]) {
	snprintf(file, 64, "/tmp/sluice-tokens-%ld", (long)getpid());
	unlink(file);
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

enum { REQUESTS_MAX = 20000, QUOTA = 400000, ESTIMATE = 500, WORST = 14089 };
#define LATENCY (2 * S)

struct request {
	sluice_ns at;
	uint32_t cost;
	uint32_t charged; /* as it stands: 0 when denied; the estimate, then what was committed */
};

struct traffic {
	size_t count;
	struct request list[REQUESTS_MAX];
};

static bool read_traffic(struct traffic *traffic) {
	FILE *in = popen("xz -dc ../shared/data/llm-tokens.ops.xz 2>/dev/null", "r");
	uint64_t ms;
	uint32_t cost;
	assert_non_null(in);
	traffic->count = 0;
	while (fscanf(in, "%" SCNu64 " %*s %" SCNu32, &ms, &cost) == 2) {
		assert_true(traffic->count < REQUESTS_MAX && cost <= WORST);
		traffic->list[traffic->count++] = (struct request){.at = ms * MS, .cost = cost};
	}
	return pclose(in) == 0 && traffic->count != 0;
}

/* What is charged in the minute up to t, of the requests before `end`: the definition. */
static uint64_t minute(const struct traffic *traffic, size_t end, sluice_ns t, bool true_cost) {
	uint64_t sum = 0;
	while (end-- > 0 && traffic->list[end].at + M > t)
		sum += true_cost && traffic->list[end].charged != 0 ? traffic->list[end].cost : traffic->list[end].charged;
	return sum;
}

struct outcome {
	uint64_t requests, tokens, most_at_admission, most_in_hindsight, retries;
};

/* Debt, and whatever else is in the way, is gone at exactly the wait, if nothing else comes or is committed. */
static void check_retry(const struct ask *a, const struct sluice_call *call, uint32_t estimate) {
	sluice_ns retry = call->merged.retry_after_ns;
	assert_true(retry != 0 && retry % MS == 0);
	assert_true(ask(a, SLUICE_PEEK, call->now + retry, estimate, 0, 0).merged.allowed);
	assert_false(ask(a, SLUICE_PEEK, call->now + retry - MS, estimate, 0, 0).merged.allowed);
}

/* All requests in their own time; with `commits`, each is corrected two seconds after it was admitted. */
static struct outcome run_traffic(struct traffic *traffic, uint32_t estimate, bool commits) {
	struct sluice_limit limit = limit_of("sliding-log 400k/1m");
	struct ask a = {open_store(NULL), &limit, NULL, "llm"};
	struct outcome out = {0};
	size_t open = 0; /* the first that may have to be committed */
	for (size_t i = 0; i < traffic->count; i++) {
		struct request *r = &traffic->list[i];
		struct sluice_call call;
		uint64_t used;
		for (; commits && open < i && traffic->list[open].at + LATENCY <= r->at; open++) {
			struct request *done = &traffic->list[open];
			if (done->charged == 0)
				continue;
			assert_int_equal(ask(&a, SLUICE_COMMIT, done->at + LATENCY, done->cost, open + 1, 0).found, 1);
			done->charged = done->cost;
		}
		used = minute(traffic, i, r->at, false);
		call = ask(&a, commits ? SLUICE_RESERVE : SLUICE_CHARGE, r->at, estimate, commits ? i + 1 : 0, commits ? M : 0);
		r->charged = call.merged.allowed ? estimate : 0;
		assert_int_equal(call.merged.allowed, used + estimate <= QUOTA);
		if (!call.merged.allowed) {
			if (out.retries++ % 16 == 0)
				check_retry(&a, &call, estimate);
			continue;
		}
		out.requests++;
		out.tokens += r->cost;
		out.most_at_admission = used + estimate > out.most_at_admission ? used + estimate : out.most_at_admission;
	}
	for (size_t i = 0; i < traffic->count; i++) {
		uint64_t held = minute(traffic, i + 1, traffic->list[i].at, true);
		out.most_in_hindsight = held > out.most_in_hindsight ? held : out.most_in_hindsight;
	}
	sluice_store_close(a.store);
	return out;
}

static void show(const char *what, const struct outcome *out, const struct traffic *traffic) {
	printf("%-44s %6" PRIu64 " of %zu requests, %5" PRIu64 "k tokens; at admission at most %" PRIu64
	       ", the largest minute in hindsight %" PRIu64 "\n",
	       what, out->requests, traffic->count, out->tokens / 1000, out->most_at_admission, out->most_in_hindsight);
}

static void tokens_are_reserved_and_committed(void **state) {
	static struct traffic traffic;
	struct outcome reserved, worst, corrected;
	(void)state;
	if (!read_traffic(&traffic)) {
		printf("SKIPPED: no ../shared/data/llm-tokens.ops.xz beside the repository, or no xz\n");
		skip();
	}
	reserved = run_traffic(&traffic, ESTIMATE, true);
	worst = run_traffic(&traffic, WORST, false);
	corrected = run_traffic(&traffic, WORST, true);
	show("estimate 500, committed 2 s later:", &reserved, &traffic);
	show("the largest cost, 14,089, charged up front:", &worst, &traffic);
	show("the same, corrected 2 s later:", &corrected, &traffic);
	printf("estimates admit %" PRIu64 ".%" PRIu64 " times as many tokens as worst cases up front, and %" PRIu64
	       ".%02" PRIu64 " times as many as those corrected\n",
	       reserved.tokens / worst.tokens, reserved.tokens * 10 / worst.tokens % 10, reserved.tokens / corrected.tokens,
	       reserved.tokens * 100 / corrected.tokens % 100);
	assert_true(reserved.most_at_admission <= QUOTA && corrected.most_at_admission <= QUOTA);
	assert_true(worst.most_in_hindsight <= QUOTA && corrected.most_in_hindsight <= QUOTA);
	assert_true(reserved.tokens > corrected.tokens && corrected.tokens > worst.tokens);
}

/* ---- clients that die -------------------------------------------------------------------------------------------- */

enum { CLIENTS = 1000, PROCESSES = 8, FULL = 10000000 };

static uint32_t cost_of(uint64_t client) {
	return (uint32_t)(1 + client * 7919 % 5000);
}

static sluice_ns made_at(uint64_t client) {
	return T0 + client * 3 * MS;
}

static sluice_ns end_of(uint64_t client) {
	return made_at(client) + (1 + client * 104729 % 1500) * S + client % 7;
}

/* A process that reserves for its share of the clients, and is killed. */
static void reserve_and_die(const char *file, const struct sluice_limit *limit, uint64_t process) {
	struct ask a = {open_store(file), limit, NULL, "dying"};
	for (uint64_t client = process * CLIENTS / PROCESSES; client < (process + 1) * CLIENTS / PROCESSES; client++)
		if (!ask(&a, SLUICE_RESERVE, made_at(client), cost_of(client), client + 1, end_of(client) - made_at(client))
		         .merged.allowed)
			_exit(1);
	kill(getpid(), SIGKILL);
}

static uint64_t open_at(sluice_ns t) {
	uint64_t sum = 0;
	for (uint64_t client = 0; client < CLIENTS; client++)
		sum += end_of(client) > t ? cost_of(client) : 0;
	return sum;
}

/* Beyond 64, neighbours may end together, when the last of them does: none is returned early, and none of a thousand
 * that end within 25 minutes by more than two minutes late. */
static void expect_open(uint32_t remaining, sluice_ns t) {
	assert_in_range(remaining, FULL - 77 - open_at(t - 120 * S), FULL - 77 - open_at(t));
}

static void kill_clients_of(const char *text) {
	struct sluice_limit limit = limit_of(text);
	struct ask a = {.limit = &limit, .key = "dying"};
	char file[64];
	int status;
	temporary(file);
	a.store = open_store(file);
	assert_true(ask(&a, SLUICE_CHARGE, T0, 77, 0, 0).merged.allowed); /* which stays */
	for (uint64_t process = 0; process < PROCESSES; process++) {
		pid_t child = fork(); /* one after the other: the instants rise */
		if (child == 0)
			reserve_and_die(file, &limit, process);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	for (uint64_t client = 0; client < CLIENTS; client++) {
		sluice_ns end = end_of(client), last = made_at(CLIENTS - 1);
		if (end - 1 < last)
			continue;
		expect_open(ask(&a, SLUICE_PEEK, end - 1, 0, 0, 0).merged.remaining, end - 1);
		expect_open(ask(&a, SLUICE_PEEK, end, 0, 0, 0).merged.remaining, end);
	}
	/* The next charge takes all of them out; what else was in the window is there. */
	assert_true(ask(&a, SLUICE_CHARGE, T0 + 1700 * S, FULL - 77, 0, 0).merged.allowed);
	assert_false(ask(&a, SLUICE_CHARGE, T0 + 1700 * S, 1, 0, 0).merged.allowed);
	assert_null(sluice_store_verify(a.store));
	sluice_store_close(a.store);
	unlink(file);
}

static void a_thousand_killed_clients_leave_the_windows_as_they_were(void **state) {
	(void)state;
	kill_clients_of("sliding-log 10M/1h");
	kill_clients_of("sliding-buckets 10M/1h precision 1s");
	kill_clients_of("sliding-window 10M/1h");
	kill_clients_of("fixed-window 10M/1h");
}

/* ---- clients that knock ------------------------------------------------------------------------------------------ */

/* Five in a minute; who is denied three times in a minute is out for a minute, ten, an hour, an hour... */
static const struct sluice_terms terms = {
	.penalty_count = 3, .after = 3, .within_ns = M, .forgive_ns = 24 * H, .penalties_ns = {M, 10 * M, H}};

static struct sluice_standing standing_of(const struct ask *a, sluice_ns now) {
	struct sluice_item item = {.limit = a->limit, .key = sl_str(a->key), .terms = a->terms};
	return sluice_standing(a->store, &item, now);
}

static void reopen(struct ask *a, const char *file) {
	sluice_store_close(a->store);
	a->store = open_store(file);
	assert_null(sluice_store_verify(a->store));
}

/* Knocks every second until a penalty is imposed: five are admitted and three denied. Returns its instant. */
static sluice_ns knock_until_shut_out(const struct ask *a, sluice_ns from, sluice_ns penalty) {
	for (int i = 0; i < 8; i++, from += S) {
		struct sluice_call call = ask(a, SLUICE_CHARGE, from, 1, 0, 0);
		assert_int_equal(call.merged.allowed, i < 5);
		assert_int_equal(call.penalized, i == 7);
		if (i == 7)
			assert_int_equal(call.merged.retry_after_ns, penalty);
	}
	return from - S;
}

/* Knocks during a shut-out: nothing but its end comes nearer. */
static void knock_during(struct ask *a, sluice_ns from, sluice_ns end, const char *file) {
	sluice_ns middle = from + (end - from) / 2 / S * S;
	for (sluice_ns t = from; t < end; t += S) {
		struct sluice_call call = ask(a, SLUICE_CHARGE, t, 1, 0, 0);
		assert_false(call.merged.allowed);
		assert_int_equal(call.merged.remaining, 0);
		assert_int_equal(call.merged.retry_after_ns, end - t);
		assert_int_equal(call.penalized, 0);
		if (t == middle)
			reopen(a, file);
	}
	assert_false(ask(a, SLUICE_PEEK, end - 1, 1, 0, 0).merged.allowed);
	assert_true(ask(a, SLUICE_PEEK, end, 1, 0, 0).merged.allowed);
}

static void who_knocks_all_day_is_let_in_less_and_less(void **state) {
	struct sluice_limit limit = limit_of("sliding-log 5/1m");
	struct ask a = {.limit = &limit, .terms = &terms, .key = "knocks"};
	sluice_ns t = T0;
	uint64_t admitted = 0;
	char file[64];
	(void)state;
	temporary(file);
	a.store = open_store(file);
	for (uint32_t level = 0; t < T0 + 24 * H; level++) {
		sluice_ns penalty = terms.penalties_ns[level < 3 ? level : 2], shut = knock_until_shut_out(&a, t, penalty);
		assert_int_equal(standing_of(&a, shut).level, level + 1);
		admitted += 5;
		knock_during(&a, shut + S, shut + penalty, file);
		t = shut + penalty;
	}
	/* 1m, 10m and then an hour and eight seconds each */
	assert_int_equal(admitted, 5 * (2 + 24));
	sluice_store_close(a.store);
	unlink(file);
}

static void who_behaves_again_is_forgiven(void **state) {
	struct sluice_limit limit = limit_of("sliding-log 5/1m");
	struct ask a = {.limit = &limit, .terms = &terms, .key = "behaves"};
	sluice_ns shut, quiet;
	char file[64];
	(void)state;
	temporary(file);
	a.store = open_store(file);
	shut = knock_until_shut_out(&a, T0, M);
	shut = knock_until_shut_out(&a, shut + M, 10 * M);
	quiet = shut + 10 * M;
	/* It keeps to the limit for a day, but for an instant: the next is the third. The store is another process's. */
	reopen(&a, file);
	for (sluice_ns t = quiet; t < quiet + 23 * H; t += 15 * S)
		assert_true(ask(&a, SLUICE_CHARGE, t, 1, 0, 0).merged.allowed);
	assert_int_equal(standing_of(&a, quiet + 24 * H - 1).level, 2);
	assert_int_equal(standing_of(&a, quiet + 24 * H - 1).forgiven_after_ns, 1);
	shut = knock_until_shut_out(&a, quiet + 24 * H - 8 * S, H);
	quiet = shut + H;
	reopen(&a, file);
	assert_int_equal(standing_of(&a, quiet + 24 * H - 1).level, 3);
	assert_int_equal(standing_of(&a, quiet + 24 * H).level, 0);
	(void)knock_until_shut_out(&a, quiet + 24 * H, M);
	/* An admin forgives at once. */
	assert_int_equal(ask(&a, SLUICE_RESET, quiet + 24 * H + 8 * S, 0, 0, 0).forgotten, 1);
	assert_int_equal(standing_of(&a, quiet + 24 * H + 8 * S).level, 0);
	(void)knock_until_shut_out(&a, quiet + 24 * H + 8 * S, M);
	sluice_store_close(a.store);
	unlink(file);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tokens_are_reserved_and_committed),
		cmocka_unit_test(a_thousand_killed_clients_leave_the_windows_as_they_were),
		cmocka_unit_test(who_knocks_all_day_is_let_in_less_and_less),
		cmocka_unit_test(who_behaves_again_is_forgiven),
	};
	return cmocka_run_group_tests_name("tokens, clients that die, clients that knock", tests, NULL, NULL);
}
