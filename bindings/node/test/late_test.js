// Leases of which nobody learns: the server's answer comes after the client's timeout, or never. They are given back.
'use strict';

const assert = require('node:assert/strict');
const net = require('node:net');
const {it} = require('node:test');
const {busyFor} = require('./busy.js');
const {Limiter, atEnd, limiter, serve, sleep, until} = require('./helpers.js');

const PATIENT = {timeout: 10000}, DEADLINE_MS = 10000;
const LEASE = 'concurrency 2 lease 1h';

/** A way to a server on which answers can be kept back: `keeps` true; `pass()` lets them come. `lose` says of a piece
 * of what is asked whether the connection ends instead of the answer; `cut`: nothing passes. */
async function way(server) {
	const one = {asked: '', keeps: false, kept: [], lose: () => false, cut: false};
	const proxy = net.createServer((client) => {
		const upstream = net.connect(server.port, '127.0.0.1').on('error', () => {});
		let lost = false;
		client.on('error', () => {}).on('close', () => upstream.end());
		client.on('data', (data) => {
			if (one.cut)
				return client.destroy();
			one.asked += data;
			lost ||= one.lose(String(data));
			return upstream.write(data);
		});
		upstream.on('data', (data) => {
			if (lost)
				client.destroy();
			else if (one.keeps)
				one.kept.push(() => client.write(data));
			else
				client.write(data);
		});
	}).listen(0, '127.0.0.1');
	await until('the way is open', () => proxy.listening);
	atEnd(() => proxy.close());
	one.store = `redis://127.0.0.1:${proxy.address().port}`;
	one.count = (word) => one.asked.split(word).length - 1;
	one.pass = () => {
		one.keeps = false;
		one.kept.splice(0).forEach((write) => write());
	};
	return one;
}

const codeOf = (promise) => promise.then(() => 'none', (error) => error.code);

it('gives back a lease whose answer did not come in time', async () => {
	const server = await serve(), through = await way(server);
	const slow = limiter({store: through.store, timeout: 100}), direct = limiter({store: server.url, ...PATIENT});
	await until('connected', () => slow.peek('k', '5/1m').catch(() => null));
	through.keeps = true;
	assert.deepEqual(await Promise.all([1, 2].map(() => codeOf(slow.acquire('k', [LEASE, '9/1h'])))), ['away', 'away']);
	await until('both are given back', () => through.count('SLUICE.RELEASE') === 2);
	assert.equal(through.count('SLUICE.ACQUIRE'), 2);
	await until('nobody holds any', async () => (await direct.holders('k', LEASE)).length === 0);
	assert.equal((await direct.peek('k', '9/1h')).remaining, 7, 'both were had');
	through.pass();
});

it('leaves a lease whose id the caller chose: by that it can be had again', async () => {
	const server = await serve(), through = await way(server);
	const slow = limiter({store: through.store, timeout: 100}), direct = limiter({store: server.url, ...PATIENT});
	await until('connected', () => slow.peek('k', '5/1m').catch(() => null));
	through.keeps = true;
	assert.equal(await codeOf(slow.acquire('k', LEASE, {id: 'mine'})), 'away');
	through.pass();
	await until('it answers', () => slow.peek('k', '5/1m').catch(() => null));
	assert.equal((await direct.holders('k', LEASE)).length, 1);
	assert.equal((await direct.acquire('k', LEASE, {id: 'mine'})).repeated, true);
	assert.equal(through.count('SLUICE.RELEASE'), 0);
});

it('gives back what admit() leased, when its answer comes after all', async () => {
	const server = await serve('limits: [{name: c, key: user, limit: concurrency 1 lease 1h}]\n');
	const through = await way(server);
	const slow = limiter({store: through.store, timeout: 100}), direct = limiter({store: server.url, ...PATIENT});
	await until('connected', () => slow.peek('k', '5/1m').catch(() => null));
	through.keeps = true;
	assert.equal(await codeOf(slow.admit({user: 'ann'})), 'away');
	await until('it was decided', () => through.kept.length > 0);
	assert.equal((await direct.admit({user: 'ann'})).allowed, false);
	through.pass();
	await until('there is room', async () => (await direct.admit({user: 'ann'})).allowed);
});

it('has one lease where the connection is lost with the answer, and none where it is lost twice', async () => {
	const server = await serve(), through = await way(server);
	const one = limiter({store: through.store, ...PATIENT}), direct = limiter({store: server.url, ...PATIENT});
	let times = 1;
	through.lose = (text) => text.includes('SLUICE.ACQUIRE') && times-- > 0;
	const lease = await one.acquire('k', LEASE);
	assert.deepEqual([lease.allowed, lease.repeated, lease.each], [true, false, undefined]);
	assert.deepEqual((await direct.holders('k', LEASE)).map(({id}) => id), [lease.id]);
	times = 2;
	assert.equal(await codeOf(one.acquire('k', LEASE)), 'away');
	await until('it is given back', async () => (await direct.holders('k', LEASE)).length === 1);
	assert.equal(await lease.release(), 1);
});

it('releases again what could not be released, and tells what work came to all the same', async () => {
	const through = await way(await serve());
	for (const onError of ['throw', 'allow']) {
		const one = limiter({store: through.store, timeout: 2000, onError});
		const lease = await one.acquire(onError, LEASE);
		through.cut = true;
		assert.equal(await lease.release().catch(({code}) => code), onError === 'throw' ? 'away' : 0);
		through.cut = false;
		assert.equal(await until('it can be reached', () => lease.renew().catch(() => 0)), 1);
		assert.equal(await lease.release(), 1);
		assert.deepEqual([await lease.release(), await lease.renew()], [0, 0]);
		assert.equal((await one.peek(onError, LEASE)).remaining, 2);
	}
	const one = limiter({store: through.store, ...PATIENT}), error = new Error('mine');
	const done = (how) => () => {
		through.cut = true;
		return how();
	};
	for (const how of [() => 'done', () => Promise.reject(error)]) {
		through.cut = false;
		await until('it can be reached', () => one.peek('w', LEASE).catch(() => null));
		const told = await one.withLease('w', LEASE, done(how)).catch((thrown) => thrown);
		assert.ok(told === 'done' || told === error, String(told));
	}
	if (Symbol.asyncDispose) {
		through.cut = false;
		const lease = await until('it can be reached', () => one.acquire('d', LEASE).catch(() => null));
		through.cut = true;
		await lease[Symbol.asyncDispose]();
	}
});

it('keeps each call\'s own deadline while earlier ones are not answered', async () => {
	const through = await way(await serve());
	const one = limiter({store: through.store, timeout: 200});
	const first = () => Promise.race([codeOf(one.check('k', '5/1m')), sleep(600, 'a timer of 600 ms')]);
	through.keeps = true; // first the answer to HELLO, then all
	assert.deepEqual([await first(), await first()], ['away', 'away'], 'while it connects');
	through.pass();
	await until('connected', () => one.peek('k', '5/1m').catch(() => null));
	through.keeps = true;
	assert.deepEqual([await first(), await first()], ['away', 'away'], 'connected');
});

it('gives back before it is closed what acquires under way have leased', async () => {
	const server = await serve(), direct = limiter({store: server.url, ...PATIENT});
	const one = new Limiter({store: server.url, timeout: 300});
	await until('connected', () => one.peek('k', '5/1m').catch(() => null));
	server.process.kill('SIGSTOP');
	const asked = [1, 2].map(() => codeOf(one.acquire('k', [LEASE, '9/1h'])));
	const begun = performance.now(), closed = one.close();
	assert.equal(await codeOf(one.check('k', '5/1m')), 'closed');
	assert.deepEqual(await Promise.all(asked), ['away', 'away']);
	await closed;
	assert.ok(performance.now() - begun >= 590, 'the server had its time for that, too');
	server.process.kill('SIGCONT');
	await until('both were had', async () => (await direct.peek('k', '9/1h')).remaining === 7);
	await until('nobody holds any', async () => (await direct.holders('k', LEASE)).length === 0);
});

it('gives back before it is closed what admit() leased, once its answer comes', async () => {
	const server = await serve('limits: [{name: c, key: user, limit: concurrency 1 lease 1h}]\n');
	const through = await way(server), one = new Limiter({store: through.store, timeout: 100});
	const direct = limiter({store: server.url, ...PATIENT});
	await until('connected', () => one.peek('k', '5/1m').catch(() => null));
	through.keeps = true;
	const asked = codeOf(one.admit({user: 'ann'})), closed = one.close();
	assert.equal(await asked, 'away');
	await until('it was decided', () => through.kept.length > 0);
	through.pass();
	await closed;
	assert.equal(through.count('SLUICE.RELEASE'), 1);
	assert.equal((await direct.admit({user: 'ann'})).allowed, true);
});

it('takes releases of what was under way when it was closed', async () => {
	const server = await serve(), direct = limiter({store: server.url, ...PATIENT});
	const one = new Limiter({store: server.url, ...PATIENT});
	const held = one.withLease('k', LEASE, () => 'done');
	const lease = one.acquire('k', LEASE).then((lease) => lease.release());
	await one.close();
	assert.deepEqual([await held, await lease], ['done', 1]);
	assert.equal((await direct.holders('k', LEASE)).length, 0);
	assert.equal(await codeOf(one.release('k', LEASE, 'any')), 'closed');
});

it('reads the answers that came while the process was busy before it says that none did', async () => {
	const server = await serve(), port = new URL(server.url).port;
	const one = limiter({store: server.url, timeout: 200}), late = limiter({store: server.url, timeout: 4000});
	const ask = (limiter) => limiter.check('k', '0/1h').then(({allowed}) => allowed, ({code}) => code);
	await until('connected', () => one.peek('k', '5/1m').catch(() => null));
	await late.peek('k', '5/1m');
	for (const ms of [600, 600, 1500]) // at last for longer than a server may be silent
		await until('it answers meanwhile', async () => {
			const asked = ask(one);
			for (let turn = 0; turn < 4; turn++)
				await new Promise(process.nextTick); // it is sent
			const came = busyFor(ms, port), told = await asked;
			assert.ok(!came || told === false, told);
			return came;
		});
	const unsent = ask(late);
	busyFor(4500);
	assert.equal(await unsent, false);
});

it('waits no longer than that for a server that never answers', async () => {
	const silent = net.createServer((client) => client.on('error', () => {})).listen(0, '127.0.0.1');
	await until('it listens', () => silent.listening);
	atEnd(() => silent.close());
	for (const timeout of [100, 400]) {
		const one = new Limiter({store: `redis://127.0.0.1:${silent.address().port}`, timeout});
		const asked = codeOf(one.acquire('k', LEASE)), begun = performance.now();
		await one.close();
		assert.equal(await asked, 'away');
		assert.ok(performance.now() - begun < 8000);
	}
});

it('has its deadlines at a server that answers HELLO alone', async () => {
	const half = net.createServer((client) => client.on('error', () => {}).once('data', () => client.write('%0\r\n')));
	half.listen(0, '127.0.0.1');
	await until('it listens', () => half.listening);
	atEnd(() => half.close());
	const one = new Limiter({store: `redis://127.0.0.1:${half.address().port}`, timeout: 200});
	const hangs = sleep(DEADLINE_MS, 'it hangs', {ref: false});
	for (let i = 0; i < 2; i++)
		assert.equal(await Promise.race([codeOf(one.acquire('k', LEASE)), hangs]), 'away');
	await one.close();
});
