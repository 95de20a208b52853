/* Looking the functions of the server up by their names. */
#include "hosts/redis/api.h"

#include <string.h>

#define DEFINE(name, result, arguments) result(*slr_##name) arguments;
SLR_API_NEEDED(DEFINE)
SLR_API_OPTIONAL(DEFINE)

typedef int (*lookup)(const char *, void *);

const char *slr_api_load(struct RedisModuleCtx *context, const char *name, int version) {
	void (*set_attributes)(struct RedisModuleCtx *, const char *, int, int) = NULL;
	lookup find;
	void *first = *(void **)(void *)context; /* the context begins with a pointer to the function that looks up */
	memcpy(&find, &first, sizeof find);
#define NEED(function, result, arguments)                                        \
	if (find("RedisModule_" #function, (void *)&slr_##function) != SLR_REDIS_OK) \
		return "RedisModule_" #function;
#define WANT(function, result, arguments)                                        \
	if (find("RedisModule_" #function, (void *)&slr_##function) != SLR_REDIS_OK) \
		slr_##function = NULL;
	SLR_API_NEEDED(NEED)
	SLR_API_OPTIONAL(WANT)
	if (find("RedisModule_SetModuleAttribs", (void *)&set_attributes) != SLR_REDIS_OK)
		return "RedisModule_SetModuleAttribs";
	set_attributes(context, name, version, SLR_API_VERSION);
	return NULL;
}
