/* The gRPC door: HTTP/2 by nghttp2, and on it the methods that are served.
 *
 *   door.c        one connection: bytes to nghttp2 and back, bounds, GOAWAY      frames.c  its events: headers, bodies
 *   head.c        what a head may be, and says
 *   stream.c      one request: its refusal and its answer    memory.c  blocks    methods.c which methods, and who may
 *   health.c      grpc.health.v1: Check and Watch
 *   should_rate_limit.c  RateLimitService: messages to requests (envoy/rate_limit.h), and answers to messages
 *
 * Requests whose last byte is there are decided when nghttp2 has read all that came, in their order; what has to wait
 * for a store elsewhere is put off (door/pending.h) and answered on its own. The bounds: docs/design/020-http2.md. */
#ifndef SL_GRPC_SESSION_H
#define SL_GRPC_SESSION_H

#include "hosts/server/door/door.h"
#include "hosts/server/grpc/memory.h"
#include "proto/grpc.h"

enum {
	SL_GRPC_STREAMS_MAX = 128,          /* open at a time, as the peer is told */
	SL_GRPC_WAITING_MAX = 512,          /* whose decisions are under way, also of streams that were given up */
	SL_GRPC_HEADERS_MAX = 16 * 1024,    /* bytes of a header list, counted as RFC 9113 (6.5.2) does */
	SL_GRPC_HELD_MAX = 8 * 1024 * 1024, /* unfinished messages and answers of a connection */
	SL_GRPC_AUTHORIZATION_MAX = 4 * 1024,
	SL_GRPC_SEEN = 16,            /* fields of a head that are known again */
	SL_GRPC_SEEN_BYTES_MAX = 256, /* and what each may hold on to */
	SL_GRPC_SHOWN_MAX = 100, /* of what a peer has sent, in an error */
	/* Frames that bring no request on: so many at once, and so many a second and a request besides. */
	SL_GRPC_ASIDE_MAX = 2000,
	SL_GRPC_ASIDE_PER_S = 200,
	SL_GRPC_ASIDE_PER_REQUEST = 8,
};

struct sl_grpc_stream;

/* What a head has, and what that says. Bits. */
enum {
	SL_GRPC_HAS_METHOD = 1,
	SL_GRPC_HAS_SCHEME = 2,
	SL_GRPC_HAS_PATH = 4,
	SL_GRPC_HAS_AUTHORITY = 8,
	SL_GRPC_HAS_HOST = 16,
	SL_GRPC_HAS_LENGTH = 32,
	SL_GRPC_HAS_REGULAR = 64, /* fields that are no pseudo ones have begun */
	SL_GRPC_IS_POST = 128,
	SL_GRPC_IS_CONNECT = 256,
	SL_GRPC_IS_GRPC = 512, /* by its content-type */
	SL_GRPC_IS_OPTIONS = 1024,
	SL_GRPC_IS_HTTP = 2048,  /* the scheme, or https: of others a path may be anything */
	SL_GRPC_IS_ROOTED = 4096, /* the path begins with a / */
	SL_GRPC_IS_STAR = 8192,   /* the path is * */
};

/* What a field of a head is. Those from PATH on say something by their value, each time. */
enum sl_grpc_field_kind {
	SL_GRPC_FIELD_BAD, /* the request is malformed */
	SL_GRPC_FIELD_PSEUDO,
	SL_GRPC_FIELD_REGULAR,
	SL_GRPC_FIELD_PATH,
	SL_GRPC_FIELD_LENGTH,
	SL_GRPC_FIELD_TIMEOUT,
	SL_GRPC_FIELD_ENCODING,
	SL_GRPC_FIELD_AUTHORIZATION,
	SL_GRPC_FIELD_AGENT,
};

struct sl_grpc_field {
	uint8_t kind;   /* enum sl_grpc_field_kind */
	uint16_t sets;  /* SL_GRPC_HAS_, SL_GRPC_IS_ bits */
	uint32_t bytes; /* that it counts for, at most SL_GRPC_HEADERS_MAX + 1 */
};

/* A field that was judged, known by its memory, to which it holds on. */
struct sl_grpc_seen {
	nghttp2_rcbuf *name, *value; /* NULL: none */
	struct sl_grpc_field field;
};

struct sl_grpc_session {
	nghttp2_session *http2;
	struct sl_grpc_memory *memory;   /* its worker's */
	struct sl_door_context *context; /* while it is fed */
	struct sl_grpc_stream *streams;  /* all, also those that were given up and wait */
	struct sl_grpc_stream *head;     /* whose header list is being read; NULL: none, or of none of ours */
	struct sl_grpc_stream *whole, **whole_end; /* requests that have come and are not run yet, in their order */
	uint32_t unfinished;             /* of which the peer has more to send */
	uint32_t owed;                   /* whose answers the peer has not taken yet */
	uint32_t waiting;
	size_t held_bytes;
	bool greeted;  /* the peer's first SETTINGS have come */
	bool heading;  /* a header list has begun and not ended */
	bool named;    /* a User-Agent has come */
	bool ready; /* sl_door_unready() was NULL, as its watchers were told */
	bool noticed;  /* GOAWAY was announced: no new streams, please; a PING is under way */
	bool heard;    /* the peer has answered that PING: what it sent before has come */
	bool parted;   /* GOAWAY with the last stream that is served was said */
	bool ended;    /* to be closed, whatever is open */
	int64_t aside; /* frames that may still come aside */
	sluice_ns aside_at;
	struct sl_grpc_seen seen[SL_GRPC_SEEN]; /* by their places in the head */
};

/* A kind of request. */
struct sl_grpc_method {
	const char *path;
	uint32_t roles; /* SL_ROLE_ bits, one of which the caller needs; 0: open to all */
	/* Answers, fails or puts off; `message` is its body's, and is there as long as the stream is. */
	void (*run)(struct sl_grpc_stream *stream, struct sluice_bytes message);
	/* Answers a request of which a bound of ours keeps a part from being read; NULL: it is refused. */
	void (*deny)(struct sl_grpc_stream *stream);
};

/* A piece of what a peer has sent, kept for an error. */
struct sl_grpc_shown {
	char text[SL_GRPC_SHOWN_MAX];
	uint8_t len;
};

struct sl_grpc_stream {
	struct sl_grpc_session *session;
	struct sl_grpc_stream *next, **link;
	struct sl_grpc_stream *next_whole;
	const struct sl_grpc_method *method; /* NULL: none of ours */
	int32_t id;
	uint32_t header_bytes;
	uint32_t head, fields;   /* of its head: bits, and how many came */
	uint64_t content_length; /* with SL_GRPC_HAS_LENGTH */
	uint64_t received;       /* bytes of its body, whatever became of them */
	bool bad_timeout, encoded;
	bool refused;    /* by RST_STREAM, for its head or as malformed: the rest of it is passed over */
	bool unfinished; /* the peer has more to send */
	bool answered;   /* its answer was submitted, or it needs none any more */
	bool started;    /* of a stream of answers: its first was */
	bool waits;      /* its decision is under way */
	bool whole;      /* in session->whole */
	bool gone;       /* closed: it goes when its decision is there, or when its turn comes */
	bool owes;       /* part of session->owed */
	bool watches;    /* its answer has no end until `ends` */
	bool ends;
	uint8_t authorizations; /* how often there was one: 0, 1, 2 for more */
	uint8_t told;           /* a watcher: what it was told last */
	enum sl_grpc_code code; /* in the trailers */
	char *authorization;
	size_t authorization_len;
	uint8_t *body;
	size_t body_len, body_room;
	uint8_t *answer;
	size_t answer_len, answer_at, answer_room;
	struct sl_grpc_shown shown; /* what is wrong in the head, as far as it is known */
};

/* ---- stream.c ---- */

/* Makes the state of a new stream; NULL where there is no memory. */
struct sl_grpc_stream *sl_grpc_stream_new(struct sl_grpc_session *session, int32_t id);
/* Lets go of it: frees it, or leaves that to the end of its wait. */
void sl_grpc_stream_end(struct sl_grpc_stream *stream);
void sl_grpc_stream_free(struct sl_grpc_stream *stream);
/* The peer has no more to send, or need not. */
void sl_grpc_stream_finished(struct sl_grpc_stream *stream);
/* Takes bytes of a body. False where a bound of the connection, or memory, keeps them out. */
SLUICE_MUST_USE bool sl_grpc_stream_take(struct sl_grpc_stream *stream, const uint8_t *data, size_t len);
/* Keeps what a peer has sent for an error: printable, cut. */
void sl_grpc_stream_show(struct sl_grpc_stream *stream, struct sluice_bytes text);

/* Answers with a message and status 0. A watcher's is one of several. */
void sl_grpc_answer(struct sl_grpc_stream *stream, struct sluice_bytes message);
/* Ends a watcher with a code. */
void sl_grpc_watch_end(struct sl_grpc_stream *stream, enum sl_grpc_code code);
/* Refuses, without a message: trailers only. `status` is HTTP's: 200 for all that gRPC itself knows. `text` has at most
 * SL_GRPC_TEXT_MAX bytes shown. */
void sl_grpc_refuse(struct sl_grpc_stream *stream, unsigned status, enum sl_grpc_code code, struct sluice_bytes text);
static inline void sl_grpc_fail(struct sl_grpc_stream *stream, enum sl_grpc_code code, const char *text) {
	sl_grpc_refuse(stream, 200, code, (struct sluice_bytes){text, strlen(text)});
}

/* ---- head.c ---- */

/* Adds a field to a head, or to its trailers; false where that makes the request malformed. header_bytes grows. */
SLUICE_MUST_USE bool sl_grpc_head_add(struct sl_grpc_stream *stream, nghttp2_rcbuf *name, nghttp2_rcbuf *value,
                                      bool trailer);
/* Has a head, which has come to its end, all that a request must have? */
SLUICE_MUST_USE bool sl_grpc_head_is_whole(const struct sl_grpc_stream *stream);
/* Lets go of the fields that a session knows. */
void sl_grpc_heads_forget(struct sl_grpc_session *session);

/* ---- frames.c ---- */

/* The events of nghttp2, whose user data are a session's. NULL where there is no memory; the caller deletes them. */
nghttp2_session_callbacks *sl_grpc_callbacks(void);
/* Says which stream is the last that is served, and lets watchers go. Not while bytes are taken: a stream that came
 * between this and its sending would be served, and asked for again elsewhere. */
void sl_grpc_part(struct sl_grpc_session *session);

/* ---- methods.c ---- */

/* The method of a path; NULL: none is served there. */
const struct sl_grpc_method *sl_grpc_method_of(struct sluice_bytes path);
/* Judges the head of a request; refuses it where it can't be served, and then returns false. */
SLUICE_MUST_USE bool sl_grpc_admit_head(struct sl_grpc_stream *stream);
/* Runs a request whose body is whole. Called again when what it waited for is there. */
void sl_grpc_run(struct sl_grpc_stream *stream);
/* Runs all that have become whole, in their order. */
void sl_grpc_run_whole(struct sl_grpc_session *session);

/* ---- health.c ---- */

/* Answers Check, and Watch, whose messages are given: at once; a watcher is told more later. */
void sl_grpc_health_check(struct sl_grpc_stream *stream, struct sluice_bytes message);
void sl_grpc_health_watch(struct sl_grpc_stream *stream, struct sluice_bytes message);
/* Tells all watchers of a connection what has changed. */
void sl_grpc_health_changed(struct sl_grpc_session *session);

/* ---- should_rate_limit.c ---- */

/* Decides a request to RateLimitService, and answers it or puts it off; and answers one that can't be read for a bound
 * of ours, over its limit. */
void sl_grpc_should_rate_limit(struct sl_grpc_stream *stream, struct sluice_bytes message);
void sl_grpc_deny_unread(struct sl_grpc_stream *stream);
/* The memory of a worker's connections, made by the first; NULL where there is none. It goes with the context. */
struct sl_grpc_memory *sl_grpc_memory_of(struct sl_door_context *context);

#endif
