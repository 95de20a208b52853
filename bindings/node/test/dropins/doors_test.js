/* What drop-ins say and whose request they take one for, held to a real server's doors: the same fields, the same
 * bodies, the same clients. */
'use strict';

const assert = require('node:assert');
const test = require('node:test');
const { LEASE, START, ask, part, startSluice, steered, until } = require('./common.js');
const { busyFor } = require('../busy.js');

const PATIENT = 4000;

const { addressKey, clientFinder } = part('doors/address.js');
const { formsOf, headersOf, problemOf } = part('doors/answer.js');
const { HttpLimiter } = part('doors/remote.js');
const { Admission } = part('doors/admission.js');
const { Limiter } = part();

const FORMS = ['draft10', 'draft7', 'draft6', 'legacy-epoch', 'legacy-delta'];
const LIMITS = ['100/60s', '10/1500ms', 'fixed-window 10k/1d', 'sliding-log 400k/1m', 'sliding-log 5/3600000ms',
	'sliding-buckets 240/1h precision 60s', 'sliding-buckets 240/1h edge drop precision 1m',
		'token-bucket 10/1s burst 100',
	'token-bucket 7/60s', 'token-bucket 3/7m burst 1k', 'leaky-bucket 10/1s queue 50', 'leaky-bucket 7/1m',
		'distinct 50/1h',
	'fixed-window 1G/3660d', '005/01m', '14/2w', 'sliding-window 100/1m spread', 'unlimited', 'fixed-window 0/1h',
	'token-bucket 0/1m', '1/90s', '3/month at Europe/Berlin', 'fixed-window 3/day at UTC', '3/hour at Asia/Kolkata'];

const fieldsOf = (answer) => Object.fromEntries(['ratelimit-policy', 'ratelimit', 'ratelimit-limit',
	'ratelimit-remaining',
	'ratelimit-reset', 'x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'retry-after']
	.filter((name) => answer.headers.has(name)).map((name) => [name, answer.headers.get(name)]));

for (const form of FORMS) {
	test(`${form}: fields and bodies are the server's`, async (t) => {
		const server = await startSluice(`client-time: true\nheaders: ${form}\nlimits: []\n`);
		t.after(() => server.stop());
		const { at, limiter } = steered({ memory: '4MiB' });
		const sets = [...LIMITS.map((limit) => [limit]), LIMITS.slice(0, 6), ['2/1s', 'sliding-log 1/1m', 'unlimited'],
			['concurrency 20 lease 30s', '100/1m'], ['concurrency 1 lease 90s', 'fixed-window 3/1h']];
		for (const limits of sets) {
			const leases = limits.some((limit) => limit.startsWith('concurrency'));
			const member = limits.some((limit) => limit.startsWith('distinct')) ? { member: 'm' } : {};
			for (let turn = 0; turn < 4; turn++) {
				at.now = START + turn * 137;
				const key = `${form} ${limits}`;
				const cost = limits[0].startsWith('distinct') ? 1 : [1, 1, 2, 3000000000][turn];
				const answer = await fetch(`http://127.0.0.1:${server.http}/v1/${leases ? 'acquire' : 'check'}`,
					{ method: 'POST',
					body: JSON.stringify({ key, limits, at: at.now, cost, ...member }) });
				const result = await limiter[leases ? 'acquire' : 'check'](key, limits, { cost, next: true, each: true,
					...member });
				const fields = Object.fromEntries(headersOf(result, formsOf(form), limits, at.now)
					.map(([name, value]) => [name.toLowerCase(), value]));
				assert.deepStrictEqual(fields, fieldsOf(answer), `${limits} ${turn}`);
				const { type, title, status, detail, 'violated-policies': violated } = await answer.json();
				if (!result.allowed)
					assert.deepStrictEqual(problemOf(result, limits, cost),
						{ type, title, status, detail, 'violated-policies': violated });
			}
		}
	});
}

test('windows of the calendar have the length that the server tells, whatever the clocks do', async (t) => {
	const server = await startSluice('client-time: true\nlimits: []\n');
	t.after(() => server.stop());
	const { at, limiter } = steered();
	for (const [zone, middle] of [['Europe/Berlin', '2024-03-31'], ['Europe/Berlin', '2024-10-27'],
		['America/Sao_Paulo', '2018-11-04'], ['America/Havana', '2024-11-03'], ['America/St_Johns', '2006-10-29'],
		['Pacific/Apia', '2011-12-30'], ['Australia/Lord_Howe', '2024-04-07'], ['Asia/Kathmandu', '2024-02-29']]) {
		for (const limits of ['day', 'week', 'month', 'year'].map((unit) => [`fixed-window 9/${unit} at ${zone}`])) {
			for (let hours = -40; hours <= 60; hours += 9.75) {
				at.now = Date.parse(middle) + hours * 3600000;
				const key = `${middle} ${at.now}`;
				const answer = await fetch(`http://127.0.0.1:${server.http}/v1/check`, { method: 'POST',
					body: JSON.stringify({ key, limits, at: at.now }) });
				const result = await limiter.check(key, limits, { next: true, each: true });
				const fields = Object.fromEntries(headersOf(result, ['draft10'], limits, at.now));
				assert.strictEqual(fields['RateLimit-Policy'], answer.headers.get('ratelimit-policy'),
					`${limits} ${new Date(at.now).toISOString()}`);
			}
		}
	}
});

test('a zone that the runtime does not know has no length', () => {
	const { windowOf } = part('doors/calendar.js');
	assert.strictEqual(windowOf({ unit: 'day', zone: 'No/Where' }, START), undefined);
	assert.strictEqual(windowOf({ unit: 'day', zone: 'UTC' }, START), 86400);
});

const CHAINS = ['192.0.2.7', '6.6.6.6, 192.0.2.7', '192.0.2.7, 10.0.0.2', '192.0.2.7,, ,10.0.0.2', 'junk',
	'junk, 10.0.0.2',
	'192.0.2.7, junk', '10.0.0.9, 10.0.0.2', '192.0.2.7:80', '192.0.2.7:99999', '[2001:db8::7]:443', '2001:db8::7',
	'2001:DB8:0:0:1:2:3:4', '[2001:db8::7]', '::ffff:192.0.2.7', '::ffff:c000:207', '::1, 10.0.0.2', '2001:db8::1%eth0',
	'[2001:db8::1%eth0]:1', '1.2.3', '01.2.3.4', '1.2.3.4.5', '256.1.1.1', '::', '1::', '::1:2:3:4:5:6:7',
		'1:2:3:4:5:6:7::',
	'1:2:3:4:5:6:7:8', '1:2:3:4:5:6:7:8:9', '1::2::3', '2001:db8::192.0.2.1', '64:ff9b::192.0.2.1',
		'1:2:3:4:5:6:7:1.2.3.4',
	'12345::', ':1', '1:', '[::1', '::1]', '[192.0.2.7]', 'fe80::1, 10.0.0.2', '2002:c000:207::1', '1.2.3.4:',
		'[1::]:x',
	'0:0:1:0:0:0:1:0', '2001:db8:a:b:c:d:e:f', 'unknown, 192.0.2.7', '1.2.3.4%eth0'];
const ELEMENTS = ['for=192.0.2.7', 'for=192.0.2.7;proto=https', 'proto=https;for="192.0.2.7:80"',
	'for="[2001:db8::7]:4711"',
	'for=[2001:db8::7]', 'for="2001:db8::7"', 'FOR=192.0.2.7', 'for=unknown', 'for=_hidden', 'for="192.0.2.7:_port"',
	'for=192.0.2.7, for=10.0.0.2', 'for="6.6.6.6, for=192.0.2.7', 'for=192.0.2.7;for=192.0.2.8', 'by=10.0.0.1', 'for=',
	'for=192.0.2.7 ; by=x', 'for = 192.0.2.7', 'for="192.0.2.\\7"', 'for=192.0.2.7;', ';for=192.0.2.7',
		'for="192.0.2.7',
	'host="a,b";for=192.0.2.7', 'for=192.0.2.7;by="x\\"y"', '\\"\\",for=192.0.2.7', '\\","for=192.0.2.7',
	'for=192.0.2.7,\\"a"', 'for=192.0.2.7,"\\"', '\\"a,for="[2001:db8::7]"', '"\\"\\",for=192.0.2.7;by="a,b"'];

for (const [clientAddress, lines] of [['x-forwarded-for', CHAINS], ['forwarded', ELEMENTS]]) {
	test(`whose request it is, by ${clientAddress}: whom the server finds`, async (t) => {
		const trusted = ['127.0.0.0/8', '10.0.0.0/24', 'fe80::/10'];
		const server = await startSluice(`listen: {http: [{address: "127.0.0.1:0", details: true}]}\n` +
			`trusted-proxies: [${trusted.map((text) => `"${text}"`)}]\nclient-address: ${clientAddress}\n` +
			'limits:\n  - {name: client, key: ip, limit: 0/1h}\n');
		t.after(() => server.stop());
		const find = clientFinder({ trustedProxies: trusted, clientAddress });
		const of = async (values) => {
			const answer = await ask(`http://127.0.0.1:${server.http}/v1/auth/forward`, { path: '/v1/auth/forward',
				headers: { [clientAddress]: values } });
			assert.strictEqual(answer.status, 429, answer.body);
			return decodeURIComponent(/"key":"ip=([^"]*)"/.exec(answer.body)[1]);
		};
		for (const line of lines) {
			const found = find('127.0.0.1', [line]);
			assert.strictEqual(addressKey(found), await of(line), line);
		}
		const two = [lines[0], lines[10]];
		assert.strictEqual(addressKey(find('127.0.0.1', two)), await of(two));
	});
}

test('a peer that is no proxy, a unix socket, networks that are none', () => {
	const find = clientFinder({ trustedProxies: ['10.0.0.0/8', '2001:db8::/32', '::/0'] });
	const key = (peer, ...lines) => {
		const found = find(peer, lines);
		return found && addressKey(found);
	};
	assert.strictEqual(key('192.0.2.9', '6.6.6.6'), '192.0.2.9'); /* ::/0 has no IPv4 address in it */
	assert.strictEqual(key('::ffff:10.1.1.1', '192.0.2.7'), '192.0.2.7');
	assert.strictEqual(key(undefined, '192.0.2.7'), '192.0.2.7');
	assert.strictEqual(key(undefined), null);
	assert.strictEqual(key('10.0.0.1', ...Array(200).fill('10.0.0.1'), '10.0.0.1'), '10.0.0.1');
	for (const wrong of ['10.0.0.0/33', '2001:db8::/129', 'x', '10.0.0.0/8/8', '', '10.0.0.0/-1'])
		assert.throws(() => clientFinder({ trustedProxies: [wrong] }), TypeError, wrong);
});

/* A stranger writes what stands at the left. Where the time were as the square of the length, 20 lines of 16 KB would
 * take 4 s and more. */
test('the time to read a header is proportional to its length', () => {
	const fills = [':', '1:', '[::', '1.', '%', ' ', '\t,', '\\"', '"\\', '"', '\\\\"', 'for=a;', 'a=b;'];
	for (const clientAddress of ['x-forwarded-for', 'forwarded']) {
		const find = clientFinder({ clientAddress });
		const ours = clientAddress === 'forwarded' ? 'for=203.0.113.9' : '203.0.113.9';
		for (const length of [500, 1000, 16000]) {
			for (const fill of fills) {
				const long = fill.repeat(length / fill.length);
				const lines = [`${long}[`, `a${long}b, ${ours}`, `for="${long}`, `for="${long}"`, `${long},`];
				const begun = process.cpuUsage();
				for (let i = 0; i < 20; i++)
					lines.forEach((line) => find('127.0.0.1', [line]));
				assert.ok(process.cpuUsage(begun).user < 1e6, `${clientAddress}: ${length} of '${fill}'`);
			}
		}
	}
});

test('over HTTP: answers that came while the process was busy are read before it says that none did', async (t) => {
	const server = await startSluice('limits: []\n');
	t.after(() => server.stop());
	let sent;
	const ask = (timeout) => new HttpLimiter({ url: `http://127.0.0.1:${server.http}`, timeout, fetch: (...words) => {
		sent = new Promise((resolve) => setImmediate(resolve));
		return fetch(...words);
	} }).check('k', '0/1h').then(({ allowed }) => allowed, ({ code }) => code);
	let judged = 0;
	await until(async () => {
		const asked = ask(300);
		await sent; /* where its connection was open; else the server has nothing to answer yet */
		const came = busyFor(600, server.http), told = await asked;
		assert.ok(!came || told === false, told);
		judged += came;
		return judged === 5;
	});
	const unsent = ask(PATIENT);
	busyFor(PATIENT + 500);
	assert.strictEqual(await unsent, false);
});

test('over HTTP: a lease whose answer comes too late is given back, but one of the caller\'s own id', async (t) => {
	const server = await startSluice('limits: []\n');
	t.after(() => server.stop());
	const url = `http://127.0.0.1:${server.http}`;
	const patient = new HttpLimiter({ url, timeout: 10000 });
	const late = new HttpLimiter({ url, timeout: 10000, fetch: async (...words) => {
		const answer = await fetch(...words);
		if (String(words[0]).endsWith('/acquire'))
			throw new DOMException('The operation was aborted due to timeout', 'TimeoutError');
		return answer;
	} });
	const limits = [LEASE, '9/1h'];
	await assert.rejects(late.acquire('k', limits), { code: 'away' });
	await assert.rejects(late.acquire('own', limits, { id: 'mine' }), { code: 'away' });
	await until(async () => (await patient.peek('k', '9/1h')).remaining === 8);
	for (const key of ['k', 'own']) {
		const held = [];
		await until(async () => {
			const lease = await patient.acquire(key, LEASE);
			held.push(lease);
			return held.filter(({ allowed }) => allowed).length === (key === 'k' ? 2 : 1);
		});
		assert.strictEqual((await patient.acquire(key, LEASE)).allowed, false);
		assert.match(held[0].id, /^[0-9a-f]{16}$/);
	}
});

/** A fetch whose requests reach the server after `ms`, also where who asked has gone. What it sent is in `sent`. */
function slow(ms) {
	const sent = [];
	return { sent, fetch: (url, { signal, ...rest }) => {
		const answer = new Promise((resolve) => setTimeout(resolve, ms)).then(() => fetch(url, rest));
		sent.push(answer);
		return Promise.race([answer, new Promise((resolve, reject) => signal.addEventListener('abort',
			() => reject(signal.reason)))]);
	} };
}

test('over HTTP: a lease that is taken after its time is over is given back', async (t) => {
	const server = await startSluice(`limits:\n  - {name: seats, key: user, limit: ${LEASE}}\n`);
	t.after(() => server.stop());
	const url = `http://127.0.0.1:${server.http}`;
	const patient = new HttpLimiter({ url, timeout: 10000 });
	const free = async () => [(await patient.peek('k', LEASE)).remaining,
		(await patient.peek('user=ann', 'policy:seats')).remaining];
	const world = slow(300);
	const late = new HttpLimiter({ url, timeout: 20, fetch: world.fetch });
	await assert.rejects(late.acquire('k', LEASE), { code: 'away' });
	await assert.rejects(late.admit({ user: 'ann' }), { code: 'away' });
	await Promise.all(world.sent);
	await until(async () => (await free()).join() === '2,2');
	const own = await patient.acquire('k', LEASE);
	await assert.rejects(late.release('k', LEASE, own.id), { code: 'away' });
	await assert.rejects(late.acquire('k', LEASE, { id: 'mine' }), { code: 'away' });
	await until(async () => (await patient.release('k', LEASE, 'mine')) === 1);
	await until(async () => (await free()).join() === '2,2');
});

const view = (peer) => ({ peer, header: () => [], method: 'GET', url: '/', host: 'x', request: {} });

test('over HTTP: observed limits are not told, and header forms are those that were asked for', async (t) => {
	const server = await startSluice('limits:\n  - {name: watched, key: ip, limit: 1/1h, observe: true}\n' +
		'  - {name: real, key: ip, limit: sliding-log 2/1h}\n');
	t.after(() => server.stop());
	const [url, store] = [`http://127.0.0.1:${server.http}`, `redis://127.0.0.1:${server.resp}`];
	const last = async (way, peer, more) => {
		const admission = new Admission({ ...way, timeout: 10000, ...more });
		t.after(() => admission.limiter.close?.());
		let verdict;
		for (let turn = 0; turn < 3; turn++)
			verdict = await admission.decide(view(peer));
		const { body, headers } = verdict;
		return { violated: body['violated-policies'], detail: body.detail.replace(/\d+ ms/, 'some ms'),
			names: headers.map(([name]) => name.toLowerCase()).sort() };
	};
	const detail = 'limit real has 0 left, the request costs 1: retry in some ms';
	for (const [i, way] of [{ store }, { url }].entries()) {
		for (const [j, [form, names]] of [[undefined, ['ratelimit', 'ratelimit-policy', 'retry-after']],
			['none', ['retry-after']], ['legacy-epoch', ['retry-after', 'x-ratelimit-limit', 'x-ratelimit-remaining',
				'x-ratelimit-reset']]].entries())
			assert.deepStrictEqual(await last(way, `192.0.2.${10 * i + j}`, form ? { headers: form } : {}),
				{ violated: ['real'], detail, names }, `${Object.keys(way)} ${form}`);
	}
});

test('over HTTP: which limit decided, and what was granted, are as over RESP', async (t) => {
	const server = await startSluice('limits: []\n');
	t.after(() => server.stop());
	const http = new HttpLimiter({ url: `http://127.0.0.1:${server.http}`, timeout: 10000 });
	const resp = new Limiter({ store: `redis://127.0.0.1:${server.resp}`, timeout: 10000 });
	t.after(() => resp.close());
	await resp.check('full', 'sliding-log 3/1h', { cost: 3 });
	const told = ({ allowed, index, quota, remaining, granted, each }) => ({ allowed, index, quota, remaining, granted,
		each: each.map((one) => [one.index, one.allowed, one.remaining, one.granted]) });
	for (const limits of [['9/1h', 'sliding-log 3/1h'], [['none', 'sliding-log 3/1h'], ['full', 'sliding-log 3/1h']],
		[['none', 'sliding-log 3/1h'], ['other', 'sliding-log 3/1h']], ['unlimited', '9/1h'], ['unlimited'],
		['0/1h', 'sliding-log 3/1h']]) {
		for (const options of [{}, { cost: 2 }, { cost: 4 }, { cost: 4, upto: true }, { cost: 0 }]) {
			const ask = async (limiter) => told(await limiter.peek('key', limits, { ...options, each: true }));
			assert.deepStrictEqual(await ask(http), await ask(resp), `${limits} ${JSON.stringify(options)}`);
		}
	}
	assert.strictEqual((await http.refund('full', 'sliding-log 3/1h', 1)).granted,
		(await resp.refund('full', 'sliding-log 3/1h', 1)).granted);
});

test('ids of clients: of any length one retry is charged once, an empty one is none', async (t) => {
	const server = await startSluice('limits:\n  - {name: all, key: ip, limit: 100/1h}\n');
	t.after(() => server.stop());
	const { limiter } = steered();
	const http = `http://127.0.0.1:${server.http}`, resp = `redis://127.0.0.1:${server.resp}`;
	for (const [i, [way, limits]] of [[{ limiter }, '100/1h'], [{ store: resp }, '100/1h'], [{ store: resp }],
		[{ url: http }, '100/1h'], [{ url: http }]].entries()) {
		const admission = new Admission({ ...way, timeout: 10000, ...(limits ? { limits } : {}),
			id: (request) => request.id });
		t.after(() => admission.limiter.close?.());
		const left = async (id) => (await admission.decide({ ...view(`192.0.2.${i}`), request: { id } }))
			.result.remaining;
		const seen = [];
		for (const id of ['a'.repeat(64), 'a'.repeat(65), 'a'.repeat(65), 'b'.repeat(65), '\u00e4'.repeat(33),
			'\u00e4'.repeat(33), 'b'.repeat(9000), '', '', undefined, null])
			seen.push(await left(id));
		assert.deepStrictEqual(seen, [99, 98, 98, 97, 96, 96, 95, 94, 93, 92, 91], `${Object.keys(way)} ${limits}`);
	}
});
