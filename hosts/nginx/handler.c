/* What becomes of a request: it goes on, is held, or is answered; and the headers that tell its client.
 *
 * It is decided once, in the first location with limits that it comes to. Internal redirects, error_page among them,
 * clear what modules keep of a request, and come by again: what was decided is then found in a cleanup of the request's
 * pool. Subrequests, auth_request's among them, are parts of the request, and are asked nothing.
 *
 *   denied -> error_page for the status, or 444? it is nginx' -> no: the problem, by ourselves
 *   delay  -> the request is held by its connection's timer, and goes on when that is over
 *   a process that shares the store was stopped with a lock in hand -> asked again every 5 ms, for 1 s at most */
#include "hosts/nginx/module.h"

#include "base/assert.h"
#include "base/math.h"
#include "store/lock.h"

enum { LINES_BYTES = 2048, HELD_UP_MS = 5, HELD_UP_MS_MAX = 1000, UNABLE_STATUS = 503, WRONG_STATUS = 400 };

ngx_http_output_header_filter_pt sl_nginx_next_header_filter;

/* ---- what is kept ------------------------------------------------------------------------------------------------ */

struct kept_of_request {
	struct sl_nginx_kept kept;
	ngx_queue_t holding; /* among those with a ticket */
	ngx_http_request_t *r;
	const struct sluice_policy *policy;
	struct sluice_bytes ticket;
};

/* Requests that hold something; next NULL: there was none yet. */
static ngx_queue_t holding;

/* A response's header: as it goes to the client, or as the app gave it where that is hidden from clients. */
static struct sluice_bytes response_header(void *data, const char *name) {
	ngx_http_request_t *r = data;
	struct sluice_bytes value = {NULL, 0};
	if (sl_nginx_header(&r->headers_out.headers, name, &value) && value.data == NULL && r->upstream != NULL)
		(void)sl_nginx_header(&r->upstream->headers_in.headers, name, &value);
	return value;
}

/* The request has ended, however it did. */
static void end(void *data) {
	struct kept_of_request *kept = data;
	if (kept->ticket.len == 0)
		return;
	SL_ASSERT(sl_nginx_store() != NULL); /* it is closed after all requests */
	(void)sl_nginx_end_ticket(sl_nginx_store(), kept->policy, kept->ticket, response_header, kept->r);
	ngx_queue_remove(&kept->holding);
	kept->ticket.len = 0;
}

void sl_nginx_end_requests(void) {
	while (holding.next != NULL && !ngx_queue_empty(&holding))
		end(ngx_queue_data(ngx_queue_head(&holding), struct kept_of_request, holding));
}

static struct kept_of_request *find(ngx_http_request_t *r) {
	struct kept_of_request *kept = ngx_http_get_module_ctx(r->main, ngx_http_sluice_module);
	if (kept != NULL || !(r->main->internal || r->main->filter_finalize))
		return kept;
	for (ngx_pool_cleanup_t *cleanup = r->main->pool->cleanup; cleanup != NULL; cleanup = cleanup->next)
		if (cleanup->handler == end)
			return cleanup->data;
	return NULL;
}

struct sl_nginx_kept *sl_nginx_kept_find(ngx_http_request_t *r) {
	struct kept_of_request *kept = find(r);
	return kept != NULL ? &kept->kept : NULL;
}

static struct kept_of_request *find_or_make(ngx_http_request_t *r) {
	struct kept_of_request *kept = find(r);
	if (kept != NULL)
		return kept;
	ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(r->pool, sizeof *kept);
	if (cleanup == NULL)
		return NULL;
	kept = cleanup->data;
	ngx_memzero(kept, sizeof *kept);
	kept->r = r;
	cleanup->handler = end;
	ngx_http_set_ctx(r, kept, ngx_http_sluice_module);
	return kept;
}

/* ---- holding it -------------------------------------------------------------------------------------------------- */

static void resume(ngx_http_request_t *r) {
	ngx_event_t *write = r->connection->write;
	if (write->delayed) { /* only the connection can be written to: the time is not over */
		if (ngx_handle_write_event(write, 0) != NGX_OK)
			ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
		return;
	}
	if (ngx_handle_read_event(r->connection->read, 0) != NGX_OK) {
		ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
		return;
	}
	r->read_event_handler = ngx_http_block_reading;
	r->write_event_handler = ngx_http_core_run_phases;
	ngx_http_core_run_phases(r);
}

/* A client that goes away meanwhile, or has gone already, ends the request. Of what was there to be read when the head
 * was, the system tells no more: it is looked for. */
static ngx_int_t hold(ngx_http_request_t *r, ngx_msec_t ms) {
	ngx_event_t *read = r->connection->read;
	if (read->ready) {
		ngx_post_event(read, &ngx_posted_events);
	} else if (ngx_handle_read_event(read, 0) != NGX_OK) {
		return NGX_HTTP_INTERNAL_SERVER_ERROR;
	}
	r->read_event_handler = ngx_http_test_reading;
	r->write_event_handler = resume;
	r->connection->write->delayed = 1;
	ngx_add_timer(r->connection->write, ms);
	return NGX_AGAIN;
}

/* ---- telling its client ------------------------------------------------------------------------------------------ */

/* Mostly they are short, and nothing but what they have is taken from the pool. */
static bool keep_lines(ngx_http_request_t *r, struct sl_nginx_kept *kept, const struct sl_nginx_answer *answer,
                       const struct sl_nginx_place *place) {
	uint32_t forms = place->policy != NULL ? sl_policy_settings(place->policy->policy)->forms : SL_FORM_DRAFT10;
	size_t room = sl_nginx_headers_room(answer);
	char few[LINES_BYTES], *memory = few;
	if (answer->call.item_count == 0)
		return true;
	if (!place->headers)
		forms = 0; /* Retry-After is of no form */
	if (room > sizeof few)
		memory = ngx_pnalloc(r->pool, room);
	if (memory == NULL)
		return false;
	struct sl_out out = sl_out_to(memory, room);
	sl_nginx_put_headers(&out, answer, forms);
	ngx_str_t lines = {sl_out_len(&out), (u_char *)memory};
	if (memory == few)
		lines.data = ngx_pstrdup(r->pool, &lines);
	if (lines.data == NULL)
		return false;
	kept->lines = lines;
	return true;
}

static ngx_int_t push_header(ngx_http_request_t *r, ngx_str_t key, ngx_str_t value) {
	ngx_table_elt_t *header = ngx_list_push(&r->headers_out.headers);
	if (header == NULL)
		return NGX_ERROR;
	header->hash = 1;
	header->key = key;
	header->value = value;
#if nginx_version >= 1023000
	header->next = NULL;
#endif
	return NGX_OK;
}

/* Lines end with CR LF, and have ": " after their name: as the core has written them. */
static ngx_int_t push_lines(ngx_http_request_t *r, ngx_str_t lines) {
	u_char *at = lines.data, *last = lines.data + lines.len;
	while (at < last) {
		u_char *colon = memchr(at, ':', (size_t)(last - at)), *end_of_line = memchr(colon, CR, (size_t)(last - colon));
		ngx_str_t key = {(size_t)(colon - at), at};
		ngx_str_t value = {(size_t)(end_of_line - colon - 2), colon + 2};
		if (push_header(r, key, value) != NGX_OK)
			return NGX_ERROR;
		at = end_of_line + 2;
	}
	return NGX_OK;
}

ngx_int_t sl_nginx_header_filter(ngx_http_request_t *r) {
	static ngx_str_t cache_control = ngx_string("Cache-Control"), no_store = ngx_string("no-store");
	struct sl_nginx_kept *kept = r == r->main ? sl_nginx_kept_find(r) : NULL;
	if (kept != NULL && kept->no_store && push_header(r, cache_control, no_store) != NGX_OK)
		return NGX_ERROR;
	if (kept != NULL && push_lines(r, kept->lines) != NGX_OK)
		return NGX_ERROR;
	return sl_nginx_next_header_filter(r);
}

/* Does nginx have a page of its own for a status, here and now? */
static bool has_error_page(ngx_http_request_t *r, ngx_uint_t status) {
	ngx_http_core_loc_conf_t *core = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
	if (r->error_page || core->error_pages == NULL || r->uri_changes == 0)
		return false;
	ngx_http_err_page_t *pages = core->error_pages->elts;
	for (ngx_uint_t i = 0; i < core->error_pages->nelts; i++)
		if (pages[i].status == (ngx_int_t)status)
			return true;
	return false;
}

static ngx_int_t answer_problem(ngx_http_request_t *r, const struct sl_nginx_answer *answer, enum sl_nginx_end how,
                                ngx_uint_t status) {
	const char *type = sl_nginx_body_media(answer, how);
	size_t room = sl_nginx_body_room(answer, how);
	char *memory = ngx_pnalloc(r->pool, room);
	ngx_str_t media = {ngx_strlen(type), (u_char *)type};
	ngx_http_complex_value_t body;
	if (memory == NULL)
		return NGX_HTTP_INTERNAL_SERVER_ERROR;
	struct sl_out out = sl_out_to(memory, room);
	sl_nginx_put_body(&out, answer, how, (unsigned)status);
	ngx_memzero(&body, sizeof body);
	body.value = (ngx_str_t){sl_out_len(&out), (u_char *)memory};
	r->err_status = status; /* also where the request came here as the error_page of another status */
	r->expect_tested = 1;   /* nobody is told to send a body that is not read */
	ngx_http_finalize_request(r, ngx_http_send_response(r, status, &media, &body));
	return NGX_DONE;
}

static ngx_int_t refuse(ngx_http_request_t *r, struct sl_nginx_kept *kept, const struct sl_nginx_answer *answer,
                        enum sl_nginx_end how, ngx_uint_t status) {
	kept->no_store = true;
	if (status == NGX_HTTP_CLOSE || has_error_page(r, status))
		return (ngx_int_t)status;
	return answer_problem(r, answer, how, status);
}

/* ---- the decision ------------------------------------------------------------------------------------------------ */

static bool keep_decision(ngx_http_request_t *r, struct sl_nginx_kept *kept, const struct sl_nginx_answer *answer) {
	kept->decision = answer->call.merged;
	if (kept->decision.index < 0)
		return true;
	struct sluice_bytes name = answer->limits[kept->decision.index].name;
	ngx_str_t text = {name.len, (u_char *)name.data};
	text.data = ngx_pstrdup(r->pool, &text);
	if (text.data == NULL)
		return false;
	kept->name = text;
	return true;
}

/* It comes first of what is kept: whatever fails after it, the request's end gives back what it holds. Where there is
 * no memory for the ticket itself, that is given back here. */
static bool keep_ticket(ngx_http_request_t *r, struct kept_of_request *kept, const struct sl_nginx_answer *answer,
                        const struct sluice_policy *policy) {
	char text[SL_TICKET_BYTES_MAX];
	size_t len;
	if (!sl_admission_holds(&answer->call))
		return true;
	len = sl_nginx_ticket(answer, policy, text);
	if (len == 0)
		return true;
	char *memory = ngx_pnalloc(r->pool, len);
	if (memory == NULL) {
		(void)sl_nginx_end_ticket(sl_nginx_store(), policy, sl_slice(text, len), response_header, r);
		return false;
	}
	ngx_memcpy(memory, text, len);
	kept->policy = policy;
	kept->ticket = sl_slice(memory, len);
	if (holding.next == NULL) {
		ngx_queue_init(&holding);
	}
	ngx_queue_insert_tail(&holding, &kept->holding);
	return true;
}

static void tell_denied(ngx_http_request_t *r, const struct sl_nginx_place *place,
                        const struct sl_nginx_answer *answer) {
	char text[SL_PROBLEM_DETAIL_MAX];
	struct sl_out out = sl_out_to(text, sizeof text);
	if (r->connection->log->log_level < place->log_level)
		return;
	sl_nginx_put_detail(&out, answer);
	ngx_str_t detail = {sl_out_len(&out), (u_char *)text};
	ngx_log_error(place->log_level, r->connection->log, 0, "sluice: denying request%s: %V",
	              place->dry_run ? ", dry run" : "", &detail);
}

static ngx_int_t deny(ngx_http_request_t *r, struct sl_nginx_kept *kept, const struct sl_nginx_answer *answer,
                      const struct sl_nginx_place *place) {
	kept->state = place->dry_run ? SL_NGINX_IS_REJECTED_DRY_RUN : SL_NGINX_IS_REJECTED;
	tell_denied(r, place, answer);
	return place->dry_run ? NGX_DECLINED : refuse(r, kept, answer, SL_NGINX_DENIED, place->status);
}

static ngx_int_t pass(ngx_http_request_t *r, struct sl_nginx_kept *kept, const struct sl_nginx_answer *answer,
                      const struct sl_nginx_place *place) {
	int64_t delay_ms = sl_ns_to_ms_ceil(kept->decision.delay_ns);
	kept->state = SL_NGINX_IS_PASSED;
	if (delay_ms == 0 || !place->delay)
		return NGX_DECLINED;
	kept->state = place->dry_run ? SL_NGINX_IS_DELAYED_DRY_RUN : SL_NGINX_IS_DELAYED;
	ngx_uint_t level = place->log_level == NGX_LOG_INFO ? NGX_LOG_INFO : place->log_level + 1;
	struct sluice_bytes name = sl_nginx_delaying(answer);
	ngx_str_t limit = {name.len, (u_char *)name.data};
	ngx_log_error(level, r->connection->log, 0, "sluice: delaying request%s by %L ms: limit %V",
	              place->dry_run ? ", dry run" : "", delay_ms, &limit);
	return place->dry_run ? NGX_DECLINED : hold(r, (ngx_msec_t)delay_ms);
}

static ngx_int_t fall_back(ngx_http_request_t *r, struct sl_nginx_kept *kept, const struct sl_nginx_answer *answer,
                           const struct sl_nginx_place *place, bool denied) {
	kept->state = SL_NGINX_IS_ERROR;
	sl_nginx_tell_undecided(r->connection->log, answer, denied);
	return !denied || place->dry_run ? NGX_DECLINED : refuse(r, kept, answer, SL_NGINX_UNABLE, UNABLE_STATUS);
}

/* What was decided is kept, told and done. */
static ngx_int_t settle(ngx_http_request_t *r, struct kept_of_request *all, const struct sl_nginx_answer *answer,
                        const struct sl_nginx_place *place, enum sl_nginx_end how) {
	struct sl_nginx_kept *kept = &all->kept;
	const struct sluice_policy *policy = place->policy != NULL ? place->policy->policy : NULL;
	kept->settled = true;
	if (how == SL_NGINX_WRONG) {
		kept->state = SL_NGINX_IS_INVALID;
		ngx_log_error(NGX_LOG_INFO, r->connection->log, 0, "sluice: %s", answer->wrong);
		return place->dry_run ? NGX_DECLINED : refuse(r, kept, answer, how, WRONG_STATUS);
	}
	if ((how == SL_NGINX_PASSED && !keep_ticket(r, all, answer, policy)) || !keep_decision(r, kept, answer) ||
	    (!place->dry_run && !keep_lines(r, kept, answer, place)))
		return NGX_HTTP_INTERNAL_SERVER_ERROR;
	if (how == SL_NGINX_PASSED)
		return pass(r, kept, answer, place);
	return how == SL_NGINX_DENIED ? deny(r, kept, answer, place)
	                              : fall_back(r, kept, answer, place, how == SL_NGINX_UNABLE);
}

ngx_int_t sl_nginx_preaccess(ngx_http_request_t *r) {
	struct sl_nginx_place *place = ngx_http_get_module_loc_conf(r, ngx_http_sluice_module);
	struct sl_nginx_answer *answer = sl_nginx_answer();
	struct sl_nginx_ask ask;
	if (r != r->main || !place->on || (place->rules == NULL && place->policy == NULL))
		return NGX_DECLINED;
	struct kept_of_request *kept = find_or_make(r);
	if (kept == NULL)
		return NGX_HTTP_INTERNAL_SERVER_ERROR;
	if (kept->kept.settled)
		return NGX_DECLINED;
	enum sl_nginx_end how = SL_NGINX_WRONG;
	switch (sl_nginx_request_ask(r, place, &ask)) {
	case NGX_OK:
		if (kept->kept.asked_at == 0)
			kept->kept.asked_at = ngx_current_msec;
		ask.last = ngx_current_msec - kept->kept.asked_at >= HELD_UP_MS_MAX;
		how = sl_nginx_decide(answer, &ask);
		break;
	case NGX_ABORT:
		answer->call.item_count = 0;
		break;
	default:
		return NGX_HTTP_INTERNAL_SERVER_ERROR;
	}
	return how == SL_NGINX_HELD_UP ? hold(r, HELD_UP_MS) : settle(r, kept, answer, place, how);
}
