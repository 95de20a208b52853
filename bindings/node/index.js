// sluice: rate limiting in process, by memory that the processes of a host share, or at a server. See README.md.
'use strict';

const {Limiter, Lease, Limited, Result, SluiceError} = require('./lib/limiter.js');

module.exports = {Limiter, Lease, Limited, Result, SluiceError};
