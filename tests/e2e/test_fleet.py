"""A front over real nodes: the same answers as one server, and what happens when nodes are slow, gone, full or foreign.

What befalls a cluster and fronts that are killed stands in test_cluster_fleet.py; here is what one front decides:
which commands it sends (by the node's own count), which it spares, and what requests get when nobody answers.
"""

import itertools
import random
import re
import signal
import time

import pytest

from cluster import Cluster
from harness import RespError, encode, in_one_window, wait_until
from ports import free_ports
from redis_world import SOAK, module_path, redises, replicate  # noqa: F401

POLICY = """
client-time: true
threads: 1
store: {{redis: ["{address}"], budget: {budget}ms{more}}}
limits:
{limits}
"""
NUMBERS = itertools.count()
HOUR = "  - {{name: {name}, key: {key}, limit: {limit}, on-error: {on_error}{more}}}\n"


def limit(name="per-user", key="user", limit="sliding-log 5/1h", on_error="deny", more=""):
    return HOUR.format(name=name, key=key, limit=f'"{limit}"', on_error=on_error, more=more)


def policy(redis, *limits, budget=10000, more=""):
    return POLICY.format(address=f"127.0.0.1:{redis.port}", budget=budget, more=more,
                         limits="".join(limits or [limit()]))


def tell(r, *words):
    """The reply; an error is returned."""
    r.send(encode(*words))
    return r.read()


def decides(one):
    with one.resp() as r:
        return not isinstance(tell(r, "SLUICE.CHECK", "warm", 1, "1M/1h"), RespError)


@pytest.fixture
def front(server):
    """A factory of fronts, waited for until they reach their node."""
    def start(text, **options):
        one = server(policy=text, **options)
        wait_until(lambda: decides(one), "no node answers")
        return one
    return start


def calls(redis, verb=None):
    """How many commands of ours a node has executed, by its own count."""
    with redis.resp() as r:
        text = r.call("INFO", "commandstats").decode()
    found = {line.split(":")[0].partition("sluice.")[2]: int(line.split("calls=")[1].split(",")[0])
             for line in text.split("\r\n") if "sluice." in line}
    return found.get(verb, 0) if verb else sum(found.values())


def metric(front, name, **labels):
    text = front.http().ask("GET", "/metrics")[2].decode()
    want = name + ("{" + ",".join(f'{k}="{v}"' for k, v in labels.items()) + "}" if labels else "") + " "
    return next(float(line[len(want):]) for line in text.splitlines() if line.startswith(want))


# ---- the same answers ------------------------------------------------------------------------------------------------

LIMITS = ("10/1s", "fixed-window 20/1m", "sliding-log 7/10s", "sliding-buckets 30/1m precision 10s edge weighted",
          "token-bucket 5/1s burst 12", "leaky-bucket 10/1s queue 4", "unlimited", "0/1s", "sliding-log 40/1h")


def random_commands(dice, count, keys):
    now = time.time_ns() // 1000000  # and then ahead of the nodes' clocks: no key expires meanwhile
    for _ in range(count):
        now += dice.choice((0, 1, 7, 100, 1000, 5000))
        verb = dice.choices(("CHECK", "PEEK", "REFUND", "RESET"), (20, 4, 3, 1))[0]
        words = [f"SLUICE.{verb}", dice.choice(keys)]
        words += [] if verb == "RESET" else [dice.choice((0, 1, 1, 1, 2, 5, 11))]
        words += ["AT", now]
        for i in range(dice.choice((1, 1, 2, 3))):
            words += ["KEY", dice.choice(keys)] if i > 0 and dice.random() < 0.6 else []
            words += [dice.choice(LIMITS)]
        yield tuple(words)


def answers(server, commands, each=1):
    with server.resp() as r:
        for at in range(0, len(commands), each):
            r.send(b"".join(encode(*words) for words in commands[at:at + each]))
            yield from [r.read() for _ in commands[at:at + each]]


def same_answers(front, server, seed, each=1):
    commands = list(random_commands(random.Random(seed), 20000 if SOAK else 2000, [f"k{i}" for i in range(12)]))
    for words, here, there in zip(commands, answers(server, commands, 100), answers(front, commands, each)):
        # A hold drops what has expired of its key, so a reset may find fewer counters to forget.
        same = there <= here if words[0] == "SLUICE.RESET" and each == 1 else str(here) == str(there)
        assert same, f"seed {seed}: {words}: {here} {there}"


def test_one_node_answers_as_one_server_does(front, shared_server, redises):  # noqa: F811
    same_answers(front(policy(redises())), shared_server, 5, 100)


def test_several_slots_answer_as_one_server_does(server, sluice_bin):
    with Cluster(module=[module_path(), "client-time", "yes"]) as cluster:
        address = f"{cluster.nodes[0].host}:{cluster.nodes[0].port}"
        one = server(policy=POLICY.format(address=address, budget=5000, more="", limits=limit()))
        wait_until(lambda: metric(one, "sluice_fleet_nodes", state="up") >= 3, "not all primaries are up")
        same_answers(one, server(policy="client-time: true\n"), 6)
        assert metric(one, "sluice_fleet_decisions_total", way="held") > 100
        assert metric(one, "sluice_fleet_lost_confirms_total") == 0


def test_scripts_answer_where_there_is_no_module(front, redises):  # noqa: F811
    redis = redises(module=None)
    one = front(policy(redis, limit(limit="sliding-log 3/1h")))
    with one.resp() as r:
        assert [r.call("SLUICE.ADMIT", 1, "user", "a")[0:3] for _ in range(4)] == [
            [1, 3, 2], [1, 3, 1], [1, 3, 0], [0, 3, 0]]
        assert r.call("SLUICE.CHECK", "b", 2, "5/1h", "KEY", "c", "4/1h")[0:3] == [1, 4, 2]
        assert r.call("SLUICE.RESET", "b", "5/1h", "KEY", "c", "4/1h") == 2


def test_observed_limits_and_candidates_ride_along(front, redises):  # noqa: F811
    one = front(policy(redises(), limit(limit="100/1h"), limit("watched", limit="2/1h", more=", observe: true"),
                       limit("tried", "ip", "50/1h", more=", candidate: 1/1h")))
    with one.resp() as r:
        for _ in range(4):
            assert r.call("SLUICE.ADMIT", 1, "user", "a", "ip", "b")[0] == 1
        explained = {row[0]: row[3:6] for row in r.call("SLUICE.EXPLAIN", 1, "user", "a", "ip", "b")}
    assert explained[b"watched"] == [0, 2, 0]
    assert explained[b"per-user"] == [1, 100, 96]


# ---- what is not asked -----------------------------------------------------------------------------------------------

def test_denials_are_remembered(front, redises):  # noqa: F811
    redis = redises()
    one = front(policy(redis, limit(limit="sliding-log 2/1h")))
    with one.resp() as r:
        for _ in range(3):
            began, last = time.monotonic(), r.call("SLUICE.ADMIT", 1, "user", "a")
        assert last[0] == 0
        told, before = last[3], calls(redis)
        replies = [r.call("SLUICE.ADMIT", 1, "user", "a") for _ in range(30)]
        elapsed_s = time.monotonic() - began
        assert all(reply[0] == 0 and reply[1:3] == [2, 0] for reply in replies)
        assert all(told - 1000 * elapsed_s - 1 <= reply[3] <= told for reply in replies)
        asked = calls(redis) - before
        assert asked <= 1 + elapsed_s  # a denial is known for a second
        before = calls(redis, "check")
        assert r.call("SLUICE.ADMIT", 2, "user", "a")[0] == 0
        assert calls(redis, "check") == before + 1  # another cost is asked for
        assert metric(one, "sluice_fleet_decisions_total", way="known") >= 30 - asked


@pytest.mark.parametrize("words", [(), ("ID", "retried")], ids=["plain", "whole"])
def test_what_is_charged_here_is_left_of_no_denial(front, redises, words):  # noqa: F811
    """A larger cost that was denied before is denied with what is left now, and for as long as it is."""
    one = front(policy(redises()))
    with one.resp() as r:
        assert r.call("SLUICE.CHECK", "k", 1, "sliding-log 6/1h")[2] == 5
        assert r.call("SLUICE.CHECK", "k", 6, "sliding-log 6/1h")[2] == 5
        assert r.call("SLUICE.CHECK", "k", 9, "sliding-log 6/1h")[2] == 5
        assert r.call("SLUICE.CHECK", "k", 4, *words, "sliding-log 6/1h")[2] == 1
        assert r.call("SLUICE.CHECK", "k", 6, "sliding-log 6/1h")[2] == 1
        assert r.call("SLUICE.CHECK", "k", 9, "sliding-log 6/1h")[2] == 1


def test_a_remembered_denial_says_when_remaining_grows(front, redises):  # noqa: F811
    """Whoever asked first did not want to know it; who asks next does, as the headers of HTTP do."""
    redis = redises()
    one = front(policy(redis, limit(limit="sliding-log 1/1h")))
    with one.resp() as r, one.http() as http:
        for attempt in range(20):
            assert [r.call("SLUICE.ADMIT", 1, "user", f"a{attempt}")[0] for _ in range(2)] == [1, 0]
            before = calls(redis)
            status, headers, answer = http.post("/v1/admit", {"attributes": {"user": f"a{attempt}"}, "next": True})
            if calls(redis) == before:  # it was remembered, for a second
                break
        assert calls(redis) == before and status == 429
        assert 3590000 < answer["next_after_ms"] == answer["limits"][0]["next_after_ms"] <= 3600000
        assert re.fullmatch(r'"per-user";r=0;t=3[56]\d\d', dict(headers)["RateLimit"])
        assert len(r.call("SLUICE.ADMIT", 1, "user", f"a{attempt}")) == 8


@pytest.mark.parametrize("verb", ["REFUND", "RESET"])
def test_what_is_given_back_is_known_at_once(front, redises, verb):  # noqa: F811
    one = front(policy(redises()))
    with one.resp() as r:
        assert [r.call("SLUICE.CHECK", "k", 1, "sliding-log 1/1h")[0] for _ in range(3)] == [1, 0, 0]
        r.call(f"SLUICE.{verb}", "k", *([1] if verb == "REFUND" else []), "sliding-log 1/1h")
        assert [r.call("SLUICE.CHECK", "k", 1, "sliding-log 1/1h")[0] for _ in range(2)] == [1, 0]


@pytest.mark.parametrize("verb", ["REFUND", "RESET"])
def test_what_is_given_back_with_a_penalty_is_known_at_once(front, redises, verb):  # noqa: F811
    """A call of such a limit is one command, of which nothing is remembered; of what is given back beside it, it is."""
    one = front(policy(redises(), limit(more=", penalty: '[2h] after 1 denial in 1h'"), limit("plain", limit="9/365d")))
    with one.resp() as r:
        assert [r.call("SLUICE.CHECK", "user=a", 5, "policy:plain")[0] for _ in range(3)] == [1, 0, 0]
        assert r.call("SLUICE.CHECK", "user=a", 1, "policy:per-user")[0] == 1
        told = r.call(f"SLUICE.{verb}", "user=a", *([5] if verb == "REFUND" else []), "policy:per-user", "policy:plain")
        assert told == (2 if verb == "RESET" else [1, 5, 5, 0, 0, 0, 0])
        assert [r.call("SLUICE.CHECK", "user=a", 5, "policy:plain")[0] for _ in range(2)] == [1, 0]


def test_a_reset_says_how_many_counters_of_any_kind(front, redises):  # noqa: F811
    one = front(policy(redises(), limit(more=", penalty: '[2h] after 1 denial in 1h'"),
                       limit("open", limit="concurrency 2 lease 1h"),
                       limit("who", limit="distinct 9/1h", more=", of: ip"), limit("priced", more=", cost: 2"),
                       limit("kept", more=", reserve: true"), limit("plain")))
    names = ["policy:" + name for name in ("per-user", "open", "who", "priced", "kept", "plain")]
    with one.resp() as r, one.http() as http:
        for _ in range(2):
            assert r.call("SLUICE.ADMIT", 1, "user", "a", "ip", "192.0.2.1")[0] == 1
            assert r.call("SLUICE.RESET", "user=a", *names) == 6
            assert r.call("SLUICE.RESET", "user=a", *names) == 0
        for name in names:
            assert r.call("SLUICE.ADMIT", 1, "user", "a", "ip", "192.0.2.1")[0] == 1
            assert http.post("/v1/reset", {"key": "user=a", "limits": [name]})[2] == {"reset": 1}, name
            r.call("SLUICE.RESET", "user=a", *names)


def hammer(one, words, count, each=20):
    """Sends `count` requests in pipelines; returns the replies."""
    replies = []
    with one.resp() as r:
        for _ in range(count // each):
            r.send(encode(*words) * each)
            replies += [r.read() for _ in range(each)]
    return replies


def charged(redis, key, name, notation):
    with redis.resp() as r:
        reply = r.call("SLUICE.PEEK", key, 0, "NAME", name, notation)
        return reply[1] - reply[2]


def test_hot_counters_are_sliced_and_settled(front, redises):  # noqa: F811
    redis = redises()
    one = front(policy(redis, limit(limit="sliding-log 100k/1h")))
    replies = hammer(one, ("SLUICE.ADMIT", 1, "user", "a"), 6000)
    assert all(reply[0] == 1 and reply[1] == 100000 and 94000 <= reply[2] < 100000 for reply in replies)
    assert calls(redis) < 1000
    assert metric(one, "sluice_fleet_decisions_total", way="leased") > 5000
    wait_until(lambda: charged(redis, "sluice:user=a", "per-user", "sliding-log 100k/1h") == 6000,
               "idle slices are not settled")
    wait_until(lambda: metric(one, "sluice_fleet_slices") == 0, "slices of counters that are cold stay")
    assert charged(redis, "sluice:user=a", "per-user", "sliding-log 100k/1h") == 6000


def test_exhausted_counters_are_not_exceeded_by_slices(front, redises):  # noqa: F811
    redis = redises()
    fronts = [front(policy(redis, limit(limit="sliding-log 700/1h"))) for _ in range(2)]
    admitted = 0
    for _ in range(10):
        for one in fronts:
            admitted += sum(reply[0] for reply in hammer(one, ("SLUICE.ADMIT", 1, "user", "a"), 200))
    assert 690 <= admitted <= 700

    def rest():
        return sum(reply[0] for one in fronts for reply in hammer(one, ("SLUICE.ADMIT", 1, "user", "a"), 20))
    got = []
    wait_until(lambda: got.append(rest()) or admitted + sum(got) == 700, "what slices held does not come back")
    assert rest() == 0
    wait_until(lambda: charged(redis, "sluice:user=a", "per-user", "sliding-log 700/1h") == 700, "not all is settled")


def test_sliced_and_asked_limits_in_one_request(front, redises):  # noqa: F811
    """All share one counter, which is hot; each user has one that is asked, or, after a pause, a slice that comes late.
    What a user is denied, all get back."""
    redis = redises()
    one = front(policy(redis, limit("all", "[]", "sliding-log 100k/1h"), limit(limit="sliding-log 3/1h")))
    admitted = [0] * 100

    def ask(user, count):
        replies = hammer(one, ("SLUICE.ADMIT", 1, "user", f"u{user}"), count, count)
        admitted[user] += sum(reply[0] for reply in replies)
        assert admitted[user] <= 3, replies
        assert {reply[7] for reply in replies if not reply[0]} <= {b"per-user"}
        return admitted[user] == 3

    for user in range(100):
        if not ask(user, 20):
            wait_until(lambda: ask(user, 1), "what its slice held does not come back")
    for user in range(100):
        assert ask(user, 1)  # and no more
    assert metric(one, "sluice_fleet_slice_units_total", kind="taken") > 0
    wait_until(lambda: charged(redis, "sluice:", "all", "sliding-log 100k/1h") == 300, "not what was admitted")


def test_closing_gives_slices_back(front, redises):  # noqa: F811
    redis = redises()
    one = front(policy(redis, limit(limit="sliding-log 100k/1h"), more=", slice: 10s"))
    hammer(one, ("SLUICE.ADMIT", 1, "user", "a"), 2000)
    one.stop()
    assert charged(redis, "sluice:user=a", "per-user", "sliding-log 100k/1h") == 2000


@pytest.mark.parametrize("how", ["strict", "off"])
def test_no_slices_where_they_are_not_wanted(front, redises, how):  # noqa: F811
    redis = redises()
    one = front(policy(redis, limit(limit="sliding-log 100k/1h", more=", strict: true" if how == "strict" else ""),
                       more=", slices: false" if how == "off" else ""))
    hammer(one, ("SLUICE.ADMIT", 1, "user", "a"), 1000)
    assert calls(redis, "check") >= 1000
    assert metric(one, "sluice_fleet_slice_units_total", kind="taken") == 0


def test_strict_limits_remember_no_denials(front, redises):  # noqa: F811
    redis = redises()
    one = front(policy(redis, limit(limit="sliding-log 2/1h", more=", strict: true")))
    replies = hammer(one, ("SLUICE.ADMIT", 1, "user", "a"), 100)
    assert [reply[0] for reply in replies] == [1, 1] + 98 * [0]
    assert calls(redis, "check") >= 100


# ---- nobody answers --------------------------------------------------------------------------------------------------

MIXED = (limit("open", "a", on_error="allow"), limit("shut", "b", on_error="deny"),
         limit("own", "c", "sliding-log 3/1h", on_error="local"))


def gets_what_limits_say(one):
    with one.resp() as r:
        for _ in range(3):
            assert r.call("SLUICE.ADMIT", 1, "a", "x")[0] == 1
        assert r.call("SLUICE.ADMIT", 1, "b", "x")[0] == 0
        assert [r.call("SLUICE.ADMIT", 1, "c", "x")[0:3] for _ in range(4)] == [
            [1, 3, 2], [1, 3, 1], [1, 3, 0], [0, 3, 0]]
        both = r.call("SLUICE.ADMIT", 1, "a", "y", "c", "y")
        assert both[0:3] == [1, 3, 2]
        assert "did not answer" in str(tell(r, "SLUICE.CHECK", "k", 1, "5/1h"))


def are_read(server, clients):
    """Whether the server has read all that these clients have sent."""
    with open(f"/proc/{server.process.pid}/net/tcp", encoding="ascii") as file:
        lines = [line.split() for line in file][1:]
    queues = {(line[1].split(":")[1], line[2].split(":")[1]): line[4].split(":")[1] for line in lines}
    ends = [(client.sock.getpeername()[1], client.sock.getsockname()[1]) for client in clients]
    return all(queues.get((f"{there:04X}", f"{here:04X}")) == "00000000" for there, here in ends)


def asked_before(one, redis, name):
    """Thirty connections send two thousand requests, more than the node may have under way, and another one a single
    one, while the node is stopped: how many it is asked before that one. None: it had no answer within the budget."""
    with redis.resp() as watch, one.resp() as other:
        many = [one.resp() for _ in range(30)]
        assert watch.call("MONITOR") == b"OK"
        redis.process.send_signal(signal.SIGSTOP)
        try:
            for n, client in enumerate(many):
                client.send(b"".join(encode("SLUICE.ADMIT", 1, "user", f"many{name}-{n}-{i}") for i in range(70)))
            other.send(encode("SLUICE.ADMIT", 1, "user", f"other{name}"))
            wait_until(lambda: are_read(one, [*many, other]), "they were not read")
        finally:
            redis.process.send_signal(signal.SIGCONT)
        passes, before = other.read()[0] == 1, 0
        while passes and f"user=other{name}".encode() not in (line := watch.read()):
            before += b"user=many" in line
        for client in many:
            assert {client.read()[0] for _ in range(70)} <= {0, 1}
            client.close()
    return before if passes else None


def test_requests_that_wait_for_a_node_take_turns(front, redises):  # noqa: F811
    """One request is not behind all of other connections': the node is asked it soon after what it had been asked
    before. Where the machine gave no time for a budget it may have no answer: not three times running."""
    redis = redises()
    one = front(policy(redis, limit(limit="9/1h"), budget=10000))
    found = next((n for n in (asked_before(one, redis, name) for name in "abc") if n is not None), None)
    assert found is not None and found < 300


@pytest.mark.parametrize("how", ["ended", "stopped"])
def test_limits_say_what_requests_get(front, redises, how):  # noqa: F811
    redis = redises()
    one = front(policy(redis, *MIXED, budget=500))
    with one.resp() as r:
        assert r.call("SLUICE.ADMIT", 1, "c", "x")[0:3] == [1, 3, 2]
    redis.kill() if how == "ended" else redis.process.send_signal(signal.SIGSTOP)
    try:
        gets_what_limits_say(one)
        assert metric(one, "sluice_fleet_decisions_total", way="local") == 5
        assert metric(one, "sluice_fleet_decisions_total", way="failed") >= 5
    finally:
        redis.start() if how == "ended" else redis.process.send_signal(signal.SIGCONT)
    with one.resp() as r:
        wait_until(lambda: decides(one), "no recovery")
        wait_until(lambda: r.call("SLUICE.ADMIT", 1, "a", f"z{next(NUMBERS)}")[1:3] == [5, 4], "no recovery")


def test_a_stopped_node_costs_at_most_the_budget(front, redises):  # noqa: F811
    redis = redises()
    one = front(policy(redis, *MIXED, budget=50))
    connections, began = int(redis.info("stats", "total_connections_received")), time.monotonic()
    redis.process.send_signal(signal.SIGSTOP)
    try:
        with one.resp() as r:
            assert all(r.call("SLUICE.ADMIT", 1, "a", f"x{i}")[0] for i in range(200))
    finally:
        redis.process.send_signal(signal.SIGCONT)
    # so many have waited for the budget, then the circuit is open; tests/sim judges each wait, on a clock of its own
    assert 1 <= metric(one, "sluice_fleet_late_total") <= 20
    with one.resp() as r:
        wait_until(lambda: r.call("SLUICE.ADMIT", 1, "a", "y")[1] == 5, "no recovery")
    tried = int(redis.info("stats", "total_connections_received")) - connections
    assert tried <= 6 + time.monotonic() - began  # ours are some of them; it tries ever more seldom, down to 2 s


def test_a_denial_that_is_known_needs_no_node(front, redises):  # noqa: F811
    redis = redises()
    one = front(policy(redis, limit(limit="sliding-log 1/1h", on_error="allow"), budget=1000))
    with one.resp() as r:
        assert r.call("SLUICE.ADMIT", 1, "user", "a")[0] == 1
        began = time.monotonic()
        assert r.call("SLUICE.ADMIT", 1, "user", "a")[0] == 0
        redis.kill()
        assert r.call("SLUICE.ADMIT", 1, "user", "a")[0] == 0 or time.monotonic() - began >= 1  # known for a second
        assert r.call("SLUICE.ADMIT", 1, "user", "b")[0] == 1


# ---- nodes that refuse -----------------------------------------------------------------------------------------------

def refuse_foreign(redis):
    with redis.resp() as r:
        r.call("SET", "sluice:user=a", "mine")


def refuse_rights(redis):
    with redis.resp() as r:
        r.call("ACL", "SETUSER", "default", "-sluice.check", "-sluice.hold", "-sluice.lease")


@pytest.mark.parametrize("refuse, advice", [(refuse_foreign, "WRONGTYPE"), (refuse_rights, "NOPERM")])
def test_refused_commands_are_told_with_what_to_do(front, redises, refuse, advice):  # noqa: F811
    redis = redises()
    one = front(policy(redis, limit(on_error="allow"), limit("own", "c", on_error="local")))
    refuse(redis)
    replies = hammer(one, ("SLUICE.ADMIT", 1, "user", "a"), 200)
    assert all(reply[0] == 1 for reply in replies)

    def lines():
        return [line for line in one.stderr.text().splitlines() if "a command was refused" in line]
    told = wait_until(lines, "nobody is told")
    assert 1 <= len(told) <= 3 and advice in told[0] and "; " in told[0]
    open_lines = [line for line in one.stderr.text().splitlines() if "limits fail open" in line]
    assert len(open_lines) == 1 and open_lines[0].endswith("a node of the store refused it, with the message that the "
                                                           "log has")
    assert metric(one, "sluice_fleet_commands_refused_total") >= 100
    if refuse is refuse_foreign:
        with redis.resp() as r, one.resp() as asked:
            assert r.call("GET", "sluice:user=a") == b"mine"
            assert "the node refused to tell: the server's log" in str(tell(asked, "SLUICE.WHY", 1, "user", "a"))


@pytest.mark.parametrize("options, said", [
    (("--requirepass", "secret"), "NOAUTH Authentication required.; write user and password-file under store; "),
    (("--maxclients", "2"), "ERR max number of clients reached; raise the node's maxclients, or lower threads; ")])
def test_a_node_that_lets_nobody_in_says_why(server, redises, options, said):  # noqa: F811
    redis = redises()
    with redis.resp() as first, redis.resp() as second:
        assert [r.call("PING") for r in (first, second)] == [b"PONG"] * 2
        first.call("CONFIG", "SET", options[0][2:], options[1])
        one = server(policy=policy(redis))
        wait_until(lambda: said + "retrying in " in one.stderr.text(), "it is not said why")
        first.call("CONFIG", "SET", "maxclients", 1000)
        first.call("CONFIG", "SET", "requirepass", "")
        wait_until(lambda: decides(one), "it is let in")


def test_the_module_does_not_read_the_scripts_keys(front, server, redises):  # noqa: F811
    """script.md: by the old prefix the limit decides nothing, and the log says what to do; by a new one it does."""
    redis, ask = redises(module=None), ("SLUICE.ADMIT", 1, "user", "a")
    quota, open_to_all = [1, 1, 1, 1, 1, 0], limit(on_error="allow")
    before = front(policy(redis, open_to_all))
    assert [reply[0] for reply in hammer(before, ask, 6, 1)] == quota
    with redis.resp() as r:
        assert r.call("MODULE", "LOAD", module_path()) == b"OK"
    renamed = front(policy(redis, open_to_all, more=", via: module, prefix: 'new:'"))
    after = server(policy(redis, open_to_all))

    def lines():
        assert hammer(after, ask, 1, 1)[0][0] == 1
        return [line for line in after.stderr.text().splitlines() if "a command was refused" in line]
    told = wait_until(lines, "nobody is told")[0]
    assert "the script's where the module decides now" in told and "give the store another prefix" in told
    assert [reply[0] for reply in hammer(renamed, ask, 6, 1)] == quota
    assert hammer(before, ask, 1, 1)[0][0] == 0  # a connection goes on by the script


# ---- what can't be divided (test_module_leases.py plays it at random) ------------------------------------------------

JOBS = "concurrency 2 lease 60s"


def lease_and_give_back(one):
    """By the words, without instants: the script's clock is the node's."""
    with one.resp() as r:
        first = r.call("SLUICE.ACQUIRE", "jobs", 1, "ID", "a", JOBS, "100/1m")
        assert first[:3] == [1, 2, 1] and first[7] == b"a"
        assert r.call("SLUICE.ACQUIRE", "jobs", 1, "ID", "a", JOBS, "100/1m")[2] == 1  # retried: one place
        assert r.call("SLUICE.ACQUIRE", "jobs", 1, JOBS)[:3] == [1, 2, 0]
        assert r.call("SLUICE.ACQUIRE", "jobs", 1, JOBS)[:3] == [0, 2, 0]
        assert [r.call("SLUICE.RELEASE", "jobs", "a", JOBS) for _ in range(2)] == [1, 0]
        assert r.call("SLUICE.RENEW", "jobs", "a", JOBS) == 0
        for member, allowed in (("x", 1), ("y", 1), ("z", 0), ("x", 1)):
            assert r.call("SLUICE.CHECK", "who", 1, "MEMBER", member, "distinct 2/1h")[0] == allowed
        assert [r.call("SLUICE.CHECK", "part", 7, "UPTO", "10/1h")[7] for _ in range(3)] == [7, 3, 0]
        assert [r.call("SLUICE.CHECK", "again", 7, "ID", "t", "10/1h")[2] for _ in range(3)] == [3, 3, 3]
        told = tell(r, "SLUICE.HOLDERS", "jobs", JOBS)
        assert isinstance(told, RespError) and "ask its nodes" in str(told)


def test_leases_members_and_retries_by_module_and_script(front, redises):  # noqa: F811
    lease_and_give_back(front(policy(redises())))
    lease_and_give_back(front(policy(redises(module=None), more=", via: script")))


def parts_of_leases(one, jobs):
    """ADMIT with UPTO by a policy that leases or reserves: what is granted is held; a retry is told the same."""
    told = []
    with one.http() as http:
        for user, cost, token in (("a", 5, "t"), ("a", 4, "t"), ("b", 1, "u"), ("a", 5, "v")):
            got = http.post("/v1/admit", {"attributes": {"user": user, "job": jobs + user}, "cost": cost, "upto": True,
                                          "id": token})[2]
            told.append([got[name] for name in ("allowed", "granted", "remaining")] + [got.get("repeated", False)])
            told += [[row["name"], row["allowed"], row["remaining"]] for row in got["limits"]]
    return told


def test_parts_of_leases_and_reservations_as_at_one_server(front, redises, server):  # noqa: F811
    limits = [limit("jobs", "job", "concurrency 3 lease 60s", more=", optional: true"),
              limit("all", "user", "fixed-window 7/3660d")]
    reserves = limit("all", "user", "fixed-window 7/3660d", more=", reserve: true")
    alone = "client-time: true\nlimits:\n"
    want = parts_of_leases(server(alone + "".join(limits)), "j")
    assert want[0] == [True, 3, 0, False] and want[3] == [True, 3, 0, True]
    assert parts_of_leases(front(policy(redises(), *limits)), "j") == want
    assert parts_of_leases(front(policy(redises(module=None), *limits, more=", via: script")), "j") == want
    assert parts_of_leases(front(policy(redises(), reserves)), "j") == parts_of_leases(server(alone + reserves), "j")


def granted(one, *words, **attributes):
    """Of `UPTO`, over RESP and over HTTP."""
    pairs = [word for pair in attributes.items() for word in pair]
    with one.resp() as r, one.http() as http:
        if not attributes:
            body = {"key": "k", "cost": 7, "upto": True, "limits": list(words)}
            return r.call("SLUICE.CHECK", "k", 7, "UPTO", *words)[7], http.post("/v1/check", body)[2]["granted"]
        told = http.post("/v1/admit", {"attributes": attributes, "cost": 7, "upto": True})[2]
        return r.call("SLUICE.ADMIT", 7, "UPTO", *pairs)[8], told["granted"]


def test_what_is_granted_where_no_node_decides(front, redises):  # noqa: F811
    """Where no limit applies, and where one lets requests pass undecided: all. Local counters grant what they have."""
    redis = redises()
    one = front(policy(redis, limit("open", "a", on_error="allow"), limit("here", "b", on_error="local"), budget=500))
    assert granted(one, "unlimited") == granted(one, x="nobody") == (7, 7)
    redis.kill()
    assert granted(one, a="x") == (7, 7)
    assert granted(one, b="x") == (0, 5)  # HTTP was asked first
    with one.http() as http:
        body = {"attributes": {"b": "y"}, "cost": 2, "id": "one"}
        assert [http.post("/v1/admit", body)[2].get("repeated", False) for _ in range(2)] == [False, True]


def test_a_policy_with_all_of_them_over_redis(front, redises):  # noqa: F811
    one = front(policy(redises(), limit("jobs", "user", "concurrency 1 lease 60s"),
                       limit("devices", "user", "distinct 2/1h", more=", of: device"),
                       limit("tokens", "user", "sliding-log 1000/1h", more=", reserve: {ttl: 60s, estimate: 500}"),
                       limit("knocks", "user", "sliding-log 1/1h", more=", when: {path: /login}, penalty: "
                             "'[2h, 3h] after 2 denials in 1m', count-denied: true")))
    with one.http() as h:
        def ask(**attributes):
            return h.post("/v1/admit", {"attributes": {"user": "ann", **attributes}})
        status, _, first = ask(device="d1")
        assert status == 200 and first["id"], first
        status, _, second = ask(device="d1")
        assert (status, second["limit"]) == (429, "jobs")
        assert h.post("/v1/commit", {"id": first["id"], "actual": 700})[0] == 200
        assert h.post("/v1/release", {"id": first["id"]})[2]["released"] == 1
        status, _, third = ask(device="d2")
        assert (status, third["limit"]) == (429, "tokens")  # 700 are used, 500 are asked for
        assert [ask(user="bob", path="/login")[0] for _ in range(3)] == [200, 429, 429]
        status, _, shut = ask(user="bob", path="/login")
        assert status == 429 and shut["limit"] == "knocks" and 7190000 < shut["retry_after_ms"] <= 7200000


@pytest.mark.parametrize("module", [True, False], ids=["module", "script"])
def test_a_lease_that_the_caller_names_is_ended_by_its_ticket(front, redises, module):
    one = front(policy(redises() if module else redises(module=None), limit(limit=JOBS)))
    with one.resp() as r:
        for end in ("ticket", "name", "digits"):
            ticket = r.call("SLUICE.ADMIT", 1, "ID", "job 7", "user", "a")[8]
            assert r.call("SLUICE.ADMIT", 1, "ID", "job 7", "user", "a")[8] == ticket
            assert r.call("SLUICE.RENEW", "*", ticket) == 1
            assert r.call("SLUICE.RENEW", "user=a", "job 7", "policy:per-user") == 1
            words = {"ticket": ["*", ticket], "name": ["user=a", "job 7", "policy:per-user"],
                     "digits": ["user=a", ticket[:16], "policy:per-user"]}[end]
            assert [r.call("SLUICE.RELEASE", *words) for _ in range(2)] == [1, 0], end
        assert r.call("SLUICE.ACQUIRE", "k", 1, "ID", "job 8", JOBS)[7] == b"job 8"
        assert [r.call("SLUICE.RELEASE", "k", "job 8", JOBS) for _ in range(2)] == [1, 0]


def test_a_reservation_may_last_for_years(front, redises):
    longest = 316224000000
    one = front(policy(redises(), limit(limit="sliding-log 9/3660d")))
    with one.resp() as r, one.http() as http:
        told = r.call("SLUICE.RESERVE", "user=a", 1, longest, "policy:per-user")
        assert told[:3] == [1, 9, 8] and longest - 60000 < told[4] <= longest
        body = {"key": "user=b", "limits": ["policy:per-user"], "ttl_ms": 5000000000}
        assert 4999940000 < http.post("/v1/reserve", body)[2]["reset_after_ms"] <= 5000000000


def test_what_lies_in_several_slots_is_refused_with_the_way_out(server, sluice_bin):
    with Cluster() as cluster:
        one = server(policy=POLICY.format(address=f"127.0.0.1:{cluster.nodes[0].port}", budget=2000, more="",
                                          limits=limit()))
        wait_until(lambda: decides(one), "no node answers")
        with one.resp() as r:
            told = tell(r, "SLUICE.ACQUIRE", "a", 1, JOBS, "KEY", "b", "100/1m")
            assert isinstance(told, RespError) and "hash tag" in str(told)
            assert r.call("SLUICE.ACQUIRE", "{t}a", 1, JOBS, "KEY", "{t}b", "100/1m")[0] == 1
            assert r.call("SLUICE.CHECK", "b", 1, "100/1h")[0] == 1
            assert r.call("SLUICE.RESET", "{t}a", JOBS, "KEY", "b", "100/1h") == 2, "each by itself, where it is"
        with one.http() as h:
            body = {"key": "a", "limits": [JOBS, {"key": "b", "limit": "100/1m"}]}
            status, _, problem = h.post("/v1/acquire", body)
            assert status == 400 and "hash tag" in problem["detail"]


@pytest.mark.parametrize("may_ask", (True, False))
def test_a_single_server_that_becomes_a_cluster(front, redises, may_ask):  # noqa: F811
    """Of one node, nothing says MOVED; and a user who may not run CLUSTER SLOTS is told what to write."""
    redis = redises()
    with redis.resp() as r:
        r.call("ACL", "SETUSER", "default", *([] if may_ask else ["-cluster|slots"]))
    one = front(policy(redis, limit(on_error="allow"), limit("per-ip", "ip", on_error="allow"), budget=1000))
    ask = ("SLUICE.ADMIT", 1, "user", "a", "ip", "10.0.0.1")
    with one.resp() as r:
        assert r.call(*ask)[1] == 5
        redis.end()
        redis.command += ["--cluster-enabled", "yes", "--cluster-port", str(free_ports(1)[0])]
        redis.start()
        with redis.resp() as node:
            node.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            node.call("ACL", "SETUSER", "default", *([] if may_ask else ["-cluster|slots"]))
        wait_until(lambda: r.call(*ask)[1] == 5, "limits stay off")
    told = [line for line in one.stderr.text().splitlines() if "CLUSTER SLOTS: NOPERM" in line]
    assert len(told) == (0 if may_ask else 1) and all("ACL SETUSER" in line for line in told)


def test_a_replica_that_takes_over_is_asked_as_its_module_knows(front, redises):  # noqa: F811
    """A replica refuses to tell what its module knows: SLUICE.LEASE writes. It is asked again when it may write."""
    first, second = redises(), redises()
    replicate(first, second)
    one = front(policy(second, limit(limit="fixed-window 5/3660d", more=", reserve: true"), budget=2000))
    with one.resp() as r, second.resp() as node:
        assert r.call("SLUICE.ADMIT", 7, "UPTO", "user", "a")[8] == 5
        node.call("REPLICAOF", "NO", "ONE")
        first.kill()
        wait_until(lambda: decides(one), "nobody takes over")
        fresh = (f"k{i}" for i in range(1 << 20))
        wait_until(lambda: r.call("SLUICE.ADMIT", 7, "UPTO", "user", next(fresh))[8] == 5, "no part is granted")


# ---- retries that are spread -----------------------------------------------------------------------------------------

def test_denied_callers_of_a_bucket_are_staggered(front, redises):
    """Each next caller is told an instant one unit later, found by the denials alone; a log's are told the truth, and
    lint says so."""
    redis = redises(module=("client-time", "yes"))
    one = front(policy(redis, limit("bucket", "user", "token-bucket 5/10000s burst 5", more=", stagger: true"),
                       limit("log", "ip", "sliding-log 5/1h", more=", stagger: true")))
    warned = [line for line in one.stderr.lines if "stagger has no effect here" in line]
    assert len(warned) == 1 and ":7:" in warned[0], "of the log, in line 7, alone"
    told, truth = [], []
    with one.resp() as r:
        first = time.monotonic()
        for _ in range(5):
            assert r.call("SLUICE.ADMIT", 1, "user", "a")[0] == r.call("SLUICE.ADMIT", 1, "ip", "192.0.2.1")[0] == 1
        began = time.monotonic()
        for _ in range(6):
            at = (time.monotonic() - began) * 1000
            told.append(r.call("SLUICE.ADMIT", 1, "user", "a")[3] + at)
            at = (time.monotonic() - began) * 1000
            truth.append(r.call("SLUICE.ADMIT", 1, "ip", "192.0.2.1")[3] + at)
        late = (time.monotonic() - began) * 1000
    # one unit is back every 2,000 s; the instants are known to within the time that all of this took
    for i, instant in enumerate(told):
        assert abs(instant - told[0] - 2_000_000 * i) <= late + 2, told
    assert max(truth) - min(truth) <= late + 2 and truth[0] <= 3_600_000 + late, truth
    assert truth[0] >= 3_600_000 - (began - first) * 1000 - late - 2


@in_one_window(86400)
def test_each_front_staggers_those_that_it_denies_itself(front, redises):
    """Two fronts of one key: each has a line of its own, so two callers share an instant, and no more do."""
    redis = redises(module=("client-time", "yes"))
    text = policy(redis, limit("window", "ip", "fixed-window 4/1d", more=", stagger: true"),
                  limit("bucket", "user", "token-bucket 5/10000s burst 5", more=", stagger: true"))
    fronts = [front(text), front(text)]
    assert not any("stagger has no effect" in line for one in fronts for line in one.stderr.lines)
    day = 86400000
    with fronts[0].resp() as a, fronts[1].resp() as b:
        for name, value, spent in (("ip", "192.0.2.1", 4), ("user", "u", 5)):
            assert all(a.call("SLUICE.ADMIT", 1, name, value)[0] == 1 for _ in range(spent))
            began = time.monotonic()
            told = [[r.call("SLUICE.ADMIT", 1, name, value) for _ in range(6)] for r in (a, b)]
            late = (time.monotonic() - began) * 1000 + 2
            assert all(answer[0] == 0 for line in told for answer in line)
            waits = [[answer[3] for answer in line] for line in told]
            assert all(abs(x - y) <= late for x, y in zip(*waits)), "both tell the same instants"
            steps = [0, 0, 0, 0, day, day] if name == "ip" else [2_000_000 * i for i in range(6)]
            for line in waits:
                assert all(abs(wait - line[0] - step) <= late for wait, step in zip(line, steps)), waits
