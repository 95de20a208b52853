/* Lines of a file or of standard input, plain, .gz or .xz, in bounded memory.
 *
 * What a stream is, its first bytes say, not its name: so a pipe may be compressed too, and a plain file may be called
 * .gz. Compressed members that follow one another are one stream, as logs that were appended to are. A stream that ends
 * inside a member is an error: whoever replays half a log must know it.
 *
 * Bounds: SL_INPUT_BYTES of text and SL_INPUT_RAW_BYTES of what was read, 64 KiB of zlib, at most SL_INPUT_XZ_MEMORY of
 * liblzma, whatever the stream claims. */
#ifndef SL_CLI_INPUT_H
#define SL_CLI_INPUT_H

#include "base/bytes.h"

enum {
	SL_INPUT_LINE_MAX = 64 * 1024,
	SL_INPUT_BYTES = 256 * 1024,
	SL_INPUT_RAW_BYTES = 64 * 1024,
	SL_INPUT_XZ_MEMORY = 256 * 1024 * 1024, /* xz -9 wants 65 MiB */
};

struct sl_input;

/* Opens a file by path; "-" is standard input. NULL with `error` filled: no such file, no permission, a folder, no
 * memory, a compression that is not known. Close it with sl_input_close(). */
struct sl_input *sl_input_open(const char *path, struct sluice_error *error);
void sl_input_close(struct sl_input *input);

enum sl_input_verdict {
	SL_INPUT_END = 0,
	SL_INPUT_LINE = 1,     /* `line` is one, without its newline and the CR before it; valid until the next call */
	SL_INPUT_TOO_LONG = 2, /* a line of more than SL_INPUT_LINE_MAX bytes was skipped */
	SL_INPUT_FAILED = -1,  /* `error` says why: it can't be read, is cut short, or is damaged */
};

/* The next line. A last line without a newline is one; an empty rest is none. */
enum sl_input_verdict sl_input_next(struct sl_input *input, struct sluice_bytes *line, struct sluice_error *error);

/* How many bytes were read from the file so far, compressed as they are. */
uint64_t sl_input_bytes_read(const struct sl_input *input);

#endif
