"""Rounds: every row once a round, a table of the medians, and ratios that are taken within a round.

Why so: docs/design/006-bench.md. What a row is: workloads.py.
"""
import os
import statistics
import sys
import time

import harness

ROUNDS = int(os.environ.get("BENCH_ROUNDS", 5))
LOG_ROUNDS = min(ROUNDS, int(os.environ.get("BENCH_LOG_ROUNDS", 3)))
RUN_MS = int(os.environ.get("BENCH_RUN_MS", 2000))
WARMUP_MS = 300
LOG_WARMUP_MS = int(os.environ.get("BENCH_LOG_WARMUP_MS", 10000))
ONLY = [name for name in os.environ.get("BENCH_ONLY", "").split(",") if name]
ALLOWED_MIN = 0.75
BUSY_MIN = 0.7  # of a core, by server or client: below it somebody else had the cores
CONNECTIONS = 50


def check_names(names):
    """Ends the benchmark when BENCH_ONLY names what is none of these rows."""
    unknown = set(ONLY) - set(names)
    if unknown:
        harness.die(f"BENCH_ONLY: no row named {', '.join(sorted(unknown))}: there are {', '.join(names)}")


def chosen(rows):
    """The rows that BENCH_ONLY names; all when it names none."""
    return [row for row in rows if not ONLY or row.name in ONLY]


def one_run(row, server, pipeline):
    result = harness.load(server, row.words, connections=CONNECTIONS, pipeline=pipeline, keys=row.keys[pipeline],
                          window_ms=row.window_ms, run_ms=RUN_MS,
                          warmup_ms=LOG_WARMUP_MS if row.is_log else WARMUP_MS, seed=time.monotonic_ns() % 2**62)
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
                if (row.is_log or row.mostly_denies) and turn >= LOG_ROUNDS:
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


def print_ratios(results, goals):
    """Prints how many times cheaper ours is; returns the verdicts."""
    verdicts = []
    print(f"\nTimes cheaper, in server CPU an operation{'':8} {'median':>8} {'(min..max)':>16} {'goal':>6}")
    for ours, theirs, pipeline, goal in goals:
        pairs = list(zip(results.get((ours, pipeline), []), results.get((theirs, pipeline), [])))
        if not pairs:
            continue
        ratios = [b["server_us_per_op"] / a["server_us_per_op"] for a, b in pairs]
        verdict = {"ours": ours, "theirs": theirs, "pipeline": pipeline, "goal": goal,
                   "ratio": statistics.median(ratios)}
        verdict["pass"] = goal is None or verdict["ratio"] >= goal
        said = "" if goal is None else "PASS" if verdict["pass"] else "short"
        print(f"  {ours + ' against ' + theirs:38} P{pipeline:<6} {verdict['ratio']:8.2f}"
              f" {f'({min(ratios):.2f}..{max(ratios):.2f})':>16} {'' if goal is None else f'{goal:g}x':>6}  {said}")
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
