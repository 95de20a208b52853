"""What the module's keys become by persistence and replication: the same decisions, and the same time to live, after as
before, for keys of every algorithm, long logs, holds and leases in them. And what must not become of them: payloads
that were damaged or made up are refused, and nothing is lost by them.

The wall clock stands still, so that times to live can be compared to the millisecond.
"""

import glob
import os
import random
import re
import struct

import pytest

from harness import RespError, encode, wait_until
from redis_world import MANY_YEARS_MS, SOAK, Clock, Redis, replicate, synced

SEED = int(os.environ.get("SLUICE_SEED", random.randrange(1, 1 << 32)))
NOW = 1_728_000_000_000
LIMITS = {"fixed": "fixed-window 40/1h", "window": "90/1m", "log": "sliding-log 50000/1h",
          "weighted": "sliding-log 4G/1d",
          "count": "sliding-buckets 70/1h precision 1m", "drop": "sliding-buckets 9000/4096s precision 1s edge drop",
          "share": "sliding-buckets 70/1d precision 1h edge weighted", "token": "token-bucket 7/3s burst 60",
          "slow": "token-bucket 3/3660d burst 4000000000", "leaky": "leaky-bucket 5/7s queue 30"}
LATER_MS = [0, 1, 777, 30_000, 59_999, 61_000, 900_000, 4_000_000, 90_000_000]
LONG = 20_000


def fill(client):
    """Keys of every algorithm; one that holds them all; names; holds and leases, some of which end during the peeks; a
    log of many entries, and what redis-cell's command keeps."""
    calls = []
    for n, limit in enumerate(LIMITS.values()):
        for step in range(20):
            calls.append(["SLUICE.CHECK", f"one:{n}", 1 + step % 3, "AT", NOW + 313 * step, limit])
        calls.append(["SLUICE.REFUND", f"one:{n}", 2, "AT", NOW + 6300, limit])
        calls.append(["SLUICE.HOLD", f"held:{n}", 3, "a1", 30_000, "AT", NOW + 6300, limit])
        calls.append(["SLUICE.HOLD", f"held:{n}", 2, "ffffffffffffffff", 60_000, "AT", NOW + 6300, limit])
        calls.append(["SLUICE.LEASE", f"held:{n}", "b2", 45_000, 0, 4, "AT", NOW + 6300, limit])
        calls.append(["SLUICE.LEASE", f"held:{n}", "b2", 45_000, 1, 5, "AT", NOW + 6400, limit])
        calls.append(["SLUICE.CHECK", "all", 1, "AT", NOW + n, limit])
        calls.append(["SLUICE.CHECK", "named", 1, "AT", NOW + n, "NAME", f"limit {n % 3}", limit])
    for step in range(LONG):
        calls.append(["SLUICE.CHECK", "long", 1 + step % 2, "AT", NOW - LONG + step, LIMITS["log"]])
    calls += [["CL.THROTTLE", "cell", 15, 1, 3600]] * 5
    client.send(b"".join(encode(*words) for words in calls))
    for words in calls:
        reply = client.read()
        assert not isinstance(reply, RespError), (words, reply)


def keys_of(client):
    return sorted(client.call("KEYS", "*"))


def picture(client, keys=None):
    """All that can be seen of the keys, now and later."""
    seen = {}
    for key in keys or keys_of(client):
        calls = [["PTTL", key], ["SLUICE.INSPECT", key]]
        for later in LATER_MS:
            for cost in (1, 30):
                calls.append(["SLUICE.PEEK", key, cost, "AT", NOW + 6400 + later, "EACH", *LIMITS.values()])
        calls.append(["SLUICE.PEEK", key, 1, "AT", NOW + 6400, "EACH", *sum((["NAME", f"limit {n % 3}", limit]
                      for n, limit in enumerate(LIMITS.values())), [])])
        client.send(b"".join(encode(*words) for words in calls))
        replies = [client.read() for _ in calls]
        assert not any(isinstance(r, RespError) for r in replies), (key, replies)
        replies[1].sort(key=repr)  # in which order counters stand, nobody promised
        seen[key] = replies
    return seen


def differences(before, after):
    return [key for key in sorted(set(before) | set(after)) if before.get(key) != after.get(key)]


@pytest.fixture
def still():
    one = Clock(MANY_YEARS_MS)
    yield one
    one.close()


@pytest.fixture(scope="module")
def filled():
    """One server for the tests that only read it."""
    clock = Clock(MANY_YEARS_MS)
    one = Redis(clock=clock)
    with one.resp() as client:
        fill(client)
        one.before = picture(client)
    yield one
    one.stop()
    clock.close()


def test_the_picture_shows_something(filled):
    assert len(filled.before) == 2 * len(LIMITS) + 4
    with filled.resp() as client:
        assert client.call("SLUICE.PEEK", "long", 1, "AT", NOW, LIMITS["log"])[2] == 50_000 - LONG * 3 // 2
        assert all(0 < filled.before[key][0] for key in filled.before)


# ---- persistence -----------------------------------------------------------------------------------------------------

def test_rdb(redises, still):
    one = redises(clock=still)
    with one.resp() as client:
        fill(client)
        before = picture(client)
        assert client.call("DEBUG", "RELOAD") == b"OK"
        assert differences(before, picture(client)) == []
        digest = client.call("DEBUG", "DIGEST")
        assert client.call("SAVE") == b"OK"
    one.restart()
    with one.resp() as client:
        assert differences(before, picture(client)) == []
        assert client.call("DEBUG", "DIGEST") == digest


LONGER = ["fixed-window 1/1d", "1/1d", "sliding-log 1/1d", "sliding-buckets 1/1d precision 1h", "token-bucket 1/1d",
          "leaky-bucket 1/1d queue 0", "concurrency 1 lease 1d"]


@pytest.mark.parametrize("how", ["PERSIST", "RESTORE"])
def test_what_takes_an_expiry_away_costs_memory_and_no_counter(redises, still, how):
    """A key without an expiry that is charged again has the one of all that is in it."""
    one = redises(clock=still)
    with one.resp() as client:
        for limit in LONGER:
            word = "ACQUIRE" if "lease" in limit else "CHECK"
            assert client.call("SLUICE." + word, limit, 1, "AT", NOW, limit)[0] == 1
            before = client.call("PTTL", limit)
            if how == "PERSIST":
                assert client.call("PERSIST", limit) == 1
            else:
                assert client.call("RESTORE", limit, 0, client.call("DUMP", limit), "REPLACE") == b"OK"
            assert client.call("SLUICE.CHECK", limit, 1, "AT", NOW, "fixed-window 9/1s")[0] == 1
            less = 3_600_000 if "precision" in limit else 1  # a charge allows for any edge, which is a part more
            assert before - less <= client.call("PTTL", limit) <= before + 1000, limit
        still.stand(MANY_YEARS_MS + 10_000_000)
        for limit in LONGER:
            assert client.call("SLUICE.PEEK", limit, 1, "AT", NOW + 10_000, limit)[0] == 0, limit
        # one that is made has the expiry of its charge
        client.call("SLUICE.CHECK", "made", 1, "AT", NOW, "fixed-window 9/1s")
        assert 0 < client.call("PTTL", "made") <= 3_700_000  # an hour longer, where callers set instants


@pytest.mark.parametrize("limit", ["fixed-window 50/3s", "50/3s"])
def test_a_window_has_an_expiry_again_with_the_next(redises, still, limit):
    """Charges in the same window do not look at the key's expiry (redis.md)."""
    with redises(clock=still).resp() as client:
        client.call("SLUICE.CHECK", "k", 1, "AT", NOW, limit)
        assert client.call("PERSIST", "k") == 1
        client.call("SLUICE.CHECK", "k", 1, "AT", NOW + 1, limit)
        assert client.call("PTTL", "k") == -1
        assert client.call("SLUICE.CHECK", "k", 1, "AT", NOW + 3000, limit)[:2] == [1, 50]
        assert client.call("PTTL", "k") > 0


def rewritten(redis):
    return redis.info("persistence", "aof_rewrite_in_progress") == "0" \
        and redis.info("persistence", "aof_rewrite_scheduled") == "0" \
        and redis.info("persistence", "aof_last_bgrewrite_status") == "ok" and redis.info("stats", "total_forks") != "0"


@pytest.mark.parametrize("preamble", ["yes", "no"])
def test_append_only_file(redises, still, preamble):
    one = redises(clock=still, options=["--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble",
                                        preamble])
    with one.resp() as client:
        fill(client)
        before = picture(client)
    one.restart()
    with one.resp() as client:
        assert differences(before, picture(client)) == []
        client.call("BGREWRITEAOF")
        wait_until(lambda: rewritten(one), "no AOF rewrite")
        assert differences(before, picture(client)) == []
    one.restart()
    with one.resp() as client:
        assert differences(before, picture(client)) == []
        assert client.call("SLUICE.CHECK", "one:0", 4, "AT", NOW + 6400, LIMITS["fixed"])[0] == 0  # 37 of 40 are gone


def commands_of(data):
    """The commands of an append-only file."""
    found, at = [], 0
    while at < len(data):
        count, at = int(data[at + 1:data.index(b"\r\n", at)]), data.index(b"\r\n", at) + 2
        words = []
        for _ in range(count):
            length, at = int(data[at + 1:data.index(b"\r\n", at)]), data.index(b"\r\n", at) + 2
            words.append(data[at:at + length])
            at += length + 2
        found.append(words)
    return found


def append_only(redis):
    return b"".join(open(path, "rb").read() for path in sorted(glob.glob(redis.path("appendonlydir", "*.incr.aof"))))


def test_effects_only(redises, still):
    """What replicas and append-only files are told: never a decision, and nothing of denials and peeks."""
    one = redises(clock=still, options=["--appendonly", "yes", "--appendfsync", "always"])
    replica = redises(clock=still)
    replicate(one, replica)
    with one.resp() as client:
        fill(client)
        told = commands_of(append_only(one))
        assert {words[0].upper() for words in told} <= {b"SELECT", b"SLUICE.EFFECT", b"MULTI", b"EXEC"}
        effects = [words for words in told if words[0].upper() == b"SLUICE.EFFECT"]
        assert len(effects) > LONG and all(len(words) == 4 and re.fullmatch(rb"-1|[0-9]+", words[2])
                                           for words in effects)
        synced(one, replica)
        size = len(append_only(one))
        for words in (["SLUICE.CHECK", "one:0", 4000, "AT", NOW + 6400, LIMITS["fixed"]],
                      ["SLUICE.CHECK", "one:0", 0, "AT", NOW + 6400, LIMITS["fixed"]],
                      ["SLUICE.CHECK", "none", 1, "AT", NOW + 6400, "0/1s"],
                      ["SLUICE.CHECK", "none", 1, "AT", NOW + 6400, "unlimited"],
                      ["SLUICE.PEEK", "none", 1, "AT", NOW + 6400, LIMITS["log"]],
                      ["SLUICE.PEEK", "long", 1, "AT", NOW + 6400, LIMITS["log"]],
                      ["SLUICE.HOLD", "one:0", 4000, "c1", 1000, "AT", NOW + 6400, LIMITS["fixed"]],
                      ["SLUICE.CONFIRM", "one:0", 4000, "c1", "AT", NOW + 6400, LIMITS["fixed"]],
                      ["SLUICE.CANCEL", "one:0", "c1", "AT", NOW + 6400, LIMITS["fixed"]],
                      ["SLUICE.RESET", "none", "AT", NOW + 6400, LIMITS["fixed"]],
                      ["SLUICE.REFUND", "none", 1, "AT", NOW + 6400, LIMITS["fixed"]],
                      ["SLUICE.LEASE", "none", "d1", 1000, 0, 0, "AT", NOW + 6400, LIMITS["fixed"]],
                      ["CL.THROTTLE", "cell", 15, 1, 3600, 0], ["CL.THROTTLE", "cell", 15, 1, 3600, 100],
                      ["SLUICE.INSPECT", "long"]):
            client.call(*words)
            assert client.call("EXISTS", "none") == 0
        synced(one, replica)
        client.call("SET", "mark", "x")  # what is said next, is said next
        later = commands_of(append_only(one)[size:])
        assert [words[0].upper() for words in later] in ([b"SET"], [b"SELECT", b"SET"]), later
        assert replica.alive()


def test_an_attack_is_not_replicated(redises, still):
    one, replica = redises(clock=still), redises(clock=still)
    replicate(one, replica)
    with one.resp() as client:
        assert client.call("SLUICE.CHECK", "victim", 5, "AT", NOW, "sliding-log 5/1h")[0] == 1
        synced(one, replica)
        offset = one.info("replication", "master_repl_offset")
        client.send(encode("SLUICE.CHECK", "victim", 1, "AT", NOW, "sliding-log 5/1h") * 1000)
        assert all(client.read()[0] == 0 for _ in range(1000))
        assert int(one.info("replication", "master_repl_offset")) - int(offset) <= 14 * 3  # but for a PING or two


# ---- replication -----------------------------------------------------------------------------------------------------

def test_full_sync_and_promotion(redises, still):
    one, replica = redises(clock=still), redises(clock=still)
    with one.resp() as client, replica.resp() as other:
        fill(client)
        before = picture(client)
        replicate(one, replica)
        assert differences(before, picture(other)) == []
        with pytest.raises(RespError, match="^READONLY "):
            other.call("SLUICE.CHECK", "one:0", 1, "AT", NOW, LIMITS["fixed"])
        assert other.call("SLUICE.PEEK", "one:1", 1, "AT", NOW + 6400, LIMITS["window"])[0] == 1
        assert client.call("DEBUG", "DIGEST") == other.call("DEBUG", "DIGEST")
        other.call("REPLICAOF", "NO", "ONE")
        assert differences(before, picture(other)) == []
        # from here on it decides as the other one would have
        for n, limit in enumerate(LIMITS.values()):
            words = ["SLUICE.CHECK", f"one:{n}", 3, "AT", NOW + 7000, "EACH", limit]
            assert client.call(*words) == other.call(*words)
            words = ["SLUICE.CONFIRM", f"held:{n}", 3, "a1", "AT", NOW + 7000, "EACH", limit]
            assert client.call(*words) == other.call(*words)
            words = ["SLUICE.LEASE", f"held:{n}", "b2", 1000, 2, 9, "AT", NOW + 7100, limit]
            assert client.call(*words) == other.call(*words)
        assert differences(picture(client), picture(other)) == []


def test_the_stream_of_effects(redises, still):
    """A replica from the beginning: every change comes as an effect."""
    one, replica = redises(clock=still), redises(clock=still)
    replicate(one, replica)
    with one.resp() as client, replica.resp() as other:
        fill(client)
        for n, limit in enumerate(LIMITS.values()):  # every verb, over what is there
            client.call("SLUICE.CONFIRM", f"held:{n}", 3, "a1", "AT", NOW + 7000, limit)
            client.call("SLUICE.CANCEL", f"held:{n}", "ffffffffffffffff", "AT", NOW + 7000, limit)
            client.call("SLUICE.CHECK", f"held:{n}", 1, "AT", NOW + 60_000, limit)  # the lease has ended
            client.call("SLUICE.RESET", "named", "AT", NOW + 7000, "NAME", f"limit {n % 3}", limit)
        client.call("SLUICE.RESET", "all", "AT", NOW + 7000, *list(LIMITS.values())[:4])
        client.call("SLUICE.REFUND", "long", 7777, "AT", NOW + 7000, LIMITS["log"])
        client.call("MULTI")
        client.call("SLUICE.CHECK", "multi", 1, "AT", NOW, LIMITS["token"], "KEY", "multi 2", LIMITS["log"])
        client.call("SLUICE.CHECK", "multi", 1, "AT", NOW, LIMITS["window"])
        client.call("EXEC")
        synced(one, replica)
        assert client.call("EXISTS", "named") == other.call("EXISTS", "named") == 0
        assert keys_of(client) == keys_of(other) and differences(picture(client), picture(other)) == []
        assert client.call("DEBUG", "DIGEST") == other.call("DEBUG", "DIGEST")


@pytest.mark.parametrize("registers", [1024, 4096, 16384])
def test_a_sketch_of_chosen_registers_arrives_whole(redises, still, registers):
    """A replica and an append-only file have as many registers as the primary, though what they are told of later is
    each charge alone; and so has a server that loads them. What was counted before the number was changed stays."""
    few, limit = "distinct 5000/1h", f"distinct 5000/1h registers {registers}"
    one = redises(clock=still, options=["--appendonly", "yes", "--appendfsync", "no"])
    replica = redises(clock=still)
    replicate(one, replica)

    def charge(client, key, begin, end, limit):
        client.send(b"".join(encode("SLUICE.CHECK", key, 1, "AT", NOW + i, "MEMBER", f"m{i}", limit)
                             for i in range(begin, end)))
        return [client.read() for _ in range(begin, end)]

    def left(client):
        return [client.call("SLUICE.PEEK", key, 1, "AT", NOW + 4000 + later, limit) for key in ("sketch", "changed")
                for later in (0, 3_599_000, 3_605_000)]

    with one.resp() as client, replica.resp() as other:
        assert all(reply[0] == 1 for reply in charge(client, "sketch", 0, 1024, limit))
        before = int(one.info("replication", "master_repl_offset"))
        assert all(reply[0] == 1 for reply in charge(client, "sketch", 1024, 1025, limit))
        sent = int(one.info("replication", "master_repl_offset")) - before
        assert (sent > 50 * registers) == (registers != 4096), "one effect has it all, if it is unusual"
        before = int(one.info("replication", "master_repl_offset"))
        assert all(reply[0] == 1 for reply in charge(client, "sketch", 1025, 3000, limit))
        assert int(one.info("replication", "master_repl_offset")) - before < 2000 * 200, "and then each charge is one"
        assert all(reply[0] == 1 for reply in charge(client, "changed", 0, 2000, few))
        assert all(reply[0] == 1 for reply in charge(client, "changed", 2000, 3000, limit))
        told = left(client)
        assert abs(told[0][2] - 2000) < 3000 * 4 * 1.04 / registers ** 0.5 and abs(told[3][2] - 2000) < 3000 * 0.065
        usage = client.call("MEMORY", "USAGE", "sketch")
        assert 50 * registers + 16384 <= usage < 50 * registers + 16384 * 3 + 50 * registers // 4
        synced(one, replica)
        assert left(other) == told and client.call("DEBUG", "DIGEST") == other.call("DEBUG", "DIGEST")
        assert other.call("MEMORY", "USAGE", "sketch") == usage
        client.call("RESTORE", "again", 0, client.call("DUMP", "sketch"))
        assert client.call("SLUICE.PEEK", "again", 1, "AT", NOW + 4000, limit) == told[0]
        client.call("DEL", "again")
    one.restart()
    with one.resp() as client:
        assert left(client) == told
        assert client.call("DEBUG", "RELOAD") == b"OK" and left(client) == told


def test_partial_sync_after_a_cut(redises, still):
    one, replica = redises(clock=still), redises(clock=still)
    replicate(one, replica)
    with one.resp() as client, replica.resp() as other:
        fill(client)
        synced(one, replica)
        full = one.info("stats", "sync_full")
        for n, limit in enumerate(LIMITS.values()):
            client.call("CLIENT", "KILL", "TYPE", "replica")
            client.call("SLUICE.CHECK", f"one:{n}", 2, "AT", NOW + 7000, limit)
            client.call("SLUICE.CHECK", "long", 1, "AT", NOW + 7000 + n, LIMITS["log"])
        synced(one, replica)
        assert one.info("stats", "sync_full") == full and int(one.info("stats", "sync_partial_ok")) >= 1
        assert differences(picture(client), picture(other)) == []


def random_call(dice):
    verb = dice.choice(["CHECK"] * 6 + ["REFUND", "HOLD", "CONFIRM", "CANCEL", "LEASE", "RESET"])
    limits = dice.sample(list(LIMITS.values()), 1 if verb == "LEASE" else dice.choice([1, 1, 2, 4]))
    cost, name, at = dice.choice([0, 1, 2, 9]), dice.choice(["1", "2"]), NOW + dice.randrange(200_000)
    middle = {"HOLD": [cost, name, dice.choice([1, 900, 60_000])], "CONFIRM": [cost, name], "CANCEL": [name],
              "LEASE": [name, dice.choice([1, 900, 60_000]), cost, dice.choice([0, 3, 20])], "RESET": []}
    return ["SLUICE." + verb, f"k{dice.randrange(6)}", *middle.get(verb, [cost]), "AT", at, *limits]


def test_random_changes_arrive_alike(redises, still):
    """Whatever was done, primary, replica and append-only file have the same in the end."""
    print(f"SLUICE_SEED={SEED}")
    dice = random.Random(SEED)
    one = redises(clock=still, options=["--appendonly", "yes", "--appendfsync", "no"])
    replica = redises(clock=still)
    replicate(one, replica)
    rounds, calls = (4, 500) if not SOAK else (20, 10_000)
    for _ in range(rounds):
        with one.resp() as client, replica.resp() as other:
            client.send(b"".join(encode(*random_call(dice)) for _ in range(calls)))
            replies = [client.read() for _ in range(calls)]
            assert not any(isinstance(r, RespError) for r in replies)
            synced(one, replica)
            before = picture(client)
            assert differences(before, picture(other)) == []
            assert client.call("DEBUG", "DIGEST") == other.call("DEBUG", "DIGEST")
        one.restart()
        with one.resp() as client:
            assert differences(before, picture(client)) == []
        wait_until(lambda: replica.info("replication", "master_link_status") == "up", "no link")
        synced(one, replica)


def test_a_full_key_stays_one(redises, still):
    """No call adds a row to the 256 that a key may have, however it asks: the key is replicated, and is there after a
    restart."""
    one, replica = redises(clock=still), redises(clock=still)
    replicate(one, replica)
    log = "token-bucket 4G/1h burst 4G"
    with one.resp() as client, replica.resp() as other:
        for key, count in (("ids", 256), ("bundles", 252)):
            for n in range(count):
                client.call("SLUICE.CHECK", key, 1, "AT", NOW, f"100/{1000 + n}s")
        for again in range(2):  # it is not remembered
            assert client.call("SLUICE.CHECK", "ids", 1, "AT", NOW, "ID", "once", "100/1000s")[2] == 98 - again
        for n in range(64):
            client.call("SLUICE.RESERVE", "bundles", 1, 3_600_000, "AT", NOW, "ID", f"r{n}", log)
        client.call("SLUICE.RESERVE", "bundles", 1, 3_600_000, "AT", NOW, "ID", "more", "EACH", log, "9/7h")
        synced(one, replica)
        assert client.call("DEBUG", "DIGEST") == other.call("DEBUG", "DIGEST")
        assert client.call("SAVE") == b"OK"
    one.restart()
    with one.resp() as client:
        assert client.call("SLUICE.PEEK", "ids", 1, "AT", NOW, "100/1000s")[2] == 97
        assert client.call("EXISTS", "ids", "bundles") == 2


# ---- one key at a time -----------------------------------------------------------------------------------------------

def test_dump_restore_copy_rename(filled):
    with filled.resp() as client:
        for key in filled.before:
            want = {key: filled.before[key]}
            left = client.call("PTTL", key)
            client.call("RESTORE", "again", left, client.call("DUMP", key))
            client.call("COPY", key, "copied")
            client.call("COPY", "copied", "moved", "DB", 1)
            client.call("RENAME", "copied", "renamed")
            client.call("SELECT", 1)
            third = picture(client, [b"moved"])[b"moved"]
            client.call("DEL", "moved")
            client.call("SELECT", 0)
            others = [picture(client, [name])[name] for name in (b"again", b"renamed")] + [third]
            assert others == [want[key]] * 3
            # a copy is a copy: what is done to it is not done to the first
            client.call("SLUICE.CHECK", "renamed", 1, "AT", NOW + 6500, *LIMITS.values())
            client.call("SLUICE.RESET", "again", "AT", NOW + 6500, *LIMITS.values())
            client.call("UNLINK", "again", "renamed")
            assert picture(client, [key]) == want
            assert client.call("MEMORY", "USAGE", key) is not None
            assert client.call("TYPE", key) == client.call("TYPE", "long") != b"string"
            assert client.call("OBJECT", "ENCODING", key) == b"raw"
        assert client.call("MEMORY", "USAGE", "long") > LONG * 4 > client.call("MEMORY", "USAGE", "one:0")


# ---- payloads that are damaged ---------------------------------------------------------------------------------------

def crc64(data):
    """CRC-64/Jones, as DUMP ends with it."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x95AC9329AC4BC9B5 if crc & 1 else 0)
    return struct.pack("<Q", crc)


def damaged(dice, payload):
    """A dump damaged in its value, its check sum made right again."""
    value, version = bytearray(payload[:-10]), payload[-10:-8]
    kind = dice.randrange(6)
    at = dice.randrange(10, len(value)) if len(value) > 10 else len(value) - 1
    if kind <= 1:
        value[at] ^= 1 << dice.randrange(8)
    elif kind == 2:
        value[at] = dice.choice([0, 1, 0x7F, 0x80, 0x81, 0xC0, 0xFF])
    elif kind == 3:
        del value[at:at + dice.randrange(1, 9)]
    elif kind == 4:
        value[at:at] = bytes(dice.randrange(256) for _ in range(dice.randrange(1, 9)))
    else:
        value = value[:at] + value[-1:]
    body = bytes(value) + version
    return body + crc64(body)


def poke(client, key):
    """All that can be asked of a key, whatever is in it: each is answered."""
    for words in (["SLUICE.INSPECT", key], ["SLUICE.PEEK", key, 1, "AT", NOW + 6400, "EACH", *LIMITS.values()],
                  ["SLUICE.CHECK", key, 1, "AT", NOW + 6400, *LIMITS.values()], ["MEMORY", "USAGE", key],
                  ["SLUICE.LEASE", key, "b2", 10, 1, 5, "AT", NOW + 70_000, LIMITS["log"]],
                  ["SLUICE.REFUND", key, 5, "AT", NOW + 6400, *LIMITS.values()], ["DEBUG", "DIGEST-VALUE", key],
                  ["SLUICE.HOLD", key, 1, "abc", 10, "AT", NOW + 6400, *LIMITS.values()], ["DUMP", key],
                  ["COPY", key, "c"], ["SLUICE.RESET", key, "AT", NOW, *LIMITS.values()], ["DEL", key, "c"]):
        client.send(encode(*words))
    return [client.read() for _ in range(12)]


def test_crc64():
    assert crc64(b"123456789") == struct.pack("<Q", 0xE9C6D914C4B8D9CA)


def test_damaged_dumps(filled):
    print(f"SLUICE_SEED={SEED}")
    dice, refused, taken = random.Random(SEED), 0, 0
    with filled.resp() as client:
        dumps = [client.call("DUMP", key) for key in filled.before if key != b"long"]
        for _ in range(600 if not SOAK else 30_000):
            payload = damaged(dice, dice.choice(dumps))
            client.send(encode("RESTORE", "damaged", 60_000, payload))
            reply = client.read()
            if isinstance(reply, RespError):
                assert "Bad data format" in str(reply), reply
                assert client.call("EXISTS", "damaged") == 0
                refused += 1
            else:
                poke(client, "damaged")
                taken += 1
        assert client.call("PING") == b"PONG"
        assert differences(filled.before, picture(client)) == []
    print(f"kept: seed {SEED}: {refused} damaged dumps refused, {taken} were other values, well-formed")
    assert refused > 100


@pytest.mark.parametrize("limit", ["log", "share", "token", "window"])
def test_every_byte_of_a_dump(redises, still, limit):
    one = redises(clock=still)
    with one.resp() as client:
        for at in (0, 50, 50, 7000):
            client.call("SLUICE.CHECK", "k", 2, "AT", NOW + at, LIMITS[limit])
        client.call("SLUICE.LEASE", "k", "b2", 30_000, 0, 2, "AT", NOW + 7000, LIMITS[limit])
        payload = client.call("DUMP", "k")
        for at in range(10, len(payload) - 10):  # behind the type and its version
            for change in [*range(8), b"\0", b"\xff", *(fill * n for n in range(2, 9) for fill in (b"\0", b"\xff"))]:
                value = bytearray(payload[:-8])
                if isinstance(change, int):
                    value[at] ^= 1 << change
                else:
                    value[at:at + len(change)] = change[:len(value) - 2 - at]
                client.send(encode("RESTORE", "damaged", 60_000, bytes(value) + crc64(bytes(value))))
                if client.read() == b"OK":
                    poke(client, "damaged")
        assert client.call("DBSIZE") == 1 and client.call("DUMP", "k") == payload


def test_a_damaged_dump_of_another_version(filled):
    with filled.resp() as client:
        payload = client.call("DUMP", "one:0")
        for at in range(10):  # the type and its version stand there
            for bit in range(8):
                value = bytearray(payload[:-8])
                value[at] ^= 1 << bit
                client.send(encode("RESTORE", "version", 0, bytes(value) + crc64(bytes(value))))
                reply = client.read()
                assert isinstance(reply, RespError) and client.call("EXISTS", "version") == 0, (at, bit, reply)
        assert filled.alive()


def test_hostile_effects(redises, still):
    """SLUICE.EFFECT with what nobody sent: refused, or a well-formed value; nothing else is touched."""
    print(f"SLUICE_SEED={SEED}")
    dice, refused, taken = random.Random(SEED), 0, 0
    one = redises(module=("client-time", "yes", "client-effects", "yes"), clock=still,
                  options=["--appendonly", "yes", "--appendfsync", "always"])
    with one.resp() as client:
        for n, limit in enumerate(LIMITS.values()):
            for verb, middle in (("CHECK", [2]), ("HOLD", [1, "a", 60_000]), ("LEASE", ["b", 60_000, 0, 3]),
                                 ("REFUND", [1]), ("RESET", [])):
                client.call("SLUICE." + verb, f"source:{n}", *middle, "AT", NOW, limit)
        sources = [words for words in commands_of(append_only(one)) if words[0].upper() == b"SLUICE.EFFECT"]
        fill(client)
        before = picture(client)
        for _ in range(600 if not SOAK else 30_000):
            payload = bytearray(dice.choice(sources)[3] + (dice.choice(sources)[3] if dice.random() < 0.3 else b""))
            for _ in range(dice.choice([0, 1, 1, 2, 5])):
                if payload:
                    payload[dice.randrange(len(payload))] = dice.choice([0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)])
            if dice.random() < 0.4:
                payload = payload[:dice.randrange(len(payload) + 1)]
            if dice.random() < 0.1:
                payload = bytes(dice.randrange(256) for _ in range(dice.randrange(60)))
            client.send(encode("SLUICE.EFFECT", "hostile", dice.choice([-1, NOW, 2**62]), bytes(payload)))
            reply = client.read()
            refused, taken = refused + isinstance(reply, RespError), taken + (reply == b"OK")
            if dice.random() < 0.3:
                poke(client, "hostile")
        client.call("DEL", "hostile")
        assert differences(before, picture(client)) == []
        for words in (["x", sources[0][3]], ["-2", sources[0][3]], ["", sources[0][3]], ["1.5", sources[0][3]],
                      [str(2**63), sources[0][3]], ["1"], ["1", sources[0][3], "2"]):
            with pytest.raises(RespError):
                client.call("SLUICE.EFFECT", "hostile", *words)
        assert client.call("EXISTS", "hostile") == 0
        client.call("SET", "text", "x")
        with pytest.raises(RespError, match="WRONGTYPE"):
            client.call("SLUICE.EFFECT", "text", -1, sources[0][3])
    print(f"kept: seed {SEED}: {refused} hostile effects refused, {taken} well-formed")
    assert refused > 100
    one.restart()
    with one.resp() as client:
        assert differences(before, {k: v for k, v in picture(client, list(before)).items()}) == []
