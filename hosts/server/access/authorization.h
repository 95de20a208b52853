/* What an Authorization header says of a caller, the same at HTTP and gRPC. */
#ifndef SL_AUTHORIZATION_H
#define SL_AUTHORIZATION_H

#include "hosts/server/access/access.h"

/* Verifies "Bearer TOKEN", or "Basic" with base64 of name:secret (RFC 7617; without a name the secret is a token).
 * False for a value that is neither. `address` is the caller's, as sl_access_login() takes it, NULL: none. Costs what
 * logging in does. */
SLUICE_MUST_USE bool sl_authorization_verify(struct sl_access *access, const struct sluice_policy *policy,
                                             struct sluice_bytes value, const char *address, sluice_ns now,
                                             struct sl_login *login);

#endif
