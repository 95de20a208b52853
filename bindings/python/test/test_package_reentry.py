"""Code of Python that runs inside a call: the caller's types, the clock, finalizers, other threads. It may do what all
others may: close the limiter, and ask it. Each case has a process of its own, since what it looks for is a crash."""
import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
import gc, sys, threading
import sluice

POLICY = "limits:\\n  - {name: a, key: user, limit: 5/1d}\\n"
LIMITS = ["10/1d", "100/1d"]

def code(call, *args, **named):
    try:
        return call(*args, **named).allowed
    except sluice.SluiceError as error:
        return error.code

def opened(**options):
    return sluice.Limiter(*sys.argv[1:], policy=POLICY, **options)

l = opened()
"""


@pytest.fixture(params=["private", "file"])
def run(request, tmp_path):
    def run(script):
        store = [str(tmp_path / "counters")] if request.param == "file" else []
        done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", PRELUDE + textwrap.dedent(script), *store],
                              capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.split()
    return run


@pytest.mark.parametrize("call", [
    "l.check, 'k', Closing(LIMITS)", "l.check, 'k', Closing(LIMITS[:1]), each=True", "l.peek, 'k', Closing(LIMITS)",
    "l.admit, Attributes(user='u')", "l.check, 'k', LIMITS, each=Truth()", "l.reset, 'k', Closing(LIMITS)",
    "l.reserve, 'k', Closing(LIMITS), id='i'"])
def test_arguments_that_close(run, call):
    assert run(f"""
        class Closing(list):
            def __iter__(self):
                l.close()
                return super().__iter__()
        class Attributes(dict):
            def items(self):
                l.close()
                return super().items()
        class Truth:
            def __bool__(self):
                l.close()
                return True
        print(code({call}), code(l.check, "k", "1/1d"))
        """) == ["closed", "closed"]


def test_limits_that_close_when_the_answer_is_made(run):
    """It was decided: the answer is told, and the store is given back after it."""
    assert run("""
        class Pair(tuple):
            def __getitem__(self, index):
                l.close()
                return super().__getitem__(index)
        told = l.check("k", [Pair(("k", "10/1d")), Pair(("j", "9/1d"))], each=True)
        print(told.remaining, [one.limit for one in told.each], code(l.check, "k", "1/1d"))
        """) == ["8", "['10/1d',", "'9/1d']", "closed"]


def test_a_clock_that_closes(run):
    assert run("""
        l = opened(clock=lambda: (l.close(), 1728000000000)[1])
        print(code(l.check, "k", LIMITS))
        l = opened(clock=lambda: (l.close(), 1728000000000)[1])
        try:
            l.holders("k", "concurrency 1 lease 1s")
        except sluice.SluiceError as error:
            print(error.code)
        """) == ["closed", "closed"]


def test_finalizers_that_close(run):
    """Wherever the collector runs: while arguments are read, or while the answer is made."""
    assert run("""
        class Owner:
            def __init__(self, limiter):
                self.limiter, self.me = limiter, self
            def __del__(self):
                self.limiter.close()
        seen = set()
        for limits in (tuple(LIMITS), LIMITS, [["k", "10/1d"], ("j", "9/1d")]):
            for each in (True, False):
                for _ in range(20):
                    l = opened()
                    gc.disable()
                    Owner(l)
                    gc.set_threshold(1)
                    gc.enable()
                    seen.add(code(l.check, "k", limits, each=each) if each else code(l.check, "k", limits))
                    gc.disable()
                    seen.add(code(l.check, "k", limits, each=each))
                    gc.collect()
        print(seen <= {True, "closed"})
        """) == ["True"]


def test_another_thread_that_closes(run):
    assert run("""
        sys.setswitchinterval(1e-6)
        class Slow(list):
            def __iter__(self):
                yield from list.__iter__(self)
        for _ in range(100):
            l, go = opened(), threading.Event()
            closer = threading.Thread(target=lambda: (go.wait(), l.close()))
            closer.start()
            go.set()
            while code(l.check, "k", Slow(LIMITS)) != "closed":
                pass
            closer.join()
        print("closed")
        """) == ["closed"]


def test_a_call_inside_a_call_and_a_close_after_it(run):
    """Calls are counted: what closes inside the inner one is freed after the outer one."""
    assert run("""
        class Asking(list):
            def __iter__(self):
                print(code(l.check, "j", LIMITS), code(l.check, "j", Closing(LIMITS), each=True))
                return super().__iter__()
        class Closing(list):
            def __iter__(self):
                l.close()
                return super().__iter__()
        print(code(l.check, "k", Asking(LIMITS)))
        """) == ["True", "closed", "closed"]


@pytest.mark.parametrize("items", ["[5]", "[['user', 'u']]", "[('user',)]", "[('user', 'u', 'v')]"])
def test_attributes_that_are_no_pairs(run, items):
    assert run(f"""
        class Attributes(dict):
            def items(self):
                return {items}
        try:
            l.admit(Attributes())
        except TypeError as error:
            print(str(error).split(",")[0])
        """) == "attributes: expected pairs of a name and a value".split()
