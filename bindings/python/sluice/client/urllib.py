"""For urllib: urlopen() as the standard library's, by a client."""

import copy
import http.client
import urllib.error
import urllib.request

from .exchange import Client, Exchange


def _read(response):
    def get(name):
        lines = response.headers.get_all(name)
        return None if lines is None else ", ".join(lines)
    return response.status, get


def _fresh(request):
    """The same request as if it had never been opened: opening one leaves its proxy, its redirects and its cookies in
    it, and through a proxy an https request that is opened twice is sent without TLS."""
    fresh = copy.copy(request)
    fresh.headers, fresh.unredirected_hdrs = dict(request.headers), dict(request.unredirected_hdrs)
    return fresh


class Opener:
    """open() as urllib.request.urlopen(), by `client` (made of `options` if none is given), over `opener` (the standard
    one). A status of 400 and above is raised as urllib.error.HTTPError, as there."""

    def __init__(self, client=None, opener=None, **options):
        self.client = client or Client(**options)
        self.opener = opener or urllib.request.build_opener()

    def open(self, url, data=None, timeout=None, idempotent=None):
        request = url if isinstance(url, urllib.request.Request) else urllib.request.Request(url)
        if data is not None:
            request.data = data

        def send(seconds):
            times = [t for t in (timeout, seconds) if t is not None]
            try:
                return self.opener.open(_fresh(request), **({"timeout": min(times)} if times else {}))
            except urllib.error.HTTPError as error:
                return error
        response = self.client.send(Exchange(
            request.get_method(), request.full_url, {"Idempotency-Key": request.get_header("Idempotency-key")}, send,
            _read, lambda answer: answer.close(), (urllib.error.URLError, http.client.HTTPException, OSError),
            body=request.data is None or isinstance(request.data, bytes),
            idempotent=self.client.idempotent if idempotent is None else idempotent))
        if isinstance(response, urllib.error.HTTPError):
            raise response
        return response
