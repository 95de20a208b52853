// Compiled by tsc, never run: what the types take, and what they refuse.
import {Limiter, Lease, Limited, Result, SluiceError, type LimiterOptions} from 'sluice';

const options: LimiterOptions = {store: 'shared:api', memory: '64MiB', timeout: 50, onError: 'allow', clock: Date.now};
const limiter = new Limiter(options);
const one: Result = await limiter.check('k', ['10/1s', ['ip:9', '100/1h']], {cost: 2, id: 'x', each: true});
const [allowed, wait]: [boolean, number] = [one.allowed, one.retryAfter];
const text: string = await limiter.withLease('k', 'concurrency 2 lease 30s', async (lease) => `${lease.remaining}`);
const count: number = limiter.resetSync(new Uint8Array(3), '10/1s');
const admitted: Result | Lease = await limiter.admit({user: 'ann', plan: undefined}, {cost: 0});
{
	await using lease: Lease = await limiter.lease('k', 'concurrency 2 lease 30s');
	await lease.renew();
}
try {
	await limiter.reserve('k', '10/1s', {ttl: 1000, cost: 5});
} catch (error) {
	if (error instanceof Limited)
		console.log(error.result.retryAfter);
	else if (error instanceof SluiceError)
		console.log(error.code);
}

// @ts-expect-error a key is needed
await limiter.check();
// @ts-expect-error a limit is a text
await limiter.check('k', 10);
// @ts-expect-error no such option
await limiter.check('k', '10/1s', {costs: 2});
// @ts-expect-error a ttl is needed
await limiter.reserve('k', '10/1s', {cost: 5});
// @ts-expect-error a result is read only
one.remaining = 5;
// @ts-expect-error one of three
new Limiter({onError: 'maybe'});

export {allowed, wait, text, count, admitted};
