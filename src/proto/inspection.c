/* What INSPECT tells of a limit's counter; see inspection.h. */
#include "proto/inspection.h"

#include "algo/hll.h"
#include "algo/rule.h"

bool sl_error_text(const struct sluice_limit *limit, char text[SL_ERROR_TEXT_MAX]) {
	uint32_t error_bp = sl_distinct_error(limit);
	memcpy(text, "0.0000", SL_ERROR_TEXT_MAX);
	for (int at = SL_ERROR_TEXT_MAX - 2, left = (int)error_bp; left != 0; left /= 10)
		text[at--] = (char)('0' + left % 10);
	return error_bp != 0;
}

void sl_inspection_numbers(const struct sluice_inspection *told,
                           struct sl_inspection_number list[SL_INSPECTION_NUMBERS]) {
	const struct sluice_decision *d = &told->decision;
	const struct sluice_standing *standing = &told->standing;
	const struct sl_inspection_number numbers[SL_INSPECTION_NUMBERS] = {
		{"allowed", d->allowed},
		{"quota", (int64_t)d->quota},
		{"remaining", d->remaining},
		{"retry_after_ms", sl_ns_to_ms_ceil(d->retry_after_ns)},
		{"reset_after_ms", sl_ns_to_ms_ceil(d->reset_after_ns)},
		{"next_after_ms", sl_ns_to_ms_ceil(d->next_after_ns)},
		{"delay_ms", sl_ns_to_ms_ceil(d->delay_ns)},
		{"used", (int64_t)told->used},
		{"oldest_ms", told->charge_count != 0 ? sl_inspection_ms(told->charges[0].from_ns) : 0},
		{"last_ms", sl_inspection_ms(told->last_ns)},
		{"penalties", standing->level},
		{"denials", standing->denials},
		{"shut_out_ms", sl_ns_to_ms_ceil(standing->ends_after_ns)},
		{"charges_in_all", told->charges_in_all},
	};
	memcpy(list, numbers, sizeof numbers);
}

/* ---- RESP -------------------------------------------------------------------------------------------------------- */

static void put_lists(const struct sl_answer_sink *sink, void *to, const struct sluice_inspection *told) {
	sink->text(to, sl_str("returns"));
	sink->array(to, told->return_count);
	for (uint32_t i = 0; i < told->return_count; i++) {
		sink->array(to, 2);
		sink->integer(to, sl_ns_to_ms_ceil(told->returns[i].after_ns));
		sink->integer(to, told->returns[i].remaining);
	}
	sink->text(to, sl_str("charges"));
	sink->array(to, told->charge_count);
	for (uint32_t i = 0; i < told->charge_count; i++) {
		sink->array(to, 3);
		sink->integer(to, sl_inspection_ms(told->charges[i].from_ns));
		sink->integer(to, sl_inspection_ms(told->charges[i].until_ns));
		sink->integer(to, (int64_t)told->charges[i].cost);
	}
}

static void put_text(const struct sl_answer_sink *sink, void *to, const char *name, const char *value) {
	sink->text(to, sl_str(name));
	sink->text(to, sl_str(value));
}

void sl_inspection_put(const struct sl_answer_sink *sink, void *to, const struct sluice_item *item,
                       const struct sluice_inspection *told, uint32_t more) {
	struct sl_inspection_number numbers[SL_INSPECTION_NUMBERS];
	char text[SLUICE_LIMIT_TEXT_MAX], error[SL_ERROR_TEXT_MAX];
	const bool bound = told->decision.bound != SLUICE_BOUND_NONE, estimates = sl_error_text(item->limit, error);
	sl_inspection_numbers(told, numbers);
	sink->array(to, 2 * (2 + SL_INSPECTION_NUMBERS + 2 + (told->overridden ? SL_OWN_QUOTA_NAMES : 0) + bound +
	                     estimates + more));
	sink->text(to, sl_str("limit"));
	sink->text(to, sl_slice(text, sluice_limit_print(item->limit, text)));
	sink->text(to, sl_str("key"));
	sink->text(to, item->key.data != NULL ? item->key : sl_slice("", 0));
	for (int i = 0; i < SL_INSPECTION_NUMBERS; i++) {
		sink->text(to, sl_str(numbers[i].name));
		sink->integer(to, numbers[i].value);
	}
	put_lists(sink, to, told);
	if (told->overridden)
		sl_own_quota_put(sink, to, &told->own);
	if (bound)
		put_text(sink, to, "bound", sluice_bound_name((sluice_bound)told->decision.bound));
	if (estimates)
		put_text(sink, to, "error", error);
}

/* ---- what fronts hold ------------------------------------------------------------------------------------------ */

static void put_pair(const struct sl_answer_sink *sink, void *to, const char *name, int64_t value) {
	sink->text(to, sl_str(name));
	sink->integer(to, value);
}

void sl_held_put(const struct sl_answer_sink *sink, void *to, const struct sl_held_there *held) {
	put_pair(sink, to, "held", (int64_t)held->cost);
	sink->text(to, sl_str("slices"));
	sink->array(to, held->slice_count);
	for (uint32_t i = 0; i < held->slice_count; i++) {
		sink->array(to, 2);
		sink->integer(to, held->slices[i].ends_ms);
		sink->integer(to, (int64_t)held->slices[i].cost);
	}
}

void sl_held_put_here(const struct sl_answer_sink *sink, void *to, const struct sl_held_there *held) {
	put_pair(sink, to, "slice_left", held->left_here);
	put_pair(sink, to, "slice_spent", held->spent_here);
}

/* ---- integers alone -------------------------------------------------------------------------------------------- */

void sl_inspection_put_figures(const struct sl_answer_sink *sink, void *to, const struct sluice_inspection *told,
                               const struct sl_held_there *held) {
	struct sl_inspection_number numbers[SL_INSPECTION_NUMBERS];
	sl_inspection_numbers(told, numbers);
	sink->array(to, SL_INSPECTION_NUMBERS + 1 + 2 * told->return_count + 1 + 3 * told->charge_count + 2 +
	                    2 * held->slice_count);
	for (int i = 0; i < SL_INSPECTION_NUMBERS; i++)
		sink->integer(to, numbers[i].value);
	sink->integer(to, told->return_count);
	for (uint32_t i = 0; i < told->return_count; i++) {
		sink->integer(to, sl_ns_to_ms_ceil(told->returns[i].after_ns));
		sink->integer(to, told->returns[i].remaining);
	}
	sink->integer(to, told->charge_count);
	for (uint32_t i = 0; i < told->charge_count; i++) {
		sink->integer(to, sl_inspection_ms(told->charges[i].from_ns));
		sink->integer(to, sl_inspection_ms(told->charges[i].until_ns));
		sink->integer(to, (int64_t)told->charges[i].cost);
	}
	sink->integer(to, (int64_t)held->cost);
	sink->integer(to, held->slice_count);
	for (uint32_t i = 0; i < held->slice_count; i++) {
		sink->integer(to, held->slices[i].ends_ms);
		sink->integer(to, (int64_t)held->slices[i].cost);
	}
}

/* Nodes may answer anything: what is out of range reads as 0, and is told. */
struct figures {
	const int64_t *at, *end;
	bool wrong;
};

static uint64_t take(struct figures *f, uint64_t most) {
	if (f->at == f->end || *f->at < 0 || (uint64_t)*f->at > most) {
		f->wrong = true;
		return 0;
	}
	return (uint64_t)*f->at++;
}

static sluice_ns take_ms(struct figures *f) {
	if (f->at != f->end && *f->at == -1) {
		f->at++;
		return SLUICE_NEVER;
	}
	return take(f, INT64_MAX / SL_MS_NS) * SL_MS_NS;
}

/* In the order of sl_inspection_numbers(). */
static void take_numbers(struct figures *f, struct sluice_inspection *told) {
	struct sluice_decision *d = &told->decision;
	d->allowed = take(f, 1) != 0;
	d->quota = take(f, INT64_MAX);
	d->remaining = (uint32_t)take(f, UINT32_MAX);
	d->retry_after_ns = take_ms(f);
	d->reset_after_ns = take_ms(f);
	d->next_after_ns = take_ms(f);
	d->delay_ns = take_ms(f);
	told->used = take(f, INT64_MAX);
	told->charges[0].from_ns = take_ms(f); /* stands again among the charges */
	told->last_ns = take_ms(f);
	told->standing.level = (uint32_t)take(f, UINT32_MAX);
	told->standing.denials = (uint32_t)take(f, UINT32_MAX);
	told->standing.ends_after_ns = take_ms(f);
	told->charges_in_all = (uint32_t)take(f, UINT32_MAX);
}

bool sl_inspection_read_figures(const int64_t *figures, uint32_t count, struct sluice_inspection *told,
                                struct sl_held_there *held) {
	struct figures f = {figures, figures + count, false};
	*told = (struct sluice_inspection){.used = 0};
	take_numbers(&f, told);
	told->return_count = (uint32_t)take(&f, SLUICE_RETURNS_MAX);
	for (uint32_t i = 0; i < told->return_count; i++) {
		told->returns[i].after_ns = take_ms(&f);
		told->returns[i].remaining = (uint32_t)take(&f, UINT32_MAX);
	}
	told->charge_count = (uint32_t)take(&f, SLUICE_CHARGES_MAX);
	for (uint32_t i = 0; i < told->charge_count; i++) {
		told->charges[i].from_ns = take_ms(&f);
		told->charges[i].until_ns = take_ms(&f);
		told->charges[i].cost = take(&f, INT64_MAX);
	}
	held->cost = take(&f, INT64_MAX);
	held->slice_count = (uint32_t)take(&f, SL_HELD_SLICES_MAX);
	for (uint32_t i = 0; i < held->slice_count; i++) {
		held->slices[i].ends_ms = (int64_t)take(&f, INT64_MAX);
		held->slices[i].cost = take(&f, INT64_MAX);
	}
	return !f.wrong && f.at == f.end;
}
