"""Rate limits that are exact, in this process, shared by the processes of a host, or at a server.

    >>> import sluice
    >>> limiter = sluice.Limiter("memory")
    >>> [limiter.check("ann", "2/1d").allowed for _ in range(3)]
    [True, True, False]

What limits there are, and what each of them promises: docs/limits.md of Sluice.
"""
import importlib

from ._errors import Limited, SluiceError

__all__ = ["AsyncLimiter", "Limited", "Limiter", "Result", "SluiceError", "forget", "__version__"]

# The extension is loaded by what needs it: sluice.client is plain Python.
_LATER = {"AsyncLimiter": "._limiter", "Limiter": "._limiter", "forget": "._limiter", "Result": "._core",
          "__version__": "._core"}


def __getattr__(name):
    if name not in _LATER:
        raise AttributeError(f"module 'sluice' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LATER[name], __name__), "version" if name == "__version__" else name)
    globals()[name] = value
    return value


def __dir__():
    return sorted(set(globals()) | set(_LATER))
