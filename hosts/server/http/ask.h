/* Reading bodies: what ask.c and ask_limits.c share (ask_members.c). For these two only. */
#ifndef SL_HTTP_ASK_H
#define SL_HTTP_ASK_H

#include "hosts/server/http/door_http.h"

/* The members that objects may have. Bits; which operation takes which follows from its form. */
enum {
	SL_ASK_KEY = 1,
	SL_ASK_LIMITS = 2,
	SL_ASK_ATTRIBUTES = 4,
	SL_ASK_COST = 8,
	SL_ASK_PEEK = 16,
	SL_ASK_AT = 32,
	SL_ASK_LIMIT = 64,
	SL_ASK_ID = 128,
	SL_ASK_MEMBER = 256,
	SL_ASK_TTL = 512,
	SL_ASK_ACTUAL = 1024,
	SL_ASK_MEMBER_COUNT = 11, /* after them those that are true or false: a word each */
};
uint32_t sl_ask_members_of(enum sl_operation operation);

/* The members of one object, sorted out; NULL where absent. */
struct sl_ask_members {
	json_t *value[SL_ASK_MEMBER_COUNT + SL_WORDS];
};

/* The beginning of an error; the caller goes on, and ends with sl_ask_done(), which returns false. */
struct sl_out sl_ask_error(struct sl_http_ask *ask);
bool sl_ask_done(struct sl_out *out);
/* A whole error; false. */
bool sl_ask_fail(struct sl_http_ask *ask, const char *text);
/* "<where> must be <what>, found a string"; false. */
bool sl_ask_fail_type(struct sl_http_ask *ask, const char *where, const char *what, const json_t *value);

/* A number in the range that its meaning says. */
bool sl_ask_number(struct sl_http_ask *ask, const struct sl_meaning *meaning, const json_t *value, uint64_t *number);

/* What a value is, for messages: "a string". */
const char *sl_ask_kind(const json_t *value);

/* Sorts the members of an object; false for one that is not among `allowed` (SL_ASK_ bits). `where` stands before the
 * error. */
bool sl_ask_sort(struct sl_http_ask *ask, const char *where, json_t *object, uint32_t allowed,
                 struct sl_ask_members *members);
/* One of them, by its bit; NULL where it is absent. */
json_t *sl_ask_member(const struct sl_ask_members *members, uint32_t bit);
/* Reads those that are true or false, into the call. */
bool sl_ask_flags(struct sl_http_ask *ask, const struct sl_ask_members *members);

/* A string that is a key or a member; a long one is folded (base/fold.h). `where` is "key" or "limits[3].key". */
bool sl_ask_key(struct sl_http_ask *ask, const char *where, json_t *value, struct sluice_bytes *key);

/* Reads limits with the keys and members that they count for, and sees whether this operation can be asked of them
 * (ask_limits.c).
 *  forms  SLUICE_ITEMS_MAX * SLUICE_KEY_BYTES_MAX bytes that live as long as the request */
bool sl_ask_limits(struct sl_http_ask *ask, const struct sl_ask_members *members, enum sl_operation operation,
                   const struct sluice_policy *policy, char *forms);

#endif
