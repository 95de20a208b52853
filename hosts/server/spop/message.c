/* The arguments of a message, as attributes: texts that stay until the batch is answered. */
#include "hosts/server/spop/spop.h"

struct sluice_attribute *sl_spop_arguments(struct sl_spop_worker *worker, struct sluice_bytes *rest, uint32_t count,
                                           uint32_t *found) {
	struct sluice_attribute *first = worker->arguments + worker->argument_count;
	*found = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct sl_spop_value value;
		struct sluice_bytes name;
		uint32_t at = worker->argument_count + *found;
		if (!sl_spop_take_text(rest, &name) || !sl_spop_take_value(rest, &value))
			return NULL;
		struct sluice_bytes text = sl_spop_text(&value, worker->texts[at]);
		if (text.data == NULL)
			continue;
		worker->arguments[at] = (struct sluice_attribute){name, text};
		(*found)++;
	}
	worker->argument_count += *found;
	return first;
}

struct sluice_bytes sl_spop_argument(const struct sluice_attribute *arguments, uint32_t count, const char *name,
                                     bool *twice) {
	struct sluice_bytes value = {NULL, 0};
	for (uint32_t i = 0; i < count; i++) {
		if (!sl_bytes_equal_nocase(arguments[i].name, name))
			continue;
		if (value.data == NULL)
			value = arguments[i].value;
		else if (twice != NULL)
			*twice = true;
	}
	return value;
}
