// What callers may pass by mistake, or pass on from strangers: each is refused by a clear TypeError or SluiceError, at
// both kinds of stores alike; nothing is charged; and nothing that is not a mistake is refused.
'use strict';

const assert = require('node:assert/strict');
const {it, before} = require('node:test');
const {Limiter, SluiceError, limiter, serve} = require('./helpers.js');

const L = '10/1h';
const type = (code, said) => ({name: 'TypeError', code, said});
const own = (code, said) => ({name: 'SluiceError', code, said});

/** [what is called with a limiter, what is thrown] */
const WRONG = [
	[(l) => l.check(), type('bad-key', /^key: expected a string or a Uint8Array, found undefined$/)],
	[(l) => l.check(null, L), type('bad-key', /null/)],
	[(l) => l.check(7, L), type('bad-key', /found 7/)],
	[(l) => l.check({toString: () => 'k'}, L), type('bad-key', /an object/)],
	[(l) => l.check(Symbol('k'), L), type('bad-key', /a symbol/)],
	[(l) => l.check('k'), type('bad-limit', /^limits: expected a text such as '100\/1m', or a list, found undefined$/)],
	[(l) => l.check('k', 10), type('bad-limit', /found 10/)],
	[(l) => l.check('k', []), type('bad-limit', /1 to 16, found 0/)],
	[(l) => l.check('k', Array(17).fill(L)), type('bad-limit', /found 17/)],
	[(l) => l.check('k', [L, null]), type('bad-limit', /^limit 2: .*found null/)],
	[(l) => l.check('k', [['a', L, 'b']]), type('bad-limit', /a list of 3/)],
	[(l) => l.check('k', [[7, L]]), type('bad-key', /^key of limit 1: /)],
	[(l) => l.check('k', ''), own('bad-limit', /^limit 1/)],
	[(l) => l.check('k', '10/1h\0'), own('bad-limit', /^limit 1/)],
	[(l) => l.check('k', 'x'.repeat(5000)), own('bad-limit', /^limit 1/)],
	[(l) => l.check('k', 'policy:none'), own('bad-limit', /./)],
	[(l) => l.check('k', ['UPTO', L]), type('bad-limit', /^limit 1: expected .*, found 'UPTO'$/)],
	...[NaN, -1, 1.5, Infinity, 4294967296, '1', null, 1n, {}].map((cost) =>
		[(l) => l.check('k', L, {cost}), type('bad-argument', /^cost: expected a whole number from 0 to 4294967295/)]),
	[(l) => l.refund('k', L, NaN), type('bad-argument', /^cost/)],
	[(l) => l.check('k', L, {cots: 1}), type('bad-argument', /^check: unknown option 'cots': expected cost, /)],
	[(l) => l.check('k', L, null), type('bad-argument', /an object of options, found null/)],
	[(l) => l.check('k', L, 5), type('bad-argument', /found 5/)],
	[(l) => l.check('k', L, {upto: 1}), type('bad-argument', /^upto: expected true or false, found 1/)],
	[(l) => l.check('k', L, {id: ''}), type('bad-argument', /^id: /)],
	[(l) => l.check('k', L, {id: 'i'.repeat(65)}), type('bad-argument', /1 to 64 bytes/)],
	[(l) => l.check('k', L, {member: 5}), type('bad-key', /^member: /)],
	[(l) => l.peek('k', L, {id: 'x'}), type('bad-argument', /unknown option 'id'/)],
	[(l) => l.check('k', 'distinct 5/1h'), own('bad-limit', /MEMBER/)],
	[(l) => l.check('k', 'concurrency 5 lease 5s'), own('bad-limit', /ACQUIRE/)],
	[(l) => l.acquire('k', L), own('bad-limit', /concurrency/)],
	[(l) => l.release('k', 'concurrency 5 lease 5s'), type('bad-argument', /^id: expected the one that the result/)],
	[(l) => l.reserve('k', L), type('bad-argument', /^ttl: /)],
	[(l) => l.reserve('k', L, {ttl: 0}), type('bad-argument', /^ttl: /)],
	[(l) => l.reserve('k', 'concurrency 5 lease 5s', {ttl: 1000}), own('bad-limit', /./)],
	[(l) => l.commit('k', L, '00000000000000aa.AAAA', 1), own('bad-argument', /ticket/)],
	[(l) => l.commit('k', L, '00000000000000aa'), type('bad-argument', /^cost: /)],
	[(l) => l.withLease('k', L), type('bad-argument', /^withLease: expected a function/)],
	[(l) => l.admit(), type('bad-argument', /^attributes: /)],
	[(l) => l.admit([]), type('bad-argument', /an array/)],
	[(l) => l.admit({}), type('bad-argument', /at least one/)],
	[(l) => l.admit({a: 5}), type('bad-argument', /^attribute 'a': expected a string, found 5/)],
	[(l) => l.admit({['n'.repeat(65)]: 'v'}), type('bad-argument', /1 to 64 bytes/)],
	[(l) => l.admit(Object.fromEntries(Array.from({length: 300}, (_, i) => [`n${i}`, 'v']))),
		type('bad-argument', /at most 256, found 300/)],
];

const OPTIONS = [
	[{store: 5}, type('bad-store', /a string/)], [{store: 'redis'}, type('bad-store', /found 'redis'/)],
	[{store: 'redis://'}, type('bad-store', /./)], [{store: 'redis://h:99999'}, type('bad-store', /not a URL/)],
	[{store: 'http://u:secret@h'}, type('bad-store', /^(?!.*secret)/)],
	[{store: 'redis://:s%ecret@h'}, type('bad-store', /^store: (?!.*ecret).*%25/)],
	[{store: 'redis://s%ecret:p@h'}, type('bad-store', /^store: (?!.*ecret).*%25/)],
	[{store: 'redis://h/x'}, type('bad-store', /x/)],
	[{store: 'shared:'}, own('bad-argument', /./)], [{store: 'shared:a/b'}, own('bad-argument', /./)],
	[{store: '/no/such/folder/here'}, own('system', /no\/such/)], [{store: '/etc/hostname'}, own('bad-store', /./)],
	[{store: '/tmp/\0'}, own('bad-argument', /./)], [{stor: 'memory'}, type('bad-argument', /unknown option 'stor'/)],
	[{memory: '64 MiB'}, own('bad-argument', /^memory/)], [{memory: 5}, own('bad-argument', /./)],
	[{memory: NaN}, type('bad-argument', /^memory/)], [{policy: 5}, type('bad-argument', /^policy/)],
	[{policy: '/no/policy'}, own('bad-policy', /no\/policy/)],
	[{policy: 'limits:\n  - {name: a, key: user, limit: 5/1q}\n'}, own('bad-policy', /policy:2:/)],
	[{clock: 5}, type('bad-argument', /^clock/)], [{timeout: 0}, type('bad-argument', /^timeout/)],
	[{timeout: '5'}, type('bad-argument', /^timeout/)], [{onError: 'maybe'}, type('bad-argument', /^onError/)],
	[{store: 'redis://h', policy: 'x'}, type('bad-argument', /the server at h has its own/)],
	[null, type('bad-argument', /./)],
];

function is(error, {name, code, said}, what) {
	assert.deepEqual([error.name, error.code], [name, code], `${what}: ${error.stack}`);
	assert.match(error.message, said, what);
	assert.ok(error.message.length < 1200, `${what}: a message of ${error.message.length} characters`);
}

const stores = {};
before(async () => {
	stores['in process'] = limiter({onError: 'allow'});
	stores['at a server'] = limiter({store: (await serve('limits: []\n')).url, timeout: 10000, onError: 'allow'});
});

for (const name of ['in process', 'at a server'])
	it(`${name}: what is wrong is said, whatever onError says`, async () => {
		const one = stores[name];
		for (const [call, expected] of WRONG) {
			// Promises in both cases: nothing is thrown at once.
			const error = await call(one).then((told) => new Error(`no error, but ${JSON.stringify(told)}`), (e) => e);
			is(error, expected, `${name}: ${call}`);
		}
		assert.equal((await one.peek('k', L)).remaining, 10, 'nothing was charged');
	});

it('options that are wrong', () => {
	for (const [options, expected] of OPTIONS) {
		try {
			new Limiter(options);
		} catch (error) {
			is(error, expected, JSON.stringify(options));
			continue;
		}
		assert.fail(`no error: ${JSON.stringify(options)}`);
	}
});

for (const name of ['in process', 'at a server'])
	it(`${name}: keys are bytes, whatever they are`, async () => {
		const one = stores[name], peek = async (key) => (await one.peek(key, L)).remaining;
		const keys = ['', '\0', 'a\r\n$5\r\n', 'KEY', 'é', 'Ł', 'A', '日本', '🦥', '*', 'x'.repeat(1024), 'user 1'];
		for (const key of keys)
			assert.equal((await one.check(key, L)).remaining, 9, JSON.stringify(key));
		for (const key of keys)
			assert.equal(await peek(Buffer.from(key)), 9, `${JSON.stringify(key)} as bytes`);
		await one.check(new Uint8Array([0xff, 0xfe]), L);
		assert.equal(await peek(Buffer.from([0xff, 0xfe])), 9);
		assert.equal(await peek('\ufffd\ufffd'), 10, 'bytes that are no UTF-8 stay as they are');
		assert.equal((await one.check('\ud800', L)).remaining, 9);
		assert.equal(await peek('\ufffd'), 9, 'half a pair is what UTF-8 makes of it');
		// Parts of longer strings, which V8 keeps as ropes and slices.
		const long = `user:${'0123456789'.repeat(3)}`, slice = `xx${long}`.slice(2);
		await one.check(long, L);
		assert.equal(await peek(slice), 9);
	});

it('a reply of the caller is never waited for while a call is decided', () => {
	let depth = 0;
	const one = limiter({clock: () => {
		if (depth++ < 3)
			one.checkSync('inner', L);
		return 1728000000000;
	}});
	assert.equal(one.checkSync('outer', L).remaining, 9);
	const thrower = limiter({clock: () => {
		throw new SluiceError('mine', 'of the clock');
	}});
	assert.throws(() => thrower.checkSync('k', L), {code: 'mine'});
	for (const now of [NaN, -1, '5', Infinity, undefined, 9223372036855, 1728000000000 * 1000])
		assert.throws(() => limiter({clock: () => now}).checkSync('k', L), {name: 'TypeError', message: /^clock/});
	for (const now of [0.7, 9223372036854])
		assert.equal(limiter({clock: () => now}).checkSync('k', L).remaining, 9);
});

for (const name of ['in process', 'at a server'])
	it(`${name}: bytes are read once, whatever runs meanwhile or changes them`, async () => {
		const one = stores[name], calls = [];
		class Bytes extends Uint8Array {
			get length() {
				calls.push(one.check('inner', [L, '20/1h'], {each: true}));
				return 3;
			}
		}
		await one.check(new Bytes(Buffer.from('outer')), '3/1d');
		assert.equal((await one.peek('outer', '3/1d')).remaining, 2);
		await Promise.all(calls);
		await assert.rejects(one.check(new Proxy(Buffer.from('k'), {}), L), {code: 'bad-key'});
		await assert.rejects(one.check(Object.create(Uint8Array.prototype), L), {code: 'bad-key'});
		const key = Buffer.from('mine'), limits = ['concurrency 1 lease 1h'];
		const asked = one.acquire(key, limits);
		key.fill('x');
		const lease = await asked;
		limits[0] = 'concurrency 2 lease 1h';
		assert.equal(lease.limit, 'concurrency 1 lease 1h');
		assert.equal((await one.holders('mine', 'concurrency 1 lease 1h')).length, 1);
		assert.equal(await lease.release(), 1);
		assert.equal((await one.holders('mine', 'concurrency 1 lease 1h')).length, 0);
	});

it('a list of limits that closes the limiter when it is read', () => {
	for (const at of ['length', '0', '1']) {
		const one = new Limiter();
		const closing = new Proxy([L, '20/1h'], {get: (list, name) => (name === at && one.close(), list[name])});
		one.checkSync('k', [L, '20/1h']);
		assert.throws(() => one.checkSync('k', closing), {code: 'closed'});
		const other = new Limiter();
		other.checkSync('k', ['7/1h']);
		assert.throws(() => one.checkSync('k', [L, '20/1h']), {code: 'closed'});
		other.close();
	}
});

it('long attributes count as what they are', () => {
	const one = limiter({policy: 'limits:\n  - {name: a, key: user, limit: 2/1h}\n'});
	const long = 'x'.repeat(200000);
	assert.deepEqual([1, 2, 3].map(() => one.admitSync({user: long}).allowed), [true, true, false]);
	assert.equal(one.admitSync({user: `${long}y`}).allowed, true);
	assert.throws(() => one.admitSync({user: 'x'.repeat(17 << 20)}), {code: 'bad-argument'});
	assert.equal(one.admitSync({user: null, other: 'x'}).index, -1);
});

it('a policy is loaded anew while it is in use, and a wrong one is not', async () => {
	const one = limiter({policy: 'limits:\n  - {name: a, key: user, limit: 5/1h}\n'});
	assert.equal(one.admitSync({user: 'u'}).remaining, 4);
	await one.reload('limits:\n  - {name: a, key: user, limit: 9/1h}\n');
	assert.equal(one.admitSync({user: 'u'}).remaining, 7);
	await assert.rejects(one.reload('limits:\n  - {name: a}\n  - {name: a}\n'), {code: 'bad-policy'});
	await assert.rejects(one.reload('listen: {}\n'), {code: 'bad-policy'}, 'a reload never disarms');
	await assert.rejects(one.reload(5), {name: 'TypeError'});
	assert.equal(one.admitSync({user: 'u'}).remaining, 6);
	assert.throws(() => limiter().admitSync({user: 'u'}), {code: 'bad-policy'});
});

it('nothing is decided after close()', async () => {
	const one = new Limiter();
	one.checkSync('k', L);
	await one.close();
	await one.close();
	assert.throws(() => one.checkSync('k', L), {code: 'closed'});
	await assert.rejects(one.check('k', L), {code: 'closed'});
	await assert.rejects(one.reload('limits: []\n'), {code: 'closed'});
});
