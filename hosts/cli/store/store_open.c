/* See store_open.h. One reading of names for all verbs, so that each says the same of a name that is none. */
#include "hosts/cli/store/store_open.h"

#include "base/out.h"
#include "hosts/library/home.h"
#include "os/process.h"

#include <inttypes.h>
#include <stdio.h>

bool sl_store_name_is_shared(const char *name) {
	return strncmp(name, SL_STORE_SHARED, strlen(SL_STORE_SHARED)) == 0;
}

static struct sluice_store_options options_of(const char *name) {
	struct sluice_store_options options = {.file = name};
	if (sl_store_name_is_shared(name))
		options = (struct sluice_store_options){.shared = name + strlen(SL_STORE_SHARED)};
	return options;
}

struct sluice_store *sl_store_open_existing(const struct sl_verb *verb, const char *name) {
	struct sluice_store_options options = options_of(name);
	struct sluice_error error = {.text = ""};
	struct sluice_store *store = NULL;
	options.existing = true;
	sluice_err err = sluice_store_open(&store, &options, &error);
	if (err == SLUICE_OK)
		return store;
	if (err == SLUICE_E_NONE)
		sl_cli_fail(verb, "%.256s: there is no such store; `sluice store create` makes one", name);
	else
		sl_cli_fail(verb, "%s", error.text);
	return NULL;
}

int sl_store_create(const struct sl_verb *verb, const char *name, uint64_t bytes, uint32_t percent) {
	struct sluice_store_options options = options_of(name);
	struct sluice_error error = {.text = ""};
	struct sluice_store *store = NULL;
	options.existing = true;
	sluice_err err = sluice_store_open(&store, &options, &error);
	if (err == SLUICE_OK) {
		sluice_store_close(store);
		return sl_cli_fail(verb, "%.256s: there is a store already", name);
	}
	options.existing = false;
	options.memory_bytes = bytes;
	options.blocks_percent = percent;
	if (err == SLUICE_E_NONE)
		err = sluice_store_open(&store, &options, &error);
	if (err != SLUICE_OK)
		return sl_cli_fail(verb, "%s", error.text);
	sluice_store_close(store);
	return SL_EXIT_FINE;
}

/* Who has a store open beside this process: " (process 12, 345)", by the numbers that they have in their own
 * namespaces; the first few. */
static void name_others(const struct sluice_store *store, char *text, size_t bytes) {
	struct sl_out out = sl_out_to(text, bytes - 1);
	int told = 0;
	for (uint32_t row = 1; row < SL_PROCESSES && told < 5; row++) {
		if (row == store->owner >> SL_OWNER_ROW_SHIFT || !sl_row_is_held(sl_home_of(store)->fd, row))
			continue;
		sl_out_str(&out, told++ == 0 ? " (process " : ", ");
		sl_out_u64(&out, store->processes->rows[row].pid);
	}
	sl_out_str(&out, told == 0 ? "" : ")");
	*out.at = '\0';
}

int sl_store_be_alone(const struct sl_verb *verb, const char *name, const struct sluice_store *store,
                      const char *what) {
	uint32_t others = sl_home_processes(sl_home_of(store)) - 1;
	char who[128];
	if (others == 0)
		return SL_GO_ON;
	name_others(store, who, sizeof who);
	return sl_cli_fail(verb, "%.256s: %u other process%s it open%s: stop %s to %s", name, others,
	                   others == 1 ? " has" : "es have", who, others == 1 ? "it" : "them", what);
}

const char *sl_cli_bytes(char text[SL_SIZE_TEXT_MAX], uint64_t bytes) {
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB"};
	int unit = bytes >> 30 != 0 ? 3 : bytes >> 20 != 0 ? 2 : bytes >> 10 != 0 ? 1 : 0;
	uint64_t whole = bytes >> (10 * unit), rest = bytes - (whole << (10 * unit));
	uint64_t tenths = rest * 10 >> (10 * unit); /* rounded down: 1.9 GiB are not yet 2 */
	if (tenths != 0)
		snprintf(text, SL_SIZE_TEXT_MAX, "%" PRIu64 ".%u %s", whole, (unsigned)(tenths % 10), units[unit]);
	else
		snprintf(text, SL_SIZE_TEXT_MAX, "%" PRIu64 " %s", whole, units[unit]);
	return text;
}
