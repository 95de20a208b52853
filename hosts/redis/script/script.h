/* The Lua form of Sluice as text, for a front that loads it by itself: the .lua files of hosts/redis/script, joined by
 * tools/script when the program is built. */
#ifndef SL_REDIS_SCRIPT_H
#define SL_REDIS_SCRIPT_H

#include <stddef.h>

/* A Functions library `sluice`, for FUNCTION LOAD REPLACE; the functions are sluice_check, sluice_peek and so on.
 * Bytes, and how many; a NUL follows, which is not counted. */
extern const char sl_script_library[];
extern const size_t sl_script_library_bytes;

/* The same for SCRIPT LOAD and EVALSHA, where the first argument is the command's word. */
extern const char sl_script_eval[];
extern const size_t sl_script_eval_bytes;

/* The latter for calls that set the instant (AT), which the one above refuses: to whoever calls that himself. */
extern const char sl_script_eval_client_time[];
extern const size_t sl_script_eval_client_time_bytes;

/* The SHA1 of a script in lower-case hex digits, by which EVALSHA calls it. Computes it, some 100 us: keep it. Where
 * libcrypto has no SHA1 it is the name of no script: 40 zeros. */
void sl_script_sha1(const char *text, size_t bytes, char hex[41]);

#endif
