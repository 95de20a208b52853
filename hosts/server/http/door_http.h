/* What a request asks, as it is read from a body or a query. */
#ifndef SL_DOOR_HTTP_H
#define SL_DOOR_HTTP_H

#include "hosts/server/door/call_outcome.h"
#include "hosts/server/http/exchange.h"
#include "proto/command.h"
#include "proto/json.h"

enum {
	SL_HTTP_ATTRIBUTES_MAX = 64, /* that a caller may give */
	SL_HTTP_SOURCES_MAX = 256,   /* that a policy may name: headers in which the proxies' doors look for attributes */
	SL_HTTP_ERROR_BYTES = 512,
};

/* A ticket that was given, and the memory that it points to. */
struct sl_http_ticket {
	struct sl_ticket ticket;
	char memory[SL_TICKET_BYTES_MAX];
};

/* A body, understood. About 16 KiB: for the stack. Slices point into `root`, or into the decoded query. */
struct sl_http_ask {
	json_t *root; /* owned; NULL for a query */
	struct sluice_call call;       /* what is asked: of items[] */
	bool cost_said, peek;
	struct sluice_bytes member;    /* data NULL: none */
	struct sl_http_ticket *ticket; /* the caller's memory, for operations that take tickets */
	struct sluice_limit limits[SLUICE_ITEMS_MAX];
	struct sluice_item items[SLUICE_ITEMS_MAX]; /* point to limits[] */
	bool names;                                 /* some limit is asked for as policy:NAME */
	uint32_t positions[SLUICE_ITEMS_MAX];       /* of such limits in the policy; SL_POSITION_NOTATION for the others */
	uint32_t attribute_count;
	struct sluice_attribute attributes[4 + SL_HTTP_SOURCES_MAX + 1]; /* 1: one that is given twice */
	char error[SL_HTTP_ERROR_BYTES]; /* NUL-ended, where reading failed */
};

/* Makes an ask of cost 1 that charges, at the exchange's instant, for attributes that the caller adds. Owns nothing. */
void sl_http_ask_begin(struct sl_http_ask *ask, const struct sl_http_exchange *exchange);

/* Reads what a body asks of an operation, by the grammar of all doors (proto/command.h). Returns false with ask->error
 * set when anything in it is not as it must be: nothing is guessed, and no member is passed over. End the ask with
 * sl_http_ask_free() in either case.
 *  ticket  memory for one that is given to release, renew or commit; NULL for others */
bool sl_http_ask_body(struct sl_http_ask *ask, const struct sl_http_exchange *exchange, enum sl_operation operation,
                      struct sl_http_ticket *ticket);

/* Reads the attributes of a query, percent-decoded into `memory` (at least as long as the query). */
bool sl_http_ask_query(struct sl_http_ask *ask, const struct sl_http_exchange *exchange, char *memory);
void sl_http_ask_free(struct sl_http_ask *ask);

#endif
