/* Structured fields (RFC 9651), as far as rate-limit headers use them: a List, or a Dictionary, of Items with
 * parameters.
 *
 * A field that breaks the grammar anywhere is null as a whole: draft 10 says that malformed fields are ignored, and
 * half a field says something that nobody meant. Values are of strangers: a field longer than FIELD_CHARS_MAX or with
 * more than MEMBERS_MAX members is ignored too, and nothing here backtracks. The same in Python:
 * ../../python/sluice/client/fields.py; ../../common/client/headers.json holds both to the same answers. */
'use strict';

const FIELD_CHARS_MAX = 8192;
const MEMBERS_MAX = 64;

const KEY = /[a-z*][a-z0-9_.*-]*/y;
const NUMBER = /-?(?:[0-9]{1,12}\.[0-9]{1,3}|[0-9]{1,15})(?![0-9.])/y;
const STRING = /"((?:[ !#-[\]-~]|\\["\\])*)"/y;
const TOKEN = /[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*/y;
const BYTES = /:[A-Za-z0-9+/]*={0,2}:/y;
const BOOLEAN = /\?([01])/y;
const DATE = /@(-?[0-9]{1,15})(?![0-9.])/y;
const DISPLAY = /%"((?:[ !#$&-~]|%[0-9a-f]{2})*)"/y;

/** A key or a parameter without a value. */
const yes = () => ({ kind: 'boolean', value: true });

/** The text of a Display String, whose bytes have to be UTF-8. */
function decoded(text) {
	try {
		return decodeURIComponent(text);
	} catch {
		throw new SyntaxError('no UTF-8');
	}
}

class Reader {
	constructor(text) {
		this.text = text;
		this.at = 0;
	}

	/** The match of a sticky pattern here, taken; or null, and nothing is. */
	take(pattern) {
		pattern.lastIndex = this.at;
		const found = pattern.exec(this.text);
		if (found)
			this.at = pattern.lastIndex;
		return found;
	}

	spaces(characters) {
		while (this.at < this.text.length && characters.includes(this.text[this.at]))
			this.at++;
	}

	here(character) {
		if (this.text[this.at] !== character)
			return false;
		this.at++;
		return true;
	}

	bare() {
		let found;
		if ((found = this.take(NUMBER)))
			return { kind: found[0].includes('.') ? 'decimal' : 'integer', value: Number(found[0]) };
		if ((found = this.take(STRING)))
			return { kind: 'string', value: found[1].replace(/\\(["\\])/g, '$1') };
		if ((found = this.take(TOKEN)))
			return { kind: 'token', value: found[0] };
		if ((found = this.take(BYTES)))
			return { kind: 'bytes', value: found[0].slice(1, -1) };
		if ((found = this.take(BOOLEAN)))
			return { kind: 'boolean', value: found[1] === '1' };
		if ((found = this.take(DATE)))
			return { kind: 'date', value: Number(found[1]) };
		if ((found = this.take(DISPLAY)))
			return { kind: 'display', value: decoded(found[1]) };
		throw new SyntaxError('no item');
	}

	item() {
		return this.withParameters(this.bare());
	}

	withParameters(item) {
		item.parameters = new Map();
		while (this.here(';')) {
			this.spaces(' ');
			const key = this.take(KEY);
			if (!key)
				throw new SyntaxError('no parameter');
			item.parameters.set(key[0], this.here('=') ? this.bare() : yes());
		}
		return item;
	}

	/** Members by `member`, which reads one, to the end of the text. */
	members(member) {
		this.spaces(' ');
		for (let count = 1; ; count++) {
			if (count > MEMBERS_MAX)
				throw new SyntaxError('too many members');
			member();
			this.spaces(' \t');
			if (this.at === this.text.length)
				return;
			if (!this.here(','))
				throw new SyntaxError('no comma');
			this.spaces(' \t');
		}
	}
}

function parsed(text, read) {
	if (typeof text !== 'string' || text.length > FIELD_CHARS_MAX)
		return null;
	try {
		return read(new Reader(text));
	} catch (error) {
		if (error instanceof SyntaxError)
			return null;
		throw error;
	}
}

/** The items of a List: [{kind, value, parameters}], or null where it is none. */
function parseList(text) {
	return parsed(text, (reader) => {
		const items = [];
		reader.members(() => items.push(reader.item()));
		return items;
	});
}

/** A Dictionary as a Map of items by key, the last of a key counting; or null where it is none. */
function parseDictionary(text) {
	return parsed(text, (reader) => {
		const items = new Map();
		reader.members(() => {
			const key = reader.take(KEY);
			if (!key)
				throw new SyntaxError('no key');
			items.set(key[0], reader.here('=') ? reader.item() : reader.withParameters(yes()));
		});
		return items;
	});
}

module.exports = { parseList, parseDictionary };
