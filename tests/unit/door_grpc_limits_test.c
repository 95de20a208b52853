/* RateLimitService by the limits of a policy: what descriptors match, what they cost, all or nothing, what is told. */
#include "tests/unit/door_grpc.h"

static const char policy_text[] =
	"limits:\n"
	"  - {name: per-ip, key: ip, limit: fixed-window 3/1m}\n"
	"  - {name: user, when: {domain: rl}, key: user, limit: sliding-log 10/1h, on-error: deny}\n"
	"  - {name: path, key: path, limit: token-bucket 1/1s burst 60}\n"
	"  - {name: tokens, key: model, limit: fixed-window 100/1d}\n"
	"  - {name: queue, key: queue, limit: leaky-bucket 1/1s queue 5}\n"
	"  - {name: busy, key: job, limit: concurrency 2 lease 30s}\n"
	"  - {name: seen, key: shop, of: user, limit: distinct 2/1h}\n"
	"  - {name: odd, key: odd, limit: fixed-window 5/90s}\n"
	"  - {name: billed, key: account, limit: 9/month at UTC}\n"
	"  - {name: shadow, key: shadow, limit: fixed-window 1/1m, observe: true}\n"
	"  - {name: twice, key: [g, g.2], limit: fixed-window 1/1m}\n"
	"  - {name: dear, key: dear, limit: fixed-window 10/1m, cost: 4}\n"
	"  - {name: held, key: budget, limit: fixed-window 100/1m, reserve: {estimate: 40, ttl: 1m}}\n";

static int setup(void **state) {
	(void)state;
	return setup_with(policy_text);
}

static void test_one_descriptor(void **state) {
	(void)state;
	expect("x ip=1.2.3.4", "OK | ok per-ip 3/m r2 t60");
	expect("x ip=1.2.3.4", "OK | ok per-ip 3/m r1 t60");
	/* what Envoy calls it, in all its forms */
	expect("x remote_address=1.2.3.4", "OK | ok per-ip 3/m r0 t60");
	expect("x remote_address=::ffff:1.2.3.4", "OVER | over per-ip 3/m r0 t60");
	context.now += 10 * 1000000000ull;
	expect("x remote_address=1.2.3.4:80", "OVER | over per-ip 3/m r0 t50");
	expect("x remote_address=2001:db8::1", "OK | ok per-ip 3/m r2 t50");
	expect("x remote_address=2001:db8::2", "OK | ok per-ip 3/m r1 t50");
	expect("x ip=1.2.3.5,remote_address=1.2.3.4", "OK | ok per-ip 3/m r2 t50");
}

static void test_no_limit(void **state) {
	(void)state;
	expect("x foo=bar", "OK | ok");
	expect("x foo=bar bar=baz", "OK | ok | ok");
	expect("x foo=bar ip=1.1.1.1", "OK | ok | ok per-ip 3/m r2 t60");
	expect("other user=a", "OK | ok"); /* of another domain */
	expect("rl user=a", "OK | ok user 10/h r9 t3600");
}

static void test_wrong_requests(void **state) {
	(void)state;
	expect("!1 a=b", "grpc 2: rate limit domain must not be empty");
	expect("x", "grpc 2: rate limit descriptor list must not be empty");
	int32_t id = submit_message(RLS_PATH, sl_str("\x0a\x05x"));
	pump();
	assert_string_equal(shown(id, false),
	                    "grpc 13: grpc: error unmarshalling request: proto: cannot parse invalid wire-format data");
	expect("x a=b@3/0", "grpc 3: rate limit override must have a unit, SECOND to WEEK, and at most 3660 days");
	expect("x a=b@3/8", "grpc 3: rate limit override must have a unit, SECOND to WEEK, and at most 3660 days");
}

/* All descriptors of a request are charged, or none is. */
static void test_all_or_nothing(void **state) {
	(void)state;
	expect("rl!3 ip=1.1.1.1 user=a", "OK | ok per-ip 3/m r0 t60 | ok user 10/h r7 t3600");
	expect("rl ip=1.1.1.1 user=a", "OVER | over per-ip 3/m r0 t60 | ok user 10/h r7 t3600");
	expect("rl user=a ip=1.1.1.1", "OVER | ok user 10/h r7 t3600 | over per-ip 3/m r0 t60");
	expect("rl user=a", "OK | ok user 10/h r6 t3600");
	/* two that meet in one counter are one charge */
	expect("x ip=2.2.2.2 remote_address=2.2.2.2", "OK | ok per-ip 3/m r2 t60 | ok per-ip 3/m r2 t60");
	/* two of one limit, but not of one counter */
	expect("x ip=2.2.2.2 ip=3.3.3.3", "OK | ok per-ip 3/m r1 t60 | ok per-ip 3/m r2 t60");
}

static void test_hits(void **state) {
	(void)state;
	expect("rl!4 user=a", "OK | ok user 10/h r6 t3600");
	expect("rl!4 user=a+2", "OK | ok user 10/h r4 t3600"); /* its own goes first */
	expect("rl!0 user=a", "OK | ok user 10/h r3 t3600");   /* 0 of the request is 1 */
	expect("rl user=a+4", "OVER | over user 10/h r3 t3600");
	expect("rl user=a+4294967296", "OVER | over user 10/h r3 t0"); /* never */
	/* each its own */
	expect("x model=m+50 path=/a+7", "OK | ok tokens 100/d r50 t86400 | ok path 60/m r53 t1");
	expect("x model=m+51 path=/a+7", "OVER | over tokens 100/d r50 t86400 | ok path 60/m r53 t1");
}

/* A descriptor of 0 looks whether one more fits; where none does, nothing beside it is charged. */
static void test_looking(void **state) {
	(void)state;
	expect("x model=m+0", "OK | ok tokens 100/d r100 t0");
	expect("x model=m+100", "OK | ok tokens 100/d r0 t86400");
	expect("x model=m+0", "OVER | over tokens 100/d r0 t86400");
	expect("x ip=1.1.1.1 model=m+0", "OVER | ok per-ip 3/m r3 t0 | over tokens 100/d r0 t86400");
	expect("x ip=1.1.1.1 model=n+0", "OK | ok per-ip 3/m r2 t60 | ok tokens 100/d r100 t0");
	expect("x!3 ip=1.1.1.1 model=n+0", "OVER | over per-ip 3/m r2 t60 | ok tokens 100/d r100 t0");
}

static void test_giving_back(void **state) {
	(void)state;
	expect("x model=m+90", "OK | ok tokens 100/d r10 t86400");
	expect("x model=m-30", "OK | ok tokens 100/d r40 t86400");
	expect("x model=m-300", "OK | ok tokens 100/d r100 t0"); /* at most what was charged */
	expect("x model=m+100", "OK | ok tokens 100/d r0 t86400");
	/* it is given back after the rest was denied, and is never over its limit */
	expect("x!3 ip=1.1.1.1", "OK | ok per-ip 3/m r0 t60");
	expect("x ip=1.1.1.1 model=m-1", "OVER | over per-ip 3/m r0 t60 | ok tokens 100/d r1 t86400");
	expect("x job=j-1", "OK | ok"); /* a lease is no charge */
}

/* A limit that comes with a descriptor is counted by all of it, and by nothing else. */
static void test_overrides(void **state) {
	(void)state;
	expect("x ip=1.1.1.1@2/2", "OK | ok fixed-window 2/1m 2/m r1 t60");
	expect("x ip=1.1.1.1@2/2", "OK | ok fixed-window 2/1m 2/m r0 t60");
	expect("x ip=1.1.1.1@2/2", "OVER | over fixed-window 2/1m 2/m r0 t60");
	expect("y ip=1.1.1.1@2/2", "OK | ok fixed-window 2/1m 2/m r1 t60"); /* another domain */
	expect("x ip=1.1.1.1@3/2", "OK | ok fixed-window 3/1m 3/m r0 t60"); /* the same counter, and one more */
	expect("x ip=1.1.1.1", "OK | ok per-ip 3/m r2 t60");
	/* keys and values are kept apart, and in their order */
	expect("x a=b,c=d@1/3", "OK | ok fixed-window 1/1h 1/h r0 t3600");
	expect("x c=d,a=b@1/3", "OK | ok fixed-window 1/1h 1/h r0 t3600");
	expect("x a=b%2Cc@1/3", "OK | ok fixed-window 1/1h 1/h r0 t3600");
	expect("x a=b,c=d@1/3", "OVER | over fixed-window 1/1h 1/h r0 t3600");
	expect("x a=b@9/4 a=b@9/5 a=b@9/6",
	       "OK | ok fixed-window 9/1d 9/d r8 t86400 | ok fixed-window 9/30d 9/month r8 t518400 | "
	       "ok fixed-window 9/365d 9/year r8 t30326400");
}

static void test_algorithms(void **state) {
	(void)state;
	expect("x odd=1", "OK | ok odd 5/? r4 t90"); /* a window that is no unit */
	expect("x account=1", "OK | ok billed 9/month r8 t2678400");
	expect("x queue=q", "OK | ok queue 6/? r5 t1");
	expect("x job=j", "OK | ok busy 2/? r1 t30");
	expect("x job=j", "OK | ok busy 2/? r0 t30");
	expect("x job=j", "OVER | over busy 2/? r0 t30");
	expect("x shop=s,user=a", "OK | ok seen 2/h r1 t3600");
	expect("x shop=s,user=a", "OK | ok seen 2/h r1 t3600");
	expect("x shop=s,user=b", "OK | ok seen 2/h r0 t3600");
	expect("x shop=s,user=c", "OVER | over seen 2/h r0 t3600");
	/* one call counts one member of a counter: others are refused, the known one's company included */
	expect("x shop=s,user=a shop=s,user=c", "OVER | over | over");
	expect("x shop=s,user=a shop=t,user=c", "OK | ok seen 2/h r0 t3600 | ok seen 2/h r1 t3600");
	expect("x shadow=1", "OK | ok");
	expect("x shadow=1", "OK | ok");
	expect("x dear=1", "OK | ok dear 10/m r6 t60");
	expect("x dear=1+1", "OK | ok dear 10/m r2 t60"); /* what the policy says holds whoever asks */
	expect("x dear=1 ip=4.4.4.4", "OVER | over dear 10/m r2 t60 | ok per-ip 3/m r3 t0");
	expect("x budget=1", "OK | ok held 100/m r60 t60");
	expect("x budget=1+10", "OK | ok held 100/m r50 t60");
}

static void test_repeated_keys(void **state) {
	(void)state;
	expect("x g=a,g=b", "OK | ok twice 1/m r0 t60");
	expect("x g=a,g=c", "OK | ok twice 1/m r0 t60");
	expect("x g=b,g=a", "OK | ok twice 1/m r0 t60");
	expect("x g=a,g=b", "OVER | over twice 1/m r0 t60");
	expect("x g=a", "OK | ok");
}

static void test_headers(void **state) {
	(void)state;
	expect_all(
		"x ip=1.1.1.1 foo=bar",
		"OK | ok per-ip 3/m r2 t60 | ok <RateLimit-Policy: \"per-ip\";q=3;w=60> <RateLimit: \"per-ip\";r=2;t=60>");
	expect_all("x foo=bar", "OK | ok");
	expect_all("x!9 ip=1.1.1.1", "OVER | over per-ip 3/m r2 t0 <RateLimit-Policy: \"per-ip\";q=3;w=60> "
	                             "<RateLimit: \"per-ip\";r=2;t=60>"); /* never: no Retry-After */
	context.forms = SL_FORM_LEGACY_DELTA;
	expect_all("x!3 ip=1.1.1.1", "OVER | over per-ip 3/m r2 t60 <Retry-After: 60> <X-RateLimit-Limit: 3> "
	                             "<X-RateLimit-Remaining: 2> <X-RateLimit-Reset: 60>");
	context.forms = 0;
	expect_all("x!3 ip=1.1.1.1", "OVER | over per-ip 3/m r2 t60 <Retry-After: 60>");
}

/* What is held is told upstream, and can be committed by its ticket. */
static void test_tickets(void **state) {
	(void)state;
	context.forms = 0;
	int32_t id = submit_request("x job=j foo=bar");
	pump();
	assert_non_null(strstr(shown(id, true), "OK | ok busy 2/? r1 t30 | ok up <sluice-ticket: "));
	id = submit_request("x!0 ip=1.1.1.1");
	pump();
	assert_null(strstr(shown(id, true), "ticket"));
}

/* What no proxy could hand on is denied, not an error that lets it pass: a client chooses how long its headers are. */
static void test_long_tickets(void **state) {
	char value[1001], text[BODY_MAX];
	(void)state;
	memset(value, 'v', sizeof value - 1);
	value[sizeof value - 1] = '\0';
	snprintf(text, sizeof text, "x budget=%s budget=1%s ip=1.1.1.1", value, value);
	expect(text, "OK | ok held 100/m r60 t60 | ok held 100/m r60 t60 | ok per-ip 3/m r2 t60");
	snprintf(text, sizeof text, "x budget=%s budget=1%s budget=2%s ip=1.1.1.1", value, value, value);
	expect(text, "OVER | over held 100/m r0 t0 | over held 100/m r0 t0 | over held 100/m r0 t0 | "
	             "ok per-ip 3/m r3 t0");
	expect("x ip=1.1.1.1", "OK | ok per-ip 3/m r1 t60"); /* nothing was charged */
}

/* More limits than are decided as one step: the first that finds no place denies, whatever else there is. */
static void test_too_many(void **state) {
	static char text[BODY_MAX], expected[4096];
	struct sl_out asks = sl_out_to(text, sizeof text - 1), wanted = sl_out_to(expected, sizeof expected - 1);
	(void)state;
	sl_out_str(&asks, "x");
	sl_out_str(&wanted, "OK");
	for (int i = 0; i < SLUICE_ITEMS_MAX; i++) {
		sl_out_str(&asks, " ip=1.0.0.");
		sl_out_u64(&asks, (uint64_t)i);
		sl_out_str(&wanted, " | ok per-ip 3/m r2 t60");
	}
	expect(text, expected);
	sl_out_str(&asks, " ip=1.0.0.99 ip=1.0.0.100 foo=bar");
	int32_t id = submit_request(text);
	pump();
	assert_memory_equal(shown(id, false), "OVER | ok per-ip 3/m r2 t60 | ok", 30);
	assert_non_null(strstr(shown(id, false), " | over per-ip 3/m r0 t0 | ok | ok")); /* nothing more is looked for */
	expect("x ip=1.0.0.0", "OK | ok per-ip 3/m r1 t60");                             /* and nothing was charged */
	/* more than are read: each is told so */
	for (int i = SLUICE_ITEMS_MAX + 3; i <= SL_RLS_DESCRIPTORS_MAX; i++)
		sl_out_str(&asks, " a=b");
	wanted = sl_out_to(expected, sizeof expected - 1);
	sl_out_str(&wanted, "OVER");
	for (int i = 0; i <= SL_RLS_DESCRIPTORS_MAX; i++)
		sl_out_str(&wanted, " | over");
	expect(text, expected);
}

/* Bytes that are no UTF-8 are counted, as any others: an error would let them in. */
static void test_any_bytes(void **state) {
	(void)state;
	expect("rl!10 user=\xff\xfe", "OK | ok user 10/h r0 t3600");
	expect("rl user=\xff\xfe", "OVER | over user 10/h r0 t3600");
	expect("rl user=\xff\xff", "OK | ok user 10/h r9 t3600");
}

/* ---- a store elsewhere ------------------------------------------------------------------------------------------- */

/* What is asked, and is answered when the test says so. */
static struct sl_pending *asked[64];
static uint32_t asked_count;

static bool looks_at_once; /* what looks is answered as soon as it is asked */

static bool on_send(struct sl_remote *remote, struct sl_pending *pending) {
	(void)remote;
	if (looks_at_once && pending->calls[0].call.operation == SLUICE_PEEK) {
		assert_int_equal(sluice_decide(context.store, &pending->calls[0].call), SLUICE_OK);
		return true;
	}
	asked[asked_count++] = pending;
	return false;
}

static struct sl_remote elsewhere = {on_send};

/* What a connection keeps of one that was put off (net/suspend.c). */
struct kept {
	void *asker;
	struct sl_pending *pending, *ready;
};
static struct kept kept[64];
static uint32_t kept_count;

static void keep_put_off(struct kept *again) {
	while (context.put_off != NULL) {
		struct sl_pending *pending = context.put_off;
		context.put_off = pending->next;
		struct kept *to = again != NULL && again->asker == pending->asker ? again : &kept[kept_count++];
		to->asker = pending->asker;
		to->pending = pending;
		if (to != again)
			to->ready = pending->before;
		pending->before = NULL;
	}
}

/* Answers the number-th that was put off: decided in the store, or not at all. */
static void answer_one(uint32_t number, sluice_err err) {
	struct kept *one = &kept[number];
	struct sl_pending **end = &one->ready;
	assert_non_null(one->pending);
	for (uint32_t i = 0; i < one->pending->call_count; i++) {
		struct sluice_call *call = &one->pending->calls[i].call;
		call->err = err == SLUICE_OK ? sluice_decide(context.store, call) : err;
	}
	while (*end != NULL)
		end = &(*end)->next;
	one->pending->next = NULL;
	*end = one->pending;
	one->pending = NULL;
	context.ready = one->ready;
	context.ready_settled = context.ready_taken = 0;
	context.asker = one->asker;
	feed(NULL, 0);
	context.asker = NULL;
	one->ready = context.ready;
	context.ready = NULL;
	keep_put_off(one);
	pump();
}

static void ask_elsewhere(const char *request, int32_t *id) {
	*id = submit_request(request);
	pump();
	keep_put_off(NULL);
}

static int setup_elsewhere(void **state) {
	int status = setup(state);
	asked_count = kept_count = 0;
	looks_at_once = false;
	memset(kept, 0, sizeof kept);
	context.remote = &elsewhere;
	return status;
}

/* Each request waits on its own: the one whose node answers first is answered first. */
static void test_each_on_its_own(void **state) {
	int32_t first, second, third;
	(void)state;
	ask_elsewhere("x ip=1.1.1.1", &first);
	ask_elsewhere("x foo=bar", &second); /* no limit: nobody is asked */
	ask_elsewhere("x ip=2.2.2.2", &third);
	assert_string_equal(shown(second, false), "OK | ok");
	assert_string_equal(shown(first, false), "open");
	assert_int_equal(kept_count, 2);
	assert_int_equal(door->waiting, 2);
	answer_one(1, SLUICE_OK);
	assert_string_equal(shown(third, false), "OK | ok per-ip 3/m r2 t60");
	assert_string_equal(shown(first, false), "open");
	answer_one(0, SLUICE_OK);
	assert_string_equal(shown(first, false), "OK | ok per-ip 3/m r2 t60");
	assert_null(kept[0].ready);
	assert_int_equal(door->waiting, 0);
	assert_int_equal(context.commands, 3);
}

/* Two steps, since one looks and the other charges: the first one's answer is kept for the second. */
static void test_in_steps(void **state) {
	int32_t id;
	(void)state;
	ask_elsewhere("x model=m+0 ip=1.1.1.1 user=a-1", &id);
	assert_int_equal(kept_count, 1);
	answer_one(0, SLUICE_OK);
	assert_string_equal(shown(id, false), "open");
	assert_int_equal(kept_count, 1); /* it is the same that waits */
	answer_one(0, SLUICE_OK);
	assert_string_equal(shown(id, false), "OK | ok tokens 100/d r100 t0 | ok per-ip 3/m r2 t60 | ok");
	assert_null(kept[0].pending);
}

/* What the first step has got is of its own request, and not of the next one on the connection. */
static void test_in_steps_of_which_one_waits(void **state) {
	int32_t first, second;
	(void)state;
	looks_at_once = true;
	ask_elsewhere("x model=m+0 ip=1.1.1.1 user=a-1", &first);
	ask_elsewhere("x model=m ip=2.2.2.2", &second);
	assert_int_equal(kept_count, 2);
	answer_one(1, SLUICE_OK);
	assert_string_equal(shown(second, false), "OK | ok tokens 100/d r99 t86400 | ok per-ip 3/m r2 t60");
	answer_one(0, SLUICE_OK);
	assert_string_equal(shown(first, false), "OK | ok tokens 100/d r100 t0 | ok per-ip 3/m r2 t60 | ok");
	assert_null(kept[0].ready);
}

static void test_away(void **state) {
	int32_t id;
	(void)state;
	ask_elsewhere("x ip=1.1.1.1", &id);
	answer_one(0, SLUICE_E_AWAY);
	assert_string_equal(shown(id, true), "OK | ok"); /* on-error: allow */
	ask_elsewhere("rl ip=1.1.1.1 user=a", &id);
	answer_one(1, SLUICE_E_AWAY);
	assert_string_equal(shown(id, true), "OVER | ok | over <Retry-After: 1>");
	ask_elsewhere("x ip=1.1.1.1@3/2", &id); /* nobody says what then */
	answer_one(2, SLUICE_E_AWAY);
	assert_string_equal(shown(id, false), "grpc 14: the store did not answer in time: the request was not decided");
}

/* What no node can decide is refused, though the limits let pass what nobody could decide: a caller may have brought it
 * about, and a proxy lets pass what it gets an error for. */
static void test_can_not_be_decided(void **state) {
	static const struct {
		sluice_err err;
		const char *why;
	} rows[] = {{SLUICE_E_APART, SL_PENDING_APART_TEXT}, {SLUICE_E_MISUSE, SL_PENDING_MISUSE_TEXT}};
	static struct sl_worker_stats stats;
	(void)state;
	context.stats = &stats;
	for (uint32_t i = 0; i < 2; i++) {
		int32_t id;
		ask_elsewhere("x ip=1.1.1.1 foo=bar", &id);
		answer_one(i, rows[i].err);
		assert_string_equal(shown(id, true), "OVER | over | ok");
		assert_non_null(memmem(answer_of(id)->body, answer_of(id)->body_len, rows[i].why, strlen(rows[i].why)));
		assert_int_equal(atomic_load(&stats.errors[SL_TRANSPORT_GRPC]), i + 1);
	}
	assert_int_equal(door->waiting, 0);
}

/* A peer that has lost interest: what was asked goes on, and is nobody's. */
static void test_given_up(void **state) {
	int32_t first, second;
	(void)state;
	ask_elsewhere("x ip=1.1.1.1", &first);
	ask_elsewhere("x ip=2.2.2.2", &second);
	nghttp2_submit_rst_stream(peer.http2, NGHTTP2_FLAG_NONE, first, NGHTTP2_CANCEL);
	pump();
	assert_int_equal(door->waiting, 2);
	answer_one(0, SLUICE_OK);
	assert_int_equal(door->waiting, 1);
	assert_int_equal(answer_of(first)->body_len, 0);
	/* and the connection itself may go while one waits */
	sl_door_grpc.close(door);
	door = NULL;
	sl_pending_free(kept[0].pending);
	sl_pending_free_all(kept[0].ready);
	sl_pending_free(kept[1].pending);
}

/* Too many that wait are denied, not let in: the queue is a bound of ours. */
static void test_queue(void **state) {
	int32_t id;
	(void)state;
	door->waiting = SL_GRPC_WAITING_MAX;
	ask_elsewhere("x ip=1.1.1.1", &id);
	assert_string_equal(shown(id, true), "OVER <Retry-After: 1>");
	assert_int_equal(kept_count, 0);
	door->waiting = 0;
}

int main(void) {
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_ELSEWHERE(name) cmocka_unit_test_setup_teardown(name, setup_elsewhere, teardown)
		TEST(test_one_descriptor),
		TEST(test_no_limit),
		TEST(test_wrong_requests),
		TEST(test_all_or_nothing),
		TEST(test_hits),
		TEST(test_looking),
		TEST(test_giving_back),
		TEST(test_overrides),
		TEST(test_algorithms),
		TEST(test_repeated_keys),
		TEST(test_headers),
		TEST(test_tickets),
		TEST(test_long_tickets),
		TEST(test_too_many),
		TEST(test_any_bytes),
		TEST_ELSEWHERE(test_each_on_its_own),
		TEST_ELSEWHERE(test_in_steps),
		TEST_ELSEWHERE(test_in_steps_of_which_one_waits),
		TEST_ELSEWHERE(test_away),
		TEST_ELSEWHERE(test_can_not_be_decided),
		TEST_ELSEWHERE(test_given_up),
		TEST_ELSEWHERE(test_queue),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
