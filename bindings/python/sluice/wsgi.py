"""WSGI middleware, for Flask, Django, Pyramid and others:

    app.wsgi_app = sluice.wsgi.RateLimit(app.wsgi_app, limits="100/1m", store="shared:api")

Options: see sluice._web. A denied request never reaches the application: 429, application/problem+json, Retry-After.
"""
import urllib.parse

from . import _web
from ._limiter import Limiter

__doc__ += _web.__doc__
__all__ = ["RateLimit"]


class RateLimit:
    def __init__(self, app, **options):
        self.app = app
        self.guard = _web.Guard(Limiter, **options)

    def __call__(self, environ, start_response):
        question = self.guard.question(request_of(environ))
        if question is None:
            return self.app(environ, start_response)
        method, args, words = question
        result = getattr(self.guard.limiter, method)(*args, **words)
        environ["sluice.result"] = result
        if not result.allowed:
            headers, body = self.guard.denial(result)
            start_response("429 Too Many Requests", headers)
            return [body if environ["REQUEST_METHOD"] != "HEAD" else b""]
        more = self.guard.headers_of(result)

        def start_with_headers(status, headers, exc_info=None):
            return start_response(status, [*headers, *more], *([exc_info] if exc_info else []))
        if result.id is None:
            return self.app(environ, start_with_headers)
        return self.held(environ, start_with_headers, result)

    def held(self, environ, start_response, result):
        """A lease lasts as long as the answer is sent."""
        try:
            body = self.app(environ, start_response)
        except BaseException:
            self.guard.limiter.release("*", None, result.id)
            raise
        return Held(body, lambda: self.guard.limiter.release("*", None, result.id))


class Held:
    def __init__(self, body, release):
        self.body, self.items, self.release = body, iter(body), release

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.items)

    def close(self):
        try:
            if hasattr(self.body, "close"):
                self.body.close()
        finally:
            self.release()


def request_of(environ):
    def headers(name):
        value = environ.get("HTTP_" + name.upper().replace("-", "_"))
        return () if value is None else (value,)
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    path = urllib.parse.quote(path.encode("latin-1")) or "/"
    return _web.Request(environ["REQUEST_METHOD"], path, environ.get("HTTP_HOST") or environ.get("SERVER_NAME"),
                        environ.get("REMOTE_ADDR") or None, headers, environ)
