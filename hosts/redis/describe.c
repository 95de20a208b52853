/* What the server is told about our commands: for COMMAND DOCS, for clients that look for keys, for access lists. */
#include "hosts/redis/turn.h"

#define END \
	{ .name = NULL }
#define KEY_ARG \
	{ .name = "key", .type = SLR_ARG_KEY, .key_spec_index = 0 }
#define ARG(arg_name, arg_type) \
	{ .name = (arg_name), .type = (arg_type), .key_spec_index = -1 }
#define OPTION(arg_name, arg_type, arg_token) \
	{ .name = (arg_name), .type = (arg_type), .key_spec_index = -1, .token = (arg_token), .flags = SLR_ARG_IS_OPTIONAL }
#define COST ARG("cost", SLR_ARG_INTEGER)
#define ID ARG("id", SLR_ARG_STRING)
#define TTL ARG("ttl-ms", SLR_ARG_INTEGER)
#define AT OPTION("unix-ms", SLR_ARG_UNIX_TIME, "AT")
#define EACH OPTION("each", SLR_ARG_PURE_TOKEN, "EACH")
#define UPTO OPTION("upto", SLR_ARG_PURE_TOKEN, "UPTO")
#define TOKEN OPTION("own-id", SLR_ARG_STRING, "ID")
#define MEMBER OPTION("member", SLR_ARG_STRING, "MEMBER")
#define SOME_ITEMS                                                          \
	{                                                                       \
		.name = "item", .type = SLR_ARG_BLOCK, .key_spec_index = -1,        \
		.flags = SLR_ARG_IS_MULTIPLE | SLR_ARG_IS_OPTIONAL, .subargs = item \
	}
#define ITEMS \
	{ .name = "item", .type = SLR_ARG_BLOCK, .key_spec_index = -1, .flags = SLR_ARG_IS_MULTIPLE, .subargs = item }

static struct slr_command_arg watched[] = {
	{.name = "observed", .type = SLR_ARG_PURE_TOKEN, .key_spec_index = -1, .token = "OBSERVED"},
	{.name = "tried", .type = SLR_ARG_PURE_TOKEN, .key_spec_index = -1, .token = "TRIED"},
	END,
};
static struct slr_command_arg item[] = {
	{.name = "other-key", .type = SLR_ARG_KEY, .key_spec_index = 1, .token = "KEY", .flags = SLR_ARG_IS_OPTIONAL},
	OPTION("name", SLR_ARG_STRING, "NAME"),
	{.name = "watched", .type = SLR_ARG_ONEOF, .key_spec_index = -1, .flags = SLR_ARG_IS_OPTIONAL, .subargs = watched},
	OPTION("terms", SLR_ARG_STRING, "TERMS"),
	OPTION("own-cost", SLR_ARG_INTEGER, "COST"),
	OPTION("own-ttl-ms", SLR_ARG_INTEGER, "TTL"),
	ARG("limit", SLR_ARG_STRING),
	END,
};
static struct slr_command_arg check_args[] = {KEY_ARG, COST, AT, EACH, UPTO, TOKEN, MEMBER, ITEMS, END};
static struct slr_command_arg peek_args[] = {KEY_ARG, COST, AT, EACH, UPTO, MEMBER, ITEMS, END};
static struct slr_command_arg refund_args[] = {KEY_ARG, COST, AT, EACH, MEMBER, ITEMS, END};
static struct slr_command_arg acquire_args[] = {KEY_ARG, COST, AT, EACH, TOKEN, MEMBER, ITEMS, END};
static struct slr_command_arg reserve_args[] = {KEY_ARG, COST, TTL, AT, EACH, TOKEN, ITEMS, END};
static struct slr_command_arg release_args[] = {KEY_ARG, ID, AT, SOME_ITEMS, END};
static struct slr_command_arg holders_args[] = {KEY_ARG, AT, ARG("limit", SLR_ARG_STRING), END};
static struct slr_command_arg commit_args[] = {
	KEY_ARG, ARG("ticket", SLR_ARG_STRING), ARG("actual", SLR_ARG_INTEGER), AT, EACH, END};
static struct slr_command_arg reset_args[] = {KEY_ARG, AT, ITEMS, END};
static struct slr_command_arg hold_args[] = {KEY_ARG, COST, ID, TTL, AT, EACH, ITEMS, END};
static struct slr_command_arg confirm_args[] = {KEY_ARG, COST, ID, AT, EACH, ITEMS, END};
static struct slr_command_arg cancel_args[] = {KEY_ARG, ID, AT, ITEMS, END};
static struct slr_command_arg lease_args[] = {
	KEY_ARG,
	ID,
	TTL,
	ARG("spent", SLR_ARG_INTEGER),
	ARG("want", SLR_ARG_INTEGER),
	AT,
	OPTION("name", SLR_ARG_STRING, "NAME"),
	ARG("limit", SLR_ARG_STRING),
	END,
};
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

/* The first key, and those behind the word KEY: of these a specification can find but one, so that servers ask us. */
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
		.notes = "any number of them", .flags = (key_flags) | SLR_SPEC_INCOMPLETE,                                    \
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
	int arity; /* SLUICE.LEASE may be asked without arguments, what may be said here */
	struct slr_key_spec *keys;
	struct slr_command_arg *args;
	const char *categories;
} rows[] = {
	{"sluice.check", "Decides a request against limits and charges them if all admit it", -4, keys_changed, check_args,
     "write fast"},
	{"sluice.peek", "Decides a request without charging it", -4, keys_read, peek_args, "read fast"},
	{"sluice.refund", "Gives cost back, newest charges first", -4, keys_changed, refund_args, "write fast"},
	{"sluice.reset", "Forgets counters", -3, keys_changed, reset_args, "write fast"},
	{"sluice.hold", "Decides a request and holds its cost until it is confirmed, cancelled or its time is over", -6,
     keys_changed, hold_args, "write fast"},
	{"sluice.confirm", "Turns a hold into a charge", -5, keys_changed, confirm_args, "write fast"},
	{"sluice.cancel", "Drops a hold", -4, keys_changed, cancel_args, "write fast"},
	{"sluice.lease", "Settles a front's slice of a counter and takes the next", -1, keys_changed, lease_args,
     "write fast"},
	{"sluice.acquire", "Decides a request and gives it a lease of each limit of concurrency", -4, keys_changed,
     acquire_args, "write fast"},
	{"sluice.release", "Ends a lease", -3, keys_changed, release_args, "write fast"},
	{"sluice.renew", "Lets a lease end later", -3, keys_changed, release_args, "write fast"},
	{"sluice.holders", "Tells who holds leases", -3, keys_read, holders_args, "read slow"},
	{"sluice.reserve", "Decides a request by an estimate that is corrected later", -5, keys_changed, reserve_args,
     "write fast"},
	{"sluice.commit", "Corrects an estimate to what it has cost", -4, key_changed, commit_args, "write fast"},
	{"sluice.inspect", "Tells what a key holds", 2, key_read, inspect_args, "read slow"},
	{"sluice.effect", "Applies what a primary tells of its changes", 4, key_changed, effect_args, "admin dangerous"},
	{"cl.throttle", "Decides as redis-cell does", -5, key_changed, throttle_args, "write fast"},
};

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
		.arity = row->arity,
		.key_specs = row->keys,
		.args = row->args,
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
