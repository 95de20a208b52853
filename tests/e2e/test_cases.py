"""The case list through every door of the program: RESP 2 and 3 on a raw socket, redis-py, HTTP and `sluice replay`.

tests/unit/cases_test.c drives the same list through the library. All compare with what the list says, number for
number, so no two doors can differ. The list itself is checked against its slow twin, which shares no code with the
program.
"""

import os
import re
import subprocess
import sys
import time

import pytest
import redis

from harness import FIELDS, ROOT, RespError, Server

sys.path.insert(0, os.path.join(ROOT, "tests", "cases"))
import twin  # noqa: E402

POLICIES = os.path.join(ROOT, "tests", "cases", "policies")
KEY_BYTES_MAX = 1024


def all_cases():
    for path in twin.files():
        for number, case in enumerate(twin.load(path)):
            yield f"{os.path.basename(path)[:-5]}-{number:02d} {case['name']}", case


ALL = list(all_cases())
PLAIN = [(name, case) for name, case in ALL if "policy" not in case]
POLICY = [(name, case) for name, case in ALL if "policy" in case]


def each_of(cases):
    return pytest.mark.parametrize("name,case", cases, ids=[re.sub(r"[^\w.-]+", "-", name) for name, _ in cases])


def test_the_list_agrees_with_its_twin():
    assert len(ALL) >= 150
    assert [d for path in twin.files() for d in twin.differences(path)] == []


# ---- doors: each takes a step and gives the answer in the list's own words -------------------------------------------

def own_key(prefix, key):
    """A key of this case and door alone; cut to what the doors take."""
    return (prefix + key)[:KEY_BYTES_MAX]


def resp_words(step, prefix):
    """A step as the words of a command."""
    if step["op"] in ("admit", "explain"):
        return ["SLUICE." + step["op"].upper(), step.get("cost", 1), *sum(map(list, step["attributes"].items()), [])]
    key = own_key(prefix, step["key"])
    words = ["SLUICE." + step["op"].upper(), key]
    if step["op"] != "reset":
        words.append(step.get("cost", 1))
    words += ["AT", step["at"]]
    for element in step["limits"]:
        wanted, limit = (step["key"], element) if isinstance(element, str) else (element["key"], element["limit"])
        if own_key(prefix, wanted) != key:
            key = own_key(prefix, wanted)
            words += ["KEY", key]
        words.append(limit)
    return words


def from_resp(step, reply):
    """A reply in the list's words."""
    if step["op"] == "reset":
        return {"forgotten": reply}
    if step["op"] == "explain":
        return {"limits": [dict(zip(("name", "limit", "key") + FIELDS, [text(x) for x in one])) for one in reply]}
    names = FIELDS + (("index", "name") if step["op"] == "admit" else ("index",))
    assert len(reply) == len(names), reply
    return dict(zip(names, [text(x) for x in reply]))


def text(value):
    return value.decode() if isinstance(value, bytes) else value


class RawDoor:
    def __init__(self, server, protocol):
        self.client = server.resp()
        if protocol == 3:
            self.client.call("HELLO", "3")

    def ask(self, step, prefix):
        try:
            return from_resp(step, self.client.call(*resp_words(step, prefix)))
        except RespError as error:
            assert str(error).startswith("ERR "), error
            return {"error": True}

    def close(self):
        self.client.close()


class RedisPyDoor:
    def __init__(self, server):
        self.client = redis.Redis(host="127.0.0.1", port=server.resp_port)

    def ask(self, step, prefix):
        try:
            return from_resp(step, self.client.execute_command(*resp_words(step, prefix)))
        except redis.ResponseError:
            return {"error": True}

    def close(self):
        self.client.close()


class HttpDoor:
    """POST /v1/check, /v1/refund, /v1/reset and /v1/admit; an explanation is what a peek's `limits` say."""

    def __init__(self, server):
        self.client = server.http()

    def ask(self, step, prefix):
        path, body = self.request(step, prefix)
        status, _, answer = self.client.post(path, body)
        if status == 400:
            assert answer["status"] == 400 and answer["detail"]
            return {"error": True}
        if step["op"] == "reset":
            assert status == 200
            return {"forgotten": answer["reset"]}
        assert status == (200 if answer["allowed"] else 429), (status, answer)
        return self.explanation(answer) if step["op"] == "explain" else self.decision(step, answer)

    @staticmethod
    def request(step, prefix):
        body = {"at": step["at"], "cost": step.get("cost", 1)}
        if step["op"] in ("peek", "explain"):
            body["peek"] = True
        if "attributes" in step:
            return "/v1/admit", {**body, "attributes": step["attributes"]}
        body["key"] = own_key(prefix, step["key"])
        body["limits"] = [x if isinstance(x, str) else {"key": own_key(prefix, x["key"]), "limit": x["limit"]}
                          for x in step["limits"]]
        if step["op"] == "reset":
            return "/v1/reset", {"key": body["key"], "limits": body["limits"]}
        return ("/v1/refund" if step["op"] == "refund" else "/v1/check"), body

    @staticmethod
    def numbers(answer):
        assert isinstance(answer["allowed"], bool)
        return {f: int(answer[f]) for f in FIELDS}

    def explanation(self, answer):
        return {"limits": [{"name": x["name"], "limit": x["limit"], "key": x["key"], **self.numbers(x)}
                           for x in answer["limits"]]}

    def decision(self, step, answer):
        """The list's `index` is not in the answer; `limit`, the name of the limit that decided, stands for it."""
        out = self.numbers(answer)
        if len(answer["limits"]) > 1:
            out["each"] = [self.numbers(x) for x in answer["limits"]]
        expected = step["expect"]
        if step["op"] == "admit":
            out["name"], out["index"] = answer["limit"], expected["index"]
        elif expected["index"] < 0:
            assert answer["limit"] == ""
            out["index"] = -1
        else:
            given = step["limits"][expected["index"]]
            canonical = twin.Limit(given if isinstance(given, str) else given["limit"]).text()
            assert answer["limit"] == canonical
            assert answer["limits"][expected["index"]]["limit"] == canonical
            out["index"] = expected["index"]
        return out

    def close(self):
        self.client.close()


def run_case(door, case, prefix):
    for number, step in enumerate(case["steps"]):
        for _ in range(step.get("times", 1)):
            got = door.ask(step, prefix)
        want = {k: v for k, v in step["expect"].items() if k != "each" or "each" in got}
        assert got == want, f"step {number}: {step}"


@pytest.fixture(scope="module")
def doors(shared_server):
    opened = {"resp2": RawDoor(shared_server, 2), "resp3": RawDoor(shared_server, 3),
              "redis-py": RedisPyDoor(shared_server), "http": HttpDoor(shared_server)}
    yield opened
    for door in opened.values():
        door.close()


@pytest.mark.parametrize("door", ["resp2", "resp3", "redis-py", "http"])
@each_of(PLAIN)
def test_case(doors, door, name, case):
    run_case(doors[door], case, f"{door} {name}: ")


# ---- policies: a server of its own for each case, as the counters are the policy's -----------------------------------

def policy_server(sluice_bin, case):
    with open(os.path.join(POLICIES, case["policy"]), encoding="utf-8") as f:
        return Server(sluice_bin, f.read())


@each_of(POLICY)
def test_policy_case_over_http(sluice_bin, name, case):
    server = policy_server(sluice_bin, case)
    try:
        door = HttpDoor(server)
        run_case(door, case, "")
        door.close()
    finally:
        server.stop()


def at_once(case):
    """Whether the case happens within a second, so that it can be played on the running clock: ADMIT takes no AT."""
    return max(s["at"] for s in case["steps"]) - min(s["at"] for s in case["steps"]) <= 1


def without_waits(answer):
    """An answer without what a few milliseconds change: only whether a wait is 0, positive or never stays."""
    if "limits" in answer:
        return {"limits": [without_waits(x) for x in answer["limits"]]}
    return {k: v if not k.endswith("_ms") else (v > 0) - (v < 0) for k, v in answer.items() if k != "each"}


@each_of([(n, c) for n, c in POLICY if at_once(c)])
def test_policy_case_over_resp(sluice_bin, name, case):
    while True:
        server = policy_server(sluice_bin, case)
        try:
            door = RawDoor(server, 2)
            minute = int(time.time() // 60)
            answers = [door.ask(step, "") for step in case["steps"]]
            door.close()
        finally:
            server.stop()
        if int(time.time() // 60) == minute:
            break  # else a window's boundary lay between two steps: play it again
    for number, (step, got) in enumerate(zip(case["steps"], answers)):
        assert without_waits(got) == without_waits(step["expect"]), f"step {number}: {step}"


# ---- replay ----------------------------------------------------------------------------------------------------------

def replayable(case):
    """Checks alone, all of the same limits for the key of the line, none refused."""
    steps = case["steps"]
    return "policy" not in case and all(
        s["op"] == "check" and s["limits"] == steps[0]["limits"] and "error" not in s["expect"]
        and re.fullmatch(r"[\w:-]+", s["key"], re.ASCII) and all(isinstance(x, str) for x in s["limits"])
        for s in steps)


@each_of([(n, c) for n, c in ALL if replayable(c)])
def test_case_in_replay(sluice_bin, name, case):
    lines, expected = [], []
    for step in case["steps"]:
        for _ in range(step.get("times", 1)):
            lines.append(f"{step['at']} {step['key']} {step.get('cost', 1)}\n")
            expected.append(None)
        expected[-1] = " ".join(str(step["expect"][f]) for f in FIELDS if f not in ("quota", "delay_ms"))
    limits = [word for limit in case["steps"][0]["limits"] for word in ("--limit", limit)]
    done = subprocess.run([sluice_bin, "replay", "--format", "ops", "--decisions", *limits, "-"],
                          input="".join(lines).encode(), capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    got = done.stdout.decode().split("\n")
    assert got.pop() == "" and len(got) == len(expected), done.stdout
    assert [g for g, e in zip(got, expected) if e is not None] == [e for e in expected if e is not None]


def test_many_cases_can_be_replayed():
    assert sum(replayable(case) for _, case in ALL) >= 60
