/* Users: names, what they may do, and what their secrets look like from the outside.
 *
 *   password = "pbkdf2-sha256:" ROUNDS ":" 32 hex digits (salt) ":" 64 hex digits (hash)
 *   token    = "sha256:" 64 hex digits
 *
 * Whoever writes a secret here in clear has made a mistake that must not travel: no message of this section repeats
 * what it found, neither values nor unknown keys (`password:hunter2` without the space is one), only where it stands.
 */
#include "policy/conf.h"

#include "policy/lint.h"

enum {
	USER_NAME_BYTES_MAX = 64,
	ROUNDS_MIN = 1000,
	ROUNDS_MAX = 10 * 1000 * 1000,
};

struct user_nodes {
	const struct sl_yaml *name, *password, *token, *role, *roles;
	bool whole; /* no key was unknown: what is not here is missing, not mistyped */
};

static void keep(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	(void)conf;
	*(const struct sl_yaml **)into = value;
}

/* ---- secrets --------------------------------------------------------------------------------------------------- */

/* The value of a hexadecimal digit; 16 for any other byte. */
static unsigned hex_value(char c) {
	return c >= '0' && c <= '9'   ? (unsigned)(c - '0')
	       : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
	       : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
	                              : 16;
}

/* Reads exactly 2 * count digits. */
static bool read_hex(struct sluice_bytes text, uint8_t *bytes, size_t count) {
	const char *p = text.data;
	if (text.len != 2 * count)
		return false;
	for (size_t i = 0; i < count; i++) {
		unsigned high = hex_value(p[2 * i]), low = hex_value(p[2 * i + 1]);
		if (high > 15 || low > 15)
			return false;
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

/* The part of a text from `*at` to the next colon or the end; *at moves after the colon. */
static struct sluice_bytes next_part(struct sluice_bytes text, size_t *at) {
	const char *p = (const char *)text.data + *at;
	size_t left = text.len - *at;
	const char *colon = left == 0 ? NULL : memchr(p, ':', left);
	size_t len = colon == NULL ? left : (size_t)(colon - p);
	*at += len + (colon != NULL);
	return sl_slice(p, len);
}

static bool begins_with(struct sluice_bytes text, const char *prefix) {
	size_t len = strlen(prefix);
	return text.len >= len && memcmp(text.data, prefix, len) == 0;
}

static void read_password(struct sl_conf *conf, const struct sl_yaml *node, struct sl_secret *secret) {
	static const char prefix[] = "pbkdf2-sha256:";
	struct sluice_bytes text;
	size_t at = sizeof prefix - 1, start = at;
	uint64_t rounds;
	if (!sl_conf_text(conf, node, "a hashed password", &text))
		return;
	secret->kind = SL_SECRET_PBKDF2;
	if (!begins_with(text, prefix)) {
		sl_report_error(conf->report, node->place,
		                "expected a hashed password, pbkdf2-sha256:ROUNDS:SALT:HASH: 'sluice password' makes one");
		return;
	}
	if (!sl_bytes_to_u64(next_part(text, &at), &rounds) || rounds < ROUNDS_MIN || rounds > ROUNDS_MAX) {
		sl_report_error(conf->report, sl_node_place(node, start),
		                "expected rounds from %d to %d after pbkdf2-sha256: ('sluice password' makes a whole one)",
		                ROUNDS_MIN, ROUNDS_MAX);
		return;
	}
	secret->rounds = (uint32_t)rounds;
	start = at;
	if (!read_hex(next_part(text, &at), secret->salt, sizeof secret->salt))
		sl_report_error(conf->report, sl_node_place(node, start),
		                "expected a salt of 32 hexadecimal digits ('sluice password' makes a whole one)");
	else if (!read_hex(sl_slice((const char *)text.data + at, text.len - at), secret->hash, sizeof secret->hash))
		sl_report_error(conf->report, sl_node_place(node, at),
		                "expected a hash of 64 hexadecimal digits ('sluice password' makes a whole one)");
}

static bool read_token(struct sl_conf *conf, const struct sl_yaml *node, struct sl_secret *secret) {
	static const char prefix[] = "sha256:";
	const size_t at = sizeof prefix - 1;
	struct sluice_bytes text;
	if (!sl_conf_text(conf, node, "a hashed token", &text))
		return false;
	secret->kind = SL_SECRET_SHA256;
	if (!begins_with(text, prefix)) {
		sl_report_error(conf->report, node->place,
		                "expected a hashed token, sha256:HASH: 'sluice token' makes a token and its hash");
		return false;
	}
	bool good = read_hex(sl_slice((const char *)text.data + at, text.len - at), secret->hash, sizeof secret->hash);
	if (!good)
		sl_report_error(conf->report, sl_node_place(node, at),
		                "expected a hash of 64 hexadecimal digits ('sluice token' makes one)");
	return good;
}

static void read_secret(struct sl_conf *conf, const struct sl_yaml *node, const struct user_nodes *nodes,
                        struct sl_user *user) {
	if (nodes->password != NULL)
		read_password(conf, nodes->password, &user->secret);
	if (nodes->token != NULL)
		user->is_token = read_token(conf, nodes->token, &user->secret);
	if (nodes->password != NULL && nodes->token != NULL)
		sl_report_error(conf->report, node->place, "expected a password or a token, found both: make two users");
	else if (nodes->password == NULL && nodes->token == NULL && nodes->whole)
		sl_report_error(conf->report, node->place, "expected a password or a token in a user, found neither");
}

/* ---- roles ----------------------------------------------------------------------------------------------------- */

void sl_conf_anonymous(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	static const struct sl_word words[] = {
		{"check", SL_ROLE_CHECK, false},
		{"read", SL_ROLE_READ, false},
		{"admin", SL_ROLE_ADMIN, false},
		{"none", 0, false},
		{NULL, 0, false},
	};
	conf->anonymous = value;
	sl_conf_set(conf, value, words, NULL, into);
}

static void read_roles(struct sl_conf *conf, const struct sl_yaml *node, const struct user_nodes *nodes,
                       uint32_t *roles) {
	static const struct sl_word words[] = {
		{"check", SL_ROLE_CHECK, false},
		{"read", SL_ROLE_READ, false},
		{"admin", SL_ROLE_ADMIN, false},
		{NULL, 0, false},
	};
	const struct sl_yaml *value = nodes->roles != NULL ? nodes->roles : nodes->role;
	if (nodes->role != NULL && nodes->roles != NULL) {
		sl_report_error(conf->report, node->place, "expected role or roles, found both");
		return;
	}
	if (value != NULL)
		sl_conf_set(conf, value, words, NULL, roles);
	if (value == NULL && nodes->whole)
		sl_report_error(conf->report, node->place, "expected a role in a user: check, read or admin");
	else if (value != NULL && value->kind == SL_NODE_LIST && value->count == 0 && !value->cut)
		sl_report_error(conf->report, value->place, "expected at least one role, check, read or admin");
}

/* ---- one user -------------------------------------------------------------------------------------------------- */

static void read_user_name(struct sl_conf *conf, const struct sl_yaml *node, struct sluice_bytes *name) {
	struct sluice_bytes text;
	size_t good = 0;
	if (!sl_conf_text(conf, node, "the name of a user", &text))
		return;
	const char *p = text.data;
	while (good < text.len && p[good] > ' ' && p[good] < 0x7f && p[good] != ':')
		good++;
	if (text.len == 0 || good < text.len || text.len > USER_NAME_BYTES_MAX)
		sl_report_error(conf->report, good < text.len ? sl_node_place(node, good) : node->place,
		                "expected a name of 1 to %d printable ASCII characters, without ':' and spaces",
		                USER_NAME_BYTES_MAX);
	else
		*name = (struct sluice_bytes){sl_pool_text(&conf->policy->pool, text), text.len};
}

/* A name twice, or a token twice: who would it be? */
static void check_user(struct sl_conf *conf, const struct user_nodes *nodes, const struct sl_user *users,
                       uint32_t count, const struct sl_yaml *const *places) {
	const struct sl_user *user = &users[count];
	for (uint32_t i = 0; i < count; i++) {
		uint32_t line = places[i]->place.line;
		if (user->name.len != 0 && sl_bytes_equal(users[i].name, user->name))
			sl_report_error(conf->report, nodes->name->place, "duplicate name %s: the user in line %u has it",
			                sl_quote(user->name).text, line);
		if (user->is_token && users[i].is_token &&
		    memcmp(users[i].secret.hash, user->secret.hash, sizeof user->secret.hash) == 0)
			sl_report_error(conf->report, nodes->token->place, "duplicate token: the user in line %u has it", line);
	}
}

static void read_user(struct sl_conf *conf, const struct sl_yaml *node, struct sl_user *users, uint32_t count,
                      const struct sl_yaml **places) {
	static const struct sl_field fields[] = {
		{"name", keep, offsetof(struct user_nodes, name), "a name, such as api"},
		{"password", keep, offsetof(struct user_nodes, password), NULL},
		{"token", keep, offsetof(struct user_nodes, token), NULL},
		{"role", keep, offsetof(struct user_nodes, role), NULL},
		{"roles", keep, offsetof(struct user_nodes, roles), NULL},
		{NULL, NULL, 0, NULL},
	};
	struct user_nodes nodes = {0};
	size_t errors = conf->report->error_count;
	sl_conf_map(conf, node, "a user", fields, &nodes);
	nodes.whole = node->kind == SL_NODE_MAP && !node->cut && errors == conf->report->error_count;
	places[count] = node;
	if (nodes.name != NULL)
		read_user_name(conf, nodes.name, &users[count].name);
	read_secret(conf, node, &nodes, &users[count]);
	read_roles(conf, node, &nodes, &users[count].roles);
	check_user(conf, &nodes, users, count, places);
}

static void read_users(struct sl_conf *conf, const struct sl_yaml *list, struct sl_settings *settings) {
	if (!sl_conf_expect(conf, list, SL_NODE_LIST, "a list of users"))
		return;
	if (list->count > SL_USERS_MAX) {
		sl_report_error(conf->report, list->place, "expected at most %d users, found %u", SL_USERS_MAX, list->count);
		return;
	}
	struct sl_user *users = sl_pool_take(&conf->policy->pool, list->count, sizeof *users);
	const struct sl_yaml **places = sl_pool_take(conf->scratch, list->count, sizeof *places);
	if (users == NULL || places == NULL)
		return;
	settings->users = users;
	for (const struct sl_yaml *node = list->first; node != NULL; node = node->next)
		read_user(conf, node, users, settings->user_count++, places);
}

void sl_conf_users(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	conf->hushed = true;
	read_users(conf, value, into);
	conf->hushed = false;
}
