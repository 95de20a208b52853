/* What cannot be meant, or will be regretted, of listeners, users and the policy as a whole.
 *
 * As in lint.c, each warning is true whatever the traffic is. A listener is public here when its address is neither
 * loopback nor a unix socket's: a firewall may say otherwise, and a file can't know.
 */
#include "policy/lint.h"

static bool is_public(const struct sl_listen *listen) {
	struct sl_address address;
	return strncmp(listen->address, "unix:", 5) != 0 && sl_address_parse(sl_str(listen->address), &address, NULL) &&
	       !sl_address_is_loopback(&address);
}

static void lint_listen(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_listen *listen) {
	const struct sluice_policy *policy = conf->policy;
	const bool public = is_public(listen), users = policy->settings.user_count != 0;
	const bool certified = listen->tls && policy->settings.tls_client_ca != NULL;
	if (public && !users && !certified && listen->unprotected)
		sl_report_warning(conf->report, node->place,
		                  "unprotected: every client that can connect may check, reset and reload");
	else if (public && !users && !certified)
		sl_report_warning(
			conf->report, node->place,
			"serve refuses to listen where other hosts can reach it and there are no users: add users, or "
			"unprotected: true");
	else if (listen->unprotected)
		sl_report_warning(conf->report, node->place, "unprotected has no effect here: %s",
		                  users       ? "there are users"
		                  : certified ? "clients need certificates"
		                              : "other hosts can't reach this address");
	if (listen->host_count != 0 && (users || certified))
		sl_report_warning(conf->report, node->place, "hosts has no effect here: %s",
		                  users ? "clients have to log in, whatever name they use" : "clients need certificates");
	if (public && users && !listen->tls)
		sl_report_warning(conf->report, node->place,
		                  "passwords and tokens cross the network in clear text here: tls: true protects them");
	if (listen->proxy_protocol && policy->proxy_count == 0 && strncmp(listen->address, "unix:", 5) != 0)
		sl_report_warning(
			conf->report, node->place,
			"no connection is accepted here: proxy-protocol is believed from trusted-proxies only, and there are none");
}

bool sl_lint_has_door(const struct sl_conf *conf, enum sl_listen_door door) {
	const struct sl_settings *settings = &conf->policy->settings;
	bool has = settings->listens == NULL && door != SL_LISTEN_GRPC; /* the defaults have one */
	for (uint32_t i = 0; settings->listens != NULL && i < settings->listen_count; i++)
		has |= settings->listens[i].door == door;
	return has;
}

void sl_lint_proxy(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_network *network) {
	if (network->prefix_bits == (network->v4 ? 96 : 0))
		sl_report_warning(
			conf->report, node->place,
			"every address is trusted: a client that writes X-Forwarded-For chooses the address it is counted by");
}

void sl_lint_listens(struct sl_conf *conf, const struct sl_yaml *const *nodes) {
	const struct sl_settings *settings = &conf->policy->settings;
	bool tls = false;
	for (uint32_t i = 0; i < settings->listen_count; i++) {
		tls |= settings->listens[i].tls;
		if (nodes[i] != NULL)
			lint_listen(conf, nodes[i], &settings->listens[i]);
	}
	if (conf->tls != NULL && !tls)
		sl_report_warning(conf->report, conf->tls->place, "no listener says tls: true: the certificate is not used");
}

void sl_lint_settings(struct sl_conf *conf) {
	const struct sl_settings *settings = &conf->policy->settings;
	if (conf->observe != NULL && conf->policy->observe)
		sl_report_warning(conf->report, conf->observe->place, "all limits are only observed: nobody is denied");
	if (conf->anonymous == NULL || settings->anonymous == 0)
		return;
	if (settings->user_count == 0)
		sl_report_warning(conf->report, conf->anonymous->place,
		                  "anonymous has no effect without users: every client may do everything");
	else if ((settings->anonymous & SL_ROLE_ADMIN) != 0)
		sl_report_warning(conf->report, conf->anonymous->place,
		                  "every client that can connect may reset and reload: anonymous callers are admins");
}
