"""The node of the simulated fleet (tests/sim) is held against a real redis-server with the module: the same calls, at
the same instants, and every reply the same to the last byte; and what nodes of a cluster say of slots that are
elsewhere.

The calls are drawn from a seed, which is printed: SLUICE_SEED sets another, SLUICE_OPS how many there are."""

import os
import random
import re
import subprocess

import pytest

from cluster import Cluster, module_beside, slot_of
from harness import ROOT, encode
from redis_world import Clock, Redis

SEED = int(os.environ.get("SLUICE_SEED", "20261124"))
CALLS = max(300, int(os.environ.get("SLUICE_OPS", "1000000")) // 400)
BEGIN_MS = 1_800_000_000_000
LIMITS = ["sliding-log 5/2s", "sliding-window 7/3s", "fixed-window 9/1s", "token-bucket 4/1s burst 6",
          "leaky-bucket 3/1s queue 4", "sliding-buckets 8/2s precision 250ms", "sliding-log 100/1m"]


def simulated(sluice_bin, lines):
    program = os.path.join(os.path.dirname(sluice_bin), "tests", "sim", "fleet_test")
    if not os.path.exists(program):
        subprocess.run(["make", "--no-print-directory", os.path.relpath(program, ROOT)], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL)
    done = subprocess.run([program, "--answers"], input="\n".join(lines) + "\n", text=True, stdout=subprocess.PIPE,
                          check=True, timeout=120)
    return [bytes.fromhex(line) for line in done.stdout.splitlines()]


def item(dice, keys):
    key = dice.choice(keys)
    name = ["NAME", "n%d" % dice.randrange(3)] if dice.random() < 0.5 else []
    return key, name + [dice.choice(LIMITS)]


def a_call(dice):
    """Words of one call, as fronts send them."""
    keys = ["k%d" % k for k in range(4)]
    verb = dice.choice(["CHECK", "CHECK", "CHECK", "PEEK", "REFUND", "RESET", "HOLD", "CONFIRM", "CANCEL", "LEASE"])
    key, words = item(dice, keys)
    cost, identity = str(dice.choice([0, 1, 1, 1, 2, 3, 9])), "%x" % dice.randrange(1, 5)
    head = {"RESET": [], "HOLD": [cost, identity, str(dice.choice([1, 50, 900]))], "CONFIRM": [cost, identity],
            "CANCEL": [identity], "LEASE": [identity, str(dice.choice([20, 500])), str(dice.randrange(4)), cost]}
    said = ["SLUICE." + verb, key] + head.get(verb, [cost])
    if verb == "HOLD" and dice.random() < 0.5:
        said.append("UPTO")
    elif verb == "CONFIRM" and dice.random() < 0.5:
        said.append("KEEP")
    elif verb in ("CHECK", "PEEK") and dice.random() < 0.3:
        said.append(dice.choice(["EACH", "NEXT"]))
    for _ in range(0 if verb == "LEASE" else dice.choice([0, 0, 1, 2])):
        other, more = item(dice, keys)
        words += ["KEY", other] + more
    return said + words


@pytest.fixture
def real():
    clock = Clock()
    clock.stand_all(BEGIN_MS)
    server = Redis(clock=clock)
    yield server, clock
    server.stop()
    clock.close()


def raw(client, words):
    """The reply to its bytes, as it came."""
    client.send(encode(*words))
    before, whole = client.buffer, b""
    assert not before
    fill = client._fill

    def filling():
        nonlocal whole
        had = len(client.buffer)
        fill()
        whole += client.buffer[had:]
    client._fill = filling
    client.read()
    client._fill = fill
    assert not client.buffer
    return whole


def test_the_same_calls_get_the_same_replies(real, sluice_bin):
    server, clock = real
    dice, now = random.Random(SEED), BEGIN_MS
    print(f"seed {SEED}, {CALLS} calls")
    lines, expected = [f"clock {now}"], []
    with server.resp() as client:
        for _ in range(CALLS):
            if dice.random() < 0.5:
                now += dice.choice([1, 3, 40, 700, 2500])
                clock.stand_all(now)
                lines.append(f"clock {now}")
            words = a_call(dice)
            lines.append(" ".join(word.replace(" ", "~") for word in words))
            expected.append(raw(client, words))
    answers = simulated(sluice_bin, lines)
    calls = [line for line in lines if not line.startswith("clock")]
    for line, wanted, got in zip(calls, expected, answers, strict=True):
        assert got == wanted, line
