"""Evidence: `--audit` judges what was admitted by the bound that is stated, and finds what was planted.

The faults are honest ones: a weaker limiter's verdicts (--judge), another client that resets counters while they are
judged. Nothing in the program is told to misbehave."""

import random
import re
import subprocess
import threading

import pytest

T = 1_700_000_000_000  # a multiple of 10 s
LIMITS = ("fixed-window 20/10s", "20/10s", "sliding-log 20/10s", "sliding-buckets 20/10s precision 1s",
          "sliding-buckets 20/10s precision 1s edge drop", "sliding-buckets 20/10s precision 1s edge weighted",
          "token-bucket 20/10s burst 5", "leaky-bucket 20/10s queue 5", "concurrency 5 lease 3s", "300/hour")
ROW = re.compile(r"^ +(\d+) +(\d+|-)  (.*), key '(.*)', up to ([-\d]+ [:.\d]+ UTC)(  EXCEEDED)?$", re.M)


@pytest.fixture
def sluice(sluice_bin, tmp_path):
    """sluice(args..., stdin=text) -> (status, stdout, stderr), in a folder of its own."""
    def run(*args, stdin=""):
        done = subprocess.run([sluice_bin, *map(str, args)], input=stdin.encode(), capture_output=True, cwd=tmp_path,
                              timeout=120, check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode()
    return run


def rows(text):
    """[(most, bound or None, limit, key, exceeded)] of an audit."""
    return [(int(most), None if bound == "-" else int(bound), limit, key, over != "")
            for most, bound, limit, key, _, over in ROW.findall(text)]


def traffic(count=20_000, keys=5, seed=7):
    chance, t, lines = random.Random(seed), T, []
    for _ in range(count):
        t += chance.choice((0, 1, 5, 40, 300))
        lines.append((t, f"k{chance.randrange(keys)}", chance.randrange(1, 4)))
    return lines


def text_of(lines):
    return "".join(f"{t} {key} {cost}\n" for t, key, cost in lines)


def most_in_a_window(charges, window_ms):
    """Of (time, cost), in order: the largest sum of any [t, t + W), which is that of any (s, s + W] as well."""
    best = total = first = 0
    for t, cost in charges:
        total += cost
        while charges[first][0] <= t - window_ms:
            total -= charges[first][1]
            first += 1
        best = max(best, total)
    return best


@pytest.mark.parametrize("limit", LIMITS)
def test_no_limit_is_above_its_bound(sluice, limit):
    status, out, _ = sluice("replay", "-", "--limit", limit, "--audit", "--hold", "1s", stdin=text_of(traffic()))
    (most, bound, name, _, over), = rows(out)
    assert status == 0 and most <= bound and not over and limit.split("/")[0] in name
    assert re.search(r"^audit: 5 counters, none above its bound$", out, re.M)


def test_the_sums_are_those_of_its_decisions(sluice):
    lines = traffic()
    for limit in ("20/10s", "token-bucket 20/10s burst 5"):
        status, out, err = sluice("replay", "-", "--limit", limit, "--audit", "--decisions", stdin=text_of(lines))
        charges = {}
        for (t, key, cost), told in zip(lines, out.splitlines()):
            if told.startswith("1 "):
                charges.setdefault(key, []).append((t, cost))
        assert status == 0 and len(out.splitlines()) == len(lines)  # the audit is on standard error
        assert rows(err)[0][0] == max(most_in_a_window(each, 10_000) for each in charges.values())


def test_a_bound_that_is_reached_is_shown(sluice):
    """100 just before a minute ends and 100 just after: 200 within 2 ms by fixed windows, 100 by the log."""
    minute = T - T % 60000 + 60000
    text = "".join(f"{minute + at} k\n" for at in [-1] * 100 + [1] * 100)
    assert rows(sluice("replay", "-", "--limit", "fixed-window 100/1m", "--audit", stdin=text)[1])[0][:2] == (200, 200)
    assert rows(sluice("replay", "-", "--limit", "sliding-log 100/1m", "--audit", stdin=text)[1])[0][:2] == (100, 100)
    assert rows(sluice("replay", "-", "--limit", "100/1m", "--audit", stdin=text)[1])[0][:2] == (100, 199)


def test_a_weaker_limiters_verdicts_are_found_out(sluice, tmp_path):
    """The planted over-admission: fixed windows decided, and a log was promised."""
    minute = T - T % 60000 + 60000
    text = "".join(f"{minute + at} {key}\n" for key in "ab" for at in [-1] * 100 + [1] * 100)
    (tmp_path / "log.ops").write_text(text)
    (tmp_path / "theirs").write_text(sluice("replay", "log.ops", "--limit", "fixed-window 100/1m", "--decisions")[1])
    status, out, _ = sluice("replay", "log.ops", "--limit", "sliding-log 100/1m", "--judge", "theirs")
    assert status == 1 and rows(out) == [(200, 100, "sliding-log 100/1m", "a", True)]
    assert re.search(r"^audit: EXCEEDED by 2 of 2 counters$", out, re.M)
    assert "\nallowed       400, 100.0 %\n" in out
    assert sluice("replay", "log.ops", "--limit", "fixed-window 100/1m", "--judge", "theirs")[0] == 0
    # one too many, and no more: 101 in the window that a minute is
    (tmp_path / "theirs").write_text("1\n" * 101 + "0\n" * 299)
    assert sluice("replay", "log.ops", "--limit", "sliding-log 100/1m", "--judge", "theirs")[0] == 1
    (tmp_path / "theirs").write_text("1 0 0 1\n" * 100 + "0\n" * 300)
    assert sluice("replay", "log.ops", "--limit", "sliding-log 100/1m", "--judge", "theirs")[0] == 0


def test_verdicts_that_are_no_answer_are_refused(sluice, tmp_path):
    text = "".join(f"{T} k\n" for _ in range(3))
    for verdicts, said in (("1\n1\n", "it ends after 2 verdicts"), ("1\n" * 4, "more verdicts than requests"),
                           ("1\n2\n1\n", "--judge v:2: expected 1 or 0"), ("1\n\n1\n", "--judge v:2: expected 1 or 0"),
                           ("10\n1\n1\n", "--judge v:1: expected 1 or 0")):
        (tmp_path / "v").write_text(verdicts)
        status, _, err = sluice("replay", "-", "--limit", "1/1s", "--judge", "v", stdin=text)
        assert status == 2 and said in err
    status, _, err = sluice("replay", "-", "--limit", "1/1s", "--judge", "gone", stdin=text)
    assert (status, err) == (2, "sluice replay: --judge gone: No such file or directory\n")


def test_what_an_audit_does_not_go_with(sluice, tmp_path):
    (tmp_path / "p.yaml").write_text("limits: [{name: a, key: key, limit: 5/1m, reserve: true}]\n")
    for args, said in ((("--limit", "1/1s", "--audit", "--estimate", "5"), "--audit does not go with --estimate"),
                       (("--limit", "1/1s", "--judge", "v", "--upto"), "leave out --upto"),
                       (("--limit", "1/1s", "--judge", "v", "--decisions"), "leave out --decisions"),
                       (("-c", "p.yaml", "--audit"), "--audit does not go with reserve of a of p.yaml")):
        status, _, err = sluice("replay", "-", *args, stdin=f"{T} k\n")
        assert status == 2 and said in err, err


def test_a_policy_is_judged_limit_by_limit(sluice, tmp_path):
    (tmp_path / "p.yaml").write_text("""
limits:
  - {name: each, key: key, limit: sliding-log 5/10s, overrides: [{when: {key: k1}, limit: sliding-log 9/10s}]}
  - {name: seen, key: key, limit: sliding-log 2/10s, observe: true}
  - {name: none, key: user, limit: 1/1h, optional: true}
""")
    status, out, _ = sluice("replay", "-", "-c", "p.yaml", "--audit", stdin=text_of(traffic()))
    found = {limit.split(":")[0]: (most, bound, over) for most, bound, limit, _, over in rows(out)}
    assert status == 0 and set(found) == {"each", "seen"}
    assert found["each"] in ((5, 5, False), (9, 9, False)) and found["seen"] == (2, 2, False)


def test_members_and_parts_are_judged(sluice):
    text = "".join(f"{T + i * 100} k{i % 7}\n" for i in range(500))
    log = '1.2.3.{} - u [14/Nov/2023:22:13:{:02} +0000] "GET / HTTP/1.1" 200 1\n'
    access = "".join(log.format(i % 9, i % 60) for i in range(60))
    assert rows(sluice("replay", "-", "--limit", "distinct 3/1m", "--key", "user", "--member", "ip", "--audit",
                       stdin=access)[1])[0][:2] == (3, 3)
    assert rows(sluice("replay", "-", "--limit", "sliding-log 10/1m", "--upto", "--audit",
                       stdin=text.replace("\n", " 7\n"))[1])[0][:2] == (10, 10)


# of docs/limits.md, "How much less can be admitted": charges in ms after a minute began, an instant, the largest cost
# that is admitted then; a true log has room for 100 at each of these instants
M = T - T % 3600000 + 3600000
LESS = [
    ("fixed-window 100/1m", [(0, 100)], 60000, 100),
    ("100/1m", [(0, 100)], 60001, 0), ("100/1m", [(0, 100)], 60599, 0), ("100/1m", [(0, 100)], 60600, 1),
    ("100/1m", [(0, 100)], 90000, 50), ("100/1m", [(0, 100)], 120000, 100),
    ("sliding-buckets 100/1m precision 1s", [(0, 100)], 60999, 0),
    ("sliding-buckets 100/1m precision 1s", [(0, 100)], 61000, 100),
    ("sliding-buckets 100/1m precision 1s edge drop", [(0, 100)], 60000, 100),
    ("sliding-buckets 100/1m precision 1s edge weighted", [(0, 100)], 60500, 50),
    ("sliding-buckets 100/1m precision 1s edge weighted", [(0, 100)], 61000, 100),
    ("sliding-log 100/1m", [(0, 100)], 60000, 100),
    ("token-bucket 100/1m burst 20", [], 0, 20), ("token-bucket 100/1m", [(0, 100)], 60000, 100),
    ("leaky-bucket 100/1m queue 19", [], 0, 20), ("leaky-bucket 100/1m queue 99", [(0, 100)], 60000, 100),
]


@pytest.mark.parametrize("limit,charges,at,most", LESS)
def test_how_much_less_than_a_log(sluice, limit, charges, at, most):
    spent = "".join(f"{M + t} k {cost}\n" for t, cost in charges)
    for cost, allowed in ((most, "1"), (most + 1, "0")):
        out = sluice("replay", "-", "--limit", limit, "--decisions", stdin=f"{spent}{M + at} k {cost}\n")[1]
        assert out.splitlines()[-1][0] == allowed, (limit, at, cost)


# ---- a server that runs --------------------------------------------------------------------------------------------


def figures(text):
    """{name: count} of what a server was driven with."""
    return {name: int(count) for name, count in re.findall(r"^(requests|allowed|denied|late) +(\d+)", text, re.M)}


def drive(sluice, one, *args):
    return sluice("bench", "--server", f"127.0.0.1:{one.resp_port}", *args)


def test_a_server_is_driven_and_judged(sluice, server):
    status, out, err = drive(sluice, server(), "--limit", "sliding-log 40/1s", "--limit", "100/10s", "--keys", 4,
                             "--rate", 500, "--burst", 10, "--duration", "3s", "--clients", 4, "--audit")
    told, found = figures(out), rows(out)
    assert (status, err) == (0, "") and told["requests"] == 1500 == told["allowed"] + told["denied"]
    assert [(bound, over) for _, bound, _, _, over in found] == [(40, False), (199, False)]
    assert 0 < found[0][0] <= 40 and 0 < found[1][0] <= 199 and told["denied"] > 0
    assert re.search(r"^latency +p50 [\d.]+ ms, .*longest [\d.]+ ms$", out, re.M)


def test_what_another_client_frees_is_found_out(sluice, server):
    """The planted over-admission: somebody resets the keys while they are counted. The log does what it is told, and
    still more than 5 pass in ten seconds."""
    one, done = server(), threading.Event()

    def reset():
        with one.resp() as peer:
            while not done.wait(0.02):
                peer.call("SLUICE.RESET", "bench:00000000000001", "sliding-log 5/10s")

    thief = threading.Thread(target=reset)
    thief.start()
    try:
        args = ("--limit", "sliding-log 5/10s", "--keys", 3, "--rate", 300, "--duration", "2s", "--audit")
        status, out, _ = drive(sluice, one, *args)
    finally:
        done.set()
        thief.join()
    (most, bound, limit, key, over), = rows(out)
    assert (status, bound, limit, key, over) == (1, 5, "sliding-log 5/10s", "bench:00000000000001", True) and most > 5
    assert re.search(r"^audit: EXCEEDED by 1 of 3 counters$", out, re.M)


def test_skew_and_think_time(sluice, server):
    one = server()
    out = drive(sluice, one, "--limit", "1M/1h", "--keys", 625, "--skew", 90, "--rate", 2000, "--burst", 100,
                "--duration", "1s", "--audit")[1]
    hottest = rows(out)[0][0]  # of 625 keys five times five: the first gets 0.9^4 of all
    assert 0.55 < hottest / figures(out)["requests"] < 0.75
    asked = figures(drive(sluice, one, "--clients", 4, "--think", "100ms", "--duration", "1s")[1])["requests"]
    assert 4 <= asked <= 44  # of four clients each at most ten a second


def test_a_server_that_refuses_or_is_not_there(sluice, server):
    one = server()
    assert drive(sluice, one, "--limit", "distinct 5/1m")[0] == 2
    status, _, err = sluice("bench", "--server", "127.0.0.1:1", "--duration", "1s")
    assert (status, err) == (2, "sluice bench: 127.0.0.1:1: connecting: Connection refused\n")
    status, _, err = sluice("bench", "--rate", 5)
    assert status == 2 and "--rate is for a server: give --server ADDR as well" in err
    status, _, err = sluice("bench", "--server", f"127.0.0.1:{one.http_port}", "--duration", "1s")
    assert status == 2 and "expected integers of a Sluice server" in err


def test_the_programs_own_memory_is_judged(sluice):
    status, out, _ = sluice("bench", "--keys", 100, "--rounds", 1, "--audit")
    found = rows(out)
    assert status == 0 and len(found) >= 6 and all(most <= bound for most, bound, *_ in found)
    assert all(2 * most >= bound for most, bound, *_ in found)  # it was asked for more than was admitted
