/* Files that several processes map: opening only what may be shared so, reserving its space. */
#ifndef SL_FILE_H
#define SL_FILE_H

#include "sluice.h"

#include <sys/types.h>

enum { SL_FILE_STANDARD = 3 }; /* standard input, output and error */

/* Opens something that can be neither read nor written (EBADF) in place of each standard descriptor that is closed, so
 * that nothing which is opened later takes its number, and gets what is printed. filled[0..*count) are what was opened,
 * to be closed or kept. False: errno says why not. */
SLUICE_MUST_USE bool sl_file_fill_standard(int filled[SL_FILE_STANDARD], int *count);

/* The number of the descriptor that a path stands for: /dev/stderr, /dev/fd/7, /proc/self/fd/7, or a link to such a
 * name, which images have at the usual place of a log; -1: it stands for none. Whether it is open is not looked at. */
int sl_file_descriptor_of(const char *path);

/* Whether a descriptor of that number was inherited, and can be written to; false with errno. What this process opened
 * itself was not inherited, and is close-on-exec: a store, or what was put in place of a closed standard descriptor. */
bool sl_file_can_be_written(int number);

/* Opens a regular file for reading and writing: never a symbolic link, a folder, a pipe or a device, never as a
 * standard descriptor, and never one that a program started by this one would inherit.
 *  mode     permissions of a file that is made
 *  create   makes a file where there is none; *created says whether it did
 * Returns the descriptor, or -1 with errno: ELOOP for a symbolic link, EISDIR for a folder, ENXIO for what is neither
 * that nor a file. */
int sl_file_open(const char *path, bool create, mode_t mode, bool *created);

/* Reads the first `room` bytes of a regular file, whatever links lead to it; a folder, a pipe or a device is refused
 * without waiting for it.
 *  or_pipe  a pipe will do as well, and is waited for: who writes it, and to the end of what he writes
 * *len says how many were read. False: error->text says why not, without the path. */
SLUICE_MUST_USE bool sl_file_read(const char *path, bool or_pipe, void *bytes, size_t room, size_t *len,
                                  struct sluice_error *error);

/* The same of a whole file of at most `most` bytes, into memory that grows with what is read, to be freed. Of a longer
 * file *len is one more than `most`. NULL: error->text says why not, also where the system gives no memory. */
SLUICE_MUST_USE char *sl_file_read_text(const char *path, bool or_pipe, size_t most, size_t *len,
                                        struct sluice_error *error);

/* The same of all that a descriptor still has, of any kind: standard input, for one. It stays open. */
SLUICE_MUST_USE char *sl_file_read_rest(int fd, size_t most, size_t *len, struct sluice_error *error);

/* Reads to the end of what a descriptor has, or until `room` bytes are there. 0 or an errno; *len says how many, either
 * way. */
SLUICE_MUST_USE int sl_file_read_all(int fd, void *bytes, size_t room, size_t *len);

/* Has the file that a path names another size than `len`, or is there none? Then it has changed since it was read. */
bool sl_file_has_changed(const char *path, size_t len);

/* What a file is known by, as long as it exists. */
struct sl_file_id {
	dev_t device;
	ino_t inode;
};

/* The file that a path names, not following a last symbolic link; by path, so that nothing is opened and closed. 0 or
 * an errno. */
int sl_file_id_at(const char *path, struct sl_file_id *id);

/* How long the regular file is that a path names; by path, as above. False: it names none. */
bool sl_file_bytes_at(const char *path, uint64_t *bytes);

/* The file of a descriptor, and its size. 0 or an errno. */
int sl_file_id_of(int fd, struct sl_file_id *id, uint64_t *bytes);

static inline bool sl_file_id_equal(const struct sl_file_id *a, const struct sl_file_id *b) {
	return a->device == b->device && a->inode == b->inode;
}

/* The kind of a filesystem, if it is one on which processes of several hosts, or none of the kernel's page cache, may
 * stand after a mapping; else NULL.
 *  type  statfs.f_type */
const char *sl_file_remote_kind(uint64_t type);

/* The same for the filesystem that a file is on. */
const char *sl_file_remote_kind_of(int fd);

/* Takes space for the first `bytes` of a file, now, and makes it at least that long: no write into a mapping of it will
 * end in SIGBUS because the disk is full. Returns 0 or an errno: ENOSPC, EFBIG, EDQUOT... O(bytes) at worst. */
int sl_file_reserve(int fd, uint64_t bytes);

/* Reads `len` bytes of a file from `at` on, however few the system gives at a time. Returns how many there were, fewer
 * only at the file's end, or -1 with errno. */
ssize_t sl_file_read_at(int fd, void *bytes, size_t len, uint64_t at);

/* Makes a file so long, whatever interrupts. Returns 0 or an errno: EFBIG also above RLIMIT_FSIZE. */
int sl_file_set_length(int fd, uint64_t bytes);

/* Finds where a file has been written.
 *  from  in: where to look from; out: where what was written begins; `end` where nothing was after it
 *  to    where that ends, at most `end`
 * All between reads as zero. Where the filesystem can't say, all of it counts as written. */
void sl_file_find_written(int fd, uint64_t end, uint64_t *from, uint64_t *to);

/* Writes bytes to a descriptor that blocks, all of them unless that fails. Returns how many; fewer than `len` with
 * errno. */
size_t sl_file_write(int fd, const void *bytes, size_t len);

/* Writes a file, and the folder's entry of its path, to disk. Returns 0 or an errno. */
int sl_file_sync(int fd, const char *path);

#endif
