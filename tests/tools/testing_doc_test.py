"""docs/testing.md names files, folders and commands: all of them are there, and no folder of tests is left out."""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NO_TESTS = {"cases", "golden", "foreign", "envoy", "runner"}  # what tests read, and what runs them


def page():
    with open(os.path.join(ROOT, "docs", "testing.md"), encoding="utf-8") as file:
        return file.read()


def named():
    return set(re.findall(r"`((?:tests|fuzz|tools|bench)/[\w./-]*)`", page()))


def test_what_it_names_is_there():
    missing = {path for path in named() if not os.path.exists(os.path.join(ROOT, path))}
    assert not missing
    folders = [os.path.dirname(path) for path in named() if path.endswith((".c", ".py"))]
    for line in page().splitlines():  # `tests/model/a_test.c`, `b_test.c`
        for name in re.findall(r"`(\w+\.(?:c|py))`", line):
            assert any(os.path.exists(os.path.join(ROOT, folder, name)) for folder in folders), name


def test_no_folder_of_tests_is_left_out():
    folders = {name for name in os.listdir(os.path.join(ROOT, "tests"))
               if os.path.isdir(os.path.join(ROOT, "tests", name)) and not name.startswith(("_", "."))}
    left_out = {name for name in folders - NO_TESTS if not any(path.startswith(f"tests/{name}") for path in named())}
    assert not left_out


def test_the_sanitized_files_are_those_that_are_run():
    with open(os.path.join(ROOT, "tests", "runner", "jobs.py"), encoding="utf-8") as file:
        text = file.read()
    for constant in ("SANITIZED_E2E", "THREADED_E2E", "MODULE_E2E"):
        assert re.search(rf"^{constant} = \(", text, re.M), f"{constant}: docs/testing.md tells what runs sanitized"
