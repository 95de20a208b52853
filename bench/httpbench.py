"""HTTP keep-alive: Sluice's doors beside nginx and HAProxy, whole requests by wrk from the other core.

The yardstick is nginx answering an empty 200: what a request costs in the best HTTP server there is, without any limit.
nginx's limit_req and HAProxy's stick tables are limits in place, without a hop to another server; a limiter that is
asked by a proxy costs a request of its own, which is what the rows of Sluice show. Every limit here mostly admits, over
as many keys, except that wrk's prepared requests (20,000) repeat.
"""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import harness
from rounds import ONLY

KEYS = 100000
CONNECTIONS = 50
WARMUP_S = 1

NGINX = """daemon off; master_process off; worker_processes 1; error_log stderr error; pid {folder}/pid;
events {{ worker_connections 1024; }}
http {{
    access_log off; keepalive_requests 1000000000;
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder}; uwsgi_temp_path {folder};
    scgi_temp_path {folder};
    limit_req_zone $arg_k zone=z:64m rate=1000r/s;
    server {{ listen 127.0.0.1:{port}; location / {{ {answer} }} }}
}}
"""
# `return` is answered before limit_req is asked, so the limited row answers from empty_gif, the next cheapest.
LIMITED = "limit_req zone=z burst=100000 nodelay; empty_gif;"
HAPROXY = """global
    nbthread 1
    maxconn 1000
defaults
    mode http
    timeout client 60s
    timeout http-request 60s
    timeout http-keep-alive 60s
{table}frontend f
    bind 127.0.0.1:{port}
{limit}    http-request return status 200
"""
TABLE = """backend st
    stick-table type string len 32 size 1m expire 60s store http_req_rate(60s)
"""
TRACK = """    http-request track-sc0 url_param(k) table st
    http-request deny deny_status 429 if { sc_http_req_rate(0) gt 1000000 }
"""
POLICY = """trusted-proxies: [127.0.0.0/8]
limits:
  - {name: per-client, key: ip, limit: 1M/60s}
"""


def wait_for_port(server, port):
    import socket

    def answers():
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return port
        except OSError:
            return 0
    return server.wait_for(answers)


def start_nginx(name, folder, answer):
    port = harness.free_port()
    path = pathlib.Path(folder) / f"{name}.conf"
    home = pathlib.Path(folder) / name
    home.mkdir()
    path.write_text(NGINX.format(folder=home, port=port, answer=answer))
    return wait_for_port(harness.Server(name, ["nginx", "-c", path, "-p", home]), port)


def start_haproxy(name, folder, table="", limit=""):
    port = harness.free_port()
    path = pathlib.Path(folder) / f"{name}.cfg"
    path.write_text(HAPROXY.format(port=port, table=table, limit=limit))
    return wait_for_port(harness.Server(name, ["haproxy", "-f", path]), port)


NAMES = ["nginx", "nginx-limit", "haproxy", "haproxy-limit", "forward", "check", "admit", "forward-2", "check-2"]


def start_all(folder):
    """(name, title, what wrk asks, server), in the order of the table."""
    sluice = {}
    for threads in (1, 2):
        sluice[threads] = harness.start_sluice(f"sluice-http-{threads}", "128MiB", threads, "http", POLICY)
    return [
        ("nginx", "nginx, an empty 200", "get", start_nginx("nginx-200", folder, "return 200;")),
        ("nginx-limit", "nginx limit_req (empty_gif)", "get", start_nginx("nginx-limit", folder, LIMITED)),
        ("haproxy", "HAProxy, an empty 200", "get", start_haproxy("haproxy-200", folder)),
        ("haproxy-limit", "HAProxy, stick table", "get", start_haproxy("haproxy-limit", folder, TABLE, TRACK)),
        ("forward", "Sluice /v1/auth/forward", "forward", sluice[1]),
        ("check", "Sluice /v1/check", "check", sluice[1]),
        ("admit", "Sluice /v1/admit", "admit", sluice[1]),
        ("forward-2", "Sluice /v1/auth/forward, 2 threads", "forward", sluice[2]),
        ("check-2", "Sluice /v1/check, 2 threads", "check", sluice[2]),
    ]


# (ours, theirs, goal)
GOALS = [("forward", "nginx", 0.9), ("check", "nginx", 0.6), ("admit", "nginx", None),
         ("forward", "haproxy", None),
         ("forward", "nginx-limit", None), ("forward", "haproxy-limit", None)]


def chosen(rows):
    """The rows that BENCH_ONLY names; all when it names none of these."""
    assert [row[0] for row in rows] == NAMES
    return [row for row in rows if row[0] in ONLY] or rows


def wrk(server, ask, seconds, seed):
    words = ["taskset", "-c", str(harness.CLIENT_CORE), "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout",
             "10s", "-s", str(pathlib.Path(__file__).resolve().parent / "wrk.lua"), f"http://127.0.0.1:{server.port}/"]
    environment = {**os.environ, "WRK_ASK": ask, "WRK_KEYS": str(KEYS), "WRK_SEED": str(seed)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return [float(word) for word in line.split()[1:]]
    harness.die(f"wrk against {server.name}: {done.stderr.strip() or done.stdout.strip()}")


def one_run(server, ask, run_s, seed):
    before = server.cpu_ns()
    requests, duration_us, p50, p99, p999, refused, broken = wrk(server, ask, run_s, seed)
    cpu_ns = server.cpu_ns() - before
    if broken or requests == 0 or refused > requests / 100:
        harness.die(f"{server.name}: {requests:.0f} answers, {refused:.0f} of them no 200, {broken:.0f} broken")
    return {"server_us_per_op": cpu_ns / requests / 1e3, "ops_per_s": requests / duration_us * 1e6, "p50_us": p50,
            "p99_us": p99, "p999_us": p999}


def print_table(rows, results):
    print(f"\nHTTP/1.1 keep-alive, {CONNECTIONS} connections")
    print(f"  {'':44} {'server CPU us/op':>26} {'ops/s':>10} {'p50 us':>8} {'p99 us':>8} {'p99.9':>8}")
    for name, title, _, _ in rows:
        runs = results[name]
        cpu = [run["server_us_per_op"] for run in runs]
        rest = [statistics.median(run[field] for run in runs) for field in ("ops_per_s", "p50_us", "p99_us", "p999_us")]
        print(f"  {title:44} {statistics.median(cpu):8.3f} ({min(cpu):6.3f}..{max(cpu):6.3f}) {rest[0]:10,.0f}"
              f" {rest[1]:8.0f} {rest[2]:8.0f} {rest[3]:8.0f}")


def print_ratios(results):
    verdicts = []
    print(f"\nTheir server CPU a request over ours{'':13} {'median':>8} {'(min..max)':>16} {'goal':>6}")
    for ours, theirs, goal in GOALS:
        if ours not in results or theirs not in results:
            continue
        ratios = [b["server_us_per_op"] / a["server_us_per_op"] for a, b in zip(results[ours], results[theirs])]
        ratio = statistics.median(ratios)
        said = "" if goal is None else "PASS" if ratio >= goal else "short"
        print(f"  {ours + ' against ' + theirs:46} {ratio:8.2f} {f'({min(ratios):.2f}..{max(ratios):.2f})':>16}"
              f" {'' if goal is None else f'{goal:.1f}x':>6}  {said}")
        verdicts.append({"ours": ours, "theirs": theirs, "ratio": ratio, "goal": goal})
    return verdicts


def measure(report, rounds, run_ms):
    missing = [program for program in ("wrk", "nginx", "haproxy") if shutil.which(program) is None]
    if missing:
        harness.die(f"not installed: {', '.join(missing)}: tools/deps bench installs them")
    run_s = max(1, round(run_ms / 1000))
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        rows = chosen(start_all(folder))
        results = {name: [] for name, *_ in rows}
        for name, _, ask, server in rows:
            wrk(server, ask, WARMUP_S, 1)
        for turn in range(rounds):
            for name, _, ask, server in rows:
                results[name].append(one_run(server, ask, run_s, time.monotonic_ns() % 2**31))
            print(f"bench: HTTP round {turn + 1} of {rounds} done", file=sys.stderr, flush=True)
        print_table(rows, results)
        report["http"] = {"ratios": print_ratios(results), "rows": results}
        for server in {id(server): server for *_, server in rows}.values():
            server.stop()
