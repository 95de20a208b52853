import type { CounterOptions } from '../doors/index.js';

export class RateLimiterRes {
	constructor(remainingPoints?: number, msBeforeNext?: number, consumedPoints?: number, isFirstInDuration?: boolean);
	remainingPoints: number;
	/** Of a denial the wait after which the same points are admitted; else until the whole quota is back; -1: never. */
	msBeforeNext: number;
	consumedPoints: number;
	isFirstInDuration: boolean;
}

export interface Options extends Omit<CounterOptions, 'prefix'> {
	points: number;
	/** Seconds; 0: 3,660 days. */
	duration: number;
	/** Seconds for which a denied key is blocked. Default 0: it is not. */
	blockDuration?: number;
	/** Default: rlflx. */
	keyPrefix?: string;
	execEvenly?: boolean;
	execEvenlyMinDelayMs?: number;
	/** The class of answers: rate-limiter-flexible's own, for its wrappers. */
	RateLimiterRes?: new (...words: any[]) => any;
}

/** The surface of rate-limiter-flexible: consume() rejects with a RateLimiterRes where it denies, with an Error where
 * nobody could decide. */
export class RateLimiterSluice {
	constructor(options: Options);
	points: number;
	duration: number;
	blockDuration: number;
	keyPrefix: string;
	consume(key: string | number, points?: number, options?: { customDuration?: number }): Promise<RateLimiterRes>;
	penalty(key: string | number, points?: number, options?: { customDuration?: number }): Promise<RateLimiterRes>;
	reward(key: string | number, points?: number, options?: { customDuration?: number }): Promise<RateLimiterRes>;
	block(key: string | number, seconds: number): Promise<RateLimiterRes>;
	set(key: string | number, points: number, seconds?: number): Promise<RateLimiterRes>;
	get(key: string | number, options?: { customDuration?: number }): Promise<RateLimiterRes | null>;
	delete(key: string | number, options?: { customDuration?: number }): Promise<boolean>;
	getKey(key: string | number): string;
}
