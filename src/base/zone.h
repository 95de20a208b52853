/* Time zones: tables of instants from which on a local time holds.
 *
 * The tables are this process's: whoever reads time zones (os/zone.c) adds them once and for good, and a limit names
 * one by its number. The core itself reads no file, and who looks up a zone takes no lock. */
#ifndef SL_ZONE_H
#define SL_ZONE_H

#include "base/bytes.h"

enum {
	SL_ZONES_MAX = 1024,
	SL_ZONE_NAME_MAX = 48,  /* bytes, with NUL; the longest of tzdata has 32 */
	SL_SHIFTS_MAX = 4096,   /* of one zone; two a year up to 2554 are some 1,200 */
	SL_OFFSET_MAX_S = 86399 /* from UTC, either way */
};

/* From `from_s` on (Unix seconds) until the next one local time is UTC + offset_s. */
struct sl_shift {
	int64_t from_s;
	int32_t offset_s; /* within a day */
};

struct sl_zone {
	char name[SL_ZONE_NAME_MAX];
	uint64_t hash; /* of the name, 45 bits, not 0; part of a counter's identity, the same in every process */
	uint32_t count;
	uint32_t swing_s;              /* between the largest and the least offset */
	const struct sl_shift *shifts; /* rising; the first holds for all time before it as well */
};

/* The number of a zone that is known, or -1. "UTC" always is: 0. Some 20 ns. */
int32_t sl_zone_find(struct sluice_bytes name);

/* The same by its hash, among all that are known. Some us. */
int32_t sl_zone_find_hash(uint64_t hash);

/* The zone of a number that was found. */
const struct sl_zone *sl_zone_at(uint32_t number);

/* Whether a zone has this number. */
bool sl_zone_is_known(uint32_t number);

/* What sl_zone.hash is for a name. */
uint64_t sl_zone_hash(struct sluice_bytes name);

/* Whether shifts can be a zone's: 1..SL_SHIFTS_MAX, rising, offsets within a day. */
bool sl_shifts_are_valid(const struct sl_shift *shifts, uint32_t count);

/* Adds a zone with a name of 1..47 bytes and valid shifts, which are never given back if they are taken; from any
 * thread. Returns its number, that of a zone of the same name that was there before (whose shifts are others), or -1:
 * SL_ZONES_MAX are there. */
int32_t sl_zone_add(struct sluice_bytes name, const struct sl_shift *shifts, uint32_t count);

/* What a parser calls for a zone that is not known: finds and adds it; returns as sl_zone_find(). Set once, before the
 * first limit is parsed, by hosts that can read time zones; NULL: only UTC is there. */
extern int32_t (*sl_zone_load)(struct sluice_bytes name);

/* The same of a zone of which only the hash is known: of a counter that another process made. */
extern int32_t (*sl_zone_load_hash)(uint64_t hash);

/* What a name that is not known was probably meant to be; NULL: nothing comes near. Set likewise. */
extern const char *(*sl_zone_near)(struct sluice_bytes name);

#endif
