/* See plan.h. The grammar of the commands is a table: which words stand in a verb's head, in their order.
 *
 * The counter of CL.THROTTLE is nobody else's. It goes by a name that no policy can have: limits there have no spaces
 * in their names; the rate is part of it, as of the counter's identity here. */
#include "hosts/server/fleet/plan.h"

#include "algo/rule.h"
#include "base/assert.h"
#include "algo/terms.h"
#include "base/math.h"
#include "base/out.h"
#include "policy/key.h"
#include "proto/ticket.h"

#include <stdio.h>
#include <stdlib.h>

enum { THROTTLE_SPACE = 2, NAME_TEXT_MAX = 32, NUMBERS_MAX = 40, WORDS_EACH = 14 };

/* c cost, i id, t ttl_ms, s spent, w want, A the instant where the client has set it, E EXACT, U UPTO and I ID where
 * the call says them, n that id alone. P UPTO, K KEEP, B BESIDE and the id. T the group's ticket. */
static const struct {
	const char *verb, *head;
} grammar[SL_VERBS] = {
	[SL_CHECK] = {"CHECK", "cAEUI"},  [SL_PEEK] = {"PEEK", "cAEU"},    [SL_REFUND] = {"REFUND", "cAE"},
	[SL_RESET] = {"RESET", "A"},      [SL_HOLD] = {"HOLD", "citAP"},   [SL_CONFIRM] = {"CONFIRM", "ciAEK"},
	[SL_CANCEL] = {"CANCEL", "iA"},   [SL_LEASE] = {"LEASE", "itswA"}, [SL_ACQUIRE] = {"ACQUIRE", "cAEI"},
	[SL_RELEASE] = {"RELEASE", "nA"}, [SL_RENEW] = {"RENEW", "nA"},    [SL_RESERVE] = {"RESERVE", "ctAEI"},
	[SL_COMMIT] = {"COMMIT", "TcAE"}, [SL_BESIDE] = {"PEEK", "cAEB"},
};

/* ---- the tail ---------------------------------------------------------------------------------------------------- */

struct writer {
	struct sl_group *group;
	struct sl_out text;
};

static struct sluice_bytes keep(struct writer *w, struct sluice_bytes text) {
	struct sluice_bytes kept = {w->text.at, text.len};
	sl_out_bytes(&w->text, text.data, text.len);
	return kept;
}

static void add(struct writer *w, struct sluice_bytes word) {
	w->group->tail[w->group->tail_count++] = word;
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
		add(w, sl_str("NAME"));
		add(w, keep(w, sl_str(item->name)));
	} else if (limit->derived[SL_IDENT_KIND] >> 62 == THROTTLE_SPACE) {
		snprintf(text, sizeof text, "CL.THROTTLE %u", limit->quota);
		add(w, sl_str("NAME"));
		add(w, keep(w, sl_str(text)));
	}
}

static void add_number(struct writer *w, const char *word, uint64_t value) {
	struct sluice_bytes text = {w->text.at, 0};
	if (value == 0)
		return;
	sl_out_u64(&w->text, value);
	text.len = (size_t)(w->text.at - (const char *)text.data);
	add(w, sl_str(word));
	add(w, text);
}

/* What an item says beside its limit. */
static void add_asides(struct writer *w, const struct sluice_item *item) {
	char terms[SL_TERMS_TEXT_MAX];
	if (item->observed != 0)
		add(w, sl_str(item->observed == SLUICE_TRIED ? "TRIED" : "OBSERVED"));
	if (item->terms != NULL && (item->terms->count_denied || item->terms->penalty_count != 0)) {
		add(w, sl_str("TERMS"));
		add(w, keep(w, sl_slice(terms, sl_terms_print(item->terms, terms))));
	}
	add_number(w, "COST", item->cost);
	add_number(w, "TTL", item->ttl_ns / SL_MS_NS);
	if (item->member.data != NULL) {
		add(w, sl_str("MEMBER"));
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

/* The words of all items; which of the keys each counts for. */
static void write_tail(struct writer *w, const struct sl_plan_item *items, uint32_t count, const char *prefix,
                       uint32_t key_of[SLUICE_ITEMS_MAX]) {
	struct sl_group *group = w->group;
	uint32_t counts_for = 0;
	for (uint32_t i = 0; i < count; i++) {
		char limit[SLUICE_LIMIT_TEXT_MAX];
		key_of[i] = intern_key(w, prefix, &items[i]);
		if (key_of[i] != counts_for) {
			add(w, sl_str("KEY"));
			add(w, group->keys[key_of[i]]);
			counts_for = key_of[i];
		}
		add_name(w, &items[i]);
		add_asides(w, items[i].item);
		add(w, keep(w, sl_slice(limit, sluice_limit_print(items[i].item->limit, limit))));
		group->positions[i] = items[i].position;
	}
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
	return w.group;
}

struct sl_group *sl_group_new_ticket(const struct sl_plan_item *items, uint32_t count, const char *prefix,
                                     uint64_t id) {
	uint32_t key_of[SLUICE_ITEMS_MAX];
	struct sluice_item keyed[SLUICE_ITEMS_MAX];
	const char *names[SLUICE_ITEMS_MAX];
	struct writer w;
	struct sl_group *group = new_group(&w, items, count, prefix, SL_TICKET_BYTES_MAX);
	if (group == NULL)
		return NULL;
	write_tail(&w, items, count, prefix, key_of);
	for (uint32_t i = 0; i < count; i++) {
		keyed[i] = (struct sluice_item){.limit = items[i].item->limit, .key = group->keys[key_of[i]]};
		names[i] = items[i].name;
	}
	group->ticket = sl_slice(w.text.at, sl_ticket_write(w.text.at, id, group->keys[0], keyed, names, count));
	group->tail_count = 0;
	SL_ASSERT(!w.text.overflow);
	return group;
}

bool sl_plan_is_whole(const struct sluice_call *call) {
	if (call->operation >= SLUICE_ACQUIRE || call->upto || call->id.len != 0)
		return true;
	for (uint32_t i = 0; i < call->item_count; i++) {
		const struct sluice_item *item = &call->items[i];
		if (item->limit->algorithm >= SLUICE_CONCURRENCY || item->terms != NULL || item->member.data != NULL)
			return true;
	}
	return false;
}

/* ---- the head ---------------------------------------------------------------------------------------------------- */

static struct sluice_bytes number(struct sl_out *out, uint64_t value) {
	struct sluice_bytes text = {out->at, 0};
	sl_out_u64(out, value);
	text.len = (size_t)(out->at - (const char *)text.data);
	return text;
}

static struct sluice_bytes identity(struct sl_out *out, uint64_t id) {
	struct sluice_bytes text = {out->at, 16};
	for (int shift = 60; shift >= 0; shift -= 4)
		sl_out_char(out, "0123456789abcdef"[id >> shift & 15]);
	return text;
}

static struct sluice_bytes text_of(struct sl_out *out, struct sluice_bytes of) {
	struct sluice_bytes text = {out->at, of.len};
	sl_out_bytes(out, of.data, of.len);
	return text;
}

/* What a whole call alone says. */
static uint32_t add_whole(struct sluice_bytes *words, struct sl_out *out, char what, const struct sl_head *head) {
	if (what == 'U' && head->upto) {
		words[0] = sl_str("UPTO");
		return 1;
	}
	if (what == 'I' && head->of.len != 0) {
		words[0] = sl_str("ID");
		words[1] = text_of(out, head->of);
		return 2;
	}
	return 0;
}

static uint32_t add_head(struct sluice_bytes *words, struct sl_out *out, char what, const struct sl_head *head) {
	switch (what) {
	case 'U':
	case 'I':
		return add_whole(words, out, what, head);
	case 'n':
		words[0] = text_of(out, head->of);
		return 1;
	case 'c':
		words[0] = number(out, head->cost);
		return 1;
	case 'i':
		words[0] = identity(out, head->id);
		return 1;
	case 't':
		words[0] = number(out, head->ttl_ms);
		return 1;
	case 's':
		words[0] = number(out, head->spent);
		return 1;
	case 'w':
		words[0] = number(out, head->want);
		return 1;
	case 'E':
	case 'K':
	case 'P':
		words[0] = sl_str(what == 'E' ? "EXACT" : what == 'K' ? "KEEP" : "UPTO");
		return 1;
	case 'B':
		words[0] = sl_str("BESIDE");
		words[1] = identity(out, head->id);
		return 2;
	default:
		if (!head->dated)
			return 0;
		words[0] = sl_str("AT");
		words[1] = number(out, head->now / SL_MS_NS);
		return 2;
	}
}

void sl_group_say(struct sl_group *group, enum sl_fleet_verb verb, const struct sl_head *head) {
	struct sluice_bytes words[SL_HEAD_WORDS_MAX];
	struct sl_out out = sl_out_to(group->head_text, sizeof group->head_text);
	uint32_t count = 0;
	group->ask.exact = 0;
	for (const char *what = grammar[verb].head; *what != '\0'; what++) {
		if (*what == 'E')
			group->ask.exact = count + 1;
		if (*what == 'T')
			words[count++] = group->ticket;
		else
			count += add_head(words + count, &out, *what, head);
	}
	SL_ASSERT(count <= SL_HEAD_WORDS_MAX && !out.overflow);
	group->ask.dated = head->dated;
	memcpy(group->tail - count, words, count * sizeof words[0]);
	group->ask.verb = grammar[verb].verb;
	group->ask.keys = group->keys;
	group->ask.words = group->tail - count;
	group->ask.word_count = count + group->tail_count;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static bool is_each(const int64_t *n, uint32_t stride) {
	for (int i = 3; i < SL_EACH_NUMBERS; i++)
		if (n[i] < -1)
			return false;
	if (stride == SL_EXACT_NUMBERS && n[7] != 0 && (n[3] < 1 || n[7] < 0 || n[7] >= (int64_t)SL_MS_NS))
		return false;
	return n[0] >= 0 && n[0] < 2 * SLUICE_BOUNDS && n[1] >= 0 && n[1] <= (int64_t)UINT32_MAX + 1 && n[2] >= 0 &&
	       n[2] <= UINT32_MAX;
}

uint32_t sl_plan_stride(uint32_t number_count, uint32_t item_count) {
	return number_count == item_count * SL_EACH_NUMBERS    ? SL_EACH_NUMBERS
	       : number_count == item_count * SL_EXACT_NUMBERS ? SL_EXACT_NUMBERS
	                                                       : 0;
}

bool sl_plan_is_answer(enum sl_fleet_verb verb, const struct sl_answer *answer, uint32_t item_count) {
	uint32_t stride = sl_plan_stride(answer->count, item_count);
	if (answer->kind != SL_ANSWER_NUMBERS)
		return false;
	if (verb == SL_RESET || verb == SL_CANCEL || verb == SL_RELEASE || verb == SL_RENEW)
		return answer->count == 1 && answer->numbers[0] >= 0 && answer->numbers[0] <= UINT32_MAX;
	if (verb == SL_HOLD)
		return answer->count == SL_HOLD_NUMBERS && answer->numbers[7] >= 0 && answer->numbers[7] <= UINT32_MAX &&
		       answer->numbers[8] >= 0 && answer->numbers[8] <= UINT32_MAX;
	if (verb == SL_LEASE)
		return answer->count == SL_LEASE_NUMBERS && answer->numbers[0] >= 0 && answer->numbers[0] <= UINT32_MAX &&
		       is_each(answer->numbers + 1, SL_EACH_NUMBERS);
	for (uint32_t i = 0; i < item_count && stride != 0; i++)
		if (!is_each(answer->numbers + (size_t)stride * i, stride))
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
	return sl_plan_is_answer(SL_PEEK, &each, item_count) && outcome[0] >= 0 && outcome[0] <= UINT32_MAX &&
	       (outcome[1] == 0 || outcome[1] == 1) && outcome[2] >= 0 && outcome[2] <= item_count;
}

static sluice_ns wait_of(int64_t ms) {
	if (ms < 0)
		return SLUICE_NEVER;
	return (uint64_t)ms < SLUICE_NEVER / SL_MS_NS ? (sluice_ns)ms * SL_MS_NS : SLUICE_NEVER - 1;
}

struct sluice_decision sl_plan_decision(const int64_t *numbers, uint32_t stride, uint8_t position, bool want_next) {
	sluice_ns rounded_up = stride == SL_EXACT_NUMBERS ? (sluice_ns)numbers[7] : 0;
	return (struct sluice_decision){
		.allowed = (numbers[0] & 1) != 0,
		.bound = (uint8_t)(numbers[0] >> 1),
		.index = position,
		.quota = (uint64_t)numbers[1],
		.remaining = (uint32_t)numbers[2],
		.retry_after_ns = wait_of(numbers[3]) - rounded_up,
		.reset_after_ns = wait_of(numbers[4]),
		.delay_ns = wait_of(numbers[5]),
		.next_after_ns = want_next ? wait_of(numbers[6]) : 0,
	};
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
