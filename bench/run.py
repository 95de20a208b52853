#!/usr/bin/python3
"""Sluice beside Redis and beside the machine's memory: CPU time for each operation, and memory for each key.

Why CPU time: machines are shared, and operations a second then measure the neighbours. The server's own CPU time for an
operation, kernel part included, does not; 1e6 / (us an operation) is what one undisturbed core would do.
Why interleaved: the same machine drifts by a quarter within minutes. Every round runs every row once, ratios are taken
within a round, and the median of those is what counts.

  BENCH_ROUNDS=5          rounds                          BENCH_RUN_MS=2000          measured time of a run
  BENCH_LOG_ROUNDS=3      rounds that include the logs    BENCH_LOG_WARMUP_MS=10000  a window, so that logs are full
  BENCH_ONLY=name,name    some rows of resp, redis, http  BENCH_PARTS=scale,resp     some parts: inprocess named rules
                                                     scale full share hostile overrides memory resp redis front http
                                                     nginx haproxy grpc latency tls replay
  BENCH_REPEATS=7         rounds of the parts without     BENCH_KEYS_MAX=100000000   the most keys of one store
                          a network
A look in less than a minute: BENCH_PARTS=scale,share,hostile BENCH_KEYS_MAX=1000000 BENCH_REPEATS=3

How to read it: docs/design/006-bench.md. Everything goes to build/bench/results.json as well.
"""
import json
import os
import pathlib
import platform
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import frontbench
import grpcbench
import haproxybench
import harness
import httpbench
import latencybench
import memory
import nginxbench
import redisbench
import replaybench
import tlsbench
from rounds import (ROUNDS, RUN_MS, check_names, chosen, print_ratios, print_rows, run_rounds, warn_of_denials,
                    warn_of_neighbours)
from workloads import GOALS, ROWS, start_servers

# of build/bench, without a network
PROGRAMS = ["inprocess", "named", "rules", "scale", "full", "share", "hostile", "overrides"]
ALL_PARTS = [*PROGRAMS, "memory", "resp", "redis", "front", "http", "nginx", "haproxy", "grpc", "latency", "tls",
             "replay"]
PARTS = os.environ.get("BENCH_PARTS", ",".join(ALL_PARTS)).split(",")
REPEATS = int(os.environ.get("BENCH_REPEATS", 7))
KEYS_MAX = int(os.environ.get("BENCH_KEYS_MAX", 100000000))


def part_resp(report):
    rows = chosen(ROWS)
    servers = start_servers(rows)
    redis = next((server for name, server in servers.items() if server.name.startswith("redis")), None)
    if redis:
        harness.check_load_generator(redis)
    for row in rows:
        row.check(servers[row.name])
    results = run_rounds(rows, servers)
    print_rows(rows, results)
    warn_of_denials(rows, results)
    report["disturbed_runs"] = warn_of_neighbours(results)
    report["ratios"] = print_ratios(results, GOALS)
    report["rows"] = [{"name": name, "pipeline": pipeline, "runs": runs} for (name, pipeline), runs in results.items()]
    for server in set(servers.values()):
        server.stop()


def part_program(name, report):
    """A benchmark that needs no network: build/bench/NAME, which prints a table and writes JSON."""
    path = harness.BENCH / f"{name}.json"
    words = [harness.BENCH / name, "--json", path, "--repeats", REPEATS, "--keys-max", KEYS_MAX]
    print(flush=True)
    if subprocess.run([str(word) for word in words]).returncode != 0:
        harness.die(f"{name} failed")
    report[name] = json.loads(path.read_text())


def machine():
    model = [line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]
    redis = subprocess.run(["redis-server", "--version"], capture_output=True, text=True).stdout.split()
    return {"cpu": model[0] if model else platform.machine(), "cores": len(harness.CORES), "kernel": platform.release(),
            "redis": redis[2] if len(redis) > 2 else "unknown"}


def main():
    harness.BENCH.mkdir(parents=True, exist_ok=True)
    report = {"machine": machine(), "rounds": ROUNDS, "run_ms": RUN_MS, "repeats": REPEATS, "keys_max": KEYS_MAX}
    print(f"{report['machine']['cpu']}, {report['machine']['cores']} cores, Linux {report['machine']['kernel']}, "
          f"redis {report['machine']['redis']}; {ROUNDS} rounds of {RUN_MS} ms; server on core {harness.SERVER_CORE}, "
          f"client on core {harness.CLIENT_CORE}")
    if harness.SERVER_CORE == harness.CLIENT_CORE:
        print("bench: one core only: server and client share it, so read no ops/s here", file=sys.stderr)
    unknown = set(PARTS) - set(ALL_PARTS)
    if unknown:
        harness.die(f"BENCH_PARTS: no part named {', '.join(sorted(unknown))}")
    check_names([row.name for row in ROWS + redisbench.ROWS] + httpbench.NAMES + nginxbench.NAMES + latencybench.NAMES +
                tlsbench.NAMES + replaybench.NAMES)
    for name in PROGRAMS:
        if name in PARTS:
            part_program(name, report)
    if "memory" in PARTS:
        part_program("capacity", report)
        memory.measure(report)
    if "resp" in PARTS:
        part_resp(report)
    if "redis" in PARTS:
        redisbench.measure(report)
    if "front" in PARTS:
        frontbench.measure(report)
    if "http" in PARTS:
        httpbench.measure(report, ROUNDS, RUN_MS)
    if "nginx" in PARTS:
        nginxbench.measure(report, ROUNDS, RUN_MS)
    if "haproxy" in PARTS:
        haproxybench.measure(report, ROUNDS, RUN_MS)
    if "grpc" in PARTS:
        grpcbench.measure(report, ROUNDS, RUN_MS)
    if "latency" in PARTS:
        latencybench.measure(report)
    if "tls" in PARTS:
        tlsbench.measure(report)
    if "replay" in PARTS:
        replaybench.measure(report)
    path = harness.BENCH / "results.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"\nall numbers: {path}")


if __name__ == "__main__":
    main()
