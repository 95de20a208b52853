/* The module API, in memory: what hosts/redis asks of a server, for one node at a time. The module is loaded once and
 * serves all nodes of the process, since it keeps nothing of a server's between two commands but its settings. */
#include "tests/sim/node.h"

#include "base/assert.h"
#include "base/siphash.h"
#include "hosts/redis/request.h"
#include "proto/resp.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int RedisModule_OnLoad(struct RedisModuleCtx *context, struct RedisModuleString **args, int count);

enum { ARGS_MAX = 256, COMMANDS_MAX = 32, NAME_BYTES = 24 };

/* Begins with what looks functions up, as a server's does. */
struct RedisModuleCtx {
	int (*find)(const char *name, void *function);
	struct sim_node *node;
	bool replicated;
};

struct RedisModuleString {
	char *data;
	size_t len;
};

struct RedisModuleKey {
	struct sim_node *node;
	struct sim_entry *entry;
};

struct RedisModuleType {
	struct slr_type_methods methods;
};

struct RedisModuleDigest {
	uint64_t sum, sequence;
};

static int find(const char *name, void *function);
static struct RedisModuleCtx context = {.find = find};
static struct RedisModuleType type;
static struct RedisModuleCommand {
	char name[NAME_BYTES]; /* of a subcommand: its container's, |, its own */
	slr_command run;       /* NULL: a container */
} commands[COMMANDS_MAX];
static uint32_t command_count;

/* ---- replies ----------------------------------------------------------------------------------------------------- */

static struct {
	char *data;
	size_t len, room;
} out;

static char *room(size_t bytes) {
	if (out.len + bytes > out.room) {
		out.room = 2 * (out.len + bytes);
		out.data = realloc(out.data, out.room);
		SL_ASSERT(out.data != NULL);
	}
	return out.data + out.len;
}

void sim_reply_begin(void) {
	out.len = 0;
}

struct sluice_bytes sim_reply(void) {
	return sl_slice(out.data, out.len);
}

void sim_reply_line(char kind, const char *format, ...) {
	char text[512];
	va_list args;
	va_start(args, format);
	const int len = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	SL_ASSERT(len >= 0 && (size_t)len < sizeof text);
	char *at = room((size_t)len + 3);
	*at = kind;
	memcpy(at + 1, text, (size_t)len);
	memcpy(at + 1 + len, "\r\n", 2);
	out.len += (size_t)len + 3;
}

void sim_reply_bulk(struct sluice_bytes text) {
	char *at = room(text.len + SL_RESP_BULK_MORE);
	out.len += (size_t)(sl_resp_put_bulk(at, text) - at);
}

static int reply_number(char kind, long long value) {
	char *at = room(SL_RESP_NUMBER_BYTES_MAX);
	out.len += (size_t)(sl_resp_put_number(at, kind, value) - at);
	return SLR_REDIS_OK;
}

static int reply_long(struct RedisModuleCtx *ctx, long long value) {
	(void)ctx;
	return reply_number(':', value);
}

static int reply_array(struct RedisModuleCtx *ctx, long count) {
	(void)ctx;
	return reply_number('*', count);
}

static int reply_map(struct RedisModuleCtx *ctx, long count) {
	(void)ctx;
	return reply_number('*', 2 * count);
}

static int reply_error(struct RedisModuleCtx *ctx, const char *text) {
	(void)ctx;
	sim_reply_line('-', "%s", text);
	return SLR_REDIS_OK;
}

static int reply_simple(struct RedisModuleCtx *ctx, const char *text) {
	(void)ctx;
	sim_reply_line('+', "%s", text);
	return SLR_REDIS_OK;
}

static int reply_buffer(struct RedisModuleCtx *ctx, const char *data, size_t len) {
	(void)ctx;
	sim_reply_bulk(sl_slice(data, len));
	return SLR_REDIS_OK;
}

static int reply_text(struct RedisModuleCtx *ctx, const char *text) {
	return reply_buffer(ctx, text, strlen(text));
}

static int reply_null(struct RedisModuleCtx *ctx) {
	(void)ctx;
	sim_reply_line('$', "-1");
	return SLR_REDIS_OK;
}

static int wrong_arity(struct RedisModuleCtx *ctx) {
	return reply_error(ctx, "ERR wrong number of arguments");
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static struct RedisModuleKey *open_key(struct RedisModuleCtx *ctx, struct RedisModuleString *name, int mode) {
	struct sim_entry *entry =
		sim_node_entry(ctx->node, sl_slice(name->data, name->len), (mode & SLR_KEY_WRITE) != 0);
	struct RedisModuleKey *key;
	if (entry != NULL && !ctx->replicated && sim_node_is_over(ctx->node, entry))
		return NULL; /* only at a replica: at a primary it was gone before the command ran */
	if (entry == NULL || (entry->value == 0 && (mode & SLR_KEY_WRITE) == 0))
		return NULL;
	key = malloc(sizeof *key);
	SL_ASSERT(key != NULL);
	*key = (struct RedisModuleKey){ctx->node, entry};
	return key;
}

static void close_key(struct RedisModuleKey *key) {
	free(key);
}

static int key_type(struct RedisModuleKey *key) {
	return key == NULL || key->entry->value == 0 ? SLR_KEYTYPE_EMPTY : 6;
}

static int delete_key(struct RedisModuleKey *key) {
	sim_node_put(key->node, key->entry, 0);
	return SLR_REDIS_OK;
}

static long long get_expire(struct RedisModuleKey *key) {
	return key->entry->value == 0 || key->entry->expire_ms == 0 ? SLR_NO_EXPIRE : key->entry->expire_ms;
}

static int set_expire(struct RedisModuleKey *key, long long ms) {
	key->entry->expire_ms = ms == SLR_NO_EXPIRE ? 0 : ms;
	return SLR_REDIS_OK;
}

static struct RedisModuleType *get_type(struct RedisModuleKey *key) {
	(void)key;
	return &type;
}

static void *get_value(struct RedisModuleKey *key) {
	return (void *)key->entry->value;
}

static int set_value(struct RedisModuleKey *key, struct RedisModuleType *of, void *value) {
	(void)of;
	sim_node_put(key->node, key->entry, (slr_value)value);
	key->entry->expire_ms = 0;
	return SLR_REDIS_OK;
}

/* The old value is the caller's, who has made the new one of it. */
static int replace_value(struct RedisModuleKey *key, struct RedisModuleType *of, void *value, void **old) {
	(void)of;
	if (old != NULL)
		*old = (void *)key->entry->value;
	key->entry->value = (slr_value)value;
	key->node->changes++;
	return SLR_REDIS_OK;
}

static int signal_modified(struct RedisModuleCtx *ctx, struct RedisModuleString *key) {
	(void)ctx;
	(void)key;
	return SLR_REDIS_OK;
}

/* ---- replicas ---------------------------------------------------------------------------------------------------- */

static int replicate(struct RedisModuleCtx *ctx, const char *command, const char *format, ...) {
	va_list args;
	SL_ASSERT(strcmp(command, "SLUICE.EFFECT") == 0 && strcmp(format, "slb") == 0);
	va_start(args, format);
	const struct RedisModuleString *key = va_arg(args, const struct RedisModuleString *);
	const long long expire_ms = va_arg(args, long long);
	const char *data = va_arg(args, const char *);
	const size_t len = va_arg(args, size_t);
	va_end(args);
	if (!ctx->replicated)
		sim_node_tell(ctx->node, SIM_TOLD_EFFECT, sl_slice(key->data, key->len), expire_ms, data, len);
	return SLR_REDIS_OK;
}

static int replicate_verbatim(struct RedisModuleCtx *ctx) {
	SL_ASSERT(ctx->replicated); /* else somebody listens, and is told */
	return SLR_REDIS_OK;
}

static int context_flags(struct RedisModuleCtx *ctx) {
	return ctx->replicated ? SLR_CONTEXT_REPLICATED : 0;
}

/* ---- strings, and what is asked at the beginning ------------------------------------------------------------------
 * */

static const char *string_ptr(const struct RedisModuleString *string, size_t *len) {
	*len = string->len;
	return string->data;
}

static struct RedisModuleString *create_string(struct RedisModuleCtx *ctx, const char *data, size_t len) {
	struct RedisModuleString *string = malloc(sizeof *string + len + 1);
	(void)ctx;
	SL_ASSERT(string != NULL);
	*string = (struct RedisModuleString){(char *)(string + 1), len};
	memcpy(string->data, data, len);
	string->data[len] = '\0';
	return string;
}

static void free_string(struct RedisModuleCtx *ctx, struct RedisModuleString *string) {
	(void)ctx;
	free(string);
}

/* Of the world's dice; while the module is loaded, before there is a node, always the same. */
static void random_hex(char *into, size_t len) {
	for (size_t i = 0; i < len; i++)
		into[i] = "0123456789abcdef"[context.node == NULL ? i % 16 : dice_below(&context.node->net->time->net, 16)];
}

static int no(struct RedisModuleCtx *ctx) {
	(void)ctx;
	return 0;
}

static unsigned long long no_client(struct RedisModuleCtx *ctx) {
	(void)ctx;
	return 0;
}

static int may_all(struct RedisModuleUser *user, struct RedisModuleString *key, int flags) {
	(void)user;
	(void)key;
	(void)flags;
	return SLR_REDIS_OK;
}

static struct RedisModuleString *user_name(struct RedisModuleCtx *ctx) {
	return create_string(ctx, "default", 7);
}

static struct RedisModuleString *client_user(struct RedisModuleCtx *ctx, uint64_t client) {
	(void)client;
	return user_name(ctx);
}

static struct RedisModuleUser *user_of(struct RedisModuleString *name) {
	return (struct RedisModuleUser *)(void *)name; /* any will do, and none is looked into */
}

static void forget_user(struct RedisModuleUser *user) {
	(void)user;
}

static int create_command(struct RedisModuleCtx *ctx, const char *name, slr_command run, const char *flags, int first,
                          int last, int step) {
	(void)ctx;
	(void)flags;
	(void)first;
	(void)last;
	(void)step;
	SL_ASSERT(command_count < COMMANDS_MAX);
	snprintf(commands[command_count].name, NAME_BYTES, "%s", name);
	commands[command_count++].run = run;
	return SLR_REDIS_OK;
}

static struct RedisModuleCommand *get_command(struct RedisModuleCtx *ctx, const char *name) {
	uint32_t c = 0;
	(void)ctx;
	while (c < command_count && strcmp(commands[c].name, name) != 0)
		c++;
	return c == command_count ? NULL : &commands[c];
}

static int create_subcommand(struct RedisModuleCommand *parent, const char *name, slr_command run, const char *flags,
                             int first, int last, int step) {
	char whole[NAME_BYTES];
	SL_ASSERT(snprintf(whole, sizeof whole, "%s|%s", parent->name, name) < (int)sizeof whole);
	return create_command(&context, whole, run, flags, first, last, step);
}

static struct RedisModuleType *create_type(struct RedisModuleCtx *ctx, const char *name, int version,
                                           struct slr_type_methods *methods) {
	(void)ctx;
	(void)name;
	(void)version;
	type.methods = *methods;
	return &type;
}

static void set_options(struct RedisModuleCtx *ctx, int options) {
	(void)ctx;
	(void)options;
}

static void set_attributes(struct RedisModuleCtx *ctx, const char *name, int version, int api) {
	(void)ctx;
	(void)name;
	(void)version;
	(void)api;
}

__attribute__((format(printf, 3, 4))) static void write_log(struct RedisModuleCtx *ctx, const char *level,
                                                            const char *format, ...) {
	(void)ctx;
	(void)level;
	(void)format;
}

/* ---- SCAN, which the module calls -------------------------------------------------------------------------------- */

/* The cursor and the keys, of which each is a reply of its own. */
struct RedisModuleCallReply {
	struct RedisModuleCallReply *of; /* NULL: the whole */
	struct sluice_bytes text;
	size_t count;
	struct RedisModuleCallReply *parts;
	char cursor[24];
};

/* Whole buckets, until there are `most` keys. */
static uint64_t scan_buckets(struct sim_node *node, uint64_t from, size_t most, struct RedisModuleCallReply *keys) {
	while (from < SIM_BUCKETS && keys->count < most) {
		for (const struct sim_entry *entry = node->buckets[from]; entry != NULL; entry = entry->next) {
			if (entry->value == 0 || sim_node_is_over(node, entry))
				continue;
			keys->parts = realloc(keys->parts, (keys->count + 1) * sizeof *keys->parts);
			SL_ASSERT(keys->parts != NULL);
			keys->parts[keys->count++] =
				(struct RedisModuleCallReply){.of = keys, .text = sl_slice(entry->key, entry->key_len)};
		}
		from++;
	}
	return from == SIM_BUCKETS ? 0 : from;
}

static struct RedisModuleCallReply *call(struct RedisModuleCtx *ctx, const char *command, const char *format, ...) {
	struct RedisModuleCallReply *reply = calloc(1, sizeof *reply);
	va_list args;
	SL_ASSERT(reply != NULL && strcmp(command, "SCAN") == 0 && strcmp(format, "lcl") == 0);
	reply->parts = calloc(2, sizeof *reply->parts);
	SL_ASSERT(reply->parts != NULL);
	reply->count = 2;
	va_start(args, format);
	const uint64_t from = va_arg(args, uint64_t);
	(void)va_arg(args, const char *); /* COUNT */
	const uint64_t next = scan_buckets(ctx->node, from, va_arg(args, size_t), &reply->parts[1]);
	va_end(args);
	snprintf(reply->parts[0].cursor, sizeof reply->parts[0].cursor, "%llu", (unsigned long long)next);
	reply->parts[0].text = sl_str(reply->parts[0].cursor);
	return reply;
}

static struct RedisModuleCallReply *reply_part(struct RedisModuleCallReply *reply, size_t index) {
	return index < reply->count ? &reply->parts[index] : NULL;
}

static size_t reply_length(struct RedisModuleCallReply *reply) {
	return reply->count;
}

static const char *reply_string(struct RedisModuleCallReply *reply, size_t *len) {
	*len = reply->text.len;
	return reply->text.data;
}

static struct RedisModuleString *reply_to_string(struct RedisModuleCallReply *reply) {
	return create_string(&context, reply->text.data, reply->text.len);
}

static void free_reply(struct RedisModuleCallReply *reply) {
	free(reply->parts[1].parts);
	free(reply->parts);
	free(reply);
}

/* ---- digests ----------------------------------------------------------------------------------------------------- */

static void digest_bytes(struct RedisModuleDigest *digest, const char *data, size_t len) {
	static const uint64_t secret[2] = {1, 2};
	digest->sequence = sl_siphash(secret, &digest->sequence, 1, sl_slice(data, len), 1, 3);
}

static void digest_long(struct RedisModuleDigest *digest, long long value) {
	digest_bytes(digest, (const char *)&value, sizeof value);
}

static void digest_end(struct RedisModuleDigest *digest) {
	digest->sum += digest->sequence;
	digest->sequence = 0;
}

uint64_t sim_digest(slr_value value) {
	struct RedisModuleDigest digest = {.sum = 0};
	if (value != 0)
		type.methods.digest(&digest, (void *)value);
	return digest.sum;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*function)(void);
} api[] = {
#define HAS(name, function) {"RedisModule_" #name, (void (*)(void))(function)},
	HAS(Alloc, malloc) HAS(Free, free) HAS(CreateCommand, create_command) HAS(CreateDataType, create_type)
	HAS(SetModuleOptions, set_options) HAS(SetModuleAttribs, set_attributes) HAS(WrongArity, wrong_arity)
	HAS(ReplyWithLongLong, reply_long) HAS(ReplyWithError, reply_error) HAS(ReplyWithSimpleString, reply_simple)
	HAS(ReplyWithStringBuffer, reply_buffer) HAS(ReplyWithCString, reply_text) HAS(ReplyWithNull, reply_null)
	HAS(ReplyWithArray, reply_array) HAS(ReplyWithMap, reply_map) HAS(OpenKey, open_key) HAS(CloseKey, close_key)
	HAS(KeyType, key_type) HAS(DeleteKey, delete_key) HAS(GetAbsExpire, get_expire) HAS(SetAbsExpire, set_expire)
	HAS(ModuleTypeGetType, get_type) HAS(ModuleTypeGetValue, get_value) HAS(ModuleTypeSetValue, set_value)
	HAS(ModuleTypeReplaceValue, replace_value) HAS(SignalModifiedKey, signal_modified) HAS(StringPtrLen, string_ptr)
	HAS(CreateString, create_string) HAS(FreeString, free_string) HAS(GetRandomHexChars, random_hex)
	HAS(Replicate, replicate) HAS(ReplicateVerbatim, replicate_verbatim) HAS(IsKeysPositionRequest, no)
	HAS(GetContextFlags, context_flags) HAS(GetClientId, no_client) HAS(GetCurrentUserName, user_name)
	HAS(GetClientUserNameById, client_user)
	HAS(GetModuleUserFromUserName, user_of) HAS(FreeModuleUser, forget_user) HAS(ACLCheckKeyPermissions, may_all)
	HAS(Log, write_log) HAS(DigestAddStringBuffer, digest_bytes) HAS(DigestAddLongLong, digest_long)
	HAS(DigestEndSequence, digest_end) HAS(GetCommand, get_command) HAS(CreateSubcommand, create_subcommand)
	HAS(Call, call) HAS(CallReplyArrayElement, reply_part) HAS(CallReplyLength, reply_length)
	HAS(CallReplyStringPtr, reply_string) HAS(CreateStringFromCallReply, reply_to_string) HAS(FreeCallReply, free_reply)
#undef HAS
};

/* What no server here is asked for: saving, and where the keys of a command are. */
static void unasked(void) {
	SL_ASSERT(!"the module has called what the simulated server has not");
}

static int find(const char *name, void *function) {
	static const char *const unused[] = {"KeyAtPos", "ACLAddLogEntry", "SaveStringBuffer", "LoadStringBuffer",
	                                     "IsIOError", "EmitAOF", "LogIOError"};
	void (*found)(void) = NULL;
	for (size_t i = 0; i < sizeof api / sizeof *api; i++)
		if (strcmp(api[i].name, name) == 0)
			found = api[i].function;
	for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
		if (strcmp(unused[i], name + strlen("RedisModule_")) == 0)
			found = unasked;
	if (found == NULL)
		return SLR_REDIS_ERR;
	memcpy(function, &found, sizeof found);
	return SLR_REDIS_OK;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

sluice_ns slr_clock_now(void) {
	return context.node == NULL ? 0 : sim_node_now(context.node);
}

int64_t slr_clock_wall_ms(void) {
	return context.node == NULL ? 0 : sim_node_wall_ms(context.node);
}

void slr_clock_anchor(void) {
	/* each node has an anchor of its own */
}

void sim_module_load(void) {
	static bool loaded;
	struct RedisModuleString words[] = {{(char *)"client-time", 11}, {(char *)"yes", 3}};
	struct RedisModuleString *args[] = {&words[0], &words[1]};
	if (!loaded)
		SL_ASSERT(RedisModule_OnLoad(&context, args, 2) == SLR_REDIS_OK);
	loaded = true;
}

/* Of a container: the subcommand. NULL: there is none. */
static slr_command find_command(const struct sluice_bytes *args, uint32_t count) {
	uint32_t c = 0;
	while (c < command_count && !slr_is_word(args[0], commands[c].name))
		c++;
	if (c == command_count || commands[c].run != NULL || count < 2)
		return c == command_count ? NULL : commands[c].run;
	const size_t len = strlen(commands[c].name);
	for (uint32_t s = 0; s < command_count; s++)
		if (strncmp(commands[s].name, commands[c].name, len) == 0 && commands[s].name[len] == '|' &&
		    slr_is_word(args[1], commands[s].name + len + 1))
			return commands[s].run;
	return NULL;
}

bool sim_module_run(struct sim_node *node, const struct sluice_bytes *args, uint32_t count, bool replicated) {
	static struct RedisModuleString strings[ARGS_MAX];
	static struct RedisModuleString *pointers[ARGS_MAX];
	const slr_command run = find_command(args, count);
	SL_ASSERT(count <= ARGS_MAX);
	if (run == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		strings[i] = (struct RedisModuleString){(char *)(uintptr_t)args[i].data, args[i].len};
		pointers[i] = &strings[i];
	}
	context.node = node;
	context.replicated = replicated;
	(void)run(&context, pointers, (int)count);
	return true;
}
