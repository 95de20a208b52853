/* Words out of a closed table, one or several: roles, forms of headers, formats, what on-error says.
 *
 * An unknown word is answered with the one that is near, else with all that are known: the table is short, and whoever
 * reads the message has no manual at hand. Some sets hold words that exclude each other; the message says why.
 */
#include "policy/conf.h"

#include "base/out.h"
#include "policy/nearest.h"

static const char *word_at(const void *table, size_t index) {
	return ((const struct sl_word *)table)[index].text;
}

/* "check, read or admin"; other spellings are left out. */
static void list_words(const struct sl_word *words, char *text, size_t bytes) {
	struct sl_out out = sl_out_to(text, bytes - 1);
	for (size_t i = 0; words[i].text != NULL; i++) {
		if (words[i].alias)
			continue;
		bool last = words[i + 1].text == NULL || words[i + 1].alias;
		sl_out_str(&out, i == 0 ? "" : last ? " or " : ", ");
		sl_out_str(&out, words[i].text);
	}
	*out.at = '\0';
}

bool sl_conf_word(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_word *words, uint32_t *bits) {
	struct sluice_bytes text;
	char expected[128];
	size_t i = 0;
	list_words(words, expected, sizeof expected);
	if (!sl_conf_text(conf, node, expected, &text))
		return false;
	while (words[i].text != NULL && !sl_bytes_equal(text, sl_str(words[i].text)))
		i++;
	if (words[i].text != NULL) {
		*bits = words[i].bits;
		return true;
	}
	const char *nearest = sl_report_is_full(conf->report) ? NULL : sl_nearest(text, word_at, words);
	if (nearest != NULL)
		sl_report_error(conf->report, node->place, "expected %s, found %s: did you mean '%s'?", expected,
		                sl_quote(text).text, nearest);
	else
		sl_report_found(conf->report, node->place, text, "expected %s", expected);
	return false;
}

void sl_conf_on_error(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	static const struct sl_word words[] = {
		{"allow", SL_ON_ERROR_ALLOW, false},
		{"deny", SL_ON_ERROR_DENY, false},
		{"local", SL_ON_ERROR_LOCAL, false},
		{NULL, 0, false},
	};
	uint32_t bits;
	if (sl_conf_word(conf, value, words, &bits))
		*(uint8_t *)into = (uint8_t)bits;
}

/* Why a word can't stand beside those before it; NULL where it can. */
static const char *find_clash(const struct sl_clash *clashes, uint32_t before, uint32_t word) {
	for (size_t i = 0; clashes != NULL && clashes[i].why != NULL; i++)
		if (((clashes[i].a & word) != 0 && (clashes[i].b & before) != 0) ||
		    ((clashes[i].b & word) != 0 && (clashes[i].a & before) != 0))
			return clashes[i].why;
	return NULL;
}

void sl_conf_set(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_word *words,
                 const struct sl_clash *clashes, uint32_t *bits) {
	bool list = node->kind == SL_NODE_LIST, none = false;
	uint32_t set = 0, word;
	for (const struct sl_yaml *one = list ? node->first : node; one != NULL; one = list ? one->next : NULL) {
		if (!sl_conf_word(conf, one, words, &word))
			continue;
		const char *why = find_clash(clashes, set, word);
		if (why != NULL)
			sl_report_error(conf->report, one->place, "%s", why);
		else if (one != (list ? node->first : node) && (word == 0 || none))
			sl_report_error(conf->report, one->place, "expected none alone, or a list without it");
		none |= word == 0;
		set |= word;
	}
	*bits = set;
}
