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
	[CONFIG] = {"config", 'c', "FILE", "the policy; it is reloaded when it changes, and on SIGHUP",
                SL_TEXT(TO(server.policy_file))},
	[RESP] = {"resp", 0, "ADDR",
              "where to serve the Redis protocol, instead of the policy's addresses;\n"
              "127.0.0.1:7379, [::1]:7379 or unix:/path; port 0 picks a free one",
              SL_TEXT(TO(server.listen[SL_LISTEN_RESP]))},
	[HTTP] = {"http", 0, "ADDR", "where to serve HTTP, likewise (127.0.0.1:7380)",
              SL_TEXT(TO(server.listen[SL_LISTEN_HTTP]))},
	[GRPC] = {"grpc", 0, "ADDR", "where to serve gRPC for Envoy, likewise; by default not at all",
              SL_TEXT(TO(server.listen[SL_LISTEN_GRPC]))},
	[SPOP] = {"spop", 0, "ADDR", "where to serve SPOP for HAProxy, on this host; by default not at all",
              SL_TEXT(TO(server.listen[SL_LISTEN_SPOP]))},
	[THREADS] = {"threads", 0, "N", "number of worker threads; else the policy's, else one per core",
                 SL_NUMBER(TO(server.threads), 1, SL_THREADS_MAX)},
	[DRAIN] = {"drain", 0, "TIME",
               "how long to keep serving after SIGTERM, while /readyz answers 503: 30s, 2m;\n"
               "else the policy's, else 0",
               SL_TIME(TO(server.drain_ns), 0, DRAIN_NS_MAX, "a duration such as 30s, up to 10m")},
	[UNPROTECTED] = {"unprotected", 0, NULL,
                     "listen on addresses that other hosts can reach without users in the\n"
                     "policy: every client can then do everything",
                     SL_FLAG(TO(server.unprotected))},
	[CHECK_CONFIG] = {"check-config", 0, NULL,
                      "check everything that a start would check, bind nothing, and exit: 0 fine, 2 not",
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
			"On SIGTERM it answers what has arrived and exits. On SIGHUP it reloads the policy; if that has errors,\n"
			"it keeps the current one. On SIGUSR2 it starts the program again; the new process takes over the\n"
			"sockets, the store and the connections, and the old one exits.\n",
	.examples = "  sluice serve -c examples/sluice.yaml\n"
				"  sluice serve --resp unix:/run/sluice.sock --threads 2\n"
				"  sluice serve --check-config -c /etc/sluice/sluice.yaml\n",
	SL_OPTIONS(options),
	.no_word = " is one word too many; the policy is named by -c FILE",
	.run = run_serve,
};
