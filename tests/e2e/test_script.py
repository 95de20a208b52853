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


# ---- random operations beside the slow twin --------------------------------------------------------------------------

class Held:
    """What the twin of the contract lacks: holds and leases (docs/design/011-redis.md), by definition. The use of a
    counter at an instant is found by letting pass, one by one, what ends until then."""

    def __init__(self):
        self.state, self.holds = twin.State(), {}  # (id, lease) -> (end, cost), in ns

    def copy(self):
        other = Held()
        other.state.charges, other.state.debt = list(self.state.charges), self.state.debt
        other.state.last, other.holds = self.state.last, dict(self.holds)
        return other

    def pass_to(self, t, limit):
        for (name, lease), (end, cost) in sorted(self.holds.items(), key=lambda x: (x[1][0], x[0])):
            if end <= t:
                del self.holds[name, lease]
                if lease:
                    self.state.charge(max(end, self.state.last), cost, limit)
        return self

    def held(self):
        return sum(cost for _, cost in self.holds.values())

    def unused(self, limit, t):
        there = self.copy().pass_to(t, limit)
        return limit.unused(there.state, t) - there.held()


class Model:
    """The twin with holds. An operation is answered as EACH shows it, and merged."""

    def __init__(self):
        self.counters = {}

    def counter(self, item):
        return self.counters.get(item.counter) or Held()

    def at(self, item, now):
        return max(now, self.counter(item).state.last)

    def admits(self, item, now, cost):
        return cost == 0 or item.limit.algorithm == "unlimited" or (
            cost <= self.counter(item).unused(item.limit, self.at(item, now)))

    def wait(self, item, now, cost):
        limit, counter, t = item.limit, self.counter(item), self.at(item, now)
        if cost > limit.most():
            return None
        return twin.first(lambda x: counter.unused(limit, x) >= cost, t, limit)

    def answer(self, item, now, cost, admitted, delay):
        limit = item.limit
        if limit.algorithm == "unlimited":
            return dict(allowed=1, quota=twin.NONE, remaining=twin.NONE, retry_ns=0, reset_ns=0, delay_ns=0, next_ns=0)
        remaining = min(twin.NONE, max(0, self.counter(item).unused(limit, self.at(item, now)).__floor__()))
        return dict(allowed=int(admitted), quota=limit.most(), remaining=remaining,
                    retry_ns=0 if admitted else self.wait(item, now, cost),
                    reset_ns=0 if limit.quota == 0 else self.wait(item, now, limit.most()), delay_ns=delay,
                    next_ns=0 if remaining >= limit.most() else self.wait(item, now, remaining + 1))

    def delay(self, item, now, cost):
        limit = item.limit
        if limit.algorithm != "leaky-bucket" or cost == 0 or not self.admits(item, now, cost):
            return 0
        there = self.counter(item).copy().pass_to(self.at(item, now), limit)
        backlog = there.state.debt_at(self.at(item, now), limit) + there.held()
        return ((backlog + cost - 1) * limit.window / limit.quota).__ceil__()

    def change(self, item, now):
        """The counter, with what has ended by now settled, for an operation that changes it."""
        held = self.counters.setdefault(item.counter, Held())
        return held.pass_to(max(now, held.state.last), item.limit)

    def decide(self, word, items, cost, now, name=None, ttl=0):
        real = [i for i in items if i.limit.algorithm != "unlimited"]
        if word == "REFUND":
            for item in {i.counter: i for i in reversed(real) if i.counter in self.counters}.values():
                held = self.change(item, now)
                held.state.refund(max(now, held.state.last), cost, item.limit)
            cost = 0
        own = {}
        if word in ("HOLD", "CONFIRM"):
            for item in real:
                if item.counter in self.counters:
                    at = self.at(item, now)
                    found = self.counters[item.counter].holds.get((name, 0))
                    if found and found[0] > at:
                        own[item.counter] = self.counters[item.counter].holds.pop((name, 0))
        admits = [self.admits(i, now, cost) for i in items]
        delays = [self.delay(i, now, cost) for i in items]
        allowed = all(a or i.observed for a, i in zip(admits, items))
        if word == "PEEK" or not allowed or word == "HOLD" and cost == 0:
            for counter, hold in own.items():
                self.counters[counter].holds[name, 0] = hold
        elif cost > 0 and word != "REFUND":
            charged = {i.counter: i for a, i in reversed(list(zip(admits, items)))
                       if a and not i.tried and i.limit.algorithm != "unlimited"}
            for item in charged.values():
                held = self.change(item, now)
                t = max(now, held.state.last)
                if word == "HOLD":
                    held.holds[name, 0] = (t + ttl, cost)
                else:
                    held.state.charge(t, cost, item.limit)
        each = [self.answer(i, now, cost, a, d) for i, a, d in zip(items, admits, delays)]
        return twin.merge(items, each), each

    def reset(self, items, now):
        forgotten = 0
        for item in {i.counter: i for i in items if i.counter in self.counters}.values():
            held = self.change(item, now)
            forgotten += bool(held.state.charges or held.holds)
            del self.counters[item.counter]
        return forgotten

    def cancel(self, items, now, name):
        dropped = 0
        for item in {i.counter: i for i in items if i.counter in self.counters}.values():
            found = self.counters[item.counter].holds.get((name, 0))
            if found and found[0] > self.at(item, now):
                del self.counters[item.counter].holds[name, 0]
                dropped += 1
        return dropped

    def lease(self, item, now, name, ttl, spent, want):
        held = self.change(item, now)
        t = max(now, held.state.last)
        _, cost = held.holds.pop((name, 1), (0, 0))
        if min(spent, cost) > 0:
            held.state.charge(t, min(spent, cost), item.limit)
        granted = max(0, min(want, held.unused(item.limit, t).__floor__()))
        if granted:
            held.holds[name, 1] = (t + ttl, granted)
        admitted = self.admits(item, now, 1)
        return granted, self.answer(item, now, 1, admitted, self.delay(item, now, 1))


LIMITS = [
    "fixed-window 7/1s", "10/1s", "3/7s", "sliding-window 1000/1m", "sliding-log 6/1s", "sliding-log 900/2s",
    "sliding-buckets 8/1s precision 100ms", "sliding-buckets 9/1s precision 100ms edge drop",
    "sliding-buckets 7/1s precision 100ms edge weighted", "sliding-buckets 30/10s precision 5s edge weighted",
    "sliding-buckets 500/4096ms precision 1ms", "token-bucket 10/1s burst 5", "token-bucket 3/7s burst 40",
    "token-bucket 3000/1s burst 1", "leaky-bucket 10/1s queue 3", "leaky-bucket 7/3s", "unlimited", "0/1s",
    "token-bucket 0/1s", "token-bucket 10/1s burst 4000000000", "token-bucket 10/1s burst 9",
]
# Products far above 2^53 on the way, or right at it.
LARGE = [
    "4294967295/3660d", "4294967294/3d", "sliding-buckets 4294967295/3660d precision 1d edge weighted",
    "sliding-buckets 4000000000/4096d precision 1d edge weighted".replace("4096d", "3660d"),
    "sliding-log 4294967295/3660d", "fixed-window 4294967295/3660d", "token-bucket 4294967295/1s burst 4294967295",
    "leaky-bucket 4294967295/1s queue 4294967294", "token-bucket 1/3660d burst 28482", "leaky-bucket 1/3660d queue 28481",
    "token-bucket 9/1h burst 2501999791", "token-bucket 5/1h burst 2501998", "token-bucket 5/1h burst 2501999",
]


class Item(twin.Item):
    def __init__(self, text, key, name, mark):
        super().__init__(twin.Limit(text), key, name, observed=mark is not None)
        self.text, self.key, self.mark, self.tried = text, key, mark, mark == "TRIED"

    def words(self, key):
        return [*(["KEY", self.key] if self.key != key else []), *(["NAME", self.name] if self.name else []),
                *([self.mark] if self.mark else []), self.text]


class Dice:
    """Random calls of one world: a few keys, limits, names and ids, on a clock that mostly goes on."""

    def __init__(self, seed, pool):
        self.r, self.pool, self.now, self.model = random.Random(seed), pool, NOW, Model()
        self.prefix = f"{seed}:"
        self.large = pool is LARGE

    def step_time(self):
        steps = [0, 0, 1, 3, 40, 100, 333, 1000, 7001] if not self.large else [0, 1, 999, 10**6, 10**9, 86400000 * 700]
        self.now = max(NOW - 10000, self.now + self.r.choice(steps) - (self.r.random() < 0.05) * 500)

    def cost(self):
        if self.large:
            return self.r.choice([0, 1, 28481, 10**6, 10**9, 2501999, 2 * 10**9, 4294967295, self.r.randrange(2**32)])
        return self.r.choice([0, 1, 1, 1, 2, 3, 5, 9, 50, 300])

    def items(self, count=None):
        made = []
        for _ in range(count or self.r.choice([1, 1, 1, 2, 3, 5])):
            mark = None if count or self.r.random() < 0.85 else self.r.choice(["OBSERVED", "TRIED"])
            made.append(Item(self.r.choice(self.pool), self.prefix + self.r.choice("ab"),
                             self.r.choice([None, None, "n", "m@1*2"]), mark))
        return made

    def call(self):
        """A random call: its words, and what the model answers."""
        self.step_time()
        word = self.r.choice(["CHECK"] * 8 + ["PEEK", "REFUND", "RESET", "HOLD", "HOLD", "CONFIRM", "CANCEL", "LEASE"])
        items, cost, name = self.items(1 if word == "LEASE" else None), self.cost(), self.r.choice(["1", "ab"])
        now, ttl, want, spent = self.now * twin.MS, self.r.choice([1, 50, 700, 60000]), self.cost(), self.cost()
        keys, key, tail = list(dict.fromkeys(i.key for i in items)), items[0].key, []
        for item in items:
            tail += item.words(key)
            key = item.key
        at = ["AT", self.now]
        if word == "RESET":
            return (word, keys, [*at, *tail]), self.model.reset(items, now)
        if word == "CANCEL":
            return (word, keys, [name, *at, *tail]), self.model.cancel(items, now, name)
        if word == "LEASE":
            if items[0].limit.algorithm == "unlimited":
                return self.call()
            granted, shown = self.model.lease(items[0], now, name, ttl * twin.MS, spent, want)
            return (word, keys, [name, ttl, spent, want, *at, *tail]), [granted, *each_reply(shown)]
        merged, each = self.model.decide(word, items, cost, now, name, ttl * twin.MS)
        head = [cost] + ([name] if word in ("HOLD", "CONFIRM") else []) + ([ttl] if word == "HOLD" else [])
        if self.r.random() < 0.5:
            return (word, keys, [*head, *at, "EACH", *tail]), [each_reply(e) for e in each]
        shown = twin.shown(merged)
        return (word, keys, [*head, *at, *tail]), [shown[f] for f in FIELDS + ("index",)]


def each_reply(answer):
    shown = twin.shown(answer)
    return [*(shown[f] for f in FIELDS), twin.ms(answer["next_ns"])]


def play(script, seed, pool, calls):
    dice = Dice(f"{script.form}-{len(pool)}-{seed}", pool)
    for number in range(calls):
        (word, keys, args), want = dice.call()
        got = script.ask(word, keys, *args)
        assert got == want, f"seed {seed}, call {number}: {word} {keys} {args}"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("pool", [LIMITS, LARGE], ids=["usual", "large"])
def test_random_operations(forms, form, pool):
    for seed in range(25):
        play(forms[form], seed, pool, 40)


@pytest.mark.skipif(not SOAK_S, reason="long: set SLUICE_SOAK_SECONDS")
@pytest.mark.parametrize("form", FORMS)
def test_random_operations_for_long(forms, form):
    start = random.randrange(10**9)
    print("seeds from", start)
    end, n = time.monotonic() + SOAK_S / len(FORMS), 0
    while time.monotonic() < end:
        play(forms[form], start + n, LARGE if n % 4 == 0 else LIMITS, 60)
        n += 1
