/* One request, decided: all that nginx' configuration asks of it as one call over the store, and what its client is to
 * be told. Bytes in, bytes out; no header of nginx's: what makes a request of nginx' is in request.c, what is done with
 * the answer in handler.c.
 *
 *   policy's match, then the limits of directives -> sl_admission_prepare() -> sluice_decide() -> headers, problem */
#ifndef SL_NGINX_DECIDE_H
#define SL_NGINX_DECIDE_H

#include "hosts/admission/admission.h"
#include "policy/pattern.h"
#include "proto/problem.h"

/* A limit of a directive with what one request says to it. Borrowed for the call. */
struct sl_nginx_limit {
	const struct sluice_limit *limit;
	struct sluice_bytes name;   /* by which clients are told of it: its canonical text, unless it was named */
	struct sluice_bytes key;    /* any length: a long one counts as its hash */
	struct sluice_bytes member; /* of distinct; else data NULL */
	uint32_t cost;
};

/* What is asked. Borrowed for the call. */
struct sl_nginx_ask {
	struct sluice_store *store;         /* NULL: away */
	const struct sluice_policy *policy; /* NULL: none */
	const struct sluice_attribute *attributes;
	uint32_t attribute_count;
	/* A header by its name in lower case: as struct sl_admission has it. */
	bool (*header)(void *data, const char *name, struct sluice_bytes *value);
	void *data;
	const struct sl_nginx_limit *limits;
	uint32_t limit_count; /* at most SLUICE_ITEMS_MAX */
	bool denies_on_error; /* what `limits` say while the store can't answer; a policy's limits say it each */
	bool last;            /* whoever is held up now is not asked again: he has waited as long as anybody does */
	bool hurried;         /* nor if he has not waited at all */
};

enum sl_nginx_end {
	SL_NGINX_PASSED,
	SL_NGINX_DENIED,
	SL_NGINX_HELD_UP,   /* a process that was stopped holds a lock: nothing was charged, ask again some ms later */
	SL_NGINX_UNDECIDED, /* the store can't answer, and on-error lets it pass */
	SL_NGINX_UNABLE,    /* the store can't answer, and on-error denies it */
	SL_NGINX_WRONG,     /* the request says a cost that is none, or an attribute twice: `wrong` */
};

/* Long keys of limits, as they count. */
struct sl_nginx_folded {
	char bytes[SLUICE_ITEMS_MAX][SLUICE_KEY_BYTES_MAX];
};

/* The answer, with all that deciding needs. One a worker: it is written anew for every request, and never cleared. */
struct sl_nginx_answer {
	struct sluice_call call;
	struct sluice_match match;
	struct sluice_decision each[SLUICE_ITEMS_MAX];
	struct sl_headers_limit limits[SLUICE_ITEMS_MAX];  /* call.item_count of them */
	struct sluice_limit own[SLUICE_ITEMS_MAX];         /* of those that are decided by their keys' own quotas */
	const struct sl_nginx_limit *of[SLUICE_ITEMS_MAX]; /* which limit of the ask an item is; NULL: the policy's */
	sluice_err err;                                    /* why the store could not answer */
	uint32_t deniers;                                  /* a bit for each item that denies for that */
	const struct sl_policy_denied *denied; /* the policy's own body of a denial; NULL: a problem */
	struct sluice_bytes request_id;        /* that such a body may name; len 0: none */
	char made[SL_TICKET_ID_DIGITS + 1];
	char wrong[192]; /* NUL-ended: what is wrong with the request */
	struct sl_pattern_memo memo;
	struct sl_nginx_folded folded;
	struct sl_stagger *stagger; /* NULL: no policy asks for it */
	char *match_bytes;          /* SLUICE_MATCH_BYTES_MAX bytes; may be NULL where no policy is asked */
	char retry_id[SL_RETRY_ID_DIGITS];
};

/* Decides what is asked, all or nothing. SL_NGINX_PASSED with call.merged.index -1: no limit applied. After PASSED and
 * DENIED call, each and limits are filled and point into the ask, the policy and match_bytes. */
enum sl_nginx_end sl_nginx_decide(struct sl_nginx_answer *answer, const struct sl_nginx_ask *ask);

/* The header lines that a client is told of a decision, each with its CR LF, in the forms of SL_FORM_ bits: on a denial
 * Retry-After first. Returns the room that is needed; what does not fit into `out` sets out->overflow. */
size_t sl_nginx_headers_room(const struct sl_nginx_answer *answer);
void sl_nginx_put_headers(struct sl_out *out, const struct sl_nginx_answer *answer, uint32_t forms);

/* After PASSED: writes the ticket of what the request holds until it ends, leases and reservations. Its length; 0: it
 * holds nothing. */
size_t sl_nginx_ticket(const struct sl_nginx_answer *answer, const struct sluice_policy *policy,
                       char text[SL_TICKET_BYTES_MAX]);

/* Ends what a ticket holds: releases its leases, and commits its reservations where the response says its cost.
 *  said  the value of a response's header by its name in lower case, data NULL where it has none
 * SLUICE_OK; SLUICE_E_BUSY and held up: what is left ends by itself. */
sluice_err sl_nginx_end_ticket(struct sluice_store *store, const struct sluice_policy *policy,
                               struct sluice_bytes ticket, struct sluice_bytes (*said)(void *data, const char *name),
                               void *data);

/* After PASSED with a delay: the name of the limit that asks for it, which need not be the one that decided; the first
 * where there are several. */
struct sluice_bytes sl_nginx_delaying(const struct sl_nginx_answer *answer);

/* Why a request was denied, for a log: SL_PROBLEM_DETAIL_MAX bytes suffice. */
void sl_nginx_put_detail(struct sl_out *out, const struct sl_nginx_answer *answer);

/* The body of a denial, of a refusal by on-error, or of a request that was wrong: its media
 * type, the room that it needs, and itself. */
const char *sl_nginx_body_media(const struct sl_nginx_answer *answer, enum sl_nginx_end end);
size_t sl_nginx_body_room(const struct sl_nginx_answer *answer, enum sl_nginx_end end);
void sl_nginx_put_body(struct sl_out *out, const struct sl_nginx_answer *answer, enum sl_nginx_end end,
                       unsigned status);

#endif
