/* Right to left, through trusted proxies only.
 *
 *   X-Forwarded-For: 6.6.6.6, 192.0.2.7, 10.0.0.2          peer 10.0.0.1, trusted-proxies: [10.0.0.0/8]
 *                    ^ whatever   ^ client   ^ trusted
 *                    the client wrote        told us of 192.0.2.7
 *
 * Each proxy appends whom it saw, so the list is true from its right end up to the first entry that was not written by
 * a proxy of ours; what stands to the left of that is the client's own invention. To read it from the left is to let
 * clients choose their key. This is nginx's realip with real_ip_recursive on.
 *
 * Forwarded may quote, and a quote that a client left open on its side would swallow what our proxy appended after it
 * (for="6.6.6.6, for=192.0.2.7) to a reader that comes from the left. So elements too are found from the right, where
 * the proxy's well-formed one is, and lines are never joined: a quoted string cannot reach over two of them. Only then
 * is the one element read strictly.
 *
 * Source: RFC 7239 4 and 6 (with erratum 7973), RFC 9110 5.6. About 60 ns for one entry. */
#include "proto/forwarded.h"

static bool is_blank(char c) {
	return c == ' ' || c == '\t';
}

static struct sluice_bytes trim(struct sluice_bytes text) {
	const char *p = text.data;
	while (text.len > 0 && is_blank(p[text.len - 1]))
		text.len--;
	while (text.len > 0 && is_blank(*p)) {
		p++;
		text.len--;
	}
	return sl_slice(p, text.len);
}

/* ---- lists, from the right ----------------------------------------------------------------------------------- */

/* A double quote stands at p[at]: where the one that opens the string begins, or `at` where none does. One after an
 * odd number of backslashes is part of the text. */
static size_t opening_quote(const char *p, size_t at) {
	for (size_t i = at; i > 0; i--) {
		size_t slashes = 0;
		if (p[i - 1] != '"')
			continue;
		while (slashes < i - 1 && p[i - 2 - slashes] == '\\')
			slashes++;
		if (slashes % 2 == 0)
			return i - 1;
	}
	return at;
}

bool sl_forwarded_last(struct sluice_bytes *list, bool quotes, struct sluice_bytes *element) {
	const char *p = list->data;
	while (list->len > 0) {
		size_t end = list->len, at = end;
		while (at > 0 && p[at - 1] != ',') {
			size_t quote = --at;
			if (!quotes || p[quote] != '"')
				continue;
			at = opening_quote(p, quote);
			quotes = at < quote; /* none opens left of here: those left of this one need not look for it again */
		}
		list->len = at > 0 ? at - 1 : 0;
		struct sluice_bytes last = trim(sl_slice(p + at, end - at));
		if (last.len > 0) {
			*element = last;
			return true;
		}
	}
	return false;
}

/* ---- one element of Forwarded -------------------------------------------------------------------------------- */

static bool is_token_char(char c) {
	char lower = (char)(c | 0x20);
	return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static size_t token_len(struct sluice_bytes text) {
	const char *p = text.data;
	size_t len = 0;
	while (len < text.len && is_token_char(p[len]))
		len++;
	return len;
}

/* The length of the quoted string at the start, both quotes counted; 0 where none is, or it has no end. */
static size_t quoted_len(struct sluice_bytes text) {
	const char *p = text.data;
	if (text.len == 0 || *p != '"')
		return 0;
	for (size_t i = 1; i < text.len; i++)
		if (p[i] == '"')
			return i + 1;
		else if (p[i] == '\\')
			i++;
	return 0;
}

static void skip(struct sluice_bytes *text, size_t len) {
	*text = sl_slice((const char *)text->data + len, text->len - len);
}

/* One name=value and the ';' after it. `value` keeps its quotes. */
static bool take_pair(struct sluice_bytes *rest, struct sluice_bytes *name, struct sluice_bytes *value) {
	*name = sl_slice(rest->data, token_len(*rest));
	skip(rest, name->len);
	if (name->len == 0 || rest->len == 0 || *(const char *)rest->data != '=')
		return false;
	skip(rest, 1);
	size_t len = quoted_len(*rest);
	*value = sl_slice(rest->data, len != 0 ? len : token_len(*rest));
	skip(rest, value->len);
	*rest = trim(*rest);
	if (value->len == 0 || (rest->len > 0 && *(const char *)rest->data != ';'))
		return false;
	if (rest->len > 0)
		skip(rest, 1);
	*rest = trim(*rest);
	return true;
}

/* A node of RFC 7239 6: an address and perhaps a port, which may be an invented name ("_gazonk"). What is escaped is no
 * address. A token can hold neither ':' nor '[', so IPv6 and ports are quoted or not there. */
static bool read_node(struct sluice_bytes value, struct sl_address *address) {
	const char *p = value.data, *colon;
	if (*p == '"')
		value = sl_slice(++p, value.len - 2);
	colon = memrchr(p, ':', value.len);
	if (colon != NULL && value.len - (size_t)(colon - p) > 1 && colon[1] == '_')
		value.len = (size_t)(colon - p);
	if (value.len == 0 || (*p != '[' && memchr(p, ':', value.len) != memrchr(p, ':', value.len)))
		return false;
	return sl_address_parse(value, address, NULL);
}

bool sl_forwarded_node(struct sluice_bytes element, struct sl_address *address) {
	struct sluice_bytes name, value, node = {0};
	while (element.len > 0) {
		if (!take_pair(&element, &name, &value))
			return false;
		if (!sl_bytes_equal_nocase(name, "for"))
			continue;
		if (node.len != 0)
			return false;
		node = value;
	}
	return node.len != 0 && read_node(node, address);
}

/* ---- the walk ------------------------------------------------------------------------------------------------ */

bool sl_forwarded_client(const struct sluice_bytes *lines, uint32_t count, enum sl_forwarded_form form,
                         const struct sluice_policy *policy, struct sl_address *address) {
	struct sluice_bytes element;
	bool quotes = form == SL_FORWARDED_RFC7239, found = false;
	uint32_t hops = 0;
	for (uint32_t i = count; i > 0; i--) {
		struct sluice_bytes list = lines[i - 1];
		while (sl_forwarded_last(&list, quotes, &element)) {
			if (hops++ == SL_FORWARDED_HOPS_MAX || (found && !sl_policy_trusts(policy, address)))
				return found;
			if (!(quotes ? sl_forwarded_node(element, address) : sl_address_parse(element, address, NULL)))
				return found;
			found = true;
		}
	}
	return found;
}
