/* What the module tells others of a request: access logs, error pages, headers for an app. Not found where the request
 * was asked nothing (so far).
 *
 *   $sluice_status       PASSED, DELAYED, REJECTED, DELAYED_DRY_RUN, REJECTED_DRY_RUN, ERROR, INVALID
 *   $sluice_limit        the name of the limit that decided
 *   $sluice_quota        of that limit
 *   $sluice_remaining    the least of all limits
 *   $sluice_retry_after, $sluice_reset_after, $sluice_delay   in ms, rounded up; -1 for never
 *   $sluice_ip           the client's address as limits count it: IPv6 by its network
 */
#include "hosts/nginx/module.h"

#include "base/math.h"
#include "policy/address.h"

enum { IPV6_PREFIX_DEFAULT = 64 };

static ngx_int_t found(ngx_http_variable_value_t *value, const void *data, size_t len) {
	value->data = (u_char *)data;
	value->len = (unsigned)len;
	value->valid = 1;
	value->no_cacheable = 0;
	value->not_found = 0;
	return NGX_OK;
}

static ngx_int_t missing(ngx_http_variable_value_t *value) {
	value->not_found = 1;
	return NGX_OK;
}

static ngx_int_t get_status(ngx_http_request_t *r, ngx_http_variable_value_t *value, uintptr_t data) {
	static const char *const words[SL_NGINX_STATES] = {
		[SL_NGINX_IS_PASSED] = "PASSED",
		[SL_NGINX_IS_DELAYED] = "DELAYED",
		[SL_NGINX_IS_REJECTED] = "REJECTED",
		[SL_NGINX_IS_DELAYED_DRY_RUN] = "DELAYED_DRY_RUN",
		[SL_NGINX_IS_REJECTED_DRY_RUN] = "REJECTED_DRY_RUN",
		[SL_NGINX_IS_ERROR] = "ERROR",
		[SL_NGINX_IS_INVALID] = "INVALID",
	};
	struct sl_nginx_kept *kept = sl_nginx_kept_find(r);
	(void)data;
	if (kept == NULL || words[kept->state] == NULL)
		return missing(value);
	return found(value, words[kept->state], ngx_strlen(words[kept->state]));
}

static ngx_int_t get_limit(ngx_http_request_t *r, ngx_http_variable_value_t *value, uintptr_t data) {
	struct sl_nginx_kept *kept = sl_nginx_kept_find(r);
	(void)data;
	return kept == NULL || kept->name.len == 0 ? missing(value) : found(value, kept->name.data, kept->name.len);
}

static ngx_int_t found_number(ngx_http_request_t *r, ngx_http_variable_value_t *value, int64_t number) {
	u_char *text = ngx_pnalloc(r->pool, NGX_INT64_LEN);
	if (text == NULL)
		return NGX_ERROR;
	return found(value, text, (size_t)(ngx_sprintf(text, "%L", number) - text));
}

enum number { QUOTA, REMAINING, RETRY_AFTER, RESET_AFTER, DELAY };

static int64_t number_of(const struct sluice_decision *decision, uintptr_t which) {
	switch (which) {
	case QUOTA:
		return (int64_t)decision->quota;
	case REMAINING:
		return decision->remaining;
	case RETRY_AFTER:
		return decision->retry_after_ns == SLUICE_NEVER ? -1 : sl_ns_to_ms_ceil(decision->retry_after_ns);
	case RESET_AFTER:
		return sl_ns_to_ms_ceil(decision->reset_after_ns);
	default:
		return sl_ns_to_ms_ceil(decision->delay_ns);
	}
}

static ngx_int_t get_number(ngx_http_request_t *r, ngx_http_variable_value_t *value, uintptr_t data) {
	struct sl_nginx_kept *kept = sl_nginx_kept_find(r);
	if (kept == NULL || kept->name.len == 0)
		return missing(value);
	return found_number(r, value, number_of(&kept->decision, data));
}

static ngx_int_t get_ip(ngx_http_request_t *r, ngx_http_variable_value_t *value, uintptr_t data) {
	struct sl_nginx_place *place = ngx_http_get_module_loc_conf(r, ngx_http_sluice_module);
	struct sl_address address;
	char *text;
	(void)data;
	if (!sl_address_parse(sl_nginx_bytes(r->connection->addr_text), &address, NULL))
		return missing(value);
	text = ngx_pnalloc(r->pool, SL_ADDRESS_TEXT_MAX);
	if (text == NULL)
		return NGX_ERROR;
	uint32_t prefix = place->policy != NULL ? sl_policy_settings(place->policy->policy)->ipv6_prefix
	                                        : (uint32_t)IPV6_PREFIX_DEFAULT;
	return found(value, text, sl_address_key(&address, prefix, text));
}

static ngx_http_variable_t variables[] = {
	{ngx_string("sluice_status"), NULL, get_status, 0, NGX_HTTP_VAR_NOCACHEABLE, 0},
	{ngx_string("sluice_limit"), NULL, get_limit, 0, NGX_HTTP_VAR_NOCACHEABLE, 0},
	{ngx_string("sluice_quota"), NULL, get_number, QUOTA, NGX_HTTP_VAR_NOCACHEABLE, 0},
	{ngx_string("sluice_remaining"), NULL, get_number, REMAINING, NGX_HTTP_VAR_NOCACHEABLE, 0},
	{ngx_string("sluice_retry_after"), NULL, get_number, RETRY_AFTER, NGX_HTTP_VAR_NOCACHEABLE, 0},
	{ngx_string("sluice_reset_after"), NULL, get_number, RESET_AFTER, NGX_HTTP_VAR_NOCACHEABLE, 0},
	{ngx_string("sluice_delay"), NULL, get_number, DELAY, NGX_HTTP_VAR_NOCACHEABLE, 0},
	{ngx_string("sluice_ip"), NULL, get_ip, 0, NGX_HTTP_VAR_NOCACHEABLE, 0},
	ngx_http_null_variable,
};

ngx_int_t sl_nginx_variables_add(ngx_conf_t *cf) {
	for (ngx_http_variable_t *one = variables; one->name.len != 0; one++) {
		ngx_http_variable_t *added = ngx_http_add_variable(cf, &one->name, one->flags);
		if (added == NULL)
			return NGX_ERROR;
		added->get_handler = one->get_handler;
		added->data = one->data;
	}
	return NGX_OK;
}
