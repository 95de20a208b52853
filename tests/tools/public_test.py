"""What a user of the library touches: the header under other compilers, the examples against the built and the
installed library, and the files that `make install` puts down."""
import os
import re
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.dirname(os.path.abspath(os.environ.get("SLUICE_BIN", os.path.join(ROOT, "build", "sluice"))))
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic"]


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    assert done.returncode == 0, "%s\n%s" % (" ".join(command), done.stdout)
    return done.stdout


def check_embed_output(output):
    lines = output.splitlines()
    assert len(lines) == 12
    for number, line in enumerate(lines, 1):
        match = re.fullmatch(r" ?(\d+): (allowed|denied), (\d+) left, retry after (\d+) ms", line)
        assert match and int(match[1]) == number, line
        assert match[2] == ("allowed" if number <= 5 else "denied"), line
        assert int(match[3]) == max(0, 5 - number), line
        if number <= 5:
            assert int(match[4]) == 0, line
        else:
            assert 59000 <= int(match[4]) <= 60001, line


# What C and C++ both are: every kind of thing that the header declares, used.
HEADER_USER = r"""
#include "sluice.h"
#include <stdio.h>
#include <string.h>

int main(int count, char **arguments) {
	struct sluice_store_options options;
	struct sluice_store_stats stats;
	struct sluice_store *store = NULL;
	struct sluice_limit limit;
	struct sluice_error error;
	struct sluice_decision decision, each[1];
	struct sluice_item item;
	struct sluice_call call;
	struct sluice_bytes text = {"5/1h", 4}, key = {"k", 1};
	memset(&options, 0, sizeof options);
	memset(&item, 0, sizeof item);
	memset(&call, 0, sizeof call);
	options.file = count > 1 ? arguments[1] : NULL;
	options.memory_bytes = 1 << 20;
	if (sluice_limit_parse(&limit, text, &error) != SLUICE_OK ||
	    sluice_store_open(&store, &options, &error) != SLUICE_OK) {
		puts(error.text);
		return 1;
	}
	if (sluice_check(store, &limit, key, 2, &decision) != SLUICE_OK || !decision.allowed)
		return 1;
	item.limit = &limit;
	item.key = key;
	call.items = &item;
	call.item_count = 1;
	call.cost = 1;
	call.operation = SLUICE_PEEK;
	call.now = sluice_store_now(store);
	call.each = each;
	if (sluice_store_pretouch(store, 0, 1) != 0 && count > 1)
		return 1;
	sluice_decide_many(store, &call, 1);
	sluice_store_stats(store, &stats);
	if (call.err != SLUICE_OK || sluice_store_verify(store) != NULL || stats.processes != 1)
		return 1;
	printf("%u left in a store of %llu bytes\n", (unsigned)call.merged.remaining,
	       (unsigned long long)stats.memory_bytes);
	sluice_store_close(store);
	return 0;
}
"""


@pytest.mark.parametrize("compiler, language", [
    ("clang++", "c++11"), ("clang++", "c++17"), ("g++", "c++17"), ("g++", "c++20"), ("clang", "c99"), ("clang", "c11"),
    ("gcc", "c99"), ("gcc", "c11"), ("gcc", "c17")])
def test_the_header_under(tmp_path, compiler, language):
    if not shutil.which(compiler):
        pytest.skip("%s is not installed" % compiler)
    source = tmp_path / ("x.cc" if "++" in language else "x.c")
    source.write_text(HEADER_USER)
    program = str(tmp_path / "x")
    run(compiler, "-std=" + language, *WARNINGS, "-I" + os.path.join(ROOT, "include"), str(source),
        os.path.join(BUILD, "libsluice.a"), "-lyaml", "-pthread", "-o", program)
    assert run(program) == "3 left in a store of 1048576 bytes\n"
    assert run(program, str(tmp_path / "store")) == "3 left in a store of 1048576 bytes\n"
    assert run(program, str(tmp_path / "store")) == "1 left in a store of 1048576 bytes\n"


@pytest.mark.parametrize("compiler", ["gcc", "clang++"])
def test_the_header_alone(tmp_path, compiler):
    """It includes whatever it needs, whatever stands before it, and may be included twice."""
    if not shutil.which(compiler):
        pytest.skip("%s is not installed" % compiler)
    source = tmp_path / ("x.cc" if "++" in compiler else "x.c")
    source.write_text('#include "sluice.h"\n#include "sluice.h"\nint main() { return sluice_now() == SLUICE_NEVER; }\n')
    run(compiler, *WARNINGS, "-I" + os.path.join(ROOT, "include"), "-fsyntax-only", str(source))


def test_prefork(tmp_path):
    program, store = str(tmp_path / "prefork"), str(tmp_path / "store")
    run(*os.environ.get("CC", "cc").split(), "-std=c11", *WARNINGS, "-I" + os.path.join(ROOT, "include"),
        os.path.join(ROOT, "examples", "prefork.c"), os.path.join(BUILD, "libsluice.a"), "-lyaml", "-pthread",
        "-o", program)
    for arguments, sum_admitted in ([], 1000), ([store], 1000), ([store], 0):
        process = subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, text=True)
        *workers, last = process.communicate(timeout=60)[0].splitlines()
        admitted = [int(re.fullmatch(r"a worker was admitted (\d+) times", line)[1]) for line in workers]
        assert process.returncode == 0 and len(admitted) == 4 and sum(admitted) == sum_admitted
        assert last == "admitted %d of 4000" % sum_admitted
        assert not os.path.exists("/dev/shm/sluice-prefork-%d" % process.pid)


def test_embed_against_the_built_library(tmp_path):
    program = str(tmp_path / "embed")
    run(*os.environ.get("CC", "cc").split(), "-std=c11", *WARNINGS, "-I" + os.path.join(ROOT, "include"),
        os.path.join(ROOT, "examples", "embed.c"), os.path.join(BUILD, "libsluice.a"), "-lyaml", "-pthread",
        "-o", program)
    check_embed_output(run(program))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("install")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    run("make", "--no-print-directory", "install", "DESTDIR=%s" % folder, "PREFIX=/opt/sluice", "O=" + BUILD, cwd=ROOT,
        env=environment)
    return folder


def test_what_is_installed(installed):
    found = sorted(os.path.relpath(os.path.join(folder, name), installed / "opt" / "sluice")
                   for folder, _, names in os.walk(installed) for name in names)
    for path in ("bin/sluice", "include/sluice.h", "lib/libsluice.a", "lib/libsluice.so", "lib/libsluice.so.0",
                 "lib/libsluice.so.0.1.0", "lib/pkgconfig/sluice.pc", "share/doc/sluice/LICENSE",
                 "share/doc/sluice/README.md", "share/doc/sluice/docs/limits.md", "share/doc/sluice/examples/embed.c",
                 "share/doc/sluice/examples/prefork.c", "share/doc/sluice/examples/sluice.yaml",
                 "share/man/man1/sluice.1", "share/man/man5/sluice.yaml.5", "lib/systemd/system/sluice.service",
                 "lib/systemd/system/sluice.socket"):
        assert path in found, found
    assert "0.1.0" in run(str(installed / "opt" / "sluice" / "bin" / "sluice"), "version")


def test_links_of_what_is_installed(installed):
    """From a document to a document, an example, the header: all lie beside each other as in the tree."""
    top = installed / "opt" / "sluice" / "share" / "doc" / "sluice"
    dead, links = [], 0
    for folder, _, names in os.walk(top):
        for name in (name for name in names if name.endswith(".md")):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = re.sub(r"```.*?```", "", file.read(), flags=re.S)
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
                links += 1
                if not re.match(r"[a-z]+:", target) and not os.path.exists(os.path.join(folder, target)):
                    dead.append("%s: %s" % (name, target))
    assert links > 100 and not dead, dead


def test_uninstall_leaves_what_is_not_ours(tmp_path):
    """The same files, and no other: what an operator put beside them stays."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    where = ["DESTDIR=%s" % tmp_path, "PREFIX=/opt/sluice", "O=" + BUILD]
    others = [tmp_path / "opt" / "sluice" / path for path in ("bin/other", "lib/libother.so", "share/man/man1/other.1")]
    run("make", "--no-print-directory", "install", *where, cwd=ROOT, env=environment)
    for path in others:
        path.write_text("not ours")
    run("make", "--no-print-directory", "uninstall", *where, cwd=ROOT, env=environment)
    found = [os.path.join(folder, name) for folder, _, names in os.walk(tmp_path) for name in names]
    assert sorted(found) == sorted(map(str, others))


@pytest.mark.parametrize("linked", ["shared", "static"])
def test_embed_by_pkg_config(installed, tmp_path, linked):
    library = str(installed / "opt" / "sluice" / "lib")
    environment = {**os.environ, "PKG_CONFIG_PATH": os.path.join(library, "pkgconfig"),
                   "PKG_CONFIG_SYSROOT_DIR": str(installed), "LD_LIBRARY_PATH": library}
    assert run("pkg-config", "--modversion", "sluice", env=environment).strip() == "0.1.0"
    flags = run("pkg-config", "--cflags", "--libs", *(["--static"] if linked == "static" else []), "sluice",
                env=environment).split()
    program = str(tmp_path / "embed")
    if linked == "static":
        # Only Sluice's own archive: the libraries that it needs stay shared.
        flags = ["-l:libsluice.a" if flag == "-lsluice" else flag for flag in flags]
    run(*os.environ.get("CC", "cc").split(), os.path.join(ROOT, "examples", "embed.c"), *flags, "-o", program,
        env=environment)
    needed = run("readelf", "-d", program)
    assert ("libsluice.so.0" in needed) == (linked == "shared"), needed
    check_embed_output(run(program, env=environment))
