"""CL.THROTTLE: redis-cell's golden vectors (0.5.0, as it answered them in redis 7.0.15), through the module and our
server. Sane rows bit by bit, the others as docs/redis.md says: an error,
never an abort, and nothing changed.
"""

import pytest

from harness import RespError, Server
from redis_world import MANY_YEARS_MS, Clock, Redis

DOORS = ["module", "server"]

# Each row is a call behind the key and its reply; a group begins with keys that do not exist.
SANE = {
    "the README's": [("15 30 60", [0, 16, 15, -1, 2]), ("15 30 60", [0, 16, 14, -1, 4]),
                     ("15 30 60 0", [0, 16, 14, -1, 4])],
    "a peek at nothing": [("15 30 60 0", [0, 16, 16, -1, 0])],
    "cost over capacity": [("4 5 5 6", [1, 5, 5, -1, 0]), ("4 5 5 5", [0, 5, 0, -1, 5]), ("4 5 5 1", [1, 5, 0, 1, 5]),
                           ("4 5 5 6", [1, 5, 0, -1, 5]), ("4 5 5 0", [0, 5, 0, -1, 5])],
    "one at a time": [("0 1 2", [0, 1, 0, -1, 2]), ("0 1 2", [1, 1, 0, 2, 2])],
    "giving back": [("4 5 5 3", [0, 5, 2, -1, 3]), ("4 5 5 -1", [0, 5, 3, -1, 2]), ("4 5 5 0", [0, 5, 3, -1, 2])],
    "100 ms are a second": [("0 10 1", [0, 1, 0, -1, 1]), ("0 10 1", [1, 1, 0, 1, 1])],
}
# redis-cell answers these otherwise, or dies of them.
INSANE = ["-1 1 2", "-5 1 2", "4 0 5", "4 5 0", "4 5 -5", "4 -5 5", "9223372036854775807 2 3", "4294967295 2 3",
          "4 5 316224001", "a 5 5", "4 b 5", "4 5 c", "4 5 5 d", "4.5 5 5", "4 5 5 4294967296", "4 5 5 -4294967296",
          " 4 5 5", "4 5", "4 5 5 1 1"]


class Cell:
    """Both redis-server and our server stand at one instant, by one clock."""

    def __init__(self, sluice_bin):
        self.clock = Clock()
        self.clock.stand_all(MANY_YEARS_MS)
        self.redis = Redis(module=(), clock=self.clock)
        steered = [f"{name}={value}" for name, value in self.clock.environment().items()]
        self.server = Server(sluice_bin, wrapper=("env", *steered))
        self.clients = {"module": self.redis.resp(), "server": self.server.resp()}

    def ask(self, door, key, *arguments):
        try:
            return self.clients[door].call("CL.THROTTLE", key, *arguments)
        except RespError as error:
            return error

    def close(self):
        for client in self.clients.values():
            client.close()
        self.redis.stop()
        self.server.stop()
        self.clock.close()


@pytest.fixture(scope="module")
def cell(sluice_bin):
    one = Cell(sluice_bin)
    yield one
    one.close()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("group", list(SANE))
def test_sane_rows(cell, door, group):
    for call, reply in SANE[group]:
        assert cell.ask(door, f"{door} {group}", *call.split()) == reply, call


def test_peeks_and_refunds_make_no_key(cell):
    door, key = "module", "nothing"
    assert cell.ask(door, key, 15, 30, 60, 0) == [0, 16, 16, -1, 0]
    assert cell.ask(door, key, 4, 5, 5, 6) == [1, 5, 5, -1, 0]
    assert cell.ask(door, key, 4, 5, 5, -2) == [0, 5, 5, -1, 0]  # redis-cell: an error, and a key without expiry
    assert cell.clients[door].call("EXISTS", key) == 0


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("call", INSANE)
def test_insane_rows(cell, door, call):
    key = f"{door} insane"
    reply = cell.ask(door, key, *call.split(" "))
    assert isinstance(reply, RespError) and str(reply).startswith("ERR "), reply
    assert cell.ask(door, key, 4, 5, 5, 0) == [0, 5, 5, -1, 0]
    assert cell.ask(door, f"{key} {call}", 4, 5, 5) == [0, 5, 4, -1, 1]


@pytest.mark.parametrize("make", [["SET", "foo"], ["SET", "123"], ["RPUSH", "x"], ["SADD", "x"],
                                  ["XADD", "*", "a", "b"]],
                         ids=["text", "number", "list", "set", "stream"])
def test_a_key_of_another_kind(cell, make):
    door, key, client = "module", f"{make}", cell.clients["module"]
    client.call(make[0], key, *make[1:])
    before = client.call("DUMP", key)
    for quantity in (1, 0, -1):
        reply = cell.ask(door, key, 4, 5, 5, quantity)
        assert isinstance(reply, RespError) and str(reply).startswith("WRONGTYPE "), reply
    assert client.call("DUMP", key) == before and cell.redis.alive()


def test_time_goes_on(cell):
    door, key, start = "module", "later", MANY_YEARS_MS
    try:
        for _ in range(5):
            assert cell.ask(door, key, 4, 5, 5)[0] == 0
        assert cell.ask(door, key, 4, 5, 5) == [1, 5, 0, 1, 5]
        cell.clock.stand_all(start + 999)
        assert cell.ask(door, key, 4, 5, 5) == [1, 5, 0, 1, 5]
        cell.clock.stand_all(start + 1000)
        assert cell.ask(door, key, 4, 5, 5) == [0, 5, 0, -1, 5]
        cell.clock.stand_all(start + 3000)
        assert cell.ask(door, key, 4, 5, 5, 0) == [0, 5, 2, -1, 3]
        cell.clock.stand_all(start + 6002 + 5000 // 16)  # charged again, it may be kept so much longer
        assert cell.clients[door].call("EXISTS", key) == 0
    finally:
        cell.clock.stand_all(start)


def test_apart_from_checks(cell):
    """The same key's token-bucket by CHECK is another counter."""
    client = cell.clients["module"]
    for _ in range(5):
        assert cell.ask("module", "apart", 4, 5, 5)[0] == 0
    assert cell.ask("module", "apart", 4, 5, 5)[0] == 1
    assert client.call("SLUICE.CHECK", "apart", 5, "token-bucket 5/5s burst 5")[:3] == [1, 5, 0]
