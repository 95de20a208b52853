"""Requests a second, and CPU a request, of whole applications with each limiter, in one run:

    make bindings && bindings/node/test/run --install && bindings/python/test/package bindings/bench/apps.py [REQUESTS]

The same page by Express and by FastAPI, with no limiter, with ours and with others, by h2load over 32 connections.
All applications are up; each is asked in short turns, one after the other and again, so that what else the machine does
meets all of them; medians of the turns. CPU is the application's and, where there is one, the server's. A quota that
nobody reaches: each request is counted and allowed. Wants npm, redis-server, h2load and build/sluice."""
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from harness import Server, wait_until  # noqa: E402
from ports import free_port  # noqa: E402

TURNS, CONNECTIONS = 7, 32
TICK = os.sysconf("SC_CLK_TCK")
SLUICE = os.path.join(ROOT, "build", "sluice")
PACKAGE = os.path.join(ROOT, "build", "bindings", "node", "installed", "node_modules", "sluice")
BENCH = os.path.join(ROOT, "bindings", "node", "bench")

EXPRESS = """
const express = require('express');
const app = express();
%s
app.get('/', (request, response) => response.json({fine: true}));
app.listen(%d, '127.0.0.1');
"""
OURS = "app.use(require(process.env.SLUICE_PACKAGE + '/express/index.js').sluice({store: '%s', limits: '1M/1m'}));"
THEIRS = ("app.use(require('express-rate-limit').rateLimit("
          "{windowMs: 60000, limit: 1000000, standardHeaders: 'draft-8'}));")
FLEXIBLE = """
const {RateLimiterMemory, RateLimiterRedis} = require('rate-limiter-flexible');
const flexible = %s;
app.use((request, response, next) => flexible.consume(request.ip).then((told) => {
	response.set('X-RateLimit-Remaining', told.remainingPoints);
	next();
}, () => response.status(429).end()));
"""
IN_MEMORY = "new RateLimiterMemory({points: 1000000, duration: 60})"
ON_REDIS = "new RateLimiterRedis({storeClient: new (require('ioredis'))(%d), points: 1000000, duration: 60})"

FASTAPI = """
import uvicorn
from fastapi import FastAPI, Request
app = FastAPI()
%s
async def index(request: Request):
    return {"fine": True}


uvicorn.run(app, host="127.0.0.1", port=%d, log_level="error", access_log=False)
"""
PLAIN = '@app.get("/")'
ASGI = """
from sluice.asgi import RateLimit
app.add_middleware(RateLimit, limits="1M/1m", store="%s")
""" + PLAIN
SLOWAPI = """
from slowapi import Limiter
from slowapi.util import get_remote_address
app.state.limiter = limiter = Limiter(key_func=get_remote_address, storage_uri="%s")
@app.get("/")
@limiter.limit("1000000/minute")
"""


def cpu_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


class App:
    """An application in a process of its own; ended by its id."""

    def __init__(self, name, text, folder, server=None):
        self.name, self.port, self.server = name, free_port(), server
        self.rates, self.cpu = [], []
        node = "express" in text
        path = os.path.join(BENCH if node else folder, f"app-{os.getpid()}-{self.port}.{'cjs' if node else 'py'}")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text.replace("%d", str(self.port)))
        self.path = path
        self.process = subprocess.Popen(["node" if node else sys.executable, path], cwd=os.path.dirname(path),
                                        env={**os.environ, "SLUICE_PACKAGE": PACKAGE, "NODE_ENV": "production"})
        wait_until(lambda: self.ask(1), name + " answers")

    def spent(self):
        return cpu_of(self.process.pid) + (cpu_of(self.server) if self.server else 0)

    def ask(self, requests):
        """Requests a second; None where it does not answer."""
        said = subprocess.run(["h2load", "--h1", "-n", str(requests), "-c", str(min(CONNECTIONS, requests)),
                               f"http://127.0.0.1:{self.port}/"], capture_output=True, text=True, check=False).stdout
        found = re.search(r"([0-9.]+) req/s", said)
        good = re.search(r"status codes: (\d+) 2xx", said)
        return float(found.group(1)) if found and good and int(good.group(1)) == requests else None

    def turn(self, requests, counts):
        cpu, rate = self.spent(), self.ask(requests)
        if rate is None:
            raise SystemExit(f"{self.name}: not all of the requests were answered by 200")
        if counts:
            self.rates.append(rate)
            self.cpu.append((self.spent() - cpu) / requests * 1e6)

    def stop(self):
        self.process.kill()
        self.process.wait()
        os.unlink(self.path)


def redis(folder):
    port = free_port()
    process = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                                "--dir", folder], stdout=subprocess.DEVNULL)
    return process, port


def apps(folder, server, there, port):
    ours, pid = f"redis://127.0.0.1:{server.resp_port}", server.process.pid
    express = (("no limiter", "", None), ("sluice, memory", OURS % "memory", None),
               ("sluice, a file shared by processes", OURS % os.path.join(folder, "counters"), None),
               ("sluice, at a server", OURS % ours, pid), ("express-rate-limit, MemoryStore", THEIRS, None),
               ("rate-limiter-flexible, memory", FLEXIBLE % IN_MEMORY, None),
               ("rate-limiter-flexible, Redis", FLEXIBLE % (ON_REDIS % port), there))
    fastapi = (("no limiter", PLAIN, None), ("sluice, memory", ASGI % "memory", None),
               ("sluice, a file shared by processes", ASGI % os.path.join(folder, "counters"), None),
               ("sluice, at a server", ASGI % ours, pid), ("slowapi, limits memory", SLOWAPI % "memory://", None),
               ("slowapi, limits Redis", SLOWAPI % f"redis://127.0.0.1:{port}", there))
    made = []
    for framework, text, list_ in (("Express", EXPRESS, express), ("FastAPI", FASTAPI, fastapi)):
        for name, limiter, process in list_:
            made.append(App(f"{framework}, {name}", text.replace("%s", limiter.strip("\n"), 1), folder, process))
    return made


def main():
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    made = []
    with tempfile.TemporaryDirectory() as folder:
        server, (there, port) = Server(SLUICE, "limits: []\n"), redis(folder)
        try:
            made = apps(folder, server, there.pid, port)
            for turn in range(-1, TURNS):  # the first is for compilers
                for app in made:
                    app.turn(requests, turn >= 0)
        finally:
            for app in made:
                app.stop()
            there.kill()
            there.wait()
            server.stop()
    print(f"{requests} requests a turn, {TURNS} turns, load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}\n")
    print("| | requests a second | CPU us a request |\n| --- | --- | --- |")
    for app in made:
        print(f"| {app.name} | {statistics.median(app.rates):,.0f} | {statistics.median(app.cpu):.0f} |")


if __name__ == "__main__":
    main()
