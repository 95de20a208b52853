// A command as bytes: an array of bulk strings.
'use strict';

/** Words are strings, whole numbers or Uint8Arrays. A string where it can be: sockets write those fastest. */
function commandOf(words) {
	let text = `*${words.length}\r\n`;
	const parts = [];
	for (const word of words) {
		if (typeof word === 'string') {
			text += `$${Buffer.byteLength(word)}\r\n${word}\r\n`;
		} else if (typeof word === 'number') {
			const digits = String(word);
			text += `$${digits.length}\r\n${digits}\r\n`;
		} else {
			parts.push(Buffer.from(`${text}$${word.length}\r\n`), word);
			text = '\r\n';
		}
	}
	return parts.length === 0 ? text : Buffer.concat([...parts, Buffer.from(text)]);
}

module.exports = {commandOf};
