/* The few things that every part of the page does with elements. Text that clients chose reaches the page through
 * textContent and attributes only, never as markup. */

export const byId = (id) => document.getElementById(id);

/* An element with attributes and children. Keys that begin with "on" are listeners; false and undefined set nothing. */
export function make(tag, attributes = {}, ...children) {
	const element = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes)) {
		if (name.startsWith('on'))
			element.addEventListener(name.slice(2), value);
		else if (value !== undefined && value !== false)
			element.setAttribute(name, value === true ? '' : value);
	}
	element.append(...children);
	return element;
}

/* Sets text where it differs: what did not change is not painted, or read out, again. */
export function say(element, text) {
	if (element.textContent !== text)
		element.textContent = text;
}

/* ---- numbers for people ---- */

const plain = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const short = new Intl.NumberFormat('en', {notation: 'compact', maximumSignificantDigits: 3});

export const whole = (n) => plain.format(n);

/* A rate: 0, 0.4, 12, 3,400, 1.2M. */
export function rate(n) {
	if (n === null || n === undefined || !Number.isFinite(n))
		return '–';
	if (n === 0 || n >= 99.95)
		return n < 100000 ? plain.format(n) : short.format(n);
	return n < 0.1 ? '<0.1' : n.toFixed(1).replace(/\.0$/, '');
}

export const percent = (part, all) =>
	(all > 0 ? `${(100 * part / all).toFixed(part > 0 && part < all / 10 ? 1 : 0)} %` : '–');

const steps = (value, units) => {
	const [scale, unit] = units.find(([least]) => value >= least) ?? units.at(-1);
	const n = value / scale;
	return `${n >= 99.5 ? n.toFixed(0) : Number(n.toPrecision(2))} ${unit}`;
};

export const seconds = (s) => (s === null || !Number.isFinite(s) ? '–'
	: steps(s, [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [1e-9, 'ns']]));

export const bytes = (n) => steps(n, [[2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB'], [1, 'B']]);

/* A wait of the API in ms, -1 for never: "never", "now", "340 ms", "12.5 s", "3 min 5 s", "2 h 4 min", "3 d 2 h". */
export function wait(ms) {
	if (ms < 0)
		return 'never';
	if (ms === 0)
		return 'now';
	if (ms < 1000)
		return `${ms} ms`;
	if (ms < 60000)
		return `${(Math.ceil(ms / 100) / 10)} s`;
	const units = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
	let left = Math.ceil(ms / 1000);
	const first = units.findIndex(([scale]) => left >= scale);
	const parts = units.slice(first, first + 2).map(([scale, unit]) => {
		const n = Math.floor(left / scale);
		left -= n * scale;
		return n > 0 ? `${n} ${unit}` : '';
	});
	return parts.filter(Boolean).join(' ');
}

export const clock = (ms) => new Date(ms).toLocaleTimeString('en-GB');
