/* Asking letters (letters.h). */
#include "tests/model/letters.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "tests/model/twin.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const ids[LETTER_IDS_MAX + 1] = {
	"", "0000000000000001", "0000000000000002", "0000000000000003", "0000000000000004", "0000000000000005"};

bool letter_takes(const struct letter *l) {
	return l->operation == SLUICE_CHARGE || l->operation == SLUICE_RESERVE;
}

struct sluice_call letter_ask(struct sluice_store *store, const struct letter *l, sluice_operation operation,
                              uint64_t now_ms, const struct sluice_item *items, uint32_t count,
                              struct sluice_decision *each) {
	struct sluice_call call = {
		.items = items, .item_count = count, .cost = l->cost, .operation = operation, .each = each};
	call.upto = l->upto && (operation == SLUICE_PEEK || operation == l->operation);
	call.now = now_ms * TWIN_MS;
	if (operation == SLUICE_RESERVE)
		call.ttl_ns = l->life_ms * (uint64_t)TWIN_MS;
	if (operation == SLUICE_RESERVE || operation == SLUICE_COMMIT)
		call.id = sl_str(ids[l->id]);
	SL_ASSERT(sluice_decide(store, &call) == SLUICE_OK);
	call.items = NULL;
	return call;
}

void letter_print(const struct letter *l, uint64_t at_ms) {
	static const char *const words[] = {"charge", "peek", "refund", "reset", "", "", "", "reserve", "commit"};
	fprintf(stderr, "  %s %s%" PRIu32 " id %" PRIu32 " life %" PRIu32 " at %" PRIu64 " ms", words[l->operation],
	        l->upto ? "up to " : "", l->cost, l->id, l->life_ms, at_ms);
	if (l->counters != 0)
		fprintf(stderr, " of counters %" PRIu32, l->counters);
	fprintf(stderr, "\n");
}
