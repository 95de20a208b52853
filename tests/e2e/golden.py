"""The golden files of tests/golden: how commands and replies are written down, and how each kind of file is read by the
program that is built here. tests/golden/make.py makes them, test_golden.py reads them."""

import contextlib
import json
import lzma
import os
import subprocess

from harness import ROOT, RespError, Server, encode
from redis_world import FIXED, Redis, built, keys_of

FOLDER = os.path.join(ROOT, "tests", "golden")
SCRIPT = "sluice-client-time.lua"  # the one that takes AT
POLICY = """\
store: {file: STORE, memory: 4MiB}
client-time: true
threads: 1
limits:
  - name: login
    when: {path: /golden}
    key: user
    limit: sliding-log 5/1m
    penalty: "[1h, 3h] after 2 denials in 1m forgive 1d"
  - name: metered
    when: {path: /metered}
    key: user
    limit: token-bucket 60/1m burst 100
    overrides:
      - {when: {plan: pro}, limit: token-bucket 6000/1m burst 100}
  - name: counted
    when: {path: /golden}
    key: user
    limit: 10/1h
    count-denied: true
  - name: at-a-time
    when: {path: /work}
    key: user
    limit: concurrency 100 lease 1h
  - name: tokens
    when: {path: /work}
    key: user
    limit: sliding-log 1000/1h
    reserve: {ttl: 1h}
"""


# ---- commands and replies --------------------------------------------------------------------------------------------

def at(ms, *words):
    """A command at an instant."""
    first = 2 + FIXED[words[0].partition(".")[2]]
    return [*words[:first], "AT", ms, *words[first:]]


def plain(value):
    """A reply as JSON has it: bytes as text, each byte one character; an error is its text."""
    if isinstance(value, RespError):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return [plain(one) for one in value] if isinstance(value, list) else value


def same(one, other):
    """Errors are the same by their first word: how they are put may get better."""
    if isinstance(one, str) and isinstance(other, str):
        return one.split(" ")[0] == other.split(" ")[0]
    return one == other


def ask_by(client, script=False):
    """A function that gives a command to a server or a module, or to the script's functions."""
    def ask(words):
        if script:
            keys = keys_of(words)
            words = ["FCALL", words[0].lower().replace(".", "_"), len(keys), *keys, *words[2:]]
        client.send(encode(*[word.encode("latin-1") if isinstance(word, str) else word for word in words]))
        return client.read()
    return ask


# ---- files -----------------------------------------------------------------------------------------------------------

def read_bytes(path):
    with open(path, "rb") as f:
        return f.read()


def write_bytes(path, data):
    with open(path, "wb") as f:
        f.write(data)


def pack(commit, name, data):
    write_bytes(os.path.join(FOLDER, commit, name + ".xz"), lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))


def unpack(commit, name):
    with lzma.open(os.path.join(FOLDER, commit, name + ".xz")) as f:
        return f.read()


def write_answers(commit, name, answers):
    """`asked` a row a line; a row is a command, its reply then, and its reply now where that is another."""
    head = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in answers.items() if key != "asked")
    rows = ",\n".join("  " + json.dumps(row) for row in answers["asked"])
    pack(commit, name, ("{\n" + head + ' "asked": [\n' + rows + "\n ]\n}\n").encode())


def read_answers(commit, name):
    return json.loads(unpack(commit, name))


# ---- reading each kind: with ... as ask ------------------------------------------------------------------------------

@contextlib.contextmanager
def served(binary, answers, path):
    one = Server(binary, answers["policy"].replace("STORE", path))
    try:
        with one.resp() as client:
            yield ask_by(client)
    finally:
        one.stop()


@contextlib.contextmanager
def open_store(binary, answers, data, folder):
    path = os.path.join(folder, "counters")
    write_bytes(path, data)
    with served(binary, answers, path) as ask:
        yield ask


@contextlib.contextmanager
def open_dump(binary, answers, data, folder):
    path = os.path.join(folder, "counters")
    done = subprocess.run([binary, "store", "load", path], input=data, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    with served(binary, answers, path) as ask:
        yield ask


@contextlib.contextmanager
def asked_of(redis, script=False):
    try:
        with redis.resp() as client:
            yield ask_by(client, script)
    finally:
        redis.stop()


@contextlib.contextmanager
def open_rdb(data):
    redis = Redis()
    redis.end()
    write_bytes(redis.path("dump.rdb"), data)
    redis.start()
    with asked_of(redis) as ask:
        yield ask


@contextlib.contextmanager
def open_aof(data):
    redis = Redis(options=["--appendonly", "yes"])
    redis.end()
    write_bytes(redis.path("appendonlydir", "appendonly.aof.1.incr.aof"), data)
    redis.start()
    with asked_of(redis) as ask:
        yield ask


@contextlib.contextmanager
def open_effects(data):
    """What an append-only file has is what replicas are sent; here it comes from a client that may send it."""
    redis = Redis(module=("client-time", "yes", "client-effects", "yes"))
    with redis.resp() as client:
        client.send(data + encode("PING"))
        replies = []
        while not replies or replies[-1] != b"PONG":
            replies.append(client.read())
        assert len(replies) > 100 and not any(isinstance(reply, RespError) for reply in replies), replies
    with asked_of(redis) as ask:
        yield ask


@contextlib.contextmanager
def open_hashes(answers):
    redis = Redis(module=None)
    with redis.resp() as client:
        client.call("FUNCTION", "LOAD", read_bytes(built(SCRIPT)))
        for key, value in answers["hashes"].items():
            pairs = [text.encode("latin-1") for pair in value["fields"].items() for text in pair]
            client.call("HSET", key.encode("latin-1"), *pairs)
            client.call("PEXPIREAT", key.encode("latin-1"), value["expires"])
    with asked_of(redis, script=True) as ask:
        yield ask
