/* sluice/hono: on Node's server with a limiter in process and over RESP, and with nothing but fetch over HTTP. */
'use strict';

const assert = require('node:assert');
const { once } = require('node:events');
const test = require('node:test');
const { LEASE, asked, ask, late, leave, library, part, startApp, startSluice, statuses, steered,
	until } = require('./common.js');

const { sluice } = part('hono');
const { Hono } = library('hono');
const { serve } = library('@hono/node-server');

async function node(t, options, handler = (context) => context.text(String(context.get('sluice')?.remaining))) {
	const app = new Hono();
	app.use(sluice(options));
	app.get('*', handler);
	app.onError((error, context) => context.text(error.message, 500));
	const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' });
	await once(server, 'listening');
	t.after(() => new Promise((resolve) => {
		server.close(resolve);
		server.closeAllConnections();
	}));
	return `http://127.0.0.1:${server.address().port}/`;
}

test('on Node: three are served, the fourth is told why not', async (t) => {
	const { limiter, at } = steered();
	const url = await node(t, { limiter, limits: 'sliding-log 3/1m' });
	const answers = await asked(4, url);
	assert.deepStrictEqual(statuses(answers), [200, 200, 200, 429]);
	assert.deepStrictEqual(answers.slice(0, 3).map(({ body }) => body), ['2', '1', '0']);
	assert.strictEqual(answers[0].headers.ratelimit, '"sliding-log 3/1m";r=2;t=60');
	const last = answers[3];
	assert.deepStrictEqual([last.headers['retry-after'], last.headers['content-type']], ['60',
		'application/problem+json']);
	assert.deepStrictEqual(JSON.parse(last.body)['violated-policies'], ['sliding-log 3/1m']);
	at.now += 60000;
	assert.strictEqual((await ask(url)).status, 200);
});

test('behind proxies, by IPv6 networks; a place in flight is given back', async (t) => {
	const { limiter } = steered();
	const url = await node(t, { limiter, limits: ['sliding-log 2/1m', 'concurrency 1 lease 1h'] });
	const seen = [];
	for (const forwarded of ['2001:db8::1', '2001:db8::2', '2001:db8::3', '6.6.6.6, 192.0.2.1'])
		seen.push((await ask(url, { headers: { 'x-forwarded-for': forwarded } })).status);
	assert.deepStrictEqual(seen, [200, 200, 429, 200]);
});

/** A body that says when it was cancelled, and is sent piece by piece; after `pieces` it ends, or fails. */
function slow(pieces, { fails = false } = {}) {
	const one = { cancelled: false };
	one.body = new ReadableStream({
		pull(controller) {
			if (pieces-- > 0)
				controller.enqueue(new TextEncoder().encode('piece'));
			else if (fails)
				controller.error(new Error('failed'));
			else
				controller.close();
		},
		cancel() {
			one.cancelled = true;
		},
	}, { highWaterMark: 0 });
	return one;
}

/** An app without a runtime, with handlers that stream; and how many places are held. */
function streaming(handler) {
	const { limiter } = steered();
	const app = new Hono();
	app.use(sluice({ limiter, limits: LEASE, key: () => 'k' }));
	app.get('*', handler);
	app.onError((error, context) => context.text(error.message, 500));
	return { app, held: async () => (await limiter.holders('k', LEASE)).length };
}

test('a place in flight is held until a streamed body has ended', async () => {
	const { app, held } = streaming((context) => context.body(slow(3).body, 200, { 'X-Own': 'kept' }));
	const answer = await app.request('/');
	assert.deepStrictEqual([await held(), answer.headers.get('x-own')], [1, 'kept']);
	const reader = answer.body.getReader();
	await reader.read();
	assert.strictEqual(await held(), 1);
	const second = await app.request('/');
	assert.deepStrictEqual([second.status, (await app.request('/')).status, await held()], [200, 429, 2]);
	assert.strictEqual(await second.text(), 'piecepiecepiece');
	assert.strictEqual(await held(), 1);
	while (!(await reader.read()).done);
	assert.strictEqual(await held(), 0);
});

test('or has failed, or was cancelled; without a body it is given back at once', async () => {
	const failing = streaming((context) => context.body(slow(1, { fails: true }).body));
	await assert.rejects((await failing.app.request('/')).text(), /failed/);
	assert.strictEqual(await failing.held(), 0);
	const source = slow(9);
	const cancelled = streaming((context) => context.body(source.body));
	const answer = await cancelled.app.request('/');
	assert.strictEqual(await cancelled.held(), 1);
	await answer.body.cancel();
	assert.deepStrictEqual([await cancelled.held(), source.cancelled], [0, true]);
	for (const [method, handler] of [['GET', (context) => context.body(null, 204)],
		['HEAD', (context) => context.text('fine')], ['GET', () => {
			throw new Error('wrong');
		}]]) {
		const { app, held } = streaming(handler);
		await (await app.request('/', { method })).text();
		assert.strictEqual(await held(), 0, `${method} ${handler}`);
	}
});

test('or the runtime aborts the request', async () => {
	const { app, held } = streaming((context) => context.body(slow(9).body));
	const leaving = new AbortController();
	await app.request('/', { signal: leaving.signal });
	assert.strictEqual(await held(), 1);
	leaving.abort();
	assert.strictEqual(await held(), 0);
	assert.strictEqual((await app.request('/', { signal: leaving.signal })).status, 499);
	assert.strictEqual(await held(), 0);
});

test('on Node: until the response is sent, or its client has left', async (t) => {
	const world = late();
	let served = 0, more, gone;
	const key = ({ env }) => {
		gone = new Promise((resolve) => env.incoming.socket.once('close', resolve));
		return '127.0.0.1';
	};
	const url = await node(t, { limiter: world.limiter, limits: LEASE, key }, (context) => {
		served++;
		return context.body(new ReadableStream({ start(controller) {
			controller.enqueue(new TextEncoder().encode('piece'));
			more = controller;
		} }));
	});
	const request = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
	await leave(url, request, until(() => world.asked === 1));
	await gone;
	world.go();
	await until(async () => await world.held() === 0);
	assert.strictEqual(served, 0);
	await leave(url, request, until(() => served === 1));
	await until(async () => await world.held() === 0);
	const answer = ask(url);
	await until(() => served === 2);
	assert.strictEqual(await world.held(), 1);
	more.close();
	assert.strictEqual((await answer).body, 'piece');
	await until(async () => await world.held() === 0);
});

for (const limits of ['9/1m', ['9/1m', LEASE]]) {
	test(`answers whose headers can't be changed, of fetch() and redirect(), under ${limits}`, async (t) => {
		const upstream = await startApp((request, response) => response.setHeader('X-Own', 'kept').end('upstream'));
		t.after(() => upstream.stop());
		const handler = (context) => (context.req.path === '/proxy' ? fetch(upstream.url)
			: Response.redirect('http://example.com/', 302));
		const { limiter } = steered();
		const url = await node(t, { limiter, limits }, handler);
		const app = new Hono();
		app.use(sluice({ limiter, limits, key: () => 'k' }));
		app.get('*', handler);
		app.onError((error, context) => context.text(error.message, 500));
		const told = /^"sliding-window 9\/1m";q=9;w=60/;
		for (const get of [(path) => app.request(path), (path) => fetch(new URL(path, url), { redirect: 'manual' })]) {
			const proxied = await get('/proxy'), { headers, status } = await get('/moved');
			assert.deepStrictEqual([proxied.status, await proxied.text(), proxied.headers.get('x-own')],
				[200, 'upstream', 'kept']);
			assert.match(proxied.headers.get('ratelimit-policy'), told);
			assert.deepStrictEqual([status, headers.get('location')], [302, 'http://example.com/']);
			assert.match(headers.get('ratelimit-policy'), told);
		}
		assert.strictEqual((await limiter.holders('k', LEASE)).length, 0);
	});
}

test('an answer that changes the protocol is left as it is', async () => {
	const { limiter } = steered();
	const app = new Hono();
	app.use(sluice({ limiter, limits: '9/1m', key: () => 'k' }));
	const upgraded = new Response(null);
	Object.defineProperty(upgraded, 'status', { value: 101 }); /* runtimes make them; new Response() refuses to */
	app.get('*', () => upgraded);
	assert.strictEqual(await app.request('/'), upgraded);
	assert.strictEqual(upgraded.headers.has('ratelimit'), false);
});

test('with nothing but fetch: over HTTP, with the door\'s own headers', async (t) => {
	const server = await startSluice('limits:\n  - {name: per-user, key: user, limit: sliding-log 2/1h}\n');
	t.after(() => server.stop());
	const url = `http://127.0.0.1:${server.http}`;
	const app = new Hono();
	app.use('/check', sluice({ url, limits: ['sliding-log 2/1h', '100/1d'], key: (c) => c.req.header('x-user'),
		timeout: 5000 }));
	app.use('/policy', sluice({ url, attributes: (c) => ({ user: c.req.header('x-user') }), timeout: 5000 }));
	app.use('/peerless', sluice({ url, limits: '1/1h' }));
	app.onError((error, context) => context.text(error.message, 500));
	app.get('*', (context) => context.text('fine'));
	for (const path of ['/check', '/policy']) {
		const answers = [];
		for (let i = 0; i < 3; i++)
			answers.push(await app.request(path, { headers: { 'x-user': 'ann' } }));
		assert.deepStrictEqual(answers.map(({ status }) => status), [200, 200, 429]);
		const name = path === '/check' ? 'sliding-log 2/1h' : 'per-user';
		assert.match(answers[0].headers.get('ratelimit'), new RegExp(`^"${name}";r=1;t=3600$`));
		assert.strictEqual(answers[2].headers.get('retry-after'), '3600');
		const body = await answers[2].json();
		assert.deepStrictEqual(body['violated-policies'], [name]);
		assert.match(answers[0].headers.get('ratelimit-policy'), new RegExp(`^"${name}";q=2;w=3600`));
	}
	assert.match(await (await app.request('/peerless')).text(), /does not say whose request it is/);
});

test('over HTTP when nobody answers: open, or closed', async () => {
	for (const [onError, status] of [[undefined, 200], ['deny', 503]]) {
		const app = new Hono();
		app.use(sluice({ url: 'http://127.0.0.1:1', limits: '1/1h', key: () => 'k', ...(onError ? { onError } : {}) }));
		app.get('*', (context) => context.text('fine'));
		assert.strictEqual((await app.request('/')).status, status);
	}
});
