/* What the tests of drop-ins stand on: the package as it was installed, the libraries beside it, time that is steered.
 * */
'use strict';

const http = require('node:http');
const path = require('node:path');
const { startApp, startSluice } = require('../world.js');

const PACKAGE = process.env.SLUICE_NODE_PACKAGE ?? path.join(__dirname, '..', '..');
const START = 1728000000000;

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

const statuses = (answers) => answers.map(({ status }) => status);

module.exports = { START, ask, asked, library, part, startApp, startSluice, statuses, steered };
