/* A descriptor, level by level: as the gRPC door finds its rule, by the same call. */
#include "hosts/cli/explain_descriptor.h"

#include "hosts/server/door/envoy_files.h"
#include "policy/key.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct descriptor {
	struct sluice_bytes pairs[2 * SL_ENVOY_DEPTH_MAX]; /* key, value, .. */
	uint32_t count;
	char memory[4096]; /* what they are in, decoded */
};

static int hex_of(char c) {
	return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Decodes %XX of a text; false where it has no room. */
static bool take_text(struct sl_out *out, struct sluice_bytes text, struct sluice_bytes *taken) {
	const char *p = text.data, *start = out->at;
	for (size_t i = 0; i < text.len; i++) {
		bool is_coded = p[i] == '%' && i + 2 < text.len && hex_of(p[i + 1]) >= 0 && hex_of(p[i + 2]) >= 0;
		sl_out_char(out, is_coded ? (char)(hex_of(p[i + 1]) * 16 + hex_of(p[i + 2])) : p[i]);
		i += is_coded ? 2 : 0;
	}
	*taken = sl_slice(start, (size_t)(out->at - start));
	return !out->overflow;
}

/* False: it is none. */
static bool read_descriptor(struct descriptor *descriptor, const char *text) {
	struct sl_out out = sl_out_to(descriptor->memory, sizeof descriptor->memory);
	descriptor->count = 0;
	while (*text != '\0') {
		size_t len = strcspn(text, ","), key = strcspn(text, ",=");
		struct sluice_bytes *pair = &descriptor->pairs[2 * (size_t)descriptor->count];
		if (key == 0 || descriptor->count == SL_ENVOY_DEPTH_MAX || !take_text(&out, sl_slice(text, key), &pair[0]) ||
		    !take_text(&out, sl_slice(text + key + (key < len), len - key - (key < len)), &pair[1]))
			return false;
		descriptor->count++;
		text += len + (text[len] == ',');
	}
	return descriptor->count != 0;
}

static void print_problems(void *to, const char *file, const struct sluice_problems *problems) {
	(void)to;
	sl_cli_print_problems(stderr, file, problems, false);
}

/* The key of its counter, as the door has it. */
static struct sluice_bytes key_of(char memory[SLUICE_KEY_BYTES_MAX * 8], const struct sluice_policy *policy,
                                  const struct sl_envoy_found *found, const char *domain,
                                  const struct descriptor *descriptor) {
	struct sl_out out = sl_out_to(memory, (size_t)SLUICE_KEY_BYTES_MAX * 8);
	sl_key_add(&out, sl_str(domain));
	for (uint32_t i = 0; i < descriptor->count; i++) {
		const struct sluice_bytes *pair = &descriptor->pairs[2 * (size_t)i];
		sl_out_char(&out, ',');
		sl_key_add(&out, pair[0]);
		sl_out_char(&out, '=');
		sl_key_add(&out, sl_policy_envoy_value(policy, found, i, pair[1]));
		struct sluice_bytes key = sl_key_fold(memory, sl_slice(memory, sl_out_len(&out)));
		out.at = memory + key.len;
	}
	return sl_slice(memory, sl_out_len(&out));
}

/* What is left, by SLUICE.PEEK. */
static int print_counter(struct sl_cli_ask *ask, const struct sl_envoy_rule *rule, struct sluice_bytes key) {
	char named[SLUICE_NAME_BYTES_MAX + 8], wait[SL_WAIT_TEXT_MAX];
	struct sluice_error error;
	int64_t answer[7];
	snprintf(named, sizeof named, "policy:%s", rule->shown.name);
	const struct sluice_bytes words[] = {sl_str("SLUICE.PEEK"), key, sl_str("1"), sl_str(named)};
	int status = sl_ask_reach(ask);
	if (status != SL_GO_ON)
		return status;
	if (!sl_client_send(&ask->client, words, 4, &error) || !sl_ask_read_array(ask, answer, 7, 0, &error)) {
		status = sl_ask_failed(ask, &error);
	} else {
		bool denied = answer[0] == 0 && !rule->shadow;
		printf("  now       %s, %" PRId64 " of %" PRId64 " left%s%s\n",
		       answer[0] != 0 ? "OK"
		       : rule->shadow ? "over, and OK as a shadow"
		                      : "over the limit",
		       answer[2], answer[1], answer[0] != 0 ? "" : "; next in ",
		       answer[0] != 0 ? "" : sl_cli_wait(wait, answer[3]));
		status = denied ? SL_EXIT_DENIED : SL_EXIT_FINE;
	}
	sl_ask_end(ask);
	return status;
}

static int print_nothing(const struct sluice_policy *policy, const struct sl_envoy_found *found, const char *domain,
                         const struct descriptor *descriptor) {
	if (!sl_policy_envoy_has(policy, sl_str(domain)))
		printf("no rule: no file has the domain %s\n", domain);
	else if (found->matched < descriptor->count)
		printf("no rule: entry %" PRIu32 " (%.*s) finds no descriptor\n", found->matched + 1,
		       (int)descriptor->pairs[2 * (size_t)found->matched].len,
		       (const char *)descriptor->pairs[2 * (size_t)found->matched].data);
	else
		printf("no rule: the descriptor that it finds has no rate_limit\n");
	return SL_EXIT_FINE;
}

static int print_rule(struct sl_cli_ask *ask, const struct sluice_policy *policy, const struct sl_envoy_found *found,
                      const char *domain, const struct descriptor *descriptor) {
	const struct sl_envoy_rule *rule = found->rule;
	char limit[SLUICE_LIMIT_TEXT_MAX], memory[SLUICE_KEY_BYTES_MAX * 8];
	struct sluice_bytes key = key_of(memory, policy, found, domain, descriptor);
	sluice_limit_print(&rule->shown.limit, limit);
	printf("%.*s: %s:%" PRIu32 "\n", (int)rule->full_key.len, (const char *)rule->full_key.data, rule->file,
	       rule->line);
	printf("  limit     %s%s%s%s\n", limit, rule->shadow ? ", shadow_mode" : "", rule->quota ? ", quota_mode" : "",
	       rule->shown.has_terms ? ", count-denied" : "");
	if (rule->unlimited)
		return SL_EXIT_FINE;
	printf("  counter   %.*s\n", (int)key.len, (const char *)key.data);
	return ask->store != NULL ? print_counter(ask, rule, key) : SL_EXIT_FINE;
}

int sl_explain_descriptor(struct sl_cli_ask *ask, struct sluice_policy *policy, const char *policy_file,
                          const char *domain, const char *text) {
	struct descriptor descriptor;
	struct sl_envoy_found found;
	if (!read_descriptor(&descriptor, text))
		return sl_cli_misuse(ask->verb,
		                     "'%.64s': expected entries such as path=/login,remote_address=192.0.2.7, at most %d", text,
		                     SL_ENVOY_DEPTH_MAX);
	if (sl_policy_settings(policy)->envoy.config == NULL)
		return sl_cli_fail(ask->verb, "%s names no files of envoyproxy/ratelimit (envoy: {config: DIR})", policy_file);
	if (!sl_envoy_files_read(policy, policy_file, print_problems, NULL))
		return SL_EXIT_FAILED;
	sl_policy_envoy_find(policy, sl_str(domain), descriptor.pairs, descriptor.count, &found);
	int status = found.rule == NULL ? print_nothing(policy, &found, domain, &descriptor)
	                                : print_rule(ask, policy, &found, domain, &descriptor);
	return sl_cli_end(ask->verb, status);
}
