// Ids: of leases as a server makes them, 64 random bits in 16 hexadecimal digits; and of what clients say.
'use strict';

const BYTES = 8;
const ID_BYTES_MAX = 64;

/** Whatever the runtime has: Node 18 has no global `crypto`, others have no node:crypto. */
function cryptography() {
	const {crypto = require('node:crypto').webcrypto} = globalThis;
	return crypto;
}

function hexOf(bytes) {
	return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function newId() {
	return hexOf(cryptography().getRandomValues(new Uint8Array(BYTES)));
}

/** An id for a text that others chose, such as a client's header: as it is, or its SHA-256 where it is too long for
 * one. An empty one is none: undefined. */
async function idFor(text) {
	if (text === undefined || text === null || text === '')
		return undefined;
	if (typeof text !== 'string')
		return text;
	const bytes = new TextEncoder().encode(text);
	if (bytes.length <= ID_BYTES_MAX)
		return text;
	return hexOf(new Uint8Array(await cryptography().subtle.digest('SHA-256', bytes)));
}

module.exports = {ID_BYTES_MAX, idFor, newId};
