"""Model-checks the locking protocol (docs/design/009-locking.md) with spin: every model as it should be, in several
bounds, is searched to its end without an error; every mistake that the protocol is there to avoid, made on purpose, is
found, so that no model can pass by being unable to fail. `pytest -s` prints the states of each search."""
import os
import re
import shutil
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS_MAX = 1200  # by the clock, on a busy machine
DEPTH_MAX = 20000

# Where the search is short, what takes time is compiling it: clang needs half of gcc's.
QUICK_COMPILER = "clang" if shutil.which("clang") else "gcc"
SAFETY, HANG, ASSERTION = ["-DSAFETY", "-DNOFAIR"], "invalid end state", "assertion violated"
FAIR, CYCLE = ["-DNP"], "non-progress cycle"

# model, its bounds, at least so many states
SOUND = [
    ("lock", "PROCESSES=2 CALLS=2 DEATHS=2", 50000),
    ("lock", "PROCESSES=3 DEATHS=1", 300000),
    ("lock", "PROCESSES=3 DEATHS=0 HALTS=1", 50000),
    ("lock", "PROCESSES=2 CALLS=2 DEATHS=1 HALTS=1", 20000),
    ("slot", "PROCESSES=3 DEATHS=0", 400000),
    ("slot", "PROCESSES=3 ALIVE=2 DEATHS=1", 1000000),
    ("slot", "PROCESSES=3 ALIVE=1 DEATHS=2", 500000),
    ("blocks", "PROCESSES=3 ALIVE=3 DEATHS=0", 50000),
    ("blocks", "PROCESSES=3 ALIVE=2 DEATHS=1", 500000),
    ("blocks", "PROCESSES=3 ALIVE=1 HEIRS=2 DEATHS=1", 200000),
    ("blocks", "PROCESSES=3 ALIVE=1 HEIRS=1 DEATHS=2", 1000000),
    ("blocks", "PROCESSES=3 ALIVE=3 DEATHS=0 HALTS=1", 500000),
    ("blocks", "PROCESSES=3 ALIVE=1 HEIRS=2 DEATHS=1 HALTS=1", 500000),
]

# model, what is done wrong, bounds in which it shows, how it shows
WRONG = [
    ("lock", "NO_GENERATION", "PROCESSES=3", ASSERTION),
    ("lock", "NO_GENERATION", "PROCESSES=2", HANG),
    ("lock", "BUMP_FIRST", "PROCESSES=3", ASSERTION),
    ("lock", "USE_FIRST", "PROCESSES=3", ASSERTION),
    ("lock", "STEAL_BLINDLY", "PROCESSES=3", ASSERTION),
    ("lock", "NO_RECOVERY", "PROCESSES=3", ASSERTION),
    ("lock", "NO_BOUND", "PROCESSES=3 DEATHS=0 HALTS=1", HANG),
    ("lock", "ROB_HALTED", "PROCESSES=3 DEATHS=0 HALTS=1", ASSERTION),
    ("lock", "UNLOCK_GIVEN_UP", "PROCESSES=3 DEATHS=0 HALTS=1", ASSERTION),
    ("slot", "NO_FRESH", "ALIVE=2 DEATHS=1", ASSERTION),
    ("slot", "NO_RECOVERY", "ALIVE=2 DEATHS=1", ASSERTION),
    ("slot", "RECOVER_BY_SPILL", "ALIVE=2 DEATHS=1", ASSERTION),
    ("slot", "NOTE_LATE", "ALIVE=2 DEATHS=1", ASSERTION),
    ("slot", "TAG_FIRST", "ALIVE=2 DEATHS=1", ASSERTION),
    ("slot", "NO_RECHECK", "DEATHS=0", ASSERTION),
    ("slot", "WAIT_TO_EVICT", "ALIVE=2 DEATHS=1", HANG),
    ("blocks", "NO_UNDO", "", ASSERTION),
    ("blocks", "NO_UNDO_FIRST", "", ASSERTION),
    ("blocks", "FREE_BEFORE_TAKE", "", ASSERTION),
    ("blocks", "NO_SAVE_TAG", "", ASSERTION),
    ("blocks", "NO_SAVE_STATE", "", ASSERTION),
    ("blocks", "NO_SAVE_LINK", "", ASSERTION),
    ("blocks", "TAG_AFTER_COMMIT", "", ASSERTION),
    ("blocks", "FREE_NOT_FRESH", "", ASSERTION),
    ("blocks", "RECOVER_FREES_BLOCK", "", ASSERTION),
    ("blocks", "COUNT_FIRST", "", ASSERTION),
    ("blocks", "UNDO_FORWARD", "", ASSERTION),
    ("blocks", "UNDO_POPS", "", ASSERTION),
    ("blocks", "UNLOCK_FIRST", "", ASSERTION),
    ("blocks", "NO_BOUND", "PROCESSES=3 ALIVE=3 DEATHS=0 HALTS=1", HANG),
    ("blocks", "KEEP_HOME", "PROCESSES=3 ALIVE=3 DEATHS=0 HALTS=1", ASSERTION),
    ("blocks", "KEEP_CLAIM", "PROCESSES=3 ALIVE=3 DEATHS=0 HALTS=1", ASSERTION),
    ("blocks", "RECOVERY_DROPPED", "PROCESSES=3 ALIVE=2 DEATHS=1 HALTS=1", ASSERTION),
]
BLOCKS_BOUNDS = "PROCESSES=3 ALIVE=2 DEATHS=1"
UNDO_BOUNDS = "PROCESSES=3 ALIVE=1 HEIRS=1 DEATHS=2"  # two deaths: a change's maker, and whoever undoes it


# Searched only where SLUICE_SPIN_LONG is set: minutes on a busy machine.
if os.environ.get("SLUICE_SPIN_LONG"):
    SOUND += [
        ("lock", "PROCESSES=3 DEATHS=2", 5000000),
        ("slot", "PROCESSES=3 DEATHS=2", 5000000),
        ("lock", "PROCESSES=3 DEATHS=1 HALTS=1", 1000000),
        ("blocks", "PROCESSES=3 ALIVE=2 DEATHS=1 HALTS=1", 3000000),
    ]


class Search:
    """What pan said."""

    def __init__(self, output):
        self.output = output
        self.errors = int(re.search(r"errors: (\d+)", output).group(1))
        self.states = int(re.search(r"^ *(\d+) states, stored", output, re.M).group(1))
        self.cut_short = re.search(r"max search depth too small|reached -DMEMLIM|out of memory|Search not completed",
                                   output) is not None


def search(folder, model, bounds, mode=SAFETY, options=(), compiler=("gcc", "-O0")):
    defines = ["-D" + word for word in bounds.split()]
    said = subprocess.run(["spin", *defines, "-a", os.path.join(HERE, model + ".pml")], cwd=folder, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_MAX)
    assert said.returncode == 0, said.stdout
    built = subprocess.run([*compiler, "-w", *mode, "-o", "pan", "pan.c"], cwd=folder, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_MAX)
    assert built.returncode == 0, built.stdout
    done = subprocess.run(["./pan", "-m%d" % DEPTH_MAX, *options], cwd=folder, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=SECONDS_MAX)
    return Search(done.stdout)


@pytest.mark.parametrize("model, bounds, states_min", SOUND, ids=lambda value: str(value).replace(" ", ","))
def test_holds(tmp_path, model, bounds, states_min):
    found = search(tmp_path, model, bounds, compiler=("gcc", "-O1" if states_min >= 1000000 else "-O0"))
    assert found.errors == 0 and not found.cut_short, found.output
    assert found.states >= states_min, found.output
    print("\n%-8s %-44s %9d states" % (model, bounds, found.states))


@pytest.mark.parametrize("model, wrong, bounds, how", WRONG, ids=lambda value: str(value).replace(" ", ","))
def test_finds(tmp_path, model, wrong, bounds, how):
    if model == "blocks" and not bounds:
        bounds = UNDO_BOUNDS if wrong.startswith("UNDO_") else BLOCKS_BOUNDS
    # each way of failing by itself: pan stops at the first error
    found = search(tmp_path, model, bounds + " " + wrong, options=["-A"] if how == HANG else ["-E"],
                   compiler=(QUICK_COMPILER, "-O0"))
    assert found.errors == 1 and how in found.output, found.output


def test_waiting_ends(tmp_path):
    """With waiters that ask and ask: no cycle that is fair to all goes on for ever, so every call ends."""
    found = search(tmp_path, "lock", "BUSY PROCESSES=2 CALLS=2 DEATHS=2", FAIR, ["-l", "-f"])
    assert found.errors == 0 and not found.cut_short, found.output
    print("\n%-8s %-44s %9d states" % ("lock", "as busy waiting, weak fairness", found.states))


@pytest.mark.parametrize("wrong", ["NO_GENERATION", "NO_KERNEL"])
def test_waiting_hangs(tmp_path, wrong):
    found = search(tmp_path, "lock", "BUSY PROCESSES=2 " + wrong, FAIR, ["-l", "-f", "-A"])
    assert found.errors == 1 and CYCLE in found.output, found.output
