/* The thread that reads the policy. */
#ifndef SL_READER_H
#define SL_READER_H

#include "hosts/server/lifecycle/inside.h"

/* Starts the thread; false after a line in the log. */
bool sl_reader_start(struct sl_server *server);
/* Ends it, where it was started. False after a line in the log: it waits for a file, and what it knows must be left to
 * it. At most a second. */
bool sl_reader_end(struct sl_server *server);
/* The three of struct sl_shared, from any thread. */
void *sl_reader_ask(void *server, bool waits);
bool sl_reader_look(void *server, void *ticket, struct sl_reload *outcome);
void sl_reader_leave(void *server, void *ticket);

#endif
