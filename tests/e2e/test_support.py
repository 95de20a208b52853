"""docs/support.md, played: each cause is planted, the page's commands are run as they stand there, and the sentence
that the page's table names for that cause is found in what they say, and no other's. Then what settles it."""

import os
import re
import subprocess

import pytest

from harness import ROOT, Server, wait_until

POLICY = """
trusted-proxies: [127.0.0.0/8]
attributes: {{user: header x-user, plan: header x-plan}}
log: {{denials: {log}}}
limits:
  - {{name: login, when: {{path: /login}}, key: ip, limit: 3/1h}}
  - {{name: export, when: {{path: /export}}, key: user, optional: true, limit: 4/1h,
     penalty: "[30m] after 3 denials in 1h"}}
  - name: per-user
    key: user
    optional: true
    limit: 600/1h
    overrides:
      - {{when: {{plan: trial}}, limit: 2/1h}}
      - {{when: {{user: [carol, dave]}}, limit: 6000/1h}}
  - {{name: search, when: {{path: /search/*}}, key: [user, path], optional: true, limit: 2/1h}}
  - {{name: jobs, when: {{path: /jobs}}, key: user, optional: true, limit: concurrency 2 lease 1h}}
  - {{name: beta, when: {{path: /beta}}, key: user, optional: true, limit: 1/1h, canary: 100% of user}}
"""

# the request, how often it is made, the limit that denies, its key, and what is known of him
CAUSES = {
    "another address counts": ("ip=10.0.0.5 method=GET path=/login", 5, "login", "ip=10.0.0.5", "req-8140"),
    "a penalty is running": ("user=bob ip=203.0.113.7 method=GET path=/export", 9, "export", "user=bob", "bob"),
    "another override comes first": ("user=carol plan=trial ip=203.0.113.7 method=GET path=/", 4, "per-user",
                                     "user=carol", "carol"),
    "another limit denies": ("user=ann ip=203.0.113.7 method=GET path=/search/shoes", 4, "search",
                                     "user=ann,path=/search/shoes", "ann"),
    "leases are not released": ("user=eve ip=203.0.113.7 method=GET path=/jobs", 4, "jobs", "user=eve", "eve"),
    "the client is in a canary": ("user=mallory ip=203.0.113.7 method=GET path=/beta", 3, "beta", "user=mallory",
                                  "mallory"),
}


def page():
    with open(os.path.join(ROOT, "docs", "support.md"), encoding="utf-8") as file:
        return file.read()


def commands(text):
    """The page's lines for the shell: what is set first, the five, and the one that settles it."""
    blocks = [block.splitlines() for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)]
    assert [len(block) for block in blocks] == [4, 5, 1]
    return blocks


def causes(text):
    return dict(re.findall(r"^\| \[(.*?)\]\(#.*?\) \| `(.*?)` \|$", text, re.M))


class Desk:
    """Somebody at a shell, with the page in front of him."""

    def __init__(self, binary, **variables):
        self.variables = {**os.environ, **variables, "PATH": os.path.dirname(binary) + ":" + os.environ["PATH"]}

    def run(self, line):
        done = subprocess.run(["bash", "-c", line], env=self.variables, capture_output=True, text=True, timeout=120,
                              check=False)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def world(tmp_path_factory, sluice_bin):
    """A server on which everything has gone wrong for everybody."""
    log = tmp_path_factory.mktemp("support") / "denials.jsonl"
    one = Server(sluice_bin, POLICY.format(log=log))
    http = one.http()
    with one.resp() as client:
        for request, count, *_ in CAUSES.values():
            words = [part for word in request.split() for part in word.split("=")]
            for i in range(count):
                if "10.0.0.5" not in request:
                    client.call("SLUICE.ADMIT", 1, *words)
                    continue
                http.ask("GET", "/v1/auth/forward", headers={
                    "X-Forwarded-For": "198.51.100.9, 10.0.0.5", "X-Forwarded-Uri": "/login",
                    "X-Forwarded-Method": "GET", "X-Request-Id": f"req-81{37 + i}"})
    wait_until(lambda: log.exists() and log.read_text().count("\n") >= len(CAUSES), "not all denials are logged")
    yield one, log
    one.stop()


def test_the_page_knows_the_causes():
    assert set(causes(page())) == set(CAUSES) and len(set(causes(page()).values())) == len(CAUSES)


@pytest.mark.parametrize("cause", CAUSES)
def test_from_complaint_to_cause(world, sluice_bin, cause):
    one, log = world
    request, _, limit, key, known_by = CAUSES[cause]
    text = page()
    _, (grep, top, explain, inspect, holders), (reset,) = commands(text)
    desk = Desk(sluice_bin, SLUICE=f"127.0.0.1:{one.resp_port}", LOG=str(log), WHO=known_by, REQUEST=request)

    status, out, _ = desk.run(grep)
    assert status == 0 and f'"limit":"{limit}","key":"{key}"' in out
    status, out, err = desk.run(top)
    assert (status, err) == (0, "") and re.search(rf" {limit} +{re.escape(key)}$", out, re.M), out

    status, out, err = desk.run(explain)
    assert (status, err) == (1, "")
    said = {name for name, sentence in causes(text).items() if sentence in out}
    assert said == {cause}, out
    assert out.startswith(f"denied by {limit}: allowed in ")
    found = re.search(r"^denied     (\S+) by ", out[out.index(f"\n{limit}: "):], re.M)[1]
    assert found == key
    desk.variables.update(KEY=found, LIMIT=limit)

    status, out, err = desk.run(inspect)
    own = "override" in cause  # the limit's own numbers, not the override's: its quota is larger
    assert (status, err) == (0, "") and out.startswith(f"allowed    {key} under " if own else f"denied     {key} by ")
    assert re.search(r"^used       [12345]", out, re.M), out
    status, out, err = desk.run(holders)
    if limit == "jobs":
        assert (status, err) == (0, "") and out.startswith("2 holders:\n")
        release = re.search("`(sluice release .*?)`", text)[1]
        assert desk.run(release.replace(" ID ", f" {out.split()[-1]} ")) == (0, "released 1 lease\n", "")
        assert desk.run(holders)[1].startswith("1 holder:\n")
    else:
        assert status == 2 and "concurrency" in err, (out, err)

    status, out, err = desk.run(reset)
    assert (status, err) == (0, "") and re.match(r"forgot [1-9] counters?\n", out)
    assert desk.run(explain)[0] == 0, "he is let in again"
