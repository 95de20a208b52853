"""What goes back to fixed-window and sliding-window (src/algo/window.c): refunds, and corrections of charges whose true
cost came later. For every window, quota, count, cost and instant, and for windows of the calendar wherever those begin:

    a refund takes min(cost, what counts) from the newest first; the instant, and what does not count, stay
    at each instant after it, it has made as much room as it took or, where that counted in part, less
    a correction changes the count of the window in which it was charged, down to 0 and up to 2^32 - 1 at most
    a charge that is corrected leaves the counter as a charge of the true cost would have, whatever came after it

docs/limits.md promises that bounds hold net of refunds. A stretch of W touches two windows, whose counts are the two of
the state: each is at most Q, and together at most 2Q - 1 of sliding-window. Each charge and each refund keeps that."""
import itertools

import pytest
import z3

from csource import read
from execute import Struct, Val
from limits import COUNT_MAX, Numbers, TIME_MAX, U32, WINDOW_MAX, WINDOW_MIN, flag, limit_of, pointer, whole
from solve import monotone, prove, refuted, times
from summaries import WINDOWS, fitting, window_of
from test_windows import is_true, window_lemmas

FILE = "src/algo/window.c"
KINDS = ("sliding-window", "fixed-window")
DATED = "fixed-window of the calendar"


class Counter:
    """A counter of any past."""

    def __init__(self, run, kind, pins):
        self.run, self.n, run.spans = run, Numbers(run, pins), []
        self.sliding, self.dated = kind == "sliding-window", kind == DATED
        self.W, self.Q = self.n("W", WINDOW_MIN, WINDOW_MAX), self.n("Q", 1, COUNT_MAX)
        self.last, self.now = self.n("last", 0, TIME_MAX), self.n("now", 0, TIME_MAX)
        self.cur, self.prev = self.n("cur", 0, COUNT_MAX), self.n("prev", 0, COUNT_MAX)
        self.limit = limit_of("sliding-window" if self.sliding else "fixed-window", window_ns=self.W, quota=self.Q,
                              calendar=int(self.dated))
        self.counter = self.standing()

    def standing(self):
        word = self.prev * 2**32 + self.cur
        return Struct("sl_counter", {"state": Struct("sl_state", {"w": [whole(self.last), whole(word)]})})

    def call(self, function, *arguments, counter=None):
        return self.run.call(function, [pointer(self.limit), pointer(counter or self.counter), *arguments])

    def state(self, counter=None):
        """The instant, and the counts."""
        last, word = (each.term for each in (counter or self.counter).fields["state"].fields["w"])
        return (last, *reversed(self.run.divide(word, 2**32)))

    def later(self, t):
        return t if self.run.choose(t >= self.last) else self.last

    def window(self, t):
        """The number of its window, or where it begins; the next is one more."""
        return span_of(self.run, t)[0] if self.dated else window_of(self.run, self.W, t)[0]


def span_of(run, t):
    """A window of the calendar that contains the instant, wherever it begins: another instant in it has the same."""
    start, end = run.fresh("start"), run.fresh("end")
    run.facts += [start >= 0, start <= t, start < end, z3.Or(t < end, z3.And(t == TIME_MAX, end == TIME_MAX))]
    for other, its_start, its_end in run.spans:
        run.facts += [z3.Or(end <= its_start, its_end <= start, z3.And(start == its_start, end == its_end)),
                      z3.Implies(t >= other, start >= its_start), z3.Implies(t <= other, start <= its_start)]
    run.spans.append((t, start, end))
    return start, end


def calendar_span(run, limit, t):
    start, end = span_of(run, t.term)
    run.know(t.term - start < run.load_field(run.load(limit.term), "window_ns").term)
    run.know(end <= TIME_MAX)
    return Struct("sl_span", {"start": whole(start), "end": whole(end)})


SPANS = {**WINDOWS, "sl_calendar_span": calendar_span}


def correction(instant, charged, actual):
    return Struct("sl_correction", {"instant": whole(instant), "charged": Val(charged, U32),
                                    "actual": Val(actual, U32)})


# ---- refunds -----------------------------------------------------------------------------------------------------

def refunding(kind, pins=None, bounded=False):
    def begin(run):
        s = Counter(run, kind, pins)
        s.c = s.n("c", 0, COUNT_MAX)
        if bounded:
            know_bounds(run, s)
        s.changed = s.call("sl_window_refund", whole(s.now), Val(s.c, U32)).term
        s.t = s.later(s.now)
        return s
    return begin


def within_bounds(s, cur, prev):
    return [cur <= s.Q, prev <= s.Q] + ([cur + prev <= 2 * s.Q - 1] if s.sliding else [])


def know_bounds(run, s):
    for fact in within_bounds(s, s.cur, s.prev):
        run.know(fact)


def what_counts(run, s):
    k, l = s.window(s.t), s.window(s.last)
    if run.choose(k == l):
        return True, s.cur + s.prev if s.sliding else s.cur
    return False, s.cur if s.sliding and run.choose(k == l + 1) else 0


def refunds(run, s):
    same, counts = what_counts(run, s)
    take = s.c if run.choose(s.c <= counts) else counts
    last, cur, prev = s.state()
    return [("the instant stays", last == s.last), ("no count is below 0", z3.And(cur >= 0, prev >= 0)),
            ("none grows", z3.And(cur <= s.cur, prev <= s.prev)),
            ("what was asked for, at most what counts", s.cur - cur + s.prev - prev == take),
            ("newest first", z3.Or(prev == s.prev, cur == 0)),
            ("what does not count stays", z3.BoolVal(same and s.sliding) if same and s.sliding else prev == s.prev),
            ("whether it changed anything", is_true(s.changed) == (take > 0))]


def stays_bounded(run, s):
    _, cur, prev = s.state()
    return [("the bound of any window", z3.And(*within_bounds(s, cur, prev)))]


REFUNDS = {"refunds": (refunds, False), "stays_bounded": (stays_bounded, True)}


@pytest.mark.parametrize("kind,words", itertools.product(KINDS, REFUNDS))
def test_a_refund(kind, words):
    claims, bounded = REFUNDS[words]
    print(kind, words, prove(read(FILE), refunding(kind, None, bounded), claims, window_lemmas, SPANS))


def test_a_refund_of_a_window_of_the_calendar():
    print(prove(read(FILE), refunding(DATED), refunds, None, SPANS))


def lowered(run):
    """Counts before and after, as a refund was just proved to leave them, and an instant e into its window."""
    n = Numbers(run)
    W, e, c = n("W", WINDOW_MIN, WINDOW_MAX), n("e", 0, WINDOW_MAX), n("c", 0, COUNT_MAX)
    of_cur, of_prev = n("of_cur", 0, COUNT_MAX), n("of_prev", 0, COUNT_MAX)
    run.facts += [e < W, of_cur + of_prev <= c]
    return W, e, c, of_cur, of_prev


def makes_room(run, result):
    """W times what counts has become less by so much: in the same window, in the next, and in that of fixed-window."""
    W, e, c, of_cur, of_prev = result
    return [(words, z3.And(less >= 0, less <= c * W)) for words, less in (
        ("in its window", of_cur * W + of_prev * (W - e)), ("in the next", of_cur * (W - e)),
        ("in a fixed window", of_cur * W))]


def parts(run):
    W, e, c = z3.Int("W"), z3.Int("e"), z3.Int("c")
    of_cur, of_prev = z3.Int("of_cur"), z3.Int("of_prev")
    lemmas = monotone(W, of_cur + of_prev, c)
    for taken in (of_cur, of_prev):
        lemmas += times(taken, e) + times(taken, W - e) + times(taken, W)
    return lemmas


def test_a_refund_makes_no_more_room_than_it_took():
    """At whatever instant after it, and never less than there was."""
    print(prove(read(FILE), lowered, makes_room, parts))


def charging(kind, pins=None):
    """A charge of a counter that is within its bounds."""
    def begin(run):
        s, decision = Counter(run, kind, pins), Struct("sluice_decision")
        s.c = s.n("c", 1, 2**32)
        know_bounds(run, s)
        s.call("sl_window_step" if s.sliding else "sl_fixed_step", whole(s.now), whole(s.c), flag(True),
               pointer(decision))
        return s
    return begin


def no_wait(run, *arguments):
    return whole(0)


def charge_hints(run):
    W, Q, cur, prev, c = (z3.Int(name) for name in ("W", "Q", "cur", "prev", "c"))
    floors = [q for n, d, q, r in run.divisions.values() if "*" in str(n)]
    lemmas = window_lemmas(run) + monotone(W, *floors, Q - cur - c, Q - c, 0, 1)
    for count in (prev, cur):
        for _, e in run.windows:
            lemmas += monotone(W - e, count, 0, 1) + monotone(count, W - e, W, 0)
    return lemmas


@pytest.mark.parametrize("kind", KINDS)
def test_a_charge_keeps_the_bound(kind):
    print(kind, prove(read(FILE), charging(kind), stays_bounded, charge_hints, {**WINDOWS, "window_retry": no_wait}))


# ---- corrections -------------------------------------------------------------------------------------------------

def correcting(kind, pins=None):
    """A correction of any charge of before."""
    def begin(run):
        s = Counter(run, kind, pins)
        s.instant = s.n("instant", 0, TIME_MAX)
        s.charged, s.actual = s.n("charged", 0, COUNT_MAX), s.n("actual", 0, COUNT_MAX)
        s.changed = s.call("sl_window_correct", pointer(correction(s.instant, s.charged, s.actual))).term
        return s
    return begin


def corrected(run, count, s):
    right = count + s.actual - s.charged
    return 0 if run.choose(right < 0) else COUNT_MAX if run.choose(right > COUNT_MAX) else right


def corrects(run, s):
    """In the window of the instant; one after the last charge counts as that."""
    j, l = s.window(s.instant), s.window(s.last)
    last, cur, prev = s.state()
    of_cur, of_prev = s.cur, s.prev
    if run.choose(j >= l):
        of_cur = corrected(run, s.cur, s)
    elif s.sliding and run.choose(j == l - 1):
        of_prev = corrected(run, s.prev, s)
    return [("the instant stays", last == s.last), ("its count", cur == of_cur), ("the other one", prev == of_prev),
            ("whether it changed anything", is_true(s.changed) == z3.Or(of_cur != s.cur, of_prev != s.prev))]


@pytest.mark.parametrize("kind", (*KINDS, DATED))
def test_a_correction(kind):
    print(kind, prove(read(FILE), correcting(kind), corrects, window_lemmas, SPANS))


def charged_twice(kind, pins=None):
    """A charge whatever the quota, corrected after the next one; and the same with its true cost from the beginning."""
    def begin(run):
        s = Counter(run, kind, pins)
        s.charged, s.actual, next_ = (s.n("charged", 1, COUNT_MAX), s.n("actual", 0, COUNT_MAX),
                                      s.n("next", 1, COUNT_MAX))
        then, s.twin = s.n("then", 0, TIME_MAX), s.standing()
        for cost in (s.charged, s.actual):  # nothing is at its end
            run.know(s.cur + cost + next_ <= COUNT_MAX)
        t = s.later(s.now)
        for counter, cost in ((s.counter, s.charged), (s.twin, s.actual)):
            s.call("sl_window_count", whole(t), Val(cost, U32), counter=counter)
            run.know(then >= t)
            s.call("sl_window_count", whole(then), Val(next_, U32), counter=counter)
        s.call("sl_window_correct", pointer(correction(t, s.charged, s.actual)))
        return s
    return begin


def same_as_right(run, s):
    (last, cur, prev), (twin_last, twin_cur, twin_prev) = s.state(), s.state(s.twin)
    return [("the instant", last == twin_last), ("the count", cur == twin_cur), ("the count before", prev == twin_prev)]


def alike(run, s):
    """Of fixed-window the count before says nothing."""
    return same_as_right(run, s)[:3 if s.sliding else 2]


@pytest.mark.parametrize("kind", (*KINDS, DATED))
def test_a_corrected_charge_is_as_the_right_one(kind):
    print(kind, prove(read(FILE), charged_twice(kind), alike, window_lemmas, SPANS))


# ---- mistakes ----------------------------------------------------------------------------------------------------

PINS = {"W": 10**6, "Q": 5}
MISTAKES = [
    (refunding, refunds, "sliding-window", ("take = sl_min(cost, counted)", "take = cost", 1)),
    (refunding, refunds, "sliding-window", ("counter->state.w[0] < w.t - w.e", "counter->state.w[0] <= w.t - w.e", 1)),
    (refunding, refunds, "sliding-window", ("from_cur = sl_min(take, cur)", "from_cur = sl_min(take / 2, cur)", 1)),
    (refunding, refunds, "sliding-window", ("w.cur + w.prev : w.cur", "w.cur : w.cur", 1)),
    (refunding, refunds, "fixed-window", ("w.cur + w.prev : w.cur", "w.cur + w.prev : w.cur + w.prev", 1)),
    (refunding, refunds, "sliding-window", ("prev -= take - from_cur", "prev -= prev", 1)),
    (refunding, refunds, DATED, ("sl_min(cost, dated_at(limit, &counter->state, now).cur)", "cost", 1)),
    (refunding, refunds, DATED, ("last >= span.start ?", "last > span.start ?", 1)),
    (charging, stays_bounded, "sliding-window", ("sl_div_ceil(sl_mul(w->prev", "sl_div(sl_mul(w->prev", 1)),
    (charging, stays_bounded, "fixed-window", ("room = quota > w.cur ? quota - w.cur",
                                               "room = quota > w.cur ? quota", 1)),
    (correcting, corrects, "sliding-window", ("at->instant >= start)", "at->instant > start)", 1)),
    (correcting, corrects, "sliding-window", ("start - at->instant <= limit->window_ns)",
                                              "start - at->instant < limit->window_ns)", 1)),
    (correcting, corrects, "sliding-window", ("cur, UINT32_MAX - cur)", "cur, UINT32_MAX)", 1)),
    (correcting, corrects, "sliding-window", ("up < room ? up : room", "room", 1, "src/algo/algorithms.h")),
    (correcting, corrects, DATED, ("dated ? sl_calendar_span(limit, last).start", "dated ? last", 1)),
    (charged_twice, alike, "sliding-window", ("prev = sl_corrected(at, prev", "cur = sl_corrected(at, cur", 1)),
    (charged_twice, alike, "fixed-window", ("at->charged - at->actual : 0", "at->charged : 0", 1,
                                            "src/algo/algorithms.h"))]


@pytest.mark.parametrize("begin,claims,kind,mistake", MISTAKES)
def test_a_mistake_is_refuted(begin, claims, kind, mistake):
    pins = {**PINS, "cur": 3} if begin is charging else PINS
    found = refuted(read(FILE, mistake), begin(kind, pins), claims, None,
                    {**SPANS, "window_retry": no_wait, "sl_div": fitting})
    print(mistake[:2], found)
    assert found
