"""Quotas of keys' own at run time: through the door of one server, decided by at all doors of all that share its store,
and still there after a restart where the store is a file."""

import os

import pytest

POLICY = """
store: {%s, memory: 8MiB}
attributes: {user: header x-user}
trusted-proxies: [127.0.0.0/8]
limits:
  - name: per-user
    key: user
    limit: 5/1h
    overrides: [{when: {plan: day}, limit: 50/1d}, {when: {plan: pro}, limit: 7/1h}]
"""
KEY = ("policy:per-user", "user=ann")


def admit(r, *more):
    return r.call("SLUICE.ADMIT", 1, "user", "ann", *more)


def test_two_servers_of_one_store_decide_by_it_at_once(server):
    name = f"sluice-override-{os.getpid()}"
    policy = POLICY % f"shared: {name}"
    try:
        one, other = server(policy), server(policy)
        with one.resp() as a, other.resp() as b:
            assert admit(a)[:3] == [1, 5, 4]
            assert a.call("SLUICE.OVERRIDE", "SET", *KEY, "100/1h") == b"OK"
            assert admit(b)[:3] == [1, 100, 98]
            assert b.call("SLUICE.OVERRIDE", "GET", *KEY) == [b"sliding-window 100/1h", -1]
            # before an override of the file for the same counter; another window is another counter
            assert admit(b, "plan", "pro")[1] == 100
            assert admit(b, "plan", "day")[1] == 50
            assert a.call("SLUICE.OVERRIDE", "SET", *KEY, "60/1d", 60000) == b"OK"
            assert admit(b, "plan", "day")[1] == 60
            status, headers, _ = other.http().ask("GET", "/v1/auth/forward", headers={"x-user": "ann"})[:3]
            assert status == 200
            assert 'r=' in {k.lower(): v for k, v in dict(headers).items()}["ratelimit"]
            explained = b.call("SLUICE.EXPLAIN", 1, "user", "ann")
            assert explained[0][4] == 100
            listed, cursor = [], None
            while cursor != 0:
                cursor, some = a.call("SLUICE.OVERRIDE", "LIST", cursor or 0)
                listed += some
            assert sorted(row[:3] for row in listed) == [
                [b"per-user", b"user=ann", b"sliding-window 100/1h"],
                [b"per-user", b"user=ann", b"sliding-window 60/1d"]]
            assert a.call("SLUICE.OVERRIDE", "DEL", *KEY) == 2
            assert a.call("SLUICE.OVERRIDE", "DEL", *KEY) == 0
            assert b.call("SLUICE.OVERRIDE", "GET", *KEY) is None
            assert admit(b)[1] == 5
    finally:
        path = f"/dev/shm/sluice-{name}"
        if os.path.exists(path):
            os.unlink(path)


def test_it_outlasts_a_restart_in_a_file(server, tmp_path):
    policy = POLICY % f"file: {tmp_path / 'store'}"
    one = server(policy)
    with one.resp() as r:
        assert r.call("SLUICE.OVERRIDE", "SET", *KEY, "unlimited", 3600000) == b"OK"
        assert r.call("SLUICE.OVERRIDE", "SET", "100/1m", "k", "7/1m") == b"OK"
    one.stop()
    other = server(policy)
    with other.resp() as r:
        assert admit(r)[:3] == [1, 4294967295, 4294967295]
        notation, left = r.call("SLUICE.OVERRIDE", "GET", *KEY)
        assert notation == b"unlimited" and 3000000 < left <= 3600001
        assert r.call("SLUICE.CHECK", "k", 1, "100/1m")[1:3] == [7, 6]


def test_bad_requests_say_what_is_wrong_and_change_nothing(server, tmp_path):
    one = server(POLICY % f"file: {tmp_path / 'store'}")
    with one.resp() as r:
        for words, said in ((("SET", *KEY, "9/1m"), "another window"),
                            (("SET", *KEY, "token-bucket 9/1h"), "algorithm"),
                            (("SET", "policy:nobody", "k", "9/1h"), "no limit of that name"),
                            (("SET", *KEY, "9/1h", "0"), "ttl_ms"), (("SET", *KEY, "nine"), "quota, column"),
                            (("SET", *KEY), "wrong number"), (("GET", "policy:per-user", "x" * 1025), "1025 bytes"),
                            (("LIST", "x"), "LIST [cursor")):
            with pytest.raises(Exception, match=said.replace("[", r"\[")):
                answer = r.call("SLUICE.OVERRIDE", *words)
                raise AssertionError(answer)
        assert r.call("SLUICE.OVERRIDE", "LIST") == [0, []]


def test_where_counters_are_in_redis_there_are_none(server):
    one = server("store: {redis: 127.0.0.1:1}\nlimits: [{name: per-user, key: user, limit: 5/1h}]\n")
    with one.resp() as r, pytest.raises(Exception, match="in Redis"):
        r.call("SLUICE.OVERRIDE", "SET", *KEY, "9/1h")
