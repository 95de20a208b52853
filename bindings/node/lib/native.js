// The native part: prebuilt for this platform, or built when the package was installed.
'use strict';

const {existsSync, readFileSync} = require('node:fs');
const {join} = require('node:path');
const {SluiceError} = require('./errors.js');

/** The libc that is in this process. The report of Node would say it too, but it looks up the names of all peers of
 * open sockets first, and waits for that. */
function libc() {
	try {
		return /\/(ld-musl|libc\.musl)-/.test(readFileSync('/proc/self/maps', 'latin1')) ? 'musl' : 'glibc';
	} catch {
		return existsSync('/etc/alpine-release') ? 'musl' : 'glibc'; // no /proc here
	}
}

/** linux-x64-glibc, linux-arm64-musl ..: a libc is not the other's. */
function platform() {
	const machine = `${process.platform}-${process.arch}`;
	return process.platform === 'linux' ? `${machine}-${libc()}` : machine;
}

/** Where the native part may be, the best first. */
function places() {
	const root = join(__dirname, '..');
	return [process.env.SLUICE_NODE_ADDON, join(root, 'prebuilds', platform(), 'sluice.node'),
		join(root, 'build', 'sluice.node')].filter((path) => path);
}

let loaded = null;

/** A state is published by one store there alone: elsewhere a process that is killed could leave half of one. */
function mayBeBuilt() {
	return process.platform === 'linux' && process.arch === 'x64';
}

/** Loads it once. Throws `no-binary` where there is none. */
function native() {
	if (loaded !== null)
		return loaded;
	const found = places().find((path) => existsSync(path));
	if (found === undefined)
		throw new SluiceError('no-binary', mayBeBuilt()
			? `no native part of sluice for ${platform()}: a store in process needs one. `
				+ 'Build it by `npm rebuild sluice` (a C compiler, libyaml), or use a server: redis://host:port'
			: `a store in process is for linux x64 alone, not ${platform()}: use a server: redis://host:port`);
	return loaded = require(found);
}

module.exports = {mayBeBuilt, native, places, platform};
