/* Whose request it is, when it came through proxies: the rule of Sluice's own doors (src/proto/forwarded.c), for
 * JavaScript.
 *
 * Each proxy appends whom it saw, so X-Forwarded-For is true from its right end up to the first entry that was not
 * written by a proxy of ours; what stands to the left of that is the client's own invention. To read it from the left
 * is to let clients choose their key. IPv6 clients count by their network of 64 bits: one address of it is nobody. */
'use strict';

const HOPS_MAX = 100;
const V6_CHARACTERS_MAX = 45;
/* Strangers write what this reads: no two parts of it can divide a text in several ways.
 * 1: IPv4, 2: its port; 3: IPv6 in brackets, 4: its port; 5: IPv6 alone */
const FORM = new RegExp(`^(?:${[String.raw`(\d[\d.]*)(?::(\d{1,5}))?`,
	String.raw`\[([^\]%]+)(?:%[^\]]+)?\](?::(\d{1,5}))?`,
	String.raw`([^%[\]:]*:[^%[\]:]*:[^%[\]]*)(?:%.+)?`].join('|')})$`);
const V4 = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/;

/** Four bytes of a dotted quad, or null. Leading zeros are none: they are octal to some. */
function parseV4(text) {
	const found = V4.exec(text);
	if (!found)
		return null;
	const bytes = found.slice(1).map(Number);
	return bytes.every((byte, i) => byte <= 255 && String(byte) === found[i + 1]) ? bytes : null;
}

/** Sixteen bytes of an IPv6 address without brackets, port or zone, or null. */
function parseV6(text) {
	const halves = text.split('::');
	if (text.length > V6_CHARACTERS_MAX || halves.length > 2 || !/^[0-9A-Fa-f:.]+$/.test(text))
		return null;
	const groups = halves.map((half) => (half === '' ? [] : half.split(':')));
	const last = groups[groups.length - 1];
	const tail = last.length > 0 && last[last.length - 1].includes('.') ? parseV4(last.pop()) : [];
	if (tail === null || !groups.flat().every((group) => /^[0-9A-Fa-f]{1,4}$/.test(group)))
		return null;
	const bytes = groups.map((half) => half.flatMap((group) => [parseInt(group, 16) >> 8, parseInt(group, 16) & 255]));
	bytes[bytes.length - 1].push(...tail);
	const missing = 16 - bytes.flat().length;
	if (halves.length === 1)
		return missing === 0 ? bytes[0] : null;
	return missing >= 2 ? [...bytes[0], ...new Array(missing).fill(0), ...bytes[1]] : null;
}

const mapped = (four) => [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, ...four];

/** Reads `1.2.3.4`, `1.2.3.4:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`; a %zone of IPv6 is dropped.
 * Sixteen bytes, IPv4 as ::ffff:a.b.c.d, so that both forms of it are one; null for anything else. */
function parseAddress(text) {
	const found = FORM.exec(text);
	if (!found || Number(found[2] ?? found[4] ?? 0) > 65535)
		return null;
	if (found[1] === undefined)
		return parseV6(found[3] ?? found[5]);
	const four = parseV4(found[1]);
	return four && mapped(four);
}

const isV4 = (bytes) => bytes[10] === 255 && bytes[11] === 255 && bytes.slice(0, 10).every((byte) => byte === 0);

/** As RFC 5952 has it. */
function printV6(bytes) {
	const groups = Array.from({ length: 8 }, (_, i) => (bytes[2 * i] << 8 | bytes[2 * i + 1]).toString(16));
	const zeros = groups.map((group) => (group === '0' ? '0' : '.')).join('').match(/00+/g) ?? [];
	const longest = zeros.reduce((a, b) => (b.length > a.length ? b : a), '');
	if (longest === '')
		return groups.join(':');
	const at = groups.map((group) => (group === '0' ? '0' : '.')).join('').indexOf(longest);
	return `${groups.slice(0, at).join(':')}::${groups.slice(at + longest.length).join(':')}`;
}

function cleared(bytes, prefix) {
	return bytes.map((byte, i) => {
		const kept = Math.min(8, Math.max(0, prefix - 8 * i));
		return byte & (0xff00 >> kept) & 0xff;
	});
}

/** What an address counts as: IPv4 alone, IPv6 by its network, such as `2001:db8:1:2::/64`. */
function addressKey(bytes, ipv6Prefix = 64) {
	if (isV4(bytes))
		return bytes.slice(12).join('.');
	return ipv6Prefix >= 128 ? printV6(bytes) : `${printV6(cleared(bytes, ipv6Prefix))}/${ipv6Prefix}`;
}

/** Reads `10.0.0.0/8`, `2001:db8::/32`, or an address for itself alone; throws where it is none. */
function parseNetwork(text) {
	const [address, bits, more] = String(text).split('/');
	const four = parseV4(address);
	const bytes = four ? mapped(four) : parseV6(address);
	const most = four ? 32 : 128;
	if (!bytes || more !== undefined || (bits !== undefined && !(/^\d{1,3}$/.test(bits) && Number(bits) <= most)))
		throw new TypeError(`trustedProxies: '${text}' is no network, such as 10.0.0.0/8 or 2001:db8::/32`);
	const prefix = (bits === undefined ? most : Number(bits)) + (four ? 96 : 0);
	return { bytes: cleared(bytes, prefix), prefix, v4: Boolean(four) };
}

/** An IPv6 network never contains an IPv4 address, not even ::/0. */
function contains(network, bytes) {
	return network.v4 === isV4(bytes) && cleared(bytes, network.prefix).every((byte, i) => byte === network.bytes[i]);
}

/** The elements of a list from the right, without empty ones. In quoted strings commas are text; a quote that isn't
 * closed on the left can't swallow what a proxy of ours appended after it. */
function* fromRight(line, quotes) {
	let end = line.length, looks = quotes;
	while (end > 0) {
		let at = end;
		while (at > 0 && line[at - 1] !== ',') {
			const quote = --at;
			if (!looks || line[quote] !== '"')
				continue;
			at = openingQuote(line, quote);
			looks = at < quote; /* none opens left of here: those left of this one need not look for it again */
		}
		const element = trimmed(line, at, end);
		end = Math.max(0, at - 1);
		if (element !== '')
			yield element;
	}
}

const isBlank = (character) => character === ' ' || character === '\t';

function trimmed(line, from, to) {
	let start = from, end = to;
	while (end > start && isBlank(line[end - 1]))
		end--;
	while (start < end && isBlank(line[start]))
		start++;
	return line.slice(start, end);
}

/** Where the string opens that the double quote at `at` closes, or `at` where none does. One after an odd number of
 * backslashes is part of the text. */
function openingQuote(line, at) {
	for (let i = at; i > 0; i--) {
		let slashes = 0;
		if (line[i - 1] !== '"')
			continue;
		while (slashes < i - 1 && line[i - 2 - slashes] === '\\')
			slashes++;
		if (slashes % 2 === 0)
			return i - 1;
	}
	return at;
}

const PAIR = /[ \t]*([\w!#$%&'*+.^`|~-]+)=("(?:[^"\\]|\\.)*"|[\w!#$%&'*+.^`|~-]+)[ \t]*(;|$)/y;

/** The address of one element of Forwarded (RFC 7239): its `for`, which must be there once; or null. */
function forwardedNode(element) {
	let node = null;
	PAIR.lastIndex = 0;
	while (PAIR.lastIndex < element.length) {
		const pair = PAIR.exec(element);
		if (!pair || (pair[1].toLowerCase() === 'for' && node !== null))
			return null;
		if (pair[1].toLowerCase() === 'for')
			node = pair[2];
		if (pair[3] === '')
			break;
	}
	if (node === null)
		return null;
	const text = node.replace(/^"|"$/g, '').replace(/:_[^:]*$/, '');
	return text.startsWith('[') || text.split(':').length <= 2 ? parseAddress(text) : null;
}

/** Makes a function from a request to the address whose it is, as sixteen bytes, or null where there is none.
 *  trustedProxies  networks whose word is believed; loopback if left out
 *  clientAddress   the header that they write it to: 'x-forwarded-for', or 'forwarded' (RFC 7239)
 * The function is given the peer's address (undefined: a unix socket, which is trusted), and the lines of that header.
 * */
function clientFinder({ trustedProxies = ['127.0.0.0/8', '::1/128'], clientAddress = 'x-forwarded-for' } = {}) {
	const networks = trustedProxies.map(parseNetwork);
	if (clientAddress !== 'x-forwarded-for' && clientAddress !== 'forwarded')
		throw new TypeError(`clientAddress is 'x-forwarded-for' or 'forwarded'; got '${clientAddress}'`);
	const trusts = (bytes) => networks.some((network) => contains(network, bytes));
	const quotes = clientAddress === 'forwarded';
	return (peer, lines) => {
		let found = peer === undefined ? null : parseAddress(peer);
		let hops = 0;
		if (found === null ? peer !== undefined : !trusts(found))
			return found;
		for (const line of [...lines].reverse()) {
			for (const element of fromRight(line, quotes)) {
				if (hops++ === HOPS_MAX || (hops > 1 && !trusts(found)))
					return found;
				const address = quotes ? forwardedNode(element) : parseAddress(element);
				if (address === null)
					return found;
				found = address;
			}
		}
		return found;
	};
}

module.exports = { addressKey, clientFinder, parseAddress };
