"""The top keys at every door: SLUICE.TOP, GET /v1/top, sluice top, once and live in a terminal of its own."""

import re
import subprocess
import time

import pytest
from harness import DEADLINE_S, RespError, in_one_window
from terminal import Terminal

POLICY = """
near-limit: 20%
limits:
  - {name: login, when: {path: /login}, key: user, limit: sliding-log 5/1m}
  - {name: seen, when: {path: /seen}, key: user, limit: sliding-log 1/1m, observe: true}
"""


def admit(client, user, path="/login", times=1):
    return [client.call("SLUICE.ADMIT", 1, "user", user, "path", path) for _ in range(times)]


@in_one_window(60)
def test_who_is_denied_and_who_is_near(server):
    one, begun_ms = server(POLICY, args=["--threads", "2"]), time.time() * 1000
    with one.resp() as a, one.resp() as b, one.http() as h:
        for client in (a, b):  # on both threads, most likely: one list all the same
            admit(client, "ann", times=6)
            admit(client, b"\x1b[2J\xff", times=4)
            admit(client, "ann", "/seen", 3)
            client.call("SLUICE.CHECK", "k", 3, "fixed-window 4/1h")
        denied = a.call("SLUICE.TOP")
        assert [(x[0], x[1], x[2], x[3]) for x in denied] == [
            (b"login", b"user=ann", 7, 0), (b"login", b"user=\x1b[2J\xff", 3, 0), (b"fixed-window 4/1h", b"k", 1, 0)]
        assert all(begun_ms - 1000 < x[4] < time.time() * 1000 + 1000 for x in denied)
        assert a.call("SLUICE.TOP", "denied", "COUNT", 1) == denied[:1]
        near = {(x[0], x[1]): x[2] for x in a.call("SLUICE.TOP", "NEAR", "COUNT", 100)}
        assert near[b"login", b"user=ann"] == 2 and near[b"seen", b"user=ann"] == 1

        status, _, body = h.ask("GET", "/v1/top?kind=denied&count=2")
        assert status == 200 and body["kind"] == "denied"
        assert body["entries"] == [
            {"limit": "login", "named": True, "key": "user=ann", "count": 7, "error": 0, "last_ms": denied[0][4]},
            {"limit": "login", "named": True, "key": "user=\x1b[2J\ufffd", "key_hex": b"user=\x1b[2J\xff".hex(),
             "count": 3, "error": 0, "last_ms": denied[1][4]}]
        assert [x["limit"] for x in h.ask("GET", "/v1/top?kind=near")[2]["entries"]].count("seen") == 1
        assert h.ask("GET", "/v1/top")[2]["entries"][2]["named"] is False


@pytest.mark.parametrize("words, says", [
    (["most"], "'most': expected DENIED, NEAR, SHADOW, CANDIDATE or COUNT"), (["COUNT"], "COUNT needs a number"),
    (["COUNT", "0"], "1 to 100"), (["NEAR", "COUNT", "101"], "1 to 100"), (["COUNT", "x\r\n"], "1 to 100")])
def test_what_is_no_question_is_refused(server, words, says):
    with server().resp() as r:
        with pytest.raises(RespError, match=re.escape(says)):
            r.call("SLUICE.TOP", *words)
        assert r.call("SLUICE.TOP") == []


@pytest.mark.parametrize("query", ["kind=most", "count=0", "count=101", "count=", "kin=denied", "kind=denied&x=1",
                                   "count"])
def test_a_query_that_is_none_is_refused(server, query):
    with server().http() as h:
        status, _, body = h.ask("GET", "/v1/top?" + query)
        assert status == 400 and body["detail"]
        assert h.ask("GET", "/v1/top?")[2] == {"kind": "denied", "entries": []}


# ---- sluice top ------------------------------------------------------------------------------------------------------

def run(sluice_bin, one, *args):
    return subprocess.run([sluice_bin, "top", "--server", f"127.0.0.1:{one.resp_port}", *args], capture_output=True,
                          text=True, timeout=DEADLINE_S)


@in_one_window(60)
def test_one_list_where_there_is_no_terminal(server, sluice_bin):
    one = server(POLICY)
    assert "no key has been denied lately" in run(sluice_bin, one, "--once").stdout
    with one.resp() as r:
        admit(r, "ann", times=8)
        admit(r, b"\x1b[2J\xff\n", times=7)
    done = run(sluice_bin, one)
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert re.fullmatch(r" +3 +0 .* login +user=ann", lines[1])
    assert re.fullmatch(r" +2 +0 .* login +user=\\x1b\[2J\\xff\\x0a", lines[2])
    assert len(lines) == 3
    assert len(run(sluice_bin, one, "--count", "1").stdout.splitlines()) == 2
    assert "user=ann" in run(sluice_bin, one, "--near").stdout
    assert run(sluice_bin, one, "--count", "0").returncode == 2
    assert run(sluice_bin, one, "word").returncode == 2
    gone = subprocess.run([sluice_bin, "top", "--server", "127.0.0.1:1"], capture_output=True, text=True)
    assert gone.returncode == 2 and "127.0.0.1:1" in gone.stderr


@in_one_window(60)
def test_a_list_of_the_longest_keys_is_whole(server, sluice_bin):
    one = server("near-limit: 20%\n")
    with one.resp() as r:
        for i in range(150):
            r.call("SLUICE.CHECK", b"\xff" * 1000 + b"%03d" % i, 2, "fixed-window 1/1h")
    lines = run(sluice_bin, one, "--count", "100").stdout.splitlines()[1:]
    asked = len(r_top(one))
    assert asked > 64 and len(lines) == asked
    assert all(re.search(r"  (\\xff){1000}\d{3}$", line) for line in lines)


def r_top(one):
    with one.resp() as r:
        return r.call("SLUICE.TOP", "DENIED", "COUNT", 100)


def live(sluice_bin, one):
    """sluice top in a terminal of its own."""
    return Terminal([sluice_bin, "top", "--server", f"127.0.0.1:{one.resp_port}"])


def test_a_live_view_follows_what_happens(server, sluice_bin):
    one = server(POLICY)
    terminal = live(sluice_bin, one)
    terminal.until(rb"\x1b\[\?1049h")
    terminal.until(rb"no key has been denied lately")
    with one.resp() as r:
        admit(r, "ann", times=9)
        admit(r, "x" * 200, times=9)
        terminal.until(rb" [1-4] +0 .*login +user=ann")  # 4, less with each second that it takes to be shown
        page = terminal.until(rb"\x1b\[H(?s:(.*?))\x1b\[J").group(1)
        assert max(len(x) for x in re.sub(rb"\x1b\[\w", b"", page).split(b"\r\n")) <= 80
        admit(r, "ann", times=50)
        terminal.until(rb"denied [1-9]\d*/s")
        terminal.resize(5, 40)  # one key fits
        terminal.until(rb"\x1b\[H[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\nq ends")
        terminal.type(b"n")
        terminal.until(rb"keys near their limits")
    terminal.type(b"q")
    assert terminal.status() == 0
    assert b"\x1b[?25h\x1b[?1049l" in terminal.seen  # the cursor and the screen are given back


def test_control_c_ends_the_view_and_gives_the_terminal_back(server, sluice_bin):
    terminal = live(sluice_bin, server(POLICY))
    terminal.until(rb"q ends")
    terminal.type(b"\x03")
    assert terminal.status() == 0
    assert b"\x1b[?25h\x1b[?1049l" in terminal.seen


def test_a_server_that_goes_ends_the_view(server, sluice_bin):
    one = server(POLICY)
    terminal = live(sluice_bin, one)
    terminal.until(rb"q ends")
    one.stop()
    assert terminal.status() == 2
    assert re.search(rb"\x1b\[\?1049l.*sluice top: ", terminal.seen, re.S)
