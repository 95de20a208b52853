// Envoy's rate limit service as grpc-js asks it: node grpc.mjs PORT HEX COUNT
//
// Sends the message HEX, COUNT times at once over one connection, then asks a method that is not served. Prints
// {"answers": [hex, ..], "error": {code, details}}: reading messages is the test's.
import { createRequire } from "node:module";

const grpc = createRequire(import.meta.url)("@grpc/grpc-js");
const [port, hex, count] = process.argv.slice(2);
const plain = (bytes) => bytes;

const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
const ask = (path) => new Promise((resolve, reject) => {
  client.makeUnaryRequest(path, plain, plain, Buffer.from(hex, "hex"), new grpc.Metadata(),
    { deadline: Date.now() + 20000 }, (error, answer) => (error ? reject(error) : resolve(answer.toString("hex"))));
});

const service = "/envoy.service.ratelimit.v3.RateLimitService/";
const answers = await Promise.all(Array.from({ length: Number(count) }, () => ask(service + "ShouldRateLimit")));
const error = await ask(service + "Other").catch(({ code, details }) => ({ code, details }));
client.close();
console.log(JSON.stringify({ answers, error }));
