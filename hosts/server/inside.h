/* The server from inside: what its files share. From outside it is server.h.
 *
 *   server.c     sets the table, runs the workers, clears up       signals.c  what signals ask for
 *   entrances.c  the listening sockets: which, and may they?       stop.c     red, then no new ones, then the end
 *   accept.c     connections taken and handed to workers           upgrade.c  another process takes over
 *   reload.c     the policy read again                             takeover.c and this is that one
 *   reader.c     the thread that does so
 *   follow.c     its files watched for changes                     parts.c    what there is one of
 *   manager.c    what systemd is told                          join.c     workers and the nodes that they ask
 *
 * The first worker runs on the thread that started the server and does what there is one of: it accepts and hears
 * signals. All handles here are of its loop; what other threads may call says so. */
#ifndef SL_SERVER_INSIDE_H
#define SL_SERVER_INSIDE_H

#include "hosts/server/net/listen.h"
#include "hosts/server/net/worker.h"
#include "hosts/server/parts.h"
#include "hosts/server/policy_file.h"
#include "hosts/server/server.h"
#include "hosts/server/watch/log.h"
#include "os/notify.h"

enum { SL_SIGNALS = 4, SL_FOLLOWED_MAX = 4, SL_ENTRANCE_KEY_MAX = SL_LISTEN_TEXT_MAX + 16 };

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

/* What a policy was read from. */
struct sl_followed {
	char paths[SL_FOLLOWED_MAX][512]; /* the policy's file, and those that it names for TLS; "" for none */
	uint64_t digest;                  /* of what stood in them when they were last read, taken over or not */
};

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
	struct sl_reader reader;

	uv_signal_t signals[SL_SIGNALS];
	uv_timer_t drain, sample, watchdog;
	enum sl_phase phase;
	struct sl_upgrade upgrade;
	int predecessor; /* the channel to the process that this one takes over from; -1: none */
	bool had_limits, had_users; /* the policy of that one */
	bool introduced; /* by that one, to systemd: this is the main process now */
	uv_poll_t predecessor_poll;
};

/* ---- entrances.c ---- */

/* Opens every address of the policy, or of the command line, taking sockets that were given first; `only_look` opens
 * none. False after a line in the log: an address in use, or one that other hosts reach without users. */
bool sl_entrances_open(struct sl_server *server, const struct sl_settings *settings, bool only_look);
/* Whether the open entrances may be served by these settings: no users, and one that other hosts reach, do not go
 * together. Else the name of the one that may not. Any thread. */
const char *sl_entrances_forbidden(const struct sl_server *server, const struct sl_settings *settings);
/* Has the open entrances answer in the forms that these settings say. Any thread. */
void sl_entrances_refresh(struct sl_server *server, const struct sl_settings *settings);
/* Says on which addresses what is served, and of whom to beware. */
void sl_entrances_announce(const struct sl_server *server);
/* Ends listening. `leave`: another process goes on, so the files of unix sockets stay. Twice is no harm. */
void sl_entrances_close(struct sl_server *server, bool leave);
/* The sockets that systemd listens on for us become gifts. False after a line in the log. */
bool sl_entrances_take_given(struct sl_server *server);

/* ---- join.c ---- */

/* Where the policy's store is in Redis: gives each worker a fleet on its loop. Before they run. False after a line in
 * the log: a password file or certificate that can't be read, an address that is none. */
bool sl_fleets_join(struct sl_server *server, const struct sl_settings *settings);
/* Whether they could be given one, as far as that can be told without connecting. False after a line in the log. */
bool sl_fleets_check(const struct sl_settings *settings);

/* ---- accept.c ---- */

/* Begins to accept, on the first worker's loop. */
void sl_accept_start(struct sl_server *server);
/* Gives an arrival to the worker whose turn it is; it is closed where there is no room for it. */
void sl_accept_place(struct sl_server *server, struct sl_arrival *arrival);

/* ---- reload.c ---- */

/* Makes of a reading of the policy's file, which is freed, what workers use; outcome->problems and messages say what
 * was wrong. NULL: not to be served. Any thread. */
struct sl_shared_policy *sl_policy_prepare(const struct sl_server_options *options, struct sl_policy_reading *reading,
                                           struct sl_reload *outcome, struct sl_followed *followed);
/* Why a policy must not take another one's place, for a person: that one had limits, or users, and this one has none
 * and does not say so. NULL: it may. */
const char *sl_policy_disarms(bool had_limits, bool had_users, const struct sl_settings *now);
/* Appends a line to outcome->messages; `format` as for printf. */
void sl_reload_say(struct sl_reload *outcome, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes the outcome's problems and messages to the log. */
void sl_reload_tell(const struct sl_server_options *options, const struct sl_reload *outcome);
/* Gives a policy's limits their rows in the books; false where there is no memory. */
bool sl_policy_enter(struct sl_server *server, struct sl_shared_policy *policy);
/* Reads the policy again and has all workers use it. On the reader's thread. */
void sl_server_reload(struct sl_server *server, struct sl_reload *outcome);
/* The same, if the file's text has this digest (sl_policy_file_digest()); else nothing is done, and false returned. */
bool sl_server_reload_followed(struct sl_server *server, uint64_t text);
/* Why a policy is fixed. */
#define SL_POLICY_FIXED_TEXT "another process takes over, or the server is going down"
/* From now on no reload, or again; waits for workers that are changing over, never for files. */
void sl_policy_fix(struct sl_server *server, bool fixed);
bool sl_policy_is_fixed(struct sl_server *server);

/* ---- reader.c ---- */

/* Starts the thread; false after a line in the log. */
bool sl_reader_start(struct sl_server *server);
/* Ends it, where it was started. False after a line in the log: it waits for a file, and what it knows must be left to
 * it. At most a second. */
bool sl_reader_end(struct sl_server *server);
/* The three of struct sl_shared, from any thread. */
void *sl_reader_ask(void *server, bool waits);
bool sl_reader_look(void *server, void *ticket, struct sl_reload *outcome);
void sl_reader_leave(void *server, void *ticket);

/* ---- follow.c ---- */

/* To be called once before the first look. */
void sl_follow_begin(struct sl_server *server);
/* Looks at the policy's files, and has them read where they have changed. Returns in how many ns to look again. On the
 * reader's thread. */
sluice_ns sl_follow_look(struct sl_server *server);
/* The digest of what stands in files now, given that of the first one's text. */
uint64_t sl_follow_digest(const struct sl_followed *followed, uint64_t text);

/* ---- signals.c ---- */

/* From here on a signal waits until it is heard; between the program's start and this it has its default effect. */
void sl_signals_hold(void);
void sl_signals_start(struct sl_server *server);
/* From here to the end a further signal changes nothing: the process is ending, with status 0. */
void sl_signals_end(struct sl_server *server);

/* ---- stop.c ---- */

/* The next step to the end: red for the drain time, then no new connections, then no connections. */
void sl_server_stop(struct sl_server *server);
/* Ends listening, and the workers as soon as their answers are given. */
void sl_server_close(struct sl_server *server);
/* Makes the timers that the end needs. */
void sl_stop_init(struct sl_server *server);

/* ---- manager.c ---- */

/* Says that the server serves, begins to feed the watchdog and to sample the books. */
void sl_manager_start(struct sl_server *server);

/* ---- upgrade.c: the process that goes ---- */

/* Remembers how this process was started, before anything is changed. */
void sl_upgrade_remember(void);
/* Starts the program anew, to take over; a line in the log where that can't be. */
void sl_upgrade_begin(struct sl_server *server);
/* Ends an attempt: the other process is killed and reaped. Nothing is done where there is none. */
void sl_upgrade_abandon(struct sl_server *server);

/* ---- takeover.c: the process that comes ---- */

/* Receives the listening sockets, where sl_upgrade_begin() started this process. False after a line in the log. */
bool sl_takeover_begin(struct sl_server *server);
/* Tells the other process that this one serves, and takes its connections over. */
void sl_takeover_ready(struct sl_server *server);

/* ---- shared by all ---- */

/* Closes a handle unless it was closed, or never made. */
static inline void sl_handle_close(uv_handle_t *handle) {
	if (uv_handle_get_loop(handle) != NULL && !uv_is_closing(handle))
		uv_close(handle, NULL);
}

#endif
