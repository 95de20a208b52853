"""At a server: what goes wrong on the way, who may ask, connections that are reused, broken, inherited and shared."""
import asyncio
import os
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest

import world
import sluice
import sluice._web
from harness import Server, wait_until

POLICY = "limits: []\nclient-time: true\n"


@pytest.fixture(scope="module")
def server():
    server = Server(world.SLUICE, POLICY)
    yield server
    server.stop()


def url_of(server, who=""):
    return f"redis://{who}127.0.0.1:{server.resp_port}"


def failure(call, *args, **words):
    with pytest.raises(sluice.SluiceError) as caught:
        call(*args, **words)
    return caught.value.code, str(caught.value)


REFUSED = b"-ERR unknown subcommand 'SETINFO'. Try CLIENT HELP.\r\n" * 2  # as Redis 7.0 does


class Peer:
    """A server that answers as it is told: each connection's first bytes by the next answer, after those to who is
    there; None closes it at once."""

    def __init__(self, *answers):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "redis://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.answers, self.kept, self.heard = list(answers), [], []
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        for answer in self.answers:
            connection, _ = self.listener.accept()
            self.kept.append(connection)
            if answer is None:
                connection.close()
                continue
            self.heard.append(connection.recv(65536))
            connection.sendall(REFUSED + answer)

    def close(self):
        self.thread.join(20)
        for connection in (*self.kept, self.listener):
            connection.close()


SEVEN = b"*7\r\n:1\r\n:2\r\n:1\r\n:0\r\n:5\r\n:0\r\n:0\r\n"


@pytest.mark.parametrize("answer,code", [
    (b"", "away"), (None, "away"), (b"*7\r\n:1\r\n", "away"), (b"HTTP/1.1 400\r\n\r\n", "protocol"),
    (b"*1\r\n:1\r\n", "protocol"), (b":5\r\n", "protocol"), (b"*7\r\n" + b":x\r\n" * 7, "protocol"),
    (b"$9999999\r\n" + b"x" * 2000000, "protocol"), (b"-LOADING dataset\r\n", "away"),
    (b"-NOAUTH Authentication required.\r\n", "no-access"), (b"*7\r\n" + b":-9\r\n" * 7, "protocol")])
@pytest.mark.parametrize("face", ["threads", "asyncio"])
def test_answers_that_are_none(face, answer, code):
    peer = Peer(answer)
    words = {"timeout": 300 if answer in (b"", b"*7\r\n:1\r\n") else 10000}
    if face == "threads":
        with sluice.Limiter(peer.url, **words) as limiter:
            assert failure(limiter.check, "k", "2/1s")[0] == code
    else:
        async def ask():
            async with sluice.AsyncLimiter(peer.url, **words) as limiter:
                with pytest.raises(sluice.SluiceError) as caught:
                    await limiter.check("k", "2/1s")
                assert caught.value.code == code
        asyncio.run(ask())
    peer.close()


@pytest.mark.parametrize("face", ["threads", "asyncio"])
def test_it_says_who_it_is_in_one_write_with_the_first_command(face):
    peer = Peer(SEVEN)
    asked = sluice._resp.command(*"CLIENT SETINFO LIB-NAME sluice-python".split()) + \
        sluice._resp.command(*"CLIENT SETINFO LIB-VER".split(), sluice.__version__)
    if face == "threads":
        with sluice.Limiter(peer.url, timeout=10000) as limiter:
            assert limiter.check("k", "2/1s").allowed
    else:
        async def ask():
            async with sluice.AsyncLimiter(peer.url, timeout=10000) as limiter:
                assert (await limiter.check("k", "2/1s")).allowed
        asyncio.run(ask())
    peer.close()
    assert peer.heard[0].startswith(asked + b"*4\r\n$12\r\nSLUICE.CHECK")


def test_it_is_counted_by_its_name():
    server = Server(world.SLUICE, POLICY)

    async def ask():
        async with sluice.AsyncLimiter(url_of(server), timeout=10000) as limiter:
            return [(await limiter.check("k", "3/1h")).allowed for _ in range(5)]
    with sluice.Limiter(url_of(server), timeout=10000) as limiter:
        assert asyncio.run(ask()) == [True] * 3 + [False] * 2
        assert not limiter.check("k", "3/1h").allowed
        with server.http() as http:
            clients = http.ask("GET", "/v1/figures")[2]["clients"]
    server.stop()
    assert [(one["name"], one["version"], one["allowed"], one["denied"]) for one in clients if one["door"] == "resp"] \
        == [("sluice-python", sluice.__version__, 3, 3)]


def test_a_connection_that_went_away_meanwhile_is_not_used():
    peer = Peer(SEVEN, SEVEN)
    with sluice.Limiter(peer.url, timeout=10000) as limiter:
        assert limiter.check("k", "2/1s").allowed
        peer.kept[0].close()
        assert limiter.check("k", "2/1s").allowed  # by another one, sent once
    peer.close()


def test_what_a_request_gets_meanwhile():
    gone = "redis://127.0.0.1:9"
    assert failure(sluice.Limiter(gone).check, "k", "1/1s")[0] == "away"
    passed = sluice.Limiter(gone, on_error="allow").check("k", "1/1s")
    assert passed.allowed and passed.failed_open and passed.index == -1
    assert passed.each is None and sluice.Limiter(gone, on_error="allow").check("k", "1/1s", each=True).each == ()
    assert sluice.Limiter(gone, on_error="allow").check("k", "1/1s", id="a").each is None
    denied = sluice.Limiter(gone, on_error="deny").check("k", "1/1s")
    assert not denied.allowed and denied.retry_after == 1000
    assert failure(sluice.Limiter(gone, on_error="allow").reset, "k", "1/1s")[0] == "away"


def test_callers_mistakes_are_no_outage(server):
    with sluice.Limiter(url_of(server), on_error="allow", timeout=10000) as limiter:
        for args in (("k", "nonsense"), ("k", ["1/1s"] * 17), ("k", "1/1s", -1)):
            with sluice.Limiter() as here:
                assert failure(limiter.check, *args) == failure(here.check, *args)  # word for word


def test_what_is_of_a_wrong_type_is_told_by_a_type_error(server):
    async def loop(call):
        async with sluice.AsyncLimiter(url_of(server), timeout=10000) as limiter:
            return await call(limiter)
    calls = [lambda one: one.admit(None), lambda one: one.admit(5), lambda one: one.admit(["ip"]),
             lambda one: one.holders(5, "1/1s"), lambda one: one.holders("k", None),
             lambda one: one.holders("\ud800", "1/1s"), lambda one: one.commit("k", "1/1s", 5, 1),
             lambda one: one.commit("k", None, 5, 1), lambda one: one.release("k", None, 5),
             lambda one: one.check("k", 5)]
    with sluice.Limiter(policy="limits: []\n") as here, sluice.Limiter(url_of(server), timeout=10000) as there:
        for call in calls:
            for ask in (lambda: call(here), lambda: call(there), lambda: asyncio.run(loop(call))):
                with pytest.raises(TypeError, match="expected"):
                    ask()
        many = {f"a{i}": "x" for i in range(600)}
        for count in (495, 497, 512, 513, 600):
            some = dict(list(many.items())[:count])
            assert failure(here.admit, some) == failure(there.admit, some) == ("bad-argument", "too many attributes") \
                if count > 496 else here.admit(some).allowed
        for none in ({}, {"user": None}):
            assert failure(here.admit, none, each=True) == failure(there.admit, none, each=True) \
                == failure(here.admit, none) == failure(there.admit, none) \
                == ("bad-argument", "no attribute: expected at least one, a name and a value")
        for limiter in (here, there):
            assert limiter.admit({"user": "ann"}, each=True).each == ()
            assert limiter.holders(key="k", limit="concurrency 2 lease 30s") == []
        here.reload(policy="limits: []\n")
        assert failure(there.reload, policy="limits: []\n")[0] == "bad-argument"


def test_the_time_is_all_there_is():
    peer = Peer(b"")
    with sluice.Limiter(peer.url, timeout=200) as limiter:
        begun = time.monotonic()
        assert failure(limiter.check, "k", "1/1s") == ("away", f"{peer.url[8:]}: no answer in time")
        assert 0.15 < time.monotonic() - begun < 5
    peer.close()


def test_many_at_a_time_share_exactly(server):
    allowed = []

    def work(limiter):
        allowed.append(sum(limiter.check("threads", "sliding-log 100/1d").allowed for _ in range(30)))
    with sluice.Limiter(url_of(server), timeout=10000) as limiter:
        threads = [threading.Thread(target=work, args=(limiter,)) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert sum(allowed) == 100

    async def ask():
        async with sluice.AsyncLimiter(url_of(server), timeout=10000) as limiter:
            results = await asyncio.gather(*(limiter.check("loop", "sliding-log 100/1d") for _ in range(300)))
            assert sum(result.allowed for result in results) == 100
            one = asyncio.ensure_future(limiter.check("loop2", "5/1d"))
            await asyncio.sleep(0)
            one.cancel()  # whose answer comes all the same, and is nobody else's
            assert (await limiter.check("loop3", "7/1d")).quota == 7
    asyncio.run(ask())


def test_a_child_has_connections_of_its_own(server):
    with sluice.Limiter(url_of(server), timeout=10000) as limiter:
        limiter.check("forked", "5/1d")
        child = os.fork()
        if child == 0:
            ok = all(limiter.check("forked", "5/1d").remaining == left for left in (3, 2))
            os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert limiter.check("forked", "5/1d").remaining == 1


def test_urls():
    for wrong in ("http://x", "redis://", "redis://h:x", "redis://h/a", "ftp://h", "unix:"):
        assert failure(sluice.Limiter, wrong)[0] == "bad-argument"
    assert failure(sluice.Limiter, "redis://h", policy="limits: []")[0] == "bad-argument"
    for plain in ("redis://u:secret@h", "sluice://h", "unix:/run/x"):  # nothing is said in plain by mistake
        for face in (sluice.Limiter, sluice.AsyncLimiter):
            assert failure(face, plain, tls=ssl.create_default_context()) == (
                "bad-argument", f"tls goes with rediss:// only, not with {plain.split(':')[0]}:")
    with sluice.Limiter("redis://h") as limiter:
        assert failure(limiter.reload, "limits: []\n")[0] == "bad-argument"
    limiter.close()
    assert failure(limiter.check, "k", "1/1s")[0] == "closed"


def test_passwords_and_tls(tmp_path):
    key, cert = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-keyout", key, "-out", cert, "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    user = subprocess.run([world.SLUICE, "password", "ann", "--role", "check"], input="correct horse battery\n",
                          capture_output=True, text=True, check=True).stdout.strip()
    policy = (f"tls: {{certificate: {cert}, key: {key}}}\n"
              'listen: {resp: {address: "127.0.0.1:0", tls: true}, http: "127.0.0.1:0"}\n'
              f"limits: []\nusers:\n  {user}\n")
    server = Server(world.SLUICE, policy, listen=())
    try:
        context = ssl.create_default_context(cafile=cert)
        url = "rediss://{}127.0.0.1:%d" % server.resp_port
        with sluice.Limiter(url.format("ann:correct%20horse%20battery@"), tls=context, timeout=10000) as limiter:
            assert limiter.check("k", "5/1d").allowed
        for who in ("", "ann:wrong@"):
            stranger = sluice.Limiter(url.format(who), tls=context, timeout=10000)
            assert failure(stranger.check, "k", "5/1d")[0] == "no-access"
        assert failure(sluice.Limiter(url.format(""), timeout=10000).check, "k", "5/1d")[0] == "away"  # whose is it?

        ours = url.format("ann:correct%20horse%20battery@")

        async def ask():
            async with sluice.AsyncLimiter(ours, tls=context, timeout=10000) as limiter:
                assert (await limiter.check("k", "5/1d")).remaining == 3
        asyncio.run(ask())
    finally:
        server.stop()


def test_each_limit_of_a_policy_is_told_as_in_process():
    policy = ("limits:\n  - {name: all, key: user, limit: 600/1d}\n"
              "  - {name: seen, key: ip, limit: sliding-log 1/1d, observe: true}\n"
              "  - {name: posts, when: {method: POST}, key: user, limit: token-bucket 2/1d burst 3}\n")
    server = Server(world.SLUICE, policy)
    try:
        with sluice.Limiter(policy=policy) as here, sluice.Limiter(url_of(server), timeout=10000) as there:
            for method in ("GET", "GET", "POST", "POST", "POST", "POST"):
                asked = {"user": "ann", "ip": "192.0.2.1", "method": method}
                mine, theirs = here.admit(asked, each=True), there.admit(asked, each=True)
                assert len(theirs.each) == (3 if method == "POST" else 2)
                for one, other in zip((mine, *mine.each), (theirs, *theirs.each)):
                    for name in ("limit", "rule", "observed", "index", "allowed", "quota", "remaining", "granted",
                                 "bound"):
                        assert getattr(one, name) == getattr(other, name), name
                    assert abs(one.next_after - other.next_after) < 60000
                    assert (one.retry_after > 0) == (other.retry_after > 0)
                assert lines(mine) == lines(theirs)
            assert '"all";q=600;w=86400' in lines(theirs) and "seen" not in lines(theirs)
            assert there.admit({"host": "h"}, each=True).each == here.admit({"host": "h"}, each=True).each == ()
    finally:
        server.stop()


FIGURES = ("allowed", "quota", "remaining", "retry_after", "reset_after", "delay", "index", "limit", "next_after",
           "granted", "repeated", "failed_open", "bound")
SEAT, SEVERAL = "concurrency 3 lease 1h", ["100/1h", ("other", "sliding-log 30/1h"), "unlimited"]


def all_of(result):
    if not isinstance(result, sluice.Result):
        return result
    return ([getattr(result, name) for name in FIGURES], result.id is not None,
            None if result.each is None else [all_of(one)[0] for one in result.each])


def calls_of_every_kind():
    """(operation, arguments, words): each with an id a second time, and all that may be asked for beside it."""
    for words in ({}, {"each": True}, {"next": True}, {"each": True, "next": True}):
        for limits in ("20/1h", SEVERAL, "unlimited"):
            yield "check", ("k", limits, 3), words
            for cost in (3, 3, 0):
                yield "check", ("k", limits, cost), {"id": f"{limits}{sorted(words)}"[:64], **words}
            yield "check", ("k", limits, 200), {"id": f"much {sorted(words)}", **words}
            for _ in range(2):
                yield "check", ("k", limits, 50), {"id": f"upto {limits}{sorted(words)}"[:64], "upto": True, **words}
            yield "peek", ("k", limits, 2), words
            yield "refund", ("k", limits, 2), words
        for cost in (1, 1, 2, 0):
            yield "acquire", ("k", [SEAT, "90/1h"], cost), {"id": f"lease {sorted(words)}", **words}
        yield "acquire", ("k", SEAT, 0), {"id": f"nothing {sorted(words)}", **words}
        yield "acquire", ("full", SEAT, 4), {"id": f"too many {sorted(words)}", **words}
        yield "acquire", ("unnamed", SEAT), words
        yield "release", ("k", [SEAT, "90/1h"], f"lease {sorted(words)}"), {}
    for words in ({}, {"each": True}, {"next": True}):
        for limits in ("170/1h", SEVERAL, [("other", "130/1h"), "180/1h"], "unlimited"):
            for cost in (5, 5, 6, 200, 0):
                yield "reserve", ("reserved", limits, cost), {"id": f"res {limits}{sorted(words)}"[:64], **words}
            yield "reserve", ("reserved", limits, 2), words
            yield "reserve", ("reserved", limits, 200), {"id": f"res much {sorted(words)}", **words}
    yield "reserve", ("k", "60/1h", 5), {"id": "r"}
    yield "reserve", ("k", "60/1h", 5), {"id": "r"}
    yield "commit", ("k", "60/1h", "r", 3), {}
    yield "reserve", ("k", "60/1h", 5), {"id": "s"}
    yield "commit", ("k", "60/1h", "s", 9), {"next": True}


def test_every_figure_is_told_as_in_process(server):
    now = 1728000000000
    words = {"timeout": 20000, "clock": lambda: now}
    told = {name: [] for name in ("granted", "repeated")}

    async def loop(operation, args, named):
        async with sluice.AsyncLimiter(url_of(server), **words) as limiter:
            return all_of(await getattr(limiter, operation)(*args, **named))
    with sluice.Limiter(clock=lambda: now) as here, sluice.Limiter(url_of(server), **words) as there:
        for operation, args, named in calls_of_every_kind():
            mine = getattr(here, operation)(*args, **named)
            theirs = getattr(there, operation)(*args, **named)
            assert all_of(mine) == all_of(theirs), (operation, args, named)
            if operation == "peek":
                assert asyncio.run(loop(operation, args, named)) == all_of(mine)
            if named.get("id") and isinstance(mine, sluice.Result):
                told["repeated"].append(mine.repeated)
            if operation in ("refund", "commit"):
                told["granted"].append(mine.granted)
        again = "check", ("k", "20/1h", 3), {"id": "20/1h[]"}
        assert asyncio.run(loop(*again)) == all_of(here.check(*again[1], **again[2])) and there.check(
            *again[1], **again[2]).repeated
    assert told["repeated"].count(True) > 20 and set(told["granted"]) == {0}


@pytest.mark.parametrize("limits", [[("o", "20/1h")], [("o", "20/1h"), "10/1h"], ["10/1h", ("o", "20/1h")]])
def test_a_reservation_is_committed_by_its_id_alone(server, limits):
    async def loop(id):
        async with sluice.AsyncLimiter(url_of(server), timeout=20000) as limiter:
            reserved = await limiter.reserve("k", limits, 6, id=id)
            return await limiter.commit("k", None, reserved.id, 0)
    with sluice.Limiter(url_of(server), timeout=20000) as limiter, sluice.Limiter() as here:
        for id in (None, "mine"):
            for words in ({}, {"each": True}):
                for said in (None, limits):
                    reserved = limiter.reserve("k", iter(limits), 6, id=id, **words)
                    assert id is None or here.reserve("k", limits, 6, id=id).id == reserved.id
                    assert limiter.commit("k", said, reserved.id, 0).allowed
                    assert limiter.peek("k", limits, 10).allowed
            assert asyncio.run(loop(id)).remaining >= 10


@pytest.mark.parametrize("id", ["order-1234567890.5", b"order-1234567890.5", "0123456789ABCDEF.5", "0123456789abcdef",
                                "0123456789abcdef\n.", "0123456789abcde.f"])
def test_an_id_that_looks_like_a_ticket_is_none(server, id):
    async def loop():
        async with sluice.AsyncLimiter(url_of(server), timeout=20000) as limiter:
            await limiter.reserve("dotted", "100/1d", 10, id=id)
            return await limiter.commit("dotted", "100/1d", id, 0)
    with sluice.Limiter(url_of(server), timeout=20000) as there, sluice.Limiter() as here:
        for limiter in (here, there):
            reserved = limiter.reserve("dotted", "100/1d", 10, id=id)
            assert limiter.commit("dotted", "100/1d", id, 0).remaining == 100
            assert failure(limiter.commit, "dotted", "100/1d", reserved.id, 0)[0] == "not-found"
        assert asyncio.run(loop()).remaining == 100


def test_a_reservation_by_a_limit_of_the_servers_policy():
    server = Server(world.SLUICE, "limits: [{name: api, key: user, limit: 10/1h}]\n")
    try:
        with sluice.Limiter(url_of(server), timeout=20000) as limiter:
            for id in (None, "mine"):
                reserved = limiter.reserve("k", iter(["policy:api"]), 6, id=id)
                assert reserved.allowed and not reserved.repeated
                assert limiter.commit("k", None, reserved.id, 0).remaining == 10
    finally:
        server.stop()


def test_a_reservation_by_a_limit_of_the_servers_policy_tells_each_limit():
    server = Server(world.SLUICE, "limits: [{name: api, key: user, limit: 10/1h}]\n")
    limits = ["policy:api", ("o", "20/1h")]

    async def loop(id):
        async with sluice.AsyncLimiter(url_of(server), timeout=20000) as limiter:
            reserved = await limiter.reserve("k", limits, 6, ttl=60000, id=id, each=True, next=True)
            return reserved, await limiter.commit("k", None, reserved.id, 0)
    try:
        with sluice.Limiter(url_of(server), timeout=20000) as limiter:
            for id in (None, "mine"):
                reserved = limiter.reserve("k", iter(limits), 6, id=id, each=True)
                assert reserved.granted == 6 and not reserved.repeated
                assert [one.remaining for one in reserved.each] == [4, 14]
                if id is not None:
                    again = limiter.reserve("k", limits, 6, id=id, each=True)
                    assert again.repeated and again.id == reserved.id
                assert limiter.commit("k", None, reserved.id, 0).remaining == 10
                told, ended = asyncio.run(loop(id and "loop"))
                assert [one.remaining for one in told.each] == [4, 14] and ended.remaining == 10
            denied = limiter.reserve("k", limits, 11, each=True)
            assert not denied and denied.id is None
            assert limiter.reserve("k", limits, 0, each=True).id is None
            assert limiter.peek("k", limits, 10)
    finally:
        server.stop()


def test_who_holds_leases_is_told_alike(server):
    at, limit = 1728000000000, "concurrency 5 lease 30s"
    with sluice.Limiter(clock=lambda: at) as here, \
            sluice.Limiter(url_of(server), timeout=10000, clock=lambda: at) as there:
        for one in (here, there):
            assert one.holders("hk", limit) == []
            for seconds, id in enumerate(("00000000000000aa", "mine")):
                at += 1000
                assert one.acquire("hk", limit, 2, id=id)
            told = one.holders("hk", limit)
            assert told[0] == ("00000000000000aa", 2, 29000) and told[1][1:] == (2, 30000)
            assert one.release("hk", limit, told[1][0]) == 1 and len(one.holders(b"hk", limit)) == 1
            assert failure(one.holders, "hk", "5 a minute")[0] == "bad-limit"
        assert failure(here.holders, "hk", "5/1m") == failure(there.holders, "hk", "5/1m")

    async def asked():
        async with sluice.AsyncLimiter(url_of(server), timeout=10000) as one, sluice.AsyncLimiter() as other:
            return await one.holders("other", limit), await other.holders("other", limit)
    assert asyncio.run(asked()) == ([], [])


def test_when_the_least_remaining_of_a_policy_grows_is_told_alike():
    policy = ("limits:\n  - {name: hours, key: user, limit: token-bucket 3/3h}\n"
              "  - {name: days, key: user, limit: token-bucket 3/3d}\n  - {name: much, key: user, limit: 9/1m}\n"
              "  - {name: seen, key: user, limit: 2/30d, observe: true}\n")
    server = Server(world.SLUICE, policy)
    try:
        with sluice.Limiter(policy=policy) as here, sluice.Limiter(url_of(server), timeout=20000) as there:
            for one in (here, there):
                for _ in range(5):
                    assert 80000000 < one.admit({"user": "ann"}, each=True).next_after <= 86400000
                assert one.admit({"user": "bob"}, 0, each=True).next_after == 0
    finally:
        server.stop()


def lines(result):
    """RateLimit-Policy, as the middlewares say it."""
    return dict(sluice._core.headers(sluice._web.FORMS["draft10"], result, 0))["RateLimit-Policy"]


# ---- what nobody waits for any more ----------------------------------------------------------------------------------

HELD = "concurrency 9 lease 1h"
HOLDS = "limits:\n  - {name: work, key: user, limit: %s}\n" % HELD


class Stopped:
    """A server that answers nobody for the time of a block, and all that it was asked meanwhile afterwards."""

    def __init__(self, server):
        self.server = server

    def __enter__(self):
        self.server.process.send_signal(signal.SIGSTOP)

    def __exit__(self, *unused):
        self.server.process.send_signal(signal.SIGCONT)


@pytest.fixture
def holding():
    server = Server(world.SLUICE, HOLDS)
    yield server
    server.stop()


LIMITS = [("k", HELD), ("k", "sliding-log 7/1h"), ("user=k", "policy:work")]
CALLS = {"acquire": ("k", HELD), "reserve": ("k", "sliding-log 7/1h", 7), "admit": ({"user": "k"},)}


def all_is_free(server, count):
    """Whether so many calls at least were allowed, and nothing is left of them."""
    with server.http() as http:
        clients = http.ask("GET", "/v1/figures")[2]["clients"]
    with sluice.Limiter(url_of(server), timeout=20000) as limiter:
        left = [limiter.peek(key, limit, 0).remaining for key, limit in LIMITS]
    return sum(one["allowed"] for one in clients) >= count and left == [9, 7, 9]


@pytest.mark.parametrize("operation", ["acquire", "reserve"])
def test_what_timed_out_holds_nothing(holding, operation):
    with sluice.Limiter(url_of(holding), timeout=300) as limiter:
        limiter.peek("k", HELD)
        with Stopped(holding):
            assert failure(getattr(limiter, operation), *CALLS[operation])[0] == "away"
    wait_until(lambda: all_is_free(holding, 1), "what was held is free")


@pytest.mark.parametrize("operation", ["acquire", "reserve"])
def test_what_timed_out_in_a_loop_holds_nothing(holding, operation):
    async def ask():
        async with sluice.AsyncLimiter(url_of(holding), timeout=300) as limiter:
            await limiter.peek("k", HELD)
            with Stopped(holding):
                calls = [getattr(limiter, operation)(*CALLS[operation]) for _ in range(3)]
                for error in await asyncio.gather(*calls, return_exceptions=True):
                    assert error.code == "away"
    asyncio.run(ask())
    wait_until(lambda: all_is_free(holding, 3 if operation == "acquire" else 1), "what was held is free")


def end_of(limiter, operation, id):
    if operation == "reserve":
        return limiter.commit(*CALLS[operation][:2], id, 0)
    return limiter.release("k", HELD, id) if operation == "acquire" else limiter.release("*", None, id)


@pytest.mark.parametrize("operation", CALLS)
def test_what_is_cancelled_holds_nothing(holding, operation):
    async def ask():
        async with sluice.AsyncLimiter(url_of(holding), timeout=20000) as limiter:
            await limiter.peek("k", HELD)
            for turns in range(1, 9):  # before it is sent, and after
                task = asyncio.ensure_future(getattr(limiter, operation)(*CALLS[operation]))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                answer, = await asyncio.gather(task, return_exceptions=True)
                if isinstance(answer, sluice.Result):  # the answer was there before
                    await end_of(limiter, operation, answer.id)
                else:
                    assert isinstance(answer, asyncio.CancelledError)
            await limiter.peek("k", HELD)  # comes after all of them
    asyncio.run(ask())
    wait_until(lambda: all_is_free(holding, 1), "what was held is free")


def test_an_id_of_the_callers_own_is_his_to_give_back(holding):
    with sluice.Limiter(url_of(holding), timeout=300) as limiter:
        assert limiter.acquire("k", HELD, id="mine").allowed
        with Stopped(holding):
            assert failure(limiter.acquire, "k", HELD, id="mine")[0] == "away"
    with sluice.Limiter(url_of(holding), timeout=20000) as limiter:
        for _ in range(20):
            assert len(limiter.holders("k", HELD)) == 1
        assert limiter.release("k", HELD, "mine") == 1


@pytest.mark.parametrize("operation", CALLS)
def test_what_is_under_way_when_a_loop_closes_holds_nothing(holding, operation):
    async def ask():
        limiter = sluice.AsyncLimiter(url_of(holding), timeout=20000)
        await limiter.peek("k", HELD)
        with Stopped(holding):
            task = asyncio.ensure_future(getattr(limiter, operation)(*CALLS[operation]))
            await asyncio.sleep(0.05)
            closing = asyncio.ensure_future(limiter.aclose())
            answer, = await asyncio.gather(task, return_exceptions=True)
            assert answer.code == "away"
            with pytest.raises(sluice.SluiceError) as caught:
                await limiter.peek("k", HELD)
            assert caught.value.code == "closed"
        await closing
    asyncio.run(ask())
    wait_until(lambda: all_is_free(holding, 1), "what was held is free")


def test_a_loop_that_closes_waits_no_longer_than_its_timeout(holding):
    async def ask():
        limiter, other = (sluice.AsyncLimiter(url_of(holding), timeout=300) for _ in range(2))
        await limiter.peek("k", HELD)
        with Stopped(holding):
            task = asyncio.ensure_future(limiter.acquire(*CALLS["acquire"]))
            await asyncio.sleep(0)
            begun = time.monotonic()
            await limiter.aclose()
            assert 0.25 < time.monotonic() - begun < 8
            assert (await asyncio.gather(task, return_exceptions=True))[0].code == "away"
        task = asyncio.ensure_future(other.check("k", "5/1d"))
        await asyncio.sleep(0)
        await other.aclose()  # before it is connected
        assert (await asyncio.gather(task, return_exceptions=True))[0].code == "away"
    asyncio.run(ask())
    wait_until(lambda: all_is_free(holding, 1), "what was held is free")


@pytest.mark.parametrize("operation", ["acquire", "reserve"])
def test_what_times_out_when_it_is_closed_holds_nothing(holding, operation):
    with sluice.Limiter(url_of(holding), timeout=300) as limiter:
        limiter.peek("k", HELD)
        with Stopped(holding):
            closer = threading.Timer(0.1, limiter.close)
            closer.start()
            assert failure(getattr(limiter, operation), *CALLS[operation])[0] == "away"
            closer.join()
    wait_until(lambda: all_is_free(holding, 1), "what was held is free")


PLACES = "limits: [{name: api, key: user, limit: 10/1h}]\n"


@pytest.fixture
def reserving():
    server = Server(world.SLUICE, PLACES)
    yield server
    server.stop()


def nothing_is_reserved(server, count):
    with server.http() as http:
        clients = http.ask("GET", "/v1/figures")[2]["clients"]
    with sluice.Limiter(url_of(server), timeout=20000) as limiter:
        left = limiter.peek("k", "policy:api").remaining
    return sum(one["allowed"] for one in clients) >= count and left == 10


@pytest.mark.parametrize("each", [False, True])
def test_a_reservation_by_a_policy_that_is_cancelled_holds_nothing(reserving, each):
    async def ask():
        async with sluice.AsyncLimiter(url_of(reserving), timeout=20000) as limiter:
            await limiter.peek("k", "policy:api")
            for turns in range(1, 17):  # before it is sent, and after, and beside EACH between the two
                task = asyncio.ensure_future(limiter.reserve("k", "policy:api", 5, ttl=3600000, each=each))
                for turn in range(turns):
                    await asyncio.sleep(0.0001 if turn > 3 else 0)
                task.cancel()
                answer, = await asyncio.gather(task, return_exceptions=True)
                if isinstance(answer, sluice.Result):
                    if answer:  # not where others are still held
                        await limiter.commit("k", None, answer.id, 0)
                else:
                    assert isinstance(answer, asyncio.CancelledError)
            for _ in range(3):
                left = (await limiter.peek("k", "policy:api")).remaining  # comes after all of them
            assert left == 10
    asyncio.run(ask())
    wait_until(lambda: nothing_is_reserved(reserving, 1), "what was reserved is free")


@pytest.mark.parametrize("each", [False, True])
def test_a_reservation_by_a_policy_that_timed_out_in_a_loop_holds_nothing(reserving, each):
    async def ask():
        async with sluice.AsyncLimiter(url_of(reserving), timeout=300) as limiter:
            await limiter.peek("k", "policy:api")
            with Stopped(reserving):
                with pytest.raises(sluice.SluiceError):
                    await limiter.reserve("k", "policy:api", 10, ttl=3600000, each=each)
            await asyncio.sleep(0.1)
    asyncio.run(ask())
    wait_until(lambda: nothing_is_reserved(reserving, 1), "what was reserved is free")
