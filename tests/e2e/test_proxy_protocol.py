"""The PROXY protocol on listeners that ask for it: by hand, byte by byte, and with HAProxy in front."""

import os
import shutil
import socket
import struct
import subprocess
import time

import pytest

from harness import DEADLINE_S, Closed, Http, Resp, encode, raw_exchange, still_serves, wait_until
from ports import free_ports

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
PING = b"*1\r\n$4\r\nPING\r\n"
V1 = b"PROXY TCP4 192.0.2.7 198.51.100.1 51000 443\r\n"


def v2(version_command=0x21, family=0x11, rest=None):
    if rest is None:
        rest = socket.inet_aton("192.0.2.7") + socket.inet_aton("198.51.100.1") + struct.pack(">HH", 51000, 443)
    return SIGNATURE + bytes([version_command, family]) + struct.pack(">H", len(rest)) + rest


V2_6 = v2(family=0x21, rest=socket.inet_pton(socket.AF_INET6, "2001:db8::7") + bytes(16) + struct.pack(">HH", 1, 2))


def policy(extra="", trusted='["127.0.0.0/8"]', folder=None):
    unix = f', {{address: "unix:{folder}/proxied.sock", proxy-protocol: true}}' if folder else ""
    return (f"threads: 2\ntrusted-proxies: {trusted}\n"
            "listen:\n"
            f'  resp: ["127.0.0.1:0", {{address: "127.0.0.1:0", proxy-protocol: true}}{unix}]\n'
            '  http: ["127.0.0.1:0", {address: "127.0.0.1:0", proxy-protocol: true}]\n'
            "limits: [{name: each, key: ip, limit: fixed-window 3/3660d}]\n" + extra)


def errors(server, door="resp"):
    with server.http() as client:
        return client.ask("GET", "/v1/figures")[2]["protocol_errors"][door]


class Proxied(Resp):
    """A RESP client whose first bytes are a PROXY header."""

    def __init__(self, port, header):
        super().__init__(port)
        self.send(header)

    def address(self):
        return dict(word.split(b"=", 1) for word in self.call("CLIENT", "INFO").split())[b"addr"].decode()


@pytest.mark.parametrize("header,address", [
    (V1, "192.0.2.7:51000"),
    (b"PROXY TCP6 2001:db8::7 ::1 65535 1\r\n", "[2001:db8::7]:65535"),
    (b"PROXY TCP6 ::ffff:192.0.2.9 ::1 65535 1\r\n", "192.0.2.9:65535"),
    (v2(), "192.0.2.7:51000"),
    (V2_6, "[2001:db8::7]:1"),
    (b"PROXY UNKNOWN\r\n", None),
    (v2(0x20, 0, b""), None),
    (v2(0x21, 0x31, bytes(216)), None),
], ids=["v1-inet", "v1-inet6", "v1-mapped", "v2-inet", "v2-inet6", "v1-unknown", "v2-local", "v2-unix"])
def test_the_peer_is_whom_the_header_names(server, header, address):
    one = server(policy(), listen=())
    port = one.ports("resp")[1]
    with Proxied(port, header) as client:
        own = "%s:%d" % client.sock.getsockname()
        assert client.address() == (address or own)
    with Resp(port) as client:  # a byte at a time; then header and first command in one piece
        for byte in header:
            client.send(bytes([byte]))
        client.send(PING)
        assert client.read() == b"PONG"
    assert raw_exchange(port, header + PING * 100) == b"+PONG\r\n" * 100
    assert errors(one) == 0
    still_serves(one)


def test_a_header_that_comes_slowly_costs_no_time(server):
    """What is there of it is taken off the socket: a worker does not spin until the rest comes."""
    one = server(policy(), listen=())

    def cpu_s():
        with open(f"/proc/{one.process.pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    with Resp(one.ports("resp")[1]) as client:
        client.send(V1[:20])
        still_serves(one)
        before = cpu_s()
        time.sleep(0.5)  # what is measured is this time itself
        assert cpu_s() - before < 0.2
        client.send(V1[20:] + PING)
        assert client.read() == b"PONG"


BAD = {
    "absent": PING, "an HTTP request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "two spaces": V1.replace(b" ", b"  ", 1),
    "leading zeros": V1.replace(b"51000", b"051000"), "a bare line feed": V1.replace(b"\r", b""),
    "too long": b"PROXY UNKNOWN " + b"x" * 200 + b"\r\n", "version 3": v2(0x31), "no such command": v2(0x22),
    "too short for its family": v2(rest=b"abc"), "larger than any": SIGNATURE + b"\x21\x11\xff\xff" + bytes(65535),
    "cut": V1[:10], "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "a field cut off": v2(rest=bytes(12) + b"\x04\x00\x05ab"),
    "a wrong checksum": v2(rest=bytes(12) + b"\x03\x00\x04abcd"),
}


@pytest.mark.parametrize("data", BAD.values(), ids=[name.replace(" ", "-") for name in BAD])
def test_what_is_no_header_is_closed_without_a_word_and_counted(server, data):
    one = server(policy(), listen=())
    for door in ("resp", "http"):
        before = errors(one, door)
        assert raw_exchange(one.ports(door)[1], data) == b""
        wait_until(lambda d=door, b=before: errors(one, d) == b + 1, "it was not counted")
    still_serves(one)


def test_only_trusted_proxies_may_name_others(server):
    one = server(policy(trusted='["10.0.0.0/8"]'), listen=())
    for header in (V1, v2(), b""):
        before = errors(one)
        assert raw_exchange(one.ports("resp")[1], header + PING) == b""
        wait_until(lambda b=before: errors(one) == b + 1, "it was not counted")
    still_serves(one)


def test_a_balancer_that_only_looks_is_no_error(server):
    one = server(policy(), listen=())
    assert raw_exchange(one.ports("resp")[1], b"") == b""
    assert errors(one) == 0


def test_a_unix_socket_is_trusted(server, tmp_path):
    one = server(policy(trusted='["10.0.0.0/8"]', folder=tmp_path), listen=())
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(DEADLINE_S)
        sock.connect(str(tmp_path / "proxied.sock"))
        sock.sendall(V1 + encode("CLIENT", "INFO"))
        assert b" addr=192.0.2.7:51000 " in sock.recv(4096)
    still_serves(one)


def test_a_header_that_does_not_end_is_timed_out(server):
    one = server(policy("connections: {request: 300ms}\n"), listen=())
    silent = [Resp(one.ports("resp")[1]) for _ in range(3)]
    silent[1].send(V1[:-1])
    silent[2].send(v2()[:20])
    for client in silent:
        assert client.drain() == b""
    still_serves(one)


def test_who_is_named_is_judged_anew(server):
    """The named client is no proxy: what it forwards is not believed; and its own address is what counts."""
    one = server(policy(), listen=())

    def ask(header, forwarded):
        with Http(one.ports("http")[1]) as client:
            client.connection.connect()
            client.connection.sock.sendall(header)
            return client.ask("GET", "/v1/auth/forward", headers={"X-Forwarded-For": forwarded,
                                                                 "X-Forwarded-Method": "GET",
                                                                 "X-Forwarded-Uri": "/"})[0]

    assert [ask(V1, f"203.0.113.{i}") for i in range(5)] == [200, 200, 200, 429, 429]
    assert ask(V1.replace(b"192.0.2.7", b"192.0.2.8"), "203.0.113.1") == 200
    assert ask(v2(), "203.0.113.9") == 429  # the same client by the other version
    # one of ours is named: another proxy in the row, whose word counts
    chained = V1.replace(b"192.0.2.7", b"127.0.0.9")
    assert [ask(chained, "203.0.113.50") for _ in range(4)] == [200, 200, 200, 429]
    assert ask(chained, "203.0.113.51") == 200


def test_the_bound_of_an_address_is_of_the_one_that_is_named(server):
    one = server(policy("connections: {per-address: 2}\n"), listen=())
    port = one.ports("resp")[1]
    others = V1.replace(b"192.0.2.7", b"192.0.2.8")
    with Proxied(port, V1) as a, Proxied(port, v2()) as b, Proxied(port, others) as c:
        assert a.call("PING") == b.call("PING") == c.call("PING") == b"PONG"
        with pytest.raises((Closed, ConnectionError)):
            Proxied(port, V1).call("PING")
        a.close()

        def comes_in():
            try:
                with Proxied(port, V1) as client:
                    return client.call("PING") == b"PONG"
            except (Closed, ConnectionError):
                return False
        wait_until(comes_in, "the place of one that left was not given to another")
    still_serves(one)


HAPROXY = """global
    maxconn 100
defaults
    timeout connect 5s
    timeout client 10s
    timeout server 10s
listen v1
    mode tcp
    bind 127.0.0.1:{0}
    server one 127.0.0.1:{2} send-proxy
listen v2
    mode tcp
    bind 127.0.0.1:{1}
    server one 127.0.0.1:{2} send-proxy-v2 proxy-v2-options unique-id,crc32c check
"""


def test_behind_haproxy(server, tmp_path):
    program = shutil.which("haproxy")
    assert program, "haproxy is not installed: apt-get install haproxy"
    one = server(policy(), listen=())
    front = free_ports(2)
    (tmp_path / "haproxy.cfg").write_text(HAPROXY.format(*front, one.ports("resp")[1]), encoding="ascii")
    process = subprocess.Popen([program, "-db", "-f", str(tmp_path / "haproxy.cfg")], stderr=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL)
    try:
        def answers():
            try:
                with Resp(front[1], timeout=2) as client:
                    return client.call("PING") == b"PONG"
            except (Closed, OSError):
                return False
        wait_until(answers, "no answer through HAProxy")
        for port in front:
            with socket.create_connection(("127.0.0.1", port), DEADLINE_S, ("127.0.0.77", 0)) as sock:
                sock.sendall(encode("CLIENT", "INFO"))
                assert b" addr=127.0.0.77:%d " % sock.getsockname()[1] in sock.recv(4096)
        assert errors(one) == 0  # its checks, which open and close, are none
    finally:
        process.terminate()
        process.wait(10)
    still_serves(one)
