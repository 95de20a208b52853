/* sluice/hono: on Node's server with a limiter in process and over RESP, and with nothing but fetch over HTTP. */
'use strict';

const assert = require('node:assert');
const { once } = require('node:events');
const test = require('node:test');
const { asked, ask, library, part, startSluice, statuses, steered } = require('./common.js');

const { sluice } = part('hono');
const { Hono } = library('hono');
const { serve } = library('@hono/node-server');

async function node(t, options) {
	const app = new Hono();
	app.use(sluice(options));
	app.get('*', (context) => context.text(String(context.get('sluice')?.remaining)));
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
