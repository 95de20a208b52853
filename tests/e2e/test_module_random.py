"""Random calls with holds and leases among them: module, function, EVALSHA and the slow twin of test_script.py, which
knows holds by their definition and shares no code with any of them. Every figure of every answer.

(Calls without holds, by the million and against the embedded store: tests/model/redis_test.c.)

The seed is printed; SLUICE_SEED=N runs that one again.
"""

import os
import random
import time

import pytest

from redis_world import SOAK
from test_script import LARGE, LIMITS, Dice

SEED = int(os.environ.get("SLUICE_SEED", random.randrange(1, 1 << 32)))
WORLDS, CALLS = 12, 50
LONGEST_MS = 18446744073710  # of waits; the store and the module take longer ones for equal


def in_one_ms(got, want):
    """Of two denials that end within the same millisecond the script names the first, not the longer one."""
    return len(got) == len(want) == 7 and not isinstance(want[0], list) and got[0] == want[0] == 0 \
        and got[2:6] == want[2:6]


def alike(name, words, got, want):
    if words[0] == "SLUICE.RESET":  # a counter that is over may be there still, and then it is forgotten now
        return isinstance(got, int) and want <= got < len(words)
    return got == want or isinstance(got, list) and in_one_ms(got, want) and (name != "module" or want[3] == LONGEST_MS)


def play(one, seed, pool, calls):
    """A world of calls, sent to all three once they are drawn; each has keys of its own."""
    dice, asked = Dice(f"random-{seed}", pool), []
    for _ in range(calls):
        (word, keys, args), want = dice.call()
        asked.append((["SLUICE." + word, keys[0], *args], want))
    for name in ("module", "function", "eval"):
        door = getattr(one, name)
        def own(text):  # noqa: E306
            return f"{name} {text}" if isinstance(text, str) and text.startswith(dice.prefix) else text
        replies = door.batch([[own(word) for word in words] for words, _ in asked])
        for number, ((words, want), got) in enumerate(zip(asked, replies)):
            if alike(name, words, got, want):
                continue
            for earlier, _ in asked[:number + 1]:
                print(*(repr(w) if " " in str(w) else w for w in earlier))
            raise AssertionError(f"SLUICE_SEED={SEED}, {name}, world {seed}, call {number}: {words}: {got} for {want}")
    return calls


@pytest.mark.parametrize("pool", [LIMITS, LARGE], ids=["usual", "large"])
def test_holds_and_leases_among_all_else(world, pool):
    print(f"SLUICE_SEED={SEED}")
    end, n, calls = time.monotonic() + SOAK / 4, 0, 0
    while n < WORLDS or time.monotonic() < end:
        calls += play(world, f"{len(pool)}-{SEED}-{n}", pool, CALLS)
        n += 1
    print(f"kept: {calls} calls with holds and leases alike in module, function, EVALSHA and twin")


@pytest.mark.parametrize("mark", ["OBSERVED", "TRIED"])
def test_who_is_denied_by_a_shadow_and_counted_by_another_limit_is_told_the_wait_for_a_place(world, mark):
    """Not that of somebody who is counted, which is none."""
    for name in ("module", "function", "eval"):
        ask, key = getattr(world, name).ask, f"{name} shadow {mark}"
        for n, member in enumerate("ab"):
            rows = ask("SLUICE.CHECK", key, 1, "AT", 1728000000000 + n * 1000, "EACH", "MEMBER", member,
                       "distinct 4/10s", mark, "distinct 1/10s")
            assert [row[:4] for row in rows] == [[1, 4, 3 - n, 0], [1 - n, 1, 0, 10000 * n]], (name, rows)
        rows = ask("SLUICE.ACQUIRE", key, 2, "AT", 1728000000000, "EACH", "concurrency 4 lease 10s", mark,
                   "concurrency 1 lease 10s")
        assert rows[:2] == [[1, 4, 2, 0, 10000, 0, 10000], [0, 1, 0, -1, 10000, 0, 10000]], (name, rows)
