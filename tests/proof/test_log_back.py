"""What goes back to sliding-log, and what is dropped (src/algo/log.c): refunds, corrections of charges whose true cost
came later, charges whatever the quota and the trim after them. For every ring of up to 2^25 entries whose instants and
sums do not fall, `weighted` or not, and every cost, quota and instant:

    a refund takes min(cost, what counts): the newest entries whole, then of the newest that is left a part
    a trim leaves exactly so much as is to be kept: the oldest entries go whole, then of the oldest that is left a part
    a correction changes the entry of its millisecond, down to nothing and up to 2^32 - 1 in all, or makes one there

So at each instant after a refund no more room is there than was given back: in any window a log admits Q, net of
refunds. That sums and instants do not fall stays true. Sums count modulo 2^32; here they have not come round."""
import pytest
import z3

from csource import POINTER, VOID, read
from execute import Ref, Struct, Val
from limits import COUNT_MAX, Numbers, U32, WINDOW_MAX, limit_of, pointer, whole
from solve import prove, refuted
from test_log import LATEST, MS, READS, RING_MAX, Ring, Rising, log_of, slot

FILE = "src/algo/log.c"


def is_true(truth):
    return z3.BoolVal(truth) if isinstance(truth, bool) else truth


class Log(Ring):
    """A ring in its block, with what is written of its state and its sums."""

    def __init__(self, run, weighted):
        n = Numbers(run)
        super().__init__(run, weighted)
        self.run, self.weighted, self.used = run, weighted, self.total - self.base
        self.capacity, self.head = n("capacity", 1, RING_MAX), n("head", 0, RING_MAX)
        run.facts += [self.head < self.capacity, self.count < self.capacity]
        self.log.fields.update(capacity=Val(self.capacity, U32), head=Val(self.head, U32),
                               last_ms=whole(n("last_ms", 0, LATEST // MS + 1)))
        self.packed, self.lowered = None, None

    def left(self):
        return self.packed[2] if self.packed else self.count

    def slot(self, k):
        return slot(self.run, self.log, k)


def looked(run, limit, counter, now):
    """look() of the state as it is by then."""
    ring = run.ring
    run.prove(z3.And(ring.left() >= ring.expired, ring.left() <= ring.count), "look: what is left")
    fields = ring.log.fields
    fields.update(count=Val(ring.left(), U32), total=Val(ring.sum(ring.left()), U32))
    return pointer(ring.log)


def pack(run, state, last_ms, head, count):
    run.ring.packed = last_ms.term, head.term, count.term
    return Val(None, VOID)


def put_sum(run, log, slot_, sum_):
    run.ring.lowered = slot_.term, sum_.term
    run.prove(run.ring.weighted, "put_sum: a ring of sums")
    run.prove(slot_.term < run.ring.capacity, "put_sum: a slot of the ring")
    return Val(None, VOID)


STATE = {**READS, "look": looked, "pack": pack, "put_sum": put_sum}


# ---- refunds -----------------------------------------------------------------------------------------------------

def refunding(weighted):
    def begin(run):
        ring, ring.c = Log(run, weighted), Numbers(run)("c", 0, COUNT_MAX)
        ring.changed = run.call("sl_log_refund", [pointer(limit_of("sliding-log")), pointer(Struct("sl_counter")),
                                                  whole(0), Val(ring.c, U32)]).term
        return ring
    return begin


def dropping(run, frame):
    """Of the newest ones so many are gone."""
    ring, count, take = run.ring, frame["count"].term, frame["take"].term
    return [("entries that count", z3.And(count >= ring.expired, count <= ring.count)),
            ("if there is something to take", z3.Or(count == ring.count, take > 0)),
            ("no more than that", ring.total - ring.sum(count) <= take)]


def refunds(run, ring):
    take = ring.c if run.choose(ring.c <= ring.used) else ring.used
    left, sum_ = ring.left(), ring.sum(ring.left())
    if ring.lowered:
        at, low = ring.lowered
        claims = [("it is the newest that is left", z3.And(left > ring.expired, at == ring.slot(left))),
                  ("a part of it", z3.And(low < sum_, low > ring.sum(left - 1)))]
    else:
        low, claims = sum_, []
    if ring.packed:
        last_ms, head, _ = ring.packed
        claims += [("the last charge's instant stays", last_ms == ring.log.fields["last_ms"].term),
                   ("the oldest stays", head == ring.head)]
    later = run.fresh("later")  # so many have expired by then
    run.know(z3.And(later >= ring.expired, later <= ring.count))
    before = ring.total - ring.sum(later)
    after = low - ring.sum(later) if run.choose(later < left) else 0
    return claims + [("what was asked for, at most what counts", ring.total - low == take),
                     ("whether it changed anything", is_true(ring.changed) == (take > 0)),
                     ("no more room than was given back, at any instant", before - after <= take),
                     ("and never less", z3.And(after >= 0, after <= before))]


REFUND_LOOPS = {("sl_log_prepare_refund", 0): (dropping, lambda run, frame: frame["count"].term)}


@pytest.mark.parametrize("weighted", (False, True))
def test_a_refund(weighted):
    print(weighted, prove(read(FILE), refunding(weighted), refunds, summaries=STATE, invariants=REFUND_LOOPS))


# ---- charges whatever the quota ----------------------------------------------------------------------------------

def counting(run):
    n = Numbers(run)
    ring, ring.c, ring.Q = Log(run, True), n("c", 0, COUNT_MAX), n("Q", 1, COUNT_MAX)
    counter = Struct("sl_counter")
    ring.got = run.call("sl_log_count", [pointer(limit_of("sliding-log", quota=ring.Q)), pointer(counter), whole(0),
                                         Val(ring.c, U32)]).term
    ring.keep = run.load_field(counter, "keep").term
    return ring


def counts(run, ring):
    return [("no more than was asked", z3.And(ring.got >= 0, ring.got <= ring.c)),
            ("nor than a quota", ring.got <= ring.Q), ("nor than can be said", ring.used + ring.got <= COUNT_MAX),
            ("else all of it", z3.Or(ring.got == ring.c, ring.got == ring.Q, ring.used + ring.got == COUNT_MAX)),
            ("a quota is kept", ring.keep >= ring.Q), ("or what counted", ring.keep >= ring.used),
            ("and no more", z3.Or(ring.keep == ring.Q, ring.keep == ring.used))]


def trimming(weighted):
    """Once; where it says so, the host calls it again."""
    def begin(run):
        ring, ring.keep = Log(run, weighted), Numbers(run)("keep", 1, COUNT_MAX)
        counter = Struct("sl_counter", {"keep": Val(ring.keep, U32)})
        ring.again = run.call("sl_log_trim", [pointer(limit_of("sliding-log")), pointer(counter), whole(0)]).term
        return ring
    return begin


def too_old(run, log, keep):
    """test_log.py."""
    ring, gone = run.ring, run.fresh("gone")
    run.prove(keep.term < ring.total - ring.base, "too_old: more counts than is to be kept")
    run.facts += [gone >= ring.expired, gone <= ring.count, ring.total - ring.sum(gone) >= keep.term,
                  z3.Implies(gone < ring.count, ring.total - ring.sum(gone + 1) < keep.term)]
    ring.gone = gone
    return Val(gone, U32)


def trims(run, ring):
    if not run.choose(ring.used > ring.keep):
        return [("nothing to trim", z3.BoolVal(not ring.packed and not ring.lowered and not ring.again))]
    gone, rest = ring.gone, ring.total - ring.sum(ring.gone)
    if ring.packed:
        last_ms, head, count = ring.packed
        return [("the last charge's instant stays", last_ms == ring.log.fields["last_ms"].term),
                ("from there on", head == ring.slot(gone)), ("to the newest", count == ring.count - gone),
                ("no less than is to be kept", rest >= ring.keep),
                ("one more would be too many", ring.total - ring.sum(gone + 1) < ring.keep),
                ("then what is left over of it", z3.BoolVal(bool(ring.again) and not ring.lowered))]
    claims = [("no entry goes whole", gone == ring.expired), ("it is done", z3.BoolVal(not ring.again))]
    if not ring.lowered:
        return claims + [("exactly what is to be kept is left", rest == ring.keep)]
    at, begins = ring.lowered
    return claims + [("where the oldest begins", at == ring.slot(gone)),
                     ("exactly what is to be kept is left", ring.total - begins == ring.keep),
                     ("sums do not fall", z3.And(begins >= ring.sum(gone), begins <= ring.sum(gone + 1)))]


TRIM = {**STATE, "too_old": too_old}


def test_a_charge_whatever_the_quota():
    print("sl_log_count", prove(read(FILE), counting, counts, summaries=STATE))
    for weighted in (False, True):
        print("sl_log_trim", weighted, prove(read(FILE), trimming(weighted), trims, summaries=TRIM))


# ---- corrections -------------------------------------------------------------------------------------------------

class Costs:
    """The copy that is corrected: entries of costs, whose instants rise."""

    def __init__(self, run, spare):
        n = Numbers(run)
        run.ring = self
        self.count, self.capacity = n("count", 0, RING_MAX), n("capacity", 2, RING_MAX)
        self.last_ms, self.W = n("last_ms", 0, LATEST // MS + 1), n("W", 1, WINDOW_MAX // MS)
        run.facts += [self.count + spare < self.capacity]
        self.instants, sums = Rising(run, LATEST // MS + 1), Rising(run, COUNT_MAX)
        self.sum, self.expired = sums.at, 0
        run.facts += [self.sum(0) == 0]
        self.total, self.put, self.made, self.found = self.sum(self.count), None, None, None
        self.to = log_of(count=self.count, last_ms=self.last_ms, window_ms=self.W)
        self.to.fields.update(capacity=Val(self.capacity, U32), weighted=Val(1, U32))

    def cost(self, k):
        return self.sum(k + 1) - self.sum(k)


def correcting(run):
    """There is room for one more, as sl_log_correct_bytes() has seen to."""
    n, s = Numbers(run), Costs(run, 1)
    s.t, s.charged, s.actual = n("t", 0, LATEST), n("charged", 0, COUNT_MAX), n("actual", 0, COUNT_MAX)
    at = Struct("sl_correction", {"instant": whole(s.t), "charged": Val(s.charged, U32), "actual": Val(s.actual, U32)})
    frame = {"total": whole(s.total)}
    s.changed = run.call("correct_entry", [pointer(s.to), pointer(at), Val(Ref(frame, "total"), POINTER)]).term
    s.total_after = frame["total"].term
    return s


def find_entry(run, log, low, ms):
    """test_log.py; instants of different entries are different here."""
    s, got = run.ring, run.fresh("found")
    run.facts += [got >= low.term, got <= s.count, z3.Implies(got > low.term, s.instants.at(got - 1) < ms.term),
                  z3.Implies(got < s.count, s.instants.at(got) >= ms.term)]
    s.found = got
    return Val(got, U32)


def cost_at(run, to, k):
    run.prove(z3.And(k.term >= 0, k.term < run.ring.count), "cost_at: an entry that is there")
    return Val(run.ring.cost(k.term), U32)


def insert(run, to, k, ms):
    s = run.ring
    run.prove(z3.And(s.count + 1 < s.capacity, k.term <= s.count), "insert: room")
    s.made = k.term, ms.term
    run.load(to.term).fields["count"] = Val(s.count + 1, U32)
    return Val(None, VOID)


def put_cost(run, to, slot_, cost):
    run.ring.put = slot_.term, cost.term
    return Val(None, VOID)


CORRECTS = {**READS, "find_entry": find_entry, "cost_at": cost_at, "insert": insert, "put_sum": put_cost}


def corrects(run, s):
    """The charge's millisecond is one after which it was kept; one after the last counts as that."""
    ms = run.divide(s.t + MS - 1, MS)[0]
    ms = ms if run.choose(ms <= s.last_ms) else s.last_ms
    if run.choose(ms < s.last_ms - s.W):
        return [("it counts no more", z3.BoolVal(not s.changed and not s.put)),
                ("nor does anything change", s.total_after == s.total)]
    if s.found is None:
        return [("what counts is looked for", z3.BoolVal(False))]
    k = s.found
    there = run.choose(z3.And(k < s.count, s.instants.at(k) == ms))
    held = s.cost(k) if there else 0
    right = held + s.actual - s.charged
    cost = 0 if run.choose(right < 0) else right if run.choose(s.total - held + right <= COUNT_MAX) else \
        COUNT_MAX - s.total + held
    claims = [("what counts in all", s.total_after == s.total - held + cost), ("is not below 0", s.total_after >= 0),
              ("nor more than can be said", s.total_after <= COUNT_MAX),
              ("whether it changed anything", is_true(s.changed) == (cost != held))]
    if not s.put:
        return claims + [("nothing else", z3.BoolVal(not s.made))]
    at, put = s.put
    claims += [("in its entry", at == k + 1), ("the cost", put == cost)]
    if not s.made:
        return claims + [("that is there", z3.BoolVal(there))]
    made, instant = s.made
    return claims + [("or is made there", z3.And(made == k, instant == ms)), ("only for more", s.actual > s.charged),
                     ("after those of before", z3.Implies(k > 0, s.instants.at(k - 1) < ms)),
                     ("before those of after", z3.Implies(k < s.count, s.instants.at(k) > ms))]


def summing(run):
    """Costs of what is left, as sums: in place, and none is read that was written."""
    s = Costs(run, 0)
    s.writes = 0
    run.call("sum_up", [pointer(s.to)])
    s.kept = s.to.fields["count"].term
    return s


def put_entry(run, to, slot_, instant, sum_):
    s, k = run.ring, run.frames[-1]["k"].term
    run.prove(z3.And(slot_.term >= 1, slot_.term <= k + 1), "put: over none that is still to be read")
    run.prove(z3.And(instant.term == s.instants.at(k), sum_.term == s.sum(k + 1)), "put: its instant and its sum")
    run.prove(s.cost(k) > 0, "put: an entry that holds something")
    return Val(None, VOID)


def adding_up(run, frame):
    s, k, kept = run.ring, frame["k"].term, frame["kept"].term
    return [("the entries", z3.And(k >= 0, k <= s.count)), ("what they cost", frame["sum"].term == s.sum(k)),
            ("no more than there were", z3.And(kept >= 0, kept <= k)),
            ("none is lost", z3.Implies(kept == 0, s.sum(k) == 0))]


def sums(run, s):
    return [("no more than there were", z3.And(s.kept >= 0, s.kept <= s.count)),
            ("none is lost", z3.Implies(s.kept == 0, s.total == 0))]


SUM_LOOPS = {("sum_up", 0): (adding_up, lambda run, frame: run.ring.count - frame["k"].term)}
SUMS = {**READS, "cost_at": cost_at, "put": put_entry}


def test_a_correction():
    print("correct_entry", prove(read(FILE), correcting, corrects, summaries=CORRECTS))
    print("sum_up", prove(read(FILE), summing, sums, summaries=SUMS, invariants=SUM_LOOPS))


# ---- mistakes ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("mistake", (
    ("log->total - sum_at(log, count - 1) <= take", "log->total - sum_at(log, count - 1) < take", 1),
    ("count > log->expired && log->total", "log->total", 1),
    ("*cost -= log->total - sum_at(log, count);", "", 1),
    ("pack(&counter->state, log->last_ms, log->head, count);", "pack(&counter->state, log->last_ms, log->head, "
     "count - log->expired);", 1),
    ("put_sum(log, slot_of(log, log->count), log->total - take)", "put_sum(log, slot_of(log, log->count), take)", 1),
    ("put_sum(log, slot_of(log, log->count), log", "put_sum(log, slot_of(log, log->count - 1), log", 1),
    ("return dropped;\n\tput_sum", "return false;\n\tput_sum", 1)))
def test_a_wrong_refund_is_refuted(mistake):
    found = refuted(read(FILE, mistake), refunding(True), refunds, summaries=STATE, invariants=REFUND_LOOPS)
    print(mistake[:2], found)
    assert found


@pytest.mark.parametrize("begin,claims,mistake", (
    (counting, counts, ("UINT32_MAX - used);", "UINT32_MAX);", 1)),
    (counting, counts, ("sl_max(limit->quota, used)", "sl_min(limit->quota, used)", 1)),
    (trimming(True), trims, ("used <= counter->keep", "used < counter->keep", 1)),
    (trimming(True), trims, ("slot_of(log, gone), log->count - gone", "log->head, log->count - gone", 1)),
    (trimming(True), trims, ("slot_of(log, gone), log->count - gone", "slot_of(log, gone), log->count", 1)),
    (trimming(True), trims, ("log->total - counter->keep", "log->base + counter->keep", 1)),
    (correcting, corrects, ("to->last_ms - ms > to->window_ms", "to->last_ms - ms >= to->window_ms", 1)),
    (correcting, corrects, ("UINT32_MAX - *total)", "UINT32_MAX)", 1)),
    (correcting, corrects, ("held = k < to->count && instant_at(to, k) == ms ?", "held = k < to->count ?", 1)),
    (correcting, corrects, ("*total = *total + corrected - held;", "*total = *total + corrected;", 1)),
    (correcting, corrects, ("down < held ? down : held", "down", 1, "src/algo/algorithms.h")),
    (summing, sums, ("put(to, ++kept, instant_at(to, k), sum += cost)", "put(to, ++kept, instant_at(to, k), cost)", 1)),
    (summing, sums, ("if (cost != 0)\n\t\t\tput", "if (true)\n\t\t\tput", 1))))
def test_a_mistake_is_refuted(begin, claims, mistake):
    found = refuted(read(FILE, mistake), begin, claims, summaries={
        **TRIM, **(CORRECTS if begin is correcting else SUMS if begin is summing else {})}, invariants=SUM_LOOPS)
    print(mistake[:2], found)
    assert found
