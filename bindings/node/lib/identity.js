// Ids of leases, as a server makes them: 64 random bits in 16 hexadecimal digits.
'use strict';

const BYTES = 8;

/** By whatever the runtime has: Node 18 has no global `crypto`, others have no node:crypto. */
function newId() {
	const {crypto = require('node:crypto').webcrypto} = globalThis;
	const bytes = crypto.getRandomValues(new Uint8Array(BYTES));
	return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

module.exports = {newId};
