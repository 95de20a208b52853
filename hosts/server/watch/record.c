/* See record.h. */
#include "hosts/server/watch/record.h"

#include "base/math.h"
#include "proto/json.h"

#include <stdio.h>
#include <time.h>

_Static_assert(SL_RECORD_BYTES_MAX >= 1024 + 5 * SL_JSON_ROOM(SL_RECORD_TOLD_MAX) +
                                          SL_JSON_ROOM(SLUICE_LIMIT_TEXT_MAX) + SL_JSON_ROOM(SLUICE_KEY_BYTES_MAX) +
                                          2 * SLUICE_KEY_BYTES_MAX,
               "a record fits, whatever its texts");

/* 2026-11-21T22:00:00.123Z, as the first member. */
static void put_time(struct sl_out *out, sluice_ns now) {
	char text[40];
	time_t seconds = (time_t)(now / 1000000000);
	struct tm tm;
	gmtime_r(&seconds, &tm);
	size_t len = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
	len += (size_t)snprintf(text + len, sizeof text - len, ".%03uZ\"", (unsigned)(now % 1000000000 / 1000000));
	sl_out_str(out, "{\"time\":\"");
	sl_out_bytes(out, text, len);
}

static void put_told(struct sl_out *out, const char *name, struct sluice_bytes text) {
	if (text.data != NULL)
		sl_json_put_text(out, name, sl_slice(text.data, sl_min(text.len, SL_RECORD_TOLD_MAX)));
}

static void put_who(struct sl_out *out, const struct sl_record_line *record) {
	put_time(out, record->now);
	sl_json_put_text(out, "limit", record->limit);
	sl_json_put_key(out, sl_slice(record->key.data, sl_min(record->key.len, SLUICE_KEY_BYTES_MAX)));
	sl_json_put_u64(out, "cost", record->cost);
}

static void put_figures(struct sl_out *out, const struct sl_record_line *record) {
	sl_json_put_u64(out, "quota", record->quota);
	sl_json_put_u64(out, "remaining", record->remaining);
	sl_json_put_i64(out, "retry_after_ms", record->retry_after_ms);
	sl_json_put_i64(out, "reset_after_ms", record->reset_after_ms);
	if (record->bound != SLUICE_BOUND_NONE)
		sl_json_put_word(out, "bound", sluice_bound_name(record->bound));
}

static void put_request(struct sl_out *out, const struct sl_record_line *record) {
	sl_json_put_word(out, "transport", record->transport);
	put_told(out, "method", record->method);
	put_told(out, "route", record->route);
	put_told(out, "address", record->address);
	put_told(out, "request_id", record->request_id);
	put_told(out, "traceparent", record->traceparent);
	sl_json_put_bool(out, "observed", record->observed);
	if (record->candidate)
		sl_json_put_bool(out, "candidate", true);
}

void sl_record_put_denial(struct sl_out *out, const struct sl_record_line *record) {
	put_who(out, record);
	put_figures(out, record);
	put_request(out, record);
	sl_json_put_u64(out, "suppressed", record->suppressed);
	sl_out_char(out, '}');
}

void sl_record_put_decision(struct sl_out *out, const struct sl_record_line *record) {
	put_who(out, record);
	sl_json_put_bool(out, "allowed", record->allowed);
	if (record->undecided)
		sl_json_put_bool(out, "failed_open", record->allowed);
	else
		put_figures(out, record);
	if (record->request_denied)
		sl_json_put_bool(out, "request_denied", true);
	put_request(out, record);
	sl_out_char(out, '}');
}

void sl_record_put_skipped(struct sl_out *out, sluice_ns now, uint64_t skipped) {
	put_time(out, now);
	sl_json_put_u64(out, "skipped", skipped);
	sl_out_char(out, '}');
}
