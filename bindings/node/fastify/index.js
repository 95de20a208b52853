/* sluice/fastify: a plugin, and a store for @fastify/rate-limit.
 *
 *   await app.register(require('sluice/fastify'), { store: 'shared:api', limits: '100/1m' });
 *   await app.register(rateLimit, { max: 100, timeWindow: '1 minute', store: storeOf({ store: 'shared:api' }) });
 *
 * Routes say otherwise by their config: `config: {sluice: false}`, or `{sluice: {limits: '5/1m'}}`. */
'use strict';

const { Admission } = require('../doors/admission.js');
const { Counter } = require('../doors/counter.js');
const { follow } = require('../doors/lifetime.js');
const { viewOfNode } = require('../doors/request.js');

const viewOf = (request) => viewOfNode(request.raw, request.originalUrl, request);

async function onRequest(admission, options, request, reply) {
	const verdict = await admission.decide(viewOf(request));
	request.sluice = verdict.result;
	for (const [name, value] of verdict.headers)
		reply.header(name, value);
	if (!verdict.allowed) {
		if (options.onDenied)
			return options.onDenied(request, reply, verdict);
		/* of bytes, to which Fastify adds no charset: JSON has none */
		return reply.code(verdict.status).header('Cache-Control', 'no-store').header('Content-Type',
			'application/problem+json')
			.send(Buffer.from(JSON.stringify(verdict.body)));
	}
	const isOver = follow(request.raw, reply.raw, verdict);
	if (verdict.delay > 0)
		await new Promise((resolve) => setTimeout(resolve, verdict.delay));
	if (isOver())
		reply.hijack(); /* or Fastify would call the handler */
	return undefined;
}

/** The plugin. A route's own options are added to these; what it does not say is as here. */
async function sluice(fastify, options) {
	const { hook = 'onRequest', ...common } = options;
	const shared = new Admission(common);
	if (!fastify.hasRequestDecorator('sluice')) /* as it has where a scope around this one is limited, too */
		fastify.decorateRequest('sluice', null);
	fastify.addHook('onRoute', (route) => {
		const own = route.config?.sluice;
		if (own === false)
			return;
		const { limits, attributes, ...rest } = common;
		const kind = own?.limits !== undefined ? {} : own?.attributes !== undefined ? {} : { limits, attributes };
		const merged = own ? { ...rest, ...kind, store: undefined, url: undefined, limiter: shared.limiter,
			...own } : common;
		const admission = own ? new Admission(merged) : shared;
		const handler = (request, reply) => onRequest(admission, merged, request, reply);
		route[hook] = [...[route[hook] ?? []].flat(), handler];
	});
	if (!common.limiter)
		fastify.addHook('onClose', async () => shared.limiter.close?.());
}
/* As fastify-plugin marks them: decorators and hooks are of the one who registers it. */
sluice[Symbol.for('skip-override')] = true;
sluice[Symbol.for('fastify.display-name')] = 'sluice';
sluice[Symbol.for('plugin-meta')] = { fastify: '>=4', name: 'sluice' };

/** A store class for @fastify/rate-limit, whose limits are its own. Requests that are denied are counted apart, for
 * `ban`, `continueExceeding` and `exponentialBackoff`. */
function storeOf(options) {
	const counter = new Counter({ prefix: 'frl:', ...options });
	return class SluiceStore {
		constructor(settings, prefix = '') {
			this.settings = settings;
			this.prefix = prefix;
			this.punishes = settings.continueExceeding || settings.exponentialBackoff;
			this.counts = this.punishes || (settings.ban ?? -1) >= 0;
		}

		incr(key, callback, timeWindow, max) {
			this.count(this.prefix + key, timeWindow, max).then((told) => callback(null, told),
				(error) => callback(error, null));
		}

		async count(key, timeWindow, max) {
			const until = this.punishes ? (await counter.held(key)).blocked : 0;
			const hit = until > 0 ? { allowed: false, used: max + 1, wait: until } : await counter.hit(key, max,
				timeWindow);
			if (hit.error && !hit.allowed)
				throw hit.error;
			if (hit.allowed)
				return { current: hit.used, ttl: Math.max(0, hit.reset) };
			return this.denied(key, timeWindow, max, hit);
		}

		async denied(key, timeWindow, max, hit) {
			if (!this.counts)
				return { current: max + 1, ttl: hit.wait < 0 ? timeWindow : hit.wait };
			const { used } = await counter.force(`${key}\u0000denied`, timeWindow);
			let ttl = hit.wait < 0 ? timeWindow : hit.wait;
			if (this.punishes) {
				ttl = this.settings.continueExceeding ? timeWindow : Math.min(timeWindow * 2 ** (used - 1),
					3660 * 86400000);
				await counter.block(key, ttl);
			}
			return { current: max + used, ttl };
		}

		read(key, callback, timeWindow) {
			this.peek(this.prefix + key, timeWindow).then((told) => callback(null, told), (error) => callback(error,
				null));
		}

		async peek(key, timeWindow) {
			const seen = await counter.look(key, timeWindow);
			const denied = this.counts ? (await counter.look(`${key}\u0000denied`, timeWindow)).used : 0;
			const until = this.settings.continueExceeding ? (await counter.held(key)).blocked : 0;
			return { current: seen.used + denied, ttl: until || (seen.used === 0 ? 0 : Math.max(0, seen.reset)) };
		}

		/** A route with limits of its own has counts of its own. */
		child(route) {
			const { method = '', url = '' } = route.routeInfo ?? {};
			return new SluiceStore(route, `${this.prefix}${method}${url}-`);
		}
	};
}

module.exports = sluice;
module.exports.default = sluice;
module.exports.sluice = sluice;
module.exports.storeOf = storeOf;
