/* What a client makes of what it was told, by the table that both languages answer. */
'use strict';

const assert = require('node:assert');
const test = require('node:test');
const { Origin } = require('../client/origin.js');
const table = require('../../common/client/origin.json');

const NOTHING = { limited: false, waitMs: null, remaining: null, resetMs: null, quota: null, windowMs: null };
const advice = (told) => Object.fromEntries(Object.entries({ ...NOTHING, ...told })
	.map(([name, value]) => [name, value === 'never' ? Infinity : value]));

for (const { name, random, start, paceBelow, steps } of table.cases) {
	test(name, () => {
		const origin = new Origin({ random: () => random, start, paceBelow });
		for (const [number, [what, ...of]] of steps.entries()) {
			if (what === 'ready')
				assert.strictEqual(origin.readyAt(of[0]), of[1], `step ${number}`);
			else if (what === 'sent')
				origin.sent(of[0]);
			else if (what === 'answered')
				origin.answered(of[0], of[1], advice(of[2]));
			else
				origin.failed();
		}
	});
}
