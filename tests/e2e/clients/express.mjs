// express-rate-limit as its users run it: for each of the options on standard input, four requests to a limit of three
// a day. Prints, for each, the status and the header lines of each answer, as they came.
import express from "express";
import { rateLimit } from "express-rate-limit";
import http from "node:http";
import { readFileSync } from "node:fs";

const ask = (port) => new Promise((resolve, reject) => {
  http.get({ port, host: "127.0.0.1", path: "/", agent: false }, (answer) => {
    const lines = [];
    for (let i = 0; i < answer.rawHeaders.length; i += 2)
      lines.push([answer.rawHeaders[i], answer.rawHeaders[i + 1]]);
    answer.resume().on("end", () => resolve([answer.statusCode, lines]));
  }).on("error", reject);
});

const told = [];
for (const options of JSON.parse(readFileSync(0, "utf8"))) {
  const app = express();
  app.use(rateLimit({ windowMs: 86400000, limit: 3, ...options }));
  app.get("/", (_, answer) => answer.send("ok"));
  const server = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const answers = [];
  for (let i = 0; i < 4; i++)
    answers.push(await ask(server.address().port));
  told.push(answers);
  server.close();
}
console.log(JSON.stringify(told));
