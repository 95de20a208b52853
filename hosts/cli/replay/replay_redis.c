/* See replay_redis.h. A batch is written in one piece and its replies read in one go: a log has millions of lines. */
#include "hosts/cli/replay/replay_redis.h"

#include "algo/merge.h"
#include "algo/step.h"
#include "base/assert.h"
#include "base/out.h"
#include "hosts/redis/script/script.h"
#include "os/map.h"
#include "policy/key.h"
#include "proto/answer.h"
#include "proto/resp.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	/* the longest command: 16 keys as a policy may make them, twice where they are KEYS as well */
	COMMAND_BYTES_MAX = 3 * SLUICE_MATCH_BYTES_MAX,
	TEXT_BYTES_MAX = 2 * SLUICE_MATCH_BYTES_MAX,
	WORDS_MAX = 512,
	SEND_BYTES = 64 * 1024, /* written commands go off when there are so many bytes of them */
	UNLINK_KEYS = 256,      /* in one command */
};

struct sl_replay_redis {
	struct sl_client client;
	struct sl_redis_url url;
	const char *ca;
	char *secret;          /* for every connection, SLUICE_PASSWORD lasts for one; NULL: none */
	enum sl_redis_via via; /* SL_VIA_MODULE or SL_VIA_SCRIPT */
	char sha1[41];         /* the script's name, for the latter */
	bool lost;             /* the connection is gone, or out of step */
	char prefix[SL_URL_PREFIX_BYTES_MAX + 48];
	struct sl_replay_keys keys;
	struct sluice_bytes words[WORDS_MAX]; /* of the command at hand, and the text of those that are no constants */
	uint32_t word_count;
	struct sl_out text, out; /* out: whole commands */
	char texts[TEXT_BYTES_MAX], buffer[SEND_BYTES + COMMAND_BYTES_MAX];
};

static volatile sig_atomic_t stopped;

static void on_signal(int number) {
	stopped = number;
}

/* ---- connecting -------------------------------------------------------------------------------------------------- */

static bool connect_to(struct sl_replay_redis *redis, struct sluice_error *error) {
	struct sl_client_options options = sl_redis_url_options(&redis->url, redis->ca);
	if (redis->secret != NULL)
		setenv("SLUICE_PASSWORD", redis->secret, 1);
	redis->lost = !sl_client_open(&redis->client, &options, error);
	return !redis->lost;
}

/* "... MOVED 5798 10.0.0.7:6379": goes there. False where the error is another one, or nobody is there. */
static bool follow(struct sl_replay_redis *redis, struct sluice_error *error) {
	const char *moved = strstr(error->text, "MOVED "), *to = moved == NULL ? NULL : strchr(moved + 6, ' ');
	if (to == NULL || strlen(to + 1) >= sizeof redis->url.server)
		return false;
	memcpy(redis->url.server, to + 1, strlen(to));
	sl_client_close(&redis->client);
	return connect_to(redis, error);
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

/* Adds a word to the command at hand. What is no constant is copied to the text first. */
static void put_bytes(struct sl_replay_redis *redis, struct sluice_bytes word) {
	SL_ASSERT(redis->word_count < WORDS_MAX);
	redis->words[redis->word_count++] = word;
}

static void put_word(struct sl_replay_redis *redis, const char *word) {
	put_bytes(redis, sl_str(word));
}

/* Ends a word that was written to the text from here on. */
static void put_written(struct sl_replay_redis *redis, const char *from) {
	SL_ASSERT(!redis->text.overflow);
	put_bytes(redis, sl_slice(from, (size_t)(redis->text.at - from)));
}

static void put_number(struct sl_replay_redis *redis, uint64_t number) {
	const char *from = redis->text.at;
	sl_out_u64(&redis->text, number);
	put_written(redis, from);
}

static void put_key(struct sl_replay_redis *redis, struct sluice_bytes key) {
	char *from = redis->text.at;
	sl_out_str(&redis->text, redis->prefix);
	sl_out_bytes(&redis->text, key.data, key.len);
	struct sluice_bytes folded = sl_key_fold(from, sl_slice(from, (size_t)(redis->text.at - from)));
	redis->text.at = from + folded.len;
	put_written(redis, from);
}

/* Writes the command after those that wait to be sent, and begins the next. */
static void end_command(struct sl_replay_redis *redis) {
	SL_ASSERT(sl_resp_command_bytes(redis->word_count, redis->words) <= (size_t)(redis->out.end - redis->out.at));
	redis->out.at = sl_resp_put_command(redis->out.at, redis->word_count, redis->words);
	redis->word_count = 0;
	redis->text = sl_out_to(redis->texts, sizeof redis->texts);
}

/* Is an item the first of its key? */
static bool is_first(const struct sluice_call *call, uint32_t i) {
	return i == 0 || !sl_bytes_equal(call->items[i].key, call->items[i - 1].key);
}

static void put_items(struct sl_replay_redis *redis, const struct sluice_call *call, const char *const *names) {
	for (uint32_t i = 0; i < call->item_count; i++) {
		char text[SLUICE_LIMIT_TEXT_MAX];
		struct sluice_limit rule = *call->items[i].limit;
		sl_rule_key(&rule, call->items[i].key); /* as a store of this host would: its prefix is none of the key */
		const size_t len = sluice_limit_print(&rule, text);
		if (i > 0 && is_first(call, i)) {
			put_word(redis, "KEY");
			put_key(redis, call->items[i].key);
		}
		if (names != NULL) {
			put_word(redis, "NAME");
			put_word(redis, names[i]);
		}
		if (call->items[i].observed)
			put_word(redis, call->items[i].observed == SLUICE_TRIED ? "TRIED" : "OBSERVED");
		if (call->items[i].cost != 0) {
			put_word(redis, "COST");
			put_number(redis, call->items[i].cost);
		}
		const char *from = redis->text.at;
		sl_out_bytes(&redis->text, text, len);
		put_written(redis, from);
	}
}

/* The command's name and its keys, as each form has them. */
static void put_opening(struct sl_replay_redis *redis, const struct sluice_call *call) {
	const bool peek = call->operation == SLUICE_PEEK;
	if (redis->via == SL_VIA_MODULE) {
		put_word(redis, peek ? "SLUICE.PEEK" : "SLUICE.CHECK");
		put_key(redis, call->items[0].key);
		return;
	}
	uint32_t keys = 0;
	for (uint32_t i = 0; i < call->item_count; i++)
		keys += is_first(call, i);
	put_word(redis, "EVALSHA");
	put_word(redis, redis->sha1);
	put_number(redis, keys);
	for (uint32_t i = 0; i < call->item_count; i++)
		if (is_first(call, i))
			put_key(redis, call->items[i].key);
	put_word(redis, peek ? "PEEK" : "CHECK");
}

/* Writes a call of at least one item; `timed`: with its instant. */
static void put_call(struct sl_replay_redis *redis, const struct sluice_call *call, const char *const *names,
                     bool timed) {
	put_opening(redis, call);
	put_number(redis, call->cost);
	if (timed) {
		put_word(redis, "AT");
		put_number(redis, call->now / 1000000);
	}
	put_word(redis, "EACH");
	put_items(redis, call, names);
	end_command(redis);
}

static bool send_written(struct sl_replay_redis *redis, struct sluice_error *error) {
	SL_ASSERT(!redis->out.overflow);
	bool sent = sl_client_send_bytes(&redis->client, sl_slice(redis->out.start, sl_out_len(&redis->out)), error);
	redis->out = sl_out_to(redis->buffer, sizeof redis->buffer);
	return sent;
}

/* One command of plain words. */
static bool send_words(struct sl_replay_redis *redis, const char *const *words, uint32_t count,
                       struct sluice_error *error) {
	for (uint32_t i = 0; i < count; i++)
		put_word(redis, words[i]);
	end_command(redis);
	return send_written(redis, error);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static bool refuse_shape(struct sluice_error *error) {
	snprintf(error->text, sizeof error->text, "this is not an answer of Sluice: expected 7 integers for each limit");
	return false;
}

static bool read_decision(struct sl_client *client, struct sluice_decision *one, struct sluice_error *error) {
	int64_t numbers[SL_FIGURES], got;
	if (!sl_client_integer(client, '*', &got, error))
		return false;
	if (got != SL_FIGURES)
		return refuse_shape(error);
	for (int i = 0; i < SL_FIGURES; i++)
		if (!sl_client_integer(client, ':', &numbers[i], error))
			return false;
	if (!sl_answer_is_each(numbers, SL_FIGURES))
		return refuse_shape(error);
	*one = sl_answer_each(numbers, SL_FIGURES);
	return true;
}

static bool read_answer(struct sl_client *client, struct sluice_call *call, struct sluice_error *error) {
	int64_t count;
	if (!sl_client_integer(client, '*', &count, error))
		return false;
	if (count != call->item_count)
		return refuse_shape(error);
	for (uint32_t i = 0; i < call->item_count; i++) {
		if (!read_decision(client, &call->each[i], error))
			return false;
		if (!call->items[i].observed)
			sl_merge_add(&call->merged, &call->each[i], (int32_t)i);
	}
	return true;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Asks as a request would, charging nothing. */
static bool probe(struct sl_replay_redis *redis, bool timed, struct sluice_error *error) {
	struct sluice_limit limit;
	struct sluice_decision each;
	struct sluice_item item = {.limit = &limit, .key = sl_str("probe")};
	struct sluice_call call = {
		.operation = SLUICE_PEEK, .items = &item, .item_count = 1, .now = 1000000000, .each = &each};
	sluice_err err = sluice_limit_parse(&limit, sl_str("1/1s"), error);
	SL_ASSERT(err == SLUICE_OK);
	put_call(redis, &call, NULL, timed);
	return send_written(redis, error) && read_answer(&redis->client, &call, error);
}

/* Sends the script, to be called by name from then on. */
static bool load_script(struct sl_replay_redis *redis, struct sluice_error *error) {
	char name[64];
	size_t len;
	if (!send_words(redis, (const char *[]){"SCRIPT", "LOAD", sl_script_eval_client_time}, 3, error))
		return false;
	return sl_client_string(&redis->client, name, sizeof name, &len, error);
}

static bool probe_anywhere(struct sl_replay_redis *redis, struct sluice_error *error) {
	return probe(redis, true, error) || (follow(redis, error) && probe(redis, true, error));
}

/* Says what is missing there. `error` holds what was said of a probe with an instant. */
static bool explain(struct sl_replay_redis *redis, struct sluice_error *error) {
	struct sluice_error other;
	if (strstr(error->text, "unknown command") != NULL)
		snprintf(error->text, sizeof error->text,
		         "Sluice's module is not loaded there: `loadmodule /path/to/sluice-module.so client-time yes` in its "
		         "configuration does; --via script needs none");
	else if (!redis->lost && probe(redis, false, &other))
		snprintf(error->text, sizeof error->text,
		         "a replay decides in the log's own time, and the module there does not let callers set it: load it "
		         "with `loadmodule /path/to/sluice-module.so client-time yes`; --via script needs none");
	return false;
}

static bool use_script(struct sl_replay_redis *redis, struct sluice_error *error) {
	redis->via = SL_VIA_SCRIPT;
	sl_script_sha1(sl_script_eval_client_time, sl_script_eval_client_time_bytes, redis->sha1);
	if (!load_script(redis, error))
		return false;
	if (probe(redis, true, error))
		return true;
	return follow(redis, error) && load_script(redis, error) && probe(redis, true, error);
}

static bool find_way(struct sl_replay_redis *redis, enum sl_redis_via via, struct sluice_error *error) {
	redis->via = SL_VIA_MODULE;
	if (via == SL_VIA_SCRIPT)
		return use_script(redis, error);
	if (probe_anywhere(redis, error))
		return true;
	if (via == SL_VIA_AUTO && !redis->lost && strstr(error->text, "unknown command") != NULL)
		return use_script(redis, error);
	return explain(redis, error);
}

/* Whether keys may be taken away again is found out before the first is made. */
static bool may_unlink(struct sl_replay_redis *redis, struct sluice_error *error) {
	struct sluice_error why;
	int64_t gone;
	put_word(redis, "UNLINK");
	put_key(redis, sl_str("probe"));
	end_command(redis);
	if (send_written(redis, &why) && sl_client_integer(&redis->client, ':', &gone, &why))
		return true;
	snprintf(error->text, sizeof error->text, "a replay removes its keys by UNLINK: %.160s", why.text);
	return false;
}

static bool prepare(struct sl_replay_redis *redis, const struct sl_redis_url *url, size_t bytes_max,
                    struct sluice_error *error) {
	const char *secret = getenv("SLUICE_PASSWORD");
	uint64_t random[2];
	if (!sl_replay_keys_open(&redis->keys, bytes_max) || !sl_random_secret(random)) {
		snprintf(error->text, sizeof error->text, "no memory, or no random bytes");
		return false;
	}
	redis->url = *url;
	redis->secret = secret == NULL ? NULL : strdup(secret);
	redis->out = sl_out_to(redis->buffer, sizeof redis->buffer);
	redis->text = sl_out_to(redis->texts, sizeof redis->texts);
	snprintf(redis->prefix, sizeof redis->prefix, "%s{sluice:replay:%016" PRIx64 "}:", url->prefix, random[0]);
	return true;
}

static void take_signals(void) {
	/* the second one of a kind ends the process as ever */
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND};
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static void free_redis(struct sl_replay_redis *redis) {
	if (redis->secret != NULL)
		OPENSSL_cleanse(redis->secret, strlen(redis->secret));
	free(redis->secret);
	sl_replay_keys_close(&redis->keys);
	free(redis);
}

struct sl_replay_redis *sl_replay_redis_open(const struct sl_redis_url *url, const char *ca, enum sl_redis_via via,
                                             size_t bytes_max, struct sluice_error *error) {
	struct sl_replay_redis *redis = calloc(1, sizeof *redis);
	*error = (struct sluice_error){0};
	if (redis == NULL) {
		snprintf(error->text, sizeof error->text, "no memory");
		return NULL;
	}
	redis->ca = ca;
	redis->lost = true;
	if (prepare(redis, url, bytes_max, error) && connect_to(redis, error) && find_way(redis, via, error) &&
	    may_unlink(redis, error)) {
		take_signals();
		return redis;
	}
	if (!redis->lost)
		sl_client_close(&redis->client);
	free_redis(redis);
	return NULL;
}

/* ---- deciding ---------------------------------------------------------------------------------------------------- */

static bool note_keys(struct sl_replay_redis *redis, const struct sluice_call *call, struct sluice_error *error) {
	for (uint32_t i = 0; i < call->item_count; i++)
		if (is_first(call, i) && !sl_replay_keys_add(&redis->keys, call->items[i].key)) {
			snprintf(error->text, sizeof error->text,
			         "no memory for the list of keys to remove: --memory gives it more");
			return false;
		}
	return true;
}

/* A limit has met a bound before: it decides, and the node is not asked. */
static bool is_blocked(struct sluice_call *call) {
	if (!sl_decide_blocked(call))
		return false;
	for (uint32_t i = 0; i < call->item_count; i++)
		if (call->items[i].bound != SLUICE_BOUND_NONE)
			sl_merge_add(&call->merged, &call->each[i], (int32_t)i);
	return true;
}

static bool send_calls(struct sl_replay_redis *redis, struct sluice_call *calls, uint32_t count,
                       const char *const *names, struct sluice_error *error) {
	for (uint32_t i = 0; i < count; i++) {
		calls[i].merged = sl_merge_nothing();
		if (calls[i].item_count == 0 || is_blocked(&calls[i])) {
			names = names == NULL ? NULL : names + calls[i].item_count;
			continue;
		}
		if (!note_keys(redis, &calls[i], error))
			return false;
		put_call(redis, &calls[i], names, true);
		names = names == NULL ? NULL : names + calls[i].item_count;
		if (sl_out_len(&redis->out) >= SEND_BYTES && !send_written(redis, error))
			return false;
	}
	return send_written(redis, error);
}

bool sl_replay_redis_decide(struct sl_replay_redis *redis, struct sluice_call *calls, uint32_t count,
                            const char *const *names, struct sluice_error *error) {
	if (stopped != 0) {
		snprintf(error->text, sizeof error->text, "interrupted");
		return false;
	}
	bool fine = send_calls(redis, calls, count, names, error);
	for (uint32_t i = 0; i < count && fine; i++)
		fine = calls[i].item_count == 0 || calls[i].merged.index >= 0 /* not sent: is_blocked() */ ||
		       read_answer(&redis->client, &calls[i], error);
	redis->lost |= !fine; /* answers that nobody has read are still on their way */
	return fine;
}

/* ---- closing ----------------------------------------------------------------------------------------------------- */

/* One UNLINK of up to UNLINK_KEYS. */
static bool unlink_some(struct sl_replay_redis *redis, const struct sluice_bytes *keys, uint32_t count,
                        struct sluice_error *error) {
	int64_t gone;
	put_word(redis, "UNLINK");
	for (uint32_t i = 0; i < count; i++)
		put_key(redis, keys[i]);
	end_command(redis);
	return send_written(redis, error) && sl_client_integer(&redis->client, ':', &gone, error);
}

static bool unlink_all(struct sl_replay_redis *redis, struct sluice_error *error) {
	struct sluice_bytes keys[UNLINK_KEYS];
	uint32_t count = 0;
	bool fine = true;
	for (size_t at = 0; fine;) {
		bool more = sl_replay_keys_next(&redis->keys, &at, &keys[count]);
		count += more;
		if (count == UNLINK_KEYS || (!more && count > 0)) {
			fine = unlink_some(redis, keys, count, error);
			count = 0;
		}
		if (!more)
			break;
	}
	return fine;
}

bool sl_replay_redis_close(struct sl_replay_redis *redis, struct sluice_error *error) {
	if (redis == NULL)
		return true;
	bool fine = true;
	redis->out = sl_out_to(redis->buffer, sizeof redis->buffer);
	if (redis->lost) {
		sl_client_close(&redis->client);
		fine = connect_to(redis, error);
	}
	fine = fine && unlink_all(redis, error);
	if (!redis->lost)
		sl_client_close(&redis->client);
	free_redis(redis);
	return fine;
}
