"""A program that embeds the library, with each call of the library failing: each function says by its error that it
could not, or has done what it says."""

import os
import re
import subprocess

import pytest

from faults import BUILD, ENVIRONMENT, KINDS, PLAIN, SECONDS_MAX, Trial, output_of

EMBED = os.path.join(BUILD, "tests", "faults", "embed")
SEEN = {}


def left(path):
    """What a store holds, by the program: whole, and how much of the key was used."""
    verified = subprocess.run([PLAIN, "inspect", "--store", path, "--verify"], capture_output=True, check=False)
    used = subprocess.run([PLAIN, "check", "u", "sliding-log 100/1w", "--peek", "--store", path], text=True,
                          capture_output=True, check=False)
    return verified.returncode, int(re.search(r"^remaining +(\d+) of", used.stdout, re.M).group(1))


@pytest.mark.parametrize("home", ["memory", "file", "shared"])
def test_each_call_of_an_embedding_program_fails(control, tmp_path, home):
    def run(number, armed=True):
        name = {"file": [str(tmp_path / f"counters{number}")], "shared": [f"sluice-embed-{os.getpid()}-{number}"]}
        more = {"FAULTS": control.file.name} if armed else {}
        return subprocess.run([EMBED, home, *name.get(home, [])], env={**ENVIRONMENT, **more}, text=True,
                              capture_output=True, timeout=SECONDS_MAX, check=False)

    control.arm(KINDS)
    calm = run(0)
    assert (calm.returncode, calm.stderr) == (0, ""), calm
    assert calm.stdout == "decided 1, 2 limits, 3 left\nchecked 1, 97 left\nused 3, 197 left\n"
    trial = Trial(control, "test_embed.py", home, EMBED)
    for armed in trial.cases(SEEN):
        control.arm(**armed)
        done, wrong = run(trial.tried), ""
        if done.returncode not in (0, 2) or re.search("Sanitizer|runtime error", done.stderr):
            wrong = f"ended with {done.returncode}"
        elif done.returncode == 2 and not re.match(r"\w+: -\d+: ", done.stderr):
            wrong = "ended with 2, and no error code"
        elif not calm.stdout.startswith(done.stdout) or done.returncode == 0 and done.stdout != calm.stdout:
            wrong = "another answer"
        elif home == "file" and "checked" in done.stdout:
            whole, remaining = left(str(tmp_path / f"counters{trial.tried}"))
            wrong = "" if whole == 0 and remaining in (97, 197) else f"left {remaining}, verified with {whole}"
        if home == "shared" and done.returncode == 2:
            path = f"/dev/shm/sluice-embed-{os.getpid()}-{trial.tried}"
            os.path.exists(path) and os.unlink(path)
        if wrong:
            trial.note(wrong, *output_of(done))
    trial.end()
