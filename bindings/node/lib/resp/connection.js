// One connection to a server: commands go out in the order in which they are asked for, many at a time, without waiting
// for answers; each has a deadline.
//
//   idle --a command--> connecting --greeted--> ready --lost--> idle
//             ^             | failed
//             +--- waiting -+   50 ms, doubled up to 1 s, half of it by chance
//
// What is asked while there is no connection waits for one, through one attempt that fails at most, and not at all
// where the next attempt lies beyond its deadline, or what failed is the login: then it fails at once. A command that
// was sent and not answered is not sent again, since it may have been charged; one that may safely be done twice (a
// peek, or with an id) is, once. An answer that comes too late is read, and goes to who wants it all the same. A server
// that has not sent a byte for long after a deadline is given up, and connected to anew. So is one that has become a
// replica, at most once a second: its name may lead to the new primary by then.
//
// An idle connection does not keep the process alive.
'use strict';

const net = require('node:net');
const tls = require('node:tls');
const {SluiceError} = require('../errors.js');
const {Fifo} = require('./fifo.js');
const {commandOf} = require('./writer.js');
const {Reader, ErrorReply} = require('./reader.js');

const {version} = require('../../package.json');

const BACKOFF_MS_MIN = 50, BACKOFF_MS_MAX = 1000;
const SILENCE_MS_MIN = 1000; // without a byte, after a deadline: the connection is dead
const CONNECT_MS_MIN = 1000;
const PENDING_MAX = 65536;

/** Errors that say that the server can't decide now, whatever it is asked. */
const UNABLE = /^(LOADING|CLUSTERDOWN|TRYAGAIN|MASTERDOWN|READONLY|BUSY|OOM|MISCONF|NOREPLICAS|MOVED|ASK) /;
const REFUSES = /^(NOAUTH|WRONGPASS|NOPERM|DENIED)/;
const CODES = [
	[UNABLE, 'away'], [REFUSES, 'no-access'], [/^NOTFOUND /, 'not-found'], [/did not answer in time/, 'away'],
	[/^ERR a process that shares the store was stopped/, 'busy'], [/^ERR max number of clients reached/, 'away'],
	[/^ERR (limit |no limit |too many limits|expected one limit )/, 'bad-limit'], [/^ERR the key /, 'bad-key'],
	[/^ERR unknown command/, 'bad-store'],
];

/** A server's error, in its own words. */
function errorOf(reply) {
	const known = CODES.find(([form]) => form.test(reply.text));
	return new SluiceError(known ? known[1] : 'bad-argument', reply.text.replace(/^ERR /, ''));
}

class Connection {
	#to;
	#state = 'idle';
	#socket = null;
	#reader = null;
	#waiting = new Fifo(); // not yet sent
	#sent = new Fifo();
	#timer = null;
	#timerAt = 0;
	#retry = null;
	#retryAt = 0;
	#backoff = 0;
	#heard = 0; // when bytes came last
	#cause = null; // why there is no connection
	#replica = null; // what a server said that has become one
	#left = -Infinity; // when such a one was left last
	#flushing = false;
	#closing = null;

	/** `to`: as addressOf() gives it, and `timeout` in ms, `tlsOptions`. Connects when first asked. */
	constructor(to) {
		this.#to = to;
	}

	/** Where to, for messages: no password. */
	get name() {
		return this.#to.path ?? `${this.#to.host}:${this.#to.port}`;
	}

	get pending() {
		return this.#waiting.length + this.#sent.length;
	}

	/** Whether one more command is taken. */
	get full() {
		return this.pending >= PENDING_MAX;
	}

	/**
	 * Sends a command; resolves with its answer, rejects with a SluiceError.
	 *  again      may be sent twice
	 *  closing    is taken until close() has ended: it gives something back
	 *  abandoned  called when it was sent, and its answer is waited for no longer
	 *  late       called with its answer, if that comes after all
	 */
	command(words, {again = false, closing = false, abandoned, late} = {}) {
		return new Promise((resolve, reject) => {
			if (this.#closing && !(closing && this.#state !== 'closed'))
				return reject(new SluiceError('closed', 'the limiter was closed'));
			const now = performance.now(), deadline = now + this.#to.timeout;
			if (this.#state === 'waiting' && this.#retryAt > deadline)
				return reject(this.#away());
			const bytes = commandOf(words);
			this.#waiting.push({bytes, again, deadline, ready: this.#state === 'ready' ? this.#socket : null,
				waited: false, expired: false, resolve, reject, abandoned, late});
			if (this.#state === 'idle')
				this.#connect();
			this.#hold();
			if (deadline < this.#timerAt) // which may be that of a server's silence
				this.#wakeAt(deadline);
			this.#flushSoon();
		});
	}

	/** Whether anybody waits for an answer. What came too late may still have to be given back: its answer tells. */
	#isAwaited() {
		if (this.#waiting.length > 0)
			return true;
		for (const one of this.#sent.list())
			if (one.deadline !== Infinity && (!one.expired || one.late))
				return true;
		return false;
	}

	/** Waits for what is under way, then for what gives back what that has leased: at most the deadlines of both, and
	 * until a silent server is given up. Then ends the connection. */
	close() {
		this.#closing ??= new Promise((resolve) => {
			const end = () => {
				this.#fail(new SluiceError('closed', 'the limiter was closed'), false);
				this.#drop();
				clearTimeout(this.#retry);
				this.#state = 'closed';
				resolve();
			};
			if (!this.#isAwaited())
				return end();
			const poll = setInterval(() => this.#isAwaited() || (clearInterval(poll), end()), 5);
		});
		return this.#closing;
	}

	#away() {
		const why = this.#cause ? this.#cause.message : 'it did not answer';
		const code = this.#cause instanceof SluiceError ? this.#cause.code : 'away';
		return new SluiceError(code, `${this.name}: ${why}`, {cause: this.#cause ?? undefined});
	}

	// ---- connecting

	#connect() {
		const {host, port, path, tlsOptions} = this.#to;
		const where = path === undefined ? {host, port} : {path};
		this.#state = 'connecting';
		this.#reader = new Reader();
		const socket = this.#to.tls
			? tls.connect({...(net.isIP(host) ? {} : {servername: host}), ...tlsOptions, ...where})
			: net.connect(where);
		this.#socket = socket;
		socket.setNoDelay(true);
		socket.setTimeout(Math.max(CONNECT_MS_MIN, this.#to.timeout),
			() => this.#lost(socket, new Error('no answer to connecting')));
		socket.on(this.#to.tls ? 'secureConnect' : 'connect', () => this.#greet(socket));
		socket.on('data', (chunk) => this.#read(socket, chunk));
		socket.on('error', (error) => this.#lost(socket, error));
		socket.on('end', () => this.#lost(socket, new Error('the server ended the connection')));
		socket.on('close', () => this.#lost(socket, new Error('the server ended the connection')));
		this.#hold();
	}

	/** Says hello before anything else; a server that knows no HELLO is asked in the older way. The name goes along,
	 * for those who look who is connected: what a server answers to it does not matter, and is not waited for. */
	async #greet(socket) {
		const {user, password, db} = this.#to;
		const login = password === '' && user === '' ? [] : ['AUTH', user || 'default', password];
		try {
			socket.cork();
			const said = this.#ask(socket, ['HELLO', 3, ...login]);
			for (const [what, value] of [['LIB-NAME', 'sluice-node'], ['LIB-VER', version]])
				this.#ask(socket, ['CLIENT', 'SETINFO', what, value]).catch(() => {});
			socket.uncork();
			const hello = await said;
			if (hello instanceof ErrorReply && /^(NOPROTO|ERR unknown command)/.test(hello.text) && login.length)
				await this.#demand(socket, user === '' ? ['AUTH', password] : login);
			else if (hello instanceof ErrorReply && !/^(NOPROTO|ERR unknown command)/.test(hello.text))
				throw /^ERR (?!max number)/.test(hello.text) ? new SluiceError('no-access', hello.text.slice(4))
					: errorOf(hello);
			if (db !== 0)
				await this.#demand(socket, ['SELECT', db]);
		} catch (error) {
			return this.#lost(socket, error);
		}
		if (socket !== this.#socket)
			return;
		socket.setTimeout(0);
		this.#state = 'ready';
		this.#backoff = 0;
		this.#cause = null;
		this.#flush();
	}

	/** A command of the greeting: it has the connection's deadline. */
	#ask(socket, words) {
		return new Promise((resolve, reject) => {
			this.#sent.push({again: false, deadline: Infinity, ready: null, waited: false, expired: false, resolve,
				reject, abandoned: undefined, late: undefined});
			socket.write(commandOf(words));
		});
	}

	async #demand(socket, words) {
		const reply = await this.#ask(socket, words);
		if (reply instanceof ErrorReply)
			throw errorOf(reply);
	}

	/** The connection is gone, or never came. */
	#lost(socket, error) {
		if (socket !== this.#socket)
			return;
		const was = this.#state;
		this.#drop();
		this.#cause = error;
		const sent = this.#sent.drain();
		if (was === 'ready') {
			this.#state = 'idle';
			this.#waiting.unshift(sent.filter((one) => one.again && !one.expired));
			for (const one of sent)
				one.again && !one.expired ? (one.again = false) : this.#abandon(one, this.#away());
		} else {
			for (const one of sent)
				this.#refuse(one, error);
			this.#state = 'waiting';
			this.#backoff = Math.min(BACKOFF_MS_MAX, Math.max(BACKOFF_MS_MIN, this.#backoff * 2));
			const wait = this.#backoff * (0.5 + Math.random() / 2);
			this.#retryAt = performance.now() + wait;
			this.#retry = setTimeout(() => this.#wake(), wait);
			this.#failBeyond(this.#retryAt, this.#away());
		}
		if (this.#state === 'idle' && this.#waiting.length > 0)
			this.#connect();
		this.#hold();
	}

	#wake() {
		this.#state = 'idle';
		if (this.#waiting.length > 0)
			this.#connect();
		this.#hold();
	}

	#drop() {
		const socket = this.#socket;
		this.#socket = null;
		if (socket) {
			socket.removeAllListeners();
			socket.on('error', () => {});
			socket.destroy();
		}
	}

	// ---- commands and their answers

	/** Writes what was asked for in this turn of the loop in one piece. */
	#flushSoon() {
		if (this.#flushing || this.#state !== 'ready')
			return;
		this.#flushing = true;
		process.nextTick(() => {
			this.#flushing = false;
			this.#flush();
		});
	}

	#flush() {
		if (this.#state !== 'ready' || this.#waiting.length === 0)
			return;
		const socket = this.#socket, deadline = performance.now() + this.#to.timeout;
		socket.cork();
		while (this.#waiting.length > 0) {
			const one = this.#waiting.shift();
			if (one.ready === socket) // the caller may have been busy since it asked
				one.deadline = deadline;
			this.#sent.push(one);
			socket.write(one.bytes);
			one.bytes = one.again ? one.bytes : null;
		}
		socket.uncork();
	}

	#read(socket, chunk) {
		this.#heard = performance.now();
		try {
			this.#reader.feed(chunk, (reply) => this.#answered(reply));
		} catch (error) {
			this.#lost(socket, new SluiceError('protocol', error.message));
		}
		if (this.#replica && this.#heard - this.#left >= BACKOFF_MS_MAX) {
			this.#left = this.#heard;
			this.#lost(socket, this.#replica);
		}
		this.#replica = null;
		this.#hold();
	}

	#answered(reply) {
		if (this.#sent.length === 0)
			throw new Error('an answer to no question');
		const one = this.#sent.shift();
		if (reply instanceof ErrorReply && reply.text.startsWith('READONLY '))
			this.#replica = errorOf(reply);
		if (one.expired)
			one.late?.(reply);
		else if (reply instanceof ErrorReply && one.deadline !== Infinity)
			one.reject(errorOf(reply));
		else
			one.resolve(reply);
	}

	#refuse(one, error) {
		if (!one.expired) {
			one.expired = true;
			one.reject(error);
		}
	}

	/** Refuses what was sent: the server may have done it. */
	#abandon(one, error) {
		if (!one.expired) {
			this.#refuse(one, error);
			one.abandoned?.();
		}
	}

	#fail(error) {
		for (const one of [...this.#sent.drain(), ...this.#waiting.drain()])
			this.#refuse(one, error);
	}

	/** What waits and can't be sent in time fails now, and what has seen an attempt fail before. */
	#failBeyond(instant, error) {
		for (const one of this.#waiting.drain()) {
			if (one.deadline > instant && !one.waited && error.code === 'away') {
				one.waited = true;
				this.#waiting.push(one);
			} else {
				this.#refuse(one, error);
			}
		}
	}

	// ---- deadlines

	/** Keeps one timer, for the earliest deadline; and the process alive while something is asked. */
	#hold() {
		const busy = this.pending > 0;
		if (this.#socket)
			busy ? this.#socket.ref() : this.#socket.unref();
		this.#retry && (this.#waiting.length > 0 ? this.#retry.ref() : this.#retry.unref());
		if (busy && this.#timer === null) {
			this.#wakeAt(this.#earliest());
		} else if (!busy && this.#timer !== null) {
			clearTimeout(this.#timer);
			this.#timer = null;
		}
	}

	#wakeAt(instant) {
		clearTimeout(this.#timer);
		this.#timerAt = instant;
		// Timers come before sockets are read: what came while the process was busy is read first.
		const timer = setTimeout(() => setImmediate(() => timer === this.#timer && this.#tick()),
			Math.max(1, instant - performance.now()));
		this.#timer = timer;
	}

	#earliest() {
		const now = performance.now(), sent = this.#firstCall(), waiting = this.#waiting.first();
		// An expired one that is waited for all the same is looked at again when the server has been silent for long.
		const of = (one) => one === undefined ? now + SILENCE_MS_MIN
			: one.expired ? Math.max(now + 1, one.deadline + this.#silence()) : one.deadline;
		return Math.min(of(sent), of(waiting), of(this.#firstOpen()));
	}

	/** The first that was sent; of a greeting nobody waits for the answer. */
	#firstCall() {
		for (const one of this.#sent.list())
			if (one.deadline !== Infinity)
				return one;
		return undefined;
	}

	/** The first that was sent and has not expired: deadlines are in the order of the calls. */
	#firstOpen() {
		for (const one of this.#sent.list())
			if (!one.expired && one.deadline !== Infinity)
				return one;
		return undefined;
	}

	#silence() {
		return Math.max(SILENCE_MS_MIN, 3 * this.#to.timeout);
	}

	#tick() {
		this.#timer = null;
		const now = performance.now();
		while (this.#waiting.length > 0 && this.#waiting.first().deadline <= now)
			this.#refuse(this.#waiting.shift(), this.#tooLate());
		for (const one of this.#sent.list()) {
			if (one.deadline === Infinity)
				continue;
			if (one.deadline > now)
				break;
			this.#abandon(one, this.#tooLate());
		}
		const first = this.#firstCall();
		const dead = first && first.expired && now - Math.max(first.deadline, this.#heard) >= this.#silence();
		if (dead)
			this.#lost(this.#socket, new Error(`not a byte for ${Math.round(now - first.deadline)} ms`));
		this.#hold();
	}

	#tooLate() {
		const connecting = this.#state === 'connecting' || this.#state === 'waiting';
		return connecting && this.#cause ? this.#away()
			: new SluiceError('away', `${this.name}: no answer within ${this.#to.timeout} ms`);
	}
}

module.exports = {Connection, ErrorReply};
