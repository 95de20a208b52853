"""The Lua form of Sluice in a real redis-server: as a library of functions and as a script for EVALSHA.

The same case list that every door must answer, then thousands of random operations beside the slow twin, which shares
no code with either; then what only a script has: keys that must be declared, numbers that leave 53 bits, texts that are
flushed, effects that are replicated, and what a charge costs.
"""

import os
import random
import re
import sys
import time

import pytest
import redis

from harness import FIELDS, ROOT, wait_until
from redis_world import Redis

sys.path.insert(0, os.path.join(ROOT, "tests", "cases"))
import twin  # noqa: E402

KEY_BYTES_MAX = 1024
SOAK_S = float(os.environ.get("SLUICE_SOAK_SECONDS", "0"))
FORMS = ["function", "evalsha"]
NOW = 1728000000000


class Script:
    """Calls the script in one of its two forms: `ask('CHECK', [keys], args...)`."""

    def __init__(self, client, folder, form, client_time=True):
        name = "-client-time" if client_time else ""
        self.client, self.form = client, form
        with open(os.path.join(folder, ("sluice" if form == "function" else "sluice-eval") + name + ".lua"),
                  encoding="ascii") as f:
            self.text = f.read()
        self.load()

    def load(self):
        if self.form == "function":
            self.client.execute_command("FUNCTION", "LOAD", "REPLACE", self.text)
        else:
            self.sha = self.client.script_load(self.text)

    def words(self, word, keys, *args):
        if self.form == "function":
            return ["FCALL", "sluice_" + word.lower(), len(keys), *keys, *args]
        return ["EVALSHA", self.sha, len(keys), *keys, word, *args]

    def ask(self, word, keys, *args):
        return self.client.execute_command(*self.words(word, keys, *args))


def client_of(host):
    return redis.Redis(host="127.0.0.1", port=host.port)


@pytest.fixture(scope="session")
def scripts_folder(sluice_bin):
    return os.path.dirname(sluice_bin)


@pytest.fixture(scope="module")
def host():
    one = Redis(module=None)
    yield one
    one.stop()


@pytest.fixture(scope="module")
def forms(host, scripts_folder):
    return {form: Script(client_of(host), scripts_folder, form) for form in FORMS}


# ---- the case list ---------------------------------------------------------------------------------------------------

def all_cases():
    for path in twin.files():
        for number, case in enumerate(twin.load(path)):
            if "policy" not in case:
                yield f"{os.path.basename(path)[:-5]}-{number:02d} {case['name']}", case


PLAIN = list(all_cases())


# The only cases with a bucket whose debt could pass 2^53, even in milliseconds.
REFUSED = {"token-bucket-10 the largest burst at the slowest rate"}


def step_words(step, prefix):
    """A step of the list as (word, keys, args)."""
    def own(key):
        return (prefix + key)[:KEY_BYTES_MAX]
    key, keys = own(step["key"]), []
    args = [] if step["op"] == "reset" else [step.get("cost", 1)]
    args += ["AT", step["at"]]
    for element in step["limits"]:
        wanted, limit = (step["key"], element) if isinstance(element, str) else (element["key"], element["limit"])
        if own(wanted) != key or not keys:
            if own(wanted) != key:
                key = own(wanted)
                args += ["KEY", key]
            keys += [key] if key not in keys else []
        args.append(limit)
    return step["op"].upper(), keys or [key], args


def answer(script, step, prefix):
    word, keys, args = step_words(step, prefix)
    if word != "RESET" and keys[0] != (prefix + step["key"])[:KEY_BYTES_MAX]:
        args = [args[0], *args[1:3], *args[5:]]  # the first limit is of another key: that one stands first
    elif word == "RESET" and len(args) > 2 and args[2] == "KEY":
        args = [*args[:2], *args[4:]]
    try:
        reply = script.ask(word, keys, *args)
    except redis.ResponseError as error:
        return {"leaves": True} if "leave the 53 bits" in str(error) else {"error": True}
    if word == "RESET":
        return {"forgotten": reply}
    assert len(reply) == 7
    return dict(zip(FIELDS + ("index",), reply))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name,case", PLAIN, ids=[re.sub(r"[^\w.-]+", "-", name) for name, _ in PLAIN])
def test_case(forms, form, name, case):
    for number, step in enumerate(case["steps"]):
        for _ in range(step.get("times", 1)):
            got = answer(forms[form], step, f"{form} {name}: ")
        want = {k: v for k, v in step["expect"].items() if k != "each"}
        if got == {"leaves": True}:
            assert name in REFUSED
            return
        assert got == want, f"step {number}: {step}"
