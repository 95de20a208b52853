/* Limits in the notation, and those that were read lately: most traffic brings the same few along, and parsing one
 * costs as much as deciding it. The table is direct-mapped; a text that takes another's line is parsed again. */
#include "base/recall.h"
#include "hosts/redis/request.h"

enum { LINES_SHIFT = 8, LINES = 1 << LINES_SHIFT, TEXT_MAX = 87 };

struct line {
	uint8_t len;
	char text[TEXT_MAX];
	struct sluice_limit limit;
};

static struct line lines[LINES];

bool slr_limit_read(struct sluice_limit *limit, struct sluice_bytes text, struct sluice_error *error) {
	struct line *line;
	if (text.len == 0 || text.len > TEXT_MAX)
		return sluice_limit_parse(limit, text, error) == SLUICE_OK;
	line = &lines[sl_recall_hash(text) >> (64 - LINES_SHIFT)];
	if (!sl_recall_is(line->text, line->len, text)) {
		if (sluice_limit_parse(limit, text, error) != SLUICE_OK)
			return false;
		line->limit = *limit;
		line->len = (uint8_t)text.len;
		memcpy(line->text, text.data, text.len);
		return true;
	}
	*limit = line->limit;
	return true;
}
