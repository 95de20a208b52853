// A queue: first in, first out, at a constant cost each.
'use strict';

class Fifo {
	#items = [];
	#head = 0;

	get length() {
		return this.#items.length - this.#head;
	}

	first() {
		return this.#items[this.#head];
	}

	push(item) {
		this.#items.push(item);
	}

	/** Puts a list before all others. */
	unshift(list) {
		this.#items = list.concat(this.#items.slice(this.#head));
		this.#head = 0;
	}

	shift() {
		const item = this.#items[this.#head];
		this.#items[this.#head++] = undefined;
		if (this.#head === this.#items.length) {
			this.#items.length = 0;
			this.#head = 0;
		} else if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
			this.#items.splice(0, this.#head);
			this.#head = 0;
		}
		return item;
	}

	/** All of them, first first. */
	*list() {
		for (let i = this.#head; i < this.#items.length; i++)
			yield this.#items[i];
	}

	/** Takes all. */
	drain() {
		const all = this.#items.slice(this.#head);
		this.#items.length = 0;
		this.#head = 0;
		return all;
	}
}

module.exports = {Fifo};
