/* Reading commands. All that decide have one form:
 *
 *   NAME key [cost] [id] [ttl_ms] [spent] [want] [AT unix_ms] [EACH | EXACT] item [item ...]
 *   item  := [KEY key] [NAME name] [OBSERVED | TRIED] [TERMS text] [COST cost] [TTL ms] limit
 *
 * and MEMBER m, UPTO, ID id, KEEP, BESIDE id anywhere among the items; AT may stand behind them, too, but behind no
 * limit. No limit in the notation reads as one of these words, and free bytes stand only where a word has announced
 * them. */
#include "hosts/redis/turn.h"

#include "algo/calendar.h"
#include "algo/terms.h"
#include "base/out.h"
#include "base/siphash.h"

#include <stdio.h>

#define CLIENT_TIME_SLACK_MS ((int64_t)3600000)   /* an hour, as the script has it */
enum { WORD_BYTES_MAX = 8 };

struct slr_settings slr_settings; /* filled as the module is loaded */

/* ---- texts ------------------------------------------------------------------------------------------------------- */

struct sluice_bytes slr_arg(const struct slr_turn *turn, uint32_t index) {
	struct sluice_bytes text;
	text.data = slr_StringPtrLen(turn->args[index], &text.len);
	return text;
}

bool slr_is_word(struct sluice_bytes text, const char *word) {
	return sl_bytes_equal_nocase(text, word);
}

struct slr_shown slr_shown(struct sluice_bytes text) {
	struct slr_shown shown;
	struct sl_out out = sl_out_to(shown.text, sizeof shown.text - 1);
	sl_out_quoted(&out, text, 128);
	*out.at = '\0';
	return shown;
}

void slr_fail(const struct slr_turn *turn, const char *format, ...) {
	char line[1024] = "ERR ";
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(line + 4, sizeof line - 4, format, arguments);
	va_end(arguments);
	slr_ReplyWithError(turn->context, line);
}

void slr_turn_begin(struct slr_turn *turn, struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	static struct slr_call call;
	turn->context = context;
	turn->args = args;
	turn->count = (uint32_t)count;
	turn->each = turn->exact = turn->timed = turn->ticketed = false;
	turn->id = (struct sluice_bytes){NULL, 0};
	turn->call = &call;
	call.item_count = call.key_count = call.cost = 0;
	call.want_next = call.upto = call.keep = false;
	call.token = 0;
	call.now = 0;
	call.wall_ms = slr_clock_wall_ms;
	call.is_full = NULL;
	call.slack_ms = 0;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static bool read_u32(struct slr_turn *turn, const char *what, struct sluice_bytes text, uint32_t least, uint32_t most,
                     uint32_t *value) {
	uint64_t number;
	if (sl_bytes_to_u64(text, &number) && number >= least && number <= most) {
		*value = (uint32_t)number;
		return true;
	}
	slr_fail(turn, "%s %s: expected a whole number from %u to %u", what, slr_shown(text).text, least, most);
	return false;
}

static int digit_of(unsigned char c) {
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 32;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_id(struct slr_turn *turn, struct sluice_bytes text, uint64_t *id) {
	const unsigned char *p = text.data;
	bool right = text.len >= 1 && text.len <= SLR_ID_DIGITS_MAX;
	*id = 0;
	for (size_t i = 0; right && i < text.len; i++) {
		int digit = digit_of(p[i]);
		right = digit >= 0;
		*id = *id << 4 | (uint64_t)(right ? digit : 0);
	}
	if (!right)
		slr_fail(turn, "id %s: expected 1 to %d hex digits", slr_shown(text).text, SLR_ID_DIGITS_MAX);
	return right;
}

/* A client's own name of a lease, a reservation or a request. */
static bool read_text_id(struct slr_turn *turn, const char *what, struct sluice_bytes text) {
	turn->id = text;
	if (text.len != 0)
		turn->call->id = sl_id_number(text);
	if (text.len >= 1 && text.len <= SLUICE_ID_BYTES_MAX)
		return true;
	slr_fail(turn, "the %s %s has %zu bytes: expected 1 to %d", what,
	         slr_shown(sl_slice(text.data, text.len < 32 ? text.len : 32)).text, text.len, SLUICE_ID_BYTES_MAX);
	return false;
}

/* As long as a window may be. */
static bool read_long_ttl(struct slr_turn *turn, const char *what, struct sluice_bytes text, uint64_t least,
                          sluice_ns *ttl_ns) {
	uint64_t ms;
	if (sl_bytes_to_u64(text, &ms) && ms >= least && ms <= SL_WINDOW_NS_MAX / SL_MS_NS) {
		*ttl_ns = ms * SL_MS_NS;
		return true;
	}
	slr_fail(turn, "%s %s: expected a whole number from %llu to %llu", what, slr_shown(text).text, 1ULL,
	         (unsigned long long)(SL_WINDOW_NS_MAX / SL_MS_NS));
	return false;
}

bool slr_read_field(struct slr_turn *turn, uint8_t field, struct sluice_bytes text) {
	struct slr_call *call = turn->call;
	uint32_t ms;
	switch (field) {
	case SLR_FIELD_NAME:
		return read_text_id(turn, "id", text);
	case SLR_FIELD_ACTUAL:
		return read_u32(turn, "actual", text, 0, UINT32_MAX, &call->cost);
	case SLR_FIELD_TTL_LONG:
		return read_long_ttl(turn, "ttl_ms", text, 0, &call->ttl_ns);
	case SLR_FIELD_COST:
		return read_u32(turn, "cost", text, 0, UINT32_MAX, &call->cost);
	case SLR_FIELD_ID:
		return read_id(turn, text, &call->id);
	case SLR_FIELD_TTL:
		if (!read_u32(turn, "ttl_ms", text, 1, SLR_HOLD_MS_MAX, &ms))
			return false;
		call->ttl_ns = (sluice_ns)ms * SL_MS_NS;
		return true;
	case SLR_FIELD_SPENT:
		return read_u32(turn, "spent", text, 0, UINT32_MAX, &call->spent);
	default:
		return read_u32(turn, "want", text, 0, UINT32_MAX, &call->want);
	}
}

/* ---- instants ---------------------------------------------------------------------------------------------------- */

static bool read_instant(struct slr_turn *turn, uint32_t index) {
	uint64_t ms;
	if (!slr_settings.client_time) {
		slr_fail(turn, "AT is not allowed here: load the module with the argument client-time yes");
		return false;
	}
	if (index >= turn->count) {
		slr_fail(turn, "AT needs an instant after it: Unix milliseconds");
		return false;
	}
	if (!sl_bytes_to_u64(slr_arg(turn, index), &ms) || ms > SL_AT_MS_MAX) {
		slr_fail(turn, "AT %s: expected Unix milliseconds, a whole number from 0 to %llu",
		         slr_shown(slr_arg(turn, index)).text, (unsigned long long)SL_AT_MS_MAX);
		return false;
	}
	turn->call->now = ms * SL_MS_NS;
	turn->call->slack_ms = CLIENT_TIME_SLACK_MS;
	return true;
}

bool slr_read_at(struct slr_turn *turn, uint32_t *index) {
	if (*index >= turn->count || !slr_is_word(slr_arg(turn, *index), "at"))
		return true;
	turn->timed = true;
	*index += 2;
	return read_instant(turn, *index - 1);
}

/* The instant of a call that names none, as at the server's doors: whole milliseconds, so that a counter is small and a
 * log exact to its stamps; but for a bucket, of which 3,000 a second may be asked, the nanosecond. */
void slr_set_instant(struct slr_call *call) {
	const uint32_t buckets = 1u << SLUICE_TOKEN_BUCKET | 1u << SLUICE_LEAKY_BUCKET, log = 1u << SLUICE_SLIDING_LOG;
	uint32_t algorithms = 0;
	for (uint32_t i = 0; i < call->item_count; i++)
		algorithms |= 1u << call->items[i].limit.algorithm;
	call->now = slr_clock_now();
	if ((algorithms & log) != 0 || (algorithms & buckets) == 0)
		call->now -= call->now % SL_MS_NS;
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

bool slr_key_fits(struct slr_turn *turn, struct sluice_bytes key) {
	if (key.len <= SLUICE_KEY_BYTES_MAX)
		return true;
	slr_fail(turn, "the key that begins %s has %zu bytes: at most %d are allowed",
	         slr_shown(sl_slice(key.data, 32)).text, key.len, SLUICE_KEY_BYTES_MAX);
	return false;
}

/* The place of a key that has been named before; else behind all of them. */
static __attribute__((noinline)) uint32_t find_key(const struct slr_turn *turn, struct sluice_bytes key) {
	uint32_t k;
	for (k = 0; k < turn->call->key_count; k++) {
		struct sluice_bytes known;
		known.data = slr_StringPtrLen(turn->names[k], &known.len);
		if (sl_bytes_equal(known, key))
			break;
	}
	return k;
}

uint8_t slr_read_key(struct slr_turn *turn, uint32_t index) {
	struct slr_call *call = turn->call;
	uint32_t k = call->key_count == 0 ? 0 : find_key(turn, slr_arg(turn, index));
	if (k == call->key_count)
		turn->names[call->key_count++] = turn->args[index];
	return (uint8_t)k;
}

static bool key_has_limits(struct slr_turn *turn, uint32_t key_index, uint32_t limits) {
	if (limits != 0)
		return true;
	slr_fail(turn, "no limit for key %s: expected at least one after it, such as %s",
	         slr_shown(slr_arg(turn, key_index)).text,
	         turn->call->operation < SLR_ACQUIRE || turn->call->operation > SLR_RENEW ? "100/60s"
	                                                                                  : "'concurrency 20 lease 30s'");
	return false;
}

static bool needs_more(struct slr_turn *turn, uint32_t index, const char *word, const char *what) {
	if (index < turn->count)
		return true;
	slr_fail(turn, "%s needs %s after it", word, what);
	return false;
}

static bool read_name(struct slr_turn *turn, uint32_t index, struct sluice_bytes *name) {
	if (!needs_more(turn, index + 1, "NAME", "a name and a limit"))
		return false;
	*name = slr_arg(turn, index);
	if (name->len >= 1 && name->len <= SLUICE_NAME_BYTES_MAX)
		return true;
	slr_fail(turn, "the name %s has %zu bytes: expected 1 to %d", slr_shown(*name).text, name->len,
	         SLUICE_NAME_BYTES_MAX);
	return false;
}

/* ---- words among the limits -------------------------------------------------------------------------------------- */

uint64_t slr_member_number(struct sluice_bytes member) {
	/* A fixed key: a value is read by other nodes than the one that wrote it. */
	static const uint64_t key[2] = {0x6d656d6265722d6f, 0x662d736c75696365};
	uint64_t number = sl_siphash(key, NULL, 0, member, 2, 4);
	return number != 0 ? number : 1;
}

/* Who is counted from here on. */
struct whose {
	uint64_t latest, first; /* 0: nobody named yet */
};

static bool takes(struct slr_turn *turn, const struct slr_form *form, uint32_t word, const char *name, bool again) {
	if ((form->words & word) == 0)
		slr_fail(turn, "%s is no word of SLUICE.%s", name, form->name);
	else if (again)
		slr_fail(turn, "%s twice: expected it once", name);
	return (form->words & word) != 0 && !again;
}

static bool read_member(struct slr_turn *turn, uint32_t index, struct whose *whose) {
	struct sluice_bytes member;
	if (index >= turn->count) {
		slr_fail(turn, "MEMBER needs a member after it: who is counted by distinct");
		return false;
	}
	member = slr_arg(turn, index);
	if (member.len > SLUICE_KEY_BYTES_MAX) {
		slr_fail(turn, "the member that begins %s has %zu bytes: at most %d are allowed",
		         slr_shown(sl_slice(member.data, 32)).text, member.len, SLUICE_KEY_BYTES_MAX);
		return false;
	}
	whose->latest = slr_member_number(member);
	whose->first = whose->first != 0 ? whose->first : whose->latest;
	return true;
}

static bool read_late_at(struct slr_turn *turn, uint32_t *index) {
	bool late = turn->call->item_count != 0;
	if (!turn->timed && !late)
		return slr_read_at(turn, index);
	slr_fail(turn, late ? "AT behind a limit: expected it before the first one" : "AT twice: expected it once");
	return false;
}

/* KEEP, BESIDE id: what fronts say of their holds. */
static bool read_own(struct slr_turn *turn, uint32_t *index, const struct slr_form *form, bool beside) {
	uint32_t word = beside ? SLR_WORD_BESIDE : SLR_WORD_KEEP;
	const char *name = beside ? "BESIDE" : "KEEP";
	if (!takes(turn, form, word, name, turn->call->keep))
		return false;
	turn->call->keep = true;
	*index += beside ? 2 : 1;
	return !beside || (needs_more(turn, *index, name, "an id and a limit") &&
	                   read_id(turn, slr_arg(turn, *index - 1), &turn->call->id));
}

/* MEMBER m, UPTO, ID id, AT ms, KEEP, BESIDE id at `*index`; *found: one was there, and *index is behind it. */
static bool read_word(struct slr_turn *turn, uint32_t *index, const struct slr_form *form, struct whose *whose,
                      bool *found) {
	struct sluice_bytes text = slr_arg(turn, *index);
	*found = true;
	if (slr_is_word(text, "member")) {
		if (!takes(turn, form, SLR_WORD_MEMBER, "MEMBER", false) || !read_member(turn, *index + 1, whose))
			return false;
		*index += 2;
	} else if (slr_is_word(text, "upto")) {
		if (!takes(turn, form, SLR_WORD_UPTO, "UPTO", turn->call->upto))
			return false;
		turn->call->upto = true;
		*index += 1;
	} else if (slr_is_word(text, "id")) {
		if (!takes(turn, form, SLR_WORD_ID, "ID", turn->id.len != 0) ||
		    !needs_more(turn, *index + 1, "ID", "a token") || !read_text_id(turn, "ID", slr_arg(turn, *index + 1)))
			return false;
		*index += 2;
	} else if (slr_is_word(text, "at")) {
		return read_late_at(turn, index);
	} else if (slr_is_word(text, "keep") || slr_is_word(text, "beside")) {
		return read_own(turn, index, form, slr_is_word(text, "beside"));
	} else {
		*found = false;
	}
	return true;
}

/* ---- one limit --------------------------------------------------------------------------------------------------- */

/* Whether an argument can be one of the words: letters alone, and few. No limit is so short without a digit. */
static bool may_be_word(struct sluice_bytes text) {
	const unsigned char *p = text.data;
	return text.len >= 2 && text.len <= WORD_BYTES_MAX && (unsigned)((p[0] | 32) - 'a') < 26;
}

/* What stands in front of one limit. */
struct ahead {
	struct sluice_bytes name;
	bool any;
};

static bool read_terms(struct slr_turn *turn, struct slr_item *item, struct sluice_bytes text) {
	struct sluice_error error;
	memset(&item->terms, 0, sizeof item->terms);
	item->has_terms = true;
	if (sl_terms_parse(&item->terms, text, &error) == SLUICE_OK)
		return true;
	slr_fail(turn, "limit %u, TERMS, column %u: %s", turn->call->item_count + 1, error.column, error.text);
	return false;
}

/* One word in front of a limit, at `*index`, and what belongs to it; *index is then behind it. *found: there was
 * one. */
static bool read_ahead(struct slr_turn *turn, uint32_t *index, const struct slr_form *form, struct ahead *ahead,
                       bool *found) {
	struct sluice_bytes text = slr_arg(turn, *index), none = {NULL, 0};
	struct slr_item *item = &turn->call->items[turn->call->item_count];
	struct sluice_bytes value = *index + 1 < turn->count ? slr_arg(turn, *index + 1) : none;
	uint32_t words = 2;
	*found = true;
	if (slr_is_word(text, "name")) {
		if (!read_name(turn, *index + 1, &ahead->name))
			return false;
	} else if (slr_is_word(text, "observed") || slr_is_word(text, "tried")) {
		item->watched = slr_is_word(text, "tried") ? SLUICE_TRIED : SLUICE_OBSERVED;
		words = 1;
		if (!needs_more(turn, *index + 1, item->watched == SLUICE_TRIED ? "TRIED" : "OBSERVED", "a limit"))
			return false;
	} else if ((form->words & SLR_WORD_TERMS) != 0 && slr_is_word(text, "terms")) {
		if (!needs_more(turn, *index + 2, "TERMS", "the terms and a limit") || !read_terms(turn, item, value))
			return false;
	} else if ((form->words & SLR_WORD_COST) != 0 && slr_is_word(text, "cost")) {
		if (!needs_more(turn, *index + 2, "COST", "a cost and a limit") ||
		    !read_u32(turn, "COST", value, 1, UINT32_MAX, &item->cost))
			return false;
	} else if ((form->words & SLR_WORD_COST) != 0 && slr_is_word(text, "ttl")) {
		if (!needs_more(turn, *index + 2, "TTL", "milliseconds and a limit") ||
		    !read_long_ttl(turn, "TTL", value, 1, &item->ttl_ns))
			return false;
	} else {
		*found = false;
		return true;
	}
	ahead->any = true;
	*index += words;
	return true;
}

/* One limit, with what is said in front of it, from `*index` on, where `text` stands. */
static bool read_limit(struct slr_turn *turn, uint32_t *index, struct sluice_bytes text, const struct slr_form *form,
                       struct whose *whose) {
	struct slr_call *call = turn->call;
	struct slr_item *item = &call->items[call->item_count];
	struct ahead ahead = {.any = false};
	struct sluice_error error;
	bool more = may_be_word(text);
	if (call->item_count == SLUICE_ITEMS_MAX) {
		slr_fail(turn, "too many limits: at most %d in one request", SLUICE_ITEMS_MAX);
		return false;
	}
	turn->limit_names[call->item_count].len = 0;
	item->watched = 0;
	item->has_terms = false;
	item->cost = 0;
	item->member = item->ttl_ns = 0;
	while (more) {
		if (!read_ahead(turn, index, form, &ahead, &more) || (!more && !read_word(turn, index, form, whose, &more)) ||
		    (more && !needs_more(turn, *index, "what stands at the end", "a limit")))
			return false;
		text = slr_arg(turn, *index);
	}
	if (!slr_limit_read(&item->limit, text, &error)) {
		slr_fail(turn, "limit %u, column %u: %s", call->item_count + 1, error.column, error.text);
		return false;
	}
	if (ahead.name.len != 0 && item->limit.algorithm != SLUICE_UNLIMITED) {
		sl_rule_name(&item->limit, ahead.name);
		turn->limit_names[call->item_count] = ahead.name;
	}
	call->item_count++;
	++*index;
	return true;
}

/* ---- all limits -------------------------------------------------------------------------------------------------- */

static bool read_key(struct slr_turn *turn, uint32_t index) {
	return needs_more(turn, index, "KEY", "a key and at least one limit") && slr_key_fits(turn, slr_arg(turn, index));
}

static bool read_items(struct slr_turn *turn, uint32_t index, const struct slr_form *form) {
	struct slr_call *call = turn->call;
	uint32_t key_index = 1, before = 0; /* limits of the keys before this one */
	struct whose whose = {0, 0};
	if (!slr_key_fits(turn, slr_arg(turn, 1)))
		return false;
	while (index < turn->count) {
		struct sluice_bytes text = slr_arg(turn, index);
		uint32_t item = call->item_count;
		if (may_be_word(text)) {
			bool found;
			if (!read_word(turn, &index, form, &whose, &found))
				return false;
			if (found)
				continue;
		}
		if (!may_be_word(text) || !slr_is_word(text, "key")) {
			if (!read_limit(turn, &index, text, form, &whose))
				return false;
			call->items[item].member = whose.latest;
			call->items[item].key = item == before ? slr_read_key(turn, key_index) : call->items[item - 1].key;
			continue;
		}
		if (!key_has_limits(turn, key_index, item - before) || !read_key(turn, index + 1))
			return false;
		key_index = index + 1;
		before = item;
		index += 2;
	}
	for (uint32_t i = 0; whose.first != 0 && i < call->item_count && call->items[i].member == 0; i++)
		call->items[i].member = whose.first;
	return key_has_limits(turn, key_index, call->item_count - before);
}

/* ---- what an operation can't do ---------------------------------------------------------------------------------- */

static bool fits_concurrency(struct slr_turn *turn, uint32_t number) {
	enum slr_operation operation = turn->call->operation;
	if (operation == SLR_PEEK || operation == SLR_RESET || (operation >= SLR_ACQUIRE && operation <= SLR_HOLDERS) ||
	    operation == SLR_COMMIT)
		return true;
	slr_fail(turn, "limit %u: concurrency is acquired and released: SLUICE.ACQUIRE", number);
	return false;
}

static bool fits_distinct(struct slr_turn *turn, const struct slr_item *item, uint32_t number) {
	enum slr_operation operation = turn->call->operation;
	bool reserved = operation == SLR_RESERVE && (turn->call->ttl_ns != 0 || item->ttl_ns != 0);
	if (slr_holds_by(operation) || reserved) {
		slr_fail(turn, "limit %u: distinct is not %s: SLUICE.CHECK with MEMBER decides it at once", number,
		         reserved ? "reserved" : "held");
		return false;
	}
	if (item->member != 0 || (operation != SLR_CHECK && operation != SLR_ACQUIRE && operation != SLR_RESERVE &&
	                          operation != SLR_REFUND))
		return true;
	slr_fail(turn,
	         "limit %u: distinct counts members: expected MEMBER and who it is, as in "
	         "SLUICE.%s key 1 MEMBER 192.0.2.1 \"distinct 50/1h\"",
	         number, turn->form->name);
	return false;
}

/* A reservation ends sometime: the call says when, or each of its limits. */
static bool fits_reserve(struct slr_turn *turn) {
	bool ends = turn->call->ttl_ns != 0;
	for (uint32_t i = 0; i < turn->call->item_count; i++)
		ends = ends || turn->call->items[i].ttl_ns != 0;
	if (!ends)
		slr_fail(turn, "ttl_ms '0': expected a whole number from 1 to %llu",
		         (unsigned long long)(SL_WINDOW_NS_MAX / SL_MS_NS));
	return ends;
}

static __attribute__((noinline)) bool fits_places(struct slr_turn *turn) {
	const struct slr_call *call = turn->call;
	bool leases = false;
	for (uint32_t i = 0; i < call->item_count; i++) {
		const struct slr_item *item = &call->items[i];
		if (item->limit.algorithm < SLUICE_CONCURRENCY || item->watched == SLUICE_TRIED)
			continue;
		leases = leases || item->limit.algorithm == SLUICE_CONCURRENCY;
		if (item->limit.algorithm == SLUICE_CONCURRENCY ? !fits_concurrency(turn, i + 1)
		                                                : !fits_distinct(turn, item, i + 1))
			return false;
	}
	if (call->operation == SLR_RESERVE && !fits_reserve(turn))
		return false;
	if (call->operation != SLR_ACQUIRE || leases)
		return true;
	slr_fail(turn, "no limit of concurrency among the limits: expected one, or SLUICE.CHECK");
	return false;
}

/* Limits that only count are fit for whatever neither acquires nor reserves. */
bool slr_fits_operation(struct slr_turn *turn) {
	const struct slr_call *call = turn->call;
	bool places = call->operation == SLR_ACQUIRE || call->operation == SLR_RESERVE;
	for (uint32_t i = 0; i < call->item_count; i++)
		places = places || call->items[i].limit.algorithm >= SLUICE_CONCURRENCY;
	return !places || fits_places(turn);
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

static uint32_t field_count(const struct slr_form *form) {
	uint32_t count = 0;
	while (count < SLR_FIELDS_MAX && form->fields[count] != 0)
		count++;
	return count;
}

void slr_read_each(struct slr_turn *turn, const struct slr_form *form, uint32_t *index) {
	if ((form->words & SLR_WORD_EACH) == 0 || *index >= turn->count)
		return;
	turn->exact = slr_is_word(slr_arg(turn, *index), "exact");
	turn->each = turn->call->want_next = turn->exact || slr_is_word(slr_arg(turn, *index), "each");
	*index += turn->each;
}

/* AT unix_ms, EACH, from `*index` on, where there is a word. */
static bool read_before_items(struct slr_turn *turn, uint32_t *index, const struct slr_form *form) {
	if (!slr_read_at(turn, index))
		return false;
	slr_read_each(turn, form, index);
	return true;
}

bool slr_read_call(struct slr_turn *turn, const struct slr_form *form) {
	struct slr_call *call = turn->call;
	uint32_t fields = field_count(form), index = 2 + fields;
	call->operation = form->operation;
	turn->form = form;
	if (turn->count <= index) {
		slr_WrongArity(turn->context);
		return false;
	}
	for (uint32_t i = 0; i < fields; i++)
		if (!slr_read_field(turn, form->fields[i], slr_arg(turn, 2 + i)))
			return false;
	if (may_be_word(slr_arg(turn, index)) && !read_before_items(turn, &index, form))
		return false;
	if (!read_items(turn, index, form))
		return false;
	if (!turn->timed)
		slr_set_instant(call);
	return slr_fits_operation(turn);
}

/* Whether a word is followed by one argument of its own. */
static bool announces(struct sluice_bytes text) {
	static const char *const words[] = {"key", "name", "member", "id", "at", "terms", "cost", "ttl", "beside"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (slr_is_word(text, words[i]))
			return true;
	return false;
}

void slr_read_positions(const struct slr_turn *turn, const struct slr_form *form) {
	uint32_t index = 2 + field_count(form);
	if (turn->count < 2)
		return;
	slr_KeyAtPos(turn->context, 1);
	while (index < turn->count) {
		struct sluice_bytes text = slr_arg(turn, index);
		if (slr_is_word(text, "key") && index + 1 < turn->count)
			slr_KeyAtPos(turn->context, (int)index + 1);
		index += announces(text) ? 2 : 1;
	}
}
