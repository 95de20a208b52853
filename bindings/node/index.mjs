// The same classes for `import`: one copy of each, whoever loads them how.
export {Limiter, Lease, Limited, Result, SluiceError} from './index.js';
