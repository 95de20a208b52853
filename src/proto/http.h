/* HTTP/1.1 requests: bytes to structs. No descriptor, no clock, no store. */
#ifndef SL_HTTP_H
#define SL_HTTP_H

#include "base/out.h"

#include <llhttp.h>

enum {
	SL_HTTP_HEAD_BYTES_MAX = 16 * 1024,  /* request line and headers: more is 431, or 414 while the target goes on */
	SL_HTTP_BODY_BYTES_MAX = 64 * 1024,  /* more is 413, before it is read where its length was announced */
	SL_HTTP_WIRE_BYTES_MAX = 192 * 1024, /* head, body and the framing of chunks: bounds one-byte chunks */
	SL_HTTP_FIELDS_MAX = 100,            /* header lines: more is 431 */
	SL_HTTP_METHOD_BYTES_MAX = 64,       /* a method that llhttp does not know: more is 400 */
};

enum sl_http_method { SL_HTTP_OTHER = 0, SL_HTTP_GET, SL_HTTP_HEAD, SL_HTTP_POST, SL_HTTP_PUT, SL_HTTP_DELETE };

/* A request. All slices are borrowed: they point into the bytes given to sl_http_parse(), the body of a chunked request
 * into the parser, and hold until its next call. */
struct sl_http_request {
	enum sl_http_method method;
	struct sluice_bytes method_name;
	struct sluice_bytes path, query; /* as sent, percent-encoded; the query without its '?' */
	struct sluice_bytes authority;   /* "host:port" of a target in absolute form, which outranks Host; else empty */
	struct sluice_bytes head;        /* its header lines, each valid, with its CR LF; see sl_http_field_next() */
	struct sluice_bytes body;
	bool http10;     /* HTTP/1.0: answers say so where the connection is kept */
	bool keep_alive; /* the client expects more to follow on this connection */
	bool has_foreign_method; /* one that llhttp does not know */
};

/* Why a request was refused. The connection cannot be trusted after it: answer, then close. */
struct sl_http_refusal {
	uint16_t status;
	char detail[158]; /* NUL-ended, for a person: what was wrong and what would be right */
};

enum sl_http_result {
	SL_HTTP_MORE = 0,     /* incomplete: call again with the rest after it */
	SL_HTTP_REQUEST = 1,  /* one request is complete */
	SL_HTTP_CONTINUE = 2, /* the client asks for "100 Continue" before it sends the body; said once a request. The
	                       * request is filled but for its body; calling again goes on with it */
	SL_HTTP_BAD = -1,     /* `refusal` says why */
};

/* The head of a request that was read before: a client on a kept connection sends the same again and again, and the
 * same bytes mean the same. One for as many parsers as one likes, in one thread; zeroed it is empty. */
enum { SL_HTTP_HEAD_KEPT_MAX = 512 };
struct sl_http_head_memo {
	size_t head_bytes, body_bytes; /* 0: there is none; of the body that it announces */
	char text[SL_HTTP_HEAD_KEPT_MAX];
};

/* One a connection. It remembers how far it has read, so that a request that drips in is read once, not once a byte. */
struct sl_http_parser {
	llhttp_t machine;
	size_t parsed;      /* bytes of the present request that the machine has seen */
	size_t head_bytes;  /* of its head, 0 until that is complete */
	size_t framed_from; /* chunked: where the framing begins that is not yet checked */
	bool head_is_new;   /* it was read by the present call: request points into the present bytes */
	bool expects_continue, complete;
	struct sl_http_head_memo *memo; /* in: heads are looked for there, and kept; NULL: nowhere */
	const char *data; /* where the present request begins; valid during a call only */
	char *chunks;     /* the joined body of a chunked request; owned */
	size_t chunks_bytes, chunks_capacity;
	struct sl_http_request request;
	struct sl_http_refusal refusal;
};

/* Makes a parser ready. It owns memory only while it reads a chunked request: end it with sl_http_parser_free(). */
void sl_http_parser_init(struct sl_http_parser *parser);
void sl_http_parser_free(struct sl_http_parser *parser);

/* Reads one request. `data` begins where the last call's `*consumed` ended; what was not consumed is given again, at
 * any address, with more after it (or not).
 *  consumed  out: 0..len bytes that are done with, whatever the result
 * After SL_HTTP_REQUEST, parser->request is the request; after SL_HTTP_BAD, parser->refusal says why, and the parser is
 * of no more use. Reads every byte once; no allocation unless the body is chunked. */
enum sl_http_result sl_http_parse(struct sl_http_parser *parser, const char *data, size_t len, size_t *consumed);

/* Takes the first header line off `*rest` (begin with request->head): its name as sent, its value without white space
 * around it. Returns false when none is left. O(length of the line). */
bool sl_http_field_next(struct sluice_bytes *rest, struct sluice_bytes *name, struct sluice_bytes *value);

/* The value of the first header line of a name, which must be given in lower case; header lines may have it in any.
 * Returns false, leaving `*value` untouched, where there is none. O(head). */
bool sl_http_field(const struct sl_http_request *request, const char *name, struct sluice_bytes *value);

/* Percent-decodes `text` into `out` (at least text.len bytes; may be text.data itself). With `plus`, '+' is a space.
 * Returns the decoded length, or -1 where a '%' is not followed by two hex digits. Any byte may result, NUL too. */
ptrdiff_t sl_http_decode(struct sluice_bytes text, bool plus, char *out);

/* Takes the first name=value off a query, both still encoded; empty parts ("a=1&&b=2") are skipped, and a part without
 * '=' has the empty value. Returns false when none is left. */
bool sl_http_query_next(struct sluice_bytes *rest, struct sluice_bytes *name, struct sluice_bytes *value);

/* Is one of a query's first SL_HTTP_QUERY_NAMES_MAX names given twice? For a route that knows at most so many, and none
 * encoded: where none of those is, a further one is a name that it refuses. O(query). */
enum { SL_HTTP_QUERY_NAMES_MAX = 4 };
#define SL_HTTP_REPEATED "a parameter is given twice: expected each once"
bool sl_http_query_repeats(struct sluice_bytes query);

/* The reason phrase of a status that this project sends. Never NULL. */
const char *sl_http_reason(unsigned status);

/* The instant as an IMF-fixdate, as the Date header has it. */
enum { SL_HTTP_DATE_BYTES = 29 };
void sl_http_date(sluice_ns now, char text[SL_HTTP_DATE_BYTES]);

#endif
