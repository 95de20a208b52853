/* What comes before a door's first byte: see greeting.c. */
#ifndef SL_GREETING_H
#define SL_GREETING_H

#include "hosts/server/net/connection.h"

enum sl_greeting {
	SL_GREETING_DONE,
	SL_GREETING_LATER,   /* when c->wants has come, again */
	SL_GREETING_REFUSED, /* the peer is to get the alert that says why, then it is over */
	SL_GREETING_FAILED,  /* it is none */
	SL_GREETING_CLOSED,  /* nobody is there, or it may not come in */
};

/* Goes on with the PROXY header, or with the handshake. Closing is the caller's. */
enum sl_greeting sl_greeting_proxy(struct sl_connection *c);
enum sl_greeting sl_greeting_handshake(struct sl_connection *c);

#endif
