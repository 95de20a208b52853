/* What headers say of a limit that was given in notation: its name, which is its canonical text, and its window.
 *
 * The library is who reads limits; this reads as much of the notation as the headers of Sluice's own doors tell, so
 * that the same limit has the same name there and here. What it can't read it passes on as it stands, without a
 * window. */
'use strict';

const UNITS = { ms: 1, s: 1000, m: 60000, h: 3600000, d: 86400000, w: 604800000 };
const LARGEST = [['w', 604800000], ['d', 86400000], ['h', 3600000], ['m', 60000], ['s', 1000], ['ms', 1]];
const POWERS = { '': 1, k: 1e3, M: 1e6, G: 1e9 };
const ALGORITHMS = ['fixed-window', 'sliding-window', 'sliding-log', 'sliding-buckets', 'token-bucket', 'leaky-bucket',
	'concurrency', 'distinct'];
const KEPT_MAX = 1000;

const kept = new Map();

function quotaOf(text) {
	const found = /^(\d+)([kMG]?)$/.exec(text ?? '');
	return found ? Number(found[1]) * POWERS[found[2]] : null;
}

function msOf(text) {
	const found = /^(\d+)(ms|[smhdw])$/.exec(text ?? '');
	return found ? Number(found[1]) * UNITS[found[2]] : null;
}

function printed(ms) {
	const [unit, size] = LARGEST.find(([, length]) => ms % length === 0);
	return `${ms / size}${unit}`;
}

/** Pairs of words as a Map, or null where one is left over. */
function optionsOf(words) {
	const options = new Map();
	for (let i = 0; i < words.length; i += 2)
		options.set(words[i], words[i + 1]);
	return words.length % 2 === 0 ? options : null;
}

const seconds = (ms) => Math.max(1, Math.ceil(ms / 1000));

function concurrency(words) {
	const quota = quotaOf(words[0]);
	const lease = msOf(words[2]);
	return quota === null || words[1] !== 'lease' || lease === null || words.length !== 3 ? null
		: { name: `concurrency ${quota} lease ${printed(lease)}`, inFlight: true };
}

/** A window of the calendar has no length of its own, but that of the present one: calendar.js. */
function calendar(quota, unit, words) {
	return words.length === 2 && words[0] === 'at'
		? { name: `fixed-window ${quota}/${unit} at ${words[1]}`, turns: UNITS.m,
			calendar: { unit, zone: words[1] } } : null;
}

function windowed(algorithm, words) {
	const [first, second, more] = words[0]?.split('/') ?? [];
	const quota = quotaOf(first);
	if (quota === null || second === undefined || more !== undefined)
		return null;
	if (/^(hour|day|week|month|year)$/.test(second))
		return algorithm === 'sliding-window' || algorithm === 'fixed-window' ? calendar(quota, second,
			words.slice(1)) : null;
	const window = msOf(second);
	const spread = words[1] === 'spread';
	const options = optionsOf(words.slice(spread ? 2 : 1));
	if (!window || options === null)
		return null;
	return { quota, window, options, spread,
		head: `${algorithm} ${quota}/${printed(window)}${spread ? ' spread' : ''}` };
}

function bucket(read, word, more) {
	const size = read.options.has(word) ? quotaOf(read.options.get(word)) : read.quota;
	if (size === null || read.options.size > 1)
		return null;
	const whole = quotaWindow(read, size + more);
	return { name: read.quota === 0 ? read.head : `${read.head} ${word} ${size}`, window: whole };
}

/** Seconds in which `units` are won back at the rate of the limit. */
function quotaWindow({ quota, window }, units) {
	if (quota === 0 || units === 0)
		return seconds(window);
	const whole = (BigInt(units) * BigInt(window) + BigInt(quota) * 1000n - 1n) / (BigInt(quota) * 1000n);
	return Number(whole) || 1;
}

function buckets(read) {
	const precision = msOf(read.options.get('precision'));
	return precision === null ? null : { window: seconds(read.window),
		name: `${read.head} precision ${printed(precision)} edge ${read.options.get('edge') ?? 'count'}` };
}

function readLimit(text) {
	const words = text.split(' ');
	const named = ALGORITHMS.includes(words[0]);
	const algorithm = named ? words.shift() : 'sliding-window';
	if (text === 'unlimited')
		return { name: text, unlimited: true };
	if (algorithm === 'concurrency')
		return concurrency(words);
	const read = windowed(algorithm, words);
	if (!read || read.name)
		return read;
	if (algorithm === 'token-bucket')
		return bucket(read, 'burst', 0);
	if (algorithm === 'leaky-bucket')
		return bucket(read, 'queue', 1);
	if (algorithm === 'sliding-buckets')
		return buckets(read);
	const turns = /^(fixed|sliding)-window$/.test(algorithm) && !read.spread ? read.window : undefined;
	return read.options.size === 0 ? { name: read.head, window: seconds(read.window), turns } : null;
}

/** {name, window?, calendar?, turns?, inFlight?, unlimited?} of a limit: its canonical text; seconds in which its whole
 * quota comes back; the unit and the zone of one of the calendar; ms of which every instant is a multiple at which it
 * is back; whether it counts what is in flight. */
function told(text) {
	let read = kept.get(text);
	if (read === undefined) {
		if (kept.size >= KEPT_MAX)
			kept.clear();
		read = readLimit(text) ?? { name: text.replace(/^policy:/, '') };
		kept.set(text, read);
	}
	return read;
}

module.exports = { told };
