/* The table of limits, a page at a time: however many a policy has, so many rows are made as are shown.
 *
 *   /v1/figures   limits with figures of their own (at most 1,024), and the row of all others: there with every turn
 *   /v1/limits    the limits after those, without figures: asked for as far as somebody pages or searches
 *
 * Sorting is among rows with figures; the others follow in the order of the policy's file. */

import {ask, Refused} from './api.js';
import {byId, make, percent, rate, say, whole} from './dom.js';
import {SortedTable} from './tables.js';

const ROWS_MAX = 100, ASKED_MAX = 1024, FILTER_FROM = 10, OTHERS = '(others)', NOTATION = 'limits in notation';
export const labelOf = (name) => name || NOTATION;

/* The limits without figures, as far as they are known. `next` is what those that follow come after, null where none
 * do; `count` is how many there are in all, null until the server said so. */
class Rest {
	constructor() {
		this.begin(null, 0);
	}

	/* counted: how many limits have figures */
	begin(after, counted) {
		Object.assign(this, {rows: [], next: after, counted, count: after === null ? 0 : null});
	}

	/* Asks for so many more; one request is out at a time, whoever asks. */
	more(count) {
		this.pending ??= this.take(count).finally(() => {
			this.pending = null;
		});
		return this.pending;
	}

	async take(count) {
		const {rows, next} = this;
		const page = await ask(`/v1/limits?${new URLSearchParams({after: next, count})}`);
		if (rows !== this.rows)
			return; // another policy since
		for (const {name, limit, observe, canary} of page.limits)
			rows.push({name, limit, observe, canary, isCounted: false});
		this.count = page.total - this.counted;
		this.next = page.next ?? null;
	}
}

function fillShare(cell, row) {
	if (!cell.firstChild)
		cell.append(make('span'), make('span', {class: 'bar', 'aria-hidden': 'true'}, make('span', {class: 'bad'})));
	say(cell.children[0], percent(row.denied, row.allowed + row.denied));
	cell.children[1].hidden = !row.isCounted;
	cell.children[1].firstChild.style.width = `${100 * (row.share ?? 0)}%`;
}

const number = (title, name) =>
	({title, number: true, value: (row) => row[name] ?? null, text: (row) => rate(row[name])});

export class Limits {
	/* chosen: names of limits that are charted; onChoose(row); onRefused(error) */
	constructor(model, chosen, onChoose, onRefused) {
		Object.assign(this, {model, chosen, onChoose, onRefused, policy: '', counted: [], page: 0, rest: new Rest()});
		this.table = new SortedTable(byId('limits'), [
			{title: 'Limit', value: (row) => (row.isCounted ? labelOf(row.name) : null),
				fill: (cell, row) => this.fillName(cell, row)},
			number('Allowed/s', 'allowed'),
			number('Denied/s', 'denied'),
			{title: 'Share denied', number: true, value: (row) => row.share ?? null, fill: fillShare},
			number('Near/s', 'near'),
			number('Would deny/s', 'would'),
		], (row) => row.name, {column: 2, down: true}, 'No limits: the policy is empty.', ROWS_MAX);
		this.filter = byId('limits-filter');
		this.filter.addEventListener('input', () => this.turnTo(0));
		this.table.onSort = () => this.turnTo(0);
		for (const [id, step] of [['limits-before', -1], ['limits-next', 1]])
			byId(id).addEventListener('click', (event) => {
				if (event.currentTarget.getAttribute('aria-disabled') === 'false') // disabled, it would lose the focus
					this.turnTo(this.page + step);
			});
	}

	fillName(cell, row) {
		if (!cell.firstChild) {
			cell.append(make('button', {type: 'button', class: 'choose',
				onclick: () => this.onChoose(cell.parentNode.row)}), make('span', {class: 'badges'}), make('code'));
		}
		const [button, badges, notation] = cell.children;
		say(button, labelOf(row.name));
		if (row.isCounted)
			button.setAttribute('aria-pressed', this.chosen.has(row.name));
		else
			button.removeAttribute('aria-pressed'); // it can't be charted: it is looked up
		const wanted = `${row.observe}${row.canary}${row.candidate}`;
		if (badges.dataset.of !== wanted) {
			badges.dataset.of = wanted;
			badges.replaceChildren(...(row.observe ? [make('span', {class: 'badge shadow'}, 'observed')] : []),
				...(row.canary ? [make('span', {class: 'badge shadow'}, `canary ${row.canary}`)] : []),
				...(row.candidate ? [make('span', {class: 'badge candidate'}, 'candidate')] : []));
		}
		const unnamed = row.name === OTHERS ? 'limits without figures of their own' : 'given by clients';
		say(notation, (row.limit ?? unnamed) + (row.candidate ? ` → ${row.candidate}` : ''));
	}

	/* The figures of a turn. */
	set(figures) {
		this.counted = figures.limits.map(({name, limit, observe, canary, candidate, ...counts}) => {
			const recent = this.model.recent(name), all = recent.allowed + recent.denied;
			return {...recent, name, limit, observe, canary, candidate, isCounted: true,
				would: recent.shadow + recent.candidate, share: all > 0 ? recent.denied / all : 0,
				used: counts.allowed + counts.denied + counts.shadow_denied};
		}).filter((row) => row.name !== '' || row.used > 0);
		const policy = `${figures.started_ms} ${figures.reloads.last_ms}`;
		if (policy !== this.policy) {
			this.policy = policy;
			const named = figures.limits.filter((limit) => limit.limit !== null);
			const hasRest = figures.limits.at(-1).name === OTHERS && figures.limits.at(-1).limit === null;
			this.rest.begin(hasRest ? named.at(-1).name : null, named.length);
			byId('limits-rest').hidden = !hasRest;
		}
		this.show();
		this.fetch();
	}

	matching(text) {
		const wanted = text.trim().toLowerCase(), rows = [...this.counted, ...this.rest.rows];
		return wanted === '' ? rows
			: rows.filter((row) => `${labelOf(row.name)} ${row.limit ?? ''}`.toLowerCase().includes(wanted));
	}

	/* Names with a text in them, at most so many, for whoever types one. */
	async find(text, count) {
		for (;;) {
			const rows = this.matching(text).filter((row) => row.limit !== null);
			if (rows.length >= count || this.rest.next === null)
				return rows.slice(0, count).map((row) => row.name);
			await this.rest.more(ASKED_MAX);
		}
	}

	isFiltered() {
		return this.filter.value.trim() !== '';
	}

	/* Is something of the page that is shown still to be asked for? One row more says whether a page follows. */
	isMissing(found) {
		return this.rest.next !== null && (this.rest.count === null || found <= (this.page + 1) * ROWS_MAX);
	}

	turnTo(page) {
		this.page = page;
		byId('limits').closest('.scroll').scrollTop = 0;
		this.show(true);
		this.fetch();
	}

	async fetch() {
		if (this.isFetching)
			return;
		this.isFetching = true;
		try {
			while (this.isMissing(this.matching(this.filter.value).length)) {
				await this.rest.more(this.isFiltered() ? ASKED_MAX : ROWS_MAX);
				this.show();
			}
		} catch (error) {
			if (!(error instanceof Refused))
				throw error;
			if (error.status !== 400) // the policy was reloaded: the next figures say so
				this.onRefused(error);
		} finally {
			this.isFetching = false;
		}
	}

	show(anew = false) {
		const rows = this.matching(this.filter.value), filtered = this.isFiltered();
		const isAll = this.rest.next === null || !filtered && this.rest.count !== null;
		const count = filtered || !isAll ? rows.length : this.counted.length + this.rest.count;
		if (isAll)
			this.page = Math.min(this.page, Math.max(0, Math.ceil(count / ROWS_MAX) - 1));
		const from = this.page * ROWS_MAX, until = Math.min(count, from + ROWS_MAX);
		this.table.empty = filtered ? 'No limit has that in its name or notation.' : 'No limits: the policy is empty.';
		this.table.set(rows, from, anew);
		byId('limits-find').hidden = !filtered && count <= FILTER_FROM;
		byId('limits-pages').hidden = !filtered && count <= ROWS_MAX;
		say(byId('limits-range'), filtered && this.isMissing(rows.length) ? 'Searching …'
			: `${whole(Math.min(count, from + 1))} to ${whole(until)} of ${whole(count)}${isAll ? '' : ' or more'}`);
		byId('limits-before').setAttribute('aria-disabled', this.page === 0);
		byId('limits-next').setAttribute('aria-disabled', until >= count);
	}
}
