/* sluice/nest: a ThrottlerStorage for @nestjs/throttler.
 *
 *   ThrottlerModule.forRoot({ throttlers: [{ ttl: 60000, limit: 100 }],
 *     storage: new SluiceStorage({ store: 'shared:api' }) }) */
'use strict';

const { Counter } = require('../doors/counter.js');

const seconds = (ms) => Math.max(0, Math.ceil(ms / 1000));

class SluiceStorage {
	/** limiter or store, timeout, algorithm ('sliding-window'), prefix: as Counter has them. */
	constructor(options) {
		this.counter = new Counter({ prefix: 'nest:', ...options });
	}

	/** Counts a request, of a key and a throttler's name. A denied one is blocked for `blockDuration` ms, if that is
	 * more than the limit itself asks for. Times are told in whole seconds, as @nestjs/throttler has them. */
	async increment(key, ttl, limit, blockDuration, throttlerName) {
		const whole = `${throttlerName}:${key}`;
		const blocks = blockDuration > 0 && blockDuration !== ttl;
		const until = blocks ? (await this.counter.held(whole)).blocked : 0;
		if (until > 0)
			return { totalHits: limit + 1, timeToExpire: seconds(until), isBlocked: true,
				timeToBlockExpire: seconds(until) };
		const hit = await this.counter.hit(whole, limit, ttl);
		if (hit.error)
			return { totalHits: hit.allowed ? 1 : limit + 1, timeToExpire: seconds(ttl), isBlocked: !hit.allowed,
				timeToBlockExpire: hit.allowed ? 0 : 1 };
		if (hit.allowed)
			return { totalHits: hit.used, timeToExpire: seconds(hit.reset), isBlocked: false, timeToBlockExpire: 0 };
		let wait = hit.wait < 0 ? ttl : hit.wait;
		if (blocks && blockDuration > wait) {
			await this.counter.block(whole, blockDuration);
			wait = blockDuration;
		}
		return { totalHits: limit + 1, timeToExpire: seconds(Math.max(wait, hit.reset)), isBlocked: true,
			timeToBlockExpire: Math.max(1, seconds(wait)) };
	}

	/** Called by Nest. */
	async onApplicationShutdown() {
		await this.counter.close();
	}
}

module.exports = { SluiceStorage };
