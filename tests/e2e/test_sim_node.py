"""The node of the simulated fleet (tests/sim) is held against a real redis-server with the module: the same calls, at
the same instants, and every reply the same to the last byte; and what nodes of a cluster say of slots that are
elsewhere.

The calls are drawn from a seed, which is printed: SLUICE_SEED sets another, SLUICE_OPS how many there are."""

import os
import random
import re
import subprocess

import pytest

from cluster import Cluster, module_beside, slot_of
from harness import ROOT, RespError, encode, wait_until
from redis_world import Clock, Redis

SEED = int(os.environ.get("SLUICE_SEED", "20261124"))
CALLS = max(300, int(os.environ.get("SLUICE_OPS", "1000000")) // 400)
BEGIN_MS = 1_800_000_000_000
LIMITS = ["sliding-log 5/2s", "sliding-window 7/3s", "fixed-window 9/1s", "token-bucket 4/1s burst 6",
          "leaky-bucket 3/1s queue 4", "sliding-buckets 8/2s precision 250ms", "sliding-log 100/1m"]


def simulated(sluice_bin, lines):
    program = os.path.join(os.path.dirname(sluice_bin), "tests", "sim", "fleet_test")
    if not os.path.exists(program):
        subprocess.run(["make", "--no-print-directory", os.path.relpath(program, ROOT)], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL)
    done = subprocess.run([program, "--answers"], input="\n".join(lines) + "\n", text=True, stdout=subprocess.PIPE,
                          check=True, timeout=120)
    return [bytes.fromhex(line) for line in done.stdout.splitlines()]


def item(dice, keys):
    key = dice.choice(keys)
    name = ["NAME", "n%d" % dice.randrange(3)] if dice.random() < 0.5 else []
    return key, name + [dice.choice(LIMITS)]


def of_own_quota(dice, keys):
    """SLUICE.OVERRIDE of one key; a list is in no order."""
    limit, verb = dice.choice(LIMITS), dice.choice(["SET", "SET", "GET", "DEL"])
    words = ["SLUICE.OVERRIDE", verb, limit, dice.choice(keys)]
    if verb == "SET":
        words.append(dice.choice([limit, limit.replace(" 5/", " 2/").replace(" 9/", " 20/"), "unlimited"]))
        words += [str(dice.choice([1, 60, 3000]))] if dice.random() < 0.5 else []
    return words + (["NAME", "n%d" % dice.randrange(3)] if dice.random() < 0.5 else [])


def a_call(dice):
    """Words of one call, as fronts send them."""
    keys = ["k%d" % k for k in range(4)]
    if dice.random() < 0.1:
        return of_own_quota(dice, keys)
    verb = dice.choice(["CHECK", "CHECK", "CHECK", "PEEK", "REFUND", "RESET", "HOLD", "CONFIRM", "CANCEL", "LEASE"])
    key, words = item(dice, keys)
    cost, identity = str(dice.choice([0, 1, 1, 1, 2, 3, 9])), "%x" % dice.randrange(1, 5)
    head = {"RESET": [], "HOLD": [cost, identity, str(dice.choice([1, 50, 900]))], "CONFIRM": [cost, identity],
            "CANCEL": [identity], "LEASE": [identity, str(dice.choice([20, 500])), str(dice.randrange(4)), cost]}
    said = ["SLUICE." + verb, key] + head.get(verb, [cost])
    if verb == "HOLD" and dice.random() < 0.5:
        said.append("UPTO")
    elif verb == "CONFIRM" and dice.random() < 0.5:
        said.append("KEEP")
    elif verb in ("CHECK", "PEEK") and dice.random() < 0.3:
        said.append(dice.choice(["EACH", "NEXT"]))
    for _ in range(0 if verb == "LEASE" else dice.choice([0, 0, 1, 2])):
        other, more = item(dice, keys)
        words += ["KEY", other] + more
    return said + words


@pytest.fixture
def real():
    clock = Clock()
    clock.stand_all(BEGIN_MS)
    server = Redis(clock=clock)
    yield server, clock
    server.stop()
    clock.close()


def raw(client, words):
    """The reply to its bytes, as it came."""
    client.send(encode(*words))
    before, whole = client.buffer, b""
    assert not before
    fill = client._fill

    def filling():
        nonlocal whole
        had = len(client.buffer)
        fill()
        whole += client.buffer[had:]
    client._fill = filling
    client.read()
    client._fill = fill
    assert not client.buffer
    return whole


def test_the_same_calls_get_the_same_replies(real, sluice_bin):
    server, clock = real
    dice, now = random.Random(SEED), BEGIN_MS
    print(f"seed {SEED}, {CALLS} calls")
    lines, expected = [f"clock {now}"], []
    with server.resp() as client:
        for _ in range(CALLS):
            if dice.random() < 0.5:
                now += dice.choice([1, 3, 40, 700, 2500])
                clock.stand_all(now)
                lines.append(f"clock {now}")
            words = a_call(dice)
            lines.append(" ".join(word.replace(" ", "~") for word in words))
            expected.append(raw(client, words))
    answers = simulated(sluice_bin, lines)
    calls = [line for line in lines if not line.startswith("clock")]
    for line, wanted, got in zip(calls, expected, answers, strict=True):
        assert got == wanted, line


# ---- a slot that moves ----------------------------------------------------------------------------------------------

NODES, NOBODY = 3, 255
LASTING, NAMES = "sliding-log 1000/3660d", ("n0", "n1")
KEYS = [f"{{{tag}}}{k}" for tag in "ab" for k in range(3)]


class Moving:
    """Three primaries of a real cluster, and the lines that say the same to simulated ones."""

    def __init__(self, cluster):
        self.nodes, self.lines, self.replies = cluster.nodes[:NODES], [f"clock {BEGIN_MS}"], []
        self.owners = {slot_of(key): self.nodes.index(cluster.owner_of(key)) for key in KEYS}
        self.moves = {}  # slot: (from, to)
        self.ids = [node.id() for node in self.nodes]
        self.lines += [f"owner {slot} {owner}" for slot, owner in self.owners.items()]

    def call(self, number, words, asking=False):
        """Errors are noted, with the number of a node for its address; of what is served, that it is."""
        self.lines += [f"node {number}", *["ASKING"] * asking, " ".join(word.replace(" ", "~") for word in words)]
        if asking:
            self.replies.append(self.nodes[number].call("ASKING").decode())
        try:
            self.nodes[number].call(*words)
            self.replies.append("served")
        except RespError as error:
            ports = {str(node.port): f"node {n}" for n, node in enumerate(self.nodes)}
            self.replies.append(re.sub(r"127\.0\.0\.1:(\d+)$", lambda found: ports[found[1]], str(error)))

    def begin(self, slot, to):
        source = self.owners[slot]
        self.nodes[to].call("CLUSTER", "SETSLOT", slot, "IMPORTING", self.ids[source])
        self.nodes[source].call("CLUSTER", "SETSLOT", slot, "MIGRATING", self.ids[to])
        self.lines += [f"node {source}", f"goes {slot} {to}", f"node {to}", f"comes {slot} {source}"]
        self.moves[slot] = source, to

    def end(self, slot):
        """Once none of its keys is where it was."""
        source, to = self.moves.pop(slot)
        for key in KEYS:
            if slot_of(key) == slot:
                named = [word for name in NAMES for word in ("KEY", key, "NAME", name, LASTING)]
                self.call(source, ["SLUICE.RESET", key, LASTING, *named])
        for number in (to, source, *({0, 1, 2} - {to, source})):
            self.nodes[number].call("CLUSTER", "SETSLOT", slot, "NODE", self.ids[to])
        wait_until(lambda: self.is_known(slot, to), "not all have heard whose the slot is")
        self.lines += [f"owner {slot} {to}", f"node {source}", f"goes {slot} {NOBODY}", f"node {to}",
                       f"comes {slot} {NOBODY}"]
        self.owners[slot] = to

    def is_known(self, slot, owner):
        """To all, with the epoch of its owner: until then what was sent before may turn a node's mind."""
        found = set()
        for node in self.nodes:
            line = next(x for x in node.call("CLUSTER", "NODES").decode().split("\n") if x.startswith(self.ids[owner]))
            slots = [x.split("-") for x in line.split(" ")[8:] if "[" not in x]
            found.add((line.split(" ")[6], any(int(x[0]) <= slot <= int(x[-1]) for x in slots)))
        return len(found) == 1 and next(iter(found))[1]


def ask_at_random(dice, moving):
    slot = dice.choice(list(moving.owners))
    if slot in moving.moves and dice.random() < 0.03:
        moving.end(slot)
    elif slot not in moving.moves and dice.random() < 0.1:
        moving.begin(slot, dice.choice([n for n in range(NODES) if n != moving.owners[slot]]))
    verb, cost = dice.choice([("CHECK", ["1"]), ("CHECK", ["1"]), ("PEEK", ["1"]), ("RESET", [])])
    tag = dice.choice(["{a}", "{b}", "{"])  # the last: of either slot, or of both
    first, *others = dice.choices([key for key in KEYS if key.startswith(tag)], k=dice.choice([1, 1, 1, 2, 3]))
    words = ["SLUICE." + verb, first, *cost, LASTING]
    for name, key in zip(NAMES, others):
        words += ["KEY", key, "NAME", name, LASTING]
    moving.call(dice.randrange(NODES), words, dice.random() < 0.3)


def test_of_slots_that_move_nodes_say_what_a_cluster_says(sluice_bin):
    """Served or not, MOVED, ASK, TRYAGAIN and CROSSSLOT; before, during and after moves."""
    dice, calls = random.Random(SEED), CALLS // 2
    print(f"seed {SEED}, {calls} calls")
    with Cluster(module=[module_beside(sluice_bin)]) as cluster, cluster.patient():
        moving = Moving(cluster)
        for _ in range(calls):
            ask_at_random(dice, moving)
    answers = []
    for reply in simulated(sluice_bin, moving.lines):
        text = reply.decode().split("\r\n")[0]
        text = re.sub(r"10\.0\.0\.(\d+):\d+$", lambda found: f"node {int(found[1])}", text)
        answers.append(text[1:] if text[0] in "-+" else "served")
    calls = [line for line in moving.lines if line.split(" ")[0] not in ("clock", "node", "owner", "goes", "comes")]
    for line, wanted, got in zip(calls, moving.replies, answers, strict=True):
        assert got == wanted, line
    assert {reply.split(" ")[0] for reply in answers} == {"OK", "served", "MOVED", "ASK", "TRYAGAIN", "CROSSSLOT"}
