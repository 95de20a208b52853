"""What following decisions costs whoever decides, in instructions of a SLUICE.CHECK at the RESP door, at 500,000 a
second: nothing while nobody reads, some thirty for readers of everything, however many: 2 % of a server's time with the
network's share. Counted by callgrind in build/bench/tailed."""

import os
import re
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(ROOT, "build", "bench", "tailed")
DECIDED = 64000 + 4096  # those before the counted ones as well


@pytest.fixture(scope="module")
def cost(tmp_path_factory):
    """Instructions of a decision, by who reads."""
    subprocess.run(["make", "--no-print-directory", "build/bench/tailed"], cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL)
    out = str(tmp_path_factory.mktemp("tail") / "callgrind.out")

    def count(who):
        done = subprocess.run(["valgrind", "--tool=callgrind", "--toggle-collect=measure_*",
                               "--callgrind-out-file=" + out, BENCH, who], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr[-2000:]
        wrote = int(re.search(r"wrote (\d+) words", done.stdout)[1])
        return int(re.search(r"Collected : (\d+)", done.stderr)[1]) / DECIDED, wrote
    return {who: count(who) for who in ("nothing", "nobody", "one", "hundred", "filters")}


def test_nobody_costs_nothing(cost):
    assert cost["nobody"][1] == 0 and cost["nobody"][0] <= cost["nothing"][0] + 2, cost


def test_readers_of_everything_cost_thirty_instructions(cost):
    for who in ("one", "hundred"):
        assert cost[who][1] > 5000 and cost[who][0] <= cost["nothing"][0] + 36, cost


def test_filters_cost_as_many_instructions_whatever_their_number(cost):
    """200 at 500,000 a second are a hundred million of a core's thousands of millions."""
    assert cost["filters"][1] == 0 and cost["filters"][0] <= cost["nothing"][0] + 200, cost
