/* store: making stores in files, and moving counters between them. */
#include "hosts/cli/store/dump.h"
#include "hosts/cli/store/store_new.h"
#include "hosts/cli/store/store_open.h"
#include "hosts/library/home.h"
#include "os/process.h"
#include "store/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MEMORY, BLOCKS, FORCE, OUTPUT };

struct action;

struct job {
	const struct sl_verb *verb;
	const struct action *action;
	const char *file, *output;
	uint64_t bytes;   /* 0: not said */
	uint32_t percent; /* 0: not said */
	bool force;
};
#define TO(field) offsetof(struct job, field)

static const struct sl_option options[] = {
	[MEMORY] = {"memory", 'm', "SIZE", "size of the whole store, 1MiB to 256GiB",
                SL_SIZE(TO(bytes), SL_ARENA_BYTES_MIN, SL_ARENA_BYTES_MAX, "a size, 1MiB to 256GiB")},
	[BLOCKS] = {"blocks", 'b', "SHARE", "how much of it is for logs, sub-buckets, leases and members, 1% to 98% (50%)",
                SL_OWN},
	[FORCE] = {"force", 0, NULL, "resize, load: drop the counters that do not fit", SL_FLAG(TO(force))},
	[OUTPUT] = {"output", 'o', "OUT", "dump: the file to write, for its owner only (standard output)",
                SL_TEXT(TO(output))},
};

struct action {
	unsigned options; /* a bit for each that it takes */
	bool shared;      /* shared:NAME will do as well */
	int (*run)(const struct job *job);
};

/* ---- create ---------------------------------------------------------------------------------------------------- */

static int run_create(const struct job *job) {
	if (job->bytes == 0)
		return sl_cli_misuse(job->verb, "how large? create %.64s --memory SIZE, such as 256MiB", job->file);
	int status = sl_store_create(job->verb, job->file, job->bytes, job->percent);
	char size[SL_SIZE_TEXT_MAX];
	if (status == SL_EXIT_FINE)
		printf("%s: created, %s\n", job->file, sl_cli_bytes(size, job->bytes));
	return status;
}

/* ---- resize ---------------------------------------------------------------------------------------------------- */

struct copy {
	struct sl_store_new *made;
	sluice_ns now;
	bool whole; /* every counter could be one */
};

static bool copy_counter(void *context, const struct sl_entry *entry) {
	struct copy *copy = context;
	copy->whole = copy->whole && sl_store_new_put(copy->made, entry, copy->now);
	return copy->whole;
}

/* The new file is to be its owner's as the old one was. */
static int take_after(const struct job *job, int fd) {
	struct stat old;
	if (lstat(job->file, &old) != 0)
		return sl_cli_fail(job->verb, "%s: %s", job->file, strerror(errno));
	if (fchmod(fd, old.st_mode & 07777) == 0 && (fchown(fd, old.st_uid, old.st_gid) == 0 || old.st_uid == geteuid()))
		return SL_GO_ON;
	return sl_cli_fail(job->verb, "%s: giving the new file its owner: %s", job->file, strerror(errno));
}

static int copy_all(const struct job *job, struct sluice_store *store, struct sl_store_new *made) {
	struct copy copy = {.made = made, .now = sluice_store_now(store), .whole = true};
	for (struct sl_walk walk = {.store = store}; copy.whole && sl_walk_next(&walk);)
		(void)sl_store_scan(store, walk.page, copy.now, NULL, copy_counter, &copy);
	uint64_t lost = sl_store_new_lost(made);
	if (!copy.whole)
		return sl_cli_fail(job->verb, "%s: it is damaged: sluice inspect --verify says where", job->file);
	if (lost != 0 && !job->force)
		return sl_cli_fail(job->verb,
		                   "%s: %" PRIu64 " of %" PRIu64 " counters find no room, and it was left as it is: "
		                   "give it more --memory, or say --force to go without them",
		                   job->file, lost, made->kept + made->refused);
	return SL_GO_ON;
}

static void tell_kept(uint64_t kept, uint64_t lost) {
	printf("kept %" PRIu64 " counter%s", kept, kept == 1 ? "" : "s");
	if (lost != 0)
		printf(", %" PRIu64 " found no room", lost);
	printf("\n");
}

static void tell_resized(const struct job *job, const struct sl_store_new *made, uint64_t bytes, uint64_t lost) {
	char size[SL_SIZE_TEXT_MAX];
	printf("%s: %s, ", job->file, sl_cli_bytes(size, bytes));
	tell_kept(made->kept + made->refused - lost, lost);
}

/* Moves the new file to the old one's place, under the guard that openers take, who then find the new one; and only if
 * nobody has opened the old one since `rows` were copied: what was charged meanwhile is not in the new one. */
static int replace(const struct job *job, struct sluice_store *store, const struct sl_processes *rows,
                   struct sl_store_new *made) {
	int fd = sl_home_of(store)->fd, err = sl_guard_take(fd, SL_HOME_GUARD_WAIT_NS);
	int status = err == 0 ? SL_GO_ON : sl_cli_fail(job->verb, "%s: %s", job->file, strerror(err));
	if (status == SL_GO_ON && memcmp(rows, store->processes, sizeof *rows) != 0)
		status =
			sl_cli_fail(job->verb, "%s: it was opened by another process meanwhile: stop it to resize it", job->file);
	if (status == SL_GO_ON)
		status = sl_store_new_finish(job->verb, made, true);
	if (err == 0)
		sl_guard_release(fd);
	return status;
}

static int resize(const struct job *job, struct sluice_store *store) {
	struct sl_store_new made;
	struct sl_processes rows = *store->processes;
	uint64_t bytes = job->bytes != 0 ? job->bytes : store->arena_bytes, lost = 0;
	uint32_t percent = job->percent != 0 ? job->percent : store->header->blocks_percent;
	int status = sl_store_be_alone(job->verb, job->file, store, "resize it");
	if (status == SL_GO_ON)
		status = sl_store_new_begin(job->verb, &made, job->file, bytes, percent, store->header);
	if (status != SL_GO_ON)
		return status;
	status = copy_all(job, store, &made);
	if (status == SL_GO_ON) {
		lost = sl_store_new_lost(&made);
		status = take_after(job, made.part.fd);
	}
	if (status == SL_GO_ON)
		status = replace(job, store, &rows, &made);
	sl_store_new_drop(&made);
	if (status == SL_GO_ON)
		tell_resized(job, &made, bytes, lost);
	return status;
}

static int run_resize(const struct job *job) {
	if (job->bytes == 0 && job->percent == 0)
		return sl_cli_misuse(job->verb, "to what? resize %.64s --memory SIZE, --blocks SHARE or both", job->file);
	struct sluice_store *store = sl_store_open_existing(job->verb, job->file);
	if (store == NULL)
		return SL_EXIT_FAILED;
	int status = resize(job, store);
	sluice_store_close(store);
	return status == SL_GO_ON ? SL_EXIT_FINE : status;
}

/* ---- dump, load ------------------------------------------------------------------------------------------------ */

/* A file is replaced when its new content is whole; a device, a pipe or a descriptor (/dev/stdout) is written to. */
static int dump_to_file(const struct job *job, struct sluice_store *store, struct sl_dump_figures *figures) {
	struct sl_part part;
	struct stat found;
	int number = sl_file_descriptor_of(job->output);
	if (number >= 0 && sl_file_can_be_written(number))
		return sl_dump_write(job->verb, store, number, figures);
	if (number >= 0)
		return sl_cli_fail(job->verb, "%s: %s", job->output, strerror(errno));
	if (stat(job->output, &found) == 0 && !S_ISREG(found.st_mode)) {
		int fd = open(job->output, O_WRONLY | O_CLOEXEC | O_NOCTTY);
		if (fd < 0)
			return sl_cli_fail(job->verb, "%s: %s", job->output, strerror(errno));
		int status = sl_dump_write(job->verb, store, fd, figures);
		close(fd);
		return status;
	}
	int status = sl_part_begin(job->verb, &part, job->output);
	if (status == SL_GO_ON)
		status = sl_dump_write(job->verb, store, part.fd, figures);
	if (status == SL_GO_ON)
		return sl_part_finish(job->verb, &part, true);
	sl_part_drop(&part);
	return status;
}

static void tell_dumped(const struct sl_dump_figures *figures) {
	fprintf(stderr, "sluice store: dumped %" PRIu64 " counter%s", figures->counters, figures->counters == 1 ? "" : "s");
	if (figures->torn != 0)
		fprintf(stderr, ", left out %" PRIu64 " as torn", figures->torn);
	fputc('\n', stderr);
}

static int run_dump(const struct job *job) {
	struct sl_file_id from, to;
	struct sl_dump_figures figures = {0};
	if (job->output == NULL && isatty(STDOUT_FILENO))
		return sl_cli_misuse(job->verb, "a dump is not text: send it to a file, or name one with -o OUT");
	if (job->output != NULL && sl_file_id_at(job->file, &from) == 0 && sl_file_id_at(job->output, &to) == 0 &&
	    sl_file_id_equal(&from, &to))
		return sl_cli_fail(job->verb, "%s: the dump would replace the store", job->output);
	struct sluice_store *store = sl_store_open_existing(job->verb, job->file);
	if (store == NULL)
		return SL_EXIT_FAILED;
	int status = job->output != NULL ? dump_to_file(job, store, &figures)
	                                 : sl_dump_write(job->verb, store, STDOUT_FILENO, &figures);
	sluice_store_close(store);
	if (status == SL_GO_ON)
		tell_dumped(&figures);
	return status == SL_GO_ON ? SL_EXIT_FINE : status;
}

static int run_load(const struct job *job) {
	const struct sl_dump_options load = {.bytes = job->bytes, .percent = job->percent, .force = job->force};
	struct sl_file_id id;
	uint64_t kept, lost;
	if (isatty(STDIN_FILENO))
		return sl_cli_misuse(job->verb, "which dump? sluice store load %.64s < DUMP", job->file);
	if (sl_file_id_at(job->file, &id) == 0)
		return sl_cli_fail(job->verb, "%s: it exists already", job->file);
	int status = sl_dump_load(job->verb, STDIN_FILENO, job->file, &load, &kept, &lost);
	if (status != SL_GO_ON)
		return status;
	printf("%s: ", job->file);
	tell_kept(kept, lost);
	return SL_EXIT_FINE;
}

/* ---- the verb -------------------------------------------------------------------------------------------------- */

enum { CREATE, RESIZE, DUMP, LOAD, ACTIONS };

/* As words of the command line, ended by NULL. */
static const char *const action_names[ACTIONS + 1] = {"create", "resize", "dump", "load", NULL};

static const struct action actions[ACTIONS] = {
	[CREATE] = {1 << MEMORY | 1 << BLOCKS, true, run_create},
	[RESIZE] = {1 << MEMORY | 1 << BLOCKS | 1 << FORCE, false, run_resize},
	[DUMP] = {1 << OUTPUT, true, run_dump},
	[LOAD] = {1 << MEMORY | 1 << BLOCKS | 1 << FORCE, false, run_load},
};

static const char *action_name(const struct action *action) {
	return action_names[action - actions];
}

static int take_action(struct job *job, const char *word) {
	for (int i = 0; i < ACTIONS; i++) {
		if (strcmp(word, action_names[i]) == 0)
			job->action = &actions[i];
	}
	if (job->action != NULL)
		return SL_GO_ON;
	const char *nearest = sl_args_nearest(word, action_names);
	if (nearest != NULL)
		return sl_cli_misuse(job->verb, "'%.64s': did you mean %s?", word, nearest);
	return sl_cli_misuse(job->verb, "'%.64s': expected create, resize, dump or load", word);
}

static int take_word(const struct sl_verb *verb, void *to, const char *word) {
	struct job *job = to;
	(void)verb;
	if (job->action == NULL)
		return take_action(job, word);
	if (job->file != NULL)
		return sl_cli_misuse(job->verb, "'%.64s' is one word too many", word);
	job->file = word;
	return SL_GO_ON;
}

/* `50` or `50%`. */
static bool read_percent(const char *text, uint32_t *percent) {
	char digits[4] = "";
	size_t len = strlen(text);
	uint64_t number;
	if (len > 0 && text[len - 1] == '%')
		len--;
	if (len == 0 || len >= sizeof digits)
		return false;
	memcpy(digits, text, len);
	if (!sl_args_number(digits, 1, SL_BLOCKS_PERCENT_MAX, &number))
		return false;
	*percent = (uint32_t)number;
	return true;
}

static int take_blocks(const struct sl_verb *verb, void *to, int option, const char *value) {
	struct job *job = to;
	(void)option;
	return read_percent(value, &job->percent)
	           ? SL_GO_ON
	           : sl_cli_misuse(verb, "--blocks '%.64s': expected a share of the store, 1%% to 98%%", value);
}

static int read_arguments(struct job *job, int argc, char **argv) {
	uint32_t given;
	int status = sl_cli_read(job->verb, argc, argv, job, &given);
	if (status != SL_GO_ON)
		return status;
	job->bytes -= job->bytes % SL_PAGE_BYTES;
	if (job->action == NULL)
		return sl_cli_misuse(job->verb, "expected create, resize, dump or load");
	if (job->file == NULL)
		return sl_cli_misuse(job->verb, "%s: which store?", action_name(job->action));
	for (int i = 0; i < (int)(sizeof options / sizeof *options); i++)
		if ((given & ~job->action->options) >> i & 1)
			return sl_cli_misuse(job->verb, "%s takes no --%s", action_name(job->action), options[i].name);
	if (!job->action->shared && sl_store_name_is_shared(job->file))
		return sl_cli_misuse(job->verb, "%s is for stores in files, not for shared memory", action_name(job->action));
	return SL_GO_ON;
}

static int run_store(const struct sl_verb *verb, int argc, char **argv) {
	struct job job = {.verb = verb};
	int status = read_arguments(&job, argc, argv);
	if (status == SL_GO_ON)
		status = job.action->run(&job);
	if (status == SL_GO_ON)
		status = SL_EXIT_FINE;
	return sl_cli_end(verb, status);
}

const struct sl_verb sl_verb_store = {
	.name = "store",
	.usage = "store create|resize|dump|load FILE [--memory SIZE] [--blocks SHARE] [--force] [-o OUT]",
	.summary = "Creates a store in a file, resizes it, or moves its counters to another machine",
	.text = "  create FILE --memory SIZE    an empty store; shared:NAME makes one in shared memory\n"
			"  resize FILE --memory SIZE    changes the size, or the share of --blocks, of a store that no process\n"
			"                               has open. Counters are kept. If one does not fit, the store is left\n"
			"                               unchanged, unless --force is given\n"
			"  dump FILE > DUMP             writes the counters as a stream, while other processes use the store\n"
			"  load FILE < DUMP             makes a store in a new file from a dump; a damaged dump is refused\n"
			"A dump contains the secret with which the store hashes keys: keep it as safe as the store. What a full\n"
			"store remembers of evicted counters is in neither a dump nor a resized store.\n",
	.follows = SL_FOLLOWS_FILE,
	.words = action_names,
	.examples = "  sluice store create /var/lib/sluice/counters --memory 1GiB --blocks 30%\n"
				"  sluice store resize /var/lib/sluice/counters --memory 4GiB\n"
				"  sluice store dump /var/lib/sluice/counters -o counters.dump\n"
				"  sluice store load /var/lib/sluice/counters --memory 2GiB < counters.dump\n",
	SL_OPTIONS(options),
	.take = take_blocks,
	.word = take_word,
	.run = run_store,
};
