// A day of traffic on an injected clock: nothing grows, in C or in JavaScript, whatever keys and limits come.
'use strict';

const assert = require('node:assert/strict');
const {spawnSync} = require('node:child_process');
const {it} = require('node:test');
const {PACKAGE} = require('./helpers.js');

// In a process of its own, so that nothing else is measured; memory is looked at every hour, after a collection.
const DAY = `
	const {Limiter} = require(${JSON.stringify(PACKAGE)});
	let now = 1728000000000, made = 0;
	const limiter = new Limiter({memory: '4MiB', clock: () => now, policy: 'limits:\\n' +
		'  - {name: a, key: user, limit: 100/1m}\\n  - {name: c, key: user, limit: concurrency 3 lease 30s}\\n'});
	const hot = new Limiter({memory: '4MiB'});
	function minute() {
		for (let i = 0; i < 60; i++) {
			now += 1000;
			const key = 'user:' + (made++ % 500000);
			limiter.checkSync(key, '10/1m');
			limiter.checkSync('all', ['sliding-log 100/1m', ['ip:' + made, '5/1s']], {each: true, cost: 2});
			limiter.checkSync(key, (made % 5000 + 1) + '/1h');       // texts without end
			hot.checkSync('hot:' + made, (made % 5000 + 1) + '/1h');
			if (i % 4 === 0) {
				const lease = limiter.acquireSync(key, 'concurrency 2 lease 30s');
				if (i % 8 === 0)
					limiter.releaseSync(key, 'concurrency 2 lease 30s', lease.id);
				const {id} = limiter.reserveSync(key, '1000/1h', {ttl: 60000, cost: 5});
				if (i % 8 === 0)
					limiter.commitSync(key, null, id, 3);
				limiter.admitSync({user: key});
				try {
					limiter.checkSync(key, 'wrong ' + made);
				} catch {}
			}
		}
	}
	(async () => {
		const seen = [];
		for (let hour = 0; hour < 24; hour++) {
			for (let i = 0; i < 60; i++)
				minute();
			await limiter.reload('limits:\\n  - {name: a, key: user, limit: ' + (100 + hour) + '/1m}\\n');
			gc();
			const {rss, heapUsed, external} = process.memoryUsage();
			seen.push([rss, heapUsed, external]);
		}
		console.log(JSON.stringify(seen));
	})();`;

/** The middle of each column: a page that the collector keeps for an hour is no growth. */
function median(rows) {
	return rows[0].map((_, i) => rows.map((row) => row[i]).sort((a, b) => a - b)[rows.length >> 1]);
}

it('24 hours', () => {
	const done = spawnSync(process.execPath, ['--expose-gc', '--max-semi-space-size=1', '-e', DAY],
		{encoding: 'utf8', timeout: 120000});
	assert.equal(done.status, 0, done.stderr);
	const seen = JSON.parse(done.stdout), early = median(seen.slice(3, 8)), late = median(seen.slice(19));
	console.log(`kept: resident ${early[0] >> 10} KiB after 6 h, ${late[0] >> 10} KiB after 24 h`);
	assert.ok(late[0] - early[0] < 6 << 20, `resident memory grew: ${done.stdout}`);
	assert.ok(late[1] - early[1] < 1 << 20, `the heap grew: ${done.stdout}`);
	assert.ok(late[2] - early[2] < 1 << 20, `what is beside the heap grew: ${done.stdout}`);
});
