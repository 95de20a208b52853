/** A limit in Sluice's notation, such as `100/1m` or `token-bucket 10/1s burst 50`. */
export type Limit = string;
/** A key of any length; a string stands for its UTF-8. */
export type Key = string | Uint8Array;
/** A limit, or up to 16, decided as one step: all are charged or none. `[key, limit]` counts for another key. */
export type Limits = Limit | ReadonlyArray<Limit | readonly [key: Key, limit: Limit]>;
/** Attributes of a request, as a policy's `when` and `key` name them. Those without a value are left out. */
export type Attributes = Readonly<Record<string, string | Uint8Array | null | undefined>>;

/** What a client should know of a decision. Waits are whole milliseconds, rounded up. */
export declare class Result {
	readonly allowed: boolean;
	/** The largest cost that would be admitted now, after this decision. */
	readonly remaining: number;
	/** 0 when allowed; else the wait that admits the same cost; -1: no wait does. */
	readonly retryAfter: number;
	/** The wait until the whole quota is back. */
	readonly resetAfter: number;
	/** leaky-bucket: how long to hold the request. */
	readonly delay: number;
	/** 4294967295 where no limit applied. */
	readonly quota: number;
	/** Which limit decided, from 0; -1: none applied. */
	readonly index: number;
	/** The text of that limit, as given; by a policy its name; '' where none applied. */
	readonly limit: string;
	/** What of the cost was granted: all or nothing, but for `upto`. */
	readonly granted: number;
	/** Nothing was charged, since that had been done before under this id. A reservation at a server doesn't say it. */
	readonly repeated: boolean;
	/** Of what is held: a lease's id, a ticket; null: nothing is. */
	readonly id: string | null;
	/** The wait until `remaining` grows by one; with the option `next`. */
	readonly nextAfter: number | undefined;
	/** Each limit's own decision, in their order; with the option `each`. */
	readonly each: readonly Result[] | undefined;
	/** In `each` of a policy: the limit in notation; whether it is observed, and denies nobody. */
	readonly rule: string|undefined;
	readonly observed: boolean;
	/** It passes though the store has not decided it: `onError: 'allow'`, or the policy's `on-error`. */
	readonly failedOpen: boolean;
	/** Why it was not decided, where `onError` spoke. */
	readonly error: SluiceError | undefined;
	toJSON(): object;
}

/** A result that holds something, if it is allowed: `await using` ends it, too, and tells no release that fails. */
export declare class Lease extends Result {
	/** Ends it: of how many counters. 0: it had ended, or was denied. What failed can be tried again. */
	release(): Promise<number>;
	/** It lasts a whole lease from now: of how many counters. */
	renew(): Promise<number>;
	[Symbol.asyncDispose](): Promise<void>;
}

/**
 * Why a call could not be decided, in the library's or the server's words. Codes: `bad-limit`, `bad-key`,
 * `bad-argument`, `bad-policy`, `bad-store`, `not-found`, `busy`, `full` (255 processes have the store open),
 * `system`, `no-access`, `away`, `protocol`, `queue`, `closed`, `not-in-process`, `no-binary`, `limited`.
 * What has the wrong type or range is a TypeError with a code of these.
 */
export declare class SluiceError extends Error {
	constructor(code: string, message: string, options?: {cause?: unknown});
	readonly code: string;
}

/** lease() or withLease() was denied. */
export declare class Limited extends SluiceError {
	readonly result: Lease;
}

export interface LimiterOptions {
	/**
	 * `memory` (the default); `shared:NAME`, shared by the processes of this host; a path with a slash in it;
	 * `redis://[user:password@]host[:port]` or `sluice://`, a Sluice server or Redis or Valkey with the module;
	 * `rediss://`, the same by TLS; `unix:/path`.
	 */
	store?: string;
	/** Of a new store in process: `64MiB`, or bytes. */
	memory?: string | number;
	/** Limits by name, for admit(), in process: a path, or YAML. */
	policy?: string;
	/** Milliseconds since 1970 in place of the store's clock: for tests. A server must allow it (`client-time: true`). */
	clock?: () => number;
	/** How long a server may take to answer, in ms: 100. */
	timeout?: number;
	/** What a call gets that the store can't decide: an error (`throw`, the default), or a result. */
	onError?: 'throw' | 'allow' | 'deny';
	/** Of `rediss://`: as tls.connect() takes them, such as {ca}. */
	tls?: object;
}

export interface TellOptions {
	/** Tell `nextAfter`. */
	next?: boolean;
	/** Tell each limit's own decision. */
	each?: boolean;
}
export interface PeekOptions extends TellOptions {
	/** 0..4294967295; 1 if left out. */
	cost?: number;
	/** Grant the largest part of the cost that is admitted. */
	upto?: boolean;
	/** Whom `distinct` counts. */
	member?: Key;
}
export interface CheckOptions extends PeekOptions {
	/** 1 to 64 bytes: the same call under the same id is charged once. */
	id?: string;
}
export interface AcquireOptions extends TellOptions {
	cost?: number;
	/** Of the lease; made if left out. */
	id?: string;
	member?: Key;
}
export interface ReserveOptions extends TellOptions {
	/** The estimate. */
	cost?: number;
	/** ms after which it goes back unless it is committed. */
	ttl: number;
	id?: string;
}
export interface RefundOptions extends TellOptions {
	member?: Key;
}

/**
 * A rate limiter. Methods whose names end in Sync decide in this process, and throw `not-in-process` where the store is
 * a server; all others return promises in both cases.
 */
export declare class Limiter {
	constructor(options?: LimiterOptions);
	readonly inProcess: boolean;

	/** Decides, and charges all limits if all admit, else none. */
	check(key: Key, limits: Limits, options?: CheckOptions): Promise<Result>;
	checkSync(key: Key, limits: Limits, options?: CheckOptions): Result;
	/** The same, charging nothing. */
	peek(key: Key, limits: Limits, options?: PeekOptions): Promise<Result>;
	peekSync(key: Key, limits: Limits, options?: PeekOptions): Result;
	/** Gives back `cost` (1), from the newest charges. */
	refund(key: Key, limits: Limits, cost?: number, options?: RefundOptions): Promise<Result>;
	refundSync(key: Key, limits: Limits, cost?: number, options?: RefundOptions): Result;
	/** Forgets counters: how many there were. */
	reset(key: Key, limits: Limits): Promise<number>;
	resetSync(key: Key, limits: Limits): number;

	/** Asks for a lease: one limit at least is `concurrency`. */
	acquire(key: Key, limits: Limits, options?: AcquireOptions): Promise<Lease>;
	acquireSync(key: Key, limits: Limits, options?: AcquireOptions): Lease;
	/** Ends a lease: of how many counters. Limits are null for a ticket, which says them itself. */
	release(key: Key, limits: Limits | null, id: string): Promise<number>;
	releaseSync(key: Key, limits: Limits | null, id: string): number;
	/** It lasts a whole lease from now: of how many counters. */
	renew(key: Key, limits: Limits | null, id: string): Promise<number>;
	renewSync(key: Key, limits: Limits | null, id: string): number;
	/** acquire() for `await using`: throws Limited where it is denied. */
	lease(key: Key, limits: Limits, options?: AcquireOptions): Promise<Lease>;
	/** Works with a lease in hand, and releases it whatever comes of that; throws Limited where it is denied. A release
	 * that fails is not told: the lease ends by itself. */
	withLease<T>(key: Key, limits: Limits, work: (lease: Lease) => T | Promise<T>, options?: AcquireOptions): Promise<T>;

	/** Who holds leases of a limit, those that end first first. */
	holders(key: Key, limit: string): Promise<Array<{id : string; cost : number; endsAfter : number}>>;

	/** Charges an estimate; the result's id commits it. */
	reserve(key: Key, limits: Limits, options: ReserveOptions): Promise<Result>;
	reserveSync(key: Key, limits: Limits, options: ReserveOptions): Result;
	/** What it has cost in truth; throws `not-found` where it was committed before, or has gone back. */
	commit(key: Key, limits: Limits | null, id: string, cost: number): Promise<Result>;
	commitSync(key: Key, limits: Limits | null, id: string, cost: number): Result;

	/** Decides by the policy. Where it leases or reserves, the result is a Lease with a ticket as its id. */
	admit(attributes: Attributes, options?: CheckOptions): Promise<Result | Lease>;
	admitSync(attributes: Attributes, options?: CheckOptions): Result | Lease;
	/** Another policy, in process: a path, or YAML. Mistakes are thrown as `bad-policy`, and the old one stays. */
	reload(policy: string): Promise<void>;

	/** Gives the store back, over RESP after what is under way. */
	close(): Promise<void>;
	[Symbol.asyncDispose](): Promise<void>;
}
