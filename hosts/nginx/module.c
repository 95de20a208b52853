/* The module as nginx sees it: its configuration's life, its place among the phases, its workers. */
#include "hosts/nginx/module.h"

static void *create_main(ngx_conf_t *cf) {
	struct sl_nginx_main *main = ngx_pcalloc(cf->pool, sizeof *main);
	if (main == NULL || ngx_array_init(&main->policies, cf->pool, 2, sizeof(struct sl_nginx_policy *)) != NGX_OK)
		return NULL;
	return main;
}

static void *create_place(ngx_conf_t *cf) {
	struct sl_nginx_place *place = ngx_pcalloc(cf->pool, sizeof *place);
	if (place == NULL)
		return NULL;
	place->on = place->dry_run = place->delay = place->headers = NGX_CONF_UNSET;
	place->rules = place->attributes = NGX_CONF_UNSET_PTR;
	place->policy = NGX_CONF_UNSET_PTR;
	place->status = place->log_level = place->on_error = NGX_CONF_UNSET_UINT;
	return place;
}

/* As everywhere in nginx: what a place says of a thing replaces all that outer places say of it. */
static char *merge_place(ngx_conf_t *cf, void *parent, void *child) {
	struct sl_nginx_main *main = ngx_http_conf_get_module_main_conf(cf, ngx_http_sluice_module);
	struct sl_nginx_place *outer = parent, *place = child;
	ngx_conf_merge_value(place->on, outer->on, 1);
	ngx_conf_merge_value(place->dry_run, outer->dry_run, 0);
	ngx_conf_merge_value(place->delay, outer->delay, 1);
	ngx_conf_merge_value(place->headers, outer->headers, 1);
	ngx_conf_merge_ptr_value(place->rules, outer->rules, NULL);
	ngx_conf_merge_ptr_value(place->attributes, outer->attributes, NULL);
	ngx_conf_merge_ptr_value(place->policy, outer->policy, NULL);
	ngx_conf_merge_uint_value(place->status, outer->status, NGX_HTTP_TOO_MANY_REQUESTS);
	ngx_conf_merge_uint_value(place->log_level, outer->log_level, NGX_LOG_ERR);
	ngx_conf_merge_uint_value(place->on_error, outer->on_error, SL_NGINX_ALLOW);
	main->limits = main->limits || place->rules != NULL || place->policy != NULL;
	main->policy = main->policy || place->policy != NULL;
	return NGX_CONF_OK;
}

/* Handlers of a phase run from the last to the first. Ours is put first, so that it is asked when all others have had
 * their say: realip has found the client's address, also where a location tells it how, and limit_req and limit_conn
 * have not denied. */
static ngx_int_t add_handler(ngx_conf_t *cf) {
	ngx_http_core_main_conf_t *core = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
	ngx_array_t *handlers = &core->phases[NGX_HTTP_PREACCESS_PHASE].handlers;
	if (ngx_array_push(handlers) == NULL)
		return NGX_ERROR;
	ngx_http_handler_pt *all = handlers->elts;
	ngx_memmove(all + 1, all, (handlers->nelts - 1) * sizeof all[0]);
	all[0] = sl_nginx_preaccess;
	return NGX_OK;
}

static ngx_int_t finish(ngx_conf_t *cf) {
	struct sl_nginx_main *main = ngx_http_conf_get_module_main_conf(cf, ngx_http_sluice_module);
	if (!main->limits)
		return NGX_OK;
	if (main->store.file == NULL && main->store.shared == NULL) {
		ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
		              "sluice: there are limits, but no \"sluice_store\" in the http block to count in: add one, "
		              "such as sluice_store shared:nginx memory=64m;");
		return NGX_ERROR;
	}
	sl_nginx_next_header_filter = ngx_http_top_header_filter;
	ngx_http_top_header_filter = sl_nginx_header_filter;
	return add_handler(cf);
}

static ngx_http_module_t context = {
	sl_nginx_variables_add, /* preconfiguration */
	finish,                 /* postconfiguration */
	create_main,
	NULL,
	NULL,
	NULL,
	create_place,
	merge_place,
};

ngx_module_t ngx_http_sluice_module = {
	NGX_MODULE_V1,
	&context,
	sl_nginx_directives,
	NGX_HTTP_MODULE,
	NULL, /* init_master */
	NULL, /* init_module */
	sl_nginx_worker_begin,
	NULL, /* init_thread */
	NULL, /* exit_thread */
	sl_nginx_worker_end,
	NULL, /* exit_master */
	NGX_MODULE_V1_PADDING,
};
