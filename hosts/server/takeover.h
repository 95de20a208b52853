/* What the two processes of an upgrade say to each other, over a channel that keeps messages apart. Each checks what
 * the other says: it may be of another version.
 *
 *   goes -> comes   SL_TAKEOVER_HEAD, a line for each listening socket, and the sockets
 *   comes -> goes   SL_TAKEOVER_READY
 *   goes -> comes   SL_TAKEOVER_MAIN, then parcels (net/parcel.h), then the end of the channel */
#ifndef SL_TAKEOVER_H
#define SL_TAKEOVER_H

#include "hosts/server/inside.h"

#define SL_TAKEOVER_VARIABLE "SLUICE_UPGRADE_CHANNEL" /* of the environment: the descriptor of the channel */
#define SL_TAKEOVER_HEAD "sluice upgrade 1\n"
#define SL_TAKEOVER_READY "ready"
#define SL_TAKEOVER_MAIN "main"

enum { SL_TAKEOVER_TEXT_MAX = 64 + SL_LISTENS_MAX * (SL_ENTRANCE_KEY_MAX + 1) };

#endif
