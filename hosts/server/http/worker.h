/* The HTTP door's memory of one worker thread: what it remembers from request to request. A few KiB. */
#ifndef SL_HTTP_WORKER_H
#define SL_HTTP_WORKER_H

#include "hosts/server/http/body_memo.h"
#include "policy/pattern.h"
#include "proto/http.h"

struct sl_http_worker {
	struct sl_http_head_memo head;
	struct sl_http_body_memo checks, admits;
	struct sl_pattern_memo asked, forwarded; /* of bodies of admissions; at the proxies' doors */
};

#endif
