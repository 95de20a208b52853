/* Envoy's messages as JSON: what proto3's mapping takes, and nothing else; and what is printed is read by jansson as
 * what was meant, in the room that was promised. */
#include "proto/rls_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct sl_rls_request request;

/* A request as text: domain(hits) key=value,..[limit][hits]-; .. or what is wrong with it. */
static const char *shown(const char *json) {
	static char text[1024];
	char error[SL_JSON_ERROR_BYTES];
	struct sl_out out = sl_out_to(text, sizeof text - 1);
	json_t *root = sl_json_read(sl_str(json), error);
	enum sl_rls_read came = root == NULL ? SL_RLS_MALFORMED : sl_rls_json_read(&request, root, error);
	if (came == SL_RLS_MALFORMED) {
		sl_out_str(&out, error);
	} else {
		sl_out_bytes(&out, request.domain.data, request.domain.len);
		sl_out_char(&out, '(');
		sl_out_u64(&out, request.hits);
		sl_out_char(&out, ')');
	}
	for (uint32_t i = 0; came == SL_RLS_READ && i < request.descriptor_count; i++) {
		const struct sl_rls_descriptor *d = &request.descriptors[i];
		sl_out_str(&out, i > 0 ? ";" : " ");
		for (uint32_t e = d->first_entry; e < d->first_entry + d->entry_count; e++) {
			sl_out_str(&out, e > d->first_entry ? "," : "");
			sl_out_bytes(&out, request.entries[e].key.data, request.entries[e].key.len);
			sl_out_char(&out, '=');
			sl_out_bytes(&out, request.entries[e].value.data, request.entries[e].value.len);
		}
		char more[64] = "";
		if (d->has_limit)
			snprintf(more, sizeof more, "[%u/%u*%u]", d->limit_requests, d->limit_unit, d->limit_multiplier);
		sl_out_str(&out, more);
		snprintf(more, sizeof more, "{%llu}", (unsigned long long)d->hits);
		sl_out_str(&out, d->has_hits ? more : "");
		sl_out_str(&out, d->negative ? "-" : "");
	}
	*out.at = '\0';
	sl_json_free(root);
	return text;
}

static void test_requests(void **state) {
	static const struct {
		const char *json, *want;
	} rows[] = {
		{"{}", "(0)"},
		{"{\"domain\":null,\"descriptors\":null,\"hitsAddend\":null}", "(0)"},
		{"{\"domain\":\"d\",\"hitsAddend\":7,\"descriptors\":[{}]}", "d(7) "},
		{"{\"hits_addend\":\"4294967295\"}", "(4294967295)"},
		{"{\"descriptors\":[{\"entries\":[{\"key\":\"a\",\"value\":\"b\"},{\"key\":\"c\"}]},{\"entries\":[]}]}",
	     "(0) a=b,c=;"},
		{"{\"descriptors\":[{\"hitsAddend\":0},{\"hits_addend\":\"5\",\"isNegativeHits\":true}]}", "(0) {0};{5}-"},
		{"{\"descriptors\":[{\"limit\":{}},{\"limit\":{\"requestsPerUnit\":3,\"unit\":\"WEEK\"}}]}",
	     "(0) [0/0*0];[3/7*0]"},
		{"{\"descriptors\":[{\"limit\":{\"requests_per_unit\":3,\"unit\":1,\"unit_multiplier\":10}}]}", "(0) [3/1*10]"},
		{"{\"descriptors\":[{\"limit\":null,\"hitsAddend\":null,\"isNegativeHits\":false,\"entries\":null}]}", "(0) "},
		{"{\"of-forty-bytes-that-an-error-shows-in-full-\":1}",
	     "unknown member 'of-forty-bytes-that-an-error-shows-in-fu...': expected domain, descriptors, hitsAddend"},
		{"{\"hits\":1}", "unknown member 'hits': expected domain, descriptors, hitsAddend"},
		{"{\"hitsAddend\":1,\"hits_addend\":1}", "'hits_addend' is given twice"},
		{"{\"domain\":5}", "'domain' must be a string"},
		{"{\"hitsAddend\":-1}", "'hitsAddend' must be a whole number 0..4294967295"},
		{"{\"hitsAddend\":4294967296}", "'hitsAddend' must be a whole number 0..4294967295"},
		{"{\"hitsAddend\":1.0}", "(1)"},
		{"{\"hitsAddend\":42e2}", "(4200)"},
		{"{\"hitsAddend\":\"1e0\"}", "(1)"},
		{"{\"hitsAddend\":4294967295.0}", "(4294967295)"},
		{"{\"descriptors\":[{\"hitsAddend\":1e19},{\"hitsAddend\":\"3.0\"}]}", "(0) {10000000000000000000};{3}"},
		{"{\"descriptors\":[{\"hitsAddend\":18446744073709551616.0}]}",
	     "'hitsAddend' must be a whole number 0..18446744073709551615"},
		{"{\"hitsAddend\":4294967296.0}", "'hitsAddend' must be a whole number 0..4294967295"},
		{"{\"hitsAddend\":-1.0}", "'hitsAddend' must be a whole number 0..4294967295"},
		{"{\"hitsAddend\":\" 1.0\"}", "'hitsAddend' must be a whole number 0..4294967295"},
		{"{\"hitsAddend\":\"1.0 \"}", "'hitsAddend' must be a whole number 0..4294967295"},
		{"{\"hitsAddend\":\"1.0,1\"}", "'hitsAddend' must be a whole number 0..4294967295"},
		{"{\"hitsAddend\":\"1.5\"}", "'hitsAddend' must be a whole number 0..4294967295"},
		{"{\"hitsAddend\":\"[1]\"}", "'hitsAddend' must be a whole number 0..4294967295"},
		{"{\"hitsAddend\":1.5}", "'hitsAddend' must be a whole number 0..4294967295"},
		{"{\"hitsAddend\":\"x\"}", "'hitsAddend' must be a whole number 0..4294967295"},
		{"{\"descriptors\":{}}", "'descriptors' must be a list"},
		{"{\"descriptors\":[null]}", "'descriptors' must be an object"},
		{"{\"descriptors\":[{\"entries\":{}}]}", "'entries' must be a list"},
		{"{\"descriptors\":[{\"entries\":[1]}]}", "'entries' must be an object"},
		{"{\"descriptors\":[{\"entries\":[{\"value\":true}]}]}", "'value' must be a string"},
		{"{\"descriptors\":[{\"limit\":[]}]}", "'limit' must be an object"},
		{"{\"descriptors\":[{\"limit\":{\"unit\":\"day\"}}]}",
	     "'unit' must be one of SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, YEAR"},
		{"{\"descriptors\":[{\"limit\":{\"unit\":-1}}]}",
	     "'unit' must be one of SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, YEAR"},
		{"{\"descriptors\":[{\"isNegativeHits\":1}]}", "'isNegativeHits' must be true or false"},
		{"{\"descriptors\":[{\"hitsAddend\":{}}]}", "'hitsAddend' must be a whole number 0..18446744073709551615"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_string_equal(shown(rows[i].json), rows[i].want);
}

/* A request of so many descriptors, the first of which has so many entries more. */
static enum sl_rls_read read_many(int descriptors, int entries) {
	char error[SL_RLS_JSON_ERROR_BYTES];
	json_t *root = json_object(), *list = json_array(), *within = json_array();
	for (int i = 0; i < entries; i++)
		json_array_append_new(within, json_object());
	for (int i = 0; i < descriptors; i++)
		json_array_append_new(list, i > 0 ? json_object() : json_pack("{s:o}", "entries", within));
	json_object_set_new(root, "descriptors", list);
	enum sl_rls_read came = sl_rls_json_read(&request, root, error);
	json_decref(root);
	return came;
}

static void test_bounds(void **state) {
	(void)state;
	assert_int_equal(read_many(SL_RLS_DESCRIPTORS_MAX, SL_RLS_ENTRIES_MAX), SL_RLS_READ);
	assert_int_equal(request.entry_count, SL_RLS_ENTRIES_MAX);
	assert_int_equal(read_many(SL_RLS_DESCRIPTORS_MAX + 1, 0), SL_RLS_TOO_MANY);
	assert_int_equal(request.descriptors_sent, SL_RLS_DESCRIPTORS_MAX + 1);
	assert_int_equal(read_many(1, SL_RLS_ENTRIES_MAX + 1), SL_RLS_TOO_MANY);
}

/* Prints into memory of just the room that is promised. */
static void expect(const struct sl_rls_response *response, const char *want) {
	size_t room = sl_rls_json_room(response);
	char *memory = malloc(room);
	struct sl_out out = sl_out_to(memory, room);
	json_error_t error;
	sl_rls_json_put(&out, response);
	assert_false(out.overflow);
	json_t *got = json_loadb(memory, sl_out_len(&out), JSON_REJECT_DUPLICATES, &error);
	json_t *wanted = json_loads(want, JSON_REJECT_DUPLICATES, &error);
	assert_non_null(wanted);
	if (got == NULL || !json_equal(got, wanted))
		fail_msg("%.*s", (int)sl_out_len(&out), memory);
	json_decref(got);
	json_decref(wanted);
	free(memory);
}

static void test_responses(void **state) {
	static const struct sl_rls_header header = {{"Retry-After", 11}, {"1", 1}}, ticket = {{"t", 1}, {"\"x\"", 3}};
	static const struct sl_rls_status statuses[] = {
		{.code = SL_RLS_OK},
		{.code = SL_RLS_OK, .unlimited = true},
		{.code = SL_RLS_OVER_LIMIT, .has_limit = true, .requests = 3, .unit = SL_RLS_WEEK, .reset_s = 57},
		{.code = SL_RLS_OK, .has_limit = true, .name = {"a", 1}, .remaining = 2, .no_reset = true},
	};
	static const struct sl_rls_field fields[] = {{.name = {"limit", 5}, .text = {"a", 1}},
	                                             {.name = {"delay_ms", 8}, .is_number = true, .number = -1}};
	struct sl_rls_response response = {.code = SL_RLS_OK};
	(void)state;
	expect(&response, "{\"overallCode\":\"OK\"}");
	response.over_count = 2;
	expect(&response, "{\"overallCode\":\"OK\",\"statuses\":[{\"code\":\"OVER_LIMIT\"},{\"code\":\"OVER_LIMIT\"}]}");
	response =
		(struct sl_rls_response){SL_RLS_OVER_LIMIT, statuses, 4, &header, &ticket, 1, 1, {"\xff\xfe", 2}, fields, 2, 0};
	expect(&response, "{\"overallCode\":\"OVER_LIMIT\",\"statuses\":[{\"code\":\"OK\"},"
	                  "{\"code\":\"OK\",\"limitRemaining\":4294967295},"
	                  "{\"code\":\"OVER_LIMIT\",\"currentLimit\":{\"requestsPerUnit\":3,\"unit\":\"WEEK\"},"
	                  "\"durationUntilReset\":\"57s\"},"
	                  "{\"code\":\"OK\",\"currentLimit\":{\"name\":\"a\"},\"limitRemaining\":2}],"
	                  "\"responseHeadersToAdd\":[{\"key\":\"Retry-After\",\"value\":\"1\"}],"
	                  "\"requestHeadersToAdd\":[{\"key\":\"t\",\"value\":\"\\\"x\\\"\"}],\"rawBody\":\"//4=\","
	                  "\"dynamicMetadata\":{\"limit\":\"a\",\"delay_ms\":-1}}");
}

/* The samples of RFC 4648, section 10; and bytes whose last characters differ for URLs. */
static void test_base64(void **state) {
	static const struct {
		const char *bytes, *plain, *url;
	} rows[] = {
		{"", "", ""},
		{"f", "Zg==", "Zg"},
		{"fo", "Zm8=", "Zm8"},
		{"foo", "Zm9v", "Zm9v"},
		{"foob", "Zm9vYg==", "Zm9vYg"},
		{"\xfb\xff", "+/8=", "-_8"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (int url = 0; url < 2; url++) {
			char memory[16];
			struct sl_out out = sl_out_to(memory, sizeof memory - 1);
			sl_out_base64(&out, sl_str(rows[i].bytes), url != 0);
			*out.at = '\0';
			assert_string_equal(memory, url ? rows[i].url : rows[i].plain);
		}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_responses),
		cmocka_unit_test(test_base64),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
