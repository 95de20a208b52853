"""ASGI middleware, for FastAPI, Starlette and others:

    app.add_middleware(sluice.asgi.RateLimit, limits="100/1m", store="shared:api")

Options: see sluice._web. A denied request never reaches the application: 429, or 503
where the store could not answer and on_error is `deny`, application/problem+json, Retry-After.
"""
import asyncio

from . import _web
from ._limiter import AsyncLimiter

__doc__ += _web.__doc__
__all__ = ["RateLimit"]
BODIES = ("http.response.body", "http.response.zerocopysend", "http.response.pathsend")


class RateLimit:
    def __init__(self, app, **options):
        self.app = app
        self.guard = _web.Guard(AsyncLimiter, **options)

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        question = self.guard.question(request_of(scope))
        if question is None:
            await self.app(scope, receive, send)
            return
        result = await self.guard.aask(question)
        scope.setdefault("state", {})["rate_limit"] = result
        if not result.allowed:
            status, headers, body = self.guard.denial(result)
            await send({"type": "http.response.start", "status": status, "headers": encoded(headers)})
            await send({"type": "http.response.body", "body": body if scope["method"] != "HEAD" else b""})
            return
        more = encoded(self.guard.headers_of(result))
        lease = self.guard.lease_of(question, result)

        async def send_with_headers(message):
            if message["type"] == "http.response.start" and more:
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)
            if lease and message["type"] in BODIES and not message.get("more_body"):
                await lease.aend()  # the application may go on, with background tasks
        try:
            if result.delay:
                await asyncio.sleep(result.delay / 1000)
            await self.app(scope, receive, send_with_headers)
        finally:
            await lease.aend()


def encoded(headers):
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]


def request_of(scope):
    lines = {}
    for name, value in scope["headers"]:
        lines.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    path = scope.get("raw_path") or _web.quoted(scope["path"])
    client = scope.get("client")
    return _web.Request(scope["method"], path, _web.first(lines.get("host")), client[0] if client else None,
                        lambda name: lines.get(name, ()), scope)
