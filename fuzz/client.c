/* What a client says of itself: any bytes as an address, a network and a request target.
 *
 * An address or network that is read prints to a text that reads as the same; a path is normal: it begins with a slash
 * (or was no path), holds no empty or dot segment, and is the same whether or not it is written over its target. */
#include "base/assert.h"
#include "policy/address.h"
#include "policy/path.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_address(struct sluice_bytes text) {
	struct sl_address address, again;
	char printed[SL_ADDRESS_TEXT_MAX];
	uint32_t port;
	if (!sl_address_parse(text, &address, &port))
		return;
	SL_ASSERT(port <= 65535 || port == SL_PORT_NONE);
	SL_ASSERT(sl_address_print(&address, printed) == strlen(printed));
	SL_ASSERT(sl_address_parse(sl_str(printed), &again, &port) && port == SL_PORT_NONE);
	SL_ASSERT(memcmp(&address, &again, sizeof address) == 0);
	for (uint32_t prefix = 1; prefix <= 128; prefix++) {
		struct sl_network network;
		bool strays;
		SL_ASSERT(sl_address_key(&address, prefix, printed) == strlen(printed));
		SL_ASSERT(sl_network_parse(sl_str(printed), &network, &strays) && !strays);
		SL_ASSERT(sl_network_contains(&network, &address));
	}
}

static void check_network(struct sluice_bytes text) {
	struct sl_network network, again;
	char printed[SL_ADDRESS_TEXT_MAX];
	bool strays;
	if (!sl_network_parse(text, &network, NULL))
		return;
	SL_ASSERT(sl_network_print(&network, printed) == strlen(printed));
	SL_ASSERT(sl_network_parse(sl_str(printed), &again, &strays) && !strays);
	SL_ASSERT(again.prefix_bits == network.prefix_bits && again.v4 == network.v4);
	SL_ASSERT(memcmp(&again.address, &network.address, sizeof again.address) == 0);
	SL_ASSERT(sl_network_contains(&network, &network.address) || (!network.v4 && network.prefix_bits < 96));
}

/* A segment that a normal path has none of; an empty one may stand at the end, for a trailing slash. */
static bool is_foreign(const char *segment, size_t len, bool last) {
	return (len == 0 && !last) || (len == 1 && segment[0] == '.') || (len == 2 && memcmp(segment, "..", 2) == 0);
}

static void check_normal(const char *path, size_t len) {
	size_t start = 1;
	for (size_t i = 1; i <= len; i++) {
		if (i < len && path[i] != '/')
			continue;
		SL_ASSERT(!is_foreign(path + start, i - start, i == len));
		start = i + 1;
	}
}

static void check_path(const uint8_t *data, size_t size) {
	char *apart = malloc(size + 1), *over = malloc(size + 1), again[SLUICE_KEY_BYTES_MAX];
	SL_ASSERT(apart != NULL && over != NULL);
	if (size != 0)
		memcpy(over, data, size);
	size_t len = sl_path_normalise(sl_slice(data, size), apart);
	SL_ASSERT(len >= 1 && len <= SLUICE_KEY_BYTES_MAX && len <= size + 1);
	SL_ASSERT(sl_path_normalise(sl_slice(over, size), over) == len && memcmp(apart, over, len) == 0);
	if (apart[0] == '/')
		check_normal(apart, len);
	SL_ASSERT(sl_path_normalise(sl_slice(apart, len), again) == len && memcmp(apart, again, len) == 0);
	free(apart);
	free(over);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct sluice_bytes text = {data, size};
	check_address(text);
	check_network(text);
	check_path(data, size);
	return 0;
}
