/* The listening sockets: which, and may they? */
#ifndef SL_ENTRANCES_H
#define SL_ENTRANCES_H

#include "hosts/server/lifecycle/inside.h"

/* Opens every address of the policy, or of the command line, taking sockets that were given first; `only_look` opens
 * none. False after a line in the log: an address in use, or one that other hosts reach without users. */
bool sl_entrances_open(struct sl_server *server, const struct sl_settings *settings, bool only_look);
/* Whether the open entrances may be served by these settings: no users, and one that other hosts reach, do not go
 * together. Else the name of the one that may not. Any thread. */
const char *sl_entrances_forbidden(const struct sl_server *server, const struct sl_settings *settings);
/* Has the open entrances answer as these settings say of them: forms, details, hosts. Any thread. */
void sl_entrances_refresh(struct sl_server *server, const struct sl_settings *settings);
/* Says on which addresses what is served, and of whom to beware. */
void sl_entrances_announce(const struct sl_server *server);
/* Ends listening. `leave`: another process goes on, so the files of unix sockets stay. Twice is no harm. */
void sl_entrances_close(struct sl_server *server, bool leave);
/* The sockets that systemd listens on for us become gifts. False after a line in the log. */
bool sl_entrances_take_given(struct sl_server *server);

#endif
