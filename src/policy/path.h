/* The path of a request, as policies compare and count it. */
#ifndef SL_PATH_H
#define SL_PATH_H

#include "base/bytes.h"

/* Writes the path of a request target (`/a/%7Eb//c/../d?q` gives `/a/~b/d`): without scheme, host, query and fragment;
 * percent-encoded unreserved characters (letters, digits, - . _ ~) decoded, once, and others in upper case (%2F);
 * repeated slashes joined; dot segments resolved, never above the root; case kept. What is no path ("*", "host:443") is
 * kept as it is. What it gives is what it gives of that again.
 *  target  of any length
 *  out     room for target.len + 1 bytes, but at most SLUICE_KEY_BYTES_MAX; may be target.data itself
 * Returns the length, at least 1. A path that is longer once resolved is cut at SLUICE_KEY_BYTES_MAX, or up to two
 * bytes before it where the cut would leave "." or "..", so that such requests share a counter instead of having none.
 * O(target.len), no allocation. */
size_t sl_path_normalise(struct sluice_bytes target, char *out);

#endif
