"""Escalation through a real server: a client that knocks all day, one that behaves again, exactly as written, with the
server killed and started again in the middle. Instants are set by the test (client-time), so a day takes seconds."""

import os
import signal

import pytest

from harness import DEADLINE_S

NOW = 1728000000000
SECOND, MINUTE, HOUR = 1000, 60000, 3600000

POLICY = """
client-time: true
store: {file: %s, memory: 4MiB}
limits:
  - name: login
    key: user
    limit: sliding-log 5/1m
    penalty: %s
"""
# As people write it, and as YAML wants it.
FORMS = ["[1m, 10m, 1h] after 3 denials in 1m", '"[1m, 10m, 1h] after 3 denials in 1m"']


class Clerk:
    """Asks a server that is killed and started again now and then, and keeps what a client was told."""

    def __init__(self, server, path, form):
        self.server, self.policy = server, POLICY % (path, form)
        self.one = server(policy=self.policy)
        self.http = self.one.http()

    def restart(self):
        self.http.close()
        self.one.process.send_signal(signal.SIGKILL)
        assert self.one.process.wait(DEADLINE_S) == -signal.SIGKILL
        self.one = self.server(policy=self.policy)
        self.http = self.one.http()

    def ask(self, at, user="mallory", **more):
        _, _, body = self.http.post("/v1/admit", {"attributes": {"user": user}, "at": at, **more})
        return body


@pytest.fixture(params=FORMS, ids=["as-people-write-it", "quoted"])
def clerk(server, tmp_path, request):
    one = Clerk(server, os.path.join(tmp_path, "counters"), request.param)
    yield one
    one.http.close()


def use_up_and_be_denied(clerk, at, times, user="mallory"):
    for _ in range(5):
        assert clerk.ask(at, user)["allowed"]
    for _ in range(times):
        answer = clerk.ask(at, user)
        assert not answer["allowed"]
    return answer


def expect_shut_out(clerk, begin, length, restart=False):
    """From `begin` for exactly so long; what is asked meanwhile prolongs nothing."""
    for step in range(1, 8):
        answer = clerk.ask(begin + step * length // 8)
        assert not answer["allowed"] and answer["remaining"] == 0
        assert answer["retry_after_ms"] == length - step * length // 8
        if restart and step == 4:
            clerk.restart()
    assert clerk.ask(begin + length - 1, peek=True)["retry_after_ms"] == 1
    assert clerk.ask(begin + length, peek=True)["allowed"] == (length >= MINUTE)


def test_each_shut_out_is_longer_and_the_last_one_repeats(clerk):
    at = NOW
    for number, length in enumerate([MINUTE, 10 * MINUTE, HOUR, HOUR]):
        answer = use_up_and_be_denied(clerk, at, 3)
        assert answer["retry_after_ms"] == length
        expect_shut_out(clerk, at, length, restart=number == 1)
        at += length + MINUTE  # the window of the limit itself is over, too


def test_who_behaves_for_the_longest_penalty_is_forgiven(clerk):
    answer = use_up_and_be_denied(clerk, NOW, 3)
    assert answer["retry_after_ms"] == MINUTE
    clerk.restart()
    answer = use_up_and_be_denied(clerk, NOW + 2 * MINUTE, 3)
    assert answer["retry_after_ms"] == 10 * MINUTE
    quiet = NOW + 12 * MINUTE + HOUR
    answer = use_up_and_be_denied(clerk, quiet - 1, 3)  # one millisecond too early: not forgiven
    assert answer["retry_after_ms"] == HOUR
    forgiven = quiet - 1 + HOUR + HOUR
    assert use_up_and_be_denied(clerk, forgiven, 3)["retry_after_ms"] == MINUTE


def test_two_denials_in_a_minute_are_no_reason(clerk):
    for minute in range(0, 30, 2):
        answer = use_up_and_be_denied(clerk, NOW + minute * MINUTE, 2)
        assert answer["retry_after_ms"] == MINUTE
        assert clerk.ask(NOW + (minute + 1) * MINUTE, peek=True)["allowed"]


def test_a_client_that_knocks_all_day_gets_through_as_seldom_as_written(clerk):
    """Every 7 seconds for a day. A twin of a few lines says what each knock must be answered."""
    admitted, denials, until, level, shut_outs = [], [], 0, 0, []
    for knock in range(24 * HOUR // (7 * SECOND)):
        t = NOW + knock * 7 * SECOND
        if knock == 6000:
            clerk.restart()
        admitted = [s for s in admitted if s + MINUTE > t]
        denials = [s for s in denials if s + MINUTE > t]
        answer = clerk.ask(t)
        if t < until:
            assert not answer["allowed"], knock
            wait = max(until - t, admitted[0] + MINUTE - t if len(admitted) == 5 else 0)
            assert answer["retry_after_ms"] == wait, knock
        elif len(admitted) < 5:
            assert answer["allowed"], knock
            admitted.append(t)
        else:
            assert not answer["allowed"], knock
            denials.append(t)
            if len(denials) == 3:
                length = [MINUTE, 10 * MINUTE, HOUR][min(level, 2)]
                until, level, denials = t + length, level + 1, []
                shut_outs.append(length)
            wait = max(until - t, admitted[0] + MINUTE - t)
            assert answer["retry_after_ms"] == wait, knock
    assert shut_outs[:3] == [MINUTE, 10 * MINUTE, HOUR] and len(shut_outs) > 20
    print(f"shut out {len(shut_outs)} times, {sum(shut_outs) / 24 / HOUR:.1%} of the day")


def test_a_client_that_storms_all_day_is_shut_out_nearly_all_of_it(clerk):
    """Twice a second for a day, as far as it is not told to wait: what it is told is kept."""
    t, admitted, told = NOW, 0, 0
    while t < NOW + 24 * HOUR:
        answer = clerk.ask(t)
        if answer["allowed"]:
            admitted += 1
            t += 500
        elif answer["retry_after_ms"] >= MINUTE:
            told += 1
            assert clerk.ask(t + answer["retry_after_ms"] - 1, peek=True)["allowed"] is False
            t += answer["retry_after_ms"]
        else:
            t += 500
    # 1 m, 10 m, then an hour each: 5 admitted between them
    assert told <= 26 and admitted <= 26 * 5 + 10, (told, admitted)


def test_explain_shows_it_and_reset_lifts_it(clerk):
    use_up_and_be_denied(clerk, NOW, 3)
    status, _, body = clerk.http.ask("GET", "/v1/explain?user=mallory")
    assert status == 200 and "penalty" in str(body)
    assert clerk.ask(NOW + 1)["allowed"] is False
    status, _, body = clerk.http.post("/v1/reset", {"key": "user=mallory", "limits": ["policy:login"]})
    assert (status, body) == (200, {"reset": 1})
    assert clerk.ask(NOW + 2)["allowed"]
