/* What is answered to a command, once for the server and the module; see answer.h. */
#include "proto/answer.h"

#include "base/assert.h"

#define MS_NS ((sluice_ns)1000000)

static const char not_found[] = "NOTFOUND no such reservation is open: it was committed before, was returned at the "
                                "end of its ttl, or belongs to another key";

struct writer {
	const struct sl_answer_sink *sink;
	void *to;
	const struct sl_outcome *o;
};

static void put(const struct writer *w, int64_t value) {
	w->sink->integer(w->to, value);
}

static bool says(const struct writer *w, uint32_t bits) {
	return (w->o->given & bits) != 0;
}

static void *put_one(void *to, int64_t value) {
	put(to, value);
	return to;
}

/* For fronts: which bound was met stands above the first bit of the first number. */
static void put_told(const struct writer *w, const struct sluice_decision *decision, int64_t last) {
	(void)sl_answer_seven(put_one, (void *)w, decision, decision->allowed | (int64_t)decision->bound << 1, last);
}

/* ---- each limit -------------------------------------------------------------------------------------------------- */

/* Does a call come to more than its limits' figures? */
static bool has_outcome(const struct writer *w) {
	enum sl_operation operation = w->o->operation;
	return operation == SL_OP_ACQUIRE || operation == SL_OP_RESERVE || operation == SL_OP_COMMIT ||
	       says(w, SL_SAYS(UPTO) | SL_SAYS(ID));
}

/* By how many nanoseconds a wait is rounded up to whole milliseconds. */
static int64_t rounded_up(sluice_ns wait_ns) {
	return wait_ns == SLUICE_NEVER ? 0 : (int64_t)((MS_NS - wait_ns % MS_NS) % MS_NS);
}

static void put_each(const struct writer *w) {
	const struct sluice_call *call = w->o->call;
	bool exact = says(w, SL_SAYS(EXACT));
	w->sink->array(w->to, call->item_count + has_outcome(w));
	for (uint32_t i = 0; i < call->item_count; i++) {
		w->sink->array(w->to, SL_FIGURES + exact);
		put_told(w, &call->each[i], sl_ns_to_ms_ceil(call->each[i].next_after_ns));
		if (exact)
			put(w, rounded_up(call->each[i].retry_after_ns));
	}
	if (!has_outcome(w))
		return;
	w->sink->array(w->to, 3);
	put(w, call->granted);
	put(w, call->repeated);
	put(w, call->found);
}

/* ---- other shapes ------------------------------------------------------------------------------------------------ */

static void put_slice(const struct writer *w) {
	const struct sluice_decision *one = &w->o->call->each[0];
	w->sink->array(w->to, 1 + SL_FIGURES);
	put(w, w->o->call->granted);
	put_told(w, one, sl_ns_to_ms_ceil(one->next_after_ns));
}

/* Of one counter: so its index is 0, or -1. */
static void put_held(const struct writer *w) {
	const struct sluice_call *call = w->o->call;
	w->sink->array(w->to, SL_FIGURES + 2);
	put_told(w, &call->merged, call->merged.index);
	put(w, call->granted);
	put(w, call->found);
}

/* Is there an id, or none, in it? */
static bool has_id(const struct sl_outcome *o) {
	return o->operation == SL_OP_ACQUIRE || o->operation == SL_OP_RESERVE || o->ticketed;
}

static bool tells_next(const struct sl_outcome *o) {
	return (o->given & SL_SAYS(NEXT)) != 0;
}

static bool tells_open(const struct sl_outcome *o) {
	return (o->given & SL_SAYS(OPEN)) != 0;
}

static bool tells_each(const struct sl_outcome *o) {
	return o->named && (o->given & SL_SAYS(EACH)) != 0;
}

int sl_answer_more(const struct sl_outcome *o) {
	return o->named + o->call->upto + has_id(o) + tells_next(o) + tells_each(o) + tells_open(o);
}

/* Of a policy: each limit with what it is called and says. */
static void put_each_named(const struct writer *w) {
	const struct sl_outcome *o = w->o;
	char text[SLUICE_LIMIT_TEXT_MAX];
	SL_ASSERT(o->told <= o->call->item_count);
	w->sink->array(w->to, o->told);
	for (uint32_t i = 0; i < o->told; i++) {
		const struct sluice_item *item = &o->call->items[i];
		w->sink->array(w->to, 2 + SL_FIGURES + 2);
		w->sink->text(w->to, sl_str(o->names[i]));
		w->sink->text(w->to, sl_slice(text, sluice_limit_print(item->limit, text)));
		put_told(w, &o->call->each[i], sl_ns_to_ms_ceil(o->call->each[i].next_after_ns));
		put(w, o->positions[i]);
		put(w, item->observed != 0);
	}
}

void sl_answer_put_more(const struct sl_answer_sink *sink, void *to, const struct sl_outcome *o) {
	if (o->named)
		sink->text(to, o->name);
	if (o->call->upto)
		sink->integer(to, o->call->granted);
	if (has_id(o))
		sink->text(to, o->id);
	if (tells_next(o))
		sink->integer(to, sl_ns_to_ms_ceil(o->call->merged.next_after_ns));
	if (tells_each(o))
		put_each_named(&(struct writer){sink, to, o});
	if (tells_open(o))
		sink->integer(to, o->failed_open);
}

void sl_answer_put_other(const struct sl_answer_sink *sink, void *to, const struct sl_outcome *o) {
	const struct writer w = {sink, to, o};
	if (o->operation == SL_OP_RESET || o->operation == SL_OP_CANCEL)
		put(&w, o->call->forgotten);
	else if (o->operation == SL_OP_RELEASE || o->operation == SL_OP_RENEW)
		put(&w, o->call->found);
	else if (o->operation == SL_OP_LEASE)
		put_slice(&w);
	else if (o->operation == SL_OP_COMMIT && o->call->found == 0)
		sink->error(to, not_found);
	else if (says(&w, SL_SAYS(EACH) | SL_SAYS(EXACT)))
		put_each(&w);
	else
		put_held(&w);
}

/* ---- read again -------------------------------------------------------------------------------------------------- */

bool sl_answer_is_each(const int64_t *n, uint32_t count) {
	for (int i = 3; i < SL_FIGURES; i++)
		if (n[i] < -1)
			return false;
	if (count == SL_FIGURES_EXACT && n[7] != 0 && (n[3] < 1 || n[7] < 0 || n[7] >= (int64_t)MS_NS))
		return false;
	return n[0] >= 0 && n[0] < 2 * SLUICE_BOUNDS && n[1] >= 0 && n[1] <= (int64_t)UINT32_MAX + 1 && n[2] >= 0 &&
	       n[2] <= UINT32_MAX;
}

static sluice_ns wait_of(int64_t ms) {
	if (ms < 0)
		return SLUICE_NEVER;
	return (uint64_t)ms < SLUICE_NEVER / MS_NS ? (sluice_ns)ms * MS_NS : SLUICE_NEVER - 1;
}

struct sluice_decision sl_answer_each(const int64_t *n, uint32_t count) {
	return (struct sluice_decision){
		.allowed = (n[0] & 1) != 0,
		.bound = (uint8_t)(n[0] >> 1),
		.quota = (uint64_t)n[1],
		.remaining = (uint32_t)n[2],
		.retry_after_ns = wait_of(n[3]) - (count == SL_FIGURES_EXACT ? (sluice_ns)n[7] : 0),
		.reset_after_ns = wait_of(n[4]),
		.delay_ns = wait_of(n[5]),
		.next_after_ns = wait_of(n[6]),
	};
}
