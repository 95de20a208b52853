// What the tests stand on: the package as it was installed from its tarball, servers on free ports of loopback that are
// ended by their process ids, and folders that are removed.
'use strict';

const {spawn} = require('node:child_process');
const {once} = require('node:events');
const {existsSync, mkdtempSync, rmSync, writeFileSync} = require('node:fs');
const net = require('node:net');
const {tmpdir} = require('node:os');
const {join} = require('node:path');
const {after} = require('node:test');
const {setTimeout: sleep} = require('node:timers/promises');

const ROOT = join(__dirname, '..', '..', '..');
/** Where the package is installed; bindings/node/test/run says it. */
const PACKAGE = process.env.SLUICE_NODE_PACKAGE ?? join(__dirname, '..');
const BINARY = process.env.SLUICE_BIN ?? join(ROOT, 'build', 'sluice');
const DEADLINE_MS = 20000;

const sluice = require(PACKAGE);

/** What is to be done when all tests of the file have ended, the last first. */
const cleanups = [];
after(async () => {
	while (cleanups.length > 0)
		await cleanups.pop()();
});

function atEnd(cleanup) {
	cleanups.push(cleanup);
}

function folder() {
	const path = mkdtempSync(join(tmpdir(), 'sluice-node-'));
	atEnd(() => rmSync(path, {recursive: true, force: true}));
	return path;
}

let made = 0;

/** A name of shared memory that nobody else has; it is forgotten after the tests. */
function sharedName() {
	const name = `node-test-${process.pid}-${made++}`;
	atEnd(() => rmSync(join('/dev/shm', `sluice-${name}`), {force: true}));
	return name;
}

async function until(what, condition) {
	const end = Date.now() + DEADLINE_MS;
	for (;;) {
		const value = await condition();
		if (value)
			return value;
		if (Date.now() > end)
			throw new Error(`${what}: not within ${DEADLINE_MS} ms`);
		await sleep(5);
	}
}

/** A process whose standard error is read; ended by its id. */
class Child {
	constructor(command, args, options = {}) {
		this.said = '';
		// Sanitizers of the native part are for node alone.
		const env = command === process.execPath ? process.env : {...process.env, LD_PRELOAD: ''};
		this.process = spawn(command, args, {stdio: ['ignore', 'ignore', 'pipe'], env, ...options});
		(this.process.stderr ?? this.process.stdout).setEncoding('utf8').on('data', (text) => this.said += text);
		this.ended = once(this.process, 'exit');
		atEnd(() => this.stop());
	}

	async stop(signal = 'SIGTERM') {
		if (this.process.exitCode === null && this.process.signalCode === null)
			this.process.kill(signal);
		await this.ended;
	}
}

/** `sluice serve`: with a policy, on a free port, or on that of one that was before; `listen` false: as that says. */
async function serve(policy = 'client-time: true\nlimits: []\n', {port = 0, listen = true} = {}) {
	const file = join(folder(), 'policy.yaml');
	writeFileSync(file, policy);
	const doors = listen ? ['--resp', `127.0.0.1:${port}`, '--http', '127.0.0.1:0'] : [];
	const child = new Child(BINARY, ['serve', ...doors, '-c', file]);
	await until('the server is ready', () => {
		if (child.process.exitCode !== null)
			throw new Error(`the server ended: ${child.said}`);
		return child.said.includes('sluice: ready');
	});
	child.port = Number(/^sluice: resp on 127\.0\.0\.1:(\d+)$/m.exec(child.said)[1]);
	child.url = `redis://127.0.0.1:${child.port}`;
	return child;
}

async function freePort() {
	const server = net.createServer().listen(0, '127.0.0.1');
	await once(server, 'listening');
	const {port} = server.address();
	server.close();
	await once(server, 'close');
	return port;
}

/** Redis with the module; null where there is no redis-server. */
async function redis() {
	const module = join(ROOT, 'build', 'sluice-module.so');
	const program = ['/usr/bin/redis-server', '/usr/local/bin/redis-server'].find((path) => existsSync(path));
	if (program === undefined || !existsSync(module))
		return null;
	const port = await freePort();
	const child = new Child(program, ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', folder(),
		'--loadmodule', module, 'client-time', 'yes']);
	await until('Redis is ready', () => new Promise((resolve) => {
		const socket = net.connect(port, '127.0.0.1', () => {
			socket.destroy();
			resolve(true);
		}).on('error', () => resolve(false));
	}));
	child.port = port;
	child.url = `redis://127.0.0.1:${port}`;
	return child;
}

/** A limiter that is closed after the tests. */
function limiter(options) {
	const made = new sluice.Limiter(options);
	atEnd(() => made.close());
	return made;
}

module.exports = {...sluice, PACKAGE, ROOT, BINARY, Child, atEnd, folder, freePort, limiter, redis, serve, sharedName,
	sleep, until};
