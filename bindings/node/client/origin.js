/* What a client remembers of one origin's limits, and when its next request may go. No clock, no timer, no promise:
 * time is passed in (ms), and whoever drives this waits. The same in Python: ../../python/sluice/client/origin.py;
 * both are held to one list of cases, ../../common/client/origin.json.
 *
 *   in flight    at most `window` requests. It begins with START, and each success adds one: twice as many each time. A
 *                denial makes it 1: after the wait one request knocks, and only if it is let in do more follow. From
 *                then on a whole window of successes adds one, unless the server says that more than the window is
 *                left.
 *   wait         what the server told (or, if it told nothing, BASE_MS doubled with each denial), and after it a
 *                jitter of up to SPREAD of the wait, doubled with each denial in a row up to three times: never sooner
 *                than told, and spread wider the more others wait as well. Denials of requests that were under way
 *                together count as one.
 *   pace         what is left goes down with each request that is sent. Once it is below PACE_BELOW of the quota, the
 *                next ones go `reset / left` apart; if nothing is left, none goes before the reset.
 *   too long     what asks for more than BELIEVED_MS_MAX is asked again after that, by one request: a server's slip of
 *                the pen does not silence a client for a year.
 *
 * docs/clients.md measures what SPREAD does to a herd. */
'use strict';

const START = 10;
const IN_FLIGHT_MAX = 1000;
const BASE_MS = 500;
const BACKOFF_MS_MAX = 60000;
const SPREAD = 0.5;
const SPREAD_DOUBLINGS_MAX = 3;
const SPREAD_MS_MIN = 100;
const SPREAD_MS_MAX = 600000;
const PACE_BELOW = 0.5;
const BELIEVED_MS_MAX = 3600000;
const DOUBLINGS_MAX = 16;

class Origin {
	/** random: a function that gives a number of [0, 1). */
	constructor({ random = Math.random, start = START, paceBelow = PACE_BELOW, spread = SPREAD } = {}) {
		this.random = random;
		this.paceBelow = paceBelow;
		this.spread = spread;
		this.window = start;
		this.inFlight = 0;
		this.sequence = 0; /* of the request that was sent last */
		this.denials = 0; /* in a row */
		this.deniedUpTo = 0; /* requests up to this one were under way when the last denial came */
		this.careful = false; /* there was a denial */
		this.blockedUntil = 0;
		this.left = null; /* what the server said is left, less what has been sent since */
		this.most = 0; /* of what was said to be left: the quota, where none is told */
		this.quota = 0;
		this.resetAt = 0;
		this.nextAt = 0;
		this.sentAt = 0;
		this.learned = 0; /* the newest request whose answer said what is left */
	}

	/** The earliest instant at which a request may go; null while answers have to come first. */
	readyAt(now) {
		this.forget(now);
		if (this.inFlight + 1 > this.window)
			return null;
		return Math.max(this.blockedUntil, this.nextAt);
	}

	/** Once the reset has passed and nothing was left, one request finds out what is there now. */
	forget(now) {
		if (this.left === null || this.left > 0 || now < this.resetAt)
			return;
		this.window = 1;
		this.left = null;
		this.nextAt = 0;
	}

	/** A request goes now. Returns its ticket, which answered() or failed() takes back. */
	sent(now) {
		this.inFlight++;
		this.sequence++;
		this.sentAt = now;
		if (this.left !== null) {
			this.left--;
			this.schedule(now);
		}
		return this.sequence;
	}

	/** Its answer has come: advise()'s. */
	answered(ticket, now, advice) {
		this.inFlight--;
		if (advice.limited) {
			this.denied(ticket, now, advice.waitMs);
			return;
		}
		if (ticket > this.deniedUpTo) {
			this.denials = 0;
			const sure = !this.careful || advice.remaining > this.window;
			this.window = Math.min(IN_FLIGHT_MAX, this.window + (sure ? 1 : 1 / this.window));
		}
		if (advice.remaining !== null && advice.resetMs !== null && ticket > this.learned)
			this.learn(ticket, now, advice);
	}

	/** No answer will come. */
	failed() {
		this.inFlight--;
	}

	denied(ticket, now, waitMs) {
		const anew = ticket > this.deniedUpTo;
		if (anew) {
			this.denials = Math.min(this.denials + 1, DOUBLINGS_MAX);
			this.deniedUpTo = this.sequence;
		}
		this.careful = true;
		this.window = 1;
		this.left = null;
		this.nextAt = 0;
		const wait = Math.min(BELIEVED_MS_MAX, waitMs ?? backoff(this.denials));
		const until = now + wait + (anew ? this.jitter(wait) : 0);
		this.blockedUntil = Math.max(this.blockedUntil, until);
	}

	jitter(wait) {
		const spread = Math.max(SPREAD_MS_MIN, wait * this.spread) *
			2 ** Math.max(0, Math.min(SPREAD_DOUBLINGS_MAX, this.denials - 1));
		return Math.floor(this.random() * Math.min(SPREAD_MS_MAX, spread));
	}

	learn(ticket, now, advice) {
		this.learned = ticket;
		this.left = advice.remaining - (this.sequence - ticket);
		this.most = Math.max(this.most, advice.remaining);
		this.quota = advice.quota ?? this.most;
		const reset = Math.min(BELIEVED_MS_MAX, advice.resetMs);
		this.resetAt = now + reset + (this.left <= 0 ? this.jitter(reset) : 0);
		this.nextAt = 0;
		this.schedule(now);
	}

	/** When the next one may go, by what is left now. */
	schedule(now) {
		if (this.left <= 0)
			this.nextAt = Math.max(this.nextAt, this.resetAt);
		else if (this.left < this.paceBelow * this.quota && this.resetAt > now)
			this.nextAt = this.sentAt + Math.ceil((this.resetAt - now) / this.left);
	}
}

/** How long to wait after the n-th failure in a row (from 1), if nobody says: doubled each time, in ms. */
function backoff(n) {
	return Math.min(BACKOFF_MS_MAX, BASE_MS * 2 ** (Math.min(n, DOUBLINGS_MAX) - 1));
}

module.exports = { Origin, backoff, SPREAD };
