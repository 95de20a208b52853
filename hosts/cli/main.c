/* The program: a file of its own, so that tests can link all the others. */
#include "hosts/cli/verbs.h"
#include "os/file.h"

#include <signal.h>

int main(int argc, char **argv) {
	int filled[SL_FILE_STANDARD], count;
	/* before anything is opened; with no descriptor left nothing can be */
	if (!sl_file_fill_standard(filled, &count))
		return 2;
	signal(SIGXFSZ, SIG_IGN); /* a write above RLIMIT_FSIZE is an error of that file only */
	return sl_cli_main(argc, argv);
}
