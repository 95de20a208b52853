/* Tables that change under the eyes of their readers: headers are buttons that sort, rows are kept by a key and changed
 * in place, and the order is held while somebody points at a row or has the focus in one, so that nobody clicks what
 * has just moved there. */

import {make, say} from './dom.js';

/* On small screens a row is a card (page.css), whose cells tell their column by data-label. To be laid out so must not
 * make a table less of one to those who hear it: its parts say what they are. */
export function asCards(table) {
	table.classList.add('cards');
	table.setAttribute('role', 'table');
}

export class SortedTable {
	/* columns: {title, value(row), text(row), number, fill(cell, row)}, where rows without a value (null) come last in
	 * both orders; key(row) names a row for ever; order: {column, down}; empty: what stands there without rows; count:
	 * how many rows are shown at most. onSort() is told when somebody sorts. */
	constructor(table, columns, key, order, empty, count = Infinity) {
		Object.assign(this, {table, columns, key, order, empty, count, rows: [], from: 0, kept: new Map()});
		const style = (column) => column.number && 'number';
		this.heads = columns.map((column, i) => make('th', {scope: 'col', role: 'columnheader', class: style(column)},
			make('button', {type: 'button', onclick: () => this.sortBy(i)}, column.title)));
		this.body = make('tbody', {role: 'rowgroup'});
		table.append(make('thead', {role: 'rowgroup'}, make('tr', {role: 'row'}, ...this.heads)), this.body);
		asCards(table);
		this.showOrder();
		this.set([]);
	}

	sortBy(index) {
		const again = this.order.column === index;
		this.order = {column: index, down: again ? !this.order.down : Boolean(this.columns[index].number)};
		this.showOrder();
		this.arrange();
		this.onSort?.();
	}

	showOrder() {
		this.heads.forEach((head, i) => {
			if (i === this.order.column)
				head.setAttribute('aria-sort', this.order.down ? 'descending' : 'ascending');
			else
				head.removeAttribute('aria-sort');
		});
	}

	/* Shows the rows that stand `from` there on in their order; anew: even if somebody points at one. */
	set(rows, from = 0, anew = false) {
		Object.assign(this, {rows, from});
		if (anew || !this.body.matches(':hover, :focus-within') || !this.refill())
			this.arrange();
	}

	/* Fills the rows that are shown where they stand; false where they are not those that are to be shown. */
	refill() {
		const byKey = new Map(this.rows.map((row) => [this.key(row), row]));
		if (this.kept.size !== Math.min(this.count, this.rows.length - this.from)
			|| ![...this.kept.keys()].every((name) => byKey.has(name)))
			return false;
		for (const [name, line] of this.kept)
			this.fill(line, byKey.get(name));
		return this.kept.size > 0;
	}

	makeLine() {
		return make('tr', {role: 'row'}, ...this.columns.map((column, i) => (i === 0
			? make('th', {scope: 'row', role: 'rowheader'})
			: make('td', {role: 'cell', class: column.number && 'number', 'data-label': column.title}))));
	}

	fill(line, row) {
		line.row = row;
		this.columns.forEach((column, i) => {
			if (column.fill)
				column.fill(line.cells[i], row);
			else
				say(line.cells[i], column.text(row));
		});
	}

	/* The rows to be shown, in their order. */
	sorted() {
		const {value} = this.columns[this.order.column], sign = this.order.down ? -1 : 1;
		const sorted = this.rows.map((row, i) => ({row, i, v: value(row)}));
		sorted.sort((a, b) => (a.v === null) - (b.v === null) || sign * (a.v < b.v ? -1 : a.v > b.v ? 1 : 0)
			|| a.i - b.i);
		return sorted.slice(this.from, this.from + this.count).map(({row}) => row);
	}

	arrange() {
		const focused = document.activeElement, rows = this.sorted(), names = new Set(rows.map(this.key));
		for (const [name, line] of this.kept)
			if (!names.has(name)) {
				line.remove();
				this.kept.delete(name);
			}
		this.none?.remove();
		rows.forEach((row, i) => {
			const line = this.kept.get(this.key(row)) ?? this.makeLine();
			this.kept.set(this.key(row), line);
			this.fill(line, row);
			if (this.body.children[i] !== line)
				this.body.insertBefore(line, this.body.children[i] ?? null);
		});
		if (rows.length === 0) {
			const all = {role: 'cell', colspan: this.columns.length, class: 'none'};
			this.none = make('tr', {role: 'row'}, make('td', all, this.empty));
			this.body.append(this.none);
		}
		if (focused !== document.activeElement && this.body.contains(focused))
			focused.focus({preventScroll: true}); // moving a row takes the focus out of it
	}
}
