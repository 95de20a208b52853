/* Any bytes as what a node answers: read in one piece, and cut where the first two bytes say. The tokens are the same,
 * and a reader of CLUSTER SLOTS makes no range that is out of range. */
#include "hosts/server/cluster/slots.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was seen: a sum of all tokens, so that two runs can be compared. */
struct seen {
	uint64_t sum;
	uint32_t tokens;
	bool bad;
};

static void mix(struct seen *seen, uint64_t value) {
	seen->sum = (seen->sum ^ value) * 0x9e3779b97f4a7c15u + (seen->sum >> 29);
}

static void note(struct seen *seen, const struct sl_reply_token *token, struct sl_slots_reader *reader) {
	const unsigned char *text = token->text.data;
	seen->tokens++;
	mix(seen, (uint64_t)token->kind << 16 | (uint64_t)token->depth << 8 | (uint64_t)token->aside << 1 | token->last);
	mix(seen, (uint64_t)token->value);
	for (size_t i = 0; i < token->text.len; i++)
		mix(seen, text[i]);
	if (token->depth > SL_REPLY_DEPTH_MAX)
		abort();
	if (!sl_slots_read(reader, token))
		return;
	char printed[SL_PLACE_TEXT_MAX];
	sl_node_place_print(&reader->range.primary, printed);
	if (reader->range.first > reader->range.last || reader->range.last >= SL_SLOTS || reader->range.primary.port == 0)
		abort();
}

static struct seen run(const uint8_t *data, size_t size, size_t cut) {
	struct sl_reply reply = {.depth = 0};
	struct sl_slots_reader reader = {.field = 0};
	struct sl_reply_token token;
	struct seen seen = {0, 0, false};
	for (size_t at = 0, end = cut; at < size;) {
		const ptrdiff_t taken = sl_reply_next(&reply, (const char *)data + at, end - at, &token);
		if (taken < 0) {
			seen.bad = true;
			break;
		}
		if (taken == 0 && (reply.need <= end - at || reply.need > SL_REPLY_TOKEN_BYTES_MAX))
			abort();
		if (taken == 0 && end == size)
			break;
		if (taken == 0)
			end = size;
		else
			note(&seen, &token, &reader);
		at += (size_t)taken;
	}
	return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	if (size < 2)
		return 0;
	const size_t cut = (data[0] << 8 | data[1]) % (size - 1);
	const struct seen whole = run(data + 2, size - 2, size - 2), parts = run(data + 2, size - 2, cut);
	if (whole.sum != parts.sum || whole.tokens != parts.tokens || whole.bad != parts.bad)
		abort();
	struct sl_node_place place;
	(void)sl_node_place_read(sl_slice(data, size), &place);
	(void)sl_slot_of(sl_slice(data, size));
	return 0;
}
