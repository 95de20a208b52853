/* What nodes of Redis or Valkey answer, versions 2 and 3 of their protocol: bytes to tokens. No descriptor, no clock.
 *
 * A reply is a tree, but nobody here wants one: callers take the tokens as they come, keep the few that they need, and
 * hear from `last` that the reply is over. So a reply of any size takes no memory, and one that arrives in pieces is
 * never read twice. Nodes are not trusted: depth, lengths and the number of tokens are bounded. */
#ifndef SL_REPLY_H
#define SL_REPLY_H

#include "base/bytes.h"

enum {
	SL_REPLY_DEPTH_MAX = 8,              /* arrays in arrays */
	SL_REPLY_LINE_BYTES_MAX = 8 * 1024,  /* a simple string, an error, a number */
	SL_REPLY_TEXT_BYTES_MAX = 32 * 1024, /* a bulk string */
	SL_REPLY_TOKENS_MAX = 1 << 20, /* of one reply: above the slot map of a cluster that gave each slot away alone */
	/* The most that has to lie in a buffer for sl_reply_next() to go on. */
	SL_REPLY_TOKEN_BYTES_MAX = SL_REPLY_LINE_BYTES_MAX + SL_REPLY_TEXT_BYTES_MAX + 2,
};

enum sl_reply_kind {
	SL_REPLY_ARRAY,   /* value: how many elements follow; of a map: keys and values */
	SL_REPLY_INTEGER, /* value; a boolean is 0 or 1 */
	SL_REPLY_TEXT,    /* text: a string, or a number that is no integer of 64 bits */
	SL_REPLY_ERROR,   /* text, without its '-' */
	SL_REPLY_NIL,
};

struct sl_reply_token {
	enum sl_reply_kind kind;
	uint8_t depth; /* 0: the reply itself, 1: an element of it .. */
	bool aside;    /* part of a push or an attribute: no part of the reply */
	bool last;     /* ends the reply */
	int64_t value;
	struct sluice_bytes text; /* in the caller's bytes */
};

/* Where in a reply one is. All zero before the first; it is so again after each reply. */
struct sl_reply {
	uint32_t left[SL_REPLY_DEPTH_MAX]; /* elements that are yet to come, of each array that is open */
	uint8_t depth, aside;              /* open arrays; the first of them that is aside, from 1, or 0 */
	bool attribute[SL_REPLY_DEPTH_MAX];
	uint32_t tokens;
	size_t need;       /* of a token that is not all there: bytes that it takes at least, more than there were */
	const char *error; /* of a bad one: what is wrong, a constant */
};

/* Takes the token that the bytes begin with.
 * Returns the bytes that it took (> 0); 0 when it is not all there (reply->need is set, at most
 * SL_REPLY_TOKEN_BYTES_MAX); -1 when this is no reply (reply->error is set; the connection is of no use any more).
 * Reads nothing past data + len. About 10 ns. */
SLUICE_MUST_USE ptrdiff_t sl_reply_next(struct sl_reply *reply, const char *data, size_t len,
                                        struct sl_reply_token *token);

#endif
