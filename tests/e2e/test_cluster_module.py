"""The module and the script in a real Redis Cluster, spoken to directly: slots, redirections, clients, and bad days.

What redirections, -CROSSSLOT and the moving of slots are is Redis' own business; that a limiter's keys take part in it
as any key does is what is tested here. Asynchronous replication loses writes when a primary is lost: how many decisions
were lost is counted, key by key, and never is more admitted than the limit and what was lost.
"""

import json
import os
import random
import re
import subprocess
import threading
import time

import pytest
from redis.cluster import RedisCluster
from redis.exceptions import RedisClusterException, ResponseError

from cluster import (NODE_TIMEOUT_MS, SLOTS, Client, Cluster, Link, Module, Script, Worker, key_in, keys_at,
                     module_beside, needs_island, slot_of, why_no_islands)
from harness import DEADLINE_S, Closed, RespError, encode, wait_until

LIMIT = "fixed-window 3/3660d"


@pytest.fixture(scope="module")
def cluster(sluice_bin):
    islands = 1 if why_no_islands() is None else 0
    with Cluster(module=[module_beside(sluice_bin), "client-time", "yes"], islands=islands) as one:
        yield one


@pytest.fixture
def client(cluster):
    with Client(cluster) as one:
        yield one


@pytest.fixture
def breakable(cluster):
    """The cluster, for tests that break it: as it was afterwards."""
    yield cluster
    cluster.heal()


@pytest.fixture(params=["module", "script"])
def via(request, sluice_bin, cluster):
    one = Module() if request.param == "module" else Script(os.path.dirname(sluice_bin))
    cluster.flush()  # a key of the one is nothing that the other knows
    one.load(cluster)
    return one


def error_of(link, *words):
    link.send(encode(*words))
    reply = link.read()
    assert isinstance(reply, RespError), reply
    return str(reply)


# ---- where keys are --------------------------------------------------------------------------------------------------

def test_keys_are_spread_over_slots_and_nodes(cluster, client, via):
    keys = [f"user:{i}" for i in range(1500)]
    for key in keys:
        assert via.call(client, "CHECK", key, 1, LIMIT)[:3] == [1, 3, 2]
    assert client.redirects.keys() <= {"MOVED"}
    slots = {}
    for key in keys:
        slots[slot_of(key)] = slots.get(slot_of(key), 0) + 1
    assert cluster.nodes[0].call("CLUSTER", "KEYSLOT", keys[7]) == slot_of(keys[7])
    for slot, count in random.sample(sorted(slots.items()), 100):
        assert cluster.owner(slot).call("CLUSTER", "COUNTKEYSINSLOT", slot) == count
    sizes = [node.call("DBSIZE") for node in cluster.primaries()]
    assert sum(sizes) == 1500 and min(sizes) > 1500 / 3 * 0.8
    for key in keys[:50]:
        assert client.call("TTL", key) > 0 and via.call(client, "PEEK", key, 1, LIMIT)[:3] == [1, 3, 2]


@pytest.mark.parametrize("verb, words", [
    ("CHECK", [1]), ("PEEK", [1]), ("REFUND", [1]), ("RESET", []), ("HOLD", [1, "a1", 5000]), ("CONFIRM", [1, "a1"]),
    ("CANCEL", ["a1"])])
def test_keys_of_one_request_lie_in_one_slot(cluster, client, via, verb, words):
    a, b = f"{verb}:a", f"{verb}:b"
    assert slot_of(a) != slot_of(b)
    crossed = via.words(verb, a, *words, LIMIT, "KEY", b, LIMIT)
    with Link(cluster.owner_of(a).address) as link:
        assert error_of(link, *crossed).startswith("CROSSSLOT Keys in request don't hash to the same slot")
    for key in a, b:
        assert via.call(client, "PEEK", key, 1, LIMIT)[:3] == [1, 3, 3] and client.call("EXISTS", key) == 0
    tag = f"{{{verb}}}"
    reply = via.call(client, verb, tag + "a", *words, LIMIT, "KEY", tag + "b", LIMIT)
    assert isinstance(reply, int) if verb in ("RESET", "CANCEL") else reply[0] == 1
    charged = 2 if verb in ("CHECK", "HOLD", "CONFIRM") else 3  # a hold takes room, too
    for key in tag + "a", tag + "b":
        assert via.call(client, "PEEK", key, 1, LIMIT)[2] == charged


def test_what_is_a_key_is_told(cluster):
    """Clients, proxies and ACL rules find out by COMMAND GETKEYS: a key may be called KEY, and a name, too."""
    node = cluster.nodes[0]
    for words, keys in (
            ((b"SLUICE.CHECK", b"a", b"1", LIMIT), [b"a"]),
            ((b"SLUICE.CHECK", b"a", b"1", LIMIT, b"KEY", b"b", LIMIT, b"key", b"c", LIMIT), [b"a", b"b", b"c"]),
            ((b"SLUICE.CHECK", b"KEY", b"1", LIMIT, b"KEY", b"KEY", LIMIT), [b"KEY", b"KEY"]),
            ((b"SLUICE.CHECK", b"a", b"1", b"NAME", b"KEY", LIMIT, b"KEY", b"b", LIMIT), [b"a", b"b"]),
            ((b"SLUICE.CHECK", b"a", b"1", b"AT", b"5", b"EACH", b"OBSERVED", LIMIT, b"KEY", b"b", LIMIT),
             [b"a", b"b"]),
            ((b"SLUICE.HOLD", b"a", b"1", b"ab", b"50", LIMIT, b"KEY", b"b", LIMIT), [b"a", b"b"]),
            ((b"SLUICE.CANCEL", b"a", b"ab", LIMIT, b"KEY", b"b", LIMIT), [b"a", b"b"]),
            ((b"SLUICE.RESET", b"a", LIMIT, b"KEY", b"b", LIMIT), [b"a", b"b"]),
            ((b"SLUICE.LEASE", b"a", b"ab", b"50", b"0", b"9", LIMIT), [b"a"]),
            ((b"SLUICE.INSPECT", b"a"), [b"a"]),
            ((b"CL.THROTTLE", b"a", b"15", b"30", b"60"), [b"a"])):
        assert node.call("COMMAND", "GETKEYS", *words) == keys


def test_redirections(cluster, client, via):
    """MOVED from a node without the slot, ASK and TRYAGAIN while the slot is under way, as for any key."""
    slot = slot_of("redirected")
    source = cluster.owner(slot)
    target, other = (node for node in cluster.primaries() if node is not source)
    tag = "{redirected}"
    via.call(client, "RESET", tag + "here", LIMIT)
    via.call(client, "CHECK", tag + "here", 1, LIMIT)
    check = via.words("CHECK", tag + "new", 1, LIMIT)
    pair = via.words("CHECK", tag + "here", 1, LIMIT, "KEY", tag + "new", LIMIT)
    seen = []

    def between():
        if seen:
            return
        with Link(source.address) as at_source, Link(target.address) as at_target, Link(other.address) as at_other:
            moved, ask = f"MOVED {slot} {source!r}", f"ASK {slot} {target!r}"
            assert at_source.call(*via.words("PEEK", tag + "here", 1, LIMIT))[2] == 2
            seen.append(error_of(at_source, *check) == ask)
            seen.append(error_of(at_other, *check) == moved)
            seen.append(error_of(at_target, *check) == moved)
            assert at_target.call("ASKING") == b"OK"
            assert at_target.call(*check)[:3] == [1, 3, 2]
            seen.append(error_of(at_source, *pair).startswith("TRYAGAIN"))

    with Link(target.address) as at_target:
        assert error_of(at_target, *check) == f"MOVED {slot} {source!r}"
    cluster.move_slot(slot, target, between)
    assert seen == [True] * 4
    with Link(source.address) as at_source:
        assert error_of(at_source, *check) == f"MOVED {slot} {target!r}"
    for key in tag + "here", tag + "new":
        assert via.call(client, "PEEK", key, 1, LIMIT)[2] == 2


def test_replicas_answer_peeks_and_decide_nothing(cluster, client):
    key = "replicated"
    client.call("SLUICE.RESET", key, LIMIT)
    client.call("SLUICE.CHECK", key, 2, LIMIT)
    primary = cluster.owner_of(key)
    assert primary.call("WAIT", 1, 5000) == 1
    replica = cluster.replica_of(primary)
    moved = f"MOVED {slot_of(key)} {primary!r}"
    with Link(replica.address) as link:
        assert error_of(link, "SLUICE.PEEK", key, 1, LIMIT) == moved
        assert link.call("READONLY") == b"OK"
        wait_until(lambda: link.call("SLUICE.PEEK", key, 1, LIMIT)[:3] == [1, 3, 1], "the replica has another counter")
        assert link.call("SLUICE.INSPECT", key) == primary.call("SLUICE.INSPECT", key)
        for words in (("SLUICE.CHECK", key, 1, LIMIT), ("SLUICE.REFUND", key, 1, LIMIT), ("SLUICE.RESET", key, LIMIT),
                      ("SLUICE.HOLD", key, 1, "a1", 1000, LIMIT), ("SLUICE.CONFIRM", key, 1, "a1", LIMIT),
                      ("SLUICE.CANCEL", key, "a1", LIMIT), ("SLUICE.LEASE", key, "a1", 1000, 0, 1, LIMIT),
                      ("CL.THROTTLE", key, 1, 1, 60)):
            assert error_of(link, *words) == moved, words
    assert client.call("SLUICE.PEEK", key, 1, LIMIT)[:3] == [1, 3, 1]


# ---- clients ---------------------------------------------------------------------------------------------------------

def redis_cli(*words, **options):
    done = subprocess.run(["redis-cli", *[str(word) for word in words]], capture_output=True, text=True, timeout=120,
                          check=False, **options)
    return done.returncode, done.stdout + done.stderr


def test_redis_cli(cluster, client):
    node = cluster.primaries()[1]
    at = ("-h", node.host, "-p", node.port)
    for other in cluster.primaries():
        key = keys_at(cluster, other, 1, "cli:")[0]
        client.call("SLUICE.RESET", key, LIMIT)
        assert redis_cli("-c", *at, "SLUICE.CHECK", key, 1, LIMIT)[1].split()[:3] == ["1", "3", "2"]
        if other is not node:
            assert redis_cli(*at, "SLUICE.CHECK", key, 1, LIMIT)[1].startswith(f"MOVED {slot_of(key)} {other!r}")
        status, said = redis_cli("--cluster", "call", repr(node), "SLUICE.PEEK", key, 1, LIMIT)
        assert status == 0 and said.count("MOVED") == 5 and re.search(rf"{other!r}: 1\n3\n2\n", said), said
    status, said = redis_cli("--cluster", "check", repr(node))
    assert status == 0 and "[OK] All 16384 slots covered." in said
    status, said = redis_cli("--cluster", "call", repr(node), "MODULE", "LIST")
    assert status == 0 and len(re.findall(r"sluice", said)) >= 6, said


def test_redis_py(cluster):
    node = cluster.primaries()[0]
    with RedisCluster(host=node.host, port=node.port) as client:
        for i in range(60):
            key = f"py:{i}"
            assert client.execute_command("SLUICE.CHECK", key, 1, LIMIT)[:3] == [1, 3, 2]
            assert client.execute_command("SLUICE.PEEK", key, 1, LIMIT)[:3] == [1, 3, 2]
            assert client.execute_command("SLUICE.RESET", key, LIMIT) == 1
        pair = ("SLUICE.CHECK", "{py}:a", 1, LIMIT, "KEY", "{py}:b", LIMIT)
        assert client.execute_command(*pair)[:3] == [1, 3, 2]
        with pytest.raises(RedisClusterException, match="all keys must map to the same key slot"):  # it finds KEY
            client.execute_command("SLUICE.CHECK", "a", 1, LIMIT, "KEY", "b", LIMIT)
        with pytest.raises(ResponseError, match="column"):
            client.execute_command("SLUICE.CHECK", "a", 1, "3/1x")
        client.execute_command("SLUICE.RESET", "{py}:a", LIMIT, "KEY", "{py}:b", LIMIT)


@pytest.mark.parametrize("package", ["ioredis", "ioredis-5", "iovalkey"])
def test_ioredis(cluster, client, node_clients, package):
    folder, node = node_clients
    entry = cluster.primaries()[2]
    done = subprocess.run([node, "cluster.mjs", package, entry.host, str(entry.port), "40"], cwd=folder, timeout=120,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert [reply[:3] for reply in seen["checks"]] == [[1, 3, 2]] * 40
    assert [reply[:3] for reply in seen["peeks"]] == [[1, 3, 2]] * 40
    assert seen["pair"][:3] == [1, 3, 2]
    assert [reply[:3] for reply in seen["pipeline"]] == [[1, 3, 1], [1, 3, 0], [0, 3, 0]]
    assert "CROSSSLOT" in seen["crossslot"] and "column" in seen["malformed"]
    assert sorted(reply[0] for reply in seen["beside"]) == [0] * 47 + [1] * 3
    assert seen["reset"] == 1
    for key in [f"{package}:{i}" for i in range(40)] + [f"{package}:hot"]:
        client.call("SLUICE.RESET", key, LIMIT)
    client.call("SLUICE.RESET", f"{{{package}}}:a", LIMIT, "KEY", f"{{{package}}}:b", LIMIT)


# ---- slots that move -------------------------------------------------------------------------------------------------

LIMITS = ["fixed-window 40/1h", "sliding-window 40/1h", "sliding-log 40/1h", "sliding-buckets 40/1h precision 1m",
          "sliding-buckets 40/1h precision 1m edge weighted", "token-bucket 40/1h burst 50",
          "leaky-bucket 40/1h queue 30"]


@pytest.mark.parametrize("limit", LIMITS)
def test_a_counter_moves_with_all_that_it_knows(cluster, client, limit):
    """Twins with the same history, one of which moves to another node (DUMP, RESTORE): they never differ after."""
    name = limit.replace(" ", "-")
    twins = f"mover-{name}", f"stayer-{name}"
    now = int(time.time() * 1000)

    def both(verb, *words):
        replies = [client.call("SLUICE." + verb, key, *words) for key in twins]
        assert replies[0] == replies[1], (verb, words)
        return replies[0]

    for i in range(9):
        both("CHECK", 1 + i % 3, "AT", now - 9000 + i * 1000, limit, "NAME", "named", limit)
    both("HOLD", 3, "aa", 60000, "AT", now, limit)
    both("HOLD", 4, "bb", 20000, "AT", now, limit, "NAME", "named", limit)
    both("LEASE", "cc", 30000, 0, 5, "AT", now, "NAME", "named", limit)
    expires = client.call("PEXPIRETIME", twins[0])
    target = next(node for node in cluster.primaries() if node is not cluster.owner_of(twins[0]))
    began = time.monotonic()
    cluster.move_slot(slot_of(twins[0]), target)
    moved_ms = (time.monotonic() - began) * 1000
    assert cluster.owner_of(twins[0]) is target and target.call("EXISTS", twins[0]) == 1
    assert abs(client.call("PEXPIRETIME", twins[0]) - expires) <= moved_ms + 1  # MIGRATE sends what is left of it
    assert client.call("SLUICE.INSPECT", twins[0]) == client.call("SLUICE.INSPECT", twins[1])
    for ahead in (0, 1, 5000):
        both("PEEK", 1, "AT", now + ahead, "EACH", limit, "NAME", "named", limit)
    both("CONFIRM", 3, "aa", "AT", now + 5000, "EACH", limit)
    assert both("CANCEL", "bb", "AT", now + 5001, limit, "NAME", "named", limit) == 2
    both("LEASE", "cc", 30000, 2, 5, "AT", now + 5002, "NAME", "named", limit)
    both("REFUND", 2, "AT", now + 5003, "EACH", limit)
    for ahead in (5004, 40000, 1800000, 3700000):
        both("CHECK", 2, "AT", now + ahead, "EACH", limit, "NAME", "named", limit)
    assert both("RESET", limit, "NAME", "named", limit) == 2


class Ledger:
    """What clients were told, key by key. A key has one writer, so its answers are in order."""

    def __init__(self):
        self.lock = threading.Lock()
        self.allowed, self.unanswered, self.answers, self.requests = {}, {}, [], 0

    def note(self, key, cost, reply):
        with self.lock:
            self.requests += 1
            self.allowed[key] = self.allowed.get(key, 0) + cost * reply[0]
            self.answers.append((time.monotonic(), key, cost * reply[0], reply[2]))

    def note_unanswered(self, key, cost):
        with self.lock:
            self.requests += 1
            self.unanswered[key] = self.unanswered.get(key, 0) + cost


def writers(cluster, via, ledger, keys, limits, count=3, timeout=20.0):
    """Workers that check, each its own keys, in turn, as fast as answers come."""
    def work(index):
        client, mine, dice = Client(cluster, timeout=timeout), keys[index::count], random.Random(index)

        def one():
            key, cost = dice.choice(mine), dice.randrange(1, 4)
            try:
                ledger.note(key, cost, via.call(client, "CHECK", key, cost, *limits))
            except Closed:
                ledger.note_unanswered(key, cost)
        return client, one
    made = [work(i) for i in range(count)]
    return [client for client, _ in made], [Worker(one) for _, one in made]


def stop(workers):
    for worker in workers:
        worker.__exit__(None)


def test_slots_move_under_load_and_no_decision_is_lost(cluster, client, via):
    """Counters are whole after their slots have wandered over all nodes while they were charged."""
    tags = [key_in(slot) for slot in random.Random(5).sample(range(SLOTS), 6)]
    kind = type(via).__name__
    keys = [f"{kind}{{{tag}}}{i}" for tag in tags for i in range(6)]
    limits = ["fixed-window 20k/3660d", "sliding-log 90/3660d", "token-bucket 20k/3660d"]
    ledger = Ledger()
    clients, workers = writers(cluster, via, ledger, keys, limits[:1] + limits[2:])
    small = Ledger()
    small_clients, small_workers = writers(cluster, via, small, [key + "small" for key in keys], limits[1:2])

    def told():
        return {name: sum(one.redirects.get(name, 0) for one in clients + small_clients) for name in ("ASK", "MOVED")}

    turn = 0
    try:
        with cluster.patient():
            while turn < 5 or turn < 50 and min(told().values()) <= 10:  # slots on their way are met by chance
                for tag in tags:
                    owner = cluster.owner_of(tag)
                    others = [node for node in cluster.primaries() if node is not owner]
                    cluster.move_slot(slot_of(tag), others[turn % 2], lambda: time.sleep(0.01), keys_a_time=2)
                turn += 1
        # most limits are reached, none is passed
        wait_until(lambda: sum(small.allowed.values()) > 40 * len(keys), "the small ones are not used up", 120)
    finally:
        stop(workers + small_workers)
    assert min(told().values()) > 10 and not ledger.unanswered and not small.unanswered
    for key in keys:
        used = [20000 - one[2] for one in via.call(client, "PEEK", key, 0, "EACH", limits[0], limits[2])]
        assert used == [ledger.allowed[key]] * 2, key
        spent = 90 - via.call(client, "PEEK", key + "small", 0, limits[1])[2]
        assert spent == small.allowed[key + "small"] <= 90
    print(f"{ledger.requests + small.requests} decisions while {6 * turn} slots moved, redirections {told()}")


def test_redis_cli_reshards_under_load(cluster, client):
    source, target = cluster.primaries()[:2]
    own = sorted(slot for a, b, p, *_ in source.call("CLUSTER", "SLOTS") for slot in range(a, b + 1)
                 if cluster.node_at(p[0].decode(), p[1]) is source)
    keys = [key_in(slot, "reshard:") for slot in own[:12]]
    ledger = Ledger()
    _, workers = writers(cluster, Module, ledger, keys, ["sliding-log 100k/3660d"], count=2)
    try:
        wait_until(lambda: len(ledger.allowed) == len(keys), "not every key was checked")
        status, said = redis_cli("--cluster", "reshard", repr(source), "--cluster-from", source.id(), "--cluster-to",
                                 target.id(), "--cluster-slots", "12", "--cluster-yes")
        assert status == 0, said
        wait_until(lambda: ledger.requests > 200, "the writers stand still")
    finally:
        stop(workers)
    assert not ledger.unanswered
    cluster.wait_whole()  # the replicas hear of it from others
    for key in keys:
        assert cluster.owner_of(key) is target
        assert 100000 - client.call("SLUICE.PEEK", key, 0, "sliding-log 100k/3660d")[2] == ledger.allowed[key]
    status, said = redis_cli("--cluster", "check", repr(target))
    assert status == 0 and "[OK] All nodes agree about slots configuration." in said, said


# ---- primaries that are lost -----------------------------------------------------------------------------------------

def befall(cluster, victim, fate):
    if fate == "killed":
        victim.kill()
    elif fate == "paused":
        victim.pause()
    else:
        cluster.island.cut_off()


@pytest.mark.parametrize("fate", ["killed", "paused", pytest.param("cut off", marks=needs_island())])
def test_a_lost_primary_is_taken_over_with_its_counters(breakable, via, fate):
    """What replication lost is counted, and is of the last moments; the rest is there, and limits hold but for that."""
    cluster, victim = breakable, breakable.nodes[0]
    kind = type(via).__name__ + fate
    big, small = "sliding-window 1M/3660d", "sliding-log 400/3660d"
    keys = keys_at(cluster, victim, 30, kind)
    tight = keys_at(cluster, victim, 6, kind + "tight")
    elsewhere = keys_at(cluster, cluster.nodes[1], 6, kind)
    ledgers = {name: Ledger() for name in ("big", "tight", "elsewhere")}
    workers = []
    for name, some, limit in (("big", keys, big), ("tight", tight, small), ("elsewhere", elsewhere, big)):
        workers += writers(cluster, via, ledgers[name], some, [limit], count=1 if name != "big" else 2, timeout=1.0)[1]
    try:
        wait_until(lambda: ledgers["big"].requests > 1000, "no load")
        befall(cluster, victim, fate)
        lost_at = time.monotonic()
        heir = cluster.wait_taken_over(victim)
        taken_over_s = time.monotonic() - lost_at
        before = ledgers["big"].requests
        wait_until(lambda: ledgers["big"].requests > before + 1000, "decisions do not go on")
        wait_until(lambda: len(ledgers["elsewhere"].answers) > 200, "nobody is answered elsewhere")
    finally:
        stop(workers)
    via.load(cluster)
    with Client(cluster) as client:
        lost = 0
        for key in keys:
            used = 1000000 - via.call(client, "PEEK", key, 0, big)[2]
            told = ledgers["big"].allowed[key]
            assert used <= told + ledgers["big"].unanswered.get(key, 0)
            lost += max(0, told - used)
        late = sum(cost for at, _, cost, _ in ledgers["big"].answers if lost_at - 0.5 < at < lost_at + 0.1)
        assert lost <= late
        for key in elsewhere:
            assert 1000000 - via.call(client, "PEEK", key, 0, big)[2] == ledgers["elsewhere"].allowed[key]
    forgotten = sum(max(0, ledgers["tight"].allowed[key] - 400) for key in tight)
    assert forgotten <= sum(cost for at, _, cost, _ in ledgers["tight"].answers if lost_at - 0.5 < at < lost_at + 0.1)
    assert heir is not victim and taken_over_s < 10
    print(f"{fate}: taken over in {taken_over_s:.1f} s, {lost} of {sum(ledgers['big'].allowed.values())} lost, "
          f"{sum(ledgers['big'].unanswered.values())} unanswered")


@needs_island()
def test_who_is_cut_off_with_a_primary_is_refused_soon(breakable, client):
    """A client on the island goes on until its primary sees that it is alone; what it got is lost, and that is all."""
    cluster, victim = breakable, breakable.nodes[0]
    key, limit = keys_at(cluster, victim, 1, "island")[0], "sliding-log 30k/3660d"
    client.call("SLUICE.RESET", key, limit)
    there = subprocess.Popen([*cluster.island.enter(), "redis-cli", "-h", victim.host, "-p", str(victim.port), "-r",
                              "1000000", "-i", "0.001", "SLUICE.CHECK", key, "1", limit], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
    allowed, refused, lock = [], threading.Event(), threading.Lock()

    def read():
        reply = []
        for line in there.stdout:
            if line[:1].isalpha():  # an error, and an empty line behind it
                refused.set()
                break
            reply += [int(line)] if line.strip() else []
            if len(reply) == 7:
                with lock:
                    allowed.extend([time.monotonic()] * reply[0])
                reply = []

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        wait_until(lambda: len(allowed) > 200, "nobody on the island is answered")
        cluster.island.cut_off()
        cut_at = time.monotonic()
        heir = cluster.wait_taken_over(victim)
        assert refused.wait(DEADLINE_S), "the lonely primary admits without end"
    finally:
        there.kill()
        there.wait()
    reader.join(DEADLINE_S)
    with Client(cluster) as other:
        used = 30000 - other.call("SLUICE.PEEK", key, 0, limit)[2]
    lost = len(allowed) - used
    assert cluster.owner_of(key) is heir
    assert 0 < lost <= sum(1 for at in allowed if at > cut_at - 0.1)
    assert max(allowed) - cut_at < 2 * NODE_TIMEOUT_MS / 1000
    print(f"cut off: {lost} of {len(allowed)} lost within {max(allowed) - cut_at:.2f} s")
