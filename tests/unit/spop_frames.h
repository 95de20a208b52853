/* Frames as HAProxy sends them, for the tests of the SPOP door: written by the codec's own writers, whose bytes
 * tests/unit/spop_test.c holds against the specification. */
#ifndef TESTS_SPOP_FRAMES_H
#define TESTS_SPOP_FRAMES_H

#include "proto/spop.h"

/* A HELLO that agrees on `frame_max` bytes. */
static inline void spop_hello(struct sl_out *out, uint32_t frame_max, bool healthcheck) {
	char *start = sl_spop_begin(out, SL_SPOP_HAPROXY_HELLO, 0, 0);
	sl_spop_put_pair_text(out, "supported-versions", "2.0");
	sl_spop_put_pair_u32(out, "max-frame-size", frame_max);
	sl_spop_put_pair_text(out, "capabilities", "pipelining,async");
	if (healthcheck) {
		sl_spop_put_text(out, sl_str("healthcheck"));
		sl_out_char(out, 0x11);
	}
	sl_spop_end(out, start);
}

/* A NOTIFY of one message whose arguments are texts: name, value, name, value, .., NULL. */
static inline void spop_notify(struct sl_out *out, uint64_t stream, uint64_t frame, const char *message,
                               const char *const *pairs) {
	char *start = sl_spop_begin(out, SL_SPOP_NOTIFY, stream, frame);
	uint8_t count = 0;
	while (pairs[2 * count] != NULL)
		count++;
	sl_spop_put_text(out, sl_str(message));
	sl_out_char(out, (char)count);
	for (; *pairs != NULL; pairs += 2)
		sl_spop_put_pair_text(out, pairs[0], pairs[1]);
	sl_spop_end(out, start);
}

#endif
