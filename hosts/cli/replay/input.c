/* See input.h. Raw bytes are read, decoded where they are compressed, and cut into lines, each in its own buffer. */
#include "hosts/cli/replay/input.h"

#include <errno.h>
#include <fcntl.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum kind { PLAIN, GZIP, XZ };

struct sl_input {
	int fd;
	enum kind kind;
	bool raw_ended;   /* the file has no more bytes */
	bool member_open; /* a compressed member has begun and not ended */
	bool text_ended;  /* no more text will come */
	uint64_t bytes_read;
	size_t raw_at, raw_len;
	size_t at, len, searched; /* text not yet handed out: text[at..len); no newline in text[at..searched) */
	z_stream zlib;
	lzma_stream lzma;
	unsigned char raw[SL_INPUT_RAW_BYTES];
	char text[SL_INPUT_BYTES];
};

static int fail(struct sluice_error *error, const char *text) {
	snprintf(error->text, sizeof error->text, "%s", text);
	return -1;
}

/* Reads bytes of the file. Returns how many, -1 with `error`; raw_ended says that none came. */
static ssize_t read_some(struct sl_input *input, void *to, size_t room, struct sluice_error *error) {
	ssize_t got;
	do
		got = read(input->fd, to, room);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return fail(error, strerror(errno));
	input->raw_ended = got == 0;
	input->bytes_read += (uint64_t)got;
	return got;
}

/* Reads raw bytes after those that are left. Returns -1 with `error`, else 0. */
static int read_raw(struct sl_input *input, struct sluice_error *error) {
	memmove(input->raw, input->raw + input->raw_at, input->raw_len - input->raw_at);
	input->raw_len -= input->raw_at;
	input->raw_at = 0;
	ssize_t got = read_some(input, input->raw + input->raw_len, sizeof input->raw - input->raw_len, error);
	input->raw_len += got > 0 ? (size_t)got : 0;
	return got < 0 ? -1 : 0;
}

/* ---- decoders: each fills `to` with at most `room` bytes; 0 is the end, -1 a failure ---------------------------- */

/* What was read to tell what the stream is; then straight into the text, with no copy between. */
static ssize_t fill_plain(struct sl_input *input, char *to, size_t room, struct sluice_error *error) {
	size_t n = input->raw_len - input->raw_at;
	if (n == 0)
		return input->raw_ended ? 0 : read_some(input, to, room, error);
	n = n < room ? n : room;
	memcpy(to, input->raw + input->raw_at, n);
	input->raw_at += n;
	return (ssize_t)n;
}

/* Between members of a .gz: the next one begins, or nothing but zeros follows (tapes and block devices pad). Returns
 * 1 for a member, 0 for the end, -1 for anything else. */
static int next_gzip_member(struct sl_input *input, struct sluice_error *error) {
	for (;;) {
		while (input->raw_at < input->raw_len && input->raw[input->raw_at] == 0)
			input->raw_at++;
		if (input->raw_at < input->raw_len) {
			if (input->raw[input->raw_at] != 0x1f)
				return fail(error, "the bytes after the end of the .gz are not a .gz: is it damaged?");
			inflateReset(&input->zlib);
			input->member_open = true;
			return 1;
		}
		if (input->raw_ended)
			return 0;
		if (read_raw(input, error) != 0)
			return -1;
	}
}

static ssize_t fill_gzip(struct sl_input *input, char *to, size_t room, struct sluice_error *error) {
	z_stream *z = &input->zlib;
	z->next_out = (unsigned char *)to;
	z->avail_out = (unsigned)room;
	while (z->avail_out == room) {
		int member = input->member_open ? 1 : next_gzip_member(input, error);
		if (member <= 0)
			return member;
		if (input->raw_at == input->raw_len && read_raw(input, error) != 0)
			return -1;
		if (input->raw_at == input->raw_len)
			return fail(error, "the .gz is cut short: its end is missing");
		z->next_in = input->raw + input->raw_at;
		z->avail_in = (unsigned)(input->raw_len - input->raw_at);
		int got = inflate(z, Z_NO_FLUSH);
		input->raw_at = input->raw_len - z->avail_in;
		if (got == Z_MEM_ERROR)
			return fail(error, "no memory to decompress the .gz");
		if (got != Z_OK && got != Z_STREAM_END && got != Z_BUF_ERROR)
			return fail(error, "the .gz is damaged: its bytes do not decompress");
		input->member_open = got != Z_STREAM_END;
	}
	return (ssize_t)(room - z->avail_out);
}

static int fail_xz(struct sluice_error *error, lzma_ret got) {
	switch (got) {
	case LZMA_BUF_ERROR:
		return fail(error, "the .xz is cut short: its end is missing");
	case LZMA_MEMLIMIT_ERROR:
		return fail(error, "the .xz wants more than 256 MiB to be decompressed; xz -dc can pipe it to '-'");
	case LZMA_MEM_ERROR:
		return fail(error, "no memory to decompress the .xz");
	case LZMA_OPTIONS_ERROR:
		return fail(error, "the .xz uses filters that are not known");
	default:
		return fail(error, "the .xz is damaged: its bytes do not decompress");
	}
}

static ssize_t fill_xz(struct sl_input *input, char *to, size_t room, struct sluice_error *error) {
	lzma_stream *x = &input->lzma;
	x->next_out = (unsigned char *)to;
	x->avail_out = room;
	while (x->avail_out == room && input->member_open) {
		if (input->raw_at == input->raw_len && !input->raw_ended && read_raw(input, error) != 0)
			return -1;
		x->next_in = input->raw + input->raw_at;
		x->avail_in = input->raw_len - input->raw_at;
		lzma_ret got = lzma_code(x, input->raw_ended ? LZMA_FINISH : LZMA_RUN);
		input->raw_at = input->raw_len - x->avail_in;
		if (got == LZMA_STREAM_END)
			input->member_open = false;
		else if (got != LZMA_OK)
			return fail_xz(error, got);
	}
	return (ssize_t)(room - x->avail_out);
}

static ssize_t fill(struct sl_input *input, char *to, size_t room, struct sluice_error *error) {
	return input->kind == GZIP ? fill_gzip(input, to, room, error)
	     : input->kind == XZ   ? fill_xz(input, to, room, error)
	                           : fill_plain(input, to, room, error);
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

/* A stream that is shorter than its magic but begins like it counts as it: it is then cut short, not plain. */
static bool begins(const struct sl_input *input, const char *magic, size_t len) {
	size_t n = input->raw_len < len ? input->raw_len : len;
	return n >= 2 && memcmp(input->raw, magic, n) == 0;
}

static int begin_decoder(struct sl_input *input, struct sluice_error *error) {
	if (begins(input, "\x1f\x8b", 2)) {
		input->kind = GZIP;
		input->member_open = inflateInit2(&input->zlib, 15 + 16) == Z_OK; /* 16: gzip alone, not zlib's own wrapper */
	} else if (begins(input, "\xfd"
	                         "7zXZ\0",
	                  6)) {
		input->kind = XZ;
		input->member_open = lzma_stream_decoder(&input->lzma, SL_INPUT_XZ_MEMORY, LZMA_CONCATENATED) == LZMA_OK;
	} else if (begins(input, "\x28\xb5\x2f\xfd", 4) || begins(input, "BZh", 3)) {
		return fail(error, "compressed with zstd or bzip2, which is not read here; "
		                   "pipe it: zstd -dc FILE | sluice replay -");
	} else {
		/* a byte order mark is no part of the first line */
		input->raw_at = input->raw_len >= 3 && memcmp(input->raw, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
		return 0;
	}
	return input->member_open ? 0 : fail(error, "no memory to decompress it");
}

static int begin(struct sl_input *input, struct sluice_error *error) {
	struct stat status;
	if (fstat(input->fd, &status) == 0 && S_ISDIR(status.st_mode))
		return fail(error, strerror(EISDIR));
	while (input->raw_len < 6 && !input->raw_ended) {
		if (read_raw(input, error) != 0)
			return -1;
	}
	return begin_decoder(input, error);
}

struct sl_input *sl_input_open(const char *path, struct sluice_error *error) {
	struct sl_input *input = malloc(sizeof *input);
	error->column = 0;
	if (input == NULL) {
		fail(error, "no memory to read it");
		return NULL;
	}
	memset(input, 0, offsetof(struct sl_input, raw));
	input->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	if (input->fd < 0)
		fail(error, strerror(errno));
	if (input->fd < 0 || begin(input, error) != 0) {
		sl_input_close(input);
		return NULL;
	}
	return input;
}

void sl_input_close(struct sl_input *input) {
	if (input->fd > STDIN_FILENO)
		close(input->fd);
	if (input->kind == GZIP)
		inflateEnd(&input->zlib);
	if (input->kind == XZ)
		lzma_end(&input->lzma);
	free(input);
}

uint64_t sl_input_bytes_read(const struct sl_input *input) {
	return input->bytes_read;
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

/* Decodes more text after what is there. False at a failure; text_ended says that none came. */
static bool more_text(struct sl_input *input, struct sluice_error *error) {
	if (input->at == input->len || input->len == sizeof input->text) {
		memmove(input->text, input->text + input->at, input->len - input->at);
		input->len -= input->at;
		input->searched -= input->at;
		input->at = 0;
	}
	ssize_t got = fill(input, input->text + input->len, sizeof input->text - input->len, error);
	input->text_ended = got == 0;
	input->len += got > 0 ? (size_t)got : 0;
	return got >= 0;
}

/* Where the line at text[at] ends: a newline, or the end of everything. NULL when more text is needed. */
static char *find_end(struct sl_input *input) {
	char *end = memchr(input->text + input->searched, '\n', input->len - input->searched);
	input->searched = end != NULL ? (size_t)(end - input->text) : input->len;
	return end != NULL ? end : input->text_ended && input->len > input->at ? input->text + input->len : NULL;
}

static enum sl_input_verdict hand_out(struct sl_input *input, char *end, struct sluice_bytes *line) {
	const char *from = input->text + input->at;
	size_t len = (size_t)(end - from);
	input->at += len + (end < input->text + input->len); /* past the newline, if there is one */
	input->searched = input->at;
	if (len > 0 && from[len - 1] == '\r')
		len--;
	*line = sl_slice(from, len);
	return len > SL_INPUT_LINE_MAX ? SL_INPUT_TOO_LONG : SL_INPUT_LINE;
}

enum sl_input_verdict sl_input_next(struct sl_input *input, struct sluice_bytes *line, struct sluice_error *error) {
	bool too_long = false;
	for (;;) {
		char *end = find_end(input);
		if (end != NULL) {
			enum sl_input_verdict verdict = hand_out(input, end, line);
			return too_long ? SL_INPUT_TOO_LONG : verdict;
		}
		if (input->text_ended)
			return too_long ? SL_INPUT_TOO_LONG : SL_INPUT_END;
		if (too_long || input->len - input->at > SL_INPUT_LINE_MAX + 1) { /* + 1: the CR of a line that just fits */
			too_long = true;
			input->at = input->searched = input->len; /* forget what there is of it */
		}
		if (!more_text(input, error))
			return SL_INPUT_FAILED;
	}
}
