import type { AdmissionOptions, Verdict } from '../doors/index.js';

export interface Options extends AdmissionOptions<any> {
	/** The address that the connection came from, where the runtime's own way is not Node's, Deno's or Bun's. */
	peer?: (context: any) => string | undefined;
	/** Answers a denied request in place of 429 and its problem document. */
	onDenied?: (context: any, verdict: Verdict) => Response | Promise<Response>;
}

/** A middleware for Hono. The decision is `context.get('sluice')`. */
export function sluice(options: Options): (context: any, next: () => Promise<void>) => Promise<Response | void>;
