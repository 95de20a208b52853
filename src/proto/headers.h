/* The headers that tell a client about its limits: RateLimit-Policy, RateLimit, Retry-After, in each of the forms that
 * are in use. */
#ifndef SL_HEADERS_H
#define SL_HEADERS_H

#include "base/out.h"
#include "policy/policy.h"

/* One limit of a decision, as the headers name it. Everything is borrowed. */
struct sl_headers_limit {
	struct sluice_bytes name; /* of the policy's limit; the canonical text where it has none */
	const struct sluice_limit *limit;
	const struct sluice_decision *decision; /* its own, made with want_next */
	bool observed;                          /* told to nobody */
};

/* A decision, as the headers tell of it. */
struct sl_headers_decision {
	const struct sl_headers_limit *limits;
	uint32_t count;
	int32_t decided; /* position in `limits` of the one that decided; -1 where none did */
	bool allowed;
	sluice_ns now; /* the instant of the decision: what epochs are counted from */
};

enum {
	/* Room that all forms together need, for one limit: two names whose every byte is escaped, and its numbers. */
	SL_HEADERS_ROOM_FIXED = 512,
	SL_HEADERS_ROOM_PER_LIMIT = 192, /* besides four bytes for each byte of its name */
};

/* A String of RFC 9651: quoted, '"' and '\' escaped. It can hold printable ASCII only: any other byte becomes '?'. */
void sl_headers_string(struct sl_out *out, struct sluice_bytes text);

/* An Integer of RFC 9651: at most 15 digits, what is more is clamped to 999999999999999. */
void sl_headers_integer(struct sl_out *out, uint64_t value);

/* The `w` of a limit whose quota is `quota` (as decisions have it): whole seconds, rounded up, at least 1. The window,
 * one of the calendar as it is at the instant `now`; for token-bucket and leaky-bucket the time in which the whole
 * quota is won back. */
uint64_t sl_headers_window_s(const struct sluice_limit *limit, uint64_t quota, sluice_ns now);

/* Whether clients are told of this limit: it counts something, and is not merely observed. */
bool sl_headers_is_told(const struct sl_headers_limit *limit);

/* What draft-10 tells of one limit, for those who keep what does not change of it: its item of RateLimit-Policy, which
 * is the same as long as its quota is, unless its window is one of the calendar; and of RateLimit what stands before
 * the numbers, and these. */
void sl_headers_policy_item(struct sl_out *out, const struct sl_headers_limit *limit, sluice_ns now);
void sl_headers_state_name(struct sl_out *out, struct sluice_bytes name);
void sl_headers_state_numbers(struct sl_out *out, const struct sluice_decision *decision);

/* The header lines of each form in `forms` (SL_FORM_ bits), each with its CR LF; none where no limit is told. draft-10
 * tells of the limit that decided on a request that is allowed, and of every limit that denies on one that is not; the
 * other forms know one limit only: the one that decided. draft-7 and draft-6 share one RateLimit-Policy. */
void sl_headers_rate_limit(struct sl_out *out, uint32_t forms, const struct sl_headers_decision *decision);

/* The line of a request that passes though the store has not decided it, in whole or in part: SL_FORM_FAILED_OPEN. */
#define SL_HEADERS_FAILED_OPEN "Sluice-Failed-Open: 1\r\n"

/* "Retry-After: 7" with its CR LF: whole seconds, rounded up, at least 1. Nothing for SLUICE_NEVER. */
void sl_headers_retry_after(struct sl_out *out, sluice_ns wait_ns);

#endif
