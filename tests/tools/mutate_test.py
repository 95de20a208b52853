"""tools/mutants.py by a text whose mutants are known, and what tools/mutate says where there is nothing to do."""
import os
import subprocess
import sys
import types

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import changes  # noqa: E402
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
	for (int i = 0; i < 8; i++)
		__builtin_prefetch(s + i, 1);
	if (a <= 2 && !word)
		a += most;
	use(s, a << 1);
	return a - sl_min(a, 4);
}
"""
EXPECTED = {
    (10, "relation turned: '<=' -> '>'"), (10, "off by one: '<=' -> '<'"), (10, "and, or: '&&' -> '||'"),
    (10, "negated condition: '!' -> ''"), (10, "negated condition: '(a <= 2 && !word)' -> '(!(a <= 2 && !word))'"),
    (10, "constant: '2' -> '3'"), (10, "constant: '2' -> '1'"),
    (11, "change: '+' -> '-'"), (11, "deleted statement: 'a += most;' -> ';'"),
    (12, "shift: '<<' -> '>>'"), (12, "constant: '1' -> '2'"), (12, "constant: '1' -> '0'"),
    (12, "deleted statement: 'use(s, a << 1);' -> ';'"),
    (13, "calculation: '-' -> '+'"), (13, "least, most: 'sl_min' -> 'sl_max'"), (13, "constant: '4' -> '5'"),
    (13, "constant: '4' -> '3'"), (13, "returned value: 'return a - sl_min(a, 4);' -> 'return 0;'"),
}


def test_every_operator_where_it_applies_and_nowhere_else():
    found = mutants.of_text("x.c", TEXT)
    assert set((m.line, mutants.words(TEXT, m)) for m in found) == EXPECTED and len(found) == len(EXPECTED)


def test_a_call_that_only_fetches_is_a_hint():
    text = "void f(int *s) {\n\tsl_step_prefetch(s, 1);\n\tplace_and_prefetch(s);\n}\n"
    assert [m.line for m in mutants.of_text("a.c", text)] == [3]


def test_rights_of_files_are_octal():
    text = "void f(void) {\n\tchmod(0660);\n}\n"
    assert [m.text for m in mutants.of_text("a.c", text) if m.operator == "constant"] == [str(0o657), str(0o661)]


def test_lines_keep_their_numbers():
    text = "int f(int a) {\n\treturn a +\n\t       1;\n}\n"
    for m in mutants.of_text("x.c", text):
        changed = text[:m.offset] + m.text + text[m.offset + m.length:]
        assert changed.count("\n") == text.count("\n") and changed != text


def test_a_judgement_expires_with_its_line():
    assert mutants.line_hash(TEXT, 10) == mutants.line_hash(TEXT.replace("\tif", "\t\tif"), 10)
    assert mutants.line_hash(TEXT, 10) != mutants.line_hash(TEXT.replace("<= 2", "<= 3"), 10)


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


def run_git(folder, *words):
    return subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@localhost", *words], cwd=folder, text=True,
                          check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.strip()


@pytest.fixture
def origin(tmp_path):
    """main of 30 commits, and a branch of two more."""
    folder = tmp_path / "origin"
    (folder / "src").mkdir(parents=True)
    run_git(folder, "init", "-q", "-b", "main")
    for i in range(32):
        if i == 30:
            run_git(folder, "checkout", "-q", "-b", "change")
        (folder / "src" / "a.c").write_text("".join("int a%d;\n" % k for k in range(i + 1)))
        run_git(folder, "add", "-A")
        run_git(folder, "commit", "-q", "-m", "commit %d" % i)
    return folder


@pytest.mark.parametrize("branch, options, how, lines", [
    ("change", [], "where this left origin/main", {31, 32}),
    ("main", [], "20 commits ago", set(range(11, 31))),
    ("main", ["--single-branch"], "20 commits ago", set(range(11, 31))),
    ("change", ["--single-branch"], "20 commits ago", set(range(13, 33))),
    ("main", ["--depth", "5"], "4 commits ago, as far as this clone goes back", set(range(27, 31))),
    ("main", ["--depth", "1"], "this clone has no commit before its last", None),
])
def test_what_a_change_is_compared_with(origin, tmp_path, monkeypatch, branch, options, how, lines):
    clone = tmp_path / "clone"
    run_git(tmp_path, "clone", "-q", "-b", branch, *options, "file://%s" % origin, str(clone))
    monkeypatch.setattr(ctests, "ROOT", str(clone))
    base, said = changes.base()
    assert said == how
    if lines is None:
        assert base == ""
    else:
        assert changes.lines_since(base) == {"src/a.c": lines}


def test_without_a_clone_there_is_nothing_to_compare_with(tmp_path, monkeypatch):
    monkeypatch.setattr(ctests, "ROOT", str(tmp_path))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert changes.base() == ("", "this is no clone, or an empty one")


def test_a_good_change_does_not_fail_by_chance():
    """Where a half is found, once in a thousand; where 80 of 100 are, never. And none of ten is none by chance."""
    assert not mutate.is_likely(0, 10) and mutate.is_likely(0, 9) and mutate.is_likely(0, 0)
    assert [max(k for k in range(of) if not mutate.is_likely(k, of)) for of in (10, 20, 30, 100)] == [0, 2, 6, 34]
    assert mutate.is_enough(23, 25) and not mutate.is_enough(22, 25) and mutate.is_enough(0, 24)


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


def test_a_verdict_is_of_one_place(tmp_path):
    twice = sources_of("int f(void) {\n\treturn g() | 4;\n}\n\nint h(void) {\n\treturn g() | 4;\n}\n")
    places = [twice.place(m) for m in twice.all]
    assert len(set(places)) == len(places) == 2 * len(set(map(twice.key, twice.all)))
    file = str(tmp_path / "drawn")
    first = mutate.Verdicts(file, False)
    for place in places:
        first.add(place, "survived", "3 tests")
    assert any(" | " in place[3] for place in places)  # what stands between the fields may stand in one
    assert set(mutate.Verdicts(file, False).known) == set(places)


def test_a_line_without_code_has_the_tests_of_those_beside_it():
    reach = mutate.coverage.Coverage()
    reach.lines = {"x.c": {1: {"unit/a"}, 2: set(), 5: {"unit/b"}}}
    reach.seconds = {"unit/a": 1, "unit/b": 2}
    judge = mutate.Judge(None, None, reach, types.SimpleNamespace(slow=False, test=None))
    tests = {line: judge.tests(types.SimpleNamespace(file="x.c", line=line)) for line in (1, 2, 3, 4, 5, 6)}
    assert tests == {1: ["unit/a"], 2: [], 3: ["unit/b"], 4: ["unit/b"], 5: ["unit/b"], 6: ["unit/b"]}


def test_of_a_header_put_to_one_test_all_that_include_it_are_made_again():
    build = types.SimpleNamespace(objects_of=lambda files: ["src/of/%s" % os.path.basename(file) for file in files])
    judge = mutate.Judge(build, None, mutate.coverage.Coverage(),
                         types.SimpleNamespace(slow=False, test=["unit/state_test", "unit/size_test"]))
    assert judge.units(types.SimpleNamespace(file="src/algo/step.h", line=151)) == ["src/of/step.h"]
    assert judge.units(types.SimpleNamespace(file="src/algo/step.c", line=1)) == ["src/algo/step.c"]
    assert judge.including("src/algo/step.h") == {"unit/state_test"}


def test_a_time_out_is_one_of_the_processor(tmp_path):
    spins = tmp_path / "spins"
    spins.write_text("#!/bin/sh\nwhile :; do :; done\n")
    spins.chmod(0o755)
    assert ctests.passes("x", str(spins), 0)[0] == "timeout"
    assert ctests.passes("x", "/bin/true", 9)[0] == "" and ctests.passes("x", "/bin/false", 9)[0] == "status 1"


def test_one_program_has_many_tests(tmp_path):
    """It runs the one that is asked for; a test that has malloc() of its own has a program of its own."""
    build, names = ctests.Build(), ["unit/math_test", "unit/policy_memory_test", "unit/text_test"]
    build.make(names)
    whole, alike = build.together(names, str(tmp_path))
    assert alike == ["unit/math_test", "unit/text_test"]
    program = str(tmp_path / "program")
    assert build.link_with([whole], [], program) is None
    said = {test: ctests.run([program], env={**os.environ, "SLUICE_TEST": test}).stdout for test in alike}
    assert "schoolbook" in said["unit/math_test"] and "schoolbook" not in said["unit/text_test"]
    assert [ctests.passes(test, program, 20)[0] for test in alike] == ["", ""]
    assert ctests.passes("unit/policy_memory_test", program, 20)[0] == "status 125"


def test_a_header_is_put_to_the_test_that_is_named():
    """Neither who includes it is measured then, nor which lines are run: its own objects are compiled all the same."""
    done = subprocess.run([os.path.join(ROOT, "tools", "mutate"), "--under", "src/base/nocase.h", "--with",
                           "unit/text_test", "--count", "3", "--seed", "5"], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert " 0 killed" not in done.stdout and "unit/text_test, status" in done.stdout
