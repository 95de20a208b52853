/* zones: what a limit costs whose time zone nobody has, which strangers may name: instructions of one parse.
 *
 *     valgrind --tool=callgrind --toggle-collect='measure_*' zones NAME */
#include "bench/bench.h"
#include "os/zone.h"

#include <stdio.h>

enum { PARSES = 100 };

static __attribute__((noinline)) void measure_parses(const char *text) {
	struct sluice_limit limit;
	struct sluice_error error;
	for (int i = 0; i < PARSES; i++)
		(void)!sluice_limit_parse(&limit, sl_str(text), &error);
}

int main(int argc, char **argv) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	struct sluice_limit limit;
	struct sluice_error error = {.column = 0};
	if (argc != 2)
		return 2;
	sl_zone_use_host();
	snprintf(text, sizeof text, "5/day at %s", argv[1]);
	if (sluice_limit_parse(&limit, sl_str(text), &error) == SLUICE_OK) /* which lists the zones */
		return 1;
	measure_parses(text);
	puts(error.text);
	return 0;
}
