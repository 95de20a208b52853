/* What the two processes of an upgrade say to each other, over a channel that keeps messages apart. Each checks what
 * the other says: it may be of another version.
 *
 *   goes -> comes   SL_TAKEOVER_HEAD, a line for each listening socket, and the sockets
 *   comes -> goes   SL_TAKEOVER_READY
 *   goes -> comes   SL_TAKEOVER_MAIN, then parcels (net/parcel.h), then the end of the channel */
#ifndef SL_TAKEOVER_H
#define SL_TAKEOVER_H

#include "hosts/server/lifecycle/inside.h"

#define SL_TAKEOVER_VARIABLE "SLUICE_UPGRADE_CHANNEL" /* of the environment: the descriptor of the channel */
/* What the policy of the one that goes had, which that of the one that comes must not lack by mistake: "limits",
 * "users" and "rules", with commas between; and "unready" where it still waited for nodes. One of another version may
 * not say. */
#define SL_TAKEOVER_HAD "SLUICE_UPGRADE_HAD"
#define SL_TAKEOVER_HEAD "sluice upgrade 1\n"
#define SL_TAKEOVER_READY "ready"
#define SL_TAKEOVER_MAIN "main"

enum { SL_TAKEOVER_TEXT_MAX = 64 + SL_LISTENS_MAX * (SL_ENTRANCE_KEY_MAX + 1) };

/* Receives the listening sockets, where sl_upgrade_begin() started this process. False after a line in the log. */
bool sl_takeover_begin(struct sl_server *server);
/* Tells the other process that this one serves, and takes its connections over. */
void sl_takeover_ready(struct sl_server *server);

#endif
