/* The world of the product: libuv's loop, and the system's clock, sockets and names. */
#ifndef SL_LOOP_UV_H
#define SL_LOOP_UV_H

#include "hosts/server/loop/loop.h"

#include <uv.h>

/* The world of a worker's loop, which lives as long. */
struct sl_loop sl_loop_uv(uv_loop_t *loop);

#endif
