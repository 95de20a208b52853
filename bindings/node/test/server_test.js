// A server, and its connection: many calls at a time, logins, TLS, older protocols, and a server that is away, stopped,
// late, or no server of ours.
'use strict';

const assert = require('node:assert/strict');
const {spawnSync} = require('node:child_process');
const {readFileSync} = require('node:fs');
const net = require('node:net');
const {once} = require('node:events');
const {join} = require('node:path');
const {it} = require('node:test');
const {BINARY, Limiter, PACKAGE, Result, SluiceError, atEnd, folder, freePort, limiter, redis, serve, until} =
	require('./helpers.js');

const PATIENT = {timeout: 10000};

/** The commands of a piece of bytes, which no command here is longer than. */
function* commandsIn(text) {
	const lines = text.split('\r\n');
	for (let at = 0; lines[at].startsWith('*');) {
		const count = Number(lines[at].slice(1));
		yield Array.from({length: count}, (_, i) => lines[at + 2 + 2 * i]);
		at += 1 + 2 * count;
	}
}

/** A server that answers each command by what `answer(words)` says; for what no real one does. It refuses to be told
 * who is there, as Redis 7.0 does. */
async function fake(answer) {
	const sockets = new Set();
	const server = net.createServer((socket) => {
		sockets.add(socket);
		socket.on('error', () => {});
		socket.on('data', (data) => {
			for (const words of commandsIn(data.toString())) {
				const said = words[0] === 'CLIENT' ? '-ERR unknown subcommand \'SETINFO\'. Try CLIENT HELP.\r\n'
					: answer(words, socket);
				if (said !== undefined)
					socket.write(said);
			}
		});
	}).listen(0, '127.0.0.1');
	await once(server, 'listening');
	atEnd(() => {
		sockets.forEach((socket) => socket.destroy());
		server.close();
	});
	return `redis://127.0.0.1:${server.address().port}`;
}

it('counts exactly, with 2,000 calls under way at a time', async () => {
	const one = limiter({store: (await serve()).url, ...PATIENT});
	const results = await Promise.all(Array.from({length: 2000}, () => one.check('many', 'sliding-log 1500/1h')));
	assert.equal(results.filter((r) => r.allowed).length, 1500);
	assert.deepEqual(results.slice(0, 1500).map((r) => r.remaining), Array.from({length: 1500}, (_, i) => 1499 - i));
	assert.ok(results[0] instanceof Result && results[1999].retryAfter > 0);
	assert.equal(results[0].limit, 'sliding-log 1500/1h');
});

it('says the same words of a wrong limit as in process', async () => {
	const there = limiter({store: (await serve()).url, ...PATIENT}), here = limiter();
	for (const limits of ['nonsense', ['10/1m', 'sliding-log 5'], 'concurrency 3 lease 3s', 'distinct 3/1m']) {
		const errors = await Promise.all([there, here].map((one) => one.check('k', limits).catch((error) => error)));
		assert.ok(errors[0] instanceof SluiceError, String(errors[0]));
		assert.equal(errors[0].code, 'bad-limit');
		assert.deepEqual([errors[0].message, errors[0].code], [errors[1].message, errors[1].code]);
	}
	for (const one of [there, here])
		await assert.rejects(one.commit('k', null, 'x', 1), {code: 'bad-argument', message: /^no ticket/});
});

it('admits by the server\'s policy', async () => {
	const server = await serve('limits:\n  - {name: u, key: user, limit: 2/1h}\n  - {name: c, key: user, '
		+ 'limit: concurrency 1 lease 60s, when: {kind: slow}}\n');
	const one = limiter({store: server.url, ...PATIENT});
	const lease = await one.admit({user: 'ann', kind: 'slow'});
	assert.equal(lease.allowed, true);
	assert.match(lease.id, /^[0-9a-f]{16}\./);
	const denied = await one.admit({user: 'ann', kind: 'slow'});
	assert.deepEqual([denied.allowed, denied.limit, denied.index, denied.id], [false, 'c', 1, null]);
	assert.equal(await lease.release(), 1);
	assert.equal(await lease.release(), 0);
	const last = await one.admit({user: 'ann'}, {next: true});
	assert.deepEqual([last.allowed, last.limit, last.remaining, last.failedOpen], [true, 'u', 0, false]);
	assert.ok(last.nextAfter > 0);
	const none = await one.admit({host: 'h'});
	assert.deepEqual([none.allowed, none.limit, none.index, none.quota], [true, '', -1, 4294967295]);
	await assert.rejects(one.reload('limits: []\n'), {code: 'not-in-process'});
	assert.throws(() => one.checkSync('k', '1/1m'), {code: 'not-in-process'});
});

it('tells each limit of a policy alike, in process and at a server', async () => {
	const policy = 'client-time: true\nlimits:\n  - {name: all, key: user, limit: 600/1d}\n'
		+ '  - {name: seen, key: ip, limit: sliding-log 1/1d, observe: true}\n'
		+ '  - {name: posts, when: {method: POST}, key: user, limit: token-bucket 2/1d burst 3}\n';
	const here = limiter({policy}), there = limiter({store: (await serve(policy)).url, ...PATIENT});
	for (const method of ['GET', 'GET', 'POST', 'POST', 'POST', 'POST']) {
		const [mine, theirs] = await Promise.all([here, there].map((one) =>
			one.admit({user: 'ann', ip: '192.0.2.1', method}, {each: true, next: true})));
		assert.deepEqual(theirs.each.map(({limit, rule, observed, index}) => ({limit, rule, observed, index})), [
			{limit: 'all', rule: 'sliding-window 600/1d', observed: false, index: 0},
			{limit: 'seen', rule: 'sliding-log 1/1d', observed: true, index: 1},
			...method === 'GET' ? [] : [{limit: 'posts', rule: 'token-bucket 2/1d burst 3', observed: false,
				index: 2}]]);
		const exact = (one) => [one.limit, one.rule, one.observed, one.index, one.allowed, one.quota, one.remaining,
			one.granted, one.retryAfter > 0, one.nextAfter > 0];
		assert.deepEqual([theirs, ...theirs.each].map(exact), [mine, ...mine.each].map(exact));
	}
	assert.deepEqual((await there.admit({host: 'h'}, {each: true})).each, []);
	const denied = await there.admit({user: 'ann', method: 'POST'}, {each: true});
	assert.deepEqual([denied.allowed, denied.limit], [false, 'posts']);
	assert.deepEqual(denied.each.map((one) => one.allowed), [true, false]);
});

it('tells alike when the least remaining of a policy grows', async () => {
	const policy = 'limits:\n  - {name: hours, key: user, limit: token-bucket 3/3h}\n'
		+ '  - {name: days, key: user, limit: token-bucket 3/3d}\n  - {name: much, key: user, limit: 9/1m}\n'
		+ '  - {name: seen, key: user, limit: 2/30d, observe: true}\n';
	const here = limiter({policy}), there = limiter({store: (await serve(policy)).url, ...PATIENT});
	for (let i = 0; i < 5; i++)
		for (const one of [here, there]) {
			const {nextAfter} = await one.admit({user: 'ann'}, {each: true, next: true});
			assert.ok(nextAfter > 80000000 && nextAfter <= 86400000, `${nextAfter} ms: the one of a day's`);
		}
	for (const one of [here, there])
		assert.equal((await one.admit({user: 'bob'}, {cost: 0, each: true, next: true})).nextAfter, 0);
});

it('reserves alike, in process and at a server, and commits by the id alone', async () => {
	const clock = () => 1728000000000, policy = 'client-time: true\nlimits: [{name: api, key: user, limit: 90/1h}]\n';
	const url = (await serve(policy)).url, pair = [limiter({clock}), limiter({store: url, clock, ...PATIENT})];
	const limits = ['20/1h', [['o', '20/1h']], [['o', '20/1h'], '10/1h'], ['10/1h', ['\u00f6', '20/1h']],
		[['o', 'unlimited'], '10/1h', [Buffer.from([0, 255]), '20/1h']], 'unlimited'];
	for (const id of [undefined, 'mine'])
		for (const [of, options] of limits.flatMap((one) => [{}, {each: true}, {next: true}, {each: true, next: true}]
			.map((words) => [one, {ttl: 60000, id, ...words}]))) {
			const told = [];
			for (const cost of [6, ...id === undefined ? [] : [6], 0, 90]) {
				const [mine, theirs] = await Promise.all(pair.map((one) => one.reserve('k', of, {...options, cost})));
				const plain = ({id: ticket, repeated, each, ...rest}) => JSON.parse(JSON.stringify({...rest,
					held: ticket !== null, ...options.each ? {repeated} : {},
					each: each?.map(({repeated: _, ...one}) => one)}));
				assert.deepEqual(plain(theirs), plain(mine), JSON.stringify([of, options, cost]));
				if (id !== undefined)
					assert.equal(theirs.id, mine.id);
				told.push([mine, theirs]);
			}
			for (const i of told[0][0].id === null ? [] : [0, 1]) {
				const {id: ticket} = told[0][i];
				assert.equal((await pair[i].commit('k', null, ticket, 0)).allowed, true);
				await assert.rejects(pair[i].commit('k', of, ticket, 0), {code: 'not-found'});
			}
		}
	const named = await pair[1].reserve('k', [['o', 'policy:api'], '20/1h'], {ttl: 60000, cost: 6, each: true});
	assert.equal((await pair[1].commit('k', null, named.id, 0)).remaining, 20);
});

it('ends leases by what only looks like a ticket, in process and at a server', async () => {
	const ids = ['00f067aa0ba902b7.1', '00f067aa0ba902b7.AQQA', '00f067aa0ba902b7.', '00f067aa0ba902b7.AQ'];
	for (const store of ['memory', (await serve()).url])
		for (const id of ids) {
			const one = limiter({store, ...PATIENT}), limit = 'concurrency 1 lease 1h';
			const lease = await one.acquire(id, limit, {id});
			assert.deepEqual([lease.id, await lease.renew(), await lease.release()], [id, 1, 1], `${store} ${id}`);
			assert.equal(await one.withLease(id, limit, () => 'done', {id}), 'done');
			assert.equal((await one.peek(id, limit)).remaining, 1);
		}
});

it('tells who holds leases alike, in process and at a server', async () => {
	const url = (await serve()).url, limit = 'concurrency 5 lease 30s', clock = {now : 1728000000000};
	const pair = [ limiter({clock : () => clock.now}), limiter({store : url, clock : () => clock.now, ...PATIENT}) ];
	for (const one of pair) {
		assert.deepEqual(await one.holders('k', limit), []);
		for (const id of ['00000000000000aa', 'mine']) {
			clock.now += 1000;
			assert.equal((await one.acquire('k', limit, {id, cost : 2})).allowed, true);
		}
		const [first, second] = await one.holders('k', limit);
		assert.deepEqual(first, {id : '00000000000000aa', cost : 2, endsAfter : 29000});
		assert.deepEqual([ second.cost, second.endsAfter ], [ 2, 30000 ]);
		assert.equal(await one.release('k', limit, second.id), 1);
		assert.equal((await one.holders(Buffer.from('k'), limit)).length, 1);
		await assert.rejects(one.holders('k', '5 a minute'), {code : 'bad-limit'});
		await assert.rejects(one.holders('k'), {code : 'bad-limit'});
	}
	const said = await Promise.all(pair.map((one) => one.holders('k', '5/1m').catch((error) => error.message)));
	assert.equal(said[0], said[1]);
});

it('logs in, and says so when it may not', async () => {
	const line = spawnSync(BINARY, ['password', 'ann', '--role', 'check'], {input: 'se:cr@t\n'}).stdout.toString();
	const server = await serve(`users:\n${line.trim()}\nlimits: []\n`);
	const url = (secret) => `redis://ann:${encodeURIComponent(secret)}@127.0.0.1:${server.port}`;
	const right = limiter({store: url('se:cr@t'), ...PATIENT});
	assert.equal((await right.check('k', '1/1h')).allowed, true);
	for (const store of [url('wrong'), server.url]) {
		const wrong = limiter({store, ...PATIENT});
		const error = await wrong.check('k', '1/1h').catch((e) => e);
		assert.equal(error.code, 'no-access', String(error));
		assert.ok(!String(error.message).includes('wrong@') && !error.message.includes('secret'), error.message);
	}
	const open = limiter({store: url('wrong'), onError: 'allow', ...PATIENT});
	assert.equal((await open.check('k', '1/1h')).failedOpen, true);
});

it('speaks TLS, and to nobody whose certificate is not known', async (t) => {
	const place = folder(), cert = join(place, 'cert.pem'), key = join(place, 'key.pem');
	const made = spawnSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1',
		'-nodes', '-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=localhost',
		'-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1']);
	if (made.status !== 0)
		return t.skip('no openssl here');
	const port = await freePort();
	await serve(`listen: {resp: ["127.0.0.1:0", {address: "127.0.0.1:${port}", tls: true}]}\n`
		+ `tls: {certificate: ${cert}, key: ${key}}\nlimits: []\n`, {listen: false});
	const one = limiter({store: `rediss://127.0.0.1:${port}`, tls: {ca: readFileSync(cert)}, ...PATIENT});
	assert.equal((await one.check('k', '1/1h')).allowed, true);
	const stranger = limiter({store: `rediss://127.0.0.1:${port}`, ...PATIENT});
	await assert.rejects(stranger.check('k', '1/1h'), {code: 'away', message: /certificate/});
});

it('goes on with a server that is started again, and answers at once while it is away', async () => {
	const server = await serve();
	const one = limiter({store: server.url, ...PATIENT});
	assert.equal((await one.check('k', '5/1h')).allowed, true);
	await server.stop();
	const gone = await one.check('k', '5/1h').catch((e) => e);
	assert.equal(gone.code, 'away', String(gone));
	assert.match(gone.message, /ECONNREFUSED|ended the connection/);
	for (const [onError, allowed] of [['allow', true], ['deny', false]]) {
		const other = limiter({store: server.url, onError, timeout: 1000});
		const result = await other.check('k', '5/1h');
		assert.deepEqual([result.allowed, result.failedOpen, result.error.code], [allowed, allowed, 'away']);
		assert.equal(await other.reset('k', '5/1h'), 0);
		assert.equal(result.retryAfter, allowed ? 0 : 1000);
		await assert.rejects(other.check('k', 5), {name: 'TypeError'});
	}
	await serve(undefined, {port: server.port});
	const back = await until('it is back', () => one.check('k', '5/1h').catch(() => null));
	assert.equal(back.remaining, 4);
});

it('waits no longer than its timeout for a server that is stopped, and mixes up no answers after', async () => {
	const server = await serve();
	const one = limiter({store: server.url, timeout: 1000});
	await until('connected', () => one.check('a', '100/1h').catch(() => null));
	server.process.kill('SIGSTOP');
	const start = performance.now();
	const results = await Promise.allSettled(Array.from({length: 50}, (_, i) => one.check(`late ${i}`, `${i + 1}/1h`)));
	const took = performance.now() - start;
	server.process.kill('SIGCONT');
	assert.ok(results.every((r) => r.status === 'rejected' && r.reason.code === 'away'));
	assert.ok(took >= 990 && took < 20000, `${took} ms`);
	// Answers to those come now; each later call has its own all the same.
	for (let i = 0; i < 50; i++) {
		const result = await until('an answer', () => one.check(`new ${i}`, `${1000 + i}/1h`).catch(() => null));
		assert.equal(result.quota, 1000 + i);
	}
});

it('charges once what is asked twice under an id', async () => {
	let answers = 0;
	const server = await serve();
	const through = await new Promise((resolve) => {
		const proxy = net.createServer((client) => {
			const upstream = net.connect(server.port, '127.0.0.1');
			client.on('error', () => {}).on('close', () => upstream.destroy()).pipe(upstream);
			upstream.on('error', () => {}).on('data', (data) => {
				// The answer to the first check is lost, and the connection with it.
				if (data.toString().includes('server') || ++answers !== 1)
					client.write(data);
				else
					client.destroy();
			});
		}).listen(0, '127.0.0.1', () => resolve(proxy));
	});
	atEnd(() => through.close());
	const one = limiter({store: `redis://127.0.0.1:${through.address().port}`, ...PATIENT});
	const first = await one.check('k', '10/1h', {id: 'request-1'});
	assert.deepEqual([first.allowed, first.repeated, first.remaining], [true, true, 9]);
	answers = 0;
	const lost = await one.check('k', '10/1h').catch((e) => e);
	assert.equal(lost.code, 'away', 'what may have been charged is not sent again');
	assert.equal((await one.peek('k', '10/1h')).remaining, 8);
	await one.close();
});

it('logs in to servers that know no HELLO', async () => {
	const heard = [];
	const store = await fake((words) => {
		heard.push(words[0]);
		return {HELLO: '-ERR unknown command \'HELLO\'\r\n', AUTH: '+OK\r\n', SELECT: '+OK\r\n'}[words[0]]
			?? '*7\r\n:1\r\n:5\r\n:4\r\n:0\r\n:1\r\n:0\r\n:0\r\n';
	});
	const one = limiter({store: `${store.replace('//', '//:secret@')}/2`, ...PATIENT});
	assert.equal((await one.check('k', '5/1m')).remaining, 4);
	assert.deepEqual(heard, ['HELLO', 'AUTH', 'SELECT', 'SLUICE.CHECK']);
});

it('says who it is, in one write with HELLO, and does not wait for the answer', async () => {
	const pieces = [];
	const store = await new Promise((resolve) => {
		const server = net.createServer((socket) => {
			socket.on('error', () => {}).on('data', (data) => {
				pieces.push([...commandsIn(data.toString())]);
				socket.write(pieces.length === 1 ? '%1\r\n+proto\r\n:3\r\n' // and no answer to who it is, yet
					: '-ERR no\r\n+OK\r\n*7\r\n:1\r\n:5\r\n:4\r\n:0\r\n:1\r\n:0\r\n:0\r\n');
			});
		}).listen(0, '127.0.0.1', () => resolve(`redis://127.0.0.1:${server.address().port}`));
		atEnd(() => server.close());
	});
	const one = limiter({store, ...PATIENT}), {version} = require(join(PACKAGE, 'package.json'));
	assert.equal((await one.check('k', '5/1m')).remaining, 4);
	await one.close();
	assert.deepEqual(pieces.map((piece) => piece.map((words) => words.slice(0, 4))), [
		[['HELLO', '3'], ['CLIENT', 'SETINFO', 'LIB-NAME', 'sluice-node'], ['CLIENT', 'SETINFO', 'LIB-VER', version]],
		[['SLUICE.CHECK', 'k', '1', '5/1m']]]);
});

it('is counted by its name at a server', async () => {
	const server = await serve();
	const port = /^sluice: http on 127\.0\.0\.1:(\d+)$/m.exec(server.said)[1];
	const one = limiter({store: server.url, ...PATIENT}), {version} = require(join(PACKAGE, 'package.json'));
	for (let i = 0; i < 5; i++)
		await one.check('k', '3/1h');
	const {clients} = await (await fetch(`http://127.0.0.1:${port}/v1/figures`)).json();
	assert.deepEqual(clients.filter((client) => client.door === 'resp'), [{door: 'resp', kind: 'named',
		name: 'sluice-node', version, connections: 1, allowed: 3, denied: 2, error: 0}]);
});

it('tells what is no answer of a Sluice', async () => {
	const hello = '%1\r\n+proto\r\n:3\r\n';
	const answers = ['*2\r\n:1\r\n:2\r\n', '+OK\r\n', 'HTTP/1.1 400 Bad Request\r\n\r\n', '$9999999999\r\n', '*-1\r\n',
		':1x\r\n', '-LOADING Redis is loading the dataset in memory\r\n', '-ERR unknown command \'SLUICE.CHECK\'\r\n'];
	const codes = ['protocol', 'protocol', 'protocol', 'protocol', 'protocol', 'protocol', 'away', 'bad-store'];
	for (const [i, answer] of answers.entries()) {
		const store = await fake((words) => words[0] === 'HELLO' ? hello : answer);
		const error = await limiter({store, ...PATIENT}).check('k', '5/1m').catch((e) => e);
		assert.equal(error.code, codes[i], `${JSON.stringify(answer)}: ${error}`);
	}
});

it('leaves a server that has become a replica, once a second at most', async () => {
	const roles = new Map();
	let promoted = false;
	const store = await fake((words, socket) => {
		if (words[0] === 'HELLO')
			roles.set(socket, promoted);
		return words[0] === 'HELLO' ? '%1\r\n+proto\r\n:3\r\n' : roles.get(socket) ? '*7\r\n:1\r\n:5\r\n:4\r\n'
			+ ':0\r\n:1\r\n:0\r\n:0\r\n' : '-READONLY You can\'t write against a read only replica.\r\n';
	});
	const one = limiter({store, ...PATIENT}), begun = performance.now();
	const codes = await Promise.all(Array.from({length: 10}, () => one.check('k', '5/1m').catch(({code}) => code)));
	for (let i = 0; i < 10; i++)
		codes.push(await one.check('k', '5/1m').catch(({code}) => code));
	assert.deepEqual(codes, Array(20).fill('away'));
	assert.ok(roles.size <= 2 + (performance.now() - begun) / 1000, `${roles.size} connections`);
	promoted = true; // what its name leads to now is another server
	await until('the primary is asked', () => one.check('k', '5/1m').catch(() => null));
});

it('reads answers in whatever pieces they come', async () => {
	const answer = '*7\r\n:1\r\n:5\r\n:4\r\n:0\r\n:12345\r\n:0\r\n:0\r\n';
	const store = await fake((words, socket) => {
		if (words[0] === 'HELLO')
			return '>2\r\n+push\r\n+me\r\n%1\r\n+proto\r\n:3\r\n';
		let at = 0;
		const timer = setInterval(() => {
			socket.write(answer[at++]);
			if (at === answer.length)
				clearInterval(timer);
		}, 1);
		return undefined;
	});
	const one = limiter({store, ...PATIENT});
	for (let i = 0; i < 2; i++)
		assert.equal((await one.check('k', '5/1m')).resetAfter, 12345);
});

it('does not keep a process alive that has nothing to ask', async () => {
	const server = await serve();
	const script = `const {Limiter} = require(${JSON.stringify(PACKAGE)});
		new Limiter({store: '${server.url}', timeout: 10000}).check('k', '5/1m').then((r) => console.log(r.allowed));`;
	const done = spawnSync(process.execPath, ['-e', script], {encoding: 'utf8', timeout: 15000});
	assert.deepEqual([done.status, done.stdout.trim()], [0, 'true'], done.stderr);
});

it('ends after what is under way, and refuses what comes then', async () => {
	const one = new Limiter({store: (await serve()).url, ...PATIENT});
	const asked = Promise.all(Array.from({length: 100}, () => one.check('k', '5/1m')));
	await one.close();
	assert.equal((await asked).length, 100);
	await assert.rejects(one.check('k', '5/1m'), {code: 'closed'});
});

it('is the same at Redis with the module', async (t) => {
	const server = await redis();
	if (server === null)
		return t.skip('no redis-server here');
	const one = limiter({store: server.url, ...PATIENT});
	assert.equal((await one.check('k', ['5/1m', '10/1h'], {each: true, cost: 2})).each[1].remaining, 8);
	await assert.rejects(one.admit({user: 'ann'}), {code: 'bad-store'});
	const made = await one.withLease('k', 'concurrency 1 lease 60s', async (lease) => {
		assert.equal(await lease.renew(), 1);
		await assert.rejects(one.lease('k', 'concurrency 1 lease 60s'), {name: 'Limited', code: 'limited'});
		return 'made';
	});
	assert.equal(made, 'made');
	assert.equal((await one.peek('k', '5/1m')).remaining, 3);
});
