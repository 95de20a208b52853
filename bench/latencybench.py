"""How long requests take at half of what a server can do: RESP and HTTP, one and two threads, many keys and one.

build/bench/latency says what is measured, and from when to when. Beside Sluice stands a server that answers all alike
(build/bench/respnull): what it takes is the loopback's, the scheduler's and the neighbours' on this machine. Rows take
turns, a round after the other; a row's figures are the medians of its rounds, with the least and the most of its p99.
"""
import json
import statistics
import subprocess
import sys

import harness
from rounds import ONLY, ROUNDS, RUN_MS

MILLION = 1000000
# name, title, door, keys, threads (0: the server that decides nothing)
ROWS = [("latency-floor", "RESP, a server that decides nothing", "resp", MILLION, 0),
        ("latency-resp", "RESP, one thread", "resp", MILLION, 1),
        ("latency-resp-2", "RESP, two threads", "resp", MILLION, 2),
        ("latency-resp-hot", "RESP, one hot key, one thread", "resp", 1, 1),
        ("latency-resp-hot-2", "RESP, one hot key, two threads", "resp", 1, 2),
        ("latency-http", "HTTP /v1/check, one thread", "http", MILLION, 1),
        ("latency-http-2", "HTTP /v1/check, two threads", "http", MILLION, 2),
        ("latency-http-hot-2", "HTTP /v1/check, one hot key, two threads", "http", 1, 2)]
NAMES = [row[0] for row in ROWS]


def start_servers(rows):
    servers = {}
    for _, _, door, _, threads in rows:
        if (door, threads) not in servers:
            name = f"latency-{door}-{threads}"
            servers[door, threads] = (harness.start_null(name) if threads == 0 else
                                      harness.start_sluice(name, "128MiB", threads, door))
    return servers


def one_run(server, door, keys):
    words = [harness.BENCH / "latency", "--port", server.port, "--door", door, "--keys", keys, "--run-ms", RUN_MS,
             "--cpu", harness.CLIENT_CORE]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        harness.die(f"latency against {server.name}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def measure(report):
    rows = [row for row in ROWS if row[0] in ONLY] or ROWS
    servers = start_servers(rows)
    results = {row[0]: [] for row in rows}
    for turn in range(ROUNDS):
        for name, _, door, keys, threads in rows:
            results[name].append(one_run(servers[door, threads], door, keys))
        print(f"bench: round {turn + 1} of {ROUNDS} done", file=sys.stderr, flush=True)
    print(f"\nLatency at half load, 50 connections, us: medians of {ROUNDS} rounds")
    print(f"  {'':44} {'most/s':>9} {'asked/s':>9} {'p50':>7} {'p99':>7} {'(min..max)':>18} {'p99.9':>8}")
    for name, title, *_ in rows:
        most, rate, p50, p99, p999 = (statistics.median(run[field] for run in results[name]) for field in
                                      ("most_per_s", "per_s", "p50_us", "p99_us", "p999_us"))
        p99s = [run["p99_us"] for run in results[name]]
        spread = f"({min(p99s):.0f}..{max(p99s):.0f})"
        print(f"  {title:44} {most:9,.0f} {rate:9,.0f} {p50:7.0f} {p99:7.0f} {spread:>18} {p999:8.0f}")
    report["latency"] = results
    for server in set(servers.values()):
        server.stop()
