"""What the package's tests stand on: the harness of tests/e2e, and the program that `make` has built."""
import glob
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", "..", ".."))
SLUICE = os.path.abspath(os.environ.get("SLUICE_BIN", os.path.join(ROOT, "build", "sluice")))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))


def shared_name(what):
    return f"pytest-{os.getpid()}-{what}"


def pythons():
    """Other Pythons from 3.9 on that are installed here, by what their names say."""
    found = glob.glob("/usr/bin/python3.*") + glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python"))
    named = {path: re.search(r"3\.(\d+)", path) for path in found if "config" not in path}
    return sorted(path for path, name in named.items() if name and int(name.group(1)) >= 9)
