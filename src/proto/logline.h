/* One line of recorded traffic -> a request. Access logs (common, combined, JSON lines) and ops lines.
 *
 *   common    203.0.113.9 - alice [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 200 5316
 *   combined  the same, then "referer" "user agent"
 *   JSON      {"time":"2015-05-17T10:05:03.250Z","client_ip":"203.0.113.9","method":"GET","uri":"/a?b","status":200}
 *   ops       1521911720615 10.164.94.120 1          (Unix ms, key, cost)
 *
 * What a limiter needs ends with common's seventh field, so what follows it is not looked at: a line that was cut in
 * its user agent is still a request. In front, where common has `client identity user`, may stand
 *
 *   www.example:443 203.0.113.9 - alice            vhost_combined: a name or address with a port, unless "-"
 *                                                  follows; a name without one where an address follows
 *   203.0.113.9, 10.0.0.7 - alice                  X-Forwarded-For: the first of a list is the client
 *   203.0.113.9 10.0.0.5 - alice                   the same and its peer: of two addresses the first is the client's
 *   203.0.113.9 - [203.0.113.9, 10.0.0.7] - alice  older ingress-nginx
 *
 *   203.0.113.9 - - www.example 0.003              fields of somebody's own after an address and a user that is none;
 *                                                  after a user's name they are part of it
 *
 * Any other "-" among the words of a user is a field of its own, so more stands in front than that, such as the prefix
 * of a collector (syslog, Docker, Kubernetes). Which of them is the client is not guessed.
 *
 * A request line that is none (a TLS greeting on a plain port, "-") still counts for its address: such a line is
 * readable and has no method and no path.
 *
 * Invariants
 *  I1  Input is hostile: nothing is read past the line or written past the scratch memory, whatever the bytes.
 *  I2  A line is read as a whole or refused with a reason; it is never half a request.
 *  I3  Bytes decoded from a line are at most as many as the line has, so one scratch buffer of the longest line
 *      holds all of them. */
#ifndef SL_LOGLINE_H
#define SL_LOGLINE_H

#include "base/bytes.h"
#include "proto/logtime.h"

enum { SL_LOGLINE_BYTES_MAX = 64 * 1024 };

enum sl_log_format {
	SL_LOG_AUTO = 0, /* told by the line itself */
	SL_LOG_COMMON,
	SL_LOG_COMBINED, /* read as common is */
	SL_LOG_JSON,
	SL_LOG_OPS,
};

/* What a line says. Slices point into the line or the scratch memory; `data` is NULL where the line says nothing. */
struct sl_logline {
	enum sl_log_format format; /* what it was read as; never SL_LOG_AUTO */
	sluice_ns time;
	uint32_t cost;              /* 1 where none is said */
	bool cost_said;
	struct sluice_bytes key;    /* ops: at least one byte; JSON: its field "key", if any */
	struct sluice_bytes ip;     /* as written: an address, with or without a port, or a name */
	struct sluice_bytes method; /* 1..32 token characters */
	struct sluice_bytes path;   /* the request target as written, query and all */
	struct sluice_bytes host, user, status;
	bool has_duration; /* the line says how long the request took: JSON */
	sluice_ns duration;
};

/* What is kept from line to line, and memory for what had to be decoded. Begins zeroed, but for the bytes. */
struct sl_logline_scratch {
	struct sl_logtime_day day;
	bool skips_request; /* in: nobody asks for what the request of an access log says: method, path, host */
	size_t used;
	char bytes[SL_LOGLINE_BYTES_MAX];
};

/* Reads one line, without its newline, at most SL_LOGLINE_BYTES_MAX bytes.
 *  error   out: the column and what was expected there; filled on failure only
 * Returns false for a line that is none of the format; `out` is then undefined. Allocates for JSON only. */
bool sl_logline_parse(enum sl_log_format format, struct sluice_bytes line, struct sl_logline_scratch *scratch,
                      struct sl_logline *out, struct sluice_error *error);

/* The formats' names, by enum sl_log_format; ended by NULL. */
extern const char *const sl_log_formats[];

/* ---- shared by the formats (logjson.c, logrequest.c) -------------------------------------------------------- */

/* Reads one JSON object; as sl_logline_parse(). */
bool sl_logline_json(struct sluice_bytes line, struct sl_logline_scratch *scratch, struct sl_logline *out,
                     struct sluice_error *error);

/* Splits "GET /a HTTP/1.1" into method and path (and the host of an absolute target); leaves both unset where the text
 * is no request. */
void sl_logline_request(struct sluice_bytes text, struct sl_logline *out);

/* Sets the host where a target says one, as http://host/path does; else leaves it. */
void sl_logline_target_host(struct sluice_bytes target, struct sl_logline *out);

/* Is it a method of HTTP, as far as its 1..32 letters go? */
bool sl_logline_is_method(struct sluice_bytes text);

/* Fills `error` and returns false. */
bool sl_logline_refuse(struct sluice_error *error, size_t column, const char *text);

#endif
