/* What failed, as programs tell it apart. A text of the grammar is told by how it begins: the grammar is one, so a
 * server's error and one of this process are the same kind. */
#include "bindings/common/inside.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const names[SL_FAILURES] = {
	[SL_FAILED_LIMIT] = "bad-limit", [SL_FAILED_KEY] = "bad-key",         [SL_FAILED_ARGUMENT] = "bad-argument",
	[SL_FAILED_UNKNOWN] = "not-found", [SL_FAILED_BUSY] = "busy",         [SL_FAILED_FULL] = "full",
	[SL_FAILED_STORE] = "bad-store", [SL_FAILED_SYSTEM] = "system",       [SL_FAILED_POLICY] = "bad-policy",
	[SL_FAILED_ACCESS] = "no-access", [SL_FAILED_AWAY] = "away",          [SL_FAILED_PROTOCOL] = "protocol",
};

const char *sl_failure_name(enum sl_failure_kind kind) {
	return names[kind];
}

/* How texts begin, the longer first; what begins otherwise is about an argument. */
static const struct {
	const char *text;
	enum sl_failure_kind kind;
} beginnings[] = {
	{"limit ", SL_FAILED_LIMIT},
	{"no limit ", SL_FAILED_LIMIT},
	{"too many limits", SL_FAILED_LIMIT},
	{"expected one limit ", SL_FAILED_LIMIT},
	{"the key ", SL_FAILED_KEY},
	{"NOTFOUND ", SL_FAILED_UNKNOWN},
	{"a process that shares the store was stopped", SL_FAILED_BUSY},
	{"the store did not answer in time", SL_FAILED_AWAY},
	{"NOAUTH ", SL_FAILED_ACCESS},
	{"NOPERM ", SL_FAILED_ACCESS},
	{"WRONGPASS ", SL_FAILED_ACCESS},
	{"DENIED ", SL_FAILED_ACCESS},
	{"LOADING ", SL_FAILED_AWAY},
	{"BUSY ", SL_FAILED_AWAY},
	{"CLUSTERDOWN ", SL_FAILED_AWAY},
	{"MASTERDOWN ", SL_FAILED_AWAY},
	{"TRYAGAIN ", SL_FAILED_AWAY},
	{"READONLY ", SL_FAILED_AWAY},
	{"OOM ", SL_FAILED_AWAY},
	{"max number of clients reached", SL_FAILED_AWAY},
};

static bool begins(struct sluice_bytes text, const char *with) {
	size_t len = strlen(with);
	return text.len >= len && memcmp(text.data, with, len) == 0;
}

enum sl_failure_kind sl_failure_kind_of(struct sluice_bytes text) {
	if (begins(text, "ERR "))
		text = sl_slice((const char *)text.data + 4, text.len - 4);
	for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
		if (begins(text, beginnings[i].text))
			return beginnings[i].kind;
	return SL_FAILED_ARGUMENT;
}

bool sl_fail(struct sl_failure *failure, enum sl_failure_kind kind, const char *format, ...) {
	va_list arguments;
	failure->kind = kind;
	failure->again = false;
	va_start(arguments, format);
	(void)vsnprintf(failure->text, sizeof failure->text, format, arguments);
	va_end(arguments);
	return false;
}
