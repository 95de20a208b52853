"""The module and the script inside Redis, beside GET, INCR and the scripts that articles describe for the same limits.

Everything here is redis-server on the servers' core, and its CPU time an operation: what is compared runs inside
it. A row has a server of its own, with all its keys there before anything is timed; rows that deny share one server,
since they need a thousand keys each and mostly write nothing.

The same numbers on both sides: 100 in an hour, 10 in 10 s, [[1, 10], [60, 120], [3600, 240, 60]], and a bucket of 100
that is refilled with 100 a day. Windows are long so that keys live: under the load that is measured they would, but a
row is under load for two seconds and then waits for its next round, in which a minute's keys would all be new. The
scripts are told the time, which spares them a call; ours ask for it. For logs the faster side gets more keys
(docs/design/006-bench.md says why): 1 M beside 150 k, the harder case.
"""
import dataclasses
import json

import harness
import memory
from rounds import ONLY, chosen, print_ratios, print_rows, run_rounds, warn_of_denials, warn_of_neighbours
from workloads import GET_VALUE, MILLION, Row, load_script, pair, seven

THREE = [[1, 10], [60, 120], [3600, 240, 60]]
THREE_LIMITS = ["10/1s", "120/1m", "sliding-buckets 240/1h precision 1m edge drop"]
THREE_DENYING = [[1, 100000], [60, 100000], [3600, 10, 60]]  # the last limit is full: all three are looked at
THREE_LIMITS_DENYING = ["100k/1s", "100k/1m", "sliding-buckets 10/1h precision 1m edge drop"]
HOUR_MS, DAY_MS = "3600000", "86400000"


def module(*limits):
    return ["SLUICE.CHECK", "%k", "1", *limits]


def script(*limits):
    return ["EVALSHA", "@sluice-eval", "1", "%k", "CHECK", "1", *limits]


def library(*limits):
    return ["FCALL", "sluice_check", "1", "%k", "1", *limits]


def throttled(reply):
    return isinstance(reply, list) and len(reply) == 5 and reply[0] in (0, 1)


def decided(reply):
    return isinstance(reply, list) and len(reply) == 7 and reply[0] in (0, 1)


def row(name, title, kind, words, answer, keys=MILLION, **more):
    return Row(name, title, kind, words, {1: keys, 64: keys}, answer, **more)


def log_row(name, title, kind, words, answer, keys):
    """A log is warmed up for a whole window, which fills it."""
    return Row(name, title, kind, words, keys, answer, is_log=True)


FEW = 100000  # of rows without a goal that would take minutes to fill
MORE_KEYS = {1: 150000, 64: MILLION}
SAME_KEYS = {1: 150000, 64: 150000}
ADMITTING = [
    row("get", "GET", "redis", ["GET", "%k"], lambda reply: reply == GET_VALUE, allowed=None),
    row("incr", "INCR", "redis", ["INCR", "%k"], lambda reply: isinstance(reply, int), allowed=None),
    row("window", "module 100/1h", "module", module("100/1h"), seven(100)),
    row("window-eval", "our script 100/1h", "redis", script("100/1h"), seven(100), FEW),
    row("window-fcall", "our library 100/1h", "library", library("100/1h"), seven(100), FEW),
    row("two-bucket", "two-bucket counter script", "redis",
        ["EVALSHA", "@two_bucket", "2", "%k:%w", "%k:%v", "100", HOUR_MS, "%t"], pair, window_ms=3600000),
    row("three", "module, three limits", "module", module(*THREE_LIMITS), decided),
    row("three-eval", "our script, three limits", "redis", script(*THREE_LIMITS), decided, FEW),
    row("three-fcall", "our library, three limits", "library", library(*THREE_LIMITS), decided, FEW),
    row("three-hash", "three-limit hash script", "redis",
        ["EVALSHA", "@three_limit", "1", "%k", json.dumps(THREE), "%s", "1"], lambda reply: reply == 0, allowed=0),
    row("bucket", "module token-bucket 100/1d", "module", module("token-bucket 100/1d"), seven(100)),
    row("throttle", "module CL.THROTTLE 99 100 86400", "module", ["CL.THROTTLE", "%k", "99", "100", "86400"], throttled,
        allowed=0),
    row("bucket-eval", "our script, token-bucket 100/1d", "redis", script("token-bucket 100/1d"), seven(100), FEW),
    row("bucket-fcall", "our library, token-bucket 100/1d", "library", library("token-bucket 100/1d"), seven(100), FEW),
    row("gcra", "GCRA script, 100 a day", "redis",
        ["EVALSHA", "@gcra", "1", "%k", "100", "100", DAY_MS, "%t", "1"], pair),
    log_row("log", "module sliding-log 10/10s", "module", module("sliding-log 10/10s"), seven(10), MORE_KEYS),
    log_row("log-eval", "our script, sliding-log 10/10s", "redis", script("sliding-log 10/10s"), seven(10), SAME_KEYS),
    log_row("log-fcall", "our library, sliding-log 10/10s", "library", library("sliding-log 10/10s"), seven(10),
            SAME_KEYS),
    log_row("log-set", "sorted-set log script, 10 in 10 s", "redis",
            ["EVALSHA", "@log", "1", "%k", "10", "10000", "%t", "%u"], pair, SAME_KEYS),
]


def denying(name, title, words, answer, allowed=1, **more):
    words = [str(word).replace("%k", name + ":%k") for word in words]
    return Row("no-" + name, title + ", denied", "shared", words, {1: 1000, 64: 1000}, answer, allowed=allowed,
               mostly_denies=True, **more)


DENYING = [
    denying("window", "module 10/1h", module("10/1h"), decided),
    denying("window-eval", "our script 10/1h", script("10/1h"), decided),
    denying("two-bucket", "two-bucket counter script",
            ["EVALSHA", "@two_bucket", "2", "%k:%w", "%k:%v", "10", HOUR_MS, "%t"], pair,
            window_ms=3600000),
    denying("three", "module, three limits", module(*THREE_LIMITS_DENYING), decided),
    denying("three-eval", "our script, three limits", script(*THREE_LIMITS_DENYING), decided),
    denying("three-hash", "three-limit hash script",
            ["EVALSHA", "@three_limit", "1", "%k", json.dumps(THREE_DENYING), "%s", "1"], lambda reply: reply == 0, 0),
    denying("bucket", "module token-bucket 10/1d", module("token-bucket 10/1d"), decided),
    denying("throttle", "module CL.THROTTLE 9 10 86400", ["CL.THROTTLE", "%k", "9", "10", "86400"], throttled, 0),
    denying("bucket-eval", "our script, token-bucket 10/1d", script("token-bucket 10/1d"), decided),
    denying("gcra", "GCRA script, 10 a day", ["EVALSHA", "@gcra", "1", "%k", "10", "10", DAY_MS, "%t", "1"], pair),
    denying("log", "module sliding-log 10/10s", module("sliding-log 10/10s"), decided),
    denying("log-eval", "our script, sliding-log 10/10s", script("sliding-log 10/10s"), decided),
    denying("log-set", "sorted-set log script", ["EVALSHA", "@log", "1", "%k", "10", "10000", "%t", "%u"], pair),
]
ROWS = ADMITTING + DENYING

# (ours, theirs, pipeline, times cheaper in CPU an operation; None: shown, no goal)
GOALS = [
    ("window", "two-bucket", 64, 5.0),
    ("log", "log-set", 64, 8.0),
    ("three", "three-hash", 64, 20.0),
    ("window", "get", 1, 0.95),
    ("bucket", "gcra", 64, None),
    ("throttle", "gcra", 64, None),
    ("window", "get", 64, None),
    ("window", "incr", 64, None),
    ("window", "incr", 1, None),
    ("window", "two-bucket", 1, None),
    ("log", "log-set", 1, None),
    ("three", "three-hash", 1, None),
    ("bucket", "gcra", 1, None),
    ("throttle", "gcra", 1, None),
    ("window-fcall", "two-bucket", 64, 1.0),
    ("window-eval", "two-bucket", 64, 0.91),  # at most 1.1 times theirs
    ("three-fcall", "three-hash", 64, 1.0),
    ("three-eval", "three-hash", 64, 1.0),
    ("log-fcall", "log-set", 64, 1.0),
    ("log-eval", "log-set", 64, 1.0),
    ("bucket-fcall", "gcra", 64, None),
    ("bucket-eval", "gcra", 64, None),
    ("no-window", "no-two-bucket", 64, None),
    ("no-log", "no-log-set", 64, None),
    ("no-three", "no-three-hash", 64, None),
    ("no-bucket", "no-gcra", 64, None),
    ("no-throttle", "no-gcra", 64, None),
    ("no-window-eval", "no-two-bucket", 64, None),
    ("no-log-eval", "no-log-set", 64, None),
    ("no-three-eval", "no-three-hash", 64, None),
    ("no-bucket-eval", "no-gcra", 64, None),
]


def fill(server, words, keys):
    """Every key once, so that what is timed meets keys that are there."""
    result = harness.load(server, words, requests=keys, keys=keys, sequential=True, pipeline=64, window_ms=HOUR_MS)
    if result["errors"]:
        harness.die(f"filling {server.name}: {result['first_error']}")


def load_library(server):
    connection = harness.Resp(server.port)
    connection.call("FUNCTION", "LOAD", (harness.BUILD / "sluice.lua").read_bytes())
    connection.close()


def start(rows):
    """A server a row, one for all rows that deny; scripts are loaded, keys are there."""
    servers, shared = {}, None
    for each in rows:
        if each.kind == "shared":
            shared = shared or harness.start_redis("redis-denying", harness.module())
            server = shared
        else:
            server = harness.start_redis(f"redis-{each.name}", harness.module() if each.kind == "module" else [])
            if each.kind == "library":
                load_library(server)
        servers[each.name] = server
        each.words = [load_script(server, str(word)[1:]) if str(word).startswith("@") else word for word in each.words]
        keys = max(each.keys.values())
        if each.name == "get":
            fill(server, ["SET", "%k", GET_VALUE], keys)
        elif not each.is_log:
            fill(server, each.words, keys)
        if each.name == "two-bucket":  # the window before has its counters as well
            swapped = {"%k:%w": "%k:%v", "%k:%v": "%k:%w"}
            fill(server, [swapped.get(word, word) for word in each.words], keys)
    return servers


def measure_speed(report):
    rows = chosen([dataclasses.replace(each) for each in ROWS])
    servers = start(rows)
    for each in rows:
        if not each.mostly_denies:
            each.check(servers[each.name])
    results = run_rounds(rows, servers)
    print_rows(rows, results)
    warn_of_denials(rows, results)
    report["redis_disturbed_runs"] = warn_of_neighbours(results)
    report["redis_ratios"] = print_ratios(results, GOALS)
    report["redis_rows"] = [{"name": name, "pipeline": pipeline, "runs": runs}
                            for (name, pipeline), runs in results.items()]
    for server in set(servers.values()):
        server.stop()


def measure(report):
    """Prints the tables and keeps them in the report."""
    measure_speed(report)
    if not ONLY:
        memory.measure_module(report)
