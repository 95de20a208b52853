/* See remote_override.h. A command a counter, all to the key's node, each `SLUICE.OVERRIDE SET|GET|DEL limit key ..`,
 * which says the NAME of a limit of the policy. A page of the list is a page of one primary: where to go on is its
 * cursor, and which of them it is, in the order of the first slots that they have.
 *
 * Once a quota was changed here, this worker's slice of the counter is given back and its denials are forgotten. Other
 * workers and fronts see the change when they next ask for a slice (slice.h), or a denial is a second old. */
#include "hosts/server/remote/remote_override.h"

#include "algo/override.h"
#include "base/out.h"
#include "hosts/server/door/override_ask.h"
#include "hosts/server/remote/denial_cache.h"
#include "hosts/server/remote/sending.h"
#include "hosts/server/remote/slice.h"
#include "proto/reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	WORDS_MAX = 7,        /* SET limit key quota ttl NAME name */
	PRIMARIES_MAX = 1024, /* the cursor of a list is a node's times this, and the node */
	QUOTED_MAX = 120,
	LIST_DEPTH = 3, /* of what is told of one quota, in the answer to LIST */
};

struct override_call;

/* One command, and what was answered. */
struct part {
	struct sl_node_ask ask;
	struct override_call *call;
	struct sluice_bytes words[WORDS_MAX], keys[1];
	char limit[SLUICE_LIMIT_TEXT_MAX];
	int64_t number; /* the last integer */
	uint32_t told;  /* texts */
	struct sluice_bytes texts[3]; /* of one of a list, in `memory` */
	size_t text_bytes;
	char memory[SLUICE_KEY_BYTES_MAX + SLUICE_NAME_BYTES_MAX + SLUICE_LIMIT_TEXT_MAX];
	bool answered, odd; /* odd: it does not fit the command */
};

struct override_call {
	struct sl_fleet *fleet;
	struct sl_pending *pending;
	uint32_t left;
	bool starting;
	char own[SLUICE_LIMIT_TEXT_MAX], ttl[24], from[24], most[24];
	char key[SL_PLAN_KEY_ROOM];
	struct part parts[];
};

/* ---- failing ----------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void fail(struct override_call *call, sluice_err err, const char *format,
                                                       ...) {
	struct sl_override_ask *ask = call->pending->override;
	va_list values;
	if (ask->err != SLUICE_OK && ask->err != SLUICE_E_NONE)
		return;
	va_start(values, format);
	(void)vsnprintf(ask->error.text, sizeof ask->error.text, format, values);
	va_end(values);
	ask->err = err;
}

static void fail_away(struct override_call *call) {
	const bool changes = call->pending->override->kind == SL_OVERRIDE_SET ||
	                     call->pending->override->kind == SL_OVERRIDE_DELETE;
	fail(call, SLUICE_E_AWAY, "the store did not answer in time: %s",
	     changes ? "it may have been changed, or not" : "nothing was read");
}

static bool begins(struct sluice_bytes text, const char *with) {
	size_t len = strlen(with);
	return text.len >= len && memcmp(text.data, with, len) == 0;
}

static void fail_refused(struct override_call *call, struct sluice_bytes text) {
	char quoted[4 * QUOTED_MAX + 16];
	struct sl_out out = sl_out_to(quoted, sizeof quoted - 1);
	sl_out_quoted(&out, text, QUOTED_MAX);
	*out.at = '\0';
	if (begins(text, "OOM") || begins(text, "ERR " SL_OWN_FULL_TEXT) || begins(text, "ERR " SL_OWN_KEY_FULL_TEXT))
		fail(call, SLUICE_E_FULL, "the node has no room for one more: %s", quoted);
	else if (begins(text, "ERR unknown"))
		fail(call, SLUICE_E_MISUSE, "the node's module is older than this server, and keeps no quotas of keys' own");
	else
		fail(call, SLUICE_E_MISUSE, "the node refused it: %s", quoted);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void keep_text(struct part *p, struct sluice_bytes text) {
	if (p->told >= 3 || sizeof p->memory - p->text_bytes < text.len) {
		p->odd = true;
		return;
	}
	if (text.len != 0)
		memcpy(p->memory + p->text_bytes, text.data, text.len);
	p->texts[p->told++] = sl_slice(p->memory + p->text_bytes, text.len);
	p->text_bytes += text.len;
}

/* Whether a quota was set for a limit of a policy, and not for one that was brought along, whose name is its notation;
 * it has none where that is too long. */
static bool is_named(struct sluice_bytes name) {
	struct sluice_limit limit;
	return name.len != 0 && sluice_limit_parse(&limit, name, NULL) != SLUICE_OK;
}

/* One of a list is whole: it is told, unless its key is none of this fleet's. */
static void list_one(struct part *p, int64_t ms_left) {
	const size_t prefix = strlen(p->call->fleet->prefix);
	struct sluice_bytes key = p->texts[1];
	if (p->told != 3) {
		p->odd = true;
	} else if (key.len >= prefix && memcmp(key.data, p->call->fleet->prefix, prefix) == 0) {
		char *text = p->memory + p->texts[0].len + prefix; /* of the key: it stands after the name */
		size_t len = key.len - prefix;
		if (is_named(p->texts[0]))
			len = sl_plan_key_undo(text, len);
		sl_override_list_add(&p->call->pending->override->list, p->texts[0], sl_slice(text, len), p->texts[2],
		                     ms_left);
	}
	p->told = 0;
	p->text_bytes = 0;
}

static void on_token(struct sl_node_ask *ask, const struct sl_reply_token *token) {
	struct part *p = (struct part *)(void *)((char *)ask - offsetof(struct part, ask));
	const bool list = p->call->pending->override->kind == SL_OVERRIDE_LIST;
	if (token->kind == SL_REPLY_TEXT)
		keep_text(p, token->text);
	else if (token->kind == SL_REPLY_INTEGER && list && token->depth == LIST_DEPTH)
		list_one(p, token->value);
	else if (token->kind == SL_REPLY_INTEGER)
		p->number = token->value;
}

/* What a node's answer means; false: it does not fit the command. */
static bool take_set(struct override_call *call, struct part *p) {
	(void)call;
	return p->told == 1 && sl_bytes_equal(p->texts[0], sl_str("OK"));
}

/* The first counter that has one is told. */
static bool take_got(struct override_call *call, struct part *p) {
	struct sl_override_ask *ask = call->pending->override;
	if (p->told == 0 || ask->err != SLUICE_E_NONE)
		return true;
	if (p->told != 1 || p->number < -1 || sluice_limit_parse(&ask->found.limit, p->texts[0], NULL) != SLUICE_OK)
		return false;
	ask->found.ends_after_ns = sl_remote_override_left(p->number);
	ask->err = SLUICE_OK;
	return true;
}

static bool take_deleted(struct override_call *call, struct part *p) {
	call->pending->override->gone += p->number == 1;
	return p->number == 0 || p->number == 1;
}

static bool take_list(struct override_call *call, struct part *p) {
	struct sl_override_ask *ask = call->pending->override;
	uint64_t at = ask->from % PRIMARIES_MAX;
	uint16_t group;
	if (p->number < 0 || (uint64_t)p->number > UINT64_MAX / 2 / PRIMARIES_MAX)
		return false;
	ask->list.next = (uint64_t)p->number * PRIMARIES_MAX + at;
	if (p->number == 0)
		ask->list.next = sl_nodes_primary(call->fleet->nodes, (uint32_t)at + 1, &group) ? at + 1 : 0;
	return true;
}

static void take_all(struct override_call *call) {
	static bool (*const take[])(struct override_call *, struct part *) = {
		[SL_OVERRIDE_SET] = take_set,
		[SL_OVERRIDE_GET] = take_got,
		[SL_OVERRIDE_DELETE] = take_deleted,
		[SL_OVERRIDE_LIST] = take_list,
	};
	struct sl_override_ask *ask = call->pending->override;
	for (uint32_t i = 0; i < ask->count; i++) {
		struct part *p = &call->parts[i];
		if (p->answered && (p->odd || !take[ask->kind](call, p)))
			fail(call, SLUICE_E_MISUSE, "the node's answer does not fit the command");
	}
	sl_override_list_end(&ask->list);
}

/* What this worker knows of the counters was decided by another quota. */
static void forget_here(struct override_call *call) {
	const struct sl_override_ask *ask = call->pending->override;
	struct sl_fleet *fleet = call->fleet;
	for (uint32_t i = 0; i < ask->count; i++) {
		uint64_t tag = sl_item_tag(fleet->secret, &ask->limits[i], ask->key);
		sl_denial_cache_forget(fleet->denials, tag);
		if (fleet->slices != NULL)
			sl_quota_slice_end(fleet->slices, tag, sl_loop_now(fleet->loop));
	}
}

static void end(struct override_call *call) {
	enum sl_override_kind kind = call->pending->override->kind;
	take_all(call);
	if (kind == SL_OVERRIDE_SET || kind == SL_OVERRIDE_DELETE)
		forget_here(call);
}

static void finish(struct override_call *call) {
	struct sl_pending *pending = call->pending;
	end(call);
	free(call);
	if (pending->to == NULL)
		sl_pending_free(pending);
	else
		pending->ready(pending, pending->to);
}

static void answered(struct sl_node_ask *ask, const struct sl_answer *answer) {
	struct part *p = (struct part *)(void *)((char *)ask - offsetof(struct part, ask));
	struct override_call *call = p->call;
	p->answered = answer->kind == SL_ANSWER_NUMBERS;
	if (answer->kind == SL_ANSWER_ERROR)
		fail_refused(call, answer->error);
	else if (!p->answered)
		fail_away(call);
	if (--call->left == 0 && !call->starting)
		finish(call);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static void add(struct part *p, struct sluice_bytes word) {
	p->words[p->ask.word_count++] = word;
}

/* What stands after the subcommand: the counter of one limit. */
static void say_counter(struct override_call *call, struct part *p, const struct sluice_limit *limit) {
	const struct sl_override_ask *ask = call->pending->override;
	const struct sluice_item item = {.limit = limit, .key = ask->key};
	const struct sl_plan_item plan = {&item, ask->name, 0};
	struct sluice_limit rule = *limit;
	sl_rule_key(&rule, ask->key);
	p->keys[0] = sl_plan_key(call->key, call->fleet->prefix, &plan);
	p->ask.keys = p->keys;
	p->ask.key_count = 1;
	add(p, sl_slice(p->limit, sluice_limit_print(&rule, p->limit)));
	add(p, p->keys[0]);
	if (ask->kind == SL_OVERRIDE_SET) {
		add(p, sl_str(call->own));
		if (ask->ttl_ms != 0)
			add(p, sl_str(call->ttl));
	}
	if (ask->name == NULL)
		return;
	add(p, sl_str("NAME"));
	add(p, sl_str(ask->name));
}

static bool say(struct override_call *call, struct part *p, uint32_t i) {
	static const char *const names[] = {"SET", "GET", "DEL", "LIST"};
	const struct sl_override_ask *ask = call->pending->override;
	p->call = call;
	p->number = -1;
	p->ask.verb = "OVERRIDE";
	p->ask.bare = true;
	p->ask.told = on_token;
	p->ask.answered = answered;
	p->ask.words = p->words;
	p->ask.deadline = sl_loop_now(call->fleet->loop) + call->fleet->budget_ns;
	add(p, sl_str(names[ask->kind]));
	if (ask->kind != SL_OVERRIDE_LIST) {
		say_counter(call, p, &ask->limits[i]);
		p->ask.group = sl_nodes_group(call->fleet->nodes, p->keys[0]);
		return true;
	}
	add(p, sl_str(call->from));
	add(p, sl_str("COUNT"));
	add(p, sl_str(call->most));
	return sl_nodes_primary(call->fleet->nodes, (uint32_t)(ask->from % PRIMARIES_MAX), &p->ask.group);
}

static void ask_for(struct override_call *call, uint32_t i) {
	struct part *p = &call->parts[i];
	struct sl_nodes *nodes = call->fleet->nodes;
	if (!say(call, p, i))
		return; /* a cursor of a node that is no more: the list ends */
	if (sl_nodes_has_only_scripts(nodes, p->ask.group)) {
		fail(call, SLUICE_E_MISUSE,
		     "the node has only the script, which keeps no quotas of keys' own: load sluice-module.so there, and give "
		     "the store a new prefix (docs/script.md), or use overrides-from in the policy");
		return;
	}
	call->left++;
	if (!call->fleet->nodes_closing && sl_nodes_ask(nodes, &p->ask))
		return;
	call->left--;
	fail_away(call);
}

static struct override_call *new_call(struct sl_fleet *fleet, struct sl_pending *pending) {
	struct sl_override_ask *ask = pending->override;
	if (ask->kind == SL_OVERRIDE_LIST)
		ask->count = 1;
	struct override_call *call = fleet->closing ? NULL : calloc(1, sizeof *call + ask->count * sizeof call->parts[0]);
	if (call == NULL)
		return NULL;
	call->fleet = fleet;
	call->pending = pending;
	if (ask->kind == SL_OVERRIDE_SET)
		sluice_limit_print(&ask->own, call->own);
	snprintf(call->ttl, sizeof call->ttl, "%llu", (unsigned long long)ask->ttl_ms);
	snprintf(call->from, sizeof call->from, "%llu", (unsigned long long)(ask->from / PRIMARIES_MAX));
	snprintf(call->most, sizeof call->most, "%u", ask->most);
	ask->err = ask->kind == SL_OVERRIDE_GET ? SLUICE_E_NONE : SLUICE_OK;
	return call;
}

bool sl_fleet_override(struct sl_fleet *fleet, struct sl_pending *pending) {
	struct sl_override_ask *ask = pending->override;
	struct override_call *call = new_call(fleet, pending);
	if (call == NULL) {
		ask->err = SLUICE_E_AWAY;
		snprintf(ask->error.text, sizeof ask->error.text, "the server stops, or has no memory: nothing was changed");
		return true;
	}
	call->starting = true;
	for (uint32_t i = 0; i < ask->count; i++)
		ask_for(call, i);
	call->starting = false;
	if (call->left != 0)
		return false;
	end(call);
	free(call);
	return true;
}
