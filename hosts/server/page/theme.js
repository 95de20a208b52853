/* Runs before the first paint, so that nobody is blinded: the theme that was chosen here, else the system's. */
'use strict';
(() => {
	const dark = matchMedia('(prefers-color-scheme: dark)');
	let chosen = null;
	try {
		chosen = localStorage.getItem('sluice-theme');
	} catch {
		// Storage is refused: the choice holds until the page is left.
	}
	const apply = () => {
		document.documentElement.dataset.theme = chosen ?? (dark.matches ? 'dark' : 'light');
		document.dispatchEvent(new Event('theme'));
	};
	dark.addEventListener('change', apply);
	apply();
	globalThis.toggleTheme = () => {
		chosen = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
		try {
			localStorage.setItem('sluice-theme', chosen);
		} catch {
			// As above.
		}
		apply();
	};
})();
