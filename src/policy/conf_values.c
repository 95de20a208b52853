/* Single values of settings: each reader knows one notation, points at the byte that breaks it where it can, and says
 * what would be right.
 */
#include "policy/conf.h"

#include "algo/reading.h"

#include <stdio.h>

enum {
	UNIX_PATH_BYTES_MAX = 107, /* of sun_path, without its NUL */
	SHARED_NAME_BYTES_MAX = 200,
};

void sl_conf_bool(struct sl_conf *conf, const struct sl_yaml *node, void *into) {
	bool *value = into;
	if (!sl_conf_expect(conf, node, SL_NODE_TEXT, "true or false"))
		return;
	if (node->plain && sl_bytes_equal(node->text, sl_str("true")))
		*value = true;
	else if (node->plain && sl_bytes_equal(node->text, sl_str("false")))
		*value = false;
	else
		sl_report_found(conf->report, node->place, node->text, "expected true or false%s",
		                node->plain ? "" : " without quotes");
}

void sl_conf_number(struct sl_conf *conf, const struct sl_yaml *node, uint32_t min, uint32_t max, uint32_t *value) {
	uint64_t number;
	if (!sl_conf_expect(conf, node, SL_NODE_TEXT, "a whole number"))
		return;
	if (node->plain && sl_bytes_to_u64(node->text, &number) && number >= min && number <= max)
		*value = (uint32_t)number;
	else
		sl_report_found(conf->report, node->place, node->text, "expected a whole number from %u to %u%s", min, max,
		                node->plain ? "" : " without quotes");
}

/* How many decimal digits a text begins with. */
static size_t count_digits(struct sluice_bytes text) {
	const char *p = text.data;
	size_t digits = 0;
	while (digits < text.len && p[digits] >= '0' && p[digits] <= '9')
		digits++;
	return digits;
}

/* ---- sizes ---------------------------------------------------------------------------------------------------- */

void sl_conf_size(struct sl_conf *conf, const struct sl_yaml *node, void *into) {
	const uint64_t min = (uint64_t)1 << 20, max = (uint64_t)256 << 30;
	struct sluice_bytes text;
	uint64_t number = 0;
	if (!sl_conf_text(conf, node, "a size, such as 256MiB", &text))
		return;
	const char *p = text.data;
	size_t digits = count_digits(text);
	uint64_t unit = sl_size_unit(sl_slice(p + digits, text.len - digits));
	if (digits == 0 || unit == 0)
		sl_report_found(conf->report, sl_node_place(node, digits), text,
		                "expected a size, such as 256MiB (KiB, MiB, GiB, TiB, or bytes)");
	else if (!sl_bytes_to_u64(sl_slice(p, digits), &number) || number > max / unit || number * unit < min)
		sl_report_found(conf->report, node->place, text, "expected a size from 1MiB to 256GiB");
	else
		*(uint64_t *)into = number * unit;
}

void sl_conf_percent(struct sl_conf *conf, const struct sl_yaml *node, uint32_t min, uint32_t max, const char *what,
                     uint32_t *value) {
	struct sluice_bytes text;
	char expected[64];
	uint64_t number;
	snprintf(expected, sizeof expected, "%s, such as 50%%", what);
	if (!sl_conf_text(conf, node, expected, &text))
		return;
	const char *p = text.data;
	bool share = text.len > 1 && p[text.len - 1] == '%' && sl_bytes_to_u64(sl_slice(p, text.len - 1), &number);
	if (share && number >= min && number <= max)
		*value = (uint32_t)number;
	else
		sl_report_found(conf->report, node->place, text, "expected %s, %u%% to %u%%", what, min, max);
}

/* ---- durations ------------------------------------------------------------------------------------------------ */

void sl_conf_wait(struct sl_conf *conf, const struct sl_yaml *node, sluice_ns min, const char *min_text, sluice_ns max,
                  const char *max_text, sluice_ns *value) {
	struct sluice_bytes text;
	uint64_t number;
	if (!sl_conf_text(conf, node, "a duration such as 10s", &text))
		return;
	size_t digits = count_digits(text);
	sluice_ns unit = sl_unit_ms(sl_slice((const char *)text.data + digits, text.len - digits)) * SL_MS_NS;
	if (digits == 0 || unit == 0)
		sl_report_found(conf->report, sl_node_place(node, digits), text,
		                "expected a duration such as 10s: a whole number and ms, s, m, h, d or w");
	else if (!sl_bytes_to_u64(sl_slice(text.data, digits), &number) || number > max / unit || number * unit < min)
		sl_report_found(conf->report, node->place, text, "expected a duration from %s to %s", min_text, max_text);
	else
		*value = number * unit;
}

void sl_conf_duration(struct sl_conf *conf, const struct sl_yaml *node, sluice_ns max, const char *max_text,
                      sluice_ns *value) {
	sl_conf_wait(conf, node, 0, "0s", max, max_text, value);
}

/* ---- addresses and files -------------------------------------------------------------------------------------- */

static bool is_unix(struct sluice_bytes text) {
	return text.len >= 5 && memcmp(text.data, "unix:", 5) == 0;
}

static bool is_good_unix(struct sluice_bytes text) {
	return text.len > 5 && text.len - 5 <= UNIX_PATH_BYTES_MAX && memchr(text.data, '\0', text.len) == NULL;
}

void sl_conf_address(struct sl_conf *conf, const struct sl_yaml *node, void *into) {
	static const char expected[] = "an address such as 127.0.0.1:7379, \"[::1]:7379\" or unix:/run/sluice.sock";
	struct sluice_bytes text;
	struct sl_address address;
	uint32_t port = SL_PORT_NONE;
	if (!sl_conf_text(conf, node, expected, &text))
		return;
	bool named = is_unix(text);
	if (named && !is_good_unix(text))
		sl_report_found(conf->report, sl_node_place(node, 5), text, "expected a path of 1 to %d bytes after 'unix:'",
		                UNIX_PATH_BYTES_MAX);
	else if (!named && !sl_address_parse(text, &address, &port))
		sl_report_found(conf->report, node->place, text, "expected %s", expected);
	else if (!named && port == SL_PORT_NONE)
		sl_report_found(conf->report, sl_node_place(node, text.len), text, "expected a port, such as :7379");
	else
		*(const char **)into = sl_pool_text(&conf->policy->pool, text);
}

void sl_conf_path(struct sl_conf *conf, const struct sl_yaml *node, void *into) {
	struct sluice_bytes text;
	if (!sl_conf_text(conf, node, "the path of a file", &text))
		return;
	if (text.len == 0 || text.len > 4095 || memchr(text.data, '\0', text.len) != NULL)
		sl_report_found(conf->report, node->place, text, "expected the path of a file, 1 to 4095 bytes without NUL");
	else
		*(const char **)into = sl_pool_text(&conf->policy->pool, text);
}

static bool is_shared_byte(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
	       c == '-';
}

void sl_conf_shared(struct sl_conf *conf, const struct sl_yaml *node, void *into) {
	struct sluice_bytes text;
	size_t good = 0;
	if (!sl_conf_text(conf, node, "the name of shared memory", &text))
		return;
	const char *p = text.data;
	while (good < text.len && is_shared_byte(p[good]))
		good++;
	if (good == 0 || good < text.len || text.len > SHARED_NAME_BYTES_MAX)
		sl_report_found(conf->report, good < text.len ? sl_node_place(node, good) : node->place, text,
		                "expected the name of shared memory, 1 to %d letters, digits, dots, _ and -",
		                SHARED_NAME_BYTES_MAX);
	else
		*(const char **)into = sl_pool_text(&conf->policy->pool, text);
}

bool sl_conf_network(struct sl_conf *conf, const struct sl_yaml *node, struct sl_network *network) {
	static const char expected[] = "a network such as 10.0.0.0/8, \"::1/128\" or 192.0.2.1";
	char text[SL_ADDRESS_TEXT_MAX];
	struct sluice_bytes written;
	bool strays;
	if (!sl_conf_text(conf, node, expected, &written))
		return false;
	if (!sl_network_parse(written, network, &strays)) {
		sl_report_found(conf->report, node->place, written, "expected %s", expected);
		return false;
	}
	sl_network_print(network, text);
	if (strays)
		sl_report_warning(conf->report, node->place, "%s has bits after its prefix: read as %s",
		                  sl_quote(written).text, text);
	return true;
}

/* ---- where attributes come from ------------------------------------------------------------------------------- */

/* A field name of HTTP: RFC 9110, token. */
static bool is_token(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

struct sluice_bytes sl_conf_lower(struct sl_conf *conf, struct sluice_bytes text) {
	char *copy = sl_pool_text(&conf->policy->pool, text);
	for (size_t i = 0; copy != NULL && i < text.len; i++)
		copy[i] = (char)(copy[i] >= 'A' && copy[i] <= 'Z' ? copy[i] + 32 : copy[i]);
	return (struct sluice_bytes){copy, text.len};
}

bool sl_conf_source(struct sl_conf *conf, const struct sl_yaml *node, struct sluice_bytes *header) {
	static const char expected[] = "a source such as 'header x-user-id'";
	struct sluice_bytes text;
	size_t at = 7;
	if (!sl_conf_text(conf, node, expected, &text))
		return false;
	const char *p = text.data;
	if (text.len < at || memcmp(p, "header ", at) != 0) {
		sl_report_found(conf->report, node->place, text, "expected %s", expected);
		return false;
	}
	while (at < text.len && is_token(p[at]))
		at++;
	if (at < text.len || at == 7 || at - 7 > SLUICE_NAME_BYTES_MAX) {
		sl_report_found(conf->report, sl_node_place(node, at < text.len ? at : 7), sl_slice(p + 7, text.len - 7),
		                "expected the name of a header, 1 to %d letters, digits and -", SLUICE_NAME_BYTES_MAX);
		return false;
	}
	*header = sl_conf_lower(conf, sl_slice(p + 7, text.len - 7));
	return true;
}

bool sl_conf_is_header(const struct sl_yaml *node) {
	return node->kind == SL_NODE_TEXT && node->text.len >= 6 && memcmp(node->text.data, "header", 6) == 0;
}

const char *sl_conf_header(struct sl_conf *conf, const struct sl_yaml *node) {
	struct sluice_bytes header;
	return sl_conf_source(conf, node, &header) ? header.data : NULL;
}
