/* The messages of Envoy's rate limit service (rls.h) as JSON, by proto3's mapping
 * (protobuf.dev/programming-guides/json): what envoyproxy/ratelimit takes and gives at POST /json.
 *
 *   {"domain": "shop", "descriptors": [{"entries": [{"key": "path", "value": "/"}], "hitsAddend": 2}], "hitsAddend": 1}
 *   {"overallCode": "OK", "statuses": [{"code": "OK", "currentLimit": {"requestsPerUnit": 5, "unit": "MINUTE"}, ..}]}
 */
#ifndef SL_RLS_JSON_H
#define SL_RLS_JSON_H

#include "proto/json.h"
#include "proto/rls.h"

enum { SL_RLS_JSON_ERROR_BYTES = 256 };

/* Reads a request. A member is named as in JSON or as in the message (hitsAddend, hits_addend), once; null is as if it
 * were not there; numbers may be strings; a unit is a name or a number. MALFORMED: `error` (NUL-ended) says what is
 * wrong. Slices are borrowed from `root`. O(members). */
enum sl_rls_read sl_rls_json_read(struct sl_rls_request *request, const json_t *root,
                                  char error[SL_RLS_JSON_ERROR_BYTES]);

/* The most bytes that a response takes. */
size_t sl_rls_json_room(const struct sl_rls_response *response);
/* Prints a response: members that are 0 or empty are left out. */
void sl_rls_json_put(struct sl_out *out, const struct sl_rls_response *response);

#endif
