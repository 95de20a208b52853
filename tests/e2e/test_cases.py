"""The case list through every door of the program: RESP 2 and 3 on a raw socket, redis-py, HTTP, SPOP, gRPC and
`sluice replay`.

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

from harness import DEADLINE_S, FIELDS, ROOT, RespError, Server
from spop import Spop

try:
    import rls  # needs python3-grpcio
except ImportError:
    rls = None

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


def test_the_list_agrees_with_its_twin():
    assert len(ALL) >= 150
    assert [d for path in twin.files() for d in twin.differences(path)] == []


# ---- doors: each takes a step and gives the answer in the list's own words -------------------------------------------

def own_key(prefix, key):
    """A key of this case and door alone."""
    return prefix + key


def member_of(step, element):
    return step.get("member") if isinstance(element, str) else element.get("member", step.get("member"))


def limit_words(step, prefix):
    """The limits, with KEY and MEMBER where they change."""
    words, key, member = [], own_key(prefix, step["key"]), None
    for element in step["limits"]:
        wanted, limit = (step["key"], element) if isinstance(element, str) else (element["key"], element["limit"])
        if own_key(prefix, wanted) != key:
            key = own_key(prefix, wanted)
            words += ["KEY", key]
        if member_of(step, element) != member:
            member = member_of(step, element)
            words += ["MEMBER", member]
        words.append(limit)
    return words


def resp_words(step, prefix, tickets):
    """A step as the words of a command."""
    operation, asides = step["op"], ["UPTO"] * step.get("upto", False)
    name = ["SLUICE." + operation.upper()]
    if operation in ("admit", "explain"):
        asides += ["ID", step.get("id")] * ("id" in step) + ["MEMBER", step.get("member")] * ("member" in step)
        return name + [step.get("cost", 1), *asides, *sum(map(list, step["attributes"].items()), [])]
    name.append(own_key(prefix, step["key"]))
    at = ["AT", step["at"]]
    if operation == "commit":
        return name + [tickets[step["id"]], step["actual"], *at]
    if operation in ("release", "renew"):
        return name + [step["id"], *at, *limit_words(step, prefix)]
    if operation not in ("reset", "holders"):
        name.append(step.get("cost", 1))
    if operation == "reserve":
        name.append(step["ttl_ms"])
    asides += ["ID", step.get("id")] * ("id" in step)
    return name + at + asides + limit_words(step, prefix)


def from_resp(step, reply):
    """A reply in the list's words."""
    operation = step["op"]
    if operation in ("reset", "release", "renew"):
        return {"forgotten" if operation == "reset" else "found": reply}
    if operation == "holders":
        return {"holders": [[text(x) for x in one] for one in reply]}
    if operation == "explain":
        return {"limits": [dict(zip(("name", "limit", "key") + FIELDS, [text(x) for x in one])) for one in reply]}
    names = FIELDS + (("index", "name") if operation == "admit" else ("index",))
    names += ("granted",) * step.get("upto", False)
    if operation in ("acquire", "reserve") or "held" in step["expect"] or len(reply) > len(names):
        names += ("held",)
    assert len(reply) == len(names), reply
    return dict(zip(names, [text(x) for x in reply]))


def held(step, answer, tickets):
    """An answer's id or ticket is looked at here, and remembered; what the list says of it is whether there is one."""
    if "held" not in answer:
        return answer
    if answer["held"] is not None:
        if step["op"] == "acquire":
            assert answer["held"] == step["id"]
        else:
            assert re.fullmatch(r"[0-9a-f]{16}\.[A-Za-z0-9_-]+", answer["held"])
            assert len(step["id"]) != 16 or answer["held"].startswith(step["id"])
        tickets[step["id"]] = answer["held"]
    answer["held"] = answer["held"] is not None
    if "held" not in step["expect"] and not answer["held"]:
        del answer["held"]
    return answer


def text(value):
    return value.decode() if isinstance(value, bytes) else value


class RawDoor:
    def __init__(self, server, protocol):
        self.client, self.tickets = server.resp(), {}
        if protocol == 3:
            self.client.call("HELLO", "3")

    def ask(self, step, prefix):
        try:
            answer = from_resp(step, self.client.call(*resp_words(step, prefix, self.tickets)))
        except RespError as error:
            return refused(step, str(error))
        return held(step, answer, self.tickets)

    def close(self):
        self.client.close()


def refused(step, error):
    if step["op"] == "commit" and error.startswith("NOTFOUND "):
        return {"found": 0}
    assert error.startswith("ERR "), error
    return {"error": True}


class RedisPyDoor:
    def __init__(self, server):
        self.client, self.tickets = redis.Redis(host="127.0.0.1", port=server.resp_port), {}

    def ask(self, step, prefix):
        try:
            answer = from_resp(step, self.client.execute_command(*resp_words(step, prefix, self.tickets)))
        except redis.ResponseError as error:
            return refused(step, str(error) if str(error).startswith("NOTFOUND") else f"ERR {error}")
        return held(step, answer, self.tickets)

    def close(self):
        self.client.close()


class HttpDoor:
    """POST /v1/check, /v1/refund, /v1/reset and /v1/admit; an explanation is what a peek's `limits` say."""

    COUNTED = {"reset": "forgotten", "release": "found", "renew": "found"}
    ANSWERED = {"reset": "reset", "release": "released", "renew": "renewed"}

    def __init__(self, server):
        self.client, self.tickets = server.http(), {}

    def ask(self, step, prefix):
        operation = step["op"]
        path, body = self.request(step, prefix)
        status, _, answer = self.client.post(path, body)
        if status == 400:
            assert answer["status"] == 400 and answer["detail"]
            return {"error": True}
        if status == 404 and operation == "commit":
            return {"found": 0}
        if operation in self.COUNTED:
            assert status == 200
            return {self.COUNTED[operation]: answer[self.ANSWERED[operation]]}
        if operation == "holders":
            return {"holders": [[x["id"], x["cost"], x["ends_after_ms"]] for x in answer["holders"]]}
        assert status == (200 if answer["allowed"] else 429), (status, answer)
        return self.explanation(answer) if operation == "explain" else self.decision(step, answer)

    def request(self, step, prefix):
        path, body = self.body_of(step, prefix)
        for name in ("id", "member", "upto", "ttl_ms"):
            if name in step:
                body[name] = step[name]
        if step["op"] == "commit":
            body = {"at": step["at"], "key": body["key"], "id": self.tickets[step["id"]], "actual": step["actual"]}
        if step["op"] in ("release", "renew", "holders"):
            del body["cost"]
        return path, body

    @staticmethod
    def body_of(step, prefix):
        body = {"at": step["at"], "cost": step.get("cost", 1)}
        if step["op"] in ("peek", "explain"):
            body["peek"] = True
        if "attributes" in step:
            return "/v1/admit", {**body, "attributes": step["attributes"]}
        body["key"] = own_key(prefix, step["key"])
        body["limits"] = [x if isinstance(x, str) else {**x, "key": own_key(prefix, x["key"])}
                          for x in step["limits"]]
        if step["op"] == "reset":
            return "/v1/reset", {"key": body["key"], "limits": body["limits"]}
        return ("/v1/check" if step["op"] == "peek" else "/v1/" + step["op"]), body

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
        for name in ("granted", "repeated"):
            if name in step["expect"]:
                out[name] = answer.get(name, False)
        if "id" in answer or "held" in step["expect"]:
            out = held(step, {**out, "held": answer.get("id")}, self.tickets)
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
        want = {k: v for k, v in step["expect"].items() if k not in ("each", "repeated") or k in got}
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

def policy_server(sluice_bin, case, more=""):
    with open(os.path.join(POLICIES, case["policy"]), encoding="utf-8") as f:
        return Server(sluice_bin, more + f.read())


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
    return {k: v if not k.endswith("_ms") else (v > 0) - (v < 0) for k, v in answer.items()
            if k not in ("each", "repeated")}


def within_a_minute(play):
    """Plays until no window's boundary lies between two steps."""
    while True:
        minute = int(time.time() // 60)
        answers = play()
        if int(time.time() // 60) == minute:
            return answers


@each_of([(n, c) for n, c in POLICY if at_once(c)])
def test_policy_case_over_resp(sluice_bin, name, case):
    def play():
        server = policy_server(sluice_bin, case)
        try:
            door = RawDoor(server, 2)
            answers = [door.ask(step, "") for step in case["steps"]]
            door.close()
            return answers
        finally:
            server.stop()

    for number, (step, got) in enumerate(zip(case["steps"], within_a_minute(play))):
        assert without_waits(got) == without_waits(step["expect"]), f"step {number}: {step}"


class SpopDoor:
    """What HAProxy asks: admissions by a policy, on the running clock. It has no limits of its own to bring along, no
    UPTO, no MEMBER and no looks."""

    def __init__(self, server):
        self.client = Spop(server.ports("spop")[0])

    @staticmethod
    def can_say(step):
        return step["op"] == "admit" and not step.keys() & {"upto", "member"}

    def ask(self, step):
        words = [(name, str(step[name])) for name in ("cost", "id") if name in step]
        said = self.client.ask("admit", words + list(step["attributes"].items()))
        if "refused" in said:
            return {"error": True}
        expect, counted = step["expect"], "limit" in said
        out = {"allowed": int(not said["denied"]), "quota": said.get("quota", 2**32 - 1),
               "remaining": said.get("remaining", 2**32 - 1), "retry_after_ms": said.get("retry_after_ms", 0),
               "reset_after_ms": said.get("reset_after_ms", 0), "delay_ms": said.get("delay_ms", 0),
               "index": expect.get("index") if counted else -1, "name": said.get("limit", "")}
        if "ticket" in said or "held" in expect:
            out["held"] = "ticket" in said
        return out

    def close(self):
        self.client.close()


class GrpcDoor:
    """What Envoy asks: admissions by a policy, on the running clock, each one descriptor. It has no way to say what
    costs nothing (that is a look), an id, UPTO or MEMBER, and is told no reset_after."""

    def __init__(self, server):
        self.client = rls.Client(f"127.0.0.1:{server.ports('grpc')[0]}")

    @staticmethod
    def can_say(step):
        return (step["op"] == "admit" and not step.keys() & {"upto", "member", "id"} and step.get("cost", 1) != 0
                and "error" not in step["expect"])

    def ask(self, step):
        entries = list(step["attributes"].items()) or [("nothing", "")]
        response = self.client.ask("cases", (entries, {"hits": step["cost"]} if "cost" in step else {}))
        (status,), expect, told = response.statuses, step["expect"], dict(response.dynamic_metadata)
        assert response.overall_code == status.code
        counted = status.HasField("current_limit")
        out = {"allowed": int(status.code == rls.OK), "quota": status.current_limit.requests_per_unit,
               "remaining": status.limit_remaining, "delay_ms": told.get("delay_ms", 0),
               "retry_after_ms": told.get("retry_after_ms", 0), "reset_after_ms": expect["reset_after_ms"],
               "index": expect["index"], "name": status.current_limit.name}
        if not counted:
            out.update(quota=2**32 - 1, remaining=2**32 - 1, index=-1)
        tickets = [one for one in response.request_headers_to_add if one.key == "sluice-ticket"]
        if tickets or "held" in expect:
            out["held"] = bool(tickets)
        return out

    def close(self):
        self.client.channel.close()


# Doors that only admit, by their listener.
ADMITTING = {"spop": SpopDoor, **({"grpc": GrpcDoor} if rls else {})}


def admissions(door, case):
    """The admissions that a case begins with, as far as a door can say them."""
    steps = [step for step in case["steps"] if step["op"] == "admit"]
    return steps[:next((i for i, step in enumerate(steps) if not ADMITTING[door].can_say(step)), len(steps))]


ADMITTED = [(door, name, case) for door in ADMITTING for name, case in POLICY
            if at_once(case) and admissions(door, case)]


@pytest.mark.parametrize("door,name,case", ADMITTED,
                         ids=[door + "-" + re.sub(r"[^\w.-]+", "-", name) for door, name, _ in ADMITTED])
def test_policy_case_over_doors_that_admit(sluice_bin, door, name, case):
    steps = admissions(door, case)

    def play():
        server = policy_server(sluice_bin, case, f'listen: {{{door}: "127.0.0.1:0"}}\n')
        try:
            client = ADMITTING[door](server)
            answers = [[client.ask(step) for _ in range(step.get("times", 1))][-1] for step in steps]
            client.close()
            return answers
        finally:
            server.stop()

    for number, (step, got) in enumerate(zip(steps, within_a_minute(play))):
        assert without_waits(got) == without_waits(step["expect"]), f"step {number}: {step}"


def test_many_cases_can_be_said_there():
    for door in ADMITTING:
        assert sum(one == door for one, _, _ in ADMITTED) >= 40, door


# ---- replay ----------------------------------------------------------------------------------------------------------

def replayable(case):
    """Plain checks alone, all of the same limits for the key of the line, none refused."""
    steps = case["steps"]
    return "policy" not in case and all(
        s["op"] == "check" and not s.keys() & {"id", "member", "upto"} and s["limits"] == steps[0]["limits"]
        and "error" not in s["expect"]
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
                          input="".join(lines).encode(), capture_output=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr
    got = done.stdout.decode().split("\n")
    assert got.pop() == "" and len(got) == len(expected), done.stdout
    assert [g for g, e in zip(got, expected) if e is not None] == [e for e in expected if e is not None]


def test_many_cases_can_be_replayed():
    assert sum(replayable(case) for _, case in ALL) >= 60
