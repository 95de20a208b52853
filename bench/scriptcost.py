#!/usr/bin/python3
"""What a CHECK by script costs Redis: instructions, counted by callgrind, which no neighbour changes.

  bench/scriptcost.py [FORM ...]

Callgrind counts all of redis-server; two runs that differ in the number of calls give those of one. Keys are drawn from
1,000, each met before, pipelined by 64, nearly all admitted. Needs valgrind and what `make` builds.
"""
import random
import re
import signal
import struct
import sys
import time

import harness
from workloads import SCRIPTS

KEYS, FEW, MANY, PIPELINE = 1000, 1000, 5000, 64
FIELD = b"W3600000@each"
# hosts/server/cluster/command.c: a CHECK of cost 1, sliding-window 100/1h
PACKED = struct.pack("<BcIIdB", 1, b"W", 1, 100, 3600000, len(FIELD)) + FIELD

# form, title, script, words after the key
FORMS = [
    ("two-bucket", "two-bucket script", SCRIPTS / "two_bucket.lua", None),
    ("words", "CHECK 1 100/1h", harness.BUILD / "sluice-eval.lua", ["CHECK", "1", "100/1h"]),
    ("front-words", "a front's words", harness.BUILD / "sluice-eval.lua",
     ["CHECK", "1", "EXACT", "NAME", "each", "sliding-window 100/1h"]),
    ("front", "a front's bytes", harness.BUILD / "sluice-eval.lua", [PACKED]),
]


def command(sha, key, words):
    if words is None:
        return ["EVALSHA", sha, "2", key + ":1", key + ":0", "100", "3600000", str(int(time.time() * 1000))]
    return ["EVALSHA", sha, "1", key, *words]


def collected(form, script, words, calls):
    server = harness.start_redis(f"script-{form}-{calls}", wrapper=[
        "valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"])
    connection, dice = harness.Resp(server.port), random.Random(1)
    sha = connection.call("SCRIPT", "LOAD", script.read_bytes())
    keys = [f"user:{i:06}" for i in range(KEYS)]
    drawn = keys + [dice.choice(keys) for _ in range(calls)]
    for at in range(0, len(drawn), PIPELINE):
        connection.call_all([command(sha, key, words) for key in drawn[at:at + PIPELINE]])
    connection.close()
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(120)
    server.stop()
    return int(re.search(r"Collected : (\d+)", server.log.read_text(errors="replace"))[1])


def main():
    harness.BENCH.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[1:] or [form for form, *_ in FORMS]
    if set(wanted) - {form for form, *_ in FORMS}:
        harness.die(f"expected some of {', '.join(form for form, *_ in FORMS)}")
    print("Instructions of redis-server a call")
    for form, title, script, words in FORMS:
        if form in wanted:
            few, many = (collected(form, script, words, calls) for calls in (FEW, MANY))
            print(f"  {title:24} {(many - few) / (MANY - FEW):10,.0f}", flush=True)


if __name__ == "__main__":
    main()
