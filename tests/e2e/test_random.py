"""Random traffic through both doors against the slow twin of the case list: every number of every answer.

Commands come pipelined, in batches of up to 60 in one write, so that the server decides them together, hashed and
prefetched ahead; HTTP requests come between. Few keys and many limits, so that limits meet in counters, requests of
several limits and keys overlap, and quotas change under live counters. Time is told by the client and never goes back
(what a counter forgets once it has expired is the store's business; the case list turns the clock back).

The seed is printed; SLUICE_SEED=N runs that one again.
"""

import os
import random
import sys

import pytest

from harness import FIELDS, ROOT, RespError, encode

sys.path.insert(0, os.path.join(ROOT, "tests", "cases"))
import twin  # noqa: E402

SEED = int(os.environ.get("SLUICE_SEED", random.randrange(1, 1 << 32)))
BATCHES = 300
START_MS = 1_728_000_000_000

LIMITS = ["fixed-window {q}/1s", "fixed-window {q}/7s", "{q}/1s", "{q}/3s", "sliding-log {q}/1s", "sliding-log {q}/4s",
          "sliding-buckets {q}/1s precision 100ms", "sliding-buckets {q}/1s precision 100ms edge drop",
          "sliding-buckets {q}/2s precision 250ms edge weighted", "token-bucket 7/1s burst {b}",
          "token-bucket 3/1s burst {b}", "leaky-bucket 5/1s queue {b}", "leaky-bucket 9/2s queue {b}", "unlimited",
          "0/1s"]
KEYS = ["a", "b", "c"]


def random_limits(dice, count):
    """Distinct shapes, so that two edges of one counter never stand in one request: whose edge says what a refund may
    take back is nowhere written."""
    shapes = dice.sample(LIMITS, count)
    buckets = [s for s in shapes if s.startswith("sliding-buckets {q}/1s")]
    shapes = [s for s in shapes if s not in buckets[1:]]
    limits = [s.format(q=dice.choice([1, 3, 5, 10, 20]), b=dice.choice([1, 2, 6, 15])) for s in shapes]
    if dice.random() < 0.2:
        limits.append(dice.choice(limits))  # the same limit twice: one counter, charged once
    others = [x if dice.random() < 0.8 else {"key": dice.choice(KEYS), "limit": x} for x in limits[1:]]
    return limits[:1] + others


def random_step(dice, at):
    operation = dice.choices(["check", "peek", "refund", "reset"], [70, 12, 15, 3])[0]
    step = {"op": operation, "at": at, "key": dice.choice(KEYS),
            "limits": random_limits(dice, dice.choice([1, 1, 1, 2, 2, 3, 6]))}
    if operation != "reset":
        step["cost"] = dice.choices([0, 1, 2, 3, 7, 30], [3, 60, 15, 10, 8, 4])[0]
    return step


def words_of(step):
    words, key = ["SLUICE." + step["op"].upper(), step["key"]], step["key"]
    words += ([] if step["op"] == "reset" else [step["cost"]]) + ["AT", step["at"]]
    for element in step["limits"]:
        wanted, limit = (step["key"], element) if isinstance(element, str) else (element["key"], element["limit"])
        words += ([] if wanted == key else ["KEY", wanted]) + [limit]
        key = wanted
    return words


def reset_bounds(model, step):
    """How many counters a reset may say it forgot: one that has expired may have been reclaimed before."""
    items = {i.counter: i for i in twin.items_of(step) if i.counter in model.counters}
    live = sum(i.limit.quota > 0 and i.limit.unused(model.counters[c], step["at"] * twin.MS) < i.limit.most()
               for c, i in items.items())
    return live, len(items)


def over_resp(client, model, steps):
    client.send(b"".join(encode(*words_of(step)) for step in steps))
    for step in steps:
        reply = client.read()
        assert not isinstance(reply, RespError), (reply, step)
        if step["op"] == "reset":
            least, most = reset_bounds(model, step)
            assert least <= reply <= most, step
            twin.answer_of(model, None, step)
        else:
            want = twin.answer_of(model, None, step)
            assert dict(zip(FIELDS + ("index",), reply)) == {k: v for k, v in want.items() if k != "each"}, step


def over_http(client, model, step):
    if step["op"] == "reset":
        return
    body = {k: step[k] for k in ("key", "limits", "cost", "at")}
    path = "/v1/refund" if step["op"] == "refund" else "/v1/check"
    if step["op"] == "peek":
        body["peek"] = True
    status, _, got = client.post(path, body)
    want = twin.answer_of(model, None, step)
    assert status == (200 if want["allowed"] else 429)
    assert {f: int(got[f]) for f in FIELDS} == {f: want[f] for f in FIELDS}, step
    each = want.get("each", [{f: want[f] for f in FIELDS}])
    assert [{f: int(x[f]) for f in FIELDS} for x in got["limits"]] == each, step


@pytest.mark.parametrize("threads", [1, 2])
def test_random_traffic(server, threads):
    print(f"SLUICE_SEED={SEED}")
    dice = random.Random(f"{SEED} {threads}")
    one = server(f"client-time: true\nthreads: {threads}\n")
    model, at, decided = twin.Twin(), START_MS, 0
    with one.resp() as resp, one.http() as http:
        for _ in range(BATCHES):
            at += dice.choice([0, 1, 5, 37, 333, 999, 2000, 9000])
            steps = []
            for _ in range(dice.choice([1, 2, 20, 60])):
                at += dice.choice([0, 0, 0, 1, 13])
                steps.append(random_step(dice, at))
            over_resp(resp, model, steps)
            over_http(http, model, random_step(dice, at))
            decided += len(steps) + 1
            forget_the_gone(model, at)
    assert decided > BATCHES * 5


def forget_the_gone(model, at):
    """Keeps the twin quick: charges of more than a minute ago count in none of the limits above."""
    for state in model.counters.values():
        state.charges = [x for x in state.charges if x.cost > 0 and x.s > (at - 60000) * twin.MS]
