"""What a running server tells of itself: /metrics in both forms, held to their rules by a strict reader, by promtool
and by a real Prometheus; /v1/figures, which must agree; and that the number of series never depends on what clients
send.

SLUICE_METRICS_KEYS=N (100,000) is how many random keys the last is tried with.
"""

import json
import math
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import urllib.parse
import urllib.request

import pytest

from harness import DEADLINE_S, ROOT, encode, wait_until
from ports import free_port

OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"
# What Prometheus 2.42 sends.
PROMETHEUS_ACCEPTS = ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                      "text/plain;version=0.0.4;q=0.5,*/*;q=0.1")

POLICY = """
client-time: true
near-limit: 20%
limits:
  - {name: login, when: {path: /login}, key: ip, limit: sliding-log 5/1h}
  - {name: per-user, key: user, limit: 10/1h, candidate: 8/1h}
  - {name: "odd \\"name\\" \\\\", when: {path: /odd}, key: user, limit: 2/1h, observe: true}
"""
ODD = 'odd "name" \\'


# ---- a strict reader ------------------------------------------------------------------------------------------------

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+)\})? (\S+)')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


def unescape(text):
    return re.sub(r'\\(.)', lambda m: "\n" if m[1] == "n" else m[1], text)


def read_samples(text, open_metrics):
    """{(name, frozenset of labels): value}, families {name: type}; fails at whatever either format forbids."""
    assert text.endswith("\n")
    lines = text.split("\n")[:-1]
    if open_metrics:
        assert lines.pop() == "# EOF"
    samples, families, units, family, kind = {}, {}, {}, None, None
    helped = None
    for line in lines:
        if line.startswith("# HELP "):
            helped, words = line.split(" ", 3)[2:]
            assert words and helped not in families, line
        elif line.startswith("# TYPE "):
            family, kind = line.split(" ")[2:]
            assert family == helped, line
            families[family] = kind
            if kind == "counter" and not open_metrics:
                assert family.endswith("_total"), line
                family = family[:-len("_total")]
            elif kind == "counter":
                assert not family.endswith("_total"), line
        elif line.startswith("# UNIT "):
            assert open_metrics and line.split(" ")[2] == family and family.endswith("_" + line.split(" ")[3]), line
            units[family] = line
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            name, labels = match[1], {k: unescape(v) for k, v in LABEL.findall(match[2] or "")}
            assert name.startswith(family) and name[len(family):] in SUFFIXES[kind], f"{line!r} in {family}"
            at = (name, frozenset(labels.items()))
            assert at not in samples, line
            samples[at] = float(match[3])
    assert not open_metrics or units
    check_histograms(samples, families)
    return samples, families


def check_histograms(samples, families):
    for family in (f for f, kind in families.items() if kind == "histogram"):
        for series in {labels - {x for x in labels if x[0] == "le"} for name, labels in samples
                       if name == family + "_bucket"}:
            buckets = sorted((math.inf if dict(labels)["le"] == "+Inf" else float(dict(labels)["le"]), value)
                             for (name, labels), value in samples.items()
                             if name == family + "_bucket" and labels >= series)
            assert buckets[-1][0] == math.inf and len(buckets) == 26
            assert [v for _, v in buckets] == sorted(v for _, v in buckets)
            assert buckets[-1][1] == samples[(family + "_count", series)]
            assert samples[(family + "_sum", series)] >= 0


def scrape(server, accept=None):
    with server.http() as http:
        status, headers, body = http.ask("GET", "/metrics", headers={"Accept": accept} if accept else None)
    assert status == 200
    kind = dict(headers)["Content-Type"]
    assert kind in (OPEN_METRICS, PLAIN)
    return kind, body.decode()


def metrics(server):
    kind, text = scrape(server)
    assert kind == PLAIN
    return read_samples(text, False)[0]


def figures(server, query=""):
    with server.http() as http:
        status, _, body = http.ask("GET", "/v1/figures" + query)
    assert status == 200, body
    return body


def value(samples, name, **labels):
    return samples[(name, frozenset(labels.items()))]


def play(server):
    """Some traffic at both doors, whose decisions are known."""
    with server.resp() as r, server.http() as h:
        for _ in range(12):  # per-user: 10 allowed, 2 denied; its candidate denies from the ninth on
            r.call("SLUICE.ADMIT", 1, "user", "ann")
        for _ in range(7):  # login: 5 allowed, 2 denied
            h.post("/v1/admit", {"attributes": {"ip": "192.0.2.1", "path": "/login"}, "cost": 1})
        for _ in range(3):  # the odd one observes: the third would be denied
            h.post("/v1/admit", {"attributes": {"user": "bob", "path": "/odd"}})
        for _ in range(4):  # in notation: 3 allowed of cost 2, 1 denied
            r.call("SLUICE.CHECK", "k", 2, "6/1h")
        r.call("SLUICE.PEEK", "k", 2, "6/1h")  # no decision
        h.post("/v1/check", {"key": "x", "limits": ["5/1h"], "peek": True})


# ---- forms ----------------------------------------------------------------------------------------------------------

def test_both_forms_keep_their_rules_and_say_the_same(server):
    one = server(policy=POLICY)
    play(one)
    kind, plain = scrape(one)
    assert kind == PLAIN
    kind, openly = scrape(one, PROMETHEUS_ACCEPTS)
    assert kind == OPEN_METRICS
    samples, families = read_samples(plain, False)
    open_samples, open_families = read_samples(openly, True)
    assert set(samples) == set(open_samples)
    assert {f.removesuffix("_total") if k == "counter" else f: k for f, k in families.items()} == open_families
    assert all(f.startswith(("sluice_", "process_")) for f in families)


@pytest.mark.parametrize("fleet", (False, True))
def test_promtool_has_nothing_to_say(server, redises, fleet):
    store = 'store: {redis: "127.0.0.1:%d", budget: 5s}\n' % redises().port if fleet else ""
    one = server(policy=POLICY + store)
    play(one)
    for accept in (None, OPEN_METRICS):
        text = scrape(one, accept)[1]
        if accept:  # promtool reads the plain form only: what differs is put back
            text = re.sub(r"^# (HELP|TYPE) (\S+)(?= .*\n(?:# TYPE \S+ counter|(?:# UNIT.*\n)?\2_total))",
                          r"# \1 \2_total", text, flags=re.M)
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ---- numbers --------------------------------------------------------------------------------------------------------

def test_what_was_decided_is_what_is_told(server):
    one = server(policy=POLICY)
    play(one)
    m = metrics(one)
    assert value(m, "sluice_requests_total", transport="resp", decision="allowed") == 13
    assert value(m, "sluice_requests_total", transport="resp", decision="denied") == 3
    assert value(m, "sluice_requests_total", transport="http", decision="allowed") == 8
    assert value(m, "sluice_requests_total", transport="http", decision="denied") == 2

    def decisions(decision, transport, **policy):
        return value(m, "sluice_decisions_total", decision=decision, transport=transport, **policy)

    assert decisions("allowed", "resp", policy="per-user") == 10
    assert decisions("denied", "resp", policy="per-user") == 2
    assert decisions("allowed", "http", policy="per-user") == 3
    assert decisions("allowed", "http", policy="login") == 5
    assert decisions("denied", "http", policy="login") == 2
    assert decisions("allowed", "http", policy=ODD) == 2
    assert decisions("shadow_denied", "http", policy=ODD) == 1
    assert decisions("denied", "http", policy=ODD) == 0
    assert decisions("allowed", "resp") == 3  # notation: no label
    assert decisions("denied", "resp") == 1
    assert value(m, "sluice_hits_total", decision="allowed") == 6
    assert value(m, "sluice_hits_total", decision="denied") == 2
    assert value(m, "sluice_candidate_denied_total", policy="per-user") == 4  # the ninth to the twelfth
    assert value(m, "sluice_near_limit_total", policy="per-user") == 3  # 2, 1 and 0 of 10 left
    assert value(m, "sluice_decision_duration_seconds_count") >= 26
    assert value(m, "sluice_decision_duration_seconds_sum") > 0
    assert value(m, "sluice_request_duration_seconds_count", transport="resp") >= 17
    assert value(m, "sluice_request_duration_seconds_sum", transport="http") > 0
    assert value(m, "sluice_limits") == 3
    assert value(m, "sluice_denials_by_route_total", policy="login", route="/login") == 2
    assert value(m, "sluice_denials_by_route_total", policy=ODD, route="/odd") == 0  # it observes


ROUTES = """
limits:
  - {name: org, when: {path: ["/orgs/{org}/search", "/orgs/*"]}, key: org | ip, limit: 1/1h}
  - {name: all, key: ip, limit: 1000/1h}
"""


def routes(one):
    """{(policy, route): denials}"""
    told = {tuple(sorted(labels)): v for (name, labels), v in metrics(one).items()
            if name == "sluice_denials_by_route_total"}
    return {tuple(v for _, v in labels): v for labels, v in told.items()}


def test_denials_are_told_by_the_routes_of_the_policy_through_reloads(server):
    one = server(policy=ROUTES)
    assert routes(one) == {("org", "/orgs/{org}/search"): 0, ("org", "/orgs/*"): 0}
    with one.resp() as r, one.http() as h:
        for _ in range(3):  # two of them denied
            h.post("/v1/admit", {"attributes": {"ip": "192.0.2.1", "path": "/orgs/acme/search?q=%s" % random.random()}})
        for org in range(40):  # the proxies' door; paths that clients make up add nothing
            for _ in range(2):
                h.ask("GET", "/v1/auth/nginx", headers={"X-Forwarded-Uri": "/orgs/o%d/search" % org,
                                                        "X-Original-Uri": "/orgs/o%d/search" % org,
                                                        "X-Forwarded-For": "192.0.2.1"})
        for _ in range(3):
            r.call("SLUICE.ADMIT", 1, "ip", "192.0.2.1", "path", "/orgs/acme/else")
        r.call("SLUICE.CHECK", "org=acme", 1, "policy:org")  # denied by name: no path is known
    assert routes(one) == {("org", "/orgs/{org}/search"): 42, ("org", "/orgs/*"): 2}
    with open(one.policy_file, "w", encoding="utf-8") as f:
        f.write(ROUTES.replace('"/orgs/*"', '"/orgs/{org}/repos"'))
    with one.http() as h:
        assert h.ask("POST", "/v1/reload")[0] == 200
    assert routes(one) == {("org", "/orgs/{org}/search"): 42, ("org", "/orgs/*"): 2, ("org", "/orgs/{org}/repos"): 0}


def test_limits_by_name_count_under_their_name_at_both_doors(server):
    one = server(POLICY)
    with one.resp() as r, one.http() as h:
        assert r.call("SLUICE.CHECK", "user=alice", 1, "policy:per-user", "7/1h")[0] == 1
        assert h.post("/v1/check", {"key": "user=alice", "limits": ["policy:per-user", "7/1h"]})[0] == 200
    samples = metrics(one)
    for transport in ("resp", "http"):
        labels = {"decision": "allowed", "transport": transport}
        assert value(samples, "sluice_decisions_total", policy="per-user", **labels) == 1
        assert value(samples, "sluice_decisions_total", **labels) == 1, "the one in notation"


def test_what_is_held_is_counted(server):
    one = server(policy="client-time: true\nlimits:\n"
                        "  - {name: knock, key: user, limit: 1/1h, penalty: \"[1m, 1h] after 2 denials in 1m\"}\n")
    flight, window = ["concurrency 2 lease 1h"], ["fixed-window 10/1h"]
    at = 1767225600000
    with one.http() as h, one.resp() as r:
        def post(route, **members):
            return h.post("/v1/" + route, {"at": at, **members})[2]

        ids = [post("acquire", key="k", limits=flight, id=name)["id"] for name in ("a", "a", "b")]
        assert ids == ["a", "a", "b"] and post("acquire", key="k", limits=flight)["allowed"] is False
        assert post("renew", key="k", limits=flight, id="a") == {"renewed": 1}
        assert [post("release", key="k", limits=flight, id="a")["released"] for _ in range(2)] == [1, 0]
        ticket = post("reserve", key="k", cost=5, ttl_ms=1000, limits=window)["id"]
        assert post("commit", id=ticket, actual=7)["remaining"] == 3
        assert post("commit", id=ticket, actual=7)["status"] == 404
        assert post("check", key="k", cost=9, upto=True, limits=window)["granted"] == 3
        retried = [post("check", key="r", id="once", limits=window).get("repeated") for _ in range(3)]
        assert retried == [None, True, True]
        for _ in range(5):  # the second denial begins a shut-out; what is asked during it begins none
            post("admit", attributes={"user": "u"})
        assert r.call("SLUICE.RELEASE", "k", "b", "AT", at, *flight) == 1
    m, f = metrics(one), figures(one)
    want = {"leases": {"acquired": 2, "released": 1, "renewed": 1, "unknown": 1},
            "reservations": {"made": 1, "committed": 1, "unknown": 1}}
    for family, events in want.items():
        told = [dict(labels)["event"] for name, labels in m if name == f"sluice_{family}_total"]
        assert set(told) == set(events) and len(told) % len(events) == 0, family
        for event, count in events.items():
            assert value(m, f"sluice_{family}_total", transport="http", event=event) == count, (family, event)
            also = 1 if (family, event) == ("leases", "released") else 0
            assert value(m, f"sluice_{family}_total", transport="resp", event=event) == also
            assert f[family][event] == count + also
    assert value(m, "sluice_repeated_total", transport="http") == f["repeated"] == 3
    assert value(m, "sluice_partly_granted_total", transport="http") == f["partly_granted"] == 1
    assert value(m, "sluice_penalties_total", policy="knock") == f["limits"][1]["penalties"] == 1


def test_figures_say_the_same_as_the_metrics(server):
    one = server(policy=POLICY)
    play(one)
    m, f = metrics(one), figures(one)
    for transport in ("resp", "http"):
        for decision in ("allowed", "denied", "error"):
            assert f["requests"][transport][decision] == value(m, "sluice_requests_total", transport=transport,
                                                               decision=decision)
    assert [x["name"] for x in f["limits"]] == ["", "login", "per-user", ODD]
    assert f["limits"][0]["limit"] is None and f["limits"][1]["limit"] == "sliding-log 5/1h"
    assert [x["candidate"] for x in f["limits"]] == [None, None, "sliding-window 8/1h", None]
    assert [x["observe"] for x in f["limits"]] == [False, False, False, True]
    for limit in f["limits"]:
        policy = {"policy": limit["name"]} if limit["name"] else {}
        for decision in ("allowed", "denied", "shadow_denied", "error"):
            assert limit[decision] == sum(value(m, "sluice_decisions_total", decision=decision, transport=t, **policy)
                                          for t in ("resp", "http"))
        assert limit["near"] == value(m, "sluice_near_limit_total", **policy)
        assert limit["candidate_denied"] == value(m, "sluice_candidate_denied_total", **policy)
        assert limit["hits_allowed"] == value(m, "sluice_hits_total", decision="allowed", **policy)
    assert "history" not in f["limits"][0]
    times = f["decision_seconds"]
    assert len(times["bounds"]) == 25 and len(times["counts"]) == 26 and times["bounds"][0] == 1e-7
    assert sum(times["counts"]) == value(m, "sluice_decision_duration_seconds_count")
    assert f["store"]["bytes"] == value(m, "sluice_store_bytes")
    assert f["store"]["slots"] == value(m, "sluice_store_slots")
    assert f["started_ms"] <= f["reloads"]["last_ms"] <= f["now_ms"]
    assert f["uptime_s"] == (f["now_ms"] - f["started_ms"]) // 1000
    assert f["denial_log"] == {"written": 0, "dropped": 0}
    assert f["draining"] is False


def test_info_says_the_same_as_the_metrics(server):
    one = server(policy=POLICY)
    play(one)
    with one.resp() as r:
        info = dict(x.split(":", 1) for x in r.call("INFO").decode().splitlines() if ":" in x)
        m = metrics(one)
        assert int(info["connected_clients"]) == value(m, "sluice_connections", transport="resp") == 1
    for transport in ("resp", "http"):
        for decision in ("allowed", "denied", "error"):
            told = value(m, "sluice_requests_total", transport=transport, decision=decision)
            assert int(info[f"sluice_{transport}_{decision}"]) == told
    assert int(info["total_connections_received"]) == value(m, "sluice_connections_accepted_total", transport="resp")
    assert int(info["rejected_connections"]) == value(m, "sluice_connections_refused_total") == 0
    assert int(info["sluice_keys_evicted"]) == value(m, "sluice_keys_evicted_total", reason="full")
    assert int(info["sluice_threads"]) == value(m, "sluice_threads")


def test_the_history_is_what_was_counted(server):
    one = server(policy=POLICY)
    play(one)

    def whole():
        got = {x["name"]: x["history"] for x in figures(one, "?history=1")["limits"]}
        sums = [sum(got[name][what]) for name, what in (("per-user", "allowed"), ("per-user", "candidate"),
                                                        (ODD, "shadow"), ("login", "denied"), ("", "denied"))]
        return got if sums == [13, 4, 1, 2, 1] else None
    history = wait_until(whole, "a sample of all that was played")
    assert len({h["last_ms"] for h in history.values()}) == 1
    for h in history.values():
        assert h["step_ms"] == 2000 and 0 < h["steps"] <= 450
        assert all(len(h[x]) in (0, h["steps"]) for x in ("allowed", "denied", "shadow", "near", "candidate"))
        assert all(any(h[x]) for x in ("allowed", "denied", "shadow", "near", "candidate") if h[x])
    assert history[ODD]["denied"] == []
    only = figures(one, "?history=1&limit=" + urllib.parse.quote(ODD))["limits"]
    assert [x["name"] for x in only] == [ODD]
    assert [x["name"] for x in figures(one, "?limit=")["limits"]] == [""]
    for query in ("?history=2", "?histroy=1", "?limit=%zz"):
        with one.http() as http:
            status, _, body = http.ask("GET", "/v1/figures" + query)
        assert status == 400 and "history=1" in body["detail"]


def pages_mapped(pid, least):
    """How many pages a process has looked at of its mappings of at least so many bytes."""
    count = 0
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/pagemap", "rb") as pagemap:
        for line in maps:
            begin, end = (int(x, 16) for x in line.split()[0].split("-"))
            if end - begin >= least and line.split()[1].startswith("rw"):
                pagemap.seek(begin // 4096 * 8)
                count += sum(byte >> 7 for byte in pagemap.read((end - begin) // 4096 * 8)[7::8])
    return count


def test_counters_of_the_store_are_counted_and_need_no_memory(server):
    one = server(policy="store: {memory: 512MiB, pretouch: false}\nthreads: 1\n")

    def resident():
        m = metrics(one)
        return ("sluice_keys", frozenset()) in m and value(m, "process_resident_memory_bytes")
    memory = wait_until(resident, "a first count")
    assert memory < 64 << 20, "counting has made the store resident"
    # where a page that is read costs nothing, all share one of zeroes: what was read is told by the page tables
    assert pages_mapped(one.process.pid, 512 << 20) < 16384, "counting has read all of the store"
    assert value(metrics(one), "sluice_keys") == 0


def test_a_reload_tells_what_became_of_it(server):
    one = server(policy=POLICY)
    play(one)
    before = metrics(one)

    def reload(text, result):
        count = value(metrics(one), "sluice_config_reloads_total", result=result)
        with open(one.policy_file, "w", encoding="utf-8") as f:
            f.write(text)
        one.process.send_signal(signal.SIGHUP)
        wait_until(lambda: value(metrics(one), "sluice_config_reloads_total", result=result) > count, "a reload")
        return metrics(one)

    m = reload("limits: [", "failed")
    assert value(m, "sluice_config_last_reload_successful") == 0
    then = value(before, "sluice_config_last_reload_success_timestamp_seconds")
    assert value(m, "sluice_config_last_reload_success_timestamp_seconds") == then
    m = reload(POLICY.replace("name: login", "name: logon"), "ok")
    assert value(m, "sluice_config_last_reload_successful") == 1
    assert value(m, "sluice_config_last_reload_success_timestamp_seconds") > then
    # No counter jumps: what stays goes on, what went is still told, what is new begins at 0.
    for (name, labels), was in before.items():
        if name.endswith("_total") and name.startswith("sluice_"):
            assert m[(name, labels)] >= was, (name, labels)
    assert value(m, "sluice_decisions_total", decision="denied", transport="http", policy="login") == 2
    assert value(m, "sluice_decisions_total", decision="denied", transport="http", policy="logon") == 0
    assert [x["name"] for x in figures(one)["limits"]] == ["", "logon", "per-user", ODD]


def test_bytes_that_are_no_requests_are_counted(server):
    one = server()
    with one.resp() as r:
        r.send(b"*1\r\n$x\r\n")
        r.drain()
    with socket.create_connection(("127.0.0.1", one.http_port), 10) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost a\r\n\r\n")
        while s.recv(4096):
            pass
    m = metrics(one)
    assert value(m, "sluice_protocol_errors_total", transport="resp") == 1
    assert value(m, "sluice_protocol_errors_total", transport="http") == 1


# ---- cardinality ----------------------------------------------------------------------------------------------------

def resident_kib(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))


def test_a_day_of_random_keys_adds_no_series_and_no_memory(server):
    """Random keys and attributes at every door over 24 simulated hours: the same series before and after, and from its
    first quarter on, when the store has been touched all over, no memory to speak of."""
    count = int(os.environ.get("SLUICE_METRICS_KEYS", "100000"))
    seed = int(os.environ.get("SLUICE_SEED", str(random.randrange(1 << 32))))
    rng = random.Random(seed)
    print(f"SLUICE_SEED={seed}")
    one = server(policy=POLICY + "store: {memory: 8MiB, pretouch: false}\n")
    wait_until(lambda: ("sluice_keys", frozenset()) in metrics(one), "a first count")
    resident = {}
    before = set(metrics(one))
    start_ms, batch = 1767225600000, 1000
    with one.resp() as r:
        for at in range(0, count, batch):
            commands = []
            for i in range(at, at + batch):
                key, now_ms = rng.randbytes(rng.randrange(1, 40)), start_ms + i * 86400000 // count
                limit = f"{rng.randrange(1, 1000)}/{rng.randrange(1, 1000)}s"
                commands.append(encode("SLUICE.CHECK", key, 1, "AT", now_ms, limit) if i % 2 else
                                encode("SLUICE.ADMIT", 1, "user", key, "path", rng.choice(["/login", "/odd", key])))
            r.send(b"".join(commands))
            for _ in commands:
                assert isinstance(r.read(), list)
            if (at + batch) * 4 // count != at * 4 // count:
                resident[(at + batch) * 4 // count] = resident_kib(one)
    with one.http() as h:
        for i in range(100):
            h.ask("GET", "/" + rng.randbytes(8).hex())
            h.post("/v1/admit", {"attributes": {rng.choice(["user", "ip", "a" + str(i)]): str(rng.random())}})
    after = metrics(one)
    print(f"{count} keys over 24 simulated hours: {len(after)} series as before; resident KiB by quarter: "
          + ", ".join(str(resident[quarter]) for quarter in sorted(resident)))
    assert set(after) == before
    assert resident[4] - resident[1] <= 1024
    assert sum(v for (name, _), v in after.items() if name == "sluice_requests_total") == count + 100


# ---- a real Prometheus ----------------------------------------------------------------------------------------------

@pytest.fixture
def prometheus(tmp_path):
    """A factory of real Prometheus servers with our rules, which scrape a port every second: returns a query."""
    program = shutil.which("prometheus")
    assert program, "prometheus is not installed: apt-get install prometheus"
    started = []

    def start(port):
        rules = os.path.join(ROOT, "examples", "prometheus", "alerts.yml")
        (tmp_path / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [rules],
            "scrape_configs": [{"job_name": "sluice", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}]}))
        own = free_port()
        with open(tmp_path / "log", "wb") as log:
            started.append(subprocess.Popen(
                [program, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
                 f"--web.listen-address=127.0.0.1:{own}", "--log.level=warn"], stdout=log, stderr=log))

        def ask(path, **parameters):
            url = f"http://127.0.0.1:{own}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
            try:
                with urllib.request.urlopen(url, timeout=DEADLINE_S) as response:
                    return json.load(response)["data"]
            except urllib.error.HTTPError as e:
                if e.code == 503:
                    return None
                raise AssertionError(e.read().decode()) from e
            except OSError:
                return None
        return ask

    yield start
    for process in started:
        process.terminate()
        process.wait(DEADLINE_S)


def expressions():
    """Every expression of the dashboard with its variables filled in, and every one of the alerts."""
    with open(os.path.join(ROOT, "examples", "grafana", "sluice.json"), encoding="utf-8") as f:
        dashboard = json.load(f)
    found = [t["expr"] for p in dashboard["panels"] for t in p.get("targets", [])]
    return [e.replace("$__rate_interval", "1m").replace("$job", "sluice").replace("$instance", ".*")
            .replace("$policy", ".*").replace("$backend_job", ".*")
            .replace("$backend", "sluice_decision_duration_seconds_bucket") for e in found]


def test_a_real_prometheus_scrapes_it_and_the_dashboard_finds_its_series(server, prometheus, redises):
    node = redises()  # so that the panels of a fleet have something to show
    one = server(policy=POLICY + 'store: {redis: "127.0.0.1:%d", budget: 5s}\n' % node.port)
    play(one)
    ask = prometheus(one.http_port)

    def query(expression):
        data = ask("query", query=expression)
        return data and [(r["metric"], float(r["value"][1])) for r in data["result"]]
    wait_until(lambda: query('up{job="sluice"} == 1'), "a scrape", 60)
    names = wait_until(lambda: ask("label/__name__/values"), "names")
    told = {name for name, _ in metrics(one)}
    assert told <= set(names)
    (_, denied), = query('sum(sluice_decisions_total{policy="login",decision="denied"})')
    assert denied == 2
    assert [m["policy"] for m, _ in query('sluice_near_limit_total{policy=~"odd.*"}')] == [ODD]
    (_, bucket), = query('sluice_decision_duration_seconds_bucket{le="10.0"}')
    assert bucket >= 26
    wait_until(lambda: query("count_over_time(up[1m]) >= 3"), "three scrapes", 60)
    for expression in expressions():  # NaN is a value: a ratio of nothing
        if "on (policy)" not in expression and query(expression) == []:
            raise AssertionError(f"no data for {expression}")
    rules = [r for g in ask("rules")["groups"] for r in g["rules"]]
    with open(os.path.join(ROOT, "examples/prometheus/alerts.yml"), encoding="utf-8") as file:
        written = re.findall(r"^ *- alert:", file.read(), re.M)
    assert len(rules) == len(written) >= 15 and all(r["health"] in ("ok", "unknown") for r in rules)
