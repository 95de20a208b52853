/* What the files of this folder share. */
#ifndef SL_DECIDE_WITHIN_H
#define SL_DECIDE_WITHIN_H

#include "decide/decide.h"

/* Decides a cost as a cell stands, with its reservations and penalties; charges nothing. (look.c) */
void sl_cell_judge(struct sl_deciding *d, struct sl_cell *cell, uint64_t cost, struct sluice_decision *decision);

/* Loads a cell again and brings its figures up to what is there now; what was decided, and the delay, stay. (look.c) */
void sl_cell_look(struct sl_deciding *d, struct sl_cell *cell);

/* The wait until `more` units than remain by c->decision are left; at most what is not left is asked for. For a
 * stranger: c->who becomes nobody. SLUICE_NEVER: never. (look.c) */
sluice_ns sl_cell_wait(struct sl_deciding *d, struct sl_cell *cell, uint64_t more);

/* Tells what a cell holds that was peeked at. (look.c) */
void sl_cell_inspect(struct sl_deciding *d, struct sl_cell *cell, struct sluice_inspection *told);

/* What a decided call leaves with limits that have terms: denials are counted (the counter's charge, the strikes).
 * Where there is no room for it a denial stands as it is. (denials.c) */
void sl_note_denials(struct sl_deciding *d, bool allowed);

#endif
