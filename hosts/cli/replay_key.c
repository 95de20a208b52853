#include "hosts/cli/replay_key.h"

#include "hosts/cli/args.h"
#include "policy/key.h"
#include "policy/path.h"

#include <stdio.h>

const char *const sl_replay_attribute_names[SL_REPLAY_ATTRIBUTES] = {
	"ip", "method", "path", "host", "user", "status", "key",
};

/* No line has both but a JSON one, where the address is the better guess; so the value needs no name with it. */
const struct sl_replay_key sl_replay_key_default = {
	.part_count = 1,
	.parts = {{.count = 2, .choices = {SL_REPLAY_IP, SL_REPLAY_KEY}}},
	.bare = true,
};

/* ---- a request ------------------------------------------------------------------------------------------------- */

static struct sluice_bytes count_address(struct sl_replay_request *request, struct sluice_bytes text,
                                         uint32_t ipv6_prefix) {
	struct sl_address address;
	if (text.data == NULL || !sl_address_parse(text, &address, NULL))
		return text;
	return sl_slice(request->ip, sl_address_key(&address, ipv6_prefix, request->ip));
}

/* Cuts ":8080" off a host; an address in brackets keeps its colons. */
static struct sluice_bytes without_port(struct sluice_bytes host) {
	const char *text = host.data;
	size_t digits = 0;
	while (digits < host.len && text[host.len - 1 - digits] >= '0' && text[host.len - 1 - digits] <= '9')
		digits++;
	if (digits == host.len || digits + 1 >= host.len || text[host.len - 1 - digits] != ':')
		return host;
	size_t len = host.len - digits - 1;
	bool bare_v6 = memchr(text, ':', len) != NULL && text[len - 1] != ']';
	return bare_v6 ? host : sl_slice(text, len);
}

static struct sluice_bytes count_host(struct sl_replay_request *request, struct sluice_bytes text) {
	if (text.data == NULL || text.len > sizeof request->host)
		return text;
	struct sluice_bytes host = without_port(text);
	const char *from = host.data;
	for (size_t i = 0; i < host.len; i++)
		request->host[i] = (char)(from[i] >= 'A' && from[i] <= 'Z' ? from[i] + 32 : from[i]);
	return sl_slice(request->host, host.len);
}

bool sl_replay_request_make(struct sl_replay_request *request, const struct sl_logline *line, uint32_t ipv6_prefix,
                            struct sluice_error *error) {
	struct sluice_bytes *values = request->values;
	request->time = line->time;
	request->cost = line->cost;
	request->has_duration = line->has_duration;
	request->duration = line->duration;
	values[SL_REPLAY_IP] = count_address(request, line->ip, ipv6_prefix);
	values[SL_REPLAY_METHOD] = line->method;
	values[SL_REPLAY_PATH] = line->path;
	if (line->path.data != NULL)
		values[SL_REPLAY_PATH] = sl_slice(request->path, sl_path_normalise(line->path, request->path));
	values[SL_REPLAY_HOST] = count_host(request, line->host);
	values[SL_REPLAY_USER] = line->user;
	values[SL_REPLAY_STATUS] = line->status;
	values[SL_REPLAY_KEY] = line->key;
	for (int i = 0; i < SL_REPLAY_ATTRIBUTES; i++) {
		if (values[i].len > SLUICE_KEY_BYTES_MAX) {
			error->column = 0;
			snprintf(error->text, sizeof error->text, "its %s has %zu bytes; an attribute may have %d",
			         sl_replay_attribute_names[i], values[i].len, SLUICE_KEY_BYTES_MAX);
			return false;
		}
	}
	return true;
}

/* ---- --key ------------------------------------------------------------------------------------------------------ */

static bool refuse(struct sluice_error *error, size_t column, const char *what, struct sluice_bytes name) {
	char word[32];
	struct sl_out out = sl_out_to(error->text, sizeof error->text - 1);
	snprintf(word, sizeof word, "%.*s", (int)name.len, (const char *)name.data);
	const char *nearest = sl_args_nearest(word, sl_replay_attribute_names, SL_REPLAY_ATTRIBUTES);
	error->column = (uint32_t)column;
	sl_out_str(&out, what);
	sl_out_char(&out, ' ');
	sl_out_quoted(&out, name, 32);
	if (nearest != NULL) {
		sl_out_str(&out, ": did you mean ");
		sl_out_str(&out, nearest);
		sl_out_char(&out, '?');
	} else {
		sl_out_str(&out, ": expected ip, user, method, path, host, status or key; 'user | ip', 'ip,path'");
	}
	*out.at = '\0';
	return false;
}

int sl_replay_attribute(struct sluice_bytes name) {
	for (int i = 0; i < SL_REPLAY_ATTRIBUTES; i++) {
		if (sl_bytes_equal(name, sl_str(sl_replay_attribute_names[i])))
			return i;
	}
	return -1;
}

/* The next name, without the spaces around it. */
static struct sluice_bytes take_name(const char **at) {
	*at += strspn(*at, " ");
	size_t len = strcspn(*at, "|,"), end = len;
	const char *from = *at;
	while (end > 0 && from[end - 1] == ' ')
		end--;
	*at += len;
	return sl_slice(from, end);
}

bool sl_replay_key_parse(struct sl_replay_key *key, const char *text, struct sluice_error *error) {
	const char *at = text;
	*key = (struct sl_replay_key){.part_count = 1};
	for (;;) {
		size_t column = (size_t)(at - text) + strspn(at, " ") + 1;
		struct sluice_bytes name = take_name(&at);
		int attribute = sl_replay_attribute(name);
		if (attribute < 0)
			return refuse(error, column, "no attribute", name);
		if (key->parts[key->part_count - 1].count == SL_REPLAY_ATTRIBUTES)
			return refuse(error, column, "too many choices before", name);
		key->parts[key->part_count - 1].choices[key->parts[key->part_count - 1].count++] = (uint8_t)attribute;
		if (*at == '\0')
			break;
		if (*at++ == '|')
			continue;
		if (key->part_count == SL_REPLAY_ATTRIBUTES)
			return refuse(error, column, "too many parts behind", name);
		key->part_count++;
	}
	key->bare = key->part_count == 1 && key->parts[0].count == 1;
	return true;
}

bool sl_replay_key_has(const struct sl_replay_key *key, enum sl_replay_attribute attribute) {
	for (int i = 0; i < key->part_count; i++) {
		for (int j = 0; j < key->parts[i].count; j++) {
			if (key->parts[i].choices[j] == attribute)
				return true;
		}
	}
	return false;
}

static bool write_part(const struct sl_replay_key *key, int part, const struct sl_replay_request *request,
                       struct sl_out *out) {
	for (int i = 0; i < key->parts[part].count; i++) {
		int attribute = key->parts[part].choices[i];
		struct sluice_bytes value = request->values[attribute];
		if (value.data == NULL)
			continue;
		if (key->bare) {
			sl_out_bytes(out, value.data, value.len);
			return true;
		}
		if (part > 0)
			sl_out_char(out, ',');
		sl_out_str(out, sl_replay_attribute_names[attribute]);
		sl_out_char(out, '=');
		sl_key_encode(out, value);
		return true;
	}
	return false;
}

bool sl_replay_key_write(const struct sl_replay_key *key, const struct sl_replay_request *request, struct sl_out *out) {
	struct sluice_bytes folded;
	char *start = out->at;
	for (int i = 0; i < key->part_count; i++) {
		if (!write_part(key, i, request, out)) {
			out->at = start;
			return false;
		}
	}
	folded = sl_key_fold(start, sl_slice(start, (size_t)(out->at - start)));
	out->at = start + folded.len;
	return true;
}
