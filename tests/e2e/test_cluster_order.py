"""A front over a real Redis Cluster: calls over several slots, many at a time.

What is in flight must not be seen by what comes behind it: pipelined calls answer as one after another do, many
connections get exactly the quota, and what only others' holds deny waits for what becomes of them.

The number of calls and of runs grows with SLUICE_SOAK_SECONDS: 100,000 random calls, 20 bursts of each algorithm.
"""

import collections
import os
import random
import threading
import time

import pytest

from cluster import Client, Cluster, Module, Script, module_beside, slot_of
from harness import DEADLINE_S, RespError, Server, encode, wait_until
from redis_world import SOAK
from test_fleet import metric, random_commands

POLICY = """
client-time: true
threads: {threads}
store: {{redis: ["{node!r}"], budget: {budget}ms, via: {via}, slices: false}}
limits:
  - {{name: per-user, key: user, limit: "{user}", strict: true, on-error: {on_error}}}
  - {{name: per-address, key: ip, limit: "{ip}", strict: true, on-error: {on_error}, observe: {observe}}}
"""


@pytest.fixture(scope="module")
def cluster(sluice_bin):
    with Cluster(module=[module_beside(sluice_bin), "client-time", "yes"]) as one:
        yield one


@pytest.fixture(scope="module")
def bare_cluster():
    with Cluster() as one:
        yield one


@pytest.fixture
def fronts(sluice_bin):
    started = []

    def start(cluster, count=1, user="sliding-log 1000/1h", ip="sliding-log 700/1h", budget=2000, threads=2,
              on_error="allow", via="module", observe="false"):
        text = POLICY.format(node=cluster.nodes[0], user=user, ip=ip, budget=budget, threads=threads, on_error=on_error,
                             via=via, observe=observe)
        new = [Server(sluice_bin, text) for _ in range(count)]
        started.extend(new)
        for one in new:
            wait_until(lambda: metric(one, "sluice_fleet_nodes", state="up") >= 3, "not all primaries are up")
        return new

    yield start
    for one in started:
        one.stop()


names = iter(range(1 << 30))


def third_of(key):
    return slot_of(key) // (16384 // 3 + 1)


def new_names():
    """A user and an address whose counters lie at different primaries, new ones for every call."""
    n = next(names)
    user, ips = f"u{n}", (f"{n}-{i}" for i in range(1 << 20))
    return user, next(ip for ip in ips if third_of("sluice:ip=" + ip) != third_of("sluice:user=" + user))


def bounds_met(one):
    return sum(metric(one, "sluice_bounds_total", policy=name, bound=bound)
               for name in ("per-user", "per-address") for bound in ("holds", "queue"))


def pipelined(r, commands, each):
    for at in range(0, len(commands), each):
        r.send(b"".join(encode(*words) for words in commands[at:at + each]))
        yield from [r.read() for _ in commands[at:at + each]]


# ---- retries ---------------------------------------------------------------------------------------------------------

RETRIED = """
threads: 1
store: {{redis: ["{node!r}"], budget: 5000ms, slices: false}}
retry-id: header idempotency-key
attributes: {{user: header x-user, team: header x-team}}
limits:
  - {{name: per-user, key: user, limit: fixed-window 90/3660d}}
  - {{name: per-team, key: team, limit: fixed-window 80/3660d, optional: true}}
"""


def test_proxies_requests_with_an_id_are_decided_over_several_slots(cluster, server):
    """Their client can't help where keys lie: each retry is charged. In one slot it is charged once."""
    one = server(policy=RETRIED.format(node=cluster.nodes[0]))
    wait_until(lambda: metric(one, "sluice_fleet_nodes", state="up") >= 3, "not all primaries are up")
    user, team = f"u{next(names)}", (f"t{next(names)}" for _ in range(1 << 20))
    team = next(t for t in team if third_of("sluice:team=" + t) != third_of("sluice:user=" + user))
    with one.http() as http:
        def left(**more):
            said = {"Idempotency-Key": "i", "X-User": user, **more}
            status, headers, _ = http.ask("GET", "/v1/auth/nginx", headers=said)
            return status, dict(headers).get("RateLimit")
        assert [left()[1].split(";")[1] for _ in range(2)] == ["r=89"] * 2
        apart = [left(**{"X-Team": team}) for _ in range(2)]
        assert [status for status, _ in apart] == [200, 200]
        assert [told.split(";")[:2] for _, told in apart] == [['"per-team"', "r=79"], ['"per-team"', "r=78"]]
        body = {"attributes": {"user": user, "team": team}, "id": "i"}
        assert http.post("/v1/admit", body)[0] == 400, "who says an id himself is told"
    lines = [line for line in one.stderr.text().splitlines() if "retry-id" in line]
    assert len(lines) == 1 and "hash tag" in lines[0]


# ---- a slot that moves -----------------------------------------------------------------------------------------------

TAGGED = """
threads: 1
store: {{redis: ["{node!r}"], prefix: "{{moves}}:", budget: 300ms, slices: false}}
limits:
  - {{name: per-user, key: user, limit: sliding-log 9/1h, on-error: deny}}
  - {{name: per-ip, key: ip, limit: sliding-log 8/1h, on-error: deny}}
"""


def test_new_keys_of_a_slot_that_moves(cluster, server):
    """A command for two keys of it is refused while one may be here and one there: each has its own then."""
    one = server(policy=TAGGED.format(node=cluster.nodes[0]))
    wait_until(lambda: metric(one, "sluice_fleet_nodes", state="up") >= 3, "not all primaries are up")
    slot, told = slot_of("moves"), []
    source = cluster.owner(slot)
    target = next(node for node in cluster.primaries() if node is not source)
    with one.resp() as r:
        def ask():
            for _ in range(4):
                n = next(names)
                told.append(r.call("SLUICE.ADMIT", 1, "user", f"m{n}", "ip", f"m{n}")[:3])
        ask()
        cluster.move_slot(slot, target, ask)
        ask()
    cluster.move_slot(slot, source)
    assert len(told) >= 16 and told.count([1, 8, 7]) >= len(told) - 2, told
    assert sum("is being moved" in line for line in one.stderr.text().splitlines()) >= 1


# ---- one connection --------------------------------------------------------------------------------------------------

def check_random_calls(cluster, fronts, server, count, seed, via):
    one, = fronts(cluster, via=via, threads=1)
    reference = server(policy="client-time: true\n")
    commands = list(random_commands(random.Random(seed), count, [f"r{next(names)}" for _ in range(12)]))
    with reference.resp() as there, one.resp() as here:
        for words, want, got in zip(commands, pipelined(there, commands, 100), pipelined(here, commands, 60)):
            # A hold drops what has expired of its key, so a reset may find fewer counters to forget.
            same = got <= want if words[0] == "SLUICE.RESET" else str(got) == str(want)
            assert same, f"seed {seed}: {words}: {want}, not {got}"
    assert metric(one, "sluice_fleet_decisions_total", way="held") > count / 10
    assert metric(one, "sluice_fleet_decisions_total", way="failed") == 0
    assert bounds_met(one) == 0


def test_pipelined_calls_answer_as_one_after_another(cluster, fronts, server):
    seed = random.randrange(1 << 32) if SOAK else 60
    check_random_calls(cluster, fronts, server, 100000 if SOAK else 4000, seed, "module")


def test_by_script_likewise(bare_cluster, fronts, server):
    """With client-time: true the front loads the script that lets AT through."""
    seed = random.randrange(1 << 32) if SOAK else 61
    check_random_calls(bare_cluster, fronts, server, 20000 if SOAK else 800, seed, "script")


def test_a_pipeline_is_told_one_after_another(cluster, fronts):
    """Without instants: all that the quota has, in order, and then denials with their waits."""
    one, = fronts(cluster, user="fixed-window 90/3660d", ip="leaky-bucket 70/3660d queue 69", threads=1)
    user, ip = new_names()
    with one.resp() as r:
        replies = list(pipelined(r, [("SLUICE.ADMIT", 1, "user", user, "ip", ip)] * 180, 60))
    assert [(reply[0], reply[1], reply[2]) for reply in replies] == (
        [(1, 70, 69 - i) for i in range(70)] + [(0, 70, 0)] * 110)
    step = 3660 * 86400000 // 70
    assert all(abs(reply[5] - i * step) < 5000 for i, reply in enumerate(replies[:70]))  # behind those before it
    assert all(0 < reply[3] <= step + 1 and reply[5] == 0 and reply[7] == b"per-address" for reply in replies[70:])


def test_a_limit_that_has_room_is_not_told_to_deny(cluster, fronts):
    """Of two limits of one counter, held for at once, one denies; of the other the counter's figures are told."""
    one, = fronts(cluster, threads=1)
    user, ip = new_names()
    with one.http() as http:
        told = http.post("/v1/check", {"key": user, "cost": 3, "limits": [
            "sliding-log 2/1h", "sliding-log 5/1h", {"key": ip, "limit": "sliding-log 9/1h"}]})[2]
    assert told["violated-policies"] == ["sliding-log 2/1h"]
    assert [(row["allowed"], row["remaining"], row["retry_after_ms"]) for row in told["limits"]] == [
        (False, 2, -1), (True, 5, 0), (True, 9, 0)]


def test_what_several_slots_cost(cluster, fronts):
    """A lone call: a HOLD and a CONFIRM in each slot. Many at a time: a HOLD for all of them, a CONFIRM for each."""
    one, = fronts(cluster, user="fixed-window 1M/1h", ip="fixed-window 1M/1h", threads=1)

    def spent(count):
        user, ip = new_names()
        before = collections.Counter(cluster.calls("sluice."))
        with one.resp() as r:
            assert all(reply[0] for reply in pipelined(r, [("SLUICE.ADMIT", 1, "user", user, "ip", ip)] * count, count))
        calls = collections.Counter(cluster.calls("sluice.")) - before
        calls.pop("sluice.effect", None)  # what replicas are sent
        return calls

    assert spent(1) == {"sluice.hold": 2, "sluice.confirm": 2}
    many = spent(60)
    assert many["sluice.confirm"] == 120 and many["sluice.hold"] <= 20 and set(many) <= {
        "sluice.hold", "sluice.confirm", "sluice.cancel"}


# ---- many connections ------------------------------------------------------------------------------------------------

def at_once(servers, words, connections, count, each):
    """What `connections` of them are answered, each asking `count` times."""
    barrier, replies, failures = threading.Barrier(connections), [], []

    def work(number):
        try:
            with servers[number % len(servers)].resp() as r:
                barrier.wait()
                replies.extend(pipelined(r, [words] * count, each))
        except BaseException as why:  # told to whoever waits
            failures.append(why)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    return replies


@pytest.mark.parametrize("count", [1, 3])
def test_eight_connections_get_exactly_the_quota(cluster, fronts, count):
    """Nobody is denied before the last unit is charged: whoever is denied is so by a counter that is full."""
    servers = fronts(cluster, count)
    for _ in range(10 if SOAK else 1):
        user, ip = new_names()
        replies = at_once(servers, ("SLUICE.ADMIT", 1, "user", user, "ip", ip), 8, 150, 50)
        assert sum(reply[0] for reply in replies) == 700
        assert {(reply[1], reply[2], reply[7]) for reply in replies if not reply[0]} == {(700, 0, b"per-address")}
        assert min(reply[3] for reply in replies if not reply[0]) > 3000000
    assert sum(bounds_met(one) + metric(one, "sluice_fleet_decisions_total", way="failed") for one in servers) == 0


ALGORITHMS = {"fixed-window": "fixed-window 1000/3660d", "sliding-window": "1000/3660d",
              "sliding-buckets": "sliding-buckets 1000/3660d precision 366d", "sliding-log": "sliding-log 1000/3660d",
              "token-bucket": "token-bucket 1000/3660d", "leaky-bucket": "leaky-bucket 1000/3660d queue 999"}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_burst_is_never_admitted_beyond_the_quota(cluster, fronts, name):
    """8 times 300 requests at once, whatever becomes of the budget: also where it is so short that calls are denied for
    being too many."""
    for budget, on_error in ((5000, "allow"), (20, "deny")):
        servers = fronts(cluster, 2, user=ALGORITHMS[name], ip="fixed-window 1M/3660d", budget=budget,
                         on_error=on_error)
        for _ in range(20 if SOAK else 1):
            user, ip = new_names()
            replies = at_once(servers, ("SLUICE.ADMIT", 1, "user", user, "ip", ip), 8, 300, 300)
            admitted = sum(reply[0] for reply in replies)
            assert admitted <= 1000 and (admitted == 1000 or on_error == "deny")
        if on_error == "allow":
            assert all(metric(one, "sluice_fleet_decisions_total", way="failed") == 0 for one in servers)


# ---- what others hold ------------------------------------------------------------------------------------------------

LIMIT = "fixed-window 5/3660d"


class Stranger:
    """Another front, which holds and takes its time."""

    def __init__(self, cluster):
        self.client = Client(cluster)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.__exit__()

    def hold(self, key, cost, name="a", ttl_ms=60000, limit="per-user"):
        reply = Module.call(self.client, "HOLD", "sluice:" + key, cost, name, ttl_ms, "NAME", limit, LIMIT)
        assert reply[0] == 1
        return reply

    def end(self, verb, key, *words, limit="per-user"):
        return Module.call(self.client, verb, "sluice:" + key, *words, "NAME", limit, LIMIT)


@pytest.mark.parametrize("verb, words, then", [("CANCEL", ("a",), 1), ("CONFIRM", (3, "a"), 0)])
@pytest.mark.parametrize("slots", [1, 2])
def test_a_denial_that_only_holds_cause_waits_for_them(cluster, fronts, verb, words, then, slots):
    one, = fronts(cluster, user=LIMIT, ip="fixed-window 5/3660d", budget=10000)
    user, ip = new_names()
    request = ("SLUICE.ADMIT", 3, "user", user, *(("ip", ip) if slots == 2 else ()))
    with Stranger(cluster) as other, one.resp() as r:
        other.hold("user=" + user, 3)
        began = time.monotonic()
        r.send(encode(*request))
        time.sleep(0.1)
        other.end(verb, "user=" + user, *words)
        ended = time.monotonic()
        reply = r.read()
    assert (reply[0], reply[2], reply[7]) == ((1, 2, b"per-user") if then else (0, 2, b"per-user"))
    assert ended - began >= 0.1 and time.monotonic() >= ended
    assert reply[3] == 0 if then else reply[3] > 1000
    assert bounds_met(one) == 0


@pytest.mark.parametrize("slots", [1, 2])
def test_holds_that_stay_deny_within_the_budget(cluster, fronts, slots):
    """Named in the figures, with a short wait: not that of the hold, and not by on-error."""
    one, = fronts(cluster, user=LIMIT, ip="fixed-window 5/3660d", budget=2000)
    user, ip = new_names()
    with Stranger(cluster) as other, one.resp() as r:
        other.hold("user=" + user, 3)
        began = time.monotonic()
        reply = r.call("SLUICE.ADMIT", 3, "user", user, *(("ip", ip) if slots == 2 else ()))
        took = time.monotonic() - began
        assert (reply[0], reply[1], reply[3], reply[7]) == (0, 5, 1, b"per-user") and 1 < took < DEADLINE_S
        assert metric(one, "sluice_bounds_total", policy="per-user", bound="holds") == 1
        assert metric(one, "sluice_fleet_decisions_total", way="failed") == 0
        # what would not fit without the hold either is denied at once, and its wait is the counter's
        r.call("SLUICE.ADMIT", 2, "user", user, *(("ip", ip) if slots == 2 else ()))
        reply = r.call("SLUICE.ADMIT", 4, "user", user, *(("ip", ip) if slots == 2 else ()))
        assert reply[0] == 0 and reply[3] > 1000
        if slots == 2:
            assert r.call("SLUICE.ADMIT", 0, "ip", ip)[2] == 3  # the limit beside it: by the one that was admitted
        assert metric(one, "sluice_bounds_total", policy="per-user", bound="holds") == 1


def test_those_behind_one_that_waits_are_denied_for_the_queue(cluster, fronts):
    one, = fronts(cluster, user=LIMIT, ip="fixed-window 5/3660d", budget=2000)
    user, ip = new_names()
    with Stranger(cluster) as other, one.resp() as r:
        other.hold("user=" + user, 5)
        replies = list(pipelined(r, [("SLUICE.ADMIT", 1, "user", user, "ip", ip)] * 5, 5))
        assert [(reply[0], reply[3]) for reply in replies] == [(0, 1)] + [(0, 2000)] * 4
        assert metric(one, "sluice_bounds_total", policy="per-user", bound="holds") == 1
        assert metric(one, "sluice_bounds_total", policy="per-user", bound="queue") == 4
        assert metric(one, "sluice_fleet_decisions_total", way="failed") == 0
        other.end("CANCEL", "user=" + user, "a")
        assert [reply[:3] for reply in pipelined(r, [("SLUICE.ADMIT", 1, "user", user, "ip", ip)] * 6, 6)] == [
            [1, 5, 4 - i] for i in range(5)] + [[0, 5, 0]]


RESET, REFUND = ("SLUICE.RESET", "user={}", "policy:per-user"), ("SLUICE.REFUND", "user={}", 1, "policy:per-user")


@pytest.mark.parametrize("words, told, admitted, done", [(RESET, 1, 5, 1), (REFUND, [1, 5, 0], 0, [1, 5, 1])])
def test_what_is_never_denied_goes_past_a_full_queue(cluster, fronts, words, told, admitted, done):
    """Its node has never been asked: it is not away. A reset forgets what others hold, too."""
    one, = fronts(cluster, user=LIMIT, ip="fixed-window 5/3660d", budget=8000, threads=1)
    user, ip = new_names()
    words = [word.format(user) if isinstance(word, str) else word for word in words]
    with Stranger(cluster) as other, one.resp() as late:
        other.hold("user=" + user, 5)
        waiting = [one.resp() for _ in range(30)]
        for r in waiting:
            r.send(encode("SLUICE.ADMIT", 1, "user", user, "ip", ip) * 50)
        wait_until(lambda: metric(one, "sluice_bounds_total", policy="per-user", bound="queue") > 0, "it is not full")
        reply = late.call(*words)
        assert (reply if isinstance(told, int) else reply[:3]) == told
        assert sum(r.read()[0] for r in waiting for _ in range(50)) == admitted
        if not admitted:
            other.end("CONFIRM", "user=" + user, 5, "a")
        reply = late.call(*words)
        assert (reply if isinstance(done, int) else reply[:3]) == done
        assert metric(one, "sluice_fleet_decisions_total", way="failed") == 0


def test_a_refund_waits_for_its_turn_no_longer_than_others(cluster, fronts):
    """Then its node is asked: only the front's own queue was in its way."""
    one, = fronts(cluster, user=LIMIT, ip="fixed-window 5/3660d", budget=2000)
    user, ip = new_names()
    with Stranger(cluster) as other, one.resp() as r:
        other.hold("user=" + user, 4)
        assert r.call("SLUICE.ADMIT", 1, "user", user)[:3] == [1, 5, 0]
        r.send(encode("SLUICE.ADMIT", 1, "user", user, "ip", ip) + encode(*(w.format(user) if isinstance(w, str) else w
                                                                            for w in REFUND)))
        assert r.read()[0] == 0 and r.read()[:3] == [1, 5, 1]
        assert metric(one, "sluice_fleet_decisions_total", way="failed") == 0
        other.end("CANCEL", "user=" + user, "a")


def test_what_is_observed_would_deny_where_the_queue_is_full(cluster, fronts):
    one, = fronts(cluster, user=LIMIT, ip="fixed-window 5/3660d", budget=2000, threads=1, observe="true")
    user, ip = new_names()
    with Stranger(cluster) as other:
        other.hold("user=" + user, 5)
        waiting = [one.resp() for _ in range(30)]
        for r in waiting:
            r.send(encode("SLUICE.ADMIT", 1, "user", user, "ip", ip) * 50)
        told = [r.read() for r in waiting for _ in range(50)]
        assert {(reply[0], reply[7]) for reply in told} == {(0, b"per-user")}
        denied = metric(one, "sluice_bounds_total", policy="per-user", bound="queue")
        noted = metric(one, "sluice_bounds_total", policy="per-address", bound="queue")
        assert 0 < noted <= denied
        other.end("CANCEL", "user=" + user, "a")


def test_a_front_that_denies_by_itself_tells_a_keys_own_quota(cluster, fronts):
    """For what others hold, and for its queue: the node has told the quota with its answer to the hold."""
    one, = fronts(cluster, user=LIMIT, ip="fixed-window 5/3660d", budget=2000)
    user, ip = new_names()
    with Stranger(cluster) as other, one.resp() as r:
        assert r.call("SLUICE.OVERRIDE", "SET", "policy:per-user", "user=" + user, "fixed-window 7/3660d") == b"OK"
        other.hold("user=" + user, 7)
        replies = list(pipelined(r, [("SLUICE.ADMIT", 1, "user", user, "ip", ip)] * 3, 3))
        assert [reply[:2] + [reply[3], reply[7]] for reply in replies] == [
            [0, 7, wait, b"per-user"] for wait in (1, 2000, 2000)]
        assert metric(one, "sluice_bounds_total", policy="per-user", bound="queue") == 2


@pytest.mark.parametrize("request_of", [
    lambda key: ("SLUICE.CHECK", key, 3, "ID", "once", LIMIT), lambda key: ("SLUICE.CHECK", key, 3, LIMIT),
    lambda key: ("SLUICE.PEEK", key, 3, LIMIT), lambda key: ("SLUICE.RESERVE", key, 3, 60000, LIMIT)])
def test_calls_of_one_command_wait_too(cluster, fronts, request_of):
    one, = fronts(cluster, budget=10000)
    key = f"one{next(names)}"
    with Client(cluster) as client, one.resp() as r:
        Module.call(client, "HOLD", "sluice:" + key, 3, "a", 60000, LIMIT)
        began = time.monotonic()
        r.send(encode(*request_of(key)))
        time.sleep(0.1)
        Module.call(client, "CANCEL", "sluice:" + key, "a", LIMIT)
        assert r.read()[0] == 1 and time.monotonic() - began >= 0.1
        used = 0 if request_of(key)[0] == "SLUICE.PEEK" else 3
        assert r.call("SLUICE.PEEK", key, 0, LIMIT)[2] == 5 - used


def test_no_place_for_a_hold_denies(cluster, fronts):
    """256 others hold a counter that has room enough."""
    one, = fronts(cluster, user="fixed-window 1000/3660d", ip="fixed-window 5/3660d", budget=2000)
    user, ip = new_names()
    with Client(cluster) as client, one.resp() as r:
        for n in range(256):
            Module.call(client, "HOLD", "sluice:user=" + user, 1, f"{n:x}", 60000, "NAME", "per-user",
                        "fixed-window 1000/3660d")
        reply = r.call("SLUICE.ADMIT", 1, "user", user, "ip", ip)
        assert (reply[0], reply[3], reply[7]) == (0, 1, b"per-user")
        assert metric(one, "sluice_bounds_total", policy="per-user", bound="holds") == 1
        assert r.call("SLUICE.ADMIT", 0, "ip", ip)[2] == 5  # nothing is charged to the limit beside it
        assert r.call("SLUICE.ADMIT", 1, "user", user)[:3] == [1, 1000, 743]  # one command needs no place
        Module.call(client, "CANCEL", "sluice:user=" + user, "0", "NAME", "per-user", "fixed-window 1000/3660d")
        assert r.call("SLUICE.ADMIT", 1, "user", user, "ip", ip)[0] == 1
    assert metric(one, "sluice_fleet_decisions_total", way="failed") == 0


def test_holds_in_parts_by_module_and_script(cluster, bare_cluster, sluice_bin):
    """What fronts ask for: as much as is left, charged in parts, looked at beside it. Both answer alike."""
    script = Script(os.path.dirname(sluice_bin))
    script.load(bare_cluster)
    key = f"parts{next(names)}"
    with Client(cluster) as there, Client(bare_cluster) as here:
        def both(verb, *words):
            replies = [via.call(client, verb, key, *words, "sliding-log 10/3660d")
                       for via, client in ((Module(), there), (script, here))]
            assert [abs(a - b) < 5000 for a, b in zip(*[flat(reply) for reply in replies])].count(False) == 0, replies
            return replies[0]

        def flat(reply):
            return [n for part in reply for n in (part if isinstance(part, list) else [part])] if isinstance(
                reply, list) else [reply]

        assert both("HOLD", 2, "b", 60000)[2] == 8
        assert both("HOLD", 12, "a", 60000, "UPTO")[7:] == [8, 2]
        for left in (6, 4, 2, 0):
            assert both("CONFIRM", 2, "a", "EACH", "KEEP")[0][:3] == [1, 10, left]
            assert both("PEEK", left, "EACH", "BESIDE", "a")[0][:3] == [1, 10, left]
            assert both("PEEK", 1)[2] == 0
        assert both("CONFIRM", 1, "a", "EACH", "KEEP")[0][:4] == [2 * 4, 10, 0, 1]  # as a CHECK: b's hold is in the way
        assert both("HOLD", 1, "a", 60000, "UPTO")[7:] == [0, 2]
        assert both("CANCEL", "a") == 0
        assert both("CONFIRM", 2, "b", "KEEP")[2] == 0
        assert both("CANCEL", "b") == 0
