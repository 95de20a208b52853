/* SLUICE.CHECK, PEEK, REFUND and RESET: limits that the caller brings along, or names; and how limits are read, which
 * other commands share (docs/design/012-leases.md).
 *
 *   SLUICE.CHECK key cost (limit | KEY key | MEMBER member | UPTO | ID token | AT unix_ms) ...
 *   SLUICE.RESET key      (limit | KEY key | AT unix_ms) ...
 *
 * AT stands before the first limit, the others anywhere.
 *
 * A limit is notation, or `policy:NAME`: the limit of that name with its own counter and its own penalties, for a key
 * as EXPLAIN shows it (`ip=192.0.2.7`). Its conditions, overrides, `observe` and candidate are of requests that the
 * policy decides; here the caller has decided that it counts. RESET alone takes the overrides along: it forgets every
 * counter of the key.
 *
 * A key that no limit counts for is refused: nothing is guessed. No limit reads as one of the words, so they need no
 * escape; only keys, members and tokens are free bytes, and they stand behind their words. Most arguments are limits,
 * and those that could be a word are told by their length and first byte. */
#include "algo/step.h"
#include "base/assert.h"
#include "hosts/server/door/ruling.h"
#include "hosts/server/resp/resp.h"
#include "policy/nearest.h"


static bool is_word(struct sluice_bytes text, size_t len, const char *word) {
	return text.len == len && sl_bytes_equal_nocase(text, word);
}

/* ---- instants, keys, ids ----------------------------------------------------------------------------------------- */

static bool read_instant(struct sl_resp_turn *turn, uint32_t index, sluice_ns *now) {
	uint64_t ms;
	if (!sl_policy_settings(turn->context->policy)->client_time) {
		sl_reply_error(turn, "ERR AT is not allowed here: set client-time: true in the policy file");
		return false;
	}
	if (index >= turn->request->count) {
		sl_reply_error(turn, "ERR AT needs an instant after it: Unix milliseconds");
		return false;
	}
	if (!sl_bytes_to_u64(sl_resp_arg(turn, index), &ms) || ms > SL_AT_MS_MAX) {
		sl_reply_error(turn, "ERR AT %s: expected Unix milliseconds, a whole number from 0 to %llu",
		               sl_resp_shown(sl_resp_arg(turn, index)).text, (unsigned long long)SL_AT_MS_MAX);
		return false;
	}
	*now = ms * 1000000;
	return true;
}

bool sl_resp_read_at(struct sl_resp_turn *turn, uint32_t *index, sluice_ns *now) {
	if (*index >= turn->request->count || !is_word(sl_resp_arg(turn, *index), 2, "at"))
		return true;
	*index += 2;
	return read_instant(turn, *index - 1, now);
}

static bool key_fits(struct sl_resp_turn *turn, struct sluice_bytes key) {
	if (key.len <= SLUICE_KEY_BYTES_MAX)
		return true;
	sl_reply_error(turn, "ERR the key that begins %s has %zu bytes: at most %d are allowed",
	               sl_resp_shown(sl_slice(key.data, 32)).text, key.len, SLUICE_KEY_BYTES_MAX);
	return false;
}

static __attribute__((noinline)) bool fail_limitless(struct sl_resp_turn *turn, const struct sl_resp_reading *reading) {
	bool leases = reading->call->operation >= SLUICE_ACQUIRE && reading->call->operation <= SLUICE_RENEW;
	sl_reply_error(turn, "ERR no limit for key %s: expected at least one after it, such as %s",
	               sl_resp_shown(reading->key).text, leases ? "'concurrency 20 lease 30s'" : "100/60s");
	return false;
}

static inline bool key_has_limits(struct sl_resp_turn *turn, const struct sl_resp_reading *reading) {
	return reading->call->item_count != reading->before || fail_limitless(turn, reading);
}

bool sl_resp_read_id(struct sl_resp_turn *turn, uint32_t index, const char *what, struct sluice_bytes *id) {
	*id = sl_resp_arg(turn, index);
	if (id->len >= 1 && id->len <= SLUICE_ID_BYTES_MAX)
		return true;
	sl_reply_error(turn, "ERR the %s %s has %zu bytes: expected 1 to %d", what,
	               sl_resp_shown(sl_slice(id->data, id->len < 32 ? id->len : 32)).text, id->len, SLUICE_ID_BYTES_MAX);
	return false;
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static bool add_item(struct sl_resp_turn *turn, struct sl_resp_reading *reading, const struct sluice_limit *limit,
                     uint32_t position) {
	struct sluice_call *call = reading->call;
	if (call->item_count == SLUICE_ITEMS_MAX) {
		sl_reply_error(turn, "ERR too many limits: at most %d in one request", SLUICE_ITEMS_MAX);
		return false;
	}
	reading->positions[call->item_count] = position;
	sl_resp_call_item(turn, call, limit, reading->key);
	if (limit->algorithm >= SLUICE_CONCURRENCY)
		reading->asks = true;
	return true;
}

/* The item that was added last. */
static struct sluice_item *last_item(struct sl_resp_turn *turn, const struct sl_resp_reading *reading) {
	struct sl_resp_batch *batch = &turn->worker->batch;
	return &batch->items[batch->item_count + reading->call->item_count - 1];
}

/* ---- limits of the policy, by name ------------------------------------------------------------------------------- */

static const char name_prefix[] = "policy:";
enum { NAME_PREFIX_LEN = sizeof name_prefix - 1, NAMES_SHOWN = 8 };

static bool is_name(struct sluice_bytes text) {
	return text.len > NAME_PREFIX_LEN && memcmp(text.data, name_prefix, NAME_PREFIX_LEN) == 0;
}

static const char *name_at(const void *policy, size_t index) {
	return sluice_policy_limit_name(policy, (uint32_t)index);
}

static bool fail_unknown(struct sl_resp_turn *turn, const struct sl_resp_reading *reading, struct sluice_bytes name) {
	const struct sluice_policy *policy = turn->context->policy;
	const char *near = sl_nearest(name, name_at, policy);
	char memory[NAMES_SHOWN * (SLUICE_NAME_BYTES_MAX + 2) + 32];
	struct sl_out out = sl_out_to(memory, sizeof memory - 1);
	uint32_t count = sl_policy_limit_count(policy);
	sl_out_str(&out, near != NULL ? "did you mean " : count == 0 ? "it has none" : "it has ");
	if (near != NULL)
		sl_out_str(&out, near);
	for (uint32_t i = 0; near == NULL && i < count && i < NAMES_SHOWN; i++) {
		sl_out_str(&out, i > 0 ? ", " : "");
		sl_out_str(&out, name_at(policy, i));
	}
	sl_out_str(&out, near != NULL ? "?" : count > NAMES_SHOWN ? " and others" : "");
	*out.at = '\0';
	sl_reply_error(turn, "ERR limit %u: the policy has no limit %s: %s", reading->call->item_count + 1,
	               sl_resp_shown(name).text, memory);
	return false;
}

/* The key in the form that requests have; what must be written anew stays in the match buffer until the batch is
 * decided. sl_resp_call_begin() keeps room for a call's. */
static struct sluice_bytes key_form(struct sl_resp_turn *turn, struct sluice_bytes key) {
	struct sl_resp_batch *batch = &turn->worker->batch;
	char *memory = (char *)turn->context->match_buffer + batch->match_used;
	SL_ASSERT(SLUICE_MATCH_BYTES_MAX - batch->match_used >= SLUICE_KEY_BYTES_MAX);
	struct sluice_bytes form = sl_policy_key(turn->context->policy, key, memory);
	if (form.data == memory)
		batch->match_used += form.len;
	return form;
}

/* A reset forgets whatever counter the limit or an override of it may keep; else it is the limit's own, whose numbers
 * live as long as the policy, which is changed between turns only. */
static bool add_named(struct sl_resp_turn *turn, struct sl_resp_reading *reading, struct sluice_bytes text) {
	const struct sluice_policy *policy = turn->context->policy;
	const struct sluice_limit *variants[SLUICE_ITEMS_MAX + 1];
	struct sluice_bytes name = sl_slice((const char *)text.data + NAME_PREFIX_LEN, text.len - NAME_PREFIX_LEN);
	int64_t position = sl_policy_limit_find(policy, name);
	uint32_t count = 1;
	if (position < 0)
		return fail_unknown(turn, reading, name);
	const struct sl_policy_limit *limit = sl_policy_limit_at(policy, (uint32_t)position);
	variants[0] = &limit->limit;
	if (reading->call->operation == SLUICE_RESET)
		count = sl_policy_limit_variants(policy, (uint32_t)position, variants, SLUICE_ITEMS_MAX + 1);
	if (count > SLUICE_ITEMS_MAX - reading->call->item_count) {
		sl_reply_error(turn,
		               "ERR too many limits: at most %d in one request, and %s with its overrides stands for %s%u",
		               SLUICE_ITEMS_MAX, sl_resp_shown(text).text, count > SLUICE_ITEMS_MAX ? "at least " : "", count);
		return false;
	}
	reading->placed = true;
	const struct sluice_bytes key = key_form(turn, reading->key);
	for (uint32_t i = 0; i < count; i++) {
		if (!add_item(turn, reading, variants[i], (uint32_t)position))
			return false;
		last_item(turn, reading)->key = key;
		if (limit->has_terms)
			last_item(turn, reading)->terms = &limit->terms;
	}
	return true;
}

static inline __attribute__((always_inline)) bool add_limit(struct sl_resp_turn *turn, struct sl_resp_reading *reading,
                                                            struct sluice_bytes text) {
	struct sluice_error error;
	if (is_name(text)) {
		if (!add_named(turn, reading, text))
			return false;
	} else {
		const struct sluice_limit *limit = sl_resp_limit(turn, text, &error);
		if (limit == NULL) {
			sl_reply_error(turn, "ERR limit %u, column %u: %s", reading->call->item_count + 1, error.column,
			               error.text);
			return false;
		}
		if (!add_item(turn, reading, limit, SL_RULING_NOTATION))
			return false;
	}
	if (reading->member.data != NULL)
		last_item(turn, reading)->member = reading->member;
	return true;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* No limit that begins with a letter is so short. */
static inline bool may_be_word(struct sluice_bytes text) {
	return text.len - 2 <= 4 && *(const unsigned char *)text.data > '9';
}

static bool read_key(struct sl_resp_turn *turn, struct sl_resp_reading *reading, uint32_t index) {
	if (!key_has_limits(turn, reading))
		return false;
	if (index == turn->request->count) {
		sl_reply_error(turn, "ERR KEY needs a key and at least one limit after it");
		return false;
	}
	reading->key = sl_resp_arg(turn, index);
	reading->before = reading->call->item_count;
	return key_fits(turn, reading->key);
}

/* The first member is that of the limits before it, too. */
static bool read_member(struct sl_resp_turn *turn, struct sl_resp_reading *reading, uint32_t index) {
	struct sl_resp_batch *batch = &turn->worker->batch;
	if (index == turn->request->count) {
		sl_reply_error(turn, "ERR MEMBER needs a member after it: who is counted by distinct");
		return false;
	}
	struct sluice_bytes member = sl_resp_arg(turn, index);
	if (member.len > SLUICE_KEY_BYTES_MAX) {
		sl_reply_error(turn, "ERR the member that begins %s has %zu bytes: at most %d are allowed",
		               sl_resp_shown(sl_slice(member.data, 32)).text, member.len, SLUICE_KEY_BYTES_MAX);
		return false;
	}
	if (member.len == 0)
		member.data = "";
	for (uint32_t i = 0; reading->member.data == NULL && i < reading->call->item_count; i++)
		batch->items[batch->item_count + i].member = member;
	reading->member = member;
	return true;
}

static bool read_token(struct sl_resp_turn *turn, struct sl_resp_reading *reading, uint32_t index) {
	if (index == turn->request->count) {
		sl_reply_error(turn, "ERR ID needs a token after it");
		return false;
	}
	return sl_resp_read_id(turn, index, "ID", &reading->call->id);
}

static bool may_stand(struct sl_resp_turn *turn, struct sl_resp_reading *reading, uint32_t word, const char *name) {
	if ((reading->takes & word) == 0) {
		sl_reply_error(turn, "ERR %s is no word of SLUICE.%s", name, reading->command);
		return false;
	}
	if ((reading->given & word) != 0 && word != SL_WORD_MEMBER) {
		sl_reply_error(turn, "ERR %s twice: expected it once", name);
		return false;
	}
	reading->given |= word;
	return true;
}

static bool read_at(struct sl_resp_turn *turn, struct sl_resp_reading *reading, uint32_t index) {
	if (reading->call->item_count != 0) {
		sl_reply_error(turn, "ERR AT behind a limit: expected it before the first one");
		return false;
	}
	return may_stand(turn, reading, SL_WORD_AT, "AT") && read_instant(turn, index, &reading->call->now);
}

/* What stands at *index, which may be a word: *index goes on to the last argument that belongs to it. */
static __attribute__((noinline)) bool read_word(struct sl_resp_turn *turn, struct sl_resp_reading *reading,
                                                uint32_t *index) {
	struct sluice_bytes text = sl_resp_arg(turn, *index);
	if (is_word(text, 3, "key"))
		return read_key(turn, reading, ++*index);
	if (is_word(text, 6, "member"))
		return may_stand(turn, reading, SL_WORD_MEMBER, "MEMBER") && read_member(turn, reading, ++*index);
	if (is_word(text, 2, "id"))
		return may_stand(turn, reading, SL_WORD_ID, "ID") && read_token(turn, reading, ++*index);
	if (is_word(text, 2, "at"))
		return read_at(turn, reading, ++*index);
	if (!is_word(text, 4, "upto"))
		return add_limit(turn, reading, text);
	reading->call->upto = true;
	return may_stand(turn, reading, SL_WORD_UPTO, "UPTO");
}

/* ---- what an operation can't do ---------------------------------------------------------------------------------- */

static bool fits_concurrency(struct sl_resp_turn *turn, sluice_operation operation, uint32_t number) {
	if (operation != SLUICE_CHARGE && operation != SLUICE_RESERVE && operation != SLUICE_REFUND)
		return true;
	sl_reply_error(turn, "ERR limit %u: concurrency is acquired and released: SLUICE.ACQUIRE", number);
	return false;
}

static bool fits_distinct(struct sl_resp_turn *turn, const struct sl_resp_reading *reading,
                          const struct sluice_item *item, uint32_t number) {
	sluice_operation operation = reading->call->operation;
	if (operation == SLUICE_RESERVE) {
		sl_reply_error(turn, "ERR limit %u: distinct is not reserved: SLUICE.CHECK with MEMBER decides it at once",
		               number);
		return false;
	}
	if (item->member.data != NULL ||
	    (operation != SLUICE_CHARGE && operation != SLUICE_ACQUIRE && operation != SLUICE_REFUND))
		return true;
	sl_reply_error(turn,
	               "ERR limit %u: distinct counts members: expected MEMBER and who it is, as in "
	               "SLUICE.%s key 1 MEMBER 192.0.2.1 \"distinct 50/1h\"",
	               number, reading->command);
	return false;
}

static bool fits_operation(struct sl_resp_turn *turn, const struct sl_resp_reading *reading) {
	const struct sluice_call *call = reading->call;
	bool leases = false;
	for (uint32_t i = 0; i < call->item_count; i++) {
		const struct sluice_item *item = &call->items[i];
		uint8_t algorithm = item->limit->algorithm;
		leases = leases || algorithm == SLUICE_CONCURRENCY;
		if (algorithm == SLUICE_CONCURRENCY && !fits_concurrency(turn, call->operation, i + 1))
			return false;
		if (algorithm == SLUICE_DISTINCT && !fits_distinct(turn, reading, item, i + 1))
			return false;
	}
	if (leases || call->operation != SLUICE_ACQUIRE)
		return true;
	sl_reply_error(turn, "ERR no limit of concurrency among the limits: expected one, or SLUICE.CHECK");
	return false;
}

/* ---- a call ------------------------------------------------------------------------------------------------------ */

/* Inlined into CHECK, which is asked most. */
static inline __attribute__((always_inline)) void read_begin(struct sl_resp_turn *turn, struct sl_resp_reading *reading,
                                                             sluice_operation operation, const char *command,
                                                             uint32_t takes) {
	reading->call = sl_resp_call_begin(turn);
	reading->call->operation = operation;
	reading->call->cost = 0;
	reading->command = command;
	reading->takes = takes | SL_WORD_AT;
	reading->given = reading->before = 0;
	reading->placed = reading->asks = false;
	reading->member.data = NULL;
}

static inline __attribute__((always_inline)) bool read_limits(struct sl_resp_turn *turn,
                                                              struct sl_resp_reading *reading, uint32_t index) {
	reading->key = sl_resp_arg(turn, 1);
	if (!key_fits(turn, reading->key))
		return false;
	for (; index < turn->request->count; index++) {
		struct sluice_bytes text = sl_resp_arg(turn, index);
		if (may_be_word(text) ? !read_word(turn, reading, &index) : !add_limit(turn, reading, text))
			return false;
	}
	return key_has_limits(turn, reading) &&
	       ((!reading->asks && reading->call->operation != SLUICE_ACQUIRE) || fits_operation(turn, reading));
}

void sl_resp_read_begin(struct sl_resp_turn *turn, struct sl_resp_reading *reading, sluice_operation operation,
                        const char *command, uint32_t takes) {
	if (operation >= SLUICE_RELEASE && turn->worker->batch.match_used > SLUICE_MATCH_BYTES_MAX - SL_TICKET_BYTES_MAX)
		sl_resp_flush(turn); /* so that a ticket has room in the match buffer */
	read_begin(turn, reading, operation, command, takes);
}

bool sl_resp_read_limits(struct sl_resp_turn *turn, struct sl_resp_reading *reading, uint32_t index) {
	return read_limits(turn, reading, index);
}

void sl_resp_read_end(struct sl_resp_turn *turn, const struct sl_resp_reading *reading, enum sl_resp_form form) {
	if (reading->placed)
		sl_resp_call_place(turn, reading->call, reading->positions, reading->call->item_count);
	sl_resp_call_end(turn, reading->call, form);
}

/* ---- tickets ----------------------------------------------------------------------------------------------------- */

/* The limits of the ticket that are of one kind, as the call's. */
static void add_ticket(struct sl_resp_turn *turn, struct sl_resp_reading *reading, bool leases) {
	const struct sl_ticket *ticket = &turn->worker->ticket;
	for (uint32_t i = 0; i < ticket->count; i++) {
		if ((ticket->limits[i].algorithm == SLUICE_CONCURRENCY) != leases)
			continue;
		int64_t position =
			ticket->names[i].len == 0 ? -1 : sl_policy_limit_find(turn->context->policy, ticket->names[i]);
		reading->positions[reading->call->item_count] = position < 0 ? SL_RULING_NOTATION : (uint32_t)position;
		reading->placed = reading->placed || position >= 0;
		sl_resp_call_item(turn, reading->call, sl_resp_limit_keep(turn, sl_slice(NULL, 0), &ticket->limits[i]),
		                  ticket->items[i].key);
	}
	reading->call->id = ticket->id;
}

bool sl_resp_read_ticket(struct sl_resp_turn *turn, struct sl_resp_reading *reading, uint32_t index, uint32_t last,
                         bool leases, bool *is_ticket) {
	struct sl_resp_batch *batch = &turn->worker->batch;
	struct sluice_bytes text = sl_resp_arg(turn, index);
	char *memory = (char *)turn->context->match_buffer + batch->match_used;
	*is_ticket = sl_ticket_read(&turn->worker->ticket, text, sl_resp_arg(turn, 1), memory);
	if (!*is_ticket)
		return false;
	batch->match_used += text.len; /* more than was decoded into it */
	if (++last < turn->request->count && !sl_resp_read_at(turn, &last, &reading->call->now))
		return false;
	if (last < turn->request->count) {
		sl_reply_error(turn, "ERR the ticket says its limits: expected nothing behind it%s but AT, found %s",
		               leases ? "" : " and the cost", sl_resp_shown(sl_resp_arg(turn, last)).text);
		return false;
	}
	add_ticket(turn, reading, leases);
	return true;
}

/* ---- the commands ------------------------------------------------------------------------------------------------ */

static void decide(struct sl_resp_turn *turn, sluice_operation operation, const char *command, uint32_t takes) {
	struct sl_resp_reading reading;
	read_begin(turn, &reading, operation, command, takes);
	if (!sl_resp_read_cost(turn, sl_resp_arg(turn, 2), &reading.call->cost) || !read_limits(turn, &reading, 3))
		return;
	sl_resp_read_end(turn, &reading, reading.call->upto ? SL_RESP_GRANTED : SL_RESP_NUMBERS);
}

void sl_resp_check(struct sl_resp_turn *turn) {
	decide(turn, SLUICE_CHARGE, "CHECK", SL_WORD_MEMBER | SL_WORD_UPTO | SL_WORD_ID);
}

void sl_resp_peek(struct sl_resp_turn *turn) {
	decide(turn, SLUICE_PEEK, "PEEK", SL_WORD_MEMBER | SL_WORD_UPTO);
}

void sl_resp_refund(struct sl_resp_turn *turn) {
	decide(turn, SLUICE_REFUND, "REFUND", SL_WORD_MEMBER);
}

void sl_resp_reset_counters(struct sl_resp_turn *turn) {
	struct sl_resp_reading reading;
	read_begin(turn, &reading, SLUICE_RESET, "RESET", 0);
	if (read_limits(turn, &reading, 2))
		sl_resp_read_end(turn, &reading, SL_RESP_FORGOTTEN);
}
