// The package as users get it: installed from its tarball into an empty folder, by `import` and by `require`; the lines
// of its README; its types; and built from the sources that are in it where nothing is prebuilt.
'use strict';

const assert = require('node:assert/strict');
const {spawnSync} = require('node:child_process');
const {copyFileSync, existsSync, readFileSync, rmSync, writeFileSync} = require('node:fs');
const {join} = require('node:path');
const {before, it} = require('node:test');
const {atEnd, folder} = require('./helpers.js');

const TARBALL = process.env.SLUICE_NODE_TARBALL;
const DEPS = join(__dirname, 'deps');

function run(cwd, command, args, env = {}) {
	const done = spawnSync(command, args, {cwd, encoding: 'utf8', timeout: 300000, env: {...process.env, ...env}});
	assert.equal(done.status, 0, `${command} ${args.join(' ')}\n${done.stdout}${done.stderr}`);
	return done.stdout;
}

let place;
before(() => {
	place = folder();
	writeFileSync(join(place, 'package.json'), '{"private": true}');
	run(place, 'npm', ['install', '--offline', '--no-audit', '--no-fund', TARBALL]);
	atEnd(() => rmSync('/dev/shm/sluice-readme', {force: true}));
});

/** The js blocks of the README, in their order. */
function blocks() {
	const text = readFileSync(join(place, 'node_modules/sluice/README.md'), 'utf8');
	return [...text.matchAll(/^```js\n(.*?)^```$/gms)].map((found) => found[1]);
}

it('the first lines of its README limit', () => {
	const lines = blocks()[0].replace("'100/1m'", "'2/24h'").replace("'shared:readme'", "'./counters'");
	assert.equal(lines.trim().split('\n').length, 5);
	writeFileSync(join(place, 'first.mjs'), lines);
	const said = [1, 2, 3].map(() => run(place, process.execPath, ['first.mjs']).trim());
	assert.deepEqual(said.slice(0, 2), ['allowed, 1 left', 'allowed, 0 left']);
	assert.match(said[2], /^denied, retry in \d+ ms$/);
});

it('all lines of its README run', () => {
	const all = blocks(), [first, ...others] = [all[0].replace(/^await limiter.close.*$/m, ''), ...all.slice(1)];
	assert.ok(others.length >= 3);
	writeFileSync(join(place, 'all.mjs'), [first, ...others].join('\n'));
	assert.match(run(place, process.execPath, ['all.mjs']), /^allowed, \d+ left\ntrue\n$/);
});

it('import and require have the same classes', () => {
	writeFileSync(join(place, 'both.mjs'), `
		import {createRequire} from 'node:module';
		import * as sluice from 'sluice';
		const required = createRequire(import.meta.url)('sluice');
		for (const name of Object.keys(required))
			if (required[name] !== sluice[name])
				throw new Error(name);
		console.log(Object.keys(required).sort().join(' '));`);
	assert.equal(run(place, process.execPath, ['both.mjs']).trim(), 'Lease Limited Limiter Result SluiceError');
});

it('has no dependencies, and nothing of the tests', () => {
	const list = run(place, 'npm', ['ls', '--all', '--parseable']).trim().split('\n');
	assert.equal(list.length, 2, list.join(' '));
	const files = run(place, 'tar', ['tzf', TARBALL]).split('\n');
	assert.ok(!files.some((file) => /node_modules|_test\.|\/bench\//.test(file)));
	assert.ok(files.includes('package/prebuilds/linux-x64-glibc/sluice.node'));
	assert.ok(files.includes('package/LICENSE') && files.includes('package/README.md'));
});

it('says on another machine that a server is to be used, and works with one', () => {
	const lines = `Object.defineProperty(process, 'arch', {value: 'arm64'});
		const {Limiter} = require('sluice');
		try { new Limiter(); } catch (error) { console.log(error.code, error.message); }
		new Limiter({store: 'redis://127.0.0.1:1'}).check('k', '1/1h').catch((error) => console.log(error.code));`;
	const said = run(place, process.execPath, ['-e', lines], {SLUICE_NODE_ADDON: ''}).trim().split('\n');
	assert.match(said[0], /^no-binary a store in process is for linux x64 alone, not linux-arm64-glibc: use a server/);
	assert.equal(said[1], 'away');
});

it('asks nobody for the names of peers when it is loaded', () => {
	const lines = `process.report.getReport = () => { throw new Error('it looks up names'); };
		const {Limiter} = require('sluice');
		console.log(new Limiter().checkSync('k', '1/1h').allowed);`;
	assert.equal(run(place, process.execPath, ['-e', lines], {SLUICE_NODE_ADDON: ''}).trim(), 'true');
});

it('its types are those of the class', (t) => {
	if (!existsSync(join(DEPS, 'node_modules', 'typescript'))) {
		const done = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'],
			{cwd: DEPS, encoding: 'utf8'});
		if (done.status !== 0)
			return t.skip(`typescript can't be had: ${done.stderr.split('\n')[0]}`);
	}
	copyFileSync(join(__dirname, 'types.mts'), join(place, 'types.mts'));
	writeFileSync(join(place, 'plain.cts'), `import sluice = require('sluice');
		const one: sluice.Result = new sluice.Limiter().checkSync('k', '1/1s');
		export = one;`);
	run(place, process.execPath, [join(DEPS, 'node_modules/typescript/bin/tsc'), '--strict', '--noEmit',
		'--module', 'nodenext', '--target', 'es2022', '--lib', 'es2023,esnext.disposable,dom', '--typeRoots', './none',
		'types.mts', 'plain.cts']);
});

it('is built of its own sources where nothing is prebuilt', () => {
	const own = join(place, 'node_modules/sluice');
	rmSync(join(own, 'prebuilds'), {recursive: true});
	const script = 'console.log(new (require("sluice").Limiter)().checkSync("k", "5/1m").remaining)';
	const without = spawnSync(process.execPath, ['-e', script], {cwd: place, encoding: 'utf8'});
	assert.match(without.stderr, /no-binary/);
	const said = run(own, process.execPath, ['scripts/install.js'], {CFLAGS: '-O0'});
	assert.match(said, /building it\nsluice: built$/m);
	assert.equal(run(place, process.execPath, ['-e', script]).trim(), '4');
	// No compiler: it is installed all the same, and says what is missing.
	rmSync(join(own, 'build'), {recursive: true});
	assert.match(run(own, process.execPath, ['scripts/install.js'], {CC: '/no/compiler'}), /there is no C compiler/);
});
