/* What a service manager wants to hear, and what it hands over; see notify.h. */
#include "os/notify.h"

#include "base/bytes.h"
#include "os/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { STATE_MAX = 1024, FIRST_GIVEN = 3 };

/* ---- telling -------------------------------------------------------------------------------------------------- */

/* The socket's name: "/path", or "@name" in the abstract namespace, whose first byte is NUL. 0 for what is none. */
static socklen_t name_socket(struct sockaddr_un *address, const char *name) {
	size_t len = strlen(name);
	if ((*name != '/' && *name != '@') || len < 2 || len >= sizeof address->sun_path)
		return 0;
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(address->sun_path, name, len);
	if (*name == '@')
		address->sun_path[0] = '\0';
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
}

void sl_notify(const char *format, ...) {
	char state[STATE_MAX];
	struct sockaddr_un address;
	const char *name = getenv("NOTIFY_SOCKET");
	socklen_t address_len = name == NULL ? 0 : name_socket(&address, name);
	if (address_len == 0)
		return;
	va_list list;
	va_start(list, format);
	vsnprintf(state, sizeof state, format, list);
	va_end(list);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address, address_len);
	close(fd);
}

void sl_notify_reloading(void) {
	sl_notify("RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\nSTATUS=reading the policy again", sl_clock_monotonic() / 1000);
}

/* ---- being told ----------------------------------------------------------------------------------------------- */

static bool read_variable(const char *name, uint64_t *value) {
	const char *text = getenv(name);
	return text != NULL && sl_bytes_to_u64(sl_str(text), value);
}

bool sl_notify_is_mine(const char *pid) {
	uint64_t number;
	return pid != NULL && sl_bytes_to_u64(sl_str(pid), &number) && number == (uint64_t)getpid();
}

sluice_ns sl_notify_watchdog(void) {
	uint64_t us;
	const char *pid = getenv("WATCHDOG_PID");
	if (!read_variable("WATCHDOG_USEC", &us) || us == 0 || us > UINT64_MAX / 1000)
		return 0;
	return pid == NULL || sl_notify_is_mine(pid) ? us * 1000 : 0;
}

/* Takes the name up to the next colon; returns where the one after it begins. */
static const char *take_name(char name[SL_GIVEN_NAME_MAX], const char *names) {
	size_t len = strcspn(names, ":");
	snprintf(name, SL_GIVEN_NAME_MAX, "%.*s", (int)(len < SL_GIVEN_NAME_MAX ? len : SL_GIVEN_NAME_MAX - 1), names);
	return names[len] == ':' ? names + len + 1 : names + len;
}

int sl_given_sockets(struct sl_given list[SL_GIVEN_MAX]) {
	uint64_t count;
	const char *names = getenv("LISTEN_FDNAMES");
	if (!sl_notify_is_mine(getenv("LISTEN_PID")) || getenv("LISTEN_FDS") == NULL)
		return 0;
	if (!read_variable("LISTEN_FDS", &count) || count > SL_GIVEN_MAX)
		return -1;
	for (uint64_t i = 0; i < count; i++) {
		list[i] = (struct sl_given){.fd = FIRST_GIVEN + (int)i};
		if (fcntl(list[i].fd, F_SETFD, FD_CLOEXEC) != 0)
			return -1;
		if (names != NULL)
			names = take_name(list[i].name, names);
	}
	return (int)count;
}
