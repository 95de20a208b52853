"""What a policy says of a request besides who it is: what it costs, which route it is, under which id it is retried,
and what a denial's body is. At every door: RESP, HTTP, the proxies' doors, a front with its store in Redis, replay."""

import json
import subprocess

import pytest

from harness import DEADLINE_S, RespError, raw_exchange, wait_until
from redis_world import redises  # noqa: F401

COST = """
limits:
  - {name: five, when: {path: /five}, key: ip, limit: fixed-window 20/3660d, cost: 5}
  - {name: said, when: {path: /said}, key: ip, limit: fixed-window 20/3660d, cost: [header x-cost, 2]}
  - name: routes
    when: {path: /routes*}
    key: ip
    limit: fixed-window 20/3660d
    cost: [{when: {path: /routes/export*}, cost: 10}, header x-cost, 2]
  - {name: all, when: {path: /five}, key: ip, limit: fixed-window 100/3660d}
"""


@pytest.fixture
def front(server, redises):  # noqa: F811
    """A front of one node with the module, by a policy's text."""
    def start(text):
        node = redises()
        one = server(policy=f'store: {{redis: "127.0.0.1:{node.port}", budget: 10s, via: module}}\n' + text)
        wait_until(lambda: can_decide(one), "no node answers")
        return one
    return start


def can_decide(one):
    with one.resp() as r:
        try:
            return bool(r.call("SLUICE.CHECK", "warm", 1, "1M/1h"))
        except RespError:
            return False


@pytest.fixture(params=["here", "redis"])
def place(request, server, front):
    """Starts a server whose store is here, or in Redis."""
    return (lambda text: server(policy=text)) if request.param == "here" else front


def admit(one, cost, **attributes):
    with one.resp() as r:
        answer = r.call("SLUICE.ADMIT", cost, *sum(map(list, attributes.items()), []))
    return answer[0], answer[2], answer[7].decode()


def ask(one, door, path, ip, method="GET", **headers):
    """The status, headers and body of a proxy's question."""
    own = {"forward": {"X-Forwarded-Method": method, "X-Forwarded-Uri": path},
           "nginx": {"X-Original-Method": method, "X-Original-URI": path}, "envoy": {}}[door]
    http = one.http()
    target = "/v1/auth/" + door + (path if door == "envoy" else "")
    try:
        status, head, body = http.ask(method if door == "envoy" else "GET", target, None, {
            "X-Forwarded-For": ip, **own, **{k.replace("_", "-"): v for k, v in headers.items()}})
    finally:
        http.close()
    return status, head, body


def left(head):
    """What is left of the limit that decided, as a header says it."""
    return int(dict(head)["RateLimit"].split(";r=")[1].split(";")[0])


def test_a_cost_at_every_door(place):
    one = place(COST)
    assert admit(one, 1, path="/five", ip="a") == (1, 15, "five")
    assert admit(one, 9, path="/five", ip="a") == (1, 10, "five")  # a number holds, whoever asks
    assert admit(one, 0, path="/five", ip="a") == (1, 10, "five")  # what costs nothing costs nothing anywhere
    with one.resp() as r:
        told = r.call("SLUICE.EXPLAIN", 1, "path", "/five", "ip", "a")
    assert [(x[0], x[5]) for x in told] == [(b"five", 10), (b"all", 90)]
    assert admit(one, 7, path="/said", ip="a") == (1, 13, "said")
    assert admit(one, 7, path="/routes/export/x", ip="a") == (1, 10, "routes")
    http = one.http()
    answer = http.post("/v1/admit", {"attributes": {"path": "/five", "ip": "a"}})[2]
    assert [(x["name"], x["remaining"]) for x in answer["limits"]] == [("five", 5), ("all", 89)]
    assert http.post("/v1/admit", {"attributes": {"path": "/said", "ip": "a"}})[2]["remaining"] == 11
    assert http.post("/v1/admit", {"attributes": {"path": "/said", "ip": "a"}, "cost": 1})[2]["remaining"] == 10
    http.close()


@pytest.mark.parametrize("door", ["forward", "nginx", "envoy"])
def test_a_cost_at_the_proxies_doors(place, door):
    one = place(COST)
    assert left(ask(one, door, "/five", "192.0.2.1")[1]) == 15
    for headers, rest in (({}, 18), ({"X_Cost": "7"}, 11), ({"X_Cost": "0"}, 11), ({"x_cost": "11"}, 0)):
        status, head, _ = ask(one, door, "/said", "192.0.2.1", **headers)
        assert (status, left(head)) == (200, rest), headers
    assert ask(one, door, "/said", "192.0.2.1", X_Cost="1")[0] == (403 if door == "nginx" else 429)
    assert left(ask(one, door, "/routes/export/1", "192.0.2.1", X_Cost="1")[1]) == 10
    assert left(ask(one, door, "/routes/1", "192.0.2.1", X_Cost="1")[1]) == 9
    for wrong in ("many", "-1", "4294967296", "1.5", ""):
        status, _, body = ask(one, door, "/routes/1", "192.0.2.1", X_Cost=wrong)
        assert status == (403 if door == "nginx" else 400)
        assert body["detail"] == "x-cost must be a whole number 0..4294967295, on one line: what the request costs"
    assert left(ask(one, door, "/routes/1", "192.0.2.1", X_Cost="1")[1]) == 8  # nothing was charged for those


def test_a_cost_in_replay(sluice_bin, tmp_path, redises):  # noqa: F811
    (tmp_path / "p.yaml").write_text(COST)
    lines = [f'192.0.2.1 - - [17/May/2015:10:05:0{i} +0000] "GET {path} HTTP/1.1" 200 1\n'
             for i, path in enumerate(["/five", "/five", "/five", "/five", "/five", "/routes/export/x", "/routes/x"])]
    (tmp_path / "log").write_text("".join(lines))
    node = redises()
    for where in ([], ["--store", f"redis://127.0.0.1:{node.port}"]):
        done = subprocess.run([sluice_bin, "replay", "-c", tmp_path / "p.yaml", "--decisions", *where,
                               tmp_path / "log"],
                              capture_output=True, text=True, timeout=DEADLINE_S, check=True)
        assert [line.split()[:2] for line in done.stdout.splitlines()] == [
            ["1", "15"], ["1", "10"], ["1", "5"], ["1", "0"], ["0", "0"], ["1", "10"], ["1", "8"]], done.stderr


def test_the_number_after_a_header_in_replay(sluice_bin, tmp_path):
    """A line has no headers: it costs the number, as without a header at a server; a cost that it says goes before."""
    (tmp_path / "p.yaml").write_text(COST)
    lines = [{"ts": 1 + i, "ip": "a", "path": "/said", **cost}
             for i, cost in enumerate([{}, {"cost": 7}, {"cost": 1}, {"cost": None}, {"cost": 0}, {}])]
    (tmp_path / "log").write_text("".join(json.dumps(x) + "\n" for x in lines))
    done = subprocess.run([sluice_bin, "replay", "-c", tmp_path / "p.yaml", "--decisions", tmp_path / "log"],
                          capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        ["1", "18"], ["1", "11"], ["1", "10"], ["1", "8"], ["1", "8"], ["1", "6"]], done.stderr


# ---- routes, keys ----------------------------------------------------------------------------------------------------

ROUTES = """
paths: {trailing-slash: ignore, case: ignore}
limits:
  - name: per-route
    when: {path: [/orgs/{org}/search, /orgs/{org}/repos/{repo}/*]}
    key: [ip, route]
    limit: fixed-window 3/3660d
  - {name: per-org, when: {path: /orgs/{org}/*}, key: org, limit: fixed-window 9/3660d}
  - {name: visitors, when: {path: /visit}, key: visitor | "unknown", limit: fixed-window 2/3660d}
"""


def test_routes_at_every_door(place):
    one = place(ROUTES)
    assert admit(one, 1, path="/orgs/a/search", ip="192.0.2.1") == (1, 2, "per-route")
    for door, path in (("forward", "/orgs/b/search/?q=1"), ("nginx", "/Orgs/c/SEARCH")):
        assert ask(one, door, path, "192.0.2.1")[0] == 200
    status, _, body = ask(one, "envoy", "/orgs/d/search", "192.0.2.1")
    assert status == 429 and body["violated-policies"] == ["per-route"]
    assert ask(one, "envoy", "/orgs/d/repos/x/y", "192.0.2.1")[0] == 200  # another route
    http = one.http()
    told = http.ask("GET", "/v1/explain?path=/orgs/a/search&ip=192.0.2.1")[2]["limits"]
    assert [(x["key"], x["allowed"]) for x in told] == [("ip=192.0.2.1,route=/orgs/{org}/search", False),
                                                        ("org=a", True)]
    answer = http.post("/v1/admit", {"attributes": {"path": "/orgs/a/x", "ip": "192.0.2.1", "org": "b"}})[2]
    assert (answer["limit"], answer["remaining"]) == ("per-org", 7)
    http.close()
    with one.resp() as r:
        assert [x[2] for x in r.call("SLUICE.EXPLAIN", 1, "path", "/orgs/a/search", "ip", "192.0.2.1")] == [
            b"ip=192.0.2.1,route=/orgs/{org}/search", b"org=a"]


def test_a_literal_at_every_door(place):
    one = place(ROUTES)
    assert admit(one, 1, path="/visit", visitor="unknown") == (1, 1, "visitors")
    assert admit(one, 1, path="/visit") == (1, 1, "visitors")
    assert ask(one, "forward", "/visit/", "192.0.2.1")[0] == 200
    assert ask(one, "envoy", "/visit", "192.0.2.2")[0] == 429
    assert admit(one, 1, path="/visit", visitor="unknown") == (1, 0, "visitors")
    with one.resp() as r:
        assert r.call("SLUICE.EXPLAIN", 1, "path", "/visit")[0][2] == b"=unknown"


# ---- retries, the environment ---------------------------------------------------------------------------------------

RETRIES = """
retry-id: header idempotency-key
limits: [{name: a, when: {path: /a*}, key: ip, limit: fixed-window 5/3660d, cost: [header x-cost, 1]}]
"""


@pytest.mark.parametrize("door", ["forward", "nginx", "envoy"])
def test_a_retry_is_charged_once(place, door):
    one = place(RETRIES)

    def rest(path="/a", method="GET", **headers):
        status, head, _ = ask(one, door, path, "192.0.2.1", method, **headers)
        assert status == 200
        return left(head)

    assert [rest(Idempotency_Key="k1") for _ in range(3)] == [4, 4, 4]
    assert rest(Idempotency_Key="k2") == 3
    assert rest(path="/ab", Idempotency_Key="k1") == 2  # another request, whatever its id
    assert rest(method="POST", Idempotency_Key="k1") == 1
    assert rest(Idempotency_Key="") == 0
    assert rest(Idempotency_Key="k1") == 0
    assert ask(one, door, "/a", "192.0.2.1", Idempotency_Key="k3")[0] == (403 if door == "nginx" else 429)


def test_two_retry_ids_are_none(server):
    one = server(policy=RETRIES)
    for door, status in (("forward", 400), ("nginx", 403), ("envoy", 400)):
        data = raw_exchange(one.http_port, (f"GET /v1/auth/{door} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                                            "Idempotency-Key: a\r\nIdempotency-Key: a\r\n\r\n").encode())
        assert data.startswith(b"HTTP/1.1 %d " % status), data
        assert b"idempotency-key is given twice: expected one line" in data


def test_the_environment(server, sluice_bin, tmp_path, monkeypatch):
    text = 'limits: [{name: a, key: ip, limit: "fixed-window ${E2E_QUOTA:-7}/1h"}]\n'
    assert admit(server(policy=text), 1, ip="a")[1] == 6
    monkeypatch.setenv("E2E_QUOTA", "3")
    assert admit(server(policy=text), 1, ip="a")[1] == 2
    (tmp_path / "p.yaml").write_text("limits:\n- {name: a, key: ip, limit: \"5/${E2E_NOTHING}\"}\n")
    done = subprocess.run([sluice_bin, "lint", tmp_path / "p.yaml"], capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 1
    assert f"{tmp_path}/p.yaml:2:32: error: the environment has no 'E2E_NOTHING'" in done.stdout


def test_routes_in_replay(sluice_bin, tmp_path):
    (tmp_path / "p.yaml").write_text(ROUTES)
    (tmp_path / "log").write_text("".join(
        f'192.0.2.1 - - [17/May/2015:10:05:0{i} +0000] "GET {path} HTTP/1.1" 200 1\n'
        for i, path in enumerate(["/orgs/a/search", "/orgs/b/search/", "/orgs/c/search", "/orgs/d/search", "/visit"])))
    done = subprocess.run([sluice_bin, "replay", "-c", tmp_path / "p.yaml", "--decisions", tmp_path / "log"],
                          capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        ["1", "2"], ["1", "1"], ["1", "0"], ["0", "0"], ["1", "1"]]


def test_a_name_that_is_nobodys(sluice_bin, tmp_path):
    (tmp_path / "p.yaml").write_text("attributes: {user: header x-user-id}\n"
                                     "limits: [{name: a, key: usr | ip, limit: 5/1m}]\n")
    done = subprocess.run([sluice_bin, "lint", tmp_path / "p.yaml"], capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 1
    assert f"{tmp_path}/p.yaml:2:25: error: unknown attribute 'usr': did you mean 'user'?" in done.stdout
