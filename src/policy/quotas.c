/* Quotas of single keys: a table by hash over the keys' texts, filled from a file at once and never changed.
 *
 *   slots   {tag, row} 8 bytes, at most half full; the tag is of the hash, so that a miss reads no text
 *   rows    {text, length, limit, line} 16 bytes a key
 *   limits  each different notation once: plans are few
 *
 * So a line takes 32 to 48 bytes, and its key with a byte more. Keys are compared as texts: no hash that collides gives
 * anybody another one's quota.
 */
#include "policy/quotas_inside.h"

uint32_t sl_quotas_slot(const struct sl_quotas *quotas, struct sluice_bytes key, uint64_t hash, uint32_t *probes) {
	const uint32_t tag = sl_quotas_tag(hash);
	uint32_t slot = (uint32_t)hash & quotas->mask;
	*probes = 0;
	for (; quotas->slots[slot].tag != 0; slot = (slot + 1) & quotas->mask, ++*probes) {
		const struct sl_quota_row *row = &quotas->rows[quotas->slots[slot].row];
		if (quotas->slots[slot].tag == tag && sl_bytes_equal(sl_slice(row->text, row->len), key))
			break;
	}
	return slot;
}

bool sl_quotas_find(const struct sl_quotas *quotas, struct sluice_bytes key, struct sl_quota *quota) {
	uint32_t probes, slot = sl_quotas_slot(quotas, key, sl_quotas_hash(quotas, key), &probes);
	if (quotas->slots[slot].tag == 0)
		return false;
	const struct sl_quota_row *row = &quotas->rows[quotas->slots[slot].row];
	*quota = (struct sl_quota){&quotas->limits[row->limit], quotas->file, row->line};
	return true;
}
