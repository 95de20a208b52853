"""Leases and members under load: N lowered and raised while leases are held, and members who pass while
strangers storm a full limit for longer than its window."""

import random
import threading
import time

from harness import DEADLINE_S, encode

WORKERS, SECONDS, LEASE = 4, 3.0, "lease 1h"
START, WINDOW_MS = 1_800_000_000_000, 2000


def run_all(workers):
    """Runs them at the same time; the first thing that went wrong is raised here."""
    wrong = []

    def guarded(work):
        try:
            work()
        except BaseException as error:  # noqa: B036 - told to the test
            wrong.append(error)
    threads = [threading.Thread(target=guarded, args=(work,)) for work in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]


def test_n_is_lowered_and_raised_under_load_and_no_lease_is_lost(server):
    seed = random.randrange(2**32)
    one, ends = server(), time.monotonic() + SECONDS
    holding = [set() for _ in range(WORKERS)]
    counts = [0, 0, 0]  # acquired, denied, denied while more were held than the N of the moment

    def worker(number):
        dice, mine, made = random.Random(seed + number), holding[number], 0
        with one.resp() as resp:
            while time.monotonic() < ends or min(counts[:2]) <= 100:
                n = [40, 2, 5, 9, 20][int((ends - time.monotonic()) * 20) % 5]  # all workers change it together
                limit = f"concurrency {n} {LEASE}"
                if mine and dice.random() < 0.45:
                    name = mine.pop()
                    assert resp.call("SLUICE.RELEASE", "pool", name, limit) == 1, f"seed {seed}: {name} was lost"
                    continue
                name, made = f"{number}.{made}", made + 1
                allowed, quota, remaining = resp.call("SLUICE.ACQUIRE", "pool", 1, "ID", name, limit)[:3]
                assert quota == n and remaining <= n - allowed
                counts[not allowed] += 1
                counts[2] += not allowed and len(mine) > n
                if allowed:
                    mine.add(name)

    run_all([lambda n=n: worker(n) for n in range(WORKERS)])
    held = set().union(*holding)
    with one.resp() as resp:
        limit = f"concurrency 1 {LEASE}"  # far below what is held
        assert len(resp.call("SLUICE.HOLDERS", "pool", limit)) == len(held), f"seed {seed}"
        for name in held:
            assert resp.call("SLUICE.RENEW", "pool", name, limit) == 1
            assert resp.call("SLUICE.RELEASE", "pool", name, limit) == 1
        assert resp.call("SLUICE.ACQUIRE", "pool", 1, limit)[:3] == [1, 1, 0]
    print(f"seed {seed}: {counts[0]} acquired, {counts[1]} denied, {len(held)} held at the end")


def test_known_members_pass_through_a_whole_window_of_attack(server):
    """64 members fill the limit; strangers storm it for longer than its window, while each member comes by. Time goes
    on with each member that does, so that each comes twice a window however slow the machine is."""
    one = server("client-time: true\n")
    limit, members = "distinct 64/2s", [f"known-{i}" for i in range(64)]
    passed, storm, over = [0], [0, 0], threading.Event()

    def now():
        return START + passed[0] * (WINDOW_MS // 128)

    def attack(number):
        with one.resp() as resp:
            sent = 0
            while not over.is_set():
                batch = b"".join(encode("SLUICE.CHECK", "account", 1, "AT", now(), "MEMBER",
                                        f"stranger-{number}-{sent + i}", limit) for i in range(200))
                resp.send(batch)
                answers = [resp.read() for _ in range(200)]
                sent += 200
                storm[0] += 200
                storm[1] += sum(answer[0] for answer in answers)
                assert all(answer[2] == 0 for answer in answers)

    def come_by():
        begun = time.monotonic()
        with one.resp() as resp:
            while passed[0] < 10 * 128 or storm[0] <= 10000:
                assert time.monotonic() - begun < DEADLINE_S * 10, "the storm is over"
                for member in members:
                    answer = resp.call("SLUICE.CHECK", "account", 1, "AT", now(), "MEMBER", member, limit)
                    assert answer[:4] == [1, 64, 0, 0], f"{member} was turned away: {answer}"
                    passed[0] += 1

    def come_by_and_end():
        try:
            come_by()
        finally:
            over.set()

    with one.resp() as resp:
        for member in members:
            assert resp.call("SLUICE.CHECK", "account", 1, "AT", now(), "MEMBER", member, limit)[0] == 1
    run_all([come_by_and_end, lambda: attack(1), lambda: attack(2)])
    print(f"{storm[0]} strangers in {passed[0] / 128} windows, {storm[1]} admitted")
    assert storm[1] == 0
