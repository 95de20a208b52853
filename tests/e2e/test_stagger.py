"""Staggered retries at the doors: successive denied callers are told successive waits, wherever a wait is told."""

import time

from harness import still_serves

POLICY = """
client-time: true
limits:
  - {name: spread, key: user, limit: token-bucket 10/10000s burst 1, stagger: true}
  - {name: plain, key: ip, limit: token-bucket 10/10000s burst 1}
"""
UNIT_MS = 1_000_000  # no test takes so long


def test_successive_callers_are_told_successive_waits(server):
    one = server(POLICY)
    with one.resp() as r, one.http() as h:
        begun = time.monotonic()
        assert r.call("SLUICE.ADMIT", 1, "user", "ann")[0] == 1
        waits = [r.call("SLUICE.ADMIT", 1, "user", "ann")[3] for _ in range(10)]
        waits += [h.post("/v1/admit", {"attributes": {"user": "ann"}})[2]["retry_after_ms"] for _ in range(5)]
        spent_ms = (time.monotonic() - begun) * 1000
        # the n-th slot, less what has passed since
        assert all(UNIT_MS * (i + 1) - spent_ms - 1 <= wait <= UNIT_MS * (i + 1) for i, wait in enumerate(waits))
        status, headers, body = h.post("/v1/admit", {"attributes": {"user": "ann"}})
        assert status == 429 and dict(headers)["Retry-After"] == str(-(-body["retry_after_ms"] // 1000))
        assert body["limits"][0]["retry_after_ms"] == body["retry_after_ms"] > 10 * UNIT_MS
        # by its name in CHECK he stands in the same line
        assert r.call("SLUICE.CHECK", "user=ann", 1, "policy:spread")[3] > 10 * UNIT_MS
        # a peek takes no ticket, and says the truth
        assert r.call("SLUICE.PEEK", "user=ann", 1, "policy:spread")[3] <= UNIT_MS
    still_serves(one)


def test_a_limit_that_does_not_say_so_tells_everybody_the_truth(server):
    with server(POLICY).resp() as r:
        r.call("SLUICE.ADMIT", 1, "ip", "192.0.2.1")
        assert all(r.call("SLUICE.ADMIT", 1, "ip", "192.0.2.1")[3] <= UNIT_MS for _ in range(10))


def test_those_who_come_when_told_are_admitted(server):
    """They are told by the server's clock, and come at an instant that is given: a caller's own is never staggered.
    There is room for more than one: with a burst of 1, who comes a moment late makes all behind him a moment early."""
    with server(POLICY.replace("burst 1, stagger", "burst 4, stagger")).resp() as r:
        assert r.call("SLUICE.ADMIT", 4, "user", "ann")[0] == 1
        due = []
        for _ in range(8):
            wait = r.call("SLUICE.ADMIT", 1, "user", "ann")[3]
            due.append((int(r.call("TIME")[0]) + 1) * 1000 + wait)  # not a moment early, for it is rounded up
        for at in due:
            assert r.call("SLUICE.CHECK", "user=ann", 1, "AT", at, "policy:spread")[0] == 1
        assert r.call("SLUICE.PEEK", "user=ann", 4, "AT", due[-1], "policy:spread")[0] == 0
