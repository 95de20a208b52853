"""WSGI middleware, for Flask, Django, Pyramid and others:

    app.wsgi_app = sluice.wsgi.RateLimit(app.wsgi_app, limits="100/1m", store="shared:api")

Options: see sluice._web. A denied request never reaches the application: 429, or 503
where the store could not answer and on_error is `deny`, application/problem+json, Retry-After.
"""
import http
import time

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
        result = self.guard.ask(question)
        environ["sluice.result"] = result
        if not result.allowed:
            status, headers, body = self.guard.denial(result)
            start_response(f"{status} {http.HTTPStatus(status).phrase}", headers)
            return [body if environ["REQUEST_METHOD"] != "HEAD" else b""]
        more = self.guard.headers_of(result)

        def start_with_headers(status, headers, exc_info=None):
            return start_response(status, [*headers, *more], *([exc_info] if exc_info else []))
        lease = self.guard.lease_of(question, result)
        try:
            if result.delay:
                time.sleep(result.delay / 1000)
            body = self.app(environ, start_with_headers)
            return Held(body, lease) if lease else body
        except BaseException:
            lease.end()
            raise


class Held:
    """A body, for as long as which a lease lasts: to its end, or until it is closed."""

    def __init__(self, body, lease):
        self.body, self.items, self.lease = body, iter(body), lease

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return next(self.items)
        except BaseException:
            self.lease.end()
            raise

    def close(self):
        try:
            if hasattr(self.body, "close"):
                self.body.close()
        finally:
            self.lease.end()


def request_of(environ):
    path = _web.quoted((environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1"))
    return of_environ(environ, path, environ)


def of_environ(environ, path, raw):
    def headers(name):
        value = environ.get("HTTP_" + name.upper().replace("-", "_"))
        return () if value is None else (value,)
    return _web.Request(environ["REQUEST_METHOD"], path, environ.get("HTTP_HOST") or environ.get("SERVER_NAME"),
                        environ.get("REMOTE_ADDR") or None, headers, raw)
