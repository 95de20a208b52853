/* The commands we have, in one table, and COMMAND, which tells clients about it: redis-cli takes its hints from here,
 * cluster-minded clients the places of the keys. */
#include "hosts/server/resp/resp.h"

#include <pthread.h>
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct sl_resp_argument admit_arguments[] = {{"name value", "string", NULL, false, true}};
static const struct sl_resp_argument top_arguments[] = {
	{"denied|near", "string", NULL, true, false},
	{"count", "integer", "COUNT", true, false},
};
static const struct sl_resp_argument tail_arguments[] = {
	{"limit", "string", "LIMIT", true, false},
	{"key", "string", "KEY", true, false},
	{"denied", "pure-token", "DENIED", true, false},
};
static const struct sl_resp_argument rule_arguments[] = {
	{"domain", "string", NULL, false, false},
	{"key value", "string", NULL, false, true},
};
static const struct sl_resp_argument auth_arguments[] = {
	{"username", "string", NULL, true, false},
	{"password", "string", NULL, false, false},
};
static const struct sl_resp_argument message[] = {{"message", "string", NULL, false, false}};
static const struct sl_resp_argument some_message[] = {{"message", "string", NULL, true, false}};
static const struct sl_resp_argument sections[] = {{"section", "string", NULL, true, true}};
static const struct sl_resp_argument index_argument[] = {{"index", "integer", NULL, false, false}};
static const struct sl_resp_argument names[] = {{"command-name", "string", NULL, true, true}};
static const struct sl_resp_argument patterns[] = {{"parameter", "string", NULL, false, true}};

/* What the grammar of all doors knows; `arguments` stand after it. */
#define GRAMMAR(command) .form = &sl_forms[command], .operation = (command)
#define KEYED(command) GRAMMAR(command), .first_key = 1, .last_key = 1, .key_step = 1
#define ARGUMENTS(list) .arguments = (list), .argument_count = COUNT(list)
#define CHILDREN(list) .children = (list), .child_count = COUNT(list)
#define LIMITER .roles = SL_ROLE_CHECK, .group = "sluice", .categories = "@write @fast"
#define SESSION .group = "connection", .categories = "@fast @connection", .flags = "noscript loading stale fast"
/* These may be said before anybody has logged in. */
#define DOORSTEP \
	.group = "connection", .categories = "@fast @connection", .flags = "noscript loading stale fast no_auth allow_busy"
#define SERVER .roles = SL_ROLE_ALL, .group = "server", .categories = "@slow @connection", .flags = "loading stale"

static const struct sl_resp_command client_commands[] = {
	{"client|getname", sl_resp_client_getname, 2, .summary = "The name of this connection", SESSION},
	{"client|help", sl_resp_help, 2, .summary = "Lists the subcommands", SESSION},
	{"client|id", sl_resp_client_id, 2, .summary = "The number of this connection", SESSION},
	{"client|info", sl_resp_client_info, 2, .summary = "Describes this connection", SESSION},
	{"client|list", sl_resp_client_list, -2, .summary = "Describes this connection, the only one known here", SESSION},
	{"client|no-evict", sl_resp_client_no_evict, 3, .summary = "Accepted: no client is ever evicted", SESSION},
	{"client|reply", sl_resp_client_reply, 3, .summary = "ON, OFF or SKIP: which answers are sent", SESSION},
	{"client|setinfo", sl_resp_client_setinfo, 4, .summary = "LIB-NAME or LIB-VER of the client library", SESSION},
	{"client|setname", sl_resp_client_setname, 3, .summary = "Names this connection", SESSION},
};

static const struct sl_resp_command command_commands[] = {
	{"command|count", sl_resp_command_count, 2, .summary = "How many commands there are", SERVER},
	{"command|docs", sl_resp_command_docs, -2, .summary = "Documents commands", SERVER, ARGUMENTS(names)},
	{"command|getkeys", sl_resp_command_getkeys, -3, .summary = "The keys of a full command", SERVER},
	{"command|help", sl_resp_help, 2, .summary = "Lists the subcommands", SERVER},
	{"command|info", sl_resp_command_info, -2, .summary = "Describes commands", SERVER, ARGUMENTS(names)},
	{"command|list", sl_resp_command_list, -2, .summary = "The names of all commands", SERVER},
};

static const struct sl_resp_command config_commands[] = {
	{"config|get", sl_resp_config_get, -3, .summary = "Settings by name or pattern", SERVER, ARGUMENTS(patterns)},
	{"config|help", sl_resp_help, 2, .summary = "Lists the subcommands", SERVER},
};

#define OVERRIDES .group = "sluice", .roles = SL_ROLE_ADMIN
static const struct sl_resp_argument override_set_arguments[] = {
	{"limit", "string", NULL, false, false},
	{"key", "string", NULL, false, false},
	{"quota", "string", NULL, false, false},
	{"ttl-ms", "integer", NULL, true, false},
};
static const struct sl_resp_argument override_arguments[] = {
	{"limit", "string", NULL, false, false},
	{"key", "string", NULL, false, false},
};
static const struct sl_resp_argument override_list_arguments[] = {
	{"cursor", "integer", NULL, true, false},
	{"count", "integer", "COUNT", true, false},
};
static const struct sl_resp_command override_commands[] = {
	{"sluice.override|del", sl_resp_override_del, 4, .summary = "Forgets a key's own quota", .flags = "write",
     .categories = "@write @fast", OVERRIDES, ARGUMENTS(override_arguments)},
	{"sluice.override|get", sl_resp_override_get, 4, .summary = "A key's own quota, and when it ends",
     .flags = "readonly", .categories = "@read @fast", OVERRIDES, ARGUMENTS(override_arguments)},
	{"sluice.override|help", sl_resp_help, 2, .summary = "Lists the subcommands", .flags = "readonly",
     .categories = "@slow", OVERRIDES},
	{"sluice.override|list", sl_resp_override_list, -2, .summary = "Quotas of keys' own, some at a time",
     .flags = "readonly", .categories = "@read @slow", OVERRIDES, ARGUMENTS(override_list_arguments)},
	{"sluice.override|set", sl_resp_override_set, -5, .summary = "Gives a key of a limit another quota",
     .flags = "write denyoom", .categories = "@write @fast", OVERRIDES, ARGUMENTS(override_set_arguments)},
};

static const struct sl_resp_command commands[] = {
	{"sluice.check", sl_resp_decide, -4, true, .flags = "write denyoom fast movablekeys", LIMITER, KEYED(SL_OP_CHECK)},
	{"sluice.peek", sl_resp_decide, -4, true, .flags = "readonly fast movablekeys", .group = "sluice",
     .roles = SL_ROLE_CHECK | SL_ROLE_READ, .categories = "@read @fast", KEYED(SL_OP_PEEK)},
	{"sluice.refund", sl_resp_decide, -4, true, .flags = "write fast movablekeys", LIMITER, KEYED(SL_OP_REFUND)},
	{"sluice.reset", sl_resp_decide, -3, true, .flags = "write fast movablekeys", .group = "sluice",
     .roles = SL_ROLE_ADMIN, .categories = "@write @fast", KEYED(SL_OP_RESET)},
	{"sluice.acquire", sl_resp_hold, -4, true, .flags = "write denyoom fast movablekeys", LIMITER,
     KEYED(SL_OP_ACQUIRE)},
	{"sluice.release", sl_resp_end, -3, true, .flags = "write fast movablekeys", LIMITER, KEYED(SL_OP_RELEASE)},
	{"sluice.renew", sl_resp_end, -3, true, .flags = "write fast movablekeys", LIMITER, KEYED(SL_OP_RENEW)},
	{"sluice.holders", sl_resp_holders, -3, .flags = "readonly", .group = "sluice", .roles = SL_ROLE_READ,
     .categories = "@read @slow", KEYED(SL_OP_HOLDERS)},
	{"sluice.inspect", sl_resp_inspect, -3, .flags = "readonly movablekeys", .group = "sluice", .roles = SL_ROLE_READ,
     .categories = "@read @slow", KEYED(SL_OP_INSPECT)},
	{"sluice.reserve", sl_resp_hold, -5, true, .flags = "write denyoom fast movablekeys", LIMITER,
     KEYED(SL_OP_RESERVE)},
	{"sluice.commit", sl_resp_end, -4, true, .flags = "write fast", LIMITER, KEYED(SL_OP_COMMIT)},
	{"sluice.top", sl_resp_top, -1, .flags = "readonly", .group = "sluice", .roles = SL_ROLE_READ,
     .categories = "@read @slow", .summary = "The keys that are denied most, or nearest to their limits",
     ARGUMENTS(top_arguments)},
	{"sluice.tail", sl_resp_tail, -1, .flags = "readonly noscript", .group = "sluice", .roles = SL_ROLE_READ,
     .categories = "@read @slow", .summary = "Decisions as they happen, until RESET or QUIT",
     ARGUMENTS(tail_arguments)},
	{"sluice.reload", sl_resp_reload, 1, .flags = "admin", .group = "sluice", .roles = SL_ROLE_ADMIN,
     .categories = "@admin @slow @dangerous", .summary = "Reads the policy file again"},
	{"sluice.override", NULL, -2, .summary = "Quotas of keys' own, at run time", .flags = "write", .group = "sluice",
     .roles = SL_ROLE_ADMIN, .categories = "@write @slow", CHILDREN(override_commands)},
	{"sluice.admit", sl_resp_admit, -4, true, .flags = "write denyoom fast", LIMITER, GRAMMAR(SL_OP_ADMIT),
     ARGUMENTS(admit_arguments)},
	{"sluice.explain", sl_resp_explain, -4, .flags = "readonly", .group = "sluice", .categories = "@read @slow",
     .roles = SL_ROLE_CHECK | SL_ROLE_READ, GRAMMAR(SL_OP_EXPLAIN), ARGUMENTS(admit_arguments)},
	{"sluice.why", sl_resp_why, -4, .flags = "readonly", .group = "sluice", .categories = "@read @slow",
     .roles = SL_ROLE_READ, GRAMMAR(SL_OP_WHY), ARGUMENTS(admit_arguments)},
	{"sluice.rule", sl_resp_rule, -4, .flags = "readonly", .group = "sluice", .categories = "@read @slow",
     .roles = SL_ROLE_READ, ARGUMENTS(rule_arguments),
     .summary = "Which rule of envoyproxy/ratelimit's files a descriptor matches"},
	{"cl.throttle", sl_resp_throttle, -5, true, .flags = "write denyoom fast", LIMITER, KEYED(SL_OP_THROTTLE)},
	{"auth", sl_resp_auth, -2, .summary = "Logs in, by a user's name and secret or by a token alone", DOORSTEP,
     ARGUMENTS(auth_arguments)},
	{"client", NULL, -2, .summary = "About this connection", SESSION, CHILDREN(client_commands)},
	{"cluster", sl_resp_no_cluster, -2, .summary = "Answers that this is no cluster", SERVER},
	{"command", sl_resp_commands, -1, .summary = "Describes all commands", SERVER, CHILDREN(command_commands)},
	{"config", NULL, -2, .summary = "Settings", SERVER, CHILDREN(config_commands)},
	{"echo", sl_resp_echo, 2, .summary = "Answers with the message", SESSION, ARGUMENTS(message)},
	{"hello", sl_resp_hello, -1, .summary = "Chooses the protocol, 2 or 3, and describes the server", DOORSTEP},
	{"host:", sl_resp_drop, -1, .summary = "Closes the connection: this is HTTP", DOORSTEP},
	{"info", sl_resp_info, -1, .summary = "Figures about the server", SERVER, ARGUMENTS(sections)},
	{"ping", sl_resp_ping, -1, .summary = "Answers PONG, or with the message", SESSION, ARGUMENTS(some_message)},
	{"post", sl_resp_drop, -1, .summary = "Closes the connection: this is HTTP", DOORSTEP},
	{"quit", sl_resp_quit, -1, .summary = "Closes the connection", DOORSTEP},
	{"readonly", sl_resp_no_cluster, 1, .summary = "Answers that this is no cluster", SERVER},
	{"readwrite", sl_resp_no_cluster, 1, .summary = "Answers that this is no cluster", SERVER},
	{"reset", sl_resp_reset, 1, .summary = "Resets the connection to its first state", DOORSTEP},
	{"select", sl_resp_select, 2, .summary = "Accepts 0, the only database", SESSION, ARGUMENTS(index_argument)},
	{"time", sl_resp_time, 1, .summary = "The server's clock: seconds and microseconds", SESSION},
};

/* ---- finding ------------------------------------------------------------------------------------------------- */

enum { SLOTS = 256, NAME_BYTES_MAX = 16 };

/* A name as two words, and which of its bytes are letters: OR-ing the case bit into those alone makes both cases equal
 * and confuses no other byte. */
static struct slot {
	uint64_t head, tail, head_letters, tail_letters; /* the first and the last 8 bytes; they overlap in short names */
	uint8_t len;
	const struct sl_resp_command *command;
} slots[SLOTS];
static pthread_once_t slots_once = PTHREAD_ONCE_INIT;

static unsigned slot_of(const unsigned char *name, size_t len) {
	unsigned first = name[0] | 0x20u, middle = name[len / 2] | 0x20u, last = name[len - 1] | 0x20u;
	return ((unsigned)len * 37 + first * 5 + middle * 3 + last * 11) % SLOTS;
}

static void load(const void *name, size_t len, uint64_t *head, uint64_t *tail) {
	*head = *tail = 0;
	if (len >= 8) {
		memcpy(head, name, 8);
		memcpy(tail, (const char *)name + len - 8, 8);
	} else {
		memcpy(head, name, len);
	}
}

static void fill_slots(void) {
	for (size_t i = 0; i < COUNT(commands); i++) {
		const char *name = commands[i].name;
		unsigned char letters[NAME_BYTES_MAX] = {0};
		size_t len = strlen(name);
		unsigned at = slot_of((const unsigned char *)name, len);
		while (slots[at].command != NULL)
			at = (at + 1) % SLOTS;
		for (size_t j = 0; j < len; j++)
			letters[j] = name[j] >= 'a' && name[j] <= 'z' ? 0x20 : 0;
		load(name, len, &slots[at].head, &slots[at].tail);
		load(letters, len, &slots[at].head_letters, &slots[at].tail_letters);
		slots[at].len = (uint8_t)len;
		slots[at].command = &commands[i];
	}
}

const struct sl_resp_command *sl_resp_command_find(struct sluice_bytes name) {
	uint64_t head, tail;
	pthread_once(&slots_once, fill_slots);
	if (name.len == 0 || name.len > NAME_BYTES_MAX)
		return NULL;
	load(name.data, name.len, &head, &tail);
	for (unsigned at = slot_of(name.data, name.len); slots[at].command != NULL; at = (at + 1) % SLOTS)
		if (slots[at].len == name.len && (head | slots[at].head_letters) == slots[at].head &&
		    (tail | slots[at].tail_letters) == slots[at].tail)
			return slots[at].command;
	return NULL;
}

const struct sl_resp_command *sl_resp_command_child(const struct sl_resp_command *command, struct sluice_bytes name) {
	for (uint8_t i = 0; i < command->child_count; i++)
		if (sl_bytes_equal_nocase(name, strchr(command->children[i].name, '|') + 1))
			return &command->children[i];
	return NULL;
}

bool sl_resp_command_takes(const struct sl_resp_command *command, uint32_t count) {
	return command->arity >= 0 ? count == (uint32_t)command->arity : count >= (uint32_t)-command->arity;
}

/* By "name", or by "name|child". */
static const struct sl_resp_command *find_full(struct sluice_bytes name) {
	const char *bar = name.len == 0 ? NULL : memchr(name.data, '|', name.len);
	if (bar == NULL)
		return sl_resp_command_find(name);
	size_t before = (size_t)(bar - (const char *)name.data);
	const struct sl_resp_command *parent = sl_resp_command_find(sl_slice(name.data, before));
	return parent == NULL ? NULL : sl_resp_command_child(parent, sl_slice(bar + 1, name.len - before - 1));
}

/* ---- COMMAND ------------------------------------------------------------------------------------------------- */

/* Ten elements, as Redis 7 tells of a command: no tips, no key specifications. */
static void describe(struct sl_resp_turn *turn, const struct sl_resp_command *command) {
	sl_reply_array(turn, 10);
	sl_reply_text(turn, command->name);
	sl_reply_integer(turn, command->arity);
	sl_reply_words(turn, command->flags, false);
	sl_reply_integer(turn, command->first_key);
	sl_reply_integer(turn, command->last_key);
	sl_reply_integer(turn, command->key_step);
	sl_reply_words(turn, command->categories, false);
	sl_reply_array(turn, 0);
	sl_reply_array(turn, 0);
	sl_reply_array(turn, command->child_count);
	for (uint8_t i = 0; i < command->child_count; i++)
		describe(turn, &command->children[i]);
}

void sl_resp_commands(struct sl_resp_turn *turn) {
	sl_reply_array(turn, COUNT(commands));
	for (size_t i = 0; i < COUNT(commands); i++)
		describe(turn, &commands[i]);
}

void sl_resp_command_count(struct sl_resp_turn *turn) {
	sl_reply_integer(turn, COUNT(commands));
}

void sl_resp_command_info(struct sl_resp_turn *turn) {
	if (turn->request->count == 2) {
		sl_resp_commands(turn);
		return;
	}
	sl_reply_array(turn, turn->request->count - 2);
	for (uint32_t i = 2; i < turn->request->count; i++) {
		const struct sl_resp_command *command = find_full(sl_resp_arg(turn, i));
		if (command == NULL)
			sl_reply_null(turn);
		else
			describe(turn, command);
	}
}

void sl_resp_command_list(struct sl_resp_turn *turn) {
	if (turn->request->count != 2) {
		sl_reply_error(turn, "ERR syntax error");
		return;
	}
	sl_reply_array(turn, COUNT(commands));
	for (size_t i = 0; i < COUNT(commands); i++)
		sl_reply_text(turn, commands[i].name);
}

static void document_argument(struct sl_resp_turn *turn, const struct sl_resp_argument *argument) {
	bool flags = argument->optional || argument->multiple;
	sl_reply_map(turn, 2 + (argument->token != NULL) + flags);
	sl_reply_text(turn, "name");
	sl_reply_text(turn, argument->name);
	sl_reply_text(turn, "type");
	sl_reply_text(turn, argument->type);
	if (argument->token != NULL) {
		sl_reply_text(turn, "token");
		sl_reply_text(turn, argument->token);
	}
	if (flags) {
		sl_reply_text(turn, "flags");
		sl_reply_words(turn,
		               !argument->multiple   ? "optional"
		               : !argument->optional ? "multiple"
		                                     : "optional multiple",
		               false);
	}
}

/* Of those of the grammar its arguments come first. */
static uint32_t arguments_of(const struct sl_resp_command *command, struct sl_resp_argument *list) {
	static const char *const types[] = {
		[SL_ARGUMENT_KEY] = "key",          [SL_ARGUMENT_STRING] = "string",    [SL_ARGUMENT_INTEGER] = "integer",
		[SL_ARGUMENT_INSTANT] = "integer", [SL_ARGUMENT_TOKEN] = "pure-token",
	};
	struct sl_argument told[SL_ARGUMENTS_MAX];
	uint32_t count = command->form == NULL ? 0 : sl_command_arguments(command->operation, false, told);
	for (uint32_t i = 0; i < count; i++)
		list[i] = (struct sl_resp_argument){told[i].name, types[told[i].type], told[i].token, told[i].optional,
		                                    told[i].multiple};
	for (uint32_t i = 0; i < command->argument_count; i++)
		list[count++] = command->arguments[i];
	return count;
}

static void document(struct sl_resp_turn *turn, const struct sl_resp_command *command) {
	struct sl_resp_argument arguments[SL_ARGUMENTS_MAX + 8];
	uint32_t count = arguments_of(command, arguments);
	sl_reply_text(turn, command->name);
	sl_reply_map(turn, 3 + (count != 0) + (command->child_count != 0));
	sl_reply_text(turn, "summary");
	sl_reply_text(turn, command->form != NULL ? command->form->summary : command->summary);
	sl_reply_text(turn, "since");
	sl_reply_text(turn, "0.1.0");
	sl_reply_text(turn, "group");
	sl_reply_text(turn, command->group);
	if (count != 0) {
		sl_reply_text(turn, "arguments");
		sl_reply_array(turn, count);
		for (uint32_t i = 0; i < count; i++)
			document_argument(turn, &arguments[i]);
	}
	if (command->child_count != 0) {
		sl_reply_text(turn, "subcommands");
		sl_reply_map(turn, command->child_count);
		for (uint8_t i = 0; i < command->child_count; i++)
			document(turn, &command->children[i]);
	}
}

void sl_resp_command_docs(struct sl_resp_turn *turn) {
	size_t found = 0;
	if (turn->request->count == 2) {
		sl_reply_map(turn, COUNT(commands));
		for (size_t i = 0; i < COUNT(commands); i++)
			document(turn, &commands[i]);
		return;
	}
	for (uint32_t i = 2; i < turn->request->count; i++)
		found += find_full(sl_resp_arg(turn, i)) != NULL;
	sl_reply_map(turn, found);
	for (uint32_t i = 2; i < turn->request->count; i++)
		if (find_full(sl_resp_arg(turn, i)) != NULL)
			document(turn, find_full(sl_resp_arg(turn, i)));
}

/* The key after the name, and those after the word KEY. */
void sl_resp_command_getkeys(struct sl_resp_turn *turn) {
	const struct sl_resp_request *request = turn->request;
	const struct sl_resp_command *command = sl_resp_command_find(sl_resp_arg(turn, 2));
	uint16_t keys[SL_RESP_ARGS_MAX] = {1};
	uint32_t count = 1;
	if (command == NULL) {
		sl_reply_error(turn, "ERR Invalid command specified");
		return;
	}
	if (!sl_resp_command_takes(command, request->count - 2)) {
		sl_reply_error(turn, "ERR Invalid number of arguments specified for command");
		return;
	}
	if (command->first_key == 0) {
		sl_reply_error(turn, "ERR The command has no key arguments");
		return;
	}
	if (command->form != NULL)
		count = sl_command_keys(command->operation, request->args + 2, request->count - 2, keys);
	sl_reply_array(turn, count);
	for (uint32_t i = 0; i < count; i++)
		sl_reply_bulk(turn, request->args[2 + keys[i]]);
}

/* CLIENT HELP, COMMAND HELP, CONFIG HELP: from the same table. */
void sl_resp_help(struct sl_resp_turn *turn) {
	const struct sl_resp_command *command = sl_resp_command_find(sl_resp_arg(turn, 0));
	char line[160];
	sl_reply_array(turn, command->child_count + 1u);
	snprintf(line, sizeof line, "%s <subcommand> [<arg> ...]. Subcommands are:", command->name);
	sl_reply_status(turn, line);
	for (uint8_t i = 0; i < command->child_count; i++) {
		snprintf(line, sizeof line, "%s: %s", strchr(command->children[i].name, '|') + 1, command->children[i].summary);
		sl_reply_status(turn, line);
	}
}
