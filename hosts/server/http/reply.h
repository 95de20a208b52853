/* Answers: head, problems, plain texts. */
#ifndef SL_HTTP_REPLY_H
#define SL_HTTP_REPLY_H

#include "hosts/server/http/exchange.h"

/* An answer being written, straight into the output buffer. Between begin and body, header lines go to `w`, each with
 * its CR LF; between body and end, the body. */
struct sl_http_reply {
	struct sl_http_exchange *exchange;
	struct sl_out w;
	size_t length_at, body_at; /* offsets in w */
	unsigned status;
};

enum { SL_HTTP_REPLY_ROOM_HEAD = 512 }; /* taken by begin and body, besides `room` */

/* Starts an answer: status line, Date, Content-Type (NULL: none, for an empty body), Cache-Control, Connection.
 *  room  the most bytes that the caller's header lines and body will take
 * Returns false when there is no memory: then nothing is written, and the exchange closes. */
SLUICE_MUST_USE bool sl_http_reply_begin(struct sl_http_reply *reply, struct sl_http_exchange *exchange,
                                         unsigned status, const char *content_type, size_t room);
void sl_http_reply_body(struct sl_http_reply *reply);
/* Sets Content-Length and hands the answer over; without its body where HEAD was asked. */
void sl_http_reply_end(struct sl_http_reply *reply);

/* Hands over the head of an answer without a length, after the caller's header lines: its body is still to come. */
void sl_http_reply_head(struct sl_http_reply *reply);

/* A whole answer of plain text. */
void sl_http_reply_text(struct sl_http_exchange *exchange, unsigned status, const char *text);

/* A whole problem of type about:blank. `detail` says what was wrong and what would be right; at most 512 bytes.
 *  allow  the Allow header of a 405; else NULL */
void sl_http_reply_problem(struct sl_http_exchange *exchange, unsigned status, struct sluice_bytes detail,
                           const char *allow);

#endif
