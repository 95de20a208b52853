import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AdmissionOptions, CounterOptions, Verdict } from '../doors/index.js';
import type { Lease, Result } from '../index.js';

export interface Options<Request = any, Response = any> extends AdmissionOptions<Request> {
	/** Answers a denied request in place of 429 and its problem document; the headers are set. What it throws, or rejects
	 * with, goes to `next`. */
	onDenied?: (request: Request, response: Response, verdict: Verdict, next: (error?: unknown) => void) => void;
}

/** A middleware of Express 4 and 5, Connect and node:http. The decision is `request.sluice`. */
export function sluice<Request = any, Response = any>(options: Options<Request, Response>):
	(request: IncomingMessage & { sluice?: Result | Lease | null }, response: ServerResponse,
		next: (error?: unknown) => void) => Promise<void>;

/** A Store for express-rate-limit. Stores of one prefix, window and algorithm share their counts. */
export class SluiceStore {
	constructor(options: CounterOptions);
	readonly prefix: string;
	readonly localKeys: false;
	init(options: object): void;
	increment(key: string): Promise<{ totalHits: number; resetTime: Date | undefined }>;
	get(key: string): Promise<{ totalHits: number; resetTime: Date | undefined } | undefined>;
	/** Takes back the newest hit of the key: express-rate-limit doesn't say which. So with `skipFailedRequests` or
	 * `skipSuccessfulRequests`, a request that was admitted in one window and ends in the next is taken back from the
	 * next, which admits as many more: at most `limit`. */
	decrement(key: string): Promise<void>;
	resetKey(key: string): Promise<void>;
	shutdown(): Promise<void>;
}
