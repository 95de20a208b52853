/* The directives: what is written in nginx.conf, checked as far as it can be without opening a store, so that `nginx
 * -t` finds all but what only a worker can see. */
#include "hosts/nginx/module.h"

#include "algo/traits.h"
#include "hosts/library/registry.h"

/* ---- sluice_store ------------------------------------------------------------------------------------------------ */

static bool takes(ngx_str_t *word, const char *name) {
	size_t len = ngx_strlen(name);
	if (word->len < len || ngx_strncmp(word->data, name, len) != 0)
		return false;
	word->data += len;
	word->len -= len;
	return true;
}

/* memory=64m mode=0660 */
static char *read_store_option(ngx_conf_t *cf, struct sluice_store_options *store, ngx_str_t word) {
	ngx_str_t said = word;
	if (takes(&word, "memory=")) {
		off_t bytes = ngx_parse_offset(&word);
		if (bytes == (off_t)NGX_ERROR || bytes <= 0)
			goto wrong;
		store->memory_bytes = (uint64_t)bytes;
		return NGX_CONF_OK;
	}
	if (takes(&word, "mode=")) {
		uint32_t mode = 0;
		for (size_t i = 0; i < word.len; i++) {
			if (word.len > 4 || word.data[i] < '0' || word.data[i] > '7')
				goto wrong;
			mode = mode * 8 + (uint32_t)(word.data[i] - '0');
		}
		if (mode == 0 || mode > 0777)
			goto wrong;
		store->mode = mode;
		return NGX_CONF_OK;
	}
wrong:
	ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
	                   "invalid parameter \"%V\": expected memory=SIZE, such as 64m or 1g, or mode=OCTAL, such as 0660",
	                   &said);
	return NGX_CONF_ERROR;
}

/* A store that exists is never made anew. One of another size than is said here no new worker could open, and on-error
 * would speak where the old ones had decided: a reload never disarms. Who starts nginx is warned. */
static bool store_fits(ngx_conf_t *cf, const struct sluice_store_options *store, ngx_str_t *where) {
	bool reload = !ngx_is_init_cycle(cf->cycle->old_cycle);
	struct sluice_error error = {.text = ""};
	if (sl_store_size_check(store, &error) == SLUICE_OK)
		return true;
	ngx_conf_log_error(reload ? NGX_LOG_EMERG : NGX_LOG_WARN, cf, 0, "invalid store \"%V\": %s", where, error.text);
	return !reload;
}

static char *read_store(ngx_conf_t *cf, ngx_command_t *command, void *conf) {
	struct sluice_store_options *store = &((struct sl_nginx_main *)conf)->store;
	ngx_str_t *words = cf->args->elts, where = words[1];
	struct sluice_error error = {.text = ""};
	(void)command;
	if (store->file != NULL || store->shared != NULL)
		return "is duplicate";
	if (takes(&where, "shared:")) {
		store->shared = (const char *)where.data; /* words of the configuration end with a NUL */
	} else if (takes(&where, "file:")) {
		if (where.len != 0 && ngx_conf_full_name(cf->cycle, &where, 0) != NGX_OK)
			return NGX_CONF_ERROR;
		store->file = (const char *)where.data;
	} else {
		return "has an invalid store: expected shared:NAME or file:PATH";
	}
	for (ngx_uint_t i = 2; i < cf->args->nelts; i++)
		if (read_store_option(cf, store, words[i]) != NGX_CONF_OK)
			return NGX_CONF_ERROR;
	if (sl_store_options_check(store, &error) == SLUICE_OK)
		return store_fits(cf, store, &words[1]) ? NGX_CONF_OK : NGX_CONF_ERROR;
	ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid store \"%V\": %s", &words[1], error.text);
	return NGX_CONF_ERROR;
}

/* ---- sluice_limit ------------------------------------------------------------------------------------------------ */

static char *compile(ngx_conf_t *cf, ngx_str_t *text, ngx_http_complex_value_t *value) {
	ngx_http_compile_complex_value_t compiling = {.cf = cf, .value = text, .complex_value = value};
	return ngx_http_compile_complex_value(&compiling) == NGX_OK ? NGX_CONF_OK : NGX_CONF_ERROR;
}

/* The notation may stand in quotes or not: its words, up to the first parameter, joined. */
static ngx_uint_t read_notation(ngx_conf_t *cf, struct sl_nginx_rule *rule, char **result) {
	ngx_str_t *words = cf->args->elts;
	struct sluice_error error = {.text = ""};
	char text[SLUICE_LIMIT_TEXT_MAX * 2];
	struct sl_out out = sl_out_to(text, sizeof text - 1);
	ngx_uint_t i = 1;
	for (; i < cf->args->nelts && ngx_strlchr(words[i].data, words[i].data + words[i].len, '=') == NULL; i++) {
		if (i != 1)
			sl_out_char(&out, ' ');
		sl_out_bytes(&out, words[i].data, words[i].len);
	}
	*out.at = '\0';
	*result = NGX_CONF_OK;
	if (i == 1) {
		*result = "has no limit before its parameters: expected one, such as 600/1m key=$sluice_ip";
	} else if (out.overflow ||
	           sluice_limit_parse(&rule->limit, sl_slice(text, sl_out_len(&out)), &error) != SLUICE_OK) {
		ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid limit \"%s\": column %ui: %s", text, (ngx_uint_t)error.column,
		                   out.overflow ? "it is too long" : error.text);
		*result = NGX_CONF_ERROR;
	}
	return i;
}

static char *read_rule_parameter(ngx_conf_t *cf, struct sl_nginx_rule *rule, ngx_str_t word) {
	ngx_str_t said = word;
	ngx_http_complex_value_t *value = takes(&word, "key=")      ? &rule->key
	                                  : takes(&word, "cost=")   ? &rule->cost
	                                  : takes(&word, "member=") ? &rule->member
	                                                            : NULL;
	bool name = value == NULL && takes(&word, "name=");
	if ((value != NULL && value->value.data != NULL) || (name && rule->name.len != 0)) {
		ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "duplicate parameter \"%V\": a limit takes each once", &said);
		return NGX_CONF_ERROR;
	}
	if (value != NULL && word.len != 0)
		return compile(cf, &word, value);
	if (name && word.len >= 1 && word.len <= SLUICE_NAME_BYTES_MAX) {
		rule->name = word;
		return NGX_CONF_OK;
	}
	ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
	                   "invalid parameter \"%V\": expected key=VALUE, cost=VALUE, member=VALUE or name=NAME, a name of "
	                   "1 to %d bytes", &said, SLUICE_NAME_BYTES_MAX);
	return NGX_CONF_ERROR;
}

/* What the parameters lack, or should not say; NULL: nothing. */
static const char *check_rule(const struct sl_nginx_rule *rule) {
	uint32_t cost;
	if (rule->key.value.data == NULL)
		return "has no key: expected key=VALUE, such as key=$sluice_ip";
	if (sl_rule_has(&rule->limit, SL_TAKES_MEMBER) && rule->member.value.data == NULL)
		return "has no member: a limit of distinct counts those of member=VALUE";
	if (!sl_rule_has(&rule->limit, SL_TAKES_MEMBER) && rule->member.value.data != NULL)
		return "has a member: only a limit of distinct counts members";
	if (rule->cost.value.data != NULL && rule->cost.lengths == NULL && !sl_nginx_cost(rule->cost.value, &cost))
		return "has an invalid cost: expected a whole number 0..4294967295, or a variable";
	if (ngx_strlchr(rule->name.data, rule->name.data + rule->name.len, '$') != NULL)
		return "has a variable in its name: expected a name that is the same for all requests";
	return NULL;
}

static char *read_limit(ngx_conf_t *cf, ngx_command_t *command, void *conf) {
	struct sl_nginx_place *place = conf;
	ngx_str_t *words = cf->args->elts;
	char *result;
	(void)command;
	if (place->rules == NGX_CONF_UNSET_PTR)
		place->rules = ngx_array_create(cf->pool, 4, sizeof(struct sl_nginx_rule));
	if (place->rules == NULL)
		return NGX_CONF_ERROR;
	if (place->rules->nelts == SLUICE_ITEMS_MAX)
		return "is one too many: a request has at most 16 limits";
	struct sl_nginx_rule *rule = ngx_array_push(place->rules);
	if (rule == NULL)
		return NGX_CONF_ERROR;
	ngx_memzero(rule, sizeof *rule);
	ngx_uint_t i = read_notation(cf, rule, &result);
	for (; i < cf->args->nelts && result == NGX_CONF_OK; i++)
		result = read_rule_parameter(cf, rule, words[i]);
	if (result != NGX_CONF_OK)
		return result;
	if (rule->name.len == 0) {
		rule->name.data = ngx_pnalloc(cf->pool, SLUICE_LIMIT_TEXT_MAX);
		if (rule->name.data == NULL)
			return NGX_CONF_ERROR;
		rule->name.len = sluice_limit_print(&rule->limit, (char *)rule->name.data);
	}
	return (char *)check_rule(rule);
}

/* ---- sluice_policy, sluice_attribute ----------------------------------------------------------------------------- */

static char *read_policy(ngx_conf_t *cf, ngx_command_t *command, void *conf) {
	struct sl_nginx_place *place = conf;
	ngx_str_t *words = cf->args->elts;
	(void)command;
	if (place->policy != NGX_CONF_UNSET_PTR)
		return "is duplicate";
	place->policy = NULL;
	if (ngx_strcmp(words[1].data, "off") == 0)
		return NGX_CONF_OK;
	place->policy = sl_nginx_policy_load(
		cf, ngx_http_conf_get_module_main_conf(cf, ngx_http_sluice_module), &words[1]);
	return place->policy != NULL ? NGX_CONF_OK : NGX_CONF_ERROR;
}

static char *read_attribute(ngx_conf_t *cf, ngx_command_t *command, void *conf) {
	struct sl_nginx_place *place = conf;
	ngx_str_t *words = cf->args->elts;
	(void)command;
	if (place->attributes == NGX_CONF_UNSET_PTR)
		place->attributes = ngx_array_create(cf->pool, 4, sizeof(struct sl_nginx_attribute));
	if (place->attributes == NULL)
		return NGX_CONF_ERROR;
	if (place->attributes->nelts == SL_NGINX_ATTRIBUTES_MAX)
		return "is one too many: expected at most 32";
	if (words[1].len < 1 || words[1].len > SLUICE_NAME_BYTES_MAX)
		return "has an invalid name: expected 1 to 64 bytes";
	struct sl_nginx_attribute *all = place->attributes->elts, *attribute;
	for (ngx_uint_t i = 0; i < place->attributes->nelts; i++)
		if (sl_bytes_equal(sl_nginx_bytes(all[i].name), sl_nginx_bytes(words[1])))
			return "is duplicate";
	attribute = ngx_array_push(place->attributes);
	if (attribute == NULL)
		return NGX_CONF_ERROR;
	ngx_memzero(attribute, sizeof *attribute);
	attribute->name = words[1];
	return compile(cf, &words[2], &attribute->value);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* One word of a few. */
struct choice {
	const char *expected;
	ngx_conf_enum_t words[5];
};

static struct choice log_levels = {"has an invalid value: expected info, notice, warn or error", {
	{ngx_string("info"), NGX_LOG_INFO},
	{ngx_string("notice"), NGX_LOG_NOTICE},
	{ngx_string("warn"), NGX_LOG_WARN},
	{ngx_string("error"), NGX_LOG_ERR},
	{ngx_null_string, 0},
}};
static struct choice on_errors = {"has an invalid value: expected allow or deny", {
	{ngx_string("allow"), SL_NGINX_ALLOW},
	{ngx_string("deny"), SL_NGINX_DENY},
	{ngx_null_string, 0},
}};

/* As ngx_conf_set_enum_slot(), which does not say what would be right. */
static char *read_choice(ngx_conf_t *cf, ngx_command_t *command, void *conf) {
	const struct choice *choice = command->post;
	ngx_uint_t *field = (ngx_uint_t *)((char *)conf + command->offset);
	ngx_str_t *words = cf->args->elts;
	if (*field != NGX_CONF_UNSET_UINT)
		return "is duplicate";
	for (const ngx_conf_enum_t *one = choice->words; one->name.len != 0; one++) {
		if (sl_bytes_equal(sl_nginx_bytes(one->name), sl_nginx_bytes(words[1]))) {
			*field = one->value;
			return NGX_CONF_OK;
		}
	}
	return (char *)choice->expected;
}

static ngx_conf_num_bounds_t statuses = {ngx_conf_check_num_bounds, 400, 599};

#define EVERYWHERE (NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF)
#define PLACE(name, kind, set, field, post)                                                                        \
	{                                                                                                              \
		ngx_string(name), EVERYWHERE | (kind), set, NGX_HTTP_LOC_CONF_OFFSET, offsetof(struct sl_nginx_place, field), \
			post                                                                                                   \
	}

ngx_command_t sl_nginx_directives[] = {
	{ngx_string("sluice_store"), NGX_HTTP_MAIN_CONF | NGX_CONF_TAKE123, read_store, NGX_HTTP_MAIN_CONF_OFFSET, 0, NULL},
	PLACE("sluice", NGX_CONF_FLAG, ngx_conf_set_flag_slot, on, NULL),
	PLACE("sluice_limit", NGX_CONF_1MORE, read_limit, rules, NULL),
	PLACE("sluice_policy", NGX_CONF_TAKE1, read_policy, policy, NULL),
	PLACE("sluice_attribute", NGX_CONF_TAKE2, read_attribute, attributes, NULL),
	PLACE("sluice_dry_run", NGX_CONF_FLAG, ngx_conf_set_flag_slot, dry_run, NULL),
	PLACE("sluice_delay", NGX_CONF_FLAG, ngx_conf_set_flag_slot, delay, NULL),
	PLACE("sluice_headers", NGX_CONF_FLAG, ngx_conf_set_flag_slot, headers, NULL),
	PLACE("sluice_status", NGX_CONF_TAKE1, ngx_conf_set_num_slot, status, &statuses),
	PLACE("sluice_log_level", NGX_CONF_TAKE1, read_choice, log_level, &log_levels),
	PLACE("sluice_on_error", NGX_CONF_TAKE1, read_choice, on_error, &on_errors),
	ngx_null_command,
};
