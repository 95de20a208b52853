/* The HTTP door's own parts: what one request asks, and how it is answered. For door_http*.c only.
 *
 *   door.c           connection: parse, route, mechanics (100-continue, keep-alive, refusals)
 *   ask.c       JSON bodies and queries -> struct sl_http_ask
 *   ask_limits.c  the limits of a body
 *   decide.c    one call, its answer; check, refund, reset      admit.c  admit, explain
 *   hold.c      acquire, release, renew (holders.c)             commit.c reserve, commit, what the proxies commit
 *   reply.c     answers: head, problems, plain texts, the list of limits
 *   decision.c  decisions -> headers and JSON
 *   auth.c      the proxies' doors           metrics.c  /metrics        figures.c  /v1/figures
 *   top.c       /v1/top                      admin.c    /v1/reload
 *   page.c      the dashboard                guard.c    roles, Authorization, pages of other sites */
#ifndef SL_DOOR_HTTP_H
#define SL_DOOR_HTTP_H

#include "hosts/server/door/admission.h"
#include "proto/json.h"
#include "proto/headers.h"
#include "proto/http.h"

/* ---- one request and its answer ------------------------------------------------------------------------------ */

/* A request being answered. */
struct sl_http_turn {
	struct sl_door_context *context;
	const struct sl_http_request *request;
	struct sl_buffer *out;
	uint32_t roles; /* SL_ROLE_ bits of the caller */
	bool close;     /* in: asked for by the client or by draining; out: set by what cannot go on */
	bool waits;     /* decisions are under way: nothing is said, and the request will be read again */
};

/* An answer being written, straight into the output buffer. Between begin and body, header lines go to `w`, each with
 * its CR LF; between body and end, the body. */
struct sl_http_reply {
	struct sl_http_turn *turn;
	struct sl_out w;
	size_t length_at, body_at; /* offsets in w */
	unsigned status;
};

enum { SL_HTTP_REPLY_ROOM_HEAD = 512 }; /* taken by begin and body, besides `room` */

/* Starts an answer: status line, Date, Content-Type (NULL: none, for an empty body), Cache-Control, Connection.
 *  room  the most bytes that the caller's header lines and body will take
 * Returns false when there is no memory: then nothing is written, and the turn closes. */
SLUICE_MUST_USE bool sl_http_reply_begin(struct sl_http_reply *reply, struct sl_http_turn *turn, unsigned status,
                                         const char *content_type, size_t room);
void sl_http_reply_body(struct sl_http_reply *reply);
/* Sets Content-Length and hands the answer over; without its body where HEAD was asked. */
void sl_http_reply_end(struct sl_http_reply *reply);

/* A whole answer of plain text. */
void sl_http_reply_text(struct sl_http_turn *turn, unsigned status, const char *text);

extern const char sl_http_problem_quota[];   /* type URI: a limit denied */
extern const char sl_http_problem_reduced[]; /* type URI: the store cannot answer */

/* The first members of a problem (RFC 9457), from '{' on and without the closing '}': type, title, status, detail.
 *  type  NULL for about:blank; title  NULL for the status' own phrase */
void sl_http_problem_members(struct sl_out *out, unsigned status, const char *type, const char *title,
                             struct sluice_bytes detail);

/* A whole problem of type about:blank. `detail` says what was wrong and what would be right; at most 512 bytes.
 *  allow  the Allow header of a 405; else NULL */
void sl_http_reply_problem(struct sl_http_turn *turn, unsigned status, struct sluice_bytes detail, const char *allow);

/* What the policy says of the listener that a request came by; NULL: nothing. */
const struct sl_listen *sl_http_listen(const struct sl_http_turn *turn);

/* GET /v1/limits: the policy's limits, in the order of the file. */
void sl_http_reply_limits(struct sl_http_turn *turn);

/* ---- who asks (guard.c) -------------------------------------------------------------------------------------- */

/* Finds out the caller's roles (turn->roles), whether they let him ask a route, and whether he is a stranger's page.
 *  path      the route's, for messages
 *  needed    SL_ROLE_ bits, one of which it takes; 0: open to all
 *  any_host  it is asked under any name, though there be no users
 * Returns false once the request has been refused: 401, 403, 429 or 400. A walk over the head, and, where users are
 * configured, what sl_access_login() takes. */
bool sl_http_guard(struct sl_http_turn *turn, const char *path, uint32_t needed, bool any_host);
/* The same for the proxies' doors. */
bool sl_http_guard_proxy(struct sl_http_turn *turn);

/* ---- what a request asks ------------------------------------------------------------------------------------- */

enum {
	SL_HTTP_ATTRIBUTES_MAX = 64, /* that a caller may give */
	SL_HTTP_SOURCES_MAX = 256,   /* that a policy may name: headers in which the proxies' doors look for attributes */
	SL_HTTP_ERROR_BYTES = 512,
};

enum sl_http_ask_kind {
	SL_HTTP_ASK_CHECK,
	SL_HTTP_ASK_REFUND,
	SL_HTTP_ASK_RESET,
	SL_HTTP_ASK_ADMIT,
	SL_HTTP_ASK_ACQUIRE,
	SL_HTTP_ASK_RELEASE,
	SL_HTTP_ASK_RENEW,
	SL_HTTP_ASK_HOLDERS,
	SL_HTTP_ASK_RESERVE,
	SL_HTTP_ASK_COMMIT,
};

/* A ticket that was given, and the memory that it points to. */
struct sl_http_ticket {
	struct sl_ticket ticket;
	char memory[SL_TICKET_BYTES_MAX];
};

/* A body, understood. About 16 KiB: for the stack. Slices point into `root`, or into the decoded query. */
struct sl_http_ask {
	json_t *root;  /* owned; NULL for a query */
	uint32_t cost; /* of a commit the actual one */
	bool cost_said, peek, upto;
	sluice_ns now;
	sluice_ns ttl_ns;              /* of a reservation */
	struct sluice_bytes id;        /* len 0: none; of a ticket its digits */
	struct sluice_bytes member;    /* data NULL: none */
	struct sl_http_ticket *ticket; /* the caller's memory, for kinds that take tickets */
	uint32_t item_count;
	struct sluice_limit limits[SLUICE_ITEMS_MAX];
	struct sluice_item items[SLUICE_ITEMS_MAX]; /* point to limits[] */
	bool names;                                 /* some limit is asked for as policy:NAME */
	uint32_t positions[SLUICE_ITEMS_MAX];       /* of such limits in the policy; SL_RULING_NOTATION for the others */
	uint32_t attribute_count;
	struct sluice_attribute attributes[4 + SL_HTTP_SOURCES_MAX + 1]; /* 1: one that is given twice */
	char error[SL_HTTP_ERROR_BYTES]; /* NUL-ended, where reading failed */
};

/* Makes an ask of cost 1 that charges, at the turn's instant, for attributes that the caller adds. Owns nothing. */
void sl_http_ask_begin(struct sl_http_ask *ask, const struct sl_http_turn *turn);

/* Reads a body of one kind. Returns false with ask->error set when anything in it is not as it must be: nothing is
 * guessed, and no member is passed over. End the ask with sl_http_ask_free() in either case.
 *  ticket  memory for one that is given to release, renew or commit; NULL for other kinds */
bool sl_http_ask_body(struct sl_http_ask *ask, const struct sl_http_turn *turn, enum sl_http_ask_kind kind,
                      struct sl_http_ticket *ticket);

/* Reads the attributes of a query, percent-decoded into `memory` (at least as long as the query). */
bool sl_http_ask_query(struct sl_http_ask *ask, const struct sl_http_turn *turn, char *memory);
void sl_http_ask_free(struct sl_http_ask *ask);

/* The position in the policy of a ticket's limit, by its name; SL_RULING_NOTATION for one in notation (len 0), and for
 * one that the policy has no more. */
uint32_t sl_http_position(const struct sluice_policy *policy, struct sluice_bytes name);

/* ---- deciding and showing decisions -------------------------------------------------------------------------- */

/* How a decision is answered. */
struct sl_http_style {
	bool explain;    /* an explanation: 200 whatever it says, with what next frees and with candidates */
	bool empty;      /* the proxies' doors: no body where it is allowed, but a Sluice-Delay-Ms where the request is to
	                  * be held; and a denial's body, which strangers read, tells only of those limits that denied */
	uint16_t denied; /* status of a denial; 0 for 429 */
	uint16_t unable; /* of what on-error: deny denies; 0 for 503 */
};

/* A decision as it is shown. Everything is borrowed. */
struct sl_http_view {
	const struct sluice_call *call; /* call->each may be NULL where count is 0 */
	uint32_t count;                 /* of the limits that are shown; those behind them in the call are candidates */
	struct sl_headers_limit limits[SLUICE_ITEMS_MAX];
	struct sluice_bytes keys[SLUICE_ITEMS_MAX];
	const uint8_t *candidate_of; /* for each candidate the limit that it belongs to; NULL where there are none */
	struct sluice_store *store;  /* of an explanation: where standings are looked up; NULL: it is not at hand */
	struct sluice_bytes id;      /* of what the caller holds now, or its ticket; len 0: nothing */
	struct sl_http_style style;
};

/* 200, or 429 as a problem, with the headers of rate limits in the listener's forms. */
void sl_http_reply_decision(struct sl_http_turn *turn, const struct sl_http_view *view);

/* Decides what the policy says of the ask's attributes, and answers. */
void sl_http_decide_attributes(struct sl_http_turn *turn, const struct sl_http_ask *ask, struct sl_http_style style);

/* The routes that decide: each reads the request's body or query, decides, and writes the one answer. One allocation a
 * value of the body, by jansson; none else. */
void sl_http_route_check(struct sl_http_turn *turn);
void sl_http_route_refund(struct sl_http_turn *turn);
void sl_http_route_reset(struct sl_http_turn *turn);
void sl_http_route_admit(struct sl_http_turn *turn);
void sl_http_route_explain(struct sl_http_turn *turn);
void sl_http_route_acquire(struct sl_http_turn *turn);
void sl_http_route_release(struct sl_http_turn *turn);
void sl_http_route_renew(struct sl_http_turn *turn);
void sl_http_route_holders(struct sl_http_turn *turn);
void sl_http_route_reserve(struct sl_http_turn *turn);
void sl_http_route_commit(struct sl_http_turn *turn);

/* commit.c: a proxy's second call, when the answer of the app is there. */
void sl_http_route_auth_commit(struct sl_http_turn *turn);

/* auth.c: the proxies' doors. The request's own path begins with the route's. */
void sl_http_route_auth_forward(struct sl_http_turn *turn);
void sl_http_route_auth_nginx(struct sl_http_turn *turn);
void sl_http_route_auth_envoy(struct sl_http_turn *turn);

/* metrics.c: GET /metrics; figures.c: GET /v1/figures, the same as JSON, with history. */
void sl_http_route_metrics(struct sl_http_turn *turn);
void sl_http_route_figures(struct sl_http_turn *turn);

/* top.c: GET /v1/top. */
void sl_http_route_top(struct sl_http_turn *turn);

/* admin.c: POST /v1/reload. */
void sl_http_route_reload(struct sl_http_turn *turn);

/* page.c: the dashboard, at / and below /dashboard/. */
void sl_http_route_page(struct sl_http_turn *turn);

#endif
