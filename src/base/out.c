/* Writing text into a piece of memory that may be too short; see out.h. */
#include "base/out.h"

void sl_out_u64(struct sl_out *out, uint64_t value) {
	char digits[20];
	size_t n = sizeof digits;
	do {
		digits[--n] = (char)('0' + value % 10);
		value /= 10;
	} while (value != 0);
	sl_out_bytes(out, digits + n, sizeof digits - n);
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
