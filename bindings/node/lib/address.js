// Where counters are: `store` of a Limiter, read.
//
//   memory                            of this process, its own
//   shared:NAME                       shared by all processes of this host that open it
//   /var/lib/sluice/counters, ./file  the same, in a file that survives a restart
//   redis://[user:password@]host[:port][/db], sluice://    a Sluice server, or Redis or Valkey with the module
//   rediss://, sluices://             the same, by TLS
//   unix:/run/sluice.sock             the same, by a socket of this host
'use strict';

const {misuse} = require('./errors.js');

const SCHEMES = {'redis:': [false, 6379], 'rediss:': [true, 6379], 'sluice:': [false, 7379], 'sluices:': [true, 7379]};
const EXPECTED = 'expected memory, shared:NAME, a path with a slash in it, redis://host:port, rediss://, sluice:// or '
	+ 'unix:/path';

function decoded(text) {
	try {
		return decodeURIComponent(text);
	} catch {
		throw misuse('bad-store', 'store: a % in the user or password that begins no %XX of UTF-8; % itself is %25');
	}
}

function remoteOf(text) {
	let url;
	try {
		url = new URL(text);
	} catch {
		throw misuse('bad-store', `store: not a URL; ${EXPECTED}`); // the text may have a password in it
	}
	const [tls, port] = SCHEMES[url.protocol];
	const db = url.pathname === '' || url.pathname === '/' ? 0 : Number(url.pathname.slice(1));
	if (url.hostname === '')
		throw misuse('bad-store', `store: no host in ${url.protocol}//; ${EXPECTED}`);
	if (!Number.isInteger(db) || db < 0)
		throw misuse('bad-store', `store: ${url.pathname} is no number of a database`);
	if (url.search !== '' || url.hash !== '')
		throw misuse('bad-store', `store: a URL takes no options here: ${url.search || url.hash}`);
	return {
		remote: true, tls, db, port: url.port === '' ? port : Number(url.port),
		host: url.hostname.replace(/^\[|\]$/g, ''), user: decoded(url.username), password: decoded(url.password),
	};
}

/** Returns {remote: true, host, port, path, tls, user, password, db}, or {remote: false, store} for the library. */
function addressOf(store = 'memory') {
	if (typeof store !== 'string')
		throw misuse('bad-store', `store: expected a string, found ${typeof store}; ${EXPECTED}`);
	if (store === 'memory' || store.startsWith('shared:'))
		return {remote: false, store};
	if (store.startsWith('unix:') && store.length > 'unix:'.length)
		return {remote: true, path: store.slice('unix:'.length), tls: false, db: 0, user: '', password: ''};
	const scheme = /^[a-z]+:/.exec(store);
	if (scheme && Object.hasOwn(SCHEMES, scheme[0]))
		return remoteOf(store);
	if (!scheme && store.includes('/'))
		return {remote: false, store};
	throw misuse('bad-store', `store: found '${store.replace(/\/\/.*@/, '//').slice(0, 60)}'; ${EXPECTED}`);
}

module.exports = {addressOf};
