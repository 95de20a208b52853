"""sliding-log (src/algo/log.c): the millisecond that a charge is kept at, the wait until an entry
has left the window, and by what counts the decision, `remaining`, and what has to be left for a denied cost. For every
window, quota, cost, count, and instant up to the year 2262:

    used + c <= Q        used = total - base, the cost of the entries that have not expired

And of a ring of any length whose instants and sums do not fall (I2): where entry k stands, wherever the ring begins;
that each search (for what has expired, an instant, what has to leave, what is too old) ends at the one entry that it is
for, asks for none that is not there, and where it halves, leaves half at most with each round, so that 26 are enough;
and that what a charge writes in place, or moves, stands within the block and over nothing that counts. What refunds,
corrections and trims write is proved in test_log_back.py. Sums count modulo 2^32; here they have not come round."""
import pytest
import z3

from csource import POINTER, U64, VOID, read
from execute import Infeasible, Ref, Struct, Val, known
from limits import COUNT_MAX, NEVER, Numbers, U32, WINDOW_MAX, flag, limit_of, pointer, whole
from solve import prove, refuted

FILE, MS, LATEST = "src/algo/log.c", 10**6, 2**63 - 1


def log_of(**fields):
    types = {"total": U32, "base": U32, "count": U32, "expired": U32}
    return Struct("sl_log", {name: Val(term, types.get(name, U64)) for name, term in fields.items()})


# ---- instants ----------------------------------------------------------------------------------------------------

def kept(run):
    t = Numbers(run)("t", 0, LATEST)
    return t, run.call("charge_ms", [pointer(log_of(t=t))]).term


def is_rounded_up(run, result):
    t, ms = result
    return [("not earlier", ms * MS >= t), ("less than a millisecond later", ms * MS < t + MS)]


def leaving(run):
    """An entry that counts: it was kept at t or before, rounded up, and its window is not over."""
    n = Numbers(run)
    t, W, ms = n("t", 0, LATEST), n("W", 1, WINDOW_MAX // MS), n("ms", 0, LATEST // MS + 1)
    run.facts += [ms * MS < t + MS, (ms + W) * MS > t]
    return t, W, ms, run.call("wait_for", [pointer(log_of(t=t, window_ms=W)), whole(ms)]).term


def leaves(run, result):
    t, W, ms, wait = result
    return [("gone at exactly its instant and a window", t + wait == (ms + W) * MS),
            ("after 1 ns to a window and 1 ms", z3.And(wait >= 1, wait <= (W + 1) * MS))]


def test_a_charge_is_kept_rounded_up():
    print(prove(read(FILE), kept, is_rounded_up))


def test_an_entry_leaves_a_window_after_its_instant():
    print(prove(read(FILE), leaving, leaves))


# ---- deciding ----------------------------------------------------------------------------------------------------

class Scene:
    """What look() has found, whatever it was, and a call."""

    def __init__(self, run, charge):
        n = Numbers(run)
        self.Q, self.c, self.W = n("Q", 0, COUNT_MAX), n("c", 0, 2**32), n("W", 1, WINDOW_MAX // MS)
        total, base = n("total", 0, COUNT_MAX), n("base", 0, COUNT_MAX)
        count, expired = n("count", 0, 2**25), n("expired", 0, 2**25)
        self.used, self.keep, self.wait = total - base, None, None
        run.facts += [base <= total, expired <= count, z3.Implies(total > base, expired < count)]
        run.scene, self.log = self, log_of(total=total, base=base, count=count, expired=expired, window_ms=self.W)
        decision = Struct("sluice_decision")
        run.call("sl_log_step", [pointer(limit_of("sliding-log", quota=self.Q)), pointer(Struct("sl_counter")),
                                 whole(0), whole(self.c), flag(charge), pointer(decision)])
        self.allowed, self.remaining, self.retry, self.reset = (
            run.load_field(decision, name).term
            for name in ("allowed", "remaining", "retry_after_ns", "reset_after_ns"))


def looked(run, *arguments):
    return Val(Ref({"it": run.scene.log}, "it"), POINTER)


def wait_until_left(run, log, keep):
    scene = run.scene
    run.prove(keep.term < scene.used, "wait_until_left: less is to be kept than counts")
    scene.keep, scene.wait = keep.term, run.fresh("wait")
    run.facts += [scene.wait >= 1, scene.wait <= (scene.W + 1) * MS]
    return whole(scene.wait)


def log_reset(run, log):
    return whole(0)


SUMMARIES = {"look": looked, "wait_until_left": wait_until_left, "log_reset": log_reset}


def decides(run, s):
    allowed = z3.BoolVal(s.allowed) if isinstance(s.allowed, bool) else s.allowed
    claims = [("the decision is the inequality", z3.Implies(s.c > 0, allowed == (s.used + s.c <= s.Q))),
              ("a cost of 0 is allowed", z3.Implies(s.c == 0, allowed))]
    if run.choose(s.allowed):
        claims.append(("allowed, no wait", s.retry == 0))
    elif s.keep is None:
        claims += [("a cost above the quota", s.c > s.Q), ("never fits", s.retry == NEVER)]
    else:
        claims += [("what is to be kept leaves room for the cost, and no more", s.keep + s.c == s.Q),
                   ("the wait is for that", s.retry == s.wait)]
    return claims


def remains(charge):
    def claims(run, s):
        charged = run.choose(s.allowed) and charge
        left = s.Q - s.used - (s.c if charged else 0)
        return [("remaining", z3.Implies(left >= 0, s.remaining == left)),
                ("nothing remains above the quota", z3.Implies(left < 0, s.remaining == 0)),
                ("reset", z3.Implies(z3.And(s.c > 0, charged), s.reset == s.W * MS))]
    return claims


def test_decisions():
    for charge in (False, True):
        print(prove(read(FILE), lambda run, charge=charge: Scene(run, charge), decides, summaries=SUMMARIES))
        print(prove(read(FILE), lambda run, charge=charge: Scene(run, charge), remains(charge), summaries=SUMMARIES))


# ---- searches ----------------------------------------------------------------------------------------------------

RING_MAX = 2**25  # entries


class Rising:
    """Numbers by position that do not fall, whatever they are."""

    def __init__(self, run, most):
        self.run, self.most, self.points = run, most, []

    def at(self, point):
        point = z3.simplify(z3.IntVal(point) if known(point) else point)
        for other, its in self.points:
            if other.eq(point):
                return its
        its = self.run.fresh("at")
        self.run.facts += [its >= 0, its <= self.most]
        for other, others in self.points:
            self.run.facts += [z3.Implies(other <= point, others <= its), z3.Implies(point <= other, its <= others)]
        self.points.append((point, its))
        return its


class Ring:
    """A log as look() has found it, `weighted` or not: sums and instants of any size that do not fall."""

    def __init__(self, run, weighted=True, **more):
        n = Numbers(run)
        self.count, self.expired = n("count", 0, RING_MAX), n("expired", 0, RING_MAX)
        run.facts += [self.expired <= self.count]
        self.instants = Rising(run, LATEST // MS + 1)
        sums = Rising(run, COUNT_MAX)
        self.sum = sums.at if weighted else lambda point: point
        self.total, self.base = self.sum(self.count), self.sum(self.expired)
        run.ring, self.log = self, log_of(count=self.count, expired=self.expired, total=self.total, base=self.base,
                                          **more)
        self.log.fields["weighted"] = Val(int(weighted), U32)


def instant_of(run, log, k):
    run.prove(k.term < run.ring.count, "instant_at: an entry that is there")
    return whole(run.ring.instants.at(k.term))


def sum_of(run, log, k_plus_1):
    run.prove(k_plus_1.term <= run.ring.count, "sum_at: an entry that is there")
    return Val(run.ring.sum(k_plus_1.term), U32)


READS = {"instant_at": instant_of, "sum_at": sum_of}


def one(name):
    return lambda run, frame: frame[name].term


def apart(run, frame):
    return frame["high"].term - frame["low"].term


def is_first_that(low, got, high, goes):
    """`goes` of a position: false of all before `got`, true from there on; low..high were looked at."""
    return [("within what was looked at", z3.And(low <= got, got <= high)),
            ("none before it", z3.Implies(got > low, z3.Not(goes(got - 1)))),
            ("it, unless there is none", z3.Implies(got < high, goes(got)))]


def halving(run, frame, low, high, goes):
    """Between those that do not and the first that does."""
    at, to = frame["low"].term, frame["high"].term
    return [("the rest", z3.And(low <= at, at <= to, to <= high)),
            ("none before", z3.Implies(at > low, z3.Not(goes(at - 1)))),
            ("the last does", z3.Implies(to < high, goes(to)))]


def expiring(run):
    edge, ring = Numbers(run)("edge", 0, LATEST // MS + 1), Ring(run)
    got = run.call("count_expired", [pointer(ring.log), whole(edge)]).term
    return ring, got, lambda k: ring.instants.at(k) > edge


def expires(run, result):
    ring, got, goes = result
    return is_first_that(0, got, ring.count, goes)


def galloping(run, frame):
    low, high, ring = frame["low"].term, frame["high"].term, run.ring
    return [("ahead", z3.And(low >= 0, low < high, low < ring.count)),
            ("doubled", z3.And(high >= 1, high <= 2 * ring.count)),
            ("what is passed has expired", ring.instants.at(low) <= frame["edge_ms"].term)]


def finding(run):
    n = Numbers(run)
    low, ms, ring = n("low", 0, RING_MAX), n("ms", 0, LATEST // MS + 1), Ring(run)
    run.know(low <= ring.count)
    run.low, run.goes = low, lambda k: ring.instants.at(k) >= ms
    return ring, low, run.call("find_entry", [pointer(ring.log), Val(low, U32), whole(ms)]).term


def finds(run, result):
    ring, low, got = result
    return is_first_that(low, got, ring.count, run.goes)


def waiting(weighted):
    def begin(run):
        keep, ring = Numbers(run)("keep", 0, COUNT_MAX), Ring(run, weighted)
        run.facts += [ring.expired < ring.count, keep < ring.total - ring.base]
        run.goes = lambda k: ring.total - ring.sum(k + 1) <= keep
        run.waited = []
        run.call("wait_until_left", [pointer(ring.log), Val(keep, U32)])
        return ring
    return begin


def wait_of(run, log, instant):
    run.waited.append(instant.term)
    return whole(0)


def waits(run, ring):
    """The oldest entry with which enough has gone is the one that is waited for: by its instant, `got` is it."""
    got = run.fresh("got")
    run.facts += [got >= ring.expired, got < ring.count, run.goes(got), z3.Or(got == ring.expired,
                                                                            z3.Not(run.goes(got - 1)))]
    claims = is_first_that(ring.expired, got, ring.count - 1, run.goes)
    return claims + [("its instant", ring.instants.at(got) == run.waited[0])]


def too_old(run):
    keep, ring = Numbers(run)("keep", 0, COUNT_MAX), Ring(run)
    run.facts += [keep < ring.total - ring.base]
    return ring, keep, run.call("too_old", [pointer(ring.log), Val(keep, U32)]).term


def goes_whole(run, result):
    ring, keep, got = result
    return [("within the ring", z3.And(ring.expired <= got, got <= ring.count)),
            ("enough is left", ring.total - ring.sum(got) >= keep),
            ("one more is too many", z3.Implies(got < ring.count, ring.total - ring.sum(got + 1) < keep))]


def aging(run, frame):
    low, high, ring, keep = frame["low"].term, frame["high"].term, run.ring, frame["keep"].term
    return [("the rest", z3.And(ring.expired <= low, low <= high, high <= ring.count)),
            ("these may go", ring.total - ring.sum(low) >= keep),
            ("one more may not", z3.Implies(high < ring.count, ring.total - ring.sum(high + 1) < keep))]


SEARCHES = {
    "count_expired": (expiring, expires, {
        ("count_expired", 0): (galloping, lambda run, frame: 2 * run.ring.count - frame["high"].term),
        ("count_expired", 1): (lambda run, frame: halving(run, frame, 1, run.ring.count, lambda k: run.ring.instants.at(
            k) > frame["edge_ms"].term), apart, 2)}),
    "find_entry": (finding, finds, {("find_entry", 0): (
        lambda run, frame: halving(run, frame, run.low, run.ring.count, run.goes), apart, 2)}),
    "wait_until_left": (waiting(True), waits, {("wait_until_left", 0): (
        lambda run, frame: halving(run, frame, run.ring.expired, run.ring.count - 1, run.goes), apart, 2)}),
    "wait_until_left of a unit log": (waiting(False), waits, {("wait_until_left", 0): (
        lambda run, frame: halving(run, frame, run.ring.expired, run.ring.count - 1, run.goes), apart, 2)}),
    "too_old": (too_old, goes_whole, {("too_old", 0): (aging, apart, 2)}),
}
SEARCH_READS = {**READS, "wait_for": wait_of}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_finds_the_one_entry(name):
    begin, claims, loops = SEARCHES[name]
    print(name, prove(read(FILE), begin, claims, summaries=SEARCH_READS, invariants=loops))


# ---- the ring ----------------------------------------------------------------------------------------------------

def slot(run, log, k):
    return run.call("slot_of", [pointer(log), Val(k, U32)]).term


def standing(run):
    n = Numbers(run)
    capacity, head, k = n("capacity", 1, RING_MAX), n("head", 0, RING_MAX), n("k", 0, RING_MAX)
    run.facts += [head < capacity, k <= capacity]
    log = Struct("sl_log", {"capacity": Val(capacity, U32), "head": Val(head, U32)})
    return head, capacity, k, slot(run, log, k)


def stands(run, result):
    head, capacity, k, got = result
    return [("within the ring", z3.And(got >= 0, got < capacity)),
            ("so many after the head, or a turn less", z3.Or(got == head + k, got == head + k - capacity))]


def writing(weighted):
    """A charge that sl_log_block_bytes() says needs no other block, and what sl_log_write() then writes."""
    def begin(run):
        n = Numbers(run)
        ring = Ring(run, weighted, t=n("t", 0, LATEST))
        cost, ring.capacity, head = n("cost", 1, COUNT_MAX), n("capacity", 1, RING_MAX), n("head", 0, RING_MAX)
        run.facts += [head < ring.capacity, ring.count < ring.capacity, ring.total + cost <= COUNT_MAX]
        ring.log.fields.update(capacity=Val(ring.capacity, U32), head=Val(head, U32))
        run.merged = z3.And(z3.Bool("merges"), ring.expired < ring.count) if weighted else z3.BoolVal(False)
        counter = Struct("sl_counter", {"log": ring.log, "block": pointer(ring.log)})
        limit = limit_of("sliding-log", quota=n("Q", 1, COUNT_MAX))
        needs = run.call("sl_log_block_bytes", [pointer(limit), pointer(counter), Val(cost, U32)]).term
        assert known(needs) and needs == 0
        run.call("sl_log_write", [pointer(counter), Val(cost, U32), Val(None, POINTER), whole(0)])
        return ring, cost
    return begin


def merges(run, log, live):
    return flag(run.merged)


def moves(run, log, cost, entries):
    raise Infeasible()  # another block is needed


def put(run, log, slot_, instant, sum_):
    run.wrote = slot_.term, sum_.term
    run.prove(slot_.term < run.load_field(run.load(log.term), "capacity").term, "put: a slot of the ring")
    return Val(None, VOID)


def pack(run, state, last_ms, head, count):
    run.packed = head.term, count.term
    return Val(None, VOID)


WRITES = {**READS, "merges": merges, "plan": moves, "put": put, "pack": pack}


def writes(run, result):
    ring, cost = result
    (at, sum_), (head, count) = run.wrote, run.packed
    merged, live, j = run.choose(run.merged), ring.count - ring.expired, run.fresh("j")
    run.facts += [j >= 0, j < count]  # any entry before the newest, or the one before the oldest
    other = slot(run, ring.log, ring.expired + j)
    return [("within the ring", z3.And(at >= 0, at < ring.capacity)), ("room is left", count < ring.capacity),
            ("the state begins at what counts", head == slot(run, ring.log, ring.expired)),
            ("one more, unless it is merged", count == (live if merged else live + 1)),
            ("the newest of the state", z3.Or(at == head + count, at == head + count - ring.capacity)),
            ("over nothing else that counts", at != other), ("the sum", sum_ == ring.total + cost)]


def moving(weighted, to_weighted):
    def begin(run):
        ring, capacity = Ring(run, weighted), Numbers(run)("room", 2, RING_MAX)
        ring.room = capacity
        to = Struct("sl_log", {"capacity": Val(capacity, U32), "weighted": Val(int(to_weighted), U32)})
        return ring, run.call("move_entries", [pointer(ring.log), pointer(to)]).term
    return begin


def moving_on(run, frame):
    used, k, ring = frame["used"].term, frame["k"].term, run.ring
    run.last = k
    return [("entries", z3.And(ring.expired <= k, k <= ring.count)), ("no more than there were", z3.And(
        used >= 0, used <= k - ring.expired)), ("room for a charge", used + 1 < ring.room)]


def moved(run, result):
    ring, used = result
    return [("all, where there is room for them", z3.Implies(ring.count - ring.expired + 2 <= ring.room,
                                                             run.last == ring.count)),
            ("room for a charge", z3.And(used <= ring.count - ring.expired, used + 1 < ring.room))]


MOVES = {("move_entries", 0): (moving_on, lambda run, frame: run.ring.count - frame["k"].term)}


def test_where_an_entry_stands():
    print("slot_of", prove(read(FILE), standing, stands))


@pytest.mark.parametrize("weighted", (False, True))
def test_a_charge_writes_over_nothing_that_counts(weighted):
    print("sl_log_write", prove(read(FILE), writing(weighted), writes, summaries=WRITES))
    for to_weighted in (weighted, True):
        print("move_entries", prove(read(FILE), moving(weighted, to_weighted), moved, summaries=WRITES,
                                    invariants=MOVES))


# ---- mistakes ----------------------------------------------------------------------------------------------------

def test_a_mistake_is_refuted():
    for begin, claims, mistake in (
            (kept, is_rounded_up, ("log->t / SL_MS_NS + (log->t % SL_MS_NS != 0)", "log->t / SL_MS_NS + 1", 1)),
            (kept, is_rounded_up, ("log->t / SL_MS_NS + (log->t % SL_MS_NS != 0)", "log->t / SL_MS_NS", 1)),
            (leaving, leaves, ("(log->window_ms + 1) * SL_MS_NS", "log->window_ms * SL_MS_NS", 1)),
            (leaving, leaves, ("(instant + log->window_ms) * SL_MS_NS - log->t",
                               "(instant + log->window_ms + 1) * SL_MS_NS - log->t", 1)),
            (lambda run: Scene(run, True), decides, ("(uint32_t)(quota - cost)", "(uint32_t)(quota - cost) + 1", 1)),
            (lambda run: Scene(run, True), decides, ("cost > quota ? SLUICE_NEVER", "cost >= quota ? SLUICE_NEVER", 1)),
            (lambda run: Scene(run, True), remains(True), ("(uint32_t)(room - cost)", "room", 1))):
        found = refuted(read(FILE, mistake), begin, claims, None, SUMMARIES)
        print(mistake[:2], found)
        assert found


@pytest.mark.parametrize("name,mistake", (
    ("count_expired", ("instant_at(log, 0) > edge_ms", "instant_at(log, 0) >= edge_ms", 1)),
    ("count_expired", ("instant_at(log, high) <= edge_ms", "instant_at(log, high) < edge_ms", 1)),
    ("count_expired", ("high = high < log->count ? high : log->count;", "", 1)),
    ("count_expired", ("for (low++; low < high;)", "for (; low < high;)", 1)),
    ("count_expired", ("instant_at(log, middle) <= edge_ms", "instant_at(log, middle) < edge_ms", 1)),
    ("count_expired", ("low = middle + 1", "low = middle", 1)),
    ("find_entry", ("instant_at(log, middle) < ms", "instant_at(log, middle) <= ms", 1)),
    ("find_entry", ("uint32_t high = log->count;", "uint32_t high = log->count + 1;", 1)),
    ("wait_until_left", ("sum_at(log, middle + 1) <= keep", "sum_at(log, middle + 1) < keep", 1)),
    ("wait_until_left", ("sum_at(log, middle + 1) <= keep", "sum_at(log, middle) <= keep", 1)),
    ("wait_until_left of a unit log", ("log->count - keep - 1", "log->count - keep", 1)),
    ("too_old", (">= keep", "> keep", 1)),
    ("too_old", ("high - (high - low) / 2", "low + (high - low) / 2", 1)),
    ("too_old", ("high = middle - 1", "high = middle", 1))))
def test_a_wrong_search_is_refuted(name, mistake):
    begin, claims, loops = SEARCHES[name]
    found = refuted(read(FILE, mistake), begin, claims, None, SEARCH_READS, invariants=loops)
    print(mistake[:2], found)
    assert found


def test_a_wrong_place_in_the_ring_is_refuted():
    for begin, claims, mistake in (
            (standing, stands, ("slot >= log->capacity ?", "slot > log->capacity ?", 1)),
            (writing(True), writes, ("need <= capacity &&", "need <= capacity + 1 &&", 1)),
            (writing(True), writes, ("!merges(log, live) + 1;", "!merges(log, live);", 1)),
            (writing(False), writes, ("slot_of(log, log->expired + live)", "slot_of(log, live)", 1)),
            (writing(True), writes, ("live += !merges(log, live);", "live++;", 1)),
            (writing(False), writes, ("slot_of(log, log->expired), live);\n}", "log->head, live);\n}", 1)),
            (moving(True, True), moved, ("used + 2 < to->capacity", "used + 1 < to->capacity", 1)),
            (moving(True, True), moved, ("used += !(to->weighted", "used += 1 + !(to->weighted", 1))):
        found = refuted(read(FILE, mistake), begin, claims, None, WRITES, invariants=MOVES)
        print(mistake[:2], found)
        assert found
