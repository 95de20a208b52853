/* SLUICE.OVERRIDE SET|GET|DEL|LIST: quotas of keys' own, at run time (door/key_override.h).
 *
 *   SET limit key quota [ttl_ms]      +OK
 *   GET limit key                     [quota, ms until it ends or -1]; null: the key has none of its own
 *   DEL limit key                     how many were there, 0 or 1
 *   LIST [cursor [COUNT count]]       [next cursor or 0, [[limit, key, quota, ms until it ends or -1] ..]]
 *
 * Of a limit whose overrides in the file count in windows of their own, each counter can have a quota: SET takes the
 * first that it is a quota for. */
#include "hosts/server/door/key_override.h"
#include "hosts/server/resp/resp.h"

/* Whether the words were read, and their limit found. False: answered. */
static bool find(struct sl_resp_turn *turn, const struct sl_override_words *words, bool read,
                 struct sl_override_target *target) {
	struct sluice_error error;
	if (!read)
		sl_reply_error(turn, "ERR %s", words->error);
	else if (sl_override_find(turn->context, words->limit, words->key, target, &error) == SLUICE_OK)
		return true;
	else
		sl_reply_error(turn, "ERR %s", error.text);
	return false;
}

/* Answers with an error, or waits for the nodes of Redis. */
static void reply_failed(struct sl_resp_turn *turn, sluice_err err, const struct sluice_error *error) {
	if (err != (sluice_err)SL_E_WAITS) {
		sl_reply_error(turn, "ERR %s", error->text);
		return;
	}
	turn->waits = true;
	turn->said = turn->out->len;
}

static struct sl_override_changer changer_of(const struct sl_resp_turn *turn) {
	return (struct sl_override_changer){SL_TRANSPORT_RESP, turn->session->login.user};
}

void sl_resp_override_set(struct sl_resp_turn *turn) {
	struct sl_override_target target;
	struct sluice_override own;
	struct sl_override_words words;
	struct sluice_error error;
	bool read = sl_override_read_set(&words, turn->request->args, turn->request->count, false);
	if (!find(turn, &words, read, &target))
		return;
	sluice_err err = sl_override_set(turn->context, &target, words.quota, words.ttl_ms, changer_of(turn), &own,
	                                 &error);
	if (err != SLUICE_OK)
		reply_failed(turn, err, &error);
	else
		sl_reply_status(turn, "OK");
}

void sl_resp_override_get(struct sl_resp_turn *turn) {
	struct sl_override_target target;
	struct sluice_override own;
	struct sluice_error error;
	struct sl_override_words words;
	char text[SLUICE_LIMIT_TEXT_MAX];
	bool read = sl_override_read_one(&words, turn->request->args, turn->request->count, false);
	if (!find(turn, &words, read, &target))
		return;
	sluice_err err = sl_override_get(turn->context, &target, &own, &error);
	if (err == SLUICE_E_NONE) {
		sl_reply_null(turn);
	} else if (err != SLUICE_OK) {
		reply_failed(turn, err, &error);
	} else {
		sl_reply_array(turn, 2);
		sl_reply_bulk(turn, sl_slice(text, sluice_limit_print(&own.limit, text)));
		sl_reply_integer(turn, sl_ns_to_ms_ceil(own.ends_after_ns));
	}
}

void sl_resp_override_del(struct sl_resp_turn *turn) {
	struct sl_override_target target;
	struct sluice_error error;
	struct sl_override_words words;
	uint32_t gone;
	bool read = sl_override_read_one(&words, turn->request->args, turn->request->count, false);
	if (!find(turn, &words, read, &target))
		return;
	sluice_err err = sl_override_delete(turn->context, &target, changer_of(turn), &gone, &error);
	if (err != SLUICE_OK)
		reply_failed(turn, err, &error);
	else
		sl_reply_integer(turn, gone);
}

static void reply_listed(struct sl_resp_turn *turn, const struct sl_override_list *l) {
	sl_reply_array(turn, 2);
	sl_reply_integer(turn, (int64_t)l->next);
	sl_reply_array(turn, l->count);
	for (size_t i = 0; i < l->count; i++) {
		sl_reply_array(turn, 4);
		sl_reply_bulk(turn, l->list[i].name);
		sl_reply_bulk(turn, l->list[i].key);
		sl_reply_bulk(turn, l->list[i].limit);
		sl_reply_integer(turn, l->list[i].ms_left);
	}
}

void sl_resp_override_list(struct sl_resp_turn *turn) {
	struct sl_override_words words;
	struct sluice_error error;
	struct sl_override_list l;
	if (!sl_override_read_list(&words, turn->request->args, turn->request->count)) {
		sl_reply_error(turn, "ERR %s", words.error);
		return;
	}
	sluice_err err = sl_override_list_read(turn->context, words.from, words.count, &l, &error);
	if (err != SLUICE_OK)
		reply_failed(turn, err, &error);
	else if (l.failed)
		turn->failed = true;
	else
		reply_listed(turn, &l);
	sl_override_list_free(&l);
}
