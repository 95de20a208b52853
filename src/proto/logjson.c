/* JSON access logs: one object a line, under the names that servers and libraries give their fields.
 *
 * A field is looked for under each of its names in turn; the first that is there, is not null and is not empty counts.
 * A name with points is tried as it is, then as a way into nested objects (`request.remote_ip` is Caddy's). Where
 * several names may stand together, the one that has seen more goes first: Caddy's client_ip is what it believes after
 * its trusted proxies, remote_ip merely the peer. X-Forwarded-For has no name here: anyone can send one, and what of
 * it a server believes it logs as the client. AWS' resourcePath is a template, not what was asked for.
 *
 * jansson reads the object; its memory lives for the call. Fields are copied to the scratch memory: decoded strings are
 * never longer than what the line holds of them (I3 of logline.h). */
#include "proto/logline.h"

#include "base/out.h"
#include "proto/logtime.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAMES_MAX = 18 };

static const char *const time_names[NAMES_MAX] = {
	"time", "timestamp", "ts",       "@timestamp", "time_iso8601", "time_local",
	"msec", "date",      "datetime", "start_time", "StartUTC",     "startTime",
	"EdgeStartTimestamp", "requestTime",
};
static const char *const ip_names[NAMES_MAX] = {
	"client_ip",
	"request.client_ip",
	"ip",
	"remote_ip",
	"request.remote_ip",
	"remote_addr",
	"request.remote_addr",
	"clientip",
	"clientIp",
	"client.ip",
	"source.ip",
	"ClientHost",
	"httpRequest.remoteIp",
	"remoteAddr",
	"remote_host",
	"client",
	"ClientIP",
	"downstream_remote_address",
};
static const char *const key_names[NAMES_MAX] = {"key"};
static const char *const request_names[NAMES_MAX] = {"request", "request_line"};
static const char *const method_names[NAMES_MAX] = {
	"method",
	"request_method",
	"request.method",
	"verb",
	"http.request.method",
	"RequestMethod",
	"requestMethod",
	"httpRequest.requestMethod",
	"ClientRequestMethod",
	"httpMethod",
};
static const char *const path_names[NAMES_MAX] = {
	"path",
	"uri",
	"request_uri",
	"request.uri",
	"request.path",
	"url",
	"request.url",
	"request_path",
	"url.path",
	"url.original",
	"RequestPath",
	"requestUrl",
	"httpRequest.requestUrl",
	"ClientRequestURI",
};
static const char *const host_names[NAMES_MAX] = {
	"host",      "http_host",  "request.host", "vhost",             "server_name",
	"authority", "url.domain", "RequestHost",  "ClientRequestHost",
};
static const char *const user_names[NAMES_MAX] = {
	"user", "remote_user", "user_id", "username", "user.name", "user.id", "ClientUsername", "userId",
};
static const char *const status_names[NAMES_MAX] = {
	"status",           "status_code",        "statusCode",
	"response.status",  "response_code",      "http.response.status_code",
	"DownstreamStatus", "httpRequest.status", "EdgeResponseStatus",
};

/* How long the request took, each name with the unit that those who use it count in. Under a name of two habits
 * (Caddy's seconds, Envoy's milliseconds) a number with a fraction is in seconds, a whole one in milliseconds. */
enum { UNIT_GUESS = 0, NS = 1, US = 1000, MS = 1000000, SECOND = 1000000000 };
static const struct {
	const char *name;
	uint32_t unit_ns;
} duration_names[] = {
	{"request_time", SECOND},
	{"duration", UNIT_GUESS},
	{"latency_human", UNIT_GUESS}, /* Echo's, with its unit; its latency is in nanoseconds */
	{"latency", UNIT_GUESS},
	{"duration_s", SECOND},
	{"duration_seconds", SECOND},
	{"duration_ms", MS},
	{"latency_ms", MS},
	{"elapsed_ms", MS},
	{"took_ms", MS},
	{"request_time_ms", MS},
	{"response_time_ms", MS},
	{"responseTime", MS},
	{"duration_us", US},
	{"duration_ns", NS},
	{"Duration", NS},
	{"event.duration", NS},
	{"httpRequest.latency", SECOND},
};

/* Goes into nested objects along the points of a name. */
static const json_t *walk_points(const json_t *object, const char *name) {
	char part[32];
	for (;;) {
		size_t len = strcspn(name, ".");
		if (len >= sizeof part)
			return NULL;
		memcpy(part, name, len);
		part[len] = '\0';
		object = json_object_get(object, part); /* NULL for what is no object */
		if (object == NULL || name[len] == '\0')
			return object;
		name += len + 1;
	}
}

static bool says_something(const json_t *value) {
	if (json_is_string(value))
		return json_string_length(value) > 0;
	return json_is_number(value);
}

/* The first of the names that says something; NULL when none does. */
static const json_t *find(const json_t *object, const char *const names[NAMES_MAX]) {
	for (int i = 0; i < NAMES_MAX && names[i] != NULL; i++) {
		const json_t *value = json_object_get(object, names[i]);
		if (!says_something(value) && strchr(names[i], '.') != NULL)
			value = walk_points(object, names[i]);
		if (says_something(value))
			return value;
	}
	return NULL;
}

/* A string, or a whole number as its digits. `-` says that there is none. */
static struct sluice_bytes copy(const json_t *value, struct sl_logline_scratch *scratch) {
	struct sl_out out = sl_out_to(scratch->bytes + scratch->used, sizeof scratch->bytes - scratch->used);
	if (json_is_string(value))
		sl_out_bytes(&out, json_string_value(value), json_string_length(value));
	else if (json_is_integer(value))
		sl_out_i64(&out, json_integer_value(value));
	struct sluice_bytes text = sl_slice(out.start, sl_out_len(&out));
	if (text.len == 0 || out.overflow || sl_bytes_equal(text, sl_str("-")))
		return (struct sluice_bytes){NULL, 0};
	scratch->used += text.len;
	return text;
}

/* A number with a fraction: a double has 52 bits for it, which is a quarter of a microsecond at today's count of
 * seconds, so it is rounded to the microsecond, where every double of a decimal microsecond lands on that one. */
static bool read_real_time(double count, sluice_ns *time) {
	if (!(count >= 0 && count < 1e17))
		return false;
	double us = count * (double)(sl_logtime_unit((uint64_t)count) / 1000) + 0.5;
	if (!(us < (double)(SL_AT_NS_MAX / 1000)))
		return false;
	*time = (uint64_t)us * 1000;
	return true;
}

static bool read_time(const json_t *value, sluice_ns *time) {
	if (json_is_string(value))
		return sl_logtime_text(sl_slice(json_string_value(value), json_string_length(value)), time);
	if (json_is_real(value))
		return read_real_time(json_real_value(value), time);
	char digits[24];
	struct sl_out out = sl_out_to(digits, sizeof digits);
	sl_out_i64(&out, json_integer_value(value)); /* a minus is refused with everything else that is no digit */
	return sl_logtime_count(sl_slice(digits, sl_out_len(&out)), time);
}

static bool read_cost(const json_t *object, struct sl_logline *out) {
	const json_t *value = json_object_get(object, "cost");
	if (value == NULL || json_is_null(value))
		return true;
	json_int_t number = json_integer_value(value);
	out->cost = (uint32_t)number;
	out->cost_said = true;
	return json_is_integer(value) && number >= 0 && number <= UINT32_MAX;
}

/* The nanoseconds of "ms", "s" and so on; 0 for another text. */
static double unit_of(struct sluice_bytes text) {
	static const struct {
		const char *text;
		double ns;
	} units[] = {{"ns", NS},    {"us", US},           {"µs", US},            {"ms", MS},
	             {"s", SECOND}, {"m", 60.0 * SECOND}, {"h", 3600.0 * SECOND}};
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (sl_bytes_equal(text, sl_str(units[i].text)))
			return units[i].ns;
	return 0;
}

/* The nanoseconds of numbers with their units, as Go writes them: "350µs", "1m2.5s". Below 0 where one is wrong. */
static double sum_parts(const char *text) {
	double ns = 0;
	while (*text != '\0') {
		char *end;
		double number = strtod(text, &end);
		size_t len = strcspn(end, "0123456789.");
		double unit = unit_of(sl_slice(end, len));
		if (end == text || !(number >= 0) || unit == 0)
			return -1;
		ns += number * unit;
		text = end + len;
	}
	return ns;
}

/* A number, or one as text, or several with their units. */
static bool read_duration(const json_t *value, uint32_t unit_ns, sluice_ns *duration) {
	const double longest_ns = 3660.0 * 86400 * SECOND;
	double number = json_number_value(value), unit = unit_ns;
	bool whole = json_is_integer(value);
	if (json_is_string(value)) {
		const char *text = json_string_value(value);
		char *end;
		number = strtod(text, &end);
		whole = strpbrk(text, ".eE") == NULL;
		if (end == text)
			return false;
		if (*end != '\0')
			number = sum_parts(text), unit = NS;
	}
	if (unit == UNIT_GUESS)
		unit = whole ? MS : SECOND;
	if (!(number >= 0 && number * unit <= longest_ns))
		return false;
	*duration = (sluice_ns)(number * unit + 0.5);
	return true;
}

/* The first of the names that says one. */
static void find_duration(const json_t *object, struct sl_logline *out) {
	for (size_t i = 0; i < sizeof duration_names / sizeof *duration_names && !out->has_duration; i++) {
		const json_t *value = json_object_get(object, duration_names[i].name);
		if (!says_something(value) && strchr(duration_names[i].name, '.') != NULL)
			value = walk_points(object, duration_names[i].name);
		out->has_duration = says_something(value) && read_duration(value, duration_names[i].unit_ns, &out->duration);
	}
}

/* The request as its own fields, else as one line. */
static void read_request(const json_t *object, struct sl_logline_scratch *scratch, struct sl_logline *out) {
	const json_t *method = find(object, method_names), *path = find(object, path_names);
	const json_t *host = find(object, host_names), *request = find(object, request_names);
	if (method == NULL && path == NULL && json_is_string(request)) {
		sl_logline_request(copy(request, scratch), out);
	} else {
		out->method = copy(method, scratch);
		if (!sl_logline_is_method(out->method))
			out->method = (struct sluice_bytes){NULL, 0};
		out->path = copy(path, scratch);
		sl_logline_target_host(out->path, out);
	}
	if (host != NULL)
		out->host = copy(host, scratch);
}

static bool read_object(const json_t *object, struct sl_logline_scratch *scratch, struct sl_logline *out,
                        struct sluice_error *error) {
	const json_t *time = find(object, time_names);
	if (!json_is_object(object))
		return sl_logline_refuse(error, 1, "expected a JSON object");
	if (time == NULL)
		return sl_logline_refuse(error, 1, "no time: expected a field such as \"time\", \"timestamp\" or \"ts\"");
	if (!read_time(time, &out->time))
		return sl_logline_refuse(error, 1, "the time can't be read: expected ISO 8601, or a count since 1970");
	if (!read_cost(object, out))
		return sl_logline_refuse(error, 1, "the cost can't be read: expected a whole number from 0 to 4294967295");
	out->key = copy(find(object, key_names), scratch);
	out->ip = copy(find(object, ip_names), scratch);
	out->user = copy(find(object, user_names), scratch);
	out->status = copy(find(object, status_names), scratch);
	find_duration(object, out);
	read_request(object, scratch, out);
	return true;
}

/* How long is the number, or what looks like one, at the start of a text? `whole`: digits alone, or after a minus. */
static size_t number_len(const char *text, size_t left, bool *whole) {
	size_t len = 0;
	*whole = true;
	for (; len < left; len++) {
		bool digit = text[len] >= '0' && text[len] <= '9';
		if (!digit && memchr("-+.eE", text[len], 5) == NULL)
			break;
		*whole = *whole && (digit || (len == 0 && text[len] == '-'));
	}
	return len;
}

/* Copies a line with its whole numbers of DIGITS_LONG characters and more between quotes. */
enum { DIGITS_LONG = 19 };
static void quote_long_numbers(struct sluice_bytes line, struct sl_out *out) {
	const char *at = line.data, *end = at + line.len;
	bool quoted = false, whole = false;
	while (at < end) {
		size_t len = quoted ? 0 : number_len(at, (size_t)(end - at), &whole);
		bool is_long = whole && len >= DIGITS_LONG;
		if (len == 0) {
			quoted = quoted != (*at == '"');
			len = quoted && *at == '\\' && at + 1 < end ? 2 : 1;
		}
		if (is_long)
			sl_out_char(out, '"');
		sl_out_bytes(out, at, len);
		if (is_long)
			sl_out_char(out, '"');
		at += len;
	}
}

/* jansson refuses a line for one whole number beyond 63 bits, in whatever field. As text it is a value like others: an
 * identity stays what it is, and a time is refused. (As a real it would lose digits, and so would all others of the
 * line.) `why` is of the line as it came. */
static json_t *load(struct sluice_bytes line, json_error_t *why) {
	json_t *object = json_loadb(line.data, line.len, JSON_ALLOW_NUL, why);
	if (object != NULL || json_error_code(why) != json_error_numeric_overflow)
		return object;
	size_t size = line.len + line.len / DIGITS_LONG * 2;
	char *copy = malloc(size);
	if (copy == NULL)
		return NULL;
	struct sl_out out = sl_out_to(copy, size);
	quote_long_numbers(line, &out);
	object = json_loadb(copy, sl_out_len(&out), JSON_ALLOW_NUL, NULL);
	free(copy);
	return object;
}

bool sl_logline_json(struct sluice_bytes line, struct sl_logline_scratch *scratch, struct sl_logline *out,
                     struct sluice_error *error) {
	json_error_t why;
	json_t *object = load(line, &why);
	if (object == NULL) {
		snprintf(error->text, sizeof error->text, "not JSON: %.160s", why.text);
		for (char *p = error->text; *p != '\0'; p++)
			*p = *p >= ' ' && *p < 0x7f ? *p : '?'; /* jansson quotes the line's own bytes */
		error->column = why.position > 0 ? (uint32_t)why.position : 1;
		return false;
	}
	bool fine = read_object(object, scratch, out, error);
	json_decref(object);
	return fine;
}
