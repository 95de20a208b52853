"""The command line on what a count of requests cannot express: leases, members, parts of a cost, retries, reservations;
asked of a server and decided in a store, which must say the same; and in recorded traffic, in the log's own time."""

import json
import lzma
import os
import random
import re
import subprocess
import urllib.request

import pytest

from harness import DEADLINE_S, ROOT


@pytest.fixture
def sluice(sluice_bin, tmp_path):
    """Runs the program in a folder of its own: sluice(args..., stdin=bytes) -> (status, stdout, stderr)."""
    def run(*args, stdin=b""):
        done = subprocess.run([sluice_bin, *map(str, args)], input=stdin, capture_output=True, cwd=tmp_path,
                              timeout=120, check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode()
    return run


@pytest.fixture(params=["server", "store", "redis"])
def place(request, sluice):
    """Where it is decided, as options: a server; a store's file; a Redis with the module."""
    if request.param == "server":
        return ["--server", f"127.0.0.1:{request.getfixturevalue('shared_server').resp_port}"]
    if request.param == "redis":
        return ["--store", f"redis://127.0.0.1:{request.getfixturevalue('world').redis.port}/cli:"]
    assert sluice("store", "create", "counters", "--memory", "4MiB")[0] == 0
    return ["--store", "counters"]


@pytest.fixture
def ask(sluice, place, request):
    """ask(verb, key, words...) -> (status, stdout): a key of the test's own, and nothing on standard error."""
    def run(verb, key, *words):
        status, out, err = sluice(verb, request.node.name + key, *words, *place)
        assert err == "" and status in (0, 1), err
        return status, out.replace(request.node.name, "")
    return run


def field(out, name):
    return re.search(rf"^{name} +(.*)$", out, re.M)[1]


# ---- leases ----------------------------------------------------------------------------------------------------------

LEASE = "concurrency 2 lease 1h"


def test_leases_are_taken_and_given_back(ask):
    status, out = ask("acquire", "k", LEASE)
    assert status == 0 and out.startswith(f"allowed    k under {LEASE}\nremaining  1 of 2\n")
    first = field(out, "id")
    assert re.fullmatch("[0-9a-f]{16}.*", first)
    assert ask("acquire", "k", LEASE, "--id", "mine")[0] == 0
    status, out = ask("acquire", "k", LEASE)
    assert status == 1 and out.startswith(f"denied     k by {LEASE}\n") and "\nid" not in out
    assert re.search(r"^retry      in (1 h|59 m)", out, re.M)
    status, out = ask("acquire", "k", LEASE, "--id", "mine")
    assert status == 0 and field(out, "remaining") == "0 of 2", "acquired again by its name it is the same lease"
    status, out = ask("holders", "k", LEASE)
    assert status == 0 and out.startswith("2 holders:\n") and len(out.splitlines()) == 4
    assert first[:16] in out
    assert ask("release", "k", first, LEASE) == (0, "released 1 lease\n")
    gone = "no such lease: it has ended, was released before, or is another key's or limit's\n"
    assert ask("release", "k", first, LEASE) == (1, gone)
    assert ask("release", "other", "mine", LEASE) == (1, gone)
    assert ask("renew", "k", "mine", "concurrency 9 lease 1h") == (0, "renewed 1 lease\n"), "N does not matter"
    assert ask("renew", "k", "mine", "concurrency 2 lease 2h") == (1, gone), "T does"
    assert ask("release", "k", "mine", LEASE)[0] == 0
    assert ask("holders", "k", LEASE) == (0, "0 holders\n")


def test_other_limits_go_with_a_lease_all_or_none(ask):
    for _ in range(2):
        assert ask("acquire", "k", "concurrency 9 lease 1h", "sliding-log 2/1h")[0] == 0
    status, out = ask("acquire", "k", "concurrency 9 lease 1h", "sliding-log 2/1h")
    assert status == 1 and out.startswith("denied     k by sliding-log 2/1h\n")
    assert ask("holders", "k", "concurrency 9 lease 1h")[1].startswith("2 holders:\n")


def test_reset_forgets_leases(ask):
    assert ask("acquire", "k", LEASE, "--cost", "2")[0] == 0
    assert ask("acquire", "k", LEASE)[0] == 1
    assert ask("reset", "k", LEASE) == (0, "forgot 1 counter\n")
    assert ask("acquire", "k", LEASE)[0] == 0


# ---- members, parts, retries -----------------------------------------------------------------------------------------

def test_members(ask):
    limit = "distinct 2/1h"
    assert [ask("check", "k", limit, "--member", m)[0] for m in ("a", "b", "a", "c", "b")] == [0, 0, 0, 1, 0]
    assert ask("check", "k", limit, "--member", "c", "--peek")[0] == 1
    assert ask("check", "k", limit, "--member", "a", "--peek")[0] == 0


def test_upto(ask):
    limit = "sliding-log 10/1h"
    status, out = ask("check", "k", limit, "--cost", "7", "--upto")
    assert (status, field(out, "granted")) == (0, "7 of 7")
    status, out = ask("check", "k", limit, "--cost", "7", "--upto", "--peek")
    assert (status, field(out, "granted"), field(out, "remaining")) == (0, "3 of 7", "3 of 10")
    status, out = ask("check", "k", limit, "--cost", "7", "--upto")
    assert (status, field(out, "granted"), field(out, "remaining")) == (0, "3 of 7", "0 of 10")
    status, out = ask("check", "k", limit, "--cost", "7", "--upto")
    assert (status, field(out, "granted")) == (1, "0 of 7")


def test_a_retry_is_charged_once(ask):
    limit = "sliding-log 10/1h"
    for _ in range(3):
        status, out = ask("check", "k", limit, "--cost", "4", "--id", "order-17")
        assert (status, field(out, "remaining")) == (0, "6 of 10")
    assert field(ask("check", "k", limit, "--cost", "4", "--id", "order-18")[1], "remaining") == "2 of 10"


# ---- reservations ----------------------------------------------------------------------------------------------------

def test_an_estimate_is_corrected(ask):
    limit = "sliding-log 1000/1h"
    status, out = ask("reserve", "k", limit, "--cost", "500", "--ttl", "10m")
    assert (status, field(out, "remaining")) == (0, "500 of 1000")
    ticket = field(out, "ticket")
    status, out = ask("commit", "k", ticket, "120")
    assert (status, field(out, "remaining")) == (0, "880 of 1000")
    status, out = ask("commit", "k", ticket, "120")
    assert status == 1 and out.startswith("no such reservation: it was committed before")
    assert field(ask("check", "k", limit, "--peek")[1], "remaining") == "880 of 1000"
    assert ask("reserve", "k", limit, "--cost", "881")[0] == 1
    ticket = field(ask("reserve", "k", limit, "--cost", "80")[1], "ticket")
    assert field(ask("commit", "k", ticket, "2000")[1], "remaining") == "0 of 1000", "debt"
    assert ask("check", "k", limit)[0] == 1


def test_the_ticket_of_a_policy(server, sluice):
    """examples/leases.yaml, as it says of itself: admitted over HTTP, committed and released from a shell."""
    with open(os.path.join(ROOT, "examples", "leases.yaml"), encoding="utf-8") as f:
        one = server(policy=f.read())
    place = ["--server", f"127.0.0.1:{one.resp_port}"]
    body = json.dumps({"attributes": {"path": "/v1/chat", "user": "alice", "ip": "203.0.113.7"}}).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{one.http_port}/v1/admit", body, timeout=DEADLINE_S) as answer:
        told = json.load(answer)
    left = {limit["name"]: limit["remaining"] for limit in told["limits"]}
    assert left == {"tokens": 399500, "at-a-time": 4, "addresses": 2, "plan": 999999, "requests": 599}
    status, out, err = sluice("commit", "*", told["id"], "1234", *place)
    assert (status, err, field(out, "remaining")) == (0, "", "398766 of 400000")
    assert sluice("commit", "*", told["id"], "1234", *place)[0] == 1
    assert sluice("renew", "*", told["id"], *place) == (0, "renewed 1 lease\n", "")
    assert sluice("release", "*", told["id"], *place) == (0, "released 1 lease\n", "")
    assert sluice("release", "*", told["id"], *place)[0] == 1


def test_what_is_held_moves_with_a_store(sluice, tmp_path):
    def here(verb, *words, store="a"):
        status, out, err = sluice(verb, "k", *words, "--store", store)
        assert err == "" and status in (0, 1)
        return status, out
    assert sluice("store", "create", "a", "--memory", "4MiB")[0] == 0
    assert here("acquire", LEASE, "--id", "mine")[0] == 0
    assert here("check", "distinct 1/1h", "--member", "a")[0] == 0
    assert here("check", "fixed-window 9/1w", "--cost", "3", "--id", "retried")[0] == 0
    ticket = field(here("reserve", "sliding-log 1000/1h", "--cost", "500", "--ttl", "1h")[1], "ticket")
    assert sluice("store", "dump", "a", "-o", "dump")[0] == 0
    assert sluice("store", "resize", "a", "--memory", "2MiB")[0] == 0
    assert sluice("store", "load", "c", "--memory", "8MiB", stdin=(tmp_path / "dump").read_bytes())[0] == 0
    for store in ("a", "c"):
        assert here("holders", LEASE, store=store)[1].startswith("1 holder:\n")
        assert here("check", "distinct 1/1h", "--member", "b", store=store)[0] == 1
        assert here("check", "distinct 1/1h", "--member", "a", store=store)[0] == 0
        out = here("check", "fixed-window 9/1w", "--cost", "3", "--id", "retried", store=store)[1]
        assert field(out, "remaining") == "6 of 9"
        assert field(here("commit", ticket, "100", store=store)[1], "remaining") == "900 of 1000"
        assert here("release", "mine", LEASE, store=store)[0] == 0


# ---- misuse ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("args, says", [
    (["check", "k", "distinct 5/1d"], "which one? --member MEMBER"),
    (["check", "k", LEASE], "concurrency is acquired and released: sluice acquire"),
    (["check", "k", "1/1s", "--id", ""], "--id '': expected 1 to 64 bytes"),
    (["check", "k", "1/1s", "--id", "x" * 65], "expected 1 to 64 bytes, found 65"),
    (["check", "k", "1/1s", "--id", "x", "--peek"], "--id or --peek, not both"),
    (["acquire", "k", "1/1s"], "expected a limit such as 'concurrency 3 lease 1m' among them"),
    (["acquire", "k", LEASE, "distinct 5/1d"], "which one? --member MEMBER"),
    (["acquire", "k", LEASE, "--upto"], "no option '--upto'"),
    (["acquire"], "expected a key and at least one limit"),
    (["release"], "expected a key and the id of a lease after it"),
    (["release", "k"], "expected a key and the id of a lease after it"),
    (["release", "k", "id"], "expected a key and at least one limit"),
    (["renew", "k", "x" * 65, LEASE], "expected 1 to 64 bytes"),
    (["release", "k", "0123456789abcdef.AQ", "--store", "f"], "not a ticket, or not a whole one"),
    (["holders", "k"], "expected a key and at least one limit"),
    (["holders", "k", LEASE, LEASE], "expected one limit such as 'concurrency 3 lease 1m'"),
    (["holders", "k", "1/1s"], "expected one limit such as"),
    (["reserve", "k", LEASE], "nothing is reserved at concurrency"),
    (["reserve", "k", "1/1s", "--ttl", "0s"], "--ttl '0s': expected a duration such as 60s"),
    (["commit", "k"], "expected a key and a ticket after it"),
    (["commit", "k", "0123456789abcdef.AQ"], "expected a key and a ticket and the true cost after it"),
    (["commit", "k", "ticket", "5"], "'ticket': expected a ticket, as reserve prints it"),
    (["commit", "k", "0123456789abcdef.AQ", "-5"], "no option '-5'"),
    (["commit", "k", "0123456789abcdef.AQ", "5x"], "the true cost '5x': expected a whole number"),
    (["commit", "k", "0123456789abcdef.AQ", "5", "1/1s"], "expected nothing after the true cost"),
    (["commit", "k", "0123456789abcdef.!!", "5", "--store", "f"], "not a ticket, or not a whole one"),
    (["acquire", "k", LEASE, "--server", "127.0.0.1:1"], "no server at 127.0.0.1:1"),
    (["replay", "-", "--limit", "distinct 5/1d"], "which attribute? --member ip"),
    (["replay", "-", "--limit", "1/1d", "--member", "ip"], "--member is for limits of distinct"),
    (["replay", "-", "--limit", "distinct 5/1d", "--member", "usr"], "did you mean user?"),
    (["replay", "-", "-c", "p", "--member", "ip"], "a policy says `of: ip`"),
    (["replay", "-", "--limit", LEASE, "--format", "ops"], "--hold TIME"),
    (["replay", "-", "--limit", LEASE, "--hold", "1"], "--hold '1': expected a duration"),
    (["replay", "-", "--limit", LEASE, "--upto"], "--upto does not go with leases or reservations"),
    (["replay", "-", "--limit", "1/1s", "--estimate", "5", "--upto"], "--upto does not go with leases or reservations"),
    (["replay", "-", "--limit", "1/1s", "--estimate", "0"], "--estimate '0': expected a whole number"),
    (["replay", "-", "--limit", LEASE, "--store", "redis://h"], "leave out concurrency"),
    (["replay", "-", "--limit", "distinct 5/1d", "--member", "ip", "--store", "redis://h"], "leave out distinct"),
    (["replay", "-", "--limit", "1/1s", "--estimate", "5", "--store", "redis://h"], "leave out --estimate"),
    (["replay", "-", "--limit", "1/1s", "--upto", "--store", "redis://h"], "leave out --upto"),
])
def test_misuse(sluice, args, says):
    status, out, err = sluice(*args)
    assert (status, out) == (2, "")
    assert says in err


# ---- recorded traffic ------------------------------------------------------------------------------------------------

def ops(*lines):
    return "".join(line + "\n" for line in lines).encode()


def allowed(out):
    return "".join(line[0] for line in out.splitlines())


def test_replayed_leases_end_with_their_requests(sluice):
    lines = [{"ts": ts, "user": "u", "duration": took} for ts, took in
             ((1000.0, 2.0), (1000.5, 9.5), (1001.0, 1.0), (1002.0, 1.0), (1002.5, 1), (1003.0, 1.5))]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    # at 1002 the first is over, at that instant; the one of a whole 1 took a millisecond; 1003 has room of its own
    status, out, err = sluice("replay", "-", "--limit", "concurrency 2 lease 1m", "--key", "user", "--decisions",
                              stdin=text)
    assert status == 0, err
    assert allowed(out) == "110101"
    out = sluice("replay", "-", "--limit", "concurrency 2 lease 1m", "--key", "user", stdin=text)[1]
    assert re.search(r"^leases        4, 4 of them released, 0 at their end$", out, re.M), out
    # a lease that ends before its request does is not released any more
    out = sluice("replay", "-", "--limit", "concurrency 2 lease 1s", "--key", "user", stdin=text)[1]
    assert re.search(r"^leases        (\d+), (\d+) of them released, (\d+) at their end$", out, re.M)[3] != "0", out


def test_held_for_all(sluice):
    text = ops("0 k", "999 k", "1000 k", "1500 k", "1999 k")
    run = ["replay", "-", "--limit", "concurrency 1 lease 1m", "--decisions"]
    assert allowed(sluice(*run, "--hold", "1s", stdin=text)[1]) == "10100"
    assert allowed(sluice(*run, "--hold", "0s", stdin=text)[1]) == "11111"
    status, _, err = sluice(*run, stdin=text)
    assert status == 2 and "<stdin>:1: the line does not say how long the request took: --hold TIME" in err


def test_durations_are_read_as_they_are_written(sluice):
    """Each request holds the one place until it ends; the next one comes half a millisecond before and after that."""
    for field_text, seconds in (('"request_time": "0.250"', 0.25), ('"request_time": 0.25', 0.25),
                                ('"duration_ms": 250', 0.25), ('"responseTime": "250.0"', 0.25),
                                ('"duration": 0.25', 0.25), ('"duration": 250', 0.25), ('"latency": "250ms"', 0.25),
                                ('"Duration": 250000000', 0.25), ('"duration_us": 250000', 0.25),
                                ('"httpRequest": {"latency": "0.25s"}', 0.25),
                                ('"event": {"duration": 250000000}', 0.25),
                                ('"latency": "1.5s"', 1.5), ('"duration": 2.5e-1', 0.25)):
        text = "".join('{"ts": %.6f, "key": "k", %s}\n' % (1000 + at, field_text)
                       for at in (0, seconds - .001, seconds)).encode()
        status, out, err = sluice("replay", "-", "--limit", "concurrency 1 lease 1h", "--decisions", stdin=text)
        assert (status, allowed(out)) == (0, "101"), (field_text, out, err)
    for nothing in ('"duration": -1', '"duration": "soon"', '"duration": null', '"duration": "5 parsecs"'):
        status, _, err = sluice("replay", "-", "--limit", "concurrency 1 lease 1h",
                                stdin=b'{"ts": 1000, "key": "k", %s}\n' % nothing.encode())
        assert status == 2 and "--hold TIME" in err, nothing


ACCESS = b"".join(b'%s - %s [17/May/2015:10:05:%02d +0000] "GET / HTTP/1.1" 200 5\n' % line for line in (
    (b"10.0.0.1", b"alice", 1), (b"10.0.0.2", b"alice", 2), (b"10.0.0.1", b"alice", 3), (b"10.0.0.3", b"alice", 4),
    (b"10.0.0.3", b"bob", 5)))


def test_replayed_members(sluice, tmp_path):
    run = ["replay", "-", "--decisions"]
    out = sluice(*run, "--limit", "distinct 2/1d", "--key", "user", "--member", "ip", stdin=ACCESS)[1]
    assert allowed(out) == "11101"
    (tmp_path / "p.yaml").write_text("limits: [{name: a, key: user, limit: distinct 2/1d, of: ip}]\n")
    assert sluice(*run, "-c", "p.yaml", stdin=ACCESS)[1] == out
    # who is nobody is not counted: ops lines have no ip
    status, out, _ = sluice(*run, "--limit", "distinct 1/1d", "--member", "ip", stdin=ops("0 k", "1 k"))
    assert (status, out) == (0, "1 4294967295 0 0\n" * 2)


def test_replayed_parts(sluice):
    text = ops("0 k 7", "1 k 7", "2 k 7")
    out = sluice("replay", "-", "--limit", "sliding-log 10/1h", "--upto", stdin=text)[1]
    assert "\nadmitted cost 10, of 21\nin part       1 of the allowed\n" in out
    assert out.endswith("3 requests: 2 allowed, 1 denied, 1 key limited\n")


class ReservingTwin:
    """sliding-log Q/W whose charges are estimates until they are corrected, `wait` later and in their place."""

    def __init__(self, quota, window, estimate, wait):
        self.quota, self.window, self.estimate, self.wait = quota, window, estimate, wait
        self.charges, self.gone, self.held, self.known, self.debts = [], 0, 0, 0, 0

    def decide(self, ms, cost):
        while self.known < len(self.charges) and self.charges[self.known][0] + self.wait <= ms:
            charge = self.charges[self.known]
            self.held += charge[1] - self.estimate if self.known >= self.gone else 0
            self.debts += charge[1] > self.estimate
            charge[2], self.known = charge[1], self.known + 1
        while self.gone < len(self.charges) and self.charges[self.gone][0] <= ms - self.window:
            self.held -= self.charges[self.gone][2]
            self.gone += 1
        if self.held + self.estimate > self.quota:
            return "0"
        self.charges.append([ms, cost, self.estimate])
        self.held += self.estimate
        return "1"


def test_replayed_reservations_equal_the_twin(sluice, tmp_path):
    dice, ms, lines = random.Random(2612), 1_700_000_000_000, []
    for _ in range(3000):
        ms += dice.choice((0, 1, 5, 50, 400, 3000))
        lines.append((ms, dice.choice((1, 3, 10, 60, 61, 250))))
    text = ops(*(f"{ms} k {cost}" for ms, cost in lines))
    (tmp_path / "p.yaml").write_text(
        "limits:\n- {name: tokens, key: key, limit: sliding-log 500/10s, reserve: {estimate: 60, ttl: 5m}}\n"
        "- {name: calls, key: key, limit: sliding-log 1k/1ms}\n")  # a call each, whatever it costs
    for wait, given in ((0, "0s"), (2000, "2s"), (9999, "9999ms"), (30000, "30s")):
        twin = ReservingTwin(500, 10000, 60, wait)
        want = "".join(twin.decide(*line) for line in lines)
        assert "0" in want and "1" in want
        limits = ["--limit", "sliding-log 500/10s", "--estimate", "60"], ["-c", "p.yaml"]
        for how in limits:
            status, out, err = sluice("replay", "-", *how, "--commit-after", given, "--decisions", stdin=text)
            assert (status, allowed(out)) == (0, want), (wait, how, err)
            out = sluice("replay", "-", *how, "--commit-after", given, stdin=text)[1]
            count = want.count("1")
            asked, spent = sum(cost for _, cost in lines), sum(charge[1] for charge in twin.charges)
            assert f"\nadmitted cost {spent}, of {asked}\n" in out, (wait, how, out)
            assert f"\nreserved      {count} times, {60 * count} in all\n" in out
            assert f"\ncommitted     {count} times, {spent} in all; 0 had been returned before\n" in out
            debts = [charge[1] - 60 for charge in twin.charges if charge[1] > 60]
            assert f"\ndebts         {len(debts)} times, {sum(debts)} in all, above what was reserved\n" in out


def test_llm_tokens_reserved_and_committed(sluice):
    """The traffic of a language model: what a request costs is known two seconds later."""
    path = os.path.join(ROOT, "..", "shared", "data", "llm-tokens.ops.xz")
    if not os.path.exists(path):
        pytest.skip("llm-tokens.ops.xz is not beside the repository")
    with lzma.open(path, "rt") as f:
        lines = [(int(line.split()[0]), int(line.split()[2])) for line in f]
    twin = ReservingTwin(400000, 60000, 500, 2000)
    want = "".join(twin.decide(*line) for line in lines)
    run = ["replay", path, "--key", "key", "--limit", "sliding-log 400k/1m", "--commit-after", "2s"]
    status, out, _ = sluice(*run, "--estimate", "500", "--decisions")
    assert (status, allowed(out)) == (0, want)
    spent = [int(re.search(r"^admitted cost (\d+), of 26450535$", sluice(*run, "--estimate", n)[1], re.M)[1])
             for n in ("500", "14089")]
    assert spent[0] == sum(charge[1] for charge in twin.charges)
    assert spent[0] > spent[1], "the worst case admits less"


def test_reservations_that_nobody_commits_in_time(sluice, tmp_path):
    (tmp_path / "p.yaml").write_text(
        "limits: [{name: a, key: key, limit: sliding-log 10/1h, reserve: {estimate: 10, ttl: 1s}}]\n")
    run = ["replay", "-", "-c", "p.yaml", "--commit-after", "5s"]
    text = ops("0 k 3", "999 k 3", "1000 k 3", "9000 k 3")
    assert allowed(sluice(*run, "--decisions", stdin=text)[1]) == "1011", "back at 1000, not before"
    assert "\ncommitted     0 times, 0 in all; 3 had been returned before\n" in sluice(*run, stdin=text)[1]


def test_what_reservations_of_a_policy_do_not_go_with(sluice, tmp_path):
    (tmp_path / "p.yaml").write_text("limits: [{name: tokens, key: key, limit: 100/1m, reserve: true}]\n")
    (tmp_path / "plain.yaml").write_text("limits: [{name: calls, key: key, limit: 100/1m}]\n")
    (tmp_path / "terms.yaml").write_text("limits: [{name: calls, key: key, limit: 100/1m, count-denied: true}]\n")
    for args, says in (
            (["plain.yaml", "--estimate", "5"],
             "--estimate is for limits that say reserve: true, and plain.yaml has none"),
            (["p.yaml", "--upto"], "--upto does not go with tokens of p.yaml"),
            (["p.yaml", "--store", "redis://127.0.0.1:1"],
             "--store decides plain limits alone: tokens of p.yaml has reserve"),
            (["terms.yaml", "--store", "redis://127.0.0.1:1"],
             "--store decides plain limits alone: calls of terms.yaml has count-denied")):
        status, out, err = sluice("replay", "-", "-c", *args)
        assert (status, out) == (2, "") and says in err


def test_replayed_penalties(sluice, tmp_path):
    (tmp_path / "p.yaml").write_text("limits:\n- name: a\n  key: key\n  limit: sliding-log 1/1s\n"
                                     "  penalty: [5s, 10s] after 2 denials in 1s\n")
    lines = ops("0 k", "1 k", "2 k", "1500 k", "5001 k", "5002 k", "5003 k", "5004 k", "15003 k", "15004 k")
    # denied at 1 and 2: shut out until 5002; then admitted, denied at 5003 and 5004: until 15004
    assert allowed(sluice("replay", "-", "-c", "p.yaml", "--decisions", stdin=lines)[1]) == "1000010001"
    (tmp_path / "d.yaml").write_text("limits: [{name: a, key: key, limit: sliding-log 1/1s, count-denied: true}]\n")
    lines = ops("0 k", "900 k", "1800 k", "2700 k", "3700 k")
    assert allowed(sluice("replay", "-", "-c", "d.yaml", "--decisions", stdin=lines)[1]) == "10001"


def test_bench_acquires_and_counts_members(sluice):
    status, out, err = sluice("bench", "--limit", "concurrency 5 lease 1m", "--limit", "distinct 1000/1m", "--keys",
                              "100", "--rounds", "1")
    assert (status, err) == (0, "")
    rows = dict(re.findall(r"^(\S+) .* (\d+) %$", out, re.M))
    # 100 keys of 5 leases each, of which nobody releases one; members find room nearly always
    assert int(rows["concurrency"]) <= 1 and int(rows["distinct"]) > 80, out
