/* The commands that decide, and SLUICE.EFFECT, by which replicas and append-only files are told what came of it. */
#include "base/math.h"
#include "hosts/redis/memory.h"
#include "hosts/redis/own_quota.h"
#include "hosts/redis/request.h"
#include "proto/answer.h"
#include "proto/inspection.h"

/* ---- replies ----------------------------------------------------------------------------------------------------- */

static void put_array(void *to, uint32_t count) {
	slr_ReplyWithArray(to, count);
}

static void put_integer(void *to, int64_t value) {
	slr_ReplyWithLongLong(to, value);
}

static void put_text(void *to, struct sluice_bytes text) {
	if (text.data == NULL)
		slr_ReplyWithNull(to);
	else
		slr_ReplyWithStringBuffer(to, text.data, text.len);
}

static void put_error(void *to, const char *text) {
	slr_ReplyWithError(to, text);
}

static const struct sl_answer_sink sink = {put_array, put_integer, put_text, put_error};

static void *put_one(void *to, int64_t value) {
	slr_ReplyWithLongLong(to, value);
	return to;
}

static void reply_seven(const struct slr_request *request, int more) {
	const struct sluice_decision *merged = &request->call->asked.merged;
	slr_ReplyWithArray(request->context, SL_FIGURES + more);
	(void)sl_answer_seven(put_one, request->context, merged, merged->allowed, merged->index);
}

static void reply_cell(const struct slr_request *request) {
	slr_ReplyWithArray(request->context, SL_FIGURES_CELL);
	(void)sl_answer_cell(put_one, request->context, &request->call->asked.merged);
}

/* The id of what there is now under it: a lease, or a reservation. */
static struct sluice_bytes id_of(const struct slr_request *request, const struct sluice_call *call) {
	enum sl_operation operation = request->command->operation;
	bool is_id = operation == SL_OP_ACQUIRE || operation == SL_OP_RESERVE;
	if (!is_id || !sl_answer_holds(call) || call->merged.index < 0) /* a reservation of what counts nothing is none */
		return sl_slice(NULL, 0);
	return operation == SL_OP_ACQUIRE ? call->id : slr_ticket_of(request);
}

static void reply_more(const struct slr_request *request) {
	const struct sl_command *command = request->command;
	struct sl_outcome outcome = {
		.operation = command->operation, .given = command->given, .call = &request->call->asked};
	outcome.id = id_of(request, outcome.call);
	if (sl_answer_is_decision(&outcome)) {
		reply_seven(request, sl_answer_more(&outcome));
		sl_answer_put_more(&sink, request->context, &outcome);
	} else {
		sl_answer_put_other(&sink, request->context, &outcome);
	}
}

static void reply(const struct slr_request *request) {
	if (sl_answer_is_plain(request->command->operation, request->command->given))
		reply_seven(request, 0);
	else if (request->command->operation == SL_OP_THROTTLE)
		reply_cell(request);
	else
		reply_more(request);
}

/* ---- deciding ---------------------------------------------------------------------------------------------------- */

/* What is acquired or reserved without a name gets one. */
static __attribute__((noinline)) void make_id(struct slr_request *request) {
	static char made[17]; /* read until the reply has been given */
	slr_GetRandomHexChars(made, 16);
	request->call->asked.id = sl_slice(made, 16);
	request->call->id = sl_id_number(request->call->asked.id);
}

/* Decides a call that has been read, and replies. */
static int decide(struct slr_request *request) {
	struct slr_call *call = request->call;
	bool has_id = call->asked.id.len != 0;
	if (has_id && call->operation == SL_OP_CHECK)
		call->token = slr_token_of(request);
	else if (!has_id && (call->operation == SL_OP_ACQUIRE || call->operation == SL_OP_RESERVE))
		make_id(request);
	if (!slr_keys_open(request, call->operation != SL_OP_PEEK))
		return SLR_REDIS_OK;
	if (slr_request_decide(request)) {
		slr_keys_keep(request);
		reply(request);
	}
	slr_keys_close(request);
	return SLR_REDIS_OK;
}

/* Tells the server, which asks for that, the positions of the keys. */
static __attribute__((noinline)) int tell_positions(struct RedisModuleCtx *context, struct RedisModuleString **args,
                                                    int count, enum sl_operation operation) {
	struct sluice_bytes texts[SL_COMMAND_ARGS_MAX];
	uint16_t positions[SL_COMMAND_ARGS_MAX];
	uint32_t read = count < SL_COMMAND_ARGS_MAX ? (uint32_t)count : SL_COMMAND_ARGS_MAX;
	uint32_t found;
	for (uint32_t i = 0; i < read; i++)
		texts[i] = slr_text(args[i]);
	found = sl_command_keys(operation, texts, read, positions);
	for (uint32_t i = 0; i < found; i++)
		slr_KeyAtPos(context, positions[i]);
	return SLR_REDIS_OK;
}

static int run(struct RedisModuleCtx *context, struct RedisModuleString **args, int count,
               enum sl_operation operation) {
	struct slr_request request;
	if (slr_IsKeysPositionRequest(context))
		return tell_positions(context, args, count, operation);
	slr_request_begin(&request, context, args, count);
	if (!slr_read_call(&request, operation) || (request.command->ticketed && !slr_take_ticket_keys(&request)))
		return SLR_REDIS_OK;
	(void)decide(&request);
	if (request.command->ticketed)
		slr_request_end(&request);
	return SLR_REDIS_OK;
}

#define COMMAND(command, operation)                                                                 \
	static int command(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) { \
		return run(context, args, count, operation);                                                \
	}

COMMAND(check, SL_OP_CHECK)
COMMAND(peek, SL_OP_PEEK)
COMMAND(refund, SL_OP_REFUND)
COMMAND(reset, SL_OP_RESET)
COMMAND(hold, SL_OP_HOLD)
COMMAND(confirm, SL_OP_CONFIRM)
COMMAND(cancel, SL_OP_CANCEL)
COMMAND(acquire, SL_OP_ACQUIRE)
COMMAND(release, SL_OP_RELEASE)
COMMAND(renew, SL_OP_RENEW)
COMMAND(reserve, SL_OP_RESERVE)
COMMAND(commit, SL_OP_COMMIT)

/* Without arguments it says what may be said here. */
static int lease(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	if (count == 1 && !slr_IsKeysPositionRequest(context))
		return slr_ReplyWithLongLong(context, SLR_GRAMMAR);
	return run(context, args, count, SL_OP_LEASE);
}

static int throttle(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	struct slr_request request;
	if (count < 5 || count > 6)
		return slr_WrongArity(context);
	slr_request_begin(&request, context, args, count);
	return slr_read_throttle(&request) ? decide(&request) : SLR_REDIS_OK;
}

/* ---- who holds leases -------------------------------------------------------------------------------------------- */

static void reply_holders(struct slr_request *request) {
	uint32_t count = slr_holders_of(request->call, NULL, 0);
	struct sluice_holder *list = slr_take((count + 1) * sizeof *list);
	count = slr_holders_of(request->call, list, count);
	slr_ReplyWithArray(request->context, count);
	for (uint32_t i = 0; i < count; i++) {
		char id[17];
		sl_hex_text(id, list[i].id);
		slr_ReplyWithArray(request->context, 3);
		slr_ReplyWithStringBuffer(request->context, id, 16);
		slr_ReplyWithLongLong(request->context, list[i].cost);
		slr_ReplyWithLongLong(request->context, sl_ns_to_ms_ceil(list[i].ends_after_ns));
	}
	slr_give(list);
}

static int holders(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	struct slr_request request;
	if (slr_IsKeysPositionRequest(context))
		return tell_positions(context, args, count, SL_OP_HOLDERS);
	slr_request_begin(&request, context, args, count);
	if (!slr_read_call(&request, SL_OP_HOLDERS) || !slr_keys_open(&request, false))
		return SLR_REDIS_OK;
	reply_holders(&request);
	slr_keys_close(&request);
	return SLR_REDIS_OK;
}

/* ---- what counters hold ------------------------------------------------------------------------------------------ */

/* What holds and slices take of a limit's counter, which is not in what was charged. */
static struct sl_held_there held_of(const struct slr_call *call, uint32_t at, const struct sluice_inspection *told) {
	sluice_ns clock = sl_max(call->asked.now, told->last_ns);
	struct slr_counter scratch;
	const struct slr_counter *counter =
		slr_value_find(call->keys[call->key_of[at]].value, sl_identity_of(call->items[at].limit), &scratch);
	const struct slr_holds *holds = counter != NULL ? slr_counter_holds(counter) : NULL;
	struct sl_held_there held = {.cost = 0};
	for (uint32_t i = 0; holds != NULL && i < holds->count; i++) {
		const struct slr_hold *hold = &holds->list[i];
		if (hold->end <= clock)
			continue;
		held.cost += hold->cost;
		if (hold->lease == 0 || held.slice_count == SL_HELD_SLICES_MAX)
			continue;
		held.slices[held.slice_count].ends_ms = sl_inspection_ms(hold->end);
		held.slices[held.slice_count++].cost = hold->cost;
	}
	return held;
}

static void reply_inspected(struct slr_request *request, uint32_t at, const struct sluice_inspection *told) {
	const struct slr_call *call = request->call;
	const struct sl_held_there held = held_of(call, at, told);
	if ((request->command->given & SL_SAYS(EACH)) != 0) {
		sl_inspection_put_figures(&sink, request->context, told, &held);
		return;
	}
	struct sluice_limit limit;
	const struct sluice_item said = slr_item_said(call, at, &limit);
	sl_inspection_put(&sink, request->context, &said, told, 2);
	sl_held_put(&sink, request->context, &held);
}

static int inspect(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	static struct sluice_inspection told[SLUICE_ITEMS_MAX]; /* one command is run at a time */
	struct slr_request request;
	if (slr_IsKeysPositionRequest(context))
		return tell_positions(context, args, count, SL_OP_INSPECT);
	if (count == 2)
		return slr_inspect(context, args, count);
	slr_request_begin(&request, context, args, count);
	if (!slr_read_call(&request, SL_OP_INSPECT))
		return SLR_REDIS_OK;
	request.call->operation = SL_OP_PEEK;
	request.call->asked.cost = 1;
	request.call->asked.want_next = true;
	request.call->inspect = told;
	if (!slr_keys_open(&request, false))
		return SLR_REDIS_OK;
	if (slr_request_decide(&request)) {
		const struct sluice_call *asked = &request.call->asked;
		put_array(context, asked->item_count);
		for (uint32_t i = 0; i < asked->item_count; i++)
			reply_inspected(&request, i, &told[i]);
	}
	slr_keys_close(&request);
	return SLR_REDIS_OK;
}

/* ---- effects ----------------------------------------------------------------------------------------------------- */

static bool read_expiry(struct sluice_bytes text, int64_t *expire_ms) {
	uint64_t ms;
	*expire_ms = SLR_NO_EXPIRE;
	if (text.len == 2 && memcmp(text.data, "-1", 2) == 0)
		return true;
	if (!sl_bytes_to_u64(text, &ms) || ms > (uint64_t)INT64_MAX)
		return false;
	*expire_ms = (int64_t)ms;
	return true;
}

static void apply(struct slr_request *request, int64_t expire_ms) {
	struct slr_key *key = &request->call->keys[0];
	slr_value before = key->value;
	bool right = slr_effects_apply(&key->value, slr_arg(request, 3));
	if (!right)
		slr_fail(request,
		         "the payload is damaged, or of another version: expected what SLUICE.EFFECT was sent by a primary");
	key->changed = right || key->value != before;
	key->expire_ms = 0;
	key->effects.bytes.len = 0;
	request->call->heard = false; /* so it is handed on as it came, to our own file and replicas */
	slr_keys_keep(request);
	if (!right)
		return;
	if (key->value != 0 && (expire_ms != SLR_NO_EXPIRE || slr_own_endless(key->value)))
		slr_SetAbsExpire(request->keys[0], expire_ms);
	slr_ReplyWithSimpleString(request->context, "OK");
}

/* Whoever may send effects makes of a counter whatever he likes: so they come from a primary, or out of an append-only
 * file that is being read. */
static bool may_tell(struct RedisModuleCtx *context) {
	return slr_settings.client_effects ||
	       (slr_GetContextFlags(context) & (SLR_CONTEXT_REPLICATED | SLR_CONTEXT_LOADING)) != 0;
}

static int effect(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	struct slr_request request;
	int64_t expire_ms;
	if (count != 4)
		return slr_WrongArity(context);
	if (!may_tell(context)) {
		slr_ReplyWithError(context, "NOPERM SLUICE.EFFECT is for replicas and append-only files: clients may send it "
		                            "only if the module is loaded with client-effects yes");
		return SLR_REDIS_OK;
	}
	slr_request_begin(&request, context, args, count);
	if (!read_expiry(slr_arg(&request, 2), &expire_ms)) {
		slr_fail(&request, "expire_ms %s: expected Unix milliseconds, or -1 for no expiry",
		         sl_shown(slr_arg(&request, 2)).text);
		return SLR_REDIS_OK;
	}
	(void)slr_read_key(&request, 1);
	if (!slr_keys_open(&request, true))
		return SLR_REDIS_OK;
	apply(&request, expire_ms);
	slr_keys_close(&request);
	return SLR_REDIS_OK;
}

/* ---- the commands ------------------------------------------------------------------------------------------------ */

#define WRITES .flags = "write fast getkeys-api", .categories = "write fast"
#define READS .reads = true, .categories = "read slow"

static const struct sl_argument effect_arguments[] = {
	{.name = "key", .type = SL_ARGUMENT_KEY},
	{.name = "expire-ms", .type = SL_ARGUMENT_INTEGER},
	{.name = "payload", .type = SL_ARGUMENT_STRING},
};

const struct slr_command_row slr_commands[] = {
	{"sluice.check", check, SL_OP_CHECK, WRITES},
	{"sluice.peek", peek, SL_OP_PEEK, "readonly fast getkeys-api", "read fast", .reads = true},
	{"sluice.refund", refund, SL_OP_REFUND, WRITES},
	{"sluice.reset", reset, SL_OP_RESET, WRITES},
	{"sluice.hold", hold, SL_OP_HOLD, WRITES},
	{"sluice.confirm", confirm, SL_OP_CONFIRM, WRITES},
	{"sluice.cancel", cancel, SL_OP_CANCEL, WRITES},
	{"sluice.lease", lease, SL_OP_LEASE, WRITES, .arity = -1}, /* it may be asked what may be said here */
	{"sluice.acquire", acquire, SL_OP_ACQUIRE, WRITES},
	{"sluice.release", release, SL_OP_RELEASE, WRITES},
	{"sluice.renew", renew, SL_OP_RENEW, WRITES},
	{"sluice.holders", holders, SL_OP_HOLDERS, "readonly getkeys-api", READS},
	{"sluice.reserve", reserve, SL_OP_RESERVE, WRITES},
	{"sluice.commit", commit, SL_OP_COMMIT, WRITES},
	{"sluice.inspect", inspect, SL_OP_INSPECT, "readonly getkeys-api", READS, .arity = -2}, /* a key alone will do */
	{"sluice.effect", effect, 0, "write admin", "admin dangerous", .arity = 4,
     .summary = "Applies the changes that a primary made", .arguments = effect_arguments, .argument_count = 3},
	{"cl.throttle", throttle, SL_OP_THROTTLE, "write fast", "write fast", .arity = -5},
	{.name = NULL},
};
