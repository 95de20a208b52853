/* Charts: uPlot draws them; around it stands what a canvas can't say. Each figure has a legend with the numbers of now
 * (or of the instant that is pointed at), a sentence that names the chart for screen readers, and the numbers by the
 * minute as a table. Where uPlot was not built in, those are all there is. */

import {clock, make, say} from './dom.js';

const SPAN_S = 900;
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const hourAndMinute = (s) => new Date(s * 1000).toLocaleTimeString('en-GB', {hour: '2-digit', minute: '2-digit'});

/* What is drawn of a series: {name, label, color, dash, fill, format(value)}. */
function line(series) {
	return {
		label: series.label,
		stroke: color(series.color),
		width: series.dash ? 2 : 1.75,
		dash: series.dash,
		fill: series.fill ? color(`${series.color}-fill`) : undefined,
		points: {show: (plot, index) => isAlone(plot.data[index])},
	};
}

/* A single number between unknown ones makes no line: it is shown as a point. */
function isAlone(values) {
	const last = values.length - 1;
	return last >= 0 && values[last] !== null && (last === 0 || values[last - 1] === null);
}

const fromZero = (plot, least, most) => [0, Math.max(1, (most ?? 0) * 1.12)];
const decades = (plot, least, most) => (least > 0
	? [10 ** Math.floor(Math.log10(least)), 10 ** Math.ceil(Math.log10(most * 1.01))] : [1e-6, 1e-3]);

export class Chart {
	/* options: {what, series, axis(value), log}; what: of the sentence, "Latency" */
	constructor(figure, options) {
		Object.assign(this, options);
		this.data = null;
		this.place = make('div', {class: 'plot', role: 'img', 'aria-label': this.what});
		this.values = this.series.map(() => make('b'));
		this.legend = make('ul', {class: 'legend'}, ...this.series.map((series, i) =>
			make('li', {}, make('span', {class: `key key-${series.color}${series.dash ? ' dashed' : ''}`}), `${series.label} `, this.values[i])));
		this.table = make('table');
		this.details = make('details', {ontoggle: () => this.fillTable()}, make('summary', {}, 'By the minute'),
			make('div', {class: 'scroll', role: 'region', 'aria-label': `${this.what} by the minute`, tabindex: 0}, this.table));
		figure.append(this.legend, this.place, this.details);
		if (globalThis.uPlot === undefined)
			this.place.hidden = true;
		else
			new ResizeObserver(() => this.resize()).observe(this.place);
		document.addEventListener('theme', () => this.draw());
	}

	/* t in s; one array for each series. */
	set(t, arrays, what = this.what) {
		this.what = what;
		this.data = [t, ...arrays];
		if (this.plot)
			this.plot.setData(this.data);
		else
			this.draw();
		this.showValues(null);
		this.place.setAttribute('aria-label', this.sentence());
		this.fillTable();
	}

	draw() {
		this.plot?.destroy();
		this.plot = null;
		const width = this.place.clientWidth, height = this.place.clientHeight;
		if (globalThis.uPlot === undefined || this.data === null || width === 0)
			return;
		const axis = {stroke: color('muted'), font: '12px system-ui, sans-serif', ticks: {show: false},
			grid: {stroke: color('grid'), width: 1}};
		this.plot = new globalThis.uPlot({
			width,
			height,
			legend: {show: false},
			cursor: {sync: {key: 'sluice'}, drag: {x: false, y: false}, y: false},
			scales: {
				x: {range: (plot, least, most) => [most - SPAN_S, most]},
				y: {distr: this.log ? 3 : 1, range: this.log ? decades : fromZero},
			},
			axes: [
				{...axis, space: 64, values: (plot, splits) => splits.map(hourAndMinute)},
				{...axis, size: 56, space: 28, values: (plot, splits) => splits.map((v) => (v === null ? '' : this.axis(v)))},
			],
			series: [{}, ...this.series.map(line)],
			hooks: {setCursor: [(plot) => this.showValues(plot.cursor.idx)]},
		}, this.data, this.place);
	}

	resize() {
		if (this.plot && this.place.clientWidth > 0)
			this.plot.setSize({width: this.place.clientWidth, height: this.place.clientHeight});
		else
			this.draw();
	}

	showValues(index) {
		const at = index ?? this.data[0].length - 1;
		this.series.forEach((series, i) => say(this.values[i], this.format(series, this.data[i + 1][at])));
	}

	format(series, value) {
		return value === null || value === undefined ? '–' : series.format(value);
	}

	/* "Allowed and denied, all limits. Now: allowed 120 a second, denied 4 a second. Highest denied: 40 at 12:04:10." */
	sentence() {
		const [t, ...arrays] = this.data;
		const now = this.series.map((series, i) => `${series.label} ${this.format(series, arrays[i].at(-1))}`).join(', ');
		const peaks = this.series.map((series, i) => {
			const at = arrays[i].reduce((best, value, j) => (value !== null && value > (arrays[i][best] ?? 0) ? j : best), -1);
			return at < 0 ? '' : ` Highest ${series.label}: ${this.format(series, arrays[i][at])} at ${clock(t[at] * 1000)}.`;
		});
		return `${this.what}. Now: ${now}.${peaks.join('')}`;
	}

	/* Means of each minute, the newest first. */
	fillTable() {
		if (!this.details.open || this.data === null)
			return;
		const [t, ...arrays] = this.data;
		const minutes = Map.groupBy ? Map.groupBy(t.keys(), (i) => Math.floor(t[i] / 60)) : group(t);
		const mean = (array, steps) => {
			const known = steps.map((i) => array[i]).filter((v) => v !== null && v !== undefined);
			return known.length > 0 ? known.reduce((a, b) => a + b, 0) / known.length : null;
		};
		const rows = [...minutes].reverse().map(([minute, steps]) => make('tr', {},
			make('th', {scope: 'row'}, hourAndMinute(minute * 60)),
			...this.series.map((series, i) => make('td', {class: 'number'}, this.format(series, mean(arrays[i], steps))))));
		this.table.replaceChildren(make('caption', {class: 'unseen'}, `${this.what}: means of each minute`),
			make('thead', {}, make('tr', {}, make('th', {scope: 'col'}, 'Minute'),
				...this.series.map((series) => make('th', {scope: 'col', class: 'number'}, series.label)))),
			make('tbody', {}, ...rows));
	}
}

function group(t) {
	const minutes = new Map();
	t.forEach((s, i) => {
		const minute = Math.floor(s / 60);
		minutes.set(minute, [...(minutes.get(minute) ?? []), i]);
	});
	return minutes;
}
