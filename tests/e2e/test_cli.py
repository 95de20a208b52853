"""The command line, as a shell meets it: what is printed where, the exit status, and files of every kind.

The real traffic of ../shared/data, beside the repository, is replayed where it is there; small generated logs say the
same of every promise, so nothing hangs on it."""

import gzip
import json
import lzma
import os
import pty
import random
import re
import select
import socket
import subprocess
import threading

import pytest

from harness import DEADLINE_S, ROOT

DATA = os.path.join(ROOT, "..", "shared", "data")


@pytest.fixture
def sluice(sluice_bin, tmp_path):
    """Runs the program in an empty folder: sluice(args..., stdin=bytes) -> (status, stdout, stderr)."""
    def run(*args, stdin=b"", env=None):
        done = subprocess.run([sluice_bin, *map(str, args)], input=stdin, capture_output=True,
                              cwd=tmp_path, timeout=120,
                              env={**os.environ, **(env or {})})
        return done.returncode, done.stdout.decode("utf-8", "backslashreplace"), done.stderr.decode()
    return run


def data(name):
    path = os.path.join(DATA, name)
    if not os.path.exists(path):
        pytest.skip(f"{name} is not beside the repository")
    return path


def counts(text):
    """requests, allowed, denied, keys limited, of a summary; its lines and its last sentence must agree."""
    found = []
    for name in ("requests", "allowed", "denied", "keys limited"):
        found.append(int(re.search(rf"^{name} +(\d+)", text, re.M)[1]))
    last = re.fullmatch(r"(\d+) requests: (\d+) allowed, (\d+) denied, (\d+) keys? limited", text.splitlines()[-1])
    assert [int(n) for n in last.groups()] == found
    assert found[0] == found[1] + found[2]
    return tuple(found)


def worst(text):
    """The table of the worst keys: [(key, denied, requests)]."""
    rows = text.split("worst keys\n", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    return [(key, int(denied), int(requests)) for denied, requests, key in (row.split(None, 2) for row in rows)]


def ops(*lines):
    return "".join(line + "\n" for line in lines).encode()


# ---- real traffic ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("limit, allowed, denied, keys", [
    ("sliding-log 100/10s", 16348, 33126, 3),
    ("100/10s", 16372, 33102, 3),
    ("sliding-buckets 100/10s precision 1s edge count", 16179, 33295, 3),
    ("token-bucket 100/10s burst 100", 16757, 32717, 2),
])
def test_tls_clients(sluice, limit, allowed, denied, keys):
    path = data("tls-clients.ops.xz")
    with lzma.open(path) as f:
        status, out, err = sluice("replay", "--format", "ops", "--limit", limit, "-", stdin=f.read())
    assert (status, err) == (0, "")
    assert counts(out) == (49474, allowed, denied, keys)
    assert sluice("replay", path, "--limit", limit) == (0, out, "")


def test_apache_names_the_worst_clients(sluice):
    status, out, err = sluice("replay", data("apache.log.xz"), "--limit", "sliding-log 20/1m", "--key", "ip")
    assert (status, err) == (0, "")
    assert counts(out)[0] == 10000
    assert worst(out)[0][0] == "130.237.218.86" and len(worst(out)) == 10
    assert "unreadable    0 lines" in out and "of 1753" in out


def test_llm_tokens_cost_what_they_say(sluice):
    path = data("llm-tokens.ops.xz")
    with lzma.open(path, "rt") as f:
        lines = [line.split() for line in f]
    status, out, _ = sluice("replay", path, "--limit", "fixed-window 1M/1h", "--decisions")
    spent, want = {}, []
    for ms, _, cost in lines:
        hour, cost = int(ms) // 3600000, int(cost)
        fits = spent.get(hour, 0) + cost <= 1000000
        spent[hour] = spent.get(hour, 0) + (cost if fits else 0)
        want.append(("1" if fits else "0") + " " + str(1000000 - spent[hour]))
    assert status == 0
    assert [line.rsplit(" ", 2)[0] for line in out.splitlines()] == want


# ---- deciding --------------------------------------------------------------------------------------------------------

class LogTwin:
    """sliding-log Q/W of contract section 3, on whole milliseconds, by adding everything up each time."""

    def __init__(self, quota, window):
        self.quota, self.window, self.charges = quota, window, {}

    def decide(self, ms, key, cost):
        charges = self.charges.setdefault(key, [])
        now = max([ms] + [at for at, _ in charges])
        live = sorted((at, c) for at, c in charges if at > now - self.window)
        held = sum(c for _, c in live)
        allowed = cost == 0 or held + cost <= self.quota
        retry = 0
        if allowed and cost:
            charges.append((now, cost))
            live.append((now, cost))
            held += cost
        elif not allowed:
            retry = -1
            if cost <= self.quota:
                for at, c in live:
                    held -= c
                    if held + cost <= self.quota:
                        retry = at + self.window - now
                        break
                held = sum(c for _, c in live)
        reset = max([at for at, _ in live], default=now - self.window) + self.window - now
        return f"{int(allowed)} {self.quota - held} {retry} {reset}"


def generated(seed, count=4000):
    """Random traffic that goes back in time now and then."""
    dice, ms, lines = random.Random(seed), 1_700_000_000_000, []
    for _ in range(count):
        ms += dice.choice((0, 0, 1, 7, 100, 2500, -300))
        lines.append((ms, "k%d" % min(dice.randrange(9), dice.randrange(9)), dice.choice((0, 1, 1, 1, 2, 5, 10, 11))))
    return lines


@pytest.mark.parametrize("in_order", [False, True])
def test_decisions_equal_the_twin(sluice, in_order):
    lines, twin = generated(20260), LogTwin(10, 5000)
    text = ops(*(f"{ms} {key} {cost}" for ms, key, cost in lines))
    asked = sorted(lines, key=lambda line: line[0]) if in_order else lines  # sorted() is stable, as --sort is
    want = [twin.decide(*line) for line in asked]
    status, out, err = sluice("replay", "-", "--limit", "sliding-log 10/5s", "--decisions",
                              *(["--sort"] if in_order else []), stdin=text)
    assert status == 0
    assert out.splitlines() == want
    assert any(line.startswith("0") for line in want) and any(" -1 " in line for line in want)
    assert err.splitlines()[-1].startswith(f"{len(lines)} requests: ")


def test_decisions_of_the_contract(sluice):
    assert sluice("replay", "-", "--limit", "sliding-log 100/1m", "--decisions", stdin=b"1700000000000 k\n")[1] == \
        "1 99 0 60000\n"
    # windows are aligned to the epoch; a cost above the quota never comes through
    assert sluice("replay", "-", "--limit", "fixed-window 2/1s", "--decisions",
                  stdin=ops("0 k", "1 k", "2 k", "3 k 3"))[1] \
        == "1 1 0 1000\n1 0 0 999\n0 0 998 998\n0 0 -1 997\n"


def test_an_instant_that_goes_back_counts_as_the_last_charge(sluice):
    # rule 4.6: the second line is raised to 5000, and its waits are counted from there
    out = sluice("replay", "-", "--limit", "sliding-log 2/1s", "--decisions",
                 stdin=ops("5000 k", "1000 k", "4500 k", "6000 k"))[1]
    assert out == "1 1 0 1000\n1 0 0 1000\n0 0 1000 1000\n1 1 0 1000\n"
    out = sluice("replay", "-", "--sort", "--limit", "sliding-log 2/1s", "--decisions",
                 stdin=ops("5000 k", "1000 k", "4500 k", "6000 k"))[1]
    assert out == "1 1 0 1000\n1 1 0 1000\n1 0 0 1000\n1 1 0 1000\n"


@pytest.mark.parametrize("back_ms, said", [
    (60_000, None),  # a minute: a request that took long, logged at its end
    (60_001, "2 lines are up to 1 m 1 s"),
    (7_200_000, "2 lines are up to 2 h"),
])
def test_lines_far_out_of_order_have_a_hint(sluice, back_ms, said):
    at = 1_700_000_000_000
    text = ops(f"{at} a", f"{at - back_ms} b", f"{at - 5000} a", f"{at - back_ms} a")
    for decisions in ([], ["--decisions"]):
        status, out, err = sluice("replay", "-", "--limit", "9/1h", *decisions, stdin=text)
        hints = re.findall("^hint: .*$", err if decisions else out, re.M)
        assert (status, hints) == (0, [f"hint: {said} earlier than lines before them: --sort puts them in order"]
                                   if said else [])
        assert "hint" not in "".join(sluice("replay", "-", "--sort", "--limit", "9/1h", *decisions, stdin=text)[1:])


def test_the_ends_of_time(sluice):
    """Instants at both ends of what AT takes: 63 bits of nanoseconds; the next is no instant."""
    for limit in ("5/1m", "fixed-window 5/1m", "sliding-log 5/1m", "sliding-buckets 5/1m precision 1s",
                  "token-bucket 5/1m", "leaky-bucket 5/1m queue 4", "sliding-log 5/3660d"):
        status, out, err = sluice("replay", "-", "--limit", limit, "--decisions",
                                  stdin=ops(*["0 a"] * 6, *["9223372036854 b"] * 6, *["9223372036854 a"] * 5,
                                            "9223372036855 c"))
        assert status == 0 and "<stdin>:18: column 1: expected a time" in err, (limit, err)
        got = [line.split()[0] for line in out.splitlines()]
        assert got == ["1"] * 5 + ["0"] + ["1"] * 5 + ["0"] + ["1"] * 5, limit


def test_several_limits_admit_together_or_not_at_all(sluice):
    status, out, _ = sluice("replay", "-", "--limit", "sliding-log 3/1s", "--limit", "sliding-log 4/1m",
                            stdin=ops(*["0 k"] * 5, *["1000 k"] * 5))
    assert status == 0
    assert counts(out) == (10, 4, 6, 1)
    # 2 denied by the first limit alone: those charge nothing on the second; then 4 by the second
    assert re.search(r"^ +2 +10 +sliding-log 3/1s$", out, re.M), out
    assert re.search(r"^ +4 +10 +sliding-log 4/1m$", out, re.M), out


def test_sixteen_limits_and_one_more(sluice):
    sixteen = [word for n in range(1, 17) for word in ("--limit", f"{n}/{n}s")]
    assert counts(sluice("replay", "-", *sixteen, stdin=ops("0 k", "0 k"))[1]) == (2, 1, 1, 1)
    status, out, err = sluice("replay", "-", *sixteen, "--limit", "1/1s")
    assert (status, out) == (2, "") and "more than 16 limits" in err


# ---- keys, policies --------------------------------------------------------------------------------------------------

ACCESS = b"""\
203.0.113.9 - alice [17/May/2015:10:05:03 +0000] "GET /search?q=1 HTTP/1.1" 200 5316 "-" "curl/8"
203.0.113.9 - bob [17/May/2015:12:05:03 +0200] "GET /search/../search?q=2 HTTP/1.1" 200 5316 "-" "curl/8"
2001:db8::1 - - [17/May/2015:10:05:04 +0000] "POST /login HTTP/1.1" 200 5
2001:db8::2 - - [17/May/2015:10:05:05 +0000] "POST /login HTTP/1.1" 401 5
2001:db8:0:1::2 - - [17/May/2015:10:05:05 +0000] "POST /login HTTP/1.1" 401 5
"""


@pytest.mark.parametrize("key, worst_keys, hinted", [
    ("ip", [("2001:db8::/64", 1, 2), ("203.0.113.9", 1, 2)], False),
    ("path", [("/login", 2, 3), ("/search", 1, 2)], False),
    ("user | ip", [("ip=2001:db8::/64", 1, 2)], False),
    ("method,path", [("method=POST,path=/login", 2, 3), ("method=GET,path=/search", 1, 2)], False),
    ("status", [("200", 2, 3), ("401", 1, 2)], False),
    ("host", [], True),
])
def test_keys(sluice, key, worst_keys, hinted):
    status, out, _ = sluice("replay", "-", "--limit", "sliding-log 1/1h", "--key", key, stdin=ACCESS)
    assert status == 0
    assert (worst(out) if worst_keys else []) == worst_keys
    assert counts(out)[3] == len(worst_keys)
    assert ("hint: 5 requests have no host" in out) == hinted


def test_ops_lines_have_only_a_key(sluice):
    status, out, err = sluice("replay", "-", "--format", "ops", "--limit", "1/1s", "--key", "ip")
    assert (status, out) == (2, "") and "ops lines have nothing but a key" in err
    assert counts(sluice("replay", "-", "--limit", "1/1h", "--key", "key", stdin=ops("0 a", "0 a"))[1])[2] == 1


def test_json_lines(sluice):
    lines = [
        {"time": "2015-05-17T10:05:03.250Z", "client_ip": "203.0.113.9", "method": "GET", "uri": "/a?b", "cost": 3},
        {"ts": 1431857103.5, "request": {"remote_ip": "203.0.113.9", "method": "GET", "uri": "/a", "host": "h"}},
        {"msec": "1431857103.750", "remote_addr": "203.0.113.9:4711", "request": "GET /a HTTP/1.1"},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    out = sluice("replay", "-", "--limit", "sliding-log 4/1s", "--key", "ip,path", "--decisions", stdin=text)[1]
    assert out == "1 1 0 1000\n1 0 0 1000\n0 0 500 750\n"


POLICY = """\
limits:
  - {name: login, when: {method: POST, path: /login}, key: ip, limit: sliding-log 1/1h}
  - {name: searches, when: {path: /search*}, key: "user | ip", limit: sliding-log 1/1h, observe: true}
  - name: everybody
    key: ip
    limit: sliding-log 100/1h
    overrides: [{when: {user: alice}, limit: unlimited}]
"""


def test_policy(sluice, tmp_path):
    (tmp_path / "p.yaml").write_text(POLICY)
    status, out, err = sluice("replay", "-", "-c", "p.yaml", stdin=ACCESS + ACCESS)
    assert (status, err) == (0, "")
    assert counts(out) == (10, 6, 4, 2)
    assert worst(out) == [("ip=2001:db8::/64", 3, 4), ("ip=2001:db8:0:1::/64", 1, 2)]
    assert re.search(r"^ +4 +6 +login: sliding-log 1/1h$", out, re.M), out
    assert re.search(r"^ +2 +4 +searches: sliding-log 1/1h \(observed: denies nobody\)$", out, re.M), out
    assert re.search(r"^ +0 +8 +everybody: ", out, re.M), out


@pytest.mark.parametrize("rollout, override, label", [
    ("observe: true", "observe: false", ""), ("observe: true", "limit: 5/1h", " (observed: denies nobody)"),
    ("observe: true", "canary: 10% of user", ""), ("canary: 0% of key", "observe: false", ""),
    ("canary: 0% of key", "canary: 0% of key", " (canary: denies 0% of key alone)"),
    ("observe: false", "observe: true", "")])
def test_no_label_of_a_limit_where_an_override_says_otherwise(sluice, tmp_path, rollout, override, label):
    (tmp_path / "p.yaml").write_text(f"limits:\n  - {{name: a, key: key, limit: fixed-window 1/1h, {rollout},\n"
                                     f"     overrides: [{{when: {{key: acme}}, {override}}}]}}\n")
    status, out, err = sluice("replay", "-", "-c", "p.yaml", stdin=ops(*["0 acme"] * 3, *["0 other"] * 3))
    assert status == 0
    assert re.search(r"^ +\d +6 +a: fixed-window 1/1h(.*)$", out, re.M)[1] == label, out


def test_more_limits_than_one_request_can_have(sluice, tmp_path):
    """What found no place counts as a server counts it: as denied, and the request as denied by one of them."""
    (tmp_path / "p.yaml").write_text("limits:\n" + "".join(
        f"  - {{name: l{i}, key: key, limit: fixed-window 9/1h, observe: {str(i == 18).lower()}}}\n"
        for i in range(20)))
    status, out, err = sluice("replay", "-", "-c", "p.yaml", stdin=ops("0 a", "0 b 0", "0 a"))
    assert status == 0 and counts(out)[:3] == (3, 1, 2)
    table = re.findall(r"^ +(\d+) +(\d+) +l(\d+): ", out, re.M)
    assert [(denied, requests) for denied, requests, _ in table] == [("0", "3")] * 15 + [("2", "3")] * 5


def test_policy_with_another_ipv6_prefix_and_ops(sluice, tmp_path):
    (tmp_path / "p.yaml").write_text("ipv6-prefix: 48\nlimits: [{name: a, key: ip, limit: sliding-log 1/1h}]\n")
    assert worst(sluice("replay", "-", "-c", "p.yaml", stdin=ACCESS)[1])[0] == ("ip=2001:db8::/48", 2, 3)
    (tmp_path / "p.yaml").write_text("limits: [{name: a, key: key, limit: sliding-log 1/1h}]\n")
    assert sluice("replay", "-", "-c", "p.yaml", "--decisions", stdin=ops("0 k", "9 k", "9 j"))[1] == \
        "1 0 0 3600000\n0 0 3599991 3599991\n1 0 0 3600000\n"


def test_nothing_applies(sluice, tmp_path):
    (tmp_path / "p.yaml").write_text("limits: [{name: a, key: user, limit: 1/1h}]\n")
    status, out, err = sluice("replay", "-", "-c", "p.yaml", "--decisions", stdin=ACCESS)
    assert (status, out.splitlines()[2:]) == (0, ["1 4294967295 0 0"] * 3)
    assert "hint: no limit of the policy applies to 3 of the requests" in err


def test_a_bad_policy_is_told_whole(sluice, tmp_path):
    (tmp_path / "p.yaml").write_text("limits:\n  - {name: a, key: ip, limit: 10/1y}\n  - {nam: b}\n")
    status, out, err = sluice("replay", "-", "-c", "p.yaml", stdin=ACCESS)
    assert (status, out) == (2, "")
    assert re.search(r"^p\.yaml:2:\d+: error: ", err, re.M) and re.search(r"^p\.yaml:3:\d+: error: ", err, re.M)


# ---- files -----------------------------------------------------------------------------------------------------------

def pack(kind, text):
    return {"plain": lambda t: t, "gz": gzip.compress, "xz": lzma.compress}[kind](text)


@pytest.mark.parametrize("kind", ["plain", "gz", "xz"])
def test_compression_is_told_by_the_bytes(sluice, tmp_path, kind):
    packed = pack(kind, ACCESS)
    want = sluice("replay", "-", "--limit", "1/1h", stdin=ACCESS)
    assert want[0] == 0 and counts(want[1])[0] == 5
    assert sluice("replay", "-", "--limit", "1/1h", stdin=packed) == want
    (tmp_path / "any.name").write_bytes(packed)
    assert sluice("replay", "any.name", "--limit", "1/1h") == want
    assert counts(sluice("replay", "--limit", "1/1h", "any.name", "-", "any.name", stdin=packed)[1])[0] == 15


def test_files_are_read_in_the_order_given(sluice, tmp_path):
    (tmp_path / "1").write_bytes(ops("1000 a 1", "3000 a 2"))
    (tmp_path / "2").write_bytes(ops("2000 a 3"))

    def left(*args):
        out = sluice("replay", "--limit", "fixed-window 10/1h", "--decisions", *args)[1]
        return [int(line.split()[1]) for line in out.splitlines()]
    assert left("1", "2") == [9, 7, 4]
    assert left("2", "1") == [7, 6, 4]
    assert left("2", "1", "--sort") == [9, 6, 4]


@pytest.mark.parametrize("kind", ["gz", "xz"])
@pytest.mark.parametrize("decisions", [False, True])
def test_a_file_cut_short(sluice, kind, decisions):
    text = ops(*(f"{ms * 7919 % 100003 + 100003} {ms * 31 % 77}" for ms in range(20000)))
    packed = pack(kind, text)
    args = ["--decisions"] if decisions else []
    status, out, err = sluice("replay", "-", "--limit", "9/1s", *args, stdin=packed[:len(packed) * 3 // 4])
    assert status == 2
    assert re.search(rf"^sluice replay: <stdin>: the \.{kind} is cut short.*after \d+ lines", err, re.M)
    assert "incomplete: <stdin>" in (err if decisions else out)
    if decisions:
        assert set(map(len, map(str.split, out.splitlines()))) <= {4}


def test_files_that_cannot_be_read(sluice, tmp_path):
    (tmp_path / "here").write_bytes(ACCESS)
    (tmp_path / "folder").mkdir()
    status, out, err = sluice("replay", "here", "gone", "folder", "lost", "--limit", "1/1s")
    assert (status, out) == (2, "")
    assert err.splitlines() == ["sluice replay: gone: No such file or directory",
                                "sluice replay: folder: a folder; name the logs in it",
                                "sluice replay: lost: No such file or directory"]


def test_unreadable_lines_are_counted_and_told(sluice, tmp_path):
    long_line = b"1 " + b"k" * 70000
    text = ops("1000 a", "", "junk", "2000 b x") + long_line + b"\n" + ops("-1 a", "3000 a 1 1", "4000 a") + ACCESS
    (tmp_path / "log").write_bytes(text)
    status, out, err = sluice("replay", "log", "--limit", "9/1s")
    assert (status, err) == (0, "")
    assert counts(out)[0] == 2
    assert "unreadable    11 lines, the first:\n" in out and "requests      2, of 13 lines" in out
    told = re.findall(r"^  log:(\d+): (.*)$", out, re.M)
    assert [int(number) for number, _ in told] == [2, 3, 4, 5, 6]
    assert "empty" in told[0][1] and "milliseconds" in told[1][1] and "cost" in told[2][1] and "65536" in told[3][1]
    status, out, err = sluice("replay", "log", "--limit", "9/1s", "--decisions", "--sort")
    assert (status, len(out.splitlines())) == (0, 2)
    assert "unreadable    11 lines" in err and "log:3: column 1:" in err


def test_half_a_line_of_an_access_log_is_no_ops_line(sluice):
    """A cut line may look like ops; the file's first readable line has said what it is."""
    text = ACCESS + b"2015 17\n" + ACCESS
    assert "unreadable    1 line:" in sluice("replay", "-", "--limit", "1/1s", stdin=text)[1]


def test_a_log_of_nothing(sluice):
    status, out, err = sluice("replay", "-", "--limit", "1/1s")
    assert (status, err) == (0, "") and counts(out) == (0, 0, 0, 0)
    status, out, err = sluice("replay", "-", "--limit", "1/1s", "--decisions", stdin=b"\x00" * 100 + b"\n\xff\xfe\n")
    assert (status, out) == (0, "") and "unreadable    2 lines" in err and "hint: no line could be read" in err


def test_sort_through_temporary_files(sluice, tmp_path):
    """More lines than fit in the sort's memory, longest keys first met last; nothing is left behind."""
    count = 180000
    pad = b"x" * 800
    path = tmp_path / "big.ops"
    with open(path, "wb") as f:
        for n in range(count):
            f.write(b"%d %d-%s\n" % (n * 7919 % 50021, n % 3, pad))
    want = sorted(range(count), key=lambda n: n * 7919 % 50021)
    folder = tmp_path / "temporary"
    folder.mkdir()
    status, out, _ = sluice("replay", path, "--sort", "--limit", "fixed-window 1G/3660d", "--decisions",
                            env={"TMPDIR": str(folder)})
    left, expected = [10**9] * 3, []
    for n in want:
        left[n % 3] -= 1
        expected.append(left[n % 3])
    assert status == 0 and os.listdir(folder) == []
    assert [int(line.split(" ", 2)[1]) for line in out.splitlines()] == expected
    status, out, err = sluice("replay", path, "--sort", "--limit", "1/1s", env={"TMPDIR": "/nowhere/at/all"})
    assert status == 2 and "/nowhere/at/all" in err


def test_a_full_store_names_memory(sluice):
    text = ops(*(f"{n} {n % 2} 1" for n in range(400000)))
    status, out, err = sluice("replay", "-", "--memory", "1MiB", "--limit", "sliding-log 1G/1d", stdin=text)
    assert (status, out) == (2, "")
    assert re.search(r"^sluice replay: <stdin>:\d+: the store of 1 MiB is full; --memory 1GiB gives it more$",
                     err, re.M)
    status, out, err = sluice("replay", "-", "--memory", "1KiB", "--limit", "1/1s")
    assert (status, out) == (2, "") and err.startswith("sluice replay: --memory: ")


def test_memory_is_taken_as_it_is_used(sluice_bin, tmp_path):
    """A store of 1 GiB with a few keys, and a log longer than all buffers, stay far below either."""
    with gzip.open(tmp_path / "log.gz", "wb", 1) as f:
        for n in range(40):
            f.write(b"".join(b"%d %d-%s\n" % (n * 10000 + m, m % 1000, b"x" * 500) for m in range(10000)))
    process = subprocess.Popen([sluice_bin, "replay", "log.gz", "--limit", "9/1s"], cwd=tmp_path,
                               stdout=subprocess.PIPE)
    with process.stdout:
        assert counts(process.stdout.read().decode())[0] == 400000
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    # KiB. 17 MiB in pages of 4 KiB; in huge ones (where the kernel has some to give) a thousand keys touch at most 512.
    assert used.ru_maxrss < 600 * 1024


def test_a_full_disk_is_told(sluice_bin, tmp_path):
    (tmp_path / "log").write_bytes(ops(*["0 k"] * 5))
    for args in (["--decisions"], []):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([sluice_bin, "replay", "log", "--limit", "1/1s", *args], cwd=tmp_path, stdout=full,
                                  stderr=subprocess.PIPE, timeout=DEADLINE_S)
        assert done.returncode == 2 and b"No space left on device" in done.stderr


def test_top(sluice):
    text = ops(*(f"0 k{n}" for n in range(30) for _ in range(n + 1)))
    out = sluice("replay", "-", "--limit", "1/1h", stdin=text)[1]
    assert [row[0] for row in worst(out)] == [f"k{n}" for n in range(29, 19, -1)]
    out = sluice("replay", "-", "--limit", "1/1h", "--top", "1000", stdin=text)[1]
    assert worst(out) == [(f"k{n}", n, n + 1) for n in range(29, 0, -1)]
    assert "worst keys" not in sluice("replay", "-", "--limit", "1/1h", "--top", "0", stdin=text)[1]


def test_keys_are_printed_safely(sluice):
    out = sluice("replay", "-", "--limit", "1/1h", stdin=b"0 \x1b[2J\xff\n0 \x1b[2J\xff\n")[1]
    assert "'\\x1b[2J\\xff'" in out and "\x1b" not in out


def test_progress_only_on_a_terminal(sluice_bin, tmp_path):
    (tmp_path / "log").write_bytes(ops(*(f"{n} k{n % 7}" for n in range(200000))))
    command = [sluice_bin, "replay", "log", "--limit", "9/1s"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=DEADLINE_S)
    assert (done.returncode, done.stderr) == (0, b"")
    main, side = pty.openpty()
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=side)
    os.close(side)
    out, seen = process.communicate(timeout=DEADLINE_S)[0], b""
    while select.select([main], [], [], 0)[0]:
        try:
            seen += os.read(main, 65536)
        except OSError:  # the other side is closed
            break
    os.close(main)
    assert out == done.stdout
    assert re.search(rb"\rreading: \[[#.]{30}\] +\d+ %, \d+ lines", seen)
    assert seen.endswith(b"\r\x1b[K")  # and the line is given back


# ---- lint ------------------------------------------------------------------------------------------------------------

def test_lint_shows_warnings_beside_errors_or_errors_only(sluice, tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text("limits:\n- {name: a, key: user, limit: 5/1m}\nthreads: 300\n")
    status, out, _ = sluice("lint", str(path))
    assert status == 1 and [line.split(": ")[1] for line in out.splitlines()] == ["warning", "warning", "error"]
    assert out.splitlines()[2].endswith(":3:10: error: expected a whole number from 1 to 256, found '300'")
    status, out, _ = sluice("lint", "--errors-only", str(path))
    assert status == 1 and len(out.splitlines()) == 1 and ":3:10: error:" in out
    path.write_text("limits:\n- {name: a, key: user, limit: 5/1m}\n")
    assert sluice("lint", str(path))[0] == 1
    status, out, _ = sluice("lint", str(path), "--errors-only")
    assert status == 0 and out == "%s: fine, 1 limit\n" % path
    path.write_text("limits:\n- {name: a, key: user, limit: 5/1m, optional: true}\n")
    assert sluice("lint", str(path))[:2] == (0, "%s: fine, 1 limit\n" % path)


# ---- misuse ----------------------------------------------------------------------------------------------------------

def test_each_verb_is_suggested_for_one_that_is_near(sluice):
    """The last of the list as well: the table of suggestions held sixteen."""
    verbs = re.findall(r"^  ([a-z]+) +[A-Z]", sluice("help")[1], re.M)
    assert {"serve", "bench", "help"} <= set(verbs)
    for verb in verbs:
        swapped = verb[:-2] + verb[-1] + verb[-2]
        assert "no verb '%s': did you mean '%s'?" % (swapped, verb) in sluice(swapped)[2]


@pytest.mark.parametrize("args, says", [
    ([], "usage: sluice VERB"),
    (["reply"], "no verb 'reply': did you mean 'replay'?"),
    (["frobnicate"], "no verb 'frobnicate': sluice help lists them"),
    (["x\x1b]0;y\u202e"], "no verb 'x\\x1b]0;y\\xe2\\x80\\xae': sluice help"),
    (["watch"], "no verb 'watch'"),
    (["replay"], "which logs?"),
    (["replay", "-"], "which limits?"),
    (["replay", "-", "--limt", "1/1s"], "no option '--limt': did you mean --limit?"),
    (["replay", "-", "--limit"], "--limit needs a value"),
    (["replay", "-", "--limit", "1/1"], "--limit '1/1', column 4: "),
    (["replay", "-", "--limit", "concurrency 20 per 30s"], "column 15: "),
    (["replay", "-", "--limit", "1/1s", "--format", "jsno"], "did you mean json?"),
    (["replay", "-", "--limit", "1/1s", "--key", "usre"], "did you mean user?"),
    (["replay", "-", "--limit", "1/1s", "--top", "-1"], "--top '-1': expected a whole number"),
    (["replay", "-", "--limit", "1/1s", "--memory", "1GB"], "--memory '1GB': expected a size"),
    (["replay", "-", "--limit", "1/1s", "-c", "x"], "leave out --limit and --key"),
    (["replay", "-", "-c", "no.yaml"], "no.yaml: No such file or directory"),
    (["lint"], "which policy file?"),
    (["lint", "a", "b"], "'b' is one file too many"),
    (["lint", "no.yaml"], "no.yaml: No such file or directory"),
    (["check"], "expected a key and at least one limit"),
    (["check", "k"], "expected a key and at least one limit"),
    (["check", "k", "token-bucket", "1/1s"], "quote it"),
    (["check", "k", "1/1s", "--cost", "-1"], "--cost '-1': expected a whole number"),
    (["check", "k", "1/1s", "--store", "f"], "f: there is no such store; `sluice store create` makes one"),
    (["check", "k", "1/1s", "--store", "f", "--server", "127.0.0.1:1"], "--server or --store, not both"),
    (["reset"], "expected a key and at least one limit, such as: sluice reset user:1 100/1m"),
    (["reset", "k", "1/1s", "--store", "f"], "f: there is no such store"),
    (["reset", "k", "1/1s", "--server", "127.0.0.1:1"], "no server at 127.0.0.1:1: connecting: Connection refused"),
    (["reset", "k", "1/1s", "--cost", "1"], "no option '--cost'"),
    (["inspect"], "which store? --store FILE"),
    (["inspect", "--store", "f"], "f: there is no such store"),
    (["inspect", "--store", "f", "--verify", "k", "1/1s"], "leave out --json and KEY LIMIT..."),
    (["inspect", "--store", "f", "k"], "expected a key and at least one limit"),
    (["store"], "expected create, resize, dump or load"),
    (["store", "creat", "f"], "'creat': did you mean create?"),
    (["store", "frobnicate", "f"], "'frobnicate': expected create, resize, dump or load"),
    (["store", "create"], "create: which store?"),
    (["store", "create", "f"], "how large? create f --memory SIZE"),
    (["store", "create", "f", "g"], "'g' is one word too many"),
    (["store", "create", "f", "--memory", "1023KiB"], "--memory '1023KiB': expected a size, 1MiB to 256GiB"),
    (["store", "create", "f", "--memory", "1MiB", "--blocks", "99%"], "--blocks '99%': expected a share of the store"),
    (["store", "create", "f", "--memory", "1MiB", "--force"], "create takes no --force"),
    (["store", "create", "shared:", "--memory", "1MiB"], "1 to 200 letters"),
    (["store", "resize", "f"], "to what? resize f --memory SIZE"),
    (["store", "resize", "f", "--memory", "1MiB"], "f: there is no such store"),
    (["store", "resize", "shared:f", "--memory", "1MiB"], "resize is for stores in files"),
    (["store", "dump", "f"], "f: there is no such store"),
    (["store", "dump", "f", "--blocks", "5%"], "dump takes no --blocks"),
    (["store", "load", "shared:f"], "load is for stores in files"),
    (["store", "load", "f"], "the dump, byte 0: what begins here is cut short"),
    (["check", "k", "1/1s", "KEY", "j"], "KEY needs a key and a limit"),
    (["check", "k", "1/1s", "--server", "nonsense"], "no server at nonsense: this is not an address"),
    (["check", "k", "1/1s", "--server", "127.0.0.1:1"], "no server at 127.0.0.1:1: connecting: Connection refused"),
    (["check", "k", "1/1s", "--server", "unix:/nowhere/s"], "no server at unix:/nowhere/s: connecting: No such file"),
    (["override"], "expected set, get, del or list"), (["override", "lst"], "did you mean list?"),
    (["override", "set", "1/1m", "k"], "set takes LIMIT KEY QUOTA"),
    (["override", "get", "1/1m", "k", "j"], "too many"),
    (["override", "get", "1/1m", "k", "--ttl", "1m"], "--ttl is for set"),
    (["override", "list", "-c", "f"], "-c FILE goes with --store"),
    (["override", "list", "--store", "redis://h/"], "--store can't be Redis here"),
    (["override", "list", "--store", "f"], "f: there is no such store"),
    (["serve", "x.yaml"], "named by -c FILE"),
    (["serve", "--threads", "0"], "--threads '0': expected a whole number, 1 to 256"),
    (["bench", "100/1m"], "given by --limit"),
    (["bench", "--limit", "100/1x"], "column 6"),
    (["bench", "--keys", "0"], "expected a whole number, 1 to 100000000"),
    (["bench", "--rounds", "101"], "expected a whole number, 1 to 100"),
    *[([*words, "--server", "127.0.0.1:1", "--ca", "f"], "--ca says whom --tls trusts: give --tls as well")
      for words in (["check", "k", "1/1s"], ["explain", "ip=1"], ["override", "list"], ["bench"], ["top"], ["tail"],
                    ["ready"], ["inspect", "k", "1/1s"])],
    (["version", "2"], "one word too many"),
    (["help", "replya"], "did you mean 'replay'?"),
])
def test_misuse(sluice, args, says):
    status, out, err = sluice(*args)
    assert (status, out) == (2, "")
    assert says in err


def test_bench_measures_what_it_is_given(sluice):
    limits = ["--limit", "1M/1m", "--limit", "sliding-log 5/1d"]
    status, out, err = sluice("bench", *limits, "--keys", "1000", "--rounds", "1")
    assert (status, err) == (0, "")
    rows = re.findall(r"^(sliding-.*?) +(\d+) +(\d+) +(\d+) +(\d+) %$", out, re.M)
    assert [row[0] for row in rows] == ["sliding-window 1000000/1m", "sliding-log 5/1d"]
    assert all(int(ns) < 1000000 for row in rows for ns in row[1:4])
    assert rows[0][4] == "100" and int(rows[1][4]) < 5, "what is measured is decided, and told"


def test_help_of_every_verb(sluice):
    status, overview, err = sluice("help")
    assert (status, err) == (0, "") and sluice("--help") == (0, overview, "")
    verbs = re.findall(r"^  ([a-z]+) +[A-Z]", overview, re.M)
    assert verbs == ["serve", "ready", "check", "acquire", "release", "renew", "holders", "reserve", "commit", "reset",
                     "override", "inspect", "store", "lint", "replay", "top", "tail", "explain", "password",
                     "token", "bench", "size", "completion", "version", "help"]
    for verb in verbs:
        status, text, err = sluice(verb, "--help")
        assert (status, err) == (0, "")
        assert text.startswith(f"usage: sluice {verb}") and "\nexamples:\n  sluice " in text
        assert sluice("help", verb) == (0, text, "") and sluice(verb, "-h") == (0, text, "")
        assert max(map(len, text.splitlines())) <= 120


def test_version(sluice):
    with open(os.path.join(ROOT, "include", "sluice.h"), encoding="utf-8") as f:
        version = re.search(r'#define SLUICE_VERSION "(.*)"', f.read())[1]
    assert sluice("version") == sluice("--version") == (0, f"sluice {version}\n", "")


# ---- lint ------------------------------------------------------------------------------------------------------------

def test_lint(sluice, tmp_path):
    (tmp_path / "good.yaml").write_text(POLICY.replace("when: {user: alice}", "when: {ip: 10.0.0.1}")
                                        .replace('"user | ip"', "ip"))
    status, out, err = sluice("lint", "good.yaml")
    assert (status, err) == (0, "") and out.splitlines()[-1] == "good.yaml: fine, 3 limits"
    assert re.match(r"good.yaml: note: 256 MiB, of which blocks are \d+%, are room for \d+ keys of each limit", out)
    (tmp_path / "bad.yaml").write_text("limits:\n  - {name: a, key: ip, limit: 10/1y}\n  - {nam: b}\nlimts: 1\n")
    status, out, err = sluice("lint", "bad.yaml")
    assert (status, err) == (1, "")
    lines = out.splitlines()
    assert len(lines) >= 3 and all(re.match(r"bad\.yaml:\d+:\d+: (error|warning): .", line) for line in lines)
    assert [int(line.split(":")[1]) for line in lines] == sorted(int(line.split(":")[1]) for line in lines)
    status, out, err = sluice("lint", "-", stdin=b"\x00\xff")
    assert (status, err) == (1, "") and out.startswith("<stdin>:1:")
    status, out, err = sluice("lint", "/")
    assert (status, out) == (2, "") and "Is a directory" in err
    (tmp_path / "huge.yaml").write_bytes(b"#" * (64 * 1024 * 1024 + 1))
    status, out, err = sluice("lint", "huge.yaml")
    assert (status, out, err) == (1, "huge.yaml:1:1: error: expected a file of at most 67108864 bytes\n", "")
    status, out, err = sluice("explain", "ip=192.0.2.1", "-c", "huge.yaml")
    assert (status, out, err) == (2, "", "huge.yaml:1:1: error: expected a file of at most 67108864 bytes\n")
    for verb in "lint", "explain ip=192.0.2.1 -c", "serve -c":
        status, out, err = sluice(*verb.split(), "/dev/zero")
        assert (status, out) == (2, "") and "/dev/zero: it is not a regular file" in err


def test_lint_of_what_can_not_be_read(sluice, tmp_path):
    status, out, err = sluice("lint", "--envoy", "nodir")
    assert (status, out, err) == (2, "", "sluice lint: can't read nodir: No such file or directory\n")
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "a.yaml").symlink_to("nowhere")
    (tmp_path / "dir" / "b.yaml").write_text("domain: d\ndescriptors: [{key: k, rate_limit: {unit: x}}]\n")
    status, out, err = sluice("lint", "--envoy", "dir")
    assert status == 2 and "can't read dir/a.yaml" in err and "b.yaml:" in out
    (tmp_path / "p.yaml").write_text("limits: []\nenvoy: {config: nodir}\n")
    status, out, err = sluice("lint", "p.yaml")
    assert (status, err) == (1, "") and re.search(r"^p\.yaml:2:\d+: error: can't read nodir", out)


def test_lint_tells_all_mistakes_of_all_files(sluice, tmp_path):
    (tmp_path / "a.csv").write_text("ann,5/1x\nbob,5/1m\n,5/1m\nbob,6/1m\nbob,7/1m\n")
    (tmp_path / "b.csv").write_text("carl,5/2h\n")
    (tmp_path / "d.json").write_text("{")
    (tmp_path / "p.yaml").write_text(
        "denied: {body: d.json, type: application/json}\nlimits:\n" + "".join(
            f"  - {{name: {x}, key: user, limit: 9/1m, overrides-from: {x}.csv}}\n" for x in "abc"))
    status, out, err = sluice("lint", "p.yaml", "--errors-only")
    assert (status, err) == (1, "")
    assert [line.split(": ")[0] for line in out.splitlines()] == [
        "d.json:1:1", "a.csv:1:8", "a.csv:3:1", "a.csv:4:1", "a.csv:5:1", "b.csv:1:6", "p.yaml:5:55"], out


def test_lint_warnings_are_findings(sluice):
    status, out, err = sluice("lint", "-", stdin=b"limits: [{name: a, key: plan, limit: 1/1s}]\n")
    assert (status, err) == (1, "") and re.match(r"<stdin>:1:\d+: warning: .*plan", out)


def test_lint_of_the_example(sluice):
    assert sluice("lint", os.path.join(ROOT, "examples", "sluice.yaml"))[0] == 0


# ---- check -----------------------------------------------------------------------------------------------------------

def test_check(sluice, shared_server):
    def check(*args):
        return sluice("check", "--server", f"127.0.0.1:{shared_server.resp_port}", *args)
    status, out, err = check("cli:1", "sliding-log 3/1h", "--cost", "2")
    assert (status, err) == (0, "")
    assert out.splitlines()[:2] == ["allowed    cli:1 under sliding-log 3/1h", "remaining  1 of 3"]
    assert re.fullmatch(r"full again in 1 h \(3600000 ms\)", out.splitlines()[2])
    for _ in range(3):
        status, out, err = check("--peek", "cli:1", "sliding-log 3/1h")
        assert (status, err) == (0, "") and "remaining  1 of 3" in out
    status, out, err = check("cli:1", "--cost=2", "sliding-log 3/1h")
    assert (status, err) == (1, "")
    assert out.splitlines()[:2] == ["denied     cli:1 by sliding-log 3/1h", "remaining  1 of 3"]
    assert re.search(r"^retry      in (1 h|59 m( \d+ s)?) \(\d+ ms\)$", out, re.M), out
    status, out, _ = check("cli:1", "sliding-log 3/1h", "--cost", "4")
    assert status == 1 and "retry      never: the cost is above the quota" in out
    status, out, _ = check("cli:2", "10/1h", "KEY", "cli:1", "sliding-log 3/1h", "--cost", "2")
    assert status == 1 and out.startswith("denied     cli:1 by sliding-log 3/1h\n")
    status, out, _ = check("cli:2", "unlimited")
    assert status == 0 and out.startswith("allowed    cli:2, no limit applied\n")
    assert check("cli:3", "leaky-bucket 1/1h queue 9")[0] == 0
    status, out, _ = check("cli:3", "leaky-bucket 1/1h queue 9")
    assert status == 0 and re.search(r"^go ahead   in (1 h|59 m( \d+ s)?)", out, re.M), out
    assert check("--", "--cost", "1/1h")[0] == 0
    assert check("with space\n", "1/1h")[0] == 0


def test_check_over_a_unix_socket(sluice, sluice_bin, tmp_path):
    path = tmp_path / "s.sock"
    process = subprocess.Popen([sluice_bin, "serve", "--resp", f"unix:{path}", "--http", "127.0.0.1:0"],
                               stderr=subprocess.PIPE, text=True)
    try:
        assert any(line == "sluice: ready\n" for line in process.stderr)
        assert sluice("check", "k", "1/1h", "--server", f"unix:{path}")[0] == 0
        assert sluice("check", "k", "1/1h", "--server", "unix:s.sock")[0] == 1
    finally:
        process.terminate()
        assert process.wait(DEADLINE_S) == 0
        process.stderr.close()


def test_check_meets_something_else(sluice, shared_server, redis_port):
    status, out, err = sluice("check", "k", "1/1s", "--server", f"127.0.0.1:{shared_server.http_port}")
    assert (status, out) == (2, "") and "expected integers of a Sluice server" in err or "closed" in err
    status, out, err = sluice("check", "k", "1/1s", "--server", f"localhost:{redis_port}")
    assert (status, out) == (2, "") and "the server refused: ERR unknown command" in err


# ---- what others say is shown, not done ------------------------------------------------------------------------------

EVIL = "\x1b]0;owned\x07\x1b[2J \u202etxt.exe\u2028 \x9b31m \u200b caf\u00e9"
SHOWN = r"\x1b]0;owned\x07\x1b[2J \xe2\x80\xaetxt.exe\xe2\x80\xa8 \xc2\x9b31m \xe2\x80\x8b café"


@pytest.fixture
def evil_server():
    """A server that gives its replies in order, whatever it is asked; evil_server(replies) gives its address."""
    listeners = []

    def serve(listener, replies):
        client, _ = listener.accept()
        with client:
            for reply in replies:
                asked = client.recv(65536)
                while asked.count(b"\r\n") < 1 + 2 * int(re.match(rb"\*(\d+)\r|", asked)[1] or 1):  # a whole command
                    asked += client.recv(65536)
                client.sendall(reply)
            client.recv(65536)

    def start(replies):
        listeners.append(socket.create_server(("127.0.0.1", 0)))
        threading.Thread(target=serve, args=(listeners[-1], replies), daemon=True).start()
        return "127.0.0.1:%d" % listeners[-1].getsockname()[1]

    yield start
    for one in listeners:
        one.close()


def bulk(text):
    return b"$%d\r\n%s\r\n" % (len(text.encode()), text.encode())


REFUSAL = b"-ERR " + EVIL.encode() + b"\r\n"


@pytest.mark.parametrize("words, replies", [
    (["check", "k", "1/1s"], [REFUSAL]), (["reset", "k", "1/1s"], [REFUSAL]), (["top", "--once"], [REFUSAL] * 2),
    (["holders", "k", "concurrency 1 lease 1s"], [REFUSAL]),
    (["acquire", "k", "concurrency 1 lease 1s"], [b"*8\r\n" + b":1\r\n" * 6 + b":0\r\n" + bulk(EVIL)]),
    (["reserve", "k", "9/1h"], [b"*8\r\n" + b":1\r\n" * 6 + b":0\r\n" + bulk(EVIL)]),
    (["holders", "k", "concurrency 1 lease 1s"], [b"*1\r\n*3\r\n" + bulk(EVIL) + b":1\r\n:1\r\n"]),
    (["override", "del", "1/1m", "k"], [REFUSAL]),
    (["override", "get", "1/1m", "k"], [b"*2\r\n" + bulk(EVIL) + b":1\r\n"]),
    (["override", "list"], [b"*2\r\n:0\r\n*1\r\n*4\r\n" + bulk(EVIL) * 3 + b":1\r\n"]),
    (["tail", "--count", "1"], [REFUSAL]),
    (["explain", "ip=1"], [b"*2\r\n*8\r\n" + b"".join(bulk(name) + bulk(EVIL) for name in ("name", "limit", "key"))
                           + bulk("allowed") + b":0\r\n*4\r\n" + bulk("name") + bulk(EVIL) + bulk("applies")
                           + b":0\r\n"]),
    (["tail", "--count", "1"], [b"+OK\r\n" + b"*2\r\n" + bulk("sluice.tail") +
                               bulk(json.dumps({"limit": EVIL, "key": EVIL, "method": EVIL}, ensure_ascii=False))]),
    (["top", "--once"], [b"*1\r\n*5\r\n" + bulk(EVIL) * 2 + b":1\r\n" * 3, bulk("server_time_usec:5")]),
], ids=lambda value: value[0] if isinstance(value[0], str) else None)
def test_a_server_s_words_reach_no_terminal_raw(sluice_bin, evil_server, words, replies):
    done = subprocess.run([sluice_bin, *words, "--server", evil_server(replies)], capture_output=True, timeout=120)
    said = (done.stdout + done.stderr).decode()
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u2028\u202e]", said), said
    assert SHOWN in said or SHOWN.replace("é", r"\xc3\xa9") in said, said


def test_a_file_s_words_reach_no_terminal_raw(sluice, tmp_path):
    (tmp_path / "log").write_text('{"time": "' + EVIL.split(" ")[1] + '\u202e\n' * 3, encoding="utf-8")
    (tmp_path / "p.yaml").write_text("limits:\n  - {name: \"a\u202eb\", key: ip, limit: 1/1s\u202e, x\u202e: 1}\n",
                                     encoding="utf-8")
    said = sluice("replay", "log", "--format", "json", "--limit", "1/1s")
    assert "unreadable    3 lines" in said[1]
    said += sluice("lint", "p.yaml") + sluice("replay", "log", "-c", "p.yaml")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", "".join(map(str, said)))


# ---- lint: limits below a limit --------------------------------------------------------------------------------------

@pytest.mark.parametrize("above,below,note", [
    ("key: [], limit: 1000/1m", "key: user, limit: 300/1m", "4 keys of b at full quota (sliding-window 300/1m) ask for "
     "more than a admits (sliding-window 1000/1m)"),
    ("key: [], limit: 1000/1m", "key: user, limit: 250/1m", "5 keys of b"),
    ("key: ip, limit: 60/1m", "key: [ip, path], limit: token-bucket 1/1s", "2 keys of b"),
    ("key: ip, limit: 60/1m", "key: [path, ip], limit: 100/1m", "no key of b ever has its full quota (sliding-window "
     "100/1m): a admits less (sliding-window 60/1m)"),
    ("key: [], limit: 4294967295/1ms", "key: ip, limit: 1/1d", "371085174288000001 keys"),
    ("key: ip, limit: 60/1m", "key: [user, path], limit: 100/1m", None),
    ("key: ip, limit: 60/1m", "key: ip, limit: 100/1h", None),
    ("key: [], limit: 60/1m, when: {path: /x}", "key: ip, limit: 100/1m", None),
    ("key: [], limit: 60/1m, observe: true", "key: ip, limit: 100/1m", None),
    ("key: [], limit: 60/month", "key: ip, limit: 100/1m", None),
])
def test_lint_notes_limits_below_a_limit(sluice, tmp_path, above, below, note):
    (tmp_path / "p.yaml").write_text(f"attributes: {{user: header x}}\nlimits:\n  - {{name: a, {above}}}\n"
                                     f"  - {{name: b, {below}, optional: true}}\n")
    status, out, _ = sluice("lint", "p.yaml")
    notes = [line for line in out.splitlines() if ": note: " in line]
    if note is None:
        assert notes == []
    else:
        assert len(notes) == 1 and notes[0].startswith(f"p.yaml: note: {note}")
        assert status == (1 if "warning" in out else 0)
    assert not any(": note: " in line for line in sluice("lint", "p.yaml", "--errors-only")[1].splitlines())
