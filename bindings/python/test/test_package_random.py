"""Random calls through the binding, in process, beside the C library by ctypes: a store each, the same instants, and
every field of every answer. SLUICE_OPS=1000000 makes it a million; a seed is printed, SLUICE_SEED= repeats it."""
import ctypes
import os
import random

import world
import sluice

NEVER = 2 ** 64 - 1
LIMITS = ["10/1m", "fixed-window 5/10s", "sliding-log 7/1m", "sliding-buckets 20/1m precision 10s",
          "sliding-buckets 9/1m precision 5s edge weighted", "token-bucket 10/1s burst 20", "leaky-bucket 5/1s queue 4",
          "unlimited", "100/1h spread", "fixed-window 30/hour at Europe/Berlin", "4294967295/1d"]
LEASES = ["concurrency 3 lease 5s", "concurrency 1 lease 500ms"]
DISTINCT = ["distinct 3/1m", "distinct 2/10s"]
CHARGE, PEEK, REFUND, RESET, ACQUIRE, RELEASE, RENEW, RESERVE = range(8)


class Bytes(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("len", ctypes.c_size_t)]


class Limit(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint64 * 10)]


class Item(ctypes.Structure):
    _fields_ = [("limit", ctypes.POINTER(Limit)), ("key", Bytes), ("observed", ctypes.c_uint8),
                ("bound", ctypes.c_uint8), ("cost", ctypes.c_uint32), ("member", Bytes),
                ("terms", ctypes.c_void_p), ("ttl_ns", ctypes.c_uint64)]


class Decision(ctypes.Structure):
    _fields_ = [("allowed", ctypes.c_bool), ("bound", ctypes.c_uint8), ("index", ctypes.c_int32),
                ("remaining", ctypes.c_uint32), ("quota", ctypes.c_uint64), ("retry_after_ns", ctypes.c_uint64),
                ("reset_after_ns", ctypes.c_uint64), ("delay_ns", ctypes.c_uint64), ("next_after_ns", ctypes.c_uint64)]


class Call(ctypes.Structure):
    _fields_ = [("items", ctypes.POINTER(Item)), ("item_count", ctypes.c_uint32), ("cost", ctypes.c_uint32),
                ("operation", ctypes.c_int), ("want_next", ctypes.c_bool), ("upto", ctypes.c_bool),
                ("now", ctypes.c_uint64), ("id", Bytes), ("ttl_ns", ctypes.c_uint64),
                ("each", ctypes.POINTER(Decision)),
                ("merged", Decision), ("forgotten", ctypes.c_uint32), ("found", ctypes.c_uint32),
                ("granted", ctypes.c_uint32), ("repeated", ctypes.c_bool), ("penalized", ctypes.c_uint16),
                ("err", ctypes.c_int)]


class Library:
    def __init__(self):
        self.c = ctypes.CDLL(os.path.join(os.path.dirname(world.SLUICE), "libsluice.so"))
        self.store, self.parsed = ctypes.c_void_p(), {}
        assert self.c.sluice_store_open(ctypes.byref(self.store), None, None) == 0

    def limit(self, text):
        if text not in self.parsed:
            self.parsed[text] = Limit()
            assert self.c.sluice_limit_parse(ctypes.byref(self.parsed[text]), bytes_of(text), None) == 0
        return ctypes.pointer(self.parsed[text])

    def decide(self, operation, now, items, cost, words):
        list_ = (Item * len(items))()
        for place, (key, text, member) in zip(list_, items):
            place.limit, place.key = self.limit(text), bytes_of(key)
            if member is not None:
                place.member = bytes_of(member)
        each = (Decision * len(items))()
        call = Call(items=list_, item_count=len(items), cost=cost, operation=operation, now=now,
                    want_next=words.get("next", False) or words.get("each", False), upto=words.get("upto", False),
                    ttl_ns=words.get("ttl", 0) * 1000000, each=each)
        if words.get("id") is not None:
            call.id = bytes_of(words["id"])
        assert self.c.sluice_decide(self.store, ctypes.byref(call)) == 0
        return call, each


def bytes_of(text):
    data = text.encode()
    return Bytes(data, len(data))


def ms(ns):
    return -1 if ns == NEVER else -(-ns // 1000000)


def figures(decision):
    return (decision.allowed, decision.quota, decision.remaining, ms(decision.retry_after_ns),
            ms(decision.reset_after_ns), ms(decision.delay_ns), ms(decision.next_after_ns), decision.index)


def told(result):
    return (result.allowed, result.quota, result.remaining, result.retry_after, result.reset_after, result.delay,
            result.next_after, result.index)


def draw(dice):
    """An operation with its items, cost and words."""
    operation = dice.choice((CHARGE,) * 8 + (PEEK, PEEK, REFUND, RESET, ACQUIRE, ACQUIRE, RELEASE, RENEW, RESERVE))
    leasing = operation in (ACQUIRE, RELEASE, RENEW)
    pool = LIMITS[:8] if operation == RESERVE else LIMITS
    count = 1 if dice.random() < 0.6 else dice.randint(2, 4)
    texts = [dice.choice(LEASES)] if leasing else []
    texts += [dice.choice(pool) for _ in range(count - len(texts))]
    if operation in (CHARGE, PEEK) and dice.random() < 0.1:
        texts.append(dice.choice(DISTINCT))
    items = [(dice.choice("abc"), text, f"m{dice.randrange(5)}" if text in DISTINCT else None) for text in texts]
    tells = operation not in (RESET, RELEASE, RENEW)
    words = {name: True for name in ("next", "each") if tells and dice.random() < 0.2}
    if words.get("each"):
        words.pop("next", None)
    if operation in (CHARGE, PEEK) and dice.random() < 0.1:
        words["upto"] = True
    if leasing or operation == RESERVE or (operation == CHARGE and dice.random() < 0.1):
        words["id"] = f"id{dice.randrange(12)}"
    if operation == RESERVE:
        words["ttl"] = dice.choice((500, 5000))
    return operation, items, dice.choice((0, 1, 1, 1, 2, 5, 30)), words


NAMES = ("check", "peek", "refund", "reset", "acquire", "release", "renew", "reserve")


def ask(limiter, operation, items, cost, words):
    key = items[0][0]
    limits = [text if own == key and member is None else (own, text, member) for own, text, member in items]
    limits = limits[0] if len(limits) == 1 and isinstance(limits[0], str) else limits
    call = getattr(limiter, NAMES[operation])
    if operation == RESET:
        return call(key, limits)
    if operation in (RELEASE, RENEW):
        return call(key, limits, words["id"])
    return call(key, limits, cost, **words)


def test_random_calls_answer_as_the_library():
    seed = int(os.environ.get("SLUICE_SEED", random.randrange(1, 2 ** 63)))
    count = int(os.environ.get("SLUICE_OPS", 40000))
    print(f"seed {seed}, {count} calls")
    dice, now, library = random.Random(seed), [1728000000000], Library()
    with sluice.Limiter(clock=lambda: now[0]) as limiter:
        for number in range(count):
            now[0] += dice.choice((0, 0, 0, 1, 7, 100, 1000, 9000)) if dice.random() < 0.7 else 0
            operation, items, cost, words = draw(dice)
            call, each = library.decide(operation, now[0] * 1000000, items, cost, words)
            result = ask(limiter, operation, items, cost, words)
            what = f"call {number} of seed {seed}: {NAMES[operation]} {items} {cost} {words}"
            if operation in (RESET, RELEASE, RENEW):
                assert result == (call.forgotten if operation == RESET else call.found), what
                continue
            assert told(result) == figures(call.merged), what
            assert (result.repeated, result.bound) == (call.repeated, None), what
            if operation != REFUND:
                assert result.granted == call.granted, what
            if "each" in words:
                assert [told(one) for one in result.each] == [figures(one) for one in each], what
            if operation == ACQUIRE:
                assert (result.id is not None) == (call.merged.allowed and (cost != 0 or call.repeated)), what
