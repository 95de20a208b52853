/* A caller that dies after each of its machine instructions, for every kind of call.
 *
 * A child makes the call under PTRACE_SINGLESTEP. Its arena is shared memory: after each instruction that changed a
 * byte of it the parent copies the arena, which then is what that caller would leave behind if it died there, and
 * looks at the copy as a survivor would. An instruction that changed nothing leaves what the one before has left.
 * Nothing torn may be met: every counter as before the call or as after it, no block lost.
 *
 * Which pages a call writes is found first, by a child whose arena is write-protected: comparing the whole arena after
 * each instruction would be most of the test. That no other page has changed is looked at once, when the call ends. */
#include "tests/crash/scenes.h"
#include "tests/model/dice.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ARRIVED = 43, FORBIDDEN = 44, STEPS_MAX = 20000000, PAGES = ARENA_BYTES / SL_PAGE_BYTES };

struct totals {
	uint64_t instructions, states;
};

/* What a page that is written to is noted in; `written` is shared with children. */
static struct {
	unsigned char *memory;
	bool *written;
} noted;

static void note_page(int number, siginfo_t *info, void *context) {
	uintptr_t page = ((uintptr_t)info->si_addr - (uintptr_t)noted.memory) / SL_PAGE_BYTES;
	(void)context;
	if (page >= PAGES || noted.written[page] ||
	    mprotect(noted.memory + page * SL_PAGE_BYTES, SL_PAGE_BYTES, PROT_READ | PROT_WRITE) != 0) {
		(void)signal(number, SIG_DFL); /* this is no write to the arena */
		return;
	}
	noted.written[page] = true;
}

/* Finds the pages that the call writes to, and rewinds the scene. */
static void find_written(struct scene *scene) {
	const struct sigaction notes = {.sa_sigaction = note_page, .sa_flags = SA_SIGINFO};
	int status;
	pid_t child;
	noted.memory = scene->memory;
	memset(noted.written, 0, PAGES * sizeof *noted.written);
	child = fork();
	if (child == 0) {
		if (sigaction(SIGSEGV, &notes, NULL) != 0 || mprotect(scene->memory, ARENA_BYTES, PROT_READ) != 0)
			_exit(1);
		scene_call(scene, ARENA_VICTIM);
		_exit(ARRIVED);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == ARRIVED);
	scene_rewind(scene);
}

/* The child: is stepped between two stops. */
static void call_between_stops(struct scene *scene) {
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		_exit(FORBIDDEN);
	raise(SIGSTOP);
	scene_call(scene, ARENA_VICTIM);
	raise(SIGSTOP);
	_exit(ARRIVED);
}

/* Whether the arena differs from `seen`, which then is brought up to it. */
static bool has_changed(const struct scene *scene, unsigned char *seen) {
	const unsigned char *memory = scene->memory;
	bool changed = false;
	for (size_t page = 0; page < PAGES; page++) {
		size_t at = page * SL_PAGE_BYTES;
		if (!noted.written[page] || memcmp(memory + at, seen + at, SL_PAGE_BYTES) == 0)
			continue;
		memcpy(seen + at, memory + at, SL_PAGE_BYTES);
		changed = true;
	}
	return changed;
}

static bool is_at_stop(pid_t child, int *status) {
	assert_int_equal(waitpid(child, status, 0), child);
	return WIFSTOPPED(*status) && WSTOPSIG(*status) == SIGSTOP;
}

/* Steps through one scene. Returns false where the system does not allow it. */
static bool step_through(struct scene *scene, unsigned char *seen, void *copy, struct totals *totals) {
	int status;
	uint64_t steps = 0;
	pid_t child;
	find_written(scene);
	child = fork();
	if (child == 0)
		call_between_stops(scene);
	assert_true(child > 0);
	if (!is_at_stop(child, &status))
		return !(WIFEXITED(status) && WEXITSTATUS(status) == FORBIDDEN);
	memcpy(seen, scene->memory, ARENA_BYTES);
	for (;; steps++) {
		assert_true(steps < STEPS_MAX);
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
		if (is_at_stop(child, &status))
			break;
		assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
		if (!has_changed(scene, seen))
			continue;
		memcpy(copy, seen, ARENA_BYTES);
		scene_expect(scene, copy, "died after instruction", steps, 0);
		totals->states++;
	}
	assert_memory_equal(seen, scene->memory, ARENA_BYTES);
	totals->instructions += steps;
	assert_int_equal(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == ARRIVED);
	return true;
}

/* Each of the long ones takes as long as a dozen others: one a run, but the last, of sixteen ledgers; all in a soak. */
static bool is_this_seeds(uint32_t which) {
	uint32_t first = 0;
	while (!scene_is_long(first))
		first++;
	return arena_seconds() != 0 || which - first == dice_seed() % (scene_count() - first - 1);
}

static void every_instruction_of_every_call(void **state) {
	struct scene scene = {0};
	struct totals totals = {0, 0};
	uint32_t calls = 0;
	unsigned char *seen = malloc(ARENA_BYTES);
	void *copy = arena_map();
	(void)state;
	noted.written =
		mmap(NULL, PAGES * sizeof *noted.written, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_non_null(seen);
	assert_true(noted.written != MAP_FAILED);
	for (uint32_t which = 0; which < scene_count(); which++) {
		uint64_t states = totals.states;
		if (scene_is_long(which) && !is_this_seeds(which))
			continue;
		calls++;
		scene_set(&scene, which, dice_seed());
		if (!step_through(&scene, seen, copy, &totals)) {
			printf("SKIPPED: this system does not allow ptrace\n");
			skip();
		}
		if (totals.states == states)
			fail_msg("%s: the call changed nothing", scene.name);
	}
	printf("seed %" PRIu64 ": %" PRIu64 " instructions of %" PRIu32 " calls, %" PRIu64 " states of the arena\n",
	       dice_seed(), totals.instructions, calls, totals.states);
	assert_int_equal(scene.complaints, 0);
	scene_free(&scene);
	free(seen);
	munmap(copy, ARENA_BYTES);
	munmap(noted.written, PAGES * sizeof *noted.written);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_instruction_of_every_call)};
	return cmocka_run_group_tests_name("death after every instruction", tests, NULL, NULL);
}
