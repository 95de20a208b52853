/* Any bytes as an Accept header at /metrics. Who asks in capitals gets what who asks in small letters gets; who names
 * OpenMetrics nowhere never gets it; and a range of no quality that is put behind it all changes nothing. */
#include "base/assert.h"
#include "proto/prom.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool names_it(const char *lower, size_t size) {
	static const char name[] = "application/openmetrics-text";
	return memmem(lower, size, name, sizeof name - 1) != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const char none[] = ",application/openmetrics-text;q=0";
	bool open = sl_prom_accepts_open_metrics(sl_slice(data, size));
	char *lower = malloc(size + sizeof none);
	SL_ASSERT(lower != NULL);
	for (size_t i = 0; i < size; i++)
		lower[i] = (char)(data[i] >= 'A' && data[i] <= 'Z' ? data[i] + 32 : data[i]);
	SL_ASSERT(sl_prom_accepts_open_metrics(sl_slice(lower, size)) == open);
	SL_ASSERT(!open || names_it(lower, size));
	memcpy(lower + size, none, sizeof none - 1);
	SL_ASSERT(sl_prom_accepts_open_metrics(sl_slice(lower, size + sizeof none - 1)) == open);
	free(lower);
	return 0;
}
