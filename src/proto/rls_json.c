/* Envoy's rate limit messages as JSON. Strict, as protojson of Go is: what is not known is refused by its name, so that
 * "hits_added" does not cost 1. */
#include "proto/rls_json.h"

#include "base/assert.h"

enum {
	MEMBERS_MAX = 4,
	STATUS_BYTES = 256,
	OVER_BYTES = sizeof "{\"code\":\"OVER_LIMIT\"},",
	FIELD_BYTES = 64,
	REAL_BYTES_MAX = 64,
};

/* The members of a message: their names in JSON and, where that is another, in the message. */
struct member {
	const char *name, *other;
};

/* What is being read. */
struct reading {
	struct sl_rls_request *request;
	char *error;
};

static enum sl_rls_read wrong(const struct reading *r, const char *name, const char *what) {
	struct sl_out out = sl_out_to(r->error, SL_RLS_JSON_ERROR_BYTES - 1);
	sl_out_quoted(&out, sl_str(name), 40);
	sl_out_str(&out, what);
	*out.at = '\0';
	return SL_RLS_MALFORMED;
}

/* ---- single members ---------------------------------------------------------------------------------------------- */

static enum sl_rls_read unknown(const struct reading *r, const char *name, const struct member *members, int count) {
	struct sl_out out = sl_out_to(r->error, SL_RLS_JSON_ERROR_BYTES - 1);
	sl_out_str(&out, "unknown member ");
	sl_out_quoted(&out, sl_str(name), 40);
	sl_out_str(&out, ": expected ");
	for (int i = 0; i < count; i++) {
		sl_out_str(&out, i > 0 ? ", " : "");
		sl_out_str(&out, members[i].name);
	}
	*out.at = '\0';
	return SL_RLS_MALFORMED;
}

/* The members of an object by their places in `members`; NULL for those that are absent or null. */
static enum sl_rls_read sort(const struct reading *r, const char *where, const json_t *object,
                             const struct member *members, int count, const json_t **values) {
	const char *name;
	json_t *value;
	memset(values, 0, MEMBERS_MAX * sizeof values[0]);
	if (!json_is_object(object))
		return wrong(r, where, " must be an object");
	bool seen[MEMBERS_MAX] = {false};
	json_object_foreach((json_t *)(uintptr_t)object, name, value) {
		int at = 0;
		while (at < count && strcmp(name, members[at].name) != 0 &&
		       (members[at].other == NULL || strcmp(name, members[at].other) != 0))
			at++;
		if (at == count)
			return unknown(r, name, members, count);
		if (seen[at])
			return wrong(r, name, " is given twice");
		seen[at] = true;
		values[at] = json_is_null(value) ? NULL : value;
	}
	return SL_RLS_READ;
}

/* 1.0 and 1e0 are whole numbers to protojson, 2^64 is beyond them. */
static bool is_whole_real(double real, uint64_t most, uint64_t *number) {
	if (!(real >= 0 && real < 0x1p64))
		return false;
	*number = (uint64_t)real;
	return (double)*number == real && *number <= most;
}

/* A whole number in digits, or a real as JSON has it, without white space around it. */
static bool is_whole_text(struct sluice_bytes text, uint64_t most, uint64_t *number) {
	const char *at = text.data;
	if (sl_bytes_to_u64(text, number))
		return *number <= most;
	if (text.len == 0 || text.len > REAL_BYTES_MAX || at[0] < '0' || at[0] > '9' || at[text.len - 1] < '0')
		return false;
	json_t *value = json_loadb(text.data, text.len, JSON_DECODE_ANY, NULL);
	const bool whole = value != NULL && json_is_real(value) && is_whole_real(json_real_value(value), most, number);
	json_decref(value);
	return whole;
}

/* A whole number, as a number or in a string. */
static bool is_whole(const json_t *value, uint64_t most, uint64_t *number) {
	if (json_is_integer(value)) {
		*number = (uint64_t)json_integer_value(value);
		return json_integer_value(value) >= 0 && *number <= most;
	}
	if (json_is_real(value))
		return is_whole_real(json_real_value(value), most, number);
	return json_is_string(value) && is_whole_text(sl_json_bytes(value), most, number);
}

static enum sl_rls_read take_number(const struct reading *r, const char *name, const json_t *value, uint64_t most,
                                    uint64_t *number) {
	if (value == NULL || is_whole(value, most, number))
		return SL_RLS_READ;
	return wrong(r, name,
	             most == UINT32_MAX ? " must be a whole number 0..4294967295"
	                                : " must be a whole number 0..18446744073709551615");
}

static enum sl_rls_read take_text(const struct reading *r, const char *name, const json_t *value,
                                  struct sluice_bytes *text) {
	*text = sl_slice("", 0);
	if (value == NULL)
		return SL_RLS_READ;
	if (!json_is_string(value))
		return wrong(r, name, " must be a string");
	*text = sl_json_bytes(value);
	return SL_RLS_READ;
}

static enum sl_rls_read take_unit(const struct reading *r, const json_t *value, uint32_t *unit) {
	uint64_t number = 0;
	for (uint32_t i = 0; value != NULL && json_is_string(value) && i < SL_RLS_UNITS; i++)
		if (strcmp(json_string_value(value), sl_rls_unit_name(i)) == 0) {
			*unit = i;
			return SL_RLS_READ;
		}
	if (value != NULL && (!json_is_integer(value) || !is_whole(value, INT32_MAX, &number)))
		return wrong(r, "unit", " must be one of SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, YEAR");
	*unit = (uint32_t)number;
	return SL_RLS_READ;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static enum sl_rls_read take_limit(const struct reading *r, struct sl_rls_descriptor *descriptor, const json_t *value) {
	static const struct member members[] = {
		{"requestsPerUnit", "requests_per_unit"}, {"unit", NULL}, {"unitMultiplier", "unit_multiplier"}};
	const json_t *values[MEMBERS_MAX];
	uint64_t requests = 0, multiplier = 0;
	if (value == NULL)
		return SL_RLS_READ;
	descriptor->has_limit = true;
	enum sl_rls_read came = sort(r, "limit", value, members, 3, values);
	if (came == SL_RLS_READ)
		came = take_number(r, "requestsPerUnit", values[0], UINT32_MAX, &requests);
	if (came == SL_RLS_READ)
		came = take_unit(r, values[1], &descriptor->limit_unit);
	if (came == SL_RLS_READ)
		came = take_number(r, "unitMultiplier", values[2], UINT32_MAX, &multiplier);
	descriptor->limit_requests = (uint32_t)requests;
	descriptor->limit_multiplier = (uint32_t)multiplier;
	return came;
}

static enum sl_rls_read take_entry(const struct reading *r, struct sl_rls_descriptor *descriptor, const json_t *value) {
	static const struct member members[] = {{"key", NULL}, {"value", NULL}};
	const json_t *values[MEMBERS_MAX];
	if (r->request->entry_count == SL_RLS_ENTRIES_MAX)
		return SL_RLS_TOO_MANY;
	struct sl_rls_entry *entry = &r->request->entries[r->request->entry_count++];
	descriptor->entry_count++;
	enum sl_rls_read came = sort(r, "entries", value, members, 2, values);
	if (came == SL_RLS_READ)
		came = take_text(r, "key", values[0], &entry->key);
	if (came == SL_RLS_READ)
		came = take_text(r, "value", values[1], &entry->value);
	return came;
}

static enum sl_rls_read take_entries(const struct reading *r, struct sl_rls_descriptor *descriptor,
                                     const json_t *value) {
	enum sl_rls_read came = SL_RLS_READ;
	if (value != NULL && !json_is_array(value))
		return wrong(r, "entries", " must be a list");
	for (size_t i = 0; i < json_array_size(value) && came == SL_RLS_READ; i++)
		came = take_entry(r, descriptor, json_array_get(value, i));
	return came;
}

static enum sl_rls_read take_descriptor(const struct reading *r, const json_t *value) {
	static const struct member members[] = {
		{"entries", NULL}, {"limit", NULL}, {"hitsAddend", "hits_addend"}, {"isNegativeHits", "is_negative_hits"}};
	const json_t *values[MEMBERS_MAX];
	if (r->request->descriptor_count == SL_RLS_DESCRIPTORS_MAX)
		return SL_RLS_TOO_MANY;
	struct sl_rls_descriptor *descriptor = &r->request->descriptors[r->request->descriptor_count++];
	*descriptor = (struct sl_rls_descriptor){.first_entry = r->request->entry_count};
	enum sl_rls_read came = sort(r, "descriptors", value, members, MEMBERS_MAX, values);
	if (came == SL_RLS_READ)
		came = take_entries(r, descriptor, values[0]);
	if (came == SL_RLS_READ)
		came = take_limit(r, descriptor, values[1]);
	if (came == SL_RLS_READ)
		came = take_number(r, "hitsAddend", values[2], UINT64_MAX, &descriptor->hits);
	descriptor->has_hits = values[2] != NULL;
	descriptor->negative = json_is_true(values[3]);
	if (came == SL_RLS_READ && values[3] != NULL && !json_is_boolean(values[3]))
		return wrong(r, "isNegativeHits", " must be true or false");
	return came;
}

enum sl_rls_read sl_rls_json_read(struct sl_rls_request *request, const json_t *root,
                                  char error[SL_RLS_JSON_ERROR_BYTES]) {
	static const struct member members[] = {{"domain", NULL}, {"descriptors", NULL}, {"hitsAddend", "hits_addend"}};
	const struct reading r = {request, error};
	const json_t *values[MEMBERS_MAX];
	uint64_t hits = 0;
	request->hits = request->descriptor_count = request->entry_count = 0;
	enum sl_rls_read came = sort(&r, "the body", root, members, 3, values);
	if (came == SL_RLS_READ)
		came = take_text(&r, "domain", values[0], &request->domain);
	if (came == SL_RLS_READ)
		came = take_number(&r, "hitsAddend", values[2], UINT32_MAX, &hits);
	request->hits = (uint32_t)hits;
	if (came == SL_RLS_READ && values[1] != NULL && !json_is_array(values[1]))
		return wrong(&r, "descriptors", " must be a list");
	request->descriptors_sent = (uint32_t)json_array_size(values[1]);
	for (size_t i = 0; i < json_array_size(values[1]) && came == SL_RLS_READ; i++)
		came = take_descriptor(&r, json_array_get(values[1], i));
	return came;
}

/* ---- responses --------------------------------------------------------------------------------------------------- */

static void put_number(struct sl_out *out, const char *name, uint64_t number) {
	if (number != 0)
		sl_json_put_u64(out, name, number);
}

static const char *code_of(enum sl_rls_code code) {
	SL_ASSERT(code == SL_RLS_OK || code == SL_RLS_OVER_LIMIT);
	return code == SL_RLS_OK ? "OK" : "OVER_LIMIT";
}

static void put_status(struct sl_out *out, const struct sl_rls_status *status) {
	sl_json_open(out, NULL, '{');
	sl_json_put_word(out, "code", code_of(status->code));
	if (!status->has_limit && status->unlimited)
		sl_json_put_u64(out, "limitRemaining", UINT32_MAX);
	if (status->has_limit) {
		sl_json_open(out, "currentLimit", '{');
		if (status->name.len != 0)
			sl_json_put_text(out, "name", status->name);
		put_number(out, "requestsPerUnit", status->requests);
		if (status->unit != SL_RLS_UNKNOWN)
			sl_json_put_word(out, "unit", sl_rls_unit_name(status->unit));
		sl_out_char(out, '}');
		put_number(out, "limitRemaining", status->remaining);
	}
	if (status->has_limit && !status->no_reset) {
		sl_json_name(out, "durationUntilReset");
		sl_out_char(out, '"');
		sl_out_u64(out, status->reset_s);
		sl_out_str(out, "s\"");
	}
	sl_out_char(out, '}');
}

static void put_headers(struct sl_out *out, const char *name, const struct sl_rls_header *headers, uint32_t count) {
	if (count == 0)
		return;
	sl_json_open(out, name, '[');
	for (uint32_t i = 0; i < count; i++) {
		sl_json_open(out, NULL, '{');
		sl_json_put_text(out, "key", headers[i].name);
		sl_json_put_text(out, "value", headers[i].value);
		sl_out_char(out, '}');
	}
	sl_out_char(out, ']');
}

static void put_metadata(struct sl_out *out, const struct sl_rls_field *fields, uint32_t count) {
	if (count == 0)
		return;
	sl_json_open(out, "dynamicMetadata", '{');
	for (uint32_t i = 0; i < count; i++) {
		sl_json_element(out);
		sl_json_string(out, fields[i].name);
		sl_out_char(out, ':');
		if (fields[i].is_number)
			sl_out_i64(out, fields[i].number);
		else
			sl_json_string(out, fields[i].text);
	}
	sl_out_char(out, '}');
}

static size_t headers_room(const struct sl_rls_header *headers, uint32_t count) {
	size_t room = FIELD_BYTES;
	for (uint32_t i = 0; i < count; i++)
		room += FIELD_BYTES + SL_JSON_ROOM(headers[i].name.len) + SL_JSON_ROOM(headers[i].value.len);
	return room;
}

size_t sl_rls_json_room(const struct sl_rls_response *response) {
	size_t room = STATUS_BYTES + (size_t)response->over_count * OVER_BYTES + response->body.len / 3 * 4 + FIELD_BYTES;
	for (uint32_t i = 0; i < response->status_count; i++)
		room += STATUS_BYTES + SL_JSON_ROOM(response->statuses[i].name.len);
	for (uint32_t i = 0; i < response->metadata_count; i++)
		room += FIELD_BYTES + SL_JSON_ROOM(response->metadata[i].name.len + response->metadata[i].text.len);
	return room + headers_room(response->response_headers, response->response_header_count) +
	       headers_room(response->request_headers, response->request_header_count);
}

void sl_rls_json_put(struct sl_out *out, const struct sl_rls_response *response) {
	sl_out_char(out, '{');
	sl_json_put_word(out, "overallCode", code_of(response->code));
	if (response->status_count + response->over_count != 0) {
		static const struct sl_rls_status over = {.code = SL_RLS_OVER_LIMIT};
		sl_json_open(out, "statuses", '[');
		for (uint32_t i = 0; i < response->status_count; i++)
			put_status(out, &response->statuses[i]);
		for (uint32_t i = 0; i < response->over_count; i++)
			put_status(out, &over);
		sl_out_char(out, ']');
	}
	put_headers(out, "responseHeadersToAdd", response->response_headers, response->response_header_count);
	put_headers(out, "requestHeadersToAdd", response->request_headers, response->request_header_count);
	if (response->body.len != 0) {
		sl_json_name(out, "rawBody");
		sl_out_char(out, '"');
		sl_out_base64(out, response->body, false);
		sl_out_char(out, '"');
	}
	put_metadata(out, response->metadata, response->metadata_count);
	sl_out_char(out, '}');
}
