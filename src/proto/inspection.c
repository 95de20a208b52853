/* What INSPECT tells of a limit's counter; see inspection.h. */
#include "proto/inspection.h"

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

void sl_inspection_put(const struct sl_answer_sink *sink, void *to, const struct sluice_item *item,
                       const struct sluice_inspection *told, uint32_t more) {
	struct sl_inspection_number numbers[SL_INSPECTION_NUMBERS];
	char text[SLUICE_LIMIT_TEXT_MAX];
	sl_inspection_numbers(told, numbers);
	sink->array(to, 2 * (2 + SL_INSPECTION_NUMBERS + 2 + more));
	sink->text(to, sl_str("limit"));
	sink->text(to, sl_slice(text, sluice_limit_print(item->limit, text)));
	sink->text(to, sl_str("key"));
	sink->text(to, item->key.data != NULL ? item->key : sl_slice("", 0));
	for (int i = 0; i < SL_INSPECTION_NUMBERS; i++) {
		sink->text(to, sl_str(numbers[i].name));
		sink->integer(to, numbers[i].value);
	}
	put_lists(sink, to, told);
}
