"""Replay of recorded traffic beside mawk that counts lines by key: million lines a second of CPU time, user and kernel.

`mawk '{n[$1]++}'` finds one field of a line and counts by it, in order: the least that can be done with a log by keys.
Replay reads the whole line, decides, and counts as well. Two logs are made anew from a fixed seed, LINES each, of
100,000 clients of whom few ask for most: ops lines, and an access log of the combined format; and the latter as .gz,
beside `zcat | mawk`, and as two files that are sorted by time.
"""
import gzip
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import harness
from rounds import ONLY, ROUNDS

LINES, CLIENTS = 500000, 100000
# name, title, what is run (of the logs' folder), and beside which row
ROWS = [("replay-ops-mawk", "ops lines, mawk", "mawk '{n[$2]++} END {print length(n)}' {0}/ops", None),
        ("replay-ops", "ops lines, replay", "{sluice} replay --limit 100/1m {0}/ops", "replay-ops-mawk"),
        ("replay-access-mawk", "access log, mawk", "mawk '{n[$1]++} END {print length(n)}' {0}/access", None),
        ("replay-access", "access log, replay", "{sluice} replay --limit 100/1m {0}/access", "replay-access-mawk"),
        ("replay-gz-mawk", "access log .gz, zcat and mawk", "zcat {0}/access.gz | mawk '{n[$1]++}'", None),
        ("replay-gz", "access log .gz, replay", "{sluice} replay --limit 100/1m {0}/access.gz", "replay-gz-mawk"),
        ("replay-sort", "access log in two files, replay --sort",
         "{sluice} replay --sort --limit 100/1m {0}/first {0}/second", "replay-access-mawk")]
NAMES = [row[0] for row in ROWS]
GOAL = 2.0


def write_logs(folder):
    """The same logs each time. The access log's lines stand in `first` and `second` by turns, too."""
    dice = random.Random(20261124)
    with open(folder / "ops", "w") as ops, open(folder / "access", "w") as access, \
            open(folder / "first", "w") as first, open(folder / "second", "w") as second:
        ms = 1700000000000
        for i in range(LINES):
            ms += dice.randrange(4)
            client = int(dice.paretovariate(0.6)) % CLIENTS
            ops.write(f"{ms} user:{client} 1\n")
            stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(ms // 1000))
            line = (f"10.{client >> 16}.{client >> 8 & 255}.{client & 255} - - [{stamp}] "
                    f"\"GET /search/books?q={client} HTTP/1.1\" 200 5120 \"-\" \"Mozilla/5.0 (X11; Linux x86_64)\"\n")
            access.write(line)
            (second if i % 2 else first).write(line)
    with open(folder / "access", "rb") as plain, gzip.open(folder / "access.gz", "wb", 6) as packed:
        shutil.copyfileobj(plain, packed)


def one_run(command, folder):
    """Million lines a second of CPU time of all that the command started."""
    words = command.replace("{0}", str(folder)).replace("{sluice}", str(harness.BUILD / "sluice"))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(["sh", "-c", words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        harness.die(f"{words}: {done.stderr.strip()}")
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return LINES / took / 1e6


def measure(report):
    if shutil.which("mawk") is None:
        harness.die("not installed: mawk")
    rows = [row for row in ROWS if not set(ONLY) & set(NAMES) or row[0] in ONLY]
    results = {row[0]: [] for row in rows}
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        write_logs(pathlib.Path(folder))
        for turn in range(ROUNDS):
            for name, _, command, _ in rows:
                results[name].append(one_run(command, folder))
            print(f"bench: round {turn + 1} of {ROUNDS} done", file=sys.stderr, flush=True)
    print(f"\nReplay: million lines a second of CPU time, medians of {ROUNDS} rounds (min..max), goal {GOAL}x")
    for name, title, _, beside in rows:
        rates = results[name]
        said = f"  {title:44} {statistics.median(rates):6.2f} ({min(rates):.2f}..{max(rates):.2f})"
        if beside in results:
            ratios = [a / b for a, b in zip(results[name], results[beside])]
            said += f"  {statistics.median(ratios):5.2f}x of mawk ({min(ratios):.2f}..{max(ratios):.2f})"
        print(said)
    report["replay"] = results
