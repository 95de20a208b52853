"""What the end-to-end tests stand on: a server started and ended by its process id, bytes over a real socket, and
waiting that polls against a deadline. Nothing here sleeps for a fixed time and hopes.

A server under test is started on free ports; it says on standard error which ones, and `sluice: ready` once it listens,
or, where its nodes of Redis have not answered yet, `sluice: listening`.
Ending it is itself a test: SIGTERM must end it with status 0, whatever the test did to it before.
"""

import functools
import http.client
import json
import math
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

import delays  # noqa: F401 - slow sockets and starts, where a run asks for them

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEADLINE_S = 120.0  # longer than a host lets its guests stand still now and then

FIELDS = ("allowed", "quota", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms")


def is_up(line):
    """Does a line of a server's log say that it listens? In text, or in JSON."""
    text = line.removeprefix("sluice: ")
    return text == "ready" or text.startswith("listening: ") or '"message":"ready"' in line \
        or '"message":"listening: ' in line


def wait_until(condition, what, deadline_s=DEADLINE_S):
    """Polls until `condition` returns something true, and returns that; fails with `what` when the time is over. The
    longer it has waited, the less often it asks: the processor is others' meanwhile."""
    start = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited_s = time.monotonic() - start
        if waited_s > deadline_s:
            raise AssertionError(f"{what}: not within {deadline_s} s")
        time.sleep(min(max(0.005, waited_s / 20), 0.05))


WAITS = re.compile(r"(?<=\bt=)\d+|(?<=retry in )\d+(?= ms)|^\d+$")  # seconds of headers, milliseconds of texts


def same_but_for_time(one, other, elapsed_s):
    """Are two texts the same but for their waits, and each wait but for the time that has passed between the two
    requests? `elapsed_s` is the longest time measured around two requests that are compared."""
    waits = [[int(wait) for wait in WAITS.findall(text)] for text in (one, other)]
    allowed = math.ceil(elapsed_s * (1000 if "retry in" in one else 1))
    return WAITS.sub("", one) == WAITS.sub("", other) and all(abs(a - b) <= allowed for a, b in zip(*waits))


RELOADS_MAX = int(DEADLINE_S / 10)


def machine_is_slow(told):
    """Does a server say that a policy's files were not read in its time? A machine that stands still for a while, or
    its disk, does that to any reload: who is told so asks again."""
    return "could not be read within 10 s" in str(told)


def in_one_window(seconds):
    """A test of one window, aligned to the epoch: where it fails and a window has ended while it ran, it is run again,
    up to four times. Each run needs a server and files of its own."""
    def decorate(test):
        @functools.wraps(test)
        def run(*arguments, **named):
            for turn in range(5):
                begun = (time.time() - 1) // seconds
                try:
                    return test(*arguments, **named)
                except Exception:
                    if turn == 4 or (time.time() + 1) // seconds == begun:
                        raise
        return run
    return decorate


class Lines:
    """Standard error of a process, read by a thread so that the process never blocks on a full pipe."""

    def __init__(self, stream):
        self.lines = []
        self.changed = threading.Condition()
        self.ended = False
        self.thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self.thread.start()

    def _read(self, stream):
        for line in stream:
            with self.changed:
                self.lines.append(line.decode("utf-8", "backslashreplace").rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def wait_for(self, test, deadline_s=DEADLINE_S):
        with self.changed:
            done = self.changed.wait_for(lambda: self.ended or any(test(x) for x in self.lines), deadline_s)
            if not done or not any(test(x) for x in self.lines):
                raise AssertionError("the server said only: " + repr(self.lines))

    def text(self):
        with self.changed:
            return "\n".join(self.lines)


class Server:
    """One `sluice serve` on free loopback ports; with `listen=()` on those of its policy (port 0 there)."""

    def __init__(self, binary, policy=None, args=(), open_files=None, wrapper=(),
                 listen=("--resp", "127.0.0.1:0", "--http", "127.0.0.1:0")):
        self.asked = False
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-e2e-")
        command = [*wrapper, binary, "serve", *listen, *args]
        if policy is not None:
            self.policy_file = os.path.join(self.folder.name, "policy.yaml")
            with open(self.policy_file, "w", encoding="utf-8") as f:
                f.write(policy)
            command += ["-c", self.policy_file]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, preexec_fn=limit_files(open_files))
        self.stderr = Lines(self.process.stderr)
        self.stderr.wait_for(is_up)
        self.resp_port = self.ports("resp")[0]
        self.http_port = self.ports("http")[0]

    def ports(self, door):
        """Of all inet listeners of a door, in the order of the policy."""
        found = [re.search(rf'(?:^sluice: |"message":"){door} on 127\.0\.0\.1:(\d+)(?:$|")', line)
                 for line in self.stderr.lines]
        assert any(found), f"no line 'sluice: {door} on 127.0.0.1:PORT' in {self.stderr.lines!r}"
        return [int(m.group(1)) for m in found if m]

    def alive(self):
        return self.process.poll() is None

    def resp(self, **options):
        return Resp(self.resp_port, **options)

    def http(self):
        return Http(self.http_port)

    def ask_to_end(self, number=signal.SIGTERM):
        """Sends the signal, by its process id; stop() then waits for the end and sends no other."""
        self.asked = True
        self.process.send_signal(number)

    def stop(self, expect=0):
        """Asks it to end, unless that was done, and holds it to an exit status of 0."""
        try:
            if self.alive() and not self.asked:
                self.ask_to_end()
            try:
                status = self.process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError("SIGTERM did not end the server: " + self.stderr.text())
            assert status == expect, f"exit status {status}, stderr:\n{self.stderr.text()}"
        finally:
            self.process.stderr.close() if self.stderr.ended else None
            self.folder.cleanup()


def limit_files(open_files):
    """A preexec function that lowers the number of files a child may open, or None."""
    if open_files is None:
        return None

    def lower():
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))
    return lower


class RespError(Exception):
    """An error reply, without its leading '-'."""


class Closed(Exception):
    """The other side closed the connection where a reply was due; carries the bytes that had come."""


class Resp:
    """A RESP 2 and 3 client on one raw socket: sends exactly the bytes it is told, parses strictly what comes back."""

    def __init__(self, port, timeout=DEADLINE_S):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def _fill(self):
        data = self.sock.recv(65536)
        if not data:
            raise Closed(self.buffer)
        self.buffer += data

    def line(self):
        while b"\r\n" not in self.buffer:
            self._fill()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def exactly(self, count):
        while len(self.buffer) < count:
            self._fill()
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def read(self):
        """One reply as Python: int, bytes, list, dict, None, bool, or a RespError returned (not raised)."""
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            return RespError(rest.decode("utf-8", "backslashreplace"))
        if kind in (b":", b"("):
            return int(rest)
        if kind == b"_":
            return None
        if kind == b"#":
            return {b"t": True, b"f": False}[rest]
        if kind == b",":
            return float(rest)
        if kind in (b"$", b"=", b"!"):
            if rest == b"-1":
                return None
            data = self.exactly(int(rest) + 2)
            assert data[-2:] == b"\r\n", data
            return data[4:-2] if kind == b"=" else data[:-2]
        if kind in (b"*", b"~", b">"):
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        if kind == b"%":
            return {freeze(self.read()): self.read() for _ in range(int(rest))}
        raise AssertionError(f"not RESP: {line!r}")

    def call(self, *words):
        """Sends one command and returns its reply; an error reply is raised."""
        for _ in range(RELOADS_MAX):
            self.send(encode(*words))
            reply = self.read()
            if not isinstance(reply, RespError) or not machine_is_slow(reply):
                break
        if isinstance(reply, RespError):
            raise reply
        return reply

    def drain(self):
        """Everything until the other side closes; fails if it does not."""
        try:
            while True:
                self._fill()
        except Closed:
            return self.buffer


def freeze(value):
    return tuple(value) if isinstance(value, list) else value


def encode(*words):
    """A command as RESP bytes; words are bytes, str or int."""
    raw = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b"*%d\r\n" % len(raw) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in raw)


class Http:
    """A keep-alive HTTP/1.1 client; `ask` returns status, headers (a list of pairs) and the decoded body."""

    def __init__(self, port, timeout=DEADLINE_S):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.connection.close()

    def ask(self, method, path, body=None, headers=None):
        raw = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        given = {"Content-Type": "application/json"} if raw is not None else {}
        self.connection.request(method, path, raw, {**given, **(headers or {})})
        response = self.connection.getresponse()
        data = response.read()
        kind = response.getheader("Content-Type") or ""
        decoded = json.loads(data) if "json" in kind else data
        return response.status, response.getheaders(), decoded

    def post(self, path, body, headers=None):
        for _ in range(RELOADS_MAX):
            told = self.ask("POST", path, body, headers)
            if told[0] != 409 or not machine_is_slow(told[2]):
                break
        return told


def raw_exchange(port, data, until_close=True, timeout=DEADLINE_S):
    """Sends bytes, half-closes, and returns all that comes back until the other side closes."""
    with socket.create_connection(("127.0.0.1", port), timeout) as sock:
        try:
            sock.sendall(data)
            if until_close:
                sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # closed while we were still sending: what it said before is what counts
        got = b""
        while True:
            try:
                part = sock.recv(65536)
            except ConnectionResetError:
                return got
            if not part:
                return got
            got += part


def still_serves(server):
    """Both doors answer a new client rightly: what every hostile test ends with."""
    assert server.alive(), "the server died: " + server.stderr.text()
    with server.resp() as r:
        assert r.call("PING") == b"PONG"
        assert r.call("SLUICE.PEEK", "still-serves", 1, "7/1h")[:3] == [1, 7, 7]
    with server.http() as h:
        status, _, body = h.post("/v1/check", {"key": "still-serves", "limits": ["7/1h"], "peek": True})
        assert (status, body["remaining"]) == (200, 7)
