"""The limiter in process: what callers may pass, what is refused and how, processes and threads that share a store,
interpreters, forks, and time without end."""
import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

import world
import sluice
from harness import wait_until


@pytest.fixture
def limiter():
    with sluice.Limiter(memory="2MiB") as limiter:
        yield limiter


@pytest.fixture
def shared(request):
    name = world.shared_name(request.node.name[:60].replace("[", "-").replace("]", ""))
    yield f"shared:{name}"
    sluice.forget(name)


def failure(call, *args, **words):
    with pytest.raises(sluice.SluiceError) as caught:
        call(*args, **words)
    return caught.value.code, str(caught.value)


# ---- values ----------------------------------------------------------------------------------------------------------

def test_a_result_tells_all(limiter):
    result = limiter.check("ann", "10/1d", 3, next=True)
    assert result and result.allowed and (result.quota, result.remaining, result.granted) == (10, 7, 3)
    assert (result.retry_after, result.delay, result.index, result.limit) == (0, 0, 0, "10/1d")
    assert 0 < result.next_after <= result.reset_after
    assert (result.id, result.each, result.bound, result.rule) == (None, None, None, None)
    assert not result.repeated and not result.failed_open and not result.observed
    assert repr(result).startswith("Result(allowed=True, limit='10/1d', quota=10, remaining=7, ")
    denied = limiter.check("ann", "10/1d", 8)
    assert not denied and denied.retry_after > 0 and denied.granted == 0
    assert limiter.check("ann", "10/1d", 11).retry_after == -1
    with pytest.raises(TypeError):
        type(result)()


def test_keys_limits_and_costs_in_every_form(limiter):
    for key in ("k", b"k", "", "k" * 1024, "k" * 1025, "k" * 2000, "schlüssel", b"\xff\x00"):
        assert limiter.check(key, "2/1d").remaining == (0 if key == b"k" else 1)
    assert limiter.check("c", "9/1d", cost=2).remaining == 7
    assert limiter.check("c", "9/1d", 2).remaining == 5
    assert limiter.check(key="c", limits="9/1d", cost=0).remaining == 5
    assert limiter.check("c", b"9/1d").remaining == 4
    both = limiter.check("m", ["9/1d", ("other", "5/1d"), (None, "distinct 3/1d", "me")], each=True)
    assert [one.limit for one in both.each] == ["9/1d", "5/1d", "distinct 3/1d"]
    assert [one.index for one in both.each] == [0, 1, 2] and both.limit == "distinct 3/1d"
    assert limiter.peek("other", "5/1d").remaining == 4
    assert limiter.check("m", ("9/1d",)).remaining == 7
    assert limiter.check("u", "10/1d", 25, upto=True).granted == 10


def test_lists_are_decided_alike_the_short_way_and_the_long_one(limiter):
    texts = ["5/30d", "fixed-window 7/30d", "sliding-log 6/30d", "token-bucket 10/365d", "unlimited", "0/30d",
             "leaky-bucket 10/365d queue 5", "3/year at Europe/Berlin"]
    seen = set()
    for step in range(2000):
        limits = [texts[(step * 3 + i * (1 + step % 2)) % len(texts)] for i in range(1 + step % 4)]
        own = step >> 5
        short = limiter.check(f"short {own}", limits if step % 2 else tuple(limits), step % 3)
        long = limiter.check(f"long {own}", limits, step % 3, upto=False)
        for name in ("allowed", "quota", "remaining", "index", "limit", "granted", "bound"):
            assert getattr(short, name) == getattr(long, name), (name, limits)
        for name in ("retry_after", "reset_after", "delay"):
            assert abs(getattr(short, name) - getattr(long, name)) < 60000, (name, limits)
        seen.add((short.allowed, short.index))
    assert len(seen) > 5
    limits = ["9/1d", "5/1d"]
    result = limiter.check("mine", limits)
    limits[1] = "no limit"
    assert result.limit == "5/1d" and failure(limiter.check, "mine", limits)[0] == "bad-limit"
    pair = ["pair", "5/1d"]
    result = limiter.check("mine", ["9/1d", pair, ("other", "9/1d")])
    pair[1] = "no limit"
    assert result.limit == "5/1d" and result.remaining == 4


def test_what_is_refused(limiter):
    assert failure(limiter.check, "k", "100/60") == (
        "bad-limit", "limit 1, column 7: expected a unit of time: ms, s, m, h, d or w, found the end")
    assert failure(limiter.check, "k", ["1/1s"] * 17) == ("bad-limit", "too many limits: at most 16 in one request")
    assert failure(limiter.check, "k", [])[0] == "bad-limit"
    for cost in (-1, 2 ** 32, 2 ** 70, -2 ** 70):
        assert failure(limiter.check, "k", "1/1s", cost)[0] == "bad-argument"
    assert failure(limiter.check, "k", "concurrency 1 lease 1s")[0] == "bad-limit"
    assert failure(limiter.check, "k", "distinct 1/1s")[0] == "bad-limit"
    assert failure(limiter.reserve, "k", "1/1s", ttl=0)[0] == "bad-argument"
    assert failure(limiter.check, "k", "1/1s", id="")[0] == "bad-argument"
    assert failure(limiter.commit, "k", None, "nonsense", 1)[0] == "bad-argument"
    assert failure(limiter.admit, {"ip": "::1"}) == (
        "bad-policy", "there is no policy: expected one in the limiter's options")
    for wrong in ((1, "1/1s"), ("k", 1), ("k", [1]), ("k", [("a", "b", "c", "d")]), ("k", "1/1s", 1.5), ("k",),
                  ("k", "1/1s", 1, 2), ("\ud800", "1/1s"), (None, "1/1s")):
        with pytest.raises(TypeError):
            limiter.check(*wrong)
    for words in ({"costs": 1}, {"ttl": 5}, {"key": "twice"}):
        with pytest.raises(TypeError):
            limiter.check("k", "1/1s", **words)
    assert limiter.counters() == 0
    assert failure(sluice.Limiter, "counters")[0] == "bad-argument"
    assert failure(sluice.Limiter, "/nowhere/counters")[0] == "system"
    assert failure(sluice.Limiter, memory="64MB")[0] == "bad-argument"
    assert failure(sluice.Limiter, policy="limits:\n  - {name: a, limt: 1/1s}\n")[0] == "bad-policy"
    for long in ("ä" * 400, "x" + "ä" * 400):  # cut where it is shown, also within a character
        assert failure(sluice.Limiter, long)[0] == failure(sluice.Limiter, memory=long)[0] == "bad-argument"
        assert failure(sluice.Limiter, policy="/" + long)[0] == "bad-policy"
    with pytest.raises(ValueError):
        sluice.Limiter(on_error="pass")


def test_leases_end_with_their_block(limiter):
    limit = "concurrency 1 lease 30s"
    with limiter.lease("r", limit) as lease:
        assert len(lease.id) == 16 and limiter.renew("r", limit, lease.id) == 1
        with pytest.raises(sluice.Limited) as denied:
            with limiter.lease("r", limit):
                raise AssertionError
        assert 0 < denied.value.result.retry_after <= 30000
    assert limiter.peek("r", limit).remaining == 1 and limiter.release("r", limit, lease.id) == 0


def test_reservations(limiter):
    reserved = limiter.reserve("t", ["100/1d", ("o", "100/1d")], 50, ttl=60000, id="mine")
    assert limiter.peek("t", "100/1d").remaining == 50
    assert limiter.commit("t", ["100/1d", ("o", "100/1d")], "mine", 10).remaining == 90
    assert failure(limiter.commit, "t", None, reserved.id, 10)[0] == "not-found"


@pytest.mark.parametrize("limits", [("o", "20/1d"), [("o", "20/1d")], [("o", "20/1d"), "10/1d"],
                                    ["10/1d", ("o", "20/1d")], [("o", "20/1d"), ("p", "10/1d")]])
def test_a_reservation_is_committed_by_its_id_alone(limiter, limits):
    limits = limits if isinstance(limits, list) else [limits]
    for id in (None, "mine"):
        for said in (None, limits):
            reserved = limiter.reserve("k", limits, 6, id=id)
            assert limiter.commit("k", said, reserved.id, 0).allowed
            assert limiter.peek("k", limits, 10).allowed
            assert failure(limiter.commit, "k", said, reserved.id, 0)[0] == "not-found"


def test_a_policy_and_its_reload(limiter, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text("limits:\n  - {name: per-ip, key: ip, limit: 2/1d}\n")
    with sluice.Limiter(policy=str(path)) as policed:
        assert [policed.admit({"ip": f"2001:db8::{i}", "user": None}).allowed for i in range(3)] == [True, True, False]
        told = policed.admit({"ip": "2001:db8::1"}, each=True)
        assert (told.limit, told.each[0].rule, told.index) == ("per-ip", "sliding-window 2/1d", 0)
        path.write_text("limits:\n  - {name: per-ip, key: ip, limit: 5/1d}\n")
        policed.reload(str(path))
        assert policed.admit({"ip": "2001:db8::1"}).remaining == 2
        assert failure(policed.reload, "threads: 1\n")[0] == "bad-policy"
        assert policed.admit({"ip": "2001:db8::1"}).remaining == 1
        assert failure(policed.admit, {})[0] == "bad-argument"


def test_a_clock_of_ones_own():
    now = [1728000000000]
    with sluice.Limiter(clock=lambda: now[0]) as limiter:
        assert [limiter.check("k", "sliding-log 2/1m").allowed for _ in range(3)] == [True, True, False]
        now[0] += 60000
        assert limiter.check("k", "sliding-log 2/1m").allowed
        for wrong in ("x", -1, float("nan"), None, 1e30):
            now[0] = wrong
            assert failure(limiter.check, "k", "1/1s") == (
                "bad-argument", "the clock says no instant: expected Unix milliseconds")
    with sluice.Limiter(clock=lambda: 1 / 0) as limiter, pytest.raises(ZeroDivisionError):
        limiter.check("k", "1/1s")


def test_closed_is_closed():
    limiter = sluice.Limiter()
    limiter.close()
    limiter.close()
    for call in (lambda: limiter.check("k", "1/1s"), lambda: limiter.peek("k", "1/1s"), limiter.counters,
                 lambda: limiter.reload("limits: []\n")):
        assert failure(call)[0] == "closed"
    clocked = []
    limiter = sluice.Limiter(clock=lambda: clocked[0].close() or 1)
    clocked.append(limiter)
    assert failure(limiter.check, "k", "1/1s")[0] == "closed"  # its clock has closed it


def test_asyncio(limiter):
    async def main():
        async with sluice.AsyncLimiter() as limiter:
            results = await asyncio.gather(*(limiter.check("k", "5/1d") for _ in range(9)))
            assert sum(result.allowed for result in results) == 5
            async with limiter.lease("r", "concurrency 1 lease 9s") as lease:
                assert await limiter.renew("r", "concurrency 1 lease 9s", lease.id) == 1
                with pytest.raises(sluice.Limited):
                    async with limiter.lease("r", "concurrency 1 lease 9s"):
                        raise AssertionError
            assert await limiter.release("r", "concurrency 1 lease 9s", lease.id) == 0
    asyncio.run(main())


# ---- threads, processes, interpreters --------------------------------------------------------------------------------

@pytest.mark.parametrize("store", ["memory", "shared"])
def test_threads_share_exactly(store, shared):
    sluice.Limiter(shared).close()
    with sluice.Limiter(shared if store == "shared" else "memory") as limiter:
        allowed = []

        def work():
            allowed.append(sum(limiter.check("k", "sliding-log 1000/1d").allowed for _ in range(400)) +
                           sum(limiter.check("k", ["sliding-log 1000/1d", "5000/1d"]).allowed for _ in range(100)))
        threads = [threading.Thread(target=work) for _ in range(6)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert sum(allowed) == 1000


def test_close_under_calls(shared):
    limiter, codes = sluice.Limiter(shared), set()

    def work():
        try:
            while True:
                limiter.check("k", ["1M/1d", "2M/1d"])
        except sluice.SluiceError as error:
            codes.add(error.code)
    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    wait_until(lambda: limiter.peek("k", "1M/1d").remaining < 999900, "calls under way")
    limiter.close()
    [thread.join() for thread in threads]
    assert codes == {"closed"}


WORKER = """
import sys, sluice
limiter = sluice.Limiter(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
allowed = 0
for _ in range(int(sys.argv[2])):
    if limiter.check("k", "sliding-log 100/1d").allowed:
        allowed += 1
        print("allowed", flush=True)
print("done", flush=True)
sys.stdin.readline()
"""


def workers(count, store, checks):
    made = [subprocess.Popen([sys.executable, "-c", WORKER, store, str(checks)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True, bufsize=1) for _ in range(count)]
    for worker in made:
        assert worker.stdout.readline() == "ready\n"
    return made


def test_eight_processes_share_one_hundred(shared):
    made = workers(8, shared, 60)
    for worker in made:
        worker.stdin.write("\n")
    for number, worker in enumerate(made):
        if number % 3 == 0:  # 3 of them are killed, wherever they are
            worker.send_signal(signal.SIGKILL)
    told = 0
    for number, worker in enumerate(made):
        out, _ = worker.communicate("\n")
        told += out.count("allowed\n")
        assert worker.returncode == (-signal.SIGKILL if number % 3 == 0 else 0)
    with sluice.Limiter(shared) as limiter:
        left = limiter.peek("k", "sliding-log 100/1d").remaining
        rest = sum(limiter.check("k", "sliding-log 100/1d").allowed for _ in range(101))
    # what a killed one was allowed and could not tell was charged all the same: at most one call each
    assert rest == left and 100 - 3 <= told + rest <= 100


@pytest.fixture
def neighbour(tmp_path):
    """Makes a process that stops itself with the lock of a key's counter in its hand, in a store of a file."""
    made = []

    def start(store, limit, key):
        binary = str(tmp_path / "neighbour")
        subprocess.run(["gcc", "-std=gnu11", "-O1", "-Iinclude", "-Isrc", "-I.", "tests/e2e/stopped_neighbour.c",
                        "build/libsluice.a", "-lyaml", "-lpthread", "-o", binary], cwd=world.ROOT, check=True)
        made.append(subprocess.Popen([binary, store, limit, key], stdout=subprocess.DEVNULL))

        def is_stopped():
            with open(f"/proc/{made[-1].pid}/stat", encoding="utf-8") as f:
                return f.read().rsplit(") ", 1)[1].startswith("T")
        wait_until(is_stopped, "it has stopped")
        return made[-1]
    yield start
    for one in made:
        one.kill()
        one.wait()


def test_a_process_that_is_stopped_holds_up_no_loop(tmp_path, neighbour):
    store, limit = str(tmp_path / "counters"), "5/1d"
    policy = f"limits:\n  - {{name: a, key: user, limit: {limit}}}\n"
    threads = sluice.Limiter(store, timeout=200)
    threads.check("mine", limit)

    async def all_of_it():
        one = sluice.AsyncLimiter(store, timeout=300, policy=policy)
        open_, patient = sluice.AsyncLimiter(store, on_error="allow"), sluice.AsyncLimiter(store, timeout=60000)
        stopped, turns, running = neighbour(store, limit, "mine"), 0, True

        async def tick():
            nonlocal turns
            while running:
                turns += 1
                await asyncio.sleep(0.001)
        ticking = asyncio.ensure_future(tick())
        for _ in range(20):  # again where it was the machine that stood still
            turns = 0
            for call in (one.check("mine", limit), one.check("mine", [limit, "9/1d"]), one.reset("mine", limit)):
                with pytest.raises(sluice.SluiceError) as caught:
                    await call
                assert caught.value.code == "busy"
            if turns > 20:
                break
        assert turns > 20, "the loop went on"
        assert (await open_.check("mine", limit)).failed_open
        assert (await one.check("other", limit)).remaining == 4, "all others go on"
        with pytest.raises(sluice.SluiceError) as caught:
            threads.check("mine", limit)  # asks again by itself, for as long as its own timeout
        assert caught.value.code == "busy"
        asked = asyncio.ensure_future(patient.check("mine", limit))
        await asyncio.sleep(0.02)
        assert not asked.done()
        stopped.send_signal(signal.SIGCONT)
        assert (await asked).remaining == 3, "decided when it moved, once"
        running = False
        await ticking
        for limiter in (one, open_, patient):
            await limiter.aclose()
    asyncio.run(all_of_it())
    assert threads.check("mine", limit).remaining == 2
    threads.close()


def test_a_child_goes_on_after_fork(shared):
    private, common = sluice.Limiter(), sluice.Limiter(shared)
    private.check("k", "5/1d")
    common.check("k", "5/1d")
    child = os.fork()
    if child == 0:
        ok = private.check("k", "5/1d").remaining == 3 and common.check("k", "5/1d").remaining == 3
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert private.check("k", "5/1d").remaining == 3  # a copy of its own
    assert common.check("k", "5/1d").remaining == 2  # the same counters
    private.close()
    common.close()


def test_a_child_acquires_leases_of_its_own(shared):
    """Before, it made the ids of its parent, and of its siblings: charged nothing, and ended their leases."""
    common, limit = sluice.Limiter(shared), "concurrency 3 lease 1h"
    common.acquire("k", limit)
    child = os.fork()
    if child == 0:
        os._exit(common.acquire("k", limit).remaining)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert common.acquire("k", limit).remaining == 0
    common.close()


def code_of(function, *args):
    try:
        return function(*args)
    except sluice.SluiceError as error:
        return error.code


def test_the_256th_process_is_told(shared):
    """255 may have a store open, forked ones too. One beyond them gets an error that says so, or what on_error says."""
    limiter, open_ = sluice.Limiter(shared), sluice.Limiter(shared, on_error="allow")
    limiter.check("k", "5/1d")
    ready, go = os.pipe(), os.pipe()
    children = []
    for _ in range(254):
        child = os.fork()
        if child == 0:
            os.close(go[1])
            limiter.peek("k", "5/1d")
            os.write(ready[1], b".")
            os.read(go[0], 1)
            os._exit(0)
        children.append(child)
    os.close(go[0])
    for _ in range(254):
        os.read(ready[0], 1)
    child = os.fork()
    if child == 0:
        try:
            limiter.check("k", "5/1d")
            os._exit(1)
        except sluice.SluiceError as error:
            passed = open_.check("k", "5/1d")
            told = [code_of(limiter.holders, "k", "concurrency 3 lease 1h"), code_of(limiter.counters)]
            os._exit(0 if error.code == "full" and "255 processes" in str(error) and passed.failed_open and
                     told == ["full", "full"] else 2)
    status = os.waitpid(child, 0)[1]
    late = subprocess.run([sys.executable, "-c", "import sluice, sys\ntry:\n sluice.Limiter(sys.argv[1])\n"
                           "except sluice.SluiceError as error:\n print(error.code, error)", shared],
                          capture_output=True, text=True, check=True).stdout
    os.close(go[1])
    for one in children:
        os.waitpid(one, 0)
    assert status == 0
    assert late.startswith("full ") and "255 processes have it open" in late
    limiter.close()
    open_.close()


def test_interpreters_have_modules_of_their_own():
    interpreters = pytest.importorskip("_xxsubinterpreters")
    script = textwrap.dedent(f"""
        import sys
        sys.path[:0] = {sys.path!r}
        import sluice
        limiter = sluice.Limiter()
        assert [limiter.check("k", "2/1d").allowed for _ in range(3)] == [True, True, False]
        try:
            limiter.check("k", "nonsense")
        except sluice.SluiceError as error:
            assert error.code == "bad-limit"
        else:
            raise AssertionError
        """)
    for _ in range(3):
        interpreter = interpreters.create()
        interpreters.run_string(interpreter, script)
        interpreters.destroy(interpreter)
    with sluice.Limiter() as limiter:
        assert limiter.check("k", "1/1d").allowed


def test_every_python_that_is_here(tmp_path):
    """The oldest that is supported, and the newest that can be had."""
    found = [path for path in world.pythons() if path != sys.executable]
    if not found:
        pytest.skip("no other Python is installed here")
    site = os.path.dirname(os.path.dirname(sluice.__file__))
    for name in os.listdir(os.path.join(site, "sluice")):
        if not name.startswith("__pycache__"):
            os.makedirs(tmp_path / "sluice", exist_ok=True)
            os.symlink(os.path.join(site, "sluice", name), tmp_path / "sluice" / name)
    for path in found:
        done = subprocess.run([path, "-c", "import sluice; l = sluice.Limiter(); r = l.check('k', '2/1d', cost=2); "
                               "print(r.remaining, l.check('k', '2/1d').allowed, l.peek('k', ['2/1d']).limit)"],
                              env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
                              capture_output=True, text=True, check=False)
        assert done.stdout == "0 False 2/1d\n", (path, done.stderr)


# ---- without end -----------------------------------------------------------------------------------------------------

def resident():
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * 4096


def test_a_day_leaves_nothing_behind():
    """24 hours in steps of 2 s: keys that come and go, limits that are made up, denials, errors, leases, reloads."""
    now, grown = [1728000000000], []
    policy = "limits:\n  - {name: a, key: ip, limit: 5/1m, stagger: true}\n"
    with sluice.Limiter(memory="2MiB", policy=policy, clock=lambda: now[0]) as limiter:
        for step in range(43200):
            now[0] += 2000
            limiter.check(f"k{step % 5000}", ["5/1m", f"{step + 1}/1h"], 1, each=True)
            if step % 4 == 0:
                limiter.admit({"ip": f"192.0.2.{step % 250}"}, 2, each=True)
            if step % 40 == 0:
                with pytest.raises(sluice.SluiceError):
                    limiter.check("k", f"{step}/60")
                lease = limiter.acquire("r", "concurrency 3 lease 9s")
                limiter.release("r", "concurrency 3 lease 9s", lease.id) if lease else None
                limiter.reload(policy) if step % 400 == 0 else None
            if step % 7200 == 0:
                gc.collect()
                grown.append(resident())
    assert grown[-1] - grown[1] < 1 << 20, grown
