/* What all grammars read alike, so that their mistakes are told alike; see reading.h. */
#include "algo/reading.h"

#include "base/assert.h"

static const struct unit {
	const char *text;
	uint64_t ms;
} durations[] = {{"w", 604800000}, {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};

sluice_err sl_reading_fail(const struct sl_reading *in, sluice_err err, const char *where, const char *expected) {
	const char *stop = where;
	SL_ASSERT(err != SLUICE_OK && where >= in->start && where <= in->end);
	if (in->error == NULL)
		return err;
	struct sl_out out = sl_out_to(in->error->text, sizeof in->error->text - 1);
	while (stop < in->end && *stop != ' ')
		stop++;
	if (stop == where && stop < in->end)
		stop++;
	in->error->column = (uint32_t)(where - in->start) + 1;
	sl_out_str(&out, expected);
	sl_out_str(&out, ", found ");
	if (where == in->end)
		sl_out_str(&out, "the end");
	else
		sl_out_quoted(&out, sl_slice(where, (size_t)(stop - where)), 40);
	*out.at = '\0';
	return err;
}

sluice_err sl_read_digits(struct sl_reading *in, uint64_t *value, const char *expected) {
	uint64_t n = 0;
	if (in->at == in->end || !sl_is_digit(*in->at))
		return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, expected);
	for (; in->at < in->end && sl_is_digit(*in->at); in->at++)
		n = n > (UINT64_MAX - 9) / 10 ? UINT64_MAX : n * 10 + (uint64_t)(*in->at - '0');
	*value = n;
	return SLUICE_OK;
}

uint64_t sl_unit_ms(struct sluice_bytes text) {
	for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++)
		if (sl_bytes_equal(text, sl_str(durations[i].text)))
			return durations[i].ms;
	return 0;
}

/* The unit that stands here, the longest that fits: "ms" before "m". */
static const struct unit *read_unit(struct sl_reading *in) {
	const struct unit *found = NULL;
	size_t left = (size_t)(in->end - in->at), longest = 0;
	for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++) {
		size_t len = strlen(durations[i].text);
		if (len <= left && len > longest && memcmp(in->at, durations[i].text, len) == 0) {
			found = &durations[i];
			longest = len;
		}
	}
	SL_ASSERT(longest <= left);
	in->at += longest;
	return found;
}

sluice_err sl_read_duration(struct sl_reading *in, sluice_ns *ns, const char *expected) {
	const char *start = in->at;
	const struct unit *unit;
	uint64_t n;
	sluice_err err = sl_read_digits(in, &n, expected);
	if (err != SLUICE_OK)
		return err;
	unit = read_unit(in);
	if (unit == NULL)
		return sl_reading_fail(in, SLUICE_E_SYNTAX, in->at, "expected a unit of time: ms, s, m, h, d or w");
	if (n < 1 || n > SL_WINDOW_NS_MAX / SL_MS_NS / unit->ms)
		return sl_reading_fail(in, SLUICE_E_RANGE, start, "expected a duration from 1ms to 3660d");
	*ns = n * unit->ms * SL_MS_NS;
	return SLUICE_OK;
}

void sl_print_duration(struct sl_out *out, sluice_ns ns) {
	uint64_t ms = ns / SL_MS_NS;
	const struct unit *unit = durations;
	SL_ASSERT(ns % SL_MS_NS == 0); /* or there would be no last unit */
	while (ms % unit->ms != 0)
		unit++;
	sl_out_u64(out, ms / unit->ms);
	sl_out_str(out, unit->text);
}
