/* ACKs: what was decided, as variables of HAProxy's transaction.
 *
 *   denied            bool: answer 429
 *   retry             where denied, unless for good: seconds, as Retry-After has them; retry_after_ms the same in ms
 *   limit             the name of the limit that decided; quota, remaining and reset_after_ms are its own
 *   delay_ms          how long a leaky bucket would hold the request, where it would
 *   ticket            what it holds, for `commit`
 *   ratelimit, ..     the headers that the listener's forms have, by their names in lower case with _ for -
 *   failed_open       bool, true: nobody has decided it, and its limits let it pass; unable: they deny it
 *   refused, error    words: the request is wrong; the question is */
#include "hosts/server/spop/spop.h"

#include "base/assert.h"
#include "hosts/server/door/pending.h"
#include "proto/headers.h"

enum { ACK_ROOM = 1024, HEADER_NAME_MAX = 40 };

/* ---- frames of words -------------------------------------------------------------------------------------------- */

bool sl_spop_answer_words(struct sl_spop_turn *turn, uint64_t stream, uint64_t frame, const char *name,
                          const char *words) {
	char *to = sl_buffer_reserve(turn->out, ACK_ROOM);
	if (to == NULL)
		return false;
	struct sl_out out = sl_out_to(to, ACK_ROOM);
	char *start = sl_spop_begin(&out, SL_SPOP_ACK, stream, frame);
	sl_spop_set_text(&out, name, sl_str(words));
	sl_spop_end(&out, start);
	SL_ASSERT(!out.overflow);
	turn->out->len += sl_out_len(&out);
	return true;
}

const char *sl_spop_refusal(sluice_err err) {
	switch (err) {
	case SLUICE_OK:
	case SLUICE_E_AWAY:
	case SLUICE_E_BUSY:
		return NULL;
	case SLUICE_E_APART:
		return SL_PENDING_APART_TEXT;
	case SLUICE_E_MISUSE:
		return SL_PENDING_MISUSE_TEXT;
	default:
		return "the request could not be decided";
	}
}

/* ---- decisions -------------------------------------------------------------------------------------------------- */

/* "RateLimit-Policy: x\r\n" becomes the variable ratelimit_policy. */
static void set_header(struct sl_out *out, struct sluice_bytes line) {
	char name[HEADER_NAME_MAX];
	const char *p = line.data, *colon = memchr(p, ':', line.len);
	SL_ASSERT(colon != NULL && colon - p < HEADER_NAME_MAX);
	for (ptrdiff_t i = 0; i < colon - p; i++)
		name[i] = (char)(p[i] == '-' ? '_' : p[i] >= 'A' && p[i] <= 'Z' ? p[i] + 32 : p[i]);
	name[colon - p] = '\0';
	sl_spop_set_text(out, name, sl_slice(colon + 2, line.len - (size_t)(colon + 2 - p)));
}

static void set_headers(struct sl_out *out, struct sl_spop_turn *turn, const struct sl_spop_ask *ask) {
	char lines[SL_HEADERS_ROOM_FIXED + SLUICE_ITEMS_MAX * (SL_HEADERS_ROOM_PER_LIMIT + 4 * SLUICE_NAME_BYTES_MAX)];
	struct sl_out text = sl_out_to(lines, sizeof lines);
	struct sl_headers_limit limits[SLUICE_ITEMS_MAX];
	struct sluice_limit own[SLUICE_ITEMS_MAX];
	for (uint32_t i = 0; i < ask->match.count; i++)
		limits[i] =
			(struct sl_headers_limit){sl_str(sluice_policy_limit_name(turn->context->policy, ask->match.position[i])),
		                              sl_admission_limit(sl_door_counts(turn->context), &ask->items[i], &ask->each[i],
		                                                 ask->call->now, &own[i]),
		                              &ask->each[i], ask->items[i].observed};
	struct sl_headers_decision decision = {.limits = limits,
	                                       .count = ask->match.count,
	                                       .decided = ask->call->merged.index,
	                                       .allowed = ask->call->merged.allowed,
	                                       .now = ask->call->now};
	sl_headers_rate_limit(&text, turn->context->forms, &decision);
	for (const char *p = lines; p < text.at;) {
		const char *end = memchr(p, '\r', (size_t)(text.at - p));
		SL_ASSERT(end != NULL);
		set_header(out, sl_slice(p, (size_t)(end - p)));
		p = end + 2;
	}
}

static void set_waits(struct sl_out *out, const struct sluice_decision *merged) {
	if (!merged->allowed && merged->retry_after_ns != SLUICE_NEVER)
		sl_spop_set_number(out, "retry", sl_ns_to_s_ceil(merged->retry_after_ns));
	if (!merged->allowed)
		sl_spop_set_number(out, "retry_after_ms", sl_ns_to_ms_ceil(merged->retry_after_ns));
	if (merged->delay_ns != 0)
		sl_spop_set_number(out, "delay_ms", sl_ns_to_ms_ceil(merged->delay_ns));
}

/* Of the limit that decided. */
static const char *name_of(struct sl_spop_turn *turn, const struct sl_spop_ask *ask,
                           const struct sluice_decision *merged) {
	SL_ASSERT((uint32_t)merged->index < ask->match.count);
	return sluice_policy_limit_name(turn->context->policy, ask->match.position[(uint32_t)merged->index]);
}

static void set_decision(struct sl_out *out, struct sl_spop_turn *turn, const struct sl_spop_ask *ask,
                         const struct sl_call_outcome *outcome) {
	const struct sluice_call *call = ask->call;
	const struct sluice_decision *merged = &call->merged;
	char ticket[SL_TICKET_BYTES_MAX];
	sl_spop_set_bool(out, "denied", !merged->allowed);
	set_waits(out, merged);
	if (merged->index >= 0) {
		sl_spop_set_text(out, "limit", sl_str(name_of(turn, ask, merged)));
		sl_spop_set_number(out, "quota", (int64_t)merged->quota);
		sl_spop_set_number(out, "remaining", merged->remaining);
		sl_spop_set_number(out, "reset_after_ms", sl_ns_to_ms_ceil(merged->reset_after_ns));
	}
	if (sl_call_outcome_fails_open(turn->context, outcome))
		sl_spop_set_bool(out, "failed_open", true);
	if (merged->allowed && sl_admission_costs(call) && sl_admission_holds(call)) {
		size_t len = sl_admission_ticket(turn->context->policy, &ask->match, call, sl_spop_ticket_max(turn->session),
		                                 ticket);
		if (len != 0)
			sl_spop_set_text(out, "ticket", sl_slice(ticket, len));
	}
}

/* The store could not answer: the limits' on-error does. */
static void set_undecided(struct sl_out *out, struct sl_spop_turn *turn, const struct sl_spop_ask *ask) {
	struct sluice_call call = *ask->call;
	sl_admission_fall_back(turn->context->policy, &ask->match, &call);
	sl_spop_set_bool(out, "denied", !call.merged.allowed);
	sl_spop_set_bool(out, call.merged.allowed ? "failed_open" : "unable", true);
	set_waits(out, &call.merged);
	if (call.merged.index >= 0)
		sl_spop_set_text(out, "limit", sl_str(name_of(turn, ask, &call.merged)));
}

/* The headers are left out where the frame would be longer than HAProxy takes. */
bool sl_spop_answer(struct sl_spop_turn *turn, const struct sl_spop_ask *ask, const struct sl_call_outcome *outcome) {
	const struct sluice_call *call = ask->call;
	const char *words = sl_spop_refusal(call->err);
	if (words != NULL)
		return sl_spop_answer_words(turn, ask->stream, ask->frame, "refused", words);
	size_t room = turn->session->frame_max + SL_SPOP_LENGTH_BYTES;
	char *to = sl_buffer_reserve(turn->out, room);
	if (to == NULL)
		return false;
	struct sl_out out = sl_out_to(to, room);
	char *start = sl_spop_begin(&out, SL_SPOP_ACK, ask->stream, ask->frame);
	if (call->err == SLUICE_OK)
		set_decision(&out, turn, ask, outcome);
	else
		set_undecided(&out, turn, ask);
	SL_ASSERT(!out.overflow); /* 1 KiB does, and a ticket that doesn't fit was denied */
	char *whole = out.at;
	if (call->err == SLUICE_OK && turn->context->forms != 0)
		set_headers(&out, turn, ask);
	if (out.overflow) {
		out.at = whole;
		out.overflow = false;
	}
	sl_spop_end(&out, start);
	turn->out->len += sl_out_len(&out);
	return true;
}
