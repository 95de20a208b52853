"""The files of envoyproxy/ratelimit, followed by a server that serves: codes, statuses and what is left over real gRPC;
files that are changed, added, broken, cut and taken away under it; and what is told of them over HTTP."""
import os
import re
import subprocess

import pytest

from harness import DEADLINE_S, RespError, wait_until

grpc = pytest.importorskip("grpc", reason="python3-grpcio is not installed")
import rls  # noqa: E402 - needs grpc

LISTEN = 'listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0", grpc: "127.0.0.1:0"}\n'
SHOP = """domain: shop
descriptors:
  - key: user
    rate_limit: {name: each, unit: year, requests_per_unit: %s}
  - key: user
    value: vip
    rate_limit: {unlimited: true}
  - key: path
    value: /api/*
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 1}
"""


@pytest.fixture
def served(server, tmp_path):
    """A server of a folder, and that folder."""
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "shop.yaml").write_text(SHOP % 2)

    def start(more=""):
        return server(LISTEN + f"envoy: {{config: {folder}{more}}}\n", listen=())
    return start, folder


def client_of(one):
    return rls.Client(f"127.0.0.1:{one.ports('grpc')[0]}")


def quota_of(client, user="u", domain="shop"):
    """The quota that a user has, 0: none; asked without a charge."""
    status = client.ask(domain, ([("user", user)], {"hits": 0})).statuses[0]
    return status.current_limit.requests_per_unit


def reloaded(one, want):
    """The answer of a reload: was it taken over, and what does it say?"""
    with one.http() as http:
        status, _, body = http.ask("POST", "/v1/reload", b"")
        assert body.get("reloaded", False) == want, (status, body)
        return str(body)


def test_answers(served):
    start, _ = served
    with client_of(start()) as client:
        for left in (1, 0):
            status, = client.ask("shop", [("user", "a")]).statuses
            assert (status.code, status.limit_remaining) == (rls.OK, left)
            limit = status.current_limit
            assert (limit.requests_per_unit, limit.unit, limit.name) == (2, rls.YEAR, "each")
            assert 0 < status.duration_until_reset.seconds <= 365 * 86400
        answer = client.ask("shop", [("user", "a")], [("user", "vip")], [("path", "/api/x")], [("other", "x")])
        assert answer.overall_code == rls.OVER_LIMIT
        assert [s.code for s in answer.statuses] == [rls.OVER_LIMIT, rls.OK, rls.OK, rls.OK]
        assert answer.statuses[1].limit_remaining == 2 ** 32 - 1 and not answer.statuses[1].HasField("current_limit")
        assert answer.statuses[2].limit_remaining == 1, "nothing was charged"
        assert not answer.statuses[3].HasField("current_limit")
        for left in (0, 0):
            status, = client.ask("shop", [("path", "/api/x")]).statuses
            assert (status.code, status.limit_remaining) == (rls.OK, left)
        assert client.ask("elsewhere", [("user", "a")]).overall_code == rls.OK


def test_files_are_followed(served):
    """What is written, added, replaced by a link or removed is taken over without being asked; counters are kept."""
    start, folder = served
    with client_of(start()) as client:
        client.ask("shop", [("user", "u")])
        (folder / "shop.yaml").write_text(SHOP % 7)
        wait_until(lambda: quota_of(client) == 7, "the change")
        assert client.ask("shop", ([("user", "u")], {"hits": 0})).statuses[0].limit_remaining == 6
        (folder / "more.yml").write_text((SHOP % 9).replace("shop", "more"))
        wait_until(lambda: quota_of(client, domain="more") == 9, "the change")
        (folder / "new.tmp").write_text((SHOP % 11).replace("shop", "more"))
        os.rename(folder / "new.tmp", folder / "more.yml")
        wait_until(lambda: quota_of(client, domain="more") == 11, "the change")
        os.unlink(folder / "more.yml")
        wait_until(lambda: quota_of(client, domain="more") == 0, "the change")
        assert quota_of(client) == 7


@pytest.mark.parametrize("what", ["broken", "cut", "emptied", "without limits", "no file", "no folder", "duplicate"])
def test_nothing_disarms(served, what):
    start, folder = served
    file = folder / "shop.yaml"
    says = {"broken": "shop.yaml:4:36: invalid rate limit unit 'eon'",
            "cut": "error loading config file: yaml: ",
            "emptied": "config file cannot have empty domain",
            "without limits": "the files that envoy.config names no longer have any limits",
            "no file": "the files that envoy.config names no longer have any limits",
            "no folder": "can't read ",
            "duplicate": "duplicate domain 'shop' in config file"}
    one = start()
    with client_of(one) as client:
        if what in ("broken", "cut", "emptied", "without limits"):
            file.write_text({"broken": (SHOP % 5).replace("unit: year", "unit: eon", 1),
                             "cut": (SHOP % 5)[:70], "emptied": "", "without limits": "domain: shop\n"}[what])
        elif what == "duplicate":
            (folder / "also.yaml").write_text(SHOP % 5)
        else:
            os.unlink(file)
            if what == "no folder":
                os.rmdir(folder)
        assert says[what] in reloaded(one, False)
        assert quota_of(client) == 2, "the policy that was in force stays"
        folder.mkdir(exist_ok=True)
        (folder / "also.yaml").unlink(missing_ok=True)
        file.write_text(SHOP % 3)
        reloaded(one, True)
        wait_until(lambda: quota_of(client) == 3, "each thread takes it at its next turn")


def write_policy(one, text):
    with open(one.policy_file, "w", encoding="utf-8") as file:
        file.write(text)


def test_it_may_be_meant(served):
    """A policy that names no files any more, and says that there are no limits."""
    start, _ = served
    one = start()
    with client_of(one) as client:
        write_policy(one, LISTEN)
        assert "it has no limits, and does not say limits: []" in reloaded(one, False)
        write_policy(one, LISTEN + "limits: []\n")
        reloaded(one, True)
        assert quota_of(client) == 0


def test_a_start_is_refused(sluice_bin, tmp_path):
    (tmp_path / "bad.yaml").write_text("domain: x\ndescriptors: [{key: a, rate_limit: {unit: eon}}]\n")
    (tmp_path / "policy").write_text(LISTEN + f"envoy: {{config: {tmp_path}}}\n")
    done = subprocess.run([sluice_bin, "serve", "-c", str(tmp_path / "policy")], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S)
    assert done.returncode == 2 and "bad.yaml:2:43: invalid rate limit unit 'eon'" in done.stdout
    done = subprocess.run([sluice_bin, "lint", str(tmp_path / "policy")], stdout=subprocess.PIPE, text=True, timeout=99)
    assert done.returncode == 1 and "bad.yaml:2:43: error: invalid rate limit unit 'eon'" in done.stdout


def test_what_is_denied_counts_where_the_policy_says_so(served):
    start, _ = served
    with client_of(start(", count-denied: true")) as client:
        for _ in range(2):
            client.ask("shop", [("user", "a")])
        answer = client.ask("shop", [("user", "a")], [("user", "b")])
        assert answer.overall_code == rls.OVER_LIMIT
        assert [s.limit_remaining for s in answer.statuses] == [0, 1], "each counts by itself, as theirs does"


def test_bounds(served):
    """More descriptors than can be decided are over; more than can be read as well."""
    start, folder = served
    with client_of(start()) as client:
        many = client.ask("shop", *([("user", f"m{i}")] for i in range(17)))
        assert many.overall_code == rls.OVER_LIMIT and len(many.statuses) == 17
        assert client.ask("shop", *([("user", f"m{i}")] for i in range(16))).overall_code == rls.OK
        for descriptors in ([[("user", "x")]] * 257, [[("user", "x")] * 1024, [("user", "x")], [], []]):
            answer = client.ask("shop", *descriptors)
            assert [s.code for s in answer.statuses] == [rls.OVER_LIMIT] * len(descriptors)
            assert answer.overall_code == rls.OVER_LIMIT
        assert not client.ask("shop", *[[]] * 65537).statuses
        assert len(client.ask("shop", *[[]] * 65536).statuses) == 65536
        deep = client.ask("shop", [("user", "x")] * 20)
        assert deep.overall_code == rls.OK and not deep.statuses[0].HasField("current_limit")


def test_what_is_told(served):
    """The rules in force, and their hits, over HTTP."""
    start, folder = served
    (folder / "detail.yaml").write_text("domain: d\ndescriptors:\n"
                                        "  - key: a\n    detailed_metric: true\n"
                                        "    rate_limit: {unit: day, requests_per_unit: 5}\n"
                                        "  - key: q\n    quota_mode: true\n"
                                        "    rate_limit: {unit: week, requests_per_unit: 1}\n")
    one = start()
    with client_of(one) as client:
        for _ in range(3):
            client.ask("shop", [("user", "a")], [("path", "/api/x")])
        client.ask("d", ([("a", "x")], {"hits": 5}), ([("a", "y")], {"hits": 0}))
    with one.http() as http:
        status, _, body = http.ask("GET", "/rlconfig")
        assert status == 200 and body.decode().splitlines() == [
            "d.a: unit=DAY requests_per_unit=5, shadow_mode: false, quota_mode: false",
            "d.q: unit=WEEK requests_per_unit=1, shadow_mode: false, quota_mode: true",
            "shop.user: unit=YEAR requests_per_unit=2, shadow_mode: false, quota_mode: false",
            "shop.user_vip: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false",
            "shop.path_/api/*: unit=YEAR requests_per_unit=1, shadow_mode: true, quota_mode: false"]
        metrics = http.ask("GET", "/metrics")[2].decode()
    counted = {(m[1], m[2] + "." + m[3]): int(m[4]) for m in re.finditer(
        r'^sluice_envoy_(\w+)_total\{domain="([^"]*)",descriptor="([^"]*)"\} (\d+)$', metrics, re.M)}
    assert {name[0]: count for name, count in counted.items() if name[1] == "shop.user"} == {
        "total_hits": 3, "within_limit": 2, "near_limit": 1, "over_limit": 1, "shadow_mode": 0}
    assert {name[0]: count for name, count in counted.items() if name[1] == "shop.path_/api/*"} == {
        "total_hits": 3, "within_limit": 1, "near_limit": 1, "over_limit": 2, "shadow_mode": 2}
    assert counted["total_hits", "d.a_x"] == 5 and counted["near_limit", "d.a_x"] == 1
    assert ("total_hits", "d.a_y") not in counted, "who only looks is not counted"


def explain(sluice_bin, policy, *args):
    return explain_at(sluice_bin, "-c", str(policy), *args)


def explain_at(sluice_bin, *args):
    done = subprocess.run([sluice_bin, "explain", *args], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S)
    return done.returncode, done.stdout


def test_a_descriptor_is_explained(sluice_bin, server, tmp_path):
    """Which rule it finds and where that stands; with a store, what is left, and no charge."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "shop.yaml").write_text(SHOP % 2)
    text = (f"store: {{file: {tmp_path}/counters, memory: 4MiB}}\nenvoy: {{config: {tmp_path}/config}}\n")
    one = server('listen: {resp: "127.0.0.1:0", grpc: "127.0.0.1:0"}\n' + text, listen=())
    (tmp_path / "policy").write_text(text)
    with client_of(one) as client:
        for _ in range(2):
            client.ask("shop", [("user", "a=b")])
        for user, code, now in (("a%3Db", 1, "over the limit, 0 of 2 left"), ("c", 0, "OK, 2 of 2 left")):
            for _ in range(2):
                status, told = explain(sluice_bin, tmp_path / "policy", "--domain", "shop", "--descriptor",
                                       f"user={user}")
                assert status == code and told.startswith(f"shop.user: {tmp_path}/config/shop.yaml:3\n"), told
                assert "  limit     fixed-window 2/365d\n" in told and f"  counter   shop,user={user}\n" in told
                assert f"  now       {now}" in told
    (tmp_path / "policy").write_text(f"envoy: {{config: {tmp_path}/config}}\n")
    for descriptor, says in (("user=vip", "shop.user_vip: "), ("path=/api/x", "shop.path_/api/*: "),
                             ("user=a,more=b", "no rule: entry 2 (more) finds no descriptor"),
                             ("path=/x", "no rule: entry 1 (path) finds no descriptor")):
        status, told = explain(sluice_bin, tmp_path / "policy", "--domain", "shop", "--descriptor", descriptor)
        assert status == 0 and told.startswith(says), told
    assert "no file has the domain elsewhere" in explain(
        sluice_bin, tmp_path / "policy", "--domain", "elsewhere", "--descriptor", "a=b")[1]
    for args in (["--domain", "x"], ["--descriptor", "a=b"], ["--domain", "x", "--descriptor", "=b"],
                 ["--domain", "x", "--descriptor", "a=b", "ip=1.2.3.4"]):
        assert explain(sluice_bin, tmp_path / "policy", *args)[0] == 2


def test_a_server_explains_a_descriptor(sluice_bin, served):
    """By the rules in force there, and what their counters hold there."""
    start, folder = served
    one = start()
    server = f"127.0.0.1:{one.resp_port}"

    def told(descriptor, domain="shop"):
        return explain_at(sluice_bin, "--server", server, "--domain", domain, "--descriptor", descriptor)
    with client_of(one) as client:
        for left, status in ((2, 0), (1, 0), (0, 1)):
            code, text = told("user=a%2Cb")
            assert (code, text.splitlines()[:3]) == (status, [
                f"shop.user: {folder}/shop.yaml:3", "  limit     fixed-window 2/365d", "  counter   shop,user=a%2Cb"])
            assert f"  now       {'over the limit' if status else 'OK'}, {left} of 2 left" in text
            client.ask("shop", [("user", "a,b")])
        for _ in range(2):
            client.ask("shop", [("path", "/api/x")])
    code, text = told("path=/api/x")
    assert code == 0 and ", shadow_mode\n" in text and "  now       over, and OK as a shadow, 0 of 1 left" in text
    assert told("user=vip") == (0, f"shop.user_vip: {folder}/shop.yaml:5\n  limit     unlimited\n")
    assert told("user=a,more=b") == (0, "no rule: entry 2 (more) finds no descriptor\n")
    assert told("user=a", "elsewhere") == (0, "no rule: no file has the domain elsewhere\n")
    (folder / "shop.yaml").write_text(SHOP % 7)
    wait_until(lambda: "fixed-window 7/365d" in told("user=a")[1], "the change")


def test_what_a_server_can_not_explain(sluice_bin, server):
    one = server()
    args = ("--server", f"127.0.0.1:{one.resp_port}", "--domain", "shop", "--descriptor", "user=a")
    code, text = explain_at(sluice_bin, *args)
    assert code == 2 and "the policy names no files of envoyproxy/ratelimit (envoy: {config: DIR})" in text
    assert explain_at(sluice_bin, *args, "-c", "f")[0] == 2
    with one.resp() as client:
        for words in (["shop", "a"], ["shop", "a", "b", "c"], ["shop"]):
            with pytest.raises(RespError):
                client.call("SLUICE.RULE", *words)
