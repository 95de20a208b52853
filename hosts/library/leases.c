/* Leases for users of the library: ids that nobody else has, and who holds them. */
#include "check/lease.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "algo/traits.h"
#include "base/assert.h"
#include "algo/algorithms.h"
#include "base/out.h"

void sluice_make_id(char text[17]) {
	uint64_t number = 0;
	while (number == 0) {
		ssize_t got = getrandom(&number, sizeof number, 0);
		SL_ASSERT(got == (ssize_t)sizeof number || (got < 0 && errno == EINTR));
		number = got < 0 ? 0 : number;
	}
	sl_hex_text(text, number);
}

/* More hold leases than there is room for: those that end first are among all of them. */
static uint32_t list_first(struct sluice_store *store, const struct sluice_limit *limit, struct sluice_bytes key,
                           sluice_ns now, struct sluice_holder *list, uint32_t room, uint32_t count) {
	struct sluice_holder *all = NULL;
	uint32_t had = 0;
	while (had < count && count != SLUICE_HOLDERS_BUSY) { /* others may come meanwhile */
		struct sluice_holder *more = realloc(all, count * sizeof *all);
		if (more == NULL)
			break; /* then it is any of them */
		all = more;
		had = count;
		count = sl_store_leases(store, limit, key, now, all, had);
	}
	if (count <= had && count != 0) {
		qsort(all, count, sizeof *all, sl_lease_order);
		memcpy(list, all, (count < room ? count : room) * sizeof *all);
	}
	free(all);
	return count;
}

uint32_t sluice_holders(struct sluice_store *store, const struct sluice_limit *limit, struct sluice_bytes key,
                        sluice_ns now, struct sluice_holder *list, uint32_t room) {
	uint32_t count;
	if (store == NULL || limit == NULL || !sl_rule_has(limit, SL_TAKES_LEASE))
		return 0;
	if (store->owner == 0)
		return SLUICE_HOLDERS_BUSY;
	count = sl_store_leases(store, limit, key, now, list, room);
	if (count == SLUICE_HOLDERS_BUSY)
		return count;
	if (count > room && room != 0)
		return list_first(store, limit, key, now, list, room, count);
	if (count > 1 && room != 0)
		qsort(list, count, sizeof *list, sl_lease_order);
	return count;
}
