"""The case list through module, function and EVALSHA: every field of every answer, the single ones of several limits
among them (EACH). The time is told by the caller, and the wall clock stands still: nothing expires in between.

What a case asks with one command is asked twice where it charges nothing or several limits: once for the merged answer,
once, on keys of its own, for each limit's.
"""

import os
import re
import sys

import pytest

from harness import FIELDS, ROOT, RespError
from redis_world import DOORS

sys.path.insert(0, os.path.join(ROOT, "tests", "cases"))
import twin  # noqa: E402

KEY_BYTES_MAX = 1024
CASES = [(f"{os.path.basename(path)[:-5]}-{number:02d} {case['name']}", case)
         for path in twin.files() for number, case in enumerate(twin.load(path)) if "policy" not in case]
# The only case with a bucket whose debt could pass 2^53, even in milliseconds.
SCRIPT_REFUSES = {"token-bucket-10 the largest burst at the slowest rate"}


def words_of(step, prefix, each=False):
    """A step as the words of a command."""
    def own(key):
        return (prefix + key)[:KEY_BYTES_MAX]
    elements = [(own(step["key"]), x) if isinstance(x, str) else (own(x["key"]), x["limit"]) for x in step["limits"]]
    key = elements[0][0] if elements else own(step["key"])
    words = ["SLUICE." + step["op"].upper(), key]
    words += [step.get("cost", 1)] if step["op"] != "reset" else []
    words += ["AT", step["at"]] + (["EACH"] if each else [])
    for wanted, limit in elements:
        words += ["KEY", wanted] if wanted != key else []
        words.append(limit)
        key = wanted
    return words


def answer_of(step, reply, each):
    """A reply in the list's words."""
    if isinstance(reply, RespError):
        assert str(reply).startswith("ERR "), reply
        if "a script has no time zones" in str(reply):
            return {"needs time zones": True}
        return {"leaves 53 bits": True} if "53 bits" in str(reply) else {"error": True}
    if step["op"] == "reset":
        return {"forgotten": reply}
    if each:
        assert all(len(one) == 7 for one in reply)
        return {"each": [dict(zip(FIELDS, one)) for one in reply]}
    assert len(reply) == 7
    return dict(zip(FIELDS + ("index",), reply))


def wanted(step, each):
    expect = step["expect"]
    if "error" in expect or step["op"] == "reset":
        return expect
    if not each:
        return {k: v for k, v in expect.items() if k != "each"}
    return {"each": expect.get("each") or [{f: expect[f] for f in FIELDS}]}


def named(cases):
    return pytest.mark.parametrize("name,case", cases, ids=[re.sub(r"[^\w.-]+", "-", name) for name, _ in cases])


@pytest.mark.parametrize("each", [False, True], ids=["merged", "each"])
@pytest.mark.parametrize("door", list(DOORS))
@named(CASES)
def test_case(world, door, each, name, case):
    for number, step in enumerate(case["steps"]):
        spoken_each = each and step["op"] != "reset"
        for _ in range(step.get("times", 1)):
            reply = getattr(world, door).ask(*words_of(step, f"{door} {each} {name}: ", spoken_each))
        got = answer_of(step, reply, spoken_each)
        if "needs time zones" in got:
            assert door != "module" and name.startswith("calendar-")
            return
        if "leaves 53 bits" in got:
            assert door != "module" and name in SCRIPT_REFUSES
            return
        assert got == wanted(step, spoken_each), f"step {number}: {step}"


def test_the_cases_are_many():
    assert len(CASES) >= 140
