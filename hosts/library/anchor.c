/* The clock of a store: instant = offset + CLOCK_BOOTTIME, the same for all processes that share it, through restarts
 * of any of them, and never running back through a restart of the host.
 *
 * What is stored: which boot the offset belongs to, the offset, and `latest`, an instant that the clock has not reached
 * yet. Whoever reads the clock and finds that it has, moves it on (sluice_store_now()), about once a second for all
 * processes together. It is one word with its own check in the low 30 bits, so a power cut leaves an old one or a new
 * one. The two copies of the anchor are equal; a damaged one is not believed and not missed.
 *
 * The results, each a row of tests/unit/anchor_test.c:
 *   new store                          wall time
 *   opened again, same boot            the stored offset, whatever the wall clock says meanwhile: a step of it, by hand
 *                                      or by NTP, neither frees nor locks anybody
 *   suspend                            CLOCK_BOOTTIME goes on through it, and so does the store's clock
 *   another boot                       wall time; or `latest`, where wall time lies before it: then the clock goes on
 *                                      from there at its usual pace, at most 2^30 ns ahead of where it had been
 *   first anchored to a wrong time     stays so: a clock that began in 2036 goes on in 2036 after a restart of the
 *                                      host, since every charge is stamped with it. Counters are right all the same:
 *                                      only differences count
 *   one copy damaged                   as if it were not
 *   both damaged                       as another boot, from whichever `latest` words are whole
 *   nothing whole                      as a new store
 *   file of another host, or a backup  another boot; or the same one, and then its offset is right
 *   power cut                          as another boot; `latest` may be as old as the last write of that page to disk
 *                                      (some 30 s), by which the clock may run back if wall time is behind as well
 *   the boot has no id (no /proc)      as another boot at each first opening */
#include "hosts/library/anchor.h"

static uint64_t check_of(const struct sl_anchor *anchor, const uint64_t secret[2]) {
	return sl_siphash(secret, NULL, 0, sl_slice(anchor, offsetof(struct sl_anchor, check)), 1, 3);
}

static bool is_of_boot(const struct sl_anchor *anchor, const uint64_t secret[2], const struct sl_boot *boot) {
	return (boot->id[0] | boot->id[1]) != 0 && anchor->check == check_of(anchor, secret) &&
	       anchor->boot[0] == boot->id[0] && anchor->boot[1] == boot->id[1];
}

bool sl_anchor_choose(const struct sl_anchor copies[2], const uint64_t secret[2], const struct sl_boot *boot,
                      struct sl_anchor *chosen) {
	sluice_ns latest[2] = {sl_latest_read(copies[0].latest, secret), sl_latest_read(copies[1].latest, secret)};
	sluice_ns bound = latest[0] > latest[1] ? latest[0] : latest[1];
	for (int i = 0; i < 2; i++)
		if (is_of_boot(&copies[i], secret, boot)) {
			sluice_ns now = copies[i].offset_ns + boot->boottime_ns;
			*chosen = copies[i];
			chosen->latest = sl_latest_write(bound > now ? bound - 1 : now, secret);
			return true;
		}
	bound = boot->wall_ns > bound ? boot->wall_ns : bound;
	*chosen = (struct sl_anchor){.boot = {boot->id[0], boot->id[1]}, .offset_ns = bound - boot->boottime_ns};
	chosen->check = check_of(chosen, secret);
	chosen->latest = sl_latest_write(bound, secret);
	return false;
}
