"""What the module keeps beside counters, in a real Redis: leases, members, reservations, penalties, requests that may
be retried. That persistence and replication bring it all along, that keys live long enough for it, that what is refused
says why and changes nothing; a primary's death in the middle of a lease.
"""

import base64
import os
import random

import pytest

from harness import RespError, encode, wait_until
from redis_world import MANY_YEARS_MS, Clock, Redis, replicate, synced

SEED = int(os.environ.get("SLUICE_SEED", random.randrange(1, 1 << 32)))
NOW = 1_728_000_000_000
LEASES, MEMBERS = "concurrency 20 lease 30s", "distinct 40/1m"
MANY = "distinct 5000/1h edge allow"
RESERVED = ["sliding-log 5000/1m", "token-bucket 100/1s burst 500", "sliding-buckets 900/1m precision 1s", "800/1h"]
PENALTY = "penalty [1m, 10m] after 2 denials in 1m forgive 1h"
COUNTED = "count-denied"


def fill(client):
    calls = []
    for n in range(12):
        calls.append(["SLUICE.ACQUIRE", "leases", 1 + n % 2, "AT", NOW + 10 * n, "ID", f"job {n}", LEASES, "90/1m"])
        calls.append(["SLUICE.CHECK", "members", 1, "AT", NOW + 10 * n, "MEMBER", f"10.0.0.{n}", MEMBERS])
        for limit in RESERVED:
            calls.append(["SLUICE.RESERVE", "reserved", 10 + n, 5000 + 1000 * n, "AT", NOW + 10 * n, "ID", f"r{n}",
                          limit])
        calls.append(["SLUICE.CHECK", "retried", 1, "AT", NOW + 10 * n, "ID", f"request {n}",
                      "leaky-bucket 5/1s queue 40"])
        calls.append(["SLUICE.CHECK", "shut out", 3, "AT", NOW + 10 * n, "TERMS", PENALTY, "2/1s"])
        calls.append(["SLUICE.CHECK", "counted", 3, "AT", NOW + 10 * n, "TERMS", COUNTED, "sliding-log 10/1m"])
        calls.append(["SLUICE.CHECK", "calendar", 3, "AT", NOW + 10 * n, "100/day at Europe/Berlin"])
    calls.append(["SLUICE.RELEASE", "leases", "job 3", "AT", NOW + 200, LEASES])
    calls.append(["SLUICE.RENEW", "leases", "job 4", "AT", NOW + 250, LEASES])
    calls.append(["SLUICE.REFUND", "members", 1, "AT", NOW + 200, "MEMBER", "10.0.0.3", MEMBERS])
    calls += [["SLUICE.CHECK", "many", 1, "AT", NOW + n, "MEMBER", str(n), MANY] for n in range(1500)]
    replies = ask(client, calls)
    assert not any(isinstance(r, RespError) for r in replies), (SEED, replies)
    tickets = {}
    for words, reply in zip(calls, replies):
        if words[0] == "SLUICE.RESERVE":
            tickets[words[7], words[8]] = reply[7]
    commits = [["SLUICE.COMMIT", "reserved", tickets[f"r{n}", limit], 3 * n, "AT", NOW + 300]
               for n in (1, 5) for limit in RESERVED]
    assert all(isinstance(r, list) for r in ask(client, commits))
    return tickets


def ask(client, calls):
    client.send(b"".join(encode(*words) for words in calls))
    return [client.read() for _ in calls]


def picture(client):
    calls = [["SLUICE.HOLDERS", "leases", "AT", NOW + 400, LEASES]]
    for later in (400, 4000, 9000, 20_000, 29_000, 61_000, 130_000):
        at = NOW + later
        calls += [["SLUICE.PEEK", "leases", 9, "AT", at, "EACH", LEASES, "90/1m"],
                  ["SLUICE.PEEK", "many", 1, "AT", at, "EACH", MANY],
                  ["SLUICE.PEEK", "calendar", 99, "AT", at, "EACH", "100/day at Europe/Berlin"],
                  ["SLUICE.PEEK", "shut out", 1, "AT", at, "EACH", "TERMS", PENALTY, "2/1s"],
                  ["SLUICE.PEEK", "counted", 9, "AT", at, "EACH", "sliding-log 10/1m"]]
        calls += [["SLUICE.PEEK", "members", 1, "AT", at, "EACH", "MEMBER", f"10.0.0.{n}", "distinct 5/1m"]
                  for n in (0, 3, 11)]
        calls += [["SLUICE.PEEK", "reserved", cost, "AT", at, "EACH", limit] for limit in RESERVED for cost in (1, 480)]
    calls += [["PTTL", key] for key in ("leases", "members", "reserved", "retried", "shut out", "counted", "many")]
    replies = ask(client, calls)
    assert not any(isinstance(r, RespError) for r in replies), replies
    return replies


def goes_on(client, tickets):
    """What only those who remember can answer."""
    assert client.call("SLUICE.ACQUIRE", "leases", 1, "AT", NOW + 500, "ID", "job 7", LEASES)[1:3] == [20, 4]
    assert client.call("SLUICE.RELEASE", "leases", "job 8", "AT", NOW + 500, LEASES) == 1
    assert client.call("SLUICE.RELEASE", "leases", "job 8", "AT", NOW + 500, LEASES) == 0
    again = client.call("SLUICE.CHECK", "retried", 1, "AT", NOW + 500, "EACH", "ID", "request 5",
                        "leaky-bucket 5/1s queue 40")
    assert again[1] == [1, 1, 0] and again[0][5] == 500, again  # 950 from NOW + 50 on
    for limit in RESERVED:
        assert isinstance(client.call("SLUICE.COMMIT", "reserved", tickets["r9", limit], 1, "AT", NOW + 500), list)
        with pytest.raises(RespError, match="NOTFOUND"):
            client.call("SLUICE.COMMIT", "reserved", tickets["r5", limit], 1, "AT", NOW + 500)


@pytest.fixture
def still():
    one = Clock(MANY_YEARS_MS)
    yield one
    one.close()


def digests(client):
    return client.call("DEBUG", "DIGEST-VALUE", "leases", "members", "reserved", "retried", "shut out", "counted",
                       "many")


def test_rdb_and_restart(redises, still):
    one = redises(clock=still)
    with one.resp() as client:
        tickets, before, digest = fill(client), None, None
        before, digest = picture(client), digests(client)
        assert client.call("DEBUG", "RELOAD") == b"OK"
        assert picture(client) == before and digests(client) == digest
        client.call("SAVE")
    one.restart()
    with one.resp() as client:
        assert picture(client) == before and digests(client) == digest
        goes_on(client, tickets)


def test_append_only_file_and_its_rewrite(redises, still):
    one = redises(clock=still, options=["--appendonly", "yes", "--aof-use-rdb-preamble", "no"])
    with one.resp() as client:
        tickets = fill(client)
        before, digest = picture(client), digests(client)
        assert client.call("DEBUG", "LOADAOF") == b"OK"
        assert picture(client) == before and digests(client) == digest
        client.call("BGREWRITEAOF")
    wait_until(lambda: one.info("persistence", "aof_rewrite_in_progress") == "0"
               and one.info("persistence", "aof_last_bgrewrite_status") == "ok"
               and one.info("persistence", "aof_rewrite_scheduled") == "0", "the file was not rewritten")
    one.restart()
    with one.resp() as client:
        assert picture(client) == before and digests(client) == digest
        goes_on(client, tickets)


def test_a_replica_has_it_all_and_goes_on(redises, still):
    first, second = redises(clock=still), redises(clock=still)
    replicate(first, second)
    with first.resp() as one, second.resp() as two:
        tickets = fill(one)
        synced(first, second)
        assert digests(two) == digests(one)
        assert picture(two) == picture(one)
        for words in (["SLUICE.ACQUIRE", "k", 1, LEASES], ["SLUICE.RELEASE", "k", "a", LEASES],
                      ["SLUICE.RESERVE", "k", 1, 10, "9/1s"]):
            with pytest.raises(RespError, match="READONLY"):
                two.call(*words)
        first.kill()
        two.call("REPLICAOF", "NO", "ONE")
        goes_on(two, tickets)


def test_dump_restore_copy_and_memory(redises, still):
    one = redises(clock=still)
    with one.resp() as client:
        fill(client)
        before = picture(client)
        for key in ("leases", "members", "reserved", "retried", "shut out", "counted", "many"):
            payload, life = client.call("DUMP", key), client.call("PTTL", key)
            assert client.call("COPY", key, "copy") == 1
            assert client.call("DEBUG", "DIGEST-VALUE", "copy", key)[0] == client.call("DEBUG", "DIGEST-VALUE", key)[0]
            assert client.call("MEMORY", "USAGE", "copy") >= 80
            client.call("DEL", key, "copy")
            assert client.call("RESTORE", key, life, payload) == b"OK"
            broken = bytearray(payload)
            broken[len(broken) // 2] ^= 0x10
            with pytest.raises(RespError):
                client.call("RESTORE", "copy", 0, bytes(broken))
        assert picture(client) == before
        assert client.call("MEMORY", "USAGE", "many") > 40_000


def test_effects_say_what_has_changed_and_no_more(redises, still):
    first, second = redises(clock=still), redises(clock=still)
    replicate(first, second)
    with first.resp() as client:
        fill(client)

        def sent(*words):
            synced(first, second)
            before = int(first.info("replication", "master_repl_offset"))
            client.call(*words)
            synced(first, second)
            return int(first.info("replication", "master_repl_offset")) - before
        for words, most in ((["SLUICE.CHECK", "many", 1, "AT", NOW + 3000, "MEMBER", "new", MANY], 300),
                            (["SLUICE.ACQUIRE", "leases", 1, "AT", NOW + 3000, "ID", "new", LEASES], 300),
                            (["SLUICE.RELEASE", "leases", "new", "AT", NOW + 3000, LEASES], 300),
                            (["SLUICE.RESERVE", "reserved", 1, 1000, "AT", NOW + 3000, RESERVED[0]], 400),
                            (["SLUICE.CHECK", "retried", 1, "AT", NOW + 3000, "ID", "new", "10/1s"], 400)):
            assert 0 < sent(*words) - 14 <= most, words
        assert sent("SLUICE.RELEASE", "leases", "nobody", "AT", NOW + 3000, LEASES) <= 14


def test_a_ticket_says_no_longer_key_than_it_can(redises):
    """What an observed limit would hold for such a key is not held: it denies by the bound `key`, and nobody."""
    with redises().resp() as client:
        answer = client.call("SLUICE.RESERVE", "k", 1, 1000, RESERVED[0], "KEY", "z" * 70_000, "OBSERVED", RESERVED[0])
        assert answer[:3] == [1, 5000, 4999]
        assert client.call("SLUICE.COMMIT", "k", answer[7], 3)[:3] == [1, 5000, 4997]
        answer = client.call("SLUICE.RESERVE", "k", 1, 1000, RESERVED[0], "KEY", "z" * 70_000, RESERVED[0])
        assert answer[0] == 0 and answer[3] == -1


def test_a_key_lives_as_long_as_a_lease(redises):
    clock = Clock(MANY_YEARS_MS)
    one = redises(clock=clock)
    with one.resp() as client:
        client.call("SLUICE.ACQUIRE", "k", 1, "ID", "a", "concurrency 2 lease 30s")
        assert 30_000 <= client.call("PTTL", "k") <= 31_000
        client.call("SLUICE.RESERVE", "r", 5, 90_000, "fixed-window 10/1s")
        assert 90_000 <= client.call("PTTL", "r") <= 91_500
        client.call("SLUICE.CHECK", "d", 1, "MEMBER", "m", "distinct 2/2m")
        assert 120_000 <= client.call("PTTL", "d") <= 121_500
        client.call("SLUICE.CHECK", "t", 1, "ID", "x", "token-bucket 10/1h")
        assert 3_600_000 <= client.call("PTTL", "t") <= 3_602_000
    one.stop()
    clock.close()


def test_a_hold_replaces_what_it_holds_anew_alone(host):
    bucket = "token-bucket 3000/1s burst 1"
    with host.resp() as client:
        assert client.call("SLUICE.HOLD", "h", 1, "ab", 60_000, "AT", NOW, bucket)[0] == 1
        assert client.call("SLUICE.HOLD", "h", 1, "ab", 700, "AT", NOW, "TRIED", bucket)[0] == 1
        assert client.call("SLUICE.PEEK", "h", 1, "AT", NOW, bucket)[:3] == [0, 1, 0]
        assert client.call("DEL", "h") == 1


def test_what_a_lease_was_charged_drains_at_its_rate_behind_a_refund(host):
    slow, fast = ("NAME", "n", "token-bucket 5/1h burst 100"), ("NAME", "n", "token-bucket 9/1h burst 100")
    with host.resp() as client:
        assert client.call("SLUICE.LEASE", "l", "1", 700, 0, 100, "AT", NOW, *slow)[0] == 100
        client.call("SLUICE.REFUND", "l", 10, "AT", NOW + 700, *slow)
        for limit in slow, fast:
            assert client.call("SLUICE.PEEK", "l", 1, "AT", NOW + 700 + 3_600_000, *limit)[2] == 15, limit
        assert client.call("DEL", "l") == 1


REFUSED = [
    (["CHECK", "k", 1, LEASES], "limit 1: concurrency is acquired and released: SLUICE.ACQUIRE"),
    (["REFUND", "k", 1, "9/1s", LEASES], "limit 2: concurrency takes no refund: SLUICE.RELEASE ends a lease, "
     "SLUICE.RESET all that is counted"),
    (["RESERVE", "k", 1, 9, LEASES], "limit 1: concurrency is acquired and released: SLUICE.ACQUIRE"),
    (["HOLD", "k", 1, "a", 9, LEASES], "limit 1: concurrency is acquired and released: SLUICE.ACQUIRE"),
    (["LEASE", "k", "a", 9, 0, 1, LEASES], "limit 1: concurrency is acquired and released: SLUICE.ACQUIRE"),
    (["CONFIRM", "k", 1, "a", MEMBERS], "limit 1: distinct is not held: SLUICE.CHECK with MEMBER decides it at once"),
    (["RESERVE", "k", 1, 9, MEMBERS], "limit 1: distinct is not reserved: SLUICE.CHECK decides it at once"),
    (["CHECK", "k", 1, MEMBERS], "limit 1: distinct counts members: expected MEMBER and the member, as in"),
    (["ACQUIRE", "k", 1, "9/1s"], "no limit of concurrency among the limits: expected one, or SLUICE.CHECK"),
    (["HOLDERS", "k", "9/1s"], "expected one limit of concurrency: others have no holders"),
    (["HOLDERS", "k", LEASES, LEASES], "expected one limit of concurrency: others have no holders"),
    (["CHECK", "k", 1, "9/1s", "UPTO", "UPTO"], "UPTO twice: expected it once"),
    (["CHECK", "k", 1, "9/1s", "ID", "a", "ID", "b"], "ID twice: expected it once"),
    (["CHECK", "k", 1, "9/1s", "ID", ""], "the ID '' has 0 bytes: expected 1 to 64"),
    (["CHECK", "k", 1, "9/1s", "ID", "x" * 65], "has 65 bytes: expected 1 to 64"),
    (["CHECK", "k", 1, "9/1s", "ID"], "ID needs a token after it"),
    (["CHECK", "k", 1, MEMBERS, "MEMBER"], "MEMBER needs a member after it: a member that distinct counts"),
    (["PEEK", "k", 1, "ID", "a", "9/1s"], "ID is no word of SLUICE.PEEK"),
    (["RESERVE", "k", 1, 0, "9/1s"], "ttl_ms '0': expected a whole number from 1 to 316224000000"),
    (["RESERVE", "k", 1, 316224000001, "9/1s"],
     "ttl_ms '316224000001': expected a whole number from 1 to 316224000000"),
    (["CHECK", "k", 1, "TERMS", "penalty [1m] after 3 denial in 1m", "9/1s"], "limit 1, TERMS, column "),
    (["CHECK", "k", 1, "TERMS", "count-denied"], "TERMS needs the terms and a limit after it"),
    (["CHECK", "k", 1, "COST", "0", "9/1s"], "COST '0': expected a whole number from 1 to 4294967295"),
    (["CHECK", "k", 1, "9/day at Europe/Berln"], "Europe/Berlin"),
    (["RELEASE", "k", "a"], "no limit for key 'k': expected at least one after it, such as 'concurrency 20 lease 30s'"),
    (["RELEASE", "k", "0123456789abcdef.AQ", "AT", NOW], "no ticket: '0123456789abcdef.AQ'"),
    (["COMMIT", "k", "0123456789abcdef", 1], "no ticket: '0123456789abcdef': expected it as SLUICE.RESERVE"),
    (["COMMIT", "k", "x", "many"], "actual 'many': expected"),
]


@pytest.fixture(scope="module")
def host():
    clock = Clock(MANY_YEARS_MS)
    one = Redis(clock=clock)
    yield one
    one.stop()
    clock.close()


@pytest.mark.parametrize("words,message", REFUSED, ids=[str(n) for n in range(len(REFUSED))])
def test_refused(host, words, message):
    with host.resp() as client:
        reply = ask(client, [["SLUICE." + words[0], *words[1:]]])[0]
        assert isinstance(reply, RespError) and str(reply).startswith("ERR ") and message in str(reply), reply
        assert client.call("DBSIZE") == 0


def test_a_forged_ticket_finds_nothing(host):
    with host.resp() as client:
        good = client.call("SLUICE.RESERVE", "{t}a", 1, 1000, "9/1s", "KEY", "{t}b", "8/1s")[7]
        client.call("SET", "{t}c", "a secret")
        client.call("SLUICE.RESET", "{t}a", "9/1s", "KEY", "{t}b", "8/1s")
        packed = b"\x01" + b"\x05" + b"\x04\x00{t}c" + b"\x13" + b"sliding-window 9/1s"
        forged = b"0123456789abcdef." + base64.urlsafe_b64encode(packed).rstrip(b"=")
        for ticket in (good, forged):
            reply = ask(client, [["SLUICE.COMMIT", "{t}a", ticket, 1]])[0]
            assert isinstance(reply, RespError) and str(reply).startswith("NOTFOUND"), reply
        assert client.call("GET", "{t}c") == b"a secret"
        client.call("FLUSHALL")


def test_inspect_tells_what_is_held(host):
    """What holds and slices take is not used, and not left; penalties are told where TERMS say them."""
    limit = "sliding-log 20/1m"
    with host.resp() as client:
        client.call("SLUICE.CHECK", "k", 3, "AT", NOW, limit)
        client.call("SLUICE.HOLD", "k", 4, "a", 2000, "AT", NOW, limit)
        assert client.call("SLUICE.LEASE", "k", "b", 9000, 0, 5, "AT", NOW + 10, limit)[0] == 5
        before = client.call("DUMP", "k")
        for later, held, slices, remaining in ((20, 9, 1, 8), (2000, 5, 1, 12), (9010, 0, 0, 12)):
            one, = client.call("SLUICE.INSPECT", "k", "AT", NOW + later, limit)
            one = dict(zip(one[::2], one[1::2]))
            assert one[b"held"] == held and one[b"remaining"] == remaining
            assert one[b"slices"] == [[NOW + 9010, 5]] * slices
            assert one[b"used"] == (3 if slices else 8) and one[b"charges"][0] == [NOW, NOW + 60_000, 3]
        assert client.call("DUMP", "k") == before, "nothing was charged"
        terms = ["TERMS", "penalty [1h] after 1 denial in 1m"]
        client.call("SLUICE.CHECK", "p", 2, "AT", NOW, *terms, "1/1m")
        one, = client.call("SLUICE.INSPECT", "p", "AT", NOW + 1000, *terms, "1/1m")
        one = dict(zip(one[::2], one[1::2]))
        assert (one[b"penalties"], one[b"allowed"], one[b"shut_out_ms"]) == (1, 0, 3_599_000)
        assert client.call("COMMAND", "GETKEYS", "SLUICE.INSPECT", "a", limit, "KEY", "b", limit) == [b"a", b"b"]
        client.call("FLUSHALL")


def test_inspect_and_keys(host):
    with host.resp() as client:
        client.call("SLUICE.ACQUIRE", "k", 2, "ID", "a", "MEMBER", "m", LEASES, MEMBERS)
        client.call("SLUICE.RESERVE", "k", 3, 60_000, "100/1m")
        client.call("SLUICE.CHECK", "k", 200, "TERMS", "penalty [1h] after 1 denial in 1m", "100/1m")
        maps = [dict(zip(m[::2], m[1::2])) for m in client.call("SLUICE.INSPECT", "k")]
        seen = {m[b"algorithm"]: m for m in maps if b"algorithm" in m}
        assert seen[b"concurrency"][b"leases"] == 1 and seen[b"distinct"][b"members"] == 1
        window = seen[b"sliding-window"]
        assert (window[b"reservations"], window[b"reserved"], window[b"penalties"]) == (1, 3, 1)
        assert window[b"shut_out_until_ms"] > 0
        assert sorted(m[b"beside"] for m in maps if b"beside" in m) == [b"penalties", b"reservations"]
        assert client.call("SLUICE.RESET", "k", LEASES, MEMBERS, "100/1m") == 3 and client.call("DBSIZE") == 0
        assert client.call("COMMAND", "GETKEYS", "SLUICE.ACQUIRE", "k", "1", "MEMBER", "key", LEASES, "ID", "key",
                           "KEY", "other", "9/1s") == [b"k", b"other"]
