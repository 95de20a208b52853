/* See replay_key.h. The parts of --key are found once; each line then only copies what they name. */
#include "hosts/cli/replay/replay_key.h"

#include "hosts/cli/args.h"
#include "policy/key.h"

#include <stdio.h>

const char *const sl_replay_attribute_names[SL_REPLAY_ATTRIBUTES + 1] = {
	"ip", "method", "path", "host", "user", "status", "key", NULL,
};

/* No line has both but a JSON one, where the address is the better guess; so the value needs no name with it. */
const struct sl_replay_key sl_replay_key_default = {
	.part_count = 1,
	.parts = {{.count = 2, .choices = {SL_REPLAY_IP, SL_REPLAY_KEY}}},
	.bare = true,
};

/* ---- a request ------------------------------------------------------------------------------------------------- */

/* Which attributes have forms. */
static const uint8_t attributes[SL_REPLAY_ATTRIBUTES] = {
	[SL_REPLAY_IP] = SL_ATTRIBUTE_IP,
	[SL_REPLAY_METHOD] = SL_ATTRIBUTE_METHOD,
	[SL_REPLAY_PATH] = SL_ATTRIBUTE_PATH,
	[SL_REPLAY_HOST] = SL_ATTRIBUTE_HOST,
};

/* Where a line says each. */
static const uint8_t places[SL_REPLAY_ATTRIBUTES] = {
	[SL_REPLAY_IP] = offsetof(struct sl_logline, ip),     [SL_REPLAY_METHOD] = offsetof(struct sl_logline, method),
	[SL_REPLAY_PATH] = offsetof(struct sl_logline, path), [SL_REPLAY_HOST] = offsetof(struct sl_logline, host),
	[SL_REPLAY_USER] = offsetof(struct sl_logline, user), [SL_REPLAY_STATUS] = offsetof(struct sl_logline, status),
	[SL_REPLAY_KEY] = offsetof(struct sl_logline, key),
};
_Static_assert(sizeof(struct sl_logline) <= UINT8_MAX, "an offset in it fits a byte");

void sl_replay_request_make(struct sl_replay_request *request, const struct sl_logline *line, uint32_t wanted,
                            uint32_t ipv6_prefix) {
	request->time = line->time;
	request->cost = line->cost;
	request->cost_said = line->cost_said;
	request->has_duration = line->has_duration;
	request->duration = line->duration;
	memset(request->values, 0, sizeof request->values);
	for (uint32_t left = wanted; left != 0; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctz(left);
		const struct sluice_bytes *said = (const struct sluice_bytes *)((const char *)line + places[i]);
		if (attributes[i] == SL_ATTRIBUTE_OTHER)
			request->values[i] = *said;
		else if (said->data != NULL)
			request->values[i] = sl_attribute_form(attributes[i], *said, ipv6_prefix, request->forms[attributes[i]]);
	}
}

/* ---- --key ------------------------------------------------------------------------------------------------------ */

static bool refuse(struct sluice_error *error, size_t column, const char *what, struct sluice_bytes name) {
	char word[32];
	struct sl_out out = sl_out_to(error->text, sizeof error->text - 1);
	snprintf(word, sizeof word, "%.*s", (int)name.len, (const char *)name.data);
	const char *nearest = sl_args_nearest(word, sl_replay_attribute_names);
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
			return refuse(error, column, "too many parts after", name);
		key->part_count++;
	}
	key->bare = key->part_count == 1 && key->parts[0].count == 1;
	return true;
}

uint32_t sl_replay_key_wants(const struct sl_replay_key *key) {
	uint32_t wanted = 0;
	for (int i = 0; i < SL_REPLAY_ATTRIBUTES; i++)
		wanted |= (uint32_t)sl_replay_key_has(key, i) << i;
	return wanted;
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
			char folded[SLUICE_KEY_BYTES_MAX];
			value = sl_key_fold(folded, value);
			sl_out_bytes(out, value.data, value.len);
			return true;
		}
		if (part > 0)
			sl_out_char(out, ',');
		sl_out_str(out, sl_replay_attribute_names[attribute]);
		sl_out_char(out, '=');
		sl_key_add(out, value);
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
