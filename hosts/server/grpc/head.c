/* What the head of a request may be (RFC 9113, 8.1 to 8.3), and what it says to us.
 *
 * nghttp2 would judge every byte of every header of every request. But a proxy sends the same head again and again, and
 * HPACK's tables give the same memory for the same field: so a field is judged once, and known by its place in the head
 * and the memory of its name and value, of which a session holds on to those that it has judged last. What a head may
 * be as a whole - which fields first, which once, which at all - is a set of bits, and asked of each.
 *
 *   field -> a pseudo one, a regular one, or bad      bits that it sets, and those that none may have set before
 *
 * A field with bytes that none may have, with a name in upper case, or of a connection (RFC 9113, 8.2.2) makes the
 * request malformed: it ends with RST_STREAM, PROTOCOL_ERROR. tests/model/grpc_head_test.c holds all of it to what
 * nghttp2 says. */
#include "hosts/server/grpc/session.h"

#include "base/assert.h"
#include "base/math.h"

#include <stdlib.h>
#include <strings.h>

enum {
	ONCE = SL_GRPC_HAS_METHOD | SL_GRPC_HAS_SCHEME | SL_GRPC_HAS_PATH | SL_GRPC_HAS_AUTHORITY | SL_GRPC_HAS_HOST |
	       SL_GRPC_HAS_LENGTH,
};

static bool is(struct sluice_bytes text, const char *other) {
	return sl_bytes_equal(text, sl_str(other));
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static bool is_token(uint8_t c, bool upper) {
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (upper && c >= 'A' && c <= 'Z') ||
	       (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool are_tokens(struct sluice_bytes text, bool upper) {
	const uint8_t *p = text.data;
	for (size_t i = 0; i < text.len; i++)
		if (!is_token(p[i], upper))
			return false;
	return text.len != 0;
}

/* Any byte but controls, and no space around it. */
static bool is_value(struct sluice_bytes text) {
	const uint8_t *p = text.data;
	for (size_t i = 0; i < text.len; i++)
		if ((p[i] < ' ' && p[i] != '\t') || p[i] == 0x7f)
			return false;
	return text.len == 0 ||
	       (p[0] != ' ' && p[0] != '\t' && p[text.len - 1] != ' ' && p[text.len - 1] != '\t');
}

/* One that is served is known as a whole: it comes in memory of its own each time. */
static bool is_path(struct sluice_bytes text) {
	const uint8_t *p = text.data;
	if (sl_grpc_method_of(text) != NULL)
		return true;
	for (size_t i = 0; i < text.len; i++)
		if (p[i] <= ' ' || p[i] == 0x7f)
			return false;
	return true;
}

/* A host and a port, perhaps with a user before it. */
static bool is_authority(struct sluice_bytes text) {
	const uint8_t *p = text.data;
	for (size_t i = 0; i < text.len; i++)
		if (!is_token(p[i], true) && strchr("()*,:;=@[]", p[i]) == NULL)
			return false;
	return true;
}

static bool is_scheme(struct sluice_bytes text) {
	const uint8_t *p = text.data;
	for (size_t i = 0; i < text.len; i++) {
		uint8_t c = p[i] | 0x20;
		bool letter = c >= 'a' && c <= 'z', other = (p[i] >= '0' && p[i] <= '9') || memchr("+-.", p[i], 3) != NULL;
		if (!letter && (i == 0 || !other))
			return false;
	}
	return text.len != 0;
}

static bool is_http(struct sluice_bytes scheme) {
	return sl_bytes_equal_nocase(scheme, "http") || sl_bytes_equal_nocase(scheme, "https");
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */

#define FIELD(what, ...) ((struct sl_grpc_field){.kind = what, .sets = __VA_ARGS__})

static const struct sl_grpc_field bad = {.kind = SL_GRPC_FIELD_BAD};
static const struct sl_grpc_field other = {.kind = SL_GRPC_FIELD_REGULAR}; /* says nothing to us */

static struct sl_grpc_field judge_pseudo(struct sluice_bytes name, struct sluice_bytes value) {
	if (value.len == 0)
		return bad;
	if (is(name, ":path") && is_path(value))
		return FIELD(SL_GRPC_FIELD_PATH, SL_GRPC_HAS_PATH | (*(const char *)value.data == '/' ? SL_GRPC_IS_ROOTED : 0) |
		                                     (is(value, "*") ? SL_GRPC_IS_STAR : 0));
	if (is(name, ":method") && are_tokens(value, true))
		return FIELD(SL_GRPC_FIELD_PSEUDO, SL_GRPC_HAS_METHOD | (is(value, "POST") ? SL_GRPC_IS_POST : 0) |
		                                       (is(value, "CONNECT") ? SL_GRPC_IS_CONNECT : 0) |
		                                       (is(value, "OPTIONS") ? SL_GRPC_IS_OPTIONS : 0));
	if (is(name, ":scheme") && is_scheme(value))
		return FIELD(SL_GRPC_FIELD_PSEUDO, SL_GRPC_HAS_SCHEME | (is_http(value) ? SL_GRPC_IS_HTTP : 0));
	if (is(name, ":authority") && is_authority(value))
		return FIELD(SL_GRPC_FIELD_PSEUDO, SL_GRPC_HAS_AUTHORITY);
	return bad;
}

/* Fields that speak of one connection: HTTP/2 has none. */
static bool is_of_connection(struct sluice_bytes name) {
	static const char *const names[] = {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (is(name, names[i]))
			return true;
	return false;
}

static bool is_trailers(struct sluice_bytes value) {
	return value.len == 8 && strncasecmp(value.data, "trailers", 8) == 0;
}

static struct sl_grpc_field judge_regular(struct sluice_bytes name, struct sluice_bytes value) {
	if (is(name, "host"))
		return value.len != 0 && is_authority(value) ? FIELD(SL_GRPC_FIELD_REGULAR, SL_GRPC_HAS_HOST) : bad;
	if (!is_value(value) || is_of_connection(name) || (is(name, "te") && !is_trailers(value)))
		return bad;
	if (is(name, "content-length"))
		return FIELD(SL_GRPC_FIELD_LENGTH, SL_GRPC_HAS_LENGTH);
	if (is(name, "content-type"))
		return FIELD(SL_GRPC_FIELD_REGULAR, sl_grpc_is_content(value) ? SL_GRPC_IS_GRPC : 0);
	if (is(name, "grpc-timeout"))
		return FIELD(SL_GRPC_FIELD_TIMEOUT, 0);
	if (is(name, "grpc-encoding"))
		return FIELD(SL_GRPC_FIELD_ENCODING, 0);
	if (is(name, "user-agent"))
		return FIELD(SL_GRPC_FIELD_AGENT, 0);
	return is(name, "authorization") ? FIELD(SL_GRPC_FIELD_AUTHORIZATION, 0) : other;
}

/* What a field is, by its bytes alone. */
static struct sl_grpc_field judge(struct sluice_bytes name, struct sluice_bytes value) {
	const uint8_t *p = name.data;
	if (name.len != 0 && p[0] == ':')
		return judge_pseudo(name, value);
	return are_tokens(name, false) ? judge_regular(name, value) : bad;
}

/* ---- fields that were judged before ------------------------------------------------------------------------------ */

static struct sluice_bytes bytes_of(nghttp2_rcbuf *buffer) {
	nghttp2_vec vec = nghttp2_rcbuf_get_buf(buffer);
	return sl_slice(vec.base, vec.len);
}

static void forget(struct sl_grpc_seen *seen) {
	if (seen->name == NULL)
		return;
	nghttp2_rcbuf_decref(seen->name);
	nghttp2_rcbuf_decref(seen->value);
	seen->name = seen->value = NULL;
}

void sl_grpc_heads_forget(struct sl_grpc_session *session) {
	for (size_t i = 0; i < SL_GRPC_SEEN; i++)
		forget(&session->seen[i]);
}

/* Paths come in memory of their own each time; credentials are kept no longer than they have to be, and what is long is
 * nobody's to keep. */
static void keep(struct sl_grpc_seen *seen, nghttp2_rcbuf *name, nghttp2_rcbuf *value, struct sl_grpc_field field) {
	if (field.kind == SL_GRPC_FIELD_PATH || field.kind == SL_GRPC_FIELD_AUTHORIZATION ||
	    field.bytes > SL_GRPC_SEEN_BYTES_MAX)
		return;
	forget(seen);
	nghttp2_rcbuf_incref(name);
	nghttp2_rcbuf_incref(value);
	*seen = (struct sl_grpc_seen){name, value, field};
}

static struct sl_grpc_field field_of(struct sl_grpc_session *session, uint32_t place, nghttp2_rcbuf *name,
                                     nghttp2_rcbuf *value) {
	struct sl_grpc_seen *seen = place < SL_GRPC_SEEN ? &session->seen[place] : NULL;
	if (seen != NULL && seen->name == name && seen->value == value)
		return seen->field;
	struct sluice_bytes n = bytes_of(name), v = bytes_of(value);
	struct sl_grpc_field field = judge(n, v);
	field.bytes = (uint32_t)sl_min(n.len + v.len + 32, SL_GRPC_HEADERS_MAX + 1);
	if (seen != NULL)
		keep(seen, name, value, field);
	return field;
}

/* ---- what a head says -------------------------------------------------------------------------------------------- */

/* Credentials are read when the head is whole; a second line of them is refused then. */
static void keep_authorization(struct sl_grpc_stream *stream, struct sluice_bytes value) {
	stream->authorizations = stream->authorizations == 0 && value.len <= SL_GRPC_AUTHORIZATION_MAX ? 1 : 2;
	if (stream->authorizations > 1 || value.len == 0)
		return;
	stream->authorization = malloc(value.len);
	if (stream->authorization == NULL)
		return;
	memcpy(stream->authorization, value.data, value.len);
	stream->authorization_len = value.len;
}

static void keep_path(struct sl_grpc_stream *stream, struct sluice_bytes path) {
	stream->method = sl_grpc_method_of(path);
	if (stream->method == NULL)
		sl_grpc_stream_show(stream, path);
}

/* A connection is named once: its client has one User-Agent. */
static void name_client(struct sl_grpc_session *session, struct sluice_bytes agent) {
	if (session->named)
		return;
	session->named = true;
	sl_door_name_agent(session->context, agent);
}

/* False where it makes the request malformed. */
static bool keep_value(struct sl_grpc_stream *stream, uint8_t kind, struct sluice_bytes value) {
	switch (kind) {
	case SL_GRPC_FIELD_PATH:
		keep_path(stream, value);
		return true;
	case SL_GRPC_FIELD_LENGTH:
		return sl_bytes_to_u64(value, &stream->content_length) && stream->content_length <= INT64_MAX;
	case SL_GRPC_FIELD_TIMEOUT:
		stream->bad_timeout = !sl_grpc_is_timeout(value);
		return true;
	case SL_GRPC_FIELD_ENCODING:
		stream->encoded = !sl_bytes_equal(value, sl_str("identity"));
		if (stream->encoded && stream->method != NULL)
			sl_grpc_stream_show(stream, value);
		return true;
	case SL_GRPC_FIELD_AGENT:
		name_client(stream->session, value);
		return true;
	default:
		keep_authorization(stream, value);
		return true;
	}
}

bool sl_grpc_head_add(struct sl_grpc_stream *stream, nghttp2_rcbuf *name, nghttp2_rcbuf *value, bool trailer) {
	struct sl_grpc_field field = field_of(stream->session, stream->fields++, name, value);
	const bool pseudo = field.kind == SL_GRPC_FIELD_PSEUDO || field.kind == SL_GRPC_FIELD_PATH;
	stream->header_bytes += field.bytes;
	if (field.kind == SL_GRPC_FIELD_BAD || (field.sets & stream->head & ONCE) != 0 ||
	    (pseudo && (trailer || (stream->head & SL_GRPC_HAS_REGULAR) != 0)))
		return false;
	if (trailer)
		return true;
	stream->head |= field.sets | (pseudo ? 0 : SL_GRPC_HAS_REGULAR);
	return field.kind < SL_GRPC_FIELD_PATH || keep_value(stream, field.kind, bytes_of(value));
}

/* Of http and https a path begins with a /, or is the * of an OPTIONS that asks for no resource (8.3.1). */
static bool path_is_of_scheme(uint32_t head) {
	return (head & (SL_GRPC_IS_HTTP | SL_GRPC_IS_ROOTED)) != SL_GRPC_IS_HTTP ||
	       (head & (SL_GRPC_IS_OPTIONS | SL_GRPC_IS_STAR)) == (SL_GRPC_IS_OPTIONS | SL_GRPC_IS_STAR);
}

bool sl_grpc_head_is_whole(const struct sl_grpc_stream *stream) {
	const uint32_t request = SL_GRPC_HAS_METHOD | SL_GRPC_HAS_SCHEME | SL_GRPC_HAS_PATH, head = stream->head;
	if ((head & (SL_GRPC_HAS_AUTHORITY | SL_GRPC_HAS_HOST)) == 0)
		return false;
	if ((head & SL_GRPC_IS_CONNECT) != 0)
		return (head & request) == SL_GRPC_HAS_METHOD && (head & SL_GRPC_HAS_AUTHORITY) != 0;
	return (head & request) == request && path_is_of_scheme(head);
}
