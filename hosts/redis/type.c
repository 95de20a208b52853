/* The data type: how the server saves, loads, copies, measures, moves and frees our values. */
#include "hosts/redis/memory.h"
#include "hosts/redis/turn.h"

enum { ENCODING_VERSION = 1 };

struct RedisModuleType *slr_type;

static void *rdb_load(struct RedisModuleIO *io, int version) {
	size_t len = 0;
	slr_value value;
	char *bytes;
	if (version != ENCODING_VERSION) {
		slr_LogIOError(io, "warning", "sluice: a value of encoding %d; this module reads %d", version,
		               ENCODING_VERSION);
		return NULL;
	}
	bytes = slr_LoadStringBuffer(io, &len);
	if (bytes == NULL || slr_IsIOError(io)) {
		slr_Free(bytes);
		return NULL;
	}
	value = slr_read_value(sl_slice(bytes, len));
	slr_Free(bytes);
	if (value == 0)
		slr_LogIOError(io, "warning", "sluice: a value is damaged, or of another version, and is refused");
	return (void *)value;
}

static void rdb_save(struct RedisModuleIO *io, void *value) {
	struct slr_bytes bytes = {.data = NULL};
	slr_write_value(&bytes, (slr_value)value);
	slr_SaveStringBuffer(io, (const char *)bytes.data, bytes.len);
	slr_bytes_free(&bytes);
}

/* The server itself writes the key's expiry behind it. */
static void aof_rewrite(struct RedisModuleIO *io, struct RedisModuleString *key, void *value) {
	struct slr_counter scratch;
	for (uint32_t i = 0; i < slr_value_count((slr_value)value); i++) {
		struct slr_notes notes = {.bytes.data = NULL};
		slr_note_whole(&notes, slr_value_at((slr_value)value, i, &scratch));
		slr_EmitAOF(io, "SLUICE.EFFECT", "slb", key, (long long)SLR_NO_EXPIRE, (const char *)notes.bytes.data,
		            notes.bytes.len);
		slr_bytes_free(&notes.bytes);
	}
}

static size_t mem_usage(const void *value) {
	return slr_value_bytes((slr_value)value);
}

static void free_value(void *value) {
	slr_value_free((slr_value)value);
}

/* Many small pieces take long to free; ours are few, whatever their size. */
static size_t free_effort(struct RedisModuleString *key, const void *value) {
	(void)key;
	return slr_value_count((slr_value)value);
}

static void *copy(struct RedisModuleString *from, struct RedisModuleString *to, const void *value) {
	(void)from;
	(void)to;
	return (void *)slr_value_copy((slr_value)value);
}

bool slr_type_create(struct RedisModuleCtx *context) {
	static struct slr_type_methods methods = {
		.version = SLR_TYPE_METHODS_VERSION,
		.rdb_load = rdb_load,
		.rdb_save = rdb_save,
		.aof_rewrite = aof_rewrite,
		.mem_usage = mem_usage,
		.free = free_value,
		.free_effort = free_effort,
		.copy = copy,
	};
	slr_type = slr_CreateDataType(context, "sluice-01", ENCODING_VERSION, &methods);
	return slr_type != NULL;
}
