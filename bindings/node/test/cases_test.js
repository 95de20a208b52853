// The case list of all doors, through the class: in process, at a server, and at Redis with the module. Each compares
// with what the list says, number for number.
'use strict';

const assert = require('node:assert/strict');
const {readFileSync, readdirSync} = require('node:fs');
const {join} = require('node:path');
const {describe, it, before} = require('node:test');
const {ROOT, limiter, redis, serve} = require('./helpers.js');

const CASES = join(ROOT, 'tests', 'cases');
const COUNTS = {reset: 'forgotten', release: 'found', renew: 'found'};

const all = readdirSync(CASES).filter((name) => name.endsWith('.json')).sort().flatMap((name) =>
	JSON.parse(readFileSync(join(CASES, name), 'utf8')).map((one, i) => ({...one, title: `${name} ${i} ${one.name}`})));
const plain = all.filter((one) => !one.policy && one.steps.every((step) => step.op !== 'holders'));
const policies = all.filter((one) => one.policy && one.steps.every((step) => step.op === 'admit'));

/** A key of this case and door alone. */
function own(prefix, key) {
	return prefix + key;
}

function limitsOf(step, prefix) {
	return step.limits.map((one) => typeof one === 'string' ? one : [own(prefix, one.key), one.limit]);
}

/** A member that differs from limit to limit can't be said by this class: what such a step asks is left out. */
function sayable(one) {
	return one.steps.every((step) => (step.limits ?? []).every((limit) => limit.member === undefined));
}

function optionsOf(step, names) {
	const options = {};
	for (const name of names)
		if (step[name] !== undefined)
			options[name] = step[name];
	return options;
}

async function ask(limiter, step, prefix, tickets) {
	if (step.op === 'admit')
		return limiter.admit(step.attributes, {...optionsOf(step, ['cost', 'id', 'member', 'upto'])});
	const key = own(prefix, step.key), limits = limitsOf(step, prefix);
	switch (step.op) {
	case 'check': case 'peek':
		return limiter[step.op](key, limits, optionsOf(step, ['cost', 'upto', 'id', 'member', ...each(step)]));
	case 'refund':
		return limiter.refund(key, limits, step.cost, optionsOf(step, ['member', ...each(step)]));
	case 'reset':
		return limiter.reset(key, limits);
	case 'acquire':
		return limiter.acquire(key, limits, optionsOf(step, ['cost', 'id', 'member', ...each(step)]));
	case 'release': case 'renew':
		return limiter[step.op](key, limits, step.id);
	case 'reserve':
		return limiter.reserve(key, limits, {...optionsOf(step, ['cost', 'id']), ttl: step.ttl_ms});
	case 'commit':
		return limiter.commit(key, limits, tickets.get(step.id) ?? step.id, step.actual);
	default:
		throw new Error(`unknown operation ${step.op}`);
	}
}

/** Asks for each limit's own answer where the list tells it. */
function each(step) {
	return step.expect.each ? (step.each = true, ['each']) : [];
}

function figures(result) {
	return {allowed: Number(result.allowed), quota: result.quota, remaining: result.remaining,
		retry_after_ms: result.retryAfter, reset_after_ms: result.resetAfter, delay_ms: result.delay};
}

/** A result in the list's words; what the list does not tell is left out. */
function told(step, result, tickets, inProcess) {
	if (COUNTS[step.op])
		return {[COUNTS[step.op]]: result};
	const out = {...figures(result), index: result.index}, {expect} = step;
	if (step.op === 'admit')
		out.name = result.limit;
	if ('granted' in expect)
		out.granted = result.granted;
	if ('repeated' in expect && (inProcess || (step.op !== 'reserve' && step.op !== 'admit')))
		out.repeated = result.repeated;
	if ('each' in expect && result.each)
		out.each = result.each.map(figures);
	if ('held' in expect) {
		out.held = result.id !== null;
		if (result.id !== null)
			tickets.set(step.id, result.id);
	}
	return out;
}

async function run(limiter, one, prefix, clock) {
	const tickets = new Map();
	for (const [number, step] of one.steps.entries()) {
		clock.now = step.at;
		let got;
		for (let i = 0; i < (step.times ?? 1); i++) {
			try {
				got = told(step, await ask(limiter, step, prefix, tickets), tickets, limiter.inProcess);
			} catch (error) {
				got = error.code === 'not-found' ? {found: 0} : {error: error.code};
			}
		}
		const want = {};
		for (const name of Object.keys(step.expect))
			if (name in got || name === 'error')
				want[name] = name === 'error' ? got.error : step.expect[name];
		if (step.expect.error)
			assert.match(String(got.error), /^bad-(limit|key|argument)$/, `step ${number}: ${JSON.stringify(step)}`);
		else
			assert.deepEqual(got, want, `step ${number}: ${JSON.stringify(step)}`);
	}
}

async function door(name, options) {
	const clock = {now: 0};
	return {name, clock, limiter: limiter({...options, clock: () => clock.now, timeout: 5000})};
}

describe('the case list', () => {
	const doors = {};
	before(async () => {
		doors['in process'] = await door('in process', {memory: '64MiB'});
		doors['at a server'] = await door('server', {store: (await serve()).url});
		const other = await redis();
		if (other)
			doors['at Redis'] = await door('redis', {store: other.url});
	});

	const cases = plain.filter(sayable);
	it('is as long as ever', () => assert.ok(cases.length >= 200, `${cases.length} cases`));

	for (const name of ['in process', 'at a server', 'at Redis'])
		it(name, async (t) => {
			if (!doors[name])
				return t.skip('no redis-server here');
			const {limiter, clock} = doors[name];
			for (const one of cases)
				await t.test(one.title, () => run(limiter, one, `${name} ${one.title}: `, clock));
		});

	it('policies, in process', async (t) => {
		assert.ok(policies.length >= 20);
		for (const one of policies)
			await t.test(one.title, async () => {
				const clock = {now: one.steps[0].at};
				const policy = join(CASES, 'policies', one.policy);
				const made = limiter({policy, memory: '8MiB', clock: () => clock.now});
				await run(made, one, '', clock);
				await made.close();
			});
	});
});
