/* SLUICE.ACQUIRE, RELEASE, RENEW and HOLDERS: what is in flight.
 *
 *   SLUICE.ACQUIRE key cost [AT unix_ms] [ID id] [MEMBER m] limit [limit ...] [KEY key limit ...] ...
 *   SLUICE.RELEASE key id   [AT unix_ms] limit [limit ...] [KEY key limit ...] ...       or:  key ticket [AT unix_ms]
 *   SLUICE.RENEW   the same
 *   SLUICE.HOLDERS key      [AT unix_ms] limit
 *
 * Whoever gives an id of his own may ask again when the answer was lost: he gets the lease that he has. Others get one
 * that nobody guesses (door/ids.h); it is all that it takes to end the lease, besides its key and limits. HOLDERS lists
 * ids, and so is for those who may read, not for those who may only be limited. */
#include "hosts/server/door/ruling.h"
#include "hosts/server/resp/resp.h"

#include <stdio.h>
#include <stdlib.h>

void sl_resp_acquire(struct sl_resp_turn *turn) {
	struct sl_resp_reading reading;
	sl_resp_read_begin(turn, &reading, SLUICE_ACQUIRE, "ACQUIRE", SL_WORD_MEMBER | SL_WORD_ID);
	if (!sl_resp_read_cost(turn, sl_resp_arg(turn, 2), &reading.call->cost) || !sl_resp_read_limits(turn, &reading, 3))
		return;
	if (reading.call->id.len == 0)
		sl_resp_call_make_id(turn, reading.call);
	sl_resp_read_end(turn, &reading, SL_RESP_LEASED);
}

/* Are there limits behind the id? */
static bool has_limits(const struct sl_resp_turn *turn) {
	uint32_t count = turn->request->count;
	return count > 3 && !(count == 5 && sl_bytes_equal_nocase(sl_resp_arg(turn, 3), "at"));
}

/* A ticket where it can be read as one. What only looks like one is an id, if there are limits with it. */
static void change(struct sl_resp_turn *turn, sluice_operation operation, const char *command) {
	struct sl_resp_reading reading;
	bool is_ticket;
	sl_resp_read_begin(turn, &reading, operation, command, 0);
	if (sl_resp_read_ticket(turn, &reading, 2, 2, true, &is_ticket)) {
		sl_resp_read_end(turn, &reading, SL_RESP_FOUND);
		return;
	}
	if (is_ticket)
		return;
	if (sl_ticket_is(sl_resp_arg(turn, 2)) && !has_limits(turn)) {
		sl_reply_error(turn, "ERR no ticket: %s: expected it as SLUICE.ADMIT gave it",
		               sl_resp_shown(sl_resp_arg(turn, 2)).text);
		return;
	}
	if (sl_resp_read_id(turn, 2, "id", &reading.call->id) && sl_resp_read_limits(turn, &reading, 3))
		sl_resp_read_end(turn, &reading, SL_RESP_FOUND);
}

void sl_resp_release(struct sl_resp_turn *turn) {
	change(turn, SLUICE_RELEASE, "RELEASE");
}

void sl_resp_renew(struct sl_resp_turn *turn) {
	change(turn, SLUICE_RENEW, "RENEW");
}

/* ---- who holds them ---------------------------------------------------------------------------------------------- */

static void reply_holders(struct sl_resp_turn *turn, const struct sluice_holder *list, uint32_t count) {
	sl_reply_array(turn, count);
	for (uint32_t i = 0; i < count; i++) {
		char id[SL_ID_DIGITS + 1];
		snprintf(id, sizeof id, "%016llx", (unsigned long long)list[i].id);
		sl_reply_array(turn, 3);
		sl_reply_text(turn, id);
		sl_reply_integer(turn, list[i].cost);
		sl_reply_integer(turn, sl_ns_to_ms_ceil(list[i].ends_after_ns));
	}
}

/* Others may acquire between the two looks: then those that end last are left out. */
void sl_resp_holders(struct sl_resp_turn *turn) {
	struct sl_resp_reading reading;
	sl_resp_read_begin(turn, &reading, SLUICE_PEEK, "HOLDERS", 0);
	if (!sl_resp_read_limits(turn, &reading, 2))
		return;
	const struct sluice_item *item = &reading.call->items[0];
	sluice_ns now = reading.call->now;
	if (reading.call->item_count != 1 || item->limit->algorithm != SLUICE_CONCURRENCY) {
		sl_reply_error(turn, "ERR expected one limit of concurrency: others have no holders");
		return;
	}
	if (turn->context->remote != NULL) {
		sl_reply_error(turn,
		               "ERR the store is on other hosts: ask them, by SLUICE.HOLDERS of the module or the script");
		return;
	}
	uint32_t room = sluice_holders(turn->context->store, item->limit, item->key, now, NULL, 0);
	if (room == SLUICE_HOLDERS_BUSY) {
		sl_reply_error(turn, "ERR " SL_HELD_UP_TEXT ": nothing can be told");
		return;
	}
	struct sluice_holder *list = malloc((room + 1) * sizeof *list);
	if (list == NULL) {
		turn->failed = true;
		return;
	}
	uint32_t count = sluice_holders(turn->context->store, item->limit, item->key, now, list, room);
	reply_holders(turn, list, count < room ? count : room);
	free(list);
}
