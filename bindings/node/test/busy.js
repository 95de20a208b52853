// A process that keeps its loop busy, while the kernel receives what a server of this host answers.
'use strict';

const {readFileSync} = require('node:fs');

/** Whether bytes have come from that port that nobody has read. */
function hasCome(port) {
	const end = `:${Number(port).toString(16).toUpperCase().padStart(4, '0')}`;
	return readFileSync('/proc/net/tcp', 'latin1').split('\n').some((line) => {
		const [, , remote, , queues] = line.trim().split(/\s+/);
		return remote?.endsWith(end) && parseInt(queues.split(':')[1], 16) > 0;
	});
}

/** Blocks for `ms`. Whether a server on `port` has answered by then: on a slow machine it may not have. */
function busyFor(ms, port) {
	for (const end = performance.now() + ms; performance.now() < end;)
		continue;
	return hasCome(port);
}

module.exports = {busyFor};
