"""What a user of the library touches: the header under other compilers, examples/embed.c against the built and the
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


@pytest.mark.parametrize("compiler, language", [("clang++", "c++11"), ("clang++", "c++17"), ("clang", "c99"),
                                                ("clang", "c11"), ("gcc", "c99"), ("gcc", "c17")])
def test_the_header_stands_alone(tmp_path, compiler, language):
    if compiler == "gcc" and not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    source = tmp_path / ("x.cc" if "++" in language else "x.c")
    source.write_text('#include "sluice.h"\nint main() {\n\tstruct sluice_decision d;\n\t(void)sizeof d;\n\treturn '
                      "(int)(sluice_now() == SLUICE_NEVER);\n}\n" if "++" in language else
                      '#include "sluice.h"\nint main(void) {\n\treturn sluice_now() == SLUICE_NEVER;\n}\n')
    program = str(tmp_path / "x")
    run(compiler, "-std=" + language, *WARNINGS, "-I" + os.path.join(ROOT, "include"), str(source),
        os.path.join(BUILD, "libsluice.a"), "-lyaml", "-pthread", "-o", program)
    run(program)


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
                 "share/doc/sluice/README.md", "share/doc/sluice/limits.md", "share/doc/sluice/examples/embed.c",
                 "share/doc/sluice/examples/sluice.yaml"):
        assert path in found, found
    assert "0.1.0" in run(str(installed / "opt" / "sluice" / "bin" / "sluice"), "version")


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
