"""sluice.client: requests of a good client of any limited API.

    import requests, sluice.client
    session = sluice.client.mount(requests.Session())          # requests
    client = httpx.Client(transport=sluice.client.Transport())    # httpx; AsyncTransport() for AsyncClient
    sluice.client.urlopen("https://api.example.com/things")       # urllib

It reads what servers say of their limits (advice.py), waits as long as they say and a jitter more, spends what is left
at the rate at which it comes back, and gives up within a budget. All requests of one origin share what was learned
(origin.py), in one line by age: after a denial one request knocks, not a hundred. What isn't idempotent is sent once.
Plain Python: neither requests nor httpx has to be there, nor the native part of this package.

What a caller sees: an answer that nothing can improve is returned as it came, a 429 too, if waiting goes beyond the
budget; RateLimitedError, if the request was not sent, since the origin's wait is known to be longer than the budget
(or not again, since that became known after its answer: then `status` is the answer's); and what the library below
raises.
"""

from .advice import Advice, advise
from .exchange import Client, Clock, Exchange
from .gate import RateLimitedError

__all__ = ["Advice", "AsyncTransport", "Client", "Clock", "Exchange", "Opener", "RateLimitedError", "RetryAdapter",
           "Transport", "advise", "mount", "urlopen"]

_ELSEWHERE = {"RetryAdapter": "requests", "mount": "requests", "Transport": "httpx", "AsyncTransport": "httpx",
              "Opener": "urllib"}


def __getattr__(name):
    """What needs another library is imported when it is asked for."""
    if name in _ELSEWHERE:
        import importlib
        return getattr(importlib.import_module("." + _ELSEWHERE[name], __name__), name)
    if name == "urlopen":
        value = globals()["urlopen"] = __getattr__("Opener")().open
        return value
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
