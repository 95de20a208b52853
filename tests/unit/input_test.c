/* Lines of plain, .gz and .xz files: whole, cut at every byte, damaged, one behind the other, too long. */
#include "hosts/cli/replay/input.h"

#include <lzma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

enum { BYTES_MAX = 4 * 1024 * 1024 };

static char path[] = "/tmp/sluice-input-XXXXXX";

static void write_file(const void *data, size_t len) {
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, len, file), len);
	assert_int_equal(fclose(file), 0);
}

static size_t gzip(const void *data, size_t len, unsigned char *out) {
	z_stream z = {.next_in = (unsigned char *)data, .avail_in = (unsigned)len, .next_out = out, .avail_out = BYTES_MAX};
	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	size_t got = z.total_out;
	deflateEnd(&z);
	return got;
}

static size_t xz(const void *data, size_t len, unsigned char *out) {
	size_t at = 0;
	assert_int_equal(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, NULL, data, len, out, &at, BYTES_MAX), LZMA_OK);
	return at;
}

/* What a file holds, line by line, each ended by '|'; its last verdict. Long lines count as "#". */
static enum sl_input_verdict read_file(char *text, size_t room) {
	struct sluice_error error;
	struct sluice_bytes line;
	struct sl_input *input = sl_input_open(path, &error);
	enum sl_input_verdict verdict;
	size_t at = 0;
	if (input == NULL)
		return SL_INPUT_FAILED;
	while ((verdict = sl_input_next(input, &line, &error)) > SL_INPUT_END) {
		if (verdict == SL_INPUT_TOO_LONG)
			line = sl_slice("#", 1);
		assert_true(at + line.len + 2 < room);
		memcpy(text + at, line.data, line.len);
		at += line.len;
		text[at++] = '|';
	}
	text[at] = '\0';
	if (verdict == SL_INPUT_FAILED)
		assert_true(strlen(error.text) > 0);
	sl_input_close(input);
	return verdict;
}

static void expect(const void *data, size_t len, enum sl_input_verdict verdict, const char *wanted) {
	char text[4096];
	write_file(data, len);
	assert_int_equal(read_file(text, sizeof text), verdict);
	if (verdict == SL_INPUT_END)
		assert_string_equal(text, wanted);
}

static void plain(void **state) {
	static const struct {
		const char *text, *lines;
	} cases[] = {
		{"", ""},
		{"\n", "|"},
		{"a", "a|"},
		{"a\n", "a|"},
		{"a\nb", "a|b|"},
		{"a\r\nb\r\n", "a|b|"},
		{"\n\na\n\n", "||a||"},
		{"\r\r\n", "\r|"},
		{"\xef\xbb\xbf"
	     "a\n",
	     "a|"},
		{"\xef\xbb\xbf", ""},
		{"a\n\xef\xbb\xbf"
	     "b",
	     "a|\xef\xbb\xbf"
	     "b|"},
		{"\x1f", "\x1f|"},
		{"\xfd"
	     "x",
	     "\xfd"
	     "x|"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		expect(cases[i].text, strlen(cases[i].text), SL_INPUT_END, cases[i].lines);
}

static void compressed(void **state) {
	static unsigned char out[BYTES_MAX];
	(void)state;
	expect(out, gzip("a\nb\n", 4, out), SL_INPUT_END, "a|b|");
	expect(out, xz("a\nb\n", 4, out), SL_INPUT_END, "a|b|");
	expect(out, gzip("", 0, out), SL_INPUT_END, "");
	expect(out, xz("", 0, out), SL_INPUT_END, "");
	/* one behind the other, as logs that were appended to are; a line may run from one into the next */
	size_t len = gzip("a\nb", 3, out);
	len += gzip("c\nd", 3, out + len);
	expect(out, len, SL_INPUT_END, "a|bc|d|");
	memset(out + len, 0, 1000);
	expect(out, len + 1000, SL_INPUT_END, "a|bc|d|");
	out[len + 999] = 'x';
	expect(out, len + 1000, SL_INPUT_FAILED, NULL);
	len = xz("a\nb", 3, out);
	len += xz("c\nd", 3, out + len);
	expect(out, len, SL_INPUT_END, "a|bc|d|");
	memcpy(out + len, "garbage!", 8);
	expect(out, len + 8, SL_INPUT_FAILED, NULL);
}

/* Cut anywhere, a compressed file is told to be cut; two bytes are enough to know what it would have been. */
static void cut_short(void **state) {
	static unsigned char out[BYTES_MAX];
	char text[4096] = "";
	(void)state;
	for (int i = 0; i < 300; i++)
		snprintf(text + strlen(text), 12, "%d\n", i * 7919 % 1000);
	size_t len = gzip(text, strlen(text), out);
	for (size_t at = 2; at < len; at++)
		expect(out, at, SL_INPUT_FAILED, NULL);
	len = xz(text, strlen(text), out);
	for (size_t at = 2; at < len; at++)
		expect(out, at, SL_INPUT_FAILED, NULL);
}

static void damaged(void **state) {
	static unsigned char out[BYTES_MAX];
	char text[4096] = "";
	(void)state;
	for (int i = 0; i < 300; i++)
		snprintf(text + strlen(text), 12, "%d\n", i * 7919 % 1000);
	size_t len = gzip(text, strlen(text), out);
	for (size_t at = 10; at < len; at++) { /* the header's time and system may be anything */
		out[at] ^= 0x20;
		expect(out, len, SL_INPUT_FAILED, NULL);
		out[at] ^= 0x20;
	}
	len = xz(text, strlen(text), out);
	for (size_t at = 6; at < len; at++) {
		out[at] ^= 0x20;
		expect(out, len, SL_INPUT_FAILED, NULL);
		out[at] ^= 0x20;
	}
}

static void other_compressions(void **state) {
	(void)state;
	expect("\x28\xb5\x2f\xfd\x00\x00\x00", 7, SL_INPUT_FAILED, NULL);
	expect("BZh91AY&SY", 10, SL_INPUT_FAILED, NULL);
}

/* 64 KiB fit, one byte more does not; what follows is read as if nothing had been. */
static void long_lines(void **state) {
	static const size_t lens[] = {SL_INPUT_LINE_MAX - 1, SL_INPUT_LINE_MAX,  SL_INPUT_LINE_MAX + 1,
	                              SL_INPUT_LINE_MAX + 2, SL_INPUT_BYTES - 1, SL_INPUT_BYTES,
	                              SL_INPUT_BYTES + 1,    3 * SL_INPUT_BYTES};
	char *data = malloc(4 * SL_INPUT_BYTES), *text = malloc(4 * SL_INPUT_BYTES);
	(void)state;
	for (int cr = 0; cr < 2; cr++) {
		for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
			char *at = data;
			memset(at, 'x', lens[i]);
			at += lens[i];
			memcpy(at, "\r\ntail", 6);
			if (!cr)
				memcpy(at, "\ntail", 5);
			at += cr ? 2 : 1;
			write_file(data, (size_t)(at - data) + 4);
			assert_int_equal(read_file(text, 4 * SL_INPUT_BYTES), SL_INPUT_END);
			bool fits = lens[i] <= SL_INPUT_LINE_MAX;
			assert_int_equal(strlen(text), (fits ? lens[i] : 1) + strlen("|tail|"));
			assert_int_equal(text[0], fits ? 'x' : '#');
			assert_string_equal(strchr(text, '|'), "|tail|");
		}
	}
	free(data);
	free(text);
}

/* Many lines of many lengths, so that every kind of border falls everywhere in a line; the three codings agree. */
static void borders(void **state) {
	static unsigned char out[BYTES_MAX];
	char *data = malloc(BYTES_MAX), *text = malloc(BYTES_MAX);
	size_t len = 0, packed;
	(void)state;
	for (unsigned i = 0; len < BYTES_MAX / 2; i++) {
		size_t line = i * 2654435761u % 997;
		memset(data + len, 'a' + (int)(i % 26), line);
		data[len + line] = '\n';
		len += line + 1;
	}
	for (int coding = 0; coding < 3; coding++) {
		packed = coding == 0 ? len : coding == 1 ? gzip(data, len, out) : xz(data, len, out);
		write_file(coding == 0 ? data : (char *)out, packed);
		assert_int_equal(read_file(text, BYTES_MAX), SL_INPUT_END);
		assert_int_equal(strlen(text), len);
		for (size_t i = 0; i < len; i++)
			assert_int_equal(text[i], data[i] == '\n' ? '|' : data[i]);
	}
	free(data);
	free(text);
}

static void not_there(void **state) {
	struct sluice_error error;
	(void)state;
	assert_null(sl_input_open("/tmp/sluice-no-such-file", &error));
	assert_string_equal(error.text, "No such file or directory");
	assert_null(sl_input_open("/tmp", &error));
	assert_string_equal(error.text, "Is a directory");
}

static int make_file(void **state) {
	int fd = mkstemp(path);
	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state) {
	(void)state;
	return unlink(path);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain),   cmocka_unit_test(compressed),         cmocka_unit_test(cut_short),
		cmocka_unit_test(damaged), cmocka_unit_test(other_compressions), cmocka_unit_test(long_lines),
		cmocka_unit_test(borders), cmocka_unit_test(not_there),
	};
	return cmocka_run_group_tests(tests, make_file, remove_file);
}
