"""Quotas of keys' own at run time: through the door of one server, decided by at all doors of all that share its store,
and still there after a restart where the store is a file."""

import hmac
import os
import re
import subprocess

import pytest

import override_cases
from harness import DEADLINE_S, encode

POLICY = """
store: {%s, memory: 8MiB}
attributes: {user: header x-user}
trusted-proxies: [127.0.0.0/8]
limits:
  - name: per-user
    key: user
    limit: 5/1h
    overrides: [{when: {plan: day}, limit: 50/1d}, {when: {plan: pro}, limit: 7/1h}]
"""
KEY = ("policy:per-user", "user=ann")


def admit(r, *more):
    return r.call("SLUICE.ADMIT", 1, "user", "ann", *more)


def write(one, policy):
    """Replaces the policy of a server that runs."""
    with open(one.policy_file + ".new", "w", encoding="utf-8") as file:
        file.write(policy)
    os.rename(one.policy_file + ".new", one.policy_file)


def test_two_servers_of_one_store_decide_by_it_at_once(server):
    name = f"sluice-override-{os.getpid()}"
    policy = POLICY % f"shared: {name}"
    try:
        one, other = server(policy), server(policy)
        with one.resp() as a, other.resp() as b:
            assert admit(a)[:3] == [1, 5, 4]
            assert a.call("SLUICE.OVERRIDE", "SET", *KEY, "100/1h") == b"OK"
            assert admit(b)[:3] == [1, 100, 98]
            assert b.call("SLUICE.OVERRIDE", "GET", *KEY) == [b"sliding-window 100/1h", -1]
            # before an override of the file for the same counter; another window is another counter
            assert admit(b, "plan", "pro")[1] == 100
            assert admit(b, "plan", "day")[1] == 50
            assert a.call("SLUICE.OVERRIDE", "SET", *KEY, "60/1d", 60000) == b"OK"
            assert admit(b, "plan", "day")[1] == 60
            status, headers, _ = other.http().ask("GET", "/v1/auth/forward", headers={"x-user": "ann"})[:3]
            assert status == 200
            assert 'r=' in {k.lower(): v for k, v in dict(headers).items()}["ratelimit"]
            explained = b.call("SLUICE.EXPLAIN", 1, "user", "ann")
            assert explained[0][4] == 100
            listed, cursor = [], None
            while cursor != 0:
                cursor, some = a.call("SLUICE.OVERRIDE", "LIST", cursor or 0)
                listed += some
            assert sorted(row[:3] for row in listed) == [
                [b"per-user", b"user=ann", b"sliding-window 100/1h"],
                [b"per-user", b"user=ann", b"sliding-window 60/1d"]]
            assert a.call("SLUICE.OVERRIDE", "DEL", *KEY) == 2
            assert a.call("SLUICE.OVERRIDE", "DEL", *KEY) == 0
            assert b.call("SLUICE.OVERRIDE", "GET", *KEY) is None
            assert admit(b)[1] == 5
    finally:
        path = f"/dev/shm/sluice-{name}"
        if os.path.exists(path):
            os.unlink(path)


def test_it_outlasts_a_restart_in_a_file(server, tmp_path):
    policy = POLICY % f"file: {tmp_path / 'store'}"
    one = server(policy)
    with one.resp() as r:
        assert r.call("SLUICE.OVERRIDE", "SET", *KEY, "unlimited", 3600000) == b"OK"
        assert r.call("SLUICE.OVERRIDE", "SET", "100/1m", "k", "7/1m") == b"OK"
    one.stop()
    other = server(policy)
    with other.resp() as r:
        assert admit(r)[:3] == [1, 4294967295, 4294967295]
        notation, left = r.call("SLUICE.OVERRIDE", "GET", *KEY)
        assert notation == b"unlimited" and 3000000 < left <= 3600001
        assert r.call("SLUICE.CHECK", "k", 1, "100/1m")[1:3] == [7, 6]


def test_bad_requests_say_what_is_wrong_and_change_nothing(server, tmp_path):
    one = server(POLICY % f"file: {tmp_path / 'store'}")
    with one.resp() as r:
        for words, said in ((("SET", *KEY, "9/1m"), "another window"),
                            (("SET", *KEY, "token-bucket 9/1h"), "algorithm"),
                            (("SET", "policy:nobody", "k", "9/1h"), "no limit of that name"),
                            (("SET", *KEY, "9/1h", "0"), "ttl_ms"), (("SET", *KEY, "nine"), "quota, column"),
                            (("SET", *KEY), "wrong number"),
                            (("LIST", "x"), "LIST [cursor")):
            with pytest.raises(Exception, match=said.replace("[", r"\[")):
                answer = r.call("SLUICE.OVERRIDE", *words)
                raise AssertionError(answer)
        assert r.call("SLUICE.OVERRIDE", "LIST") == [0, []]


def test_a_key_that_no_request_has_is_set_and_warned_of(server):
    one = server("limits: [{name: per-user, key: 'user | ip', when: {user: [ann, bob]}, limit: 5/1h}]\n")
    with one.resp() as r:
        for key in ("user=ann", "ann", "user=eve", "plan=pro"):
            assert r.call("SLUICE.OVERRIDE", "SET", "policy:per-user", key, "9/1h") == b"OK"
            assert r.call("SLUICE.PEEK", key, 1, "policy:per-user")[1] == 9
        assert r.call("SLUICE.OVERRIDE", "SET", "5/1h", "eve", "9/1h") == b"OK"
    one.stop()
    says = "sluice: warning: override set: limit 'per-user' key '%s': never used: "
    assert [line for line in one.stderr.text().splitlines() if "warning: override" in line] == [
        says % "ann" + "expected the key of a request, such as user=alice",
        says % "user=eve" + "the limit's own `when` excludes this key",
        says % "plan=pro" + "expected the key of a request, such as user=alice"]


@pytest.mark.parametrize("keys, shown", [
    ("keys: clear", "user=alice"), ("keys: cut", "user=al*"),
    ("keys: hash, keys-secret: 0123456789abcdef",
     "hmac:" + hmac.new(b"0123456789abcdef", b"user=alice", "sha256").hexdigest()[:16])])
def test_the_log_shows_keys_as_the_policy_says(server, keys, shown):
    one = server(f"log: {{{keys}}}\nlimits: [{{name: a, key: user, when: {{user: bob}}, limit: 5/1h}}]\n")
    with one.resp() as r:
        assert r.call("SLUICE.OVERRIDE", "SET", "policy:a", "user=alice", "9/1h") == b"OK"
        assert r.call("SLUICE.OVERRIDE", "DEL", "policy:a", "user=alice") == 1
        assert r.call("SLUICE.OVERRIDE", "SET", "5/1h", "user=alice", "9/1h") == b"OK"
    one.stop()
    lines = [line.partition("override ")[2] for line in one.stderr.text().splitlines() if "override " in line]
    assert lines == [f"set: limit 'a' key '{shown}' sliding-window 9/1h by default",
                     f"set: limit 'a' key '{shown}': never used: the limit's own `when` excludes this key",
                     f"deleted: limit 'a' key '{shown}' by default",
                     f"set: limit '5/1h' key '{shown}' sliding-window 9/1h by default"]


def test_a_key_is_written_as_it_is_or_as_it_is_shown(server):
    """An id in base64 ends in "=", which keys have encoded."""
    one = server(POLICY.replace("store: {%s, memory: 8MiB}", ""))
    with one.resp() as r:
        for written, quota in (("user=YWxpY2U=", 50), ("user=YWxpY2U%3D", 60)):
            assert r.call("SLUICE.OVERRIDE", "SET", "policy:per-user", written, f"{quota}/1h") == b"OK"
            assert r.call("SLUICE.ADMIT", 1, "user", "YWxpY2U=")[1] == quota
            assert r.call("SLUICE.PEEK", written, 1, "policy:per-user")[1] == quota
        assert r.call("SLUICE.PEEK", "user=YWxpY2U=", 1, "policy:per-user")[2] == 58
        assert r.call("SLUICE.OVERRIDE", "LIST")[1][0][1] == b"user=YWxpY2U%3D"
        assert r.call("SLUICE.OVERRIDE", "DEL", "policy:per-user", "user=YWxpY2U=") == 1
        assert one.http().ask("GET", "/v1/overrides")[2]["overrides"] == []


def listed(http, count=100):
    """All pages: where a page of the list ends depends on the keys' hashes, of which each store has its own."""
    rows, after = [], 0
    while after is not None:
        page = http.ask("GET", f"/v1/overrides?count={count}&after={after}")[2]
        rows += page["overrides"]
        after = page.get("next")
    return rows


def test_over_http_as_over_resp(server, tmp_path):
    one = server(POLICY % f"file: {tmp_path / 'store'}")
    at = "/v1/overrides/per-user/user=ann"
    told = {"name": "per-user", "key": "user=ann", "limit": "sliding-window 9/1h", "ends_after_ms": -1}
    with one.http() as http, one.resp() as r:
        assert http.ask("GET", at)[0] == 404
        assert http.ask("PUT", at, {"limit": "9/1h"})[::2] == (200, told)
        assert admit(r)[:3] == [1, 9, 8] and r.call("SLUICE.OVERRIDE", "GET", *KEY) == [b"sliding-window 9/1h", -1]
        assert http.ask("GET", "/v1/overrides/policy:per-user/user%3Dann")[::2] == (200, told)
        assert listed(http) == [told]
        status, _, brief = http.ask("PUT", at, {"limit": "unlimited", "ttl_ms": 60000})
        assert status == 200 and brief == {**told, "limit": "unlimited", "ends_after_ms": 60000}
        assert 0 < http.ask("GET", at)[2]["ends_after_ms"] <= 60001
        assert http.ask("DELETE", at)[::2] == (200, {"deleted": 1})
        assert http.ask("DELETE", at)[::2] == (200, {"deleted": 0})
        assert admit(r)[1] == 5
        # a limit in notation, a key of bytes that are no text, and one with a slash
        assert http.ask("PUT", "/v1/overrides/7%2F1m/%ff%2f", {"limit": "8/1m"})[2]["key_hex"] == "ff2f"
        assert r.call("SLUICE.OVERRIDE", "GET", "7/1m", b"\xff/") == [b"sliding-window 8/1m", -1]


def test_pages_over_http_tell_each_once(server, tmp_path):
    one = server(POLICY % f"file: {tmp_path / 'store'}")
    with one.http() as http, one.resp() as r:
        for i in range(300):
            assert r.call("SLUICE.OVERRIDE", "SET", "policy:per-user", f"user={i}", "9/1h") == b"OK"
        seen = [one["key"] for one in listed(http, 7)]
        assert sorted(seen) == sorted(f"user={i}" for i in range(300))


def test_bad_requests_over_http_change_nothing(server, tmp_path):
    one = server(POLICY % f"file: {tmp_path / 'store'}")
    at = "/v1/overrides/per-user/user=ann"
    with one.http() as http:
        for method, path, body, status, said in (
                ("PUT", at, {"limit": "9/1m"}, 400, "another window"),
                ("PUT", at, {"limit": "token-bucket 9/1h"}, 400, "algorithm"),
                ("PUT", at, {"limit": "nine"}, 400, "quota, column"), ("PUT", at, {"limit": 9}, 400, "limit must be"),
                ("PUT", at, {}, 400, "limit is missing"), ("PUT", at, {"limit": "9/1h", "ttl": 5}, 400, "ttl_ms"),
                ("PUT", at, {"limit": "9/1h", "ttl_ms": 0}, 400, "ttl_ms must be"), ("PUT", at, None, 400, "empty"),
                ("PUT", "/v1/overrides/policy:nobody/k", {"limit": "9/1h"}, 404, "no limit of that name"),
                ("PUT", "/v1/overrides/nobody/k", {"limit": "9/1h"}, 400,
                 "'nobody' is no name of the policy's, and no notation: column 1: "),
                ("GET", "/v1/overrides/per-user", None, 400, "percent-encoded"),
                ("GET", "/v1/overrides/per-user/a/b", None, 400, "percent-encoded"),
                ("GET", "/v1/overrides/per-user/a%2", None, 400, "percent-encoded"),
                ("GET", "/v1/overrides?count=1025", None, 400, "1..1024"),
                ("GET", "/v1/overrides?after=x", None, 400, "after"), ("POST", at, {}, 405, "PUT, DELETE"),
                ("PUT", "/v1/overrides", {}, 405, "not 'PUT'")):
            answer = http.ask(method, path, body)
            assert answer[0] == status and said in str(answer), (method, path, answer)
        assert http.ask("GET", "/v1/overrides")[2] == {"overrides": []}
        # what a page of another site has a browser send
        answer = http.ask("PUT", at, {"limit": "9/1h"}, {"Origin": "https://evil.example"})
        assert answer[0] == 403


def test_by_the_command_line(server, sluice_bin, tmp_path):
    def run(*words):
        done = subprocess.run([sluice_bin, "override", *words], capture_output=True, text=True, timeout=DEADLINE_S)
        return done.returncode, done.stdout, done.stderr

    store = str(tmp_path / "store")
    one = server(POLICY % f"file: {store}")
    there = ("--server", f"127.0.0.1:{one.resp_port}")
    here = ("--store", store, "-c", one.policy_file)
    assert run("get", *KEY, *there) == run("get", *KEY, *here) == (1, "the key has no quota of its own\n", "")
    # nothing of the log that a server would keep of it
    assert run("set", *KEY, "9/1h", *here) == (0, "user=ann of policy:per-user has 9/1h from now on\n", "")
    with one.resp() as r:
        assert admit(r)[:3] == [1, 9, 8]
    assert run("get", *KEY, *there) == (0, "sliding-window 9/1h\n", "")
    assert run("set", "7/1m", "k", "unlimited", "--ttl", "1h", *there)[0] == 0
    listed = run("list", *here)
    assert listed[0] == 0 and len(listed[1].splitlines()) == 2
    assert "per-user  user=ann  sliding-window 9/1h\n" in listed[1] and "  unlimited, ends in " in listed[1]
    assert "; then the limit's own\n" in run("--help")[1]
    assert run("set", "7/1m", "k", "unlimited", *there)[0] == 0  # without end, although it had one
    assert run("get", "7/1m", "k", *here) == (0, "unlimited\n", "")
    assert run("del", *KEY, *there)[0] == 0 and run("del", *KEY, *here)[0] == 1
    for words, said in ((("set", *KEY, "9/1m"), "another window"),
                        (("set", "policy:nobody", "k", "9/1h"), "that name")):
        for where in (there, here):
            status, out, err = run(*words, *where)
            assert (status, out) == (2, "") and said in err


@pytest.mark.parametrize("case", override_cases.CASES, ids=[case[0] for case in override_cases.CASES])
def test_case(shared_server, case):
    """The same as the module's and those of a server whose counters are in Redis."""
    with shared_server.resp() as r, shared_server.http() as http:
        override_cases.run(r, case, "resp: " + case[0])
        override_cases.run(r, case, "http: " + case[0], check=override_cases.by_http(http, "http: " + case[0], case[1]))


def metrics(http):
    text = http.ask("GET", "/metrics")[2].decode()
    lines = (line.rpartition(" ") for line in text.splitlines() if line.startswith("sluice_override"))
    return {name: float(value) for name, _, value in lines}


def test_all_doors_tell_whose_quota_it_is(server, sluice_bin, tmp_path):
    one = server(POLICY % f"file: {tmp_path / 'store'}")

    def cli(*words):
        done = subprocess.run([sluice_bin, *words, "--server", f"127.0.0.1:{one.resp_port}"], capture_output=True,
                              text=True, timeout=DEADLINE_S)
        return done.stdout + done.stderr

    def seen(http, r):
        """What each door tells of the key: [(quota, ends)], None where it tells nothing."""
        told = {}
        inspected = r.call("SLUICE.INSPECT", "user=ann", "policy:per-user")[0]
        told["INSPECT"] = dict(zip(inspected[::2], inspected[1::2]))
        why = r.call("SLUICE.WHY", 1, "user", "ann")[0]
        told["WHY"] = dict(zip(why[::2], why[1::2]))
        explained = r.call("SLUICE.EXPLAIN", 1, "user", "ann")[0][9:]
        told["EXPLAIN"] = dict(zip(explained[::2], explained[1::2]))
        top = [entry for entry in r.call("SLUICE.TOP") if entry[1] == b"user=ann"][0][5:]
        told["TOP"] = dict(zip(top[::2], top[1::2]))
        told = {door: {name.decode(): value.decode() if isinstance(value, bytes) else value
                       for name, value in pairs.items()} for door, pairs in told.items()}
        told["GET inspect"] = http.ask("GET", "/v1/inspect?user=ann")[2]["limits"][0]
        told["POST inspect"] = http.ask("POST", "/v1/inspect",
                                        {"key": "user=ann", "limits": ["policy:per-user"]})[2]["limits"][0]
        told["GET explain"] = http.ask("GET", "/v1/explain?user=ann")[2]["limits"][0]
        told["GET top"] = [entry for entry in http.ask("GET", "/v1/top")[2]["entries"] if entry["key"] == "user=ann"][0]
        for door, name in (("inspect", "inspect"), ("explain", "explain")):
            words = ("user=ann", "policy:per-user") if name == "inspect" else ("user=ann",)
            told["sluice " + door] = {"text": cli(name, *words)}
        told["sluice top"] = {"text": cli("top", "--once")}
        return told

    with one.http() as http, one.resp() as r:
        r.send(encode("SLUICE.ADMIT", 1, "user", "ann") * 5000)  # so many that the top has it for minutes
        assert sum(r.read()[0] for _ in range(5000)) == 5
        for door, what in seen(http, r).items():
            assert "own_quota" not in what and "own_ends_after_ms" not in what, door
            assert "own quota" not in what.get("text", ""), door
        assert r.call("SLUICE.OVERRIDE", "SET", *KEY, "9/1h") == b"OK"
        for door, what in seen(http, r).items():
            if "text" in what:
                assert re.search(r"own quota +sliding-window 9/1h[\n)]", what["text"]), (door, what)
            else:
                assert (what["own_quota"], what["own_ends_after_ms"]) == ("sliding-window 9/1h", -1), door
            assert what.get("quota", 9) == 9, door
        assert r.call("SLUICE.OVERRIDE", "SET", *KEY, "unlimited", 3600000) == b"OK"
        for door, what in seen(http, r).items():
            if "text" in what:
                assert re.search(r"own quota +unlimited, ends in (1 h|[3-6]\d(\.\d+)? m)", what["text"]), (door, what)
            else:
                assert what["own_quota"] == "unlimited" and 3000000 < what["own_ends_after_ms"] <= 3600001, door
        # another key, and the same key of another limit, have none
        assert b"own_quota" not in r.call("SLUICE.INSPECT", "user=ben", "policy:per-user")[0]
        assert b"own_quota" not in r.call("SLUICE.INSPECT", "user=ann", "7/1m")[0]


def test_at_the_bound_only_setting_another_is_refused(server, tmp_path):
    """HTTP 409 and -ERR, with the requests beside them as ever; what is deleted makes room. The bound is followed."""
    policy = POLICY % f"overrides: 20, file: {tmp_path / 'store'}"
    one = server(policy)
    at = "/v1/overrides/per-user/user="
    with one.http() as http, one.resp() as r:
        for i in range(20):
            assert http.ask("PUT", f"{at}{i}", {"limit": "9/1h"})[0] == 200
        status, _, problem = http.ask("PUT", at + "x", {"limit": "9/1h"})
        assert status == 409 and "as many quotas of keys' own" in problem["detail"]
        with pytest.raises(Exception, match="as many quotas of keys' own"):
            r.call("SLUICE.OVERRIDE", "SET", "policy:per-user", "user=x", "9/1h")
        # beside it: decisions by the limit and by a quota, looks, and a change of one that is there
        assert admit(r)[:3] == [1, 5, 4]
        assert r.call("SLUICE.ADMIT", 1, "user", "3")[:3] == [1, 9, 8]
        assert http.ask("GET", at + "3")[2]["limit"] == "sliding-window 9/1h"
        assert http.ask("GET", at + "x")[0] == 404
        assert http.ask("PUT", at + "3", {"limit": "11/1h"})[0] == 200
        assert r.call("SLUICE.ADMIT", 1, "user", "3")[:3] == [1, 11, 9]
        assert len(listed(http)) == 20
        told = metrics(http)
        assert told["sluice_overrides"] == 20 and told["sluice_overrides_max"] == 20
        assert told['sluice_override_changes_total{transport="http",event="set"}'] == 21
        assert told['sluice_override_changes_total{transport="http",event="full"}'] == 1
        assert told['sluice_override_changes_total{transport="resp",event="full"}'] == 1
        store = http.ask("GET", "/v1/figures")[2]
        assert store["store"]["overrides"] == store["store"]["overrides_max"] == 20
        assert store["override_changes"] == {"set": 21, "deleted": 0, "full": 2}
        # room by a deletion, through either door
        assert http.ask("DELETE", at + "3")[2] == {"deleted": 1}
        assert r.call("SLUICE.OVERRIDE", "SET", "policy:per-user", "user=x", "9/1h") == b"OK"
        assert http.ask("PUT", at + "3", {"limit": "9/1h"})[0] == 409
        assert r.call("SLUICE.OVERRIDE", "DEL", "policy:per-user", "user=x") == 1
        assert http.ask("PUT", at + "3", {"limit": "9/1h"})[0] == 200
        assert metrics(http)['sluice_override_changes_total{transport="resp",event="deleted"}'] == 1
        # a higher bound is in force with a reload; one above what the store can have is refused, and says what can
        write(one, policy.replace("overrides: 20", "overrides: 21"))
        assert http.ask("POST", "/v1/reload")[0] == 200
        assert http.ask("PUT", at + "x", {"limit": "9/1h"})[0] == 200
        write(one, policy.replace("overrides: 20", "overrides: 4000000"))
        status, _, problem = http.ask("POST", "/v1/reload")
        assert status != 200 and "expected at most" in str(problem) and "found 4000000" in str(problem)
        write(one, policy.replace("overrides: 20", "overrides: 4000000").replace(", memory: 8MiB", ""))
        status, _, problem = http.ask("POST", "/v1/reload")
        assert status != 200 and "a quarter of the slots" in str(problem), problem
        assert metrics(http)["sluice_overrides_max"] == 21


def test_a_store_that_cannot_have_so_many_is_not_served(server, sluice_bin, tmp_path):
    store = tmp_path / "store"
    subprocess.run([sluice_bin, "store", "create", store, "--memory", "1MiB"], check=True, timeout=DEADLINE_S)
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"store: {{file: {store}, overrides: 100000}}\nlimits: []\n")
    for words in (["serve", "-c", policy, "--check-config"], ["serve", "-c", policy]):
        done = subprocess.run([sluice_bin, *words], capture_output=True, text=True, timeout=DEADLINE_S)
        assert done.returncode != 0 and "overrides: expected at most" in done.stderr, done
