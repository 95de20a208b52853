"""Fronts over a real Redis Cluster: several `sluice serve` with one policy, and what can befall nodes and fronts.

fleet_load.c asks all fronts at a steady rate and writes down each answer; what was charged is then asked of the nodes.
With a = told "allowed", f = told that nobody could answer, u = unanswered because a front was killed:

    a - lost <= charged <= a + f + u    of each counter; `lost` is what asynchronous replication lost with a primary
    a <= limit + lost

f and u may have been charged, since nobody can know whether a command that was not answered was executed.

These are a few, with real processes: tests/sim has the same fronts and nodes on virtual time, and by the thousand.

The limits on load and time grow with SLUICE_SOAK_SECONDS: 60 s of a hot key, and each fate by module and script. How
fast all this is is measured then as well. Else it runs beside other tests on a machine that may be busy: budgets are
longer, what is to be over soon is waited for, and only what is never allowed to happen is held to its figure.
"""

import bisect
import collections
import contextlib
import os
import re
import struct
import subprocess
import time

import pytest

from cluster import (NODE_TIMEOUT_MS, Client, Cluster, Module, Script, keys_at, module_beside, needs_island, slot_of,
                     why_no_islands)
from harness import DEADLINE_S, ROOT, Server, encode, wait_until
from ports import free_ports

SOAK_S = float(os.environ.get("SLUICE_SOAK_SECONDS", "0"))
RECORD = struct.Struct("<QQIIHHBB2x")
DENIED, ALLOWED, REFUSED, UNANSWERED, FELL_BACK = range(5)

POLICY = """
threads: 1
store: {{redis: [{nodes}], budget: {budget_ms}ms, via: {via}, {slices}}}
limits:
{limits}
"""
TWO_LIMITS = """
  - {{name: per-user, key: user, limit: {user}, on-error: deny}}
  - {{name: per-address, key: ip, limit: {ip}, on-error: deny}}
"""
ASK_TWO = ("SLUICE.ADMIT", "1", "user", "u%", "ip", "i#")


def some(count, *cases):
    """All cases in a soak, else the first ones."""
    return cases if SOAK_S else cases[:count]


@pytest.fixture(scope="module")
def cluster(sluice_bin):
    islands = 1 if why_no_islands() is None else 0
    with Cluster(module=[module_beside(sluice_bin)], islands=islands) as one:
        yield one


@pytest.fixture
def breakable(cluster):
    """The cluster, empty, for tests that break it: as it was afterwards."""
    cluster.flush()
    yield cluster
    cluster.heal()


@pytest.fixture(scope="session")
def load_program(tmp_path_factory):
    program = str(tmp_path_factory.mktemp("load") / "fleet_load")
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-o", program,
                    os.path.join(ROOT, "tests", "e2e", "fleet_load.c")], check=True, timeout=120)
    return program


def policy_of(cluster, limits, slices=False, budget_ms=100, slice_ms=500, via="auto"):
    """All nodes but the island's are named: it is found out."""
    nodes = ", ".join(f'"{node!r}"' for node in cluster.nodes[1:])
    return POLICY.format(nodes=nodes, limits=limits, budget_ms=budget_ms, via=via,
                         slices=f"slice: {slice_ms}ms" if slices else "slices: false")


class Front:
    """One `sluice serve`, at a port that stays its own when it is killed and started again."""

    def __init__(self, binary, policy, wrapper=()):
        self.binary, self.policy, self.wrapper, self.port = binary, policy, wrapper, free_ports(1)[0]
        self.start()

    def start(self):
        self.server = Server(self.binary, self.policy, wrapper=self.wrapper,
                             listen=("--resp", f"127.0.0.1:{self.port}", "--http", "127.0.0.1:0"))

    def kill(self):
        self.server.process.kill()
        self.server.process.wait()
        self.server.stop(expect=-9)

    def decides(self):
        with self.server.resp() as r:
            return r.call("SLUICE.ADMIT", 1, "user", "warm", "ip", "warm")[1] > 0


@pytest.fixture
def fronts(sluice_bin):
    started = []

    def start(policy, count=3, wrapper=()):
        new = [Front(sluice_bin, policy, wrapper) for _ in range(count)]
        started.extend(new)
        for front in new if not wrapper else ():  # to an island's no connection can be made from here
            wait_until(front.decides, "a front does not reach the nodes")
        return new

    yield start
    for front in started:
        if front.server.process.returncode is None:
            front.server.stop()


class Answer(collections.namedtuple("Answer", "sent answered quota remaining a b front outcome")):
    """What one request got, times in s."""

    __slots__ = ()

    @property
    def is_admitted(self):
        return self.outcome == ALLOWED

    @property
    def is_unknown(self):
        return self.outcome in (UNANSWERED, FELL_BACK)


class Load:
    """fleet_load under way; stop() ends it and returns the answers in their order."""

    def __init__(self, program, folder, fronts, rate, keys, words, seconds=600, connections=2, flying=4096,
                 wrapper=()):
        self.file = os.path.join(folder, f"answers-{len(os.listdir(folder))}")
        self.process = subprocess.Popen(
            [*wrapper, program, self.file, str(rate), str(seconds), str(connections), str(flying), str(keys),
             ",".join(str(front.port) for front in fronts), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"loading\n"
        self.began = time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.returncode is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.process.stdin.close()

    def stop(self, by_itself=False):
        if not by_itself:
            self.process.stdin.close()
        assert self.process.wait(600) == 0
        with open(self.file, "rb") as f:
            answers = [Answer(one[0] / 1e9, one[1] / 1e9, *one[2:]) for one in RECORD.iter_unpack(f.read())]
        assert answers and not any(one.outcome == REFUSED for one in answers)
        return answers


def used_of(client, name, key, limit, via=Module):
    """What the nodes have charged, or hold, for a limit of the policy."""
    reply = via.call(client, "PEEK", "sluice:" + key, 0, "NAME", name, limit)
    return reply[1] - reply[2]


def charged_of(client, answers, limits, via=Module):
    """Of each counter: (admitted, unknown, charged), when no hold is left: a front's own are over after seconds."""
    found = {}
    for name, attribute, field, limit in limits:
        admitted, unknown = collections.Counter(), collections.Counter()
        for one in answers:
            admitted[getattr(one, field)] += one.is_admitted
            unknown[getattr(one, field)] += one.is_unknown
        for number in admitted:
            key = f"{attribute}={attribute[0]}{number}"
            found[key] = admitted[number], unknown[number], used_of(client, name, key, limit, via)
    return found


def charged_at_last(cluster, answers, limits, via=Module):
    """The same when all that was held is confirmed, given back or over; fails where something else stays charged."""
    def settled():
        with Client(cluster) as client:
            found = charged_of(client, answers, limits, via)
        return all(charged <= a + unknown for a, unknown, charged in found.values()) and found
    return wait_until(settled, "something stays charged that nobody was told of", 15)


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


# ---- nodes that are lost ---------------------------------------------------------------------------------------------

USER, ADDRESS = "sliding-log 30/3660d", "fixed-window 1M/3660d"
COUNTERS = (("per-user", "user", "a", USER), ("per-address", "ip", "b", ADDRESS))

BUDGET_MS = 100 if SOAK_S else 250
SLACK_MS = 30 if SOAK_S else 5000  # of clients and fronts that wait for a core: tests run beside this one
LONG_BUDGET_MS = 100 if SOAK_S else 2000  # where nobody is lost, and so no answer either
RECOVERY_S, LAST_S = (2.5, 1) if SOAK_S else (8, 3)  # for probing to find the new primary; of what is judged then
MISSED = 0.02 if SOAK_S else 0.4  # of requests that all could have been answered, or admitted; a busy machine: more
SPELLS = 0 if SOAK_S else 12  # of load, where the machine had no time for the one before


def move_slots(cluster, keys, seconds, least=9):
    """Moves a slot after another, for so long, and until so many have moved."""
    end, turn = time.monotonic() + seconds, 0
    while time.monotonic() < end or turn < least:
        slot = slot_of("sluice:" + keys[turn % len(keys)])
        others = [node for node in cluster.primaries() if node is not cluster.owner(slot)]
        cluster.move_slot(slot, others[turn % 2], lambda: time.sleep(0.005), keys_a_time=1)
        turn += 1


def kill_a_primary(cluster):
    """Returns who took over."""
    victim = cluster.nodes[0]
    victim.kill()
    return cluster.wait_taken_over(victim)


def until_recovered(answers, since, load):
    """All answers, once nearly all requests that were sent since an instant are decided, or those of a further spell of
    `load()`: fewer requests get what they need of a busy machine. Fails where nothing recovers."""
    last = [one for one in answers if since < one.sent]
    for spell in range(SPELLS + 1):
        if last and sum(one.is_unknown for one in last) <= MISSED * len(last):
            return answers
        if spell < SPELLS:
            with load() as more:
                time.sleep(LAST_S)
                last = more.stop()
            answers = answers + last
    raise AssertionError(f"no recovery by itself: {sum(one.is_unknown for one in last)} of {len(last)} by on-error")


@pytest.mark.parametrize("how, fate", some(2, ("module", "killed"), ("script", "slots move"), ("script", "killed")))
def test_answers_come_within_the_budget_and_limits_hold(breakable, fronts, load_program, tmp_path, sluice_bin, how,
                                                        fate):
    cluster = breakable
    via, rate = (Module(), 1500) if how == "module" else (Script(os.path.dirname(sluice_bin)), 300)
    budget_ms = LONG_BUDGET_MS if fate == "slots move" else BUDGET_MS
    three = fronts(policy_of(cluster, TWO_LIMITS.format(user=USER, ip=ADDRESS), budget_ms=budget_ms, via=how))
    # One request at a time on a connection: behind one that waits another waits, and has its own budget then.
    with Load(load_program, tmp_path, three, rate, 300, ASK_TWO, connections=70, flying=1) as load:
        time.sleep(1)
        fate_at = time.monotonic()
        if fate == "slots move":
            with cluster.patient():
                move_slots(cluster, [f"user=u{i}" for i in range(300)], 4)
        else:
            kill_a_primary(cluster)
        over_at = time.monotonic()
        time.sleep(RECOVERY_S)
        end_at = time.monotonic()
        answers = load.stop()
    answers = until_recovered(answers, end_at - LAST_S, lambda: Load(load_program, tmp_path, three, 100, 300, ASK_TWO,
                                                                     connections=70, flying=1))
    via.load(cluster)
    counters = charged_at_last(cluster, answers, COUNTERS, via)
    lost = sum(max(0, a - charged) for a, _, charged in counters.values())
    over = sum(max(0, a - 30) for key, (a, _, _) in counters.items() if key.startswith("user="))
    recent = sum(one.is_admitted for one in answers if fate_at - 0.5 < one.answered < fate_at + 0.2)
    waits = [one.answered - one.sent for one in answers]
    failed = sum(one.is_unknown for one in answers)
    while_away = [one for one in answers if fate_at < one.sent < over_at]
    served = sum(not one.is_unknown for one in while_away) / len(while_away)
    print(f"{how}, {fate}: {len(answers)} answers, p99 {percentile(waits, 0.99) * 1000:.1f} ms, longest "
          f"{max(waits) * 1000:.1f} ms; over after {over_at - fate_at:.1f} s, meanwhile {served:.0%} decided; "
          f"{failed} by on-error, {lost} charges lost, {over} over")
    assert not any(one.outcome == UNANSWERED for one in answers)
    assert lost <= (0 if fate == "slots move" else 2 * recent) and over <= lost
    assert percentile(waits, 0.99) < (budget_ms + SLACK_MS) / 1000
    assert max(waits) < (budget_ms + 2 * SLACK_MS + 400) / 1000
    # 4 of 9 have both their keys elsewhere
    assert served > ((0.7 if SOAK_S else 0.4) if fate == "slots move" else 0.2 if SOAK_S else 0)


@needs_island()
def test_a_front_cut_off_with_a_primary(breakable, fronts, load_program, tmp_path):
    """It goes on with the primary on its island until that sees that it is alone, which is what is lost; then on-error
    answers, within the budget, until the link is back."""
    cluster, limit = breakable, "fixed-window 1M/3660d"
    enter, policy = cluster.island.enter(), policy_of(cluster, HOT.format(limit=limit), budget_ms=BUDGET_MS)
    number = next(i for i in range(10000) if cluster.owner_of(f"sluice:user=u{i}") is cluster.nodes[0])
    words, shape = ("SLUICE.ADMIT", "1", "user", f"u{number}"), {"connections": 60, "flying": 1}
    there, elsewhere = fronts(policy, 1, enter), fronts(policy, 1)
    with Load(load_program, tmp_path, there, 300, 1, words, wrapper=enter, **shape) as inside, \
            Load(load_program, tmp_path, elsewhere, 300, 1, words, **shape) as outside:
        time.sleep(1)
        cut_at = time.monotonic()
        cluster.island.cut_off()
        cluster.wait_taken_over(cluster.nodes[0])
        time.sleep(1)
        cluster.island.join()
        joined_at = time.monotonic()
        time.sleep(1 + RECOVERY_S)
        end_at = time.monotonic()
        inner, outer = inside.stop(), outside.stop()
    inner = until_recovered(inner, end_at - LAST_S,
                            lambda: Load(load_program, tmp_path, there, 100, 1, words, wrapper=enter, **shape))
    outer = until_recovered(outer, end_at - LAST_S,
                            lambda: Load(load_program, tmp_path, elsewhere, 100, 1, words, **shape))
    with Client(cluster) as client:
        charged = used_of(client, "hot", f"user=u{number}", limit)
    admitted = sum(one.is_admitted for one in inner + outer)
    lonely = [one.answered - cut_at for one in inner if one.is_admitted and cut_at < one.answered and
              one.sent < joined_at]
    waits = [one.answered - one.sent for one in inner + outer]
    print(f"cut off with a primary: {admitted - charged} of {admitted} lost, {len(lonely)} admitted alone within "
          f"{percentile(lonely, 0.99):.1f} s, longest {max(waits) * 1000:.0f} ms")
    assert admitted - charged <= len(lonely) + 5 and len(lonely) < 300 * 2 * NODE_TIMEOUT_MS / 1000
    assert max(waits) < (BUDGET_MS + 2 * SLACK_MS + 400) / 1000


# ---- fronts that are lost --------------------------------------------------------------------------------------------

@pytest.mark.parametrize("turn", range(25 if SOAK_S else 1))
def test_fronts_killed_between_hold_and_confirm(breakable, fronts, turn):
    """One node is paused, so that no request gets beyond its first hold: what the dead fronts held is free again when
    their reservations end, and nothing at all is charged. With more time for all that where the machine is too slow."""
    budgets = (0.5 if SOAK_S else 1.5, 3, 6, 10)
    assert any(killed_in_time(breakable, fronts, budget_s, turn * 100) for budget_s in budgets), "too slow for all"


def killed_in_time(cluster, fronts, budget_s, first):
    """Whether the fronts were dead before their requests' budget was over; if so all the rest has been asserted."""
    count, each, limit, hold_s = 20 if SOAK_S else 5, 7, "sliding-log 1000/3660d", 4 * budget_s
    there, elsewhere = cluster.nodes[1], cluster.nodes[2]
    doomed = fronts(policy_of(cluster, TWO_LIMITS.format(user=limit, ip=limit), budget_ms=int(budget_s * 1000)), count)
    user, address = (next(f"{kind}{i}of{budget_s}" for i in range(first, 100000)
                          if cluster.owner_of(f"sluice:{name}={kind}{i}of{budget_s}") is node)
                     for name, kind, node in (("user", "u", there), ("ip", "i", elsewhere)))
    request = encode("SLUICE.ADMIT", 1, "user", user, "ip", address)

    def used():
        return [used_of(client, "per-user", "user=" + user, limit),
                used_of(client, "per-address", "ip=" + address, limit)]

    with Client(cluster) as client, contextlib.ExitStack() as stack:
        links = [stack.enter_context(front.server.resp()) for front in doomed]
        for link in links:
            assert link.call("SLUICE.ADMIT", 1, "user", user, "ip", address)[0] == 1
        assert used() == [count, count]
        elsewhere.pause()
        try:
            began = time.monotonic()
            for link in links:
                link.send(request * each)
            wait_until(lambda: used_of(client, "per-user", "user=" + user, limit) == count * (1 + each) or
                       time.monotonic() - began >= budget_s, "not everything is held")
            for front in doomed:
                front.server.process.kill()
            in_time = time.monotonic() - began < budget_s
            for front in doomed:
                front.kill()
            if not in_time:
                return False
        finally:
            elsewhere.resume()
        assert used()[0] == count * (1 + each)
        wait_until(lambda: used() == [count, count], "a dead front's holds stay", hold_s + DEADLINE_S)
        print(f"{count} fronts killed between hold and confirm: {count * each} holds were over after "
              f"{time.monotonic() - began:.1f} s")
    return True


# ---- one hot key -----------------------------------------------------------------------------------------------------

def most_in_windows(answers, window_s, limit):
    """The most that was admitted for sure within any half-open window of that length: sent after its begin, answered
    before its end, as no answer can be that took longer. A log is exact to its stamps, which are whole milliseconds
    (docs/limits.md): of two requests W apart by their stamps, one may have come W - 1 ms after the other."""
    admitted = [one for one in answers if one.is_admitted]
    window_s -= 0.001 if limit.startswith("sliding-log") else 0
    quick = [one for one in admitted if one.answered - one.sent < window_s]
    assert len(quick) >= (0.98 if SOAK_S else 0.2) * len(admitted)
    sent, ends = sorted(one.sent for one in quick), sorted(one.answered for one in quick)
    return max(bisect.bisect_left(ends, begin + window_s) - i for i, begin in enumerate(sent))


def test_who_is_denied_by_local_counters_holds_nothing(breakable, fronts):
    """One of two limits is at a node that is away, and its counters in process deny: the other's node keeps nothing."""
    cluster = breakable
    limits = """
  - {{name: per-user, key: user, limit: sliding-log 3/1h, on-error: deny}}
  - {{name: per-address, key: ip, limit: sliding-log 2/1h, on-error: local}}
"""
    one, = fronts(policy_of(cluster, limits.format(), budget_ms=LONG_BUDGET_MS), count=1)
    living, dead = cluster.nodes[1], cluster.nodes[2]
    user, = keys_at(cluster, living, 1, "sluice:user=held")
    ip, = keys_at(cluster, dead, 1, "sluice:ip=held")
    cluster.replica_of(dead).pause()
    dead.kill()
    with one.server.resp() as r:
        told = wait_until(lambda: r.call("SLUICE.ADMIT", 3, "user", user[12:], "ip", ip[10:]), "nobody answers")
        assert told[0] == 0 and told[7] == b"per-address"
    look = ("SLUICE.PEEK", user, 3, "NAME", "per-user", "sliding-log 3/1h")
    wait_until(lambda: living.call(*look)[0] == 1, "it is held", 4 * LONG_BUDGET_MS / 1000 / 2)


HOT = "  - {{name: hot, key: user, limit: {limit}, on-error: deny}}"
ASK_ONE = ("SLUICE.ADMIT", "1", "user", "u%")
HOT_SECONDS = 60 if SOAK_S else 6


@pytest.mark.parametrize("limit, burst", some(1, ("sliding-log 1000/1s", 0), ("token-bucket 1000/1s burst 200", 200),
                                              ("sliding-log 3000/3s", 0)))
def test_a_hot_key_costs_few_commands(breakable, fronts, load_program, tmp_path, limit, burst):
    """Ten times the limit at three fronts. In every window at most what the limit admits, and nearly all of that."""
    cluster = breakable
    quota, window_s = (int(x) for x in re.search(r" (\d+)/(\d)s", limit).groups())
    three = fronts(policy_of(cluster, HOT.format(limit=limit), slices=True, budget_ms=LONG_BUDGET_MS))
    before = collections.Counter(cluster.calls("sluice."))
    with Load(load_program, tmp_path, three, 10 * quota / window_s, 1, ASK_ONE, seconds=HOT_SECONDS) as load:
        answers = load.stop(by_itself=True)
    calls = collections.Counter(cluster.calls("sluice.")) - before
    calls.pop("sluice.effect", None)  # what replicas are sent
    commands = calls.total()
    admitted = sum(one.is_admitted for one in answers)
    share = admitted / (quota * HOT_SECONDS / window_s)
    most = {w: most_in_windows(answers, w, limit) for w in (window_s, window_s * 2, window_s / 4)}
    print(f"{limit}: {len(answers)} requests, {admitted} admitted ({share:.1%}), at most {most} in windows, "
          f"{commands} commands ({commands / len(answers):.2%}): {dict(calls)}")
    assert not any(one.is_unknown for one in answers)
    if burst:
        assert all(many <= burst + quota * w / window_s for w, many in most.items())
    else:
        assert most[window_s] <= quota and most[2 * window_s] <= 2 * quota
    assert share >= 0.97 - (0 if SOAK_S else MISSED)
    assert commands < (0.02 if SOAK_S else 0.04) * len(answers)


@pytest.mark.parametrize("limit", some(1, "token-bucket 1000/1s burst 100", "sliding-log 1000/1s"))
def test_a_front_killed_with_slices_out(breakable, fronts, load_program, tmp_path, limit):
    """Its slices are charged in full when they end; then the others have the full rate."""
    cluster, quota, slice_s, window_s = breakable, 1000, 0.5, 1
    three = fronts(policy_of(cluster, HOT.format(limit=limit), slices=True, slice_ms=int(slice_s * 1000),
                             budget_ms=LONG_BUDGET_MS))
    with Load(load_program, tmp_path, three, 10 * quota, 1, ASK_ONE) as load:
        time.sleep(2.5)
        three[0].kill()
        killed_at = time.monotonic()
        time.sleep(7)
        answers = load.stop()
    # A bucket is drawn from evenly. A log's quota is admitted at once, as soon as it is free again: of such bursts, a
    # window apart and a little, any five windows have four whole ones.
    is_log = limit.startswith("sliding-log")
    full_from = killed_at + slice_s + (window_s if is_log else 0)
    seconds, least = 5 if is_log else 4, 4 * (0.97 - (0 if SOAK_S else MISSED)) * quota
    times = [one.answered for one in answers if one.is_admitted and full_from < one.answered <= full_from + seconds]
    print(f"{limit}, a front killed with slices out: {len(times) / seconds:.0f} a second from "
          f"{full_from - killed_at:.1f} s on")
    assert most_in_windows(answers, window_s, limit) <= quota + (0 if is_log else 100)
    assert len(times) >= least
    assert not any(one.is_unknown for one in answers if one.outcome != UNANSWERED)
