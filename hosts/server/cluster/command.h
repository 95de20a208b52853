/* Commands as nodes read them: see command.c. */
#ifndef SL_COMMAND_H
#define SL_COMMAND_H

#include "hosts/server/cluster/nodes_inside.h"

/* What fronts may say to a module (hosts/redis/request.h). */
enum { SL_GRAMMAR_EXACT = 2, SL_GRAMMAR_PART = 3 }; /* the first that knows EXACT; UPTO of ACQUIRE and RESERVE */
/* An ask, by the module of that grammar, with EACH for an EXACT and without an UPTO that it does not know, or, where
 * `sha` is not NULL, by the script: how many bytes it takes at most; and writes it, and returns its end. */
size_t sl_command_ask_bytes(const struct sl_node_ask *ask);
char *sl_command_write_ask(char *at, const struct sl_node_ask *ask, const char *sha, uint8_t grammar);
enum { SL_COMMAND_ONE_NUMBERS = 8 };
/* Reads what a script answers to an ask that has `one`: the numbers of EXACT. False: it is no such answer. */
bool sl_command_read_one(struct sluice_bytes text, int64_t numbers[static SL_COMMAND_ONE_NUMBERS]);
/* The script for EVALSHA, for calls with AT where they are `dated`, and its SHA-1 in hex. About 100 us. */
struct sl_node_script sl_command_script(bool dated);

#endif
