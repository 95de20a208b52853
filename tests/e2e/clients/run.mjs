// Drives one real client against a running server and prints what it saw as JSON: node run.mjs CLIENT PORT
//
// CLIENT is a name in package.json, with ":2" or ":3" behind it where the protocol is chosen. Every client does the
// same: it connects as it connects by default, decides, errs, pipelines, and runs fifty calls side by side.
// It logs in where SLUICE_USER and SLUICE_SECRET are set, and speaks TLS where SLUICE_CA names a certificate to trust.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const [name, port] = [process.argv[2], Number(process.argv[3])];
const [packageName, protocol] = name.split(":");

const { SLUICE_USER: username, SLUICE_SECRET: password, SLUICE_CA: caFile } = process.env;
const login = password ? { username, password } : {};
const ca = caFile ? readFileSync(caFile) : null;

// A client, reduced to: call(words) -> promise of a reply, pipeline(list of words) -> promise of replies, close().
async function openIoredis(module) {
  const Redis = module.default ?? module;
  const client = new Redis({
    port, host: "127.0.0.1", ...login,
    ...(ca ? { tls: { ca } } : {}), ...(protocol ? { protocol: Number(protocol) } : {}),
  });
  await new Promise((resolve, reject) => client.once("ready", resolve).once("error", reject));
  return {
    call: (words) => client.call(...words),
    pipeline: async (list) => (await client.pipeline(list.map((words) => ["call", ...words])).exec()).map((r) => r[1]),
    close: () => client.quit(),
  };
}

async function openNodeRedis(module) {
  const client = module.createClient({
    socket: { port, host: "127.0.0.1", ...(ca ? { tls: true, ca } : {}) },
    ...login,
    ...(protocol ? { RESP: Number(protocol) } : {}),
  });
  client.on("error", (error) => { throw error; });
  await client.connect();
  return {
    call: (words) => client.sendCommand(words.map(String)),
    pipeline: (list) => Promise.all(list.map((words) => client.sendCommand(words.map(String)))),
    close: () => (client.close ? client.close() : client.quit()),
  };
}

const open = packageName.startsWith("redis") ? openNodeRedis : openIoredis;
const client = await open(require(packageName));
const key = `client:${name}`;
const seen = { ping: await client.call(["PING"]) };
seen.checks = [];
for (let i = 0; i < 3; i++)
  seen.checks.push(await client.call(["SLUICE.CHECK", key, 1, "fixed-window 2/3660d"]));
seen.peek = await client.call(["SLUICE.PEEK", key, 2, "fixed-window 3/3660d"]);
seen.refund = await client.call(["SLUICE.REFUND", key, 1, "fixed-window 2/3660d"]);
seen.reset = await client.call(["SLUICE.RESET", key, "fixed-window 2/3660d", "10/1m"]);
seen.error = await client.call(["SLUICE.CHECK", key, 1, "nonsense"]).then(() => null, (error) => error.message);
seen.throttle = await client.call(["CL.THROTTLE", key, 15, 30, 60]);
// The module has no policies, so no EXPLAIN.
seen.explain = await client.call(["SLUICE.EXPLAIN", 1, "user", "a,b"]).catch((error) => error.message);
const many = Array.from({ length: 50 }, () => ["SLUICE.CHECK", `${key}:many`, 1, "fixed-window 30/3660d"]);
seen.pipelined = (await client.pipeline(many)).map((reply) => reply[0]);
const side = many.map((words) => client.call([words[0], `${key}:side`, ...words.slice(2)]));
seen.sideBySide = (await Promise.all(side)).map((reply) => reply[0]);
await client.close();
console.log(JSON.stringify(seen));
