/* The program: a file of its own, so that tests can link all the others. */
#include "hosts/cli/verbs.h"

int main(int argc, char **argv) {
	return sl_cli_main(argc, argv);
}
