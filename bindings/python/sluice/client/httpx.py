"""For httpx: transports. `httpx.Client(transport=Transport())`, `httpx.AsyncClient(transport=AsyncTransport())`.

One request may say more: `client.post(url, extensions={"sluice": {"idempotent": True}})`.
"""

import httpx

from .exchange import Client, Exchange


def _limit(request, seconds):
    """httpx's own timeouts, none of them longer than what is left."""
    if seconds is not None:
        own = request.extensions.get("timeout") or {}
        request.extensions["timeout"] = {name: seconds if own.get(name) is None else min(seconds, own[name])
                                         for name in ("connect", "read", "write", "pool")}


def _exchange(client, request, send, discard):
    more = request.extensions.get("sluice") or {}
    whole = isinstance(request.stream, httpx.ByteStream)
    return Exchange(request.method, str(request.url), request.headers, send,
                    lambda response: (response.status_code, response.headers.get), discard, httpx.TransportError,
                    body=whole, idempotent=more.get("idempotent", client.idempotent))


class Transport(httpx.BaseTransport):
    """Sends by `client` (a sluice.client.Client, made of `options` if none is given), over `transport`."""

    def __init__(self, transport=None, client=None, **options):
        self.transport = httpx.HTTPTransport() if transport is None else transport
        self.client = client or Client(**options)

    def handle_request(self, request):
        def send(seconds):
            _limit(request, seconds)
            return self.transport.handle_request(request)
        return self.client.send(_exchange(self.client, request, send, lambda response: response.close()))

    def close(self):
        self.transport.close()


class AsyncTransport(httpx.AsyncBaseTransport):
    """The same for httpx.AsyncClient on asyncio."""

    def __init__(self, transport=None, client=None, **options):
        self.transport = httpx.AsyncHTTPTransport() if transport is None else transport
        self.client = client or Client(**options)

    async def handle_async_request(self, request):
        async def send(seconds):
            _limit(request, seconds)
            return await self.transport.handle_async_request(request)
        return await self.client.send_async(_exchange(self.client, request, send, lambda response: response.aclose()))

    async def aclose(self):
        await self.transport.aclose()
