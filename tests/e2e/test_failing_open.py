"""Failing open, loudly: what an operator, a client and a proxy are told while nobody answers for the counters.

One line when limits open and one when they hold again, with how many passed; a mark on each answer that passed
undecided; the metrics; and Retry-After where on-error: deny denies. With a node that is killed, a node that is stopped,
and two nodes' worth of limits of which some are decided."""
import re

import pytest

from harness import wait_until
from redis_world import redises  # noqa: F401
from test_fleet import decides, front, limit, metric, policy  # noqa: F401

MARKED = "headers: [draft10, failed-open]\nattributes: {a: header x-a, b: header x-b, c: header x-c}\n"
LIMITS = (limit("open", "a", on_error="allow"), limit("shut", "b", on_error="deny"),
          limit("own", "c", "sliding-log 3/1h", on_error="local"))


def lines(one, word):
    return [line for line in one.stderr.text().splitlines() if word in line]


def admit(http, body):
    return http.post("/v1/admit", body)


def ask_proxy(http, **headers):
    status, told, _ = http.ask("GET", "/v1/auth/forward", headers={"X-Forwarded-Uri": "/x", **headers})
    return status, dict(told)


@pytest.fixture
def away(front, redises):  # noqa: F811
    """A front whose node is gone, and the node."""
    redis = redises()
    one = front(MARKED + policy(redis, *LIMITS, budget=2000))
    with one.resp() as r:
        assert r.call("SLUICE.ADMIT", 1, "OPEN", "a", "x")[7:] == [b"open", 0]
    assert "failed_open" not in admit(one.http(), {"attributes": {"a": "x"}})[2]
    redis.kill()
    return one, redis


def marks_of_resp(one):
    with one.resp() as r:
        assert r.call("SLUICE.ADMIT", 1, "OPEN", "a", "x") == [1, 4294967295, 4294967295, 0, 0, 0, -1, b"", 1]
        assert r.call("SLUICE.ADMIT", 1, "OPEN", "b", "x")[0::8] == [0, 0]  # denied
        assert r.call("SLUICE.ADMIT", 1, "OPEN", "c", "x")[0::8] == [1, 0]  # decided here
        both = r.call("SLUICE.ADMIT", 1, "NEXT", "OPEN", "a", "x", "c", "x")
        assert both[0:3] == [1, 3, 1] and both[7] == b"own" and both[9] == 1 and len(both) == 10
        assert len(r.call("SLUICE.ADMIT", 1, "a", "x")) == 8


def marks_of_http(one):
    with one.http() as http:
        status, headers, body = admit(http, {"attributes": {"a": "x"}})
        assert status == 200 and body["failed_open"] is True and dict(headers)["Sluice-Failed-Open"] == "1"
        status, headers, body = admit(http, {"attributes": {"c": "y"}})
        assert status == 200 and "failed_open" not in body and "Sluice-Failed-Open" not in dict(headers)
        status, headers, body = admit(http, {"attributes": {"b": "x"}})
        assert status == 503 and dict(headers)["Retry-After"] == "1" and "failed_open" not in body
        status, headers, body = http.post("/v1/check", {"key": "k", "limits": ["5/1h"]})
        assert status == 503 and dict(headers)["Retry-After"] == "1"
        status, headers = ask_proxy(http, **{"X-A": "x"})
        assert status == 200 and headers["Sluice-Failed-Open"] == "1"
        status, headers = ask_proxy(http, **{"X-B": "x"})
        assert status == 503 and headers["Retry-After"] == "1" and "Sluice-Failed-Open" not in headers
        status, headers, body = admit(http, {"attributes": {"a": "x"}, "peek": True})
        assert body["failed_open"] is True


def test_what_passes_is_marked_told_and_counted(away):
    one, redis = away
    marks_of_resp(one)
    marks_of_http(one)
    passed = 5  # three over RESP, two over HTTP; a peek passes nothing
    assert metric(one, "sluice_failed_open_total", policy="open") == passed
    assert 1 <= metric(one, "sluice_failed_open_seconds_total", policy="open") <= 60
    assert metric(one, "sluice_failed_open_total", policy="shut") == 0
    assert metric(one, "sluice_failed_open_total", policy="own") == 0
    assert lines(one, "limits fail open") == [
        "sluice: warning: limits fail open: open lets requests pass undecided (on-error: allow): the store did not "
        "answer in time"]
    redis.start()
    wait_until(lambda: decides(one), "no recovery")
    with one.resp() as r:
        def holds():
            return r.call("SLUICE.ADMIT", 1, "OPEN", "a", "z")[8] == 0 and lines(one, "limits hold again")
        wait_until(holds, "the end of the outage is not told")
    told = lines(one, "limits hold again")
    assert len(told) == len(lines(one, "limits fail open")) == 1
    assert re.search(r"limits hold again: (\d+) requests passed undecided in \d+\.\d s$", told[0]), told
    assert int(re.search(r"again: (\d+)", told[0])[1]) == metric(one, "sluice_failed_open_total", policy="open")


def test_no_mark_where_it_is_not_wanted(front, redises):  # noqa: F811
    redis = redises()
    one = front("attributes: {a: header x-a}\n" + policy(redis, LIMITS[0], budget=2000))
    redis.kill()
    with one.http() as http:
        assert "Sluice-Failed-Open" not in ask_proxy(http, **{"X-A": "x"})[1]
        status, headers, body = admit(http, {"attributes": {"a": "x"}})
        assert body["failed_open"] is True and "Sluice-Failed-Open" not in dict(headers)
