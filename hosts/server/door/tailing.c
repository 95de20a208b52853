/* See tailing.h. */
#include "hosts/server/door/tailing.h"

#include "base/assert.h"
#include "base/fold.h"
#include "base/text.h"
#include "policy/nearest.h"

#include <stdio.h>

enum { NAMES_SHOWN = 8, TEXT_SHOWN = 64 };

static const char *name_at(const void *policy, size_t index) {
	return sluice_policy_limit_name(policy, (uint32_t)index);
}

void sl_tailing_suggest(struct sl_out *out, const struct sluice_policy *policy, struct sluice_bytes name) {
	const char *near = sl_nearest(name, name_at, policy);
	uint32_t count = sl_policy_limit_count(policy);
	sl_out_str(out, near != NULL ? "did you mean " : count == 0 ? "it has none" : "it has ");
	if (near != NULL)
		sl_out_str(out, near);
	for (uint32_t i = 0; near == NULL && i < count && i < NAMES_SHOWN; i++) {
		sl_out_str(out, i > 0 ? ", " : "");
		sl_out_str(out, name_at(policy, i));
	}
	sl_out_str(out, near != NULL ? "?" : count > NAMES_SHOWN ? " and others" : "");
}

static bool fail_unknown(const struct sluice_policy *policy, struct sluice_bytes text, struct sluice_error *error) {
	struct sl_out out = sl_out_to(error->text, sizeof error->text - 1);
	sl_out_shown(&out, text, TEXT_SHOWN);
	sl_out_str(&out, " is no limit in notation, and the policy has none of that name: ");
	sl_tailing_suggest(&out, policy, text);
	*out.at = '\0';
	return false;
}

bool sl_tailing_limit(const struct sl_door_context *context, struct sl_tail_filter *filter, struct sluice_bytes text,
                      struct sluice_error *error) {
	bool fits = sl_tail_filter_limit(filter, text);
	if (fits && (filter->is_notation || sl_policy_limit_find(context->policy, text) >= 0))
		return true;
	return fail_unknown(context->policy, text, error);
}

void sl_tailing_key(const struct sl_door_context *context, struct sl_tail_filter *filter, struct sluice_bytes text) {
	char folded[SLUICE_KEY_BYTES_MAX], memory[SLUICE_KEY_BYTES_MAX];
	bool fits = sl_tail_filter_key(filter, sl_policy_key(context->policy, sl_key_fold(folded, text), memory));
	SL_ASSERT(fits);
}

bool sl_tailing_begin(struct sl_door_context *context, const struct sl_tail_filter *filter,
                      struct sluice_error *error) {
	struct sl_tail_reader *reader = NULL;
	enum sl_tail_joined joined = SL_TAIL_NO_MEMORY;
	sl_tailing_end(context);
	if (context->shared == NULL || context->shared->tail == NULL) {
		snprintf(error->text, sizeof error->text, "only a server's decisions can be followed");
		return false;
	}
	joined = sl_tail_join(context->shared->tail, filter, &reader);
	context->reader = reader;
	if (joined == SL_TAIL_FULL)
		snprintf(error->text, sizeof error->text, "%d clients follow decisions already: no more are "
		                                          "accepted", SL_TAIL_READERS_MAX);
	else if (joined == SL_TAIL_NO_MEMORY)
		snprintf(error->text, sizeof error->text, "there is no memory for another client that follows decisions");
	return joined == SL_TAIL_JOINED;
}

void sl_tailing_end(struct sl_door_context *context) {
	sl_tail_leave(context->reader);
	context->reader = NULL;
}
