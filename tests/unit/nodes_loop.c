/* A loop and nodes for tests of what speaks to Redis; see nodes_loop.h. */
#include "tests/unit/nodes_loop.h"

#include "base/bytes.h"
#include "os/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

char nodes_lines[LOOP_LINES_MAX][512];
unsigned nodes_line_count;

static void say(bool trouble, const char *line) {
	(void)trouble;
	if (getenv("SAY") != NULL)
		(void)fprintf(stderr, "# %s\n", line);
	if (nodes_line_count < LOOP_LINES_MAX)
		(void)snprintf(nodes_lines[nodes_line_count++], sizeof nodes_lines[0], "%s", line);
}

bool nodes_said(const char *text) {
	for (unsigned i = 0; i < nodes_line_count; i++)
		if (strstr(nodes_lines[i], text) != NULL)
			return true;
	return false;
}

void nodes_loop_init(struct nodes_loop *world) {
	signal(SIGPIPE, SIG_IGN);
	memset(world, 0, sizeof *world);
	assert_int_equal(uv_loop_init(&world->loop), 0);
	world->begun = true;
}

void nodes_loop_open(struct nodes_loop *world, const struct sl_nodes_options *options, const char *password) {
	struct sluice_error error = {.text = ""};
	if (!world->begun)
		nodes_loop_init(world);
	nodes_line_count = 0;
	struct sl_nodes_options own = *options;
	own.password = password;
	own.loop = sl_loop_uv(&world->loop);
	own.figures = &world->figures;
	own.say = say;
	if (!sl_nodes_open(&world->nodes, &own, &error))
		fail_msg("%s", error.text);
}

static void on_closed(void *to) {
	*(bool *)to = true;
}

void nodes_loop_close(struct nodes_loop *world) {
	sl_nodes_close(world->nodes, on_closed, &world->closed);
	assert_true(nodes_loop_until(world, &world->closed, 5000));
	assert_int_equal(uv_run(&world->loop, UV_RUN_DEFAULT), 0);
	assert_int_equal(uv_loop_close(&world->loop), 0);
	world->begun = world->closed = false;
	memset(&world->figures, 0, sizeof world->figures);
}

static void on_tick(uv_timer_t *timer) {
	(void)timer;
}

static void on_timer_closed(uv_handle_t *timer) {
	*(bool *)timer->data = true;
}

struct wanted {
	struct nodes_loop *world;
	const bool *flag;      /* true */
	const char *key;       /* up */
	const uint16_t *group; /* down */
	const char *text;      /* said */
	const unsigned *count; /* `least` */
	unsigned least;
};

static bool is_so(const struct wanted *wanted) {
	const struct sl_nodes *nodes = wanted->world->nodes;
	if (wanted->flag != NULL)
		return *wanted->flag;
	if (wanted->group != NULL)
		return !sl_nodes_is_up(nodes, *wanted->group);
	if (wanted->text != NULL)
		return nodes_said(wanted->text);
	if (wanted->count != NULL)
		return *wanted->count >= wanted->least;
	return wanted->key != NULL && sl_nodes_is_up(nodes, sl_nodes_group(nodes, sl_str(wanted->key)));
}

/* A timer of the loop's own bounds each wait for events. */
static bool until(const struct wanted *wanted, unsigned ms) {
	const sluice_ns end = sl_clock_monotonic() + (sluice_ns)ms * 1000000;
	uv_timer_t timer;
	bool gone = false;
	assert_int_equal(uv_timer_init(&wanted->world->loop, &timer), 0);
	timer.data = &gone;
	assert_int_equal(uv_timer_start(&timer, on_tick, 1, 1), 0);
	while (!is_so(wanted) && sl_clock_monotonic() < end)
		uv_run(&wanted->world->loop, UV_RUN_ONCE);
	const bool so = is_so(wanted);
	uv_close((uv_handle_t *)&timer, on_timer_closed);
	while (!gone)
		uv_run(&wanted->world->loop, UV_RUN_NOWAIT);
	return so;
}

bool nodes_loop_until(struct nodes_loop *world, const bool *flag, unsigned ms) {
	return until(&(struct wanted){.world = world, .flag = flag}, ms);
}

bool nodes_loop_until_up(struct nodes_loop *world, const char *key, unsigned ms) {
	return until(&(struct wanted){.world = world, .key = key}, ms);
}

void nodes_loop_until_down(struct nodes_loop *world, uint16_t group) {
	assert_true(until(&(struct wanted){.world = world, .group = &group}, LOOP_PATIENCE_MS));
}

void nodes_loop_until_said(struct nodes_loop *world, const char *text) {
	if (!until(&(struct wanted){.world = world, .text = text}, LOOP_PATIENCE_MS))
		fail_msg("nobody said '%s'", text);
}

void nodes_loop_until_count(struct nodes_loop *world, const unsigned *count, unsigned least) {
	if (!until(&(struct wanted){.world = world, .count = count, .least = least}, LOOP_PATIENCE_MS))
		fail_msg("%u, not %u", *count, least);
}

void nodes_loop_run(struct nodes_loop *world, unsigned ms) {
	(void)until(&(struct wanted){.world = world}, ms);
}

static void on_answered(struct sl_node_ask *ask, const struct sl_answer *answer) {
	struct asked *asked = ask->owner;
	assert_false(asked->answered);
	asked->answered = true;
	asked->answered_at = sl_clock_monotonic();
	asked->kind = answer->kind;
	asked->count = answer->count;
	if (answer->kind == SL_ANSWER_NUMBERS)
		memcpy(asked->numbers, answer->numbers, answer->count * sizeof *answer->numbers);
	if (answer->kind == SL_ANSWER_ERROR)
		(void)snprintf(asked->error, sizeof asked->error, "%.*s", (int)answer->error.len,
		               (const char *)answer->error.data);
}

void asked_fill(struct asked *asked, const char *verb, const char *key, const char *words, unsigned budget_ms) {
	memset(asked, 0, sizeof *asked);
	asked->key = sl_str(key);
	asked->asked_at = sl_clock_monotonic();
	asked->ask = (struct sl_node_ask){.verb = verb,
	                             .keys = &asked->key,
	                             .key_count = 1,
	                             .words = asked->words,
	                             .deadline = asked->asked_at + (sluice_ns)budget_ms * 1000000,
	                             .answered = on_answered,
	                             .owner = asked};
	while (*words != '\0') {
		const size_t len = strcspn(words, " ");
		assert_true(asked->ask.word_count < 16);
		asked->words[asked->ask.word_count++] = sl_slice(words, len);
		if (sl_bytes_equal(sl_slice(words, len), sl_str("EXACT")))
			asked->ask.exact = asked->ask.word_count;
		if (sl_bytes_equal(sl_slice(words, len), sl_str("UPTO")))
			asked->ask.part = asked->ask.word_count;
		words += len + (words[len] == ' ');
	}
}

void asked_now(struct nodes_loop *world, struct asked *asked, const char *verb, const char *key, const char *words,
               unsigned budget_ms) {
	asked_fill(asked, verb, key, words, budget_ms);
	assert_true(sl_nodes_ask(world->nodes, &asked->ask));
	assert_false(asked->answered);
	assert_true(nodes_loop_until(world, &asked->answered, budget_ms + 2000));
}
