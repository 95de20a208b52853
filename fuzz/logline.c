/* Any bytes as a line of a log, read in every format: refused with words; or a request, whose parts lie in the line or
 * in the scratch memory, and within the bounds that its header promises. */
#include "base/assert.h"
#include "proto/logline.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sl_logline_scratch scratch;

static void check_slice(struct sluice_bytes part, const char *line, size_t len) {
	const char *p = part.data;
	if (p == NULL || part.len == 0)
		return;
	bool in_line = p >= line && p + part.len <= line + len;
	bool in_scratch = p >= scratch.bytes && p + part.len <= scratch.bytes + scratch.used;
	SL_ASSERT(in_line || in_scratch);
}

static void check_line(const struct sl_logline *read, const char *line, size_t len) {
	const struct sluice_bytes parts[] = {read->key, read->ip, read->method, read->path, read->host, read->user,
	                                     read->status};
	SL_ASSERT(read->format != SL_LOG_AUTO);
	SL_ASSERT(read->method.len <= 32);
	if (read->format == SL_LOG_OPS)
		SL_ASSERT(read->key.len >= 1);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		check_slice(parts[i], line, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const enum sl_log_format formats[] = {SL_LOG_AUTO, SL_LOG_COMMON, SL_LOG_COMBINED, SL_LOG_JSON, SL_LOG_OPS};
	char *line = malloc(size + 1); /* of just this size, so that reading past it is seen */
	if (line == NULL)
		return 0;
	memcpy(line, data, size);
	line = realloc(line, size != 0 ? size : 1);
	size = size <= SL_LOGLINE_BYTES_MAX ? size : SL_LOGLINE_BYTES_MAX;
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		struct sl_logline read;
		struct sluice_error error = {0};
		if (sl_logline_parse(formats[i], sl_slice(line, size), &scratch, &read, &error))
			check_line(&read, line, size);
		else
			SL_ASSERT(error.text[0] != '\0' && strnlen(error.text, sizeof error.text) < sizeof error.text &&
			          error.column <= size + 1);
	}
	free(line);
	return 0;
}
