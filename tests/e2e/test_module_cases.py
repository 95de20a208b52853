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

CASES = [(f"{os.path.basename(path)[:-5]}-{number:02d} {case['name']}", case)
         for path in twin.files() for number, case in enumerate(twin.load(path)) if "policy" not in case]
# The only case with a bucket whose debt could pass 2^53, even in milliseconds.
SCRIPT_REFUSES = {"token-bucket-10 the largest burst at the slowest rate"}


BEFORE = {"reset": [], "release": ["id"], "renew": ["id"], "holders": [], "reserve": ["cost", "ttl_ms"],
          "commit": ["id", "actual"]}  # what stands between key and limits
NO_FIGURES = ("reset", "release", "renew", "holders")
# What a script does not have: it says so, and where it is.
BEYOND_SCRIPTS = ("reserve", "commit", "holders")


def words_of(step, prefix, each=False, tickets=None):
    """A step as the words of a command."""
    def own(key):
        return prefix + key
    elements = [(own(step["key"]), x, None) if isinstance(x, str) else (own(x.get("key", step.get("key"))), x["limit"],
                                                                         x.get("member")) for x in step["limits"]]
    key = elements[0][0] if elements else own(step["key"])
    words = ["SLUICE." + step["op"].upper(), key]
    for name in BEFORE.get(step["op"], ["cost"]):
        words.append(step.get(name, 1) if name != "id" else (tickets or {}).get(step["id"], step["id"]))
    words += ["AT", step["at"]] + (["EACH"] if each else [])
    if step["op"] == "commit":
        return words
    words += ["ID", step["id"]] if "id" in step and "id" not in BEFORE.get(step["op"], []) else []
    words += ["UPTO"] if step.get("upto") else []
    words += ["MEMBER", step["member"]] if "member" in step else []
    for wanted, limit, member in elements:
        words += ["KEY", wanted] if wanted != key else []
        words += ["MEMBER", member] if member is not None else []
        words.append(limit)
        key = wanted
    return words


def outcome_of(step, last):
    """What a call has come to, behind its limits' figures."""
    granted, repeated, _ = last
    got = {"granted": granted} if step.get("upto") else {}
    return {**got, "repeated": bool(repeated)} if "id" in step and step["op"] != "commit" else got


def answer_of(step, reply, each):
    """A reply in the list's words."""
    if isinstance(reply, RespError):
        if str(reply).startswith("NOTFOUND "):
            return {"found": 0}
        assert str(reply).startswith("ERR "), reply
        if "'spread' needs the module, or a server" in str(reply):
            return {"has no phases": True}
        if "expected at most 1024 members in a script" in str(reply):
            return {"estimates nobody": True}
        if "a script has no time zones" in str(reply):
            return {"needs time zones": True}
        return {"leaves 53 bits": True} if "53 bits" in str(reply) else {"error": True}
    if step["op"] in NO_FIGURES:
        name = {"reset": "forgotten", "holders": "holders"}.get(step["op"], "found")
        return {name: reply if name != "holders" else [[one[0].decode(), *one[1:]] for one in reply]}
    if each:
        got = {}
        if "id" in step or step.get("upto"):
            got, reply = outcome_of(step, reply[-1]), reply[:-1]
        assert all(len(one) == 7 for one in reply)
        return {"each": [dict(zip(FIELDS, one)) for one in reply], **got}
    got = dict(zip(FIELDS + ("index",), reply))
    if step["op"] in ("acquire", "reserve"):
        got["held"] = reply[7] is not None
    elif step.get("upto"):
        got["granted"] = reply[7]
    assert len(reply) == 7 + ("held" in got or "granted" in got)
    return got


def wanted(step, each):
    expect = dict(step["expect"])
    if "error" in expect or step["op"] in NO_FIGURES or expect.get("found") == 0:
        return expect
    if not each:
        return {k: v for k, v in expect.items() if k not in ("each", "repeated")}
    figures = expect.get("each") or [{f: expect[f] for f in FIELDS}]
    return {"each": figures, **{k: v for k, v in expect.items() if k in ("granted", "repeated")}}


def named(cases):
    return pytest.mark.parametrize("name,case", cases, ids=[re.sub(r"[^\w.-]+", "-", name) for name, _ in cases])


@pytest.mark.parametrize("each", [False, True], ids=["merged", "each"])
@pytest.mark.parametrize("door", list(DOORS))
@named(CASES)
def test_case(world, door, each, name, case):
    tickets = {}
    for number, step in enumerate(case["steps"]):
        if door != "module" and step["op"] in BEYOND_SCRIPTS:
            reply = getattr(world, door).ask(*words_of(step, f"{door} {each} {name}: ", False, tickets))
            assert "the module (sluice-module.so) or a server: a script has CHECK" in str(reply)
            if step["op"] == "holders":
                continue  # it changes nothing
            return
        spoken_each = each and step["op"] not in NO_FIGURES + ("reserve",)  # which answers a ticket only without
        for _ in range(step.get("times", 1)):
            reply = getattr(world, door).ask(*words_of(step, f"{door} {each} {name}: ", spoken_each, tickets))
        got = answer_of(step, reply, spoken_each)
        if "has no phases" in got:
            assert door != "module" and name.startswith("spread-")
            return
        if "estimates nobody" in got:
            assert door != "module" and name.startswith("distinct-")
            if "error" in step["expect"]:
                continue
            return
        if "needs time zones" in got:
            assert door != "module" and name.startswith("calendar-")
            return
        if "leaves 53 bits" in got:
            assert door != "module" and name in SCRIPT_REFUSES
            return
        assert got == wanted(step, spoken_each), f"step {number}: {step}"
        if step["op"] == "reserve" and "error" not in got and reply[7] is not None:
            tickets[step["id"]] = reply[7]


def test_the_cases_are_many():
    assert len(CASES) >= 140
