/* Writes dumps (dump.h): the store stays in use meanwhile, so counters are copied one bucket at a time. */
#include "hosts/cli/store/dump.h"
#include "hosts/cli/ask.h"
#include "os/file.h"
#include "store/scan.h"
#include "store/walk.h"

#include <errno.h>
#include <stdlib.h>

struct writer {
	int fd;
	unsigned char *data; /* of the frame, after its three words */
	size_t len, capacity;
	uint64_t count, total, torn, check;
	const struct sluice_store *store;
	bool failed;  /* no memory */
	bool held_up; /* by a process that is stopped: a dump without its counters would be none */
};

static void put_words(unsigned char *to, const uint64_t *words, size_t count) {
	for (size_t i = 0; i < count; i++) {
		uint64_t little = htole64(words[i]);
		memcpy(to + 8 * i, &little, 8);
	}
}

/* Writes what the frame has and begins the next. */
static bool end_frame(struct writer *writer) {
	unsigned char head[8 * SL_DUMP_FRAME_WORDS];
	writer->check = sl_dump_check(writer->check, writer->len, writer->count, sl_slice(writer->data, writer->len));
	put_words(head, (const uint64_t[]){writer->len, writer->count, writer->check}, SL_DUMP_FRAME_WORDS);
	bool fine = sl_file_write(writer->fd, head, sizeof head) == sizeof head &&
	            sl_file_write(writer->fd, writer->data, writer->len) == writer->len;
	writer->total += writer->count;
	writer->count = 0;
	writer->len = 0;
	return fine;
}

static bool reserve(struct writer *writer, size_t more) {
	if (writer->capacity - writer->len >= more)
		return true;
	size_t capacity = 2 * (writer->len + more);
	unsigned char *data = realloc(writer->data, capacity);
	writer->failed = data == NULL;
	if (data == NULL)
		return false;
	writer->data = data;
	writer->capacity = capacity;
	return true;
}

/* What no call has written, and a first opener would drop: a load would refuse all of the dump for it. */
static bool is_torn(const struct writer *writer, const struct sl_entry *entry) {
	return (entry->tag & SL_LIFE_FRESH) > SL_LIFE_CODE_MAX || entry->state[0] > sl_store_latest_charge(writer->store);
}

/* One counter, its home locked: copied, not written. */
static bool take(void *context, const struct sl_entry *entry) {
	struct writer *writer = context;
	if (is_torn(writer, entry)) {
		writer->torn++;
		return true;
	}
	size_t padded = (entry->block_bytes + 7) / 8 * 8;
	const uint64_t words[SL_DUMP_RECORD_WORDS] = {entry->hash, entry->tag, entry->state[0], entry->state[1],
	                                              entry->block_bytes};
	if (!reserve(writer, sizeof words + padded))
		return false;
	put_words(writer->data + writer->len, words, SL_DUMP_RECORD_WORDS);
	writer->len += sizeof words;
	if (entry->block_bytes != 0)
		memcpy(writer->data + writer->len, entry->block, entry->block_bytes);
	memset(writer->data + writer->len + entry->block_bytes, 0, padded - entry->block_bytes);
	writer->len += padded;
	writer->count++;
	return true;
}

static bool write_header(struct writer *writer, const struct sluice_store *store, sluice_ns now) {
	const struct sl_header *header = store->header;
	uint64_t words[SL_DUMP_WORDS] = {
		[SL_DUMP_AT_MAGIC] = SL_DUMP_MAGIC,
		[SL_DUMP_AT_VERSION] = SL_DUMP_VERSION,
		[SL_DUMP_AT_ORDER] = SL_DUMP_ORDER,
		[SL_DUMP_AT_ARENA] = header->version,
		[SL_DUMP_AT_BYTES] = header->arena_bytes,
		[SL_DUMP_AT_PERCENT] = header->blocks_percent,
		[SL_DUMP_AT_TOP_BITS] = header->hash_top_bits,
		[SL_DUMP_AT_SECRET] = header->secret[0],
		[SL_DUMP_AT_SECRET + 1] = header->secret[1],
		[SL_DUMP_AT_LATEST] = sl_store_latest_charge(store),
		[SL_DUMP_AT_FORMATTED] = header->formatted_ns,
		[SL_DUMP_AT_TAKEN] = now,
	};
	unsigned char bytes[8 * SL_DUMP_WORDS];
	memcpy(&words[SL_DUMP_AT_ANCHORS], header->anchors, sizeof header->anchors);
	put_words(bytes, words, SL_DUMP_AT_CHECK);
	writer->check = sl_dump_check(0, 0, 0, sl_slice(bytes, 8 * SL_DUMP_AT_CHECK));
	put_words(bytes + 8 * SL_DUMP_AT_CHECK, &writer->check, 1);
	return sl_file_write(writer->fd, bytes, sizeof bytes) == sizeof bytes;
}

/* The instant is read after all counters: what others charged meanwhile may be among them. */
static bool write_end(struct writer *writer, const struct sluice_store *store) {
	const uint64_t words[2] = {writer->total, sl_store_latest_charge(store)};
	if (!reserve(writer, sizeof words))
		return false;
	put_words(writer->data, words, 2);
	writer->len = SL_DUMP_END_BYTES;
	return end_frame(writer);
}

static bool write_dump(struct writer *writer, struct sluice_store *store) {
	sluice_ns now = sluice_store_now(store);
	struct sl_page_figures figures = {0};
	if (!write_header(writer, store, now))
		return false;
	for (struct sl_walk walk = {.store = store}; sl_walk_next(&walk);) {
		if (!sl_store_scan(store, walk.page, now, &figures, take, writer))
			return false;
		if (figures.held_up != 0) {
			writer->held_up = true;
			return false;
		}
		if (writer->len >= SL_DUMP_FRAME_BYTES && !end_frame(writer))
			return false;
	}
	return (writer->count == 0 || end_frame(writer)) && write_end(writer, store);
}

int sl_dump_write(const struct sl_verb *verb, struct sluice_store *store, int fd, struct sl_dump_figures *figures) {
	struct writer writer = {.fd = fd, .store = store};
	bool fine = write_dump(&writer, store);
	int number = writer.failed ? ENOMEM : errno;
	*figures = (struct sl_dump_figures){writer.total, writer.torn};
	free(writer.data);
	if (writer.held_up)
		return sl_ask_fail_busy(verb, "the store");
	return fine ? SL_GO_ON : sl_cli_fail(verb, "writing the dump: %s", strerror(number));
}
