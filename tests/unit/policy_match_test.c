/* Matching: which limits apply to a request, and for whom.
 *
 * A row is a request and the items that it must find, each as "position notation key". Keys are held to be injective by
 * random requests against a reference that compares the parts themselves. */
#include "algo/rule.h"
#include "policy/attribute.h"
#include "policy/key.h"
#include "policy/policy.h"
#include "tests/unit/policy_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char buffer[SLUICE_MATCH_BYTES_MAX];

static struct sluice_policy *load(const char *yaml) {
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems;
	sluice_err err = sluice_policy_load(&policy, sl_str(yaml), &problems);
	for (size_t i = 0; i < problems.count; i++)
		print_message("  %u:%u: %s\n", problems.list[i].line, problems.list[i].column, problems.list[i].text);
	sluice_problems_free(&problems);
	assert_int_equal(err, SLUICE_OK);
	return policy;
}

static void print_match(const struct sluice_match *match, char *text, size_t bytes) {
	struct sl_out out = sl_out_to(text, bytes - 1);
	for (uint32_t i = 0; i < match->count; i++) {
		char limit[SLUICE_LIMIT_TEXT_MAX];
		sluice_limit_print(match->items[i].limit, limit);
		sl_out_str(&out, i == 0 ? "" : "; ");
		sl_out_u64(&out, match->position[i]);
		sl_out_str(&out, match->items[i].observed ? "? " : " ");
		sl_out_str(&out, limit);
		sl_out_char(&out, ' ');
		sl_out_bytes(&out, match->items[i].key.data, match->items[i].key.len);
	}
	assert_false(out.overflow);
	*out.at = '\0';
}

static const char rules[] =
	"limits:\n"
	"- {name: login, key: ip, limit: sliding-log 5/1m, when: {method: POST, path: /login}, on-error: deny}\n"
	"- name: who\n"
	"  key: user | ip\n"
	"  limit: 600/1m\n"
	"  overrides:\n"
	"  - {when: {plan: pro, user: [alice, bob]}, limit: unlimited}\n"
	"  - {when: {plan: 'pro*'}, limit: 6000/1m}\n"
	"  - {when: {plan: pro-plus}, limit: 9/1m}\n"
	"- {name: search, key: [user | ip, path], limit: 10/1s, when: {path: /search*}, observe: true, on-error: deny}\n"
	"- {name: off, key: ip, limit: unlimited, overrides: [{when: {plan: free}, limit: 3/1h}]}\n"
	"- {name: all, key: [], limit: 7/1s, when: {host: [a, 'b*', '', c.example]}}\n"
	"- {name: any, key: path, limit: 8/1s, when: {tag: '*'}}\n";

static void test_table(void **state) {
	static const struct {
		const char *request, *found;
	} rows[] = {
		{"", ""},
		{"nobody=asks", ""},
		{"ip=1", "1 sliding-window 600/1m ip=1"},
		{"method=POST path=/login ip=1", "0 sliding-log 5/1m ip=1; 1 sliding-window 600/1m ip=1"},
		{"method=post path=/login ip=1", "0 sliding-log 5/1m ip=1; 1 sliding-window 600/1m ip=1"},
		{"method=POST path=//x/../%6cogin?y ip=1", "0 sliding-log 5/1m ip=1; 1 sliding-window 600/1m ip=1"},
		{"method=POST path=/login/ ip=1", "1 sliding-window 600/1m ip=1"},
		{"method=POST path=/logi ip=1", "1 sliding-window 600/1m ip=1"},
		{"path=/login ip=1", "1 sliding-window 600/1m ip=1"},
		{"method=POST path=/login user=a", "1 sliding-window 600/1m user=a"}, /* no ip: nobody to count */
		{"user=a ip=1", "1 sliding-window 600/1m user=a"},
		{"user= ip=1", "1 sliding-window 600/1m user="}, /* an empty value is a value */
		{"ip=::ffff:10.0.0.1", "1 sliding-window 600/1m ip=10.0.0.1"},
		{"ip=10.0.0.1:5678", "1 sliding-window 600/1m ip=10.0.0.1"},
		{"ip=[2001:DB8::5]:443", "1 sliding-window 600/1m ip=2001:db8::/64"},
		{"user=alice plan=pro", ""},
		{"user=alice plan=prof", "1 sliding-window 6000/1m user=alice"},
		{"user=carol plan=pro", "1 sliding-window 6000/1m user=carol"},
		{"user=carol plan=pro-plus", "1 sliding-window 6000/1m user=carol"}, /* the first that fits */
		{"user=alice plan=free", "1 sliding-window 600/1m user=alice"},
		{"ip=1 plan=free", "1 sliding-window 600/1m ip=1; 3 sliding-window 3/1h ip=1"},
		{"user=a path=/search", "1 sliding-window 600/1m user=a; 2? sliding-window 10/1s user=a,path=/search"},
		{"path=/searching ip=1", "1 sliding-window 600/1m ip=1; 2? sliding-window 10/1s ip=1,path=/searching"},
		{"path=/search", ""},
		{"host=a", "4 sliding-window 7/1s "},
		{"host=", "4 sliding-window 7/1s "},
		{"host=b", "4 sliding-window 7/1s "},
		{"host=bc", "4 sliding-window 7/1s "},
		{"host=c.example", "4 sliding-window 7/1s "},
		{"host=c.exampl", ""},
		{"host=c.examplf", ""},
		{"host=ab", ""},
		{"host=C.Example.:8080", "4 sliding-window 7/1s "},
		{"tag= path=/", "5 sliding-window 8/1s path=/"},
		{"tag=x path=/", "5 sliding-window 8/1s path=/"},
		{"path=/", ""},
		{"user=a,b=c%2C ip=1", "1 sliding-window 600/1m user=a%2Cb%3Dc%252C"},
		{"user=\xff\x01\xc3\xa9 ip=1", "1 sliding-window 600/1m user=\xff\x01\xc3\xa9"},
	};
	struct sluice_policy *policy = load(rules);
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_attribute attributes[8];
		struct sluice_match match;
		char text[512];
		size_t count = sl_policy_split(rows[i].request, attributes);
		print_message("%s\n", rows[i].request);
		assert_int_equal(sluice_policy_match(policy, attributes, count, &match, buffer, sizeof buffer), SLUICE_OK);
		print_match(&match, text, sizeof text);
		assert_string_equal(text, rows[i].found);
	}
	sluice_policy_free(policy);
}

static void test_on_error(void **state) {
	static const struct {
		const char *request;
		bool deny;
	} rows[] = {
		{"", false},
		{"ip=1", false},
		{"method=POST path=/login ip=1", true},
		{"path=/search ip=1", false}, /* says deny, but is only observed */
	};
	struct sluice_policy *policy = load(rules);
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_attribute attributes[8];
		struct sluice_match match;
		size_t count = sl_policy_split(rows[i].request, attributes);
		assert_int_equal(sluice_policy_match(policy, attributes, count, &match, buffer, sizeof buffer), SLUICE_OK);
		assert_int_equal(sl_policy_denier(policy, &match) >= 0, rows[i].deny);
	}
	sluice_policy_free(policy);
}

/* Names of attributes are encoded as values are, and may hold anything but spaces and bars. */
static void test_odd_names(void **state) {
	struct sluice_policy *policy = load("limits: [{name: a, key: ['a,b', 'c=d', 'e%', 'caf\xc3\xa9'], limit: 1/1s}]");
	struct sluice_attribute attributes[] = {
		{sl_str("caf\xc3\xa9"), sl_str("=")},
		{sl_str("e%"), sl_str("%")},
		{sl_str("a,b"), sl_str("")},
		{sl_str("c=d"), sl_str(",")},
	};
	struct sluice_match match;
	(void)state;
	assert_int_equal(sluice_policy_match(policy, attributes, 4, &match, buffer, sizeof buffer), SLUICE_OK);
	assert_int_equal(match.count, 1);
	assert_true(sl_bytes_equal(match.items[0].key, sl_str("a%2Cb=,c%3Dd=%2C,e%25=%25,caf\xc3\xa9=%3D")));
	sluice_policy_free(policy);
}

/* ---- bounds ----------------------------------------------------------------------------------------------------- */

static void test_bounds(void **state) {
	static char long_text[SLUICE_KEY_BYTES_MAX + 1];
	struct sluice_policy *policy = load("limits: [{name: a, key: ip, limit: 1/1s}]");
	struct sluice_match match;
	(void)state;
	memset(long_text, 'x', sizeof long_text);
	struct sluice_attribute good = {sl_str("ip"), sl_slice(long_text, SLUICE_KEY_BYTES_MAX)};
	struct sluice_attribute long_value = {sl_str("ip"), sl_slice(long_text, SLUICE_KEY_BYTES_MAX + 1)};
	struct sluice_attribute long_name = {sl_slice(long_text, SLUICE_NAME_BYTES_MAX + 1), sl_str("")};
	struct sluice_attribute no_name = {sl_str(""), sl_str("a")};
	assert_int_equal(sluice_policy_match(policy, &good, 1, &match, buffer, sizeof buffer), SLUICE_OK);
	assert_int_equal(match.items[0].key.len, SLUICE_KEY_BYTES_MAX); /* folded, for which all of it is written first */
	assert_int_equal(sluice_policy_match(policy, &good, 1, &match, buffer, 3 + SLUICE_KEY_BYTES_MAX), SLUICE_OK);
	assert_int_equal(sluice_policy_match(policy, &good, 1, &match, buffer, 2 + SLUICE_KEY_BYTES_MAX), SLUICE_E_RANGE);
	assert_int_equal(match.count, 0);
	assert_int_equal(sluice_policy_match(policy, &good, 1, &match, buffer, 2), SLUICE_E_RANGE);
	assert_int_equal(sluice_policy_match(policy, &good, 1, &match, NULL, 0), SLUICE_E_RANGE);
	assert_int_equal(sluice_policy_match(policy, &long_value, 1, &match, buffer, sizeof buffer), SLUICE_OK);
	assert_int_equal(match.items[0].key.len, SLUICE_KEY_BYTES_MAX);
	assert_memory_equal((const char *)match.items[0].key.data + 958, "x~", 2);
	assert_int_equal(sluice_policy_match(policy, &long_name, 1, &match, buffer, sizeof buffer), SLUICE_E_RANGE);
	assert_int_equal(sluice_policy_match(policy, &no_name, 1, &match, buffer, sizeof buffer), SLUICE_E_RANGE);
	assert_int_equal(sluice_policy_match(policy, NULL, 0, &match, NULL, 0), SLUICE_OK);
	assert_int_equal(sluice_policy_match(NULL, NULL, 0, &match, buffer, 1), SLUICE_E_MISUSE);
	assert_int_equal(sluice_policy_match(policy, NULL, 1, &match, buffer, 1), SLUICE_E_MISUSE);
	assert_int_equal(sluice_policy_match(policy, NULL, 0, NULL, buffer, 1), SLUICE_E_MISUSE);
	assert_int_equal(sluice_policy_match(policy, NULL, 0, &match, NULL, 1), SLUICE_E_MISUSE);
	sluice_policy_free(policy);
}

/* Given twice an attribute is refused, also one that no limit asks for; many that look alike are told apart. */
static void test_repeated(void **state) {
	struct sluice_policy *policy = load("limits: [{name: a, key: ip, limit: 1/1s}]");
	struct sluice_attribute many[300];
	struct sluice_match match;
	char names[300][8];
	static const struct {
		const char *request;
		sluice_err err;
	} rows[] = {
		{"ip=1", SLUICE_OK},
		{"ip=1 ip=1", SLUICE_E_MISUSE},
		{"ip=1 x=1 ip=2", SLUICE_E_MISUSE},
		{"ip=1 x=1 x=1", SLUICE_E_MISUSE},
		{"x=1 y=1 x=2 ip=1", SLUICE_E_MISUSE},
		{"x=1 X=1 ip=1", SLUICE_OK},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t count = sl_policy_split(rows[i].request, many);
		assert_int_equal(sluice_policy_match(policy, many, count, &match, buffer, sizeof buffer), rows[i].err);
		assert_int_equal(match.count, rows[i].err == SLUICE_OK);
	}
	for (size_t i = 0; i < 300; i++) {
		snprintf(names[i], sizeof names[i], "a%zub", i);
		many[i] = (struct sluice_attribute){sl_str(names[i]), sl_str("")};
	}
	assert_int_equal(sl_attribute_repeated(many, 300), 300);
	for (size_t i = 1; i < 300; i += 7) {
		struct sluice_attribute own = many[i];
		many[i] = many[i / 2];
		assert_int_equal(sl_attribute_repeated(many, 300), i);
		many[i] = own;
	}
	sluice_policy_free(policy);
}

/* A part that is written and taken back, because a later one is absent, needs no room in the end. */
static void test_room_taken_back(void **state) {
	struct sluice_policy *policy =
		load("limits: [{name: a, key: [user | ip, path], limit: 1/1s}, {name: b, key: ip, limit: 2/1s}]");
	struct sluice_attribute attributes[] = {{sl_str("user"), sl_str("a-long-name")}, {sl_str("ip"), sl_str("1")}};
	struct sluice_match match;
	(void)state;
	assert_int_equal(sluice_policy_match(policy, attributes, 2, &match, buffer, 4), SLUICE_OK);
	assert_int_equal(match.count, 1);
	assert_int_equal(match.position[0], 1);
	assert_true(sl_bytes_equal(match.items[0].key, sl_str("ip=1")));
	sluice_policy_free(policy);
}

/* Sixteen limits apply; the seventeenth takes the last place, and denies, unless it does not apply after all. Those
 * without a place are beyond: the one whose place it took, and all after it. */
static void test_sixteen(void **state) {
	char yaml[4096];
	struct sluice_attribute attributes[] = {{sl_str("ip"), sl_str("1")}, {sl_str("user"), sl_str("u")}};
	(void)state;
	for (unsigned count = 15; count <= 18; count++) {
		struct sluice_match match;
		size_t len = (size_t)snprintf(yaml, sizeof yaml, "limits:\n");
		for (unsigned i = 0; i < count; i++)
			len += (size_t)snprintf(yaml + len, sizeof yaml - len, "- {name: n%u, key: %s, limit: 1/1s}\n", i,
			                        i == 16 ? "user" : "ip");
		struct sluice_policy *policy = load(yaml);
		sluice_err err = sluice_policy_match(policy, attributes, 2, &match, buffer, sizeof buffer);
		assert_int_equal(err, SLUICE_OK);
		assert_int_equal(match.count, count < 16 ? count : 16);
		assert_int_equal(match.items[match.count - 1].bound, count > 16 ? SLUICE_BOUND_LIMITS : SLUICE_BOUND_NONE);
		assert_int_equal(match.position[match.count - 1], count > 16 ? 16 : count - 1);
		assert_int_equal(match.beyond, count > 16 ? count - 16 : 0);
		for (unsigned i = 0; i < match.beyond; i++) {
			assert_int_equal(match.position[SLUICE_ITEMS_MAX + i], i == 0 ? 15 : 16 + i);
			assert_int_equal(match.items[SLUICE_ITEMS_MAX + i].bound, SLUICE_BOUND_LIMITS);
			assert_true(sl_bytes_equal(match.items[SLUICE_ITEMS_MAX + i].key, sl_str("ip=1")));
		}
		err = sluice_policy_match(policy, attributes, 1, &match, buffer, sizeof buffer);
		assert_int_equal(err, SLUICE_OK); /* without a user the 17th falls away */
		assert_int_equal(match.items[match.count - 1].bound, count > 17 ? SLUICE_BOUND_LIMITS : SLUICE_BOUND_NONE);
		sluice_policy_free(policy);
	}
}

static void test_sixteen_and_observed_ones(void **state) {
	static char yaml[32768];
	struct sluice_attribute attribute = {sl_str("ip"), sl_str("1")};
	(void)state;
	for (int last = 0; last < 2; last++) { /* 16 that are enforced, 150 observed, and one more or none */
		struct sluice_match match;
		size_t len = (size_t)snprintf(yaml, sizeof yaml, "limits:\n");
		for (unsigned i = 0; i < 166; i++)
			len +=
				(size_t)snprintf(yaml + len, sizeof yaml - len, "- {name: n%u, key: ip, limit: 1/1s, observe: %s}\n", i,
			                     i < 16 ? "false" : "true");
		if (last)
			snprintf(yaml + len, sizeof yaml - len, "- {name: last, key: ip, limit: 1/1s}\n");
		struct sluice_policy *policy = load(yaml);
		assert_int_equal(sluice_policy_match(policy, &attribute, 1, &match, buffer, 256), SLUICE_OK);
		assert_int_equal(match.count, 16);
		assert_int_equal(match.beyond, SLUICE_BEYOND_MAX);
		for (unsigned i = 0; i < SLUICE_BEYOND_MAX; i++) { /* the last of them lost its place among 16 */
			bool enforced = last && i == SLUICE_BEYOND_MAX - 1;
			assert_int_equal(match.position[SLUICE_ITEMS_MAX + i], enforced ? 15 : 16 + i);
			assert_int_equal(match.items[SLUICE_ITEMS_MAX + i].observed, !enforced);
		}
		assert_int_equal(match.items[15].bound, last ? SLUICE_BOUND_LIMITS : SLUICE_BOUND_NONE);
		assert_int_equal(match.position[15], last ? 166 : 15);
		sluice_policy_free(policy);
	}
}

/* The longest keys there are, sixteen times, fit the buffer that is promised to suffice. */
static void test_longest_keys(void **state) {
	static char yaml[16 * 1024], name[8][SLUICE_NAME_BYTES_MAX + 1], value[SLUICE_KEY_BYTES_MAX];
	struct sluice_attribute attributes[8];
	struct sluice_match match;
	size_t len = (size_t)snprintf(yaml, sizeof yaml, "limits:\n");
	(void)state;
	memset(value, '%', sizeof value);
	for (size_t i = 0; i < 8; i++) {
		memset(name[i], '=', SLUICE_NAME_BYTES_MAX);
		name[i][0] = (char)('a' + i);
		attributes[i] = (struct sluice_attribute){sl_str(name[i]), sl_slice(value, sizeof value)};
	}
	for (unsigned i = 0; i < 17; i++) {
		len += (size_t)snprintf(yaml + len, sizeof yaml - len, "- {name: n%u, limit: 1/1s, key: [", i);
		for (size_t j = 0; j < 8; j++)
			len += (size_t)snprintf(yaml + len, sizeof yaml - len, "'%s',", i == 16 && j == 7 ? "absent" : name[j]);
		len += (size_t)snprintf(yaml + len, sizeof yaml - len, "]}\n");
	}
	struct sluice_policy *policy = load(yaml);
	assert_int_equal(sluice_policy_match(policy, attributes, 8, &match, buffer, sizeof buffer), SLUICE_OK);
	assert_int_equal(match.count, 16);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(match.items[i].key.len, SLUICE_KEY_BYTES_MAX); /* of 26 KB */
	sluice_policy_free(policy);
}

/* What is longer than a key may be is folded: a byte more anywhere is another key, and what fits stays as it is. */
static void test_long_keys(void **state) {
	static const char yaml[] = "limits: [{name: n, limit: 1/1s, key: [user, what]}]\n";
	static char user[SLUICE_KEY_BYTES_MAX], path[SLUICE_KEY_BYTES_MAX], whole[5 * SLUICE_KEY_BYTES_MAX];
	const size_t names = strlen("user=,what=");
	struct sluice_policy *policy = load(yaml);
	struct sluice_match match;
	(void)state;
	memset(user, 'u', sizeof user);
	memset(path, ',', sizeof path);
	for (size_t commas = 0; commas <= sizeof path; commas += commas < 8 ? 1 : 127)
		for (size_t len = 990; len <= sizeof user; len++) {
			const struct sluice_attribute attributes[] = {{sl_str("user"), sl_slice(user, len)},
			                                              {sl_str("what"), sl_slice(path, commas)}};
			char folded[SLUICE_KEY_BYTES_MAX];
			struct sl_out out = sl_out_to(whole, sizeof whole);
			struct sluice_bytes expected;
			sl_out_str(&out, "user=");
			sl_out_bytes(&out, user, len);
			sl_out_str(&out, ",what=");
			for (size_t i = 0; i < commas; i++)
				sl_out_str(&out, "%2C");
			assert_int_equal(sluice_policy_match(policy, attributes, 2, &match, buffer, sizeof buffer), SLUICE_OK);
			expected = sl_key_fold(folded, sl_slice(whole, sl_out_len(&out)));
			assert_int_equal(expected.data == folded, names + len + 3 * commas > SLUICE_KEY_BYTES_MAX);
			assert_int_equal(match.items[0].key.len, expected.len);
			assert_memory_equal(match.items[0].key.data, expected.data, expected.len);
		}
	sluice_policy_free(policy);
}

/* ---- whose counter ---------------------------------------------------------------------------------------------- */

static uint64_t identity(const struct sluice_policy *policy, uint32_t position) {
	return sl_policy_limit_at(policy, position)->limit.derived[SL_IDENT_NAME];
}

/* A counter belongs to the limit's name, not to its numbers; an override's is the limit's own. */
static void test_identity(void **state) {
	struct sluice_policy *policy = load("limits:\n"
	                                    "- name: a\n"
	                                    "  key: ip\n"
	                                    "  limit: 5/1m\n"
	                                    "  overrides: [{when: {plan: pro}, limit: 9/1m}]\n"
	                                    "- {name: b, key: ip, limit: 5/1m}\n");
	struct sluice_policy *changed = load("limits:\n"
	                                     "- {name: b, key: ip, limit: 7/1m}\n"
	                                     "- {name: a, key: ip, limit: 8/1m}\n");
	struct sluice_attribute attributes[] = {{sl_str("ip"), sl_str("1")}, {sl_str("plan"), sl_str("pro")}};
	struct sluice_match match;
	(void)state;
	assert_true(identity(policy, 0) != identity(policy, 1));
	assert_true(identity(policy, 0) == identity(changed, 1));
	assert_true(identity(policy, 1) == identity(changed, 0));
	assert_int_equal(sluice_policy_match(policy, attributes, 2, &match, buffer, sizeof buffer), SLUICE_OK);
	assert_int_equal(match.items[0].limit->quota, 9);
	assert_true(match.items[0].limit->derived[SL_IDENT_NAME] == identity(policy, 0));
	assert_true(match.items[0].limit->derived[SL_IDENT_KIND] ==
	            sl_policy_limit_at(policy, 0)->limit.derived[SL_IDENT_KIND]);
	sluice_policy_free(policy);
	sluice_policy_free(changed);
}

/* ---- encoding: against a byte at a time, at every length and alignment ------------------------------------------- */

static size_t encode_slowly(const char *text, size_t len, char *out) {
	size_t at = 0;
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '%' || text[i] == ',' || text[i] == '=')
			at += (size_t)snprintf(out + at, 4, "%%%02X", text[i]);
		else
			out[at++] = text[i];
	}
	return at;
}

static void test_encode(void **state) {
	unsigned seed = 20240505;
	char text[64], expected[192], found[192];
	(void)state;
	print_message("seed %u\n", seed);
	srandom(seed);
	for (int i = 0; i < 200000; i++) {
		size_t start = (size_t)random() % 8, len = (size_t)random() % 48;
		for (size_t j = 0; j < sizeof text; j++)
			text[j] = random() % 16 == 0 ? "%,=$&<>-+.\xa5\xac\xbd\x24"[random() % 14] : (char)random();
		size_t expected_len = encode_slowly(text + start, len, expected);
		for (size_t room = expected_len; room + 2 > expected_len && room <= sizeof found; room--) {
			struct sl_out out = sl_out_to(found, room);
			sl_key_encode(&out, sl_slice(text + start, len));
			assert_int_equal(out.overflow, room < expected_len);
			assert_int_equal(sl_out_len(&out), out.overflow ? 0 : expected_len);
			assert_memory_equal(found, expected, sl_out_len(&out));
			if (room == 0)
				break;
		}
		struct sl_out out = sl_out_to(found, sizeof found);
		sl_key_encode(&out, sl_slice(text + start, len));
		assert_int_equal(sl_out_len(&out), expected_len);
		assert_memory_equal(found, expected, expected_len);
	}
}

/* ---- injectivity ------------------------------------------------------------------------------------------------ */

enum { NAMES = 4, VALUES_MAX = 4, REQUESTS = 400 };

struct request {
	char values[NAMES][VALUES_MAX];
	size_t lens[NAMES];
	bool present[NAMES];
	char key[512];
	size_t key_len;
	bool applies;
};

static const char *const names[NAMES] = {"u", "u,", "u=", "%"};

static void random_request(const struct sluice_policy *policy, struct request *request) {
	static const char letters[] = "a%,=25C3D2\0u";
	struct sluice_attribute attributes[NAMES];
	struct sluice_match match;
	size_t count = 0;
	for (size_t i = 0; i < NAMES; i++) {
		request->present[i] = random() % 3 != 0;
		request->lens[i] = (size_t)(random() % VALUES_MAX);
		for (size_t j = 0; j < request->lens[i]; j++)
			request->values[i][j] = letters[random() % (long)sizeof letters];
		if (request->present[i])
			attributes[count++] =
				(struct sluice_attribute){sl_str(names[i]), sl_slice(request->values[i], request->lens[i])};
	}
	sluice_err err = sluice_policy_match(policy, attributes, count, &match, request->key, sizeof request->key);
	assert_int_equal(err, SLUICE_OK);
	request->applies = match.count == 1;
	request->key_len = request->applies ? match.items[0].key.len : 0;
}

/* The attribute that a part of the key [u | u,, u= | %] finds, or NAMES. */
static size_t found(const struct request *request, size_t first) {
	return request->present[first] ? first : request->present[first + 1] ? first + 1 : NAMES;
}

static bool same_part(const struct request *a, const struct request *b, size_t first) {
	size_t i = found(a, first);
	return i == found(b, first) && a->lens[i] == b->lens[i] && memcmp(a->values[i], b->values[i], a->lens[i]) == 0;
}

static void test_injective(void **state) {
	static struct request requests[REQUESTS];
	unsigned seed = 20240503, equal = 0;
	struct sluice_policy *policy = load("limits: [{name: a, key: [\"u | u,\", \"u= | %\"], limit: 1/1s}]");
	(void)state;
	print_message("seed %u\n", seed);
	srandom(seed);
	for (int round = 0; round < 30; round++) {
		for (size_t i = 0; i < REQUESTS; i++) {
			random_request(policy, &requests[i]);
			assert_int_equal(requests[i].applies, found(&requests[i], 0) < NAMES && found(&requests[i], 2) < NAMES);
		}
		for (size_t i = 0; i < REQUESTS; i++)
			for (size_t j = 0; j < i; j++) {
				const struct request *a = &requests[i], *b = &requests[j];
				if (!a->applies || !b->applies)
					continue;
				bool same_key = a->key_len == b->key_len && memcmp(a->key, b->key, a->key_len) == 0;
				assert_int_equal(same_key, same_part(a, b, 0) && same_part(a, b, 2));
				equal += same_key;
			}
	}
	print_message("%u pairs with equal keys\n", equal);
	assert_true(equal > 1000); /* the property was tried from both companions */
	sluice_policy_free(policy);
}

/* ---- many values and many names --------------------------------------------------------------------------------- */

/* Every value of a long list is found, and none between them. */
static void test_long_list(void **state) {
	static char yaml[256 * 1024];
	size_t len = (size_t)snprintf(yaml, sizeof yaml, "limits: [{name: a, key: ip, limit: 1/1s, when: {user: [");
	(void)state;
	for (unsigned i = 0; i < 10000; i++)
		len += (size_t)snprintf(yaml + len, sizeof yaml - len, "'%u', ", (i * 7919 % 10000) * 2);
	snprintf(yaml + len, sizeof yaml - len, "]}}]");
	struct sluice_policy *policy = load(yaml);
	for (unsigned i = 0; i < 20001; i++) {
		char user[16];
		struct sluice_match match;
		snprintf(user, sizeof user, "%u", i);
		struct sluice_attribute attributes[] = {{sl_str("ip"), sl_str("1")}, {sl_str("user"), sl_str(user)}};
		assert_int_equal(sluice_policy_match(policy, attributes, 2, &match, buffer, sizeof buffer), SLUICE_OK);
		assert_int_equal(match.count, i % 2 == 0 && i < 20000);
	}
	sluice_policy_free(policy);
}

/* As many names as a file may use: each is told from the others. */
static void test_many_names(void **state) {
	static char yaml[64 * 1024];
	size_t len = (size_t)snprintf(yaml, sizeof yaml, "limits:\n");
	(void)state;
	for (unsigned i = 0; i < 256; i++)
		len += (size_t)snprintf(yaml + len, sizeof yaml - len, "- {name: n%u, key: name-%u, limit: 1/1s}\n", i, i);
	struct sluice_policy *policy = load(yaml);
	for (unsigned i = 0; i < 300; i++) {
		char name[16];
		struct sluice_match match;
		snprintf(name, sizeof name, "name-%u", i);
		struct sluice_attribute attribute = {sl_str(name), sl_str("v")};
		assert_int_equal(sluice_policy_match(policy, &attribute, 1, &match, buffer, sizeof buffer), SLUICE_OK);
		assert_int_equal(match.count, i < 256);
		if (i < 256)
			assert_int_equal(match.position[0], i);
	}
	sluice_policy_free(policy);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),        cmocka_unit_test(test_on_error),        cmocka_unit_test(test_odd_names),
		cmocka_unit_test(test_repeated),
		cmocka_unit_test(test_bounds),       cmocka_unit_test(test_room_taken_back), cmocka_unit_test(test_sixteen),
		cmocka_unit_test(test_sixteen_and_observed_ones),
		cmocka_unit_test(test_longest_keys), cmocka_unit_test(test_identity),        cmocka_unit_test(test_encode),
		cmocka_unit_test(test_long_keys),
		cmocka_unit_test(test_injective),    cmocka_unit_test(test_long_list),       cmocka_unit_test(test_many_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
