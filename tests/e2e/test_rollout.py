"""Rolling out a limit: whom an observed limit, a candidate and a canary would deny, at every door; and that a canary
denies the same share of the users everywhere, before and after a reload and a restart.

Who is in a canary is known from tests/cases/canary.py, which shares no code with the program."""

import json
import os
import re
import subprocess
import sys
import time

from harness import DEADLINE_S, ROOT, encode, in_one_window, wait_until

sys.path.insert(0, os.path.join(ROOT, "tests", "cases"))
import canary  # noqa: E402

USERS = [f"user-{i}" for i in range(100000)]
FEW = USERS[:60]
IN_TENTH = {u for u in FEW if canary.holds("per-user", u, "10")}
POLICY = """
client-time: true
attributes: {user: header x-user}
trusted-proxies: [127.0.0.0/8]
%s
limits:
  - {name: per-user, key: user, limit: fixed-window %s, %s}
"""


def denied_of(one, users):
    """Who is denied, of many, in pipelines. The quota is 0."""
    denied = set()
    with one.resp() as r:
        for at in range(0, len(users), 500):
            part = users[at:at + 500]
            r.send(b"".join(encode("SLUICE.ADMIT", 1, "user", u) for u in part))
            denied.update(u for u in part if r.read()[0] == 0)
    return denied


def test_a_hundred_thousand_users_the_same_everywhere(server, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY % ("", "0/1m", "canary: 10% of user"))
    one, other = server(args=["-c", str(path)]), server(POLICY % ("", "0/1h", "canary: 10% of user"))
    tenth = denied_of(one, USERS)
    assert 9700 <= len(tenth) <= 10300
    assert {u for u in FEW if u in tenth} == IN_TENTH
    some = USERS[::5]
    tenth_of_some = tenth.intersection(some)
    assert denied_of(other, some) == tenth_of_some
    one.stop()
    again = server(args=["-c", str(path)])
    assert denied_of(again, some) == tenth_of_some
    path.write_text(POLICY % ("", "0/1m", "canary: 20% of user"))
    with again.resp() as r:
        assert r.call("SLUICE.RELOAD") == b"OK"
    fifth = denied_of(again, some)
    assert 3900 <= len(fifth) <= 4100 and tenth_of_some < fifth


def say(status, allowed):
    assert (status == 200) is allowed, (status, allowed)


@in_one_window(60)
def test_every_door_decides_alike(server):
    one = server(POLICY % ("", "0/1m", "canary: 10% of user"))
    assert 0 < len(IN_TENTH) < len(FEW)
    with one.resp() as r, one.http() as h:
        for user in FEW:
            free = user not in IN_TENTH
            assert r.call("SLUICE.ADMIT", 1, "user", user)[0] == free
            assert [x[:4] for x in r.call("SLUICE.EXPLAIN", 1, "user", user)] == [
                [b"per-user", b"fixed-window 0/1m", f"user={user}".encode(), 0]]
            status, headers, body = h.post("/v1/admit", {"attributes": {"user": user}})
            say(status, free)
            assert [x["observed"] for x in body["limits"]] == [free] and body["limits"][0]["allowed"] is False
            assert ("RateLimit" in dict(headers)) is not free
            explained = h.ask("GET", f"/v1/explain?user={user}")[2]["limits"]
            assert [(x["observed"], x["allowed"]) for x in explained] == [(free, False)]
            for door in ("forward", "nginx"):
                status = h.ask("GET", "/v1/auth/" + door, headers={"X-User": user, "X-Forwarded-Uri": "/"})[0]
                say(status, free)
        say(h.ask("GET", "/v1/auth/forward", headers={"X-Forwarded-Uri": "/"})[0], True)
        limits = h.ask("GET", "/v1/limits")[2]["limits"]
        assert [(x["observe"], x["canary"]) for x in limits] == [(False, "10% of user")]
        assert [x["canary"] for x in h.ask("GET", "/v1/figures")[2]["limits"]] == [None, "10% of user"]
        tops = {kind: {x["key"] for x in h.ask("GET", f"/v1/top?kind={kind}&count=100")[2]["entries"]}
                for kind in ("denied", "shadow", "candidate")}
    assert tops == {"denied": {f"user={u}" for u in IN_TENTH}, "candidate": set(),
                    "shadow": {f"user={u}" for u in FEW} - {f"user={u}" for u in IN_TENTH}}


def test_replay_denies_whom_the_server_would(sluice_bin, tmp_path):
    policy, log = tmp_path / "policy.yaml", tmp_path / "access.log"
    policy.write_text(POLICY % ("", "1/1d", "canary: 10% of user"))
    log.write_text("".join(f'192.0.2.1 - {u} [21/Nov/2026:10:00:{s:02} +0000] "GET / HTTP/1.1" 200 1\n'
                           for s in range(2) for u in FEW))
    done = subprocess.run([sluice_bin, "replay", "-c", policy, "--decisions", log], capture_output=True, text=True,
                          timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    allowed = [line.split()[0] == "1" for line in done.stdout.splitlines()]
    assert allowed == [True] * len(FEW) + [u not in IN_TENTH for u in FEW]
    told = subprocess.run([sluice_bin, "replay", "-c", policy, log], capture_output=True, text=True,
                          timeout=DEADLINE_S).stdout
    assert f"denied        {len(IN_TENTH)}," in told
    assert "per-user: fixed-window 1/1d (canary: denies 10% of user alone)" in told
    worst, shadows = (set(re.findall(r"user=\S+", part)) for part in told.split("keys that observed limits would deny"))
    assert worst == {f"user={u}" for u in IN_TENTH}
    assert len(shadows) == 10 and shadows <= {f"user={u}" for u in FEW} - worst  # --top 10


@in_one_window(60)
def test_replay_names_whom_candidates_would_deny(server, sluice_bin, tmp_path):
    """As a server lists them: by the limit's key, apart from those that are denied; at the cost that the limit has; and
    whatever a candidate says, no other figure of the replay changes."""
    plain, tried, log = tmp_path / "plain.yaml", tmp_path / "tried.yaml", tmp_path / "access.log"
    text = ("limits:\n"
            "  - {name: per-user, key: user, cost: 2, limit: sliding-log 10/1h%s}\n"
            "  - {name: everybody, key: method, limit: fixed-window 1000/1d%s}\n"
            "  - {name: held, key: user, limit: concurrency 9 lease 1h%s, optional: true}\n")
    plain.write_text(text % ("", "", ""))
    tried.write_text(text % (", candidate: sliding-log 4/1h", ", candidate: fixed-window 2000/1d",
                             ", candidate: concurrency 3 lease 1h"))
    times = {"ann": 7, "ben": 4, "cat": 2}
    log.write_text("".join(f'192.0.2.1 - {user} [21/Nov/2026:10:00:{second:02} +0000] "GET / HTTP/1.1" 200 1\n'
                           for second in range(7) for user, n in times.items() if second < n))

    def replay(policy, *words):
        done = subprocess.run([sluice_bin, "replay", "-c", policy, "--hold", "1h", *words, log], capture_output=True,
                              text=True, timeout=DEADLINE_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert replay(plain, "--decisions") == replay(tried, "--decisions")
    told = replay(tried)
    head, shadows = told.split("keys that candidates would deny\n")
    # five requests of 2 fit ann's 10, two fit the candidate's 4; and a fourth lease is above the candidate's 3
    assert re.findall(r"(\d+) +(\d+)  user=(\w+)", shadows) == [("5", "7", "ann"), ("2", "4", "ben")]
    assert re.findall(r"(\d+) +(\d+)  user=(\w+)", head) == [("2", "7", "ann")]
    rows = re.findall(r"^ +(\d+) +(\d+)  (.*)$", head.split("\nlimits\n")[1].split("\n\n")[0], re.M)
    assert rows == [("2", "13", "per-user: sliding-log 10/1h"),
                    ("7", "13", "per-user: candidate sliding-log 4/1h (denies nobody)"),
                    ("0", "13", "everybody: fixed-window 1000/1d"),
                    ("0", "13", "everybody: candidate fixed-window 2000/1d (denies nobody)"),
                    ("0", "13", "held: concurrency 9 lease 1h"),
                    ("5", "13", "held: candidate concurrency 3 lease 1h (denies nobody)")]
    without = "\n".join(line for line in head.splitlines() if "candidate" not in line).strip()
    assert replay(plain).split("\n\n13 requests")[0].strip() == without
    one = server(tried.read_text())
    with one.resp() as r:
        for second in range(7):
            for user in (u for u, n in times.items() if second < n):
                r.call("SLUICE.ADMIT", 1, "user", user, "method", "GET")
        assert sorted(x[:3] for x in r.call("SLUICE.TOP", "CANDIDATE") if x[0] == b"per-user") == [
            [b"per-user", b"user=ann", 5], [b"per-user", b"user=ben", 2]]


SHADOWS = """
log: {denials: %s, denials-per-key: 1h}
limits:
  - {name: login, key: user, limit: sliding-log 3/1h, candidate: sliding-log 1/1h}
  - {name: seen, key: user, limit: sliding-log 3/1h, observe: true}
"""


@in_one_window(60)
def test_shadows_have_names(server, sluice_bin, tmp_path):
    path = tmp_path / f"{time.monotonic_ns()}.jsonl"
    one = server(SHADOWS % path)
    with one.resp() as r, one.http() as h:
        for user, times in (("ann", 6), ("ben", 3)):
            for _ in range(times):
                r.call("SLUICE.ADMIT", 1, "user", user)
        lists = {kind: {tuple(x[:2]) for x in r.call("SLUICE.TOP", kind)} for kind in ("denied", "Shadow", "CANDIDATE")}
        assert lists == {"denied": {(b"login", b"user=ann")}, "Shadow": {(b"seen", b"user=ann")},
                         "CANDIDATE": {(b"login", b"user=ann"), (b"login", b"user=ben")}}
        status, _, body = h.ask("GET", "/v1/top?kind=shadow")
        assert status == 200 and body["kind"] == "shadow"
        assert [(x["limit"], x["named"], x["key"]) for x in body["entries"]] == [("seen", True, "user=ann")]
    wait_until(lambda: path.read_text().count("\n") >= 4, "four lines")
    lines = [json.loads(x) for x in path.read_text().splitlines()]
    assert sorted((x["limit"], x["key"], x["quota"], x["observed"], x.get("candidate")) for x in lines) == [
        ("login", "user=ann", 1, True, True), ("login", "user=ann", 3, False, None),
        ("login", "user=ben", 1, True, True), ("seen", "user=ann", 3, True, None)]
    for flag, text in (("--shadow", r"seen  .*user=ann"), ("--candidate", r"login .*user=ben")):
        done = subprocess.run([sluice_bin, "top", flag, "--once", "--server", f"127.0.0.1:{one.resp_port}"],
                              capture_output=True, text=True, timeout=DEADLINE_S)
        assert done.returncode == 0 and text.split()[0] in done.stdout and text.rsplit("*")[1] in done.stdout
    done = subprocess.run([sluice_bin, "top", "--shadow", "--near", "--once"], capture_output=True, text=True,
                          timeout=DEADLINE_S)
    assert done.returncode == 2 and "expected one of --near, --shadow and --candidate" in done.stderr


@in_one_window(60)
def test_a_flood_of_shadows_pushes_no_denial_out(server):
    one = server("limits:\n  - {name: seen, key: user, limit: fixed-window 0/1h, observe: true}\n"
                 "  - {name: real, when: {plan: x}, key: user, limit: fixed-window 0/1h}\n")
    denied_of(one, USERS[:100])
    with one.resp() as r:
        r.call("SLUICE.ADMIT", 1, "user", "ann", "plan", "x")
        assert denied_of(one, USERS[:20000]) == set()
        assert [x[:2] for x in r.call("SLUICE.TOP")] == [[b"real", b"user=ann"]]
        assert len(r.call("SLUICE.TOP", "SHADOW", "COUNT", 100)) == 100


TENANTS = """
limits:
  - name: per-tenant
    key: tenant
    limit: sliding-log 1/1h
    observe: true
    overrides:
      - {when: {tenant: acme}, observe: false}
      - {when: {tenant: big}, limit: sliding-log 2/1h, observe: false}
"""


@in_one_window(60)
def test_one_tenant_after_the_other(server):
    one = server(TENANTS)
    with one.resp() as r:
        said = {t: [r.call("SLUICE.ADMIT", 1, "tenant", t)[0] for _ in range(4)] for t in ("acme", "big", "other")}
        assert said == {"acme": [1, 0, 0, 0], "big": [1, 1, 0, 0], "other": [1, 1, 1, 1]}
        assert [x[1] for x in r.call("SLUICE.TOP", "SHADOW")] == [b"tenant=other"]
        assert {x[1] for x in r.call("SLUICE.TOP")} == {b"tenant=acme", b"tenant=big"}


def test_a_bad_canary_is_one_line_with_its_place(sluice_bin, tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("limits:\n  - {name: a, key: ip, limit: 9/1m, canary: 110% of ip}\n")
    for verb in (["lint", path], ["serve", "--check-config", "-c", path]):
        done = subprocess.run([sluice_bin, *verb], capture_output=True, text=True, timeout=DEADLINE_S)
        said = done.stdout + done.stderr
        assert done.returncode != 0 and f"{path}:2:45: " in said, said
        assert "expected a share from 0% to 100%, found '110% of ip'" in said
