#include "hosts/server/access/access.h"

#include <stdlib.h>

struct sl_access {
	int unused;
};

struct sl_access *sl_access_new(void) {
	return calloc(1, sizeof(struct sl_access));
}

void sl_access_free(struct sl_access *access) {
	free(access);
}
