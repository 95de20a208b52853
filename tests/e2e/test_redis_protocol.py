"""The first thirteen cases of what Redis' own test suite asks of its protocol, in our words, asked of Redis and of us.

The last three are its regression tests for a parser that gets out of step: a line that never ends must be given up with
a protocol error long before it fills the memory.
"""

import socket

import pytest

from harness import encode, still_serves

PING = b"PING\r\n"
PONG = b"+PONG\r\n"

# name -> bytes sent, what the answer must contain, whether the connection goes on
CASES = {
    "an empty query": (b"\r\n" + PING, PONG, True),
    "a negative count of arguments": (b"*-10\r\n" + PING, PONG, True),
    "a count of arguments out of range": (b"*3000000000\r\n", b"invalid multibulk length", False),
    "an argument without its header": (b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n", b"expected '$', got 'f'", False),
    "an argument of negative length": (b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$-10\r\n", b"invalid bulk length", False),
    "an argument of a length out of range": (b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$2000000000\r\n", b"invalid bulk length",
                                             False),
    "an argument whose length is no number": (b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$blabla\r\n", b"invalid bulk length",
                                              False),
    "a count that no argument follows": (b"*1\r\nfoo\r\n", b"expected '$', got 'f'", False),
    "a wrong number of arguments": (encode("ping", "x", "y", "z"), b"wrong number of arguments for 'ping'", True),
    "quotes that don't match": (b'set """test-key""" test-value\r\n' + PING, b"unbalanced", False),
}

ENDLESS = {"text": b"\x00", "a count": b"*\x00", "a length": b"*1\r\n$\x00"}


def exchange(port, data, goes_on):
    """What comes back: until the other side closes or, where it should go on, until a PING behind it is answered."""
    got = b""
    with socket.create_connection(("127.0.0.1", port), 20) as s:
        s.sendall(data + (PING if goes_on else b""))
        while not (goes_on and got.endswith(PONG)):
            part = s.recv(65536)
            if not part:
                assert not goes_on, f"closed after {got!r}"
                return got
            got += part
    return got


@pytest.mark.parametrize("who", ["redis", "sluice"])
@pytest.mark.parametrize("name", CASES)
def test_a_case_of_redis(shared_server, redis_port, name, who):
    data, expected, goes_on = CASES[name]
    got = exchange(redis_port if who == "redis" else shared_server.resp_port, data, goes_on)
    assert expected in got, got


@pytest.mark.parametrize("who", ["redis", "sluice"])
@pytest.mark.parametrize("name", ENDLESS)
def test_a_line_without_end_is_given_up(shared_server, redis_port, name, who):
    port = redis_port if who == "redis" else shared_server.resp_port
    sent, got = 0, b""
    with socket.create_connection(("127.0.0.1", port), 20) as s:
        s.sendall(ENDLESS[name])
        try:
            while sent < 16 * 1024 * 1024:
                sent += s.send(b"\x00payload" * 1024)
        except OSError:
            pass
        try:
            got = s.recv(65536)
        except ConnectionResetError:
            assert who == "redis", "our last word has to arrive, whatever the peer was sending"
            got = b"Protocol error"
    assert b"Protocol error" in got
    assert sent < 8 * 1024 * 1024
    if who == "sluice":
        still_serves(shared_server)
