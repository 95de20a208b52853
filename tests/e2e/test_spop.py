"""The SPOP door over real sockets: who may reach it, what hostile clients get, many at once, a store in Redis, and what
happens to HAProxy's connections when the server is stopped or replaced. What HAProxy itself makes of it is in
test_proxies.py; the door's answers, one by one, in tests/unit/door_spop_test.c."""

import os
import re
import socket
import struct
import subprocess
import threading

import pytest

from harness import DEADLINE_S, wait_until
from redis_world import redises  # noqa: F401
from spop import AGENT_DISCONNECT, NOTIFY, Spop, frame, string, varint
from test_fleet import decides, front, limit, policy  # noqa: F401
from test_upgrade import reaper, upgraded  # noqa: F401

LISTEN = 'listen: {spop: "127.0.0.1:0"}\n'
LIMITS = "limits:\n  - {name: load, key: user, limit: sliding-log 1000/1h}\n"


def port_of(one):
    return one.ports("spop")[0]


def admit(client, user="bob"):
    return client.ask("admit", {"user": user})


# ---- who may reach it ------------------------------------------------------------------------------------------------

REFUSED = [
    ('listen: {spop: "0.0.0.0:7382"}\n', "SPOP has no login"),
    ('listen: {spop: {address: "0.0.0.0:7382", unprotected: true}}\n', "no unprotected here"),
    ('listen: {spop: {address: "127.0.0.1:7382", proxy-protocol: true}}\n', "no proxy-protocol here"),
    ('listen: {spop: {address: "127.0.0.1:7382", details: true}}\n', "expected details on http listeners only"),
    ('users: [{name: a, password: "sha256:%s", roles: [admin]}]\nlisten: {spop: "192.0.2.1:7382"}\n' % ("0" * 64),
     "SPOP has no login"),
]


@pytest.mark.parametrize("text,words", REFUSED)
def test_only_who_is_here_or_shows_a_certificate(sluice_bin, tmp_path, text, words):
    file = tmp_path / "p.yaml"
    file.write_text(text + LIMITS)
    for verb in (["lint", str(file)], ["serve", "--check-config", "-c", str(file)]):
        done = subprocess.run([sluice_bin, *verb], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        assert done.returncode != 0 and words in done.stdout + done.stderr, (verb, done)


def test_users_open_no_spop(sluice_bin, tmp_path):
    """They log in at other doors; here nobody can."""
    file = tmp_path / "p.yaml"
    file.write_text('users: [{name: a, token: "sha256:%s", role: admin}]\n' % ("0" * 64) + LIMITS)
    done = subprocess.run([sluice_bin, "serve", "--check-config", "-c", str(file), "--spop", "0.0.0.0:0"],
                          capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 2 and "its protocol has no login" in done.stderr, done


def test_unprotected_opens_no_spop(sluice_bin):
    """The command line's word is for doors that could have a login."""
    done = subprocess.run([sluice_bin, "serve", "--unprotected", "--spop", "0.0.0.0:0", "--resp", "127.0.0.1:0"],
                          capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 2 and "its protocol has no login" in done.stderr, done


def test_a_unix_socket(server, tmp_path):
    path = str(tmp_path / "spop.sock")
    server(f'listen: {{spop: {{address: "unix:{path}", mode: 0600}}}}\n' + LIMITS)
    assert os.stat(path).st_mode & 0o777 == 0o600
    client = Spop.__new__(Spop)
    client.input, client.stream, client.socket = b"", 0, socket.socket(socket.AF_UNIX)
    client.socket.connect(path)
    assert client.hello()["max-frame-size"] == 16380
    assert admit(client)["remaining"] == 999
    client.close()


# ---- connections -----------------------------------------------------------------------------------------------------

def test_pipelined_and_cut(server):
    """3,000 requests in one go, then byte by byte: each is answered once, in order, and counted once."""
    one = server(LISTEN + LIMITS.replace("1000", "2000"))
    client = Spop(port_of(one))
    data = b"".join(client.message("admit", {"user": "bob"}, i, i % 3) for i in range(3000))
    sender = threading.Thread(target=client.send, args=(data,))
    sender.start()
    answers = [client.receive() for _ in range(3000)]
    sender.join()
    assert [to for to, _ in answers] == [(i, i % 3) for i in range(3000)]
    assert [said["denied"] for _, said in answers] == [False] * 2000 + [True] * 1000
    assert [said["remaining"] for _, said in answers[:2000]] == list(range(1999, -1, -1))
    for i in range(20):
        for byte in client.message("admit", {"user": "ann"}, 7, i):
            client.send(bytes([byte]))
        assert client.receive()[1]["remaining"] == 1999 - i
    client.close()


def test_eight_connections_share_a_limit(server):
    one = server(LISTEN + LIMITS, args=["--threads", "2"])
    counts = []

    def work():
        client = Spop(port_of(one))
        counts.append(sum(not admit(client)["denied"] for _ in range(250)))
        client.close()
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counts) == 8 and sum(counts) == 1000


HOSTILE = [
    b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\0\0\0\0", struct.pack(">I", 2**31), struct.pack(">I", 70000) + b"\1",
    frame(NOTIFY, b"\xff" * 30), frame(NOTIFY, string("admit") + b"\xff"), frame(0, b""),
    frame(NOTIFY, string("admit") + b"\x01" + string("user") + b"\x08" + varint(2**60)),
    frame(NOTIFY, string("admit"), flags=0), frame(NOTIFY, string("admit"), flags=3)[:-1],
]


def test_hostile_clients_end_alone(server):
    one = server(LISTEN + LIMITS)
    beside = Spop(port_of(one))
    for greeted in (False, True):
        for data in HOSTILE:
            client = Spop(port_of(one), hello=greeted)
            client.send(data)
            client.socket.shutdown(socket.SHUT_WR)
            kind, said = client.receive()
            assert kind in (None, AGENT_DISCONNECT), (data, kind, said)
            if kind is not None:
                assert said["status-code"] > 0 and said["message"]
                assert client.receive() == (None, None)
            client.close()
    assert admit(beside)["remaining"] == 999
    with one.http() as http:
        text = http.ask("GET", "/metrics")[2].decode()
    errors = re.search(r'sluice_protocol_errors_total\{transport="spop"\} (\d+)', text)
    assert int(errors[1]) >= len(HOSTILE)
    assert 'sluice_requests_total{transport="spop",decision="allowed"} 1' in text


def test_a_frame_of_another_message_harms_nobody(server):
    one = server(LISTEN + LIMITS)
    client = Spop(port_of(one))
    two = string("admit") + b"\x00"
    client.send(client.message("admit", {"user": "a"}, 1) + frame(NOTIFY, two + two, 2, 1) +
                client.message("nonsense", {}, 3) + client.message("admit", {"user": "a"}, 4))
    answers = dict(client.receive() for _ in range(4))
    assert answers[1, 1]["remaining"] == 999 and answers[4, 1]["remaining"] == 998
    assert "expected one message" in answers[2, 1]["error"] and "nonsense" in answers[3, 1]["error"]
    client.close()


# ---- the store in Redis ----------------------------------------------------------------------------------------------

def test_at_a_front(front, redises):  # noqa: F811
    """The same words where each decision takes a round trip; and when nobody answers, what on-error says."""
    redis = redises()
    one = front(LISTEN + policy(redis, limit("shut", "b"), limit("open", "a", on_error="allow"),
                                limit("flight", "c", "concurrency 2 lease 1h"), budget=2000))
    client = Spop(port_of(one))
    data = b"".join(client.message("admit", {"a": "x", "b": "y"}, i) for i in range(8))
    client.send(data)
    answers = [client.receive() for _ in range(8)]
    assert [to[0] for to, _ in answers] == list(range(8))
    assert [said["denied"] for _, said in answers] == [False] * 5 + [True] * 3
    held = client.ask("admit", {"c": "z"})
    assert client.ask("commit", {"ticket": held["ticket"]}) == {"released": 1, "committed": 0}
    assert client.ask("commit", {"ticket": held["ticket"]}) == {"released": 0, "committed": 0}
    redis.kill()
    assert client.ask("admit", {"b": "new"}) == {"denied": True, "unable": True, "retry": 1, "retry_after_ms": 1000,
                                                 "limit": "shut"}
    assert client.ask("admit", {"a": "new"}) == {"denied": False, "failed_open": True}
    assert "error" in client.ask("commit", {"ticket": held["ticket"]})
    client.close()


# ---- stopped, replaced -----------------------------------------------------------------------------------------------

def test_taken_over(upgraded):  # noqa: F811
    """A connection of HAProxy's goes on in the next process: nothing is lost, and nothing is counted twice."""
    one = upgraded(LISTEN + "limits:\n  - {name: load, key: user, limit: sliding-log 1000/1d}\n")
    client, half = Spop(port_of(one.one)), Spop(port_of(one.one))
    message = half.message("admit", {"user": "bob"}, 9)
    half.send(message[:11])
    left = 1000
    for _ in range(2):
        assert admit(client)["remaining"] == left - 1
        left -= 1
        one.upgrade()
    assert admit(client)["remaining"] == left - 1
    half.send(message[11:])
    to, said = half.receive()
    assert (to, said["remaining"]) == ((9, 1), left - 2)
    client.close()
    half.close()


def test_a_check_of_health_sees_that_it_drains(server):
    one = server(LISTEN + "drain: 9m\n" + LIMITS)
    client = Spop(port_of(one), hello=False)
    assert client.hello(healthcheck=True)["version"] == "2.0"
    assert client.receive() == (None, None)
    serving = Spop(port_of(one))
    one.process.terminate()

    def says():
        check = Spop(port_of(one), hello=False)
        said = check.hello(healthcheck=True)
        check.close()
        return said.get("message")
    assert wait_until(says, "it does not drain") == "the server is shutting down: ask another"
    assert admit(serving)["remaining"] == 999  # whoever is there is served on
    serving.close()
    one.process.terminate()
    assert one.process.wait(DEADLINE_S) == 0
