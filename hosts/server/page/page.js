/* The dashboard: asks for the figures every two seconds and shows them.
 *
 *   api.js -> model.js -> tiles, limits.js, tables.js, charts.js, panels.js
 *         \-> lookup.js (search, explain, reset)       signin.js (401)
 *         \-> tail.js (decisions as they happen)
 *
 * At first, and after a gap, it asks for the 15 minutes that the server keeps; from then on it appends. One request is
 * out at a time: a slow server is asked less often, not more. */

import {ask, isSignedIn, Refused, signOut} from './api.js';
import {Chart} from './charts.js';
import {byId, bytes, clock, make, percent, rate, say, seconds, wait, whole} from './dom.js';
import {labelOf, Limits} from './limits.js';
import {LookUp} from './lookup.js';
import {DOORS, Model, STEP_MS} from './model.js';
import {showPanels} from './panels.js';
import {SignIn} from './signin.js';
import {SortedTable} from './tables.js';
import {Tail} from './tail.js';

const model = new Model();
const chosen = new Set(); // names of limits; none: all
const aSecond = (value) => `${rate(value)}/s`;

/* ---- banners -------------------------------------------------------------------------------------------------- */

/* One for each thing that is wrong. Said once when it begins: the text of a banner that stays is not touched. */
const banners = new Map();

function banner(name, text, kind = 'warn') {
	const old = banners.get(name);
	if (!text) {
		old?.remove();
		banners.delete(name);
	} else if (old) {
		say(old, text);
	} else {
		banners.set(name, make('p', {class: `banner ${kind}`}, text));
		byId('banners').append(banners.get(name));
	}
}

let reloadFailed = false;
const isEvicting = () => model.server.evicted.slice(-5).some((n) => n > 0);
const overDoors = (of) => DOORS.reduce((sum, door) => sum + of(door), 0);
const asked = (figures, kind) => overDoors((door) => figures.requests[door][kind]);

function showBanners(figures, before) {
	if (before?.started_ms === figures.started_ms) {
		if (figures.reloads.failed > before.reloads.failed)
			reloadFailed = true;
		else if (figures.reloads.ok > before.reloads.ok)
			reloadFailed = false;
	}
	const failed = figures.reloads.last_failed ?? reloadFailed;
	banner('draining', figures.draining
		&& 'The server is stopping: it answers what has arrived, and load balancers send new requests elsewhere.');
	banner('ready', figures.ready === false && !figures.draining
		&& 'Not ready: no node of Redis has answered yet. Requests get what the policy says under on-error.');
	banner('reload', failed && 'The policy file could not be loaded: '
		+ `the policy of ${clock(figures.reloads.last_ms)} goes on. The server’s log says what is wrong.`, 'bad');
	banner('evicting', isEvicting()
		&& 'The store is full and evicts counters in use. Give it more memory.', 'bad');
	banner('errors', before && asked(figures, 'error') > asked(before, 'error')
		&& 'The store can’t answer some requests: on-error in the policy decides them.', 'bad');
}

/* ---- tables --------------------------------------------------------------------------------------------------- */

const limits = new Limits(model, chosen, (row) => {
	if (row.isCounted)
		choose(row.name);
	else
		lookUp.choose(row.name);
}, (error) => refused(error));

function choose(name) {
	if (!chosen.delete(name))
		chosen.add(name);
	limits.set(model.last);
	showDecisions();
}

function topTable(id, counted, empty) {
	return new SortedTable(byId(id), [
		{title: 'Key', value: (row) => row.key, fill: (cell, row) => {
			const lookUpRow = ({named, limit, key}) => lookUp.show(named ? `policy:${limit}` : limit, key);
			if (!cell.firstChild)
				cell.append(make('button', {type: 'button', class: 'choose keytext', title: 'Look up',
					onclick: () => lookUpRow(cell.parentNode.row)}));
			say(cell.firstChild, row.key_hex ? `${row.key} (hex ${row.key_hex})` : row.key || '(one for all)');
			cell.firstChild.disabled = row.key_hex !== undefined; // no text: JSON can't ask for it
		}},
		{title: 'Limit', value: (row) => row.limit, text: (row) => row.limit},
		{title: counted, number: true, value: (row) => row.count, text: (row) => whole(row.count)},
	], (row) => JSON.stringify([row.limit, row.key_hex ?? row.key]), {column: 2, down: true}, empty);
}

const tops = {
	denied: topTable('denied', 'Denied', 'No key was denied lately.'),
	near: topTable('near', 'Events', 'No key is near a limit.'),
	shadow: topTable('shadow', 'Would be denied', 'No observed limit would have denied a key lately.'),
	candidate: topTable('candidate', 'Would be denied', 'No candidate would have denied a key lately.'),
};

/* ---- charts --------------------------------------------------------------------------------------------------- */

const counted = (name, label, more) => ({name, label, color: name, format: aSecond, ...more});
const charts = {
	allowed: new Chart(byId('chart-allowed'), {what: 'Allowed', axis: rate, series: [
		counted('allowed', 'allowed', {fill: true})]}),
	denied: new Chart(byId('chart-denied'), {what: 'Denied', axis: rate, series: [
		counted('denied', 'denied', {fill: true}),
		counted('shadow', 'observed would deny', {dash: [6, 4]}),
		counted('candidate', 'candidate would deny', {dash: [2, 3]})]}),
	requests: new Chart(byId('chart-requests'), {what: 'Requests by door', axis: rate, series: [
		{name: 'http', label: 'HTTP', color: 'allowed', fill: true, format: aSecond},
		{name: 'resp', label: 'RESP', color: 'shadow', fill: true, format: aSecond},
		{name: 'grpc', label: 'gRPC', color: 'denied', format: aSecond},
		{name: 'spop', label: 'SPOP', color: 'candidate', dash: [2, 3], format: aSecond}]}),
	fleet: new Chart(byId('chart-fleet'), {what: 'Decided by the fleet', axis: rate, series: [
		{name: 'asked', label: 'by asking a node', color: 'allowed', fill: true, format: aSecond},
		{name: 'sliced', label: 'from slices', color: 'shadow', format: aSecond},
		{name: 'known', label: 'by known denials', color: 'candidate', dash: [2, 3], format: aSecond},
		{name: 'failed', label: 'without an answer', color: 'denied', dash: [6, 4], format: aSecond}]}),
	command: new Chart(byId('chart-command'), {what: 'Commands to nodes', axis: seconds, log: true, series: [
		{name: 'command', label: 'command p99', color: 'denied', format: seconds}]}),
	latency: new Chart(byId('chart-latency'), {what: 'Latency', axis: seconds, log: true, series: [
		{name: 'p99', label: 'request p99', color: 'denied', format: seconds},
		{name: 'p50', label: 'request p50', color: 'allowed', format: seconds},
		{name: 'decide', label: 'decision p99', color: 'shadow', dash: [6, 4], format: seconds}]}),
	store: new Chart(byId('chart-store'), {what: 'Store', axis: rate, series: [
		{name: 'keys', label: 'keys', color: 'allowed', fill: true, format: (n) => whole(n)},
		{name: 'evicted', label: 'evicted', color: 'denied', format: aSecond}]}),
};

function showDecisions() {
	for (const name of chosen)
		if (!model.limits.has(name))
			chosen.delete(name);
	const names = chosen.size > 0 ? [...chosen] : [...model.limits.keys()];
	const label = chosen.size > 0 ? names.map(labelOf).join(' + ') : 'all limits together';
	const total = model.total(names);
	say(byId('chosen'), label);
	byId('choose-all').hidden = chosen.size === 0;
	charts.allowed.set(model.t, [total.allowed], `Allowed, ${label}`);
	charts.denied.set(model.t, [total.denied, total.shadow, total.candidate], `Denied, ${label}`);
}

function showCharts() {
	showDecisions();
	for (const name of ['requests', 'latency', 'store', 'fleet', 'command'])
		charts[name].set(model.t, charts[name].series.map((series) => model.server[series.name]));
}

/* ---- tiles ---------------------------------------------------------------------------------------------------- */

function tile(name, text, under, bad = false) {
	say(byId(`tile-${name}`), text);
	say(byId(`tile-${name}-under`), under);
	byId(`tile-${name}`).parentNode.classList.toggle('alarm', bad);
}

/* Rates of the requests as a whole, since the figures before; "–" until there are two. */
function showTiles(figures, before) {
	const {store, connections} = figures;
	const lately = (kind) => (before
		? (asked(figures, kind) - asked(before, kind)) * 1000 / (figures.now_ms - before.now_ms) : null);
	const denied = lately('denied'), all = before ? lately('allowed') + denied + lately('error') : null;
	const at = (name) => model.server[name].at(-1) ?? null;
	const refused = connections.refused > 0 ? `, ${whole(connections.refused)} refused` : '';
	const evicted = store.evicted > 0 ? `, ${whole(store.evicted)} evicted` : '';
	tile('requests', before ? aSecond(all) : '–', before ? `${rate(lately('allowed'))} allowed` : 'measuring');
	tile('denied', before ? aSecond(denied) : '–',
		before ? `${percent(denied, all)} of all` : 'measuring', denied > 0);
	tile('latency', seconds(at('p99')), `p50 ${seconds(at('p50'))}, decision p99 ${seconds(at('decide'))}`);
	tile('keys', store.keys === null ? '–' : whole(store.keys),
		`${store.keys === null ? 'counting' : percent(store.keys, store.slots)} of ${bytes(store.bytes)}${evicted}`,
		isEvicting());
	const more = ['grpc', 'spop'].filter((door) => connections[door] > 0)
		.map((door) => `, ${whole(connections[door])} ${door === 'grpc' ? 'gRPC' : 'SPOP'}`).join('');
	tile('connections', whole(overDoors((door) => connections[door])),
		`${whole(connections.http)} HTTP, ${whole(connections.resp)} RESP${more}${refused}`);
	say(byId('about'), `Sluice ${figures.version} · threads: ${figures.threads} · up ${wait(figures.uptime_s * 1000)}`
		+ ` · policy of ${clock(figures.reloads.last_ms)}`);
}

/* ---- the turn of every two seconds ---------------------------------------------------------------------------- */

let timer = null, paused = false, busy = false, turns = 0, lost = null;

function state(name, text) {
	byId('state').dataset.state = name;
	say(byId('state'), text);
	say(byId('sign'), isSignedIn() ? 'Sign out' : 'Sign in');
}

function show(figures, before) {
	showTiles(figures, before);
	limits.set(figures);
	showPanels(figures, before, model);
	showCharts();
	showBanners(figures, before);
}

async function takeFigures() {
	const before = model.last;
	let figures = await ask(before === null ? '/v1/figures?history=1' : '/v1/figures');
	if (model.follows(figures)) {
		model.add(figures);
		show(figures, before);
		return;
	}
	if (before !== null)
		figures = await ask('/v1/figures?history=1');
	model.begin(figures);
	show(figures, null);
}

async function takeTops() {
	for (const [kind, table] of Object.entries(tops)) {
		const answer = await ask(`/v1/top?kind=${kind}&count=20`);
		table.set(answer.entries);
	}
}

async function turn() {
	clearTimeout(timer);
	if (busy)
		return;
	busy = true;
	try {
		await takeFigures();
		if (turns++ % 2 === 0)
			await takeTops();
		await lookUp.refresh();
		lost = null;
		banner('lost', null);
		banner('role', null);
		state(paused ? 'paused' : 'live', paused ? 'paused' : 'live');
	} catch (error) {
		if (!(error instanceof Refused))
			throw error;
		refused(error);
	} finally {
		busy = false;
		if (!paused && byId('state').dataset.state !== 'out')
			timer = setTimeout(turn, STEP_MS);
	}
}

function refused(error) {
	if (error.status === 401) {
		signInFirst(error, turn);
	} else if (error.status === 0 || error.status >= 500) {
		lost ??= Date.now();
		state('lost', 'no answer');
		banner('lost', `No answer from the server since ${clock(lost)}: what stands here is old. Trying again.`, 'bad');
	} else {
		state('lost', 'not allowed');
		banner('role', `The server does not show this: ${error.message}`, 'bad');
	}
}

/* ---- what people do ------------------------------------------------------------------------------------------- */

let afterSigningIn = turn;

const signIn = new SignIn(() => {
	state('waiting', 'signing in');
	banner('role', null);
	afterSigningIn();
});

/* The server wants to know who asks. What was wanted is done once that is known. */
function signInFirst(error, again) {
	const tried = isSignedIn();
	signOut();
	state('out', 'signed out');
	afterSigningIn = again === turn ? turn : () => Promise.resolve(again()).then(turn);
	signIn.open(tried ? `That was not accepted: ${error.message}` : 'The server asks who you are.');
}

const lookUp = new LookUp((text, count) => limits.find(text, count), (error, again) => {
	if (error.status === 401)
		signInFirst(error, again);
});

const tail = new Tail((error, again) => {
	if (error.status === 401)
		signInFirst(error, again);
});

byId('sign').addEventListener('click', () => {
	if (!isSignedIn()) {
		afterSigningIn = turn;
		signIn.open('');
		return;
	}
	signOut();
	location.reload(); // nothing that was shown stays
});

byId('pause').addEventListener('click', () => {
	paused = !paused;
	if (paused && tail.running)
		tail.stop('Paused.');
	byId('pause').setAttribute('aria-pressed', paused);
	clearTimeout(timer);
	if (paused)
		state('paused', 'paused');
	else
		turn();
});

byId('choose-all').addEventListener('click', () => {
	chosen.clear();
	limits.set(model.last);
	showDecisions();
	byId('limits').closest('.scroll').focus();
});

const showTheme = () => byId('theme').setAttribute('aria-pressed', document.documentElement.dataset.theme === 'dark');
byId('theme').addEventListener('click', () => globalThis.toggleTheme());
document.addEventListener('theme', showTheme);
showTheme();

const showScale = () => byId('scale').setAttribute('aria-pressed', globalThis.isLogarithmic());
byId('scale').addEventListener('click', () => globalThis.toggleScale());
document.addEventListener('scale', showScale);
showScale();

document.addEventListener('visibilitychange', () => {
	if (!document.hidden && !paused && byId('state').dataset.state !== 'out')
		turn();
});

if (globalThis.uPlot === undefined)
	banner('charts', `Charts are shown as numbers: ${globalThis.chartsMissing ?? 'uplot.js was not loaded'}.`);
turn();
