/* The inside of an index, for those who make it (index.c) and walk it (index_walk.c).
 *
 *   what a condition says       where it is filed
 *   exactly this                slots, by its hash
 *   a path with parts           slots, by the hash of its segments that are no parts; as a shape
 *   begins, ends with           stems, of hosts' ends turned round
 *   in a network                stems
 */
#ifndef SL_INDEX_INSIDE_H
#define SL_INDEX_INSIDE_H

#include "base/siphash.h"
#include "policy/index.h"
#include "policy/stems.h"

enum {
	SL_SHAPES_MAX = 16,    /* of an index; paths of others are filed by what stands before their first part */
	SL_SEGMENTS_MAX = 32,  /* of a path with parts that is a shape */
	SL_NETWORK_BYTES = 17, /* of a network as a stem: 1 for IPv4, then the address */
};

enum sl_filed { SL_FILED_EXACT, SL_FILED_PARTS, SL_FILED_SUFFIX, SL_FILED_NETWORK, SL_FILED_PREFIX, SL_FILED_KINDS };

/* A number alone, or where in the index's `lists` a count stands with so many numbers after it. */
#define SL_LIST_ONE ((uint32_t)1 << 31)

struct sl_index_slot {
	uint32_t tag; /* of the hash; 0: free */
	uint32_t list;
};

/* Which segments of a path are parts. */
struct sl_shape {
	uint32_t parts; /* a bit each */
	uint32_t count; /* segments that are compared */
	bool ends;      /* the path has no more than these */
};

struct sl_index_attribute {
	uint16_t number;
	bool exact, shapes;
	struct sl_stems stems[SL_FILED_KINDS]; /* of suffixes, networks and prefixes */
};

struct sl_index {
	uint64_t key[2];
	const struct sl_index_slot *slots;
	uint32_t slot_mask; /* how many there are, a power of two, less 1 */
	const uint32_t *lists;
	uint32_t count;  /* of all conditions */
	uint32_t always; /* a list: those that are filed under nothing; SL_INDEX_END: none */
	const struct sl_index_attribute *attributes;
	uint32_t attribute_count, shape_count;
	struct sl_shape shapes[SL_SHAPES_MAX];
};

/* The hash of something filed. `of`: the number of its attribute; `more`: of its shape, or how many bits it has. */
static inline uint64_t sl_index_hash(const uint64_t key[2], enum sl_filed kind, uint32_t of, uint32_t more,
                                     struct sluice_bytes text) {
	const uint64_t word = (uint64_t)kind | (uint64_t)of << 8 | (uint64_t)more << 32;
	return sl_siphash(key, &word, 1, text, 1, 3);
}

static inline uint32_t sl_index_tag(uint64_t hash) {
	return (uint32_t)(hash >> 32) | 1;
}

/* Where the segments of a path end, of the first SL_SEGMENTS_MAX. Returns how many it has, at most one more. */
static inline uint32_t sl_index_split(struct sluice_bytes path, uint32_t ends[SL_SEGMENTS_MAX]) {
	const char *p = path.data;
	uint32_t count = 0;
	for (size_t at = 0;; at++) {
		const char *slash = at < path.len ? memchr(p + at, '/', path.len - at) : NULL;
		at = slash == NULL ? path.len : (size_t)(slash - p);
		if (count == SL_SEGMENTS_MAX)
			return count + 1;
		ends[count++] = (uint32_t)at;
		if (slash == NULL)
			return count;
	}
}

/* The segments of a shape that are no parts, each with a slash after it; `text` has room for them. */
static inline struct sluice_bytes sl_index_literals(const struct sl_shape *shape, struct sluice_bytes path,
                                                    const uint32_t *ends, char *text) {
	size_t len = 0;
	for (uint32_t i = 0; i < shape->count; i++) {
		uint32_t start = i == 0 ? 0 : ends[i - 1] + 1;
		if ((shape->parts >> i & 1) != 0)
			continue;
		memcpy(text + len, (const char *)path.data + start, ends[i] - start);
		len += ends[i] - start;
		text[len++] = '/';
	}
	return sl_slice(text, len);
}

/* A network as a stem; `bytes` has SL_NETWORK_BYTES. */
static inline struct sl_stem sl_index_network(const struct sl_network *network, unsigned char *bytes) {
	bytes[0] = network->v4;
	memcpy(bytes + 1, network->address.bytes, sizeof network->address.bytes);
	return (struct sl_stem){.data = bytes, .bytes = SL_NETWORK_BYTES, .bits = 8u + network->prefix_bits};
}

/* The end of a text, turned round; `turned` has SLUICE_KEY_BYTES_MAX. */
static inline struct sluice_bytes sl_index_turn(struct sluice_bytes text, char *turned) {
	const char *end = (const char *)text.data + text.len;
	size_t len = text.len < SLUICE_KEY_BYTES_MAX ? text.len : SLUICE_KEY_BYTES_MAX;
	for (size_t i = 0; i < len; i++)
		turned[i] = *--end;
	return sl_slice(turned, len);
}

static inline struct sl_stem sl_index_stem(struct sluice_bytes text) {
	return (struct sl_stem){.data = text.data, .bytes = (uint32_t)text.len, .bits = 8 * (uint32_t)text.len};
}

#endif
