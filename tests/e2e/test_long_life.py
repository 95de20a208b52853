"""The long life of a server: at every door one process is asked by a grammar of valid and invalid requests, by
connections that come, go, half-close and are cut, while policies are loaded in between. Some connections ask one thing,
or things of one kind, a thousand times while nobody else asks anything: what a request leaves in a worker adds up then.

The server never ends and no sanitizer speaks; each request gets one well-formed answer; the decisions and refusals in
the answers are those in the metrics. After all that a fixed set of probes is answered as a new server answers them, at
each door and by several connections, and memory, connections and leases are back.

The seed is printed; SLUICE_SEED=N runs that one again. SLUICE_SOAK_SECONDS goes on for so long.
"""

import collections
import json
import os
import random
import re
import socket
import string
import struct
import time

import pytest

from harness import DEADLINE_S, RespError, encode, raw_exchange, wait_until
from long_life import (ENVOY, ENVOY_PROBE, LEASED, POLICY, RELOADS_REFUSED, SPOP_HELLO, Grammar, h2_call)
from many_wires import H2_PREFACE, GrpcWire, HttpWire, RespWire, SpopWire, talk
from redis_world import SOAK, redises  # noqa: F401 - a fixture
from spop import Spop
from test_hostile import mutated, open_files, resident_bytes

grpc = pytest.importorskip("grpc", reason="python3-grpcio is not installed")
import oracle  # noqa: E402 - needs grpc
import rls  # noqa: E402

SEED = int(os.environ.get("SLUICE_SEED", random.randrange(1, 1 << 32)))
QUOTAS = (20, 9, 300)
STORE_BYTES = 16 << 20
GROWS_BYTES_MAX = 24 << 20  # beside the store, which is touched as it is used
REFUSED = re.compile(r'^sluice_protocol_errors_total\{transport="(\w+)"\} (\d+)$', re.M)
ANSWERED = re.compile(r'^sluice_requests_total\{transport="(\w+)",decision="\w+"\} (\d+)$', re.M)
OPEN = re.compile(r'^sluice_connections\{transport="\w+"\} (\d+)$', re.M)


class Life:
    """A server, its files, and what it was asked so far by door."""
    lasts = True  # what is counted is there to the end

    def __init__(self, server, tmp_path, kind, threads=1, store="store: {memory: 16MiB}", keys=60):
        print(f"SLUICE_SEED={SEED}")
        self.dice = random.Random(f"{SEED} {kind}")
        self.grammar, self.asked = Grammar(self.dice, keys), collections.Counter()
        self.folder = tmp_path / "envoy"
        self.folder.mkdir()
        (self.folder / "shop.yaml").write_text(ENVOY)
        (self.folder / "probe.yaml").write_text(ENVOY_PROBE)
        self.store, self.threads, self.server_of = store, threads, server
        self.one = server(self.policy(QUOTAS[0]), listen=())
        self.wires, self.kept = [], [self.grammar.attributes() for _ in range(12)]

    def policy(self, quota, prefix="old:"):
        return string.Template(POLICY).substitute(store=self.store.replace("PREFIX", prefix), threads=self.threads,
                                                  quota=quota, envoy=self.folder)

    def other_policy(self):
        """Some limits less, in another order, some with another window."""
        head, limits = self.policy(self.dice.choice(QUOTAS)).split("limits:\n")
        kept = [limit for limit in re.split(r"^(?=  - )", limits, flags=re.M) if limit and self.dice.random() < 0.8]
        self.dice.shuffle(kept)
        text = "".join(kept).replace("/1s", self.dice.choice(["/1s", "/2s", "/1m"]))
        head += self.dice.choice(["", "headers: [draft7, legacy-epoch]\n", "near-limit: 50%\n", "observe: true\n",
                                  "log: {keys: hash, keys-secret: 'exchange these bytes for your own'}\n",
                                  "ipv6-prefix: 128\n", "client-address: forwarded\n"])
        return head + ("limits:\n" + text if kept else "limits: []\n")

    # ---- clean: all that is asked is answered, and counted ----

    def decisions(self):
        with self.one.http() as http:
            text = http.ask("GET", "/metrics")[2].decode()
        found = collections.Counter()
        for transport, count in ANSWERED.findall(text):
            found[transport] += int(count)
        for transport, count in REFUSED.findall(text):
            found[transport + " refused"] += int(count)
        return found

    def renew_wires(self):
        """Some connections go, orderly or not, and others come."""
        for wire in list(self.wires):
            if wire.ended or self.dice.random() < 0.2:
                wire.close(self.dice.random() < 0.3)
                self.wires.remove(wire)
        while len(self.wires) < 7:
            kind = self.dice.choice([RespWire, RespWire, HttpWire, HttpWire, SpopWire])
            if kind is SpopWire:
                self.wires.append(kind(Spop(self.one.ports("spop")[0]).socket))
            else:
                self.wires.append(kind.to(self.dice.choice(self.one.ports("resp" if kind is RespWire else "http"))))

    def ask_all(self, count):
        """`count` requests on each connection, all at once."""
        for wire in self.wires:
            if isinstance(wire, SpopWire):
                wire.ask([self.grammar.spop(i + 1) for i in range(count)])
            elif isinstance(wire, RespWire):
                wire.ask([self.grammar.resp() for _ in range(count)])
            else:
                wire.ask([self.grammar.http() for _ in range(count)])
        self.asked["answered"] += talk(self.wires, self.dice)

    def clean(self, rounds, count):
        for _ in range(rounds):
            self.renew_wires()
            before, told = self.decisions(), collections.Counter()
            self.ask_all(count)
            for wire in self.wires:
                door = type(wire).__name__[:-4].lower()
                told[door] += wire.decided
                told[door + " refused"] += wire.refused
                self.asked[door] += wire.answered
                self.asked[door + " refused"] += wire.refused
                wire.decided = wire.answered = wire.refused = 0
            now = self.decisions()
            for what in told:
                assert now[what] - before[what] == told[what], (what, now, before, told)

    def stubborn(self, rounds, count):
        """One connection asks the same few things again and again, or things of one kind, which may all be wrong.
        Nobody else asks anything: what each request leaves in a worker is cleared away by nothing else."""
        for _ in range(rounds):
            self.renew_wires()
            wire, few = self.dice.choice(self.wires), self.dice.choice([1, 1, 1, 2, 4])
            if self.dice.random() < 0.12:
                self.stubborn_calls(few, count)
                continue
            self.grammar.stubborn = self.dice.random() < 0.8
            if self.dice.random() < 0.5:
                self.grammar.only = self.dice.choice(["decides", "decides", "admits", "ends", "looks", "session"])
                self.grammar.fails = self.dice.random() < 0.7
                few = count
            made = {SpopWire: lambda: self.grammar.spop(1), RespWire: self.grammar.resp, HttpWire: self.grammar.http}
            some = [made[type(wire)]() for _ in range(few)]
            wire.ask(some, 20 if any(b"RELOAD" in data.upper() for data, _ in some) else count // few)
            self.grammar.stubborn, self.grammar.only, self.grammar.fails = False, None, False
            self.asked["stubborn " + type(wire).__name__[:-4].lower()] += talk([wire], self.dice)
            wire.decided = wire.answered = wire.refused = 0

    def stubborn_calls(self, few, count):
        """The same by gRPC, 20 calls under way at a time."""
        wire = GrpcWire.to(self.one.ports("grpc")[0])
        calls = [h2_call(self.grammar, False) for _ in range(few)]
        at_a_time = max(1, min(20, 30000 // max(len(call(1)) for call in calls)))
        for _ in range(count // at_a_time):
            wire.calls([calls[i % few] for i in range(at_a_time)])
            talk([wire], self.dice)
            assert not wire.ended
        self.asked["stubborn grpc"] += wire.answered
        wire.close()

    def envoy(self, count):
        """By gRPC: many calls under way on a channel, some given up."""
        with rls.Client(f"127.0.0.1:{self.one.ports('grpc')[0]}") as client:
            flights = []
            for _ in range(count):
                domain, lists, hits = self.grammar.descriptors()
                lists = [[(key, value.encode("utf-8", "replace").decode()) for key, value in one] for one in lists]
                flights.append(client.ask_later(domain, *lists, hits=hits))
                if self.dice.random() < 0.05:
                    flights.pop().cancel()
            for flight in flights:
                try:
                    assert flight.result().overall_code in (rls.OK, rls.OVER_LIMIT)
                except grpc.RpcError as error:
                    assert error.code() in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INVALID_ARGUMENT), error
            assert client.check() == rls.SERVING
            self.asked["grpc"] += count

    # ---- rude: what is not answered ends all the same ----

    def rude_bytes(self):
        """(port, bytes, how many requests they are at most): whole requests, and then some that are none."""
        door, count = self.dice.choice(["resp", "http", "http", "spop", "grpc"]), self.dice.randrange(1, 40)
        port = self.dice.choice(self.one.ports(door))
        if door == "spop":
            parts = [self.grammar.spop(i + 1)[0] for i in range(count)]
            hello = b"" if self.dice.random() < 0.1 else SPOP_HELLO
            return port, hello + b"".join(parts[:-1]) + mutated(self.dice, parts[-1])
        if door == "grpc":
            parts = [h2_call(self.grammar)(stream) for stream in range(1, 2 * count, 2)]
            return port, H2_PREFACE + b"".join(parts[:-1]) + mutated(self.dice, parts[-1])
        parts = [getattr(self.grammar, door)()[0] for _ in range(count)]
        if door == "resp" and self.dice.random() < 0.3:
            parts.append(encode("SLUICE.TAIL", *self.dice.choice([[], ["DENIED"], ["x"]])))
        if door == "http" and self.dice.random() < 0.2:
            parts.append(b"GET /v1/tail HTTP/1.1\r\nHost: localhost\r\n\r\n")
        if self.dice.random() < 0.5:
            return port, b"".join(parts[:-1]) + mutated(self.dice, parts[-1])
        whole = b"".join(parts)
        return port, whole[:self.dice.randrange(len(whole) + 1)]

    def rude(self, count):
        for _ in range(count):
            port, data = self.rude_bytes()
            self.asked["rude"] += 1
            if self.dice.random() < 0.4 and b"tail" not in data.lower():
                raw_exchange(port, data)
                continue
            sock = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
            sock.setblocking(False)
            try:
                sock.send(data)
                if self.dice.random() < 0.5:
                    sock.recv(100)
                if self.dice.random() < 0.3:
                    sock.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            if self.dice.random() < 0.5:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()

    def wait_for_quiet(self):
        """Until only our connections are open, and who asks for that."""
        def no_others():
            with self.one.http() as http:
                text = http.ask("GET", "/metrics")[2].decode()
            return sum(int(count) for count in OPEN.findall(text)) <= 1 + len(self.wires)
        wait_until(no_others, "connections that were closed are kept")

    def reload(self, text, wanted=True):
        with open(self.one.policy_file + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(self.one.policy_file + ".new", self.one.policy_file)
        with self.one.resp() as resp, self.one.http() as http:
            if self.dice.random() < 0.5:
                done = http.post("/v1/reload", "")[0] == 200
            else:
                try:
                    done = resp.call("SLUICE.RELOAD") == b"OK"
                except RespError:
                    done = False
        assert done == wanted, text + "\n".join(line for line in self.one.stderr.lines if "warning" not in line)[-3000:]
        self.asked["reloads"] += 1

    def reload_any(self):
        """Another policy, one that is refused, or the same again while others ask."""
        draw = self.dice.random()
        if draw < 0.2:
            self.reload(self.dice.choice(RELOADS_REFUSED), False)
        else:
            self.reload(self.other_policy() if draw < 0.8 else self.policy(QUOTAS[0]))


    # ---- what is remembered of requests ----

    def twins(self):
        """What workers remember of the bytes of requests is of the policy that is in force: a request that was asked by
        the same bytes all the time is decided by the same limits as one that is written differently."""
        with self.one.resp() as resp, self.one.http() as http:
            for attributes in self.kept:
                pairs = [word for name, value in attributes.items() for word in (name, value.encode())]
                turned = [word for at in range(len(pairs) - 2, -1, -2) for word in pairs[at:at + 2]]
                resp.send(encode("SLUICE.ADMIT", 0, "EACH", *pairs) * 3 + encode("sluice.admit", 0, "EACH", *turned))
                told = [resp.read() for _ in range(4)]
                limits = [reply if isinstance(reply, RespError) else by_which(reply) for reply in told]
                assert limits[2] == limits[3], (attributes, told[2:])
                asked = {"attributes": attributes, "peek": True}
                bodies = [json.dumps(asked)] * 3 + [json.dumps(asked, indent=2)]
                told = [http.post("/v1/admit", body)[2] for body in bodies]
                limits = [[(one["limit"], one["name"], one["key"], one["observed"]) for one in answer["limits"]]
                          for answer in told]
                assert limits[2] == limits[3] and [one[1].encode() for one in limits[3]] == [one[0] for one in by_which(
                    resp.call("SLUICE.ADMIT", 0, "EACH", *pairs))], (attributes, told[2:])
        self.asked["twins"] += 8 * len(self.kept)


def by_which(reply):
    """The name, the limit, the place and whether it is observed, of each limit of an answer by EACH."""
    each = next(part for part in reply if isinstance(part, list))
    return [(*one[:2], *one[-2:]) for one in each]


# ---- probes ----------------------------------------------------------------------------------------------------------

INSTANT = 10**12
LONG = "path=/" + "p" * 900
LIMITS = ["sliding-log 7/1h", "fixed-window 100/1m", "50/1h", "token-bucket 10/1s burst 50",
          "leaky-bucket 9/1s queue 9", "sliding-buckets 30/1m precision 5s", "1M/month", "1000/1h spread"]


def lasting(answer):
    """An answer without what changes from run to run: ids, and waits to ends that the clock decides."""
    if isinstance(answer, dict):
        return {key: lasting(value) for key, value in answer.items() if not key.endswith("_ms") and key != "id"}
    if isinstance(answer, (list, tuple)):
        if len(answer) >= 7 and all(isinstance(number, int) for number in answer[:7]):
            return [*answer[:3], *lasting(answer[6:8])]
        return [lasting(one) for one in answer]
    return answer


def headers_of(pairs):
    return [(name, re.sub(r"t=\d+", "", value)) for name, value in pairs
            if "ratelimit" in name.lower() and "reset" not in name.lower()]


def resp_probes(client, who):
    """(what is asked, the answer) of one connection."""
    def ask(*words):
        client.send(encode(*words))
        reply = client.read()
        return str(reply) if isinstance(reply, RespError) else reply
    for limit in LIMITS:
        yield limit, ask("SLUICE.CHECK", "probe:" + who, 3, "AT", INSTANT, "NEXT", limit)
    yield "several", ask("SLUICE.CHECK", "probe:" + who, 2, "AT", INSTANT, "EACH", *LIMITS, "KEY", "probe:b" + who,
                         *LIMITS)
    yield "members", ask("SLUICE.CHECK", "probe:" + who, 1, "AT", INSTANT, "distinct 5/1m", "MEMBER", "m" * 900,
                         "distinct 50/1h")
    yield "upto", ask("SLUICE.CHECK", "probe:u" + who, 9, "AT", INSTANT, "ID", "i" * 64, "UPTO", "sliding-log 7/1h")
    yield "again", ask("SLUICE.CHECK", "probe:u" + who, 9, "AT", INSTANT, "ID", "i" * 64, "UPTO", "sliding-log 7/1h")
    for key in ("probe=" + who, LONG + who, "probe=" + "%" * 300 + who):
        yield key, lasting(ask("SLUICE.CHECK", key, 1, "policy:probe"))
        yield key, lasting(ask("SLUICE.PEEK", key, 1, "policy:probe", "KEY", key, "policy:probe-path"))
        yield key, ask("SLUICE.CHECK", key, 1, "policy:nobody", "nonsense")
        yield key, ask("SLUICE.RESET", key, "policy:probe")
    admitted = ("probe", "a" + who, "path", "//probe/%41/y/../x?z", "method", "post")
    yield "admit", lasting(ask("SLUICE.ADMIT", 1, "NEXT", *admitted))
    yield "explain", lasting([row[:6] for row in ask("SLUICE.EXPLAIN", 1, *admitted)])
    held = ask("SLUICE.ADMIT", 1, "probe", "held" + who)
    yield "held", lasting(held)
    yield "holders", len(ask("SLUICE.HOLDERS", "probe=held" + who, "policy:probe-held"))
    yield "released", ask("SLUICE.RELEASE", "*", held[8])
    later = ask("SLUICE.ADMIT", 9, "probe", "later" + who)
    yield "later", lasting(later)
    yield "committed", lasting(ask("SLUICE.COMMIT", "*", later[8], 3))
    yield "committed", ask("SLUICE.COMMIT", "*", later[8], 3)
    yield "throttle", ask("CL.THROTTLE", "probe:" + who, 15, 1, 3600)[:3]
    yield "override", ask("SLUICE.OVERRIDE", "SET", "policy:probe", "probe=o" + who, "70/3660d")
    yield "override", lasting(ask("SLUICE.CHECK", "probe=o" + who, 1, "policy:probe"))
    yield "override", ask("SLUICE.OVERRIDE", "DEL", "policy:probe", "probe=o" + who)


def http_probes(client, who):
    def ask(*words, **more):
        status, headers, body = client.ask(*words, **more)
        return status, headers_of(headers), lasting(body)
    yield "check", ask("POST", "/v1/check", {"key": "probe:h" + who, "limits": LIMITS, "at": INSTANT, "next": True})
    yield "key", ask("POST", "/v1/check", {"key": LONG + who, "limits": ["policy:probe", {"key": "x" * 900 + who,
                                                                                        "limit": "policy:probe"}]})
    yield "wrong", ask("POST", "/v1/check", {"key": LONG + who, "limits": ["policy:nobody"]})
    yield "admit", ask("POST", "/v1/admit",
                       {"attributes": {"probe": "h" + who, "method": "Post", "path": "/probe/a/x"}})
    yield "explain", ask("GET", "/v1/explain?probe=h" + who)
    yield "inspect", ask("GET", "/v1/inspect?probe=h" + who)[0]
    for door, prefix in (("forward", "Forwarded"), ("nginx", "Original")):
        yield door, ask("GET", "/v1/auth/" + door, None, {"X-Probe": "p" + who, f"X-{prefix}-Method": "POST",
                                                          f"X-{prefix}-URI": "/probe/%41/x?y"})
    yield "envoy", ask("POST", "/v1/auth/envoy/probe/b/x", b"", {"X-Probe": "p" + who})
    yield "limits", ask("GET", "/v1/limits")
    with oracle.Json(client.connection.port) as by_json:
        yield "json", oracle.told_json(by_json.send(rls.request("probe", [("who", "j" + who)], hits=2))[1])


def probes(one):
    """All doors by several connections, so that each worker has some."""
    told = []
    for i in range(4):
        with one.resp() as resp, one.http() as http:
            told += [*resp_probes(resp, str(i)), *http_probes(http, str(i))]
        spop = Spop(one.ports("spop")[0])
        told += [("spop", lasting({**spop.ask("admit", {"probe": "s%d" % i, "path": "/probe/a/x"}), "ratelimit": ""}))]
        spop.close()
        with rls.Client(f"127.0.0.1:{one.ports('grpc')[0]}") as client:
            told.append(("grpc", oracle.told(client.ask("probe", [("who", "g%d" % i)], hits=2))))
    return told


# ---- lives -----------------------------------------------------------------------------------------------------------

def is_sanitized(one):
    with open(f"/proc/{one.process.pid}/maps", encoding="ascii", errors="replace") as maps:
        return "san.so" in maps.read()


def live(life, seconds):
    """One life, and what has to be so after it."""
    young = life.server_of(life.policy(QUOTAS[0], "young:"), listen=())
    wanted = probes(young)
    young.stop()
    one, end, turn = life.one, time.monotonic() + seconds, 0
    life.clean(1, 50)
    files, memory = open_files(one.process.pid) - len(life.wires), 0
    while turn < 3 or time.monotonic() < end:
        life.clean(2, life.dice.choice([5, 60, 200]))
        life.stubborn(5, 1200)
        life.rude(12)
        life.envoy(8)
        life.wait_for_quiet()
        if life.dice.random() < 0.3:
            life.reload_any()
        life.twins()
        turn += 1
        if turn == 2:
            memory = resident_bytes(one.process.pid)
    for wire in life.wires:
        wire.close()
    life.wires = []
    life.wait_for_quiet()
    life.reload(life.policy(QUOTAS[0]))
    assert one.alive() and "ERROR: " not in one.stderr.text(), one.stderr.text()[-5000:]
    for (asked, want), (_, told) in zip(wanted, probes(one) if life.lasts else ()):
        assert told == want, (asked, told, want)
    with one.resp() as resp:
        for key, limit in [("k%d" % i, limit) for i in range(60) for limit in LEASED]:
            wait_until(lambda: len(set(resp.call("SLUICE.PEEK", key, 0, limit)[1:3])) == 1, "a lease stays")
    wait_until(lambda: open_files(one.process.pid) <= files + 2, "files of closed connections were kept")
    grown = resident_bytes(one.process.pid) - memory
    print(f"{turn} turns, {dict(life.asked)}, resident memory {grown / 1e6:+.1f} MB")
    assert grown < STORE_BYTES + GROWS_BYTES_MAX or is_sanitized(one), grown


def survived(life, seconds):
    try:
        live(life, seconds)
    except Exception as error:
        if not life.one.alive():
            raise AssertionError("the server ended: " + life.one.stderr.text()[-8000:]) from error
        raise


@pytest.mark.parametrize("threads", [1, 2])
def test_a_long_life(server, tmp_path, threads):
    survived(Life(server, tmp_path, threads, threads), SOAK / 4)


def test_a_long_life_of_many_keys(server, tmp_path):
    """Whose store has no room for them: what was in use makes room, also that of the probes."""
    life = Life(server, tmp_path, "many", 2, "store: {memory: 1MiB}", 1 << 20)
    life.lasts = False
    survived(life, SOAK / 4)


def test_a_long_life_over_redis(server, redises, tmp_path):  # noqa: F811
    """Its counters are in Redis: what a request asks there comes back while others ask."""
    store = 'store: {redis: "127.0.0.1:%d", via: module, budget: 10s, prefix: "PREFIX"}' % redises().port
    survived(Life(server, tmp_path, "redis", 2, store), SOAK / 4)
