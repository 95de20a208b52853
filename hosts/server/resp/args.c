/* Arguments that several commands take, and how a wrong one is shown. */
#include "hosts/server/resp/resp.h"

struct sl_shown sl_resp_shown(struct sluice_bytes text) {
	struct sl_shown shown;
	struct sl_out out = sl_out_to(shown.text, sizeof shown.text - 1);
	sl_out_quoted(&out, text, 128);
	*out.at = '\0';
	return shown;
}

bool sl_resp_read_cost(struct sl_resp_turn *turn, struct sluice_bytes text, uint32_t *cost) {
	uint64_t value;
	if (text.len == 1 && (unsigned)*(const unsigned char *)text.data - '0' <= 9) {
		*cost = (uint32_t) * (const unsigned char *)text.data - '0';
		return true;
	}
	if (sl_bytes_to_u64(text, &value) && value <= UINT32_MAX) {
		*cost = (uint32_t)value;
		return true;
	}
	sl_reply_error(turn, "ERR cost %s: expected a whole number from 0 to %u", sl_resp_shown(text).text, UINT32_MAX);
	return false;
}

bool sl_resp_read_number(struct sl_resp_turn *turn, uint32_t index, const char *what, uint64_t least, uint64_t most,
                         uint64_t *value) {
	struct sluice_bytes text = sl_resp_arg(turn, index);
	if (sl_bytes_to_u64(text, value) && *value >= least && *value <= most)
		return true;
	sl_reply_error(turn, "ERR %s %s: expected a whole number from %llu to %llu", what, sl_resp_shown(text).text,
	               (unsigned long long)least, (unsigned long long)most);
	return false;
}
