"""RESP, the protocol of Redis, by the standard library alone: connections for threads, and for asyncio.

A call is never sent twice: what was charged at the server can't be told from here. So a connection that the other end
has closed meanwhile is noticed before it is used, and what breaks afterwards is an error. Where a call has an id,
asking again is safe, and the caller's to do.

What is held for a caller who no longer waits, by an id that he never saw, is given back: `undo` of a call is a function
from its answer, None where that isn't known, to the command that does and the `undo` of that, or to None. It goes out
on the same connection, so that it comes after the call.
"""
import asyncio
import collections
import contextlib
import os
import select
import socket
import ssl
import threading
import time
import urllib.parse
import weakref

from . import _core
from ._errors import SluiceError

READ_BYTES = 65536
IDLE_MAX = 64  # connections that are kept while nobody needs them
ANSWER_BYTES_MAX = 1 << 20
CLOSED, NO_CONNECTION, NO_ANSWER = "the limiter was closed", "no connection in time", "no answer in time"


def away(address, why):
    return SluiceError("away", f"{address}: {why}")


class Address:
    """Where a server is, and who we are: ``redis://[user:password@]host[:port][/number]``."""

    def __init__(self, url, tls=None):
        parts = urllib.parse.urlsplit(url)
        self.path = self.tls = self.host = self.places = None
        try:
            self.port = parts.port or 7379 if parts.scheme == "sluice" else parts.port or 6379
        except ValueError:
            raise bad_url(url) from None
        if parts.scheme == "unix":
            self.path = urllib.parse.unquote(parts.path)
            self.places = [(socket.AF_UNIX, socket.SOCK_STREAM, 0, "", self.path)]
        elif parts.scheme in ("redis", "rediss", "sluice"):
            self.host = parts.hostname
        if not (self.host or self.path):
            raise bad_url(url)
        if tls is not None and parts.scheme != "rediss":
            raise SluiceError("bad-argument", f"tls goes with rediss:// only, not with {parts.scheme}:")
        if parts.scheme == "rediss":
            self.tls = tls or ssl.create_default_context()
        self.user = urllib.parse.unquote(parts.username or "")
        self.password = urllib.parse.unquote(parts.password or "")
        number = "" if self.path else parts.path.strip("/")
        if number and not number.isdigit():
            raise bad_url(url)
        self.number = number if number.strip("0") else ""

    def __str__(self):
        return self.path or f"{self.host}:{self.port}"

    def greetings(self):
        """What is said first: commands, each of which must be answered by OK."""
        said = []
        if self.password:
            said.append(["AUTH", self.user, self.password] if self.user else ["AUTH", self.password])
        if self.number:
            said.append(["SELECT", self.number])
        return [command(*words) for words in said]


def introduction():
    """Who we are, for those who look who is connected: goes before the first command, in the same write. Answers to
    it don't matter: a server that knows no SETINFO (Redis before 7.2) says so, and goes on."""
    words = (("LIB-NAME", "sluice-python"), ("LIB-VER", _core.version))
    return b"".join(command("CLIENT", "SETINFO", *one) for one in words), len(words)


def bad_url(url):
    shown = urllib.parse.urlsplit(url).scheme
    return SluiceError("bad-argument", f"no server by this URL ({shown}://..): expected redis://host:port, rediss://, "
                                       "sluice:// or unix:/path")


def command(*words):
    encoded = [word if isinstance(word, bytes) else word.encode() for word in words]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)


class Malformed(Exception):
    pass


class Reader:
    """Bytes to answers. next() gives one, or raises IndexError while it is not there as a whole."""

    def __init__(self):
        self.bytes, self.at = b"", 0

    def feed(self, data):
        self.bytes, self.at = self.bytes[self.at:] + data, 0
        if len(self.bytes) > ANSWER_BYTES_MAX:
            raise Malformed("an answer of more than 1 MiB")

    def next(self):
        answer, self.at = self.read(self.at, 0)
        return answer

    def line(self, at):
        end = self.bytes.find(b"\r\n", at)
        if end < 0:
            raise IndexError
        return self.bytes[at:end], end + 2

    def read(self, at, depth):
        line, at = self.line(at)
        kind, rest = line[:1], line[1:]
        if kind == b":":
            return number(rest), at
        if kind == b"+":
            return rest, at
        if kind == b"-":
            return refused(rest), at
        if kind == b"$":
            size = number(rest)
            if size < 0:
                return None, at
            if len(self.bytes) < at + size + 2:
                raise IndexError
            return self.bytes[at:at + size], at + size + 2
        if kind == b"*" and depth < 4:
            items = []
            for _ in range(number(rest)):
                item, at = self.read(at, depth + 1)
                items.append(item)
            return items, at
        raise Malformed(f"no answer of RESP: {line[:32]!r}")


def number(text):
    try:
        return int(text)
    except ValueError:
        raise Malformed(f"no number: {text[:32]!r}") from None


def refused(line):
    text = line.decode("utf-8", "replace")
    return SluiceError(_core.failure_kind(text), text[4:] if text.startswith("ERR ") else text)


# ---- for threads -----------------------------------------------------------------------------------------------------

class Connection:
    def __init__(self, address, deadline):
        self.address, self.reader = address, Reader()
        self.unsaid, self.passed_over = b"", 0  # goes before the next command; answers that nobody wants
        try:
            self.socket = connect(address, deadline)
        except (OSError, ValueError) as error:
            raise away(address, NO_CONNECTION if isinstance(error, socket.timeout) else error) from error
        try:
            for said in address.greetings():
                self.call(said, deadline)
        except BaseException:
            self.close()
            raise
        self.unsaid, self.passed_over = introduction()

    def is_stale(self):
        """Whether the other end has closed it, or said what nobody asked for."""
        try:
            return polled(self.socket)
        except (OSError, ValueError):
            return True

    def call(self, data, deadline):
        """The answer to a command. Errors that are answered are raised; `away` and `protocol` end the connection."""
        try:
            self.socket.settimeout(left(deadline))
            self.socket.sendall(self.unsaid + data)
            self.unsaid = b""
            while self.passed_over > 0:
                self.receive(deadline)
                self.passed_over -= 1
            answer = self.receive(deadline)
        except (OSError, Malformed) as error:
            code = "protocol" if isinstance(error, Malformed) else "away"
            why = NO_ANSWER if isinstance(error, socket.timeout) else error
            raise SluiceError(code, f"{self.address}: {why}") from error
        if isinstance(answer, SluiceError):
            raise answer
        return answer

    def receive(self, deadline):
        while True:
            try:
                return self.reader.next()
            except IndexError:
                self.socket.settimeout(left(deadline))
                data = self.socket.recv(READ_BYTES)
                if not data:
                    raise ConnectionError("the connection was closed") from None
                self.reader.feed(data)

    def give_up(self, undo):
        """Ends it while an answer is outstanding."""
        told = undo and undo(None)
        try:
            if told:
                self.socket.settimeout(0)
                self.socket.sendall(told[0])
                self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        self.close()

    def close(self):
        self.socket.close()


def polled(sock):
    if not hasattr(select, "poll"):  # eventlet takes it out
        return bool(select.select([sock], [], [], 0)[0])
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def left(deadline):
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise socket.timeout(NO_ANSWER)
    return seconds


def connect(address, deadline):
    sock = reached(address, deadline)
    if address.path:
        return sock
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if address.tls:
        try:
            sock.settimeout(left(deadline))
            return address.tls.wrap_socket(sock, server_hostname=address.host)
        except BaseException:
            sock.close()
            raise
    return sock


def reached(address, deadline):
    """A socket that is connected to the first address that can be reached. None takes the time of those after it: it
    has an equal part of what is left."""
    found = address.places or socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    for more, (family, kind, protocol, _, place) in zip(range(len(found), 0, -1), found):
        sock = None
        try:
            sock = socket.socket(family, kind, protocol)
            sock.settimeout(left(deadline) / more)
            sock.connect(place)
            return sock
        except BaseException as error:
            if sock is not None:
                sock.close()
            if more == 1 or not isinstance(error, OSError):
                raise
    raise OSError("the host has no address")


class Pool:
    """Connections that nobody uses at this time, the latest first. A child of fork() begins with none."""

    def __init__(self, address, timeout):
        self.address, self.timeout = address, timeout
        self.idle, self.lock, self.closed = collections.deque(), threading.Lock(), False
        POOLS.add(self)

    def after_fork(self):
        # Closing the inherited descriptors ends nothing for the parent: no word is said on them, nor TLS's goodbye.
        for connection in self.idle:
            try:
                os.close(connection.socket.detach())
            except OSError:
                pass
        self.idle, self.lock = collections.deque(), threading.Lock()

    def take(self, deadline):
        while True:
            with self.lock:
                if self.closed:
                    raise SluiceError("closed", "the limiter is closed")
                connection = self.idle.pop() if self.idle else None
            if connection is None:
                return Connection(self.address, deadline)
            if not connection.is_stale():
                return connection
            connection.close()

    def give(self, connection):
        with self.lock:
            if not self.closed and len(self.idle) < IDLE_MAX:
                self.idle.append(connection)
                return
        connection.close()

    def call(self, data, undo=None):
        deadline = time.monotonic() + self.timeout
        connection = self.take(deadline)
        try:
            answer = connection.call(data, deadline)
        except SluiceError as error:
            if error.code in ("away", "protocol") and error.__cause__ is not None:
                connection.give_up(undo)
            else:
                self.give(connection)  # it was answered
            raise
        except BaseException:
            connection.give_up(undo)
            raise
        self.give(connection)
        return answer

    def close(self):
        with self.lock:
            self.closed, idle, self.idle = True, self.idle, collections.deque()
        for connection in idle:
            connection.close()


POOLS = weakref.WeakSet()


def _after_fork():
    for pool in list(POOLS):
        pool.after_fork()


os.register_at_fork(after_in_child=_after_fork)


# ---- for asyncio -----------------------------------------------------------------------------------------------------

async def reached_in(loop, address, deadline):
    """As reached(), in a loop: `deadline` is of its time."""
    found = address.places or await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    for more, (family, kind, protocol, _, place) in zip(range(len(found), 0, -1), found):
        sock = None
        try:
            sock = socket.socket(family, kind, protocol)
            sock.setblocking(False)
            await asyncio.wait_for(loop.sock_connect(sock, place), (deadline - loop.time()) / more)
            return sock
        except BaseException as error:
            if sock is not None:
                sock.close()
            if more == 1 or not isinstance(error, (OSError, asyncio.TimeoutError)):
                raise
    raise OSError("the host has no address")


class Asked:
    """A command that is on its way."""

    __slots__ = ("future", "begun", "undo")

    def __init__(self, future, begun, undo):
        self.future, self.begun, self.undo = future, begun, undo


class Wire(asyncio.Protocol):
    """One connection of a loop: commands go out as they come, answers come back in their order."""

    def __init__(self, address, sock):
        self.address, self.reader, self.waiting = address, Reader(), collections.deque()
        self.socket, self.transport, self.lost = sock, None, None
        self.overdue = False  # no new call goes out on it
        self.unsaid, self.passed_over = b"", 0
        self.emptied = None  # of finish(): nothing is waited for any more

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        try:
            self.reader.feed(data)
            while self.passed_over > 0 and not self.unsaid:
                self.reader.next()
                self.passed_over -= 1
            while self.waiting:
                self.settle(self.reader.next())
            if self.reader.at != len(self.reader.bytes):
                raise Malformed("an answer that nobody asked for")
            self.tell_emptied()
        except IndexError:
            pass
        except Malformed as error:
            self.end(SluiceError("protocol", f"{self.address}: {error}"))

    def settle(self, answer):
        asked = self.waiting.popleft()
        refused = isinstance(answer, SluiceError)
        if asked.future.done():  # it gave up waiting
            if not refused:
                self.give_back(asked, answer)
        elif refused:
            asked.future.set_exception(answer)
        else:
            asked.future.set_result(answer)

    def connection_lost(self, error):
        self.end(away(self.address, error or "the connection was closed"))

    def give_up(self, asked):
        """Nobody waits for its answer, which may have come meanwhile."""
        future = asked.future
        known = future.done() and not future.cancelled()
        if not (known and future.exception()):
            self.give_back(asked, future.result() if known else None)

    def give_back(self, asked, answer=None):
        told = asked.undo and asked.undo(answer)
        if told:
            asked.undo = None
            command, undo = told
            future = self.send(command, asked.future.get_loop(), undo).future
            future.add_done_callback(lambda future: future.cancelled() or future.exception())
            future.cancel()  # nobody waits for it

    def end(self, error):
        if self.lost is None and self.transport is not None and not self.transport.is_closing():
            for asked in list(self.waiting):
                self.give_back(asked)
        self.lost = self.lost or error
        while self.waiting:
            future = self.waiting.popleft().future
            if not future.done():
                future.set_exception(error)
        self.tell_emptied()
        if self.transport is not None:
            self.transport.abort()

    def tell_emptied(self):
        if self.emptied is not None and not self.waiting and not self.emptied.done():
            self.emptied.set_result(None)

    async def finish(self, error, seconds):
        """Ends it, for callers at once; where they may hold something, after the answers, by which it is given back."""
        holds = any(asked.undo is not None for asked in self.waiting)
        for asked in self.waiting:
            if not asked.future.done():
                asked.future.set_exception(error)
        try:
            if holds:
                self.emptied = self.emptied or asyncio.get_running_loop().create_future()
                await asyncio.wait([self.emptied], timeout=seconds)
        finally:
            self.end(error)

    def introduce(self):
        """Goes out before the first command, whose answer comes after those that are passed over."""
        self.unsaid, self.passed_over = introduction()

    def send(self, data, loop, undo=None, begun=None):
        asked = Asked(loop.create_future(), loop.time() if begun is None else begun, undo)
        if self.lost is not None:
            asked.future.set_exception(self.lost)
            return asked
        self.waiting.append(asked)
        self.transport.write(self.unsaid + data)
        self.unsaid = b""
        return asked


def nothing():
    return None


class Place:
    """What there is in one loop: the wire for new calls, the task that makes it, and wires on which a call is overdue.

    References are weak: each of these holds its loop, and no limiter may keep one that has ended. While a loop runs it
    holds them itself, a wire by its selector, a task by what that waits for."""

    __slots__ = ("wire", "task", "overdue")

    def __init__(self):
        self.wire = self.task = nothing
        self.overdue = []

    def wires(self):
        return [wire for wire in (one() for one in (*self.overdue, self.wire)) if wire is not None]

    def retire(self, wire, loop, error, seconds):
        """New calls get another one. It ends when nobody can wait for it any more: they all have begun by now."""
        if not wire.overdue:
            wire.overdue, self.wire = True, nothing
            self.overdue = [weakref.ref(one) for one in (*self.wires(), wire) if one.lost is None]
            loop.call_later(seconds, wire.end, error)

    def stop(self):
        """No new wire is made."""
        task = self.task()
        if task is not None:
            task.cancel()

    def end(self, error):
        self.stop()
        for wire in self.wires():
            wire.end(error)


class Wires:
    """The wire of each loop, made when it is needed, and made anew when it broke or an answer on it is overdue."""

    def __init__(self, address, timeout):
        self.address, self.timeout = address, timeout
        self.places, self.closed = weakref.WeakKeyDictionary(), False

    async def call(self, data, undo=None):
        if self.closed:
            raise SluiceError("closed", "the limiter is closed")
        loop = asyncio.get_running_loop()
        place = self.places.get(loop) or self.place_of(loop)
        wire = place.wire()
        begun = sent = loop.time()
        if wire is None or wire.lost is not None or wire.transport.is_closing():
            wire = await self.connected(loop, place)
            sent = loop.time()
        asked = wire.send(data, loop, undo, sent)
        try:
            return await asyncio.wait_for(asked.future, max(0.0, self.timeout - (loop.time() - begun)))
        except asyncio.TimeoutError as error:
            wire.give_up(asked)
            if wire.waiting and wire.waiting[0].begun <= begun:  # not for a time that went into connecting
                place.retire(wire, loop, away(self.address, NO_ANSWER), self.timeout)
            raise away(self.address, NO_ANSWER) from error
        except asyncio.CancelledError:
            wire.give_up(asked)
            raise

    def place_of(self, loop):
        """That of a new loop. What is left of loops that were closed meanwhile is closed here: a limiter may serve a
        loop for each task or request, and a garbage collector comes late."""
        for one in self.loops():
            if one.is_closed():
                self.forget(one)
        return self.places.setdefault(loop, Place())

    def loops(self):
        return [loop for loop in (one() for one in self.places.keyrefs()) if loop is not None]

    def forget(self, loop):
        """One that was closed. Its transports can't close any more, for they do that in their loop."""
        for wire in self.places.pop(loop, Place()).wires():
            wire.socket.close()

    async def connected(self, loop, place):
        """One connection is made at a time; others wait for the same."""
        task = place.task()
        if task is None or task.done():
            task = asyncio.ensure_future(self.connect(loop, place))
            task.add_done_callback(lambda task: task.cancelled() or task.exception())
            place.task = weakref.ref(task)
        try:
            return await asyncio.wait_for(asyncio.shield(task), self.timeout)
        except asyncio.TimeoutError as error:
            raise away(self.address, NO_CONNECTION) from error
        except asyncio.CancelledError:
            if self.closed and task.cancelled():
                raise away(self.address, CLOSED) from None
            raise

    async def connect(self, loop, place):
        address = self.address
        try:
            wire = await asyncio.wait_for(self.made(loop), self.timeout)
        except asyncio.TimeoutError as error:
            raise away(address, NO_CONNECTION) from error
        except OSError as error:
            raise away(address, error) from error
        try:
            for said in address.greetings():
                await asyncio.wait_for(wire.send(said, loop).future, self.timeout)
        except asyncio.TimeoutError as error:
            wire.end(away(address, NO_ANSWER))
            raise away(address, NO_ANSWER) from error
        except BaseException:
            wire.transport.abort()
            raise
        wire.introduce()
        place.wire = weakref.ref(wire)
        return wire

    async def made(self, loop):
        """Of a socket of ours, which can be closed when its loop no longer can."""
        address = self.address
        sock = await reached_in(loop, address, loop.time() + self.timeout)
        if address.path:
            return (await loop.create_unix_connection(lambda: Wire(address, sock), sock=sock))[1]
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        named = {"ssl": address.tls, "server_hostname": address.host} if address.tls else {}
        return (await loop.create_connection(lambda: Wire(address, sock), sock=sock, **named))[1]

    async def close(self):
        self.closed, error, mine = True, away(self.address, CLOSED), asyncio.get_running_loop()
        for loop in self.loops():
            if loop.is_closed():
                self.forget(loop)
            elif loop is not mine:
                with contextlib.suppress(RuntimeError):  # closed meanwhile
                    loop.call_soon_threadsafe(self.places[loop].end, error)
        place = self.places.get(mine, Place())
        place.stop()
        await asyncio.gather(*(wire.finish(error, self.timeout) for wire in place.wires()))
