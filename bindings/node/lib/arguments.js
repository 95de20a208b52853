// What callers pass, checked: everything below takes it as right. Messages say what was found and what is expected.
'use strict';

const {types} = require('node:util');
const {misuse} = require('./errors.js');
const {ID_BYTES_MAX} = require('./identity.js');

const COST_MAX = 4294967295;
const LIMITS_MAX = 16;
const LONGEST_WORD = 8; // of commands, such as OBSERVED: among limits they would mean something; no limit is one
const TTL_MS_MAX = 3660 * 86400000;

/** A value as messages show it: short, and never a whole key. */
function shown(value) {
	if (typeof value === 'string')
		return value.length > 40 ? `'${value.slice(0, 40)}' and ${value.length - 40} characters more` : `'${value}'`;
	if (typeof value === 'bigint')
		return `${value}n`;
	if (typeof value === 'number' || typeof value === 'boolean' || value === null || value === undefined)
		return String(value);
	return Array.isArray(value) ? 'an array' : typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

/** A proxy of one is none, nor what only inherits from one. */
const isBytes = types.isUint8Array;

function byteLength(value) {
	return typeof value === 'string' ? Buffer.byteLength(value) : value.length;
}

/** Bytes are copied: the caller may change them while a call waits, and a subclass may run code, even another call,
 * when it is asked for its length. */
function keyOf(key, what = 'key') {
	if (typeof key === 'string')
		return key;
	if (!isBytes(key))
		throw misuse('bad-key', `${what}: expected a string or a Uint8Array, found ${shown(key)}`);
	return new Uint8Array(key);
}

function costOf(cost, otherwise = 1, what = 'cost') {
	if (cost === undefined)
		return otherwise;
	if (typeof cost !== 'number' || !Number.isInteger(cost) || cost < 0 || cost > COST_MAX)
		throw misuse('bad-argument', `${what}: expected a whole number from 0 to ${COST_MAX}, found ${shown(cost)}`);
	return cost;
}

function idOf(id) {
	if (typeof id !== 'string' || id === '' || byteLength(id) > ID_BYTES_MAX)
		throw misuse('bad-argument', `id: expected a string of 1 to ${ID_BYTES_MAX} bytes, found ${shown(id)}`);
	return id;
}

/** What acquire(), reserve() or admit() gave: an id, or a ticket, which is longer. */
function heldIdOf(id) {
	if (typeof id !== 'string' || id === '' || id.length > 26 * 1024)
		throw misuse('bad-argument', `id: expected the one that the result has, found ${shown(id)}`);
	return id;
}

function ttlOf(ttl) {
	if (typeof ttl !== 'number' || !Number.isInteger(ttl) || ttl < 1 || ttl > TTL_MS_MAX)
		throw misuse('bad-argument', `ttl: expected whole milliseconds from 1 to ${TTL_MS_MAX}, found ${shown(ttl)}`);
	return ttl;
}

function limitOf(limit, index) {
	if (typeof limit !== 'string')
		throw misuse('bad-limit', `limit ${index + 1}: expected a text such as '100/1m', found ${shown(limit)}`);
	if (limit.length <= LONGEST_WORD && /^[A-Za-z]+$/.test(limit))
		throw misuse('bad-limit', `limit ${index + 1}: expected a text such as '100/1m', found ${shown(limit)}`);
	return limit;
}

/** `limits` as pairs: [[key, text], ..]. A text, or a list of texts and [key, text]. */
function limitsOf(key, limits) {
	if (typeof limits === 'string')
		return [[key, limits]];
	if (!Array.isArray(limits))
		throw misuse('bad-limit', `limits: expected a text such as '100/1m', or a list, found ${shown(limits)}`);
	if (limits.length === 0 || limits.length > LIMITS_MAX)
		throw misuse('bad-limit', `limits: expected 1 to ${LIMITS_MAX}, found ${limits.length}`);
	return limits.map((one, i) => {
		if (!Array.isArray(one))
			return [key, limitOf(one, i)];
		if (one.length !== 2)
			throw misuse('bad-limit', `limit ${i + 1}: expected [key, limit], found a list of ${one.length}`);
		return [keyOf(one[0], `key of limit ${i + 1}`), limitOf(one[1], i)];
	});
}

const NONE = Object.freeze({});

/** Options: an object, with no name that `known` does not have: a misspelt `cost` would be a cost of 1. */
function optionsOf(options, known, where) {
	if (options === undefined)
		return NONE;
	if (options === null || typeof options !== 'object' || Array.isArray(options))
		throw misuse('bad-argument', `${where}: expected an object of options, found ${shown(options)}`);
	for (const name of Object.keys(options))
		if (!known.includes(name))
			throw misuse('bad-argument', `${where}: unknown option ${shown(name)}: expected ${known.join(', ')}`);
	return options;
}

function flagOf(options, name) {
	const value = options[name];
	if (value !== undefined && typeof value !== 'boolean')
		throw misuse('bad-argument', `${name}: expected true or false, found ${shown(value)}`);
	return value === true;
}

function memberOf(member) {
	return member === undefined ? undefined : keyOf(member, 'member');
}

/** Attributes of a request, as pairs. Values are texts; those that are undefined or null are left out. */
function attributesOf(attributes) {
	if (attributes === null || typeof attributes !== 'object' || Array.isArray(attributes) || isBytes(attributes))
		throw misuse('bad-argument', `attributes: expected such as {user: 'ann'}, found ${shown(attributes)}`);
	const pairs = [];
	for (const [name, value] of Object.entries(attributes)) {
		if (value === undefined || value === null)
			continue;
		if (typeof value !== 'string' && !isBytes(value))
			throw misuse('bad-argument', `attribute ${shown(name)}: expected a string, found ${shown(value)}`);
		if (name === '' || byteLength(name) > 64)
			throw misuse('bad-argument', `attribute ${shown(name)}: expected a name of 1 to 64 bytes`);
		pairs.push([name, typeof value === 'string' ? value : new Uint8Array(value)]);
	}
	if (pairs.length === 0)
		throw misuse('bad-argument', 'attributes: expected at least one, such as {user: \'ann\'}');
	if (pairs.length > 256)
		throw misuse('bad-argument', `attributes: expected at most 256, found ${pairs.length}`);
	return pairs;
}

module.exports = {attributesOf, costOf, flagOf, heldIdOf, idOf, keyOf, limitsOf, memberOf, optionsOf, shown, ttlOf};
