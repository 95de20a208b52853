// Errors, by their codes. A value of a wrong type or range is a TypeError with a code, all else a SluiceError.
'use strict';

/** Why a call could not be decided. `code` is for programs, the message is the library's or the server's own words. */
class SluiceError extends Error {
	constructor(code, message, options) {
		super(message, options);
		this.name = 'SluiceError';
		this.code = code;
	}
}

/** A lease was asked for by lease() or withLease(), and denied. `result` says by which limit, and until when. */
class Limited extends SluiceError {
	constructor(result) {
		super('limited', `limited by ${result.limit || 'a limit'}: ${waitOf(result)}`);
		this.name = 'Limited';
		this.result = result;
	}
}

function waitOf(result) {
	return result.retryAfter < 0 ? 'no wait helps, the cost is above the quota' : `retry in ${result.retryAfter} ms`;
}

/** Codes that mean: the store could not answer, through no fault of the call. `onError` speaks for these alone. */
const AWAY = new Set(['away', 'busy', 'full', 'no-access', 'protocol', 'system']);

function isAway(error) {
	return error instanceof SluiceError && AWAY.has(error.code);
}

/** A TypeError with a code, as Node's own have one. */
function misuse(code, message) {
	const error = new TypeError(message);
	error.code = code;
	return error;
}

module.exports = {SluiceError, Limited, isAway, misuse};
