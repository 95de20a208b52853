"""Connections that all speak at once: each sends many requests in pieces of any size while answers come, and takes each
answer apart strictly. One thread, which waits for nothing but the server."""

import select
import socket
import struct
import time

from harness import DEADLINE_S, RespError, freeze
from long_life import is_refused
from spop import ACK, Reader

ASKED_BYTES_MAX = 4 << 20  # at a time
RST_STREAM, GOAWAY = 3, 7
# a window of 1 GB for what is answered
H2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0" + b"\0\0\4\x08\0\0\0\0\0\x3f\0\0\0"
LINGER_NONE = struct.pack("ii", 1, 0)


class More(Exception):
    """The answer is not whole yet."""


def resp_reply(data, at):
    """One reply of RESP 2 or 3 at a place in the bytes: (what it says, where it ends)."""
    end = data.find(b"\r\n", at)
    if end < 0:
        raise More
    kind, rest, end = data[at], bytes(data[at + 1:end]), end + 2
    if kind in b"+":
        return rest, end
    if kind in b"-":
        return RespError(rest.decode("utf-8", "backslashreplace")), end
    if kind in b":(":
        return int(rest), end
    if kind in b"$=!":
        size = int(rest)
        if size < 0:
            return None, end
        if len(data) < end + size + 2:
            raise More
        assert data[end + size:end + size + 2] == b"\r\n"
        return bytes(data[end + (4 if kind in b"=" else 0):end + size]), end + size + 2
    if kind in b"*~>%":
        items = []
        for _ in range(int(rest) * (2 if kind in b"%" else 1)):
            item, end = resp_reply(data, end)
            items.append(item)
        return (dict(zip(map(freeze, items[::2]), items[1::2])) if kind in b"%" else items), end
    assert kind in b"_#,", bytes(data[at:at + 80])
    return {"_": lambda: None, "#": lambda: {b"t": True, b"f": False}[rest], ",": lambda: float(rest)}[chr(kind)](), end


def http_answer(data, at, bare):
    """One answer of HTTP/1.1: (status, headers by their names in lower case, body), where it ends."""
    end = data.find(b"\r\n\r\n", at)
    if end < 0:
        raise More
    first, *lines = bytes(data[at:end]).split(b"\r\n")
    version, status, _ = first.split(b" ", 2)
    assert version == b"HTTP/1.1" and len(status) == 3, first
    headers = {}
    for line in lines:
        name, value = line.split(b": ", 1)
        assert name.isascii() and b" " not in name, line
        headers[name.lower()] = value
    end += 4
    if status == b"100":
        return http_answer(data, end, bare)
    if b"transfer-encoding" in headers:
        body = b""
        while True:
            mark = data.find(b"\r\n", end)
            if mark < 0 or len(data) < mark + 4 + (size := int(data[end:mark], 16)):
                raise More
            body, end = body + bytes(data[mark + 2:mark + 2 + size]), mark + 4 + size
            if size == 0:
                return (int(status), headers, body), end
    size = 0 if bare or status in (b"204", b"304") else int(headers[b"content-length"])
    if len(data) < end + size:
        raise More
    return (int(status), headers, bytes(data[end:end + size])), end + size


class Wire:
    """One connection, its bytes to be sent, and what is wanted for them, in order."""
    may_say_more = False  # what is no answer

    def __init__(self, sock):
        self.sock = sock
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self.out, self.sent, self.data, self.at = b"", 0, bytearray(), 0
        self.wants, self.next, self.ended, self.decided, self.answered, self.refused = [], 0, False, 0, 0, 0

    @classmethod
    def to(cls, port):
        return cls(socket.create_connection(("127.0.0.1", port), DEADLINE_S))

    def ask(self, requests, times=1):
        times = max(1, min(times, ASKED_BYTES_MAX // max(1, sum(len(data) for data, _ in requests))))
        self.out, self.sent = b"".join(data for data, _ in requests) * times, 0
        self.wants, self.next = [want for _, want in requests] * times, 0

    @property
    def busy(self):
        return not self.ended and (self.sent < len(self.out) or self.next < len(self.wants))

    def send(self, dice):
        """Some of what is left, in a piece of a size by chance."""
        size = dice.choice((1, 9, 200, 1500, 16384, 1 << 20))
        try:
            self.sent += self.sock.send(self.out[self.sent:self.sent + size])
        except BlockingIOError:
            pass
        except OSError:
            self.sent = len(self.out)  # closed: what it said before is there to be read

    def receive(self):
        try:
            part = self.sock.recv(1 << 17)
        except BlockingIOError:
            return
        except ConnectionResetError:
            part = b""
        if not part:
            self.ended = True
        self.data += part
        try:
            while self.next < len(self.wants) and self.take():
                pass
        except More:
            pass
        if self.at > 1 << 16 or self.at == len(self.data):
            del self.data[:self.at]
            self.at = 0
        assert self.next < len(self.wants) or self.at == len(self.data) or self.may_say_more, bytes(self.data[:300])

    def wrong(self, want, answer, error):
        text = "%s: asked %.2000r, answered %.2000r: %s"
        return AssertionError(text % (type(self).__name__, want.about, answer, error))

    def take(self):
        raise NotImplementedError

    def close(self, abruptly=False):
        if abruptly:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
        self.sock.close()


class RespWire(Wire):
    def take(self):
        if self.at == len(self.data):
            return False
        answer, self.at = resp_reply(self.data, self.at)
        want, self.next = self.wants[self.next], self.next + 1
        self.answered += 1
        self.refused += isinstance(answer, RespError) and not str(answer).startswith("NOTFOUND ")
        try:
            self.decided += want.check(answer)
        except (AssertionError, TypeError, ValueError, IndexError, KeyError) as error:
            raise self.wrong(want, answer, repr(error)) from error
        return True


class HttpWire(Wire):
    def take(self):
        if self.at == len(self.data):
            return False
        want = self.wants[self.next]
        answer, self.at = http_answer(self.data, self.at, want.bare)
        self.next += 1
        self.answered += 1
        self.refused += is_refused(answer[0], answer[2]) or not (
            answer[0] in (422, 429, *range(400)) or b"violated-policies" in answer[2])
        try:
            self.decided += want.check(*answer)
            if answer[1].get(b"connection") == b"close":  # nobody answers what is behind it
                self.wants, self.out, self.sent = self.wants[:self.next], b"", 0
                self.ended = True
                return False
        except (AssertionError, TypeError, ValueError, IndexError, KeyError) as error:
            raise self.wrong(want, answer, repr(error)) from error
        return True


class SpopWire(Wire):
    """Each NOTIFY gets one ACK, in order as the server is; asked again, a request has the number of before."""

    def take(self):
        if len(self.data) < self.at + 4 or len(self.data) < self.at + 4 + (
                size := struct.unpack_from(">I", self.data, self.at)[0]):
            raise More
        reader = Reader(bytes(self.data[self.at + 4:self.at + 4 + size]))
        self.at += 4 + size
        kind, reader.at = reader.data[0], 5
        stream, number = reader.varint(), reader.varint()
        said = {}
        while reader:
            if kind == ACK:
                reader.at += 3
            name = reader.string()
            said[name] = reader.value()
        want = self.wants[stream - 1] if kind == ACK else self.wants[self.next]
        self.next += 1
        self.answered += 1
        try:
            assert kind == ACK and number == 1, (kind, said)
            self.refused += "refused" in said
            self.decided += want.check(said)
        except AssertionError as error:
            raise self.wrong(want, said, repr(error)) from error
        return True


class GrpcWire(Wire):
    """Each call gets frames until one that ends its stream. What is sent at a time fits into a window of HTTP/2."""
    stream, may_say_more = -1, True

    def calls(self, made):
        """What is asked: functions of a stream's number."""
        if self.stream < 0:
            made = [lambda _: H2_PREFACE, *made]
        requests = []
        for one in made:
            requests.append(one(max(self.stream, 0)))
            self.stream += 2
        self.out, self.sent, self.done = b"".join(requests), 0, set()
        self.wants, self.next = made[1 if made[0](0) == H2_PREFACE else 0:], 0

    def take(self):
        if len(self.data) < self.at + 9:
            raise More
        size, kind, flags = int.from_bytes(self.data[self.at:self.at + 3], "big"), *self.data[self.at + 3:self.at + 5]
        if len(self.data) < self.at + 9 + size:
            raise More
        assert kind != GOAWAY, bytes(self.data[self.at:self.at + 9 + size])
        stream = int.from_bytes(self.data[self.at + 5:self.at + 9], "big")
        self.at += 9 + size
        if (kind in (0, 1) and flags & 1 or kind == RST_STREAM) and stream not in self.done:
            self.done.add(stream)
            self.next += 1
            self.answered += 1
        return True


def talk(wires, dice):
    """Until all is sent and each request is answered, or its connection closed by the server."""
    poll, by_number = select.poll(), {}
    for wire in wires:
        by_number[wire.sock.fileno()] = wire
        poll.register(wire.sock, select.POLLIN | select.POLLOUT)
    last = time.monotonic()
    while busy := [wire for wire in wires if wire.busy]:
        events = poll.poll(1000)
        for number, what in events:
            wire, before = by_number[number], wire_state(by_number[number])
            if what & (select.POLLIN | select.POLLHUP | select.POLLERR):
                wire.receive()
            if what & select.POLLOUT and wire.sent < len(wire.out):
                wire.send(dice)
            if wire.ended:
                poll.unregister(number)
                continue
            if wire_state(wire) != before:
                last = time.monotonic()
            poll.modify(number, select.POLLIN | (select.POLLOUT if wire.sent < len(wire.out) else 0))
        assert time.monotonic() - last < DEADLINE_S, "no answer to %.3000r" % (
            [[want.about for want in wire.wants[wire.next:wire.next + 2]] for wire in busy],)
    return sum(wire.answered for wire in wires)


def wire_state(wire):
    return wire.sent, wire.next, len(wire.data)
