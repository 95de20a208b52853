"""What is written into the ring of sliding-buckets (src/algo/subs.c): charges, refunds and corrections. For every
number of sub-buckets, cost, instant and costs in the ring, of any one cell, which so stands for all:

    a charge adds its cost to the cell of its sub-bucket; all others say what they said, of the same sub-buckets
    what makes a total unknown before a charge or a refund changes nothing of what the cells say
    a refund takes min(cost, what counts), the newest first; of a cell at most what it holds
    a correction changes the cell in which it was charged, down to 0, and up to 2^32 - 1 in all

So at each instant after a refund no more room is there than was given back: the bound of each edge holds net of
refunds. What a ring says, the sum of its cells, is proved in test_subs.py, as is which sub-bucket a cell is of."""
import pytest
import z3

from csource import POINTER, VOID, read
from execute import Infeasible, Ref, Struct, Val, known
from limits import COUNT_MAX, Numbers, TIME_MAX, U32, flag, limit_of, pointer, whole
from solve import prove, refuted
from test_subs import BUCKETS_MAX, Cells, EDGES

FILE, NARROW, TOTAL_MAX = "src/algo/subs.c", 2**16 - 1, COUNT_MAX - BUCKETS_MAX - 2


def is_true(truth):
    return z3.BoolVal(truth) if known(truth) else truth


def least(run, a, b):
    return a if run.choose(a <= b) else b


# ---- charges -----------------------------------------------------------------------------------------------------

class Charge:
    """A charge that needs no other block. One cell is watched: of age `age` when it is made."""

    def __init__(self, run, pins):
        self.run, n = run, Numbers(run, pins)
        run.scene, self.ring = self, n("n", 2, BUCKETS_MAX) + 1
        self.moved, self.stale, self.at = (n(name, 0, BUCKETS_MAX + 1) for name in ("moved", "stale", "slot"))
        self.full, self.c, self.host = n("full", 0, COUNT_MAX), n("c", 1, COUNT_MAX), n("host", 0, COUNT_MAX)
        self.t, self.b, self.raw = n("t", 0, TIME_MAX), n("b", 0, 2**45 - 1), n("raw", 0, COUNT_MAX)
        self.age, self.own_raw = n("age", 0, BUCKETS_MAX), n("own", 0, COUNT_MAX)
        for fact in (self.moved <= self.ring, self.stale <= self.ring, self.at < self.ring, self.age < self.ring,
                     self.full + self.c <= COUNT_MAX):
            run.know(fact)
        self.narrow = run.choose(z3.Bool("narrow"))
        if self.narrow:
            run.facts += [self.raw <= NARROW, self.own_raw <= NARROW]
        self.new = self.new_slot()
        self.watched = place(run, self.new, self.age, self.ring)
        same = self.at == self.watched
        run.facts += [z3.Implies(same, self.own_raw == self.raw)]
        run.facts += [z3.Implies(z3.And(self.moved == 0, self.stale == 0), self.own_raw <= self.full)]
        self.value, self.written = self.raw, []
        self.word = n("total", 0, COUNT_MAX)
        self.state = Struct("sl_state", {"w": [whole(0), whole(self.word * 2**32 + self.host)]})
        self.block = Val(Ref({"cells": None}, "cells"), POINTER)
        subs = Struct("sl_subs", {
            "cells": self.block, "narrow": flag(self.narrow), "n": whole(self.ring - 1), "slot": whole(self.at),
            "stale": whole(self.stale), "moved": whole(self.moved), "b": whole(self.b), "full": whole(self.full),
            "t": whole(self.t)})
        width = 2 if self.narrow else 4
        self.counter = Struct("sl_counter", {"state": self.state, "subs": subs, "block": self.block,
                                             "block_bytes": whole(self.ring * width)})
        self.limit = limit_of("sliding-buckets", bucket_count=self.ring - 1, quota=n("Q", 1, COUNT_MAX))

    def new_slot(self):
        """Where the cell of its sub-bucket stands: as many on from the last charge's, unless all have left."""
        new = self.run.fresh("new")
        self.run.facts += [new >= 0, new < self.ring, z3.Implies(self.moved < self.ring, z3.Or(
            new == self.at + self.moved, new == self.at + self.moved - self.ring))]
        self.run.facts += [z3.Implies(self.moved == 0, new == self.at)]
        return new

    def said(self):
        """What the watched cell said before: of a sub-bucket that was skipped, or of leavings, nothing."""
        return 0 if self.run.choose(self.age < self.moved + self.stale) else self.raw


def place(run, slot, age, ring):
    """slot_aged(): test_subs.py."""
    return slot - age if run.choose(slot >= age) else slot + ring - age


def get(run, subs, slot):
    s = run.scene
    if run.choose(slot.term == s.watched):
        return whole(s.value)
    run.prove(slot.term == s.at, "get: the cell of the last charge's sub-bucket")
    return whole(s.own_raw)


def put(run, subs, slot, cost):
    s = run.scene
    run.prove(z3.And(slot.term >= 0, slot.term < s.ring), "put: a cell of the ring")
    run.prove(z3.And(cost.term >= 0, cost.term <= (NARROW if s.narrow else COUNT_MAX)), "put: a cost that fits")
    if run.choose(slot.term == s.watched):
        s.value = cost.term
    return Val(None, VOID)


def to_slot(run, limit, b):
    run.prove(b.term == run.scene.b, "to_slot: of the charge's sub-bucket")
    return whole(run.scene.new)


def clearing(run, frame):
    s, i = run.scene, frame["i"].term
    return [("so many", z3.And(i >= 0, i <= frame["clear"].term)),
            ("they are cleared", z3.Or(z3.And(s.age < i, s.value == 0), z3.And(s.age >= i, s.value == s.raw)))]


def forget_value(run, frame):
    run.scene.value = run.fresh("value")


WRITE_LOOPS = {("sl_subs_write", 0): (clearing, lambda run, frame: BUCKETS_MAX + 1 - frame["i"].term, 1, forget_value)}
WRITES = {"get": get, "put": put, "to_slot": to_slot}


def writing(pins=None):
    def begin(run):
        s = Charge(run, pins)
        needs = run.call("sl_subs_block_bytes", [pointer(s.limit), pointer(s.counter), Val(s.c, U32)]).term
        if not known(needs) or needs != 0:
            raise Infeasible()  # another block is needed
        run.call("sl_subs_write", [pointer(s.limit), pointer(s.counter), Val(s.c, U32), Val(None, POINTER), whole(0)])
        return s
    return begin


def writes(run, s):
    said, (t, word) = s.said(), (each.term for each in s.state.fields["w"])
    total = s.full + s.c if run.choose(s.full + s.c <= TOTAL_MAX) else COUNT_MAX
    claims = [("the instant", t == s.t), ("what counts, and the cost; unknown above what can be said",
                                          word == total * 2**32 + s.host),
              ("what the cell says", s.value == said + (s.c if run.choose(s.age == 0) else 0))]
    if run.choose(z3.And(s.moved <= s.age, s.moved < s.ring)):
        claims.append(("it is where that sub-bucket was", place(run, s.at, s.age - s.moved, s.ring) == s.watched))
    return claims


def preparing(pins=None):
    def begin(run):
        s = Charge(run, pins)
        run.call("sl_subs_prepare", [pointer(s.counter)])
        return s
    return begin


def prepares(run, s):
    """Until the charge is written, all that it is about to clear reads as nothing."""
    t, word = (each.term for each in s.state.fields["w"])
    unknown, host = run.divide(word, 2**32)
    stale = COUNT_MAX - unknown
    return [("the instant", t == s.t), ("the host's", host == s.host), ("a total that is none", unknown > TOTAL_MAX),
            ("within the ring", z3.And(stale >= 0, stale <= s.ring)),
            ("the cell says what it said", (0 if run.choose(s.age < stale) else s.raw) == s.said())]


def test_a_charge():
    print("sl_subs_write", prove(read(FILE), writing(), writes, summaries=WRITES, invariants=WRITE_LOOPS))
    print("sl_subs_prepare", prove(read(FILE), preparing(), prepares, summaries=WRITES))


# ---- refunds -----------------------------------------------------------------------------------------------------

class Past:
    """A ring that holds anything, by age of the last charge; the watched cell is of age `age`."""

    def __init__(self, run, pins, edge="count", moved=None):
        n = Numbers(run, pins)
        self.run, run.scene, run.cells = run, self, Cells(run)
        self.n, self.age, self.host = n("n", 2, BUCKETS_MAX), n("age", 0, BUCKETS_MAX), n("host", 0, COUNT_MAX)
        self.moved = n("moved", 0, BUCKETS_MAX + 1) if moved is None else moved
        self.stale, self.word = n("stale", 0, BUCKETS_MAX + 1), n("total", 0, COUNT_MAX)
        for fact in (self.moved <= self.n + 1, self.stale <= self.n + 1, self.age <= self.n):
            run.know(fact)
        self.sum = run.cells.sum
        run.facts += [self.sum(self.stale) == 0, self.sum(self.n) <= COUNT_MAX]
        run.facts += [self.sum(self.n + 1) - self.sum(self.n) <= COUNT_MAX]
        self.held = self.value = self.sum(self.age + 1) - self.sum(self.age)
        self.state = Struct("sl_state", {"w": [whole(0), whole(self.word * 2**32 + self.host)]})
        self.block = Val(Ref({"cells": None}, "cells"), POINTER)
        self.subs = Struct("sl_subs", {"cells": self.block, "n": whole(self.n), "stale": whole(self.stale),
                                       "moved": whole(self.moved), "slot": whole(0), "narrow": flag(False),
                                       "full": whole(self.sum(self.n)), "b": whole(n("b", 0, 2**45 - 1))})
        self.counter = Struct("sl_counter", {"state": self.state, "subs": self.subs, "block": self.block,
                                             "block_bytes": whole(4 * (self.n + 1))})
        self.limit = limit_of("sliding-buckets", bucket_count=self.n, edge=EDGES[edge], quota=n("Q", 1, COUNT_MAX))
        self.reach = self.n + (0 if edge == "drop" else 1)


def looked(run, limit, counter, now):
    return pointer(run.scene.subs)


def by_age(run, subs, slot, age):
    """A cell is named by its age: where it stands is slot_aged()."""
    run.prove(z3.And(age.term >= 0, age.term <= run.scene.n), "slot_aged: an age of the ring")
    return whole(age.term)


def get_aged(run, subs, slot):
    s = run.scene
    if run.choose(slot.term == s.age):
        return whole(s.value)
    return whole(run.cells.cost(slot.term))  # no cell is read that was written, but the watched one


def put_aged(run, subs, slot, cost):
    run.prove(z3.And(cost.term >= 0, cost.term <= COUNT_MAX), "put: a cost that fits")
    if run.choose(slot.term == run.scene.age):
        run.scene.value = cost.term
    return Val(None, VOID)


def sum_of_newest(run, subs, count):
    """What the cells then add up to: test_subs.py."""
    run.scene.added = run.fresh("added")
    run.facts += [run.scene.added >= 0, run.scene.added <= COUNT_MAX]
    run.prove(count.term == run.scene.n, "sum_of_newest: of the newest n")
    return whole(run.scene.added)


def refunding(edge, pins=None):
    def begin(run):
        s = Past(run, pins, edge)
        s.c, s.added = Numbers(run, pins)("c", 0, COUNT_MAX), None
        s.changed = run.call("sl_subs_refund", [pointer(s.limit), pointer(s.counter), whole(0), Val(s.c, U32)]).term
        return s
    return begin


def after_taking(s, most, before, value):
    """The watched cell, of which `before` stands ahead, when at most so much is taken from them."""
    return z3.Or(z3.And(most <= before, value == s.held), z3.And(most >= before + s.held, value == 0),
                 z3.And(most >= before, most <= before + s.held, value == before + s.held - most))


def left_over(most, taken, left):
    return z3.Or(z3.And(most >= taken, left == most - taken), z3.And(most <= taken, left == 0))


def taking(run, frame):
    """Of those of age stale..age-1 it has taken what they hold, or all that is to be taken."""
    s, age, left, c = run.scene, frame["age"].term, frame["left"].term, frame["cost"].term
    return [("the age", z3.And(age >= s.stale, z3.Or(age == s.stale, age <= frame["end"].term))),
            ("what is left to take", left_over(c, s.sum(age), left)),
            ("the watched one", z3.Or(z3.And(age <= s.age, s.value == s.held),
                                      z3.And(age > s.age, after_taking(s, c, s.sum(s.age), s.value))))]


def refunds(run, s):
    end = s.reach - s.moved if run.choose(s.moved < s.reach) else z3.IntVal(0)
    counts, (t, word) = s.sum(end), (each.term for each in s.state.fields["w"])
    take = least(run, s.c, counts)
    its = after_taking(s, s.c, s.sum(s.age), s.value) if run.choose(s.age < end) else s.value == s.held
    claims = [("newest first, of what counts", its), ("at most what it holds", z3.And(s.value >= 0, s.value <= s.held)),
              ("whether it changed anything", is_true(s.changed) == (take > 0)), ("the instant stays", t == 0)]
    if not run.choose(z3.And(take > 0, s.stale == 0)):
        return claims + [("a total that is unknown stays so", word == s.word * 2**32 + s.host)]
    total = s.added if run.choose(s.added <= TOTAL_MAX) else COUNT_MAX
    return claims + [("what the cells add up to", word == total * 2**32 + s.host)]


def forget(run, frame):
    run.scene.value = run.fresh("value")


REFUNDS = {"look": looked, "slot_aged": by_age, "get": get_aged, "put": put_aged, "sum_of_newest": sum_of_newest}
REFUND_LOOPS = {("sl_subs_refund", 0): (taking, lambda run, frame: 2 * BUCKETS_MAX + 2 - frame["age"].term, 1, forget)}


@pytest.mark.parametrize("edge", ("count", "drop"))
def test_a_refund(edge):
    print(edge, prove(read(FILE), refunding(edge), refunds, summaries=REFUNDS, invariants=REFUND_LOOPS))


# ---- corrections -------------------------------------------------------------------------------------------------

def correcting(spread, pins=None):
    """One, into a new block. `spread`: from the oldest cell of a stretch on."""
    def begin(run):
        n, s = Numbers(run, pins), Past(run, pins, moved=0)
        s.b, s.value = s.subs.fields["b"].term, run.fresh("garbage")
        s.charged, s.actual = n("charged", 0, COUNT_MAX), n("actual", 0, COUNT_MAX)
        s.of, s.until = n("of", 0, 2**45 - 1), n("until", 0, 2**45 - 1)
        run.know(s.of <= s.until)
        correction = Struct("sl_correction", {"instant": whole(0), "charged": Val(s.charged, U32),
                                              "actual": Val(s.actual, U32), "spread": whole(2 if spread else 0)})
        s.changed = run.call("sl_subs_correct", [
            pointer(s.limit), pointer(s.counter), Val(Ref([correction], 0), POINTER), Val(1, U32),
            Val(Ref({"cells": None}, "cells"), POINTER)]).term
        return s
    return begin


def sub_bucket(run, limit, t, into):
    """Of the instant, and of the last one of a stretch."""
    return whole(run.scene.until if t.term else run.scene.of)


def said(run, subs, age):
    return whole(run.cells.cost(age.term))  # of a stale cell 0


def copying(run, frame):
    s, age = run.scene, frame["age"].term
    return [("the age", z3.And(age >= 0, age <= s.n + 1)), ("what it says", z3.Or(age <= s.age, s.value == s.held))]


def oldest(run, frame):
    """Of those of age first..age+1, the oldest first, it has taken what they hold, or all that is to be taken."""
    s, b, left, most = run.scene, frame["b"].term, frame["left"].term, run.scene.charged
    subs, first, age = run.load(frame["s"].term), s.b - s.of, s.b - b
    total, full = s.sum(s.n), run.load_field(subs, "full").term
    ahead, oldest_ = s.sum(first + 1), s.sum(s.n + 1) - s.sum(s.n)
    return [("the sub-bucket", z3.And(b >= s.of, z3.Or(b == s.of, z3.And(b <= s.b + 1, b <= s.until + 1)))),
            ("what is left to take", left_over(most, ahead - s.sum(age + 1) if run.choose(b > s.of) else 0, left)),
            ("the watched one", z3.Or(
                z3.And(z3.Or(s.age > first, s.age <= age), s.value == s.held),
                z3.And(s.age <= first, s.age > age, after_taking(s, most, ahead - s.sum(s.age + 1), s.value)))),
            ("what counts", z3.Or(z3.And(z3.Or(first < s.n, b == s.of), full == total - most + left),
                                  z3.And(first == s.n, b > s.of, most <= oldest_, full == total - most + left + most),
                                  z3.And(first == s.n, b > s.of, most >= oldest_,
                                         full == total - most + left + oldest_)))]


def forget_full(run, frame):
    forget(run, frame)
    run.load(frame["s"].term).fields["full"] = whole(run.fresh("full"))
    full = run.load(frame["s"].term).fields["full"].term
    run.facts += [full >= 0, full <= TIME_MAX]


CORRECTS = {**REFUNDS, "to_sub_bucket": sub_bucket, "cell": said}
CORRECT_LOOPS = {
    ("sl_subs_correct", 0): (copying, lambda run, frame: BUCKETS_MAX + 2 - frame["age"].term, 1, forget),
    ("take_oldest", 0): (oldest, lambda run, frame: 2**45 + 1 - frame["b"].term, 1, forget_full)}


def is_total(run, s, full, changed):
    _, word = (each.term for each in s.state.fields["w"])
    total = s.word if not changed else full if run.choose(full <= TOTAL_MAX) else COUNT_MAX
    return word == total * 2**32 + s.host


def corrects(run, s):
    """One after the last charge counts as that; an older one than the ring holds changes nothing."""
    age = s.b - s.of if run.choose(s.of <= s.b) else z3.IntVal(0)
    if not run.choose(age <= s.n):
        return [("nothing changes", z3.And(z3.Not(is_true(s.changed)), is_total(run, s, None, False)))]
    held, total, newest = s.sum(age + 1) - s.sum(age), s.sum(s.n), run.choose(age < s.n)
    right, most = held + s.actual - s.charged, COUNT_MAX - (total - held if newest else 0)
    cost = 0 if run.choose(right < 0) else least(run, right, most)
    changed = run.choose(cost != held)
    claims = [("whether it changed anything", is_true(s.changed) == changed),
              ("what counts", is_total(run, s, total - held + cost if newest else total, changed))]
    if changed:
        claims += [("its cell, and no other", s.value == (cost if run.choose(s.age == age) else s.held))]
    return claims


def takes_oldest(run, s):
    """Of the stretch of..until as far as the ring holds it; what it holds of it, at most."""
    first, last = s.b - s.of, s.b - s.until if run.choose(s.until <= s.b) else z3.IntVal(0)
    if not run.choose(z3.And(s.of <= s.b, first <= s.n)):
        return [("nothing changes", z3.And(z3.Not(is_true(s.changed)), is_total(run, s, None, False)))]
    holds = s.sum(first + 1) - s.sum(last)
    changed = run.choose(z3.And(holds > 0, s.charged > 0))
    claims = [("whether it changed anything", is_true(s.changed) == changed)]
    if changed:
        inside = run.choose(z3.And(s.age <= first, s.age >= last))
        its = after_taking(s, s.charged, s.sum(first + 1) - s.sum(s.age + 1), s.value) if inside else s.value == s.held
        claims += [("oldest first", its), ("at most what it holds", z3.And(s.value >= 0, s.value <= s.held))]
    return claims


CORRECTIONS = {"one cell": (False, corrects), "oldest of a stretch": (True, takes_oldest)}


@pytest.mark.parametrize("name", CORRECTIONS)
def test_a_correction(name):
    spread, claims = CORRECTIONS[name]
    print(name, prove(read(FILE), correcting(spread), claims, summaries=CORRECTS, invariants=CORRECT_LOOPS))


# ---- mistakes ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("begin,claims,mistake", (
    (writing, writes, ("clear = sl_min(s->moved + s->stale, ring_of(s)), slot", "clear = sl_min(s->moved, ring_of(s)),"
                       " slot", 1)),
    (writing, writes, ("i < clear; i++)", "i + 1 < clear; i++)", 1)),
    (writing, writes, ("put(s, slot, own + cost);", "put(s, slot, cost);", 1)),
    (writing, writes, ("return s->moved == 0 ? cell(s, 0) : 0;", "return cell(s, 0);", 1)),
    (writing, writes, ("own + cost <= NARROW_MAX))\n\t\treturn 0;", "cost <= NARROW_MAX))\n\t\treturn 0;", 1)),
    (writing, writes, ("set_total(counter, s->full + cost);\n}", "set_total(counter, s->full);\n}", 1)),
    (preparing, prepares, ("set_unknown(counter, sl_min(s->moved + s->stale,", "set_unknown(counter, sl_min(s->moved,",
                           1)),
    (preparing, prepares, ("counter->state.w[0] = s->t;\n\tset_unknown", "set_unknown", 1))))
def test_a_wrong_charge_is_refuted(begin, claims, mistake):
    found = refuted(read(FILE, mistake), begin({"n": 3}), claims, summaries=WRITES,
                    invariants=WRITE_LOOPS)
    print(mistake[:2], found)
    assert found


@pytest.mark.parametrize("mistake", (
    ("take = sl_min(left, held);\n\t\tif (take", "take = left;\n\t\tif (take", 1),
    ("left != 0 && age < end; age++", "left != 0 && age < end + 1; age++", 1),
    ("return s->moved < reach ? reach - s->moved : 0;", "return reach;", 1),
    ("put(s, slot, held - take); /* newest", "put(s, slot, take); /* newest", 1),
    ("if (left == cost)\n\t\treturn false;", "", 1),
    ("if (s->stale == 0)\n\t\tset_total", "set_total", 1)))
def test_a_wrong_refund_is_refuted(mistake):
    found = refuted(read(FILE, mistake), refunding("count", {"n": 3}), refunds, summaries=REFUNDS,
                    invariants=REFUND_LOOPS)
    print(mistake[:2], found)
    assert found


@pytest.mark.parametrize("name,mistake", (
    ("one cell", ("newest ? s->full : held)", "held)", 1)),
    ("one cell", ("s->full = newest ? s->full + corrected - held", "s->full = newest ? s->full + corrected", 1)),
    ("one cell", ("if (age > s->n)\n\t\treturn false;", "if (age >= s->n)\n\t\treturn false;", 1)),
    ("one cell", ("bool newest = age < s->n", "bool newest = age <= s->n", 1)),
    ("one cell", ("age <= s.n && block != from.cells", "age < s.n && block != from.cells", 1)),
    ("oldest of a stretch", ("s->full -= age < s->n ? take : 0", "s->full -= take", 1)),
    ("oldest of a stretch", ("b < end && b <= s->b; b++", "b <= end && b <= s->b; b++", 1)),
    ("oldest of a stretch", ("if (b + s->n < s->b)", "if (b + s->n <= s->b)", 1))))
def test_a_wrong_correction_is_refuted(name, mistake):
    spread, claims = CORRECTIONS[name]
    found = refuted(read(FILE, mistake), correcting(spread, {"n": 3}), claims, summaries=CORRECTS,
                    invariants=CORRECT_LOOPS)
    print(mistake[:2], found)
    assert found
