/* Commands that differ from one before in keys alone, recognised by their bytes.
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
 * An ADMIT differs in more than one place: in the values of those attributes that have differed between two of them, of
 * the same names and cost, before. Which limits apply follows from its pattern (policy/pattern.h), and any value may
 * stand in those places. So a value that differs for the first time costs one more command the long way, and after that
 * differs as often as it likes.
 *
 * I1  The limits stand in lines of the cache; when a line gets another text, both are forgotten (batch.c).
 * I2  What is not wholly there, or differs in any byte, goes the long way. So does a key whose length is not written in
 *     one to three digits, the first not 0: the parser takes others, too, or says what is wrong.
 * I3  A pattern is of one policy, by that one's number: with another policy all ADMITs go the long way, once. */
#ifndef SL_RESP_MEMO_H
#define SL_RESP_MEMO_H

#include "base/bytes.h"
#include "policy/pattern.h"

enum {
	SL_RESP_MEMO_HEAD_MAX = 48,
	SL_RESP_MEMO_TAIL_MAX = 240,
	SL_RESP_MEMO_LIMITS_MAX = 4,
	SL_RESP_MEMO_LENGTH_BYTES = 5, /* the key's length and its line's end */
};

enum {
	SL_RESP_ADMIT_BYTES_MAX = 512, /* of one that is remembered */
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

/* Some bytes of a command. */
struct sl_resp_piece {
	uint16_t at, len;
};

struct sl_resp_admit_memo {
	struct sl_pattern pattern;
	const struct sl_resp_command *command;
	uint32_t cost, count; /* count: attributes; 0: nothing is remembered */
	char text[SL_RESP_ADMIT_BYTES_MAX]; /* the command */
	struct sl_resp_piece names[SL_PATTERN_ATTRIBUTES_MAX], values[SL_PATTERN_ATTRIBUTES_MAX];
	uint32_t piece_count; /* bytes that are always the same, between lengths and values that are not */
	struct sl_resp_piece pieces[SL_PATTERN_ATTRIBUTES_MAX + 1];
};

struct sl_resp_memos {
	struct sl_resp_memo list[SL_RESP_MEMOS];
	struct sl_resp_admit_memo admits[SL_RESP_MEMOS];
	uint32_t recent_admit; /* of them, that was met last */
	uint32_t recent;                 /* of them, that was met last */
	const void *last[SL_RESP_MEMOS]; /* the first limits of the last commands that went the long way */
};

/* Takes a command that is as one remembered, but for its key, or the values that differ, into the batch. Returns the
 * bytes that it took; 0: it is another one, or not all there. A CHECK takes some 230 instructions, with the call that
 * it begins and ends; an ADMIT some 100 before its keys are written. */
size_t sl_resp_memo_take(struct sl_resp_turn *turn, const char *data, size_t len);

static inline void sl_resp_memos_forget(struct sl_resp_memos *memos) {
	memos->list[0].head_len = memos->list[1].head_len = 0;
}

static inline void sl_resp_memos_forget_admits(struct sl_resp_memos *memos) {
	memos->admits[0].count = memos->admits[1].count = 0;
}

/* Remembers the command in hand, if it is of the kind: it has been read by the grammar and joined the batch. */
void sl_resp_memo_keep(struct sl_resp_turn *turn);

/* The same of an ADMIT, which was matched, without words: those are its attributes. */
void sl_resp_memo_keep_admit(struct sl_resp_turn *turn, const struct sluice_attribute *attributes, uint32_t count,
                             uint32_t cost);

#endif
