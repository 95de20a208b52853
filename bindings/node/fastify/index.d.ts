import type { AdmissionOptions, CounterOptions, Verdict } from '../doors/index.js';

/** The plugin. Routes say otherwise by `config: {sluice: false}` or `{sluice: {limits: ..}}`; the decision is
 * `request.sluice`. */
declare function sluice(fastify: any, options: sluice.Options): Promise<void>;

declare namespace sluice {
	export { sluice, sluice as default };
	export interface Options extends AdmissionOptions<any> {
		/** When requests are decided. Default: onRequest; preHandler knows the body. */
		hook?: 'onRequest' | 'preParsing' | 'preValidation' | 'preHandler';
		/** Answers a denied request in place of 429 and its problem document; the headers are set. */
		onDenied?: (request: any, reply: any, verdict: Verdict) => unknown;
	}
	/** A store class for @fastify/rate-limit: `store: storeOf({store: 'shared:api'})`. */
	export function storeOf(options: CounterOptions): new (settings: any) => {
		incr(key: string, callback: (error: Error | null, told: any) => void, timeWindow: number, max: number): void;
		read(key: string, callback: (error: Error | null, told: any) => void, timeWindow: number): void;
		child(route: any): any;
	};
}
export = sluice;
