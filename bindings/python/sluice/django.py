"""Django middleware, for synchronous and asynchronous Django:

    MIDDLEWARE = ["sluice.django.RateLimit", ...]
    SLUICE = {"limits": "100/1m", "store": "shared:api"}

SLUICE has the options of sluice._web, texts that name a callable (``"key": "shop.limits.key_of"``) among them. A denied
request reaches no view: 429, application/problem+json, Retry-After. The result is ``request.rate_limit``.
"""
import asyncio

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
        method, args, words = question
        request.rate_limit = result = getattr(guard.limiter, method)(*args, **words)
        if not result.allowed:
            return denied(guard, result)
        try:
            return told(get_response(request), guard, result)
        finally:
            if result.id is not None:
                guard.limiter.release("*", None, result.id)
    return middleware


def asynchronous(get_response, guard):
    async def middleware(request):
        question = guard.question(request_of(request))
        if question is None:
            return await get_response(request)
        method, args, words = question
        request.rate_limit = result = await getattr(guard.limiter, method)(*args, **words)
        if not result.allowed:
            return denied(guard, result)
        try:
            return told(await get_response(request), guard, result)
        finally:
            if result.id is not None:
                await guard.limiter.release("*", None, result.id)
    return middleware


def denied(guard, result):
    headers, body = guard.denial(result)
    response = HttpResponse(body, status=429)
    for name, value in headers:
        response[name] = value
    return response


def told(response, guard, result):
    for name, value in guard.headers_of(result):
        response[name] = value
    return response


def request_of(request):
    seen = wsgi.request_of(request.META) if "REQUEST_METHOD" in request.META else None
    if seen is None:
        raise TypeError("a request without META: expected one of Django's handlers")
    seen.path = request.get_full_path()
    seen.raw = request
    return seen
