"""The README's own lines, from an empty environment on; types that a checker reads; and what is in the wheel."""
import glob
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

import world

WHEEL = glob.glob(os.path.join(world.ROOT, "build", "bindings", "sluice-*.whl"))
SOURCES = glob.glob(os.path.join(world.ROOT, "build", "bindings", "sluice-*.tar.gz"))


def readme_blocks():
    with open(os.path.join(world.ROOT, "bindings", "python", "README.md"), encoding="utf-8") as f:
        return re.findall(r"^```python\n(.*?)^```", f.read(), re.M | re.S)


def test_from_an_empty_environment(tmp_path):
    """pip install of the wheel, and the first five lines: limited answers."""
    subprocess.run(["/usr/bin/python3", "-m", "venv", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check", *WHEEL],
                   check=True)
    name = world.shared_name("readme")
    script = readme_blocks()[0].replace("shared:readme", "shared:" + name).replace("100/1m", "3/1d")
    script += f"\nfor _ in range(3):\n    print(limiter.check('user:42', '3/1d').allowed)\nsluice.forget({name!r})\n"
    done = subprocess.run([python, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "allowed, 2 left\nTrue\nTrue\nFalse\n"


def test_from_its_sources(tmp_path):
    """pip install of the sources, in an empty environment and with no registry: the machine's compiler builds them."""
    if not all(map(shutil.which, ("cc", "objdump", "strip"))):
        pytest.skip("no C compiler")
    subprocess.run(["/usr/bin/python3", "-m", "venv", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    pip = [python, "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check"]
    assert len(SOURCES) == 1
    done = subprocess.run([*pip, *SOURCES], capture_output=True, text=True, check=False,
                          env={**os.environ, "CC": "no-such-compiler"})
    assert done.returncode != 0 and "there is no C compiler" in done.stdout + done.stderr
    subprocess.run([*pip, *SOURCES], check=True, env={**os.environ, "CFLAGS": "-O0"})
    script = "import sluice\nprint([sluice.Limiter().check('k', '1/1d').allowed, sluice._core.__file__])"
    said = subprocess.run([python, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert said.startswith("[True, '" + str(tmp_path)), said


def test_every_block_runs(tmp_path):
    pytest.importorskip("flask_limiter")
    name = world.shared_name("blocks")
    script = "\n".join(readme_blocks()).replace("readme", name)
    script += "\nanswer = app.test_client().get('/')\nprint(answer.status_code, answer.headers['RateLimit'])"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], cwd=tmp_path, capture_output=True, text=True,
                          check=False)
    subprocess.run([sys.executable, "-c", f"import sluice; sluice.forget({name!r})"], check=True)
    assert done.returncode == 0, done.stderr
    expected = "allowed, 99 left\nmade\nTrue\n404 \"sliding-window 100/1m\";r=\\d+;t=\\d+\n"
    assert re.fullmatch(expected, done.stdout), done.stdout


def test_the_wheel():
    assert len(WHEEL) == 1
    assert re.search(r"-cp39-abi3-(manylinux_\d+_\d+|musllinux_1_2)_\w+\.whl$", WHEEL[0])
    with zipfile.ZipFile(WHEEL[0]) as wheel:
        names = wheel.namelist()
        info = [name for name in names if name.endswith("/RECORD")][0]
        recorded = [line.split(",")[0] for line in wheel.read(info).decode().splitlines()]
    assert sorted(recorded) == sorted(names)
    assert {"sluice/_core.abi3.so", "sluice/py.typed", "sluice/__init__.pyi", "sluice/limits.py", "sluice/asgi.py",
            "sluice/wsgi.py", "sluice/django.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]


def test_nothing_but_a_c_library_is_needed():
    import sluice._core
    needed = subprocess.run(["objdump", "-p", sluice._core.__file__], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"NEEDED\s+(\S+)", needed)) <= {"libc.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"}
    symbols = subprocess.run(["nm", "-D", "--defined-only", sluice._core.__file__], capture_output=True, text=True,
                             check=True).stdout
    assert re.findall(r" T (\S+)", symbols) == ["PyInit__core"]
