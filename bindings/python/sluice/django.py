"""Django middleware, for synchronous and asynchronous Django:

    MIDDLEWARE = ["sluice.django.RateLimit", ...]
    SLUICE = {"limits": "100/1m", "store": "shared:api"}

SLUICE has the options of sluice._web, texts that name a callable (``"key": "shop.limits.key_of"``) among them. A denied
request reaches no view: 429, or 503 where the store could not answer and on_error is `deny`, application/problem+json,
Retry-After. The result is ``request.rate_limit``.
"""
import asyncio
import time

from django.conf import settings
from django.http import HttpResponse
from django.utils.decorators import sync_and_async_middleware
from django.utils.module_loading import import_string

from . import _web, wsgi
from ._limiter import AsyncLimiter, Limiter

__doc__ += _web.__doc__
__all__ = ["RateLimit"]
CALLABLE = ("limits", "key", "attributes", "cost")


def options():
    """The settings, with callables in place of their names."""
    said = dict(getattr(settings, "SLUICE", {}))
    for name in CALLABLE:
        if isinstance(said.get(name), str) and "." in said[name] and "/" not in said[name] and " " not in said[name]:
            said[name] = import_string(said[name])
    return said


@sync_and_async_middleware
def RateLimit(get_response):
    if asyncio.iscoroutinefunction(get_response):
        return asynchronous(get_response, _web.Guard(AsyncLimiter, **options()))
    return synchronous(get_response, _web.Guard(Limiter, **options()))


def synchronous(get_response, guard):
    def middleware(request):
        question = guard.question(request_of(request))
        if question is None:
            return get_response(request)
        request.rate_limit = result = guard.ask(question)
        if not result.allowed:
            return denied(guard, result)
        lease = guard.lease_of(question, result)
        try:
            if result.delay:
                time.sleep(result.delay / 1000)
            response, lease = handed_on(told(get_response(request), guard, result), lease)
            return response
        finally:
            if lease:
                lease.end()
    return middleware


def asynchronous(get_response, guard):
    async def middleware(request):
        question = guard.question(request_of(request))
        if question is None:
            return await get_response(request)
        request.rate_limit = result = await guard.aask(question)
        if not result.allowed:
            return denied(guard, result)
        lease = guard.lease_of(question, result)
        try:
            if result.delay:
                await asyncio.sleep(result.delay / 1000)
            response, lease = handed_on(told(await get_response(request), guard, result), lease)
            return response
        finally:
            if lease:
                await lease.aend()
    return middleware


class HeldAsync:
    """wsgi.Held for a loop. Django closes it in another thread."""

    def __init__(self, body, lease):
        self.items, self.lease = body.__aiter__(), lease

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            return await self.items.__anext__()
        except BaseException:
            await self.lease.aend()
            raise

    def close(self):
        self.lease.end()


def denied(guard, result):
    status, headers, body = guard.denial(result)
    response = HttpResponse(body, status=status)
    for name, value in headers:
        response[name] = value
    return response


def told(response, guard, result):
    for name, value in guard.headers_of(result):
        response[name] = value
    return response


def handed_on(response, lease):
    """The response, and what is left to end here: a body that is streamed takes the lease along."""
    if not lease or not response.streaming:
        return response, lease
    held = HeldAsync if getattr(response, "is_async", False) else wsgi.Held
    response.streaming_content = held(response.streaming_content, lease)
    return response, None


def request_of(request):
    if "REQUEST_METHOD" not in request.META:
        raise TypeError("a request without META: expected one of Django's handlers")
    return wsgi.of_environ(request.META, _web.quoted(request.path), request)
