/* Opening a store in each of its homes: what is made, what is found again, and what is refused, untouched. Processes
 * and forks are in process_test.c. */
#include "tests/unit/home.h"

#include "hosts/library/anchor.h"
#include "os/file.h"
#include "os/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- made, and found again ------------------------------------------------------------------------------------- */

static void test_file_keeps_its_counters(void **state) {
	struct home_paths *paths = *state;
	struct sluice_store_options options = {.file = paths->file, .memory_bytes = MIB + 4095, .blocks_percent = 30};
	struct sluice_store *store = open_or_fail(&options);
	struct sluice_store_stats stats;
	struct stat found;
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(remaining_after(store, "sliding-log 5/1h", "a"), 4 - i);
	assert_int_equal(remaining_after(store, "5/1h", "a"), 4);
	sluice_store_close(store);
	assert_int_equal(stat(paths->file, &found), 0);
	assert_int_equal(found.st_size, MIB);
	assert_int_equal(found.st_mode & 07777, 0600);
	assert_true((uint64_t)found.st_blocks * 512 >= MIB); /* no write into it can find the disk full */

	options = (struct sluice_store_options){.file = paths->file, .existing = true, .blocks_percent = 70};
	store = open_or_fail(&options);
	assert_int_equal(remaining_after(store, "sliding-log 5/1h", "a"), 1);
	assert_int_equal(remaining_after(store, "5/1h", "a"), 3);
	sluice_store_stats(store, &stats);
	assert_int_equal(stats.memory_bytes, MIB);
	assert_int_equal(stats.blocks_percent, 30);
	assert_int_equal(stats.slots_used, 2);
	assert_int_equal(stats.slots_with_block, 1);
	assert_int_equal(stats.processes, 1);
	assert_int_equal(stats.repairs, 1);
	assert_int_equal(stats.dropped, 0);
	assert_null(sluice_store_verify(store));
	sluice_store_close(store);
}

static void test_shared_memory_has_a_name(void **state) {
	struct home_paths *paths = *state;
	struct sluice_store_options options = {.shared = paths->shared, .memory_bytes = MIB};
	struct sluice_store *store = open_or_fail(&options), *other;
	assert_int_equal(remaining_after(store, "5/1h", "a"), 4);
	sluice_store_close(store);
	store = open_or_fail(&options);
	assert_int_equal(remaining_after(store, "5/1h", "a"), 3);
	/* Once forgotten, the name is free for another store, and who has the old one open goes on with it. */
	assert_int_equal(sluice_store_forget(paths->shared, NULL), SLUICE_OK);
	other = open_or_fail(&options);
	assert_ptr_not_equal(store, other);
	assert_int_equal(remaining_after(other, "5/1h", "a"), 4);
	assert_int_equal(remaining_after(store, "5/1h", "a"), 2);
	sluice_store_close(store);
	sluice_store_close(other);
	assert_int_equal(sluice_store_forget(paths->shared, NULL), SLUICE_OK);
	assert_int_equal(sluice_store_forget(paths->shared, NULL), SLUICE_E_NONE);
	options.existing = true;
	assert_int_equal(sluice_store_open(&store, &options, NULL), SLUICE_E_NONE);
}

static void test_private_stores_are_apart(void **state) {
	struct sluice_store *one = open_or_fail(NULL), *two = open_or_fail(NULL);
	struct sluice_store_stats stats;
	(void)state;
	assert_int_equal(remaining_after(one, "5/1h", "a"), 4);
	assert_int_equal(remaining_after(two, "5/1h", "a"), 4);
	sluice_store_stats(one, &stats);
	assert_int_equal(stats.memory_bytes, 64 * MIB);
	assert_int_equal(stats.processes, 1);
	sluice_store_close(one);
	sluice_store_close(two);
	sluice_store_close(NULL);
}

/* Whichever name leads to it, and with as many handles: one mapping, which ends with the last of them. */
static void test_handles_of_one_file(void **state) {
	struct home_paths *paths = *state;
	struct sluice_store *one = open_or_fail(&(struct sluice_store_options){.file = paths->file, .memory_bytes = MIB});
	struct sluice_store *two, *three;
	assert_int_equal(link(paths->file, paths->other), 0);
	two = open_or_fail(&(struct sluice_store_options){.file = paths->other});
	assert_int_equal(remaining_after(one, "5/1h", "a"), 4);
	assert_int_equal(remaining_after(two, "5/1h", "a"), 3);
	assert_int_equal(
		sluice_store_open(&three, &(struct sluice_store_options){.file = paths->file, .memory_bytes = 2 * MIB}, NULL),
		SLUICE_E_RANGE);
	sluice_store_close(one);
	assert_int_equal(remaining_after(two, "5/1h", "a"), 2);
	/* A renamed store stays what it is; another one can be made where it was. */
	assert_int_equal(rename(paths->file, paths->third), 0);
	three = open_or_fail(&(struct sluice_store_options){.file = paths->file, .memory_bytes = MIB});
	assert_int_equal(remaining_after(three, "5/1h", "a"), 4);
	assert_int_equal(remaining_after(two, "5/1h", "a"), 1);
	sluice_store_close(two);
	sluice_store_close(three);
}

/* ---- never finished -------------------------------------------------------------------------------------------- */

static void test_unfinished_files_are_finished(void **state) {
	struct home_paths *paths = *state;
	struct sluice_store_options options = {.file = paths->file, .memory_bytes = MIB, .blocks_percent = 90};
	struct sluice_store *store = open_or_fail(&options);
	static uint8_t whole[MIB];
	sluice_store_close(store);
	read_file(paths->file, whole, MIB);
	/* nothing; nothing but space; space for another size; formatted, but for the magic */
	for (int how = 0; how < 4; how++) {
		static const uint64_t sizes[] = {0, MIB, 5000, MIB};
		uint8_t *bytes = calloc(1, MIB);
		if (how == 3) {
			memcpy(bytes, whole, MIB);
			memset(bytes, 0, 8);
			memset(bytes + SL_PROCESSES_OFFSET, 0, SL_PAGE_BYTES);
			memset(&((struct sl_header *)(void *)bytes)->anchors, 0, 2 * sizeof(struct sl_anchor));
		}
		write_file(paths->file, bytes, sizes[how]);
		options.existing = true;
		assert_refused(&options, SLUICE_E_NONE, "no store was made in it");
		options.existing = false;
		store = open_or_fail(&options);
		assert_int_equal(remaining_after(store, "5/1h", "a"), 4);
		assert_null(sluice_store_verify(store));
		sluice_store_close(store);
		free(bytes);
	}
}

/* Zeros in front do not make a file ours. */
static void test_others_files_are_not_unfinished(void **state) {
	struct home_paths *paths = *state;
	static const uint64_t at[] = {8, 12, 16, sizeof(struct sl_header), 4096, 8191, SL_PAGES_OFFSET, 70000, MIB - 1};
	uint8_t *bytes = calloc(1, MIB);
	for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
		bytes[at[i]] = 77;
		write_file(paths->file, bytes, MIB);
		assert_refused(&(struct sluice_store_options){.file = paths->file}, SLUICE_E_STORE, "not a Sluice store");
		bytes[at[i]] = 0;
	}
	free(bytes);
}

/* ---- refused, and left as they are ----------------------------------------------------------------------------- */

static void test_foreign_and_damaged_files(void **state) {
	struct home_paths *paths = *state;
	struct sluice_store_options options = {.file = paths->file, .memory_bytes = MIB};
	static uint8_t whole[MIB], bytes[MIB + 4096];
	sluice_store_close(open_or_fail(&options));
	read_file(paths->file, whole, MIB);

	write_file(paths->file, "Dear diary,\n", 12);
	assert_refused(&options, SLUICE_E_STORE, "too short");
	memset(bytes, 'x', sizeof bytes);
	write_file(paths->file, bytes, MIB);
	assert_refused(&options, SLUICE_E_STORE, "not a Sluice store");

	memcpy(bytes, whole, MIB);
	((struct sl_header *)(void *)bytes)->version = 1;
	write_file(paths->file, bytes, MIB);
	assert_refused(&options, SLUICE_E_STORE, "another version");

	/* any bit of what the header says once and for all */
	for (size_t bit = 0; bit < 8 * offsetof(struct sl_header, anchors); bit += 5) {
		memcpy(bytes, whole, MIB);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		write_file(paths->file, bytes, MIB);
		assert_refused(&options, SLUICE_E_STORE, paths->file);
	}
}

static void test_truncated_files(void **state) {
	struct home_paths *paths = *state;
	struct sluice_store_options options = {.file = paths->file, .memory_bytes = MIB};
	static const uint64_t sizes[] = {1,
	                                 7,
	                                 8,
	                                 100,
	                                 sizeof(struct sl_header) - 1,
	                                 sizeof(struct sl_header),
	                                 4095,
	                                 4096,
	                                 8192,
	                                 24576,
	                                 MIB / 2,
	                                 MIB - 4096,
	                                 MIB - 1,
	                                 MIB + 1,
	                                 MIB + 4096};
	static uint8_t whole[MIB + 4096];
	sluice_store_close(open_or_fail(&options));
	read_file(paths->file, whole, MIB);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		write_file(paths->file, whole, sizes[i]);
		assert_refused(&options, SLUICE_E_STORE,
		               sizes[i] < sizeof(struct sl_header) ? "too short"
		               : sizes[i] < MIB                    ? "truncated"
		                                                   : "longer");
	}
}

static void test_sizes_and_names(void **state) {
	struct home_paths *paths = *state;
	char name[203];
	memset(name, 'n', 201);
	name[201] = '\0';
	assert_refused(&(struct sluice_store_options){.memory_bytes = MIB - 1}, SLUICE_E_RANGE, "1 MiB to 256 GiB");
	assert_refused(&(struct sluice_store_options){.memory_bytes = ((uint64_t)256 << 30) + 1}, SLUICE_E_RANGE,
	               "256 GiB");
	assert_refused(&(struct sluice_store_options){.blocks_percent = 99}, SLUICE_E_RANGE, "98 %");
	assert_refused(&(struct sluice_store_options){.file = paths->file, .mode = 01000}, SLUICE_E_RANGE, "0777");
	assert_refused(&(struct sluice_store_options){.file = ""}, SLUICE_E_RANGE, "empty");
	assert_refused(&(struct sluice_store_options){.file = paths->file, .shared = "x"}, SLUICE_E_MISUSE, "not in both");
	assert_refused(&(struct sluice_store_options){.shared = ""}, SLUICE_E_RANGE, "1 to 200");
	assert_refused(&(struct sluice_store_options){.shared = "a/b"}, SLUICE_E_RANGE, "1 to 200");
	assert_refused(&(struct sluice_store_options){.shared = "a b"}, SLUICE_E_RANGE, "1 to 200");
	assert_refused(&(struct sluice_store_options){.shared = name}, SLUICE_E_RANGE, "1 to 200");
	assert_int_equal(sluice_store_forget("a/b", NULL), SLUICE_E_NONE);
	assert_int_equal(sluice_store_forget(NULL, NULL), SLUICE_E_MISUSE);
	assert_int_equal(sluice_store_open(NULL, NULL, NULL), SLUICE_E_MISUSE);
	sluice_store_close(open_or_fail(&(struct sluice_store_options){.file = paths->file, .memory_bytes = MIB}));
	assert_refused(&(struct sluice_store_options){.file = paths->file, .memory_bytes = 2 * MIB}, SLUICE_E_RANGE,
	               "has 1048576 bytes (1 MiB), not 2097152; say that or nothing, or change it: sluice store resize");
	sluice_store_close(open_or_fail(&(struct sluice_store_options){.shared = paths->shared, .memory_bytes = MIB}));
	assert_refused(&(struct sluice_store_options){.shared = paths->shared, .memory_bytes = 2 * MIB}, SLUICE_E_RANGE,
	               "not 2097152; say that or nothing, or remove it, with its counters, while nothing uses it");
	assert_int_equal(sluice_store_forget(paths->shared, NULL), SLUICE_OK);
}

static void test_what_is_no_regular_file(void **state) {
	struct home_paths *paths = *state;
	struct sluice_store_options options = {.file = paths->file};
	sluice_store_close(open_or_fail(&(struct sluice_store_options){.file = paths->other, .memory_bytes = MIB}));
	assert_int_equal(symlink(paths->other, paths->file), 0);
	assert_refused(&options, SLUICE_E_STORE, "symbolic link");
	assert_int_equal(unlink(paths->file), 0);
	assert_int_equal(mkfifo(paths->file, 0600), 0);
	assert_refused(&options, SLUICE_E_STORE, "not a regular file");
	options.file = paths->folder;
	assert_refused(&options, SLUICE_E_STORE, "is a folder");
	options.file = "/dev/null";
	assert_refused(&options, SLUICE_E_STORE, "not a regular file");
	options.file = "/nonexistent/x";
	assert_refused(&options, SLUICE_E_SYSTEM, "folder does not exist");
	options.existing = true;
	assert_refused(&options, SLUICE_E_NONE, "no such store");
}

static void as_nobody(struct home_paths *paths) {
	struct sluice_store_options options = {.file = paths->file};
	if (setgid(65534) != 0 || setuid(65534) != 0)
		_exit(IN_CHILD_SKIPPED);
	child_expect_refused(&options, SLUICE_E_SYSTEM, "Permission denied for user 65534");
	options.file = paths->other; /* there is none, and the folder is not to be written */
	child_expect_refused(&options, SLUICE_E_SYSTEM, "Permission denied for user 65534");
}

static void test_permissions(void **state) {
	struct home_paths *paths = *state;
	struct sluice_store_options options = {.file = paths->file, .memory_bytes = MIB, .mode = 0640};
	struct stat found;
	mode_t before = umask(022);
	sluice_store_close(open_or_fail(&options));
	(void)umask(before);
	assert_int_equal(stat(paths->file, &found), 0);
	assert_int_equal(found.st_mode & 07777, 0640);
	assert_int_equal(chmod(paths->folder, 0755), 0);
	in_child(as_nobody, paths);
}

/* ---- no space -------------------------------------------------------------------------------------------------- */

/* A new file that does not fit is not left behind; one that was there is as long as before. */
static void in_half_a_mebibyte(struct home_paths *paths) {
	struct rlimit limit = {MIB / 2, MIB / 2};
	struct sluice_store_options options = {.file = paths->file, .memory_bytes = MIB};
	struct stat found;
	CHILD_ASSERT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	child_expect_refused(&options, SLUICE_E_SYSTEM, "File too large for 1 MiB; give it less, or raise RLIMIT_FSIZE");
	CHILD_ASSERT(stat(paths->file, &found) != 0 && errno == ENOENT);
	options.file = paths->other;
	child_expect_refused(&options, SLUICE_E_SYSTEM, "File too large for 1 MiB");
	CHILD_ASSERT(stat(paths->other, &found) == 0 && found.st_size == 5000);
}

static void on_a_small_disk(struct home_paths *paths) {
	struct sluice_store_options options = {.file = paths->file, .memory_bytes = 2 * MIB};
	struct sluice_store *store;
	struct stat found;
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", paths->folder, "tmpfs", 0, "size=1536k") != 0)
		_exit(IN_CHILD_SKIPPED);
	child_expect_refused(&options, SLUICE_E_SYSTEM, "No space left on device for 2 MiB");
	CHILD_ASSERT(stat(paths->file, &found) != 0 && errno == ENOENT);
	options.memory_bytes = MIB;
	CHILD_ASSERT(sluice_store_open(&store, &options, NULL) == SLUICE_OK);
	sluice_store_close(store);
	/* a copy with holes, as `cp --sparse` makes it, has its space reserved when it is opened: here there is none */
	options.file = paths->other;
	copy_with_holes(paths->file, paths->other, MIB);
	child_expect_refused(&options, SLUICE_E_SYSTEM, "No space left on device for 1 MiB");
	CHILD_ASSERT(unlink(paths->file) == 0);
	CHILD_ASSERT(sluice_store_open(&store, &options, NULL) == SLUICE_OK);
	CHILD_ASSERT(stat(paths->other, &found) == 0 && (uint64_t)found.st_blocks * 512 >= MIB);
	sluice_store_close(store);
}

static void test_no_space(void **state) {
	struct home_paths *paths = *state;
	uint8_t *zeros = calloc(1, 5000);
	write_file(paths->other, zeros, 5000);
	free(zeros);
	in_child(in_half_a_mebibyte, paths);
	in_child(on_a_small_disk, paths);
}

/* By linux/magic.h, where old ones of it have them, else by the filesystem's own source. */
static const struct {
	uint32_t type;
	const char *name;
} remotes[] = {
	{NFS_SUPER_MAGIC, "NFS"},
	{SMB_SUPER_MAGIC, "SMB"},
	{0xff534d42, "CIFS"},
	{0xfe534d42, "SMB"},
	{V9FS_MAGIC, "9P"},
	{AFS_SUPER_MAGIC, "AFS"},
	{AFS_FS_MAGIC, "AFS"},
	{0x00c36400, "Ceph"},
	{CODA_SUPER_MAGIC, "Coda"},
	{NCP_SUPER_MAGIC, "NCP"},
	{0x01161970, "GFS2"},
	{OCFS2_SUPER_MAGIC, "OCFS2"},
	{0x0bd00bd0, "Lustre"},
	{0x47504653, "GPFS"}, /* its name */
	{0x65735546, "FUSE"},
	{0x786f4256, "a shared folder"}, /* VirtualBox */
	{0xaad7aaea, "PanFS"},
	{0x19830326, "BeeGFS"},
};

static void test_remote_filesystems_are_named(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof remotes / sizeof *remotes; i++) {
		const char *name = sl_file_remote_kind((uint64_t)(int64_t)(int32_t)remotes[i].type);
		if (name == NULL || strcmp(name, remotes[i].name) != 0)
			fail_msg("%s: %s", remotes[i].name, name != NULL ? name : "not known");
		assert_true(sl_file_remote_kind(remotes[i].type) == name);
	}
	assert_null(sl_file_remote_kind(0xef53));     /* ext4 */
	assert_null(sl_file_remote_kind(0x01021994)); /* tmpfs */
	assert_null(sl_file_remote_kind(0x794c7630)); /* overlay */
}

/* ---- the clock ------------------------------------------------------------------------------------------------- */

static void test_clock_goes_on(void **state) {
	struct home_paths *paths = *state;
	struct sluice_store_options options = {.file = paths->file, .memory_bytes = MIB};
	struct sluice_store *store = open_or_fail(&options);
	sluice_ns before = sluice_store_now(store), after;
	struct sl_header *header = store->header;
	uint64_t offset = header->anchors[0].offset_ns;
	assert_true(sl_latest_read(header->anchors[0].latest, header->secret) > before);
	assert_memory_equal(&header->anchors[0], &header->anchors[1], sizeof header->anchors[0]);
	sluice_store_close(store);
	store = open_or_fail(&options);
	assert_true(store->header->anchors[0].offset_ns == offset);
	assert_true(sluice_store_now(store) >= before);

	/* Of another boot, which had got an hour further than this wall clock is. */
	header = store->header;
	after = sl_latest_read(sl_latest_write(before + (sluice_ns)3600 * 1000000000, header->secret), header->secret);
	header->anchors[1].latest = sl_latest_write(before + (sluice_ns)3600 * 1000000000, header->secret);
	header->anchors[0].boot[0] ^= 1;
	header->anchors[1].boot[1] ^= 1;
	sluice_store_close(store);
	store = open_or_fail(&options);
	assert_true(sluice_store_now(store) >= after);
	assert_true(sluice_store_now(store) < after + (sluice_ns)600 * 1000000000);
	sluice_store_close(store);
}

/* Private memory has the process's clock. */
static void test_private_clock(void **state) {
	struct sluice_store *store = open_or_fail(NULL);
	sluice_ns before = sluice_now(), now = sluice_store_now(store), after = sluice_now();
	(void)state;
	assert_true(before <= now && now <= after);
	sluice_store_close(store);
}

/* ---- memory brought in ahead ----------------------------------------------------------------------------------- */

/* In pieces of any size, each page is reached, and counters stay what they are. */
static void test_pretouch(void **state) {
	static const uint64_t pieces[] = {1, 4096, MIB + 1, 3 * MIB, UINT64_MAX};
	struct home_paths *paths = *state;
	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
		struct sluice_store *store =
			open_or_fail(&(struct sluice_store_options){.memory_bytes = 9 * MIB, .pretouch = i % 2 == 0});
		unsigned char there[9 * MIB / 4096];
		uint64_t at = 0, steps = 0, before;
		assert_int_equal(remaining_after(store, "5/1h", "a"), 4);
		do {
			before = at;
			at = sluice_store_pretouch(store, at, pieces[i]);
			assert_true(at == 0 || (at > before && at % 4096 == 0));
		} while (at != 0 && ++steps < 10000);
		assert_true(steps <= 5);
		assert_int_equal(mincore(store->header, 9 * MIB, there), 0);
		for (size_t page = 0; page < sizeof there; page++)
			assert_true(there[page] & 1);
		assert_int_equal(remaining_after(store, "5/1h", "a"), 3);
		assert_int_equal(sluice_store_pretouch(store, 9 * MIB, 1), 0);
		assert_null(sluice_store_verify(store));
		sluice_store_close(store);
	}
	struct sluice_store *file = open_or_fail(&(struct sluice_store_options){.file = paths->file, .pretouch = true});
	assert_int_equal(sluice_store_pretouch(file, 0, 1), 0);
	sluice_store_close(file);
}

/* The kernel says how much there is, and a control group can only leave less. */
static void test_memory_available(void **state) {
	uint64_t available = sl_memory_available();
	(void)state;
	assert_true(available > MIB);
	assert_true(available == UINT64_MAX || available <= (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)getpagesize());
}

int main(void) {
#define ENTRY(test) cmocka_unit_test_setup_teardown(test, home_setup, home_teardown)
	const struct CMUnitTest tests[] = {
		ENTRY(test_file_keeps_its_counters),
		ENTRY(test_shared_memory_has_a_name),
		ENTRY(test_private_stores_are_apart),
		ENTRY(test_handles_of_one_file),
		ENTRY(test_unfinished_files_are_finished),
		ENTRY(test_others_files_are_not_unfinished),
		ENTRY(test_foreign_and_damaged_files),
		ENTRY(test_truncated_files),
		ENTRY(test_sizes_and_names),
		ENTRY(test_what_is_no_regular_file),
		ENTRY(test_permissions),
		ENTRY(test_no_space),
		ENTRY(test_remote_filesystems_are_named),
		ENTRY(test_clock_goes_on),
		ENTRY(test_private_clock),
		ENTRY(test_pretouch),
		ENTRY(test_memory_available),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
