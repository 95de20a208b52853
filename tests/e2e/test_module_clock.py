"""Steps of the wall clock on the Redis host (steered_clock.c): what they change of decisions, and what they do not.

The module decides by CLOCK_BOOTTIME, anchored to wall time when it is loaded, so a step neither frees nor locks
anybody. Redis expires keys by the wall clock, though: a leap beyond the expiry of a key takes the key with it. That is
Redis', and it is held to here: it is all that a step can do, and it forgets, it never locks.
"""

import pytest

from harness import RespError
from redis_world import MANY_YEARS_MS, Clock, replicate, synced

HOUR = 3_600_000
LIMITS = ["fixed-window 5/1d", "5/1h", "sliding-log 5/1h", "sliding-buckets 5/1h precision 1m",
          "token-bucket 5/1h burst 5", "leaky-bucket 5/1h queue 4"]


class Host:
    """Time since the start of the host goes on by pass_ms(); the wall is off by what step_ms() adds."""

    def __init__(self, redises):
        self.clock, self.boot, self.wall = Clock(), MANY_YEARS_MS, MANY_YEARS_MS
        self.set()
        self.redis = redises(module=(), clock=self.clock)
        self.client = self.redis.resp()

    def set(self):
        self.clock.stand_all(self.boot)
        self.clock.stand(self.wall)

    def pass_ms(self, ms):
        self.boot, self.wall = self.boot + ms, self.wall + ms
        self.set()

    def step_ms(self, ms):
        self.wall += ms
        self.set()

    def ask(self, verb, key, *rest):
        return self.client.call("SLUICE." + verb, key, *rest)


@pytest.fixture
def host(redises):
    one = Host(redises)
    yield one
    one.client.close()
    one.redis.end()
    one.clock.close()


def test_a_small_step_either_way_changes_no_decision(host):
    """Two hosts' worth of keys: one lives through steps of up to 10 min, the other does not."""
    def live(steps):
        answers = []
        for n in range(60):
            host.pass_ms(60_000)
            host.step_ms(steps[n % len(steps)])
            for at, limit in enumerate(LIMITS):
                answers.append(host.ask("CHECK", f"{len(steps)}:{at}", 1 + n % 2, "EACH", limit))
        return answers
    start = host.boot
    calm = live([0])
    host.client.call("FLUSHALL")
    # the same instants of a later day
    host.pass_ms(2 * 24 * HOUR - (host.boot - start))
    assert live([600_000, -600_000, -300_000, 0, 300_000]) == calm
    assert 0 in {one[0][0] for one in calm} and 1 in {one[0][0] for one in calm}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_step_back_locks_nobody(host, limit):
    assert host.ask("CHECK", "k", 5, limit)[:3] == [1, 5, 0]
    wait = host.ask("CHECK", "k", 5, limit)[3]
    host.step_ms(-30 * 24 * HOUR)
    assert host.ask("CHECK", "k", 5, limit)[:4] == [0, 5, 0, wait]
    host.pass_ms(wait - 1)
    assert host.ask("CHECK", "k", 5, limit)[:4] == [0, 5, host.ask("PEEK", "k", 5, limit)[2], 1]
    host.pass_ms(1)
    assert host.ask("CHECK", "k", 5, limit)[:3] == [1, 5, 0]
    assert host.ask("CHECK", "new", 5, limit)[:3] == [1, 5, 0]
    assert host.client.call("PTTL", "new") <= 2 * 24 * HOUR  # it is not kept for a month


@pytest.mark.parametrize("limit", LIMITS)
def test_a_step_ahead_frees_nobody_whose_key_is_there(host, limit):
    assert host.ask("CHECK", "k", 5, limit)[:3] == [1, 5, 0]
    wait = host.ask("CHECK", "k", 5, limit)[3]
    left = host.client.call("PTTL", "k")
    host.step_ms(left - 1000)
    assert host.ask("CHECK", "k", 5, limit)[:4] == [0, 5, 0, wait]
    # what is charged behind the step is kept its full time again
    host.ask("REFUND", "k", 1, limit)
    assert host.ask("CHECK", "k", 1, limit)[0] == 1
    if limit != "fixed-window 5/1d" and limit != "5/1h":
        assert host.client.call("PTTL", "k") >= wait


@pytest.mark.parametrize("limit", LIMITS)
def test_a_leap_beyond_the_expiry_forgets(host, limit):
    """Redis' own: documented in docs/redis.md."""
    assert host.ask("CHECK", "k", 5, limit)[:3] == [1, 5, 0]
    host.step_ms(host.client.call("PTTL", "k") + 1)
    assert host.client.call("EXISTS", "k") == 0
    assert host.ask("CHECK", "k", 5, limit)[:3] == [1, 5, 0]
    assert host.ask("CHECK", "k", 5, limit)[:3] == [0, 5, 0]


def test_a_step_ahead_shortens_a_life_by_as_much(host):
    """Redis' own, too: a key that had an hour to live, the wall ten minutes ahead, is forgotten ten minutes early."""
    assert host.ask("CHECK", "k", 5, "sliding-log 5/1h")[:3] == [1, 5, 0]
    host.step_ms(600_000)
    host.pass_ms(HOUR - 600_000)
    assert host.ask("CHECK", "k", 1, "sliding-log 5/1h")[:4] == [0, 5, 0, 600_000]
    host.pass_ms(2)
    assert host.ask("CHECK", "k", 1, "sliding-log 5/1h")[:3] == [1, 5, 4]


def test_holds_and_leases_go_by_the_same_clock(host):
    assert host.ask("HOLD", "k", 2, "a", 10_000, "sliding-log 5/1h")[2] == 3
    assert host.ask("LEASE", "k", "b", 20_000, 0, 2, "sliding-log 5/1h")[0] == 2
    host.step_ms(-24 * HOUR)
    assert host.ask("PEEK", "k", 1, "sliding-log 5/1h")[2] == 1
    host.step_ms(24 * HOUR)
    host.pass_ms(9_999)
    assert host.ask("PEEK", "k", 1, "sliding-log 5/1h")[2] == 1
    host.pass_ms(1)
    assert host.ask("PEEK", "k", 1, "sliding-log 5/1h")[2] == 3
    host.step_ms(-600_000)
    assert host.ask("CANCEL", "k", "a", "sliding-log 5/1h") == 0
    host.pass_ms(10_000 + HOUR - 1)  # the lease was charged at its end
    assert host.ask("PEEK", "k", 1, "sliding-log 5/1h")[2] == 3
    host.pass_ms(1)
    assert host.ask("PEEK", "k", 1, "sliding-log 5/1h")[2] == 5


def test_a_restart_takes_the_clock_anew(host):
    """The anchor is taken when the module is loaded: a wall clock that was set meanwhile is the new time. A counter's
    own clock never runs back."""
    host.client.call("CONFIG", "SET", "save", "3600 1")
    assert host.ask("CHECK", "k", 5, "sliding-log 5/1h")[:3] == [1, 5, 0]
    host.client.call("SAVE")
    host.step_ms(-600_000)
    host.redis.restart()
    host.client = host.redis.resp()
    assert host.ask("CHECK", "k", 1, "sliding-log 5/1h")[:4] == [0, 5, 0, HOUR]
    host.step_ms(600_000)
    host.redis.restart()
    host.client = host.redis.resp()
    host.pass_ms(HOUR - 1)
    assert host.ask("CHECK", "k", 1, "sliding-log 5/1h")[:4] == [0, 5, 0, 1]


def test_a_replica_whose_wall_clock_is_off(redises, host):
    """What it is sent reads no clock. Promoted, it goes on by its own."""
    late = Clock()
    late.stand_all(MANY_YEARS_MS - 60_000)
    replica = redises(module=(), clock=late)
    replicate(host.redis, replica)
    assert host.ask("CHECK", "k", 5, "sliding-log 5/1h")[:3] == [1, 5, 0]
    synced(host.redis, replica)
    with replica.resp() as other:
        assert other.call("PEXPIRETIME", "k") == host.client.call("PEXPIRETIME", "k")
        assert other.call("SLUICE.PEEK", "k", 1, "sliding-log 5/1h")[:4] == [0, 5, 0, HOUR]
        with pytest.raises(RespError):
            other.call("SLUICE.CHECK", "k", 1, "sliding-log 5/1h")
        other.call("REPLICAOF", "NO", "ONE")
        late.stand_all(MANY_YEARS_MS + HOUR - 1)
        assert other.call("SLUICE.CHECK", "k", 1, "sliding-log 5/1h")[:4] == [0, 5, 0, 1]
        late.stand_all(MANY_YEARS_MS + HOUR)
        assert other.call("SLUICE.CHECK", "k", 1, "sliding-log 5/1h")[:3] == [1, 5, 4]
    replica.end()
    late.close()
