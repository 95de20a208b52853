/* What signals ask for. */
#ifndef SL_SIGNALS_H
#define SL_SIGNALS_H

#include "hosts/server/lifecycle/inside.h"

/* From here on a signal waits until it is heard; between the program's start and this it has its default effect. */
void sl_signals_hold(void);
void sl_signals_start(struct sl_server *server);
/* From here to the end a further signal changes nothing: the process is ending, with status 0. */
void sl_signals_end(struct sl_server *server);

#endif
