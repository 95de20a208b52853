"""What nobody should send, through real sockets, on both doors; and each time the server goes on serving others.

Malformed calls get an error that says what was wrong, and change nothing. Connections that read slowly, die in the
middle, or come by the thousand cost themselves and nobody else.
"""

import json
import os
import random
import resource
import socket
import struct
import threading
import time

import pytest

from harness import Closed, RespError, encode, raw_exchange, still_serves, wait_until

LIMIT = "fixed-window 5/3660d"

# ---- RESP: whole commands that make no sense -------------------------------------------------------------------------

BAD_COMMANDS = {
    "no argument": ["SLUICE.CHECK"],
    "no limit": ["SLUICE.CHECK", "k", 1],
    "peek without a limit": ["SLUICE.PEEK", "k", 1],
    "refund without a limit": ["SLUICE.REFUND", "k", 1],
    "reset without a limit": ["SLUICE.RESET", "k"],
    "cost negative": ["SLUICE.CHECK", "k", "-1", LIMIT],
    "cost with a plus": ["SLUICE.CHECK", "k", "+1", LIMIT],
    "cost above 32 bits": ["SLUICE.CHECK", "k", "4294967296", LIMIT],
    "cost above 64 bits": ["SLUICE.CHECK", "k", "18446744073709551617", LIMIT],
    "cost with a fraction": ["SLUICE.CHECK", "k", "1.0", LIMIT],
    "cost empty": ["SLUICE.CHECK", "k", "", LIMIT],
    "cost is text": ["SLUICE.CHECK", "k", "one", LIMIT],
    "cost in hex": ["SLUICE.CHECK", "k", "0x1", LIMIT],
    "cost with a NUL": ["SLUICE.CHECK", "k", b"1\x00", LIMIT],
    "limit empty": ["SLUICE.CHECK", "k", 1, ""],
    "limit with a NUL": ["SLUICE.CHECK", "k", 1, b"10/1s\x00"],
    "limit of 60,000 bytes": ["SLUICE.CHECK", "k", 1, "1" * 60000],
    "limit of 60,000 nested brackets": ["SLUICE.CHECK", "k", 1, "[" * 60000],
    "limit with CR LF": ["SLUICE.CHECK", "k", 1, "10/1s\r\n:1"],
    "limit negative": ["SLUICE.CHECK", "k", 1, "-10/1s"],
    "limit overflows": ["SLUICE.CHECK", "k", 1, "99999999999999999999/1s"],
    "window overflows": ["SLUICE.CHECK", "k", 1, "10/99999999999999999999w"],
    "good limit, then a bad one": ["SLUICE.CHECK", "k", 1, LIMIT, "x"],
    "seventeen limits": ["SLUICE.CHECK", "k", 1, *[LIMIT] * 17],
    "a thousand limits": ["SLUICE.CHECK", "k", 1, *[LIMIT] * 1000],
    "KEY without a key": ["SLUICE.CHECK", "k", 1, LIMIT, "KEY"],
    "KEY without a limit": ["SLUICE.CHECK", "k", 1, LIMIT, "KEY", "b"],
    "AT without an instant": ["SLUICE.CHECK", "k", 1, "AT"],
    "AT without a limit": ["SLUICE.CHECK", "k", 1, "AT", "0"],
    "AT negative": ["SLUICE.CHECK", "k", 1, "AT", "-1", LIMIT],
    "AT overflows": ["SLUICE.CHECK", "k", 1, "AT", "18446744073709551616", LIMIT],
    "AT overflows in nanoseconds": ["SLUICE.CHECK", "k", 1, "AT", "18446744073709551615", LIMIT],
    "AT is text": ["SLUICE.CHECK", "k", 1, "AT", "now", LIMIT],
    "AT twice": ["SLUICE.CHECK", "k", 1, "AT", "0", "AT", "0", LIMIT],
    "AT after a limit": ["SLUICE.CHECK", "k", 1, LIMIT, "AT", "0"],
    "admit with nothing": ["SLUICE.ADMIT"],
    "admit, a name without a value": ["SLUICE.ADMIT", 1, "user"],
    "admit, no name": ["SLUICE.ADMIT", 1, "", "x"],
    "admit, a name of 65 bytes": ["SLUICE.ADMIT", 1, "n" * 65, "x"],
    "admit, a bad cost": ["SLUICE.ADMIT", "-1", "user", "x"],
    "explain with nothing": ["SLUICE.EXPLAIN"],
    "explain, a name without a value": ["SLUICE.EXPLAIN", 1, "user"],
    "throttle with nothing": ["CL.THROTTLE"],
    "throttle, too few": ["CL.THROTTLE", "k", 15, 30],
    "throttle, too many": ["CL.THROTTLE", "k", 15, 30, 60, 1, 1],
    "throttle, no numbers": ["CL.THROTTLE", "k", "a", "b", "c"],
    "throttle, burst below 0": ["CL.THROTTLE", "k", -1, 30, 60],
    "throttle, rate 0": ["CL.THROTTLE", "k", 15, 0, 60],
    "throttle, rate negative": ["CL.THROTTLE", "k", 15, -30, 60],
    "throttle, period 0": ["CL.THROTTLE", "k", 15, 30, 0],
    "throttle, period negative": ["CL.THROTTLE", "k", 15, 30, -60],
    "throttle, burst above 64 bits": ["CL.THROTTLE", "k", "9223372036854775808", 30, 60],
    "throttle, the largest burst": ["CL.THROTTLE", "k", "9223372036854775807", 2, 3],
    "throttle, quantity overflows": ["CL.THROTTLE", "k", 15, 30, 60, "9223372036854775808"],
    "throttle, the least quantity": ["CL.THROTTLE", "k", 15, 30, 60, "-9223372036854775808"],
}


@pytest.mark.parametrize("words", BAD_COMMANDS.values(), ids=[n.replace(" ", "-") for n in BAD_COMMANDS])
def test_malformed_commands_are_refused_and_change_nothing(shared_server, words):
    with shared_server.resp() as client:
        client.send(encode(*words) + encode("SLUICE.RESET", "k", LIMIT))
        error = client.read()
        assert isinstance(error, RespError) and str(error).startswith("ERR "), error
        assert len(str(error)) < 1000
        assert client.read() == 0  # nothing had been charged, and the connection goes on


def test_at_is_refused_unless_the_operator_allows_it(server):
    one = server()
    with one.resp() as client, pytest.raises(RespError, match="^ERR .*client-time"):
        client.call("SLUICE.CHECK", "k", 1, "AT", 0, LIMIT)
    with one.http() as client:
        status, _, body = client.post("/v1/check", {"key": "k", "limits": [LIMIT], "at": 0})
        assert status == 400 and "client-time" in body["detail"]
    still_serves(one)


def test_any_bytes_make_a_key(shared_server):
    keys = [b"", b"\x00", b"\x00\x00", b"\xff" * 1024, b"\r\n", b"$5\r\n", "schlüssel".encode(), b"a\x00b", b"a"]
    with shared_server.resp() as client:
        for key in keys:
            assert client.call("SLUICE.CHECK", b"bytes:" + key[:1018], 1, "fixed-window 1/3660d")[0] == 1
        for key in keys:
            assert client.call("SLUICE.CHECK", b"bytes:" + key[:1018], 1, "fixed-window 1/3660d")[0] == 0
    with shared_server.http() as client:
        status, _, body = client.post("/v1/check", {"key": "bytes:\u0000", "limits": ["fixed-window 1/3660d"]})
        assert status == 429 and body["limits"][0]["key"] == "bytes:\u0000"


# ---- HTTP: broken requests -------------------------------------------------------------------------------------------

def post(body, path=b"/v1/check", extra=b""):
    return (b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + extra +
            b"Content-Length: %d\r\n\r\n" % len(body) + body)


GOOD = json.dumps({"key": "k", "limits": [LIMIT], "peek": True}).encode()
HEAD = b"POST /v1/check HTTP/1.1\r\nHost: x\r\n"

BROKEN_HTTP = {  # bytes -> statuses that are right; 0 stands for a connection closed without an answer
    "both lengths": (HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400}),
    "length negative": (HEAD + b"Content-Length: -5\r\n\r\n", {400}),
    "length with a plus": (HEAD + b"Content-Length: +5\r\n\r\nabcde", {400}),
    "length overflows": (HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n", {400, 413}),
    "length of 2^63": (HEAD + b"Content-Length: 9223372036854775808\r\n\r\n", {400, 413}),
    "two lengths": (HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", {400}),
    "length announced above the bound": (HEAD + b"Content-Length: 1000000\r\n\r\n", {413}),
    "chunks above the bound": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n" +
                               (b"4000\r\n" + b"x" * 0x4000 + b"\r\n") * 8, {413}),
    "chunk size overflows": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", {400, 413}),
    "chunk size is no number": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", {400}),
    "an unknown transfer encoding": (HEAD + b"Transfer-Encoding: gzip\r\n\r\n", {400, 501}),
    "no such method": (b"BREW /v1/check HTTP/1.1\r\nHost: x\r\n\r\n", {400, 405, 501}),
    "no such version": (b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", {400, 505}),
    "no version": (b"GET /\r\n\r\n", {400, 505}),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {0, 400, 405, 505}),
    "a Redis command": (b"*1\r\n$4\r\nPING\r\n", {400}),
    "a TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), {400}),
    "NUL in the target": (b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n", {400}),
    "NUL in a header": (b"GET /healthz HTTP/1.1\r\nHost: x\x00y\r\n\r\n", {400}),
    "bare LF": (b"GET /healthz HTTP/1.1\nHost: x\n\n", {400}),
    "a folded header": (b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", {200, 400}),
    "a space before the colon": (b"GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n", {400}),
    "a target of 100 KB": (b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", {414}),
    "a header of 100 KB": (b"GET /healthz HTTP/1.1\r\nA: " + b"a" * 100000 + b"\r\n\r\n", {431}),
    "ten thousand headers": (b"GET /healthz HTTP/1.1\r\n" + b"A: b\r\n" * 10000 + b"\r\n", {431}),
    "a body cut off": (HEAD + b"Content-Length: 500\r\n\r\n{", {0, 400, 408}),
    "a head cut off": (b"GET /heal", {0, 400, 408}),
    "a chunk cut off": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n50\r\n{", {0, 400, 408}),
    "a good one, then a bad one": (post(GOOD) + b"\x00\x01\x02\r\n\r\n", {200}),
}


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


@pytest.mark.parametrize("data,statuses", BROKEN_HTTP.values(), ids=[n.replace(" ", "-") for n in BROKEN_HTTP])
def test_broken_http_is_refused(shared_server, data, statuses):
    answer = raw_exchange(shared_server.http_port, data)
    assert status_of(answer) in statuses, answer[:300]
    if status_of(answer) >= 400:
        assert b"\r\nConnection: close\r\n" in answer and b"application/problem+json" in answer
    still_serves(shared_server)


BAD_BODIES = {
    "not JSON": b"hello",
    "empty": b"",
    "not an object": b"[]",
    "null": b"null",
    "a number": b"1",
    "cut off": b'{"key":"k","limits":["1/1s"]',
    "two documents": GOOD + GOOD,
    "a trailing comma": b'{"key":"k","limits":["1/1s"],}',
    "30,000 brackets": b"[" * 30000,
    "30,000 brackets as a limit": b'{"key":"k","limits":' + b"[" * 30000 + b"]" * 30000 + b"}",
    "30,000 objects deep": b'{"a":' * 10000,
    "not UTF-8": b'{"key":"\xff\xfe","limits":["1/1s"]}',
    "half a surrogate": b'{"key":"\\ud800","limits":["1/1s"]}',
    "NUL bytes": b"\x00" * 100,
    "no key": b'{"limits":["1/1s"]}',
    "no limits": b'{"key":"k"}',
    "limits empty": b'{"key":"k","limits":[]}',
    "limits is text": b'{"key":"k","limits":"1/1s"}',
    "limits of numbers": b'{"key":"k","limits":[1]}',
    "seventeen limits": json.dumps({"key": "k", "limits": [LIMIT] * 17}).encode(),
    "a limit without its limit": b'{"key":"k","limits":[{"key":"b"}]}',
    "a limit with too much": b'{"key":"k","limits":[{"key":"b","limit":"1/1s","burst":5}]}',
    "key is a number": b'{"key":1,"limits":["1/1s"]}',
    "key is null": b'{"key":null,"limits":["1/1s"]}',
    "cost negative": b'{"key":"k","cost":-1,"limits":["1/1s"]}',
    "cost above 32 bits": b'{"key":"k","cost":4294967296,"limits":["1/1s"]}',
    "cost above 64 bits": b'{"key":"k","cost":18446744073709551617,"limits":["1/1s"]}',
    "cost with a fraction": b'{"key":"k","cost":1.5,"limits":["1/1s"]}',
    "cost with an exponent": b'{"key":"k","cost":1e3,"limits":["1/1s"]}',
    "cost beyond a double": b'{"key":"k","cost":1e999,"limits":["1/1s"]}',
    "cost is text": b'{"key":"k","cost":"1","limits":["1/1s"]}',
    "cost is null": b'{"key":"k","cost":null,"limits":["1/1s"]}',
    "peek is text": b'{"key":"k","peek":"yes","limits":["1/1s"]}',
    "an unknown member": b'{"key":"k","limit":["1/1s"]}',
    "a bad limit": b'{"key":"k","limits":["100/60x"]}',
    "a limit with a NUL": b'{"key":"k","limits":["100/60s\\u0000"]}',
    "at negative": b'{"key":"k","at":-1,"limits":["1/1s"]}',
    "at overflows": b'{"key":"k","at":18446744073709551615,"limits":["1/1s"]}',
    "at overflows in nanoseconds": b'{"key":"k","at":9223372036854775807,"limits":["1/1s"]}',
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=[n.replace(" ", "-") for n in BAD_BODIES])
def test_bad_bodies_are_refused_with_what_would_be_right(shared_server, body):
    for path in ("/v1/check", "/v1/refund"):
        with shared_server.http() as client:
            status, headers, problem = client.post(path, body)
            assert status == 400 and dict(headers)["Content-Type"] == "application/problem+json"
            assert problem["status"] == 400 and problem["title"] and problem["detail"] and problem["type"]
            assert client.post("/v1/reset", {"key": "k", "limits": [LIMIT, "1/1s"]})[2] == {"reset": 0}


@pytest.mark.parametrize("body", [
    {}, {"attributes": []}, {"attributes": {"user": 1}}, {"attributes": {"user": None}}, {"attributes": {"": "x"}},
    {"attributes": {"n" * 65: "x"}}, {"attributes": {"user": ["x"]}},
    {"attributes": {f"a{i}": "x" for i in range(1000)}}, {"attributes": {}, "cost": -1},
    {"attributes": {}, "key": "k"}])
def test_bad_attributes_are_refused(shared_server, body):
    with shared_server.http() as client:
        status, _, problem = client.post("/v1/admit", body)
        assert status == 400 and problem["detail"]


def test_a_response_cannot_be_split(shared_server):
    """What a client names stands in headers only where it can do no harm."""
    with shared_server.http() as client:
        for limit in ("10/1s\r\nX-Evil: 1", "10/1s\nX: 1"):
            status, headers, _ = client.post("/v1/check", {"key": "k\r\nX-Evil: 1", "limits": [limit]})
            assert status == 400 and not any(name.lower().startswith("x") for name, _ in headers)
        status, headers, _ = client.post("/v1/check", {"key": "k\r\nX-Evil: 1", "limits": [LIMIT], "peek": True})
        assert status == 200 and not any(name.lower().startswith("x") for name, _ in headers)


# ---- chance ----------------------------------------------------------------------------------------------------------

SEED = int(os.environ.get("SLUICE_SEED", "20261121"))


def mutated(dice, data):
    """Some bytes changed, cut out, doubled or put in."""
    data = bytearray(data)
    for _ in range(dice.randint(1, 6)):
        i, j = sorted(dice.randrange(len(data) + 1) for _ in range(2))
        choice = dice.randrange(5)
        if choice == 0 and data:
            data[dice.randrange(len(data))] = dice.randrange(256)
        elif choice == 1:
            del data[i:j]
        elif choice == 2:
            data[i:i] = data[i:j]
        elif choice == 3:
            data[i:i] = dice.choice([b"\x00", b"\r\n", b"-1", b"99999999999", b"$", b"*", b"\xff", b'"', b"{", b"AT"])
        elif data:
            data[i:j] = bytes(dice.randrange(256) for _ in range(min(j - i, 20)))
    return bytes(data)


@pytest.mark.parametrize("door", ["resp", "http"])
def test_random_damage(shared_server, door):
    dice = random.Random(f"{SEED} {door}")
    print(f"SLUICE_SEED={SEED}")
    good = {"resp": [encode("SLUICE.CHECK", "k", 1, "AT", 5, "10/1m", "KEY", "b", "token-bucket 5/1s burst 9"),
                     encode("SLUICE.ADMIT", 1, "user", "alice", "ip", "1.2.3.4"), b'PING "hello" \'x\'\r\n',
                     encode("HELLO", 3, "AUTH", "default", "x", "SETNAME", "y"), encode("COMMAND", "INFO", "ping")],
            "http": [post(GOOD), post(GOOD, b"/v1/refund"),
                     b"GET /v1/explain?user=a%20b&ip=1 HTTP/1.1\r\nHost: x\r\n\r\n",
                     post(b'{"attributes":{"user":"x"},"cost":2}', b"/v1/admit"),
                     HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)]}[door]
    port = shared_server.resp_port if door == "resp" else shared_server.http_port
    for _ in range(400):
        data = b"".join(mutated(dice, dice.choice(good)) for _ in range(dice.randint(1, 3)))
        raw_exchange(port, data)  # ends: whatever it was, the server closes once we have half-closed
    still_serves(shared_server)


# ---- connections that behave badly -----------------------------------------------------------------------------------

def resident_bytes(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_slow_reader_costs_bounded_memory_and_nobody_else(server):
    one = server("store: {pretouch: false}\n")
    still_serves(one)
    before = resident_bytes(one.process.pid)
    count, payload = 2000, b"x" * 60000  # 120 MB of answers
    with one.resp() as slow:
        def ask():
            for _ in range(count):
                slow.send(encode("ECHO", payload))
        sender = threading.Thread(target=ask)
        sender.start()
        for _ in range(50):
            still_serves(one)
        assert resident_bytes(one.process.pid) - before < 32 << 20
        for _ in range(count):
            assert slow.read() == payload
        sender.join()
    still_serves(one)


def test_slow_writers_hold_nobody_up(server):
    """A byte now and then, on two hundred connections, on both doors."""
    one = server()
    slow = [one.resp().sock for _ in range(100)] + [socket.create_connection(("127.0.0.1", one.http_port))
                                                    for _ in range(100)]
    try:
        for round_ in range(5):
            for i, sock in enumerate(slow):
                sock.sendall((b"*1\r\n$4\r\nPING\r\n" if i < 100 else b"GET /healthz HTTP/1.1\r\n")[round_:round_ + 1])
            still_serves(one)
    finally:
        for sock in slow:
            sock.close()


def test_connections_cut_in_the_middle(server):
    """Resets while answers are under way, half-sent requests, half-closes: all of it leaves no file open."""
    one = server()
    still_serves(one)
    before = open_files(one.process.pid)
    for i in range(300):
        port = one.resp_port if i % 2 else one.http_port
        data = (encode("SLUICE.CHECK", "cut", 1, "10/1s") if i % 2 else post(GOOD)) * 200
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setblocking(False)
        try:
            sock.send(data[: len(data) - i % 7])
        except BlockingIOError:
            pass
        if i % 3 == 0:  # a reset, not an orderly end
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif i % 3 == 1:
            sock.shutdown(socket.SHUT_WR)
        sock.close()
    still_serves(one)
    wait_until(lambda: open_files(one.process.pid) <= before, "the closed connections' files were kept")


def test_half_closed_connections_get_their_answers(shared_server):
    """As `printf ... | nc` does: all answers come although the asker has said that it is done."""
    many = encode("SLUICE.PEEK", "half", 1, "10/3660d") * 5000
    answer = raw_exchange(shared_server.resp_port, many)
    assert answer.count(b"*7\r\n:1\r\n:10\r\n:10\r\n:0\r\n:0\r\n:0\r\n:0\r\n") == 5000
    answer = raw_exchange(shared_server.http_port, post(GOOD) * 200)
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 200


def test_a_thousand_connections_open_and_close(server):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    one = server(open_files=4096)
    still_serves(one)
    before = open_files(one.process.pid)
    for _ in range(2):
        clients = [one.resp() for _ in range(1000)]
        for client in clients:
            client.send(encode("SLUICE.CHECK", "thousand", 1, "100000/3660d"))
        assert all(client.read()[0] == 1 for client in clients)
        for client in clients:
            client.close()
        wait_until(lambda: open_files(one.process.pid) <= before, "connections that were closed were kept")
    with one.resp() as client:
        assert client.call("SLUICE.PEEK", "thousand", 1, "100000/3660d")[2] == 98000


def test_out_of_files_the_rest_is_served(server):
    """64 files for more clients than that: who is connected is served, who comes too late is turned away or waits, and
    when room is made, newcomers are served again. Who has been idle for a second, on a slow machine, gives way."""
    one = server("threads: 1\n", open_files=64)
    clients, begun = [], time.monotonic()
    try:
        for _ in range(150):
            clients.append(one.resp())
        for client in clients[:20]:
            try:
                assert client.call("PING") == b"PONG"
            except (Closed, OSError):
                assert time.monotonic() - begun >= 1
        slow = time.monotonic() - begun >= 1
        answered = 0
        for client in clients[20:]:
            client.sock.settimeout(0.05 if answered > 20 else 5)
            try:
                answered += client.call("PING") == b"PONG"
            except (Closed, OSError):
                continue
        assert 10 <= answered and one.alive() and (answered < 130 or slow)
        for client in clients[:20]:
            try:
                assert client.call("SLUICE.CHECK", "files", 1, "1000/3660d")[0] == 1
            except (Closed, OSError):
                assert slow
    finally:
        for client in clients:
            client.close()

    def serves_again():
        try:
            with one.resp(timeout=2) as client:
                return client.call("PING") == b"PONG"
        except (Closed, OSError):
            return False

    wait_until(serves_again, "newcomers were not served after others had left")
    still_serves(one)


def test_a_flood_of_keys_frees_nobody_and_stays_within_its_memory(server):
    """A store far too small for the keys that come: what was denied stays denied, all others are answered."""
    one = server("store: {memory: 1MiB}\nthreads: 1\n")
    with one.resp() as client:
        victims = [f"victim:{i}" for i in range(200)]
        for key in victims:
            assert client.call("SLUICE.CHECK", key, 3, "fixed-window 3/3660d")[:3] == [1, 3, 0]
        before = resident_bytes(one.process.pid)
        answers = {"decided": 0, "refused": 0}
        for start in range(0, 200000, 500):
            client.send(b"".join(encode("SLUICE.CHECK", f"flood:{start + i}", 1, "fixed-window 3/3660d")
                                 for i in range(500)))
            for _ in range(500):
                reply = client.read()
                answers["refused" if isinstance(reply, RespError) else "decided"] += 1
                assert isinstance(reply, RespError) or len(reply) == 7
        assert answers["decided"] > 10000, answers
        for key in victims:
            assert client.call("SLUICE.PEEK", key, 1, "fixed-window 3/3660d")[:3] == [0, 3, 0]
        assert resident_bytes(one.process.pid) - before < 8 << 20
    assert one.alive()
