"""For requests: a transport adapter. `session.mount("https://", RetryAdapter())`, or mount(session)."""

import requests
import requests.adapters

from .exchange import Client, Exchange


def _left(timeout, seconds):
    """requests' timeout (None, a number, or a pair), at most what is left."""
    if seconds is None:
        return timeout
    if isinstance(timeout, tuple):
        return tuple(seconds if part is None else min(part, seconds) for part in timeout)
    return seconds if timeout is None else min(timeout, seconds) if isinstance(timeout, (int, float)) else timeout


class RetryAdapter(requests.adapters.HTTPAdapter):
    """Sends by `client` (a sluice.client.Client, made of `options` if none is given); else as its base."""

    def __init__(self, client=None, pool_connections=10, pool_maxsize=10, **options):
        super().__init__(pool_connections=pool_connections, pool_maxsize=pool_maxsize)
        self.client = client or Client(**options)

    def send(self, request, stream=False, timeout=None, verify=True, cert=None, proxies=None):
        base = super().send
        return self.client.send(Exchange(
            request.method, request.url, request.headers,
            lambda seconds: base(request, stream, _left(timeout, seconds), verify, cert, proxies),
            lambda response: (response.status_code, response.headers.get), lambda response: response.close(),
            (requests.ConnectionError, requests.Timeout),
            body=request.body is None or isinstance(request.body, (bytes, str)), idempotent=self.client.idempotent))


def mount(session=None, client=None, **options):
    """All of a session's requests by one client; a new session if none is given. Returns the session."""
    session = requests.Session() if session is None else session
    adapter = RetryAdapter(client, **options)
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    return session
