// Parses header fields with an RFC 9651 parser: a JSON list of values on standard input, each parsed as a List.
// Prints, for each, its members as [item, {parameters}], with the kind of the item: a String is what a name must be.
import { parseList } from "structured-headers";
import { readFileSync } from "node:fs";

const values = JSON.parse(readFileSync(0, "utf8"));
const parsed = values.map((value) => parseList(value).map(([item, parameters]) =>
  [typeof item, item, Object.fromEntries(parameters)]));
console.log(JSON.stringify(parsed));
