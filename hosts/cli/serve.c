#include "hosts/cli/cli.h"
#include "hosts/server/server.h"

enum { CONFIG, RESP, HTTP, THREADS };

enum { THREADS_MAX = 256 };

static const struct sl_option options[] = {
	[CONFIG] = {"config", 'c', "FILE", "the policy; SIGHUP reads it again"},
	[RESP] = {"resp", 0, "ADDR", "where to speak the Redis protocol, instead of where the policy says;\n"
	                             "127.0.0.1:7379, [::1]:7379 or unix:/path; port 0 picks a free one"},
	[HTTP] = {"http", 0, "ADDR", "where to speak HTTP, likewise (127.0.0.1:7380)"},
	[THREADS] = {"threads", 0, "N", "how many threads serve; as the policy says, else one a core"},
};

static int run_serve(const struct sl_verb *verb, int argc, char **argv) {
	struct sl_server_options server = {0};
	struct sl_args args = sl_args_begin(argv, argc, options, sizeof options / sizeof *options);
	uint64_t threads = 0;
	for (int arg; (arg = sl_args_next(&args)) != SL_ARG_END;) {
		if (arg == SL_ARG_WORD)
			return sl_cli_misuse(verb, "'%.64s' is one word too many; the policy is named by -c FILE", args.value);
		else if (arg == CONFIG)
			server.policy_file = args.value;
		else if (arg == RESP)
			server.listen_resp = args.value;
		else if (arg == HTTP)
			server.listen_http = args.value;
		else if (arg != THREADS)
			return sl_cli_stop(verb, &args, arg);
		else if (!sl_args_number(args.value, 1, THREADS_MAX, &threads))
			return sl_cli_misuse(verb, "--threads '%.64s': expected a whole number, 1 to %d", args.value, THREADS_MAX);
	}
	server.threads = (uint32_t)threads;
	return sl_server_run(&server);
}

const struct sl_verb sl_verb_serve = {
	.name = "serve",
	.usage = "serve [-c FILE] [--resp ADDR] [--http ADDR] [--threads N]",
	.summary = "Serves decisions over the Redis protocol and HTTP until SIGTERM",
	.text = "Without a policy it serves what needs none: SLUICE.CHECK, POST /v1/check and the like, which carry\n"
	        "their limits with them.\n",
	.examples = "  sluice serve -c examples/sluice.yaml\n"
	            "  sluice serve --resp unix:/run/sluice.sock --threads 2\n",
	.options = options,
	.option_count = sizeof options / sizeof *options,
	.run = run_serve,
};
