/* Conditions that no request can meet, and those that hold for more than their author wrote.
 *
 * Requests are compared in one form (attribute.h): what a policy writes in another is brought into it, and where that
 * takes something away, a query, a port, the end of an IPv6 address, it is said. And attributes that nobody fills in.
 */
#include "policy/lint.h"

#include "policy/nearest.h"

static bool has(struct sluice_bytes text, char c) {
	return text.len != 0 && memchr(text.data, c, text.len) != NULL;
}

/* Do clients send a byte of a path encoded? */
static bool is_sent_encoded(char c) {
	return (unsigned char)c <= ' ' || (unsigned char)c >= 0x7f;
}

/* Bytes that hardly a client sends so. Requests' paths keep them as they come: encoded. */
static bool lint_bytes(struct sl_conf *conf, const struct sl_yaml *node, struct sluice_bytes form) {
	static const char digits[] = "0123456789ABCDEF";
	char memory[3 * SLUICE_KEY_BYTES_MAX], *at = memory;
	const char *p = form.data;
	for (size_t i = 0; i < form.len; i++) {
		if (!is_sent_encoded(p[i])) {
			*at++ = p[i];
			continue;
		}
		*at++ = '%';
		*at++ = digits[(unsigned char)p[i] >> 4];
		*at++ = digits[p[i] & 15];
	}
	struct sluice_bytes sent = sl_slice(memory, (size_t)(at - memory));
	if (sent.len == form.len)
		return false;
	sl_report_warning(conf->report, node->place, "hardly ever holds: clients send such bytes encoded: write %s",
	                  sl_quote(sent).text);
	return true;
}

/* A prefix that ends in the first digit of an encoded character, in lower case, which paths have in upper case. */
static void lint_half_code(struct sl_conf *conf, const struct sl_yaml *node, struct sluice_bytes form) {
	char memory[SLUICE_KEY_BYTES_MAX];
	const char *p = form.data;
	if (form.len < 2 || p[form.len - 2] != '%' || p[form.len - 1] < 'a' || p[form.len - 1] > 'f' ||
	    (conf->policy->settings.paths & SL_PATHS_ANY_CASE) != 0)
		return;
	memcpy(memory, p, form.len);
	memory[form.len - 1] ^= 0x20;
	sl_report_warning(conf->report, node->place,
	                  "never holds: digits of encoded characters are compared in upper case: write %s*",
	                  sl_quote(sl_slice(memory, form.len)).text);
}

static void lint_path(struct sl_conf *conf, const struct sl_yaml *node, struct sluice_bytes written,
                      struct sluice_bytes form, bool prefix, bool may_hold) {
	const char *p = form.data;
	if (!may_hold)
		sl_report_warning(conf->report, node->place,
		                  "never holds: paths are compared without their query, and %s has one",
		                  sl_quote(written).text);
	else if (form.len != 0 && p[0] != '/' && (prefix || form.len != 1 || p[0] != '*'))
		sl_report_warning(conf->report, node->place,
		                  "never holds at the proxies' doors: a path begins with /, as in '/%s",
		                  sl_quote(form).text + 1);
	else if (lint_bytes(conf, node, form))
		return;
	else if (prefix)
		lint_half_code(conf, node, form);
	else if (has(written, '?') || has(written, '#'))
		sl_report_warning(conf->report, node->place, "paths are compared without their query: this holds for %s with "
		                                             "any query",
		                  sl_quote(form).text);
}

static void lint_host(struct sl_conf *conf, const struct sl_yaml *node, struct sluice_bytes written,
                      struct sluice_bytes form, bool prefix, bool may_hold) {
	struct sluice_bytes dropped = {(const char *)written.data + form.len, written.len - form.len};
	if (!may_hold)
		sl_report_warning(conf->report, node->place, "never holds: hosts are compared without their port");
	else if (!prefix && has(dropped, ':'))
		sl_report_warning(conf->report, node->place, "hosts are compared without their port: this holds for %s at "
		                                             "any port",
		                  sl_quote(form).text);
}

/* Is it written as addresses and networks are: of digits, dots and colons, with a slash at most? */
static bool looks_like_address(struct sluice_bytes text) {
	const char *p = text.data;
	size_t slashes = 0;
	for (size_t i = 0; i < text.len; i++) {
		if (memchr("0123456789abcdefABCDEF.:/", p[i], 25) == NULL)
			return false;
		slashes += p[i] == '/';
	}
	return slashes <= 1 && (slashes != 0 || has(text, '.') || has(text, ':'));
}

/* What is no address stays as it is, and so does what callers of ADMIT give in place of one: this may be meant. */
static void lint_ip(struct sl_conf *conf, const struct sl_yaml *node, struct sluice_bytes written,
                    struct sluice_bytes form) {
	struct sl_address address;
	bool is_address = sl_address_parse(written, &address, NULL);
	if (is_address && has(form, '/'))
		sl_report_warning(conf->report, node->place, "IPv6 counts by networks: this holds for all of %s",
		                  sl_quote(form).text);
	else if (!is_address && looks_like_address(written))
		sl_report_warning(conf->report, node->place, "never holds for an address: expected %s",
		                  has(written, ':') ? "one such as 2001:db8::5, or a network with /0 to /128, such as "
		                                      "2001:db8::/32"
		                                    : "four numbers up to 255, as in 10.0.0.7, or a network with /0 to /32, "
		                                      "such as 10.0.0.0/8");
}

void sl_lint_network(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_network *network, bool strays,
                     bool narrow) {
	char text[SL_ADDRESS_TEXT_MAX];
	size_t len = sl_network_print(network, text);
	if (narrow)
		sl_report_warning(conf->report, node->place, "IPv6 counts by networks: this holds for all of %s",
		                  sl_quote(sl_slice(text, len)).text);
	else if (strays)
		sl_report_warning(conf->report, node->place, "the network of that address is %s",
		                  sl_quote(sl_slice(text, len)).text);
}

/* It holds, since both are brought into one form; who reads the policy may think that it is about 'get' alone. */
static void lint_method(struct sl_conf *conf, const struct sl_yaml *node, struct sluice_bytes written,
                        struct sluice_bytes form) {
	if (!sl_bytes_equal(written, form))
		sl_report_warning(conf->report, node->place, "methods are compared in upper case: this holds for %s",
		                  sl_quote(form).text);
}

void sl_lint_value(struct sl_conf *conf, const struct sl_yaml *node, enum sl_attribute attribute,
                   struct sluice_bytes written, struct sluice_bytes form, bool prefix, bool may_hold) {
	if (attribute == SL_ATTRIBUTE_PATH)
		lint_path(conf, node, written, form, prefix, may_hold);
	else if (attribute == SL_ATTRIBUTE_HOST)
		lint_host(conf, node, written, form, prefix, may_hold);
	else if (attribute == SL_ATTRIBUTE_METHOD)
		lint_method(conf, node, written, form);
	else if (attribute == SL_ATTRIBUTE_IP && !prefix)
		lint_ip(conf, node, written, form);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool is_known(const struct sluice_policy *policy, struct sluice_bytes name) {
	for (uint32_t i = 0; i < policy->source_count; i++)
		if (sl_bytes_equal(policy->sources[i].name, name))
			return true;
	return sl_name_is_built_in(name) || sl_bytes_equal(name, sl_str("route"));
}

/* The attributes that the file says where to find. */
static const char *source_at(const void *table, size_t index) {
	const struct sluice_policy *policy = table;
	return index < policy->source_count ? policy->sources[index].name.data : NULL;
}

void sl_lint_names(struct sl_conf *conf) {
	const struct sluice_policy *policy = conf->policy;
	for (uint32_t i = 0; i < policy->name_count; i++) {
		struct sluice_bytes name = policy->names[i].text;
		struct sl_position place = conf->first_use[i];
		if (place.line == 0 || policy->names[i].is_part || is_known(policy, name))
			continue;
		const char *nearest = policy->names[i].in_key ? sl_nearest(name, source_at, policy) : NULL;
		if (nearest != NULL) {
			sl_report_error(conf->report, place,
			                "unknown attribute %s: did you mean '%s'? (attributes: {..: given} says that callers "
			                "of ADMIT give it)",
			                sl_quote(name).text, nearest);
			continue;
		}
		struct sl_quoted quoted = sl_quote(name);
		if (has(name, ','))
			sl_report_warning(conf->report, place,
			                  "%s is one attribute of that name: a list is [user, ip], fallbacks are user | ip",
			                  quoted.text);
		else if (sl_lint_has_door(conf, SL_LISTEN_HTTP) && !sl_lint_has_door(conf, SL_LISTEN_GRPC))
			sl_report_warning(conf->report, place,
			                  "HTTP doors have no attribute %s: name its header under `attributes` (callers of ADMIT "
			                  "may give it)",
			                  quoted.text);
	}
}
