"""The case list of all doors (tests/cases) through the binding: in process, and at a server over RESP by threads' and
by asyncio's face; every number of every answer."""
import asyncio
import os
import re
import sys

import pytest

import world
import sluice
from harness import FIELDS, ROOT, Server

sys.path.insert(0, os.path.join(ROOT, "tests", "cases"))
import twin  # noqa: E402

POLICIES = os.path.join(ROOT, "tests", "cases", "policies")


def all_cases():
    for path in twin.files():
        for number, case in enumerate(twin.load(path)):
            yield f"{os.path.basename(path)[:-5]}-{number:02d} {case['name']}", case


ALL = list(all_cases())
PLAIN = [(name, case) for name, case in ALL if "policy" not in case]
POLICY = [(name, case) for name, case in ALL if "policy" in case]


def each_of(cases):
    return pytest.mark.parametrize("name,case", cases, ids=[re.sub(r"[^\w.-]+", "-", name) for name, _ in cases])


def own_key(prefix, key):
    return prefix + key


def limits_of(step, prefix):
    def one(element):
        if isinstance(element, str):
            return element
        return (own_key(prefix, element.get("key", step["key"])), element["limit"], element.get("member"))
    return [one(element) for element in step["limits"]]


class Door:
    """A limiter that takes steps. `call(method, *args, **words)` asks it."""

    def __init__(self, call):
        self.call, self.tickets = call, {}

    def words(self, step, *names):
        return {name: step[name] for name in names if name in step}

    def ask(self, step, prefix):
        try:
            return self.answer(step, prefix)
        except sluice.SluiceError as error:
            return {"found": 0} if error.code == "not-found" else {"error": True}

    def answer(self, step, prefix):
        operation, cost = step["op"], step.get("cost", 1)
        if operation == "admit":
            words = self.words(step, "id", "member", "upto")
            return self.told(step, self.call("admit", step["attributes"], cost, **words))
        key = own_key(prefix, step["key"])
        if operation == "commit":
            ticket = self.tickets[step["id"]]
            return self.told(step, self.call("commit", key, None, ticket, step["actual"],
                                             each="each" in step["expect"]))
        limits = limits_of(step, prefix)
        if operation in ("reset", "release", "renew"):
            args = (key, limits) if operation == "reset" else (key, limits, step["id"])
            return {"forgotten" if operation == "reset" else "found": self.call(operation, *args)}
        words = self.words(step, "member", "upto", "id")
        if operation == "reserve":
            words["ttl"] = step["ttl_ms"]
        if "each" in step["expect"]:
            words["each"] = True
        return self.told(step, self.call(operation, key, limits, cost, **words))

    def told(self, step, result):
        expect = step["expect"]
        out = numbers(result)
        out["index"] = result.index
        if "granted" in expect:
            out["granted"] = result.granted
        if "repeated" in expect and result.repeated:
            out["repeated"] = True
        if "name" in expect:
            out["name"] = result.limit
        if "each" in expect and step["op"] != "admit":
            out["each"] = [numbers(one) for one in result.each]
        if result.id is not None:
            self.tickets[step.get("id", "")] = result.id
        if "held" in expect:
            out["held"] = result.id is not None
        if result.id is not None and step["op"] == "acquire":
            assert result.id == step["id"]
        return out


def numbers(result):
    return {"allowed": int(result.allowed), "quota": result.quota, "remaining": result.remaining,
            "retry_after_ms": result.retry_after, "reset_after_ms": result.reset_after, "delay_ms": result.delay}


def run_case(door, case, prefix, clock):
    told = 0
    for number, step in enumerate(case["steps"]):
        if step["op"] in ("holders", "explain"):
            continue  # of servers, and change nothing
        clock[0] = step["at"]
        for _ in range(step.get("times", 1)):
            got = door.ask(step, prefix)
        want = {k: v for k, v in step["expect"].items() if k in got or k not in ("each", "repeated")}
        assert got == want, f"step {number}: {step}"
        told += 1
    return told


@each_of(ALL)
def test_case_in_process(name, case):
    clock = [0]
    policy = os.path.join(POLICIES, case["policy"]) if "policy" in case else None
    with sluice.Limiter(memory="4MiB", policy=policy, clock=lambda: clock[0]) as limiter:
        run_case(Door(lambda method, *args, **words: getattr(limiter, method)(*args, **words)), case, "", clock)


@pytest.fixture(scope="module")
def server():
    server = Server(world.SLUICE, "client-time: true\nlimits: []\n")
    yield server
    server.stop()


@pytest.mark.parametrize("face", ["threads", "asyncio"])
def test_cases_over_resp(server, face):
    url, clock, told = f"redis://127.0.0.1:{server.resp_port}", [0], 0
    loop = asyncio.new_event_loop()
    kind = sluice.Limiter if face == "threads" else sluice.AsyncLimiter
    limiter = kind(url, clock=lambda: clock[0], timeout=10000)

    def call(method, *args, **words):
        answer = getattr(limiter, method)(*args, **words)
        return answer if face == "threads" else loop.run_until_complete(answer)
    try:
        for name, case in PLAIN:
            told += run_case(Door(call), case, f"{face} {name}: ", clock)
    finally:
        limiter.close() if face == "threads" else loop.run_until_complete(limiter.aclose())
        loop.close()
    assert told > 800


def test_the_list_is_there():
    assert len(PLAIN) >= 150 and len(POLICY) >= 15
    assert set(FIELDS) <= set(PLAIN[0][1]["steps"][0]["expect"])
