// The shortest way of a plain check, beside the long one: the same limits, as a text or a list, asked of two keys in
// turn, one without options and one with an empty object of them, which goes the long way.
'use strict';

const assert = require('node:assert/strict');
const {it} = require('node:test');
const {limiter} = require('./helpers.js');

const APART_MS = 60000; // between the two calls of a pair, on a machine that is busy
const LIMITS = ['5/30d', 'fixed-window 7/30d', 'sliding-log 6/30d', 'token-bucket 10/365d burst 20', 'unlimited',
	'0/30d', 'leaky-bucket 10/365d queue 5', 'sliding-buckets 40/300d precision 1d', '4294967295/30d',
	'3/year at Europe/Berlin'];
const WRONG = ['5/30', 'AT', 'concurrency 2 lease 3s', 'distinct 3/2s', '', '5/30d\n6/30d', undefined, null, 5, [],
	['5/30d', 7], ['5/30d', 'each'], [['k', '5/30d', 'x']], Array(17).fill('5/30d')];

/** What happens: figures, or the error. */
function said(call) {
	try {
		return call();
	} catch (error) {
		return {code: error.code, message: error.message};
	}
}

function compare(short, long, what) {
	for (const name of ['code', 'message', 'allowed', 'quota', 'remaining', 'index', 'limit', 'granted'])
		assert.equal(short[name], long[name], `${name} of ${what}`);
	for (const name of ['retryAfter', 'resetAfter', 'delay'])
		assert.ok(short[name] === long[name] || Math.abs(short[name] - long[name]) <= APART_MS, `${name} of ${what}`);
}

it('says what the long way says, of one limit and of several', () => {
	const here = limiter(), seen = new Set();
	for (let i = 0; i < 4000; i++) {
		const count = i % 5, own = String(i >> 5);
		const limits = count === 0 ? LIMITS[i % LIMITS.length]
			: Array.from({length: count}, (_, j) => LIMITS[(i * 7 + j * (1 + i % 3)) % LIMITS.length]);
		const short = here.checkSync(`short ${own}`, limits), long = here.checkSync(`long ${own}`, limits, {});
		compare(short, long, JSON.stringify([i, limits]));
		seen.add(`${count} ${short.allowed} ${short.index}`);
	}
	assert.ok(seen.size > 15, [...seen].join());
});

it('refuses what the long way refuses, in its words, again and again', () => {
	const here = limiter();
	for (let round = 0; round < 3; round++)
		for (const limits of WRONG) {
			const short = said(() => here.checkSync('ann', limits));
			const long = said(() => here.checkSync('ann', limits, {}));
			assert.ok(short.code !== undefined, JSON.stringify(limits));
			compare(short, long, JSON.stringify(limits));
		}
});

it('looks at a list anew each time, and at its texts', () => {
	const here = limiter(), list = ['100/30d', '5/30d'];
	assert.equal(here.checkSync('a', list).limit, '5/30d');
	list[1] = '4/30d';
	assert.equal(here.checkSync('a', list).limit, '4/30d');
	list.push('3/30d');
	assert.equal(here.checkSync('a', list).limit, '3/30d');
	list.length = 1;
	assert.equal(here.checkSync('a', list).limit, '100/30d');
	assert.equal(here.checkSync('a', list).remaining, 95); // of one name and window: one counter
	assert.throws(() => here.checkSync('a', '100/30d\n4/30d'), {code: 'bad-limit'});
	assert.throws(() => here.checkSync('a', '\n100/30d'), {code: 'bad-limit'});
});

it('keys that are not plain ASCII, long, or bytes are the same counters by both ways', () => {
	const here = limiter();
	for (const key of ['', 'x'.repeat(64), 'x'.repeat(65), 'x'.repeat(1024), 'x'.repeat(1025),
		'x'.repeat(2000), 'é', 'user:日本', '\u007f', '\0', Buffer.from('é')]) {
		const before = here.peekSync(key, '9/30d').remaining;
		here.checkSync(key, '9/30d');
		here.checkSync(key, '9/30d', {});
		assert.equal(here.peekSync(key, '9/30d').remaining, before - 2, JSON.stringify(key));
	}
});

it('many limiters, and more limits than are kept, in any order', async () => {
	const all = Array.from({length: 40}, () => limiter());
	for (let i = 0; i < 4000; i++) {
		const one = all[i % all.length], quota = 1 + (i * 31) % 2500;
		assert.equal(one.checkSync(`k${i}`, `${quota}/30d`).remaining, quota - 1);
	}
	for (const one of all.filter((_, i) => i % 3 === 0)) {
		await one.close();
		assert.throws(() => one.checkSync('k', '5/30d'), {code: 'closed'});
	}
	for (let i = 1; i < 40; i += 3)
		assert.equal(all[i].checkSync('new', ['77/30d', '78/30d']).limit, '77/30d');
});
