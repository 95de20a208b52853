/* Quotas of keys' own at run time, for the doors that set and tell them: which counters a limit and a key mean, what
 * may be set, who is told of it, and why something can't be done. A door only turns words into this, and answers back.
 *
 * Errors, with `error` saying why in one line:
 *  SLUICE_E_SYNTAX, _RANGE  a limit, key, notation or time that is none
 *  SLUICE_E_NONE            there is no limit of that name
 *  SLUICE_E_FULL            there are as many as there may be
 *  SLUICE_E_BUSY            a process has stopped with a lock of the store; nothing was changed, but
 *                          where `error` says that not all are deleted
 *  SLUICE_E_MISUSE          the counters are in Redis, and its node can't do that
 *  SLUICE_E_AWAY            or does not answer
 * And, where counters are in Redis, SL_E_WAITS: it is under way (door/pending.h); the caller leaves no trace and
 * returns SL_DOOR_WAIT. */
#ifndef SL_KEY_OVERRIDE_H
#define SL_KEY_OVERRIDE_H

#include "hosts/server/door/door.h"
#include "hosts/server/door/override_list.h"
#include "proto/override_words.h"

enum { SL_E_WAITS = 300 /* beside the values of sluice_err */ };

/* Whose quota: the counters that a limit keeps for a key. Of a limit whose overrides in the file count in windows of
 * their own there are several, and each can have a quota. About 11 KiB; borrows the limit's text. */
struct sl_override_target {
	const struct sluice_limit *limits[SL_POLICY_VARIANTS_MAX];
	uint32_t count;
	struct sluice_limit parsed;
	struct sluice_bytes name, key;
	const char *policy_name; /* of a limit of the policy: the same, NUL-ended */
	char folded[SLUICE_KEY_BYTES_MAX], memory[SLUICE_KEY_BYTES_MAX];
};

/* Who changes one, for the log and the stats. */
struct sl_override_changer {
	enum sl_transport transport;
	const char *user; /* NUL-ended; "": nobody logged in */
};

/* Finds it. `limit` is `policy:NAME` or notation, as in all commands; the name alone will do where it is no notation,
 * so that what a list tells can be asked for. */
SLUICE_MUST_USE sluice_err sl_override_find(const struct sl_door_context *context, struct sluice_bytes limit,
                                            struct sluice_bytes key, struct sl_override_target *target,
                                            struct sluice_error *error);

/* Sets the quota of the first of the counters that the notation is a quota for, and logs who did it.
 *  ttl_ms  0: it does not end
 *  own     out: the quota, as it is now */
SLUICE_MUST_USE sluice_err sl_override_set(struct sl_door_context *context,
                                           const struct sl_override_target *target, struct sluice_bytes notation,
                                           uint64_t ttl_ms, struct sl_override_changer changer,
                                           struct sluice_override *own, struct sluice_error *error);

/* The quota of the first of the counters that has one. SLUICE_E_NONE, without a text: none has. */
SLUICE_MUST_USE sluice_err sl_override_get(struct sl_door_context *context,
                                           const struct sl_override_target *target, struct sluice_override *own,
                                           struct sluice_error *error);

/* Forgets those of all of the counters, and logs who did it. *gone: how many there were. */
SLUICE_MUST_USE sluice_err sl_override_delete(struct sl_door_context *context,
                                              const struct sl_override_target *target,
                                              struct sl_override_changer changer, uint32_t *gone,
                                              struct sluice_error *error);

/* The quota of a key's own by which an item is decided, or that a limit has for a key as lists show them (`named`: a
 * name of the policy, else notation), for the doors that tell it beside other figures (proto/own_quota.h). False:
 * there is none, or it can't be told now. Where nobody has one, one load. */
bool sl_override_of_item(const struct sl_door_context *context, const struct sluice_item *item, sluice_ns now,
                         struct sluice_override *own);
bool sl_override_of_key(const struct sl_door_context *context, bool named, struct sluice_bytes limit,
                        struct sluice_bytes key, struct sluice_override *own);

/* Lists as sluice_override_list() does; where counters are in Redis, a page of one of its nodes. End it with
 * sl_override_list_free() in either case. With SLUICE_OK list->failed is to be looked at. */
SLUICE_MUST_USE sluice_err sl_override_list_read(struct sl_door_context *context, uint64_t from, uint32_t count,
                                                 struct sl_override_list *list, struct sluice_error *error);

#endif
