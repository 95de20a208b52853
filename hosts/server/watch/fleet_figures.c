/* What the workers have counted of their fleet, added up. */
#include "hosts/server/watch/fleet_figures.h"

static uint64_t look(const _Atomic uint64_t *figure) {
	return atomic_load_explicit(figure, memory_order_relaxed);
}

static uint64_t look32(const _Atomic uint32_t *figure) {
	return atomic_load_explicit(figure, memory_order_relaxed);
}

static void add_cluster(const struct sl_cluster_figures *one, bool first, struct sl_fleet_sum *sum) {
	uint64_t nodes = look32(&one->nodes), up = look32(&one->nodes_up), open = look32(&one->nodes_open);
	sum->refused += look(&one->refused);
	sum->commands += look(&one->commands);
	sum->redirected += look(&one->redirected);
	sum->connects += look(&one->connects);
	sum->disconnects += look(&one->disconnects);
	sum->breaks += look(&one->breaks);
	sum->nodes = nodes > sum->nodes ? nodes : sum->nodes;
	sum->nodes_up = first || up < sum->nodes_up ? up : sum->nodes_up;
	sum->nodes_open = open > sum->nodes_open ? open : sum->nodes_open;
	sl_times_sum(&one->asked, sum->asked, &sum->asked_ns);
}

void sl_fleet_sum(const struct sl_fleet_figures *figures, uint32_t count, struct sl_fleet_sum *sum) {
	*sum = (struct sl_fleet_sum){.late = 0};
	for (uint32_t i = 0; i < count; i++) {
		const struct sl_fleet_figures *one = &figures[i];
		for (int way = 0; way < SL_WAYS; way++)
			sum->decided[way] += look(&one->decided[way]);
		sum->late += look(&one->late);
		sum->slice_units += look(&one->slice_units);
		sum->returned += look(&one->returned);
		sum->lost_confirms += look(&one->lost_confirms);
		sum->slices += look32(&one->slices);
		add_cluster(&one->cluster, i == 0, sum);
	}
}
