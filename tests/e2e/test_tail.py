"""Decisions as they happen: SLUICE.TAIL in both protocols and GET /v1/tail in both forms, what a line says, what
filters let through, and that readers who hang, flood, lose their role or come in thousands cost the others nothing."""

import hashlib
import hmac
import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest

from harness import DEADLINE_S, ROOT, Closed, Resp, RespError, encode, raw_exchange, still_serves, wait_until
from redis_world import redises  # noqa: F401

POLICY = """
trusted-proxies: [127.0.0.1]
limits:
  - {name: login, key: user, limit: sliding-log 2/1h}
  - {name: api, key: ip, limit: 1000/1h, when: {path: ["/orgs/{org}/search", "/x*"]}, optional: true}
  - {name: seen, key: user, limit: sliding-log 1/1h, observe: true, optional: true}
  - {name: tried, key: plan, limit: 10/1h, candidate: 1/1h, optional: true}
"""
READERS = 128


def schema_of(name):
    with open(os.path.join(ROOT, "docs", name), encoding="utf-8") as file:
        return json.load(file)


SCHEMA = schema_of("tail.schema.json")
TYPES = {"string": str, "integer": int, "boolean": bool}


def property_of(said):
    """A property of the schema, with what it refers to in another file."""
    if "$ref" not in said:
        return said
    name, path = said["$ref"].split("#/properties/")
    return {**schema_of(name)["properties"][path], **said}


def hold_to_schema(line):
    """A line is one of the schema's two, in what of JSON Schema ours uses. Returns it."""
    said = SCHEMA["oneOf"]["skipped" in line]
    assert set(said["required"]) <= set(line) <= set(said["properties"]), line
    for name, value in line.items():
        wanted = property_of(said["properties"][name])
        assert type(value) is TYPES[wanted.get("type", "string")] and value in wanted.get("enum", [value]), (name, line)
        assert re.search(wanted.get("pattern", ""), value if isinstance(value, str) else ""), name
        if type(value) is int:
            assert wanted.get("minimum", value) <= value <= wanted.get("maximum", value), name
    return line


class Tail:
    """A reader over RESP. `next` is the next line of a decision; what it was told to have missed is summed up."""

    def __init__(self, one, *words, protocol=3):
        self.resp, self.skipped = one.resp(), 0
        if protocol == 3:
            self.resp.call("HELLO", 3)
        assert self.resp.call("SLUICE.TAIL", *words) == b"OK"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.resp.close()

    def any(self):
        name, text = self.resp.read()
        assert name == b"sluice.tail"
        line = hold_to_schema(json.loads(text))
        self.skipped += line.get("skipped", 0)
        return line

    def next(self):
        end = time.monotonic() + DEADLINE_S  # it is told again and again that the server lives
        while "skipped" in (line := self.any()):
            assert time.monotonic() < end, "no decision is told"
        return line


class Stream:
    """A reader over HTTP, on a raw socket: head, then lines out of chunks."""

    def __init__(self, one, query="", headers="", version="1.1", method="GET"):
        self.sock = socket.create_connection(("127.0.0.1", one.http_port), 20)
        self.sock.sendall(f"{method} /v1/tail{query} HTTP/{version}\r\nHost: localhost\r\n{headers}\r\n".encode())
        self.file = self.sock.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        while (line := self.file.readline()) not in (b"\r\n", b""):
            name, value = line.decode().strip().split(": ", 1)
            self.headers[name.lower()] = value

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.sock.close()

    def chunk(self):
        size = int(self.file.readline(), 16)
        data = self.file.read(size)
        assert self.file.read(2) == b"\r\n"
        return data

    def next(self):
        end = time.monotonic() + DEADLINE_S
        while True:
            assert time.monotonic() < end, "no decision is told"
            data = self.chunk()
            if data == b"":
                return None
            if "event-stream" in self.headers["content-type"]:
                assert data.startswith(b"data: ") and data.endswith(b"\n\n")
                data = data[6:]
            line = hold_to_schema(json.loads(data))
            if "skipped" not in line:
                return line


def readers_of(one):
    with one.http() as h:
        return int(re.search(rb"^sluice_tail_readers (\d+)", h.ask("GET", "/metrics")[2], re.M)[1])


def who(line):
    return line["limit"], line["key"], line["allowed"]


# ---- what a line says, in each form ----------------------------------------------------------------------------------

@pytest.mark.parametrize("protocol", (2, 3))
def test_over_resp(server, protocol):
    one = server(POLICY)
    with Tail(one, protocol=protocol) as tail, one.resp() as r:
        tail.resp.send(encode("PING"))  # as with MONITOR, other commands are answered meanwhile
        assert tail.resp.read() == b"PONG"
        r.call("SLUICE.ADMIT", 1, "user", "ann")
        kind = tail.resp.line()
        assert kind == (b"*2" if protocol == 2 else b">2")
        tail.resp.buffer = kind + b"\r\n" + tail.resp.buffer
        line = tail.next()
        assert line == {**line, "limit": "login", "key": "user=ann", "cost": 1, "allowed": True, "quota": 2,
                        "remaining": 1, "retry_after_ms": 0, "reset_after_ms": 3600000, "transport": "resp",
                        "observed": False}
        assert who(tail.next()) == ("seen", "user=ann", True)
        assert tail.resp.call("SLUICE.TAIL", "KEY", "user=ben") == b"OK"  # takes the place of the first
        r.call("SLUICE.ADMIT", 1, "user", "ann")
        r.call("SLUICE.ADMIT", 1, "user", "ben")
        assert tail.next()["key"] == "user=ben"
        assert readers_of(one) == 1
        tail.resp.send(encode("RESET"))
        while (answer := tail.resp.read()) != b"RESET":
            assert answer[0] == b"sluice.tail"
        assert readers_of(one) == 0
        r.call("SLUICE.ADMIT", 1, "user", "ben")
        assert tail.resp.call("PING") == b"PONG"
        assert tail.resp.call("SLUICE.TAIL") == b"OK"
        tail.resp.send(encode("QUIT"))
        assert tail.resp.drain().endswith(b"+OK\r\n")
    wait_until(lambda: readers_of(one) == 0, "a reader is left")


@pytest.mark.parametrize("events", (False, True))
def test_over_http(server, events):
    one = server(POLICY)
    accept = "Accept: text/html, text/event-stream\r\n" if events else ""
    with Stream(one, "?key=user%3Dann", accept) as stream, one.http() as h:
        assert stream.status == 200 and stream.headers["content-type"] == (
            "text/event-stream" if events else "application/x-ndjson")
        assert stream.headers["cache-control"] == "no-store" and "content-length" not in stream.headers
        h.ask("POST", "/v1/admit", {"attributes": {"user": "ann", "method": "post", "path": "/a", "ip": "192.0.2.7"},
                                    "cost": 2}, {"X-Request-Id": "r-7", "traceparent": "00-1-2-3"})
        line = stream.next()
        assert line == {**line, "limit": "login", "cost": 2, "remaining": 0, "transport": "http", "method": "POST",
                        "address": "192.0.2.7", "request_id": "r-7", "traceparent": "00-1-2-3"}
        # the next request ends the stream, and the connection lives on
        stream.sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while stream.next() is not None:
            pass
        assert stream.file.readline() == b"HTTP/1.1 200 OK\r\n"
    wait_until(lambda: readers_of(one) == 0, "a reader is left")


def test_other_ways_to_ask_over_http(server):
    one = server(POLICY)
    with Stream(one, version="1.0") as stream, one.resp() as r:
        r.call("SLUICE.ADMIT", 1, "user", "ann")
        assert "transfer-encoding" not in stream.headers and stream.headers["connection"] == "close"
        assert who(json.loads(stream.file.readline())) == ("login", "user=ann", True)
        stream.sock.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b"HTTP/1.1" not in stream.file.read()
    with Stream(one, headers="Connection: close\r\n") as stream, one.resp() as r:
        r.call("SLUICE.ADMIT", 1, "user", "ann")
        assert who(stream.next()) == ("login", "user=ann", True)
        stream.sock.sendall(b"x")
        assert stream.file.read().endswith(b"0\r\n\r\n")
    with Stream(one, method="HEAD") as stream:
        assert stream.status == 200
        stream.sock.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert stream.file.readline() == b"HTTP/1.1 200 OK\r\n"
    # two at once: the second ends the first, which has had no line
    both = b"GET /v1/tail HTTP/1.1\r\nHost: localhost\r\n\r\n" + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    got = raw_exchange(one.http_port, both)
    assert got.count(b"HTTP/1.1 200 OK") == 2 and b"\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK" in got
    wait_until(lambda: readers_of(one) == 0, "a reader is left")


def test_each_limit_has_its_own_line(server):
    one = server(POLICY)
    with Tail(one) as tail, one.resp() as r, one.http() as h:
        for user in ("ann", "ann", "ann"):
            r.call("SLUICE.ADMIT", 1, "user", user)
        lines = [tail.next() for _ in range(6)]
        assert [who(x) for x in lines] == [("login", "user=ann", True), ("seen", "user=ann", True),
                                           ("login", "user=ann", True), ("seen", "user=ann", False),
                                           ("login", "user=ann", False), ("seen", "user=ann", False)]
        assert [x["observed"] for x in lines] == [False, True] * 3 and lines[4]["retry_after_ms"] > 0
        for _ in range(2):
            r.call("SLUICE.ADMIT", 1, "plan", "pro")
        lines = [tail.next() for _ in range(3)]
        assert [(x["limit"], x["allowed"], x.get("candidate")) for x in lines] == [
            ("tried", True, None), ("tried", True, None), ("tried", False, True)]
        assert lines[2]["quota"] == 1 and lines[2]["observed"]
        r.call("SLUICE.ADMIT", 1, "user", "ann", "ip", "192.0.2.9", "path", "/orgs/7/search")
        lines = [tail.next() for _ in range(3)]
        assert lines[1] == {**lines[1], "limit": "api", "allowed": True, "request_denied": True,
                            "route": "/orgs/{org}/search", "address": "192.0.2.9"}
        r.call("SLUICE.CHECK", "u:1", 3, "10/1m", "5/1m")
        r.call("SLUICE.CHECK", "u:1", 9, "10/1m", "5/1m")
        assert [who(tail.next()) for _ in range(2)] == [("sliding-window 5/1m", "u:1", True),
                                                        ("sliding-window 5/1m", "u:1", False)]
        r.call("SLUICE.CHECK", "user=cid", 1, "policy:login")
        assert who(tail.next()) == ("login", "user=cid", True)
        r.call("SLUICE.ACQUIRE", "l", 1, "concurrency 1 lease 1m")
        h.post("/v1/reserve", {"key": "l", "limits": ["7/1m"], "ttl_ms": 1000})
        h.ask("GET", "/v1/auth/nginx", headers={"X-Original-URI": "/xy", "X-Original-Method": "GET",
                                                "X-Forwarded-For": "192.0.2.3"})
        assert [tail.next()["limit"] for _ in range(3)] == ["concurrency 1 lease 1m", "sliding-window 7/1m", "api"]
        # no decisions, so no lines: peeks, refunds, resets, explanations, requests that are refused
        r.call("SLUICE.PEEK", "u:1", 1, "10/1m")
        r.call("SLUICE.REFUND", "u:1", 1, "10/1m")
        r.call("SLUICE.RESET", "u:1", "10/1m")
        r.call("SLUICE.EXPLAIN", 1, "user", "ann")
        with pytest.raises(RespError):
            r.call("SLUICE.CHECK", "u:1", 1, "10/x")
        r.call("SLUICE.CHECK", "end", 1, "10/1m")
        assert tail.next()["key"] == "end"


@pytest.mark.parametrize("choice", ("clear", "hash", "cut"))
def test_keys_as_the_log_shows_them(server, choice):
    secret = "a secret of sixteen bytes and more"
    more = {"clear": "keys: clear", "hash": f'keys: hash, keys-secret: "{secret}"', "cut": "keys: cut"}[choice]
    one = server(f"log: {{{more}}}\n" + POLICY)
    shown = {"clear": "user=alice", "cut": "user=al*",
             "hash": "hmac:" + hmac.new(secret.encode(), b"user=alice", hashlib.sha256).hexdigest()[:16]}[choice]
    with Tail(one, "KEY", "user=alice", "LIMIT", "login") as tail, one.resp() as r:
        r.call("SLUICE.ADMIT", 1, "user", "alice")
        assert tail.next()["key"] == shown


def test_strange_keys(server):
    one = server(POLICY)
    with Tail(one) as tail, Stream(one) as stream, one.resp() as r:
        for key in (b"\xff\x00\r\n", "ä\u202e".encode(), b"", b"k" * 1024, b'"\\'):
            r.call("SLUICE.CHECK", key, 1, "10/1m")
            for line in (tail.next(), stream.next()):
                shown = bytes.fromhex(line["key_hex"]) if "key_hex" in line else line["key"].encode()
                assert shown == key


# ---- filters ---------------------------------------------------------------------------------------------------------

def test_filters(server):
    one = server(POLICY)
    rows = [(["LIMIT", "login"], "limit=login"), (["KEY", "user=ann", "DENIED"], "key=user%3Dann&denied=true"),
            (["DENIED"], "denied=true"), (["LIMIT", "10/1m"], "limit=10%2F1m"),
            (["limit", "fixed-window 10/60s", "key", "a b"], "limit=fixed-window+10/60s&key=a+b&denied=false"),
            (["KEY", "ip=2001:DB8::5"], "key=ip%3D2001%3Adb8%3A%3A5%2F")]
    wanted = [{("login", "user=ann", True), ("login", "user=ann", False), ("login", "user=ben", True)},
              {("login", "user=ann", False), ("seen", "user=ann", False)},
              {("login", "user=ann", False), ("seen", "user=ann", False)},
              {("sliding-window 10/1m", "a b", True), ("sliding-window 10/1m", "c", True)},
              {("fixed-window 10/1m", "a b", True)}, {("api", "ip=2001:db8::/64", True)}]
    tails = [Tail(one, *words) for words, _ in rows]
    streams = [Stream(one, "?" + query) for _, query in rows[:-1]]
    with one.resp() as r:
        for _ in range(3):
            r.call("SLUICE.ADMIT", 1, "user", "ann")
        r.call("SLUICE.ADMIT", 1, "user", "ben")
        r.call("SLUICE.CHECK", "a b", 1, "10/1m")
        r.call("SLUICE.CHECK", "c", 1, "sliding-window 10/60s")
        r.call("SLUICE.CHECK", "a b", 1, "fixed-window 10/1m")
        r.call("SLUICE.CHECK", "c", 1, "fixed-window 10/1m")
        r.call("SLUICE.ADMIT", 1, "ip", "2001:db8::77", "path", "/x")
        r.call("SLUICE.ADMIT", 1, "ip", "192.0.2.1", "path", "/x")
    for tail, want in [*zip(tails, wanted), *zip(streams, wanted)]:
        got = set()
        while got != want:
            line = who(tail.next())
            assert line in want, (line, want)
            got.add(line)
        tail.__exit__()


def test_bad_input(server):
    one = server(POLICY)
    rows = [(["X"], "x=1", "expected"), (["LIMIT"], None, "after it"), (["KEY"], None, "after it"),
            (["LIMIT", "logn"], "limit=logn", "did you mean login?"), (["LIMIT", ""], "limit=", "none of that name"),
            (["LIMIT", "10/"], "limit=10/", "it has login, api, seen, tried"),
            (["LIMIT", "x" * 2000], "limit=" + "x" * 2000, "none of that name"),
            (["DENIED", "yes"], "denied=yes", "expected"),
            (None, "limit=%zz", "hex digits"), (None, "limit=" + "k" * 4000, "none of that name")]
    with one.resp() as r, one.http() as h:
        for words, query, why in rows:
            if words is not None:
                with pytest.raises(RespError, match=re.escape(why)):
                    r.call("SLUICE.TAIL", *words)
            if query is not None:
                status, _, body = h.ask("GET", "/v1/tail?" + query)
                assert status == 400 and why in body["detail"], body
        status, headers, _ = h.ask("POST", "/v1/tail", {})
        assert status == 405 and dict(headers)["Allow"] == "GET, HEAD"
        assert readers_of(one) == 0
        assert r.call("PING") == b"PONG"


# ---- a busy stream ---------------------------------------------------------------------------------------------------

def flood(r, count, key="often", limit="1/1h"):
    """So many checks, pipelined."""
    batch = encode("SLUICE.CHECK", key, 1, limit) * 1000
    for _ in range(count // 1000):
        r.send(batch)
        for _ in range(1000):
            r.read()


def test_all_is_told_or_counted_and_what_is_rare_is_found(server):
    one = server(POLICY)
    rare = 40
    with Tail(one) as everything, Tail(one, "KEY", "rare") as seldom, one.resp() as r:
        for i in range(rare):
            flood(r, 1000)
            r.call("SLUICE.CHECK", "rare", 1, f"{i + 1}/1h")
        got = [seldom.next()["quota"] for _ in range(rare)]
        assert got == list(range(1, rare + 1)) and seldom.skipped == 0
        lines = 0
        while lines + everything.skipped < rare * 1001:
            lines += "skipped" not in everything.any()
        assert lines + everything.skipped == rare * 1001 and 100 <= lines < rare * 1001
    with one.http() as h:
        text = h.ask("GET", "/metrics")[2].decode()
        assert f"sluice_tail_lines_total {lines + rare}\n" in text
        assert f"sluice_tail_skipped_total {rare * 1001 - lines}\n" in text


def test_a_reader_is_told_that_the_server_lives(server):
    one = server(POLICY)
    begun = time.monotonic()
    with Tail(one) as tail:
        assert tail.any()["skipped"] == 0
        assert 2 < time.monotonic() - begun


@pytest.mark.parametrize("write", ("1s", "1d"))
def test_a_stream_that_nobody_reads_is_closed(server, write):
    """By connections.write, or, where that is long, by the bound of streams. Those beside it go on."""
    one = server(f"connections: {{write: {write}}}\n" + POLICY)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", one.resp_port))
    sock.sendall(encode("SLUICE.TAIL"))
    assert sock.recv(5) == b"+OK\r\n"
    with Tail(one, "KEY", "beside") as beside, one.resp() as r:
        assert readers_of(one) == 2
        end = time.monotonic() + 10 * DEADLINE_S
        while readers_of(one) == 2:
            flood(r, 1000, "k" * 1000, "1/1s")
            time.sleep(0.02)
            assert time.monotonic() < end, "a stream that nobody reads lives on"
        r.call("SLUICE.CHECK", "beside", 1, "2/1h")
        assert beside.next()["key"] == "beside"
    sock.close()


# ---- readers in numbers ----------------------------------------------------------------------------------------------

def test_a_hundred_readers_and_the_one_too_many(server):
    one = server(POLICY)
    tails = [Tail(one) for _ in range(100)] + [Tail(one, "KEY", f"k{i}") for i in range(READERS - 100)]
    with one.resp() as r, one.http() as h:
        with pytest.raises(RespError, match="128 clients follow decisions already"):
            r.call("SLUICE.TAIL")
        status, _, body = h.ask("GET", "/v1/tail")
        assert status == 503 and "128 clients follow decisions already" in body["detail"]
        assert readers_of(one) == READERS
        for i in range(10):
            r.call("SLUICE.CHECK", f"k{i}", 1, "2/1h")
        for tail in tails[:100]:
            assert [tail.next()["key"] for _ in range(10)] == [f"k{i}" for i in range(10)]
        for i in range(10):
            assert tails[100 + i].next()["key"] == f"k{i}"
        tails.pop().__exit__()
        wait_until(lambda: readers_of(one) == READERS - 1, "a reader is left")
        assert r.call("SLUICE.TAIL") == b"OK"
    for tail in tails:
        tail.__exit__()
    wait_until(lambda: readers_of(one) == 0, "readers are left")


def test_ten_thousand_come_and_go(server):
    """Half of them without reading a byte, half by reset; some in the middle of a word."""
    one = server(POLICY)
    asks = [encode("SLUICE.TAIL"), encode("SLUICE.TAIL", "KEY", "x")[:-7], encode("SLUICE.TAIL", "DENIED") * 3]
    hello = b"GET /v1/tail HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with Tail(one, "KEY", "end") as tail, one.resp() as r:
        for turn in range(100):
            socks = []
            for i in range(100):
                sock = socket.create_connection(("127.0.0.1", one.http_port if i % 4 == 3 else one.resp_port), 20)
                if i % 2:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                sock.sendall(hello if i % 4 == 3 else asks[i % 3])
                socks.append(sock)
            r.call("SLUICE.CHECK", "turn", 1, "1M/1h")
            for sock in socks:
                sock.close()
        wait_until(lambda: readers_of(one) == 1, "readers are left")
        r.call("SLUICE.CHECK", "end", 1, "2/1h")
        assert tail.next()["key"] == "end"
    still_serves(one)


def test_a_crowd_does_not_throw_readers_out(server):
    """Where connections are short, those that idle go first."""
    one = server("connections: {max: 40}\n" + POLICY)
    with Tail(one) as tail:
        socks = [socket.create_connection(("127.0.0.1", one.resp_port), 20) for _ in range(30)]
        time.sleep(1.1)  # who has waited for less than a second does not give way
        socks += [socket.create_connection(("127.0.0.1", one.resp_port), 20) for _ in range(30)]
        with one.resp() as r:
            r.call("SLUICE.CHECK", "k", 1, "2/1h")
        assert tail.next()["key"] == "k"
        for sock in socks:
            sock.close()


# ---- what changes meanwhile ------------------------------------------------------------------------------------------

def write_policy(one, text):
    with open(one.policy_file, "w", encoding="utf-8") as file:
        file.write(text)


def test_a_reload(server):
    one = server(POLICY)
    with Tail(one, "LIMIT", "login") as tail, Stream(one) as stream, one.resp() as r:
        r.call("SLUICE.ADMIT", 1, "user", "ann")
        assert tail.next()["quota"] == stream.next()["quota"] == 2
        write_policy(one, POLICY.replace("2/1h", "7/1h"))
        assert r.call("SLUICE.RELOAD") == b"OK"
        r.call("SLUICE.ADMIT", 1, "user", "ann")
        assert tail.next()["quota"] == 7
        write_policy(one, POLICY.replace("login", "entry"))  # the limit is gone: silence, until it is there again
        assert r.call("SLUICE.RELOAD") == b"OK"
        r.call("SLUICE.ADMIT", 1, "user", "ben")
        write_policy(one, POLICY)
        assert r.call("SLUICE.RELOAD") == b"OK"
        r.call("SLUICE.ADMIT", 1, "user", "cid")
        assert tail.next()["key"] == "user=cid"


@pytest.fixture
def tokens(sluice_bin):
    """A user for each role, by token: (lines of `users:` by name, tokens by name)."""
    lines, secrets = {}, {}
    for role in ("check", "read", "admin"):
        done = subprocess.run([sluice_bin, "token", role + "er", "--role", role], capture_output=True, check=True)
        secrets[role], lines[role] = done.stdout.decode().strip().split("\n")
    return lines, secrets


def test_roles(server, tokens):
    lines, secrets = tokens

    def policy(*without):
        return "users:\n" + "".join(f"  {x}\n" for role, x in lines.items() if role not in without) + POLICY
    one = server(policy())

    def admit(user):
        with one.resp() as r:
            r.call("AUTH", secrets["admin"])
            r.call("SLUICE.ADMIT", 1, "user", user)

    with one.resp() as r:
        with pytest.raises(RespError, match="NOAUTH"):
            r.call("SLUICE.TAIL")
        r.call("AUTH", secrets["check"])
        with pytest.raises(RespError, match="NOPERM"):
            r.call("SLUICE.TAIL")
    assert Stream(one).status == 401
    assert Stream(one, headers=f"Authorization: Bearer {secrets['check']}\r\n").status == 403
    reader = one.resp()
    reader.call("AUTH", secrets["read"])
    assert reader.call("SLUICE.TAIL") == b"OK"
    with Stream(one, headers=f"Authorization: Bearer {secrets['read']}\r\n") as stream:
        admit("ann")
        assert stream.next()["key"] == "user=ann" and json.loads(reader.read()[1])["key"] == "user=ann"
        # another user is gone: these go on
        write_policy(one, policy("check"))
        with one.resp() as r:
            r.call("AUTH", secrets["admin"])
            assert r.call("SLUICE.RELOAD") == b"OK"
        admit("ben")
        while stream.next()["key"] != "user=ben":
            pass
        # they are: their streams end
        write_policy(one, policy("check", "read"))
        with one.resp() as r:
            r.call("AUTH", secrets["admin"])
            assert r.call("SLUICE.RELOAD") == b"OK"
        while stream.next() is not None:
            pass
        assert stream.file.read() == b""
        assert b"user=zoe" not in reader.drain()
    reader.close()


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGUSR2))
def test_the_end_of_the_server(server, tmp_path, number):
    """At an upgrade, too: who reads asks again, and is answered by the next process."""
    one = server(f"store: {{file: {tmp_path}/counters, memory: 1MiB}}\n" + POLICY)
    tail, stream = Tail(one), Stream(one)
    if number == signal.SIGTERM:
        one.ask_to_end()
    else:
        os.kill(one.process.pid, number)
    while stream.next() is not None:
        pass
    assert stream.file.read() == b""
    with pytest.raises(Closed):
        while True:
            tail.any()
    if number == signal.SIGUSR2:
        wait_until(lambda: "has taken over" in one.stderr.text(), "no process took over")
        after = int(re.search(r"process (\d+) has taken over", one.stderr.text())[1])
        try:
            with Tail(one) as again, one.resp() as r:
                r.call("SLUICE.CHECK", "k", 1, "2/1h")
                assert again.next()["key"] == "k"
        finally:
            os.kill(after, signal.SIGTERM)
        assert one.process.wait(20) == 0
        wait_until(lambda: not os.path.exists(f"/proc/{after}") or "Z" in open(f"/proc/{after}/stat").read(),
                   "the second process does not end")


# ---- a store in Redis ------------------------------------------------------------------------------------------------

FRONT = """
store: {{redis: ["127.0.0.1:{port}"], budget: 2s}}
limits:
  - {{name: per-user, key: user, limit: sliding-log 1/1h, on-error: allow}}
  - {{name: strict, key: plan, limit: sliding-log 1/1h, on-error: deny, optional: true}}
"""


def test_at_a_front(server, redises):  # noqa: F811
    redis = redises()
    one = server(FRONT.format(port=redis.port))
    with Tail(one) as tail, Stream(one, "?denied=true") as denied, one.resp() as r:
        wait_until(lambda: r.call("SLUICE.CHECK", "warm", 1, "1M/1h") and tail.next()["allowed"], "no node answers")
        r.send(encode("SLUICE.ADMIT", 1, "user", "ann") * 2)  # one batch: what waits is settled, and told, once
        assert [r.read()[0] for _ in range(2)] == [1, 0]
        lines = [tail.next() for _ in range(2)]
        assert [who(x) for x in lines] == [("per-user", "user=ann", True), ("per-user", "user=ann", False)]
        assert who(denied.next()) == ("per-user", "user=ann", False)
        redis.kill()
        wait_until(lambda: r.call("SLUICE.ADMIT", 1, "user", "ann")[0] == 1, "the node still answers")
        while (line := tail.next()).get("failed_open") is None:
            pass
        assert line == {**line, "limit": "per-user", "allowed": True, "failed_open": True} and "quota" not in line
        r.call("SLUICE.ADMIT", 1, "plan", "pro")
        line = next(x for x in iter(denied.next, None) if x["limit"] == "strict")
        assert line == {**line, "allowed": False, "failed_open": False}
