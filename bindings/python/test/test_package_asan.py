"""The extension under AddressSanitizer and UndefinedBehaviorSanitizer: the tests of its values, threads and forks, of
code that runs inside a call, the case list and random calls once more. Leaks are not looked for: Python keeps much
until its end; a day of calls that leaves nothing behind is in test_package_limiter.py."""
import os
import re
import subprocess
import sys

import pytest

import world
import sluice

BUILD = os.path.join("build", "address-undefined")
TESTS = ("test_package_limiter.py", "test_package_reentry.py", "test_package_cases.py", "test_package_random.py")
# Those that start many processes, or none with this extension.
WITHOUT = "not 256th and not eight and not every_python and not a_day and not asyncio"


def runtime(name):
    said = subprocess.run(["gcc", "-print-file-name=" + name], capture_output=True, text=True, check=True).stdout
    return said.strip() if os.path.isabs(said) else None


def test_under_sanitizers(tmp_path):
    runtimes = [runtime("libasan.so"), runtime("libubsan.so")]
    if None in runtimes:
        pytest.skip("no libasan.so here")
    target = os.path.join(BUILD, "bindings", "python", "_core.abi3.so")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    subprocess.run(["make", "-s", "CC=gcc", "SAN=address,undefined", target], cwd=world.ROOT,
                   check=True, env=environment)
    package = os.path.dirname(sluice.__file__)
    (tmp_path / "sluice").mkdir()
    for name in os.listdir(package):
        if name != "__pycache__":
            source = os.path.join(world.ROOT, target) if name == "_core.abi3.so" else os.path.join(package, name)
            os.symlink(source, tmp_path / "sluice" / name)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "-k", WITHOUT,
         *(os.path.join(world.HERE, name) for name in TESTS)],
        capture_output=True, text=True, check=False,
        env={**environment, "LD_PRELOAD": " ".join(runtimes), "PYTHONPATH": str(tmp_path), "PYTHONMALLOC": "malloc",
             "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
             "SLUICE_OPS": "8000", "PYTHONDONTWRITEBYTECODE": "1"})
    said = done.stdout[-3000:] + done.stderr[-5000:]
    assert done.returncode == 0, said
    assert int(re.search(r"(\d+) passed", done.stdout).group(1)) > 350, said
    assert "ERROR: AddressSanitizer" not in said and "runtime error" not in said
