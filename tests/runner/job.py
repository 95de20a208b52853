"""Programs that are run, two at a time, and what is told of them."""

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time

from counted import count_fuzz, count_pytest, executed, missed, names_of_failed, reasons_of_failed, told
from places import AT_A_TIME, FAILED, JOB_SECONDS_MAX, ROOT, SKIPPED, WAITING

TAIL_LINES = 60
PROGRESS = re.compile(r"^[.sxFE]+ +\[ *\d+%\]$")  # pytest's dots
ENVIRONMENT = {
    "ASAN_OPTIONS": "abort_on_error=0:detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


class Job:
    """One program to run. `count` finds [passed, failed, skipped] in its output, or None where it says nothing. One
    that `waits` spends most of its time so: it runs beside those that compute.
    """

    def __init__(self, name, argv, count, env=None, seconds_max=JOB_SECONDS_MAX):
        self.name, self.argv, self.count, self.seconds_max = name, argv, count, seconds_max
        self.env, self.waits, self.processor_seconds = env or {}, False, 0.0

    def run(self):
        start = time.monotonic()
        if not os.path.exists(os.path.join(ROOT, self.argv[0])):
            return self.result([0, 1, 0], "was not built\n", start, "not built")
        output, status, usage, late = self.end_of(self.begin())
        trouble = "still running after %d s" % self.seconds_max if late else ended_by(status)
        self.processor_seconds = usage.ru_utime + usage.ru_stime
        counted = None if trouble and self.count is count_fuzz else self.count(output)
        if counted is None:
            return self.result([0, 1, 0], output, start, trouble or "said no count of its tests")
        counted[1] += 1 if trouble and not counted[1] else 0
        return self.result(counted, output, start, trouble)

    def begin(self):
        """In a session of its own: what a hanging test started is ended with it, and nothing else is."""
        return subprocess.Popen(flat_addresses() + self.argv, cwd=ROOT, stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
                                env={**os.environ, **ENVIRONMENT, **self.env}, start_new_session=True)

    def end_of(self, process):
        """What it said, its exit status, what it and those it waited for used, and whether it had to be ended."""
        late = threading.Event()

        def stop():
            late.set()
            os.killpg(process.pid, signal.SIGKILL)
        timer = threading.Timer(self.seconds_max, stop)
        timer.start()
        with process.stdout:
            output = process.stdout.read()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its id is its own until the timer can't fire
        timer.cancel()
        timer.join()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return output, process.returncode, usage, late.is_set()

    def again(self, names):
        """The lines that run it once more: of Python the files that failed, of all else the job."""
        files = [path for path in dict.fromkeys(name.split("::")[0] for name in names) if path.startswith("tests/")
                 and self.count is count_pytest]
        env = {k: v for k, v in sorted({**{k: v for k, v in os.environ.items() if k.startswith("SLUICE_SEED")},
                                        **self.env}.items())
               if k.startswith("SLUICE_") and not v.startswith("/")}
        words = "".join("%s=%s " % pair for pair in env.items())
        name = self.name.split(" seed ")[0]
        return ["%stests/run --only '%s'" % (words, file) for file in files or [name]]

    def result(self, counted, output, start, trouble):
        return self, counted, output, time.monotonic() - start, trouble


def ended_by(status):
    if status < 0:
        return "ended by %s" % signal.Signals(-status).name
    return "exit status %d" % status if status else ""


def flat_addresses(cache=[]):
    """Sanitizers want their shadow where they expect it; too random a layout breaks them on some kernels."""
    if not cache:
        works = subprocess.run(["setarch", "-R", "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cache.append(["setarch", "-R"] if works.returncode == 0 else [])
    return cache[0]


class Report:
    def __init__(self):
        self.passed = self.failed = self.skipped = self.executed = 0
        self.processor_seconds = 0.0  # of all jobs
        self.failures = []  # lines: which test, then why
        self.lock = threading.Lock()

    def add(self, job, counted, output, seconds, trouble):
        passed, failed, skipped = counted
        absent = missed(job.name, output, skipped) if os.environ.get("SLUICE_CI") else []
        failed += len(absent)
        with self.lock:
            self.passed += passed
            self.failed += failed
            self.skipped += skipped
            self.executed += executed(output)
            self.processor_seconds += job.processor_seconds
            print("%-6s %-44s %5d passed%s%s  %6.1f s, %6.1f s of processor%s" % (
                "FAILED" if failed else "ok", job.name, passed, ", %d failed" % failed if failed else "",
                ", %d skipped" % skipped if skipped else "", seconds, job.processor_seconds,
                "  " + trouble if trouble else ""))
            for name in absent:
                self.failures.append("FAILED %s: skipped, and not in %s: %s" % (job.name, SKIPPED, name))
                print("    skipped, and not in %s: %s" % (SKIPPED, name))
            if failed > len(absent):
                self.tell_failed(job, output, trouble)
            for line in re.findall(r"^SKIPPED.*$", output, re.M) + ([] if failed else told(output)):
                print("         " + line[:200])
            sys.stdout.flush()

    def tell_failed(self, job, output, trouble):
        names = names_of_failed(output) or [trouble or "it said no name"]
        self.failures += ["FAILED %s: %s" % (job.name, name) for name in names]
        self.failures += ["    " + line for line in reasons_of_failed(output)]
        for name in names:
            print("    failed: " + name)
        for line in job.again(names):
            self.failures.append("    again: " + line)
            print("    again: " + line)
        os.makedirs(os.path.join(ROOT, FAILED), exist_ok=True)
        kept = os.path.join(FAILED, re.sub(r"\W+", "-", job.name).strip("-") + ".txt")
        with open(os.path.join(ROOT, kept), "w", encoding="utf-8") as f:
            f.write(output)
        print("    its last lines; all is in " + kept)
        for line in [line for line in output.splitlines() if not PROGRESS.match(line)][-TAIL_LINES:]:
            print("    | " + line)

    def end(self):
        print("processor: %.0f s, of jobs and of what they waited for" % self.processor_seconds)
        for line in self.failures:
            print(line)
        print("%d passed, %d failed%s" % (self.passed, self.failed,
                                          ", %d skipped" % self.skipped if self.skipped else ""))
        return 1 if self.failed or not self.passed else 0


def run_all(report, jobs):
    """Two at a time, in the order given: the long ones stand first; and beside them four of those that mostly wait, of
    which there are six once nothing is left to compute."""
    computing, waiting = queue.Queue(), queue.Queue()
    for job in jobs:
        (waiting if job.waits else computing).put(job)

    def work(*queues):
        for left in queues:
            while True:
                try:
                    job = left.get_nowait()
                except queue.Empty:
                    break
                report.add(*job.run())
    threads = [threading.Thread(target=work, args=queues)
               for queues in [(computing, waiting)] * AT_A_TIME + [(waiting,)] * WAITING]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def beside_load(report, jobs):
    """While twice as many loops as there are processors do nothing but run."""
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        print("under load: %d jobs beside %d busy loops" % (len(jobs), len(loops)))
        run_all(report, jobs)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
