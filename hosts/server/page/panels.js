/* Panels that are there only where there is something to show, all from /v1/figures: the fleet where the store is in
 * Redis, and gRPC where it is asked, each a list of facts; and a table of clients by the names of their libraries. */

import {byId, make, rate, say, seconds, whole} from './dom.js';
import {quantile} from './model.js';
import {SortedTable} from './tables.js';

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

/* ---- clients -------------------------------------------------------------------------------------------------- */

const KINDS = {unnamed: '(unnamed)', others: '(others)'};
const DOOR_NAMES = {resp: 'RESP', http: 'HTTP', grpc: 'gRPC', spop: 'SPOP'};
const keyOf = ({door, kind, name, version}) => JSON.stringify([door, kind, name, version]);
const byRate = (title, of) => ({title, number: true, value: of,
	text: (row) => (of(row) === null ? '–' : aSecond(of(row)))});

let clients = null;

function clientTable() {
	return new SortedTable(byId('clients-list'), [
		{title: 'Client', value: (row) => row.shown, text: (row) => row.shown},
		{title: 'Door', value: (row) => DOOR_NAMES[row.door], text: (row) => DOOR_NAMES[row.door]},
		{title: 'Connections', number: true, value: (row) => row.connections, text: (row) => whole(row.connections)},
		byRate('Decisions', (row) => row.rate),
		byRate('Denied', (row) => row.deniedRate),
	], keyOf, {column: 3, down: true}, 'Nobody is connected.');
}

/* Rates since the figures before. A name that was forgotten meanwhile, and came back, counts from 0. */
function clientRows(figures, before) {
	const last = new Map((before?.clients ?? []).map((one) => [keyOf(one), one]));
	const passed = before ? (figures.now_ms - before.now_ms) / 1000 : null;
	const rateOf = (row, count) => {
		const since = count(row) - (last.has(keyOf(row)) ? count(last.get(keyOf(row))) : 0);
		return before ? (since >= 0 ? since : count(row)) / passed : null;
	};
	return figures.clients.map((row) => ({...row, rate: rateOf(row, all), deniedRate: rateOf(row, (r) => r.denied),
		shown: KINDS[row.kind] ?? [row.name, row.version].filter(Boolean).join(' ')}));
}

function showClients(figures, before) {
	const rows = clientRows(figures, before);
	byId('clients').hidden = rows.length === 0;
	clients ??= clientTable();
	clients.set(rows);
}

/* `before`: the figures of the turn before of the same server, or null. */
export function showPanels(figures, before, model) {
	showClients(figures, before);
	show('fleet', figures.fleet ? fleetFacts(figures, model.server) : []);
	show(GRPC, grpcFacts(figures, before));
}
