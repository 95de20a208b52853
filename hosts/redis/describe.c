#include "hosts/redis/turn.h"
void slr_describe(struct RedisModuleCtx *context) {
	(void)context;
}
