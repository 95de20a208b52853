"""envoyproxy/ratelimit as an oracle: what is recorded in tests/envoy is what the real one says, where there is Go to
build it; and Sluice, with the same files, says the same (docs/envoy.md has what is other, and why)."""
import os
import random
import re
import subprocess

import pytest

pytest.importorskip("grpc", reason="python3-grpcio is not installed")
import foreign  # noqa: E402 - they need grpc
import oracle  # noqa: E402
import rls  # noqa: E402
from harness import DEADLINE_S, RespError, encode, wait_until  # noqa: E402
from redis_world import redises  # noqa: E402, F401 - a fixture

OK, OVER = rls.OK, rls.OVER_LIMIT
REQUESTS = int(os.environ.get("SLUICE_ORACLE_REQUESTS", "3000"))
A_START = 5000  # requests to one pair of servers, then others, with other configurations


CONFIG = oracle.recorded("config.jsonl")


def test_the_corpus_has_good_and_bad_files():
    assert sum("error" in one for one in CONFIG) >= 20 and sum("dump" in one for one in CONFIG) >= 20


def test_recorded_verdicts_are_those_of_the_real_one(tmp_path):
    oracle.write_corpus(tmp_path)
    for one in CONFIG:
        recorded = {name: one[name] for name in ("error", "dump") if name in one}
        assert oracle.verdict(str(tmp_path / one["file"])) == recorded, one["file"]


def test_recorded_answers_are_those_of_the_real_one(redises):  # noqa: F811
    foreign.built("ratelimit")
    domains, *recorded = oracle.recorded("answers.jsonl")
    redis = redises(module=None)

    def replay():
        with oracle.Ratelimit(redis.port, oracle.files_of(domains)) as real:
            return oracle.replay(f"127.0.0.1:{real.port}", [asked for asked, _ in recorded])
    for (asked, answer), told in zip(recorded, oracle.in_one_minute(replay)):
        assert told == answer, asked


def test_recorded_requests_meet_what_there_is():
    """Over and under the limit, without one, unlimited, at once and alone."""
    _, *recorded = oracle.recorded("answers.jsonl")
    statuses = [status for _, (_, statuses) in recorded for status in statuses]
    for seen in (lambda s: s[0] == OVER, lambda s: s[0] == OK and s[1] > 0 and len(s) > 2, lambda s: s[1:] == [0],
                 lambda s: s[1:] == [oracle.UNLIMITED], lambda s: s[:2] == [OK, 0] and len(s) > 2):
        assert sum(map(seen, statuses)) >= 20
    assert {status[3] for status in statuses if len(status) > 2} == set(oracle.UNITS.values())


def test_random_is_the_same_twice():
    def drawn():
        dice = random.Random(5)
        domains = [oracle.random_domain(dice, "a")]
        return domains, [oracle.random_request(dice, domains) for _ in range(20)]
    assert drawn() == drawn()


# ---- Sluice --------------------------------------------------------------------------------------------------------

# What Sluice says otherwise of a file, and why: None for one that it takes.
NEWER = "share_threshold can only be used with wildcard values (containing '*'), but found key "
OTHERWISE = {
    "metadata.yaml": None,  # later versions of theirs take it
    "share_middle_star.yaml": None,  # and this: '*' may stand anywhere
    "share_exact_value.yaml": [NEWER + "'file_a/b'"],  # in their words of since then
    "share_without_value.yaml": [NEWER + "'file'"],
    "binary_tag.yaml": None,  # a tag says nothing here
    "date_value.yaml": ["error loading config file: yaml: unmarshal errors: line 5: cannot unmarshal !!str "
                        "`2026-01-02` into bool"],  # a date is text
    "not_utf8.yaml": ["expected UTF-8 text, found the byte 0xff"],  # as of any file of ours
    "control_character.yaml": ["expected printable text, found the character U+0001"],
}


def texts_of(error):
    """Theirs, without the file's name; of several that one error tells, each."""
    text = error.split(": ", 1)[1]
    head, several, rest = text.partition("unmarshal errors:\n  ")
    return [head + several[:-3] + " " + one for one in rest.split("\n  ")] if several else [text]


@pytest.mark.parametrize("one", CONFIG, ids=lambda one: one["file"])
def test_lint_says_the_same(sluice_bin, tmp_path, one):
    oracle.write_corpus(tmp_path)
    path = str(tmp_path / one["file"])
    done = subprocess.run([sluice_bin, "lint", "--errors-only", "--envoy", path], capture_output=True, text=True,
                          timeout=DEADLINE_S, check=False)
    said = re.findall("^" + re.escape(path) + r":\d+:\d+: error: (.*)$", done.stdout + done.stderr, re.M)
    wanted = OTHERWISE.get(one["file"], texts_of(one["error"]) if "error" in one else None)
    if wanted is None:
        assert (done.returncode, said) == (0, [])
    else:  # after theirs more may stand, and all that is wrong, where they tell the first
        assert done.returncode == 1 and len(said) >= len(wanted)
        assert [text[:len(told)] for text, told in zip(said, wanted)] == wanted


def renamed(one):
    """A good file, and what theirs dumps of it, of a domain that only this file has."""
    domain = "of_" + one["file"].replace(".", "_")
    return (re.sub(r"\b(shop|other)\b", domain, one["bytes"]),
            [re.sub(r"^(shop|other)\.", domain + ".", line) for line in one["dump"] if line])


def test_good_files_are_the_same_rules(server, tmp_path):
    """All of them, read by one server; what it lists, without what it knows and theirs does not."""
    wanted = []
    for one in CONFIG:
        if "dump" in one and one["file"] not in OTHERWISE:
            text, dump = renamed(one)
            (tmp_path / one["file"]).write_bytes(text.encode("latin-1"))
            wanted += dump
    one, _ = our_server(server, tmp_path)
    with one.http() as client:
        status, _, body = client.ask("GET", "/rlconfig")
    assert status == 200 and len(wanted) > 80
    assert sorted(body.decode().splitlines()) == sorted(wanted)


POLICY = ('listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0", grpc: "127.0.0.1:0"}\n'
          "envoy: {config: CONFIG, count-denied: true}\n")


def our_server(server, folder, store="", policy=POLICY):
    one = server(policy.replace("CONFIG", str(folder)) + store, listen=())

    def decides():
        with one.resp() as resp:
            resp.send(encode("SLUICE.CHECK", "warm", 1, "1M/1h"))
            return not isinstance(resp.read(), RespError)
    wait_until(decides, "no node answers")
    return one, f"127.0.0.1:{one.ports('grpc')[0]}"


def store_in(redis, via):
    return "store: {redis: ['127.0.0.1:%d'], via: %s, budget: 10s}\n" % (redis.port, via)


@pytest.fixture
def recorded(tmp_path):
    """The requests with their answers, and their files in `tmp_path`."""
    domains, *recorded = oracle.recorded("answers.jsonl")
    for name, text in oracle.files_of(domains).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return recorded


@pytest.mark.parametrize("via", ["own store", "module"])
def test_recorded_answers_are_ours(server, redises, tmp_path, recorded, via):  # noqa: F811
    def replay():
        store = store_in(redises(module=()), via) if via == "module" else ""
        return oracle.replay(our_server(server, tmp_path, store)[1], [asked for asked, _ in recorded])
    for (asked, answer), told in zip(recorded, oracle.in_one_minute(replay)):
        assert told == oracle.as_ours(asked, answer, told), asked


def test_the_script_answers_as_our_own_store(server, redises, tmp_path, recorded):  # noqa: F811
    """Without count-denied, and costs of single descriptors, which need the module."""
    def replay():
        return [oracle.replay(our_server(server, tmp_path, store, policy)[1], requests)
                for store in ("", store_in(redises(module=None), "script"))]
    policy = POLICY.replace(", count-denied: true", "")
    requests = [asked for asked, _ in recorded if not any("hits" in more for _, more in asked[1])]
    assert len(requests) > 500
    for asked, ours, told in zip(requests, *oracle.in_one_minute(replay)):
        assert told == ours, asked


def test_what_the_script_can_not_decide_is_refused(server, redises, tmp_path):  # noqa: F811
    """Descriptors of one request that cost differently: the caller says so, hence no outage, and nobody passes."""
    (tmp_path / "shop.yaml").write_text("domain: shop\ndescriptors:\n"
                                        "- {key: a, rate_limit: {unit: hour, requests_per_unit: 9}}\n"
                                        "- {key: b, rate_limit: {unit: hour, requests_per_unit: 9}}\n")
    policy = POLICY.replace(", count-denied: true", "")
    _, address = our_server(server, tmp_path, store_in(redises(module=None), "script"), policy)
    with rls.Client(address) as client:
        assert client.ask("shop", ([("a", "x")], {"hits": 1}), ([("b", "x")], {"hits": 2})).overall_code == OVER
        answer = client.ask("shop", [("a", "x")], [("b", "x")])
        assert (answer.overall_code, [status.limit_remaining for status in answer.statuses]) == (OK, [8, 8])


def test_random_requests(server, redises):  # noqa: F811
    """The same configurations and requests to both, at the same time."""
    foreign.built("ratelimit")
    seed = int(os.environ.get("SLUICE_SEED", random.randrange(2**32)))
    left, redis = REQUESTS, redises(module=None)
    print(f"seed {seed}, {REQUESTS} requests")
    dice = random.Random(seed)
    while left > 0:
        domains = [oracle.random_domain(dice, f"shop{i}") for i in range(40)]
        asked = [oracle.random_request(dice, domains) for _ in range(min(left, A_START))]
        with oracle.Ratelimit(redis.port, oracle.files_of(domains)) as real:
            one, address = our_server(server, real.config)
            assert oracle.compare(f"127.0.0.1:{real.port}", address, asked) is None
            one.stop()
        left -= len(asked)


def test_random_requests_as_json(server, redises):  # noqa: F811
    foreign.built("ratelimit")
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    domains = [oracle.random_domain(dice, f"shop{i}") for i in range(20)]
    asked = [oracle.random_request(dice, domains) for _ in range(600)]
    with oracle.Ratelimit(redises(module=None).port, oracle.files_of(domains)) as real:
        one, _ = our_server(server, real.config)
        assert oracle.compare_json(real.ports["PORT"], one.ports('http')[0], asked) is None


ONE = '"descriptors": [{"entries": [{"key": "user", "value": "ann"}]%s}]'
BODIES = [  # what is taken, and what is refused, by both alike
    ("", 400), ("{", 400), ("[]", 400), ("null", 400), ("{}", 400), ('{"domain": "shop"}', 400),
    ('{"domain": "", %s}' % (ONE % ""), 400), ('{"domain": 1, %s}' % (ONE % ""), 400),
    ('{"domain": "shop", %s}' % (ONE % ""), 200), ('{"domain": "shop", "hits": 1, %s}' % (ONE % ""), 400),
    ('{"domain": "shop", "hitsAddend": 1, %s}' % (ONE % ""), 200),
    ('{"domain": "shop", "hits_addend": "1", %s}' % (ONE % ""), 200),
    ('{"domain": "shop", "hitsAddend": null, %s}' % (ONE % ""), 200),
    ('{"domain": "shop", "hitsAddend": -1, %s}' % (ONE % ""), 400),
    ('{"domain": "shop", "hitsAddend": 4294967296, %s}' % (ONE % ""), 400),
    ('{"domain": "shop", "hitsAddend": true, %s}' % (ONE % ""), 400),
    ('{"domain": "shop", "hitsAddend": 1, "hits_addend": 1, %s}' % (ONE % ""), 400),
    ('{"domain": "shop", "domain": "shop", %s}' % (ONE % ""), 400),
    ('{"domain": "shop", %s}' % (ONE % ', "hitsAddend": "2"'), 200),
    ('{"domain": "shop", %s}' % (ONE % ', "hits_addend": 2'), 200),
    ('{"domain": "shop", %s}' % (ONE % ', "hitsAddend": {"value": 2}'), 400),
    ('{"domain": "shop", %s}' % (ONE % ', "limit": {"requestsPerUnit": 9, "unit": "HOUR"}'), 200),
    ('{"domain": "shop", %s}' % (ONE % ', "limit": {"requests_per_unit": 9, "unit": 7}'), 200),
    ('{"domain": "shop", %s}' % (ONE % ', "limit": {"requestsPerUnit": 9, "unit": "hour"}'), 400),
    ('{"domain": "shop", %s}' % (ONE % ', "limit": 9'), 400),
    ('{"domain": "shop", "descriptors": {}}', 400), ('{"domain": "shop", "descriptors": [null]}', 400),
    ('{"domain": "shop", "descriptors": [{"entries": null}]}', 200),
    ('{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "values": "ann"}]}]}', 400),
    ('{"domain": "shop", %s}' % (ONE % ', "hitsAddend": 100'), 429),
]


def test_bodies_as_json(server, redises):  # noqa: F811
    foreign.built("ratelimit")
    files = oracle.files_of([{"domain": "shop", "descriptors": [{"key": "user", **limit(50)}]}])
    with oracle.Ratelimit(redises(module=None).port, files) as real:
        one, _ = our_server(server, real.config)
        with oracle.Json(real.ports["PORT"]) as theirs, oracle.Json(one.ports('http')[0]) as ours:
            for body, status in BODIES:
                assert (theirs.post(body)[0], ours.post(body)[0]) == (status, status), body


# ---- what is other ---------------------------------------------------------------------------------------------------

def limit(number=5, **more):
    return {"rate_limit": {"unit": "year", "requests_per_unit": number}, **more}


def asks(*descriptors, hits=0):
    return ["shop", [[entries, {}] for entries in descriptors], hits]


LOOK = ["shop", [[[["user", "ann"]], {"hits": 0}]], 0]
COUNTED = [5, rls.YEAR, ""]
OTHER = {
    "a look is over as soon as not one more fits": (
        [{"key": "user", **limit(1)}], [asks([["user", "ann"]]), LOOK],
        [OK, [[OK, 0, 1, rls.YEAR, ""]]], [OVER, [[OVER, 0, 1, rls.YEAR, ""]]]),
    "two descriptors that meet in a counter charge it once": (
        [{"key": "user", **limit()}], [asks([["user", "ann"]], [["user", "ann"]])],
        [OK, [[OK, 4, *COUNTED], [OK, 3, *COUNTED]]], [OK, [[OK, 4, *COUNTED]] * 2]),
    "a key and its value are told apart by more than _": (
        [{"key": "a", "value": "b_c", **limit()}], [asks([["a_b", "c"]])],
        [OK, [[OK, 4, *COUNTED]]], [OK, [[OK, 0]]]),
    "* may stand anywhere, as in later versions of theirs": (
        [{"key": "path", "value": "/a*z", **limit()}], [asks([["path", "/a/b/z"]])],
        [OK, [[OK, 0]]], [OK, [[OK, 4, *COUNTED]]]),
    "all of quota_mode over is over, as in later versions of theirs": (
        [{"key": "user", "quota_mode": True, **limit(0)}], [asks([["user", "ann"]])],
        [OK, [[OK, 0, 0, rls.YEAR, ""]]], [OVER, [[OVER, 0, 0, rls.YEAR, ""]]]),
    "sixteen limits are one decision, a seventeenth is none": (
        [{"key": "user", **limit()}], [asks(*([["user", str(n)]] for n in range(17)))],
        [OK, [[OK, 4, *COUNTED]] * 17], None),
}


@pytest.mark.parametrize("name", OTHER)
def test_what_is_other(server, redises, name):  # noqa: F811
    foreign.built("ratelimit")
    rules, requests, theirs, ours = OTHER[name]
    files = oracle.files_of([{"domain": "shop", "descriptors": rules}])
    with oracle.Ratelimit(redises(module=None).port, files) as real:
        assert oracle.replay(f"127.0.0.1:{real.port}", requests)[-1] == theirs
        told = oracle.replay(our_server(server, real.config)[1], requests)[-1]
    assert told == ours or (ours is None and told[0] == OVER and len(told[1]) == len(theirs[1]))
