/* What tests of clients and drop-ins stand on: a clock that a test steers, a sluice server ended by its process id,
 * and an application over real sockets. */
'use strict';

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');

const ROOT = path.join(__dirname, '..', '..', '..');
const SLUICE = path.resolve(process.env.SLUICE_BIN ?? path.join(ROOT, 'build', 'sluice'));
const READY_MS = 120000;

/** Time that stands still while anything is under way, and then goes on to the next timer. `busy()` says whether
 * anything is: a request on a real socket takes no time. */
class Clock {
	constructor(at = 1728000000000) {
		this.at = at;
		this.timers = [];
		this.busy = 0;
	}

	now() {
		return this.at;
	}

	after(ms, callback) {
		const timer = { at: this.at + Math.max(0, ms), callback };
		this.timers.push(timer);
		return () => {
			this.timers = this.timers.filter((other) => other !== timer);
		};
	}

	/** Runs until the promise is settled, and returns what it gives. */
	async run(promise) {
		let settled = false;
		const end = () => {
			settled = true;
		};
		promise.then(end, end);
		for (let idle = 0; !settled;) {
			await new Promise(setImmediate);
			idle = this.busy ? 0 : idle + 1;
			if (idle > 3 && !this.step())
				await new Promise((resolve) => setTimeout(resolve, 1));
		}
		return promise;
	}

	step() {
		if (this.timers.length === 0)
			return false;
		const next = this.timers.reduce((a, b) => (b.at < a.at ? b : a));
		this.timers = this.timers.filter((timer) => timer !== next);
		this.at = Math.max(this.at, next.at);
		next.callback();
		return true;
	}

	/** A function, counted as under way until its promise is settled. */
	counted(call) {
		return async (...words) => {
			this.busy++;
			try {
				return await call(...words);
			} finally {
				this.busy--;
			}
		};
	}
}

/** A server on free ports of loopback, with a policy; stop() ends it, and holds it to status 0. */
async function startSluice(policy) {
	const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sluice-node-'));
	fs.writeFileSync(path.join(folder, 'policy.yaml'), policy);
	const child = spawn(SLUICE, ['serve', '--resp', '127.0.0.1:0', '--http', '127.0.0.1:0', '-c',
		path.join(folder, 'policy.yaml')], { stdio: ['ignore', 'ignore', 'pipe'] });
	let said = '';
	const ready = new Promise((resolve, reject) => {
		child.stderr.setEncoding('utf8').on('data', (text) => {
			said += text;
			if (said.includes('sluice: ready'))
				resolve();
		});
		child.once('exit', (status) => reject(new Error(`sluice ended with ${status}: ${said}`)));
		setTimeout(() => reject(new Error(`sluice is not ready: ${said}`)), READY_MS).unref();
	});
	await ready;
	const port = (door) => Number(new RegExp(`sluice: ${door} on 127\\.0\\.0\\.1:(\\d+)`).exec(said)[1]);
	return {
		resp: port('resp'), http: port('http'), process: child,
		async stop() {
			child.kill('SIGTERM');
			if (child.exitCode === null && child.signalCode === null)
				await once(child, 'exit');
			fs.rmSync(folder, { recursive: true, force: true });
			if (child.exitCode !== 0)
				throw new Error(`sluice ended with ${child.exitCode ?? child.signalCode}: ${said}`);
		},
	};
}

/** An HTTP application on a free port of loopback. */
async function startApp(listener) {
	const server = http.createServer(listener);
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	return {
		url: `http://127.0.0.1:${server.address().port}/`, server,
		stop: () => new Promise((resolve) => {
			server.close(resolve);
			server.closeAllConnections();
		}),
	};
}

module.exports = { Clock, ROOT, SLUICE, startApp, startSluice };
