/* The native part of the package: Limiters of this process, for one instance of Node (the main thread, or a worker).
 *
 * JavaScript and C share one block of memory, so that nothing is converted on the way: no object, no string and no
 * number passes through Node-API. JavaScript writes what is asked, calls a function without arguments, and reads what
 * is told. Each instance has a block of its own, and no call returns to JavaScript before it has told: so one block
 * suffices for all limiters of an instance.
 *
 *   figures   doubles: what is told, and numbers that are asked      struct shared_figures
 *   lengths   32-bit: of the texts, -1 where there is none           id, member, key, then two a limit or an attribute
 *   bytes     the texts themselves, one after the other; what is told of texts: id, name, or why it failed
 *
 * A function's data says which limiter it is of, but for the shortest way, whose function is the instance's. A limiter
 * lives as long as any of its functions, which V8 collects when nobody has them; close() gives its store back. */
#ifndef SL_NODE_ADDON_H
#define SL_NODE_ADDON_H

#include "bindings/common/handle.h"

#define NAPI_VERSION 8
#include <node_api.h>

enum {
	TEXTS_MAX = 3 + 2 * 256, /* as JavaScript checks: attributes of one request */
	BYTES_SHARED = 64 << 10, /* longer texts come in a buffer of their own */
	FIGURES_OF_EACH = 7,
	KEY_BYTES_HOT = 64, /* of a key that takes the shortest way */
};

/* lengths[] */
enum { LENGTH_ID, LENGTH_MEMBER, LENGTH_KEY, LENGTH_LIMITS };

/* What is asked, where it is a number; and what is told. Offsets are written in lib/local.js as well. */
struct shared_figures {
	double told;                                          /* TOLD_.. */
	double operation, cost, ttl_ms, flags, now_ms, pairs; /* asked; now_ms below 0: by the store's clock */
	double allowed, quota, remaining, retry_ms, reset_ms, delay_ms, index;
	double granted, repeated, next_ms, count, each_count, failed_open, id_bytes, name_bytes;
	double each[SLUICE_ITEMS_MAX][FIGURES_OF_EACH + 1]; /* allowed .. index, and next_ms */
};
enum { FLAG_UPTO = 1, FLAG_NEXT = 2, FLAG_EACH = 4, FLAG_LAST = 8 };
/* 0 and above: a failure's kind */
enum { TOLD_DECISION = -1, TOLD_AGAIN = -2, TOLD_CLOSED = -3 };

/* The shortest way: a number that hot() gave and a key in ASCII go in, eight small integers come out. */
struct shared_hot {
	int32_t told; /* 1: decided; 2: told in full; 0: not so simple, ask in full */
	int32_t way;
	int32_t key_bytes;
	int32_t allowed, quota, remaining, retry_ms, reset_ms, delay_ms, index;
	char key[KEY_BYTES_HOT];
};

struct shared {
	struct shared_figures figures;
	int32_t lengths[TEXTS_MAX + 1];
	struct shared_hot hot;
	char bytes[BYTES_SHARED];
};

/* Limits of a limiter, for the shortest way: they are asked by number, so that one function serves all limiters of an
 * instance. V8 calls a function that it knows at a place 40 ns faster than one of several. */
struct hot {
	struct held *held;
	struct hot *next; /* of the same limiter */
	struct sl_set set;
};

/* An instance of the addon. It lives until the last of its limiters has gone. */
struct instance {
	struct shared *shared;
	struct hot **hots; /* by number; NULL: free */
	uint32_t hot_room, references;
};

/* One limiter. `open` is NULL once it was closed. */
struct held {
	struct sl_limiter *open;
	struct shared *shared;
	struct instance *instance;
	struct hot *hots;
	uint32_t references; /* functions that have it */
};

/* Makes a function with data, and enters it as a property of `object`; the data is released when V8 collects it. */
bool add_function(napi_env env, napi_value object, const char *name, napi_callback callback, void *data,
                  napi_finalize release);

/* The functions of a limiter: `decide([texts])`; `hot([texts])`: told is the number of these limits, or -1. */
napi_value call_decide(napi_env env, napi_callback_info info);
napi_value call_hot(napi_env env, napi_callback_info info);

/* `holders([texts])`: an array of [id, cost, ms] of the key and the limit in the places of key and first limit. */
napi_value call_holders(napi_env env, napi_callback_info info);

/* The function of an instance: `check()`, one charge of 1, of the key in the block, to the limits of a number. */
napi_value check_hot(napi_env env, napi_callback_info info);

/* Frees what call_hot() made for a limiter; drops its reference to the instance. */
void release_hots(struct held *held);
void release_instance(struct instance *instance);

/* The text of the block, or of a buffer that was passed, at a place of `lengths`; data NULL: there is none. */
struct sluice_bytes text_at(const struct shared *shared, const char *bytes, size_t len, uint32_t index);

/* The texts that a call brings along: the block's, or those of the buffer that was passed. */
bool read_bytes(napi_env env, napi_callback_info info, struct shared *shared, const char **bytes, size_t *len,
                void **data);

/* Drops a reference to a limiter, and with the last one the limiter. */
void release_held(napi_env env, void *data, void *hint);

/* Tells why a call failed: kind and text into the shared block. */
void tell_failure(struct shared *shared, const struct sl_failure *failure);

#endif
