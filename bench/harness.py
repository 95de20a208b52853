"""What the benchmark runs on: servers pinned to one core, a tiny RESP2 client, and respload on the other core.

Every server here is started for this run alone, on a free loopback port, and ended by its pid. Redis is started without
persistence and with one thread for commands, so that both sides do nothing but answer.
"""
import atexit
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("BENCH_BUILD", ROOT / "build")).resolve()
BENCH = BUILD / "bench"
CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, CLIENT_CORE = CORES[0], CORES[-1]
START_SECONDS_MAX = 15
running = []


def die(text):
    """Ends the benchmark with one line: numbers after a failure would mean nothing."""
    sys.exit(f"bench: {text}")


class ReplyError(Exception):
    """An error reply of a server."""


class Resp:
    """A blocking RESP2 connection; enough for setting up and for looking at an answer before it is timed."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.file = self.socket.makefile("rb")

    def call(self, *words):
        return self.call_all([words])[0]

    def call_all(self, commands):
        """Sends all, then reads their answers."""
        out = []
        for words in commands:
            out.append(b"*%d\r\n" % len(words))
            for word in words:
                data = word if isinstance(word, bytes) else str(word).encode()
                out.append(b"$%d\r\n%s\r\n" % (len(data), data))
        self.socket.sendall(b"".join(out))
        return [self.read() for _ in commands]

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            die("a server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise ReplyError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"+":
            return rest.decode()
        if kind == b"$":
            return None if int(rest) < 0 else self.file.read(int(rest) + 2)[:-2].decode(errors="replace")
        if kind == b"*":
            return None if int(rest) < 0 else [self.read() for _ in range(int(rest))]
        die(f"a server sent {line!r}, which is not RESP2")

    def close(self):
        self.file.close()
        self.socket.close()


class Server:
    """A process on the servers' core (or on `cores`), and the port where it answers."""

    def __init__(self, name, words, cores=(SERVER_CORE,), **how):
        self.name = name
        self.log = BENCH / f"{name}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [str(word) for word in words], stderr=log, stdin=subprocess.DEVNULL,
                preexec_fn=lambda: os.sched_setaffinity(0, set(cores)), **{"stdout": log, **how})
        self.pid, self.port = self.process.pid, 0
        running.append(self)

    def wait_for(self, look):
        """Calls look() until it gives a port; the server's own last words are the message when it never does."""
        end = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < end and self.process.poll() is None:
            self.port = look()
            if self.port:
                return self
            time.sleep(0.02)
        self.stop()
        die(f"{self.name} did not start: {self.log.read_text(errors='replace')[-500:].strip() or 'it said nothing'}")

    def cpu_ns(self):
        """CPU time of all threads of the process and of its children so far, kernel part included."""
        total = 0
        for pid in [self.pid, *children_of(self.pid)]:
            for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
                total += int(path.read_text().split()[0])
        return total

    def resident(self):
        """Resident bytes."""
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def stop(self):
        if self in running:
            running.remove(self)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def children_of(pid):
    """Process ids of the direct children."""
    return [int(child) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children")
            for child in path.read_text().split()]


@atexit.register
def stop_all():
    for server in list(running):
        server.stop()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def module(*options):
    """The words with which redis-server loads our module."""
    path = BUILD / "sluice-module.so"
    if not path.exists():
        die(f"{path} is not there: make all builds it")
    return ["--loadmodule", path, *options]


def start_redis(name, more=(), wrapper=()):
    """redis-server with one thread and no persistence; `more` are further words of its command line, `wrapper` those
    before it."""
    port = free_port()

    def answers():
        try:
            return port if Resp(port).call("PING") == "PONG" else 0
        except OSError:
            return 0
    words = [*wrapper, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--io-threads", 1, "--daemonize", "no", "--loglevel", "warning", *more]
    try:
        return Server(name, words).wait_for(answers)
    except FileNotFoundError:
        die("redis-server is not installed: apt-get install redis-server")


def start_sluice(name, memory, threads=1, door="resp", more="", listen="", http='"127.0.0.1:0"'):
    """A store of `memory` (a size, or a whole map as in a policy file), RESP and HTTP on free ports; `listen` says what
    else, `http` how HTTP listens. Its port is that of `door`. One thread runs on the servers' core, several on all."""
    policy = BENCH / f"{name}.yaml"
    store = memory if memory.startswith("{") else f"{{memory: {memory}}}"
    policy.write_text(f'threads: {threads}\nstore: {store}\n'
                      f'listen: {{resp: "127.0.0.1:0", http: {http}{listen and ", " + listen}}}\n' + more)
    server = Server(name, [BUILD / "sluice", "serve", "-c", policy], (SERVER_CORE,) if threads == 1 else CORES)

    def says():
        text = server.log.read_text(errors="replace")
        for line in text.splitlines():
            if line.startswith(f"sluice: {door} on ") and "sluice: ready" in text:
                return int(line.rsplit(":", 1)[1])
        return 0
    return server.wait_for(says)


def start_null(name):
    server = Server(name, [BENCH / "respnull"], stdout=subprocess.PIPE)
    server.port = int(server.process.stdout.readline())
    return server


def load(server, words, **options):
    """One run of respload against a server; its JSON as a dict. Options are respload's, with _ for -."""
    command = [str(BENCH / "respload"), "--json", "--port", str(server.port), "--server-pid", str(server.pid),
               "--cpu", str(CLIENT_CORE)]
    for name, value in options.items():
        command.append("--" + name.replace("_", "-"))
        if value is not True:
            command.append(str(value))
    done = subprocess.run(command + [str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        die(f"respload against {server.name}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def check_load_generator(server):
    """The generator counts right: nested replies, bulks with line ends in them, and errors, one each."""
    nested = load(server, ["EVAL", "return {1, {2, 'a\\r\\n:7', {}}, false, {3}}", 0], requests=5000, pipeline=64)
    wrong = load(server, ["GET"], requests=500, pipeline=7)
    if (nested["ops"], nested["errors"], nested["leading_1"]) != (5000, 0, 5000) or wrong["errors"] != 500:
        die(f"respload miscounts: {nested} {wrong}")
