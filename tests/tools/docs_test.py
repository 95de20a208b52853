"""What the documents say is what happens: the README's commands are run as printed and answered as printed, its policy
loads, its links lead somewhere, and what `make run` says to type is what the README answers."""
import os
import re
import subprocess
import threading

import pytest

import shown
from shown import at_a_terminal, lines_agree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SLUICE = os.path.abspath(os.environ.get("SLUICE_BIN", os.path.join(ROOT, "build", "sluice")))
DOCUMENTS = sorted(
    os.path.relpath(os.path.join(folder, name), ROOT)
    for top in (".", "docs") for folder, _, names in os.walk(os.path.join(ROOT, top)) for name in names
    if name.endswith(".md") and (top == "docs" or folder == os.path.join(ROOT, ".")))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def commands():
    """[(command, expected lines)] of the README's console blocks between the "try" marks."""
    return shown.commands(re.search(r"<!-- try -->(.*)<!-- /try -->", read("README.md"), re.S).group(1))


@pytest.fixture(scope="module")
def ports():
    """A server as `make run` starts it, but on free ports."""
    process = subprocess.Popen([SLUICE, "serve", "-c", "examples/sluice.yaml", "--resp", "127.0.0.1:0", "--http",
                                "127.0.0.1:0"], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    found = {}
    for line in process.stderr:
        match = re.match(r"sluice: (resp|http) on 127\.0\.0\.1:(\d+)", line)
        if match:
            found[match[1]] = match[2]
        if line.strip() == "sluice: ready":
            break
    assert set(found) == {"resp", "http"}
    yield found
    process.terminate()
    status = process.wait(30)
    watchdog.cancel()
    process.stderr.close()
    assert status == 0


def test_the_comparison_can_fail():
    assert lines_agree(["a 60001", "x", "z;t=59"], ["a 60000", "...", "z;t=60"])
    assert lines_agree(["z;t=56"], ["z;t=60"], 3.2) and not lines_agree(["z;t=55"], ["z;t=60"], 3.2)
    assert not lines_agree(["a 1"], ["a 2"])
    assert not lines_agree(["a 60001"], ["a 50000"])
    assert not lines_agree(["a", "b"], ["a"])
    assert not lines_agree(["a"], ["a", "b"])
    assert not lines_agree(["abx"], ["ac..."])


def test_the_readme_has_commands():
    assert len(commands()) >= 4 and all(expected for _, expected in commands())


@pytest.mark.parametrize("number", range(len(commands())))
def test_the_readme_answers_as_printed(ports, number):
    command, expected = commands()[number]
    command = command.replace("7379", ports["resp"]).replace("7380", ports["http"])
    command = at_a_terminal(command)
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20)
    told = [line.rstrip() for line in done.stdout.decode().rstrip("\n").split("\n")]
    assert done.returncode == 0 and lines_agree(told, expected), "\n".join(told)


def test_make_run_says_what_the_readme_answers():
    told = subprocess.run([os.path.join(ROOT, "tools", "next")], stdout=subprocess.PIPE, text=True, check=True).stdout
    for command, _ in commands():
        assert "  " + command in told.splitlines()


def lint(path):
    return subprocess.run([SLUICE, "lint", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_the_policies_shown_load(tmp_path):
    done = lint(os.path.join(ROOT, "examples", "sluice.yaml"))
    assert done.returncode == 0, done.stdout
    blocks = re.findall(r"```yaml\n(.*?)```", read("README.md") + read("docs/tour.md"), re.S)
    assert blocks
    for number, block in enumerate(blocks):
        path = tmp_path / ("%d.yaml" % number)
        path.write_text(block)
        done = lint(str(path))
        assert done.returncode in (0, 1) and ": error" not in done.stdout, done.stdout


@pytest.mark.parametrize("path", DOCUMENTS)
def test_links_lead_somewhere(path):
    text = re.sub(r"```.*?```", "", read(path), flags=re.S)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not re.match(r"[a-z]+:", target):
            assert os.path.exists(os.path.join(ROOT, os.path.dirname(path), target)), target


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_page_that_imports_a_package_says_where_it_comes_from(path):
    """No registry has them, so whoever only reads `require('sluice')` could go no further."""
    blocks = "".join(re.findall(r"```(?:js|python|ts|mjs)\n(.*?)```", read(path), re.S))
    if re.search(r"(?:require\(|from )['\"]sluice|^(?:import|from) sluice\b", blocks, re.M):
        assert re.search(r"`make bindings`|apps\.md#(node|python)|bindings/(node|python)", read(path)), path


def packages_of_deps():
    """Rows of its table: set, package, how its presence is seen."""
    rows = [line.split() for line in read("tools/deps").split("TABLE='")[1].split("'")[0].splitlines() if line]
    assert len(rows) > 50 and all(len(row) == 3 for row in rows)
    return rows


def test_tools_deps_names_what_a_set_needs_once():
    rows = packages_of_deps()
    for i, row in enumerate(rows):
        assert row not in rows[:i], row


def test_a_release_installs_what_its_packages_are_built_with():
    """dpkg asks for build-essential without its being in debian/control."""
    wanted = re.search(r"^Build-Depends:\n((?: .*\n)+)", read("debian/control"), re.M)[1]
    packages = {line.split()[0].strip(",") for line in wanted.splitlines()} - {"debhelper-compat"}
    table = {row[1].split(":")[0] for row in packages_of_deps() if row[0] in ("build", "deb")}
    assert len(packages) > 5 and packages | {"build-essential", "debhelper"} <= table, packages - table


def test_every_design_decision_is_listed():
    listed = read("docs/design/README.md")
    for name in os.listdir(os.path.join(ROOT, "docs", "design")):
        assert name == "README.md" or "(%s)" % name in listed, name
