/* Any bytes as a ticket. What is read keeps what the header promises, and written again it is the same text. */
#include "algo/rule.h"
#include "base/assert.h"
#include "proto/ticket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t number_of(struct sluice_bytes digits) {
	uint64_t number = 0;
	for (size_t i = 0; i < digits.len; i++) {
		unsigned c = ((const unsigned char *)digits.data)[i];
		number = number << 4 | (c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return number;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static struct sl_ticket ticket;
	static char memory[SL_TICKET_BYTES_MAX], text[SL_TICKET_BYTES_MAX];
	static char named[SLUICE_ITEMS_MAX][SLUICE_NAME_BYTES_MAX + 1];
	const char *names[SLUICE_ITEMS_MAX];
	struct sluice_bytes key = sl_str("key");
	if (!sl_ticket_read(&ticket, sl_slice(data, size), key, memory))
		return 0;
	SL_ASSERT(ticket.id.len == SL_TICKET_ID_DIGITS && ticket.count >= 1 && ticket.count <= SLUICE_ITEMS_MAX);
	for (uint32_t i = 0; i < ticket.count; i++) {
		struct sluice_bytes name = ticket.names[i];
		SL_ASSERT(sl_rule_is_valid(&ticket.limits[i]) && ticket.items[i].limit == &ticket.limits[i]);
		SL_ASSERT(name.len <= SLUICE_NAME_BYTES_MAX);
		if (name.len != 0)
			memcpy(named[i], name.data, name.len);
		named[i][name.len] = '\0';
		names[i] = name.len == 0 ? NULL : named[i];
		if (sl_bytes_equal(ticket.items[i].key, key) && ticket.items[i].key.data != key.data)
			return 0; /* a key that was written though it need not be */
	}
	size_t len = sl_ticket_write(text, number_of(ticket.id), key, ticket.items, names, ticket.count);
	SL_ASSERT(sl_bytes_equal(sl_slice(text, len), sl_slice(data, size)));
	return 0;
}
