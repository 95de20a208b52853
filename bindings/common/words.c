/* What is asked, as the words of a command; and what each limit answered, as one answer. */
#include "bindings/common/inside.h"

#include "algo/algorithms.h"
#include "algo/merge.h"
#include "algo/traits.h"
#include "base/fold.h"
#include "proto/answer.h"
#include "proto/command.h"

#include <stdio.h>

struct writer {
	struct sluice_bytes *words;
	uint32_t count;
};

static void put(struct writer *w, struct sluice_bytes word) {
	w->words[w->count++] = word;
}

static void put_text(struct writer *w, const char *text) {
	put(w, sl_str(text));
}

static void put_number(struct writer *w, char text[24], int64_t number) {
	put(w, sl_slice(text, (size_t)snprintf(text, 24, "%lld", (long long)number)));
}

static const char *name_of(enum sl_operation operation) {
	static const char *const names[] = {
		[SL_OP_CHECK] = "SLUICE.CHECK",     [SL_OP_PEEK] = "SLUICE.PEEK",       [SL_OP_REFUND] = "SLUICE.REFUND",
		[SL_OP_RESET] = "SLUICE.RESET",     [SL_OP_ACQUIRE] = "SLUICE.ACQUIRE", [SL_OP_RELEASE] = "SLUICE.RELEASE",
		[SL_OP_RENEW] = "SLUICE.RENEW",     [SL_OP_RESERVE] = "SLUICE.RESERVE", [SL_OP_COMMIT] = "SLUICE.COMMIT",
		[SL_OP_ADMIT] = "SLUICE.ADMIT",
	};
	SL_ASSERT(operation < sizeof names / sizeof names[0] && names[operation] != NULL);
	return names[operation];
}

/* What stands by position: sl_forms says which. */
static void put_fields(struct writer *w, const struct sl_asked *asked, struct sl_asked_numbers *numbers) {
	const struct sl_form *form = &sl_forms[asked->operation];
	for (uint32_t i = 0; i < form->field_count; i++) {
		if (form->fields[i] == SL_FIELD_LEASE || form->fields[i] == SL_FIELD_TICKET)
			put(w, asked->id);
		else if (form->fields[i] == SL_FIELD_TTL)
			put_number(w, numbers->ttl, asked->ttl_ms);
		else
			put_number(w, numbers->cost, asked->cost);
	}
}

static void put_word(struct writer *w, enum sl_command_word word) {
	put_text(w, sl_words[word].name);
}

static void put_asides(struct writer *w, const struct sl_asked *asked, struct sl_asked_numbers *numbers) {
	bool each = asked->each && (sl_forms[asked->operation].words & SL_SAYS(EACH)) != 0;
	if (asked->now != 0 && asked->operation != SL_OP_ADMIT) {
		put_word(w, SL_WORD_AT);
		put_number(w, numbers->at, (int64_t)(asked->now / 1000000));
	}
	if (asked->upto)
		put_word(w, SL_WORD_UPTO);
	if (each || asked->next || asked->each)
		put_word(w, each ? SL_WORD_EACH : SL_WORD_NEXT);
	if (asked->open)
		put_word(w, SL_WORD_OPEN);
	if (asked->id.data != NULL && (sl_forms[asked->operation].words & SL_SAYS(ID)) != 0) {
		put_word(w, SL_WORD_ID);
		put(w, asked->id);
	}
	if (asked->member.data != NULL) {
		put_word(w, SL_WORD_MEMBER);
		put(w, asked->member);
	}
}

static bool is_same(struct sluice_bytes a, struct sluice_bytes b) {
	return (a.data == NULL) == (b.data == NULL) && sl_bytes_equal(a, b);
}

/* The key of the command: that of the first limit, since the grammar wants a limit for each key that is said. */
static struct sluice_bytes first_key(const struct sl_asked *asked) {
	return asked->limit_count != 0 && asked->limits[0].key.data != NULL ? asked->limits[0].key : asked->key;
}

/* KEY and MEMBER stand where they change. */
static void put_limits(struct writer *w, const struct sl_asked *asked) {
	struct sluice_bytes key = first_key(asked), member = asked->member;
	uint32_t count = asked->limit_count < SL_ASKED_LIMITS_MAX ? asked->limit_count : SL_ASKED_LIMITS_MAX;
	for (uint32_t i = 0; i < count; i++) {
		const struct sl_asked_limit *limit = &asked->limits[i];
		struct sluice_bytes own_key = limit->key.data != NULL ? limit->key : asked->key;
		struct sluice_bytes own_member = limit->member.data != NULL ? limit->member : asked->member;
		if (!is_same(key, own_key)) {
			put_word(w, SL_WORD_KEY);
			put(w, own_key);
			key = own_key;
		}
		if (!is_same(member, own_member) && own_member.data != NULL) {
			put_word(w, SL_WORD_MEMBER);
			put(w, own_member);
			member = own_member;
		}
		put(w, limit->text);
	}
}

uint32_t sl_asked_words(const struct sl_asked *asked, struct sl_asked_numbers *numbers, struct sluice_bytes *words,
                        struct sl_failure *failure) {
	enum { OTHERS_MAX = 32 };
	struct writer w = {words, 0};
	bool admit = asked->operation == SL_OP_ADMIT;
	if (asked->attribute_count > (SL_ASKED_WORDS_MAX - OTHERS_MAX) / 2)
		return sl_fail(failure, SL_FAILED_ARGUMENT, "too many attributes");
	if (admit && asked->attribute_count == 0) /* else the grammar takes an option for one */
		return sl_fail(failure, SL_FAILED_ARGUMENT, SL_NO_ATTRIBUTE);
	put_text(&w, name_of(asked->operation));
	if (!admit)
		put(&w, first_key(asked));
	put_fields(&w, asked, numbers);
	put_asides(&w, asked, numbers);
	put_limits(&w, asked);
	for (uint32_t i = 0; admit && i < asked->attribute_count; i++) {
		put(&w, asked->attributes[i].name);
		put(&w, asked->attributes[i].value);
	}
	SL_ASSERT(w.count <= SL_ASKED_WORDS_MAX);
	return w.count;
}

_Static_assert(SL_ASKED_LIMITS_MAX * 5 + 32 <= SL_ASKED_WORDS_MAX, "all limits that are looked at fit");

bool sl_told_merge(struct sl_told *told, const int64_t (*numbers)[7], const struct sluice_bytes *texts,
                   uint32_t count) {
	const struct sluice_bytes nothing = sl_str(sl_algorithm_word(SLUICE_UNLIMITED)); /* is never named */
	if (count > SLUICE_ITEMS_MAX)
		return false;
	told->merged = sl_merge_nothing();
	for (uint32_t i = 0; i < count; i++) {
		if (!sl_answer_is_each(numbers[i], SL_FIGURES))
			return false;
		told->each[i] = sl_answer_each(numbers[i], SL_FIGURES);
		told->each[i].index = (int32_t)i;
		if (!sl_bytes_equal(texts[i], nothing))
			sl_merge_add(&told->merged, &told->each[i], (int32_t)i);
	}
	told->each_count = count;
	return true;
}

struct sluice_bytes sl_asked_ticket_key(const struct sl_asked *asked, char folded[SLUICE_KEY_BYTES_MAX]) {
	bool own = asked->limit_count != 0 && asked->limits[0].key.data != NULL &&
	           !sl_bytes_equal(asked->limits[0].key, asked->key);
	return own ? sl_slice(NULL, 0) : sl_key_fold(folded, asked->key);
}

size_t sl_asked_ticket(const struct sl_asked *asked, char *text, struct sl_failure *failure) {
	struct sluice_limit limits[SLUICE_ITEMS_MAX];
	struct sluice_item items[SLUICE_ITEMS_MAX];
	struct sluice_error error;
	char folded[SLUICE_ITEMS_MAX + 1][SLUICE_KEY_BYTES_MAX];
	_Static_assert((int)SL_ASKED_TICKET_BYTES >= (int)SL_TICKET_BYTES_MAX, "every ticket fits");
	if (asked->limit_count > SLUICE_ITEMS_MAX || asked->id.len == 0 || asked->id.len > SLUICE_ID_BYTES_MAX) {
		(void)sl_fail(failure, asked->id.len > 0 && asked->id.len <= SLUICE_ID_BYTES_MAX ? SL_FAILED_LIMIT
		                                                                                 : SL_FAILED_ARGUMENT,
		              "a reservation has an id of 1 to %d bytes, and at most %d limits", SLUICE_ID_BYTES_MAX,
		              SLUICE_ITEMS_MAX);
		return 0;
	}
	for (uint32_t i = 0; i < asked->limit_count; i++) {
		const struct sl_asked_limit *one = &asked->limits[i];
		items[i] = (struct sluice_item){.limit = &limits[i], .key = one->key.data != NULL ? one->key : asked->key};
		items[i].key = sl_key_fold(folded[i], items[i].key);
		if (sluice_limit_parse(&limits[i], one->text, &error) != SLUICE_OK) {
			(void)sl_fail(failure, SL_FAILED_LIMIT, "limit %u, column %u: %s", i + 1, error.column, error.text);
			return 0;
		}
	}
	return sl_ticket_write(text, sl_id_number(asked->id), sl_asked_ticket_key(asked, folded[SLUICE_ITEMS_MAX]), items,
	                       NULL, asked->limit_count);
}
