import type { CounterOptions } from '../doors/index.js';

/** A ThrottlerStorage for @nestjs/throttler. */
export class SluiceStorage {
	constructor(options: CounterOptions);
	increment(key: string, ttl: number, limit: number, blockDuration: number, throttlerName: string): Promise<{
		totalHits: number; timeToExpire: number; isBlocked: boolean; timeToBlockExpire: number;
	}>;
	onApplicationShutdown(): Promise<void>;
}
