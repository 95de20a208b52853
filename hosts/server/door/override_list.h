/* A list of quotas of keys' own, copied: a store is not kept waiting by who reads it. */
#ifndef SL_OVERRIDE_LIST_H
#define SL_OVERRIDE_LIST_H

#include "base/bytes.h"

struct sl_override_listed {
	struct sluice_bytes name, key, limit; /* into the list's memory */
	int64_t ms_left;
};
struct sl_override_list {
	struct sl_override_listed *list;
	size_t count, room;
	char *texts;
	size_t used, bytes;
	uint64_t next; /* where to go on; 0: that was all */
	bool failed;   /* there was no memory */
};

/* Adds one, whose texts are copied; without memory list->failed is set. After the last of them, their addresses are
 * there. */
void sl_override_list_add(struct sl_override_list *list, struct sluice_bytes name, struct sluice_bytes key,
                          struct sluice_bytes limit, int64_t ms_left);
void sl_override_list_end(struct sl_override_list *list);

/* Gives its memory back; all zero is allowed. */
void sl_override_list_free(struct sl_override_list *list);

#endif
