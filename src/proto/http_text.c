/* The texts of HTTP: header lines, percent-encoding, queries, reason phrases, dates. Pure functions. */
#include "base/assert.h"
#include "proto/http.h"

static bool is_blank(char c) {
	return c == ' ' || c == '\t';
}

bool sl_http_field_next(struct sluice_bytes *rest, struct sluice_bytes *name, struct sluice_bytes *value) {
	const char *at = rest->data;
	if (rest->len == 0)
		return false;
	const char *cr = memchr(at, '\r', rest->len), *colon = memchr(at, ':', rest->len);
	SL_ASSERT(cr != NULL && colon != NULL && colon < cr);
	*rest = sl_slice(cr + 2, rest->len - (size_t)(cr + 2 - at));
	*name = sl_slice(at, (size_t)(colon - at));
	for (colon++; colon < cr && is_blank(*colon);)
		colon++;
	while (colon < cr && is_blank(cr[-1]))
		cr--;
	*value = sl_slice(colon, (size_t)(cr - colon));
	return true;
}

bool sl_http_field(const struct sl_http_request *request, const char *name, struct sluice_bytes *value) {
	struct sluice_bytes rest = request->head, found, text;
	while (sl_http_field_next(&rest, &found, &text))
		if (sl_bytes_equal_nocase(found, name)) {
			*value = text;
			return true;
		}
	return false;
}

static int hex_digit(char c) {
	return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

ptrdiff_t sl_http_decode(struct sluice_bytes text, bool plus, char *out) {
	const char *p = text.data;
	ptrdiff_t n = 0;
	for (size_t i = 0; i < text.len; i++) {
		char c = p[i];
		if (c == '%') {
			int high = i + 2 < text.len ? hex_digit(p[i + 1]) : -1, low = i + 2 < text.len ? hex_digit(p[i + 2]) : -1;
			if (high < 0 || low < 0)
				return -1;
			c = (char)(high << 4 | low);
			i += 2;
		} else if (c == '+' && plus) {
			c = ' ';
		}
		out[n++] = c;
	}
	return n;
}

bool sl_http_query_next(struct sluice_bytes *rest, struct sluice_bytes *name, struct sluice_bytes *value) {
	while (rest->len > 0) {
		const char *at = rest->data, *end = at + rest->len, *stop = memchr(at, '&', rest->len), *equal;
		if (stop == NULL)
			stop = end;
		*rest = stop == end ? sl_slice(end, 0) : sl_slice(stop + 1, (size_t)(end - stop - 1));
		if (stop == at)
			continue;
		equal = memchr(at, '=', (size_t)(stop - at));
		*name = sl_slice(at, (size_t)((equal != NULL ? equal : stop) - at));
		*value = equal == NULL ? sl_slice(stop, 0) : sl_slice(equal + 1, (size_t)(stop - equal - 1));
		return true;
	}
	return false;
}

bool sl_http_query_repeats(struct sluice_bytes query) {
	struct sluice_bytes names[SL_HTTP_QUERY_NAMES_MAX], name, value;
	uint32_t count = 0;
	while (sl_http_query_next(&query, &name, &value)) {
		for (uint32_t i = 0; i < count; i++)
			if (sl_bytes_equal(names[i], name))
				return true;
		if (count == SL_HTTP_QUERY_NAMES_MAX)
			return false;
		names[count++] = name;
	}
	return false;
}

const char *sl_http_reason(unsigned status) {
	static const struct {
		unsigned status;
		const char *text;
	} reasons[] = {
		{200, "OK"},
		{304, "Not Modified"},
		{400, "Bad Request"},
		{401, "Unauthorized"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{409, "Conflict"},
		{413, "Content Too Large"},
		{414, "URI Too Long"},
		{415, "Unsupported Media Type"},
		{417, "Expectation Failed"},
		{422, "Unprocessable Content"},
		{429, "Too Many Requests"},
		{431, "Request Header Fields Too Large"},
		{500, "Internal Server Error"},
		{501, "Not Implemented"},
		{503, "Service Unavailable"},
		{505, "HTTP Version Not Supported"},
	};
	for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
		if (reasons[i].status == status)
			return reasons[i].text;
	return "Unknown";
}

static void put2(char *at, unsigned value) {
	at[0] = (char)('0' + value / 10 % 10);
	at[1] = (char)('0' + value % 10);
}

void sl_http_date(sluice_ns now, char text[SL_HTTP_DATE_BYTES]) {
	static const char day_names[] = "ThuFriSatSunMonTueWed", month_names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	uint64_t seconds = now / 1000000000, day = seconds / 86400;
	unsigned second = (unsigned)(seconds % 86400);
	/* Days to a date in years that begin in March, so that the leap day comes last: eras of 400 years are alike. */
	uint64_t shifted = day + 719468, era = shifted / 146097;
	unsigned of_era = (unsigned)(shifted % 146097);
	unsigned year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	unsigned of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	unsigned month = (5 * of_year + 2) / 153, year = (unsigned)era * 400 + year_of_era + (month >= 10);
	SL_ASSERT(of_year <= 365 && month <= 11);
	memcpy(text, "ddd, 00 mmm 0000 00:00:00 GMT", SL_HTTP_DATE_BYTES);
	memcpy(text, day_names + day % 7 * 3, 3);
	put2(text + 5, of_year - (153 * month + 2) / 5 + 1);
	memcpy(text + 8, month_names + (month + 2) % 12 * 3, 3);
	put2(text + 12, year / 100);
	put2(text + 14, year);
	put2(text + 17, second / 3600);
	put2(text + 20, second / 60 % 60);
	put2(text + 23, second % 60);
}
