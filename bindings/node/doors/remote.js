/* A limiter over HTTP, by any fetch: for runtimes without sockets, and where the HTTP door is the one that is open. Its
 * calls and results are those of the class, as far as the door has them; the door's own headers come along. */
'use strict';

const { newId } = require('../lib/identity.js');

const TOLD = ['ratelimit-policy', 'ratelimit', 'ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset',
	'x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'retry-after', 'sluice-failed-open'];
const TIMEOUT_MS = 100;
const LATE_MS = 30000; /* as long an answer is waited for of which something may have to be given back, */
const LATE_MAX = 256;  /* and so many of them */

class HttpError extends Error {
	constructor(code, message, options) {
		super(message, options);
		this.name = 'SluiceError';
		this.code = code;
	}
}

/** Calls back once sockets were read, where the runtime has a word for that. */
const later = globalThis.setImmediate ?? ((call) => setTimeout(call, 0));

/** A signal that aborts after `ms`, unless end() was called. Work of the application that keeps the loop busy is not
 * the server's time: it begins when the loop has come round, and ends when what came by then was read. */
function patienceOf(ms) {
	const controller = new AbortController();
	let timer, ended = false;
	const abort = () => ended || controller.abort(new DOMException(`no answer within ${ms} ms`, 'TimeoutError'));
	later(() => {
		if (!ended)
			timer = setTimeout(() => later(abort), ms);
	});
	return { signal: controller.signal, end() {
		ended = true;
		clearTimeout(timer);
	} };
}

function abortOf(signal) {
	return new Promise((resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
}

/** What the door says, as the class does. An answer does not say the place of the limit that decided, and several may
 * have its name: it is the one that has the figures of the whole.
 *  cost  what is granted where it is allowed and the door does not say */
function resultOf(body, headers, cost) {
	const granted = body.granted ?? (body.allowed ? cost : 0);
	const one = (x) => ({ allowed: x.allowed, quota: x.quota, remaining: x.remaining, retryAfter: x.retry_after_ms,
		resetAfter: x.reset_after_ms, delay: x.delay_ms, nextAfter: x.next_after_ms, granted });
	const each = (body.limits ?? []).map((x, index) => ({ ...one(x), limit: x.name, rule: x.limit, index,
		observed: x.observed }));
	const decided = (x) => !x.observed && x.limit === body.limit && x.allowed === body.allowed &&
		(x.allowed ? x.remaining === body.remaining : x.retryAfter === body.retry_after_ms);
	return { ...one(body), limit: body.limit, index: each.findIndex(decided), each, repeated: body.repeated ?? false,
		id: body.id ?? null, failedOpen: body.failed_open ?? false,
		headers: TOLD.filter((name) => headers.has(name)).map((name) => [name, headers.get(name)]) };
}

const element = (limit) => (Array.isArray(limit) ? { key: limit[0], limit: limit[1] } : limit);

class HttpLimiter {
	#late = 0;

	/** url: of the HTTP door; token: a user's; timeout: ms that an answer may take (100); fetch: another one. */
	constructor({ url, token, timeout = TIMEOUT_MS, fetch } = {}) {
		this.url = new URL(url);
		this.timeout = timeout;
		this.headers = { 'content-type': 'application/json', ...(token ? { authorization: `Bearer ${token}` } : {}) };
		this.fetch = fetch ?? ((...words) => globalThis.fetch(...words));
		this.inProcess = false;
	}

	async #call(route, body, signal) {
		const response = await this.fetch(new URL(route, this.url), { method: 'POST', headers: this.headers,
			body: JSON.stringify(body), signal });
		return { response, answer: await response.json() };
	}

	/** late: called with an answer that comes when nobody waits for it any more, or with null if none comes. Without
	 * it, or where LATE_MAX are waited for already, a request is aborted when its time is over; but the server may have
	 * it, and do it. */
	async ask(route, body, late) {
		const patience = patienceOf(this.timeout), follows = late !== undefined && this.#late < LATE_MAX;
		const longer = new AbortController();
		const call = this.#call(route, body, follows ? longer.signal : patience.signal);
		let response, answer;
		try {
			({ response, answer } = await (follows ? Promise.race([call, abortOf(patience.signal)]) : call));
		} catch (error) {
			if (follows)
				this.#follow(call, longer, late);
			else
				late?.(null);
			throw new HttpError('away', `${this.url.origin} does not answer: ${error.message}`, { cause: error });
		} finally {
			patience.end();
		}
		if (response.status === 200 || (response.status === 429 && 'allowed' in answer))
			return { answer, headers: response.headers };
		const codes = { 400: 'bad-argument', 401: 'no-access', 403: 'no-access', 404: 'not-found',
			413: 'bad-argument' };
		throw new HttpError(codes[response.status] ?? 'away', answer.detail ?? `status ${response.status}`);
	}

	async #follow(call, longer, late) {
		this.#late++;
		const timer = setTimeout(() => longer.abort(), LATE_MS);
		const answered = await call.catch(() => null);
		clearTimeout(timer);
		this.#late--;
		late(answered?.answer ?? null);
	}

	async decided(route, body, late) {
		const { answer, headers } = await this.ask(route, body, late);
		return resultOf(answer, headers, route === '/v1/refund' ? 0 : body.cost ?? 1);
	}

	#keyed(key, limits, { cost, id, member, upto, next } = {}) {
		return { key, limits: Array.isArray(limits) ? limits.map(element) : [limits], cost, id, member, upto, next };
	}

	check(key, limits, options) {
		return this.decided('/v1/check', this.#keyed(key, limits, options));
	}

	peek(key, limits, options) {
		return this.decided('/v1/check', { ...this.#keyed(key, limits, options), peek: true });
	}

	refund(key, limits, cost = 1, options = undefined) {
		return this.decided('/v1/refund', this.#keyed(key, limits, { ...options, cost }));
	}

	async reset(key, limits) {
		return (await this.ask('/v1/reset', this.#keyed(key, limits))).answer.reset;
	}

	/** Without an id it is given one, so that a lease whose answer comes too late, or never, is given back. */
	acquire(key, limits, options = {}) {
		const id = options.id ?? newId();
		const late = options.id !== undefined ? undefined
			: (answer) => answer?.allowed !== false && this.release(key, limits, id).catch(() => {});
		return this.decided('/v1/acquire', this.#keyed(key, limits, { ...options, id }), late);
	}

	/** The server is to have it, even if it takes long to say so. */
	async release(key, limits, id) {
		const of = limits === null ? { id } : { ...this.#keyed(key, limits), id };
		return (await this.ask('/v1/release', of, () => {})).answer.released;
	}

	async admit(attributes, { cost, id, member, upto, next } = {}) {
		const told = Object.fromEntries(Object.entries(attributes).filter(([,
			value]) => value !== undefined && value !== null));
		const late = (answer) => answer?.id && this.release('*', null, answer.id).catch(() => {});
		const result = await this.decided('/v1/admit', { attributes: told, cost, id, member, upto, next }, late);
		if (result.id !== null)
			result.release = () => this.release('*', null, result.id);
		return result;
	}
}

module.exports = { HttpLimiter };
