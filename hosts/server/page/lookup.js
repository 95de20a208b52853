/* Looking up a key: which limits apply, what is left of each, when more frees; and resetting it.
 *
 * Without a limit chosen, attributes are typed as user=alice path=/search and the policy says what applies (explain).
 * With one, its key is typed, as explain and the lists show it, and that one counter is peeked at. Neither charges. What
 * was found is asked for again with every tick, so that it can be watched. */

import {ask, Refused} from './api.js';
import {byId, make, say, wait, whole} from './dom.js';

const UNLIMITED = 4294967295;

/* "a=1 b='x y'" -> [['a', '1'], ['b', 'x y']]. Throws an Error that says what is wrong. */
export function readAttributes(text) {
	const pairs = [];
	const one = /\s*(?:([^\s=]+)=(?:"([^"]*)"|'([^']*)'|(\S*))(?=\s|$))/y;
	while (one.lastIndex < text.trimEnd().length) {
		const at = one.lastIndex, found = one.exec(text);
		if (found === null)
			throw new Error(`expected name=value at "${text.slice(at).trim().slice(0, 40)}"; quote values that have spaces`);
		pairs.push([found[1], found[2] ?? found[3] ?? found[4]]);
	}
	if (pairs.length === 0)
		throw new Error('type at least one attribute, such as user=alice');
	return pairs;
}

export class LookUp {
	constructor(onRefused) {
		this.onRefused = onRefused;
		this.asked = null; // what is being watched: {attributes} or {key, limit}
		this.counters = new Map();
		this.ticket = 0;
		this.limit = byId('search-limit');
		this.text = byId('search-text');
		byId('search').addEventListener('submit', (event) => {
			event.preventDefault();
			this.search();
		});
		this.limit.addEventListener('change', () => this.describe());
		this.describe();
	}

	describe() {
		const all = this.limit.value === '';
		say(byId('search-label'), all ? 'Attributes of the request' : 'Key');
		say(byId('search-hint'), all ? 'Such as user=alice path=/search. Looking charges nothing.'
			: 'As the lists show it, such as user=alice. Looking charges nothing.');
	}

	/* The names that can be chosen: the policy's. A limit in notation is added when it is shown. */
	setLimits(names) {
		const wanted = names.map((name) => `policy:${name}`);
		const have = [...this.limit.options].map((option) => option.value).filter((value) => value.startsWith('policy:'));
		if (wanted.join('\n') === have.join('\n'))
			return;
		const chosen = this.limit.value;
		for (const option of [...this.limit.options])
			if (option.value.startsWith('policy:'))
				option.remove();
		this.limit.append(...names.map((name) => make('option', {value: `policy:${name}`}, name)));
		this.limit.value = [...this.limit.options].some((option) => option.value === chosen) ? chosen : '';
		this.describe();
	}

	/* Shows one counter, from the lists. */
	show(limit, key) {
		if (![...this.limit.options].some((option) => option.value === limit))
			this.limit.append(make('option', {value: limit}, limit));
		this.limit.value = limit;
		this.text.value = key;
		this.describe();
		byId('look-up').scrollIntoView({block: 'nearest'});
		byId('look-up').focus({preventScroll: true});
		this.search();
	}

	async search() {
		const limit = this.limit.value, text = this.text.value;
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
				: found.map((one) => `${nameOf(one)}: ${left(one)} left of ${whole(one.quota)}`).join('; '));
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
			const answer = asked.attributes
				? await ask(`/v1/explain?${asked.attributes.map((pair) => pair.map(encodeURIComponent).join('=')).join('&')}`)
				: await ask('/v1/check', {key: asked.key, limits: [asked.limit], cost: 1, peek: true});
			if (asked !== this.asked || ticket !== this.ticket)
				return null;
			const found = answer.limits.map((one) => ({...one, notation: one.limit, reset: asked.limit ?? `policy:${one.name}`}));
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

const nameOf = (one) => one.name || one.notation;
const left = (one) => (one.remaining === UNLIMITED ? 'everything' : whole(one.remaining));

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
		this.button = make('button', {type: 'button', onclick: () => this.confirm(true)}, 'Reset…');
		this.sure = make('button', {type: 'button', class: 'danger', onclick: () => this.reset()}, 'Reset now');
		this.question = make('div', {class: 'row sure', role: 'group', hidden: true, onkeydown: (event) => {
			if (event.key === 'Escape')
				this.confirm(false);
		}}, make('span', {}, 'Forget what it has spent?'), this.sure,
		make('button', {type: 'button', onclick: () => this.confirm(false)}, 'Keep'));
		this.element = make('article', {class: 'counter'},
			make('div', {class: 'row'}, this.name, this.badge), make('p', {class: 'hint'}, this.notation), this.key,
			this.left, make('div', {class: 'bar', 'aria-hidden': 'true'}, this.bar),
			make('dl', {}, make('dt', {}, 'Next unit frees in'), this.next, make('dt', {}, 'Whole quota back in'), this.whole,
				make('dt', {}, 'Delay'), this.delay),
			make('div', {class: 'row end'}, this.button, this.question));
	}

	set(one) {
		this.one = one;
		say(this.name, nameOf(one));
		say(this.badge, one.observed ? (one.allowed ? 'observed' : 'would deny') : one.allowed ? 'allows' : 'denies');
		this.badge.className = `badge ${one.allowed ? 'good' : one.observed ? 'shadow' : 'bad'}`;
		say(this.notation, one.name ? one.notation : 'a limit in notation');
		say(this.key, one.key === '' ? 'one counter for all' : one.key);
		say(this.left, `${left(one)} left of ${one.quota === UNLIMITED ? 'everything' : whole(one.quota)}`);
		this.bar.style.width = `${one.quota > 0 ? Math.min(100, 100 * one.remaining / one.quota) : 0}%`;
		this.bar.className = one.allowed ? '' : 'bad';
		const next = one.next_after_ms ?? (one.remaining === 0 ? one.retry_after_ms : null);
		say(this.next, next === null ? '–' : one.remaining >= one.quota ? 'all is free' : wait(next));
		say(this.whole, wait(one.reset_after_ms));
		this.delay.hidden = this.delay.previousElementSibling.hidden = one.delay_ms === 0;
		say(this.delay, wait(one.delay_ms));
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
