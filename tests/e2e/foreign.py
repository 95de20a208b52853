"""Programs in Go that are not ours, built by tests/foreign/build.py."""
import functools
import json
import os
import shutil
import subprocess

import pytest

from harness import ROOT


@functools.lru_cache(None)
def _build(name):
    return subprocess.run([os.path.join(ROOT, "tests", "foreign", "build.py"), name], capture_output=True, text=True,
                          check=False, timeout=900)


def built(name):
    """The path of a program; skips the test where it can't be had."""
    done = _build(name)
    if done.returncode != 0:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    return done.stdout.strip()


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
