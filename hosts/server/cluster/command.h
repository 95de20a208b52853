/* Commands as nodes read them: see command.c. */
#ifndef SL_COMMAND_H
#define SL_COMMAND_H

#include "hosts/server/cluster/nodes_inside.h"

/* An ask, by the module or, where `sha` is not NULL, by the script, with EACH for EXACT unless `exact`: how many bytes
 * it takes at most; and writes it, and returns its end. */
size_t sl_command_ask_bytes(const struct sl_node_ask *ask);
char *sl_command_write_ask(char *at, const struct sl_node_ask *ask, const char *sha, bool exact);
/* The script for EVALSHA, for calls with AT where they are `dated`, and its SHA-1 in hex. About 100 us. */
struct sl_node_script sl_command_script(bool dated);

#endif
