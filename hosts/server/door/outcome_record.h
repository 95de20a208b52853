/* What is written down of a limit's answer: for the denial log, and for those who follow decisions as they happen
 * (watch/tail.h). Here a decision and the request that asked for it become a record (watch/record.h). */
#ifndef SL_OUTCOME_RECORD_H
#define SL_OUTCOME_RECORD_H

#include "hosts/server/door/call_outcome.h"

/* An attribute of the request, or the header that says the same (NULL: none does); data NULL: neither is there. */
struct sluice_bytes sl_asker_told(const struct sl_asker *asker, const char *attribute, const char *header);

/* What a limit is called: its name in the policy, or its canonical text, which is written to `text`. */
struct sluice_bytes sl_outcome_limit(const struct sl_door_context *context, const struct sluice_item *item,
                                     uint32_t position, char text[SLUICE_LIMIT_TEXT_MAX]);

/* A record, and the memory that it points to besides the request's. About 7 KiB: for the stack. */
struct sl_outcome_record {
	struct sl_record_line record;
	char limit[SLUICE_LIMIT_TEXT_MAX], key[2 * SLUICE_KEY_BYTES_MAX], address[2 * SLUICE_KEY_BYTES_MAX],
		ip[SLUICE_KEY_BYTES_MAX], method[SLUICE_KEY_BYTES_MAX];
};

/* Fills in all that the log and the followers share. About 300 ns, and a microsecond more where keys are hashed.
 *  i         which item of the call
 *  position  of its limit in the policy, or SL_POSITION_NOTATION
 *  decision  what the limit said */
void sl_outcome_record(const struct sl_door_context *context, const struct sl_call_outcome *outcome, uint32_t i,
                       uint32_t position, const struct sluice_decision *decision, struct sl_outcome_record *made);

/* Shows a settled call to those who follow: each limit's own answer, of limits in notation the one that decided; of
 * candidates those that would have denied. Call it where sl_tail_is_wanted(). */
void sl_outcome_show(struct sl_door_context *context, const struct sl_call_outcome *outcome);
/* The same for one that sl_call_outcome_take() has taken, after sl_tail_interest() said SL_TAIL_EACH. */
void sl_outcome_show_plain(const struct sl_door_context *context, enum sl_transport transport,
                           struct sluice_call *call);

#endif
