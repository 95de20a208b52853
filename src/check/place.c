/* Where the counter of a long key lives: see part.h. Apart, so that calls of short keys need no memory for it. */
#include "base/fold.h"
#include "check/part.h"

struct sl_place part_place_long(const struct sluice_store *store, const struct sluice_item *item) {
	char folded[SLUICE_KEY_BYTES_MAX];
	struct sluice_item short_item = *item;
	short_item.key = sl_key_fold(folded, item->key);
	return part_place_short(store, &short_item);
}
