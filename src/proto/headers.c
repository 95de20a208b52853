/* RateLimit-Policy, RateLimit and Retry-After, as draft-ietf-httpapi-ratelimit-headers-10 has them, and the forms that
 * came before.
 *
 *   draft-10      RateLimit-Policy: "per-user";q=600;w=60, "login";q=5;w=60
 *                 RateLimit: "per-user";r=41;t=3
 *   draft-7       RateLimit-Policy: 600;w=60, 5;w=60
 *                 RateLimit: limit=600, remaining=41, reset=57
 *   draft-6       RateLimit-Policy: 600;w=60, 5;w=60
 *                 RateLimit-Limit: 600    RateLimit-Remaining: 41    RateLimit-Reset: 57
 *   legacy        X-RateLimit-Limit: 600  X-RateLimit-Remaining: 41  X-RateLimit-Reset: 57, or 1767225657 (epoch)
 *   all           Retry-After: 3
 *
 * draft-10's are Lists of RFC 9651, written in its canonical form: Strings, Integers, no space before ';', ", "
 * between; draft-7's RateLimit is a Dictionary, so a policy never has both. The older forms say when the whole quota is
 * back, not when more of it is: that is what their reset means. Clients must ignore a field that does not parse, so one
 * wrong byte would hide all of it:
 *
 *  I1  A String holds printable ASCII only, an Integer at most 15 digits.
 *  I2  w is above 0; t and Retry-After are rounded up, so that a client that waits as told is never too early.
 *      An epoch is rounded up likewise.
 *  I3  t is the wait until `remaining` grows by one, not until the window is empty: a sliding window gives back before
 *      it ends. It is left out while there is nothing to wait for.
 *
 * w is "the time in which q is won back". A window's is its length, of one of the calendar that of the present one;
 * buckets win back at Q/W, so that
 *   token-bucket Q/W burst B:  q = B,      w = ceil(B * W / Q)
 *   leaky-bucket Q/W queue N:  q = N + 1,  w = ceil((N + 1) * W / Q)
 *   concurrency N lease T:     q = N,      no w: draft-10 has qu="concurrent-requests" */
#include "proto/headers.h"
#include "algo/calendar.h"
#include "algo/traits.h"
#include "base/math.h"
#include "base/plain.h"

static const uint64_t integer_max = 999999999999999, second_ns = 1000000000;

void sl_headers_string(struct sl_out *out, struct sluice_bytes text) {
	const unsigned char *p = text.data;
	sl_out_char(out, '"');
	for (size_t i = 0; i < text.len; i++) {
		size_t plain = sl_plain_len(p + i, text.len - i);
		sl_out_bytes(out, p + i, plain);
		i += plain;
		if (i == text.len)
			break;
		bool escaped = p[i] == '"' || p[i] == '\\';
		if (escaped)
			sl_out_char(out, '\\');
		sl_out_char(out, escaped ? (char)p[i] : '?');
	}
	sl_out_char(out, '"');
}

void sl_headers_integer(struct sl_out *out, uint64_t value) {
	sl_out_u64(out, value < integer_max ? value : integer_max);
}

uint64_t sl_headers_window_s(const struct sluice_limit *limit, uint64_t quota, sluice_ns now) {
	bool bucket = sl_rule_has(limit, SL_DRAINS);
	/* quota 0 is won back at once: its window is as good a number as any */
	if (bucket && limit->quota != 0 && quota != 0)
		return sl_max(1, sl_div_ceil(sl_mul(quota, limit->window_ns), limit->quota * second_ns));
	sluice_ns window_ns = limit->window_ns;
	if (limit->calendar != SLUICE_CALENDAR_NONE) {
		struct sl_span span = sl_calendar_span(limit, now);
		window_ns = span.end - span.start;
	}
	return sl_max(1, window_ns / second_ns + (window_ns % second_ns != 0));
}

bool sl_headers_is_told(const struct sl_headers_limit *limit) {
	return !limit->observed && sl_rule_has(limit->limit, SL_HAS_COUNTER);
}

/* ---- draft-10 ------------------------------------------------------------------------------------------------ */

/* What is in flight is counted in no window: its unit is told instead (section 3.2 of the draft). */
static void put_window(struct sl_out *out, const struct sl_headers_limit *limit, sluice_ns now) {
	if (sl_rule_has(limit->limit, SL_TAKES_LEASE)) {
		sl_out_str(out, ";qu=\"concurrent-requests\"");
		return;
	}
	sl_out_bytes(out, ";w=", 3);
	sl_headers_integer(out, sl_headers_window_s(limit->limit, limit->decision->quota, now));
}

void sl_headers_policy_item(struct sl_out *out, const struct sl_headers_limit *limit, sluice_ns now) {
	sl_headers_string(out, limit->name);
	sl_out_bytes(out, ";q=", 3);
	sl_headers_integer(out, limit->decision->quota);
	put_window(out, limit, now);
}

void sl_headers_state_name(struct sl_out *out, struct sluice_bytes name) {
	sl_headers_string(out, name);
	sl_out_bytes(out, ";r=", 3);
}

void sl_headers_state_numbers(struct sl_out *out, const struct sluice_decision *decision) {
	sluice_ns next_ns = decision->next_after_ns;
	sl_headers_integer(out, decision->remaining);
	if (next_ns == 0 || next_ns == SLUICE_NEVER)
		return;
	sl_out_bytes(out, ";t=", 3);
	sl_headers_integer(out, (uint64_t)sl_ns_to_s_ceil(next_ns));
}

/* Is this limit's state told, rather than its quota only? */
static bool is_reported(const struct sl_headers_decision *decision, uint32_t i) {
	const struct sl_headers_limit *limit = &decision->limits[i];
	if (!sl_headers_is_told(limit))
		return false;
	return decision->allowed ? (int32_t)i == decision->decided : !limit->decision->allowed;
}

static void put_draft10(struct sl_out *out, const struct sl_headers_decision *decision) {
	const char *before = "RateLimit-Policy: ";
	for (uint32_t i = 0; i < decision->count; i++)
		if (sl_headers_is_told(&decision->limits[i])) {
			sl_out_str(out, before);
			sl_headers_policy_item(out, &decision->limits[i], decision->now);
			before = ", ";
		}
	if (*before != ',')
		return;
	before = "\r\nRateLimit: ";
	for (uint32_t i = 0; i < decision->count; i++)
		if (is_reported(decision, i)) {
			sl_out_str(out, before);
			sl_headers_state_name(out, decision->limits[i].name);
			sl_headers_state_numbers(out, decision->limits[i].decision);
			before = ", ";
		}
	sl_out_bytes(out, "\r\n", 2);
}

/* ---- the forms that know one limit --------------------------------------------------------------------------- */

static void put_field(struct sl_out *out, const char *name, uint64_t value) {
	sl_out_str(out, name);
	sl_headers_integer(out, value);
	sl_out_bytes(out, "\r\n", 2);
}

/* 600;w=60, of every limit that is told */
static void put_quotas(struct sl_out *out, const struct sl_headers_decision *decision) {
	const char *before = "RateLimit-Policy: ";
	for (uint32_t i = 0; i < decision->count; i++) {
		const struct sl_headers_limit *limit = &decision->limits[i];
		if (!sl_headers_is_told(limit))
			continue;
		sl_out_str(out, before);
		sl_headers_integer(out, limit->decision->quota);
		if (!sl_rule_has(limit->limit, SL_TAKES_LEASE))
			put_window(out, limit, decision->now);
		before = ", ";
	}
	sl_out_bytes(out, "\r\n", 2);
}

static void put_draft7(struct sl_out *out, const struct sluice_decision *decider, uint64_t reset_s) {
	sl_out_str(out, "RateLimit: limit=");
	sl_headers_integer(out, decider->quota);
	sl_out_str(out, ", remaining=");
	sl_headers_integer(out, decider->remaining);
	put_field(out, ", reset=", reset_s);
}

/* When the whole quota is back, in Unix seconds. */
static uint64_t epoch_of(sluice_ns now, sluice_ns wait_ns) {
	return (uint64_t)sl_ns_to_s_ceil(now > SLUICE_NEVER - 1 - wait_ns ? SLUICE_NEVER - 1 : now + wait_ns);
}

static void put_single(struct sl_out *out, uint32_t forms, const struct sl_headers_decision *decision) {
	const struct sluice_decision *decider = decision->limits[decision->decided].decision;
	sluice_ns reset_ns = decider->reset_after_ns != SLUICE_NEVER ? decider->reset_after_ns : 0;
	uint64_t reset_s = (uint64_t)sl_ns_to_s_ceil(reset_ns);
	if (forms & (SL_FORM_DRAFT7 | SL_FORM_DRAFT6))
		put_quotas(out, decision);
	if (forms & SL_FORM_DRAFT7)
		put_draft7(out, decider, reset_s);
	if (forms & SL_FORM_DRAFT6) {
		put_field(out, "RateLimit-Limit: ", decider->quota);
		put_field(out, "RateLimit-Remaining: ", decider->remaining);
		put_field(out, "RateLimit-Reset: ", reset_s);
	}
	if (forms & (SL_FORM_LEGACY_EPOCH | SL_FORM_LEGACY_DELTA)) {
		put_field(out, "X-RateLimit-Limit: ", decider->quota);
		put_field(out, "X-RateLimit-Remaining: ", decider->remaining);
		put_field(out,
		          "X-RateLimit-Reset: ", forms & SL_FORM_LEGACY_EPOCH ? epoch_of(decision->now, reset_ns) : reset_s);
	}
}

void sl_headers_rate_limit(struct sl_out *out, uint32_t forms, const struct sl_headers_decision *decision) {
	const uint32_t single = SL_FORM_DRAFT7 | SL_FORM_DRAFT6 | SL_FORM_LEGACY_EPOCH | SL_FORM_LEGACY_DELTA;
	int32_t decided = decision->decided;
	if (forms & SL_FORM_DRAFT10)
		put_draft10(out, decision);
	if ((forms & single) && decided >= 0 && (uint32_t)decided < decision->count &&
	    sl_headers_is_told(&decision->limits[decided]))
		put_single(out, forms, decision);
}

void sl_headers_retry_after(struct sl_out *out, sluice_ns wait_ns) {
	if (wait_ns == SLUICE_NEVER)
		return;
	sl_out_str(out, "Retry-After: ");
	sl_out_u64(out, sl_max(1, (uint64_t)sl_ns_to_s_ceil(wait_ns)));
	sl_out_bytes(out, "\r\n", 2);
}
