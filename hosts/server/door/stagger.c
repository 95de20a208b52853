#include "hosts/server/door/stagger.h"

#include <stdlib.h>

struct sl_stagger {
	int unused;
};

struct sl_stagger *sl_stagger_new(void) {
	return calloc(1, sizeof(struct sl_stagger));
}

void sl_stagger_free(struct sl_stagger *stagger) {
	free(stagger);
}
