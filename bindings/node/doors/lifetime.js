/* How long a request holds its lease on Node's servers: until its response was sent, or nobody is there to send it to.
 *
 * A client may leave while the decision is under way. `close` has then been emitted before anyone listens for it. And a
 * response that waits behind another one of its connection (HTTP/1.1 pipelining) has no socket yet, so it never emits
 * `close` if the connection goes first. So the connection is followed as well: by one listener for all its requests. */
'use strict';

const followed = new WeakMap(); /* of a socket: what to call when it closes */

/** A request of HTTP/2 has a stream of its own, whose connection lives on. */
function isOver(request, response) {
	return Boolean(response.destroyed || response.stream?.destroyed || request.socket.destroyed);
}

function endsOf(socket) {
	let ends = followed.get(socket);
	if (ends === undefined) {
		followed.set(socket, ends = new Set());
		socket.once('close', () => [...ends].forEach((end) => end()));
	}
	return ends;
}

/** Releases what a verdict holds as soon as its response is over, now if it is already. Returns a function that says
 * whether that has happened: then the request isn't to be served, since it holds no lease. */
function follow(request, response, verdict) {
	if (!verdict.holds)
		return () => false;
	if (isOver(request, response)) {
		verdict.release();
		return () => true;
	}
	const ends = endsOf(request.socket);
	let over = false;
	const end = () => {
		over = true;
		ends.delete(end);
		verdict.release();
	};
	ends.add(end);
	response.once('close', end);
	return () => over;
}

module.exports = { follow };
