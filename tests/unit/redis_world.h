/* A few keys of the module's values and random calls of them, for the tests of hosts/redis that need no Redis. */
#ifndef TESTS_UNIT_REDIS_WORLD_H
#define TESTS_UNIT_REDIS_WORLD_H

#include "hosts/redis/decide.h"
#include "tests/model/dice.h"

enum { WORLD_KEYS = 3, WORLD_RULES = 6 };

struct redis_world {
	struct dice dice;
	uint64_t now_ms, latest_ms;
	struct twin_rule rules[WORLD_RULES];
	struct sluice_limit limits[WORLD_RULES];
	slr_value values[WORLD_KEYS], replicas[WORLD_KEYS];
	struct slr_effects effects[SLUICE_ITEMS_MAX];
	struct slr_call call;
	uint8_t keys_of_call[SLUICE_ITEMS_MAX]; /* which of the world's a key of the call is */
};

/* A world of random limits; some meet in one counter, some have names. Free it with redis_world_end(). */
void redis_world_begin(struct redis_world *world, uint64_t stream);
void redis_world_end(struct redis_world *world);

/* A call of random items of the world, SL_OP_CHECK, at the world's instant, which goes on and sometimes back. */
void redis_world_draw(struct redis_world *world);

/* Decides the world's call on its values, and applies its effects to the replicas; aborts when a value is no longer
 * valid or a replica refuses effects. */
enum slr_failure redis_world_decide(struct redis_world *world);

/* A quota of a key's own that was set, or forgotten, in a value and its replica. */
struct redis_own {
	uint8_t key;
	const struct sluice_limit *limit;
	struct sluice_limit own; /* unlimited, or a quota for the limit's counter */
	sluice_ns ttl_ns;        /* 0: it does not end */
	bool set;
};

/* Sets or forgets one, of a random limit and key of the world; some end, where that is asked for. */
struct redis_own redis_world_override(struct redis_world *world, bool some_end);

/* A call of one item of a limit, which outlives it, at an instant, on a value. */
struct slr_call redis_call(enum sl_operation operation, slr_value value, const struct sluice_limit *limit,
                           sluice_ns now, uint32_t cost);

/* A limit from notation; aborts when it is none. */
struct sluice_limit redis_limit(const char *text);

/* Decides a call of one item `ms` behind REDIS_NOW on a value, which it changes, with an id, if that is not 0, and a
 * time to live of 1 s; aborts when it fails, or the value is no longer valid. */
#define REDIS_NOW (UINT64_C(1800000000) * 1000000000)
struct slr_call redis_do(enum sl_operation operation, slr_value *value, const struct sluice_limit *limit, uint64_t ms,
                         uint32_t cost, uint64_t id);

/* The bytes of a value, which say all that it is; free with slr_bytes_free(). */
struct slr_bytes redis_bytes(slr_value value);

/* Wall time in these tests. */
int64_t redis_wall_ms(void);

#endif
