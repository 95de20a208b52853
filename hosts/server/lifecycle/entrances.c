/* The listening sockets: which there are to be, and whether they may.
 *
 * An address comes from the policy, or from the command line instead of all that the policy says of that door. Sockets
 * that this process was given are used before one is made: those that systemd listens on, in place of the door's
 * addresses; and those of the process that it takes over from, each for the address that it was made for.
 *
 * Where no users are configured everybody who reaches an entrance may do everything. So an address that other hosts
 * reach is refused then, at the start and at every reload, unless somebody has said that this is meant. */
#include "hosts/server/lifecycle/entrances.h"

#include <stdio.h>
#include <unistd.h>

static const struct sl_door *const doors[SL_LISTEN_DOORS] = {
	[SL_LISTEN_RESP] = &sl_door_resp,
	[SL_LISTEN_HTTP] = &sl_door_http,
	[SL_LISTEN_GRPC] = &sl_door_grpc,
	[SL_LISTEN_SPOP] = &sl_door_spop,
};

/* An entrance to be opened. */
struct wanted {
	uint32_t door;
	const char *address; /* NULL: it was given */
	struct sl_listen listen;
	char key[SL_ENTRANCE_KEY_MAX];
};

/* ---- what is wanted -------------------------------------------------------------------------------------------- */

static uint32_t listen_of(const struct sl_door *door) {
	uint32_t listen = 0;
	while (doors[listen] != door)
		listen++;
	return listen;
}

/* The settings of the entrance that is the number-th of its door. */
static struct sl_listen nth_of(const struct sl_settings *settings, uint32_t door, uint32_t number) {
	const struct sl_listen *listen = sl_settings_listen(settings, door, number);
	return listen != NULL ? *listen
	                      : (struct sl_listen){.door = (uint8_t)door, .mode = 0660, .forms = settings->forms};
}

static struct sl_gift *find_gift(struct sl_server *server, const char *key) {
	for (uint32_t i = 0; i < server->gift_count; i++)
		if (server->gifts[i].fd >= 0 && strcmp(server->gifts[i].key, key) == 0)
			return &server->gifts[i];
	return NULL;
}

static void name_given(char key[SL_ENTRANCE_KEY_MAX], uint32_t door, uint32_t number) {
	snprintf(key, SL_ENTRANCE_KEY_MAX, "%s given %u", sl_listen_door_names[door], number);
}

static bool want(struct wanted list[SL_LISTENS_MAX], uint32_t *count, const struct sl_listen *listen,
                 const char *address) {
	if (*count == SL_LISTENS_MAX) {
		sl_log(SL_LOG_ERROR, "more than %d addresses to listen on", SL_LISTENS_MAX);
		return false;
	}
	struct wanted *wanted = &list[(*count)++];
	*wanted = (struct wanted){.door = listen->door, .listen = *listen, .address = address};
	if (address != NULL)
		snprintf(wanted->key, sizeof wanted->key, "%s %s", sl_listen_door_names[listen->door], address);
	return true;
}

/* The entrances of a door that systemd gave; false where there are too many. */
static bool want_given(struct sl_server *server, const struct sl_settings *settings, uint32_t door,
                       struct wanted list[SL_LISTENS_MAX], uint32_t *count) {
	char key[SL_ENTRANCE_KEY_MAX];
	for (uint32_t number = 0;; number++) {
		struct sl_listen listen = nth_of(settings, door, number);
		name_given(key, door, number);
		if (find_gift(server, key) == NULL)
			return true;
		if (!want(list, count, &listen, NULL))
			return false;
		memcpy(list[*count - 1].key, key, sizeof key);
	}
}

static bool want_door(struct sl_server *server, const struct sl_settings *settings, uint32_t door,
                      struct wanted list[SL_LISTENS_MAX], uint32_t *count) {
	const char *instead = server->options->listen[door];
	uint32_t before = *count;
	if (instead != NULL) {
		struct sl_listen plain = {.door = (uint8_t)door, .mode = 0660, .forms = settings->forms};
		return want(list, count, &plain, instead);
	}
	if (!want_given(server, settings, door, list, count))
		return false;
	if (*count != before)
		return true;
	for (uint32_t i = 0; i < settings->listen_count; i++)
		if (settings->listens[i].door == door &&
		    !want(list, count, &settings->listens[i], settings->listens[i].address))
			return false;
	return true;
}

/* ---- opening --------------------------------------------------------------------------------------------------- */

/* Whether whoever connects has to show who he is: users, where the protocol knows a login, or certificates of clients.
 */
static bool is_guarded(const struct sl_settings *settings, const struct sl_door *door, bool tls) {
	return (settings->user_count != 0 && door != &sl_door_spop) || (tls && settings->tls_client_ca != NULL);
}

static bool may_be_public(const struct sl_server *server, const struct sl_listen *listen) {
	return listen->door != SL_LISTEN_SPOP && (listen->unprotected || server->options->unprotected);
}

/* Which of the policy's listeners of its door an entrance is when it is opened. That of the command line has another
 * address than the first one, and who may ask it by which name, and is told what, is as that says. */
static uint32_t number_of(const struct sl_server *server, uint32_t door) {
	uint32_t number = 0;
	for (uint32_t i = 0; i < server->entrance_count; i++)
		number += server->entrances[i].door == doors[door];
	return number;
}

static void set_up_entrance(struct sl_server *server, struct sl_entrance *entrance, const struct wanted *wanted) {
	entrance->door = doors[wanted->door];
	entrance->server = server;
	entrance->may_be_public = may_be_public(server, &wanted->listen);
	atomic_store_explicit(&entrance->listener.number, number_of(server, wanted->door), memory_order_relaxed);
	entrance->listener.forms = wanted->listen.forms;
	entrance->listener.tls = wanted->listen.tls;
	entrance->listener.proxy_protocol = wanted->listen.proxy_protocol;
	memcpy(entrance->key, wanted->key, sizeof entrance->key);
}

static bool open_one(struct sl_server *server, const struct sl_settings *settings, const struct wanted *wanted,
                     bool only_look) {
	struct sl_entrance *entrance = &server->entrances[server->entrance_count];
	struct sluice_error error = {.text = ""};
	struct sl_gift *gift = find_gift(server, wanted->key);
	char option[16];
	bool good;
	snprintf(option, sizeof option, "--%s", sl_listen_door_names[wanted->door]);
	if (gift != NULL) {
		/* a socket that systemd made is systemd's to remove */
		good = sl_listener_adopt(&entrance->listener, gift->fd, wanted->address != NULL, &error);
		if (good)
			gift->fd = -1;
	} else {
		struct sl_listen_ask ask = {
			.text = wanted->address,
			.option = option,
			.mode = wanted->listen.mode,
			.local_only = !is_guarded(settings, doors[wanted->door], wanted->listen.tls) &&
		                  !may_be_public(server, &wanted->listen),
			.no_login = wanted->door == SL_LISTEN_SPOP,
			.only_look = only_look,
		};
		good = sl_listen(&entrance->listener, &ask, &error);
	}
	if (!good) {
		sl_log(SL_LOG_ERROR, "%s", error.text);
		return false;
	}
	set_up_entrance(server, entrance, wanted);
	server->entrance_count++;
	return true;
}

/* Sockets of the process before that nobody wants any more. */
static void close_gifts(struct sl_server *server) {
	for (uint32_t i = 0; i < server->gift_count; i++)
		if (server->gifts[i].fd >= 0)
			close(server->gifts[i].fd);
	server->gift_count = 0;
}

bool sl_entrances_open(struct sl_server *server, const struct sl_settings *settings, bool only_look) {
	struct wanted list[SL_LISTENS_MAX];
	uint32_t count = 0;
	for (uint32_t door = 0; door < SL_LISTEN_DOORS; door++)
		if (!want_door(server, settings, door, list, &count))
			return false;
	for (uint32_t i = 0; i < count; i++)
		if (!open_one(server, settings, &list[i], only_look))
			return false;
	close_gifts(server);
	const char *forbidden = sl_entrances_forbidden(server, settings);
	if (forbidden == NULL)
		return true;
	sl_log(SL_LOG_ERROR,
	       "refusing to serve on %s: other hosts can reach it and the policy has no users; add users, or "
	       "say --unprotected",
	       forbidden);
	return false;
}

/* ---- afterwards ------------------------------------------------------------------------------------------------ */

const char *sl_entrances_forbidden(const struct sl_server *server, const struct sl_settings *settings) {
	for (uint32_t i = 0; i < server->entrance_count; i++) {
		const struct sl_entrance *entrance = &server->entrances[i];
		if (!entrance->listener.loopback && !entrance->may_be_public &&
		    !is_guarded(settings, entrance->door, entrance->listener.tls))
			return entrance->listener.name;
	}
	return NULL;
}

/* Was it opened for an address of the policy's, not of the command line or by systemd? */
static bool is_of_policy(const struct sl_server *server, const struct sl_entrance *entrance) {
	uint32_t door = listen_of(entrance->door);
	char given[SL_ENTRANCE_KEY_MAX];
	snprintf(given, sizeof given, "%s given ", sl_listen_door_names[door]);
	return server->options->listen[door] == NULL && strncmp(entrance->key, given, strlen(given)) != 0;
}

/* The first listener of the entrance's door that none has taken: with its address, or with any. */
static uint32_t take_listener(const struct sl_entrance *entrance, const struct sl_settings *settings, bool any,
                              bool taken[SL_LISTENS_MAX]) {
	uint32_t door = listen_of(entrance->door), number = 0;
	const char *address = entrance->key + strlen(sl_listen_door_names[door]) + 1;
	for (uint32_t i = 0; i < settings->listen_count; i++)
		if (settings->listens[i].door == door) {
			if (!taken[i] && (any || strcmp(settings->listens[i].address, address) == 0)) {
				taken[i] = true;
				return number;
			}
			number++;
		}
	return SL_LISTENER_NONE;
}

/* A reload may list the listeners in another order, more of them or fewer. An entrance goes on as the one with its
 * address; as the next that no entrance is, where that has changed; and as none, where it is gone: it tells strangers
 * as little as can be, until a restart closes it. */
static void number_anew(struct sl_server *server, const struct sl_settings *settings) {
	bool taken[SL_LISTENS_MAX] = {false}, found[SL_LISTENS_MAX] = {false};
	for (int any = 0; any <= 1; any++)
		for (uint32_t i = 0; i < server->entrance_count; i++) {
			struct sl_entrance *entrance = &server->entrances[i];
			if (found[i] || !is_of_policy(server, entrance))
				continue;
			uint32_t number = take_listener(entrance, settings, any != 0, taken);
			found[i] = number != SL_LISTENER_NONE;
			if (found[i] || any != 0)
				atomic_store_explicit(&entrance->listener.number, number, memory_order_relaxed);
		}
}

void sl_entrances_refresh(struct sl_server *server, const struct sl_settings *settings) {
	number_anew(server, settings);
	for (uint32_t i = 0; i < server->entrance_count; i++) {
		struct sl_entrance *entrance = &server->entrances[i];
		uint32_t door = listen_of(entrance->door);
		bool instead = server->options->listen[door] != NULL;
		uint32_t forms = instead ? settings->forms : nth_of(settings, door, entrance->listener.number).forms;
		atomic_store_explicit(&entrance->listener.forms, forms, memory_order_relaxed);
	}
}

static void warn_of(const struct sl_entrance *entrance, const struct sl_settings *settings) {
	const struct sl_listener *listener = &entrance->listener;
	if (listener->loopback)
		return;
	if (!is_guarded(settings, entrance->door, listener->tls)) {
		sl_log(SL_LOG_WARNING, "%s on %s is unprotected: every client that can connect may do everything",
		       entrance->door->name, listener->name);
		if (entrance->door == &sl_door_http && nth_of(settings, SL_LISTEN_HTTP, listener->number).host_count == 0)
			sl_log(SL_LOG_WARNING,
			       "http on %s answers to localhost, addresses and names without a dot only: list other names in "
			       "hosts: [NAME]",
			       listener->name);
	} else if (!listener->tls)
		sl_log(SL_LOG_WARNING, "%s on %s has no TLS: passwords and tokens can be read on their way",
		       entrance->door->name, listener->name);
}

void sl_entrances_announce(const struct sl_server *server) {
	for (uint32_t i = 0; i < server->entrance_count; i++)
		sl_log(SL_LOG_INFO, "%s on %s", server->entrances[i].door->name, server->entrances[i].listener.name);
	for (uint32_t i = 0; i < server->entrance_count; i++)
		warn_of(&server->entrances[i], sl_policy_settings(server->first->policy));
}

void sl_entrances_close(struct sl_server *server, bool leave) {
	for (uint32_t i = 0; i < server->entrance_count; i++) {
		struct sl_entrance *entrance = &server->entrances[i];
		if (entrance->polled)
			sl_handle_close((uv_handle_t *)&entrance->poll);
		if (leave)
			sl_listener_leave(&entrance->listener);
		else
			sl_listener_close(&entrance->listener);
	}
	sl_handle_close((uv_handle_t *)&server->pause);
	close_gifts(server);
}

/* ---- what systemd gives ---------------------------------------------------------------------------------------- */

/* By its name; a name that says nothing (the unit's own, "unknown") is taken by its place: resp, then http. */
static uint32_t door_of_given(const struct sl_given *given, uint32_t place) {
	for (uint32_t door = 0; door < SL_LISTEN_DOORS; door++)
		if (strcmp(given->name, sl_listen_door_names[door]) == 0)
			return door;
	return place <= SL_LISTEN_HTTP ? place : SL_LISTEN_DOORS;
}

bool sl_entrances_take_given(struct sl_server *server) {
	struct sl_given list[SL_GIVEN_MAX];
	uint32_t of_door[SL_LISTEN_DOORS] = {0};
	int count = sl_given_sockets(list);
	if (count < 0) {
		sl_log(SL_LOG_ERROR, "LISTEN_FDS does not say which sockets this process was given");
		return false;
	}
	for (int i = 0; i < count; i++) {
		uint32_t door = door_of_given(&list[i], (uint32_t)i);
		if (door == SL_LISTEN_DOORS || server->gift_count == SL_LISTENS_MAX) {
			sl_log(SL_LOG_ERROR,
			       "socket %d of those given is named '%s': expected FileDescriptorName=resp, http, grpc or spop",
			       i + 1, list[i].name);
			return false;
		}
		struct sl_gift *gift = &server->gifts[server->gift_count++];
		gift->fd = list[i].fd;
		name_given(gift->key, door, of_door[door]++);
	}
	return true;
}
