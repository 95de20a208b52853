"""What counters in Redis hold, told by whoever is asked: `sluice inspect --store redis://`, of the module; a front, of
its node or of each node of a cluster, with the slices that are out; and where it can't be told, what is needed."""

import json
import subprocess
import urllib.error
import urllib.request

import pytest

from cluster import Cluster
from harness import DEADLINE_S, RespError, wait_until
from redis_world import module_path, redises  # noqa: F401

POLICY = """
client-time: true
threads: 1
store: {{redis: ["{address}"], budget: 10s{more}}}
attributes: {{user: header x-user}}
limits:
  - {{name: login, when: {{path: /login}}, key: ip, limit: sliding-log 3/1h, on-error: deny,
     penalty: "[30m] after 2 denials in 1h"}}
  - {{name: per-user, key: user, optional: true, limit: 1000000/1h, on-error: deny}}
  - {{name: jobs, key: user, optional: true, limit: concurrency 2 lease 1h, on-error: deny}}
  - {{name: devices, key: user, optional: true, of: ip, limit: distinct 5/1h, on-error: deny}}
"""


@pytest.fixture
def front(server):
    def start(port, more=""):
        one = server(policy=POLICY.format(address=f"127.0.0.1:{port}", more=more))
        wait_until(lambda: decides(one), "no node answers")
        return one
    return start


@pytest.fixture
def sluice(sluice_bin):
    def run(*words):
        done = subprocess.run([sluice_bin, *words], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        return done.returncode, done.stdout, done.stderr
    return run


def decides(one):
    with one.resp() as r:
        try:
            return r.call("SLUICE.CHECK", "warm", 1, "1M/1h") is not None
        except RespError:
            return False


def told(reply):
    return [dict(zip((x.decode() for x in one[::2]), one[1::2])) for one in reply]


def test_a_front_tells_what_one_server_tells(front, server, redises):
    redis = redises(module=("client-time", "yes"))
    one = front(redis.port)
    alone = server(policy="client-time: true\n" + POLICY.split("\n", 4)[4].format())
    now = 1_800_000_000_000
    limits = ["10/1m", "fixed-window 20/1m", "sliding-log 7/10s", "token-bucket 5/1s burst 12", "distinct 5/1m",
              "sliding-buckets 30/1m precision 10s edge weighted", "leaky-bucket 10/1s queue 4", "unlimited"]
    with one.resp() as a, alone.resp() as b:
        for r in (a, b):
            for i in range(5):
                r.call("SLUICE.CHECK", "k", 1, "AT", now + 700 * i, "MEMBER", f"m{i % 3}", *limits)
            r.call("SLUICE.ACQUIRE", "k", 2, "AT", now, "ID", "x", "concurrency 3 lease 10s")
        ask = ["SLUICE.INSPECT", "k", "AT", now + 4000, *limits, "concurrency 3 lease 10s"]
        here, there = told(a.call(*ask)), told(b.call(*ask))
    for one_limit in here:
        assert (one_limit.pop("held"), one_limit.pop("slices"), one_limit.pop("slice_left"),
                one_limit.pop("slice_spent")) == (0, [], 0, 0)
    assert here == there and here[2]["used"] == 5 and len(here[2]["returns"]) == 5


def test_why_at_a_front(front, redises, sluice):
    one = front(redises(module=()).port)
    request = ["ip", "192.0.2.7", "path", "/login", "user", "ann"]
    words = ["ip=192.0.2.7", "path=/login", "user=ann"]
    with one.resp() as r:
        for _ in range(6):
            r.call("SLUICE.ADMIT", 1, *request)
        login, user, jobs, devices = told(r.call("SLUICE.WHY", 1, *request))
    assert [x["name"] for x in (login, user, jobs, devices)] == [b"login", b"per-user", b"jobs", b"devices"]
    assert (login["used"], user["used"], jobs["used"], devices["used"]) == (2, 2, 2, 1)
    assert (login["allowed"], jobs["allowed"], jobs["observed"]) == (1, 0, 0)
    status, out, err = sluice("explain", *words, "--json", "-s", f"127.0.0.1:{one.resp_port}")
    story = json.loads(out)
    assert (status, err) == (1, "") and (story["allowed"], story["limit"]) == (False, "jobs")
    assert [limit["name"] for limit in story["limits"]] == ["login", "per-user", "jobs", "devices"]
    url = f"http://127.0.0.1:{one.http_port}/v1/inspect?ip=192.0.2.7&path=/login&user=ann"
    with urllib.request.urlopen(url) as answer:
        over_http = json.load(answer)
    assert [limit["used"] for limit in over_http["limits"]] == [limit["used"] for limit in story["limits"]]
    assert over_http["limits"][0]["slices"] == [] and over_http["others"] == []


def test_a_front_tells_the_bound_of_too_many_limits(server, redises):
    """No node knows of it."""
    one = server(policy=f"store: {{redis: ['127.0.0.1:{redises(module=()).port}'], budget: 10s}}\nlimits:\n" +
                 "".join(f"  - {{name: l{i}, key: ip, limit: {i + 5}/1h}}\n" for i in range(20)))
    wait_until(lambda: decides(one), "no node answers")
    with one.resp() as r:
        assert r.call("SLUICE.ADMIT", 1, "ip", "192.0.2.7")[:4] == [0, 21, 0, -1]
        limits = told(r.call("SLUICE.WHY", 1, "ip", "192.0.2.7"))
    denying = [x for x in limits if x.get("bound") == b"limits"]
    assert [(x["name"], x["allowed"], x["remaining"]) for x in denying] == [(b"l16", 0, 0)]


def test_a_front_with_a_limit_that_reserves(server, redises):
    policy = POLICY.format(address=f"127.0.0.1:{redises(module=()).port}", more="") + \
        "  - {name: tokens, key: user, optional: true, limit: 100/1h, reserve: {estimate: 5, ttl: 1m}}\n"
    one = server(policy=policy)
    wait_until(lambda: decides(one), "no node answers")
    with one.resp() as r:
        assert r.call("SLUICE.ADMIT", 1, "user", "ann")[0] == 1
        tokens = told(r.call("SLUICE.WHY", 1, "user", "ann"))[-1]
    assert (tokens["name"], tokens["used"], tokens["remaining"]) == (b"tokens", 1, 99)
    with urllib.request.urlopen(f"http://127.0.0.1:{one.http_port}/v1/inspect?user=ann") as answer:
        assert json.load(answer)["limits"][-1]["used"] == 1


def test_a_request_explained_without_a_front(front, redises, sluice, tmp_path):
    """By the policy's file and the module, what a front of that file says: keys, names, prefix, penalties and costs."""
    redis = redises(module=())
    one = front(redis.port, more=", prefix: 'rl:'")
    policy, other = tmp_path / "policy.yaml", tmp_path / "other.yaml"
    policy.write_text(POLICY.format(address=f"127.0.0.1:{redis.port}", more=", prefix: 'rl:'"))
    other.write_text(POLICY.format(address="127.0.0.1:1", more=""))
    url = f"redis://127.0.0.1:{redis.port}"
    for words, calls in ((["ip=192.0.2.7", "path=/login", "user=a{b}%,="], 6), (["ip=2001:DB8::1", "path=//login"], 2),
                         (["user=nobody"], 0)):
        request = [part for word in words for part in word.split("=", 1)]
        with one.resp() as r:
            for _ in range(calls):
                r.call("SLUICE.ADMIT", 1, *request)
        told_by = [sluice("explain", *words, "--json", *how) for how in (
            ["-s", f"127.0.0.1:{one.resp_port}"], ["-c", str(policy), "--store", url],
            ["-c", str(other), "--store", url + "/rl:"])]
        assert len({(status, err) for status, _, err in told_by}) == 1 and told_by[0][2] == "", told_by
        stories = [json.loads(out) for _, out, _ in told_by]
        for story in stories:  # time goes on between the three
            story.pop("retry_after_ms")
            for limit in story["limits"]:
                for name in [x for x in limit if x.endswith("after_ms") or x.startswith("slice")] + ["shut_out_ms"]:
                    limit.pop(name)
                limit["returns"] = [left for _, left in limit["returns"]]
                limit["charges"] = [charge[2] for charge in limit["charges"]]
        assert stories[0] == stories[1] == stories[2]
        assert len(stories[0]["limits"]) + len(stories[0]["others"]) == 4
    assert stories[0]["allowed"] and all(limit["used"] == 0 for limit in stories[0]["limits"])
    status, out, err = sluice("explain", "user=nobody", "-c", str(policy))
    assert status == 0 and "the store is a Redis, to be named by --store redis://HOST" in out
    status, out, err = sluice("explain", "user=nobody", "-c", str(policy), "--store", "redis://127.0.0.1:1")
    assert (status, out) == (2, "") and "no server at 127.0.0.1:1" in err
    url = f"redis://127.0.0.1:{redises(module=None).port}"
    status, out, err = sluice("explain", "user=nobody", "-c", str(policy), "--store", url)
    assert (status, out) == (2, "") and "Sluice's module is not loaded there" in err


def test_more_limits_than_one_request_can_have(front, redises, sluice, tmp_path):
    """One of them denies, by every server: who explains by the file and the module says so too."""
    redis = redises(module=())
    policy = tmp_path / "policy.yaml"
    policy.write_text(f'store: {{redis: ["127.0.0.1:{redis.port}"]}}\nlimits:\n' + "".join(
        f"  - {{name: l{i}, key: ip, limit: 100/1h, observe: {str(i == 3).lower()}, on-error: deny}}\n"
        for i in range(40)))
    stories = []
    for store in (f"redis://127.0.0.1:{redis.port}", str(tmp_path / "counters")):
        if not stories:
            assert sluice("store", "create", str(tmp_path / "counters"), "--memory", "1MiB")[0] == 0
        status, out, err = sluice("explain", "ip=192.0.2.7", "-c", str(policy), "--store", store, "--json")
        assert (status, err) == (1, "")
        stories.append(json.loads(out))
    redis_says, file_says = [story["limits"] for story in stories]
    for limit in redis_says + file_says:  # lists of nothing
        for name in ("returns", "charges", "slices", "held", "slice_spent"):
            assert limit.pop(name, None) in ([], 0, None)
    assert redis_says == file_says and len(file_says) == 16
    for story in stories:
        assert (story["allowed"], story["limit"], story["retry_after_ms"]) == (False, "l16", -1)
    assert sluice("explain", "ip=192.0.2.7", "-c", str(policy), "--store", f"redis://127.0.0.1:{redis.port}")[1] \
        .startswith("denied by l16, ")


def test_slices_that_are_out(front, redises):
    """What a front has taken in advance is told as held, beside what is used; together no unit is lost."""
    one = front(redises(module=()).port, more=", slice: 10s")
    sent = 0
    with one.resp() as r:
        def sliced():
            nonlocal sent
            for _ in range(50):
                assert r.call("SLUICE.CHECK", "hot", 1, "1M/1h")[0] == 1
            sent += 50
            limit, = told(r.call("SLUICE.INSPECT", "hot", "1M/1h"))
            if limit["slices"]:
                assert limit["held"] == sum(cost for _, cost in limit["slices"])
                assert limit["used"] + limit["slice_spent"] == sent
                assert limit["slice_left"] + limit["slice_spent"] <= limit["held"]
            return limit["slice_spent"] != 0
        wait_until(sliced, "no slice was taken")


def test_a_node_with_only_the_script(front, redises):
    one = front(redises(module=None).port)
    with one.resp() as r:
        with pytest.raises(RespError, match="has only the script.*load sluice-module.so there"):
            r.call("SLUICE.INSPECT", "k", "10/1m")
        with pytest.raises(RespError, match="has only the script"):
            r.call("SLUICE.WHY", 1, "user", "ann")
        assert r.call("SLUICE.CHECK", "k", 1, "10/1m")[0] == 1, "it goes on"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{one.http_port}/v1/inspect?user=ann")
    assert refused.value.code == 400 and b"load sluice-module.so there" in refused.value.read()


def test_a_store_that_is_away(front, redises):
    redis = redises(module=())
    one = front(redis.port)
    redis.process.kill()
    redis.process.wait()
    with one.resp() as r:
        with pytest.raises(RespError, match="did not answer in time: nothing was read"):
            r.call("SLUICE.INSPECT", "k", "10/1m")
        assert r.call("PING") == b"PONG"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{one.http_port}/v1/inspect?user=ann")
    assert refused.value.code == 503


def test_limits_over_several_slots(server):
    """Each limit is asked for where its key is: no hash tag is needed to look."""
    with Cluster(module=[module_path()]) as cluster:
        one = server(policy=POLICY.format(address="%s:%d" % cluster.nodes[0].address, more=""))
        keys = [f"k{i}" for i in range(8)]
        words = [word for key in keys for word in ("KEY", key, "10/1m")][1:]
        wait_until(lambda: decides(one), "no node answers")
        with one.resp() as r:
            for i, key in enumerate(keys):
                wait_until(lambda: spend(r, key, i + 1), "a node is not reached")
            limits = told(r.call("SLUICE.INSPECT", *words))
        assert [(limit["key"].decode(), limit["used"]) for limit in limits] == [(k, i + 1) for i, k in enumerate(keys)]


def spend(r, key, cost):
    try:
        return r.call("SLUICE.CHECK", key, cost, "10/1m")[0] == 1
    except RespError:
        return False


def test_the_command_line_at_redis(redises, sluice):
    redis = redises(module=())
    url = f"redis://127.0.0.1:{redis.port}/rl:"
    assert sluice("check", "user:1", "10/1h", "--cost", "3", "--store", url)[0] == 0
    with redis.resp() as r:
        assert r.call("SLUICE.LEASE", "rl:user:1", "b", 60000, 0, 4, "10/1h")[0] == 4
    status, out, err = sluice("inspect", "--store", url, "user:1", "10/1h", "KEY", "user:2", "10/1h", "--json")
    one, other = json.loads(out)
    assert (status, err) == (0, "")
    assert (one["key"], one["used"], one["held"], one["remaining"], len(one["slices"])) == ("rl:user:1", 3, 4, 3, 1)
    assert (other["used"], other["held"]) == (0, 0)
    status, out, err = sluice("inspect", "--store", url, "user:1", "10/1h")
    assert (status, err) == (0, "")
    assert "\nheld       4 beside what is used, 1 slice of front ends among it\n" in out
    status, out, err = sluice("inspect", "--store", f"redis://127.0.0.1:{redises(module=None).port}", "k", "10/1h")
    assert (status, out) == (2, "") and "Sluice's module is not loaded there" in err
