/* Addresses: every spelling of one client is one text, and nothing that is no address passes for one.
 *
 * The expected texts are RFC 5952's rules and examples, worked by hand; inet_ntop() is asked for addresses that it
 * prints canonically (no zero runs in front), as a second opinion on random ones. */
#include "policy/address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <arpa/inet.h>

static void test_canonical_text(void **state) {
	static const struct row {
		const char *written, *canonical;
		uint32_t port;
	} rows[] = {
		{"1.2.3.4", "1.2.3.4", SL_PORT_NONE},
		{"0.0.0.0", "0.0.0.0", SL_PORT_NONE},
		{"255.255.255.255", "255.255.255.255", SL_PORT_NONE},
		{"1.2.3.4:0", "1.2.3.4", 0},
		{"1.2.3.4:65535", "1.2.3.4", 65535},
		{"::ffff:1.2.3.4", "1.2.3.4", SL_PORT_NONE},
		{"::FFFF:102:304", "1.2.3.4", SL_PORT_NONE},
		{"0:0:0:0:0:ffff:1.2.3.4", "1.2.3.4", SL_PORT_NONE},
		{"[::ffff:1.2.3.4]:443", "1.2.3.4", 443},
		{"::", "::", SL_PORT_NONE},
		{"::1", "::1", SL_PORT_NONE},
		{"[::1]", "::1", SL_PORT_NONE},
		{"[::1]:80", "::1", 80},
		{"2001:0DB8:0:0:0:0:0:0001", "2001:db8::1", SL_PORT_NONE},
		{"2001:db8::1:443", "2001:db8::1:443", SL_PORT_NONE},           /* the last group, no port */
		{"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1", SL_PORT_NONE}, /* one zero group stays */
		{"2001:0:0:1:0:0:0:1", "2001:0:0:1::1", SL_PORT_NONE},          /* the longest run */
		{"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1", SL_PORT_NONE},    /* the first of two */
		{"1:2:3:4:5:6:0:0", "1:2:3:4:5:6::", SL_PORT_NONE},
		{"0:0:1:2:3:4:5:6", "::1:2:3:4:5:6", SL_PORT_NONE},
		{"::1.2.3.4", "::102:304", SL_PORT_NONE}, /* compatible, not mapped: an IPv6 address */
		{"64:ff9b::1.2.3.4", "64:ff9b::102:304", SL_PORT_NONE},
		{"::fffe:1.2.3.4", "::fffe:102:304", SL_PORT_NONE},
		{"fe80::1%eth0", "fe80::1", SL_PORT_NONE},
		{"[fe80::1%25en0]:22", "fe80::1", 22},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sl_address address;
		char text[SL_ADDRESS_TEXT_MAX];
		uint32_t port = 1;
		print_message("%s\n", rows[i].written);
		assert_true(sl_address_parse(sl_str(rows[i].written), &address, &port));
		assert_int_equal(sl_address_print(&address, text), strlen(rows[i].canonical));
		assert_string_equal(text, rows[i].canonical);
		assert_int_equal(port, rows[i].port);
		assert_int_equal(sl_address_is_v4(&address), strchr(rows[i].canonical, ':') == NULL);
	}
}

static void test_refused(void **state) {
	static const char *const rows[] = {
		"",
		" ",
		"unknown",
		"_hidden",
		"localhost",
		"1.2.3",
		"1.2.3.4.5",
		"1.2.3.256",
		"01.2.3.4",
		"1.2.3.4 ",
		" 1.2.3.4",
		"0x1.2.3.4",
		"1.2.3.4:",
		"1.2.3.4:65536",
		"1.2.3.4:-1",
		"1.2.3.4:+1",
		"1.2.3.4:123456",
		"1.2.3.4:80:80",
		":80",
		"1.2.3.4%eth0",
		"[1.2.3.4]:80",
		"[1.2.3.4]",
		":",
		":::",
		"1::2::3",
		"12345::",
		"1:2:3:4:5:6:7",
		"1:2:3:4:5:6:7:8:9",
		"[::1",
		"::1]",
		"[::1]80",
		"[::1]:",
		"[::1]:65536",
		"[]",
		"[]:80",
		"[[::1]]",
		"fe80::1%",
		"::1/64",
		"1.2.3.4/8",
		"::ffff:1.2.3.4.5",
		"::1.2.3",
		"1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd:eeee:ffff",
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sl_address address = {{7}};
		uint32_t port = 7;
		print_message("'%s'\n", rows[i]);
		assert_false(sl_address_parse(sl_str(rows[i]), &address, &port));
		assert_int_equal(address.bytes[0], 7); /* untouched */
		assert_int_equal(port, 7);
	}
	assert_false(sl_address_parse(sl_slice("1.2.3.4\0", 8), &(struct sl_address){{0}}, NULL));
	assert_false(sl_address_parse(sl_slice("::1\0", 4), &(struct sl_address){{0}}, NULL));
	assert_false(sl_address_parse((struct sluice_bytes){NULL, 0}, &(struct sl_address){{0}}, NULL));
}

static void test_key(void **state) {
	static const struct row {
		const char *written;
		uint32_t prefix;
		const char *key;
	} rows[] = {
		{"1.2.3.4", 64, "1.2.3.4"},
		{"::ffff:1.2.3.4", 64, "1.2.3.4"},
		{"::ffff:1.2.3.4", 1, "1.2.3.4"},
		{"2001:db8:1:2:3:4:5:6", 64, "2001:db8:1:2::/64"},
		{"2001:db8:1:2:ffff::", 64, "2001:db8:1:2::/64"},
		{"2001:db8:1:3::", 64, "2001:db8:1:3::/64"},
		{"2001:db8:1:2:3:4:5:6", 56, "2001:db8:1::/56"},
		{"2001:db8:1:1ff::", 56, "2001:db8:1:100::/56"},
		{"2001:db8:1:2:3:4:5:6", 48, "2001:db8:1::/48"},
		{"2001:db8:1:2:3:4:5:6", 128, "2001:db8:1:2:3:4:5:6"},
		{"2001:db8:1:2:3:4:5:7", 127, "2001:db8:1:2:3:4:5:6/127"},
		{"ffff::", 1, "8000::/1"},
		{"::1", 64, "::/64"},
		{"::1", 128, "::1"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sl_address address;
		char text[SL_ADDRESS_TEXT_MAX];
		print_message("%s /%u\n", rows[i].written, rows[i].prefix);
		assert_true(sl_address_parse(sl_str(rows[i].written), &address, NULL));
		assert_int_equal(sl_address_key(&address, rows[i].prefix, text), strlen(rows[i].key));
		assert_string_equal(text, rows[i].key);
	}
}

static void test_network(void **state) {
	static const struct row {
		const char *written, *canonical, *inside, *outside;
		bool strays;
	} rows[] = {
		{"10.0.0.0/8", "10.0.0.0/8", "10.255.255.255", "11.0.0.0", false},
		{"10.1.2.3/8", "10.0.0.0/8", "::ffff:10.0.0.1", "9.255.255.255", true},
		{"192.0.2.1", "192.0.2.1/32", "192.0.2.1", "192.0.2.2", false},
		{"192.0.2.128/25", "192.0.2.128/25", "192.0.2.129", "192.0.2.127", false},
		{"192.0.2.0/31", "192.0.2.0/31", "192.0.2.1", "192.0.2.2", false},
		{"0.0.0.0/0", "0.0.0.0/0", "255.1.2.3", "::1", false},
		{"::/0", "::/0", "2001:db8::", "1.2.3.4", false},
		{"::1/128", "::1/128", "::1", "::2", false},
		{"::1", "::1/128", "::1", "127.0.0.1", false},
		{"2001:db8::/32", "2001:db8::/32", "2001:db8:ffff::1", "2001:db9::", false},
		{"2001:db8::/33", "2001:db8::/33", "2001:db8:7fff::", "2001:db8:8000::", false},
		{"::ffff:10.0.0.0/104", "10.0.0.0/8", "10.1.1.1", "11.1.1.1", false},
		{"fe80::1/10", "fe80::/10", "febf::", "fec0::", true},
	};
	static const char *const refused[] = {
		"",
		"/",
		"/8",
		"10.0.0.0/",
		"10.0.0.0/33",
		"10.0.0.0/-1",
		"10.0.0.0/8/8",
		"10.0.0.0/ 8",
		"10/8",
		"::/129",
		"::/",
		"[::1]/128",
		"1.2.3.4:80",
		"1.2.3.4:80/8",
		"fe80::1%eth0/64",
		"loopback",
		"10.0.0.0/18446744073709551617",
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sl_network network;
		struct sl_address address;
		char text[SL_ADDRESS_TEXT_MAX];
		bool strays;
		print_message("%s\n", rows[i].written);
		assert_true(sl_network_parse(sl_str(rows[i].written), &network, &strays));
		assert_int_equal(strays, rows[i].strays);
		assert_int_equal(sl_network_print(&network, text), strlen(rows[i].canonical));
		assert_string_equal(text, rows[i].canonical);
		assert_true(sl_address_parse(sl_str(rows[i].inside), &address, NULL));
		assert_true(sl_network_contains(&network, &address));
		assert_true(sl_address_parse(sl_str(rows[i].outside), &address, NULL));
		assert_false(sl_network_contains(&network, &address));
	}
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		print_message("'%s'\n", refused[i]);
		assert_false(sl_network_parse(sl_str(refused[i]), &(struct sl_network){{{0}}, 0, false}, NULL));
	}
}

/* Printing and reading undo each other, and agree with the C library's printer where that is canonical. */
static void test_host_split(void **state) {
	static const struct {
		const char *text, *host, *port; /* host NULL: it is none */
	} cases[] = {
		{"127.0.0.1:7379", "127.0.0.1", "7379"},
		{"[::1]:0", "::1", "0"},
		{"name:65535", "name", "65535"},
		{"::1:7", "::1", "7"},
		{"a:x", "a", "x"},
		{"", NULL, NULL},
		{"name", NULL, NULL},
		{"name:", NULL, NULL},
		{":1", NULL, NULL},
		{"a:123456", NULL, NULL},
		{"[::1", NULL, NULL},
		{"[::1:7", NULL, NULL},
		{"[]:7", NULL, NULL},
		{"[:7", NULL, NULL},
		{"[::1]x:7", NULL, NULL},
	};
	char host[256], port[8], text[264];
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(sl_host_split(cases[i].text, host, port), cases[i].host != NULL);
		if (cases[i].host == NULL)
			continue;
		assert_string_equal(host, cases[i].host);
		assert_string_equal(port, cases[i].port);
	}
	for (size_t len = 255; len <= 256; len++) {
		memset(text, 'h', len);
		memcpy(text + len, ":1", 3);
		assert_int_equal(sl_host_split(text, host, port), len == 255);
	}
}

static void test_round_trip(void **state) {
	unsigned seed = 20240501;
	(void)state;
	print_message("seed %u\n", seed);
	srandom(seed);
	for (int i = 0; i < 200000; i++) {
		struct sl_address address, again;
		char text[SL_ADDRESS_TEXT_MAX], theirs[INET6_ADDRSTRLEN];
		for (size_t j = 0; j < sizeof address.bytes; j++)
			address.bytes[j] = (uint8_t)(random() % 3 == 0 ? random() : 0);
		sl_address_print(&address, text);
		assert_true(sl_address_parse(sl_str(text), &again, NULL));
		assert_memory_equal(&again, &address, sizeof again);
		if (address.bytes[0] != 0) {
			assert_non_null(inet_ntop(AF_INET6, address.bytes, theirs, sizeof theirs));
			assert_string_equal(text, theirs);
		}
		for (uint32_t prefix = 1; prefix < 128; prefix += 21) {
			struct sl_network network;
			bool strays;
			sl_address_key(&address, prefix, text);
			if (sl_address_is_v4(&address))
				continue;
			assert_true(sl_network_parse(sl_str(text), &network, &strays));
			assert_false(strays);
			assert_true(sl_network_contains(&network, &address) || network.v4);
		}
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_canonical_text), cmocka_unit_test(test_refused),    cmocka_unit_test(test_key),
		cmocka_unit_test(test_network),        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_host_split),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
