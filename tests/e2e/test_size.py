"""`sluice size` against real Redis servers: each figure is within a quarter of what so many keys take by Redis's own
account, in the module, by the script, and in the structures that are written for it by hand. (tests/unit/size_test.c
does the same for stores.)"""

import itertools
import random
import re
import subprocess
import time

import pytest

from harness import encode, wait_until
from redis_world import FunctionDoor, ModuleDoor

NOW = int(time.time() * 1000)
# limit, keys: a little less than a power of two, as tables are
ROWS = [("fixed-window 100/1m", 1900), ("100/1m", 1900), ("token-bucket 100/1m", 1900), ("leaky-bucket 100/1m", 1900),
        ("sliding-log 10/1m", 900), ("sliding-log 100/1h", 110), ("sliding-log 1000/1m", 28),
        ("sliding-buckets 100000/1h precision 1m", 230), ("sliding-buckets 100000/1h precision 5s", 28),
        ("concurrency 10 lease 1h", 900), ("distinct 100/1h", 110)]


@pytest.fixture(scope="module")
def said(sluice_bin):
    """{limit as it was written: {place: bytes a key}}"""
    args = [word for limit, _ in ROWS for word in ("--limit", limit)]
    out = subprocess.run([sluice_bin, "size", *args], capture_output=True, text=True, check=True, timeout=120).stdout
    figures = [re.split(r" +", line[52:].strip())[:4] for line in out.splitlines()[1:len(ROWS) + 1]]
    names = ("store", "module", "script", "by hand")
    return {limit: {name: None if figure == "-" else int(figure) for name, figure in zip(names, row)}
            for (limit, _), row in zip(ROWS, figures)}


def name_of(number):
    return f"user:{number:015d}"  # twenty bytes


def used(redis):
    """Asked by a connection of its own, when all others are gone: their buffers come and go."""
    def alone():
        return client.call("CLIENT", "LIST").count(b"id=") == 1

    told = []
    with redis.resp() as client:
        wait_until(alone, "other connections do not end")

        def settled():
            told.append(int(re.search(rb"used_memory:(\d+)", client.call("INFO", "memory"))[1]))
            return told[-3:] == told[-1:] * 3
        wait_until(settled, "memory does not settle")
    return told[-1]


def bytes_a_key(redis, encoded, keys):
    """What so many keys take that these commands make."""
    with redis.resp() as client:
        client.call("CONFIG", "SET", "latency-tracking", "no")  # which keeps a histogram for each command
        client.call("FLUSHALL", "SYNC")
    before = used(redis)
    with redis.resp() as client:
        for batch in batches_of(encoded):
            send(client, batch)
        assert int(client.call("DBSIZE")) >= keys, "keys went while they were counted"
    return (used(redis) - before) / keys


def batches_of(commands):
    commands = iter(commands)
    while batch := list(itertools.islice(commands, 200)):
        yield batch


def send(client, batch):
    client.send(b"".join(batch))
    for _ in range(len(batch)):
        reply = client.read()
        assert not isinstance(reply, Exception), reply


def numbers(limit):
    quota, window = re.search(r"(\d+)(?:/| lease )(\w+)", limit).groups()
    ms = int(window[:-1]) * {"s": 1000, "m": 60000, "h": 3600000}[window[-1]]
    precision = re.search(r"precision (\d+)([sm])", limit)
    return int(quota), ms, precision and int(precision[1]) * {"s": 1000, "m": 60000}[precision[2]]


def charges(limit, key):
    """The commands, in the module's words, that use up a key's quota."""
    quota, ms, precision = numbers(limit)
    if "concurrency" in limit:
        return [("SLUICE.ACQUIRE", key, 1, "AT", NOW, "ID", f"{i:016x}", limit) for i in range(quota)]
    if "distinct" in limit:
        return [("SLUICE.CHECK", key, 1, "AT", NOW, "MEMBER", f"m{i}", limit) for i in range(quota)]
    if "sliding-log" in limit:
        return [("SLUICE.CHECK", key, 1, "AT", NOW - ms + 1000 + i * (ms - 2000) // quota, limit) for i in range(quota)]
    if precision:
        return [("SLUICE.CHECK", key, 1, "AT", NOW - ms + i * precision, limit) for i in range(1, ms // precision + 1)]
    return [("SLUICE.CHECK", key, quota, "AT", NOW, limit)]


def by_hand(limit, key):
    """The structures of the articles."""
    quota, ms, precision = numbers(limit)
    if "sliding-log" in limit:
        return [*(("ZADD", key, NOW + i, f"{NOW + i}-{random.randrange(16 ** 11):011x}") for i in range(quota)),
                ("PEXPIRE", key, ms)]
    if precision:
        prefix = f"{ms // 1000}:{precision // 1000}:"
        return [("HSET", key, prefix + "o", NOW // precision, prefix, quota),
                *(("HINCRBY", key, f"{prefix}{NOW // precision + i}", 1) for i in range(ms // precision)),
                ("EXPIRE", key, ms // 1000)]
    windows = 2 if limit == "100/1m" else 1
    return [word for i in range(windows) for word in (("INCR", f"{key}:{NOW // ms - i}"),
                                                      ("PEXPIRE", f"{key}:{NOW // ms - i}", 2 * 3600000))]


def hold(found, limit, place, told):
    assert told is not None and 0.75 < told / found < 1.25, f"{limit}, {place}: {told} said, {found:.0f} measured"


@pytest.mark.parametrize("place,door", [("module", ModuleDoor), ("script", FunctionDoor)])
def test_redis_takes_what_is_said(redises, said, place, door):
    redis = redises()
    one = door(redis)
    one.close()
    for limit, keys in ROWS:
        commands = (one.encode(words) for i in range(keys) for words in charges(limit, name_of(i)))
        hold(bytes_a_key(redis, commands, keys), limit, place, said[limit][place])


def test_what_is_written_by_hand_takes_what_is_said(redises, said):
    redis = redises(module=None)
    for limit, keys in ROWS:
        if said[limit]["by hand"] is not None:
            made = keys // 2 if limit == "100/1m" else keys
            commands = (encode(*words) for i in range(made) for words in by_hand(limit, name_of(i)))
            hold(bytes_a_key(redis, commands, made), limit, "by hand", said[limit]["by hand"])


@pytest.mark.parametrize("limit, keys, least_mib", [
    ("sliding-log 1k/1m", 150_000_000, 400_000), ("sliding-log 4G/1s", 4_294_967_295, 2 ** 64 >> 20)])
def test_more_than_a_store_can_have(sluice_bin, limit, keys, least_mib):
    done = subprocess.run([sluice_bin, "size", "--limit", limit, "--keys", str(keys)], capture_output=True, text=True,
                          timeout=120, check=True)
    *_, row, empty, last = done.stdout.splitlines()
    assert (empty, last) == ("", "no store is that large: it has 256GiB at most")
    assert int(re.match(rf"MiB for {keys} keys +(\d+)", row)[1]) > least_mib


def test_what_is_not_there_and_what_is_refused(sluice_bin):
    def run(*args):
        done = subprocess.run([sluice_bin, "size", *args], capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout, done.stderr
    status, out, _ = run("--limit", "100/day", "--limit", "100/1m", "--keys", "1000")
    assert status == 0 and re.search(r"^fixed-window 100/day at UTC +42 +150 +- +121  string$", out, re.M)
    assert re.search(r"^MiB for 1000 keys +1 +1 +- +1$", out, re.M)  # one has no script: the sum has none
    assert out.endswith("\nstore: {memory: 1MiB, blocks: 1%}\n")
    assert run()[0] == 2 and "which limits? --limit LIMIT" in run()[2]
    status, _, err = run("--limit", "100/1x")
    assert status == 2 and "column 6" in err
    assert run("--limit", "1/1s", "--keys", "0")[0] == 2
