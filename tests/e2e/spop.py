"""A client of the SPOP door, as HAProxy is one: frames written and read byte by byte, sharing no code with the program.
"""

import socket
import struct

HELLO, DISCONNECT, NOTIFY, AGENT_HELLO, AGENT_DISCONNECT, ACK = 1, 2, 3, 101, 102, 103
TXN = 2


def varint(number):
    if number < 240:
        return bytes([number])
    out, number = bytearray([number & 15 | 240]), (number - 240) >> 4
    while number >= 128:
        out.append(number & 127 | 128)
        number = (number - 128) >> 7
    return bytes(out) + bytes([number])


def string(text):
    data = text.encode() if isinstance(text, str) else text
    return varint(len(data)) + data


def value(what):
    if what is None:
        return b"\0"
    if isinstance(what, bool):
        return b"\x11" if what else b"\x01"
    if isinstance(what, int):
        return b"\x04" + varint(what % 2**64)
    return b"\x08" + string(what)


def pairs(items):
    return b"".join(string(name) + value(what) for name, what in items)


def frame(kind, payload, stream=0, number=0, flags=1):
    body = bytes([kind]) + struct.pack(">I", flags) + varint(stream) + varint(number) + payload
    return struct.pack(">I", len(body)) + body


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        number = self.byte()
        if number < 240:
            return number
        shift, byte = 4, 128
        while byte >= 128:
            byte = self.byte()
            number += byte << shift
            shift += 7
        return number

    def string(self):
        count = self.varint()
        self.at += count
        return self.data[self.at - count:self.at].decode()

    def value(self):
        kind = self.byte()
        if kind & 15 == 1:
            return kind >> 4 == 1
        if kind == 4:
            number = self.varint()
            return number - 2**64 if number >= 2**63 else number
        return {0: lambda: None, 3: self.varint, 8: self.string}[kind]()

    def __bool__(self):
        return self.at < len(self.data)


class Spop:
    """One connection."""

    def __init__(self, port, frame_max=16380, hello=True, timeout=120):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.input, self.stream = b"", 0
        if hello:
            self.greeting = self.hello(frame_max)
            assert self.greeting["version"] == "2.0", self.greeting

    def send(self, data):
        self.socket.sendall(data)

    def hello(self, frame_max=16380, **more):
        said = [("supported-versions", "2.0"), ("capabilities", "pipelining,async"), *more.items()]
        self.send(frame(HELLO, pairs(said) + string("max-frame-size") + b"\x03" + varint(frame_max)))
        return self.receive()[1]

    def receive(self):
        """(kind or (stream, frame) of an ACK, what it says); (None, None) at the end."""
        while len(self.input) < 4 or len(self.input) < 4 + struct.unpack(">I", self.input[:4])[0]:
            got = self.socket.recv(65536)
            if not got:
                assert self.input == b"", self.input
                return None, None
            self.input += got
        size = 4 + struct.unpack(">I", self.input[:4])[0]
        reader, self.input = Reader(self.input[4:size]), self.input[size:]
        kind, flags = reader.byte(), reader.data[1:5]
        assert flags == b"\0\0\0\1"
        reader.at = 5
        stream, number = reader.varint(), reader.varint()
        said = {}
        while reader:
            if kind == ACK:
                assert (reader.byte(), reader.byte(), reader.byte()) == (1, 3, TXN)
            name = reader.string()
            assert name not in said
            said[name] = reader.value()
        return ((stream, number) if kind == ACK else kind), said

    @staticmethod
    def message(name, items, stream=1, number=1):
        items = list(items.items() if isinstance(items, dict) else items)
        return frame(NOTIFY, string(name) + bytes([len(items)]) + pairs(items), stream, number)

    def ask(self, name, items):
        self.stream += 1
        self.send(self.message(name, items, self.stream))
        to, said = self.receive()
        assert to == (self.stream, 1), (to, said)
        return said

    def close(self):
        self.socket.close()
