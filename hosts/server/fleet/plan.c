/* See plan.h. The grammar of the commands is a table: which words stand in a verb's head, in their order.
 *
 * The counter of CL.THROTTLE is nobody else's. It goes by a name that no policy can have: limits there have no spaces
 * in their names; the rate is part of it, as of the counter's identity here. */
#include "hosts/server/fleet/plan.h"

#include "algo/rule.h"
#include "base/assert.h"
#include "base/out.h"

#include <stdio.h>
#include <stdlib.h>

enum { THROTTLE_SPACE = 2, NAME_TEXT_MAX = 32 };

/* c cost, i id, t ttl_ms, s spent, w want, A the instant where the client has set it, E EACH */
static const struct {
	const char *verb, *head;
} grammar[SL_VERBS] = {
	[SL_CHECK] = {"CHECK", "cAE"},  [SL_PEEK] = {"PEEK", "cAE"},     [SL_REFUND] = {"REFUND", "cAE"},
	[SL_RESET] = {"RESET", "A"},    [SL_HOLD] = {"HOLD", "citAE"},   [SL_CONFIRM] = {"CONFIRM", "ciAE"},
	[SL_CANCEL] = {"CANCEL", "iA"}, [SL_LEASE] = {"LEASE", "itswA"},
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

/* The key with its prefix, kept once: its place among the keys. */
static uint32_t intern_key(struct writer *w, const char *prefix, struct sluice_bytes key) {
	struct sl_group *group = w->group;
	struct sluice_bytes whole = {w->text.at, strlen(prefix) + key.len};
	uint32_t at = 0;
	sl_out_str(&w->text, prefix);
	sl_out_bytes(&w->text, key.data, key.len);
	while (at < group->ask.key_count && !sl_bytes_equal(group->keys[at], whole))
		at++;
	if (at < group->ask.key_count)
		w->text.at -= whole.len;
	else
		group->keys[group->ask.key_count++] = whole;
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

static size_t text_bytes(const struct sl_plan_item *items, uint32_t count, const char *prefix) {
	size_t bytes = 0, prefix_len = strlen(prefix);
	for (uint32_t i = 0; i < count; i++)
		bytes += prefix_len + items[i].item->key.len + SLUICE_LIMIT_TEXT_MAX + NAME_TEXT_MAX +
		         (items[i].name == NULL ? 0 : strlen(items[i].name));
	return bytes;
}

struct sl_group *sl_group_new(const struct sl_plan_item *items, uint32_t count, const char *prefix) {
	/* of each item at most: KEY k NAME n OBSERVED limit */
	size_t words = SL_HEAD_WORDS_MAX + 6 * (size_t)count, text = text_bytes(items, count, prefix);
	struct sl_group *group = malloc(sizeof *group + words * sizeof group->words[0] + text);
	struct writer w = {.group = group};
	uint32_t counts_for = 0;
	SL_ASSERT(count >= 1 && count <= SLUICE_ITEMS_MAX);
	if (group == NULL)
		return NULL;
	memset(group, 0, sizeof *group);
	w.text = sl_out_to(&group->words[words], text);
	group->tail = group->words + SL_HEAD_WORDS_MAX;
	group->item_count = (uint8_t)count;
	for (uint32_t i = 0; i < count; i++) {
		char limit[SLUICE_LIMIT_TEXT_MAX];
		uint32_t key = intern_key(&w, prefix, items[i].item->key);
		if (key != counts_for) {
			add(&w, sl_str("KEY"));
			add(&w, group->keys[key]);
			counts_for = key;
		}
		add_name(&w, &items[i]);
		if (items[i].item->observed != 0)
			add(&w, sl_str(items[i].item->observed == SLUICE_TRIED ? "TRIED" : "OBSERVED"));
		add(&w, keep(&w, sl_slice(limit, sluice_limit_print(items[i].item->limit, limit))));
		group->positions[i] = items[i].position;
	}
	SL_ASSERT(!w.text.overflow);
	return group;
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

static uint32_t add_head(struct sluice_bytes *words, struct sl_out *out, char what, const struct sl_head *head) {
	switch (what) {
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
		words[0] = sl_str("EACH");
		return 1;
	default:
		if (!head->dated)
			return 0;
		words[0] = sl_str("AT");
		words[1] = number(out, head->now / SL_MS_NS);
		return 2;
	}
}

void sl_group_say(struct sl_group *group, enum sl_verb verb, const struct sl_head *head) {
	struct sluice_bytes words[SL_HEAD_WORDS_MAX];
	struct sl_out out = sl_out_to(group->head_text, sizeof group->head_text);
	uint32_t count = 0;
	for (const char *what = grammar[verb].head; *what != '\0'; what++)
		count += add_head(words + count, &out, *what, head);
	SL_ASSERT(count <= SL_HEAD_WORDS_MAX && !out.overflow);
	memcpy(group->tail - count, words, count * sizeof words[0]);
	group->ask.verb = grammar[verb].verb;
	group->ask.keys = group->keys;
	group->ask.words = group->tail - count;
	group->ask.word_count = count + group->tail_count;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static bool is_each(const int64_t *n) {
	for (int i = 3; i < SL_EACH_NUMBERS; i++)
		if (n[i] < -1)
			return false;
	return (n[0] == 0 || n[0] == 1) && n[1] >= 0 && n[1] <= (int64_t)UINT32_MAX + 1 && n[2] >= 0 && n[2] <= UINT32_MAX;
}

bool sl_plan_is_answer(enum sl_verb verb, const struct sl_answer *answer, uint32_t item_count) {
	if (answer->kind != SL_ANSWER_NUMBERS)
		return false;
	if (verb == SL_RESET || verb == SL_CANCEL)
		return answer->count == 1 && answer->numbers[0] >= 0 && answer->numbers[0] <= UINT32_MAX;
	if (verb == SL_LEASE)
		return answer->count == SL_LEASE_NUMBERS && answer->numbers[0] >= 0 && answer->numbers[0] <= UINT32_MAX &&
		       is_each(answer->numbers + 1);
	if (answer->count != item_count * SL_EACH_NUMBERS)
		return false;
	for (uint32_t i = 0; i < item_count; i++)
		if (!is_each(answer->numbers + (size_t)SL_EACH_NUMBERS * i))
			return false;
	return true;
}

static sluice_ns wait_of(int64_t ms) {
	if (ms < 0)
		return SLUICE_NEVER;
	return (uint64_t)ms < SLUICE_NEVER / SL_MS_NS ? (sluice_ns)ms * SL_MS_NS : SLUICE_NEVER - 1;
}

struct sluice_decision sl_plan_decision(const int64_t numbers[SL_EACH_NUMBERS], uint8_t position, bool want_next) {
	return (struct sluice_decision){
		.allowed = numbers[0] == 1,
		.index = position,
		.quota = (uint64_t)numbers[1],
		.remaining = (uint32_t)numbers[2],
		.retry_after_ns = wait_of(numbers[3]),
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
