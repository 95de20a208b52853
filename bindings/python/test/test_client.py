"""The client that behaves, by each of its libraries: on steered time against answers that a test writes, and against an
application that asks a real server for each of its requests."""

import asyncio
import http.server
import importlib
import json
import math
import os
import socket
import sys
import threading
import urllib.error
import urllib.request

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "tests", "e2e"))
from harness import Server, wait_until  # noqa: E402

import sluice.client  # noqa: E402
from sluice.client import Client, RateLimitedError  # noqa: E402

SLUICE = os.path.abspath(os.environ.get("SLUICE_BIN", os.path.join(HERE, "..", "..", "..", "build", "sluice")))
START = 1728000000000


class Clock(sluice.client.Clock):
    """Time that goes on only when somebody waits: by one thread, or by the tasks of one loop."""

    def __init__(self):
        self.at, self.timers = START, []

    def now(self):
        return self.at

    def sleep(self, ms):
        self.at += ms

    def wait(self, condition, ms):
        assert ms < math.inf, "nobody would ever wake it"
        self.at += math.ceil(ms)

    async def sleep_async(self, ms):
        await self.until(self.at + ms, asyncio.Event())

    async def wait_async(self, event, ms):
        await self.until(self.at + ms, event)

    async def until(self, at, event):
        timer = (at, asyncio.get_running_loop().create_future())
        self.timers.append(timer)
        woken = asyncio.ensure_future(event.wait())
        await asyncio.wait([timer[1], woken], return_when=asyncio.FIRST_COMPLETED)
        woken.cancel()
        if timer in self.timers:
            self.timers.remove(timer)

    async def run(self, work, busy):
        """Lets time go on to the next timer whenever nothing is under way, until the work is done."""
        task, idle = asyncio.ensure_future(work), 0
        while not task.done():
            await asyncio.sleep(0 if not busy() else 0.001)
            idle = 0 if busy() else idle + 1
            if idle > 10 and self.timers:
                first = min(self.timers, key=lambda timer: timer[0])
                self.timers.remove(first)
                self.at = max(self.at, math.ceil(first[0]))
                first[1].set_result(None)
                idle = 0
        return task.result()


class App:
    """An application on a free port. `answer` gives (status, headers) for a request's (method, path, headers, body)."""

    def __init__(self, answer):
        seen = self.seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                seen.append((self.command, self.path, body))
                status, headers = answer(self.command, self.path, self.headers, body)
                self.send_response_only(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")
            do_GET = do_POST = do_PUT = handle_one

            def log_message(self, *_):
                pass

        class Threads(http.server.ThreadingHTTPServer):
            daemon_threads, request_queue_size = True, 256

        self.server = Threads(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d" % self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def app():
    apps = []

    def start(answers):
        """Answers in turn, the last for ever; or a function."""
        turn = iter(answers) if not callable(answers) else None

        def answer(*request):
            nonlocal last
            last = next(turn, last)
            return last
        last = None
        apps.append(App(answers if turn is None else answer))
        return apps[-1]

    yield start
    for one in apps:
        one.stop()


def by_requests(client, url, method="GET", body=None, headers=None):
    with sluice.client.mount(client=client) as session:
        return session.request(method, url, data=body, headers=headers).status_code


def by_httpx(client, url, method="GET", body=None, headers=None):
    import httpx
    with httpx.Client(transport=sluice.client.Transport(client=client)) as session:
        return session.request(method, url, content=body, headers=headers).status_code


def by_httpx_async(client, url, method="GET", body=None, headers=None):
    import httpx

    async def ask():
        async with httpx.AsyncClient(transport=sluice.client.AsyncTransport(client=client)) as session:
            count[0] += 1
            try:
                return (await session.request(method, url, content=body, headers=headers)).status_code
            finally:
                count[0] -= 1
    count = [0]
    # busy while a request is on the wire: it waits for no timer
    return asyncio.run(client.clock.run(ask(), lambda: count[0] and not client.clock.timers))


def by_urllib(client, url, method="GET", body=None, headers=None):
    opener = sluice.client.Opener(client, urllib.request.build_opener(urllib.request.ProxyHandler({})))
    try:
        with opener.open(urllib.request.Request(url, body, headers or {}, method=method)) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.status


NEEDS = {by_requests: "requests", by_httpx: "httpx", by_httpx_async: "httpx"}


@pytest.fixture(params=[by_requests, by_httpx, by_httpx_async, by_urllib], ids=lambda by: by.__name__)
def ask(request):
    needed = NEEDS.get(request.param)
    if needed:
        pytest.importorskip(needed)
    return request.param


def client(**options):
    return Client(**{"clock": Clock(), "random": lambda: 0, **options})


DENIED = (429, {"Retry-After": "7"})
FINE = (200, {})


def test_a_denial_is_waited_out(app, ask):
    one, polite = app([DENIED, FINE]), client()
    assert ask(polite, one.url) == 200
    assert polite.clock.at - START == 7000 and len(one.seen) == 2


def test_attempts_are_counted(app, ask):
    one, polite = app([(429, {"Retry-After": "1"})]), client()
    assert ask(polite, one.url) == 429
    assert len(one.seen) == 5


def test_a_wait_beyond_the_budget_is_not_begun(app, ask):
    one, polite = app([(429, {"Retry-After": "61"}), FINE]), client()
    assert ask(polite, one.url) == 429
    assert polite.clock.at == START and len(one.seen) == 1


def test_and_who_comes_meanwhile_is_not_sent_at_all(app, ask):
    if ask is by_httpx_async:
        pytest.skip("each call of this test has a loop of its own, and so a memory of its own")
    one, polite = app([(429, {"Retry-After": "61"}), FINE]), client()
    ask(polite, one.url)
    with pytest.raises(RateLimitedError) as raised:
        ask(polite, one.url)
    assert (raised.value.origin, raised.value.retry_after_ms, raised.value.status) == (one.url, 61000, None)
    assert len(one.seen) == 1
    polite.budget = math.inf
    assert ask(polite, one.url) == 200 and polite.clock.at - START == 61000


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("first", [(429, {"retry-after": "1"}), OSError("it broke")], ids=["denied", "failed"])
def test_what_was_sent_is_not_told_as_never_sent(asynchronous, first):
    """While it waits to be sent again, another request learns of a wait beyond the budget."""
    polite, tickets = client(), []

    def learn(*_):
        gate = next(iter(polite.gates.values()))
        gate.answered(tickets.pop(), sluice.client.advise(429, {"retry-after": "100"}.get, polite.clock.now()))

    def send(_):
        tickets.append(next(iter(polite.gates.values())).origin.sent(polite.clock.now()))
        if isinstance(first, OSError):
            learn()
            raise first
        polite.on_wait = learn
        return first

    async def of_loop(value):
        return send(value)
    exchange = sluice.client.Exchange("PUT", "http://api.test/", {}, of_loop if asynchronous else send,
                                      lambda answer: (answer[0], answer[1].get), lambda answer: discard(), OSError)

    def discard():
        return asyncio.sleep(0) if asynchronous else None
    with pytest.raises((RateLimitedError, OSError)) as raised:
        if asynchronous:
            asyncio.run(polite.clock.run(polite.send_async(exchange), lambda: False))
        else:
            polite.send(exchange)
    if isinstance(first, OSError):
        assert raised.value is first
    else:
        assert (raised.value.status, raised.value.origin) == (429, "http://api.test")


def test_what_is_not_idempotent_is_sent_once(app, ask):
    one = app([(429, {"Retry-After": "1"})])
    assert ask(client(), one.url, "POST", b"x") == 429 and len(one.seen) == 1


@pytest.mark.parametrize("way", [{"headers": {"Idempotency-Key": "a1"}}, {"method": "PUT"}, {"idempotent": True}],
                         ids=["key", "put", "told"])
def test_unless_it_has_a_key_or_the_caller_says_so(app, ask, way):
    one = app([(429, {"Retry-After": "1"}), FINE])
    polite = client(idempotent=way.get("idempotent"))
    assert ask(polite, one.url, way.get("method", "POST"), b"body", way.get("headers")) == 200
    assert [body for _, _, body in one.seen] == [b"body", b"body"]


def test_a_body_that_cannot_be_read_twice_is_sent_once(app):
    requests = pytest.importorskip("requests")
    httpx = pytest.importorskip("httpx")
    for send in (lambda s, url: s.put(url, data=iter([b"x"])).status_code,):
        one = app(lambda *_: (429, {"Retry-After": "0", "Connection": "close"}))
        assert send(sluice.client.mount(requests.Session(), client()), one.url) == 429 and len(one.seen) == 1
    one = app(lambda *_: (429, {"Retry-After": "0", "Connection": "close"}))
    with httpx.Client(transport=sluice.client.Transport(client=client())) as session:
        assert session.put(one.url, content=iter([b"x"])).status_code == 429 and len(one.seen) == 1


def test_one_request_of_httpx_may_say_that_it_is_idempotent(app):
    httpx = pytest.importorskip("httpx")
    one = app([(429, {"Retry-After": "1"}), FINE])
    with httpx.Client(transport=sluice.client.Transport(client=client())) as session:
        answer = session.post(one.url, content=b"x", extensions={"sluice": {"idempotent": True}})
    assert answer.status_code == 200 and len(one.seen) == 2


def test_transient_failures_are_tried_again_after_a_wait_that_doubles(app, ask):
    one, polite = app([(503, {}), (502, {"Retry-After": "9"}), (504, {}), FINE]), client(random=lambda: 0.999)
    assert ask(polite, one.url) == 200
    assert polite.clock.at - START == 500 + 9000 + 1998
    wrong = app([(500, {})])
    assert ask(client(), wrong.url) == 500 and len(wrong.seen) == 1


def test_nobody_there_is_an_error_of_the_library(ask):
    gone = App(lambda *_: FINE)
    gone.stop()
    polite = client(random=lambda: 0.999)
    with pytest.raises(Exception) as raised:
        ask(polite, gone.url)
    assert raised.type.__module__.split(".")[0] in ("requests", "httpx", "urllib")
    assert polite.clock.at - START == 500 + 999 + 1998 + 3996


def proxy_that_fails(times):
    """A proxy on a free port, and what it is sent first on each connection, and then in its tunnel: 502 so many times,
    then a tunnel that is closed."""
    listener, seen = socket.create_server(("127.0.0.1", 0)), []

    def serve():
        with listener:
            for number in range(times + 1):
                connection = listener.accept()[0]
                with connection:
                    seen.append(connection.recv(4096))
                    if number < times:
                        connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
                    else:
                        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                        seen.append(connection.recv(4096))
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return "http://127.0.0.1:%d" % listener.getsockname()[1], seen, thread


def test_urllib_keeps_to_tls_behind_a_proxy_however_often_it_tries():
    proxy, seen, thread = proxy_that_fails(2)
    opener = sluice.client.Opener(client(attempts=3),
                                  urllib.request.build_opener(urllib.request.ProxyHandler({"https": proxy})))
    with pytest.raises(OSError):
        opener.open("https://api.test/secret", timeout=9)
    thread.join(9)
    assert [first.split(b" HTTP")[0] for first in seen[:3]] == [b"CONNECT api.test:443"] * 3
    assert seen[3][:1] == b"\x16"  # of TLS: a handshake


def test_urllib_follows_a_redirect_to_what_is_limited_at_each_try(app):
    turn = iter([DENIED, DENIED, DENIED, DENIED, FINE])
    one = app(lambda method, path, *_: (302, {"Location": "/there"}) if path == "/" else next(turn))
    assert by_urllib(client(), one.url + "/") == 200
    assert [path for _, path, _ in one.seen] == ["/", "/there"] * 5


def test_on_wait_and_wrong_options(app, ask):
    waits = []
    one = app([DENIED, FINE])
    ask(client(on_wait=lambda *told: waits.append(told)), one.url)
    assert waits == [(one.url, 7000)]
    for wrong in ({"budget": -1}, {"budget": math.nan}, {"attempts": 0}):
        with pytest.raises(ValueError):
            Client(**wrong)
    with pytest.raises(TypeError):
        Client(retries=3)


def test_it_needs_no_other_library(monkeypatch):
    for name in ("requests", "httpx"):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, "sluice.client." + name, raising=False)
    monkeypatch.delitem(sys.modules, "sluice.client")
    fresh = importlib.import_module("sluice.client")
    assert callable(fresh.urlopen)
    with pytest.raises(ImportError):
        fresh.mount()
    with pytest.raises(AttributeError):
        fresh.nothing


# ---- against an application that asks a real server ----------------------------------------------------------------

@pytest.fixture(scope="module")
def server():
    one = Server(SLUICE, "client-time: true\nlimits: []\n")
    yield one
    one.stop()


def limited(server, limit, clock=None):
    """An answer for App: each request is decided by the server, and the answer has its headers."""
    counts = {True: 0, False: 0}
    lock = threading.Lock()

    def answer(*_):
        with lock, server.http() as door:
            at = {"at": clock.at} if clock else {}
            status, headers, body = door.post("/v1/check", {"key": limit, "limits": [limit], **at})
            counts[body["allowed"]] += 1
        told = {name: value for name, value in headers if name in ("RateLimit", "RateLimit-Policy", "Retry-After")}
        return status, told
    return answer, counts


def test_a_hundred_tasks_under_ten_a_second(app, server):
    httpx = pytest.importorskip("httpx")
    polite = client(budget=math.inf, attempts=50)
    answer, counts = limited(server, "sliding-log 10/1s", polite.clock)
    one, busy = app(answer), [0]

    class Counted(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request):
            busy[0] += 1
            try:
                return await super().handle_async_request(request)
            finally:
                busy[0] -= 1

    async def crowd():
        limits = httpx.Limits(max_connections=200)
        transport = sluice.client.AsyncTransport(Counted(limits=limits), polite)
        async with httpx.AsyncClient(transport=transport, timeout=20) as session:
            return await asyncio.gather(*(session.get(one.url) for _ in range(100)))

    answers = asyncio.run(polite.clock.run(crowd(), lambda: busy[0]))
    assert [a.status_code for a in answers] == [200] * 100
    assert counts[True] == 100 and counts[False] <= 10
    assert 9000 <= polite.clock.at - START < 30000


def test_twenty_threads_share_one_memory(app, server):
    """On real time: what is held to is how often they knocked in vain, not when."""
    pytest.importorskip("requests")
    answer, counts = limited(server, "token-bucket 100/1s burst 10")
    one = app(answer)
    session = sluice.client.mount(budget=30, attempts=50)
    statuses, lock = [], threading.Lock()

    def ask_twice():
        for _ in range(2):
            status = session.get(one.url).status_code
            with lock:
                statuses.append(status)
    threads = [threading.Thread(target=ask_twice) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    wait_until(lambda: len(statuses) == 40, "40 answers")
    assert statuses == [200] * 40
    assert counts[True] == 40 and counts[False] <= 20
