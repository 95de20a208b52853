// Measures a check beside other limiters of Node, in one run: each in turn, round by round, so that what else the
// machine does falls on all; medians of the rounds.
//
//   make bindings && bindings/node/bench/run            all of it, some 50 s; wants npm, redis-server and build/sluice
//
// "ns" is the time of a call in a loop that does nothing else; "CPU" is that of this process, and of the server where
// there is one. Over a network 256 calls are under way at a time.
'use strict';

const {spawn, spawnSync} = require('node:child_process');
const {existsSync, mkdtempSync, readFileSync, rmSync} = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const {join} = require('node:path');

const ROOT = join(__dirname, '..', '..', '..');
const {Limiter} = require(process.env.SLUICE_NODE_PACKAGE ?? '..');
const {MemoryStore} = require('express-rate-limit');
const {RateLimiterMemory, RateLimiterRedis} = require('rate-limiter-flexible');
const Redis = require('ioredis');

const ROUNDS = Number(process.env.ROUNDS ?? 7);
const HERE = 300000, THERE = 20000, AT_A_TIME = 256;
const KEYS = Array.from({length: 100000}, (_, i) => `user:${(i * 7919) % 100000}`);
const HOT = ['user:42'];
const QUOTA = 1000000000, MINUTE = 60000;

// A sliding window of two counters in a script, as many packages for Redis have it.
const SCRIPT = `
local now, window, quota = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local current = tonumber(redis.call('GET', KEYS[1]) or '0')
local previous = tonumber(redis.call('GET', KEYS[2]) or '0')
if current + previous * (1 - (now % window) / window) >= quota then return -1 end
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], window * 2 + 1000) end
return quota - count`;

function median(list) {
	return [...list].sort((a, b) => a - b)[list.length >> 1];
}

/** CPU time of a process in ns, as /proc tells it in hundredths of a second. */
function cpuOf(pid) {
	const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
	return (Number(fields[11]) + Number(fields[12])) * 1e7;
}

async function measure(one, keys) {
	const count = one.server === undefined ? HERE : THERE, cpu = process.cpuUsage();
	const server = one.server ? cpuOf(one.server) : 0, start = process.hrtime.bigint();
	await one.run(keys, count);
	const ns = Number(process.hrtime.bigint() - start), used = process.cpuUsage(cpu);
	return [ns / count, ((used.user + used.system) * 1000 + (one.server ? cpuOf(one.server) - server : 0)) / count];
}

/** A call at a time, without a promise where there is none. */
function synchronous(call) {
	return (keys, count) => {
		for (let i = 0; i < count; i++)
			call(keys[i % keys.length]);
	};
}

function awaited(call) {
	return async (keys, count) => {
		for (let i = 0; i < count; i++)
			await call(keys[i % keys.length]);
	};
}

function pipelined(call) {
	return async (keys, count) => {
		for (let i = 0; i < count; i += AT_A_TIME)
			await Promise.all(Array.from({length: Math.min(AT_A_TIME, count - i)},
				(_, j) => call(keys[(i + j) % keys.length])));
	};
}

// ---- servers, ended by their ids

const folder = mkdtempSync(join(os.tmpdir(), 'sluice-bench-'));
const children = [];

function start(program, args) {
	const child = spawn(program, args, {stdio: 'ignore'});
	children.push(child);
	return child.pid;
}

async function free() {
	const server = net.createServer().listen(0, '127.0.0.1');
	await new Promise((resolve) => server.once('listening', resolve));
	const {port} = server.address();
	await new Promise((resolve) => server.close(resolve));
	return port;
}

async function listening(port) {
	for (let i = 0; i < 500; i++) {
		const there = await new Promise((resolve) => {
			const socket = net.connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false));
			socket.on('close', () => {}).unref();
			setTimeout(() => socket.destroy(), 20).unref();
		});
		if (there)
			return;
		await new Promise((resolve) => setTimeout(resolve, 20));
	}
	throw new Error(`nothing listens on ${port}`);
}

async function contenders() {
	const memory = new Limiter({memory: '16MiB'});
	const shared = new Limiter({store: join(folder, 'counters'), memory: '16MiB'});
	const store = new MemoryStore();
	store.init({windowMs: MINUTE});
	const flexible = new RateLimiterMemory({points: QUOTA, duration: 60});
	const LIMIT = '1000000000/1m';
	const list = [
		['sluice, in memory: checkSync', {run: synchronous((key) => memory.checkSync(key, LIMIT))}],
		['sluice, in memory: await check', {run: awaited((key) => memory.check(key, LIMIT))}],
		['sluice, in a file that processes share', {run: synchronous((key) => shared.checkSync(key, LIMIT))}],
		['sluice, in memory: 3 limits as one', {run: synchronous((key) =>
			memory.checkSync(key, [LIMIT, '2000000000/1h', 'token-bucket 1000000000/1s']))}],
		['express-rate-limit 8.7.4, MemoryStore', {run: awaited((key) => store.increment(key))}],
		['rate-limiter-flexible 11.4.0, memory', {run: awaited((key) => flexible.consume(key))}],
	];
	const redisPort = await free(), sluicePort = await free(), modulePort = await free();
	const redis = start('redis-server', ['--port', redisPort, '--save', '', '--bind', '127.0.0.1', '--dir', folder]);
	const sluice = start(join(ROOT, 'build/sluice'),
		['serve', '--resp', `127.0.0.1:${sluicePort}`, '--http', '127.0.0.1:0']);
	const module = start('redis-server', ['--port', modulePort, '--save', '', '--bind', '127.0.0.1', '--dir', folder,
		'--loadmodule', join(ROOT, 'build/sluice-module.so')]);
	for (const port of [redisPort, sluicePort, modulePort])
		await listening(port);
	const client = new Redis(redisPort, '127.0.0.1');
	client.defineCommand('slide', {numberOfKeys: 2, lua: SCRIPT});
	const script = (key) => {
		const now = Date.now(), window = Math.floor(now / MINUTE);
		return client.slide(`${key}:${window}`, `${key}:${window - 1}`, now, MINUTE, QUOTA);
	};
	const far = new RateLimiterRedis({storeClient: client, points: QUOTA, duration: 60});
	const remote = new Limiter({store: `redis://127.0.0.1:${sluicePort}`, timeout: 10000});
	const inRedis = new Limiter({store: `redis://127.0.0.1:${modulePort}`, timeout: 10000});
	list.push(['sluice, at a server', {server: sluice, run: pipelined((key) => remote.check(key, LIMIT))}],
		['sluice, in Redis with the module', {server: module, run: pipelined((key) => inRedis.check(key, LIMIT))}],
		['a Lua script on Redis, ioredis', {server: redis, run: pipelined(script)}],
		['rate-limiter-flexible 11.4.0, Redis', {server: redis, run: pipelined((key) => far.consume(key))}]);
	const end = async () => {
		await Promise.all([memory, shared, remote, inRedis].map((one) => one.close()));
		store.shutdown();
		client.disconnect();
	};
	return {list, end};
}

async function main() {
	const {list, end} = await contenders();
	const seen = new Map(list.map(([name]) => [name, {hot: [], many: []}]));
	for (let round = -1; round < ROUNDS; round++) // the first is for V8
		for (const [name, one] of list)
			for (const [column, keys] of [['hot', HOT], ['many', KEYS]]) {
				const figures = await measure(one, keys);
				if (round >= 0)
					seen.get(name)[column].push(figures);
			}
	const processor = /model name\s*: (.*)/.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1] ?? 'an unknown processor';
	const load = os.loadavg()[0].toFixed(1);
	console.log(`node ${process.version}, ${processor}, ${ROUNDS} rounds, medians; load ${load}\n`);
	console.log('| a check | hot key: ns | CPU ns | 100,000 keys: ns | CPU ns |\n| --- | --- | --- | --- | --- |');
	for (const [name, {hot, many}] of seen) {
		const figures = [hot, many].flatMap((rows) => [0, 1].map((i) => Math.round(median(rows.map((row) => row[i])))));
		console.log(`| ${name} | ${figures.map((n) => n.toLocaleString('en')).join(' | ')} |`);
	}
	await end();
	process.exit(); // which ends the servers
}

process.on('exit', () => {
	children.forEach((child) => child.kill('SIGKILL'));
	rmSync(folder, {recursive: true, force: true});
});
if (!existsSync(join(ROOT, 'build/sluice-module.so')) || spawnSync('redis-server', ['--version']).status !== 0)
	throw new Error('wants build/sluice, build/sluice-module.so and redis-server: make');
main();
