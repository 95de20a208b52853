"""At a server: loops that come and go with one limiter, calls beside one that is overdue, servers of many addresses,
and modules that a library of green threads has changed."""
import asyncio
import gc
import os
import select
import socket
import threading
import time
import weakref

import pytest

import world
import sluice
from harness import Server, wait_until

SEVEN = b"*7\r\n:1\r\n:5\r\n:4\r\n:0\r\n:0\r\n:0\r\n:0\r\n"


@pytest.fixture(scope="module")
def server():
    server = Server(world.SLUICE, "limits: []\n")
    yield server
    server.stop()


def url_of(server):
    return f"redis://127.0.0.1:{server.resp_port}"


def descriptors():
    if gc.isenabled():
        gc.collect()
    return len(os.listdir("/proc/self/fd"))


# ---- loops that come and go ------------------------------------------------------------------------------------------

async def asked(limiter):
    return (await limiter.check("loops", "1000/1d")).quota


def run(main, close=True):
    """As asyncio.run(), or as those do who forget to close."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(main)
    finally:
        if close:
            loop.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_loop_that_has_ended_leaves_no_connection(server):
    limiter = sluice.AsyncLimiter(url_of(server), timeout=20000)
    before = descriptors()
    gc.disable()  # what is closed is closed without it
    try:
        for _ in range(20):
            assert run(asked(limiter)) == 1000
            assert asyncio.run(asked(limiter)) == 1000
            assert descriptors() <= before + 1
    finally:
        gc.enable()
    asyncio.run(limiter.aclose())
    assert descriptors() == before


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("reached", [True, False])
def test_a_limiter_keeps_no_loop(server, reached):
    limiter = sluice.AsyncLimiter(url_of(server) if reached else "redis://127.0.0.1:9", timeout=20000)
    loops = []

    async def main():
        loops.append(weakref.ref(asyncio.get_running_loop()))
        try:
            return await asked(limiter)
        except sluice.SluiceError:
            return 1000
    before = descriptors()
    for close in (True, False, True):
        assert run(main(), close) == 1000
    assert descriptors() == before
    assert [loop() for loop in loops] == [None] * 3


def test_an_idle_connection_is_used_again(server):
    async def main():
        async with sluice.AsyncLimiter(url_of(server), timeout=20000) as limiter:
            assert await asked(limiter) == 1000
            before = descriptors()
            for _ in range(5):
                assert descriptors() == before
                await asyncio.sleep(0)
                assert await asked(limiter) == 1000
            assert descriptors() == before
    asyncio.run(main())


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_close_ends_the_connections_of_all_loops(server):
    limiter, ready, other = sluice.AsyncLimiter(url_of(server), timeout=20000), threading.Event(), []
    before = descriptors()
    assert asyncio.run(asked(limiter)) == 1000  # a loop that has ended

    async def wait():
        await asked(limiter)
        other.extend([asyncio.get_running_loop(), asyncio.Event()])
        ready.set()
        await other[1].wait()
    thread = threading.Thread(target=asyncio.run, args=(wait(),))
    thread.start()
    try:
        ready.wait(60)
        asyncio.run(limiter.aclose())
    finally:
        other[0].call_soon_threadsafe(other[1].set)
        thread.join()
    other.clear()
    wait_until(lambda: descriptors() <= before, "all are closed")


# ---- beside a call that is overdue -----------------------------------------------------------------------------------

class Slow:
    """A server in this loop. A connection that is asked for a key "slow" answers nothing for so many seconds."""

    def __init__(self, seconds):
        self.seconds, self.connections, self.ended, self.server = seconds, 0, 0, None

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.url = "redis://127.0.0.1:%d" % self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *unused):
        self.server.close()

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                words = []
                for _ in range(int((await reader.readline())[1:] or b"0")):
                    await reader.readline()
                    words.append((await reader.readline())[:-2])
                if not words:
                    break
                if words[1] == b"slow":
                    await asyncio.sleep(self.seconds)
                writer.write(b"+OK\r\n" if words[0] == b"CLIENT" else SEVEN)
        except ConnectionError:
            pass
        self.ended += 1
        writer.close()


async def timed(limiter, key, after=0):
    await asyncio.sleep(after)
    begun = time.monotonic()
    result = await limiter.check(key, "5/1m")
    return result.failed_open, time.monotonic() - begun


def test_each_call_has_its_whole_time():
    async def main():
        async with Slow(1.8) as slow, sluice.AsyncLimiter(slow.url, timeout=1000, on_error="allow") as limiter:
            await limiter.check("warm", "5/1m")
            first, second, third, fourth = await asyncio.gather(
                timed(limiter, "slow"), timed(limiter, "k", 0.3), timed(limiter, "k", 0.9), timed(limiter, "k", 1.2))
            assert first[0] and first[1] >= 1
            assert second[0] and second[1] >= 1
            assert not third[0], "answered in 0.9 s, behind the one that was overdue"
            assert not fourth[0], "by a connection of its own"
            assert slow.connections == 2
            for _ in range(6000):  # the overdue one ends when nobody can wait for it
                await asyncio.sleep(0.01 if slow.ended == 0 else 0)
            assert not (await timed(limiter, "k"))[0] and (slow.connections, slow.ended) == (2, 1)
    asyncio.run(main())


def test_closing_ends_calls_behind_an_overdue_one():
    async def main():
        async with Slow(30) as slow:
            limiter = sluice.AsyncLimiter(slow.url, timeout=1000)
            await limiter.check("warm", "5/1m")
            calls = [asyncio.ensure_future(timed(limiter, *one)) for one in (("slow",), ("k", 0.5))]
            with pytest.raises(sluice.SluiceError, match="no answer in time"):
                await calls[0]
            await limiter.aclose()
            with pytest.raises(sluice.SluiceError, match="the limiter was closed"):
                await calls[1]
    asyncio.run(main())


# ---- servers of many addresses ---------------------------------------------------------------------------------------

class Addresses:
    """The same port of several addresses: of those that are `dead` nothing is heard, at the last one a server answers
    if it is not among them."""

    def __init__(self, monkeypatch, count, dead):
        self.kept, self.port, self.heard = [], 0, []
        found = [f"127.0.0.{i + 2}" for i in range(count)]
        for number, address in enumerate(found):
            listener = socket.socket()
            listener.bind((address, self.port))
            self.port = listener.getsockname()[1]
            listener.listen(0 if number < dead else 16)
            self.kept.append(listener)
            for _ in range(3 if number < dead else 0):  # its queue is full
                stranger = socket.socket()
                stranger.setblocking(False)
                stranger.connect_ex((address, self.port))
                self.kept.append(stranger)
        self.url = f"redis://many.example:{self.port}"
        real = socket.getaddrinfo

        def getaddrinfo(host, *args, **words):
            if host != "many.example":
                return real(host, *args, **words)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, self.port)) for address in found]
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        if dead < count:
            threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.kept[-1].accept()
            except OSError:
                return
            self.heard.append(connection)
            connection.recv(65536)
            connection.sendall(b"+OK\r\n" * 2 + SEVEN)

    def close(self):
        for one in self.kept:
            one.close()


def ask(face, url, **words):
    async def loop():
        async with sluice.AsyncLimiter(url, **words) as limiter:
            return await limiter.check("k", "5/1m")
    if face == "asyncio":
        return asyncio.run(loop())
    with sluice.Limiter(url, **words) as limiter:
        return limiter.check("k", "5/1m")


@pytest.mark.parametrize("face", ["threads", "asyncio"])
def test_the_time_is_that_of_all_addresses(monkeypatch, face):
    many = Addresses(monkeypatch, 4, 4)
    begun = time.monotonic()
    assert ask(face, many.url, timeout=1000, on_error="allow").failed_open
    assert 0.9 < time.monotonic() - begun < 2.5
    with pytest.raises(sluice.SluiceError, match="no connection in time"):
        ask(face, many.url, timeout=100)
    many.close()


@pytest.mark.parametrize("face", ["threads", "asyncio"])
def test_a_dead_address_leaves_time_for_the_next(monkeypatch, face):
    many = Addresses(monkeypatch, 2, 1)
    assert ask(face, many.url, timeout=3000).remaining == 4
    many.close()


@pytest.mark.parametrize("face", ["threads", "asyncio"])
def test_an_address_that_refuses_is_passed_over(monkeypatch, face):
    many = Addresses(monkeypatch, 3, 0)
    many.kept[0].close()
    many.kept[1].close()
    assert ask(face, many.url, timeout=20000).remaining == 4
    many.kept[2].shutdown(socket.SHUT_RDWR)
    with pytest.raises(sluice.SluiceError, match="[Rr]efused|Connect call failed"):
        ask(face, many.url, timeout=20000)
    many.close()


# ---- changed modules -------------------------------------------------------------------------------------------------

def test_without_poll_as_eventlet_leaves_it(server, monkeypatch):
    for name in ("poll", "epoll"):
        monkeypatch.delattr(select, name)
    with sluice.Limiter(url_of(server), timeout=20000) as limiter:
        for left in (4, 3, 2):
            assert limiter.check("green", "5/1d").remaining == left
