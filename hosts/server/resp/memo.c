/* Commands recognised by their bytes: see memo.h. */
#include "hosts/server/resp/memo.h"

#include "base/recall.h"
#include "hosts/server/resp/resp.h"

/* ---- taking ------------------------------------------------------------------------------------------------------ */

/* The length of the key, which `at` stands at; to after its line's end. 0: not so short as most are. */
static inline size_t read_length(const char **at) {
	const char *p = *at;
	unsigned a = (unsigned char)p[0] - '0', b = (unsigned char)p[1] - '0', c = (unsigned char)p[2] - '0';
	if (a - 1 >= 9)
		return 0;
	if (b <= 9 && p[2] == '\r')
		return *at += 4, a * 10 + b;
	if (p[1] == '\r')
		return *at += 3, a;
	if (b <= 9 && c <= 9 && p[3] == '\r')
		return *at += 5, a * 100 + b * 10 + c;
	return 0;
}

/* Whether bytes begin with a command that is as the one remembered but for its key, which is told. */
static inline bool is_alike(const struct sl_resp_memo *memo, const char *data, size_t len, struct sluice_bytes *key) {
	size_t head = memo->head_len, around = head + memo->tail_len + SL_RESP_MEMO_LENGTH_BYTES;
	const char *at = data + head;
	if (head == 0 || len < around || !sl_recall_is(memo->head, head, sl_slice(data, head)))
		return false;
	size_t bytes = read_length(&at);
	*key = sl_slice(at, bytes);
	return bytes != 0 && (size_t)(data + len - at) >= bytes + memo->tail_len &&
	       sl_recall_is(memo->tail, memo->tail_len, sl_slice(at + bytes, memo->tail_len));
}

static bool may_ask(const struct sl_resp_session *session, const struct sl_resp_command *command) {
	return (session->roles & command->roles) != 0 && !session->silent && !session->skip;
}

static inline void join(struct sl_resp_turn *turn, const struct sl_resp_memo *memo, struct sluice_bytes key) {
	struct sl_resp_batch *batch = &turn->worker->batch;
	struct sluice_call *call = sl_resp_call_begin(turn);
	struct sluice_item *items = batch->items + batch->item_count;
	call->cost = memo->cost;
	call->operation = (sluice_operation)memo->command->operation;
	call->item_count = memo->limit_count;
	for (uint32_t i = 0; i < memo->limit_count; i++) {
		items[i] = (struct sluice_item){.limit = &memo->limits[i]->limit, .key = key};
		memo->limits[i]->batch = batch->number;
	}
	sl_resp_call_end(turn, call, memo->command->operation, 0);
}

static size_t take_check(struct sl_resp_turn *turn, const char *data, size_t len) {
	struct sl_resp_memos *memos = &turn->worker->memos;
	struct sluice_bytes key;
	if (!is_alike(&memos->list[memos->recent], data, len, &key)) {
		if (!is_alike(&memos->list[memos->recent ^ 1], data, len, &key))
			return 0;
		memos->recent ^= 1;
	}
	const struct sl_resp_memo *memo = &memos->list[memos->recent];
	if (!may_ask(turn->session, memo->command))
		return 0;
	turn->context->commands++;
	join(turn, memo, key);
	return (size_t)((const char *)key.data - data) + key.len + memo->tail_len;
}

/* ---- taking an ADMIT --------------------------------------------------------------------------------------------- */

/* Where the pieces of a command stand, and the values between them. */
struct found {
	const char *pieces[SL_PATTERN_ATTRIBUTES_MAX + 1];
	struct sluice_bytes values[SL_PATTERN_ATTRIBUTES_MAX];
	const char *end;
};

static inline bool is_piece(const struct sl_resp_admit_memo *memo, uint32_t i, const char *at) {
	size_t len = memo->pieces[i].len;
	return sl_recall_is(memo->text + memo->pieces[i].at, len, sl_slice(at, len));
}

/* Whether bytes begin with a command that is as the one remembered but for those values. */
static bool is_alike_admit(const struct sl_resp_admit_memo *memo, const char *data, size_t len, struct found *found) {
	const char *at = data, *end = data + len;
	uint32_t last = memo->piece_count - 1;
	for (uint32_t i = 0; i < last; i++) {
		if ((size_t)(end - at) < memo->pieces[i].len + (size_t)SL_RESP_MEMO_LENGTH_BYTES || !is_piece(memo, i, at))
			return false;
		found->pieces[i] = at;
		at += memo->pieces[i].len;
		size_t bytes = read_length(&at);
		if (bytes == 0 || (size_t)(end - at) < bytes)
			return false;
		found->values[i] = sl_slice(at, bytes);
		at += bytes;
	}
	found->pieces[last] = at;
	if ((size_t)(end - at) < memo->pieces[last].len || !is_piece(memo, last, at))
		return false;
	found->end = at + memo->pieces[last].len;
	return true;
}

/* The attributes, which stand in the bytes that are being fed. */
static void fill_attributes(const struct sl_resp_admit_memo *memo, const struct found *found,
                            struct sluice_attribute *attributes) {
	uint32_t piece = 0;
	for (uint32_t i = 0; i < memo->count; i++) {
		const char *base = found->pieces[piece] - memo->pieces[piece].at;
		attributes[i].name = sl_slice(base + memo->names[i].at, memo->names[i].len);
		if ((memo->pattern.varies >> i & 1) != 0)
			attributes[i].value = found->values[piece++];
		else
			attributes[i].value = sl_slice(base + memo->values[i].at, memo->values[i].len);
	}
}

static bool knows_admit(const struct sl_resp_turn *turn, const struct sl_resp_admit_memo *memo) {
	return memo->count != 0 && sl_pattern_is_of(&memo->pattern, turn->context->policy);
}

static size_t take_admit(struct sl_resp_turn *turn, const char *data, size_t len) {
	struct sl_resp_memos *memos = &turn->worker->memos;
	const struct sl_resp_admit_memo *memo = &memos->admits[memos->recent_admit];
	struct found found;
	if (!knows_admit(turn, memo) || !is_alike_admit(memo, data, len, &found)) {
		memo = &memos->admits[memos->recent_admit ^ 1];
		if (!knows_admit(turn, memo) || !is_alike_admit(memo, data, len, &found))
			return 0;
		memos->recent_admit ^= 1;
	}
	if (!may_ask(turn->session, memo->command))
		return 0;
	turn->context->commands++;
	turn->command = memo->command;
	struct sluice_attribute *attributes = sl_resp_attributes(turn, memo->count);
	fill_attributes(memo, &found, attributes);
	sl_resp_admit_alike(turn, &memo->pattern, attributes, memo->cost);
	return (size_t)(found.end - data);
}

size_t sl_resp_memo_take(struct sl_resp_turn *turn, const char *data, size_t len) {
	size_t taken = take_check(turn, data, len);
	return taken != 0 ? taken : take_admit(turn, data, len);
}

/* ---- keeping ----------------------------------------------------------------------------------------------------- */

/* The line of the cache that a limit stands in; NULL where it stands elsewhere. */
static struct sl_resp_cached *line_of(struct sl_resp_worker *worker, const struct sluice_limit *limit) {
	const char *from = (const char *)worker->cache, *at = (const char *)limit;
	if (at < from || at >= from + sizeof worker->cache)
		return NULL;
	return &worker->cache[(size_t)(at - from) / sizeof worker->cache[0]];
}

static bool find_lines(struct sl_resp_worker *worker, const struct sluice_call *call, struct sl_resp_memo *memo) {
	for (uint32_t i = 0; i < call->item_count; i++) {
		memo->limits[i] = line_of(worker, call->items[i].limit);
		if (memo->limits[i] == NULL)
			return false;
	}
	return true;
}

/* Whether the command's first limit is that of one of the two before it. */
static inline bool comes_again(struct sl_resp_memos *memos, const struct sluice_limit *first) {
	bool again = memos->last[0] == first || memos->last[1] == first;
	memos->last[1] = memos->last[0];
	memos->last[0] = first;
	return again;
}

static void keep(struct sl_resp_turn *turn) {
	struct sl_resp_worker *worker = turn->worker;
	const struct sluice_call *call = worker->command.call;
	const struct sluice_bytes key = worker->command.key, first = turn->request->args[0];
	const char *start = turn->bytes.data, *end = start + turn->bytes.len;
	const char *tail = (const char *)key.data + key.len;
	size_t head_len = (size_t)((const char *)first.data + first.len + sizeof "\r\n$" - 1 - start);
	struct sl_resp_memo *memo = &worker->memos.list[worker->memos.recent ^ 1];
	memo->head_len = 0;
	if (head_len > SL_RESP_MEMO_HEAD_MAX || end - tail > SL_RESP_MEMO_TAIL_MAX || !find_lines(worker, call, memo))
		return;
	memcpy(memo->head, start, head_len);
	memcpy(memo->tail, tail, (size_t)(end - tail));
	memo->command = turn->command;
	memo->cost = call->cost;
	memo->limit_count = call->item_count;
	memo->tail_len = (uint32_t)(end - tail);
	memo->head_len = (uint32_t)head_len;
	worker->memos.recent ^= 1;
}

void sl_resp_memo_keep(struct sl_resp_turn *turn) {
	const struct sl_command *command = &turn->worker->command;
	if (command->given == 0 && command->key.data == turn->request->args[1].data && !turn->request->is_inline &&
	    turn->command->roles != 0 &&
	    command->call->item_count <= SL_RESP_MEMO_LIMITS_MAX &&
	    comes_again(&turn->worker->memos, command->call->items[0].limit))
		keep(turn);
}

/* ---- keeping an ADMIT -------------------------------------------------------------------------------------------- */

static bool is_same(const struct sl_resp_admit_memo *memo, struct sl_resp_piece piece, struct sluice_bytes text) {
	return piece.len == text.len && memcmp(memo->text + piece.at, text.data, text.len) == 0;
}

/* Has the memo a command of these names, in this order, and of this cost? */
static bool has_names(const struct sl_resp_admit_memo *memo, const struct sl_resp_turn *turn,
                      const struct sluice_attribute *attributes, uint32_t count, uint32_t cost) {
	if (memo->count != count || memo->cost != cost || memo->command != turn->command)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (!is_same(memo, memo->names[i], attributes[i].name))
			return false;
	return true;
}

static uint32_t differing(const struct sl_resp_admit_memo *memo, const struct sluice_attribute *attributes) {
	uint32_t bits = 0;
	for (uint32_t i = 0; i < memo->count; i++)
		if (!is_same(memo, memo->values[i], attributes[i].value))
			bits |= 1u << i;
	return bits;
}

static struct sl_resp_piece piece_of(const struct sl_resp_turn *turn, struct sluice_bytes text) {
	return (struct sl_resp_piece){(uint16_t)((const char *)text.data - (const char *)turn->bytes.data),
	                              (uint16_t)text.len};
}

static void copy(struct sl_resp_admit_memo *memo, const struct sl_resp_turn *turn,
                 const struct sluice_attribute *attributes, uint32_t count, uint32_t cost) {
	memcpy(memo->text, turn->bytes.data, turn->bytes.len);
	memo->command = turn->command;
	memo->cost = cost;
	memo->count = count;
	for (uint32_t i = 0; i < count; i++) {
		memo->names[i] = piece_of(turn, attributes[i].name);
		memo->values[i] = piece_of(turn, attributes[i].value);
	}
}

/* Cuts the command where its values differ: before the length of each, which follows the name, and after it. */
static void cut(struct sl_resp_admit_memo *memo, size_t len) {
	uint16_t from = 0;
	memo->piece_count = 0;
	for (uint32_t i = 0; i < memo->count; i++) {
		if ((memo->pattern.varies >> i & 1) == 0)
			continue;
		uint16_t to = (uint16_t)(memo->names[i].at + memo->names[i].len + sizeof "\r\n$" - 1);
		memo->pieces[memo->piece_count++] = (struct sl_resp_piece){from, (uint16_t)(to - from)};
		from = (uint16_t)(memo->values[i].at + memo->values[i].len);
	}
	memo->pieces[memo->piece_count++] = (struct sl_resp_piece){from, (uint16_t)(len - from)};
}

/* The first of its kind is only noted: of many kinds in any order none is worth a pattern. */
void sl_resp_memo_keep_admit(struct sl_resp_turn *turn, const struct sluice_attribute *attributes, uint32_t count,
                             uint32_t cost) {
	struct sl_resp_memos *memos = &turn->worker->memos;
	const struct sluice_policy *policy = turn->context->policy;
	if (turn->request->is_inline || turn->command->roles == 0 || turn->bytes.len > SL_RESP_ADMIT_BYTES_MAX ||
	    count > SL_PATTERN_ATTRIBUTES_MAX)
		return;
	if (!has_names(&memos->admits[memos->recent_admit], turn, attributes, count, cost))
		memos->recent_admit ^= 1;
	struct sl_resp_admit_memo *memo = &memos->admits[memos->recent_admit];
	if (!has_names(memo, turn, attributes, count, cost)) {
		copy(memo, turn, attributes, count, cost);
		memo->pattern.policy_number = 0;
		memo->pattern.varies = 0;
		return;
	}
	uint32_t varies = memo->pattern.varies | differing(memo, attributes);
	if (sl_pattern_is_of(&memo->pattern, policy) && memo->pattern.varies == varies)
		return;
	copy(memo, turn, attributes, count, cost);
	if (sl_pattern_make(&memo->pattern, policy, attributes, count, varies))
		cut(memo, turn->bytes.len);
}
