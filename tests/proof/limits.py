"""What the proofs speak of: limits, states and instants in the ranges that the contract documents, unknown but for
what is pinned, and the definitions of section 3 as formulas."""
import z3

from csource import BOOL, Int, POINTER, U64
from execute import Ref, Struct, Val

WINDOW_MIN, WINDOW_MAX = 10**6, 3660 * 86400 * 10**9  # ns
COUNT_MAX, TIME_MAX = 2**32 - 1, 2**64 - 1
NEVER = 2**64 - 1
U32, U16, U8 = Int(32, False), Int(16, False), Int(8, False)
ALGORITHMS = {"fixed-window": 1, "sliding-window": 2, "sliding-buckets": 3, "sliding-log": 4, "token-bucket": 5,
              "leaky-bucket": 6}


class Numbers:
    """Unknowns by name, each in its range; `pins` say some."""

    def __init__(self, run, pins=None):
        self.run, self.pins = run, pins or {}

    def __call__(self, name, low, high):
        if name in self.pins:
            return self.pins[name]
        term = z3.Int(name)
        self.run.facts += [term >= low, term <= high]
        return term


def inverse(run, d):
    """What sl_rule_derive() stores of it: floor((2^64 - 1) / d)."""
    return run.divide(TIME_MAX, d)[0]


def limit_of(algorithm, **fields):
    derived = [Val(term, U64) for term in fields.pop("derived", [0] * 6)]
    types = {"algorithm": U8, "edge": U8, "bucket_count": U16, "quota": U32, "burst": U32, "calendar": U16,
             "zone": U16, "window_ns": U64, "precision_ns": U64}
    struct = Struct("sluice_limit", {name: Val(term, types[name]) for name, term in fields.items()})
    struct.fields.update(algorithm=Val(ALGORITHMS[algorithm], U8), derived=derived)
    return struct


def pointer(struct):
    return Val(Ref({"it": struct}, "it"), POINTER)


def whole(term):
    return Val(term, U64)


def flag(truth):
    return Val(truth, BOOL)
