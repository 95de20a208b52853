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

static bool may_ask(const struct sl_resp_session *session, const struct sl_resp_memo *memo) {
	return (session->roles & memo->command->roles) != 0 && !session->silent && !session->skip;
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

size_t sl_resp_memo_take(struct sl_resp_turn *turn, const char *data, size_t len) {
	struct sl_resp_memos *memos = &turn->worker->memos;
	struct sluice_bytes key;
	if (!is_alike(&memos->list[memos->recent], data, len, &key)) {
		if (!is_alike(&memos->list[memos->recent ^ 1], data, len, &key))
			return 0;
		memos->recent ^= 1;
	}
	const struct sl_resp_memo *memo = &memos->list[memos->recent];
	if (!may_ask(turn->session, memo))
		return 0;
	turn->context->commands++;
	join(turn, memo, key);
	return (size_t)((const char *)key.data - data) + key.len + memo->tail_len;
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
	if (command->given == 0 && !turn->request->is_inline && turn->command->roles != 0 &&
	    command->call->item_count <= SL_RESP_MEMO_LIMITS_MAX &&
	    comes_again(&turn->worker->memos, command->call->items[0].limit))
		keep(turn);
}
