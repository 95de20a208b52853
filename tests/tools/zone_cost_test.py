"""What a stranger's limit costs that names a time zone which nobody has: no more than some ordinary calls, although the
answer says which zone was meant. Instructions are counted by callgrind in build/bench/zones."""

import os
import re
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(ROOT, "build", "bench", "zones")
PARSES, MOST = 100, 30000


@pytest.fixture(scope="module", autouse=True)
def built():
    subprocess.run(["make", "--no-print-directory", "build/bench/zones"], cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("name, said", [
    ("America/Nowherezz", "such as"), ("America/Xtxxxa", "such as"), ("America/Axxxxxxxxa", "such as"),
    ("Xx", "such as"), ("z" * 47, "such as"), ("Europe/Berlni", "did you mean Europe/Berlin?"),
    ("Berlim", "did you mean Europe/Berlin?")])
def test_a_zone_that_nobody_has(tmp_path, name, said):
    done = subprocess.run(["valgrind", "--tool=callgrind", "--toggle-collect=measure_*",
                           f"--callgrind-out-file={tmp_path}/out", BENCH, name], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0 and said in done.stdout, done.stdout + done.stderr[-2000:]
    cost = int(re.search(r"Collected : (\d+)", done.stderr)[1]) / PARSES
    print(f"{name}: {cost:.0f} instructions")
    assert cost < MOST
