/* Points at which a process may die: marks between any two stores that another process could see, for tests that kill
 * it at each of them (tests/crash). Nothing in a build without SL_POINTS. */
#ifndef SL_POINT_H
#define SL_POINT_H

#ifdef SL_POINTS
/* The test's: called at each point; may not return. */
void sl_point(void);
#define SL_POINT() sl_point()
#else
#define SL_POINT() ((void)0)
#endif

#endif
