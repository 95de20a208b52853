"""A candidate quota on a running server: it is counted, and nobody sees anything else of it. Limits of the policy by
name, and what RESET forgets of one."""

import pytest
from harness import RespError, in_one_window

POLICY = """
limits:
  - name: tight
    key: user
    limit: sliding-log 5/1h
    %s
"""


def answers(one, count):
    with one.resp() as r, one.http() as h:
        return [r.call("SLUICE.ADMIT", 1, "user", f"u{i % 3}")[:4] for i in range(count)], \
            [(status, body["allowed"], body["remaining"], len(body["limits"])) for status, _, body in
             (h.post("/v1/admit", {"attributes": {"user": f"u{i % 3}"}}) for i in range(count))]


def row(one, name):
    with one.http() as h:
        return next(x for x in h.ask("GET", "/v1/figures")[2]["limits"] if x["name"] == name)


@pytest.mark.parametrize("candidate, denied", [("sliding-log 2/1h", 9 + 12), ("sliding-log 50/1h", 0)])
def test_a_candidate_is_counted_and_changes_nothing(server, candidate, denied):
    plain, tried = server(POLICY % ""), server(POLICY % f"candidate: {candidate}")
    first, second = answers(plain, 12), answers(tried, 12)
    assert [[a[:3] for a in part] for part in first] == [[a[:3] for a in part] for part in second]
    assert [a[3] for a in second[1]] == [1] * 12  # no candidate is shown among a decision's limits
    figures = row(tried, "tight")
    # each user is admitted 4 times by RESP, once more by HTTP; from the third on 2 an hour would deny
    assert figures["allowed"] == 15 and figures["denied"] == 9
    assert figures["candidate_denied"] == (18 if denied else 0)
    assert row(plain, "tight")["candidate_denied"] == 0


NAMED = """
limits:
  - name: per-user
    key: user
    limit: 10/1h
    overrides:
      - {when: {plan: pro}, limit: sliding-log 100/1h}
      - {when: {plan: free}, limit: sliding-window 3/1h}
  - {name: search, key: user, limit: 5/1h}
"""


@in_one_window(60)
def test_a_limit_by_its_name_keeps_its_own_counter(server):
    one = server(NAMED)
    with one.resp() as r:
        assert r.call("SLUICE.ADMIT", 4, "user", "ann")[:3] == [1, 5, 1]
        assert r.call("SLUICE.PEEK", "user=ann", 1, "policy:per-user")[:3] == [1, 10, 6]
        assert r.call("SLUICE.CHECK", "user=ann", 2, "policy:per-user", "3/1m")[:3] == [1, 3, 1]
        assert r.call("SLUICE.REFUND", "user=ann", 6, "policy:per-user")[:3] == [1, 10, 10]
        assert r.call("SLUICE.PEEK", "user=ann", 1, "10/1h")[:3] == [1, 10, 10]  # the same notation is another counter
        for _ in range(3):
            r.call("SLUICE.CHECK", "user=ann", 9, "policy:per-user")
        assert row(one, "per-user")["denied"] == 2
        assert r.call("SLUICE.TOP")[0][:3] == [b"per-user", b"user=ann", 2]


def test_reset_by_name_forgets_every_counter_of_the_key(server):
    with server(NAMED).resp() as r:
        for plan in ("pro", "free", "none"):
            assert r.call("SLUICE.ADMIT", 1, "user", "ann", "plan", plan)[0] == 1
        assert r.call("SLUICE.RESET", "user=ann", "policy:per-user") == 2  # the log, and the window that two share
        assert r.call("SLUICE.ADMIT", 1, "user", "ann", "plan", "pro")[0] == 1
        assert r.call("SLUICE.EXPLAIN", 1, "user", "ann", "plan", "pro")[0][5] == 99
        assert r.call("SLUICE.PEEK", "user=ann", 1, "policy:per-user")[2] == 10


@pytest.mark.parametrize("name, says", [
    ("per-usr", "the policy has no limit 'per-usr': did you mean per-user?"),
    ("zzz", "the policy has no limit 'zzz': it has per-user, search"), ("", "column 1")])
def test_an_unknown_name_is_refused(server, name, says):
    with server(NAMED).resp() as r:
        for command in ("CHECK", "PEEK", "REFUND"):
            with pytest.raises(RespError, match="limit 2.*" + says.replace("?", r"\?")):
                r.call("SLUICE." + command, "k", 1, "1/1m", "policy:" + name)
        assert r.call("SLUICE.PEEK", "k", 1, "1/1m")[:3] == [1, 1, 1]


def test_names_and_notation_have_sixteen_places_together(server):
    overrides = "".join(f"      - {{when: {{plan: p{i}}}, limit: 9/{i}h}}\n" for i in range(2, 22))
    policy = NAMED.replace("      - {when: {plan: free}, limit: sliding-window 3/1h}\n", overrides)
    with server(policy).resp() as r:
        with pytest.raises(RespError, match="at most 16 in one request, and 'policy:per-user' with its overrides"):
            r.call("SLUICE.RESET", "user=ann", "policy:per-user")
        with pytest.raises(RespError, match="at most 16"):
            r.call("SLUICE.CHECK", "user=ann", 1, *["policy:search"] * 17)
        assert r.call("SLUICE.CHECK", "user=ann", 1, *["policy:search"] * 16)[:3] == [1, 5, 4]
