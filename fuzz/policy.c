/* Any bytes as a policy file: refused with at least one mistake, each at a line and column with words; or loaded, and
 * then any attributes find at most SLUICE_ITEMS_MAX limits, whose keys lie in the buffer and whose positions rise.
 *
 * An input is the file; what follows its first NUL is a request: name NUL value NUL ... */
#include "algo/rule.h"
#include "base/assert.h"
#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ATTRIBUTES_MAX = 8 };

static char buffer[SLUICE_MATCH_BYTES_MAX];

static void check_problems(const struct sluice_problems *problems, bool loaded) {
	bool mistake = false;
	for (size_t i = 0; i < problems->count; i++) {
		const struct sluice_problem *p = &problems->list[i];
		SL_ASSERT(p->line >= 1 && p->column >= 1);
		SL_ASSERT(strnlen(p->text, sizeof p->text) - 1 < sizeof p->text - 1);
		SL_ASSERT(i == 0 || p[-1].line <= p->line);
		mistake |= !p->warning;
	}
	SL_ASSERT(mistake != loaded);
}

/* The bytes up to the next NUL; `*data` moves behind it. */
static struct sluice_bytes take(const char **data, size_t *size) {
	size_t len = strnlen(*data, *size);
	struct sluice_bytes word = {*data, len};
	*data += len + (len < *size);
	*size -= len + (len < *size);
	return word;
}

static void check_settings(const struct sl_settings *settings) {
	SL_ASSERT(settings->listen_count >= 1 && settings->listen_count <= SL_LISTENS_MAX);
	for (uint32_t i = 0; i < settings->listen_count; i++) {
		const struct sl_listen *listen = &settings->listens[i];
		SL_ASSERT(listen->address != NULL && listen->mode <= 0777);
		SL_ASSERT(!listen->tls || (settings->tls_certificate != NULL && settings->tls_key != NULL));
	}
	for (uint32_t i = 0; i < settings->user_count; i++) {
		const struct sl_user *user = &settings->users[i];
		SL_ASSERT(user->name.len >= 1 && user->name.len <= 64 && user->roles >= 1 && user->roles <= SL_ROLE_ALL);
		SL_ASSERT(user->is_token ? user->secret.kind == SL_SECRET_SHA256 : user->secret.rounds >= 1000);
	}
	SL_ASSERT(settings->anonymous <= SL_ROLE_ALL && settings->near_percent <= 100);
}

static void check_candidates(const struct sluice_policy *policy, const struct sluice_match *match) {
	struct sluice_item items[SLUICE_ITEMS_MAX];
	uint8_t of[SLUICE_ITEMS_MAX];
	uint32_t count = sl_policy_candidates(policy, match, items, of, SLUICE_ITEMS_MAX);
	SL_ASSERT(count <= match->count);
	for (uint32_t i = 0; i < count; i++) {
		const struct sluice_limit *limit = match->items[of[i]].limit;
		SL_ASSERT(of[i] < match->count && items[i].observed);
		SL_ASSERT(items[i].limit->derived[SL_IDENT_KIND] == limit->derived[SL_IDENT_KIND]);
		SL_ASSERT(items[i].limit->derived[SL_IDENT_NAME] == limit->derived[SL_IDENT_NAME]);
	}
}

static void check_match(const struct sluice_policy *policy, const char *data, size_t size) {
	struct sluice_attribute attributes[ATTRIBUTES_MAX];
	struct sluice_match match;
	size_t count = 0;
	while (size != 0 && count < ATTRIBUTES_MAX) {
		attributes[count].name = take(&data, &size);
		attributes[count++].value = take(&data, &size);
	}
	if (sluice_policy_match(policy, attributes, count, &match, buffer, sizeof buffer) != SLUICE_OK)
		return;
	SL_ASSERT(match.count <= SLUICE_ITEMS_MAX);
	for (uint32_t i = 0; i < match.count; i++) {
		const char *key = match.items[i].key.data;
		SL_ASSERT(match.items[i].limit->algorithm != SLUICE_UNLIMITED);
		SL_ASSERT(match.items[i].key.len == 0 ||
		          (key >= buffer && key + match.items[i].key.len <= buffer + sizeof buffer));
		SL_ASSERT(sluice_policy_limit_name(policy, match.position[i]) != NULL);
		SL_ASSERT(i == 0 || match.position[i - 1] < match.position[i]);
	}
	check_candidates(policy, &match);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	const char *rest = (const char *)data;
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems;
	struct sluice_bytes yaml = take(&rest, &size);
	sluice_err err = sluice_policy_load(&policy, yaml, &problems);
	SL_ASSERT(err == SLUICE_OK || err == SLUICE_E_SYNTAX);
	SL_ASSERT((err == SLUICE_OK) == (policy != NULL));
	check_problems(&problems, err == SLUICE_OK);
	sluice_problems_free(&problems);
	if (policy != NULL) {
		check_settings(sl_policy_settings(policy));
		check_match(policy, rest, size);
	}
	sluice_policy_free(policy);
	return 0;
}
