"""Programs that are not ours: in Go, built by tests/foreign/build.py, and newer servers of tests/foreign/servers.py."""
import functools
import json
import os
import shutil
import subprocess

import pytest

from harness import ROOT


@functools.lru_cache(None)
def _made(maker, name):
    return subprocess.run([os.path.join(ROOT, "tests", "foreign", maker), name], capture_output=True, text=True,
                          check=False, timeout=900)


def _path(maker, name):
    done = _made(maker, name)
    if done.returncode != 0:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    return done.stdout.strip()


def built(name):
    """The path of a program in Go; skips the test where it can't be had."""
    return _path("build.py", name)


def redis_server():
    """The path of redis-server: the one installed, or the newer one that $SLUICE_REDIS names (redis, valkey); skips the
    test where that can't be had."""
    newer = os.environ.get("SLUICE_REDIS")
    if newer:
        return os.path.join(_path("servers.py", newer), "redis-server")
    program = shutil.which("redis-server")
    assert program, "redis-server is not installed: apt-get install redis-server"
    return program


@functools.lru_cache(None)
def source(module):
    """The folder of a module's source, as go.mod pins it; skips the test where it can't be had."""
    if shutil.which("go") is None:
        pytest.skip(f"{module} can't be had: no Go")
    got = subprocess.run(["go", "mod", "download", "-json", module], cwd=os.path.join(ROOT, "tests", "foreign"),
                         env={**os.environ, "GOTOOLCHAIN": "local"}, capture_output=True, text=True, check=False,
                         timeout=300)
    if got.returncode != 0:
        pytest.skip(f"{module} can't be had: " + got.stderr.strip()[-200:])
    return json.loads(got.stdout)["Dir"]
