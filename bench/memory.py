"""Memory for each key: Redis's used_memory for the layouts of the scripts, and the resident growth of a Sluice server.

Redis tells its own used_memory, which leaves out what its allocator wastes. A Sluice server is given a store of a known
size and asked how much of it became resident; a store is sized for its keys beforehand, so bytes a key depend on how
full it is. The figures at a full store come from build/bench/capacity.
"""
import itertools

import harness
from workloads import GET_VALUE, THREE_JSON, THREE_LIMITS, load_script

NOW_MS = 1795263360000  # a literal instant: scripts take the time as an argument


def used(connection):
    for line in connection.call("INFO", "memory").splitlines():
        if line.startswith("used_memory:"):
            return int(line.split(":")[1])
    harness.die("redis-server tells no used_memory")


def fill(server, keys, words, times=1):
    result = harness.load(server, words, requests=keys * times, keys=keys, sequential=True, pipeline=64)
    if result["errors"]:
        harness.die(f"filling {server.name}: {result['first_error']}")


def redis_layouts(two_bucket, log, three):
    """(title, number of keys, the commands that fill it, each over all keys in order)."""
    window = NOW_MS // 60000
    counter = [["EVALSHA", two_bucket, 2, f"%k:{window + i}", f"%k:{window + i - 1}", 100, 60000, NOW_MS + 60000 * i]
               for i in range(2)]
    charge = [["EVALSHA", log, 1, "%k", 100, 10000, NOW_MS + 7 * i, "%u"] for i in range(100)]
    thousand = ["EVALSHA", log, 1, "%k", 1000, 10000, NOW_MS, "%u"]  # all at one instant: a score has 8 bytes anyhow
    minutes = [["EVALSHA", three, 1, "%k", THREE_JSON, NOW_MS // 1000 + 60 * i, 1] for i in range(60)]
    return [
        ("string, no expiry (GET)", 1000000, [["SET", "%k", GET_VALUE]]),
        ("two-bucket counter, both windows", 200000, counter),
        ("sorted-set log, 10 entries", 100000, charge[:10]),
        ("sorted-set log, 100 entries", 10000, charge),
        ("sorted-set log, 1,000 entries", 1000, [thousand] * 1000),
        ("three-limit hash, 1 sub-bucket", 100000, minutes[:1]),
        ("three-limit hash, 60 sub-buckets", 5000, minutes),
    ]


def measure_redis():
    server = harness.start_redis("redis-memory")
    connection = harness.Resp(server.port)
    scripts = [load_script(server, name) for name in ("two_bucket", "log", "three_limit")]
    rows = []
    for title, keys, commands in redis_layouts(*scripts):
        connection.call("FLUSHALL")
        before = used(connection)
        for words, same in itertools.groupby(commands):
            fill(server, keys, words, len(list(same)))
        rows.append({"title": title, "keys": keys, "bytes_per_key": (used(connection) - before) / keys})
    connection.close()
    server.stop()
    return rows


def measure_sluice():
    rows = []
    layouts = [("100/60s", 1000000, "128MiB", ["100/60s"], 1),
               ("sliding-log 100/1h, 10 entries", 100000, "64MiB", ["sliding-log 100/1h"], 10),
               ("sliding-log 100/1h, 100 entries", 100000, "256MiB", ["sliding-log 100/1h"], 100),
               ("three limits, 1 sub-bucket", 100000, "128MiB", THREE_LIMITS, 1)]
    for title, keys, size, limits, times in layouts:
        server = harness.start_sluice("sluice-memory", size)
        before = server.resident()
        for _ in range(times):
            fill(server, keys, ["SLUICE.CHECK", "%k", "1", *limits])
        rows.append({"title": f"{title}, in {size}", "keys": keys,
                     "bytes_per_key": (server.resident() - before) / keys})
        server.stop()
    return rows


def measure(report):
    """Prints the table and keeps it in the report."""
    report["memory"] = {"redis_used": measure_redis(), "sluice_resident": measure_sluice()}
    print(f"\nBytes a key{'':44} {'keys':>9} {'bytes':>9}")
    for side, title in (("redis_used", "Redis"), ("sluice_resident", "Sluice server, resident growth")):
        for row in report["memory"][side]:
            print(f"  {title + ': ' + row['title']:64} {row['keys']:>9,} {row['bytes_per_key']:9.1f}"[:110])
