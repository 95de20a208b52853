/* What the tests of doors that remember share: policies that come and go, and attributes for requests. */
#ifndef TESTS_MEMO_POLICIES_H
#define TESTS_MEMO_POLICIES_H

#include "hosts/server/door/door.h"
#include "tests/model/dice.h"

enum { MEMO_POLICIES = 4, MEMO_ATTRIBUTES = 7, MEMO_VALUES = 6 };

extern const struct memo_attribute {
	const char *name, *values[MEMO_VALUES];
} memo_attributes[MEMO_ATTRIBUTES];

/* A reload: gives the policy before back first, so that the new one is likely to stand where that stood. */
void memo_policy_load(struct sl_door_context *context, unsigned number);

/* Which policy is the next one; MEMO_POLICIES: it stays. */
unsigned memo_policy_next(struct dice *dice);

#endif
