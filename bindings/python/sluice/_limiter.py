"""Limiter and AsyncLimiter: the same calls, in process or at a server."""
import asyncio
import contextlib
import functools
import re

from . import _core, _resp
from ._errors import Limited, SluiceError

ON_ERROR = {"throw": 0, "allow": 1, "deny": 2}
# What decides: of these `on_error` can say what a request gets.
DECIDING = ("check", "peek", "acquire", "reserve", "admit")
# What may hold something; with an id of the caller's own it is his to give back, or to ask again.
HOLDING = ("acquire", "reserve", "admit")
OUTAGES = ("away", "busy", "full")
# What says by EACH whether it was charged before under its id.
REPEATING = ("check", "acquire", "reserve")
# Bits of what encode() says of a command; and one of ours: EACH was said for the sake of `repeated` alone.
UPTO, NEXT, EACH, UNASKED = 1, 2, 4, 8
TICKET = re.compile("[0-9a-f]{16}[.]")  # by its form: as sl_ticket_is() in src/proto/ticket.c
AGAIN_SECONDS = 0.002  # between two looks whether a process that was stopped has moved


def _on_error(word):
    if word not in ON_ERROR:
        raise ValueError(f"on_error {word!r}: expected throw, allow or deny")
    return ON_ERROR[word]


def _is_url(store):
    return isinstance(store, str) and ("://" in store or store.startswith("unix:"))


def forget(name):
    """Removes shared memory of this name; processes that have it open go on with it."""
    _core.forget(name)


class Limiter:
    """A store, and what can be asked of it.

    store     ``memory`` of this process, ``shared:NAME`` for the processes of this host, the path of a file, or
              ``redis://[user:password@]host[:port]``: a Sluice server, or Redis or Valkey with the module
              (``rediss://`` with TLS; ``sluice://`` is the same as ``redis://``, port 7379; ``unix:/path``)
    memory    of a new store: ``64MiB`` unless said
    policy    a policy's YAML, or the path of its file: for admit(), in process
    clock     a callable: Unix milliseconds. For tests; over RESP the server must say ``client-time: true``
    timeout   ms that a call over RESP may take in all; in process, ms that one by AsyncLimiter is put off for a process
              that was stopped with a lock in hand (Limiter waits 10 s, once)
    on_error  what a request gets that can't be decided (away, busy, full): ``throw``, ``allow`` or ``deny``
    tls       an ``ssl.SSLContext`` for rediss://, instead of the system's certificates

    Results are true where a request is allowed; all waits are whole milliseconds, -1 is never. A denial is a Result,
    and what fails is a SluiceError. Any thread may call; after fork() the child may go on with it.
    """

    __slots__ = ()

    def __new__(cls, store="memory", **options):
        if cls is Limiter:
            cls = RemoteLimiter if _is_url(store) else LocalLimiter
        return super().__new__(cls)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    @contextlib.contextmanager
    def lease(self, key, limits, cost=1, *, id=None):
        """Holds a lease for as long as the block runs; raises Limited where it is denied.

            with limiter.lease("reports", "concurrency 20 lease 30s"):
                ...
        """
        result = self.acquire(key, limits, cost, id=id)
        if not result.allowed:
            raise Limited(result)
        try:
            yield result
        finally:
            if result.id is not None:
                self.release(key, limits, result.id)


class LocalLimiter(_core.Limiter, Limiter):
    """In process: its calls are those of the extension."""

    __slots__ = ()

    def __init__(self, store="memory", *, memory=None, policy=None, clock=None, timeout=100, on_error="throw",
                 tls=None):
        if isinstance(memory, int):
            memory = str(memory)
        _core.open(self, store, memory, policy, clock, _on_error(on_error), timeout, False)


def _is_own(limits, id):
    """Whether a reservation's id is the caller's own, of which limits make a ticket."""
    text = id.decode("latin-1") if isinstance(id, bytes) else id
    return limits is not None and not (isinstance(text, str) and TICKET.match(text))


def _ticket(key, limits, id):
    """That of a reservation under this id; None where only the server knows a limit: policy:NAME."""
    try:
        return _core.ticket(key, limits, id)
    except SluiceError:
        return None


def _without_each(shape):
    operation, _, limits, args, id = shape
    return operation, 0, limits, args, id


class _Remote:
    """What both faces over RESP share: commands, and what is made of their answers."""

    __slots__ = ()

    def _encode(self, operation, args, named):
        """The command, what is to be known of it to read its answer, and its `undo`."""
        named = dict(named)
        unnamed = operation in HOLDING and named.get("id") is None
        if unnamed and operation != "admit":
            named["id"] = _core.make_id()  # so that it can be given back if the answer is lost
        unasked = operation in REPEATING and not unnamed and named.get("id") is not None and not named.get("each")
        if unasked:
            named["each"] = True
        if operation == "commit" and len(args) == 4 and _is_own(args[1], args[2]):
            args = (args[0], args[1], _core.ticket(*args[:3]), args[3])
        command, given, limits = _core.encode(operation, self._clock, *args, **named)
        if unasked and operation == "reserve" and _ticket(args[0], limits, named["id"]) is None:
            unasked, named["each"] = False, None  # RESERVE tells no ticket beside EACH
            command, given, limits = _core.encode(operation, self._clock, args[0], limits, *args[2:], **named)
        shape = (operation, given | UNASKED if unasked else given, limits, args, named.get("id"))
        return command, shape, functools.partial(self._undo, shape, named) if unnamed else None

    def _for_ticket(self, reply, shape, named, unnamed):
        """RESERVE tells no ticket beside EACH, and only the server can make that of `policy:NAME`: the command that is
        asked again under its id, which charges nothing and says it, and its `undo`; or None."""
        operation, given, limits, args, id = shape
        if operation != "reserve" or not given & EACH or self._told(reply, shape).id is None \
                or _ticket(args[0], limits, id) is not None:
            return None
        ttl = {"ttl": named["ttl"]} if "ttl" in named else {}
        command = _core.encode(operation, self._clock, args[0], limits, *args[2:], id=id, **ttl)[0]
        return command, functools.partial(self._undo, _without_each(shape), named) if unnamed else None

    def _with_ticket(self, reply, shape):
        return (*shape[:4], self._told(reply, _without_each(shape)).id)

    def _undo(self, shape, named, answer):
        """Gives back what is held by an id of ours; that of admit(), and of a reservation by `policy:NAME`, is a
        ticket, which stands in the answer."""
        operation, _, limits, args, id = shape
        try:
            if operation == "acquire":
                return _core.encode("release", self._clock, args[0], limits, id)[0], None
            again = None if answer is None else self._for_ticket(answer, shape, named, True)
            if again is not None:
                return again
            ticket = _ticket(args[0], limits, id) if operation == "reserve" else None
            if ticket is None and answer is not None:
                ticket = self._told(answer, shape).id
            if ticket is None:
                return None
            if operation == "reserve":
                return _core.encode("commit", self._clock, args[0], None, ticket, 0)[0], None
            return _core.encode("release", self._clock, "*", None, ticket)[0], None
        except SluiceError:
            return None

    def _failed(self, error, shape):
        if self._on_error == 0 or error.code not in OUTAGES or shape[0] not in DECIDING:
            raise error
        return _core.fallback(self._on_error == 1, shape[2], shape[1] & EACH and not shape[1] & UNASKED)

    @staticmethod
    def _told(reply, shape):
        operation, given, limits, args, id = shape
        try:
            if operation in ("reset", "release", "renew"):
                return int(reply)
            if given & EACH and operation != "admit":
                return _each(operation, given, reply, limits, args, id)
            return _one(operation, given, reply, limits, args, id)
        except (TypeError, ValueError, IndexError) as error:
            raise SluiceError("protocol", f"an answer that can't be understood: {reply!r}") from error


def _text(value):
    return value.decode() if isinstance(value, bytes) else value


def _one(operation, given, reply, limits, args, said):
    numbers, rest = tuple(reply[:7]), reply[7:]
    name = id = each = None
    granted = _granted(operation, args) if numbers[0] else 0
    opened = False
    if operation == "admit":
        name, opened = _text(rest.pop(0)), bool(rest.pop())
        limits = None
    if given & EACH:
        each = tuple(_core.told(_text(row[0]), _text(row[1]), tuple(row[2:9]), *row[9:]) for row in rest.pop())
        next_after = _next_after(each)
    else:
        next_after = rest.pop() if given & NEXT else 0
    if given & UPTO:
        granted = rest.pop(0)
    if operation in ("acquire", "reserve") or (operation == "admit" and rest):
        id = _text(rest.pop(0))
    if operation == "reserve" and id is not None:
        id = _ticket(args[0], limits, said) or id  # the server's is of the first limit's key
    if rest or len(numbers) != 7:
        raise ValueError("other elements than were asked for")
    return _core.result(limits, name, numbers, next_after, granted, False, id, opened, each)


def _next_after(each):
    """Of all limits of a policy: as sl_merge_next() in src/algo/merge.h."""
    parts = [one for one in each if not one.observed and one.rule != "unlimited"]
    least = min((one.remaining for one in parts), default=0)
    waits = [one.next_after for one in parts if one.remaining == least]
    return 0 if not waits or 0 in waits else -1 if -1 in waits else max(waits)


def _granted(operation, args):
    """To an allowed call of which nothing else is told."""
    if operation in ("refund", "commit"):
        return 0
    cost = args[1:] if operation == "admit" else args[2:]
    return cost[0] if cost else 1


def _each(operation, given, reply, limits, args, id):
    more = None
    if len(reply[-1]) == 3:
        *reply, more = reply
    allowed = all(row[0] & 1 for row in reply)
    granted, repeated, _ = more or (_granted(operation, args) if allowed else 0, 0, 0)
    held = None
    if operation in ("acquire", "reserve") and allowed and (granted or repeated):
        held = _text(id) if operation == "acquire" else _ticket(args[0], limits, id) or id
    result = _core.merge(limits, reply, granted, bool(repeated), held, given & NEXT != 0, not given & UNASKED)
    if operation == "reserve" and result.index < 0:  # unlimited: nothing is reserved
        return _core.merge(limits, reply, granted, bool(repeated), None, given & NEXT != 0, not given & UNASKED)
    return result


def _holders_command(clock, key, limit):
    said = [] if clock is None else ["AT", str(int(clock()))]
    try:
        return _resp.command("SLUICE.HOLDERS", key, *said, limit)
    except (AttributeError, UnicodeEncodeError):
        raise TypeError("holders(): expected a key and a limit, str or bytes") from None


def _holders(reply):
    try:
        return [(_text(id), int(cost), int(ends_after)) for id, cost, ends_after in reply]
    except (TypeError, ValueError) as error:
        raise SluiceError("protocol", f"an answer that can't be understood: {reply!r}") from error


class RemoteLimiter(_Remote, Limiter):
    """At a server, over RESP. Each thread that calls has a connection of its own for that time."""

    __slots__ = ("_pool", "_clock", "_on_error")

    def __init__(self, store, *, memory=None, policy=None, clock=None, timeout=100, on_error="throw", tls=None):
        _refuse_here(memory, policy)
        self._clock, self._on_error = clock, _on_error(on_error)
        self._pool = _resp.Pool(_resp.Address(store, tls), timeout / 1000)

    def _ask(self, operation, *args, **named):
        args, named = _sorted(operation, args, named)
        command, shape, undo = self._encode(operation, args, named)
        try:
            reply = self._pool.call(command, undo)
            again = self._for_ticket(reply, shape, named, undo is not None)
            if again is not None:
                shape = self._with_ticket(self._pool.call(*again), shape)
            return self._told(reply, shape)
        except SluiceError as error:
            return self._failed(error, shape)

    def check(self, *args, **named):
        return self._ask("check", *args, **named)

    def peek(self, *args, **named):
        return self._ask("peek", *args, **named)

    def refund(self, *args, **named):
        return self._ask("refund", *args, **named)

    def reset(self, *args, **named):
        return self._ask("reset", *args, **named)

    def acquire(self, *args, **named):
        return self._ask("acquire", *args, **named)

    def release(self, *args, **named):
        return self._ask("release", *args, **named)

    def renew(self, *args, **named):
        return self._ask("renew", *args, **named)

    def reserve(self, *args, **named):
        return self._ask("reserve", *args, **named)

    def commit(self, *args, **named):
        return self._ask("commit", *args, **named)

    def admit(self, *args, **named):
        return self._ask("admit", *args, **named)

    def holders(self, key, limit):
        return _holders(self._pool.call(_holders_command(self._clock, key, limit)))

    def reload(self, policy):
        raise SluiceError("bad-argument", "the policy is the server's: SLUICE.RELOAD")

    def close(self):
        self._pool.close()


def _refuse_here(memory, policy):
    if memory is not None or policy is not None:
        raise SluiceError("bad-argument", "memory and policy are the server's")


POSITIONS = {"admit": ("attributes", "cost"), "release": ("key", "limits", "id"), "renew": ("key", "limits", "id"),
             "reset": ("key", "limits"), "commit": ("key", "limits", "id", "cost")}


def _sorted(operation, args, named):
    """Arguments by position as far as they go, whichever way they were given."""
    if not named:
        return args, named
    names = POSITIONS.get(operation, ("key", "limits", "cost"))
    args, named = list(args), dict(named)
    for name in names[len(args):]:
        if name not in named:
            break
        args.append(named.pop(name))
    return tuple(args), named


class AsyncLimiter:
    """Limiter for asyncio: the same arguments, calls that are awaited.

    In process a call is decided at once, without a thread. Over RESP all calls of a loop share one connection, and are
    under way together.
    """

    def __new__(cls, store="memory", **options):
        if cls is AsyncLimiter:
            cls = AsyncRemoteLimiter if _is_url(store) else AsyncLocalLimiter
        return super().__new__(cls)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *unused):
        await self.aclose()

    @contextlib.asynccontextmanager
    async def lease(self, key, limits, cost=1, *, id=None):
        """As Limiter.lease(): ``async with limiter.lease(..)``."""
        result = await self.acquire(key, limits, cost, id=id)
        if not result.allowed:
            raise Limited(result)
        try:
            yield result
        finally:
            if result.id is not None:
                await self.release(key, limits, result.id)


class _LoopsLimiter(LocalLimiter):
    """In process, for a loop: what another process holds up now is None."""

    __slots__ = ()

    def __init__(self, store, *, memory, policy, clock, timeout, on_error):
        if isinstance(memory, int):
            memory = str(memory)
        _core.open(self, store, memory, policy, clock, _on_error(on_error), timeout, True)


class AsyncLocalLimiter(AsyncLimiter):
    def __init__(self, store="memory", *, memory=None, policy=None, clock=None, timeout=100, on_error="throw",
                 tls=None):
        self._limiter = _LoopsLimiter(store, memory=memory, policy=policy, clock=clock, timeout=timeout,
                                      on_error=on_error)
        self._timeout = timeout / 1000

    async def _insist(self, operation, args, named):
        """Asks again until it is decided, while the loop goes on; and for the last time."""
        end = asyncio.get_running_loop().time() + self._timeout
        while asyncio.get_running_loop().time() < end:
            await asyncio.sleep(AGAIN_SECONDS)
            told = getattr(self._limiter, operation)(*args, **named)
            if told is not None:
                return told
        return _core.last(self._limiter, operation, *args, **named)

    async def check(self, *args, **named):
        told = self._limiter.check(*args, **named)
        return await self._insist("check", args, named) if told is None else told

    async def peek(self, *args, **named):
        told = self._limiter.peek(*args, **named)
        return await self._insist("peek", args, named) if told is None else told

    async def refund(self, *args, **named):
        told = self._limiter.refund(*args, **named)
        return await self._insist("refund", args, named) if told is None else told

    async def reset(self, *args, **named):
        told = self._limiter.reset(*args, **named)
        return await self._insist("reset", args, named) if told is None else told

    async def acquire(self, *args, **named):
        told = self._limiter.acquire(*args, **named)
        return await self._insist("acquire", args, named) if told is None else told

    async def release(self, *args, **named):
        told = self._limiter.release(*args, **named)
        return await self._insist("release", args, named) if told is None else told

    async def renew(self, *args, **named):
        told = self._limiter.renew(*args, **named)
        return await self._insist("renew", args, named) if told is None else told

    async def reserve(self, *args, **named):
        told = self._limiter.reserve(*args, **named)
        return await self._insist("reserve", args, named) if told is None else told

    async def commit(self, *args, **named):
        told = self._limiter.commit(*args, **named)
        return await self._insist("commit", args, named) if told is None else told

    async def admit(self, *args, **named):
        told = self._limiter.admit(*args, **named)
        return await self._insist("admit", args, named) if told is None else told

    async def holders(self, key, limit):
        return self._limiter.holders(key, limit)

    async def counters(self):
        return self._limiter.counters()

    async def reload(self, policy):
        self._limiter.reload(policy)

    async def aclose(self):
        self._limiter.close()


class AsyncRemoteLimiter(_Remote, AsyncLimiter):
    def __init__(self, store, *, memory=None, policy=None, clock=None, timeout=100, on_error="throw", tls=None):
        _refuse_here(memory, policy)
        self._clock, self._on_error = clock, _on_error(on_error)
        self._wires = _resp.Wires(_resp.Address(store, tls), timeout / 1000)

    async def _ask(self, operation, *args, **named):
        args, named = _sorted(operation, args, named)
        command, shape, undo = self._encode(operation, args, named)
        try:
            reply = await self._wires.call(command, undo)
            again = self._for_ticket(reply, shape, named, undo is not None)
            if again is not None:
                shape = self._with_ticket(await self._wires.call(*again), shape)
            return self._told(reply, shape)
        except SluiceError as error:
            return self._failed(error, shape)

    async def check(self, *args, **named):
        return await self._ask("check", *args, **named)

    async def peek(self, *args, **named):
        return await self._ask("peek", *args, **named)

    async def refund(self, *args, **named):
        return await self._ask("refund", *args, **named)

    async def reset(self, *args, **named):
        return await self._ask("reset", *args, **named)

    async def acquire(self, *args, **named):
        return await self._ask("acquire", *args, **named)

    async def release(self, *args, **named):
        return await self._ask("release", *args, **named)

    async def renew(self, *args, **named):
        return await self._ask("renew", *args, **named)

    async def reserve(self, *args, **named):
        return await self._ask("reserve", *args, **named)

    async def commit(self, *args, **named):
        return await self._ask("commit", *args, **named)

    async def admit(self, *args, **named):
        return await self._ask("admit", *args, **named)

    async def holders(self, key, limit):
        return _holders(await self._wires.call(_holders_command(self._clock, key, limit)))

    async def reload(self, policy):
        raise SluiceError("bad-argument", "the policy is the server's: SLUICE.RELOAD")

    async def aclose(self):
        await self._wires.close()
