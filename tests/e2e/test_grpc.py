"""gRPC over the built program with clients that are not ours: python3-grpcio, grpc-js, h2load, nghttp. What each
request is answered stands in tests/unit/door_grpc*; here is what needs a socket: TLS, time-outs, drain and upgrade
under load, a store in Redis that is slow, and random requests against a twin."""
import concurrent.futures
import json
import random
import re
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest

from harness import DEADLINE_S, RespError, encode, in_one_window, wait_until
from redis_world import redises  # noqa: F401 - a fixture
from test_tls import certs, client_context, dial  # noqa: F401 - a fixture
from test_upgrade import reaper, upgraded  # noqa: F401 - fixtures

grpc = pytest.importorskip("grpc", reason="python3-grpcio is not installed")
import rls  # noqa: E402 - needs grpc

LISTEN = 'listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0", grpc: "127.0.0.1:0"}\n'
LIMITS = """limits:
  - {name: per-ip, key: ip, limit: fixed-window 3/1d}
  - {name: load, key: user, limit: fixed-window 100000/3660d}
"""
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\x04\0\0\0\0\0"
GOAWAY = 7


@pytest.fixture
def listening(server):
    """A factory of servers with a gRPC listener."""
    def start(policy=LISTEN + LIMITS, **options):
        return server(policy, listen=(), **options)
    return start


def address(one):
    return f"127.0.0.1:{one.ports('grpc')[0]}"


def frames_of(data):
    """The types of the frames in a server's bytes, in their order."""
    types = []
    while len(data) >= 9:
        types.append(data[3])
        data = data[9 + int.from_bytes(data[:3], "big"):]
    return types


def read_to_end(sock):
    data = b""
    sock.settimeout(DEADLINE_S)
    try:
        while more := sock.recv(65536):
            data += more
    except ConnectionResetError:
        pass
    return data


@in_one_window(86400)
def test_answers(listening):
    one = listening()
    with rls.Client(address(one)) as client:
        for left in (2, 1, 0):
            response = client.ask("rl", [("remote_address", "192.0.2.1")], [("path", "/x")])
            assert response.overall_code == rls.OK and [s.code for s in response.statuses] == [rls.OK, rls.OK]
            status = response.statuses[0]
            assert (status.current_limit.requests_per_unit, status.current_limit.unit) == (3, rls.DAY)
            assert status.current_limit.name == "per-ip" and status.limit_remaining == left
            assert 0 < status.duration_until_reset.seconds <= 86400
            assert rls.headers(response)["RateLimit-Policy"] == '"per-ip";q=3;w=86400'
        response = client.ask("rl", [("remote_address", "192.0.2.1")])
        assert response.overall_code == rls.OVER_LIMIT
        assert int(rls.headers(response)["Retry-After"]) == response.statuses[0].duration_until_reset.seconds
        assert dict(response.dynamic_metadata)["limit"] == "per-ip"
        with pytest.raises(grpc.RpcError) as wrong:
            client.ask("")
        assert (wrong.value.code(), wrong.value.details()) == (
            grpc.StatusCode.UNKNOWN, "rate limit domain must not be empty")
        assert client.check() == rls.SERVING and client.check("ratelimit") == rls.SERVING
    # the same counter at every door
    with one.resp() as resp:
        assert resp.call("SLUICE.ADMIT", "1", "ip", "192.0.2.1")[:3] == [0, 3, 0]
    with one.http() as http:
        metrics = http.ask("GET", "/metrics")[2].decode()
    assert 'sluice_requests_total{transport="grpc",decision="allowed"} 3\n' in metrics
    assert 'sluice_requests_total{transport="grpc",decision="denied"} 1\n' in metrics
    assert 'sluice_protocol_errors_total{transport="grpc"} 1\n' in metrics
    assert 'sluice_decisions_total{policy="per-ip",decision="denied",transport="grpc"} 1\n' in metrics


def test_random_requests_against_a_twin(listening):
    """Random descriptors, costs and unknown fields: each answer as a twin of twenty lines has it, whose messages are
    protobuf's own."""
    dice = random.Random(7)
    one = listening(LISTEN + "limits:\n  - {name: a, key: a, limit: fixed-window 40/365d}\n"
                    "  - {name: ab, key: [a, b], limit: fixed-window 25/365d}\n")
    counts = {}
    with rls.Client(address(one)) as client:
        for _ in range(1500):
            asked = []
            for _ in range(dice.randint(1, 5)):
                entries = [(key, dice.choice(["x", "y", "é,=%", "z" * 300])) for key in "abc" if dice.random() < .6]
                dice.shuffle(entries)
                asked.append((entries or [("c", "")], {"hits": dice.randint(1, 6)} if dice.random() < .3 else {}))
            hits = dice.choice([0, 0, 1, 3])
            items = []  # which descriptor, the counter, its quota, the cost
            for number, (entries, more) in enumerate(asked):
                told, cost = dict(entries), more.get("hits", hits or 1)
                if "a" in told:
                    items.append((number, ("a", told["a"]), 40, cost))
                if "a" in told and "b" in told:
                    items.append((number, ("ab", told["a"], told["b"]), 25, cost))
            codes = [rls.OK] * len(asked)
            most = {}  # of those that meet in a counter the greatest cost is charged
            for number, key, quota, cost in items:
                most[key] = max(most.get(key, 0), cost)
                if counts.get(key, 0) + cost > quota:
                    codes[number] = rls.OVER_LIMIT
            if rls.OVER_LIMIT not in codes:
                for key, cost in most.items():
                    counts[key] = counts.get(key, 0) + cost
            response = client.ask("rl", *asked, hits=hits)
            assert [s.code for s in response.statuses] == codes, (asked, hits)
            assert response.overall_code == max(codes)
            for number, status in enumerate(response.statuses):
                left = [quota - counts.get(key, 0) for n, key, quota, _ in items if n == number]
                assert not left or status.limit_remaining == min(left)
                assert status.HasField("current_limit") == bool(left)


def test_tls(listening, certs):  # noqa: F811
    one = listening(f"tls: {{certificate: {certs}/server.pem, key: {certs}/server.key}}\n" +
                    LISTEN.replace('grpc: "127.0.0.1:0"', 'grpc: {address: "127.0.0.1:0", tls: true}') + LIMITS)
    port = one.ports("grpc")[0]
    with open(f"{certs}/ca.pem", "rb") as file:
        credentials = grpc.ssl_channel_credentials(file.read())
    with rls.Client(f"localhost:{port}", credentials) as client:
        assert client.ask("rl", [("ip", "1.1.1.1")]).overall_code == rls.OK
    with dial(port, client_context(certs, alpn=["http/1.1", "h2"])) as agreed:
        assert agreed.selected_alpn_protocol() == "h2"
    with pytest.raises(ssl.SSLError):
        dial(port, client_context(certs, alpn=["http/1.1"]))


def test_users_log_in(listening, sluice_bin):
    made = subprocess.run([sluice_bin, "token"], capture_output=True, check=True, timeout=DEADLINE_S).stdout.decode()
    token, kept = re.search(r"^([\w-]{43})$", made, re.M)[1], re.search(r"sha256:[\w]+", made)[0]
    one = listening(LISTEN + LIMITS + f'users:\n  - {{name: envoy, token: "{kept}", roles: [check]}}\n')
    with rls.Client(address(one), metadata=[("authorization", "Bearer " + token)]) as client:
        assert client.ask("rl", [("ip", "1.1.1.1")]).overall_code == rls.OK
    with rls.Client(address(one)) as client:
        with pytest.raises(grpc.RpcError) as refused:
            client.ask("rl", [("ip", "1.1.1.1")])
        assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
        assert client.check() == rls.SERVING


@pytest.mark.skipif(subprocess.run(["which", "h2load"], capture_output=True).returncode != 0, reason="no h2load")
def test_many_streams(listening, tmp_path):
    """50,000 requests, up to 100 at a time on each of four connections; and one by nghttp."""
    one = listening("threads: 2\n" + LISTEN + LIMITS)
    body = tmp_path / "body"
    body.write_bytes(rls.framed(rls.request("rl", [("user", "bob")]).SerializeToString()))
    ask = ["-d", str(body), "-H", "content-type: application/grpc", "-H", "te: trailers",
           f"http://{address(one)}{rls.PATH}"]
    said = subprocess.run(["h2load", "-n", "50000", "-c", "4", "-m", "100", *ask], capture_output=True, check=True,
                          timeout=DEADLINE_S).stdout.decode()
    assert "50000 succeeded, 0 failed, 0 errored, 0 timeout" in said, said
    with rls.Client(address(one)) as client:
        assert client.ask("rl", [("user", "bob")]).statuses[0].limit_remaining == 49999
    said = subprocess.run(["nghttp", "-v", *ask], capture_output=True, check=True, timeout=DEADLINE_S).stdout
    assert b"grpc-status: 0" in said


def test_grpc_js(listening, node_clients):
    folder, node = node_clients
    one = listening()
    message = rls.request("rl", [("ip", "192.0.2.1")], [("user", "bob")]).SerializeToString().hex()
    said = subprocess.run([node, f"{folder}/grpc.mjs", str(one.ports("grpc")[0]), message, "100"], capture_output=True,
                          timeout=DEADLINE_S, check=True).stdout
    said = json.loads(said)
    codes = [rls.Response.FromString(bytes.fromhex(answer)).overall_code for answer in said["answers"]]
    assert sorted(codes) == [rls.OK] * 3 + [rls.OVER_LIMIT] * 97
    assert said["error"] == {"code": 12, "details": "unknown method " + rls.PATH.replace("ShouldRateLimit", "Other")}


# ---- connections that do nothing ------------------------------------------------------------------------------------

def dial_plain(one, data):
    sock = socket.create_connection(("127.0.0.1", one.ports("grpc")[0]), DEADLINE_S)
    sock.sendall(data)
    return sock


@pytest.mark.parametrize("data", [b"", PREFACE[:10], PREFACE + SETTINGS + b"\0\x10\0\x01\0\0\0\0\x01" + b"\x82",
                                  PREFACE + SETTINGS + b"\0\0\x01\x01\0\0\0\0\x01\x82"])
def test_a_request_that_does_not_come_on(listening, data):
    """No greeting, half of one, a header frame that is cut, a header list without its end."""
    one = listening(LISTEN + "connections: {request: 1s, idle: 5m}\n" + LIMITS)
    with dial_plain(one, data) as sock, rls.Client(address(one)) as client:
        assert client.ask("rl", [("ip", "1.1.1.1")]).overall_code == rls.OK
        assert GOAWAY not in frames_of(read_to_end(sock))


def test_an_idle_connection_is_told(listening):
    one = listening(LISTEN + "connections: {request: 5m, idle: 1s}\n" + LIMITS)
    with dial_plain(one, PREFACE + SETTINGS) as sock:
        data = b""
        while GOAWAY not in frames_of(data):
            data += sock.recv(65536)
        while 6 not in frames_of(data):  # the PING that goes with it
            data += sock.recv(65536)
        at = data.index(b"leaving.")
        sock.sendall(data[at - 9:at - 5] + b"\x01" + data[at - 4:at + 8])
        assert frames_of(data + read_to_end(sock))[-1] == GOAWAY  # which a busy client may have read already
    with rls.Client(address(one)) as client:  # and a client that is told so comes again
        for _ in range(3):
            assert client.ask("rl", [("user", "x")]).overall_code == rls.OK
            time.sleep(1.2)


# ---- drain and upgrade ----------------------------------------------------------------------------------------------

class Load:
    """Callers that ask as fast as they can, each over a channel of its own, until they are stopped."""

    def __init__(self, where, callers=4):
        self.over, self.answers, self.failures = threading.Event(), [0] * callers, []
        self.threads = [threading.Thread(target=self._run, args=(where, n), daemon=True) for n in range(callers)]
        for thread in self.threads:
            thread.start()

    def _run(self, where, number):
        with rls.Client(where) as client:
            while not self.over.is_set():
                try:
                    asked = [client.ask_later("rl", [("user", "bob")]) for _ in range(8)]
                    self.answers[number] += sum(one.result().overall_code == rls.OK for one in asked)
                except grpc.RpcError as error:
                    self.failures.append((error.code(), error.details()))
                    return

    def wait_for(self, more):
        begin = sum(self.answers)
        wait_until(lambda: self.failures or sum(self.answers) >= begin + more, f"{more} more answers")
        assert not self.failures

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(DEADLINE_S)


def test_an_upgrade_under_load_loses_nothing(upgraded):  # noqa: F811
    one = upgraded(LIMITS, ["--threads", "2", "--grpc", "127.0.0.1:0"])
    load = Load(address(one.one))
    try:
        load.wait_for(400)
        for _ in range(2):
            one.upgrade()
            load.wait_for(400)
    finally:
        load.stop()
    assert load.failures == [], one.log()
    with rls.Client(address(one.one)) as client:
        left = client.ask("rl", [("user", "bob")]).statuses[0].limit_remaining
    assert left == 100000 - sum(load.answers) - 1


def test_a_drain_tells_its_watchers_and_loses_nothing(listening):
    """Red first, then GOAWAY: what was asked is answered. Whoever asks afterwards is another server's."""
    one = listening("drain: 9m\n" + LISTEN + LIMITS)
    with rls.Client(address(one)) as client, rls.Client(address(one)) as other:
        watch = client.watch()
        assert next(watch).status == rls.SERVING
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            told = pool.submit(next, watch)
            one.ask_to_end()
            assert told.result(DEADLINE_S).status == rls.NOT_SERVING
        assert other.ask("rl", [("ip", "1.1.1.1")]).overall_code == rls.OK
        one.ask_to_end()  # the drain is over
        with pytest.raises(grpc.RpcError) as ended:
            next(watch)
        assert ended.value.code() == grpc.StatusCode.UNAVAILABLE
        begin = time.monotonic()
        assert one.process.wait(DEADLINE_S) == 0
        assert time.monotonic() - begin < 4  # nobody is waited for who has nothing to ask


# ---- a store in Redis ------------------------------------------------------------------------------------------------

def test_a_slow_node_holds_up_only_who_asks_it(server, redises):  # noqa: F811
    redis = redises()
    one = server("store: {redis: ['127.0.0.1:%d'], budget: 10s}\n" % redis.port + LISTEN + LIMITS, listen=())

    def decides():
        with one.resp() as resp:
            resp.send(encode("SLUICE.CHECK", "warm", 1, "1M/1h"))
            return not isinstance(resp.read(), RespError)
    wait_until(decides, "no node answers")
    with rls.Client(address(one)) as client:
        assert client.ask("rl", [("ip", "1.1.1.1")]).statuses[0].limit_remaining == 2
        redis.process.send_signal(signal.SIGSTOP)
        try:
            asked = [client.ask_later("rl", [("ip", "3.3.3.3")]) for _ in range(4)]
            for _ in range(20):  # beside them, on the same connection
                assert client.ask("rl", [("nobody", "x")]).overall_code == rls.OK
            assert not any(one.done() for one in asked)
        finally:
            redis.process.send_signal(signal.SIGCONT)
        assert sorted(one.result().overall_code for one in asked) == [rls.OK] * 3 + [rls.OVER_LIMIT]
