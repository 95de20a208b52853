/* Metrics as text: Prometheus' format 0.0.4, and OpenMetrics 1.0 for who asks for it. Bytes into memory that the caller
 * owns; nothing is allocated.
 *
 *   # HELP sluice_requests_total Requests decided as a whole.        <- OpenMetrics: the family without _total,
 *   # TYPE sluice_requests_total counter                                and its unit; all ends with "# EOF"
 *   sluice_requests_total{transport="resp",decision="allowed"} 12 */
#ifndef SL_PROM_H
#define SL_PROM_H

#include "base/out.h"

enum sl_prom_type { SL_PROM_COUNTER, SL_PROM_GAUGE, SL_PROM_HISTOGRAM };

/* A document being written; a field of `out` tells whether all of it had room. */
struct sl_prom {
	struct sl_out *out;
	bool open_metrics;
	enum sl_prom_type type; /* of the present family */
	const char *name;
};

struct sl_prom_label {
	const char *name;          /* [a-z_]+ */
	struct sluice_bytes value; /* UTF-8; what must be escaped is */
};

/* The labels of a sample, at most 8; NULL where `count` is 0. */
struct sl_prom_labels {
	const struct sl_prom_label *list;
	uint32_t count;
};

#define SL_PROM_TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define SL_PROM_OPEN_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* Whether an Accept header asks for OpenMetrics 1.0 by name, and no less than for plain text. */
bool sl_prom_accepts_open_metrics(struct sluice_bytes accept);

/* Begins a family; all its samples must follow before the next begins.
 *  name  without the _total of a counter; ends with its unit, where it has one
 *  unit  "seconds", "bytes"; NULL: none
 *  help  one sentence; borrowed until the next family, as `name` is */
void sl_prom_family(struct sl_prom *prom, const char *name, enum sl_prom_type type, const char *unit, const char *help);

/* One sample of a counter or gauge: a whole number, or an instant or a time in ns, which is printed in seconds. */
void sl_prom_count(struct sl_prom *prom, struct sl_prom_labels labels, uint64_t value);
void sl_prom_time(struct sl_prom *prom, struct sl_prom_labels labels, sluice_ns value);

/* One histogram: its buckets, cumulated, its count and its sum.
 *  bounds  upper bounds in ns, rising; the last is not looked at: it has none (+Inf)
 *  counts  of each bucket alone */
void sl_prom_histogram(struct sl_prom *prom, struct sl_prom_labels labels, const sluice_ns *bounds,
                       const uint64_t *counts, uint32_t count, sluice_ns sum);

/* Ends the document. */
void sl_prom_end(struct sl_prom *prom);

/* A time in seconds, exactly: "12.345", "0.000004", "3"; at most 21 bytes. */
void sl_prom_seconds(struct sl_out *out, sluice_ns ns);

/* A time in seconds as OpenMetrics has the bounds of buckets, so that they are the same labels in both forms: "1e-07",
 * "0.0001", "1.0". Also a JSON number; at most 22 bytes. */
void sl_prom_bound(struct sl_out *out, sluice_ns ns);

#endif
