/* sluice/flexible beside rate-limiter-flexible's own RateLimiterMemory: the same calls, the same answers, but for what
 * its first lines say is other on purpose. */
'use strict';

const assert = require('node:assert');
const test = require('node:test');
const { library, part, steered } = require('./common.js');

const { RateLimiterSluice, RateLimiterRes } = part('flexible');
const { RateLimiterMemory, RateLimiterRes: TheirRes, BurstyRateLimiter, RateLimiterQueue,
	RateLimiterUnion } = library('rate-limiter-flexible');

function pair(options) {
	const world = steered();
	const ours = new RateLimiterSluice({ limiter: world.limiter, algorithm: 'sliding-log', ...options });
	return { ...world, ours, theirs: new RateLimiterMemory(options) };
}

/** What a call came to, as both tell it; waits of theirs are of real time, so they are looked at by themselves. */
async function outcome(promise) {
	try {
		const res = await promise;
		return res === null || typeof res === 'boolean' ? res : { remaining: res.remainingPoints,
			consumed: res.consumedPoints };
	} catch (res) {
		if (res instanceof Error)
			return res.constructor.name;
		return { denied: true, remaining: res.remainingPoints, consumed: res.consumedPoints };
	}
}

const SCRIPTS = {
	'consume up to the points, and beyond': [['consume', 1], ['consume', 2], ['get'], ['consume', 3], ['delete'],
		['get'], ['consume', 5]],
	'more than there are points': [['consume', 6]],
	'nothing is there': [['get'], ['delete']],
	'penalty and reward': [['penalty', 2], ['get'], ['reward', 1], ['get'], ['consume', 4], ['penalty', 3], ['get'],
		['reward', 2], ['get']],
	'a penalty that is more than the points': [['penalty', 7], ['get'], ['delete'], ['consume', 1]],
	'set': [['set', 3, 5], ['get'], ['consume', 2], ['get'], ['set', 0, 5], ['consume', 1]],
	'set for ever': [['set', 4, 0], ['consume', 1], ['consume', 1]],
	'block': [['block', 10], ['get'], ['consume', 1], ['delete'], ['consume', 1]],
};

for (const [name, calls] of Object.entries(SCRIPTS)) {
	test(`as RateLimiterMemory: ${name}`, async () => {
		const { ours, theirs } = pair({ points: 5, duration: 5 });
		for (const [number, [call, ...words]] of calls.entries()) {
			const expected = await outcome(theirs[call]('key', ...words));
			assert.deepStrictEqual(await outcome(ours[call]('key', ...words)), expected, `${call}, call ${number}`);
		}
	});
}

test('a denial charges nothing: who keeps knocking is not locked out by it', async () => {
	const { ours, at } = pair({ points: 2, duration: 1 });
	await ours.consume('key', 2);
	for (let i = 0; i < 9; i++)
		assert.deepStrictEqual(await outcome(ours.consume('key')), { denied: true, remaining: 0, consumed: 3 });
	at.now += 1000;
	assert.deepStrictEqual(await outcome(ours.consume('key', 2)), { remaining: 0, consumed: 2 });
});

test('msBeforeNext of a denial is exact', async () => {
	const { ours, at } = pair({ points: 2, duration: 1 });
	await ours.consume('key');
	at.now += 300;
	await ours.consume('key');
	const denied = await ours.consume('key').catch((res) => res);
	assert.ok(denied instanceof RateLimiterRes);
	assert.strictEqual(denied.msBeforeNext, 700);
	at.now += 699;
	await assert.rejects(ours.consume('key'), RateLimiterRes);
	at.now += 1;
	await ours.consume('key');
});

/** The wait that a denial tells; it is exact: a ms sooner the same is denied. */
async function waited({ ours, at }, points) {
	const { msBeforeNext } = await ours.consume('key', points).catch((res) => res);
	at.now += msBeforeNext - 1;
	await assert.rejects(ours.consume('key', points), (res) => res instanceof RateLimiterRes && res.msBeforeNext === 1);
	at.now += 1;
	await ours.consume('key', points);
	return msBeforeNext;
}

test('msBeforeNext of a denial is exact while set() holds points', async () => {
	const of = async (held, ms, consumed = 0) => {
		const world = pair({ points: 5, duration: 60 });
		await world.ours.set('key', held, ms / 1000);
		if (consumed > 0)
			await world.ours.consume('key', consumed);
		world.at.now += 1000;
		return world;
	};
	assert.strictEqual(await waited(await of(5, 10000), 1), 9000); /* as soon as nothing is held */
	assert.strictEqual(await waited(await of(3, 10000), 4), 9000);
	assert.strictEqual(await waited(await of(9, 90000), 1), 89000);
	assert.strictEqual(await waited(await of(2, 10000, 3), 4), 59000); /* then three are used still */
	assert.strictEqual(await waited(await of(2, 90000, 3), 1), 59000); /* room beside what is held comes first */
	const { ours } = await of(2, 10000);
	assert.strictEqual((await ours.consume('key', 6).catch((res) => res)).msBeforeNext, 60000); /* never */
});

test('blockDuration, block() and set() hold to the millisecond', async () => {
	const { ours, at } = pair({ points: 1, duration: 1, blockDuration: 30 });
	await ours.consume('key');
	const denied = await ours.consume('key').catch((res) => res);
	assert.strictEqual(denied.msBeforeNext, 30000);
	at.now += 29999;
	assert.strictEqual((await ours.consume('key').catch((res) => res)).msBeforeNext, 1);
	at.now += 1;
	await ours.consume('key');
	await ours.set('other', 1, 90);
	at.now += 89999;
	await assert.rejects(ours.consume('other'), RateLimiterRes);
	at.now += 30001;
	await ours.consume('other');
	const forever = await ours.block('third', 0);
	assert.strictEqual(forever.msBeforeNext, -1);
	assert.strictEqual((await ours.get('third')).msBeforeNext, -1);
	at.now += 365 * 86400000;
	await assert.rejects(ours.consume('third'), RateLimiterRes);
});

test('customDuration, keyPrefix, getKey, toJSON', async () => {
	const { ours, limiter, at } = pair({ points: 1, duration: 1, keyPrefix: 'mine' });
	assert.strictEqual(ours.getKey('a'), 'mine:a');
	await ours.consume('a', 1, { customDuration: 10 });
	at.now += 5000;
	await assert.rejects(ours.consume('a', 1, { customDuration: 10 }), RateLimiterRes);
	const other = new RateLimiterSluice({ limiter, algorithm: 'sliding-log', points: 1, duration: 1, keyPrefix: '' });
	const res = await other.consume('a');
	assert.deepStrictEqual(JSON.parse(String(res)), JSON.parse(JSON.stringify(res)));
	assert.deepStrictEqual(Object.keys(JSON.parse(String(res))),
		['remainingPoints', 'msBeforeNext', 'consumedPoints', 'isFirstInDuration']);
});

test('its wrappers take ours: BurstyRateLimiter, RateLimiterQueue; RateLimiterUnion does not', async () => {
	const { limiter } = steered();
	const of = (points, keyPrefix) => new RateLimiterSluice({ limiter, points, duration: 60, keyPrefix,
		RateLimiterRes: TheirRes });
	const bursty = new BurstyRateLimiter(of(1, 'slow'), of(2, 'burst'));
	for (let i = 0; i < 3; i++)
		await bursty.consume('key');
	await assert.rejects(bursty.consume('key'), (res) => typeof res.msBeforeNext === 'number');
	const queue = new RateLimiterQueue(of(3, 'queue'), { maxQueueSize: 1 });
	assert.strictEqual(await queue.removeTokens(1, 'key'), 2);
	assert.throws(() => new RateLimiterUnion(of(1, 'a'), of(5, 'b')),
		/instance of/); /* takes only classes of its own */
});

test('a store that is away is an Error, not a denial', async () => {
	const ours = new RateLimiterSluice({ store: 'redis://127.0.0.1:1', points: 1, duration: 1 });
	await assert.rejects(ours.consume('key'), Error);
	const open = new RateLimiterSluice({ limiter: new (part().Limiter)({ store: 'redis://127.0.0.1:1',
		onError: 'allow' }),
		points: 1, duration: 1 });
	await open.consume('key');
});

test('wrong options are refused', () => {
	const { limiter } = steered();
	for (const options of [{ duration: 1 }, { points: 1 }, { points: -1, duration: 1 }, { points: 1, duration: -1 },
		{ points: 1, duration: 1, inMemoryBlock: 1 }, { points: 1, duration: 1, algorithm: 'token-bucket' }])
		assert.throws(() => new RateLimiterSluice({ limiter, ...options }));
});
