/* sluice/fastify: the plugin, and @fastify/rate-limit's own tests with our store.
 *
 * Its tests are run as they come in its tarball, but that every registration without a store has ours. What is in
 * EXPECTED fails there for the reason that is given; anything else that fails, or does not any more, fails here. */
'use strict';

const assert = require('node:assert');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const test = require('node:test');
const { HOSTED, LEASE, asked2, late, leave, library, part, statuses, steered, until } = require('./common.js');

const sluice = part('fastify');
const Fastify = library('fastify');

async function inject(app, count, options) {
	const answers = [];
	for (let i = 0; i < count; i++) {
		const answer = await app.inject(options);
		answers.push({ status: answer.statusCode, headers: answer.headers, body: answer.body });
	}
	return answers;
}

test('three are served, the fourth is told why not; routes say otherwise', async (t) => {
	const { limiter, at } = steered();
	const app = Fastify();
	t.after(() => app.close());
	await app.register(sluice, { limiter, limits: 'sliding-log 3/1m' });
	app.get('/', async (request) => request.sluice.remaining);
	app.get('/free', { config: { sluice: false } }, async () => 'free');
	app.get('/strict', { config: { sluice: { limits: 'sliding-log 1/1h' } } }, async () => 'strict');
	const answers = await inject(app, 4, '/');
	assert.deepStrictEqual(statuses(answers), [200, 200, 200, 429]);
	assert.deepStrictEqual(answers.slice(0, 3).map(({ body }) => body), ['2', '1', '0']);
	const last = answers[3];
	assert.strictEqual(last.headers['content-type'], 'application/problem+json');
	assert.strictEqual(last.headers['retry-after'], '60');
	assert.strictEqual(last.headers.ratelimit, '"sliding-log 3/1m";r=0;t=60');
	assert.deepStrictEqual(JSON.parse(last.body)['violated-policies'], ['sliding-log 3/1m']);
	assert.deepStrictEqual(statuses(await inject(app, 5, '/free')), [200, 200, 200, 200, 200]);
	assert.deepStrictEqual(statuses(await inject(app, 2, '/strict')), [200, 429]);
	at.now += 60000;
	assert.strictEqual((await inject(app, 1, '/'))[0].status, 200);
});

test('proxies, IPv6, a place in flight, and an answer of one\'s own', async (t) => {
	const { limiter } = steered();
	const app = Fastify();
	t.after(() => app.close());
	await app.register(sluice, { limiter, limits: ['sliding-log 2/1m', 'concurrency 1 lease 1h'],
		onDenied: (request, reply, verdict) => reply.code(420).send({ wait: verdict.result.retryAfter }) });
	app.get('/', async () => 'fine');
	const from = (forwarded) => inject(app, 1, { url: '/', headers: { 'x-forwarded-for': forwarded } });
	const seen = [];
	for (const forwarded of ['2001:db8::1', '2001:db8::2', '2001:db8::3', '2001:db8:0:1::1', '6.6.6.6, 192.0.2.1'])
		seen.push(...statuses(await from(forwarded)));
	assert.deepStrictEqual(seen, [200, 200, 420, 200, 200]);
});

test('clients that leave before the decision hold no place, and are not served', async (t) => {
	const world = late();
	const app = Fastify();
	t.after(() => app.close());
	const gone = [];
	let served = 0;
	app.addHook('onRequest', async (request) => {
		gone.push(new Promise((resolve) => request.raw.socket.once('close', resolve)));
	});
	await app.register(sluice, { limiter: world.limiter, limits: LEASE });
	app.get('/', async () => String(++served));
	const url = await app.listen({ port: 0, host: '127.0.0.1' });
	const both = until(() => world.asked === 2);
	const request = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
	await Promise.all([leave(url, request, both), leave(url, request, both)]);
	await Promise.all(gone);
	assert.strictEqual(await world.held(), 2);
	world.go();
	await until(async () => await world.held() === 0);
	await new Promise(setImmediate);
	assert.strictEqual(served, 0);
	assert.deepStrictEqual(statuses(await inject(app, 3, '/')), [200, 200, 200]);
});

test('registered again in a scope, for its routes alone', async (t) => {
	const { limiter } = steered();
	const app = Fastify();
	t.after(() => app.close());
	await app.register(sluice, { limiter, limits: 'sliding-log 3/1m' });
	await app.register(async (scope) => {
		await scope.register(sluice, { limiter, limits: 'sliding-log 1/1h', prefix: 'in:' });
		scope.get('/in', async () => 'in');
	});
	app.get('/', async (request) => request.sluice.remaining);
	assert.deepStrictEqual(statuses(await inject(app, 2, '/in')), [200, 429]);
	assert.deepStrictEqual((await inject(app, 2, '/')).map(({ status, body }) => [status, body.slice(0, 1)]),
		[[200, '0'], [429, '{']]); /* what `/in` was asked counts here, too */
});

test('a limit is one counter of a key, whatever its quota: routes that are to count apart have a prefix', async (t) => {
	const { limiter } = steered();
	const app = Fastify();
	t.after(() => app.close());
	await app.register(sluice, { limiter, limits: '10/1m' });
	app.get('/', async (request) => request.sluice.remaining);
	app.get('/seven', { config: { sluice: { limits: '7/1m' } } }, async (request) => request.sluice.remaining);
	app.get('/apart', { config: { sluice: { limits: '7/1m', prefix: 'apart:' } } },
		async (request) => request.sluice.remaining);
	const left = async (path) => (await inject(app, 1, path))[0].body;
	assert.deepStrictEqual([await left('/'), await left('/seven'), await left('/'), await left('/apart')],
		['9', '5', '7', '6']);
});

test('HTTP/2: the host of a request is known', async (t) => {
	const { limiter } = steered({ policy: HOSTED });
	const app = Fastify({ http2: true });
	t.after(() => app.close());
	await app.register(sluice, { limiter });
	app.get('/', async () => 'fine');
	await app.listen({ port: 0, host: '127.0.0.1' });
	assert.deepStrictEqual(await asked2(app.server.address().port, ['api.example.com', 'api.example.com',
		'www.example.com']), [200, 429, 200]);
});

test('an error of the options is told at registration; a store that is away fails open', async (t) => {
	const wrong = Fastify();
	await assert.rejects(async () => wrong.register(sluice, { limits: '1/1m' }), TypeError);
	const app = Fastify();
	t.after(() => app.close());
	await app.register(sluice, { store: 'redis://127.0.0.1:1', limits: '1/1m' });
	app.get('/', async () => 'fine');
	const [answer] = await inject(app, 1, '/');
	assert.deepStrictEqual([answer.status, answer.headers['sluice-failed-open']], [200, '1']);
});

/* ---- @fastify/rate-limit's own tests
 * ---------------------------------------------------------------------------------- */

const EXPECTED = {
	'create-rate-limit.test.js': {
		'With { increment: false } and exponentialBackoff the peek reports the base window without escalating it':
			'its window begins anew with each denial; here a denial moves no window, and the peek says when it ends',
	},
	'exponential-backoff.test.js': {
		'MAx safe Exponential Backoff':
			'it doubles up to 285,000 years; a block of ours lasts at most 3,660 days',
	},
};

/** The library's folder beside its tests, with an index.js that brings our store along. */
function borrowed(t) {
	const from = path.join(process.env.SLUICE_LIBRARIES, '@fastify', 'rate-limit');
	const folder = path.join(process.env.SLUICE_LIBRARIES, '.sluice-fastify');
	fs.rmSync(folder, { recursive: true, force: true });
	fs.cpSync(from, folder, { recursive: true });
	fs.renameSync(path.join(folder, 'index.js'), path.join(folder, 'theirs.js'));
	fs.copyFileSync(path.join(__dirname, 'fastify_with_our_store.js'), path.join(folder, 'index.js'));
	t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
	return folder;
}

test('@fastify/rate-limit\'s own tests', async (t) => {
	const folder = borrowed(t);
	for (const name of fs.readdirSync(path.join(folder, 'test')).filter((file) => file.endsWith('.test.js')).sort()) {
		if (name === 'redis-rate-limit.test.js') /* its store for Redis, and only that */
			continue;
		await t.test(name, () => {
			const { NODE_TEST_CONTEXT, ...env } = process.env; /* a run of its own, not a part of this one */
			const done = spawnSync(process.execPath, ['--test', '--test-reporter=tap', path.join(folder, 'test', name)],
				{ encoding: 'utf8', env, timeout: 120000 });
			const failed = [...done.stdout.matchAll(/^not ok \d+ - (.+)$/gm)].map((match) => match[1]);
			const passed = [...done.stdout.matchAll(/^ok \d+ - (.+)$/gm)].length;
			assert.ok(passed + failed.length > 0, done.stdout + done.stderr);
			assert.deepStrictEqual(failed, Object.keys(EXPECTED[name] ?? {}), done.stdout);
		});
	}
});
