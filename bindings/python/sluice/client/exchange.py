"""Sends a request until an answer stands, or nothing more may be tried: what all adapters have in common.

An adapter gives an Exchange: how to send, and how to read and discard what comes back. Client drives it for threads,
and for asyncio by the same rules (Attempts).
"""

import asyncio
import collections
import math
import random as _random
import threading
import time
from urllib.parse import urlsplit

from .advice import advise
from .gate import AsyncGate, Gate, RateLimitedError
from .origin import PACE_BELOW, Origin, backoff

IDEMPOTENT = frozenset(["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"])
TRANSIENT = frozenset([502, 503, 504])
ORIGINS_MAX = 1024
SLEEP_S_MAX = 86400.0


class Clock:
    """The system's. Tests give another one, with the same methods."""

    def now(self):
        """ms since 1970."""
        return int(time.time() * 1000)

    def sleep(self, ms):
        time.sleep(ms / 1000)

    def wait(self, condition, ms):
        """Waits on a condition that is held, for ms (math.inf: for ever)."""
        condition.wait(min(ms / 1000, SLEEP_S_MAX))

    async def sleep_async(self, ms):
        await asyncio.sleep(ms / 1000)

    async def wait_async(self, event, ms):
        try:
            await asyncio.wait_for(event.wait(), min(ms / 1000, SLEEP_S_MAX))
        except asyncio.TimeoutError:
            pass


def origin_of(url, method):
    """The default group: scheme, host and port."""
    parts = urlsplit(url)
    return "%s://%s" % (parts.scheme, parts.netloc.rpartition("@")[2])


class Exchange:
    """One request, as an adapter knows it.

    send     a function of (seconds left or None) that sends it and returns a response; a coroutine function for asyncio
    read     a function from a response to (status, get), get being a function from a field's name to its value
    discard  closes a response that is not the last
    errors   what is raised where no answer came: it is tried again
    body     whether its body can be sent again
    """

    def __init__(self, method, url, headers, send, read, discard, errors, body=True, idempotent=None):
        self.method, self.url, self.send, self.read, self.discard = method.upper(), url, send, read, discard
        self.errors = errors
        told = self.method in IDEMPOTENT or bool(headers.get("Idempotency-Key"))
        self.repeatable = body and (told if idempotent is None else idempotent)


class _Attempts:
    """The rules of trying again, for one exchange."""

    def __init__(self, client, exchange, gate):
        self.client, self.exchange, self.gate, self.count = client, exchange, gate, 0
        self.status = self.error = None  # of the last try
        self.started = client.clock.now()
        self.deadline = self.started + client.budget * 1000

    def begin(self):
        self.count += 1
        self.last = not self.exchange.repeatable or self.count >= self.client.attempts

    def seconds_left(self):
        left = (self.deadline - self.client.clock.now()) / 1000
        return None if math.isinf(left) else max(0.001, left)

    def advice(self, response):
        self.status, get = self.exchange.read(response)
        self.error = None
        return advise(self.status, get, self.client.clock.now())

    def too_late(self, refusal):
        """What is raised where the gate refuses to wait: the error of the last try, or what the gate says."""
        refusal.status = self.status
        return refusal if self.error is None else self.error

    def after_error(self, error):
        """How long to wait after an error; None where it stands."""
        self.status, self.error = None, error
        wait = self.backoff()
        return None if self.last or self.client.clock.now() + wait >= self.deadline else wait

    def after(self, advice):
        """How long to wait before the next try, beside what the gate asks for; None where the answer stands."""
        transient = not advice.limited and self.status in TRANSIENT
        if self.last or not (advice.limited or transient):
            return None
        now = self.client.clock.now()
        wait = max(advice.wait_ms or 0, self.backoff()) if transient else 0
        return None if now + max(wait, self.gate.ready_in()) >= self.deadline else wait

    def backoff(self):
        """Full jitter over a wait that doubles: these failures are nobody's limit, so there is no instant to keep."""
        return math.ceil(self.client.random() * backoff(self.count))


class Client:
    """A memory of origins, and the rules by which requests are sent to them.

    budget      seconds: waits and requests together; math.inf is allowed
    attempts    how often a request is sent at most
    idempotent  may requests be sent more than once? None: GET, HEAD, OPTIONS, TRACE, PUT, DELETE and what has an
                Idempotency-Key. A body that can't be read twice is sent once, whatever this says
    pace        spend what is left at the rate at which it comes back, once less than half is left
    group       a function of (url, method): requests of one group share one memory; the origin if left out
    on_wait     is called with (origin, ms) when a request has to wait
    clock, random  for tests
    """

    def __init__(self, budget=60.0, attempts=5, idempotent=None, pace=True, group=origin_of, on_wait=None, clock=None,
                 random=_random.random):
        if not budget >= 0:
            raise ValueError("budget is seconds, or math.inf; got %r" % (budget,))
        if not attempts >= 1:
            raise ValueError("attempts is at least 1; got %r" % (attempts,))
        self.budget, self.attempts, self.idempotent, self.pace = budget, attempts, idempotent, pace
        self.group, self.on_wait, self.clock, self.random = group, on_wait, clock or Clock(), random
        self.gates = collections.OrderedDict()
        self.lock = threading.Lock()

    def gate(self, exchange, kind):
        """The gate of an origin: made on first use; of more than ORIGINS_MAX one that was used longest ago and is idle
        goes. asyncio's gates are apart: of each loop its own."""
        name = self.group(exchange.url, exchange.method)
        key = (name, id(asyncio.get_running_loop()) if kind is AsyncGate else None)
        with self.lock:
            gate = self.gates.get(key)
            if gate is None:
                if len(self.gates) >= ORIGINS_MAX:
                    idle = next((k for k, g in self.gates.items() if g.is_idle()), None)
                    self.gates.pop(idle, None)
                origin = Origin(random=self.random, pace_below=PACE_BELOW if self.pace else 0)
                gate = self.gates[key] = kind(name, origin, self.clock)
            self.gates.move_to_end(key)
        return gate

    def send(self, exchange):
        """Sends until an answer stands; raises the last error, or RateLimitedError where it may not be sent (again)."""
        gate = self.gate(exchange, Gate)
        attempts = _Attempts(self, exchange, gate)
        while True:
            attempts.begin()
            try:
                ticket = gate.enter(attempts.started, attempts.deadline, self.on_wait)
            except RateLimitedError as refusal:
                raise attempts.too_late(refusal)
            try:
                response = exchange.send(attempts.seconds_left())
            except BaseException as error:
                gate.failed()
                wait = attempts.after_error(error) if isinstance(error, exchange.errors) else None
                if wait is None:
                    raise
            else:
                advice = attempts.advice(response)
                gate.answered(ticket, advice)
                wait = attempts.after(advice)
                if wait is None:
                    return response
                exchange.discard(response)
            if wait:
                self.clock.sleep(wait)

    async def send_async(self, exchange):
        """The same in asyncio."""
        gate = self.gate(exchange, AsyncGate)
        attempts = _Attempts(self, exchange, gate)
        while True:
            attempts.begin()
            try:
                ticket = await gate.enter(attempts.started, attempts.deadline, self.on_wait)
            except RateLimitedError as refusal:
                raise attempts.too_late(refusal)
            try:
                response = await exchange.send(attempts.seconds_left())
            except BaseException as error:
                gate.failed()
                wait = attempts.after_error(error) if isinstance(error, exchange.errors) else None
                if wait is None:
                    raise
            else:
                advice = attempts.advice(response)
                gate.answered(ticket, advice)
                wait = attempts.after(advice)
                if wait is None:
                    return response
                await exchange.discard(response)
            if wait:
                await self.clock.sleep_async(wait)
