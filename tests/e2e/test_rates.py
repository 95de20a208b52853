"""Buckets as time passes, through the server and its fronts. They are refilled all the time (contract 3). And where
their rate is changed (4.7), by a reload, or by a kill with another policy at the next start, what drains goes on at the
rate that charged it last."""

import signal
import time

import pytest

from harness import wait_until
from redis_world import redises  # noqa: F401
from test_fleet import decides

NOW = 1_800_000_000_000
POLICY = """client-time: true
store: {store}
limits:
  - {{name: api, key: user, limit: token-bucket {rate}/1s burst 1000, on-error: deny}}
  - {{name: leak, key: job, limit: leaky-bucket {rate}/1s queue 999, on-error: deny}}
"""


@pytest.fixture(params=["server", "module", "script"])
def store(request, redises, tmp_path):  # noqa: F811
    if request.param == "server":
        return f"{{file: {tmp_path}/store, memory: 4MiB}}"
    redis = redises() if request.param == "module" else redises(module=None)
    return f'{{redis: ["127.0.0.1:{redis.port}"], budget: 10s}}'


def started(server, store, rate):
    one = server(POLICY.format(store=store, rate=rate))
    wait_until(lambda: decides(one), "nobody decides")
    return one


def reloaded(one, store, rate):
    with open(one.policy_file, "w", encoding="utf-8") as f:
        f.write(POLICY.format(store=store, rate=rate))
    one.process.send_signal(signal.SIGHUP)
    one.stderr.wait_for(lambda line: line.startswith("sluice: loaded "))
    return one


def killed(server, one, store, rate):
    one.process.kill()
    one.process.wait()
    return started(server, store, rate)


def admit(one, after_ms, cost, **attributes):
    with one.http() as http:
        _, _, body = http.post("/v1/admit", {"attributes": attributes, "cost": cost, "at": NOW + after_ms})
    return [body[what] for what in ("allowed", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms")]


@pytest.mark.parametrize("limits", [("token-bucket 3000/1s burst 1",), ("token-bucket 3000/1s burst 1",
                                    "sliding-log 1M/1h"), ("sliding-log 1M/1h", "leaky-bucket 3000/1s queue 0")],
                         ids=["alone", "before a log", "behind a log"])
def test_a_bucket_is_refilled_all_the_time(server, store, limits):
    """A third of a millisecond after an answer the next one is admitted: 400 us, as clocks are not quite alike."""
    one = started(server, store, 1)
    with one.resp() as client:
        for _ in range(300):
            assert client.call("SLUICE.CHECK", "k", 1, *limits)[0] == 1
            answered = time.monotonic_ns()
            while time.monotonic_ns() < answered + 400_000:
                pass


@pytest.mark.parametrize("kills", [False, True], ids=["reloaded", "killed"])
def test_idle_time_at_a_low_rate_pays_back_at_the_low_rate(server, store, kills):
    one = started(server, store, 1)
    assert admit(one, 0, 1000, user="a") == [True, 0, 0, 1_000_000, 0]
    one = killed(server, one, store, 1000) if kills else reloaded(one, store, 1000)
    assert admit(one, 2000, 3, user="a") == [False, 2, 1000, 998_000, 0]
    assert admit(one, 3000, 3, user="a") == [True, 0, 0, 1000, 0]  # from here on at the new rate
    assert admit(one, 3500, 501, user="a") == [False, 500, 1, 500, 0]
    assert admit(one, 3501, 501, user="a") == [True, 0, 0, 1000, 0]


@pytest.mark.parametrize("kills", [False, True], ids=["reloaded", "killed"])
def test_what_was_full_stays_full(server, store, kills):
    one = started(server, store, 1000)
    assert admit(one, 0, 1000, user="a") == [True, 0, 0, 1000, 0]
    assert admit(one, 0, 1000, job="a") == [True, 0, 0, 1000, 999]
    one = killed(server, one, store, 1) if kills else reloaded(one, store, 1)
    assert admit(one, 1500, 1000, user="a") == [True, 0, 0, 1_000_000, 0]
    assert admit(one, 1500, 1, user="a") == [False, 0, 1000, 1_000_000, 0]
    assert admit(one, 1500, 1000, job="a") == [True, 0, 0, 1_000_000, 999_000]


def test_a_reset_makes_a_raised_rate_count_at_once(server, store):
    one = started(server, store, 1)
    assert admit(one, 0, 1000, user="a")[0]
    reloaded(one, store, 1000)
    assert not admit(one, 0, 1, user="a")[0]
    with one.http() as http:
        status, _, body = http.post("/v1/reset", {"key": "user=a", "limits": ["policy:api"]})
    assert (status, body) == (200, {"reset": 1})
    assert admit(one, 0, 1000, user="a") == [True, 0, 0, 1000, 0]
