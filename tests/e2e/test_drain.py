"""The way to the end: red first, everything served on, then no new connections; nothing that was asked is lost."""

import signal
import socket
import subprocess
import time

import pytest

from harness import DEADLINE_S, encode, still_serves, wait_until
from traffic import Traffic

LIMITS = "limits:\n  - {name: load, key: user, limit: fixed-window 1000000/3660d}\n"


def is_red(one):
    with one.http() as http:
        return http.ask("GET", "/readyz")[0] == 503


def asked_ready(sluice_bin, port, *more):
    done = subprocess.run([sluice_bin, "ready", "--server", f"127.0.0.1:{port}", *more], capture_output=True, text=True,
                          timeout=DEADLINE_S, check=False)
    return done.returncode, done.stdout + done.stderr


def test_ready_says_what_readyz_says(server, sluice_bin):
    one = server("drain: 9m\n" + LIMITS)
    port, resp_port = one.http_port, one.ports("resp")[0]
    assert asked_ready(sluice_bin, port) == (0, "ready\n")
    status, told = asked_ready(sluice_bin, resp_port)
    assert status == 2 and told.startswith(f"sluice ready: 127.0.0.1:{resp_port}: expected HTTP, got '-ERR ")
    one.ask_to_end()
    wait_until(lambda: is_red(one), "/readyz red")
    assert asked_ready(sluice_bin, port) == (1, "not ready: the server is shutting down: ask another\n")
    one.process.send_signal(signal.SIGTERM)
    assert one.process.wait(DEADLINE_S) == 0
    assert asked_ready(sluice_bin, port) == (2, f"sluice ready: 127.0.0.1:{port}: connecting: Connection refused\n")


@pytest.mark.parametrize("policy, args", [("drain: 2s\n", []), ("drain: 9m\n", ["--drain", "2s"])])
def test_it_ends_when_the_time_is_over(server, policy, args):
    one = server(policy + LIMITS, args)
    with one.resp() as resp:
        assert resp.call("SLUICE.ADMIT", "1", "user", "a")[0] == 1
        begin = time.monotonic()
        one.ask_to_end()
        one.stderr.wait_for(lambda line: line == "sluice: stopping: not ready any more, serving for another 2 s")
        assert one.process.wait(DEADLINE_S) == 0
        assert 1.9 < time.monotonic() - begin
        assert resp.drain() == b""


def test_red_first_then_the_end(server):
    one = server("drain: 9m\n" + LIMITS)
    with one.resp() as resp, one.http() as http:
        assert http.ask("GET", "/readyz")[0] == 200
        status, _, body = http.ask("GET", "/healthcheck")
        assert (status, body) == (200, b"OK")
        one.ask_to_end()
        wait_until(lambda: is_red(one), "/readyz red")
        # each thread hears of it by itself, and this connection may be another one's
        wait_until(lambda: http.ask("GET", "/healthcheck")[0] == 500, "/healthcheck red")
        status, _, body = http.ask("GET", "/healthcheck")
        assert (status, body["detail"]) == (500, "the server is shutting down: ask another")
        still_serves(one)  # over new connections too
        assert resp.call("SLUICE.ADMIT", "1", "user", "a")[0] == 1
        status, headers, _ = http.ask("GET", "/readyz")
        assert status == 503 and ("Connection", "close") in headers
        assert http.ask("GET", "/healthz")[0] == 200
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(DEADLINE_S) == 0
        assert resp.drain() == b""


def test_a_second_signal_cuts_it_short(server):
    one = server("drain: 9m\n" + LIMITS)
    with one.resp() as resp:
        one.ask_to_end()
        wait_until(lambda: is_red(one), "/readyz red")
        resp.send(encode("SLUICE.ADMIT", "1", "user", "a") * 3)
        assert resp.read()[0] == 1
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(DEADLINE_S) == 0
        assert resp.drain().count(b"\r\n$4\r\nload") == 2  # what had been asked is answered


def test_without_a_drain_time_it_ends_at_once(server):
    one = server(LIMITS)
    one.stop()
    assert "shutting down" not in one.stderr.text() and "serving for another" not in one.stderr.text()


def test_kept_connections_leave_without_a_loss(server):
    """While it is red, every HTTP answer says that the connection ends: whoever heeds that loses no request."""
    one = server("drain: 9m\n" + LIMITS)
    with Traffic(one, "bob", [1000000], kinds=["keepalive", "fresh-http"]) as traffic:
        one.ask_to_end()
        wait_until(lambda: is_red(one), "/readyz red")
        time.sleep(0.3)  # for their next requests
        said = traffic.stop()
    assert [caller["failures"] for caller in said] == [[], []]
    assert said[0]["reconnects"] > 0
    one.process.send_signal(signal.SIGTERM)
    assert one.process.wait(DEADLINE_S) == 0


def whole_answers(data):
    """How many answers with a Content-Length there are, all of them whole."""
    count = 0
    while data:
        head, end, rest = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        assert end and len(rest) >= length, f"answer {count} ends after {len(rest)} of {length} bytes"
        data = rest[length:]
        count += 1
    return count


def test_answers_that_are_not_read_yet_are_waited_for(server):
    one = server(LIMITS)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(DEADLINE_S)
        client.connect(("127.0.0.1", one.http_port))
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 400)
        data = client.recv(1)
        one.ask_to_end()
        time.sleep(0.5)  # several times what a worker takes to look who is left
        while part := client.recv(1 << 20):
            data += part
        assert whole_answers(data) > 0
    assert one.process.wait(DEADLINE_S) == 0


def test_reload_and_red_go_together(server):
    one = server("drain: 9m\n" + LIMITS)
    one.ask_to_end()
    wait_until(lambda: is_red(one), "/readyz red")
    one.process.send_signal(signal.SIGHUP)
    one.stderr.wait_for(lambda line: line.startswith("sluice: loaded "))
    assert is_red(one)
    one.process.send_signal(signal.SIGUSR2)
    one.stderr.wait_for(lambda line: line.startswith("sluice: no upgrade: "))
    one.process.send_signal(signal.SIGTERM)
    assert one.process.wait(DEADLINE_S) == 0


@pytest.mark.parametrize("bad", ["1", "x", "11m", "-1s", "99999999999999999999s", ""])
def test_a_drain_that_is_none(sluice_bin, bad):
    done = subprocess.run([sluice_bin, "serve", "--drain", bad], capture_output=True, text=True, timeout=DEADLINE_S,
                          check=False)
    assert done.returncode == 2 and "expected a duration such as 30s, up to 10m" in done.stderr
