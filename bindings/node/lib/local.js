// Decisions made in this process, by the native part. Both write into one block of memory: see native/addon.h.
'use strict';

const {SluiceError, misuse} = require('./errors.js');
const {Result} = require('./result.js');
const {native} = require('./native.js');
const args = require('./arguments.js');

// Places in `figures`, `lengths` and `hot`, as native/addon.h has them.
const TOLD = 0, OPERATION = 1, COST = 2, TTL = 3, FLAGS = 4, NOW = 5, PAIRS = 6, ALLOWED = 7, QUOTA = 8, REMAINING = 9,
	RETRY = 10, RESET = 11, DELAY = 12, INDEX = 13, GRANTED = 14, REPEATED = 15, NEXT = 16, COUNT = 17, EACH_COUNT = 18,
	FAILED_OPEN = 19, ID_BYTES = 20, NAME_BYTES = 21, EACH = 22, EACH_SIZE = 8;
const FLAG_UPTO = 1, FLAG_NEXT = 2, FLAG_EACH = 4, FLAG_LAST = 8;
const DECIDED = -1, AGAIN = -2, CLOSED = -3;
const AGAIN_MS = 2; // between two looks whether a process that was stopped has moved
const HOT_TOLD = 0, HOT_WAY = 1, HOT_KEY_BYTES = 2, HOT_ALLOWED = 3, HOT_QUOTA = 4, HOT_REMAINING = 5, HOT_RETRY = 6,
	HOT_RESET = 7, HOT_DELAY = 8, HOT_INDEX = 9;
const HOT_LIMITS_MAX = 1024; // of one limiter, and lists of limits likewise
const KEY_BYTES_HOT = 64;
const TEXT_BYTES_MAX = 16 << 20; // of all texts of one call

// Fields of a Result begin as anything, so that V8 keeps small integers in them without a box, and large ones with one.
for (let i = 0; i < 4; i++)
	new Result(null, null, null, null, null, null, null, null, null);

/** Limits of the shortest way: the number by which they are asked, below 0 if they go the long one, and their texts. */
class Way {
	constructor(way, texts) {
		this.way = way;
		this.texts = texts;
	}
}
const NONE = new Way(-1, []);

// Looked up once: where some library adds to String.prototype, V8 looks up a method of a string at each call, for 8 ns.
const charCodeAt = Function.prototype.call.bind(String.prototype.charCodeAt);

// Of the shortest way, for all limiters of an instance, so that V8 knows what is called.
let hot = null, hotKey = null, checkHot = null;

class Local {
	#native;
	#functions;
	#timeout;
	#figures;
	#lengths;
	#bytes;
	/** Ways of limits that were asked, by a text, or by all texts of a list; and the last of each. */
	#texts = new Map();
	#lists = new Map();
	#lastText = null;
	#ofText = NONE;
	#ofList = NONE;

	constructor(store, {memory, policy}, timeout) {
		if (memory !== undefined && typeof memory !== 'string' && !(Number.isSafeInteger(memory) && memory > 0))
			throw misuse('bad-argument', `memory: expected bytes, or '64MiB', found ${args.shown(memory)}`);
		if (policy !== undefined && typeof policy !== 'string')
			throw misuse('bad-argument', `policy: expected a path or YAML, found ${args.shown(policy)}`);
		this.#timeout = timeout;
		this.#native = native();
		this.#figures = this.#native.figures;
		this.#lengths = this.#native.lengths;
		this.#bytes = Buffer.from(this.#native.bytes.buffer, this.#native.bytes.byteOffset, this.#native.bytes.length);
		const size = memory === undefined ? undefined : String(memory);
		this.#functions = this.#native.open(...this.#put([store, size, policy]));
		this.#check();
		({hot, hotKey, check: checkHot} = this.#native);
	}

	get inProcess() {
		return true;
	}

	/** As decideNow(); what a stopped process holds up is asked again for `timeout` ms, while the loop goes on. */
	async decide(asked) {
		const told = this.#ask(asked, false);
		return told === null ? this.#insist(asked) : told;
	}

	async #insist(asked) {
		const end = performance.now() + this.#timeout;
		for (;;) {
			await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
			const told = this.#ask(asked, performance.now() >= end);
			if (told !== null)
				return told;
		}
	}

	/** A Result, or a number of counters. Never waits: what is held up now is an error. */
	decideNow(asked) {
		return this.#ask(asked, true);
	}

	/** Null where it is to be asked again, unless this is the last time. */
	#ask(asked, last) {
		const pairs = asked.ticketed ? [] : asked.attributes ?? asked.limits;
		// of a ticket: the key of the command that gave it, which was that of the first limit
		const key = asked.ticketed && asked.limits.length > 0 ? asked.limits[0][0] : asked.key;
		const figures = this.#figures, texts = [asked.id, asked.member, key];
		for (const [first, second] of pairs)
			asked.attributes ? texts.push(first, second) : texts.push(second, first === asked.key ? undefined : first);
		const passed = this.#put(texts);
		figures[OPERATION] = this.#native.operations[asked.operation];
		figures[COST] = asked.cost;
		figures[TTL] = asked.ttl;
		figures[FLAGS] = (asked.upto ? FLAG_UPTO : 0) | (asked.next ? FLAG_NEXT : 0) | (asked.each ? FLAG_EACH : 0)
			| (last ? FLAG_LAST : 0);
		figures[NOW] = asked.at ?? -1;
		figures[PAIRS] = pairs.length;
		this.#functions.decide(...passed);
		if (figures[TOLD] === AGAIN && !last)
			return null;
		this.#check();
		return this.#told(asked);
	}

	/** [[id, cost, ms], ..] */
	async holders(key, limit, at) {
		const passed = this.#put([ undefined, undefined, key, limit ]);
		this.#figures[NOW] = at ?? -1;
		const list = this.#functions.holders(...passed);
		this.#check();
		return list;
	}

	reload(policy) {
		this.#functions.reload(...this.#put([undefined, undefined, policy]));
		this.#check();
	}

	close() {
		this.#functions.close();
	}

	// ---- texts

	/** Writes texts into the block; returns what is to be passed where they are too long for it: [a buffer], or []. */
	#put(texts) {
		let most = 0;
		for (const text of texts)
			most += text === undefined ? 0 : typeof text === 'string' ? text.length * 3 : text.length;
		if (most > TEXT_BYTES_MAX)
			throw misuse('bad-argument', `texts of some ${most} bytes in one call: expected at most ${TEXT_BYTES_MAX}`);
		const own = most > this.#bytes.length, bytes = own ? Buffer.allocUnsafe(most) : this.#bytes;
		let at = 0;
		for (let i = 0; i < texts.length; i++) {
			const text = texts[i];
			let length = -1;
			if (typeof text === 'string')
				length = text.length < 24 ? write(bytes, at, text) : bytes.write(text, at);
			else if (text !== undefined)
				bytes.set(text, at), length = text.length;
			this.#lengths[i] = length;
			at += length > 0 ? length : 0;
		}
		return own ? [bytes] : [];
	}

	#text(from, length) {
		return length <= 0 ? '' : this.#bytes.utf8Slice(from, from + length);
	}

	// ---- what is told

	#check() {
		const told = this.#figures[TOLD];
		if (told === DECIDED)
			return;
		if (told === CLOSED)
			throw new SluiceError('closed', 'the limiter was closed');
		const code = told === AGAIN ? 'busy' : this.#native.failures[told];
		throw new SluiceError(code, this.#text(0, this.#figures[NAME_BYTES]));
	}

	#told(asked) {
		const figures = this.#figures, operation = asked.operation;
		if (operation === 'RESET' || operation === 'RELEASE' || operation === 'RENEW')
			return figures[COUNT];
		const idBytes = figures[ID_BYTES];
		const name = asked.attributes ? this.#text(Math.max(0, idBytes), figures[NAME_BYTES])
			: asked.limits[figures[INDEX]]?.[1] ?? '';
		const result = this.#result(ALLOWED, name, figures[GRANTED]);
		if (figures[REPEATED] === 1)
			result.repeated = true;
		if (figures[FAILED_OPEN] === 1)
			result.failedOpen = true;
		if (idBytes > 0)
			result.id = this.#text(0, idBytes);
		if (asked.next)
			result.nextAfter = figures[NEXT];
		if (asked.each)
			result.each = this.#each(asked);
		return result;
	}

	#result(from, limit, granted) {
		const f = this.#figures;
		return new Result(f[from] === 1, f[from + 1], f[from + 2], f[from + 3], f[from + 4], f[from + 5], f[from + 6],
			limit, granted);
	}

	#each(asked) {
		const each = [], idBytes = Math.max(0, this.#figures[ID_BYTES]);
		let text = idBytes + Math.max(0, this.#figures[NAME_BYTES]);
		for (let i = 0; i < this.#figures[EACH_COUNT]; i++) {
			const at = EACH + i * EACH_SIZE;
			const one = this.#result(at, asked.limits[i]?.[1] ?? '', this.#figures[GRANTED]);
			one.nextAfter = this.#figures[at + 7];
			if (asked.attributes)
				text = this.#ofPolicy(one, i, text);
			else
				one.index = i;
			each.push(one);
		}
		return each;
	}

	/** What a limit of the policy is called and says, from there on in the block; returns where the next one begins. */
	#ofPolicy(one, i, from) {
		const [name, rule, observed] = this.#lengths.subarray(3 * i, 3 * i + 3);
		one.limit = this.#text(from, name);
		one.rule = this.#text(from + name, rule);
		if (observed === 1)
			one.observed = true;
		return from + name + rule;
	}

	// ---- the shortest way

	/** Decided there, with numbers too large for it. */
	#wide(texts) {
		return this.#result(ALLOWED, texts[this.#figures[INDEX]] ?? '', this.#figures[GRANTED]);
	}

	/** The number by which these limits are asked, below 0: they go the long way. */
	#way(texts) {
		const passed = this.#put(texts);
		this.#figures[PAIRS] = texts.length;
		this.#functions.hot(...passed);
		return this.#figures[TOLD];
	}

	#found(known, name, texts) {
		let one = known.get(name);
		if (one === undefined && known.size >= HOT_LIMITS_MAX)
			return NONE; // texts without end
		if (one === undefined)
			known.set(name, one = new Way(this.#way(texts), texts));
		return one;
	}

	/** How limits are asked. A list may be changed by its owner, so it is compared by its texts. */
	#wayOf(limits) {
		if (typeof limits === 'string') {
			if (limits === this.#lastText)
				return this.#ofText;
			this.#lastText = limits;
			return this.#ofText = this.#found(this.#texts, limits, [limits]);
		}
		if (!Array.isArray(limits))
			return NONE;
		if (isSame(limits, this.#ofList.texts))
			return this.#ofList;
		return limits.length > 0 && limits.every(isText)
			? this.#ofList = this.#found(this.#lists, limits.join('\n'), [...limits]) : NONE;
	}

	/** A Result, or null where it is not so simple: a plain check of a key that is a string. */
	fast(key, limits) {
		const {way, texts} = this.#wayOf(limits), length = key.length;
		if (length > KEY_BYTES_HOT || way < 0)
			return null;
		const bytes = hotKey;
		for (let i = 0; i < length; i++) {
			const code = charCodeAt(key, i);
			if (code > 127)
				return null;
			bytes[i] = code;
		}
		hot[HOT_WAY] = way;
		hot[HOT_KEY_BYTES] = length;
		checkHot();
		if (hot[HOT_TOLD] !== 1)
			return hot[HOT_TOLD] === 0 ? null : this.#wide(texts);
		const allowed = hot[HOT_ALLOWED], index = hot[HOT_INDEX];
		return new Result(allowed === 1, hot[HOT_QUOTA], hot[HOT_REMAINING], hot[HOT_RETRY], hot[HOT_RESET],
			hot[HOT_DELAY], index, texts[index], allowed);
	}
}

/** A text that may be joined with others: no limit has a line break. */
function isText(limit) {
	return typeof limit === 'string' && !limit.includes('\n');
}

function isSame(limits, texts) {
	const count = texts.length;
	if (count === 0 || limits.length !== count)
		return false;
	for (let i = 0; i < count; i++)
		if (limits[i] !== texts[i])
			return false;
	return true;
}

/** A short text, written without leaving JavaScript where it is ASCII. */
function write(bytes, at, text) {
	for (let i = 0; i < text.length; i++) {
		const code = charCodeAt(text, i);
		if (code > 127)
			return bytes.write(text, at);
		bytes[at + i] = code;
	}
	return text.length;
}

module.exports = {Local};
