"""The programs of docs/apps.md, run as they stand there: with a limiter, and with none that answers.

Each listens on port 3000, decides by the limits that it says, and answers 429 to the sixth request. What a test changes
is the ports, the name of the shared store, and how long an answer is waited for. A language that this
machine lacks is skipped, and said.
"""

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from harness import Server, wait_until  # noqa: E402
from ports import free_port  # noqa: E402

SLUICE = os.path.abspath(os.environ.get("SLUICE_BIN", os.path.join(ROOT, "build", "sluice")))
LIBRARIES = os.path.join(ROOT, "build", "bindings", "dropins", "node_modules")
PACKAGE = os.path.join(ROOT, "build", "bindings", "node", "installed", "node_modules", "sluice")
NO_PACKAGES = "the npm packages of docs/apps.md are not installed"
BLOCK = re.compile(r"<!-- app: (\S+) -->\n```\w+\n(.*?)```", re.S)

with open(os.path.join(ROOT, "docs", "apps.md"), encoding="utf-8") as file:
    TEXT = file.read()
APPS = dict(BLOCK.findall(TEXT))
# Where a program waits for an answer, and how long: a machine that is busy is no limiter that is away.
WAITS = re.compile(r"(timeout\w*[=:( ]+|ofMillis\(|TIMEOUT_MS => |Timeout: )(100|0\.1)\b", re.I)


def needs(condition, what):
    if not condition:
        pytest.skip(what)


def imports(*names):
    """Whether the Python of this test has them."""
    for name in names:
        pytest.importorskip(name)


def node(folder, path):
    needs(os.path.isdir(LIBRARIES) and os.path.isdir(PACKAGE), NO_PACKAGES)
    modules = os.path.join(folder, "node_modules")
    os.mkdir(modules)
    for name in os.listdir(LIBRARIES):
        os.symlink(os.path.join(LIBRARIES, name), os.path.join(modules, name))
    os.symlink(PACKAGE, os.path.join(modules, "sluice"))
    return [*runtime(path), path]


def runtime(path):
    """What runs JavaScript of this name: Deno and Bun are packages of npm, too."""
    found = {"hono-deno.mjs": ["@deno/linux-x64-glibc/deno", "run", "-A", "--no-remote", "--node-modules-dir=manual"],
             "hono-bun.mjs": ["@oven/bun-linux-x64/bin/bun", "run"]}.get(os.path.basename(path), [])
    return [os.path.join(LIBRARIES, found[0]), *found[1:]] if found else ["node"]


compiled = {}


def compile_all():
    """TypeScript to JavaScript, by the compiler, which must find nothing wrong with the types: {name: text}."""
    if compiled:
        return compiled
    names = [name for name in APPS if name.endswith(".ts")]
    with tempfile.TemporaryDirectory(prefix="sluice-app-") as folder:
        node(folder, "")
        for name in names:
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(APPS[name])
        compiler = os.path.join(LIBRARIES, "typescript", "bin", "tsc")
        words = ["--strict", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler",
                 "--types", "node", "--experimentalDecorators", "--emitDecoratorMetadata", "--skipLibCheck", *names]
        done = subprocess.run(["node", compiler, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=200)
        assert done.returncode == 0, done.stdout
        for name in names:
            with open(os.path.join(folder, name[:-3] + ".js"), encoding="utf-8") as file:
                compiled[name] = file.read()
    return compiled


def go(folder, path):
    needs(shutil.which("go"), "no go on this machine")
    program = os.path.join(folder, "app")
    subprocess.run(["go", "build", "-o", program, path], cwd=folder, check=True, timeout=300,
                   env={**os.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"})
    return [program]


def java(folder, path):
    needs(shutil.which("javac") and shutil.which("java"), "no JDK on this machine")
    subprocess.run(["javac", "-d", folder, path], check=True, timeout=300)
    return ["java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", folder, "App"]


def php(folder, path):
    modules = shutil.which("php") and subprocess.run(["php", "-m"], stdout=subprocess.PIPE, text=True).stdout
    needs(modules and "curl" in modules.split(), "no php with curl on this machine")
    return ["php", "-S", "127.0.0.1:%d" % port_of(path), path]


def ruby(folder, path):
    needs(shutil.which("ruby"), "no ruby on this machine")
    driver = os.path.join(folder, "serve.rb")
    with open(driver, "w", encoding="utf-8") as file:
        file.write("""require 'socket'
require_relative 'app.rb'
app = Limited.new(->(_env) { [200, {}, ['fine']] })
server = TCPServer.new('127.0.0.1', %d)
loop do
  socket = server.accept
  next socket.close if socket.gets.nil? # a look whether it listens
  nil until (socket.gets || "\\r\\n") == "\\r\\n"
  status, headers, = app.call({ 'REMOTE_ADDR' => '127.0.0.1' })
  fields = headers.map { |name, value| "#{name}: #{value}\\r\\n" }.join
  socket.write("HTTP/1.1 #{status} x\\r\\n#{fields}Content-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
  socket.close
end
""" % port_of(path))
    return ["ruby", driver]


def python(folder, path):
    wanted = {"flask": ["flask"], "fastapi": ["fastapi", "uvicorn"], "django": ["django"],
              "requests": ["flask", "requests"], "redis": ["flask", "redis"]}[os.path.basename(path).split("_")[0]]
    imports("sluice", *wanted)
    if "sluice" in APPS[os.path.basename(path)]:
        imports("sluice._core")
    return [sys.executable, path]


RUN = {".js": node, ".mjs": node, ".py": python, ".go": go, ".java": java, ".php": php, ".rb": ruby}
ports = {}


def port_of(path):
    """The port that stands for 3000 in a program: the same each time it is asked for."""
    if path not in ports:
        ports[path] = free_port()
    return ports[path]


class Running:
    """A program of the page: written with its ports, run, and ended by its process id."""

    def __init__(self, name, server):
        self.folder = tempfile.mkdtemp(prefix="sluice-app-")
        try:
            self.start(name, server)
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        try:
            wait_until(self.listens, name + " does not listen", 60)
        except BaseException:
            self.said.seek(0)
            print(self.said.read())
            self.stop()
            raise

    def start(self, name, server):
        text, path = APPS[name], os.path.join(self.folder, name)
        if name.endswith(".ts"):
            needs(os.path.isdir(LIBRARIES) and os.path.isdir(PACKAGE), NO_PACKAGES)
            text, path = compile_all()[name], path[:-3] + ".mjs"
        self.port = port_of(path)
        self.shared = "app-%d-%s" % (os.getpid(), re.sub(r"\W", "-", name))
        text = text.replace("3000", str(self.port)).replace("shared:api", "shared:" + self.shared)
        text = text.replace("7379", str(server.resp_port)).replace("7380", str(server.http_port))
        text = WAITS.sub(lambda found: found.group(1) + {"100": "20000", "0.1": "20"}[found.group(2)], text)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        command = RUN[os.path.splitext(path)[1]](self.folder, path)
        self.said = open(os.path.join(self.folder, "said"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=self.said,
                                        stderr=subprocess.STDOUT, start_new_session=True)

    def listens(self):
        assert self.process.poll() is None, "the program ended"
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def ask(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request("GET", "/")
            answer = connection.getresponse()
            answer.read()
            return answer.status, answer.getheader("Retry-After")
        finally:
            connection.close()

    def stop(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.said.close()
        shutil.rmtree(self.folder)
        shared = os.path.join("/dev/shm", "sluice-" + self.shared)
        if os.path.exists(shared):
            os.unlink(shared)


@pytest.fixture(scope="module")
def installed():
    """The npm packages, as package-lock.json of the drop-ins' tests pins them, and ours."""
    if shutil.which("npm"):
        subprocess.run([os.path.join(ROOT, "bindings", "node", "test", "dropins", "run"), "--install"], timeout=300,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def run(installed):
    started = []

    def start(*words):
        started.append(Running(*words))
        return started[-1]
    yield start
    for one in started:
        one.stop()


def test_the_page_names_all():
    assert len(APPS) >= 15
    for word in ("Express", "Fastify", "Nest", "Hono", "Flask", "FastAPI", "Django", "requests", "Go", "PHP", "Ruby",
                 "Java"):
        assert word in TEXT
    assert {os.path.splitext(name)[1] for name in APPS} == {*RUN, ".ts"}


@pytest.mark.parametrize("name", APPS)
def test_the_sixth_is_denied_and_without_a_limiter_all_are_served(name, run):
    server = Server(SLUICE, "limits: []\n")
    try:
        app = run(name, server)
        seen = [app.ask() for _ in range(6)]
    finally:
        server.stop()
    assert [status for status, _ in seen] == [200] * 5 + [429]
    if name != "App.java":
        assert 1 <= int(seen[5][1]) <= 120
    if "7379" in APPS[name] or "7380" in APPS[name]:
        assert [app.ask()[0] for _ in range(3)] == [200] * 3
