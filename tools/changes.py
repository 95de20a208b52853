"""What a change is, for tools that look at changed lines alone: since which commit, and which lines of the C sources.

A clone need not have what it is compared with: one branch alone, a few commits alone, no clone at all. So it is said
what was found, and where nothing was, why."""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ctests  # noqa: E402

MAIN = ("main", "origin/main", "origin/HEAD")
RECENT = 20  # commits of main that are a change, where it is main itself


def git(*words):
    said = ctests.run(["git", *words])
    return said.stdout.strip() if said.returncode == 0 else ""


def base():
    """(commit, how it was chosen); ("", why not)."""
    head = git("rev-parse", "--verify", "-q", "HEAD")
    if not head:
        return "", "this is no clone, or an empty one"
    for name in MAIN:
        left = git("merge-base", "HEAD", name)
        if left and left != head:
            return left, "where this left %s" % name
    recent = git("rev-list", "--first-parent", "--max-count=%d" % (RECENT + 1), "HEAD").split()
    if len(recent) < 2:
        return "", "this clone has no commit before its last"
    short = ", as far as this clone goes back" if len(recent) <= RECENT else ""
    return recent[-1], "%d commits ago%s" % (len(recent) - 1, short)


def lines_since(ref):
    """file -> numbers of the lines that differ from ref in what is built for tests."""
    said = ctests.run(["git", "diff", "-U0", "--no-color", "--no-ext-diff", ref, "--", "src", "hosts"])
    if said.returncode:
        raise SystemExit(said.stdout)
    found, file = {}, None
    for line in said.stdout.splitlines():
        if line.startswith("+++ "):
            file = line[6:] if line.startswith("+++ b/") else None
        hunk = re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)
        if hunk and file and file.endswith((".c", ".h")):
            first, count = int(hunk.group(1)), int(hunk.group(2) or 1)
            if count:
                found.setdefault(file, set()).update(range(first, first + count))
    return found
