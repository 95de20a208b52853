/* A quota of a key's own, as RESP tells it; see own_quota.h. */
#include "proto/own_quota.h"

void sl_own_quota_put(const struct sl_answer_sink *sink, void *to, const struct sluice_override *own) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	sink->text(to, sl_str(SL_OWN_QUOTA));
	sink->text(to, sl_slice(text, sluice_limit_print(&own->limit, text)));
	sink->text(to, sl_str(SL_OWN_ENDS));
	sink->integer(to, sl_ns_to_ms_ceil(own->ends_after_ns));
}
