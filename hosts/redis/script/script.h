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

/* How both begin to say what they were made for, once; behind it stand the version, ", false, " where callers may not
 * set the instant (AT), and more. */
#define SL_SCRIPT_SETTINGS "local VERSION, CLIENT_TIME, KEPT = '"

/* The SHA1 of sl_script_eval in lower-case hex digits, by which EVALSHA calls it. Computes it, some 100 us: keep it. */
void sl_script_sha1(char hex[41]);

#endif
