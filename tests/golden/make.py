#!/usr/bin/python3
"""Makes golden files of the formats as a built tree writes them, into tests/golden/COMMIT. See README.md.

    tests/golden/make.py [--tree FOLDER] [--kinds store redis script] [--without-many]
    tests/golden/make.py --reread

FOLDER is a checkout without changes in which `make` was run; this one, where none is named. What a tree can't do yet is
left out: a command that it answers with an error charges nothing, and is not asked about. Files that are there stay as
they are. --reread asks the program that is built here about all files, and notes what it answers otherwise than the
program that made them did; it prints each such reply, and somebody has to know why.
"""
import argparse
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import golden  # noqa: E402
from golden import POLICY, SCRIPT, ask_by, at, pack, plain, read_bytes, write_answers  # noqa: E402
from harness import RespError, Server, wait_until  # noqa: E402
from redis_world import Clock, Redis  # noqa: E402

NOON = 4_102_488_000_000  # 1 January 2100, 12:00 UTC: until then no clock says that what is in the files has expired
LATER_MS = [0, 777, 31_000, 3_700_000, 90_000_000]
LIMITS = ["fixed-window 40/1h", "90/1m", "sliding-log 50/1h", "sliding-buckets 70/1h precision 1m",
          "sliding-buckets 9000/2h precision 1m edge drop", "sliding-buckets 70/1d precision 1h edge weighted",
          "token-bucket 7/3s burst 60", "leaky-bucket 5/7s queue 30"]
CALENDAR = ["100/month", "1000/day at Europe/Berlin"]
RESERVED = ["fixed-window 40/1h", "90/1m", "sliding-log 50/1h", "sliding-buckets 70/1h precision 1m",
            "token-bucket 7/3s burst 60", "leaky-bucket 5/7s queue 30"]
LEASES, FEW, MANY = "concurrency 5 lease 1h", "distinct 3/1d", "distinct 2000/1h"
TERMS = ["TERMS", "penalty [1h, 3h] after 2 denials in 1m forgive 1d"]
MEMBERS = 1100  # more than are counted one by one


class Ticket(str):
    """Stands for the first ticket that RESERVE gave at this key."""


# ---- what is charged -------------------------------------------------------------------------------------------------

def counters():
    """A counter of each algorithm, each at a key of its own and all at one."""
    for n, limit in enumerate(LIMITS + CALENDAR):
        for step in range(5):
            yield at(NOON + 313 * step, "SLUICE.CHECK", f"one:{n}", 1 + 2 * step, limit)
        yield at(NOON + 1300, "SLUICE.REFUND", f"one:{n}", 2, limit)
        yield at(NOON + n, "SLUICE.CHECK", "all", 3, limit)


def companions():
    """Leases, members, a request that may be retried, reservations: open, committed, one that returns."""
    for step, who in enumerate(("worker-1", "worker-2", "worker-3")):
        yield at(NOON + step, "SLUICE.ACQUIRE", "jobs", 1 + step % 2, "ID", who, LEASES)
    yield at(NOON + 5, "SLUICE.RELEASE", "jobs", "worker-2", LEASES)
    yield at(NOON + 6, "SLUICE.ACQUIRE", "jobs", 1, LEASES)
    for step, who in enumerate(("ann", "bob", "ann", "eve", "dan")):
        yield at(NOON + step, "SLUICE.CHECK", "few", 1, "MEMBER", who, FEW)
    for step in range(2):
        yield at(NOON + step, "SLUICE.CHECK", "retried", 5, "ID", "request-1", "sliding-log 100/1h")
    for n, limit in enumerate(RESERVED):
        yield at(NOON, "SLUICE.CHECK", f"team:{n}", 2, limit)
        yield at(NOON + 10, "SLUICE.RESERVE", f"team:{n}", 4, 600_000, "ID", "open", limit)
        yield at(NOON + 20, "SLUICE.RESERVE", f"team:{n}", 5, 600_000, "ID", "more", limit)
        yield at(NOON + 30, "SLUICE.RESERVE", f"team:{n}", 3, 30_000, "ID", "returns", limit)
    yield at(NOON + 10, "SLUICE.RESERVE", "team:own", 6, 600_000, "sliding-log 50/1h", "90/1m")
    yield at(NOON + 7, "SLUICE.RENEW", "jobs", "worker-1", LEASES)
    yield at(NOON + 8, "SLUICE.REFUND", "few", 1, "MEMBER", "bob", FEW)
    yield at(NOON, "SLUICE.CHECK", "gone", 3, "90/1m", "sliding-log 50/1h")
    yield at(NOON + 1, "SLUICE.RESET", "gone", "90/1m")
    for n, limit in enumerate(RESERVED):
        yield at(NOON, "SLUICE.RESERVE", f"ended:{n}", 4, 600_000, "ID", "committed", limit)
        yield at(NOON, "SLUICE.RESERVE", f"ended:{n}", 3, 30_000, "ID", "returned", limit)
        yield at(NOON + 10, "SLUICE.COMMIT", f"ended:{n}", Ticket(f"ended:{n}"), 6)
        yield at(NOON + 40_000, "SLUICE.CHECK", f"ended:{n}", 1, limit)


def many(count):
    for n in range(count):
        yield at(NOON + n, "SLUICE.CHECK", "many", 1, "MEMBER", f"user-{n}", MANY)


def by_policy():
    """What only limits of a policy have at a server: a penalty, a bucket whose rate changed, denials that are charged.
    ADMIT goes by the server's own clock, which is behind these counters and so raised to theirs."""
    for step in range(8):
        yield at(NOON + step, "SLUICE.CHECK", "user=eve", 1, "policy:login")
    yield at(NOON, "SLUICE.CHECK", "user=ann", 80, "policy:metered")
    yield ["SLUICE.ADMIT", 3, "user", "ann", "plan", "pro", "path", "/metered"]
    yield at(NOON, "SLUICE.CHECK", "user=bob", 80, "policy:metered")
    for step in range(4):
        yield at(NOON + step, "SLUICE.CHECK", "user=eve", 4, "policy:counted")
    yield at(NOON, "SLUICE.ACQUIRE", "user=dan", 1, "ID", "worker-9", "policy:at-a-time")
    yield at(NOON, "SLUICE.CHECK", "user=dan", 7, "policy:tokens")
    for cost in (40, 50):
        yield ["SLUICE.ADMIT", cost, "user", "dan", "path", "/work"]


def by_front():
    """What only a front asks: names, terms, holds, slices of a quota, a bucket of a name whose rate changed."""
    for n, limit in enumerate(LIMITS):
        yield at(NOON + n, "SLUICE.CHECK", "named", 2, "NAME", f"limit {n}", limit)
        yield at(NOON, "SLUICE.HOLD", f"held:{n}", 3, "a1", 40_000, limit)
        yield at(NOON, "SLUICE.HOLD", f"held:{n}", 2, "a2", 60_000, limit)
        yield at(NOON, "SLUICE.HOLD", f"held:{n}", 1, "a3", 50_000, limit)
        yield at(NOON + 1, "SLUICE.CONFIRM", f"held:{n}", 2, "a2", limit)
        yield at(NOON, "SLUICE.LEASE", f"held:{n}", "b2", 45_000, 0, 4, limit)
        yield at(NOON + 100, "SLUICE.LEASE", f"held:{n}", "b2", 45_000, 1, 5, limit)
    for step in range(6):
        yield at(NOON + step, "SLUICE.CHECK", "shut", 1, *TERMS, "sliding-log 3/1m")
        yield at(NOON + step, "SLUICE.CHECK", "counted", 20, "TERMS", "count-denied", "sliding-log 90/1m")
    yield at(NOON, "SLUICE.CHECK", "rate", 80, "NAME", "metered", "token-bucket 60/1m burst 100")
    yield at(NOON + 5000, "SLUICE.CHECK", "rate", 1, "NAME", "metered", "token-bucket 6000/1m burst 100")


# ---- what is asked ---------------------------------------------------------------------------------------------------

def ask_counters(limits=tuple(LIMITS + CALENDAR)):
    for later in LATER_MS:
        for n, limit in enumerate(limits):
            for cost in (1, 30):
                yield at(NOON + 1300 + later, "SLUICE.PEEK", f"one:{n}", cost, limit)
            yield at(NOON + 1300 + later, "SLUICE.PEEK", "all", 30, limit)
    for n, limit in enumerate(limits):
        yield at(NOON + 1400, "SLUICE.REFUND", f"one:{n}", 12, limit)
        yield at(NOON + 1500, "SLUICE.CHECK", f"one:{n}", 7, limit)


def ask_leases():
    yield at(NOON + 1000, "SLUICE.HOLDERS", "jobs", LEASES)
    yield at(NOON + 1000, "SLUICE.PEEK", "jobs", 3, LEASES)
    yield at(NOON + 1000, "SLUICE.RENEW", "jobs", "worker-1", LEASES)
    yield at(NOON + 1000, "SLUICE.RELEASE", "jobs", "worker-2", LEASES)
    yield at(NOON + 1000, "SLUICE.RELEASE", "jobs", "worker-3", LEASES)
    yield at(NOON + 1000, "SLUICE.ACQUIRE", "jobs", 1, "ID", "worker-1", LEASES)
    yield at(NOON + 3_600_100, "SLUICE.HOLDERS", "jobs", LEASES)


def ask_members():
    for who in ("ann", "dan", "eve"):
        yield at(NOON + 1000, "SLUICE.PEEK", "few", 1, "MEMBER", who, FEW)
    yield at(NOON + 86_400_001, "SLUICE.PEEK", "few", 1, "MEMBER", "dan", FEW)
    yield at(NOON + 1000, "SLUICE.CHECK", "retried", 5, "ID", "request-1", "sliding-log 100/1h")
    yield at(NOON + 1000, "SLUICE.CHECK", "retried", 5, "ID", "request-2", "sliding-log 100/1h")


def ask_many():
    for later in (2000, 3_600_300, 3_600_900, 3_602_000):
        for who in ("user-3", f"user-{MEMBERS - 1}", "nobody"):
            yield at(NOON + later, "SLUICE.PEEK", "many", 1, "MEMBER", who, MANY)


def ask_reservations(tickets):
    for later in (1000, 30_100, 601_000):
        for n, limit in enumerate(RESERVED):
            yield at(NOON + later, "SLUICE.PEEK", f"team:{n}", 30, limit)
    for n, limit in enumerate(RESERVED):
        given = tickets[f"team:{n}"]
        yield at(NOON + 60_000, "SLUICE.COMMIT", f"team:{n}", given[0], 1)
        yield at(NOON + 60_000, "SLUICE.COMMIT", f"team:{n}", given[0], 1)
        yield at(NOON + 60_000, "SLUICE.COMMIT", f"team:{n}", given[1], 11)
        yield at(NOON + 60_000, "SLUICE.COMMIT", f"team:{n}", given[2], 1)
        yield at(NOON + 61_000, "SLUICE.PEEK", f"team:{n}", 30, limit)
        yield at(NOON + 41_000, "SLUICE.PEEK", f"ended:{n}", 30, limit)
    yield at(NOON + 60_000, "SLUICE.COMMIT", "team:own", tickets["team:own"][0], 9)
    yield at(NOON + 1000, "SLUICE.PEEK", "gone", 30, "90/1m", "sliding-log 50/1h")


def ask_admitted(tickets):
    """By tickets that say the limits' names; where none were given, of nothing."""
    for ticket in tickets:
        yield at(NOON + 1000, "SLUICE.RENEW", "*", ticket)
        yield at(NOON + 2000, "SLUICE.COMMIT", "*", ticket, 60)
        yield at(NOON + 2000, "SLUICE.COMMIT", "*", ticket, 60)
        yield at(NOON + 2000, "SLUICE.PEEK", "user=dan", 900, "policy:tokens")
    yield at(NOON + 3000, "SLUICE.RELEASE", "*", tickets[0])
    yield at(NOON + 3000, "SLUICE.RELEASE", "*", tickets[0])
    for later in (3000, 3_600_500):
        yield at(NOON + later, "SLUICE.PEEK", "user=dan", 60, "policy:at-a-time")
    yield ["SLUICE.EXPLAIN", 1, "user", "dan", "path", "/work"]


def ask_policy():
    for later in (100, 1_800_000, 3_600_100, 90_000_000):
        yield at(NOON + later, "SLUICE.PEEK", "user=eve", 1, "policy:login")
        yield at(NOON + later, "SLUICE.PEEK", "user=eve", 1, "policy:counted")
    for later in (0, 1000, 20_000, 90_000):
        yield at(NOON + later, "SLUICE.PEEK", "user=ann", 60, "policy:metered")
        yield at(NOON + later, "SLUICE.PEEK", "user=bob", 60, "policy:metered")
    for who in ("ann", "bob", "eve"):
        for path in ("/golden", "/metered"):
            yield ["SLUICE.EXPLAIN", 1, "user", who, "path", path]
    yield ["SLUICE.EXPLAIN", 50, "user", "ann", "plan", "pro", "path", "/metered"]


def ask_front():
    for later in (200, 50_000, 700_000):
        for n, limit in enumerate(LIMITS):
            yield at(NOON + later, "SLUICE.PEEK", f"held:{n}", 20, limit)
            yield at(NOON + later, "SLUICE.PEEK", "named", 30, "NAME", f"limit {n}", limit)
    for n, limit in enumerate(LIMITS):
        yield at(NOON + 300, "SLUICE.LEASE", f"held:{n}", "b2", 45_000, 2, 5, limit)
        yield at(NOON + 400, "SLUICE.CONFIRM", f"held:{n}", 3, "a1", limit)
        yield at(NOON + 500, "SLUICE.CANCEL", f"held:{n}", "a3", limit)
        yield at(NOON + 500, "SLUICE.CANCEL", f"held:{n}", "a3", limit)
        yield at(NOON + 600, "SLUICE.PEEK", f"held:{n}", 20, limit)
    for later in (100, 1_800_000, 3_600_100, 90_000_000):
        yield at(NOON + later, "SLUICE.PEEK", "shut", 1, *TERMS, "sliding-log 3/1m")
        yield at(NOON + later, "SLUICE.PEEK", "counted", 1, "TERMS", "count-denied", "sliding-log 90/1m")
    for later in (5000, 5100, 5900, 20_000):
        for rate in (60, 6000):
            yield at(NOON + later, "SLUICE.PEEK", "rate", 90, "NAME", "metered",
                     f"token-bucket {rate}/1m burst 100")


def ask_resets():
    for n, limit in enumerate(LIMITS):
        yield at(NOON + 70_000, "SLUICE.RESET", f"one:{n}", limit)
        yield at(NOON + 70_000, "SLUICE.PEEK", f"one:{n}", 1, limit)


# ---- making ----------------------------------------------------------------------------------------------------------

def charge(ask, commands):
    """Gives the commands. Returns the tickets that RESERVE gave, by key; where it gave none, tickets of nothing."""
    tickets = {}
    for words in commands:
        words = [tickets.get(word, [word])[0] if isinstance(word, Ticket) else word for word in words]
        reply = ask(words)
        if isinstance(reply, RespError):
            print("left out:", *words, "->", reply)
        elif words[0] == "SLUICE.RESERVE":
            tickets.setdefault(words[1], []).append(plain(reply[7]))
        elif words[0] == "SLUICE.ADMIT" and len(reply) > 8 and reply[8] is not None:
            tickets.setdefault("admitted", []).append(plain(reply[8]))
    return {**{key: ["0" * 16] * 3 for key in [*(f"team:{n}" for n in range(len(RESERVED))), "team:own", "admitted"]},
            **tickets}


def asked(ask, commands):
    """Commands and replies. `-NOTFOUND` is an answer; what was not understood is left out."""
    replies = [[words, plain(ask(words))] for words in commands]
    return [row for row in replies if not str(row[1]).startswith("ERR ")]


def make_store(commit, tree, members):
    """store: the file of a store of 4 MiB; store.dump: its dump; store.json: the policy, and what is answered."""
    binary = os.path.join(tree, "build", "sluice")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "counters")
        server = Server(binary, POLICY.replace("STORE", path))
        with server.resp() as client:
            tickets = charge(ask_by(client), [*counters(), *companions(), *by_policy(), *many(members)])
        server.stop()
        pack(commit, "store", read_bytes(path))
        pack(commit, "store.dump", subprocess.run([binary, "store", "dump", path], capture_output=True,
                                                  check=True).stdout)
        questions = [*ask_policy(), *ask_counters(), *ask_leases(), *ask_members(), *(ask_many() if members else []),
                     *ask_reservations(tickets), *ask_admitted(tickets["admitted"]), *ask_resets()]
        with golden.served(binary, {"policy": POLICY}, path) as ask:
            write_answers(commit, "store.json", {"policy": POLICY, "asked": asked(ask, questions)})


def ask_keys(tickets):
    return [*ask_front(), *ask_counters(), *ask_leases(), *ask_members(), *ask_reservations(tickets), *ask_resets()]


def make_redis(commit, tree, clock):
    """redis.aof: the append-only file, so what replicas are sent; redis.rewritten.aof: the same rewritten as commands;
    redis.rdb; redis.json: what is answered, the same for all three."""
    redis = Redis(clock=clock, path=os.path.join(tree, "build", "sluice-module.so"), options=[
        "--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", "no",
        "--rdbcompression", "no"])
    rewritten = redis.path("appendonlydir", "appendonly.aof.2.base.aof")
    with redis.resp() as client:
        tickets = charge(ask_by(client), [*counters(), *companions(), *by_front()])
        pack(commit, "redis.aof", read_bytes(redis.path("appendonlydir", "appendonly.aof.1.incr.aof")))
        client.call("SAVE")
        pack(commit, "redis.rdb", read_bytes(redis.path("dump.rdb")))
        client.call("BGREWRITEAOF")
        wait_until(lambda: os.path.exists(rewritten) and redis.info("persistence", "aof_rewrite_in_progress") == "0",
                   "no rewrite")
        pack(commit, "redis.rewritten.aof", read_bytes(rewritten))
        write_answers(commit, "redis.json", {"asked": asked(ask_by(client), ask_keys(tickets))})
    redis.stop()


def make_many(commit, tree, clock):
    """many.rdb: a key of more members than are counted one by one."""
    redis = Redis(clock=clock, path=os.path.join(tree, "build", "sluice-module.so"),
                  options=["--rdbcompression", "no"])
    with redis.resp() as client:
        charge(ask_by(client), many(MEMBERS))
        client.call("SAVE")
        pack(commit, "many.rdb", read_bytes(redis.path("dump.rdb")))
        write_answers(commit, "many.json", {"asked": asked(ask_by(client), ask_many())})
    redis.stop()


def make_script(commit, tree, clock):
    """script.json: the script's hashes, field by field, and what it answers."""
    redis = Redis(clock=clock, module=None)
    with redis.resp() as client:
        client.call("FUNCTION", "LOAD", read_bytes(os.path.join(tree, "build", SCRIPT)))
        ask = ask_by(client, script=True)
        tickets = charge(ask, [*counters(), *companions(), *by_front()])
        hashes = {}
        for key in sorted(client.call("KEYS", "*")):
            pairs = client.call("HGETALL", key)
            hashes[plain(key)] = {"expires": client.call("PEXPIRETIME", key),
                                  "fields": dict(zip(map(plain, pairs[::2]), map(plain, pairs[1::2])))}
        write_answers(commit, "script.json", {"hashes": hashes, "asked": asked(ask, ask_keys(tickets))})
    redis.stop()


KINDS = ["store", "redis", "script"]


def make(tree, kinds, members):
    commit = subprocess.run(["git", "-C", tree, "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True,
                            check=True).stdout.strip()
    os.mkdir(os.path.join(HERE, commit))  # fails where it is there: golden files are never made again
    clock = Clock(NOON)
    if "store" in kinds:
        make_store(commit, tree, members)
    if "redis" in kinds:
        make_redis(commit, tree, clock)
    if "redis" in kinds and members:
        make_many(commit, tree, clock)
    if "script" in kinds and os.path.exists(os.path.join(tree, "build", SCRIPT)):
        make_script(commit, tree, clock)
    clock.close()


# ---- asking again ----------------------------------------------------------------------------------------------------

def note_others(commit, name, opened):
    answers = golden.read_answers(commit, name)
    before = [list(row) for row in answers["asked"]]
    with opened(answers) as ask:
        for row in answers["asked"]:
            now = plain(ask(row[0]))
            row[2:] = [now] if not golden.same(now, row[1]) else []
    if answers["asked"] != before:
        write_answers(commit, name, answers)
    for row in answers["asked"]:
        if row not in before:
            print(commit, name, *row[0], "\n   was", row[1], "\n   now", row[-1])


def reread():
    binary = os.path.join(ROOT, "build", "sluice")
    for commit in sorted(name for name in os.listdir(HERE) if os.path.isdir(os.path.join(HERE, name))):
        def has(name, commit=commit):
            return os.path.exists(os.path.join(HERE, commit, name + ".xz"))
        with tempfile.TemporaryDirectory() as folder:
            if has("store.json"):
                note_others(commit, "store.json", lambda answers: golden.open_store(
                    binary, answers, golden.unpack(commit, "store"), folder))
        if has("redis.json"):
            note_others(commit, "redis.json", lambda _: golden.open_rdb(golden.unpack(commit, "redis.rdb")))
        if has("many.json"):
            note_others(commit, "many.json", lambda _: golden.open_rdb(golden.unpack(commit, "many.rdb")))
        if has("script.json"):
            note_others(commit, "script.json", golden.open_hashes)


def main():
    parser = argparse.ArgumentParser(description="Makes golden files; see the head of this file.")
    parser.add_argument("--tree", default=ROOT, help="the checkout whose build writes them")
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS, help="what to make")
    parser.add_argument("--without-many", action="store_true", help="no counter of more than 1,024 members")
    parser.add_argument("--reread", action="store_true", help="ask this build about all files")
    arguments = parser.parse_args()
    if arguments.reread:
        reread()
    else:
        make(os.path.abspath(arguments.tree), arguments.kinds, 0 if arguments.without_many else MEMBERS)


if __name__ == "__main__":
    main()
