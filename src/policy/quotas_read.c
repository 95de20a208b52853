/* Reading a file of quotas of single keys: line by line into rows, and at the end by hash into slots. The first mistake
 * ends it, with its place, unless somebody wants to know them all; nothing of the file counts then.
 *
 * As in index.c a key of the hash under which the slots crowd is given up for the next: names may be what strangers
 * chose when they signed up.
 */
#include "policy/quotas_inside.h"

#include "algo/override.h"
#include "base/assert.h"
#include "policy/conf_terms.h"
#include "policy/key.h"
#include "policy/source.h"

#include <stdio.h>

enum { LIMITS_MAX = 4096, LIMIT_SLOTS = 2 * LIMITS_MAX, PROBES_MAX = 64, KEYS_MAX = 16, NOTATION_MAX = 256 };

/* A file being read. */
struct reader {
	struct sluice_policy *policy;
	const struct sl_ruleset_limit *limit;
	struct sl_quotas *quotas;
	struct sluice_problem *problem; /* the last */
	struct sl_report *report;       /* of all; NULL: the first one ends it */
	uint32_t limit_count, line;
	const char *notations[LIMITS_MAX]; /* of each limit, as it was written */
	uint16_t by_notation[LIMIT_SLOTS]; /* limits by the hash of that; 0: free, else one more than its number */
};

/* ---- reading a line --------------------------------------------------------------------------------------------- */

static bool fail(struct reader *reader, size_t column, const char *text) {
	reader->problem->line = reader->line;
	reader->problem->column = (uint32_t)column + 1;
	snprintf(reader->problem->text, sizeof reader->problem->text, "%.240s", text);
	if (reader->report != NULL)
		sl_report_error(reader->report, (struct sl_position){reader->line, (uint32_t)column + 1}, "%.240s", text);
	return false;
}

/* After a mistake: is there more to be told? */
static bool goes_on(const struct reader *reader) {
	return reader->report != NULL && !reader->policy->pool.failed && !sl_report_is_full(reader->report);
}

/* Takes a field that begins at `*at`, which moves past it; `memory` is for one with quotes. False: it is none. */
static bool take_field(struct sluice_bytes line, size_t *at, char *memory, size_t room, struct sluice_bytes *field) {
	const char *p = line.data;
	size_t len = 0, i = *at;
	if (i == line.len || p[i] != '"') {
		const char *comma = i == line.len ? NULL : memchr(p + i, ',', line.len - i);
		*at = comma == NULL ? line.len : (size_t)(comma - p);
		*field = sl_slice(p + i, *at - i);
		return true;
	}
	for (i++; i < line.len && (p[i] != '"' || (i + 1 < line.len && p[i + 1] == '"')); i++) {
		if (len == room)
			return false;
		memory[len++] = p[i];
		i += p[i] == '"';
	}
	*at = i + 1;
	*field = sl_slice(memory, len);
	return i < line.len && (*at == line.len || p[*at] == ',');
}

/* May a request of the limit have this key? Part by part, one of the names that it may have, or its last resort. */
static bool is_key_of(const struct reader *reader, struct sluice_bytes key) {
	const struct sl_ruleset_limit *limit = reader->limit;
	const char *at = key.data, *end = at + key.len;
	for (uint32_t i = 0; i < limit->part_count; i++) {
		const struct sl_key_part *part = &limit->parts[i];
		const char *comma = memchr(at, ',', (size_t)(end - at));
		struct sluice_bytes pair = sl_slice(at, (size_t)((comma == NULL ? end : comma) - at));
		bool known = part->literal.data != NULL && sl_bytes_equal(pair, part->literal);
		for (uint32_t k = 0; k < part->count && !known; k++) {
			struct sluice_bytes name = reader->policy->names[part->choices[k]].encoded;
			known = name.len <= pair.len && memcmp(name.data, pair.data, name.len) == 0;
		}
		if (!known || (comma == NULL) != (i + 1 == limit->part_count))
			return false;
		at = comma == NULL ? end : comma + 1;
	}
	return true;
}

/* The key that a field means, in the form of requests' keys. */
static bool read_key(struct reader *reader, struct sluice_bytes field, char memory[SLUICE_KEY_BYTES_MAX],
                     struct sluice_bytes *key) {
	static const char expected[] = "expected the key of a request, such as user=alice, or the value of the attribute "
								   "that the key is";
	char written[4 * SLUICE_KEY_BYTES_MAX];
	struct sl_out out = sl_out_to(written, sizeof written);
	if (field.len == 0 || field.len >= SLUICE_KEY_BYTES_MAX)
		return fail(reader, 0, "expected a key of 1 to 1023 bytes");
	if (memchr(field.data, '=', field.len) == NULL) {
		if (reader->limit->part_count != 1)
			return fail(reader, 0, expected);
		struct sluice_bytes name = reader->policy->names[reader->limit->parts[0].choices[0]].encoded;
		sl_out_bytes(&out, name.data, name.len);
		sl_key_encode(&out, field);
		field = sl_slice(written, sl_out_len(&out));
	}
	*key = sl_policy_key(reader->policy, field, memory);
	if (out.overflow || key->len >= SLUICE_KEY_BYTES_MAX || !is_key_of(reader, *key))
		return fail(reader, 0, expected);
	if (key->data == written) {
		memcpy(memory, written, key->len);
		key->data = memory;
	}
	return true;
}

/* Reads a notation that was not met before. */
static bool add_limit(struct reader *reader, struct sluice_bytes notation, size_t column, uint16_t *slot) {
	struct sluice_limit *limit = &reader->quotas->limits[reader->limit_count];
	const struct sl_policy_limit *shown = &reader->limit->shown;
	struct sluice_error error;
	if (reader->limit_count == LIMITS_MAX)
		return fail(reader, column, "expected at most 4096 different limits in a file");
	if (sluice_limit_parse(limit, notation, &error) != SLUICE_OK)
		return fail(reader, column + (error.column == 0 ? 0 : error.column - 1), error.text);
	sl_rule_name(limit, sl_str(shown->name));
	const char *why = sl_rule_has(limit, SL_HAS_COUNTER) ? sl_rule_mismatch(&shown->limit, limit) : NULL;
	if (why != NULL) {
		char text[SLUICE_LIMIT_TEXT_MAX], message[SLUICE_LIMIT_TEXT_MAX + 128];
		sluice_limit_print(&shown->limit, text);
		snprintf(message, sizeof message, "expected unlimited, or another quota for the counters of %s: %s", text, why);
		return fail(reader, column, message);
	}
	const char *beyond = sl_beyond_script(&reader->policy->settings.redis, limit);
	if (beyond != NULL) {
		char message[128];
		snprintf(message, sizeof message, SL_NEEDS_MODULE_TEXT, beyond);
		return fail(reader, column, message);
	}
	reader->notations[reader->limit_count] = sl_pool_text(&reader->policy->pool, notation);
	*slot = (uint16_t)++reader->limit_count;
	return true;
}

static bool read_limit(struct reader *reader, struct sluice_bytes notation, size_t column, uint16_t *number) {
	uint32_t slot = (uint32_t)sl_quotas_hash(reader->quotas, notation) % LIMIT_SLOTS;
	for (; reader->by_notation[slot] != 0; slot = (slot + 1) % LIMIT_SLOTS)
		if (sl_bytes_equal(notation, sl_str(reader->notations[reader->by_notation[slot] - 1])))
			break;
	if (reader->by_notation[slot] == 0 && !add_limit(reader, notation, column, &reader->by_notation[slot]))
		return false;
	*number = (uint16_t)(reader->by_notation[slot] - 1);
	return true;
}

/* Adds what a line says; false where it says nothing that can be. */
static bool add_line(struct reader *reader, struct sluice_bytes line) {
	char quoted[SLUICE_KEY_BYTES_MAX], second[NOTATION_MAX], memory[SLUICE_KEY_BYTES_MAX];
	struct sl_quotas *quotas = reader->quotas;
	struct sluice_bytes field, notation, key;
	struct sl_quota_row *row = &quotas->rows[quotas->count];
	size_t at = 0;
	if (!take_field(line, &at, quoted, sizeof quoted, &field) || at == line.len)
		return fail(reader, 0, "expected KEY,LIMIT, such as alice,6000/1m");
	at++;
	const size_t column = at + (at < line.len && ((const char *)line.data)[at] == '"');
	if (!take_field(line, &at, second, sizeof second, &notation) || at != line.len)
		return fail(reader, at, "expected the end of the line after KEY,LIMIT");
	if (!read_key(reader, field, memory, &key) || !read_limit(reader, notation, column, &row->limit))
		return false;
	row->text = sl_pool_text(&reader->policy->pool, key);
	row->len = (uint16_t)key.len;
	row->line = reader->line;
	quotas->count++;
	return row->text != NULL;
}

/* ---- a whole file ----------------------------------------------------------------------------------------------- */

/* The next line without its end. */
static struct sluice_bytes next_line(struct sluice_bytes *rest) {
	const char *p = rest->data, *end = memchr(p, '\n', rest->len);
	size_t len = end == NULL ? rest->len : (size_t)(end - p), past = end == NULL ? len : len + 1;
	*rest = sl_slice(p + past, rest->len - past);
	return sl_slice(p, len > 0 && p[len - 1] == '\r' ? len - 1 : len);
}

static bool says_nothing(struct sluice_bytes line, uint32_t number) {
	return line.len == 0 || *(const char *)line.data == '#' ||
	       (number == 1 && sl_bytes_equal(line, sl_str("key,limit")));
}

static bool read_lines(struct reader *reader, struct sluice_bytes text) {
	const size_t mark = sl_source_mark(text); /* spreadsheets write one */
	bool good = true;
	if (mark != 0)
		text = sl_slice((const char *)text.data + mark, text.len - mark);
	while (text.len != 0) {
		struct sluice_bytes line = next_line(&text);
		reader->line++;
		if (says_nothing(line, reader->line))
			continue;
		if (reader->quotas->count == SL_QUOTAS_MAX)
			return fail(reader, 0, "expected at most 1000000 keys in a file");
		if (add_line(reader, line))
			continue;
		good = false;
		if (!goes_on(reader))
			break;
	}
	return good;
}

/* Fills the slots; false where they crowd, or a key is there twice. */
static bool fill(struct reader *reader, bool *crowded) {
	struct sl_quotas *quotas = reader->quotas;
	bool good = true;
	*crowded = false;
	for (uint32_t i = 0; i < quotas->count; i++) {
		const struct sl_quota_row *row = &quotas->rows[i];
		struct sluice_bytes key = sl_slice(row->text, row->len);
		uint64_t hash = sl_quotas_hash(quotas, key);
		uint32_t probes, slot = sl_quotas_slot(quotas, key, hash, &probes);
		if (quotas->slots[slot].tag != 0) {
			char text[128];
			reader->line = row->line;
			snprintf(text, sizeof text, "duplicate key: line %u has it", quotas->rows[quotas->slots[slot].row].line);
			good = fail(reader, 0, text);
			if (!goes_on(reader))
				break;
			continue;
		}
		quotas->slots[slot] = (struct sl_quota_slot){sl_quotas_tag(hash), i};
		*crowded = *crowded || probes > PROBES_MAX;
	}
	return good;
}

static uint32_t count_lines(struct sluice_bytes text) {
	uint32_t count = 0;
	while (text.len != 0 && count <= SL_QUOTAS_MAX)
		count += next_line(&text).len != 0;
	return count;
}

/* Takes the memory for a text's lines. */
static bool take_memory(struct reader *reader, struct sluice_bytes text) {
	struct sl_quotas *quotas = reader->quotas;
	struct sl_pool *pool = &reader->policy->pool;
	uint32_t lines = count_lines(text), slots = 16;
	while (slots < 2 * lines)
		slots *= 2;
	quotas->mask = slots - 1;
	quotas->rows = sl_pool_take(pool, (size_t)lines + 1, sizeof *quotas->rows);
	quotas->slots = sl_pool_take(pool, slots, sizeof *quotas->slots);
	quotas->limits = sl_pool_take(pool, LIMITS_MAX, sizeof *quotas->limits);
	return !pool->failed;
}

static bool set(struct sluice_policy *policy, uint32_t number, struct sluice_bytes text, struct sl_report *report,
                struct sluice_problem *problem) {
	SL_ASSERT(number < policy->quotas_count);
	struct sl_pool scratch = {0};
	struct reader *reader = sl_pool_take(&scratch, 1, sizeof *reader);
	struct sl_ruleset_limit *limit = &policy->limits[policy->quotas[number].position];
	struct sl_quotas *quotas = sl_pool_take(&policy->pool, 1, sizeof *quotas);
	bool crowded = true, good = false;
	*problem = (struct sluice_problem){.line = 1, .column = 1, .text = "no memory for it"};
	if (reader != NULL && quotas != NULL) {
		*reader = (struct reader){
			.policy = policy, .limit = limit, .quotas = quotas, .problem = problem, .report = report};
		quotas->file = policy->quotas[number].file;
		quotas->key[0] = 1;
		good = take_memory(reader, text) && read_lines(reader, text);
		if (!good && goes_on(reader))
			(void)fill(reader, &crowded); /* for keys that are there twice */
		for (; good && crowded && quotas->key[0] <= KEYS_MAX; quotas->key[0] += crowded) {
			memset(quotas->slots, 0, ((size_t)quotas->mask + 1) * sizeof *quotas->slots);
			good = fill(reader, &crowded);
		}
		quotas->key[0] -= good && crowded; /* under none it was better: the last one's stay */
	}
	sl_pool_free(&scratch);
	if (!good || policy->pool.failed)
		return false;
	limit->quotas = quotas;
	limit->shown.quota_count = quotas->count;
	return true;
}

bool sl_policy_quotas_set(struct sluice_policy *policy, uint32_t number, struct sluice_bytes text,
                          struct sluice_problem *problem) {
	return set(policy, number, text, NULL, problem);
}

bool sl_policy_quotas_check(struct sluice_policy *policy, uint32_t number, struct sluice_bytes text,
                            struct sl_report *report) {
	struct sluice_problem last;
	bool good = set(policy, number, text, report, &last);
	if (!good && report->error_count == 0)
		sl_report_error(report, (struct sl_position){last.line, last.column}, "%s", last.text);
	return good;
}

uint32_t sl_policy_quotas_count(const struct sluice_policy *policy) {
	return policy->quotas_count;
}

const struct sl_policy_quotas *sl_policy_quotas_at(const struct sluice_policy *policy, uint32_t number) {
	SL_ASSERT(number < policy->quotas_count);
	return &policy->quotas[number];
}
