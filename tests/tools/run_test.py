"""tests/run by itself: what was skipped and may not be has failed, what fails prints the line that runs it again, and
an order is drawn the same by the same seed."""
import glob
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "runner"))
import counted as said  # noqa: E402
import jobs as runner  # noqa: E402
from job import Job, Report  # noqa: E402

PYTEST = """..s                                                                      [100%]
SKIPPED [2] tests/e2e/test_script.py:439: long: set SLUICE_SOAK_SECONDS
SKIPPED [1] tests/e2e/test_grpc.py:21: python3-grpcio is not installed
1 passed, 3 skipped in 1.00s
"""
CMOCKA = "[  SKIPPED ] {0}\n[==========] 2 test(s) run.\n[  PASSED  ] 1 test(s).\n" \
         "[  SKIPPED ] 1 test(s), listed below:\n[  SKIPPED ] {0}\n"


def add(monkeypatch, ci, name, output, counted):
    monkeypatch.delenv("SLUICE_CI", raising=False)
    if ci:
        monkeypatch.setenv("SLUICE_CI", "1")
    report = Report()
    report.add(Job(name, ["x"], said.count_pytest), list(counted), output, 1.0, "")
    return report


def test_what_may_not_be_skipped_has_failed(monkeypatch, capsys):
    report = add(monkeypatch, True, "tests/e2e", PYTEST, [1, 0, 3])
    assert (report.passed, report.failed, report.skipped) == (1, 1, 3) and report.end() == 1
    assert "FAILED tests/e2e: skipped, and not in tests/skipped: tests/e2e/test_grpc.py: python3-grpcio is not " \
           "installed\n" in capsys.readouterr().out


def test_elsewhere_it_is_told_and_counted_alone(monkeypatch):
    report = add(monkeypatch, False, "tests/e2e", PYTEST, [1, 0, 3])
    assert (report.failed, report.skipped, report.end()) == (0, 3, 0)


def test_of_c_a_test_is_named(monkeypatch):
    known = add(monkeypatch, True, "model/tokens_test (asan, ubsan)", CMOCKA.format("any_test"), [1, 0, 1])
    assert known.failed == 0
    other = add(monkeypatch, True, "unit/math_test", CMOCKA.format("any_test"), [1, 0, 1])
    assert other.failures == ["FAILED unit/math_test: skipped, and not in tests/skipped: unit/math_test: any_test"]


def test_who_skips_without_a_word_has_failed(monkeypatch):
    assert add(monkeypatch, True, "bindings/node/client", "# skipped 2\n", [5, 0, 2]).failed == 1


def test_every_line_of_the_list_names_a_file_that_is_there():
    lines = [known.split(":")[0] for known in said.may_be_skipped()]
    assert len(lines) > 9
    for name in lines:
        there = [name, "tests/" + name + ".c"]
        assert any(glob.glob(os.path.join(ROOT, path)) for path in there) or name in runner.BINDINGS_MADE, name


def test_the_line_that_runs_it_again(monkeypatch):
    monkeypatch.setenv("SLUICE_SEED", "7")
    job = Job("model/log_test seed 9 (tsan)", ["x"], said.count_cmocka, {"SLUICE_SEED": "9", "SLUICE_OPS": "5"})
    assert job.again([]) == ["SLUICE_OPS=5 SLUICE_SEED=9 tests/run --only 'model/log_test'"]
    job = runner.pytest_job("tests/e2e")
    assert job.again(["tests/e2e/test_a.py::test_b[c]", "tests/e2e/test_a.py::test_d"]) == [
        "SLUICE_SEED=7 tests/run --only 'tests/e2e/test_a.py'"]


def test_an_order_is_the_seeds(capsys):
    def order(seed):
        jobs = [runner.pytest_job("a", ["a/%d_test.py" % k for k in range(9)])]
        jobs += [Job(str(k), [], None) for k in range(9)]
        return [(job.name, job.argv[-9:]) for job in runner.shuffled(jobs, seed)]
    assert order(1) == order(1) != order(2)
    assert "tests/run --shuffle 1\n" in capsys.readouterr().out


def test_alone_each_file_is_a_job():
    two = runner.pytest_job("tests/x", ["tests/x/a.py", "tests/x/b.py"])
    jobs = runner.each_alone([two, Job("unit/a", ["a"], None)])
    assert [job.name for job in jobs] == ["tests/x a.py", "tests/x b.py", "unit/a"]
    assert [job.argv[-1] for job in jobs] == ["tests/x/a.py", "tests/x/b.py", "a"]
