/* What middlewares have in common: from a request to a decision, and from a decision to what is done. A framework's own
 * part (../express and its like) only shows its requests as a View and does what the Verdict says.
 *
 *   View     {peer, header(name) -> lines, method, url, host, request}
 *   Verdict  {allowed, status, headers: [[name, value]], body, delay, result, holds, release()} */
'use strict';

const { addressKey, clientFinder } = require('./address.js');
const { formsOf, headersOf, problemOf, undecidedOf } = require('./answer.js');
const { HttpLimiter } = require('./remote.js');
const { idFor } = require('../lib/identity.js');

const OPTIONS = ['limiter', 'url', 'token', 'timeout', 'store', 'limits', 'key', 'attributes', 'cost', 'id',
	'trustedProxies',
	'clientAddress', 'ipv6Prefix', 'headers', 'onError', 'onDenied', 'skip', 'prefix'];
const ON_ERROR = ['allow', 'deny', 'throw'];
const CONCURRENCY = /^concurrency /;

/** A limiter of the options: the one given; one at `url`, over HTTP; or one of the package's own with `store`. */
function limiterOf(options) {
	const ways = ['limiter', 'url', 'store'].filter((way) => options[way] !== undefined);
	if (ways.length !== 1)
		throw new TypeError('one of limiter, store and url says who decides; ' + (ways.join(' and ')
			|| 'none') + ' is given');
	if (options.limiter)
		return options.limiter;
	if (options.url)
		return new HttpLimiter({ url: options.url, token: options.token, timeout: options.timeout });
	const { Limiter } = require('../index.js');
	return new Limiter({ store: options.store,
		...(options.timeout === undefined ? {} : { timeout: options.timeout }) });
}

/** Options of a limiter alone, which stores of other libraries take too. */
function checkedOptions(options, known) {
	for (const name of Object.keys(options)) {
		if (!known.includes(name))
			throw new TypeError(`no option '${name}'; there are ${known.join(', ')}`);
	}
	return options;
}

const call = (value, request) => (typeof value === 'function' ? value(request) : value);
const textOf = (limit) => (Array.isArray(limit) ? limit[1] : limit);

class Admission {
	/** more: options that a framework has besides, such as `hook`. */
	constructor(options, more = []) {
		const o = checkedOptions(options, [...OPTIONS, ...more]);
		this.limiter = limiterOf(o);
		this.find = clientFinder(o);
		this.forms = formsOf(o.headers);
		this.onError = o.onError ?? 'allow';
		if (!ON_ERROR.includes(this.onError))
			throw new TypeError(`onError is one of ${ON_ERROR.join(', ')}; got '${o.onError}'`);
		const prefix = o.ipv6Prefix ?? 64;
		if (!(Number.isInteger(prefix) && prefix >= 1 && prefix <= 128))
			throw new TypeError(`ipv6Prefix is 1 to 128; got ${o.ipv6Prefix}`);
		if (o.limits !== undefined && o.attributes !== undefined)
			throw new TypeError('attributes are for a policy, which has limits of its own: give the one or the other');
		this.options = o;
	}

	/** The address that a request counts as, in text; undefined where it has none (a unix socket). ipv6Prefix: where
	 * the options say none. */
	clientOf(view, ipv6Prefix) {
		const header = this.options.clientAddress ?? 'x-forwarded-for';
		const address = this.find(view.peer, view.header(header));
		return address === null ? undefined : addressKey(address, this.options.ipv6Prefix ?? ipv6Prefix);
	}

	/** Decides a request. Throws only with `onError: 'throw'`, or what a function of the options throws. */
	async decide(view) {
		const o = this.options;
		if (o.skip && await o.skip(view.request))
			return { allowed: true, headers: [], delay: 0, holds: false, release: () => {} };
		const cost = await call(o.cost, view.request) ?? 1;
		const id = await idFor(await call(o.id, view.request));
		const more = { ...(o.cost === undefined ? {} : { cost }), ...(id === undefined ? {} : { id }) };
		const limits = await call(o.limits, view.request);
		try {
			return await (limits === undefined ? this.byPolicy(view, more, cost) : this.byLimits(view, limits, more,
				cost));
		} catch (error) {
			return this.undecided(error);
		}
	}

	async byPolicy(view, more, cost) {
		const ip = this.clientOf(view, 128); // the policy's own ipv6-prefix groups
		const attributes = { method: view.method, path: view.url, ...(view.host ? { host: view.host } : {}),
			...(ip === undefined ? {} : { ip }), ...await call(this.options.attributes, view.request) };
		const result = await this.limiter.admit(attributes, {...more, next : true, each : true});
		return this.verdict(result, [], cost);
	}

	async byLimits(view, limits, more, cost) {
		const list = Array.isArray(limits) ? limits : [limits];
		const key = await call(this.options.key, view.request) ?? this.clientOf(view, 64);
		if (key === undefined)
			throw new TypeError('nobody says whose request it is (a unix socket without a header?); give `key`');
		const leases = list.some((limit) => CONCURRENCY.test(textOf(limit)));
		const whole = (this.options.prefix ?? '') + key;
		const result = await this.limiter[leases ? 'acquire' : 'check'](whole, list, { ...more, next: true,
			each: true });
		const release = leases && result.allowed && result.id !== null
			? () => this.limiter.release(whole, list.filter((limit) => CONCURRENCY.test(textOf(limit))),
				result.id) : null;
		return this.verdict(result, list.map(textOf), cost, release);
	}

	/** A door's own, unless the options say which. */
	headersOf(result, texts) {
		return this.options.headers === undefined && result.headers || headersOf(result, this.forms, texts, Date.now());
	}

	verdict(result, texts, cost, release) {
		if (result.error)
			return this.undecided(result.error, result);
		let open = release ?? (result.allowed && typeof result.release === 'function' && result.id
			? () => result.release() : null);
		return {
			allowed: result.allowed, status: 429, result, delay: result.delay, holds: open !== null,
			headers: this.headersOf(result, texts),
			body: result.allowed ? null : problemOf(result, texts, cost),
			/** Ends a lease, once; a lease that can't be ended ends by itself. */
			release() {
				const ending = open;
				open = null;
				ending?.()?.catch?.(() => {});
			},
		};
	}

	/** Nobody has decided. A mistake of the caller's is no outage: it is thrown, whatever onError says. */
	undecided(error, result) {
		if (/^(bad-|not-|no-access|closed)/.test(error.code ?? '') || error instanceof TypeError && !error.cause)
			throw error;
		const said = result ? (result.allowed ? 'allow' : 'deny') : this.onError;
		if (said === 'throw')
			throw error;
		return { allowed: said === 'allow', status: 503, result: result ?? null, error, delay: 0, holds: false,
			release: () => {}, headers: said === 'allow' ? [['Sluice-Failed-Open', '1']] : [], body: undecidedOf() };
	}
}

module.exports = { Admission, checkedOptions, limiterOf };
