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
/* in: W, Q, C, tick, ticks of W, now, cost, charge, w[0], w[1], what is done, and of a correction instant, charged,
 * actual, debt; out: the decision, or whether anything changed, and the state */
void shim(int algorithm, const uint64_t *in, uint64_t *out) {
	struct sluice_limit limit = {.algorithm = (uint8_t)algorithm, .quota = (uint32_t)in[1], .window_ns = in[0]};
	struct sl_counter counter = {.state = {.w = {in[8], in[9]}}};
	struct sluice_decision d = {0};
	limit.derived[SL_CAPACITY] = in[2];
	limit.derived[SL_TICK_NS] = in[3];
	limit.derived[SL_WINDOW_TICKS] = in[4];
	limit.derived[SL_WINDOW_INVERSE] = UINT64_MAX / in[0];
	struct sl_correction correction = {.instant = in[11], .known = in[5], .charged = (uint32_t)in[12],
	                                   .actual = (uint32_t)in[13], .debt = (uint32_t)in[14]};
	if (in[10] == 0)
		%s(&limit, &counter, in[5], in[6], in[7] != 0, &d);
	else if (in[10] == 1)
		d.allowed = %s_refund(&limit, &counter, in[5], (uint32_t)in[6]);
	else
		d.allowed = %s_correct(&limit, &counter, &correction);
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
        f.write(SHIM % (file, function, "sl_" + file, "sl_" + file))
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
    charged, actual = min(cost, COUNT_MAX), chance.choice([0, 1, quota, chance.randrange(2**32)])
    instant = max(0, last - chance.choice([0, 0, 1, 2]) * window // chance.choice([1, 2]))
    return [window, quota, quota, tick, window // tick, now, cost, chance.randrange(2), last, word, chance.randrange(3),
            instant, charged, actual, chance.randrange(3 * quota // 2 + 1) % COUNT_MAX]


def read_and_run(unit, function, numbers):
    window, quota, capacity, tick, ticks, now, cost, charge, last, word, does, instant, charged, actual, debt = numbers
    file, _, kind = FUNCTIONS[function]
    derived = [0, 0, capacity, tick, ticks, TIME_MAX // window]
    limit = pointer(limit_of(kind, quota=quota, window_ns=window, calendar=0, derived=derived))
    state, decision = Struct("sl_state", {"w": [whole(last), whole(word)]}), Struct("sluice_decision")
    run, counter = Run(unit, refuse, None, summaries=TRAITS), pointer(Struct("sl_counter", {"state": state}))
    if does == 0:
        run.call(function, [limit, counter, whole(now), whole(cost), flag(bool(charge)), pointer(decision)])
    elif does == 1:
        decision.fields["allowed"] = run.call("sl_%s_refund" % file, [limit, counter, whole(now),
                                                                      Val(cost % 2**32, Int(32, False))])
    else:
        of_32 = {name: Val(term, Int(32, False)) for name, term in
                 (("charged", charged), ("actual", actual), ("debt", debt))}
        decision.fields["allowed"] = run.call("sl_%s_correct" % file, [limit, counter, pointer(Struct(
            "sl_correction", {"instant": whole(instant), "known": whole(now), **of_32}))])
    names = ("allowed", "remaining", "retry_after_ns", "reset_after_ns", "delay_ns")
    return [int(run.load_field(decision, name).term) for name in names] + [w.term for w in state.fields["w"]]


def refuse(run, claim, where):
    assert claim, where


@pytest.mark.parametrize("function", FUNCTIONS)
def test_read_as_compiled(function, tmp_path):
    seed = int(os.environ.get("SLUICE_SEED", "20261124"))
    chance, shim = random.Random(seed), built(function, str(tmp_path))
    unit = read("src/algo/%s.c" % FUNCTIONS[function][0])
    did = {0: set(), 1: set(), 2: set()}
    for _ in range(ROUNDS):
        numbers = drawn(chance, function == "sl_bucket_step")
        got, out = (ctypes.c_uint64 * 15)(*numbers), (ctypes.c_uint64 * 7)()
        shim(FUNCTIONS[function][1], got, out)
        assert read_and_run(unit, function, numbers) == list(out), (seed, numbers)
        did[numbers[10]].add(out[0])
    assert all(answers == {0, 1} for answers in did.values()), "each was done, and each left undone"
    print("seed %d, %s: %d calls" % (seed, function, ROUNDS))
