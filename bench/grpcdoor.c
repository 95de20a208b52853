/* grpcdoor: what a request to Envoy's rate limit service costs from its bytes to those of its answer, without a
 * network, for what counts instructions:
 *
 *     valgrind --tool=callgrind --toggle-collect='measure_*' grpcdoor WHAT
 *
 * WHAT is `null` (the floor, grpcnull.h), `none` (no limit applies), `one`, `three` (descriptors of a limit each,
 * always the same), `one-each` or `three-each` (another address and user each time, of 4096). The other end is
 * nghttp2's client with the headers of h2load, 100 streams at a time. Prints how many requests were measured; and of
 * the hundreds in which they came, what the median one took, a request. With a thousand ROUNDS, by turns with `null`,
 * that says what caches make of the instructions; a busy machine disturbs single hundreds, and hardly that.
 */
#include "bench/grpcnull.h"

#include "hosts/server/door/door.h"

enum { BATCH = 100, ROUNDS = 100, ROUNDS_MAX = 100000, KEYS = 4096, BODY_MAX = 256 };

#define EACH_NS 2000 /* 500,000 a second */
#define HEADER(name, value) \
	{ (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1, sizeof(value) - 1, 0 }

struct body {
	uint8_t bytes[BODY_MAX];
	size_t len;
};

static const char policy_text[] = "limits:\n"
								  "  - {name: per-client, key: ip, limit: 1M/60s}\n"
								  "  - {name: per-user, key: user, limit: 1M/60s}\n"
								  "  - {name: per-path, key: path, limit: token-bucket 1M/1s}\n";
static struct sl_door_context context;
static struct sl_shared shared;
static struct sl_buffer out;
static void *door;
static nghttp2_session *floor_session, *client;
static struct body bodies[KEYS];
static uint32_t closed;
static uint64_t took[ROUNDS_MAX + 2]; /* ns of each turn */
static size_t turns;

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static void put(struct body *body, uint8_t number, const void *bytes, size_t len) {
	body->bytes[body->len++] = (uint8_t)(number << 3 | 2);
	body->bytes[body->len++] = (uint8_t)len;
	memcpy(body->bytes + body->len, bytes, len);
	body->len += len;
}

static void put_descriptor(struct body *body, const char *key, const char *value) {
	struct body entry = {.len = 0}, descriptor = {.len = 0};
	put(&entry, 1, key, strlen(key));
	put(&entry, 2, value, strlen(value));
	put(&descriptor, 1, entry.bytes, entry.len);
	put(body, 2, descriptor.bytes, descriptor.len);
}

static void make_body(struct body *body, const char *what, uint32_t key) {
	char ip[32], user[32];
	snprintf(ip, sizeof ip, "10.1.%u.%u", key / 256, key % 256);
	snprintf(user, sizeof user, "user-%06u", key);
	body->len = 5;
	put(body, 1, "bench", 5);
	if (strcmp(what, "none") == 0)
		put_descriptor(body, "a", "b");
	else
		put_descriptor(body, "remote_address", ip);
	if (strncmp(what, "three", 5) == 0) {
		put_descriptor(body, "user", user);
		put_descriptor(body, "path", "/search");
	}
	body->bytes[4] = (uint8_t)(body->len - 5);
}

/* ---- the other end ----------------------------------------------------------------------------------------------- */

static ssize_t on_read(nghttp2_session *http2, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                       nghttp2_data_source *source, void *data) {
	const struct body *body = source->ptr;
	(void)http2;
	(void)id;
	(void)data;
	if (room < body->len)
		exit(3);
	memcpy(to, body->bytes, body->len);
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)body->len;
}

static int on_close(nghttp2_session *http2, int32_t id, uint32_t error, void *data) {
	(void)http2;
	(void)id;
	(void)data;
	closed += error == 0;
	return 0;
}

static void start_client(void) {
	const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
	                                           {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, (1U << 30) - 1}};
	nghttp2_session_callbacks *callbacks;
	if (nghttp2_session_callbacks_new(&callbacks) != 0)
		bench_die("no memory");
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
	if (nghttp2_session_client_new(&client, callbacks, NULL) != 0 ||
	    nghttp2_submit_settings(client, NGHTTP2_FLAG_NONE, settings, 2) != 0 ||
	    nghttp2_session_set_local_window_size(client, NGHTTP2_FLAG_NONE, 0, (1 << 30) - 1) != 0)
		bench_die("no memory");
	nghttp2_session_callbacks_del(callbacks);
}

static void ask(struct body *body) {
	const nghttp2_nv headers[] = {
		HEADER(":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
		HEADER(":scheme", "http"),
		HEADER(":authority", "127.0.0.1:7381"),
		HEADER(":method", "POST"),
		HEADER("user-agent", "h2load nghttp2/1.52.0"),
		HEADER("content-type", "application/grpc"),
		HEADER("te", "trailers"),
	};
	const nghttp2_data_provider provider = {.source.ptr = body, .read_callback = on_read};
	if (nghttp2_submit_request(client, NULL, headers, sizeof headers / sizeof headers[0], &provider, NULL) < 0)
		bench_die("no memory");
}

/* ---- what is measured -------------------------------------------------------------------------------------------- */

__attribute__((noinline)) static void measure_floor(const uint8_t *bytes, size_t len) {
	const uint8_t *data;
	ssize_t more;
	if (nghttp2_session_mem_recv(floor_session, bytes, len) != (ssize_t)len)
		exit(3);
	while ((more = nghttp2_session_mem_send(floor_session, &data)) > 0)
		if (!sl_buffer_append(&out, data, (size_t)more))
			exit(3);
}

__attribute__((noinline)) static void measure_door(const uint8_t *bytes, size_t len) {
	size_t consumed;
	if (sl_door_grpc.feed(door, &context, (const char *)bytes, len, &consumed, &out) != SL_DOOR_OPEN || consumed != len)
		exit(3);
}

/* One turn: what the client has to say, and the answer to it. */
static void turn(void) {
	static struct sl_buffer in;
	const uint8_t *data;
	ssize_t more;
	in.len = out.len = 0;
	while ((more = nghttp2_session_mem_send(client, &data)) > 0)
		if (!sl_buffer_append(&in, data, (size_t)more))
			exit(3);
	uint64_t begun = bench_clock_ns();
	if (floor_session != NULL)
		measure_floor((const uint8_t *)in.data, in.len);
	else
		measure_door((const uint8_t *)in.data, in.len);
	took[turns++] = bench_clock_ns() - begun;
	if (nghttp2_session_mem_recv(client, (const uint8_t *)out.data, out.len) != (ssize_t)out.len)
		exit(3);
}

static void start_door(void) {
	const struct sluice_store_options options = {.memory_bytes = (uint64_t)64 << 20};
	static uint32_t rows[16];
	struct sluice_policy *policy = NULL;
	if (sluice_policy_load(&policy, sl_str(policy_text), NULL) != SLUICE_OK ||
	    sluice_store_open(&context.store, &options, NULL) != SLUICE_OK)
		exit(5);
	shared.stats = sl_stats_new(1);
	sl_stats_enter(shared.stats, policy, rows);
	context.shared = &shared;
	context.stats = sl_stats_worker(shared.stats, 0);
	context.top = sl_top_new();
	context.policy = policy;
	context.rows = rows;
	context.match_buffer = malloc(SLUICE_MATCH_BYTES_MAX);
	context.now = UINT64_C(1800000000000000000);
	context.peer.text = "127.0.0.1:4321";
	context.forms = SL_FORM_DRAFT10;
	door = sl_door_grpc.open(&context);
}

static int by_size(const void *a, const void *b) {
	const uint64_t *x = a, *y = b;
	return *x < *y ? -1 : *x > *y;
}

int main(int argc, char **argv) {
	const char *what = argc >= 2 ? argv[1] : "";
	bool each = strstr(what, "-each") != NULL;
	if (argc != 2 && argc != 3) {
		fprintf(stderr, "usage: grpcdoor null|none|one|three|one-each|three-each [ROUNDS]\n");
		return 2;
	}
	uint32_t rounds = argc == 3 ? (uint32_t)bench_number("ROUNDS", argv[2], 1, ROUNDS_MAX) : ROUNDS;
	if (strcmp(what, "null") == 0)
		floor_session = grpcnull_session();
	else
		start_door();
	start_client();
	for (uint32_t key = 0; key < KEYS; key++)
		make_body(&bodies[key], what, each ? key : 7);
	turn();
	turn();
	turns = 0;
	for (uint32_t i = 0; i < rounds; i++) {
		for (uint32_t k = 0; k < BATCH; k++)
			ask(&bodies[(i * BATCH + k) % KEYS]);
		turn();
		context.now += (sluice_ns)EACH_NS * BATCH;
	}
	qsort(took, turns, sizeof took[0], by_size);
	printf("measured %u requests, %u answered, %.1f ns each\n", rounds * BATCH, closed,
	       (double)took[turns / 2] / BATCH);
	return closed == rounds * BATCH ? 0 : 1;
}
