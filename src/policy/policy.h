/* What a loaded policy tells its hosts. Matching is public (sluice.h); these are the settings around it, and what the
 * doors print of a limit. Everything here is owned by the policy and lives until sluice_policy_free(). */
#ifndef SL_POLICY_H
#define SL_POLICY_H

#include "base/bytes.h"

enum {
	SL_POLICY_LIMITS_MAX = 100000,    /* limits in one file */
	SL_POLICY_OVERRIDES_MAX = 100000, /* overrides of one limit */
	SL_POLICY_VARIANTS_MAX = 1025,    /* counters for one key that a limit and its overrides may have between them */
	SL_QUOTAS_MAX = 1000000,          /* keys in one file of `overrides-from` */
	SL_QUOTAS_FILES_MAX = 16,         /* such files of all limits together */
	SL_QUOTAS_PATH_BYTES_MAX = 511,
	SL_POLICY_ROUTES_MAX = 1024, /* routes of all limits together that have a number; more have none */
	SL_POLICY_KEY_PARTS_MAX = 8, /* parts of a composite key */
	SL_POLICY_COSTS_MAX = 64,    /* of one limit, for different requests */
	SL_POLICY_FILE_BYTES_MAX = 64 * 1024 * 1024,
};

/* What callers may do. Each role allows its own routes and commands; admin allows all. Bits. */
enum {
	SL_ROLE_CHECK = 1, /* decide, peek, refund, explain; the proxies' doors */
	SL_ROLE_READ = 2,  /* peek, explain, limits, figures, metrics, top keys, the dashboard */
	SL_ROLE_ADMIN = 4, /* reset, reload, and all of the above */
	SL_ROLE_ALL = 7,
};

/* The forms in which an HTTP door tells of limits. Bits; 0 is none at all. Never both of one grammar clash:
 * draft10 with draft7 or draft6, legacy-epoch with legacy-delta. */
enum {
	SL_FORM_DRAFT10 = 1,       /* RateLimit: "name";r=..;t=.. and RateLimit-Policy: "name";q=..;w=.. */
	SL_FORM_DRAFT7 = 2,        /* RateLimit: limit=.., remaining=.., reset=.. and RateLimit-Policy: 100;w=60 */
	SL_FORM_DRAFT6 = 4,        /* RateLimit-Limit, -Remaining, -Reset and RateLimit-Policy: 100;w=60 */
	SL_FORM_LEGACY_EPOCH = 8,  /* X-RateLimit-Limit, -Remaining, -Reset: Unix seconds */
	SL_FORM_LEGACY_DELTA = 16, /* the same, -Reset in seconds from now */
	SL_FORM_FAILED_OPEN = 32,  /* Sluice-Failed-Open: 1 with what passes undecided; goes with all of them */
};

enum sl_listen_door { SL_LISTEN_RESP, SL_LISTEN_HTTP, SL_LISTEN_GRPC, SL_LISTEN_SPOP, SL_LISTEN_DOORS };
extern const char
	*const sl_listen_door_names[SL_LISTEN_DOORS]; /* "resp", "http", "grpc", "spop": as `listen` has them */

enum {
	SL_LISTENS_MAX = 16, /* of all doors together */
	SL_HOSTS_MAX = 64,   /* of one listener */
	SL_USERS_MAX = 256,
	SL_THREADS_MAX = 256, /* of a server */
};

/* One address that a door listens on. In the file: "127.0.0.1:7379", or a mapping {address, tls, proxy-protocol, mode,
 * headers, details, hosts, unprotected}, or a list of those. */
struct sl_listen {
	const char *address; /* "127.0.0.1:7379", "[::1]:7379" or "unix:/path" */
	uint8_t door;        /* enum sl_listen_door */
	bool tls;            /* speaks TLS with the policy's certificate */
	bool proxy_protocol; /* every connection begins with a PROXY header, from a trusted proxy only */
	bool unprotected;    /* may be reached from other hosts without any user being configured */
	uint32_t mode;       /* permissions of a unix socket, 0..0777; default 0660 */
	uint32_t forms;      /* SL_FORM_ bits for this listener; the policy's unless written */
	bool details;        /* a denial's body tells of all limits at the proxies' doors, too */
	/* By which names clients may ask while there are no users, besides localhost, addresses and names without a dot: in
	 * lower case, without port, without a dot at the end. */
	const struct sluice_bytes *hosts;
	uint32_t host_count; /* 0..SL_HOSTS_MAX */
};

/* How a secret is kept. A token is 128 random bits or more, so one SHA-256 of it is enough; a password is stretched.
 *   sha256:HEX64                              pbkdf2-sha256:ROUNDS:HEX32:HEX64 (salt, hash) */
enum sl_secret_kind { SL_SECRET_SHA256, SL_SECRET_PBKDF2 };
struct sl_secret {
	uint8_t kind;
	uint32_t rounds; /* 1,000 .. 10,000,000 */
	uint8_t salt[16], hash[32];
};

struct sl_user {
	struct sluice_bytes name; /* 1..64 bytes of printable ASCII but ':' and space */
	uint32_t roles;           /* SL_ROLE_ bits, at least one */
	bool is_token;            /* written as `token:`; a bearer is known by it without a name */
	struct sl_secret secret;
};

/* Bounds on what connections may take. */
struct sl_connection_limits {
	uint32_t max;         /* open at a time; 0: as many as descriptors allow */
	uint32_t per_address; /* of one client address (IPv6: of one network); 0: any */
	sluice_ns idle_ns;    /* without a request in hand; 0: any time */
	sluice_ns request_ns; /* from the first byte of a request to its last; 0: any time */
	sluice_ns write_ns;   /* that answers may wait for a peer who does not read; 0: any time */
};

/* How logs show keys, and addresses: as they are; as a keyed hash; the beginning of each value. */
enum sl_keys_shown { SL_KEYS_CLEAR, SL_KEYS_HASH, SL_KEYS_CUT };

/* Logs. */
struct sl_log_settings {
	bool json;                   /* of standard error */
	const char *denials;         /* file of the denial log; NULL: none */
	sluice_ns denials_per_key;   /* at most one line for a key in this time; 10 s */
	uint32_t denials_per_second; /* and at most so many lines in all; 100 */
	uint64_t denials_bytes;      /* at which the file is set aside as FILE.1 and begun anew; 64 MiB */
	uint8_t keys;                /* enum sl_keys_shown; clear unless written */
	const char *keys_secret;     /* by which keys are hashed; NULL only where they are not */
};

enum { SL_REDIS_ADDRESSES_MAX = 64, SL_REDIS_PREFIX_BYTES_MAX = 64 };

/* How decisions are made in Redis. */
enum sl_redis_via { SL_VIA_AUTO, SL_VIA_MODULE, SL_VIA_SCRIPT };

/* A store that is not on this host: nodes of Redis or Valkey. In the file: `store: {redis: [...], prefix, via, budget,
 * slices, slice, ready-after, user, password-file, tls}`; the store's other keys are of the counters that this process
 * keeps itself (on-error: local). */
struct sl_redis_settings {
	const char *const *addresses; /* "10.0.0.1:6379", "[::1]:6379", "name:6379", "unix:/path": some of them */
	uint32_t address_count;       /* 0: the store is on this host */
	const char *prefix;           /* put before every key; "sluice:" unless written, "" for none;
	                               * SL_REDIS_PREFIX_BYTES_MAX bytes at most */
	uint8_t via;                  /* enum sl_redis_via: find out, or insist */
	sluice_ns budget_ns;          /* how long a request may take there, 1 ms..10 s; 20 ms */
	bool slices;                  /* may slices of hot keys' quotas be taken? true unless written */
	sluice_ns slice_ns;           /* how long a slice is kept at most, 10 ms..10 s; 500 ms */
	sluice_ns ready_after_ns;     /* how long /readyz waits for a first node that answers, 0..1 h; 10 s */
	const char *user;             /* AUTH; NULL: the user default */
	const char *password_file;    /* a file whose first line is the password; NULL: none */
	bool tls;                     /* `tls: true`, or a mapping {ca, certificate, key} */
	const char *tls_ca;           /* PEM file of who may have signed the nodes' certificates; NULL: the system's */
	const char *tls_certificate, *tls_key; /* ours, where the nodes ask for one; both or none */
};

enum { SL_ENVOY_PATH_BYTES_MAX = 400 };

/* Limits that stand in envoyproxy/ratelimit's files (envoy.h), and what is ours of them. */
struct sl_envoy_settings {
	const char *config;    /* a folder, or one file; NULL: there are none */
	uint32_t line, column; /* where the policy says so */
	const char *algorithm; /* the word of the notation by which their limits count; NULL: fixed-window, as theirs */
	bool count_denied;     /* what is denied counts, as theirs does */
	bool merge_domains;    /* files may go on with a domain that others have, as by their MERGE_DOMAIN_CONFIG */
	uint8_t on_error;      /* enum sl_on_error, of all of them */
};

/* Which paths are one, besides those that are resolved to one. Bits. */
enum { SL_PATHS_ANY_CASE = 1, SL_PATHS_ANY_SLASH = 2 };

/* Settings of the server; strings are NUL-ended, NULL where the file does not say. */
struct sl_settings {
	const struct sl_listen
		*listens; /* 1..SL_LISTENS_MAX: resp, http, grpc; a door that is not written has its default */
	uint32_t listen_count;
	uint64_t memory_bytes;                 /* 256 MiB unless written: what a new store gets */
	bool memory_given;                     /* written: then a store that exists must have just that size */
	bool pretouch;                         /* private memory is brought in ahead; false for any other */
	const char *store_file;                /* path; NULL unless written, and then store_shared is NULL */
	const char *store_shared;              /* name of shared memory; NULL unless written */
	uint32_t blocks_percent;               /* share of a new store for logs and sub-buckets; 0 unless written */
	uint32_t overrides_most;               /* how many quotas of keys' own the store may have; 0 unless written: as many
	                                        * as it can */
	uint32_t threads;                      /* 1..SL_THREADS_MAX; 0: one a core */
	bool client_time;                      /* may clients set the instant (AT)? */
	uint32_t ipv6_prefix;                  /* 1..128, default 64 */
	uint32_t paths;                        /* SL_PATHS_ bits; 0 */
	uint32_t forms;                        /* SL_FORM_ bits; SL_FORM_DRAFT10 unless written */
	const char *retry_header;              /* of a proxy's request, in lower case, that says its id; NULL: none */
	bool forwarded;                        /* `client-address: forwarded`: RFC 7239 instead of X-Forwarded-For */
	uint32_t near_percent;                 /* of the quota left at which a key is near its limit, 0..100; default 5 */
	sluice_ns drain_ns;                    /* how long /readyz is red before listening ends; 0 */
	const char *tls_certificate, *tls_key; /* PEM files; both or none */
	const char *tls_client_ca;             /* PEM file: clients must show a certificate that it signed; or NULL */
	const struct sl_user *users;           /* none: everybody may do everything that the listener lets in */
	uint32_t user_count;
	bool limits_given, users_given; /* written, if only as []: then none are meant where there are none */
	uint32_t anonymous;             /* SL_ROLE_ bits of callers without credentials, where there are users; 0 */
	struct sl_connection_limits connections;
	struct sl_log_settings log;
	struct sl_redis_settings redis;
	struct sl_envoy_settings envoy;
};

/* What a request gets while the store can't answer. */
enum sl_on_error {
	SL_ON_ERROR_ALLOW, /* the limit counts as not applying */
	SL_ON_ERROR_DENY,
	SL_ON_ERROR_LOCAL, /* it is decided by counters of this process alone: of a store that is elsewhere */
};

/* A limit that is charged before the cost is known: `reserve: true`, or {ttl, actual, estimate}. */
struct sl_policy_reserve {
	bool on;
	sluice_ns ttl_ns;          /* when what nobody commits goes back, 1 ms..3660 d; 60 s */
	const char *actual_header; /* of the response, in lower case, that says the true cost; NULL: a second call does */
	uint32_t estimate;         /* what it is charged until then, where the caller says no cost; 0: the request's cost */
	const char *estimate_header; /* of the request, in lower case, that says it, and goes before `estimate`; NULL */
};

enum {
	SL_DENIED_MAX = 16,               /* different bodies of one policy */
	SL_DENIED_BYTES_MAX = 16 * 1024,  /* of one, as it stands in its file */
	SL_DENIED_PATH_BYTES_MAX = 511,
};

/* What a denial's body is, and so how values are encoded in it. */
enum sl_denied_type { SL_DENIED_JSON, SL_DENIED_PROBLEM, SL_DENIED_HTML, SL_DENIED_PLAIN };

/* The body of a denial at the proxies' doors, in place of the problem: `denied: {body: FILE, type: text/html}`. */
struct sl_policy_denied {
	const char *file;
	uint8_t type;             /* enum sl_denied_type */
	struct sluice_bytes body; /* a template (proto/template.h); data NULL until sl_policy_denied_set() */
	uint32_t line, column;    /* where the policy names the file first */
};

/* What a request costs at one limit, whatever it costs at others: `cost`. */
struct sl_policy_cost {
	bool on;
	uint32_t cost;        /* where nothing else is said; 0: the request's own, 1 unless it is stated */
	const char *header;   /* of the request, in lower case, that says it; NULL: none does */
	uint32_t route_count; /* costs for some requests, which go before: what matches them fills in their items */
};

/* One limit as the file has it. */
struct sl_policy_limit {
	const char *name;
	struct sluice_limit limit;     /* the limit without overrides */
	struct sluice_limit candidate; /* another quota tried on the same counter; has_candidate */
	const char *key_text;          /* the key, such as "user | ip, path"; "" where all requests share one counter */
	const char *when_text;         /* the conditions as one line of JSON, "{}" where there are none */
	uint32_t override_count;
	bool observe;       /* the limit itself, or all of them; of an override the match says it */
	const char *canary; /* the share that is enforced, "10% of user"; NULL: none. A match says it of a request */
	bool rollout_varies; /* an override observes or enforces otherwise than the limit itself */
	uint8_t on_error;    /* enum sl_on_error */
	bool strict;        /* no slices: each request is decided where the counter is */
	bool has_candidate;
	bool stagger;              /* spreads retry_after over successive denied callers */
	const char *of;            /* distinct: the attribute whose values are counted; NULL for all others */
	bool has_terms;            /* `terms` say something: penalties, or that denials count; of its overrides, too */
	struct sluice_terms terms; /* what a match's items point to */
	const char *terms_text;    /* in the words of src/algo/terms.h; "" where there are none */
	struct sl_policy_reserve reserve;
	struct sl_policy_cost cost;
	uint8_t denied; /* the number of its denials' body, from 1; 0: the policy's */
	const char *overrides_from; /* the file of its keys' own quotas; NULL: none */
	uint32_t quota_count;       /* how many keys that has, once it was read */
};

/* A file of quotas of single keys (quotas.h). */
struct sl_policy_quotas {
	const char *file;
	uint32_t position;     /* of its limit */
	uint32_t line, column; /* where the policy names it */
};

/* Where the HTTP doors find an attribute that is not built in. */
struct sl_policy_source {
	struct sluice_bytes name;   /* of the attribute, such as "user" */
	struct sluice_bytes header; /* in lower case, such as "x-user-id"; empty: only callers of ADMIT give it */
};

struct sl_address;

/* The policy's number, above 0: no other that this process has loaded has it. What is derived from a policy and kept
 * elsewhere is known by it, since the place in memory of one that was freed is soon another's. */
uint64_t sl_policy_number(const struct sluice_policy *policy);

/* The settings, defaults filled in. */
const struct sl_settings *sl_policy_settings(const struct sluice_policy *policy);

/* What a policy protects by: bits. */
enum {
	SL_ARMED_LIMITS = 1, /* limits, its own or in files of envoyproxy/ratelimit */
	SL_ARMED_USERS = 2,
	SL_ARMED_RULES = 4, /* limits in such files */
};
uint32_t sl_policy_armed(const struct sluice_policy *policy);

/* Why a policy must not take the place of one that was armed so, for a person: that one had limits, or users, and this
 * one has none and does not say so; or it names files that have none any more. NULL: it may. */
const char *sl_policy_disarms(uint32_t had, const struct sluice_policy *now);

/* How many limits the file has, 0..SL_POLICY_LIMITS_MAX. */
uint32_t sl_policy_limit_count(const struct sluice_policy *policy);

/* One limit, in the order of the file: `position` < sl_policy_limit_count(); after those, a rule of
 * envoyproxy/ratelimit's files (envoy.h), as one. */
const struct sl_policy_limit *sl_policy_limit_at(const struct sluice_policy *policy, uint32_t position);

/* sluice_policy_match() for a caller who says himself whom limits of distinct count: `member`, which the items then
 * point to, in place of the attributes that `of` names, and where those are absent. Data NULL: as there. */
SLUICE_MUST_USE sluice_err sl_policy_match(const struct sluice_policy *policy,
                                           const struct sluice_attribute *attributes, size_t count,
                                           struct sluice_bytes member, struct sluice_match *match, void *buffer,
                                           size_t buffer_bytes);

/* The same for one of several requests that are decided together: adds the limits that apply to it to a match that has
 * those of others already, sluice_match.count, beyond and *buffer_used being 0 at first. All of them together are
 * bounded as those of one request are: no more than SLUICE_ITEMS_MAX. Nothing may be added once one of them has
 * SLUICE_BOUND_LIMITS. */
SLUICE_MUST_USE sluice_err sl_policy_match_more(const struct sluice_policy *policy,
                                                const struct sluice_attribute *attributes, size_t count,
                                                struct sluice_match *match, void *buffer, size_t buffer_bytes,
                                                size_t *buffer_used);

/* Adds one limit to a match. One that finds no place, SLUICE_ITEMS_MAX having come before, is among those beyond if it
 * is only observed; else it takes the last place, and denies. False: it found none. */
bool sl_match_add(struct sluice_match *match, const struct sluice_item *item, uint32_t position);

/* What item `i` < match->count of a match gets while the store cannot answer it. Observed, it denies nobody: never
 * SL_ON_ERROR_DENY. SL_ON_ERROR_LOCAL where the store is on this host means SL_ON_ERROR_ALLOW: there is no other. */
enum sl_on_error sl_policy_on_error(const struct sluice_policy *policy, const struct sluice_match *match, uint32_t i);

/* Must item `i` < match->count of a match be decided where its counter is, each time: no slices? Of an override, what
 * its limit says. */
bool sl_policy_is_strict(const struct sluice_policy *policy, const struct sluice_match *match, uint32_t i);

/* How item `i` < match->count of a match is reserved; NULL where its limit says no `reserve`. Its ttl is in the item
 * already; its estimate is for those doors whose callers say no cost. */
const struct sl_policy_reserve *sl_policy_reserve(const struct sluice_policy *policy, const struct sluice_match *match,
                                                  uint32_t i);

/* Does any limit of the policy, or an override, lease (concurrency) or reserve? Then SLUICE.ADMIT answers tickets. */
bool sl_policy_holds(const struct sluice_policy *policy);

/* Does some limit say itself what a request costs there, or reserve? */
bool sl_policy_has_costs(const struct sluice_policy *policy);

/* Who denies a request while the store cannot answer: the first item of the match whose limit says `on-error: deny`, by
 * its index; -1: nobody, it is allowed. Observed limits deny nobody. `match` must be of this policy. */
int32_t sl_policy_denier(const struct sluice_policy *policy, const struct sluice_match *match);

/* The candidates that go with a match: quotas that are tried on the live counters and deny nobody. One is tried where
 * its limit itself counts; an override has none. Fills `items` with at most `room` observed items for the same keys,
 * and `of` with the index in the match that each belongs to. Returns how many. `match` must be of this policy.
 * Decided in one call, after the items of the match, a candidate charges nothing of its own: it meets its limit in one
 * counter, which the limit charges. Only where the limit is observed, too, and would deny, does a larger candidate
 * charge it. */
uint32_t sl_policy_candidates(const struct sluice_policy *policy, const struct sluice_match *match,
                              struct sluice_item *items, uint8_t *of, uint32_t room);

/* The path among a limit's conditions that a request's path matched, as the policy writes it: /orgs/{org}/search. Data
 * NULL where the limit names no path, or none that is this one's. */
struct sluice_bytes sl_policy_route(const struct sluice_policy *policy, uint32_t position, struct sluice_bytes path);

/* How many different bodies of denials the policy names, 0..SL_DENIED_MAX; and one of them, `number` below that. */
uint32_t sl_policy_denied_count(const struct sluice_policy *policy);
const struct sl_policy_denied *sl_policy_denied_at(const struct sluice_policy *policy, uint32_t number);

/* Gives a body the text of its file, which is copied: for a host that reads files, before anybody else has the policy.
 * False without memory. */
SLUICE_MUST_USE bool sl_policy_denied_set(struct sluice_policy *policy, uint32_t number, struct sluice_bytes text);

/* The body of denials by the limit at a position: its own, else the policy's; NULL where neither names one, or none has
 * read it. */
const struct sl_policy_denied *sl_policy_denied_by(const struct sluice_policy *policy, uint32_t position);

/* How many files of quotas the policy names, 0..SL_QUOTAS_FILES_MAX; and one of them, `number` below that. */
uint32_t sl_policy_quotas_count(const struct sluice_policy *policy);
const struct sl_policy_quotas *sl_policy_quotas_at(const struct sluice_policy *policy, uint32_t number);

/* Gives a limit the quotas of its keys from the text of their file (CSV, quotas.h), of which nothing is kept: for a
 * host that reads files, before anybody else has the policy. Without it no key has one. False where the text is wrong,
 * or there is no memory: *problem says what is, with line and column of the text. O(bytes), some 0.4 us a line. */
SLUICE_MUST_USE bool sl_policy_quotas_set(struct sluice_policy *policy, uint32_t number, struct sluice_bytes text,
                                          struct sluice_problem *problem);

/* The routes of a limit: what its `when` says of the path, in the order of the file. Those of all limits have numbers,
 * from 0; the limit's are first .. first + count - 1. */
struct sl_policy_routes {
	uint32_t first, count;
};
struct sl_policy_routes sl_policy_routes(const struct sluice_policy *policy, uint32_t position);

/* How many numbers there are, at most SL_POLICY_ROUTES_MAX. */
uint32_t sl_policy_route_count(const struct sluice_policy *policy);

/* The text of a limit's i-th route, from 0, in the form of paths: /orgs/{org}/search. */
struct sluice_bytes sl_policy_route_at(const struct sluice_policy *policy, uint32_t position, uint32_t i);

/* The number of the first route of a limit that holds for a path, as the request tells it; -1 where none with a number
 * does, or data is NULL. O(routes of the limit x path). */
int64_t sl_policy_route_find(const struct sluice_policy *policy, uint32_t position, struct sluice_bytes path);

/* The position of the limit of a name; -1 where there is none. */
int64_t sl_policy_limit_find(const struct sluice_policy *policy, struct sluice_bytes name);

/* Reads "policy:NAME", which stands for a limit of the policy wherever notation is taken. Returns 0 where the text does
 * not begin so; 1 with *limit set to the policy's own; -1 where the policy has no limit of that name. */
int sl_policy_limit_named(const struct sluice_policy *policy, struct sluice_bytes text,
                          const struct sluice_limit **limit);

/* The key that requests have whose key is written so (`ip=2001:db8::5` is `ip=2001:db8::/64`), for those who name a
 * counter of the policy by its key: their values take the forms of requests (attribute.h).
 *  memory  SLUICE_KEY_BYTES_MAX bytes, used where the key is written anew
 * What is no list of pairs stays as it is. */
struct sluice_bytes sl_policy_key(const struct sluice_policy *policy, struct sluice_bytes key, char *memory);

/* What a limit says of one key, as far as the key tells it. */
struct sl_policy_keyed {
	const struct sluice_limit *limit; /* of the first override that fits; else the limit's own */
	uint32_t override;                /* which one it is, from 1; 0: the limit's own */
	/* The first override, from 1, that may fit as well, and comes before any that does: it asks for what the key does
	 * not tell, such as a plan. Then the limit is its own. 0: there is none. */
	uint32_t undecided;
	uint32_t cost; /* of a request, by what the limit says of it; 0: nothing, or what the key does not tell */
};

/* Is a key in the form of sl_policy_key() surely that of no request which a limit is for? Part by part it has none of
 * the names that the limit's own key has. */
bool sl_policy_key_is_foreign(const struct sluice_policy *policy, uint32_t position, struct sluice_bytes key);

/* Do a limit's own conditions surely exclude each request of a key in the form of sl_policy_key()? What its routes fill
 * in is no part of what `when` is asked of; they exclude a route that is none of them. O(conditions), some hundred ns.
 */
bool sl_policy_key_is_excluded(const struct sluice_policy *policy, uint32_t position, struct sluice_bytes key);

/* What counts for requests of a key, in the form of sl_policy_key(), for those who look a key up by the limit's name.
 *  position  of the limit
 * Attributes of the key that come later than the first that the request has are absent. O(overrides), some us. */
struct sl_policy_keyed sl_policy_limit_of_key(const struct sluice_policy *policy, uint32_t position,
                                              struct sluice_bytes key);

/* The different counters that a limit with its overrides may keep for one key: fills `limits` with at most `room` of
 * them, the limit itself first. Returns how many. For those who reset it. */
uint32_t sl_policy_limit_variants(const struct sluice_policy *policy, uint32_t position,
                                  const struct sluice_limit **limits, uint32_t room);

/* Do keys find the counters of the limit at `position` of a policy, which now has this one's name at `changed`, no
 * more: has it another algorithm, window, precision or calendar, and no override with those of before? */
bool sl_policy_begins_anew(const struct sluice_policy *before, uint32_t position, const struct sluice_policy *now,
                           uint32_t changed);

/* How many attributes have a source of their own. */
uint32_t sl_policy_source_count(const struct sluice_policy *policy);

/* One of them, in the order of the file; `position` < sl_policy_source_count(). */
const struct sl_policy_source *sl_policy_source_at(const struct sluice_policy *policy, uint32_t position);

/* What is said of the number-th listener of a door, from 0; of its last one where there are fewer. NULL: of none, and
 * of SL_LISTENER_NONE. */
#define SL_LISTENER_NONE UINT32_MAX
const struct sl_listen *sl_settings_listen(const struct sl_settings *settings, uint32_t door, uint32_t number);

/* Is an address one of trusted-proxies? Where the file does not say: of 127.0.0.0/8 or ::1. O(networks written). */
bool sl_policy_trusts(const struct sluice_policy *policy, const struct sl_address *address);

#endif
