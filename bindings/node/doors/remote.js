/* A limiter over HTTP, by any fetch: for runtimes without sockets, and where the HTTP door is the one that is open. Its
 * calls and results are those of the class, as far as the door has them; the door's own headers come along. */
'use strict';

const { newId } = require('../lib/identity.js');

const TOLD = ['ratelimit-policy', 'ratelimit', 'ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset',
	'x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'retry-after', 'sluice-failed-open'];
const TIMEOUT_MS = 100;

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
	/** url: of the HTTP door; token: a user's; timeout: ms that an answer may take (100); fetch: another one. */
	constructor({ url, token, timeout = TIMEOUT_MS, fetch } = {}) {
		this.url = new URL(url);
		this.timeout = timeout;
		this.headers = { 'content-type': 'application/json', ...(token ? { authorization: `Bearer ${token}` } : {}) };
		this.fetch = fetch ?? ((...words) => globalThis.fetch(...words));
		this.inProcess = false;
	}

	async ask(route, body) {
		const patience = patienceOf(this.timeout);
		let response, answer;
		try {
			response = await this.fetch(new URL(route, this.url), { method: 'POST', headers: this.headers,
				body: JSON.stringify(body), signal: patience.signal });
			answer = await response.json();
		} catch (error) {
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

	async decided(route, body) {
		const { answer, headers } = await this.ask(route, body);
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

	/** Without an id it is given one, so that a lease whose answer comes too late is given back. */
	async acquire(key, limits, options = {}) {
		const id = options.id ?? newId();
		try {
			return await this.decided('/v1/acquire', this.#keyed(key, limits, { ...options, id }));
		} catch (error) {
			if (options.id === undefined && error.cause) /* no answer */
				this.release(key, limits, id).catch(() => {});
			throw error;
		}
	}

	async release(key, limits, id) {
		const of = limits === null ? { id } : { ...this.#keyed(key, limits), id };
		return (await this.ask('/v1/release', of)).answer.released;
	}

	async admit(attributes, { cost, id, member, upto, next } = {}) {
		const told = Object.fromEntries(Object.entries(attributes).filter(([,
			value]) => value !== undefined && value !== null));
		const result = await this.decided('/v1/admit', { attributes: told, cost, id, member, upto, next });
		if (result.id !== null)
			result.release = () => this.release('*', null, result.id);
		return result;
	}
}

module.exports = { HttpLimiter };
