/* The words of SLUICE.OVERRIDE, once for the server and the module in Redis:
 *
 *   SET limit key quota [ttl_ms]   GET limit key   DEL limit key   LIST [cursor [COUNT count]]
 *
 * and, from fronts to the module alone, NAME name at the end of the first three: of the limit in their policy, whose
 * counter it is. Reading copies nothing. */
#ifndef SL_PROTO_OVERRIDE_WORDS_H
#define SL_PROTO_OVERRIDE_WORDS_H

#include "base/bytes.h"

enum {
	SL_OVERRIDES_LISTED = 100, /* of a list, where nobody says how many */
	SL_OVERRIDES_LISTED_MAX = 10000,
	SL_OVERRIDE_ERROR_BYTES = 640,
};

struct sl_override_words {
	struct sluice_bytes limit, key, quota;
	struct sluice_bytes name; /* data NULL: none was given */
	uint64_t ttl_ms;          /* 0: none was given */
	uint64_t from;
	uint32_t count;
	char error[SL_OVERRIDE_ERROR_BYTES]; /* where it failed: one line, NUL-ended, without the ERR before it */
};

/* Each reads all arguments of its subcommand, the two names of that among them. `fronts`: NAME is read. False with the
 * error filled. */
SLUICE_MUST_USE bool sl_override_read_set(struct sl_override_words *words, const struct sluice_bytes *args,
                                          uint32_t count, bool fronts);
SLUICE_MUST_USE bool sl_override_read_one(struct sl_override_words *words, const struct sluice_bytes *args,
                                          uint32_t count, bool fronts);
SLUICE_MUST_USE bool sl_override_read_list(struct sl_override_words *words, const struct sluice_bytes *args,
                                           uint32_t count);

#endif
