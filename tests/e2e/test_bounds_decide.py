"""A bound of ours is a decision of the limit that meets it (contract 4.10), at a server with a store of its own: by
RESP, by HTTP and at the door for proxies. Each bound is met beside a second limit, of 3 for an address: where the bound
denies, that one is charged nothing, and where it doesn't, it denies at its quota to the unit. All limits say `on-error:
allow`, so that an error would show as a request that passes; and no decision may have failed.

With the counters in Redis: test_fleet_bounds.py. What each row of docs/design/013-bounds.md is shown by stands there.
"""

import itertools
import random
import time

import pytest

from harness import RespError, Server, encode, still_serves
from redis_world import SOAK

HOUR_MS = 3600_000
BESIDE = "name: beside, key: ip, limit: fixed-window 3/365d, on-error: allow"
HEADERS = {"user": "X-User-Id", "plan": "X-Plan", "device": "X-Device", "path": "X-Forwarded-Uri",
           "ip": "X-Forwarded-For"}
ADDRESSES = (f"192.0.2.{n}" for n in itertools.count(1))


def figure(one, name, **labels):
    text = one.http().ask("GET", "/metrics")[2].decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
               if line.startswith((name + "{", name + " ")) and all(f'{k}="{v}"' in line for k, v in labels.items()))


def nothing_failed(one):
    assert figure(one, "sluice_requests_total", decision="error") == 0
    assert figure(one, "sluice_decisions_total", decision="error") == 0


# ---- doors -----------------------------------------------------------------------------------------------------------
# Each answers (allowed, the limit that denied, the bound that it told; None where the door tells none).

def by_resp(one, attributes):
    with one.resp() as r:
        reply = r.call("SLUICE.ADMIT", 1, *(word for pair in attributes.items() for word in pair))
    return reply[0] == 1, None if reply[0] else reply[7].decode(), None


def by_http(one, attributes):
    with one.http() as web:
        status, _, body = web.post("/v1/admit", {"attributes": attributes})
    assert (status, body["allowed"]) in ((200, True), (429, False)), body
    return body["allowed"], None if body["allowed"] else body["limit"], body.get("bound", "none")


def by_proxy(one, attributes):
    with one.http() as web:
        status, _, body = web.ask("GET", "/v1/auth/forward", headers={HEADERS[k]: v for k, v in attributes.items()})
    assert status in (200, 429), (status, body)
    return status == 200, None if status == 200 else body["violated-policies"][0], None


DOORS = {"resp": by_resp, "http": by_http, "proxy": by_proxy}


# ---- bounds ----------------------------------------------------------------------------------------------------------

def pipelined(r, commands, at_a_time=500):
    """Sends all, some at a time; yields their replies."""
    commands = iter(commands)
    while some := list(itertools.islice(commands, at_a_time)):
        r.send(b"".join(encode(*words) for words in some))
        for reply in [r.read() for _ in some]:
            assert not isinstance(reply, RespError), reply
            yield reply


def fill(commands, least, most):
    """Asks until a limit denies: so many were admitted. Then 2,000 more are denied."""
    def run(one):
        with one.resp() as r:
            admitted = sum(1 for _ in itertools.takewhile(lambda reply: reply[0], pipelined(r, commands(), 100)))
            assert least <= admitted <= most, admitted
        with one.resp() as r:
            asked = [reply[0] for reply in pipelined(r, itertools.islice(commands(), most, most + 2000), 100)]
            assert sum(asked) == 0, "nothing passes uncounted"
    return run


def charges():
    """A unit in each of the last milliseconds: those of one instant would share an entry."""
    start = int(time.time() * 1000) - 600_000
    return (("SLUICE.CHECK", "user=a", 1, "AT", start + n, "policy:big") for n in itertools.count())


def acquisitions():
    return (("SLUICE.ACQUIRE", "user=a", 1, "ID", f"lease {n}", "policy:jobs") for n in itertools.count())


def reservations():
    return (("SLUICE.RESERVE", "user=a", 1, HOUR_MS, "ID", f"reserved {n}", "policy:spent") for n in itertools.count())


def members():
    return (("SLUICE.CHECK", "user=a", 1, "MEMBER", f"member {n}", "policy:devices") for n in itertools.count())


def nothing(_):
    pass


class Bound:
    """`met`: the attributes of a request that meets it; `free`: of one that doesn't. `denies`: which limit, or None."""

    def __init__(self, limits, denies, name, met, free, fill=nothing, memory="1MiB"):
        self.limits, self.denies, self.name, self.met, self.free = limits, denies, name, met, free
        self.fill, self.memory = fill, memory

    def policy(self):
        return ("threads: 1\nclient-time: true\nattributes:\n"
                + "".join(f"  {k}: header {v.lower()}\n" for k, v in HEADERS.items() if k in ("user", "plan", "device"))
                # half of it for blocks, whatever these limits would have it split by
                + f"store: {{memory: {self.memory}, blocks: 50%}}\nlimits:\n"
                + "".join(f"  - {{{limit}}}\n" for limit in (BESIDE, *self.limits)))


A, B = {"user": "a"}, {"user": "b"}
MANY = [f"name: n{n}, key: user, limit: fixed-window {1000 + n}/365d" for n in range(15)]
BOUNDS = {
    "a seventeenth limit": Bound(
        [*MANY, "name: more, when: {plan: pro}, key: user, limit: 1000/365d"], "more", "limits",
        {**A, "plan": "pro"}, A),
    "a log": Bound(["name: big, key: user, limit: sliding-log 4G/1d"], "big", "room", A, B,
                   fill(charges, 20_000, 34_000)),
    "leases": Bound(["name: jobs, key: user, limit: concurrency 1M lease 1h"], "jobs", "room", A, B,
                    fill(acquisitions, 3_000, 9_000)),
    "members that are estimated": Bound(
        ["name: devices, key: user, limit: distinct 5000/1h, of: device"], "devices", "room", {**A, "device": "new"},
        {**B, "device": "new"}, fill(members, 1_000, 1_100)),
    "reservations": Bound(["name: spent, key: user, limit: fixed-window 4G/365d, reserve: {ttl: 1h}"], "spent",
                          "reservations", A, B, fill(reservations, 1_500, 4_096)),
    "as many reservations as are kept": Bound(
        ["name: spent, key: user, limit: fixed-window 4G/365d, reserve: {ttl: 1h}"], "spent", "reservations", A, B,
        fill(reservations, 16_384, 16_384), "16MiB"),
    "a long value": Bound(["name: user, key: user, limit: 1000/365d"], None, None, {"user": "u" * 4000},
                          {"user": "u" * 3999}),
    "a value of what keys encode": Bound(["name: user, key: [user, path], limit: 1000/365d"], None, None,
                                         {"user": ",=%{" * 900, "path": "/" + "," * 900}, {**A, "path": "/"}),
}


@pytest.fixture(scope="module")
def scenes(sluice_bin):
    """Servers at which a bound has been reached: each begun when it is first asked for."""
    begun = {}

    def scene(name):
        if name not in begun:
            begun[name] = Server(sluice_bin, BOUNDS[name].policy())
            BOUNDS[name].fill(begun[name])
        return begun[name]

    yield scene
    for one in begun.values():
        one.stop()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", BOUNDS)
def test_the_limit_that_meets_a_bound_decides(scenes, name, door):
    bound, one, address, ask = BOUNDS[name], scenes(name), next(ADDRESSES), DOORS[door]
    met, free = {**bound.met, "ip": address}, {**bound.free, "ip": address}
    whose = {"policy": bound.denies} if bound.denies else {}  # a seventeenth limit takes another one's place as well
    before = figure(one, "sluice_bounds_total", bound=bound.name, **whose)
    answers = [ask(one, met) for _ in range(6)]
    if bound.denies is None:
        assert [allowed for allowed, _, _ in answers] == [True] * 3 + [False] * 3
        assert {limit for allowed, limit, _ in answers if not allowed} == {"beside"}
    else:
        assert {answer[:2] for answer in answers} == {(False, bound.denies)}
        assert {told for _, _, told in answers} <= {bound.name, None}
        assert figure(one, "sluice_bounds_total", bound=bound.name, **whose) == before + 6
        answers = [ask(one, free) for _ in range(5)]
        assert [allowed for allowed, _, _ in answers] == [True] * 3 + [False] * 2, "what was denied was charged nothing"
        assert {limit for allowed, limit, _ in answers if not allowed} == {"beside"}
        assert not ask(one, met)[0]
    nothing_failed(one)


# ---- what is denied before it is decided -----------------------------------------------------------------------------

def test_a_ticket_that_no_proxy_could_hand_on(server):
    """By long headers: the limits that would be held deny at that door, before anything is decided."""
    one = server(policy=Bound([f"name: jobs-{n}, key: [user, plan], limit: concurrency 9 lease 1h" for n in range(3)],
                              None, None, {}, {}).policy())
    long = {"user": "," * 1000, "plan": "=" * 1000, "ip": next(ADDRESSES)}
    assert {by_proxy(one, long)[:2] for _ in range(6)} == {(False, "jobs-0")}
    assert figure(one, "sluice_bounds_total", policy="jobs-2", bound="key") == 6
    assert [by_http(one, long)[0] for _ in range(4)] == [True] * 3 + [False], "nothing had been charged"
    assert by_proxy(one, {"user": "u", "plan": "p", "ip": next(ADDRESSES)})[0], "this one fits"
    nothing_failed(one)


# ---- floods ----------------------------------------------------------------------------------------------------------

def test_a_flood_of_keys_and_ids_frees_nobody(server):
    """More live counters, strikes and remembered ids than there are slots: whoever was denied stays denied."""
    one = server(policy=Bound(["name: user, key: user, limit: fixed-window 1/365d, "
                               "penalty: {steps: [1h], after: 1, in: 1h}"], None, None, {}, {}).policy())
    address, strangers = next(ADDRESSES), [next(ADDRESSES) for _ in range(20)]
    with one.resp() as r:
        assert [by_resp(one, {"ip": address})[0] for _ in range(4)] == [True] * 3 + [False]
        assert [by_resp(one, {"user": "a"})[0] for _ in range(3)] == [True, False, False]
        flood = (("SLUICE.ADMIT", 1, "ID", f"once {n}", "user", str(n // 2)) for n in range(SOAK and 400_000 or 40_000))
        assert sum(reply[0] for reply in pipelined(r, flood)) > 5_000
        for ask in DOORS.values():
            assert ask(one, {"ip": address})[:2] == (False, "beside")
            assert not ask(one, {"user": "a"})[0], "nor who is shut out"
        for stranger in strangers:
            passed = [ask(one, {"ip": stranger})[0] for ask in (*DOORS.values(), by_resp, by_http)]
            assert sum(passed) <= 3 and passed == sorted(passed, reverse=True)
        assert figure(one, "sluice_keys_evicted_total") > 0
    assert figure(one, "sluice_bounds_total") == 0, "nobody is denied for room"
    nothing_failed(one)


# ---- whatever is asked -----------------------------------------------------------------------------------------------

LIMITS = ["name: log, key: user, limit: sliding-log 50/1m, reserve: {ttl: 1m, estimate: [header x-estimate, 3]}",
          "name: jobs, when: {plan: jobs*}, key: [user, path], limit: concurrency 5 lease 30s",
          "name: closed, when: {plan: [closed, jobs-closed]}, key: user, limit: concurrency 0 lease 30s",
          "name: devices, when: {plan: [few, jobs-few]}, key: ip, limit: distinct 5/1m, of: device",
          "name: hosts, when: {plan: many}, key: ip, limit: distinct 2000/1m, of: host",
          "name: struck, when: {plan: struck}, key: ip, limit: 3/1m, penalty: {after: 2, in: 1m, steps: [1m, 2m]}, "
          "count-denied: true",
          "name: seen, key: ip, limit: 5/1m, observe: true",
          "name: shaped, key: ip, limit: leaky-bucket 5/1m, candidate: leaky-bucket 4/1m"]
WRITTEN = ["5/1m", "fixed-window 0/1m", "sliding-log 5/1m", "sliding-buckets 60/1h precision 1m", "unlimited",
           "token-bucket 5/1m burst 9", "leaky-bucket 5/1m", "concurrency 5 lease 30s", "concurrency 0 lease 1s",
           "distinct 5/1h", "distinct 2000/1h", "1M/month at UTC", "none such",
           *(f"policy:{name}" for name in "log jobs closed devices hosts struck seen shaped none".split())]
VALUES = ["", "a", "b" * 1024, "c" * 1100, "{x}", "\0", "zz,=%", "192.0.2.1", "::1", "/x?y"]
PLANS = ["jobs", "jobs-closed", "jobs-few", "closed", "few", "many", "struck"]
IDS = ["x", "i" * 64, "i" * 65, "0123456789abcdef"]
COSTS = [0, 1, 2, 7, 4294967295]
NAMES = ["user", "plan", "ip", "path", "host", "method", "device", "else"]


class Asker:
    """Random calls at all doors: some well formed, many not."""

    def __init__(self, one, seed):
        self.dice, self.tickets = random.Random(seed), ["1f"]
        self.web, self.r = one.http(), one.resp()

    def attributes(self, most):
        return {name: self.dice.choice(PLANS if name == "plan" else VALUES)
                for name in self.dice.sample(NAMES, self.dice.randrange(1, most))}

    def limits(self):
        return self.dice.choices(WRITTEN, k=self.dice.choice((1, 1, 2, 3, 17)))

    def perhaps(self, odds, **values):
        return {name: self.dice.choice(some) for name, some in values.items() if self.dice.random() < odds}

    def held(self):
        return [*IDS, *self.tickets[-8:]]

    def by_http(self):
        verb = self.dice.choice("check refund reset admit acquire release renew holders reserve commit".split())
        body = {"attributes": self.attributes(7)} if verb == "admit" else {"key": self.dice.choice(VALUES)}
        if verb != "admit" and self.dice.random() < 0.8:
            body["limits"] = self.limits()
        if verb in ("check", "refund", "admit", "acquire", "reserve"):
            body |= self.perhaps(0.2, cost=COSTS, member=VALUES, id=IDS)
        if verb in ("check", "admit"):
            body |= self.perhaps(0.2, upto=[True], peek=[True, False])
        if verb in ("release", "renew", "commit"):
            body |= self.perhaps(0.9, id=self.held())
        if verb in ("reserve", "commit"):
            body |= {"ttl_ms": self.dice.choice((1, 1000, 316224000000))} if verb == "reserve" else {
                "actual": self.dice.choice(COSTS)}
        body |= self.perhaps(0.1, at=[0, 1_800_000_000_000, 9223372036854])
        status, _, answer = self.web.post("/v1/" + verb, body)
        self.tickets += [answer["id"]] if isinstance(answer, dict) and answer.get("id") else []
        return status < 500, (verb, body, status, answer)

    def by_proxy(self):
        values = ["a", "b" * 900, "192.0.2.1", "/x", ",," * 300, "\x80", "5"]
        given = {HEADERS.get(k, k): v for k, v in
                 self.perhaps(0.5, user=values, plan=PLANS, device=values, ip=values, path=values, **{
                     "X-Estimate": values, "X-Forwarded-Method": values, "X-Forwarded-Host": values}).items()}
        where = "/v1/auth/" + self.dice.choice(("forward", "nginx", "envoy/x", "commit"))
        if where.endswith("commit"):
            given |= {"Sluice-Ticket": self.dice.choice(self.held()),
                      "X-Actual-Cost": self.dice.choice(("1", "9", "x"))}
        status, headers, answer = self.web.ask("GET", where, headers=given)
        self.tickets += [value for name, value in headers if name == "Sluice-Ticket"]
        return status < 500, (where, given, status, answer)

    def by_resp(self):
        verb = self.dice.choice("CHECK PEEK REFUND RESET ADMIT EXPLAIN ACQUIRE RELEASE RENEW HOLDERS RESERVE "
                                "COMMIT".split())
        aside = [["UPTO"], ["ID", self.dice.choice(IDS)], ["MEMBER", self.dice.choice(VALUES)], ["NEXT"],
                 ["AT", 1_800_000_000_000]]
        words = [] if verb in ("ADMIT", "EXPLAIN") else [self.dice.choice(VALUES)]
        if verb in ("RELEASE", "RENEW", "COMMIT"):
            words.append(self.dice.choice(self.held()))
        if verb in ("CHECK", "PEEK", "REFUND", "ACQUIRE", "RESERVE", "ADMIT", "EXPLAIN", "COMMIT"):
            words.append(self.dice.choice(COSTS))
        words += [self.dice.choice((1, 1000))] if verb == "RESERVE" else []
        for some in aside:
            words += some if self.dice.random() < 0.1 else []
        if verb in ("ADMIT", "EXPLAIN"):
            words += [word for pair in self.attributes(7).items() for word in pair]
        elif self.dice.random() < 0.8:
            words += self.limits() + (["KEY", "other", self.dice.choice(WRITTEN)] if self.dice.random() < 0.2 else [])
        self.r.send(encode("SLUICE." + verb, *words))
        reply = self.r.read()
        if isinstance(reply, list) and reply and isinstance(reply[-1], bytes) and b"." in reply[-1]:
            self.tickets.append(reply[-1].decode())
        said = str(reply) if isinstance(reply, RespError) else ""
        return "could not be decided" not in said and "did not answer" not in said, (verb, words, reply)


def test_no_caller_brings_about_an_error_of_ours(server):
    """Whatever is asked: an answer, a denial, or what is wrong with it; no 5xx, and nothing for on-error to say."""
    one = server(policy=Bound(LIMITS, None, None, {}, {}).policy())
    asker = Asker(one, seed := random.randrange(1 << 32))
    for turn in range(100_000 if SOAK else 1_500):
        for ask in (asker.by_http, asker.by_proxy, asker.by_resp):
            fine, told = ask()
            assert fine, (seed, turn, told)
    nothing_failed(one)
    still_serves(one)
