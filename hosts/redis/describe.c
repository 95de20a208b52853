/* What the server is told about our commands: for COMMAND DOCS, for clients that look for keys, for access lists. */
#include "hosts/redis/request.h"

#define CHANGES (SLR_SPEC_KEY_RW | SLR_SPEC_ACCESS | SLR_SPEC_UPDATE)
#define READS (SLR_SPEC_KEY_RO | SLR_SPEC_ACCESS)

/* The first key, and those after the word KEY: of these a specification can find but one, so that servers ask us. */
static void fill_specs(struct slr_key_spec specs[3], const struct slr_command_row *row) {
	bool others = row->summary == NULL && (sl_forms[row->operation].words & SL_SAYS(KEY)) != 0;
	memset(specs, 0, 3 * sizeof *specs);
	if (row->key_at < 0)
		return;
	specs[0].flags = row->reads ? READS : CHANGES;
	specs[0].begin_search_type = SLR_SPEC_BEGIN_INDEX;
	specs[0].bs.index.pos = row->key_at != 0 ? row->key_at : 1;
	specs[0].find_keys_type = SLR_SPEC_FIND_RANGE;
	specs[0].fk.range.keystep = 1;
	if (!others)
		return;
	specs[1] = specs[0];
	specs[1].notes = "any number of them";
	specs[1].flags |= SLR_SPEC_INCOMPLETE;
	specs[1].begin_search_type = SLR_SPEC_BEGIN_KEYWORD;
	specs[1].bs.keyword.keyword = "KEY";
	specs[1].bs.keyword.startfrom = 2;
}

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

/* What the grammar says of a command, or its row. The server copies it. What stands in front of a limit is one block
 * with it. */
static struct slr_command_arg *args_of(const struct slr_command_row *row) {
	static struct slr_command_arg args[SL_ARGUMENTS_MAX + 2], item[SL_ARGUMENTS_MAX + 1];
	struct sl_argument told[SL_ARGUMENTS_MAX];
	uint32_t count = row->argument_count, own = 0, shared = 0;
	if (row->summary == NULL)
		count = sl_command_arguments(row->operation, true, told);
	else if (count != 0)
		memcpy(told, row->arguments, count * sizeof told[0]);
	for (uint32_t i = 0; i < count; i++) {
		bool limit = row->summary == NULL && strcmp(told[i].name, "limit") == 0;
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
static bool is_for_clients(const struct slr_command_row *row) {
	return strstr(row->categories, "admin") == NULL;
}

static void describe_one(struct RedisModuleCtx *context, const struct slr_command_row *row, bool has_category) {
	static const struct slr_info_version version = {1, sizeof(struct slr_history_entry), sizeof(struct slr_key_spec),
	                                                sizeof(struct slr_command_arg)};
	struct slr_key_spec specs[3];
	struct RedisModuleCommand *command = slr_GetCommand(context, row->name);
	struct slr_command_info info = {
		.version = &version,
		.summary = row->summary != NULL ? row->summary : sl_forms[row->operation].summary,
		.complexity = row->complexity != NULL
		                  ? row->complexity
		                  : "O(N) with N the number of limits; O(log M) for a log of M entries",
		.since = SLUICE_VERSION,
		.arity = row->arity != 0 ? row->arity : -(int)sl_command_arity(row->operation),
		.key_specs = specs,
		.args = args_of(row),
	};
	char categories[64];
	struct sluice_bytes own = sl_str(has_category && is_for_clients(row) ? " ratelimit" : "");
	struct sluice_bytes words = sl_str(row->categories);
	if (command == NULL)
		return;
	fill_specs(specs, row);
	if (slr_SetCommandInfo(command, &info) != SLR_REDIS_OK)
		slr_Log(context, "warning", "the server refused the documentation of %s", row->name);
	memcpy(categories, words.data, words.len);
	memcpy(categories + words.len, own.data, own.len);
	categories[words.len + own.len] = '\0';
	if (slr_SetCommandACLCategories != NULL && slr_SetCommandACLCategories(command, categories) != SLR_REDIS_OK)
		slr_Log(context, "warning", "the server refused the access categories of %s", row->name);
}

void slr_describe(struct RedisModuleCtx *context) {
	bool has_category = slr_AddACLCategory != NULL && slr_AddACLCategory(context, "ratelimit") == SLR_REDIS_OK;
	if (slr_GetCommand == NULL || slr_SetCommandInfo == NULL)
		return;
	for (const struct slr_command_row *row = slr_commands; row->name != NULL; row++)
		describe_one(context, row, has_category);
	if (slr_CreateSubcommand == NULL)
		return;
	for (const struct slr_command_row *row = slr_override_commands; row->name != NULL; row++)
		describe_one(context, row, has_category);
}
