/* An instance of the addon: its block, and what opens limiters. */
#include "bindings/node/native/addon.h"

#include <stdlib.h>
#include <string.h>

bool add_function(napi_env env, napi_value object, const char *name, napi_callback callback, void *data,
                  napi_finalize release) {
	napi_value function;
	return napi_create_function(env, name, NAPI_AUTO_LENGTH, callback, data, &function) == napi_ok &&
	       napi_set_named_property(env, object, name, function) == napi_ok &&
	       (release == NULL || napi_add_finalizer(env, function, data, release, NULL, NULL) == napi_ok);
}

void release_held(napi_env env, void *data, void *hint) {
	struct held *held = data;
	(void)env;
	(void)hint;
	if (--held->references != 0)
		return;
	release_hots(held);
	sl_limiter_close(held->open);
	free(held);
}

void release_instance(struct instance *instance) {
	if (--instance->references != 0)
		return;
	free(instance->hots);
	free(instance);
}

static void end_instance(napi_env env, void *data, void *hint) {
	(void)env;
	(void)hint;
	release_instance(data);
}

/* ---- texts of the block: store, memory and policy are in the places of id, member and key ---- */

struct sluice_bytes text_at(const struct shared *shared, const char *bytes, size_t len, uint32_t index) {
	size_t at = 0;
	for (uint32_t i = 0; i < index; i++)
		at += shared->lengths[i] > 0 ? (size_t)shared->lengths[i] : 0;
	int32_t length = shared->lengths[index];
	if (length < 0 || at > len || (size_t)length > len - at)
		return sl_slice(NULL, 0);
	return sl_slice(bytes + at, (size_t)length);
}

bool read_bytes(napi_env env, napi_callback_info info, struct shared *shared, const char **bytes, size_t *len,
                void **data) {
	napi_value argument;
	size_t count = 1;
	void *given = NULL;
	if (napi_get_cb_info(env, info, &count, &argument, NULL, data) != napi_ok)
		return false;
	*bytes = shared != NULL ? shared->bytes : NULL;
	*len = BYTES_SHARED;
	if (count == 0)
		return true;
	if (napi_get_typedarray_info(env, argument, NULL, len, &given, NULL, NULL) != napi_ok)
		return false;
	*bytes = given;
	return true;
}

/* `close()`: the store is given back now; calls after it are told so. */
static napi_value call_close(napi_env env, napi_callback_info info) {
	void *data;
	if (napi_get_cb_info(env, info, NULL, NULL, NULL, &data) != napi_ok)
		return NULL;
	struct held *held = data;
	sl_limiter_close(held->open);
	held->open = NULL;
	return NULL;
}

/* `reload([texts])`: the policy is in the place of the key. */
static napi_value call_reload(napi_env env, napi_callback_info info) {
	struct sl_failure failure;
	const char *bytes;
	size_t len;
	void *data;
	if (!read_bytes(env, info, NULL, &bytes, &len, &data))
		return NULL;
	struct held *held = data;
	if (bytes == NULL)
		bytes = held->shared->bytes;
	if (held->open == NULL)
		held->shared->figures.told = TOLD_CLOSED;
	else if (sl_limiter_reload(held->open, text_at(held->shared, bytes, len, LENGTH_KEY), &failure))
		held->shared->figures.told = TOLD_DECISION;
	else
		tell_failure(held->shared, &failure);
	return NULL;
}

/* The functions of a limiter. Each has a reference; what fails here leaves those that were made to V8. */
static bool add_functions(napi_env env, napi_value object, struct held *held) {
	static const struct {
		const char *name;
		napi_callback callback;
	} functions[] = {{"decide", call_decide},
	                 {"hot", call_hot},
	                 {"holders", call_holders},
	                 {"reload", call_reload},
	                 {"close", call_close}};
	for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
		held->references++;
		if (!add_function(env, object, functions[i].name, functions[i].callback, held, release_held)) {
			held->references--;
			return false;
		}
	}
	return true;
}

/* `open([texts])`: an object of functions; or undefined, and the block tells why. */
static napi_value call_open(napi_env env, napi_callback_info info) {
	struct sl_limiter_options options;
	struct sl_failure failure;
	napi_value object;
	const char *bytes;
	size_t len;
	void *data;
	if (napi_get_cb_info(env, info, NULL, NULL, NULL, &data) != napi_ok)
		return NULL;
	struct instance *instance = data;
	struct shared *shared = instance->shared;
	if (!read_bytes(env, info, shared, &bytes, &len, &data) || napi_create_object(env, &object) != napi_ok)
		return NULL;
	struct held *held = calloc(1, sizeof *held);
	options.store = text_at(shared, bytes, len, LENGTH_ID);
	options.memory = text_at(shared, bytes, len, LENGTH_MEMBER);
	options.policy = text_at(shared, bytes, len, LENGTH_KEY);
	if (held == NULL || !sl_limiter_open(&held->open, &options, &failure)) {
		if (held != NULL)
			tell_failure(shared, &failure);
		free(held);
		return NULL;
	}
	sl_limiter_park(held->open); /* the loop goes on, and asks again */
	held->shared = shared;
	held->instance = instance;
	instance->references++;
	held->references = 1;
	bool good = add_functions(env, object, held);
	shared->figures.told = TOLD_DECISION;
	release_held(env, held, NULL);
	return good ? object : NULL;
}

/* ---- the module ---- */

/* A view of the block. */
static bool add_view(napi_env env, napi_value exports, const char *name, napi_value block, napi_typedarray_type type,
                     size_t count, size_t offset) {
	napi_value view;
	return napi_create_typedarray(env, type, count, block, offset, &view) == napi_ok &&
	       napi_set_named_property(env, exports, name, view) == napi_ok;
}

static bool add_block(napi_env env, napi_value exports, struct shared **shared) {
	napi_value block;
	napi_ref kept;
	void *bytes;
	/* kept for good: functions have its address, and it is as old as the instance */
	if (napi_create_arraybuffer(env, sizeof(struct shared), &bytes, &block) != napi_ok ||
	    napi_create_reference(env, block, 1, &kept) != napi_ok)
		return false;
	*shared = bytes;
	return add_view(env, exports, "figures", block, napi_float64_array, sizeof(struct shared_figures) / sizeof(double),
	                offsetof(struct shared, figures)) &&
	       add_view(env, exports, "lengths", block, napi_int32_array, TEXTS_MAX, offsetof(struct shared, lengths)) &&
	       add_view(env, exports, "bytes", block, napi_uint8_array, BYTES_SHARED, offsetof(struct shared, bytes)) &&
	       add_view(env, exports, "hot", block, napi_int32_array, offsetof(struct shared_hot, key) / sizeof(int32_t),
	                offsetof(struct shared, hot)) &&
	       add_view(env, exports, "hotKey", block, napi_uint8_array, KEY_BYTES_HOT,
	                offsetof(struct shared, hot) + offsetof(struct shared_hot, key));
}

static bool add_number(napi_env env, napi_value object, const char *name, int32_t number) {
	napi_value value;
	return napi_create_int32(env, number, &value) == napi_ok &&
	       napi_set_named_property(env, object, name, value) == napi_ok;
}

/* The numbers of operations, and the words of failures in the order of their numbers. */
static bool add_tables(napi_env env, napi_value exports) {
	napi_value operations, failures, name;
	if (napi_create_object(env, &operations) != napi_ok || napi_create_array(env, &failures) != napi_ok)
		return false;
	bool good = add_number(env, operations, "CHECK", SL_OP_CHECK) && add_number(env, operations, "PEEK", SL_OP_PEEK) &&
	            add_number(env, operations, "REFUND", SL_OP_REFUND) &&
	            add_number(env, operations, "RESET", SL_OP_RESET) &&
	            add_number(env, operations, "ACQUIRE", SL_OP_ACQUIRE) &&
	            add_number(env, operations, "RELEASE", SL_OP_RELEASE) &&
	            add_number(env, operations, "RENEW", SL_OP_RENEW) &&
	            add_number(env, operations, "RESERVE", SL_OP_RESERVE) &&
	            add_number(env, operations, "COMMIT", SL_OP_COMMIT) &&
	            add_number(env, operations, "ADMIT", SL_OP_ADMIT);
	for (uint32_t i = 0; good && i < SL_FAILURES; i++)
		good = napi_create_string_utf8(env, sl_failure_name((enum sl_failure_kind)i), NAPI_AUTO_LENGTH, &name) ==
		           napi_ok &&
		       napi_set_element(env, failures, i, name) == napi_ok;
	return good && napi_set_named_property(env, exports, "operations", operations) == napi_ok &&
	       napi_set_named_property(env, exports, "failures", failures) == napi_ok;
}

NAPI_MODULE_INIT() {
	struct instance *instance = calloc(1, sizeof *instance);
	if (instance != NULL)
		instance->references = 1;
	if (instance == NULL || napi_set_instance_data(env, instance, end_instance, NULL) != napi_ok ||
	    !add_block(env, exports, &instance->shared) || !add_tables(env, exports) ||
	    !add_function(env, exports, "open", call_open, instance, NULL) ||
	    !add_function(env, exports, "check", check_hot, instance, NULL))
		napi_throw_error(env, "system", "the native part of sluice could not be begun");
	return exports;
}
