/* POST /v1/reload: the policy file is read again, and the answer says what came of it.
 *
 *   200 {"reloaded":true,"limits":3,"messages":["loaded /etc/sluice/sluice.yaml"],"warnings":[{"line",..}]}
 *   422 a problem: the file is not a policy that can be served; "errors" has every place and what is wrong there
 *   409 a problem: there is no file to read, or something that it names can't be used */
#include "hosts/server/http/routes.h"

#include "base/math.h"
#include "hosts/server/door/pending.h"
#include "hosts/server/http/reply.h"
#include "proto/json.h"
#include "proto/problem.h"

static size_t room_for(const struct sl_reload *outcome) {
	return 1024 + SL_JSON_ROOM(sizeof outcome->messages) +
	       outcome->problems.count * (128 + SL_JSON_ROOM(sizeof outcome->problems.list->text));
}

static size_t count_of(const struct sl_reload *outcome, bool warning) {
	size_t count = 0;
	for (size_t i = 0; i < outcome->problems.count; i++)
		count += outcome->problems.list[i].warning == warning;
	return count;
}

static void put_messages(struct sl_out *out, const struct sl_reload *outcome) {
	sl_json_open(out, "messages", '[');
	for (const char *line = outcome->messages; *line != '\0';) {
		size_t len = strcspn(line, "\n");
		sl_json_element(out);
		sl_json_string(out, sl_slice(line, len));
		line += len + (line[len] == '\n');
	}
	sl_out_char(out, ']');
}

static void put_problems(struct sl_out *out, const struct sl_reload *outcome, bool warnings) {
	sl_json_open(out, warnings ? "warnings" : "errors", '[');
	for (size_t i = 0; i < outcome->problems.count; i++) {
		const struct sluice_problem *problem = &outcome->problems.list[i];
		if (problem->warning != warnings)
			continue;
		sl_json_open(out, NULL, '{');
		sl_json_put_u64(out, "line", problem->line);
		sl_json_put_u64(out, "column", problem->column);
		sl_json_put_text(out, "text", sl_str(problem->text));
		sl_out_char(out, '}');
	}
	sl_out_char(out, ']');
}

static void reply_taken_over(struct sl_http_exchange *exchange, const struct sl_reload *outcome) {
	struct sl_http_reply reply;
	if (!sl_http_reply_begin(&reply, exchange, 200, "application/json", room_for(outcome)))
		return;
	sl_http_reply_body(&reply);
	sl_out_char(&reply.w, '{');
	sl_json_put_bool(&reply.w, "reloaded", true);
	sl_json_put_u64(&reply.w, "limits", outcome->limit_count);
	put_messages(&reply.w, outcome);
	put_problems(&reply.w, outcome, true);
	sl_out_char(&reply.w, '}');
	sl_http_reply_end(&reply);
}

static void reply_refused(struct sl_http_exchange *exchange, const struct sl_reload *outcome) {
	char detail[512];
	struct sl_out text = sl_out_to(detail, sizeof detail);
	struct sl_http_reply reply;
	size_t errors = count_of(outcome, false);
	unsigned status = errors != 0 ? 422 : 409;
	if (!sl_http_reply_begin(&reply, exchange, status, "application/problem+json", room_for(outcome)))
		return;
	sl_http_reply_body(&reply);
	if (errors != 0) {
		sl_out_str(&text, "the policy has ");
		sl_out_u64(&text, errors);
		sl_out_str(&text, errors == 1 ? " error; keeping the current policy" : " errors; keeping the current policy");
	} else {
		sl_out_bytes(&text, outcome->messages, sl_min(strcspn(outcome->messages, "\n"), sizeof detail));
	}
	sl_problem_members(&reply.w, status, NULL, NULL, sl_slice(detail, sl_out_len(&text)));
	sl_json_put_bool(&reply.w, "reloaded", false);
	sl_json_put_u64(&reply.w, "limits", outcome->limit_count);
	put_messages(&reply.w, outcome);
	put_problems(&reply.w, outcome, false);
	sl_out_char(&reply.w, '}');
	sl_http_reply_end(&reply);
}

void sl_http_route_reload(struct sl_http_exchange *exchange) {
	const struct sl_reload *outcome;
	if (exchange->context->reloading == NULL) {
		sl_http_reply_problem(exchange, 409, sl_str("nothing to reload: no policy file was given"), NULL);
		return;
	}
	exchange->waits = !sl_pending_reload(exchange->context, &outcome);
	if (exchange->waits)
		return;
	if (outcome->taken_over)
		reply_taken_over(exchange, outcome);
	else
		reply_refused(exchange, outcome);
}
