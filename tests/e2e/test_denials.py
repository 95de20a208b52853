"""The denial log of a running server: who is in it, how often, and what becomes of the file."""

import hashlib
import hmac
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile

import pytest
from harness import DEADLINE_S, Lines, Resp, encode, wait_until

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


@pytest.mark.parametrize("number", [0, 9])
def test_a_descriptor_that_takes_no_lines_is_refused(sluice_bin, tmp_path, number):
    """Standard input for reading only; and one that is not open."""
    with open(os.devnull, "rb") as null:
        said, checked = start_in_vain(sluice_bin, tmp_path, f"/dev/fd/{number}", stdin=null)
    assert said == f"sluice: denial log /dev/fd/{number}: opening it: Bad file descriptor\n"
    assert checked == f"sluice: log.denials: /dev/fd/{number} can't be written: Bad file descriptor\n"


# ---- standard error ----------------------------------------------------------------------------------------------

ON_STDERR = "log: {denials: /dev/stderr, denials-per-key: 0s, denials-per-second: 1000000, denials-size: 1MiB}\n" \
            "limits: [{name: login, key: user, limit: sliding-log 1/1h}]\n"


def keys_of(text):
    lines = [json.loads(x) for x in text.splitlines() if x.startswith("{")]
    for line in lines:
        hold_to_schema(line)
    return [x["key"] for x in lines]


def test_standard_error_may_be_a_socket(sluice_bin, tmp_path):
    """As systemd gives it to a service. A reload and a hot upgrade keep it; nobody reading it costs lines only."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"store: {{file: {tmp_path}/store, memory: 8MiB}}\n" + ON_STDERR)
    ours, theirs = socket.socketpair()
    command = [sluice_bin, "serve", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "-c", policy]
    done = subprocess.run([*command, "--check-config"], stderr=theirs, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs)
    pid = process.pid
    theirs.close()
    said = Lines(ours.makefile("rb"))
    try:
        said.wait_for(lambda line: line == "sluice: ready")
        port = int(re.search(r"resp on 127\.0\.0\.1:(\d+)", said.text())[1])
        with Resp(port) as r:
            r.call("SLUICE.ADMIT", 2, "user", "ann")
        said.wait_for(lambda line: '"user=ann"' in line)
        os.kill(pid, signal.SIGHUP)
        said.wait_for(lambda line: line.startswith("sluice: loaded "))
        os.kill(pid, signal.SIGUSR2)
        said.wait_for(lambda line: " has taken over: " in line)
        pid = int(re.search(r"process (\d+) has taken over", said.text())[1])
        assert process.wait(DEADLINE_S) == 0
        with Resp(port) as r:
            r.call("SLUICE.ADMIT", 2, "user", "ben")
        said.wait_for(lambda line: '"user=ben"' in line)
    finally:
        os.kill(pid, signal.SIGTERM)
        said.thread.join(DEADLINE_S)
        ours.close()
        process.wait(DEADLINE_S)
    assert said.ended and keys_of(said.text()) == ["user=ann", "user=ben"], said.text()


def test_standard_error_is_never_rotated(sluice_bin, tmp_path):
    """A file of another user, not opened for appending: all that both logs write stands in it. As no server may rename
    the machine's /dev/stderr, none here could."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # for another user
        path, policy = pathlib.Path(folder, "stderr"), pathlib.Path(folder, "policy.yaml")
        policy.write_text(ON_STDERR)
        with open(path, "wb") as stderr:
            os.chmod(path, 0o666)
            process = subprocess.Popen(
                [sluice_bin, "serve", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "-c", policy], stderr=stderr,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd="/",
                **({"user": 65534, "group": 65534} if os.getuid() == 0 else {}))
        names = [f"{i:04}" + 900 * "k" for i in range(2000)]  # more than 1 MiB
        try:
            wait_until(lambda: "sluice: ready\n" in path.read_text() or process.poll() is not None, "no server")
            before = path.read_text()
            with Resp(int(re.search(r"resp on 127\.0\.0\.1:(\d+)", before)[1])) as r:
                for i in range(0, len(names), 100):  # as many as the log's buffer has room for
                    r.send(b"".join(encode("SLUICE.ADMIT", 2, "user", name) for name in names[i:i + 100]))
                    assert not any(r.read()[0] for _ in range(100))
                    wait_until(lambda: f'"user={names[i + 99]}"' in path.read_text(), "no lines")  # noqa: B023
        finally:
            process.terminate()
            status = process.wait(DEADLINE_S)
        text = path.read_text()
    assert status == 0 and text.startswith(before) and keys_of(text) == ["user=" + name for name in names]
    assert "sluice: SIGTERM: ending\n" in text and "denial log" not in text
