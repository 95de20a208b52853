"""The bodies of denials that a policy brings along: at the proxies' doors, by type and by limit; what is told there and
what is not; and files that are wrong, grow or vanish, at the start, at a reload, and while they are followed."""

import json
import os
import subprocess

import pytest

from harness import DEADLINE_S, raw_exchange, wait_until

POLICY = """
attributes: {{user: header x-user-id}}
denied: {{body: {0}/denied.json, type: application/json}}
limits:
  - {{name: per-user, when: {{path: /api*}}, key: user | ip, limit: fixed-window 1/3660d}}
  - name: page
    when: {{path: /page}}
    key: ip
    limit: fixed-window 1/3660d
    denied: {{body: {0}/denied.html, type: text/html}}
  - {{name: site, key: [], limit: fixed-window 1M/3660d}}
  - {{name: tried, key: [], limit: fixed-window 1/3660d, observe: true}}
"""
JSON = ('{"error": "slow down", "limit": "{{limit}}", "quota": {{quota}}, "left": {{remaining}},\n'
        ' "wait": {{retry_after}}, "wait_ms": {{ retry_after_ms }}, "reset": {{reset_after}}, '
        '"id": "{{request_id}}"}\n')
HTML = "<!doctype html><title>{{limit}}</title><p id=\"{{request_id}}\">{{retry_after}} s</p>\n"


@pytest.fixture
def bodies(tmp_path):
    (tmp_path / "denied.json").write_text(JSON)
    (tmp_path / "denied.html").write_text(HTML)
    return tmp_path


def ask(one, path, method="GET", door="forward", headers=()):
    """The status, headers and bytes of the second question of a proxy; the first has taken the quota."""
    own = {"forward": f"X-Forwarded-Uri: {path}", "nginx": f"X-Original-URI: {path}", "envoy": "X-A: b"}[door]
    target = f"/v1/auth/{door}" + (path if door == "envoy" else "")
    request = "\r\n".join([f"{method} {target} HTTP/1.1", "Host: a", "X-Forwarded-For: 192.0.2.1", own, *headers,
                           "Connection: close", "", ""])
    data = raw_exchange(one.http_port, request.encode())
    head, body = data.split(b"\r\n\r\n", 1)
    status, *fields = head.decode().split("\r\n")
    return int(status.split()[1]), {k.lower(): v for k, v in (f.split(": ", 1) for f in fields)}, body


def body_of(one, *args, **options):
    status, head, body = ask(one, *args, **options)
    assert status in (403, 429)
    assert int(head["content-length"]) == len(body)
    return head["content-type"], body


@pytest.mark.parametrize("door,status", [("forward", 429), ("nginx", 403), ("envoy", 429)])
def test_a_denial_has_the_body_of_its_limit(server, bodies, door, status):
    one = server(POLICY.format(bodies))
    assert ask(one, "/api/a", door=door)[::2] == (200, b"")
    told, head, body = ask(one, "/api/a", door=door, headers=["X-Request-Id: 7f\"3a\\<", "Accept: text/html"])
    assert (told, head["content-type"], int(head["content-length"])) == (status, "application/json", len(body))
    answer = json.loads(body)
    assert (answer["error"], answer["limit"], answer["quota"], answer["left"]) == ("slow down", "per-user", 1, 0)
    assert answer["id"] == "7f\"3a\\<" and answer["wait"] == int(head["retry-after"])
    assert answer["wait"] - 1 <= answer["wait_ms"] / 1000 <= answer["wait"] == answer["reset"]
    assert "ratelimit" in head
    ask(one, "/page", door=door)
    told, head, body = ask(one, "/page", door=door, headers=["X-Request-Id: <b>&\"'"])
    assert (told, head["content-type"]) == (status, "text/html; charset=utf-8")
    assert body.decode() == (f"<!doctype html><title>page</title><p id=\"&lt;b&gt;&amp;&#34;&#39;\">"
                             f"{head['retry-after']} s</p>\n")


def test_what_is_no_id_is_left_out_and_head_has_no_body(server, bodies):
    one = server(POLICY.format(bodies))
    ask(one, "/api/a")
    for headers in ([], ["X-Request-Id: a", "X-Request-Id: b"], ["X-Request-Id: " + "a" * 129]):
        assert json.loads(body_of(one, "/api/a", headers=headers)[1])["id"] == ""
    assert json.loads(body_of(one, "/api/a", headers=["X-Request-Id: " + "a" * 128])[1])["id"] == "a" * 128
    status, head, body = ask(one, "/api/a", method="HEAD")
    assert (status, body) == (429, b"") and abs(int(head["content-length"]) - len(body_of(one, "/api/a")[1])) <= 8


def test_programs_get_the_problem(server, bodies):
    one = server(POLICY.format(bodies))
    with one.http() as http:
        for _ in range(2):
            status, head, body = http.post("/v1/admit", {"attributes": {"path": "/api/a", "ip": "192.0.2.1"}})
        assert status == 429 and body["violated-policies"] == ["per-user"] and body["limits"]
        assert dict(head)["Content-Type"] == "application/problem+json"
        for _ in range(2):
            status, _, body = http.post("/v1/check", {"key": "a", "limits": ["fixed-window 1/3660d"]})
        assert status == 429 and body["title"] == "Quota Exceeded"


WRONG = {
    "open": ("{\n \"a\": \"{{limit\"}", "denied.json:2:8: ", "{{ is not closed: expected {{name}}"),
    "unknown": ("{\"a\": \"{{key}}\"}", "denied.json:1:8: ", "unknown value 'key': expected limit, quota"),
    "no JSON": ("{\"a\": {{limit}}}", "denied.json:1:8: ", "expected JSON, with limit and request_id within quotes"),
    "empty": ("", "denied.json:1:1: ", "expected a body of 1 to 16384 bytes, found none"),
    "grown": (json.dumps({"a": "x" * 16384}), "denied.json:1:1: ", "expected a body of 1 to 16384 bytes, found more"),
    "gone": (None, "{policy}:3:16: ", "can't read the body {folder}/denied.json: No such file or directory"),
    "folder": (os.mkdir, "{policy}:3:16: ", "can't read the body {folder}/denied.json: Is a directory"),
    "grows": (lambda path: os.symlink("/proc/version", path), "{policy}:3:16: ",  # its size is said to be 0
              "the body {folder}/denied.json changed while it was read"),
    "pipe": (os.mkfifo, "{policy}:3:16: ", "can't read the body {folder}/denied.json: it is a pipe"),
}


def said_of(why, bodies):
    return why.replace("{folder}", str(bodies))


def spoil(path, text):
    """Puts a file in the place of another at once, as editors do."""
    if isinstance(text, str):
        beside = path.with_suffix(".new")
        beside.write_text(text)
        os.rename(beside, path)
    else:
        path.unlink()
        if text is not None:
            text(path)


@pytest.mark.parametrize("which", WRONG)
def test_a_wrong_body_is_refused_at_load(sluice_bin, bodies, which):
    text, place, why = WRONG[which]
    (bodies / "p.yaml").write_text(POLICY.format(bodies))
    for verb in (["lint"], ["serve", "--check-config", "-c"]):
        fine = subprocess.run([sluice_bin, *verb, bodies / "p.yaml"], capture_output=True, text=True, timeout=120)
        assert fine.returncode == 0, fine.stdout + fine.stderr
    spoil(bodies / "denied.json", text)
    for verb, status in ((["lint"], 1), (["serve", "--check-config", "-c"], 2)):
        done = subprocess.run([sluice_bin, *verb, bodies / "p.yaml"], capture_output=True, text=True, timeout=120)
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "denied.json" in line]
        assert done.returncode == status and len(lines) == 1, done.stdout + done.stderr
        assert place.replace("{policy}", str(bodies / "p.yaml")) in lines[0]
        assert said_of(why, bodies) in lines[0]


@pytest.mark.parametrize("which", ["open", "gone", "grown", "pipe"])
def test_a_wrong_body_keeps_the_policy(server, bodies, which):
    """Nobody asks for a reload: the file is followed; then somebody does."""
    text, place, why = WRONG[which]
    one = server(POLICY.format(bodies))
    ask(one, "/api/a")
    before = json.loads(body_of(one, "/api/a")[1])["error"]
    spoil(bodies / "denied.json", text)
    one.stderr.wait_for(lambda line: said_of(why, bodies) in line and place.replace("{policy}", "yaml") in line)
    one.stderr.wait_for(lambda line: "was rejected: keeping the current policy" in line)
    assert json.loads(body_of(one, "/api/a")[1])["error"] == before
    with one.http() as http:
        status, _, answer = http.ask("POST", "/v1/reload", b"")
    assert (status, answer["reloaded"]) == (409, False) and said_of(why, bodies) in answer["detail"]
    (bodies / "denied.new").write_text(JSON.replace("slow down", "not so fast"))
    os.rename(bodies / "denied.new", bodies / "denied.json")
    wait_until(lambda: json.loads(body_of(one, "/api/a")[1])["error"] == "not so fast", "the body that is right again")


def test_each_limit_on_a_front_of_the_same_policy_without_files(sluice_bin, bodies):
    """Those who only decide by a policy need none of its files: replay on another host."""
    (bodies / "p.yaml").write_text(POLICY.format("/nowhere"))
    (bodies / "log").write_text('192.0.2.1 - - [17/May/2015:10:05:00 +0000] "GET /api/a HTTP/1.1" 200 1\n' * 2)
    done = subprocess.run([sluice_bin, "replay", "-c", bodies / "p.yaml", "--decisions", bodies / "log"],
                          capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["1", "0"]
