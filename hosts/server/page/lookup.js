/* Looking up a key: which limits apply, what is left of each, when more frees; and resetting it.
 *
 * Without a limit chosen, attributes are typed as user=alice path=/search and the policy says what applies (explain).
 * With one, policy:NAME or a notation, its key is typed, as explain and the lists show it, and that one counter is
 * peeked at. Neither charges. Of the policy's names a few are offered that have what is typed in them.
 * What was found is asked for again with every turn, so that it can be watched. */

import {ask, Refused} from './api.js';
import {byId, make, say, wait, whole} from './dom.js';

const UNLIMITED = 4294967295, OFFERED_MAX = 20;

/* "a=1 b='x y'" -> [['a', '1'], ['b', 'x y']]. Throws an Error that says what is wrong. */
export function readAttributes(text) {
	const pairs = [];
	const one = /\s*(?:([^\s=]+)=(?:"([^"]*)"|'([^']*)'|(\S*))(?=\s|$))/y;
	while (one.lastIndex < text.trimEnd().length) {
		const at = one.lastIndex, found = one.exec(text);
		if (found === null)
			throw new Error(`expected name=value at "${text.slice(at).trim().slice(0, 40)}"; quote values with spaces`);
		pairs.push([found[1], found[2] ?? found[3] ?? found[4]]);
	}
	if (pairs.length === 0)
		throw new Error('type at least one attribute, such as user=alice');
	return pairs;
}

const explain = (attributes) => ask(`/v1/explain?${new URLSearchParams(attributes)}`);

/* One counter, with all that it holds; of a node that has only the script, which does not inspect, what a peek tells.
 * There its next unit frees when one more than what remains would be admitted. */
async function look(key, limit) {
	try {
		return await ask('/v1/inspect', {key, limits: [limit]});
	} catch (error) {
		if (!(error instanceof Refused) || error.status !== 400)
			throw error;
	}
	const body = {key, limits: [limit], cost: 1, peek: true};
	const answer = await ask('/v1/check', body);
	const [one] = answer.limits;
	if (one.remaining > 0 && one.remaining < one.quota && one.quota < UNLIMITED)
		one.next_after_ms = (await ask('/v1/check', {...body, cost: one.remaining + 1})).retry_after_ms;
	return answer;
}

export class LookUp {
	/* find(text, count): names of the policy's limits, a promise */
	constructor(find, onRefused) {
		Object.assign(this, {find, onRefused});
		this.asked = null; // what is being watched: {attributes} or {key, limit}
		this.counters = new Map();
		this.ticket = 0;
		this.limit = byId('search-limit');
		this.text = byId('search-text');
		byId('search').addEventListener('submit', (event) => {
			event.preventDefault();
			this.search();
		});
		for (const event of ['input', 'focus'])
			this.limit.addEventListener(event, () => {
				this.describe();
				this.offer();
			});
		this.describe();
	}

	describe() {
		const all = this.named() === '';
		say(byId('search-label'), all ? 'Attributes of the request' : 'Key');
		say(byId('search-hint'), all ? 'Such as user=alice path=/search. Looking charges nothing.'
			: 'As the lists show it, such as user=alice. Looking charges nothing.');
	}

	/* The limit that was typed; a word that can't be a notation is a name. */
	named() {
		const text = this.limit.value.trim();
		return text === '' || /[\s/:]/.test(text) ? text : `policy:${text}`;
	}

	async offer() {
		const typed = this.limit.value;
		try {
			const names = await this.find(typed.replace(/^policy:/, ''), OFFERED_MAX);
			if (typed === this.limit.value)
				byId('search-limits').replaceChildren(...names.map((name) =>
					make('option', {value: `policy:${name}`})));
		} catch (error) {
			if (!(error instanceof Refused))
				throw error; // else nothing is offered: whoever searches is told
		}
	}

	/* Puts a limit of the policy there, whose key is to be typed. */
	choose(name) {
		this.limit.value = `policy:${name}`;
		this.text.value = '';
		this.describe();
		byId('look-up').scrollIntoView({block: 'nearest'});
		this.text.focus({preventScroll: true});
	}

	/* Shows one counter, from the lists. */
	show(limit, key) {
		this.limit.value = limit;
		this.text.value = key;
		this.describe();
		byId('look-up').scrollIntoView({block: 'nearest'});
		byId('look-up').focus({preventScroll: true});
		this.search();
	}

	async search() {
		const limit = this.named(), text = this.text.value;
		this.text.removeAttribute('aria-invalid');
		this.forget();
		try {
			this.asked = limit === '' ? {attributes: readAttributes(text)} : {limit, key: text};
		} catch (error) {
			this.asked = null;
			this.text.setAttribute('aria-invalid', 'true');
			this.text.focus();
			this.tell(error.message, true);
			return;
		}
		const found = await this.refresh(true);
		if (found !== null)
			this.tell(found.length === 0 ? 'No limit applies: such requests are admitted.'
				: found.map((one) => `${nameOf(one)}: ${left(one)} left`).join('; '));
	}

	forget() {
		this.counters.clear();
		byId('found').replaceChildren();
	}

	/* Asks again for what is watched. Returns the limits found; null where that failed or something newer is asked. */
	async refresh(aloud = false) {
		const {asked} = this, ticket = ++this.ticket;
		if (asked === null)
			return null;
		try {
			const {limits} = await (asked.attributes ? explain(asked.attributes) : look(asked.key, asked.limit));
			if (asked !== this.asked || ticket !== this.ticket)
				return null;
			const found = limits.map((one) => ({...one, reset: asked.limit ?? `policy:${one.name}`}));
			this.render(found);
			return found;
		} catch (error) {
			if (!(error instanceof Refused))
				throw error;
			if (aloud) {
				this.asked = null;
				this.tell(error.message, true);
				this.onRefused(error, () => this.search());
			}
			return null;
		}
	}

	tell(text, bad = false) {
		const said = byId('search-said');
		said.classList.toggle('bad', bad);
		said.textContent = text;
	}

	render(found) {
		found.forEach((one, i) => {
			const id = JSON.stringify([i, one.name, one.key]);
			if (!this.counters.has(id)) {
				this.counters.set(id, new Counter(this));
				byId('found').append(this.counters.get(id).element);
			}
			this.counters.get(id).set(one);
		});
	}

	async reset(one) {
		try {
			const {reset} = await ask('/v1/reset', {key: one.key, limits: [one.reset]});
			this.tell(reset > 0 ? `${nameOf(one)} was reset for ${one.key}: the whole quota is free.`
				: `${nameOf(one)} had nothing to reset for ${one.key}.`);
		} catch (error) {
			if (!(error instanceof Refused))
				throw error;
			this.tell(`${nameOf(one)} was not reset: ${error.message}`, true);
			if (error.status === 401)
				this.onRefused(error, () => this.reset(one));
			return;
		}
		await this.refresh();
	}
}

const nameOf = (one) => one.name || one.limit;
const left = (one) => (one.remaining === UNLIMITED ? 'everything' : whole(one.remaining));

/* A term and its value that are there only where there is something to say. */
function optional(value, there, text) {
	value.hidden = value.previousElementSibling.hidden = !there;
	say(value, there ? text(there) : '');
}

/* One counter that was found. It stays in its place while its numbers change. */
class Counter {
	constructor(lookUp) {
		this.lookUp = lookUp;
		this.name = make('h3');
		this.badge = make('span', {class: 'badge'});
		this.notation = make('code');
		this.key = make('code', {class: 'keytext'});
		this.left = make('p', {class: 'left'});
		this.bar = make('span');
		this.next = make('dd');
		this.whole = make('dd');
		this.delay = make('dd');
		this.own = make('dd');
		this.candidate = make('dd');
		this.button = make('button', {type: 'button', onclick: () => this.confirm(true)}, 'Reset…');
		this.sure = make('button', {type: 'button', class: 'danger', onclick: () => this.reset()}, 'Reset now');
		this.question = make('div', {class: 'row sure', role: 'group', hidden: true, onkeydown: (event) => {
			if (event.key === 'Escape')
				this.confirm(false);
		}}, make('span', {}, 'Clear this counter?'), this.sure,
		make('button', {type: 'button', onclick: () => this.confirm(false)}, 'Keep'));
		this.element = make('article', {class: 'counter'},
			make('div', {class: 'row'}, this.name, this.badge), make('p', {class: 'hint'}, this.notation), this.key,
			this.left, make('div', {class: 'bar', 'aria-hidden': 'true'}, this.bar),
			make('dl', {}, make('dt', {}, 'Next unit returns in'), this.next,
				make('dt', {}, 'Whole quota back in'), this.whole,
				make('dt', {}, 'Own quota'), this.own,
				make('dt', {}, 'Delay'), this.delay,
				make('dt'), this.candidate),
			make('div', {class: 'row end'}, this.button, this.question));
	}

	set(one) {
		this.one = one;
		say(this.name, nameOf(one));
		say(this.badge, one.observed ? (one.allowed ? 'observed' : 'would deny') : one.allowed ? 'allows' : 'denies');
		this.badge.className = `badge ${one.allowed ? 'good' : one.observed ? 'shadow' : 'bad'}`;
		say(this.notation, (one.name ?? one.limit) === one.limit ? 'given in notation' : one.limit);
		say(this.key, one.key === '' ? 'one counter for all' : one.key);
		say(this.left, `${left(one)} left of ${one.quota === UNLIMITED ? 'everything' : whole(one.quota)}`);
		this.bar.style.width = `${one.quota > 0 ? Math.min(100, 100 * one.remaining / one.quota) : 0}%`;
		this.bar.className = one.allowed ? '' : 'bad';
		const next = one.next_after_ms ?? (one.remaining === 0 ? one.retry_after_ms : null);
		say(this.next, next === null ? '–' : one.remaining >= one.quota ? 'all is free' : wait(next));
		say(this.whole, wait(one.reset_after_ms));
		optional(this.delay, one.delay_ms > 0, () => wait(one.delay_ms));
		optional(this.own, one.own_quota, (quota) =>
			(one.own_ends_after_ms < 0 ? quota : `${quota}, ends in ${wait(one.own_ends_after_ms)}`));
		optional(this.candidate, one.candidate, ({allowed, remaining}) =>
			`${allowed ? 'would allow' : 'would deny'}, ${whole(remaining)} left`);
		say(this.candidate.previousElementSibling, `Candidate ${one.candidate?.limit}`);
		this.button.setAttribute('aria-label', `Reset ${nameOf(one)} for ${one.key}`);
		this.question.setAttribute('aria-label', `Reset ${nameOf(one)} for ${one.key}?`);
	}

	confirm(asking) {
		this.button.hidden = asking;
		this.question.hidden = !asking;
		(asking ? this.sure : this.button).focus();
	}

	async reset() {
		this.confirm(false);
		await this.lookUp.reset(this.one);
	}
}
