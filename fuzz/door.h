/* A connection to a door without a socket, for the fuzzers of the doors: the same bytes are fed once whole and once in
 * pieces, each to a store of its own at one fixed instant, and both must be answered with the same bytes. A door that
 * keeps a pointer into its input, counts a byte twice or decides by where a packet ended is found by that. */
#ifndef SL_FUZZ_DOOR_H
#define SL_FUZZ_DOOR_H

#include "base/assert.h"
#include "hosts/server/door/door.h"
#include "store/store.h"

#include <stdlib.h>

struct fuzz_run {
	struct sl_door_context context;
	struct sl_buffer out;
	void (*before)(struct sl_door_context *context); /* called before each feed; NULL: nothing is */
};

enum { FUZZ_TURNS_MAX = 1 << 20 }; /* of one input: more is a door that does not move on */

static const char fuzz_policy_text[] = "client-time: true\n"
									   "attributes: {user: header x-user}\n"
									   "limits:\n"
									   "  - {name: user, key: user | ip, limit: sliding-log 3/1m,\n"
									   "     candidate: sliding-log 2/1m, stagger: true}\n"
									   "  - {name: path, when: {method: [GET, POST], path: /a*}, key: [host, path],\n"
									   "     limit: token-bucket 2/1s burst 5}\n"
									   "  - {name: seen, key: user, limit: leaky-bucket 1/1s queue 2, observe: true}\n";

static inline const struct sluice_policy *fuzz_policy(void) {
	static struct sluice_policy *policy;
	if (policy == NULL)
		SL_ASSERT(sluice_policy_load(&policy, sl_str(fuzz_policy_text), NULL) == SLUICE_OK);
	return policy;
}

/* Feeds data[0..len) in pieces of at most `piece` bytes (0: whole) to a new connection; answers are in run->out. The
 * input is copied piece by piece into memory of just that size, so that reading past it is seen. */
static inline void fuzz_feed(const struct sl_door *door, struct fuzz_run *run, const uint8_t *data, size_t len,
                             size_t piece) {
	static char match_buffer[SLUICE_MATCH_BYTES_MAX];
	struct sluice_store_options options = {.memory_bytes = SL_ARENA_BYTES_MIN};
	size_t kept = 0, given = 0;
	enum sl_door_verdict verdict = SL_DOOR_OPEN;
	run->context.policy = fuzz_policy();
	run->context.now = UINT64_C(1800000000123456789);
	run->context.match_buffer = match_buffer;
	run->context.connection_id = 1;
	run->context.peer = (struct sl_peer){.text = "192.0.2.1:4321", .is_trusted = true};
	run->context.forms = SL_FORM_DRAFT10 | SL_FORM_LEGACY_EPOCH;
	run->context.commands = 0;
	run->out.len = 0;
	SL_ASSERT(sluice_store_open(&run->context.store, &options, NULL) == SLUICE_OK);
	void *state = door->open(&run->context);
	SL_ASSERT(state != NULL);
	for (int turn = 0; verdict != SL_DOOR_CLOSE && (verdict == SL_DOOR_MORE || given < len); turn++) {
		size_t more = verdict == SL_DOOR_MORE ? 0 : piece == 0 || len - given < piece ? len - given : piece;
		size_t avail = given + more - kept, consumed = avail + 1, before = run->out.len;
		char *copy = malloc(avail + 1);
		SL_ASSERT(copy != NULL && turn < FUZZ_TURNS_MAX);
		memcpy(copy, data + kept, avail);
		copy = realloc(copy, avail != 0 ? avail : 1);
		if (run->before != NULL)
			run->before(&run->context);
		verdict = door->feed(state, &run->context, copy, avail, &consumed, &run->out);
		free(copy);
		SL_ASSERT(consumed <= avail && run->out.len >= before && run->out.len <= run->out.capacity);
		given += more;
		kept += consumed;
		SL_ASSERT(verdict == SL_DOOR_CLOSE || given - kept <= SL_DOOR_INPUT_MAX);
	}
	door->close(state);
	sluice_store_close(run->context.store);
}

static inline void fuzz_same(const struct fuzz_run *a, const struct fuzz_run *b) {
	SL_ASSERT(a->out.len == b->out.len);
	SL_ASSERT(a->out.len == 0 || memcmp(a->out.data, b->out.data, a->out.len) == 0);
}

/* The first byte says how long the pieces are; the rest is what arrives. */
static inline int fuzz_door(const struct sl_door *door, const uint8_t *data, size_t size) {
	static struct fuzz_run whole, pieces;
	if (size == 0)
		return 0;
	fuzz_feed(door, &whole, data + 1, size - 1, 0);
	fuzz_feed(door, &pieces, data + 1, size - 1, 1 + data[0] % 64);
	fuzz_same(&whole, &pieces);
	return 0;
}

#endif
