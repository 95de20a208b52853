#include "hosts/server/watch/top.h"
#include <stdlib.h>

struct sl_top {
	int unused;
};

struct sl_top *sl_top_new(void) {
	return calloc(1, sizeof(struct sl_top));
}

void sl_top_free(struct sl_top *top) {
	free(top);
}
