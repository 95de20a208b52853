/* Envoy's rate limit messages. As every parser of proto3 does: of a field that is given twice the last counts, a
 * message that is given twice is merged, and one whose kind is not the known one is unknown. */
#include "proto/rls.h"

#include "base/assert.h"

enum { REQUEST_DOMAIN = 1, REQUEST_DESCRIPTORS, REQUEST_HITS };
enum { DESCRIPTOR_ENTRIES = 1, DESCRIPTOR_LIMIT, DESCRIPTOR_HITS, DESCRIPTOR_NEGATIVE };
enum { ENTRY_KEY = 1, ENTRY_VALUE };
enum { OVERRIDE_REQUESTS = 1, OVERRIDE_UNIT, OVERRIDE_MULTIPLIER };
enum { VALUE = 1 }; /* of UInt64Value and UInt32Value */
enum { RESPONSE_CODE = 1, RESPONSE_STATUSES, RESPONSE_HEADERS, RESPONSE_TO_UPSTREAM, RESPONSE_BODY, RESPONSE_METADATA };
enum { STATUS_CODE = 1, STATUS_LIMIT, STATUS_REMAINING, STATUS_RESET };
enum { LIMIT_REQUESTS = 1, LIMIT_UNIT, LIMIT_NAME };
enum { DURATION_SECONDS = 1 };
enum { HEADER_KEY = 1, HEADER_VALUE };
enum { STRUCT_FIELDS = 1, FIELD_KEY = 1, FIELD_VALUE = 2, VALUE_NUMBER = 2, VALUE_STRING = 3 };
enum { HEALTH_SERVICE = 1 };

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool read_entry(struct sluice_bytes message, struct sl_rls_entry *entry) {
	struct sl_pb_reader reader = sl_pb_read(message);
	struct sl_pb_field field;
	int got;
	*entry = (struct sl_rls_entry){sl_slice("", 0), sl_slice("", 0)};
	while ((got = sl_pb_next(&reader, &field)) > 0) {
		if (sl_pb_is(&field, ENTRY_KEY, SL_PB_BYTES))
			entry->key = field.bytes;
		else if (sl_pb_is(&field, ENTRY_VALUE, SL_PB_BYTES))
			entry->value = field.bytes;
	}
	return got == 0;
}

/* The one field of a wrapped number. */
static bool read_wrapped(struct sluice_bytes message, uint64_t *value) {
	struct sl_pb_reader reader = sl_pb_read(message);
	struct sl_pb_field field;
	int got;
	while ((got = sl_pb_next(&reader, &field)) > 0)
		if (sl_pb_is(&field, VALUE, SL_PB_VARINT))
			*value = field.value;
	return got == 0;
}

static bool read_override(struct sluice_bytes message, struct sl_rls_descriptor *descriptor) {
	struct sl_pb_reader reader = sl_pb_read(message);
	struct sl_pb_field field;
	uint64_t multiplier = descriptor->limit_multiplier;
	int got;
	descriptor->has_limit = true;
	while ((got = sl_pb_next(&reader, &field)) > 0) {
		if (sl_pb_is(&field, OVERRIDE_REQUESTS, SL_PB_VARINT))
			descriptor->limit_requests = (uint32_t)field.value;
		else if (sl_pb_is(&field, OVERRIDE_UNIT, SL_PB_VARINT))
			descriptor->limit_unit = (uint32_t)field.value;
		else if (sl_pb_is(&field, OVERRIDE_MULTIPLIER, SL_PB_BYTES) && !read_wrapped(field.bytes, &multiplier))
			return false;
	}
	descriptor->limit_multiplier = (uint32_t)multiplier;
	return got == 0;
}

static enum sl_rls_read add_entry(struct sl_rls_request *request, struct sl_rls_descriptor *descriptor,
                                  struct sluice_bytes message) {
	if (request->entry_count == SL_RLS_ENTRIES_MAX)
		return SL_RLS_TOO_MANY;
	descriptor->entry_count++;
	return read_entry(message, &request->entries[request->entry_count++]) ? SL_RLS_READ : SL_RLS_MALFORMED;
}

/* One field of a descriptor. */
static enum sl_rls_read read_part(struct sl_rls_request *request, struct sl_rls_descriptor *descriptor,
                                  const struct sl_pb_field *field) {
	bool good = true;
	if (sl_pb_is(field, DESCRIPTOR_ENTRIES, SL_PB_BYTES))
		return add_entry(request, descriptor, field->bytes);
	if (sl_pb_is(field, DESCRIPTOR_LIMIT, SL_PB_BYTES)) {
		good = read_override(field->bytes, descriptor);
	} else if (sl_pb_is(field, DESCRIPTOR_HITS, SL_PB_BYTES)) {
		descriptor->has_hits = true;
		good = read_wrapped(field->bytes, &descriptor->hits);
	} else if (sl_pb_is(field, DESCRIPTOR_NEGATIVE, SL_PB_VARINT)) {
		descriptor->negative = field->value != 0;
	}
	return good ? SL_RLS_READ : SL_RLS_MALFORMED;
}

static enum sl_rls_read read_descriptor(struct sl_rls_request *request, struct sluice_bytes message) {
	struct sl_pb_reader reader = sl_pb_read(message);
	struct sl_pb_field field;
	enum sl_rls_read came = SL_RLS_READ;
	int got = 0;
	if (request->descriptor_count == SL_RLS_DESCRIPTORS_MAX)
		return SL_RLS_TOO_MANY;
	struct sl_rls_descriptor *descriptor = &request->descriptors[request->descriptor_count++];
	*descriptor = (struct sl_rls_descriptor){.first_entry = request->entry_count};
	while (came == SL_RLS_READ && (got = sl_pb_next(&reader, &field)) > 0)
		came = read_part(request, descriptor, &field);
	return got < 0 ? SL_RLS_MALFORMED : came;
}

/* Those beyond what there is room for are counted alone. */
static enum sl_rls_read count_descriptor(struct sl_rls_request *request, struct sluice_bytes message,
                                         enum sl_rls_read came) {
	request->descriptors_sent++;
	return came == SL_RLS_READ ? read_descriptor(request, message) : came;
}

enum sl_rls_read sl_rls_request_read(struct sl_rls_request *request, struct sluice_bytes message) {
	struct sl_pb_reader reader = sl_pb_read(message);
	struct sl_pb_field field;
	enum sl_rls_read came = SL_RLS_READ;
	int got = 0;
	request->domain = sl_slice("", 0);
	request->hits = request->descriptor_count = request->entry_count = request->descriptors_sent = 0;
	while (came != SL_RLS_MALFORMED && (got = sl_pb_next(&reader, &field)) > 0) {
		if (sl_pb_is(&field, REQUEST_DOMAIN, SL_PB_BYTES))
			request->domain = field.bytes;
		else if (sl_pb_is(&field, REQUEST_DESCRIPTORS, SL_PB_BYTES))
			came = count_descriptor(request, field.bytes, came);
		else if (sl_pb_is(&field, REQUEST_HITS, SL_PB_VARINT))
			request->hits = (uint32_t)field.value;
	}
	return got < 0 ? SL_RLS_MALFORMED : came;
}

uint32_t sl_rls_hits(const struct sl_rls_request *request, const struct sl_rls_descriptor *descriptor, bool *peek) {
	uint64_t hits = descriptor->has_hits ? descriptor->hits : request->hits != 0 ? request->hits : 1;
	*peek = hits == 0;
	return hits < UINT32_MAX ? (uint32_t)hits : UINT32_MAX;
}

bool sl_health_request_read(struct sluice_bytes message, struct sluice_bytes *service) {
	struct sl_pb_reader reader = sl_pb_read(message);
	struct sl_pb_field field;
	int got;
	*service = sl_slice("", 0);
	while ((got = sl_pb_next(&reader, &field)) > 0)
		if (sl_pb_is(&field, HEALTH_SERVICE, SL_PB_BYTES))
			*service = field.bytes;
	return got == 0;
}

/* ---- units ------------------------------------------------------------------------------------------------------- */

sluice_ns sl_rls_unit_ns(uint32_t unit) {
	static const uint32_t seconds[SL_RLS_UNITS] = {
		[SL_RLS_SECOND] = 1,         [SL_RLS_MINUTE] = 60,        [SL_RLS_HOUR] = 3600,      [SL_RLS_DAY] = 86400,
		[SL_RLS_MONTH] = 30 * 86400, [SL_RLS_YEAR] = 365 * 86400, [SL_RLS_WEEK] = 7 * 86400,
	};
	return unit < SL_RLS_UNITS ? (sluice_ns)seconds[unit] * 1000000000 : 0;
}

const char *sl_rls_unit_name(uint32_t unit) {
	static const char *const names[SL_RLS_UNITS] = {
		[SL_RLS_UNKNOWN] = "UNKNOWN", [SL_RLS_SECOND] = "SECOND", [SL_RLS_MINUTE] = "MINUTE", [SL_RLS_HOUR] = "HOUR",
		[SL_RLS_DAY] = "DAY",         [SL_RLS_MONTH] = "MONTH",   [SL_RLS_YEAR] = "YEAR",     [SL_RLS_WEEK] = "WEEK",
	};
	return names[unit < SL_RLS_UNITS ? unit : SL_RLS_UNKNOWN];
}

enum sl_rls_unit sl_rls_unit_of(sluice_ns ns) {
	for (uint32_t unit = SL_RLS_SECOND; unit < SL_RLS_UNITS; unit++)
		if (sl_rls_unit_ns(unit) == ns)
			return (enum sl_rls_unit)unit;
	return SL_RLS_UNKNOWN;
}

/* ---- writing: from the last field to the first ------------------------------------------------------------------- */

void sl_rls_limit_put(struct sl_pb_writer *writer, const struct sl_rls_status *status) {
	const uint8_t *end = sl_pb_message_end(writer);
	sl_pb_put_text(writer, LIMIT_NAME, status->name);
	sl_pb_put_u64(writer, LIMIT_UNIT, status->unit);
	sl_pb_put_u64(writer, LIMIT_REQUESTS, status->requests);
	sl_pb_message_begin(writer, STATUS_LIMIT, end);
}

static void put_reset(struct sl_pb_writer *writer, uint64_t seconds) {
	const uint8_t *end = sl_pb_message_end(writer);
	sl_pb_put_u64(writer, DURATION_SECONDS, seconds);
	sl_pb_message_begin(writer, STATUS_RESET, end);
}

void sl_rls_status_put(struct sl_pb_writer *writer, const struct sl_rls_status *status, struct sluice_bytes limit) {
	const uint8_t *end = sl_pb_message_end(writer);
	if (!status->has_limit && status->unlimited)
		sl_pb_put_u64(writer, STATUS_REMAINING, UINT32_MAX);
	if (status->has_limit) {
		if (!status->no_reset)
			put_reset(writer, status->reset_s);
		sl_pb_put_u64(writer, STATUS_REMAINING, status->remaining);
		if (limit.len != 0)
			sl_pb_put_raw(writer, limit);
		else
			sl_rls_limit_put(writer, status);
	}
	sl_pb_put_varint(writer, STATUS_CODE, status->code);
	sl_pb_message_begin(writer, RESPONSE_STATUSES, end);
}

static void put_header(struct sl_pb_writer *writer, uint32_t number, const struct sl_rls_header *header) {
	const uint8_t *end = sl_pb_message_end(writer);
	sl_pb_put_text(writer, HEADER_VALUE, header->value);
	sl_pb_put_text(writer, HEADER_KEY, header->name);
	sl_pb_message_begin(writer, number, end);
}

void sl_rls_header_begin(struct sl_pb_writer *writer, struct sluice_bytes name, const uint8_t *value_end) {
	sl_pb_message_begin(writer, HEADER_VALUE, value_end); /* a text and a message are alike there */
	sl_pb_put_text(writer, HEADER_KEY, name);
	sl_pb_message_begin(writer, RESPONSE_HEADERS, value_end);
}

static void put_headers(struct sl_pb_writer *writer, uint32_t number, const struct sl_rls_header *headers,
                        uint32_t count) {
	while (count-- > 0)
		put_header(writer, number, &headers[count]);
}

/* The fields of a google.protobuf.Struct. */
void sl_rls_metadata_put(struct sl_pb_writer *writer, const struct sl_rls_field *fields, uint32_t count) {
	const uint8_t *whole = sl_pb_message_end(writer);
	for (uint32_t i = count; i-- > 0;) {
		const struct sl_rls_field *field = &fields[i];
		const uint8_t *end = sl_pb_message_end(writer);
		double number = (double)field->number; /* what JSON numbers are; nothing is decided by it */
		uint64_t bits;
		memcpy(&bits, &number, sizeof bits);
		if (field->is_number)
			sl_pb_put_fixed64(writer, VALUE_NUMBER, bits);
		else
			sl_pb_put_bytes(writer, VALUE_STRING, field->text);
		sl_pb_message_begin(writer, FIELD_VALUE, end);
		sl_pb_put_bytes(writer, FIELD_KEY, field->name);
		sl_pb_message_begin(writer, STRUCT_FIELDS, end);
	}
	if (count != 0)
		sl_pb_message_begin(writer, RESPONSE_METADATA, whole);
}

void sl_rls_code_put(struct sl_pb_writer *writer, enum sl_rls_code code) {
	SL_ASSERT(code == SL_RLS_OK || code == SL_RLS_OVER_LIMIT);
	sl_pb_put_varint(writer, RESPONSE_CODE, code);
}

void sl_rls_response_put(struct sl_pb_writer *writer, const struct sl_rls_response *response) {
	sl_rls_metadata_put(writer, response->metadata, response->metadata_count);
	sl_pb_put_text(writer, RESPONSE_BODY, response->body);
	put_headers(writer, RESPONSE_TO_UPSTREAM, response->request_headers, response->request_header_count);
	put_headers(writer, RESPONSE_HEADERS, response->response_headers, response->response_header_count);
	static const struct sl_rls_status over = {.code = SL_RLS_OVER_LIMIT};
	for (uint32_t i = 0; i < response->over_count; i++)
		sl_rls_status_put(writer, &over, sl_slice(NULL, 0));
	for (uint32_t i = response->status_count; i-- > 0;)
		sl_rls_status_put(writer, &response->statuses[i], sl_slice(NULL, 0));
	sl_rls_code_put(writer, response->code);
}
