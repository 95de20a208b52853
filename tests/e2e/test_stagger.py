"""Staggered retries at the doors: successive denied callers are told successive waits, wherever a wait is told."""

import time

from harness import still_serves

POLICY = """
client-time: true
limits:
  - {name: spread, key: user, limit: token-bucket 10/1s burst 1, stagger: true}
  - {name: plain, key: ip, limit: token-bucket 10/1s burst 1}
"""


def test_successive_callers_are_told_successive_waits(server):
    one = server(POLICY)
    with one.resp() as r, one.http() as h:
        begun = time.monotonic()
        assert r.call("SLUICE.ADMIT", 1, "user", "ann")[0] == 1
        waits = [r.call("SLUICE.ADMIT", 1, "user", "ann")[3] for _ in range(10)]
        waits += [h.post("/v1/admit", {"attributes": {"user": "ann"}})[2]["retry_after_ms"] for _ in range(5)]
        spent_ms = (time.monotonic() - begun) * 1000
        # the n-th slot, less what has passed since
        assert all(100 * (i + 1) - spent_ms - 1 <= wait <= 100 * (i + 1) for i, wait in enumerate(waits))
        status, headers, body = h.post("/v1/admit", {"attributes": {"user": "ann"}})
        assert status == 429 and dict(headers)["Retry-After"] == str(-(-body["retry_after_ms"] // 1000))
        assert body["limits"][0]["retry_after_ms"] == body["retry_after_ms"] > 1000
        # by its name in CHECK he stands in the same line
        assert r.call("SLUICE.CHECK", "user=ann", 1, "policy:spread")[3] > 1000
        # a peek takes no ticket, and says the truth
        assert r.call("SLUICE.PEEK", "user=ann", 1, "policy:spread")[3] <= 100
    still_serves(one)


def test_a_limit_that_does_not_say_so_tells_everybody_the_truth(server):
    with server(POLICY).resp() as r:
        r.call("SLUICE.ADMIT", 1, "ip", "192.0.2.1")
        assert all(r.call("SLUICE.ADMIT", 1, "ip", "192.0.2.1")[3] <= 100 for _ in range(10))


def test_those_who_come_when_told_are_admitted(server):
    # room for more than one: with a burst of 1, whoever comes a moment late makes all behind him a moment early
    with server(POLICY.replace("burst 1, stagger", "burst 4, stagger")).resp() as r:
        r.call("SLUICE.ADMIT", 4, "user", "ann")
        due = []
        for _ in range(8):
            wait = r.call("SLUICE.ADMIT", 1, "user", "ann")[3]
            due.append(time.monotonic() + wait / 1000)
        for at in due:
            while time.monotonic() < at:
                time.sleep(max(0, at - time.monotonic()))
            assert r.call("SLUICE.ADMIT", 1, "user", "ann")[0] == 1
