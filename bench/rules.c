/* rules: what an admission costs by how many rules its policy has, of which as many match.
 *
 * A policy of n limits has three that count for every request here, and others of all kinds in equal shares: by user,
 * by the beginning of a path, by the end of a host, by a network, by a path with parts, by method and path. Another one
 * has a limit with n overrides, one for each user, of whom one asks. An admission is what the doors do between the
 * parser and the reply: match, and decide. Instructions:
 *     valgrind --tool=callgrind --toggle-collect='measure_*' rules --repeats 1 --only "100,000 limits" */
#include "bench/traffic.h"

enum { CASES = 6, ROUNDS = 20000, YAML_BYTES_MAX = 16 << 20, CLIENTS = 64 };

static struct bench_case {
	const char *title;
	uint32_t limits, overrides;
	struct sluice_policy *policy;
	struct bench_sample ns;
	double load_ms;
} cases[CASES] = {
	{.title = "10 limits, three match", .limits = 10},
	{.title = "1,000 limits, three match", .limits = 1000},
	{.title = "100,000 limits, three match", .limits = 100000},
	{.title = "a limit, no override", .limits = 0},
	{.title = "a limit, 1,000 overrides", .overrides = 1000},
	{.title = "a limit, 100,000 overrides", .overrides = 100000},
};

static const struct ratio {
	const char *name;
	unsigned of, to;
	double at_most;
} ratios[] = {
	{"1,000 limits to 10", 1, 0, 1.3},
	{"100,000 limits to 10", 2, 0, 1.3},
	{"100,000 overrides to none", 5, 3, 1.3},
};
enum { RATIOS = sizeof ratios / sizeof *ratios };

static struct sluice_store *store;
static sluice_ns now;
static uint64_t allowed;

/* ---- policies ------------------------------------------------------------------------------------------- */

/* The conditions of the i-th limit that no request here meets. */
static size_t put_when(char *to, size_t room, uint32_t i) {
	switch (i % 6) {
	case 0:
		return (size_t)snprintf(to, room, "user: u%u", i);
	case 1:
		return (size_t)snprintf(to, room, "path: /api/v%u/thing-%u*", i % 9, i);
	case 2:
		return (size_t)snprintf(to, room, "host: '*.h%u.example.com'", i);
	case 3:
		return (size_t)snprintf(to, room, "ip: 10.%u.%u.%u/32", i >> 16 & 255, i >> 8 & 255, i & 255);
	case 4:
		return (size_t)snprintf(to, room, "path: '/tenants/{tenant}/r-%u'", i);
	default:
		return (size_t)snprintf(to, room, "method: POST, path: /login/%u", i);
	}
}

static size_t put_policy(const struct bench_case *bench, char *to, size_t room) {
	size_t len = (size_t)snprintf(to, room, "limits:\n- name: all\n  key: ip\n  limit: 4000M/1m\n");
	if (bench->limits != 0)
		len += (size_t)snprintf(to + len, room - len,
		                        "- {name: mine, when: {user: alice}, key: ip, limit: 4000M/1m}\n"
		                        "- {name: here, when: {path: '/orders/{order}'}, key: user, limit: 4000M/1m}\n");
	for (uint32_t i = 3; i < bench->limits; i++) {
		len += (size_t)snprintf(to + len, room - len, "- {name: n%u, key: ip, limit: 100/1m, when: {", i);
		len += put_when(to + len, room - len, i);
		len += (size_t)snprintf(to + len, room - len, "}}\n");
	}
	len += bench->overrides != 0 ? (size_t)snprintf(to + len, room - len, "  overrides:\n") : 0;
	for (uint32_t i = 0; i < bench->overrides; i++)
		len += (size_t)snprintf(to + len, room - len, "  - {when: {user: u%u}, limit: 100/1m}\n", i);
	if (len >= room)
		traffic_die(bench->title, "the policy does not fit");
	return len;
}

static void load(struct bench_case *bench) {
	struct sluice_problems problems;
	char *yaml = malloc(YAML_BYTES_MAX);
	if (yaml == NULL)
		bench_die("malloc");
	size_t len = put_policy(bench, yaml, YAML_BYTES_MAX);
	uint64_t begin = bench_thread_ns();
	if (sluice_policy_load(&bench->policy, (struct sluice_bytes){yaml, len}, &problems) != SLUICE_OK)
		traffic_die(bench->title, problems.count != 0 ? problems.list[0].text : "no memory");
	bench->load_ms = (double)(bench_thread_ns() - begin) / 1e6;
	sluice_problems_free(&problems);
	free(yaml);
}

/* ---- admissions ------------------------------------------------------------------------------------------- */

static struct sluice_bytes text(const char *s) {
	return (struct sluice_bytes){s, strlen(s)};
}

static __attribute__((noinline)) void measure_admit(const struct bench_case *bench, const char *ip) {
	static char buffer[SLUICE_MATCH_BYTES_MAX];
	const struct sluice_attribute attributes[] = {
		{text("method"), text("GET")},     {text("host"), text("www.shop.example")},
		{text("path"), text("/orders/5")}, {text("ip"), text(ip)},
		{text("user"), text("alice")},
	};
	struct sluice_match match;
	if (sluice_policy_match(bench->policy, attributes, 5, &match, buffer, sizeof buffer) != SLUICE_OK)
		traffic_die(bench->title, "did not match");
	struct sluice_call call = {.items = match.items, .item_count = match.count, .cost = 1, .now = now += 50};
	if (sluice_decide(store, &call) != SLUICE_OK)
		traffic_die(bench->title, "did not decide");
	allowed += call.merged.allowed && match.count == (bench->limits != 0 ? 3 : 1);
}

static double run_case(const struct bench_case *bench) {
	char ip[32];
	uint64_t begin = bench_thread_ns();
	allowed = 0;
	for (unsigned i = 0; i < ROUNDS; i++) {
		if (i % (ROUNDS / CLIENTS) == 0)
			snprintf(ip, sizeof ip, "203.0.113.%u", i / (ROUNDS / CLIENTS));
		measure_admit(bench, ip);
	}
	double ns = (double)(bench_thread_ns() - begin) / ROUNDS;
	if (allowed != ROUNDS)
		traffic_die(bench->title, "not all were admitted by the limits that match");
	return ns;
}

/* ---- results ---------------------------------------------------------------------------------------------- */

static double ratio(unsigned i) {
	double of = cases[ratios[i].of].ns.median, to = cases[ratios[i].to].ns.median;
	return of == 0 || to == 0 ? 0 : of / to;
}

static void print_table(unsigned repeats) {
	printf("rules: ns of CPU time an admission, median of %u (least..most); goals beside them\n", repeats);
	for (unsigned i = 0; i < CASES; i++)
		if (cases[i].policy != NULL)
			printf("  %-46s %7.1f (%6.1f..%6.1f)  loaded in %.0f ms\n", cases[i].title, cases[i].ns.median,
			       cases[i].ns.each[0], cases[i].ns.each[repeats - 1], cases[i].load_ms);
	for (unsigned i = 0; i < RATIOS; i++)
		if (ratio(i) != 0)
			printf("  %-46s %7.2fx %14s %.1fx  %s\n", ratios[i].name, ratio(i), "", ratios[i].at_most,
			       bench_verdict(ratio(i), ratios[i].at_most, false));
}

static void write_json(const char *path, unsigned repeats) {
	FILE *file = bench_json_open(path);
	fprintf(file, "{\"repeats\": %u, \"cases\": [", repeats);
	for (unsigned i = 0; i < CASES; i++)
		fprintf(file, "%s\n {\"case\": \"%s\", \"ns\": %.2f, \"load_ms\": %.2f}", i > 0 ? "," : "", cases[i].title,
		        cases[i].ns.median, cases[i].load_ms);
	fprintf(file, "],\n \"ratios\": [");
	for (unsigned i = 0; i < RATIOS; i++)
		fprintf(file, "%s\n {\"ratio\": \"%s\", \"value\": %.3f, \"goal\": %.2f}", i > 0 ? "," : "", ratios[i].name,
		        ratio(i), ratios[i].at_most);
	fprintf(file, "]}\n");
	bench_json_close(file, path);
}

int main(int argc, char **argv) {
	struct bench_options options = bench_options("rules", argc, argv, 9);
	store = store_new(UINT64_C(64) << 20, 0);
	now = sluice_now();
	bench_pin(0);
	for (unsigned i = 0; i < CASES; i++)
		if (strstr(cases[i].title, options.only) != NULL)
			load(&cases[i]);
	for (unsigned turn = 0; turn <= options.repeats; turn++)
		for (unsigned i = 0; i < CASES; i++) {
			if (cases[i].policy == NULL)
				continue;
			double ns = run_case(&cases[i]);
			if (turn != 0) /* the first fills caches */
				cases[i].ns.each[cases[i].ns.count++] = ns;
		}
	for (unsigned i = 0; i < CASES; i++)
		if (cases[i].policy != NULL)
			sample_close(&cases[i].ns);
	print_table(options.repeats);
	if (options.json != NULL)
		write_json(options.json, options.repeats);
	return 0;
}
