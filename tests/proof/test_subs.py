"""sliding-buckets (src/algo/subs.c): the divisions of instants by stored inverses are exact, and under the edges
`count` and `drop` the decision and `remaining` are those of the contract, for every quota, count and cost:

    count  old + full + c <= Q      drop  full + c <= Q

with full the cost of the sub-buckets b-n+1..b, and old that of b-n, as look() finds them. `weighted`, the waits and the
ring itself are held by models (tests/model), not by proofs."""
import pytest
import z3

from csource import POINTER, read
from execute import Ref, Struct, Val, known
from limits import COUNT_MAX, Numbers, TIME_MAX, WINDOW_MAX, flag, inverse, limit_of, pointer, whole
from solve import monotone, prove, refuted, scaled
from summaries import QUOTIENTS

FILE = "src/algo/subs.c"
EDGES = {"count": 0, "drop": 1}
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


# ---- deciding ----------------------------------------------------------------------------------------------------

class Scene:
    """Sub-buckets that hold anything, and a call."""

    def __init__(self, run, edge, pins):
        n = Numbers(run, pins)
        self.edge, self.P = edge, n("P", PRECISION_MIN, WINDOW_MAX // 2)
        self.Q, self.c, self.r = n("Q", 1, COUNT_MAX), n("c", 0, 2**32), n("r", 0, WINDOW_MAX)
        self.full, self.old = n("full", 0, COUNT_MAX), n("old", 0, COUNT_MAX)
        run.know(self.r < self.P)
        run.subs = Struct("sl_subs", {"full": whole(self.full), "old": whole(self.old), "r": whole(self.r)})
        decision = Struct("sluice_decision")
        limit = limit_of("sliding-buckets", quota=self.Q, edge=EDGES[edge], precision_ns=self.P)
        run.call("sl_subs_step", [pointer(limit), pointer(Struct("sl_counter")), whole(0), whole(self.c), flag(False),
                                  pointer(decision)])
        self.allowed, self.remaining = (run.load_field(decision, name).term for name in ("allowed", "remaining"))

    def admits(self, c):
        return self.full + (self.old if self.edge == "count" else 0) + c <= self.Q


def scene(edge, pins=None):
    return lambda run: Scene(run, edge, pins)


def look(run, limit, counter, now):
    return pointer(run.subs)


def a_wait(run, *arguments):
    """Any: waits are no part of what is proved here."""
    term = run.fresh("wait")
    run.facts += [term >= 0, term <= TIME_MAX]
    return whole(term)


SUMMARIES = {**QUOTIENTS, "look": look, "subs_retry": a_wait, "subs_reset": a_wait}


def is_true(truth):
    return z3.BoolVal(truth) if known(truth) else truth


def decides(run, s):
    return [("the decision is the inequality", z3.Implies(s.c > 0, is_true(s.allowed) == s.admits(s.c))),
            ("a cost of 0 is allowed", z3.Implies(s.c == 0, is_true(s.allowed))),
            ("remaining is admitted", z3.Implies(s.remaining > 0, s.admits(s.remaining))),
            ("and no more", z3.Not(s.admits(s.remaining + 1)))]


@pytest.mark.parametrize("edge", EDGES)
def test_the_decision(edge):
    print(edge, prove(read(FILE), scene(edge), decides, None, SUMMARIES))


# ---- mistakes ----------------------------------------------------------------------------------------------------

def test_a_mistake_is_refuted():
    mistake = ("limit->edge == SLUICE_EDGE_COUNT ? old : 0", "limit->edge == SLUICE_EDGE_DROP ? old : 0", 1)
    found = refuted(read(FILE, mistake), scene("count", {"P": 10**6, "Q": 5}), decides, None, SUMMARIES)
    print(mistake[:2], found)
    assert found


def test_a_wrong_division_is_refuted():
    for mistake, begin, claims in (
            (("while (*into >= limit", "while (*into > limit", 1), sub_bucket({"P": 10**6}), is_floor),
            (("return slot >= ring ?", "return slot > ring ?", 1), slot({"ring": 3}), is_slot)):
        found = refuted(read(FILE, mistake), begin, claims, inverse_hints)
        print(mistake[:2], found)
        assert found
