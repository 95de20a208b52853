/* What Node's servers tell of a request (node:http and node:http2), as a View of admission.js. */
'use strict';

/** All lines of a header, in their order: raw.headers joins them, or keeps one. */
function linesOf(raw, name) {
	const found = [];
	for (let i = 0; i < raw.rawHeaders.length; i += 2) {
		if (raw.rawHeaders[i].toLowerCase() === name)
			found.push(raw.rawHeaders[i + 1]);
	}
	return found;
}

/** request: what functions of the options are given. HTTP/2 says the host in a field of its own. */
function viewOfNode(raw, url, request) {
	return { peer: raw.socket.remoteAddress, header: (name) => linesOf(raw, name), method: raw.method, url,
		host: raw.headers[':authority'] ?? raw.headers.host, request };
}

module.exports = { viewOfNode };
