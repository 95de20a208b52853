// What parsers of clients make of header fields: a JSON list of {name: value} on standard input; for each what
// ratelimit-header-parser finds, and what our own client reads.
import { parseRateLimit } from "ratelimit-header-parser";
import { readFileSync } from "node:fs";
import client from "../../../bindings/node/client/index.js";

const now = Date.now();
const inSeconds = (date) => (date instanceof Date && !Number.isNaN(date.getTime()) ? (date - now) / 1000 : null);
const found = (headers) => {
  try {
    const got = parseRateLimit(new Headers(headers));
    return got && { limit: got.limit, remaining: got.remaining, reset: inSeconds(got.reset) };
  } catch (error) {
    return { error: String(error) };
  }
};
const ours = (headers) => {
  const lower = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  return client.advise(429, (name) => lower.get(name.toLowerCase()) ?? null, now);
};
const cases = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(cases.map((headers) => ({ parser: found(headers) ?? null, ours: ours(headers) }))));
