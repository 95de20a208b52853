"""tools/tidy holds the rules of the house; here each rule is broken once, in a tree of its own, and must be found at
the right line. The same tree without the break has no findings, so no rule can pass by never looking."""
import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TIDY = os.path.join(ROOT, "tools", "tidy")

CLEAN = {
    "include/sluice.h": "/* Says hello. Returns 0. */\nint sluice_hello(void);\n",
    "src/base/out.h": "/* Both of a group:\n * lengths in bytes. */\nint sl_out_a(int a);\nint sl_out_b(int b,\n"
                      "             int c);\n\nstatic inline int sl_short(int a) {\n\treturn a;\n}\n",
    "src/base/out.c": '#include "base/out.h"\n\n#include <string.h>\n\n/* a double, free of malloc("x") */\n'
                      "int sl_out_a(int a) {\n\treturn a;\n}\n",
    "src/algo/log.c": '#include "base/out.h"\n#include "sluice.h"\nint sl_log;\n',
    "src/check/check.c": '#include "algo/log.h"\n#include "store/slot.h"\n',
    "hosts/cli/main.c": '#include "hosts/server/server.h"\n#include "os/clock.h"\n#include <time.h>\n'
                        "int main(void) {\n\treturn time(0) == 0;\n}\n",
    "examples/embed.c": '#include "sluice.h"\n',
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
    "library includes server": ("hosts/library/x.c", '#include "hosts/server/server.h"\n', "hosts/library/x.c:1:"),
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
    "unfinished": ("docs/x.md", "one\n" + "TO" + "DO: two\n", "docs/x.md:2: 'TO" + "DO' marks unfinished"),
    "unfinished, another": ("tests/x.py", "# FIX" + "ME\n", "tests/x.py:1: 'FIX" + "ME'"),
    "unfinished, a third": ("bench/x.c", "/* X" + "XX */\n", "bench/x.c:1: 'X" + "XX'"),
    "trailing space": ("fuzz/x.c", "int a; \n", "fuzz/x.c:1: trailing whitespace"),
    "carriage return": ("tests/x.py", "a = 1\r\n", "tests/x.py:1: trailing whitespace"),
    "long line": ("bench/x.c", "/* " + "x" * 115 + " */\n", "bench/x.c:1: 121 columns"),
    "long line, counted with tabs": ("bench/x.c", "\tint " + "x" * 112 + ";\n", "bench/x.c:1: 121 columns"),
    "spaces for a tab": ("src/os/x.c", "void f(void) {\n    g();\n}\n", "src/os/x.c:2: indented with spaces"),
    "tab behind spaces": ("src/os/x.c", "void f(int a,\n  \tint b);\n", "src/os/x.c:2: a tab behind spaces"),
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
    return done.returncode, [line for line in done.stdout.splitlines() if not line.startswith("tidy: ")]


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


def test_a_missing_archive_is_said(tmp_path):
    plant(tmp_path, CLEAN)
    done = subprocess.run([sys.executable, TIDY, "--root", str(tmp_path), "--core", "nowhere.a"],
                          stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "nowhere.a" in done.stderr
