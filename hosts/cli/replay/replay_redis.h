/* Deciding recorded traffic in a Redis or Valkey, by the module or the script there, to compare with what is decided
 * here. Each request becomes one command with AT, the instant of the log; a batch is sent at once, then read.
 *
 *   SLUICE.CHECK key cost AT ms EACH [KEY k] [NAME n] [OBSERVED] [COST n] limit ...
 *   EVALSHA sha1 keys key k ... CHECK cost AT ms EACH ...      without the module: the script of this program
 *
 * A replay's keys begin with {sluice:replay:RANDOM}: and are taken away at its end. The hash tag puts them into one
 * slot of a cluster, so that one node has them and limits with different keys decide together. */
#ifndef SL_CLI_REPLAY_REDIS_H
#define SL_CLI_REPLAY_REDIS_H

#include "hosts/cli/client.h"
#include "hosts/cli/replay/replay_keys.h"
#include "hosts/cli/url.h"
#include "policy/policy.h"

struct sl_replay_redis;

/* Connects, finds out how to decide there, and proves that instants may be set and keys be taken away. NULL with
 * `error` filled: what is missing there, and what to do.
 *  ca         for rediss://; NULL: the system's
 *  via        the module, the script, or whichever there is
 *  bytes_max  what the list of keys may take */
struct sl_replay_redis *sl_replay_redis_open(const struct sl_redis_url *url, const char *ca, enum sl_redis_via via,
                                             size_t bytes_max, struct sluice_error *error);

/* Decides calls in order, each with its items' answers and the merged one; waits are whole milliseconds. False with
 * `error` filled, as when a signal came: then nothing more can be decided.
 *  names  of each call's items, one after the other as the calls' items are; NULL: they have none */
bool sl_replay_redis_decide(struct sl_replay_redis *redis, struct sluice_call *calls, uint32_t count,
                            const char *const *names, struct sluice_error *error);

/* Takes the replay's keys away and ends the connection. False with `error` filled where some may be left there; they
 * end by themselves, later. NULL is allowed. */
bool sl_replay_redis_close(struct sl_replay_redis *redis, struct sluice_error *error);

#endif
