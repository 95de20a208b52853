/* The door of one origin: requests stand in a line by age, and go when the origin (origin.js) says that one may. */
'use strict';

class RateLimitedError extends Error {
	/** retryAfterMs: after which the origin may be asked again, as it was known. */
	constructor(origin, retryAfterMs) {
		super(`${origin} can't be asked within the budget: its limit asks for ${retryAfterMs} ms`);
		this.name = 'RateLimitedError';
		this.code = 'ERR_RATE_LIMITED';
		this.origin = origin;
		this.retryAfterMs = retryAfterMs;
	}
}

class Gate {
	constructor(name, origin, clock) {
		this.name = name;
		this.origin = origin;
		this.clock = clock;
		this.line = []; /* of {started, deadline, resolve, reject, cancel}, the oldest first */
		this.soonest = Infinity; /* no deadline in the line is sooner */
		this.wake = null; /* cancels the timer of the next instant */
	}

	isIdle() {
		const now = this.clock.now();
		return this.line.length === 0 && this.origin.inFlight === 0 && (this.origin.readyAt(now) ?? now) <= now;
	}

	readyAt() {
		return this.origin.readyAt(this.clock.now());
	}

	/** Waits for its turn, and is given a ticket. Throws RateLimitedError as soon as it is known that the turn comes
	 * after `deadline`, and the signal's reason when it is aborted. */
	enter(started, deadline, signal, onWait) {
		return new Promise((resolve, reject) => {
			if (signal?.aborted) {
				reject(signal.reason);
				return;
			}
			const one = { started, deadline, resolve, reject, clear: [], onWait };
			const aborted = () => this.leave(one, signal.reason);
			signal?.addEventListener('abort', aborted, { once: true });
			one.clear.push(() => signal?.removeEventListener('abort', aborted));
			let at = this.line.length;
			while (at > 0 && this.line[at - 1].started > started)
				at--;
			this.line.splice(at, 0, one);
			this.soonest = Math.min(this.soonest, deadline);
			this.pump();
			if (this.line.includes(one))
				this.waits(one);
		});
	}

	/** It could not go at once. */
	waits(one) {
		const now = this.clock.now();
		one.onWait?.({ origin: this.name, waitMs: Math.max(0, (this.readyAt() ?? now) - now) });
		if (one.deadline !== Infinity)
			one.clear.push(this.clock.after(one.deadline - now, () => this.leave(one, this.refusal())));
	}

	refusal() {
		const now = this.clock.now();
		return new RateLimitedError(this.name, Math.max(0, (this.readyAt() ?? now) - now));
	}

	leave(one, reason) {
		const at = this.line.indexOf(one);
		if (at < 0)
			return;
		this.line.splice(at, 1);
		one.clear.forEach((clear) => clear());
		one.reject(reason);
		this.pump();
	}

	answered(ticket, advice) {
		this.origin.answered(ticket, this.clock.now(), advice);
		this.pump();
	}

	failed(ticket) {
		this.origin.failed(ticket);
		this.pump();
	}

	/** Lets go who may, turns away who can't in time, and sets the timer for the next one. */
	pump() {
		this.wake?.();
		this.wake = null;
		while (this.line.length > 0) {
			const now = this.clock.now();
			const at = this.origin.readyAt(now);
			if (at !== null && at > now) {
				this.turnAway(at);
				if (this.line.length > 0)
					this.wake = this.clock.after(at - now, () => this.pump());
				return;
			}
			if (at === null)
				return;
			const one = this.line.shift();
			one.clear.forEach((clear) => clear());
			one.resolve(this.origin.sent(now));
		}
	}

	turnAway(at) {
		if (this.soonest >= at)
			return;
		const refusal = this.refusal();
		const late = this.line.filter((one) => one.deadline < at);
		this.line = this.line.filter((one) => one.deadline >= at);
		this.soonest = this.line.reduce((least, one) => Math.min(least, one.deadline), Infinity);
		for (const one of late) {
			one.clear.forEach((clear) => clear());
			one.reject(refusal);
		}
	}
}

module.exports = { Gate, RateLimitedError };
