"""Completion as people meet it: bash, zsh and fish, each in a terminal of tmux, are typed at, and the screen is read.

What is offered in all cases test_completion.py asks of the shells; here a few go the whole way, from the line that the
manual gives for a shell's own file to the answer of a command that was typed with tabs in it."""
import os
import shutil
import subprocess
import time

import pytest

SECONDS_MAX = 60
HOOKS = {
    "bash": (["bash", "--noprofile", "--rcfile", "own"], 'PS1="typed> "\neval "$(sluice completion bash)"\n'),
    "zsh": (["zsh", "-i"], "PS1='typed> '\nLISTMAX=1000\nautoload -U compinit && compinit -u -D\n"
                           "source <(sluice completion zsh)\n"),
    "fish": (["fish", "--no-config", "-i", "-C", "source own"],
             "function fish_prompt; echo 'typed> '; end\nset -g fish_greeting\nsluice completion fish | source\n"),
}

# What is typed before a tab, and what then stands on the line.
ALONE = [
    ("sluice ov", "sluice override "),
    ("sluice replay --dec", "sluice replay --decisions "),
    ("sluice completion f", "sluice completion fish "),
    ("sluice replay --format com", "sluice replay --format com"),  # common or combined
    ("sluice lint po", "sluice lint policy.yaml"),
    ("sluice serve --config po", "sluice serve --config policy.yaml"),
    ("sluice check --he", "sluice check --help "),
    ("sluice check key 5/1m --pe", "sluice check key 5/1m --peek "),
]


class Screen:
    """A shell in a terminal of its own: a server of tmux that nobody else speaks to."""

    def __init__(self, folder, environment, words):
        self.socket, self.environment = str(folder / "tmux"), environment
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "160", "-y", "50", "-c", str(folder), *words)

    def tmux(self, *words):
        done = subprocess.run(["tmux", "-S", self.socket, *words], env=self.environment, capture_output=True, text=True,
                              timeout=SECONDS_MAX, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def type(self, text):
        self.tmux("send-keys", "-l", "--", text)

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def wait(self, is_there):
        end = time.monotonic() + SECONDS_MAX
        while True:
            lines = [line.rstrip() for line in self.tmux("capture-pane", "-p").splitlines()]
            if is_there(lines):
                return lines
            assert time.monotonic() < end, "\n".join(lines)
            time.sleep(0.02)

    def close(self):
        self.tmux("kill-server")


def prompts(lines):
    return [line for line in lines if line.startswith("typed>")]


@pytest.fixture(params=sorted(HOOKS))
def screen(request, tmp_path, sluice_bin):
    shell = request.param
    for program in ("tmux", shell):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    words, own = HOOKS[shell]
    (tmp_path / "policy.yaml").write_text("limits: []\n")
    (tmp_path / ("own" if shell != "zsh" else ".zshrc")).write_text(own)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sluice").symlink_to(os.path.abspath(sluice_bin))
    environment = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path),
                   "LC_ALL": "C.UTF-8", "TERM": "xterm", "XDG_DATA_HOME": str(tmp_path), "HISTFILE": "/dev/null"}
    terminal = Screen(tmp_path, environment, words)
    try:
        terminal.wait(prompts)
        yield terminal
    finally:
        terminal.close()


def test_a_word_is_written_out(screen):
    for typed, then in ALONE:
        screen.type(typed)
        screen.press("Tab")
        lines = screen.wait(lambda lines, then=then: any(then.rstrip() in line for line in prompts(lines)[-1:]))
        assert prompts(lines)[-1].startswith("typed> " + then.rstrip()), lines
        screen.press("C-u")
        screen.wait(lambda lines: prompts(lines)[-1:] == ["typed>"])


def test_several_are_listed(screen):
    screen.type("sluice re")
    screen.press("Tab", "Tab")
    screen.wait(lambda lines: all(any(word in line for line in lines)
                                  for word in ("ready", "release", "renew", "replay", "reserve", "reset")))


def test_what_was_completed_runs(screen):
    screen.type("sluice lin")
    screen.press("Tab")
    screen.wait(lambda lines: any("sluice lint" in line for line in prompts(lines)))
    screen.type("--err")
    screen.press("Tab")
    screen.wait(lambda lines: any("--errors-only" in line for line in prompts(lines)))
    screen.type("po")
    screen.press("Tab")
    screen.wait(lambda lines: any("policy.yaml" in line for line in prompts(lines)))
    screen.type("&& echo ran")
    screen.press("Enter")
    screen.wait(lambda lines: "ran" in lines)
