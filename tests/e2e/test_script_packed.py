"""What a front says as bytes to the script (hosts/server/cluster/command.c), beside the same call in words: each step
is done to two keys of one Redis, at one instant, and answers, errors and what is kept have to be the same."""
import os
import random
import re
import struct
import subprocess

import pytest
import redis

from harness import wait_until
from redis_world import Redis
from test_fleet import decides

SEED = int(os.environ.get("SLUICE_SEED", "1"))
KINDS = {"sliding-window": "W", "fixed-window": "F", "sliding-log": "L"}
WINDOWS = {"1ms": 1, "7ms": 7, "1s": 1000, "10s": 10000, "1m": 60000, "90m": 5400000, "30d": 2592000000,
           "3660d": 316224000000}
QUOTAS = [1, 2, 3, 10, 100, 28000, 4294967295]
FRONT = """limits:
  - {name: each, key: user, limit: 3/1h, strict: true, on-error: deny}
  - {name: tokens, key: ip, limit: token-bucket 10/1h, strict: true, on-error: deny}
"""
COSTS = [0, 1, 1, 1, 1, 2, 3, 11, 4294967295]


def packed(word, cost, limit, name=None):
    kind, quota, window = re.fullmatch(r"(\S+) (\d+)/(\w+)", limit).groups()
    field = (KINDS[kind] + str(WINDOWS[window]) + ("@" + name if name else "")).encode()
    return struct.pack("<BcIIdB", word == "CHECK", KINDS[kind].encode(), cost, int(quota), WINDOWS[window],
                       len(field)) + field


def in_words(word, cost, limit, name=None):
    return [word, cost, "EXACT", *(["NAME", name] if name else []), limit]


class Pair:
    """A script whose clock stands where the test sets it, and two keys: one asked in words, one as bytes."""

    def __init__(self, sluice_bin, host):
        self.client = redis.Redis(host="127.0.0.1", port=host.port)
        with open(os.path.join(os.path.dirname(sluice_bin), "sluice-eval.lua"), encoding="ascii") as f:
            text, self.as_bytes = f.read(), 0
        assert "redis.call('TIME')" in text and "not now and ttl > 0" in text
        # A log reads the time off its key's expiry, too, which is the server's.
        text = text.replace("redis.call('TIME')", "redis.call('MGET', 'now:s', 'now:us')")
        self.sha = self.client.script_load(text.replace("not now and ttl > 0", "false"))
        self.now = int(self.client.time()[0]) * 1000
        self.client.flushall()
        self.set_clock(0)

    def set_clock(self, more_ms):
        self.now += more_ms
        self.client.mset({"now:s": self.now // 1000, "now:us": self.now % 1000 * 1000})

    def ask(self, key, *words):
        try:
            return self.client.execute_command("EVALSHA", self.sha, 1, key, *words)
        except redis.ResponseError as error:
            return str(error)

    def both(self, *words):
        """The same words to both keys."""
        assert self.ask("in words", *words) == self.ask("as bytes", *words)

    def step(self, word, cost, limit, name=None):
        told = self.ask("in words", *in_words(word, cost, limit, name))
        got = self.ask("as bytes", packed(word, cost, limit, name))
        if isinstance(got, bytes):
            allowed, quota, room, retry, reset, after, over = struct.unpack("<BIIdddI", got)
            self.as_bytes += 1
            got = [[allowed, quota, room, retry, reset, 0, after, over]]
        assert got == told, (word, cost, limit, name, self.now)
        assert self.kept("in words") == self.kept("as bytes"), (word, cost, limit, name, self.now)
        return got

    def kept(self, key):
        if self.client.type(key) != b"hash":
            return self.client.type(key)
        return self.client.hgetall(key), self.client.execute_command("PEXPIRETIME", key)


@pytest.fixture(scope="module")
def host():
    one = Redis(module=None)
    yield one
    one.stop()


@pytest.fixture
def pair(host, sluice_bin):
    return Pair(sluice_bin, host)


def test_random_calls(pair):
    dice = random.Random(SEED)
    steps = 1500
    for _ in range(steps):
        kind, window = dice.choice(list(KINDS)), dice.choice(list(WINDOWS))
        quota = dice.choice(QUOTAS)
        if quota * WINDOWS[window] >= 2**53:  # a front says these in words
            quota = 28000
        limit = f"{kind} {quota}/{window}"
        name = dice.choice([None, "each", "a@b"])
        draw = dice.random()
        if draw < 0.04:
            pair.both("HOLD", dice.choice([1, 2]), "%016x" % dice.randrange(3), 1000,
                      *(["NAME", name] if name else []), limit)
        elif draw < 0.08:
            pair.both("REFUND", 1, *(["NAME", name] if name else []), limit)
        elif draw < 0.1:
            pair.both("RESET", *(["NAME", name] if name else []), limit)
        pair.step(dice.choice(["CHECK", "CHECK", "CHECK", "PEEK"]), dice.choice(COSTS), limit, name)
        pair.set_clock(dice.choice([0, 0, 0, 1, 1, 5, 400, 1000, 30000, -3]))
    assert pair.as_bytes > steps / 2  # the rest is what the straight way leaves


@pytest.mark.parametrize("limit,field", [("sliding-window 10/1m", "W60000@n"), ("sliding-log 10/1m", "L60000@n")])
def test_errors(pair, limit, field):
    for key in ("in words", "as bytes"):
        pair.client.hset(key, field, "damaged")
    assert "damaged counter" in str(pair.step("CHECK", 1, limit, "n"))
    for key in ("in words", "as bytes"):
        pair.client.set(key, "another type")
    assert "WRONGTYPE" in str(pair.step("CHECK", 1, limit, "n"))
    assert pair.as_bytes == 0


@pytest.mark.parametrize("kind, quota, window, told", [
    (b"Z", 5, 60000, "Z"), (b"\0", 5, 60000, "expected"), (b"W", 5, float("nan"), "window"), (b"W", 5, 0, "duration"),
    (b"W", 5, -1, "window"), (b"L", 5, float("inf"), "window")])
def test_what_no_front_says_changes_nothing(pair, kind, quota, window, told):
    """Whoever may call scripts may say any bytes."""
    said = struct.pack("<BcIIdB", 1, kind, 1, quota, window, 6) + b"W60000"
    answer = pair.ask("as bytes", said)
    assert isinstance(answer, str) and told in answer, answer
    assert not pair.client.exists("as bytes")


def test_bytes_that_were_cut_short_are_no_command(pair):
    whole = packed("CHECK", 1, "sliding-window 10/1m", "n")
    for said in [whole[:n] for n in range(1, len(whole))] + [whole + b"n"]:
        answer = pair.ask("as bytes", said)
        assert isinstance(answer, str) and "expected a command as the first argument: CHECK" in answer, (said, answer)
    assert not pair.client.exists("as bytes")
    assert isinstance(pair.ask("as bytes", whole), bytes)


def test_a_locale_that_sorts_control_characters_away(sluice_bin, tmp_path, monkeypatch):
    """Redis takes the order of strings from its environment, and so does Lua in it."""
    subprocess.run(["localedef", "-i", "en_US", "-f", "UTF-8", tmp_path / "en_US.UTF-8"], check=True,
                   stdout=subprocess.DEVNULL)
    monkeypatch.setenv("LOCPATH", str(tmp_path))
    monkeypatch.setenv("LC_ALL", "en_US.UTF-8")
    host = Redis(module=None)
    try:
        pair = Pair(sluice_bin, host)
        pair.step("CHECK", 1, "sliding-window 10/1m", "n")
        pair.step("PEEK", 1, "sliding-window 10/1m", "n")
        assert pair.as_bytes == 2
    finally:
        host.stop()


def test_where_there_is_no_memory(pair):
    pair.client.config_set("maxmemory", "1")
    try:
        assert pair.step("CHECK", 1, "sliding-window 10/1m", "n")[0][0] == 4  # a bound: no room
    finally:
        pair.client.config_set("maxmemory", "0")


def test_a_front_says_its_checks_as_bytes(server, host):
    client = redis.Redis(host="127.0.0.1", port=host.port)
    client.flushall()
    client.config_set("slowlog-max-len", 1000)
    client.config_set("slowlog-log-slower-than", 0)
    one = server(policy=f'store: {{redis: "127.0.0.1:{host.port}", via: script, budget: 5s}}\n' + FRONT)
    wait_until(lambda: decides(one), "no node answers")
    client.slowlog_reset()
    with one.resp() as r:
        answers = [r.call("SLUICE.ADMIT", 1, "user", "ann") for _ in range(4)]
        both = r.call("SLUICE.ADMIT", 1, "user", "ann", "ip", "192.0.2.7")
    client.config_set("slowlog-log-slower-than", -1)
    assert [a[:3] for a in answers] == [[1, 3, 2], [1, 3, 1], [1, 3, 0], [0, 3, 0]] and both[0] == 0
    said = [entry["command"] for entry in client.slowlog_get(1000) if entry["command"].startswith(b"EVALSHA")]
    assert sum(b"\x01W\x01\x00\x00\x00\x03" in words for words in said) >= 4
