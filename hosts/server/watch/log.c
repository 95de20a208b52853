/* See log.h. Each line is built in memory and written by one call, whichever thread it comes from. */
#include "hosts/server/watch/log.h"

#include "base/text.h"
#include "os/clock.h"
#include "os/file.h"
#include "proto/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static _Atomic bool is_json;
static _Atomic int least;

void sl_log_set_json(bool json) {
	atomic_store_explicit(&is_json, json, memory_order_relaxed);
}

void sl_log_set_least(enum sl_log_level level) {
	atomic_store_explicit(&least, (int)level, memory_order_relaxed);
}

static bool is_written(enum sl_log_level level) {
	return (int)level >= atomic_load_explicit(&least, memory_order_relaxed);
}

/* ---- a line --------------------------------------------------------------------------------------------------- */

/* A line that does not arrive (a full disk, a closed pipe) is lost: there is nowhere to say so. */
static void write_line(const struct sl_out *line) {
	(void)sl_file_write(STDERR_FILENO, line->start, sl_out_len(line));
}

/* Names of files and the like come from outside: what may not be shown of them becomes question marks. */
static void put_text(struct sl_out *out, const char *text) {
	for (size_t len = strlen(text), step; len != 0; text += step, len -= step) {
		uint32_t character;
		step = sl_text_next((const unsigned char *)text, len, &character);
		if (step != 0 && sl_text_is_shown(character))
			sl_out_bytes(out, text, step);
		else
			sl_out_char(out, '?');
		step += step == 0;
	}
}

static void put_time(struct sl_out *out) {
	sluice_ns now = sl_clock_wall();
	time_t seconds = (time_t)(now / 1000000000);
	struct tm utc;
	char text[64];
	gmtime_r(&seconds, &utc);
	snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03uZ", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
	         utc.tm_hour, utc.tm_min, utc.tm_sec, (unsigned)(now / 1000000 % 1000));
	sl_out_str(out, text);
}

static void put_json(struct sl_out *out, enum sl_log_level level, const char *message) {
	static const char *const names[] = {[SL_LOG_INFO] = "info", [SL_LOG_WARNING] = "warning", [SL_LOG_ERROR] = "error"};
	sl_out_str(out, "{\"time\":\"");
	put_time(out);
	sl_out_char(out, '"');
	sl_json_put_word(out, "level", names[level]);
	sl_json_put_text(out, "message", sl_str(message));
}

void sl_log(enum sl_log_level level, const char *format, ...) {
	char message[SL_LOG_MESSAGE_MAX], memory[SL_LOG_LINE_MAX];
	struct sl_out line = sl_out_to(memory, sizeof memory);
	va_list list;
	if (!is_written(level))
		return;
	va_start(list, format);
	vsnprintf(message, sizeof message, format, list);
	va_end(list);
	if (atomic_load_explicit(&is_json, memory_order_relaxed)) {
		put_json(&line, level, message);
		sl_out_char(&line, '}');
	} else {
		sl_out_str(&line, level == SL_LOG_WARNING ? "sluice: warning: " : "sluice: ");
		put_text(&line, message);
	}
	sl_out_char(&line, '\n');
	write_line(&line);
}

void sl_log_place(const char *file, const struct sluice_problem *problem) {
	char memory[SL_LOG_LINE_MAX], place[64];
	struct sl_out line = sl_out_to(memory, sizeof memory);
	if (!is_written(problem->warning ? SL_LOG_WARNING : SL_LOG_ERROR))
		return;
	if (atomic_load_explicit(&is_json, memory_order_relaxed)) {
		put_json(&line, problem->warning ? SL_LOG_WARNING : SL_LOG_ERROR, problem->text);
		sl_json_put_text(&line, "file", sl_slice(file, strnlen(file, SL_LOG_MESSAGE_MAX / 2)));
		sl_json_put_u64(&line, "line", problem->line);
		sl_json_put_u64(&line, "column", problem->column);
		sl_out_char(&line, '}');
	} else {
		snprintf(place, sizeof place, ":%u:%u: %s", problem->line, problem->column,
		         problem->warning ? "warning: " : "");
		put_text(&line, file);
		sl_out_str(&line, place);
		put_text(&line, problem->text);
	}
	sl_out_char(&line, '\n');
	write_line(&line);
}

bool sl_log_may(struct sl_log_bound *bound, sluice_ns every_ns) {
	uint64_t now = sl_clock_monotonic(), last = atomic_load_explicit(&bound->last_ns, memory_order_relaxed);
	if (last != 0 && now - last < every_ns)
		return false;
	/* relaxed: who loses the exchange lost to a line that has just been written */
	return atomic_compare_exchange_strong_explicit(&bound->last_ns, &last, now, memory_order_relaxed,
	                                               memory_order_relaxed);
}
