/* Charts: uPlot draws them; around it stands what a canvas can't say. Each figure has a legend with the numbers of now
 * (or of the instant that is pointed at), a sentence that names the chart for screen readers, and the numbers by the
 * minute as a table. Where uPlot was not built in, those are all there is. */

import {clock, make, say} from './dom.js';

const SPAN_S = 900, SPAN_LEAST_S = 120;
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const hourAndMinute = (s) => clock(s * 1000).slice(0, 5);
const timeOfDay = (plot, splits) =>
	splits.map((s) => (splits[1] - splits[0] < 60 ? clock(s * 1000) : hourAndMinute(s)));

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

const isDecade = (v) => Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-6;
const onlyDecades = (plot, splits) => splits.map((v) => (isDecade(v) ? v : null));
/* Of rates, which may be 0: linear below 1, decades above. */
const withZero = (plot, least, most) => [0, 10 ** Math.ceil(Math.log10(Math.max(1, (most ?? 0) * 1.01)))];
const zeroAndDecades = (plot) => {
	const splits = [0];
	for (let v = 1; v <= plot.scales.y.max; v *= 10)
		splits.push(v);
	return splits;
};
const fromZero = (plot, least, most) => [0, Math.max(1, (most ?? 0) * 1.12)];
const decades = (plot, least, most) => (least > 0
	? [10 ** Math.floor(Math.log10(least)), 10 ** Math.ceil(Math.log10(most * 1.01))] : [1e-6, 1e-3]);

export class Chart {
	/* options: {what, series, axis(value), log}; what: of the sentence, "Latency"; log: always, for values above 0 */
	constructor(figure, options) {
		Object.assign(this, options);
		this.data = null;
		this.place = make('div', {class: 'plot', role: 'img', 'aria-label': this.what});
		this.values = this.series.map(() => make('b'));
		this.legend = make('ul', {class: 'legend'}, ...this.series.map((series, i) =>
			make('li', {}, make('span', {class: `key key-${series.color}${series.dash ? ' dashed' : ''}`}),
				`${series.label} `, this.values[i])));
		this.table = make('table');
		this.details = make('details', {ontoggle: () => this.fillTable()}, make('summary', {}, 'By the minute'),
			make('div', {class: 'scroll', role: 'region', 'aria-label': `${this.what} by the minute`, tabindex: 0},
				this.table));
		figure.append(this.legend, this.place, this.details);
		if (globalThis.uPlot === undefined)
			this.place.hidden = true;
		else
			new ResizeObserver(() => this.resize()).observe(this.place);
		for (const event of ['theme', 'scale'])
			document.addEventListener(event, () => this.draw());
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
		if (globalThis.uPlot === undefined || !this.data?.[0].length || width === 0)
			return;
		const axis = {stroke: color('muted'), font: '12px system-ui, sans-serif', ticks: {show: false},
			grid: {stroke: color('grid'), width: 1}};
		this.plot = new globalThis.uPlot({
			width,
			height,
			legend: {show: false},
			cursor: {sync: {key: 'sluice'}, drag: {x: false, y: false}, y: false},
			scales: {
				x: {range: () => this.span()},
				y: this.scale(),
			},
			axes: [
				/* The gap keeps a time at the left edge clear of the lowest number of the other axis. */
				{...axis, size: 32, gap: 10, space: 64, values: timeOfDay},
				{...axis, size: 56, space: 28,
					...this.log && {filter: onlyDecades, grid: {...axis.grid, filter: onlyDecades}},
					...!this.log && globalThis.isLogarithmic() && {splits: zeroAndDecades},
					values: (plot, splits) => splits.map((v) => (v === null ? '' : this.axis(v)))},
			],
			series: [{}, ...this.series.map(line)],
			hooks: {setCursor: [(plot) => this.showValues(plot.cursor.idx)]},
		}, this.data, this.place);
	}

	scale() {
		if (this.log)
			return {distr: 3, range: decades};
		return globalThis.isLogarithmic() ? {distr: 4, asinh: 1, range: withZero} : {distr: 1, range: fromZero};
	}

	/* What is known only since the page was opened is not squeezed into the last tenth of 15 minutes. */
	span() {
		const [t, ...arrays] = this.data, most = t.at(-1);
		const first = t.find((s, i) => arrays.some((values) => values[i] !== null)) ?? most;
		return [Math.max(most - SPAN_S, Math.min(first, most - SPAN_LEAST_S)), most];
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

	/* "Denied, login. Now: denied 4/s. Highest denied: 40/s at 12:04:10." */
	sentence() {
		const [t, ...arrays] = this.data;
		const now = this.series.map((series, i) => `${series.label} ${this.format(series, arrays[i].at(-1))}`);
		const peaks = this.series.map((series, i) => {
			const values = arrays[i];
			const at = values.reduce((best, value, j) => ((value ?? 0) > (values[best] ?? 0) ? j : best), -1);
			return at < 0 ? '' : ` Highest ${series.label}: ${series.format(values[at])} at ${clock(t[at] * 1000)}.`;
		});
		return `${this.what}. Now: ${now.join(', ')}.${peaks.join('')}`;
	}

	/* Means of each minute, the newest first. */
	fillTable() {
		if (!this.details.open || this.data === null)
			return;
		const [t, ...arrays] = this.data;
		const minutes = new Map();
		t.forEach((s, i) => minutes.set(Math.floor(s / 60), [...(minutes.get(Math.floor(s / 60)) ?? []), i]));
		const mean = (array, steps) => {
			const known = steps.map((i) => array[i]).filter((v) => v !== null && v !== undefined);
			return known.length > 0 ? known.reduce((a, b) => a + b, 0) / known.length : null;
		};
		const rows = [...minutes].reverse().map(([minute, steps]) => make('tr', {},
			make('th', {scope: 'row'}, hourAndMinute(minute * 60)),
			...this.series.map((series, i) =>
				make('td', {class: 'number'}, this.format(series, mean(arrays[i], steps))))));
		this.table.replaceChildren(make('caption', {class: 'unseen'}, `${this.what}: means of each minute`),
			make('thead', {}, make('tr', {}, make('th', {scope: 'col'}, 'Minute'),
				...this.series.map((series) => make('th', {scope: 'col', class: 'number'}, series.label)))),
			make('tbody', {}, ...rows));
	}
}
