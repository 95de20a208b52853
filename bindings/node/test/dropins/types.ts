import { sluice as express, SluiceStore } from 'sluice/express';
import fastify = require('sluice/fastify');
import { SluiceStorage } from 'sluice/nest';
import { sluice as hono } from 'sluice/hono';
import { RateLimiterSluice, RateLimiterRes } from 'sluice/flexible';
import { createFetch, advise, RateLimitedError, type Advice } from 'sluice/client';
import { Limiter } from 'sluice';

const limiter = new Limiter({ store: 'memory' });
export const a = express({ limiter, limits: ['5/1m', ['k', '1/1s']], key: (r: { ip: string }) => r.ip, headers: ['draft10'], onError: 'deny' });
export const b = new SluiceStore({ store: 'memory', algorithm: 'sliding-log' });
export const c: new (s: any) => { child(r: any): any } = fastify.storeOf({ limiter });
export const f = fastify.sluice;
export const d = new SluiceStorage({ limiter });
export const e = hono({ url: 'http://x', attributes: () => ({ user: 'x' }) });
export const g = new RateLimiterSluice({ limiter, points: 1, duration: 1 }).consume('k').then((r: RateLimiterRes) => r.msBeforeNext);
export const h: Advice = advise(200, () => null, 0);
export const i: Promise<Response> = createFetch({ budgetMs: 1 })('http://x', { idempotent: true, method: 'POST' });
export const j: boolean = {} instanceof RateLimitedError;
// @ts-expect-error
express({ limiter, onError: 'maybe' });
// @ts-expect-error
new SluiceStore({ url: 'http://x' });
// @ts-expect-error
createFetch({ retries: 1 });
