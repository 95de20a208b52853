/* What the nginx-facing files share: the module's configuration, and what it keeps of a request. All of them run on the
 * one thread of a worker.
 *
 *   directives.c  the configuration   policy.c  its policy files   store.c      the counters, one store a worker
 *   request.c     what is asked       handler.c what becomes of it variables.c  what it may tell others */
#ifndef SL_NGINX_MODULE_H
#define SL_NGINX_MODULE_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "hosts/nginx/decide.h"

enum { SL_NGINX_ATTRIBUTES_MAX = 32 }; /* sluice_attribute, of one place */

extern ngx_module_t ngx_http_sluice_module;

/* ---- configuration ----------------------------------------------------------------------------------------------- */

/* sluice_limit */
struct sl_nginx_rule {
	struct sluice_limit limit;
	ngx_str_t name;
	ngx_http_complex_value_t key, cost, member; /* cost and member: value.data NULL where they are not said */
};

/* sluice_attribute */
struct sl_nginx_attribute {
	ngx_str_t name;
	ngx_http_complex_value_t value;
};

/* A policy file, loaded once however many places name it. */
struct sl_nginx_policy {
	ngx_str_t path;
	struct sluice_policy *policy;
};

struct sl_nginx_main {
	struct sluice_store_options store; /* file and shared NULL: none is named */
	ngx_array_t policies;              /* of struct sl_nginx_policy * */
	bool limits;                       /* some place has limits */
	bool policy;                       /* some of them of a policy */
};

struct sl_nginx_place {
	ngx_flag_t on, dry_run, delay, headers;
	ngx_array_t *rules;               /* of struct sl_nginx_rule; NULL: none */
	ngx_array_t *attributes;          /* of struct sl_nginx_attribute; NULL: none */
	struct sl_nginx_policy *policy;   /* NULL: none */
	ngx_uint_t status, log_level, on_error;
};

enum { SL_NGINX_ALLOW, SL_NGINX_DENY }; /* sluice_on_error */

/* Registers a policy file: reads it, or finds the one that was read. NULL after a message that names the line. */
struct sl_nginx_policy *sl_nginx_policy_load(ngx_conf_t *cf, struct sl_nginx_main *main, ngx_str_t *path);

extern ngx_command_t sl_nginx_directives[];

/* ---- a worker ---------------------------------------------------------------------------------------------------- */

/* Opens the store, and what deciding needs. A store that can't be opened is told in the log and tried again later:
 * NGX_OK all the same. NGX_ERROR without memory. */
ngx_int_t sl_nginx_worker_begin(ngx_cycle_t *cycle);
void sl_nginx_worker_end(ngx_cycle_t *cycle);

/* The store; NULL while it is away. */
struct sluice_store *sl_nginx_store(void);

/* Where this worker decides. */
struct sl_nginx_answer *sl_nginx_answer(void);

/* Ends what requests hold that nginx does not end: a worker that is told to stop at once frees none. */
void sl_nginx_end_requests(void);

/* Tells in the log that the store did not answer, at most once a second. */
void sl_nginx_tell_undecided(ngx_log_t *log, const struct sl_nginx_answer *answer, bool denied);

/* ---- a request --------------------------------------------------------------------------------------------------- */

/* $sluice_status, in this order */
enum sl_nginx_state {
	SL_NGINX_NOT_ASKED,
	SL_NGINX_IS_PASSED,
	SL_NGINX_IS_DELAYED,
	SL_NGINX_IS_REJECTED,
	SL_NGINX_IS_DELAYED_DRY_RUN,
	SL_NGINX_IS_REJECTED_DRY_RUN,
	SL_NGINX_IS_ERROR,   /* the store could not answer: on-error has */
	SL_NGINX_IS_INVALID, /* its cost is none, or an attribute was given twice */
	SL_NGINX_STATES
};

/* What is kept of a request until it ends. It lies in memory of a cleanup of the request's pool, where it is found
 * again when an internal redirect has cleared all modules' contexts. */
struct sl_nginx_kept {
	enum sl_nginx_state state;
	bool settled;                    /* it was decided: never again */
	bool no_store;                   /* no cache may keep the response */
	ngx_msec_t asked_at;             /* for the first time, where a process holds it up */
	ngx_str_t lines;                 /* header lines, each with its CR LF */
	ngx_str_t name;                  /* of the limit that decided; len 0: none applied */
	struct sluice_decision decision; /* merged; index -1 where none applied */
};

/* What is kept of the main request; NULL: nothing yet. */
struct sl_nginx_kept *sl_nginx_kept_find(ngx_http_request_t *r);

/* A header of a list (`data`, an ngx_list_t) by its name in lower case, as struct sl_admission has it. */
bool sl_nginx_header(void *data, const char *name, struct sluice_bytes *value);

/* Whether `text` is a cost, a whole number 0..4294967295; unless it is, *cost stays. */
bool sl_nginx_cost(ngx_str_t text, uint32_t *cost);

/* Fills `ask` of a request, in memory of its pool. NGX_OK; NGX_ERROR: no memory; NGX_ABORT: a cost is none,
 * and answer->wrong says so. */
ngx_int_t sl_nginx_request_ask(ngx_http_request_t *r, struct sl_nginx_place *place, struct sl_nginx_ask *ask);

/* The handler of the phase: NGX_DECLINED lets the request go on; NGX_AGAIN holds it; NGX_DONE: it was answered; a
 * status is answered by nginx. */
ngx_int_t sl_nginx_preaccess(ngx_http_request_t *r);

/* Adds the headers that tell of a decision. NGX_ERROR without memory, else what the filter after it says. */
ngx_int_t sl_nginx_header_filter(ngx_http_request_t *r);
extern ngx_http_output_header_filter_pt sl_nginx_next_header_filter;

/* Registers the variables, before the configuration is read. NGX_OK, NGX_ERROR. */
ngx_int_t sl_nginx_variables_add(ngx_conf_t *cf);

static inline struct sluice_bytes sl_nginx_bytes(ngx_str_t text) {
	return sl_slice(text.data, text.len);
}

#endif
