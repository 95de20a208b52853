"""Faults, armed: what tests/faults/faults.c reads, and which faults there are.

A run is first made with nothing failing, which tells how many calls of each kind there are and where they are made.
Then it is made again for each of them. `make test` takes one call of each place in the code (the same line, come to by
the same calls); a soak (SLUICE_FAULTS=all) every call.
"""

import errno
import mmap
import os
import re
import struct
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("SLUICE_FAULTS_BUILD", os.path.join(ROOT, "build", "address-undefined")))
PROGRAM = os.path.join(BUILD, "tests", "faults", "sluice")
PLAIN = os.path.join(ROOT, "build", "sluice")  # what looks at what is left: without sanitizers, it is quick
# What sanitizers are told, and by which status they end.
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": "exitcode=99:detect_leaks=1:allocator_may_return_null=1",
               "UBSAN_OPTIONS": "halt_on_error=1:exitcode=99", "LC_ALL": "C.UTF-8"}
SECONDS_MAX, TOLD_MAX = 180, 30
ALL = os.environ.get("SLUICE_FAULTS") == "all"
ONE = os.environ.get("SLUICE_FAULT")  # as repeating() says it

# As in faults.c.
KINDS = ("memory", "map", "open", "read", "write", "lock", "sync", "size", "name", "look", "net", "resolve", "thread",
         "wait", "chance", "spawn")
SHORT, TRACE, SITES, TOLD_BYTES = -1, 6, 1 << 15, 64
ARMED, KINDS_AT, FIRST, LAST, EVERY, ERROR, CALLS, FAILED = range(8)
WORDS = 8 + TRACE
BYTES = WORDS * 8 + TOLD_BYTES + SITES * 8
NEVER = 2**63

# What a fault is: (name, kinds, error, whether all from the Nth on fail). How many N there are depends on the run.
FAULTS = [
    ("no memory", ("memory",), errno.ENOMEM, False),
    ("no memory from here on", ("memory",), errno.ENOMEM, True),
    ("no address space", ("map",), errno.ENOMEM, False),
    ("too many files", ("open",), errno.EMFILE, False),
    ("too many files from here on", ("open",), errno.EMFILE, True),
    ("not allowed", ("open",), errno.EACCES, False),
    ("input error", ("read",), errno.EIO, False),
    ("no space", ("write",), errno.ENOSPC, False),
    ("no space from here on", ("write", "size", "sync"), errno.ENOSPC, True),
    ("no locks", ("lock",), errno.ENOLCK, False),
    ("output error at sync", ("sync",), errno.EIO, False),
    ("no room for a file", ("size",), errno.ENOSPC, False),
    ("name error", ("name",), errno.EIO, False),
    ("look error", ("look",), errno.EIO, False),
    ("network down", ("net",), errno.ENETDOWN, False),
    ("no name server", ("resolve",), errno.EAGAIN, True),
    ("no threads", ("thread",), errno.EAGAIN, False),
    ("wait fails", ("wait",), errno.ENOMEM, False),
    ("interrupted", ("wait", "read", "write", "lock", "size", "net"), errno.EINTR, False),
    ("no randomness", ("chance",), errno.ENOSYS, False),
    ("no process", ("spawn",), errno.EAGAIN, False),
]
# What goes on from the first call to the last: (name, kinds, error, each second call alone).
WEATHER = [
    ("one byte at a time", ("read", "write"), SHORT, False),
    ("interrupted each second time", ("read", "write", "wait", "size"), errno.EINTR, True),
]


class Control:
    """The file that the program maps, and what to put in its environment."""

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile(prefix="sluice-faults-")
        self.file.truncate(BYTES)
        self.memory = mmap.mmap(self.file.fileno(), BYTES)

    def close(self):
        self.memory.close()
        self.file.close()

    def word(self, at):
        return struct.unpack_from("Q", self.memory, at * 8)[0]

    def arm(self, kinds, first=NEVER, last=NEVER, error=0, every=1):
        mask = sum(1 << KINDS.index(kind) for kind in kinds)
        self.memory[:BYTES] = bytes(BYTES)
        struct.pack_into("QQQQqQQ", self.memory, 8, mask, first, last, every, error, 0, 0)
        struct.pack_into("Q", self.memory, 0, 1)

    def disarm(self):
        struct.pack_into("Q", self.memory, 0, 0)

    @property
    def calls(self):
        return self.word(CALLS)

    @property
    def failed(self):
        return self.word(FAILED)

    def told(self, program=PROGRAM):
        """The call that failed first, and the lines above it."""
        trace = [hex(x - 1) for x in struct.unpack_from(f"{TRACE}Q", self.memory, 64) if x]
        name = self.memory[WORDS * 8:WORDS * 8 + TOLD_BYTES].split(b"\0")[0].decode()
        lines = subprocess.run(["addr2line", "-f", "-s", "-e", program, *trace], capture_output=True, text=True,
                               check=False).stdout.split("\n")
        pairs = [f"{f} ({at.split(' ')[0]})" for f, at in zip(lines[::2], lines[1::2])]
        return f"{name}() of {' < '.join(pairs)}"

    def sites(self):
        """Of the calls that were counted: kind and place."""
        count = min(self.calls, SITES)
        words = struct.unpack_from(f"{count}Q", self.memory, WORDS * 8 + TOLD_BYTES)
        return [(KINDS[word >> 56], word & (1 << 56) - 1) for word in words]


def steady(text):
    """Without what depends on when it is said, or of which key."""
    # Ids before spans of time: an id may end in "7d".
    text = re.sub(r"\w*key\d+\b|\b[0-9a-f]{16}\b(\.\S+)?|\d{4}-\d\d-\d\d[T ][\d:.]+|(?<=repairs).*", "X", text)
    return re.sub(r"\b\d+(\.\d+)? ?(ms|s|m|h|d)\b( \d+ (s|m|h)\b)?", "T", text)


def choose(sites, kinds, seen, every=ALL):
    """The numbers of calls, among those of these kinds, that are to fail: every one, or one of each place not seen
    yet."""
    chosen, number = [], 0
    for kind, place in sites:
        if kind not in kinds:
            continue
        number += 1
        if every or (kind, place) not in seen:
            seen.add((kind, place))
            chosen.append(number)
    return chosen


def cases(sites, seen=None, every=ALL):
    """All that is to be tried of a run that made these calls: (text, arguments of arm()). `seen` is of several runs, of
    which each but in a soak tries what those before did not; of one fault as of another."""
    seen = {} if seen is None else seen
    if ONE is not None:
        kinds, first, last, error, every = ONE.split()
        yield "the one", {"kinds": kinds.split(","), "first": int(first), "last": int(last), "error": int(error),
                          "every": int(every)}
        return
    for name, kinds, error, on in FAULTS:
        numbers = choose(sites, kinds, seen.setdefault(name, set()), every)
        if on and not ALL:
            numbers = numbers[:1] + numbers[1::4]  # most of these end as the one before did
        for number in numbers:
            yield f"{name}, call {number}", {"kinds": kinds, "first": number, "last": NEVER if on else number,
                                             "error": error}
    for name, kinds, error, second in WEATHER:
        if choose(sites, kinds, seen.setdefault(name, set())):
            yield name, {"kinds": kinds, "first": 1, "last": NEVER, "error": error, "every": 2 if second else 1}


class Trial:
    """The cases of a run that was counted last: each is tried, what is wrong of it is noted, and told at the end."""

    def __init__(self, control, file, test, program=PROGRAM):
        self.control, self.file, self.test, self.program = control, file, test, program
        self.sites, self.tried, self.bad, self.case = control.sites(), 0, [], None

    def cases(self, seen=None, every=ALL):
        """What arm() is given, of each case in turn; whoever takes it arms."""
        for self.case in cases(self.sites, seen, every):
            self.tried += 1
            yield self.case[1]

    def repeating(self):
        """The line that repeats the case."""
        armed = self.case[1]
        return (f"SLUICE_FAULT='{','.join(armed['kinds'])} {armed['first']} {armed['last']} {armed['error']} "
                f"{armed.get('every', 1)}' /usr/bin/python3 -m pytest -q tests/faults/{self.file} -k '{self.test}'")

    def note(self, wrong, *more):
        """What is wrong of the case; `more` are lines of what was said meanwhile."""
        told = self.control.told(self.program)
        self.bad.append("\n  ".join([f"{self.case[0]}: {wrong}", told, self.repeating(), *more]))

    def end(self):
        print(f"\nfaults: {self.test}: {len(self.sites)} calls, {self.tried} failed one way or another"
              f"{', all' if ALL else ''}")
        assert not self.bad, f"{len(self.bad)} of {self.tried}:\n" + "\n".join(self.bad[:TOLD_MAX])


def output_of(done):
    """The end of what a process said, by line; `done` is None where it was not done in time."""
    return [f"stdout {done.stdout[-300:]!r}", f"stderr {done.stderr[-1500:]}"] if done else []
