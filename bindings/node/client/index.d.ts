/** What a response says of its server's limits. Waits in ms; null: it doesn't say. */
export interface Advice {
	/** The request was refused for a limit: 429, 420, 503 with Retry-After, 403 with Retry-After or with nothing left.
	 * */
	limited: boolean;
	/** How long to wait before the next request. Infinity where more was told than anybody waits. */
	waitMs: number | null;
	remaining: number | null;
	/** Until more is left. */
	resetMs: number | null;
	quota: number | null;
	windowMs: number | null;
}

/** Reads Retry-After, RateLimit (drafts 10, 9, 8, 7, 6 and older) and X-RateLimit-*. `get` is given a field's name in
 * lower case; `now` is ms since 1970, for dates of responses without a Date. */
export function advise(status: number, get: (name: string) => string | null | undefined, now: number): Advice;

/** Time, as tests pass it in. */
export interface Clock {
	/** ms since 1970. */
	now(): number;
	/** Calls back after `ms`; returns what cancels it. */
	after(ms: number, callback: () => void): () => void;
}

export interface CallOptions {
	/** Waits and requests together, in ms. Default 60000; Infinity is allowed. */
	budgetMs?: number;
	/** How often a request is sent at most. Default 5. */
	attempts?: number;
	/** May it be sent more than once? Default: GET, HEAD, OPTIONS, TRACE, PUT, DELETE, and what has an Idempotency-Key.
	 * A body that is a stream is sent once, whatever this says. */
	idempotent?: boolean;
}

export interface Options extends CallOptions {
	/** Spend what is left at the rate at which it comes back, once less than half is left. Default true. */
	pace?: boolean;
	/** Default: globalThis.fetch. */
	fetch?: typeof globalThis.fetch;
	/** Requests of one group share one memory. Default: the origin. An API with limits of their own for some routes,
	 * or for each token, is told apart here. */
	group?: (url: URL, method: string) => string;
	/** Is told of each request that has to wait. */
	onWait?: (wait: { origin: string; waitMs: number }) => void;
	clock?: Clock;
	/** Numbers of [0, 1), for the jitter. */
	random?: () => number;
}

/** The request was never sent: it is known that its origin asks for a longer wait than the budget. */
export class RateLimitedError extends Error {
	readonly code: 'ERR_RATE_LIMITED';
	readonly origin: string;
	readonly retryAfterMs: number;
}

/** A fetch that waits as servers ask, gives up within its budget, and shares what it learns among all its requests. */
export function createFetch(options?: Options):
	(input: string | URL | Request, init?: RequestInit & CallOptions) => Promise<Response>;
