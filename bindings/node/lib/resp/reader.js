// RESP, versions 2 and 3, from bytes to values: integers and doubles as numbers, strings as strings, nil as null,
// booleans, arrays, sets and pushes as arrays, maps as flat arrays, errors as ErrorReply. Attributes are dropped.
//
// A value that has not arrived whole is read from its start again when more is there: answers are short. What is no
// RESP, or is larger than any answer of ours, throws; the connection is of no use then.
'use strict';

const ANSWER_BYTES_MAX = 4 << 20;
const DEPTH_MAX = 8;
const CR = 13, LF = 10;

/** An error that was answered: `text` without its '-'. */
class ErrorReply {
	constructor(text) {
		this.text = text;
	}
}

class Push {
	constructor(items) {
		this.items = items;
	}
}

const MORE = Symbol('more is needed');

class Reader {
	#bytes = Buffer.alloc(0);
	#at = 0;

	/** Takes what came in; calls `answered` with each value that is whole. */
	feed(chunk, answered) {
		this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
		this.#at = 0;
		let whole = 0;
		while (this.#at < this.#bytes.length) {
			const value = this.#value(0);
			if (value === MORE)
				break;
			whole = this.#at;
			if (!(value instanceof Push))
				answered(value);
		}
		this.#bytes = whole === this.#bytes.length ? Buffer.alloc(0) : this.#bytes.subarray(whole);
		if (this.#bytes.length > ANSWER_BYTES_MAX)
			throw new Error(`an answer of more than ${ANSWER_BYTES_MAX} bytes`);
	}

	#line() {
		const bytes = this.#bytes, end = bytes.indexOf(CR, this.#at);
		if (end < 0 || end + 1 >= bytes.length)
			return MORE;
		if (bytes[end + 1] !== LF)
			throw new Error('a line that ends by CR alone');
		const start = this.#at;
		this.#at = end + 2;
		return bytes.latin1Slice(start, end);
	}

	/** A whole number and its line's end, without a string made of it. */
	#integer() {
		const bytes = this.#bytes;
		let at = this.#at, value = 0;
		const negative = bytes[at] === 45;
		if (negative || bytes[at] === 43)
			at++;
		const first = at;
		for (; at < bytes.length && bytes[at] !== CR; at++) {
			const digit = bytes[at] - 48;
			if (digit < 0 || digit > 9 || at - first >= 20)
				throw new Error('a number that is none');
			value = value * 10 + digit;
		}
		if (at + 1 >= bytes.length)
			return MORE;
		if (at === first || bytes[at + 1] !== LF)
			throw new Error('a number that is none');
		this.#at = at + 2;
		return negative ? -value : value;
	}

	#bulk(skip) {
		const length = this.#integer();
		if (length === MORE)
			return MORE;
		if (length < 0)
			return null;
		if (length > ANSWER_BYTES_MAX)
			throw new Error(`a string of ${length} bytes`);
		const start = this.#at, end = start + length;
		if (end + 2 > this.#bytes.length)
			return MORE;
		if (this.#bytes[end] !== CR || this.#bytes[end + 1] !== LF)
			throw new Error('a string without its end');
		this.#at = end + 2;
		return this.#bytes.utf8Slice(Math.min(start + skip, end), end);
	}

	#list(depth, each) {
		const count = this.#integer();
		if (count === MORE)
			return MORE;
		if (count < 0)
			return null;
		if (depth >= DEPTH_MAX || count * each > ANSWER_BYTES_MAX / 4)
			throw new Error('lists too large, or too deep');
		const items = [];
		for (let i = 0; i < count * each; i++) {
			const item = this.#value(depth + 1);
			if (item === MORE)
				return MORE;
			items.push(item);
		}
		return items;
	}

	#value(depth) {
		if (this.#at >= this.#bytes.length)
			return MORE;
		switch (this.#bytes[this.#at++]) {
		case 58: return this.#integer(); // :
		case 36: return this.#bulk(0); // $
		case 61: return this.#bulk(4); // =txt:
		case 42: case 126: return this.#list(depth, 1); // * ~
		case 37: return this.#list(depth, 2); // %
		case 62: return push(this.#list(depth, 1)); // >
		case 124: return this.#attribute(depth);
		case 33: return error(this.#bulk(0)); // !
		case 45: return error(this.#line()); // -
		case 43: case 40: return this.#line(); // + (
		case 95: return this.#line() === MORE ? MORE : null; // _
		case 35: return truth(this.#line()); // #
		case 44: return number(this.#line()); // ,
		default: throw new Error('bytes that are no answer of RESP: is it another protocol?');
		}
	}

	#attribute(depth) {
		return this.#list(depth, 2) === MORE ? MORE : this.#value(depth);
	}
}

function push(items) {
	return items === MORE ? MORE : new Push(items);
}

function error(text) {
	return text === MORE ? MORE : new ErrorReply(text);
}

function truth(line) {
	return line === MORE ? MORE : line === 't';
}

function number(line) {
	return line === MORE ? MORE : Number(line);
}

module.exports = {Reader, ErrorReply};
