/* sluice/express under Express 5 and 4: the middleware, and the Store under express-rate-limit. */
'use strict';

const assert = require('node:assert');
const http2 = require('node:http2');
const test = require('node:test');
const { HOSTED, LEASE, ask, asked, asked2, late, leave, library, part, startApp, startSluice, statuses, steered,
	until } = require('./common.js');

const { sluice, SluiceStore } = part('express');
const { rateLimit, MemoryStore } = library('express-rate-limit');

async function app(t, middlewares, name = 'express') {
	const express = library(name);
	const one = express();
	for (const middleware of [middlewares].flat())
		one.use(middleware);
	one.get('/{*path}'.slice(0, name === 'express' ? undefined : 1), (request, response) => response.send('fine'));
	one.use((error, request, response, next) => response.status(500).send(error.message));
	const started = await startApp(one);
	t.after(() => started.stop());
	return started.url;
}

for (const name of ['express', 'express-4']) {
	test(`${name}: three are served, the fourth is told why not`, async (t) => {
		const { limiter } = steered();
		const url = await app(t, sluice({ limiter, limits: ['sliding-log 3/1m', '100/1h'] }), name);
		const answers = await asked(4, url);
		assert.deepStrictEqual(statuses(answers), [200, 200, 200, 429]);
		const [first, , , last] = answers;
		assert.strictEqual(first.headers['ratelimit-policy'],
			'"sliding-log 3/1m";q=3;w=60, "sliding-window 100/1h";q=100;w=3600');
		assert.strictEqual(first.headers.ratelimit, '"sliding-log 3/1m";r=2;t=60');
		assert.strictEqual(first.headers['retry-after'], undefined);
		assert.strictEqual(last.headers['retry-after'], '60');
		assert.strictEqual(last.headers.ratelimit, '"sliding-log 3/1m";r=0;t=60');
		assert.strictEqual(last.headers['content-type'], 'application/problem+json');
		assert.strictEqual(last.headers['cache-control'], 'no-store');
		assert.deepStrictEqual(JSON.parse(last.body), {
			type: 'https://iana.org/assignments/http-problem-types#quota-exceeded', title: 'Quota Exceeded',
				status: 429,
			detail: 'limit sliding-log 3/1m has 0 left, the request costs 1: retry in 60000 ms',
			'violated-policies': ['sliding-log 3/1m'] });
	});
}

for (const name of ['express', 'express-4']) {
	test(`${name}: what is answered while a request is decided stays, and a lease of it is released`, async (t) => {
		for (const limits of ['5/1m', '0/1m', LEASE]) {
			const { limiter } = steered();
			const method = limits === LEASE ? 'acquire' : 'check', decide = limiter[method].bind(limiter);
			let answered;
			const first = (request, response, next) => {
				answered = new Promise((resolve) => response.once('finish', resolve));
				next();
				response.status(503).end('too slow');
			};
			limiter[method] = async (...words) => {
				const result = await decide(...words);
				await answered;
				return result;
			};
			const url = await app(t, [first, sluice({ limiter, limits })], name);
			const answer = await ask(url);
			assert.deepStrictEqual([answer.status, answer.body], [503, 'too slow']);
			if (limits === LEASE)
				await until(async () => (await limiter.holders('127.0.0.1', LEASE)).length === 0);
			assert.strictEqual((await ask(url)).status, 503);
		}
	});

	test(`${name}: what onDenied throws, or rejects with, goes to the error handler`, async (t) => {
		for (const onDenied of [() => {
			throw new Error('mine');
		}, async () => {
			throw new Error('mine');
		}]) {
			const { limiter } = steered();
			const answer = await ask(await app(t, sluice({ limiter, limits: '0/1m', onDenied }), name));
			assert.deepStrictEqual([answer.status, answer.body], [500, 'mine']);
		}
	});
}

test('after the wait that was told it is served', async (t) => {
	const { limiter, at } = steered();
	const url = await app(t, sluice({ limiter, limits: 'sliding-log 1/7s' }));
	assert.deepStrictEqual(statuses(await asked(2, url)), [200, 429]);
	at.now += 6999;
	assert.strictEqual((await ask(url)).status, 429);
	at.now += 1;
	assert.strictEqual((await ask(url)).status, 200);
});

test('who stands behind a proxy is found from the right, IPv6 by its network', async (t) => {
	const { limiter } = steered();
	const seen = [];
	const key = (limiter.check).bind(limiter);
	limiter.check = (k, ...rest) => {
		seen.push(k);
		return key(k, ...rest);
	};
	const url = await app(t, sluice({ limiter, limits: '100/1m', trustedProxies: ['127.0.0.0/8', '10.0.0.0/8'] }));
	for (const forwarded of [undefined, '192.0.2.7', '6.6.6.6, 192.0.2.7', '6.6.6.6, 192.0.2.7, 10.1.2.3',
		'junk, 10.1.2.3',
		'2001:db8:1:2:3:4:5:6', '[2001:db8:1:2::9]:443', '::ffff:192.0.2.7', '192.0.2.7:4711', '192.0.2.7, unknown',
			'010.0.0.1'])
		await ask(url, { headers: forwarded ? { 'x-forwarded-for': forwarded } : {} });
	await ask(url, { headers: { 'x-forwarded-for': ['6.6.6.6', '192.0.2.8'] } });
	assert.deepStrictEqual(seen, ['127.0.0.1', '192.0.2.7', '192.0.2.7', '192.0.2.7', '10.1.2.3', '2001:db8:1:2::/64',
		'2001:db8:1:2::/64', '192.0.2.7', '192.0.2.7', '127.0.0.1', '127.0.0.1', '192.0.2.8']);
});

test('of a peer that is no trusted proxy nothing is believed', async (t) => {
	const { limiter } = steered();
	const url = await app(t, sluice({ limiter, limits: '1/1h', trustedProxies: [] }));
	assert.strictEqual((await ask(url, { headers: { 'x-forwarded-for': '192.0.2.1' } })).status, 200);
	assert.strictEqual((await ask(url, { headers: { 'x-forwarded-for': '192.0.2.2' } })).status, 429);
});

test('keys, costs, functions, other header forms, a body of one\'s own', async (t) => {
	const { limiter } = steered();
	const url = await app(t, sluice({ limiter, key: (request) => request.headers['x-user'], prefix: 'user:',
		limits: (request) => (request.headers['x-plan'] === 'pro' ? 'fixed-window 100/1h' : 'fixed-window 4/1h'),
			cost: () => 2,
		headers: ['draft6', 'legacy-delta'], skip: (request) => request.path === '/health',
		onDenied: (request, response, { result }) => response.status(420).json({ wait: result.retryAfter > 0 }) }));
	const [first, , third] = await asked(3, url, { headers: { 'x-user': 'ann' } });
	assert.strictEqual(first.headers['ratelimit-limit'], '4');
	assert.strictEqual(first.headers['ratelimit-remaining'], '2');
	assert.strictEqual(first.headers['x-ratelimit-remaining'], '2');
	assert.strictEqual(first.headers['ratelimit-policy'], '4;w=3600');
	assert.deepStrictEqual([third.status, third.body], [420, '{"wait":true}']);
	assert.strictEqual((await ask(url, { headers: { 'x-user': 'bob' } })).status, 200);
	assert.strictEqual((await ask(url, { headers: { 'x-user': 'ann', 'x-plan': 'pro' } })).status, 200);
	assert.strictEqual((await ask(url, { headers: { 'x-user': 'ann' }, path: '/health' })).status, 200);
});

test('a place in flight is given back with the answer', async (t) => {
	const { limiter } = steered();
	const waiting = [];
	let decided = 0;
	const all = () => ++decided === 5 && waiting.splice(0).forEach((next) => next());
	const url = await app(t, [sluice({ limiter, limits: ['concurrency 2 lease 1h', '1000/1h'],
		onDenied: (request, response, { status }) => {
			all();
			response.status(status).end();
		} }), (request, response, next) => {
		if (decided >= 5)
			return next();
		waiting.push(next);
		return all();
	}]);
	const first = await Promise.all([1, 2, 3, 4, 5].map(() => ask(url)));
	assert.deepStrictEqual(statuses(first).sort(), [200, 200, 429, 429, 429]);
	assert.strictEqual(first.find(({ status }) => status === 429).headers['ratelimit-policy'],
		'"concurrency 2 lease 1h";q=2;qu="concurrent-requests", "sliding-window 1000/1h";q=1000;w=3600');
	assert.deepStrictEqual(statuses(await asked(3, url)), [200, 200, 200]);
});

const GET = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';

for (const name of ['express', 'express-4']) {
	test(`${name}: clients that leave before the decision hold no place, and are not served`, async (t) => {
		const world = late();
		const gone = [];
		let served = 0;
		const url = await app(t, [(request, response, next) => {
			gone.push(new Promise((resolve) => request.socket.once('close', resolve)));
			next();
		}, sluice({ limiter: world.limiter, limits: LEASE }), (request, response, next) => {
			served++;
			next();
		}], name);
		const both = until(() => world.asked === 2);
		await Promise.all([leave(url, GET, both), leave(url, GET, both)]);
		await Promise.all(gone);
		assert.strictEqual(await world.held(), 2);
		world.go();
		await until(async () => await world.held() === 0);
		assert.strictEqual(served, 0);
		assert.deepStrictEqual(statuses(await asked(3, url)), [200, 200, 200]);
	});
}

test('a client that leaves gives back the places of all requests of its connection', async (t) => {
	const { limiter } = steered();
	const held = async () => (await limiter.holders('127.0.0.1', LEASE)).length;
	let served = 0;
	const url = await app(t, [sluice({ limiter, limits: LEASE }), () => served++]);
	await leave(url, GET + GET, until(() => served === 2)); /* the second has no socket while the first is open */
	await until(async () => await held() === 0);
});

test('a client that leaves while a request is delayed is not served', async (t) => {
	const { limiter } = steered();
	const held = async () => (await limiter.holders('127.0.0.1', LEASE)).length;
	let served = 0;
	const url = await app(t, [sluice({ limiter, limits: ['leaky-bucket 1/1s queue 5', LEASE] }),
		(request, response) => {
			served++;
			response.end();
		}]);
	assert.strictEqual((await ask(url)).status, 200);
	await leave(url, GET, until(async () => await held() === 1)); /* delayed by 1 s */
	await until(async () => await held() === 0);
	await new Promise((resolve) => setTimeout(resolve, 1100));
	assert.strictEqual(served, 1);
});

/** What `poll()` tells within one hour, 60 times in less than the 100 ms for which an instant holds still: a busy
 * machine takes longer now and then. */
async function polled(poll) {
	const told = new Set();
	let hour;
	for (let i = 0; i < 60;) {
		const now = Date.now(), left = 3600000 - now % 3600000;
		if (left < 5000) /* it would end on the way */
			await new Promise((resolve) => setTimeout(resolve, left + 1000));
		hour = (Math.floor(Date.now() / 3600000) + 1) * 3600;
		const begun = performance.now(), seen = await poll();
		if (performance.now() - begun < 90) {
			told.add(seen - hour);
			i++;
		}
		await new Promise((resolve) => setTimeout(resolve, i % 3));
	}
	return [...told];
}

test('an instant at which a window ends holds still, in process and at a server', async (t) => {
	const server = await startSluice('limits: []\n');
	t.after(() => server.stop());
	const { Limiter } = part();
	for (const store of ['memory', `redis://127.0.0.1:${server.resp}`]) {
		const limiter = new Limiter({ store, timeout: 10000 });
		t.after(() => limiter.close());
		for (const [limits, wait] of [['fixed-window 3/1h', 0], ['3/1h', 3600], ['3/hour at UTC', 0]]) {
			const url = await app(t, sluice({ limiter, limits, headers: 'legacy-epoch' }));
			const poll = async () => Number((await ask(url)).headers['x-ratelimit-reset']);
			assert.deepStrictEqual(await polled(poll), [wait], `${limits} ${store}`);
		}
		for (const [algorithm, wait] of [['fixed-window', 0], ['sliding-window', 1200]]) {
			const erl = new SluiceStore({ limiter, algorithm, prefix: algorithm });
			erl.init({ windowMs: 3600000, limit: 3 });
			for (let i = 0; i < 3; i++)
				await erl.increment('k');
			const poll = async () => Math.ceil((await erl.increment('k')).resetTime / 1000);
			assert.deepStrictEqual(await polled(poll), [wait], `${algorithm} ${store}`);
		}
	}
});

test('by a policy, in process and at a server', async (t) => {
	const policy = 'limits:\n  - {name: login, when: {method: GET, path: /login}, key: ip, limit: sliding-log 1/1h}\n' +
		'  - {name: per-user, key: user, limit: sliding-log 2/1h}\n';
	const server = await startSluice(policy);
	t.after(() => server.stop());
	const { Limiter } = part();
	const remote = new Limiter({ store: `redis://127.0.0.1:${server.resp}` });
	t.after(() => remote.close());
	for (const limiter of [steered({ policy }).limiter, remote]) {
		const url = await app(t, sluice({ limiter, attributes: (request) => ({ user: request.headers['x-user'] }) }));
		assert.strictEqual((await ask(url, { path: '/login?next=/' })).status, 200);
		const denied = await ask(url, { path: '/login' });
		assert.strictEqual(denied.status, 429);
		assert.deepStrictEqual(JSON.parse(denied.body)['violated-policies'], ['login']);
		assert.match(denied.headers.ratelimit, /^"login";r=0(;t=3600)?$/);
		assert.strictEqual(denied.headers['ratelimit-policy'], '"login";q=1;w=3600');
		assert.deepStrictEqual(statuses(await asked(3, url, { headers: { 'x-user': 'ann' } })), [200, 200, 429]);
		assert.deepStrictEqual(statuses(await asked(3, url)), [200, 200, 200]);
	}
});

test('a policy says how IPv6 clients count, unless the options do', async (t) => {
	const limit = 'limits: [{name: one, when: {ip: "2001:db8:1:201::7"}, key: [], limit: sliding-log 0/1h}, ' +
		'{name: all, key: ip, limit: sliding-log 1/1h}]\n';
	for (const [policy, options, told] of [['', {}, [429, 200, 429]], ['ipv6-prefix: 48\n', {}, [429, 429, 429]],
		['ipv6-prefix: 128\n', {}, [429, 200, 200]], ['', { ipv6Prefix: 128 }, [429, 200, 429]],
		['ipv6-prefix: 128\n', { ipv6Prefix: 56 }, [200, 200, 429]]]) {
		const { limiter } = steered({ policy: policy + limit });
		const url = await app(t, sluice({ limiter, ...options })), seen = [];
		for (const address of ['2001:db8:1:201::7', '2001:db8:1:300::8', '2001:db8:1:300::9'])
			seen.push((await ask(url, { headers: { 'x-forwarded-for': address } })).status);
		assert.deepStrictEqual(seen, told, `${policy} ${JSON.stringify(options)}`);
	}
});

test('HTTP/2: the host of a request is known', async (t) => {
	const { limiter } = steered({ policy: HOSTED });
	const middleware = sluice({ limiter });
	const server = http2.createServer((request, response) => middleware(request, response, () => response.end('fine')));
	await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
	t.after(() => server.close());
	assert.deepStrictEqual(await asked2(server.address().port, ['api.example.com', 'api.example.com',
		'www.example.com']), [200, 429, 200]);
});

test('when nobody answers: open, closed or an error, as was said', async (t) => {
	const gone = 'redis://127.0.0.1:1';
	const open = await ask(await app(t, sluice({ store: gone, limits: '1/1h' })));
	assert.deepStrictEqual([open.status, open.headers['sluice-failed-open']], [200, '1']);
	const closed = await ask(await app(t, sluice({ store: gone, limits: '1/1h', onError: 'deny' })));
	assert.strictEqual(closed.status, 503);
	assert.strictEqual(JSON.parse(closed.body).type,
		'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity');
	assert.strictEqual((await ask(await app(t, sluice({ store: gone, limits: '1/1h', onError: 'throw' })))).status,
		500);
	const wrong = await ask(await app(t, sluice({ limiter: steered().limiter, limits: '100/60x' })));
	assert.strictEqual(wrong.status, 500);
	assert.match(wrong.body, /column/);
});

test('wrong options are refused when they are given', () => {
	const { limiter } = steered();
	for (const options of [{}, { limiter, store: 'memory' }, { limiter, limit: '1/1h' }, { limiter,
		headers: 'draft-99' },
		{ limiter, headers: ['draft10', 'draft6'] }, { limiter, trustedProxies: ['10.0.0.0/33'] }, { limiter,
			ipv6Prefix: 0 },
		{ limiter, onError: 'maybe' }, { limiter, clientAddress: 'x-real-ip' }, { limiter, limits: '1/1h',
			attributes: () => ({}) }])
		assert.throws(() => sluice(options), TypeError, JSON.stringify(Object.keys(options)));
});

/* ---- express-rate-limit
 * ----------------------------------------------------------------------------------------------- */

/** Runs with what the library's validations say: it logs them, it throws none. */
async function limited(t, options, store, count, asking) {
	const said = [];
	const logger = { error: (error) => said.push(error.code ?? error.message),
		warn: (error) => said.push(error.code ?? error.message) };
	const url = await app(t, rateLimit({ windowMs: 60000, limit: 3, standardHeaders: 'draft-7', logger, store,
		...options }));
	const answers = await asked(count, url, asking);
	return { answers, said, url };
}

test('express-rate-limit: our store answers as its own does, and no validation speaks', async (t) => {
	const own = await limited(t, {}, new MemoryStore(), 5);
	for (const algorithm of ['sliding-window', 'sliding-log', 'fixed-window']) {
		const { limiter } = steered();
		const ours = await limited(t, {}, new SluiceStore({ limiter, algorithm }), 5);
		assert.deepStrictEqual(statuses(ours.answers), statuses(own.answers));
		assert.deepStrictEqual(ours.said, own.said);
		assert.deepStrictEqual(ours.said, []);
		const left = (answers) => answers.map(({ headers }) => /remaining=(\d+)/.exec(headers.ratelimit)[1]);
		assert.deepStrictEqual(left(ours.answers), left(own.answers));
		assert.deepStrictEqual(ours.answers.map(({ body }) => body), own.answers.map(({ body }) => body));
	}
});

test('express-rate-limit: Retry-After is the wait after which the same is admitted', async (t) => {
	const { limiter, at } = steered();
	const { answers, url } = await limited(t, {}, new SluiceStore({ limiter, algorithm: 'sliding-log' }), 4);
	assert.strictEqual(answers[3].headers['retry-after'], '60');
	at.now += 59999;
	assert.strictEqual((await ask(url)).status, 429);
	at.now += 1;
	assert.strictEqual((await ask(url)).status, 200);
});

test('express-rate-limit: its own validations are not set off, nor silenced', async (t) => {
	const { limiter } = steered();
	const store = new SluiceStore({ limiter });
	const twice = await limited(t, {}, store, 1);
	assert.deepStrictEqual(twice.said, []);
	const said = [];
	const logger = { error: (error) => said.push(error.code), warn: (error) => said.push(error.code) };
	rateLimit({ store, logger });
	assert.deepStrictEqual(said, ['ERR_ERL_STORE_REUSE']);
	const double = () => rateLimit({ store: new SluiceStore({ limiter, prefix: 'x:' }), logger });
	await ask(await app(t, [double(), double()]));
	assert.deepStrictEqual(said, ['ERR_ERL_STORE_REUSE', 'ERR_ERL_DOUBLE_COUNT']);
	const apart = await app(t, [rateLimit({ store: new SluiceStore({ limiter, prefix: 'a:' }), logger }),
		rateLimit({ store: new SluiceStore({ limiter, prefix: 'b:' }), logger })]);
	await ask(apart);
	const forwarded = await app(t, rateLimit({ store: new SluiceStore({ limiter, prefix: 'c:' }), logger }));
	await ask(forwarded, { headers: { 'x-forwarded-for': '192.0.2.1' } });
	assert.deepStrictEqual(said.slice(2), ['ERR_ERL_UNEXPECTED_X_FORWARDED_FOR']);
});

test('express-rate-limit: skipped and failed requests, limits by request, resetKey and getKey', async (t) => {
	const { limiter } = steered();
	const failing = [(request, response, next) => (request.headers.fail ? response.status(500).end() : next())];
	const store = () => new SluiceStore({ limiter, algorithm: 'sliding-log', prefix: `t${Math.random()}:` });
	const skip = rateLimit({ windowMs: 60000, limit: 2, skipFailedRequests: true, store: store() });
	const url = await app(t, [skip, ...failing]);
	assert.deepStrictEqual(statuses(await asked(4, url, { headers: { fail: '1' } })), [500, 500, 500, 500]);
	assert.deepStrictEqual(statuses(await asked(5, url)), [200, 200, 429, 429, 429]);
	await skip.resetKey('127.0.0.1');
	assert.strictEqual(await skip.getKey('127.0.0.1'), undefined);
	assert.deepStrictEqual(statuses(await asked(3, url)), [200, 200, 429]);
	const info = await skip.getKey('127.0.0.1');
	assert.strictEqual(info.totalHits, 2);
	assert.ok(info.resetTime > new Date());
	const succeeding = await app(t, rateLimit({ windowMs: 60000, limit: 2, skipSuccessfulRequests: true,
		store: store() }));
	assert.deepStrictEqual(statuses(await asked(6, succeeding)), [200, 200, 200, 200, 200, 200]);
	const plans = await app(t, rateLimit({ windowMs: 60000, store: store(),
		limit: (request) => Number(request.headers.plan) }));
	assert.deepStrictEqual(statuses(await asked(4, plans, { headers: { plan: '3' } })), [200, 200, 200, 429]);
	assert.strictEqual((await ask(plans, { headers: { plan: '9' } })).status, 200);
});

test('express-rate-limit: who obeys Retry-After is let in, also where the limit is a function', async (t) => {
	for (const algorithm of ['sliding-window', 'sliding-log', 'fixed-window']) {
		for (const limit of [5, () => 5]) {
			const { limiter, at } = steered();
			const { answers, url } = await limited(t, { limit }, new SluiceStore({ limiter, algorithm }), 12);
			assert.deepStrictEqual(statuses(answers), [...Array(5).fill(200), ...Array(7).fill(429)]);
			at.now += Number(answers[11].headers['retry-after']) * 1000;
			assert.strictEqual((await ask(url)).status, 200, `${algorithm} ${limit}`);
		}
	}
});

test('express-rate-limit: a store that does not answer is its error, or passOnStoreError', async (t) => {
	const gone = () => new SluiceStore({ store: 'redis://127.0.0.1:1' });
	assert.strictEqual((await limited(t, {}, gone(), 1)).answers[0].status, 500);
	assert.strictEqual((await limited(t, { passOnStoreError: true }, gone(), 1)).answers[0].status, 200);
});
