#include "hosts/cli/cli.h"
#include "hosts/server/server.h"
#include "policy/policy.h"

enum { CONFIG, RESP, HTTP, THREADS, DRAIN, UNPROTECTED, CHECK_CONFIG };

#define DRAIN_NS_MAX ((sluice_ns)600 * 1000000000) /* as the policy's own */

static const struct sl_option options[] = {
	[CONFIG] = {"config", 'c', "FILE", "the policy; it is read again when it changes, and at SIGHUP"},
	[RESP] = {"resp", 0, "ADDR",
              "where to speak the Redis protocol, instead of where the policy says;\n"
              "127.0.0.1:7379, [::1]:7379 or unix:/path; port 0 picks a free one"},
	[HTTP] = {"http", 0, "ADDR", "where to speak HTTP, likewise (127.0.0.1:7380)"},
	[THREADS] = {"threads", 0, "N", "how many threads serve; as the policy says, else one a core"},
	[DRAIN] = {"drain", 0, "TIME",
               "how long to serve on, with /readyz red, after SIGTERM: 30s, 2m;\n"
               "as the policy says, else 0"},
	[UNPROTECTED] = {"unprotected", 0, NULL,
                     "listen where other hosts reach it though the policy has no users:\n"
                     "whoever connects can then do everything"},
	[CHECK_CONFIG] = {"check-config", 0, NULL,
                      "check all that starting would check, bind nothing, and end: 0 fine, 2 not"},
};

/* Reads the option that was met; SL_GO_ON, or what to exit with. */
static int read_option(const struct sl_verb *verb, struct sl_args *args, int arg, struct sl_server_options *server) {
	uint64_t threads = 0;
	if (arg == CONFIG)
		server->policy_file = args->value;
	else if (arg == RESP)
		server->listen_resp = args->value;
	else if (arg == HTTP)
		server->listen_http = args->value;
	else if (arg == UNPROTECTED)
		server->unprotected = true;
	else if (arg == THREADS && !sl_args_number(args->value, 1, SL_THREADS_MAX, &threads))
		return sl_cli_misuse(verb, "--threads '%.64s': expected a whole number, 1 to %d", args->value, SL_THREADS_MAX);
	else if (arg == DRAIN && !sl_args_duration(args->value, DRAIN_NS_MAX, &server->drain_ns))
		return sl_cli_misuse(verb, "--drain '%.64s': expected a duration such as 30s, up to 10m", args->value);
	else if (arg < 0)
		return sl_cli_stop(verb, args, arg);
	if (arg == THREADS)
		server->threads = (uint32_t)threads;
	server->drain_given |= arg == DRAIN;
	return SL_GO_ON;
}

static int run_serve(const struct sl_verb *verb, int argc, char **argv) {
	struct sl_server_options server = {0};
	struct sl_args args = sl_args_begin(argv, argc, options, sizeof options / sizeof *options);
	bool only_check = false;
	for (int arg; (arg = sl_args_next(&args)) != SL_ARG_END;) {
		if (arg == SL_ARG_WORD)
			return sl_cli_misuse(verb, "'%.64s' is one word too many; the policy is named by -c FILE", args.value);
		int status = read_option(verb, &args, arg, &server);
		if (status != SL_GO_ON)
			return status;
		only_check |= arg == CHECK_CONFIG;
	}
	return only_check ? sl_server_check(&server) : sl_server_run(&server);
}

const struct sl_verb sl_verb_serve = {
	.name = "serve",
	.usage =
		"serve [-c FILE] [--resp ADDR] [--http ADDR] [--threads N] [--drain TIME] [--unprotected] [--check-config]",
	.summary = "Serves decisions over the Redis protocol and HTTP until SIGTERM",
	.text =
		"Without a policy it serves what needs none: SLUICE.CHECK, POST /v1/check and the like, which carry\n"
		"their limits with them.\n\n"
		"SIGTERM ends it, answering what has arrived. SIGHUP reads the policy again; a bad one is told of, and the\n"
		"one of before goes on. SIGUSR2 starts the program anew, which takes over the sockets, the store and the\n"
		"connections, and then ends this one.\n",
	.examples = "  sluice serve -c examples/sluice.yaml\n"
				"  sluice serve --resp unix:/run/sluice.sock --threads 2\n"
				"  sluice serve --check-config -c /etc/sluice/sluice.yaml\n",
	.options = options,
	.option_count = sizeof options / sizeof *options,
	.run = run_serve,
};
