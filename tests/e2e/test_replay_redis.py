"""sluice replay --store redis://: the same traffic decided here and in a real redis-server, by the module and by the
script, with the same answer line for line; and a Redis that is afterwards what it was before."""

import os
import random
import re
import signal
import subprocess

import pytest

from harness import DEADLINE_S, wait_until
from ports import free_port
from redis_world import Clock, Redis
from test_cli import data
from test_tls import certs  # noqa: F401 - a fixture

MODULE = ("client-time", "yes")
LIMITS = ["100/1m", "fixed-window 10/1s", "sliding-log 20/10s", "sliding-buckets 240/1h precision 1m edge drop",
          "sliding-buckets 60/1m precision 1s edge weighted", "token-bucket 10/1s burst 50",
          "leaky-bucket 10/1s queue 50"]
MINE = {"mine": b"1", "{sluice:replay:0}:x": b"2", "user:1": b"3"}


def run(sluice_bin, *words, status=0, password=None, **options):
    env = {name: value for name, value in os.environ.items() if name != "SLUICE_PASSWORD"}
    if password is not None:
        env["SLUICE_PASSWORD"] = password
    done = subprocess.run([sluice_bin, *words], capture_output=True, text=True, timeout=120, env=env, check=False,
                          **options)
    assert done.returncode == status, (done.returncode, done.stdout[-500:], done.stderr)
    return done


@pytest.fixture(scope="module", params=["module", "script"])
def store(request):
    """A redis-server with keys of others, and the way in which it decides."""
    redis = Redis(module=MODULE if request.param == "module" else None)
    with redis.resp() as r:
        for key, value in MINE.items():
            r.call("SET", key, value)
    yield redis, request.param
    redis.stop()


def untouched(redis):
    with redis.resp() as r:
        return {key: r.call("GET", key) for key in MINE} == MINE and r.call("DBSIZE") == len(MINE)


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    """Bursts, pauses, costs, and a clock that steps back now and then."""
    dice = random.Random(5)
    path = tmp_path_factory.mktemp("log") / "traffic.ops"
    now, lines = 1_700_000_000_000, []
    for _ in range(2500):
        now += dice.choice((0, 0, 0, 1, 5, 40, 300, -20)) + (dice.randrange(60000) if dice.random() < 0.004 else 0)
        lines.append(f"{now} k{min(int(dice.expovariate(0.4)), 30)} {dice.choice((1, 1, 1, 2, 5, 0, 30))}\n")
    path.write_text("".join(lines))
    return str(path)


def both(sluice_bin, redis, way, *words):
    """The local answer and the one of the Redis."""
    here = run(sluice_bin, "replay", *words)
    there = run(sluice_bin, "replay", *words, "--store", f"redis://127.0.0.1:{redis.port}")
    assert there.stdout == here.stdout and there.stderr == here.stderr
    assert untouched(redis)
    with redis.resp() as r:
        assert (way == "script") == (r.call("COMMAND", "INFO", "SLUICE.CHECK") == [None])
    return here.stdout


@pytest.mark.parametrize("limit", LIMITS)
def test_each_algorithm_decides_alike(sluice_bin, store, ops, limit):
    out = both(sluice_bin, *store, "--format", "ops", "--decisions", ops, "--limit", limit)
    lines = out.splitlines()
    assert len(lines) == 2500 and 150 < sum(line[0] == "0" for line in lines) < 2450


def test_several_limits_and_the_report(sluice_bin, store, ops):
    words = ["--format", "ops", ops, "--limit", "100/1m", "--limit", "token-bucket 10/1s burst 50", "--limit",
             "sliding-log 30/10s"]
    both(sluice_bin, *store, "--decisions", *words)
    out = both(sluice_bin, *store, *words)
    assert "worst keys" in out and "sliding-log 30/10s" in out


def test_real_traffic(sluice_bin, store, tmp_path):
    text = subprocess.run(["xz", "-dc", data("tls-clients.ops.xz")], capture_output=True, check=True).stdout
    path = tmp_path / "tls.ops"
    path.write_bytes(b"".join(text.splitlines(True)[:2500]))
    both(sluice_bin, *store, "--format", "ops", "--decisions", "--limit", "sliding-log 20/10s", str(path))


POLICY = """
attributes: {user: header x-user}
limits:
  - {name: everybody, key: [], limit: 400/1m, candidate: 90/1m}
  - {name: "a name", key: ip, limit: token-bucket 2/1s burst 9, candidate: token-bucket 1/1s burst 4}
  - {name: pages, key: [ip, path], limit: sliding-log 3/10s, observe: true, candidate: sliding-log 5/10s}
  - name: writes
    when: {method: POST}
    key: user | ip
    limit: fixed-window 5/1m
    overrides: [{when: {user: root}, limit: unlimited}]
"""


def test_a_policy_with_keys_of_its_own(sluice_bin, store, tmp_path):
    dice = random.Random(6)
    log, policy = tmp_path / "access.log", tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    with open(log, "w", encoding="ascii") as f:
        for i in range(1500):
            print(f"10.0.0.{dice.randrange(12)} - {dice.choice(('-', 'ann', 'root', 'b%,='))} "
                  f"[17/May/2015:10:{i // 120:02}:{i // 2 % 60:02} +0000] \"{dice.choice(('GET', 'POST'))} "
                  f"/{dice.randrange(3)} HTTP/1.1\" 200 5", file=f)
    words = ["-c", str(policy), str(log)]
    both(sluice_bin, *store, "--decisions", *words)
    out = both(sluice_bin, *store, *words)
    assert "writes: fixed-window 5/1m" in out and "(observed: denies nobody)" in out
    tried = {name: int(n) for n, name in re.findall(r"^ +(\d+) +1500  ([\w ]+): candidate ", out, re.M)}
    assert tried["everybody"] > 100 and tried["pages"] == tried["a name"] == 0, tried
    assert "\nkeys that candidates would deny\n" in out


def test_requests_that_no_limit_applies_to(sluice_bin, store, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("limits: [{name: a, key: ip, limit: 1/1s}]\n")
    out = run(sluice_bin, "replay", "--format", "ops", "-c", str(policy), "--decisions", "-", "--store",
              f"redis://127.0.0.1:{store[0].port}", input="1000 a\n2000 b\n").stdout
    assert out == "1 4294967295 0 0\n" * 2


def test_a_seventeenth_limit_is_decided_without_the_redis(sluice_bin, store, tmp_path):
    """It denies all that costs anything: as here, so there, and the calls beside it are answered by the Redis."""
    policy, log = tmp_path / "policy.yaml", tmp_path / "log"
    policy.write_text("limits:\n" + "".join(f"  - {{name: l{n}, key: key, limit: 9/1h}}\n" for n in range(16)) +
                      "  - {name: more, key: key, when: {key: a}, limit: 9/1h}\n")
    log.write_text("1000 a 0\n2000 b\n3000 a\n4000 a 0\n5000 b\n")
    out = both(sluice_bin, *store, "--decisions", "--format", "ops", "-c", str(policy), str(log))
    assert [line.split()[:3] for line in out.splitlines()] == [["1", "0", "0"], ["1", "8", "0"], ["0", "0", "-1"],
                                                               ["1", "0", "0"], ["1", "7", "0"]]


@pytest.mark.parametrize("way", ["module", "script"])
def test_the_logs_time_is_not_the_walls(sluice_bin, redises, way):
    """Ten minutes pass at the Redis while a millisecond passes in the log: nothing has expired."""
    clock = Clock(1_700_006_400_000)
    redis = redises(module=MODULE if way == "module" else None, clock=clock)
    words = [sluice_bin, "replay", "--format", "ops", "--decisions", "-", "--limit", "100/1s", "--limit",
             "sliding-log 300/1s"]
    first, second = "1000 a\n" * 256 + "1001 b\n", "1001 a\n" * 256
    with subprocess.Popen([*words, "--store", f"redis://127.0.0.1:{redis.port}"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        process.stdin.write(first)
        process.stdin.flush()
        with redis.resp() as r:
            wait_until(lambda: r.call("DBSIZE") == 1, "no key came")
        clock.stand(1_700_006_400_000 + 600_000)
        out = process.communicate(second, timeout=DEADLINE_S)[0]
    assert out == subprocess.run(words, input=first + second, capture_output=True, text=True, check=True).stdout
    assert sum(line[0] == "1" for line in out.splitlines()) == 101


# ---- a Redis as it was ------------------------------------------------------------------------------------------

def test_a_replay_that_breaks_off_leaves_nothing(sluice_bin, store, ops):
    """SIGINT in the middle: status 2, and no key is left."""
    redis, _ = store
    with subprocess.Popen([sluice_bin, "replay", "--format", "ops", "--limit", "5/1m", "--store",
                           f"redis://127.0.0.1:{redis.port}", "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as process:
        for i in range(1000):
            process.stdin.write(f"{1000 + i} k{i}\n")
        process.stdin.flush()
        wait_until(lambda: int(re.search("keys=([0-9]+)", redis.info("keyspace", "db0"))[1]) > len(MINE) + 500,
                   "no key came")
        process.send_signal(signal.SIGINT)
        try:
            process.stdin.write("5000 k\n" * 1000)
            process.stdin.close()
        except BrokenPipeError:
            pass
        assert process.wait(DEADLINE_S) == 2 and "interrupted" in process.stderr.read()
    assert untouched(redis)


def test_the_list_of_keys_has_a_bound(sluice_bin, store, tmp_path):
    path = tmp_path / "many.ops"
    path.write_text("".join(f"{1000 + i} {'k' * 900}{i}\n" for i in range(3000)))
    done = run(sluice_bin, "replay", "--format", "ops", "--limit", "5/1m", "--memory", "1MiB", "--store",
               f"redis://127.0.0.1:{store[0].port}", str(path), status=2)
    assert "--memory gives it more" in done.stderr
    assert untouched(store[0])


# ---- what is refused, and how to go on -----------------------------------------------------------------------------

@pytest.mark.parametrize("words,wanted", [
    (["--store", "counters"], "expected the URL of a Redis, such as redis://127.0.0.1:6379"),
    (["--store", "redis://me:secret@h"], "a password does not belong on a command line"),
    (["--store", "redis://h/0"], "not the number of a database"),
    (["--store", "redis://h", "--via", "modul"], "expected auto, module or script; did you mean module?"),
    (["--via", "script"], "give --store redis://HOST as well"),
    (["--store", "redis://h", "--ca", "x"], "give --store rediss://HOST as well"),
])
def test_misuse(sluice_bin, words, wanted):
    done = run(sluice_bin, "replay", "--limit", "1/1s", "-", *words, status=2)
    assert wanted in done.stderr and "secret" not in done.stderr


def ask(sluice_bin, url, *words, **options):
    return run(sluice_bin, "replay", "--format", "ops", "--limit", "1/1s", "--decisions", "-", "--store", url, *words,
               input="1000 a\n1001 a\n", **options)


def test_a_module_without_clients_time(sluice_bin, redises):
    redis = redises(module=())
    url = f"redis://127.0.0.1:{redis.port}"
    done = ask(sluice_bin, url, status=2)
    assert "`loadmodule /path/to/sluice-module.so client-time yes`" in done.stderr and "--via script" in done.stderr
    assert ask(sluice_bin, url, "--via", "script").stdout == "1 0 0 2000\n0 0 1999 1999\n"


def test_no_module(sluice_bin, redises):
    redis = redises(module=None)
    url = f"redis://127.0.0.1:{redis.port}"
    done = ask(sluice_bin, url, "--via", "module", status=2)
    assert "module is not loaded there" in done.stderr and "client-time yes`" in done.stderr
    done = run(sluice_bin, "check", "a", "1/1s", "--store", url, status=2)
    assert "Sluice's module is not loaded there" in done.stderr
    assert "Connection refused" in ask(sluice_bin, f"redis://127.0.0.1:{free_port()}", status=2).stderr


def test_users_passwords_and_prefixes(sluice_bin, redises):
    """A user who may do just what a replay needs."""
    redis = redises(module=MODULE, options=["--unixsocket", "s", "--unixsocketperm", "700"])
    with redis.resp() as r:
        r.call("ACL", "SETUSER", "replayer", "on", ">p w", "~rl:*", "+sluice.check", "+sluice.peek", "+unlink")
        r.call("ACL", "SETUSER", "looker", "on", ">x", "~*", "+sluice.check", "+sluice.peek")
    url = f"redis://replayer@127.0.0.1:{redis.port}"
    good = "1 0 0 2000\n0 0 1999 1999\n"
    assert ask(sluice_bin, url + "/rl:", password="p w").stdout == good
    assert "NOPERM" in ask(sluice_bin, url, password="p w", status=2).stderr
    assert "WRONGPASS" in ask(sluice_bin, url + "/rl:", password="p", status=2).stderr
    assert "SLUICE_PASSWORD" in ask(sluice_bin, url + "/rl:", status=2).stderr
    done = ask(sluice_bin, f"redis://looker@127.0.0.1:{redis.port}", password="x", status=2)
    assert "a replay removes its keys by UNLINK" in done.stderr and "NOPERM" in done.stderr
    assert ask(sluice_bin, f"unix://{redis.path('s')}").stdout == good
    with redis.resp() as r:
        assert r.call("DBSIZE") == 0


def test_check_in_a_redis(sluice_bin, redises):
    redis = redises(module=())
    url = f"redis://127.0.0.1:{redis.port}/rl:"
    words = ["check", "a", "sliding-log 1/1h", "KEY", "b", "5/1h", "--store", url]
    assert "allowed" in run(sluice_bin, *words, "--peek").stdout
    assert "remaining  0 of 1" in run(sluice_bin, *words).stdout
    assert "denied" in run(sluice_bin, *words, status=1).stdout
    with redis.resp() as r:
        assert sorted(r.call("KEYS", "*")) == [b"rl:a", b"rl:b"]


def test_over_tls(sluice_bin, redises, certs):
    port = free_port()
    redis = redises(module=MODULE, options=[
        "--tls-port", port, "--tls-cert-file", f"{certs}/server.pem", "--tls-key-file", f"{certs}/server.key",
        "--tls-ca-cert-file", f"{certs}/ca.pem", "--tls-auth-clients", "no"])
    assert redis.alive()
    url = f"rediss://localhost:{port}"
    assert ask(sluice_bin, url, "--ca", f"{certs}/ca.pem").stdout == "1 0 0 2000\n0 0 1999 1999\n"
    assert "certificate" in ask(sluice_bin, url, "--ca", f"{certs}/other-ca.pem", status=2).stderr


def test_a_cluster_sends_it_where_its_slot_is(sluice_bin, redises):
    """Whichever node is named: all keys of a replay are of one slot, and it goes to the node that has it."""
    buses = [free_port(), free_port()]
    nodes = [redises(module=MODULE, options=["--cluster-enabled", "yes", "--cluster-port", bus]) for bus in buses]
    for node, (first, last) in zip(nodes, ((0, 8191), (8192, 16383))):
        with node.resp() as r:
            r.call("CLUSTER", "ADDSLOTSRANGE", first, last)
    with nodes[0].resp() as r:
        r.call("CLUSTER", "MEET", "127.0.0.1", nodes[1].port, buses[1])

    def agreed():
        found = []
        for node in nodes:
            with node.resp() as r:
                found.append(b"cluster_state:ok" in r.call("CLUSTER", "INFO")
                             and r.call("CLUSTER", "INFO").count(b"cluster_known_nodes:2") == 1)
        return all(found)
    wait_until(agreed, "the two do not become a cluster")
    for node in nodes:
        for way in ("module", "script"):
            done = ask(sluice_bin, f"redis://127.0.0.1:{node.port}", "--via", way)
            assert done.stdout == "1 0 0 2000\n0 0 1999 1999\n"
            with node.resp() as r:
                assert r.call("DBSIZE") == 0
