"""Storages for ``limits``, and with it for flask-limiter, slowapi and others: by a URL, after ``import sluice.limits``.

    sluice+memory://            this process
    sluice+shared://NAME        all processes of this host, without a server
    sluice+file:///PATH         the same, in a file that outlasts a restart
    sluice://HOST:PORT          a Sluice server, or Redis or Valkey with the module; sluice+tls:// with TLS
    async+sluice...             the same for limits.aio

What ``limits`` asks for is counted by these:

    moving-window            by `sliding-log AMOUNT/TIME`: exact
    sliding-window-counter   by `sliding-window AMOUNT/TIME`: never above the amount by rounding, where the storages of
                             limits round the count down, and so admit where a share of a request is free
    fixed-window             by `fixed-window ../TIME`: windows are those of the clock, as limits' memcached has them: a
                             minute begins with the minute, not with the first request

A storage is not asked by a limit where it only knows a key: the key that ``limits`` makes says its window, and other
keys are known from the call that counted them, in the same process.
"""
import collections
import functools
import math
import time
import urllib.parse

from limits import aio, storage
from limits.storage.base import TimestampedSlidingWindow

from ._errors import SluiceError
from ._limiter import AsyncLimiter, Limiter

COUNT_MAX = 2 ** 32 - 1
EXPIRIES_MAX = 10_000  # keys whose window is remembered, where they don't say it
SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "month": 86400 * 30, "year": 86400 * 30 * 12}


def _said(key):
    """What a key that limits makes says of its limit: the amount, and its window in seconds; else None."""
    parts = key.rsplit("/", 3)
    if len(parts) == 4 and parts[3] in SECONDS and parts[1].isdigit() and parts[2].isdigit():
        return int(parts[1]), int(parts[2]) * SECONDS[parts[3]]
    return None


def _store(uri):
    """Our store for a URL of limits."""
    parts = urllib.parse.urlsplit(uri)
    kind = parts.scheme.replace("async+", "")
    if kind == "sluice+memory":
        return "memory"
    if kind == "sluice+shared":
        return f"shared:{parts.netloc or parts.path.strip('/')}"
    if kind == "sluice+file":
        return urllib.parse.unquote(parts.path)
    scheme = {"sluice+tls": "rediss", "sluice+unix": "unix"}.get(kind, "sluice")
    return urllib.parse.urlunsplit((scheme,) + tuple(parts[1:]))


class _Windows:
    """Which limits stand for what limits asks, and what is made of the answers."""

    STORAGE_SCHEME = None

    def _begin(self, uri, key_prefix, options):
        self._uri = uri
        self._prefix = key_prefix
        self._options = {name: options[name] for name in ("memory", "timeout", "tls", "clock") if name in options}
        self._expiries = collections.OrderedDict()

    @property
    def base_exceptions(self):
        return SluiceError

    def _key(self, key):
        return f"{self._prefix}:{key}"

    def _remember(self, key, expiry):
        if _said(key) is None:
            self._expiries[key] = expiry
            self._expiries.move_to_end(key)
            if len(self._expiries) > EXPIRIES_MAX:
                self._expiries.popitem(last=False)

    def _expiry(self, key):
        """The window of a key; None where nothing is known of it, and so nothing counted here."""
        said = _said(key)
        return said[1] if said else self._expiries.get(key)

    @staticmethod
    def _all_of(expiry):
        return (_fixed(expiry), _log(1, expiry), *_pair(1, expiry)[:1])

    @staticmethod
    def _moving(result, limit, expiry):
        now = time.time()
        count = limit - result.remaining
        return (now + result.next_after / 1000 - expiry if count else now), count

    @staticmethod
    def _halves(result, key, expiry):
        """Counts and waits of the window before and of this one."""
        now = time.time()
        left = expiry - now % expiry
        used, current = (one.quota - one.remaining for one in result.each)
        share = max(0, used - current)
        before = math.floor(share * expiry / left + 1e-9)
        said = _said(key)
        if said:
            before = min(before, max(share, said[0]))
        return before, left if before else 0.0, current, left + expiry


def _time(expiry):
    seconds = float(expiry)
    return f"{int(seconds)}s" if seconds.is_integer() else f"{max(1, round(seconds * 1000))}ms"


@functools.lru_cache(1024)
def _fixed(expiry):
    return f"fixed-window {COUNT_MAX}/{_time(expiry)}"


@functools.lru_cache(1024)
def _log(limit, expiry):
    return f"sliding-log {limit}/{_time(expiry)}"


@functools.lru_cache(1024)
def _pair(limit, expiry):
    """A sliding window, and the part of it that this window has."""
    return f"sliding-window {limit}/{_time(expiry)}", _fixed(expiry)


SCHEMES = ["sluice", "sluice+memory", "sluice+shared", "sluice+file", "sluice+tls", "sluice+unix"]


class SluiceStorage(_Windows, storage.Storage, storage.MovingWindowSupport, storage.SlidingWindowCounterSupport,
                    TimestampedSlidingWindow):
    """For ``limits.storage.storage_from_string()``."""

    STORAGE_SCHEME = SCHEMES

    def __init__(self, uri="sluice+memory://", wrap_exceptions=False, key_prefix="LIMITS", **options):
        super().__init__(uri, wrap_exceptions=wrap_exceptions)
        self._begin(uri, key_prefix, options)
        self.limiter = Limiter(_store(uri), **self._options)

    def incr(self, key, expiry, amount=1):
        self._remember(key, expiry)
        result = self.limiter.check(self._key(key), _fixed(expiry), int(amount))
        return result.quota - result.remaining

    def get(self, key):
        expiry = self._expiry(key)
        if expiry is None:
            return 0
        result = self.limiter.peek(self._key(key), _fixed(expiry))
        return result.quota - result.remaining

    def get_expiry(self, key):
        expiry = self._expiry(key)
        if expiry is None:
            return time.time()
        return time.time() + self.limiter.peek(self._key(key), _fixed(expiry)).reset_after / 1000

    def check(self):
        try:
            self.limiter.peek(self._key("check"), "1/1s")
        except SluiceError:
            return False
        return True

    def reset(self):
        if _store(self._uri) != "memory":
            raise NotImplementedError("a store that others share is not emptied: clear() forgets a key")
        count = self.limiter.counters()
        self.limiter.close()
        self._expiries.clear()
        self.limiter = Limiter("memory", **self._options)
        return count

    def clear(self, key):
        expiry = self._expiry(key)
        if expiry is not None:
            self.limiter.reset(self._key(key), self._all_of(expiry))
        self._expiries.pop(key, None)

    def acquire_entry(self, key, limit, expiry, amount=1):
        self._remember(key, expiry)
        return self.limiter.check(self._key(key), _log(limit, expiry), int(amount)).allowed

    def get_moving_window(self, key, limit, expiry):
        result = self.limiter.peek(self._key(key), _log(limit, expiry), next=True)
        return self._moving(result, limit, expiry)

    def acquire_sliding_window_entry(self, key, limit, expiry, amount=1):
        self._remember(key, expiry)
        return self.limiter.check(self._key(key), _pair(limit, expiry), int(amount)).allowed

    def get_sliding_window(self, key, expiry):
        result = self.limiter.peek(self._key(key), _pair(COUNT_MAX, expiry), each=True)
        return self._halves(result, key, expiry)

    def clear_sliding_window(self, key, expiry):
        self.limiter.reset(self._key(key), _pair(1, expiry))


class AsyncSluiceStorage(_Windows, aio.storage.Storage, aio.storage.MovingWindowSupport,
                         aio.storage.SlidingWindowCounterSupport, TimestampedSlidingWindow):
    """For ``storage_from_string("async+sluice...")``."""

    STORAGE_SCHEME = ["async+" + scheme for scheme in SCHEMES]

    def __init__(self, uri="async+sluice+memory://", wrap_exceptions=False, key_prefix="LIMITS", **options):
        super().__init__(uri, wrap_exceptions=wrap_exceptions)
        self._begin(uri, key_prefix, options)
        self.limiter = AsyncLimiter(_store(uri), **self._options)

    async def incr(self, key, expiry, amount=1):
        self._remember(key, expiry)
        result = await self.limiter.check(self._key(key), _fixed(expiry), int(amount))
        return result.quota - result.remaining

    async def get(self, key):
        expiry = self._expiry(key)
        if expiry is None:
            return 0
        result = await self.limiter.peek(self._key(key), _fixed(expiry))
        return result.quota - result.remaining

    async def get_expiry(self, key):
        expiry = self._expiry(key)
        if expiry is None:
            return time.time()
        return time.time() + (await self.limiter.peek(self._key(key), _fixed(expiry))).reset_after / 1000

    async def check(self):
        try:
            await self.limiter.peek(self._key("check"), "1/1s")
        except SluiceError:
            return False
        return True

    async def reset(self):
        if _store(self._uri) != "memory":
            raise NotImplementedError("a store that others share is not emptied: clear() forgets a key")
        count = await self.limiter.counters()
        await self.limiter.aclose()
        self._expiries.clear()
        self.limiter = AsyncLimiter("memory", **self._options)
        return count

    async def clear(self, key):
        expiry = self._expiry(key)
        if expiry is not None:
            await self.limiter.reset(self._key(key), self._all_of(expiry))
        self._expiries.pop(key, None)

    async def acquire_entry(self, key, limit, expiry, amount=1):
        self._remember(key, expiry)
        return (await self.limiter.check(self._key(key), _log(limit, expiry), int(amount))).allowed

    async def get_moving_window(self, key, limit, expiry):
        result = await self.limiter.peek(self._key(key), _log(limit, expiry), next=True)
        return self._moving(result, limit, expiry)

    async def acquire_sliding_window_entry(self, key, limit, expiry, amount=1):
        self._remember(key, expiry)
        return (await self.limiter.check(self._key(key), _pair(limit, expiry), int(amount))).allowed

    async def get_sliding_window(self, key, expiry):
        result = await self.limiter.peek(self._key(key), _pair(COUNT_MAX, expiry), each=True)
        return self._halves(result, key, expiry)

    async def clear_sliding_window(self, key, expiry):
        await self.limiter.reset(self._key(key), _pair(1, expiry))
