/* See answers.h. */
#include "tests/sim/answers.h"

#include "tests/sim/node.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 3, WORDS_MAX = 128, LINE_BYTES = 8192 };

struct asked {
	struct sim_time time;
	struct sim_net net;
	struct sim_node nodes[NODES + 1]; /* the last is alone */
	struct sim_node *node;
	sluice_ns begin;
	bool asking;
};

static void begin(struct asked *asked) {
	const struct sim_clock clock = {.ahead = 0};
	sim_module_load();
	sim_time_begin(&asked->time, 1);
	sim_net_begin(&asked->net, &asked->time);
	for (uint32_t n = 0; n <= NODES; n++) {
		struct sim_node *node = &asked->nodes[n];
		sim_node_begin(node, sim_host_add(&asked->net, &clock), asked->nodes, n < NODES ? NODES : NODES + 1);
		node->clustered = n < NODES;
		for (uint32_t slot = 0; slot < SIM_SLOTS; slot++)
			node->view.owner[slot] = (uint8_t)(slot * NODES / SIM_SLOTS);
	}
	asked->node = &asked->nodes[NODES];
}

static void set_clock(struct asked *asked, uint64_t ms) {
	if (asked->begin == 0) {
		asked->begin = ms * SIM_MS;
		for (uint32_t n = 0; n <= NODES; n++) {
			asked->nodes[n].epoch = asked->begin;
			sim_node_start(&asked->nodes[n]);
		}
	}
	asked->time.now = ms * SIM_MS - asked->begin;
}

/* False: it sets nothing. */
static bool set(struct asked *asked, const char *line) {
	uint64_t slot = 0, number = 0;
	struct sim_view *view = &asked->node->view;
	if (sscanf(line, "clock %" SCNu64, &number) == 1) {
		set_clock(asked, number);
	} else if (sscanf(line, "node %" SCNu64, &number) == 1 && number < NODES) {
		asked->node = &asked->nodes[number];
	} else if (strncmp(line, "alone", 5) == 0) {
		asked->node = &asked->nodes[NODES];
	} else if (sscanf(line, "owner %" SCNu64 " %" SCNu64, &slot, &number) == 2 && slot < SIM_SLOTS) {
		for (uint32_t n = 0; n < NODES; n++)
			asked->nodes[n].view.owner[slot] = (uint8_t)number;
	} else if (sscanf(line, "goes %" SCNu64 " %" SCNu64, &slot, &number) == 2 && slot < SIM_SLOTS) {
		view->goes[slot] = (uint8_t)number;
	} else if (sscanf(line, "comes %" SCNu64 " %" SCNu64, &slot, &number) == 2 && slot < SIM_SLOTS) {
		view->comes[slot] = (uint8_t)number;
	} else if (sscanf(line, "follows %" SCNu64, &number) == 1) {
		view->leader[asked->node->number] = (uint8_t)number;
	} else {
		return false;
	}
	return true;
}

static void answer(struct asked *asked, char *line, FILE *out) {
	struct sluice_bytes words[WORDS_MAX];
	uint32_t count = 0;
	for (char *at = line; *at != '\0' && count < WORDS_MAX;) {
		const size_t len = strcspn(at, " ");
		words[count++] = sl_slice(at, len);
		for (char *c = at; c < at + len; c++) /* a space within a word */
			*c = *c == '~' ? ' ' : *c;
		at += len + (at[len] == ' ');
	}
	const struct sluice_bytes reply = sim_node_command(asked->node, words, count, asked->asking);
	asked->asking = sl_bytes_equal(words[0], sl_str("ASKING"));
	for (size_t i = 0; i < reply.len; i++)
		fprintf(out, "%02x", ((const unsigned char *)reply.data)[i]);
	fprintf(out, "\n");
}

int sim_answers(FILE *in, FILE *out) {
	static struct asked asked;
	static char line[LINE_BYTES];
	begin(&asked);
	while (fgets(line, sizeof line, in) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '\0')
			return 1;
		if (!set(&asked, line))
			answer(&asked, line, out);
	}
	return 0;
}
