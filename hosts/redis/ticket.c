/* Tickets (proto/ticket.h), ids and tokens: how a call names what it is of.
 *
 * A ticket may name keys that no argument of its command does. They are of the slot that the command went to, for so
 * was the command that made it. The server knows nothing of them, so it is here that each is held to what the caller's
 * user may do: an id that a client has chosen is no secret, and a ticket of it is soon forged. A key that is none of
 * ours is as good as one that is not there. */
#include "proto/ticket.h"

#include "algo/step.h"
#include "base/siphash.h"
#include "hosts/redis/request.h"

/* One command is read at a time. */
static struct RedisModuleString *made[SLUICE_ITEMS_MAX];
static uint32_t made_count;

/* The place of a ticket's key in the call, which is the first argument's, or has been made. */
static uint8_t key_of(struct slr_request *request, struct sluice_bytes key) {
	struct slr_call *call = request->call;
	uint32_t k = slr_find_key(request, key);
	if (k < call->key_count)
		return (uint8_t)k;
	request->names[k] = request->args[1];
	if (!sl_bytes_equal(slr_arg(request, 1), key))
		request->names[k] = made[made_count++] = slr_CreateString(request->context, key.data, key.len);
	return (uint8_t)call->key_count++;
}

/* ---- whose keys -------------------------------------------------------------------------------------------------- */

/* The name of the user that a command runs as; NULL: of nobody, it is another module's or the server's own. In a script
 * the client is the script's, which has no number, and runs as the user who called it. */
static struct RedisModuleString *current_user(struct RedisModuleCtx *context) {
	return (slr_GetContextFlags(context) & SLR_CONTEXT_LUA) != 0
	           ? slr_GetCurrentUserName(context)
	           : slr_GetClientUserNameById(context, slr_GetClientId(context));
}

/* May a user change all keys of the call that the command's own arguments don't say? */
static bool user_may(struct slr_request *request, struct RedisModuleUser *user) {
	for (uint32_t k = 0; k < request->call->key_count; k++) {
		if (request->names[k] == request->args[1] ||
		    slr_ACLCheckKeyPermissions(user, request->names[k], SLR_SPEC_ACCESS | SLR_SPEC_UPDATE) == SLR_REDIS_OK)
			continue;
		slr_ACLAddLogEntry(request->context, user, request->names[k], SLR_ACL_LOG_KEY);
		return false;
	}
	return true;
}

struct RedisModuleUser *slr_user_of(struct RedisModuleCtx *context) {
	struct RedisModuleString *name = current_user(context);
	struct RedisModuleUser *user = name == NULL ? NULL : slr_GetModuleUserFromUserName(name);
	if (name != NULL)
		slr_FreeString(context, name);
	return user;
}

/* False: the reply has been given. */
static bool may_use_keys(struct slr_request *request) {
	struct RedisModuleUser *user;
	bool may;
	if (made_count == 0)
		return true;
	user = slr_user_of(request->context);
	may = user != NULL && user_may(request, user);
	if (user != NULL)
		slr_FreeModuleUser(user);
	if (!may)
		slr_ReplyWithError(request->context, "NOPERM No permissions to access a key that the ticket names");
	return may;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

bool slr_take_ticket_keys(struct slr_request *request) {
	made_count = 0;
	for (uint32_t i = 0; i < request->call->asked.item_count; i++)
		request->call->key_of[i] = key_of(request, request->call->items[i].key);
	if (may_use_keys(request))
		return true;
	slr_request_end(request);
	return false;
}

void slr_request_end(struct slr_request *request) {
	while (made_count != 0)
		slr_FreeString(request->context, made[--made_count]);
}

/* Of what is held: not of an observed limit that has denied by a bound, whose key no ticket can say. */
struct sluice_bytes slr_ticket_of(const struct slr_request *request) {
	const struct slr_call *call = request->call;
	static char text[SL_TICKET_BYTES_MAX], names[SLUICE_ITEMS_MAX][SLUICE_NAME_BYTES_MAX + 1];
	const char *named[SLUICE_ITEMS_MAX];
	struct sluice_limit limits[SLUICE_ITEMS_MAX];
	struct sluice_item items[SLUICE_ITEMS_MAX];
	uint32_t count = 0;
	for (uint32_t i = 0; i < call->asked.item_count; i++) {
		if (call->items[i].bound != SLUICE_BOUND_NONE)
			continue;
		items[count] = slr_item_said(call, i, &limits[count]);
		struct sluice_bytes name = request->command->names[i];
		bool has_name = (request->command->named & 1u << i) != 0 && sl_rule_has(call->items[i].limit, SL_HAS_COUNTER);
		named[count] = has_name ? names[count] : NULL;
		if (has_name)
			memcpy(names[count], name.data, name.len);
		names[count++][has_name ? name.len : 0] = '\0';
	}
	return sl_slice(text, sl_ticket_write(text, call->id, slr_arg(request, 1), items, named, count));
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

/* One counter: its key and identity. */
static uint64_t counter_hash(const struct slr_request *request, uint32_t i) {
	/* A fixed key, as for members. */
	static const uint64_t key[2] = {0x636f756e7465722d, 0x6f662d746f6b656e};
	return sl_siphash(key, &request->call->items[i].limit->derived[SL_IDENT_KIND], 2,
	                  slr_text(request->names[request->call->key_of[i]]), 2, 4);
}

/* Whether an item before it is of the same counter: a set has it once. */
static bool stands_before(const struct slr_call *call, uint32_t i) {
	for (uint32_t k = 0; k < i; k++)
		if (call->key_of[k] == call->key_of[i] &&
		    sl_identity_equal(sl_identity_of(call->items[k].limit), sl_identity_of(call->items[i].limit)))
			return true;
	return false;
}

uint64_t slr_token_of(const struct slr_request *request) {
	static const uint64_t key[2] = {0x746f6b656e2d6f66, 0x2d726571756573};
	const struct slr_call *call = request->call;
	uint64_t sum = 0, hash;
	for (uint32_t i = 0; i < call->asked.item_count; i++)
		if (sl_rule_has(call->items[i].limit, SL_HAS_COUNTER) && call->items[i].observed != SLUICE_TRIED &&
		    !stands_before(call, i))
			sum += counter_hash(request, i);
	hash = sl_siphash(key, &sum, 1, call->asked.id, 2, 4);
	return hash != 0 ? hash : 1;
}
