"""The bindings as the dashboard shows them: Node and Python connect to a server, and its page names each with its
version, its connection and its decisions."""

import os
import shutil
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from conftest import chromium, server, sluice_bin  # noqa: E402, F401 - fixtures
from harness import DEADLINE_S  # noqa: E402
from test_dashboard import browser, clients_shown, rate_of  # noqa: E402, F401 - one is a fixture

sluice = pytest.importorskip("sluice")
PACKAGE = os.path.join(ROOT, "build", "bindings", "node", "installed", "node_modules", "sluice")
NODE = """
const {Limiter} = require(process.argv[1]);
const limiter = new Limiter({store: `redis://127.0.0.1:${process.argv[2]}`, timeout: 20000});
setInterval(async () => { await limiter.check('node', '2/1h'); process.stdout.write('.'); }, 20);
"""
PYTHON = """
import sluice, sys, time
limiter = sluice.Limiter("redis://127.0.0.1:" + sys.argv[1], timeout=20000)
while True:
    limiter.check("python", "1000000/1h")
    print(".", end="", flush=True)
    time.sleep(0.02)
"""


class Program:
    """A program that decides all the time, until the test is over."""

    def __init__(self, *words):
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE)

    def __enter__(self):
        assert self.process.stdout.read(1) == b".", "no decision"
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate(timeout=DEADLINE_S)


@pytest.mark.parametrize("width", [1440, 390])
def test_both_bindings_are_clients_of_the_page(browser, width):  # noqa: F811
    if not os.path.isdir(PACKAGE):
        pytest.skip("the npm package is not installed: bindings/node/test/run --install")
    b = browser()
    port = str(b.server.resp_port)
    names = ["sluice-%s %s" % (language, sluice.__version__) for language in ("node", "python")]
    with Program(shutil.which("node"), "-e", NODE, PACKAGE, port), Program(sys.executable, "-c", PYTHON, port):
        b.open(width)
        b.wait(lambda: set(names) <= set(clients_shown(b)), "both by name")
        for name in names:
            assert clients_shown(b)[name][:2] == ["RESP", "1"]
            b.wait(lambda: rate_of(clients_shown(b)[name][2]) > 1, name)
        # Node's quota is used up, Python's is not.
        b.wait(lambda: rate_of(clients_shown(b)[names[0]][3]) > 1, "its denials")
        assert rate_of(clients_shown(b)[names[1]][3]) == 0
        assert b.js("return document.documentElement.scrollWidth <= innerWidth")
    b.wait(lambda: all(clients_shown(b).get(name, ["", "0"])[1] == "0" for name in names), "their connections are gone")
