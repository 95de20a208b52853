/* RateLimit-Policy, RateLimit and Retry-After, as draft-ietf-httpapi-ratelimit-headers-10 has them.
 *
 *   RateLimit-Policy: "per-user";q=600;w=60, "login";q=5;w=60
 *   RateLimit: "per-user";r=41;t=3
 *   Retry-After: 3
 *
 * Both are Lists of RFC 9651, written in its canonical form: Strings, Integers, no space before ';', ", " between.
 * Clients must ignore a field that does not parse, so one wrong byte would hide all of it:
 *
 *  I1  A String holds printable ASCII only, an Integer at most 15 digits.
 *  I2  w is above 0; t and Retry-After are rounded up, so that a client that waits as told is never too early.
 *  I3  t is the wait until `remaining` grows by one, not until the window is empty: a sliding window gives back before
 *      it ends. It is left out while there is nothing to wait for.
 *
 * w is "the time in which q is won back". A window's is its length; buckets win back at Q/W, so that
 *   token-bucket Q/W burst B:  q = B,      w = ceil(B * W / Q)
 *   leaky-bucket Q/W queue N:  q = N + 1,  w = ceil((N + 1) * W / Q) */
#include "proto/headers.h"
#include "base/math.h"

static const uint64_t integer_max = 999999999999999, second_ns = 1000000000;

void sl_headers_string(struct sl_out *out, struct sluice_bytes text) {
	const unsigned char *p = text.data;
	sl_out_char(out, '"');
	for (size_t i = 0; i < text.len; i++) {
		if (p[i] == '"' || p[i] == '\\')
			sl_out_char(out, '\\');
		sl_out_char(out, p[i] >= 0x20 && p[i] < 0x7f ? (char)p[i] : '?');
	}
	sl_out_char(out, '"');
}

void sl_headers_integer(struct sl_out *out, uint64_t value) {
	sl_out_u64(out, value < integer_max ? value : integer_max);
}

uint64_t sl_headers_window_s(const struct sluice_limit *limit, uint64_t quota) {
	bool bucket = limit->algorithm == SLUICE_TOKEN_BUCKET || limit->algorithm == SLUICE_LEAKY_BUCKET;
	/* quota 0 is won back at once: its window is as good a number as any */
	if (bucket && limit->quota != 0 && quota != 0)
		return sl_max(1, sl_div_ceil(sl_mul(quota, limit->window_ns), limit->quota * second_ns));
	return sl_max(1, limit->window_ns / second_ns + (limit->window_ns % second_ns != 0));
}

bool sl_headers_is_told(const struct sl_headers_limit *limit) {
	return !limit->observed && limit->limit->algorithm != SLUICE_UNLIMITED;
}

static void policy_item(struct sl_out *out, const struct sl_headers_limit *limit) {
	sl_headers_string(out, limit->name);
	sl_out_bytes(out, ";q=", 3);
	sl_headers_integer(out, limit->decision->quota);
	sl_out_bytes(out, ";w=", 3);
	sl_headers_integer(out, sl_headers_window_s(limit->limit, limit->decision->quota));
}

static void state_item(struct sl_out *out, const struct sl_headers_limit *limit) {
	sluice_ns next_ns = limit->decision->next_after_ns;
	sl_headers_string(out, limit->name);
	sl_out_bytes(out, ";r=", 3);
	sl_headers_integer(out, limit->decision->remaining);
	if (next_ns == 0 || next_ns == SLUICE_NEVER)
		return;
	sl_out_bytes(out, ";t=", 3);
	sl_headers_integer(out, (uint64_t)sl_ns_to_s_ceil(next_ns));
}

void sl_headers_rate_limit(struct sl_out *out, const struct sl_headers_limit *limits, uint32_t count, bool allowed,
                           int32_t decided) {
	const char *before = "RateLimit-Policy: ";
	for (uint32_t i = 0; i < count; i++)
		if (sl_headers_is_told(&limits[i])) {
			sl_out_str(out, before);
			policy_item(out, &limits[i]);
			before = ", ";
		}
	if (*before != ',')
		return;
	before = "\r\nRateLimit: ";
	for (uint32_t i = 0; i < count; i++)
		if (sl_headers_is_told(&limits[i]) && (allowed ? (int32_t)i == decided : !limits[i].decision->allowed)) {
			sl_out_str(out, before);
			state_item(out, &limits[i]);
			before = ", ";
		}
	sl_out_bytes(out, "\r\n", 2);
}

void sl_headers_retry_after(struct sl_out *out, sluice_ns wait_ns) {
	if (wait_ns == SLUICE_NEVER)
		return;
	sl_out_str(out, "Retry-After: ");
	sl_out_u64(out, sl_max(1, (uint64_t)sl_ns_to_s_ceil(wait_ns)));
	sl_out_bytes(out, "\r\n", 2);
}
