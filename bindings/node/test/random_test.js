// Random calls, in process and at a server: two ways to the C library that share the code of neither arguments nor
// answers. Each call is asked of both at the same instant, and every field of what they say must be the same.
//
//   SLUICE_OPS=1000000 SLUICE_SEED=7 bindings/node/test/run bindings/node/test/random_test.js
'use strict';

const assert = require('node:assert/strict');
const {it} = require('node:test');
const {limiter, serve} = require('./helpers.js');

const OPS = Number(process.env.SLUICE_OPS ?? 20000);
const SEED = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 31));
const AT_A_TIME = 64; // calls at a server that are under way

/** xorshift32: the same numbers for the same seed, anywhere. */
function generator(seed) {
	let state = seed | 1;
	return (below) => {
		state ^= state << 13;
		state ^= state >>> 17;
		state ^= state << 5;
		return (state >>> 0) % below;
	};
}

const PLAIN = ['5/1s', '100/1m', 'fixed-window 7/2s', 'sliding-log 6/3s', 'token-bucket 10/1s burst 20', 'unlimited',
	'leaky-bucket 10/1s queue 5', 'sliding-buckets 40/10s precision 1s', '0/1s', '4294967295/1h',
	'3/day at Europe/Berlin', 'token-bucket 3000/1s burst 1', 'fixed-window 9/1m spread',
	'sliding-buckets 9/1s precision 100ms edge weighted'];
const DISTINCT = ['distinct 3/2s', 'distinct 50/1h'];
const LEASES = ['concurrency 2 lease 3s', 'concurrency 5 lease 500ms'];
const KEYS = ['a', 'user:é', '', 'k'.repeat(300), Buffer.from([0, 255, 7]), '日本'];

class Caller {
	constructor(random) {
		this.random = random;
		this.ids = Array.from({length: 12}, (_, i) => `id-${i}`);
		this.tickets = [];
	}

	of(list) {
		return list[this.random(list.length)];
	}

	limits(pool) {
		const count = this.random(3) === 0 ? 1 + this.random(4) : 1;
		if (count === 1 && this.random(2) === 0)
			return this.of(pool);
		return Array.from({length: count}, () => this.random(4) === 0 ? [this.of(KEYS), this.of(pool)] : this.of(pool));
	}

	tells(options) {
		options[this.of(['next', 'each', 'cost', 'cost'])] ??= true;
		if (options.cost === true)
			options.cost = this.random(5) === 0 ? this.random(60) : this.random(4);
		return options;
	}

	/** [method, arguments]: both doors are asked that. */
	call() {
		const key = this.of(KEYS), which = this.random(100);
		if (which < 30)
			return ['check', key, this.limits(PLAIN)];
		if (which < 50)
			return ['check', key, this.limits(PLAIN), this.tells({upto: this.random(4) === 0})];
		if (which < 58)
			return ['check', key, this.limits(PLAIN), this.tells({id: this.of(this.ids)})];
		if (which < 64)
			return ['check', key, this.limits([...DISTINCT, '100/1m']), this.tells({member: `m${this.random(6)}`})];
		if (which < 72)
			return ['peek', key, this.limits(PLAIN), this.tells({upto: this.random(3) === 0})];
		if (which < 77)
			return ['refund', key, this.limits(PLAIN), this.random(4), {[this.of(['next', 'each'])]: true}];
		if (which < 79)
			return ['reset', key, this.limits([...PLAIN, ...DISTINCT, ...LEASES])];
		if (which < 86)
			return ['acquire', key, [this.of(LEASES), this.of(PLAIN)], this.tells({id: this.of(this.ids)})];
		if (which < 90)
			return [this.of(['release', 'renew']), key, this.of(LEASES), this.of(this.ids)];
		if (which < 95 || this.tickets.length === 0)
			return ['reserve', key, this.limits(PLAIN), {ttl: 1 + this.random(5000), id: this.of(this.ids),
				cost: this.random(6)}];
		const [of, ticket] = this.random(2) === 0 ? this.tickets.at(-1) : this.of(this.tickets);
		return ['commit', of, null, ticket, this.random(8)];
	}

	heard([method, key], result) {
		if (method === 'reserve' && typeof result.id === 'string') {
			this.tickets.push([key, result.id]);
			this.tickets.splice(0, this.tickets.length - 20);
		}
	}
}

/** What is compared: all fields, and what each limit says. A server doesn't say that a reservation is repeated. */
function plainOf(result, [method]) {
	if (result instanceof Error)
		return {code: result.code, message: result.message};
	if (typeof result === 'number')
		return result;
	const {each, ...fields} = JSON.parse(JSON.stringify(result));
	if (method === 'reserve')
		delete fields.repeated;
	return {...fields, each: each?.map(({repeated, ...one}) => one)};
}

it(`${OPS} random calls are answered alike, in process and at a server`, async () => {
	console.log(`seed ${SEED}`);
	const random = generator(SEED), caller = new Caller(random), clock = {now: 1728000000000};
	const options = {clock: () => clock.now};
	const here = limiter({...options, memory: '64MiB'});
	const there = limiter({...options, store: (await serve()).url, timeout: 60000});
	const counts = new Map();
	let waiting = [];
	const compare = async () => {
		for (const [call, mine, theirs] of waiting)
			assert.deepEqual(plainOf(await theirs.catch((e) => e), call), plainOf(mine, call),
				`seed ${SEED}, ${JSON.stringify(call)}`);
		waiting = [];
	};
	for (let i = 0; i < OPS; i++) {
		const call = caller.call(), [method, ...values] = call;
		const theirs = there[method](...values);
		let mine;
		try {
			mine = here[`${method}Sync`](...values);
		} catch (error) {
			mine = error;
		}
		theirs.catch(() => {});
		waiting.push([call, mine, theirs]);
		caller.heard(call, mine);
		const word = `${method} ${mine instanceof Error ? mine.code : mine.allowed ?? 'count'}`;
		counts.set(word, (counts.get(word) ?? 0) + 1);
		if (waiting.length === AT_A_TIME)
			await compare();
		clock.now += random(3) === 0 ? random(400) : 0;
	}
	await compare();
	console.log(`kept: ${JSON.stringify(Object.fromEntries(counts))}`);
	assert.ok(![...counts.keys()].some((word) => word.endsWith('bad-limit')), 'none of these limits is wrong');
	for (const word of ['check true', 'check false', 'acquire true', 'acquire false', 'reserve true', 'commit true'])
		assert.ok(counts.get(word) > OPS / 1000, `${word} came ${counts.get(word) ?? 0} times`);
});
