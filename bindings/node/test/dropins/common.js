/* What the tests of drop-ins stand on: the package as it was installed, the libraries beside it, time that is steered.
 * */
'use strict';

const { once } = require('node:events');
const http = require('node:http');
const http2 = require('node:http2');
const net = require('node:net');
const path = require('node:path');
const { startApp, startSluice } = require('../world.js');

const PACKAGE = process.env.SLUICE_NODE_PACKAGE ?? path.join(__dirname, '..', '..');
const START = 1728000000000;
/** A policy whose limit counts for one host only. */
const HOSTED = 'limits:\n  - {name: api, when: {host: api.example.com}, key: ip, limit: sliding-log 1/1h}\n';
const LEASE = 'concurrency 2 lease 1h';

/** A library of package-lock.json. */
const library = (name) => require(path.join(process.env.SLUICE_LIBRARIES, name));
/** A part of the package. */
const part = (name = '') => require(path.join(PACKAGE, name));

/** A limiter in memory whose time a test steers: at.now. */
function steered(options = {}) {
	const at = { now: START };
	const { Limiter } = part();
	return { at, limiter: new Limiter({ store: 'memory', memory: '2MiB', clock: () => at.now, ...options }) };
}

/** One request on a connection of its own: {status, headers, body}. */
function ask(url, { headers = {}, method = 'GET', path: target = '/' } = {}) {
	return new Promise((resolve, reject) => {
		http.request(new URL(target, url), { method, headers, agent: false }, (answer) => {
			let body = '';
			answer.setEncoding('utf8').on('data', (text) => {
				body += text;
			}).on('end', () => resolve({ status: answer.statusCode, headers: answer.headers, body }));
		}).on('error', reject).end();
	});
}

async function asked(count, url, options) {
	const answers = [];
	for (let i = 0; i < count; i++)
		answers.push(await ask(url, options));
	return answers;
}

/** Statuses of one request to each of these hosts, over HTTP/2. */
async function asked2(port, hosts) {
	const seen = [];
	for (const host of hosts) {
		const session = http2.connect(`http://127.0.0.1:${port}`);
		const [headers] = await once(session.request({ ':authority': host }).resume(), 'response');
		seen.push(headers[':status']);
		await new Promise((resolve) => session.close(resolve));
	}
	return seen;
}

/** Waits until `condition()` holds. */
async function until(condition) {
	const end = Date.now() + 20000;
	while (!await condition()) {
		if (Date.now() > end)
			throw new Error(`not within 20 s: ${condition}`);
		await new Promise((resolve) => setTimeout(resolve, 2));
	}
}

/** As a client that leaves does: writes `text`, and ends the connection when `left` is settled. */
async function leave(url, text, left) {
	const socket = net.connect(new URL(url).port, '127.0.0.1').on('error', () => {});
	socket.write(text);
	await left;
	socket.destroy();
}

/** A limiter with LEASE whose answers wait until `go()` is called; `asked` counts what waits for one, or has one. */
function late() {
	const { limiter } = steered();
	const acquire = limiter.acquire.bind(limiter);
	const one = { limiter, asked: 0, held: async () => (await limiter.holders('127.0.0.1', LEASE)).length };
	const gate = new Promise((resolve) => {
		one.go = resolve;
	});
	limiter.acquire = async (...words) => {
		const lease = await acquire(...words);
		one.asked++;
		await gate;
		return lease;
	};
	return one;
}

const statuses = (answers) => answers.map(({ status }) => status);

module.exports = { HOSTED, LEASE, START, ask, asked, asked2, late, leave, library, part, startApp, startSluice,
	statuses, steered, until };
