/* Policies without memory: the system refuses the n-th allocation, or all from the n-th on, for every n that loading a
 * file asks for, ours and the YAML reader's. Each load says SLUICE_E_MEMORY, keeps nothing, and the next one succeeds.
 *
 * malloc() and its kin are this program's own here and pass on to the C library's; a sanitizer has its own already, and
 * then the pool is all that can be tried. */
#include "policy/policy.h"
#include "policy/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char yaml[] = "listen: {resp: 127.0.0.1:0, http: [unix:/a, {address: unix:/b, tls: true}]}\n"
						   "tls: {certificate: a, key: b, client-ca: c}\n"
						   "users: [{name: a, token: 'sha256:" HASH "', role: read}]\n"
						   "headers: [draft7, draft6]\n"
						   "log: {denials: /d}\n"
						   "observe: true\n"
						   "trusted-proxies: [10.0.0.1/8]\n"
						   "attributes: {user: header x-user}\n"
						   "limits:\n"
						   "- name: a\n"
						   "  key: [user | ip, path]\n"
						   "  limit: 5/1m\n"
						   "  candidate: 4/1m\n"
						   "  when: {path: [a, 'b*'], method: GET}\n"
						   "  overrides: [{when: {plan: x}, limit: 6/1m}]\n"
						   "- {name: b, key: user, limit: 0/1m}\n";

/* gcc and clang each have a way of their own to say it. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif

#ifndef SANITIZED

/* Visible to the YAML library, whatever the flags of the build. */
#pragma GCC visibility push(default)

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void __libc_free(void *memory);

static long allowed = -1; /* allocations that still succeed; -1: all */
static bool once;         /* only the next one fails then */
static long granted;      /* while counting */
static long live;         /* blocks taken and not freed, while counting */
static bool counting;

static bool grant(void) {
	if (allowed == 0) {
		allowed = once ? -1 : 0;
		return false;
	}
	allowed -= allowed > 0;
	granted += counting;
	return true;
}

void *malloc(size_t bytes) {
	void *memory = grant() ? __libc_malloc(bytes) : NULL;
	live += counting && memory != NULL;
	return memory;
}

void *calloc(size_t count, size_t bytes) {
	void *memory = grant() ? __libc_calloc(count, bytes) : NULL;
	live += counting && memory != NULL;
	return memory;
}

void *realloc(void *old, size_t bytes) {
	void *memory = grant() ? __libc_realloc(old, bytes) : NULL;
	live += counting && memory != NULL && old == NULL;
	return memory;
}

void free(void *memory) {
	live -= counting && memory != NULL;
	__libc_free(memory);
}

#pragma GCC visibility pop

/* Loads with `n` allocations and no more; false when that was not enough. */
static bool load_with(long n, const char *text) {
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems = {(void *)1, 1};
	live = granted = 0;
	counting = true;
	allowed = n;
	sluice_err err = sluice_policy_load(&policy, sl_str(text), &problems);
	allowed = -1;
	if (err == SLUICE_E_MEMORY) {
		assert_null(policy);
		assert_null(problems.list);
		assert_int_equal(problems.count, 0);
	}
	sluice_problems_free(&problems);
	sluice_policy_free(policy);
	counting = false;
	assert_int_equal(live, 0);
	return err != SLUICE_E_MEMORY;
}

static void test_each_allocation(void **state) {
	static const char *const files[] = {yaml, "threads: 0\nlimits: [{name: a, limit: 1/1x}]\n", "threads: [1\n"};
	(void)state;
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		assert_true(load_with(-1, files[i]));
		const long all = granted;
		print_message("%ld allocations\n", all);
		assert_true(all > 10); /* the YAML library's are among them */
		for (long n = 0; n < 2 * all; n++) {
			once = n >= all;
			assert_false(load_with(n % all, files[i]));
		}
		assert_true(load_with(all, files[i]));
	}
}

#else

static void test_each_allocation(void **state) {
	struct sluice_policy *policy = NULL;
	(void)state;
	assert_int_equal(sluice_policy_load(&policy, sl_str(yaml), NULL), SLUICE_OK);
	sluice_policy_free(policy);
}

#endif

static void test_pool(void **state) {
	struct sl_pool pool = {0};
	(void)state;
	for (size_t i = 0; i < 5000; i++) {
		size_t bytes = i % 97;
		unsigned char *memory = sl_pool_take(&pool, bytes, 3);
		char *text = sl_pool_text(&pool, sl_slice("odd", i % 4));
		assert_int_equal((uintptr_t)memory % 16, 0);
		for (size_t j = 0; j < 3 * bytes; j++)
			assert_int_equal(memory[j], 0);
		memset(memory, 0xff, 3 * bytes);
		assert_memory_equal(text, "odd", i % 4);
		assert_int_equal(text[i % 4], '\0');
	}
	assert_non_null(sl_pool_take(&pool, 1, (size_t)8 << 20)); /* larger than any chunk */
	assert_non_null(sl_pool_take(&pool, 0, 8));
	assert_false(pool.failed);
	assert_null(sl_pool_take(&pool, SIZE_MAX / 2, 3));
	assert_true(pool.failed);
	sl_pool_free(&pool);
	assert_false(pool.failed);
	assert_null(sl_pool_take(&pool, SIZE_MAX - 15, 1));
	assert_true(pool.failed);
	sl_pool_free(&pool);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_allocation),
		cmocka_unit_test(test_pool),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
