/* Reading commands: see command.h.
 *
 * Most arguments are limits, and those that could be a word are told by their length and first byte, so that a plain
 * call pays for no word. */
#include "proto/command.h"

#include "algo/terms.h"
#include "algo/traits.h"
#include "base/fold.h"

#include <stdarg.h>
#include <stdio.h>

#define MS_NS ((sluice_ns)1000000)

enum { WORD_BYTES_MAX = 8 };

/* ---- saying what is wrong ---------------------------------------------------------------------------------------- */

bool sl_command_fail(struct sl_command *command, const char *format, ...) {
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(command->error, sizeof command->error, format, arguments);
	va_end(arguments);
	return false;
}

struct sl_shown sl_shown(struct sluice_bytes text) {
	struct sl_shown shown;
	struct sl_out out = sl_out_to(shown.text, sizeof shown.text - 1);
	sl_out_quoted(&out, text, 128);
	*out.at = '\0';
	return shown;
}

static struct sl_shown beginning(struct sluice_bytes text) {
	return sl_shown(sl_slice(text.data, text.len < 32 ? text.len : 32));
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static bool read_number(struct sl_command *c, const struct sl_meaning *meaning, struct sluice_bytes text,
                        uint64_t *value) {
	if (sl_bytes_to_u64(text, value) && sl_meaning_has(meaning, *value))
		return true;
	return sl_command_fail(c, "%s %s: expected %sa whole number from %llu to %llu", meaning->name, sl_shown(text).text,
	                       meaning->unit == NULL ? "" : meaning->unit, (unsigned long long)meaning->least,
	                       (unsigned long long)meaning->most);
}

/* The name of a lease, a reservation or a request, of the client's own making. */
static bool read_id(struct sl_command *c, const char *what, struct sluice_bytes text) {
	c->call->id = text;
	if (text.len >= 1 && text.len <= SLUICE_ID_BYTES_MAX)
		return true;
	return sl_command_fail(c, "the %s %s has %zu bytes: expected 1 to %d", what, beginning(text).text, text.len,
	                       SLUICE_ID_BYTES_MAX);
}

static int digit_of(unsigned char c) {
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 32;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hold(struct sl_command *c, struct sluice_bytes text) {
	const unsigned char *p = text.data;
	bool right = text.len >= 1 && text.len <= SL_HOLD_DIGITS_MAX;
	c->hold = 0;
	for (size_t i = 0; right && i < text.len; i++) {
		int digit = digit_of(p[i]);
		right = digit >= 0;
		c->hold = c->hold << 4 | (uint64_t)(right ? digit : 0);
	}
	return right || sl_command_fail(c, "id %s: expected 1 to %d hex digits", sl_shown(text).text, SL_HOLD_DIGITS_MAX);
}

/* A key or a member that is longer than we keep. */
static __attribute__((noinline)) struct sluice_bytes fold(struct sl_command *c, struct sluice_bytes text) {
	return c->door->fold_room == NULL ? text : sl_key_fold(c->door->fold_room(c), text);
}

static inline struct sluice_bytes folded(struct sl_command *c, struct sluice_bytes text) {
	return __builtin_expect(text.len > SLUICE_KEY_BYTES_MAX, 0) ? fold(c, text) : text;
}

struct sluice_bytes sl_command_fold(struct sl_command *c, struct sluice_bytes key) {
	return folded(c, key);
}

/* An admission's is folded where the policy is matched, which needs the door's memory for itself. */
static void read_member(struct sl_command *c, struct sluice_bytes member) {
	if (member.len == 0)
		member.data = "";
	c->member = c->form->limits ? folded(c, member) : member;
}

static __attribute__((noinline)) bool read_field(struct sl_command *c, enum sl_command_field field,
                                                 struct sluice_bytes text) {
	const struct sl_meaning *meaning = &sl_fields[field];
	/* fronts may leave it to the limits when they end: each says its own */
	bool by_limits = field == SL_FIELD_TTL && c->door->fronts && sl_bytes_equal(text, sl_str("0"));
	uint64_t number = 0;
	if (field == SL_FIELD_HOLD)
		return read_hold(c, text);
	if (field == SL_FIELD_LEASE)
		return read_id(c, "id", text);
	if (!by_limits && !read_number(c, meaning, text, &number))
		return false;
	switch (field) {
	case SL_FIELD_COST:
	case SL_FIELD_ACTUAL:
		c->call->cost = (uint32_t)number;
		break;
	case SL_FIELD_TTL:
	case SL_FIELD_HOLD_TTL:
		c->call->ttl_ns = number * MS_NS;
		break;
	case SL_FIELD_SPENT:
		c->spent = (uint32_t)number;
		break;
	default: /* a ticket is no field to be read, and CL.THROTTLE reads its own */
		SL_ASSERT(field == SL_FIELD_WANT);
		c->want = (uint32_t)number;
		break;
	}
	return true;
}

/* Most costs are one digit. */
static inline bool read_cost(struct sl_command *c, struct sluice_bytes text) {
	unsigned digit = (unsigned)(text.len == 1 ? *(const unsigned char *)text.data : 0) - '0';
	if (digit > 9)
		return read_field(c, SL_FIELD_COST, text);
	c->call->cost = digit;
	return true;
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static __attribute__((noinline)) bool fail_many(struct sl_command *c) {
	return sl_command_fail(c, "too many limits: at most %d in one request", SLUICE_ITEMS_MAX);
}

static inline struct sluice_item *add_item(struct sl_command *c, const struct sluice_limit *limit) {
	uint32_t at = c->call->item_count;
	struct sluice_item *item = &c->items[at];
	*item = (struct sluice_item){.limit = limit, .key = c->key, .member = c->member};
	c->key_args[at] = c->key_arg;
	c->algorithms |= 1u << limit->algorithm;
	c->call->item_count = at + 1;
	return item;
}

struct sluice_item *sl_command_add(struct sl_command *c, const struct sluice_limit *limit) {
	if (c->call->item_count != SLUICE_ITEMS_MAX)
		return add_item(c, limit);
	fail_many(c);
	return NULL;
}

/* What stood in front of the limit that was added last. */
static __attribute__((noinline)) void take_ahead(struct sl_command *c) {
	uint32_t at = c->call->item_count - 1;
	struct sluice_item *item = &c->items[at];
	item->observed = c->next.observed;
	item->cost = c->next.cost;
	item->ttl_ns = c->next.ttl_ns;
	item->terms = (c->ahead & SL_SAYS(TERMS)) != 0 ? &c->terms[at] : NULL;
	if ((c->ahead & SL_SAYS(NAME)) != 0)
		c->named |= 1u << at;
	c->ahead = 0;
}

static const char name_prefix[] = "policy:";
enum { NAME_PREFIX_LEN = sizeof name_prefix - 1 };

static bool is_name(struct sluice_bytes text) {
	return text.len > NAME_PREFIX_LEN && memcmp(text.data, name_prefix, NAME_PREFIX_LEN) == 0;
}

static __attribute__((noinline)) bool fail_limit(struct sl_command *c, const struct sluice_error *error) {
	return sl_command_fail(c, "limit %u, column %u: %s", c->call->item_count + 1, error->column, error->text);
}

static inline __attribute__((always_inline)) bool add_limit(struct sl_command *c, struct sluice_bytes text) {
	struct sluice_error error;
	const struct sluice_limit *limit;
	if (c->door->named != NULL && is_name(text))
		return c->door->named(c, text,
		                      sl_slice((const char *)text.data + NAME_PREFIX_LEN, text.len - NAME_PREFIX_LEN));
	if (c->call->item_count == SLUICE_ITEMS_MAX)
		return fail_many(c);
	limit = c->door->limit(c, text, &error);
	if (limit == NULL)
		return fail_limit(c, &error);
	add_item(c, limit);
	if (c->ahead != 0)
		take_ahead(c);
	return true;
}

static __attribute__((noinline)) bool fail_limitless(struct sl_command *c) {
	bool leases = c->operation == SL_OP_ACQUIRE || c->operation == SL_OP_RELEASE || c->operation == SL_OP_RENEW;
	return sl_command_fail(c, "no limit for key %s: expected at least one after it, such as %s", sl_shown(c->key).text,
	                       leases ? "'concurrency 20 lease 30s'" : "100/60s");
}

static inline bool key_has_limits(struct sl_command *c) {
	return c->call->item_count != c->before || fail_limitless(c);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* No limit that begins with a letter is so short. */
static inline bool may_be_word(struct sluice_bytes text) {
	return text.len - 2 <= WORD_BYTES_MAX - 2 && *(const unsigned char *)text.data > '9';
}

/* Clearing one bit makes a letter a capital, and nothing else a letter. */
static inline bool is_word(const unsigned char *text, size_t len, const struct sl_meaning *word) {
	if (word->len != len)
		return false;
	for (size_t i = 0; i < len; i++)
		if ((text[i] & 0xdf) != (unsigned char)word->name[i])
			return false;
	return true;
}

/* SL_WORDS for a text that is none. */
static inline enum sl_command_word word_of(struct sluice_bytes text) {
	unsigned word = 0;
	while (word < SL_WORDS && !is_word(text.data, text.len, &sl_words[word]))
		word++;
	return word;
}

static bool read_key(struct sl_command *c, uint32_t index) {
	if (!key_has_limits(c))
		return false;
	if (c->ahead != 0)
		return sl_command_fail(c, "KEY has to stand before the words of its limit");
	c->key = folded(c, c->args[index]);
	c->key_arg = (uint16_t)index;
	c->before = c->call->item_count;
	return true;
}

/* The first member is that of the limits before it, too. */
static void read_next_member(struct sl_command *c, struct sluice_bytes text) {
	bool first = c->member.data == NULL;
	read_member(c, text);
	for (uint32_t i = 0; first && i < c->call->item_count; i++)
		c->items[i].member = c->member;
}

static bool read_at(struct sl_command *c, struct sluice_bytes text) {
	uint64_t ms;
	if (!read_number(c, &sl_words[SL_WORD_AT], text, &ms))
		return false;
	c->call->now = ms * MS_NS;
	return true;
}

static bool read_name(struct sl_command *c, struct sluice_bytes name) {
	c->names[c->call->item_count] = name;
	return (name.len >= 1 && name.len <= SLUICE_NAME_BYTES_MAX) ||
	       sl_command_fail(c, "the name %s has %zu bytes: expected 1 to %d", sl_shown(name).text, name.len,
	                       SLUICE_NAME_BYTES_MAX);
}

static bool read_terms(struct sl_command *c, struct sluice_bytes text) {
	struct sluice_terms *terms = &c->terms[c->call->item_count];
	struct sluice_error error;
	return sl_terms_parse(terms, text, &error) == SLUICE_OK ||
	       sl_command_fail(c, "limit %u, TERMS, column %u: %s", c->call->item_count + 1, error.column, error.text);
}

/* What stands in front of a limit: kept for it. */
static bool read_ahead(struct sl_command *c, enum sl_command_word word, struct sluice_bytes text) {
	uint64_t number;
	if (c->call->item_count == SLUICE_ITEMS_MAX)
		return fail_many(c);
	if (c->ahead == 0)
		c->next = (struct sluice_item){.limit = NULL};
	c->ahead |= 1u << word;
	if (word == SL_WORD_NAME)
		return read_name(c, text);
	if (word == SL_WORD_TERMS)
		return read_terms(c, text);
	if (word == SL_WORD_OBSERVED || word == SL_WORD_TRIED) {
		c->next.observed = word == SL_WORD_TRIED ? SLUICE_TRIED : SLUICE_OBSERVED;
		return true;
	}
	if (!read_number(c, &sl_words[word], text, &number))
		return false;
	if (word == SL_WORD_COST)
		c->next.cost = (uint32_t)number;
	else
		c->next.ttl_ns = number * MS_NS;
	return true;
}

static __attribute__((noinline)) bool fail_word(struct sl_command *c, enum sl_command_word word, uint32_t words) {
	const struct sl_meaning *meaning = &sl_words[word];
	if (meaning->first && c->call->item_count != 0)
		return sl_command_fail(c, "%s after a limit: expected it before the first one", meaning->name);
	if ((words & 1u << word) == 0)
		return sl_command_fail(c, "%s is no word of SLUICE.%s", meaning->name, c->form->name);
	if ((c->given & 1u << word) != 0 && !meaning->repeats)
		return sl_command_fail(c, "%s twice: expected it once", meaning->name);
	if ((c->given & meaning->against) != 0)
		return sl_command_fail(c, "NEXT and EACH: expected one of them; EACH includes it for each limit");
	if (word == SL_WORD_AT && c->door->refuses_at(c) != NULL)
		return sl_command_fail(c, "AT is not allowed here: %s", c->door->refuses_at(c));
	return sl_command_fail(c, "%s needs %s after it%s", meaning->name, meaning->needs,
	                       meaning->more == NULL ? "" : meaning->more);
}

/* May the word stand here, and is there what it needs? */
static inline bool may_stand(struct sl_command *c, enum sl_command_word word, uint32_t index) {
	const struct sl_meaning *meaning = &sl_words[word];
	uint32_t words = c->form->words | (c->door->fronts ? c->form->fronts : 0), bit = 1u << word;
	bool again = (c->given & bit) != 0 && !meaning->repeats, against = (c->given & meaning->against) != 0;
	if ((words & bit) == 0 || again || against || index + meaning->follow >= c->count ||
	    (meaning->first && (c->call->item_count != 0 || c->door->refuses_at(c) != NULL)))
		return fail_word(c, word, words);
	c->given |= bit;
	return true;
}

void sl_command_say(struct sluice_call *call, enum sl_command_word word) {
	if (word == SL_WORD_UPTO)
		call->upto = true;
	else if (word == SL_WORD_NEXT || word == SL_WORD_EACH || word == SL_WORD_EXACT)
		call->want_next = true;
}

/* What stands at *index, which may be a word: *index goes on to the last argument that belongs to it. */
static __attribute__((noinline)) bool read_word(struct sl_command *c, uint32_t *index) {
	struct sluice_bytes text = c->args[*index];
	enum sl_command_word word = word_of(text);
	if (word == SL_WORDS)
		return add_limit(c, text);
	if (!may_stand(c, word, *index))
		return false;
	*index += sl_words[word].takes;
	text = c->args[*index];
	switch (word) {
	case SL_WORD_KEY:
		return read_key(c, *index);
	case SL_WORD_AT:
		return read_at(c, text);
	case SL_WORD_MEMBER:
		read_next_member(c, text);
		return true;
	case SL_WORD_ID:
		return read_id(c, "ID", text);
	case SL_WORD_BESIDE:
		return read_hold(c, text);
	default:
		break;
	}
	if (sl_words[word].ahead)
		return read_ahead(c, word, text);
	sl_command_say(c->call, word);
	return true;
}

/* ---- tickets ----------------------------------------------------------------------------------------------------- */

void sl_command_take_ticket(struct sl_command *c) {
	const struct sl_ticket *ticket = c->ticket;
	for (uint32_t i = 0; i < ticket->count; i++) {
		uint32_t at = c->call->item_count;
		if (sl_rule_has(&ticket->limits[i], SL_TAKES_LEASE) == (c->operation == SL_OP_COMMIT))
			continue;
		c->items[at] = ticket->items[i];
		c->names[at] = ticket->names[i];
		c->key_args[at] = 0;
		c->call->item_count = at + 1;
	}
	c->call->id = ticket->id;
	c->ticketed = true;
}

static bool read_ticketed(struct sl_command *c, uint32_t index) {
	for (; index < c->count; index++) {
		struct sluice_bytes text = c->args[index];
		enum sl_command_word word = may_be_word(text) ? word_of(text) : SL_WORDS;
		uint32_t may = c->operation == SL_OP_COMMIT ? c->form->words | c->form->fronts : SL_SAYS(AT);
		if (word == SL_WORDS || (may & 1u << word) == 0)
			return sl_command_fail(c, "the ticket says its limits: expected nothing after it%s, found %s",
			                       c->operation == SL_OP_COMMIT ? " and the cost but AT, NEXT and EACH" : " but AT",
			                       sl_shown(text).text);
		if (!read_word(c, &index))
			return false;
	}
	sl_command_take_ticket(c);
	return true;
}

/* Are there limits after the id? */
static bool has_limits(const struct sl_command *c) {
	return c->count > 3 && !(c->count == 5 && sl_bytes_equal_nocase(c->args[3], "at"));
}

/* What only looks like a ticket is an id, if there are limits with it. */
static bool fail_ticket(struct sl_command *c) {
	return sl_command_fail(c, "no ticket: %s: expected it as %sSLUICE.ADMIT gave it", sl_shown(c->args[2]).text,
	                       c->operation == SL_OP_COMMIT ? "SLUICE.RESERVE or " : "");
}

/* ---- a command --------------------------------------------------------------------------------------------------- */

static __attribute__((noinline)) bool fail_misfit(struct sl_command *c, const struct sl_misfit *misfit, int index) {
	char text[256];
	bool names_algorithm = misfit->of_algorithm;
	SL_ASSERT(index >= 0 || !names_algorithm);
	(void)snprintf(text, sizeof text, misfit->resp,
	               names_algorithm ? sl_algorithm_word(c->call->items[index].limit->algorithm) : c->form->name);
	return index < 0 ? sl_command_fail(c, "%s", text) : sl_command_fail(c, "limit %d: %s", index + 1, text);
}

static bool fits(struct sl_command *c) {
	int index;
	const struct sl_misfit *misfit = sl_command_misfit(c->operation, c->call, &index);
	return misfit == NULL || fail_misfit(c, misfit, index);
}

/* Limits of whose charges all can be asked are fit for these. */
static inline bool fits_surely(const struct sl_command *c) {
	return (c->algorithms & sl_algorithms_without(SL_OF_CHARGES)) == 0 &&
	       sl_operation_is(c->operation, SL_OPS_COUNTING);
}

static inline __attribute__((always_inline)) bool read_limits(struct sl_command *c, uint32_t index) {
	for (; index < c->count; index++) {
		struct sluice_bytes text = c->args[index];
		if (may_be_word(text) ? !read_word(c, &index) : !add_limit(c, text))
			return false;
	}
	if (c->ahead != 0)
		return sl_command_fail(c, "the last words need a limit after them");
	return key_has_limits(c) && (fits_surely(c) || fits(c));
}

/* The fields after the first, and tickets. *done: the command was read by its ticket. */
static __attribute__((noinline)) bool read_fields(struct sl_command *c, bool *done) {
	const struct sl_form *form = c->form;
	bool may = form->fields[0] == SL_FIELD_LEASE || form->fields[0] == SL_FIELD_TICKET;
	for (uint32_t i = may; i < form->field_count; i++)
		if (!read_field(c, form->fields[i], c->args[2 + i]))
			return false;
	*done = may && sl_ticket_read(c->ticket, c->args[2], c->key, c->ticket_memory);
	if (*done)
		return read_ticketed(c, 2u + form->field_count);
	if (may && (form->fields[0] == SL_FIELD_TICKET || (sl_ticket_is(c->args[2]) && !has_limits(c))))
		return fail_ticket(c);
	return !may || read_field(c, form->fields[0], c->args[2]);
}

/* Inlined, so that a plain command pays for what it needs. */
static inline __attribute__((always_inline)) void begin(struct sl_command *c, enum sl_operation operation,
                                                        const struct sluice_bytes *args, uint32_t count) {
	c->operation = operation;
	c->form = &sl_forms[operation];
	c->call->cost = 0;
	c->args = args;
	c->count = count;
	c->given = c->algorithms = c->named = c->ahead = c->before = 0;
	c->ticketed = false;
	c->member = sl_slice(NULL, 0);
}

bool sl_command_read(struct sl_command *c, enum sl_operation operation, const struct sluice_bytes *args,
                     uint32_t count) {
	bool done = false;
	begin(c, operation, args, count);
	c->call->operation = sl_operation_is(operation, SL_OPS_PUBLIC) ? (sluice_operation)operation : SLUICE_PEEK;
	c->key = folded(c, args[1]);
	c->key_arg = 1;
	if (c->form->costs ? !read_cost(c, args[2]) : !read_fields(c, &done))
		return false;
	return done || read_limits(c, 2u + c->form->field_count);
}

/* ---- ADMIT ------------------------------------------------------------------------------------------------------- */

/* Any attribute may have a word's name: so only capitals are words, and only there. */
bool sl_command_read_admit(struct sl_command *c, enum sl_operation operation, const struct sluice_bytes *args,
                           uint32_t count, uint32_t *index) {
	begin(c, operation, args, count);
	if (!read_cost(c, args[1]))
		return false;
	for (*index = 2; *index + 1 < count; ++*index) {
		struct sluice_bytes text = args[*index];
		enum sl_command_word word =
			may_be_word(text) && *(const unsigned char *)text.data <= 'Z' ? word_of(text) : SL_WORDS;
		if (word == SL_WORDS || (c->form->words & 1u << word) == 0 ||
		    !sl_bytes_equal(text, sl_str(sl_words[word].name)))
			break;
		if ((c->given & 1u << word) != 0)
			return sl_command_fail(c, "%s twice: expected it once; an attribute of that name goes after another one",
			                       sl_words[word].name);
		if (!read_word(c, index))
			return false;
	}
	return true;
}

/* ---- where the keys are ------------------------------------------------------------------------------------------ */

uint32_t sl_command_keys(enum sl_operation operation, const struct sluice_bytes *args, uint32_t count,
                         uint16_t *positions) {
	uint32_t found = 0, index = 2u + sl_forms[operation].field_count;
	if (count > 1)
		positions[found++] = 1;
	while (index < count && (sl_forms[operation].words & SL_SAYS(KEY)) != 0) {
		enum sl_command_word word = may_be_word(args[index]) ? word_of(args[index]) : SL_WORDS;
		if (word == SL_WORD_KEY && index + 1 < count)
			positions[found++] = (uint16_t)(index + 1);
		index += 1 + (word == SL_WORDS ? 0 : sl_words[word].takes);
	}
	return found;
}
