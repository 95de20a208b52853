/* Reading commands. All that decide have one form:
 *
 *   NAME key [cost] [id] [ttl_ms] [spent] [want] [AT unix_ms] [EACH] item [item ...]
 *   item  := [KEY key] [NAME name] [OBSERVED | TRIED] limit
 *
 * No limit in the notation reads as one of these words, and free bytes stand only where a word has announced them. */
#include "hosts/redis/turn.h"

#include "base/out.h"

#include <stdio.h>

#define AT_MS_MAX ((uint64_t)INT64_MAX / 1000000) /* the last instant that fits 63 bits of nanoseconds */
#define CLIENT_TIME_SLACK_MS ((int64_t)3600000)   /* an hour, as the script has it */

/* ---- texts ------------------------------------------------------------------------------------------------------- */

struct sluice_bytes slr_arg(const struct slr_turn *turn, uint32_t index) {
	struct sluice_bytes text;
	text.data = slr_StringPtrLen(turn->args[index], &text.len);
	return text;
}

bool slr_is_word(struct sluice_bytes text, const char *word) {
	return sl_bytes_equal_nocase(text, word);
}

struct slr_shown slr_shown(struct sluice_bytes text) {
	struct slr_shown shown;
	struct sl_out out = sl_out_to(shown.text, sizeof shown.text - 1);
	sl_out_quoted(&out, text, 128);
	*out.at = '\0';
	return shown;
}

void slr_fail(const struct slr_turn *turn, const char *format, ...) {
	char line[1024] = "ERR ";
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(line + 4, sizeof line - 4, format, arguments);
	va_end(arguments);
	slr_ReplyWithError(turn->context, line);
}

void slr_turn_begin(struct slr_turn *turn, struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	static struct slr_call call;
	turn->context = context;
	turn->args = args;
	turn->count = (uint32_t)count;
	turn->each = false;
	turn->call = &call;
	call.item_count = call.key_count = call.cost = 0;
	call.want_next = false;
	call.now = 0;
	call.wall_ms = slr_clock_wall_ms;
	call.slack_ms = 0;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static bool read_u32(struct slr_turn *turn, const char *what, struct sluice_bytes text, uint32_t least, uint32_t most,
                     uint32_t *value) {
	uint64_t number;
	if (sl_bytes_to_u64(text, &number) && number >= least && number <= most) {
		*value = (uint32_t)number;
		return true;
	}
	slr_fail(turn, "%s %s: expected a whole number from %u to %u", what, slr_shown(text).text, least, most);
	return false;
}

static int digit_of(unsigned char c) {
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 32;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_id(struct slr_turn *turn, struct sluice_bytes text, uint64_t *id) {
	const unsigned char *p = text.data;
	bool right = text.len >= 1 && text.len <= SLR_ID_DIGITS_MAX;
	*id = 0;
	for (size_t i = 0; right && i < text.len; i++) {
		int digit = digit_of(p[i]);
		right = digit >= 0;
		*id = *id << 4 | (uint64_t)(right ? digit : 0);
	}
	if (!right)
		slr_fail(turn, "id %s: expected 1 to %d hex digits", slr_shown(text).text, SLR_ID_DIGITS_MAX);
	return right;
}

static bool read_field(struct slr_turn *turn, uint8_t field, struct sluice_bytes text) {
	struct slr_call *call = turn->call;
	uint32_t ms;
	switch (field) {
	case SLR_FIELD_COST:
		return read_u32(turn, "cost", text, 0, UINT32_MAX, &call->cost);
	case SLR_FIELD_ID:
		return read_id(turn, text, &call->id);
	case SLR_FIELD_TTL:
		if (!read_u32(turn, "ttl_ms", text, 1, SLR_HOLD_MS_MAX, &ms))
			return false;
		call->ttl_ns = (sluice_ns)ms * SL_MS_NS;
		return true;
	case SLR_FIELD_SPENT:
		return read_u32(turn, "spent", text, 0, UINT32_MAX, &call->spent);
	default:
		return read_u32(turn, "want", text, 0, UINT32_MAX, &call->want);
	}
}

/* ---- instants ---------------------------------------------------------------------------------------------------- */

static bool read_instant(struct slr_turn *turn, uint32_t index) {
	uint64_t ms;
	if (!slr_settings.client_time) {
		slr_fail(turn, "AT is not allowed here: load the module with the argument client-time yes");
		return false;
	}
	if (index >= turn->count) {
		slr_fail(turn, "AT needs an instant after it: Unix milliseconds");
		return false;
	}
	if (!sl_bytes_to_u64(slr_arg(turn, index), &ms) || ms > AT_MS_MAX) {
		slr_fail(turn, "AT %s: expected Unix milliseconds, a whole number from 0 to %llu",
		         slr_shown(slr_arg(turn, index)).text, (unsigned long long)AT_MS_MAX);
		return false;
	}
	turn->call->now = ms * SL_MS_NS;
	turn->call->slack_ms = CLIENT_TIME_SLACK_MS;
	return true;
}

/* The instant of a call that names none, as at the server's doors: whole milliseconds, so that a counter is small and a
 * log exact to its stamps; but for a bucket, of which 3,000 a second may be asked, the nanosecond. */
static void set_instant(struct slr_call *call) {
	bool bucket = false, log = false;
	for (uint32_t i = 0; i < call->item_count; i++) {
		uint8_t algorithm = call->items[i].limit.algorithm;
		bucket = bucket || algorithm == SLUICE_TOKEN_BUCKET || algorithm == SLUICE_LEAKY_BUCKET;
		log = log || algorithm == SLUICE_SLIDING_LOG;
	}
	call->now = slr_clock_now();
	if (log || !bucket)
		call->now -= call->now % SL_MS_NS;
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

bool slr_key_fits(struct slr_turn *turn, struct sluice_bytes key) {
	if (key.len <= SLUICE_KEY_BYTES_MAX)
		return true;
	slr_fail(turn, "the key that begins %s has %zu bytes: at most %d are allowed",
	         slr_shown(sl_slice(key.data, 32)).text, key.len, SLUICE_KEY_BYTES_MAX);
	return false;
}

uint8_t slr_read_key(struct slr_turn *turn, uint32_t index) {
	struct slr_call *call = turn->call;
	uint32_t k;
	for (k = 0; k < call->key_count; k++) {
		struct sluice_bytes known;
		known.data = slr_StringPtrLen(turn->names[k], &known.len);
		if (sl_bytes_equal(known, slr_arg(turn, index)))
			return (uint8_t)k;
	}
	turn->names[call->key_count] = turn->args[index];
	return (uint8_t)call->key_count++;
}

static bool key_has_limits(struct slr_turn *turn, uint32_t key_index, uint32_t limits) {
	if (limits != 0)
		return true;
	slr_fail(turn, "no limit for key %s: expected at least one after it, such as 100/60s",
	         slr_shown(slr_arg(turn, key_index)).text);
	return false;
}

static bool needs_more(struct slr_turn *turn, uint32_t index, const char *word, const char *what) {
	if (index < turn->count)
		return true;
	slr_fail(turn, "%s needs %s after it", word, what);
	return false;
}

static bool read_name(struct slr_turn *turn, uint32_t index, struct sluice_bytes *name) {
	if (!needs_more(turn, index + 1, "NAME", "a name and a limit"))
		return false;
	*name = slr_arg(turn, index);
	if (name->len >= 1 && name->len <= SLUICE_NAME_BYTES_MAX)
		return true;
	slr_fail(turn, "the name %s has %zu bytes: expected 1 to %d", slr_shown(*name).text, name->len,
	         SLUICE_NAME_BYTES_MAX);
	return false;
}

/* One limit, with its name and how it is watched, from `*index` on, where `text` stands. */
static bool read_limit(struct slr_turn *turn, uint32_t *index, struct sluice_bytes text) {
	struct slr_call *call = turn->call;
	struct slr_item *item = &call->items[call->item_count];
	struct sluice_bytes name = {NULL, 0};
	struct sluice_error error;
	if (call->item_count == SLUICE_ITEMS_MAX) {
		slr_fail(turn, "too many limits: at most %d in one request", SLUICE_ITEMS_MAX);
		return false;
	}
	if (slr_is_word(text, "name")) {
		if (!read_name(turn, *index + 1, &name))
			return false;
		*index += 2;
		text = slr_arg(turn, *index);
	}
	item->watched = slr_is_word(text, "observed") ? SLUICE_OBSERVED : slr_is_word(text, "tried") ? SLUICE_TRIED : 0;
	if (item->watched != 0) {
		if (!needs_more(turn, ++*index, item->watched == SLUICE_TRIED ? "TRIED" : "OBSERVED", "a limit"))
			return false;
		text = slr_arg(turn, *index);
	}
	if (!slr_limit_read(&item->limit, text, &error)) {
		slr_fail(turn, "limit %u, column %u: %s", call->item_count + 1, error.column, error.text);
		return false;
	}
	if (name.len != 0 && item->limit.algorithm != SLUICE_UNLIMITED)
		sl_rule_name(&item->limit, name);
	call->item_count++;
	++*index;
	return true;
}

static bool read_items(struct slr_turn *turn, uint32_t index) {
	uint32_t key_index = 1, before = 0; /* limits of the keys before this one */
	if (!slr_key_fits(turn, slr_arg(turn, 1)))
		return false;
	while (index < turn->count) {
		struct sluice_bytes text = slr_arg(turn, index);
		if (!slr_is_word(text, "key")) {
			uint32_t item = turn->call->item_count;
			if (!read_limit(turn, &index, text))
				return false;
			turn->call->items[item].key =
				item == before ? slr_read_key(turn, key_index) : turn->call->items[item - 1].key;
			continue;
		}
		if (!key_has_limits(turn, key_index, turn->call->item_count - before) ||
		    !needs_more(turn, index + 1, "KEY", "a key and at least one limit") ||
		    !slr_key_fits(turn, slr_arg(turn, index + 1)))
			return false;
		key_index = index + 1;
		before = turn->call->item_count;
		index += 2;
	}
	return key_has_limits(turn, key_index, turn->call->item_count - before);
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

static uint32_t field_count(const struct slr_form *form) {
	uint32_t count = 0;
	while (count < SLR_FIELDS_MAX && form->fields[count] != 0)
		count++;
	return count;
}

bool slr_read_call(struct slr_turn *turn, const struct slr_form *form) {
	struct slr_call *call = turn->call;
	uint32_t fields = field_count(form), index = 2 + fields;
	bool at;
	call->operation = form->operation;
	if (turn->count <= index) {
		slr_WrongArity(turn->context);
		return false;
	}
	for (uint32_t i = 0; i < fields; i++)
		if (!read_field(turn, form->fields[i], slr_arg(turn, 2 + i)))
			return false;
	at = slr_is_word(slr_arg(turn, index), "at");
	if (at) {
		if (!read_instant(turn, index + 1))
			return false;
		index += 2;
	}
	if (form->has_each && index < turn->count && slr_is_word(slr_arg(turn, index), "each")) {
		turn->each = call->want_next = true;
		index++;
	}
	if (!read_items(turn, index))
		return false;
	if (!at)
		set_instant(call);
	return true;
}

void slr_read_positions(const struct slr_turn *turn, const struct slr_form *form) {
	uint32_t index = 2 + field_count(form);
	if (turn->count < 2)
		return;
	slr_KeyAtPos(turn->context, 1);
	if (index < turn->count && slr_is_word(slr_arg(turn, index), "at"))
		index += 2;
	while (index < turn->count) {
		bool key = slr_is_word(slr_arg(turn, index), "key");
		if (key && index + 1 < turn->count)
			slr_KeyAtPos(turn->context, (int)index + 1);
		index += key || slr_is_word(slr_arg(turn, index), "name") ? 2 : 1;
	}
}
