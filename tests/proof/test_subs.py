"""sliding-buckets (src/algo/subs.c): the divisions of instants by stored inverses are exact; what a state and its ring
say of an instant; under each edge the decision, `remaining`, `retry_after` and `reset_after` to the ns; and how far
back what counts reaches. For every precision, number of sub-buckets, quota, cost, instant, and costs in the ring:

    count     old + full + c <= Q
    drop      full + c <= Q
    weighted  full P + old (P - t mod P) + c P <= Q P

with full the cost of the sub-buckets b-n+1..b, and old that of b-n. Loops are of any number of rounds
(execute.any_round). What is written into the ring is proved in test_subs_back.py. Not proved, and held by models
(tests/model): that skip_empty() skips what is empty."""
import pytest
import z3

from csource import POINTER, U64, read
from execute import Ref, Struct, Val, known
from limits import COUNT_MAX, Numbers, TIME_MAX, WINDOW_MAX, flag, inverse, limit_of, pointer, whole
from solve import monotone, prove, refuted, scaled, times
from summaries import QUOTIENTS, div

FILE = "src/algo/subs.c"
EDGES = {"count": 0, "drop": 1, "weighted": 2}
PRECISION_MIN, BUCKETS_MAX = 10**6, 4096


# ---- divisions ---------------------------------------------------------------------------------------------------

def sub_bucket(pins=None):
    def begin(run):
        n = Numbers(run, pins)
        P, t = n("P", PRECISION_MIN, WINDOW_MAX // 2), n("t", 0, TIME_MAX)
        limit = limit_of("sliding-buckets", precision_ns=P, derived=[0, 0, 0, inverse(run, P), 0, 0])
        frame = {"into": whole(0)}
        b = run.call("to_sub_bucket", [pointer(limit), whole(t), Val(Ref(frame, "into"), POINTER)]).term
        return P, t, b, frame["into"].term
    return begin


def is_floor(run, result):
    P, t, b, into = result
    return [("t = b P + into", t == b * P + into), ("into is a rest", z3.And(into >= 0, into < P))]


def slot(pins=None):
    def begin(run):
        n = Numbers(run, pins)
        ring, b = n("ring", 3, BUCKETS_MAX + 1), n("b", 0, 2**45 - 1)
        limit = limit_of("sliding-buckets", bucket_count=ring - 1, derived=[0, 0, 0, 0, inverse(run, ring), 0])
        return ring, b, run.call("to_slot", [pointer(limit), whole(b)]).term
    return begin


def is_slot(run, result):
    ring, b, got = result
    quotients = [each for _, _, q, r in run.divisions.values() for each in (q, r)]
    return [("within the ring", z3.And(got >= 0, got < ring)),
            ("b less whole turns", z3.Or(*(got == b - (q + i) * ring for q in quotients for i in range(2))))]


def inverse_hints(run):
    """As in test_windows.py."""
    lemmas = []
    for d, t, most in ((z3.Int("P"), z3.Int("t"), 2**64 - 1), (z3.Int("ring"), z3.Int("b"), 2**45 - 1)):
        lemmas += scaled(run, t) + scaled(run, d) + monotone(d, t, most)
        for _, _, _, r in run.divisions.values():
            lemmas += monotone(t, r, d - 1) + monotone(d, r, 0, 2**64 - 1)
    return lemmas


def test_divisions_by_inverses():
    print("to_sub_bucket", prove(read(FILE), sub_bucket(), is_floor, inverse_hints))
    print("to_slot", prove(read(FILE), slot(), is_slot, inverse_hints))


# ---- the ring ----------------------------------------------------------------------------------------------------

class Cells:
    """Costs of any size by age, as sums: sum(p) is the cost of those of age 0..p-1. Sums do not fall."""

    def __init__(self, run):
        self.run, self.points = run, []

    def sum(self, point):
        point = z3.simplify(point) if not known(point) else z3.IntVal(point)
        for other, its in self.points:
            if other.eq(point):
                return its
        its = self.run.fresh("sum")
        self.run.facts += [its >= 0, its <= 2**33, z3.Implies(point <= 0, its == 0)]
        for other, others in self.points:
            self.run.facts += [z3.Implies(other <= point, others <= its), z3.Implies(point <= other, its <= others)]
        self.points.append((point, its))
        return its

    def cost(self, age):
        return self.sum(age + 1) - self.sum(age)


def cell(run, subs, age):
    return Val(run.cells.cost(age.term), U64)


def a_slot(run, *arguments):
    """Where the ring begins says nothing of what it holds by age."""
    return whole(0)


def field(run, subs, name):
    return run.load_field(subs, name).term


class Look:
    """look() of a state that is true of its ring, the last charge at any instant."""

    def __init__(self, run, is_known, pins):
        n = Numbers(run, pins)
        self.P, self.n = n("P", PRECISION_MIN, WINDOW_MAX // 2), n("n", 2, BUCKETS_MAX)
        self.now, self.last = n("now", 0, TIME_MAX), n("last", 0, TIME_MAX)
        run.cells = Cells(run)
        self.total = run.cells.sum(self.n)
        stale, word = 0, self.total
        if is_known:
            run.know(self.total <= COUNT_MAX - BUCKETS_MAX - 2)
        else:
            stale = n("stale", 0, BUCKETS_MAX + 1)
            word = COUNT_MAX - stale
            run.facts += [stale <= self.n + 1, run.cells.sum(stale) == 0, self.total <= COUNT_MAX]
        state = Struct("sl_state", {"w": [whole(self.last), whole(word * 2**32)]})
        limit = limit_of("sliding-buckets", bucket_count=self.n, precision_ns=self.P)
        counter = Struct("sl_counter", {"state": state, "block_bytes": whole(4 * (BUCKETS_MAX + 1))})
        self.subs = run.load(run.call("look", [pointer(limit), pointer(counter), whole(self.now)]).term)


def sub_bucket_of(run, limit, t, into):
    """to_sub_bucket(): test_divisions_by_inverses()."""
    b, rest = run.divide(t.term, run.load_field(run.load(limit.term), "precision_ns").term)
    run.store(into.term, whole(rest), "to_sub_bucket")
    return whole(b)


def looks(run, s):
    t = s.now if run.choose(s.now >= s.last) else s.last
    (b, r), (last_b, _) = run.divide(t, s.P), run.divide(s.last, s.P)
    moved = b - last_b if run.choose(b - last_b <= s.n) else s.n + 1
    return [(name, field(run, s.subs, name) == value)
            for name, value in (("t", t), ("b", b), ("r", r), ("moved", moved))] + [
                ("what always counts", field(run, s.subs, "full") == run.cells.sum(s.n - moved)),
                ("what the edge cuts", field(run, s.subs, "old") == run.cells.cost(s.n - moved))]


def look_hints(run):
    P, quotients = z3.Int("P"), [q for n, d, q, r in run.divisions.values() if str(d) == "P"]
    return monotone(P, *quotients, *(q + 1 for q in quotients), 0)


def adding(run, frame):
    age = frame["age"].term
    return [("what was added up", frame["sum"].term == run.cells.sum(age)),
            ("the age", z3.And(age >= field(run, run.load(frame["s"].term), "stale"), age <= run.cells_most))]


def taking(run, frame):
    """Of a known total: what has left is of age..n-1."""
    age, s = frame["age"].term, run.load(frame["s"].term)
    return [("what stays", frame["total"].term == run.cells.sum(age)),
            ("the age", z3.And(age >= field(run, s, "n") - field(run, s, "moved"), age <= field(run, s, "n")))]


def sum_of_newest(run, subs, count):
    """As it is, but its loop is told its end."""
    run.cells_most = count.term if run.choose(count.term >= field(run, run.load(subs.term), "stale")) \
        else field(run, run.load(subs.term), "stale")
    summaries = run.summaries
    run.summaries = {name: it for name, it in summaries.items() if name != "sum_of_newest"}
    value = run.call("sum_of_newest", [subs, count])
    run.summaries = summaries
    return value


AGE = lambda run, frame: frame["age"].term
AGE_LEFT = lambda run, frame: BUCKETS_MAX + 1 - frame["age"].term
LOOK_LOOPS = {("sum_of_newest", 0): (adding, AGE_LEFT), ("what_stays", 0): (taking, AGE)}
LOOK = {"cell": cell, "to_slot": a_slot, "to_sub_bucket": sub_bucket_of, "sum_of_newest": sum_of_newest}


def state(is_known, pins=None):
    return lambda run: Look(run, is_known, pins)


@pytest.mark.parametrize("is_known", (True, False))
def test_what_a_ring_says(is_known):
    print("look", is_known, prove(read(FILE), state(is_known), looks, look_hints, LOOK, invariants=LOOK_LOOPS))


def slot_aged(pins=None):
    def begin(run):
        n = Numbers(run, pins)
        ring, slot_, age = n("ring", 3, BUCKETS_MAX + 1), n("slot", 0, BUCKETS_MAX), n("age", 0, BUCKETS_MAX)
        run.know(slot_ < ring)
        run.know(age < ring)
        subs = Struct("sl_subs", {"n": whole(ring - 1)})
        return ring, slot_, age, run.call("slot_aged", [pointer(subs), whole(slot_), whole(age)]).term
    return begin


def is_aged(run, result):
    ring, slot_, age, got = result
    return [("within the ring", z3.And(got >= 0, got < ring)),
            ("so many before", z3.Or(got == slot_ - age, got == slot_ - age + ring))]


def test_a_place_in_the_ring():
    print("slot_aged", prove(read(FILE), slot_aged(), is_aged))


# ---- how far what counts reaches ---------------------------------------------------------------------------------

def reach(edge, pins=None):
    def begin(run):
        n = Numbers(run, pins)
        P, k, t = n("P", PRECISION_MIN, WINDOW_MAX // 2), n("n", 2, BUCKETS_MAX), n("t", 0, TIME_MAX)
        run.know(k * P <= WINDOW_MAX)
        limit = limit_of("sliding-buckets", bucket_count=k, precision_ns=P, window_ns=k * P, edge=EDGES[edge])
        told = run.call("sl_subs_reach", [pointer(limit), whole(t)])
        return t, k * P, P, [run.load_field(told, name).term for name in ("old", "full", "left", "whole")]
    return begin


def reaches(edge):
    """From `old` on it counts, from `full` on in full: of the exact window (t - W, t] no charge is left out but by
    `drop`, which forgets less than P of it; and what is older counts for less than P more."""
    def claims(run, result):
        t, W, P, (old, full, left, all_) = result
        longer = P if edge == "drop" else 0
        return [("nothing of W is left out", z3.Or(full == 0, full <= t - W + P)),
                ("nothing older than W is whole", full > t - W),
                ("what is cut reaches W", z3.Or(old == 0, old <= t - W + longer)),
                ("and less than P beyond", old > t - W - (0 if edge == "drop" else P)),
                ("the weight", left == 0 if edge == "drop" else left == all_ if edge == "count" else
                 z3.And(left * P == all_ * (P - (t - run.divide(t, P)[0] * P)), all_ == P))]
    return claims


def reach_hints(run):
    P, n = z3.Int("P"), z3.Int("n")
    quotients = [q for _, d, q, r in run.divisions.values() if str(d) == "P"]
    return monotone(P, *quotients, n, *(q - n for q in quotients), 0, 1, -1) + times(P, n)


@pytest.mark.parametrize("edge", EDGES)
def test_how_far_it_reaches(edge):
    print("reach", edge, prove(read(FILE), reach(edge), reaches(edge), reach_hints, {"to_sub_bucket": sub_bucket_of}))


# ---- deciding ----------------------------------------------------------------------------------------------------

class Scene:
    """A ring that holds anything, and a call on it."""

    def __init__(self, run, edge, charge, pins):
        n = Numbers(run, pins)
        self.run, self.edge = run, edge
        self.P, self.n, self.moved = (n("P", PRECISION_MIN, WINDOW_MAX // 2), n("n", 2, BUCKETS_MAX),
                                      n("moved", 0, BUCKETS_MAX + 1))
        self.Q, self.c, self.r = n("Q", 1, COUNT_MAX), n("c", 0, 2**32), n("r", 0, WINDOW_MAX)
        for fact in (self.r < self.P, self.moved <= self.n + 1, (self.n + 1) * self.P <= 2 * WINDOW_MAX):
            run.know(fact)
        run.cells, run.scene, run.later = Cells(run), self, z3.IntVal(0)
        full, old = run.cells.sum(self.n - self.moved), run.cells.cost(self.n - self.moved)
        run.facts += [full <= COUNT_MAX, old <= COUNT_MAX]
        run.cut = old
        run.subs = Struct("sl_subs", {"full": whole(full), "old": whole(old), "r": whole(self.r), "n": whole(self.n),
                                      "moved": whole(self.moved)})
        decision = Struct("sluice_decision")
        limit = limit_of("sliding-buckets", quota=self.Q, edge=EDGES[edge], precision_ns=self.P, bucket_count=self.n)
        run.call("sl_subs_step", [pointer(limit), pointer(Struct("sl_counter")), whole(0), whole(self.c), flag(charge),
                                  pointer(decision)])
        self.allowed, self.remaining, self.retry, self.reset = (
            run.load_field(decision, name).term
            for name in ("allowed", "remaining", "retry_after_ns", "reset_after_ns"))

    def full(self, k):
        return self.run.cells.sum(self.n - self.moved - k)

    def old(self, k):
        return self.run.cells.cost(self.n - self.moved - k)

    def admits(self, c, k=0, into=None):
        """The definition, k sub-buckets later and so far into that one."""
        full, old, P = self.full(k), self.old(k), self.P
        if self.edge == "weighted":
            return full * P + old * (P - (self.r if into is None else into)) + c * P <= self.Q * P
        return full + (old if self.edge == "count" else 0) + c <= self.Q

    def admits_after(self, c, wait):
        return self.admits(c, *self.run.divide(self.r + wait, self.P))


def scene(edge, charge=False, pins=None):
    return lambda run: Scene(run, edge, charge, pins)


def look(run, limit, counter, now):
    return pointer(run.subs)


def skip_empty(run, subs, age):
    """Towards the newest, over cells of nothing, to one that holds something or to the newest."""
    to = run.fresh("to")
    run.facts += [to >= 0, to <= age.term, run.cells.sum(to + 1) == run.cells.sum(age.term + 1),
                  z3.Or(to == 0, run.cells.cost(to) > 0)]
    return whole(to)


def walking(run, frame):
    """k sub-buckets later full and old are what they are, and just before that the cost did not fit yet."""
    s, k, room = run.scene, frame["k"].term, frame["room"].term
    run.later, run.cut = k, frame["old"].term
    before = s.full(k - 1) + (s.old(k - 1) if s.edge == "count" else 0)
    return [("what always counts", frame["full"].term == s.full(k)), ("what is cut", frame["old"].term == s.old(k)),
            ("within the ring", z3.And(k >= 0, s.moved + k <= s.n + 1)),
            ("not before", z3.Or(k == 0, before > room))]


def emptying(run, frame):
    age = frame["age"].term
    run.later = frame["last"].term + 1 - age
    return [("nothing is newer", run.cells.sum(age) == 0), ("the age", z3.And(age >= 0, age <= frame["last"].term))]


LOOPS = {("subs_retry", 0): (walking, lambda run, frame: BUCKETS_MAX + 1 - frame["k"].term),
         ("subs_reset", 0): (emptying, AGE_LEFT)}
SUMMARIES = {**QUOTIENTS, "look": look, "cell": cell, "skip_empty": skip_empty}


def a_wait(run, *arguments):
    term = run.fresh("wait")
    run.facts += [term >= 0, term <= TIME_MAX]
    return whole(term)


def is_true(truth):
    return z3.BoolVal(truth) if known(truth) else truth


def decides(run, s):
    return [("the decision is the inequality", z3.Implies(s.c > 0, is_true(s.allowed) == s.admits(s.c))),
            ("a cost of 0 is allowed", z3.Implies(s.c == 0, is_true(s.allowed))),
            ("remaining is admitted", z3.Implies(s.remaining > 0, s.admits(s.remaining))),
            ("and no more", z3.Not(s.admits(s.remaining + 1)))]


def waits(run, s):
    """To the ns."""
    if run.choose(s.allowed):
        return [("allowed, no wait", s.retry == 0)]
    if run.choose(s.c > s.Q):
        return [("a cost above the quota never fits", s.retry == TIME_MAX)]
    return [("a denial has a wait", z3.And(s.retry >= 1, s.retry < TIME_MAX)),
            ("it is admitted then", s.admits_after(s.c, s.retry)),
            ("and not one ns before", z3.Not(s.admits_after(s.c, s.retry - 1)))]


def resets(run, s):
    """Nothing counts any more, and one ns before something did."""
    claims = [("the whole quota is back", s.admits_after(s.Q, s.reset))]
    if run.choose(s.reset > 0):
        claims += [("and not one ns before", z3.Not(s.admits_after(s.Q, s.reset - 1)))]
    return claims


def quotients_of(run):
    return [(q, r) for _, d, q, r in run.divisions.values() if str(d) == "P"]


def decide_hints(run):
    P, Q, c, r = (z3.Int(name) for name in ("P", "Q", "c", "r"))
    s = run.scene
    return monotone(P, *(q for q, _ in quotients_of(run)), Q - s.full(0) - c, Q - s.full(0), s.old(0), 0,
                    COUNT_MAX) + \
        monotone(s.old(0), P - r, 0, 1) + monotone(P - r, s.old(0), 0)


def later_hints(run):
    """Which sub-bucket it is so much later."""
    return monotone(z3.Int("P"), *(q for q, _ in quotients_of(run)), run.later, 0, 1, -1)


def wait_hints(run):
    """What the edge cuts there has the weight P - into."""
    P, s, lemmas = z3.Int("P"), run.scene, later_hints(run)
    floors = [q for _, d, q, _ in run.divisions.values() if str(d) != "P" and not known(d)]
    for q, into in quotients_of(run):
        weights = [w + i for w in floors for i in (0, 1)]
        lemmas += monotone(run.cut, P - into, *weights, 0, 1) + monotone(P - into, run.cut, s.old(q), 0)
        lemmas += monotone(P, s.Q - s.c - s.full(q), s.old(q), 0)
    return lemmas


CLAIMS = {"decides": (decides, {"subs_retry": a_wait, "subs_reset": a_wait}, (decide_hints,)),
          "waits": (waits, {"subs_reset": a_wait}, (decide_hints, later_hints, wait_hints)),
          "resets": (resets, {"subs_retry": a_wait}, (decide_hints, later_hints, wait_hints))}


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("words", CLAIMS)
def test_every_ring(edge, words):
    claims, others, lemmas = CLAIMS[words]
    print(edge, words, prove(read(FILE), scene(edge), claims, lemmas, {**SUMMARIES, **others}, invariants=LOOPS))


# ---- mistakes ----------------------------------------------------------------------------------------------------

RING = {"P": 10**6, "n": 2, "Q": 5}
MISTAKES = [
    ("count", "decides", ("limit->edge == SLUICE_EDGE_COUNT ? old", "limit->edge == SLUICE_EDGE_DROP ? old", 1)),
    ("weighted", "decides", ("return sl_div_ceil(sl_mul(old", "return sl_div(sl_mul(old", 1)),
    ("weighted", "decides", ("limit->precision_ns - into), limit", "limit->precision_ns - 1), limit", 1)),
    ("count", "waits", ("full + (count ? old : 0) > room", "full + (count ? old : 0) > room + 1", 1)),
    ("drop", "waits", ("full > old ? full - old : 0", "full >= old ? full : 0", 1)),
    ("count", "waits", ("old = s->moved + k <= s->n ?", "old = s->moved + k < s->n ?", 1)),
    ("count", "resets", ("age < last && cell(s, age) == 0", "age < last && cell(s, age) != 0", 1)),
    ("count", "resets", ("(last + 1 - sl_min(age, last))", "(last - sl_min(age, last))", 1)),
]


@pytest.mark.parametrize("edge,words,mistake", MISTAKES)
def test_a_mistake_is_refuted(edge, words, mistake):
    claims, others, lemmas = CLAIMS[words]
    found = refuted(read(FILE, mistake), scene(edge, False, RING), claims, lemmas,
                    {**SUMMARIES, "sl_div": div, **others}, invariants=LOOPS)
    print(mistake[:2], found)
    assert found


def test_a_wrong_reading_of_the_ring_is_refuted():
    """Among them the one that stood here: a ring of 4096 that was stale as a whole read as a total."""
    for is_known, mistake in ((False, ("(SL_BUCKETS_MAX + 1) - 1)", "(SL_BUCKETS_MAX + 1))", 1)),
                              (True, ("age-- > s->n - s->moved", "age-- > s->n - s->moved + 1", 1)),
                              (False, ("age = s->stale; age < count", "age = s->stale + 1; age < count", 1)),
                              (True, ("s->moved <= s->n)", "s->moved < s->n)", 1))):
        found = refuted(read(FILE, mistake), state(is_known, {"P": 10**6}), looks, look_hints, LOOK,
                        invariants=LOOK_LOOPS)
        print(mistake[:2], found)
        assert found


def test_a_wrong_reach_is_refuted():
    for edge, mistake in (("count", ("newest - sl_min(newest, limit->window_ns - precision)",
                                     "newest - sl_min(newest, limit->window_ns)", 1)),
                          ("weighted", ("{old, full, precision - into", "{old, full, into", 1))):
        found = refuted(read(FILE, mistake), reach(edge, {"P": 10**6, "n": 3}), reaches(edge), reach_hints,
                        {"to_sub_bucket": sub_bucket_of})
        print(mistake[:2], found)
        assert found
    mistake = ("slot + ring_of(s) - age", "slot + s->n - age", 1)
    found = refuted(read(FILE, mistake), slot_aged({"ring": 3}), is_aged)
    print(mistake[:2], found)
    assert found


def test_a_wrong_division_is_refuted():
    for mistake, begin, claims in (
            (("while (*into >= limit", "while (*into > limit", 1), sub_bucket({"P": 10**6}), is_floor),
            (("return slot >= ring ?", "return slot > ring ?", 1), slot({"ring": 3}), is_slot)):
        found = refuted(read(FILE, mistake), begin, claims, inverse_hints)
        print(mistake[:2], found)
        assert found
