/* What the commands consist of, as tables: whoever adds a word writes one line here, one where it is read (command.c),
 * and what comes of it in the answer (answer.c). */
#include "proto/command.h"

#define TTL_MS_MAX (UINT64_C(3660) * 86400 * 1000)

#define NAMED(text) .name = text, .len = sizeof text - 1
/* Stands in front of a limit, so once for each of them. */
#define AHEAD .ahead = true, .repeats = true

const struct sl_meaning sl_words[SL_WORDS] = {
	[SL_WORD_KEY] = {NAMED("KEY"), .member = "key", .argument = "other-key limit", .takes = 1, .follow = 1,
                     .needs = "a key and at least one limit", .repeats = true},
	[SL_WORD_AT] = {NAMED("AT"), .member = "at", .argument = "unix-ms", .takes = 1, .follow = 1,
                    .needs = "an instant", .more = ": Unix milliseconds", .first = true, .most = SL_AT_MS_MAX,
                    .unit = "Unix milliseconds, "},
	[SL_WORD_MEMBER] = {NAMED("MEMBER"), .member = "member", .argument = "member", .takes = 1, .follow = 1,
                        .needs = "a member", .more = ": a member that distinct counts", .repeats = true},
	[SL_WORD_ID] = {NAMED("ID"), .member = "id", .argument = "token", .takes = 1, .follow = 1, .needs = "a token"},
	[SL_WORD_UPTO] = {NAMED("UPTO"), .member = "upto", .argument = "upto"},
	[SL_WORD_NEXT] = {NAMED("NEXT"), .member = "next", .argument = "next",
                      .against = SL_SAYS(EACH) | SL_SAYS(EXACT)},
	[SL_WORD_OPEN] = {NAMED("OPEN"), .argument = "open"},
	[SL_WORD_EACH] = {NAMED("EACH"), .argument = "each", .against = SL_SAYS(NEXT)},
	[SL_WORD_EXACT] = {NAMED("EXACT"), .argument = "exact", .against = SL_SAYS(NEXT)},
	[SL_WORD_KEEP] = {NAMED("KEEP"), .argument = "keep"},
	[SL_WORD_BESIDE] = {NAMED("BESIDE"), .argument = "hold-id", .takes = 1, .follow = 2,
                        .needs = "an id and a limit"},
	[SL_WORD_NAME] = {NAMED("NAME"), .argument = "name", .takes = 1, .follow = 2, .needs = "a name and a limit", AHEAD},
	[SL_WORD_OBSERVED] = {NAMED("OBSERVED"), .argument = "observed", .follow = 1, .needs = "a limit", AHEAD},
	[SL_WORD_TRIED] = {NAMED("TRIED"), .argument = "tried", .follow = 1, .needs = "a limit", AHEAD},
	[SL_WORD_TERMS] = {NAMED("TERMS"), .argument = "terms", .takes = 1, .follow = 2,
                       .needs = "the terms and a limit", AHEAD},
	[SL_WORD_COST] = {NAMED("COST"), .argument = "own-cost", .takes = 1, .follow = 2, .needs = "a cost and a limit",
                      .least = 1, .most = UINT32_MAX, AHEAD},
	[SL_WORD_TTL] = {NAMED("TTL"), .argument = "own-ttl-ms", .takes = 1, .follow = 2,
                     .needs = "milliseconds and a limit", .least = 1, .most = TTL_MS_MAX, AHEAD},
};

const struct sl_meaning sl_fields[SL_FIELDS] = {
	[SL_FIELD_COST] = {NAMED("cost"), .member = "cost", .argument = "cost", .most = UINT32_MAX},
	[SL_FIELD_ACTUAL] = {NAMED("actual"), .member = "actual", .argument = "actual", .most = UINT32_MAX},
	[SL_FIELD_TTL] = {NAMED("ttl_ms"), .member = "ttl_ms", .argument = "ttl-ms", .least = 1, .most = TTL_MS_MAX,
                       .is_ms = true},
	[SL_FIELD_HOLD_TTL] = {NAMED("ttl_ms"), .argument = "ttl-ms", .least = 1, .most = SL_HOLD_MS_MAX},
	[SL_FIELD_SPENT] = {NAMED("spent"), .argument = "spent", .most = UINT32_MAX},
	[SL_FIELD_WANT] = {NAMED("want"), .argument = "want", .most = UINT32_MAX},
	[SL_FIELD_HOLD] = {NAMED("id"), .argument = "id"},
	[SL_FIELD_LEASE] = {NAMED("id"), .member = "id", .argument = "id|ticket"},
	[SL_FIELD_TICKET] = {NAMED("ticket"), .member = "id", .argument = "ticket"},
	[SL_FIELD_MAX_BURST] = {NAMED("max_burst"), .argument = "max_burst", .most = UINT32_MAX - 1},
	[SL_FIELD_COUNT] = {NAMED("count"), .argument = "count", .least = 1, .most = UINT32_MAX},
	[SL_FIELD_PERIOD] = {NAMED("period"), .argument = "period", .least = 1, .most = 3660 * 86400},
	[SL_FIELD_QUANTITY] = {NAMED("quantity"), .argument = "quantity", .most = UINT32_MAX},
};

enum {
	COMMON = SL_SAYS(KEY) | SL_SAYS(AT),
	ITS_OWN = SL_SAYS(NAME) | SL_SAYS(OBSERVED) | SL_SAYS(TRIED),
	TOLD = SL_SAYS(NEXT) | SL_SAYS(EACH),
	HELD = SL_SAYS(EACH) | SL_SAYS(EXACT),
	OWN = SL_SAYS(TERMS) | SL_SAYS(COST) | SL_SAYS(TTL),
};

#define FIELDS(...)                                         \
	.fields = {__VA_ARGS__}, .field_count = sizeof((uint8_t[]){__VA_ARGS__})

/* One a command. KEY and AT may stand in all that have limits. */
const struct sl_form sl_forms[SL_OPERATIONS] = {
	[SL_OP_CHECK] = {"CHECK", "Decides a request against limits, and charges it if all admit", FIELDS(SL_FIELD_COST),
                     .costs = true, .limits = true, .members = true,
                     .words = COMMON | SL_SAYS(MEMBER) | SL_SAYS(UPTO) | TOLD | SL_SAYS(ID),
                     .fronts = ITS_OWN | SL_SAYS(EXACT) | OWN},
	[SL_OP_PEEK] = {"PEEK", "Decides a request against limits, charging nothing", FIELDS(SL_FIELD_COST), .costs = true,
                    .limits = true, .leases = true, .words = COMMON | SL_SAYS(MEMBER) | SL_SAYS(UPTO) | TOLD,
                    .fronts = ITS_OWN | SL_SAYS(EXACT) | OWN | SL_SAYS(BESIDE)},
	[SL_OP_REFUND] = {"REFUND", "Gives cost back, the newest charges first", FIELDS(SL_FIELD_COST), .costs = true,
                      .limits = true, .members = true, .words = COMMON | SL_SAYS(MEMBER) | TOLD,
                      .fronts = ITS_OWN | SL_SAYS(EXACT) | OWN},
	[SL_OP_RESET] = {"RESET", "Forgets the counters of a key", .limits = true, .leases = true, .words = COMMON,
                     .fronts = ITS_OWN | SL_SAYS(TERMS)},
	[SL_OP_ACQUIRE] = {"ACQUIRE", "Takes a lease if all limits admit, and answers its id", FIELDS(SL_FIELD_COST),
                       .costs = true, .limits = true, .leases = true, .members = true,
                       .words = COMMON | SL_SAYS(MEMBER) | TOLD | SL_SAYS(ID),
                       .fronts = ITS_OWN | SL_SAYS(EXACT) | OWN | SL_SAYS(UPTO)},
	[SL_OP_RELEASE] = {"RELEASE", "Ends a lease", FIELDS(SL_FIELD_LEASE), .leases = true, .words = COMMON,
                       .fronts = ITS_OWN | OWN},
	[SL_OP_RENEW] = {"RENEW", "Renews a lease: its whole time starts again", FIELDS(SL_FIELD_LEASE),
                     .leases = true, .words = COMMON, .fronts = ITS_OWN | OWN},
	[SL_OP_RESERVE] = {"RESERVE", "Charges an estimate until the true cost is known, and answers its ticket",
                       FIELDS(SL_FIELD_COST, SL_FIELD_TTL), .limits = true, .members = true,
                       .words = COMMON | TOLD | SL_SAYS(ID),
                       .fronts = ITS_OWN | SL_SAYS(EXACT) | OWN | SL_SAYS(MEMBER) | SL_SAYS(UPTO)},
	[SL_OP_COMMIT] = {"COMMIT", "Corrects a reservation to the true cost", FIELDS(SL_FIELD_TICKET, SL_FIELD_ACTUAL),
                      .words = SL_SAYS(AT) | TOLD, .fronts = SL_SAYS(EXACT)},
	[SL_OP_HOLD] = {"HOLD", "Decides a request and holds its cost until it is confirmed, cancelled or its time is over",
                    FIELDS(SL_FIELD_COST, SL_FIELD_HOLD, SL_FIELD_HOLD_TTL), .limits = true, .members = true,
                    .words = COMMON, .fronts = ITS_OWN | HELD | SL_SAYS(UPTO)},
	[SL_OP_CONFIRM] = {"CONFIRM", "Turns a hold into a charge", FIELDS(SL_FIELD_COST, SL_FIELD_HOLD), .limits = true,
                       .words = COMMON, .fronts = ITS_OWN | HELD | SL_SAYS(KEEP)},
	[SL_OP_CANCEL] = {"CANCEL", "Drops a hold", FIELDS(SL_FIELD_HOLD), .limits = true, .words = COMMON,
                      .fronts = ITS_OWN},
	[SL_OP_LEASE] = {"LEASE", "Settles a front end's slice of a counter and takes the next",
                     FIELDS(SL_FIELD_HOLD, SL_FIELD_HOLD_TTL, SL_FIELD_SPENT, SL_FIELD_WANT), .limits = true,
                     .words = COMMON, .fronts = ITS_OWN},
	[SL_OP_HOLDERS] = {"HOLDERS", "Lists leases in the order in which they end", .limits = true, .leases = true,
                       .words = COMMON, .fronts = ITS_OWN},
	[SL_OP_INSPECT] = {"INSPECT", "What counters hold, and when units of their quotas return", .limits = true,
                       .leases = true, .words = COMMON,
                       .fronts = ITS_OWN | SL_SAYS(TERMS) | SL_SAYS(COST) | SL_SAYS(MEMBER) | SL_SAYS(EACH)},
	[SL_OP_ADMIT] = {"ADMIT", "Decides a request by its attributes, as the policy says", FIELDS(SL_FIELD_COST),
                     .costs = true, .leases = true,
                     .words = SL_SAYS(UPTO) | TOLD | SL_SAYS(OPEN) | SL_SAYS(ID) | SL_SAYS(MEMBER)},
	[SL_OP_THROTTLE] = {"CL.THROTTLE", "A token bucket with the arguments and the answer of redis-cell",
                        FIELDS(SL_FIELD_MAX_BURST, SL_FIELD_COUNT, SL_FIELD_PERIOD, SL_FIELD_QUANTITY)},
	[SL_OP_EXPLAIN] = {"EXPLAIN", "What each limit of the policy says of a request, charging nothing",
                       FIELDS(SL_FIELD_COST), .costs = true},
	[SL_OP_WHY] = {"WHY", "Why each limit of the policy counts for a request or not, and what its counter holds",
                   FIELDS(SL_FIELD_COST), .costs = true},
};

/* ---- for COMMAND DOCS -------------------------------------------------------------------------------------------- */

static struct sl_argument argument_of(const struct sl_meaning *meaning) {
	return (struct sl_argument){
		.name = meaning->argument,
		.type = meaning->unit != NULL    ? SL_ARGUMENT_INSTANT
		        : meaning->most != 0     ? SL_ARGUMENT_INTEGER
		                                 : SL_ARGUMENT_STRING,
	};
}

static struct sl_argument word_argument(enum sl_command_word word) {
	const struct sl_meaning *meaning = &sl_words[word];
	struct sl_argument argument = argument_of(meaning);
	argument.token = meaning->name;
	argument.optional = true;
	argument.multiple = meaning->repeats;
	argument.ahead = meaning->ahead;
	if (meaning->takes == 0)
		argument.type = SL_ARGUMENT_TOKEN;
	return argument;
}

uint32_t sl_command_arguments(enum sl_operation operation, bool fronts, struct sl_argument list[SL_ARGUMENTS_MAX]) {
	const struct sl_form *form = &sl_forms[operation];
	uint32_t said = form->words | (fronts ? form->fronts : 0), count = 0;
	if (!sl_operation_is(operation, SL_OPS_OF_REQUESTS))
		list[count++] = (struct sl_argument){.name = "key", .type = SL_ARGUMENT_KEY};
	for (uint32_t i = 0; i < form->field_count; i++) {
		list[count] = argument_of(&sl_fields[form->fields[i]]);
		list[count++].optional = form->fields[i] == SL_FIELD_QUANTITY;
	}
	for (unsigned word = SL_WORD_KEY + 1; word < SL_WORDS; word++)
		if ((said & 1u << word) != 0)
			list[count++] = word_argument(word);
	if ((said & SL_SAYS(KEY)) == 0)
		return count;
	list[count++] = (struct sl_argument){.name = "limit",
	                                     .type = SL_ARGUMENT_STRING,
	                                     .optional = !form->limits,
	                                     .multiple = operation != SL_OP_HOLDERS && operation != SL_OP_LEASE};
	if (operation != SL_OP_HOLDERS && operation != SL_OP_LEASE)
		list[count++] = word_argument(SL_WORD_KEY);
	return count;
}
