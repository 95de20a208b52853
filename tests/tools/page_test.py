"""What builds the dashboard: tools/embed writes files into C exactly as they are, tools/charts makes do without npm,
and make notices when npm comes or goes."""
import os
import stat
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "hosts", "server", "page")

PRINT = r"""
#include "hosts/server/http/page.h"
#include <stdio.h>
int main(void) {
	for (uint32_t i = 0; i < sl_page_file_count; i++) {
		printf("%s|%s|%s|%zu|", sl_page_files[i].path, sl_page_files[i].content_type, sl_page_files[i].etag,
		       sl_page_files[i].len);
		for (size_t j = 0; j < sl_page_files[i].len; j++)
			printf("%02x", sl_page_files[i].bytes[j]);
		printf("\n");
	}
	return 0;
}
"""


def run(*command, **options):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          cwd=ROOT, timeout=120, **options)


def embed(out, *pairs):
    return run("tools/embed", out, *pairs)


def compiler():
    return next(c for c in ("gcc", "clang", "cc") if run("sh", "-c", f"command -v {c}").returncode == 0)


def test_files_are_embedded_byte_for_byte(tmp_path):
    everything = bytes(range(256)) * 5 + b"\\\"??/\n\0"
    contents = {"/": ("a.html", everything), "/dashboard/b.js": ("b.js", b"\0"), "/dashboard/c.css": ("c.css", b"x\n"),
                "/dashboard/d.svg": ("d.svg", b"\xff" * 1000)}
    pairs = []
    for path, (name, data) in contents.items():
        (tmp_path / name).write_bytes(data)
        pairs.append(f"{path}={tmp_path / name}")
    out = tmp_path / "files.c"
    assert embed(out, *pairs).stdout == ""
    (tmp_path / "print.c").write_text(PRINT)
    built = run(compiler(), "-Wall", "-Werror", "-I.", tmp_path / "print.c", out, "-o", tmp_path / "print")
    assert built.returncode == 0, built.stdout
    rows = [line.split("|") for line in run(tmp_path / "print").stdout.splitlines()]
    assert [(row[0], bytes.fromhex(row[4])) for row in rows] == [(path, data) for path, (_, data) in contents.items()]
    assert [row[1].split(";")[0] for row in rows] == ["text/html", "text/javascript", "text/css", "image/svg+xml"]
    tags = [row[2] for row in rows]
    assert len(set(tags)) == 4 and all(tag[0] == tag[-1] == '"' for tag in tags)
    (tmp_path / "c.css").write_bytes(b"y\n")
    embed(out, *pairs)
    assert tags[2] not in out.read_text().replace("\\", "") and tags[1].strip('"') in out.read_text()


@pytest.mark.parametrize("pairs, said", [
    ([], "expected OUT.c PATH=FILE..."),
    (["x.js"], "expected PATH=FILE with a PATH that begins with /"),
    (["/x.js=/nowhere/x.js"], "/nowhere/x.js: not there, or empty"),
    (["/x=tools/embed"], "expected a name that ends in .html, .js, .css, .svg or .json"),
])
def test_what_cannot_be_embedded_is_refused_and_writes_nothing(tmp_path, pairs, said):
    out = tmp_path / "files.c"
    done = embed(out, *pairs)
    assert (done.returncode, out.exists()) == (2, False)
    assert said in done.stdout


def npm_that(tmp_path, script):
    program = tmp_path / "npm"
    program.write_text("#!/bin/sh\n" + script)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_charts_without_npm_say_why(tmp_path):
    done = run("tools/charts", "", PAGE, tmp_path)
    assert done.returncode == 0
    assert "the dashboard is built without charts: npm was not found" in done.stdout
    assert (tmp_path / "uplot.js").read_text() == (
        "globalThis.chartsMissing = 'built without charts: npm was not found, or CHARTS=0 was given';\n")
    assert (tmp_path / "uplot.css").stat().st_size > 0 and (tmp_path / "charts-missing").exists()


def test_charts_with_a_failing_npm_say_what_it_said_and_no_code(tmp_path):
    npm = npm_that(tmp_path, "echo \"npm error code E'); alert(1); ('\\\\\" >&2; exit 1\n")
    done = run("tools/charts", npm, PAGE, tmp_path / "out")
    assert done.returncode == 0
    text = (tmp_path / "out" / "uplot.js").read_text()
    assert "npm ci failed: code E); alert(1); (" in text and text.count("'") == 2 and "\\" not in text


def test_charts_come_from_what_is_locked_with_their_licence(tmp_path):
    npm = npm_that(tmp_path, """[ "$1" = ci ] && [ -s package-lock.json ] || exit 1
case "$*" in *--ignore-scripts*) ;; *) exit 1 ;; esac
mkdir -p node_modules/uplot/dist
echo 'The MIT License' >node_modules/uplot/LICENSE
echo 'var uPlot;' >node_modules/uplot/dist/uPlot.iife.min.js
echo '.uplot{}' >node_modules/uplot/dist/uPlot.min.css
""")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "charts-missing").write_text("the last time\n")
    done = run("tools/charts", npm, PAGE, tmp_path / "out")
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "out" / "uplot.js").read_text() == "/*! uPlot\nThe MIT License\n*/\nvar uPlot;\n"
    assert not (tmp_path / "out" / "charts-missing").exists()


def test_make_notices_when_npm_comes(tmp_path):
    folder = {"O": str(tmp_path), "MAKEFLAGS": ""}
    target = f"{tmp_path}/page/files.c"

    def make(*settings):
        done = run("make", f"O={tmp_path}", *settings, target, env={**os.environ, **folder})
        assert done.returncode == 0, done.stdout
        return done.stdout

    assert "built without charts" in make("CHARTS=0")
    assert "is up to date" in make("CHARTS=0")
    npm = npm_that(tmp_path, "echo 'npm error code ENOTFOUND' >&2; exit 1\n")
    path = f"{npm.parent}:{os.environ['PATH']}"
    folder["PATH"] = path
    assert "npm ci failed: code ENOTFOUND" in make()
    assert "npm ci failed: code ENOTFOUND" in make(), "what failed is tried again"
    npm_that(tmp_path, """mkdir -p node_modules/uplot/dist && cd node_modules/uplot
echo licence >LICENSE; echo 'var uPlot;' >dist/uPlot.iife.min.js; echo '.u{}' >dist/uPlot.min.css
""")
    assert "without charts" not in make()
    assert "is up to date" in make()
