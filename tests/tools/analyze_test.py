"""tools/analyze finds a planted mistake with either analyzer, says nothing of a judged one, and tells of a judgement
that names nothing any more; and each judgement of this tree stands on a line that is there."""
import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.path.join(ROOT, "tools", "analyze")
sys.path.insert(0, os.path.join(ROOT, "tools"))
import mutants  # noqa: E402

FILE = "src/base/planted.c"
# analyzer -> (its words, a mistake, the kind, the line that it stands on)
PLANTED = {
    "cppcheck": ([], "int f(int a) {\n\tint b;\n\tif (a)\n\t\tb = 1;\n\telse\n\t\ta = 2;\n\treturn a + b;\n}\n",
                 ("uninitvar", "legacyUninitvar"), 7),
    "clang": (["--deep"], "int f(int *a);\nint f(int *a) {\n\tint b = 0;\n\tif (a == 0)\n\t\tb = 1;\n"
                          "\treturn b + *a;\n}\n", ("core.NullDereference",), 6),
}


def tree(tmp_path, text, rows=()):
    for folder in ("src/base", "hosts", "bindings", "tools"):
        os.makedirs(tmp_path / folder, exist_ok=True)
    (tmp_path / FILE).write_text(text)
    (tmp_path / "tools" / "analyze.judged").write_text("# rows\n" + "".join(row + "\n" for row in rows))
    return tmp_path


def analyze(root, words):
    done = subprocess.run([sys.executable, TOOL, "--root", str(root), *words], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


@pytest.mark.parametrize("words, text, kinds, line", PLANTED.values(), ids=PLANTED)
def test_a_planted_mistake(tmp_path, words, text, kinds, line):
    status, said = analyze(tree(tmp_path, text), words)
    assert status == 1 and f"{FILE}:{line}:" in said and said.endswith("1 findings, 0 judged, 1 new, 0 rows too many\n")
    assert any(kind in said for kind in kinds), said
    _, row = analyze(tmp_path, [*words, "--print"])
    assert row.startswith(f"{FILE} | ") and mutants.line_hash(text, line) in row, row

    row = " | ".join(row.split(" | ")[:3]) + " | meant so"
    status, said = analyze(tree(tmp_path, text, [row]), words)
    assert (status, said) == (0, "analyze: 1 findings, 1 judged, 0 new, 0 rows too many\n")


@pytest.mark.parametrize("words, text, kinds, line", PLANTED.values(), ids=PLANTED)
def test_a_judgement_that_names_nothing_is_told(tmp_path, words, text, kinds, line):
    """The mistake was mended, or its line was changed; a judgement of the other analyzer's is not looked at."""
    rows = [f"{FILE} | {kinds[0]} | {mutants.line_hash(text, line)} | meant so",
            f"{FILE} | {'core.DivideZero' if not words else 'zerodiv'} | 0123456789 | of the other one"]
    status, said = analyze(tree(tmp_path, "int f(void);\nint f(void) {\n\treturn 0;\n}\n", rows), words)
    assert status == 1 and said == (f"tools/analyze.judged: nothing is found there any more: "
                                    f"{FILE} | {kinds[0]} | {mutants.line_hash(text, line)}\n"
                                    "analyze: 0 findings, 0 judged, 0 new, 1 rows too many\n")


def test_what_does_not_compile_is_no_good_source(tmp_path):
    status, said = analyze(tree(tmp_path, "int f(void) {\n"), ["--deep"])
    assert status == 1 and said.startswith("clang: ") and FILE in said


def test_one_source_alone(tmp_path):
    """What was judged of its header holds for it; what nobody looked at is not missed."""
    header = "static inline int g(const int *a) {\n\treturn a == 0 ? *a : 1;\n}\n"
    source = '#include "planted.h"\nint f(void);\nint f(void) {\n\treturn g(0);\n}\n'
    rows = ["src/base/other.c | core.DivideZero | 0123456789 | of another source",
            f"src/base/planted.h | core.NullDereference | {mutants.line_hash(header, 2)} | meant so"]
    tree(tmp_path, source, rows)
    (tmp_path / "src" / "base" / "planted.h").write_text(header)
    assert analyze(tmp_path, ["--deep", FILE]) == (0, "analyze: 1 findings, 1 judged, 0 new, 0 rows too many\n")


# What faces another program -> its headers, and what only they have.
FACING = {"bindings/node/native": ("#define NAPI_VERSION 8\n#include <node_api.h>\n", "napi_value"),
          "bindings/python/src": ("#include <Python.h>\n", "PyObject *")}


@pytest.mark.parametrize("folder", FACING)
def test_what_faces_another_program_is_analyzed_with_its_headers(tmp_path, folder):
    headers, type_name = FACING[folder]
    tree(tmp_path, "int f(void);\nint f(void) {\n\treturn 0;\n}\n")
    os.makedirs(tmp_path / folder)
    (tmp_path / folder / "planted.c").write_text(headers + f"{type_name} g({type_name} *a);\n" +
                                                 f"{type_name} g({type_name} *a) {{\n\treturn a ? 0 : *a;\n}}\n")
    status, said = analyze(tmp_path, ["--deep"])
    assert status == 1 and f"{folder}/planted.c:" in said and "core.NullDereference" in said, said


def test_each_judgement_stands_on_a_line_that_is_there():
    """Those of clang's analyzer too, which runs in soaks alone."""
    with open(os.path.join(ROOT, "tools", "analyze.judged"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split(" | ") for line in f if line.strip() and not line.startswith("#")]
    assert rows
    for file, kind, line_hash, reason in rows:
        with open(os.path.join(ROOT, file), encoding="utf-8") as f:
            text = f.read()
        lines = range(1, len(text.splitlines()) + 1)
        assert reason and any(mutants.line_hash(text, line) == line_hash for line in lines), (file, kind, line_hash)
