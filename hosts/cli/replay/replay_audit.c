/* See replay_audit.h. */
#include "hosts/cli/replay/replay_audit.h"

#include "algo/traits.h"
#include "hosts/cli/audit.h"
#include "hosts/cli/replay/input.h"

#include <inttypes.h>
#include <stdlib.h>

struct sl_replay_audit {
	struct sl_audit *judge;
	struct sl_input *verdicts; /* NULL without --judge */
	uint64_t read;             /* verdicts that were read */
};

int sl_replay_audit_open(struct sl_replay *replay) {
	const struct sl_replay_options *options = replay->options;
	struct sluice_error error;
	if (!options->audit && options->judge == NULL)
		return SL_GO_ON;
	replay->audit = calloc(1, sizeof *replay->audit);
	if (replay->audit != NULL)
		replay->audit->judge = sl_audit_open(replay->limit_count + 1, options->memory_bytes, false);
	if (replay->audit == NULL || replay->audit->judge == NULL)
		return sl_cli_fail(replay->verb, "no memory to audit in");
	if (options->judge == NULL)
		return SL_GO_ON;
	replay->audit->verdicts = sl_input_open(options->judge, &error);
	return replay->audit->verdicts != NULL ? SL_GO_ON
	                                       : sl_cli_fail(replay->verb, "--judge %s: %s", options->judge, error.text);
}

void sl_replay_audit_close(struct sl_replay *replay) {
	if (replay->audit == NULL)
		return;
	if (replay->audit->verdicts != NULL)
		sl_input_close(replay->audit->verdicts);
	sl_audit_close(replay->audit->judge);
	free(replay->audit);
}

/* ---- verdicts ---------------------------------------------------------------------------------------------------- */

/* Reads a verdict: "1" or "0", and whatever follows a space, as --decisions prints it. False where there is none;
 * *status says whether that is the end. */
static bool next_verdict(struct sl_replay *replay, bool *allowed, int *status) {
	struct sl_replay_audit *audit = replay->audit;
	struct sluice_error error = {.text = "expected 1 or 0, and a space or nothing after it"};
	struct sluice_bytes line;
	enum sl_input_verdict verdict = sl_input_next(audit->verdicts, &line, &error);
	*status = SL_GO_ON;
	if (verdict == SL_INPUT_END)
		return false;
	audit->read++;
	const char *text = line.data;
	if (verdict == SL_INPUT_LINE && line.len != 0 && (text[0] == '0' || text[0] == '1') &&
	    (line.len == 1 || text[1] == ' ')) {
		*allowed = text[0] == '1';
		return true;
	}
	*status = sl_cli_fail(replay->verb, "--judge %s:%" PRIu64 ": %s", replay->options->judge, audit->read, error.text);
	return false;
}

int sl_replay_audit_verdicts(struct sl_replay *replay, struct sluice_call *calls, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		struct sluice_call *call = &calls[i];
		bool allowed;
		int status;
		if (!next_verdict(replay, &allowed, &status))
			return status != SL_GO_ON ? status
			                          : sl_cli_fail(replay->verb,
			                                        "--judge %s: it ends after %" PRIu64
			                                        " verdicts, and there are more requests: it is not of this log",
			                                        replay->options->judge, replay->audit->read);
		call->err = SLUICE_OK;
		call->granted = allowed ? call->cost : 0;
		call->merged = (struct sluice_decision){.allowed = allowed, .index = -1};
		for (uint32_t k = 0; k < call->item_count; k++)
			call->each[k] = call->merged;
	}
	return SL_GO_ON;
}

int sl_replay_audit_end(struct sl_replay *replay) {
	bool allowed;
	int status;
	if (replay->audit == NULL || replay->audit->verdicts == NULL)
		return SL_GO_ON;
	if (!next_verdict(replay, &allowed, &status))
		return status;
	return sl_cli_fail(replay->verb, "--judge %s: more verdicts than requests: it is not of this log",
	                   replay->options->judge);
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

static bool is_charged(const struct sl_replay *replay, const struct sluice_call *call, uint32_t i) {
	if (!call->merged.allowed || !call->each[i].allowed || call->items[i].observed == SLUICE_TRIED)
		return false;
	return replay->audit->verdicts == NULL || !call->items[i].observed; /* a verdict tells nothing of observed ones */
}

int sl_replay_audit_call(struct sl_replay *replay, const struct sluice_call *call, const uint32_t *positions,
                         sluice_ns release) {
	for (uint32_t i = 0; replay->audit != NULL && i < call->item_count; i++) {
		const struct sluice_item *item = &call->items[i];
		if (!sl_rule_has(item->limit, SL_HAS_COUNTER) || !is_charged(replay, call, i))
			continue;
		struct sl_audit_charge charge = {.position = positions[i],
		                                 .limit = item->limit,
		                                 .key = item->key,
		                                 .member = item->member,
		                                 .cost = call->upto       ? call->granted
		                                         : item->cost != 0 ? item->cost
		                                                           : call->cost,
		                                 .since = call->now,
		                                 .now = call->now,
		                                 .until = release};
		if (!sl_audit_add(replay->audit->judge, &charge))
			return sl_cli_fail(replay->verb, "the audit needs more than the %" PRIu64 " MiB of --memory",
			                   replay->options->memory_bytes >> 20);
	}
	return SL_GO_ON;
}

/* A policy's names; limits of the command line have none. */
static const char *name_of(const void *policy, uint32_t position) {
	return policy != NULL ? sluice_policy_limit_name(policy, position) : NULL;
}

void sl_replay_audit_report(const struct sl_replay *replay, FILE *to) {
	if (replay->audit != NULL)
		sl_audit_print(replay->audit->judge, to, name_of, replay->policy);
}

int sl_replay_audit_status(const struct sl_replay *replay) {
	bool exceeded = replay->audit != NULL && sl_audit_exceeded(replay->audit->judge) != 0;
	return exceeded ? SL_EXIT_DENIED : SL_EXIT_FINE;
}
