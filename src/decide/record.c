/* The delay of a request's record, in few bits: as every host keeps it, so that all answer alike. */
#include "base/math.h"
#include "decide/decide.h"

enum { DELAY_BITS = 27, EXPONENT_BITS = 5 };

uint32_t sl_delay_pack(sluice_ns delay_ns) {
	unsigned e = 0;
	while (delay_ns >> e >> DELAY_BITS != 0 && e < (1 << EXPONENT_BITS) - 1)
		e++;
	return (uint32_t)(sl_min(delay_ns >> e, (1 << DELAY_BITS) - 1) << EXPONENT_BITS | e);
}

sluice_ns sl_delay_unpack(uint32_t packed) {
	return (sluice_ns)(packed >> EXPONENT_BITS) << (packed & ((1 << EXPONENT_BITS) - 1));
}
