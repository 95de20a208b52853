/* Runs before the first paint, so that nobody is blinded: the theme that was chosen here, else the system's. And the
 * scale of the charts' axes of rates: linear, or logarithmic where that was chosen here. */
'use strict';
(() => {
	const dark = matchMedia('(prefers-color-scheme: dark)');
	const recall = (name) => {
		try {
			return localStorage.getItem(name);
		} catch {
			return null; // Storage is refused: a choice holds until the page is left.
		}
	};
	const keep = (name, value) => {
		try {
			localStorage.setItem(name, value);
		} catch {
			// As above.
		}
	};
	let chosen = recall('sluice-theme'), logarithmic = recall('sluice-scale') === 'logarithmic';
	const apply = () => {
		document.documentElement.dataset.theme = chosen ?? (dark.matches ? 'dark' : 'light');
		document.dispatchEvent(new Event('theme'));
	};
	dark.addEventListener('change', apply);
	apply();
	globalThis.toggleTheme = () => {
		chosen = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
		keep('sluice-theme', chosen);
		apply();
	};
	globalThis.isLogarithmic = () => logarithmic;
	globalThis.toggleScale = () => {
		logarithmic = !logarithmic;
		keep('sluice-scale', logarithmic ? 'logarithmic' : 'linear');
		document.dispatchEvent(new Event('scale'));
	};
})();
