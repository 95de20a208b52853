import type { Attributes, Lease, Limiter, Limits, Result } from '../index.js';

export type HeaderForm = 'draft10' | 'draft7' | 'draft6' | 'legacy-epoch' | 'legacy-delta';
type Maybe<T> = T | Promise<T>;
type Of<Request, T> = T | ((request: Request) => Maybe<T>);

/** A limiter: exactly one of `limiter` and `store`. */
export interface Limiting {
	/** A Limiter of yours. */
	limiter?: Limiter;
	/** The store of a Limiter to be made: `shared:NAME`, a path, `memory`, `redis://host:port`. */
	store?: string;
	/** ms that a server may take to answer: 100. */
	timeout?: number;
}

/** Who decides: exactly one of `limiter`, `store` and `url`. */
export interface Deciding extends Limiting {
	/** A server's HTTP door, such as `http://127.0.0.1:7380`; with a user's `token`, if it has users. */
	url?: string;
	token?: string;
}

/** What all middlewares take. */
export interface AdmissionOptions<Request> extends Deciding {
	/** What counts; left out, the policy of the store or server decides by `attributes`. With `concurrency` among them
	 * a place is taken, and given back when the answer was sent or its client has left; who left before the place was
	 * taken is not served. */
	limits?: Of<Request, Limits>;
	/** Who is counted; the client's address if left out. */
	key?: Of<Request, string>;
	/** Stands before each key. */
	prefix?: string;
	/** For a policy: beside method, path, host and ip, which are known. */
	attributes?: (request: Request) => Maybe<Attributes>;
	/** 1 if left out. */
	cost?: Of<Request, number>;
	/** A retried request with the same id is charged once. A client may say it: any length will do, and an empty one
	 * is none. */
	id?: Of<Request, string | null | undefined>;
	/** Requests that are not limited. */
	skip?: (request: Request) => Maybe<boolean>;
	/** Networks whose word about the client's address is believed. Default: loopback. [] none. */
	trustedProxies?: readonly string[];
	/** The header that they write it to. Default: x-forwarded-for. */
	clientAddress?: 'x-forwarded-for' | 'forwarded';
	/** IPv6 clients count by their network. Default: 64; with a policy its own `ipv6-prefix`. */
	ipv6Prefix?: number;
	/** How answers tell of limits. Default: draft10; with `url`, what the server is told to send. */
	headers?: HeaderForm | readonly HeaderForm[] | 'none';
	/** What a request gets that nobody could decide. Default: allow, marked `Sluice-Failed-Open: 1`; deny is 503. */
	onError?: 'allow' | 'deny' | 'throw';
}

export interface Verdict {
	readonly allowed: boolean;
	/** 429, or 503 where nobody could decide. */
	readonly status: number;
	readonly headers: ReadonlyArray<readonly [name: string, value: string]>;
	/** A problem document (RFC 9457). */
	readonly body: object;
	readonly result: Result | Lease | null;
	readonly error?: Error;
}

/** What stores for other libraries take. */
export interface CounterOptions extends Limiting {
	/** How windows are counted. Default: sliding-window. */
	algorithm?: 'sliding-window' | 'sliding-log' | 'fixed-window';
	/** Stands before each key. */
	prefix?: string;
}
