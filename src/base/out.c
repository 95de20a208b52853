/* Writing text into a piece of memory that may be too short; see out.h. */
#include "base/out.h"

#include "base/digits.h"

char *sl_put_large(char *at, uint64_t n) {
	const uint64_t eight = 100000000;
	if (n < eight * eight) {
		at = sl_put_small(at, (uint32_t)(n / eight));
	} else {
		at = sl_put_small(at, (uint32_t)(n / eight / eight));
		at = sl_put_eight(at, (uint32_t)(n / eight % eight));
	}
	return sl_put_eight(at, (uint32_t)(n % eight));
}

void sl_out_u64(struct sl_out *out, uint64_t value) {
	char digits[SL_DIGITS_MAX];
	if (out->end - out->at >= SL_DIGITS_MAX) {
		out->at = sl_put_unsigned(out->at, value);
		return;
	}
	sl_out_bytes(out, digits, (size_t)(sl_put_unsigned(digits, value) - digits));
}

void sl_out_i64(struct sl_out *out, int64_t value) {
	if (value < 0)
		sl_out_char(out, '-');
	sl_out_u64(out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void sl_out_hex(struct sl_out *out, const void *bytes, size_t count) {
	char digits[2];
	for (size_t i = 0; i < count; i++) {
		sl_hex(digits, ((const unsigned char *)bytes)[i], 2);
		sl_out_bytes(out, digits, sizeof digits);
	}
}

static void put_sextet(struct sl_out *out, unsigned sextet, bool for_url) {
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	sl_out_char(out, sextet < 62 ? letters[sextet] : (for_url ? "-_" : "+/")[sextet - 62]);
}

void sl_out_base64(struct sl_out *out, struct sluice_bytes bytes, bool for_url) {
	const unsigned char *p = bytes.data;
	uint32_t bits = 0;
	unsigned count = 0; /* of bits that wait */
	for (size_t i = 0; i < bytes.len; i++) {
		bits = bits << 8 | p[i];
		for (count += 8; count >= 6; count -= 6)
			put_sextet(out, bits >> (count - 6) & 63, for_url);
	}
	if (count != 0)
		put_sextet(out, bits << (6 - count) & 63, for_url);
	for (size_t len = bytes.len; !for_url && len % 3 != 0; len++)
		sl_out_char(out, '=');
}

void sl_out_escaped(struct sl_out *out, unsigned char byte) {
	char text[4] = "\\x";
	sl_hex(text + 2, byte, 2);
	sl_out_bytes(out, text, sizeof text);
}

void sl_out_quoted(struct sl_out *out, struct sluice_bytes text, size_t max) {
	const unsigned char *p = text.data;
	sl_out_char(out, '\'');
	for (size_t i = 0; i < text.len && i < max; i++) {
		if (p[i] >= 0x20 && p[i] < 0x7f)
			sl_out_char(out, (char)p[i]);
		else
			sl_out_escaped(out, p[i]);
	}
	sl_out_str(out, text.len > max ? "...'" : "'");
}

uint64_t sl_size_unit(struct sluice_bytes unit) {
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
	if (unit.len == 0)
		return 1;
	for (unsigned i = 0; i < 4; i++)
		if (sl_bytes_equal(unit, sl_str(units[i])))
			return (uint64_t)1 << 10 * (i + 1);
	return 0;
}
