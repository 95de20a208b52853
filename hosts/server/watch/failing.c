/* The two lines of an outage. Several workers may see its first request, and its end: who changes `since` writes the
 * line. A request that passes while another worker is writing the last line belongs to the next outage. */
#include "hosts/server/watch/failing.h"

#include "hosts/server/watch/log.h"

static uint64_t look(const _Atomic uint64_t *field) {
	return atomic_load_explicit(field, memory_order_relaxed);
}

void sl_failing_pass(struct sl_failing *failing, sluice_ns now, const char *limit, const char *why) {
	uint64_t none = 0;
	atomic_store_explicit(&failing->last, now, memory_order_relaxed);
	atomic_fetch_add_explicit(&failing->passed, 1, memory_order_relaxed);
	if (look(&failing->since) == 0 &&
	    atomic_compare_exchange_strong_explicit(&failing->since, &none, now, memory_order_relaxed,
	                                            memory_order_relaxed))
		sl_log(SL_LOG_WARNING, "limits fail open: %s lets requests pass undecided (on-error: allow): %s", limit, why);
}

void sl_failing_end(struct sl_failing *failing, sluice_ns now) {
	uint64_t since = look(&failing->since), last = look(&failing->last);
	if (since == 0 || now < last || now - last < SL_FAILING_QUIET_NS ||
	    !atomic_compare_exchange_strong_explicit(&failing->since, &since, 0, memory_order_relaxed,
	                                             memory_order_relaxed))
		return;
	uint64_t passed = atomic_exchange_explicit(&failing->passed, 0, memory_order_relaxed);
	uint64_t tenths = last > since ? (last - since + 99999999) / 100000000 : 0;
	sl_log(SL_LOG_WARNING, "limits hold again: %llu requests passed undecided in %llu.%llu s",
	       (unsigned long long)passed, (unsigned long long)(tenths / 10), (unsigned long long)(tenths % 10));
}
