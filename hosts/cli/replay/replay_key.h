/* From a line of a log to the attributes of a request, and from `--key` to the key that it counts for. */
#ifndef SL_CLI_REPLAY_KEY_H
#define SL_CLI_REPLAY_KEY_H

#include "base/out.h"
#include "policy/attribute.h"
#include "proto/logline.h"

enum sl_replay_attribute {
	SL_REPLAY_IP,
	SL_REPLAY_METHOD,
	SL_REPLAY_PATH,
	SL_REPLAY_HOST,
	SL_REPLAY_USER,
	SL_REPLAY_STATUS,
	SL_REPLAY_KEY,
	SL_REPLAY_ATTRIBUTES,
};

/* What a request's attributes are called in policies and by --key; ended by NULL. */
extern const char *const sl_replay_attribute_names[SL_REPLAY_ATTRIBUTES + 1];

/* A request as limits see it. Points into itself, the line and the scratch memory: don't copy it. */
struct sl_replay_request {
	sluice_ns time;
	uint32_t cost;
	bool cost_said;    /* by the line; else the policy's numbers hold */
	bool has_duration; /* the line says how long it took */
	sluice_ns duration;
	struct sluice_bytes values[SL_REPLAY_ATTRIBUTES]; /* data NULL: the line does not say */
	char forms[SL_ATTRIBUTE_HOST + 1][SLUICE_KEY_BYTES_MAX];
};

/* Turns what a line says into what every door makes of it (policy/attribute.h), with IPv6 by its first `ipv6_prefix`
 * bits. Only attributes whose bits, 1 << enum sl_replay_attribute, are in `wanted`; the others are as if not said. */
void sl_replay_request_make(struct sl_replay_request *request, const struct sl_logline *line, uint32_t wanted,
                            uint32_t ipv6_prefix);
enum { SL_REPLAY_ALL = (1 << SL_REPLAY_ATTRIBUTES) - 1 };

/* A key as --key writes it: parts joined by ',', each the first of its '|' choices that the request has. */
struct sl_replay_key {
	uint8_t part_count;
	struct {
		uint8_t count;
		uint8_t choices[SL_REPLAY_ATTRIBUTES]; /* enum sl_replay_attribute */
	} parts[SL_REPLAY_ATTRIBUTES];
	bool bare; /* the value alone is the key; else it is name=value,..., encoded as policies do */
};

/* Reads `ip`, `user | ip`, `ip,path`. False with `error` filled (its column counts from 1). */
bool sl_replay_key_parse(struct sl_replay_key *key, const char *text, struct sluice_error *error);

/* The key where --key is not given: an access log's ip, an ops line's key. */
extern const struct sl_replay_key sl_replay_key_default;

/* The attribute of a name, or -1. */
int sl_replay_attribute(struct sluice_bytes name);

/* Does any part of the key name this attribute? */
bool sl_replay_key_has(const struct sl_replay_key *key, enum sl_replay_attribute attribute);

/* The bits of all attributes that it names. */
uint32_t sl_replay_key_wants(const struct sl_replay_key *key);

/* Appends the key of a request; false, with nothing appended, where a part of it is absent. Needs at most
 * SL_REPLAY_KEY_BYTES_MAX bytes, and leaves a key of at most SLUICE_KEY_BYTES_MAX. */
enum { SL_REPLAY_KEY_BYTES_MAX = SL_REPLAY_ATTRIBUTES * (3 * SLUICE_KEY_BYTES_MAX + 16) };
bool sl_replay_key_write(const struct sl_replay_key *key, const struct sl_replay_request *request, struct sl_out *out);

#endif
