/* top: the keys that a running server denies most, that are nearest to their limits, or that it would deny: a view that
 * is drawn anew every second, or, with --once or where standard output is no terminal, one list.
 *
 * Keys are an attacker's bytes: what is not printable ASCII is shown as \xNN, so that none of it reaches the
 * terminal. */
#include "hosts/cli/cli.h"
#include "base/assert.h"
#include "base/out.h"
#include "hosts/cli/client.h"
#include "hosts/cli/interrupt.h"
#include "os/clock.h"
#include "os/file.h"
#include "proto/own_quota.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { COUNT_DEFAULT = 20, COUNT_MAX = 100, INFO_MAX = 4096, WIDTH_DEFAULT = 100, ROWS_TAKEN = 4 };

struct entry {
	char limit[SLUICE_LIMIT_TEXT_MAX], key[SLUICE_KEY_BYTES_MAX];
	size_t limit_len, key_len;
	int64_t count, error, last_ms;
	char own[SLUICE_LIMIT_TEXT_MAX]; /* the quota of the key's own */
	size_t own_len;                  /* 0: it has none */
	int64_t own_ends_ms;
};

/* What the server said. */
struct view {
	struct entry entries[COUNT_MAX];
	int count;
	uint64_t now_ms, allowed, denied; /* totals */
	uint64_t asked_ns, before_ns;     /* when this and the one before were asked for; 0: never */
	uint64_t allowed_before, denied_before;
};

/* What can be listed. */
static const struct kind {
	const char *word, *title, *none;
	char key; /* that shows it, in a live view */
} kinds[] = {
	{"DENIED", "keys denied most", "no key has been denied lately", 'd'},
	{"NEAR", "keys near their limits", "no key has been near a limit lately", 'n'},
	{"SHADOW", "keys that observed limits would deny", "no observed limit would have denied a key lately", 's'},
	{"CANDIDATE", "keys that candidates would deny", "no candidate would have denied a key lately", 'c'},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct top {
	struct sl_client_options server;
	struct sl_client client;
	struct view view;
	bool near, shadow, candidate, once;
	const struct kind *kind;
	uint32_t count; /* 0: what fits */
};
#define TO(field) offsetof(struct top, field)

static const struct sl_option options[] = {
	SL_CLIENT_OPTIONS(TO(server)),
	{"near", 0, NULL, "keys near a limit, instead of keys denied", SL_FLAG(TO(near))},
	{"shadow", 0, NULL, "keys that observed limits would deny", SL_FLAG(TO(shadow))},
	{"candidate", 0, NULL, "keys that candidates would deny", SL_FLAG(TO(candidate))},
	{"once", 0, NULL, "print one list and exit", SL_FLAG(TO(once))},
	{"count", 'n', "N", "number of keys, 1..100 (20; in a terminal, what fits)", SL_NUMBER(TO(count), 1, COUNT_MAX)},
};

/* ---- asking ------------------------------------------------------------------------------------------------------ */

/* The quota of a key's own, by names and values. */
static bool read_own(struct sl_client *client, struct entry *entry, struct sluice_error *error) {
	char name[sizeof SL_OWN_QUOTA + sizeof SL_OWN_ENDS];
	size_t len;
	return sl_client_string(client, name, sizeof name, &len, error) &&
	       sl_client_string(client, entry->own, sizeof entry->own, &entry->own_len, error) &&
	       sl_client_string(client, name, sizeof name, &len, error) &&
	       sl_client_integer(client, ':', &entry->own_ends_ms, error);
}

static bool read_entry(struct sl_client *client, struct entry *entry, struct sluice_error *error) {
	const int64_t plain = 5, with_own = plain + 2 * SL_OWN_QUOTA_NAMES;
	int64_t members;
	entry->own_len = 0;
	if (!sl_client_integer(client, '*', &members, error))
		return false;
	if (members != plain && members != with_own) {
		snprintf(error->text, sizeof error->text, "expected %" PRId64 " or %" PRId64 " members of a key, got %" PRId64,
		         plain, with_own, members);
		return false;
	}
	return sl_client_string(client, entry->limit, sizeof entry->limit, &entry->limit_len, error) &&
	       sl_client_string(client, entry->key, sizeof entry->key, &entry->key_len, error) &&
	       sl_client_integer(client, ':', &entry->count, error) &&
	       sl_client_integer(client, ':', &entry->error, error) &&
	       sl_client_integer(client, ':', &entry->last_ms, error) &&
	       (members == plain || read_own(client, entry, error));
}

static bool ask_keys(struct top *top, int want, struct sluice_error *error) {
	char number[8];
	snprintf(number, sizeof number, "%d", want);
	const struct sluice_bytes words[] = {sl_str("SLUICE.TOP"), sl_str(top->kind->word), sl_str("COUNT"),
	                                     sl_str(number)};
	int64_t count;
	if (!sl_client_send(&top->client, words, 4, error) || !sl_client_integer(&top->client, '*', &count, error))
		return false;
	if (count < 0 || count > want) {
		snprintf(error->text, sizeof error->text, "asked for %d keys, the server sent %" PRId64, want, count);
		return false;
	}
	for (top->view.count = 0; top->view.count < count; top->view.count++)
		if (!read_entry(&top->client, &top->view.entries[top->view.count], error))
			return false;
	return true;
}

/* A figure of INFO; 0 where it is not told. */
static uint64_t figure(const char *info, const char *name) {
	const char *at = strstr(info, name);
	return at == NULL ? 0 : strtoull(at + strlen(name), NULL, 10);
}

static bool ask_figures(struct top *top, struct sluice_error *error) {
	const struct sluice_bytes words[] = {sl_str("INFO"), sl_str("server"), sl_str("sluice")};
	struct view *view = &top->view;
	char info[INFO_MAX + 1];
	size_t len;
	if (!sl_client_send(&top->client, words, 3, error) || !sl_client_string(&top->client, info, INFO_MAX, &len, error))
		return false;
	info[len] = '\0';
	view->before_ns = view->asked_ns;
	view->allowed_before = view->allowed;
	view->denied_before = view->denied;
	view->asked_ns = sl_clock_monotonic();
	view->now_ms = figure(info, "server_time_usec:") / 1000;
	view->allowed = figure(info, "sluice_requests_allowed:");
	view->denied = figure(info, "sluice_requests_denied:");
	return true;
}

/* ---- drawing: lines of at most `width` columns, each ended by `end` ---------------------------------------------- */

enum {
	LIMIT_ROOM = 4 * SLUICE_LIMIT_TEXT_MAX + 8, /* shown: 4 bytes each at most */
	KEY_ROOM = 4 * SLUICE_KEY_BYTES_MAX + 8,
	OWN_ROOM = LIMIT_ROOM + 128,
	LINE_ROOM = KEY_ROOM + LIMIT_ROOM + OWN_ROOM + 128,
};

struct page {
	struct sl_out out;
	int width;
	const char *end;
	char text[(COUNT_MAX + ROWS_TAKEN + 1) * LINE_ROOM]; /* for the longest lines */
};

static void put_line(struct page *page, const char *text) {
	size_t len = strlen(text);
	sl_out_bytes(&page->out, text, len < (size_t)page->width ? len : (size_t)page->width);
	sl_out_str(&page->out, page->end);
	SL_ASSERT(!page->out.overflow);
}

/* Printable ASCII as it is, all else as \xNN. NUL-ended in the room, which has to do for 4 bytes each and 4 more. */
static const char *clean(char *text, size_t room, const char *data, size_t len) {
	struct sl_out out = sl_out_to(text, room);
	sl_out_quoted(&out, sl_slice(data, len), len);
	out.at[-1] = '\0';
	return text + 1;
}

/* "  own quota 6000/1m, ends in 3 d". "" where the key has none. */
static const char *own_of(char *text, size_t room, const struct entry *entry) {
	char quota[LIMIT_ROOM], wait[SL_WAIT_TEXT_MAX] = "";
	text[0] = '\0';
	if (entry->own_len == 0)
		return text;
	if (entry->own_ends_ms >= 0)
		sl_cli_wait(wait, entry->own_ends_ms);
	snprintf(text, room, "  (own quota %s%s%s)", clean(quota, sizeof quota, entry->own, entry->own_len),
	         wait[0] != '\0' ? ", ends in " : "", wait);
	return text;
}

static void put_entry(struct page *page, const struct entry *entry, uint64_t now_ms) {
	char key[KEY_ROOM], limit[LIMIT_ROOM], age[SL_WAIT_TEXT_MAX], own[OWN_ROOM], line[LINE_ROOM];
	int64_t passed_ms = (int64_t)now_ms - entry->last_ms;
	sl_cli_wait(age, passed_ms < 0 ? 0 : passed_ms / 1000 * 1000);
	snprintf(line, sizeof line, "%10" PRId64 "  %7" PRId64 "  %9s  %-24s  %s%s", entry->count, entry->error,
	         passed_ms < 1000 ? "now" : age, clean(limit, sizeof limit, entry->limit, entry->limit_len),
	         clean(key, sizeof key, entry->key, entry->key_len), own_of(own, sizeof own, entry));
	put_line(page, line);
}

static void put_head(struct page *page, const struct top *top) {
	const struct view *view = &top->view;
	char line[512];
	int len = snprintf(line, sizeof line, "%s  %.200s", top->kind->title,
	                   top->server.server != NULL ? top->server.server : SL_CLI_SERVER);
	if (view->before_ns != 0 && view->asked_ns > view->before_ns) {
		double seconds = (double)(view->asked_ns - view->before_ns) / 1e9;
		snprintf(line + len, sizeof line - (size_t)len, "  allowed %.0f/s  denied %.0f/s",
		         (double)(view->allowed - view->allowed_before) / seconds,
		         (double)(view->denied - view->denied_before) / seconds);
	}
	put_line(page, line);
	put_line(page, "");
}

static void put_list(struct page *page, const struct top *top) {
	put_line(page, "     count    error       last  limit                     key");
	for (int i = 0; i < top->view.count; i++)
		put_entry(page, &top->view.entries[i], top->view.now_ms);
	if (top->view.count == 0)
		put_line(page, top->kind->none);
}

/* ---- the terminal ------------------------------------------------------------------------------------------------ */

/* Ends a wait, so that the view is drawn for the new size. */
static void on_new_size(int number) {
	(void)number;
}

static bool write_text(const char *text) {
	return sl_file_write(STDOUT_FILENO, text, strlen(text)) == strlen(text);
}

static void size_of_terminal(int *rows, int *columns) {
	struct winsize size;
	bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
	*rows = known ? size.ws_row : COUNT_DEFAULT + ROWS_TAKEN;
	*columns = known ? size.ws_col : WIDTH_DEFAULT;
}

/* Waits a second, or until a key, a signal or a new size. False when it is to end. */
static bool wait_for_key(struct top *top) {
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	char key;
	if (sl_interrupt_poll(&in, 1, 1000) == 1) {
		if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 3)
			return false;
		for (int i = 0; i < KINDS; i++)
			if (key == kinds[i].key)
				top->kind = &kinds[i];
	}
	return !sl_interrupted();
}

static bool draw(struct top *top, struct page *page, struct sluice_error *error) {
	int rows, columns;
	size_of_terminal(&rows, &columns);
	int fit = rows > ROWS_TAKEN ? rows - ROWS_TAKEN : 1;
	int want = top->count != 0 && (int)top->count < fit ? (int)top->count : fit;
	if (!ask_keys(top, want < COUNT_MAX ? want : COUNT_MAX, error) || !ask_figures(top, error))
		return false;
	page->out = sl_out_to(page->text, sizeof page->text);
	page->width = columns;
	page->end = "\x1b[K\n"; /* clears the rest of the line */
	sl_out_str(&page->out, "\x1b[H");
	put_head(page, top);
	put_list(page, top);
	page->end = "\x1b[K\x1b[J"; /* and of the screen */
	put_line(page, "q ends, d denied, n near, s shadow, c candidate");
	if (sl_file_write(STDOUT_FILENO, page->text, sl_out_len(&page->out)) == sl_out_len(&page->out))
		return true;
	snprintf(error->text, sizeof error->text, "standard output: %s", strerror(errno));
	return false;
}

/* Draws until it is to end. The terminal is left as it was found. */
static int watch(const struct sl_verb *verb, struct top *top, struct page *page) {
	struct termios before, raw;
	struct sluice_error error;
	bool keys = tcgetattr(STDIN_FILENO, &before) == 0, fine;
	sl_interrupt_begin(true);
	sigaction(SIGWINCH, &(struct sigaction){.sa_handler = on_new_size}, NULL);
	if (keys) {
		raw = before;
		raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
		raw.c_lflag |= NOFLSH; /* else ^C may drop what gives the screen back: the flush comes after the signal */
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	write_text("\x1b[?1049h\x1b[?25l"); /* another screen, no cursor */
	while ((fine = draw(top, page, &error)) && wait_for_key(top))
		continue;
	write_text("\x1b[?25h\x1b[?1049l");
	if (keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
	sl_interrupt_end();
	return fine ? SL_EXIT_FINE : sl_cli_fail(verb, "%s", error.text);
}

static int print_once(const struct sl_verb *verb, struct top *top, struct page *page) {
	struct sluice_error error;
	if (!ask_keys(top, top->count != 0 ? (int)top->count : COUNT_DEFAULT, &error) || !ask_figures(top, &error))
		return sl_cli_fail(verb, "%s", error.text);
	page->out = sl_out_to(page->text, sizeof page->text);
	page->width = (int)sizeof page->text;
	page->end = "\n";
	put_list(page, top);
	fwrite(page->text, 1, sl_out_len(&page->out), stdout);
	return sl_cli_end(verb, SL_EXIT_FINE);
}

/* ---- the verb ---------------------------------------------------------------------------------------------------- */

static int run_top(const struct sl_verb *verb, int argc, char **argv) {
	struct top *top = calloc(1, sizeof *top);
	struct page *page = calloc(1, sizeof *page);
	struct sluice_error error;
	int status =
		top == NULL || page == NULL ? sl_cli_fail(verb, "no memory") : sl_cli_read(verb, argc, argv, top, NULL);
	if (status == SL_GO_ON && top->near + top->shadow + top->candidate > 1)
		status = sl_cli_misuse(verb, ": expected one of --near, --shadow and --candidate");
	if (status == SL_GO_ON)
		status = sl_client_check(verb, &top->server);
	if (status == SL_GO_ON)
		top->kind = &kinds[top->near ? 1 : top->shadow ? 2 : top->candidate ? 3 : 0];
	if (status == SL_GO_ON && !sl_client_open(&top->client, &top->server, &error)) {
		status =
			sl_cli_fail(verb, "%s: %s", top->server.server != NULL ? top->server.server : SL_CLI_SERVER, error.text);
	} else if (status == SL_GO_ON) {
		bool live = !top->once && isatty(STDOUT_FILENO);
		status = live ? watch(verb, top, page) : print_once(verb, top, page);
		sl_client_close(&top->client);
	}
	free(page);
	free(top);
	return status;
}

const struct sl_verb sl_verb_top = {
	.name = "top",
	.usage =
		"top [--near|--shadow|--candidate] [--once] [--count N] [--server ADDR [--user NAME] [--tls [--ca FILE]]]",
	.summary = "Shows the keys that a server denies most, that are near their limits, or that it would deny",
	.text =
		"The list is updated every second. Press q to quit, d for denied keys, n for keys near their limits, s for\n"
		"keys that observed limits would deny, c for keys that candidates would deny. If standard output is not a\n"
		"terminal, one list is printed, as with --once. `count` covers the last minutes and is at most `error` too\n"
		"high. Bytes of a key that are not printable ASCII are shown as \\xNN. After a key with a quota of its own\n"
		"(sluice override) stands that, and when it ends.\n",
	.examples = "  sluice top\n"
				"  sluice top --near --once --count 5\n"
				"  sluice top --shadow\n"
				"  sluice top --server unix:/run/sluice.sock\n",
	SL_OPTIONS(options),
	.no_word = ": it takes no words",
	.run = run_top,
};
