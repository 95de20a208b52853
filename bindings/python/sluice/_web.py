"""What the middlewares have in common: whose request it is, what is asked, and what is answered to a denial.

limits           a limit, a list of them, or a callable of the request that gives either, or None for no limit; a lease
                 of `concurrency` is held until the request is answered, and a request of `leaky-bucket` waits its
                 delay before the application gets it, in WSGI and synchronous Django in the worker's thread
policy           instead: a policy's YAML or the path of its file. Or neither: that of the server which `store` names
key              who is counted by `limits`: `ip` (the default), the name of a header, or a callable of the request
attributes       with a policy: a dict of attribute: header, or a callable of the request that gives a dict
cost             what a request costs, or a callable of the request
store, memory, timeout, tls, on_error   as for Limiter; on_error is `allow` here
limiter          instead of these: a limiter of yours
trusted_proxies  networks whose X-Forwarded-For is believed: loopback if left out; [] (nobody)
forwarded        which header they send: `x-forwarded-for` (the default) or `forwarded`
ipv6_prefix      an IPv6 client counts as his network of so many bits: 64, or what the policy says
headers          `draft10` (the default), `draft7`, `draft6`, `legacy-epoch` (X-RateLimit-*, reset in Unix seconds),
                 `legacy-delta`, or None
"""
import asyncio
import inspect
import json
import time
import urllib.parse

from . import _core
from ._errors import SluiceError

FORMS = {"draft10": 1, "draft7": 2, "draft6": 4, "legacy-epoch": 8, "legacy-delta": 16, None: 0}
LOOPBACK = ("127.0.0.0/8", "::1/128")  # whom the server trusts as well, unless told otherwise
QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded"
REDUCED_CAPACITY = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"


class Request:
    """What is looked at of a request. `path` is what counts at all doors: without query, unreserved characters decoded.
    `headers` gives all values of a name in lower case; `raw` is the framework's. Text is of bytes: Latin-1."""

    __slots__ = ("method", "path", "host", "peer", "headers", "raw", "ip")

    def __init__(self, method, path, host, peer, headers, raw):
        self.method, self.host, self.peer, self.headers, self.raw = method, host, peer, headers, raw
        self.path, self.ip = _core.path(path), None


class Question:
    """The call of the limiter that decides a request."""

    __slots__ = ("method", "args", "words")

    def __init__(self, method, *args):
        self.method, self.args, self.words = method, args, {"each": True}


class Lease:
    """What a request holds while it is answered, if anything. It ends once: by end(), from any thread; by aend(), in
    its loop; or when it is forgotten. One that can't be ended ends by itself."""

    def __init__(self, limiter, *args):
        self.limiter, self.args = limiter, args  # of release()
        try:
            self.loop = asyncio.get_running_loop()
        except RuntimeError:
            self.loop = None

    def __bool__(self):
        return bool(self.args)

    def begin_to_end(self):
        args, self.args = self.args, ()
        return self.limiter.release(*args) if args and not (self.loop and self.loop.is_closed()) else None

    def end(self):
        try:
            ending = self.begin_to_end()
        except SluiceError:
            return
        if inspect.isawaitable(ending):
            asyncio.run_coroutine_threadsafe(ending, self.loop)

    async def aend(self):
        try:
            ending = self.begin_to_end()
            if inspect.isawaitable(ending):
                await ending
        except SluiceError:
            pass

    __del__ = end


class Guard:
    def __init__(self, make, *, limits=None, policy=None, key="ip", attributes=None, cost=1, limiter=None,
                 store="memory", memory=None, timeout=100, tls=None, on_error="allow", trusted_proxies=LOOPBACK,
                 forwarded="x-forwarded-for", ipv6_prefix=None, headers="draft10"):
        if limits is not None and policy is not None:
            raise ValueError("limits or a policy: expected one of them")
        if headers not in FORMS:
            raise ValueError(f"headers {headers!r}: expected one of {', '.join(str(form) for form in FORMS)}")
        if forwarded not in ("x-forwarded-for", "forwarded"):
            raise ValueError(f"forwarded {forwarded!r}: expected x-forwarded-for or forwarded")
        self.limits, self.key, self.attributes, self.cost = limits, key, attributes, cost
        self.forms, self.forwarded = FORMS[headers], forwarded
        if ipv6_prefix is None:
            ipv6_prefix = 128 if limits is None else 64  # a policy groups the address itself
        self.proxies = _core.proxies(json.dumps({"limits": [], "trusted-proxies": list(trusted_proxies),
                                                 "ipv6-prefix": ipv6_prefix}))
        self.limiter = limiter or make(store, memory=memory, policy=policy, timeout=timeout, tls=tls, on_error=on_error)

    def question(self, request):
        """What decides a request; None where nothing does."""
        lines = [line.encode("latin-1", "replace") for line in request.headers(self.forwarded)]
        request.ip = self.proxies.client(request.peer, lines, self.forwarded == "forwarded")
        cost = self.cost(request) if callable(self.cost) else self.cost
        if self.limits is None:
            return Question("admit", self.attributes_of(request), cost)
        limits = self.limits(request) if callable(self.limits) else self.limits
        key = self.key_of(request)
        if limits is None or key is None:
            return None
        limits = (limits,) if isinstance(limits, (str, bytes)) else tuple(limits)
        return Question("acquire" if leased(limits) else "check", key, limits, cost)

    def ask(self, question):
        """The result; of an AsyncLimiter to be awaited."""
        return getattr(self.limiter, question.method)(*question.args, **question.words)

    async def aask(self, question):
        result = self.ask(question)
        return await result if inspect.isawaitable(result) else result

    def lease_of(self, question, result):
        if not result.allowed or result.id is None:
            return Lease(self.limiter)
        if question.method == "admit":
            return Lease(self.limiter, "*", None, result.id)
        key, limits, _ = question.args
        return Lease(self.limiter, key, leased(limits), result.id)

    def key_of(self, request):
        if callable(self.key):
            return self.key(request)
        return request.ip if self.key == "ip" else octets(first(request.headers(self.key.lower())))

    def attributes_of(self, request):
        said = {"method": request.method, "path": octets(request.path), "host": octets(request.host), "ip": request.ip}
        if callable(self.attributes):
            said.update(self.attributes(request))
        elif self.attributes:
            said.update((name, octets(first(request.headers(header.lower()))))
                        for name, header in self.attributes.items())
        return {name: value for name, value in said.items() if value not in (None, "")}

    def headers_of(self, result):
        """The headers of an answer, as pairs."""
        if result.failed_open:
            return [("Sluice-Failed-Open", "1")] if self.forms else []
        forms = self.forms if result.allowed or violated(result) else 0
        return _core.headers(forms, result, int(time.time() * 1000))

    def denial(self, result):
        """Status, headers and body of an answer to a denial: 429, or 503 where the store could not answer."""
        names = violated(result)
        if names:
            status, kind, title, text = 429, QUOTA_EXCEEDED, "Quota Exceeded", detail(result)
        else:
            status, kind, title = 503, REDUCED_CAPACITY, "Temporary Reduced Capacity"
            text, names = "the request could not be decided", [named(result)] if result.limit else []
        body = json.dumps({"type": kind, "title": title, "status": status, "detail": text, "violated-policies": names},
                          separators=(",", ":")).encode()
        return status, [*self.headers_of(result), ("Content-Type", "application/problem+json"),
                        ("Cache-Control", "no-store"), ("Content-Length", str(len(body)))], body


def leased(limits):
    """Those of the limits that are held, not charged."""
    def is_leased(limit):
        text = limit[1] if isinstance(limit, (tuple, list)) and len(limit) > 1 else limit
        return isinstance(text, (str, bytes)) and text[:12] in ("concurrency ", b"concurrency ")
    return [limit for limit in limits if is_leased(limit)]


def quoted(path):
    """Of a path that a server has decoded (text, or its bytes) as clients send it: what may stand in a path stays."""
    return urllib.parse.quote(path, safe="/:@!$&'()*+,;=~").encode()


def first(values):
    return values[0] if values else None


def octets(text):
    """What a text of a request stands for: bytes, where it is not of ASCII, which are not to be encoded again."""
    return text if text is None or text.isascii() else text.encode("latin-1", "replace")


def violated(result):
    """The limits that deny; none where the store could not answer, and on_error or a policy's on-error denies."""
    return [named(one) for one in result.each or () if not one.allowed and not one.observed]


def named(result):
    return result.limit.decode("utf-8", "replace") if isinstance(result.limit, bytes) else result.limit


def detail(result):
    if result.retry_after < 0:
        return f"limit {named(result)}: it can never be admitted, the quota is {result.quota}"
    return f"limit {named(result)} has {result.remaining} left: retry in {result.retry_after} ms"
