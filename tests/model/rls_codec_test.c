/* Envoy's rate limit messages as src/proto/rls.c reads and writes them, against protobuf-c: code that another program
 * (Debian's protoc-c) makes of tests/e2e/clients/rls.proto, and a library that shares nothing with ours.
 *
 * Requests are random bytes of the wire format: fields in any order and more than once, messages that have to be
 * merged, unknown fields of each kind, varints longer than they need to be; then the same cut, and with bytes changed.
 * Both must take them, with the same in every field, or both refuse. Responses are random too: protobuf-c must find in
 * our bytes what was to be said, and say it by the same bytes. No message has a repeated number, which could be packed.
 *
 * protobuf-c is stricter than other parsers of proto3, and less strict, in a few things, which are not compared: it
 * refuses groups, known fields of another kind, tags and lengths of more than five bytes; it takes number 0 and varints
 * of more than 64 bits; and of a message that comes twice it merges the messages within, but takes numbers from the
 * last alone. What we do there tests/unit/rls_test.c says, by what protobuf's own library does.
 *
 * SLUICE_SEED and SLUICE_OPS repeat or lengthen a run. Without protoc-c the test is skipped. */
#include "tests/model/dice.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#if __has_include("rls.pb-c.h")

#include "proto/rls.h"

#include "health.pb-c.h"
#include "rls.pb-c.h"

enum { MESSAGE_MAX = 1 << 17, TEXT_MAX = 200, SOME_MAX = 6, FIELDS_MAX = 4 };

typedef Envoy__Service__Ratelimit__V3__RateLimitRequest their_request;
typedef Envoy__Service__Ratelimit__V3__RateLimitRequest__Descriptor their_descriptor;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse their_response;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse__Status their_status;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse__Header their_header;

/* ---- what the messages have -------------------------------------------------------------------------------------- */

enum part { NO_PART, TEXT, NUMBER, NUMBER64, MESSAGE, MESSAGES };

/* A message's fields by their numbers, from 1. */
struct scheme {
	enum part parts[FIELDS_MAX];
	const struct scheme *of[FIELDS_MAX];
};

static const struct scheme entry = {.parts = {TEXT, TEXT}};
static const struct scheme wrapped32 = {.parts = {NUMBER}};
static const struct scheme wrapped64 = {.parts = {NUMBER64}};
static const struct scheme override = {.parts = {NUMBER, NUMBER, MESSAGE}, .of = {NULL, NULL, &wrapped32}};
static const struct scheme descriptor = {.parts = {MESSAGES, MESSAGE, MESSAGE, NUMBER},
                                         .of = {&entry, &override, &wrapped64}};
static const struct scheme request = {.parts = {TEXT, MESSAGES, NUMBER}, .of = {NULL, &descriptor}};
static const struct scheme health_request = {.parts = {TEXT}};

/* ---- random bytes of a message ----------------------------------------------------------------------------------- */

struct wire {
	uint8_t *at;
	bool merged; /* messages come more than once, and each time with all of their numbers */
};

static void put_varint(struct wire *wire, struct dice *dice, uint64_t value, int bytes_max) {
	int len = 1;
	for (uint64_t rest = value >> 7; rest != 0; rest >>= 7)
		len++;
	if (len < bytes_max && dice_one_in(dice, 24))
		len += (int)dice_below(dice, (uint64_t)(bytes_max - len + 1));
	for (int i = 0; i < len; i++, value >>= 7)
		*wire->at++ = (uint8_t)((value & 0x7F) | (i + 1 < len ? 0x80 : 0));
}

static void put_tag(struct wire *wire, struct dice *dice, uint64_t number, enum sl_pb_kind kind) {
	put_varint(wire, dice, number << 3 | kind, 5);
}

static uint64_t any_number(struct dice *dice) {
	switch (dice_below(dice, 6)) {
	case 0:
		return 0;
	case 1:
		return UINT32_MAX - 1 + dice_below(dice, 3);
	case 2:
		return UINT64_MAX - dice_below(dice, 2);
	case 3:
		return dice_bits(dice) >> dice_below(dice, 64);
	default:
		return dice_below(dice, 300);
	}
}

static void put_text(struct wire *wire, struct dice *dice) {
	uint64_t len = dice_below(dice, dice_one_in(dice, 10) ? TEXT_MAX : 8);
	put_varint(wire, dice, len, 5);
	for (uint64_t i = 0; i < len; i++)
		*wire->at++ = (uint8_t)(dice_one_in(dice, 20) ? dice_bits(dice) : 'a' + dice_below(dice, 26));
}

/* One that no message has: any number from 16, any kind but groups. */
static void put_unknown(struct wire *wire, struct dice *dice) {
	static const enum sl_pb_kind kinds[] = {SL_PB_VARINT, SL_PB_FIXED64, SL_PB_BYTES, SL_PB_FIXED32};
	enum sl_pb_kind kind = kinds[dice_below(dice, 4)];
	put_tag(wire, dice, 16 + (dice_bits(dice) & 0x1FFFFFFF) % 0x1FFFFFF0 / (dice_one_in(dice, 2) ? 1 : 1 << 20), kind);
	if (kind == SL_PB_VARINT)
		put_varint(wire, dice, any_number(dice), 10);
	else if (kind == SL_PB_BYTES)
		put_text(wire, dice);
	else
		for (int i = kind == SL_PB_FIXED64 ? 8 : 4; i > 0; i--)
			*wire->at++ = (uint8_t)dice_bits(dice);
}

static void put_message(struct wire *wire, struct dice *dice, const struct scheme *scheme, bool whole);

static void put_part(struct wire *wire, struct dice *dice, enum part part, const struct scheme *of) {
	uint8_t within[MESSAGE_MAX / 64];
	struct wire inner = {within, wire->merged};
	uint64_t value = any_number(dice);
	if (part == TEXT) {
		put_text(wire, dice);
	} else if (part == NUMBER || part == NUMBER64) {
		put_varint(wire, dice, value, 10);
	} else {
		put_message(&inner, dice, of, part == MESSAGE && wire->merged);
		put_varint(wire, dice, (uint64_t)(inner.at - within), 5);
		memcpy(wire->at, within, (size_t)(inner.at - within));
		wire->at += inner.at - within;
	}
}

static void put_field(struct wire *wire, struct dice *dice, const struct scheme *scheme, uint64_t i) {
	bool is_number = scheme->parts[i] == NUMBER || scheme->parts[i] == NUMBER64;
	put_tag(wire, dice, i + 1, is_number ? SL_PB_VARINT : SL_PB_BYTES);
	put_part(wire, dice, scheme->parts[i], scheme->of[i]);
}

/* `whole`: with all of its numbers. */
static void put_message(struct wire *wire, struct dice *dice, const struct scheme *scheme, bool whole) {
	bool was_put[FIELDS_MAX] = {false};
	uint64_t fields = 0;
	while (fields < FIELDS_MAX && scheme->parts[fields] != NO_PART)
		fields++;
	for (uint64_t more = dice_below(dice, SOME_MAX); more > 0; more--) {
		uint64_t i = dice_below(dice, fields);
		if (dice_one_in(dice, 12))
			put_unknown(wire, dice);
		if (scheme->parts[i] == MESSAGE && was_put[i] && !wire->merged)
			continue;
		was_put[i] = true;
		put_field(wire, dice, scheme, i);
	}
	for (uint64_t i = 0; i < fields && whole; i++)
		if (scheme->parts[i] == NUMBER || scheme->parts[i] == NUMBER64)
			put_field(wire, dice, scheme, i);
}

/* ---- bytes on which protobuf-c is known to differ ---------------------------------------------------------------- */

enum { STRICTER = 1, LAXER = 2, TWICE = 4 };

struct walk {
	const uint8_t *at, *end;
	unsigned differs;
};

static bool walk_varint(struct walk *walk, int bytes_max, uint64_t *value) {
	*value = 0;
	for (int i = 0; walk->at < walk->end; i++) {
		uint8_t byte = *walk->at++;
		if (i == bytes_max)
			walk->differs |= STRICTER;
		if (i >= 9 && byte > 1) {
			walk->differs |= LAXER;
			return false;
		}
		*value |= (uint64_t)(byte & 0x7F) << 7 * i;
		if (byte < 0x80)
			return true;
	}
	return false;
}

/* Goes through a message until it is malformed, and says in what protobuf-c is known to be another's. */
static unsigned walk_message(const uint8_t *at, const uint8_t *end, const struct scheme *scheme) {
	struct walk walk = {at, end, 0};
	uint64_t tag, value = 0;
	unsigned seen = 0;
	while (walk.at < walk.end && walk_varint(&walk, 5, &tag)) {
		uint64_t i = (tag >> 3) - 1;
		enum part part = scheme != NULL && i < FIELDS_MAX ? scheme->parts[i] : NO_PART;
		unsigned kind = tag & 7, known = part == NUMBER || part == NUMBER64 ? SL_PB_VARINT : SL_PB_BYTES;
		if (tag >> 3 == 0 || tag >> 32 != 0)
			walk.differs |= LAXER | STRICTER;
		if (kind == 3 || kind == 4 || (part != NO_PART && kind != known))
			walk.differs |= STRICTER;
		if (part == MESSAGE && (seen & 1u << i) != 0)
			walk.differs |= TWICE;
		seen |= part == MESSAGE ? 1u << i : 0;
		if (kind == SL_PB_VARINT && !walk_varint(&walk, 10, &value))
			break;
		if (kind == SL_PB_BYTES && !walk_varint(&walk, 5, &value))
			break;
		if (kind != SL_PB_VARINT && kind != SL_PB_BYTES)
			value = kind == SL_PB_FIXED64 ? 8 : kind == SL_PB_FIXED32 ? 4 : 0;
		if (kind == SL_PB_VARINT)
			continue;
		if (value > (uint64_t)(walk.end - walk.at))
			break;
		if (kind == SL_PB_BYTES && part >= MESSAGE)
			walk.differs |= walk_message(walk.at, walk.at + value, scheme->of[i]);
		walk.at += value;
	}
	return walk.differs;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static struct {
	uint64_t alike, refused, differ, responses;
} counts;

/* Theirs ends with a NUL, and has ours in it to the end, also where ours has a NUL within. */
static bool same_text(struct sluice_bytes ours, const char *theirs) {
	size_t len = strlen(theirs);
	const char *text = ours.data;
	return len <= ours.len && (len == ours.len || text[len] == '\0') && memcmp(text, theirs, len) == 0;
}

static bool same_descriptor(const struct sl_rls_request *ours, const struct sl_rls_descriptor *a,
                            const their_descriptor *b) {
	bool same = a->entry_count == b->n_entries && a->has_limit == (b->limit != NULL) &&
	            a->has_hits == (b->hits_addend != NULL) && a->negative == (b->is_negative_hits != 0);
	if (!same)
		return false;
	if (b->limit != NULL)
		same = a->limit_requests == b->limit->requests_per_unit && a->limit_unit == b->limit->unit &&
		       a->limit_multiplier == (b->limit->unit_multiplier != NULL ? b->limit->unit_multiplier->value : 0);
	if (b->hits_addend != NULL)
		same = same && a->hits == b->hits_addend->value;
	for (size_t i = 0; i < b->n_entries && same; i++) {
		const struct sl_rls_entry *own = &ours->entries[a->first_entry + i];
		same = same_text(own->key, b->entries[i]->key) && same_text(own->value, b->entries[i]->value);
	}
	return same;
}

static bool same_request(const struct sl_rls_request *a, const their_request *b) {
	bool same = same_text(a->domain, b->domain) && a->hits == b->hits_addend && a->descriptor_count == b->n_descriptors;
	for (size_t i = 0; i < b->n_descriptors && same; i++)
		same = same_descriptor(a, &a->descriptors[i], b->descriptors[i]);
	return same;
}

static void show_and_fail(uint64_t round, const char *what, const uint8_t *bytes, size_t len) {
	for (size_t i = 0; i < len; i++)
		fprintf(stderr, "%02x", bytes[i]);
	fail_msg("\nSLUICE_SEED=%" PRIu64 ", round %" PRIu64 ": the bytes above %s", dice_seed(), round, what);
}

/* Both read the same bytes, from memory of just their size. `whole`: messages that come twice have all numbers. */
static void read_request(uint64_t round, const uint8_t *bytes, size_t len, bool whole) {
	static struct sl_rls_request ours;
	uint8_t *copy = malloc(len + 1);
	assert_non_null(copy);
	memcpy(copy, bytes, len);
	copy = realloc(copy, len != 0 ? len : 1);
	unsigned differs = walk_message(copy, copy + len, &request);
	enum sl_rls_read came = sl_rls_request_read(&ours, sl_slice(copy, len));
	their_request *theirs = envoy__service__ratelimit__v3__rate_limit_request__unpack(NULL, len, copy);
	assert_int_not_equal(came, SL_RLS_TOO_MANY);
	if (came == SL_RLS_READ && theirs == NULL && (differs & STRICTER) == 0)
		show_and_fail(round, "are refused by protobuf-c alone", bytes, len);
	if (came != SL_RLS_READ && theirs != NULL && (differs & LAXER) == 0)
		show_and_fail(round, "are taken by protobuf-c alone", bytes, len);
	differs &= whole ? STRICTER | LAXER : STRICTER | LAXER | TWICE;
	if (came == SL_RLS_READ && theirs != NULL && differs == 0 && !same_request(&ours, theirs))
		show_and_fail(round, "say another thing to protobuf-c", bytes, len);
	counts.alike += came == SL_RLS_READ && theirs != NULL;
	counts.refused += came != SL_RLS_READ && theirs == NULL;
	counts.differ += (came == SL_RLS_READ) != (theirs != NULL);
	if (theirs != NULL)
		envoy__service__ratelimit__v3__rate_limit_request__free_unpacked(theirs, NULL);
	free(copy);
}

static size_t make_message(struct dice *dice, uint8_t *bytes, const struct scheme *scheme, bool *merged) {
	struct wire wire = {bytes, dice_one_in(dice, 2)};
	put_message(&wire, dice, scheme, false);
	*merged = wire.merged;
	return (size_t)(wire.at - bytes);
}

static void requests_are_read_alike(void **state) {
	static uint8_t bytes[MESSAGE_MAX];
	uint64_t rounds = dice_ops(400000);
	(void)state;
	for (uint64_t round = 0; round < rounds; round++) {
		struct dice dice = dice_of(dice_seed(), round);
		bool merged;
		size_t len = make_message(&dice, bytes, &request, &merged);
		read_request(round, bytes, len, true);
		read_request(round, bytes, (size_t)dice_below(&dice, len + 1), true);
		for (uint64_t more = 1 + dice_below(&dice, 3); more > 0 && len != 0; more--)
			bytes[dice_below(&dice, len)] = (uint8_t)dice_bits(&dice);
		read_request(round, bytes, len, false);
	}
	assert_true(counts.alike > rounds && counts.refused > rounds / 2 && counts.differ > 0);
}

/* What we are asked by those who have protobuf-c: what it writes of a request that it read. */
static void what_they_write_is_read(void **state) {
	static uint8_t bytes[MESSAGE_MAX];
	static struct sl_rls_request ours;
	uint64_t rounds = dice_ops(200000);
	(void)state;
	for (uint64_t round = 0; round < rounds; round++) {
		struct dice dice = dice_of(dice_seed() ^ 1, round);
		bool merged;
		size_t len = make_message(&dice, bytes, &request, &merged);
		their_request *theirs = envoy__service__ratelimit__v3__rate_limit_request__unpack(NULL, len, bytes);
		assert_non_null(theirs);
		len = envoy__service__ratelimit__v3__rate_limit_request__pack(theirs, bytes);
		if (sl_rls_request_read(&ours, sl_slice(bytes, len)) != SL_RLS_READ || !same_request(&ours, theirs))
			show_and_fail(round, "are what protobuf-c writes", bytes, len);
		envoy__service__ratelimit__v3__rate_limit_request__free_unpacked(theirs, NULL);
	}
}

static void health_requests_are_read_alike(void **state) {
	static uint8_t bytes[MESSAGE_MAX];
	uint64_t rounds = dice_ops(100000);
	(void)state;
	for (uint64_t round = 0; round < rounds; round++) {
		struct dice dice = dice_of(dice_seed() ^ 2, round);
		struct sluice_bytes service;
		bool merged;
		size_t len = make_message(&dice, bytes, &health_request, &merged);
		len = dice_one_in(&dice, 2) ? (size_t)dice_below(&dice, len + 1) : len;
		bool came = sl_health_request_read(sl_slice(bytes, len), &service);
		Grpc__Health__V1__HealthCheckRequest *theirs =
			grpc__health__v1__health_check_request__unpack(NULL, len, bytes);
		if (came != (theirs != NULL) || (came && !same_text(service, theirs->service)))
			show_and_fail(round, "ask for another service by protobuf-c", bytes, len);
		if (theirs != NULL)
			grpc__health__v1__health_check_request__free_unpacked(theirs, NULL);
	}
}

/* ---- responses --------------------------------------------------------------------------------------------------- */

/* A response with what it points to. */
struct told {
	struct sl_rls_response response;
	struct sl_rls_status statuses[SOME_MAX];
	struct sl_rls_header headers[2][SOME_MAX];
	struct sl_rls_field fields[SOME_MAX];
	char texts[8 * SOME_MAX * TEXT_MAX];
	size_t used;
};

static struct sluice_bytes any_text(struct told *told, struct dice *dice, bool may_be_empty) {
	size_t len = (size_t)dice_below(dice, dice_one_in(dice, 10) ? TEXT_MAX : 12) + !may_be_empty;
	char *text = told->texts + told->used;
	len = len < TEXT_MAX ? len : TEXT_MAX;
	for (size_t i = 0; i < len; i++)
		text[i] = (char)(1 + dice_below(dice, 127));
	told->used += len;
	return sl_slice(text, len);
}

static enum sl_rls_code any_code(struct dice *dice) {
	return dice_one_in(dice, 2) ? SL_RLS_OK : SL_RLS_OVER_LIMIT;
}

static void draw_status(struct told *told, struct sl_rls_status *status, struct dice *dice) {
	*status = (struct sl_rls_status){.code = any_code(dice),
	                                 .has_limit = !dice_one_in(dice, 4),
	                                 .requests = (uint32_t)any_number(dice),
	                                 .unit = (enum sl_rls_unit)dice_below(dice, SL_RLS_UNITS),
	                                 .name = any_text(told, dice, true),
	                                 .remaining = (uint32_t)any_number(dice),
	                                 .reset_s = any_number(dice) >> 1,
	                                 .unlimited = dice_one_in(dice, 4),
	                                 .no_reset = dice_one_in(dice, 4)};
}

static void draw_response(struct told *told, struct dice *dice) {
	told->used = 0;
	told->response = (struct sl_rls_response){.code = any_code(dice),
	                                          .statuses = told->statuses,
	                                          .status_count = (uint32_t)dice_below(dice, SOME_MAX),
	                                          .response_headers = told->headers[0],
	                                          .response_header_count = (uint32_t)dice_below(dice, SOME_MAX),
	                                          .request_headers = told->headers[1],
	                                          .request_header_count = (uint32_t)dice_below(dice, SOME_MAX),
	                                          .metadata = told->fields,
	                                          .metadata_count = (uint32_t)dice_below(dice, SOME_MAX)};
	told->response.body = any_text(told, dice, true);
	for (uint32_t i = 0; i < SOME_MAX; i++) {
		draw_status(told, &told->statuses[i], dice);
		for (int side = 0; side < 2; side++)
			told->headers[side][i] = (struct sl_rls_header){any_text(told, dice, false), any_text(told, dice, true)};
		told->fields[i] = (struct sl_rls_field){.name = any_text(told, dice, false),
		                                        .is_number = dice_one_in(dice, 2),
		                                        .number = (int64_t)(any_number(dice) >> 11),
		                                        .text = any_text(told, dice, true)};
	}
}

static bool same_status(const struct sl_rls_status *a, const their_status *b) {
	bool has_reset = a->has_limit && !a->no_reset;
	uint32_t remaining = a->has_limit ? a->remaining : a->unlimited ? UINT32_MAX : 0;
	bool same = (int)a->code == (int)b->code && a->has_limit == (b->current_limit != NULL) &&
	            b->limit_remaining == remaining && has_reset == (b->duration_until_reset != NULL);
	if (same && b->current_limit != NULL)
		same = a->requests == b->current_limit->requests_per_unit && (int)a->unit == (int)b->current_limit->unit &&
		       same_text(a->name, b->current_limit->name);
	if (same && has_reset)
		same = a->reset_s == (uint64_t)b->duration_until_reset->seconds && b->duration_until_reset->nanos == 0;
	return same;
}

static bool same_headers(const struct sl_rls_header *ours, uint32_t count, their_header **theirs, size_t n) {
	bool same = count == n;
	for (uint32_t i = 0; i < count && same; i++)
		same = same_text(ours[i].name, theirs[i]->key) && same_text(ours[i].value, theirs[i]->value);
	return same;
}

static bool same_metadata(const struct sl_rls_field *ours, uint32_t count, const Google__Protobuf__Struct *theirs) {
	bool same = count == (theirs != NULL ? theirs->n_fields : 0) && (theirs != NULL) == (count != 0);
	for (uint32_t i = 0; i < count && same; i++) {
		const Google__Protobuf__Value *value = theirs->fields[i]->value;
		same = value != NULL && same_text(ours[i].name, theirs->fields[i]->key) &&
		       (ours[i].is_number ? value->kind_case == GOOGLE__PROTOBUF__VALUE__KIND_NUMBER_VALUE &&
		                                (int64_t)value->number_value == ours[i].number
		                          : value->kind_case == GOOGLE__PROTOBUF__VALUE__KIND_STRING_VALUE &&
		                                same_text(ours[i].text, value->string_value));
	}
	return same;
}

static bool same_response(const struct sl_rls_response *a, const their_response *b) {
	bool same =
		(int)a->code == (int)b->overall_code && a->status_count == b->n_statuses &&
		sl_bytes_equal(a->body, sl_slice(b->raw_body.data, b->raw_body.len)) &&
		same_headers(a->response_headers, a->response_header_count, b->response_headers_to_add,
	                 b->n_response_headers_to_add) &&
		same_headers(a->request_headers, a->request_header_count, b->request_headers_to_add,
	                 b->n_request_headers_to_add) &&
		same_metadata(a->metadata, a->metadata_count, b->dynamic_metadata);
	for (uint32_t i = 0; i < a->status_count && same; i++)
		same = same_status(&a->statuses[i], b->statuses[i]);
	return same;
}

static void responses_are_written_alike(void **state) {
	static uint8_t memory[MESSAGE_MAX], again[MESSAGE_MAX];
	static struct told told;
	uint64_t rounds = dice_ops(200000);
	(void)state;
	for (uint64_t round = 0; round < rounds; round++) {
		struct dice dice = dice_of(dice_seed() ^ 3, round);
		struct sl_pb_writer writer = sl_pb_write(memory, sizeof memory);
		draw_response(&told, &dice);
		sl_rls_response_put(&writer, &told.response);
		assert_false(writer.overflow);
		struct sluice_bytes ours = sl_pb_written(&writer);
		their_response *theirs =
			envoy__service__ratelimit__v3__rate_limit_response__unpack(NULL, ours.len, ours.data);
		if (theirs == NULL || !same_response(&told.response, theirs))
			show_and_fail(round, "say another thing to protobuf-c", ours.data, ours.len);
		size_t len = envoy__service__ratelimit__v3__rate_limit_response__pack(theirs, again);
		if (len != ours.len || memcmp(again, ours.data, len) != 0)
			show_and_fail(round, "are written in other bytes by protobuf-c", ours.data, ours.len);
		envoy__service__ratelimit__v3__rate_limit_response__free_unpacked(theirs, NULL);
		counts.responses++;
	}
	print_message("seed %" PRIu64 ": requests: %" PRIu64 " read alike, %" PRIu64 " refused by both, %" PRIu64
	              " by one; %" PRIu64 " responses\n",
	              dice_seed(), counts.alike, counts.refused, counts.differ, counts.responses);
}

#else

static void is_skipped(void **state) {
	(void)state;
	print_message("needs Debian's protobuf-c-compiler, libprotobuf-c-dev and libprotobuf-dev\n");
	skip();
}
#define requests_are_read_alike is_skipped
#define what_they_write_is_read is_skipped
#define health_requests_are_read_alike is_skipped
#define responses_are_written_alike is_skipped

#endif

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_are_read_alike),
		cmocka_unit_test(what_they_write_is_read),
		cmocka_unit_test(health_requests_are_read_alike),
		cmocka_unit_test(responses_are_written_alike),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
