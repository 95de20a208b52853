"""A slow machine, for tests that must not depend on a fast one: before it connects, sends, receives or starts a
program, a test sleeps for a time that is drawn: usually none, now and then 0.2 to SLUICE_DELAYS seconds.

    SLUICE_DELAYS=1.2 SLUICE_SEED=7 python3 -m pytest tests/e2e/test_x.py

The draws of a test depend on the seed and on its name, so a test alone is delayed as it is among all. Every client of
the tests is built on the standard library's sockets, which are made slow here, but gRPC's, which asks by itself. What
is delayed gets rarer within a test, or one that sends 10,000 requests would take an hour: of N about 5 x ln(1 + N/32),
and 2 x in each test of a table.
"""

import os
import random
import socket
import ssl
import subprocess
import threading
import time

SECONDS = float(os.environ.get("SLUICE_DELAYS", "0"))
SEED = os.environ.get("SLUICE_SEED") or str(random.SystemRandom().randrange(1, 1 << 31))
SHORTEST_S = 0.2


class _State:
    test, dice, asked, slept = None, None, 0, []
    lock = threading.Lock()


def _draw():
    """How long to sleep now. The name of a test stands in the environment, with its folder and its phase around it."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0].rpartition("/")[2]
    with _State.lock:
        if test != _State.test:
            _State.test, _State.dice, _State.asked = test, random.Random(f"{SEED} {test}"), 0
        _State.asked += 1
        if _State.dice.random() > (2 if "[" in test else 5) / (32 + _State.asked):
            return 0
        _State.slept.append(_State.dice.uniform(min(SHORTEST_S, SECONDS), SECONDS))
        return _State.slept[-1]


def delay():
    if SECONDS > 0:
        time.sleep(_draw())


def _slow(of, name):
    real = getattr(of, name)

    def call(*arguments, **named):
        delay()
        return real(*arguments, **named)
    setattr(of, name, call)


def told():
    return f"SLUICE_DELAYS={SECONDS:g} SLUICE_SEED={SEED}: {len(_State.slept)} delays, {sum(_State.slept):.1f} s"


if SECONDS > 0:
    for kind in (socket.socket, ssl.SSLSocket):
        for name in ("connect", "send", "sendall", "recv"):
            _slow(kind, name)
    _slow(subprocess.Popen, "__init__")
