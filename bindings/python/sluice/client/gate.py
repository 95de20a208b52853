"""The door of one origin: requests stand in a line by age, and go when the origin (origin.py) says that one may.

Two faces: Gate for threads, AsyncGate for asyncio. Only the first in line looks at the clock; the others are woken when
they have become the first, or when the wait has become longer than their deadline.
"""

import asyncio
import math
import threading


class RateLimitedError(Exception):
    """The request was not sent, or not again: it is known that its origin asks for a longer wait than the budget.

    origin          who asks for it
    retry_after_ms  after which it may be asked again, as it was known
    status          of the answer that it got when it was sent, which is closed; None: it was never sent
    """

    def __init__(self, origin, retry_after_ms):
        super().__init__("%s can't be asked within the budget: its limit asks for %d ms" % (origin, retry_after_ms))
        self.origin, self.retry_after_ms, self.status = origin, retry_after_ms, None


class _Line:
    """Who waits, the oldest first: [started, deadline] each."""

    def __init__(self, name, origin, clock):
        self.name, self.origin, self.clock, self.waiting = name, origin, clock, []
        self.soonest = math.inf  # no deadline in the line is sooner

    def join(self, one):
        at = len(self.waiting)
        while at > 0 and self.waiting[at - 1].started > one.started:
            at -= 1
        self.waiting.insert(at, one)
        self.soonest = min(self.soonest, one.deadline)

    def turn(self, one):
        """A ticket; or how many ms to wait before asking again (math.inf: until woken). Raises where it is too late."""
        now = self.clock.now()
        at = self.origin.ready_at(now)
        if at is not None and at > one.deadline or now >= one.deadline:
            raise RateLimitedError(self.name, max(0, (now if at is None else at) - now))
        if self.waiting[0] is not one:
            return None, one.deadline - now
        if at is None or at > now:
            return None, min(math.inf if at is None else at - now, one.deadline - now)
        return self.origin.sent(now), 0

    def is_idle(self):
        return not self.waiting and self.origin.in_flight == 0 and self.ready_in() == 0

    def ready_in(self):
        """ms until the next one may go; 0 also where answers come first."""
        now = self.clock.now()
        at = self.origin.ready_at(now)
        return 0 if at is None else max(0, at - now)


class _One:
    __slots__ = ("started", "deadline", "woken")

    def __init__(self, started, deadline, woken=None):
        self.started, self.deadline, self.woken = started, deadline, woken


class Gate(_Line):
    """For threads. Any thread."""

    def __init__(self, name, origin, clock):
        super().__init__(name, origin, clock)
        self.changed = threading.Condition()

    def enter(self, started, deadline, on_wait=None):
        """Waits for its turn, and returns a ticket."""
        one = _One(started, deadline)
        with self.changed:
            self.join(one)
            try:
                while True:
                    ticket, wait_ms = self.turn(one)
                    if ticket is not None:
                        return ticket
                    if on_wait is not None:
                        on_wait(self.name, self.ready_in())
                        on_wait = None
                    self.clock.wait(self.changed, wait_ms)
            finally:
                self.waiting.remove(one)
                self.changed.notify_all()

    def answered(self, ticket, advice):
        with self.changed:
            self.origin.answered(ticket, self.clock.now(), advice)
            self.changed.notify_all()

    def failed(self):
        with self.changed:
            self.origin.failed()
            self.changed.notify_all()


class AsyncGate(_Line):
    """For the tasks of one event loop."""

    async def enter(self, started, deadline, on_wait=None):
        """Waits for its turn, and returns a ticket."""
        one = _One(started, deadline, asyncio.Event())
        self.join(one)
        try:
            while True:
                one.woken.clear()
                ticket, wait_ms = self.turn(one)
                if ticket is not None:
                    return ticket
                if on_wait is not None:
                    on_wait(self.name, self.ready_in())
                    on_wait = None
                await self.clock.wait_async(one.woken, wait_ms)
        finally:
            self.waiting.remove(one)
            self.wake()

    def wake(self):
        """The first in line, to go; all others, to see whether it has become too late for them."""
        if self.waiting:
            self.waiting[0].woken.set()
        at = self.ready_in() + self.clock.now()
        if self.soonest >= at:
            return
        for one in self.waiting:
            if one.deadline < at:
                one.woken.set()
        self.soonest = min((one.deadline for one in self.waiting if one.deadline >= at), default=math.inf)

    def answered(self, ticket, advice):
        self.origin.answered(ticket, self.clock.now(), advice)
        self.wake()

    def failed(self):
        self.origin.failed()
        self.wake()
