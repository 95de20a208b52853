"""Quotas of keys' own where counters are in Redis: through the doors of servers, decided by at all of them. The same
cases as at a server of its own store and at the module; a cluster, where each key's is at its node and the list is of
all; what is told where it can't be done; and hot keys, of which fronts have slices: a change is seen within a
second."""

import subprocess
import threading
import time

import pytest

import override_cases
from cluster import Cluster, key_in, module_beside
from harness import DEADLINE_S, RespError, encode, wait_until

POLICY = """
threads: {threads}
store: {{redis: [{nodes}], budget: 5s{more}}}
trusted-proxies: [127.0.0.0/8]
limits:
  - name: per-user
    key: user
    limit: 5/3660d
    on-error: deny
    overrides: [{{when: {{plan: long}}, limit: fixed-window 50/3660d}}]
"""
KEY = ("policy:per-user", "user=ann")
SEEN_S = 2.0  # a second is what is promised (tests/unit/slice_test.c); this machine may be busy


@pytest.fixture
def front(server):
    def start(*ports, more="", threads=1):
        nodes = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
        one = server(POLICY.format(nodes=nodes, more=more, threads=threads))
        wait_until(lambda: decides(one), "no node answers")
        return one
    return start


def decides(one):
    with one.resp() as r:
        try:
            return r.call("SLUICE.CHECK", "warm", 1, "1M/1h") is not None
        except RespError:
            return False


def listed(r, *more):
    rows, cursor = [], None
    while cursor != 0:
        cursor, some = r.call("SLUICE.OVERRIDE", "LIST", cursor or 0, *more)
        rows += some
    return sorted(rows)


@pytest.mark.parametrize("slices", ["", ", slices: false"], ids=["slices", "without"])
def test_cases(front, redises, slices):
    one = front(redises(module=()).port, more=slices)
    with one.resp() as r, one.http() as http:
        for case in override_cases.CASES:
            override_cases.run(r, case, "resp: " + case[0])
            key = "http: " + case[0]
            override_cases.run(r, case, key, check=override_cases.by_http(http, key, case[1]))
        for limit, own, said in override_cases.REFUSED:
            with pytest.raises(RespError, match=said):
                r.call("SLUICE.OVERRIDE", "SET", limit, "refused", own)
        assert listed(r) == []


@pytest.mark.parametrize("slices", ["", ", slices: false"], ids=["slices", "without"])
def test_a_limit_of_a_key_that_is_unlimited_does_not_apply(front, redises, slices):
    nothing = [1, 4294967295, 4294967295, 0, 0, 0, -1]
    one = front(redises(module=()).port, more=slices)
    with one.resp() as r, one.http() as http:
        for user, before in (("cold", 1), ("hot", 80)):
            key = ("policy:per-user", f"user={user}")
            for _ in range(before):
                r.call("SLUICE.ADMIT", 1, "user", user)
            assert r.call("SLUICE.OVERRIDE", "SET", *key, "unlimited") == b"OK"
            wait_until(lambda of=user: r.call("SLUICE.ADMIT", 1, "user", of)[1] > 5, "it is not seen")
            for _ in range(80):
                assert r.call("SLUICE.ADMIT", 1, "user", user) == [*nothing, b""], user
            assert r.call("SLUICE.CHECK", key[1], 1, key[0]) == nothing
            assert r.call("SLUICE.PEEK", key[1], 1, key[0]) == nothing
            both = r.call("SLUICE.CHECK", key[1], 1, key[0], "9/3660d")
            assert (both[1], both[6]) == (9, 1)
            status, headers, said = http.ask("POST", "/v1/admit", {"attributes": {"user": user}})
            assert (status, said["limit"], said["reset_after_ms"]) == (200, "", 0)
            assert not [name for name, _ in headers if "ratelimit" in name.lower()]


def test_what_a_counter_holds_is_told_with_the_quota_of_the_keys_own(front, redises):
    """By RESP and HTTP; nothing of other keys and limits, nor where the node does not tell it."""
    node = redises(module=())
    one = front(node.port)
    with one.resp() as r, one.http() as http, node.resp() as there:
        def seen(key="user=ann", limit="policy:per-user"):
            row = r.call("SLUICE.INSPECT", key, limit)[0]
            yield {row[i].decode(): row[i + 1] for i in range(0, len(row), 2)}
            yield http.ask("POST", "/v1/inspect", {"key": key, "limits": [limit]})[2]["limits"][0]
            if limit != "policy:per-user":
                return
            row = r.call("SLUICE.WHY", 1, "user", key.partition("=")[2])[0]
            yield {row[i].decode(): row[i + 1] for i in range(0, len(row), 2)}

        def own_of(*what):
            told = [(one.get("own_quota"), one.get("own_ends_after_ms")) for one in seen(*what)]
            return [(quota.decode() if isinstance(quota, bytes) else quota, ends) for quota, ends in told]
        assert r.call("SLUICE.ADMIT", 1, "user", "ann")[:3] == [1, 5, 4]
        assert own_of() == 3 * [(None, None)]
        assert r.call("SLUICE.OVERRIDE", "SET", *KEY, "9/3660d") == b"OK"
        assert own_of() == 3 * [("sliding-window 9/3660d", -1)]
        assert all(what["quota"] == 9 and what["used"] == 1 for what in seen())
        assert own_of("user=ben") == 3 * [(None, None)] and own_of("user=ann", "5/3660d") == 2 * [(None, None)]
        assert r.call("SLUICE.OVERRIDE", "SET", "7/3660d", "user=ann", "unlimited", 3600000) == b"OK"
        for quota, ends in own_of("user=ann", "7/3660d"):
            assert quota == "unlimited" and 3000000 < ends <= 3600001
        there.call("ACL", "SETUSER", "default", "-sluice.override")
        assert own_of() == 3 * [(None, None)] and all(what["quota"] == 9 for what in seen())


def test_every_front_decides_by_it_and_so_does_the_module(front, redises, sluice_bin):
    redis = redises(module=())
    one, other = front(redis.port, more=", prefix: 'rl:'"), front(redis.port, more=", prefix: 'rl:'")
    alone = front(redis.port, more=", prefix: 'else:'")
    with one.resp() as a, other.resp() as b, redis.resp() as node, one.http() as http, alone.resp() as c:
        assert a.call("SLUICE.ADMIT", 1, "user", "ann")[:3] == [1, 5, 4]
        assert a.call("SLUICE.OVERRIDE", "SET", *KEY, "100/3660d") == b"OK"
        assert b.call("SLUICE.ADMIT", 1, "user", "ann")[:3] == [1, 100, 98]
        assert b.call("SLUICE.EXPLAIN", 1, "user", "ann")[0][4] == 100
        # a limit whose overrides count in windows of their own has several counters: each may have one
        assert a.call("SLUICE.OVERRIDE", "SET", *KEY, "fixed-window 60/3660d", 60000) == b"OK"
        assert b.call("SLUICE.ADMIT", 1, "user", "ann", "plan", "long")[1] == 60
        assert [row[:3] for row in listed(b)] == [[b"per-user", b"user=ann", b"fixed-window 60/3660d"],
                                                  [b"per-user", b"user=ann", b"sliding-window 100/3660d"]]
        assert node.call("SLUICE.CHECK", "rl:user=ann", 1, "NAME", "per-user", "5/3660d")[1] == 100
        assert len(node.call("SLUICE.OVERRIDE", "LIST")[1]) == 2 and listed(c) == []  # of another prefix
        at = "/v1/overrides/per-user/user=ann"
        assert http.ask("GET", at)[2]["limit"] == "sliding-window 100/3660d"
        assert http.ask("PUT", at, {"limit": "9/3660d", "ttl_ms": 60000})[2]["ends_after_ms"] == 60000
        assert {row["limit"] for row in http.ask("GET", "/v1/overrides")[2]["overrides"]} == \
            {"sliding-window 9/3660d", "fixed-window 60/3660d"}
        assert http.ask("PUT", at, {"limit": "9/1m"})[0] == 400
        assert http.ask("DELETE", at)[2] == {"deleted": 2} and http.ask("GET", at)[0] == 404

        def run(*words):
            done = subprocess.run([sluice_bin, "override", *words, "--server", f"127.0.0.1:{other.resp_port}"],
                                  capture_output=True, text=True, timeout=DEADLINE_S)
            return done.returncode, done.stdout, done.stderr
        assert run("set", *KEY, "7/3660d")[0] == 0 and run("get", *KEY)[1] == "sliding-window 7/3660d\n"
        assert run("list")[1] == "per-user  user=ann  sliding-window 7/3660d\n"
        assert run("del", *KEY)[0] == 0 and run("del", *KEY)[0] == 1
        # in a pipeline each is answered in its turn
        a.send(encode("SLUICE.OVERRIDE", "SET", *KEY, "33/3660d") + encode("SLUICE.PEEK", "user=ann", 1, KEY[0]) +
               encode("SLUICE.OVERRIDE", "DEL", *KEY) + encode("SLUICE.PEEK", "user=ann", 1, KEY[0]))
        assert [a.read(), a.read()[1], a.read(), a.read()[1]] == [b"OK", 33, 1, 5]


def test_a_reload_of_the_policy_and_a_restart_leave_it(front, redises):
    redis = redises(module=(), options=["--appendonly", "yes", "--appendfsync", "always"])
    one = front(redis.port)
    with one.resp() as r:
        assert r.call("SLUICE.OVERRIDE", "SET", *KEY, "100/3660d") == b"OK"
        with open(one.policy_file, encoding="utf-8") as f:
            policy = f.read()
        with open(one.policy_file, "w", encoding="utf-8") as f:
            f.write(policy.replace("limit: 5/3660d", "limit: 6/3660d"))
        r.call("SLUICE.RELOAD")
        wait_until(lambda: r.call("SLUICE.EXPLAIN", 1, "user", "bob")[0][4] == 6, "the policy was not read again")
        assert r.call("SLUICE.ADMIT", 1, "user", "ann")[1] == 100
        redis.restart()
        wait_until(lambda: decides(one), "no node answers")
        assert r.call("SLUICE.ADMIT", 1, "user", "ann")[:3] == [1, 100, 98]
        assert r.call("SLUICE.OVERRIDE", "DEL", *KEY) == 1
        assert r.call("SLUICE.ADMIT", 1, "user", "ann")[:3] == [1, 6, 3]


# ---- what can't be done ----------------------------------------------------------------------------------------------

def test_nobody_answers(server):
    one = server(POLICY.format(nodes="127.0.0.1:1", more="", threads=1).replace("budget: 5s", "budget: 100ms"))
    at = "/v1/overrides/per-user/k"
    with one.resp() as r:
        for words in (("SET", *KEY, "9/3660d"), ("GET", *KEY), ("DEL", *KEY), ("LIST",)):
            with pytest.raises(RespError, match="did not answer in time"):
                r.call("SLUICE.OVERRIDE", *words)
        with pytest.raises(RespError, match="another window"):  # who asks for what can't be is told that
            r.call("SLUICE.OVERRIDE", "SET", *KEY, "9/1h")
    with one.http() as http:
        assert [http.ask(*ask)[0] for ask in (("PUT", at, {"limit": "9/3660d"}), ("GET", at), ("DELETE", at),
                                              ("GET", "/v1/overrides"))] == [503] * 4


def test_a_key_is_listed_as_it_can_be_asked_for(front, redises):
    """`{` is written otherwise in Redis for limits of the policy; what is brought along keeps its own keys, whatever is
    in them. A key that is folded there is listed so."""
    redis = redises(module=())
    one = front(redis.port)
    long = "user={" + 1000 * "x"
    keys = {"policy:per-user": ["user={x}", "user=%7Bx}", "user={", long],
            "5/3660d": ["{x}", "%7Bx}", "user=%7Bx}", "user={x}"]}
    with one.resp() as r:
        for limit, own in keys.items():
            for key in own:
                assert r.call("SLUICE.OVERRIDE", "SET", limit, key, "9/3660d") == b"OK"
        rows = listed(r)
        assert sorted(row[1].decode() for row in rows if row[0] != b"per-user") == sorted(keys["5/3660d"])
        named = [row[1].decode() for row in rows if row[0] == b"per-user"]
        assert sorted(key for key in named if len(key) < 900) == ["user=%257Bx}", "user={", "user={x}"]
        assert len(rows) == 8 and r.call("SLUICE.EXPLAIN", 1, "user", "{x}")[0][2] == b"user={x}"
        for limit, key in ((row[0], row[1]) for row in rows):
            assert r.call("SLUICE.OVERRIDE", "GET", limit, key) is not None, key
            assert r.call("SLUICE.OVERRIDE", "DEL", limit, key) == 1, key
        assert listed(r) == []


def test_what_a_node_refuses_is_no_store_that_is_away(front, redises):
    redis = redises(module=("overrides-max", "1"))
    one = front(redis.port)
    at = "/v1/overrides/per-user/{}"
    with one.resp() as r, one.http() as http, redis.resp() as node:
        assert http.ask("PUT", at.format("one"), {"limit": "9/3660d"})[0] == 200
        status, _, told = http.ask("PUT", at.format("two"), {"limit": "9/3660d"})
        assert status == 409 and "overrides-max" in told["detail"]
        node.call("CONFIG", "SET", "maxmemory", "1")
        assert http.ask("PUT", at.format("one"), {"limit": "8/3660d"})[0] == 200  # one that is there may change
        assert http.ask("DELETE", at.format("one"))[0] in (200, 204)
        status, _, told = http.ask("PUT", at.format("one"), {"limit": "8/3660d"})
        assert status == 409 and "OOM" in told["detail"]
        node.call("CONFIG", "SET", "maxmemory", "0")
        node.call("ACL", "SETUSER", "default", "-sluice.override")
        with pytest.raises(RespError, match="the node refused it: 'NOPERM"):
            r.call("SLUICE.OVERRIDE", "SET", *KEY, "9/3660d")
        assert http.ask("GET", at.format("one"))[0] == 400
        assert r.call("SLUICE.ADMIT", 1, "user", "ann")[0] == 1  # and decisions go on


def test_a_node_with_the_script_alone_says_so(front, redises):
    one = front(redises(module=None).port)
    with one.resp() as r, one.http() as http:
        for words in (("SET", *KEY, "9/3660d"), ("GET", *KEY), ("DEL", *KEY), ("LIST",)):
            with pytest.raises(RespError, match="only the script, which keeps no quotas of keys' own"):
                r.call("SLUICE.OVERRIDE", *words)
        assert http.ask("GET", "/v1/overrides")[0] == 400


# ---- a cluster -------------------------------------------------------------------------------------------------------

def test_in_a_cluster(server, sluice_bin):
    with Cluster(module=[module_beside(sluice_bin)]) as cluster:
        nodes = ", ".join(f'"{node!r}"' for node in cluster.nodes[:2])
        one, other = (server(POLICY.format(nodes=nodes, more="", threads=2)) for _ in range(2))
        wait_until(lambda: decides(one) and decides(other), "no node answers")
        slots = [100 + i * 1600 for i in range(10)]
        keys = [key_in(slot, "k:") for slot in slots]
        with one.resp() as a, other.resp() as b:
            for key in keys:
                wait_until(lambda: a.call("SLUICE.OVERRIDE", "SET", "5/3660d", key, "9/3660d") == b"OK", "not set")
            for key in keys:
                assert b.call("SLUICE.CHECK", key, 6, "5/3660d")[:3] == [1, 9, 3]
            told = listed(b, "COUNT", 3)
            assert sorted({row[1].decode() for row in told}) == sorted(keys)
            # it moves with its slot
            source = cluster.owner(slots[0])
            target = next(node for node in cluster.primaries() if node is not source)
            cluster.move_slot(slots[0], target)
            assert b.call("SLUICE.CHECK", keys[0], 3, "5/3660d")[:3] == [1, 9, 0]
            assert a.call("SLUICE.OVERRIDE", "GET", "5/3660d", keys[0]) == [b"sliding-window 9/3660d", -1]
            assert a.call("SLUICE.OVERRIDE", "DEL", "5/3660d", keys[0]) == 1
            assert b.call("SLUICE.CHECK", keys[0], 1, "5/3660d")[:3] == [0, 5, 0]


# ---- slices ----------------------------------------------------------------------------------------------------------

class Load(threading.Thread):
    """Asks one front for one key, some at a time, and notes when how many were admitted, and by which quota."""

    def __init__(self, front, key, limit):
        super().__init__()
        self.front, self.words = front, encode("SLUICE.CHECK", key, 1, limit) * 20
        self.end, self.seen = threading.Event(), []

    def run(self):
        with self.front.resp() as r:
            while not self.end.is_set():
                sent = time.monotonic()
                r.send(self.words)
                got = [r.read() for _ in range(20)]
                self.seen.append((sent, sum(one[0] for one in got), {one[1] for one in got}))
                time.sleep(0.002)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.end.set()
        self.join()

    def since(self, at):
        return [one for one in self.seen if one[0] >= at]


def held(node, key):
    counters = [dict(zip(one[::2], one[1::2])) for one in node.call("SLUICE.INSPECT", key)]
    return sum(one.get(b"held", 0) for one in counters)


def test_slices_see_a_change_within_a_second(front, redises):
    """Hot keys at two fronts, with slices out: what is asked some time after a SET, at whichever front, is decided by
    the new quota."""
    redis = redises(module=())
    one, other = front(redis.port), front(redis.port)
    limit, key = "token-bucket 1000000/1s burst 1000000", "hot"
    with one.resp() as r, redis.resp() as node, Load(one, key, limit) as near, Load(other, key, limit) as far:
        wait_until(lambda: held(node, "sluice:" + key) > 0, "no slice was taken")
        for own, quota in (("token-bucket 1000000/1s burst 5", 5), ("unlimited", override_cases.MANY),
                           ("token-bucket 1000000/1s burst 700000", 700000), (None, 1000000)):
            if own is not None:
                assert r.call("SLUICE.OVERRIDE", "SET", limit, key, own) == b"OK"
            else:
                assert r.call("SLUICE.OVERRIDE", "DEL", limit, key) == 1
            changed = time.monotonic()
            for load in (near, far):
                wait_until(lambda: len(load.since(changed + SEEN_S)) >= 5, "no load")
                late = [one for one in load.since(changed + SEEN_S) if one[2] != {quota}]
                assert late == [], (own, late[:3])


def test_a_slice_that_is_exhausted_sees_a_raise_within_a_second(front, redises):
    redis = redises(module=())
    one, other = front(redis.port), front(redis.port)
    limit, key = "500/3660d", "spent"
    with one.resp() as r, Load(one, key, limit) as near, Load(other, key, limit) as far:
        for load in (near, far):
            wait_until(lambda: len(load.seen) > 50 and load.seen[-1][1] == 0, "the quota is never spent")
        spent = sum(admitted for load in (near, far) for _, admitted, _ in load.seen)
        assert spent == 500
        assert r.call("SLUICE.OVERRIDE", "SET", limit, key, "2000000/3660d") == b"OK"
        changed = time.monotonic()
        for load in (near, far):
            wait_until(lambda: len(load.since(changed + SEEN_S)) >= 5, "no load")
            assert all(admitted == 20 for _, admitted, _ in load.since(changed + SEEN_S)), load.since(changed)[:400]
        assert r.call("SLUICE.OVERRIDE", "SET", limit, key, "0/3660d") == b"OK"
        changed = time.monotonic()
        for load in (near, far):
            wait_until(lambda: len(load.since(changed + SEEN_S)) >= 5, "no load")
            assert sum(admitted for _, admitted, _ in load.since(changed + SEEN_S)) == 0


def test_while_the_quota_flips_no_more_than_the_larger_is_admitted(front, redises):
    redis = redises(module=())
    one, other = front(redis.port), front(redis.port, threads=2)
    limit, key = "1000/3660d", "flips"
    with one.resp() as r, Load(one, key, limit) as near, Load(other, key, limit) as far:
        for n in range(60):
            if n % 2 == 0:
                assert r.call("SLUICE.OVERRIDE", "SET", limit, key, "3000/3660d") == b"OK"
            else:
                assert r.call("SLUICE.OVERRIDE", "DEL", limit, key) == 1
            time.sleep(0.02)
    admitted = sum(admitted for load in (near, far) for _, admitted, _ in load.seen)
    assert 1000 <= admitted <= 3000
