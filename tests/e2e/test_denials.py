"""The denial log of a running server: who is in it, how often, and what becomes of the file."""

import hashlib
import hmac
import json
import os
import re
import subprocess

import pytest
from harness import DEADLINE_S, encode, wait_until

POLICY = """
log: {denials: %s, denials-per-key: %s, denials-per-second: 5}
limits:
  - {name: login, key: user, limit: sliding-log 1/1h}
  - {name: seen, key: user, limit: sliding-log 1/1h, observe: true}
"""


ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
with open(os.path.join(ROOT, "docs", "denial-log.schema.json"), encoding="utf-8") as schema:
    SCHEMA = json.load(schema)
TYPES = {"string": str, "integer": int, "boolean": bool}


def hold_to_schema(line):
    """What of JSON Schema ours uses."""
    assert set(SCHEMA["required"]) <= set(line) <= set(SCHEMA["properties"])
    for name, value in line.items():
        said = SCHEMA["properties"][name]
        assert isinstance(value, TYPES[said.get("type", "string")]) and value in said.get("enum", [value]), name
        assert re.search(said.get("pattern", ""), value if isinstance(value, str) else ""), name
        if isinstance(value, int):
            assert said.get("minimum", value) <= value <= said.get("maximum", value), name


def lines_of(path):
    """The lines of a log, each of which the schema must describe."""
    with open(path, encoding="utf-8") as f:
        lines = [json.loads(x) for x in f]
    for line in lines:
        hold_to_schema(line)
    return lines


def test_each_key_once_in_its_time(server, tmp_path):
    path = tmp_path / "denials.jsonl"
    one = server(POLICY % (path, "1h"))
    with one.resp() as r, one.http() as h:
        for _ in range(40):
            r.call("SLUICE.ADMIT", 1, "user", "ann")
        h.post("/v1/admit", {"attributes": {"user": "ben"}, "cost": 2})
        r.call("SLUICE.ADMIT", 0, "user", "ann")  # allowed, a peek and a refund are no denials
        r.call("SLUICE.PEEK", "user=ann", 5, "policy:login")
    lines = wait_until(lambda: len(x := lines_of(path)) >= 4 and x, "four lines in the log")
    assert [(x["limit"], x["key"], x["observed"]) for x in lines] == [
        (limit, key, limit == "seen") for key in ("user=ann", "user=ben") for limit in ("login", "seen")]
    ann, ben = lines[::2]
    assert "address" not in ann and "method" not in ann
    assert {k: ann[k] for k in ("limit", "key", "cost", "quota", "transport", "suppressed")} == {
        "limit": "login", "key": "user=ann", "cost": 1, "quota": 1, "transport": "resp", "suppressed": 0}
    assert 3590000 < ann["retry_after_ms"] <= 3600000
    assert (ben["key"], ben["cost"], ben["retry_after_ms"], ben["transport"]) == ("user=ben", 2, -1, "http")
    assert os.stat(path).st_mode & 0o007 == 0


def test_the_route_is_the_limits_own(server, tmp_path):
    path = tmp_path / "denials.jsonl"
    one = server(f"""
log: {{denials: {path}, denials-per-key: 0s}}
paths: {{case: ignore}}
limits:
  - {{name: repos, when: {{path: [/orgs/{{org}}/repos/*, /orgs/*]}}, key: [], limit: sliding-log 0/1h}}
  - {{name: others, when: {{kind: other}}, key: [], limit: sliding-log 0/1h}}
""")
    asked = [("path", "/Orgs/a/repos/x?q=1", "route", "/said"), ("path", "/orgs//a/x"),
             ("kind", "other", "path", "/x", "route", "/said"), ("kind", "other", "path", "/x")]
    with one.resp() as r:
        for attributes in asked:
            r.call("SLUICE.ADMIT", 1, *attributes)
    lines = wait_until(lambda: len(x := lines_of(path)) >= 4 and x, "four lines in the log")
    assert [(x["limit"], x.get("route")) for x in lines] == [
        ("repos", "/orgs/{org}/repos/*"), ("repos", "/orgs/*"), ("others", "/said"), ("others", None)]


TOLD = """
trusted-proxies: [127.0.0.0/8]
log: {denials: %s%s}
limits:
  - {name: login, when: {method: POST}, key: ip, limit: sliding-log 1/1h}
"""
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def deny_all_ways(one):
    """A denial at a proxy's door, at RESP and at /v1/admit, each of another address."""
    with one.resp() as r, one.http() as h:
        for _ in range(2):
            h.connection.request("GET", "/v1/auth/forward", headers={
                "X-Forwarded-Method": "POST", "X-Forwarded-Uri": "/login?x=1", "X-Forwarded-For": "2001:db8::7",
                "X-Request-Id": "7f3a", "traceparent": TRACE})
            h.connection.getresponse().read()
            r.call("SLUICE.ADMIT", 1, "method", "post", "ip", "192.0.2.8", "request-id", "8b", "traceparent", TRACE,
                   "route", "/orgs/{org}")
            h.post("/v1/admit", {"attributes": {"method": "POST", "ip": "192.0.2.9"}, "cost": 1})


def test_a_line_tells_what_support_asks_for(server, tmp_path):
    path = tmp_path / "denials.jsonl"
    one = server(TOLD % (path, ""))
    deny_all_ways(one)
    found = wait_until(lambda: len(x := lines_of(path)) == 3 and x, "three lines")
    lines = {x["key"]: x for x in found}
    for line in lines.values():
        assert (line["limit"], line["cost"], line["quota"], line["remaining"]) == ("login", 1, 1, 0)
        assert 3590000 < line["retry_after_ms"] <= line["reset_after_ms"] <= 3600000
        assert (line["method"], line["observed"]) == ("POST", False)
    proxied, resp, admit = lines["ip=2001:db8::/64"], lines["ip=192.0.2.8"], lines["ip=192.0.2.9"]
    assert (proxied["address"], proxied["request_id"], proxied["traceparent"]) == ("2001:db8::7", "7f3a", TRACE)
    assert (resp["address"], resp["request_id"], resp["route"]) == ("192.0.2.8", "8b", "/orgs/{org}")
    assert "request_id" not in admit and "route" not in admit and admit["transport"] == "http"


SECRET = "a secret of enough bytes"


@pytest.mark.parametrize("how", ["hash", "cut"])
def test_keys_and_addresses_are_hashed_or_cut(server, tmp_path, how):
    path = tmp_path / "denials.jsonl"
    one = server(TOLD % (path, f", keys: hash, keys-secret: {SECRET}" if how == "hash" else ", keys: cut"))
    deny_all_ways(one)
    lines = wait_until(lambda: len(x := lines_of(path)) == 3 and x, "three lines")
    text = path.read_text()
    assert not any(x in text for x in ("192.0.2.", "2001:db8:"))

    def digest(value):
        return "hmac:" + hmac.new(SECRET.encode(), value.encode(), hashlib.sha256).hexdigest()[:16]

    keys = {x["key"]: x["address"] for x in lines}
    if how == "hash":
        assert keys[digest("ip=192.0.2.8")] == digest("192.0.2.8")
    else:
        assert keys == {"ip=192.*": "192.*", "ip=2001*": "2001*"}


def test_no_key_acts_on_who_reads_it(server, tmp_path):
    """Turned around, hidden, or at the end of a line for an editor: it stands as \\u, in the log and in answers."""
    path = tmp_path / "denials.jsonl"
    one = server(POLICY % (path, "1h"))
    name = "ann\u202egnp.exe\u2028\u2029\u200b\u2066\ufeff\x1b[2J\x9b\U000e0041"
    with one.resp() as r, one.http() as h:
        r.send(encode("SLUICE.ADMIT", 2, "user", name) * 1000)  # so many that the top has it for minutes
        assert not any(r.read()[0] for _ in range(1000))
        lines = wait_until(lambda: len(x := lines_of(path)) == 2 and x, "two lines in the log")
        assert [x["key"] for x in lines] == ["user=" + name] * 2
        assert path.read_bytes().isascii() and b"\\u202e" in path.read_bytes()
        for listed, *ask in (["entries", "GET", "/v1/top"],
                             ["limits", "POST", "/v1/admit", json.dumps({"attributes": {"user": name}})]):
            h.connection.request(*ask)
            body = h.connection.getresponse().read()
            assert body.isascii() and json.loads(body)[listed][0]["key"] == "user=" + name, body


def test_a_flood_of_keys_is_held_to_lines_a_second(server, tmp_path):
    path = tmp_path / "denials.jsonl"
    one = server(POLICY % (path, "1ms"))
    with one.resp() as r:
        for i in range(2000):
            assert r.call("SLUICE.ADMIT", 2, "user", f"u{i}")[0] == 0
    one.stop()
    lines = lines_of(path)
    seconds = {x["time"][:19] for x in lines}
    for observed in (False, True):  # what is only observed has lines of its own, and takes none from a denial
        mine = [x for x in lines if x["observed"] is observed]
        assert 1 <= len(mine) <= 5 * len(seconds)
        assert all(sum(x["time"].startswith(s) for x in mine) <= 5 for s in seconds)


def test_a_rotated_file_is_begun_anew(server, tmp_path):
    path = tmp_path / "denials.jsonl"
    one = server(POLICY % (path, "1h"))
    with one.resp() as r:
        r.call("SLUICE.ADMIT", 2, "user", "ann")
        wait_until(lambda: len(lines_of(path)) == 2, "two lines in the log")
        os.rename(path, tmp_path / "old")
        r.call("SLUICE.ADMIT", 2, "user", b"b\xffn")
        lines = wait_until(lambda: path.exists() and len(x := lines_of(path)) == 2 and x, "two lines in the new file")
    assert [x["key_hex"] for x in lines] == [b"user=b\xffn".hex()] * 2
    assert [x["key"] for x in lines_of(tmp_path / "old")] == ["user=ann"] * 2


def start_in_vain(sluice_bin, tmp_path, log, **options):
    """What a server says that does not start, with this log of denials; and what --check-config says, which agrees."""
    path = tmp_path / "policy.yaml"
    path.write_text(f"log: {{denials: {log}}}\nlimits: []\n")
    said = [subprocess.run([sluice_bin, "serve", *check, "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "-c", path],
                           capture_output=True, text=True, timeout=DEADLINE_S, check=False, **options)
            for check in ([], ["--check-config"])]
    assert [x.returncode for x in said] == [2, 2]
    return [x.stderr for x in said]


def test_a_log_that_cannot_be_opened_is_all_that_is_said(sluice_bin, tmp_path):
    log = f"{tmp_path}/nowhere/denials"
    said, checked = start_in_vain(sluice_bin, tmp_path, log)
    assert said == f"sluice: denial log {log}: opening it: No such file or directory\n"
    assert checked == f"sluice: log.denials: {log} can't be written: No such file or directory\n"
