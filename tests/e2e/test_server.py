"""The server as a process: starting, refusing to start, deciding for many at once, ending with requests in hand."""

import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from harness import DEADLINE_S, Closed, Resp, encode, still_serves


def refused(sluice_bin, *args):
    """Starts a server that must not start: its standard error."""
    done = subprocess.run([sluice_bin, "serve", *args], capture_output=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 2 and done.stdout == b"", (done.returncode, done.stdout, done.stderr)
    return done.stderr.decode()


# ---- starting --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("door", ["--resp", "--http"])
def test_a_taken_port_is_one_line(sluice_bin, door):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        other = "--http" if door == "--resp" else "--resp"
        said = refused(sluice_bin, door, address, other, "127.0.0.1:0")
    assert said.count("\n") == 1 and said.startswith("sluice: ") and address in said


def test_a_port_taken_by_another_sluice(sluice_bin, server):
    one = server()
    said = refused(sluice_bin, "--resp", f"127.0.0.1:{one.resp_port}", "--http", "127.0.0.1:0")
    assert said.count("\n") == 1 and str(one.resp_port) in said
    still_serves(one)


@pytest.mark.parametrize("address", ["127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1", "nonsense", "127.0.0.1:x", "",
                                     "300.1.1.1:7379", "[::1", "unix:"])
def test_an_address_that_is_none(sluice_bin, address):
    said = refused(sluice_bin, "--resp", address, "--http", "127.0.0.1:0")
    assert said.startswith("sluice: ") and "ready" not in said


def test_a_missing_policy_file_is_one_line(sluice_bin, tmp_path):
    path = str(tmp_path / "nosuch.yaml")
    said = refused(sluice_bin, "-c", path)
    assert said.count("\n") == 1 and path in said and "No such file" in said


def test_a_folder_is_no_policy(sluice_bin, tmp_path):
    assert str(tmp_path) in refused(sluice_bin, "-c", str(tmp_path))


def test_a_bad_policy_tells_every_mistake_with_its_place(sluice_bin, tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("limits:\n  - name: a\n    key: ip\n    limit: 100/60x\n"
                    "  - name: a\n    kee: ip\n    limit: 1/1s\n")
    said = refused(sluice_bin, "-c", str(path))
    assert f"{path}:4:" in said and f"{path}:5:" in said and f"{path}:6:" in said and "key" in said
    assert "ready" not in said


@pytest.mark.parametrize("text", ["limits: []\n", "threads: 2\n", "users: []\n"])
def test_a_policy_may_say_little(server, text):
    one = server(text)
    still_serves(one)
    assert ("there are no limits" in one.stderr.text()) == ("limits: []" not in text)


@pytest.mark.parametrize("text", ["", "\n", "# nothing but this\n", "{}\n", "---\n", "threads: 2\nlimits:\n"])
def test_a_policy_may_not_say_nothing(sluice_bin, tmp_path, text):
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    said = refused(sluice_bin, "-c", str(path))
    assert ": expected a " in said and "ready" not in said


def test_an_unix_socket(sluice_bin, tmp_path):
    path = str(tmp_path / "sluice.sock")
    for _ in range(2):  # the second start finds the socket file of the first
        process = subprocess.Popen([sluice_bin, "serve", "--resp", f"unix:{path}", "--http", "127.0.0.1:0"],
                                   stderr=subprocess.PIPE)
        try:
            lines = iter(process.stderr.readline, b"")
            assert any(line == b"sluice: ready\n" for line in lines), "it did not start"
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
                client.sendall(b"PING\r\n")
                assert client.recv(100) == b"+PONG\r\n"
        finally:
            process.terminate()
            assert process.wait(DEADLINE_S) == 0
            process.stderr.close()


# ---- many at once ----------------------------------------------------------------------------------------------------

def admitted_over(one, doors, each, words):
    """How many of the same check are admitted when `doors` connections send `each` of them, pipelined by 25."""
    counts, start = [], threading.Barrier(doors)

    def ask():
        with one.resp() as client:
            allowed = 0
            start.wait()
            for _ in range(each // 25):
                client.send(encode(*words) * 25)
                allowed += sum(client.read()[0] for _ in range(25))
            counts.append(allowed)

    threads = [threading.Thread(target=ask) for _ in range(doors)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counts) == doors
    return sum(counts)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("limit", ["fixed-window", "sliding-window", "sliding-log", "token-bucket",
                                   "sliding-buckets"])
def test_exactly_the_quota_over_many_connections(server, threads, limit):
    notation = {"sliding-buckets": "sliding-buckets 1000/3660d precision 30d",
                "token-bucket": "token-bucket 1/3660d burst 1000"}.get(limit, f"{limit} 1000/3660d")
    one = server(f"threads: {threads}\n")
    assert admitted_over(one, 24, 100, ["SLUICE.CHECK", "one key", 1, notation]) == 1000
    mixed = ["SLUICE.CHECK", "a", 1, notation, "fixed-window 700/3660d", "KEY", "b", "fixed-window 600/3660d"]
    assert admitted_over(one, 12, 100, mixed) == 600
    with one.resp() as client:
        assert client.call("SLUICE.PEEK", "a", 1, notation)[2] == 400
        assert client.call("SLUICE.PEEK", "a", 1, "fixed-window 700/3660d")[2] == 100


def test_both_doors_count_in_one_counter(server):
    one = server("threads: 2\nlimits:\n  - {name: u, key: user, limit: fixed-window 10/3660d}\n")
    with one.resp() as resp, one.http() as http:
        for n in range(5):
            assert resp.call("SLUICE.CHECK", "k", 1, "fixed-window 10/3660d")[2] == 9 - 2 * n
            body = {"key": "k", "limits": ["fixed-window 10/3660d"]}
            assert http.post("/v1/check", body)[2]["remaining"] == 8 - 2 * n
            assert resp.call("SLUICE.ADMIT", 1, "user", "k")[2] == 9 - 2 * n
            assert http.post("/v1/admit", {"attributes": {"user": "k"}})[2]["remaining"] == 8 - 2 * n
        assert resp.call("SLUICE.CHECK", "k", 1, "fixed-window 10/3660d")[0] == 0
        assert http.post("/v1/admit", {"attributes": {"user": "k"}})[0] == 429


def test_ten_thousand_in_one_batch_are_answered_in_order(server):
    one = server()
    commands, kinds = [], []
    for i in range(10000):
        kind = (i * 7919) % 5
        kinds.append(kind)
        commands.append([encode("SLUICE.CHECK", "batch", 1, "fixed-window 4000000/3660d"), encode("ECHO", i),
                         encode("NOSUCH", i), encode("SLUICE.ADMIT", 1, "user", i), b"PING %d\r\n" % i][kind])
    with one.resp() as client:
        sender = threading.Thread(target=client.send, args=(b"".join(commands),))
        sender.start()
        left = 4000000
        for i, kind in enumerate(kinds):
            reply = client.read()
            if kind == 0:
                left -= 1
                assert reply[:3] == [1, 4000000, left], i
            elif kind == 2:
                assert str(reply) == f"ERR unknown command 'NOSUCH', with args beginning with: '{i}' "
            elif kind == 3:
                assert reply == [1, 4294967295, 4294967295, 0, 0, 0, -1, b""]
            else:
                assert reply == str(i).encode()
        sender.join()


def test_pipelined_http_is_answered_in_order(server):
    one = server()
    body = b'{"key":"pipe","limits":["fixed-window 5000/3660d"]}'
    request = b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with socket.create_connection(("127.0.0.1", one.http_port), DEADLINE_S) as sock:
        sender = threading.Thread(target=sock.sendall, args=(request * 1000 + b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
                                                             b"Connection: close\r\n\r\n",))
        sender.start()
        got = b""
        while part := sock.recv(65536):
            got += part
        sender.join()
    left = [int(m) for m in re.findall(rb'"limit":"fixed-window 5000/3660d","quota":5000,"remaining":(\d+)', got)]
    assert left[::1] == list(range(4999, 3999, -1)) and got.count(b"HTTP/1.1 200 OK") == 1001


# ---- ending ----------------------------------------------------------------------------------------------------------

def test_a_last_answer_is_followed_by_the_end(server):
    """The client waits for the end, and says nothing more itself."""
    one = server()
    with socket.create_connection(("127.0.0.1", one.http_port), DEADLINE_S) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        begin, data = time.monotonic(), b""
        while part := client.recv(65536):
            data += part
        assert data.startswith(b"HTTP/1.1 200") and time.monotonic() - begin < DEADLINE_S / 2


def test_who_reads_late_gets_every_answer(server):
    """More than the kernel takes at once: the rest is sent, and what was asked behind it is answered, as it is read."""
    one = server()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.settimeout(DEADLINE_S)
        client.connect(("127.0.0.1", one.http_port))
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 400)
        time.sleep(0.3)
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        data = bytearray()
        while part := client.recv(1 << 20):
            data += part
        assert data.count(b"HTTP/1.1 200") == 401


def test_sigterm_answers_what_it_has_and_ends_with_0(server):
    one = server("threads: 2\n")
    clients = [one.resp() for _ in range(20)]
    batch = encode("SLUICE.CHECK", "term", 1, "fixed-window 1000000/3660d") * 500
    for client in clients:
        client.send(batch)
    first = [client.read()[0] for client in clients]  # all have arrived, and are being worked on
    one.ask_to_end()
    rest = [client.read()[0] for client in clients for _ in range(499)]
    assert first == [1] * 20 and rest == [1] * 20 * 499
    for client in clients:
        with pytest.raises((Closed, ConnectionResetError)):
            client.read()
        client.close()
    one.stop()
    with pytest.raises(ConnectionRefusedError):
        Resp(one.resp_port)


def test_sigterm_answers_http_in_hand(server):
    one = server()
    body = b'{"key":"k","limits":["10000/1m"],"peek":true}'
    request = b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with socket.create_connection(("127.0.0.1", one.http_port), DEADLINE_S) as sock:
        sock.sendall(request * 100)
        got = sock.recv(65536)
        one.ask_to_end()
        while part := sock.recv(65536):
            got += part
    assert got.count(b"HTTP/1.1 200 OK") == 100
    one.stop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_idle_and_half_sent_connections_do_not_keep_it_from_ending(server, number):
    one = server()
    clients = [one.resp() for _ in range(10)]
    clients[0].send(b"*3\r\n$12\r\nSLUICE.CHE")
    clients[1].sock.setblocking(False)
    assert clients[1].sock.send(encode("ECHO", "x" * 60000) * 400) > 0  # its answers are never read
    with socket.create_connection(("127.0.0.1", one.http_port)) as http:
        http.sendall(b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        still_serves(one)
        started = time.monotonic()
        one.ask_to_end(number)
        one.stop()
        assert time.monotonic() - started < 15
    for client in clients:
        client.close()


def test_a_second_signal_does_no_harm(server):
    one = server()
    with one.resp() as client:
        client.call("PING")
        for _ in range(3):
            one.ask_to_end()
    one.stop()


def test_sigpipe_does_not_end_it(server):
    one = server()
    one.process.send_signal(signal.SIGPIPE)
    still_serves(one)
