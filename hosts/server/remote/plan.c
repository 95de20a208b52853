/* See plan.h. A verb's head is written by its form (proto/command.h): its fields, then the words that fronts say of
 * it.
 *
 * The counter of CL.THROTTLE is nobody else's. It goes by a name that no policy can have: limits there have no spaces
 * in their names; the rate is part of it, as of the counter's identity here. */
#include "hosts/server/remote/plan.h"

#include "algo/algorithms.h"
#include "algo/rule.h"
#include "algo/terms.h"
#include "base/assert.h"
#include "base/math.h"
#include "base/operation.h"
#include "base/out.h"
#include "policy/key.h"
#include "proto/ticket.h"

#include <stdio.h>
#include <stdlib.h>

enum { NAME_TEXT_MAX = 32, NUMBERS_MAX = 40, WORDS_EACH = 14 };

/* ---- the tail ---------------------------------------------------------------------------------------------------- */

struct writer {
	struct sl_group *group;
	struct sl_out text;
};

static struct sluice_bytes text_of(struct sl_out *out, struct sluice_bytes of) {
	struct sluice_bytes text = {out->at, of.len};
	sl_out_bytes(out, of.data, of.len);
	return text;
}

static struct sluice_bytes number(struct sl_out *out, uint64_t value) {
	struct sluice_bytes text = {out->at, 0};
	sl_out_u64(out, value);
	text.len = (size_t)(out->at - (const char *)text.data);
	return text;
}

static struct sluice_bytes keep(struct writer *w, struct sluice_bytes text) {
	return text_of(&w->text, text);
}

static void add(struct writer *w, struct sluice_bytes word) {
	w->group->tail[w->group->tail_count++] = word;
}

static struct sluice_bytes text_of_word(enum sl_command_word word) {
	return sl_slice(sl_words[word].name, sl_words[word].len);
}

static void add_word(struct writer *w, enum sl_command_word word) {
	add(w, text_of_word(word));
}

static void put_untagged(struct sl_out *out, struct sluice_bytes key) {
	const char *p = key.data, *end = p + key.len, *brace;
	while (key.len != 0 && p < end && (brace = memchr(p, '{', (size_t)(end - p))) != NULL) {
		sl_out_bytes(out, p, (size_t)(brace - p));
		sl_out_str(out, "%7B");
		p = brace + 1;
	}
	if (key.len != 0)
		sl_out_bytes(out, p, (size_t)(end - p));
}

struct sluice_bytes sl_plan_key(char text[SL_PLAN_KEY_ROOM], const char *prefix, const struct sl_plan_item *item) {
	struct sl_out out = sl_out_to(text, SL_PLAN_KEY_ROOM);
	struct sluice_bytes key = item->item->key;
	sl_out_str(&out, prefix);
	if (item->name == NULL)
		sl_out_bytes(&out, key.data, key.len);
	else
		put_untagged(&out, key);
	SL_ASSERT(!out.overflow);
	return sl_key_fold(text, sl_slice(text, sl_out_len(&out)));
}

size_t sl_plan_key_undo(char *key, size_t len) {
	static const char brace[] = "%7B";
	size_t to = 0;
	for (size_t at = 0; at < len; to++) {
		bool is_brace = len - at >= sizeof brace - 1 && memcmp(key + at, brace, sizeof brace - 1) == 0;
		key[to] = is_brace ? '{' : key[at];
		at += is_brace ? sizeof brace - 1 : 1;
	}
	return to;
}

bool sl_plan_folds(const char *prefix, const struct sl_plan_item *item) {
	const char *key = item->item->key.data;
	size_t len = item->item->key.len, whole = strlen(prefix) + len;
	if (item->name == NULL || whole > SLUICE_KEY_BYTES_MAX || whole + 2 * len <= SLUICE_KEY_BYTES_MAX)
		return whole > SLUICE_KEY_BYTES_MAX;
	for (size_t i = 0; i < len; i++)
		whole += key[i] == '{' ? 2 : 0;
	return whole > SLUICE_KEY_BYTES_MAX;
}

/* The item's key, kept once: its place among the keys. */
static uint32_t intern_key(struct writer *w, const char *prefix, const struct sl_plan_item *item) {
	char text[SL_PLAN_KEY_ROOM];
	struct sl_group *group = w->group;
	struct sluice_bytes key = sl_plan_key(text, prefix, item);
	uint32_t at = 0;
	while (at < group->ask.key_count && !sl_bytes_equal(group->keys[at], key))
		at++;
	if (at == group->ask.key_count)
		group->keys[group->ask.key_count++] = keep(w, key);
	return at;
}

static void add_name(struct writer *w, const struct sl_plan_item *item) {
	const struct sluice_limit *limit = item->item->limit;
	char text[NAME_TEXT_MAX];
	if (item->name != NULL) {
		add_word(w, SL_WORD_NAME);
		add(w, keep(w, sl_str(item->name)));
	} else if (sl_identity_space(sl_identity_of(limit)) == SL_SPACE_THROTTLE) {
		snprintf(text, sizeof text, "CL.THROTTLE %u", limit->quota);
		add_word(w, SL_WORD_NAME);
		add(w, keep(w, sl_str(text)));
	}
}

static void add_number(struct writer *w, enum sl_command_word word, uint64_t value) {
	if (value == 0)
		return;
	add_word(w, word);
	add(w, number(&w->text, value));
}

/* What an item says beside its limit. */
static void add_options(struct writer *w, const struct sluice_item *item) {
	char terms[SL_TERMS_TEXT_MAX];
	if (item->observed != 0)
		add_word(w, item->observed == SLUICE_TRIED ? SL_WORD_TRIED : SL_WORD_OBSERVED);
	if (item->terms != NULL && (item->terms->count_denied || item->terms->penalty_count != 0)) {
		add_word(w, SL_WORD_TERMS);
		add(w, keep(w, sl_slice(terms, sl_terms_print(item->terms, terms))));
	}
	add_number(w, SL_WORD_COST, item->cost);
	add_number(w, SL_WORD_TTL, item->ttl_ns / SL_MS_NS);
	if (item->member.data != NULL) {
		add_word(w, SL_WORD_MEMBER);
		add(w, keep(w, item->member));
	}
}

static size_t text_bytes(const struct sl_plan_item *items, uint32_t count, const char *prefix) {
	size_t bytes = 0, prefix_len = strlen(prefix);
	for (uint32_t i = 0; i < count; i++)
		bytes += sl_min(prefix_len + (items[i].name == NULL ? 1 : 3) * items[i].item->key.len, SLUICE_KEY_BYTES_MAX) +
		         SLUICE_LIMIT_TEXT_MAX + NAME_TEXT_MAX + NUMBERS_MAX +
		         (items[i].name == NULL ? 0 : strlen(items[i].name)) + items[i].item->member.len +
		         (items[i].item->terms == NULL ? 0 : SL_TERMS_TEXT_MAX);
	return bytes;
}

/* Windows that are spread have the phase of the key that was asked for, without prefix and however long: the same
 * that a store on this host gives them. It is said with the limit. */
static struct sluice_limit keyed_rule(const struct sluice_item *item) {
	struct sluice_limit rule = *item->limit;
	sl_rule_key(&rule, item->key);
	return rule;
}

/* The words of all items; which of the keys each counts for. */
static void write_tail(struct writer *w, const struct sl_plan_item *items, uint32_t count, const char *prefix,
                       uint32_t key_of[SLUICE_ITEMS_MAX]) {
	struct sl_group *group = w->group;
	uint32_t counts_for = 0;
	for (uint32_t i = 0; i < count; i++) {
		char limit[SLUICE_LIMIT_TEXT_MAX];
		const struct sluice_limit rule = keyed_rule(items[i].item);
		key_of[i] = intern_key(w, prefix, &items[i]);
		if (key_of[i] != counts_for) {
			add_word(w, SL_WORD_KEY);
			add(w, group->keys[key_of[i]]);
			counts_for = key_of[i];
		}
		add_name(w, &items[i]);
		add_options(w, items[i].item);
		add(w, keep(w, sl_slice(limit, sluice_limit_print(&rule, limit))));
		group->positions[i] = items[i].position;
	}
}

/* How a script names what counts in a window or log; 0: it is neither. */
static uint8_t kind_of(struct sluice_bytes limit) {
	static const struct {
		const char *begins;
		uint8_t kind;
	} kinds[] = {{"sliding-window ", 'W'}, {"fixed-window ", 'F'}, {"sliding-log ", 'L'}};
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		const size_t len = strlen(kinds[i].begins);
		if (limit.len > len && memcmp(limit.data, kinds[i].begins, len) == 0)
			return kinds[i].kind;
	}
	return 0;
}

/* A window or log of which no more is said than its name can be said as bytes; within 53 bits, since a script counts
 * with doubles. */
static struct sl_ask_one one_of(const struct sl_group *group, const struct sluice_limit *limit) {
	const uint64_t window_ms = limit->window_ns / SL_MS_NS, most = (UINT64_C(1) << 53) - 1;
	const bool named = group->tail_count == 3 && sl_bytes_equal(group->tail[0], text_of_word(SL_WORD_NAME)) &&
	                   group->tail[1].len <= SL_ASK_NAME_MAX;
	struct sl_ask_one one = {.kind = 0};
	if ((group->tail_count != 1 && !named) || sl_rule_spreads(limit) || limit->calendar != 0 || limit->quota == 0 ||
	    window_ms == 0 || limit->window_ns % SL_MS_NS != 0 || limit->quota > most / window_ms)
		return one;
	one.kind = kind_of(group->tail[group->tail_count - 1]);
	one.quota = limit->quota;
	one.window_ms = window_ms;
	one.name = named ? group->tail[1] : sl_slice(NULL, 0);
	return one;
}

/* `more` bytes of text beside what the items take. */
static struct sl_group *new_group(struct writer *w, const struct sl_plan_item *items, uint32_t count,
                                  const char *prefix, size_t more) {
	/* of each item at most: KEY k NAME n OBSERVED TERMS t COST c TTL ms MEMBER m limit */
	size_t words = SL_HEAD_WORDS_MAX + WORDS_EACH * (size_t)count, text = text_bytes(items, count, prefix) + more;
	struct sl_group *group = malloc(sizeof *group + words * sizeof group->words[0] + text);
	SL_ASSERT(count >= 1 && count <= SLUICE_ITEMS_MAX);
	if (group == NULL)
		return NULL;
	memset(group, 0, sizeof *group);
	*w = (struct writer){group, sl_out_to(&group->words[words], text)};
	group->tail = group->words + SL_HEAD_WORDS_MAX;
	group->item_count = (uint8_t)count;
	return group;
}

struct sl_group *sl_group_new(const struct sl_plan_item *items, uint32_t count, const char *prefix) {
	uint32_t key_of[SLUICE_ITEMS_MAX];
	struct writer w;
	if (new_group(&w, items, count, prefix, 0) == NULL)
		return NULL;
	write_tail(&w, items, count, prefix, key_of);
	SL_ASSERT(!w.text.overflow);
	if (count == 1)
		w.group->one = one_of(w.group, items[0].item->limit);
	return w.group;
}

struct sl_group *sl_group_new_ticket(const struct sl_plan_item *items, uint32_t count, const char *prefix,
                                     uint64_t id) {
	uint32_t key_of[SLUICE_ITEMS_MAX];
	struct sluice_item keyed[SLUICE_ITEMS_MAX];
	struct sluice_limit rules[SLUICE_ITEMS_MAX];
	const char *names[SLUICE_ITEMS_MAX];
	struct writer w;
	struct sl_group *group = new_group(&w, items, count, prefix, SL_TICKET_BYTES_MAX);
	if (group == NULL)
		return NULL;
	write_tail(&w, items, count, prefix, key_of);
	for (uint32_t i = 0; i < count; i++) {
		rules[i] = keyed_rule(items[i].item);
		keyed[i] = (struct sluice_item){.limit = &rules[i], .key = group->keys[key_of[i]]};
		names[i] = items[i].name;
	}
	group->ticket = sl_slice(w.text.at, sl_ticket_write(w.text.at, id, group->keys[0], keyed, names, count));
	group->tail_count = 0;
	SL_ASSERT(!w.text.overflow);
	return group;
}

bool sl_plan_is_whole(const struct sluice_call *call) {
	if (call->operation == SLUICE_RESET)
		return false;
	if (sl_operation_is(call->operation, SL_OPS_LASTING) || call->upto || call->id.len != 0)
		return true;
	for (uint32_t i = 0; i < call->item_count; i++) {
		const struct sluice_item *item = &call->items[i];
		if (sl_rule_has(item->limit, SL_HAS_SEATS) || item->terms != NULL || item->member.data != NULL ||
		    item->cost != 0)
			return true;
	}
	return false;
}

/* ---- the head ---------------------------------------------------------------------------------------------------- */

static struct sluice_bytes identity(struct sl_out *out, uint64_t id) {
	char text[17];
	sl_hex_text(text, id);
	return text_of(out, sl_slice(text, 16));
}

/* A lease or reservation that a caller has named. Its number is said, as tickets say it: the script has a number of its
 * own for a name, and would not find by the one what was acquired by the other. */
static struct sluice_bytes named(struct sl_out *out, struct sluice_bytes id) {
	return identity(out, sl_id_number(id));
}

static struct sluice_bytes field_of(struct sl_out *out, enum sl_command_field field, const struct sl_head *head,
                                    struct sluice_bytes ticket) {
	switch (field) {
	case SL_FIELD_TTL:
	case SL_FIELD_HOLD_TTL:
		return number(out, head->ttl_ms);
	case SL_FIELD_SPENT:
		return number(out, head->spent);
	case SL_FIELD_WANT:
		return number(out, head->want);
	case SL_FIELD_HOLD:
		return identity(out, head->id);
	case SL_FIELD_LEASE:
		return named(out, head->of);
	case SL_FIELD_TICKET:
		return ticket;
	default:
		return number(out, head->cost);
	}
}

struct head_writer {
	struct sluice_bytes words[SL_HEAD_WORDS_MAX];
	uint32_t count;
	struct sl_out text;
};

static void say(struct head_writer *w, enum sl_command_word word) {
	w->words[w->count++] = text_of_word(word);
}

/* The words after the fields, as far as the verb's form takes them; and in the ask, where those stand that not every
 * module knows. */
static void say_words(struct head_writer *w, enum sl_operation verb, uint32_t words, const struct sl_head *head,
                      struct sl_node_ask *ask) {
	bool holds = verb == SL_OP_HOLD; /* whose answer is one counter's, and says how much was held */
	ask->exact = ask->part = 0;
	if (head->dated) {
		say(w, SL_WORD_AT);
		w->words[w->count++] = number(&w->text, head->now / SL_MS_NS);
	}
	if ((words & SL_SAYS(EXACT)) != 0 && !holds) {
		say(w, SL_WORD_EXACT);
		ask->exact = w->count;
	}
	if (holds || (head->upto && (words & SL_SAYS(UPTO)) != 0))
		say(w, SL_WORD_UPTO);
	if (head->upto && (verb == SL_OP_ACQUIRE || verb == SL_OP_RESERVE))
		ask->part = w->count;
	if (head->of.len != 0 && (words & SL_SAYS(ID)) != 0) {
		say(w, SL_WORD_ID);
		w->words[w->count++] =
			sl_operation_is(verb, SL_OPS_LASTING) ? named(&w->text, head->of) : text_of(&w->text, head->of);
	}
	if (verb == SL_OP_CONFIRM)
		say(w, SL_WORD_KEEP);
	if (verb == SL_OP_INSPECT)
		say(w, SL_WORD_EACH);
	if (verb == SL_OP_BESIDE) {
		say(w, SL_WORD_BESIDE);
		w->words[w->count++] = identity(&w->text, head->id);
	}
}

void sl_group_say(struct sl_group *group, enum sl_operation verb, const struct sl_head *head) {
	const struct sl_form *form = &sl_forms[verb == SL_OP_BESIDE ? SL_OP_PEEK : verb];
	struct head_writer w = {.count = 0, .text = sl_out_to(group->head_text, sizeof group->head_text)};
	for (uint32_t i = 0; i < form->field_count; i++)
		w.words[w.count++] = field_of(&w.text, form->fields[i], head, group->ticket);
	say_words(&w, verb, form->words | form->fronts, head, &group->ask);
	SL_ASSERT(w.count <= SL_HEAD_WORDS_MAX && !w.text.overflow);
	group->ask.dated = head->dated;
	group->one.cost = head->cost;
	group->one.charges = verb == SL_OP_CHECK;
	group->ask.one = group->one.kind != 0 && (verb == SL_OP_CHECK || verb == SL_OP_PEEK) && !head->dated &&
	                         !head->upto && head->of.len == 0
	                     ? &group->one
	                     : NULL;
	memcpy(group->tail - w.count, w.words, w.count * sizeof w.words[0]);
	group->ask.verb = form->name;
	group->ask.keys = group->keys;
	group->ask.words = group->tail - w.count;
	group->ask.word_count = w.count + group->tail_count;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

uint32_t sl_plan_stride(uint32_t number_count, uint32_t item_count) {
	return number_count == item_count * SL_EACH_NUMBERS    ? SL_EACH_NUMBERS
	       : number_count == item_count * SL_EXACT_NUMBERS ? SL_EXACT_NUMBERS
	                                                       : 0;
}

bool sl_plan_is_answer(enum sl_operation verb, const struct sl_answer *answer, uint32_t item_count) {
	uint32_t stride = sl_plan_stride(answer->count, item_count);
	if (answer->kind != SL_ANSWER_NUMBERS)
		return false;
	if (verb == SL_OP_RESET || verb == SL_OP_CANCEL || verb == SL_OP_RELEASE || verb == SL_OP_RENEW)
		return answer->count == 1 && answer->numbers[0] >= 0 && answer->numbers[0] <= UINT32_MAX;
	if (verb == SL_OP_HOLD)
		return answer->count == SL_HOLD_NUMBERS && answer->numbers[7] >= 0 && answer->numbers[7] <= UINT32_MAX &&
		       answer->numbers[8] >= 0 && answer->numbers[8] <= UINT32_MAX;
	if (verb == SL_OP_LEASE)
		return answer->count == SL_LEASE_NUMBERS && answer->numbers[0] >= 0 && answer->numbers[0] <= UINT32_MAX &&
		       sl_answer_is_each(answer->numbers + 1, SL_EACH_NUMBERS);
	for (uint32_t i = 0; i < item_count && stride != 0; i++)
		if (!sl_answer_is_each(answer->numbers + (size_t)stride * i, stride))
			return false;
	return stride != 0;
}

bool sl_plan_is_outcome(const struct sl_answer *answer, uint32_t item_count) {
	struct sl_answer each = *answer;
	const int64_t *outcome;
	if (answer->kind != SL_ANSWER_NUMBERS || answer->count < SL_OUTCOME_NUMBERS)
		return false;
	each.count -= SL_OUTCOME_NUMBERS;
	outcome = answer->numbers + each.count;
	return sl_plan_is_answer(SL_OP_PEEK, &each, item_count) && outcome[0] >= 0 && outcome[0] <= UINT32_MAX &&
	       (outcome[1] == 0 || outcome[1] == 1) && outcome[2] >= 0 && outcome[2] <= item_count;
}

struct sluice_decision sl_plan_decision(const int64_t *numbers, uint32_t stride, uint8_t position) {
	struct sluice_decision decision = sl_answer_each(numbers, stride);
	decision.index = position;
	return decision;
}

struct sluice_decision sl_plan_full(const struct sluice_limit *limit, uint8_t position) {
	uint64_t capacity = limit->derived[SL_CAPACITY];
	return (struct sluice_decision){
		.allowed = true,
		.index = position,
		.quota = capacity,
		.remaining = capacity < UINT32_MAX ? (uint32_t)capacity : UINT32_MAX,
	};
}
