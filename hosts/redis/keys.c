/* The keys of a call: out of the server's hands and back into them.
 *
 * While a call is decided a value is ours alone: what the server holds of it may be gone. It is told of the new one
 * before anything else is asked of it. A key is reported as modified only when it was: a denial does not end a
 * transaction that WATCHes the key, nor a client's cache of it. */
#include "hosts/redis/own_quota.h"
#include "hosts/redis/request.h"

static bool open_one(struct slr_request *request, uint32_t k, bool to_write) {
	struct slr_key *key = &request->call->keys[k];
	struct RedisModuleKey *opened =
		slr_OpenKey(request->context, request->names[k], to_write ? SLR_KEY_READ | SLR_KEY_WRITE : SLR_KEY_READ);
	request->keys[k] = opened;
	key->value = 0;
	if (opened == NULL || slr_KeyType(opened) == SLR_KEYTYPE_EMPTY)
		return true;
	if (slr_ModuleTypeGetType(opened) != slr_type) {
		if (request->command->ticketed && request->names[k] != request->args[1])
			return true; /* nobody learns from a forged ticket what a key holds */
		slr_ReplyWithError(request->context, SLR_WRONGTYPE);
		return false;
	}
	key->value = (slr_value)slr_ModuleTypeGetValue(opened);
	return true;
}

static void close_first(struct slr_request *request, uint32_t count) {
	for (uint32_t k = 0; k < count; k++)
		if (request->keys[k] != NULL)
			slr_CloseKey(request->keys[k]);
}

bool slr_keys_open(struct slr_request *request, bool to_write) {
	for (uint32_t k = 0; k < request->call->key_count; k++) {
		if (!open_one(request, k, to_write)) {
			close_first(request, k + 1);
			return false;
		}
	}
	return true;
}

void slr_keys_close(struct slr_request *request) {
	close_first(request, request->call->key_count);
}

/* Hands a value over; 0 is no key. Returns whether there was a key. */
static bool put_value(struct RedisModuleKey *opened, slr_value value) {
	if (slr_KeyType(opened) == SLR_KEYTYPE_EMPTY) {
		if (value != 0)
			slr_ModuleTypeSetValue(opened, slr_type, (void *)value);
		return false;
	}
	slr_ModuleTypeReplaceValue(opened, slr_type, (void *)value, NULL);
	if (value == 0)
		slr_DeleteKey(opened);
	return true;
}

/* The expiry of a key that was there without one (PERSIST, RESTORE): how long its other counters are kept was said by
 * the one that it had. */
static __attribute__((noinline)) int64_t expiry_anew(const struct slr_call *call, const struct slr_key *key) {
	int64_t all_ms = slr_own_expiry(key->value, NULL, call->asked.now, call->wall_ms(), SLR_NO_EXPIRE) + call->slack_ms;
	return all_ms > key->expire_ms ? all_ms : key->expire_ms;
}

/* Keeps a key as long as it has to be, and a little longer where it is charged again: each look-up of an expiry costs
 * what deciding does, and setting one costs two. `there`: before the call. Returns the expiry that the key has then. */
static int64_t put_expiry(const struct slr_request *request, uint32_t k, bool there) {
	const struct slr_key *key = &request->call->keys[k];
	struct RedisModuleKey *opened = request->keys[k];
	int64_t expire_ms = slr_GetAbsExpire(opened);
	if (key->exact || (expire_ms == SLR_NO_EXPIRE && slr_own_endless(key->value))) {
		if (key->exact && expire_ms != key->expire_ms)
			slr_SetAbsExpire(opened, key->expire_ms);
		return key->exact ? key->expire_ms : expire_ms;
	}
	if (key->expire_ms <= expire_ms)
		return expire_ms;
	/* a key that was just made, and may never be charged again, has none, and SLR_NO_EXPIRE is less than any */
	if (expire_ms != SLR_NO_EXPIRE)
		expire_ms = key->expire_ms + key->spare_ms;
	else
		expire_ms = there ? expiry_anew(request->call, key) : key->expire_ms;
	slr_SetAbsExpire(opened, expire_ms);
	return expire_ms;
}

enum { UNKNOWN = -2 /* an expiry that was not looked at */ };

/* Tells replicas and the append-only file what became of a key; or only counts the change, for the server's points at
 * which it saves by itself. */
static void tell(struct slr_request *request, uint32_t k, int64_t expire_ms) {
	const struct slr_bytes *effects = &request->call->keys[k].effects.bytes;
	if (!request->call->heard) {
		slr_ReplicateVerbatim(request->context); /* reaches nobody: nobody listens (listen.c) */
		return;
	}
	if (effects->len == 0)
		return;
	if (expire_ms == UNKNOWN)
		expire_ms = slr_GetAbsExpire(request->keys[k]);
	slr_Replicate(request->context, "SLUICE.EFFECT", "slb", request->names[k], (long long)expire_ms,
	              (const char *)effects->data, effects->len);
}

void slr_keys_keep(struct slr_request *request) {
	for (uint32_t k = 0; k < request->call->key_count; k++) {
		struct slr_key *key = &request->call->keys[k];
		int64_t expire_ms = UNKNOWN;
		bool there;
		if (!key->changed)
			continue;
		there = put_value(request->keys[k], key->value);
		if (key->value == 0)
			expire_ms = SLR_NO_EXPIRE;
		else if (key->expire_ms != 0)
			expire_ms = put_expiry(request, k, there);
		slr_SignalModifiedKey(request->context, request->names[k]);
		tell(request, k, expire_ms);
	}
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static struct slr_request *deciding; /* one command at a time */

/* Whether Redis would refuse a command that adds to its memory. Above maxmemory it may still be evicting, so its own
 * answer counts: to a command that it refuses in any case, for it may write ("W"), but first where there is no memory
 * ("M"). Nothing is run. Any other answer says nothing of memory (the command may have been renamed): then what is
 * above maxmemory is full. */
static bool is_full(void) {
	static const char writes[] = "ERR Write command";
	struct RedisModuleCallReply *refusal;
	const char *why = NULL;
	size_t len = 0;
	bool full;
	if ((slr_GetContextFlags(deciding->context) & SLR_CONTEXT_OOM) == 0)
		return false;
	refusal = slr_Call(deciding->context, "LPUSHX", "MWEsc", deciding->args[1], "");
	if (refusal == NULL) /* it knows no such call */
		return true;
	why = slr_CallReplyStringPtr(refusal, &len);
	full = why == NULL || len < sizeof writes - 1 || memcmp(why, writes, sizeof writes - 1) != 0;
	slr_FreeCallReply(refusal);
	return full;
}

bool slr_request_is_full(struct slr_request *request) {
	deciding = request;
	return is_full();
}

bool slr_request_decide(struct slr_request *request) {
	enum slr_failure failure;
	deciding = request;
	request->call->heard = slr_is_heard();
	request->call->is_full = is_full;
	failure = slr_decide(request->call);
	if (failure != SLR_FINE)
		slr_fail(request, "the log is too long: at most 33554431 entries; count it in sliding-buckets");
	return failure == SLR_FINE;
}
