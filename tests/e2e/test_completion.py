"""What shells complete after `sluice`: asked of bash, zsh and fish themselves, by the scripts that the program prints.

bash and fish tell without a terminal what they would complete; zsh has to be typed at."""

import os
import re
import shutil
import subprocess

import pytest

from terminal import Terminal

ZSH_DEADLINE_S = 60  # it reads all of its functions first

# What is typed, the last word being completed; what must be among the words offered; what must not.
CASES = [
    ("sluice ", {"serve", "check", "replay", "completion"}, {"--help"}),
    ("sluice re", {"release", "renew", "reserve", "reset", "replay"}, {"serve"}),
    ("sluice replay --format ", {"auto", "common", "combined", "json", "ops"}, {"replay"}),
    ("sluice replay --de", {"--decisions"}, {"--audit"}),
    ("sluice store ", {"create", "resize", "dump", "load"}, {"serve"}),
    ("sluice check --he", {"--help"}, {"--cost"}),
    ("sluice help t", {"top", "tail", "token"}, {"help"}),
    ("sluice completion ", {"bash", "zsh", "fish"}, {"serve"}),
    ("sluice lint po", {"policy.yaml"}, {"serve"}),
    ("sluice serve --config po", {"policy.yaml"}, {"serve"}),
]


@pytest.fixture
def place(tmp_path, sluice_bin):
    """A folder with one file, in which a shell finds the program by its name."""
    (tmp_path / "policy.yaml").write_text("limits: []\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sluice").symlink_to(os.path.abspath(sluice_bin))
    environment = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8", "TERM": "vt100"}
    return tmp_path, environment


def needs(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")


def asked(place, *words):
    folder, environment = place
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("typed,offered,not_offered", CASES)
def test_bash(place, typed, offered, not_offered):
    words = typed.split(" ")
    # without a terminal compopt has nothing to change: it notes that bash would list files
    script = """eval "$(sluice completion bash)"
compopt() { files_too=1; }
COMP_WORDS=(%s) COMP_CWORD=%d
_sluice
printf '%%s\\n' "${COMPREPLY[@]}"
[ -z "$files_too" ] || compgen -f -- "${COMP_WORDS[COMP_CWORD]}"
""" % (" ".join("'%s'" % word for word in words), len(words) - 1)
    told = set(asked(place, "bash", "-c", "files_too=\n" + script).split("\n"))
    assert offered <= told and not told & not_offered


@pytest.mark.parametrize("typed,offered,not_offered", CASES)
def test_fish(place, typed, offered, not_offered):
    needs("fish")
    told = asked(place, "fish", "--no-config", "-c", "sluice completion fish | source; complete -C '%s'" % typed)
    words = {line.split("\t")[0] for line in told.splitlines()}
    assert offered <= words and not words & not_offered


@pytest.fixture
def zsh(place):
    needs("zsh")
    folder, environment = place
    terminal = Terminal(["zsh", "-f", "-i"], cwd=folder, env=environment)
    terminal.type(b"PS1='go''on> ' LISTMAX=1000; autoload -U compinit && compinit -u -D\n"
                  b"source <(sluice completion zsh); PS1='go''ing> '\n")
    terminal.until(b"going> ", ZSH_DEADLINE_S)
    yield terminal
    terminal.kill()


@pytest.mark.parametrize("typed,offered,not_offered", CASES)
def test_zsh(zsh, typed, offered, not_offered):
    # one word is written out; of several a list is shown under the line
    zsh.type(typed.encode() + b"\t\t")
    pattern = "(?s)" + "".join("(?=.*%s)" % re.escape(word) for word in offered)
    told = zsh.until(pattern.encode(), ZSH_DEADLINE_S).string.decode(errors="replace")
    assert not any(re.search(r"(?m)^%s\b" % re.escape(word), told) for word in not_offered)


@pytest.mark.parametrize("words,says", [
    ([], "a shell is missing: bash, zsh or fish"),
    (["tcsh"], "no shell 'tcsh': expected bash, zsh or fish"),
    (["bash", "zsh"], "'zsh' is one word too many"),
])
def test_misuse(sluice_bin, words, says):
    done = subprocess.run([sluice_bin, "completion", *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith(f"sluice completion: {says}\n")
