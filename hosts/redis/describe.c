/* What the server is told about our commands: for COMMAND DOCS, for clients that look for keys, for access lists. */
#include "hosts/redis/request.h"

#define END \
	{ .name = NULL }
#define KEY_ARG \
	{ .name = "key", .type = SLR_ARG_KEY, .key_spec_index = 0 }
#define ARG(arg_name, arg_type) \
	{ .name = (arg_name), .type = (arg_type), .key_spec_index = -1 }

static struct slr_command_arg inspect_args[] = {KEY_ARG, END};
static struct slr_command_arg throttle_args[] = {
	KEY_ARG,
	ARG("max-burst", SLR_ARG_INTEGER),
	ARG("count", SLR_ARG_INTEGER),
	ARG("period", SLR_ARG_INTEGER),
	{.name = "quantity", .type = SLR_ARG_INTEGER, .key_spec_index = -1, .flags = SLR_ARG_IS_OPTIONAL},
	END,
};
static struct slr_command_arg effect_args[] = {
	KEY_ARG,
	ARG("expire-ms", SLR_ARG_INTEGER),
	ARG("payload", SLR_ARG_STRING),
	END,
};

/* The first key, and those after the word KEY: of these a specification can find but one, so that servers ask us. */
#define FIRST_KEY(key_flags)                                                                \
	{                                                                                       \
		.flags = (key_flags), .begin_search_type = SLR_SPEC_BEGIN_INDEX, .bs.index.pos = 1, \
		.find_keys_type = SLR_SPEC_FIND_RANGE, .fk.range = {                                \
			0,                                                                              \
			1,                                                                              \
			0                                                                               \
		}                                                                                   \
	}
#define OTHER_KEYS(key_flags)                                                                                         \
	{                                                                                                                 \
		.notes = "any number of them", .flags = (key_flags) | SLR_SPEC_INCOMPLETE,                                  \
		.begin_search_type = SLR_SPEC_BEGIN_KEYWORD, .bs.keyword = {"KEY", 2}, .find_keys_type = SLR_SPEC_FIND_RANGE, \
		.fk.range = {                                                                                                 \
			0,                                                                                                        \
			1,                                                                                                        \
			0                                                                                                         \
		}                                                                                                             \
	}
#define CHANGES (SLR_SPEC_KEY_RW | SLR_SPEC_ACCESS | SLR_SPEC_UPDATE)
#define READS (SLR_SPEC_KEY_RO | SLR_SPEC_ACCESS)
#define NO_KEY \
	{ .begin_search_type = 0 }

static struct slr_key_spec keys_changed[] = {FIRST_KEY(CHANGES), OTHER_KEYS(CHANGES), NO_KEY};
static struct slr_key_spec keys_read[] = {FIRST_KEY(READS), OTHER_KEYS(READS), NO_KEY};
static struct slr_key_spec key_changed[] = {FIRST_KEY(CHANGES), NO_KEY};
static struct slr_key_spec key_read[] = {FIRST_KEY(READS), NO_KEY};

static const struct row {
	const char *name, *summary;
	int arity; /* SLUICE.LEASE may be asked without arguments, what may be said here; 0: the grammar's */
	struct slr_key_spec *keys;
	struct slr_command_arg *args; /* NULL: those of the grammar, by the operation */
	enum sl_operation operation;
	const char *categories;
} rows[] = {
	{"sluice.check", "Decides a request against limits and charges them if all admit it", 0, keys_changed, NULL,
     SL_OP_CHECK, "write fast"},
	{"sluice.peek", "Decides a request without charging it", 0, keys_read, NULL, SL_OP_PEEK, "read fast"},
	{"sluice.refund", "Gives cost back, newest charges first", 0, keys_changed, NULL, SL_OP_REFUND, "write fast"},
	{"sluice.reset", "Forgets counters", 0, keys_changed, NULL, SL_OP_RESET, "write fast"},
	{"sluice.hold", "Decides a request and holds its cost until it is confirmed, cancelled or its time is over", 0,
     keys_changed, NULL, SL_OP_HOLD, "write fast"},
	{"sluice.confirm", "Turns a hold into a charge", 0, keys_changed, NULL, SL_OP_CONFIRM, "write fast"},
	{"sluice.cancel", "Drops a hold", 0, keys_changed, NULL, SL_OP_CANCEL, "write fast"},
	{"sluice.lease", "Settles a front's slice of a counter and takes the next", -1, keys_changed, NULL, SL_OP_LEASE,
     "write fast"},
	{"sluice.acquire", "Decides a request and gives it a lease of each limit of concurrency", 0, keys_changed, NULL,
     SL_OP_ACQUIRE, "write fast"},
	{"sluice.release", "Ends a lease", 0, keys_changed, NULL, SL_OP_RELEASE, "write fast"},
	{"sluice.renew", "Lets a lease end later", 0, keys_changed, NULL, SL_OP_RENEW, "write fast"},
	{"sluice.holders", "Tells who holds leases", 0, keys_read, NULL, SL_OP_HOLDERS, "read slow"},
	{"sluice.reserve", "Decides a request by an estimate that is corrected later", 0, keys_changed, NULL,
     SL_OP_RESERVE, "write fast"},
	{"sluice.commit", "Corrects an estimate to what it has cost", 0, key_changed, NULL, SL_OP_COMMIT, "write fast"},
	{"sluice.inspect", "Tells what a key holds", 2, key_read, inspect_args, 0, "read slow"},
	{"sluice.effect", "Applies what a primary tells of its changes", 4, key_changed, effect_args, 0,
     "admin dangerous"},
	{"cl.throttle", "Decides as redis-cell does", -5, key_changed, throttle_args, 0, "write fast"},
};

static int type_of(enum sl_argument_type type) {
	static const int types[] = {
		[SL_ARGUMENT_KEY] = SLR_ARG_KEY,           [SL_ARGUMENT_STRING] = SLR_ARG_STRING,
		[SL_ARGUMENT_INTEGER] = SLR_ARG_INTEGER,   [SL_ARGUMENT_INSTANT] = SLR_ARG_UNIX_TIME,
		[SL_ARGUMENT_TOKEN] = SLR_ARG_PURE_TOKEN,
	};
	return types[type];
}

static struct slr_command_arg arg_of(const struct sl_argument *told) {
	return (struct slr_command_arg){
		.name = told->name,
		.type = type_of(told->type),
		.key_spec_index = told->type == SL_ARGUMENT_KEY ? 0 : -1,
		.token = told->token,
		.flags = (told->optional ? SLR_ARG_IS_OPTIONAL : 0) | (told->multiple ? SLR_ARG_IS_MULTIPLE : 0),
	};
}

/* What the grammar says of a command. The server copies it. What stands in front of a limit is one block with it. */
static struct slr_command_arg *args_of(enum sl_operation operation) {
	static struct slr_command_arg args[SL_ARGUMENTS_MAX + 2], item[SL_ARGUMENTS_MAX + 1];
	struct sl_argument told[SL_ARGUMENTS_MAX];
	uint32_t count = sl_command_arguments(operation, true, told), own = 0, shared = 0;
	for (uint32_t i = 0; i < count; i++) {
		bool limit = strcmp(told[i].name, "limit") == 0;
		struct slr_command_arg arg = arg_of(&told[i]);
		if (!told[i].ahead && !limit) {
			args[shared++] = arg;
			continue;
		}
		arg.flags &= limit ? 0 : SLR_ARG_IS_OPTIONAL;
		item[own++] = arg;
		if (limit)
			args[shared++] = (struct slr_command_arg){
				.name = "item",
				.type = SLR_ARG_BLOCK,
				.key_spec_index = -1,
				.flags = (told[i].optional ? SLR_ARG_IS_OPTIONAL : 0) | (told[i].multiple ? SLR_ARG_IS_MULTIPLE : 0),
				.subargs = item,
			};
	}
	args[shared] = item[own] = (struct slr_command_arg){.name = NULL};
	return args;
}

/* What no client sends is in no category that clients are given. */
static bool is_for_clients(const struct row *row) {
	return strstr(row->categories, "admin") == NULL;
}

static void describe_one(struct RedisModuleCtx *context, const struct row *row, bool has_category) {
	static const struct slr_info_version version = {1, sizeof(struct slr_history_entry), sizeof(struct slr_key_spec),
	                                                sizeof(struct slr_command_arg)};
	struct RedisModuleCommand *command = slr_GetCommand(context, row->name);
	struct slr_command_info info = {
		.version = &version,
		.summary = row->summary,
		.complexity = "O(N) with N the number of limits; O(log M) for a log of M entries",
		.since = SLUICE_VERSION,
		.arity = row->arity != 0 ? row->arity : -(int)sl_command_arity(row->operation),
		.key_specs = row->keys,
		.args = row->args != NULL ? row->args : args_of(row->operation),
	};
	char categories[64];
	struct sluice_bytes own = sl_str(has_category && is_for_clients(row) ? " ratelimit" : "");
	struct sluice_bytes words = sl_str(row->categories);
	if (command == NULL)
		return;
	if (slr_SetCommandInfo(command, &info) != SLR_REDIS_OK)
		slr_Log(context, "warning", "the server takes no documentation of %s", row->name);
	memcpy(categories, words.data, words.len);
	memcpy(categories + words.len, own.data, own.len);
	categories[words.len + own.len] = '\0';
	if (slr_SetCommandACLCategories != NULL && slr_SetCommandACLCategories(command, categories) != SLR_REDIS_OK)
		slr_Log(context, "warning", "the server takes no access categories of %s", row->name);
}

void slr_describe(struct RedisModuleCtx *context) {
	bool has_category = slr_AddACLCategory != NULL && slr_AddACLCategory(context, "ratelimit") == SLR_REDIS_OK;
	if (slr_GetCommand == NULL || slr_SetCommandInfo == NULL)
		return;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		describe_one(context, &rows[i], has_category);
}
