"""Clients that die with leases and reservations in their hands: everything they held comes back by itself, to the
millisecond, none of it sooner, and what they have done stays done.

Each client is a process that is killed with SIGKILL at a random moment. What it did it has told before, with the
monotonic clock around each call; the server is held to those.
"""

import json
import os
import random
import select
import signal
import time

from harness import Resp, wait_until

SOAK = bool(os.environ.get("SLUICE_SOAK_SECONDS"))
PROCESSES, LEASES_EACH = (100, 100) if SOAK else (20, 50)
RESERVING = 1000 if SOAK else 100
LEASE_MS, TTL_MS = (8000, 8000) if SOAK else (3000, 3000)


def now_ms():
    return time.monotonic() * 1000


class Client:
    """A child that runs `work(client, say)` and then waits to be killed; what it says is read when it is dead."""

    def __init__(self, port, work):
        self.reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.close(self.reader)
                with os.fdopen(writer, "w", encoding="ascii") as out, Resp(port) as resp:
                    work(resp, lambda *what: (out.write(json.dumps(what) + "\n"), out.flush()))
                    time.sleep(3600)
            finally:
                os._exit(status)
        os.close(writer)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL, "the client ended by itself"
        with os.fdopen(self.reader, encoding="ascii") as said:
            return [json.loads(line) for line in said.read().splitlines() if line.endswith("]")]


def kill_all_at_random(clients, dice, within_s):
    dice.shuffle(clients)
    readers = [client.reader for client in clients]
    wait_until(lambda: len(select.select(readers, [], [], 0)[0]) == len(readers), "not every client has done something")
    said = []
    for client in clients:
        time.sleep(dice.random() * within_s / len(clients))
        said += client.kill()
    return said


def test_leases_of_the_killed_come_back_at_their_end_and_none_sooner(server):
    seed = random.randrange(2**32)
    dice, one = random.Random(seed), server()
    limit = f"concurrency {PROCESSES * LEASES_EACH} lease {LEASE_MS}ms"

    def hold(number):
        def work(resp, say):
            own = random.Random(seed + number)
            for i in range(LEASES_EACH):
                name = f"{number}.{i}"
                before = now_ms()
                reply = resp.call("SLUICE.ACQUIRE", "pool", 1, "ID", name, limit)
                assert reply[0] == 1 and reply[7] == name.encode()
                say("held", name, before, now_ms())
                if own.random() < 0.2:
                    say("releasing", name)
                    assert resp.call("SLUICE.RELEASE", "pool", name, limit) == 1
                    say("released", name)
        return work

    clients = [Client(one.resp_port, hold(n)) for n in range(PROCESSES)]
    said = kill_all_at_random(clients, dice, LEASE_MS / 3000)
    released = {x[1] for x in said if x[0] == "released"}
    unsure = {x[1] for x in said if x[0] == "releasing"} - released
    held = {x[1]: (x[2] + LEASE_MS, x[3] + LEASE_MS) for x in said if x[0] == "held" and x[1] not in released}
    polls = 0
    with one.resp() as resp:
        while True:
            start = now_ms()
            free = resp.call("SLUICE.PEEK", "pool", 1, limit)[2]
            end = now_ms()
            in_use = PROCESSES * LEASES_EACH - free
            # a client may have died between its lease and telling of it: one each, at most
            least = sum(sooner > end for name, (sooner, _) in held.items() if name not in unsure)
            most = sum(later + 1 > start for _, later in held.values()) + PROCESSES
            assert least <= in_use <= most, f"seed {seed}: {in_use} held, expected {least}..{most}"
            polls += 1
            if in_use == 0:
                break
        assert resp.call("SLUICE.HOLDERS", "pool", limit) == []
        last = max((later for _, later in held.values()), default=start)
        assert all(now_ms() >= sooner for n, (sooner, _) in held.items() if n not in unsure), f"seed {seed}"
    print(f"seed {seed}: {PROCESSES} clients killed, {len(held)} leases came back ({len(released)} were released), "
          f"{polls} looks, the last {now_ms() - last:.0f} ms before now")


def test_reservations_of_the_killed_are_returned_and_windows_stay_whole(server):
    seed = random.randrange(2**32)
    dice, one = random.Random(seed), server()
    limit = "sliding-log 1M/1h"

    def reserve(number):
        def work(resp, say):
            own = random.Random(seed + number)
            assert resp.call("SLUICE.CHECK", "account", 1, limit)[0] == 1
            say("charged", 1)
            before = now_ms()
            reply = resp.call("SLUICE.RESERVE", "account", 500, TTL_MS, limit)
            assert reply[0] == 1
            say("reserved", before + TTL_MS)
            if own.random() < 0.5:
                actual = own.randrange(2000)
                say("committing", actual)
                assert resp.call("SLUICE.COMMIT", "account", reply[7], actual)[0] == 1
                say("charged", actual)
        return work

    sure, unsure, ends, left_open = 0, 0, [], []
    for batch in range(0, RESERVING, 50):
        clients = [Client(one.resp_port, reserve(batch + n)) for n in range(50)]
        for client in clients:
            if dice.random() < 0.7:  # the others are killed in the middle
                time.sleep(dice.random() * 0.01)
        for said in (client.kill() for client in clients):
            charged = sum(x[1] for x in said if x[0] == "charged")
            started = [x[1] for x in said if x[0] == "committing"]
            done = charged >= 1 + (started[0] if started else 0)
            sure += charged
            unsure += (1 if not said else 0) + (0 if done or not started else started[0])
            ends += [x[1] for x in said if x[0] == "reserved"]
            left_open += [said[1][1]] if len(said) == 2 else []
    with one.resp() as resp:
        def used():
            return 1000000 - resp.call("SLUICE.PEEK", "account", 1, limit)[2]

        def returned():
            return sure <= used() <= sure + unsure
        charged = used()
        if left_open and now_ms() < max(left_open):
            assert charged > sure  # they are charged while they are open
        wait_until(returned, f"seed {seed}: {used()} are used, expected {sure}, and {unsure} more at most", 60)
        assert not ends or now_ms() >= max(ends) - TTL_MS
    print(f"seed {seed}: {RESERVING} clients killed, {len(ends)} had reserved; {sure} units stay charged")
