/* What the theme's pages lack for those who use a keyboard or hear them; and why there is no search where a browser
 * lets none run. */
'use strict';
document.addEventListener('DOMContentLoaded', () => {
	const name = (selector, text) => document.querySelector(selector)?.setAttribute('aria-label', text);
	name('.md-search', 'Search');
	name('.md-search__scrollwrap', 'What was found');
	for (const e of document.querySelectorAll('pre > code, .md-search__scrollwrap, .md-typeset__scrollwrap')) {
		const reach = () => e.tabIndex === 0 || (e.tabIndex = 0); // it scrolls sideways where the page is narrow
		new MutationObserver(reach).observe(e, {attributeFilter: ['tabindex']}); // the theme takes it away again
		reach();
	}
	if (location.protocol === 'file:') {
		const said = document.createElement('p');
		said.className = 'unsearchable';
		said.textContent = 'Search needs a server: python3 -m http.server';
		document.querySelector('.md-search')?.replaceWith(said);
	}
});
