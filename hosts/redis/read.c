/* Reading commands, by the grammar of all doors (proto/command.h), and what they ask as a call over values. */
#include "hosts/redis/request.h"

#include "algo/rule.h"

#include <stdarg.h>
#include <stdio.h>

#define CLIENT_TIME_SLACK_MS ((int64_t)3600000)   /* an hour, as the script has it */

struct slr_settings slr_settings; /* filled as the module is loaded */

/* One command is read at a time. */
static struct slr_call call = {.asked.items = call.items};
static struct sluice_limit limits[SLUICE_ITEMS_MAX];

/* ---- texts ------------------------------------------------------------------------------------------------------- */

bool slr_is_word(struct sluice_bytes text, const char *word) {
	return sl_bytes_equal_nocase(text, word);
}

void slr_fail(const struct slr_request *request, const char *format, ...) {
	char line[SL_COMMAND_ERROR_BYTES + 4] = "ERR ";
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(line + 4, sizeof line - 4, format, arguments);
	va_end(arguments);
	slr_ReplyWithError(request->context, line);
}

/* ---- the door ---------------------------------------------------------------------------------------------------- */

static const char *refuses_at(const struct sl_command *c) {
	(void)c;
	return slr_settings.client_time ? NULL : "load the module with the argument client-time yes";
}

/* Right into the call that it will be part of. */
static const struct sluice_limit *find_limit(struct sl_command *c, struct sluice_bytes text,
                                             struct sluice_error *error) {
	struct sluice_limit *limit = &limits[c->call->item_count];
	return slr_limit_read(limit, text, error) ? limit : NULL;
}

static const struct sl_command_door door = {.fronts = true, .refuses_at = refuses_at, .limit = find_limit};
static struct sluice_bytes texts[SL_COMMAND_ARGS_MAX];
static struct sl_ticket ticket;
static unsigned char ticket_memory[SL_TICKET_BYTES_MAX];
static struct sl_command command = {
	.door = &door, .call = &call.asked, .items = call.items, .ticket = &ticket, .ticket_memory = ticket_memory};

void slr_request_begin(struct slr_request *request, struct RedisModuleCtx *context, struct RedisModuleString **args,
                       int count) {
	request->context = context;
	request->args = args;
	request->count = (uint32_t)count;
	request->call = &call;
	request->command = &command;
	command.ticketed = false;
	call.asked.item_count = call.key_count = 0;
	call.asked.want_next = call.asked.upto = false;
	call.asked.id.len = 0;
	call.asked.ttl_ns = 0;
	call.token = 0;
	call.wall_ms = slr_clock_wall_ms;
	call.is_full = NULL;
	call.inspect = NULL;
	call.slack_ms = 0;
}

/* The texts of the arguments. */
static bool take_texts(struct slr_request *request) {
	if (request->count > SL_COMMAND_ARGS_MAX) {
		slr_fail(request, "too many arguments: at most %d in one command", SL_COMMAND_ARGS_MAX);
		return false;
	}
	for (uint32_t i = 1; i < request->count; i++)
		texts[i] = slr_arg(request, i);
	return true;
}

/* ---- what it asks ------------------------------------------------------------------------------------------------ */

__attribute__((noinline)) uint32_t slr_find_key(const struct slr_request *request, struct sluice_bytes key) {
	uint32_t k = 0;
	while (k < request->call->key_count && !sl_bytes_equal(slr_text(request->names[k]), key))
		k++;
	return k;
}

uint8_t slr_read_key(struct slr_request *request, uint32_t index) {
	uint32_t k = call.key_count == 0 ? 0 : slr_find_key(request, slr_arg(request, index));
	if (k == call.key_count)
		request->names[call.key_count++] = request->args[index];
	return (uint8_t)k;
}

/* The instant of a call that names none: whole milliseconds, so that a counter is small and a log exact to its stamps;
 * but with a bucket, as at the server's doors, the nanosecond (sl_algorithms_instant()). */
static sluice_ns instant(void) {
	sluice_ns now = slr_clock_now();
	bool by_ns = (command.algorithms & sl_algorithms_with(SL_DRAINS)) != 0;
	return by_ns ? now : now - now % SL_MS_NS;
}

/* Which key each item counts for, and in whose name. */
static void take_items(struct slr_request *request) {
	call.phased = 0;
	for (uint32_t i = 0; i < call.asked.item_count; i++) {
		if (!command.ticketed)
			call.key_of[i] = i != 0 && command.key_args[i] == command.key_args[i - 1]
			                     ? call.key_of[i - 1]
			                     : slr_read_key(request, command.key_args[i]);
		if ((command.named & 1u << i) != 0 && sl_rule_has(&limits[i], SL_HAS_COUNTER))
			sl_rule_name(&limits[i], command.names[i]);
		if (sl_rule_needs_key(&limits[i])) {
			sl_rule_key(&limits[i], call.items[i].key);
			call.phased |= 1u << i;
		}
	}
}

struct sluice_item slr_item_said(const struct slr_call *of, uint32_t i, struct sluice_limit *limit) {
	struct sluice_item item = of->items[i];
	*limit = *item.limit;
	if ((of->phased & 1u << i) != 0)
		limit->burst = 0;
	item.limit = limit;
	return item;
}

/* A key is as long as the database lets it be. But no ticket can say so long a one, other than the command's own: what
 * would be held there denies, by the bound `key`. */
static __attribute__((noinline)) void bound_long_keys(void) {
	for (uint32_t i = 0; i < call.asked.item_count; i++)
		if (call.items[i].key.len > SLUICE_KEY_BYTES_MAX && command.key_args[i] != 1 &&
		    !sl_bytes_equal(call.items[i].key, texts[1]) && sl_rule_has(&limits[i], SL_RESERVABLE))
			call.items[i].bound = SLUICE_BOUND_KEY;
}

/* What only a front or a value asks for. */
static void take_call(void) {
	call.operation = command.operation;
	call.spent = command.spent;
	call.want = command.want;
	call.id = call.asked.id.len != 0 ? sl_id_number(call.asked.id) : command.hold;
	call.asked.want_next |= command.operation == SL_OP_LEASE;
	call.keep = (command.given & (SL_SAYS(KEEP) | SL_SAYS(BESIDE))) != 0;
	if ((command.given & SL_SAYS(AT)) != 0)
		call.slack_ms = CLIENT_TIME_SLACK_MS;
	else
		call.asked.now = instant();
}

bool slr_read_call(struct slr_request *request, enum sl_operation operation) {
	if (request->count < sl_command_arity(operation)) {
		slr_WrongArity(request->context);
		return false;
	}
	if (!take_texts(request))
		return false;
	if (!sl_command_read(&command, operation, texts, request->count)) {
		slr_fail(request, "%s", command.error);
		return false;
	}
	for (uint32_t i = 0; command.ticketed && i < call.asked.item_count; i++) {
		limits[i] = *call.items[i].limit;
		call.items[i].limit = &limits[i];
		command.algorithms |= 1u << limits[i].algorithm;
	}
	take_items(request);
	take_call();
	if (operation == SL_OP_RESERVE)
		bound_long_keys();
	return true;
}

bool slr_read_throttle(struct slr_request *request) {
	if (!take_texts(request))
		return false;
	command.operation = SL_OP_THROTTLE;
	if (!sl_command_read_throttle(&command, texts, request->count) ||
	    !sl_command_throttle_limit(&command, &limits[0])) {
		slr_fail(request, "%s", command.error);
		return false;
	}
	call.items[0] = (struct sluice_item){.limit = &limits[0], .key = texts[1]};
	command.key_args[0] = 1;
	command.named = 0;
	call.asked.item_count = 1;
	take_items(request);
	take_call();
	call.operation = (enum sl_operation)call.asked.operation;
	call.asked.now = slr_clock_now();
	return true;
}
