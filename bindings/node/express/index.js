/* sluice/express: a middleware, and a Store for express-rate-limit.
 *
 *   app.use(sluice({ store: 'shared:api', limits: '100/1m' }));
 *   app.use(rateLimit({ windowMs: 60000, limit: 100, store: new SluiceStore({ store: 'shared:api' }) }));
 *
 * Works with Express 4 and 5, Connect and plain node:http; it needs none of them. */
'use strict';

const { Admission } = require('../doors/admission.js');
const { Counter, MOST } = require('../doors/counter.js');
const { instantOf, likelySecondOf } = require('../doors/instant.js');
const { follow } = require('../doors/lifetime.js');
const { viewOfNode } = require('../doors/request.js');

const viewOf = (request) => viewOfNode(request, request.originalUrl ?? request.url, request);

function deny(request, response, verdict) {
	response.statusCode = verdict.status;
	response.setHeader('Content-Type', 'application/problem+json');
	response.setHeader('Cache-Control', 'no-store');
	response.end(JSON.stringify(verdict.body));
}

/** A middleware: (req, res, next). What the options are stands in index.d.ts. */
function sluice(options) {
	const admission = new Admission(options);
	return async function sluiceMiddleware(request, response, next) {
		let verdict;
		try {
			verdict = await admission.decide(viewOf(request));
			request.sluice = verdict.result;
			if (response.headersSent) { /* somebody has answered while it was decided */
				verdict.release();
				return;
			}
			for (const [name, value] of verdict.headers)
				response.setHeader(name, value);
			if (!verdict.allowed) {
				await (options.onDenied ?? deny)(request, response, verdict, next);
				return;
			}
		} catch (error) {
			verdict?.release();
			next(error);
			return;
		}
		const isOver = follow(request, response, verdict);
		const serve = () => isOver() || response.headersSent || next();
		if (verdict.delay > 0)
			setTimeout(serve, verdict.delay);
		else
			serve();
	};
}

/** A Store of express-rate-limit, over a Limiter: of the middleware's own windowMs and limit. */
class SluiceStore {
	/** limiter or store, timeout, algorithm ('sliding-window'), prefix: as Counter has them. Stores of one prefix,
	 * window and algorithm share their counts. */
	constructor(options) {
		this.counter = new Counter({ prefix: 'erl:', ...options });
		this.prefix = this.counter.prefix;
		this.localKeys = false;
		this.windowMs = 60000;
		this.max = MOST;
		this.counts = true;
	}

	/** Called by express-rate-limit. Where the limit is a function it is known for each request only, and where denied
	 * requests are taken back by skipFailedRequests they have to be charged first: then all are counted, as in its own
	 * store. */
	init(options) {
		this.windowMs = options.windowMs;
		this.max = typeof options.limit === 'number' ? options.limit : MOST;
		this.counts = this.max === MOST || Boolean(options.skipFailedRequests);
	}

	async increment(key) {
		const { counter, windowMs, max } = this, asked = Date.now();
		const hit = await (this.counts ? counter.force(key, windowMs) : counter.hit(key, max, windowMs));
		if (hit.error)
			return { totalHits: hit.allowed ? 1 : max + 1, resetTime: undefined };
		const over = this.counts && hit.used > max;
		return { totalHits: Math.max(1, hit.used), resetTime: this.at(over ? hit.wait : this.soonest(hit), asked) };
	}

	/** The wait after which one more is let in: until one unit is free. How many have to be, where the limit is not
	 * known here, nobody can say: until all are. */
	soonest(hit) {
		if (this.max === MOST)
			return hit.reset;
		return hit.allowed ? hit.wait || hit.reset : hit.wait;
	}

	/** When a wait ends that was asked for at `asked`. A log's ends are anywhere. */
	at(ms, asked) {
		const now = Date.now(), { algorithm } = this.counter;
		if (ms < 0)
			return undefined;
		return new Date(algorithm === 'fixed-window' ? instantOf(now, ms, Math.trunc(this.windowMs))
			: algorithm === 'sliding-window' ? likelySecondOf(asked, now, ms) : now + ms);
	}

	async get(key) {
		const asked = Date.now();
		const seen = await this.counter.look(key, this.windowMs);
		return seen.used === 0 ? undefined
			: { totalHits: seen.used, resetTime: this.at(this.soonest(seen), asked) };
	}

	async decrement(key) {
		await this.counter.giveBack(key, this.max, this.windowMs);
	}

	async resetKey(key) {
		await this.counter.forget(key, this.windowMs);
	}

	async shutdown() {
		await this.counter.close();
	}
}

module.exports = { sluice, SluiceStore };
