"""`sluice explain` and `sluice inspect KEY LIMIT...`: the same story from a server and from its store's file beside
it, for people and as JSON; over HTTP; and what they refuse."""

import json
import re
import subprocess
import time
import urllib.request

import pytest

from harness import DEADLINE_S, RespError, in_one_window

POLICY = """
client-time: true
store: {file: %s, memory: 4MiB}
attributes: {user: header x-user, plan: header x-plan}
limits:
  - {name: login, when: {method: POST, path: /login}, key: ip, limit: sliding-log 3/1h,
     penalty: "[30m] after 2 denials in 1h"}
  - name: per-user
    key: user | ip
    limit: 600/1h
    overrides:
      - {when: {user: [ann, bob]}, limit: 2/1h}
      - {when: {plan: pro}, limit: 6000/1h}
  - {name: search, when: {path: /search*}, key: ip, limit: 0/1h, observe: true}
"""


@pytest.fixture
def one(server, tmp_path):
    return server(POLICY % (tmp_path / "counters"))


@pytest.fixture
def sluice(sluice_bin, tmp_path):
    """Runs a command line; (status, stdout, stderr)."""
    def run(*words):
        done = subprocess.run([sluice_bin, *words], capture_output=True, text=True, timeout=DEADLINE_S, cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr
    return run


def at(one):
    return f"127.0.0.1:{one.resp_port}"


def admit(one, *attributes):
    with one.resp() as client:
        return client.call("SLUICE.ADMIT", 1, *attributes)


def told(sluice, *words, status=0):
    got, out, err = sluice("explain", *words, "--json")
    assert (got, err) == (status, ""), (got, err)
    return json.loads(out)


def without_waits(story):
    """What two calls a moment apart say alike."""
    text = json.dumps(story)
    for limit in json.loads(text)["limits"]:
        assert limit["oldest_ms"] <= limit["last_ms"]
    return [{name: value for name, value in limit.items() if not name.endswith("_ms") and name != "returns"}
            for limit in json.loads(text)["limits"]] + story["others"]


def test_the_same_from_a_server_and_from_its_store(one, sluice, tmp_path):
    for _ in range(5):
        admit(one, "ip", "192.0.2.7", "user", "ann", "method", "POST", "path", "/login")
    for words, denied in ((["ip=192.0.2.7", "user=ann", "method=POST", "path=/login"], "per-user"),
                          (["ip=192.0.2.7", "user=eve", "path=/search/x"], ""),
                          (["ip=192.0.2.9", "path=/x", "plan=pro"], "")):
        from_server = told(sluice, *words, "-s", at(one), status=bool(denied))
        policy = tmp_path / "policy.yaml"
        policy.write_text(POLICY % (tmp_path / "counters"))
        from_store = told(sluice, *words, "-c", policy, status=bool(denied))
        assert from_server["allowed"] is from_store["allowed"] is not bool(denied)
        assert without_waits(from_server) == without_waits(from_store)
        if denied:
            assert from_server["limit"] == from_store["limit"] == denied
            assert 0 < from_store["retry_after_ms"] <= from_server["retry_after_ms"] <= 7200000


def test_what_explain_says_is_decided(one, sluice):
    words = ["ip=192.0.2.8", "user=bob", "method=POST", "path=/login"]
    attributes = [part for word in words for part in word.split("=")]
    for left in (2, 1, 0):
        story = told(sluice, *words, "-s", at(one), status=left == 0)
        assert [limit["name"] for limit in story["limits"]] == ["login", "per-user"]
        assert story["limits"][1]["remaining"] == left and story["allowed"] is (left != 0)
        assert admit(one, *attributes)[0] == (left != 0)
    assert told(sluice, *words, "--cost", "5", "-s", at(one), status=1)["retry_after_ms"] == -1
    login, user = told(sluice, *words, "-s", at(one), status=1)["limits"]
    assert (login["used"], login["charges_in_all"], user["used"]) == (2, 2, 2)
    assert user["why"] == "override 1 (user=ann|bob) applies"


def test_for_people(one, sluice):
    for _ in range(6):
        admit(one, "ip", "192.0.2.7", "method", "POST", "path", "/login")
    status, out, err = sluice("explain", "ip=192.0.2.7", "method=POST", "path=/login", "-s", at(one))
    assert (status, err) == (1, "")
    lines = out.splitlines()
    assert lines[0].startswith("denied by login: allowed in ")
    assert "login: applies where method=POST, path=/login" in lines
    assert "denied     ip=192.0.2.7 by sliding-log 3/1h" in lines
    assert any(line.startswith("shut out   for 30 m") or line.startswith("shut out   for 29 m") for line in lines), out
    assert any(line.startswith("used       3, the oldest charge ") for line in lines)
    assert lines[-1] == "search does not apply: for path=/search*: path is /login"
    status, out, _ = sluice("explain", "ip=192.0.2.1", "path=/search/a", "-s", at(one))
    assert status == 0 and "\nwould deny ip=192.0.2.1 under sliding-window 0/1h\n" in out
    assert out.startswith("allowed: 2 of 3 limits apply\n")


def test_rules_alone(sluice, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("limits: [{name: a, key: ip, limit: 5/1m}, {name: b, when: {path: /x}, key: ip, limit: 5/1m}]\n")
    status, out, err = sluice("explain", "ip=192.0.2.7", "-c", policy)
    assert (status, err) == (0, "")
    assert out == ("1 of 2 limits apply; no store was named, so their answers are not known\n\n"
                   "a: applies to every request\ncounted    ip=192.0.2.7 under sliding-window 5/1m\n\n"
                   "b does not apply: for path=/x: no path\n")
    story = told(sluice, "ip=192.0.2.7", "-c", policy)
    assert story == {"limits": [{"limit": "sliding-window 5/1m", "name": "a", "key": "ip=192.0.2.7",
                                 "why": "applies to every request", "cost": 1, "observed": False, "applies": True}],
                     "others": [{"limit": "sliding-window 5/1m", "name": "b", "why": "for path=/x: no path",
                                 "applies": False}]}


@pytest.mark.parametrize("name", ['a"b\\c', "a" * 64])
def test_any_name_is_json(sluice, tmp_path, name):
    policy, store = tmp_path / "policy.yaml", tmp_path / "counters"
    policy.write_text("limits: [{name: %s, key: ip, limit: 0/1m}]\n" % json.dumps(name, ensure_ascii=False))
    assert sluice("store", "create", store, "--memory", "1MiB")[0] == 0
    story = told(sluice, "ip=192.0.2.7", "-c", policy, "--store", store, status=1)
    assert (story["limit"], story["limits"][0]["name"]) == (name, name)
    assert sluice("explain", "ip=192.0.2.7", "-c", policy, "--store", store)[1].startswith(f"denied by {name}, ")


def test_a_policy_of_more_limits_than_are_told(server, sluice, tmp_path):
    policy, store = tmp_path / "policy.yaml", tmp_path / "counters"
    text = "limits:\n" + "".join(
        f"  - {{name: l{i}, when: {{path: /{i}}}, key: ip, limit: 5/1h}}\n" for i in range(1100))
    policy.write_text(text)
    assert sluice("store", "create", store, "--memory", "1MiB")[0] == 0
    for place, first, left_out in (
            (["-c", policy, "--store", store], "allowed: 1 of 1100 limits apply\n", 76),
            (["-c", policy], "1 of 1100 limits apply; no store was named", 76),
            (["--server", at(server(text))], "allowed: 1 of 1024 limits or more apply\n", None)):
        status, out, err = sluice("explain", "ip=192.0.2.7", "path=/1090", *place)
        assert (status, err) == (0, "") and out.startswith(first), out[:100]
        assert out.count(" does not apply: ") == 1023
        story = told(sluice, "ip=192.0.2.7", "path=/1090", *place)
        assert (len(story["limits"]), len(story["others"]), story.get("left_out")) == (1, 1023, left_out)


def test_who_refuses_is_told(sluice, tmp_path, one):
    """Where no server was asked, none is named."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("limits: [{name: a, key: ip, limit: 5/1m}]\n")
    why = "the attribute 'ip' is given twice: expected each once\n"
    for place, said in ((["-c", policy], f"{policy}: "), (["-c", policy, "--store", tmp_path / "counters"],
                                                          f"{tmp_path / 'counters'}: "),
                        (["-s", at(one)], f"{at(one)}: the server refused: ERR ")):
        assert sluice("explain", "ip=1", "ip=2", *place) == (2, "", f"sluice explain: {said}{why}")


def test_over_http(one):
    admit(one, "ip", "192.0.2.7", "user", "ann")
    url = f"http://127.0.0.1:{one.http_port}/v1/inspect?ip=192.0.2.7&user=ann&plan=pro"
    with urllib.request.urlopen(url) as answer:
        story = json.load(answer)
    assert [(limit["name"], limit["key"], limit["used"]) for limit in story["limits"]] == [("per-user", "user=ann", 1)]
    assert story["limits"][0]["why"].startswith("override 1 (user=ann|bob) applies; override 2 (plan=pro) fits as well")
    assert [other["name"] for other in story["others"]] == ["login", "search"]


def test_inspect_at_a_server(one, sluice):
    admit(one, "ip", "192.0.2.7", "method", "POST", "path", "/login")
    status, out, err = sluice("inspect", "ip=192.0.2.7", "policy:login", "KEY", "k", "9/1h", "-s", at(one),
                              "--json")
    login, unused = json.loads(out)
    assert (status, err) == (0, "")
    assert (login["key"], login["limit"], login["used"]) == ("ip=192.0.2.7", "sliding-log 3/1h", 1)
    assert login["returns"][0][1] == 3 and len(login["charges"]) == 1
    assert (unused["key"], unused["used"], unused["remaining"], unused["last_ms"]) == ("k", 0, 9, 0)
    status, out, err = sluice("inspect", "k", "policy:nobody", "-s", at(one))
    assert (status, out) == (2, "") and "the policy has no limit 'nobody'" in err


COSTS = """
limits:
  - {name: five, key: user, limit: sliding-log 10/1h, cost: 5}
  - {name: parts, key: [user, path], limit: sliding-log 10/1h, cost: [{when: {path: /dear}, cost: 7}, 2]}
  - {name: plans, key: user, limit: sliding-log 10/1h, cost: [{when: {plan: free}, cost: 7}, 2], optional: true}
  - {name: window, key: user, limit: fixed-window 10/1h}
"""


@in_one_window(3600)
def test_inspection_by_name_is_of_a_request_of_the_limits_own_cost(server, sluice):
    """As the page says, and as explain tells it; of a cost that the key does not tell it is of 1."""
    one = server(COSTS)
    admit(one, "user", "u", "path", "/dear")
    for limit, key, allowed in (("five", "user=u", True), ("parts", "user=u,path=/dear", False),
                                ("parts", "user=u,path=/", True), ("plans", "user=u", True)):
        told, = json.loads(sluice("inspect", key, f"policy:{limit}", "--json", "-s", at(one))[1])
        assert told["allowed"] == allowed, (limit, key)
        with one.http() as h:
            _, _, body = h.post("/v1/inspect", {"key": key, "limits": [f"policy:{limit}"]})
        assert body["limits"][0]["allowed"] == allowed
    admit(one, "user", "u", "path", "/")
    begun = time.monotonic()
    told, = json.loads(sluice("inspect", "user=u", "policy:five", "--json", "-s", at(one))[1])
    explained = json.loads(sluice("explain", "user=u", "path=/", "--json", "-s", at(one))[1])["limits"][0]
    assert (told["allowed"], told["used"]) == (explained["allowed"], explained["used"]) == (False, 10)
    passed_ms = (time.monotonic() - begun) * 1000
    assert -1 <= told["retry_after_ms"] - explained["retry_after_ms"] <= passed_ms + 1
    out = sluice("inspect", "user=u", "policy:window", "-s", at(one))[1]
    assert re.search(r"^used       2, in a window that began .* ago; the last charge .* ago$", out, re.M), out


OWN = """
limits:
  - name: per-user
    key: [user | ip | "unknown", path]
    limit: 100/1m
    overrides:
      - {when: {user: [ann, "b*"]}, limit: 6000/1m}
      - {when: {ip: 10.0.0.0/8, not: {path: /health}}, limit: sliding-log 9/1m}
      - {when: {path: /free}, limit: unlimited}
      - {when: {plan: pro}, limit: 1000/1m}
      - {when: {user: carol}, limit: 7/1m}
"""


@pytest.mark.parametrize("key, limit, override, undecided", [
    ("user=ann,path=/", "sliding-window 6000/1m", 1, None),
    ("user=b%2C%3D,path=/", "sliding-window 6000/1m", 1, None),
    ("user=eve,path=/free", "sliding-window 100/1m", None, 2),  # his address may be one of 10.0.0.0/8
    ("ip=10.1.2.3,path=/", "sliding-log 9/1m", 2, None),
    ("ip=10.1.2.3,path=//health", "sliding-window 100/1m", None, 4),
    ("ip=::ffff:10.1.2.3,path=/", "sliding-log 9/1m", 2, None),
    ("ip=192.0.2.7,path=/free", "unlimited", 3, None),
    ("ip=192.0.2.7,path=/", "sliding-window 100/1m", None, 4),
    ("=unknown,path=/free", "unlimited", 3, None),  # then it has no address either
    ("user=ann", "sliding-window 100/1m", None, None),  # no key of this limit
    ("user=ann,path=/,x=y", "sliding-window 100/1m", None, None),
    ("", "sliding-window 100/1m", None, None)])
def test_a_key_is_told_the_quota_of_its_override(server, sluice, key, limit, override, undecided):
    one = server(OWN)
    status, out, err = sluice("inspect", key, "policy:per-user", "--json", "-s", at(one))
    told, = json.loads(out)
    assert (status, err) == (0, "")
    assert (told["limit"], told.get("override"), told.get("undecided")) == (limit, override, undecided)
    with one.http() as h:
        got, _, body = h.post("/v1/inspect", {"key": key, "limits": ["policy:per-user", "5/1m"]})
        first, second = body["limits"]
        assert got == 200 and (first["limit"], first.get("override"), first.get("undecided")) == (
            limit, override, undecided)
        assert "override" not in second and first["name"] == "per-user"
    text = sluice("inspect", key, "policy:per-user", "-s", at(one))[1]
    assert (f"override   {override} of the limit applies to this key" in text) == (override is not None)
    assert (f"override   {undecided} may count for its requests" in text) == (undecided is not None)


CROWD = "limits:\n" + "".join(f"  - {{name: l{i}, key: ip, limit: fixed-window {i + 5}/1h}}\n" for i in range(40))


def pairs(reply):
    return [{name.decode(): value for name, value in zip(limit[::2], limit[1::2])} for limit in reply]


def test_a_bound_is_no_quota_that_is_too_low(server, sluice):
    """40 limits on a key: the cost is 1, and no quota is below 5. The reason is the bound, wherever it is told."""
    one = server(CROWD)
    status, out, _ = sluice("explain", "ip=192.0.2.7", "-s", at(one))
    assert status == 1 and out.startswith("denied by l16, and always will be (bound: limits)\n"), out[:200]
    assert "\nretry      never (bound: limits)\n" in out and "above the quota" not in out
    assert out.count("\nbound      limits\n") == 1
    story = told(sluice, "ip=192.0.2.7", "-s", at(one), status=1)
    assert [limit["name"] for limit in story["limits"] if limit.get("bound") == "limits"] == ["l16"]
    with one.resp() as client:
        why = pairs(client.call("SLUICE.WHY", 1, "ip", "192.0.2.7"))
    assert [limit["name"] for limit in why if limit.get("bound") == b"limits"] == [b"l16"]
    with one.http() as h:
        over_http = h.ask("GET", "/v1/inspect?ip=192.0.2.7")[2]
    assert [limit["name"] for limit in over_http["limits"] if limit.get("bound") == "limits"] == ["l16"]
    status, out, _ = sluice("explain", "ip=192.0.2.7", "--cost", "30", "-s", at(one))
    assert status == 1 and out.startswith("denied by l0, and always will be: the cost is above the quota\n"), out[:200]


def test_the_error_of_an_estimate_is_told(server, sluice):
    one = server("limits:\n  - {name: many, key: user, of: ip, limit: distinct 2000/1h}\n"
                 "  - {name: few, key: user, of: ip, limit: distinct 1000/1h}\n")
    words = ["user=ann", "ip=192.0.2.7", "-s", at(one)]
    many, few = told(sluice, *words)["limits"]
    assert many["error"] == 0.0163 and "error" not in few
    out = sluice("explain", *words)[1]
    assert out.count("\nerror      0.0163 of the count, which is an estimate above 1,024 members\n") == 1
    with one.resp() as client:
        for command in (("SLUICE.WHY", 1, "user", "ann", "ip", "192.0.2.7"),
                        ("SLUICE.INSPECT", "user=ann", "policy:many", "policy:few")):
            many, few = pairs(client.call(*command))
            assert many["error"] == b"0.0163" and "error" not in few
    with one.http() as h:
        many, few = h.ask("GET", "/v1/inspect?user=ann&ip=192.0.2.7")[2]["limits"]
    assert many["error"] == 0.0163 and "error" not in few


WRONG = [
    (["explain"], "which request? Give its attributes"),
    (["explain", "ip"], "'ip': expected an attribute, such as ip=192.0.2.7"),
    (["explain", "=x"], "expected an attribute"),
    (["explain", "ip=1", "--store", "f"], "--store has no policy: give it by -c FILE as well"),
    (["explain", "ip=1", "-c", "nofile"], "nofile: No such file"),
    (["explain", "ip=1", "-c", "f", "--server", "x"], "-c FILE or --server ADDR, not both"),
    (["explain", "ip=1", "-c", "f", "--store", "redis://u:p@x"], "--store: a password does not belong"),
    (["explain", "ip=1", "-c", "f", "--store", "redis://x", "--tls"], "a store's URL says whom to log in as"),
    (["explain", "ip=1", "--store", "redis://x"], "--store has no policy: give it by -c FILE as well"),
    (["explain", "ip=1", "--cost", "0"], "--cost"),
    (["inspect"], "which store? --store FILE, or --store shared:NAME; or KEY LIMIT..., of a server"),
    (["inspect", "--store", "redis://h"], "of a store in Redis it says what a key has: KEY LIMIT..."),
]


@pytest.mark.parametrize("words, said", WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_wrong(sluice, words, said):
    status, out, err = sluice(*words)
    assert (status, out) == (2, "") and said in err, err


@pytest.mark.parametrize("words, said", [
    ([0, "ip", "x"], "a cost of 0 is always admitted: expected 1..4294967295"),
    ([1, "ip", "x", "ip", "y"], "the attribute 'ip' is given twice"),
    ([1, "ip", "x", "path"], "attribute 'path' has no value"),
    (["x", "ip", "y"], "cost 'x': expected a whole number"),
])
def test_the_command_itself(one, words, said):
    with one.resp() as client:
        with pytest.raises(RespError, match=re.escape(said)):
            client.call("SLUICE.WHY", *words)
        assert len(client.call("SLUICE.WHY", 1, "ip", "192.0.2.7")) == 3
