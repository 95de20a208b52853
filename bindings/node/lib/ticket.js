// Tickets of reservations, as a server writes them: src/proto/ticket.c says their form.
'use strict';

const ID_DIGITS = 16, VERSION = 1;
const FORM = /^[0-9a-f]{16}\.[\w-]+$/;
const FLAG_KEY = 1, FLAG_NAME = 2, FLAG_LAST = 4, FLAGS_ALL = 7;
const KEY_BYTES_MAX = 1024; // a longer one is folded, and left as it is

function bytesOf(key) {
	return typeof key === 'string' ? new TextEncoder().encode(key) : key;
}

function isSame(a, b) {
	return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

function unpacked(ticket) {
	const text = ticket.slice(ID_DIGITS + 1).replaceAll('-', '+').replaceAll('_', '/');
	return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** Where its items are: their keys, of `own` bytes, begin at `from`. What has no end, ends at NaN. */
function* itemsOf(packed) {
	for (let at = 1; at < packed.length;) {
		const flags = packed[at], from = at + 1;
		const own = (flags & FLAG_KEY) !== 0 ? 2 + packed[from] + 256 * packed[from + 1] : 0;
		let end = from + own;
		if ((flags & FLAG_NAME) !== 0)
			end += 1 + packed[end];
		const limit = packed[end];
		end += 1 + limit;
		yield {flags, from, own, limit, end};
		at = end;
	}
}

/** Whether an id is a ticket, so that no limits are sent with it: what only begins as one may be a caller's own. */
function isTicket(id) {
	if (!FORM.test(id) || (id.length - ID_DIGITS - 1) % 4 === 1)
		return false;
	const packed = unpacked(id), items = [...itemsOf(packed)], last = items.at(-1);
	return packed[0] === VERSION && last?.end === packed.length && items.every((one) => one.limit > 0
		&& one.flags <= FLAGS_ALL && (one === last) === ((one.flags & FLAG_LAST) !== 0));
}

/** The packed items, each with the key that it left out. */
function* withKeys(packed, key) {
	yield packed[0];
	for (const {flags, from, own, end} of itemsOf(packed)) {
		yield flags | FLAG_KEY;
		if (own === 0)
			yield* [key.length & 255, key.length >> 8, ...key];
		yield* packed.subarray(from, end);
	}
}

/** A ticket of a command whose key was that of the first limit, for a call that has another key: it says all keys, and
 * so can be committed by either. */
function ticketOf(ticket, first, key) {
	const [left, own] = [bytesOf(first), bytesOf(key)];
	if (isSame(left, own) || left.length > KEY_BYTES_MAX)
		return ticket;
	const whole = btoa(Array.from(withKeys(unpacked(ticket), left), (byte) => String.fromCharCode(byte)).join(''));
	return ticket.slice(0, ID_DIGITS + 1) + whole.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

module.exports = {isTicket, ticketOf};
