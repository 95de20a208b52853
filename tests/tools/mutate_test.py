"""tools/mutants.py by a text whose mutants are known, and what tools/mutate says where there is nothing to do."""
import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import ctests  # noqa: E402
import mutants  # noqa: E402
from importlib.machinery import SourceFileLoader  # noqa: E402
mutate = SourceFileLoader("mutate", os.path.join(ROOT, "tools", "mutate")).load_module()

TEXT = """/* a < b in a comment */
#define TWICE(x) ((x) << 1)
static const int most = 3;
static int least(int a, const char *s) {
	const char *word = "a < b && 1";
	SL_ASSERT(a > 0 &&
	          a < 9);
	if (a <= 2 && !word)
		a += most;
	use(s, a << 1);
	return a - sl_min(a, 4);
}
"""
EXPECTED = {
    (8, "relation turned: '<=' -> '>'"), (8, "off by one: '<=' -> '<'"), (8, "and, or: '&&' -> '||'"),
    (8, "negated condition: '!' -> ''"), (8, "negated condition: '(a <= 2 && !word)' -> '(!(a <= 2 && !word))'"),
    (8, "constant: '2' -> '3'"), (8, "constant: '2' -> '1'"),
    (9, "change: '+' -> '-'"), (9, "deleted statement: 'a += most;' -> ';'"),
    (10, "shift: '<<' -> '>>'"), (10, "constant: '1' -> '2'"), (10, "constant: '1' -> '0'"),
    (10, "deleted statement: 'use(s, a << 1);' -> ';'"),
    (11, "calculation: '-' -> '+'"), (11, "least, most: 'sl_min' -> 'sl_max'"), (11, "constant: '4' -> '5'"),
    (11, "constant: '4' -> '3'"), (11, "returned value: 'return a - sl_min(a, 4);' -> 'return 0;'"),
}


def test_every_operator_where_it_applies_and_nowhere_else():
    found = mutants.of_text("x.c", TEXT)
    assert set((m.line, mutants.words(TEXT, m)) for m in found) == EXPECTED and len(found) == len(EXPECTED)


def test_lines_keep_their_numbers():
    text = "int f(int a) {\n\treturn a +\n\t       1;\n}\n"
    for m in mutants.of_text("x.c", text):
        changed = text[:m.offset] + m.text + text[m.offset + m.length:]
        assert changed.count("\n") == text.count("\n") and changed != text


def test_a_judgement_expires_with_its_line():
    assert mutants.line_hash(TEXT, 8) == mutants.line_hash(TEXT.replace("\tif", "\t\tif"), 8)
    assert mutants.line_hash(TEXT, 8) != mutants.line_hash(TEXT.replace("<= 2", "<= 3"), 8)


def test_what_is_judged_is_still_there():
    """Else the line has changed, and the judgement with it is no more."""
    with open(os.path.join(ROOT, "tools", "mutate.judged"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split(" | ") for line in f if line.strip() and not line.startswith("#")]
    for file, line_hash, column, words, reason in rows:
        with open(os.path.join(ROOT, file), encoding="utf-8") as f:
            text = f.read()
        assert reason and any(
            m.column == int(column) and mutants.words(text, m) == words and mutants.line_hash(text, m.line) == line_hash
            for m in mutants.of_text(file, text)), (file, line_hash, words)


@pytest.mark.skipif(not os.path.exists(os.path.join(ROOT, ".git")), reason="what has changed git says, and this tree "
                    "has no .git")
def test_nothing_changed_ends_at_once():
    done = subprocess.run([os.path.join(ROOT, "tools", "mutate"), "--changed", "HEAD", "--under", "src/none"], cwd=ROOT,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0 and done.stdout.endswith(": 0 files that C tests are linked from\n"
                                                         "mutants: 0 to draw from\n"), done.stdout


def test_unknown_mutant_is_told():
    done = subprocess.run([os.path.join(ROOT, "tools", "mutate"), "--one", "src/base/math.h:1:1:constant:3"], cwd=ROOT,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 2 and "0 to draw from" in done.stdout


def sources_of(text):
    sources = mutate.Sources([])
    sources.text, sources.all = {"x.c": text}, mutants.of_text("x.c", text)
    return sources


def test_the_order_of_a_draw_is_that_of_the_seed_and_of_each_line_alone():
    sources = sources_of(TEXT)
    drawn = [sources.key(m) for m in mutate.in_order(sources, 7)]
    assert sorted(drawn) == sorted(map(sources.key, sources.all))
    assert drawn != [sources.key(m) for m in mutate.in_order(sources, 8)]
    changed = sources_of(TEXT.replace("a += most", "a += 2 * most"))
    again = [changed.key(m) for m in mutate.in_order(changed, 7)]
    assert len(again) > len(drawn)
    assert [key for key in again if key in drawn] == [key for key in drawn if key in again]


def test_a_draw_goes_on_where_it_was_ended(tmp_path):
    file = str(tmp_path / "drawn")
    killed, survived = ("x.c", "0" * 10, 3, "step: '++' -> '--'"), ("x.c", "1" * 10, 3, "shift: '<<' -> '>>'")
    first = mutate.Verdicts(file, False)
    first.add(killed, "killed", "unit/x_test, status 1")
    first.add(survived, "survived", "3 tests")
    assert mutate.Verdicts(file, False).known == {killed: ("killed", "unit/x_test, status 1"),
                                                  survived: ("survived", "3 tests")}
    again = mutate.Verdicts(file, True)
    assert set(again.known) == {killed}
    again.add(survived, "killed", "unit/y_test, status 1")
    assert mutate.Verdicts(file, False).known[survived] == ("killed", "unit/y_test, status 1")


def test_a_time_out_is_one_of_the_processor(tmp_path):
    spins = tmp_path / "spins"
    spins.write_text("#!/bin/sh\nwhile :; do :; done\n")
    spins.chmod(0o755)
    assert ctests.passes("x", str(spins), 0)[0] == "timeout"
    assert ctests.passes("x", "/bin/true", 9)[0] == "" and ctests.passes("x", "/bin/false", 9)[0] == "status 1"
