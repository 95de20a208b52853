/* The server from inside: what its files share. From outside it is server.h.
 *
 *   server.c     sets the table, runs the workers, clears up       signals.c  what signals ask for
 *   entrances.c  the listening sockets: which, and may they?       stop.c     red, then no new ones, then the end
 *   accept.c     connections taken and handed to workers           upgrade.c  another process takes over
 *   reload.c     the policy read again                             takeover.c and this is that one
 *   reader.c     the thread that does so
 *   follow.c     its files watched for changes                     parts.c    what there is one of
 *   manager.c    what systemd is told                          join.c     workers and the nodes that they ask
 *   pretouch.c   the store's memory, brought in ahead      readiness.c  until nodes answer
 *
 * The first worker runs on the thread that started the server and does what there is one of: it accepts and hears
 * signals. All handles here are of its loop; what other threads may call says so. */
#ifndef SL_SERVER_INSIDE_H
#define SL_SERVER_INSIDE_H

#include "hosts/server/lifecycle/followed.h"
#include "hosts/server/net/listen.h"
#include "hosts/server/net/worker.h"
#include "hosts/server/lifecycle/parts.h"
#include "hosts/server/lifecycle/policy_file.h"
#include "hosts/server/server.h"
#include "hosts/server/watch/log.h"
#include "hosts/server/watch/store_room.h"
#include "os/notify.h"

enum { SL_SIGNALS = 4, SL_ENTRANCE_KEY_MAX = SL_LISTEN_TEXT_MAX + 16 };

struct sl_server;

/* A listening socket and the door behind it. */
struct sl_entrance {
	uv_poll_t poll;
	bool polled; /* `poll` is a handle of the loop */
	struct sl_listener listener;
	const struct sl_door *door;
	bool may_be_public; /* without users: `unprotected` */
	/* What it was asked for by, such as "resp 127.0.0.1:0" or "resp given 0": by this the process that takes over at
	 * an upgrade finds the socket that it is to listen on. */
	char key[SL_ENTRANCE_KEY_MAX];
	struct sl_server *server;
};

/* A listening descriptor that this process was given, by systemd or by the one that it takes over from. */
struct sl_gift {
	int fd; /* -1: used */
	char key[SL_ENTRANCE_KEY_MAX];
};

enum sl_phase { SL_SERVING, SL_RED, SL_CLOSING };

/* The other process of an upgrade. */
struct sl_upgrade {
	int channel; /* to it; -1: no upgrade is under way */
	int pid;
	bool handed_over; /* it serves; this process is ending */
	uv_poll_t poll;
	uv_timer_t limit;
};

/* The thread that reads the policy's files; its own but for what `lock` guards. */
struct sl_reader {
	pthread_t thread;
	bool started;
	pthread_mutex_t lock; /* guards the next five */
	pthread_cond_t changed;
	bool stop, ended;
	struct sl_reload_ticket *first; /* waiting, in order */
	uint32_t count;
	struct sl_followed followed; /* what was read last, and its digest; before the thread starts, the starter's */
	uint64_t seen;               /* by follow.c: of the files' sizes and times */
	bool unsettled;              /* likewise: they have changed, and are read when they change no more */
	uint32_t empty_looks;        /* likewise: how often the policy was seen empty since */
	bool was_piped;              /* likewise: what the server began with was no file, so there is none to follow */
};

/* The thread that brings in the store's memory. */
struct sl_pretouch {
	uv_timer_t delay;
	pthread_t thread;
	bool started;
	_Atomic bool stop;
};

struct sl_server {
	const struct sl_server_options *options;
	struct sluice_store *store;
	struct sl_parts parts;
	struct sl_worker *workers;
	uint32_t worker_count, next_worker;
	_Atomic uint64_t next_id; /* of connections */

	struct sl_gift gifts[2 * SL_LISTENS_MAX];
	uint32_t gift_count;
	struct sl_entrance entrances[SL_LISTENS_MAX];
	uint32_t entrance_count;
	uv_timer_t pause; /* accepting rests after an error that more tries would repeat */
	int reserve;      /* a descriptor to give up when there is none left */
	struct sl_log_bound complained;

	pthread_mutex_t policy_lock; /* guards the next two; nobody reads a file with it in hand */
	struct sl_shared_policy *policy;
	bool policy_is_fixed;           /* no reload: the workers are ending, or another process takes over */
	struct sl_shared_policy *first; /* the policy that the process began with */
	struct sl_shared_policy *retired; /* that were in force, the newest first; the reader's, which frees them */
	struct sl_reader reader;
	struct sl_pretouch pretouch;

	uv_signal_t signals[SL_SIGNALS];
	uv_timer_t drain, sample, watchdog, room, readiness;
	struct sl_store_room store_room;
	enum sl_phase phase;
	struct sl_upgrade upgrade;
	int predecessor; /* the channel to the process that this one takes over from; -1: none */
	uint32_t had;    /* SL_ARMED_ bits of the policy of that one */
	bool predecessor_was_ready; /* it wanted requests, so balancers are to see no gap */
	bool introduced; /* by that one, to systemd: this is the main process now */
	uv_poll_t predecessor_poll;
};

/* Closes a handle unless it was closed, or never made. */
static inline void sl_handle_close(uv_handle_t *handle) {
	if (uv_handle_get_loop(handle) != NULL && !uv_is_closing(handle))
		uv_close(handle, NULL);
}

#endif
