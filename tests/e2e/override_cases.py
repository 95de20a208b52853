"""Quotas of keys' own, as every door has to answer: a server of ours over RESP and HTTP, the module, and a server whose
counters are in Redis. Windows are long, so that no instant has to be told.

A step is (what, ..., expected): "set" and "get" with notations, "del", "check" with a cost: (allowed, quota,
remaining); "reset": how many counters were forgotten. Every case has keys of its own."""

MANY = 4294967295
LONG = "3660d"

CASES = [
    ("a quota above the limit's keeps what is spent", f"5/{LONG}", [
        ("check", 3, (1, 5, 2)), ("set", f"100/{LONG}", "OK"), ("check", 10, (1, 100, 87)),
        ("get", f"sliding-window 100/{LONG}"), ("del", 1), ("check", 1, (0, 5, 0)), ("del", 0), ("get", None)]),
    ("one below it, too", f"fixed-window 10/{LONG}", [
        ("check", 6, (1, 10, 4)), ("set", f"fixed-window 4/{LONG}", "OK"), ("check", 1, (0, 4, 0)),
        ("set", f"fixed-window 7/{LONG}", "OK"), ("check", 1, (1, 7, 0)), ("del", 1), ("check", 1, (1, 10, 2))]),
    ("of nothing", f"5/{LONG}", [
        ("set", f"0/{LONG}", "OK"), ("check", 1, (0, 0, 0)), ("check", 0, (1, 0, 0)), ("del", 1),
        ("check", 1, (1, 5, 4))]),
    ("without a limit nothing is counted", f"5/{LONG}", [
        ("check", 2, (1, 5, 3)), ("set", "unlimited", "OK"), ("check", 1000, (1, MANY, MANY)), ("get", "unlimited"),
        ("del", 1), ("check", 1, (1, 5, 2))]),
    ("it stays when the counter goes", f"sliding-log 5/{LONG}", [
        ("set", f"sliding-log 9/{LONG}", "OK"), ("check", 8, (1, 9, 1)), ("reset", 1), ("check", 1, (1, 9, 8)),
        ("reset", 1), ("reset", 0), ("get", f"sliding-log 9/{LONG}"), ("check", 9, (1, 9, 0)), ("del", 1)]),
    ("sub-buckets, with another edge", f"sliding-buckets 5/{LONG} precision 366d", [
        ("set", f"sliding-buckets 8/{LONG} precision 366d edge weighted", "OK"), ("check", 7, (1, 8, 1)), ("del", 1),
        ("check", 1, (0, 5, 0))]),
    ("a bucket's burst", f"token-bucket 1/{LONG} burst 4", [
        ("check", 3, (1, 4, 1)), ("set", f"token-bucket 1/{LONG} burst 10", "OK"), ("check", 6, (1, 10, 1)),
        ("del", 1), ("check", 1, (0, 4, 0))]),
    ("windows that are spread", f"5/{LONG} spread", [
        ("check", 2, (1, 5, 3)), ("set", f"8/{LONG} spread", "OK"), ("check", 5, (1, 8, 1)), ("del", 1),
        ("check", 1, (0, 5, 0))]),
    ("a queue", f"leaky-bucket 1/{LONG} queue 1", [
        ("set", f"leaky-bucket 1/{LONG} queue 0", "OK"), ("check", 1, (1, 1, 0)), ("check", 1, (0, 1, 0)), ("del", 1),
        ("check", 1, (1, 2, 0))]),
]

REFUSED = [
    (f"5/{LONG}", "5/1m", "another window"), (f"5/{LONG}", f"fixed-window 5/{LONG}", "another algorithm"),
    (f"token-bucket 1/{LONG}", f"token-bucket 2/{LONG}", "bucket of another rate"),
    (f"5/{LONG}", f"5/{LONG} spread", "another phase"), ("unlimited", f"5/{LONG}", "counts nothing"),
    (f"5/{LONG}", "nine", "quota, column"), ("nine", f"5/{LONG}", "column"),
]


def by_http(http, key, limit):
    """How a case's checks are decided over HTTP."""
    def check(cost):
        status, _, told = http.ask("POST", "/v1/check", {"key": key, "cost": cost, "limits": [limit]})
        assert status in (200, 429), told
        return [int(told["allowed"]), told["quota"], told["remaining"]]
    return check


def run(client, case, key, check=None):
    """One case at a door that takes the commands' words; `check` decides otherwise than by SLUICE.CHECK."""
    _, limit, steps = case
    for number, (what, *words, expected) in enumerate(steps):
        if what == "check":
            got = (check or (lambda cost: client.call("SLUICE.CHECK", key, cost, limit)))(*words)
            got = tuple(got[:3])
        elif what == "reset":
            got = client.call("SLUICE.RESET", key, limit)
        else:
            got = client.call("SLUICE.OVERRIDE", what.upper(), limit, key, *words)
            got = got.decode() if isinstance(got, bytes) else got
            if what == "get" and got is not None:
                assert got[1] == -1
                got = got[0].decode()
        assert got == expected, (case[0], number, what, words, got)
