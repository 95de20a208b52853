/* What clients say: a choice of requests of each door, whole and sensible enough that most are decided. What is not is
 * tried by the fuzzers of the doors, and by bytes that the input puts in between. */
#include "fuzz/frames.h"
#include "fuzz/session/session.h"
#include "proto/spop.h"

#include <stdarg.h>
#include <stdio.h>

/* In texts: @k a key, @n a number, @l a limit, @h a limit of leases, @i an id. */
static const char *const keys[] = {"a", "b", "k", "user:1", "{t}x", "", "0123456789abcdef0123456789abcdef"};
static const char *const limits[] = {
	"3/1m",
	"10/1s",
	"sliding-log 3/1m",
	"token-bucket 2/1s burst 5",
	"leaky-bucket 1/1s queue 2",
	"fixed-window 4/10s",
	"sliding-buckets 5/1m precision 5s edge count",
	"policy:user",
	"policy:path",
	"policy:seen",
	"unlimited",
	"sliding-log 0/1m",
};
static const char *const held[] = {"concurrency 2 lease 20ms", "concurrency 3 lease 5s", "concurrency 0 lease 1s"};

static const char *const resp[] = {
	"SLUICE.CHECK @k @n '@l'",
	"SLUICE.CHECK @k 1 '@l'",
	"SLUICE.CHECK @k @n '@l' KEY a '3/1m'",
	"SLUICE.CHECK @k @n UPTO '@l'",
	"SLUICE.CHECK @k @n ID @i '@l'",
	"SLUICE.CHECK @k 1 MEMBER @i 'distinct 2/1m'",
	"SLUICE.PEEK @k @n '@l' NEXT",
	"SLUICE.PEEK @k @n EACH '@l' '10/1s'",
	"SLUICE.REFUND @k @n '@l'",
	"SLUICE.RESET @k '@l'",
	"SLUICE.ADMIT @n user @k",
	"SLUICE.ADMIT @n user @k path /a method GET host h",
	"SLUICE.EXPLAIN 1 user @k path /a",
	"SLUICE.WHY 1 user @k path /a",
	"SLUICE.ACQUIRE @k 1 ID @i '@h'",
	"SLUICE.RENEW @k @i '@h'",
	"SLUICE.RELEASE @k @i '@h'",
	"SLUICE.HOLDERS @k '@h'",
	"SLUICE.RESERVE @k @n 5000 ID @i 'sliding-log 9/1m'",
	"SLUICE.INSPECT @k '@l'",
	"SLUICE.TOP",
	"SLUICE.TOP NEAR COUNT 3",
	"SLUICE.TAIL",
	"SLUICE.TAIL KEY @k DENIED",
	"SLUICE.TAIL LIMIT user",
	"SLUICE.RELOAD",
	"SLUICE.OVERRIDE SET policy:user user=@k '9/1m' 5000",
	"SLUICE.OVERRIDE GET policy:user user=@k",
	"SLUICE.OVERRIDE DEL policy:user user=@k",
	"SLUICE.OVERRIDE LIST",
	"CL.THROTTLE @k 2 3 60 @n",
	"HELLO 3",
	"HELLO 2 AUTH reader other",
	"AUTH admin secret",
	"CLIENT REPLY OFF",
	"CLIENT REPLY SKIP",
	"CLIENT REPLY ON",
	"CLIENT SETNAME @k",
	"CLIENT INFO",
	"PING @k",
	"ECHO @k",
	"COMMAND COUNT",
	"RESET",
	"QUIT",
};

/* Method, target, further headers, body. */
static const char *const http[][4] = {
	{"POST", "/v1/check", "", "{\"key\":\"@k\",\"limits\":[\"@l\"],\"cost\":@n}"},
	{"POST", "/v1/check", "", "{\"key\":\"@k\",\"limits\":[\"@l\",{\"key\":\"j\",\"limit\":\"3/1m\"}]}"},
	{"POST", "/v1/check", "Connection: close\r\n", "{\"key\":\"@k\",\"limits\":[\"@l\"]}"},
	{"POST", "/v1/check", "Expect: 100-continue\r\n", "{\"key\":\"@k\",\"limits\":[\"@l\"]}"},
	{"POST", "/v1/check", "", "{\"key\":\"@k\",\"limits\":[\"@l\"],\"cost\":@n,\"id\":\"@i\"}"},
	{"POST", "/v1/check?peek=true", "", "{\"key\":\"@k\",\"limits\":[\"@l\"],\"cost\":@n}"},
	{"POST", "/v1/admit", "", "{\"attributes\":{\"user\":\"@k\",\"path\":\"/a\"},\"cost\":@n}"},
	{"POST", "/v1/admit", "Authorization: Bearer secret\r\n", "{\"attributes\":{\"user\":\"@k\"}}"},
	{"POST", "/v1/refund", "", "{\"key\":\"@k\",\"limits\":[\"@l\"],\"cost\":@n}"},
	{"POST", "/v1/reset", "", "{\"key\":\"@k\",\"limits\":[\"@l\"]}"},
	{"POST", "/v1/acquire", "", "{\"key\":\"@k\",\"limits\":[\"@h\"],\"id\":\"@i\"}"},
	{"POST", "/v1/renew", "", "{\"key\":\"@k\",\"limits\":[\"@h\"],\"id\":\"@i\"}"},
	{"POST", "/v1/release", "", "{\"key\":\"@k\",\"limits\":[\"@h\"],\"id\":\"@i\"}"},
	{"POST", "/v1/reserve", "", "{\"key\":\"@k\",\"limits\":[\"@l\"],\"cost\":@n,\"ttl_ms\":5000,\"id\":\"@i\"}"},
	{"GET", "/v1/holders?key=@k&limit=policy:user", "", ""},
	{"POST", "/v1/reload", "", "{}"},
	{"POST", "/json", "", "{\"domain\":\"d\",\"descriptors\":[{\"entries\":[{\"key\":\"user\",\"value\":\"@k\"}]}]}"},
	{"GET", "/v1/explain?user=@k&path=/a", "", ""},
	{"GET", "/v1/inspect?user=@k", "", ""},
	{"GET", "/v1/auth/nginx", "X-Original-URI: /a?b\r\nX-Original-Method: GET\r\nX-User: @k\r\n", ""},
	{"GET", "/v1/auth/forward?x=1", "X-Forwarded-Uri: /a/../b\r\nX-Forwarded-For: 9.9.9.9\r\nX-User: @k\r\n", ""},
	{"GET", "/v1/auth/envoy/a/@k", "X-User: @k\r\n", ""},
	{"GET", "/v1/tail", "", ""},
	{"GET", "/v1/tail?denied=true&key=@k", "", ""},
	{"GET", "/v1/top?kind=near&count=3", "", ""},
	{"GET", "/v1/limits", "", ""},
	{"GET", "/healthz", "", ""},
	{"GET", "/readyz", "", ""},
	{"HEAD", "/v1/limits", "", ""},
	{"GET", "/nowhere", "", ""},
	{"OPTIONS", "*", "", ""},
};

static const char *pick(const char *const *of, size_t count, uint8_t choice) {
	return of[choice % count];
}

#define PICK(of, choice) pick(of, sizeof of / sizeof of[0], choice)

/* Writes a text with its @s filled in, NUL-ended; returns its length. */
static size_t fill(const struct phrase *phrase, const char *text, char *to, size_t room) {
	size_t len = 0;
	for (; *text != '\0'; text++) {
		char number[16];
		const char *part = number;
		snprintf(number, sizeof number, "%c", *text);
		if (*text == '@' && text[1] != '\0') {
			text++;
			snprintf(number, sizeof number, *text == 'i' ? "i%u" : "%u", phrase->number % (*text == 'i' ? 5 : 256));
			part = *text == 'k'   ? PICK(keys, phrase->key)
			       : *text == 'l' ? PICK(limits, phrase->limit)
			       : *text == 'h' ? PICK(held, phrase->limit)
			                      : number;
		}
		size_t part_len = strlen(part);
		SL_ASSERT(len + part_len < room);
		memcpy(to + len, part, part_len + 1);
		len += part_len;
	}
	to[len] = '\0';
	return len;
}

/* A command by the line, or as an array: words are parted by blanks, and may stand in quotes. */
static size_t say_resp(const struct phrase *phrase, char *to) {
	char line[PHRASE_BYTES_MAX], parts[PHRASE_BYTES_MAX];
	size_t len = 0, count = 0;
	fill(phrase, PICK(resp, phrase->choice), line, sizeof line);
	if (phrase->limit >= 128)
		return (size_t)snprintf(to, PHRASE_BYTES_MAX, "%s\r\n", line);
	for (const char *at = line; *at != '\0'; count++) {
		bool quoted = *at == '\'';
		at += quoted;
		size_t word = strcspn(at, quoted ? "'" : " ");
		len += (size_t)snprintf(parts + len, sizeof parts - len, "$%zu\r\n%.*s\r\n", word, (int)word, at);
		at += word + quoted;
		at += *at == ' ';
	}
	return (size_t)snprintf(to, PHRASE_BYTES_MAX, "*%zu\r\n%s", count, parts);
}

static size_t say_http(const struct phrase *phrase, char *to) {
	const char *const *form = http[phrase->choice % (sizeof http / sizeof http[0])];
	char target[256], headers[512], body[512];
	fill(phrase, form[1], target, sizeof target);
	fill(phrase, form[2], headers, sizeof headers);
	size_t len = fill(phrase, form[3], body, sizeof body);
	if (len == 0)
		return (size_t)snprintf(to, PHRASE_BYTES_MAX, "%s %s HTTP/1.%d\r\nHost: localhost\r\n%s\r\n", form[0],
		                        target, phrase->limit >= 16, headers);
	if (phrase->limit >= 192) /* the body in two chunks */
		return (size_t)snprintf(to, PHRASE_BYTES_MAX,
		                        "%s %s HTTP/1.1\r\nHost: localhost\r\n%sTransfer-Encoding: chunked\r\n\r\n1\r\n%c\r\n"
		                        "%zx\r\n%s\r\n0\r\n\r\n",
		                        form[0], target, headers, body[0], len - 1, body + 1);
	return (size_t)snprintf(to, PHRASE_BYTES_MAX,
	                        "%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n%s", form[0], target,
	                        headers, len, body);
}

static size_t say_spop(const struct phrase *phrase, uint32_t stream, char *to) {
	static const char *const messages[] = {"admit", "commit", "nonsense", "check"};
	struct sl_out out = sl_out_to(to, PHRASE_BYTES_MAX);
	char user[64];
	char *start;
	if (stream == 0) {
		start = sl_spop_begin(&out, SL_SPOP_HAPROXY_HELLO, 0, 0);
		sl_spop_put_pair_text(&out, "supported-versions", "2.0");
		sl_spop_put_pair_u32(&out, "max-frame-size", 16380);
		sl_spop_put_pair_text(&out, "capabilities", "pipelining,async");
		sl_spop_end(&out, start);
	}
	fill(phrase, "@k", user, sizeof user);
	start = sl_spop_begin(&out, SL_SPOP_NOTIFY, stream + 1, phrase->number % 4);
	sl_spop_put_text(&out, sl_str(PICK(messages, phrase->choice)));
	sl_out_char(&out, 2);
	sl_spop_put_pair_text(&out, phrase->choice % 4 == 1 ? "ticket" : "path", "/a");
	sl_spop_put_pair_text(&out, "user", user);
	sl_spop_end(&out, start);
	return sl_out_len(&out);
}

/* A descriptor's entries: text in text, by protobuf's tags. */
static size_t descriptor(const struct phrase *phrase, uint8_t *to) {
	char user[64];
	size_t len = fill(phrase, "@k", user, sizeof user), at = 0;
	const uint8_t head[] = {0x0a, 1, 'd', 0x12, (uint8_t)(10 + len), 0x0a, (uint8_t)(8 + len), 0x0a, 4};
	memcpy(to, head, sizeof head);
	at = sizeof head;
	memcpy(to + at, "user", 4);
	at += 4;
	to[at++] = 0x12;
	to[at++] = (uint8_t)len;
	memcpy(to + at, user, len);
	at += len;
	to[at++] = 0x18;
	to[at++] = phrase->number % 128;
	return at;
}

static size_t say_grpc(const struct phrase *phrase, uint32_t stream, uint8_t *to) {
	static const char *const paths[] = {FRAMES_SHOULD_RATE_LIMIT, FRAMES_SHOULD_RATE_LIMIT,
	                                    "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
	                                    "/nobody/knows"};
	struct frames frames = {.bytes = to, .room = PHRASE_BYTES_MAX};
	uint8_t message[128];
	if (stream == 0)
		frames_greet(&frames);
	if (phrase->choice % 8 == 7) { /* it is not waited for any more */
		frames_add_frame(&frames, 3, 0, 2 * (stream - stream % 2) + 1, "\0\0\0\x08", 4);
		return frames.len;
	}
	const char *path = PICK(paths, phrase->choice % 8);
	size_t len = path == paths[0] || path == paths[1] ? descriptor(phrase, message) : 0;
	frames_request(&frames, 2 * stream + 1, path, message, len, true);
	return frames.len;
}

size_t say(const struct sl_door *door, const struct phrase *phrase, uint32_t stream, uint8_t bytes[PHRASE_BYTES_MAX]) {
	if (door == &sl_door_resp)
		return say_resp(phrase, (char *)bytes);
	if (door == &sl_door_http)
		return say_http(phrase, (char *)bytes);
	if (door == &sl_door_spop)
		return say_spop(phrase, stream, (char *)bytes);
	return say_grpc(phrase, stream, bytes);
}
