"""gRPC: Envoy's rate limit service beside a server over nghttp2 that decides nothing, whole requests by h2load from the
other core. The yardstick is what HTTP/2 costs; the rows of Sluice are what a decision adds, with its headers. Beside it
envoyproxy/ratelimit, where there is Go to build it: its CPU is that of both its processes, Redis and itself, on the
core where Sluice runs."""
import collections
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import harness

PATH = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
LIMITS = """limits:
  - {name: per-client, key: ip, limit: 1M/60s}
  - {name: per-user, key: user, limit: 1M/60s}
  - {name: per-path, key: path, limit: token-bucket 1M/1s}
"""
ENTRIES = [(b"remote_address", b"192.0.2.1"), (b"user", b"alice"), (b"path", b"/search")]
# The same by descriptors, as envoyproxy/ratelimit has them. Its windows are fixed.
THEIR_LIMITS = """domain: bench
descriptors:
  - {key: remote_address, rate_limit: {unit: minute, requests_per_unit: 1000000000}}
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 1000000000}}
  - {key: path, rate_limit: {unit: second, requests_per_unit: 1000000000}}
"""
SHAPES = {"busy": (4, 100), "single": (50, 1), "calm": (4, 1)}  # connections, streams of each
WARMUP = 5000
# (ours, the other, at most so many times its CPU)
GOALS = [("one", "null", 1.15), ("three", "null", 1.3), ("one-single", "null-single", None),
         ("one-single", "check-single", 1.4), ("one", "theirs", .1), ("three", "theirs-three", .1),
         ("one-calm", "theirs-calm", .1)]
Row = collections.namedtuple("Row", "name title servers body shape words url")


def field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


def body(folder, name, entries):
    """A request with a descriptor for each entry, in its frame."""
    made = field(1, b"bench") + b"".join(field(2, field(1, field(1, key) + field(2, value))) for key, value in entries)
    path = pathlib.Path(folder) / name
    path.write_bytes(b"\0" + len(made).to_bytes(4, "big") + made)
    return path


def start_null():
    server = harness.Server("grpcnull", [harness.BENCH / "grpcnull"], stdout=subprocess.PIPE)
    server.port = int(server.process.stdout.readline())
    return server


def http_port(server):
    """Of a Sluice that listens on HTTP as well."""
    return int(re.search(r"^sluice: http on \S+:(\d+)$", server.log.read_text(), re.M)[1])


def start_theirs(folder):
    """envoyproxy/ratelimit with its Redis, on one core as ours; None where there is no Go to build it."""
    made = subprocess.run([harness.ROOT / "tests" / "foreign" / "build.py", "ratelimit"], capture_output=True,
                          text=True)
    if made.returncode != 0:
        print("bench: envoyproxy/ratelimit is left out: " + made.stderr.strip(), file=sys.stderr)
        return None
    config = pathlib.Path(folder) / "ratelimit" / "config"
    config.mkdir(parents=True)
    (config / "bench.yaml").write_text(THEIR_LIMITS)
    redis = harness.start_redis("ratelimit-redis")
    ports = [harness.free_port() for _ in range(3)]
    environment = {"PATH": os.environ["PATH"], "RUNTIME_ROOT": str(folder), "RUNTIME_SUBDIRECTORY": "ratelimit",
                   "RUNTIME_WATCH_ROOT": "false", "REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": f"127.0.0.1:{redis.port}",
                   "USE_STATSD": "false", "LOG_LEVEL": "error", "HOST": "127.0.0.1", "GRPC_HOST": "127.0.0.1",
                   "DEBUG_HOST": "127.0.0.1", "GRPC_PORT": str(ports[0]), "PORT": str(ports[1]),
                   "DEBUG_PORT": str(ports[2])}
    server = harness.Server("ratelimit", [made.stdout.strip()], env=environment)

    def answers():
        try:
            socket.create_connection(("127.0.0.1", ports[0]), 1).close()
            return ports[0]
        except OSError:
            return 0
    return server.wait_for(answers), redis


def h2load(row, requests):
    """Operations a second, and each request's microseconds."""
    connections, streams = SHAPES[row.shape]
    with tempfile.NamedTemporaryFile() as log:
        words = ["taskset", "-c", str(harness.CLIENT_CORE), "h2load", "-n", str(requests), "-c", str(connections), "-m",
                 str(streams), "--log-file", log.name, "-d", str(row.body), *row.words, row.url]
        said = subprocess.run(words, capture_output=True, text=True).stdout
        if f"{requests} succeeded, 0 failed" not in said:
            harness.die(f"h2load against {row.servers[0].name}: {said[-500:]}")
        took = sorted(int(line.split(b"\t")[2]) for line in log)
    return float(re.search(r"finished in [^,]+, ([0-9.]+) req/s", said)[1]), took


def one_run(row, requests):
    before = sum(server.cpu_ns() for server in row.servers)
    rate, took = h2load(row, requests)
    cpu_ns = sum(server.cpu_ns() for server in row.servers) - before
    return {"server_us_per_op": cpu_ns / requests / 1e3, "ops_per_s": rate, "p50_us": took[len(took) // 2],
            "p99_us": took[len(took) * 99 // 100]}


def print_table(rows, results):
    print("\ngRPC over HTTP/2")
    print(f"  {'':44} {'server CPU us/op':>26} {'ops/s':>10} {'p50 us':>8} {'p99 us':>8}")
    for row in rows:
        cpu = [run["server_us_per_op"] for run in results[row.name]]
        rate, p50, p99 = (statistics.median(run[field] for run in results[row.name])
                          for field in ("ops_per_s", "p50_us", "p99_us"))
        print(f"  {row.title:44} {statistics.median(cpu):8.3f} ({min(cpu):6.3f}..{max(cpu):6.3f}) {rate:10,.0f}"
              f" {p50:8.0f} {p99:8.0f}")


def print_ratios(results):
    verdicts = []
    print(f"\nServer CPU a request over the other's{'':12} {'median':>8} {'(min..max)':>16} {'most':>6}")
    for ours, floor, most in GOALS:
        if floor not in results:
            continue
        ratios = [a["server_us_per_op"] / b["server_us_per_op"] for a, b in zip(results[ours], results[floor])]
        ratio = statistics.median(ratios)
        said = "" if most is None else "PASS" if ratio <= most else "short"
        print(f"  {ours + ' against ' + floor:46} {ratio:8.2f} {f'({min(ratios):.2f}..{max(ratios):.2f})':>16}"
              f" {'' if most is None else f'{most:.2f}x':>6}  {said}")
        verdicts.append({"ours": ours, "theirs": floor, "ratio": ratio, "goal": most})
    return verdicts


def rows_of(folder, null, sluice, theirs):
    def grpc(server):
        return (["-H", "content-type: application/grpc", "-H", "te: trailers"],
                f"http://127.0.0.1:{server.port}{PATH}")
    one, three = body(folder, "one", ENTRIES[:1]), body(folder, "three", ENTRIES)
    check = pathlib.Path(folder) / "check"
    check.write_text('{"key":"192.0.2.1","limits":["1M/60s"]}')
    http = (["--h1", "-H", "content-type: application/json"], f"http://127.0.0.1:{http_port(sluice)}/v1/check")
    rows = [Row("null", "nghttp2, the same answer to all", [null], one, "busy", *grpc(null)),
            Row("none", "Sluice, no limit applies", [sluice], body(folder, "none", [(b"a", b"b")]), "busy",
                *grpc(sluice)),
            Row("one", "Sluice, one descriptor", [sluice], one, "busy", *grpc(sluice)),
            Row("three", "Sluice, three descriptors", [sluice], three, "busy", *grpc(sluice)),
            Row("null-single", "nghttp2, 50 connections of one stream", [null], one, "single", *grpc(null)),
            Row("one-single", "Sluice, 50 connections of one stream", [sluice], one, "single", *grpc(sluice)),
            Row("check-single", "Sluice, 50 connections, HTTP's /v1/check", [sluice], check, "single", *http)]
    if theirs is not None:
        rows += [Row("theirs", "ratelimit and Redis, one descriptor", theirs, one, "busy", *grpc(theirs[0])),
                 Row("theirs-three", "ratelimit and Redis, three descriptors", theirs, three, "busy", *grpc(theirs[0])),
                 Row("theirs-calm", "ratelimit and Redis, 4 connections of one", theirs, one, "calm",
                     *grpc(theirs[0])),
                 Row("one-calm", "Sluice, 4 connections of one stream", [sluice], one, "calm", *grpc(sluice))]
    return rows


def measure(report, rounds, run_ms):
    if shutil.which("h2load") is None:
        harness.die("not installed: h2load: tools/deps bench installs it")
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        null = start_null()
        sluice = harness.start_sluice("sluice-grpc", "128MiB", 1, "grpc", LIMITS, 'grpc: "127.0.0.1:0"')
        theirs = start_theirs(folder)
        rows = rows_of(folder, null, sluice, theirs)
        results = {row.name: [] for row in rows}
        requests = max(10000, run_ms * 50)
        for row in rows:
            h2load(row, WARMUP)
        for turn in range(rounds):
            for row in rows:
                results[row.name].append(one_run(row, requests // (1 if row.servers != theirs else 10)))
            print(f"bench: gRPC round {turn + 1} of {rounds} done, {time.strftime('%H:%M:%S')}", file=sys.stderr)
        print_table(rows, results)
        report["grpc"] = {"ratios": print_ratios(results), "rows": results}
        for server in [null, sluice, *(theirs or [])]:
            server.stop()
