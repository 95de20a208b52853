/* Tickets (proto/ticket.h), ids and tokens: how a call names what it is of.
 *
 * A ticket may name keys that no argument of its command does. They are of the slot that the command went to, for so
 * was the command that made it. The server knows nothing of them, so it is here that each is held to what the caller's
 * user may do: an id that a client has chosen is no secret, and a ticket of it is soon forged. A key that is none of
 * ours is as good as one that is not there. */
#include "proto/ticket.h"

#include "algo/step.h"
#include "base/siphash.h"
#include "hosts/redis/turn.h"

/* One command is read at a time. */
static struct sl_ticket ticket;
static unsigned char memory[SL_TICKET_BYTES_MAX];
static struct RedisModuleString *made[SLUICE_ITEMS_MAX];
static uint32_t made_count;

/* The place of a ticket's key in the call, which is the first argument's, or has been made. */
static uint8_t key_of(struct slr_turn *turn, struct sluice_bytes key) {
	struct slr_call *call = turn->call;
	struct RedisModuleString *name = turn->args[1];
	for (uint32_t k = 0; k < call->key_count; k++) {
		struct sluice_bytes known;
		known.data = slr_StringPtrLen(turn->names[k], &known.len);
		if (sl_bytes_equal(known, key))
			return (uint8_t)k;
	}
	if (!sl_bytes_equal(slr_arg(turn, 1), key))
		name = made[made_count++] = slr_CreateString(turn->context, key.data, key.len);
	turn->names[call->key_count] = name;
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
static bool user_may(struct slr_turn *turn, struct RedisModuleUser *user) {
	for (uint32_t k = 0; k < turn->call->key_count; k++) {
		if (turn->names[k] == turn->args[1] ||
		    slr_ACLCheckKeyPermissions(user, turn->names[k], SLR_SPEC_ACCESS | SLR_SPEC_UPDATE) == SLR_REDIS_OK)
			continue;
		slr_ACLAddLogEntry(turn->context, user, turn->names[k], SLR_ACL_LOG_KEY);
		return false;
	}
	return true;
}

/* False: the reply has been given. */
static bool may_use_keys(struct slr_turn *turn) {
	struct RedisModuleString *name;
	struct RedisModuleUser *user;
	bool may;
	if (made_count == 0)
		return true;
	name = current_user(turn->context);
	user = name == NULL ? NULL : slr_GetModuleUserFromUserName(name);
	may = user != NULL && user_may(turn, user);
	if (user != NULL)
		slr_FreeModuleUser(user);
	if (name != NULL)
		slr_FreeString(turn->context, name);
	if (!may)
		slr_ReplyWithError(turn->context, "NOPERM No permissions to access a key that the ticket names");
	return may;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void add_items(struct slr_turn *turn, bool leases) {
	struct slr_call *call = turn->call;
	for (uint32_t i = 0; i < ticket.count; i++) {
		struct slr_item *item = &call->items[call->item_count];
		if ((ticket.limits[i].algorithm == SLUICE_CONCURRENCY) != leases)
			continue;
		*item = (struct slr_item){.limit = ticket.limits[i], .key = key_of(turn, ticket.items[i].key)};
		turn->limit_names[call->item_count++].len = 0;
	}
}

/* AT and EACH, behind the fields. */
static bool read_rest(struct slr_turn *turn, const struct slr_form *form, uint32_t index, bool leases) {
	if (!slr_read_at(turn, &index))
		return false;
	slr_read_each(turn, form, &index);
	if (index == turn->count)
		return true;
	slr_fail(turn, "the ticket says its limits: expected nothing behind it%s but AT, found %s",
	         leases ? "" : " and the cost", slr_shown(slr_arg(turn, index)).text);
	return false;
}

bool slr_read_ticket(struct slr_turn *turn, const struct slr_form *form, uint32_t fields, bool leases,
                     bool *is_ticket) {
	turn->form = form;
	turn->call->operation = form->operation;
	*is_ticket = true;
	for (uint32_t i = 1; i < fields; i++)
		if (!slr_read_field(turn, form->fields[i], slr_arg(turn, 2 + i)))
			return false;
	*is_ticket = sl_ticket_read(&ticket, slr_arg(turn, 2), slr_arg(turn, 1), memory);
	if (!*is_ticket || !read_rest(turn, form, 2 + fields, leases) || !slr_key_fits(turn, slr_arg(turn, 1)))
		return false;
	made_count = 0;
	turn->ticketed = true;
	turn->id = ticket.id;
	turn->call->id = sl_id_number(ticket.id);
	add_items(turn, leases);
	if (!may_use_keys(turn)) {
		slr_turn_end(turn);
		return false;
	}
	if (!turn->timed)
		slr_set_instant(turn->call);
	return true;
}

void slr_turn_end(struct slr_turn *turn) {
	while (made_count != 0)
		slr_FreeString(turn->context, made[--made_count]);
}

void slr_reply_ticket(struct slr_turn *turn) {
	const struct slr_call *call = turn->call;
	static char text[SL_TICKET_BYTES_MAX], names[SLUICE_ITEMS_MAX][SLUICE_NAME_BYTES_MAX + 1];
	const char *named[SLUICE_ITEMS_MAX];
	struct sluice_item items[SLUICE_ITEMS_MAX];
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct sluice_bytes name = turn->limit_names[i];
		items[i] = (struct sluice_item){.limit = &call->items[i].limit, .observed = call->items[i].watched};
		items[i].key.data = slr_StringPtrLen(turn->names[call->items[i].key], &items[i].key.len);
		named[i] = name.len != 0 ? names[i] : NULL;
		if (name.len != 0)
			memcpy(names[i], name.data, name.len);
		names[i][name.len] = '\0';
	}
	slr_ReplyWithStringBuffer(turn->context, text,
	                          sl_ticket_write(text, call->id, slr_arg(turn, 1), items, named, call->item_count));
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

/* One counter: its key and identity. */
static uint64_t counter_hash(const struct slr_turn *turn, const struct slr_item *item) {
	/* A fixed key, as for members. */
	static const uint64_t key[2] = {0x636f756e7465722d, 0x6f662d746f6b656e};
	struct sluice_bytes name;
	name.data = slr_StringPtrLen(turn->names[item->key], &name.len);
	return sl_siphash(key, &item->limit.derived[SL_IDENT_KIND], 2, name, 2, 4);
}

/* Whether an item before it is of the same counter: a set has it once. */
static bool stands_before(const struct slr_call *call, uint32_t i) {
	for (uint32_t k = 0; k < i; k++)
		if (call->items[k].key == call->items[i].key &&
		    memcmp(call->items[k].limit.derived, call->items[i].limit.derived, 2 * sizeof(uint64_t)) == 0)
			return true;
	return false;
}

uint64_t slr_token_of(const struct slr_turn *turn) {
	static const uint64_t key[2] = {0x746f6b656e2d6f66, 0x2d726571756573};
	uint64_t sum = 0, hash;
	for (uint32_t i = 0; i < turn->call->item_count; i++)
		if (turn->call->items[i].limit.algorithm != SLUICE_UNLIMITED && turn->call->items[i].watched != SLUICE_TRIED &&
		    !stands_before(turn->call, i))
			sum += counter_hash(turn, &turn->call->items[i]);
	hash = sl_siphash(key, &sum, 1, turn->id, 2, 4);
	return hash != 0 ? hash : 1;
}
