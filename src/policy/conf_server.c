/* The sections of the server itself: its certificate, what connections may take, its logs.
 */
#include "policy/conf.h"

#include "algo/rule.h"

/* ---- tls ------------------------------------------------------------------------------------------------------ */

void sl_conf_tls(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	static const struct sl_field fields[] = {
		{"certificate", sl_conf_path, offsetof(struct sl_settings, tls_certificate), "the path of a PEM file"},
		{"key", sl_conf_path, offsetof(struct sl_settings, tls_key), "the path of a PEM file"},
		{"client-ca", sl_conf_path, offsetof(struct sl_settings, tls_client_ca), NULL},
		{NULL, NULL, 0, NULL},
	};
	conf->tls = value;
	sl_conf_map(conf, value, "tls", fields, into);
}

/* ---- headers --------------------------------------------------------------------------------------------------- */

void sl_conf_forms(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	static const struct sl_word words[] = {
		{"draft10", SL_FORM_DRAFT10, false},
		{"draft7", SL_FORM_DRAFT7, false},
		{"draft6", SL_FORM_DRAFT6, false},
		{"legacy-epoch", SL_FORM_LEGACY_EPOCH, false},
		{"legacy-delta", SL_FORM_LEGACY_DELTA, false},
		{"failed-open", SL_FORM_FAILED_OPEN, false},
		{"none", 0, false},
		{"draft-10", SL_FORM_DRAFT10, true},
		{"draft8", SL_FORM_DRAFT10, true}, /* lists of named items since that one, in the same grammar */
		{"draft-8", SL_FORM_DRAFT10, true},
		{"draft9", SL_FORM_DRAFT10, true},
		{"draft-9", SL_FORM_DRAFT10, true},
		{"draft-7", SL_FORM_DRAFT7, true},
		{"draft-6", SL_FORM_DRAFT6, true},
		{"ietf", SL_FORM_DRAFT10, true},
		{NULL, 0, false},
	};
	static const struct sl_clash clashes[] = {
		{SL_FORM_DRAFT10, SL_FORM_DRAFT7,
	     "expected draft10 or draft7, found both: each writes RateLimit and RateLimit-Policy in a grammar of its own"},
		{SL_FORM_DRAFT10, SL_FORM_DRAFT6,
	     "expected draft10 or draft6, found both: each writes RateLimit-Policy in a grammar of its own"},
		{SL_FORM_LEGACY_EPOCH, SL_FORM_LEGACY_DELTA,
	     "expected legacy-epoch or legacy-delta, found both: X-RateLimit-Reset is an instant in one, a wait in the "
	     "other"},
		{0, 0, NULL},
	};
	sl_conf_set(conf, value, words, clashes, into);
}

/* ---- connections, log ------------------------------------------------------------------------------------------ */

/* Any wait that the notation can write; 0s is none. */
static void read_wait(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	sl_conf_duration(conf, value, SL_WINDOW_NS_MAX, "3660d", into);
}

static void read_count(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	sl_conf_number(conf, value, 0, 10 * 1000 * 1000, into);
}

static void read_rate(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	sl_conf_number(conf, value, 1, 1000 * 1000, into);
}

void sl_conf_connections(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	static const struct sl_field fields[] = {
		{"max", read_count, offsetof(struct sl_connection_limits, max), NULL},
		{"per-address", read_count, offsetof(struct sl_connection_limits, per_address), NULL},
		{"idle", read_wait, offsetof(struct sl_connection_limits, idle_ns), NULL},
		{"request", read_wait, offsetof(struct sl_connection_limits, request_ns), NULL},
		{"write", read_wait, offsetof(struct sl_connection_limits, write_ns), NULL},
		{NULL, NULL, 0, NULL},
	};
	sl_conf_map(conf, value, "connections", fields, into);
}

static void read_format(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	static const struct sl_word words[] = {{"text", 0, false}, {"json", 1, false}, {NULL, 0, false}};
	uint32_t json;
	if (sl_conf_word(conf, value, words, &json))
		*(bool *)into = json != 0;
}

static void read_keys(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	static const struct sl_word words[] = {
		{"clear", SL_KEYS_CLEAR, false}, {"hash", SL_KEYS_HASH, false}, {"cut", SL_KEYS_CUT, false}, {NULL, 0, false}};
	uint32_t keys;
	if (sl_conf_word(conf, value, words, &keys))
		*(uint8_t *)into = (uint8_t)keys;
}

/* What a hash of few possible keys, addresses for one, is worth depends on this: it is not short. */
static void read_secret(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	struct sluice_bytes text;
	if (!sl_conf_text(conf, value, "the secret that keys are hashed by", &text))
		return;
	if (text.len < 16 || text.len > 256 || memchr(text.data, '\0', text.len) != NULL)
		sl_report_error(conf->report, value->place,
		                "expected the secret that keys are hashed by, 16 to 256 bytes without NUL, found %zu bytes",
		                text.len);
	else
		*(const char **)into = sl_pool_text(&conf->policy->pool, text);
}

void sl_conf_log(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	static const struct sl_field fields[] = {
		{"format", read_format, offsetof(struct sl_log_settings, json), NULL},
		{"denials", sl_conf_path, offsetof(struct sl_log_settings, denials), NULL},
		{"denials-per-key", read_wait, offsetof(struct sl_log_settings, denials_per_key), NULL},
		{"denials-per-second", read_rate, offsetof(struct sl_log_settings, denials_per_second), NULL},
		{"denials-size", sl_conf_size, offsetof(struct sl_log_settings, denials_bytes), NULL},
		{"keys", read_keys, offsetof(struct sl_log_settings, keys), NULL},
		{"keys-secret", read_secret, offsetof(struct sl_log_settings, keys_secret), NULL},
		{NULL, NULL, 0, NULL},
	};
	const struct sl_log_settings *log = into;
	size_t mistakes = conf->report->error_count;
	sl_conf_map(conf, value, "log", fields, into);
	if (conf->report->error_count == mistakes && (log->keys == SL_KEYS_HASH) != (log->keys_secret != NULL))
		sl_report_error(conf->report, value->place,
		                log->keys_secret == NULL ? "keys: hash needs keys-secret, the secret that keys are hashed by"
		                                         : "keys-secret is for keys: hash, which is missing");
}

/* ---- single values --------------------------------------------------------------------------------------------- */

void sl_conf_threads(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	sl_conf_number(conf, value, 1, SL_THREADS_MAX, into);
}

void sl_conf_ipv6_prefix(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	sl_conf_number(conf, value, 1, 128, into);
}

void sl_conf_near(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	sl_conf_percent(conf, value, 0, 100, "a share of the quota", into);
}

void sl_conf_drain(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	sl_conf_duration(conf, value, (sluice_ns)600 * 1000000000, "10m", into);
}
