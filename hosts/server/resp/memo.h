/* A command that differs from one before in its key alone, recognised by its bytes.
 *
 * A pipeline asks for the same limits of one key after the other:
 *
 *   *4 $12 SLUICE.CHECK $ | 16 key:000000000001 |  $1 1 $9 100000/1m
 *   ------- head --------   ------ key --------   ------ tail ------
 *
 * Up to the key's length and after the key the bytes are the same, so what they mean is: the parser, the grammar and
 * the table of limits would say of them what they said before. So they are compared, some words of 8 bytes, and only
 * the length and the key are read. What is remembered is a command that was read to its end without a mistake, of
 * notation alone: no word, no limit of the policy, nothing that depends on the session but the right to ask it.
 *
 * Two a worker, whichever connection asks, so that two that come by turns are both known. A command is remembered when
 * its first limit was that of one of the two before it that went the long way: of many limits in any order none is, and
 * they pay for a comparison, not for a copy.
 *
 * I1  The limits stand in lines of the cache; when a line gets another text, both are forgotten (batch.c).
 * I2  What is not wholly there, or differs in any byte, goes the long way. So does a key whose length is not written in
 *     one to three digits, the first not 0: the parser takes others, too, or says what is wrong. */
#ifndef SL_RESP_MEMO_H
#define SL_RESP_MEMO_H

#include "base/bytes.h"

enum {
	SL_RESP_MEMO_HEAD_MAX = 48,
	SL_RESP_MEMO_TAIL_MAX = 240,
	SL_RESP_MEMO_LIMITS_MAX = 4,
	SL_RESP_MEMO_LENGTH_BYTES = 5, /* the key's length and its line's end */
};

struct sl_resp_turn;
struct sl_resp_command;
struct sl_resp_cached;

enum { SL_RESP_MEMOS = 2 };

struct sl_resp_memo {
	uint32_t head_len, tail_len; /* head_len 0: nothing is remembered */
	char head[SL_RESP_MEMO_HEAD_MAX], tail[SL_RESP_MEMO_TAIL_MAX];
	const struct sl_resp_command *command;
	uint32_t cost, limit_count;
	struct sl_resp_cached *limits[SL_RESP_MEMO_LIMITS_MAX];
};

struct sl_resp_memos {
	struct sl_resp_memo list[SL_RESP_MEMOS];
	uint32_t recent;                 /* of them, that was met last */
	const void *last[SL_RESP_MEMOS]; /* the first limits of the last commands that went the long way */
};

/* Takes a command that is as the one remembered, but for its key, into the batch. Returns the bytes that it took; 0: it
 * is another one, or not all there. Some 230 instructions, with the call that it begins and ends. */
size_t sl_resp_memo_take(struct sl_resp_turn *turn, const char *data, size_t len);

static inline void sl_resp_memos_forget(struct sl_resp_memos *memos) {
	memos->list[0].head_len = memos->list[1].head_len = 0;
}

/* Remembers the command in hand, if it is of the kind: it has been read by the grammar and joined the batch. */
void sl_resp_memo_keep(struct sl_resp_turn *turn);

#endif
