/* See override_words.h. */
#include "proto/override_words.h"

#include "base/text.h"
#include "proto/command.h"

#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 2, 3))) static bool fail(struct sl_override_words *words, const char *format, ...) {
	va_list values;
	va_start(values, format);
	(void)vsnprintf(words->error, sizeof words->error, format, values);
	va_end(values);
	return false;
}

/* Takes NAME name off the end. */
static bool take_name(struct sl_override_words *words, const struct sluice_bytes *args, uint32_t *count, uint32_t least,
                      bool fronts) {
	words->name = sl_slice(NULL, 0);
	if (!fronts || *count < least + 2 || !sl_bytes_equal_nocase(args[*count - 2], "NAME"))
		return true;
	words->name = args[*count - 1];
	*count -= 2;
	return (words->name.len != 0 && words->name.len <= SLUICE_NAME_BYTES_MAX) ||
	       fail(words, "NAME needs a name of 1 to %d bytes", SLUICE_NAME_BYTES_MAX);
}

bool sl_override_read_set(struct sl_override_words *words, const struct sluice_bytes *args, uint32_t count,
                          bool fronts) {
	const struct sl_meaning *ttl = &sl_fields[SL_FIELD_TTL];
	if (!take_name(words, args, &count, 5, fronts))
		return false;
	if (count < 5 || count > 6)
		return fail(words, "expected SLUICE.OVERRIDE SET limit key quota [ttl_ms]%s", fronts ? " [NAME name]" : "");
	words->limit = args[2];
	words->key = args[3];
	words->quota = args[4];
	words->ttl_ms = 0;
	if (count == 6 && (!sl_bytes_to_u64(args[5], &words->ttl_ms) || !sl_meaning_has(ttl, words->ttl_ms)))
		return fail(words, "ttl_ms %s: expected a whole number from %llu to %llu", sl_shown(args[5]).text,
		            (unsigned long long)ttl->least, (unsigned long long)ttl->most);
	return true;
}

bool sl_override_read_one(struct sl_override_words *words, const struct sluice_bytes *args, uint32_t count,
                          bool fronts) {
	if (!take_name(words, args, &count, 4, fronts))
		return false;
	if (count != 4)
		return fail(words, "expected SLUICE.OVERRIDE GET|DEL limit key%s", fronts ? " [NAME name]" : "");
	words->limit = args[2];
	words->key = args[3];
	return true;
}

bool sl_override_read_list(struct sl_override_words *words, const struct sluice_bytes *args, uint32_t count) {
	uint64_t listed = SL_OVERRIDES_LISTED;
	words->from = 0;
	if ((count != 2 && count != 3 && count != 5) || (count > 2 && !sl_bytes_to_u64(args[2], &words->from)) ||
	    (count == 5 && (!sl_bytes_equal_nocase(args[3], "COUNT") || !sl_bytes_to_u64(args[4], &listed) || listed < 1 ||
	                    listed > SL_OVERRIDES_LISTED_MAX)))
		return fail(words, "expected SLUICE.OVERRIDE LIST [cursor [COUNT 1..%d]]", SL_OVERRIDES_LISTED_MAX);
	words->count = (uint32_t)listed;
	return true;
}
