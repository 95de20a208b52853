// ioredis' Cluster client against nodes that run the module: node cluster.mjs PACKAGE HOST PORT KEYS
//
// Prints what it saw as JSON: the replies to a check of each key, peeks side by side, a pipeline in one slot, errors.
// ioredis knows no keys of commands that are not Redis' own: it asks any node, and follows MOVED.
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const [packageName, host, port, count] = process.argv.slice(2);
const { Cluster } = require(packageName);
const cluster = new Cluster([{ host, port: Number(port) }]);
await new Promise((resolve, reject) => cluster.once("ready", resolve).once("error", reject));

const limit = "fixed-window 3/3660d";
const keys = Array.from({ length: Number(count) }, (_, i) => `${packageName}:${i}`);
const seen = { checks: [], peeks: [] };
for (const key of keys) seen.checks.push(await cluster.call("SLUICE.CHECK", key, 1, limit));
seen.peeks = await Promise.all(keys.map((key) => cluster.call("SLUICE.PEEK", key, 1, limit)));
const pair = ["SLUICE.CHECK", `{${packageName}}:a`, 1, limit, "KEY", `{${packageName}}:b`, limit];
seen.pair = await cluster.call(...pair);
seen.pipeline = (await cluster.pipeline([["call", ...pair], ["call", ...pair], ["call", ...pair]]).exec())
  .map(([error, reply]) => (error ? error.message : reply));
const message = (words) => cluster.call(...words).then(() => null, (error) => error.message);
seen.crossslot = await message(["SLUICE.CHECK", "a", 1, limit, "KEY", "b", limit]);
seen.malformed = await message(["SLUICE.CHECK", "a", 1, "3/1x"]);
seen.beside = await Promise.all(Array.from({ length: 50 },
  () => cluster.call("SLUICE.CHECK", `${packageName}:hot`, 1, limit)));
seen.reset = await cluster.call("SLUICE.RESET", keys[0], limit);
await cluster.quit();
console.log(JSON.stringify(seen));
