/* A worker's store: opened when the worker begins, never by the master, so that nothing is inherited, and `nginx -t`
 * opens nothing. One that can't be opened is told in the error log and tried again by a timer, 1 s to 30 s later:
 * meanwhile on-error says what requests get. */
#include "hosts/nginx/module.h"

#include "base/assert.h"
#include "hosts/library/registry.h"
#include "store/store.h"

/* How long one that is being opened elsewhere is waited for: a worker that begins has no clients yet. */
#define BEGIN_PATIENCE_NS SL_HOME_GUARD_WAIT_NS
#define RETRY_PATIENCE_NS ((sluice_ns)1000000)

enum { RETRY_MS_MIN = 1000, RETRY_MS_MAX = 30000, TELL_MS = 1000 };

static struct {
	const struct sl_nginx_main *main;
	struct sluice_store *store; /* NULL: away */
	struct sl_nginx_answer *answer;
	ngx_event_t retry;
	ngx_connection_t none; /* what a timer's event has to have */
	ngx_msec_t wait, told_at;
	bool told;
} worker;

struct sluice_store *sl_nginx_store(void) {
	return worker.store;
}

struct sl_nginx_answer *sl_nginx_answer(void) {
	return worker.answer;
}

static void open_store(ngx_log_t *log, bool again) {
	const struct sluice_store_options *options = &worker.main->store;
	struct sluice_error error = {.text = "no memory"};
	const char *where = options->file != NULL ? options->file : options->shared;
	if (sl_store_open_within(&worker.store, options, again ? RETRY_PATIENCE_NS : BEGIN_PATIENCE_NS, &error) ==
	    SLUICE_OK) {
		worker.store->stalls->parks = true; /* nobody is waited for here: handler.c asks again by a timer */
		if (again)
			ngx_log_error(NGX_LOG_NOTICE, log, 0, "sluice: store %s: opened, requests are decided again", where);
		return;
	}
	worker.store = NULL;
	ngx_log_error(NGX_LOG_ERR, log, 0, "sluice: store %s can't be opened, tried again in %M ms: %s", where, worker.wait,
	              error.text);
	ngx_add_timer(&worker.retry, worker.wait);
	worker.wait = worker.wait * 2 < RETRY_MS_MAX ? worker.wait * 2 : RETRY_MS_MAX;
}

static void retry(ngx_event_t *event) {
	if (!ngx_exiting && !ngx_terminate)
		open_store(event->log, true);
}

/* What deciding needs. */
static bool make_answer(void) {
	worker.answer = calloc(1, sizeof *worker.answer);
	if (worker.answer == NULL)
		return false;
	if (!worker.main->policy)
		return true;
	worker.answer->match_bytes = malloc(SLUICE_MATCH_BYTES_MAX);
	worker.answer->stagger = sl_stagger_new();
	return worker.answer->match_bytes != NULL && worker.answer->stagger != NULL;
}

ngx_int_t sl_nginx_worker_begin(ngx_cycle_t *cycle) {
	if (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE)
		return NGX_OK; /* a cache's manager or loader */
	worker.main = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_sluice_module);
	if (worker.main == NULL || !worker.main->limits)
		return NGX_OK;
	worker.wait = RETRY_MS_MIN;
	worker.none.fd = (ngx_socket_t)-1;
	worker.retry.handler = retry;
	worker.retry.data = &worker.none;
	worker.retry.log = cycle->log;
	worker.retry.cancelable = 1;
	if (!make_answer()) {
		ngx_log_error(NGX_LOG_EMERG, cycle->log, 0, "sluice: no memory");
		return NGX_ERROR;
	}
	open_store(cycle->log, false);
	return NGX_OK;
}

void sl_nginx_worker_end(ngx_cycle_t *cycle) {
	(void)cycle;
	sl_nginx_end_requests();
	sluice_store_close(worker.store);
	worker.store = NULL;
	if (worker.answer == NULL)
		return;
	sl_stagger_free(worker.answer->stagger);
	free(worker.answer->match_bytes);
	free(worker.answer);
	worker.answer = NULL;
}

void sl_nginx_tell_undecided(ngx_log_t *log, const struct sl_nginx_answer *answer, bool denied) {
	if (worker.told && ngx_current_msec - worker.told_at < TELL_MS)
		return;
	worker.told = true;
	worker.told_at = ngx_current_msec;
	ngx_log_error(NGX_LOG_ERR, log, 0, "sluice: the store did not answer (%s): on-error %s requests",
	              answer->err == SLUICE_E_AWAY ? "it is not open" : SL_HELD_UP_TEXT, denied ? "denies" : "allows");
}
