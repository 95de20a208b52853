#!/usr/bin/python3
"""The herd: 1,000 clients that were denied together, and what they do to a limit of 100 a second.

    bench/herd.py             the table and the plot of docs/clients.md (docs/images/herd.svg): a minute
    bench/herd.py --spreads   what each SPREAD of the clients' jitter costs: seconds, on steered time

All ask at once for one place each of `sliding-log 100/1s`, a real server decides, and whoever is denied comes back as
he was told by Retry-After, in whole seconds as HTTP has it, until he is served. Nine seconds is the least that this can
take. The clients are sluice.client's own memory of an origin, one each: they are 1,000 processes that know nothing of
each other. `stagger` is the server's part of it; as it doesn't count for instants that clients make up, the plot is of
real time.
"""
import argparse
import heapq
import json
import math
import os
import random
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests", "e2e"), os.path.join(ROOT, "bindings", "python")]
from harness import Server, encode  # noqa: E402
from sluice.client.advice import Advice  # noqa: E402
from sluice.client.origin import SPREAD, Origin  # noqa: E402

SLUICE = os.path.abspath(os.environ.get("SLUICE_BIN", os.path.join(ROOT, "build", "sluice")))
CLIENTS, BATCH, SEED = 1000, 50, 20261123
SECONDS_MAX = 40
BIN_MS = 100
POLICY = """
client-time: true
limits:
  - {name: plain, key: a, limit: sliding-log 100/1s}
  - {name: staggered, key: b, limit: sliding-log 100/1s, stagger: true}
"""


class Exact:
    """A client without jitter: it comes back at the instant that it was told."""

    def __init__(self):
        self.at = 0

    def told(self, now, wait_ms):
        self.at = now + wait_ms
        return self.at


class Jittered:
    """A client as sluice.client is."""

    def __init__(self, dice, spread=SPREAD):
        self.origin = Origin(random=dice.random, spread=spread)

    def told(self, now, wait_ms):
        self.origin.answered(self.origin.sent(now), now, Advice(limited=True, wait_ms=wait_ms))
        return self.origin.ready_at(now)


def herd(server, attribute, make, steered):
    """Runs until all are served. Returns [(ms, allowed)] of all knocks. With `steered` time is ours."""
    door = server.resp()
    key = "%s%d" % (attribute, time.monotonic_ns())
    start = 1728000000000 if steered else time.monotonic() * 1000
    queue = [(0, number, make()) for number in range(CLIENTS)]
    knocks = []
    while queue:
        now = queue[0][0] if steered else time.monotonic() * 1000 - start
        assert now < SECONDS_MAX * 1000 * (100 if steered else 1), "they are never all served"
        due = []
        while queue and queue[0][0] <= now and len(due) < BATCH:
            due.append(heapq.heappop(queue))
        if not due:
            time.sleep(max(0, queue[0][0] - now) / 1000)
            continue
        command = ["SLUICE.ADMIT", 1, attribute, key]
        if steered:
            command = ["SLUICE.CHECK", key, 1, "AT", int(start + now), "sliding-log 100/1s"]
        door.send(b"".join(encode(*command) for _ in due))
        for _, number, client in due:
            reply = door.read()
            knocks.append((now, reply[0] == 1))
            if reply[0] != 1:
                retry_after_ms = max(1, math.ceil(reply[3] / 1000)) * 1000
                heapq.heappush(queue, (client.told(now, retry_after_ms), number, client))
    return knocks


def binned(knocks):
    bins = {}
    for at, allowed in knocks:
        one = bins.setdefault(int(at // BIN_MS), [0, 0])
        one[0 if allowed else 1] += 1
    return bins


def figures(knocks):
    """Knocks, knocks in vain, the most in 100 ms after the first, and seconds until 99 % and all were served."""
    bins = binned(knocks)
    peak = max((sum(counts) for at, counts in bins.items() if at > 0), default=0)
    served = sorted(at for at, allowed in knocks if allowed)
    vain = len(knocks) - len(served)
    return len(knocks), vain, peak, served[len(served) * 99 // 100 - 1] / 1000, served[-1] / 1000


# ---- the plot --------------------------------------------------------------------------------------------------------

WIDTH, PANEL, LEFT, TOP = 760, 120, 56, 34


def panel(title, knocks, y, seconds, most):
    """One panel of the SVG: bars of 100 ms, served below, in vain above; square roots show 30 beside 900."""
    def height(count):
        return math.sqrt(count / most) * (PANEL - 34)
    scale = (WIDTH - LEFT - 12) / (seconds * 1000 / BIN_MS)
    base = y + PANEL - 16
    parts = ['<text x="%d" y="%d" class="title">%s</text>' % (LEFT, y + 10, title)]
    for count in (100, 900):
        line = base - height(count)
        parts.append('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" class="grid"/>' % (LEFT, WIDTH - 12, line, line))
        parts.append('<text x="%d" y="%.1f" class="tick" text-anchor="end">%d</text>' % (LEFT - 6, line + 4, count))
    for at, (served, vain) in sorted(binned(knocks).items()):
        x, low, high = LEFT + at * scale, height(served), height(served + vain)
        for kind, top, tall in (("vain", high, high - low), ("served", low, low)):
            parts.append('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="%s"/>'
                         % (x, base - top, scale * .9, tall, kind))
    parts.append('<line x1="%d" x2="%d" y1="%d" y2="%d" class="axis"/>' % (LEFT, WIDTH - 12, base, base))
    for second in range(0, int(seconds) + 1, 2):
        parts.append('<text x="%.1f" y="%d" class="tick" text-anchor="middle">%d s</text>'
                     % (LEFT + second * 1000 / BIN_MS * scale, base + 13, second))
    return parts


STYLE = """text{font:12px sans-serif;fill:#333}.title{font-weight:bold}.tick{font-size:10px;fill:#666}
.grid{stroke:#ddd}.axis{stroke:#666}.vain{fill:#d1495b}.served{fill:#2a7f9e}.back{fill:#fff}
@media(prefers-color-scheme:dark){text{fill:#ddd}.tick{fill:#aaa}.grid{stroke:#444}.back{fill:#161b22}}"""


def svg(runs):
    seconds = max(math.ceil(figures(knocks)[-1]) for _, knocks in runs) + 1
    most = max(sum(counts) for _, knocks in runs for counts in binned(knocks).values())
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">'
             % (WIDTH, TOP + PANEL * len(runs)),
             "<title>Knocks of 1,000 clients in each 100 ms, served and in vain</title><style>%s</style>" % STYLE,
             '<rect width="100%" height="100%" class="back"/>',
             '<rect x="%d" y="10" width="10" height="10" class="served"/><text x="%d" y="19">served</text>'
             % (LEFT, LEFT + 14),
             '<rect x="%d" y="10" width="10" height="10" class="vain"/><text x="%d" y="19">in vain</text>'
             % (LEFT + 70, LEFT + 84),
             '<text x="%d" y="19" class="tick">knocks in each 100 ms, as square roots</text>' % (LEFT + 150)]
    for number, (title, knocks) in enumerate(runs):
        parts += panel(title, knocks, TOP + PANEL * number, seconds, most)
    return "\n".join(parts + ["</svg>", ""])


# ---- what is run -----------------------------------------------------------------------------------------------------

def table(head, rows):
    print("| %s | knocks | in vain | most in 100 ms, later | 99 %% served after | all |" % head)
    print("| --- | --- | --- | --- | --- | --- |")
    for title, (knocks, vain, peak, most, last) in rows:
        print("| %s | %s | %s | %d | %.1f s | %.1f s |"
              % (title, format(knocks, ","), format(vain, ","), peak, most, last))


def main():
    parser = argparse.ArgumentParser(description="Measures the herd; see the head of this file.")
    parser.add_argument("--spreads", action="store_true", help="compare spreads of the jitter, on steered time")
    parser.add_argument("--svg", default=os.path.join(ROOT, "docs", "images", "herd.svg"), help="where the plot goes")
    parser.add_argument("--json", help="where all knocks go, too")
    arguments = parser.parse_args()
    dice = random.Random(SEED)
    server = Server(SLUICE, POLICY)
    try:
        if arguments.spreads:
            table("SPREAD", [("none", figures(herd(server, "a", Exact, True)))] +
                  [(str(spread), figures(herd(server, "a", lambda spread=spread: Jittered(dice, spread), True)))
                   for spread in (0.1, 0.25, 0.5, 1, 2)])
            return
        kinds = [("all wait as told", "a", Exact), ("our jitter", "a", lambda: Jittered(dice)),
                 ("stagger", "b", Exact), ("stagger, and our jitter", "b", lambda: Jittered(dice))]
        runs = [(title, herd(server, attribute, make, False)) for title, attribute, make in kinds]
    finally:
        server.stop()
    table("", [(title, figures(knocks)) for title, knocks in runs])
    with open(arguments.svg, "w", encoding="utf-8") as file:
        file.write(svg(runs))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(runs, file)


if __name__ == "__main__":
    main()
