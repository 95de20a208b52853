/* The module API of Redis and Valkey, as far as we use it: our own header, so that building needs neither's source.
 *
 * A module is handed functions by name: the first word of the context is a function that looks one up. So one binary
 * serves every version from Redis 7.0 and Valkey 7.2 on; what a server lacks is NULL here, and SLR_API_OPTIONAL says
 * which that may be. Names, numbers and types are those of the public documentation (redis.io, "Modules API
 * reference"); tests/tools/redis_api_test.py compares them with the real header. */
#ifndef SLR_API_H
#define SLR_API_H

#include <stddef.h>
#include <stdint.h>

struct RedisModuleCtx;
struct RedisModuleKey;
struct RedisModuleString;
struct RedisModuleIO;
struct RedisModuleType;
struct RedisModuleDigest;
struct RedisModuleDefragCtx;
struct RedisModuleCommand;
struct RedisModuleServerInfoData;
struct RedisModuleKeyOptCtx;
struct RedisModuleUser;
struct RedisModuleCallReply;

enum {
	SLR_REDIS_OK = 0,
	SLR_REDIS_ERR = 1,
	SLR_API_VERSION = 1,
	SLR_KEY_READ = 1 << 0,
	SLR_KEY_WRITE = 1 << 1,
	SLR_KEY_NOTOUCH = 1 << 16,
	SLR_KEYTYPE_EMPTY = 0,
	SLR_NO_EXPIRE = -1,
	SLR_TYPE_METHODS_VERSION = 4,
	SLR_CONTEXT_LUA = 1 << 0,
	SLR_CONTEXT_CLUSTER = 1 << 5,
	SLR_CONTEXT_AOF = 1 << 6,
	SLR_CONTEXT_OOM = 1 << 10,
	SLR_CONTEXT_REPLICATED = 1 << 12,
	SLR_CONTEXT_LOADING = 1 << 13,
	SLR_ACL_LOG_KEY = 2,
	SLR_OPTION_HANDLE_IO_ERRORS = 1 << 0,
	SLR_OPTION_NO_IMPLICIT_SIGNAL = 1 << 1,
	SLR_OPTION_HANDLE_ASYNC_LOAD = 1 << 2,
	SLR_EVENT_ROLE_CHANGED = 0,
	SLR_EVENT_CRON = 8,
	SLR_EVENT_FORK_CHILD = 13,
	SLR_SUBEVENT_FORK_CHILD_BORN = 0,
	SLR_SPEC_KEY_RO = 1 << 0,
	SLR_SPEC_KEY_RW = 1 << 1,
	SLR_SPEC_ACCESS = 1 << 4,
	SLR_SPEC_UPDATE = 1 << 5,
	SLR_SPEC_INCOMPLETE = 1 << 9,
	SLR_SPEC_BEGIN_INDEX = 2,
	SLR_SPEC_BEGIN_KEYWORD = 3,
	SLR_SPEC_FIND_RANGE = 2,
	SLR_ARG_STRING = 0,
	SLR_ARG_INTEGER = 1,
	SLR_ARG_KEY = 3,
	SLR_ARG_UNIX_TIME = 5,
	SLR_ARG_PURE_TOKEN = 6,
	SLR_ARG_ONEOF = 7,
	SLR_ARG_BLOCK = 8,
	SLR_ARG_IS_OPTIONAL = 1 << 0,
	SLR_ARG_IS_MULTIPLE = 1 << 1,
};

#define SLR_WRONGTYPE "WRONGTYPE Operation against a key holding the wrong kind of value"

/* RedisModuleTypeMethods of version 4. */
struct slr_type_methods {
	uint64_t version;
	void *(*rdb_load)(struct RedisModuleIO *, int);
	void (*rdb_save)(struct RedisModuleIO *, void *);
	void (*aof_rewrite)(struct RedisModuleIO *, struct RedisModuleString *, void *);
	size_t (*mem_usage)(const void *);
	void (*digest)(struct RedisModuleDigest *, void *);
	void (*free)(void *);
	int (*aux_load)(struct RedisModuleIO *, int, int);
	void (*aux_save)(struct RedisModuleIO *, int);
	int aux_save_triggers;
	size_t (*free_effort)(struct RedisModuleString *, const void *);
	void (*unlink)(struct RedisModuleString *, const void *);
	void *(*copy)(struct RedisModuleString *, struct RedisModuleString *, const void *);
	int (*defrag)(struct RedisModuleDefragCtx *, struct RedisModuleString *, void **);
	size_t (*mem_usage2)(struct RedisModuleKeyOptCtx *, const void *, size_t);
	size_t (*free_effort2)(struct RedisModuleKeyOptCtx *, const void *);
	void (*unlink2)(struct RedisModuleKeyOptCtx *, const void *);
	void *(*copy2)(struct RedisModuleKeyOptCtx *, const void *);
};

/* RedisModuleCommandArg. */
struct slr_command_arg {
	const char *name;
	int type;
	int key_spec_index; /* of a key: its specification; else -1 */
	const char *token, *summary, *since;
	int flags;
	const char *deprecated_since;
	struct slr_command_arg *subargs;
};

/* RedisModuleCommandKeySpec. */
struct slr_key_spec {
	const char *notes;
	uint64_t flags;
	int begin_search_type;
	union {
		struct {
			int pos;
		} index;
		struct {
			const char *keyword;
			int startfrom;
		} keyword;
	} bs;
	int find_keys_type;
	union {
		struct {
			int lastkey, keystep, limit;
		} range;
		struct {
			int keynumidx, firstkey, keystep;
		} keynum;
	} fk;
};

/* RedisModuleCommandInfoVersion, and RedisModuleCommandInfo of version 1. */
struct slr_info_version {
	int version;
	size_t history_bytes, key_spec_bytes, arg_bytes;
};
struct slr_history_entry {
	const char *since, *changes;
};
struct slr_command_info {
	const struct slr_info_version *version;
	const char *summary, *complexity, *since;
	struct slr_history_entry *history;
	const char *tips;
	int arity;
	struct slr_key_spec *key_specs;
	struct slr_command_arg *args;
};

/* RedisModuleEvent. */
struct slr_event {
	uint64_t id, dataver;
};

typedef int (*slr_command)(struct RedisModuleCtx *, struct RedisModuleString **, int);
typedef void (*slr_event_callback)(struct RedisModuleCtx *, struct slr_event, uint64_t, void *);

/* name, result, arguments: the functions without which the module does not load. */
#define SLR_API_NEEDED(X)                                                                                    \
	X(Alloc, void *, (size_t))                                                                               \
	X(Free, void, (void *))                                                                                  \
	X(CreateCommand, int, (struct RedisModuleCtx *, const char *, slr_command, const char *, int, int, int)) \
	X(CreateDataType, struct RedisModuleType *,                                                              \
	  (struct RedisModuleCtx *, const char *, int, struct slr_type_methods *))                               \
	X(SetModuleOptions, void, (struct RedisModuleCtx *, int))                                                \
	X(WrongArity, int, (struct RedisModuleCtx *))                                                            \
	X(ReplyWithLongLong, int, (struct RedisModuleCtx *, long long))                                          \
	X(ReplyWithError, int, (struct RedisModuleCtx *, const char *))                                          \
	X(ReplyWithSimpleString, int, (struct RedisModuleCtx *, const char *))                                   \
	X(ReplyWithStringBuffer, int, (struct RedisModuleCtx *, const char *, size_t))                           \
	X(ReplyWithCString, int, (struct RedisModuleCtx *, const char *))                                        \
	X(ReplyWithNull, int, (struct RedisModuleCtx *))                                                         \
	X(ReplyWithArray, int, (struct RedisModuleCtx *, long))                                                  \
	X(ReplyWithMap, int, (struct RedisModuleCtx *, long))                                                    \
	X(OpenKey, struct RedisModuleKey *, (struct RedisModuleCtx *, struct RedisModuleString *, int))          \
	X(CloseKey, void, (struct RedisModuleKey *))                                                             \
	X(KeyType, int, (struct RedisModuleKey *))                                                               \
	X(DeleteKey, int, (struct RedisModuleKey *))                                                             \
	X(GetAbsExpire, long long, (struct RedisModuleKey *))                                                    \
	X(SetAbsExpire, int, (struct RedisModuleKey *, long long))                                               \
	X(ModuleTypeGetType, struct RedisModuleType *, (struct RedisModuleKey *))                                \
	X(ModuleTypeGetValue, void *, (struct RedisModuleKey *))                                                 \
	X(ModuleTypeSetValue, int, (struct RedisModuleKey *, struct RedisModuleType *, void *))                  \
	X(ModuleTypeReplaceValue, int, (struct RedisModuleKey *, struct RedisModuleType *, void *, void **))     \
	X(SignalModifiedKey, int, (struct RedisModuleCtx *, struct RedisModuleString *))                         \
	X(StringPtrLen, const char *, (const struct RedisModuleString *, size_t *))                              \
	X(CreateString, struct RedisModuleString *, (struct RedisModuleCtx *, const char *, size_t))             \
	X(Call, struct RedisModuleCallReply *, (struct RedisModuleCtx *, const char *, const char *, ...))       \
	X(FreeCallReply, void, (struct RedisModuleCallReply *))                                                  \
	X(CallReplyStringPtr, const char *, (struct RedisModuleCallReply *, size_t *))                           \
	X(CallReplyArrayElement, struct RedisModuleCallReply *, (struct RedisModuleCallReply *, size_t))         \
	X(CallReplyLength, size_t, (struct RedisModuleCallReply *))                                              \
	X(CreateStringFromCallReply, struct RedisModuleString *, (struct RedisModuleCallReply *))                \
	X(FreeString, void, (struct RedisModuleCtx *, struct RedisModuleString *))                               \
	X(GetRandomHexChars, void, (char *, size_t))                                                             \
	X(Replicate, int, (struct RedisModuleCtx *, const char *, const char *, ...))                            \
	X(ReplicateVerbatim, int, (struct RedisModuleCtx *))                                                     \
	X(IsKeysPositionRequest, int, (struct RedisModuleCtx *))                                                 \
	X(KeyAtPos, void, (struct RedisModuleCtx *, int))                                                        \
	X(GetContextFlags, int, (struct RedisModuleCtx *))                                                       \
	X(GetClientId, unsigned long long, (struct RedisModuleCtx *))                                            \
	X(GetClientUserNameById, struct RedisModuleString *, (struct RedisModuleCtx *, uint64_t))                \
	X(GetCurrentUserName, struct RedisModuleString *, (struct RedisModuleCtx *))                             \
	X(GetModuleUserFromUserName, struct RedisModuleUser *, (struct RedisModuleString *))                     \
	X(FreeModuleUser, void, (struct RedisModuleUser *))                                                      \
	X(ACLCheckKeyPermissions, int, (struct RedisModuleUser *, struct RedisModuleString *, int))              \
	X(ACLAddLogEntry, void,                                                                                  \
	  (struct RedisModuleCtx *, struct RedisModuleUser *, struct RedisModuleString *, unsigned))             \
	X(SaveStringBuffer, void, (struct RedisModuleIO *, const char *, size_t))                                \
	X(LoadStringBuffer, char *, (struct RedisModuleIO *, size_t *))                                          \
	X(IsIOError, int, (struct RedisModuleIO *))                                                              \
	X(EmitAOF, void, (struct RedisModuleIO *, const char *, const char *, ...))                              \
	X(LogIOError, void, (struct RedisModuleIO *, const char *, const char *, ...))                           \
	X(Log, void, (struct RedisModuleCtx *, const char *, const char *, ...))                                 \
	X(DigestAddStringBuffer, void, (struct RedisModuleDigest *, const char *, size_t))                       \
	X(DigestAddLongLong, void, (struct RedisModuleDigest *, long long))                                      \
	X(DigestEndSequence, void, (struct RedisModuleDigest *))

/* Those that some server lacks: test them before use. */
#define SLR_API_OPTIONAL(X)                                                                         \
	X(GetCommand, struct RedisModuleCommand *, (struct RedisModuleCtx *, const char *))             \
	X(CreateSubcommand, int,                                                                        \
	  (struct RedisModuleCommand *, const char *, slr_command, const char *, int, int, int))        \
	X(SetCommandInfo, int, (struct RedisModuleCommand *, const struct slr_command_info *))          \
	X(SetCommandACLCategories, int, (struct RedisModuleCommand *, const char *))                    \
	X(AddACLCategory, int, (struct RedisModuleCtx *, const char *))                                 \
	X(KeyAtPosWithFlags, void, (struct RedisModuleCtx *, int, int))                                 \
	X(DefragAlloc, void *, (struct RedisModuleDefragCtx *, void *))                                 \
	X(MallocSize, size_t, (void *))                                                                 \
	X(SubscribeToServerEvent, int, (struct RedisModuleCtx *, struct slr_event, slr_event_callback)) \
	X(GetServerInfo, struct RedisModuleServerInfoData *, (struct RedisModuleCtx *, const char *))   \
	X(FreeServerInfo, void, (struct RedisModuleCtx *, struct RedisModuleServerInfoData *))          \
	X(ServerInfoGetFieldUnsigned, unsigned long long, (struct RedisModuleServerInfoData *, const char *, int *))

#define SLR_API_DECLARE(name, result, arguments) extern result(*slr_##name) arguments;
SLR_API_NEEDED(SLR_API_DECLARE)
SLR_API_OPTIONAL(SLR_API_DECLARE)
#undef SLR_API_DECLARE

/* Looks all functions up and tells the server who we are. NULL, or the name of a function that is needed and not
 * there. */
const char *slr_api_load(struct RedisModuleCtx *context, const char *name, int version);

#endif
