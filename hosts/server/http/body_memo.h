/* Bodies that differ from one before in keys and attributes alone, recognised by their bytes.
 *
 * A client writes the same JSON again and again, with another key in it:
 *
 *   {"key":" | user:1 | ","limits":["100/1m"]}
 *   - piece -  value   -------- piece --------
 *
 * What a body means follows from its pieces, whatever the values are, as long as these are plain (base/plain.h): then
 * they mean themselves. So pieces are compared, values are looked through, and neither JSON nor notation is read. The
 * values are the key of a check, and the attributes of an admission. Remembered is a body that was read to its end
 * without a mistake and says nothing else but its limits in notation, its cost, and `peek`: nothing that depends on the
 * policy, on the instant, or on a session.
 *
 * One for each of the two operations a worker. A body that is not wholly as the one remembered is read as any. */
#ifndef SL_HTTP_BODY_MEMO_H
#define SL_HTTP_BODY_MEMO_H

#include "hosts/server/http/door_http.h"

enum {
	SL_HTTP_MEMO_BODY_MAX = 768,
	SL_HTTP_MEMO_VALUES_MAX = 16,
	SL_HTTP_MEMO_LIMITS_MAX = 4,
};

/* Some bytes of a body. */
struct sl_http_piece {
	uint16_t at, len;
};

struct sl_http_body_memo {
	uint32_t piece_count; /* one more than there are values; 0: nothing is remembered */
	struct sl_http_piece pieces[SL_HTTP_MEMO_VALUES_MAX + 1];
	struct sl_http_piece names[SL_HTTP_MEMO_VALUES_MAX]; /* of attributes */
	char text[SL_HTTP_MEMO_BODY_MAX];
	uint32_t cost, limit_count;
	bool cost_said, peek;
	struct sluice_limit limits[SL_HTTP_MEMO_LIMITS_MAX];
};

/* Fills an ask, which has begun, from a body that is as the one remembered. Its names and limits stand in the memo, its
 * values in the body. False: it is another one. */
bool sl_http_body_recall(const struct sl_http_body_memo *memo, struct sluice_bytes body, struct sl_http_ask *ask);

/* Remembers a body that was read as this ask, of CHECK or ADMIT, if it is of the kind. */
void sl_http_body_keep(struct sl_http_body_memo *memo, struct sluice_bytes body, const struct sl_http_ask *ask,
                       enum sl_operation operation);

#endif
