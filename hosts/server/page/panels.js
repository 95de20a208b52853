/* Panels that are there only where there is something to show: the fleet where the store is in Redis, and gRPC where it
 * is asked. Each is a list of facts, all from /v1/figures. */

import {byId, make, rate, say, seconds, whole} from './dom.js';
import {quantile} from './model.js';

const aSecond = (value) => `${rate(value)}/s`;

/* facts: [name, value, under, alarm]; kept in place, so that only what changed is painted. */
function fill(list, facts) {
	while (list.children.length > facts.length)
		list.lastChild.remove();
	facts.forEach(([name, value, under, alarm], i) => {
		if (!list.children[i])
			list.append(make('div', {}, make('dt'), make('dd'), make('dd', {class: 'under'})));
		const [term, fact, more] = list.children[i].children;
		say(term, name);
		say(fact, value);
		say(more, under ?? '');
		list.children[i].classList.toggle('alarm', Boolean(alarm));
	});
}

function show(id, facts) {
	byId(id).hidden = facts.length === 0;
	fill(byId(`${id}-facts`), facts);
}

/* ---- the fleet ------------------------------------------------------------------------------------------------ */

function fleetFacts(figures, server) {
	const {fleet} = figures, now = (name) => server[name].at(-1) ?? null;
	const away = fleet.nodes - fleet.nodes_up, {nodes_up: up, nodes_open: open} = fleet;
	return [
		['Nodes', `${whole(up)} of ${whole(fleet.nodes)} up`,
			away > 0 ? `${whole(away)} away, ${whole(open)} given up` : 'all answer', away > 0],
		['Failovers', `${whole(fleet.breaks)} given up`,
			`${whole(fleet.redirected)} redirected, ${whole(fleet.disconnects)} connections lost`, open > 0],
		['Without an answer', aSecond(now('failed')),
			`${whole(fleet.decided.local + fleet.decided.failed)} in all, ${whole(fleet.late)} late`,
			now('failed') > 0],
		['Slices', `${whole(fleet.slices)} held`,
			`${whole(fleet.slice_units)} units taken, ${whole(fleet.returned)} given back`],
		['Commands', whole(fleet.commands),
			`${whole(fleet.refused)} refused, ${whole(fleet.lost_confirms)} confirms lost`],
	];
}

/* ---- gRPC ----------------------------------------------------------------------------------------------------- */

const GRPC = 'grpc';
const all = (requests) => requests.allowed + requests.denied + requests.error;

function grpcFacts(figures, before) {
	const requests = figures.requests[GRPC], open = figures.connections[GRPC];
	if (open === 0 && all(requests) === 0)
		return [];
	const times = figures.request_seconds[GRPC], passed = before ? (figures.now_ms - before.now_ms) / 1000 : null;
	const lately = (count) => (before ? (count(requests) - count(before.requests[GRPC])) / passed : null);
	return [
		['Requests', aSecond(lately(all)), `${whole(all(requests))} in all`],
		['Over the limit', aSecond(lately((r) => r.denied)), `${whole(requests.denied)} in all`],
		['Errors', whole(requests.error + figures.protocol_errors[GRPC]),
			`${whole(figures.protocol_errors[GRPC])} refused as malformed`, lately((r) => r.error) > 0],
		['Request time, p99', seconds(quantile(times.bounds, times.counts, 0.99)),
			`p50 ${seconds(quantile(times.bounds, times.counts, 0.5))}`],
		['Connections', whole(open), 'open'],
	];
}

/* `before`: the figures of the turn before of the same server, or null. */
export function showPanels(figures, before, model) {
	show('fleet', figures.fleet ? fleetFacts(figures, model.server) : []);
	show(GRPC, grpcFacts(figures, before));
}
