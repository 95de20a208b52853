"""At a server: loops that come and go with one limiter, calls beside one that is overdue, servers of many addresses,
and modules that a library of green threads has changed."""
import select

import pytest

import world
import sluice
from harness import Server


@pytest.fixture(scope="module")
def server():
    server = Server(world.SLUICE, "limits: []\n")
    yield server
    server.stop()


def url_of(server):
    return f"redis://127.0.0.1:{server.resp_port}"


# ---- changed modules -------------------------------------------------------------------------------------------------

def test_without_poll_as_eventlet_leaves_it(server, monkeypatch):
    for name in ("poll", "epoll"):
        monkeypatch.delattr(select, name)
    with sluice.Limiter(url_of(server), timeout=20000) as limiter:
        for left in (4, 3, 2):
            assert limiter.check("green", "5/1d").remaining == left
