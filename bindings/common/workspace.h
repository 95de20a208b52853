/* The memory that one call is read and decided in, and the policy that it looks at. */
#ifndef SL_BINDINGS_WORKSPACE_H
#define SL_BINDINGS_WORKSPACE_H

#include "bindings/common/inside.h"
#include "proto/command.h"

enum {
	SL_WORKSPACE_MATCH_BYTES = 16 << 10, /* of keys that a policy builds; where they are longer, more is taken */
	/* a key and a member of the call, and of each limit up to one too many */
	SL_WORKSPACE_FOLDS_MAX = 2 * (SLUICE_ITEMS_MAX + 2),
};

/* Some 165 KiB, of which a plain call touches two. */
struct sl_workspace {
	struct sl_command command;
	struct sluice_call call;
	struct sluice_item items[SLUICE_ITEMS_MAX];
	struct sluice_limit limits[SLUICE_ITEMS_MAX]; /* those that are not kept */
	struct sl_asked_numbers numbers;
	struct sluice_bytes words[SL_ASKED_WORDS_MAX];
	struct sluice_attribute attributes[SL_ASKED_WORDS_MAX / 2];
	struct sluice_match match;
	struct sl_ticket ticket;
	char ticket_memory[SL_TICKET_BYTES_MAX];
	char held[SL_TICKET_BYTES_MAX]; /* the id, or the ticket, that is told */
	char name[SLUICE_NAME_BYTES_MAX + 1];
	struct sl_told_limit told[SLUICE_ITEMS_MAX]; /* and what they point to */
	char names[SLUICE_ITEMS_MAX][SLUICE_NAME_BYTES_MAX + 1], texts[SLUICE_ITEMS_MAX][SLUICE_LIMIT_TEXT_MAX];
	char ticket_text[SL_TICKET_BYTES_MAX]; /* one that was made of an id and limits */
	char match_bytes[SL_WORKSPACE_MATCH_BYTES];
	uint32_t fold_count;
	char folds[SL_WORKSPACE_FOLDS_MAX][SLUICE_KEY_BYTES_MAX]; /* keys and members that are too long */
	void *match_more; /* SLUICE_MATCH_BYTES_MAX bytes; NULL: never needed so far */
};

/* The limiter's, or one that is new; NULL where the system gives no memory. */
struct sl_workspace *sl_workspace_take(struct sl_limiter *limiter);
/* Gives it back for the next call. */
void sl_workspace_give(struct sl_limiter *limiter, struct sl_workspace *workspace);
/* NULL is allowed. */
void sl_workspace_free(struct sl_workspace *workspace);

/* The policy, which stays until sl_limiter_leave(); NULL: there is none. Each enter is left, whatever it gave. */
const struct sluice_policy *sl_limiter_enter(struct sl_limiter *limiter);
void sl_limiter_leave(struct sl_limiter *limiter);

#endif
