/* sluice/flexible: the surface of rate-limiter-flexible, over Sluice's counters.
 *
 *   const limiter = new RateLimiterSluice({ store: 'shared:api', points: 10, duration: 1 });
 *   try { await limiter.consume(ip); } catch (res) { ... res.msBeforeNext ... }
 *
 * What is other than there, on purpose:
 *   - windows slide, and are counted by `algorithm`, instead of beginning with a key's first request;
 *   - a denied consume() charges nothing, so who keeps knocking isn't locked out by it. consumedPoints of a denial is
 *   what
 *     it would have been; `blockDuration` blocks;
 *   - msBeforeNext of a denial is the wait after which the same points are admitted, of all else the wait until the
 *     whole quota is back;
 *   - block() and set() with a time of their own hold until that time, to the millisecond.
 *   - a denial that no wait ends (more points than there are) tells the duration, as there.
 * Points are 0 to 4294967295; a duration of 0 is 3,660 days. For its wrappers (BurstyRateLimiter, RateLimiterQueue),
 * which ask whose class an answer has, give them theirs: `RateLimiterRes:
 * require('rate-limiter-flexible').RateLimiterRes`. */
'use strict';

const { Counter, WINDOW_MS_MAX } = require('../doors/counter.js');

/** A wait beyond it is one without end: -1, as there. */
const FOREVER_MS = WINDOW_MS_MAX - 10 * 86400000;

class RateLimiterRes {
	constructor(remainingPoints = 0, msBeforeNext = 0, consumedPoints = 0, isFirstInDuration = false) {
		this.remainingPoints = remainingPoints;
		this.msBeforeNext = msBeforeNext;
		this.consumedPoints = consumedPoints;
		this.isFirstInDuration = isFirstInDuration;
	}

	toJSON() {
		return { ...this };
	}

	toString() {
		return JSON.stringify(this);
	}
}

const told = (ms) => (ms >= FOREVER_MS ? -1 : ms);

const least = (value, from, name) => {
	if (!(Number.isFinite(value) && value >= from))
		throw new Error(`${name} is a number from ${from}; got ${value}`);
	return value;
};

class RateLimiterSluice {
	constructor(options = {}) {
		const { points, duration, blockDuration = 0, keyPrefix = 'rlflx', execEvenly = false, execEvenlyMinDelayMs,
			RateLimiterRes: Res = RateLimiterRes, ...rest } = options;
		this.counter = new Counter(rest);
		this.Res = Res;
		this.points = least(points, 0, 'points');
		this.duration = least(duration, 0, 'duration');
		this.blockDuration = least(blockDuration, 0, 'blockDuration');
		this.keyPrefix = keyPrefix;
		this.execEvenly = execEvenly;
		this.execEvenlyMinDelayMs = execEvenlyMinDelayMs ?? Math.ceil(duration * 1000 / Math.max(1, points));
	}

	getKey(key) {
		return this.keyPrefix.length > 0 ? `${this.keyPrefix}:${key}` : String(key);
	}

	/** 0 s is without end. */
	windowMs(options) {
		const seconds = options?.customDuration >= 0 ? options.customDuration : this.duration;
		return seconds > 0 ? Math.max(1, Math.min(WINDOW_MS_MAX, seconds * 1000)) : WINDOW_MS_MAX;
	}

	/** Charges points; rejects with a RateLimiterRes where the quota has no room for them, with an Error where nobody
	 * could decide. */
	async consume(key, points = 1, options = undefined) {
		const whole = this.getKey(key);
		const windowMs = this.windowMs(options);
		const { units, blocked, reset } = await this.counter.held(whole);
		if (blocked > 0)
			throw new this.Res(0, told(blocked), this.points + 1 + points);
		const hit = await this.counter.hit(whole, Math.max(0, this.points - units), windowMs, points);
		if (hit.error && !hit.allowed)
			throw hit.error;
		const used = hit.used + units;
		if (!hit.allowed) {
			if (this.blockDuration > 0)
				await this.counter.block(whole, this.blockDuration * 1000);
			const wait = units > 0 ? await this.waitBeside(whole, windowMs, points, hit.wait, reset) : hit.wait;
			throw new this.Res(0, this.blockDuration > 0 ? this.blockDuration * 1000
				: told(wait < 0 ? windowMs : wait), used);
		}
		const res = this.res(used, hit.reset, used === points);
		if (this.execEvenly && !res.isFirstInDuration && res.msBeforeNext > 0)
			await this.evenly(res);
		return res;
	}

	/** The wait of points that were denied beside what set() holds: until there is room for both (`wait`, -1: never),
	 * or until nothing is held (`reset`) and there is room for the points alone, whichever comes first. */
	async waitBeside(whole, windowMs, points, wait, reset) {
		const alone = await this.counter.waitOf(whole, this.points, windowMs, points);
		const free = alone < 0 ? Infinity : Math.max(reset, alone);
		const first = Math.min(wait < 0 ? Infinity : wait, free);
		return first === Infinity ? -1 : first;
	}

	async evenly(res) {
		let delay = Math.ceil(res.msBeforeNext / (res.remainingPoints + 2));
		if (delay < this.execEvenlyMinDelayMs)
			delay = res.consumedPoints * this.execEvenlyMinDelayMs;
		res.msBeforeNext = Math.max(0, res.msBeforeNext - delay);
		await new Promise((resolve) => setTimeout(resolve, delay));
	}

	res(used, msBeforeNext, first = false) {
		return new this.Res(Math.max(0, this.points - used), told(msBeforeNext), used, first);
	}

	/** Charges points whatever is left. */
	async penalty(key, points = 1, options = undefined) {
		const hit = await this.counter.force(this.getKey(key), this.windowMs(options), points);
		return this.res(hit.used + (await this.counter.held(this.getKey(key))).units, hit.reset);
	}

	/** Gives points back, at most what was charged. */
	async reward(key, points = 1, options = undefined) {
		const seen = await this.counter.giveBack(this.getKey(key), this.points, this.windowMs(options), points);
		return this.get(key, options).then((res) => res ?? this.res(seen.used, 0));
	}

	/** Denies everything of a key for so many seconds; 0: until it is deleted. */
	async block(key, seconds) {
		await this.counter.block(this.getKey(key), seconds > 0 ? seconds * 1000 : WINDOW_MS_MAX);
		return new this.Res(0, seconds > 0 ? seconds * 1000 : -1, this.points + 1);
	}

	/** So many points are used, for so many seconds; 0: until the key is deleted. */
	async set(key, points, seconds = this.duration) {
		const whole = this.getKey(key);
		const ms = seconds > 0 ? seconds * 1000 : WINDOW_MS_MAX;
		await this.delete(key);
		if (points > 0)
			await this.counter.hold(whole, points, ms);
		return new this.Res(0, seconds > 0 ? ms : -1, points);
	}

	/** What is used; null where nothing is. */
	async get(key, options = undefined) {
		const whole = this.getKey(key);
		const [{ units, blocked, reset }, seen] = await Promise.all([this.counter.held(whole),
			this.counter.look(whole, this.windowMs(options))]);
		if (blocked > 0)
			return this.res(this.points + 1, blocked);
		return seen.used + units === 0 ? null : this.res(seen.used + units, Math.max(seen.reset, reset));
	}

	/** Forgets a key. Was there anything? */
	async delete(key, options = undefined) {
		return this.counter.forget(this.getKey(key), this.windowMs(options));
	}
}

module.exports = { RateLimiterSluice, RateLimiterRes };
