/* Gives the files that are named on the command line to a harness, one after the other: what libFuzzer does with a
 * corpus, for builds that are not clang's, such as that of tools/coverage. Draws nothing. */
#include "fuzz/mutate.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t size_max) {
	(void)data;
	(void)size_max;
	return size;
}

/* To the byte, so that a harness that reads past it can be seen to. */
static uint8_t *read_whole(const char *path, size_t *size) {
	FILE *file = fopen(path, "rb");
	uint8_t *data;
	long end;
	if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (end = ftell(file)) < 0)
		abort();
	rewind(file);
	*size = (size_t)end;
	data = malloc(*size);
	if ((data == NULL && *size != 0) || fread(data, 1, *size, file) != *size)
		abort();
	fclose(file);
	return data;
}

int main(int argc, char **argv) {
	for (int i = 1; i < argc; i++) {
		size_t size;
		uint8_t *data = read_whole(argv[i], &size);
		LLVMFuzzerTestOneInput(data, size);
		free(data);
	}
	return 0;
}
