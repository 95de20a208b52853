/* The bytes of a policy file, before YAML is read from them. */
#ifndef SL_SOURCE_H
#define SL_SOURCE_H

#include "policy/report.h"

/* The length of the byte order mark that the text begins with: 3 or 0. */
size_t sl_source_mark(struct sluice_bytes yaml);

/* Checks what the YAML reader would refuse without saying where, or would take too long over: size, UTF-8, control
 * bytes, directives. Reports the first such place and returns false. O(bytes). */
bool sl_source_check(struct sluice_bytes yaml, struct sl_report *report);

/* Does a line (from 1) begin with white space in which there is a tab? For naming the cause of a YAML error. */
bool sl_source_tab_indents(struct sluice_bytes yaml, uint32_t line);

/* The length of the UTF-8 character at the start of the text, 1..4, with its number in *code; 0 where the bytes are no
 * UTF-8 (overlong forms, surrogates and numbers above 10FFFF are none). `text` is not empty. */
size_t sl_source_decode(struct sluice_bytes text, uint32_t *code);

/* How many characters the first `bytes` bytes of valid UTF-8 hold; `bytes` may stop inside one, which then counts. */
size_t sl_source_characters(const char *text, size_t bytes);

#endif
