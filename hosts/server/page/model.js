/* Figures over time. The server counts up and keeps 15 minutes by limit; here counts become rates.
 *
 *   t        [.. , 12:00:00, 12:00:02, 12:00:04]      seconds, one for each step
 *   limits   name -> {allowed: [..], denied: [..], shadow: [..], near: [..], candidate: [..]}      a second
 *   server   {resp: [..], http: [..], spop: [..], grpc: [..], p50: [..], p99: [..], decide: [..], keys: [..],
 *             evicted: [..], asked: [..], sliced: [..], known: [..], failed: [..], command: [..]}  (FLEET at the end)
 *
 * All arrays have the length of t. null stands where nothing is known: what the server does not keep is known only from
 * when the page was opened. */

const STEPS_MAX = 450;
export const STEP_MS = 2000;
const GAP_MS = 3 * STEP_MS; // after a longer one (a laptop slept, a tab was hidden) history is asked for again

const KINDS = ['allowed', 'denied', 'shadow', 'near', 'candidate'];
const COUNTERS = {
	allowed: 'allowed', denied: 'denied', shadow: 'shadow_denied', near: 'near', candidate: 'candidate_denied'};
export const DOORS = ['http', 'resp', 'grpc', 'spop'];
const FLEET = ['asked', 'sliced', 'known', 'failed', 'command'];
const SERVER = [...DOORS, 'p50', 'p99', 'decide', 'keys', 'evicted', ...FLEET];

/* The value below which a share of what a histogram counted lies: linear within its bucket. null where it is empty. */
export function quantile(bounds, counts, share) {
	const total = counts.reduce((sum, n) => sum + n, 0);
	if (total === 0)
		return null;
	let below = 0;
	for (let i = 0; i < counts.length; i++) {
		const target = share * total;
		if (below + counts[i] >= target && counts[i] > 0) {
			const from = i === 0 ? 0 : bounds[i - 1];
			return i < bounds.length ? from + (bounds[i] - from) * (target - below) / counts[i] : from;
		}
		below += counts[i];
	}
	return bounds.at(-1);
}

const minus = (now, before) => now.map((n, i) => n - (before[i] ?? 0));
const plus = (a, b) => (a.length === 0 ? b : a.map((n, i) => n + (b[i] ?? 0)));
const sum = (door) => door.allowed + door.denied + door.error;

/* What a fleet did in a step: how requests were decided, a second, and the time of commands. */
function fleetStep(fleet, before, passed) {
	if (!fleet || !before)
		return Object.fromEntries(FLEET.map((name) => [name, null]));
	const decided = (...ways) => ways.reduce((n, way) => n + fleet.decided[way] - before.decided[way], 0) / passed;
	const commands = minus(fleet.command_seconds.counts, before.command_seconds.counts);
	return {asked: decided('asked', 'held'), sliced: decided('leased'), known: decided('known'),
		failed: decided('local', 'failed'), command: quantile(fleet.command_seconds.bounds, commands, 0.99)};
}

export class Model {
	constructor() {
		this.last = null; // the figures of before
		this.t = [];
		this.limits = new Map();
		this.server = Object.fromEntries(SERVER.map((name) => [name, []]));
	}

	/* Are these figures to be put after what is known? Else history must be asked for. */
	follows(figures) {
		const last = this.last;
		return last !== null && last.started_ms === figures.started_ms && figures.now_ms > last.now_ms
			&& figures.now_ms - last.now_ms <= GAP_MS && last.limits.length === figures.limits.length
			&& last.limits.every((limit, i) => limit.name === figures.limits[i].name);
	}

	/* Begins anew, from figures with history; keeps what the server does not have where the steps still fit. */
	begin(figures) {
		const history = figures.limits.map((limit) => limit.history);
		const longest = history.reduce((a, b) => (b.steps > a.steps ? b : a), {steps: 0, last_ms: 0});
		const count = longest.steps;
		const kept = new Map(this.t.map((t, i) => [Math.round(t * 1000 / STEP_MS), i]));
		const before = this.server;
		this.t = Array.from({length: count}, (_, i) => (longest.last_ms - (count - 1 - i) * STEP_MS) / 1000);
		this.server = Object.fromEntries(SERVER.map((name) =>
			[name, this.t.map((t) => before[name][kept.get(Math.round(t * 1000 / STEP_MS))] ?? null)]));
		this.limits = new Map(figures.limits.map((limit) => {
			const padded = (array) => {
				const missing = count - array.length;
				return [...Array(missing).fill(0), ...array].map((n) => n * 1000 / STEP_MS);
			};
			return [limit.name, Object.fromEntries(KINDS.map((kind) => [kind, padded(limit.history[kind])]))];
		}));
		this.last = figures;
	}

	/* Puts the figures of one more step after the others. */
	add(figures) {
		const last = this.last, passed = (figures.now_ms - last.now_ms) / 1000;
		this.t.push(figures.now_ms / 1000);
		figures.limits.forEach((limit, i) => {
			const series = this.limits.get(limit.name);
			for (const kind of KINDS)
				series[kind].push(Math.max(0, limit[COUNTERS[kind]] - last.limits[i][COUNTERS[kind]]) / passed);
		});
		const request = DOORS.reduce((all, door) => plus(all,
			minus(figures.request_seconds[door].counts, last.request_seconds[door].counts)), []);
		const bounds = figures.request_seconds.resp.bounds;
		const decision = minus(figures.decision_seconds.counts, last.decision_seconds.counts);
		const now = {
			...Object.fromEntries(DOORS.map((door) =>
				[door, (sum(figures.requests[door]) - sum(last.requests[door])) / passed])),
			...fleetStep(figures.fleet, last.fleet, passed),
			p50: quantile(bounds, request, 0.5),
			p99: quantile(bounds, request, 0.99),
			decide: quantile(figures.decision_seconds.bounds, decision, 0.99),
			keys: figures.store.keys,
			evicted: (figures.store.evicted - last.store.evicted) / passed,
		};
		for (const name of SERVER)
			this.server[name].push(now[name]);
		this.last = figures;
		this.trim();
	}

	trim() {
		const over = this.t.length - STEPS_MAX;
		if (over <= 0)
			return;
		this.t.splice(0, over);
		for (const series of [...this.limits.values(), this.server])
			for (const array of Object.values(series))
				array.splice(0, over);
	}

	/* The mean of a limit's last 10 s, by kind. */
	recent(name) {
		const series = this.limits.get(name);
		return Object.fromEntries(KINDS.map((kind) => {
			const tail = series[kind].slice(-5);
			return [kind, tail.length > 0 ? tail.reduce((a, b) => a + b, 0) / tail.length : 0];
		}));
	}

	/* Several limits added up, by kind. */
	total(names) {
		return Object.fromEntries(KINDS.map((kind) => {
			const sum = Array(this.t.length).fill(0);
			for (const name of names)
				this.limits.get(name)?.[kind].forEach((n, i) => {
					sum[i] += n;
				});
			return [kind, sum];
		}));
	}
}
