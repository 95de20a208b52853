/* sluice/nest under @nestjs/throttler, in a real Nest application; what its own storage answers stands beside. */
'use strict';

const assert = require('node:assert');
const test = require('node:test');
const { ask, asked, library, part, statuses, steered } = require('./common.js');

const { SluiceStorage } = part('nest');
library('reflect-metadata');
const { Controller, Get, Module } = library('@nestjs/common');
const { APP_GUARD, NestFactory } = library('@nestjs/core');
const { SkipThrottle, Throttle, ThrottlerGuard, ThrottlerModule,
	ThrottlerStorageService } = library('@nestjs/throttler');

/** Decorators, as a compiler would apply them. */
function decorated(routes) {
	class Things {}
	for (const [name, ...decorators] of routes) {
		Things.prototype[name] = { [name]: () => 'fine' }[name];
		const descriptor = Object.getOwnPropertyDescriptor(Things.prototype, name);
		for (const decorate of [Get(name), ...decorators])
			decorate(Things.prototype, name, descriptor);
	}
	Controller()(Things);
	return Things;
}

async function nest(t, throttlers, storage, routes = [['index']]) {
	class App {}
	Module({ imports: [ThrottlerModule.forRoot({ throttlers, storage })], controllers: [decorated(routes)],
		providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }] })(App);
	const app = await NestFactory.create(App, { logger: false, abortOnError: false });
	await app.listen(0, '127.0.0.1');
	t.after(() => app.close());
	return `http://127.0.0.1:${app.getHttpServer().address().port}/`;
}

const headers = ({ headers: all }) => [all['x-ratelimit-limit'], all['x-ratelimit-remaining'], all['x-ratelimit-reset'],
	all['retry-after']];

test('answers are those of its own storage', async (t) => {
	const throttlers = [{ ttl: 60000, limit: 3 }];
	const own = await asked(5, await nest(t, throttlers, new ThrottlerStorageService()), { path: '/index' });
	const { limiter, at } = steered();
	const url = await nest(t, throttlers, new SluiceStorage({ limiter, algorithm: 'sliding-log' }));
	const ours = await asked(5, url, { path: '/index' });
	assert.deepStrictEqual(statuses(ours), [200, 200, 200, 429, 429]);
	assert.deepStrictEqual(statuses(ours), statuses(own));
	assert.deepStrictEqual(ours.map(headers), own.map(headers));
	at.now += 59999;
	assert.strictEqual((await ask(url, { path: '/index' })).status, 429);
	at.now += 1;
	assert.strictEqual((await ask(url, { path: '/index' })).status, 200);
});

test('several throttlers, routes of their own, and routes that skip', async (t) => {
	const { limiter } = steered();
	const url = await nest(t, [{ name: 'short', ttl: 1000, limit: 2 }, { name: 'long', ttl: 60000, limit: 3 }],
		new SluiceStorage({ limiter }), [['one'], ['two', Throttle({ short: { ttl: 1000, limit: 1 } })],
			['free', SkipThrottle({ short: true, long: true })]]);
	assert.deepStrictEqual(statuses(await asked(3, url, { path: '/one' })), [200, 200, 429]);
	assert.deepStrictEqual(statuses(await asked(2, url, { path: '/two' })), [200, 429]);
	assert.deepStrictEqual(statuses(await asked(5, url, { path: '/free' })), [200, 200, 200, 200, 200]);
});

test('blockDuration blocks for as long as it says, and denials do not prolong it', async () => {
	const { limiter, at } = steered();
	const storage = new SluiceStorage({ limiter, algorithm: 'sliding-log' });
	const increment = () => storage.increment('k', 1000, 1, 5000, 'default');
	assert.deepStrictEqual(await increment(), { totalHits: 1, timeToExpire: 1, isBlocked: false,
		timeToBlockExpire: 0 });
	assert.deepStrictEqual(await increment(), { totalHits: 2, timeToExpire: 5, isBlocked: true, timeToBlockExpire: 5 });
	at.now += 4999;
	assert.deepStrictEqual(await increment(), { totalHits: 2, timeToExpire: 1, isBlocked: true, timeToBlockExpire: 1 });
	at.now += 1;
	assert.strictEqual((await increment()).isBlocked, false);
});

test('a storage that is away is an error of the request', async (t) => {
	const url = await nest(t, [{ ttl: 60000, limit: 3 }], new SluiceStorage({ store: 'redis://127.0.0.1:1' }));
	assert.strictEqual((await ask(url, { path: '/index' })).status, 500);
});
