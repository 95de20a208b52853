/* Text for people out of bytes that anybody may have sent; see text.h. */
#include "base/text.h"

size_t sl_text_next(const unsigned char *p, size_t len, uint32_t *character) {
	unsigned char lead = p[0], least = 0x80, most = 0xbf;
	if (lead < 0x80) {
		*character = lead;
		return 1;
	}
	size_t need = lead >= 0xc2 && lead <= 0xdf ? 2 : (lead & 0xf0) == 0xe0 ? 3 : lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
	if (need == 0 || need > len)
		return 0;
	least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : least;
	most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : most;
	if (p[1] < least || p[1] > most)
		return 0;
	*character = lead & (0xffu >> (need + 1));
	for (size_t i = 1; i < need; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		*character = *character << 6 | (p[i] & 0x3f);
	}
	return need;
}

bool sl_text_is_shown(uint32_t character) {
	static const struct {
		uint32_t first, last;
	} hidden[] = {
		{0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},   {0x180e, 0x180e},   {0x200b, 0x200f},
		{0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff},
	};
	for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
		if (character >= hidden[i].first && character <= hidden[i].last)
			return false;
	return true;
}

void sl_out_shown(struct sl_out *out, struct sluice_bytes text, size_t max) {
	const unsigned char *p = text.data;
	size_t end = text.len < max ? text.len : max;
	for (size_t i = 0; i < end;) {
		uint32_t character;
		size_t len = sl_text_next(p + i, end - i, &character);
		if (len != 0 && sl_text_is_shown(character)) {
			sl_out_bytes(out, p + i, len);
			i += len;
		} else { /* byte by byte: those that follow are none either */
			sl_out_escaped(out, p[i]);
			i++;
		}
	}
	if (text.len > max)
		sl_out_str(out, "...");
}
