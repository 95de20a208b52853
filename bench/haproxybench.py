"""HAProxy that limits: by its own stick table, by asking Sluice over SPOE (examples/haproxy), and by asking it by Lua
(examples/haproxy-lua). Whole requests by wrk, over keep-alive connections, each answered by HAProxy itself, so that
what differs is the limit. Beside it an agent that answers as much and decides nothing (spopnull): what SPOE costs
HAProxy, and reading and writing costs an agent, whoever it is.

HAProxy's CPU and Sluice's are told apart: what a request costs HAProxy more than an empty 200, and what it costs the
agent. Every limit here admits all.
"""
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import harness
import httpbench

CONNECTIONS = 50
GOAL_AGENT_US, GOAL_ADDED_US = 1.5, 4.5

CONFIG = """global
    nbthread 1
    maxconn 1000
{lua}defaults
    mode http
    timeout connect 1s
    timeout client 60s
    timeout server 60s
    timeout http-request 60s
    timeout http-keep-alive 60s
{more}frontend f
    bind 127.0.0.1:{port}
{limit}    http-request return status 200
"""
SPOE = """[sluice]
spoe-agent sluice
    messages admit
    option var-prefix sluice
    option pipelining
    timeout hello 100ms
    timeout idle 2m
    timeout processing 1s
    use-backend sluice
spoe-message admit
    args method=method path=path ip=src user=url_param(k)
    event on-frontend-http-request
"""
AGENT = """backend sluice
    mode tcp
    server sluice 127.0.0.1:{port}
"""
BY_HTTP = """listen sluice
    bind 127.0.0.1:{front}
    retries 0
    server sluice 127.0.0.1:{port}
"""
DENIED = "if { var(txn.sluice.denied) -m bool }\n"
POLICY = """trusted-proxies: [127.0.0.0/8]
attributes: {user: header x-user-id}
listen: {spop: {address: "127.0.0.1:0", headers: []}, resp: [], http: "127.0.0.1:0"}
limits:
  - {name: per-user, key: user | ip, limit: 1M/60s}
"""


def start_haproxy(name, folder, limit="", more="", lua=""):
    port = harness.free_port()
    path = pathlib.Path(folder) / f"{name}.cfg"
    path.write_text(CONFIG.format(port=port, limit=limit, more=more, lua=lua))
    return httpbench.wait_for_port(harness.Server(name, ["haproxy", "-f", path], cwd=folder), port)


def start_agent(name, door):
    """A Sluice of its own for each row, so that its CPU is the row's."""
    policy = harness.BENCH / f"{name}.yaml"
    policy.write_text("threads: 1\nstore: {memory: 128MiB}\n" + POLICY)
    server = harness.Server(name, [harness.BUILD / "sluice", "serve", "-c", policy])

    def says():
        text = server.log.read_text(errors="replace")
        found = [line for line in text.splitlines() if line.startswith(f"sluice: {door} on ")]
        return int(found[0].rsplit(":", 1)[1]) if found and "sluice: ready" in text else 0
    return server.wait_for(says)


def start_null():
    server = harness.Server("spopnull", [harness.BENCH / "spopnull"], stdout=subprocess.PIPE)
    server.port = int(server.process.stdout.readline())
    return server


def start_all(folder):
    """(name, title, HAProxy, its agent or None)."""
    folder = pathlib.Path(folder)
    (folder / "sluice.spoe").write_text(SPOE)
    agent, lua, null = start_agent("spoe-agent", "spop"), start_agent("lua-agent", "http"), start_null()
    script = (harness.ROOT / "examples/haproxy-lua/sluice.lua").read_text()
    (folder / "sluice.lua").write_text(script)
    front = harness.free_port()
    spoe = "    filter spoe engine sluice config sluice.spoe\n    http-request return status 429 " + DENIED
    by_lua = (f"    http-request set-var(txn.sluice_address) str(127.0.0.1:{front})\n    http-request set-header "
              "x-user-id %[url_param(k)]\n    http-request lua.sluice\n"
              "    http-request return status 429 if { var(txn.sluice_denied) -m bool }\n")
    return [
        ("empty", "HAProxy, an empty 200", start_haproxy("ha-200", folder), None),
        ("table", "HAProxy, its stick table",
         start_haproxy("ha-table", folder, httpbench.TRACK, httpbench.TABLE), None),
        ("spoe", "HAProxy asks Sluice by SPOE",
         start_haproxy("ha-spoe", folder, spoe, AGENT.format(port=agent.port)), agent),
        ("null", "HAProxy asks an agent that decides nothing",
         start_haproxy("ha-null", folder, spoe, AGENT.format(port=null.port)), null),
        ("lua", "HAProxy asks Sluice by Lua", start_haproxy(
            "ha-lua", folder, by_lua, BY_HTTP.format(front=front, port=lua.port),
            "    lua-load-per-thread sluice.lua\n"), lua),
    ]


def one_run(proxy, agent, run_s, seed):
    before = proxy.cpu_ns(), agent.cpu_ns() if agent else 0
    requests, duration_us, p50, p99, p999, refused, broken = httpbench.wrk(proxy, "get", run_s, seed)
    after = proxy.cpu_ns(), agent.cpu_ns() if agent else 0
    if broken or requests == 0 or refused:
        harness.die(f"{proxy.name}: {requests:.0f} answers, {refused:.0f} of them no 200, {broken:.0f} broken")
    return {"haproxy_us": (after[0] - before[0]) / requests / 1e3, "agent_us": (after[1] - before[1]) / requests / 1e3,
            "ops_per_s": requests / duration_us * 1e6, "p50_us": p50, "p99_us": p99, "p999_us": p999}


def median(runs, field):
    return statistics.median(run[field] for run in runs)


def added(results, name):
    """What a request costs HAProxy more than an empty 200, by round."""
    return statistics.median(one["haproxy_us"] - empty["haproxy_us"]
                             for one, empty in zip(results[name], results["empty"]))


def print_table(rows, results):
    print(f"\nHAProxy that limits, {CONNECTIONS} connections, HAProxy and agent on one core")
    print(f"  {'':43} {'HAProxy us/op':>14} {'added':>8} {'agent us/op':>12} {'ops/s':>10} {'p50 us':>8} {'p99 us':>8}")
    for name, title, _, _ in rows:
        runs = results[name]
        print(f"  {title:43} {median(runs, 'haproxy_us'):14.2f} {added(results, name):8.2f}"
              f" {median(runs, 'agent_us'):12.2f} {median(runs, 'ops_per_s'):10,.0f} {median(runs, 'p50_us'):8.0f}"
              f" {median(runs, 'p99_us'):8.0f}")
    agent, more = median(results["spoe"], "agent_us"), added(results, "spoe")
    ratios = [one["agent_us"] / null["agent_us"] for one, null in zip(results["spoe"], results["null"])]
    print(f"  by SPOE: agent's CPU over the null agent's: {statistics.median(ratios):.2f}"
          f" ({min(ratios):.2f}..{max(ratios):.2f})")
    print(f"  by SPOE: agent {agent:.2f} us, goal {GOAL_AGENT_US}: {'PASS' if agent <= GOAL_AGENT_US else 'short'}; "
          f"HAProxy's own {more:.2f} us, goal {GOAL_ADDED_US}: {'PASS' if more <= GOAL_ADDED_US else 'short'}")


def measure(report, rounds, run_ms):
    missing = [program for program in ("wrk", "haproxy") if shutil.which(program) is None]
    if missing:
        harness.die(f"not installed: {', '.join(missing)}: tools/deps bench installs them")
    run_s = max(1, round(run_ms / 1000))
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        rows = start_all(folder)
        results = {name: [] for name, *_ in rows}
        for _, _, proxy, _ in rows:
            httpbench.wrk(proxy, "get", httpbench.WARMUP_S, 1)
        for turn in range(rounds):
            for name, _, proxy, agent in rows:
                results[name].append(one_run(proxy, agent, run_s, time.monotonic_ns() % 2**31))
            print(f"bench: HAProxy round {turn + 1} of {rounds} done", file=sys.stderr, flush=True)
        print_table(rows, results)
        report["haproxy"] = {"rows": results}
        for *_, proxy, agent in rows:
            for server in (proxy, agent):
                if server:
                    server.stop()
