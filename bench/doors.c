/* doors: what a request costs from its bytes to the bytes of its answer, without a network, for what counts
 * instructions:
 *
 *     valgrind --tool=callgrind --toggle-collect='measure_*' doors WHAT
 *
 * WHAT is `check` (SLUICE.CHECK of one limit, a key each), `hot` (of one key), `three` (of three limits), `other` (two
 * limits by turns), `admit` (SLUICE.ADMIT by examples/sluice.yaml, a user each), `http-check`, `http-forward`,
 * `http-admit` or `spop` (by the same file). ROUNDS turns of BATCH requests of RESP or SPOP, or of one of HTTP, go
 * through the door of a worker that counts as a server's does, at 500,000 a second of the clock that it is given.
 * Prints how many were measured. */
#include "bench/bench.h"

#include "hosts/server/door/door.h"
#include "hosts/server/door/tailing.h"
#include "proto/spop.h"

enum { BATCH = 64, ROUNDS = 640, KEYS = 4096, REQUEST_BYTES_MAX = 512 };

#define EACH_NS 2000 /* 500,000 a second */

static struct sl_door_context context;
static struct sl_shared shared;
static struct sl_buffer out;
static void *state;
static const struct sl_door *door;
static char requests[KEYS][REQUEST_BYTES_MAX];
static char feeds[KEYS][BATCH * REQUEST_BYTES_MAX];
static size_t lengths[KEYS];

static void feed(uint32_t which) {
	size_t consumed;
	out.len = 0;
	if (door->feed(state, &context, feeds[which], lengths[which], &consumed, &out) != SL_DOOR_OPEN ||
	    consumed != lengths[which])
		exit(3);
}

__attribute__((noinline)) static void measure_feed(uint32_t which) {
	feed(which);
}

static void resp(char *to, int count, const char *const *words) {
	int len = snprintf(to, REQUEST_BYTES_MAX, "*%d\r\n", count);
	for (int i = 0; i < count; i++)
		len += snprintf(to + len, REQUEST_BYTES_MAX - (size_t)len, "$%zu\r\n%s\r\n", strlen(words[i]), words[i]);
}

static void post(char *to, const char *path, const char *format, const char *first, const char *second) {
	char body[256];
	int len = snprintf(body, sizeof body, format, first, second);
	snprintf(
		to, REQUEST_BYTES_MAX,
		"POST %s HTTP/1.1\r\nHost: 127.0.0.1:7380\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, len, body);
}

static void put_argument(struct sl_out *frame, const char *name, const char *value) {
	sl_spop_put_text(frame, sl_str(name));
	sl_out_char(frame, SL_SPOP_STRING);
	sl_spop_put_text(frame, sl_str(value));
}

/* As HAProxy asks by examples/haproxy, with the address as it sends it. Returns its length. */
static size_t notify(char *to, uint32_t key, const char *user) {
	struct sl_out frame = sl_out_to(to, REQUEST_BYTES_MAX);
	char *start = sl_spop_begin(&frame, SL_SPOP_NOTIFY, key + 1, 1);
	sl_spop_put_text(&frame, sl_str("admit"));
	sl_out_char(&frame, 5);
	put_argument(&frame, "method", "GET");
	put_argument(&frame, "path", "/search/books");
	put_argument(&frame, "host", "shop.example.com");
	sl_spop_put_text(&frame, sl_str("ip"));
	sl_out_char(&frame, SL_SPOP_IPV4);
	const char address[] = {10, 1, (char)(key / 256), (char)(key % 256)};
	sl_out_bytes(&frame, address, sizeof address);
	put_argument(&frame, "user", user);
	sl_spop_end(&frame, start);
	return sl_out_len(&frame);
}

/* What a connection of SPOP begins with. */
static void greet(void) {
	struct sl_out hello = sl_out_to(feeds[0], sizeof feeds[0]);
	char *start = sl_spop_begin(&hello, SL_SPOP_HAPROXY_HELLO, 0, 0);
	sl_spop_put_pair_text(&hello, "supported-versions", "2.0");
	sl_spop_put_pair_u32(&hello, "max-frame-size", 16380);
	sl_spop_put_pair_text(&hello, "capabilities", "pipelining");
	sl_spop_end(&hello, start);
	lengths[0] = sl_out_len(&hello);
	feed(0);
	lengths[0] = 0;
}

/* Returns its length. */
static size_t write_request(const char *what, uint32_t key, char *to) {
	char name[32], ip[32];
	snprintf(name, sizeof name, "key:%012u", key);
	if (door == &sl_door_spop)
		return notify(to, key, name);
	snprintf(ip, sizeof ip, "10.1.%u.%u", key / 256, key % 256);
	if (strcmp(what, "three") == 0)
		resp(to, 6,
		     (const char *[]){"SLUICE.CHECK", name, "1", "100000/1m", "1000000/1h", "token-bucket 9k/1s burst 9k"});
	else if (strcmp(what, "admit") == 0)
		resp(to, 10,
		     (const char *[]){"SLUICE.ADMIT", "1", "ip", ip, "user", name, "method", "GET", "path", "/search/books"});
	else if (strcmp(what, "http-check") == 0)
		post(to, "/v1/check", "{\"key\":\"%s\",\"limits\":[\"100000/1m\"]}", name, "");
	else if (strcmp(what, "http-forward") == 0)
		snprintf(to, REQUEST_BYTES_MAX,
		         "GET /v1/auth/forward HTTP/1.1\r\nHost: shop.example.com\r\nX-Forwarded-For: %s\r\n"
		         "X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /search/books?q=1\r\nX-User-Id: %s\r\n\r\n",
		         ip, name);
	else if (strcmp(what, "http-admit") == 0)
		post(to, "/v1/admit",
		     "{\"attributes\":{\"ip\":\"%s\",\"user\":\"%s\",\"method\":\"GET\",\"path\":\"/search/books\"}}", ip,
		     name);
	else {
		bool other = strcmp(what, "other") == 0 && key % 2 != 0;
		resp(to, 4, (const char *[]){"SLUICE.CHECK", name, "1", other ? "200000/1m" : "100000/1m"});
	}
	return strlen(to);
}

static uint32_t fill(const char *what) {
	const bool http = door == &sl_door_http;
	const uint32_t each = http ? 1 : BATCH;
	for (uint32_t key = 0; key < KEYS; key++) {
		char *request = requests[key];
		size_t len = write_request(what, strcmp(what, "hot") == 0 ? 7 : key, request);
		memcpy(feeds[key / each] + lengths[key / each], request, len);
		lengths[key / each] += len;
	}
	return KEYS / each;
}

static char *read_file(const char *path) {
	static char text[64 * 1024];
	FILE *file = fopen(path, "r");
	if (file == NULL)
		exit(4);
	text[fread(text, 1, sizeof text - 1, file)] = '\0';
	fclose(file);
	return text;
}

static void start(void) {
	const struct sluice_store_options options = {.memory_bytes = (uint64_t)64 << 20};
	static uint32_t rows[16];
	struct sluice_policy *policy = NULL;
	if (sluice_policy_load(&policy, sl_str(read_file("examples/sluice.yaml")), NULL) != SLUICE_OK ||
	    sluice_store_open(&context.store, &options, NULL) != SLUICE_OK)
		exit(5);
	shared.tail = sl_tail_new(1);
	shared.stats = sl_stats_new(1);
	sl_stats_enter(shared.stats, policy, rows);
	context.shared = &shared;
	context.stats = sl_stats_worker(shared.stats, 0);
	context.top = sl_top_new();
	context.policy = policy;
	context.rows = rows;
	context.match_buffer = malloc(SLUICE_MATCH_BYTES_MAX);
	context.now = UINT64_C(1800000000000000000);
	context.tail = sl_tail_source(shared.tail, 0);
	context.peer.text = "127.0.0.1:4321";
	context.peer.is_trusted = true;
	context.forms = SL_FORM_DRAFT10;
	state = door->open(&context);
}

int main(int argc, char **argv) {
	const char *what = argc == 2 ? argv[1] : "";
	door = strncmp(what, "http-", 5) == 0 ? &sl_door_http : strcmp(what, "spop") == 0 ? &sl_door_spop : &sl_door_resp;
	if (argc != 2) {
		fprintf(stderr, "usage: doors check|hot|three|other|admit|http-check|http-forward|http-admit|spop\n");
		return 2;
	}
	start();
	if (door == &sl_door_spop)
		greet();
	uint32_t turns = fill(what), rounds = door == &sl_door_http ? KEYS * 2 : ROUNDS;
	for (uint32_t i = 0; i < turns + rounds; i++) {
		if (i < turns) /* the counters are made */
			feed(i);
		else
			measure_feed(i % turns);
		context.now += (sluice_ns)EACH_NS * (door == &sl_door_http ? 1 : BATCH);
	}
	if (getenv("DOORS_SHOW") != NULL)
		printf("%.*s\n", (int)(out.len < 600 ? out.len : 600), out.data);
	printf("measured %u requests\n", rounds * (door == &sl_door_http ? 1 : BATCH));
	return 0;
}
