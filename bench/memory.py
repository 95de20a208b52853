"""Memory for each key: Redis's used_memory for the layouts of the scripts, and the resident growth of a Sluice server.

Redis tells its own used_memory, which leaves out what its allocator wastes. A Sluice server is given a store of a known
size and asked how much of it became resident; a store is sized for its keys beforehand, so bytes a key depend on how
full it is. The figures at a full store come from build/bench/capacity.
"""
import itertools
import time

import harness
from workloads import GET_VALUE, THREE_JSON, THREE_LIMITS, load_script

NOW_MS = 1795263360000  # a literal instant: scripts take the time as an argument
FEW, TEN, HUNDRED, THOUSAND = 60000, 30000, 3000, 300  # keys; a little less than a power of two, as a million is
THREE_SLIDING = ["10k/1s", "120k/1m", "sliding-buckets 240k/1h precision 1m edge drop"]


def used(connection):
    for line in connection.call("INFO", "memory").splitlines():
        if line.startswith("used_memory:"):
            return int(line.split(":")[1])
    harness.die("redis-server tells no used_memory")


def fill(server, keys, words, times=1):
    result = harness.load(server, words, requests=keys * times, keys=keys, sequential=True, pipeline=64)
    if result["errors"]:
        harness.die(f"filling {server.name}: {result['first_error']}")


def script_layouts(server):
    """Layouts of the articles' scripts by name: title, number of keys, the commands that fill it, each over all keys in
    order. Of as many keys as what they are compared with, since a table's size is a power of two."""
    two_bucket, log, three, gcra = [load_script(server, name) for name in ("two_bucket", "log", "three_limit", "gcra")]
    window = NOW_MS // 60000
    counter = [["EVALSHA", two_bucket, 2, f"%k:{window + i}", f"%k:{window + i - 1}", 100, 60000, NOW_MS + 60000 * i]
               for i in range(2)]
    charge = [["EVALSHA", log, 1, "%k", 100, 10000, NOW_MS + 7 * i, "%u"] for i in range(100)]
    thousand = ["EVALSHA", log, 1, "%k", 1000, 10000, NOW_MS, "%u"]  # all at one instant: a score has 8 bytes anyhow
    minutes = [["EVALSHA", three, 1, "%k", THREE_JSON, NOW_MS // 1000 + 60 * i, 1] for i in range(60)]
    return {
        "get": ("string, no expiry (GET)", 1000000, [["SET", "%k", GET_VALUE]]),
        "gcra": ("string of the GCRA script", 1000000, [["EVALSHA", gcra, 1, "%k", 100, 100, 86400000, NOW_MS, 1]]),
        "pair": ("two-bucket counter, both windows", 1000000, counter),
        "log-10": ("sorted-set log, 10 entries", TEN, charge[:10]),
        "log-100": ("sorted-set log, 100 entries", HUNDRED, charge),
        "log-1000": ("sorted-set log, 1,000 entries", THOUSAND, [thousand] * 1000),
        "hash-1": ("three-limit hash, 1 sub-bucket", FEW, minutes[:1]),
        "hash-60": ("three-limit hash, 60 sub-buckets", HUNDRED, minutes),
    }


def our_layouts(check, keys):
    """The same for ours; check(limits, instant) is a command. A log's charges are made at instants of their own."""
    return {
        "window": ("100/60s", keys, [check(["100/60s"], -60000), check(["100/60s"], 0)]),
        "bucket": ("token-bucket 100/1d", keys, [check(["token-bucket 100/1d"], 0)]),
        "log-10": ("sliding-log 10/1h, full", TEN, [check(["sliding-log 10/1h"])] * 10),
        "log-100": ("sliding-log 100/1h, full", HUNDRED, [check(["sliding-log 100/1h"])] * 100),
        "log-1000": ("sliding-log 1k/1h, full", THOUSAND, [check(["sliding-log 1k/1h"])] * 1000),
        "three-1": ("three limits, 1 sub-bucket", FEW, [check(THREE_SLIDING, 0)]),
    }


def module_layouts():
    """Ours in the module. A load argument lets us say the time: relative to now in ms, or a millisecond later with each
    command (%u: six digits that count up), which ends half an hour ago at the latest."""
    now_ms = int(time.time() * 1000)

    def check(limits, after_ms=None):
        at = f"{now_ms // 1000000 - 2}%u" if after_ms is None else now_ms + after_ms
        return ["SLUICE.CHECK", "%k", 1, "AT", at, *limits]
    return {
        **our_layouts(check, 1000000),
        "throttle": ("CL.THROTTLE 99 100 86400", 1000000, [["CL.THROTTLE", "%k", 99, 100, 86400]]),
        "log-10-short": ("sliding-log 10/30s, full", TEN, [["SLUICE.CHECK", "%k", 1, "sliding-log 10/30s"]] * 10),
        "three-60": ("three limits, 60 sub-buckets", HUNDRED,
                     [check(THREE_SLIDING, 60000 * (i - 59)) for i in range(60)]),
    }


def eval_layouts(server):
    sha = load_script(server, "sluice-eval")
    return our_layouts(lambda limits, _=0: ["EVALSHA", sha, 1, "%k", "CHECK", 1, *limits], FEW)


def measure_layouts(server, layouts):
    """Bytes a key of each layout, by name; ends the benchmark when a key went before it was counted."""
    connection = harness.Resp(server.port)
    rows = {}
    for name, (title, keys, commands) in layouts.items():
        connection.call("FLUSHALL")
        before = used(connection)
        for words, same in itertools.groupby(commands):
            fill(server, keys, words, len(list(same)))
        held = connection.call("DBSIZE")
        if held not in (keys, 2 * keys):
            harness.die(f"{title}: {held} keys of {keys} are there")
        rows[name] = {"title": title, "keys": keys, "bytes_per_key": (used(connection) - before) / keys}
    connection.close()
    return rows


def measure_redis():
    server = harness.start_redis("redis-memory")
    rows = measure_layouts(server, script_layouts(server))
    server.stop()
    return rows


# (ours, theirs, at most this part of theirs; None: shown, no goal)
MODULE_GOALS = [
    ("window", "pair", 0.6),
    ("log-10", "log-10", 0.5),
    ("log-100", "log-100", 0.25),
    ("log-1000", "log-1000", 0.05),
    ("log-10-short", "log-10", None),
    ("throttle", "gcra", None),
    ("bucket", "gcra", None),
    ("three-1", "hash-1", None),
    ("three-60", "hash-60", None),
]


def print_parts(side, ours, theirs, goals):
    """Prints ours beside theirs; returns the verdicts."""
    verdicts = []
    for name, other, goal in goals:
        if name not in ours:
            continue
        a, b = ours[name], theirs[other]
        part = a["bytes_per_key"] / b["bytes_per_key"]
        said = "" if goal is None else f"{goal:g}  {'PASS' if part <= goal else 'short'}"
        print(f"  {side + ': ' + a['title']:44} {a['keys']:9,} {a['bytes_per_key']:9.1f}  {b['title']:34}"
              f" {b['bytes_per_key']:9.1f} {part:7.3f} {said}")
        verdicts.append({"side": side, "ours": name, "theirs": other, "part": part, "goal": goal,
                         "bytes_per_key": a["bytes_per_key"], "their_bytes_per_key": b["bytes_per_key"],
                         "pass": goal is None or part <= goal})
    return verdicts


def measure_module(report):
    """used_memory a key of the module and of our script, beside the articles' scripts."""
    theirs = measure_redis()
    server = harness.start_redis("redis-memory-module", harness.module("client-time", "yes"))
    module = measure_layouts(server, module_layouts())
    server.stop()
    server = harness.start_redis("redis-memory-eval")
    script = measure_layouts(server, eval_layouts(server))
    server.stop()
    print(f"\nBytes a key in Redis, used_memory{'':14} {'keys':>9} {'bytes':>9}  {'beside':34} {'bytes':>9}"
          f" {'part':>7} goal")
    report["redis_memory"] = {
        "scripts": theirs, "module": module, "eval": script,
        "parts": print_parts("module", module, theirs, MODULE_GOALS)
        + print_parts("our script", script, theirs, [(ours, other, None) for ours, other, _ in MODULE_GOALS])}


def measure_sluice():
    rows = []
    layouts = [("100/60s", 1000000, "128MiB", ["100/60s"], 1),
               ("sliding-log 100/1h, 10 entries", 100000, "64MiB", ["sliding-log 100/1h"], 10),
               ("sliding-log 100/1h, 100 entries", 100000, "256MiB", ["sliding-log 100/1h"], 100),
               ("three limits, 1 sub-bucket", 100000, "128MiB", THREE_LIMITS, 1)]
    for title, keys, size, limits, times in layouts:
        server = harness.start_sluice("sluice-memory", f"{{memory: {size}, pretouch: false}}")
        before = server.resident()
        for _ in range(times):
            fill(server, keys, ["SLUICE.CHECK", "%k", "1", *limits])
        rows.append({"title": f"{title}, in {size}", "keys": keys,
                     "bytes_per_key": (server.resident() - before) / keys})
        server.stop()
    return rows


def measure(report):
    """Prints the table and keeps it in the report."""
    report["memory"] = {"redis_used": list(measure_redis().values()), "sluice_resident": measure_sluice()}
    print(f"\nBytes a key{'':44} {'keys':>9} {'bytes':>9}")
    for side, title in (("redis_used", "Redis"), ("sluice_resident", "Sluice server, resident growth")):
        for row in report["memory"][side]:
            print(f"  {title + ': ' + row['title']:64} {row['keys']:>9,} {row['bytes_per_key']:9.1f}"[:110])
