/* The fetch that is a good client, on steered time: against answers that a test writes, and against an application that
 * asks a real server for each of its requests. */
'use strict';

const assert = require('node:assert');
const test = require('node:test');
const { createFetch, RateLimitedError } = require('../client/index.js');
const { Clock, startApp, startSluice } = require('./world.js');

const URL_ = 'http://api.test/things';

/** A client, and what it sent: each answer is one of `answers` in turn, the last for ever; functions are called. */
function scripted(answers, options = {}) {
	const clock = new Clock();
	const start = clock.at;
	const sent = [];
	const fetch = clock.counted(async (input, init) => {
		const next = answers[Math.min(sent.length, answers.length - 1)];
		sent.push({ at: clock.at - start, method: init?.method ?? input.method ?? 'GET', input, init });
		if (typeof next === 'function')
			return next(input, init, clock);
		const [status, headers] = next;
		return new Response(status === 204 ? null : 'body', { status, headers });
	});
	const ask = createFetch({ fetch, clock, random: () => 0, ...options });
	return { clock, sent, both: ask, ask: (url = URL_, init) => clock.run(ask(url, init)),
		times: () => sent.map((x) => x.at) };
}

test('an answer is returned as it came', async () => {
	const { ask, times } = scripted([[404, {}]]);
	assert.strictEqual((await ask()).status, 404);
	assert.deepStrictEqual(times(), [0]);
});

test('a denial is waited out', async () => {
	const { ask, times } = scripted([[429, { 'Retry-After': '7' }], [200, {}]]);
	assert.strictEqual((await ask()).status, 200);
	assert.deepStrictEqual(times(), [0, 7000]);
});

test('with jitter it is never sooner, and at most half as long again', async () => {
	for (const [random, at] of [[0.5, 8750], [0.999999, 10499]]) {
		const { ask, times } = scripted([[429, { 'Retry-After': '7' }], [200, {}]], { random: () => random });
		await ask();
		assert.deepStrictEqual(times(), [0, at]);
	}
});

test('attempts are counted, and the last answer is returned', async () => {
	const { ask, times } = scripted([[429, { 'Retry-After': '1' }]]);
	assert.strictEqual((await ask()).status, 429);
	assert.strictEqual(times().length, 5);
	const twice = scripted([[429, { 'Retry-After': '1' }]], { attempts: 2 });
	await twice.ask();
	assert.strictEqual(twice.times().length, 2);
	await assert.rejects(scripted([[200, {}]]).ask(URL_, { attempts: 0 }), TypeError);
});

test('a wait beyond the budget is not begun: the denial is returned at once', async () => {
	const { ask, clock, times } = scripted([[429, { 'Retry-After': '61' }]]);
	const start = clock.at;
	assert.strictEqual((await ask()).status, 429);
	assert.deepStrictEqual(times(), [0]);
	assert.strictEqual(clock.at, start);
});

test('what was sent and denied keeps its answer when another learns of a wait beyond the budget', async () => {
	const longer = async () => {
		for (let i = 0; i < 9; i++) /* the first has its answer, and waits */
			await new Promise(setImmediate);
		return new Response('other', { status: 429, headers: { 'Retry-After': '90' } });
	};
	for (const [first, expected] of [[[429, { 'Retry-After': '1' }], 429], [[503, { 'Retry-After': '1' }], 503],
		[() => Promise.reject(new TypeError('failed')), 'TypeError']]) {
		const { both, clock, times } = scripted([first, longer, [200, {}]], { random: () => 0.5 });
		const [one, other] = await clock.run(Promise.allSettled([both(URL_), both(URL_)]));
		assert.strictEqual(one.value?.status ?? one.reason.name, expected);
		if (one.value)
			assert.strictEqual(await one.value.text(), 'body');
		assert.deepStrictEqual([other.value.status, times()], [429, [0, 0]]);
	}
});

test('and who comes meanwhile is not sent at all', async () => {
	const { ask, times } = scripted([[429, { 'Retry-After': '61' }], [200, {}]]);
	await ask();
	await assert.rejects(ask(), (error) => {
		assert.ok(error instanceof RateLimitedError);
		assert.deepStrictEqual([error.code, error.origin, error.retryAfterMs],
			['ERR_RATE_LIMITED', 'http://api.test', 61000]);
		return true;
	});
	assert.deepStrictEqual(times(), [0]);
	assert.strictEqual((await ask(URL_, { budgetMs: 61000 })).status, 200);
	assert.deepStrictEqual(times(), [0, 61000]);
});

test('another origin, and another group, are others', async () => {
	const { ask } = scripted([[429, { 'Retry-After': '61' }], [200, {}]]);
	await ask();
	assert.strictEqual((await ask('http://other.test/')).status, 200);
	const grouped = scripted([[429, { 'Retry-After': '61' }], [200, {}]], { group: (url) => url.pathname });
	await grouped.ask();
	assert.strictEqual((await grouped.ask('http://api.test/other')).status, 200);
	await assert.rejects(grouped.ask('http://else.test/things'), RateLimitedError);
});

test('what is not idempotent is sent once', async () => {
	for (const method of ['POST', 'PATCH', 'post']) {
		const { ask, times } = scripted([[429, { 'Retry-After': '1' }]]);
		assert.strictEqual((await ask(URL_, { method, body: 'x' })).status, 429);
		assert.deepStrictEqual(times(), [0]);
	}
});

test('unless it has a key, or the caller says so; never a body that is a stream', async () => {
	const count = async (init, options) => {
		const { ask, times } = scripted([[429, { 'Retry-After': '1' }], [200, {}]], options);
		await ask(URL_, { method: 'POST', body: 'x', ...init });
		return times().length;
	};
	assert.strictEqual(await count({ headers: { 'Idempotency-Key': 'a1' } }), 2);
	assert.strictEqual(await count({ headers: { 'Idempotency-Key': '' } }), 1);
	assert.strictEqual(await count({ idempotent: true }), 2);
	assert.strictEqual(await count({}, { idempotent: true }), 2);
	assert.strictEqual(await count({ method: 'PUT' }), 2);
	assert.strictEqual(await count({ method: 'PUT', idempotent: false }), 1);
	assert.strictEqual(await count({ idempotent: true, body: new Blob(['x']) }), 2);
	assert.strictEqual(await count({ idempotent: true, body: new Blob(['x']).stream(), duplex: 'half' }), 1);
	assert.strictEqual(await count({ idempotent: true, body: (async function* () {})(), duplex: 'half' }), 1);
});

test('a Request is sent again with its body', async () => {
	const bodies = [];
	const { ask } = scripted([async (input) => {
		bodies.push(await input.text());
		return new Response('', { status: bodies.length < 3 ? 429 : 200, headers: { 'Retry-After': '0' } });
	}]);
	const answer = await ask(new Request(URL_, { method: 'PUT', body: 'whole' }));
	assert.strictEqual(answer.status, 200);
	assert.deepStrictEqual(bodies, ['whole', 'whole', 'whole']);
});

test('errors of the network, and 502, 503, 504, are tried again after a wait that doubles', async () => {
	const broken = () => Promise.reject(new TypeError('fetch failed'));
	const { ask, times } = scripted([broken, [503, {}], [502, { 'Retry-After': '9' }], [504, {}], [200, {}]],
		{ random: () => 0.999 });
	assert.strictEqual((await ask()).status, 200);
	assert.deepStrictEqual(times(), [0, 500, 1499, 10499, 14495]);
	await assert.rejects(scripted([broken], { attempts: 3 }).ask(), /fetch failed/);
	const post = scripted([broken]);
	await assert.rejects(post.ask(URL_, { method: 'POST' }), /fetch failed/);
	assert.strictEqual(post.times().length, 1);
	const wrong = scripted([[500, {}]]);
	await wrong.ask();
	assert.strictEqual(wrong.times().length, 1);
});

const never = (input, init) => new Promise((resolve, reject) => {
	init.signal.addEventListener('abort', () => reject(init.signal.reason));
});

test('the budget ends a request that hangs', async () => {
	const clock = new Clock();
	const ask = createFetch({ fetch: never, clock, budgetMs: 3000 });
	const start = clock.at;
	await assert.rejects(clock.run(ask(URL_)), { name: 'TimeoutError' });
	assert.strictEqual(clock.at - start, 3000);
});

test('a signal is heard in the line, in a wait and under way', async () => {
	const { both, clock, times } = scripted([[429, { 'Retry-After': '7' }], [200, {}]]);
	const controller = new AbortController();
	const asked = both(URL_, { signal: controller.signal });
	clock.after(1000, () => controller.abort(new Error('enough')));
	await assert.rejects(clock.run(asked), /enough/);
	assert.deepStrictEqual(times(), [0]);
	await assert.rejects(clock.run(both(URL_, { signal: AbortSignal.abort(new Error('before')) })), /before/);
	const hung = new Clock();
	const under = createFetch({ fetch: never, clock: hung })(URL_, { signal: controller.signal });
	await assert.rejects(hung.run(under), /enough/);
	const backing = scripted([[503, {}]], { random: () => 0.999 });
	const second = new AbortController();
	const waiting = backing.both(URL_, { signal: second.signal });
	backing.clock.after(100, () => second.abort(new Error('no more')));
	await assert.rejects(backing.clock.run(waiting), /no more/);
	assert.deepStrictEqual(backing.times(), [0]);
});

test('onWait is told; an unknown option is refused', async () => {
	const waits = [];
	const { ask } = scripted([[429, { 'Retry-After': '7' }], [200, {}]], { onWait: (wait) => waits.push(wait) });
	await ask();
	assert.deepStrictEqual(waits, [{ origin: 'http://api.test', waitMs: 7000 }]);
	assert.throws(() => createFetch({ retries: 3 }), /no option 'retries'/);
});

/* ---- against an application that asks a real server ------------------------------------------------------ */

/** Every request to it is decided by the server, at the instant of the clock; the answer has the server's headers. */
async function limitedApp(sluice, clock, limit) {
	const seen = { allowed: 0, denied: 0, early: 0, free: 0 };
	const app = await startApp(async (request, response) => {
		const decided = await fetch(`http://127.0.0.1:${sluice.http}/v1/check`, { method: 'POST',
			body: JSON.stringify({ key: limit, limits: [limit], at: clock.at }) });
		const body = await decided.json();
		if (clock.at < seen.free)
			seen.early++;
		seen[body.allowed ? 'allowed' : 'denied']++;
		for (const name of ['ratelimit', 'ratelimit-policy', 'retry-after']) {
			if (decided.headers.has(name))
				response.setHeader(name, decided.headers.get(name));
		}
		response.removeHeader('date');
		response.sendDate = false;
		response.writeHead(body.allowed ? 200 : 429).end(JSON.stringify(body));
	});
	return { seen, ...app };
}

test('with a real server', async (t) => {
	const sluice = await startSluice('client-time: true\nlimits: []\n');
	t.after(() => sluice.stop());
	const crowd = async (limit, count, options) => {
		const clock = new Clock();
		const app = await limitedApp(sluice, clock, limit);
		const ask = createFetch({ clock, fetch: clock.counted(fetch), budgetMs: Infinity, attempts: 50, ...options });
		const start = clock.at;
		const answers = await clock.run(Promise.all(Array.from({ length: count }, async () => {
			const answer = await ask(app.url);
			await clock.counted(() => answer.text())();
			return answer.status;
		})));
		await app.stop();
		return { ok: answers.filter((status) => status === 200).length, ms: clock.at - start, ...app.seen };
	};

	await t.test('100 at once under 10 a second: all are served, and hardly anybody knocks in vain', async () => {
		const { ok, denied, ms } = await crowd('sliding-log 10/1s', 100);
		assert.strictEqual(ok, 100);
		assert.ok(denied <= 10, `${denied} denials`);
		assert.ok(ms >= 9000 && ms < 30000, `${ms} ms`);
	});

	await t.test('without what servers tell of what is left, by Retry-After alone, one knocks a wait', async () => {
		const blind = async (input, init) => {
			const answer = await fetch(input, init);
			const headers = new Headers(answer.headers);
			headers.delete('ratelimit');
			return new Response(answer.body, { status: answer.status, headers });
		};
		const clock = new Clock();
		const app = await limitedApp(sluice, clock, 'fixed-window 10/10s');
		const ask = createFetch({ clock, fetch: clock.counted(blind), budgetMs: Infinity, attempts: 50 });
		const statuses = await clock.run(Promise.all(Array.from({ length: 60 },
			async () => (await ask(app.url)).status)));
		await app.stop();
		assert.deepStrictEqual(new Set(statuses), new Set([200]));
		assert.ok(app.seen.denied <= 40, `${app.seen.denied} denials`);
	});

	await t.test('a bucket is spent at its rate', async () => {
		const { ok, denied, ms } = await crowd('token-bucket 10/1s burst 20', 200);
		assert.strictEqual(ok, 200);
		assert.ok(denied <= 10, `${denied} denials`);
		assert.ok(ms >= 18000 && ms < 60000, `${ms} ms`);
	});

	await t.test('one after the other, within the quota: nobody waits', async () => {
		const clock = new Clock();
		const app = await limitedApp(sluice, clock, 'sliding-log 50/1h');
		const ask = createFetch({ clock, fetch: clock.counted(fetch) });
		const start = clock.at;
		for (let i = 0; i < 25; i++)
			assert.strictEqual((await clock.run(ask(app.url))).status, 200);
		await app.stop();
		assert.strictEqual(clock.at, start);
	});
});
