"""Quotas of keys' own at run time, in a real Redis with the module: the same cases as at a server's doors; and what is
Redis' alone: how long keys live, what becomes of a quota by saving, replication and a failover, whom an access list
lets do what, how many there may be, and that no decision between a SET and a DEL goes by another quota than the one in
force.

The wall clock stands where times to live are compared."""

import random
import threading

import pytest

import override_cases
from harness import DEADLINE_S, RespError, encode, wait_until
from redis_world import Clock, replicate, synced

NOW = 1_728_000_000_000
HOUR = 3_600_000


@pytest.fixture
def still():
    clock = Clock()
    clock.stand_all(NOW)
    yield clock
    clock.close()


def listed(client, *more):
    rows, cursor, calls = [], None, 0
    while cursor != 0:
        cursor, some = client.call("SLUICE.OVERRIDE", "LIST", cursor or 0, *more)
        rows += some
        calls += 1
    return rows, calls


def names(client):
    return [row[1].decode() for row in listed(client)[0]]


# ---- what is decided -------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("case", override_cases.CASES, ids=[case[0] for case in override_cases.CASES])
def test_case(world, case):
    with world.redis.resp() as client:
        override_cases.run(client, case, "case: " + case[0])


def test_what_is_no_quota_for_the_counter_is_refused(world):
    with world.redis.resp() as client:
        for limit, own, said in override_cases.REFUSED:
            with pytest.raises(RespError, match=said):
                client.call("SLUICE.OVERRIDE", "SET", limit, "refused", own)
        for words, said in ((("SET", "5/1h", "refused", "6/1h", "0"), "ttl_ms '0': expected"),
                            (("SET", "5/1h", "refused", "6/1h", "9", "x"), "expected SLUICE.OVERRIDE SET"),
                            (("SET", "5/1h", "refused", "6/1h", "NAME", "x" * 65), "NAME needs a name"),
                            (("SET", "5/1h", "refused"), "wrong number"), (("GET", "5/1h"), "wrong number"),
                            (("LIST", "x"), r"LIST \[cursor"), (("NONE", "5/1h", "refused"), "subcommand")):
            with pytest.raises(RespError, match=said):
                client.call("SLUICE.OVERRIDE", *words)
        assert client.call("EXISTS", "refused") == 0
        client.call("SET", "text", "1")
        with pytest.raises(RespError, match="WRONGTYPE"):
            client.call("SLUICE.OVERRIDE", "SET", "5/1h", "text", "6/1h")


def test_a_named_limit_may_have_another_rate(world):
    limit, name = "token-bucket 1/3660d burst 4", ("NAME", "per-user")
    with world.redis.resp() as client:
        assert client.call("SLUICE.OVERRIDE", "SET", limit, "named", "token-bucket 3/3660d burst 9", *name) == b"OK"
        assert client.call("SLUICE.CHECK", "named", 1, *name, limit)[:3] == [1, 9, 8]
        assert client.call("SLUICE.CHECK", "named", 1, limit)[:3] == [1, 4, 3]  # of no name: another counter
        assert client.call("SLUICE.OVERRIDE", "GET", limit, "named") is None
        assert [b"per-user", b"named", b"token-bucket 3/3660d burst 9", -1] in listed(client)[0]
        assert client.call("SLUICE.OVERRIDE", "DEL", limit, "named", *name) == 1


def test_it_is_told_by_inspect(world):
    with world.redis.resp() as client:
        client.call("SLUICE.OVERRIDE", "SET", "5/3660d", "seen", "8/3660d")
        beside = client.call("SLUICE.INSPECT", "seen")
        told = [dict(zip(row[::2], row[1::2])) for row in beside]
        assert [(one[b"beside"], one[b"quota"], one[b"ends_ms"]) for one in told if b"beside" in one] \
            == [(b"a quota of the key's own", b"sliding-window 8/3660d", -1)]


# ---- time ------------------------------------------------------------------------------------------------------------

def test_keys_live_as_long_as_what_is_in_them(redises, still):
    one = redises(clock=still)
    with one.resp() as client:
        def call(*words):
            return client.call("SLUICE.OVERRIDE", *words)
        client.call("SLUICE.CHECK", "k", 1, "fixed-window 5/1h")
        alone = client.call("PTTL", "k")
        assert 0 < alone <= HOUR + 1
        assert call("SET", "fixed-window 5/1h", "k", "fixed-window 9/1h") == b"OK"
        assert client.call("PTTL", "k") == -1
        assert client.call("SLUICE.CHECK", "k", 1, "fixed-window 5/1h")[:3] == [1, 9, 7]
        assert client.call("PTTL", "k") == -1
        assert call("SET", "fixed-window 5/1h", "k", "unlimited", 3 * HOUR) == b"OK"
        assert 3 * HOUR <= client.call("PTTL", "k") <= 3 * HOUR + 3
        text, left = call("GET", "fixed-window 5/1h", "k")
        assert text == b"unlimited" and left in (3 * HOUR, 3 * HOUR + 1)  # an end is kept to half a millisecond
        assert call("DEL", "fixed-window 5/1h", "k") == 1
        assert abs(client.call("PTTL", "k") - alone) <= 2  # its counter's again
        assert client.call("SLUICE.CHECK", "k", 1, "fixed-window 5/1h")[:3] == [1, 5, 2]
        # one alone: gone with its end, or with DEL
        assert call("SET", "5/1h", "alone", "9/1h", 1000) == b"OK" and client.call("PTTL", "alone") in range(1000, 1004)
        still.stand_all(NOW + 999)
        assert client.call("SLUICE.PEEK", "alone", 9, "5/1h")[0] == 1
        still.stand_all(NOW + 1002)
        assert call("GET", "5/1h", "alone") is None and call("DEL", "5/1h", "alone") == 0
        assert client.call("SLUICE.PEEK", "alone", 9, "5/1h")[0] == 0
        still.stand_all(NOW + 1010)
        assert client.call("EXISTS", "alone") == 0
        assert names(client) == []


def test_reset_and_the_counters_end_leave_it_and_del_does_not(redises, still):
    one = redises(clock=still)
    with one.resp() as client:
        client.call("SLUICE.OVERRIDE", "SET", "fixed-window 5/1s", "k", "fixed-window 9/1s")
        client.call("SLUICE.CHECK", "k", 9, "fixed-window 5/1s")
        assert client.call("SLUICE.RESET", "k", "fixed-window 5/1s") == 1
        assert client.call("SLUICE.CHECK", "k", 9, "fixed-window 5/1s")[0] == 1
        still.stand_all(NOW + 100 * HOUR)
        assert client.call("SLUICE.CHECK", "k", 9, "fixed-window 5/1s")[:3] == [1, 9, 0]
        assert client.call("RENAME", "k", "other") == b"OK"
        assert names(client) == ["other"]
        assert client.call("COPY", "other", "third") == 1 and sorted(names(client)) == ["other", "third"]
        client.call("DEL", "other", "third")
        assert names(client) == []
        assert client.call("SLUICE.PEEK", "other", 6, "fixed-window 5/1s")[0] == 0


# ---- saving, replication ---------------------------------------------------------------------------------------------

def fill(client):
    for n, case in enumerate(override_cases.CASES):
        _, limit, steps = case
        own = next(words[0] for what, *words, _ in steps if what == "set")
        client.call("SLUICE.CHECK", f"k{n}", 1, limit)
        client.call("SLUICE.OVERRIDE", "SET", limit, f"k{n}", own, *([50 * HOUR] * (n % 2)))
        client.call("SLUICE.OVERRIDE", "SET", limit, f"alone{n}", own, "NAME", "x")
        client.call("SLUICE.CHECK", f"k{n}", 1, limit)
    client.call("SLUICE.OVERRIDE", "SET", "5/1h", "gone", "6/1h")
    client.call("SLUICE.OVERRIDE", "DEL", "5/1h", "gone")


def picture(client):
    seen = [sorted(listed(client)[0])]
    for n, (_, limit, _) in enumerate(override_cases.CASES):
        for key in (f"k{n}", f"alone{n}"):
            seen.append((key, client.call("PTTL", key), client.call("SLUICE.PEEK", key, 3, limit),
                         client.call("SLUICE.PEEK", key, 3, "NAME", "x", limit)))
    return seen


def test_saved_and_loaded(redises, still):
    one = redises(clock=still)
    with one.resp() as client:
        fill(client)
        before = picture(client)
        assert len(before[0]) == 2 * len(override_cases.CASES)
        assert client.call("DEBUG", "RELOAD") == b"OK"
        assert picture(client) == before
        dump = client.call("DUMP", "k0")
        client.call("RESTORE", "restored", 0, dump)
        assert client.call("SLUICE.PEEK", "restored", 50, override_cases.CASES[0][1])[1] == 100
        client.call("DEL", "restored")
        client.call("SAVE")
    one.restart()
    with one.resp() as client:
        assert picture(client) == before
        assert client.call("SLUICE.OVERRIDE", "DEL", override_cases.CASES[0][1], "k0") == 1
        assert 0 < client.call("PTTL", "k0")


def rewritten(redis):
    return redis.info("persistence", "aof_rewrite_in_progress") == "0" \
        and redis.info("persistence", "aof_rewrite_scheduled") == "0" \
        and redis.info("persistence", "aof_last_bgrewrite_status") == "ok" and redis.info("stats", "total_forks") != "0"


@pytest.mark.parametrize("preamble", ["yes", "no"])
def test_in_an_append_only_file(redises, still, preamble):
    one = redises(clock=still, options=["--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble",
                                        preamble])
    with one.resp() as client:
        fill(client)
        before = picture(client)
    one.restart()
    with one.resp() as client:
        assert picture(client) == before
        client.call("BGREWRITEAOF")
        wait_until(lambda: rewritten(one), "no AOF rewrite")
    one.restart()
    with one.resp() as client:
        assert picture(client) == before


def test_a_replica_decides_by_it_when_it_takes_over(redises, still):
    one, other = redises(clock=still), redises(clock=still)
    with one.resp() as client, other.resp() as replica:
        client.call("SLUICE.OVERRIDE", "SET", "5/1h", "early", "50/1h")
        replicate(one, other)
        fill(client)
        client.call("SLUICE.OVERRIDE", "SET", "5/1h", "later", "7/1h", HOUR)
        client.call("SLUICE.OVERRIDE", "SET", "5/1h", "later", "8/1h")
        synced(one, other)
        assert picture(replica) == picture(client)
        assert client.call("DEBUG", "DIGEST") == replica.call("DEBUG", "DIGEST")
        assert replica.call("SLUICE.OVERRIDE", "GET", "5/1h", "early") == [b"sliding-window 50/1h", -1]
        with pytest.raises(RespError, match="READONLY"):
            replica.call("SLUICE.OVERRIDE", "SET", "5/1h", "early", "60/1h")
        replica.call("REPLICAOF", "NO", "ONE")
        assert replica.call("SLUICE.CHECK", "later", 8, "5/1h")[:3] == [1, 8, 0]
        assert replica.call("PTTL", "later") == -1
        limit = override_cases.CASES[0][1]
        assert replica.call("SLUICE.OVERRIDE", "DEL", limit, "k0") == 1
        assert replica.call("PTTL", "k0") > 0 and replica.call("SLUICE.PEEK", "k0", 1, limit)[:3] == [1, 5, 3]


def test_after_a_failover_a_key_ends_with_its_counters(redises, still):
    """A replica is not told when each counter ends, and a key with a quota for good has no expiry that would say it:
    DEL of the quota works it out from what each holds."""
    first = "5/1h"
    others = (("CHECK", "k", 1, "fixed-window 9/2h"), ("CHECK", "k", 2, "sliding-log 9/3h"),
              ("CHECK", "k", 1, "sliding-buckets 9/4h precision 1h"), ("CHECK", "k", 2, "token-bucket 1/2h burst 3"),
              ("CHECK", "k", 2, "NAME", "n", "leaky-bucket 2/9h"), ("ACQUIRE", "k", 1, "concurrency 3 lease 11h"),
              ("CHECK", "k", 1, "MEMBER", "m", "distinct 3/12h"), ("RESERVE", "k", 1, 13 * HOUR, "9/1h"),
              ("CHECK", "k", 1, "ID", "t", "3/14h"))
    for charge in others:
        one, other = redises(clock=still), redises(clock=still)
        replicate(one, other)
        with one.resp() as client, other.resp() as replica:
            for key in ("k", "twin"):
                if key == "k":
                    client.call("SLUICE.OVERRIDE", "SET", first, key, "9/1h")
                client.call("SLUICE.CHECK", key, 1, first)
                client.call("SLUICE." + charge[0], key, *charge[2:])
            synced(one, other)
            replica.call("REPLICAOF", "NO", "ONE")
            assert replica.call("PTTL", "k") == -1
            assert replica.call("SLUICE.OVERRIDE", "DEL", first, "k") == 1
            ends, needed = replica.call("PTTL", "k"), client.call("PTTL", "twin")
            # a charge keeps its key up to W / 16 longer than it has to, and sub-buckets a precision
            spare = needed / 8 + ("precision" in charge[-1]) * HOUR
            assert needed > HOUR and needed - spare <= ends <= needed + 4, (charge, ends, needed)
        one.stop()
        other.stop()


PENALTY = ("TERMS", "penalty [20h] after 1 denials in 1m forgive 30h", "5/1h")
WHEN = pytest.mark.parametrize("when", ["before", "after", "after strikes alone"])


def strike(client, key, when):
    """Locks a key out for 20 h, forgiven 30 h later, with a quota for good that is set before or after; or after a
    denial that charged nothing, so that the strikes are all that the key has."""
    set_quota = ("SLUICE.OVERRIDE", "SET", "9/2h", key, "11/2h")
    if when == "before":
        client.call(*set_quota)
    costs = [6] if when == "after strikes alone" else [5, 5]
    assert [client.call("SLUICE.CHECK", key, cost, *PENALTY)[0] for cost in costs] == [1, 0][-len(costs):]
    if when != "before":
        client.call(*set_quota)


def ends_with_its_strikes(client, key):
    assert client.call("PTTL", key) == -1
    assert client.call("SLUICE.OVERRIDE", "DEL", "9/2h", key) == 1
    assert 50 * HOUR <= client.call("PTTL", key) <= 50 * HOUR + 4


@WHEN
def test_after_a_failover_a_key_ends_with_its_strikes(redises, still, when):
    """Only the terms of the last denial tell when strikes end: the primary says it to its replicas."""
    one, other = redises(clock=still), redises(clock=still)
    replicate(one, other)
    with one.resp() as client, other.resp() as replica:
        strike(client, "k", when)
        synced(one, other)
        replica.call("REPLICAOF", "NO", "ONE")
        ends_with_its_strikes(replica, "k")


@pytest.mark.parametrize("preamble", ["yes", "no"])
@WHEN
def test_a_key_of_an_append_only_file_ends_with_its_strikes(redises, still, preamble, when):
    one = redises(clock=still, options=["--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble",
                                        preamble])
    with one.resp() as client:
        for key in ("k", "rewritten"):
            strike(client, key, when)
    one.restart()
    with one.resp() as client:
        ends_with_its_strikes(client, "k")
        client.call("BGREWRITEAOF")
        wait_until(lambda: rewritten(one), "no AOF rewrite")
    one.restart()
    with one.resp() as client:
        ends_with_its_strikes(client, "rewritten")


# ---- who, how many ---------------------------------------------------------------------------------------------------

def test_access_lists(redises):
    one = redises()
    with one.resp() as client:
        client.call("ACL", "SETUSER", "app", "on", "nopass", "~*", "+@all", "-sluice.override")
        client.call("ACL", "SETUSER", "billing", "on", "nopass", "~a:*", "+sluice.override")
        client.call("ACL", "SETUSER", "looks", "on", "nopass", "~*", "+sluice.override|get", "+sluice.override|list")
        for key in ("a:1", "b:1"):
            assert client.call("SLUICE.OVERRIDE", "SET", "5/1h", key, "9/1h") == b"OK"
        assert sorted(names(client)) == ["a:1", "b:1"]
        with one.resp() as app:
            app.call("AUTH", "app", "x")
            assert app.call("SLUICE.CHECK", "a:1", 1, "5/1h")[1] == 9
            for words in (("SET", "5/1h", "a:1", "6/1h"), ("GET", "5/1h", "a:1"), ("DEL", "5/1h", "a:1"), ("LIST",)):
                with pytest.raises(RespError, match="NOPERM"):
                    app.call("SLUICE.OVERRIDE", *words)
        with one.resp() as billing:
            billing.call("AUTH", "billing", "x")
            assert names(billing) == ["a:1"]
            assert billing.call("SLUICE.OVERRIDE", "SET", "5/1h", "a:1", "6/1h") == b"OK"
            with pytest.raises(RespError, match="NOPERM"):
                billing.call("SLUICE.OVERRIDE", "SET", "5/1h", "b:1", "6/1h")
        with one.resp() as looks:
            looks.call("AUTH", "looks", "x")
            assert looks.call("SLUICE.OVERRIDE", "GET", "5/1h", "a:1") == [b"sliding-window 6/1h", -1]
            with pytest.raises(RespError, match="NOPERM"):
                looks.call("SLUICE.OVERRIDE", "DEL", "5/1h", "a:1")


def test_no_more_than_the_operator_allows(redises):
    one = redises(module=("overrides-max", "3"), options=["--lazyfree-lazy-user-del", "no"])
    with one.resp() as client:
        for n in range(3):
            assert client.call("SLUICE.OVERRIDE", "SET", "5/1h", f"k{n}", "9/1h") == b"OK"
        with pytest.raises(RespError, match="as many quotas of keys' own as overrides-max"):
            client.call("SLUICE.OVERRIDE", "SET", "5/1h", "k3", "9/1h")
        assert client.call("SLUICE.OVERRIDE", "SET", "5/1h", "k2", "8/1h") == b"OK"  # one that is there may change
        client.call("DEL", "k0")
        assert client.call("SLUICE.OVERRIDE", "SET", "5/1h", "k3", "9/1h") == b"OK"
        client.call("FLUSHALL", "SYNC")
        for n in range(3):
            assert client.call("SLUICE.OVERRIDE", "SET", "5/1h", f"k{n}", "9/1h") == b"OK"
        with pytest.raises(RespError, match="overrides-max"):
            client.call("SLUICE.OVERRIDE", "SET", "5/1h", "k3", "9/1h")
        assert client.call("SLUICE.CHECK", "k3", 1, "5/1h")[:3] == [1, 5, 4]


def test_without_memory_none_is_added(redises):
    one = redises()
    with one.resp() as client:
        client.call("SLUICE.OVERRIDE", "SET", "5/1h", "k", "9/1h")
        client.call("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(RespError, match="OOM"):
            client.call("SLUICE.OVERRIDE", "SET", "5/1h", "more", "9/1h")
        with pytest.raises(RespError, match="OOM"):
            client.call("SLUICE.OVERRIDE", "SET", "5/1m", "k", "9/1m")
        assert client.call("SLUICE.OVERRIDE", "GET", "5/1h", "k") == [b"sliding-window 9/1h", -1]
        assert client.call("SLUICE.OVERRIDE", "SET", "5/1h", "k", "3/1h") == b"OK"  # one that is there may change
        assert client.call("SLUICE.OVERRIDE", "GET", "5/1h", "k") == [b"sliding-window 3/1h", -1]
        assert client.call("SLUICE.OVERRIDE", "DEL", "5/1h", "k") == 1


def test_a_list_is_bounded_work(redises):
    one = redises()
    with one.resp() as client:
        client.send(b"".join(encode("SLUICE.CHECK", f"c{n}", 1, "5/1h") for n in range(20_000)))
        for _ in range(20_000):
            client.read()
        assert client.call("SLUICE.OVERRIDE", "LIST") == [0, []]  # none at all: nothing is looked at
        wanted = [f"o{n}" for n in range(300)]
        for key in wanted:
            client.call("SLUICE.OVERRIDE", "SET", "5/1h", key, "9/1h")
        rows, calls = listed(client, "COUNT", 7)
        assert sorted({row[1].decode() for row in rows}) == sorted(wanted) and calls >= 20
        assert max(len(client.call("SLUICE.OVERRIDE", "LIST", cursor, "COUNT", 7)[1]) for cursor in (0, 1, 5)) < 100


@pytest.mark.parametrize("count, most", [(1, 512), (100, 6), (1024, 4)])
def test_a_list_is_bounded_work_in_a_table_that_was_full(redises, count, most):
    """Where keys are gone and the table has not shrunk yet, a step of SCAN finds nothing: it counts as well, and
    an empty page says where to go on. One read of the socket brings all commands, so that nothing shrinks between."""
    one, keys = redises(), 100_000
    emptied = f"for i = 0, {keys - 1} do redis.call('UNLINK', 'k:' .. i) end return redis.call('DBSIZE')"
    with one.resp() as client:
        assert client.call("SLUICE.OVERRIDE", "SET", "5/1h", "zed", "9/1h") == b"OK"
        client.call("DEBUG", "POPULATE", keys, "k", 0)
        client.call("CONFIG", "RESETSTAT")
        client.send(encode("EVAL", emptied, 0) + encode("SLUICE.OVERRIDE", "LIST", 0, "COUNT", count) +
                    encode("INFO", "commandstats"))
        assert client.read() == 1
        cursor, rows = client.read()
        steps = int(client.read().decode().split("cmdstat_scan:calls=")[1].split(",")[0])
        assert steps <= most and (cursor != 0 or rows), (cursor, rows, steps)
        while cursor != 0:
            cursor, more = client.call("SLUICE.OVERRIDE", "LIST", cursor, "COUNT", count)
            rows += more
        assert {row[1] for row in rows} == {b"zed"}


# ---- a race ----------------------------------------------------------------------------------------------------------

def test_between_set_and_del_only_the_quota_in_force_decides(redises):
    """Deciders run while one connection flips the quota: all that they admit is no more than the larger one, and after
    the last change was answered nobody is told the other."""
    one = redises()
    limit, raised, seed = "100/3660d", "400/3660d", random.randrange(1 << 32)
    print(f"seed {seed}")
    dice, end = random.Random(seed), threading.Event()
    admitted, wrong = [0] * 3, []
    after = threading.Event()

    def decide(n):
        with one.resp() as client:
            while not end.is_set():
                low = after.is_set()
                got = client.call("SLUICE.CHECK", "k", 1, limit)
                admitted[n] += got[0]
                if got[1] not in (100, 400) or (low and got[1] != 100):
                    wrong.append(got)

    with one.resp() as client:
        threads = [threading.Thread(target=decide, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(300):
            if dice.random() < 0.5:
                client.call("SLUICE.OVERRIDE", "SET", limit, "k", raised)
            else:
                client.call("SLUICE.OVERRIDE", "DEL", limit, "k")
            client.call("SLUICE.PEEK", "k", 1, limit)
        client.call("SLUICE.OVERRIDE", "DEL", limit, "k")
        after.set()  # from now on nobody may be told the other
        wait_until(lambda: client.call("SLUICE.PEEK", "k", 1, limit)[1] == 100, "the limit's own quota", DEADLINE_S)
        for _ in range(200):
            assert client.call("SLUICE.PEEK", "k", 1, limit)[1] == 100
        end.set()
        for thread in threads:
            thread.join()
        assert wrong == [] and sum(admitted) <= 400
        client.call("SLUICE.OVERRIDE", "SET", limit, "k", raised)
        assert client.call("SLUICE.CHECK", "k", 400 - sum(admitted), limit)[:3] == [1, 400, 0]
