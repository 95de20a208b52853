/* Problems (RFC 9457): what a client is told in JSON whose request was denied, or could not be decided. The same bytes
 * from a server and from a host that answers clients itself. */
#ifndef SL_PROBLEM_H
#define SL_PROBLEM_H

#include "proto/headers.h"

enum { SL_PROBLEM_DETAIL_MAX = 512 }; /* bytes of a detail that is written here */

extern const char sl_problem_media[];   /* application/problem+json */
extern const char sl_problem_quota[];   /* type URI: a limit denied */
extern const char sl_problem_reduced[]; /* type URI: the store cannot answer */

/* The first members of a problem, from '{' on and without the closing '}': type, title, status, detail.
 *  type   NULL for about:blank
 *  title  the status' own phrase, where the type is about:blank */
void sl_problem_members(struct sl_out *out, unsigned status, const char *type, const char *title,
                        struct sluice_bytes detail);

/* A denial: a call that was decided, and the first `count` of its items as headers name them; the deciding one is
 * among these. */
struct sl_problem_denial {
	const struct sluice_call *call;
	const struct sl_headers_limit *limits;
	uint32_t count;
};

/* What a person should know about a denial: which limit, how much is left of it, and how long to wait. */
void sl_problem_detail(struct sl_out *out, const struct sl_problem_denial *denial);

/* The problem of a denial, without the closing '}': its first members and "violated-policies". Room for
 * SL_PROBLEM_ROOM, and SL_JSON_ROOM(len) + 1 of the name of each limit. */
void sl_problem_put_denial(struct sl_out *out, unsigned status, const struct sl_problem_denial *denial);
enum { SL_PROBLEM_ROOM = 512 + 6 * SL_PROBLEM_DETAIL_MAX };

/* The whole problem of a request that the store could not answer, with the names of those limits that deny for it.
 *  held_up  a process that was stopped holds a lock; else the store is away */
void sl_problem_put_unable(struct sl_out *out, unsigned status, bool held_up, const struct sluice_bytes *names,
                           uint32_t count);

/* What a request is told that was held up so, at all doors. */
#define SL_HELD_UP_TEXT "a process that shares the store was stopped with one of its locks in hand"

#endif
