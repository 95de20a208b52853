"""Storages for limits: its own tests of storages and strategies, out of its source distribution, and Flask-Limiter and
SlowAPI over them."""

import os
import re
import subprocess
import sys
import tarfile

import pytest

import world
import sluice
from harness import Server

limits = pytest.importorskip("limits")
import sluice.limits  # noqa: E402

# What differs, and why. A `sliding-window` never goes above its amount by rounding; limits rounds the weighted count of
# two windows down, and so admits where a share of a request is free, on which the first one counts. A fixed window is
# the clock's; limits' begin with the first request, and last two seconds from there on, on which the other counts.
DIFFER = {"test_sliding_window_counter_previous_window", "test_fixed_window"}
FILES = ("tests/test_strategy.py", "tests/aio/test_strategy.py", "tests/integration/test_concurrency.py")
STORAGES = ("tests/test_storage.py", "tests/aio/test_storage.py")


@pytest.fixture(scope="module")
def source():
    """limits' source distribution of the version that is installed, unpacked in build/bindings."""
    folder = os.path.join(world.ROOT, "build", "bindings", "limits-" + limits.__version__)
    if not os.path.isdir(folder):
        done = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check",
                               "--no-deps", "--no-binary", "limits", "-d", os.path.dirname(folder),
                               "limits==" + limits.__version__],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip("limits' source distribution can't be had: " + done.stderr.strip()[-100:])
        with tarfile.open(folder + ".tar.gz") as archive:
            archive.extractall(os.path.dirname(folder))
    return folder


def begin(source, url, files, *words):
    environment = {**os.environ, "OUR_STORAGES": url, "PYTHONDONTWRITEBYTECODE": "1",
                   "PYTHONPATH": os.pathsep.join([world.HERE, source])}
    return subprocess.Popen([sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "limits_ours", "-p",
                             "no:cacheprovider", "-c", os.devnull, "--rootdir", source, "-o", "asyncio_mode=auto", "-W",
                             "ignore", "--tb=line", *words, *files], cwd=source, env=environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def told(process):
    """Which failed, a name each time, how many passed, and what was said."""
    said = process.communicate()[0]
    passed = re.search(r"(\d+) passed", said)
    return re.findall(r"^FAILED \S+::(\w+)", said, re.M), int(passed.group(1)) if passed else 0, said[-3000:]


def told_twice(process, *words):
    """They sleep by the wall clock: what fails, as a busy machine may make it, is asked once more by itself."""
    failed, passed, said = told(process)
    late = [name for name in failed if name not in DIFFER]
    if not late:
        return set(failed), passed, said
    again, _, more = told(begin(*words, "-k", " or ".join(sorted(set(late)))))
    again = [name for name in again if name in late]  # a name chooses those, too, that begin with it
    return set(failed) - set(late) | set(again), passed + len(late) - len(again), said + more


@pytest.fixture(scope="module")
def theirs(source):
    """They sleep most of the time: so all at once."""
    name, server = world.shared_name("limits"), Server(world.SLUICE, "limits: []\n")
    asked = {"shared": (source, "sluice+shared://" + name, FILES),
             "server": (source, f"sluice://127.0.0.1:{server.resp_port}", FILES)}
    begun = {kind: begin(*words) for kind, words in asked.items()}
    storages = begin(source, "sluice+memory://", STORAGES, "-k", "in-memory")
    yield {**{kind: told_twice(process, *asked[kind]) for kind, process in begun.items()}, "memory": told(storages)}
    server.stop()
    sluice.forget(name)


@pytest.mark.parametrize("kind", ["shared", "server"])
def test_their_strategies(theirs, kind):
    failed, passed, said = theirs[kind]
    assert failed <= DIFFER and passed >= 39, said


def test_their_storages(theirs):
    failed, passed, said = theirs["memory"]
    assert not failed and passed >= 18, said


def test_what_is_told_of_windows():
    storage = sluice.limits.SluiceStorage("sluice+memory://")
    assert storage.get("unknown") == 0 and storage.check() is True
    assert [storage.incr("LIMITER/a/2/9/year", 9 * 360 * 86400) for _ in range(3)] == [1, 2, 3]
    assert storage.get("LIMITER/a/2/9/year") == 3
    storage.clear("LIMITER/a/2/9/year")
    assert storage.get("LIMITER/a/2/9/year") == 0
    assert storage.incr("plain", 86400 * 999, 4) == 4 and storage.get("plain") == 4
    assert storage.acquire_entry("m", 3, 3600, 3) and not storage.acquire_entry("m", 3, 3600)
    assert storage.get_moving_window("m", 3, 3600)[1] == 3
    assert storage.incr("own/day", 3600) == 1 and storage.get("own/day") == 1
    assert storage.reset() == 3 and storage.get("plain") == 0
    shared = sluice.limits.SluiceStorage("sluice+shared://" + world.shared_name("reset"))
    with pytest.raises(NotImplementedError):
        shared.reset()
    sluice.forget(world.shared_name("reset"))
    gone = sluice.limits.SluiceStorage("sluice://127.0.0.1:9")
    assert gone.check() is False
    with pytest.raises(sluice.SluiceError):
        gone.incr("k", 60)
    with pytest.raises(limits.errors.StorageError):
        sluice.limits.SluiceStorage("sluice://127.0.0.1:9", wrap_exceptions=True).incr("k", 60)


FLASK = """
import flask, flask_limiter, sluice.limits, sys
app = flask.Flask(__name__)
limiter = flask_limiter.Limiter(lambda: "ann", app=app, storage_uri=sys.argv[1], strategy="moving-window",
                                headers_enabled=True)
@app.get("/")
@limiter.limit("10 per hour")
def home():
    return "home"
answers = [app.test_client().get("/") for _ in range(int(sys.argv[2]))]
assert 0 <= int(answers[-1].headers["X-RateLimit-Remaining"]) < 10
print(*(answer.status_code for answer in answers))
"""
SLOWAPI = """
import fastapi, slowapi, slowapi.errors, sluice.limits, sys, asyncio, httpx
app = fastapi.FastAPI()
app.state.limiter = slowapi.Limiter(key_func=lambda: "ann", storage_uri=sys.argv[1])
app.add_exception_handler(slowapi.errors.RateLimitExceeded, slowapi._rate_limit_exceeded_handler)
@app.get("/")
@app.state.limiter.limit("10/day")
async def home(request: fastapi.Request):
    return "home"
async def ask():
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a") as client:
        print(*[(await client.get("/")).status_code for _ in range(int(sys.argv[2]))])
asyncio.run(ask())
"""


@pytest.mark.parametrize("script,package", [(FLASK, "flask_limiter"), (SLOWAPI, "slowapi")], ids=["flask", "slowapi"])
def test_workers_share_a_limit_by_a_url(script, package):
    pytest.importorskip(package)
    name = world.shared_name(package)
    try:
        workers = [subprocess.Popen([sys.executable, "-W", "ignore", "-c", script, "sluice+shared://" + name, "6"],
                                    stdout=subprocess.PIPE, text=True) for _ in range(3)]
        codes = sum((worker.communicate()[0].split() for worker in workers), [])
    finally:
        sluice.forget(name)
    assert sorted(codes) == ["200"] * 10 + ["429"] * 8
