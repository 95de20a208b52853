// Run by npm when the package is installed: nothing is to be done where the native part is prebuilt and loads.
// Elsewhere on linux x64 it is built from the sources in the package, by the machine's own C compiler: it takes some
// 20 s, and wants libyaml (Debian libyaml-dev, Alpine yaml-dev) and Node's headers (with Node, or Alpine's nodejs-dev).
//
// An installation never fails by this: over RESP nothing native is used, and a store in process says what is missing.
'use strict';

const {spawnSync} = require('node:child_process');
const {existsSync, mkdirSync, readFileSync} = require('node:fs');
const {dirname, join} = require('node:path');
const {mayBeBuilt, platform, places} = require('../lib/native.js');

const ROOT = join(__dirname, '..');
const FLAGS = ['-std=gnu11', '-O2', '-fPIC', '-fvisibility=hidden', '-fno-strict-aliasing', '-pthread', '-D_GNU_SOURCE',
	'-ffunction-sections', '-w'];

function say(text) {
	console.log(`sluice: ${text}`);
}

function loads(path) {
	return spawnSync(process.execPath, ['-e', `require(${JSON.stringify(path)})`], {stdio: 'ignore'}).status === 0;
}

/** Node's headers: beside node, or where distributions put them. */
function headers() {
	const beside = join(dirname(process.execPath), '..', 'include', 'node');
	return [process.env.SLUICE_NODE_HEADERS, beside, '/usr/include/node', '/usr/include/nodejs/src']
		.find((folder) => folder && existsSync(join(folder, 'node_api.h')));
}

/** Why it can't be built, or null. */
function build() {
	const source = join(ROOT, 'source'), include = headers(), out = join(ROOT, 'build', 'sluice.node');
	if (!mayBeBuilt())
		return 'stores in process are of linux x64 alone';
	if (include === undefined)
		return "Node's headers (node_api.h) were not found; SLUICE_NODE_HEADERS=FOLDER says where they are";
	const files = readFileSync(join(source, 'files.txt'), 'utf8').split('\n').filter((line) => line !== '');
	mkdirSync(dirname(out), {recursive: true});
	const flags = [...FLAGS, ...(process.env.CFLAGS ?? '').split(' ').filter((flag) => flag !== '')];
	const done = spawnSync(process.env.CC || 'cc', [...flags, '-shared', '-Iinclude', '-Isrc', '-I.', `-I${include}`,
		...files, '-o', out, '-Wl,--gc-sections', '-Wl,-z,nodelete', '-lyaml'], {cwd: source, encoding: 'utf8'});
	if (done.error)
		return `there is no C compiler: ${done.error.message}`;
	return done.status === 0 && loads(out) ? null : `it could not be built:\n${done.stderr}`;
}

if (places().some((path) => existsSync(path) && loads(path))) {
	say(`the native part for ${platform()} is there`);
} else if (!existsSync(join(ROOT, 'source'))) {
	say('no native part, and no sources of it: in the repository, run `make bindings`');
} else {
	say(`no native part for ${platform()}: building it`);
	const why = build();
	say(why === null ? 'built' : `${why}\nsluice: installed without it: no store in process, but servers (redis://)`);
}
