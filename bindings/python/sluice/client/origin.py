"""What a client remembers of one origin's limits, and when its next request may go. No clock, no timer, no thread:
time is passed in (ms), and whoever drives this waits and locks. The same in JavaScript:
../../../node/client/origin.js; both are held to one list of cases, ../../../common/client/origin.json.

    in flight    at most `window` requests. It begins with START, and each success adds one: twice as many each time. A
                 denial makes it 1: after the wait one request knocks, and only if it is let in do more follow. From
                 then on a whole window of successes adds one, unless the server says that more than the window is
                 left.
    wait         what the server told (or, if it told nothing, BASE_MS doubled with each denial), and after it a jitter
                 of up to SPREAD of the wait, doubled with each denial in a row up to three times: never sooner than
                 told, and spread wider the more others wait as well. Denials of requests that were under way together
                 count as one.
    pace         what is left goes down with each request that is sent. Once it is below PACE_BELOW of the quota, the
                 next ones go `reset / left` apart; if nothing is left, none goes before the reset.
    too long     what asks for more than BELIEVED_MS_MAX is asked again after that, by one request: a server's slip of
                 the pen does not silence a client for a year.

docs/clients.md measures what SPREAD does to a herd.
"""

import math
import random as _random

START = 10
IN_FLIGHT_MAX = 1000
BASE_MS = 500
BACKOFF_MS_MAX = 60000
SPREAD = 0.5
SPREAD_DOUBLINGS_MAX = 3
SPREAD_MS_MIN = 100
SPREAD_MS_MAX = 600000
PACE_BELOW = 0.5
BELIEVED_MS_MAX = 3600000
DOUBLINGS_MAX = 16


def backoff(n):
    """How long to wait after the n-th failure in a row (from 1), if nobody says: doubled each time, in ms."""
    return min(BACKOFF_MS_MAX, BASE_MS * 2 ** (min(n, DOUBLINGS_MAX) - 1))


class Origin:
    """random: a function that gives a number of [0, 1)."""

    def __init__(self, random=_random.random, start=START, pace_below=PACE_BELOW, spread=SPREAD):
        self.random, self.pace_below, self.spread = random, pace_below, spread
        self.window = start
        self.in_flight = 0
        self.sequence = 0  # of the request that was sent last
        self.denials = 0  # in a row
        self.denied_up_to = 0  # requests up to this one were under way when the last denial came
        self.careful = False  # there was a denial
        self.blocked_until = 0
        self.left = None  # what the server said is left, less what has been sent since
        self.most = 0  # of what was said to be left: the quota, where none is told
        self.quota = 0
        self.reset_at = 0
        self.next_at = 0
        self.sent_at = 0
        self.learned = 0  # the newest request whose answer said what is left

    def ready_at(self, now):
        """The earliest instant at which a request may go; None while answers have to come first."""
        self._forget(now)
        if self.in_flight + 1 > self.window:
            return None
        return max(self.blocked_until, self.next_at)

    def _forget(self, now):
        """Once the reset has passed and nothing was left, one request finds out what is there now."""
        if self.left is None or self.left > 0 or now < self.reset_at:
            return
        self.window = 1
        self.left = None
        self.next_at = 0

    def sent(self, now):
        """A request goes now. Returns its ticket, which answered() or failed() takes back."""
        self.in_flight += 1
        self.sequence += 1
        self.sent_at = now
        if self.left is not None:
            self.left -= 1
            self._schedule(now)
        return self.sequence

    def answered(self, ticket, now, advice):
        """Its answer has come: advise()'s."""
        self.in_flight -= 1
        if advice.limited:
            self._denied(ticket, now, advice.wait_ms)
            return
        if ticket > self.denied_up_to:
            self.denials = 0
            sure = not self.careful or (advice.remaining is not None and advice.remaining > self.window)
            self.window = min(IN_FLIGHT_MAX, self.window + (1 if sure else 1 / self.window))
        if advice.remaining is not None and advice.reset_ms is not None and ticket > self.learned:
            self._learn(ticket, now, advice)

    def failed(self):
        """No answer will come."""
        self.in_flight -= 1

    def _denied(self, ticket, now, wait_ms):
        anew = ticket > self.denied_up_to
        if anew:
            self.denials = min(self.denials + 1, DOUBLINGS_MAX)
            self.denied_up_to = self.sequence
        self.careful = True
        self.window = 1
        self.left = None
        self.next_at = 0
        wait = min(BELIEVED_MS_MAX, backoff(self.denials) if wait_ms is None else wait_ms)
        self.blocked_until = max(self.blocked_until, now + wait + (self._jitter(wait) if anew else 0))

    def _jitter(self, wait):
        doublings = max(0, min(SPREAD_DOUBLINGS_MAX, self.denials - 1))
        spread = max(SPREAD_MS_MIN, wait * self.spread) * 2 ** doublings
        return math.floor(self.random() * min(SPREAD_MS_MAX, spread))

    def _learn(self, ticket, now, advice):
        self.learned = ticket
        self.left = advice.remaining - (self.sequence - ticket)
        self.most = max(self.most, advice.remaining)
        self.quota = self.most if advice.quota is None else advice.quota
        reset = min(BELIEVED_MS_MAX, advice.reset_ms)
        self.reset_at = now + reset + (self._jitter(reset) if self.left <= 0 else 0)
        self.next_at = 0
        self._schedule(now)

    def _schedule(self, now):
        """When the next one may go, by what is left now."""
        if self.left <= 0:
            self.next_at = max(self.next_at, self.reset_at)
        elif self.left < self.pace_below * self.quota and self.reset_at > now:
            self.next_at = self.sent_at + math.ceil((self.reset_at - now) / self.left)
