/* When a wait ends, as an instant that holds still.
 *
 * A wait is told in ms, rounded up, and is counted from the store's clock at the decision; Date.now() is read later,
 * and of another clock. So their sum is the instant and some ms, other ones at each poll. Where the instant is a whole
 * second, every other poll would be told the next one. Windows end at multiples of their length, so a sum near to such
 * a multiple means it. */
'use strict';

const NEAR_MS = 100; /* of the way to a server and back, and of two clocks */
const SECOND_MS = 1000, CLOCKS_MS = 4;

/** ms since 1970. turns: the ms of which each end is a multiple; undefined: of none. */
function instantOf(now, wait, turns, near = NEAR_MS) {
	const at = now + wait;
	const turn = Math.round(at / turns) * turns;
	return wait > 0 && Math.abs(at - turn) <= near ? turn : at;
}

/** Where a whole second is likely, but any instant is possible, as for the next unit of a sliding window: it is taken
 * for a whole second where it can be one, since the store decided between `asked` and now. */
function likelySecondOf(asked, now, wait) {
	return instantOf(now, wait, SECOND_MS, Math.min(NEAR_MS, now - asked + CLOCKS_MS));
}

module.exports = { instantOf, likelySecondOf };
