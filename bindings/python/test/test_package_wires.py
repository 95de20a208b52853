"""At a server: loops that come and go with one limiter, calls beside one that is overdue, servers of many addresses,
and modules that a library of green threads has changed."""
import asyncio
import select
import socket
import threading
import time

import pytest

import world
import sluice
from harness import Server

SEVEN = b"*7\r\n:1\r\n:5\r\n:4\r\n:0\r\n:0\r\n:0\r\n:0\r\n"


@pytest.fixture(scope="module")
def server():
    server = Server(world.SLUICE, "limits: []\n")
    yield server
    server.stop()


def url_of(server):
    return f"redis://127.0.0.1:{server.resp_port}"


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
