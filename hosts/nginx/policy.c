/* Policy files, read while the configuration is: each once, however many places name it. Workers inherit them by
 * fork(), and never write to them. */
#include "hosts/nginx/module.h"

#include "hosts/files/denied_files.h"
#include "hosts/files/quota_files.h"
#include "os/file.h"

static void free_policy(void *data) {
	sluice_policy_free(data);
}

/* All mistakes of a file, a line each, with its own name, line and column. */
static void tell(ngx_conf_t *cf, const char *path, const struct sluice_problem *list, size_t count) {
	for (size_t i = 0; i < count; i++) {
		ngx_uint_t level = list[i].warning ? NGX_LOG_WARN : NGX_LOG_EMERG;
		ngx_conf_log_error(level, cf, 0, "%s:%ui:%ui: %s", path, (ngx_uint_t)list[i].line, (ngx_uint_t)list[i].column,
		                   list[i].text);
	}
}

/* What the policy names besides: bodies of denials, quotas of single keys. */
static bool read_files(ngx_conf_t *cf, struct sluice_policy *policy, const char *path) {
	struct sluice_problem problem = {.line = 0};
	const char *file = path;
	if (sl_denied_files_read(policy, path, &file, &problem) && sl_quota_files_read(policy, path, &file, &problem))
		return true;
	tell(cf, file, &problem, 1);
	return false;
}

static struct sl_nginx_policy *find(struct sl_nginx_main *main, ngx_str_t path) {
	struct sl_nginx_policy **all = main->policies.elts;
	for (ngx_uint_t i = 0; i < main->policies.nelts; i++)
		if (sl_bytes_equal(sl_nginx_bytes(all[i]->path), sl_nginx_bytes(path)))
			return all[i];
	return NULL;
}

/* The configuration that a reload replaces. NULL: there is none, or the module was not loaded there; then nginx keeps
 * no place for it, and what stands where it would be is another's. */
static struct sl_nginx_main *main_before(const ngx_cycle_t *cycle) {
	const ngx_cycle_t *before = cycle->old_cycle;
	if (before == NULL || before->conf_ctx == NULL || before->modules == NULL)
		return NULL;
	for (ngx_module_t **module = before->modules; *module != NULL; module++)
		if (*module == &ngx_http_sluice_module)
			return ngx_http_cycle_get_module_main_conf(before, ngx_http_sluice_module);
	return NULL;
}

/* A reload never disarms: a file that had limits, and has none now, has to say that none are meant. */
static bool disarms(ngx_conf_t *cf, const struct sluice_policy *policy, ngx_str_t path) {
	struct sl_nginx_main *main = main_before(cf->cycle);
	struct sl_nginx_policy *one = main != NULL ? find(main, path) : NULL;
	if (one == NULL || one->policy == NULL)
		return false;
	const char *why = sl_policy_disarms(sl_policy_armed(one->policy) & SL_ARMED_LIMITS, policy);
	if (why != NULL)
		ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "the policy \"%V\" was rejected: %s", &path, why);
	return why != NULL;
}

static struct sluice_policy *read_policy(ngx_conf_t *cf, ngx_str_t name) {
	const char *path = (const char *)name.data;
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems = {.list = NULL};
	struct sluice_error error = {.text = ""};
	size_t len;
	char *yaml = sl_file_read_text(path, false, SL_POLICY_FILE_BYTES_MAX, &len, &error);
	if (yaml == NULL) {
		ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "the policy \"%s\" can't be read: %s", path, error.text);
	} else {
		if (sluice_policy_load(&policy, sl_slice(yaml, len), &problems) != SLUICE_OK)
			policy = NULL;
		tell(cf, path, problems.list, problems.count);
		sluice_problems_free(&problems);
	}
	free(yaml);
	if (policy != NULL && (disarms(cf, policy, name) || !read_files(cf, policy, path))) {
		sluice_policy_free(policy);
		policy = NULL;
	}
	return policy;
}

struct sl_nginx_policy *sl_nginx_policy_load(ngx_conf_t *cf, struct sl_nginx_main *main, ngx_str_t *path) {
	if (ngx_conf_full_name(cf->cycle, path, 1) != NGX_OK)
		return NULL;
	struct sl_nginx_policy *one = find(main, *path), **place;
	if (one != NULL)
		return one;
	ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(cf->pool, 0);
	one = ngx_palloc(cf->pool, sizeof *one);
	place = ngx_array_push(&main->policies);
	if (cleanup == NULL || one == NULL || place == NULL)
		return NULL;
	*place = one;
	one->path = *path;
	one->policy = read_policy(cf, *path);
	if (one->policy == NULL)
		return NULL;
	cleanup->handler = free_policy;
	cleanup->data = one->policy;
	return one;
}
