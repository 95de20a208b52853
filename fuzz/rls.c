/* Any bytes as messages of Envoy's rate limit service: what is read lies within them; and what is written of it is read
 * as the same. As JSON: what is read is within its bounds, and an error is said. */
#include "base/assert.h"
#include "proto/grpc.h"
#include "proto/rls_json.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sl_rls_request first, second;

static void check_within(struct sluice_bytes text, const uint8_t *data, size_t size) {
	const uint8_t *at = text.data;
	SL_ASSERT(text.len == 0 || (at >= data && text.len <= size && at <= data + size - text.len));
}

static void put_wrapped(struct sl_pb_writer *writer, uint32_t number, uint64_t value) {
	const uint8_t *end = sl_pb_message_end(writer);
	sl_pb_put_u64(writer, 1, value);
	sl_pb_message_begin(writer, number, end);
}

static void put_descriptor(struct sl_pb_writer *writer, const struct sl_rls_descriptor *d) {
	const uint8_t *whole = sl_pb_message_end(writer), *end;
	sl_pb_put_u64(writer, 4, d->negative);
	if (d->has_hits)
		put_wrapped(writer, 3, d->hits);
	if (d->has_limit) {
		end = sl_pb_message_end(writer);
		if (d->limit_multiplier != 0)
			put_wrapped(writer, 3, d->limit_multiplier);
		sl_pb_put_u64(writer, 2, d->limit_unit);
		sl_pb_put_u64(writer, 1, d->limit_requests);
		sl_pb_message_begin(writer, 2, end);
	}
	for (uint32_t i = d->first_entry + d->entry_count; i-- > d->first_entry;) {
		end = sl_pb_message_end(writer);
		sl_pb_put_text(writer, 2, first.entries[i].value);
		sl_pb_put_text(writer, 1, first.entries[i].key);
		sl_pb_message_begin(writer, 1, end);
	}
	sl_pb_message_begin(writer, 2, whole);
}

static void check_same(void) {
	SL_ASSERT(sl_bytes_equal(first.domain, second.domain) && first.hits == second.hits);
	SL_ASSERT(first.descriptor_count == second.descriptor_count && first.entry_count == second.entry_count);
	for (uint32_t i = 0; i < first.descriptor_count; i++) {
		const struct sl_rls_descriptor *a = &first.descriptors[i], *b = &second.descriptors[i];
		SL_ASSERT(a->first_entry == b->first_entry && a->entry_count == b->entry_count);
		SL_ASSERT(a->has_limit == b->has_limit && a->has_hits == b->has_hits && a->negative == b->negative);
		SL_ASSERT(a->hits == b->hits && a->limit_requests == b->limit_requests && a->limit_unit == b->limit_unit);
		SL_ASSERT(a->limit_multiplier == b->limit_multiplier);
	}
	for (uint32_t i = 0; i < first.entry_count; i++)
		SL_ASSERT(sl_bytes_equal(first.entries[i].key, second.entries[i].key) &&
		          sl_bytes_equal(first.entries[i].value, second.entries[i].value));
}

static void read_json(const uint8_t *data, size_t size) {
	char error[SL_JSON_ERROR_BYTES] = "";
	json_t *root = sl_json_read(sl_slice(data, size), error);
	enum sl_rls_read came = root != NULL ? sl_rls_json_read(&first, root, error) : SL_RLS_MALFORMED;
	SL_ASSERT(came != SL_RLS_MALFORMED || error[0] != '\0');
	SL_ASSERT(first.descriptor_count <= SL_RLS_DESCRIPTORS_MAX && first.entry_count <= SL_RLS_ENTRIES_MAX);
	sl_json_free(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct sluice_bytes message, service;
	read_json(data, size);
	(void)sl_health_request_read(sl_slice(data, size), &service);
	check_within(service, data, size);
	if (sl_grpc_unframe(sl_slice(data, size), &message) == SL_GRPC_FRAME_WHOLE)
		check_within(message, data, size);
	if (sl_rls_request_read(&first, sl_slice(data, size)) != SL_RLS_READ)
		return 0;
	for (uint32_t i = 0; i < first.entry_count; i++) {
		check_within(first.entries[i].key, data, size);
		check_within(first.entries[i].value, data, size);
	}
	size_t room = size + 64 * (size_t)(first.descriptor_count + first.entry_count + 1);
	uint8_t *memory = malloc(room);
	SL_ASSERT(memory != NULL);
	struct sl_pb_writer writer = sl_pb_write(memory, room);
	sl_pb_put_u64(&writer, 3, first.hits);
	for (uint32_t i = first.descriptor_count; i-- > 0;)
		put_descriptor(&writer, &first.descriptors[i]);
	sl_pb_put_text(&writer, 1, first.domain);
	SL_ASSERT(!writer.overflow);
	SL_ASSERT(sl_rls_request_read(&second, sl_pb_written(&writer)) == SL_RLS_READ);
	check_same();
	free(memory);
	return 0;
}
