/* The module as the server sees it: its commands, its type, its arguments.
 *
 *   MODULE LOAD /usr/local/lib/sluice/sluice-module.so [client-time yes|no] [client-effects yes|no] [overrides-max N]
 *
 * client-time     whether callers may set the instant with AT (no)
 * client-effects  whether SLUICE.EFFECT is taken from clients, too (no): for the tools that copy a server's commands
 * overrides-max   how many quotas of keys' own SLUICE.OVERRIDE may set, in all databases of the server (1000000) */
#include "base/out.h"
#include "hosts/redis/memory.h"
#include "hosts/redis/request.h"
#include "hosts/redis/tokens.h"
#include "os/zone.h"

enum { MODULE_VERSION = 1, OVERRIDES_MAX = 1000000 };

static bool fail_setting(struct sluice_error *error, struct sluice_bytes found, const char *what,
                         const char *expected) {
	struct sl_out out = sl_out_to(error->text, sizeof error->text - 1);
	sl_out_str(&out, what);
	sl_out_quoted(&out, found, 64);
	sl_out_str(&out, expected);
	*out.at = '\0';
	return false;
}

bool slr_settings_read(struct slr_settings *settings, struct RedisModuleString **args, int count,
                       struct sluice_error *error) {
	for (int i = 0; i < count; i += 2) {
		struct sluice_bytes name = slr_text(args[i]), value;
		bool time = slr_is_word(name, "client-time");
		bool *setting = time ? &settings->client_time : &settings->client_effects;
		bool most = slr_is_word(name, "overrides-max");
		if (!time && !most && !slr_is_word(name, "client-effects"))
			return fail_setting(error, name, "unknown argument ",
			                    ": expected client-time or client-effects, yes|no, or overrides-max, a number");
		if (i + 1 == count)
			return fail_setting(error, name, "argument ", most ? " has no value: expected a number"
			                                                   : " has no value: expected yes or no");
		value = slr_text(args[i + 1]);
		if (most && !sl_bytes_to_u64(value, &settings->overrides_max))
			return fail_setting(error, value, "overrides-max ", ": expected a whole number");
		if (most)
			continue;
		*setting = slr_is_word(value, "yes");
		if (!*setting && !slr_is_word(value, "no"))
			return fail_setting(error, value, time ? "client-time " : "client-effects ", ": expected yes or no");
	}
	return true;
}

/* Subcommands belong to the container before them. A server that knows none has no SLUICE.OVERRIDE. */
static bool create_overrides(struct RedisModuleCtx *context) {
	const struct slr_command_row *container = slr_override_commands, *row = container;
	struct RedisModuleCommand *parent;
	if (slr_GetCommand == NULL || slr_CreateSubcommand == NULL)
		return true;
	if (slr_CreateCommand(context, row->name, NULL, row->flags, 0, 0, 0) != SLR_REDIS_OK)
		return false;
	parent = slr_GetCommand(context, row->name);
	for (row++; parent != NULL && row->name != NULL; row++) {
		int key = row->key_at > 0 ? row->key_at : 0;
		if (slr_CreateSubcommand(parent, row->name + strlen(container->name) + 1, row->run, row->flags, key, key,
		                         key != 0) != SLR_REDIS_OK)
			return false;
	}
	return parent != NULL;
}

static bool create_commands(struct RedisModuleCtx *context) {
	if (!create_overrides(context)) {
		slr_Log(context, "warning", "the command sluice.override could not be made: has another module it?");
		return false;
	}
	for (const struct slr_command_row *row = slr_commands; row->name != NULL; row++)
		if (slr_CreateCommand(context, row->name, row->run, row->flags, 1, 1, 1) != SLR_REDIS_OK) {
			slr_Log(context, "warning", "the command %s could not be created: does another module have it?",
			        row->name);
			return false;
		}
	return true;
}

/* 128 bits of the server's, by which tokens are placed. */
static void take_secret(void) {
	uint64_t secret[2] = {0, 0};
	char digits[32];
	slr_GetRandomHexChars(digits, sizeof digits);
	for (size_t i = 0; i < sizeof digits; i++)
		secret[i / 16] = secret[i / 16] << 4 | (uint64_t)((digits[i] & 15) + (digits[i] > '9' ? 9 : 0));
	slr_tokens_keep_secret(secret);
}

__attribute__((visibility("default"))) int RedisModule_OnLoad(struct RedisModuleCtx *context,
                                                              struct RedisModuleString **args, int count);
__attribute__((visibility("default"), alias("RedisModule_OnLoad"))) int
ValkeyModule_OnLoad(struct RedisModuleCtx *context, struct RedisModuleString **args, int count);

int RedisModule_OnLoad(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	struct sluice_error error;
	const char *missing;
	if (slr_type != NULL) {
		/* the same file once more: what runs already, its type and its clock, is left alone */
		slr_Log(context, "warning", "the module is loaded already");
		return SLR_REDIS_ERR;
	}
	missing = slr_api_load(context, "sluice", MODULE_VERSION);
	if (missing != NULL) {
		if (slr_Log != NULL)
			slr_Log(context, "warning", "this server has no %s: Redis 7.0 or Valkey 7.2 is needed", missing);
		return SLR_REDIS_ERR;
	}
	slr_settings.overrides_max = OVERRIDES_MAX;
	if (!slr_settings_read(&slr_settings, args, count, &error)) {
		slr_Log(context, "warning", "%s", error.text);
		return SLR_REDIS_ERR;
	}
	slr_memory_take = slr_Alloc;
	slr_memory_give = slr_Free;
	take_secret();
	slr_clock_anchor();
	sl_zone_use_host();
	slr_SetModuleOptions(context,
	                     SLR_OPTION_HANDLE_IO_ERRORS | SLR_OPTION_NO_IMPLICIT_SIGNAL | SLR_OPTION_HANDLE_ASYNC_LOAD);
	if (!slr_type_create(context) || !create_commands(context))
		return SLR_REDIS_ERR;
	slr_describe(context);
	slr_listen(context);
	return SLR_REDIS_OK;
}
