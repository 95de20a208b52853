/* concurrency: at most N in flight. */
#include "algo/step.h"
#include "base/siphash.h"

bool sl_lease_release(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now) {
	return (void)limit, (void)counter, (void)now, false;
}

bool sl_lease_renew(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now) {
	return (void)limit, (void)counter, (void)now, false;
}

uint32_t sl_lease_list(const struct sl_counter *counter, sluice_ns now, struct sluice_holder *list, uint32_t room) {
	return (void)counter, (void)now, (void)list, (void)room, 0;
}

static bool read_hex(struct sluice_bytes text, uint64_t *number) {
	const char *p = text.data;
	*number = 0;
	for (size_t i = 0; i < text.len; i++) {
		if (!((p[i] >= '0' && p[i] <= '9') || (p[i] >= 'a' && p[i] <= 'f')))
			return false;
		*number = *number << 4 | (uint64_t)(p[i] <= '9' ? p[i] - '0' : p[i] - 'a' + 10);
	}
	return text.len == 16;
}

uint64_t sl_id_number(struct sluice_bytes id) {
	/* A fixed key: an id says the same to every store and every host. */
	static const uint64_t key[2] = {0x6c656173652d6964, 0x2d6f662d736c7569};
	uint64_t number;
	if (!read_hex(id, &number))
		number = sl_siphash(key, NULL, 0, id, 2, 4);
	return number != 0 ? number : 1;
}
