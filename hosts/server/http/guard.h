/* Who asks, and may he? */
#ifndef SL_HTTP_GUARD_H
#define SL_HTTP_GUARD_H

#include "hosts/server/http/exchange.h"

/* Finds out the caller's roles (exchange->roles), whether they let him ask a route, and whether he is a stranger's
 * page. path the route's, for messages needed SL_ROLE_ bits, one of which it takes; 0: open to all any_host it is asked
 * under any name, though there be no users Returns false once the request has been refused: 401, 403, 429 or 400. A
 * walk over the head, and, where users are configured, what sl_access_login() takes. */
bool sl_http_guard(struct sl_http_exchange *exchange, const char *path, uint32_t needed, bool any_host);
/* The same for the proxies' doors. */
bool sl_http_guard_proxy(struct sl_http_exchange *exchange);
/* The roles that who came in so (exchange->login) has now, after another policy came. */
uint32_t sl_http_roles(const struct sl_door_context *context, struct sl_login_kept *login);

#endif
