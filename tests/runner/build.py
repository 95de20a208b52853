"""Builds what jobs run, keeping on after errors so that one broken test does not hide the others."""

import os
import re
import subprocess
import sys
import textwrap
import threading
import time

from job import Job
from jobs import BINDINGS_MADE, NEWER_SERVERS, NGINX_SANITIZED
from places import ASAN, AT_A_TIME, FUZZ, NODE_ADDON, POINTS, ROOT, TSAN


def make(report, *arguments):
    """Builds, keeping on after errors so that one broken test does not hide the others."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    start = time.monotonic()
    done = subprocess.run(["make", "--no-print-directory", "-k", "-j%d" % AT_A_TIME, *arguments], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", env=environment)
    name = textwrap.shorten("make " + " ".join(arguments), 58, placeholder=" ...")
    if done.returncode:
        said = re.sub(r"^  (CC|AR|LD) .*\n", "", done.stdout, flags=re.M)
        report.add(Job(name, ["make"], None), [0, 1, 0], said, time.monotonic() - start, "does not build")
    else:
        print("built  %-58s  %6.1f s" % (name, time.monotonic() - start))
        sys.stdout.flush()


def build_foreign():
    """Programs in Go that end-to-end tests run, minutes the first time; and newer servers than Debian 12 has. Without
    them those tests say why they skip."""
    for command in (["tests/foreign/build.py", "ratelimit", "verdict", "grpcurl", "h2spec"],
                    ["tests/foreign/servers.py", *NEWER_SERVERS]):
        start = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        print("%-6s %-58s  %6.1f s" % ("left" if done.returncode else "built",
                                       (done.stderr.strip() or command[0])[-58:], time.monotonic() - start))
        sys.stdout.flush()


def build_for(report, jobs, only):
    """What these jobs run; with sanitizers, or for a word, no program more."""
    def wanted(build):
        return [job.argv[0] for job in jobs if job.argv[0].startswith(build + "/")]

    foreign = threading.Thread(target=build_foreign)  # which waits for what is fetched, more than it computes
    if any(job.name.startswith("tests/e2e") for job in jobs) and not only:
        foreign.start()
    plain = [path for path in wanted("build") if not path.startswith((ASAN, TSAN, FUZZ, POINTS))]
    if not only or len(plain) + sum(len(wanted(build)) for build in (ASAN, TSAN, FUZZ, POINTS)) < len(jobs):
        plain = ["all", "tests"]  # for those in Python
    for paths, arguments in (plain, ()), (wanted(ASAN), ("SAN=address,undefined",)), (wanted(TSAN), ("SAN=thread",)):
        if paths:
            make(report, *arguments, *paths)
    for build in (POINTS, FUZZ):
        if wanted(build):
            make(report, os.path.basename(build))
    if any(job.name.startswith("tests/faults") for job in jobs):
        make(report, "SAN=address,undefined", "faults", os.path.join(ASAN, "sluice-module.so"))
        make(report, "SAN=thread", os.path.join(TSAN, "sluice"))
    if any(word.endswith("test_nginx_module.py") for job in jobs for word in job.argv):
        make(report, "nginx")
    if any(job.name == NGINX_SANITIZED for job in jobs):
        make(report, "SAN=address,undefined", "nginx")
    if any(job.name in BINDINGS_MADE for job in jobs):
        make(report, "bindings")
    if any(job.name == BINDINGS_MADE[3] for job in jobs):
        make(report, "SAN=address,undefined", os.path.join(ASAN, NODE_ADDON))
    if foreign.ident is not None:
        foreign.join()
