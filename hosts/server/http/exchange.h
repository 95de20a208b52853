/* One request of the HTTP door on its way to its answer. The files of the door:
 *
 *   door.c      connection: parse, route, mechanics (100-continue, keep-alive, refusals)
 *   ask.c       JSON bodies and queries -> struct sl_http_ask   ask_limits.c  the limits of a body
 *   decide.c    one call, its answer; check, refund, reset      admit.c  admit, explain
 *   hold.c      acquire, release, renew (holders.c)             commit.c reserve, commit, what the proxies commit
 *   reply.c     answers: head, problems, plain texts, the list of limits
 *   decision.c  decisions -> headers and JSON
 *   auth.c      the proxies' doors           metrics.c  /metrics        figures.c  /v1/figures
 *   overrides.c /v1/overrides, quotas of keys' own
 *   top.c       /v1/top   tail.c  /v1/tail    admin.c    /v1/reload
 *   descriptors.c  /json, Envoy's descriptors  rlconfig.c  /rlconfig
 *   page.c      the dashboard                guard.c    roles, Authorization, pages of other sites */
#ifndef SL_HTTP_EXCHANGE_H
#define SL_HTTP_EXCHANGE_H

#include "hosts/server/door/door.h"
#include "proto/http.h"

/* A request being answered. */
struct sl_http_exchange {
	struct sl_door_context *context;
	const struct sl_http_request *request;
	struct sl_buffer *out;
	uint32_t roles; /* SL_ROLE_ bits of the caller */
	struct sl_login_kept login; /* who he is */
	bool close;     /* in: asked for by the client or by draining; out: set by what cannot go on */
	bool by_program; /* it asked for a decision of this API: its User-Agent is the client's, not a visitor's */
	size_t unsaid;  /* bytes of bodies that were made and not sent: HEAD's, of all requests of the turn */
	bool waits;     /* decisions are under way: nothing is said, and the request will be read again */
};

/* What the policy says of the listener that a request came by; NULL: nothing. */
const struct sl_listen *sl_http_listen(const struct sl_http_exchange *exchange);

#endif
