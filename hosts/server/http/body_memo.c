/* Bodies recognised by their bytes: see body_memo.h. */
#include "hosts/server/http/body_memo.h"

#include "base/plain.h"
#include "base/recall.h"

/* ---- recalling --------------------------------------------------------------------------------------------------- */

static inline bool take_piece(const struct sl_http_body_memo *memo, uint32_t i, const char **at, const char *end) {
	size_t len = memo->pieces[i].len;
	if ((size_t)(end - *at) < len || !sl_recall_is(memo->text + memo->pieces[i].at, len, sl_slice(*at, len)))
		return false;
	*at += len;
	return true;
}

static bool find_values(const struct sl_http_body_memo *memo, struct sluice_bytes body, struct sluice_bytes *values) {
	const char *at = body.data, *end = at + body.len;
	uint32_t last = memo->piece_count - 1;
	for (uint32_t i = 0; i < last; i++) {
		if (!take_piece(memo, i, &at, end))
			return false;
		size_t len = sl_plain_len(at, (size_t)(end - at)); /* up to the quote, if it is plain */
		if (len > SLUICE_KEY_BYTES_MAX)
			return false;
		values[i] = sl_slice(at, len);
		at += len;
	}
	return take_piece(memo, last, &at, end) && at == end;
}

bool sl_http_body_recall(const struct sl_http_body_memo *memo, struct sluice_bytes body, struct sl_http_ask *ask) {
	struct sluice_bytes values[SL_HTTP_MEMO_VALUES_MAX];
	if (memo->piece_count == 0 || !find_values(memo, body, values))
		return false;
	ask->call.cost = memo->cost;
	ask->cost_said = memo->cost_said;
	ask->peek = memo->peek;
	ask->call.item_count = memo->limit_count;
	for (uint32_t i = 0; i < memo->limit_count; i++) {
		ask->items[i] = (struct sluice_item){.limit = &memo->limits[i], .key = values[0]};
		ask->positions[i] = SL_POSITION_NOTATION;
	}
	if (memo->limit_count != 0)
		return true;
	ask->attribute_count = memo->piece_count - 1;
	for (uint32_t i = 0; i < ask->attribute_count; i++)
		ask->attributes[i] =
			(struct sluice_attribute){sl_slice(memo->text + memo->names[i].at, memo->names[i].len), values[i]};
	return true;
}

/* ---- keeping: where the values stand ----------------------------------------------------------------------------- */

/* A walk over a body that is known to be JSON. */
struct walk {
	struct sl_http_body_memo *memo;
	const char *start, *at, *end;
	struct sluice_bytes member, name; /* of the object itself; of an object in it */
	bool attributes;                  /* that is what is looked for, else the key */
	int depth;
	uint32_t count; /* of values */
	struct sl_http_piece values[SL_HTTP_MEMO_VALUES_MAX];
};

static struct sl_http_piece piece_of(const struct walk *walk, struct sluice_bytes text) {
	return (struct sl_http_piece){(uint16_t)((const char *)text.data - walk->start), (uint16_t)text.len};
}

static bool is_value_place(const struct walk *walk) {
	return walk->attributes ? walk->depth == 2 && sl_bytes_equal(walk->member, sl_str("attributes"))
	                        : walk->depth == 1 && sl_bytes_equal(walk->member, sl_str("key"));
}

/* The members of which nothing has to be known but what the ask has of them. */
static bool is_known(struct sluice_bytes member) {
	static const char *const known[] = {"key", "limits", "attributes", "cost", "peek"};
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (sl_bytes_equal(member, sl_str(known[i])))
			return true;
	return false;
}

static bool is_blank(char c) {
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Takes a string, whose first quote has been taken. False: the body is none of the kind. */
static bool take_string(struct walk *walk) {
	struct sluice_bytes text = sl_slice(walk->at, sl_plain_len(walk->at, (size_t)(walk->end - walk->at)));
	walk->at += text.len;
	if (walk->at == walk->end || *walk->at++ != '"')
		return false;
	while (walk->at < walk->end && is_blank(*walk->at))
		walk->at++;
	if (walk->at < walk->end && *walk->at == ':') {
		walk->name = text;
		if (walk->depth == 1)
			walk->member = text;
		return walk->depth != 1 || is_known(text);
	}
	if (!is_value_place(walk))
		return true;
	if (walk->count == SL_HTTP_MEMO_VALUES_MAX)
		return false;
	walk->memo->names[walk->count] = piece_of(walk, walk->name);
	walk->values[walk->count++] = piece_of(walk, text);
	return true;
}

static bool walk_body(struct walk *walk) {
	while (walk->at < walk->end) {
		char c = *walk->at++;
		if (c == '"' && !take_string(walk))
			return false;
		walk->depth += (c == '{' || c == '[') - (c == '}' || c == ']');
	}
	return true;
}

/* Do all limits count for the body's key? One that an element has of its own may be written alike. */
static bool count_for_key(const struct sl_http_ask *ask) {
	const char *key = json_string_value(json_object_get(ask->root, "key"));
	for (uint32_t i = 0; i < ask->call.item_count; i++)
		if (ask->items[i].key.data != key)
			return false;
	return key != NULL;
}

/* Is all that the ask has in the limits and the values? */
static bool is_of_kind(const struct sl_http_ask *ask, const struct walk *walk) {
	if (ask->names || ask->member.data != NULL || ask->call.id.len != 0 || ask->call.upto || ask->call.want_next ||
	    ask->call.item_count > SL_HTTP_MEMO_LIMITS_MAX)
		return false;
	if (walk->attributes)
		return walk->count == ask->attribute_count && walk->count != 0;
	for (uint32_t i = 0; i < ask->call.item_count; i++)
		if (ask->items[i].member.data != NULL || ask->items[i].terms != NULL)
			return false;
	return walk->count == 1 && ask->call.item_count != 0 && count_for_key(ask);
}

static void cut(struct sl_http_body_memo *memo, const struct walk *walk, size_t len) {
	uint16_t from = 0;
	for (uint32_t i = 0; i < walk->count; i++) {
		memo->pieces[i] = (struct sl_http_piece){from, (uint16_t)(walk->values[i].at - from)};
		from = (uint16_t)(walk->values[i].at + walk->values[i].len);
	}
	memo->pieces[walk->count] = (struct sl_http_piece){from, (uint16_t)(len - from)};
	memo->piece_count = walk->count + 1;
}

void sl_http_body_keep(struct sl_http_body_memo *memo, struct sluice_bytes body, const struct sl_http_ask *ask,
                       enum sl_operation operation) {
	struct walk walk = {.memo = memo, .start = body.data, .at = body.data, .attributes = operation == SL_OP_ADMIT};
	walk.end = walk.start + body.len;
	memo->piece_count = 0;
	if (body.len > SL_HTTP_MEMO_BODY_MAX || !walk_body(&walk) || !is_of_kind(ask, &walk))
		return;
	memcpy(memo->text, body.data, body.len);
	memo->cost = ask->call.cost;
	memo->cost_said = ask->cost_said;
	memo->peek = ask->peek;
	memo->limit_count = ask->call.item_count;
	for (uint32_t i = 0; i < memo->limit_count; i++)
		memo->limits[i] = *ask->items[i].limit;
	cut(memo, &walk, body.len);
}
