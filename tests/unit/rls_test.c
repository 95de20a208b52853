/* Envoy's messages by their bytes: the wire samples that protobuf-c, protobuf's Python and grpc-js agree on
 * (tests/e2e/test_grpc.py asks by the real ones), and all that a parser of proto3 has to take or refuse. */
#include "proto/grpc.h"
#include "proto/rls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct sl_rls_request request;

static size_t from_hex(const char *hex, uint8_t *bytes) {
	size_t len = 0;
	unsigned byte;
	for (; *hex != '\0'; hex += *hex == ' ' ? 1 : 2)
		if (*hex != ' ' && sscanf(hex, "%2x", &byte) == 1)
			bytes[len++] = (uint8_t)byte;
	return len;
}

/* Reads a message from memory of just its size, so that what is read past its end is seen. */
static enum sl_rls_read read_bytes(const void *bytes, size_t len) {
	static void *copy;
	free(copy);
	copy = malloc(len != 0 ? len : 1);
	assert_non_null(copy);
	if (len != 0)
		memcpy(copy, bytes, len);
	return sl_rls_request_read(&request, sl_slice(copy, len));
}

static enum sl_rls_read read_hex(const char *hex) {
	uint8_t bytes[1024];
	return read_bytes(bytes, from_hex(hex, bytes));
}

/* The request as text: domain(hits) key=value,key=value[limit][hits]; .. */
static const char *shown(void) {
	static char text[2048];
	struct sl_out out = sl_out_to(text, sizeof text - 1);
	sl_out_bytes(&out, request.domain.data, request.domain.len);
	sl_out_char(&out, '(');
	sl_out_u64(&out, request.hits);
	sl_out_char(&out, ')');
	for (uint32_t i = 0; i < request.descriptor_count; i++) {
		const struct sl_rls_descriptor *d = &request.descriptors[i];
		sl_out_str(&out, i > 0 ? ";" : " ");
		for (uint32_t e = d->first_entry; e < d->first_entry + d->entry_count; e++) {
			sl_out_str(&out, e > d->first_entry ? "," : "");
			sl_out_bytes(&out, request.entries[e].key.data, request.entries[e].key.len);
			sl_out_char(&out, '=');
			sl_out_bytes(&out, request.entries[e].value.data, request.entries[e].value.len);
		}
		if (d->has_limit) {
			const uint32_t numbers[] = {d->limit_requests, d->limit_unit, d->limit_multiplier};
			for (int n = 0; n < 3; n++) {
				sl_out_char(&out, n == 0 ? '[' : '/');
				sl_out_u64(&out, numbers[n]);
			}
			sl_out_char(&out, ']');
		}
		if (d->has_hits) {
			sl_out_char(&out, d->negative ? '-' : '+');
			sl_out_u64(&out, d->hits);
		}
	}
	*out.at = '\0';
	return text;
}

static void test_requests(void **state) {
	static const struct {
		const char *hex, *text;
	} rows[] = {
		{"", "(0)"},
		/* the sample of three libraries: the value 0 that is present is 1a 00 */
		{"0a02726c 120e 0a0a 0a03666f6f 1203626172 1a00 1801", "rl(1) foo=bar+0"},
		{"0a02726c 120e 0a0a 0a03666f6f 1203626172 1a00", "rl(0) foo=bar+0"},
		{"0a02726c 1210 0a0a 0a03666f6f 1203626172 1a02 0805", "rl(0) foo=bar+5"},
		{"1212 0a0a 0a03666f6f 1203626172 1a02 0805 2001", "(0) foo=bar-5"},
		{"1212 0a0a 0a03666f6f 1203626172 1204 0803 1002", "(0) foo=bar[3/2/0]"},
		{"120f 0a05 0a016b 1200 1206 1002 1a02 080a", "(0) k=[0/2/10]"},
		/* any order, and again: the last counts, messages are merged, entries are added */
		{"1801 0a0161 0a0162 1802", "b(2)"},
		{"1204 1202 0803 1200", "(0) [3/0/0];"},
		{"1208 1202 0803 1202 1002", "(0) [3/2/0]"},
		{"1209 1a02 0805 1a00 0a01 6b", "?"},
		{"1208 1a02 0805 1a02 0806", "(0) +6"},
		{"1206 1a02 0805 1a00", "(0) +5"},
		{"1208 1a02 0805 1a02 0800", "(0) +0"},
		/* unknown fields of each kind, and known ones of another */
		{"2001 2900000000000000ff 320161 3d000000ff 0a0161", "a(0)"},
		{"0801 1001 1a00 0d01020304", "(0)"},
		{"1203 0801 1001", "?"},
		{"1204 0801 1001", "(0) "},
		/* groups are passed over, whatever is in them */
		{"23 0a0161 24 1803", "(3)"},
		{"23 2b 2c 1801 24", "(0)"},
		/* a varint may be longer than it needs to be; numbers are cut to their width */
		{"0a81000161", "?"},
		{"0a810061", "a(0)"},
		{"18ffffffffffffffffff01", "(4294967295)"},
		{"1880808080808080808001", "(0)"},
		/* what is none */
		{"0a", "?"},                         /* no length */
		{"0a02 61", "?"},                    /* less than the length says */
		{"0a ffffffffffffffffff01", "?"},    /* far less */
		{"18 80", "?"},                      /* a varint that is cut */
		{"18 ffffffffffffffffff02", "?"},    /* of more than 64 bits */
		{"18 80808080808080808080 01", "?"}, /* of eleven bytes */
		{"80", "?"},                         /* a tag that is cut */
		{"02 00", "?"},                      /* number 0 */
		{"8280808010 00", "?"},              /* number 2^29 */
		{"faffffff0f 00", "(0)"},            /* number 2^29-1 */
		{"0e 00", "?"},                      /* kinds 6 and 7 */
		{"0f 00", "?"},
		{"2900", "?"}, /* 8 bytes that are cut */
		{"3d00", "?"},
		{"23", "?"}, /* groups that don't end, or were not begun, or are another's */
		{"24", "?"},
		{"23 2c", "?"},
		{"1201 0a", "?"}, /* within */
		{"1203 0a01 0a", "?"},
		{"1203 1a01 08", "?"},
		{"1203 1201 08", "?"},
		{"1205 1203 1a01 08", "?"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		enum sl_rls_read came = read_hex(rows[i].hex);
		if (strcmp(came == SL_RLS_READ ? shown() : "?", rows[i].text) != 0)
			fail_msg("%s: %s, expected %s", rows[i].hex, came == SL_RLS_READ ? shown() : "?", rows[i].text);
	}
}

/* A request that is cut anywhere is malformed, but where a field ends. */
static void test_every_cut(void **state) {
	uint8_t bytes[64];
	size_t len = from_hex("0a02726c 120e 0a0a 0a03666f6f 1203626172 1a00 1801", bytes);
	(void)state;
	for (size_t cut = 0; cut <= len; cut++)
		assert_int_equal(read_bytes(bytes, cut),
		                 cut == 0 || cut == 4 || cut == 20 || cut == len ? SL_RLS_READ : SL_RLS_MALFORMED);
}

static void test_bounds(void **state) {
	static uint8_t bytes[8 * SL_RLS_ENTRIES_MAX];
	size_t len = 0;
	(void)state;
	for (int i = 0; i < SL_RLS_DESCRIPTORS_MAX; i++, len += 2)
		memcpy(bytes + len, "\x12\x00", 2);
	assert_int_equal(read_bytes(bytes, len), SL_RLS_READ);
	assert_int_equal(request.descriptor_count, SL_RLS_DESCRIPTORS_MAX);
	memcpy(bytes + len, "\x12\x00", 2);
	assert_int_equal(read_bytes(bytes, len + 2), SL_RLS_TOO_MANY);
	memset(bytes + len + 2, 0x1b, 2); /* no message, but all descriptors before are counted */
	assert_int_equal(read_bytes(bytes, len + 4), SL_RLS_MALFORMED);
	for (int more = 0; more < 44; more++, len += 2)
		memcpy(bytes + len, "\x12\x00", 2);
	assert_int_equal(read_bytes(bytes, len), SL_RLS_TOO_MANY);
	assert_int_equal(request.descriptors_sent, SL_RLS_DESCRIPTORS_MAX + 44);
	for (int entries = SL_RLS_ENTRIES_MAX; entries <= SL_RLS_ENTRIES_MAX + 1; entries++) {
		struct sl_pb_writer writer = sl_pb_write(bytes, sizeof bytes);
		const uint8_t *end = sl_pb_message_end(&writer);
		for (int i = 0; i < entries; i++)
			sl_pb_put_bytes(&writer, 1, sl_slice(NULL, 0));
		sl_pb_message_begin(&writer, 2, end);
		assert_false(writer.overflow);
		struct sluice_bytes message = sl_pb_written(&writer);
		assert_int_equal(read_bytes(message.data, message.len),
		                 entries == SL_RLS_ENTRIES_MAX ? SL_RLS_READ : SL_RLS_TOO_MANY);
	}
	/* a field of as many bytes as there is room for, and of one more */
	for (size_t room = 5; room >= 4; room--) {
		struct sl_pb_writer writer = sl_pb_write(bytes, room);
		sl_pb_put_bytes(&writer, 1, sl_str("abc"));
		assert_int_equal(writer.overflow, room == 4);
		writer = sl_pb_write(bytes, room + 4);
		sl_pb_put_fixed64(&writer, 1, 7);
		assert_int_equal(writer.overflow, room == 4);
	}
	/* groups as deep as they are taken, and one more */
	for (int depth = SL_PB_DEPTH_MAX; depth <= SL_PB_DEPTH_MAX + 1; depth++) {
		memset(bytes, 0x23, (size_t)depth);
		memset(bytes + depth, 0x24, (size_t)depth);
		assert_int_equal(read_bytes(bytes, 2 * (size_t)depth),
		                 depth == SL_PB_DEPTH_MAX ? SL_RLS_READ : SL_RLS_MALFORMED);
	}
}

static void test_hits(void **state) {
	static const struct {
		const char *hex;
		uint32_t hits;
		bool peek;
	} rows[] = {
		{"1200", 1, false},      /* nothing is said: 1 */
		{"1200 1800", 1, false}, /* 0 of the request: 1 */
		{"1200 1807", 7, false},
		{"1204 1a02 0805 1807", 5, false}, /* its own goes first */
		{"1202 1a00 1807", 0, true},       /* also where it is 0 */
		{"1204 1a02 0800", 0, true},
		{"1208 1a06 08 8080808010", UINT32_MAX, false}, /* 2^32: as much as a cost can be */
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		bool peek;
		assert_int_equal(read_hex(rows[i].hex), SL_RLS_READ);
		assert_int_equal(sl_rls_hits(&request, &request.descriptors[0], &peek), rows[i].hits);
		assert_int_equal(peek, rows[i].peek);
	}
}

static void test_units(void **state) {
	(void)state;
	assert_int_equal(sl_rls_unit_ns(SL_RLS_MINUTE), 60000000000);
	assert_int_equal(sl_rls_unit_ns(SL_RLS_WEEK), 7 * sl_rls_unit_ns(SL_RLS_DAY));
	assert_int_equal(sl_rls_unit_ns(SL_RLS_UNKNOWN), 0);
	assert_int_equal(sl_rls_unit_ns(SL_RLS_UNITS), 0);
	assert_int_equal(sl_rls_unit_ns(UINT32_MAX), 0);
	for (uint32_t unit = SL_RLS_SECOND; unit < SL_RLS_UNITS; unit++)
		assert_int_equal(sl_rls_unit_of(sl_rls_unit_ns(unit)), unit);
	assert_int_equal(sl_rls_unit_of(1), SL_RLS_UNKNOWN);
	assert_int_equal(sl_rls_unit_of(0), SL_RLS_UNKNOWN);
}

/* ---- responses ------------------------------------------------------------------------------------------------- */

static void check_written(const struct sl_pb_writer *writer, const char *hex) {
	uint8_t expected[256];
	size_t len = from_hex(hex, expected);
	struct sluice_bytes got = sl_pb_written(writer);
	assert_false(writer->overflow);
	assert_int_equal(got.len, len);
	assert_memory_equal(got.data, expected, len);
}

static void test_responses(void **state) {
	static const struct sl_rls_header header = {{"RateLimit-Limit", 15}, {"3", 1}};
	static const struct sl_rls_status over = {SL_RLS_OVER_LIMIT, true,         3, SL_RLS_MINUTE, {"", 0},
	                                          .remaining = 0,    .reset_s = 57};
	static const struct sl_rls_status mixed[] = {
		{SL_RLS_OK, false, 0, SL_RLS_UNKNOWN, {NULL, 0}, 0, 0, false, false},
		{SL_RLS_OK, true, 300, SL_RLS_UNKNOWN, {"a", 1}, 299, 0, false, false},
	};
	struct sl_rls_response response = {.code = SL_RLS_OVER_LIMIT,
	                                   .statuses = &over,
	                                   .status_count = 1,
	                                   .response_headers = &header,
	                                   .response_header_count = 1};
	uint8_t memory[256];
	struct sl_pb_writer writer = sl_pb_write(memory, sizeof memory);
	(void)state;
	sl_rls_response_put(&writer, &response);
	check_written(&writer, "0802 120c 0802 1204 0803 1002 2202 0839 1a14 0a0f 526174654c696d69742d4c696d6974 1201 33");
	response = (struct sl_rls_response){.code = SL_RLS_OK, .statuses = mixed, .status_count = 2};
	writer = sl_pb_write(memory, sizeof memory);
	sl_rls_response_put(&writer, &response);
	check_written(&writer, "0801 1202 0801 120f 0801 1206 08ac02 1a0161 18ab02 2200");
	response = (struct sl_rls_response){
		.code = SL_RLS_OK, .request_headers = &header, .request_header_count = 1, .body = {"no", 2}};
	const struct sl_rls_field fields[] = {{.name = sl_str("t"), .text = sl_str("")},
	                                      {.name = sl_str("n"), .is_number = true, .number = 3}};
	response.metadata = fields;
	response.metadata_count = 2;
	writer = sl_pb_write(memory, sizeof memory);
	sl_rls_response_put(&writer, &response);
	check_written(&writer, "0801 2214 0a0f 526174654c696d69742d4c696d6974 1201 33 2a02 6e6f 3219 0a07 0a0174 1202 1a00 "
	                       "0a0e 0a016e 1209 110000000000000840");
}

/* Where there is no room nothing is written past the front, whatever the size. */
static void test_no_room(void **state) {
	static const struct sl_rls_header header = {{"name", 4}, {"value", 5}};
	const struct sl_rls_response response = {
		.code = SL_RLS_OK, .response_headers = &header, .response_header_count = 1, .body = {"body", 4}};
	(void)state;
	for (size_t room = 0; room < 32; room++) {
		uint8_t *memory = malloc(room != 0 ? room : 1);
		assert_non_null(memory);
		struct sl_pb_writer writer = sl_pb_write(memory, room);
		sl_rls_response_put(&writer, &response);
		assert_int_equal(writer.overflow, room < 23);
		free(memory);
	}
}

/* ---- frames ---------------------------------------------------------------------------------------------------- */

static void test_frames(void **state) {
	static const struct {
		const char *hex;
		enum sl_grpc_frame frame;
	} rows[] = {
		{"", SL_GRPC_FRAME_EMPTY},
		{"00", SL_GRPC_FRAME_CUT},
		{"00000000", SL_GRPC_FRAME_CUT},
		{"0000000000", SL_GRPC_FRAME_WHOLE},
		{"0000000001", SL_GRPC_FRAME_CUT},
		{"0000000001 61", SL_GRPC_FRAME_WHOLE},
		{"0000000001 6161", SL_GRPC_FRAME_MORE},
		{"0100000001 61", SL_GRPC_FRAME_COMPRESSED},
		{"0100000001", SL_GRPC_FRAME_CUT},
		{"0200000001", SL_GRPC_FRAME_FLAG},
		{"ff00000001 61", SL_GRPC_FRAME_FLAG},
		{"00ffffffff 61", SL_GRPC_FRAME_CUT},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		uint8_t bytes[32];
		struct sluice_bytes message;
		size_t len = from_hex(rows[i].hex, bytes);
		assert_int_equal(sl_grpc_unframe(sl_slice(bytes, len), &message), rows[i].frame);
	}
	uint8_t prefix[SL_GRPC_PREFIX_BYTES];
	sl_grpc_prefix(prefix, 0x01020304);
	assert_memory_equal(prefix, "\0\1\2\3\4", 5);
	assert_int_equal(sl_grpc_announced(sl_slice(prefix, 5)), 0x01020304);
	assert_int_equal(sl_grpc_announced(sl_slice(prefix, 4)), 0);
}

static void test_headers(void **state) {
	static const char *const good[] = {"application/grpc", "application/grpc+proto", "application/grpc;charset=x"};
	static const char *const bad[] = {"application/grpc-web", "application/grp", "", "text/plain", "Application/grpc"};
	static const char *const timeouts[] = {"1n", "12345678H", "0m", "20S", "1M", "7u"};
	static const char *const none[] = {"", "1", "m", "123456789m", "1s", "1 m", "-1m", "1mm", "m1"};
	char text[64];
	struct sl_out out = sl_out_to(text, sizeof text);
	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		assert_true(sl_grpc_is_content(sl_str(good[i])));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(sl_grpc_is_content(sl_str(bad[i])));
	for (size_t i = 0; i < sizeof timeouts / sizeof *timeouts; i++)
		assert_true(sl_grpc_is_timeout(sl_str(timeouts[i])));
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		assert_false(sl_grpc_is_timeout(sl_str(none[i])));
	assert_false(sl_grpc_is_timeout(sl_slice("1", 2))); /* its NUL is no unit */
	sl_grpc_encode(&out, sl_str("a b%~\n\xc3\xa9"));
	assert_int_equal(sl_out_len(&out), strlen("a b%25~%0A%C3%A9"));
	assert_memory_equal(text, "a b%25~%0A%C3%A9", sl_out_len(&out));
}

static void test_health(void **state) {
	struct sluice_bytes service;
	(void)state;
	assert_true(sl_health_request_read(sl_slice(NULL, 0), &service));
	assert_int_equal(service.len, 0);
	assert_true(sl_health_request_read(sl_str("\x0a\x01x\x0a\x09ratelimit"), &service));
	assert_true(sl_bytes_equal(service, sl_str("ratelimit")));
	assert_false(sl_health_request_read(sl_str("\x0a\x02x"), &service));
}

/* Fields off bytes: one, the end, or no field, which is -1 whatever is wrong with it. */
static void test_fields(void **state) {
	static const struct {
		const char *bytes;
		size_t len;
		int first;
		uint32_t number;
		uint64_t value;
	} rows[] = {
		{"", 0, 0, 0, 0},
		{"\x08\x01", 2, 1, 1, 1},
		{"\x08\x80\x01", 3, 1, 1, 128},
		{"\x11\x01\x00\x00\x00\x00\x00\x00\x80", 9, 1, 2, UINT64_C(1) << 63 | 1},
		{"\x1d\x01\x00\x00\x80", 5, 1, 3, UINT64_C(1) << 31 | 1},
		{"\x22\x02" "ab", 4, 1, 4, 2},
		{"\xf8\xff\xff\xff\x0f\x07", 6, 1, (1 << 29) - 1, 7},
		{"\x0b\x0c\x10\x05", 4, 1, 2, 5},     /* a group is passed over */
		{"\x0b\x13\x14\x0c", 4, 0, 0, 0},     /* and what is in it */
		{"\x80", 1, -1, 0, 0},                  /* a tag that is cut */
		{"\x00\x01", 2, -1, 0, 0},              /* number 0 */
		{"\x80\x80\x80\x80\x10\x01", 6, -1, 0, 0}, /* 2^29 */
		{"\x08", 1, -1, 0, 0},                  /* no value */
		{"\x11\x01\x00\x00\x00\x00\x00\x00", 8, -1, 0, 0},
		{"\x1d\x01\x00\x00", 4, -1, 0, 0},
		{"\x22\x03" "ab", 4, -1, 0, 0},          /* longer than what there is */
		{"\x0e\x01", 2, -1, 0, 0},              /* kinds 6 and 7 */
		{"\x0f\x01", 2, -1, 0, 0},
		{"\x0c", 1, -1, 0, 0},                  /* ends what has not begun */
		{"\x0b\x14", 2, -1, 0, 0},              /* or another one */
		{"\x0b", 1, -1, 0, 0},                  /* does not end */
		{"\x0b\x08", 2, -1, 0, 0},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sl_pb_reader reader = sl_pb_read(sl_slice(rows[i].bytes, rows[i].len));
		struct sl_pb_field field;
		assert_int_equal(sl_pb_next(&reader, &field), rows[i].first);
		if (rows[i].first != 1)
			continue;
		assert_int_equal(field.number, rows[i].number);
		assert_int_equal(field.value, rows[i].value);
		assert_int_equal(sl_pb_next(&reader, &field), 0);
	}
	/* groups within groups, up to so many */
	for (size_t depth = SL_PB_DEPTH_MAX; depth <= SL_PB_DEPTH_MAX + 1; depth++) {
		char bytes[2 * SL_PB_DEPTH_MAX + 2];
		memset(bytes, 0x0b, depth);
		memset(bytes + depth, 0x0c, depth);
		struct sl_pb_reader reader = sl_pb_read(sl_slice(bytes, 2 * depth));
		struct sl_pb_field field;
		assert_int_equal(sl_pb_next(&reader, &field), depth > SL_PB_DEPTH_MAX ? -1 : 0);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests), cmocka_unit_test(test_every_cut), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_hits),     cmocka_unit_test(test_units),     cmocka_unit_test(test_responses),
		cmocka_unit_test(test_no_room),  cmocka_unit_test(test_frames),    cmocka_unit_test(test_headers),
		cmocka_unit_test(test_health),   cmocka_unit_test(test_fields),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
