/* Two hashes over the files that a policy is made of: one of what stands in them, and one that costs no reading. */
#include "hosts/server/lifecycle/followed.h"

#include "base/siphash.h"
#include "hosts/files/envoy_files.h"
#include "hosts/server/lifecycle/policy_file.h"

#include <sys/stat.h>

static uint64_t mix(uint64_t seed, uint64_t word) {
	const uint64_t key[2] = {seed, 0x666f6c6c6f776564};
	return sl_siphash(key, &word, 1, sl_slice(NULL, 0), 1, 3);
}

uint64_t sl_followed_digest(const struct sl_followed *followed, uint64_t text) {
	uint64_t digest = mix(0, text);
	for (int i = 1; i < SL_FOLLOWED_MAX; i++)
		if (followed->paths[i][0] != '\0')
			digest = mix(digest, sl_policy_file_digest(followed->paths[i]));
	if (followed->envoy[0] != '\0')
		digest = mix(digest, sl_envoy_files_digest(followed->envoy, true));
	return digest;
}

uint64_t sl_followed_look(const struct sl_followed *followed) {
	uint64_t seen = 1;
	for (int i = 0; i < SL_FOLLOWED_MAX; i++) {
		struct stat status;
		if (followed->paths[i][0] == '\0' || stat(followed->paths[i], &status) != 0)
			continue;
		seen = mix(seen, (uint64_t)i);
		seen = mix(seen, (uint64_t)status.st_dev);
		seen = mix(seen, (uint64_t)status.st_ino);
		seen = mix(seen, (uint64_t)status.st_size);
		seen = mix(seen, (uint64_t)status.st_mtim.tv_sec);
		seen = mix(seen, (uint64_t)status.st_mtim.tv_nsec);
		seen = mix(seen, (uint64_t)status.st_ctim.tv_sec);
		seen = mix(seen, (uint64_t)status.st_ctim.tv_nsec);
	}
	if (followed->envoy[0] != '\0')
		seen = mix(seen, sl_envoy_files_digest(followed->envoy, false));
	return seen;
}
