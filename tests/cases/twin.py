#!/usr/bin/env python3
"""The slow twin: decides by definition, from the contract alone, to check the case list that every door must answer.

It keeps every charge ever made, as (instant, cost), and derives the rest by search, not by formula: whether a cost
would be admitted at an instant is written down as the contract says it, and the waits are the first instant, found by
bisection to the nanosecond, at which that turns true (usage never grows while nothing arrives, so it turns once).
Arithmetic is on integers and fractions; nothing is rounded but the milliseconds that are reported.

    twin.py            recomputes every expectation of tests/cases/*.json; exit status 1 when one differs
    twin.py --fill F   writes the expectations that a file leaves out, in place
"""

import fractions
import glob
import ipaddress
import json
import os
import re
import sys
import zoneinfo

import canary
import forms
import zones

HERE = os.path.dirname(os.path.abspath(__file__))
MS = 1_000_000
NONE = 4294967295  # quota and remaining where no limit applies
LONGEST_NS = 2**64 - 2
UNITS = {"ms": MS, "s": 1000 * MS, "m": 60_000 * MS, "h": 3_600_000 * MS, "d": 86_400_000 * MS, "w": 604_800_000 * MS}
MOST_NS = 3660 * UNITS["d"]
OPTIONS = {"sliding-buckets": ("precision", "edge"), "token-bucket": ("burst",), "leaky-bucket": ("queue",)}
WINDOWED = ("fixed-window", "sliding-window", "sliding-log")


class Refused(Exception):
    """A limit, or a call, that the contract refuses."""


def number(text):
    m = re.fullmatch(r"([0-9]+)([kMG]?)", text)
    if not m:
        raise Refused(f"not a number: {text!r}")
    value = int(m.group(1)) * {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}[m.group(2)]
    if value > 4294967295:
        raise Refused(f"too large: {text!r}")
    return value


def duration(text):
    m = re.fullmatch(r"([0-9]+)(ms|s|m|h|d|w)", text)
    if not m or not MS <= int(m.group(1)) * UNITS[m.group(2)] <= MOST_NS:
        raise Refused(f"not a duration: {text!r}")
    return int(m.group(1)) * UNITS[m.group(2)]


def duration_text(ns):
    unit = next(u for u in ("w", "d", "h", "m", "s", "ms") if ns % UNITS[u] == 0)
    return f"{ns // UNITS[unit]}{unit}"


class Limit:
    """One limit, parsed from the notation."""

    def __init__(self, text):
        self.edge, self.precision, self.burst, self.unit, self.zone = "count", 0, 0, None, None
        self.spread, self.phase = None, 0
        words = text.split(" ")
        if words[0] in ("concurrency", "distinct"):
            self._held(words, text)
            return
        if text == "unlimited":
            self.algorithm, self.quota, self.window = "unlimited", NONE, 0
            return
        self.algorithm = words.pop(0) if "/" not in words[0] else "sliding-window"
        if self.algorithm not in WINDOWED and self.algorithm not in OPTIONS or not words:
            raise Refused(f"no such algorithm: {text!r}")
        quota, slash, window = words.pop(0).partition("/")
        if not slash:
            raise Refused(f"no window: {text!r}")
        self.quota = number(quota)
        if window in zones.UNITS and (self.algorithm == "fixed-window" or "/" in text.split(" ")[0]):
            self._calendar(window, words, text)
            return
        self.window = duration(window)
        if words and words[0] == "spread" and self.algorithm in ("fixed-window", "sliding-window"):
            self._spread(words[1:], text)
            return
        self._options(words, text)

    def _calendar(self, unit, words, text):
        """QUOTA/unit [at ZONE]."""
        if words and (len(words) != 2 or words[0] != "at" or words[1] not in zoneinfo.available_timezones()):
            raise Refused(f"bad zone: {text!r}")
        self.algorithm, self.unit, self.zone = "fixed-window", unit, words[1] if words else "UTC"
        self.window = zones.LONGEST[unit] * UNITS["s"]

    def _spread(self, words, text):
        """spread N: windows begin at that phase. Without N it is the key's own: no list can say it, for keys differ by
        the door that plays it."""
        if len(words) != 1 or not re.fullmatch(r"[0-9]+", words[0]) or int(words[0]) >= 131072:
            raise Refused(f"bad phase: {text!r}")
        self.spread = int(words[0])
        self.phase = self.window * self.spread // 131072

    def _number(self, t):
        """Of the window that an instant is in."""
        return (t - self.phase) // self.window

    def _together(self, s, t):
        """Are two instants in one window of a fixed-window?"""
        if self.unit is None:
            return self._number(s) == self._number(t)
        return zones.window_start(self.zone, self.unit, s // UNITS["s"]) == zones.window_start(
            self.zone, self.unit, t // UNITS["s"])

    def _held(self, words, text):
        """concurrency N lease T; distinct Q/W [edge deny|allow] [registers M], these two above 1,024 only."""
        self.algorithm = words[0]
        if words[0] == "concurrency" and len(words) == 4 and words[2] == "lease":
            self.quota, self.window = number(words[1]), duration(words[3])
            return
        quota, slash, window = (words[1] if words[0] == "distinct" and len(words) in (2, 4, 6) else "").partition("/")
        if not slash:
            raise Refused(f"bad limit: {text!r}")
        self.quota, self.window = number(quota), duration(window)
        given = dict(zip(words[2::2], words[3::2]))
        if given and self.quota <= 1024 or len(given) * 2 != len(words) - 2 or set(given) - {"edge", "registers"}:
            raise Refused(f"bad options: {text!r}")
        self.edge, self.registers = given.get("edge", "deny"), given.get("registers", "4096")
        if self.edge not in ("deny", "allow") or self.registers not in [str(2 ** n) for n in range(10, 16)]:
            raise Refused(f"bad edge or registers: {text!r}")

    def _options(self, words, text):
        given = dict(zip(words[::2], words[1::2]))
        allowed = OPTIONS.get(self.algorithm, ())
        if len(words) % 2 or len(given) * 2 != len(words) or any(name not in allowed for name in given):
            raise Refused(f"bad options: {text!r}")
        if self.algorithm == "sliding-buckets":
            self.precision = duration(given.get("precision", ""))
            self.edge = given.get("edge", "count")
            n, rest = divmod(self.window, self.precision)
            if rest or not 2 <= n <= 4096 or self.edge not in ("count", "drop", "weighted"):
                raise Refused(f"bad precision or edge: {text!r}")
        elif allowed:
            if self.quota == 0 and given:
                raise Refused(f"quota 0 takes no {allowed[0]}: {text!r}")
            self.burst = number(given.get(allowed[0], str(self.quota)))
            if self.algorithm == "token-bucket" and self.burst < 1 and self.quota > 0:
                raise Refused(f"burst below 1: {text!r}")

    def text(self):
        if self.algorithm == "unlimited":
            return "unlimited"
        if self.algorithm == "concurrency":
            return f"concurrency {self.quota} lease {duration_text(self.window)}"
        if self.unit is not None:
            return f"fixed-window {self.quota}/{self.unit} at {self.zone}"
        out = f"{self.algorithm} {self.quota}/{duration_text(self.window)}"
        if self.algorithm == "distinct" and self.quota > 1024:
            return f"{out} edge {self.edge}" + (f" registers {self.registers}" if self.registers != "4096" else "")
        if self.algorithm == "sliding-buckets":
            return f"{out} precision {duration_text(self.precision)} edge {self.edge}"
        if self.algorithm in OPTIONS and self.quota > 0:
            return f"{out} {OPTIONS[self.algorithm][0]} {self.burst}"
        return out if self.spread is None else f"{out} spread {self.spread}"

    def most(self):
        """The quota that a decision reports, and the most that one request may cost."""
        if self.quota == 0 or self.algorithm not in ("token-bucket", "leaky-bucket"):
            return self.quota
        return self.burst if self.algorithm == "token-bucket" else self.burst + 1

    def counter(self, name, key):
        """Whose counter it is: rule 4.3."""
        rate = self.quota if name is None and self.algorithm in ("token-bucket", "leaky-bucket") else None
        return (name, key, self.algorithm, self.window, self.precision, rate, self.unit, self.zone,
                self.spread)

    def is_bucket(self):
        return self.algorithm in ("token-bucket", "leaky-bucket")

    def holds(self, state, t, who):
        """Is the lease held, the member counted?"""
        if self.algorithm == "concurrency":
            return who in state.leases and t < state.leases[who][1]
        return self.algorithm == "distinct" and t - self.window < state.members.get(who, -10**30) <= t

    def unused(self, state, t):
        """How much cost would be admitted at t, as a fraction; may be negative after a quota was lowered."""
        w, p = self.window, self.precision

        def total(counts):
            return state.total(counts, t)

        if self.algorithm == "concurrency":
            return self.quota - sum(cost for cost, end in state.leases.values() if t < end)
        if self.algorithm == "distinct":
            return self.quota - sum(t - w < s <= t for s in state.members.values())
        if self.is_bucket():
            return self.most() - state.debt_at(t, self)
        if self.algorithm == "sliding-log":
            return self.quota - total(lambda s: t - w < s <= t)
        if self.algorithm == "fixed-window":
            return self.quota - total(lambda s: self._together(s, t))
        if self.algorithm == "sliding-window":
            previous = total(lambda s: self._number(s) == self._number(t) - 1)
            return self.quota - total(lambda s: self._number(s) == self._number(t)) - fractions.Fraction(
                previous * (w - (t - self.phase) % w), w)
        b, n = t // p, w // p
        full = total(lambda s: b - n + 1 <= s // p <= b)
        old = total(lambda s: s // p == b - n)
        if self.edge == "weighted":
            return self.quota - full - fractions.Fraction(old * (p - t % p), p)
        return self.quota - full - (old if self.edge == "count" else 0)

    def still_counts(self, s, t):
        """May a charge made at s be taken back at t?"""
        w, p = self.window, self.precision
        if self.algorithm == "sliding-log":
            return t - w < s
        if self.algorithm == "fixed-window":
            return self._together(s, t)
        if self.algorithm == "sliding-window":
            return self._number(s) >= self._number(t) - 1
        return s // p >= t // p - w // p + (1 if self.edge == "drop" else 0)


class Charge:
    """A charge; one that is reserved counts until its end, unless it is committed."""

    def __init__(self, s, cost, name=None, end=None, debt=0):
        self.s, self.cost, self.name, self.end, self.debt = s, cost, name, end, debt

    def counts(self, t):
        return self.end is None or t < self.end


class State:
    """A counter: all its charges that were not taken back, or the debt of a bucket; leases, members; and its clock."""

    def __init__(self):
        self.charges, self.debt, self.last, self.rate = [], fractions.Fraction(0), 0, None
        self.leases, self.members = {}, {}  # id: (cost, end); member: when last charged

    def total(self, counts, t):
        return sum(c.cost for c in self.charges if c.counts(t) and counts(c.s))

    def debt_at(self, t, limit):
        """Drained since the last charge; what was reserved goes back on the way, as far as it has not drained."""
        debt, last = self.debt, self.last
        for c in sorted((c for c in self.charges if not c.counts(t)), key=lambda c: c.end):
            debt, last = self.drained(debt, c.end - last, limit), c.end
            debt -= min(self.returned(c, c.end, 0, limit), debt)
        return self.drained(debt, t - last, limit)

    def drained(self, debt, ns, limit):
        """At the rate of the limit that charged it last (rule 4.7)."""
        return drained(debt, ns, limit.quota if self.rate is None else self.rate, limit.window)

    def returned(self, charge, t, actual, limit):
        return min(fractions.Fraction(charge.cost - actual), self.drained(charge.debt, t - charge.s, limit))

    def charge(self, t, cost, limit, name=None, ttl=0):
        if limit.is_bucket():
            self.debt, self.rate = self.debt_at(t, limit) + cost, limit.quota
        self.charges = [c for c in self.charges if c.counts(t)]
        self.charges.append(Charge(t, cost, name, t + ttl if ttl else None, self.debt.__floor__()))
        self.last = t

    def reserved(self, name, t):
        return next((c for c in self.charges if c.name == name and c.end is not None and t < c.end), None)

    def commit(self, name, t, actual, limit):
        charge = self.reserved(name, t)
        if charge is None:
            return False
        if limit.is_bucket():
            debt = self.debt_at(t, limit)
            if actual > charge.cost:
                debt += actual - charge.cost
            else:
                debt -= min(debt, self.returned(charge, t, actual, limit))
            self.debt, self.last = debt, t
            self.charges = [c for c in self.charges if c.counts(t)]
        charge.cost, charge.end = actual, None
        return True

    def refund(self, t, cost, limit):
        if limit.is_bucket():
            self.debt -= min(fractions.Fraction(cost), self.debt_at(t, limit))
            return
        for charge in reversed(self.charges):
            if limit.still_counts(charge.s, t) and charge.counts(t):
                taken = min(cost, charge.cost)
                charge.cost -= taken
                cost -= taken


def drained(debt, ns, rate, window):
    return max(fractions.Fraction(0), debt - fractions.Fraction(ns * rate, window))


class Item:
    """A limit of one request, with the key it counts for."""

    def __init__(self, limit, key, name=None, observed=False, position=None, member=None, ttl=0, own=None):
        self.limit, self.observed, self.name, self.position = limit, observed, name, position
        self.member, self.ttl, self.own = member, ttl, own
        self.counter = limit.counter(name, key)


def first(true_at, t, limit):
    """The wait from t until true_at turns true, in ns, by bisection; the waits of one counter end within `far`."""
    low, far = 0, 2 * max(limit.window, 1)
    while not true_at(t + far):
        low, far = far, far * 2
        if far > 10**40:
            return None
    if true_at(t):
        return 0
    while far - low > 1:
        middle = (low + far) // 2
        low, far = (low, middle) if true_at(t + middle) else (middle, far)
    return far


def ms(ns):
    """A wait as it is reported: ms, rounded up, at most the 584 years that 64 bits of ns hold; -1 for never."""
    return -1 if ns is None else -(-min(ns, LONGEST_NS) // MS)


class Twin:
    def __init__(self):
        self.counters, self.tokens = {}, {}

    def _state(self, item):
        return self.counters.get(item.counter, State())

    def known(self, item, now, lease):
        """Is the lease that is asked for held already, the member counted?"""
        state = self._state(item)
        who = item.member if item.limit.algorithm == "distinct" else lease
        return who is not None and item.limit.holds(state, max(now, state.last), who)

    def admits(self, item, now, cost, lease=None):
        state = self._state(item)
        if cost == 0 or item.limit.algorithm == "unlimited" or self.known(item, now, lease):
            return True
        return weight(item, cost) <= item.limit.unused(state, max(now, state.last))

    def answer(self, item, now, cost, admitted, delay):
        """The item's own answer, from the state as it is now, for a request that it admitted or not."""
        if item.limit.algorithm == "unlimited":
            return dict(allowed=1, quota=NONE, remaining=NONE, retry_ns=0, reset_ns=0, delay_ns=0)
        limit, state = item.limit, self._state(item)
        t, most = max(now, state.last), limit.most()
        retry = 0
        if not admitted:
            cost = weight(item, cost)
            retry = None if cost > most else first(lambda x: limit.unused(state, x) >= cost, t, limit)
        reset = 0 if limit.quota == 0 else first(lambda x: limit.unused(state, x) >= most, t, limit)
        remaining = max(0, limit.unused(state, t).__floor__())
        return dict(allowed=int(admitted), quota=most, remaining=remaining, retry_ns=retry, reset_ns=reset,
                    delay_ns=delay)

    def delay(self, item, now, cost, charges):
        limit, state, cost = item.limit, self._state(item), weight(item, cost)
        if limit.algorithm != "leaky-bucket" or cost == 0 or not self.admits(item, now, cost):
            return 0
        backlog = state.debt_at(max(now, state.last), limit)
        rate = limit.quota if charges or backlog == 0 or state.rate is None else state.rate
        return ((backlog + cost - 1) * limit.window / rate).__ceil__()

    def decide(self, operation, items, cost, now, name=None, ttl=0, upto=False):
        """Returns the merged answer, each item's, and what else is told: granted, repeated."""
        if len(items) > 16:
            raise Refused("more than 16 limits")
        if operation == "refund":
            self._refund(items, cost, now)
            cost = 0
        was = self._was(operation, items, now, name)
        if was:
            merged, each = self._decided(items, 0, now, [True] * len(items), [0] * len(items))
            merged["delay_ns"] = max(0, was[1] - now)
            return merged, each, dict(granted=was[0], repeated=True)
        lease = name if operation == "acquire" else None
        asked = cost
        if upto and cost > 0:
            cost = max(1, self._largest(items, cost, now))
        admits = [self.admits(i, now, cost, lease) for i in items]
        allowed = all(a for a, i in zip(admits, items) if not i.observed)
        charges = operation not in ("peek", "explain", "refund") and allowed and cost > 0
        delays = [self.delay(i, now, cost, charges) for i in items]
        if charges:
            self._charge([i for a, i in zip(admits, items) if a], cost, now, operation, name, ttl)
            if name is not None and operation == "check":
                delay = max((d for d, i in zip(delays, items) if not i.observed), default=0)
                self._note(items, now, name, cost, now + delay)
        merged, each = self._decided(items, cost, now, admits, delays)
        return merged, each, dict(granted=cost if allowed and asked else 0, repeated=False)

    def _decided(self, items, cost, now, admits, delays):
        each = [self.answer(i, now, cost, a, d) for i, a, d in zip(items, admits, delays)]
        return merge(items, each), each

    def _largest(self, items, cost, now):
        """The largest part of a cost that all admit: by trying, from the cost down and by halves."""
        def fits(part):
            return all(self.admits(i, now, part) for i in items if not i.observed)
        low, high = 0, cost + 1  # low fits, high does not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    def _was(self, operation, items, now, name):
        """What was granted before under this id, and when it leaves; or None."""
        if name is None:
            return None
        counters = frozenset(i.counter for i in items if i.limit.algorithm != "unlimited")
        if operation == "check":
            granted, leaves, end = self.tokens.get((name, counters), (0, 0, 0))
            return (granted, leaves) if now < end else None
        asked = [i for i in items if i.limit.algorithm == "concurrency"]
        if operation == "acquire" and asked and all(self.known(i, now, name) for i in asked):
            return 0, 0
        states = [self._state(i) for i in items if i.limit.algorithm != "unlimited"]
        if operation == "reserve" and states and all(s.reserved(name, max(now, s.last)) for s in states):
            return 0, 0
        return None

    def _note(self, items, now, name, granted, leaves):
        counted = [i for i in items if i.limit.algorithm != "unlimited"]
        longest = max((i.limit.window for i in counted), default=0)
        self.tokens[name, frozenset(i.counter for i in counted)] = (granted, leaves, now + longest)

    def _charge(self, items, cost, now, operation, name, ttl):
        counted = sorted((i for i in items if i.limit.algorithm != "unlimited"), key=lambda i: -weight(i, cost))
        for counter, item in {i.counter: i for i in reversed(counted)}.items():  # the dearest of each, once
            state = self.counters.setdefault(counter, State())
            t = max(now, state.last)
            if item.limit.algorithm == "concurrency":
                state.leases[name], state.last = (weight(item, cost), t + item.limit.window), t
            elif item.limit.algorithm == "distinct":
                state.members[item.member], state.last = t, t
            elif operation == "reserve":
                state.charge(t, weight(item, cost), item.limit, name, ttl or item.ttl)
            else:
                state.charge(t, weight(item, cost), item.limit, name, item.ttl)

    def _refund(self, items, cost, now):
        for counter, item in {i.counter: i for i in reversed(items)}.items():
            if counter not in self.counters:
                continue
            state = self.counters[counter]
            if item.limit.algorithm == "distinct":
                state.members.pop(item.member if cost else None, None)
            else:
                state.refund(max(now, state.last), cost, item.limit)

    def reset(self, items):
        return sum(self.counters.pop(c, None) is not None for c in {i.counter for i in items})

    def end(self, items, now, name, renews):
        """RELEASE, RENEW: of how many counters the lease was."""
        found = 0
        for item in {i.counter: i for i in items if i.limit.algorithm == "concurrency"}.values():
            if self.known(item, now, name):
                state = self._state(item)
                cost, _ = state.leases.pop(name)
                if renews:
                    state.leases[name] = (cost, max(now, state.last) + item.limit.window)
                found += 1
        return found

    def commit(self, items, now, name, actual):
        counters = {i.counter: i for i in items if i.limit.algorithm not in ("unlimited", "concurrency", "distinct")}
        found = 0
        for item in counters.values():
            state = self._state(item)
            found += state.commit(name, max(now, state.last), actual, item.limit)
        return found

    def holders(self, item, now):
        state = self._state(item)
        t = max(now, state.last)
        held = [[name, cost, ms(end - t)] for name, (cost, end) in state.leases.items() if t < end]
        return sorted(held, key=lambda x: x[2])


def weight(item, cost):
    """What a request of this cost costs here: a member counts as one; nothing costs nothing."""
    if item.limit.algorithm == "distinct" or cost == 0:
        return min(cost, 1)
    return item.own or cost


def merge(items, each):
    """Rule 4.4."""
    own = [(n, e) for n, (i, e) in enumerate(zip(items, each))
           if not i.observed and i.limit.algorithm != "unlimited"]
    if not own:
        return dict(allowed=1, quota=NONE, remaining=NONE, retry_ns=0, reset_ns=0, delay_ns=0, index=-1)
    denying = [(n, e) for n, e in own if not e["allowed"]]
    never = 1 << 200
    if denying:
        index, decided = max(denying, key=lambda x: (never if x[1]["retry_ns"] is None else x[1]["retry_ns"], -x[0]))
    else:
        index, decided = min(own, key=lambda x: (x[1]["remaining"], x[0]))
    return dict(allowed=int(not denying), quota=decided["quota"], remaining=min(e["remaining"] for _, e in own),
                retry_ns=decided["retry_ns"] if denying else 0, reset_ns=max(e["reset_ns"] for _, e in own),
                delay_ns=0 if denying else max(e["delay_ns"] for _, e in own), index=index)


def shown(answer):
    """An answer as the doors show it."""
    out = {"allowed": answer["allowed"], "quota": answer["quota"], "remaining": answer["remaining"]}
    for wait in ("retry", "reset", "delay"):
        out[wait + ("_ms" if wait == "delay" else "_after_ms")] = ms(answer[wait + "_ns"])
    if "index" in answer:
        out["index"] = answer["index"]
    return out


# ---- policies ----------------------------------------------------------------------------------------------------

class Policy:
    """As much of contract section 5 as decides whose counter a request meets."""

    def __init__(self, text):
        import yaml
        self.limits = yaml.safe_load(text)["limits"]

    @staticmethod
    def matches(when, attributes):
        for name, wanted in (when or {}).items():
            if name == "not":
                if any(Policy.matches(one, attributes) for one in (wanted if isinstance(wanted, list) else [wanted])):
                    return False
                continue
            wanted = [str(w) for w in (wanted if isinstance(wanted, list) else [wanted])]
            value = attributes.get(name)
            if value is None or not any(holds(w, value, name) for w in wanted):
                return False
        return True

    @staticmethod
    def key(parts, attributes):
        """The (name, value) of each part, or None when one is absent."""
        key = []
        for part in parts if isinstance(parts, list) else [parts]:
            name = next((n for n in part.split(" | ") if n in attributes or n[0] == '"'), None)
            if name is None:
                return None
            key.append(("", name.strip('"')) if name[0] == '"' else (name, attributes[name]))
        return tuple(key)

    def own_cost(self, cost, attributes):
        """What a limit itself says that a request costs; None: the request says it."""
        for one in cost if isinstance(cost, list) else [cost]:
            if isinstance(one, dict) and not self.matches(one["when"], attributes):
                continue
            return one["cost"] if isinstance(one, dict) else one if isinstance(one, int) else None
        return None

    def items(self, step):
        out, given = [], {name: forms.text(name, value) for name, value in step["attributes"].items()}
        for position, one in enumerate(self.limits):
            attributes = {**given, **route_of(one, given)}
            key = self.key(one["key"], attributes)
            if key is None or not self.matches(one.get("when"), attributes):
                continue
            if one.get("of", "") and one["of"] not in attributes:
                continue
            override = next((o for o in one.get("overrides", []) if self.matches(o["when"], attributes)), {})
            rule = override.get("limit", one["limit"])
            written = override if "observe" in override or "canary" in override else one
            if rule != "unlimited":
                out.append(Item(Limit(rule), key, one["name"], canary.observes(one["name"], written, attributes),
                                position, step.get("member", attributes.get(one.get("of"))), reserved_ns(one),
                                self.own_cost(one.get("cost"), attributes)))
        return out


def holds(written, value, name=""):
    """Is a value what a condition says: exact, a prefix*, a path with {parts}, *.a host's end, a network?"""
    if name == "host" and written.startswith("*."):
        return value.endswith(written[1:].lower()) and value != written[1:].lower()
    if name == "ip" and "/" in written:
        try:
            return ipaddress.ip_network(value).subnet_of(ipaddress.ip_network(written, strict=False))
        except (ValueError, TypeError):  # no address, or of the other family
            return False
    return pattern(written).fullmatch(value) is not None


def pattern(written):
    stem, prefix = (written[:-1], ".*") if written.endswith("*") else (written, "")
    parts = re.split(r"(/\{[\w-]+\})", stem)
    return re.compile("".join(f"/(?P<{p[2:-1]}>[^/]+)" if i % 2 else re.escape(p) for i, p in enumerate(parts)) +
                      prefix, re.S)


def route_of(one, attributes):
    """The attributes that a limit's route fills in: the first of its paths that holds, and its parts."""
    paths = one.get("when", {}).get("path", [])
    for written in paths if isinstance(paths, list) else [paths]:
        found = pattern(written).fullmatch(attributes.get("path", ""))
        if found:
            return {**found.groupdict(), "route": written}
    return {}


def reserved_ns(one):
    """For how long a limit of a policy reserves: `reserve: true` or {ttl}."""
    reserve = one.get("reserve", False)
    return 0 if not reserve else duration(reserve.get("ttl", "60s") if isinstance(reserve, dict) else "60s")


def encoded(text):
    return text.replace("%", "%25").replace(",", "%2C").replace("=", "%3D")


def key_text(item):
    return ",".join(f"{encoded(n)}={encoded(v)}" for n, v in item.counter[1])


# ---- the case list -----------------------------------------------------------------------------------------------

def items_of(step):
    """The items of a step: an element is a notation or {"key", "limit", "member"}."""
    return [Item(Limit(x), step["key"], member=step.get("member")) if isinstance(x, str)
            else Item(Limit(x["limit"]), x.get("key", step["key"]), member=x.get("member", step.get("member")))
            for x in step["limits"]]


def refuse(operation, items):
    """What an operation can't do."""
    kinds = [i.limit.algorithm for i in items]
    if operation in ("check", "reserve", "refund") and "concurrency" in kinds:
        raise Refused("concurrency is acquired")
    if operation == "reserve" and "distinct" in kinds:
        raise Refused("distinct is not reserved")
    if operation in ("check", "acquire", "refund") and any(
            i.limit.algorithm == "distinct" and i.member is None for i in items):
        raise Refused("distinct without a member")
    member_of = {}
    for i in items if operation in ("check", "peek", "refund", "acquire") else []:
        if i.limit.algorithm == "distinct" and i.member is not None and \
                member_of.setdefault(i.counter, i.member) != i.member:
            raise Refused("two members of one counter")
    if operation == "acquire" and "concurrency" not in kinds:
        raise Refused("nothing to acquire")


def operation_of(step, items):
    """What an ADMIT comes to."""
    if step["op"] != "admit":
        return step["op"]
    if any(i.limit.algorithm == "concurrency" for i in items):
        return "acquire"
    return "reserve" if any(i.ttl for i in items) else "check"


def answer_of(twin, policy, step):
    """What a step is answered with."""
    cost, now = step.get("cost", 1), step["at"] * MS
    if not 0 <= cost <= 4294967295:
        raise Refused("cost")
    items = policy.items(step) if "attributes" in step else items_of(step)
    operation = operation_of(step, items)
    refuse(operation, items)
    if len(step.get("id", "x").encode()) not in range(1, 65) or not 0 <= step.get("ttl_ms", 1) * MS <= MOST_NS:
        raise Refused("an id, a ttl")
    if operation == "reset":
        return {"forgotten": twin.reset(items)}
    if operation in ("release", "renew"):
        return {"found": twin.end(items, now, step["id"], operation == "renew")}
    if operation == "holders":
        return {"holders": twin.holders(items[0], now)}
    if operation == "commit":
        found = twin.commit(items, now, step["id"], step["actual"])
        if not found:
            return {"found": 0}
        cost, operation = 0, "peek"
    merged, each, told = twin.decide(operation, items, cost, now, step.get("id"), step.get("ttl_ms", 0) * MS,
                                     step.get("upto", False))
    if step["op"] == "explain":
        return {"limits": [{"name": i.name, "limit": i.limit.text(), "key": key_text(i), **shown(e)}
                           for i, e in zip(items, each)]}
    out = shown(merged)
    if step["op"] == "admit":
        decided = items[merged["index"]] if merged["index"] >= 0 else None
        out["index"] = decided.position if decided else -1
        out["name"] = decided.name if decided else ""
    if "upto" in step:
        out["granted"] = told["granted"]
    if "id" in step and step["op"] != "commit":
        out["repeated"] = told["repeated"]
    if operation in ("acquire", "reserve"):
        out["held"] = bool(merged["allowed"] and (cost or told["repeated"]))
    if len(items) > 1:
        out["each"] = [shown(e) for e in each]
    return out


def run(case):
    """Yields (step, answer) for every step of a case; a repeated step answers as its last time did."""
    twin = Twin()
    policy = None
    if "policy" in case:
        with open(os.path.join(HERE, "policies", case["policy"]), encoding="utf-8") as f:
            policy = Policy(f.read())
    for step in case["steps"]:
        try:
            for _ in range(step.get("times", 1)):
                answer = answer_of(twin, policy, step)
        except Refused:
            answer = {"error": True}
        yield step, answer


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def files():
    return sorted(glob.glob(os.path.join(HERE, "*.json")))


def dump(cases, path):
    """One step a line, so that a difference reads as one."""
    with open(path, "w", encoding="utf-8") as f:
        f.write("[\n")
        for i, case in enumerate(cases):
            head = {k: v for k, v in case.items() if k != "steps"}
            f.write(" " + json.dumps(head, ensure_ascii=False)[:-1] + ', "steps": [\n')
            f.write(",\n".join("  " + json.dumps(s, ensure_ascii=False) for s in case["steps"]))
            f.write("\n ]}" + (",\n" if i + 1 < len(cases) else "\n"))
        f.write("]\n")


def differences(path):
    for case in load(path):
        for n, (step, answer) in enumerate(run(case)):
            if step.get("expect") != answer:
                yield f"{os.path.basename(path)}: {case['name']}: step {n}: listed {step.get('expect')}, twin {answer}"


def fill(path):
    cases = load(path)
    for case in cases:
        for step, answer in run(case):
            step.setdefault("expect", answer)
    dump(cases, path)


def main(arguments):
    if arguments[:1] == ["--fill"]:
        for path in arguments[1:]:
            fill(path)
        return 0
    found = [d for path in files() for d in differences(path)]
    print("\n".join(found) if found else f"{sum(len(load(p)) for p in files())} cases agree with the twin")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
