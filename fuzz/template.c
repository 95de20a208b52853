/* Any bytes as the body of denials, of any type. What is taken is put out within its promised room, with the worst of
 * values; and JSON stays JSON. */
#include "base/assert.h"
#include "proto/json.h"
#include "proto/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static char memory[SL_TEMPLATE_ROOM(SL_DENIED_BYTES_MAX)], worst[SL_TEMPLATE_TEXT_MAX];
	const struct sl_template_values values = {
		.limit = sl_slice(worst, sizeof worst),
		.request_id = sl_str("\"<\\{{limit}}"),
		.quota = UINT32_MAX,
		.retry_after_ns = SLUICE_NEVER,
	};
	struct sluice_problem problem = {.line = 0};
	if (size == 0)
		return 0;
	memset(worst, 1, sizeof worst); /* escaped, six bytes each; a NUL jansson reads in no name of a member */
	const enum sl_denied_type type = (enum sl_denied_type)(data[0] % 4);
	const struct sluice_bytes text = sl_slice(data + 1, size - 1);
	if (!sl_template_check(text, type, &problem)) {
		SL_ASSERT(problem.line >= 1 && problem.column >= 1 && problem.text[0] != '\0');
		return 0;
	}
	struct sl_out out = sl_out_to(memory, SL_TEMPLATE_ROOM(text.len));
	sl_template_put(&out, text, type, &values);
	SL_ASSERT(!out.overflow);
	if (type == SL_DENIED_JSON || type == SL_DENIED_PROBLEM) {
		json_error_t error;
		json_t *root = json_loadb(memory, sl_out_len(&out), JSON_ALLOW_NUL, &error);
		SL_ASSERT(root != NULL);
		json_decref(root);
	}
	return 0;
}
