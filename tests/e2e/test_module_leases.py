"""Leases, members, parts of a cost, retries and reservations beside a slow twin, at every door that speaks the words:
the server, the module, and the script as a function and for EVALSHA. The same random operations everywhere, every
number of every answer, under instants that the test sets.

The twin keeps what was charged as it was charged, and finds every wait by trying the instants at which something ends.
"""

import os
import random

import pytest
import redis

from harness import wait_until
from redis_world import Redis

SOAK_S = float(os.environ.get("SLUICE_SOAK_SECONDS", "0"))
OPERATIONS = int(SOAK_S * 300) or 1500
NOW = 1728000000000
NONE = 4294967295
LOG, LEASES, MEMBERS = "sliding-log 10/10s", "concurrency 3 lease 4s", "distinct 3/8s"
TOKENS_MOST_MS = {LOG: 10000, MEMBERS: 8000, LEASES: 4000}


# ---- the twin --------------------------------------------------------------------------------------------------------

class Log:
    """sliding-log, with reservations: charges as [instant, cost, id, end of the reservation or None]."""
    quota, window = 10, 10000

    def __init__(self):
        self.charges = []

    def used(self, t):
        return sum(cost for s, cost, _, end in self.charges if s + self.window > t and (end is None or end > t))

    def fits(self, t, cost, _):
        return self.used(t) + cost <= self.quota

    def instants(self):
        return [s + self.window for s, *_ in self.charges] + [end for *_, end in self.charges if end is not None]

    def charge(self, t, cost, call):
        ttl = call.get("ttl")
        self.charges.append([t, cost, call.get("id") if ttl else None, t + ttl if ttl else None])

    def open(self, name, t):
        return [c for c in self.charges if c[2] == name and c[3] is not None and c[3] > t]

    def remaining(self, t, _):
        return max(0, self.quota - self.used(t))

    def none_at(self, t):
        return self.used(t) == 0


class Leases:
    quota, length = 3, 4000

    def __init__(self):
        self.held = {}  # id -> (end, cost)

    def used(self, t):
        return sum(cost for end, cost in self.held.values() if end > t)

    def knows(self, t, call):
        return call.get("id") is not None and self.held.get(call["id"], (0,))[0] > t

    def fits(self, t, cost, call):
        return self.knows(t, call) or self.used(t) + cost <= self.quota

    def instants(self):
        return [end for end, _ in self.held.values()]

    def charge(self, t, cost, call):
        if not self.knows(t, call):
            self.held[call["id"]] = (t + self.length, cost)

    def remaining(self, t, _):
        return self.quota - self.used(t)

    def none_at(self, t):
        return self.used(t) == 0


class Members:
    quota, window = 3, 8000

    def __init__(self):
        self.seen = {}

    def used(self, t):
        return sum(s + self.window > t for s in self.seen.values())

    def fits(self, t, cost, call):
        return self.seen.get(call.get("member"), -self.window) + self.window > t or self.used(t) < self.quota

    def instants(self):
        return [s + self.window for s in self.seen.values()]

    def charge(self, t, cost, call):
        self.seen[call["member"]] = t

    def remaining(self, t, _):
        return self.quota - self.used(t)

    def none_at(self, t):
        return self.used(t) == 0


KINDS = {LOG: Log, LEASES: Leases, MEMBERS: Members}


class Twin:
    def __init__(self):
        self.counters, self.tokens = {}, {}

    def counter(self, key, limit):
        return self.counters.setdefault((key, limit), KINDS[limit]())

    def look(self, key, limits, t, cost, call):
        """What each limit answers, charging nothing: [allowed, quota, remaining, retry, reset, delay]."""
        rows = []
        for limit in limits:
            c = self.counter(key, limit)
            ends = sorted({t} | {i for i in c.instants() if i > t})
            allowed = cost == 0 or c.fits(t, cost, call)
            # a call of the same cost by the same caller; above the quota it never fits
            retry = 0 if allowed else next((i - t for i in ends if c.fits(i, cost, call)), -1)
            reset = next(i - t for i in ends if c.none_at(i))
            rows.append([int(allowed), c.quota, c.remaining(t, call), retry, reset, 0])
        return rows

    @staticmethod
    def merged(rows):
        denied = [(float("inf") if r[3] == -1 else r[3], -i) for i, r in enumerate(rows) if not r[0]]
        if denied:
            index = -max(denied)[1]
        else:
            index = min(range(len(rows)), key=lambda i: (rows[i][2], i))
        retry = [r[3] for r in rows if not r[0]]
        return [int(not denied), rows[index][1], min(r[2] for r in rows), -1 if -1 in retry else max(retry, default=0),
                max(r[4] for r in rows), 0, index]

    def check(self, key, limits, t, cost, call, writes=True):
        """CHECK, PEEK, ACQUIRE and RESERVE: the seven numbers, then granted and repeated."""
        token = call.get("token")
        mark = (token, key, frozenset(limits))
        if token and mark in self.tokens and self.tokens[mark][0] > t:
            return self.merged(self.look(key, limits, t, 0, call)), self.tokens[mark][1], True
        name = call.get("id")
        counters = [self.counter(key, limit) for limit in limits]
        leased = [c for c in counters if isinstance(c, Leases)]
        if writes and cost and name and leased and all(c.knows(t, call) for c in leased):
            return self.merged(self.look(key, limits, t, 0, call)), cost, True
        if writes and cost and call.get("ttl") and all(c.open(name, t) for c in counters):
            return self.merged(self.look(key, limits, t, 0, call)), cost, True
        if call.get("upto") and cost:
            rooms = [c.remaining(t, call) if isinstance(c, Log) else (NONE if c.fits(t, 1, call) else 0)
                     for c in counters]
            cost = max(1, min([cost] + rooms))
        rows = self.look(key, limits, t, cost, call)
        allowed = all(r[0] for r in rows)
        if allowed and writes and cost:
            for c in counters:
                c.charge(t, cost, call)
            after = self.look(key, limits, t, 0, call)
            rows = [[1, q, remaining, 0, reset, 0] for _, q, remaining, _, reset, _ in after]
            if token:
                self.tokens[mark] = (t + max(TOKENS_MOST_MS[x] for x in limits), cost)
        return self.merged(rows), cost if allowed else 0, False


# ---- doors -----------------------------------------------------------------------------------------------------------

class Direct:
    """The server, or the module in Redis."""
    takes_holders = True

    def __init__(self, client):
        self.client = client
        self.takes_reservations = True

    def ask(self, word, key, *args):
        return self.client.execute_command("SLUICE." + word, key, *args)


class Function:
    takes_reservations, takes_holders = False, False

    def __init__(self, client, folder):
        self.client = client
        with open(os.path.join(folder, "sluice-client-time.lua"), encoding="ascii") as f:
            client.execute_command("FUNCTION", "LOAD", "REPLACE", f.read())

    def ask(self, word, key, *args):
        return self.client.execute_command("FCALL", "sluice_" + word.lower(), 1, key, *args)


class Eval:
    takes_reservations, takes_holders = False, False

    def __init__(self, client, folder):
        self.client = client
        with open(os.path.join(folder, "sluice-eval-client-time.lua"), encoding="ascii") as f:
            self.sha = client.script_load(f.read())

    def ask(self, word, key, *args):
        return self.client.execute_command("EVALSHA", self.sha, 1, key, word, *args)


class Front(Direct):
    """A server whose store is Redis: it asks the module there. Who holds leases only the node tells."""
    takes_holders = False

    def __init__(self, one):
        super().__init__(redis.Redis(host="127.0.0.1", port=one.resp_port))
        wait_until(self.decides, "no node answers")

    def decides(self):
        try:
            return self.ask("PEEK", "warm", 1, LOG)
        except redis.ResponseError:
            return None


@pytest.fixture(params=["server", "module", "function", "evalsha", "front"])
def door(request, sluice_bin, server):
    folder = os.path.dirname(os.path.abspath(sluice_bin))
    if request.param == "server":
        one = server(policy="client-time: true\n")
        yield Direct(redis.Redis(host="127.0.0.1", port=one.resp_port))
        return
    if request.param == "front":
        host = Redis()
        yield Front(server(policy=f"client-time: true\nstore: {{redis: ['127.0.0.1:{host.port}'], budget: 2s}}\n"))
        host.stop()
        return
    host = Redis() if request.param == "module" else Redis(module=None)
    client = redis.Redis(host="127.0.0.1", port=host.port)
    yield {"module": lambda: Direct(client), "function": lambda: Function(client, folder),
           "evalsha": lambda: Eval(client, folder)}[request.param]()
    host.stop()


# ---- random operations -----------------------------------------------------------------------------------------------

class Play:
    def __init__(self, door, seed):
        self.door, self.dice, self.twin, self.t = door, random.Random(seed), Twin(), NOW
        self.tickets = []  # (key, id, ticket, limits)

    def limits(self, *must):
        pool = [LOG, MEMBERS] if self.dice.random() < 0.5 else [LOG]
        chosen = [x for x in pool if self.dice.random() < 0.6]
        chosen = list(must) + [x for x in chosen if x not in must]
        self.dice.shuffle(chosen)
        return chosen or [LOG]

    def words(self, limits, call):
        """AT, then the other words anywhere among the limits."""
        rest = list(limits)
        for word, value in (("ID", call.get("token") or call.get("id")), ("MEMBER", call.get("member")),
                            ("UPTO", call.get("upto"))):
            if value:
                at = self.dice.choice([i for i in range(len(rest) + 1) if i == len(rest) or rest[i] in limits])
                rest[at:at] = [word] if word == "UPTO" else [word, value]
        return ["AT", self.t, *rest]

    def compare(self, got, want, what):
        assert got == want, f"{what}: got {got}, expected {want}"

    def check(self, key, writes):
        limits = self.limits()
        call = {"member": self.dice.choice("abcdef")} if MEMBERS in limits else {}
        if self.dice.random() < 0.3:
            call["upto"] = True
        if writes and self.dice.random() < 0.3:
            call["token"] = self.dice.choice(["t1", "t2", "t3"])
        cost = self.dice.choice([0, 1, 1, 1, 2, 3, 7, 12])
        words = self.words(limits, call)
        want, granted, _ = self.twin.check(key, limits, self.t, cost, call, writes)
        got = self.door.ask("CHECK" if writes else "PEEK", key, cost, *words)
        self.compare(got, want + ([granted] if call.get("upto") else []), (key, cost, words))

    def acquire(self, key):
        limits = self.limits(LEASES)
        call = {"id": self.dice.choice(["job-1", "job-2", "job-3", "job-4", "job-5"])}
        if MEMBERS in limits:
            call["member"] = self.dice.choice("abcdef")
        cost = self.dice.choice([1, 1, 1, 2, 4])
        words = self.words(limits, call)
        want, granted, _ = self.twin.check(key, limits, self.t, cost, call)
        got = self.door.ask("ACQUIRE", key, cost, *words)
        self.compare(got, want + [call["id"].encode() if granted else None], (key, cost, words))

    def change(self, key, word):
        name = self.dice.choice(["job-1", "job-2", "job-3", "job-4", "job-5"])
        leases = self.twin.counter(key, LEASES)
        known = leases.knows(self.t, {"id": name})
        got = self.door.ask(word, key, name, "AT", self.t, LEASES)
        self.compare(got, int(known), (word, key, name))
        if known and word == "RELEASE":
            del leases.held[name]
        elif known:
            leases.held[name] = (self.t + leases.length, leases.held[name][1])

    def holders(self, key):
        leases = self.twin.counter(key, LEASES)
        want = sorted((end - self.t, cost) for end, cost in leases.held.values() if end > self.t)
        got = self.door.ask("HOLDERS", key, "AT", self.t, LEASES)
        assert [left for _, _, left in got] == [left for left, _ in want], ("HOLDERS", key)
        self.compare(sorted((left, cost) for _, cost, left in got), want, ("HOLDERS", key))

    def reserve(self, key):
        call = {"id": self.dice.choice(["r1", "r2", "r3", "r4"]), "ttl": self.dice.choice([500, 3000, 15000])}
        cost = self.dice.choice([1, 2, 3, 5])
        want, granted, _ = self.twin.check(key, [LOG], self.t, cost, call)
        got = self.door.ask("RESERVE", key, cost, call["ttl"], "AT", self.t, "ID", call["id"], LOG)
        self.compare(got[:7], want, ("RESERVE", key, cost, call))
        assert (got[7] is not None) == bool(granted)
        if granted:
            self.tickets.append((key, call["id"], got[7]))

    def commit(self):
        if not self.tickets:
            return
        key, name, ticket = self.tickets.pop(self.dice.randrange(len(self.tickets)))
        actual = self.dice.choice([0, 1, 2, 4, 9, 20])
        log = self.twin.counter(key, LOG)
        open_ones = log.open(name, self.t)
        try:
            got = self.door.ask("COMMIT", key, ticket, actual, "AT", self.t)
        except redis.ResponseError as error:
            assert str(error).startswith("NOTFOUND") and not open_ones, (key, name, error)
            return
        assert open_ones, (key, name, got)
        for charge in open_ones:
            charge[1], charge[2], charge[3] = actual, None, None
        self.compare(got, Twin.merged(self.twin.look(key, [LOG], self.t, 0, {})), ("COMMIT", key, name, actual))

    def step(self):
        key = self.dice.choice(["k1", "k2", "k3"])
        self.t += self.dice.choice([0, 0, 1, 3, 40, 200, 700, 1500, 4000])
        pick = self.dice.random()
        if pick < 0.35:
            self.check(key, True)
        elif pick < 0.45:
            self.check(key, False)
        elif pick < 0.65:
            self.acquire(key)
        elif pick < 0.75:
            self.change(key, self.dice.choice(["RELEASE", "RENEW"]))
        elif pick < 0.8 and self.door.takes_holders:
            self.holders(key)
        elif self.door.takes_reservations:
            if pick < 0.9:
                self.reserve(key)
            else:
                self.commit()


def test_random_operations_are_decided_as_the_twin_does(door):
    seed = random.randrange(2**32)
    print(f"seed {seed}, {OPERATIONS} operations")
    play = Play(door, seed)
    for number in range(OPERATIONS):
        try:
            play.step()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, operation {number}: {error}") from error


def test_refusals_name_the_command_that_would_be_right(door):
    for words, hint in [(("CHECK", "k", 1, "AT", NOW, LEASES), "SLUICE.ACQUIRE"),
                        (("REFUND", "k", 1, "AT", NOW, LEASES), "SLUICE.RELEASE ends a lease, SLUICE.RESET all"),
                        (("CHECK", "k", 1, "AT", NOW, MEMBERS), "MEMBER"),
                        (("ACQUIRE", "k", 1, "AT", NOW, LOG), "SLUICE.CHECK"),
                        (("CHECK", "k", 1, "AT", NOW, "ID", "", LOG), "64"),
                        (("RELEASE", "k", "a", "AT", NOW, "MEMBER", "m", LEASES), "MEMBER is no word of"),
                        (("RENEW", "k", "a", "AT", NOW, LEASES, "MEMBER", "m"), "MEMBER is no word of"),
                        (("CHECK", "k", 1, "AT", NOW, "ID", "t", "AT", NOW, LOG), "AT twice: expected it once"),
                        (("CHECK", "k", 1, LOG, "AT", NOW), "AT after a limit: expected it before the first"),
                        (("HOLDERS", "k", "AT", NOW, LOG),
                         "concurrency" if isinstance(door, Direct) else "HOLDERS needs the module")]:
        with pytest.raises(redis.ResponseError) as caught:
            door.ask(*words)
        assert hint in str(caught.value), words


def test_the_instant_stands_anywhere_before_the_first_limit(door):
    assert door.ask("CHECK", "at", 9, "UPTO", "AT", NOW, "ID", "t", LOG)[0] == 1
    assert door.ask("PEEK", "at", 1, "MEMBER", "m", "AT", NOW + 4000, MEMBERS)[0] == 1


def test_a_retried_acquire_takes_one_place_and_a_lease_ends_to_the_millisecond(door):
    for _ in range(5):
        got = door.ask("ACQUIRE", "five", 1, "AT", NOW, "ID", "worker 7", LEASES)
        assert got == [1, 3, 2, 0, 4000, 0, 0, b"worker 7"]
    assert door.ask("PEEK", "five", 3, "AT", NOW + 3999, LEASES)[:4] == [0, 3, 2, 1]
    assert door.ask("PEEK", "five", 3, "AT", NOW + 4000, LEASES)[:4] == [1, 3, 3, 0]


