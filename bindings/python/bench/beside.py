"""Nanoseconds, and CPU, of a check beside `limits` in memory and in Redis, in one run:

    bindings/python/test/package bindings/python/bench/beside.py [SECONDS]

A hot key, and 100,000 keys in random order. Each row is measured in short turns, one after the other and again, so that
what else the machine does meets all of them; medians of the turns. CPU is this process's and, of what asks a server,
the server's. A redis-server of its own is started if there is one, and ended."""
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "test"))
import world  # noqa: E402
import sluice  # noqa: E402
import sluice.limits  # noqa: E402
from harness import Server, wait_until  # noqa: E402

import limits  # noqa: E402
import limits.storage  # noqa: E402
import limits.strategies  # noqa: E402

KEYS = 100_000
TICK = os.sysconf("SC_CLK_TCK")


class Row:
    def __init__(self, name, call, batch, server=None):
        self.name, self.call, self.batch, self.server = name, call, batch, server
        self.wall, self.cpu = [], []

    def turn(self, keys):
        call, begun, cpu = self.call, time.perf_counter(), self.spent()
        for key in keys[:self.batch]:
            call(key)
        count = min(self.batch, len(keys))
        self.wall.append((time.perf_counter() - begun) / count * 1e9)
        self.cpu.append((self.spent() - cpu) / count * 1e9)

    def spent(self):
        mine = time.process_time()
        if self.server is None:
            return mine
        with open(f"/proc/{self.server}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return mine + (int(fields[11]) + int(fields[12])) / TICK


class RedisServer:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.socket = os.path.join(self.folder.name, "redis.sock")
        self.process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "",
                                         "--dir", self.folder.name], stdout=subprocess.DEVNULL)
        wait_until(lambda: os.path.exists(self.socket), "redis-server listens")

    def stop(self):
        self.process.terminate()
        self.process.wait(20)
        self.folder.cleanup()


def of_limits(url, strategy, item):
    limiter = strategy(limits.storage.storage_from_string(url))
    return lambda key: limiter.hit(item, key)


def rows(shared, server, redis):
    item = limits.RateLimitItemPerMinute(1_000_000)
    moving, fixed = limits.strategies.MovingWindowRateLimiter, limits.strategies.FixedWindowRateLimiter
    sliding = limits.strategies.SlidingWindowCounterRateLimiter
    made = []
    for store in ("memory", shared):
        check = sluice.Limiter(store, memory="64MiB").check
        made.append(Row(f"sluice {store.split(':')[0]}", lambda key, check=check: check(key, "1M/1m"), KEYS))
    remote = sluice.Limiter(f"redis://127.0.0.1:{server.resp_port}", timeout=10000).check
    made.append(Row("sluice, at a server", lambda key: remote(key, "1M/1m"), 2000, server.process.pid))
    made.append(Row("limits by sluice+memory, fixed", of_limits("sluice+memory://", fixed, item), KEYS // 4))
    made.append(Row("limits by sluice+memory, sliding", of_limits("sluice+memory://", sliding, item), KEYS // 4))
    made.append(Row("limits memory, fixed-window", of_limits("memory://", fixed, item), KEYS // 4))
    made.append(Row("limits memory, sliding-window-counter", of_limits("memory://", sliding, item), KEYS // 8))
    made.append(Row("limits memory, moving-window (100)",
                    of_limits("memory://", moving, limits.RateLimitItemPerMinute(100)), KEYS // 8))
    if redis is not None:
        for name, strategy in (("fixed-window", fixed), ("sliding-window-counter", sliding)):
            made.append(Row("limits Redis, " + name, of_limits("redis+unix://" + redis.socket, strategy, item), 2000,
                            redis.process.pid))
    return made


def measure(title, made, keys, seconds):
    end = time.monotonic() + seconds
    turns = 0
    while turns < 3 or time.monotonic() < end:
        for row in made:
            row.turn(keys)
        turns += 1
    print(f"\n{title}: medians of {turns} turns\n{'':40}{'ns':>9}{'CPU ns':>9}{'times':>8}")
    first = statistics.median(made[0].cpu)
    for row in made:
        wall, cpu = statistics.median(row.wall), statistics.median(row.cpu)
        print(f"{row.name:40}{wall:9.0f}{cpu:9.0f}{cpu / first:8.1f}")
        row.wall, row.cpu = [], []


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20
    shared, server = "shared:" + world.shared_name("bench"), Server(world.SLUICE, "limits: []\n")
    redis = RedisServer() if shutil.which("redis-server") else None
    try:
        made = rows(shared, server, redis)
        print(f"Python {sys.version.split()[0]}, limits {limits.__version__}; `times` is of the first row's CPU")
        measure("a hot key", made, ["user:42"] * KEYS, seconds / 2)
        many = [f"user:{i}" for i in range(KEYS)]
        random.shuffle(many)
        measure("100,000 keys", made, many, seconds / 2)
    finally:
        server.stop()
        sluice.forget(shared[7:])
        if redis is not None:
            redis.stop()


if __name__ == "__main__":
    main()
