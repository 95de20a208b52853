"""Quotients and waits (src/base/math.h): exact for every dividend of 128 bits and divisor of 64, and saturating; and
the lemmas on products by which the other proofs are done.

sl_div_wide() is one instruction on x86-64, taken at its maker's word; elsewhere it is sl_div_bit_by_bit(), of
which each of its 64 steps is proved here: 2 high + bit = q d + high' with high' < d. So after all of them
high 2^64 + low = quotient d + high', which is what floor(n / d) means. tests/unit/math_test.c holds both together."""
import pytest
import z3
from pycparser import c_ast

from csource import Int, read
from execute import Val
from limits import NEVER, Numbers, TIME_MAX, whole
from solve import WHOLE_STEPS, monotone, prove, refuted, solve, times
from summaries import capped

FILE = "src/algo/window.c"  # whose headers have them
HEADER = "src/base/math.h"
U128 = Int(128, False)


def is_valid(lemma):
    return solve(z3.Solver(), [z3.Not(lemma)], WHOLE_STEPS, "lemma") == z3.unsat


def test_the_lemmas_hold_for_all_whole_numbers():
    a, b, f = z3.Ints("a b f")
    lemmas = monotone(f, a, b)
    assert len(lemmas) == 4
    for lemma in lemmas:
        assert is_valid(lemma)
        assert not is_valid(z3.Implies(f < 0, lemma.arg(1))), "the premise is needed"
    assert is_valid(times(a, b)[0])


# ---- the schoolbook's step ---------------------------------------------------------------------------------------

def step(bit):
    """The body of sl_div_bit_by_bit()'s loop, once."""
    def begin(run):
        n = Numbers(run)
        high, low, d = n("high", 0, TIME_MAX), n("low", 0, TIME_MAX), n("d", 1, TIME_MAX)
        run.facts.append(high < d)
        loop = [node for node in run.unit.walk(run.unit.functions["sl_div_bit_by_bit"]) if isinstance(node, c_ast.For)]
        run.frames.append({"high": whole(high), "low": whole(low), "d": whole(d), "quotient": whole(0),
                           "bit": Val(bit, Int(32, True))})
        run.wraps = True  # of 65 bits the loop keeps one apart
        run.run(loop[0].stmt)
        frame = run.frames.pop()
        return high, low, d, frame["high"].term, frame["quotient"].term
    return begin


def is_a_step(bit):
    def claims(run, result):
        high, low, d, after, q = result
        digit = run.divide(run.divide(low, 1 << bit)[0], 2)[1]
        return [("a digit", z3.Or(q == 0, q == 1) if not isinstance(q, int) else q in (0, 1)),
                ("a rest", z3.And(after >= 0, after < d)),
                ("2 high + bit = q d + rest", 2 * high + digit == q * d + after)]
    return claims


@pytest.mark.parametrize("bit", [0, 1, 31, 32, 62, 63])
def test_a_step_of_the_schoolbook(bit):
    print(prove(read(FILE), step(bit), is_a_step(bit)))


# ---- quotients ---------------------------------------------------------------------------------------------------

def wide(run, n, d):
    run.prove(d.term > 0, "sl_div_wide: a divisor above 0")
    return capped(run, run.divide(n.term, d.term)[0])


def quotient(name, most=2**128 - 1):
    def begin(run):
        number = Numbers(run)
        n, d = number("n", 0, most), number("d", 1, TIME_MAX)
        return n, d, run.call(name, [Val(n, U128), whole(d)]).term
    return begin


def is_floor(run, result):
    n, d, q = result
    return [("the floor, or the most", z3.Or(z3.And(q * d <= n, n < q * d + d), z3.And(q == NEVER, n >= 2**64 * d)))]


def is_ceiling(run, result):
    n, d, q = result
    return [("the ceiling, or the most", z3.Or(z3.And(q * d >= n, n > q * d - d),
                                               z3.And(q == NEVER, n >= NEVER * d)))]


def quotient_hints(run):
    """Of a dividend below 2^64: its quotient is no larger."""
    lemmas = []
    for n, d, q, r in run.divisions.values():
        if not isinstance(d, int):
            lemmas += monotone(d, q, 0, 1, 2**64 - 1, 2**64)
    return lemmas


QUOTIENTS = {"sl_div": is_floor, "sl_div_ceil": is_ceiling}


@pytest.mark.parametrize("name", QUOTIENTS)
def test_quotients(name):
    most = 2**128 - 1 if name == "sl_div" else 2**128 - 2**64
    print(name, prove(read(FILE), quotient(name, most), QUOTIENTS[name], quotient_hints, {"sl_div_wide": wide}))


# ---- waits -------------------------------------------------------------------------------------------------------

def wait(pins=None):
    def begin(run):
        n = Numbers(run, pins)
        count, passed, tick = n("count", 0, TIME_MAX), n("passed", 0, 10**6 - 1), n("tick", 1, 10**6)
        run.know(passed < tick)
        return count * tick - passed, run.call("sl_wait", [whole(count), whole(tick), whole(passed)]).term
    return begin


def is_the_wait(run, result):
    exact, got = result
    return [("exact", z3.Implies(z3.And(exact >= 0, exact < NEVER), got == exact)),
            ("none is below 0", z3.Implies(exact < 0, got == 0)),
            ("the longest that can be said", z3.Implies(exact >= NEVER, got == NEVER - 1))]


def wait_hints(run):
    count, tick = z3.Int("count"), z3.Int("tick")
    return monotone(tick, count, 0, TIME_MAX) + monotone(count, tick, 10**6)


def plus(run):
    n = Numbers(run)
    a, b = n("a", 0, TIME_MAX), n("b", 0, TIME_MAX)
    return a + b, run.call("sl_ns_plus", [whole(a), whole(b)]).term


def is_the_sum(run, result):
    exact, got = result
    return [("exact", z3.Implies(exact < NEVER - 1, got == exact)),
            ("the end of time", z3.Implies(exact >= NEVER - 1, got == NEVER - 1))]


def test_waits():
    print("sl_wait", prove(read(FILE), wait(), is_the_wait, wait_hints))
    print("sl_ns_plus", prove(read(FILE), plus, is_the_sum))


# ---- mistakes ----------------------------------------------------------------------------------------------------

def test_mistakes_are_refuted():
    def found(mistake, *arguments, **named):
        witness = refuted(read(FILE, mistake + (1, HEADER)), *arguments, **named)
        print(mistake, witness)
        assert witness

    found(("carry != 0 || high >= d", "carry != 0 || high > d"), step(0), is_a_step(0))
    found(("carry != 0 || high >= d", "high >= d"), step(63), is_a_step(63))
    found(("low / d + (low % d != 0)", "low / d"), quotient("sl_div_ceil", 2**64), is_ceiling,
          summaries={"sl_div_wide": wide})
    found(("wait - passed_ns >= SLUICE_NEVER", "wait - passed_ns > SLUICE_NEVER"), wait({"tick": 2}), is_the_wait)
    found(("return ns - (ns == SLUICE_NEVER)", "return ns"), wait({"tick": 1}), is_the_wait)
    found(("a + b : SLUICE_NEVER - 1", "a + b : SLUICE_NEVER"), plus, is_the_sum)
