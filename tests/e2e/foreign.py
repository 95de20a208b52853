"""Programs in Go that are not ours, built by tests/foreign/build.py."""
import functools
import os
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
