"""docs/moving.md, docs/redis.md and docs/fleet.md: what they show is what happens, in a real redis-server with the
module. The scripts of the first page and their replacements decide the same streams, with the differences that the
page states."""

import os
import random
import re
import shlex
import subprocess

import pytest

from harness import ROOT, RespError, wait_until
from redis_world import FIXED, Clock, Redis

START = 1_700_006_400_000  # the beginning of a day, and so of a minute and an hour
MINUTE = 60_000


def page(name):
    with open(os.path.join(ROOT, "docs", name), encoding="utf-8") as f:
        return f.read()


def shown(reply):
    """A reply on one line, as the pages have it."""
    if isinstance(reply, list):
        return " ".join(map(shown, reply))
    return reply.decode() if isinstance(reply, bytes) else str(reply)


def exchanges(text):
    """[(words, the answer)] of a page's console blocks."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        lines = block.splitlines()
        assert len(lines) % 2 == 0 and all(line.startswith("redis> ") for line in lines[::2]), block
        found += [(shlex.split(ask[len("redis> "):]), answer) for ask, answer in zip(lines[::2], lines[1::2])]
    return found


def dated(words):
    """The same, asked at START, so that waits are what is shown however slow the machine is."""
    verb = words[0].partition("SLUICE.")[2]
    at = 2 + FIXED.get(verb, 0)
    return [*words[:at], "AT", START, *words[at:]] if verb in FIXED else words


@pytest.fixture(scope="module")
def standing():
    """A server whose clock stands until the test moves it."""
    clock = Clock(START)
    redis = Redis(clock=clock)
    yield redis, clock
    redis.stop()
    clock.close()


@pytest.fixture
def r(standing):
    redis, clock = standing
    clock.stand(START)
    with redis.resp() as client:
        client.call("FLUSHALL")
        yield client


@pytest.mark.parametrize("name", ["moving.md", "redis.md"])
def test_what_is_shown_is_what_is_answered(r, name):
    asked = exchanges(page(name))
    assert len(asked) >= 7
    for words, answer in asked:
        try:
            got = shown(r.call(*dated(words)))
        except RespError as error:
            got = str(error)
        assert got == answer, words


def scripts():
    found = dict(re.findall(r"```lua\n-- ([a-z-]+)\n(.*?)```", page("moving.md"), re.S))
    assert set(found) == {"two-bucket", "sorted-set"}
    return found


def ours(name):
    with open(os.path.join(ROOT, "bench", "scripts", name), encoding="utf-8") as f:
        return f.read()


class Old:
    """The page's scripts, and those of bench/scripts, by key and instant."""

    def __init__(self, r):
        self.r, self.serial = r, 0

    def two_bucket(self, key, now, limit, window=MINUTE):
        keys = [f"{key}:{now // window}", f"{key}:{now // window - 1}"]
        return self.r.call("EVAL", scripts()["two-bucket"], 2, *keys, limit, window, now) == 1

    def two_bucket_strict(self, key, now, limit, window=MINUTE):
        keys = [f"{key}:{now // window}", f"{key}:{now // window - 1}"]
        return self.r.call("EVAL", ours("two_bucket.lua"), 2, *keys, limit, window, now)[0] == 1

    def sorted_set(self, key, now, limit, window=MINUTE, member=None):
        self.serial += 1
        return self.r.call("EVAL", scripts()["sorted-set"], 1, key, limit, window, now,
                           f"{now}-{self.serial}" if member is None else member) == 1

    def log(self, key, now, limit, window=MINUTE):
        self.serial += 1
        return self.r.call("EVAL", ours("log.lua"), 1, key, limit, window, now, self.serial)[0] == 1

    def hash(self, key, now, limits, cost=1):
        return self.r.call("EVAL", ours("three_limit.lua"), 1, key, limits, now // 1000, cost) == 0


def new(r, key, now, *limits, cost=1):
    return r.call("SLUICE.CHECK", "new:" + key, cost, "AT", now, *limits)[0] == 1


def stream(seed, count=1500, step=900):
    dice, now = random.Random(seed), START
    for _ in range(count):
        now += dice.choice((0, 1, 20, step, step)) + (dice.randrange(2 * MINUTE) if dice.random() < 0.02 else 0)
        yield now


# ---- two buckets -------------------------------------------------------------------------------------------------

def test_two_buckets_that_compare_before_they_add_admit_one_more(r):
    old = Old(r)
    before, half = START + 59_900, START + 90_300
    assert sum(old.two_bucket("a", before, 100) for _ in range(150)) == 100
    assert sum(new(r, "a", before, "100/1m") for _ in range(150)) == 100
    assert sum(old.two_bucket("a", half, 100) for _ in range(150)) == 51
    assert sum(new(r, "a", half, "100/1m") for _ in range(150)) == 50


def test_two_buckets_that_compare_strictly_decide_as_ours(r):
    decided = [(Old(r).two_bucket_strict("b", now, 20), new(r, "b", now, "20/1m")) for now in stream(1)]
    assert all(a == b for a, b in decided) and 100 < sum(a for a, _ in decided) < 1400


def test_the_window_before_is_gone_too_early(standing, r):
    """All at the beginning of a minute; 75 s later three quarters of them still count, and the string is gone."""
    _, clock = standing
    old, later = Old(r), START + 75_000
    assert sum(old.two_bucket("c", START, 100) for _ in range(100)) == 100
    assert sum(new(r, "c", START, "100/1m") for _ in range(100)) == 100
    clock.stand(later)
    assert sum(old.two_bucket("c", later, 100) for _ in range(150)) == 100
    assert sum(new(r, "c", later, "100/1m") for _ in range(150)) == 25


def test_a_clients_clock_frees_what_others_spent(r):
    old = Old(r)
    assert [old.two_bucket("d", START, 2) for _ in range(3)] == [True, True, False]
    assert old.two_bucket("d", START + 2 * MINUTE, 2)  # nobody has waited
    assert [r.call("SLUICE.CHECK", "new:d", 1, "2/1m")[0] for _ in range(3)] == [1, 1, 0]


# ---- sorted sets --------------------------------------------------------------------------------------------------

def test_a_sorted_set_that_counts_denials_locks_out_who_retries(r):
    """Ten a minute, asked for every second, for ten minutes."""
    old, instants = Old(r), range(START, START + 10 * MINUTE, 1000)
    assert sum(old.sorted_set("a", now, 10) for now in instants) == 10
    assert r.call("ZCARD", "a") == 60
    assert sum(new(r, "a", now, "sliding-log 10/1m") for now in instants) == 100


def test_times_as_members_collide(r):
    old = Old(r)
    assert sum(old.sorted_set("b", START, 10, member=START) for _ in range(50)) == 50
    assert sum(new(r, "b", START, "sliding-log 10/1m") for _ in range(50)) == 10


def test_one_client_that_is_ahead_trims_for_all(r):
    old = Old(r)
    assert sum(old.sorted_set("c", START, 10) for _ in range(10)) == 10
    assert old.sorted_set("c", START + MINUTE, 10)      # its clock is a minute ahead
    assert old.sorted_set("c", START + 1, 10)           # and now there is room for everybody
    assert sum(new(r, "c", START, "sliding-log 10/1m") for _ in range(10)) == 10
    assert not new(r, "c", START + 1, "sliding-log 10/1m")


def test_a_sorted_set_that_counts_first_decides_as_ours(r):
    decided = [(Old(r).log("d", now, 20), new(r, "d", now, "sliding-log 20/1m")) for now in unique(stream(2))]
    assert all(a == b for a, b in decided) and 100 < sum(a for a, _ in decided) < 1400


def unique(instants):
    """That script's members are made of the time and a number, which the test gives anew each time."""
    yield from sorted(set(instants))


# ---- hashes of sub-buckets -------------------------------------------------------------------------------------------

LIMITS = "[[1,10],[60,120],[3600,240,60]]"
SAME = ["fixed-window 10/1s", "fixed-window 120/1m", "sliding-buckets 240/1h precision 1m edge drop"]


def test_the_hash_decides_as_its_replacement(r):
    dice, decided = random.Random(3), []
    for now in stream(3, count=3000, step=3000):
        now, cost = now // 1000 * 1000, dice.choice((1, 1, 1, 2, 5))
        decided.append((Old(r).hash("a", now, LIMITS, cost), new(r, "a", now, *SAME, cost=cost)))
    assert all(a == b for a, b in decided) and 200 < sum(a for a, _ in decided) < 2900


def test_a_dropped_edge_admits_twice_as_much(r):
    """240 at the end of one minute, and 240 an hour later but for a minute's rest: 480 in less than an hour."""
    first, second = START + 59_000, START + 3_600_000
    old = Old(r)
    for name, ask, wanted in (
            ("hash", lambda now: old.hash("b", now, "[[3600,240,60]]"), 480),
            ("drop", lambda now: new(r, "drop", now, "sliding-buckets 240/1h precision 1m edge drop"), 480),
            ("count", lambda now: new(r, "count", now, "sliding-buckets 240/1h precision 1m edge count"), 240)):
        assert sum(ask(first) for _ in range(300)) + sum(ask(second) for _ in range(300)) == wanted, name
    assert second - first < 3_600_000


# ---- what the pages say of others ------------------------------------------------------------------------------------

def test_every_notation_of_the_page_is_one(r):
    text = page("moving.md")
    found = set(re.findall(r"`((?:[a-z-]+ )?[0-9]+[kM]?/[0-9]+[smhd](?: [a-z]+ [0-9a-z]+)*)`", text))
    assert len(found) >= 9
    for limit in sorted(found):
        assert r.call("SLUICE.PEEK", "k", 1, limit)[0] == 1, limit
    assert r.call("SLUICE.PEEK", "k", 21, "leaky-bucket 10/1s queue 20")[0] == 1   # as nginx' burst=20
    assert r.call("SLUICE.PEEK", "k", 21, "token-bucket 10/1s burst 21")[0] == 1
    assert r.call("SLUICE.PEEK", "k", 22, "leaky-bucket 10/1s queue 20")[0] == 0


def test_the_acl_lines_let_in_what_they_should(standing, r):
    """Each line of redis.md is taken; the app decides, and may neither reset nor leave its keys."""
    redis, _ = standing
    lines = re.findall(r"^ACL SETUSER .*$", page("redis.md"), re.M)
    assert len(lines) == 4
    for line in lines:
        assert r.call(*line.split()) == b"OK"
    with redis.resp() as app:
        app.call("AUTH", "app", "secret")
        assert app.call("SLUICE.CHECK", "rl:a", 1, "10/1s")[0] == 1
        for words in (["SLUICE.RESET", "rl:a", "10/1s"], ["SLUICE.CHECK", "a", 1, "10/1s"],
                      ["SLUICE.CHECK", "rl:a", 1, "10/1s", "KEY", "b", "10/1s"], ["SLUICE.EFFECT", "rl:a", -1, "x"]):
            with pytest.raises(RespError, match="NOPERM"):
                app.call(*words)
    with redis.resp() as cell:
        cell.call("AUTH", "from-redis-cell", "secret")
        assert cell.call("CL.THROTTLE", "a", 1, 1, 1)[0] == 0
    for user in ("app", "admin-of-limits", "front", "from-redis-cell"):
        r.call("ACL", "DELUSER", user)
    later = re.findall(r"^\| `([^`]*sluice[^`]*)` \|", page("redis.md").split("## ACL")[1].split("\n## ")[0], re.M)
    assert len(later) >= 3 and sum("-sluice.reset" in rules for rules in later) >= 2
    if b"ratelimit" in r.call("ACL", "CAT"):  # Redis 7.2 and later, Valkey
        for rules in later:
            assert r.call("ACL", "SETUSER", "later", "reset", *rules.split()) == b"OK"
            resets = r.call("ACL", "DRYRUN", "later", "SLUICE.RESET", "rl:a", "10/1s") == b"OK"
            assert resets == (rules == "~rl:* +@ratelimit"), rules
            assert r.call("ACL", "DRYRUN", "later", "SLUICE.CHECK", "rl:a", 1, "10/1s") == b"OK", rules
        r.call("ACL", "DELUSER", "later")


def test_memory(r):
    """What moving.md says of memory, within a tenth: it is Redis that adds to it."""
    for i in range(1000):
        assert new(r, "spread", START + 50 * i, "sliding-log 1000/1m")
        assert new(r, "dense", START + i // 20, "sliding-log 1000/1m")
        assert Old(r).log("set", START + 50 * i, 1000)
    new(r, "w", START, "100/1m")
    Old(r).two_bucket("s", START, 100)
    used = {key: r.call("MEMORY", "USAGE", key, "SAMPLES", 0)
            for key in ("new:spread", "new:dense", "set", "new:w", f"s:{START // MINUTE}")}
    assert used["new:spread"] <= 2100 * 1.1 and used["new:dense"] <= 424 * 1.1 and used["new:w"] <= 32 * 1.3
    assert used["set"] >= 100_000
    if b"valkey_version" not in r.call("INFO", "server"):  # which does not count a key's name
        assert used[f"s:{START // MINUTE}"] >= 56


@pytest.mark.parametrize("options", [[], ["--rename-command", "LPUSHX", ""]], ids=["", "a renamed command"])
def test_full_memory(redises, options):
    """What redis.md says of maxmemory: what needs room is denied, counters that are there go on, so does forgetting."""
    redis = redises(module=(), options=options)
    with redis.resp() as client:
        assert client.call("SLUICE.CHECK", "a", 1, "2/1h")[0] == 1
        client.call("CONFIG", "SET", "maxmemory", 1)
        for limit in ("2/1h", "sliding-log 10/1h"):
            allowed, _, _, retry_ms = client.call("SLUICE.CHECK", "b", 1, limit)[:4]
            assert allowed == 0 and 0 < retry_ms <= 1000, limit
        assert [client.call("SLUICE.CHECK", "a", 1, "2/1h")[0] for _ in range(2)] == [1, 0]
        assert client.call("SLUICE.PEEK", "a", 1, "2/1h")[0] == 0
        assert client.call("SLUICE.RESET", "a", "2/1h") == 1


def test_memory_is_full_from_when_redis_says_so(redises):
    """A command that began below maxmemory goes on, as those of Redis do."""
    redis = redises(module=())
    with redis.resp() as client:
        client.call("CONFIG", "SET", "maxmemory", int(redis.info("memory", "used_memory")) + 2_000_000)
        fill = "redis.call('SET', KEYS[2], string.rep('x', 8000000))"
        assert client.call("EVAL", fill + " return redis.call('SLUICE.CHECK', KEYS[1], 1, '2/1h')", 2, "a", "b")[0] == 1
        assert client.call("SLUICE.CHECK", "c", 1, "2/1h")[0] == 0


# ---- fleet.md --------------------------------------------------------------------------------------------------------

def test_the_fleets_policy_is_one(sluice_bin, tmp_path):
    blocks = re.findall(r"```yaml\n(.*?)```", page("fleet.md"), re.S)
    assert len(blocks) == 1
    path = tmp_path / "fleet.yaml"
    path.write_text(blocks[0])
    done = subprocess.run([sluice_bin, "lint", str(path)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and "warning" not in done.stdout, done.stdout


def test_the_fleets_metrics_are_there():
    named = set(re.findall(r"sluice_fleet_[a-z_]*[a-z]", page("fleet.md")))
    assert named and all(f"`{name}`" in page("metrics.md") for name in named)


@pytest.mark.parametrize("module", [True, False])
def test_the_first_recipe_runs(redises, sluice_bin, tmp_path, module):
    """As it is printed, at a Redis with the module as it is loaded by default, and at one without."""
    redis = redises(module=() if module else None)
    recipe = re.search(r"```sh\n(sluice replay.*?)```", page("moving.md"), re.S).group(1)
    recipe = recipe.replace("redis://127.0.0.1:6379", f"redis://127.0.0.1:{redis.port}")
    (tmp_path / "access.log").write_text("".join(
        f'192.0.2.{i % 3} - - [17/May/2015:10:05:{i // 10:02d} +0000] "GET / HTTP/1.1" 200 1\n' for i in range(400)))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sluice").symlink_to(os.path.abspath(sluice_bin))
    done = subprocess.run(["bash", "-e", "-c", recipe], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                          check=False, env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert len((tmp_path / "there.txt").read_text().splitlines()) == 400


def rules(name, start):
    """What an ACL line of a page grants, without user and password; its parts may stand in quotes, on several lines."""
    text = page(name).replace("\\\n", " ").replace("\\|", "|")
    line = next(line for line in text.splitlines() if start in line)
    return [word for word in re.sub(r"['\"]", "", line.split(start)[1]).split() if word[0] in "~+"]


@pytest.mark.parametrize("name,start,module", [
    ("redis.md", "ACL SETUSER front ", True), ("fleet.md", "ACL SETUSER front ", True),
    ("fleet.md", "ACL SETUSER front-by-script ", False)])
def test_a_front_needs_no_more_than_its_line(redises, server, tmp_path, name, start, module):
    redis = redises(module=() if module else None)
    password = tmp_path / "password"
    password.write_text("secret\n")
    with redis.resp() as client:
        assert client.call("ACL", "SETUSER", "front", "on", ">secret", *rules(name, start)) == b"OK"
    front = server(policy=f"""
store: {{redis: "127.0.0.1:{redis.port}", budget: 5s, user: front, password-file: "{password}"}}
limits:
  - {{name: hot, key: ip, limit: 1000/1m, on-error: deny}}
  - {{name: strict, key: user, limit: sliding-log 1000/1m, strict: true, on-error: deny}}
""")
    with front.resp() as client:
        wait_until(lambda: client.call("SLUICE.ADMIT", 1, "ip", "a")[0] == 1, "the front does not decide")
        before = client.call("SLUICE.ADMIT", 1, "ip", "b", "user", "c")
        assert before[0] == 1
        for _ in range(400):  # hot enough for a slice
            assert client.call("SLUICE.ADMIT", 1, "ip", "b", "user", "c")[0] == 1
        assert client.call("SLUICE.EXPLAIN", 1, "user", "c")[0][3:6] == [1, 1000, 599]
        assert client.call("SLUICE.RESET", "c", "policy:strict") in (0, 1)
        if module:
            jobs = "concurrency 2 lease 1m"
            assert client.call("SLUICE.ACQUIRE", "jobs", 1, "ID", "a", jobs)[0] == 1
            assert client.call("SLUICE.RENEW", "jobs", "a", jobs) == 1
            assert client.call("SLUICE.RELEASE", "jobs", "a", jobs) == 1
            reserved = client.call("SLUICE.RESERVE", "k", 50, 60000, "sliding-log 100/1h")[-1]
            assert client.call("SLUICE.COMMIT", "k", reserved, 20)[2] == 80
            assert client.call("SLUICE.OVERRIDE", "SET", "policy:strict", "user=c", "sliding-log 7/1m") == b"OK"
    with redis.resp() as client:
        assert client.call("ACL", "LOG") == []
