/* sluice/hono: a middleware for Hono, on Node, Deno, Bun and runtimes that have fetch alone.
 *
 *   app.use(sluice({ url: 'http://127.0.0.1:7380', limits: '100/1m' }));           // over HTTP: everywhere
 *   app.use(sluice({ store: 'redis://127.0.0.1:7379', limits: '100/1m' }));        // over RESP: Node, Deno, Bun
 *
 * Whose request it is the runtime knows, not Hono: it is asked as Hono's adapters do (getConnInfo); `peer` says it
 * otherwise. Where nobody knows, there is no address, and a `key` has to be given. */
'use strict';

const { Admission } = require('../doors/admission.js');
const { follow } = require('../doors/lifetime.js');

const GONE = 499; /* as nginx logs that the client has left; nobody is told */

/** The peer's address: of @hono/node-server, Bun's server and Deno. Undefined where none says it. */
function peerOf(context) {
	const env = context.env ?? {};
	const server = env.server ?? env;
	return env.incoming?.socket?.remoteAddress ?? env.remoteAddr?.hostname ??
		(typeof server.requestIP === 'function' ? server.requestIP(context.req.raw)?.address : undefined);
}

function viewOf(context, peer) {
	const url = new URL(context.req.url);
	return { peer, method: context.req.method, url: url.pathname + url.search,
		host: context.req.header('host') ?? url.host,
		request: context,
		header: (name) => {
			const value = context.req.header(name);
			return value === undefined ? [] : [value];
		} };
}

/** A middleware. What the options are stands in index.d.ts. */
function sluice(options) {
	const { peer = peerOf, ...common } = options;
	const admission = new Admission(common);
	const keyed = common.key !== undefined || common.attributes !== undefined;
	return async function sluiceMiddleware(context, next) {
		const address = peer(context);
		if (address === undefined && !keyed)
			throw new TypeError('sluice/hono: this runtime does not say whose request it is; give `key`, or `peer`');
		const verdict = await admission.decide(viewOf(context, address));
		context.set('sluice', verdict.result);
		if (!verdict.allowed)
			return denied(context, common, verdict);
		const { incoming, outgoing } = context.env ?? {};
		const onNode = incoming && outgoing;
		const isOver = onNode ? follow(incoming, outgoing, verdict) : followSignal(context.req.raw.signal, verdict);
		if (verdict.delay > 0)
			await new Promise((resolve) => setTimeout(resolve, verdict.delay));
		if (isOver())
			return context.body(null, GONE);
		if (onNode || !verdict.holds)
			await next();
		else
			await lent(context, next, verdict.release);
		tell(context, verdict.headers);
		return undefined;
	};
}

/** The headers of an answer of fetch() or Response.redirect() can't be changed: context.header() puts a copy in its
 * place, once. An answer that changes the protocol is the runtime's, and has no copy. */
function tell(context, fields) {
	if (context.res.status === 101)
		return;
	for (const [name, value] of fields) {
		try {
			context.res.headers.set(name, value);
		} catch {
			context.header(name, value);
		}
	}
}

/* ---- how long a lease is held
 *
 * On Node until the response is over (../doors/lifetime.js). Other runtimes don't say when that is. There it is held
 * until the body was read to its end, has failed or was cancelled, or the runtime aborts the request's signal. */

function followSignal(signal, { holds, release }) {
	if (!holds || !signal)
		return () => false;
	signal.addEventListener('abort', release, { once: true });
	if (signal.aborted)
		release();
	return () => signal.aborted;
}

async function lent(context, next, release) {
	let streams = false;
	try {
		await next();
		/* Hono drops the body of an answer to HEAD */
		streams = context.res.body !== null && context.req.raw.method !== 'HEAD';
	} finally {
		if (!streams)
			release();
	}
	if (streams)
		context.res = new Response(watched(context.res.body, release), context.res);
}

/** A body as it is, that calls `release` when it ends, fails or is cancelled. Nothing is read ahead. */
function watched(body, release) {
	const reader = body.getReader();
	return new ReadableStream({
		async pull(controller) {
			let chunk;
			try {
				chunk = await reader.read();
			} catch (error) {
				release();
				throw error;
			}
			if (chunk.done) {
				release();
				controller.close();
			} else {
				controller.enqueue(chunk.value);
			}
		},
		cancel(reason) {
			release();
			return reader.cancel(reason);
		},
	}, { highWaterMark: 0 });
}

function denied(context, options, verdict) {
	if (options.onDenied)
		return options.onDenied(context, verdict);
	const headers = { 'Content-Type': 'application/problem+json', 'Cache-Control': 'no-store',
		...Object.fromEntries(verdict.headers) };
	return context.body(JSON.stringify(verdict.body), verdict.status, headers);
}

module.exports = { sluice };
