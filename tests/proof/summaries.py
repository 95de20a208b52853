"""Functions that are proved by themselves, and stand in the proofs of those that call them as what they were proved to
be: quotients (test_division.py) and the divisions of instants by a stored inverse (test_windows.py, test_subs.py)."""
from csource import U64
from execute import Val, known, named


def capped(run, quotient):
    """A quotient of 64 bits, or UINT64_MAX: I2 of base/math.h."""
    fits = quotient <= 2**64 - 1
    if known(fits):
        return Val(min(quotient, 2**64 - 1), U64)
    return Val(quotient if run.choose(fits) else 2**64 - 1, U64)


def div(run, n, d):
    run.prove(d.term > 0, "sl_div: a divisor above 0")
    return capped(run, run.divide(n.term, d.term)[0])


def ceil(run, n, d):
    """ceil(n / d), by a number of its own: n = q d - r."""
    if known(n) and known(d):
        return -(-n // d)
    key = (named(n), named(d), "ceil")
    if key not in run.divisions:
        q, r = run.fresh("c"), run.fresh("s")
        run.divisions[key] = (n, d, q, -r)
        run.facts += [n == q * d - r, 0 <= r, r < d, q >= 0]
    return run.divisions[key][2]


def div_ceil(run, n, d):
    run.prove(d.term > 0, "sl_div_ceil: a divisor above 0")
    run.prove(n.term + d.term <= 2**128, "sl_div_ceil: n + d - 1 within 128 bits")
    return capped(run, ceil(run, n.term, d.term))


def window_of(run, W, t):
    """floor(t / W), t mod W; they are noted, for the lemmas."""
    found = run.divide(t, W)
    if all(found is not other for other in run.windows):
        run.windows.append(found)
    return found


def into_window(run, limit, t):
    return Val(window_of(run, run.load_field(run.load(limit.term), "window_ns").term, t.term)[1], U64)


def fitting(run, n, d):
    """sl_div() where the quotient is claimed to fit."""
    run.prove(d.term > 0, "sl_div: a divisor above 0")
    quotient = run.divide(n.term, d.term)[0]
    run.prove(quotient <= 2**64 - 1, "sl_div: a quotient within 64 bits")
    return Val(quotient, U64)


def fitting_ceil(run, n, d):
    run.prove(d.term > 0, "sl_div_ceil: a divisor above 0")
    run.prove(n.term + d.term <= 2**128, "sl_div_ceil: n + d - 1 within 128 bits")
    quotient = ceil(run, n.term, d.term)
    run.prove(quotient <= 2**64 - 1, "sl_div_ceil: a quotient within 64 bits")
    return Val(quotient, U64)


QUOTIENTS = {"sl_div": div, "sl_div_ceil": div_ceil}
WINDOWS = {"sl_div": fitting, "sl_div_ceil": fitting_ceil, "into_window": into_window}
