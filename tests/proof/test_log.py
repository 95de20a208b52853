"""sliding-log (src/algo/log.c), what is no search: the millisecond that a charge is kept at, the wait until an entry
has left the window, and by what counts the decision, `remaining`, and what has to be left for a denied cost. For every
window, quota, cost, count, and instant up to the year 2262:

    used + c <= Q        used = total - base, the cost of the entries that have not expired

Not proved, and held by models (tests/model): which entries have expired and which one has to leave, which are searches
in the ring, and what charges write into it. Sums count modulo 2^32; here they have not come round."""
import z3

from csource import POINTER, U64, read
from execute import Ref, Struct, Val
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
