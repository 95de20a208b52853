"""The Lua form of Sluice in a real redis-server: as a library of functions and as a script for EVALSHA.

The same case list that every door must answer, then thousands of random operations beside the slow twin, which shares
no code with either; then what only a script has: keys that must be declared, numbers that leave 53 bits, texts that are
flushed, effects that are replicated, and what a charge costs.
"""

import os
import random
import re
import struct
import sys
import time

import pytest
import redis

from harness import FIELDS, ROOT, in_one_window, wait_until
from ports import free_port
from redis_world import Redis

sys.path.insert(0, os.path.join(ROOT, "tests", "cases"))
import twin  # noqa: E402

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


class Guest:
    """A redis-server of its own, without the module."""

    def __init__(self, **options):
        self.options = options

    def __enter__(self):
        self.redis = Redis(module=None, **self.options)
        return self.redis

    def __exit__(self, *_):
        self.redis.stop()


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

def is_counted(case):
    """A case of what counts requests: what is held test_module_cases.py plays, at the script too."""
    return all(step["op"] in ("check", "peek", "refund", "reset") and not {"id", "upto", "member"} & set(step)
               and not any("member" in x for x in step["limits"] if isinstance(x, dict))
               and not any("concurrency" in str(x) or "distinct" in str(x) for x in step["limits"])
               for step in case["steps"])


def all_cases():
    for path in twin.files():
        for number, case in enumerate(twin.load(path)):
            # there are no time zones in Lua, and no phases
            apart = os.path.basename(path) in ("calendar.json", "spread.json")
            if "policy" not in case and not apart and is_counted(case):
                yield f"{os.path.basename(path)[:-5]}-{number:02d} {case['name']}", case


PLAIN = list(all_cases())


# The only cases with a bucket whose debt could pass 2^53, even in milliseconds.
REFUSED = {"token-bucket-10 the largest burst at the slowest rate"}


def step_words(step, prefix):
    """A step of the list as (word, keys, args)."""
    def own(key):
        return prefix + key
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
    if word != "RESET" and keys[0] != prefix + step["key"]:
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
        other.state.last, other.state.rate, other.holds = self.state.last, self.state.rate, dict(self.holds)
        return other

    def pass_to(self, t, limit):
        for (name, lease), (end, cost) in sorted(self.holds.items(), key=lambda x: (x[1][0], x[0])):
            if end <= t:
                del self.holds[name, lease]
                if lease:
                    rate = self.state.rate or max(limit.quota, 1)  # it says nothing of who asks: the rate stays
                    self.state.charge(max(end, self.state.last), cost, limit)
                    self.state.rate = rate
        return self

    def leases(self):
        """Without holds: those are charged or dropped long before they end, and no wait counts on them."""
        self.holds = {(name, lease): one for (name, lease), one in self.holds.items() if lease}
        return self

    def held(self):
        return sum(cost for _, cost in self.holds.values())

    def unused(self, limit, t):
        there = self.copy().pass_to(t, limit)
        return limit.unused(there.state, t) - there.held()


class Model:
    """The twin with holds. An operation is answered as EACH shows it, and merged."""

    def __init__(self):
        self.counters, self.seen = {}, {}

    def begin(self, items, now):
        """The counters of a call as they stand: what has ended by now is let pass under the first limit of each."""
        self.seen = {}
        for item in items:
            if item.counter in self.counters and item.counter not in self.seen:
                held = self.seen[item.counter] = self.counters[item.counter].copy()
                held.pass_to(max(now, held.state.last), item.limit)

    def counter(self, item):
        return self.seen.get(item.counter) or Held()

    def at(self, item, now):
        return max(now, self.counter(item).state.last)

    def admits(self, item, now, cost):
        return cost == 0 or item.limit.algorithm == "unlimited" or (
            cost <= self.counter(item).unused(item.limit, self.at(item, now)))

    def bound(self, item, now, cost):
        """4 where only holds are in the way of a cost."""
        there = self.counter(item).copy().leases()
        return 4 if cost <= there.unused(item.limit, self.at(item, now)) else 0

    def wait(self, item, now, cost):
        limit, counter, t = item.limit, self.counter(item).copy().leases(), self.at(item, now)
        if cost > limit.most():
            return None
        if not self.admits(item, now, cost) and self.bound(item, now, cost):
            return twin.MS
        return twin.first(lambda x: counter.unused(limit, x) >= cost, t, limit)

    def answer(self, item, now, cost, admitted, delay):
        limit = item.limit
        if limit.algorithm == "unlimited":
            return dict(allowed=1, quota=twin.NONE, remaining=twin.NONE, retry_ns=0, reset_ns=0, delay_ns=0, next_ns=0)
        remaining = min(twin.NONE, max(0, self.counter(item).unused(limit, self.at(item, now)).__floor__()))
        return dict(allowed=int(admitted), quota=limit.most(), remaining=remaining,
                    retry_ns=0 if admitted else self.wait(item, now, cost),
                    reset_ns=0 if limit.quota == 0 else self.reset_wait(item, now), delay_ns=delay,
                    bound=0 if admitted or cost > limit.most() else self.bound(item, now, cost),
                    next_ns=0 if remaining >= limit.most() else self.wait(item, now, remaining + 1))

    def reset_wait(self, item, now):
        limit, counter = item.limit, self.counter(item).copy().leases()
        return twin.first(lambda x: counter.unused(limit, x) >= limit.most(), self.at(item, now), limit)

    def delay(self, item, now, cost, charged=False):
        limit = item.limit
        if limit.algorithm != "leaky-bucket" or cost == 0 or not self.admits(item, now, cost):
            return 0
        there = self.counter(item).copy().pass_to(self.at(item, now), limit)
        debt = there.state.debt_at(self.at(item, now), limit)
        rate = limit.quota if charged or debt == 0 or not there.state.rate else there.state.rate
        return ((debt + there.held() + cost - 1) * limit.window / rate).__ceil__()

    def change(self, item):
        """The counter, for an operation that changes it."""
        held = self.counters[item.counter] = self.seen.setdefault(item.counter, Held())
        return held

    def decide(self, word, items, cost, now, name=None, ttl=0):
        real = [i for i in items if i.limit.algorithm != "unlimited"]
        self.begin(real, now)
        if word == "REFUND":
            given = [i for i in reversed(real) if i.counter in self.counters and cost > 0]  # none: changes nothing
            for item in {i.counter: i for i in given}.values():
                held = self.change(item)
                held.state.refund(max(now, held.state.last), cost, item.limit)
            cost = 0
        own = {}
        if word in ("HOLD", "CONFIRM"):
            for item in real:
                if (name, 0) in self.counter(item).holds:
                    own[item.counter] = self.counter(item).holds.pop((name, 0))
        admits = [self.admits(i, now, cost) for i in items]
        allowed = all(a or i.observed for a, i in zip(admits, items))
        charges = {i.counter for a, i in zip(admits, items) if a and not i.tried} if (
            allowed and cost > 0 and word in ("CHECK", "CONFIRM")) else set()
        delays = [self.delay(i, now, cost, i.counter in charges) for i in items]
        if word == "PEEK" or not allowed or word == "HOLD" and cost == 0:
            for counter, hold in own.items():
                self.seen[counter].holds[name, 0] = hold
        elif word == "CONFIRM":
            self.counters.update({c: self.seen[c] for c in own})
        if allowed and cost > 0 and word not in ("PEEK", "REFUND"):
            charged = {i.counter: i for a, i in reversed(list(zip(admits, items)))
                       if a and not i.tried and i.limit.algorithm != "unlimited"}
            for item in charged.values():
                held = self.change(item)
                t = max(now, held.state.last)
                if word == "HOLD":
                    held.holds[name, 0] = (t + ttl, cost)
                else:
                    held.state.charge(t, cost, item.limit)
        each = [self.answer(i, now, cost, a, d) for i, a, d in zip(items, admits, delays)]
        return twin.merge(items, each), each

    def reset(self, items, now):
        forgotten = 0
        self.begin(items, now)
        for item in {i.counter: i for i in items if i.counter in self.counters}.values():
            held = self.change(item)
            forgotten += bool(held.state.charges or held.holds)
            del self.counters[item.counter]
        return forgotten

    def cancel(self, items, now, name):
        dropped = 0
        self.begin(items, now)
        for item in {i.counter: i for i in items if i.counter in self.counters}.values():
            if (name, 0) in self.seen[item.counter].holds:
                del self.change(item).holds[name, 0]
                dropped += 1
        return dropped

    def lease(self, item, now, name, ttl, spent, want):
        self.begin([item], now)
        held = self.change(item)
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
    "leaky-bucket 4294967295/1s queue 4294967294", "token-bucket 1/3660d burst 28482",
    "leaky-bucket 1/3660d queue 28481",
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
    row = [*(shown[f] for f in FIELDS), twin.ms(answer["next_ns"])]
    return [row[0] + 2 * answer.get("bound", 0), *row[1:]]


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


# ---- numbers that leave 53 bits --------------------------------------------------------------------------------------

def most_capacity(window_ms):
    """The largest capacity whose debt, and one charge more, stays below 2^53 when counted in ms."""
    return (2**53 - 1) // window_ms - 1


@pytest.mark.parametrize("window,window_ms", [("3660d", 316224000000), ("30d", 2592000000), ("1h", 3600000),
                                              ("2098s", 2098000), ("2097152ms", 2097152)])
def test_the_exact_edge_of_53_bits(forms, window, window_ms):
    script, most = forms["function"], most_capacity(window_ms)
    for algorithm, option, extra in (("token-bucket", "burst", 0), ("leaky-bucket", "queue", 1)):
        largest = min(most - extra, 4294967295)
        key = f"edge {algorithm} {window}"
        limit = f"{algorithm} 3/{window} {option} {largest}"
        assert script.ask("CHECK", [key], min(largest, 4294967295), "AT", NOW, limit)[0] == 1
        item = twin.Item(twin.Limit(limit), key)
        model = twin.Twin()
        model.decide("check", [item], largest, NOW * twin.MS)
        merged = model.decide("check", [item], largest, (NOW + 12345) * twin.MS)[0]
        assert script.ask("CHECK", [key], largest, "AT", NOW + 12345, limit) == [
            twin.shown(merged)[f] for f in FIELDS + ("index",)]
        if largest < 4294967295:
            with pytest.raises(redis.ResponseError, match=f"leave the 53 bits .* {option} is at most {largest};"):
                script.ask("CHECK", [key], 1, "AT", NOW, f"{algorithm} 3/{window} {option} {largest + 1}")


# ---- bad calls -------------------------------------------------------------------------------------------------------

BAD = [
    ("CHECK", ["k"], [], "cost is missing"),
    ("CHECK", ["k"], ["x", "1/1s"], "cost 'x': expected a whole number from 0 to 4294967295"),
    ("CHECK", ["k"], ["4294967296", "1/1s"], "cost '4294967296'"),
    ("CHECK", ["k"], ["-1", "1/1s"], "cost '-1'"),
    ("CHECK", ["k"], ["1e3", "1/1s"], "cost '1e3'"),
    ("CHECK", ["k"], ["0x10", "1/1s"], "cost '0x10'"),
    ("CHECK", ["k"], ["nan", "1/1s"], "cost 'nan'"),
    ("CHECK", ["k"], ["1" * 400, "1/1s"], "cost '111"),
    ("CHECK", ["k"], [1], "no limit for key 'k': expected at least one after it, such as 100/60s"),
    ("CHECK", ["k"], [1, "EACH"], "no limit for key 'k'"),
    ("CHECK", ["k"], [1, "AT"], "AT is missing"),
    ("CHECK", ["k"], [1, "AT", "yesterday", "1/1s"], "AT 'yesterday': expected a whole number"),
    ("CHECK", ["k"], [1, "AT", 9223372036855, "1/1s"], "AT '9223372036855'"),
    ("CHECK", ["k"], [1, "10"], "limit 1, column 3: expected '/' and a window such as 1m (multipliers: k, M, G), "
                                "found the end"),
    ("CHECK", ["k"], [1, "1/1s", "token-bucket 1/1s burst 0"], "limit 2, column 25: expected a burst of at least 1, "
                                                               "found '0'"),
    ("CHECK", ["k"], [1, "concurrency 5 lease 1s"], "limit 1: concurrency is acquired and released: SLUICE.ACQUIRE"),
    ("RESERVE", ["k"], [1, 1000, "5/1m"], "reservations need the module (sluice-module.so) or a server: a script has"),
    ("COMMIT", ["k"], ["1.x", 5], "reservations need the module (sluice-module.so) or a server"),
    ("OVERRIDE", ["k"], ["SET", "5/1m", "6/1m"], "quotas of keys' own need the module (sluice-module.so) or a server"),
    ("HOLDERS", ["k"], ["concurrency 5 lease 1s"], "HOLDERS needs the module (sluice-module.so) or a server"),
    ("INSPECT", ["k"], [], "INSPECT needs the module (sluice-module.so) or a server"),
    ("THROTTLE", ["k"], [15, 30, 60], "THROTTLE needs the module (sluice-module.so) or a server"),
    ("CHECK", ["k"], [1, "COST", 5, "5/1m"], "COST is for reservations: they need the module or a server"),
    ("CHECK", ["k"], [1, "TTL", 5, "5/1m"], "TTL is for reservations: they need the module or a server"),
    ("CHECK", ["k"], [1, "NEXT", "NEXT", "5/1m"], "NEXT twice: expected it once"),
    ("CHECK", ["k"], [1, "5/1m", "EACH", "NEXT"], "NEXT and EACH: expected one of them"),
    ("CHECK", ["k"], [1, "5/1m", "EACH", "EACH"], "EACH twice: expected it once"),
    ("CHECK", ["k"], [1, "KEEP", "5/1m"], "KEEP is no word of SLUICE.CHECK"),
    ("PEEK", ["k"], [1, "ID", "x", "5/1m"], "ID is no word of SLUICE.PEEK"),
    ("HOLD", ["k"], [1, "1", 5, "NEXT", "5/1m"], "NEXT is no word of SLUICE.HOLD"),
    ("CHECK", ["k"], [1, "5/1m", "AT", 1], "AT after a limit: expected it before the first one"),
    ("CHECK", ["k"], [1, "AT", 1, "AT", 1, "5/1m"], "AT twice: expected it once"),
    ("CHECK", ["k"], [1, "concurrency 5"], "limit 1, column 14: expected the option 'lease' and its duration"),
    ("CHECK", ["k"], [1, "distinct 1025/1h"], "limit 1, column 10: expected at most 1024 members in a script"),
    ("ACQUIRE", ["k"], [1, "concurrency 1025 lease 1s"],
     "limit 1, column 13: expected at most 1024 in flight in a script: more need the module, or a server, found"),
    ("RELEASE", ["k"], ["id", "5/1h", "concurrency 2k lease 1s"], "limit 2, column 13: expected at most 1024 in"),
    ("CHECK", ["k"], [1, "distinct 1025/1h registers 16384"], "limit 1, column 10: expected at most 1024"),
    ("CHECK", ["k"], [1, "distinct 5/1h registers 16384"], "limit 1, column 15: expected the end: options belong"),
    ("CHECK", ["k"], [1, "5/1h registers 16384"], "limit 1, column 6: expected the end: 'registers' belongs to d"),
    ("CHECK", ["k"], [1, "5/1m spread"], "limit 1, column 6: expected the end: 'spread' needs the module, or a server"),
    ("CHECK", ["k"], [1, "5/1m spread 7"], "limit 1, column 6: expected the end: 'spread' needs the module"),
    ("CHECK", ["k"], [1, "5/month"], "limit 1, column 3: expected a window such as 10s or 1m: those of the calendar"),
    ("CHECK", ["k"], [1, "TERMS", "count-denied", "5/1m"], "TERMS: penalties and count-denied need the module"),
    ("CHECK", ["k"], [1, "\x00\xff/1s"], "found '\\x00"),
    ("CHECK", ["k"], [1] + ["1/1s"] * 17, "too many limits: at most 16"),
    ("CHECK", ["k"], [1, "1/1s", "KEY"], "KEY needs a key"),
    ("CHECK", ["k"], [1, "1/1s", "KEY", "other", "1/1s"], "KEY 'other': expected one of the keys"),
    ("CHECK", ["k", "other"], [1, "1/1s"], "no limit for key 'other'"),
    ("CHECK", ["k", "o"], [1, "KEY", "o", "1/1s"], "no limit for key 'k'"),
    ("CHECK", ["k", "o"], [1, "1/1s", "KEY", "o"], "no limit for key 'o'"),
    ("CHECK", ["k"], [1, "NAME"], "NAME needs"),
    ("CHECK", ["k"], [1, "NAME", "", "1/1s"], "NAME ''"),
    ("CHECK", ["k"], [1, "NAME", "n" * 65, "1/1s"], "expected 1 to 64 bytes"),
    ("CHECK", ["k"], [1, "NAME", "n"], "need a limit after them"),
    ("CHECK", ["k"], [1, "OBSERVED"], "need a limit after them"),
    ("CHECK", ["k"], [1, "1/1s", "TRIED", "KEY", "k", "1/1s"], "KEY after"),
    ("CHECK", [], [1, "1/1s"], "no key"),
    ("HOLD", ["k"], [1, "xyz", 5, "1/1s"], "id 'xyz': expected 1 to 16 hex digits"),
    ("HOLD", ["k"], [1, "0" * 17, 5, "1/1s"], "expected 1 to 16 hex digits"),
    ("HOLD", ["k"], [1, "1", 0, "1/1s"], "ttl_ms '0': expected a whole number from 1 to 60000"),
    ("HOLD", ["k"], [1, "1", 60001, "1/1s"], "ttl_ms '60001'"),
    ("HOLD", ["k"], [1], "id is missing"),
    ("LEASE", ["k"], ["1", 5, 0, 1, "1/1s", "2/1s"], "a lease is of one limit"),
    ("LEASE", ["k"], ["1", 5, 0, 1, "OBSERVED", "1/1s"], "a lease is of one limit"),
    ("LEASE", ["k"], ["1", 5, 0], "want is missing"),
    ("CANCEL", ["k"], ["1"], "no limit for key 'k'"),
    ("RESET", ["k"], [], "no limit for key 'k'"),
]


@pytest.mark.parametrize("form", FORMS)
def test_bad_calls_say_what_was_wrong_and_change_nothing(forms, host, form):
    before = digest(host)
    for word, keys, args, says in BAD:
        with pytest.raises(redis.ResponseError) as error:
            forms[form].ask(word, keys, *args)
        assert says in str(error.value), (word, keys, args)
    assert digest(host) == before


def digest(host):
    return client_of(host).execute_command("DEBUG", "DIGEST")


def test_what_eval_says_of_a_word_that_is_none(forms):
    for word in ("", "check me", "\xff"):
        with pytest.raises(redis.ResponseError, match="expected a command as the first argument: CHECK"):
            forms["evalsha"].ask(word, ["k"], 1, "1/1s")
    assert forms["evalsha"].ask("cHeCk", ["cases"], 0, "1/1s")[0] == 1
    with pytest.raises(redis.ResponseError, match="expected a command"):
        forms["evalsha"].client.execute_command("EVALSHA", forms["evalsha"].sha, 0)


@pytest.mark.parametrize("form", FORMS)
def test_very_many_arguments(forms, form):
    with pytest.raises(redis.ResponseError, match="too many limits"):
        forms[form].ask("CHECK", ["many"], 1, *["1/1s"] * 20000)
    with pytest.raises(redis.ResponseError, match="no limit for key"):
        forms[form].ask("CHECK", [f"many{i}" for i in range(20000)], 1, "1/1s")
    assert forms[form].client.exists("many") == 0


def test_without_client_time_at_is_refused_and_time_is_the_server_s(host, scripts_folder):
    with Guest() as plain:
        for form in FORMS:
            script = Script(client_of(plain), scripts_folder, form, client_time=False)
            with pytest.raises(redis.ResponseError, match="AT is not allowed here: load the script that was"):
                script.ask("CHECK", ["k"], 1, "AT", NOW, "1/1s")
            assert script.ask("CHECK", [form], 1, "sliding-log 1/1d") == [1, 1, 0, 0, 86400000, 0, 0]
            denied = script.ask("CHECK", [form], 1, "sliding-log 1/1d")
            assert denied[:3] == [0, 1, 0] and 86400000 - 60000 < denied[3] <= 86400000
            assert 86400000 - 60000 < script.client.pttl(form) <= 86400000
            version = script.ask("VERSION", [])
            assert re.fullmatch(rb"\d+\.\d+\.\d+", version)


# ---- being a guest of Redis ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("form", FORMS)
def test_a_key_of_another_type_is_refused(forms, form):
    client = forms[form].client
    client.set(f"string {form}", "x")
    client.rpush(f"list {form}", "x")
    for key in (f"string {form}", f"list {form}"):
        for word, args in (("CHECK", [1, "1/1s"]), ("PEEK", [1, "1/1s"]), ("REFUND", [1, "1/1s"]), ("RESET", ["1/1s"]),
                           ("HOLD", [1, "1", 5, "1/1s"]), ("CANCEL", ["1", "1/1s"]),
                           ("LEASE", ["1", 5, 0, 1, "1/1s"]), ("CHECK", [1, "ID", "x", "1/1s"])):
            with pytest.raises(redis.ResponseError, match="^WRONGTYPE Operation against a key"):
                forms[form].ask(word, [key], *args)
    first = f"fine {form}"
    with pytest.raises(redis.ResponseError, match="^WRONGTYPE"):
        forms[form].ask("CHECK", [first, f"list {form}"], 1, "1/1s", "KEY", f"list {form}", "1/1s")
    assert client.exists(first) == 0 and client.llen(f"list {form}") == 1


@pytest.mark.parametrize("form", FORMS)
def test_fields_that_nobody_here_wrote(forms, form):
    """A hash that somebody changed is refused by name, or answered; it never ends the server, and RESET frees it."""
    client, script = forms[form].client, forms[form]
    limits = ["5/1s", "fixed-window 5/1s", "sliding-log 5/1s", "sliding-buckets 5/1s precision 100ms",
              "token-bucket 5/1s", "leaky-bucket 5/1s"]
    r = random.Random(5)
    for limit in limits:
        key = f"damaged {form}"
        for length in [0, 1, 15, 16, 17, 23, 27, 28, 35, 36, 44, 60, 500]:
            for _ in range(6):
                client.delete(key)
                script.ask("CHECK", [key], 1, "AT", NOW, limit)
                fields = client.hkeys(key)
                assert len(fields) == 1
                client.hset(key, fields[0], bytes(r.randrange(256) for _ in range(length)))
                if r.random() < 0.3:
                    client.hset(key, b"!" + fields[0], bytes(r.randrange(256) for _ in range(r.choice([28, 29, 58]))))
                for word, args in (("CHECK", [1, "AT", NOW, limit]), ("REFUND", [3, "AT", NOW, limit]),
                                   ("PEEK", [1, "AT", NOW, limit, "5/1m"])):
                    try:
                        script.ask(word, [key], *args)
                    except redis.ResponseError:
                        pass
                script.ask("RESET", [key], "AT", NOW, limit)
                assert script.ask("CHECK", [key], 5, "AT", NOW, limit)[0] == 1


def test_denials_peeks_and_costs_of_nothing_are_not_replicated(scripts_folder):
    with Guest() as host:
        script = Script(client_of(host), scripts_folder, "function")
        limits = ["2/1h", "sliding-log 2/1h", "token-bucket 2/1h", "sliding-buckets 2/1h precision 1m"]
        script.ask("CHECK", ["k"], 2, *limits)
        before, changes = digest(host), host.info("persistence", "rdb_changes_since_last_save")
        for word, cost in (("CHECK", 1), ("PEEK", 1), ("CHECK", 0), ("PEEK", 0), ("CHECK", 4294967295), ("REFUND", 0)):
            script.ask(word, ["k"], cost, *limits)
            script.ask(word, ["other"], cost if cost != 1 else 3, *limits)
        script.ask("RESET", ["other"], *limits)
        script.ask("HOLD", ["k"], 1, "1", 500, *limits)
        script.ask("CANCEL", ["k"], "1", *limits)
        assert digest(host) == before
        assert host.info("persistence", "rdb_changes_since_last_save") == changes
        assert script.client.exists("other") == 0


def test_readers_are_callable_as_such(forms):
    client = forms["function"].client
    forms["function"].ask("CHECK", ["readers"], 1, "AT", NOW, "5/1s")
    assert client.execute_command("FCALL_RO", "sluice_peek", 1, "readers", 1, "AT", NOW, "5/1s")[:3] == [1, 5, 4]
    with pytest.raises(redis.ResponseError, match="INSPECT needs the module"):
        client.execute_command("FCALL_RO", "sluice_inspect", 1, "readers")
    words = ["EVALSHA_RO", forms["evalsha"].sha, 1, "readers", "PEEK", 1, "AT", NOW, "5/1s"]
    assert client.execute_command(*words)[:3] == [1, 5, 4]
    with pytest.raises(redis.ResponseError, match="Can not execute a script with write flag"):
        client.execute_command("FCALL_RO", "sluice_check", 1, "readers", 1, "5/1s")


def test_texts_that_were_flushed_are_told_so(scripts_folder):
    with Guest() as host:
        scripts = {form: Script(client_of(host), scripts_folder, form) for form in FORMS}
        for script in scripts.values():
            script.ask("CHECK", ["k"], 1, "AT", NOW, "9/1s")
        scripts["function"].client.script_flush()
        scripts["function"].client.execute_command("FUNCTION", "FLUSH")
        with pytest.raises(redis.exceptions.NoScriptError):
            scripts["evalsha"].ask("CHECK", ["k"], 1, "AT", NOW, "9/1s")
        with pytest.raises(redis.ResponseError, match="Function not found"):
            scripts["function"].ask("CHECK", ["k"], 1, "AT", NOW, "9/1s")
        for n, script in enumerate(scripts.values()):
            script.load()
            assert script.ask("CHECK", ["k"], 1, "AT", NOW, "9/1s")[2] == 6 - n


def test_keys_of_a_cluster(scripts_folder):
    with Guest(options=["--cluster-enabled", "yes", "--cluster-port", free_port()]) as host:
        client = client_of(host)
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: "cluster_state:ok" in str(client.execute_command("CLUSTER", "INFO")), "a cluster of one")
        for form in FORMS:
            script = Script(client, scripts_folder, form)
            tag = "{" + form + "}"
            assert script.ask("CHECK", ["a" + tag, "b" + tag], 1, "5/1s", "KEY", "b" + tag, "2/1s")[:2] == [1, 2]
            with pytest.raises(redis.ResponseError, match="CROSSSLOT|[Kk]eys in request don't hash to the same slot"):
                script.ask("CHECK", ["a", "b"], 1, "5/1s", "KEY", "b", "2/1s")
            with pytest.raises(redis.ResponseError, match="expected one of the keys"):
                script.ask("CHECK", ["a"], 1, "5/1s", "KEY", "b", "2/1s")


MIXED = [i for i in LIMITS if not i.startswith(("0", "token-bucket 0"))]


def fill(script, keys):
    r = random.Random(9)
    for n in range(400):
        script.ask("CHECK", [r.choice(keys)], 1, "AT", NOW + n, r.choice(MIXED))
    for key in keys:
        for n in range(300):
            script.ask("CHECK", [key], 1, "AT", NOW + 400 + n, "sliding-log 100k/1h")
        script.ask("HOLD", [key], 2, "a1", 60000, "AT", NOW + 700, "NAME", "n", "sliding-log 10/1h")
        script.ask("LEASE", [key], "a1", 60000, 0, 3, "AT", NOW + 700, "NAME", "n", "sliding-log 10/1h")


def answers(client, keys):
    """What every counter says, by the readers alone, now and after the holds have ended."""
    return [client.execute_command("FCALL_RO", "sluice_peek", 1, key, 3, "AT", NOW + later, "EACH", *half)
            for key in keys for later in (700, 2000, 70000)
            for half in (MIXED[:12], [*MIXED[12:], "sliding-log 100k/1h", "NAME", "n", "sliding-log 10/1h"])]


def test_a_replica_answers_the_same_and_goes_on_when_promoted(scripts_folder):
    with Guest() as primary, Guest(options=["--replicaof", "127.0.0.1", primary.port]) as replica:
        script, keys = Script(client_of(primary), scripts_folder, "function"), ["a", "b", "c"]
        fill(script, keys)
        follower = client_of(replica)
        client_of(primary).wait(1, 5000)
        wait_until(lambda: digest(replica) == digest(primary), "the replica has all")
        assert answers(follower, keys) == answers(script.client, keys)
        with pytest.raises(redis.ReadOnlyError):
            follower.execute_command("FCALL", "sluice_check", 1, "a", 1, "AT", NOW, "5/1s")
        follower.execute_command("REPLICAOF", "NO", "ONE")
        promoted = Script(follower, scripts_folder, "function")
        for word in ("CHECK", "REFUND"):
            assert [promoted.ask(word, [k], 1, "AT", NOW + 800, *MIXED[:12]) for k in keys] == \
                [script.ask(word, [k], 1, "AT", NOW + 800, *MIXED[:12]) for k in keys]


@pytest.mark.parametrize("options", [["--appendonly", "yes", "--appendfsync", "always"],
                                     ["--appendonly", "yes", "--aof-use-rdb-preamble", "no"], []],
                         ids=["aof", "aof-rewritten", "rdb"])
def test_after_a_restart_all_is_as_before(scripts_folder, options):
    with Guest(options=options) as host:
        script, keys = Script(client_of(host), scripts_folder, "function"), ["a", "b"]
        fill(script, keys)
        before = answers(script.client, keys)
        lives = [script.client.execute_command("PEXPIRETIME", key) for key in keys]
        assert min(lives) > 0
        if "no" in options:
            script.client.bgrewriteaof()
            wait_until(lambda: host.info("persistence", "aof_rewrite_in_progress") == "0"
                       and host.info("persistence", "aof_rewrite_scheduled") == "0", "the AOF is rewritten")
        if not options:
            script.client.save()
        host.restart()
        assert answers(client_of(host), keys) == before
        assert [client_of(host).execute_command("PEXPIRETIME", key) for key in keys] == lives


# ---- what is kept, how long, and what it costs -----------------------------------------------------------------------

@in_one_window(3600)
def test_a_key_goes_when_its_last_counter_matters_no_more(scripts_folder):
    with Guest() as host:
        script = Script(client_of(host), scripts_folder, "function", client_time=False)

        def ends(key):
            return script.client.execute_command("PEXPIRETIME", key)

        def now():
            seconds, us = script.client.time()
            return seconds * 1000 + us // 1000

        for limit, least, most in (("fixed-window 5/1h", 0, 3600000), ("5/1h", 3600000, 7200000),
                                   ("sliding-log 5/1h", 3600000, 3600000), ("token-bucket 5/1h", 720000, 720000),
                                   ("leaky-bucket 5/1h", 720000, 720000),
                                   ("sliding-buckets 6/1h precision 1m", 3600000, 3660000)):
            before = now()
            script.ask("CHECK", [limit], 1, limit)
            assert before + least <= ends(limit) <= now() + most + 1, limit
        script.ask("CHECK", ["two"], 1, "sliding-log 5/1h")
        longer = ends("two")
        script.ask("CHECK", ["two"], 1, "sliding-log 5/1s")
        assert ends("two") == longer
        script.ask("HOLD", ["held"], 1, "1", 30000, "5/1s")
        assert 0 < ends("held") - now() <= 30000
        script.ask("LEASE", ["leased"], "1", 30000, 0, 1, "sliding-log 5/1m")
        assert 80000 < ends("leased") - now() <= 90000
        script.ask("CHECK", ["short"], 1, "sliding-log 5/20ms")
        wait_until(lambda: script.client.exists("short") == 0, "a counter of 20 ms is gone")
        for key, words in (("two", ["sliding-log 5/1h", "sliding-log 5/1s"]), ("leased", ["sliding-log 5/1m"])):
            script.ask("RESET", [key], *words)
            assert script.client.exists(key) == 0
        script.ask("CANCEL", ["held"], "1", "5/1s")
        assert script.client.exists("held") == 0


def commands_of(client, call):
    """How many commands of Redis a call makes within the script."""
    client.config_resetstat()
    call()
    stats = client.info("commandstats")
    return sum(v["calls"] for k, v in stats.items() if k not in ("cmdstat_fcall", "cmdstat_config|resetstat",
                                                                 "cmdstat_info"))


def test_a_long_log_costs_what_a_short_one_does(scripts_folder):
    """A charge and a usual denial read and write one field and the chunk before the edge; a search reads as many chunks
    as their number has binary digits, twice at most."""
    count = 70000 if SOAK_S else 10000
    with Guest() as host:
        script, limit = Script(client_of(host), scripts_folder, "function"), f"sliding-log {count}/1d"
        pipe = script.client.pipeline(transaction=False)
        for n in range(count):
            pipe.execute_command(*script.words("CHECK", ["k"], 1, "AT", NOW + n, limit))
        assert [reply[2] for reply in pipe.execute()] == list(range(count - 1, -1, -1))
        last, day, half = NOW + count, 86400000, count // 2
        search = 4 * (count // 128).bit_length() + 6
        assert script.ask("CHECK", ["k"], 1, "AT", last, limit) == [0, count, 0, day - count, day - 1, 0, 0]
        assert script.ask("PEEK", ["k"], half, "AT", last, limit)[3] == day - count + half - 1
        assert commands_of(script.client, lambda: script.ask("CHECK", ["k"], 1, "AT", last, limit)) <= 4
        assert commands_of(script.client, lambda: script.ask("PEEK", ["k"], half, "AT", last, limit)) <= search
        later = last + day - half
        assert commands_of(script.client, lambda: script.ask("CHECK", ["k"], 1, "AT", later, limit)) <= search
        assert script.ask("PEEK", ["k"], 1, "AT", last + day - half, limit)[2] == half
        script.ask("REFUND", ["k"], half // 2, "AT", last + day - half, limit)
        assert script.ask("PEEK", ["k"], 1, "AT", last + day - half, limit)[2] == half + half // 2
        assert script.client.memory_usage("k") < count * 12
        for n in range(20):  # what has expired goes with the charges that come
            script.ask("CHECK", ["k"], 1, "AT", last + 3 * day + n, limit)
        assert script.client.hlen("k") == 1
        assert script.ask("RESET", ["k"], "AT", last + 3 * day, limit) == 1 and script.client.exists("k") == 0


def test_a_reset_leaves_no_chunk(forms):
    script, limit = forms["function"], "sliding-log 1k/1h"
    for n in range(400):
        script.ask("CHECK", ["chunks"], 1, "AT", NOW + n, limit)
    assert script.client.hlen("chunks") == 4
    assert script.ask("RESET", ["chunks"], "AT", NOW + 400, limit) == 1
    assert script.client.exists("chunks") == 0


def test_a_chunk_that_is_missing_is_named(forms):
    script, limit = forms["function"], "sliding-log 1k/1h"
    for n in range(400):
        script.ask("CHECK", ["missing"], 1, "AT", NOW + n, limit)
    script.client.hdel("missing", "#0#L3600000")
    with pytest.raises(redis.ResponseError, match="its field '#0#L3600000' is missing or was changed"):
        script.ask("CHECK", ["missing"], 1, "AT", NOW + 400, limit)
    assert script.ask("RESET", ["missing"], "AT", NOW + 400, limit) == 1


# ---- the rest of the commands ----------------------------------------------------------------------------------------

def test_a_log_with_as_many_entries_as_one_may_have_denies(forms):
    """With 3 chunks for 262,145: the limit denies until the first chunk is gone, and the others of the call count."""
    client = forms["evalsha"].client
    text, found = re.subn(r"CHUNKS_MOST = 262144", "CHUNKS_MOST = 2", forms["evalsha"].text)
    assert found == 1
    sha, window = client.script_load(text), 3600_000

    def check(at, *words):
        keys = ["{o}log", "{o}two"][:1 + ("KEY" in words)]
        return client.execute_command("EVALSHA", sha, len(keys), *keys, "CHECK", 1, "AT", at, *words)

    log, beside = "sliding-log 1M/1h", ["KEY", "{o}two", "fixed-window 5/365d"]
    assert [check(NOW + n, log)[0] for n in range(385)] == [1] * 384 + [0]
    wait = 127 + window - 400
    assert check(NOW + 400, log) == [0, 1000000, 0, wait, window - 17, 0, 0]
    for _ in range(7):
        both = check(NOW + 400, "EACH", log, *beside)
        assert both[0][:4] == [0 + 2 * 2, 1000000, 0, wait], "denied by room"
        assert both[1][:3] == [1, 5, 5], "and the other is charged nothing"
    seen = [check(NOW + 400, "EACH", "OBSERVED", log, *beside) for _ in range(7)]
    assert [row[1][0] for row in seen] == [1] * 5 + [0] * 2, "what is observed only notes it"
    assert [row[0][0] for row in seen] == [4] * 5 + [seen[5][0][0]] * 2
    assert check(NOW + 400 + wait - 1, log)[0] == 0 and check(NOW + 400 + wait, log)[0] == 1
    assert client.execute_command("EVALSHA", sha, 1, "{o}log", "REFUND", 3, "AT", NOW + 401, log)[0] == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("words", [[], ["NEXT"]], ids=["straight", "whole"])
def test_no_wait_is_told_beyond_584_years(forms, form, words):
    slow = "leaky-bucket 1/3660d queue 28481"
    got = forms[form].ask("PEEK", [f"slow {form}"], 28481, "AT", NOW, *words, slow)
    assert got[:7] == [1, 28482, 28482, 0, 0, 18446744073710, 0]


@pytest.mark.parametrize("form", FORMS)
def test_next_is_told_of_the_limits_that_have_the_least(forms, form):
    script, key = forms[form], f"next {form}"
    many = ["AT", NOW, "NEXT", "fixed-window 5/1h", "sliding-log 3/1h", "unlimited"]
    assert script.ask("PEEK", [key], 1, *many)[7:] == [0], "all is free"
    assert script.ask("CHECK", [key], 1, *many)[6:] == [1, 3600000]
    assert script.ask("CHECK", [key], 2, *many[:2], "UPTO", *many[2:])[6:] == [1, 2, 3600000], "after what UPTO tells"
    rows = script.ask("PEEK", [key], 1, "AT", NOW + 7, "EACH", *many[3:])
    merged = script.ask("PEEK", [key], 1, "AT", NOW + 7, *many[2:])
    assert merged[0] == 0 and merged[7] == rows[merged[6]][6] == 3600000 - 7
    assert script.ask("REFUND", [key], 3, "AT", NOW + 7, *many[2:])[7] == 0
    assert script.ask("CHECK", [key], 1, "AT", NOW, "NEXT", "unlimited")[6:] == [-1, 0]
    got = script.ask("ACQUIRE", [key], 2, "AT", NOW, "ID", "a", "NEXT", "concurrency 2 lease 1s")
    assert got == [1, 2, 0, 0, 1000, 0, 0, b"a", 1000], "behind the lease's id"
    key, both = f"nexts {form}", ["AT", NOW, "NEXT", "fixed-window 1/1s", "fixed-window 1/1h"]
    assert script.ask("CHECK", [key], 1, *both)[7] == 3600000, "the other one is used up, too"
    assert script.ask("PEEK", [key], 9, *both[:3], "sliding-log 5/1h", both[4])[7] == 3600000, "who denies has all"
    assert script.ask("PEEK", [key], 1, "AT", NOW + 1000, *both[2:])[7] == 3599000
    assert script.ask("PEEK", [key], 1, *both[:3], "fixed-window 2/1h", "sliding-log 1/1h")[7] == 0, "one has no more"


@pytest.mark.parametrize("form", FORMS)
def test_an_id_is_of_the_counters_as_a_set(forms, form):
    """What has no counter is none of them, nor is a candidate; a limit that stands twice is one."""
    script = forms[form]
    sets = (["5/1m"], ["5/1m", "unlimited"], ["unlimited", "5/1m"], ["5/1m", "5/1m"], ["5/1m", "TRIED", "9/1m"])
    for n, (first, again) in enumerate([*((one, sets[0]) for one in sets), *((sets[0], one) for one in sets[1:])]):
        ask = [f"set {form} {n}"], 3, "AT", NOW, "ID", "x"
        for words in (first, again):
            assert script.ask("CHECK", *ask, *words)[:3] == [1, 5, 2], (first, again)
    assert script.ask("CHECK", ["a", "b"], 1, "AT", NOW, "ID", "y", "unlimited", "KEY", "b", "5/1m")[0] == 1
    assert not script.client.exists("a") and script.client.hexists("b", "?")
    assert script.ask("CHECK", ["a"], 1, "AT", NOW, "ID", "y", "unlimited")[0] == 1 and not script.client.exists("a")


@pytest.mark.parametrize("form", FORMS)
def test_what_a_version_before_has_written_of_what_is_gone_is_left_alone_and_expires(forms, form):
    """Counters of THROTTLE, C60000*30: nobody reads them, and they go with their key."""
    script, key = forms[form], f"before {form}"
    script.client.hset(key, "C60000*30", b"\0" * 23)
    script.client.pexpire(key, 7200000)
    for word, cost in (("CHECK", 2), ("PEEK", 1), ("REFUND", 1), ("CHECK", 1)):
        assert script.ask(word, [key], cost, "30/1m", "token-bucket 30/1m")[0] == 1
    assert script.client.hget(key, "C60000*30") == b"\0" * 23 and script.client.pttl(key) > 5400000
    script.client.pexpire(key, 3600000)
    script.ask("RESET", [key], "30/1m", "token-bucket 30/1m")
    assert script.client.hkeys(key) == [b"C60000*30"] and 0 < script.client.pttl(key) <= 3600000
    script.client.pexpire(key, 1)
    wait_until(lambda: script.client.exists(key) == 0, "what nobody reads is gone")


@pytest.mark.parametrize("form", FORMS)
def test_what_is_kept_is_a_hash_that_hgetall_shows(forms, form):
    """As docs/script.md says what the fields are."""
    script, key = forms[form], f"shown {form}"
    script.ask("CHECK", [key], 3, "AT", NOW, "100/1d", "NAME", "login", "sliding-log 9/1d", "token-bucket 20/1d",
               "sliding-buckets 9/1d precision 1h", "MEMBER", "m", "distinct 5/1h")
    script.ask("HOLD", [key], 2, "ab", 60000, "AT", NOW, "100/1d")
    script.ask("ACQUIRE", [key], 2, "AT", NOW, "ID", "ab" * 8, "concurrency 5 lease 30s")
    found = script.client.hgetall(key)
    assert struct.unpack("<dII", found[b"W86400000"]) == (NOW, 3, 0)
    assert struct.unpack("<dIB16s", found[b"!W86400000"]) == (NOW + 60000, 2, 0, b"00000000000000ab")
    assert struct.unpack("<dIIIdII", found[b"L86400000@login"]) == (NOW, 0, 0, 0, NOW, 0, 3)
    assert struct.unpack("<dIIIdII", found[b"S86400000/24"]) == (NOW, 0, 0, 0, NOW // 3600000, 0, 3)
    assert struct.unpack("<dHBdI", found[b"T86400000*20"]) == (NOW, 0, 1, 3 * 86400000000, 20)
    assert struct.unpack("<dd", found[b"D3600000"][:16]) == (NOW, NOW) and len(found[b"D3600000"]) == 24
    assert struct.unpack("<ddI16s", found[b"N30000"]) == (NOW, NOW + 30000, 2, b"ab" * 8)


def test_a_counter_takes_one_read_and_one_write(scripts_folder):
    """And the time, and an expiry where that moves: of a window with its first charge, of a log about once a window,
    for which it is looked at with each; that says the time as well, as two numbers."""
    with Guest() as host:
        script = Script(client_of(host), scripts_folder, "function", client_time=False)
        for limits, first, later, denial in (
                (["5/1h"], 5, 3, 2), (["sliding-log 9/1h"], 5, 4, 3), (["token-bucket 9/1h"], 5, 4, 2),
                (["5/1h", "fixed-window 5/1d", "sliding-buckets 9/1h precision 30m"], 5, 3, 2)):
            key = " ".join(limits)
            assert commands_of(script.client, lambda: script.ask("CHECK", [key], 1, *limits)) <= first, limits
            if denial == 3:
                time.sleep(0.002)  # so that the second charge moves its expiry
                assert commands_of(script.client, lambda: script.ask("CHECK", [key], 1, *limits)) == 5, limits
                assert 3600000 < script.client.pttl(key) <= 7200000
            assert commands_of(script.client, lambda: script.ask("CHECK", [key], 1, *limits)) <= later, limits
            assert commands_of(script.client, lambda: script.ask("CHECK", [key], 99, *limits)) <= denial, "a denial"
            assert commands_of(script.client, lambda: script.ask("PEEK", [key], 1, *limits)) == 2, "a peek"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("limit", ["0/1m", "fixed-window 0/1m"])
def test_a_quota_of_none_says_the_same_of_a_counter_that_another_charged(forms, form, limit):
    script, key = forms[form], f"none {form} {limit}"
    for _ in range(2):  # the second time the library knows the limit
        script.ask("CHECK", [key], 1, "AT", NOW, limit.replace("0/", "9/"))
        assert script.ask("CHECK", [key], 0, "AT", NOW, limit) == [1, 0, 0, 0, 0, 0, 0]
        assert script.ask("CHECK", [key], 1, "AT", NOW, limit) == [0, 0, 0, -1, 0, 0, 0]


@pytest.mark.parametrize("form", FORMS)
def test_of_waits_that_tie_within_a_millisecond_the_longer_is_named(forms, form):
    script, key = forms[form], f"ties {form}"
    for cost, limit in ((20, "20/1ms"), (2, "2/1ms")):
        assert script.ask("CHECK", [key], cost, "AT", NOW, "NAME", limit, limit)[0] == 1
    # At the next millisecond all of both still counts: a cost of 1 is let in once a twentieth, or half of it, has gone.
    slow, fast = ("NAME", "2/1ms", "2/1ms"), ("NAME", "20/1ms", "20/1ms")
    for limits, index in (((*slow, *fast), 0), ((*fast, *slow), 1)):
        assert script.ask("PEEK", [key], 1, "AT", NOW + 1, *limits) == [0, 2, 0, 1, 1, 0, index]


@pytest.mark.parametrize("limit", ["9/1h", "fixed-window 9/1h", "token-bucket 9/1h", "sliding-log 9/1h",
                                   "sliding-buckets 9/1h precision 30m"])
@pytest.mark.parametrize("form", FORMS)
def test_a_key_lives_as_long_as_its_last_charge_matters(forms, form, limit):
    script, key, hour = forms[form], f"lives {form} {limit}", 3600000
    end = NOW - NOW % hour + hour  # of a window: just before it, and at it, which is the start of the next
    script.ask("CHECK", [key], 1, "AT", end - 1, limit)
    first = script.client.pttl(key)
    script.client.pexpire(key, first // 4)
    script.ask("CHECK", [key], 1, "AT", end, limit)
    assert script.client.pttl(key) > first - 60000


@pytest.mark.parametrize("limit", ["1/1d", "fixed-window 1/1d", "token-bucket 1/1d", "sliding-log 1/1d",
                                   "sliding-buckets 1/1d precision 1h", "distinct 1/1d"])
@pytest.mark.parametrize("form", FORMS)
def test_a_key_without_an_expiry_gets_none(forms, form, limit):
    """Nobody knows when all that is in it has ended. What is new has one."""
    script, key = forms[form], f"persists {form} {limit}"
    script.ask("CHECK", [key], 1, "AT", NOW, "MEMBER", "a", limit)
    assert script.client.persist(key)
    for limits in (["fixed-window 9/1s"], ["token-bucket 9/1s"], ["9/1s", "sliding-log 9/1s"], ["distinct 9/1s"]):
        script.ask("CHECK", [key], 1, "AT", NOW, "MEMBER", "a", *limits)
        script.ask("CHECK", [key], 1, "AT", NOW, "ID", "once", "MEMBER", "a", *limits)
        script.ask("HOLD", [key], 1, "ab", 60, "AT", NOW, "9/1s")
        assert script.client.pttl(key) == -1
        script.ask("CHECK", [f"new {key} {limits}"], 1, "AT", NOW, "MEMBER", "a", *limits)
        assert script.client.pttl(f"new {key} {limits}") > 0
    script.ask("CHECK", [f"new {key}"], 0, "AT", NOW, "ID", "once", "MEMBER", "a", limit)
    assert script.client.pttl(f"new {key}") != -1


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def test_holds_have_a_limit(forms):
    script = forms["function"]
    for n in range(256):
        assert script.ask("HOLD", ["crowd"], 1, f"{n:x}", 60000, "AT", NOW, "1000/1m")[0] == 1
    assert script.ask("HOLD", ["crowd"], 1, "fff", 60000, "AT", NOW, "EACH", "1000/1m")[0][:4] == [2 * 4, 1000, 744, 1]
    assert script.ask("HOLD", ["crowd"], 1, "0", 60000, "AT", NOW, "1000/1m")[2] == 744  # replaces its own
    assert script.ask("CANCEL", ["crowd"], "FF", "AT", NOW, "1000/1m") == 1  # ids are numbers: of any case
    assert script.ask("CANCEL", ["crowd"], "00", "AT", NOW, "1000/1m") == 1


# ---- the text --------------------------------------------------------------------------------------------------------

# What a script of Lua 5.1 has in Redis, Valkey and those who look like them; no table.maxn, no os, no bit.
KNOWN = set("""redis struct string table math tonumber type pairs ipairs unpack pcall error KEYS ARGV
    and break do else elseif end error false for function if in local nil not or repeat return select then true until
    while""".split())
KNOWN_MEMBERS = {"redis": {"call", "pcall", "register_function", "sha1hex", "REDIS_VERSION_NUM"},
                 "struct": {"pack", "unpack"},
                 "string": {"char", "format", "upper", "lower"}, "table": {"concat", "insert", "remove", "sort"},
                 "math": {"floor", "ceil", "min", "max", "abs", "huge"}}


def names_in(source):
    """Every name that the text uses bare, once strings are taken out, that it declares nowhere."""
    bare = re.sub(r"'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"", "''", re.sub(r"^(--|#!).*", "", source, flags=re.M))
    declared = set()
    for group in re.findall(r"\blocal ([\w, ]+?)(?: =|\n|$)", bare) + re.findall(r"\bfor ([\w, ]+) (?:in|=)", bare):
        declared |= set(group.replace(",", " ").split()) - {"function"}
    declared |= set(re.findall(r"\blocal function (\w+)", bare))
    for group in re.findall(r"\bfunction *[\w.]*\(([^)]*)\)", bare):
        declared |= set(group.replace(",", " ").split())
    fields = re.findall(r"[{,(]\s*(\w+) =(?!=)", bare)  # of tables
    used = set(re.findall(r"(?<![.:\w])([A-Za-z_]\w*)", bare))
    return used - declared - set(fields) - {"function"}, bare


@pytest.mark.parametrize("name", ["sluice", "sluice-eval", "sluice-client-time", "sluice-eval-client-time"])
def test_the_text_is_plain_lua_and_makes_no_globals(scripts_folder, name):
    with open(os.path.join(scripts_folder, name + ".lua"), encoding="ascii") as f:
        source = f.read()
    used, bare = names_in(source)
    assert used - KNOWN == set()
    for library, members in KNOWN_MEMBERS.items():
        assert set(re.findall(rf"(?<![.\w]){library}\.(\w+)", bare)) <= members, library
    assert source.count("--") < 4 and "\n\n" not in source
    assert "//" not in bare and "goto " not in bare and not re.search(r"[&|~]{2}|<<|>>", bare)
    assert re.search(r"^-- sluice (library|eval) \d+\.\d+\.\d+, made by tools/script", source, re.M)


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_left_between_calls(forms, form):
    """Redis protects globals, so that a script which made one would fail: every command is called once more, and a name
    that a caller chose is nobody else's."""
    script = forms[form]
    for word, args in (("CHECK", [1, "1/1s"]), ("PEEK", [1, "1/1s"]), ("REFUND", [1, "1/1s"]), ("RESET", ["1/1s"]),
                       ("HOLD", [1, "1", 5, "1/1s"]), ("CONFIRM", [1, "1", "1/1s"]), ("CANCEL", ["1", "1/1s"]),
                       ("LEASE", ["1", 5, 0, 1, "1/1s"]), ("ACQUIRE", [1, "concurrency 1 lease 1s"]),
                       ("RELEASE", ["a", "concurrency 1 lease 1s"]), ("RENEW", ["a", "concurrency 1 lease 1s"])):
        script.ask(word, [f"globals {form}"], *args)
    for n in range(3000):  # more limits than the library remembers
        assert script.ask("PEEK", [f"globals {form}"], 1, f"{n + 1}/1h")[1] == n + 1
