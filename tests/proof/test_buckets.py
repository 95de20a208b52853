"""token-bucket and leaky-bucket (src/algo/bucket.c): for every window of 1 ms to 3660 d, capacity, rate, cost, instant
and any bytes of a state, the decision is the inequality of the contract; waits are exact to the ns of the tick;
nothing overflows. Rates need not divide anything.

With time in whole ticks, l the tick of the last charge, D the debt then in W-ths of a unit of cost, R what drains in a
window, and C the capacity (B, or N + 1):

    d(t) = max(0, D - R (floor(t / tick) - l))        admits c when d + c W <= C W

It is proved in three parts: what bucket_at() makes of a state is d(t); what sl_bucket_step() makes of that, whatever it
is, is the decision, its waits and the state; and store() keeps what is read again. R is any: which one it is, of two
limits that share a counter, is rate_of(), which is not proved (tests/model/rates_test.c). That draining for k ticks
after d(t) is draining from D on is test_draining_goes_on(). Instants are before the last ms that 64 bits can say."""
import pytest
import z3

from csource import Int, read
from execute import Struct, Val, known
from limits import COUNT_MAX, NEVER, Numbers, TIME_MAX, U32, WINDOW_MAX, flag, limit_of, pointer, whole
from solve import monotone, prove, refuted
from summaries import div, div_ceil

FILE = "src/algo/bucket.c"
# tick: bits of debt in the first word, the least and the longest window in ticks (rule.c: tick_of)
TICKS = {1: (0, 10**6, 2**32 - 1), 1000: (9, 2**32 // 1000, 2**41 - 1), 10**6: (19, 2**41 // 1000, WINDOW_MAX // 10**6)}
LAST_INSTANT = TIME_MAX - 10**6


def is_true(truth):
    return z3.BoolVal(truth) if known(truth) else truth


# ---- what a state says -------------------------------------------------------------------------------------------

class Reading:
    """bucket_at() of any bytes."""

    def __init__(self, run, tick_ns, pins):
        n = Numbers(run, pins)
        bits, least, longest = TICKS[tick_ns]
        self.R, self.now = n("R", 1, COUNT_MAX), n("now", 0, LAST_INSTANT)
        at, high, low = (n("at", 0, LAST_INSTANT >> bits), n("high", 0, 2**bits - 1), n("low", 0, TIME_MAX))
        self.D = high * 2**64 + low
        state = pointer(Struct("sl_state", {"w": [whole(at * 2**bits + high), whole(low)]}))
        self.last = run.call("stored_tick", [state, whole(tick_ns), Val(bits, U32)]).term
        run.rate = self.R
        limit = limit_of("token-bucket", derived=[0, 0, 1, tick_ns, n("W", least, longest), 0])
        b = run.call("bucket_at", [pointer(limit), state, whole(self.now)])
        self.tick, self.passed, self.debt = (run.load_field(b, name).term for name in ("tick", "passed", "debt"))
        self.at, self.bits, self.tick_ns = at, bits, tick_ns


def reading(tick_ns, pins=None):
    return lambda run: Reading(run, tick_ns, pins)


def rate(run, limit, state):
    """Any."""
    return Val(run.rate, U32)


def reads(run, s):
    """last is the tick of the instant that was stored, whose low bits are cut; now's tick k is floor(now / tick)."""
    cut, owed = s.at * 2**s.bits, s.D - s.R * (s.tick - s.last)
    k = run.divide(s.now, s.tick_ns)[0]
    return [("the tick of the last charge", z3.And(s.last * s.tick_ns >= cut, s.last * s.tick_ns < cut + s.tick_ns)),
            ("the tick is the later", z3.And(s.tick >= k, s.tick >= s.last, z3.Or(s.tick == k, s.tick == s.last))),
            ("what has passed of it", s.passed == (s.now - k * s.tick_ns if run.choose(k >= s.last) else 0)),
            ("what has drained, at the rate", z3.Or(s.debt == owed, z3.And(owed <= 0, s.debt == 0))),
            ("a debt is not below 0", s.debt >= 0)]


def reading_hints(run):
    R, ticks = z3.Int("R"), [q for n, d, q, _ in run.divisions.values() if known(d)]
    ticks += [z3.Int("now"), z3.Int("at")]
    return monotone(R, *(a - b for a in ticks for b in ticks if a is not b), 0, 2**64) + monotone(2**64, R, COUNT_MAX)


@pytest.mark.parametrize("tick_ns", TICKS)
def test_every_state(tick_ns):
    print(tick_ns, "reads", prove(read(FILE), reading(tick_ns), reads, reading_hints, {"rate_of": rate}))


def storing(tick_ns, pins=None):
    """What store() writes is read again: it asserts that itself."""
    def begin(run):
        n = Numbers(run, pins)
        bits = TICKS[tick_ns][0]
        tick, high, low = n("tick", 0, LAST_INSTANT // tick_ns), n("high", 0, 2**bits - 1), n("low", 0, TIME_MAX)
        state = Struct("sl_state")
        run.call("store", [pointer(state), whole(tick), Val(high * 2**64 + low, Int(128, False)), whole(tick_ns)])
    return begin


@pytest.mark.parametrize("tick_ns", TICKS)
def test_what_is_stored_is_read(tick_ns):
    print(tick_ns, "stores", prove(read(FILE), storing(tick_ns)))


def draining(run):
    """max(0, max(0, D - R a) - R b) = max(0, D - R (a + b))."""
    n = Numbers(run)
    D, R, a, b = n("D", 0, 2**83), n("R", 1, COUNT_MAX), n("a", 0, 2**64), n("b", 0, 2**64)
    first = D - R * a if run.choose(D > R * a) else 0
    return (first - R * b if run.choose(first > R * b) else 0), D - R * (a + b)


def test_draining_goes_on():
    claim = lambda run, r: [("it is the same", z3.Or(r[0] == r[1], z3.And(r[1] <= 0, r[0] == 0)))]
    lemmas = lambda run: monotone(z3.Int("R"), z3.Int("a"), z3.Int("b"), 0)
    print("draining", prove(read(FILE), draining, claim, lemmas))


# ---- deciding ----------------------------------------------------------------------------------------------------

class Scene:
    """A call on a bucket that owes anything."""

    def __init__(self, run, tick_ns, kind, charge, pins):
        n = Numbers(run, pins)
        bits, least, longest = TICKS[tick_ns]
        self.tick_ns, self.most = tick_ns, 2**(64 + bits)
        self.W, self.C, self.R, self.Q = (n("W", least, longest), n("C", 1, 2**32), n("R", 1, COUNT_MAX),
                                          n("Q", 1, COUNT_MAX))
        self.c, self.D, self.passed = n("c", 0, 2**32), n("D", 0, self.most - 1), n("passed", 0, tick_ns - 1)
        self.tick = n("tick", 0, LAST_INSTANT // tick_ns)
        run.bucket = Struct("bucket", {
            "tick": whole(self.tick), "passed": whole(self.passed), "debt": Val(self.D, Int(128, False)),
            "rate": Val(self.R, U32), "drained": Val(0, Int(128, False))})
        run.stored = None
        decision, counter = Struct("sluice_decision"), Struct("sl_counter", {"state": Struct("sl_state")})
        limit = limit_of(kind, quota=self.Q, derived=[0, 0, self.C, tick_ns, self.W, 0])
        run.call("sl_bucket_step", [pointer(limit), pointer(counter), whole(0), whole(self.c), flag(charge),
                                    pointer(decision)])
        self.allowed, self.remaining, self.retry, self.reset, self.delay = (
            run.load_field(decision, name).term
            for name in ("allowed", "remaining", "retry_after_ns", "reset_after_ns", "delay_ns"))
        self.state = counter.fields["state"]

    def admits(self, c, ticks=0):
        """So many ticks later, if nothing else is charged: what drains below 0 makes no room."""
        return z3.And(self.D - self.R * ticks + c * self.W <= self.C * self.W, c <= self.C)


def bucket_at(run, limit, state, now):
    return run.bucket


def store(run, state, tick, debt, tick_ns):
    run.prove(debt.term < 2**(64 + TICKS[tick_ns.term][0]), "store: a debt that fits")
    run.stored = (tick.term, debt.term)
    return Val(None, POINTER_OR_VOID)


def wait(run, count, tick_ns, passed):
    """sl_wait(): test_division.py."""
    exact = count.term * tick_ns.term - passed.term
    if run.choose(exact >= NEVER):
        return whole(NEVER - 1)
    return whole(exact if run.choose(exact >= 0) else 0)


def drains_late(run, limit, trait):
    """sl_rule_has(): of these two, the leaky one delays."""
    return Val(run.load_field(run.load(limit.term), "algorithm").term == 6, Int(1, False))


POINTER_OR_VOID = Int(1, False)
SUMMARIES = {"sl_div_ceil": div_ceil, "bucket_at": bucket_at, "store": store, "sl_wait": wait,
             "sl_rule_has": drains_late}


def scene(tick_ns, kind, charge, pins=None):
    return lambda run: Scene(run, tick_ns, kind, charge, pins)


def hints(run):
    W, C, R, Q, c = (z3.Int(name) for name in "WCRQc")
    quotients = [q for n, d, q, r in run.divisions.values() if not known(d)]
    lemmas = monotone(W, *quotients, *(q - 1 for q in quotients), C, C - c, c, 0, 1, 2**32, COUNT_MAX)
    lemmas += monotone(C, W, 2**42) + monotone(c, W, 2**42)
    for rate_ in (R, Q):
        lemmas += monotone(rate_, *quotients, 0, 1)
    return lemmas


def decides(run, s):
    return [("the decision is the inequality", z3.Implies(s.c > 0, is_true(s.allowed) == s.admits(s.c))),
            ("a cost of 0 is allowed", z3.Implies(s.c == 0, is_true(s.allowed))),
            ("remaining is admitted", z3.Implies(s.remaining > 0, s.admits(s.remaining))),
            ("and no more", z3.Implies(s.remaining < COUNT_MAX, z3.Not(s.admits(s.remaining + 1))))]


def waits(run, s):
    """After k = ticks of the wait it is admitted; after k - 1, one ns before, it is not."""
    if run.choose(s.allowed):
        return [("allowed, no wait", s.retry == 0)]
    if run.choose(s.c > s.C):
        return [("a cost above the capacity never fits", s.retry == NEVER)]
    k = run.divide(s.passed + s.retry, s.tick_ns)[0]
    before = run.divide(s.passed + s.retry - 1, s.tick_ns)[0]
    claims = [("a denial has a wait", z3.And(s.retry >= 1, s.retry < NEVER)),
              ("not one ns before", z3.Not(s.admits(s.c, before)))]
    if run.choose(s.retry < NEVER - 1):  # else it is longer than can be said
        claims += [("it is admitted then", s.admits(s.c, k))]
    return claims


def resets(run, s):
    claims, rate_ = [], s.R
    if run.choose(s.reset > 0):
        before = run.divide(s.passed + s.reset - 1, s.tick_ns)[0]
        claims += [("something is owed one ns before", s.D - rate_ * before > 0)]
    if run.choose(s.reset < NEVER - 1):
        after = run.divide(s.passed + s.reset, s.tick_ns)[0]
        claims += [("nothing is owed at reset", s.D - rate_ * after <= 0)]
    return claims


def charges(run, s):
    if not run.choose(z3.And(is_true(s.allowed), s.c > 0)):
        return [("a denial writes nothing", z3.BoolVal(run.stored is None))]
    tick, debt = run.stored
    rate_ = run.load_field(s.state, "rate").term
    return [("what is owed, and the cost", debt == s.D + s.c * s.W), ("the tick", tick == s.tick),
            ("from here on it drains at this limit's rate", rate_ == s.Q),
            ("remaining is admitted", z3.Implies(s.remaining > 0, s.admits(s.c + s.remaining))),
            ("and no more", z3.Implies(s.remaining < COUNT_MAX, z3.Not(s.admits(s.c + s.remaining + 1))))]


def delays(run, s):
    """The request leaves when its last unit may, to the ns: in a ns R / tick drains. What has not drained yet drains
    at the rate of the limit that charged it, and with an empty bucket at this one's."""
    if not run.choose(z3.And(is_true(s.allowed), s.c > 0)):
        return [("no delay", s.delay == 0)]
    rate_ = s.R if run.choose(s.D > 0) else s.Q
    ahead = (s.D + (s.c - 1) * s.W) * s.tick_ns
    claims = []
    if run.choose(s.delay > 0):
        claims += [("not one ns before", rate_ * (s.passed + s.delay - 1) < ahead)]
    if run.choose(s.delay < NEVER - 1):  # else it is longer than can be said
        claims += [("it may leave then", rate_ * (s.passed + s.delay) >= ahead)]
    return claims


def wait_hints(run):
    W, C, R, Q, c, passed = (z3.Int(name) for name in ("W", "C", "R", "Q", "c", "passed"))
    of_rates = [q for n, d, q, r in run.divisions.values() if not known(d) and str(d) in "RQ"]
    ticks = [q for n, d, q, r in run.divisions.values() if known(d)]
    lemmas = hints(run)
    for rate_ in (R, Q):
        lemmas += monotone(rate_, *of_rates, *(q - 1 for q in of_rates), *ticks, *(q + 1 for q in ticks), passed, 0)
    return lemmas


CLAIMS = {"decides": (decides, "token-bucket", False, hints), "waits": (waits, "token-bucket", False, wait_hints),
          "resets": (resets, "token-bucket", False, wait_hints), "charges": (charges, "token-bucket", True, hints),
          "delays": (delays, "leaky-bucket", False, wait_hints)}


@pytest.mark.parametrize("words", CLAIMS)
@pytest.mark.parametrize("tick_ns", TICKS)
def test_every_bucket(tick_ns, words):
    claims, kind, charge, lemmas = CLAIMS[words]
    print(tick_ns, words, prove(read(FILE), scene(tick_ns, kind, charge), claims, lemmas, SUMMARIES))


# ---- mistakes ----------------------------------------------------------------------------------------------------

PINS = {"W": 10**6, "C": 5, "R": 3, "Q": 7}
MISTAKES = [
    ("decides", ("used = sl_div_ceil(b.debt, window)", "used = sl_div(b.debt, window)", 1)),
    ("decides", ("room = capacity > used ? capacity - used : 0", "room = capacity > used ? capacity - used : 1", 1)),
    ("waits", ("sl_wait(sl_div_ceil(b->debt - room, b->rate)", "sl_wait(sl_div(b->debt - room, b->rate)", 1)),
    ("waits", ("cost > capacity ? SLUICE_NEVER", "cost >= capacity ? SLUICE_NEVER", 1)),
    ("waits", ("sl_div_ceil(b->debt - room, b->rate)", "sl_div_ceil(b->debt, b->rate)", 1)),
    ("resets", ("reset_after_ns = sl_wait(sl_div_ceil(", "reset_after_ns = sl_wait(sl_div(", 1)),
    ("charges", ("b.debt += sl_mul(cost, window)", "b.debt += sl_mul(cost - 1, window)", 1)),
    ("charges", ("sl_min(room - cost, UINT32_MAX)", "sl_min(room, UINT32_MAX)", 1)),
    ("charges", ("cost != 0 ? limit->quota : b.rate", "cost == 0 ? limit->quota : b.rate", 1)),
    ("delays", ("sl_mul(cost - 1, limit", "sl_mul(cost, limit", 1)),
    ("delays", ("sl_div_ceil(owed - drained", "sl_div(owed - drained", 1)),
    ("delays", ("owed > drained ?", "owed >= drained + 1000 ?", 1)),
]


@pytest.mark.parametrize("words,mistake", MISTAKES)
def test_a_mistake_is_refuted(words, mistake):
    claims, kind, charge, lemmas = CLAIMS[words]
    summaries = {**SUMMARIES, "sl_div": div}
    found = refuted(read(FILE, mistake), scene(1, kind, charge, PINS), claims, lemmas, summaries)
    print(mistake[:2], found)
    assert found


def test_a_wrong_reading_is_refuted():
    for mistake in (("tick >= last ? now", "tick > last ? now", 1), ("cut + (tick_ns - 1)", "cut", 1),
                    ("debt > b.drained ? debt - b.drained : 0", "debt > b.drained ? debt - b.drained : 1", 1)):
        found = refuted(read(FILE, mistake), reading(1000, {"R": 3, "W": 5 * 10**6}), reads, reading_hints,
                        {"rate_of": rate})
        print(mistake[:2], found)
        assert found
    mistake = ("(uint64_t)(debt >> 64);", "(uint64_t)(debt >> 65);", 1)
    found = refuted(read(FILE, mistake), storing(1000))
    print(mistake[:2], found)
    assert found
