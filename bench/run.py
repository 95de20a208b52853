#!/usr/bin/python3
"""Sluice beside Redis and beside the machine's memory: CPU time for each operation, and memory for each key.

Why CPU time: machines are shared, and operations a second then measure the neighbours. The server's own CPU time for an
operation, kernel part included, does not; 1e6 / (us an operation) is what one undisturbed core would do.
Why interleaved: the same machine drifts by a quarter within minutes. Every round runs every row once, ratios are taken
within a round, and the median of those is what counts.

  BENCH_ROUNDS=5          rounds                          BENCH_RUN_MS=2000          measured time of a run
  BENCH_LOG_ROUNDS=3      rounds that include the logs    BENCH_LOG_WARMUP_MS=10000  a window, so that logs are full
  BENCH_ONLY=name,name    some rows of resp only          BENCH_PARTS=scale,resp     some parts: inprocess scale share
                                                                                     hostile memory resp http
  BENCH_REPEATS=7         rounds of the parts without     BENCH_KEYS_MAX=100000000   the most keys of one store
                          a network
A look in less than a minute: BENCH_PARTS=scale,share,hostile BENCH_KEYS_MAX=1000000 BENCH_REPEATS=3

How to read it: docs/design/006-bench.md. Everything goes to build/bench/results.json as well.
"""
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness
import httpbench
import memory
from workloads import GOALS, ROWS, start_servers

ROUNDS = int(os.environ.get("BENCH_ROUNDS", 5))
LOG_ROUNDS = min(ROUNDS, int(os.environ.get("BENCH_LOG_ROUNDS", 3)))
RUN_MS = int(os.environ.get("BENCH_RUN_MS", 2000))
WARMUP_MS = 300
LOG_WARMUP_MS = int(os.environ.get("BENCH_LOG_WARMUP_MS", 10000))
ONLY = [name for name in os.environ.get("BENCH_ONLY", "").split(",") if name]
PROGRAMS = ["inprocess", "scale", "share", "hostile"]  # of build/bench, without a network
PARTS = os.environ.get("BENCH_PARTS", ",".join(PROGRAMS + ["memory", "resp", "http"])).split(",")
REPEATS = int(os.environ.get("BENCH_REPEATS", 7))
KEYS_MAX = int(os.environ.get("BENCH_KEYS_MAX", 100000000))
ALLOWED_MIN = 0.75
BUSY_MIN = 0.7  # of a core, by server or client: below it somebody else had the cores
CONNECTIONS = 50


def chosen_rows():
    unknown = set(ONLY) - {row.name for row in ROWS}
    if unknown:
        harness.die(f"BENCH_ONLY: no row named {', '.join(sorted(unknown))}: there are "
                    f"{', '.join(row.name for row in ROWS)}")
    return [row for row in ROWS if not ONLY or row.name in ONLY]


def one_run(row, server, pipeline):
    result = harness.load(server, row.words, connections=CONNECTIONS, pipeline=pipeline, keys=row.keys[pipeline],
                          run_ms=RUN_MS, warmup_ms=LOG_WARMUP_MS if row.is_log else WARMUP_MS,
                          seed=time.monotonic_ns() % 2**62)
    if result["errors"]:
        harness.die(f"{row.name}: {result['errors']} errors, the first one: {result['first_error']}")
    result["allowed"] = result[f"leading_{row.allowed}"] / result["ops"] if row.allowed is not None else None
    return result


def run_rounds(rows, servers):
    """results[(row, pipeline)] = one dict a round."""
    results = {(row.name, pipeline): [] for row in rows for pipeline in row.keys}
    for turn in range(ROUNDS):
        for pipeline in (1, 64):
            for row in rows:
                if row.is_log and turn >= LOG_ROUNDS:
                    continue
                results[row.name, pipeline].append(one_run(row, servers[row.name], pipeline))
        print(f"bench: round {turn + 1} of {ROUNDS} done", file=sys.stderr, flush=True)
    return results


def print_rows(rows, results):
    for pipeline in (1, 64):
        print(f"\nRESP, {CONNECTIONS} connections, pipeline {pipeline}")
        print(f"  {'':44} {'server CPU us/op':>26} {'ops/s':>10} {'p50 us':>8} {'p99 us':>8} {'p99.9':>8}"
              f" {'allowed':>8} {'keys':>9}")
        for row in rows:
            runs = results[row.name, pipeline]
            cpu = [run["server_us_per_op"] for run in runs]
            middle = {name: statistics.median(run[name] for run in runs)
                      for name in ("ops_per_s", "p50_us", "p99_us", "p999_us")}
            allowed = "" if row.allowed is None else f"{100 * statistics.median(run['allowed'] for run in runs):.0f} %"
            print(f"  {row.title:44} {statistics.median(cpu):8.3f} ({min(cpu):6.3f}..{max(cpu):6.3f})"
                  f" {middle['ops_per_s']:10,.0f} {middle['p50_us']:8.0f} {middle['p99_us']:8.0f}"
                  f" {middle['p999_us']:8.0f} {allowed:>8} {row.keys[pipeline]:9,}")


def print_ratios(results):
    """Prints how many times cheaper ours is; returns the verdicts."""
    verdicts = []
    print(f"\nTimes cheaper, in server CPU an operation{'':8} {'median':>8} {'(min..max)':>16} {'goal':>6}")
    for ours, theirs, pipeline, goal in GOALS:
        pairs = list(zip(results.get((ours, pipeline), []), results.get((theirs, pipeline), [])))
        if not pairs:
            continue
        ratios = [b["server_us_per_op"] / a["server_us_per_op"] for a, b in pairs]
        verdict = {"ours": ours, "theirs": theirs, "pipeline": pipeline, "goal": goal,
                   "ratio": statistics.median(ratios)}
        verdict["pass"] = goal is None or verdict["ratio"] >= goal
        said = "" if goal is None else "PASS" if verdict["pass"] else "short"
        print(f"  {ours + ' against ' + theirs:38} P{pipeline:<6} {verdict['ratio']:8.2f}"
              f" {f'({min(ratios):.2f}..{max(ratios):.2f})':>16} {'' if goal is None else f'{goal:.1f}x':>6}  {said}")
        verdicts.append(verdict)
    return verdicts


def warn_of_denials(rows, results):
    """A denial is cheaper than an admission on every side, so a row that mostly denies compares something else."""
    for row in rows:
        for pipeline in row.keys:
            if row.allowed is None or row.mostly_denies:
                continue
            share = statistics.median(run["allowed"] for run in results[row.name, pipeline])
            if share < ALLOWED_MIN:
                print(f"bench: {row.name} at P{pipeline} admitted only {100 * share:.0f} %: "
                      f"its figures lean towards denials", file=sys.stderr)


def warn_of_neighbours(results):
    """At saturation one of the two is always at work; where neither is, ops/s and latencies measure the neighbours."""
    runs = [run for row in results.values() for run in row]
    disturbed = sum(max(run["server_busy"], run["client_busy"]) < BUSY_MIN for run in runs)
    if disturbed:
        print(f"bench: {disturbed} of {len(runs)} runs were disturbed by other processes: read CPU times, not ops/s",
              file=sys.stderr)
    return disturbed


def part_resp(report):
    rows = chosen_rows()
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
    report["ratios"] = print_ratios(results)
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
    unknown = set(PARTS) - {*PROGRAMS, "memory", "resp", "http"}
    if unknown:
        harness.die(f"BENCH_PARTS: no part named {', '.join(sorted(unknown))}")
    for name in PROGRAMS:
        if name in PARTS:
            part_program(name, report)
    if "memory" in PARTS:
        part_program("capacity", report)
        memory.measure(report)
    if "resp" in PARTS:
        part_resp(report)
    if "http" in PARTS:
        httpbench.measure(report, ROUNDS, RUN_MS)
    path = harness.BENCH / "results.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"\nall numbers: {path}")


if __name__ == "__main__":
    main()
