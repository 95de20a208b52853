"""sluice tail: lines for people and lines of JSON, how it ends, and what it does when the server goes away."""

import json
import os
import re
import signal
import subprocess
import threading

import pytest

from harness import DEADLINE_S, RespError, wait_until
from test_tail import POLICY, flood, hold_to_schema, readers_of

LINE = re.compile(r"^\d\d:\d\d:\d\d\.\d{3}Z  (allowed|denied|would deny|would allow|failed open|unanswered) +(.*)$")


class Tailing:
    """A `sluice tail` whose lines are read as they come."""

    def __init__(self, binary, port, *args, **environment):
        self.process = subprocess.Popen([binary, "tail", "--server", f"127.0.0.1:{port}", *args], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env={**os.environ, **environment})
        self.lines, self.errors = [], []
        self.threads = [threading.Thread(target=lambda to=to, of=of: to.extend_from(of), daemon=True)
                        for to, of in ((Collected(self.lines), self.process.stdout),
                                       (Collected(self.errors), self.process.stderr))]
        for thread in self.threads:
            thread.start()

    def wait_for(self, count):
        return wait_until(lambda: len(self.lines) >= count and self.lines, f"{count} lines: {self.lines}")

    def end(self, number=signal.SIGINT):
        """The exit status, after a signal."""
        if number is not None:
            self.process.send_signal(number)
        status = self.process.wait(DEADLINE_S)
        for thread in self.threads:
            thread.join(DEADLINE_S)
        return status


class Collected:
    def __init__(self, lines):
        self.lines = lines

    def extend_from(self, stream):
        for line in stream:
            self.lines.append(line.rstrip("\n"))


@pytest.mark.parametrize("number", (signal.SIGINT, signal.SIGTERM))
def test_lines_for_people(server, sluice_bin, number):
    one = server(POLICY)
    tail = Tailing(sluice_bin, one.resp_port)
    wait_until(lambda: readers_of(one) == 1, "nobody reads")
    with one.resp() as r, one.http() as h:
        for _ in range(3):
            r.call("SLUICE.ADMIT", 1, "user", "ann")
        r.call("SLUICE.CHECK", "u:1\n\x1b[31m", 30, "10/1s")
        h.post("/v1/admit", {"attributes": {"user": "ben", "method": "get", "ip": "192.0.2.7"}, "cost": 2})
        r.call("SLUICE.ADMIT", 1, "user", "ann", "ip", "192.0.2.9", "path", "/orgs/7/search")
    lines = [LINE.match(line).groups() for line in tail.wait_for(12)]
    assert [verdict for verdict, _ in lines[:7]] == ["allowed", "allowed", "allowed", "would deny", "denied",
                                                     "would deny", "denied"]
    assert lines[0][1] == "login  user=ann  1 of 2 left"
    assert re.fullmatch(r"login  user=ann  0 of 2 left, again in (1 h|59 m.*)", lines[4][1])
    assert lines[6][1] == (r"sliding-window 10/1s  u:1\x0a\x1b[31m  10 of 10 left, never: the cost is above the quota"
                           "  cost 30")
    assert lines[7][1] == "login  user=ben  0 of 2 left  cost 2  GET  192.0.2.7"
    assert ("would allow", "api  ip=192.0.2.9  1000 of 1000 left  /orgs/{org}/search  192.0.2.9") in lines
    assert tail.end(number) == 0 and tail.errors == []


def test_a_bound_is_told_as_one(server, sluice_bin):
    one = server("limits:\n" + "".join(f"  - {{name: l{i}, key: ip, limit: {i + 5}/1h}}\n" for i in range(20)))
    tail = Tailing(sluice_bin, one.resp_port, "--denied")
    wait_until(lambda: readers_of(one) == 1, "nobody reads")
    with one.resp() as r:
        r.call("SLUICE.ADMIT", 1, "ip", "192.0.2.7")
    lines = [LINE.match(line).groups() for line in tail.wait_for(1)]
    assert lines == [("denied", "l16  ip=192.0.2.7  0 of 21 left, never (bound: limits)  192.0.2.7")]
    assert tail.end() == 0


@pytest.mark.parametrize("before", (signal.SIG_IGN, signal.SIG_DFL), ids=["nohup", "as ever"])
def test_the_end_of_its_terminal(server, sluice_bin, before):
    """`nohup sluice tail > file &` goes on when the terminal is closed."""
    one = server(POLICY)
    ours = signal.signal(signal.SIGHUP, before)
    try:
        tail = Tailing(sluice_bin, one.resp_port)
    finally:
        signal.signal(signal.SIGHUP, ours)
    wait_until(lambda: readers_of(one) == 1, "nobody reads")
    if before == signal.SIG_DFL:
        assert tail.end(signal.SIGHUP) == 0
        return
    tail.process.send_signal(signal.SIGHUP)
    with one.resp() as resp:
        resp.call("SLUICE.ADMIT", 1, "user", "ann")
    tail.wait_for(1)
    assert tail.end() == 0


def test_lines_of_json_and_options(server, sluice_bin):
    one = server(POLICY)
    tails = [Tailing(sluice_bin, one.resp_port, "--json", *args) for args in
             ([], ["--limit", "login", "--denied"], ["-k", "user=ben", "--count", "2"], ["--limit=7/1m"])]
    wait_until(lambda: readers_of(one) == 4, "not all read")
    with one.resp() as r:
        for user in ("ann", "ann", "ann", "ben"):
            r.call("SLUICE.ADMIT", 1, "user", user)
        r.call("SLUICE.CHECK", "k", 1, "7/1m")
    wanted = [9, 1, 2, 1]
    for tail, count in zip(tails, wanted):
        lines = [hold_to_schema(json.loads(line)) for line in tail.wait_for(count)]
        assert len(lines) == count and "skipped" not in lines
    assert tails[2].end(None) == 0  # by itself
    assert [x["key"] for x in map(json.loads, tails[2].lines)] == ["user=ben"] * 2
    for tail in (tails[0], tails[1], tails[3]):
        assert tail.end() == 0 and tail.errors == []


def test_how_many_more_there_were(server, sluice_bin):
    one = server(POLICY)
    people, lines = Tailing(sluice_bin, one.resp_port), Tailing(sluice_bin, one.resp_port, "--json")
    wait_until(lambda: readers_of(one) == 2, "not all read")
    total = 20000
    with one.resp() as r:
        flood(r, total)

    def told():
        shown = [x for x in people.lines if LINE.match(x)]
        more = [int(m[1]) for m in (re.match(r"\.\.\. (\d+) more are not shown$", x) for x in people.lines) if m]
        return len(shown) + sum(more) == total and more
    wait_until(told, "not all is told")
    skipped = wait_until(lambda: sum("skipped" not in json.loads(x) or json.loads(x)["skipped"] for x in lines.lines)
                         == total, "not all is told")
    assert skipped and people.end() == lines.end() == 0


def run(binary, *args, **environment):
    done = subprocess.run([binary, "tail", *args], capture_output=True, text=True, timeout=DEADLINE_S,
                          env={**os.environ, **environment})
    return done.returncode, done.stdout, done.stderr


def test_misuse_and_refusals(server, sluice_bin):
    one = server(POLICY)
    at = ("--server", f"127.0.0.1:{one.resp_port}")
    for args, why in ((["x"], "it takes no words"), (["--limit", ""], "--limit"), (["--count", "0"], "--count"),
                      (["--jsn"], "--json"), (["--server", "127.0.0.1:1"], "connecting: Connection refused"),
                      ([*at, "--limit", "logn"], "did you mean login?")):
        status, out, err = run(sluice_bin, *args)
        assert status == 2 and out == "" and why in err, (args, err)
    with open("/dev/full", "w", encoding="utf-8") as full:
        tail = subprocess.Popen([sluice_bin, "tail", *at], stdout=full, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: readers_of(one) == 1, "nobody reads")
        with one.resp() as r:
            r.call("SLUICE.CHECK", "k", 1, "7/1m")
        assert "standard output: No space left" in tail.communicate(timeout=DEADLINE_S)[1] and tail.returncode == 2


def test_logging_in(server, sluice_bin):
    done = subprocess.run([sluice_bin, "token", "robot", "--role", "read"], capture_output=True, text=True, check=True)
    token, line = done.stdout.strip().split("\n")
    one = server(f"users:\n  {line}\n" + POLICY)
    at = ("--server", f"127.0.0.1:{one.resp_port}")
    status, _, err = run(sluice_bin, *at)
    assert status == 2 and "NOAUTH" in err
    tail = Tailing(sluice_bin, one.resp_port, SLUICE_PASSWORD=token)
    with one.resp() as r:
        r.call("AUTH", token)
        with pytest.raises(RespError, match="NOPERM"):
            r.call("SLUICE.CHECK", "k", 1, "7/1m")
    headers = {"Authorization": "Bearer " + token}
    with one.http() as h:
        wait_until(lambda: b"\nsluice_tail_readers 1\n" in h.ask("GET", "/metrics", headers=headers)[2], "nobody reads")
    assert tail.end() == 0 and tail.errors == []


def test_the_server_goes_away_and_comes_back(server, sluice_bin, tmp_path):
    """Upgraded it is asked again at once; stopped for good it is an error, after ten seconds."""
    one = server(f"store: {{file: {tmp_path}/counters, memory: 1MiB}}\n" + POLICY)
    tail = Tailing(sluice_bin, one.resp_port, "--json")
    wait_until(lambda: readers_of(one) == 1, "nobody reads")
    with one.resp() as r:
        r.call("SLUICE.CHECK", "before", 1, "7/1m")
    tail.wait_for(1)
    os.kill(one.process.pid, signal.SIGUSR2)
    wait_until(lambda: "has taken over" in one.stderr.text(), "no process took over: " + one.stderr.text())
    after = int(re.search(r"process (\d+) has taken over", one.stderr.text())[1])
    try:
        wait_until(lambda: readers_of(one) == 1, "it does not ask again")
        with one.resp() as r:
            r.call("SLUICE.CHECK", "after", 1, "7/1m")
        assert [json.loads(x)["key"] for x in tail.wait_for(2)] == ["before", "after"]
    finally:
        os.kill(after, signal.SIGTERM)
    assert one.process.wait(DEADLINE_S) == 0
    assert tail.end(None) == 2
    assert "retrying" in tail.errors[0] and "Connection refused" in tail.errors[-1], tail.errors
