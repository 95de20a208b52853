"""What goes back to token-bucket and leaky-bucket (src/algo/bucket.c): refunds, corrections of charges whose true cost
came later, charges whatever the quota, and what a reservation can still give back. For every window, capacity, rate,
cost, instant and any debt. With d(t) = max(0, D - R (t - l)), as in test_buckets.py, and time in ticks:

    a refund at t leaves d(t) - min(c W, d(t)) there, and l as it is: what had drained stays drained
    a commit of less leaves what a charge of the true cost would have left, or less than a unit more; and if another
                     charge came between, at most what has drained since that
    a commit of more is owed from when it is known: what a charge of the true cost would have left, or more

So neither ever admits more than the true charges would, and the debt of a bucket within its capacity stays within it.
What bucket_at() and store() do is proved in test_buckets.py; here a state is the tick and the debt that they keep."""
import pytest
import z3

from csource import Int, read
from execute import Struct, Val
from limits import COUNT_MAX, Numbers, U32, limit_of, pointer, whole
from solve import monotone, prove, refuted
from summaries import div
from test_buckets import LAST_INSTANT, TICKS, is_true

FILE, U128, VOID = "src/algo/bucket.c", Int(128, False), Int(1, False)


# ---- a state, as what it says ------------------------------------------------------------------------------------

def state_of(tick, debt, rate, life):
    return Struct("sl_state", {"w": [whole(tick), Val(debt, U128)], "rate": Val(rate, U32), "life": Val(life, U32)})


def words(run, state):
    return run.load_field(run.load(state.term), "w")


def stored_debt(run, state, bits):
    return words(run, state)[1]


def stored_tick(run, state, tick_ns, bits):
    return words(run, state)[0]


def store(run, state, tick, debt, tick_ns):
    run.prove(z3.And(debt.term >= 0, debt.term < 2**(64 + TICKS[tick_ns.term][0])), "store: a debt that fits")
    words(run, state)[:] = [whole(tick.term), Val(debt.term, U128)]
    return Val(None, VOID)


def to_ticks(run, ns, tick_ns):
    """Instants are in ticks here."""
    return ns


def owed(run, D, R, ticks):
    """What of a debt is left so many ticks later."""
    return D - R * ticks if run.choose(D > R * ticks) else 0


def bucket_at(run, limit, state, now):
    last, D = (each.term for each in words(run, state))
    tick = now.term if run.choose(now.term >= last) else last
    return Struct("bucket", {"tick": whole(tick), "passed": whole(0), "drained": Val(run.rate * (tick - last), U128),
                             "debt": Val(owed(run, D, run.rate, tick - last), U128), "rate": Val(run.rate, U32)})


SUMMARIES = {"stored_debt": stored_debt, "stored_tick": stored_tick, "store": store, "to_ticks": to_ticks,
             "bucket_at": bucket_at, "sl_div": div}


class Bucket:
    """One that owes anything, and was told its rate, or a lifetime."""

    def __init__(self, run, tick_ns, pins, D=None, last=None):
        self.run, self.n = run, Numbers(run, pins)
        bits, least, longest = TICKS[tick_ns]
        self.ticks, self.most = LAST_INSTANT // tick_ns, 2**(64 + bits) - 1
        self.W, self.C, self.Q = self.n("W", least, longest), self.n("C", 1, COUNT_MAX), self.n("Q", 1, COUNT_MAX)
        self.R = run.rate = self.n("R", 1, COUNT_MAX)
        self.last = self.n("last", 0, self.ticks) if last is None else last(self)
        self.now = self.n("now", 0, self.ticks)
        self.D = self.n("D", 0, self.most) if D is None else D(self)
        self.life, self.rate = self.n("life", 0, 256), self.n("rate", 0, COUNT_MAX)
        self.state = state_of(self.last, self.D, self.rate, self.life)
        self.limit = limit_of("token-bucket", quota=self.Q, derived=[0, 0, self.C, tick_ns, self.W, 0])

    def call(self, function, *arguments):
        return self.run.call(function, [pointer(self.limit), pointer(Struct("sl_counter", {"state": self.state})),
                                        *arguments])

    def later(self, t):
        return t if self.run.choose(t >= self.last) else self.last

    def written(self):
        return [each.term for each in self.state.fields["w"]]

    def drains_as_before(self, written):
        """The rate, once read, is kept; a lifetime tells nothing any more."""
        rate, life = self.state.fields["rate"].term, self.state.fields["life"].term
        if written and self.run.choose(self.life != 0):
            return z3.And(rate == self.R, life == 0)
        return z3.And(rate == self.rate, life == self.life)


# ---- refunds -----------------------------------------------------------------------------------------------------

def refunding(tick_ns, pins=None):
    def begin(run):
        s = Bucket(run, tick_ns, pins)
        s.c = s.n("c", 0, COUNT_MAX)
        s.changed = s.call("sl_bucket_refund", whole(s.now), Val(s.c, U32)).term
        s.t = s.later(s.now)
        return s
    return begin


def refunds(run, s):
    tick, D = s.written()
    had = owed(run, s.D, s.R, s.t - s.last)
    take = s.c * s.W if run.choose(s.c * s.W <= had) else had
    return [("the tick of the last charge stays", tick == s.last), ("a debt is not below 0", D >= 0),
            ("what was asked for, at most what is owed", D == s.D - take),
            ("whether it changed anything", is_true(s.changed) == (take > 0)),
            ("the rate", s.drains_as_before(run.choose(take > 0)))]


def makes_room(run, s):
    """From then on: at once what was taken, and never more."""
    tick, D = s.written()
    then = s.n("then", 0, s.ticks)
    run.know(then >= s.t)
    at_once = owed(run, s.D, s.R, s.t - s.last) - owed(run, D, s.R, s.t - tick)
    later = owed(run, s.D, s.R, then - s.last) - owed(run, D, s.R, then - tick)
    return [("at once", at_once == s.D - D), ("no more than was given back", later <= s.c * s.W),
            ("and never less", later >= 0)]


def few_hints(run):
    return monotone(z3.Int("W"), z3.Int("c"), 0, 2**32) + \
        monotone(z3.Int("R"), *(z3.Int(name) - z3.Int("last") for name in ("now", "then")), 0, 2**64)


REFUNDS = {"refunds": refunds, "makes_room": makes_room}


@pytest.mark.parametrize("words_", REFUNDS)
@pytest.mark.parametrize("tick_ns", TICKS)
def test_a_refund(tick_ns, words_):
    print(tick_ns, words_, prove(read(FILE), refunding(tick_ns), REFUNDS[words_], few_hints, SUMMARIES))


# ---- charges whatever the quota ----------------------------------------------------------------------------------

def counting(tick_ns, pins=None):
    def begin(run):
        s = Bucket(run, tick_ns, pins)
        s.c = s.n("c", 0, COUNT_MAX)
        s.got = s.call("sl_bucket_count", whole(s.now), Val(s.c, U32)).term
        s.t = s.later(s.now)
        return s
    return begin


def counts(run, s):
    """Down to empty; what is owed beyond that already stays."""
    tick, D = s.written()
    had, most = owed(run, s.D, s.R, s.t - s.last), s.C * s.W
    now = had + s.c * s.W if run.choose(had + s.c * s.W <= most) else most
    if run.choose(now <= had):
        return [("nothing is written", z3.And(tick == s.last, D == s.D)), ("nor charged", s.got == 0)]
    return [("from now on", tick == s.t), ("what is owed, and the cost, down to empty", D == now),
            ("within the capacity", D <= most), ("charged", s.got == s.c),
            ("at this limit's rate", z3.And(s.state.fields["rate"].term == s.Q, s.state.fields["life"].term == 0))]


def count_hints(run):
    W, C, c = z3.Int("W"), z3.Int("C"), z3.Int("c")
    return few_hints(run) + monotone(W, C, c, 0, 2**32)


@pytest.mark.parametrize("tick_ns", TICKS)
def test_a_charge_whatever_the_quota(tick_ns):
    print(tick_ns, prove(read(FILE), counting(tick_ns), counts, count_hints, SUMMARIES))


# ---- corrections -------------------------------------------------------------------------------------------------

def correcting(tick_ns, pins=None):
    """Any correction of any debt."""
    def begin(run):
        s = Bucket(run, tick_ns, pins)
        s.instant, s.known = s.n("instant", 0, s.ticks), s.n("known", 0, s.ticks)
        s.charged, s.actual = s.n("charged", 0, COUNT_MAX), s.n("actual", 0, COUNT_MAX)
        s.debt = s.n("debt", 0, COUNT_MAX)
        return corrected(s)
    return begin


def corrected(s):
    s.changed = s.call("sl_bucket_correct", pointer(Struct("sl_correction", {
        "instant": whole(s.instant), "known": whole(s.known), "charged": Val(s.charged, U32),
        "actual": Val(s.actual, U32), "debt": Val(s.debt, U32)}))).term
    s.t = s.later(s.known)
    return s


def corrects(run, s):
    tick, D = s.written()
    had = owed(run, s.D, s.R, s.t - s.last)
    if run.choose(s.actual > s.charged):
        more = had + (s.actual - s.charged) * s.W
        return [("owed from when it is known", tick == s.t), ("and no more than can be said", D <= s.most),
                ("all of it", z3.Or(D == more, z3.And(D == s.most, more > s.most)))]
    since = s.t - s.instant if run.choose(s.t >= s.instant) else 0
    left = owed(run, s.debt * s.W, s.R, since)
    low = left if run.choose(left <= had) else had
    much = (s.charged - s.actual) * s.W
    take = much if run.choose(much <= low) else low
    return [("the tick of the last charge stays", tick == s.last), ("a debt is not below 0", D >= 0),
            ("what was too much, of that what has not drained", D == s.D - take),
            ("whether it changed anything", is_true(s.changed) == (take > 0)),
            ("the rate", s.drains_as_before(run.choose(take > 0)))]


def correct_hints(run):
    W, R, charged, actual, debt, last, known_, instant = (
        z3.Int(name) for name in ("W", "R", "charged", "actual", "debt", "last", "known", "instant"))
    return monotone(W, charged - actual, actual - charged, debt, 0, 2**32) + \
        monotone(R, known_ - last, known_ - instant, last - instant, 0, 2**64)


@pytest.mark.parametrize("tick_ns", TICKS)
def test_a_correction(tick_ns):
    print(tick_ns, prove(read(FILE), correcting(tick_ns), corrects, correct_hints, SUMMARIES))


def charged_twice(tick_ns, pins=None):
    """A bucket that owes `before` is charged at `instant`, and `next` at `between`; then it is known what the first
    one was to be. The twin was charged that. What the ledger notes of the first is its debt in whole units."""
    def begin(run):
        def debt_at_last(s):
            before, s.next = s.n("before", 0, 2**75), s.n("next", 0, COUNT_MAX)
            s.charged, s.actual = s.n("charged", 1, COUNT_MAX), s.n("actual", 0, COUNT_MAX)
            s.debt = s.n("debt", 0, COUNT_MAX)
            after, right = before + s.charged * s.W, before + s.actual * s.W
            run.facts += [s.debt * s.W <= after, after < s.debt * s.W + s.W]
            s.twin = owed(run, right, s.R, s.last - s.instant) + s.next * s.W
            return owed(run, after, s.R, s.last - s.instant) + s.next * s.W

        def last(s):
            s.instant, between = s.n("instant", 0, s.ticks), s.n("between", 0, s.ticks)
            run.know(between >= s.instant)
            return between
        s = Bucket(run, tick_ns, pins, debt_at_last, last)
        s.known = s.n("known", 0, s.ticks)
        run.facts += [s.known >= s.last, s.D + s.actual * s.W <= s.most]
        return corrected(s)
    return begin


def as_the_right_one(run, s):
    """At the tick when it is known, and so at each after it."""
    tick, D = s.written()
    got, right = owed(run, D, s.R, s.t - tick), owed(run, s.twin, s.R, s.t - s.last)
    claims = [("nothing is given back that was owed", got >= right)]
    if run.choose(s.actual <= s.charged):
        since = s.t - s.last  # the next charge
        claims += [("to less than a unit, but for what was charged since", got < right + s.W + s.next * s.W),
                   ("and of that, for what would have drained", got < right + s.W + s.R * since)]
    else:
        claims += [("no more than was too little", got <= right + (s.actual - s.charged) * s.W),
                   ("nor than has drained since", got <= right + s.R * (s.t - s.instant))]
    return claims


def twin_hints(run):
    W, R, charged, actual, debt, last, known_, instant = (
        z3.Int(name) for name in ("W", "R", "charged", "actual", "debt", "between", "known", "instant"))
    return monotone(W, charged, actual, debt, z3.Int("next"), 0, 2**32) + monotone(W, charged - actual,
                                                                                 actual - charged, 0, 2**32) + \
        monotone(R, known_ - last, known_ - instant, last - instant, 0, 2**64)


@pytest.mark.parametrize("tick_ns", TICKS)
def test_a_corrected_charge_is_as_the_right_one(tick_ns):
    print(tick_ns, prove(read(FILE), charged_twice(tick_ns), as_the_right_one, twin_hints, SUMMARIES))


def leaving(tick_ns, pins=None):
    def begin(run):
        s = Bucket(run, tick_ns, pins)
        s.instant, s.debt = s.n("instant", 0, s.ticks), s.n("debt", 0, COUNT_MAX)
        noted = Struct("sl_reservation", {"instant": whole(s.instant), "debt": Val(s.debt, U32)})
        s.got = run.call("sl_ledger_left", [pointer(s.limit), Val(s.R, U32), pointer(noted), whole(s.now)]).term
        return s
    return begin


def leaves(run, s):
    since = s.now - s.instant if run.choose(s.now >= s.instant) else 0
    left = owed(run, s.debt * s.W, s.R, since)
    return [("what has not drained", s.got * s.W <= left), ("in whole units", left < s.got * s.W + s.W),
            ("no more than there was", s.got <= s.debt)]


def leave_hints(run):
    W, debt, now, instant = (z3.Int(name) for name in ("W", "debt", "now", "instant"))
    quotients = [q for n, d, q, r in run.divisions.values()]
    return monotone(W, debt, *quotients, 0, 1, 2**32) + monotone(z3.Int("R"), now - instant, 0, 2**64)


@pytest.mark.parametrize("tick_ns", TICKS)
def test_what_a_reservation_can_give_back(tick_ns):
    print(tick_ns, prove(read(FILE), leaving(tick_ns), leaves, leave_hints, SUMMARIES))


# ---- mistakes ----------------------------------------------------------------------------------------------------

PINS = {"W": 10**6, "C": 5, "R": 3, "Q": 7}


@pytest.mark.parametrize("begin,claims,mistake", (
    (refunding, refunds, ("take = take < b.debt ? take : b.debt;", "", 1)),
    (refunding, refunds, ("take = take < b.debt", "take = take > b.debt", 1)),
    (refunding, refunds, ("stored_debt(&counter->state, bits) - take, b.rate", "b.debt - take, b.rate", 1)),
    (refunding, refunds, ("stored_tick(&counter->state, tick_ns, bits)", "b.tick", 1)),
    (refunding, refunds, ("state->rate = rate;", "state->rate = limit->quota;", 1)),
    (refunding, makes_room, ("stored_tick(&counter->state, tick_ns, bits)", "b.tick", 1)),
    (counting, counts, ("debt = debt < empty ? debt : empty", "debt = debt < empty ? empty : debt", 1)),
    (counting, counts, ("if (debt <= b.debt)", "if (debt < b.debt)", 1)),
    (correcting, corrects, ("if (at->actual > at->charged)", "if (at->actual >= at->charged)", 1)),
    (correcting, corrects, ("debt < most ? debt : most", "debt", 1)),
    (correcting, corrects, ("left = owed > drained ? owed - drained : 0", "left = owed", 1)),
    (correcting, corrects, ("take = take < b.debt ? take : b.debt;\n\t\tSL_ASSERT", "SL_ASSERT", 1)),
    (charged_twice, as_the_right_one, ("take = take < left ? take : left", "take = take", 1)),
    (charged_twice, as_the_right_one, ("&counter->state, b.tick, debt < most", "&counter->state, 0, debt < most", 1)),
    (leaving, leaves, ("t - sl_min(t, from)", "t", 1)),
    (leaving, leaves, ("sl_div(owed - drained, limit", "sl_div(owed, limit", 1))))
def test_a_mistake_is_refuted(begin, claims, mistake):
    found = refuted(read(FILE, mistake), begin(1, PINS), claims, None, SUMMARIES)
    print(mistake[:2], found)
    assert found
