/* Policies between which what is known of a request differs, and attributes that matter to them: memo_policies.h. */
#include "tests/model/memo_policies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MANY = 20 };

/* The last but one has an index, made of MANY more limits; the last one lets nobody in. */
static const char *const policy_texts[MEMO_POLICIES] = {
	"limits:\n"
	"  - {name: user, key: user, limit: 50/1m}\n",
	"limits:\n"
	"  - {name: login, when: {method: POST, path: [/login, '/x*']}, key: ip, limit: sliding-log 5/1m}\n"
	"  - name: user\n"
	"    key: user | ip\n"
	"    limit: 50/1m\n"
	"    candidate: 40/1m\n"
	"    overrides: [{when: {plan: pro}, limit: 90/1m}, {when: {user: [aaaaa, baaaa]}, limit: unlimited}]\n"
	"  - {name: day, key: user | ip, limit: sliding-buckets 80/1d precision 1h edge count, optional: true}\n"
	"  - {name: orgs, when: {path: '/orgs/{org}/*'}, key: [org, user], limit: 20/1m, optional: true}\n"
	"  - {name: by-org, key: org, limit: 9/1m, optional: true}\n"
	"  - {name: who, when: {not: {ip: 10.0.0.0/30}}, key: path, limit: distinct 4/1m, of: user, optional: true}\n"
	"  - {name: some, key: ip, limit: 7/1m, canary: 50% of user, optional: true}\n",
	"limits:\n"
	"  - {name: user, key: [user, path], limit: token-bucket 5/1s burst 9, optional: true}\n"
	"  - {name: plan, when: {plan: p*}, key: plan, limit: 30/1m, optional: true}\n",
	"users:\n"
	"  - {name: somebody, token: \"sha256:"
	"0000000000000000000000000000000000000000000000000000000000000000\", roles: [check]}\n"
	"limits:\n"
	"  - {name: user, key: user, limit: 50/1m}\n",
};

const struct memo_attribute memo_attributes[MEMO_ATTRIBUTES] = {
	{"user", {"aaaaa", "baaaa", "c", "", "dd=,%d", "eeeeeeeeeeeeee"}},
	{"ip", {"10.0.0.1", "10.0.0.9", "::ffff:10.0.0.1", "2001:db8::1", "2001:DB8::2", "nobody"}},
	{"method", {"GET", "POST", "post", "PUT", "get", "P"}},
	{"path", {"/", "/login", "/x/y?z", "/orgs/a/b", "/orgs/b/../c/d", "/orgs/a"}},
	{"plan", {"pro", "free", "p", "", "prox", "none"}},
	{"org", {"a", "b", "c", "d", "", "e"}},
	{"NEXT", {"1", "2", "3", "4", "5", "6"}},
};
void memo_policy_load(struct sl_door_context *context, unsigned number) {
	char text[8 * 1024];
	struct sluice_policy *policy = NULL;
	size_t len = (size_t)snprintf(text, sizeof text, "%s", policy_texts[number]);
	for (unsigned i = 0; number == 2 && i < MANY; i++)
		len += (size_t)snprintf(text + len, sizeof text - len,
		                        "  - {name: m%u, when: {path: '/orgs/%c*', method: [GET, P%u]}, key: ip, "
		                        "limit: 9/1m}\n",
		                        i, (char)('a' + i % 5), i);
	sluice_policy_free((struct sluice_policy *)context->policy);
	assert_int_equal(sluice_policy_load(&policy, sl_slice(text, len), NULL), SLUICE_OK);
	context->policy = policy;
}

unsigned memo_policy_next(struct dice *dice) {
	if (!dice_one_in(dice, 10))
		return MEMO_POLICIES;
	return dice_one_in(dice, 6) ? 3 : (unsigned)dice_below(dice, 3);
}
