/* Calls: from the shared block to struct sl_asked, and from struct sl_told back. What texts and numbers mean is not
 * looked at here. */
#include "bindings/node/native/addon.h"

#include "base/out.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(SL_ASKED_LIMITS_MAX <= (TEXTS_MAX - LENGTH_LIMITS) / 2, "what is asked has room in the block");

/* The memory of a question; static per thread would not do, since workers come and go: it lives on the stack. */
struct question {
	struct sl_asked asked;
	struct sl_asked_limit limits[SL_ASKED_LIMITS_MAX];
	struct sluice_attribute attributes[(TEXTS_MAX - LENGTH_LIMITS) / 2];
};

/* Takes the texts one after the other out of the block, or out of a buffer that was passed. */
struct texts {
	const char *at, *end;
	const int32_t *length;
};

/* data NULL where there is none. JavaScript says lengths that fit; whatever else is found ends at the block's end. */
static struct sluice_bytes next_text(struct texts *texts) {
	int32_t length = *texts->length++;
	if (length < 0)
		return sl_slice(NULL, 0);
	size_t left = (size_t)(texts->end - texts->at), len = (size_t)length < left ? (size_t)length : left;
	struct sluice_bytes text = sl_slice(texts->at, len);
	texts->at += len;
	return text;
}

/* A double that was checked in JavaScript: a whole number, or -1. */
static int64_t whole(double number) {
	return number >= -1 && number <= 9007199254740992.0 ? (int64_t)number : -1;
}

/* 0 would be the store's clock: the first instant of 1970 is a nanosecond later. */
static sluice_ns instant(double now_ms) {
	return now_ms < 0 ? 0 : now_ms == 0 ? 1 : (sluice_ns)whole(now_ms) * 1000000;
}

static void read_question(struct question *q, const struct shared *shared, struct texts texts) {
	const struct shared_figures *figures = &shared->figures;
	uint32_t pairs = (uint32_t)whole(figures->pairs), flags = (uint32_t)whole(figures->flags);
	q->asked = (struct sl_asked){.operation = (enum sl_operation)whole(figures->operation),
	                             .cost = whole(figures->cost),
	                             .ttl_ms = whole(figures->ttl_ms),
	                             .upto = (flags & FLAG_UPTO) != 0,
	                             .next = (flags & FLAG_NEXT) != 0,
	                             .each = (flags & FLAG_EACH) != 0,
	                             .last = (flags & FLAG_LAST) != 0,
	                             .now = instant(figures->now_ms)};
	q->asked.id = next_text(&texts);
	q->asked.member = next_text(&texts);
	q->asked.key = next_text(&texts);
	if (q->asked.operation == SL_OP_ADMIT) {
		q->asked.attributes = q->attributes;
		q->asked.attribute_count = pairs < (TEXTS_MAX - LENGTH_LIMITS) / 2 ? pairs : (TEXTS_MAX - LENGTH_LIMITS) / 2;
		for (uint32_t i = 0; i < q->asked.attribute_count; i++) {
			q->attributes[i].name = next_text(&texts);
			q->attributes[i].value = next_text(&texts);
		}
		return;
	}
	q->asked.limits = q->limits;
	q->asked.limit_count = pairs < SL_ASKED_LIMITS_MAX ? pairs : SL_ASKED_LIMITS_MAX;
	for (uint32_t i = 0; i < q->asked.limit_count; i++) {
		q->limits[i].text = next_text(&texts);
		q->limits[i].key = next_text(&texts);
		q->limits[i].member = sl_slice(NULL, 0);
	}
}

/* ---- what is told ---- */

static void put_each(double *to, const struct sluice_decision *decision) {
	to[0] = decision->allowed;
	to[1] = (double)decision->quota;
	to[2] = decision->remaining;
	to[3] = (double)sl_ns_to_ms_ceil(decision->retry_after_ns);
	to[4] = (double)sl_ns_to_ms_ceil(decision->reset_after_ns);
	to[5] = (double)sl_ns_to_ms_ceil(decision->delay_ns);
	to[6] = decision->index;
	to[7] = (double)sl_ns_to_ms_ceil(decision->next_after_ns);
}

/* Writes a text behind those that are there; how many bytes. What is told of texts always has room: see below. */
static double put_text(struct shared *shared, size_t at, struct sluice_bytes text) {
	if (text.data == NULL || text.len > BYTES_SHARED - at)
		return -1;
	memcpy(shared->bytes + at, text.data, text.len);
	return (double)text.len;
}

/* Of a policy: three lengths a limit, of its name and its text, and 1 where it is observed. */
static void tell_limits(struct shared *shared, size_t at, const struct sl_told *told) {
	_Static_assert(3 * SLUICE_ITEMS_MAX <= TEXTS_MAX, "there is room for them");
	for (uint32_t i = 0; told->limits != NULL && i < told->each_count; i++) {
		int32_t *lengths = shared->lengths + (size_t)3 * i;
		lengths[0] = (int32_t)put_text(shared, at, told->limits[i].name);
		lengths[1] = (int32_t)put_text(shared, at + (size_t)lengths[0], told->limits[i].text);
		lengths[2] = told->limits[i].observed;
		at += (size_t)lengths[0] + (size_t)lengths[1];
	}
}

static void tell(struct shared *shared, const struct sl_told *told) {
	struct shared_figures *figures = &shared->figures;
	double merged[FIGURES_OF_EACH + 1];
	put_each(merged, &told->merged);
	memcpy(&figures->allowed, merged, FIGURES_OF_EACH * sizeof merged[0]);
	figures->next_ms = merged[FIGURES_OF_EACH];
	figures->granted = told->granted;
	figures->repeated = told->repeated;
	figures->count = told->count;
	figures->each_count = told->each_count;
	figures->failed_open = told->failed_open;
	for (uint32_t i = 0; i < told->each_count; i++)
		put_each(figures->each[i], &told->each[i]);
	figures->id_bytes = put_text(shared, 0, told->id);
	size_t at = figures->id_bytes < 0 ? 0 : (size_t)figures->id_bytes;
	figures->name_bytes = put_text(shared, at, told->name);
	tell_limits(shared, at + (figures->name_bytes < 0 ? 0 : (size_t)figures->name_bytes), told);
	figures->told = TOLD_DECISION;
}

void tell_failure(struct shared *shared, const struct sl_failure *failure) {
	shared->figures.name_bytes = put_text(shared, 0, sl_str(failure->text));
	shared->figures.told = failure->again ? TOLD_AGAIN : (int)failure->kind;
}

static void decide(struct held *held, const char *bytes, size_t len) {
	struct question question;
	struct sl_told told;
	struct sl_failure failure;
	read_question(&question, held->shared, (struct texts){bytes, bytes + len, held->shared->lengths});
	if (!sl_limiter_decide(held->open, &question.asked, &told, &failure)) {
		tell_failure(held->shared, &failure);
		return;
	}
	tell(held->shared, &told);
	sl_told_end(held->open, &told);
}

/* `decide()`; or `decide(texts)`, a Uint8Array, where they are too long for the block. */
napi_value call_decide(napi_env env, napi_callback_info info) {
	napi_value argument;
	size_t count = 1, len = BYTES_SHARED;
	void *data, *bytes = NULL;
	if (napi_get_cb_info(env, info, &count, &argument, NULL, &data) != napi_ok)
		return NULL;
	struct held *held = data;
	if (held->open == NULL)
		held->shared->figures.told = TOLD_CLOSED;
	else if (count == 0)
		decide(held, held->shared->bytes, len);
	else if (napi_get_typedarray_info(env, argument, NULL, &len, &bytes, NULL, NULL) == napi_ok)
		decide(held, bytes, len);
	else
		napi_throw_type_error(env, "bad-argument", "decide: expected a Uint8Array");
	return NULL;
}

/* ---- who holds leases ---- */

static bool add_holder(napi_env env, napi_value list, uint32_t index, const struct sluice_holder *holder) {
	napi_value one, parts[3];
	char id[17];
	sl_hex_text(id, holder->id);
	bool good = napi_create_string_utf8(env, id, NAPI_AUTO_LENGTH, &parts[0]) == napi_ok &&
	            napi_create_uint32(env, holder->cost, &parts[1]) == napi_ok &&
	            napi_create_double(env, (double)sl_ns_to_ms_ceil(holder->ends_after_ns), &parts[2]) == napi_ok &&
	            napi_create_array_with_length(env, 3, &one) == napi_ok;
	for (uint32_t i = 0; good && i < 3; i++)
		good = napi_set_element(env, one, i, parts[i]) == napi_ok;
	return good && napi_set_element(env, list, index, one) == napi_ok;
}

napi_value call_holders(napi_env env, napi_callback_info info) {
	struct sl_failure failure;
	struct sluice_holder *holders;
	napi_value list;
	const char *bytes;
	uint32_t count;
	size_t len;
	void *data;
	if (napi_get_cb_info(env, info, NULL, NULL, NULL, &data) != napi_ok)
		return NULL;
	struct held *held = data;
	struct shared *shared = held->shared;
	shared->figures.told = TOLD_CLOSED;
	if (held->open == NULL || !read_bytes(env, info, shared, &bytes, &len, &data) ||
	    napi_create_array(env, &list) != napi_ok)
		return NULL;
	struct sluice_bytes key = text_at(shared, bytes, len, LENGTH_KEY);
	struct sluice_bytes limit = text_at(shared, bytes, len, LENGTH_LIMITS);
	if (!sl_limiter_holders(held->open, key, limit, instant(shared->figures.now_ms), &holders, &count, &failure)) {
		tell_failure(shared, &failure);
		return NULL;
	}
	bool good = true;
	for (uint32_t i = 0; good && i < count; i++)
		good = add_holder(env, list, i, &holders[i]);
	free(holders);
	shared->figures.told = TOLD_DECISION;
	return good ? list : NULL;
}

/* ---- the shortest way ---- */

/* Waits of more than 24 days, and quotas of more than 2147483647, go the long way. */
static bool small(uint64_t number) {
	return number <= INT32_MAX;
}

static bool put_hot(struct shared_hot *hot, const struct sluice_decision *decision) {
	int64_t retry = sl_ns_to_ms_ceil(decision->retry_after_ns), reset = sl_ns_to_ms_ceil(decision->reset_after_ns);
	int64_t delay = sl_ns_to_ms_ceil(decision->delay_ns);
	if (!small(decision->quota) || !small(decision->remaining) || !small((uint64_t)(retry + 1)) ||
	    !small((uint64_t)reset) || !small((uint64_t)delay))
		return false;
	hot->allowed = decision->allowed;
	hot->quota = (int32_t)decision->quota;
	hot->remaining = (int32_t)decision->remaining;
	hot->retry_ms = (int32_t)retry;
	hot->reset_ms = (int32_t)reset;
	hot->delay_ms = (int32_t)delay;
	hot->index = decision->index;
	return true;
}

/* What does not fit is told in full all the same, since it is charged. */
static void tell_wide(struct shared *shared, const struct sluice_decision *decision) {
	struct sl_told told = {.merged = *decision, .granted = decision->allowed};
	tell(shared, &told);
}

napi_value check_hot(napi_env env, napi_callback_info info) {
	struct sluice_decision decision;
	void *data;
	if (napi_get_cb_info(env, info, NULL, NULL, NULL, &data) != napi_ok)
		return NULL;
	const struct instance *instance = data;
	struct shared *shared = instance->shared;
	uint32_t way = (uint32_t)shared->hot.way;
	size_t len = (size_t)shared->hot.key_bytes;
	const struct hot *hot = way < instance->hot_room ? instance->hots[way] : NULL;
	shared->hot.told = 0;
	if (hot == NULL || hot->held->open == NULL || len > KEY_BYTES_HOT ||
	    sl_limiter_check_set(hot->held->open, &hot->set, sl_slice(shared->hot.key, len), 1, &decision) != SLUICE_OK)
		return NULL;
	if (put_hot(&shared->hot, &decision)) {
		shared->hot.told = 1;
	} else {
		shared->hot.told = 2;
		tell_wide(shared, &decision);
	}
	return NULL;
}

/* A number that is free; hot_room: there is no memory. */
static uint32_t free_way(struct instance *instance) {
	uint32_t way = 0, room = instance->hot_room != 0 ? instance->hot_room * 2 : 16;
	while (way < instance->hot_room && instance->hots[way] != NULL)
		way++;
	struct hot **grown = way < instance->hot_room ? NULL : realloc(instance->hots, room * sizeof(struct hot *));
	if (grown != NULL) {
		memset(grown + way, 0, (room - way) * sizeof(struct hot *));
		instance->hots = grown;
		instance->hot_room = room;
	}
	return way;
}

static int32_t add_hot(struct held *held, const struct sluice_bytes *texts, uint32_t count) {
	struct hot *hot = malloc(sizeof *hot);
	uint32_t way = hot == NULL ? 0 : free_way(held->instance);
	if (hot == NULL || way >= held->instance->hot_room || !sl_limiter_set(held->open, texts, count, &hot->set)) {
		free(hot);
		return -1;
	}
	hot->held = held;
	hot->next = held->hots;
	held->hots = held->instance->hots[way] = hot;
	return (int32_t)way;
}

void release_hots(struct held *held) {
	struct instance *instance = held->instance;
	struct hot *hot = held->hots;
	for (uint32_t way = 0; way < instance->hot_room; way++)
		if (instance->hots[way] != NULL && instance->hots[way]->held == held)
			instance->hots[way] = NULL;
	while (hot != NULL) {
		struct hot *next = hot->next;
		free(hot);
		hot = next;
	}
	release_instance(instance);
}

/* `hot([texts])`: a number of these limits, by which check() asks. */
napi_value call_hot(napi_env env, napi_callback_info info) {
	struct sluice_bytes texts[SLUICE_ITEMS_MAX];
	const char *bytes;
	size_t len;
	void *data;
	if (napi_get_cb_info(env, info, NULL, NULL, NULL, &data) != napi_ok)
		return NULL;
	struct held *held = data;
	struct shared *shared = held->shared;
	if (!read_bytes(env, info, shared, &bytes, &len, &data))
		return NULL;
	int64_t pairs = whole(shared->figures.pairs);
	uint32_t count = pairs >= 0 && pairs <= SLUICE_ITEMS_MAX ? (uint32_t)pairs : 0;
	for (uint32_t i = 0; i < count; i++)
		texts[i] = text_at(shared, bytes, len, i);
	shared->figures.told = held->open == NULL ? -1 : add_hot(held, texts, count);
	return NULL;
}
