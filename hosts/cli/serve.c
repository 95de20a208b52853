/* serve: the options of the command line, given to the server. All else is in hosts/server. */
#include "hosts/cli/cli.h"
#include "hosts/server/server.h"
#include "policy/policy.h"

#define DRAIN_NS_MAX ((sluice_ns)600 * 1000000000) /* as the policy's own */

struct serve {
	struct sl_server_options server;
	bool only_check;
};
#define TO(field) offsetof(struct serve, field)

enum { CONFIG, RESP, HTTP, GRPC, SPOP, THREADS, DRAIN, UNPROTECTED, CHECK_CONFIG };

static const struct sl_option options[] = {
	[CONFIG] = {"config", 'c', "FILE", "the policy; it is read again when it changes, and at SIGHUP",
                SL_TEXT(TO(server.policy_file))},
	[RESP] = {"resp", 0, "ADDR",
              "where to speak the Redis protocol, instead of where the policy says;\n"
              "127.0.0.1:7379, [::1]:7379 or unix:/path; port 0 picks a free one",
              SL_TEXT(TO(server.listen[SL_LISTEN_RESP]))},
	[HTTP] = {"http", 0, "ADDR", "where to speak HTTP, likewise (127.0.0.1:7380)",
              SL_TEXT(TO(server.listen[SL_LISTEN_HTTP]))},
	[GRPC] = {"grpc", 0, "ADDR", "where to speak gRPC to Envoy, likewise; nowhere unless it is said",
              SL_TEXT(TO(server.listen[SL_LISTEN_GRPC]))},
	[SPOP] = {"spop", 0, "ADDR", "where to speak SPOP to HAProxy, on this host; nowhere unless it is said",
              SL_TEXT(TO(server.listen[SL_LISTEN_SPOP]))},
	[THREADS] = {"threads", 0, "N", "how many threads serve; as the policy says, else one a core",
                 SL_NUMBER(TO(server.threads), 1, SL_THREADS_MAX)},
	[DRAIN] = {"drain", 0, "TIME",
               "how long to serve on, with /readyz red, after SIGTERM: 30s, 2m;\n"
               "as the policy says, else 0",
               SL_TIME(TO(server.drain_ns), 0, DRAIN_NS_MAX, "a duration such as 30s, up to 10m")},
	[UNPROTECTED] = {"unprotected", 0, NULL,
                     "listen where other hosts reach it though the policy has no users:\n"
                     "whoever connects can then do everything",
                     SL_FLAG(TO(server.unprotected))},
	[CHECK_CONFIG] = {"check-config", 0, NULL,
                      "check all that starting would check, bind nothing, and end: 0 fine, 2 not",
                      SL_FLAG(TO(only_check))},
};

static int run_serve(const struct sl_verb *verb, int argc, char **argv) {
	struct serve serve = {.only_check = false};
	uint32_t given;
	int status = sl_cli_read(verb, argc, argv, &serve, &given);
	if (status != SL_GO_ON)
		return status;
	serve.server.drain_given = (given >> DRAIN & 1) != 0;
	return serve.only_check ? sl_server_check(&serve.server) : sl_server_run(&serve.server);
}

const struct sl_verb sl_verb_serve = {
	.name = "serve",
	.usage = "serve [-c FILE] [--resp ADDR] [--http ADDR] [--grpc ADDR] [--spop ADDR] [--threads N]\n"
			 "      [--drain TIME] [--unprotected] [--check-config]",
	.summary = "Serves decisions over the Redis protocol, HTTP, gRPC and SPOP until SIGTERM",
	.text = "Without a policy it serves what needs none: SLUICE.CHECK, POST /v1/check and the like, which carry\n"
			"their limits with them.\n\n"
			"SIGTERM ends it, answering what has arrived. SIGHUP reloads the policy; one with errors is rejected, and\n"
			"the current one kept. SIGUSR2 starts the program anew, which takes over the sockets, the store and the\n"
			"connections, and then ends this one.\n",
	.examples = "  sluice serve -c examples/sluice.yaml\n"
				"  sluice serve --resp unix:/run/sluice.sock --threads 2\n"
				"  sluice serve --check-config -c /etc/sluice/sluice.yaml\n",
	SL_OPTIONS(options),
	.no_word = " is one word too many; the policy is named by -c FILE",
	.run = run_serve,
};
