/* What the doors print of a limit's conditions and key. */
#ifndef SL_DESCRIBE_H
#define SL_DESCRIBE_H

#include "policy/ruleset.h"
#include "policy/tree.h"

/* The conditions as one line of JSON, `{"method":"POST","path":["/a","/b*"]}`, as the file has them; "{}" for no node.
 * What is no text is left out. Owned by the pool; NULL without memory. */
const char *sl_describe_when(struct sl_pool *pool, const struct sl_yaml *when);

/* The key, `user | ip, path`. Owned by the policy; NULL without memory. */
const char *sl_describe_key(struct sluice_policy *policy, const struct sl_ruleset_limit *limit);

#endif
