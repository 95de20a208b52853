/* Tables that change under the eyes of their readers: headers are buttons that sort, rows are kept by a key and changed
 * in place, and the order is held while somebody points at a row or has the focus in one, so that nobody clicks what
 * has just moved there. */

import {make, say} from './dom.js';

export class SortedTable {
	/* columns: {title, value(row), text(row), number, fill(cell, row)}; key(row) names a row for ever;
	 * order: {column, down}; empty: what stands there without rows */
	constructor(table, columns, key, order, empty) {
		Object.assign(this, {table, columns, key, order, empty, rows: [], kept: new Map()});
		this.heads = columns.map((column, i) => make('th', {scope: 'col', class: column.number && 'number'},
			make('button', {type: 'button', onclick: () => this.sortBy(i)}, column.title)));
		this.body = make('tbody');
		table.append(make('thead', {}, make('tr', {}, ...this.heads)), this.body);
		this.showOrder();
		this.set([]);
	}

	sortBy(index) {
		const again = this.order.column === index;
		this.order = {column: index, down: again ? !this.order.down : Boolean(this.columns[index].number)};
		this.showOrder();
		this.arrange();
	}

	showOrder() {
		this.heads.forEach((head, i) => {
			if (i === this.order.column)
				head.setAttribute('aria-sort', this.order.down ? 'descending' : 'ascending');
			else
				head.removeAttribute('aria-sort');
		});
	}

	set(rows) {
		const names = new Set(rows.map(this.key));
		let changed = false;
		for (const [name, line] of this.kept)
			if (!names.has(name)) {
				line.remove();
				this.kept.delete(name);
			}
		for (const row of rows)
			if (!this.kept.has(this.key(row))) {
				this.kept.set(this.key(row), this.makeLine());
				changed = true;
			}
		this.rows = rows;
		for (const row of rows)
			this.fill(this.kept.get(this.key(row)), row);
		this.none?.remove();
		if (rows.length === 0) {
			this.none = make('tr', {}, make('td', {colspan: this.columns.length, class: 'none'}, this.empty));
			this.body.append(this.none);
		}
		if (changed || !this.body.matches(':hover, :focus-within'))
			this.arrange();
	}

	makeLine() {
		return make('tr', {}, ...this.columns.map((column, i) =>
			make(i === 0 ? 'th' : 'td', i === 0 ? {scope: 'row'} : {class: column.number && 'number'})));
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

	arrange() {
		const {value} = this.columns[this.order.column], sign = this.order.down ? -1 : 1;
		const sorted = this.rows.map((row, i) => ({row, i, v: value(row)}));
		sorted.sort((a, b) => sign * (a.v < b.v ? -1 : a.v > b.v ? 1 : 0) || a.i - b.i);
		const focused = document.activeElement;
		sorted.forEach(({row}, i) => {
			const line = this.kept.get(this.key(row));
			if (this.body.children[i] !== line)
				this.body.insertBefore(line, this.body.children[i] ?? null);
		});
		if (focused !== document.activeElement && this.body.contains(focused))
			focused.focus({preventScroll: true}); // moving a row takes the focus out of it
	}
}
