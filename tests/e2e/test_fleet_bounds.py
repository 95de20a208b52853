"""What a caller brings along is never "the store is away" (contract 4.10): at a server, at a front over one node and
over a cluster, by module and by script. Each bound is met beside a second limit, which goes on deciding to the unit; no
decision fails, so on-error is silent.
"""

import itertools
import random

import pytest

from cluster import Cluster, module_beside, slot_of
from harness import RespError, encode, wait_until
from redis_world import SOAK, Redis, redises  # noqa: F401
from test_bounds_decide import HEADERS, LIMITS, Asker

STORES = ("server", "module", "script", "cluster", "cluster by script")
FLEET = {"module": "module", "script": "script", "cluster": "module", "cluster by script": "script"}
PREFIXES = map("t{}:".format, itertools.count(1))


class Stores:
    """The stores of this file: each begun when it is first asked for."""

    def __init__(self, sluice_bin):
        self.sluice_bin, self.begun = sluice_bin, {}

    def address(self, kind):
        kind = kind.split(" ")[0]
        if kind not in self.begun:
            self.begun[kind] = (Cluster([module_beside(self.sluice_bin), "client-time", "yes"]) if kind == "cluster"
                                else Redis(module=("client-time", "yes") if kind == "module" else None))
        return f"127.0.0.1:{self.begun[kind].nodes[0].port if kind == 'cluster' else self.begun[kind].port}"

    def close(self):
        for one in self.begun.values():
            one.close() if isinstance(one, Cluster) else one.kill()


@pytest.fixture(scope="module")
def stores(sluice_bin):
    all_of_them = Stores(sluice_bin)
    yield all_of_them
    all_of_them.close()


class Place:
    """A server, or a front over a store."""

    def __init__(self, kind, stores, server):
        self.kind, self.stores, self.server, self.prefix = kind, stores, server, next(PREFIXES)

    def start(self, limits, more="threads: 1\n"):
        text = more + ("limits:\n" if limits else "limits: []\n")
        text += "".join(f"  - {{{limit}}}\n" for limit in limits)
        if self.kind in FLEET:
            text += (f'store: {{redis: ["{self.stores.address(self.kind)}"], prefix: "{self.prefix}", budget: 5s, '
                     f"via: {FLEET[self.kind]}, slices: false}}\n")
        one = self.server(policy=text)
        one.fleet = self.kind in FLEET
        if one.fleet:
            nodes = 3 if "cluster" in self.kind else 1
            wait_until(lambda: figure(one, "sluice_fleet_nodes", state="up") >= nodes, "not all nodes are up")
        return one

    def keys(self):
        """The keys that a front has made in its store."""
        store = self.stores.begun[self.kind.split(" ")[0]]
        asks = [n.call for n in store.primaries()] if "cluster" in self.kind else [store.resp().call]
        return {key for ask in asks for key in ask("KEYS", self.prefix + "*")}


@pytest.fixture(params=STORES)
def place(request, stores, server):
    return Place(request.param, stores, server)


def figure(one, name, **labels):
    text = one.http().ask("GET", "/metrics")[2].decode()
    found = 0
    for line in text.splitlines():
        if line.startswith((name + "{", name + " ")) and all(f'{k}="{v}"' in line for k, v in labels.items()):
            found += float(line.rsplit(" ", 1)[1])
    return found


def nothing_failed(one):
    """No decision was an error, and none was left to on-error."""
    assert figure(one, "sluice_requests_total", decision="error") == 0
    assert figure(one, "sluice_decisions_total", decision="error") == 0
    assert not one.fleet or figure(one, "sluice_fleet_decisions_total", way="failed") == 0


def admit(r, **attributes):
    return r.call("SLUICE.ADMIT", 1, *(word for pair in attributes.items() for word in pair))


def allowed(r, count, **attributes):
    return sum(admit(r, **attributes)[0] for _ in range(count))


# ---- long keys -------------------------------------------------------------------------------------------------------

TWO = ("name: login, key: ip, limit: sliding-log 5/1h", "name: per-user, key: user | ip, limit: token-bucket 8/365d")
LONG = ("u" * 1018, "u" * 1019, "u" * 1024, "," * 350, "=%," * 341, "{" * 1024, "~" * 1024)


def test_a_long_value_counts_like_any_other(place):
    one = place.start(TWO)
    with one.resp() as r:
        for n, value in enumerate(LONG):
            assert allowed(r, 12, ip=f"192.0.2.{n}", user=value) == 5, (n, "login denies at its quota")
            assert allowed(r, 12, ip=f"198.51.100.{n}", user=value) == 3, (n, "and so does per-user: 8 in all")
            assert allowed(r, 4, ip=f"198.51.100.{n}", user=value[:-1] + "x") == 2, (n, "another user")
    if place.kind in FLEET:
        assert figure(one, "sluice_bounds_total", policy="per-user", bound="key") > 100, "though it denies nobody"
        status, _, body = one.http().post("/v1/admit", {"attributes": {"ip": "203.0.113.1", "user": "k" * 1024}})
        assert status == 200 and [limit.get("bound") for limit in body["limits"]] == [None, "key"]
    nothing_failed(one)


def test_who_is_denied_by_a_long_key_is_told_what_is_left(place):
    """The bound `key` denies nobody: a denial is the quota's, and says so."""
    one = place.start(TWO[1:])
    with one.http() as http:
        ask = {"attributes": {"user": "k" * 1024}, "cost": 7}
        assert http.post("/v1/admit", ask)[0] == 200
        told = [http.post("/v1/admit", {**ask, "cost": cost})[2]["detail"] for cost in (2, 9)]
    assert told[0].startswith("limit per-user (token-bucket 8/365d burst 8) has 1 left, the request costs 2: retry in ")
    assert told[1].endswith(" has 1 left, the request costs 9: it can never be admitted, the quota is 8")


def test_a_long_header_counts_like_any_other(place):
    one = place.start(TWO, more="threads: 1\nattributes: {user: header x-user-id}\n")
    for size in (1024, 1100, 3000):
        headers = {"X-Forwarded-For": f"192.0.2.{size % 251}", "X-User-Id": "u" * size}
        statuses = [one.http().ask("GET", "/v1/auth/forward", headers=headers)[0] for _ in range(12)]
        assert statuses == [200] * 5 + [429] * 7, size
    nothing_failed(one)


def test_keys_of_many_long_parts(place):
    one = place.start(["name: all, key: [user, path, plan, tag], limit: fixed-window 3/365d",
                       "name: each, key: user, limit: fixed-window 4/365d"])
    parts = {"user": "," * 1024, "path": "/" + "%" * 1000, "plan": "=" * 1024, "tag": "," * 1024}
    with one.resp() as r:
        assert allowed(r, 5, **parts) == 3
        assert allowed(r, 5, **{**parts, "tag": "," * 1023}) == 1, "another key, of the same user"
        explained = r.call("SLUICE.EXPLAIN", 1, *(word for pair in parts.items() for word in pair))
        assert [len(limit[2]) for limit in explained] == [1024, 1024]
        assert [limit[5] for limit in explained] == [0, 0], "which is the counter that ADMIT charged"
        for limit in explained:
            key, name = limit[2], "policy:" + limit[0].decode()
            assert r.call("SLUICE.PEEK", key, 1, name)[0] == 0
            assert r.call("SLUICE.REFUND", key, 1, name)[2] == 1
            assert r.call("SLUICE.RESET", key, name) == 1
        assert allowed(r, 5, **parts) == 3
    nothing_failed(one)


def test_tickets_of_long_keys(place):
    one = place.start([f"name: jobs-{n}, key: [user, path], limit: concurrency 2 lease 1h" for n in range(16)])
    parts = {"user": "," * 1024, "path": "/" + "=" * 1023}
    with one.resp() as r:
        tickets = [admit(r, **parts)[-1] for _ in range(3)]
        assert tickets[0] and tickets[1] and tickets[2] is None
        assert r.call("SLUICE.RENEW", "any", tickets[0]) == 16
        assert r.call("SLUICE.RELEASE", "any", tickets[0]) == 16
        assert r.call("SLUICE.RELEASE", "any", tickets[0]) == 0
        assert admit(r, **parts)[0] == 1
    nothing_failed(one)


@pytest.mark.parametrize("size", [1017, 1018, 1020, 1024, 1025, 1500, 20000])
def test_a_key_of_notation_may_be_as_long_as_any(place, size):
    one = place.start([])
    with one.resp() as r:
        keys = ["k" * (size - 1) + end for end in "ab"]
        for key in keys:
            assert [r.call("SLUICE.CHECK", key, 1, "fixed-window 2/365d")[0] for _ in range(3)] == [1, 1, 0]
        assert r.call("SLUICE.CHECK", keys[0], 1, "fixed-window 9/365d", "KEY", keys[1], "sliding-log 9/1h")[0] == 1
        assert r.call("SLUICE.RESET", keys[0], "fixed-window 2/365d") == 1
        assert r.call("SLUICE.PEEK", keys[0], 2, "fixed-window 2/365d")[0] == 1
        assert r.call("SLUICE.ACQUIRE", keys[0], 1, "ID", "a", "concurrency 1 lease 1h")[0] == 1
        assert r.call("SLUICE.RELEASE", keys[0], "a", "concurrency 1 lease 1h") == 1
    nothing_failed(one)


# ---- more than a node can answer in time -----------------------------------------------------------------------------

def burst(one, connections, calls):
    """How many of so many calls pass, where each connection sends all of its own at once."""
    clients = [one.resp() for _ in range(connections)]
    for n, client in enumerate(clients):
        client.send(b"".join(encode("SLUICE.ADMIT", 1, "user", f"{n}-{i}") for i in range(calls)))
    passed = sum(client.read()[0] for client in clients for _ in range(calls))
    for client in clients:
        client.close()
    return passed


def test_a_burst_that_no_node_could_answer_passes_nobody(stores, server):
    """All of it is denied, by the node or for being too many. on-error is silent: the node is not away. Only where the
    machine gave the node no time for a budget it is: not three times running."""
    one = server(policy=f"""
threads: 1
connections: {{per-address: 1000}}
store: {{redis: "{stores.address("module")}", prefix: "{next(PREFIXES)}", budget: 20ms, slices: false}}
limits: [{{name: none, key: user, limit: 0/1h, on-error: allow}}]
""")
    wait_until(lambda: figure(one, "sluice_fleet_nodes", state="up") == 1, "the node is not up")
    assert any(burst(one, 600, 64) == 0 for _ in range(3)), "a burst of one caller's switches limits off"


# ---- a seventeenth limit ---------------------------------------------------------------------------------------------

SIXTEEN = [f"name: n{n}, key: ip, limit: fixed-window {100 + n}/365d" for n in range(15)]
SIXTEEN.append("name: tight, key: ip, limit: fixed-window 3/365d")
MORE = "name: more, when: {plan: pro}, key: ip, limit: fixed-window 50/365d, on-error: allow"


def test_a_seventeenth_limit_denies(place):
    """Brought about by a client's header: that limit denies, nothing is charged, and without it the others count."""
    one = place.start([*SIXTEEN, MORE], more="threads: 1\nattributes: {plan: header x-plan}\n")
    with one.resp() as r, one.http() as web:
        for _ in range(20):
            reply = admit(r, ip="192.0.2.1", plan="pro")
            assert (reply[:4], reply[6:]) == ([0, 50, 0, -1], [16, b"more"])
        status, headers, body = web.ask("POST", "/v1/admit", {"attributes": {"ip": "192.0.2.1", "plan": "pro"}})
        assert (status, body["limit"], body["bound"], body["retry_after_ms"]) == (429, "more", "limits", -1)
        assert "Retry-After" not in dict(headers)
        assert [limit.get("bound") for limit in body["limits"]] == [None] * 15 + ["limits"] * 2
        assert [limit["name"] for limit in body["limits"][15:]] == ["more", "tight"], "it has the last one's place"
        proxied = {"X-Forwarded-For": "192.0.2.1", "X-Plan": "pro"}
        assert one.http().ask("GET", "/v1/auth/forward", headers=proxied)[0] == 429
        explained = r.call("SLUICE.EXPLAIN", 1, "ip", "192.0.2.1", "plan", "pro")
        assert [row[0] for row in explained[15:]] == [b"more", b"tight"]
        for row, quota in zip(explained[15:], (50, 3)):
            assert row[3:] == [0, quota, 0, -1, 0, 0, b"bound", b"limits"]
        reply = r.call("SLUICE.ADMIT", 0, "ip", "192.0.2.1", "plan", "pro")
        assert (reply[:4], reply[6:]) == ([1, 50, 0, 0], [16, b"more"]), "what costs nothing is allowed"
        status, _, body = web.ask("POST", "/v1/admit", {"attributes": {"ip": "192.0.2.1", "plan": "pro"}, "cost": 0})
        assert (status, body["limit"], body["remaining"], body["retry_after_ms"]) == (200, "more", 0, 0)
        assert r.call("SLUICE.EXPLAIN", 0, "ip", "192.0.2.1", "plan", "pro")[15][3] == 1
        assert allowed(r, 5, ip="192.0.2.1") == 3, "what was denied was charged nothing"
        assert admit(r, ip="192.0.2.1")[7] == b"tight"
    assert figure(one, "sluice_bounds_total", policy="more", bound="limits") == 24
    nothing_failed(one)


def test_all_limits_that_find_no_place_are_shown_and_counted(place):
    """The 16th, whose place the 17th takes, and those after that: enforced or observed, in the file's order."""
    watched = [", observe: true" if n in (15, 18) else "" for n in range(20)]
    one = place.start([f"name: n{n}, key: ip, limit: fixed-window {10 + n}/365d{watched[n]}" for n in range(20)])
    want = [(f"n{n}", "limits", n in (15, 18)) for n in (16, 15, 17, 18, 19)]
    with one.resp() as r, one.http() as web:
        for _ in range(2):
            status, _, body = web.ask("POST", "/v1/admit", {"attributes": {"ip": "192.0.2.1"}})
            assert (status, body["limit"], len(body["limits"])) == (429, "n16", 20)
            assert [(limit["name"], limit["bound"], limit["observed"]) for limit in body["limits"][15:]] == want
            assert all((limit["key"], limit["allowed"]) == ("ip=192.0.2.1", False) for limit in body["limits"][15:])
        explained = r.call("SLUICE.EXPLAIN", 1, "ip", "192.0.2.1")
        assert [(row[0].decode(), row[-1].decode()) for row in explained[15:]] == [pair[:2] for pair in want]
        for reply in pipelined(r, [("SLUICE.ADMIT", 1, "ip", f"192.0.2.{n % 2}") for n in range(6)]):
            assert (reply[0], reply[7]) == (0, b"n16")
    for name, _, observed in want:
        decision, other = ("shadow_denied", "denied") if observed else ("denied", "shadow_denied")
        assert figure(one, "sluice_bounds_total", policy=name, bound="limits") == 8
        assert figure(one, "sluice_decisions_total", policy=name, decision=decision) == 8
        assert not figure(one, "sluice_decisions_total", policy=name, decision=other)
    nothing_failed(one)


def test_a_seventeenth_limit_that_is_observed_only_notes_it(place):
    one = place.start([*SIXTEEN, MORE + ", observe: true"])
    with one.resp() as r:
        assert allowed(r, 5, ip="192.0.2.1", plan="pro") == 3
        assert admit(r, ip="192.0.2.1", plan="pro")[7] == b"tight"
        status, _, body = one.http().ask("POST", "/v1/admit", {"attributes": {"ip": "192.0.2.9", "plan": "pro"}})
        last = body["limits"][16]
        assert (status, last["name"], last["allowed"], last["observed"]) == (200, "more", False, True)
    assert figure(one, "sluice_bounds_total", policy="more", bound="limits") == 7
    assert figure(one, "sluice_decisions_total", policy="more", decision="shadow_denied") == 7
    nothing_failed(one)


def test_a_seventeenth_limit_beside_leases_and_reservations(place):
    reserve = "" if "script" in place.kind else ", reserve: {ttl: 1h}"
    one = place.start(["name: jobs, key: user, limit: concurrency 2 lease 1h",
                       "name: spent, key: user, limit: fixed-window 9/365d" + reserve,
                       *[f"name: n{n}, key: user, limit: fixed-window {100 + n}/365d" for n in range(14)],
                       "name: more, when: {plan: pro}, key: user, limit: concurrency 5 lease 1h"])
    with one.resp() as r:
        for _ in range(4):
            reply = admit(r, user="a", plan="pro")
            assert (reply[0], reply[7], reply[8]) == (0, b"more", None)
        assert [admit(r, user="a")[0] for _ in range(3)] == [1, 1, 0], "no lease was taken"
    nothing_failed(one)


def test_no_value_gets_past_its_limit(place):
    """Any bytes, 0 to 4,096 of them: each value is admitted once, at the RESP door and behind a proxy alike."""
    one = place.start(["name: once, key: user, limit: fixed-window 1/365d",
                       "name: pair, key: [user, path], limit: fixed-window 1/365d"],
                      more="threads: 1\nattributes: {user: header x-user-id}\n")
    dice = random.Random(seed := random.randrange(1 << 32))
    alphabets = (bytes(range(256)), b"{}%,=~", b"a{", bytes(range(33, 127)))
    with one.resp() as r:
        for turn in range(20000 if SOAK else 200):
            value = bytes(dice.choices(alphabets[turn % 4], k=dice.choice((0, 1, 8, 330, 950, 1020, 1024, 1100, 4096))))
            value += b"#%d" % turn
            path = b"/" + bytes(dice.choices(b"{,%~", k=dice.choice((0, 1000))))
            words = ("SLUICE.ADMIT", 1, "user", value, "path", path)
            assert [r.call(*words)[0] for _ in range(3)] == [1, 0, 0], (seed, turn)
            if turn % 4 == 3 and len(value) < 4000:
                headers = {"X-User-Id": value.decode(), "X-Forwarded-Uri": "/"}
                assert one.http().ask("GET", "/v1/auth/forward", headers=headers)[0] == 429, (seed, turn)
    nothing_failed(one)


# ---- hash tags -------------------------------------------------------------------------------------------------------

def test_no_value_chooses_its_slot(place):
    one = place.start(["name: u, key: user, limit: fixed-window 2/365d"])
    users = [f"{{here}}{n}" for n in range(20)] + ["a%7Bb", "a{b"]
    with one.resp() as r:
        for user in users:
            assert allowed(r, 3, user=user) == 2
            assert r.call("SLUICE.PEEK", "user=" + user.replace("%", "%25"), 1, "policy:u")[0] == 0
    if place.kind in FLEET:
        keys = place.keys()
        assert len(keys) == len(users) and not any(b"{" in key for key in keys)
        assert len({slot_of(key) for key in keys}) > 15
    nothing_failed(one)


def test_who_brings_his_key_brings_his_tag(place):
    one = place.start([])
    with one.resp() as r:
        words = ["{t}" + "a" * 1021, 1, "concurrency 2 lease 1h", "KEY", "{t}" + "b" * 1021, "concurrency 2 lease 1h"]
        assert r.call("SLUICE.ACQUIRE", *words)[0] == 1, "one step, though both keys are folded"
    nothing_failed(one)


# ---- instants --------------------------------------------------------------------------------------------------------

TIMED = "threads: 1\nclient-time: true\n"


def test_a_client_may_set_the_instant_everywhere(place):
    one = place.start(["name: two, key: user, limit: fixed-window 2/1h, on-error: allow",
                       "name: wide, key: [], limit: fixed-window 3/1h"], more=TIMED)
    hours = [3600_000 * (400_000 + n) for n in range(3)]
    web = one.http()
    for n, at in enumerate(hours):
        statuses = [web.post("/v1/admit", {"attributes": {"user": "a"}, "at": at})[0] for _ in range(4)]
        assert statuses == [200, 200, 429, 429], n
        assert web.post("/v1/admit", {"attributes": {"user": "b"}, "at": at})[0] == 200
        assert web.post("/v1/admit", {"attributes": {"user": "b"}, "at": at})[0] == 429, "wide: what two denied is free"
    with one.resp() as r:
        words = ["SLUICE.CHECK", "k", 1, "AT", hours[0] + 1, "fixed-window 1/1h"]
        assert [r.call(*words)[0] for _ in range(2)] == [1, 0]
        assert r.call("SLUICE.CHECK", "k", 1, "fixed-window 1/1h")[0] == 1, "now is another hour"
    nothing_failed(one)


def test_what_a_node_refuses_of_a_caller_is_told_to_him(stores, server, redises):  # noqa: F811
    """A module that takes no instants, beside a policy that does: nobody passes by it, whatever on-error says."""
    node = redises(module=())
    one = server(policy=TIMED + "limits: [{name: two, key: user, limit: fixed-window 2/1h, on-error: allow}]\n"
                 f'store: {{redis: ["127.0.0.1:{node.port}"], budget: 5s}}\n')
    one.fleet = True
    wait_until(lambda: figure(one, "sluice_fleet_nodes", state="up") >= 1, "the node is not up")
    status, _, body = one.http().post("/v1/admit", {"attributes": {"user": "a"}, "at": 1_800_000_000_000})
    assert status == 400 and "client-time yes" in body["detail"]
    with one.resp() as r:
        with pytest.raises(RespError, match="client-time yes"):
            r.call("SLUICE.CHECK", "k", 1, "AT", 1_800_000_000_000, "10/1s")
        assert allowed(r, 3, user="a") == 2
    assert figure(one, "sluice_fleet_decisions_total", way="failed") == 0


def test_what_the_script_can_not_count_is_no_store_that_is_away(stores, server):
    one = Place("script", stores, server).start(["name: two, key: user, limit: fixed-window 2/1h, on-error: allow"])
    with one.resp() as r:
        for limit in ("token-bucket 4G/3660d", "1M/month at Europe/Berlin", "distinct 2000/1h"):
            with pytest.raises(RespError, match="some limits need the module"):
                r.call("SLUICE.CHECK", "k", 1, "MEMBER", "m", limit)
    assert figure(one, "sluice_fleet_decisions_total", way="failed") == 0


def test_who_holds_leases_is_asked_elsewhere(stores, server):
    one = Place("module", stores, server).start([])
    status, _, body = one.http().post("/v1/holders", {"key": "k", "limits": ["concurrency 1 lease 1s"]})
    assert status == 400 and "ask its nodes" in body["detail"]
    with one.resp() as r, pytest.raises(RespError, match="in Redis: ask its nodes"):
        r.call("SLUICE.HOLDERS", "k", "concurrency 1 lease 1s")
    nothing_failed(one)


# ---- whatever is asked -----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", FLEET)
def test_no_caller_brings_about_an_error_of_ours(kind, stores, server):
    """Random calls at all doors of a front, well formed and not: no node's words are taken for a node that is away."""
    by_script = ("reserve", "penalty", "candidate", "distinct 2000")
    limits = [one for one in LIMITS if FLEET[kind] == "module" or not any(word in one for word in by_script)]
    one = Place(kind, stores, server).start(limits, more=TIMED + "attributes:\n" + "".join(
        f"  {name}: header {HEADERS[name].lower()}\n" for name in ("user", "plan", "device")))
    asker = Asker(one, seed := random.randrange(1 << 32))
    for turn in range(20_000 if SOAK else 500):
        for ask in (asker.by_http, asker.by_proxy, asker.by_resp):
            fine, told = ask()
            assert fine, (seed, turn, told)
    assert figure(one, "sluice_fleet_decisions_total", way="failed") == 0, seed
    if "cluster" not in kind:  # there some of these limits can't be decided in one step: the caller is told
        nothing_failed(one)


@pytest.mark.parametrize("kind", ["server", *(kind for kind in FLEET if FLEET[kind] == "module")])
def test_members_beside_a_reservation(kind, stores, server):
    """In one call, without a lease: either denies at its quota. The module refused them, and all passed."""
    one = Place(kind, stores, server).start(["name: tokens, key: user, limit: sliding-log 40/1h, reserve: {ttl: 1h}",
                                             "name: devices, key: user, limit: distinct 3/1h, of: device"])
    with one.resp() as r:
        replies = [admit(r, user="a", device=f"d{n}") for n in range(6)]
        assert [reply[0] for reply in replies] == [1] * 3 + [0] * 3 and replies[5][7] == b"devices"
        assert allowed(r, 60, user="a", device="d1") == 37 and admit(r, user="a", device="d1")[7] == b"tokens"
        assert r.call("SLUICE.COMMIT", "user=a", replies[0][8], 0)[0] == 1
        assert admit(r, user="a", device="d1")[0] == 1, "what was not spent is back"
    nothing_failed(one)


# ---- what a module keeps of a key ------------------------------------------------------------------------------------

BY_MODULE = [kind for kind in FLEET if FLEET[kind] == "module"]
FILLED = BY_MODULE if SOAK else BY_MODULE[:1]  # 16,384 reservations take their time


def pipelined(r, commands, at_a_time=64):
    commands = iter(commands)
    while some := list(itertools.islice(commands, at_a_time)):
        r.send(b"".join(encode(*words) for words in some))
        yield from [r.read() for _ in some]


@pytest.mark.parametrize("kind", BY_MODULE)
def test_more_counters_than_a_key_has(kind, stores, server):
    """By limits in notation: one of the policy's that is new to the key denies; those that are there go on."""
    one = Place(kind, stores, server).start(["name: new, key: user, limit: fixed-window 9/365d",
                                             "name: beside, key: ip, limit: fixed-window 3/365d"])
    with one.resp() as r:
        windows = [f"9/{3600 + n}s" for n in range(257)]
        assert [r.call("SLUICE.CHECK", "user=a", 1, window)[0] for window in windows] == [1] * 256 + [0]
        assert [admit(r, user="a", ip="192.0.2.1")[0::7] for _ in range(6)] == [[0, b"new"]] * 6
        assert allowed(r, 5, user="b", ip="192.0.2.1") == 3, "what was denied was charged nothing"
        assert r.call("SLUICE.CHECK", "user=a", 1, windows[0])[2] == 7
        assert r.call("SLUICE.RESET", "user=a", windows[0]) == 1
        assert admit(r, user="a", ip="192.0.2.2")[0] == 1
    assert figure(one, "sluice_bounds_total", policy="new", bound="room") == 6
    nothing_failed(one)


@pytest.mark.parametrize("kind", FILLED)
def test_as_many_reservations_as_are_kept(kind, stores, server):
    """The limit denies until one is over; the one beside it, of the same key, is charged nothing meanwhile."""
    one = Place(kind, stores, server).start(
        ["name: spent, key: user, limit: fixed-window 4G/365d, reserve: {ttl: 1h}",
         "name: beside, key: user, limit: fixed-window 3/365d"])
    with one.resp() as r:
        asks = (("SLUICE.RESERVE", "user=a", 1, 3600_000, "ID", f"r{n}", "policy:spent") for n in itertools.count())
        made = list(itertools.takewhile(lambda reply: reply[0], pipelined(r, asks)))
        assert len(made) == 16384
    with one.resp() as r:
        assert [admit(r, user="a")[0::7] for _ in range(6)] == [[0, b"spent"]] * 6
        told = one.http().post("/v1/admit", {"attributes": {"user": "a"}})
        assert told[0] == 429 and (told[2]["limit"], told[2]["bound"]) == ("spent", "reservations")
        assert allowed(r, 5, user="b") == 3
        assert r.call("SLUICE.PEEK", "user=a", 1, "policy:beside")[2] == 3, "what was denied was charged nothing"
        for reply in made[:3]:
            r.call("SLUICE.COMMIT", "user=a", reply[7], 1)
        assert [admit(r, user="a")[0] for _ in range(5)] == [1, 1, 1, 0, 0]
    assert figure(one, "sluice_bounds_total", policy="spent", bound="reservations") >= 7
    nothing_failed(one)


# ---- who denies ------------------------------------------------------------------------------------------------------

def test_a_denial_by_on_error_names_its_limit(server):
    one = server(policy="threads: 1\nlimits:\n  - {name: open, key: user, limit: 9/1m}\n"
                        "  - {name: shut, key: user, limit: token-bucket 9/1m burst 4, on-error: deny}\n"
                        'store: {redis: ["127.0.0.1:1"], budget: 10ms}\n')
    with one.resp() as r:
        assert admit(r, user="a") == [0, 4, 0, 1000, 0, 0, 1, b"shut"]


# ---- who takes longest -----------------------------------------------------------------------------------------------

def near_ties(dice, count):
    """Denials whose waits end within the same millisecond, or nearly: rates that hardly differ."""
    now = 3600_000 * 400_000
    for n in range(count):
        now += dice.choice((100_000, 5000, 2, 1, 1))
        words = ["SLUICE.CHECK", "a", 1, "AT", now]
        for i, key in enumerate(dice.choices(("a", "b", "c"), k=dice.choice((2, 2, 3)))):
            words += ["KEY", key] if i > 0 else []
            window = f"{dice.randrange(995, 1001)}ms"
            words.append(dice.choice((f"token-bucket 7/{window} burst 1", f"leaky-bucket 7/{window} queue 0",
                                      f"token-bucket 7/{window} burst 1", f"7/{window}")))
        yield words


def test_the_limit_that_takes_longest_is_named(place, shared_server):
    one = place.start([], more=TIMED)
    with one.resp() as r:
        ties = ["token-bucket 7/997ms burst 1", "leaky-bucket 7/1000ms queue 0"]
        assert r.call("SLUICE.CHECK", "k", 1, "AT", 1_000_000_000, *ties)[0] == 1
        assert r.call("SLUICE.CHECK", "k", 1, "AT", 1_000_000_002, *ties) == [0, 1, 0, 141, 141, 0, 1]
        assert r.call("SLUICE.CHECK", "k", 1, "AT", 1_000_000_002, ties[1], "KEY", "l", ties[0])[6] == 0
        seed = random.randrange(1 << 32)
        prefix = f"{place.prefix}{place.kind}"
        with shared_server.resp() as there:
            for words in near_ties(random.Random(seed), 3000 if SOAK else 300):
                own = ["".join((prefix, w)) if before in ("SLUICE.CHECK", "KEY") else w
                       for before, w in zip([None, *words], words)]
                assert r.call(*own) == there.call(*own), (seed, words)
    nothing_failed(one)


# ---- Redis out of memory ---------------------------------------------------------------------------------------------

class Memory:
    """Stores that have no memory left, while this lasts; noeviction, as Redis comes."""

    def __init__(self, place):
        store = place.stores.begun[place.kind.split(" ")[0]]
        self.asks = [n.call for n in store.nodes] if "cluster" in place.kind else [store.resp().call]

    def __enter__(self):
        for ask in self.asks:
            ask("CONFIG", "SET", "maxmemory", 1)

    def __exit__(self, *_):
        for ask in self.asks:
            ask("CONFIG", "SET", "maxmemory", 0)


def bounds(one, limit):
    return figure(one, "sluice_bounds_total", policy=limit, bound="room")


@pytest.mark.parametrize("kind", FLEET)
def test_a_redis_without_memory_denies_what_needs_some(kind, stores, server):
    place = Place(kind, stores, server)
    one = place.start(["name: user, key: user, limit: fixed-window 5/365d",
                       "name: ip, key: ip, limit: token-bucket 7/365d",
                       "name: seen, key: path, limit: 100/1h, observe: true"])
    with one.resp() as r:
        assert allowed(r, 1, user="old", ip="old") == 1
        with Memory(place):
            assert admit(r, user="new", ip="old")[0::6] == [0, 0] and admit(r, user="new", ip="old")[7] == b"user"
            assert admit(r, user="old", ip="new")[7] == b"ip"
            denied = admit(r, user="new", ip="new")
            assert denied[0] == 0 and denied[2] == 0 and 0 < denied[3] <= 1000
            told = one.http().post("/v1/admit", {"attributes": {"user": "new", "ip": "old"}})
            assert told[0] == 429 and told[2]["bound"] == "room" and told[2]["limit"] == "user"
            assert r.call("SLUICE.PEEK", "ip=old", 1, "policy:ip")[2] == 6, "where one denies, nothing is charged"
            assert admit(r, user="old", ip="old", path="new")[0] == 1, "what is observed is only noted"
            assert r.call("SLUICE.PEEK", "ip=old", 1, "policy:ip")[2] == 5
            assert r.call("SLUICE.REFUND", "ip=old", 1, "policy:ip")[2] == 6
            assert allowed(r, 9, user="old", ip="old") == 3, "what is there goes on to its quota, to the unit"
            assert r.call("SLUICE.PEEK", "ip=old", 1, "policy:ip")[2] == 3
            assert r.call("SLUICE.RESET", "user=old", "policy:user") == 1
            assert admit(r, user="old", ip="old")[7] == b"user", "and begins anew only where there is room"
        assert allowed(r, 9, user="newer", ip="old") == 3
    assert bounds(one, "user") >= 5 and bounds(one, "ip") >= 1 and bounds(one, "seen") >= 1
    nothing_failed(one)


@pytest.mark.parametrize("kind", FLEET)
def test_what_is_held_goes_back_without_memory(kind, stores, server):
    place = Place(kind, stores, server)
    one = place.start(["name: jobs, key: user, limit: concurrency 2 lease 1h"])
    by_module = FLEET[kind] == "module"
    with one.resp() as r:
        ticket = admit(r, user="a")[-1]
        reserved = r.call("SLUICE.RESERVE", "k", 50, 60000, "sliding-log 100/1h")[-1] if by_module else None
        with Memory(place):
            assert admit(r, user="b")[0] == 0
            assert r.call("SLUICE.RENEW", "any", ticket) == 1
            assert r.call("SLUICE.RELEASE", "any", ticket) == 1
            if by_module:
                assert r.call("SLUICE.COMMIT", "k", reserved, 20)[2] == 80
                assert r.call("SLUICE.RESERVE", "other", 50, 60000, "sliding-log 100/1h")[-1] is None
        assert admit(r, user="b")[0] == 1
    nothing_failed(one)


def test_a_hot_counter_without_memory(stores, server, redises):  # noqa: F811
    """By slices, too: what can't be made is denied; what is there is spent to its quota, to the unit."""
    node = redises()
    one = server(policy="threads: 1\nlimits:\n  - {name: old, key: old, limit: fixed-window 3000/365d}\n"
                        "  - {name: new, key: new, limit: fixed-window 3000/365d}\n"
                        f'store: {{redis: ["127.0.0.1:{node.port}"], budget: 5s}}\n')
    one.fleet = True
    wait_until(lambda: figure(one, "sluice_fleet_nodes", state="up") >= 1, "the node is not up")
    with one.resp() as r, node.resp() as direct:
        assert allowed(r, 1, old="k") == 1
        direct.call("CONFIG", "SET", "maxmemory", 1)
        counts = {"old": 0, "new": 0}
        for _ in range(40):
            for name in counts:
                r.send(encode("SLUICE.ADMIT", 1, name, "k") * 100)
                counts[name] += sum(r.read()[0] for _ in range(100))
        assert counts == {"old": 2999, "new": 0}
        assert figure(one, "sluice_fleet_decisions_total", way="leased") > 0
    nothing_failed(one)


def test_direct_calls_without_memory(redises):  # noqa: F811
    """Whoever asks Redis itself: the module decides."""
    with redises().resp() as r:
        assert r.call("SLUICE.CHECK", "old", 1, "fixed-window 2/365d")[0] == 1
        assert r.call("SLUICE.CHECK", "log", 1, "sliding-log 2000/365d")[0] == 1
        r.call("CONFIG", "SET", "maxmemory", 1)
        assert r.call("SLUICE.CHECK", "new", 1, "fixed-window 2/365d") == [0, 2, 0, 1000, 1000, 0, 0]
        assert r.call("SLUICE.CHECK", "new", 1, "EACH", "10/1s")[0][0] == 4, "the bound is told to fronts: room"
        assert r.call("SLUICE.CHECK", "new", 1, "ID", "a", "10/1s")[0] == 0
        assert r.call("SLUICE.PEEK", "new", 1, "fixed-window 2/365d") == [0, 2, 0, 1000, 1000, 0, 0]
        assert [r.call("SLUICE.CHECK", "old", 1, "fixed-window 2/365d")[0] for _ in range(2)] == [1, 0]
        assert [r.call("CL.THROTTLE", "cell", 5, 10, 60)[0] for _ in range(2)] == [1, 1]
        passed = sum(r.call("SLUICE.CHECK", "log", 1, "sliding-log 2000/365d")[0] for _ in range(1000))
        assert passed < 100, "a log grows no longer"
        assert r.call("DBSIZE") == 2
        r.call("CONFIG", "SET", "maxmemory", 0)
        assert r.call("SLUICE.CHECK", "log", 1, "sliding-log 2000/365d")[2] == 2000 - passed - 2
