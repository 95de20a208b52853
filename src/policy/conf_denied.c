/* What the body of a denial is: `denied: {body: FILE, type: text/html}`, of the policy or of one limit.
 *
 * Files that are named twice with one type are one body. The policy only names them: whoever loads it reads them, and
 * finds out whether they can be served (proto/template.h). */
#include "policy/conf.h"

struct denied_nodes {
	const struct sl_yaml *body;
	const char *file; /* NULL while it is not read */
	uint32_t type;
};

static void read_body(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	struct denied_nodes *nodes = into;
	const char *file = NULL;
	nodes->body = value;
	sl_conf_path(conf, value, &file);
	if (file != NULL && strlen(file) > SL_DENIED_PATH_BYTES_MAX)
		sl_report_error(conf->report, value->place, "expected a path of at most %d bytes, found %zu",
		                SL_DENIED_PATH_BYTES_MAX, strlen(file));
	else
		nodes->file = file;
}

static void read_type(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	static const struct sl_word words[] = {
		{"application/json", SL_DENIED_JSON, false},
		{"application/problem+json", SL_DENIED_PROBLEM, false},
		{"text/html", SL_DENIED_HTML, false},
		{"text/plain", SL_DENIED_PLAIN, false},
		{NULL, 0, false},
	};
	(void)sl_conf_word(conf, value, words, into);
}

void sl_conf_denied(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	static const struct sl_field fields[] = {
		{"body", read_body, 0, "the path of a file"},
		{"type", read_type, offsetof(struct denied_nodes, type), "a media type, such as application/json"},
		{NULL, NULL, 0, NULL},
	};
	struct sluice_policy *policy = conf->policy;
	struct denied_nodes nodes = {.file = NULL};
	uint8_t number = 0;
	sl_conf_map(conf, value, "denied", fields, &nodes);
	if (nodes.file == NULL)
		return;
	while (number < policy->denied_count && (policy->denials[number].type != nodes.type ||
	                                         strcmp(policy->denials[number].file, nodes.file) != 0))
		number++;
	if (number == SL_DENIED_MAX) {
		sl_report_error(conf->report, nodes.body->place, "expected at most %d different bodies of denials",
		                SL_DENIED_MAX);
		return;
	}
	if (number == policy->denied_count)
		policy->denials[policy->denied_count++] = (struct sl_policy_denied){.file = nodes.file,
		                                                                    .type = (uint8_t)nodes.type,
		                                                                    .line = nodes.body->place.line,
		                                                                    .column = nodes.body->place.column};
	*(uint8_t *)into = (uint8_t)(number + 1);
}
