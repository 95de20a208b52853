"""fixed-window and sliding-window (src/algo/window.c): for every window of 1 ms to 3660 d, quota, count, cost and
instant of 64 bits, the decision is the inequality of the contract; retry_after is exact to the ns; nothing overflows.
What a charge writes; of fixed-window also `remaining` and `reset_after`.

With k = floor(t / W), e = t mod W, and l the window of the last charge, whose counts are cur and prev:

    fixed-window                     sliding-window
    k = l     cur + c <= Q           prev (W - e) + (cur + c) W <= Q W
    k = l + 1       c <= Q           cur  (W - e) + c W <= Q W
    later           c <= Q           c W <= Q W"""
import itertools

import pytest
import z3

from csource import read
from execute import Struct, known
from limits import (COUNT_MAX, NEVER, Numbers, TIME_MAX, WINDOW_MAX, WINDOW_MIN, flag, inverse, limit_of,
                    pointer, whole)
from solve import monotone, prove, refuted, scaled, times
from summaries import WINDOWS, window_of

FILE = "src/algo/window.c"


# ---- the window of an instant ------------------------------------------------------------------------------------

def into_window(pins=None):
    def begin(run):
        n = Numbers(run, pins)
        W, t = n("W", WINDOW_MIN, WINDOW_MAX), n("t", 0, TIME_MAX)
        limit = limit_of("sliding-window", window_ns=W, derived=[0, 0, 0, 0, 0, inverse(run, W)])
        e = run.call("into_window", [pointer(limit), whole(t)]).term
        return W, t, e
    return begin


def inverse_hints(run):
    """floor((2^64 - 1) / W) = I times t, and floor(t I / 2^64) times W."""
    W, t = z3.Int("W"), z3.Int("t")
    lemmas = scaled(run, t) + scaled(run, W)
    for _, _, _, r in run.divisions.values():
        lemmas += monotone(t, r, W - 1) + monotone(W, r, 0, 2**64 - 1)
    return lemmas + monotone(W, t, 2**64 - 1)


def is_rest(run, result):
    """e = t - k W for a whole k, within 0..W-1: so it is t mod W."""
    W, t, e = result
    quotients = [each for _, _, q, r in run.divisions.values() for each in (q, r)]
    return [("e within the window", z3.And(e >= 0, e < W)),
            ("a whole number of windows below t", z3.Or(*(e == t - (q + i) * W for q in quotients for i in range(3))))]


def test_an_instant_is_divided_by_its_inverse():
    print(prove(read(FILE), into_window(), is_rest, inverse_hints))


# ---- deciding ----------------------------------------------------------------------------------------------------

class Scene:
    """A counter of any past, and a call."""

    def __init__(self, run, function, charge, pins):
        n = Numbers(run, pins)
        self.sliding = function == "sl_window_step"
        self.W, self.Q = n("W", WINDOW_MIN, WINDOW_MAX), n("Q", 1, COUNT_MAX)
        self.now, self.last = n("now", 0, TIME_MAX), n("last", 0, TIME_MAX)
        self.cur, self.prev = n("cur", 0, COUNT_MAX), n("prev", 0, COUNT_MAX)
        self.c = n("c", 0, 2**32)
        self.state = Struct("sl_state", {"w": [whole(self.last), whole(self.prev * 2**32 + self.cur)]})
        counter = Struct("sl_counter", {"state": self.state})
        decision = Struct("sluice_decision")
        limit = limit_of("sliding-window" if self.sliding else "fixed-window", window_ns=self.W, quota=self.Q,
                         calendar=0)
        run.call(function, [pointer(limit), pointer(counter), whole(self.now), whole(self.c), flag(charge),
                            pointer(decision)])
        self.run = run
        self.allowed, self.remaining, self.retry, self.reset = (
            run.load_field(decision, name).term
            for name in ("allowed", "remaining", "retry_after_ns", "reset_after_ns"))
        self.t = self.now if run.choose(self.now >= self.last) else self.last

    def admits(self, t, c):
        """The definition."""
        W, Q, cur, prev = self.W, self.Q, self.cur, self.prev
        (k, e), (l, _) = window_of(self.run, W, t), window_of(self.run, W, self.last)
        if self.sliding:
            same, next_ = prev * (W - e) + (cur + c) * W <= Q * W, cur * (W - e) + c * W <= Q * W
        else:
            same, next_ = cur + c <= Q, c <= Q
        return z3.And(z3.Implies(k == l, same), z3.Implies(k == l + 1, next_), z3.Implies(k >= l + 2, c <= Q))


def scene(function, charge=False, pins=None):
    return lambda run: Scene(run, function, charge, pins)


def numbers():
    return (z3.Int(name) for name in ("W", "Q", "cur", "prev", "c"))


def window_lemmas(run):
    """Which of two windows is the earlier one."""
    windows = [k for k, _ in run.windows]
    return monotone(z3.Int("W"), *windows, *(k + 1 for k in windows), 0)


def floors_of(run):
    return [q for n, d, q, r in run.divisions.values() if "*" in str(n) and not known(d)]


def hints(run):
    W, Q, cur, prev, c = numbers()
    rests, floors = [e for _, e in run.windows], floors_of(run)
    lemmas = window_lemmas(run)
    lemmas += monotone(W, *floors, Q - cur - c, Q - c, 0, prev, cur)
    for count in (prev, cur):
        lemmas += monotone(count, *(W - e for e in rests), *floors, W, 0)
    return lemmas


def is_true(truth):
    return z3.BoolVal(truth) if known(truth) else truth


def decides(run, s):
    return [("the decision is the inequality", z3.Implies(s.c > 0, is_true(s.allowed) == s.admits(s.t, s.c))),
            ("a cost of 0 is allowed", z3.Implies(s.c == 0, is_true(s.allowed)))]


def waits(run, s):
    """To the ns: at that instant and not one before."""
    if run.choose(s.allowed):
        claims = [("allowed, no wait", s.retry == 0)]
    elif run.choose(s.c > s.Q):
        claims = [("a cost above the quota never fits", s.retry == NEVER)]
    else:
        claims = [("a denial has a wait", z3.And(s.retry >= 1, s.retry < NEVER)),
                  ("it is admitted then", s.admits(s.t + s.retry, s.c)),
                  ("and not one ns before", z3.Not(s.admits(s.t + s.retry - 1, s.c)))]
    return claims


def remains(run, s):
    return [("remaining is admitted", z3.Implies(s.remaining > 0, s.admits(s.t, s.remaining))),
            ("and no more", z3.Not(s.admits(s.t, s.remaining + 1)))]


def resets(run, s):
    claims = [("the whole quota is back after reset", s.admits(s.t + s.reset, s.Q))]
    if run.choose(s.reset > 0):
        claims += [("and not one ns before", z3.Not(s.admits(s.t + s.reset - 1, s.Q)))]
    return claims


def charges(run, s):
    """What is written: the instant, and the counts moved on to its window, its own with the cost."""
    last, word = (each.term for each in s.state.fields["w"])
    if not run.choose(z3.And(is_true(s.allowed), s.c > 0)):
        return [("a denial writes nothing", z3.And(last == s.last, word == s.prev * 2**32 + s.cur))]
    (k, _), (l, _) = window_of(run, s.W, s.t), window_of(run, s.W, s.last)
    cur = s.cur if run.choose(k == l) else 0
    prev = 0 if not s.sliding else s.prev if cur is s.cur else s.cur if run.choose(k == l + 1) else 0
    return [("the instant", last == s.t), ("the counts", word == prev * 2**32 + cur + s.c),
            ("until nothing of it counts", s.t + s.reset == (k + (2 if s.sliding else 1)) * s.W)]


def remains_hints(run):
    """Little: of a claim that needs one line of reasoning z3 loses sight among many lemmas."""
    W, Q, cur, prev, _ = numbers()
    lemmas = window_lemmas(run) + monotone(W, *floors_of(run), Q, Q - cur, 0) + monotone(W, Q, COUNT_MAX)
    lemmas += times(W, cur)
    for count in (prev, cur):
        for e in (e for _, e in run.windows):
            lemmas += times(count, W - e) + monotone(W - e, count, 0)
    return lemmas


def resets_hints(run):
    """The end of the window, or of the next, and the ns before: 1 of a count's W parts is left there."""
    W, Q, cur, prev, _ = numbers()
    (_, e), lemmas = run.windows[-1], window_lemmas(run)
    for count in (prev, cur):
        lemmas += monotone(count, W - e, 0, 1) + monotone(W - e, count, 0)
    return lemmas + monotone(W, Q, Q - cur, 0)


CLAIMS = {"decides": (decides, False, hints), "waits": (waits, False, hints), "charges": (charges, True, hints),
          "remains": (remains, False, (remains_hints, hints)), "resets": (resets, False, (resets_hints, hints))}


@pytest.mark.parametrize("function,words", itertools.product(("sl_fixed_step", "sl_window_step"), CLAIMS))
def test_every_window(function, words):
    claims, charge, lemmas = CLAIMS[words]
    print(function, words, prove(read(FILE), scene(function, charge), claims, lemmas, WINDOWS))


# ---- mistakes ----------------------------------------------------------------------------------------------------

PINS = {"W": 10**6, "Q": 5, "cur": 3, "prev": 3}
MISTAKES = [
    ("sl_window_step", "decides", ("sl_div_ceil(sl_mul(w->prev", "sl_div(sl_mul(w->prev", 1)),
    ("sl_window_step", "decides", ("start - last <= limit", "start - last < limit", 1)),
    ("sl_fixed_step", "decides", ("last >= start", "last > start", 1)),
    ("sl_fixed_step", "decides", ("cost <= room", "cost < room", 1, "src/algo/algorithms.h")),
    ("sl_window_step", "waits", ("return window - w->e - sl_div(", "return window - w->e - sl_div_ceil(", 1)),
    ("sl_window_step", "waits", ("return 2 * window - w->e - sl_div(", "return 2 * window - w->e - sl_div_ceil(", 1)),
    ("sl_window_step", "waits", ("return window - w->e", "return 2 * window - w->e", 1)),
    ("sl_fixed_step", "waits", ("NEVER : limit->window_ns - w.e", "NEVER : limit->window_ns - w.e + 1", 1)),
    ("sl_fixed_step", "remains", ("quota > w.cur ? quota - w.cur", "quota > w.cur ? quota - w.cur - 1", 1)),
    ("sl_window_step", "remains", ("sl_div_ceil(sl_mul(w->prev", "sl_div(sl_mul(w->prev", 1)),
    ("sl_window_step", "remains", ("quota > used ? quota - used : 0", "quota > used ? quota - used - 1 : 0", 1)),
    ("sl_fixed_step", "resets", ("w.cur != 0 ? limit", "w.cur == 0 ? limit", 1)),
    ("sl_window_step", "resets", ("w.prev != 0 ? limit", "w.prev == 0 ? limit", 1)),
    ("sl_window_step", "resets", ("w.cur != 0 ? 2 *", "w.cur != 0 ? 1 *", 1)),
    ("sl_window_step", "charges", ("w->prev << 32 | (w->cur + cost)", "w->cur << 32 | (w->cur + cost)", 1)),
]


@pytest.mark.parametrize("function,words,mistake", MISTAKES)
def test_a_mistake_is_refuted(function, words, mistake):
    claims, charge, lemmas = CLAIMS[words]
    found = refuted(read(FILE, mistake), scene(function, charge, PINS), claims, lemmas, WINDOWS)
    print(mistake[:2], found)
    assert found


def test_a_wrong_division_is_refuted():
    for mistake in (("while (e >= limit->window_ns)", "while (e > limit->window_ns)", 1),
                    ("limit->derived[SL_WINDOW_INVERSE]) >> 64)", "limit->derived[SL_WINDOW_INVERSE]) >> 63)", 1)):
        found = refuted(read(FILE, mistake), into_window(PINS), is_rest, inverse_hints)
        print(mistake[:2], found)
        assert found
