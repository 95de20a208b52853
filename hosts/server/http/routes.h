/* What the door answers to: one function a route, each writes the one answer. */
#ifndef SL_HTTP_ROUTES_H
#define SL_HTTP_ROUTES_H

#include "hosts/server/http/exchange.h"

/* limits.c: GET /v1/limits, a page of the policy's limits. */
void sl_http_route_limits(struct sl_http_exchange *exchange);

/* overrides.c: GET /v1/overrides, a page of quotas of keys' own, and PUT, GET and DELETE of one. */
void sl_http_route_overrides(struct sl_http_exchange *exchange);
void sl_http_route_override(struct sl_http_exchange *exchange);

/* The routes that decide: each reads the request's body or query, decides, and writes the one answer. One allocation a
 * value of the body, by jansson; none else. */
void sl_http_route_check(struct sl_http_exchange *exchange);
void sl_http_route_refund(struct sl_http_exchange *exchange);
void sl_http_route_reset(struct sl_http_exchange *exchange);
void sl_http_route_admit(struct sl_http_exchange *exchange);
void sl_http_route_explain(struct sl_http_exchange *exchange);
void sl_http_route_inspect(struct sl_http_exchange *exchange);
void sl_http_route_acquire(struct sl_http_exchange *exchange);
void sl_http_route_release(struct sl_http_exchange *exchange);
void sl_http_route_renew(struct sl_http_exchange *exchange);
void sl_http_route_holders(struct sl_http_exchange *exchange);
void sl_http_route_reserve(struct sl_http_exchange *exchange);
void sl_http_route_commit(struct sl_http_exchange *exchange);

/* commit.c: a proxy's second call, when the answer of the app is there. */
void sl_http_route_auth_commit(struct sl_http_exchange *exchange);

/* auth.c: the proxies' doors. The request's own path begins with the route's. */
void sl_http_route_auth_forward(struct sl_http_exchange *exchange);
void sl_http_route_auth_nginx(struct sl_http_exchange *exchange);
void sl_http_route_auth_envoy(struct sl_http_exchange *exchange);

/* metrics.c: GET /metrics; figures.c: GET /v1/figures, the same as JSON, with history. */
void sl_http_route_metrics(struct sl_http_exchange *exchange);
void sl_http_route_figures(struct sl_http_exchange *exchange);

/* descriptors.c: POST /json, what envoyproxy/ratelimit is asked over HTTP. */
void sl_http_route_json(struct sl_http_exchange *exchange);

/* rlconfig.c: GET /rlconfig, the rules of envoyproxy/ratelimit's files. */
void sl_http_route_rlconfig(struct sl_http_exchange *exchange);

/* top.c: GET /v1/top. */
void sl_http_route_top(struct sl_http_exchange *exchange);

/* tail.c: GET /v1/tail, a stream. */
void sl_http_route_tail(struct sl_http_exchange *exchange);

/* admin.c: POST /v1/reload. */
void sl_http_route_reload(struct sl_http_exchange *exchange);

/* page.c: the dashboard, at / and below /dashboard/. */
void sl_http_route_page(struct sl_http_exchange *exchange);

#endif
