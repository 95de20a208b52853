"""A front before Redis: what a decision costs the front and the Redis behind it, beside asking the module directly.

Front and Redis share the servers' core, the client has the other one, so requests a second are what one core does for
both; CPU times are each one's own. One row asks a Redis without the module, by script (bench/scriptcost.py counts its
instructions). A front saves Redis work where it can decide by itself: a hot key of whose quota it
holds a slice, and a denial that is known. `strict: true` asks every time, which is what a front costs at worst. Each
limit's on-error is the opposite of what its row expects: an answer that Redis had no part in is not "as meant".
"""
import statistics
import sys
import time

import harness
from rounds import CONNECTIONS, LOG_ROUNDS, RUN_MS, WARMUP_MS

MILLION = 1000000
POLICY = """limits:
  - {name: each, when: {way: each}, key: user, limit: 100/1h, on-error: deny}
  - {name: strict, when: {way: strict}, key: user, limit: 100/1h, strict: true, on-error: deny}
  - {name: hot, when: {way: hot}, key: user, limit: 100M/1s, on-error: deny}
  - {name: hot-strict, when: {way: hot-strict}, key: user, limit: 100M/1s, strict: true, on-error: deny}
  - {name: denied, when: {way: denied}, key: user, limit: 10/1h, on-error: allow}
  - {name: denied-strict, when: {way: denied-strict}, key: user, limit: 10/1h, strict: true, on-error: allow}
"""


def admit(way):
    return ["SLUICE.ADMIT", "1", "way", way, "user", "%k"]


# name, title, what is asked (the module, a front of it, a front by script), the command, keys, what most answers begin
# with
ROWS = [
    ("direct", "module asked directly, 100/1h", "module", ["SLUICE.CHECK", "%k", "1", "100/1h"], MILLION, 1),
    ("strict", "front, strict", "front", admit("strict"), MILLION, 1),
    ("by-script", "front by script, strict, 100 k keys", "script", admit("strict"), 100000, 1),
    ("each", "front, slices for keys that are hot", "front", admit("each"), MILLION, 1),
    ("hot-direct", "module, one hot key", "module", ["SLUICE.CHECK", "%k", "1", "100M/1s"], 1, 1),
    ("hot-strict", "front, one hot key, strict", "front", admit("hot-strict"), 1, 1),
    ("hot", "front, one hot key, slices", "front", admit("hot"), 1, 1),
    ("denied-direct", "module, 1,000 keys denied", "module", ["SLUICE.CHECK", "%k", "1", "10/1h"], 1000, 0),
    ("denied-strict", "front, 1,000 keys denied, strict", "front", admit("denied-strict"), 1000, 0),
    ("denied", "front, 1,000 keys denied, remembered", "front", admit("denied"), 1000, 0),
]


def words_of(row):
    return [word.replace("%k", row[0] + ":%k") for word in row[3]]


def fill(row, asked):
    """Every key once, so that what is timed meets keys that are there."""
    harness.load(asked[row[2]][0], words_of(row), requests=row[4], keys=row[4], sequential=True, pipeline=64)


def one_run(row, asked, pipeline):
    name, _, what, _, keys, leading = row
    server, behind = asked[what]
    by_front = behind is not None
    how = {"behind_pid": behind.pid} if by_front else {}
    run = harness.load(server, words_of(row), connections=CONNECTIONS, pipeline=pipeline,
                       keys=keys, run_ms=RUN_MS, warmup_ms=WARMUP_MS, seed=time.monotonic_ns() % 2**62, **how)
    if run["errors"]:
        harness.die(f"{name}: {run['errors']} errors, the first one: {run['first_error']}")
    run["front_us_per_op"] = run["server_us_per_op"] if by_front else 0
    run["redis_us_per_op"] = run["behind_us_per_op"] if by_front else run["server_us_per_op"]
    run["expected"] = run[f"leading_{leading}"] / run["ops"]
    return run


def middle(runs, name):
    return statistics.median(run[name] for run in runs)


def print_rows(results):
    for pipeline in (1, 64):
        print(f"\nThrough a front, {CONNECTIONS} connections, pipeline {pipeline}; front and Redis on one core")
        print(f"  {'':44} {'front CPU us/op':>15} {'Redis CPU us/op':>16} {'ops/s':>10} {'p50 us':>8} {'p99 us':>8}"
              f" {'as meant':>8}")
        for name, title, what, _, _, _ in ROWS:
            runs = results[name, pipeline]
            front = f"{middle(runs, 'front_us_per_op'):.3f}" if what != "module" else ""
            print(f"  {title:44} {front:>15} {middle(runs, 'redis_us_per_op'):16.4f}"
                  f" {middle(runs, 'ops_per_s'):10,.0f} {middle(runs, 'p50_us'):8.0f} {middle(runs, 'p99_us'):8.0f}"
                  f" {100 * middle(runs, 'expected'):6.1f} %")


def measure(report):
    """Prints the tables and keeps them in the report."""
    redis = harness.start_redis("redis-behind", harness.module())
    plain = harness.start_redis("redis-plain")
    front, by_script = (harness.start_sluice(f"sluice-{name}", f'{{redis: ["127.0.0.1:{behind.port}"], budget: 1s}}',
                                             more=POLICY) for name, behind in (("front", redis), ("script", plain)))
    asked = {"module": (redis, None), "front": (front, redis), "script": (by_script, plain)}
    for row in ROWS:
        if row[4] >= 100000:
            fill(row, asked)
    results = {(row[0], pipeline): [] for row in ROWS for pipeline in (1, 64)}
    for turn in range(LOG_ROUNDS):
        for row in ROWS:
            for pipeline in (1, 64):
                results[row[0], pipeline].append(one_run(row, asked, pipeline))
        print(f"bench: front: round {turn + 1} of {LOG_ROUNDS} done", file=sys.stderr, flush=True)
    print_rows(results)
    report["front_rows"] = [{"name": name, "pipeline": pipeline, "runs": runs}
                            for (name, pipeline), runs in results.items()]
    for server in (front, by_script, redis, plain):
        server.stop()
