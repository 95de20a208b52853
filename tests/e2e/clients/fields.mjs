// Parses structured fields: [kind, value] pairs on standard input, kind "list", "dictionary" or "item". Prints the
// parsed values as JSON, null for what does not parse.
import { parseDictionary, parseItem, parseList } from "structured-headers";
import { readFileSync } from "node:fs";

const plain = ([item, parameters]) => [item, Object.fromEntries(parameters)];
const parse = {
  list: (value) => parseList(value).map(plain),
  dictionary: (value) => Object.fromEntries([...parseDictionary(value)].map(([key, item]) => [key, plain(item)])),
  item: (value) => plain(parseItem(value)),
};
const parsed = JSON.parse(readFileSync(0, "utf8")).map(([kind, value]) => {
  try {
    return parse[kind](value);
  } catch {
    return null;
  }
});
console.log(JSON.stringify(parsed));
