"""Leases and members under load, in real time: N lowered and raised while leases are held, and members who pass while
strangers storm a full limit for longer than its window."""

import random
import threading
import time

from harness import encode

WORKERS, SECONDS, LEASE = 4, 3.0, "lease 60s"


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
            while time.monotonic() < ends:
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
    assert counts[0] > 100 and counts[1] > 100


def test_known_members_pass_through_a_whole_window_of_attack(server):
    """64 members fill the limit; strangers storm it for longer than its window, while each member comes by."""
    one, window_s = server(), 2.0
    limit, members = "distinct 64/2s", [f"known-{i}" for i in range(64)]
    ends = time.monotonic() + 1.5 * window_s
    storm = [0, 0]

    def attack(number):
        with one.resp() as resp:
            sent = 0
            while time.monotonic() < ends:
                batch = b"".join(encode("SLUICE.CHECK", "account", 1, "MEMBER", f"stranger-{number}-{sent + i}", limit)
                                 for i in range(200))
                resp.send(batch)
                answers = [resp.read() for _ in range(200)]
                sent += 200
                storm[0] += 200
                storm[1] += sum(answer[0] for answer in answers)
                assert all(answer[2] == 0 for answer in answers)

    def come_by():
        with one.resp() as resp:
            while time.monotonic() < ends:
                for member in members:
                    answer = resp.call("SLUICE.CHECK", "account", 1, "MEMBER", member, limit)
                    assert answer[:4] == [1, 64, 0, 0], f"{member} was turned away: {answer}"

    with one.resp() as resp:
        for member in members:
            assert resp.call("SLUICE.CHECK", "account", 1, "MEMBER", member, limit)[0] == 1
    run_all([come_by, lambda: attack(1), lambda: attack(2)])
    print(f"{storm[0]} strangers in {1.5 * window_s} s, {storm[1]} admitted")
    assert storm[1] == 0 and storm[0] > 1000
