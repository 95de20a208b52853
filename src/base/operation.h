/* All that can be asked of counters: one list with one set of numbers, for the library, the doors, the module and the
 * fronts. The first nine are those of the public header. */
#ifndef SL_OPERATION_H
#define SL_OPERATION_H

#include "sluice.h"

enum sl_operation {
	SL_OP_CHECK = SLUICE_CHARGE,
	SL_OP_PEEK = SLUICE_PEEK,
	SL_OP_REFUND = SLUICE_REFUND,
	SL_OP_RESET = SLUICE_RESET,
	SL_OP_ACQUIRE = SLUICE_ACQUIRE,
	SL_OP_RELEASE = SLUICE_RELEASE,
	SL_OP_RENEW = SLUICE_RENEW,
	SL_OP_RESERVE = SLUICE_RESERVE,
	SL_OP_COMMIT = SLUICE_COMMIT,
	/* of fronts, asked of the counters in Redis */
	SL_OP_HOLD,
	SL_OP_CONFIRM,
	SL_OP_CANCEL,
	SL_OP_LEASE,
	/* these end in one of the first nine, or change nothing */
	SL_OP_HOLDERS,
	SL_OP_INSPECT,
	SL_OP_ADMIT,
	SL_OP_EXPLAIN,
	SL_OP_WHY,
	SL_OP_THROTTLE,
	SL_OPERATIONS /* how many there are */
};

#define SL_OP_BIT(name) (1u << SL_OP_##name)

/* Operations that have something in common. Their numbers say nothing. */
enum sl_operations {
	SL_OPS_PLAIN = SL_OP_BIT(CHECK) | SL_OP_BIT(PEEK),
	SL_OPS_CHARGING = SL_OP_BIT(CHECK) | SL_OP_BIT(ACQUIRE) | SL_OP_BIT(RESERVE),
	SL_OPS_COUNTING = SL_OPS_PLAIN | SL_OP_BIT(REFUND) | SL_OP_BIT(RESET), /* what any limit can be asked for */
	/* of something that has an id and stays: a lease, a reservation */
	SL_OPS_OF_LEASES = SL_OP_BIT(ACQUIRE) | SL_OP_BIT(RELEASE) | SL_OP_BIT(RENEW),
	SL_OPS_LASTING = SL_OPS_OF_LEASES | SL_OP_BIT(RESERVE) | SL_OP_BIT(COMMIT),
	/* answered by the figures of each limit */
	SL_OPS_DECIDING = SL_OPS_CHARGING | SL_OP_BIT(PEEK) | SL_OP_BIT(REFUND) | SL_OP_BIT(COMMIT),
	/* by the attributes of a request */
	SL_OPS_OF_REQUESTS = SL_OP_BIT(ADMIT) | SL_OP_BIT(EXPLAIN) | SL_OP_BIT(WHY),
	/* of the public header */
	SL_OPS_PUBLIC = SL_OPS_COUNTING | SL_OPS_LASTING,
	/* of fronts, with holds */
	SL_OPS_HOLDING = SL_OP_BIT(HOLD) | SL_OP_BIT(CONFIRM) | SL_OP_BIT(CANCEL) | SL_OP_BIT(LEASE),
};

/* Whether an operation is one of these. Any number may be asked about; a large one is none. */
static inline bool sl_operation_is(uint32_t operation, uint32_t these) {
	return ((uint64_t)these >> (operation < 63 ? operation : 63) & 1) != 0;
}

#endif
