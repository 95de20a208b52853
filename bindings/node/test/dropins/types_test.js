/* The types of the drop-ins and of the client, by the compiler: what types.ts says is right or wrong, is. */
'use strict';

const assert = require('node:assert');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');

test('types.ts', (t) => {
	const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sluice-types-'));
	t.after(() => fs.rmSync(folder, { recursive: true }));
	const modules = path.join(folder, 'node_modules');
	fs.mkdirSync(modules);
	for (const name of ['@types', 'undici-types'])
		fs.symlinkSync(path.join(process.env.SLUICE_LIBRARIES, name), path.join(modules, name));
	fs.symlinkSync(process.env.SLUICE_NODE_PACKAGE, path.join(modules, 'sluice'));
	fs.copyFileSync(path.join(__dirname, 'types.ts'), path.join(folder, 'types.ts'));
	const done = spawnSync(process.execPath, [path.join(process.env.SLUICE_LIBRARIES, 'typescript', 'bin', 'tsc'),
		'--noEmit', '--strict', '--target', 'es2022', '--module', 'node16', '--types', 'node', 'types.ts'],
	{ cwd: folder, encoding: 'utf8', timeout: 120000 });
	assert.strictEqual(done.stdout + done.stderr, '');
	assert.strictEqual(done.status, 0);
});
