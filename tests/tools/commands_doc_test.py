"""docs/commands.md has a row for each verb, in the words of `sluice help`, and says whether it asks a server or a
store as the verb's own usage does."""
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SLUICE = os.path.abspath(os.environ.get("SLUICE_BIN", os.path.join(ROOT, "build", "sluice")))


def said(*words):
    return subprocess.run([SLUICE, *words], stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout


def test_every_verb_has_its_row():
    with open(os.path.join(ROOT, "docs", "commands.md"), encoding="utf-8") as file:
        rows = re.findall(r"^\| `([a-z]+)` \| (.*) \| (.*) \| (.*) \|$", file.read(), re.M)
    verbs = re.findall(r"^  ([a-z]+) +([A-Z].*)$", said("help"), re.M)
    assert [row[:2] for row in rows] == verbs and len(verbs) > 20
    for verb, _, server, store in rows:
        usage = said("help", verb).split("\n\n")[0]
        assert bool(server.strip()) == ("--server" in usage), verb
        assert bool(store.strip()) == ("--store" in usage), verb
