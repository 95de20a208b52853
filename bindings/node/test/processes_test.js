// Many processes and threads that share a store: counted exactly, also where some are killed, and where there is no
// room for one more.
'use strict';

const assert = require('node:assert/strict');
const {spawn, spawnSync} = require('node:child_process');
const {once} = require('node:events');
const {readFileSync, writeFileSync} = require('node:fs');
const {join} = require('node:path');
const {it} = require('node:test');
const {Worker} = require('node:worker_threads');
const {Child, Limiter, PACKAGE, ROOT, atEnd, folder, limiter, sharedName, until} = require('./helpers.js');

/** Checks in a loop, notes each that was allowed by one byte in a file, and says when it was denied 100 times. One that
 * is to be killed stays until then. */
const CHECKER = `
	const {openSync, writeSync} = require('node:fs');
	const {Limiter} = require(${JSON.stringify(PACKAGE)});
	const [store, limit, notes, killed] = process.argv.slice(-4);
	const limiter = new Limiter({store}), file = openSync(notes, 'a');
	process.once('message', () => {
		for (let denied = 0; denied < 100;)
			if (limiter.checkSync('all', limit).allowed)
				writeSync(file, '.');
			else
				denied++;
		process.send('done');
		if (killed === 'no')
			process.disconnect();
	});
	process.send('ready');`;

/** Eight of them, of which `killed` are killed while they check. Returns how many were noted. */
async function crowd(store, limit, killed) {
	const notes = join(folder(), 'notes');
	writeFileSync(notes, '');
	const children = Array.from({length: 8}, (_, i) => spawn(process.execPath,
		['-e', CHECKER, '--', store, limit, notes, i < killed ? 'yes' : 'no'],
		{stdio: ['ignore', 'inherit', 'inherit', 'ipc']}));
	atEnd(() => children.forEach((child) => child.kill('SIGKILL')));
	await Promise.all(children.map((child) => once(child, 'message')));
	const exits = children.map((child) => once(child, 'exit'));
	children.forEach((child) => child.send('go'));
	for (let i = 0; i < killed; i++) {
		await until('it is under way', () => readFileSync(notes).length > 500 * (i + 1));
		children[i].kill('SIGKILL');
	}
	await Promise.all(exits);
	assert.equal(children.filter((child) => child.signalCode === 'SIGKILL').length, killed);
	return readFileSync(notes).length;
}

it('eight processes share a limit exactly: 100 of 100', async () => {
	const store = `shared:${sharedName()}`;
	assert.equal(await crowd(store, 'sliding-log 100/24h', 0), 100);
	assert.equal(limiter({store}).peekSync('all', 'sliding-log 100/24h').remaining, 0);
});

it('also in a file, and when three of them are killed', async () => {
	const store = join(folder(), 'counters'), limit = 'fixed-window 20000/3650d';
	const noted = await crowd(store, limit, 3);
	// Whoever is killed may have been allowed once more than it has noted.
	assert.ok(noted <= 20000 && noted >= 20000 - 3, `${noted} of 20000`);
	const one = limiter({store});
	assert.deepEqual([one.peekSync('all', limit).remaining, one.checkSync('all', limit).allowed], [0, false]);
});

it('two workers of a cluster share a limit', async () => {
	const script = join(folder(), 'cluster.cjs'), store = `shared:${sharedName()}`;
	writeFileSync(script, `
		const cluster = require('node:cluster'), {Limiter} = require(${JSON.stringify(PACKAGE)});
		if (cluster.isPrimary) {
			let allowed = 0;
			for (let i = 0; i < 2; i++)
				cluster.fork().on('message', (n) => allowed += n);
			process.on('exit', () => console.error('allowed ' + allowed));
		} else {
			const limiter = new Limiter({store: '${store}'});
			let allowed = 0;
			(async () => {
				for (let i = 0; i < 100; i++)
					allowed += (await limiter.check('k', 'sliding-log 100/24h')).allowed;
				process.send(allowed, () => process.disconnect());
			})();
		}`);
	const child = new Child(process.execPath, [script]);
	await child.ended;
	assert.match(child.said, /^allowed 100$/m);
});

/** Opens a store by the C library and forks until `count` processes have it; says so, and waits. */
const FILLER = `
import ctypes, os, signal, sys, time
class Options(ctypes.Structure):
    _fields_ = [("memory", ctypes.c_uint64), ("percent", ctypes.c_uint32), ("file", ctypes.c_char_p),
                ("shared", ctypes.c_char_p), ("mode", ctypes.c_uint32), ("existing", ctypes.c_bool)]
library = ctypes.CDLL(sys.argv[1])
store = ctypes.c_void_p()
assert library.sluice_store_open(ctypes.byref(store), ctypes.byref(Options(shared=sys.argv[2].encode())), None) == 0
children, (begun, told) = [], os.pipe()
signal.signal(signal.SIGTERM, lambda *_: [os.kill(pid, signal.SIGKILL) for pid in children] and sys.exit(0))
for _ in range(int(sys.argv[3]) - 1):
    pid = os.fork()
    if pid == 0:
        library.prctl(1, signal.SIGKILL, 0, 0, 0)  # ends with its parent, whatever ends that
        os.write(told, b".")
        signal.pause()
    children.append(pid)
    os.read(begun, 1)
print("full", file=sys.stderr, flush=True)
while True:
    time.sleep(1)
`;

it('the 256th process is told that there is no room', async () => {
	const name = sharedName(), store = `shared:${name}`;
	const filler = new Child('/usr/bin/python3', ['-c', FILLER, join(ROOT, 'build', 'libsluice.so'), name, '255']);
	await until('255 processes have it open', () => filler.said.includes('full'));
	assert.throws(() => new Limiter({store}), (error) => error.code === 'full' && /255/.test(error.message));
	await filler.stop();
	await until('there is room', () => {
		try {
			return limiter({store}).checkSync('k', '1/1h').allowed;
		} catch {
			return false;
		}
	});
});

/** A process that stops itself with the lock of a key's counter in its hand. */
async function neighbour(file, limit, key) {
	const binary = join(folder(), 'neighbour');
	const made = spawnSync('gcc', ['-std=gnu11', '-O1', '-Iinclude', '-Isrc', '-I.', 'tests/e2e/stopped_neighbour.c',
		'build/libsluice.a', '-lyaml', '-lpthread', '-o', binary], {cwd: ROOT, encoding: 'utf8'});
	assert.equal(made.status, 0, made.stderr);
	const child = spawn(binary, [file, limit, key], {stdio: ['ignore', 'ignore', 'inherit']});
	atEnd(() => child.kill('SIGKILL'));
	await until('it has stopped', () => readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ')[1].startsWith('T'));
	return child;
}

it('a process that is stopped with a lock in hand holds up no event loop', async () => {
	const store = join(folder(), 'counters'), limit = '5/24h';
	const policy = `limits:\n  - {name: a, key: user, limit: ${limit}}\n`;
	const one = limiter({store, timeout: 200, policy}), open = limiter({store, onError: 'allow'});
	one.checkSync('mine', limit);
	const stopped = await neighbour(store, limit, 'mine');
	let turns, longest, last;
	const ticks = setInterval(() => {
		turns++;
		longest = Math.max(longest, performance.now() - last);
		last = performance.now();
	}, 1);
	for (let attempt = 0; attempt < 20; attempt++) { // again where it was the machine that stood still
		[turns, longest, last] = [0, 0, performance.now()];
		const error = await one.check('mine', limit).catch((e) => e);
		assert.equal(error.code, 'busy', String(error));
		if (turns > 20 && longest < 150)
			break;
	}
	assert.ok(turns > 20 && longest < 150, `${turns} turns, the longest ${longest} ms`);
	assert.throws(() => one.checkSync('mine', limit), {code: 'busy'});
	assert.equal((await open.check('mine', limit)).failedOpen, true);
	assert.equal((await one.check('other', limit)).remaining, 4, 'all others go on');
	// Who is asked when it moves is decided then, once.
	const asked = limiter({store, timeout: 20000}).check('mine', limit);
	await new Promise((resolve) => setTimeout(resolve, 20));
	stopped.kill('SIGCONT');
	assert.equal((await asked).remaining, 3);
	clearInterval(ticks);
	assert.equal(one.checkSync('mine', limit).remaining, 2);
});

const THREAD = `
	const {parentPort, workerData} = require('node:worker_threads');
	const {Limiter} = require(workerData.package);
	const limiter = new Limiter({store: workerData.store});
	let allowed = 0;
	for (let i = 0; i < workerData.checks; i++)
		allowed += limiter.checkSync('threads', workerData.limit).allowed ? 1 : 0;
	parentPort.postMessage(allowed);
	if (workerData.lingers)
		setInterval(() => limiter.checkSync('lingers', '1000000/1h'), 0);`;

function thread(data) {
	return new Worker(THREAD, {eval: true, workerData: {package: PACKAGE, checks: 0, limit: '1/1h', ...data}});
}

it('threads share it as well, each with a limiter of its own', async () => {
	const store = `shared:${sharedName()}`, limit = 'fixed-window 3000/3650d';
	const threads = Array.from({length: 4}, () => thread({store, limit, checks: 1000}));
	const main = limiter({store});
	const counts = await Promise.all(threads.map(async (one) => (await once(one, 'message'))[0]));
	await Promise.all(threads.map((one) => one.terminate()));
	assert.equal(counts.reduce((a, b) => a + b), 3000);
	assert.equal(main.checkSync('threads', limit).allowed, false);
});

it('threads that are ended at any instant leave nothing behind', async () => {
	const store = `shared:${sharedName()}`, main = limiter({store});
	const before = process.memoryUsage().rss;
	for (let i = 0; i < 24; i++) {
		const one = thread({store, lingers: true});
		await once(one, 'message');
		await new Promise((resolve) => setTimeout(resolve, i % 3));
		await one.terminate();
	}
	assert.equal(main.checkSync('after', '1/1h').allowed, true);
	assert.ok(process.memoryUsage().rss - before < 200 << 20, 'some MB a thread would be a leak');
});
