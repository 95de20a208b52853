/* gRPC's frames and headers. */
#include "proto/grpc.h"

uint32_t sl_grpc_announced(struct sluice_bytes body) {
	const uint8_t *p = body.data;
	if (body.len < SL_GRPC_PREFIX_BYTES)
		return 0;
	return (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
}

enum sl_grpc_frame sl_grpc_unframe(struct sluice_bytes body, struct sluice_bytes *message) {
	const uint8_t *p = body.data;
	uint32_t len = sl_grpc_announced(body);
	*message = sl_slice(NULL, 0);
	if (body.len == 0)
		return SL_GRPC_FRAME_EMPTY;
	if (body.len < SL_GRPC_PREFIX_BYTES)
		return SL_GRPC_FRAME_CUT;
	if (p[0] > 1)
		return SL_GRPC_FRAME_FLAG;
	if (body.len - SL_GRPC_PREFIX_BYTES < len)
		return SL_GRPC_FRAME_CUT;
	*message = sl_slice(p + SL_GRPC_PREFIX_BYTES, len);
	if (p[0] == 1)
		return SL_GRPC_FRAME_COMPRESSED;
	return body.len - SL_GRPC_PREFIX_BYTES > len ? SL_GRPC_FRAME_MORE : SL_GRPC_FRAME_WHOLE;
}

void sl_grpc_prefix(uint8_t to[SL_GRPC_PREFIX_BYTES], uint32_t len) {
	to[0] = 0;
	for (int i = 0; i < 4; i++)
		to[1 + i] = (uint8_t)(len >> 8 * (3 - i));
}

bool sl_grpc_is_content(struct sluice_bytes type) {
	static const char plain[] = "application/grpc";
	size_t len = sizeof plain - 1;
	if (type.len < len || memcmp(type.data, plain, len) != 0)
		return false;
	const char *p = type.data;
	return type.len == len || p[len] == '+' || p[len] == ';';
}

bool sl_grpc_is_timeout(struct sluice_bytes text) {
	const char *p = text.data;
	if (text.len < 2 || text.len > 9)
		return false;
	for (size_t i = 0; i + 1 < text.len; i++)
		if (p[i] < '0' || p[i] > '9')
			return false;
	return p[text.len - 1] != '\0' && strchr("HMSmun", p[text.len - 1]) != NULL;
}

void sl_grpc_encode(struct sl_out *out, struct sluice_bytes text) {
	static const char digits[] = "0123456789ABCDEF";
	const unsigned char *p = text.data;
	for (size_t i = 0; i < text.len; i++) {
		if (p[i] >= ' ' && p[i] <= '~' && p[i] != '%') {
			sl_out_char(out, (char)p[i]);
			continue;
		}
		const char escaped[] = {'%', digits[p[i] >> 4], digits[p[i] & 15]};
		sl_out_bytes(out, escaped, sizeof escaped);
	}
}
