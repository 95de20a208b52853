/* The server's HTTP interface. Who signs in is kept as an Authorization header until the tab is closed, and sent with
 * every request. Cookies go along for a proxy in front that wants one; the server knows none. It challenges by Bearer
 * alone, so a 401 is answered by our form, not by the browser's own. */

const KEPT = 'sluice-authorization';
let authorization = null;
try {
	authorization = sessionStorage.getItem(KEPT);
} catch {
	// Storage is refused: the sign-in holds until the page is left.
}

export const isSignedIn = () => authorization !== null;

export function signOut() {
	authorization = null;
	try {
		sessionStorage.removeItem(KEPT);
	} catch {
		// As above.
	}
}

/* A password goes with a user's name, a token goes alone. */
export function signIn(user, secret) {
	const utf8 = (text) => String.fromCharCode(...new TextEncoder().encode(text));
	authorization = user === '' ? `Bearer ${secret}` : `Basic ${btoa(utf8(`${user}:${secret}`))}`;
	try {
		sessionStorage.setItem(KEPT, authorization);
	} catch {
		// As above.
	}
}

/* What a request that was not answered by 200 or 429 came to. status is 0 where there was no answer at all. */
export class Refused extends Error {
	constructor(status, detail) {
		super(detail);
		this.status = status;
	}
}

const TIMEOUT_MS = 10000;

/* The lines of a stream, each the JSON of a line, until it ends or the signal stops it. By fetch: an EventSource can't
 * send Authorization. */
export async function* follow(path, signal) {
	const headers = authorization === null ? {} : {Authorization: authorization};
	let response;
	try {
		response = await fetch(path, {headers, credentials: 'same-origin', cache: 'no-store', signal});
	} catch (error) {
		throw new Refused(0, error.message);
	}
	if (!response.ok) {
		const problem = await response.json().catch(() => ({}));
		throw new Refused(response.status, problem.detail ?? `status ${response.status}`);
	}
	let text = '';
	for (const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();;) {
		const {done, value} = await reader.read();
		if (done)
			return;
		const lines = (text + value).split('\n');
		text = lines.pop();
		for (const line of lines)
			yield JSON.parse(line);
	}
}

/* Asks, and returns the JSON of the answer; a denial (429) is an answer too. */
export async function ask(path, body) {
	const headers = authorization === null ? {} : {Authorization: authorization};
	if (body !== undefined)
		headers['Content-Type'] = 'application/json';
	let response, json;
	try {
		response = await fetch(path, {
			method: body === undefined ? 'GET' : 'POST',
			headers,
			body: body === undefined ? undefined : JSON.stringify(body),
			credentials: 'same-origin',
			cache: 'no-store',
			signal: AbortSignal.timeout(TIMEOUT_MS),
		});
		json = await response.json();
	} catch (error) {
		throw new Refused(response?.ok === false ? response.status : 0, error.message);
	}
	if (!response.ok && response.status !== 429)
		throw new Refused(response.status, json.detail ?? json.title ?? `status ${response.status}`);
	return json;
}
