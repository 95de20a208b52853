"""What small worlds find: in copies of files of src/algo, in what decides, charges and gives back, every comparison is
turned, one at a time, and every ceil is made a floor, and the worlds of that file have to see the difference. Those
that they can't see are named in UNSEEN, with why; whatever else they let pass fails here, and so does a name that no
longer stands for anything.

    tests/run --soak 600 --only turned                              all of them, half an hour of processor
    SLUICE_TURNED=window.c pytest -s tests/model/turned_test.py     those of one file; each is printed

  <  becomes <=, <= becomes <, >  becomes >=, >= becomes >, == becomes !=, != becomes ==, sl_div_ceil becomes sl_div

What is asserted is left alone: an assertion that is turned fails at once, and says nothing of the worlds. A mistake is
found when the program fails, crashes or does not end; it need not compile under other warnings than errors."""
import concurrent.futures
import os
import re
import resource
import shlex
import subprocess
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# The quick worlds, in a soak too: what takes longer than these has not ended.
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "SLUICE_SOAK"))}
PROCESSOR_SECONDS_MAX = 120  # the whole of an algorithm's worlds takes some seconds
# The program, and which of its worlds: each is a run.
WORLDS = {"window.c": ("worlds_test", ("fixed-window", "sliding-window")),
          "bucket.c": ("worlds_test", ("token-bucket", "leaky-bucket")),
          "lease.c": ("worlds_seats_test", ("",)),
          "seats.c": ("worlds_seats_test", ("",))}
# What decides, charges and gives back; the other functions of these files are held by other models.
DECIDING = {
    "window.c": ("into_window", "window_at", "write_state", "sl_fixed_step", "window_retry", "window_used",
                 "sl_window_step", "sl_window_refund", "sl_window_instant"),
    "bucket.c": ("stored_debt", "stored_tick", "store", "bucket_at", "bucket_retry", "bucket_delay", "sl_bucket_step",
                 "sl_bucket_refund", "sl_bucket_instant"),
    "lease.c": ("sl_lease_step", "sl_lease_block_bytes", "sl_lease_write", "sl_lease_is_held", "sl_lease_release",
                "sl_lease_renew", "sl_lease_list", "sl_lease_order"),
    "seats.c": ("sl_seats_look", "first_end_after", "cut_at", "pick", "sl_seats_wait", "sl_seats_find_spare",
                "sl_seats_instant", "sl_seats_find"),
}
TURNED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "sl_div_ceil": "sl_div"}
TOKEN = re.compile(r"/\*.*?\*/|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|->|<<=?|>>=?|<=|>=|==|!=|<|>|\bsl_div_ceil\b",
                   re.S)
HEAD = re.compile(r"^[a-z](?:[^\n(]*?\b)??(\w+)\((?!\()[^;{]*?\)\s*\{$", re.M)
SPARED = re.compile(r"^\s*(SL_ASSERT|SL_DEBUG_ASSERT|#)")

# (file, function, line of it as it stands, which of that line's): why no world can tell
SAME = "the same at the edge: a difference of 0 is 0 either way, and of two equals either is the less"
TICK = "of a tick of 1 ns nothing has ever passed; no world has windows of 4.3 s and more, whose ticks are longer"
PACE = "decides how soon the search for a wait ends, not where"
FULL = "a block has eight seats at least, and no world has as many who hold one"
UNSEEN = {
    ("lease.c", "sl_lease_step", "uint64_t room = limit->quota > p->held ? limit->quota - p->held : 0;", 1): SAME,
    ("lease.c", "sl_lease_list", "for (uint32_t i = 0; i < p->capacity && used < room; i++)", 1): FULL,
    ("lease.c", "sl_lease_list", "for (uint32_t i = 0; i < p->capacity && used < room; i++)", 2):
        "who asks has room for all who hold",
    ("lease.c", "sl_lease_order", "return a->ends_after_ns < b->ends_after_ns ? -1 : 1;", 1): SAME,
    ("lease.c", "sl_lease_order", "return a->id < b->id ? -1 : a->id > b->id;", 1): SAME,
    ("lease.c", "sl_lease_order", "return a->id < b->id ? -1 : a->id > b->id;", 2): SAME,
    ("seats.c", "cut_at", "for (uint32_t i = 0; i < p->capacity; i++) {", 1): FULL,
    ("seats.c", "cut_at", "cut.count += p->ends[i] > low;", 1): PACE,
    ("seats.c", "pick", "for (uint32_t i = 0; i < p->capacity; i++) {", 1): FULL,
    ("seats.c", "pick", "if (p->ends[i] <= low || p->ends[i] >= high)", 1): PACE,
    ("seats.c", "pick", "if (p->ends[i] <= low || p->ends[i] >= high)", 2): PACE,
    ("seats.c", "pick", "if (nth-- == 0)", 1): PACE,
    ("seats.c", "first_end_after", "for (uint32_t i = 0; i < p->capacity; i++)", 1): FULL,
    ("seats.c", "first_end_after", "first = p->ends[i] > instant && p->ends[i] < first ? p->ends[i] : first;", 1): PACE,
    ("seats.c", "first_end_after", "first = p->ends[i] > instant && p->ends[i] < first ? p->ends[i] : first;", 2): SAME,
    ("seats.c", "sl_seats_wait", "if (cut_at(p, low, first).cost >= need)", 1): PACE,
    ("seats.c", "sl_seats_wait", "for (int round = 0; round < ROUNDS_MAX; round++) {", 1): PACE,
    ("seats.c", "sl_seats_wait", "if (round % 2 == 1)", 1): PACE,
    ("seats.c", "sl_seats_find_spare", "while (i < p->capacity && p->ends[i] > p->t)", 2):
        "a seat that ends at this instant is left, and another one is taken",
    ("seats.c", "sl_seats_find_spare", "p->spare = i < p->capacity ? i : SL_NO_PLACE;", 1): FULL,
    ("window.c", "sl_fixed_step", "uint64_t quota = limit->quota, room = quota > w.cur ? quota - w.cur : 0;", 1): SAME,
    ("window.c", "sl_window_step", "room = quota > used ? quota - used : 0;", 1): SAME,
    ("bucket.c", "bucket_at", "b.debt = debt > b.drained ? debt - b.drained : 0;", 1): SAME,
    ("bucket.c", "sl_bucket_step", "room = capacity > used ? capacity - used : 0;", 1): SAME,
    ("bucket.c", "bucket_at", "b.passed = tick >= last ? now - tick * tick_ns : 0;", 1):
        TICK,
    ("bucket.c", "sl_bucket_refund", "take = take < b.debt ? take : b.debt;", 1): SAME,
    ("bucket.c", "sl_bucket_instant", "return to_ticks(now, tick_ns) >= last ? now : last * tick_ns;", 1): TICK,
    ("bucket.c", "sl_bucket_step", "b.rate = decision->allowed && cost != 0 ? limit->quota : b.rate;", 1):
        "the worlds have one rate a counter; two are for rates_test.c",
}


class Mistake:
    def __init__(self, file, function, line, nth, start, end, token, text):
        self.name = (file, function, line, nth)
        self.file, self.token = file, token
        self.text = text[:start] + TURNED[token] + text[end:]

    def __str__(self):
        file, function, line, nth = self.name
        return "%s %s: %s -> %s%s in `%s`" % (file, function, self.token, TURNED[self.token],
                                              " (%d)" % nth if nth > 1 else "", line)


def mistakes_of(file):
    with open(os.path.join(ROOT, "src/algo", file), encoding="utf-8") as f:
        text = f.read()
    found, function, seen = [], "", {}
    heads = [(m.start(), m.group(1)) for m in HEAD.finditer(text)]
    for match in TOKEN.finditer(text):
        start = text.rfind("\n", 0, match.start()) + 1
        line = text[start:text.find("\n", start)]
        if match.group() not in TURNED or SPARED.match(line) or line.startswith(("static", "struct", "void")):
            continue
        function = ([name for at, name in heads if at < match.start()] or [""])[-1]
        if function not in DECIDING[file]:
            continue
        key = (function, line.strip())
        seen[key] = seen.get(key, 0) + 1
        found.append(Mistake(file, function, line.strip(), seen[key], match.start(), match.end(), match.group(), text))
    return found


@pytest.fixture(scope="module")
def flags():
    """The compiler and its flags, as the Makefile has recorded them."""
    done = subprocess.run(["make", "--no-print-directory", *("build/tests/model/" + w for w, _ in WORLDS.values())],
                          cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout[-2000:]
    with open(os.path.join(ROOT, "build/flags"), encoding="utf-8") as file:
        return shlex.split(file.read())


def built(flags, mistake, folder):
    """The worlds with a file that has the mistake, or None where it does not compile: that says nothing."""
    world = WORLDS[mistake.file][0]
    source, program, target = (os.path.join(folder, mistake.file), os.path.join(folder, world),
                               "build/tests/model/" + world)
    with open(source, "w", encoding="utf-8") as f:
        f.write(mistake.text)
    compile_ = [word for word in flags if not word.startswith("-l") and word != "-c"]
    done = subprocess.run(compile_ + ["-w", "-c", source, "-o", source + ".o"], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != 0:
        return None
    link = subprocess.run(["make", "--no-print-directory", "-n", "-W", "tests/model/%s.c" % world, target], cwd=ROOT,
                          text=True, stdout=subprocess.PIPE, check=True, env=ENVIRONMENT)
    words = shlex.split([line for line in link.stdout.splitlines() if " -o " + target in line][-1])
    words[words.index(target)] = program
    words.insert(words.index("build/libtests.a"), source + ".o")
    subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return program


def bounded():
    """Of processor, not of time: on a busy machine nothing else is found."""
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS_MAX, PROCESSOR_SECONDS_MAX))


def fails(program, file):
    for kind in WORLDS[file][1]:
        done = subprocess.run([program], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={**ENVIRONMENT, "SLUICE_WORLDS": kind}, preexec_fn=bounded)
        if done.returncode != 0:
            return True
    return False


def tried(flags, mistake, folder):
    start = time.monotonic()
    os.makedirs(folder)
    program = built(flags, mistake, str(folder))
    verdict = "does not compile" if program is None else "found" if fails(program, mistake.file) else \
        "unseen" if mistake.name in UNSEEN else "NOT FOUND"
    print("%-16s %5.1f s  %s" % (verdict, time.monotonic() - start, mistake), flush=True)
    return verdict


@pytest.mark.parametrize("file", [os.environ["SLUICE_TURNED"]] if "SLUICE_TURNED" in os.environ else list(WORLDS))
def test_small_worlds_find_every_mistake(file, flags, tmp_path):
    mistakes = mistakes_of(file)
    unknown = [name for name in UNSEEN if name[0] == file and name not in [m.name for m in mistakes]]
    assert not unknown, "no such comparison: %s" % unknown
    assert not fails(os.path.join(ROOT, "build/tests/model", WORLDS[file][0]), file), "without any mistake"
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        verdicts = list(pool.map(lambda i: tried(flags, mistakes[i], tmp_path / str(i)), range(len(mistakes))))
    counts = {word: verdicts.count(word) for word in sorted(set(verdicts))}
    print("kept: %s: %d mistakes: %s" % (file, len(mistakes), counts))
    assert not counts.get("NOT FOUND")
