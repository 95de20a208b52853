// The one class: checks the arguments, asks the store where it is, and says what a call gets that can't be decided.
'use strict';

const args = require('./arguments.js');
const {addressOf} = require('./address.js');
const {SluiceError, Limited, isAway, misuse} = require('./errors.js');
const {Result, undecided} = require('./result.js');
const {Local} = require('./local.js');
const {Remote} = require('./remote.js');
const {isTicket} = require('./ticket.js');

const OPTIONS = ['store', 'memory', 'policy', 'clock', 'timeout', 'onError', 'tls'];
const ON_ERROR = ['throw', 'allow', 'deny'];
const DEFAULT_TIMEOUT_MS = 100;
const AT_MS_MAX = 9223372036854; // SL_AT_MS_MAX: the store counts nanoseconds

/** An allowed or denied request for a lease, or an admission that holds something: `release()` ends it. */
class Lease extends Result {
	#limiter;
	#key;
	#limits;
	#ended = false;

	static of(limiter, result, key, limits) {
		const lease = new Lease(result.allowed, result.quota, result.remaining, result.retryAfter, result.resetAfter,
			result.delay, result.index, result.limit, result.granted);
		for (const name of ['repeated', 'failedOpen', 'id', 'nextAfter', 'each', 'error'])
			if (result[name] !== lease[name])
				lease[name] = result[name];
		lease.#limiter = limiter;
		lease.#key = key;
		lease.#limits = limits;
		return lease;
	}

	/** Ends it; of how many counters: 0 where it had ended. What was denied, or let pass undecided, holds nothing. What
	 * failed can be tried again. */
	async release() {
		if (this.#ended || this.id === null)
			return 0;
		this.#ended = true;
		let count = 0;
		try {
			count = await this.#limiter.release(this.#key, this.#limits, this.id);
		} finally {
			this.#ended = count > 0;
		}
		return count;
	}

	/** It lasts a whole T from now. */
	async renew() {
		return this.#ended || this.id === null ? 0 : this.#limiter.renew(this.#key, this.#limits, this.id);
	}
}
if (Symbol.asyncDispose)
	Object.defineProperty(Lease.prototype, Symbol.asyncDispose, {async value() {
		await this.release().catch(() => {}); // as withLease() does
	}});

class Limiter {
	#store;
	#clock;
	#timeout;
	#onError;
	#fast;

	constructor(options) {
		const o = args.optionsOf(options, OPTIONS, 'Limiter');
		const address = addressOf(o.store);
		this.#clock = clockOf(o.clock);
		this.#timeout = timeoutOf(o.timeout);
		this.#onError = onErrorOf(o.onError);
		if (address.remote)
			for (const name of ['policy', 'memory'])
				if (o[name] !== undefined)
					throw misuse('bad-argument', `${name}: the server at ${address.host ?? address.path} has its own`);
		this.#store = address.remote ? new Remote(address, {timeout: this.#timeout, tls: o.tls})
			: new Local(address.store, o, this.#timeout);
		this.#fast = this.#clock === null && this.#store.fast ? this.#store : null;
	}

	/** Whether decisions are made in this process, so that calls with Sync in their name can be had. */
	get inProcess() {
		return this.#store.inProcess;
	}

	// ---- deciding

	/** Decides, and charges all limits if all admit. */
	async check(key, limits, options) {
		return (options === undefined ? this.#plain(key, limits) : null)
			?? this.#later(this.#ask('CHECK', key, limits, options));
	}

	checkSync(key, limits, options) {
		return (options === undefined ? this.#plain(key, limits) : null)
			?? this.#now(this.#ask('CHECK', key, limits, options));
	}

	/** The shortest way; null where it is not so plain. */
	#plain(key, limits) {
		return this.#fast !== null && typeof key === 'string' ? this.#fast.fast(key, limits) : null;
	}

	/** The same, charging nothing. */
	async peek(key, limits, options) {
		return this.#later(this.#ask('PEEK', key, limits, options));
	}

	peekSync(key, limits, options) {
		return this.#now(this.#ask('PEEK', key, limits, options));
	}

	/** Gives back `cost`, from the newest charges; `options` may say a member, which is forgotten. */
	async refund(key, limits, cost, options) {
		return this.#later(this.#refunding(key, limits, cost, options));
	}

	refundSync(key, limits, cost, options) {
		return this.#now(this.#refunding(key, limits, cost, options));
	}

	/** Forgets counters: how many there were. */
	async reset(key, limits) {
		return this.#later(this.#about('RESET', key, limits));
	}

	resetSync(key, limits) {
		return this.#now(this.#about('RESET', key, limits));
	}

	// ---- leases

	/** Asks for a lease: a Lease, allowed or not. */
	async acquire(key, limits, options) {
		const asked = this.#acquiring(key, limits, options);
		return Lease.of(this, await this.#later(asked), asked.key, asked.limits);
	}

	acquireSync(key, limits, options) {
		const asked = this.#acquiring(key, limits, options);
		return Lease.of(this, this.#now(asked), asked.key, asked.limits);
	}

	async release(key, limits, id) {
		return this.#later(this.#held('RELEASE', key, limits, id));
	}

	releaseSync(key, limits, id) {
		return this.#now(this.#held('RELEASE', key, limits, id));
	}

	async renew(key, limits, id) {
		return this.#later(this.#held('RENEW', key, limits, id));
	}

	renewSync(key, limits, id) {
		return this.#now(this.#held('RENEW', key, limits, id));
	}

	/** A Lease that is allowed, for `await using`; throws Limited where it is denied. */
	async lease(key, limits, options) {
		const lease = await this.acquire(key, limits, options);
		if (!lease.allowed)
			throw new Limited(lease);
		return lease;
	}

	/** Calls `work(lease)` with a lease in hand, and releases it whatever comes of that. Throws Limited if denied, but
	 * nothing where it could not be released: then it ends by itself. */
	async withLease(key, limits, work, options) {
		if (typeof work !== 'function')
			throw misuse('bad-argument', `withLease: expected a function, found ${args.shown(work)}`);
		const lease = await this.lease(key, limits, options);
		try {
			return await work(lease);
		} finally {
			await lease.release().catch(() => {});
		}
	}

	/** Who holds leases of a limit: [{id, cost, endsAfter}], those that end first first. */
	async holders(key, limit) {
		const [[ of, text ]] = args.limitsOf(args.keyOf(key), [ limit ]);
		const list = await this.#store.holders(of, text, this.#at());
		return list.map(([ id, cost, endsAfter ]) => ({id, cost, endsAfter}));
	}

	// ---- reservations

	/** Charges an estimate, which goes back after `ttl` ms unless it is committed by the id that the result has. */
	async reserve(key, limits, options) {
		return this.#later(this.#reserving(key, limits, options));
	}

	reserveSync(key, limits, options) {
		return this.#now(this.#reserving(key, limits, options));
	}

	/** The true cost of what was reserved. Throws `not-found` where it was committed before, or has gone back. */
	async commit(key, limits, id, cost) {
		return this.#later(this.#committing(key, limits, id, cost));
	}

	commitSync(key, limits, id, cost) {
		return this.#now(this.#committing(key, limits, id, cost));
	}

	// ---- policies

	/** Decides by the policy's limits. A result with an id holds leases or reservations: it is a Lease. */
	async admit(attributes, options) {
		return this.#admitted(await this.#later(this.#admitting(attributes, options)));
	}

	admitSync(attributes, options) {
		return this.#admitted(this.#now(this.#admitting(attributes, options)));
	}

	/** Puts another policy in the place of this one, in process: a path, or YAML. Mistakes leave the old one. */
	async reload(policy) {
		this.#store.reload(policyOf(policy));
	}

	/** Gives the store back; over RESP after what is under way: until then releases are taken. Calls after it throw
	 * `closed`. */
	async close() {
		this.#fast = null;
		await this.#store.close();
	}

	// ---- what is asked

	#at() {
		if (!this.#clock)
			return undefined;
		const at = this.#clock();
		if (typeof at !== 'number' || !(at >= 0 && at <= AT_MS_MAX))
			throw misuse('bad-argument',
				`clock: expected milliseconds since 1970, at most ${AT_MS_MAX}, found ${args.shown(at)}`);
		return Math.floor(at);
	}

	#about(operation, key, limits) {
		const asked = begun(operation, args.keyOf(key), this.#at());
		asked.limits = args.limitsOf(asked.key, limits);
		return asked;
	}

	#ask(operation, key, limits, options) {
		const asked = this.#about(operation, key, limits);
		if (options === undefined)
			return asked;
		const known = operation === 'CHECK' ? ['cost', 'upto', 'id', 'member', 'next', 'each']
			: ['cost', 'upto', 'member', 'next', 'each'];
		return fill(asked, args.optionsOf(options, known, operation.toLowerCase()));
	}

	#refunding(key, limits, cost, options) {
		const asked = this.#about('REFUND', key, limits);
		fill(asked, args.optionsOf(options, ['member', 'next', 'each'], 'refund'));
		asked.cost = args.costOf(cost);
		return asked;
	}

	#acquiring(key, limits, options) {
		const asked = this.#about('ACQUIRE', key, limits);
		return fill(asked, args.optionsOf(options, ['cost', 'id', 'member', 'next', 'each'], 'acquire'));
	}

	#held(operation, key, limits, id) {
		const asked = begun(operation, args.keyOf(key), this.#at());
		if (limits !== null) // a ticket says its limits itself
			asked.limits = args.limitsOf(asked.key, limits);
		asked.id = args.heldIdOf(id);
		asked.ticketed = operation === 'COMMIT' || isTicket(id);
		return asked;
	}

	#reserving(key, limits, options) {
		const asked = this.#about('RESERVE', key, limits);
		const o = args.optionsOf(options, ['cost', 'ttl', 'id', 'next', 'each'], 'reserve');
		asked.ttl = args.ttlOf(o.ttl);
		return fill(asked, o);
	}

	#committing(key, limits, id, cost) {
		const asked = this.#held('COMMIT', key, limits, id);
		if (cost === undefined)
			throw misuse('bad-argument', 'cost: expected what it has cost in truth');
		asked.cost = args.costOf(cost);
		return asked;
	}

	#admitting(attributes, options) {
		const asked = begun('ADMIT', '*', this.#at());
		asked.attributes = args.attributesOf(attributes);
		return fill(asked, args.optionsOf(options, ['cost', 'id', 'member', 'upto', 'next', 'each'], 'admit'));
	}

	#admitted(result) {
		return result.id === null ? result : Lease.of(this, result, '*', null);
	}

	// ---- and decided

	#now(asked) {
		try {
			return this.#store.decideNow(asked);
		} catch (error) {
			return this.#failed(asked, error);
		}
	}

	async #later(asked) {
		try {
			return await this.#store.decide(asked);
		} catch (error) {
			return this.#failed(asked, error);
		}
	}

	/** What a call gets that the store could not decide; what the caller got wrong is thrown whatever onError says. */
	#failed(asked, error) {
		if (this.#onError === 'throw' || !isAway(error))
			throw error;
		if (asked.operation === 'RESET' || asked.operation === 'RELEASE' || asked.operation === 'RENEW')
			return 0;
		return undecided(this.#onError === 'allow', error, this.#timeout);
	}
}
if (Symbol.asyncDispose)
	Object.defineProperty(Limiter.prototype, Symbol.asyncDispose, {value: Limiter.prototype.close});

/** What is asked, before anything is said of it: all fields, so that all have one shape. */
function begun(operation, key, at) {
	return {operation, key, limits: [], cost: 1, ttl: 0, id: undefined, member: undefined, upto: false, next: false,
		each: false, attributes: null, ticketed: false, named: false, at};
}

/** Options of a call, checked, into what is asked. */
function fill(asked, options) {
	if (options.id !== undefined)
		asked.id = args.idOf(options.id);
	asked.cost = args.costOf(options.cost);
	asked.member = args.memberOf(options.member);
	asked.upto = args.flagOf(options, 'upto');
	asked.next = args.flagOf(options, 'next');
	asked.each = args.flagOf(options, 'each');
	return asked;
}

function clockOf(clock) {
	if (clock !== undefined && typeof clock !== 'function')
		throw misuse('bad-argument', `clock: expected a function, found ${args.shown(clock)}`);
	return clock ?? null;
}

function timeoutOf(timeout) {
	if (timeout === undefined)
		return DEFAULT_TIMEOUT_MS;
	if (typeof timeout !== 'number' || !(timeout >= 1 && timeout <= 600000))
		throw misuse('bad-argument', `timeout: expected 1 to 600000 ms, found ${args.shown(timeout)}`);
	return timeout;
}

function onErrorOf(onError = 'throw') {
	if (!ON_ERROR.includes(onError))
		throw misuse('bad-argument', `onError: expected ${ON_ERROR.join(', ')}, found ${args.shown(onError)}`);
	return onError;
}

function policyOf(policy) {
	if (typeof policy !== 'string')
		throw misuse('bad-argument', `policy: expected a path or YAML, found ${args.shown(policy)}`);
	return policy;
}

module.exports = {Limiter, Lease, SluiceError, Limited, Result, policyOf};
