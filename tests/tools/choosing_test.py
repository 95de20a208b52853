"""docs/choosing.md answers as printed: its commands are run in their order, in an empty folder."""
import os
import subprocess

import shown

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SLUICE = os.path.abspath(os.environ.get("SLUICE_BIN", os.path.join(ROOT, "build", "sluice")))


def test_every_command_answers_as_printed(tmp_path):
    with open(os.path.join(ROOT, "docs", "choosing.md"), encoding="utf-8") as file:
        commands = shown.commands(file.read())
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sluice").symlink_to(SLUICE)
    env = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    assert len(commands) >= 15
    for command, expected in commands:
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)
        told = [line.rstrip() for line in done.stdout.rstrip("\n").split("\n")] if done.stdout else []
        assert told == expected, command
