/* The headers that tell a client about its limits: RateLimit-Policy, RateLimit, Retry-After. */
#ifndef SL_HEADERS_H
#define SL_HEADERS_H

#include "base/out.h"

/* One limit of a decision, as the headers name it. Everything is borrowed. */
struct sl_headers_limit {
	struct sluice_bytes name; /* of the policy's limit; the canonical text where it has none */
	const struct sluice_limit *limit;
	const struct sluice_decision *decision; /* its own, made with want_next */
	bool observed;                          /* told to nobody */
};

enum {
	/* Room that one limit needs in both headers: two names whose every byte is escaped, and their numbers. */
	SL_HEADERS_ROOM_FIXED = 128,
	SL_HEADERS_ROOM_PER_LIMIT = 128, /* besides four bytes for each byte of its name */
};

/* A String of RFC 9651: quoted, '"' and '\' escaped. It can hold printable ASCII only: any other byte becomes '?'. */
void sl_headers_string(struct sl_out *out, struct sluice_bytes text);

/* An Integer of RFC 9651: at most 15 digits, what is more is clamped to 999999999999999. */
void sl_headers_integer(struct sl_out *out, uint64_t value);

/* The `w` of a limit whose quota is `quota` (as decisions have it): whole seconds, rounded up, at least 1. The window;
 * for token-bucket and leaky-bucket the time in which the whole quota is won back. */
uint64_t sl_headers_window_s(const struct sluice_limit *limit, uint64_t quota);

/* Whether clients are told of this limit: it counts something, and is not merely observed. */
bool sl_headers_is_told(const struct sl_headers_limit *limit);

/* Both header lines, each with its CR LF; nothing where no limit is told.
 *  decided  position in `limits` of the one that decided, reported when the request is `allowed`; else -1. A denied
 *           request reports every limit that denies */
void sl_headers_rate_limit(struct sl_out *out, const struct sl_headers_limit *limits, uint32_t count, bool allowed,
                           int32_t decided);

/* "Retry-After: 7" with its CR LF: whole seconds, rounded up, at least 1. Nothing for SLUICE_NEVER. */
void sl_headers_retry_after(struct sl_out *out, sluice_ns wait_ns);

#endif
