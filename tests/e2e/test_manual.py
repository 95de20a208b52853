"""The manual pages: clean for groff, and telling of every verb and every option that the program has."""

import os
import re
import subprocess

import pytest

from harness import DEADLINE_S, ROOT

FOLDER = os.path.join(ROOT, "docs", "man")
PAGES = sorted(os.listdir(FOLDER))


@pytest.mark.parametrize("page", PAGES)
def test_groff_has_nothing_to_say(page):
    macros = "-man" if page.endswith(".1") else "-mdoc"
    done = subprocess.run(["groff", macros, "-ww", "-z", os.path.join(FOLDER, page)],
                          capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def helped(sluice_bin, *words):
    return subprocess.run([sluice_bin, *words], capture_output=True, text=True, timeout=DEADLINE_S, check=True).stdout


def sections():
    """The text of each command's section, by its name."""
    with open(os.path.join(FOLDER, "sluice.1"), encoding="utf-8") as file:
        text = file.read().replace("\\-", "-")
    commands = text.split(".SH COMMANDS\n")[1].split(".SH ")[0]
    parts = re.split(r"^\.SS (\S+)\n", commands, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2])), text


def test_the_manual_tells_of_every_verb_and_option(sluice_bin):
    told, text = sections()
    verbs = re.findall(r"^  ([a-z]+) +[A-Z]", helped(sluice_bin, "help"), flags=re.M)
    assert len(verbs) >= 9 and set(verbs) <= set(told), set(verbs) - set(told)
    for verb in verbs:
        assert f'.SY "sluice {verb}"' in text
        for option in re.findall(r"^  (?:-., |    )--([a-z-]+)", helped(sluice_bin, verb, "--help"), flags=re.M):
            if option != "help":
                assert re.search(rf"--{option}\b", told[verb]), f"sluice {verb} --{option} is not in the manual"


def test_the_version_is_the_programs(sluice_bin):
    _, text = sections()
    assert f'"Sluice {re.search(r"[0-9]+[.][0-9]+[.][0-9]+", helped(sluice_bin, "version"))[0]}"' in text
