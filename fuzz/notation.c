/* Any bytes as a limit: refused with a column inside the text and a line of plain words, the limit untouched; or
 * accepted, and then the canonical text is shorter than its bound, means the same limit, and prints as itself. */
#include "algo/rule.h"
#include "base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(const struct sluice_limit *limit, const struct sluice_error *error, size_t size) {
	static const struct sluice_limit untouched;
	SL_ASSERT(memcmp(limit, &untouched, sizeof untouched) == 0);
	SL_ASSERT(error->column >= 1 && error->column <= size + 1);
	size_t len = strnlen(error->text, sizeof error->text);
	SL_ASSERT(len > 0 && len < sizeof error->text);
	for (size_t i = 0; i < len; i++)
		SL_ASSERT(error->text[i] >= 0x20 && error->text[i] < 0x7f);
}

static void check_limit(const struct sluice_limit *limit) {
	char text[SLUICE_LIMIT_TEXT_MAX], again[SLUICE_LIMIT_TEXT_MAX];
	struct sluice_limit read;
	struct sluice_error error;
	SL_ASSERT(sl_rule_is_valid(limit));
	size_t len = sluice_limit_print(limit, text);
	SL_ASSERT(len < sizeof text && text[len] == '\0' && strlen(text) == len);
	SL_ASSERT(sluice_limit_parse(&read, sl_slice(text, len), &error) == SLUICE_OK);
	SL_ASSERT(memcmp(&read, limit, sizeof read) == 0);
	SL_ASSERT(sluice_limit_print(&read, again) == len && memcmp(text, again, len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct sluice_limit limit;
	struct sluice_error error = {0};
	memset(&limit, 0, sizeof limit);
	sluice_err err = sluice_limit_parse(&limit, sl_slice(data, size), &error);
	if (err == SLUICE_OK)
		check_limit(&limit);
	else
		check_refusal(&limit, &error, size);
	return 0;
}
