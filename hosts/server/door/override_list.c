/* See override_list.h. */
#include "hosts/server/door/override_list.h"

#include <stdlib.h>
#include <string.h>

/* While the list grows its texts move: their addresses are made at the end. */
static bool make_room(struct sl_override_list *l, size_t more) {
	if (l->count == l->room) {
		size_t room = l->room * 2 + 64;
		struct sl_override_listed *list = realloc(l->list, room * sizeof *list);
		if (list == NULL)
			return false;
		l->list = list;
		l->room = room;
	}
	if (l->bytes - l->used < more) {
		size_t bytes = l->bytes * 2 + more + 4096;
		char *texts = realloc(l->texts, bytes);
		if (texts == NULL)
			return false;
		l->texts = texts;
		l->bytes = bytes;
	}
	return true;
}

static struct sluice_bytes keep(struct sl_override_list *l, struct sluice_bytes text) {
	if (text.len != 0)
		memcpy(l->texts + l->used, text.data, text.len);
	l->used += text.len;
	return sl_slice(NULL, text.len);
}

void sl_override_list_add(struct sl_override_list *l, struct sluice_bytes name, struct sluice_bytes key,
                          struct sluice_bytes limit, int64_t ms_left) {
	if (l->failed || !make_room(l, name.len + key.len + limit.len)) {
		l->failed = true;
		return;
	}
	struct sl_override_listed *one = &l->list[l->count++];
	one->name = keep(l, name);
	one->key = keep(l, key);
	one->limit = keep(l, limit);
	one->ms_left = ms_left;
}

/* The texts stand after each other. */
void sl_override_list_end(struct sl_override_list *l) {
	const char *at = l->texts;
	for (size_t i = 0; i < l->count; i++) {
		struct sluice_bytes *const texts[] = {&l->list[i].name, &l->list[i].key, &l->list[i].limit};
		for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
			texts[k]->data = at;
			at += texts[k]->len;
		}
	}
}

void sl_override_list_free(struct sl_override_list *list) {
	free(list->list);
	free(list->texts);
}
