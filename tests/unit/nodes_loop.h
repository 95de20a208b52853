/* What tests of nodes share: a loop with nodes on it, asks and their answers, run until something is so. */
#ifndef NODES_LOOP_H
#define NODES_LOOP_H

#include "hosts/server/cluster/nodes.h"
#include "hosts/server/loop/loop_uv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum {
	LOOP_LINES_MAX = 64,
	LOOP_PATIENCE_MS = 20000, /* what is to come may take so long, on a machine that is busy with other things */
};

/* One worker's nodes. */
struct nodes_loop {
	uv_loop_t loop;
	struct sl_nodes *nodes;
	struct sl_cluster_figures figures;
	bool closed, begun;
};

/* One ask, and what came of it. */
struct asked {
	struct sl_node_ask ask;
	struct sluice_bytes key, words[16];
	bool answered;
	enum sl_answer_kind kind;
	uint32_t count;
	int64_t numbers[SL_ANSWER_NUMBERS_MAX];
	char error[256];
	sluice_ns asked_at, answered_at;
};

/* Makes the loop alone, for peers that are to listen before nodes_loop_open(), which makes it where it is not. */
void nodes_loop_init(struct nodes_loop *world);
/* Opens nodes of `settings`, or fails. */
void nodes_loop_open(struct nodes_loop *world, const struct sl_nodes_options *options, const char *password);
/* Closes them and the loop; both must end clean. */
void nodes_loop_close(struct nodes_loop *world);
/* Runs the loop until *flag, at most `ms`. */
bool nodes_loop_until(struct nodes_loop *world, const bool *flag, unsigned ms);
/* Runs the loop until the group of the key is up, at most `ms`. */
bool nodes_loop_until_up(struct nodes_loop *world, const char *key, unsigned ms);
/* Runs the loop until the group is down, a line with this text was said, or *count is `least`, and fails where that is
 * not within LOOP_PATIENCE_MS. */
void nodes_loop_until_down(struct nodes_loop *world, uint16_t group);
void nodes_loop_until_said(struct nodes_loop *world, const char *text);
void nodes_loop_until_count(struct nodes_loop *world, const unsigned *count, unsigned least);
/* Runs the loop for so long. */
void nodes_loop_run(struct nodes_loop *world, unsigned ms);

/* Fills an ask: `words` are separated by spaces; within `budget_ms` from now. */
void asked_fill(struct asked *asked, const char *verb, const char *key, const char *words, unsigned budget_ms);
/* Asks, and waits for the answer; fails where nobody is asked. */
void asked_now(struct nodes_loop *world, struct asked *asked, const char *verb, const char *key, const char *words,
               unsigned budget_ms);

/* Lines that were said since the last nodes_loop_open(). */
extern char nodes_lines[LOOP_LINES_MAX][512];
extern unsigned nodes_line_count;
/* Has a line with this text been said? */
bool nodes_said(const char *text);

#endif
