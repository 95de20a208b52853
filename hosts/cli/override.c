/* sluice override: quotas of keys' own at run time, set, told and forgotten: at a running server, or in a store of this
 * host beside the processes that use it. Both are asked by SLUICE.OVERRIDE. */
#include "hosts/cli/ask.h"

#include "base/out.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>

enum { WORDS_MAX = 3, LISTED_A_CALL = 1000 };

/* What is asked, with how many words after it. */
struct action {
	const char *name, *words;
	int word_count;
	bool (*tell)(struct sl_cli_ask *ask, const char *const *words, int *status, struct sluice_error *error);
};

struct override {
	struct sl_cli_ask ask;
	const char *config;
	sluice_ns ttl_ns; /* 0: not said */
	const struct action *action;
	const char *words[WORDS_MAX]; /* the limit, the key, the quota */
	int word_count;
	struct sluice_policy *policy; /* of -c */
};
#define TO(field) offsetof(struct override, field)

static const struct sl_option options[] = {
	{"ttl", 0, "TIME", "set: how long the quota counts, such as 30d, 1ms to 3660d; then the limit's own\n"
     "counts again, and what is spent stays spent (without end)",
     SL_TIME(TO(ttl_ns), 1000000, (sluice_ns)3660 * 86400 * 1000000000, "a duration such as 30d, 1ms to 3660d")},
	{"store", 0, "STORE", "in a store's file, or in shared:NAME, instead of asking a server", SL_TEXT(TO(ask.store))},
	{"config", 'c', "FILE", "with --store: the policy that has policy:NAME", SL_TEXT(TO(config))},
	SL_CLIENT_OPTIONS(TO(ask.server)),
};

/* ---- answers ---------------------------------------------------------------------------------------------------- */

static void show(struct sluice_bytes text) {
	char memory[SL_TEXT_ROOM(SLUICE_KEY_BYTES_MAX)];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	sl_out_shown(&out, text, SLUICE_KEY_BYTES_MAX);
	fwrite(memory, 1, sl_out_len(&out), stdout);
}

/* What a quota is, and when it ends: the last columns of a list, and all that get tells. */
static void show_quota(struct sluice_bytes quota, int64_t ms_left) {
	char wait[SL_WAIT_TEXT_MAX];
	show(quota);
	if (ms_left >= 0)
		printf(", ends in %s", sl_cli_wait(wait, ms_left));
	putchar('\n');
}

static bool tell_set(struct sl_cli_ask *ask, const char *const *words, int *status, struct sluice_error *error) {
	struct sl_reply_token token;
	if (!sl_client_token(&ask->client, &token, error))
		return false;
	*status = SL_EXIT_FINE;
	show(sl_str(words[1]));
	fputs(" of ", stdout);
	show(sl_str(words[0]));
	fputs(" has ", stdout);
	show(sl_str(words[2]));
	puts(" from now on");
	return true;
}

static bool tell_got(struct sl_cli_ask *ask, const char *const *words, int *status, struct sluice_error *error) {
	char quota[SLUICE_LIMIT_TEXT_MAX];
	struct sl_reply_token token;
	int64_t ms_left;
	size_t len;
	(void)words;
	if (!sl_client_token(&ask->client, &token, error))
		return false;
	*status = token.kind == SL_REPLY_NIL ? SL_EXIT_DENIED : SL_EXIT_FINE;
	if (token.kind == SL_REPLY_NIL) {
		puts("the key has no quota of its own");
		return true;
	}
	if (!sl_client_string(&ask->client, quota, sizeof quota, &len, error) ||
	    !sl_client_integer(&ask->client, ':', &ms_left, error))
		return false;
	show_quota(sl_slice(quota, len), ms_left);
	return true;
}

static bool tell_deleted(struct sl_cli_ask *ask, const char *const *words, int *status, struct sluice_error *error) {
	int64_t count;
	(void)words;
	if (!sl_client_integer(&ask->client, ':', &count, error))
		return false;
	*status = count != 0 ? SL_EXIT_FINE : SL_EXIT_DENIED;
	puts(count != 0 ? "deleted: the limit's own quota counts again" : "the key has no quota of its own");
	return true;
}

static bool tell_one(struct sl_client *client, struct sluice_error *error) {
	char name[SLUICE_NAME_BYTES_MAX], key[SLUICE_KEY_BYTES_MAX], quota[SLUICE_LIMIT_TEXT_MAX];
	size_t name_len, key_len, quota_len;
	int64_t width, ms_left;
	if (!sl_client_integer(client, '*', &width, error) ||
	    !sl_client_string(client, name, sizeof name, &name_len, error) ||
	    !sl_client_string(client, key, sizeof key, &key_len, error) ||
	    !sl_client_string(client, quota, sizeof quota, &quota_len, error) ||
	    !sl_client_integer(client, ':', &ms_left, error))
		return false;
	show(sl_slice(name, name_len));
	fputs("  ", stdout);
	show(sl_slice(key, key_len));
	fputs("  ", stdout);
	show_quota(sl_slice(quota, quota_len), ms_left);
	return true;
}

static bool ask_some(struct sl_cli_ask *ask, int64_t from, struct sluice_error *error) {
	char cursor[24], count[24];
	snprintf(cursor, sizeof cursor, "%" PRId64, from);
	snprintf(count, sizeof count, "%d", LISTED_A_CALL);
	const struct sluice_bytes words[] = {sl_str("SLUICE.OVERRIDE"), sl_str("LIST"), sl_str(cursor), sl_str("COUNT"),
	                                     sl_str(count)};
	return sl_client_send(&ask->client, words, 5, error);
}

/* Page after page; the first has been asked for. */
static bool tell_list(struct sl_cli_ask *ask, const char *const *words, int *status, struct sluice_error *error) {
	int64_t parts, next, count;
	(void)words;
	*status = SL_EXIT_FINE;
	do {
		if (!sl_client_integer(&ask->client, '*', &parts, error) ||
		    !sl_client_integer(&ask->client, ':', &next, error) ||
		    !sl_client_integer(&ask->client, '*', &count, error))
			return false;
		for (int64_t i = 0; i < count; i++)
			if (!tell_one(&ask->client, error))
				return false;
	} while (next != 0 && ask_some(ask, next, error));
	return next == 0;
}

/* ---- the verb ---------------------------------------------------------------------------------------------------- */

enum { SET, GET, DEL, LIST, ACTIONS };

/* As words of the command line, ended by NULL. */
static const char *const action_names[ACTIONS + 1] = {"set", "get", "del", "list", NULL};

static const struct action actions[ACTIONS] = {
	[SET] = {"SET", "LIMIT KEY QUOTA", 3, tell_set},
	[GET] = {"GET", "LIMIT KEY", 2, tell_got},
	[DEL] = {"DEL", "LIMIT KEY", 2, tell_deleted},
	[LIST] = {"LIST", "no word", 0, tell_list},
};

static int take_action(const struct sl_verb *verb, struct override *override, const char *word) {
	for (int i = 0; i < ACTIONS; i++)
		if (strcmp(word, action_names[i]) == 0)
			override->action = &actions[i];
	if (override->action != NULL)
		return SL_GO_ON;
	const char *nearest = sl_args_nearest(word, action_names);
	if (nearest != NULL)
		return sl_cli_misuse(verb, "'%.64s': did you mean %s?", word, nearest);
	return sl_cli_misuse(verb, "'%.64s': expected set, get, del or list", word);
}

static int take_word(const struct sl_verb *verb, void *to, const char *word) {
	struct override *override = to;
	if (override->action == NULL)
		return take_action(verb, override, word);
	if (override->word_count == override->action->word_count)
		return sl_cli_misuse(verb, "'%.64s' is one word too many", word);
	override->words[override->word_count++] = word;
	return SL_GO_ON;
}

static int read_arguments(const struct sl_verb *verb, struct override *override, int argc, char **argv) {
	struct sl_cli_ask *ask = &override->ask;
	int status = sl_cli_read(verb, argc, argv, override, NULL);
	if (status != SL_GO_ON)
		return status;
	if (override->action == NULL)
		return sl_cli_misuse(verb, "expected set, get, del or list");
	if (override->word_count != override->action->word_count)
		return sl_cli_misuse(verb, "%s takes %s", action_names[override->action - actions], override->action->words);
	if (override->ttl_ns != 0 && override->action != &actions[SET])
		return sl_cli_misuse(verb, "--ttl is for set");
	if (override->config != NULL && ask->store == NULL)
		return sl_cli_misuse(verb, "-c FILE goes with --store: a server has its own policy");
	status = sl_ask_check_place(ask);
	if (status == SL_GO_ON && ask->in_redis)
		return sl_cli_misuse(verb, "--store can't be Redis here: ask a server whose counters are there, or the "
		                           "module itself by redis-cli SLUICE.OVERRIDE");
	return status;
}

static int send(struct override *override) {
	struct sluice_bytes words[2 + WORDS_MAX + 1] = {sl_str("SLUICE.OVERRIDE"), sl_str(override->action->name)};
	struct sl_cli_ask *ask = &override->ask;
	struct sluice_error error;
	char ttl[24];
	int count = 2;
	if (override->action == &actions[LIST])
		return ask_some(ask, 0, &error) ? SL_GO_ON : sl_ask_failed(ask, &error);
	for (int i = 0; i < override->word_count; i++)
		words[count++] = sl_str(override->words[i]);
	if (override->ttl_ns != 0) {
		snprintf(ttl, sizeof ttl, "%" PRIu64, override->ttl_ns / 1000000);
		words[count++] = sl_str(ttl);
	}
	return sl_client_send(&ask->client, words, count, &error) ? SL_GO_ON : sl_ask_failed(ask, &error);
}

static int ask_and_tell(struct override *override) {
	struct sluice_error error;
	int status = send(override);
	if (status != SL_GO_ON)
		return status;
	if (!override->action->tell(&override->ask, override->words, &status, &error))
		return sl_ask_failed(&override->ask, &error);
	return status;
}

static int run_override(const struct sl_verb *verb, int argc, char **argv) {
	static struct override override;
	override = (struct override){.ask = sl_ask_begin(verb)};
	int status = read_arguments(verb, &override, argc, argv);
	if (status == SL_GO_ON && override.config != NULL)
		status = sl_cli_load_policy(verb, override.config, false, &override.policy);
	override.ask.policy = override.policy;
	if (status == SL_GO_ON)
		status = sl_ask_reach(&override.ask);
	if (status == SL_GO_ON) {
		status = ask_and_tell(&override);
		sl_ask_end(&override.ask);
	}
	sluice_policy_free(override.policy);
	return sl_cli_end(verb, status);
}

const struct sl_verb sl_verb_override = {
	.name = "override",
	.usage = "override set LIMIT KEY QUOTA [--ttl TIME] [WHERE]\n"
			 "       sluice override get|del LIMIT KEY [WHERE]\n"
			 "       sluice override list [WHERE]\n"
			 "       WHERE: --server ADDR [--user NAME] [--tls [--ca FILE]] | --store STORE [-c FILE]",
	.summary = "Gives a key of a limit another quota, from now on: when a customer's plan changes",
	.text = "LIMIT is policy:NAME of the server's policy, or of -c FILE; or notation. QUOTA is unlimited, or a limit\n"
			"for the same counter, such as 6000/1m: another algorithm or window would be another counter, and is\n"
			"refused. list prints limit, key and quota, with two spaces between them. A server requires the role\n"
			"admin.\n"
			"Exit status: 0 done, 1 the key has no quota of its own, 2 refused or no answer.\n",
	.words = action_names,
	.examples = "  sluice override set policy:per-user user=alice 6000/1m\n"
				"  sluice override set policy:per-user user=bob unlimited --ttl 7d\n"
				"  sluice override del policy:per-user user=alice --server unix:/run/sluice.sock\n"
				"  sluice override list --store /var/lib/sluice/counters\n",
	SL_OPTIONS(options),
	.word = take_word,
	.run = run_override,
};
