/* PROXY headers: what is one, what is none, where it ends; each good one cut at every byte and with junk behind it.
 *
 * The binary headers are written out by hand from the specification's figures. The checksum's expected value is that of
 * RFC 3720 B.4 by way of an independent, table-driven CRC-32C in this file. */
#include "proto/proxy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define V2_SIGNATURE "\r\n\r\n\0\r\nQUIT\n"

struct header {
	char bytes[8192];
	size_t len;
};

/* A header of version 2: `count` bytes of rest, whose length is written as it is. */
static struct header v2(int version_command, int family_protocol, const void *rest, size_t count) {
	struct header header = {.len = 16 + count};
	memcpy(header.bytes, V2_SIGNATURE, 12);
	header.bytes[12] = (char)version_command;
	header.bytes[13] = (char)family_protocol;
	header.bytes[14] = (char)(count >> 8);
	header.bytes[15] = (char)count;
	memcpy(header.bytes + 16, rest, count);
	return header;
}

static void assert_read(const char *data, size_t len, const char *address, unsigned port) {
	struct sl_proxy proxy;
	char text[SL_ADDRESS_TEXT_MAX], longer[8192 + 5];
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(sl_proxy_parse(&proxy, data, cut), SL_PROXY_MORE);
	memcpy(longer, data, len);
	memcpy(longer + len, "\r\nGET", 5);
	for (size_t extra = 0; extra <= 5; extra++) {
		assert_int_equal(sl_proxy_parse(&proxy, longer, len + extra), SL_PROXY_DONE);
		assert_int_equal(proxy.consumed, len);
		assert_int_equal(proxy.named, address != NULL);
		if (address == NULL)
			continue;
		sl_address_print(&proxy.address, text);
		assert_string_equal(text, address);
		assert_int_equal(proxy.port, port);
	}
}

static void assert_bad(const char *data, size_t len, const char *why) {
	struct sl_proxy proxy;
	assert_int_equal(sl_proxy_parse(&proxy, data, len), SL_PROXY_BAD);
	assert_false(proxy.named);
	if (strstr(proxy.why, why) == NULL)
		fail_msg("'%s' instead of '%s'", proxy.why, why);
}

static void test_version_1(void **state) {
	static const struct {
		const char *text, *address;
		unsigned port;
	} rows[] = {
		{"PROXY TCP4 192.0.2.7 198.51.100.1 51000 443\r\n", "192.0.2.7", 51000},
		{"PROXY TCP4 0.0.0.0 255.255.255.255 0 65535\r\n", "0.0.0.0", 0},
		{"PROXY TCP6 2001:db8::7 ::1 65535 1\r\n", "2001:db8::7", 65535},
		{"PROXY TCP6 ::ffff:192.0.2.7 ::1 1 1\r\n", "192.0.2.7", 1},
		{"PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
	     "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 65535},
		{"PROXY UNKNOWN\r\n", NULL, 0},
		{"PROXY UNKNOWN 1.2.3.4 whatever it says\r\n", NULL, 0},
		{"PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 "
	     "65535\r\n",
	     NULL, 0},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		assert_read(rows[i].text, strlen(rows[i].text), rows[i].address, rows[i].port);
	assert_int_equal(strlen(rows[7].text), SL_PROXY_V1_BYTES_MAX); /* the longest there is */
}

static void test_version_1_refused(void **state) {
	static const char *const rows[][2] = {
		{"GET / HTTP/1.1\r\n", "no PROXY header"},
		{"proxy TCP4 192.0.2.7 198.51.100.1 51000 443\r\n", "no PROXY header"},
		{"PROXYTCP4", "no PROXY header"},
		{" PROXY", "no PROXY header"},
		{"PROXY\r\n", "no PROXY header"},
		{"\r\nPROXY", "no PROXY header"},
		{"PROXY \r\n", "single space"},
		{"PROXY TCP4\r\n", "single space"},
		{"PROXY  TCP4 192.0.2.7 198.51.100.1 51000 443\r\n", "single space"},
		{"PROXY TCP4  192.0.2.7 198.51.100.1 51000 443\r\n", "single space"},
		{"PROXY TCP4 192.0.2.7 198.51.100.1 51000 443 \r\n", "single space"},
		{"PROXY TCP4 192.0.2.7 198.51.100.1 51000 443 1\r\n", "single space"},
		{"PROXY TCP4 192.0.2.7 198.51.100.1 51000\r\n", "single space"},
		{"PROXY TCP4\t192.0.2.7 198.51.100.1 51000 443\r\n", "single space"},
		{"PROXY UNKNOWNS\r\n", "single space"},
		{"PROXY TCP5 192.0.2.7 198.51.100.1 51000 443\r\n", "family"},
		{"PROXY tcp4 192.0.2.7 198.51.100.1 51000 443\r\n", "family"},
		{"PROXY UDP4 192.0.2.7 198.51.100.1 51000 443\r\n", "family"},
		{"PROXY TCP4 2001:db8::7 ::1 51000 443\r\n", "not an address"},
		{"PROXY TCP6 192.0.2.7 198.51.100.1 51000 443\r\n", "not an address"},
		{"PROXY TCP4 192.0.2.07 198.51.100.1 51000 443\r\n", "not an address"},
		{"PROXY TCP4 192.0.2 198.51.100.1 51000 443\r\n", "not an address"},
		{"PROXY TCP4 192.0.2.256 198.51.100.1 51000 443\r\n", "not an address"},
		{"PROXY TCP4 192.0.2.7:80 198.51.100.1 51000 443\r\n", "not an address"},
		{"PROXY TCP4 192.0.2.7 host 51000 443\r\n", "not an address"},
		{"PROXY TCP6 [2001:db8::7] ::1 51000 443\r\n", "not an address"},
		{"PROXY TCP6 fe80::1%eth0 ::1 51000 443\r\n", "not an address"},
		{"PROXY TCP4 192.0.2.7 198.51.100.1 051000 443\r\n", "port"},
		{"PROXY TCP4 192.0.2.7 198.51.100.1 00 443\r\n", "port"},
		{"PROXY TCP4 192.0.2.7 198.51.100.1 65536 443\r\n", "port"},
		{"PROXY TCP4 192.0.2.7 198.51.100.1 51000 65536\r\n", "port"},
		{"PROXY TCP4 192.0.2.7 198.51.100.1 -1 443\r\n", "port"},
		{"PROXY TCP4 192.0.2.7 198.51.100.1 +1 443\r\n", "port"},
		{"PROXY TCP4 192.0.2.7 198.51.100.1 1 443\n", "line feed"},
		{"PROXY UNKNOWN\n", "line feed"},
		{"PROXY TCP4 192.0.2.7\r198.51.100.1 1 443\r\n", "line feed"},
		{"PROXY TCP4 192.0.2.7\rX", "carriage return"},
		{"PROXY UNKNOWN \r\r\n", "line feed"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		assert_bad(rows[i][0], strlen(rows[i][0]), rows[i][1]);
	assert_bad("PROXY TCP4 1.2.3.4\0 1.2.3.4 1 1\r\n", 34, "not an address");
}

static void test_version_1_is_bounded(void **state) {
	char line[200] = "PROXY UNKNOWN ";
	struct sl_proxy proxy;
	(void)state;
	memset(line + 14, 'x', sizeof line - 14);
	assert_int_equal(sl_proxy_parse(&proxy, line, 106), SL_PROXY_MORE);
	assert_bad(line, 107, "107");
	memcpy(line + 106, "\r\n", 2); /* 108 in all */
	assert_bad(line, 108, "107");
	memcpy(line + 105, "\r\n", 2);
	assert_int_equal(sl_proxy_parse(&proxy, line, 108), SL_PROXY_DONE);
	assert_int_equal(proxy.consumed, 107);
}

#define INET_CLIENT "\300\0\2\7\306\63\144\1\307\70\1\273" /* 192.0.2.7:51000 to 198.51.100.1:443 */
#define INET6_CLIENT                           \
	"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\7" \
	"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1"         \
	"\307\70\1\273"

static void test_version_2(void **state) {
	static const char unix_client[216] = "/run/client", fields[] = INET_CLIENT "\4\0\3abc"
																			   "\2\0\0"
																			   "\x30\0\1n";
	struct header header = v2(0x21, 0x11, INET_CLIENT, 12);
	(void)state;
	assert_read(header.bytes, header.len, "192.0.2.7", 51000);
	header = v2(0x21, 0x21, INET6_CLIENT, 36);
	assert_read(header.bytes, header.len, "2001:db8::7", 51000);
	header = v2(0x21, 0x11, fields, sizeof fields - 1);
	assert_read(header.bytes, header.len, "192.0.2.7", 51000);
	header = v2(0x21, 0x31, unix_client, 216);
	assert_read(header.bytes, header.len, NULL, 0);
	header = v2(0x21, 0x12, INET_CLIENT, 12); /* datagrams: not on this connection */
	assert_read(header.bytes, header.len, NULL, 0);
	header = v2(0x21, 0x00, "", 0);
	assert_read(header.bytes, header.len, NULL, 0);
	header = v2(0x20, 0x00, "", 0);
	assert_read(header.bytes, header.len, NULL, 0);
	header = v2(0x20, 0xff, "anything at all", 15); /* LOCAL: passed over by its length */
	assert_read(header.bytes, header.len, NULL, 0);
}

static void test_version_2_refused(void **state) {
	char rest[4096] = INET_CLIENT;
	struct header header = v2(0x11, 0x11, rest, 12);
	(void)state;
	assert_bad(header.bytes, 13, "version");
	header = v2(0x31, 0x11, rest, 12);
	assert_bad(header.bytes, 13, "version");
	header = v2(0x22, 0x11, rest, 12);
	assert_bad(header.bytes, 13, "command");
	header = v2(0x2f, 0x11, rest, 12);
	assert_bad(header.bytes, 13, "command");
	header = v2(0x21, 0x41, rest, 12);
	assert_bad(header.bytes, 16, "family");
	header = v2(0x21, 0x13, rest, 12);
	assert_bad(header.bytes, 16, "protocol");
	header = v2(0x21, 0x11, rest, 11);
	assert_bad(header.bytes, header.len, "too short");
	header = v2(0x21, 0x21, rest, 35);
	assert_bad(header.bytes, header.len, "too short");
	header = v2(0x21, 0x31, rest, 215);
	assert_bad(header.bytes, header.len, "too short");
	header = v2(0x21, 0x12, rest, 11);
	assert_bad(header.bytes, header.len, "too short");
	header = v2(0x21, 0x11, rest, 13); /* one byte of a field */
	assert_bad(header.bytes, header.len, "cut off");
	rest[12] = 4, rest[13] = 0, rest[14] = 2, rest[15] = 'a';
	header = v2(0x21, 0x11, rest, 16); /* says 2, has 1 */
	assert_bad(header.bytes, header.len, "cut off");
	header = v2(0x21, 0x11, rest, 4081);
	assert_bad(header.bytes, 16, "4096"); /* refused before it is waited for */
	header.bytes[0] = '\n';
	assert_bad(header.bytes, 1, "no PROXY header");
	header = v2(0x21, 0x11, INET_CLIENT, 12);
	for (int i = 0; i < 12; i++) { /* each byte of the signature counts */
		header.bytes[i] ^= 1;
		assert_bad(header.bytes, header.len, "no PROXY header");
		header.bytes[i] ^= 1;
	}
}

static void test_version_2_of_the_largest_size(void **state) {
	char rest[4080] = INET_CLIENT "\4";
	rest[13] = (4080 - 15) >> 8;
	rest[14] = (char)((4080 - 15) & 0xff);
	struct header header = v2(0x21, 0x11, rest, sizeof rest);
	(void)state;
	assert_int_equal(header.len, SL_PROXY_BYTES_MAX);
	assert_read(header.bytes, header.len, "192.0.2.7", 51000);
}

/* Table-driven, most significant bit of each byte last: another way to the same numbers. */
static uint32_t other_crc32c(const char *data, size_t len) {
	uint32_t table[256], crc = ~UINT32_C(0);
	for (uint32_t i = 0; i < 256; i++) {
		table[i] = i;
		for (int bit = 0; bit < 8; bit++)
			table[i] = table[i] % 2 ? table[i] / 2 ^ UINT32_C(0x82f63b78) : table[i] / 2;
	}
	for (size_t i = 0; i < len; i++)
		crc = table[(crc ^ (uint8_t)data[i]) & 0xff] ^ crc / 256;
	return ~crc;
}

static void set_checksum(struct header *header, size_t at) {
	memset(header->bytes + at, 0, 4);
	uint32_t crc = other_crc32c(header->bytes, header->len);
	for (int i = 0; i < 4; i++)
		header->bytes[at + (size_t)i] = (char)(crc >> (24 - 8 * i));
}

static void test_version_2_with_a_checksum(void **state) {
	static const char zeros[32], once[] = INET_CLIENT "\3\0\4....\4\0\1x", twice[] = INET_CLIENT "\3\0\4....\3\0\4....",
								 longer[] = INET_CLIENT "\3\0\5.....";
	struct header header = v2(0x21, 0x11, once, sizeof once - 1);
	(void)state;
	assert_int_equal(other_crc32c(zeros, 32), 0x8a9136aa); /* RFC 3720, B.4 */
	assert_bad(header.bytes, header.len, "checksum");
	set_checksum(&header, 31);
	assert_read(header.bytes, header.len, "192.0.2.7", 51000);
	for (size_t i = 16; i < header.len; i++) { /* no byte of it may change */
		struct sl_proxy proxy;
		header.bytes[i] ^= 0x40;
		if (i < 28 || i > 30) /* the field's own head: another field then, and no checksum */
			assert_int_equal(sl_proxy_parse(&proxy, header.bytes, header.len), SL_PROXY_BAD);
		header.bytes[i] ^= 0x40;
	}
	header = v2(0x21, 0x11, twice, sizeof twice - 1);
	set_checksum(&header, 31);
	assert_bad(header.bytes, header.len, "checksum");
	header = v2(0x21, 0x11, longer, sizeof longer - 1);
	assert_bad(header.bytes, header.len, "checksum");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_version_1),
		cmocka_unit_test(test_version_1_refused),
		cmocka_unit_test(test_version_1_is_bounded),
		cmocka_unit_test(test_version_2),
		cmocka_unit_test(test_version_2_refused),
		cmocka_unit_test(test_version_2_of_the_largest_size),
		cmocka_unit_test(test_version_2_with_a_checksum),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
