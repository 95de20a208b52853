"""Traffic from processes of its own: callers at full speed that count every answer and every failure.

    python3 traffic.py KIND RESP_PORT HTTP_PORT USER QUOTAS

A caller says "calling" after its first answer, goes on until its standard input ends, and then prints one line of JSON:
requests, allowed, failures (as text), reconnects. QUOTAS are the quotas that an answer may name, such as 5,9. Each
request is about USER, whose one limit is named "load". A request fails when its answer does not come whole, or is not
one that any of those quotas can give; an HTTP connection whose last answer said "Connection: close" is opened anew,
which is no failure.
"""

import json
import os
import select
import socket
import subprocess
import sys

from harness import DEADLINE_S

BATCH = 50
KINDS = ("pipelined", "single", "keepalive", "fresh", "fresh-http")


class Caller:
    def __init__(self, kind, resp_port, http_port, user, quotas):
        self.kind, self.quotas = kind, quotas
        self.is_http = kind in ("keepalive", "fresh-http")
        self.port = http_port if self.is_http else resp_port
        self.batch = BATCH if kind == "pipelined" else 1
        body = b'{"attributes":{"user":"%s"}}' % user.encode()
        self.request = (b"POST /v1/admit HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                        b"Content-Length: %d\r\n\r\n%s" % (len(body), body) if self.is_http else
                        b"*4\r\n$12\r\nSLUICE.ADMIT\r\n$1\r\n1\r\n$4\r\nuser\r\n$%d\r\n%s\r\n"
                        % (len(user), user.encode())) * self.batch
        self.requests = self.allowed = self.reconnects = 0
        self.failures = []
        self.sock = None

    def connect(self):
        self.sock = socket.create_connection(("127.0.0.1", self.port), DEADLINE_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def disconnect(self):
        self.sock.close()
        self.sock = None

    def judge(self, allowed, quota, remaining):
        self.allowed += allowed
        if quota not in self.quotas or not 0 <= remaining <= quota or (remaining > 0 and not allowed):
            self.failures.append(f"a wrong answer: {allowed} {quota} {remaining}")

    def receive(self, data):
        part = self.sock.recv(1 << 16)
        if not part:
            raise ConnectionError("closed before the answer: " + repr(data[-200:]))
        return data + part

    def read_resp(self):
        """Each answer is 7 integers and a name: eight values behind *8."""
        data = b""
        while data.count(b"\r\n$4\r\nload\r\n") < self.batch:
            data = self.receive(data)
        answers = data.split(b"*8\r\n")
        if answers[0] or len(answers) != self.batch + 1 or not data.endswith(b"\r\n$4\r\nload\r\n"):
            raise ConnectionError("not the answers that were asked for: " + repr(data[-200:]))
        for answer in answers[1:]:
            numbers = answer.split(b"\r\n")
            self.judge(int(numbers[0][1:]), int(numbers[1][1:]), int(numbers[2][1:]))

    def read_http(self):
        """Returns whether the connection is to be opened anew."""
        data = b""
        while b"\r\n\r\n" not in data:
            data = self.receive(data)
        head, body = data.split(b"\r\n\r\n", 1)
        lines = head.lower().split(b"\r\n")
        length = int(next(line for line in lines if line.startswith(b"content-length:"))[15:])
        while len(body) < length:
            body = self.receive(body)
        answer = json.loads(body)
        if answer.get("status", 200) not in (200, 429):
            raise ConnectionError("answered " + repr(body))
        self.judge(int(answer["allowed"]), answer["quota"], answer["remaining"])
        return b"connection: close" in lines

    def once(self):
        if self.sock is None:
            self.connect()
        self.requests += self.batch
        self.sock.sendall(self.request)
        closing = self.read_http() if self.is_http else self.read_resp()
        if closing:
            self.reconnects += 1
        if closing or self.kind.startswith("fresh"):
            self.disconnect()

    def run(self):
        stop = select.poll()
        stop.register(0, select.POLLIN | select.POLLHUP)
        while not stop.poll(0):
            try:
                self.once()
                if self.requests == self.batch:
                    print("calling", flush=True)
            except (OSError, ValueError, KeyError, StopIteration) as why:
                self.failures.append(repr(why))
                if self.sock is not None:
                    self.disconnect()
                if len(self.failures) > 100:
                    break
        print(json.dumps({"kind": self.kind, "requests": self.requests, "allowed": self.allowed,
                          "failures": self.failures[:20], "failed": len(self.failures),
                          "reconnects": self.reconnects}), flush=True)


class Traffic:
    """Callers running; stop() ends them and returns what each has to say."""

    def __init__(self, server, user, quotas, kinds=KINDS):
        self.callers = [subprocess.Popen([sys.executable, os.path.abspath(__file__), kind, str(server.resp_port),
                                          str(server.http_port), user, ",".join(str(q) for q in quotas)],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE) for kind in kinds]
        for caller in self.callers:
            assert caller.stdout.readline() == b"calling\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for caller in self.callers:
            if caller.returncode is None:
                caller.kill()
                caller.wait()

    def stop(self):
        for caller in self.callers:
            caller.stdin.close()
        return [json.loads(caller.stdout.read()) for caller in self.callers if caller.wait(DEADLINE_S) == 0]


def total(said, what):
    return sum(one[what] for one in said)


if __name__ == "__main__":
    Caller(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], [int(q) for q in sys.argv[5].split(",")]).run()
