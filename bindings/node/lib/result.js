// What a call answers: a decision's figures. Waits are whole milliseconds, rounded up as every door of Sluice does it.
'use strict';

const NONE = 4294967295; // quota and remaining where no limit applied

/**
 * A decision. Its own fields are those that every decision has; the others stand on the prototype until they say
 * something, so that a plain check makes a small object.
 */
class Result {
	constructor(allowed, quota, remaining, retryAfter, resetAfter, delay, index, limit, granted) {
		this.allowed = allowed;
		this.quota = quota;
		this.remaining = remaining;
		this.retryAfter = retryAfter;
		this.resetAfter = resetAfter;
		this.delay = delay;
		this.index = index;
		this.limit = limit;
		this.granted = granted;
	}

	/** All fields, also those of the prototype: what JSON.stringify() shows. */
	toJSON() {
		const {repeated, failedOpen, id} = this;
		const error = this.error === undefined ? undefined : {code: this.error.code, message: this.error.message};
		return {...this, repeated, failedOpen, id, error};
	}
}
Object.assign(Result.prototype, {
	repeated : false,
	failedOpen : false,
	id : null,
	nextAfter : undefined,
	each : undefined,
	error : undefined,
	rule : undefined,
	observed : false
});

/**
 * The merged decision of all limits' own answers (docs/limits.md says the rule). For answers that tell each limit's
 * figures in place of the merged ones, by the word EACH; in process the library merges (src/algo/merge.h).
 *  each   decisions in the order of the limits
 *  texts  of the limits; `unlimited` takes no part
 */
function merged(each, texts) {
	const out = new Result(true, NONE, NONE, 0, 0, 0, -1, '', 0);
	each.forEach((one, i) => {
		if (texts[i] === 'unlimited')
			return;
		if (one.allowed ? out.allowed && (out.index < 0 || one.remaining < out.remaining) : waitsLonger(one, out)) {
			out.index = i;
			out.limit = texts[i];
			out.quota = one.quota;
			out.retryAfter = one.retryAfter;
		}
		out.allowed = out.allowed && one.allowed;
		out.remaining = Math.min(out.remaining, one.remaining);
		out.resetAfter = Math.max(out.resetAfter, one.resetAfter);
		out.delay = Math.max(out.delay, one.delay);
	});
	if (!out.allowed)
		out.delay = 0;
	out.nextAfter = nextOf(each.filter((_, i) => texts[i] !== 'unlimited'));
	return out;
}

/** `remaining` grows once that of all limits has which have the least; never where one of these has its whole quota. */
function nextOf(each) {
	const least = Math.min(...each.map((one) => one.remaining));
	const waits = each.filter((one) => one.remaining === least).map((one) => one.nextAfter);
	return waits.length === 0 || waits.includes(0) ? 0 : waits.includes(-1) ? -1 : Math.max(...waits);
}

function waitsLonger(one, out) {
	return out.allowed || (out.retryAfter >= 0 && (one.retryAfter < 0 || one.retryAfter > out.retryAfter));
}

/** What a call gets that the store could not decide. */
function undecided(allowed, error, retryAfter) {
	const out = new Result(allowed, NONE, allowed ? NONE : 0, allowed ? 0 : retryAfter, 0, 0, -1, '', 0);
	out.failedOpen = allowed;
	out.error = error;
	return out;
}

module.exports = {Result, merged, nextOf, undecided, NONE};
