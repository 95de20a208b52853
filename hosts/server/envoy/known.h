/* Requests that came before, known again by their bytes.
 *
 * Proxies ask the same again and again: of the route that all share, of the client who sends a thousand requests.
 * What such a message says, which limits apply to it, their keys and its call depend on nothing but its bytes and the
 * policy. So they are kept; and when the same bytes come under the same policy, they are put where reading, matching
 * and preparing would have put them.
 *
 *   message --hash--> one place of SL_RLS_KNOWN --the same bytes, the same policy?--> request, attributes, items
 *                                                --else--> the long way; kept if the message before had that hash, too
 *
 *  I1  Bytes are compared; nothing is guessed. A policy is known by its number, which no other has.
 *  I2  Kept is what charges by limits of the policy or of envoyproxy/ratelimit's files: nothing looked at, given back,
 *      held, tried, brought along, beyond a bound, or with members. Its size is bounded: most requests have few limits.
 *  I3  A message is kept when it comes a second time without another one of its place between: traffic in which nothing
 *      comes again pays for its hash, and for no copy.
 *  I4  What is kept points into itself and into the policy, never into a connection's memory. */
#ifndef SL_RLS_KNOWN_H
#define SL_RLS_KNOWN_H

#include "policy/envoy.h"
#include "proto/rls.h"

enum {
	SL_RLS_KNOWN = 512, /* of a worker: 1 MiB, touched as they come */
	SL_RLS_KNOWN_BYTES_MAX = 256,
	SL_RLS_KNOWN_KEYS_MAX = 320,
	SL_RLS_KNOWN_DESCRIPTORS_MAX = 4,
	SL_RLS_KNOWN_ENTRIES_MAX = 8,
	SL_RLS_KNOWN_ATTRIBUTES_MAX = SL_RLS_KNOWN_ENTRIES_MAX + SL_RLS_KNOWN_DESCRIPTORS_MAX,
	SL_RLS_KNOWN_ITEMS_MAX = 4,
};

struct sl_rls_known {
	uint64_t policy_number; /* 0: nothing is kept */
	uint64_t last;          /* the hash of the message that came here last */
	struct sluice_bytes domain;
	uint32_t len, hits, cost;
	uint8_t descriptor_count, entry_count, attribute_count, item_count;
	uint8_t message[SL_RLS_KNOWN_BYTES_MAX];
	char keys[SL_RLS_KNOWN_KEYS_MAX];
	uint16_t owner[SL_RLS_KNOWN_ITEMS_MAX];
	uint32_t positions[SL_RLS_KNOWN_ITEMS_MAX], costs[SL_RLS_KNOWN_ITEMS_MAX];
	struct sluice_item items[SL_RLS_KNOWN_ITEMS_MAX];
	struct sl_rls_descriptor descriptors[SL_RLS_KNOWN_DESCRIPTORS_MAX];
	struct sl_envoy_found found[SL_RLS_KNOWN_DESCRIPTORS_MAX];
	struct sl_rls_entry entries[SL_RLS_KNOWN_ENTRIES_MAX];
	struct sluice_attribute attributes[SL_RLS_KNOWN_ATTRIBUTES_MAX];
};

#endif
