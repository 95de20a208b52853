/* Put in place of @fastify/rate-limit's index.js by fastify_test.js: what is registered without a store has ours. Time
 * is Date's, which its tests steer; it begins late enough for a first instant of 0. */
'use strict';

const path = require('node:path');
const theirs = require('./theirs.js');

const { Limiter } = require(process.env.SLUICE_NODE_PACKAGE);
const { storeOf } = require(path.join(process.env.SLUICE_NODE_PACKAGE, 'fastify'));

const BEGIN = 1728000000000;
let registered = 0;

function withOurStore(fastify, options) {
	if (options.store || options.redis)
		return theirs(fastify, options);
	const limiter = new Limiter({ store: 'memory', memory: '1MiB', clock: () => BEGIN + Date.now() % BEGIN });
	return theirs(fastify, { ...options, store: storeOf({ limiter, algorithm: 'sliding-log',
		prefix: `${registered++}:` }) });
}

module.exports = Object.assign(withOurStore, theirs);
for (const symbol of Object.getOwnPropertySymbols(theirs))
	module.exports[symbol] = theirs[symbol];
module.exports.default = withOurStore;
