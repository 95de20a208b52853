/* What this process takes of the system: the standard figures of a process, as Prometheus' clients have them. */
#ifndef SL_USAGE_H
#define SL_USAGE_H

#include "sluice.h"

struct sl_usage {
	sluice_ns cpu_ns;     /* user and system time of all threads */
	sluice_ns started_ns; /* Unix time */
	uint64_t resident_bytes, virtual_bytes;
	uint64_t open_fds, max_fds;
	bool has_stat; /* started_ns and the bytes could be read: /proc is there, and a descriptor was left to read it */
	bool has_fds;  /* open_fds could be counted */
};

/* Fills `usage`. From any thread. Some 10 us; with kernels before 6.2 it lists /proc/self/fd, some ms for 10,000. */
void sl_usage_read(struct sl_usage *usage);

#endif
