"""Leases, members, parts, retries and reservations by redis-py against the real server, in both protocols; and what of
them a server that is killed keeps in its file."""

import os
import random
import re
import threading

import pytest
import redis

from harness import DEADLINE_S, RespError

POLICY = "client-time: true\n"
START = 1_800_000_000_000
LEASE = "concurrency 3 lease 20s"


def client(sluice):
    return redis.Redis(host="127.0.0.1", port=sluice.resp_port, decode_responses=True)


def plain(value):
    if isinstance(value, list):
        return [plain(x) for x in value]
    return value.decode() if isinstance(value, bytes) else value


@pytest.fixture(params=["redis-py", "resp3"])
def ask(request, server):
    """ask(word...) by redis-py in protocol 2, and in protocol 3 by our own client; a refusal is given as its text."""
    sluice = server(policy=POLICY)
    one = client(sluice) if request.param == "redis-py" else sluice.resp()
    if request.param == "resp3":
        one.call("HELLO", "3")

    def call(*words):
        try:
            return plain(one.call(*words) if request.param == "resp3" else one.execute_command(*words))
        except (redis.ResponseError, RespError) as error:
            return str(error)

    yield call
    one.close()


def test_a_lease_from_its_beginning_to_its_end(ask):
    got = ask("SLUICE.ACQUIRE", "job", 1, "AT", START, LEASE)
    lease = got.pop()
    assert got == [1, 3, 2, 0, 20000, 0, 0] and re.fullmatch("[0-9a-f]{16}", lease)
    assert ask("SLUICE.HOLDERS", "job", "AT", START + 5, LEASE) == [[lease, 1, 19995]]
    assert ask("SLUICE.RENEW", "job", lease, "AT", START + 15000, LEASE) == 1
    assert ask("SLUICE.HOLDERS", "job", "AT", START + 34999, LEASE) == [[lease, 1, 1]]
    assert ask("SLUICE.RELEASE", "job", lease, "AT", START + 34999, LEASE) == 1
    assert ask("SLUICE.RELEASE", "job", lease, "AT", START + 34999, LEASE) == 0
    assert ask("SLUICE.ACQUIRE", "job", 4, "AT", START + 35000, LEASE) == [0, 3, 3, -1, 0, 0, 0, None]


def test_acquired_five_times_by_one_name_it_is_one_slot(ask):
    for i in range(5):
        assert ask("SLUICE.ACQUIRE", "job", 1, "AT", START + i, "ID", "worker-7", LEASE, "9/1h")[:3] == [1, 3, 2]
    assert len(ask("SLUICE.HOLDERS", "job", "AT", START + 9, LEASE)) == 1
    assert ask("SLUICE.PEEK", "job", 1, "AT", START + 9, "9/1h")[2] == 8
    assert ask("SLUICE.RELEASE", "job", "worker-7", "AT", START + 9, LEASE, "9/1h") == 1


def test_members_parts_retries(ask):
    devices = "distinct 2/1h"
    for member in ("a", "b", "a", "b"):
        assert ask("SLUICE.CHECK", "ann", 1, "AT", START, "MEMBER", member, devices)[0] == 1
    assert ask("SLUICE.CHECK", "ann", 1, "AT", START, "MEMBER", "c", devices)[:4] == [0, 2, 0, 3600000]
    assert "expected MEMBER" in ask("SLUICE.CHECK", "ann", 1, "AT", START, devices)
    assert ask("SLUICE.CHECK", "bob", 90, "AT", START, "UPTO", "sliding-log 70/1m") == [1, 70, 0, 0, 60000, 0, 0, 70]
    for _ in range(5):
        assert ask("SLUICE.CHECK", "eve", 30, "AT", START, "ID", "order-1", "sliding-log 70/1m")[:3] == [1, 70, 40]
    assert "SLUICE.ACQUIRE" in ask("SLUICE.CHECK", "ann", 1, LEASE)


def test_reserved_and_committed(ask):
    tokens = "sliding-log 4000/1m"
    *decision, ticket = ask("SLUICE.RESERVE", "team", 500, 30000, "AT", START, tokens)
    assert decision == [1, 4000, 3500, 0, 30000, 0, 0]
    assert ask("SLUICE.COMMIT", "team", ticket, 4100, "AT", START + 20000) == [1, 4000, 0, 0, 40000, 0, 0]
    assert "NOTFOUND" in ask("SLUICE.COMMIT", "team", ticket, 10, "AT", START + 20001)
    assert ask("SLUICE.CHECK", "team", 1, "AT", START + 59999, tokens)[:4] == [0, 4000, 0, 1]
    assert ask("SLUICE.CHECK", "team", 1, "AT", START + 60000, tokens)[0] == 1
    *_, left_open = ask("SLUICE.RESERVE", "other", 3000, 30000, "AT", START, tokens)
    assert ask("SLUICE.PEEK", "other", 4000, "AT", START + 29999, tokens)[0] == 0
    assert ask("SLUICE.PEEK", "other", 4000, "AT", START + 30000, tokens)[0] == 1
    assert "NOTFOUND" in ask("SLUICE.COMMIT", "other", left_open, 1, "AT", START + 30000)


def test_thirty_at_once_never_more_than_seven(server):
    """Threads of their own connections, each its own name, on the server's clock."""
    sluice = server(policy="threads: 2\n")
    held, most, lock, problems = set(), [0], threading.Lock(), []

    def work(number):
        own = client(sluice)
        for i in range(20):
            got = own.execute_command("SLUICE.ACQUIRE", "k", 1, "ID", f"{number}-{i}", "concurrency 7 lease 1h")
            if got[0] == 0:
                continue
            with lock:
                held.add((number, i))
                most[0] = max(most[0], len(held))
                held.remove((number, i))  # before it is released, so that `held` is never too many by our own delay
            if own.execute_command("SLUICE.RELEASE", "k", got[7], "concurrency 7 lease 1h") != 1:
                problems.append(got)
        own.close()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems and 1 <= most[0] <= 7
    one = client(sluice)
    granted = [one.execute_command("SLUICE.ACQUIRE", "k", 1, "concurrency 7 lease 1h")[7] for _ in range(20)]
    assert sum(x is not None for x in granted) == 7 and len(set(granted)) == 8
    one.close()


# ---- a server that is killed -----------------------------------------------------------------------------------------

def kill(sluice):
    sluice.process.kill()
    sluice.process.wait(DEADLINE_S)


def test_a_killed_server_keeps_what_is_held(server, tmp_path):
    policy = POLICY + f"store: {{file: {tmp_path / 'counters'}, memory: 4MiB}}\n"
    first = server(policy=policy)
    before = client(first)
    lease = before.execute_command("SLUICE.ACQUIRE", "job", 2, "AT", START, LEASE)[7]
    before.execute_command("SLUICE.CHECK", "ann", 1, "AT", START, "MEMBER", "a", "distinct 1/1h")
    before.execute_command("SLUICE.CHECK", "eve", 9, "AT", START, "ID", "t", "fixed-window 9/1h")
    ticket = before.execute_command("SLUICE.RESERVE", "team", 60, 30000, "AT", START, "sliding-log 100/1m")[7]
    before.execute_command("SLUICE.RESERVE", "team", 30, 20000, "AT", START, "sliding-log 100/1m")
    kill(first)
    after = client(server(policy=policy)).execute_command
    assert after("SLUICE.HOLDERS", "job", "AT", START + 1000, LEASE) == [[lease, 2, 19000]]
    assert after("SLUICE.ACQUIRE", "job", 2, "AT", START + 1000, LEASE)[0] == 0
    assert after("SLUICE.RELEASE", "job", lease, "AT", START + 1000, LEASE) == 1
    assert after("SLUICE.CHECK", "ann", 1, "AT", START + 1, "MEMBER", "a", "distinct 1/1h")[0] == 1
    assert after("SLUICE.CHECK", "ann", 1, "AT", START + 1, "MEMBER", "b", "distinct 1/1h")[0] == 0
    assert after("SLUICE.CHECK", "eve", 9, "AT", START + 1, "ID", "t", "fixed-window 9/1h")[:3] == [1, 9, 0]
    assert after("SLUICE.COMMIT", "team", ticket, 10, "AT", START + 2)[:3] == [1, 100, 60]
    assert after("SLUICE.PEEK", "team", 1, "AT", START + 20000, "sliding-log 100/1m")[2] == 90


def test_killed_again_and_again_under_load(server, tmp_path):
    """What was granted is there after each kill, and never more than N are: all leases are by name and last for a day,
    so that only releases end them."""
    seed = int(os.environ.get("SLUICE_SEED", random.randrange(2**32)))
    print("SLUICE_SEED=%d" % seed)
    dice = random.Random(seed)
    lease, most = "concurrency 40 lease 1d", 40
    policy = f"threads: 2\nstore: {{file: {tmp_path / 'counters'}, memory: 4MiB}}\n"
    held, doubtful = set(), set()  # names; those whose last answer was lost
    for _ in range(5):
        sluice = server(policy=policy)
        one = client(sluice)
        names = {x[0] for x in one.execute_command("SLUICE.HOLDERS", "k", lease)}
        assert held <= names <= held | doubtful and len(names) <= most
        held, doubtful = names, set()
        timer = threading.Timer(dice.uniform(0.05, 0.3), sluice.process.kill)
        timer.start()
        name = None
        try:
            while True:
                name = dice.choice(sorted(held)) if dice.random() < 0.5 and held else "%016x" % dice.getrandbits(63)
                doubtful = {name}
                if name in held:
                    held.remove(name)
                    assert one.execute_command("SLUICE.RELEASE", "k", name, lease) == 1
                elif one.execute_command("SLUICE.ACQUIRE", "k", 1, "ID", name, lease)[0] == 1:
                    held.add(name)
                else:
                    assert len(held) == most
                doubtful = set()
        except redis.ConnectionError:
            pass
        timer.join()
        sluice.process.wait(DEADLINE_S)
