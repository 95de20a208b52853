/* The attributes of ADMIT and EXPLAIN: pairs of a name and a value, at the end of the command. */
#include "base/assert.h"
#include "policy/attribute.h"
#include "proto/command.h"

static bool name_fits(struct sl_command *c, struct sluice_bytes name) {
	return (name.len >= 1 && name.len <= SLUICE_NAME_BYTES_MAX) ||
	       sl_command_fail(c, "the attribute name %s has %zu bytes: expected 1 to %d", sl_shown(name).text, name.len,
	                       SLUICE_NAME_BYTES_MAX);
}

bool sl_command_read_attributes(struct sl_command *c, uint32_t index, struct sluice_attribute *attributes,
                                uint32_t *count) {
	uint32_t n = 0;
	if (index == c->count)
		return sl_command_fail(c, SL_NO_ATTRIBUTE);
	if ((c->count - index) % 2 != 0)
		return sl_command_fail(c, "attribute %s has no value: expected pairs of a name and a value",
		                       sl_shown(c->args[c->count - 1]).text);
	for (uint32_t i = index; i < c->count; i += 2, n++) {
		if (!name_fits(c, c->args[i]))
			return false;
		attributes[n] = (struct sluice_attribute){c->args[i], c->args[i + 1]};
	}
	*count = n;
	return true;
}

bool sl_command_fail_match(struct sl_command *c, const struct sluice_attribute *attributes, uint32_t count) {
	size_t twice = sl_attribute_repeated(attributes, count);
	SL_ASSERT(twice < count);
	return sl_command_fail(c, "the attribute %s is given twice: expected each once",
	                       sl_shown(attributes[twice].name).text);
}
