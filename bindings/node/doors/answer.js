/* What clients are told of a decision, as Sluice's HTTP door tells it (src/proto/headers.c, hosts/server/http): header
 * fields, and the problem document of a denial. */
'use strict';

const { windowOf } = require('./calendar.js');
const { instantOf } = require('./instant.js');
const { told } = require('./notation.js');

const FORMS = ['draft10', 'draft7', 'draft6', 'legacy-epoch', 'legacy-delta'];
const TYPE = 'https://iana.org/assignments/http-problem-types#quota-exceeded';
const REDUCED = 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity';
const INTEGER_MAX = 999999999999999;

const string = (text) => `"${text.replace(/["\\]/g, '\\$&').replace(/[^ -~]/g, '?')}"`;
const integer = (value) => Math.min(value, INTEGER_MAX);
const seconds = (ms) => Math.ceil(ms / 1000);

/** Header forms as options have them: a word, a list of words, or 'none'. */
function formsOf(headers = 'draft10') {
	const forms = headers === 'none' ? [] : [headers].flat();
	for (const form of forms) {
		if (!FORMS.includes(form))
			throw new TypeError(`headers: no form '${form}'; there are ${FORMS.join(', ')} and none`);
	}
	const clash = (a, b) => forms.includes(a) && forms.includes(b);
	if (clash('draft10', 'draft7') || clash('draft10', 'draft6') || clash('legacy-epoch', 'legacy-delta'))
		throw new TypeError(`headers: ${forms.join(' and ')} write one header in two grammars`);
	return forms;
}

/** Each limit of a result, as headers name it: one of a policy by its name there. Observed ones are not told. */
function limitsOf(result, texts) {
	const each = result.each ?? (result.index >= 0 ? [result] : []);
	return each
	    .map((one, i) => (one.rule === undefined ? {...told(texts[i] ?? one.limit), one}
	                                             : {...told(one.rule), name : one.limit, one}))
	    .filter((x) => !x.unlimited && !x.one.observed);
}

/** The one that decided. A policy's limits are told by their places in the policy, of which some did not apply. */
function deciderOf(result, limits) {
	const own = result.each === undefined
	                ? result
	                : result.each.find((one) => one.rule !== undefined && one.index === result.index) ??
	                      result.each[result.index];
	return limits.find(({one}) => one === own);
}

const width = (limit) => (limit.inFlight ? ';qu="concurrent-requests"' : limit.window ? `;w=${integer(limit.window)}`
	: '');

function draft10(fields, result, limits, decider) {
	const after = (one) => (one.nextAfter > 0 ? `;t=${seconds(one.nextAfter)}` : '');
	const reported = limits.filter((limit) => (result.allowed ? limit === decider : !limit.one.allowed));
	fields.push(['RateLimit-Policy',
		limits.map((x) => `${string(x.name)};q=${integer(x.one.quota)}${width(x)}`).join(', ')]);
	if (reported.length > 0)
		fields.push(['RateLimit',
			reported.map((x) => `${string(x.name)};r=${integer(x.one.remaining)}${after(x.one)}`).join(', ')]);
}

function single(fields, forms, limits, decider, now) {
	const { quota, remaining } = decider.one;
	const reset = Math.max(0, decider.one.resetAfter);
	if (forms.includes('draft7') || forms.includes('draft6'))
		fields.push(['RateLimit-Policy',
			limits.map((x) => `${integer(x.one.quota)}${x.inFlight ? '' : width(x)}`).join(', ')]);
	if (forms.includes('draft7'))
		fields.push(['RateLimit', `limit=${integer(quota)}, remaining=${integer(remaining)}, reset=${seconds(reset)}`]);
	const three = (prefix, at) => fields.push([`${prefix}-Limit`, String(quota)], [`${prefix}-Remaining`,
		String(remaining)],
		[`${prefix}-Reset`, String(at)]);
	if (forms.includes('draft6'))
		three('RateLimit', seconds(reset));
	if (forms.includes('legacy-epoch'))
		three('X-RateLimit', seconds(instantOf(now, reset, decider.turns)));
	if (forms.includes('legacy-delta'))
		three('X-RateLimit', seconds(reset));
}

/** The header fields of a decision, [[name, value]].
 *  forms  formsOf()'s
 *  texts  of the limits, in the order of result.each
 *  now    ms since 1970, for legacy-epoch and windows of the calendar */
function headersOf(result, forms, texts, now) {
	const fields = [];
	const limits = limitsOf(result, texts).map((limit) => (limit.calendar === undefined ? limit
		: { ...limit, window: windowOf(limit.calendar, now) }));
	const decider = deciderOf(result, limits);
	if (limits.length > 0 && forms.includes('draft10'))
		draft10(fields, result, limits, decider);
	if (decider && forms.some((form) => form !== 'draft10'))
		single(fields, forms, limits, decider, now);
	if (!result.allowed && result.retryAfter >= 0)
		fields.push(['Retry-After', String(Math.max(1, seconds(result.retryAfter)))]);
	if (result.failedOpen)
		fields.push(['Sluice-Failed-Open', '1']);
	return fields;
}

function detailOf(result, limits, cost) {
	const {name, one} = deciderOf(result, limits) ?? limits[0] ?? {name : result.limit, one : result};
	const wait = result.retryAfter < 0 ? `it can never be admitted, the quota is ${result.quota}`
		: `retry in ${result.retryAfter} ms`;
	return `limit ${name} has ${one.remaining} left, the request costs ${cost}: ${wait}`;
}

/** The body of a denial, as strangers may read it: nothing of other limits or of keys. */
function problemOf(result, texts, cost) {
	const limits = limitsOf(result, texts);
	const violated = limits.filter(({ one }) => !one.allowed).map(({ name }) => name);
	return { type: TYPE, title: 'Quota Exceeded', status: 429, detail: detailOf(result, limits, cost),
		'violated-policies': violated };
}

/** The body where nothing could decide, and that is a no. */
function undecidedOf() {
	return { type: REDUCED, title: 'Temporary Reduced Capacity', status: 503,
		detail: 'the request could not be decided',
		'violated-policies': [] };
}

module.exports = { formsOf, headersOf, problemOf, undecidedOf };
