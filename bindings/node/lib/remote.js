// Decisions made elsewhere: by a Sluice server, or Redis or Valkey with the module. What is asked becomes the words of
// a command (docs/resp.md), and its answer a Result.
'use strict';

const {SluiceError, misuse} = require('./errors.js');
const {Result, merged, nextOf} = require('./result.js');
const {newId} = require('./identity.js');
const {ticketOf} = require('./ticket.js');
const {Connection, ErrorReply} = require('./resp/connection.js');

/** May be done twice: nothing is charged, or an id says that it is the same. */
const AGAIN = new Set(['PEEK', 'EXPLAIN', 'RELEASE', 'RENEW']);
const COUNTS = new Set(['RESET', 'RELEASE', 'RENEW']);
const COSTS = new Set(['CHECK', 'PEEK', 'REFUND', 'ACQUIRE', 'RESERVE']);

/** The key of the command: that of the first limit, since the grammar wants a limit for each key that is said. */
function firstKey(asked) {
	return asked.limits.length > 0 ? asked.limits[0][0] : asked.key;
}

/** The limits, with KEY before those of another key than the one before. */
function limitWords(asked, words) {
	let key = firstKey(asked);
	for (const [own, text] of asked.limits) {
		if (own !== key)
			words.push('KEY', key = own);
		words.push(text);
	}
	return words;
}

/** Whether the answer is to tell each limit's own figures: then also whether it was repeated. RESERVE would lose its
 * ticket by it. */
function tellsEach(asked) {
	return asked.each || (asked.id !== undefined && (asked.operation === 'CHECK' || asked.operation === 'ACQUIRE'));
}

function wordsOf(asked) {
	const {operation} = asked;
	if (operation === 'ADMIT' || operation === 'EXPLAIN')
		return admitWords(asked);
	const words = [`SLUICE.${operation}`, firstKey(asked)];
	if (operation === 'COMMIT')
		words.push(asked.id, asked.cost);
	else if (operation === 'RELEASE' || operation === 'RENEW')
		words.push(asked.id);
	else if (COSTS.has(operation))
		words.push(asked.cost);
	if (operation === 'RESERVE')
		words.push(asked.ttl);
	if (asked.at !== undefined)
		words.push('AT', asked.at);
	if (asked.upto)
		words.push('UPTO');
	if (tellsEach(asked))
		words.push('EACH');
	else if (asked.next)
		words.push('NEXT');
	if (asked.id !== undefined && COSTS.has(operation))
		words.push('ID', asked.id);
	if (asked.member !== undefined)
		words.push('MEMBER', asked.member);
	return asked.ticketed ? words : limitWords(asked, words);
}

function admitWords(asked) {
	const words = [`SLUICE.${asked.operation}`, asked.cost];
	if (asked.operation === 'ADMIT') {
		words.push('OPEN');
		if (asked.upto)
			words.push('UPTO');
		if (asked.each || asked.next)
			words.push(asked.each ? 'EACH' : 'NEXT');
		if (asked.id !== undefined)
			words.push('ID', asked.id);
		if (asked.member !== undefined)
			words.push('MEMBER', asked.member);
	}
	for (const [name, value] of asked.attributes)
		words.push(name, value);
	return words;
}

// ---- answers

function expect(right, what) {
	if (!right)
		throw new SluiceError('protocol', `an answer that is none to ${what}: is it a Sluice of this version?`);
}

function sevenOf(reply, limit, granted) {
	return new Result(reply[0] === 1, reply[1], reply[2], reply[3], reply[4], reply[5], reply[6], limit, granted);
}

/** A limit's own figures: of EACH. The first number is 1 or 0, and 2 more for each place of the bound that was met. */
function oneOf(reply, text) {
	const one = new Result(reply[0] % 2 === 1, reply[1], reply[2], reply[3], reply[4], reply[5], -1, text, 0);
	one.nextAfter = reply[6];
	return one;
}

/** All or nothing of the cost, where nothing else is said; REFUND and COMMIT grant nothing. */
function grantOf(asked, allowed) {
	return allowed && asked.operation !== 'REFUND' && asked.operation !== 'COMMIT' ? asked.cost : 0;
}

function eachOf(asked, reply) {
	const texts = asked.limits.map(([, text]) => text), count = texts.length;
	expect(Array.isArray(reply) && reply.length >= count && reply.every(Array.isArray), asked.operation);
	const each = texts.map((text, i) => Object.assign(oneOf(reply[i], text), {index: i}));
	const result = merged(each, texts), more = reply[count];
	result.granted = more ? more[0] : grantOf(asked, result.allowed);
	if (more && more[1] === 1 && !asked.named) // else it was the connection that asked twice
		result.repeated = true;
	for (const one of each)
		one.granted = result.granted;
	if (asked.each)
		result.each = each;
	if (!asked.next)
		result.nextAfter = undefined;
	if (asked.operation === 'ACQUIRE' && result.allowed && (asked.cost > 0 || result.repeated))
		result.id = asked.id;
	return result;
}

function decisionOf(asked, reply) {
	if (tellsEach(asked))
		return eachOf(asked, reply);
	expect(Array.isArray(reply) && reply.length >= 7, asked.operation);
	const result = sevenOf(reply, asked.limits[reply[6]]?.[1] ?? '', grantOf(asked, reply[0] === 1));
	let at = 7;
	if (asked.upto)
		result.granted = reply[at++];
	if ((asked.operation === 'ACQUIRE' || asked.operation === 'RESERVE') && reply[at++] !== null)
		result.id = reply[at - 1];
	if (asked.operation === 'RESERVE' && result.id !== null)
		result.id = ticketOf(result.id, firstKey(asked), asked.key);
	if (asked.next)
		result.nextAfter = reply[at];
	return result;
}

/** A limit of the policy: its name and text, its figures, its place in the policy, whether it is observed. */
function limitOf(row) {
	expect(Array.isArray(row) && row.length >= 11, 'ADMIT');
	const one = oneOf(row.slice(2), row[0]);
	return Object.assign(one, {index : row[9], rule : row[1], ...(row[10] === 1 ? {observed : true} : {})});
}

/** The seven, the name, [granted], [ticket or nil], [next, or each limit], whether it passes undecided. */
function admissionOf(asked, reply) {
	expect(Array.isArray(reply) && reply.length >= 9, 'ADMIT');
	const result = sevenOf(reply, reply[7], grantOf(asked, reply[0] === 1));
	let at = 8;
	if (asked.upto)
		result.granted = reply[at++];
	const after = (asked.each || asked.next ? 1 : 0) + 1;
	if (reply.length - at > after && reply[at++] !== null)
		result.id = reply[at - 1];
	if (asked.each) {
		expect(Array.isArray(reply[at]), 'ADMIT');
		result.each = reply[at++].map(limitOf);
		for (const one of result.each)
			one.granted = result.granted;
		if (asked.next)
			result.nextAfter = nextOf(result.each.filter((one) => !one.observed && one.rule !== 'unlimited'));
	} else if (asked.next) {
		result.nextAfter = reply[at++];
	}
	if (reply[at] === 1)
		result.failedOpen = true;
	return result;
}

function explanationOf(reply) {
	expect(Array.isArray(reply), 'EXPLAIN');
	return reply.map((one) => {
		expect(Array.isArray(one) && one.length >= 9, 'EXPLAIN');
		const [name, limit, key, allowed, quota, remaining, retryAfter, resetAfter, delay] = one;
		return {name, limit, key, allowed: allowed === 1, quota, remaining, retryAfter, resetAfter, delay};
	});
}

function answerOf(asked, reply) {
	if (COUNTS.has(asked.operation)) {
		expect(typeof reply === 'number', asked.operation);
		return reply;
	}
	if (asked.operation === 'ADMIT')
		return admissionOf(asked, reply);
	return asked.operation === 'EXPLAIN' ? explanationOf(reply) : decisionOf(asked, reply);
}

/** The store of a Limiter, behind a connection. */
class Remote {
	#connection;
	#timeout;

	constructor(address, {timeout, tls}) {
		this.#timeout = timeout;
		this.#connection = new Connection({...address, timeout, tlsOptions: tls});
	}

	get inProcess() {
		return false;
	}

	/** Resolves with a Result, a number of counters or an explanation. */
	async decide(asked) {
		if (asked.at !== undefined && asked.attributes)
			throw misuse('bad-argument', 'clock: a server decides by its own clock what its policy says');
		if (this.#connection.full)
			return this.#crowded(asked);
		const twice = asked.operation === 'RESERVE' && asked.each;
		if ((asked.operation === 'ACQUIRE' || twice) && asked.id === undefined) {
			asked.id = newId();
			asked.named = true;
		}
		const again = AGAIN.has(asked.operation) || (asked.id !== undefined && asked.operation !== 'COMMIT');
		const closing = asked.operation === 'RELEASE';
		const told = answerOf(asked,
			await this.#connection.command(wordsOf(asked), {again, closing, ...this.#unowned(asked)}));
		if (twice && told.allowed && told.index >= 0 && (asked.cost > 0 || told.repeated))
			told.id = await this.#ticket(asked);
		return told;
	}

	/** RESERVE says no ticket beside EACH: asked again under its id, it charges nothing and says it. */
	async #ticket(asked) {
		const plain = {...asked, each: false, next: false};
		return answerOf(plain, await this.#connection.command(wordsOf(plain), {again: true})).id;
	}

	/** What gives a lease back of which nobody learns, since its answer comes too late or never. The RELEASE follows
	 * its ACQUIRE on one connection, so that a server which stood still does both. Who chose the id may still use it;
	 * a ticket of ADMIT is not known before its answer. */
	#unowned(asked) {
		if (asked.named && asked.operation === 'ACQUIRE') {
			const words = wordsOf({...asked, operation: 'RELEASE', each: false, next: false, member: undefined});
			return {abandoned: () => this.#release(words)};
		}
		return asked.operation === 'ADMIT' ? {late: (reply) => this.#releaseTicket(asked, reply)} : undefined;
	}

	#releaseTicket(asked, reply) {
		const id = reply instanceof ErrorReply ? null : admissionOf(asked, reply).id;
		if (id !== null)
			this.#release(['SLUICE.RELEASE', '*', id]);
	}

	/** A lease that can't be ended ends by itself. */
	#release(words) {
		this.#connection.command(words, {again: true, closing: true}).catch(() => {});
	}

	/** [[id, cost, ms], ..] */
	async holders(key, limit, at) {
		const words = [ 'SLUICE.HOLDERS', key, ...(at === undefined ? [] : [ 'AT', at ]), limit ];
		const reply = await this.#connection.command(words, {again: true});
		expect(Array.isArray(reply) && reply.every((one) => Array.isArray(one) && one.length >= 3), 'HOLDERS');
		return reply;
	}

	/** A queue of our own that is full denies: callers brought it about, and the store is not away. */
	#crowded(asked) {
		if (COUNTS.has(asked.operation) || asked.operation === 'EXPLAIN')
			throw new SluiceError('queue', `${this.#connection.pending} calls wait for ${this.#connection.name}`);
		return new Result(false, 0, 0, this.#timeout, 0, 0, -1, '', 0);
	}

	decideNow() {
		throw new SluiceError('not-in-process', `the store is at ${this.#connection.name}: calls return promises`);
	}

	reload() {
		throw new SluiceError('not-in-process', `the policy is that of ${this.#connection.name}: reload it there`);
	}

	close() {
		return this.#connection.close();
	}
}

module.exports = {Remote, wordsOf, answerOf};
