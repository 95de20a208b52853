/* sluice/client: a fetch that is a good client of any limited API.
 *
 *   const { createFetch } = require('sluice/client');
 *   const polite = createFetch();
 *   const answer = await polite('https://api.example.com/things');
 *
 * It reads what servers say of their limits (advice.js), waits as long as they say and a jitter more, spends what is
 * left at the rate at which it comes back, and gives up within a budget. All requests of one origin share what was
 * learned (origin.js), in one line by age: after a denial one request knocks, not a hundred. What isn't idempotent is
 * sent once. Nothing here needs the native part, or Node: it is plain JavaScript over whatever fetch there is.
 *
 * What a caller sees
 *   - an answer that nothing can improve is returned as it came, a 429 too, if waiting goes beyond the budget;
 *   - RateLimitedError, if the request was never sent, since the origin's wait is known to be longer than the budget;
 *   - TimeoutError (a DOMException), if the budget ended while a request was under way;
 *   - what fetch throws, and the signal's reason if it is aborted. */
'use strict';

const { advise } = require('./advice.js');
const { Gate, RateLimitedError } = require('./gate.js');
const { Origin, backoff } = require('./origin.js');

const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE']);
const TRANSIENT = new Set([502, 503, 504]);
const ORIGINS_MAX = 1024;

const systemClock = {
	now: () => Date.now(),
	/** Calls back after `ms`; returns what cancels it. */
	after(ms, callback) {
		const timer = setTimeout(callback, Math.min(ms, 0x7fffffff));
		return () => clearTimeout(timer);
	},
};

const DEFAULTS = {
	budgetMs: 60000, attempts: 5, idempotent: undefined, pace: true, fetch: undefined, clock: systemClock,
	random: Math.random, group: (url) => url.origin, onWait: undefined,
};

function checked(options) {
	for (const name of Object.keys(options)) {
		if (!(name in DEFAULTS))
			throw new TypeError(`no option '${name}'; there are ${Object.keys(DEFAULTS).join(', ')}`);
	}
	const all = { ...DEFAULTS, ...options };
	if (!(all.budgetMs >= 0))
		throw new TypeError(`budgetMs is milliseconds, or Infinity; got ${all.budgetMs}`);
	if (!(all.attempts >= 1))
		throw new TypeError(`attempts is at least 1; got ${all.attempts}`);
	return all;
}

/** May this request be sent again? By its method, or an Idempotency-Key (a null or empty one is none), unless the
 * caller says; and only if its body is still there, which a stream's isn't. */
function isRepeatable(method, headers, body, idempotent) {
	const once = body !== null && typeof body === 'object' && (typeof body.getReader === 'function' ||
		typeof body[Symbol.asyncIterator] === 'function' && typeof body.arrayBuffer !== 'function');
	if (once)
		return false;
	return idempotent ?? (IDEMPOTENT.has(method) || Boolean(headers.get('idempotency-key')));
}

/** A promise that ends after `ms`, or with the signal's reason. */
function sleep(clock, ms, signal) {
	return new Promise((resolve, reject) => {
		const aborted = () => {
			cancel();
			reject(signal.reason);
		};
		const cancel = clock.after(ms, () => {
			signal?.removeEventListener('abort', aborted);
			resolve();
		});
		signal?.addEventListener('abort', aborted, { once: true });
	});
}

/** One signal of the caller's and of our deadline. settled() takes the deadline back; the caller's goes on being heard,
 * for the body that is still to come. */
function deadlineSignal(clock, ms, signal) {
	const ours = new AbortController();
	const cancel = ms === Infinity ? () => {} : clock.after(ms, () =>
		ours.abort(new DOMException('the budget of this request has ended', 'TimeoutError')));
	if (!signal)
		return { signal: ours.signal, settled: cancel };
	if (AbortSignal.any)
		return { signal: AbortSignal.any([signal, ours.signal]), settled: cancel };
	if (signal.aborted)
		ours.abort(signal.reason);
	signal.addEventListener('abort', () => ours.abort(signal.reason), { once: true });
	return { signal: ours.signal, settled: cancel };
}

class Client {
	constructor(options) {
		this.options = checked(options);
		this.gates = new Map();
	}

	/** The gate of an origin: made on first use; of more than ORIGINS_MAX the one that was used longest ago and is idle
	 * goes. */
	gate(group) {
		let gate = this.gates.get(group);
		if (!gate) {
			const { random, clock, pace } = this.options;
			gate = new Gate(group, new Origin({ random, paceBelow: pace ? undefined : 0 }), clock);
			if (this.gates.size >= ORIGINS_MAX)
				this.forgetOne();
		}
		this.gates.delete(group);
		this.gates.set(group, gate);
		return gate;
	}

	forgetOne() {
		for (const [group, gate] of this.gates) {
			if (gate.isIdle()) {
				this.gates.delete(group);
				return;
			}
		}
	}

	async fetch(input, init = {}) {
		const { idempotent, budgetMs, attempts, ...rest } = init;
		const options = checked({ ...this.options, ...defined({ idempotent, budgetMs, attempts }) });
		const request = input instanceof Request ? input : null;
		const url = new URL(request ? request.url : input, globalThis.location?.href);
		const method = (rest.method ?? request?.method ?? 'GET').toUpperCase();
		const headers = new Headers(rest.headers ?? request?.headers);
		const body = rest.body ?? null;
		const call = {
			options, gate: this.gate(options.group(url, method)), signal: rest.signal ?? request?.signal ?? null,
			repeatable: isRepeatable(method, headers, body, options.idempotent),
			started: options.clock.now(), attempt: 0,
			send: (signal, last) => (options.fetch ?? globalThis.fetch)(request && !last ? request.clone() : input,
				{ ...rest, signal }),
		};
		call.deadline = call.started + options.budgetMs;
		return run(call);
	}
}

function defined(options) {
	return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

/** Sends until an answer stands, or nothing more may be tried: then what came of the attempt before stands. So its
 * answer is kept while the next one waits; a short body is read meanwhile, and leaves its connection to others. */
async function run(call) {
	const { options, gate, signal } = call;
	for (let before = null;;) {
		call.attempt++;
		call.last = !call.repeatable || call.attempt >= options.attempts;
		let ticket;
		try {
			if (before?.waitMs > 0)
				await sleep(options.clock, before.waitMs, signal);
			ticket = await gate.enter(call.started, call.deadline, signal, options.onWait);
		} catch (error) {
			return given(before, error);
		}
		drop(before);
		before = await attempt(call, ticket);
		if (before.done)
			return before.response;
	}
}

/** What a call gets that can't go on: of one that was sent, what it had; not that it was never sent. */
function given(before, error) {
	if (before === null || !(error instanceof RateLimitedError)) {
		drop(before);
		throw error;
	}
	if (before.response)
		return before.response;
	throw before.error;
}

/** Nobody reads this answer; its connection may have gone. */
function drop(attempted) {
	attempted?.response?.body?.cancel().catch(() => {});
}

/** One request. Returns {done, response}, or {waitMs, response or error}: to be tried again after that. */
async function attempt(call, ticket) {
	const { options, gate } = call;
	const now = () => options.clock.now();
	const both = deadlineSignal(options.clock, call.deadline - now(), call.signal);
	let response;
	try {
		response = await call.send(both.signal, call.last);
	} catch (error) {
		gate.failed(ticket);
		const waitMs = backoffOf(call);
		if (call.last || both.signal.aborted || now() + waitMs >= call.deadline)
			throw error;
		return { waitMs, error };
	} finally {
		both.settled();
	}
	const advice = advise(response.status, (name) => response.headers.get(name), now());
	gate.answered(ticket, advice);
	const transient = !advice.limited && TRANSIENT.has(response.status);
	if (call.last || !(advice.limited || transient))
		return { done: true, response };
	const waitMs = transient ? Math.max(advice.waitMs ?? 0, backoffOf(call)) : 0;
	if ((gate.readyAt() ?? now()) > call.deadline || now() + waitMs >= call.deadline)
		return { done: true, response };
	return { waitMs, response };
}

/** Full jitter over a wait that doubles: these failures are nobody's limit, so there is no instant to keep. */
function backoffOf(call) {
	return Math.ceil(call.options.random() * backoff(call.attempt));
}

/** A fetch with a memory. The options stand in index.d.ts, each can be given to a single call beside fetch's own:
 * budgetMs, attempts, idempotent. */
function createFetch(options = {}) {
	const client = new Client(options);
	return (input, init) => client.fetch(input, init);
}

module.exports = { createFetch, advise, RateLimitedError };
