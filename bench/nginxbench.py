"""Inside nginx: what a limit adds to a request, ours and limit_req's, in the same nginx, to a response of 43 bytes from
memory (empty_gif, since `return` is answered before any limit is asked).

Instructions: callgrind counts all of a process; two runs that differ in the number of requests give those of one, and
nginx without a limit is taken off. CPU: wrk on the other core, each row once a round, as a ratio to nginx without a
limit in the same round. Keys: 20,000 of wrk's prepared requests; 500 under callgrind, each met before.
"""
import pathlib
import re
import shutil
import signal
import socket
import statistics
import sys
import tempfile
import time

import harness
import httpbench
from rounds import ONLY

MODULE = harness.BUILD / "nginx" / "ngx_http_sluice_module.so"
KEYS, FEW, MANY = 500, 1000, 3000
POLICY = """attributes: {k: header x-k}
limits:
  - {name: per-client, key: ip, limit: 1M/60s}
  - {name: per-path, when: {path: /a*}, key: [ip, path], limit: 1M/60s}
"""
CONF = """load_module {module};
daemon off; master_process off; worker_processes 1; error_log stderr error; pid {folder}/pid;
events {{ worker_connections 1024; }}
http {{
    access_log off; keepalive_requests 1000000000;
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder}; uwsgi_temp_path {folder};
    scgi_temp_path {folder};
    limit_req_zone $arg_k zone=z:64m rate=1000r/s;
    limit_req_zone $binary_remote_addr zone=y:1m rate=1000r/s;
    sluice_store file:{folder}/counters memory=64m;
    server {{ listen 127.0.0.1:{port}; location / {{ {limits} empty_gif; }} }}
}}
"""
ZONE = "limit_req zone=z burst=100000 nodelay;"
# name, title, what stands in the location
ROWS = [
    ("nginx-off", "nginx, no limit", ""),
    ("nginx-req", "limit_req", ZONE),
    ("nginx-req-2", "limit_req, two zones", ZONE + " limit_req zone=y burst=100000000 nodelay;"),
    ("nginx-sluice-quiet", "sluice_limit, sluice_headers off", "sluice_limit 1M/60s key=$arg_k; sluice_headers off;"),
    ("nginx-sluice", "sluice_limit", "sluice_limit 1M/60s key=$arg_k;"),
    ("nginx-sluice-2", "two sluice_limits", "sluice_limit 1M/60s key=$arg_k; sluice_limit 1M/60s key=$sluice_ip;"),
    ("nginx-policy", "sluice_policy, two limits, one applies", "sluice_policy {folder}/policy.yaml;"),
]
NAMES = [row[0] for row in ROWS]


def configure(folder, name, limits):
    home = pathlib.Path(folder) / name
    home.mkdir()
    (home / "policy.yaml").write_text(POLICY)
    port = harness.free_port()
    path = home / "nginx.conf"
    path.write_text(CONF.format(module=MODULE, folder=home, port=port, limits=limits.format(folder=home)))
    return home, path, port


def start(folder, name, limits, wrapper=()):
    home, path, port = configure(folder, name, limits)
    return httpbench.wait_for_port(harness.Server(name, [*wrapper, "nginx", "-c", path, "-p", home]), port)


# ---- instructions ----


def ask(port, count):
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        for i in range(count):
            connection.sendall(b"GET /?k=%d HTTP/1.1\r\nHost: a\r\n\r\n" % (i % KEYS))
            got = b""
            while not got.endswith(b"\x3b"):  # the last byte of the picture
                got += connection.recv(65536)
            if not got.startswith(b"HTTP/1.1 200"):
                harness.die("nginx denied a request that is to pass")


def collected(folder, name, limits, requests):
    wrapper = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    server = start(folder, f"{name}-{requests}", limits, wrapper)
    ask(server.port, requests)
    server.process.send_signal(signal.SIGTERM)
    while server.process.poll() is None:  # below valgrind a signal does not wake it: a connection does
        try:
            socket.create_connection(("127.0.0.1", server.port), 1).close()
        except OSError:
            pass
        time.sleep(0.05)
    server.stop()
    return int(re.search(r"Collected : (\d+)", server.log.read_text(errors="replace"))[1])


def instructions(folder, rows):
    of = {}
    for name, _, limits in rows:
        few, many = (collected(folder, name, limits, KEYS + count) for count in (FEW, MANY))
        of[name] = (many - few) / (MANY - FEW)
    return of


# ---- time of processor ----


def print_table(rows, counted, results):
    off = counted.get("nginx-off", 0)
    print("\nInside nginx: a request with a limit, against one without")
    print(f"  {'':44} {'instructions added':>20} {'CPU':>8} {'(min..max)':>16} {'us added':>9}")
    for name, title, _ in rows:
        ratios = [a / b for a, b in zip(results[name], results["nginx-off"])]
        more = statistics.median(a - b for a, b in zip(results[name], results["nginx-off"]))
        said = f"{counted[name] - off:12,.0f} of {counted[name]:,.0f}" if counted else ""
        print(f"  {title:44} {said:>20} {statistics.median(ratios):8.2f}"
              f" {f'({min(ratios):.2f}..{max(ratios):.2f})':>16} {more:9.2f}")


def measure(report, rounds, run_ms):
    if not MODULE.exists():
        harness.die(f"{MODULE} is not there: make nginx builds it")
    run_s = max(1, round(run_ms / 1000))
    rows = [row for row in ROWS if row[0] in ONLY or row[0] == "nginx-off"] if set(ONLY) & set(NAMES) else ROWS
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        counted = instructions(folder, rows) if shutil.which("valgrind") else {}
        servers = [(name, start(folder, name, limits)) for name, _, limits in rows]
        results = {name: [] for name, _ in servers}
        for name, server in servers:
            httpbench.wrk(server, "get", httpbench.WARMUP_S, 1)
        for turn in range(rounds):
            for name, server in servers:
                one = httpbench.one_run(server, "get", run_s, time.monotonic_ns() % 2**31)
                results[name].append(one["server_us_per_op"])
            print(f"bench: nginx round {turn + 1} of {rounds} done", file=sys.stderr, flush=True)
        print_table(rows, counted, results)
        report["nginx"] = {"instructions": counted, "server_us_per_op": results}
        for _, server in servers:
            server.stop()
