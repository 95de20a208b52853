/* What a response says, by the table that both languages answer. */
'use strict';

const assert = require('node:assert');
const test = require('node:test');
const { advise } = require('../client/index.js');
const table = require('../../common/client/headers.json');

const told = (status, headers, now) => {
	const low = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
	const advice = advise(status, (name) => low.get(name) ?? null, now);
	const entries = Object.entries(advice).filter(([, value]) => value !== null && value !== false);
	return Object.fromEntries(entries.map(([name, value]) => [name, value === Infinity ? 'never' : value]));
};

for (const { name, status, headers, advice } of table.cases)
	test(name, () => assert.deepStrictEqual(told(status, headers, table.now), advice));

for (const { text, by, count, advice } of table.long.cases) {
	test(`${count} times ${text}`, () => {
		const field = Array(count).fill(text).join(by);
		assert.deepStrictEqual(told(200, { RateLimit: field }, table.now), advice);
	});
}

test('whatever stands there, nothing is thrown and no wait is below 0', () => {
	const names = ['retry-after', 'ratelimit', 'ratelimit-policy', 'ratelimit-remaining', 'ratelimit-reset', 'date',
		'age', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'x-ratelimit-limit'];
	const pieces = ['"a"', ';r=', ';t=', '0', '1', '-', '.', ',', ' ', '=', '"', '\\', 'limit', 'remaining', 'reset',
		'9'.repeat(15), 'Fri, 04 Oct 2024 00:00:05 GMT', ':', '?1', '*', '\t', '1728000060', 'é', '\u0000', '(', ')'];
	let seed = 20261123;
	const dice = (n) => {
		seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
		return Math.floor(seed / 65536) % n;
	};
	for (let i = 0; i < 20000; i++) {
		const headers = {};
		for (let j = dice(5); j >= 0; j--)
			headers[names[dice(names.length)]] =
				Array.from({ length: dice(9) }, () => pieces[dice(pieces.length)]).join('');
		const advice = advise([200, 429, 503, 403][dice(4)], (name) => headers[name] ?? null, table.now);
		for (const key of ['waitMs', 'resetMs', 'remaining', 'quota', 'windowMs'])
			assert.ok(advice[key] === null || advice[key] >= 0, JSON.stringify([headers, advice]));
	}
});
