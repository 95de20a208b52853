/* A descriptor: SLUICE.RULE finds its rule, as the gRPC door does, and SLUICE.PEEK says what is left. Both are asked of
 * a server, or of the server's own door in this process, which then has the files that a policy names. */
#include "hosts/cli/explain_descriptor.h"

#include "hosts/cli/told.h"
#include "hosts/files/envoy_files.h"

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

bool sl_explain_read_files(struct sl_cli_ask *ask, struct sluice_policy *policy, const char *policy_file, int *status) {
	*status = SL_EXIT_FAILED;
	if (sl_policy_settings(policy)->envoy.config == NULL)
		*status =
			sl_cli_fail(ask->verb, "%s names no files of envoyproxy/ratelimit (envoy: {config: DIR})", policy_file);
	else if (sl_envoy_files_read(policy, policy_file, print_problems, NULL))
		*status = SL_GO_ON;
	return *status == SL_GO_ON;
}

static struct sluice_bytes bytes_of(const struct sl_told_text *text) {
	return sl_slice(text->data, text->len);
}

/* Asks for the rule. */
static bool ask_rule(struct sl_cli_ask *ask, const char *domain, const struct descriptor *descriptor,
                     struct sl_told *told, struct sluice_error *error) {
	struct sluice_bytes words[2 + 2 * SL_ENVOY_DEPTH_MAX] = {sl_str("SLUICE.RULE"), sl_str(domain)};
	const uint32_t count = 2 * descriptor->count;
	memcpy(words + 2, descriptor->pairs, count * sizeof words[0]);
	return sl_client_send(&ask->client, words, (int)(2 + count), error) && sl_told_read(&ask->client, told, error);
}

static void print_rule(const struct sl_told *told) {
	sl_told_put_text(&told->why);
	putchar('\n');
	if (told->limit.len == 0)
		return;
	printf("  limit     ");
	sl_told_put_text(&told->limit);
	printf("%s%s%s\n", sl_told_number(told, "shadow", 0) != 0 ? ", shadow_mode" : "",
	       sl_told_number(told, "quota", 0) != 0 ? ", quota_mode" : "",
	       sl_told_number(told, "count-denied", 0) != 0 ? ", count-denied" : "");
	if (told->key.len == 0)
		return;
	printf("  counter   ");
	sl_told_put_text(&told->key);
	putchar('\n');
}

/* What is left. False with `error` filled. */
static bool print_counter(struct sl_cli_ask *ask, const struct sl_told *told, int *status, struct sluice_error *error) {
	char named[8 + sizeof told->name.data], wait[SL_WAIT_TEXT_MAX];
	int64_t answer[7];
	snprintf(named, sizeof named, "policy:%.*s", (int)told->name.len, told->name.data);
	const struct sluice_bytes words[] = {sl_str("SLUICE.PEEK"), bytes_of(&told->key), sl_str("1"), sl_str(named)};
	if (!sl_client_send(&ask->client, words, 4, error) || !sl_ask_read_array(ask, answer, 7, 0, error))
		return false;
	const bool over = answer[0] == 0, shadow = sl_told_number(told, "shadow", 0) != 0;
	printf("  now       %s, %" PRId64 " of %" PRId64 " left%s%s\n",
	       !over    ? "OK"
	       : shadow ? "over, and OK as a shadow"
	                : "over the limit",
	       answer[2], answer[1], over ? "; next in " : "", over ? sl_cli_wait(wait, answer[3]) : "");
	*status = over && !shadow ? SL_EXIT_DENIED : SL_EXIT_FINE;
	return true;
}

int sl_explain_descriptor(struct sl_cli_ask *ask, bool counters, const char *domain, const char *text) {
	static struct sl_told told;
	struct descriptor descriptor;
	struct sluice_error error;
	int status = SL_EXIT_FINE;
	if (!read_descriptor(&descriptor, text))
		return sl_cli_misuse(ask->verb,
		                     "'%.64s': expected entries such as path=/login,remote_address=192.0.2.7, at most %d", text,
		                     SL_ENVOY_DEPTH_MAX);
	if (!ask_rule(ask, domain, &descriptor, &told, &error))
		return sl_ask_failed(ask, &error);
	print_rule(&told);
	if (counters && told.key.len != 0 && !print_counter(ask, &told, &status, &error))
		return sl_ask_failed(ask, &error);
	return status;
}
