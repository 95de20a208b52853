"""The RESP door beside a real redis-server: the same bytes, the same reply, byte for byte.

What is malformed must be refused as Redis refuses it, because clients look at those words, and what Redis passes over
must be passed over. Where Sluice is stricter (its bounds are lower) the test says so and compares no bytes.
"""

import os
import re

import pytest

from harness import ROOT, RespError, encode, raw_exchange, still_serves

PING = b"*1\r\n$4\r\nPING\r\n"

# What is sent, ended by a half-close, so that whoever still waits for more sees that nothing comes.
SAME = {
    "empty array is passed over": b"*0\r\n" + PING,
    "null array is passed over": b"*-1\r\n" + PING,
    "very negative array is passed over": b"*-100\r\n" + PING,
    "empty line is passed over": b"\r\n" + PING,
    "many empty lines": b"\r\n\n\r\n\n" + PING,
    "array length is no number": b"*abc\r\n" + PING,
    "array length with a plus": b"*+1\r\n" + PING,
    "array length empty": b"*\r\n" + PING,
    "array length with a space": b"*1 \r\n$4\r\nPING\r\n",
    "array length above 2^31": b"*2147483648\r\n" + PING,
    "array length above 2^63": b"*9223372036854775808\r\n" + PING,
    "array length of a hundred digits": b"*" + b"9" * 100 + b"\r\n" + PING,
    "not a bulk": b"*1\r\n+PING\r\n" + PING,
    "not a bulk but an array": b"*1\r\n*1\r\n$4\r\nPING\r\n",
    "nested arrays": b"*2\r\n*1\r\n" * 50,
    "not a bulk but an integer": b"*2\r\n$4\r\nECHO\r\n:1\r\n",
    "bulk length -1": b"*1\r\n$-1\r\n" + PING,
    "bulk length -2": b"*1\r\n$-2\r\n",
    "bulk length above 512 MB": b"*1\r\n$536870913\r\n",
    "bulk length above 2^63": b"*1\r\n$99999999999999999999\r\n",
    "bulk length with a leading zero": b"*1\r\n$04\r\nPING\r\n",
    "bulk length is no number": b"*1\r\n$x\r\nPING\r\n",
    "bulk length empty": b"*1\r\n$\r\nPING\r\n",
    "bulk of no bytes": b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n",
    "a good command before a bad one is answered": PING + b"*1\r\n$-5\r\n" + PING,
    "the bytes after a bulk are not looked at": b"*1\r\n$4\r\nPINGxx",
    "bare LF in an array waits": b"*1\n$4\nPING\n",
    "unfinished array": b"*2\r\n$4\r\nECHO\r\n",
    "unfinished bulk": b"*2\r\n$4\r\nECHO\r\n$5\r\nabc",
    "unfinished length": PING + b"*1",
    "inline": b"PING\r\n",
    "inline with a bare LF": b"PING\n",
    "inline in another case": b"pInG\r\n",
    "inline with spaces around": b"  PING  \r\n",
    "inline with tabs": b"ECHO\tx\r\n",
    "inline, single quotes": b"ECHO 'a b'\r\n",
    "inline, double quotes and escapes": b'ECHO "\\x41\\n\\t\\"\\\\"\r\n',
    "inline, escaped quote in single quotes": b"ECHO 'it\\'s'\r\n",
    "inline, an empty word": b'ECHO ""\r\n',
    "inline, unbalanced double quotes": b'PING "unbalanced\r\n' + PING,
    "inline, unbalanced single quotes": b"PING 'unbalanced\r\n" + PING,
    "inline, something after a closing quote": b'PING "a"b\r\n' + PING,
    "inline above 64 KB without an end": b"x" * 70000,
    "POST is dropped without a word": b"POST / HTTP/1.1\r\nHost: x\r\n\r\n" + PING,
    "Host: is dropped without a word": b"Host: example\r\n" + PING,
    "two in one write": PING + encode("ECHO", "second"),
    "arity of ping": encode("PING", "a", "b"),
    "arity of echo": encode("ECHO"),
    "echo of bytes": encode("ECHO", bytes(range(256))),
    "ping with a message": encode("PING", "hello"),
    "an empty command name": encode(""),
    "unknown command": encode("NOSUCH"),
    "unknown command with arguments": encode("NOSUCH", "a", "b c"),
    "unknown command with CR LF in it": encode("NO\r\nSUCH", "x\r\n+OK"),
    "quit": encode("QUIT") + PING,
    "reset": encode("RESET"),
    "select 0": encode("SELECT", "0"),
    "select is no number": encode("SELECT", "abc"),
    "select far out": encode("SELECT", "99999"),
    "hello 4": encode("HELLO", "4"),
    "hello 1": encode("HELLO", "1"),
    "hello is no number": encode("HELLO", "abc"),
    "hello with a bad option": encode("HELLO", "3", "FOO"),
    "hello with a wrong user": encode("HELLO", "3", "AUTH", "nobody", "x"),
    "hello with a bad name": encode("HELLO", "3", "SETNAME", "a b"),
    "auth without a password set": encode("AUTH", "x"),
    "auth of the default user": encode("AUTH", "default", "x"),
    "auth of another user": encode("AUTH", "nobody", "x"),
    "auth with too much": encode("AUTH", "a", "b", "c"),
    "client setname and getname": encode("CLIENT", "SETNAME", "app") + encode("CLIENT", "GETNAME"),
    "client getname without one": encode("CLIENT", "GETNAME"),
    "client setname with a space": encode("CLIENT", "SETNAME", "a b"),
    "client reply off, on": encode("CLIENT", "REPLY", "OFF") + PING + encode("CLIENT", "REPLY", "ON") + PING,
    "client reply skip": encode("CLIENT", "REPLY", "SKIP") + PING + encode("ECHO", "heard"),
    "client with nothing": encode("CLIENT"),
    "client with an unknown subcommand": encode("CLIENT", "FOO"),
    "config get save": encode("CONFIG", "GET", "save"),
    "config get appendonly": encode("CONFIG", "GET", "appendonly"),
    "config get what is not there": encode("CONFIG", "GET", "nosuch"),
    "config get save in RESP3": b"".join([encode("CLIENT", "REPLY", "SKIP"), encode("HELLO", "3"),
                                          encode("CONFIG", "GET", "save")]),
    "null in RESP3": b"".join([encode("CLIENT", "REPLY", "SKIP"), encode("HELLO", "3"), encode("CLIENT", "GETNAME")]),
    "command info of what is not there": encode("COMMAND", "INFO", "nosuch"),
    "cluster": encode("CLUSTER", "NODES"),
    "readonly": encode("READONLY"),
}


@pytest.mark.parametrize("data", SAME.values(), ids=[n.replace(" ", "-") for n in SAME])
def test_same_reply_as_redis(shared_server, redis_port, data):
    assert raw_exchange(shared_server.resp_port, data) == raw_exchange(redis_port, data)


SHORT = {name: data for name, data in SAME.items() if len(data) < 1000}


@pytest.mark.parametrize("data", SHORT.values(), ids=[n.replace(" ", "-") for n in SHORT])
def test_same_reply_byte_by_byte(shared_server, data):
    """However the bytes are cut, the answer is the same."""
    whole = raw_exchange(shared_server.resp_port, data)
    with shared_server.resp() as client:
        try:
            for i in range(len(data)):
                client.send(data[i:i + 1])
            client.sock.shutdown(1)
        except OSError:
            pass  # refused before all of it was sent
        try:
            assert client.drain() == whole
        except ConnectionResetError:
            assert client.buffer == whole


STRICTER = {
    "NUL where a bulk is due": b"*1\r\n\x00\r\n",
    "a bulk above our bound": b"*2\r\n$4\r\nECHO\r\n$65537\r\n" + b"x" * 65537 + b"\r\n",
    "a bulk of 512 MB announced": b"*2\r\n$4\r\nECHO\r\n$536870912\r\n",
    "more arguments than our bound": b"*1025\r\n" + b"$1\r\nx\r\n" * 1025,
    "2^31 - 1 arguments announced": b"*2147483647\r\n",
    "a request above our bound": encode("ECHO", *["x" * 60000] * 6),
    "GET over the wrong door": b"GET / HTTP/1.1\r\n",
}


@pytest.mark.parametrize("data", STRICTER.values(), ids=[n.replace(" ", "-") for n in STRICTER])
def test_stricter_than_redis(shared_server, data):
    """Refused with an error that names the bound, or closed, at once: never waited for, never held in memory."""
    answer = raw_exchange(shared_server.resp_port, data)
    assert answer.startswith(b"-ERR ") and answer.endswith(b"\r\n") and answer.count(b"\r\n") == 1, answer[:200]
    still_serves(shared_server)


def test_hello_tells_of_both_protocols(shared_server):
    with shared_server.resp() as client:
        flat = client.call("HELLO")
        two = dict(zip(flat[::2], flat[1::2]))
        three = client.call("HELLO", "3")
        assert two[b"proto"] == 2 and three[b"proto"] == 3 and set(two) == set(three)
        assert len(three[b"version"].split(b".")) == 3
        assert client.call("HELLO")[b"proto"] == 3  # a bare HELLO keeps the protocol
        assert client.call("RESET") == b"RESET"
        assert isinstance(client.call("HELLO"), list)


def test_info_has_what_clients_wait_for(shared_server):
    with shared_server.resp() as client:
        for protocol in ("2", "3"):
            client.call("HELLO", protocol)
            info = client.call("info")
            assert b"\r\nloading:0\r\n" in info and b"redis_version:" in info and b"role:master" in info


CELL = [  # redis-cell 0.5.0's own answers, calls back to back: key, arguments, reply
    ("a", (15, 30, 60), [0, 16, 15, -1, 2]), ("a", (15, 30, 60), [0, 16, 14, -1, 4]),
    ("z", (15, 30, 60, 0), [0, 16, 16, -1, 0]), ("a", (15, 30, 60, 0), [0, 16, 14, -1, 4]),
    ("o", (4, 5, 5, 6), [1, 5, 5, -1, 0]), ("o", (4, 5, 5, 5), [0, 5, 0, -1, 5]), ("o", (4, 5, 5, 1), [1, 5, 0, 1, 5]),
    ("o", (4, 5, 5, 6), [1, 5, 0, -1, 5]), ("o", (4, 5, 5, 0), [0, 5, 0, -1, 5]),
    ("b", (0, 1, 2), [0, 1, 0, -1, 2]), ("b", (0, 1, 2), [1, 1, 0, 2, 2]),
    ("g", (4, 5, 5, 3), [0, 5, 2, -1, 3]), ("g", (4, 5, 5, -1), [0, 5, 3, -1, 2]),
    ("g", (4, 5, 5, 0), [0, 5, 3, -1, 2]),
    ("s", (0, 10, 1), [0, 1, 0, -1, 1]), ("s", (0, 10, 1), [1, 1, 0, 1, 1]),
    ("h", (4, 5, 5, -2), [0, 5, 5, -1, 0]), ("d", (999999, 1, 86400), [0, 1000000, 999999, -1, 86400]),
]


def test_throttle_answers_as_redis_cell(server):
    """In one write, so that no second passes between the calls of a key. A refund of nothing creates nothing
    (redis-cell errs there); everything else is as it answers."""
    with server().resp() as client:
        client.send(b"".join(encode("CL.THROTTLE", key, *arguments) for key, arguments, _ in CELL))
        assert [client.read() for _ in CELL] == [reply for _, _, reply in CELL]


def test_what_docs_say_is_not_there(shared_server):
    """docs/resp.md, "No Redis": libraries that need these can't work here, and are told so."""
    with open(os.path.join(ROOT, "docs", "resp.md"), encoding="utf-8") as f:
        said = f.read().split("## Not a Redis")[1].split("\n## ")[0]
    words = {word.split()[0] for word in re.findall(r"`([A-Z]+(?: LOAD)?)`", said)}
    assert {"GET", "SET", "EVAL", "EVALSHA", "SCRIPT", "FCALL", "MULTI", "SUBSCRIBE", "INCRBY", "EXPIRE"} == words
    with shared_server.resp() as client:
        for word in sorted(words):
            with pytest.raises(RespError, match=f"^ERR unknown command '{word}'"):
                client.call(word, "a", "1")
