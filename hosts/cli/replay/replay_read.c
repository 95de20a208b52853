/* From files to requests: lines in the order of the files, or, with --sort, in the order of their instants.
 *
 * A file has one format. Where it is to be found out, the first line that can be read tells it; lines of another kind
 * further down are unreadable, so that half a line of an access log is never mistaken for an ops line. */
#include "hosts/cli/replay/input.h"
#include "hosts/cli/replay/progress.h"
#include "hosts/cli/replay/replay_read.h"
#include "hosts/cli/replay/replay_sort.h"

#include "hosts/cli/replay/replay_batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

struct reader {
	struct sl_replay *replay;
	struct sl_sort *sort; /* NULL without --sort */
	struct sl_progress progress;
	uint64_t bytes_before; /* of the files that are done with */
	uint32_t file;
	uint64_t number; /* of the line, from 1 */
	enum sl_log_format format;
};

static void note_unreadable(struct reader *reader, const struct sluice_error *error) {
	struct sl_replay *replay = reader->replay;
	if (replay->unreadable_count < SL_REPLAY_UNREADABLE_MAX)
		replay->unreadable[replay->unreadable_count] =
			(struct sl_replay_unreadable){reader->file, reader->number, *error};
	replay->unreadable_count++;
}

/* Turns a line into replay->request; false, with the line noted, when it can't be read. */
static bool understand(struct reader *reader, struct sluice_bytes text) {
	struct sl_replay *replay = reader->replay;
	struct sl_logline line;
	struct sluice_error error;
	if (!sl_logline_parse(reader->format, text, &replay->scratch, &line, &error)) {
		note_unreadable(reader, &error);
		return false;
	}
	sl_replay_request_make(&replay->request, &line, replay->wanted, replay->ipv6_prefix);
	reader->format = line.format;
	return true;
}

static int take_line(struct reader *reader, struct sluice_bytes text) {
	struct sl_replay *replay = reader->replay;
	struct sluice_error error;
	if (!understand(reader, text))
		return SL_GO_ON;
	if (reader->sort == NULL)
		return sl_replay_add(replay, &replay->request, reader->file, reader->number);
	struct sl_sort_line line = {replay->request.time, reader->number, reader->file, reader->format, text};
	return sl_sort_add(reader->sort, &line, &error) ? SL_GO_ON : sl_cli_fail(replay->verb, "%s", error.text);
}

static int read_lines(struct reader *reader, struct sl_input *input) {
	struct sluice_error error = {.text = "the line has more than 65536 bytes"};
	struct sluice_bytes line;
	for (reader->number = 1;; reader->number++) {
		enum sl_input_verdict verdict = sl_input_next(input, &line, &error);
		int status = SL_GO_ON;
		if (verdict == SL_INPUT_END)
			return SL_GO_ON;
		if (verdict == SL_INPUT_FAILED) {
			const char *file = sl_replay_file_name(reader->replay, reader->file);
			reader->replay->broke_off = file;
			sl_progress_end(&reader->progress);
			return sl_cli_fail(reader->replay->verb, "%s: %s (after %" PRIu64 " lines)", file, error.text,
			                   reader->number - 1);
		}
		if (verdict == SL_INPUT_TOO_LONG)
			note_unreadable(reader, &error);
		else
			status = take_line(reader, line);
		if (status != SL_GO_ON)
			return status;
		sl_progress_line(&reader->progress, reader->bytes_before + sl_input_bytes_read(input), "reading");
	}
}

static int read_file(struct reader *reader) {
	struct sl_replay *replay = reader->replay;
	struct sluice_error error;
	struct sl_input *input = sl_input_open(replay->options->files[reader->file], &error);
	if (input == NULL) {
		replay->broke_off = sl_replay_file_name(replay, reader->file);
		return sl_cli_fail(replay->verb, "%s: %s", replay->broke_off, error.text);
	}
	reader->format = replay->options->format;
	int status = read_lines(reader, input);
	reader->bytes_before += sl_input_bytes_read(input);
	sl_input_close(input);
	return status;
}

/* Decides the sorted lines. Each is read a second time: keeping what was read would cost more memory than time. */
static int decide_sorted(struct reader *reader) {
	struct sl_replay *replay = reader->replay;
	struct sluice_error error;
	struct sl_sort_line line;
	int got;
	if (!sl_sort_finish(reader->sort, &error))
		return sl_cli_fail(replay->verb, "%s", error.text);
	reader->progress.total = 0;
	reader->progress.lines = 0;
	while ((got = sl_sort_next(reader->sort, &line, &error)) > 0) {
		reader->format = line.format;
		reader->file = line.file;
		reader->number = line.number;
		if (understand(reader, line.text) &&
		    sl_replay_add(replay, &replay->request, line.file, line.number) != SL_GO_ON)
			return SL_EXIT_FAILED;
		sl_progress_line(&reader->progress, 0, "deciding");
	}
	return got == 0 ? SL_GO_ON : sl_cli_fail(replay->verb, "%s", error.text);
}

/* The bytes of all files, for the progress; 0 when one of them is no plain file. A file that is not there is told
 * before the first line is read, not after hours. */
static int measure(const struct sl_replay *replay, uint64_t *total) {
	int status = SL_GO_ON;
	bool known = true;
	*total = 0;
	for (uint32_t i = 0; i < replay->options->file_count; i++) {
		struct stat found;
		const char *file = replay->options->files[i];
		if (strcmp(file, "-") == 0) {
			known = false;
		} else if (stat(file, &found) != 0) {
			status = sl_cli_fail(replay->verb, "%s: %m", file);
		} else if (S_ISDIR(found.st_mode)) {
			status = sl_cli_fail(replay->verb, "%s: a folder; name the logs in it", file);
		} else {
			known = known && S_ISREG(found.st_mode);
			*total += (uint64_t)found.st_size;
		}
	}
	*total = known ? *total : 0;
	return status;
}

/* Reads every file, then decides what was sorted or is left in the batch. What came before a failure is decided too:
 * it was read in order. */
static int read_all(struct reader *reader) {
	int status = SL_GO_ON;
	for (; reader->file < reader->replay->options->file_count && status == SL_GO_ON; reader->file++)
		status = read_file(reader);
	if (status != SL_GO_ON && reader->replay->broke_off == NULL)
		return status;
	if (reader->sort != NULL && decide_sorted(reader) != SL_GO_ON)
		return SL_EXIT_FAILED;
	if (sl_replay_end(reader->replay) != SL_GO_ON)
		return SL_EXIT_FAILED;
	return status == SL_GO_ON ? SL_EXIT_FINE : status;
}

int sl_replay_read(struct sl_replay *replay) {
	struct reader reader = {.replay = replay};
	uint64_t total;
	int status = measure(replay, &total);
	if (status != SL_GO_ON)
		return status;
	reader.progress = sl_progress_begin(total);
	if (replay->options->sort && (reader.sort = sl_sort_open(SL_SORT_MEMORY)) == NULL)
		return sl_cli_fail(replay->verb, "no memory to sort in; %d MiB are needed", SL_SORT_MEMORY >> 20);
	status = read_all(&reader);
	sl_progress_end(&reader.progress);
	if (reader.sort != NULL)
		sl_sort_close(reader.sort);
	return status;
}
