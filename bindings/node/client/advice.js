/* What a response says of its server's limits, whichever way it says it: one plain object from status and headers.
 *
 *   Retry-After                                  seconds, or a date by the response's own Date
 *   RateLimit, RateLimit-Policy                  drafts 10 to 8 (lists of named items) and 7 (a dictionary), by content
 *   RateLimit-Limit, -Remaining, -Reset          drafts 6 and older; the reset is seconds
 *   X-RateLimit-*, X-Rate-Limit-*                by custom; the reset is seconds, or an instant since 1970 in s or ms
 *
 * A reset above EPOCH_S_MIN is an instant: no server tells a wait of 31 years, and those that put an instant into
 * RateLimit-Reset (which should be a delta) are understood as well. An instant is compared with the response's Date,
 * if it has a valid one, so a client whose clock is wrong waits what the server meant. What is malformed is ignored. A
 * stored response (Age above 0) speaks of the past: only its Retry-After counts. The same in Python: advice.py. */
'use strict';

const { parseList, parseDictionary } = require('./fields.js');

const EPOCH_S_MIN = 1e9;
const EPOCH_MS_MIN = 1e11;
const SECONDS_MAX = 1e12; /* more is told by nobody who means it: "never" */

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const FORMS = [
	/^[A-Z][a-z]{2}, (?<d>\d\d) (?<m>[A-Z][a-z]{2}) (?<y>\d{4}) (?<t>\d\d:\d\d:\d\d) GMT$/,
	/^[A-Z][a-z]{5,8}, (?<d>\d\d)-(?<m>[A-Z][a-z]{2})-(?<y>\d\d) (?<t>\d\d:\d\d:\d\d) GMT$/,
	/^[A-Z][a-z]{2} (?<m>[A-Z][a-z]{2}) (?<d>[ \d]\d) (?<t>\d\d:\d\d:\d\d) (?<y>\d{4})$/,
];

/** An HTTP date (RFC 9110 5.6.7, all three forms) in ms since 1970, or null. Two digits of a year are of the hundred
 * years around `now`. */
function parseDate(text, now) {
	const found = FORMS.map((form) => form.exec(text)).find(Boolean);
	if (!found)
		return null;
	const month = MONTHS.indexOf(found.groups.m);
	const [hour, minute, second] = found.groups.t.split(':').map(Number);
	const day = Number(found.groups.d);
	let year = Number(found.groups.y);
	if (found.groups.y.length === 2) {
		const thisYear = new Date(now).getUTCFullYear();
		year += thisYear - thisYear % 100;
		if (year > thisYear + 50)
			year -= 100;
	}
	if (month < 0 || hour > 23 || minute > 59 || second > 60 || year < 1970)
		return null;
	const at = Date.UTC(year, month, day, hour, minute, second);
	return new Date(Date.UTC(year, month, day)).getUTCDate() === day ? at : null;
}

/** Whole or decimal seconds as ms, rounded up; null where it is no such number. */
function secondsMs(text) {
	if (!/^\d{1,18}(?:\.\d{1,9})?$/.test(text))
		return null;
	const seconds = Number(text);
	return seconds > SECONDS_MAX ? Infinity : Math.ceil(Math.round(seconds * 1e6) / 1e3);
}

function retryAfter(get, now, serverNow) {
	const text = (get('retry-after') ?? '').trim();
	const wait = secondsMs(text);
	if (wait !== null)
		return wait;
	const at = parseDate(text, now);
	return at === null ? null : Math.max(0, at - serverNow);
}

function resetMs(seconds, serverNow) {
	if (seconds === null || seconds < EPOCH_S_MIN)
		return seconds === null ? null : Math.ceil(Math.round(seconds * 1e6) / 1e3);
	if (seconds > SECONDS_MAX * 10)
		return Infinity;
	const at = seconds > EPOCH_MS_MIN ? seconds : seconds * 1000;
	return Math.max(0, Math.ceil(at - serverNow));
}

const whole = (item) => (item && item.kind === 'integer' && item.value >= 0 ? item.value : null);

/** The named policies of draft 8 and later: a Map of {quota, windowMs} by name; empty where there are none. */
function policies(get) {
	const told = new Map();
	for (const item of parseList(get('ratelimit-policy')) ?? []) {
		const quota = whole(item.parameters.get('q'));
		const window = whole(item.parameters.get('w'));
		if ((item.kind === 'string' || item.kind === 'token') && quota !== null)
			told.set(item.value, { quota, windowMs: window === null ? null : window * 1000 });
	}
	return told;
}

/** Of several limits the one that a client has to heed: of those with nothing left the longest wait, else the least
 * that is left a second. */
function tightest(limits) {
	const pace = (limit) => limit.remaining / Math.max(1, limit.resetMs ?? 1);
	return limits.reduce((a, b) => {
		if (a.remaining === 0 || b.remaining === 0)
			return a.remaining || (b.remaining === 0 && (b.resetMs ?? 0) > (a.resetMs ?? 0)) ? b : a;
		return pace(b) < pace(a) ? b : a;
	});
}

/** Drafts 8 to 10: `"default";r=50;t=30`; a name may be a token as well. Null where any member is malformed. */
function byList(get) {
	const items = parseList(get('ratelimit'));
	if (!items)
		return null;
	const named = policies(get);
	const limits = [];
	for (const item of items) {
		const remaining = whole(item.parameters.get('r'));
		const wait = item.parameters.has('t') ? whole(item.parameters.get('t')) : undefined;
		if ((item.kind !== 'string' && item.kind !== 'token') || remaining === null || wait === null)
			return null;
		limits.push({ remaining, resetMs: wait === undefined ? null : wait * 1000, quota: null, windowMs: null,
			...named.get(item.value) });
	}
	return tightest(limits);
}

/** Draft 7: `limit=100, remaining=50, reset=5`. */
function byDictionary(get, serverNow) {
	const items = parseDictionary(get('ratelimit'));
	if (!items)
		return null;
	const remaining = whole(items.get('remaining'));
	if (remaining === null)
		return null;
	return { remaining, resetMs: resetMs(whole(items.get('reset')), serverNow), quota: whole(items.get('limit')),
		windowMs: null };
}

/** The numbers with which the members of a field begin: `10, 10;w=1;name="x"` is [10, 10]. Null if one has none. */
function numbers(text) {
	if (typeof text !== 'string' || text.length > 1024)
		return null;
	const found = text.split(',').map((part) => /^[ \t]*(\d{1,15}(?:\.\d{1,9})?)[ \t]*(?:;.*)?$/.exec(part));
	return found.every(Boolean) ? found.map((match) => Number(match[1])) : null;
}

/** Three fields, whose names begin alike. Several lines are of several limiters: what is least left, what lasts
 * longest. */
function byThree(get, prefix, serverNow) {
	const remaining = numbers(get(prefix + '-remaining'));
	if (!remaining)
		return null;
	const reset = numbers(get(prefix + '-reset'));
	const limit = numbers(get(prefix + '-limit'));
	return { remaining: Math.floor(Math.min(...remaining)), quota: limit ? limit[0] : null, windowMs: null,
		resetMs: reset ? Math.max(...reset.map((seconds) => resetMs(seconds, serverNow))) : null };
}

function limitOf(get, serverNow) {
	const age = (get('age') ?? '').trim();
	if (/^\d+$/.test(age) && Number(age) > 0)
		return null;
	return byList(get) ?? byDictionary(get, serverNow) ?? byThree(get, 'ratelimit', serverNow) ??
		byThree(get, 'x-ratelimit', serverNow) ?? byThree(get, 'x-rate-limit', serverNow);
}

/** Is this the answer of somebody who limits us? 429 always, 420 of old; 503 where it says when to come back; 403 as
 * GitHub has it: with Retry-After, or with nothing left. */
function isLimited(status, waitMs, limit) {
	if (status === 429 || status === 420)
		return true;
	return (status === 503 && waitMs !== null) || (status === 403 && (waitMs !== null || limit?.remaining === 0));
}

/** What a response says.
 *  status   its status
 *  get      a function from a field's name in lower case to its value (lines joined by commas), or null
 *  now      ms since 1970, for dates, where the response has no Date of its own
 * Returns {limited, waitMs, remaining, resetMs, quota, windowMs}: whether the request was refused for a limit; how
 * long to wait before the next one (null: not said); what is left, until more is (ms), of how much, in which window
 * (null each: not said). */
function advise(status, get, now) {
	const serverNow = parseDate((get('date') ?? '').trim(), now) ?? now;
	const told = retryAfter(get, now, serverNow);
	const limit = limitOf(get, serverNow);
	const limited = isLimited(status, told, limit);
	const spent = limit?.remaining === 0 ? limit.resetMs : null;
	const waitMs = (status >= 400 ? told : null) ?? spent;
	return { limited, waitMs, remaining: limit?.remaining ?? null,
		resetMs: limit?.resetMs ?? null, quota: limit?.quota ?? null, windowMs: limit?.windowMs ?? null };
}

module.exports = { advise, parseDate };
