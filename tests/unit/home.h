/* What the tests of a store's homes share: a folder of their own, files written and compared, children that assert. */
#ifndef TESTS_HOME_H
#define TESTS_HOME_H

#include "store/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

/* Exit statuses of a child; any other is the line at which it failed, modulo 256. */
enum { IN_CHILD_SKIPPED = 77 };

struct home_paths {
	char folder[64], file[80], other[80], third[80], shared[64];
};

/* Of a test: makes and removes *state, the paths, of which none exists yet but the folder. */
int home_setup(void **state);
int home_teardown(void **state);

/* A store that must open; `options` may be NULL. */
struct sluice_store *open_or_fail(const struct sluice_store_options *options);

/* Charges 1 at the store's own time, which must be admitted; what remains. */
uint32_t remaining_after(struct sluice_store *store, const char *limit, const char *key);

/* Opening fails so, says `text` within its reason, and leaves what is in options->file as it was. */
void assert_refused(const struct sluice_store_options *options, sluice_err err, const char *text);

void write_file(const char *path, const void *bytes, uint64_t count);
void read_file(const char *path, void *bytes, uint64_t count);

/* Copies a file leaving out the pages that are zero. */
void copy_with_holes(const char *from, const char *to, uint64_t bytes);

/* Runs work(paths) in a forked child, which fails the test where a CHILD_ASSERT() in it does; skips the test where it
 * ends with IN_CHILD_SKIPPED. */
void in_child(void (*work)(struct home_paths *), struct home_paths *paths);
#define CHILD_ASSERT(condition) ((condition) ? (void)0 : child_fail(__FILE__, __LINE__))
__attribute__((noreturn)) void child_fail(const char *file, int line);

/* assert_refused() for a child. */
void child_expect_refused(const struct sluice_store_options *options, sluice_err err, const char *text);

#endif
