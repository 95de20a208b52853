/* A file is opened without O_CREAT first: in a sticky folder that all may write (/dev/shm, /tmp) Linux refuses O_CREAT
 * on files of others (fs.protected_regular), and whoever made it is told from whoever found it. What a path names is
 * looked at before it is opened, since opening a pipe or a device may have effects; O_NOFOLLOW and fstat() say it again
 * of what was opened. */
#include "os/file.h"

#include "base/bytes.h"
#include "base/math.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { TEXT_BYTES = 64 << 10 }; /* more than most texts have */

_Static_assert(sizeof(off_t) == 8, "files above 2 GiB, and locks beyond any file");

static int refuse_mode(mode_t mode) {
	if (S_ISREG(mode))
		return 0;
	return S_ISLNK(mode) ? ELOOP : S_ISDIR(mode) ? EISDIR : ENXIO;
}

static int open_regular(const char *path, int flags, mode_t mode) {
	struct stat found;
	int fd, wrong = lstat(path, &found) == 0 ? refuse_mode(found.st_mode) : 0;
	if (wrong != 0) {
		errno = wrong;
		return -1;
	}
	/* O_NONBLOCK: a pipe put there meanwhile must not hold us up */
	fd = open(path, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, mode);
	if (fd < 0)
		return -1;
	wrong = fstat(fd, &found) == 0 ? refuse_mode(found.st_mode) : errno;
	if (wrong != 0) {
		(void)close(fd);
		errno = wrong;
		return -1;
	}
	return fd;
}

/* Lowest first: what is opened takes the lowest number that is free. "/" is there also where no /dev is, and by O_PATH
 * it can't be read, nor written. */
bool sl_file_fill_standard(int filled[SL_FILE_STANDARD], int *count) {
	*count = 0;
	for (int fd = 0; fd < SL_FILE_STANDARD; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		int opened = open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
		if (opened < 0)
			opened = open("/", O_PATH | O_CLOEXEC);
		if (opened < 0)
			return false;
		filled[(*count)++] = opened;
	}
	return true;
}

static int number_of(const char *name) {
	static const char *const names[SL_FILE_STANDARD] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
	static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
	uint64_t number;
	for (int i = 0; i < SL_FILE_STANDARD; i++)
		if (strcmp(name, names[i]) == 0)
			return i;
	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
		size_t len = strlen(folders[i]);
		if (strncmp(name, folders[i], len) == 0 && sl_bytes_to_u64(sl_str(name + len), &number) && number <= INT_MAX)
			return (int)number;
	}
	return -1;
}

int sl_file_descriptor_of(const char *path) {
	char name[64];
	ssize_t len = number_of(path) >= 0 ? -1 : readlink(path, name, sizeof name);
	if (len <= 0 || len == sizeof name)
		return number_of(path);
	name[len] = '\0';
	return number_of(name);
}

bool sl_file_can_be_written(int number) {
	int flags = fcntl(number, F_GETFD), mode = fcntl(number, F_GETFL);
	if (flags < 0 || mode < 0)
		return false;
	errno = EBADF;
	return (flags & FD_CLOEXEC) == 0 && (mode & O_ACCMODE) != O_RDONLY;
}

static int open_or_make(const char *path, bool create, mode_t mode, bool *created) {
	*created = false;
	/* Twice round only where others make and remove the file at the same time. */
	for (int tries = 0; tries < 100; tries++) {
		int fd = open_regular(path, 0, 0);
		if (fd >= 0 || errno != ENOENT || !create)
			return fd;
		fd = open_regular(path, O_CREAT | O_EXCL, mode);
		*created = fd >= 0;
		if (fd >= 0 || errno != EEXIST)
			return fd;
	}
	errno = EBUSY;
	return -1;
}

/* Not moved up once it is open: to close the low descriptor would drop all locks that this process has on the file. */
int sl_file_open(const char *path, bool create, mode_t mode, bool *created) {
	int filled[SL_FILE_STANDARD], count;
	int fd = sl_file_fill_standard(filled, &count) ? open_or_make(path, create, mode, created) : -1;
	int wrong = errno;
	while (count > 0)
		(void)close(filled[--count]);
	errno = wrong;
	return fd;
}

static bool fail(struct sluice_error *error, const char *why) {
	snprintf(error->text, sizeof error->text, "%s", why);
	return false;
}

/* Opened without blocking: whoever put a pipe there meanwhile must not hold us up. -1: `error` says why. */
static int open_to_read(const char *path, bool or_pipe, struct sluice_error *error) {
	struct stat found;
	bool waits = or_pipe && stat(path, &found) == 0 && S_ISFIFO(found.st_mode), good;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (waits ? 0 : O_NONBLOCK));
	if (fd < 0 || fstat(fd, &found) != 0)
		good = fail(error, strerror(errno));
	else if (S_ISDIR(found.st_mode))
		good = fail(error, strerror(EISDIR));
	else if (!S_ISREG(found.st_mode) && !(waits && S_ISFIFO(found.st_mode)))
		good = fail(error, S_ISFIFO(found.st_mode) ? "it is a pipe: a file is needed" : "it is not a regular file");
	else
		good = true;
	if (good)
		return fd;
	if (fd >= 0)
		(void)close(fd);
	return -1;
}

int sl_file_read_all(int fd, void *bytes, size_t room, size_t *len) {
	ssize_t got = 1;
	*len = 0;
	while (*len < room && got != 0) {
		got = read(fd, (char *)bytes + *len, room - *len);
		if (got < 0 && errno != EINTR)
			return errno;
		*len += got > 0 ? (size_t)got : 0;
	}
	return 0;
}

bool sl_file_read(const char *path, bool or_pipe, void *bytes, size_t room, size_t *len, struct sluice_error *error) {
	int fd = open_to_read(path, or_pipe, error);
	*len = 0;
	if (fd < 0)
		return false;
	int wrong = sl_file_read_all(fd, bytes, room, len);
	(void)close(fd);
	return wrong == 0 || fail(error, strerror(wrong));
}

char *sl_file_read_rest(int fd, size_t most, size_t *len, struct sluice_error *error) {
	char *text = NULL, *more;
	size_t room = 0, got;
	*len = 0;
	do {
		room = room == 0 ? sl_min(TEXT_BYTES, most + 1) : sl_min(2 * room, most + 1);
		more = realloc(text, room);
		int wrong = more == NULL ? ENOMEM : sl_file_read_all(fd, more + *len, room - *len, &got);
		text = more == NULL ? text : more;
		if (wrong != 0) {
			free(text);
			(void)fail(error, wrong == ENOMEM ? "out of memory" : strerror(wrong));
			return NULL;
		}
		*len += got;
	} while (*len == room && room <= most);
	return text;
}

char *sl_file_read_text(const char *path, bool or_pipe, size_t most, size_t *len, struct sluice_error *error) {
	int fd = open_to_read(path, or_pipe, error);
	*len = 0;
	if (fd < 0)
		return NULL;
	char *text = sl_file_read_rest(fd, most, len, error);
	(void)close(fd);
	return text;
}

ssize_t sl_file_read_at(int fd, void *bytes, size_t len, uint64_t at) {
	size_t done = 0;
	while (done < len) {
		ssize_t got = pread(fd, (char *)bytes + done, len - done, (off_t)(at + done));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

/* Whether the process may make a file so long: the system would end it by SIGXFSZ, not only refuse. */
static bool may_be_so_long(uint64_t bytes) {
	struct rlimit most;
	return getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur == RLIM_INFINITY || bytes <= most.rlim_cur;
}

int sl_file_set_length(int fd, uint64_t bytes) {
	if (!may_be_so_long(bytes))
		return EFBIG;
	while (ftruncate(fd, (off_t)bytes) != 0)
		if (errno != EINTR)
			return errno;
	return 0;
}

bool sl_file_has_changed(const char *path, size_t len) {
	struct stat now;
	return stat(path, &now) != 0 || (uint64_t)now.st_size != len;
}

int sl_file_id_at(const char *path, struct sl_file_id *id) {
	struct stat found;
	if (lstat(path, &found) != 0)
		return errno;
	*id = (struct sl_file_id){found.st_dev, found.st_ino};
	return 0;
}

bool sl_file_bytes_at(const char *path, uint64_t *bytes) {
	struct stat found;
	if (lstat(path, &found) != 0 || !S_ISREG(found.st_mode))
		return false;
	*bytes = (uint64_t)found.st_size;
	return true;
}

int sl_file_id_of(int fd, struct sl_file_id *id, uint64_t *bytes) {
	struct stat found;
	if (fstat(fd, &found) != 0)
		return errno;
	*id = (struct sl_file_id){found.st_dev, found.st_ino};
	*bytes = (uint64_t)found.st_size;
	return 0;
}

const char *sl_file_remote_kind(uint64_t type) {
	static const struct {
		uint32_t type;
		const char *name;
	} kinds[] = {
		{0x6969, "NFS"},        {0x517b, "SMB"},        {0xff534d42, "CIFS"}, {0xfe534d42, "SMB"},
		{0x01021997, "9P"},     {0x5346414f, "AFS"},    {0x6b414653, "AFS"},  {0x00c36400, "Ceph"},
		{0x73757245, "Coda"},   {0x564c, "NCP"},        {0x01161970, "GFS2"}, {0x7461636f, "OCFS2"},
		{0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},   {0x65735546, "FUSE"}, {0x786f4256, "a shared folder"},
		{0xaad7aaea, "PanFS"},  {0x19830326, "BeeGFS"},
	};
	/* f_type is signed on some machines: CIFS then comes with its sign spread */
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (kinds[i].type == (uint32_t)type)
			return kinds[i].name;
	return NULL;
}

const char *sl_file_remote_kind_of(int fd) {
	struct statfs filesystem;
	return fstatfs(fd, &filesystem) == 0 ? sl_file_remote_kind((uint64_t)filesystem.f_type) : NULL;
}

int sl_file_reserve(int fd, uint64_t bytes) {
	int err;
	do
		err = posix_fallocate(fd, 0, (off_t)bytes);
	while (err == EINTR);
	return err;
}

void sl_file_find_written(int fd, uint64_t end, uint64_t *from, uint64_t *to) {
	off_t data = lseek(fd, (off_t)*from, SEEK_DATA), hole;
	bool nothing = data < 0 && errno == ENXIO;
	if (data >= (off_t)*from)
		*from = (uint64_t)data;
	if (nothing || *from >= end) {
		*from = *to = end;
		return;
	}
	hole = lseek(fd, (off_t)*from, SEEK_HOLE);
	*to = hole > (off_t)*from && (uint64_t)hole < end ? (uint64_t)hole : end;
}

size_t sl_file_write(int fd, const void *bytes, size_t len) {
	size_t done = 0;
	while (done < len) {
		ssize_t wrote = write(fd, (const char *)bytes + done, len - done);
		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			break;
		done += (size_t)wrote;
	}
	return done;
}

int sl_file_sync(int fd, const char *path) {
	char copy[PATH_MAX];
	size_t length = strlen(path);
	int folder, err = fsync(fd) == 0 ? 0 : errno;
	if (err != 0)
		return err;
	if (length >= sizeof copy)
		return ENAMETOOLONG;
	memcpy(copy, path, length + 1);
	folder = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return errno == EACCES ? 0 : errno; /* a folder that may be written but not read: its entry is left to time */
	if (fsync(folder) != 0 && errno != EINVAL)
		err = errno;
	(void)close(folder);
	return err;
}
