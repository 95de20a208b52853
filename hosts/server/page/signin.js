/* The sign-in form: shown when the server says 401, or when it is asked for. */

import {signIn} from './api.js';
import {byId, say} from './dom.js';

export class SignIn {
	/* onSigned() is called with what was typed kept; whether that is right, its requests will tell. */
	constructor(onSigned) {
		this.dialog = byId('sign-in');
		byId('sign-in-cancel').addEventListener('click', () => this.dialog.close());
		byId('sign-in-form').addEventListener('submit', (event) => {
			event.preventDefault();
			signIn(byId('sign-in-user').value, byId('sign-in-secret').value);
			byId('sign-in-secret').value = '';
			this.dialog.close();
			onSigned();
		});
	}

	open(why) {
		if (this.dialog.open)
			return;
		this.dialog.showModal();
		say(byId('sign-in-why'), why);
		byId('sign-in-user').focus();
	}
}
