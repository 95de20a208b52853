/* What comes in as an attribute and what it counts as: one form for every spelling, whichever door it came by.
 *
 *   ip       an address is canonical and counts as its network; v4-mapped is v4; a port is dropped: policy/address.h
 *   path     without query and resolved: policy/path.h
 *   method   upper case
 *   host     lower case, without port and without the dot at its end
 *   others   as they are
 *
 * What has its form already is found to have it in one walk over it, and borrowed; what a form gives has it: looked up
 * again it is the same. What is no address stays as it is. */
#ifndef SL_ATTRIBUTE_H
#define SL_ATTRIBUTE_H

#include "base/bytes.h"

enum sl_attribute { SL_ATTRIBUTE_OTHER, SL_ATTRIBUTE_IP, SL_ATTRIBUTE_PATH, SL_ATTRIBUTE_METHOD, SL_ATTRIBUTE_HOST };

/* Which of them has this name? Those but SL_ATTRIBUTE_OTHER are built in: the proxies' doors always fill them in. */
enum sl_attribute sl_attribute_find(struct sluice_bytes name);

/* The form of a value; data NULL stays so.
 *  ipv6_prefix  bits of IPv6 that count, 1..128
 *  memory       SLUICE_KEY_BYTES_MAX bytes for a value that must be written anew
 * A path, method or host that is longer is cut there, so that such requests share a counter. */
struct sluice_bytes sl_attribute_form(enum sl_attribute attribute, struct sluice_bytes value, uint32_t ipv6_prefix,
                                      char *memory);

/* What a policy's choice of paths that are one makes of a path's form: SL_PATHS_ bits (policy.h). `memory` may be where
 * the form is. Of a prefix the slash at its end stays. */
struct sluice_bytes sl_attribute_path(uint32_t choice, struct sluice_bytes form, bool prefix, char *memory);

/* What a request's value counts as: its form, of a path with the policy's choice. `memory` as above. */
static inline struct sluice_bytes sl_attribute_counted(enum sl_attribute attribute, struct sluice_bytes value,
                                                       uint32_t ipv6_prefix, uint32_t choice, char *memory) {
	value = sl_attribute_form(attribute, value, ipv6_prefix, memory);
	return attribute == SL_ATTRIBUTE_PATH && choice != 0 ? sl_attribute_path(choice, value, false, memory) : value;
}

/* Does the form of every value that begins with a prefix begin with one? Then writes it: `/a//b` gives `/a/b`. False
 * for what no form begins with: a path with a query, a host with a port, an address that is a network. */
bool sl_attribute_prefix_form(enum sl_attribute attribute, struct sluice_bytes *prefix, char *memory);

/* The first attribute whose name stands before it already; `count` where each is given once. O(count), but for names
 * that are made to collide, O(count^2). */
size_t sl_attribute_repeated(const struct sluice_attribute *attributes, size_t count);

#endif
