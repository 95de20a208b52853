"""A service of the standard library alone that asks Sluice before it answers: POST /v1/admit."""
import json
import os
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SLUICE = os.environ.get("SLUICE", "http://127.0.0.1:7380") + "/v1/admit"


def admit(attributes):
    """(allowed, seconds to wait). A limiter that is away lets requests pass: that choice is yours."""
    request = urllib.request.Request(SLUICE, json.dumps({"attributes": attributes}).encode())
    try:
        with urllib.request.urlopen(request, timeout=0.2):
            return True, 0
    except urllib.error.HTTPError as answer:
        return answer.code != 429, int(answer.headers.get("Retry-After", 1))
    except OSError:
        return True, 0


class App(BaseHTTPRequestHandler):
    def do_GET(self):
        allowed, wait = admit({"method": "GET", "path": self.path, "ip": self.client_address[0]})
        body = b"hello\n" if allowed else b"too many requests\n"
        self.send_response(200 if allowed else 429)
        if not allowed:
            self.send_header("Retry-After", str(wait))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("0.0.0.0", int(os.environ.get("PORT", 8000))), App)
    print("listening on port", server.server_port, flush=True)
    server.serve_forever()
