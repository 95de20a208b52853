/* Decisions as they happen: what GET /v1/tail streams, newest first, while it is followed. Nothing is asked before
 * somebody wants to see it: a server has room for so many readers. Lines come up to 2,000 a second, so the table is
 * painted once a frame, with the newest of them. */

import {follow, Refused} from './api.js';
import {byId, make, say, wait, whole} from './dom.js';
import {asCards} from './tables.js';

const LINES_MAX = 100, AGAIN_MS = 2000;

const time = new Intl.DateTimeFormat('en-GB', {hour: '2-digit', minute: '2-digit', second: '2-digit',
	fractionalSecondDigits: 3});

function verdictOf(line) {
	if (line.failed_open !== undefined)
		return line.allowed ? 'failed open' : 'unanswered';
	if (line.allowed)
		return line.request_denied ? 'would allow' : 'allowed';
	return line.observed ? 'would deny' : 'denied';
}

function figuresOf(line) {
	if (line.quota === undefined)
		return '';
	const left = `${whole(line.remaining)} of ${whole(line.quota)} left`;
	const again = line.retry_after_ms < 0 ? 'never' : `in ${wait(line.retry_after_ms)}`;
	return line.allowed ? left : `${left}, again ${again}`;
}

const kindOf = (line) => (line.allowed ? '' : line.observed ? 'shadow' : 'bad');

const cell = (label, content, style) => make('td', {role: 'cell', 'data-label': label, class: style}, content);

const rowOf = (line) => make('tr', {role: 'row'},
	cell('Time', time.format(new Date(line.time))),
	cell('Decision', make('span', {class: `badge ${kindOf(line)}`}, verdictOf(line))),
	cell('Limit', line.limit),
	cell('Key', line.key_hex ? `${line.key} (hex ${line.key_hex})` : line.key || '(one for all)', 'keytext'),
	cell('Left', figuresOf(line)),
	cell('Request', [line.method, line.route, line.address].filter(Boolean).join(' ')));

export class Tail {
	/* refused(error, again): the server wants to know who asks */
	constructor(refused) {
		Object.assign(this, {refused, running: null, news: [], skipped: 0});
		this.body = byId('tail-lines').tBodies[0];
		asCards(byId('tail-lines'));
		byId('tail').addEventListener('submit', (event) => {
			event.preventDefault();
			this.toggle();
		});
	}

	toggle() {
		if (this.running)
			this.stop('Stopped.');
		else
			this.start();
	}

	stop(text) {
		this.running?.abort();
		this.running = null;
		say(byId('tail-follow'), 'Follow');
		this.tell(text);
	}

	tell(text, bad = false) {
		say(byId('tail-said'), text);
		byId('tail-said').classList.toggle('bad', bad);
	}

	path() {
		const query = new URLSearchParams();
		for (const name of ['limit', 'key'])
			if (byId(`tail-${name}`).value !== '')
				query.set(name, byId(`tail-${name}`).value);
		if (byId('tail-denied').checked)
			query.set('denied', 'true');
		return `/v1/tail?${query}`;
	}

	/* Follows until it is stopped; when the server goes away it is asked again. */
	async start() {
		const running = this.running = new AbortController();
		say(byId('tail-follow'), 'Stop');
		this.body.replaceChildren();
		this.skipped = 0;
		say(byId('tail-skipped'), '');
		this.tell('Waiting for decisions.');
		while (this.running === running) {
			try {
				for await (const line of follow(this.path(), running.signal))
					this.take(line);
			} catch (error) {
				if (this.running !== running)
					return;
				if (error instanceof Refused && error.status !== 0) {
					this.stop('');
					this.tell(error.message, true);
					this.refused(error, () => this.start());
					return;
				}
			}
			if (this.running === running) {
				this.tell('The stream has ended. Asking again.', true);
				await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
			}
		}
	}

	take(line) {
		if (line.skipped !== undefined)
			this.skipped += line.skipped;
		else
			this.news.push(line);
		if (this.news.length > LINES_MAX)
			this.news.shift();
		this.frame ??= requestAnimationFrame(() => this.paint());
	}

	paint() {
		this.frame = null;
		if (!this.running)
			return;
		this.body.prepend(...this.news.reverse().map(rowOf));
		this.news = [];
		while (this.body.rows.length > LINES_MAX)
			this.body.lastChild.remove();
		this.tell('');
		if (this.skipped > 0)
			say(byId('tail-skipped'), `${whole(this.skipped)} more are not shown: this is a sample.`);
	}
}
