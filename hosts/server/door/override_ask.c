/* See override_ask.h. One malloc: ask | limits | name, key. */
#include "hosts/server/door/override_ask.h"

#include <stdlib.h>

struct sl_override_ask *sl_override_ask_new(const struct sl_override_ask *asked) {
	size_t name = asked->name != NULL ? strlen(asked->name) + 1 : 0;
	struct sl_override_ask *ask =
		malloc(sizeof *ask + asked->count * sizeof asked->limits[0] + name + asked->key.len);
	if (ask == NULL)
		return NULL;
	*ask = *asked;
	struct sluice_limit *limits = (struct sluice_limit *)(ask + 1);
	char *texts = (char *)(limits + asked->count);
	for (uint32_t i = 0; i < asked->count; i++)
		limits[i] = asked->limits[i];
	ask->limits = limits;
	if (name != 0)
		ask->name = memcpy(texts, asked->name, name);
	if (asked->key.len != 0)
		memcpy(texts + name, asked->key.data, asked->key.len);
	ask->key.data = texts + name;
	ask->list = (struct sl_override_list){.list = NULL};
	return ask;
}

void sl_override_ask_free(struct sl_override_ask *ask) {
	if (ask != NULL)
		sl_override_list_free(&ask->list);
	free(ask);
}
