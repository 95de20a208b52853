/* HTTP/1.1 requests on llhttp, and a strict walk behind it.
 *
 * llhttp finds where a request ends: the head, a body of known length, chunks. What a limiter needs besides is little,
 * so no list of headers is made; the head is walked once, when it is whole, and handed out as it is, for those routes
 * that look into it (sl_http_field_next(), which may then take its form for granted):
 *
 *   data  |POST /v1/check HTTP/1.1 CR LF|Host: x CR LF|...|CR LF|body .....|next request
 *         ^request                       ^walk_fields            ^head_bytes ^parsed
 *
 * Why walk what a parser has read? Because llhttp 8.1.0 (Debian 12), built as Node builds it, lets through what lets
 * two servers in a row disagree on where a request ends: a bare CR that stands for the last CR LF (it swallows the byte
 * after), "Host :" with a space, an empty Transfer-Encoding beside a Content-Length, "gzip, chunked", folded lines,
 * several spaces in the request line, any two bytes for the CR LF after a chunk's data. Each is refused here;
 * tests/unit/http_test.c has them all.
 *
 *  I1  Every byte of a request is given to the machine once, whatever the pieces it arrives in; but a method that it
 *      does not know is read from its beginning until it is whole (pass_method()).
 *  I2  The result depends on the bytes alone, never on how they were cut: a head is only ever judged when it is whole,
 *      or when it has SL_HTTP_HEAD_BYTES_MAX bytes and is not.
 *  I3  After a refusal nothing more is read.
 *
 * Sources: RFC 9110, RFC 9112 (3.2 target forms, 5.1 names, 5.2 folding, 6.1 coding and length). A request of 120 bytes
 * takes about 250 ns, a little under half of it the walk. */
#include "proto/http.h"
#include "base/assert.h"

#include <stdlib.h>

/* ---- refusing ------------------------------------------------------------------------------------------------ */

static bool refuse(struct sl_http_parser *parser, uint16_t status, const char *detail) {
	struct sl_out out = sl_out_to(parser->refusal.detail, sizeof parser->refusal.detail - 1);
	sl_out_str(&out, detail);
	*out.at = '\0';
	SL_ASSERT(!out.overflow);
	parser->refusal.status = status;
	return false;
}

/* ---- the head ------------------------------------------------------------------------------------------------ */

/* What the walk over the fields found. */
struct fields {
	uint32_t host_count, coding_count;
	bool expects_continue, is_encoded;
};

/* RFC 9110 5.6.2: the characters of methods and field names. */
static bool is_token(struct sluice_bytes text) {
	static const bool is_token_char[256] = {
		['!'] = true,         ['#' ... '\''] = true, ['*'] = true,         ['+'] = true, ['-'] = true, ['.'] = true,
		['0' ... '9'] = true, ['A' ... 'Z'] = true,  ['^' ... 'z'] = true, ['|'] = true, ['~'] = true,
	};
	const unsigned char *p = text.data;
	for (size_t i = 0; i < text.len; i++)
		if (!is_token_char[p[i]])
			return false;
	return text.len > 0;
}

/* RFC 3986 3.2.2 and 3.2.3: a host and a port, as far as their characters tell; none at all is one too. No user. */
static bool is_host(struct sluice_bytes text) {
	static const bool is_host_char[256] = {
		['!'] = true, ['$'] = true, ['%'] = true, ['&' ... '.'] = true, ['0' ... ';'] = true, ['A' ... '['] = true,
		[']'] = true, ['='] = true, ['_'] = true, ['a' ... 'z'] = true, ['~'] = true,
	};
	const unsigned char *p = text.data;
	for (size_t i = 0; i < text.len; i++)
		if (!is_host_char[p[i]])
			return false;
	return true;
}

static struct sluice_bytes trim(const char *from, const char *to) {
	while (from < to && (*from == ' ' || *from == '\t'))
		from++;
	while (from < to && (to[-1] == ' ' || to[-1] == '\t'))
		to--;
	return sl_slice(from, (size_t)(to - from));
}

/* The end of the line that begins at `at`: its CR, which a LF must follow, with no bare CR or LF before. NULL else. */
static const char *line_end(const char *at, const char *end) {
	const char *cr = memchr(at, '\r', (size_t)(end - at));
	if (cr == NULL || cr + 1 == end || cr[1] != '\n' || memchr(at, '\n', (size_t)(cr - at)) != NULL)
		return NULL;
	return cr;
}

static bool take_field(struct sl_http_parser *parser, struct fields *fields, struct sluice_bytes name,
                       struct sluice_bytes value) {
	switch (name.len) {
	case 4:
		if (!sl_bytes_equal_nocase(name, "host"))
			break;
		if (!is_host(value))
			return refuse(parser, 400, "the Host header must be a host, such as example.com:8080");
		fields->host_count++;
		break;
	case 6:
		if (!sl_bytes_equal_nocase(name, "expect"))
			break;
		if (!sl_bytes_equal_nocase(value, "100-continue"))
			return refuse(parser, 417, "the only expectation known here is 100-continue");
		fields->expects_continue = true;
		break;
	case 16:
		if (sl_bytes_equal_nocase(name, "content-encoding") && !sl_bytes_equal_nocase(value, "identity"))
			fields->is_encoded = true;
		break;
	case 17:
		if (!sl_bytes_equal_nocase(name, "transfer-encoding"))
			break;
		if (++fields->coding_count > 1 || value.len == 0)
			return refuse(parser, 400, "Transfer-Encoding must be given once, as chunked");
		if (!sl_bytes_equal_nocase(value, "chunked"))
			return refuse(parser, 501, "the only Transfer-Encoding known here is chunked, alone");
		break;
	default:
		break;
	}
	return true;
}

static bool walk_fields(struct sl_http_parser *parser, struct fields *fields, const char *at, const char *end) {
	for (uint32_t count = 0;; count++) {
		const char *cr = line_end(at, end), *colon;
		if (cr == NULL)
			return refuse(parser, 400, "a header line must end in CR LF, and hold neither elsewhere");
		if (cr == at)
			return cr + 2 == end || refuse(parser, 400, "the empty line that ends the headers must be CR LF");
		if (count == SL_HTTP_FIELDS_MAX)
			return refuse(parser, 431, "more than 100 header lines");
		if (*at == ' ' || *at == '\t')
			return refuse(parser, 400, "a header line must not be folded: join it into one line");
		colon = memchr(at, ':', (size_t)(cr - at));
		if (colon == NULL || !is_token(sl_slice(at, (size_t)(colon - at))))
			return refuse(parser, 400,
			              "a header line must be a name of letters, digits and -, a colon at once, a value");
		if (!take_field(parser, fields, sl_slice(at, (size_t)(colon - at)), trim(colon + 1, cr)))
			return false;
		at = cr + 2;
	}
}

/* RFC 9112 3.2: "/path?query", "http://host/path?query", or "*". */
static bool split_target(struct sl_http_parser *parser, struct sluice_bytes target) {
	struct sl_http_request *request = &parser->request;
	const char *at = target.data, *end = at + target.len, *question;
	size_t scheme = target.len >= 7 && sl_bytes_equal_nocase(sl_slice(at, 7), "http://")    ? 7
	                : target.len >= 8 && sl_bytes_equal_nocase(sl_slice(at, 8), "https://") ? 8
	                                                                                        : 0;
	for (size_t i = 0; i < target.len; i++)
		if ((unsigned char)at[i] <= ' ' || at[i] == '#' || at[i] == 0x7f)
			return refuse(parser, 400,
			              "the request target must not have a fragment or control characters: write # as %23");
	if (scheme != 0) {
		for (at += scheme; at < end && *at != '/' && *at != '?';)
			at++;
		request->authority =
			sl_slice((const char *)target.data + scheme, (size_t)(at - (const char *)target.data) - scheme);
		if (request->authority.len == 0 || !is_host(request->authority))
			return refuse(parser, 400, "the request target must name a host after its scheme, and no user");
	} else if (*at != '/' && !sl_bytes_equal(target, sl_str("*"))) {
		return refuse(parser, 400, "the request target must be a path such as /v1/check");
	}
	question = memchr(at, '?', (size_t)(end - at));
	request->path =
		at == end || at == question ? sl_str("/") : sl_slice(at, (size_t)((question != NULL ? question : end) - at));
	request->query = question == NULL ? sl_slice(NULL, 0) : sl_slice(question + 1, (size_t)(end - question - 1));
	return true;
}

static enum sl_http_method method_of(struct sluice_bytes name) {
	return sl_bytes_equal(name, sl_str("POST"))     ? SL_HTTP_POST
	       : sl_bytes_equal(name, sl_str("GET"))    ? SL_HTTP_GET
	       : sl_bytes_equal(name, sl_str("HEAD"))   ? SL_HTTP_HEAD
	       : sl_bytes_equal(name, sl_str("PUT"))    ? SL_HTTP_PUT
	       : sl_bytes_equal(name, sl_str("DELETE")) ? SL_HTTP_DELETE
	                                                : SL_HTTP_OTHER;
}

/* "METHOD SP target SP HTTP/1.x", single spaces. `*next` is the first header line. */
static bool walk_request_line(struct sl_http_parser *parser, const char *end, const char **next) {
	struct sl_http_request *request = &parser->request;
	const char *at = parser->data, *cr = line_end(at, end), *first, *second;
	if (cr == NULL)
		return refuse(parser, 400, "the request line must end in CR LF, and hold neither elsewhere");
	*next = cr + 2;
	first = memchr(at, ' ', (size_t)(cr - at));
	second = first == NULL ? NULL : memchr(first + 1, ' ', (size_t)(cr - first - 1));
	if (second == NULL)
		return refuse(parser, 505, "the request line must be METHOD TARGET HTTP/1.1: the version is missing");
	if (second == first + 1 || cr - second != 9 || memchr(first, '\t', (size_t)(cr - first)) != NULL)
		return refuse(parser, 400, "the request line must be METHOD TARGET HTTP/1.1, with single spaces");
	if (memcmp(second + 1, "HTTP/1.", 7) != 0 || (cr[-1] != '0' && cr[-1] != '1'))
		return refuse(parser, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
	request->http10 = cr[-1] == '0';
	request->method_name = sl_slice(at, (size_t)(first - at));
	request->method = method_of(request->method_name);
	if (sl_bytes_equal(request->method_name, sl_str("CONNECT")))
		return refuse(parser, 400, "no tunnels here: CONNECT is not served");
	return split_target(parser, sl_slice(first + 1, (size_t)(second - first - 1)));
}

/* The header lines begin at `first`; after them stands the empty one. */
static void set_head(struct sl_http_parser *parser, const char *first) {
	parser->request.head = sl_slice(first, parser->head_bytes - 2 - (size_t)(first - parser->data));
}

/* Judges a whole head. False: refused. */
static bool take_head(struct sl_http_parser *parser) {
	struct fields fields = {0};
	const char *end = parser->data + parser->head_bytes, *next = end;
	bool chunked = (parser->machine.flags & F_CHUNKED) != 0;
	if (!walk_request_line(parser, end, &next) || !walk_fields(parser, &fields, next, end))
		return false;
	if (fields.host_count != 1 && !(fields.host_count == 0 && parser->request.http10))
		return refuse(parser, 400, "HTTP/1.1 asks for exactly one Host header");
	if (chunked != (fields.coding_count == 1) || (chunked && parser->request.http10))
		return refuse(parser, 400, "chunks need HTTP/1.1");
	if (!chunked && parser->machine.content_length > SL_HTTP_BODY_BYTES_MAX)
		return refuse(parser, 413, "the body may have at most 65536 bytes");
	/* without a body it is harmless: a proxy that asks whether a request may pass sends its headers alone */
	if (fields.is_encoded && (chunked || parser->machine.content_length > 0))
		return refuse(parser, 415, "the body must not be compressed: send it without Content-Encoding");
	set_head(parser, next);
	parser->expects_continue = fields.expects_continue;
	parser->request.keep_alive = llhttp_should_keep_alive(&parser->machine) != 0;
	parser->machine.upgrade = 0; /* an Upgrade is an offer, which HTTP lets a server pass over (RFC 9110 7.8) */
	return true;
}

/* ---- the body ------------------------------------------------------------------------------------------------ */

/* One chunk's size: hex digits, then nothing or extensions after a semicolon, then CR LF (RFC 9112 7.1). Returns what
 * stands after the line; NULL where it is none. */
static const char *behind_size(const char *at, const char *end) {
	const char *cr = line_end(at, end), *digits = at;
	if (cr == NULL)
		return NULL;
	while (at < cr && ((*at >= '0' && *at <= '9') || ((*at | 0x20) >= 'a' && (*at | 0x20) <= 'f')))
		at++;
	if (at == digits)
		return NULL;
	struct sluice_bytes rest = trim(at, cr);
	if (rest.len != 0 && *(const char *)rest.data != ';')
		return NULL;
	for (; at < cr; at++)
		if (((unsigned char)*at < ' ' && *at != '\t') || *at == 0x7f)
			return NULL;
	return cr + 2;
}

/* What stands before a chunk's data: the CR LF that ends the data of the chunk before it, and its size. The machine
 * passes over whatever two bytes stand there in place of that CR LF. NULL where it is anything else. */
static const char *behind_framing(const struct sl_http_parser *parser, const char *at, const char *end) {
	bool is_first = parser->framed_from == parser->head_bytes;
	if (!is_first && (end - at < 2 || at[0] != '\r' || at[1] != '\n'))
		return NULL;
	return behind_size(is_first ? at : at + 2, end);
}

/* What stands after the last chunk: header lines that are passed over, but must be some, and an empty line. Every line
 * ends in CR LF. */
static bool trailers_are_strict(const char *at, const char *end) {
	while (at < end) {
		const char *cr = line_end(at, end), *colon;
		if (cr == NULL)
			return false;
		colon = memchr(at, ':', (size_t)(cr - at));
		if (cr == at)
			return cr + 2 == end;
		if (colon == NULL || !is_token(sl_slice(at, (size_t)(colon - at))))
			return false;
		at = cr + 2;
	}
	return false;
}

static bool chunks_append(struct sl_http_parser *parser, const char *at, size_t len) {
	size_t need = parser->chunks_bytes + len;
	if (need > SL_HTTP_BODY_BYTES_MAX)
		return refuse(parser, 413, "the body may have at most 65536 bytes");
	if (need > parser->chunks_capacity) {
		size_t capacity = need < 1024 ? 1024 : need > SL_HTTP_BODY_BYTES_MAX / 2 ? SL_HTTP_BODY_BYTES_MAX : need * 2;
		char *grown = realloc(parser->chunks, capacity);
		if (grown == NULL)
			return refuse(parser, 503, "no memory for the body");
		parser->chunks = grown;
		parser->chunks_capacity = capacity;
	}
	memcpy(parser->chunks + parser->chunks_bytes, at, len);
	parser->chunks_bytes = need;
	return true;
}

static const char framing[] = "a chunk must be its size, CR LF, so many bytes and CR LF, and header lines alone may "
							  "follow the last one";

/* Between pieces of body lies framing, or nothing where one chunk arrived in two reads. */
static int on_body(llhttp_t *machine, const char *at, size_t len) {
	struct sl_http_parser *parser = machine->data;
	const char *from = parser->data + parser->framed_from;
	if ((machine->flags & F_CHUNKED) == 0)
		return 0;
	if (from != at && behind_framing(parser, from, at) != at) {
		refuse(parser, 400, framing);
		return -1;
	}
	parser->framed_from = (size_t)(at - parser->data) + len;
	return chunks_append(parser, at, len) ? 0 : -1;
}

/* The size of a chunk is known: refuse what cannot fit before it is sent. */
static int on_chunk_header(llhttp_t *machine) {
	struct sl_http_parser *parser = machine->data;
	if (machine->content_length <= SL_HTTP_BODY_BYTES_MAX - parser->chunks_bytes)
		return 0;
	refuse(parser, 413, "the body may have at most 65536 bytes");
	return -1;
}

static int pause_at_head(llhttp_t *machine) {
	(void)machine;
	return HPE_PAUSED;
}

static int pause_at_end(llhttp_t *machine) {
	struct sl_http_parser *parser = machine->data;
	parser->complete = true;
	return HPE_PAUSED;
}

/* ---- the machine --------------------------------------------------------------------------------------------- */

static const llhttp_settings_t settings = {
	.on_headers_complete = pause_at_head,
	.on_body = on_body,
	.on_chunk_header = on_chunk_header,
	.on_message_complete = pause_at_end,
};

/* Makes the parser forget the request that is done with, not the memory for chunks. */
static void begin(struct sl_http_parser *parser) {
	llhttp_reset(&parser->machine);
	parser->parsed = parser->head_bytes = parser->framed_from = parser->chunks_bytes = 0;
	parser->expects_continue = parser->complete = false;
	parser->request = (struct sl_http_request){0};
}

void sl_http_parser_init(struct sl_http_parser *parser) {
	*parser = (struct sl_http_parser){0};
	llhttp_init(&parser->machine, HTTP_REQUEST, &settings);
	parser->machine.data = parser;
}

void sl_http_parser_free(struct sl_http_parser *parser) {
	free(parser->chunks);
	parser->chunks = NULL;
	parser->chunks_capacity = 0;
}

/* RFC 9110 9.1: methods are an open list, and the machine knows those of its day. For another one it is given GET: no
 * method that is served changes where a request ends. CONNECT and PRI, of HTTP/2's preface, are not served. */
static bool is_foreign_method(struct sluice_bytes method) {
	return method.len <= SL_HTTP_METHOD_BYTES_MAX && is_token(method) && !sl_bytes_equal(method, sl_str("CONNECT")) &&
	       !sl_bytes_equal(method, sl_str("PRI"));
}

/* The machine stopped before the head's end. BAD: not because of the method; MORE: because of one that goes on after
 * `len` bytes; REQUEST: the machine stands at the method's end now. */
static enum sl_http_result pass_method(struct sl_http_parser *parser, llhttp_errno_t err, size_t len) {
	const size_t looked = len <= SL_HTTP_METHOD_BYTES_MAX ? len : SL_HTTP_METHOD_BYTES_MAX + 1;
	const char *space = memchr(parser->data, ' ', looked);
	const size_t method = space == NULL ? looked : (size_t)(space - parser->data);
	if ((err != HPE_INVALID_METHOD && err != HPE_INVALID_CONSTANT) || parser->request.has_foreign_method)
		return SL_HTTP_BAD;
	if (method > SL_HTTP_METHOD_BYTES_MAX && is_token(sl_slice(parser->data, method)))
		refuse(parser, 400, "the method may have at most 64 bytes");
	if (!is_foreign_method(sl_slice(parser->data, method)))
		return SL_HTTP_BAD;
	llhttp_reset(&parser->machine);
	parser->parsed = 0;
	if (space == NULL)
		return SL_HTTP_MORE;
	parser->request.has_foreign_method = true;
	err = llhttp_execute(&parser->machine, "GET", 3);
	SL_ASSERT(err == HPE_OK);
	parser->parsed = method;
	return SL_HTTP_REQUEST;
}

/* PRI is the method of HTTP/2's preface: with another target than * somebody made it up. */
static bool is_no_preface(const char *from, const char *last) {
	const size_t len = (size_t)(last - from);
	return len > 6 && memcmp(from, "PRI ", 4) == 0 && memcmp(from, "PRI * ", 6) != 0;
}

/* The machine stopped on its own. What is made up is 400, not 501: a proxy that hands on its client's request takes a
 * 5xx for a limiter that is down, and where that lets everybody in, who makes something up would pass all limits. */
static enum sl_http_result explain_error(struct sl_http_parser *parser, llhttp_errno_t err, const char *at) {
	struct sl_out out = sl_out_to(parser->refusal.detail, sizeof parser->refusal.detail - 1);
	if (parser->refusal.status != 0)
		return SL_HTTP_BAD;
	if (is_no_preface(parser->data, at)) {
		refuse(parser, 400, "PRI is no method of HTTP/1.1: it stands in the preface of HTTP/2, as PRI * HTTP/2.0");
		return SL_HTTP_BAD;
	}
	if (err == HPE_INVALID_VERSION || err == HPE_PAUSED_H2_UPGRADE) {
		refuse(parser, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
		return SL_HTTP_BAD;
	}
	sl_out_str(&out, "not a request of HTTP/1.1: at byte ");
	sl_out_u64(&out, (uint64_t)(at - parser->data) + 1);
	sl_out_str(&out, ": ");
	sl_out_str(&out, llhttp_get_error_reason(&parser->machine));
	*out.at = '\0';
	parser->refusal.status = 400;
	return SL_HTTP_BAD;
}

/* All that there is has been read, and the request is not at its end. */
static enum sl_http_result want_more(struct sl_http_parser *parser) {
	bool has_target = memchr(parser->data, '\r', parser->parsed) != NULL;
	if (parser->head_bytes == 0 && parser->parsed >= SL_HTTP_HEAD_BYTES_MAX) {
		refuse(parser, has_target ? 431 : 414,
		       has_target ? "the headers may have at most 16384 bytes" : "the request target is too long");
		return SL_HTTP_BAD;
	}
	if (parser->parsed >= SL_HTTP_WIRE_BYTES_MAX) {
		refuse(parser, 413, "the body's chunks are too small: send fewer, larger ones");
		return SL_HTTP_BAD;
	}
	return SL_HTTP_MORE;
}

static enum sl_http_result finish(struct sl_http_parser *parser) {
	const char *body = parser->data + parser->head_bytes, *next;
	/* The head came with an earlier call, and may have moved since: its slices are taken anew. */
	if (!parser->head_is_new) {
		bool slices_hold = walk_request_line(parser, body, &next);
		SL_ASSERT(slices_hold);
		set_head(parser, next);
	}
	if (parser->framed_from != 0) {
		const char *end = parser->data + parser->parsed;
		const char *trailers = behind_framing(parser, parser->data + parser->framed_from, end);
		if (trailers == NULL || !trailers_are_strict(trailers, end)) {
			refuse(parser, 400, framing);
			return SL_HTTP_BAD;
		}
		parser->request.body = sl_slice(parser->chunks, parser->chunks_bytes);
	} else {
		parser->request.body = sl_slice(body, parser->parsed - parser->head_bytes);
	}
	return SL_HTTP_REQUEST;
}

/* Whether to say "100 Continue": to all who ask, though some of the body be here already (RFC 9110 10.1.1 leaves that
 * open), so that the answers do not depend on how the bytes were cut. HTTP/1.0 knows no such word. */
static bool expects_continue(const struct sl_http_parser *parser) {
	bool has_body = (parser->machine.flags & F_CHUNKED) != 0 || parser->machine.content_length != 0;
	return parser->expects_continue && has_body && !parser->request.http10;
}

/* Runs the machine over what it has not seen, up to the end of the request or of the bytes. */
static enum sl_http_result run(struct sl_http_parser *parser, size_t len) {
	for (;;) {
		size_t window = parser->head_bytes == 0 ? SL_HTTP_HEAD_BYTES_MAX : SL_HTTP_WIRE_BYTES_MAX;
		size_t stop = len < window ? len : window;
		llhttp_errno_t err = llhttp_execute(&parser->machine, parser->data + parser->parsed, stop - parser->parsed);
		if (err == HPE_OK) {
			parser->parsed = stop;
			return want_more(parser);
		}
		if (err != HPE_PAUSED) {
			const char *at = llhttp_get_error_pos(&parser->machine);
			enum sl_http_result passed =
				parser->head_bytes == 0 ? pass_method(parser, err, stop) : SL_HTTP_BAD;
			if (passed == SL_HTTP_REQUEST)
				continue;
			return passed == SL_HTTP_MORE ? SL_HTTP_MORE : explain_error(parser, err, at);
		}
		parser->parsed = (size_t)(llhttp_get_error_pos(&parser->machine) - parser->data);
		if (parser->complete)
			return finish(parser);
		parser->head_bytes = parser->parsed;
		parser->head_is_new = true;
		if (!take_head(parser))
			return SL_HTTP_BAD;
		if (parser->machine.flags & F_CHUNKED)
			parser->framed_from = parser->head_bytes;
		llhttp_resume(&parser->machine);
		if (expects_continue(parser))
			return SL_HTTP_CONTINUE;
	}
}

/* ---- heads that were seen before --------------------------------------------------------------------------------- */

/* Keeps the head of a request that is whole, and plain: with a length, or without a body. */
static void keep_head(struct sl_http_parser *parser) {
	struct sl_http_head_memo *memo = parser->memo;
	if (memo == NULL || parser->head_bytes > sizeof memo->text || parser->framed_from != 0 ||
	    parser->expects_continue || !parser->request.keep_alive || parser->request.has_foreign_method)
		return;
	memo->head_bytes = parser->head_bytes;
	memo->body_bytes = parser->parsed - parser->head_bytes;
	memcpy(memo->text, parser->data, parser->head_bytes);
}

/* Whether a request begins with the head that is kept, and is all there. */
static bool is_kept(const struct sl_http_parser *parser, size_t len) {
	const struct sl_http_head_memo *memo = parser->memo;
	return memo != NULL && parser->parsed == 0 && memo->head_bytes != 0 && len >= memo->head_bytes &&
	       len - memo->head_bytes >= memo->body_bytes && memcmp(parser->data, memo->text, memo->head_bytes) == 0;
}

/* The same bytes mean the same: neither the machine nor the judge of the head is asked again. */
static enum sl_http_result recall(struct sl_http_parser *parser) {
	parser->head_bytes = parser->memo->head_bytes;
	parser->parsed = parser->head_bytes + parser->memo->body_bytes;
	parser->complete = parser->request.keep_alive = true;
	return finish(parser);
}

enum sl_http_result sl_http_parse(struct sl_http_parser *parser, const char *data, size_t len, size_t *consumed) {
	enum sl_http_result result;
	*consumed = 0;
	parser->head_is_new = false;
	if (parser->complete)
		begin(parser);
	/* RFC 9112 2.2: empty lines before a request are passed over. */
	while (parser->parsed == 0 && len >= 2 && data[0] == '\r' && data[1] == '\n') {
		data += 2;
		len -= 2;
		*consumed += 2;
	}
	if (len == 0 || (parser->parsed == 0 && len == 1 && data[0] == '\r'))
		return SL_HTTP_MORE;
	parser->data = data;
	bool kept = is_kept(parser, len);
	result = kept ? recall(parser) : run(parser, len);
	if (result == SL_HTTP_REQUEST && !kept)
		keep_head(parser);
	if (result == SL_HTTP_REQUEST)
		*consumed += parser->parsed;
	return result;
}
