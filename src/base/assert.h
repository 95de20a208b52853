/* Assertions guard what only our own code can get wrong; input is checked and answered with an error instead. */
#ifndef SL_ASSERT_H
#define SL_ASSERT_H

#include <stdlib.h>

/* Kept in every build: a limiter that has lost track of its own state must stop, not guess. */
#define SL_ASSERT(condition) ((condition) ? (void)0 : abort())

/* Checked in debug and sanitizer builds only: for the innermost path, where it would cost a measurable part. */
#ifdef SL_DEBUG
#define SL_DEBUG_ASSERT(condition) SL_ASSERT(condition)
#else
#define SL_DEBUG_ASSERT(condition) ((void)sizeof(condition))
#endif

#endif
