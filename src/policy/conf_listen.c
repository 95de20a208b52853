/* `listen`: the addresses of each door, and how each is spoken to.
 *
 *   listen = { resp | http | grpc | spop: door }     door = one | [one, ...] | []
 *   one    = ADDRESS | { address: ADDRESS, ... }
 *
 * A door that is not written listens where it always does, one that is written as [] nowhere. This section is read
 * after those that it leans on, tls, users and headers, wherever they stand in the file.
 */
#include "policy/conf.h"

#include "policy/lint.h"

enum { MODE_DEFAULT = 0660, MODE_MAX = 0777, HOST_BYTES_MAX = 253 };

const char *const sl_listen_door_names[SL_LISTEN_DOORS] = {"resp", "http", "grpc", "spop"};

struct listen_nodes {
	const struct sl_yaml *door[SL_LISTEN_DOORS];
};

/* One listener as it is written. */
struct one {
	struct sl_listen listen;
	const struct sl_yaml *address, *mode, *tls, *headers, *details, *hosts;
};

/* The listeners so far; `nodes` are where they stand, NULL for defaults. */
struct listens {
	struct sl_listen *list;
	const struct sl_yaml **nodes;
	uint32_t count;
};

static void keep(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	(void)conf;
	*(const struct sl_yaml **)into = value;
}

/* ---- one listener ---------------------------------------------------------------------------------------------- */

static bool is_unix(const char *address) {
	return strncmp(address, "unix:", 5) == 0;
}

static void read_mode(struct sl_conf *conf, const struct sl_yaml *node, struct sl_listen *listen) {
	struct sluice_bytes text;
	uint32_t mode = 0;
	if (!sl_conf_text(conf, node, "permissions in octal, such as 0660", &text))
		return;
	const char *p = text.data;
	bool good = text.len == 3 || text.len == 4;
	for (size_t i = 0; i < text.len && good; i++) {
		good = p[i] >= '0' && p[i] <= '7';
		mode = mode * 8 + (uint32_t)(p[i] - '0');
	}
	if (!good || mode > MODE_MAX)
		sl_report_found(conf->report, node->place, text, "expected permissions in octal, 3 or 4 digits up to 0777");
	else if (listen->address != NULL && !is_unix(listen->address))
		sl_report_error(conf->report, node->place,
		                "expected a mode for unix sockets only: other sockets have no permissions");
	else
		listen->mode = mode;
}

static void read_headers(struct sl_conf *conf, const struct sl_yaml *node, struct sl_listen *listen) {
	sl_conf_forms(conf, node, &listen->forms);
	if (listen->door == SL_LISTEN_RESP)
		sl_report_error(conf->report, node->place,
		                "expected headers on http, grpc and spop listeners only: no other door has any");
}

static void read_details(struct sl_conf *conf, const struct sl_yaml *node, struct sl_listen *listen) {
	sl_conf_bool(conf, node, &listen->details);
	if (listen->door != SL_LISTEN_HTTP)
		sl_report_error(conf->report, node->place, "expected details on http listeners only: no other door hides any");
}

/* One name, as a Host header is compared with it. */
static void read_host(struct sl_conf *conf, const struct sl_yaml *node, struct sluice_bytes *host) {
	static const char expected[] = "a name that clients use for it, such as limits.example.com";
	struct sluice_bytes text;
	if (!sl_conf_text(conf, node, expected, &text))
		return;
	const char *p = text.data;
	size_t len = text.len != 0 && p[text.len - 1] == '.' ? text.len - 1 : text.len;
	bool good = len != 0 && len <= HOST_BYTES_MAX;
	for (size_t i = 0; i < len && good; i++)
		good = (p[i] >= 'a' && p[i] <= 'z') || (p[i] >= 'A' && p[i] <= 'Z') || (p[i] >= '0' && p[i] <= '9') ||
		       p[i] == '-' || p[i] == '_' || p[i] == '.';
	if (good)
		*host = sl_conf_lower(conf, sl_slice(p, len));
	else
		sl_report_found(conf->report, node->place, text, "expected %s: no port, no *", expected);
}

static void read_hosts(struct sl_conf *conf, const struct sl_yaml *node, struct sl_listen *listen) {
	bool list = node->kind == SL_NODE_LIST;
	struct sluice_bytes *hosts = sl_pool_take(&conf->policy->pool, SL_HOSTS_MAX, sizeof *hosts);
	for (const struct sl_yaml *one = list ? node->first : node; one != NULL; one = list ? one->next : NULL) {
		if (hosts == NULL)
			return;
		if (listen->host_count == SL_HOSTS_MAX) {
			sl_report_error(conf->report, one->place, "expected at most %d hosts of a listener", SL_HOSTS_MAX);
			break;
		}
		read_host(conf, one, &hosts[listen->host_count++]);
	}
	listen->hosts = hosts;
	bool is_beyond = listen->address != NULL && is_unix(listen->address) && !listen->proxy_protocol;
	if (listen->door != SL_LISTEN_HTTP || is_beyond)
		sl_report_error(conf->report, node->place,
		                "expected hosts on http listeners with a port only: web pages reach no other");
}

/* HAProxy's protocol knows no login: whoever can connect decides what a request is. So only who is on this host, or
 * shows a certificate, may. */
static void check_spop(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_listen *listen) {
	struct sl_address address;
	const char *text = listen->address;
	bool here = text == NULL || is_unix(text) || !sl_address_parse(sl_str(text), &address, NULL) ||
	            sl_address_is_loopback(&address);
	if (listen->proxy_protocol)
		sl_report_error(conf->report, node->place, "expected no proxy-protocol here: HAProxy sends none before SPOP");
	if (listen->unprotected)
		sl_report_error(conf->report, node->place,
		                "expected no unprotected here: SPOP has no login, and other hosts need certificates");
	if (!here && !(listen->tls && conf->policy->settings.tls_client_ca != NULL))
		sl_report_error(conf->report, node->place,
		                "expected an address that other hosts don't reach (127.0.0.1, [::1], unix:/path), or tls: true "
		                "with client-ca at the top: SPOP has no login");
}

static void read_one(struct sl_conf *conf, const struct sl_yaml *node, struct one *one) {
	static const struct sl_field fields[] = {
		{"address", keep, offsetof(struct one, address), "an address such as 127.0.0.1:7379"},
		{"tls", keep, offsetof(struct one, tls), NULL},
		{"proxy-protocol", sl_conf_bool, offsetof(struct one, listen.proxy_protocol), NULL},
		{"mode", keep, offsetof(struct one, mode), NULL},
		{"headers", keep, offsetof(struct one, headers), NULL},
		{"details", keep, offsetof(struct one, details), NULL},
		{"hosts", keep, offsetof(struct one, hosts), NULL},
		{"unprotected", sl_conf_bool, offsetof(struct one, listen.unprotected), NULL},
		{NULL, NULL, 0, NULL},
	};
	struct sl_listen *listen = &one->listen;
	if (node->kind == SL_NODE_MAP)
		sl_conf_map(conf, node, "a listener", fields, one);
	else
		one->address = node;
	if (one->address != NULL)
		sl_conf_address(conf, one->address, &listen->address);
	if (one->mode != NULL)
		read_mode(conf, one->mode, listen);
	if (one->headers != NULL)
		read_headers(conf, one->headers, listen);
	if (one->details != NULL)
		read_details(conf, one->details, listen);
	if (one->hosts != NULL)
		read_hosts(conf, one->hosts, listen);
	if (one->tls != NULL)
		sl_conf_bool(conf, one->tls, &listen->tls);
	if (listen->door == SL_LISTEN_SPOP)
		check_spop(conf, node, listen);
	if (one->tls != NULL && listen->tls && conf->tls == NULL)
		sl_report_error(conf->report, one->tls->place,
		                "expected a certificate for it: tls: {certificate: FILE, key: FILE} at the top of the policy");
}

/* ---- all of them ----------------------------------------------------------------------------------------------- */

/* Are two addresses one? Port 0 is a free port each time. */
static bool is_same(const char *a, const char *b) {
	struct sl_address x, y;
	uint32_t port_x, port_y;
	if (is_unix(a) || is_unix(b))
		return strcmp(a, b) == 0;
	return sl_address_parse(sl_str(a), &x, &port_x) && sl_address_parse(sl_str(b), &y, &port_y) && port_x == port_y &&
	       port_x != 0 && memcmp(&x, &y, sizeof x) == 0;
}

/* The complaint stands at whichever of the two is written; a default is not. */
static void check_address(struct sl_conf *conf, const struct listens *all, uint32_t at) {
	for (uint32_t i = 0; i < at; i++) {
		const struct sl_yaml *node = all->nodes[at], *other = all->nodes[i];
		if (!is_same(all->list[i].address, all->list[at].address))
			continue;
		struct sl_quoted address = sl_quote(sl_str(all->list[at].address));
		if (node != NULL && other != NULL)
			sl_report_error(conf->report, node->place, "duplicate address %s: the %s listener in line %u has it",
			                address.text, sl_listen_door_names[all->list[i].door], other->place.line);
		else if (node != NULL || other != NULL)
			sl_report_error(conf->report, (node != NULL ? node : other)->place,
			                "duplicate address %s: %s listens there unless the file says otherwise", address.text,
			                sl_listen_door_names[all->list[node != NULL ? i : at].door]);
		return;
	}
}

static void add_listen(struct sl_conf *conf, const struct sl_yaml *node, uint8_t door, struct listens *all) {
	struct one one = {.listen = {.door = door, .mode = MODE_DEFAULT, .forms = conf->policy->settings.forms}};
	if (node->kind == SL_NODE_LIST) {
		sl_conf_expect(conf, node, SL_NODE_TEXT, "an address, or a mapping such as {address: \"127.0.0.1:7379\"}");
		return;
	}
	read_one(conf, node, &one);
	if (one.listen.address == NULL)
		return;
	if (all->count == SL_LISTENS_MAX) {
		sl_report_error(conf->report, node->place, "expected at most %d addresses of all doors together",
		                SL_LISTENS_MAX);
		return;
	}
	all->nodes[all->count] = one.address;
	all->list[all->count] = one.listen;
	check_address(conf, all, all->count++);
}

/* `listen` is where the section stands, NULL if it doesn't. */
static void add_default(struct sl_conf *conf, const struct sl_yaml *listen, uint8_t door, struct listens *all) {
	static const char *const addresses[SL_LISTEN_DOORS] = {"127.0.0.1:7379", "127.0.0.1:7380"};
	if (addresses[door] == NULL)
		return;
	if (all->count == SL_LISTENS_MAX) {
		sl_report_error(conf->report, listen->place,
		                "expected at most %d addresses of all doors together, with %s, where http listens by default",
		                SL_LISTENS_MAX, addresses[door]);
		return;
	}
	all->list[all->count] = (struct sl_listen){
		.address = addresses[door], .door = door, .mode = MODE_DEFAULT, .forms = conf->policy->settings.forms};
	check_address(conf, all, all->count++);
}

static void add_door(struct sl_conf *conf, const struct sl_yaml *node, uint8_t door, struct listens *all) {
	if (node->kind != SL_NODE_LIST) {
		add_listen(conf, node, door, all);
		return;
	}
	if (node->cut && node->first == NULL) /* [::1]:7379 is a list that breaks off, for YAML */
		sl_conf_expect(conf, node, SL_NODE_TEXT, "an address such as 127.0.0.1:7379, or \"[::1]:7379\" in quotes");
	for (const struct sl_yaml *one = node->first; one != NULL; one = one->next)
		add_listen(conf, one, door, all);
}

void sl_conf_listen(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	static const struct sl_field fields[] = {
		{"resp", keep, offsetof(struct listen_nodes, door[SL_LISTEN_RESP]), NULL},
		{"http", keep, offsetof(struct listen_nodes, door[SL_LISTEN_HTTP]), NULL},
		{"grpc", keep, offsetof(struct listen_nodes, door[SL_LISTEN_GRPC]), NULL},
		{"spop", keep, offsetof(struct listen_nodes, door[SL_LISTEN_SPOP]), NULL},
		{NULL, NULL, 0, NULL},
	};
	struct sl_settings *settings = into;
	struct listen_nodes nodes = {{NULL}};
	struct listens all = {.list = sl_pool_take(&conf->policy->pool, SL_LISTENS_MAX, sizeof *all.list),
	                      .nodes = sl_pool_take(conf->scratch, SL_LISTENS_MAX, sizeof(struct sl_yaml *))};
	size_t errors = conf->report->error_count;
	if (all.list == NULL || all.nodes == NULL)
		return;
	if (value != NULL)
		sl_conf_map(conf, value, "listen", fields, &nodes);
	for (uint8_t door = 0; door < SL_LISTEN_DOORS; door++) {
		if (nodes.door[door] == NULL)
			add_default(conf, value, door, &all);
		else
			add_door(conf, nodes.door[door], door, &all);
	}
	if (all.count == 0 && errors == conf->report->error_count)
		sl_report_error(conf->report, value->place, "expected at least one address of all doors together, found none");
	settings->listens = all.list;
	settings->listen_count = all.count;
	if (conf->report->error_count == 0) /* they lean on sections that may have mistakes */
		sl_lint_listens(conf, all.nodes);
}
