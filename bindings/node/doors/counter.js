/* What stores of other libraries are made of: counts of a key under "so many in so many ms", over a Limiter.
 *
 * Those libraries count denied requests, and take the limit from the count. Sluice does not: a denied request changes
 * nothing. So what is told as the count of a denied one is what it would have been.
 *
 *   main   `ALGORITHM max/Wms`, of the key. Its quota is no part of its identity, so the same counter is asked with a
 *          larger one where something is charged whatever the limit says (penalty, a limit that is known later)
 *   held   `sliding-log 4294967295/3660d`, of the key and a mark: units that are reserved for as long as they are to
 *          count, and come back by themselves; a block is all of them. So a block of any length is a counter like
 *          others: shared, and over to the ms */
'use strict';

const { limiterOf, checkedOptions } = require('./admission.js');

const ALGORITHMS = ['sliding-window', 'sliding-log', 'fixed-window'];
const MOST = 4294967295;
const WINDOW_MS_MAX = 3660 * 86400000;
const HELD = `sliding-log ${MOST}/3660d`;
const OPTIONS = ['limiter', 'store', 'timeout', 'algorithm', 'prefix'];

class Counter {
	/** limiter, or store (of a Limiter to be made) and timeout; algorithm: one of ALGORITHMS; prefix: of all keys. */
	constructor(options, more = []) {
		checkedOptions(options, [...OPTIONS, ...more]);
		const { algorithm = 'sliding-window', prefix = '' } = options;
		if (!ALGORITHMS.includes(algorithm))
			throw new TypeError(`algorithm is one of ${ALGORITHMS.join(', ')}; got '${algorithm}'`);
		this.limiter = limiterOf(options);
		this.owned = options.limiter === undefined;
		this.algorithm = algorithm;
		this.prefix = prefix;
	}

	text(max, windowMs) {
		if (!(windowMs >= 1 && windowMs <= WINDOW_MS_MAX))
			throw new RangeError(`a window is 1 ms to 3660 days; got ${windowMs} ms`);
		return `${this.algorithm} ${Math.max(0, Math.min(MOST, Math.trunc(max)))}/${Math.trunc(windowMs)}ms`;
	}

	/** Charges if the limit admits. Returns {allowed, used, wait, reset}: what is used, of a denied one what would be;
	 * ms until more is free (denied: until the same is admitted); ms until all is. */
	async hit(key, max, windowMs, cost = 1) {
		return this.told(await this.limiter.check(this.prefix + key, this.text(max, windowMs), { cost, next: true }),
			cost);
	}

	/** The ms until so much is admitted: 0 now, -1 never. Charges nothing. */
	async waitOf(key, max, windowMs, cost) {
		return (await this.limiter.peek(this.prefix + key, this.text(max, windowMs), { cost })).retryAfter;
	}

	/** What is used, charging nothing. */
	async look(key, windowMs) {
		return this.told(await this.limiter.peek(this.prefix + key, this.text(MOST, windowMs), { cost: 0,
			next: true }), 0);
	}

	/** Charges whatever the limit says. */
	async force(key, windowMs, cost = 1) {
		return this.hit(key, MOST, windowMs, cost);
	}

	async giveBack(key, max, windowMs, cost = 1) {
		return this.told(await this.limiter.refund(this.prefix + key, this.text(max, windowMs), cost, { next: true }),
			0);
	}

	/** Forgets the count, and what is held. Was there anything? */
	async forget(key, windowMs) {
		const gone = await Promise.all([this.limiter.reset(this.prefix + key, this.text(MOST, windowMs)),
			this.limiter.reset(this.marked(key), HELD)]);
		return gone.some((count) => count > 0);
	}

	told(result, cost) {
		const used = result.quota - result.remaining;
		return { allowed: result.allowed, used: result.allowed ? used : used + cost, left: result.remaining,
			wait: result.allowed ? result.nextAfter ?? 0 : result.retryAfter, reset: result.resetAfter,
				error: result.error };
	}

	/** So many units count for `ms` from now, in place of what was held. Ends by itself. */
	async hold(key, units, ms) {
		const marked = this.marked(key);
		const ttl = Math.max(1, Math.min(WINDOW_MS_MAX, Math.ceil(ms)));
		/* both are on their way before this call returns: what is asked next is decided after them */
		await Promise.all([this.limiter.reset(marked, HELD), this.limiter.reserve(marked, HELD, { cost: units, ttl })]);
	}

	/** Nothing is admitted for `ms` from now. */
	async block(key, ms) {
		await this.hold(key, MOST, ms);
	}

	/** {units, blocked, reset}: how many are held; for how many ms all are, 0 where not all are; until none is. */
	async held(key) {
		const result = await this.limiter.peek(this.marked(key), HELD);
		return { units: result.allowed ? MOST - result.remaining : 0, blocked: result.allowed ? 0 : result.retryAfter,
			reset: result.resetAfter };
	}

	marked(key) {
		return `${this.prefix}${key}\u0000held`;
	}

	async close() {
		if (this.owned)
			await this.limiter.close();
	}
}

module.exports = { Counter, MOST, WINDOW_MS_MAX };
