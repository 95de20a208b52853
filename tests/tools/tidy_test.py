"""tools/tidy holds the rules of the house; here each rule is broken once, in a tree of its own, and must be found at
the right line. The same tree without the break has no findings, so no rule can pass by never looking."""
import os
import re
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TIDY = os.path.join(ROOT, "tools", "tidy")

CLEAN = {
    "include/sluice.h": "/* Says hello. Returns 0. */\nint sluice_hello(void);\n\n"
                        "enum sluice_algorithm {\n\tSLUICE_LOG = 0,\n\tSLUICE_PAIL = 1,\n};\n",
    "src/base/out.h": "/* Both of a group:\n * lengths in bytes. */\nint sl_out_a(int a);\nint sl_out_b(int b,\n"
                      "             int c);\n\nstatic inline int sl_short(int a) {\n\treturn a;\n}\n",
    "src/base/out.c": '#include "base/out.h"\n\n#include <string.h>\n\n/* a double, free of malloc("x") */\n'
                      "int sl_out_a(int a) {\n\treturn a;\n}\n",
    "src/algo/log.c": '#include "base/out.h"\n#include "sluice.h"\nint sl_log(int a, int *b) {\n\t'
                      'return a == SLUICE_LOG || b[SLUICE_PAIL] - 1 > 1 << SLUICE_PAIL || b->of - a;\n}\n',
    "src/check/check.c": '#include "algo/log.h"\n#include "store/slot.h"\n',
    "hosts/cli/main.c": '#include "hosts/server/server.h"\n#include "os/clock.h"\n#include <time.h>\n'
                        "int main(void) {\n\treturn time(0) == 0;\n}\n",
    "examples/embed.c": '#include "sluice.h"\n',
    "src/algo/step.c": "int f(int a) {\n\tswitch (a) {\n\tcase SLUICE_LOG:\n\t\treturn 1;\n\t}\n\treturn 0;\n}\n",
    "docs/limits.md": "# Limits\n",
}

LONG = "int sl_long(int a) {\n" + "\ta++;\n" * 69 + "}\n"

# name -> (file, its text, "file:line: the words that the finding must hold")
BROKEN = {
    "lower floor includes higher": ("src/base/x.c", '\n#include "algo/log.h"\n', "src/base/x.c:2: src/base includes"),
    "algo includes store": ("src/algo/x.c", '#include "store/slot.h"\n', "src/algo/x.c:1: src/algo includes"),
    "store includes algo": ("src/store/x.c", '#include "algo/log.h"\n', "src/store/x.c:1: src/store includes"),
    "proto includes os": ("src/proto/x.c", '#include "os/clock.h"\n', "src/proto/x.c:1: src/proto includes"),
    "os includes policy": ("src/os/x.c", '#include "policy/policy.h"\n', "src/os/x.c:1: src/os includes"),
    "library includes server": ("hosts/library/x.c", '#include "hosts/server/net/worker.h"\n', "hosts/library/x.c:1:"),
    "relative include": ("src/algo/x.c", '#include "../base/out.h"\n', "src/algo/x.c:1: include of"),
    "example of internals": ("examples/x.c", '#include "base/out.h"\n', "examples/x.c:1: an example includes"),
    "core includes stdio": ("src/store/x.c", "#include <stdio.h>\n", "src/store/x.c:1: the core includes <stdio.h>"),
    "policy opens files": ("src/policy/x.c", "#include <unistd.h>\n", "src/policy/x.c:1: <unistd.h> below os"),
    "long file": ("src/base/x.c", "int sl_x;\n" * 701, "src/base/x.c:1: 701 lines; at most 700"),
    "long function": ("src/base/x.c", LONG, "src/base/x.c:1: sl_long() has 71 lines; at most 70"),
    "malloc in the core": ("src/algo/x.c", "void *f(void) {\n\treturn malloc(1);\n}\n", "src/algo/x.c:2: malloc()"),
    "free in the core": ("src/check/x.c", "void f(void *p) {\n\tfree(p);\n}\n", "src/check/x.c:2: free()"),
    "printf in the core": ("src/store/x.c", 'void f(void) {\n\tprintf("");\n}\n', "src/store/x.c:2: printf()"),
    "double in the core": ("src/algo/x.c", "static double x;\n", "src/algo/x.c:1: floating point"),
    "float in the core": ("src/base/x.c", "int f(void) {\n\treturn (float)1;\n}\n", "src/base/x.c:2: floating point"),
    "undocumented, public": ("include/x.h", "/* one */\nint f(void);\n\nint g(void);\n", "include/x.h:4: g()"),
    "undocumented, inside": ("src/os/x.h", "#ifndef X\n#define X\nint f(int a,\n      int b);\n#endif\n",
                             "src/os/x.h:3: f()"),
    "undocumented, after a struct": ("hosts/server/x.h", "/* a */\nstruct a {\n\tint b;\n};\nint f(void);\n\n"
                                     "struct a *g(void);\n", "hosts/server/x.h:7: g()"),
    "undocumented, long inline": ("src/base/x.h", "static inline int f(int a) {\n" + "\ta++;\n" * 9 + "}\n",
                                  "src/base/x.h:1: f()"),
    "one tag, two things": ("hosts/cli/x.c", "struct sl_a {\n\tint b;\n};\nenum sl_a {\n\tSL_B,\n};\n",
                            "hosts/cli/x.c:4: 'sl_a' is another thing in hosts/cli/x.c:1"),
    "told apart elsewhere": ("hosts/cli/x.c", "int f(int a) {\n\tswitch (a) {\n\tcase SLUICE_PAIL:\n\t\treturn 1;\n"
                             "\t}\n\treturn 0;\n}\n", "hosts/cli/x.c:3: 'case SLUICE_PAIL:' outside of"),
    "an algorithm by its name": ("hosts/cli/x.c", "bool f(int a) {\n\treturn a == SLUICE_PAIL;\n}\n",
                                 "hosts/cli/x.c:2: 'SLUICE_PAIL' outside of src/algo; ask for the trait"),
    "below a kind": ("hosts/cli/x.c", "bool f(int a) {\n\treturn a < SLUICE_PAIL;\n}\n",
                     "hosts/cli/x.c:2: 'a < SLUICE_PAIL' asks for a place"),
    "above a kind": ("src/algo/x.c", "bool f(int a) {\n\treturn SLUICE_LOG >= a;\n}\n",
                     "src/algo/x.c:2: 'SLUICE_LOG >="),
    "as many as kinds": ("src/algo/x.c", "bool f(int a[]) {\n\treturn a[0] - (unsigned)SLUICE_LOG;\n}\n",
                         "src/algo/x.c:2: '] - (unsigned)SLUICE_LOG' asks"),
    "unfinished": ("docs/x.md", "one\n" + "TO" + "DO: two\n", "docs/x.md:2: 'TO" + "DO' marks unfinished"),
    "unfinished, another": ("tests/x.py", "# FIX" + "ME\n", "tests/x.py:1: 'FIX" + "ME'"),
    "unfinished, a third": ("bench/x.c", "/* X" + "XX */\n", "bench/x.c:1: 'X" + "XX'"),
    "trailing space": ("fuzz/x.c", "int a; \n", "fuzz/x.c:1: trailing whitespace"),
    "carriage return": ("tests/x.py", "a = 1\r\n", "tests/x.py:1: trailing whitespace"),
    "long line": ("bench/x.c", "/* " + "x" * 115 + " */\n", "bench/x.c:1: 121 columns"),
    "long line, counted with tabs": ("bench/x.c", "\tint " + "x" * 112 + ";\n", "bench/x.c:1: 121 columns"),
    "spaces for a tab": ("src/os/x.c", "void f(void) {\n    g();\n}\n", "src/os/x.c:2: indented with spaces"),
    "tab behind spaces": ("src/os/x.c", "void f(int a,\n  \tint b);\n", "src/os/x.c:2: a tab after spaces"),
    "no last newline": ("src/os/x.c", "int a;", "src/os/x.c:1: no newline"),
}
for call in ("strcpy", "strcat", "sprintf", "vsprintf", "gets", "strtok", "alloca", "atoi", "setjmp", "longjmp"):
    BROKEN[call] = ("hosts/cli/x.c", "void f(void) {\n\n\t%s (a);\n}\n" % call, "hosts/cli/x.c:3: %s()" % call)
for call in ("time", "clock_gettime", "gettimeofday"):
    BROKEN[call] = ("src/policy/x.c", "void f(void) {\n\t%s(0);\n}\n" % call, "src/policy/x.c:2: %s() below os" % call)


def plant(folder, files):
    for path, text in files.items():
        whole = os.path.join(folder, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w", newline="") as file:
            file.write(text)


def tidy(folder, *arguments):
    done = subprocess.run([sys.executable, TIDY, "--root", str(folder), *arguments], stdout=subprocess.PIPE, text=True)
    findings = [line for line in done.stdout.splitlines() if not line.startswith("tidy: ")]
    assert done.returncode == (1 if findings else 0)
    findings = without_openings(findings)
    return (1 if findings else 0), findings


def without_openings(findings):
    """What is planted says nothing of itself: test_every_file_opens_with_why is about that."""
    return [finding for finding in findings if "does not open with a comment" not in finding]


def test_every_file_opens_with_why(tmp_path):
    plant(tmp_path, {**{path: "/* Why. */\n" + text for path, text in CLEAN.items() if path.endswith((".c", ".h"))},
                     "src/os/x.c": "int a;\n\n/* Too late. */\n", "src/os/y.h": "\n/* Not at once. */\n"})
    done = subprocess.run([sys.executable, TIDY, "--root", str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert [line.split(";")[0] for line in done.stdout.splitlines()[:-1]] == [
        "src/os/%s:1: does not open with a comment" % name for name in ("x.c", "y.h")]


def test_a_clean_tree_has_no_findings(tmp_path):
    plant(tmp_path, CLEAN)
    assert tidy(tmp_path) == (0, [])


@pytest.mark.parametrize("name", BROKEN)
def test_finds(tmp_path, name):
    path, text, expected = BROKEN[name]
    plant(tmp_path, {**CLEAN, path: text})
    status, findings = tidy(tmp_path)
    assert status == 1
    assert any(finding.startswith(expected) for finding in findings), findings
    assert len(findings) == 1, findings


def test_what_a_folder_must_not_see_is_found_behind_what_it_includes(tmp_path):
    files = {"hosts/server/cluster/x.c": '#include "base/out.h"\n#include "hosts/server/watch/x.h"\n',
             "hosts/server/watch/x.h": '#include "hosts/server/watch/y.h"\n',
             "hosts/server/watch/y.h": '#include "base/out.h"\n#include "policy/policy.h"\n'}
    plant(tmp_path, {**CLEAN, **files})
    assert tidy(tmp_path) == (1, ['hosts/server/cluster/x.c:2: includes "hosts/server/watch/x.h", and with it '
                                  "src/policy/policy.h; this folder knows nothing of algo, store, decide, check, "
                                  "policy, hosts/server/door"])
    plant(tmp_path, {"hosts/server/watch/y.h": '#include "base/out.h"\n'})
    assert tidy(tmp_path) == (0, [])


def compile_c(folder, text, *arguments):
    source = os.path.join(folder, "x.c")
    with open(source, "w") as file:
        file.write(text)
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, *arguments, "-fno-stack-protector", "-fPIC", source], cwd=folder, check=True)


def core_of(folder, text):
    compile_c(folder, text, "-O1", "-c", "-o", "x.o")
    subprocess.run(["ar", "rcs", "core.a", "x.o"], cwd=folder, check=True)
    return os.path.join(folder, "core.a")


def test_core_may_need_memory_strings_and_abort(tmp_path):
    text = "#include <string.h>\n#include <stdlib.h>\nint mine(int);\nint mine(int a) { return a; }\n" \
           "int f(const char *a);\nint f(const char *a) { if (strlen(a) > 9) abort(); return mine(a[0]); }\n"
    plant(tmp_path / "tree", CLEAN)
    assert tidy(tmp_path / "tree", "--core", core_of(tmp_path, text)) == (0, [])


@pytest.mark.parametrize("symbol, text", {
    "malloc": "#include <stdlib.h>\nvoid *f(void);\nvoid *f(void) { return malloc(7); }\n",
    "__udivti3": "unsigned __int128 f(unsigned __int128 a, unsigned __int128 b);\n"
                 "unsigned __int128 f(unsigned __int128 a, unsigned __int128 b) { return a / b; }\n",
    "clock_gettime": "#include <time.h>\nint f(struct timespec *t);\nint f(struct timespec *t) "
                     "{ return clock_gettime(CLOCK_REALTIME, t); }\n",
}.items())
def test_core_may_need_nothing_else(tmp_path, symbol, text):
    plant(tmp_path / "tree", CLEAN)
    status, findings = tidy(tmp_path / "tree", "--core", core_of(tmp_path, text))
    assert status == 1 and len(findings) == 1 and findings[0].startswith("x.c:1: needs the symbol " + symbol), findings


def test_exports_are_named_sluice(tmp_path):
    plant(tmp_path / "tree", CLEAN)
    compile_c(tmp_path, "int sluice_f(void);\nint sluice_f(void) { return 1; }\n", "-shared", "-o", "good.so")
    assert tidy(tmp_path / "tree", "--shared", str(tmp_path / "good.so")) == (0, [])
    compile_c(tmp_path, "int sl_f(void);\nint sl_f(void) { return 1; }\n", "-shared", "-o", "bad.so")
    status, findings = tidy(tmp_path / "tree", "--shared", str(tmp_path / "bad.so"))
    assert status == 1 and len(findings) == 1 and "exports sl_f" in findings[0], findings


# Who needs whom: three files in a ring, and one that is below them.
RING = {"a": ("b", "below"), "b": ("c",), "c": ("a",), "below": ()}


def objects_of(tmp_path, needs):
    """A tree of hosts/*.c, each of which calls those that it needs, and the folder of its objects."""
    tree, objects = tmp_path / "tree", tmp_path / "obj"
    os.makedirs(objects / "hosts" / "ring", exist_ok=True)
    files = {}
    for name, others in needs.items():
        calls = "".join("int sl_%s(void);\n" % other for other in sorted({name, *others}))
        files["hosts/ring/%s.c" % name] = calls + "int sl_%s(void) {\n\treturn 1%s;\n}\n" % (
            name, "".join(" + sl_%s()" % other for other in others))
    plant(tree, {**CLEAN, **files})
    for name in needs:
        subprocess.run([*os.environ.get("CC", "cc").split(), "-g", "-c", str(tree / "hosts/ring" / (name + ".c")),
                        "-o", str(objects / "hosts/ring" / (name + ".o"))], check=True)
    return tree, objects


def test_a_circle_is_found_and_who_needs_what_of_whom(tmp_path):
    tree, objects = objects_of(tmp_path, RING)
    status, findings = tidy(tree, "--objects", str(objects))
    assert status == 1 and len(findings) == 1
    assert findings[0].startswith("hosts/ring/a.c:1: a circle of 3 files: a.c needs sl_b of b.c, "
                                  "b.c needs sl_c of c.c, c.c needs sl_a of a.c; move"), findings


def test_no_circle_where_it_is_cut(tmp_path):
    tree, objects = objects_of(tmp_path, {**RING, "c": ("below",)})
    assert tidy(tree, "--objects", str(objects)) == (0, [])


def test_objects_of_files_that_are_gone_are_in_no_circle(tmp_path):
    tree, objects = objects_of(tmp_path, RING)
    os.remove(tree / "hosts/ring/b.c")
    assert tidy(tree, "--objects", str(objects)) == (0, [])


def test_the_list_of_circles_is_exact(tmp_path):
    """Every circle of the list is there, as a whole, or it is told that the list is out of date."""
    with open(TIDY, encoding="utf-8") as file:
        text = file.read()
    listed = text[text.index("CIRCLES = ["):text.index("]", text.index("CIRCLES = ["))]
    edited = tmp_path / "tidy"
    ring = '\n    ("hosts/ring/", "a b c"),'
    edited.write_text(text.replace(listed, "CIRCLES = [" + ring))
    for needs, told in ((RING, []), ({**RING, "c": ()}, ["lists a circle of 3 files that is none"]),
                        ({**RING, "below": ("a",)}, ["a circle of 4 files", "lists a circle of 3 files that is none"])):
        tree, objects = objects_of(tmp_path, needs)
        done = subprocess.run([sys.executable, str(edited), "--root", str(tree), "--objects", str(objects)],
                              stdout=subprocess.PIPE, text=True)
        findings = without_openings(done.stdout.splitlines()[:-1])
        assert len(findings) == len(told), findings
        assert all(words in finding for words, finding in zip(told, findings)), findings


def test_the_list_of_circles_is_short():
    with open(TIDY, encoding="utf-8") as file:
        listed = re.search(r"^CIRCLES = \[\n(.*?)^\]", file.read(), re.S | re.M)[1]
    circles = re.findall(r'\("([a-z/]+)", "([a-z_ ]+)"\)', listed)
    assert len(circles) == len(listed.splitlines()) <= 3 and sum(len(names.split()) for _, names in circles) <= 11
    assert not [where for where, _ in circles
                if where.startswith(("src/check", "hosts/redis", "hosts/cli", "src/policy"))]


def test_a_missing_archive_is_said(tmp_path):
    plant(tmp_path, CLEAN)
    done = subprocess.run([sys.executable, TIDY, "--root", str(tmp_path), "--core", "nowhere.a"],
                          stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "nowhere.a" in done.stderr
