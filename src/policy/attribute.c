/* Two spellings of one client must be one client here, or it picks the spelling whose counter is new.
 *
 * Nearly all values come in their form: proxies and frameworks write addresses canonically, methods in capitals. So
 * each form begins with a walk that only looks; what it does not vouch for is read and written anew. */
#include "policy/attribute.h"

#include "policy/address.h"
#include "policy/path.h"
#include "policy/policy.h"

enum sl_attribute sl_attribute_find(struct sluice_bytes name) {
	static const char *const names[] = {
		[SL_ATTRIBUTE_IP] = "ip",
		[SL_ATTRIBUTE_PATH] = "path",
		[SL_ATTRIBUTE_METHOD] = "method",
		[SL_ATTRIBUTE_HOST] = "host",
	};
	for (int i = SL_ATTRIBUTE_IP; i <= SL_ATTRIBUTE_HOST; i++)
		if (sl_bytes_equal(name, sl_str(names[i])))
			return (enum sl_attribute)i;
	return SL_ATTRIBUTE_OTHER;
}

static bool has_byte(struct sluice_bytes text, char c) {
	return text.len != 0 && memchr(text.data, c, text.len) != NULL;
}

/* ---- ip -------------------------------------------------------------------------------------------------------- */

/* "203.0.113.7": four numbers up to 255 without leading zeros. */
static bool is_dotted_quad(struct sluice_bytes text) {
	const unsigned char *at = text.data, *end = at + text.len;
	if (text.len < 7 || text.len > 15)
		return false;
	for (int i = 0; i < 4; i++) {
		unsigned number = at < end ? (unsigned)*at++ - '0' : 10, digit;
		if (number > 9)
			return false;
		while (number != 0 && at < end && (digit = (unsigned)*at - '0') <= 9) {
			number = number * 10 + digit;
			at++;
			if (number > 255)
				return false;
		}
		if (i < 3 && (at == end || *at++ != '.'))
			return false;
	}
	return at == end;
}

static struct sluice_bytes ip_form(struct sluice_bytes value, uint32_t ipv6_prefix, char *memory) {
	struct sl_address address;
	if (is_dotted_quad(value) || !sl_address_parse(value, &address, NULL))
		return value;
	return sl_slice(memory, sl_address_key(&address, ipv6_prefix, memory));
}

/* ---- path ------------------------------------------------------------------------------------------------------ */

/* Nothing to drop, to decode or to resolve? Says no where it would have to look closer. */
static bool is_plain_path(struct sluice_bytes text) {
	const unsigned char *p = text.data;
	if (text.len == 0 || text.len > SLUICE_KEY_BYTES_MAX || p[0] != '/')
		return false;
	for (size_t i = 1; i < text.len; i++) {
		if (p[i] > '?')
			continue;
		if (p[i] == '?' || p[i] == '#' || p[i] == '%' || (p[i - 1] == '/' && (p[i] == '/' || p[i] == '.')))
			return false;
	}
	return true;
}

static struct sluice_bytes path_form(struct sluice_bytes value, char *memory) {
	return is_plain_path(value) ? value : sl_slice(memory, sl_path_normalise(value, memory));
}

/* With a letter after it no segment of the prefix is ".." by chance. */
static bool path_prefix_form(struct sluice_bytes *prefix, char *memory) {
	char text[SLUICE_KEY_BYTES_MAX];
	const char *p = prefix->data;
	if (has_byte(*prefix, '?') || has_byte(*prefix, '#'))
		return false;
	if (prefix->len == 0 || prefix->len >= sizeof text || p[0] != '/')
		return true;
	memcpy(text, p, prefix->len);
	text[prefix->len] = 'x';
	*prefix = sl_slice(memory, sl_path_normalise(sl_slice(text, prefix->len + 1), memory) - 1);
	return true;
}

/* ---- method, host ------------------------------------------------------------------------------------------------ */

/* Is there a letter from `first` to `first` + 25? */
static bool has_letter(struct sluice_bytes text, char first) {
	const unsigned char *p = text.data;
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned)p[i] - (unsigned char)first < 26)
			return true;
	return false;
}

/* Letters of the case that begins with `first` in the other case. */
static struct sluice_bytes recase(struct sluice_bytes text, char first, char *memory) {
	const char *p = text.data;
	for (size_t i = 0; i < text.len; i++)
		memory[i] = (char)((unsigned)p[i] - (unsigned char)first < 26 ? p[i] ^ 0x20 : p[i]);
	return sl_slice(memory, text.len);
}

static struct sluice_bytes cut(struct sluice_bytes text) {
	return sl_slice(text.data, text.len < SLUICE_KEY_BYTES_MAX ? text.len : SLUICE_KEY_BYTES_MAX);
}

static struct sluice_bytes method_form(struct sluice_bytes value, char *memory) {
	value = cut(value);
	return has_letter(value, 'a') ? recase(value, 'a', memory) : value;
}

/* `rest` begins with the first colon. */
static bool is_bare_v6(struct sluice_bytes rest, struct sluice_bytes host) {
	struct sl_address address;
	return memchr((const char *)rest.data + 1, ':', rest.len - 1) != NULL && sl_address_parse(host, &address, NULL);
}

/* What stands before the port. A second colon is of IPv6 without brackets, or ends the name all the same: servers read
 * "a:1:2" as "a". */
static size_t name_len(struct sluice_bytes host) {
	const char *p = host.data, *end;
	if (p[0] == '[') {
		end = memchr(p, ']', host.len);
		return end != NULL ? (size_t)(end + 1 - p) : host.len;
	}
	end = memchr(p, ':', host.len);
	if (end == NULL || is_bare_v6(sl_slice(end, host.len - (size_t)(end - p)), host))
		return host.len;
	return (size_t)(end - p);
}

static struct sluice_bytes host_form(struct sluice_bytes value, char *memory) {
	const char *p = value.data;
	if (value.len == 0)
		return value;
	value = cut(sl_slice(p, name_len(value)));
	/* with a colon left it is an address: a dot at its end is of its zone, without which it might be none */
	while (value.len != 0 && p[value.len - 1] == '.' && !has_byte(value, ':'))
		value.len--;
	return has_letter(value, 'A') ? recase(value, 'A', memory) : value;
}

struct sluice_bytes sl_attribute_path(uint32_t choice, struct sluice_bytes form, bool prefix, char *memory) {
	const char *p = form.data;
	if ((choice & SL_PATHS_ANY_SLASH) != 0 && !prefix && form.len > 1 && p[0] == '/' && p[form.len - 1] == '/')
		form.len--;
	return (choice & SL_PATHS_ANY_CASE) != 0 && has_letter(form, 'A') ? recase(form, 'A', memory) : form;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

struct sluice_bytes sl_attribute_form(enum sl_attribute attribute, struct sluice_bytes value, uint32_t ipv6_prefix,
                                      char *memory) {
	if (value.data == NULL)
		return value;
	switch (attribute) {
	case SL_ATTRIBUTE_IP:
		return ip_form(value, ipv6_prefix, memory);
	case SL_ATTRIBUTE_PATH:
		return path_form(value, memory);
	case SL_ATTRIBUTE_METHOD:
		return method_form(value, memory);
	case SL_ATTRIBUTE_HOST:
		return host_form(value, memory);
	default:
		return value;
	}
}

/* Can an IPv6 address begin so? */
static bool is_hex_group(struct sluice_bytes text) {
	const char *p = text.data;
	for (size_t i = 0; i < text.len; i++)
		if (strchr("0123456789abcdefABCDEF:", p[i]) == NULL || p[i] == '\0')
			return false;
	return has_byte(text, ':');
}

static bool host_prefix_form(struct sluice_bytes *prefix, char *memory) {
	const char *p = prefix->data, *end = prefix->len == 0 ? NULL : memchr(p, *p == '[' ? ']' : ':', prefix->len);
	bool goes_on = end != NULL && (*p != '[' || end + 1 != p + prefix->len);
	if (goes_on && !is_hex_group(*prefix))
		return false;
	*prefix = recase(*prefix, 'A', memory);
	return true;
}

bool sl_attribute_prefix_form(enum sl_attribute attribute, struct sluice_bytes *prefix, char *memory) {
	switch (attribute) {
	case SL_ATTRIBUTE_IP:
		if (is_hex_group(*prefix))
			*prefix = recase(*prefix, 'A', memory);
		return true;
	case SL_ATTRIBUTE_PATH:
		return path_prefix_form(prefix, memory);
	case SL_ATTRIBUTE_METHOD:
		*prefix = recase(*prefix, 'a', memory);
		return true;
	case SL_ATTRIBUTE_HOST:
		return host_prefix_form(prefix, memory);
	default:
		return true;
	}
}

/* Names that are of one length and begin and end alike share a bit; only those are compared. */
static unsigned bit_of(struct sluice_bytes name) {
	const unsigned char *p = name.data;
	return name.len == 0 ? 0 : (unsigned)(name.len * 73 + p[0] * 19 + p[name.len / 2] * 5 + p[name.len - 1]) % 512;
}

size_t sl_attribute_repeated(const struct sluice_attribute *attributes, size_t count) {
	uint64_t seen[512 / 64] = {0};
	for (size_t i = 0; i < count; i++) {
		unsigned bit = bit_of(attributes[i].name);
		bool perhaps = (seen[bit / 64] >> bit % 64 & 1) != 0;
		for (size_t j = 0; perhaps && j < i; j++)
			if (sl_bytes_equal(attributes[i].name, attributes[j].name))
				return i;
		seen[bit / 64] |= (uint64_t)1 << bit % 64;
	}
	return count;
}
