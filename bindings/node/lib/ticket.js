// Tickets of reservations, as a server writes them: src/proto/ticket.c says their form.
'use strict';

const ID_DIGITS = 16;
const FLAG_KEY = 1, FLAG_NAME = 2;
const KEY_BYTES_MAX = 1024; // a longer one is folded, and left as it is

function bytesOf(key) {
	return typeof key === 'string' ? new TextEncoder().encode(key) : key;
}

function isSame(a, b) {
	return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

/** The packed items, each with the key that it left out. */
function* withKeys(packed, key) {
	yield packed[0];
	for (let at = 1; at < packed.length;) {
		const flags = packed[at], from = at + 1;
		const own = (flags & FLAG_KEY) !== 0 ? 2 + packed[from] + 256 * packed[from + 1] : 0;
		let end = from + own;
		if ((flags & FLAG_NAME) !== 0)
			end += 1 + packed[end];
		end += 1 + packed[end];
		yield flags | FLAG_KEY;
		if (own === 0)
			yield* [key.length & 255, key.length >> 8, ...key];
		yield* packed.subarray(from, end);
		at = end;
	}
}

/** A ticket of a command whose key was that of the first limit, for a call that has another key: it says all keys, and
 * so can be committed by either. */
function ticketOf(ticket, first, key) {
	const [left, own] = [bytesOf(first), bytesOf(key)];
	if (isSame(left, own) || left.length > KEY_BYTES_MAX)
		return ticket;
	const text = ticket.slice(ID_DIGITS + 1).replaceAll('-', '+').replaceAll('_', '/');
	const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
	const whole = btoa(Array.from(withKeys(packed, left), (byte) => String.fromCharCode(byte)).join(''));
	return ticket.slice(0, ID_DIGITS + 1) + whole.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

module.exports = {ticketOf};
