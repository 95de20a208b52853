"""Leases, reservations, members, parts and retries at the HTTP door, by curl: every route, by the words of its
documentation, against the built server. Time is the client's, so that ends are met to the millisecond."""

import json
import shutil
import subprocess

import pytest

POLICY = """
client-time: true
attributes: {user: header x-user, device: header x-device}
limits:
  - {name: requests, key: user, limit: sliding-log 10/1h}
  - {name: tokens, key: user, limit: sliding-log 2000/1m, reserve: {ttl: 30s, estimate: 500, actual: header x-tokens}}
  - {name: flight, key: user, limit: concurrency 2 lease 20s}
  - {name: devices, key: user, limit: distinct 2/1h, of: device}
"""
START = 1_800_000_000_000
LEASE = "concurrency 2 lease 20s"


@pytest.fixture
def curl(server):
    """curl(path, at=ms, **members) gives (status, decoded body); without members it is a GET; headers= are sent, and
    show= names one of the answer's to be given instead of the body."""
    assert shutil.which("curl"), "curl is not installed: apt-get install curl"
    sluice = server(policy=POLICY)

    def ask(path, at=None, headers=(), show=None, **members):
        shown = "\n%header{" + show + "}" if show else ""
        command = ["curl", "-sS", "-w", shown + "\n%{http_code}", f"http://127.0.0.1:{sluice.http_port}{path}"]
        for line in headers:
            command += ["-H", line]
        if at is not None:
            members["at"] = START + at
        if members:
            command += ["--data-binary", json.dumps(members)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        body, status = done.stdout.rsplit("\n", 1)
        if show:
            return int(status), body.rsplit("\n", 1)[1]
        return int(status), json.loads(body) if body else None
    return ask


def test_leases(curl):
    def left():
        return curl("/v1/check", at=0, key="k", limits=[LEASE], peek=True)[1]["remaining"]

    status, one = curl("/v1/acquire", at=0, key="k", limits=[LEASE, "5/1m"])
    assert (status, one["remaining"], len(one["id"])) == (200, 1, 16)
    status, two = curl("/v1/acquire", at=1000, key="k", limits=[LEASE], id="job-7")
    assert (status, two["id"], "repeated" in two) == (200, "job-7", False)
    for at in (2000, 3000):
        status, again = curl("/v1/acquire", at=at, key="k", limits=[LEASE], id="job-7")
        assert (status, again["id"], again["repeated"]) == (200, "job-7", True)
    status, denied = curl("/v1/acquire", at=4000, key="k", limits=[LEASE, "5/1m"])
    assert (status, denied["retry_after_ms"]) == (429, 16000)
    assert denied["limits"][1]["remaining"] == 4, "charged by a request that was denied"
    status, held = curl("/v1/holders", at=4000, key="k", limits=[LEASE])
    assert status == 200 and held["count"] == 2
    assert [(h["cost"], h["ends_after_ms"]) for h in held["holders"]] == [(1, 16000), (1, 17000)]
    assert held["holders"][0]["id"] == one["id"]
    # an id as it is listed is as good as the client's own
    assert curl("/v1/renew", at=5000, key="k", id=held["holders"][1]["id"], limits=[LEASE]) == (200, {"renewed": 1})
    assert curl("/v1/release", at=5000, key="k", id=one["id"], limits=[LEASE]) == (200, {"released": 1})
    status, nothing = curl("/v1/release", at=5000, key="k", id=one["id"], limits=[LEASE])
    assert (status, nothing["released"]) == (200, 0) and "released before" in nothing["detail"]
    assert curl("/v1/release", at=5000, key="other", id="job-7", limits=[LEASE])[1]["released"] == 0
    # not a millisecond before its end, and then
    assert curl("/v1/acquire", at=24999, key="k", cost=2, limits=[LEASE])[0] == 429
    assert curl("/v1/acquire", at=25000, key="k", cost=2, limits=[LEASE])[0] == 200
    assert curl("/v1/check", key="k", limits=[LEASE])[0] == 400
    assert left() == 0


def test_reservations(curl):
    limits = ["sliding-log 1000/1m"]
    status, one = curl("/v1/reserve", at=0, key="k", cost=500, ttl_ms=5000, limits=limits)
    assert (status, one["remaining"]) == (200, 500)
    status, done = curl("/v1/commit", at=1000, id=one["id"], actual=731)
    assert (status, done["remaining"], done["limits"][0]["key"]) == (200, 269, "k")
    status, problem = curl("/v1/commit", at=1000, id=one["id"], actual=731)
    assert (status, problem["status"]) == (404, 404)
    # above the quota: debt, that the next one waits for
    status, two = curl("/v1/reserve", at=2000, key="k", cost=200, ttl_ms=5000, limits=limits)
    assert curl("/v1/commit", at=3000, id=two["id"], actual=2000)[1]["remaining"] == 0
    # what nobody commits goes back, at its end
    status, three = curl("/v1/reserve", at=0, key="l", cost=900, ttl_ms=5000, limits=limits, id="mine")
    assert curl("/v1/reserve", at=1, key="l", cost=900, ttl_ms=5000, limits=limits, id="mine")[1]["repeated"]
    assert curl("/v1/check", at=4999, key="l", cost=101, limits=limits)[0] == 429
    assert curl("/v1/check", at=5000, key="l", cost=1000, limits=limits)[0] == 200
    assert curl("/v1/commit", at=5000, id=three["id"], actual=1)[0] == 404


def test_members_parts_and_retries(curl):
    for member, status in (("a", 200), ("b", 200), ("c", 429), ("a", 200)):
        assert curl("/v1/check", at=0, key="k", limits=["distinct 2/1h"], member=member)[0] == status
    limits = [{"key": "k", "limit": "distinct 2/1h", "member": "b"}, {"key": "x", "limit": "5/1m"}]
    assert curl("/v1/check", at=0, limits=limits)[0] == 200
    for repeated in (None, True):
        status, body = curl("/v1/check", at=0, key="r", cost=3, id="once", limits=["fixed-window 5/1h"])
        assert (status, body["remaining"], body.get("repeated")) == (200, 2, repeated)
    status, body = curl("/v1/check", at=0, key="r", cost=9, upto=True, limits=["fixed-window 5/1h"])
    assert (status, body["granted"], body["remaining"]) == (200, 2, 0)


def test_a_policy(curl):
    def left(at):
        attributes = {"user": "alice", "device": "d1"}
        limits = curl("/v1/admit", at=at, attributes=attributes, peek=True)[1]["limits"]
        return tuple(one["remaining"] for one in limits)

    status, one = curl("/v1/admit", at=0, attributes={"user": "alice", "device": "d1"})
    assert status == 200 and left(0)[:3] == (9, 1500, 1)
    assert curl("/v1/commit", at=1000, id=one["id"], actual=1200)[0] == 200
    assert left(1000)[:3] == (9, 800, 1)
    assert curl("/v1/renew", at=2000, id=one["id"]) == (200, {"renewed": 1})
    assert left(21999)[2] == 1 and left(22000)[2] == 2
    assert curl("/v1/release", at=22000, id=one["id"])[1]["released"] == 0
    # as a proxy asks, and commits
    held = curl("/v1/auth/forward", headers=["X-User: bob", "X-Device: d"], show="sluice-ticket")[1]
    assert curl("/v1/auth/commit", headers=["Sluice-Ticket: " + held])[0] == 400
    assert curl("/v1/auth/commit", headers=["Sluice-Ticket: " + held, "X-Tokens: 12"]) == (
        200, {"released": 1, "committed": 1})
    assert curl("/v1/auth/commit", headers=["Sluice-Ticket: " + held, "X-Tokens: 12"])[0] == 404
    limits = curl("/v1/limits")[1]["limits"]
    assert [one["of"] for one in limits] == [None, None, None, "device"]
    assert limits[1]["reserve"] == {"ttl_ms": 30000, "actual": "x-tokens", "estimate": 500, "estimate_header": None}



def test_a_store_in_redis(server, redises):
    """The same through fronts: what one was told is committed at another, and what cannot be asked says so."""
    store = 'store: {redis: "127.0.0.1:%d", budget: 5s}\n' % redises().port
    policy = POLICY.replace("client-time: true\n", "") + store
    one, other = server(policy=policy), server(policy=policy)
    with one.http() as h, other.http() as i:
        assert h.post("/v1/acquire", {"key": "k", "id": "job", "limits": [LEASE]})[2]["remaining"] == 1
        again = i.post("/v1/acquire", {"key": "k", "id": "job", "limits": [LEASE]})[2]
        assert (again["repeated"], again["remaining"], again["id"]) == (True, 1, "job")
        assert i.post("/v1/release", {"key": "k", "id": "job", "limits": [LEASE]})[2] == {"released": 1}
        reserve = {"key": "k", "cost": 5, "ttl_ms": 60000, "limits": ["sliding-log 9/1h"]}
        ticket = h.post("/v1/reserve", reserve)[2]["id"]
        assert i.post("/v1/commit", {"id": ticket, "actual": 7})[2]["remaining"] == 2
        assert h.post("/v1/commit", {"id": ticket, "actual": 7})[0] == 404
        status, headers, _ = h.ask("GET", "/v1/auth/forward", headers={"X-User": "alice"})
        held = {"Sluice-Ticket": dict(headers)["Sluice-Ticket"]}
        assert status == 200 and i.ask("GET", "/v1/auth/commit", headers=held)[0] == 400
        done = i.ask("GET", "/v1/auth/commit", headers={**held, "X-Tokens": "12"})
        assert (done[0], done[2]) == (200, {"released": 1, "committed": 1})
        left = {one["name"]: one["remaining"] for one in h.ask("GET", "/v1/explain?user=alice")[2]["limits"]}
        assert left == {"requests": 9, "tokens": 1988, "flight": 2}
        status, _, problem = h.post("/v1/holders", {"key": "k", "limits": [LEASE]})
        assert status == 400 and "SLUICE.HOLDERS" in problem["detail"]
