"""The reading of C by which proofs are done (csource.py, execute.py), held against the compiler: the same function,
read by the one and built by the other, gives the same figures for the same numbers. An expression that is read
wrongly would make every proof one of something else."""
import ctypes
import os
import random
import subprocess

import pytest

from csource import ROOT, Int, read
from execute import Run, Struct, Val
from limits import COUNT_MAX, TIME_MAX, WINDOW_MAX, WINDOW_MIN, flag, limit_of, pointer, whole

ROUNDS = 400
SHIM = r"""
#include "algo/%s.c"
/* in: W, Q, C, tick, ticks of W, now, cost, charge, w[0], w[1]; out: the decision and the state */
void shim(int algorithm, const uint64_t *in, uint64_t *out) {
	struct sluice_limit limit = {.algorithm = (uint8_t)algorithm, .quota = (uint32_t)in[1], .window_ns = in[0]};
	struct sl_counter counter = {.state = {.w = {in[8], in[9]}}};
	struct sluice_decision d = {0};
	limit.derived[SL_CAPACITY] = in[2];
	limit.derived[SL_TICK_NS] = in[3];
	limit.derived[SL_WINDOW_TICKS] = in[4];
	limit.derived[SL_WINDOW_INVERSE] = UINT64_MAX / in[0];
	%s(&limit, &counter, in[5], in[6], in[7] != 0, &d);
	out[0] = d.allowed, out[1] = d.remaining, out[2] = d.retry_after_ns, out[3] = d.reset_after_ns;
	out[4] = d.delay_ns, out[5] = counter.state.w[0], out[6] = counter.state.w[1];
}
"""
FUNCTIONS = {"sl_fixed_step": ("window", 1, "fixed-window"), "sl_window_step": ("window", 2, "sliding-window"),
             "sl_bucket_step": ("bucket", 6, "leaky-bucket")}
TRAITS = {"sl_rule_has": lambda run, limit, trait: Val(True, Int(1, False))}


def built(function, folder):
    file, _, _ = FUNCTIONS[function]
    source, library = os.path.join(folder, "shim.c"), os.path.join(folder, "shim.so")
    with open(source, "w", encoding="utf-8") as f:
        f.write(SHIM % (file, function))
    subprocess.run(["gcc", "-std=gnu11", "-O1", "-fPIC", "-shared", "-DSL_DEBUG", "-Iinclude", "-Isrc", "-I.", source,
                    "build/libsluice-core.a", "-o", library], cwd=ROOT, check=True)
    return ctypes.CDLL(library).shim


def drawn(chance, bucket):
    """Numbers near where they matter: of one window or two around each other, at the quota, at the ends."""
    window = chance.choice([WINDOW_MIN, 10**9, WINDOW_MAX, chance.randrange(1, 4000) * 10**6])
    tick = 1 if window < 2**32 else 1000 if window // 1000 < 2**41 else 10**6
    quota = chance.choice([1, 2, 5, 100, COUNT_MAX])
    now = chance.choice([0, 5 * window, chance.randrange(2**62), 2**63]) + chance.randrange(window)
    last = max(0, now + chance.choice([-2, -1, 0, 0, 1]) * window // chance.choice([1, 2, 3]))
    count = chance.randrange(min(COUNT_MAX, 2 * quota) + 1)
    word = chance.randrange(quota + 1) << 32 | count
    if bucket:
        word = chance.randrange(0, 3) * quota * (window // tick) // 2 % 2**64
    cost = chance.choice([0, 1, 1, 2, quota, quota + 1, chance.randrange(2**32)])
    return [window, quota, quota, tick, window // tick, now, cost, chance.randrange(2), last, word]


def read_and_run(unit, function, numbers):
    window, quota, capacity, tick, ticks, now, cost, charge, last, word = numbers
    _, algorithm, kind = FUNCTIONS[function]
    derived = [0, 0, capacity, tick, ticks, TIME_MAX // window]
    limit = limit_of(kind, quota=quota, window_ns=window, calendar=0, derived=derived)
    state, decision = Struct("sl_state", {"w": [whole(last), whole(word)]}), Struct("sluice_decision")
    run = Run(unit, refuse, None, summaries=TRAITS)
    run.call(function, [pointer(limit), pointer(Struct("sl_counter", {"state": state})), whole(now), whole(cost),
                        flag(bool(charge)), pointer(decision)])
    names = ("allowed", "remaining", "retry_after_ns", "reset_after_ns", "delay_ns")
    return [int(run.load_field(decision, name).term) for name in names] + [w.term for w in state.fields["w"]]


def refuse(run, claim, where):
    assert claim, where


@pytest.mark.parametrize("function", FUNCTIONS)
def test_read_as_compiled(function, tmp_path):
    seed = int(os.environ.get("SLUICE_SEED", "20261124"))
    chance, shim = random.Random(seed), built(function, str(tmp_path))
    unit = read("src/algo/%s.c" % FUNCTIONS[function][0])
    denied = 0
    for _ in range(ROUNDS):
        numbers = drawn(chance, function == "sl_bucket_step")
        got, out = (ctypes.c_uint64 * 10)(*numbers), (ctypes.c_uint64 * 7)()
        shim(FUNCTIONS[function][1], got, out)
        assert read_and_run(unit, function, numbers) == list(out), (seed, numbers)
        denied += not out[0]
    assert 0 < denied < ROUNDS
    print("seed %d, %s: %d calls, %d denied" % (seed, function, ROUNDS, denied))
