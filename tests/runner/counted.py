"""What a test program's output says: how many passed, which failed and why, what was skipped."""

import fnmatch
import os
import re

from places import ROOT, SKIPPED

REASON_LINES, REASON_COLUMNS = 20, 300


def count_cmocka(output):
    total = [sum(int(n) for n in re.findall(r"^\[  %s *\] (\d+) test" % word, output, re.M))
             for word in ("PASSED", "FAILED", "SKIPPED")]
    return total if sum(total) else None


def count_pytest(output):
    words = dict((word.rstrip("s"), int(n)) for n, word in
                 re.findall(r"(\d+) (passed|failed|errors?|skipped|xfailed)\b", last_line(output)))
    total = [words.get("passed", 0), words.get("failed", 0) + words.get("error", 0), words.get("skipped", 0)]
    return total if sum(total) else None


def executed(output):
    """How many inputs a fuzzer has tried."""
    found = re.search(r"^stat::number_of_executed_units: (\d+)", output, re.M)
    return int(found.group(1)) if found else 0


def count_fuzz(output):
    return [1, 0, 0] if executed(output) else None


def count_node(output):
    total = [sum(int(n) for n in re.findall(r"^# %s (\d+)$" % word, output, re.M))
             for word in ("pass", "fail", "skipped")]
    total[1] += sum(int(n) for n in re.findall(r"^# cancelled (\d+)$", output, re.M))
    return total if sum(total) else None


def count_findings(output):
    found = re.search(r"^analyze: \d+ findings, \d+ judged, (\d+) new, (\d+) rows too many$", output, re.M)
    wrong = int(found.group(1)) + int(found.group(2)) if found else 0
    return [int(wrong == 0), wrong, 0] if found else None


def count_mutants(output):
    found = re.search(r"^mutants: \d+ valid, (\d+) killed, (\d+) survived.*? ([\d.]+)% found$", output, re.M)
    return [int(found.group(1)), 0, 0] if found else None


def names_of_failed(output):
    """As cmocka, pytest and node say them, and which test a program was in when it ended."""
    found = re.findall(r"^\[  FAILED  \] (\w+)$", output, re.M)
    found += re.findall(r"^(?:FAILED|ERROR) ((?:tests|bindings)/.+?)(?: - .*)?$", output, re.M)
    found += re.findall(r"^ *not ok \d+ - (.+)$", output, re.M)
    running = re.findall(r"^\[ RUN      \] (\w+)$", output, re.M)
    if running and running[-1] not in re.findall(r"^\[ *(?:OK|FAILED|SKIPPED) *\] (\w+)$", output, re.M):
        found.append(running[-1] + " (had not ended)")
    return list(dict.fromkeys(found))


def reasons_of_failed(output):
    """The lines that say why: pytest's own, with what the test printed of itself, and cmocka's."""
    found = re.findall(r"^(E  +\S.*)$", output, re.M)
    found += re.findall(r"^\[  ERROR   \] (.+)$", output, re.M)
    return [line[:REASON_COLUMNS] for line in found][:REASON_LINES]


def skips(job_name, output):
    """[(how many, "file or job: test or reason")] of what was skipped, as pytest, cmocka and node say it."""
    found = [(int(count), "%s: %s" % (where, why)) for count, where, why in
             re.findall(r"^SKIPPED \[(\d+)\] (\S+?)(?::\d+)?: (.*)$", output, re.M)]
    found += [(1, "%s: %s" % (job_name.split(" ")[0], test))
              for test in dict.fromkeys(re.findall(r"^\[  SKIPPED \] (\w+)$", output, re.M))]
    found += [(1, "%s: %s" % (job_name, why)) for why in re.findall(r"^SKIPPED (?!\[)(.*)$", output, re.M)
              if "/node" in job_name]
    return found


def may_be_skipped(cache=[]):
    """The patterns of tests/skipped."""
    if not cache:
        with open(os.path.join(ROOT, SKIPPED), encoding="utf-8") as f:
            lines = [line for line in f.read().splitlines() if line and not line.startswith("#")]
        assert all(line.startswith("    ") == bool(k % 2) for k, line in enumerate(lines)), SKIPPED + ": what, then why"
        cache += [line.replace("[", "[[]") for line in lines[::2]]
    return cache


def missed(job_name, output, skipped):
    """What was skipped and may not be; with those that said nothing of themselves."""
    said = skips(job_name, output)
    silent = skipped - sum(count for count, _ in said)
    found = [name for _, name in said if not any(fnmatch.fnmatchcase(name, known) for known in may_be_skipped())]
    return found + ["%s: %d tests, without a word" % (job_name, silent)] * (silent > 0)


def last_line(output):
    lines = output.strip().splitlines()
    return lines[-1] if lines else ""


def told(output):
    """What a passing test says that a person wants to keep: seeds and totals."""
    keep = [line.strip() for line in output.splitlines()
            if re.search(r"seed|^mutants: |^faults: |^found:|^p99:|upgrades,|resident|connections:|^kept:", line, re.I)
            and not line.startswith(("INFO: ", "[", "SKIPPED"))]
    seed = re.search(r"^INFO: Seed: (\d+)", output, re.M)
    edges = re.findall(r" cov: (\d+) ", output)
    if executed(output) and seed:
        keep.append("seed %s, %d inputs, %s edges" % (seed.group(1), executed(output), edges[-1] if edges else "no"))
    return [line[:110] for line in keep[:12]]
