"""Real redis-servers for the tests of the module and of the script: started on free ports, with the module or without,
with AOF, as replicas; with a wall clock that the test holds; and one way to call module and scripts alike.

A steered clock (steered_clock.c) stands still until the test moves it. So keys expire when the test says so and never
because the machine was slow, and what a limiter decides at an instant can be asked at exactly that instant.
"""

import mmap
import os
import struct
import subprocess
import tempfile
import time

import pytest

from foreign import redis_server
from harness import DEADLINE_S, ROOT, Resp, RespError, encode, wait_until
from ports import free_port

MANY_YEARS_MS = 1_000_000_000_000  # 2001: a clock that stands there lets nothing expire that is about later instants
SOAK = int(os.environ.get("SLUICE_SOAK_SECONDS", "0"))
SANITIZER = "sanitizer"


def built(name):
    """What `make` puts beside the program; $SLUICE_BESIDE where the program under test is of another build, for a Redis
    without sanitizers loads no module with them."""
    program = os.environ.get("SLUICE_BIN", os.path.join(ROOT, "build", "sluice"))
    beside = os.environ.get("SLUICE_BESIDE") or os.path.dirname(os.path.abspath(program))
    path = os.path.join(beside, name)
    assert os.path.exists(path), f"{path} is not there: run `make` first, or set SLUICE_BIN"
    return path


def module_path():
    """The module under test: $SLUICE_MODULE, which may be one with sanitizers, or the one beside the program."""
    return os.environ.get("SLUICE_MODULE") or built("sluice-module.so")


class Clock:
    """A wall clock for servers: stands at an instant, or runs, off by some time."""

    _library = None

    def __init__(self, at_ms=None):
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-clock-")
        self.file = os.path.join(self.folder.name, "clock")
        with open(self.file, "wb") as f:
            f.write(bytes(24))
        with open(self.file, "r+b") as f:
            self.memory = mmap.mmap(f.fileno(), 24)
        if at_ms is not None:
            self.stand(at_ms)

    @classmethod
    def library(cls):
        if cls._library is None:
            cls._library = tempfile.TemporaryDirectory(prefix="sluice-clock-")
            source = os.path.join(ROOT, "tests", "e2e", "steered_clock.c")
            subprocess.run(["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", source, "-o",
                            os.path.join(cls._library.name, "clock.so")], check=True)
        return os.path.join(cls._library.name, "clock.so")

    def stand(self, at_ms):
        """The wall clock stands; the time since the host started goes on."""
        self.memory[:8] = struct.pack("q", round(at_ms * 1000))

    def stand_all(self, at_ms):
        """Both stand, and go on together: no step of the wall clock."""
        self.memory[16:] = struct.pack("q", round(at_ms * 1000))
        self.stand(at_ms)

    def run(self, off_ms=0):
        self.memory[:16] = struct.pack("qq", 0, round(off_ms * 1000))

    def environment(self):
        return {"LD_PRELOAD": self.library(), "STEERED_CLOCK": self.file}

    def close(self):
        self.memory.close()
        self.folder.cleanup()


class Redis:
    """One redis-server of its own folder. `module` is None or the module's load arguments; options are given as on
    redis-server's command line."""

    def __init__(self, module=("client-time", "yes"), clock=None, options=(), path=None):
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-redis-")
        self.port, self.clock, self.process = free_port(), clock, None
        self.command = [redis_server(), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder.name,
                        "--enable-debug-command", "yes", "--enable-module-command", "yes", "--logfile", "log",
                        "--save", "", "--repl-diskless-sync-delay", "0", *map(str, options)]
        if module is not None:
            self.command += ["--loadmodule", path or module_path(), *module]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, env=self.environment())
        wait_until(self._answers, "redis-server does not answer: " + " ".join(self.command))

    def environment(self):
        """A module with sanitizers needs their runtimes in the server that loads it: $SLUICE_REDIS_PRELOAD. What is
        wrong is written to a file, for the server has no output."""
        more = self.clock.environment() if self.clock else {}
        runtimes = os.environ.get("SLUICE_REDIS_PRELOAD")
        if runtimes:
            more["LD_PRELOAD"] = " ".join(filter(None, (runtimes, more.get("LD_PRELOAD"))))
            more["ASAN_OPTIONS"] = "detect_leaks=0:log_path=" + self.path(SANITIZER)
            more["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1:log_path=" + self.path(SANITIZER)
        return {**os.environ, **more}

    def _answers(self):
        assert self.process.poll() is None, "redis-server ended: " + self.log()[-2000:]
        try:
            with Resp(self.port, 2) as r:
                return r.call("PING") == b"PONG"
        except (OSError, RespError, AssertionError):
            return False  # not yet, or it is loading
        except Exception:  # noqa: B902 - closed in the middle of its start
            return False

    def alive(self):
        return self.process.poll() is None

    def log(self):
        """The server's, and what sanitizers have said; nothing of one that was stopped before."""
        said, folder = "", self.folder.name
        for name in sorted(os.listdir(folder) if os.path.isdir(folder) else []):
            if name == "log" or name.startswith(SANITIZER + "."):
                with open(self.path(name), encoding="utf-8", errors="replace") as f:
                    said += f.read()
        return said

    def resp(self, **options):
        return Resp(self.port, **options)

    def path(self, *names):
        return os.path.join(self.folder.name, *names)

    def end(self):
        """Ends it as a service manager does; what is to be saved is saved by what it was told before."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("SIGTERM did not end redis-server:\n" + self.log()[-2000:])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def restart(self):
        self.end()
        self.start()

    def stop(self):
        """Ends it; a crash before is a failure, with what redis-server says of it."""
        crashed = "REDIS BUG REPORT START" in self.log()
        status = self.process.poll()
        try:
            if status is None:
                status = self.end()
            assert not crashed and status in (0, -9) and "runtime error:" not in self.log(), \
                f"status {status}:\n{self.log()[-6000:]}"
        finally:
            self.folder.cleanup()

    def info(self, section, field):
        with self.resp() as r:
            text = r.call("INFO", section).decode()
        return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)[field]


# ---- one way to call module and scripts --------------------------------------------------------------------------

FIXED = {"CHECK": 1, "PEEK": 1, "REFUND": 1, "RESET": 0, "HOLD": 3, "CONFIRM": 2, "CANCEL": 1, "LEASE": 4, "INSPECT": 0,
         "ACQUIRE": 1, "RELEASE": 1, "RENEW": 1, "HOLDERS": 0, "RESERVE": 2, "COMMIT": 2}


def keys_of(words):
    """All keys of a command in the module's words, each once, its first key first."""
    verb = str(words[0]).upper().partition(".")[2]
    keys, at = [words[1]], 2 + FIXED[verb]
    while at < len(words):
        word = str(words[at]).upper() if not isinstance(words[at], bytes) else words[at].upper().decode("latin-1")
        if word == "KEY" and at + 1 < len(words):
            keys.append(words[at + 1])
        at += 2 if word in ("KEY", "NAME", "AT", "MEMBER", "ID", "TERMS") else 1
    return list(dict.fromkeys(keys))


class Door:
    """Takes commands in the module's words: SLUICE.CHECK key cost [AT ms] ..."""

    def __init__(self, redis):
        self.redis, self.client = redis, redis.resp()

    def encode(self, words):
        return encode(*words)

    def ask(self, *words):
        """The reply; an error is returned as a RespError."""
        return self.batch([words])[0]

    def batch(self, commands):
        self.client.send(b"".join(self.encode(words) for words in commands))
        return [self.client.read() for _ in commands]

    def close(self):
        self.client.close()


class ModuleDoor(Door):
    name = "module"


class FunctionDoor(Door):
    name = "function"

    def __init__(self, redis):
        super().__init__(redis)
        with open(built("sluice-client-time.lua"), "rb") as f:
            self.client.call("FUNCTION", "LOAD", "REPLACE", f.read())

    def encode(self, words):
        keys = keys_of(words)
        return encode("FCALL", words[0].lower().replace(".", "_"), len(keys), *keys, *words[2:])


class EvalDoor(Door):
    name = "eval"

    def __init__(self, redis):
        super().__init__(redis)
        with open(built("sluice-eval-client-time.lua"), "rb") as f:
            self.sha = self.client.call("SCRIPT", "LOAD", f.read())

    def encode(self, words):
        keys = keys_of(words)
        return encode("EVALSHA", self.sha, len(keys), *keys, words[0].partition(".")[2], *words[2:])


DOORS = {door.name: door for door in (ModuleDoor, FunctionDoor, EvalDoor)}


# ---- fixtures: conftest.py hands them on -----------------------------------------------------------------------------

@pytest.fixture(scope="module")
def world():
    """One redis-server with the module, told the time by its callers, at a wall clock that stands still; and a door of
    each kind: world.module, world.function, world.eval."""
    clock = Clock(MANY_YEARS_MS)
    redis = Redis(clock=clock)

    class World:
        pass
    one = World()
    one.redis, one.clock = redis, clock
    for name, door in DOORS.items():
        setattr(one, name, door(redis))
    yield one
    for name in DOORS:
        getattr(one, name).close()
    redis.stop()
    clock.close()


@pytest.fixture
def redises():
    """A factory of redis-servers, ended when the test is over: redises(module=..., clock=..., options=[...])."""
    started = []

    def start(**options):
        started.append(Redis(**options))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def replicate(master, replica, deadline_s=DEADLINE_S):
    """Makes one redis-server the replica of another and waits until it has all."""
    with replica.resp() as r:
        r.call("REPLICAOF", "127.0.0.1", master.port)
    synced(master, replica, deadline_s)


def synced(master, replica, deadline_s=DEADLINE_S):
    def same():
        return (replica.info("replication", "role") == "slave"
                and replica.info("replication", "master_link_status") == "up"
                and replica.info("replication", "slave_repl_offset") == master.info("replication",
                                                                                     "master_repl_offset"))
    wait_until(same, "the replica did not catch up", deadline_s)


def seconds_over(seconds):
    """A test that is over when this turns true: for soaks."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end
