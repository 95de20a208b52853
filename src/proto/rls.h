/* The messages of Envoy's rate limit service, envoy.service.ratelimit.v3 (as of go-control-plane envoy 1.40), and of
 * grpc.health.v1, which are as small as can be: read and written by hand.
 *
 *   RateLimitRequest     1 domain   2 descriptors*   3 hits_addend
 *   RateLimitDescriptor  1 entries*   2 limit   3 hits_addend {1 value}   4 is_negative_hits
 *   Entry                1 key   2 value          RateLimitOverride  1 requests_per_unit  2 unit  3 unit_multiplier {1}
 *   RateLimitResponse    1 overall_code   2 statuses*   3 response_headers_to_add*   4 request_headers_to_add*
 *                        5 raw_body   6 dynamic_metadata
 *   DescriptorStatus     1 code   2 current_limit {1 requests_per_unit 2 unit 3 name}   3 limit_remaining
 *                        4 duration_until_reset {1 seconds}
 *
 * Texts are bytes here: a header that is not UTF-8 is counted as it is. A parser that refused it would answer an error,
 * and whoever asks lets a request pass for that. */
#ifndef SL_RLS_H
#define SL_RLS_H

#include "proto/protobuf.h"

enum {
	SL_RLS_DESCRIPTORS_MAX = 256,
	SL_RLS_ENTRIES_MAX = 1024, /* of all descriptors together */
};

enum sl_rls_unit {
	SL_RLS_UNKNOWN,
	SL_RLS_SECOND,
	SL_RLS_MINUTE,
	SL_RLS_HOUR,
	SL_RLS_DAY,
	SL_RLS_MONTH, /* of 30 days */
	SL_RLS_YEAR,  /* of 365 days */
	SL_RLS_WEEK,
	SL_RLS_UNITS
};

enum sl_rls_code { SL_RLS_OK = 1, SL_RLS_OVER_LIMIT = 2 }; /* never 0: whoever asks takes that for OK */

struct sl_rls_entry {
	struct sluice_bytes key, value;
};

struct sl_rls_descriptor {
	uint32_t first_entry, entry_count; /* of the request's entries */
	bool has_limit, has_hits, negative;
	uint32_t limit_requests, limit_unit, limit_multiplier; /* unit: as sent, any number; multiplier: 0 is not given */
	uint64_t hits;
};

/* A request, read. About 47 KiB. Slices point into the message. */
struct sl_rls_request {
	struct sluice_bytes domain;
	uint32_t hits;
	uint32_t descriptor_count, entry_count;
	uint32_t descriptors_sent; /* how many the message has, those included for which there is no room */
	struct sl_rls_descriptor descriptors[SL_RLS_DESCRIPTORS_MAX];
	struct sl_rls_entry entries[SL_RLS_ENTRIES_MAX];
};

enum sl_rls_read { SL_RLS_READ, SL_RLS_MALFORMED, SL_RLS_TOO_MANY };

/* Reads a request. TOO_MANY: more descriptors or entries than there is room for; what was read is not to be used, but
 * descriptors_sent.
 * O(bytes). */
enum sl_rls_read sl_rls_request_read(struct sl_rls_request *request, struct sluice_bytes message);

/* What a descriptor costs: its own hits, else the request's, where 0 is 1. `*peek`: its own are there, and are 0. At
 * most UINT32_MAX, as costs are. */
uint32_t sl_rls_hits(const struct sl_rls_request *request, const struct sl_rls_descriptor *descriptor, bool *peek);

/* The length of a unit; 0 for one that is unknown. */
sluice_ns sl_rls_unit_ns(uint32_t unit);
/* Its name, SECOND to WEEK; UNKNOWN for one that is. */
const char *sl_rls_unit_name(uint32_t unit);
/* The unit that is so long; SL_RLS_UNKNOWN where there is none. */
enum sl_rls_unit sl_rls_unit_of(sluice_ns ns);

struct sl_rls_status {
	enum sl_rls_code code;
	bool has_limit;    /* else nothing but the code is told */
	uint32_t requests; /* per unit */
	enum sl_rls_unit unit;
	struct sluice_bytes name; /* of the limit */
	uint32_t remaining;
	uint64_t reset_s;
	bool unlimited; /* no limit, and as much left as can be told */
	bool no_reset;  /* reset_s is not told */
};

struct sl_rls_header {
	struct sluice_bytes name, value; /* ASCII */
};

/* A field of what Envoy calls dynamic metadata: a text, or a whole number up to 2^53. */
struct sl_rls_field {
	struct sluice_bytes name; /* ASCII */
	bool is_number;
	int64_t number;
	struct sluice_bytes text;
};

struct sl_rls_response {
	enum sl_rls_code code;
	const struct sl_rls_status *statuses;
	uint32_t status_count;
	const struct sl_rls_header *response_headers, *request_headers;
	uint32_t response_header_count, request_header_count;
	struct sluice_bytes body;     /* empty: none */
	const struct sl_rls_field *metadata;
	uint32_t metadata_count;
	uint32_t over_count; /* statuses after those: OVER_LIMIT, and nothing else is told */
};

/* Puts a response before what `writer` has. */
void sl_rls_response_put(struct sl_pb_writer *writer, const struct sl_rls_response *response);

/* Its parts, the last first, for those who have some of them written already. */
void sl_rls_metadata_put(struct sl_pb_writer *writer, const struct sl_rls_field *fields, uint32_t count);
/* Begins a header of the client's response, whose value was put, not empty, up to `value_end`. */
void sl_rls_header_begin(struct sl_pb_writer *writer, struct sluice_bytes name, const uint8_t *value_end);
/* `limit`: its current_limit, as sl_rls_limit_put() has written it; empty: it is written here. */
void sl_rls_status_put(struct sl_pb_writer *writer, const struct sl_rls_status *status, struct sluice_bytes limit);
void sl_rls_limit_put(struct sl_pb_writer *writer, const struct sl_rls_status *status);
void sl_rls_code_put(struct sl_pb_writer *writer, enum sl_rls_code code);

/* grpc.health.v1: the service that is asked for, field 1; false for a message that is none. */
SLUICE_MUST_USE bool sl_health_request_read(struct sluice_bytes message, struct sluice_bytes *service);

#endif
