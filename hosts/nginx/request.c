/* From a request of nginx' to what is asked of it.
 *
 *   method, path, host   as the request has them: $request_method, $request_uri, $host
 *   ip                   the connection's address: behind a proxy the one that realip has found
 *   others               the header that the policy names for an attribute, on one line
 *   sluice_attribute     goes before all of them; a variable that is empty says nothing
 *
 * They come into their forms where the policy is matched, as at all doors. */
#include "hosts/nginx/module.h"

/* Attributes being collected. */
struct collected {
	struct sluice_attribute *list;
	uint32_t count, room;
};

static bool has(const struct collected *all, struct sluice_bytes name) {
	for (uint32_t i = 0; i < all->count; i++)
		if (sl_bytes_equal(all->list[i].name, name))
			return true;
	return false;
}

static void add(struct collected *all, struct sluice_bytes name, struct sluice_bytes value) {
	if (all->count < all->room)
		all->list[all->count++] = (struct sluice_attribute){name, value};
}

/* What a directive has said already stays. */
static void add_built_in(struct collected *all, const char *name, ngx_str_t value) {
	if (value.len != 0 && !has(all, sl_str(name)))
		add(all, sl_str(name), sl_nginx_bytes(value));
}

/* ---- headers ----------------------------------------------------------------------------------------------------- */

/* Walks a list of headers: the next that is there from *i of *part on. */
static ngx_table_elt_t *next_header(ngx_list_part_t **part, ngx_uint_t *i) {
	while (*i >= (*part)->nelts) {
		if ((*part)->next == NULL)
			return NULL;
		*part = (*part)->next;
		*i = 0;
	}
	return (ngx_table_elt_t *)(*part)->elts + (*i)++;
}

bool sl_nginx_header(void *data, const char *name, struct sluice_bytes *value) {
	ngx_list_part_t *part = &((ngx_list_t *)data)->part;
	ngx_uint_t i = 0;
	for (ngx_table_elt_t *header; (header = next_header(&part, &i)) != NULL;) {
		if (header->hash == 0 || !sl_bytes_equal_nocase(sl_nginx_bytes(header->key), name))
			continue;
		if (value->data != NULL)
			return false;
		*value = sl_nginx_bytes(header->value);
	}
	return true;
}

/* Of a header that stands on several lines a client may have written one: it is given twice, which is found and refused
 * where attributes are matched. */
static void add_sources(struct collected *all, ngx_http_request_t *r, const struct sluice_policy *policy) {
	uint32_t count = sl_policy_source_count(policy), said = all->count;
	ngx_list_part_t *part = &r->headers_in.headers.part;
	ngx_uint_t at = 0;
	if (count == 0)
		return;
	for (ngx_table_elt_t *header; (header = next_header(&part, &at)) != NULL;) {
		for (uint32_t i = 0; i < count; i++) {
			const struct sl_policy_source *source = sl_policy_source_at(policy, i);
			struct collected before = {all->list, said, said};
			if (sl_bytes_equal(source->header, sl_slice(header->lowcase_key, header->key.len)) &&
			    !has(&before, source->name))
				add(all, source->name, sl_nginx_bytes(header->value));
		}
	}
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static bool add_said(struct collected *all, ngx_http_request_t *r, ngx_array_t *attributes) {
	struct sl_nginx_attribute *list = attributes->elts;
	for (ngx_uint_t i = 0; i < attributes->nelts; i++) {
		ngx_str_t value;
		if (ngx_http_complex_value(r, &list[i].value, &value) != NGX_OK)
			return false;
		if (value.len != 0)
			add(all, sl_nginx_bytes(list[i].name), sl_nginx_bytes(value));
	}
	return true;
}

static ngx_str_t host_of(ngx_http_request_t *r) {
	ngx_http_core_srv_conf_t *server = ngx_http_get_module_srv_conf(r, ngx_http_core_module);
	return r->headers_in.server.len != 0 ? r->headers_in.server : server->server_name;
}

/* Room for everything once, and for one more that is given twice. */
static bool collect(struct sl_nginx_ask *ask, ngx_http_request_t *r, struct sl_nginx_place *place) {
	enum { BUILT_IN = 4 };
	struct collected all = {NULL, 0, BUILT_IN + 1};
	ngx_str_t none = ngx_null_string;
	all.room += sl_policy_source_count(ask->policy);
	if (place->attributes != NULL)
		all.room += place->attributes->nelts;
	all.list = ngx_palloc(r->pool, all.room * sizeof all.list[0]);
	if (all.list == NULL || (place->attributes != NULL && !add_said(&all, r, place->attributes)))
		return false;
	add_built_in(&all, "method", r->method_name);
	add_built_in(&all, "host", host_of(r));
	add_built_in(&all, "path", r->unparsed_uri);
	add_built_in(&all, "ip", r->connection->sockaddr->sa_family == AF_UNIX ? none : r->connection->addr_text);
	add_sources(&all, r, ask->policy);
	ask->attributes = all.list;
	ask->attribute_count = all.count;
	return true;
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

bool sl_nginx_cost(ngx_str_t text, uint32_t *cost) {
	uint64_t number;
	if (!sl_bytes_to_u64(sl_nginx_bytes(text), &number) || number > UINT32_MAX)
		return false;
	*cost = (uint32_t)number;
	return true;
}

static ngx_int_t read_cost(ngx_http_request_t *r, struct sl_nginx_rule *rule, uint32_t *cost) {
	struct sl_nginx_answer *answer = sl_nginx_answer();
	ngx_str_t value;
	*cost = 1;
	if (rule->cost.value.data == NULL)
		return NGX_OK;
	if (ngx_http_complex_value(r, &rule->cost, &value) != NGX_OK)
		return NGX_ERROR;
	if (value.len == 0 || sl_nginx_cost(value, cost))
		return NGX_OK;
	struct sl_out out = sl_out_to(answer->wrong, sizeof answer->wrong - 1);
	sl_admission_put_no_cost(&out, "the cost");
	*out.at = '\0';
	return NGX_ABORT;
}

static ngx_int_t read_rule(ngx_http_request_t *r, struct sl_nginx_rule *rule, struct sl_nginx_limit *limit) {
	ngx_str_t value;
	if (ngx_http_complex_value(r, &rule->key, &value) != NGX_OK)
		return NGX_ERROR;
	if (value.len == 0)
		return NGX_DECLINED;
	*limit = (struct sl_nginx_limit){
		.limit = &rule->limit, .name = sl_nginx_bytes(rule->name), .key = sl_nginx_bytes(value)};
	if (rule->member.value.data != NULL) {
		if (ngx_http_complex_value(r, &rule->member, &value) != NGX_OK)
			return NGX_ERROR;
		if (value.len == 0)
			return NGX_DECLINED;
		limit->member = sl_nginx_bytes(value);
	}
	return read_cost(r, rule, &limit->cost);
}

static ngx_int_t read_rules(ngx_http_request_t *r, ngx_array_t *rules, struct sl_nginx_ask *ask) {
	struct sl_nginx_limit *limits = ngx_palloc(r->pool, rules->nelts * sizeof *limits);
	struct sl_nginx_rule *list = rules->elts;
	if (limits == NULL)
		return NGX_ERROR;
	ask->limits = limits;
	for (ngx_uint_t i = 0; i < rules->nelts; i++) {
		ngx_int_t rc = read_rule(r, &list[i], &limits[ask->limit_count]);
		if (rc == NGX_OK)
			ask->limit_count++;
		else if (rc != NGX_DECLINED)
			return rc;
	}
	return NGX_OK;
}

ngx_int_t sl_nginx_request_ask(ngx_http_request_t *r, struct sl_nginx_place *place, struct sl_nginx_ask *ask) {
	*ask = (struct sl_nginx_ask){.store = sl_nginx_store(),
	                             .policy = place->policy != NULL ? place->policy->policy : NULL,
	                             .header = sl_nginx_header,
	                             .data = &r->headers_in.headers,
	                             .denies_on_error = place->on_error == SL_NGINX_DENY,
	                             .hurried = place->dry_run};
	if (ask->policy != NULL && !collect(ask, r, place))
		return NGX_ERROR;
	if (place->rules == NULL)
		return NGX_OK;
	return read_rules(r, place->rules, ask);
}
