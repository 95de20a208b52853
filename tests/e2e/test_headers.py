"""The forms in which a client is told of its limits, on the wire: each beside express-rate-limit, which most clients
have seen, and through the npm parser of structured fields; and that no answer ever mixes two grammars of one name.
"""

import email.utils
import json
import os
import re
import subprocess
import time

import pytest

from harness import Http

POLICY = """
headers: [{forms}]
limits:
  - {{name: main, key: ip, limit: sliding-log 3/1d}}
"""
DAY = 86400
NAMES = re.compile(r"(x-)?ratelimit.*|retry-after", re.IGNORECASE)
# ours, what express-rate-limit calls it
TWINS = {"draft6": {"standardHeaders": "draft-6", "legacyHeaders": False},
         "draft7": {"standardHeaders": "draft-7", "legacyHeaders": False},
         "legacy-epoch": {"standardHeaders": False, "legacyHeaders": True},
         "draft7, legacy-epoch": {"standardHeaders": "draft-7", "legacyHeaders": True}}


def node(node_clients, script, value):
    folder, program = node_clients
    done = subprocess.run([program, os.path.join(folder, script)], input=json.dumps(value), capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def told(lines):
    return sorted((name.lower(), value) for name, value in lines if NAMES.fullmatch(name))


def ours(server, forms):
    """Four requests to a limit of three, at a proxies' door: status and lines of each."""
    with server(policy=POLICY.format(forms=forms)).http() as h:
        return [h.ask("GET", "/v1/auth/forward")[:2] for _ in range(4)]


def timed(ask, *words):
    """What it returns, and when it began and ended, in Unix time."""
    began = time.time()
    return ask(*words), (began, time.time())


def shape(lines, span):
    """Times as the day that they must be, less what can have passed since the first request: the rest must be the same
    to the byte."""
    began, ended = span

    def day(m):
        seconds = int(m.group(2))
        least, most = (began + DAY, ended + DAY + 1) if seconds > 1e9 else (DAY - (ended - began), DAY)
        assert least <= seconds <= most, (lines, span)
        return m.group(1) + "DAY"
    return [(name, re.sub(r"(reset=|^)(\d+)$", day, value) if re.search("reset|retry|^ratelimit$", name) else value)
            for name, value in lines]


@pytest.fixture(scope="module")
def express(node_clients):
    answers, span = timed(node, node_clients, "express.mjs", list(TWINS.values()))
    return {forms: (theirs, span) for forms, theirs in zip(TWINS, answers)}


@pytest.mark.parametrize("forms", TWINS)
def test_the_strings_are_those_of_express_rate_limit(server, express, forms):
    (mine, mine_span), (others, their_span) = timed(ours, server, forms), express[forms]
    assert [status for status, _ in mine] == [status for status, _ in others] == [200, 200, 200, 429]
    for (_, lines), (_, theirs) in zip(mine, others):
        assert len(told(lines)) >= 2
        assert shape(told(lines), mine_span) == shape(told(theirs), their_span)


def test_draft10_beside_their_draft8(server, node_clients):
    """theirs has a partition key, and says in t when the quota resets; names and numbers are the same kinds."""
    theirs = node(node_clients, "express.mjs", [{"standardHeaders": "draft-8", "legacyHeaders": False,
                                                 "identifier": "main"}])[0]
    mine = ours(server, "draft10")
    for (_, lines), (_, other) in zip(mine, theirs):
        lines, other = dict(told(lines)), dict(told(other))
        assert lines.keys() == other.keys()
        fields = [("list", d[name]) for d in (lines, other) for name in ("ratelimit-policy", "ratelimit")]
        policy, state, their_policy, their_state = node(node_clients, "fields.mjs", fields)
        assert [policy[0][0], policy[0][1]["q"], policy[0][1]["w"]] == ["main", 3, DAY]
        assert [their_policy[0][0], their_policy[0][1]["q"], their_policy[0][1]["w"]] == ["main", 3, DAY]
        assert state[0][0] == their_state[0][0] and state[0][1]["r"] == their_state[0][1]["r"]
        assert 1 <= state[0][1]["t"] <= DAY


def test_every_form_parses(server, node_clients):
    answers = {forms: dict(ours(server, forms)[0][1]) for forms in ("draft10", "draft7", "draft6", "draft7, draft6")}
    fields = [("list", answers["draft10"]["RateLimit"]), ("dictionary", answers["draft10"]["RateLimit"]),
              ("dictionary", answers["draft7"]["RateLimit"]), ("list", answers["draft7"]["RateLimit-Policy"]),
              ("item", answers["draft6"]["RateLimit-Limit"]), ("list", answers["draft6"]["RateLimit-Policy"]),
              ("item", answers["draft6"]["RateLimit-Remaining"]), ("item", answers["draft6"]["RateLimit-Reset"])]
    new, as_dictionary, old, policy, limit, policy6, remaining, reset = node(node_clients, "fields.mjs", fields)
    assert new == [["main", {"r": 2, "t": DAY}]] and as_dictionary is None
    assert old == {"limit": [3, {}], "remaining": [2, {}], "reset": [DAY, {}]}
    assert policy == policy6 == [[3, {"w": DAY}]]
    assert [limit, remaining, reset] == [[3, {}], [2, {}], [DAY, {}]]
    both = answers["draft7, draft6"]
    assert both["RateLimit-Policy"] == f"3;w={DAY}" and both["RateLimit"] == answers["draft7"]["RateLimit"]


@pytest.mark.parametrize("forms, names", [
    ("draft10", {"ratelimit", "ratelimit-policy"}),
    ("draft7", {"ratelimit", "ratelimit-policy"}),
    ("draft6", {"ratelimit-policy", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"}),
    ("legacy-epoch", {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}),
    ("legacy-delta", {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}),
    ("draft10, legacy-delta", {"ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-remaining",
                               "x-ratelimit-reset"}),
    ("none", set()),
])
def test_each_name_stands_once(server, forms, names):
    for i, (status, lines) in enumerate(ours(server, forms)):
        found = [name for name, _ in told(lines)]
        assert len(found) == len(set(found))
        assert set(found) == names | ({"retry-after"} if i == 3 else set())
        assert status == (429 if i == 3 else 200)


def test_an_epoch_agrees_with_the_date_beside_it(server):
    ((_, lines), *_), (began, ended) = timed(ours, server, "legacy-epoch")
    lines = {name.lower(): value for name, value in lines}
    date = email.utils.parsedate_to_datetime(lines["date"]).timestamp()
    assert date + DAY - (ended - began) <= int(lines["x-ratelimit-reset"]) <= date + DAY + 2


def test_each_listener_has_its_own_forms(server):
    one = server(listen=(), policy="""
listen:
  resp: "127.0.0.1:0"
  http: ["127.0.0.1:0", {address: "127.0.0.1:0", headers: [draft6]}, {address: "127.0.0.1:0", headers: none}]
headers: [legacy-delta]
""")
    found = []
    for port in one.ports("http"):
        with Http(port) as h:
            _, lines, _ = h.post("/v1/check", {"key": "k", "limits": ["3/1m"]})
        found.append([name for name, _ in told(lines)])
    assert found == [["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"],
                     ["ratelimit-limit", "ratelimit-policy", "ratelimit-remaining", "ratelimit-reset"], []]


def test_several_limits(server, node_clients):
    policy = """
headers: [{}]
limits:
  - {{name: second, key: ip, limit: sliding-log 5/1s}}
  - {{name: 'a "quoted" one', key: ip, limit: sliding-log 2/1h}}
  - {{name: watched, key: ip, limit: sliding-log 1/1h, observe: true}}
"""
    with server(policy=policy.format("draft10")).http() as h:
        lines = [dict(h.ask("GET", "/v1/auth/forward")[1]) for _ in range(3)]
    fields = [("list", line[name]) for line in lines for name in ("RateLimit-Policy", "RateLimit")]
    parsed = node(node_clients, "fields.mjs", fields)
    assert parsed[0] == [["second", {"q": 5, "w": 1}], ['a "quoted" one', {"q": 2, "w": 3600}]] == parsed[4]
    assert parsed[1][0][0] == 'a "quoted" one' and parsed[1][0][1]["r"] == 1
    assert [item for item, _ in parsed[5]] == ['a "quoted" one']  # the one that denies
    with server(policy=policy.format("draft7")).http() as h:
        lines = [dict(h.ask("GET", "/v1/auth/forward")[1]) for _ in range(3)]
    assert lines[0]["RateLimit-Policy"] == "5;w=1, 2;w=3600"
    assert lines[2]["RateLimit"].startswith("limit=2, remaining=0, reset=")


@pytest.mark.parametrize("forms, theirs_too", [("draft10", False), ("draft7", True), ("draft6", True),
                                               ("legacy-epoch", True), ("legacy-delta", True)])
def test_which_form_parsers_read(server, node_clients, forms, theirs_too):
    """ratelimit-header-parser reads all but draft10; our own client reads all; urllib3 needs Retry-After alone."""
    from urllib3.util.retry import Retry
    began = time.time()
    answers = [dict(lines) for _, lines in ours(server, forms)]
    read, elapsed_s = node(node_clients, "parsers.mjs", answers), time.time() - began
    for left, lines, got in zip((2, 1, 0, 0), answers, read):
        assert (got["ours"]["quota"], got["ours"]["remaining"]) == (3, left)
        assert 0 < got["ours"]["resetMs"] <= (DAY + 1) * 1000
        if theirs_too:
            assert (got["parser"]["limit"], got["parser"]["remaining"]) == (3, left)
            assert DAY - elapsed_s - 1 <= got["parser"]["reset"] <= DAY + 1
        else:  # it finds the header, and takes no number from it
            assert got["parser"] == {"limit": None, "remaining": None, "reset": None}
        after = Retry().parse_retry_after(lines["Retry-After"]) if "Retry-After" in lines else None
        assert (after is not None) == (lines is answers[3])
    assert DAY - elapsed_s <= after <= DAY
