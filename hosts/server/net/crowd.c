/* Who may come in when it is full, and who has to go for it.
 *
 * Connections are cheap to open and to keep idle, so a bound on them alone is a way to shut others out: whoever takes
 * all places has won. Here places are taken back: the connection that has waited longest goes, and those that ask and
 * are answered never have waited long. Nobody goes before SL_GIVE_WAY_MS: a crowd of newcomers does not throw out one
 * another, the last ones are refused.
 *
 * The first worker's thread accepts and chooses, by what the workers publish at the end of each turn; who belongs to
 * another worker is closed by that worker, and until then the newcomer waits in the listening socket's queue. */
#include "hosts/server/net/crowd.h"

#include "hosts/server/net/evict.h"
#include "hosts/server/net/waits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SPARE_MAX = 64, SPARE_SHARE = 8 };

/* Since when the first of a list has waited, as its worker published it; UINT64_MAX: nobody for so long. */
static uint64_t waiting_since(struct sl_worker *worker, enum sl_wait what, uint64_t now_ms, uint64_t for_ms) {
	uint64_t since_ms = atomic_load_explicit(&worker->waits[what].since_ms, memory_order_relaxed);
	return since_ms != UINT64_MAX && since_ms + for_ms <= now_ms ? since_ms : UINT64_MAX;
}

/* The worker of the connection that has waited longest for one of two things. */
static struct sl_worker *longest(struct sl_worker *workers, uint32_t count, enum sl_wait a, enum sl_wait b,
                                 uint64_t for_ms) {
	struct sl_worker *found = NULL;
	uint64_t now_ms = uv_now(&workers[0].loop), least = UINT64_MAX;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t since_a = waiting_since(&workers[i], a, now_ms, for_ms);
		uint64_t since_b = waiting_since(&workers[i], b, now_ms, for_ms);
		uint64_t since = since_a < since_b ? since_a : since_b;
		if (since < least) {
			least = since;
			found = &workers[i];
		}
	}
	return found;
}

enum sl_room sl_worker_shed(struct sl_worker *workers, uint32_t worker_count) {
	for (uint32_t i = 0; i < worker_count; i++)
		if (atomic_load_explicit(&workers[i].shedding, memory_order_acquire))
			return SL_ROOM_SOON;   /* acquire: what it let go of is counted by now; pairs with its release */
	sl_waits_publish(&workers[0]); /* this turn's: the others do so at the end of theirs */
	struct sl_worker *worker = longest(workers, worker_count, SL_WAIT_LINGER, SL_WAIT_LINGER, 0);
	if (worker == NULL)
		worker = longest(workers, worker_count, SL_WAIT_IDLE, SL_WAIT_IDLE, SL_GIVE_WAY_MS);
	if (worker == NULL)
		worker = longest(workers, worker_count, SL_WAIT_REQUEST, SL_WAIT_WRITE, SL_GIVE_WAY_MS);
	if (worker == NULL)
		worker = longest(workers, worker_count, SL_WAIT_STREAM, SL_WAIT_STREAM, SL_GIVE_WAY_MS);
	if (worker == NULL)
		return SL_ROOM_NO;
	if (worker == &workers[0])
		return sl_evict_longest(worker) ? SL_ROOM_YES : SL_ROOM_NO;
	atomic_store_explicit(&worker->shedding, true, memory_order_relaxed);
	uv_async_send(&worker->wake);
	return SL_ROOM_SOON;
}

bool sl_worker_is_full(const struct sl_worker *worker) {
	return sl_bounds_open(worker->bounds) >= sl_bounds_most(worker->bounds, sl_policy_settings(worker->context.policy));
}

void sl_worker_count_descriptors(struct sl_worker *worker) {
	struct rlimit limit;
	int lowest_free = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (lowest_free < 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	close(lowest_free);
	uint64_t most = limit.rlim_cur > UINT32_MAX ? UINT32_MAX : limit.rlim_cur;
	uint64_t spare = most / SPARE_SHARE < SPARE_MAX ? most / SPARE_SHARE : SPARE_MAX;
	uint64_t taken = (uint64_t)lowest_free + spare;
	sl_bounds_set_descriptors(worker->bounds, most > taken ? (uint32_t)(most - taken) : 1);
}
