/* Reading a dump: everything in it is checked before it is believed, and what is wrong is told with the byte at which
 * it stands. Memory is taken as the bytes come, never because a number says so. */
#include "hosts/cli/store/dump.h"
#include "hosts/cli/store/store_new.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { READ_STEP = 1024 * 1024 };

struct loader {
	const struct sl_verb *verb;
	int fd;
	uint64_t offset; /* of the next byte of the dump */
	uint64_t check;
	uint64_t total;
	sluice_ns latest; /* of all charges */
	sluice_ns taken;
	unsigned char *data; /* of the frame */
	size_t capacity;
	struct sl_store_new made;
};

__attribute__((format(printf, 3, 4))) static int refuse(const struct loader *loader, uint64_t at, const char *format,
                                                        ...) {
	char text[256];
	va_list values;
	va_start(values, format);
	vsnprintf(text, sizeof text, format, values);
	va_end(values);
	return sl_cli_fail(loader->verb, "the dump, byte %" PRIu64 ": %s", at, text);
}

/* Reads exactly `len` bytes of what began at `start`. SL_GO_ON, or SL_EXIT_FAILED after saying why. */
static int read_exactly(struct loader *loader, uint64_t start, void *to, size_t len) {
	unsigned char *at = to;
	while (len > 0) {
		ssize_t got = read(loader->fd, at, len);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return refuse(loader, loader->offset, "%s", strerror(errno));
		if (got == 0)
			return refuse(loader, start, "what begins here is cut short or damaged: the dump ends at byte %" PRIu64,
			              loader->offset);
		at += got;
		len -= (size_t)got;
		loader->offset += (uint64_t)got;
	}
	return SL_GO_ON;
}

static int read_words(struct loader *loader, uint64_t *words, size_t count) {
	int status = read_exactly(loader, loader->offset, words, 8 * count);
	for (size_t i = 0; i < count; i++)
		words[i] = le64toh(words[i]);
	return status;
}

/* ---- the header ------------------------------------------------------------------------------------------------ */

static int check_header(struct loader *loader, const uint64_t words[SL_DUMP_WORDS]) {
	uint64_t raw[SL_DUMP_AT_CHECK];
	if (words[SL_DUMP_AT_MAGIC] != SL_DUMP_MAGIC)
		return refuse(loader, 0, "this is not a dump of a store");
	if (words[SL_DUMP_AT_VERSION] != SL_DUMP_VERSION)
		return refuse(loader, 8 * SL_DUMP_AT_VERSION, "a dump of format %" PRIu64 "; this program reads format %d",
		              words[SL_DUMP_AT_VERSION], SL_DUMP_VERSION);
	for (int i = 0; i < SL_DUMP_AT_CHECK; i++)
		raw[i] = htole64(words[i]);
	loader->check = sl_dump_check(0, 0, 0, sl_slice(raw, sizeof raw));
	if (loader->check != words[SL_DUMP_AT_CHECK])
		return refuse(loader, 0, "the header is damaged");
	if (words[SL_DUMP_AT_ORDER] != SL_DUMP_ORDER)
		return refuse(loader, 8 * SL_DUMP_AT_ORDER, "it was written by a machine of another byte order");
	if (words[SL_DUMP_AT_ARENA] < SL_ARENA_VERSION_ALIKE || words[SL_DUMP_AT_ARENA] > SL_ARENA_VERSION)
		return refuse(loader, 8 * SL_DUMP_AT_ARENA,
		              "counters of store version %" PRIu64 "; this program keeps version %d", words[SL_DUMP_AT_ARENA],
		              SL_ARENA_VERSION);
	if (words[SL_DUMP_AT_TOP_BITS] > SL_HASH_TOP_BITS_MAX)
		return refuse(loader, 8 * SL_DUMP_AT_TOP_BITS, "no store keeps its hashes so");
	if (words[SL_DUMP_AT_BYTES] % SL_PAGE_BYTES != 0 || words[SL_DUMP_AT_BYTES] < SL_ARENA_BYTES_MIN ||
	    words[SL_DUMP_AT_BYTES] > SL_ARENA_BYTES_MAX || words[SL_DUMP_AT_PERCENT] < 1 ||
	    words[SL_DUMP_AT_PERCENT] > SL_BLOCKS_PERCENT_MAX)
		return refuse(loader, 8 * SL_DUMP_AT_BYTES, "no store has that size");
	return SL_GO_ON;
}

static int begin(struct loader *loader, const char *path, const struct sl_dump_options *options) {
	uint64_t words[SL_DUMP_WORDS];
	struct sl_header like = {.magic = 0};
	int status = read_words(loader, words, 1); /* a short file of another kind is none, not one that was cut short */
	if (status == SL_GO_ON && words[0] != SL_DUMP_MAGIC)
		status = check_header(loader, words);
	if (status == SL_GO_ON)
		status = read_words(loader, words + 1, SL_DUMP_WORDS - 1);
	if (status == SL_GO_ON)
		status = check_header(loader, words);
	if (status != SL_GO_ON)
		return status;
	like.hash_top_bits = (uint32_t)words[SL_DUMP_AT_TOP_BITS];
	like.secret[0] = words[SL_DUMP_AT_SECRET];
	like.secret[1] = words[SL_DUMP_AT_SECRET + 1];
	memcpy(like.anchors, &words[SL_DUMP_AT_ANCHORS], sizeof like.anchors);
	like.latest_charge = sl_latest_write(words[SL_DUMP_AT_LATEST], like.secret);
	like.formatted_ns = words[SL_DUMP_AT_FORMATTED];
	loader->taken = words[SL_DUMP_AT_TAKEN];
	return sl_store_new_begin(loader->verb, &loader->made, path,
	                          options->bytes != 0 ? options->bytes : words[SL_DUMP_AT_BYTES],
	                          options->percent != 0 ? options->percent : (uint32_t)words[SL_DUMP_AT_PERCENT], &like);
}

/* ---- frames ---------------------------------------------------------------------------------------------------- */

/* One record at `*at` of a frame of `bytes` that stands at `base` of the dump. */
static int load_record(struct loader *loader, uint64_t base, size_t bytes, size_t *at) {
	uint64_t words[SL_DUMP_RECORD_WORDS];
	size_t left = bytes - *at;
	if (left < sizeof words)
		return refuse(loader, base + *at, "a frame promises more counters than it has");
	memcpy(words, loader->data + *at, sizeof words);
	for (int i = 0; i < SL_DUMP_RECORD_WORDS; i++)
		words[i] = le64toh(words[i]);
	left -= sizeof words;
	if (words[4] > left || (words[4] + 7) / 8 * 8 > left)
		return refuse(loader, base + *at, "a counter of %" PRIu64 " bytes does not fit its frame", words[4]);
	struct sl_entry entry = {.hash = words[0], .tag = words[1], .state = {words[2], words[3]}, .block_bytes = words[4]};
	if (words[4] != 0)
		entry.block = loader->data + *at + sizeof words;
	loader->latest = words[2] > loader->latest ? words[2] : loader->latest;
	if (!sl_store_new_put(&loader->made, &entry, loader->taken))
		return refuse(loader, base + *at, "no counter, or one that was there before");
	*at += sizeof words + (words[4] + 7) / 8 * 8;
	return SL_GO_ON;
}

static int load_frame(struct loader *loader, uint64_t base, uint64_t bytes, uint64_t count) {
	size_t at = 0;
	for (uint64_t i = 0; i < count; i++) {
		int status = load_record(loader, base, bytes, &at);
		if (status != SL_GO_ON)
			return status;
	}
	loader->total += count;
	return at == bytes ? SL_GO_ON : refuse(loader, base + at, "a frame has more than its counters");
}

static int load_end(struct loader *loader, uint64_t base, uint64_t bytes) {
	uint64_t words[2];
	char more;
	if (bytes != SL_DUMP_END_BYTES)
		return refuse(loader, base, "a frame without counters that is no end");
	memcpy(words, loader->data, sizeof words);
	if (le64toh(words[0]) != loader->total)
		return refuse(loader, base, "%" PRIu64 " counters were dumped, and %" PRIu64 " are here", le64toh(words[0]),
		              loader->total);
	if (loader->latest > le64toh(words[1]))
		return refuse(loader, base, "a counter was charged later than the dump was taken");
	ssize_t got = read(loader->fd, &more, 1);
	return got <= 0 ? SL_GO_ON : refuse(loader, loader->offset, "bytes after the end of the dump");
}

/* Reads the bytes of the frame that began at `start`, taking memory for them as they come. */
static int read_body(struct loader *loader, uint64_t start, uint64_t bytes) {
	for (size_t len = 0; len < bytes;) {
		size_t step = bytes - len < READ_STEP ? (size_t)(bytes - len) : READ_STEP;
		if (loader->capacity < len + step) {
			size_t capacity = sl_max(2 * loader->capacity, len + step);
			unsigned char *data = realloc(loader->data, capacity);
			if (data == NULL)
				return refuse(loader, loader->offset, "a frame of %" PRIu64 " bytes: %s", bytes, strerror(ENOMEM));
			loader->data = data;
			loader->capacity = capacity;
		}
		int status = read_exactly(loader, start, loader->data + len, step);
		if (status != SL_GO_ON)
			return status;
		len += step;
	}
	return SL_GO_ON;
}

static int load_frames(struct loader *loader) {
	for (;;) {
		uint64_t head[SL_DUMP_FRAME_WORDS], start = loader->offset;
		int status = read_words(loader, head, SL_DUMP_FRAME_WORDS);
		if (status != SL_GO_ON)
			return status;
		if (head[0] % 8 != 0 || head[0] > SL_ARENA_BYTES_MAX || (head[1] == 0 && head[0] != SL_DUMP_END_BYTES))
			return refuse(loader, start, "no frame of counters begins here: it is damaged");
		uint64_t base = loader->offset;
		status = read_body(loader, start, head[0]);
		if (status != SL_GO_ON)
			return status;
		loader->check = sl_dump_check(loader->check, head[0], head[1], sl_slice(loader->data, head[0]));
		if (loader->check != head[2])
			return refuse(loader, start, "the %" PRIu64 " bytes of the frame that begins here are damaged", head[0]);
		if (head[1] == 0)
			return load_end(loader, base, head[0]);
		status = load_frame(loader, base, head[0], head[1]);
		if (status != SL_GO_ON)
			return status;
	}
}

int sl_dump_load(const struct sl_verb *verb, int fd, const char *path, const struct sl_dump_options *options,
                 uint64_t *kept, uint64_t *lost) {
	struct loader loader = {.verb = verb, .fd = fd};
	int status = begin(&loader, path, options);
	if (status != SL_GO_ON)
		return status;
	status = load_frames(&loader);
	free(loader.data);
	*lost = sl_store_new_lost(&loader.made);
	*kept = loader.total - *lost;
	if (status == SL_GO_ON && *lost != 0 && !options->force)
		status = sl_cli_fail(verb,
		                     "%s: %" PRIu64 " of %" PRIu64 " counters find no room: give it more --memory, or say "
		                     "--force to go without them",
		                     path, *lost, loader.total);
	if (status == SL_GO_ON)
		return sl_store_new_finish(verb, &loader.made, false);
	sl_store_new_drop(&loader.made);
	return status;
}
